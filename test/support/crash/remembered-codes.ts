/**
 * Check codes, found again by what they were made of: from one crash image to the next most of what
 * a start checks is the same.
 *
 * Invariant: a code is given only for the same bytes under the same key, all of them
 * compared. What is kept in a place goes for what comes there next.
 */

const CODE_WORDS = 4
const KEY_WORDS = 4

/** Up to so many words there are many places; what is longer, pages, has a few. */
const SHORT_WORDS = 32
const SHORT_PLACES = 1024
const LONG_PLACES = 4

/** Of a place: the length, the code, the key; then the words. */
const CODE = 1
const KEY = CODE + CODE_WORDS
const WORDS = KEY + KEY_WORDS

export class RememberedCodes {
  private readonly short: Int32Array = new Int32Array(SHORT_PLACES * (WORDS + SHORT_WORDS))
  private readonly long: Int32Array[] = []
  private next = 0
  /** Where the last look has not found what it looked for, and `keep` puts the code. */
  private place: Int32Array = this.short
  private at = 0

  /**
   * Puts the code of `count` words of `source` into `words` at `to`, if it is known under the key
   * that stands in `words`, too.
   */
  find(
    source: Int32Array,
    from: number,
    count: number,
    words: Int32Array,
    key: number,
    to: number,
  ): boolean {
    if (count > SHORT_WORDS) return this.findLong(source, from, count, words, key, to)
    const { short } = this
    let hash = words[key]!
    for (let i = from; i < from + count; i++) hash = Math.imul(hash ^ source[i]!, 0x9e3779b1)
    hash ^= hash >>> 15
    const at = (hash & (SHORT_PLACES - 1)) * (WORDS + SHORT_WORDS)
    if (isThere(short, at, source, from, count, words, key)) {
      give(short, at, words, to)
      return true
    }
    this.place = short
    this.at = at
    note(short, at, source, from, count, words, key)
    return false
  }

  private findLong(
    source: Int32Array,
    from: number,
    count: number,
    words: Int32Array,
    key: number,
    to: number,
  ): boolean {
    const { long } = this
    for (let i = 0; i < long.length; i++) {
      if (!isThere(long[i]!, 0, source, from, count, words, key)) continue
      give(long[i]!, 0, words, to)
      return true
    }
    const place = new Int32Array(WORDS + count)
    note(place, 0, source, from, count, words, key)
    long[this.next] = place
    this.next = (this.next + 1) % LONG_PLACES
    this.place = place
    this.at = 0
    return false
  }

  /** The code that the last look did not find is the words at `to`. */
  keep(words: Int32Array, to: number): void {
    const { place, at } = this
    for (let i = 0; i < CODE_WORDS; i++) place[at + CODE + i] = words[to + i]!
  }
}

function isThere(
  place: Int32Array,
  at: number,
  source: Int32Array,
  from: number,
  count: number,
  words: Int32Array,
  key: number,
): boolean {
  if (place[at] !== count) return false
  for (let i = 0; i < KEY_WORDS; i++) if (place[at + KEY + i] !== words[key + i]) return false
  for (let i = 0; i < count; i++) if (place[at + WORDS + i] !== source[from + i]) return false
  return true
}

function give(place: Int32Array, at: number, words: Int32Array, to: number): void {
  for (let i = 0; i < CODE_WORDS; i++) words[to + i] = place[at + CODE + i]!
}

function note(
  place: Int32Array,
  at: number,
  source: Int32Array,
  from: number,
  count: number,
  words: Int32Array,
  key: number,
): void {
  place[at] = count
  for (let i = 0; i < KEY_WORDS; i++) place[at + KEY + i] = words[key + i]!
  for (let i = 0; i < count; i++) place[at + WORDS + i] = source[from + i]!
}
