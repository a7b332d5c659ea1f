/**
 * Pieces of the memory that the card reaches: for rings, and for the buffers of whoever asks.
 *
 * Invariant: pieces that are in use do not overlap; a piece begins on a line (64 bytes) and
 * is whole lines long, so no line has two users; what is free is known as the fewest pieces that it
 * can be, in order of address. While somebody holds the arena nothing that is released is given out
 * again.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { ArgumentError } from '../../base/errors.ts'
import { COUNT, check, shown } from '../../base/kinds.ts'
import { MemoryFull } from '../../way/queue-errors.ts'

interface Piece {
  readonly at: number
  readonly bytes: number
}

export class Arena {
  /** Address of its first byte, and its length in bytes: whole lines. */
  readonly at: number
  readonly bytes: number
  private readonly free: Piece[]
  private readonly used: Map<number, number> = new Map()
  /** Released while the arena was held. */
  private readonly late: Set<number> = new Set()
  private holds = 0

  constructor(at: number, bytes: number) {
    this.at = at
    this.bytes = bytes
    this.free = [{ at, bytes }]
  }

  /** Bytes that are free, in all pieces together. */
  get freeBytes(): number {
    return this.free.reduce((sum, piece) => sum + piece.bytes, 0)
  }

  /**
   * The address of a piece of `bytes` (1 or more), on a multiple of `align`, a power of two from 64
   * on. Throws MemoryFull. What stood there before is still there.
   */
  alloc(bytes: number, align: number = LINE_BYTES): number {
    check('a piece of so many bytes:', bytes, COUNT)
    if (!isPowerOfTwo(align) || align < LINE_BYTES) {
      throw new ArgumentError(`alignment ${shown(align)}: a power of two from ${LINE_BYTES} on`)
    }
    const wanted = Math.ceil(bytes / LINE_BYTES) * LINE_BYTES
    for (let i = 0; i < this.free.length; i++) {
      const piece = this.free[i]!
      const start = Math.ceil(piece.at / align) * align
      const end = piece.at + piece.bytes
      if (start + wanted > end) continue
      const rest: Piece[] = []
      if (start > piece.at) rest.push({ at: piece.at, bytes: start - piece.at })
      if (end > start + wanted) rest.push({ at: start + wanted, bytes: end - start - wanted })
      this.free.splice(i, 1, ...rest)
      this.used.set(start, wanted)
      return start
    }
    throw new MemoryFull(bytes, this.freeBytes)
  }

  /** Gives back a piece that `alloc` gave; PERDURE_ARGUMENT for any other address. */
  release(at: number): void {
    if (!this.used.has(at) || this.late.has(at)) {
      throw new ArgumentError(`no piece in use begins at ${at}`)
    }
    if (this.holds > 0) this.late.add(at)
    else this.giveBack(at)
  }

  /**
   * Keeps what is released from being given out again, until the function that is returned is
   * called: a card that was not told yet may still read it, or fill it.
   */
  hold(): () => void {
    this.holds++
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.holds--
      if (this.holds > 0) return
      for (const at of this.late) this.giveBack(at)
      this.late.clear()
    }
  }

  private giveBack(at: number): void {
    const bytes = this.used.get(at)!
    this.used.delete(at)
    let i = this.placeOf(at)
    const before = this.free[i - 1]
    const after = this.free[i]
    let start = at
    let end = at + bytes
    let joined = 0
    if (before !== undefined && before.at + before.bytes === at) {
      start = before.at
      joined++
      i--
    }
    if (after !== undefined && after.at === end) {
      end += after.bytes
      joined++
    }
    this.free.splice(i, joined, { at: start, bytes: end - start })
  }

  /** Where in `free` the first piece behind `at` stands. */
  private placeOf(at: number): number {
    let low = 0
    let high = this.free.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.free[middle]!.at < at) low = middle + 1
      else high = middle
    }
    return low
  }
}

export function isPowerOfTwo(value: number): boolean {
  return Number.isSafeInteger(value) && value > 0 && 2 ** Math.round(Math.log2(value)) === value
}

/** The least power of two that is no smaller. */
export function powerOfTwo(least: number): number {
  return 2 ** Math.ceil(Math.log2(least))
}
