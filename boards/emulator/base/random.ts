/**
 * The one source of chance in the emulator: xoshiro128** by Blackman and Vigna, its state filled
 * by splitmix32 from a 32-bit seed.
 *
 * Invariant: the same seed gives the same numbers on every machine and every version, so
 * a failure is replayed from the seed that it printed. Nothing here is fit for secrets.
 */

import { check, NUMBER } from './arguments.ts'

export class Random {
  private a: number
  private b: number
  private c: number
  private d: number

  /** `seed`: any number; its low 32 bits count. */
  constructor(seed: number) {
    check('seed', seed, NUMBER)
    let mixing = seed | 0
    const fill = (): number => {
      mixing = (mixing + 0x9e3779b9) | 0
      let z = mixing
      z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
      z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
      return z ^ (z >>> 15)
    }
    this.a = fill()
    this.b = fill()
    this.c = fill()
    this.d = fill()
  }

  /** The next number of 32 bits, unsigned. */
  next(): number {
    const five = Math.imul(this.b, 5)
    const result = Math.imul((five << 7) | (five >>> 25), 9)
    const shifted = this.b << 9
    this.c ^= this.a
    this.d ^= this.b
    this.b ^= this.c
    this.a ^= this.d
    this.c ^= shifted
    this.d = (this.d << 11) | (this.d >>> 21)
    return result >>> 0
  }

  /** A number in [0, count), `count` from 1 to 2^32; the bias is below 2^-32 of each value. */
  below(count: number): number {
    return Math.floor((this.next() / 2 ** 32) * count)
  }

  /** True with this probability, from 0 (never) to 1 (always). */
  chance(probability: number): boolean {
    return this.next() / 2 ** 32 < probability
  }

  /** Another generator, whose numbers have nothing to do with the rest of this one's. */
  fork(): Random {
    return new Random(this.next())
  }

  /** Fills [at, at + length) with chance. */
  fill(bytes: Uint8Array, at: number, length: number): void {
    for (let i = 0; i < length; i++) bytes[at + i] = this.next() >>> 24
  }
}
