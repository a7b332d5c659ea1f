/**
 * The one source of chance in the emulator: xoshiro128** by Blackman and Vigna, its state filled
 * by splitmix32 from a seed of up to 53 bits.
 *
 * Invariant: the same seed gives the same numbers on every machine and every version, so
 * a failure is replayed from the seed that it printed. Nothing here is fit for secrets that have to
 * last: who knows the seed, or tries all of them, has every number.
 */

import { randomInt } from 'node:crypto'
import { check, NUMBER } from './arguments.ts'

const HALF = 2 ** 32

/** A seed that nobody can guess, 48 bits of the system's chance. */
export function drawnSeed(): number {
  return randomInt(2 ** 48 - 1)
}

export class Random {
  private a: number
  private b: number
  private c: number
  private d: number

  /** `seed`: any number; its low 53 bits count. */
  constructor(seed: number) {
    check('seed', seed, NUMBER)
    const high = Math.floor(Math.abs(seed) / HALF) | 0
    const [low, more] = [mixer(seed | 0), mixer(~high)]
    // Most seeds have 32 bits, and give what they always gave.
    const fill = (): number => (high === 0 ? low() : low() ^ more())
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

/** Numbers of 32 bits by splitmix32. */
function mixer(seed: number): () => number {
  let mixing = seed
  return () => {
    mixing = (mixing + 0x9e3779b9) | 0
    let z = mixing
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad)
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97)
    return z ^ (z >>> 15)
  }
}
