/**
 * Images told apart by 64 bits: which of them have been there, and what became of each.
 *
 * Invariant: the mark of an image is the sum over its lines of what each line holds where
 * it lies, a line of zeros counting nothing. So it does not depend on what was pending when the
 * image was made, and of an image that differs in a few lines only these are looked at. Two images
 * have the same mark by chance only: one pair in 2^64.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { LINE_BYTES } from '../judges/oracle.ts'

const LINE_WORDS = 16

/** Two sums of 32 bits. */
export interface Mark {
  low: number
  high: number
}

/** Adds what a line holds to the mark. */
function addLine(mark: Mark, words: Int32Array, line: number): void {
  let low = Math.imul(line + 1, 0x9e3779b1)
  let high = Math.imul(line + 1, 0x85ebca77) ^ 0x5bd1e995
  let any = 0
  const end = (line + 1) * LINE_WORDS
  for (let i = line * LINE_WORDS; i < end; i++) {
    const word = words[i]!
    any |= word
    low = Math.imul(low ^ word, 0x85ebca6b)
    low ^= low >>> 15
    high = Math.imul(high + word, 0xc2b2ae35)
    high ^= high >>> 13
  }
  if (any === 0) return
  low = Math.imul(low ^ (high >>> 16), 0x27d4eb2f)
  high = Math.imul(high ^ (low >>> 15), 0x165667b1)
  mark.low = (mark.low + (low ^ (low >>> 13))) | 0
  mark.high = (mark.high + (high ^ (high >>> 16))) | 0
}

/** Lines of the part in which something is pending. */
export function linesPending({ pendingStores: { line, count } }: Nvdimm): number[] {
  return [...new Set(line.subarray(0, count))]
}

/** The mark of an image of the part, of which only these lines differ from one to the next. */
export function markerOf({ durableWords, bytes }: Nvdimm, lines: readonly number[]): () => Mark {
  const among = new Set(lines)
  const rest: Mark = { low: 0, high: 0 }
  for (let line = 0; line < bytes / LINE_BYTES; line++) {
    if (!among.has(line)) addLine(rest, durableWords, line)
  }
  const mark: Mark = { low: 0, high: 0 }
  return () => {
    mark.low = rest.low
    mark.high = rest.high
    for (const line of lines) addLine(mark, durableWords, line)
    return mark
  }
}

/** A number for each mark, by open addressing. */
export class ImageTable {
  size = 0
  private keys: Int32Array = new Int32Array(2 ** 11)
  private values: Int32Array = new Int32Array(2 ** 10)

  /** The number that was put under the mark; -1 if there is none. */
  get({ low, high }: Mark): number {
    const place = this.placeOf(low, high)
    return this.values[place]! - 1
  }

  /** Puts a number, 0 or more, under the mark. False if there was one already. */
  put(mark: Mark, value: number): boolean {
    const place = this.placeOf(mark.low, mark.high)
    const is = this.values[place] === 0
    this.keys[2 * place] = mark.low
    this.keys[2 * place + 1] = mark.high
    this.values[place] = value + 1
    if (is) {
      this.size += 1
      if (2 * this.size > this.values.length) this.grow()
    }
    return is
  }

  private placeOf(low: number, high: number): number {
    const { keys, values } = this
    const mask = values.length - 1
    let place = (low ^ (high >>> 7)) & mask
    while (values[place] !== 0 && (keys[2 * place] !== low || keys[2 * place + 1] !== high)) {
      place = (place + 1) & mask
    }
    return place
  }

  private grow(): void {
    const { keys, values } = this
    this.keys = new Int32Array(2 * keys.length)
    this.values = new Int32Array(2 * values.length)
    for (let i = 0; i < values.length; i++) {
      if (values[i] === 0) continue
      const place = this.placeOf(keys[2 * i]!, keys[2 * i + 1]!)
      this.keys[2 * place] = keys[2 * i]!
      this.keys[2 * place + 1] = keys[2 * i + 1]!
      this.values[place] = values[i]!
    }
  }
}
