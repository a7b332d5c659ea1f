/**
 * A storage whose power may go: what a cut may leave of what was written behind the last sync.
 *
 * Invariant: pieces of 512 bytes land, or do not, each by itself; one may be torn at any
 * byte. This is more than a disk does, and no less.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import type { Storage } from '../../../boards/flash/storage.ts'

const SECTOR_BYTES = 512
/** Up to so many pieces every subset of them is an outcome; of more so many are drawn. */
const SUBSETS_OF = 8
const DRAWN = 64
/** Pieces up to so long are torn at every byte; longer ones, and two at once, at these. */
const TORN_EVERYWHERE = 128
const LONG_TEARS: readonly number[] = [1, 3, 4, 5, 63, 255, 511]
const PAIR_TEARS: readonly number[] = [1, 17, 40, 100]

export class PowerCut extends Error {
  override readonly name = 'PowerCut'
}

interface Piece {
  readonly at: number
  readonly bytes: Uint8Array
}

export class CutStorage implements Storage {
  readonly bytes: number
  /** Calls that change something, so far; at this one the power goes. */
  calls = 0
  cutAt: number = Number.POSITIVE_INFINITY
  private readonly durable: Uint8Array
  private readonly live: Uint8Array
  private pending: Piece[] = []

  constructor(durable: Uint8Array) {
    this.bytes = durable.length
    this.durable = durable.slice()
    this.live = durable.slice()
  }

  private count(): void {
    if (this.calls === this.cutAt) throw new PowerCut()
    this.calls++
  }

  read(at: number, length: number): Uint8Array {
    return this.live.slice(at, at + length)
  }

  write(at: number, bytes: Uint8Array): void {
    this.count()
    this.live.set(bytes, at)
    for (let from = 0; from < bytes.length; ) {
      const end = Math.min(bytes.length, from + SECTOR_BYTES - ((at + from) % SECTOR_BYTES))
      this.pending.push({ at: at + from, bytes: bytes.slice(from, end) })
      from = end
    }
  }

  sync(): void {
    this.count()
    this.durable.set(this.live)
    this.pending = []
  }

  /** What is durable. */
  image(): Uint8Array {
    return this.durable.slice()
  }

  /** What a cut now may leave; `torn`: with one or two of the pieces torn, too. */
  *outcomes(random: Random, torn = true): Generator<Uint8Array> {
    const { pending } = this
    const isFew = pending.length <= SUBSETS_OF
    const whole = (piece: number): number => pending[piece]!.bytes.length
    for (let n = 0; n < (isFew ? 2 ** pending.length : DRAWN); n++) {
      const drawn = pending.map(() => random.chance(0.5))
      yield this.after((i) => ((isFew ? (n >> i) & 1 : drawn[i]) ? whole(i) : 0))
    }
    if (!torn) return
    for (const tear of [...this.tears(), ...this.pairs()]) {
      for (const others of [true, false]) {
        yield this.after((i) => tear.get(i) ?? (others ? whole(i) : 0))
      }
    }
  }

  /** One piece, and where it is torn. */
  private *tears(): Generator<ReadonlyMap<number, number>> {
    for (const [piece, { bytes }] of this.pending.entries()) {
      const ends = bytes.length <= TORN_EVERYWHERE ? [...bytes.keys()].slice(1) : LONG_TEARS
      for (const end of ends) if (end < bytes.length) yield new Map([[piece, end]])
    }
  }

  /** Two pieces, likewise. */
  private *pairs(): Generator<ReadonlyMap<number, number>> {
    const count = Math.min(this.pending.length, SUBSETS_OF)
    for (let one = 0; one < count; one++) {
      for (let other = one + 1; other < count; other++) {
        for (const end of PAIR_TEARS) {
          for (const otherEnd of PAIR_TEARS)
            yield new Map([
              [one, end],
              [other, otherEnd],
            ])
        }
      }
    }
  }

  private after(kept: (piece: number) => number): Uint8Array {
    const bytes = this.durable.slice()
    for (const [i, { at, bytes: piece }] of this.pending.entries()) {
      bytes.set(piece.subarray(0, kept(i)), at)
    }
    return bytes
  }
}
