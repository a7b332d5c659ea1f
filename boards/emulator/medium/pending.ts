/**
 * The stores that have not reached the persistence domain: a log, and per line what is pending.
 *
 * Invariants:
 * - One entry is one store within one line: the mask of the chunks that it touched. Entries stand
 *   in store order. `latest` chains the entries of a line, newest first; numbers in it and in
 *   `previous` are the entry plus one, so that zeroed memory means none.
 * - What a chunk held before an entry is in the entry's before-image, a copy of the line, if the
 *   chunk was pending already; else it is what is durable. After the newest entry of a chunk it
 *   holds what loads see. Every version is thereby exact, and a line that is stored once between
 *   two fences, the usual case, is never copied for it.
 * - `cleanedTo[line]` is the length of the log when the write-back of the line was last started:
 *   entries below are covered by the next fence, entries from there on are not. Zero: not started.
 * - `entries` counts the entries that are still pending; an entry that is not has mask 0.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'

const LINE_WORDS = LINE_BYTES / 4

/** In an entry's mask: this store rewrote a whole line whose media error had been cleared. */
export const HEALS = 0x100

/** A log that was put aside: its entries, and per entry the state of its line. */
interface Suspended {
  readonly entries: number
  readonly line: Int32Array
  readonly mask: Uint16Array
  readonly previous: Int32Array
  readonly before: Int32Array
  readonly images: Int32Array
  readonly cleaned: Int32Array
  readonly chunks: Int32Array
  readonly latest: Int32Array
  readonly cleanedTo: Int32Array
}

export class Pending {
  count = 0
  entries = 0
  line: Int32Array = new Int32Array(256)
  mask: Uint16Array = new Uint16Array(256)
  previous: Int32Array = new Int32Array(256)
  /** Number of the before-image, or -1. */
  before: Int32Array = new Int32Array(256)
  imageCount = 0
  images: Int32Array = new Int32Array(16 * LINE_WORDS)

  readonly chunks: Uint8Array
  readonly latest: Int32Array
  readonly cleanedTo: Int32Array
  cleanedCount = 0
  cleaned: Int32Array = new Int32Array(256)

  constructor(lineCount: number) {
    this.chunks = new Uint8Array(lineCount)
    this.latest = new Int32Array(lineCount)
    this.cleanedTo = new Int32Array(lineCount)
  }

  /** Makes room for `count` more entries. */
  reserve(count: number): void {
    const wanted = this.count + count
    if (wanted <= this.line.length) return
    const length = Math.max(wanted, 2 * this.line.length)
    this.line = grown(this.line, new Int32Array(length))
    this.mask = grown(this.mask, new Uint16Array(length))
    this.previous = grown(this.previous, new Int32Array(length))
    this.before = grown(this.before, new Int32Array(length))
  }

  /** Enters a store into `line`, which still holds the words at `wordAt` of `words`. */
  append(line: number, mask: number, words: Int32Array): void {
    const entry = this.count++
    this.entries++
    const pending = this.chunks[line]!
    this.before[entry] = (pending & mask) === 0 ? -1 : this.saveImage(words, line * LINE_WORDS)
    this.line[entry] = line
    this.mask[entry] = mask
    this.previous[entry] = this.latest[line]!
    this.latest[line] = entry + 1
    this.chunks[line] = pending | mask
  }

  private saveImage(words: Int32Array, wordAt: number): number {
    const image = this.imageCount++
    const at = image * LINE_WORDS
    if (at === this.images.length) this.images = grown(this.images, new Int32Array(2 * at))
    for (let i = 0; i < LINE_WORDS; i++) this.images[at + i] = words[wordAt + i]!
    return image
  }

  /** Starts the write-back of a line; what is not pending needs none. */
  clean(line: number): void {
    if (this.chunks[line] === 0) return
    if (this.cleanedTo[line] === 0) {
      if (this.cleanedCount === this.cleaned.length) {
        this.cleaned = grown(this.cleaned, new Int32Array(2 * this.cleanedCount))
      }
      this.cleaned[this.cleanedCount++] = line
    }
    this.cleanedTo[line] = this.count
  }

