/**
 * What was worked out of some bytes, found again by the bytes themselves.
 *
 *     const known = new Known<Lane>(64, readLane)
 *     known.of(part, at)   // readLane of those 64 bytes, called once for each content
 *
 * Invariant: all bytes are compared, so other bytes never give what these gave; and a look
 * that finds makes nothing, no key and no view.
 */

interface Entry<T> {
  readonly hash: number
  readonly bytes: Uint8Array
  readonly value: T
}

const PLACES = 64

export class Known<T> {
  private readonly length: number
  private readonly make: (bytes: Uint8Array) => T
  private places: (Entry<T> | undefined)[] = new Array<Entry<T> | undefined>(PLACES).fill(undefined)
  private size = 0

  /** Of so many bytes each, a multiple of 4; `make` gets a copy that is its own. */
  constructor(length: number, make: (bytes: Uint8Array) => T) {
    this.length = length
    this.make = make
  }

  /** What was made of the bytes at `at`. */
  of(from: Uint8Array, at: number): T {
    const { length, places } = this
    const hash = hashOf(from, at, length)
    const mask = places.length - 1
    let place = hash & mask
    for (;;) {
      const entry = places[place]
      if (entry === undefined) break
      if (entry.hash === hash && isThere(entry.bytes, from, at)) return entry.value
      place = (place + 1) & mask
    }
    const bytes = from.slice(at, at + length)
    const entry = { hash, bytes, value: this.make(bytes) }
    places[place] = entry
    this.size += 1
    if (2 * this.size > places.length) this.grow()
    return entry.value
  }

  private grow(): void {
    const before = this.places
    const mask = 2 * before.length - 1
    const places = new Array<Entry<T> | undefined>(mask + 1).fill(undefined)
    for (const entry of before) {
      if (entry === undefined) continue
      let place = entry.hash & mask
      while (places[place] !== undefined) place = (place + 1) & mask
      places[place] = entry
    }
    this.places = places
  }
}

function hashOf(bytes: Uint8Array, at: number, length: number): number {
  let hash = 0
  for (let i = at; i < at + length; i += 4) {
    const word = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24)
    hash = Math.imul(hash ^ word, 0x9e3779b1)
    hash ^= hash >>> 15
  }
  return hash
}

function isThere(bytes: Uint8Array, from: Uint8Array, at: number): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== from[at + i]) return false
  return true
}
