/**
 * Memory of work requests over a wire: plain memory of this process, named as a card would name it.
 *
 * Invariants:
 * - An address belongs to one region only, and is not given out again.
 * - A piece is looked at when it is used, so what a region holds by then is what is sent; bytes
 *   that are INLINE, or in several pieces, are copied.
 */

import { copyOf } from '../../base/bytes.ts'
import type { MemoryPort } from '../../way/verbs-way.ts'
import type { Range } from '../../way/work-request.ts'

/** Regions begin at multiples of it, with one between them that belongs to nobody. */
const PAGE_BYTES = 4096

interface Piece {
  readonly addr: number
  readonly bytes: Uint8Array
}

export class WireMemory {
  private readonly pieces = new Map<number, Piece>()
  private nextKey = 1
  private nextAddr = PAGE_BYTES

  register(length: number): MemoryPort {
    const bytes = new Uint8Array(length)
    const lkey = this.nextKey++
    const addr = this.nextAddr
    this.nextAddr += (Math.ceil(length / PAGE_BYTES) + 1) * PAGE_BYTES
    this.pieces.set(lkey, { addr, bytes })
    return {
      ...{ lkey, addr, length },
      store: (from, at) => bytes.set(from, at),
      load: (at, count) => copyOf(bytes.subarray(at, at + count)),
      free: async () => void this.pieces.delete(lkey),
    }
  }

  /** The memory of a piece that was checked; of a region that was given back since, no matter. */
  private at({ address, length, lkey }: Range): Uint8Array {
    const piece = this.pieces.get(lkey)
    if (piece === undefined) return new Uint8Array(length)
    return piece.bytes.subarray(address - piece.addr, address - piece.addr + length)
  }

  /** The bytes of pieces: where they lie, or a copy of them as they are now. */
  gather(ranges: readonly Range[], copied: boolean): Uint8Array {
    if (ranges.length === 1 && !copied) return this.at(ranges[0]!)
    const parts = ranges.map((range) => this.at(range))
    const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0))
    let at = 0
    for (const part of parts) {
      bytes.set(part, at)
      at += part.length
    }
    return bytes
  }

  /** Puts what a READ brought, or a message, where it belongs. */
  scatter(ranges: readonly Range[], bytes: Uint8Array): void {
    let at = 0
    for (const range of ranges) {
      this.at(range).set(bytes.subarray(at, at + range.length))
      at += range.length
    }
  }
}