  /** Takes the entries of `line` below `end` out; true if one of them healed the line. */
  drop(line: number, end: number): boolean {
    const only = this.latest[line]! - 1
    if (only < end && this.previous[only] === 0 && this.mask[only]! < HEALS) {
      // Stored once since it was last durable: nearly always so.
      this.mask[only] = 0
      this.entries--
      this.latest[line] = 0
      this.chunks[line] = 0
      return false
    }
    let healed = false
    let chunks = 0
    let newer = -1
    for (let at = this.latest[line]! - 1; at >= 0; at = this.previous[at]! - 1) {
      if (at >= end) {
        chunks |= this.mask[at]! & 0xff
        newer = at
        continue
      }
      if (newer >= 0) this.previous[newer] = 0
      if (this.mask[at]! >= HEALS) healed = true
      this.mask[at] = 0
      this.entries--
    }
    if (newer < 0) this.latest[line] = 0
    this.chunks[line] = chunks
    return healed
  }

  /**
   * Rewinds the lines of `words`, a copy of a line as loads see it, to what it held before every
   * entry from `end` on; `durable` at `wordAt` is what stood under them all.
   */
  rewind(words: Int32Array, line: number, end: number, durable: Int32Array): void {
    for (let at = this.latest[line]! - 1; at >= end; at = this.previous[at]! - 1) {
      const image = this.before[at]!
      for (let chunk = 0; chunk < 8; chunk++) {
        if ((this.mask[at]! & (1 << chunk)) === 0) continue
        const from = image < 0 ? durable : this.images
        const fromAt = (image < 0 ? line : image) * LINE_WORDS + 2 * chunk
        words[2 * chunk] = from[fromAt]!
        words[2 * chunk + 1] = from[fromAt + 1]!
      }
    }
  }

  /** After a fence: gives back the room of what is no longer pending. Nothing is cleaned now. */
  compact(): void {
    this.cleanedCount = 0
    if (this.entries === 0) {
      this.count = 0
      this.imageCount = 0
      return
    }
    for (let from = 0; from < this.count; from++) {
      if (this.mask[from] !== 0) this.latest[this.line[from]!] = 0
    }
    let to = 0
    let image = 0
    for (let from = 0; from < this.count; from++) {
      if (this.mask[from] === 0) continue
      const line = this.line[from]!
      this.line[to] = line
      this.mask[to] = this.mask[from]!
      this.previous[to] = this.latest[line]!
      this.latest[line] = to + 1
      const saved = this.before[from]!
      this.before[to] = saved < 0 ? -1 : image
      if (saved >= 0) {
        const at = saved * LINE_WORDS
        this.images.copyWithin(image++ * LINE_WORDS, at, at + LINE_WORDS)
      }
      to++
    }
    this.count = to
    this.imageCount = image
  }

  /** Puts everything that is pending aside. */
  suspend(): Suspended {
    const { count, entries, imageCount, cleanedCount } = this
    const lines = this.line.slice(0, count)
    const suspended = {
      entries,
      line: lines,
      mask: this.mask.slice(0, count),
      previous: this.previous.slice(0, count),
      before: this.before.slice(0, count),
      images: this.images.slice(0, imageCount * LINE_WORDS),
      cleaned: this.cleaned.slice(0, cleanedCount),
      chunks: lines.map((line) => this.chunks[line]!),
      latest: lines.map((line) => this.latest[line]!),
      cleanedTo: lines.map((line) => this.cleanedTo[line]!),
    }
    this.clear()
    return suspended
  }

  /** Brings back what was put aside; nothing may be pending. */
  resume(from: Suspended): void {
    this.reserve(from.line.length)
    this.line.set(from.line)
    this.mask.set(from.mask)
    this.previous.set(from.previous)
    this.before.set(from.before)
    this.images.set(from.images)
    this.cleaned.set(from.cleaned)
    this.count = from.line.length
    this.entries = from.entries
    this.imageCount = from.images.length / LINE_WORDS
    this.cleanedCount = from.cleaned.length
    for (let at = 0; at < this.count; at++) {
      const line = from.line[at]!
      this.chunks[line] = from.chunks[at]!
      this.latest[line] = from.latest[at]!
      this.cleanedTo[line] = from.cleanedTo[at]!
    }
  }

  /** Forgets everything that is pending. */
  clear(): void {
    for (let at = 0; at < this.count; at++) {
      const line = this.line[at]!
      this.chunks[line] = 0
      this.latest[line] = 0
      this.cleanedTo[line] = 0
    }
    this.count = 0
    this.entries = 0
    this.imageCount = 0
    this.cleanedCount = 0
  }
}

function grown<T extends Int32Array | Uint16Array>(from: T, into: T): T {
  into.set(from)
  return into
}
