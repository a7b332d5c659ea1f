/**
 * The memory of a queue: units of 64 bytes, used in a ring (P3-2, P3-23).
 *
 * Invariant: unit number n stands at place n modulo the depth, which is a power of two, so
 * numbers may wrap at 2^32. A ring changes nothing outside itself.
 */

import type { SharedMemory } from '../../../boards/host-port.ts'
import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { ahead } from '../../../firmware/host/queue-info.ts'

/** The number `count` behind `from`; numbers are unsigned and wrap at 2^32. */
export function plus(from: number, count: number): number {
  return (from + count) >>> 0
}

export class Ring {
  readonly at: number
  /** Units; a power of two. */
  readonly depth: number
  private readonly memory: SharedMemory

  constructor(memory: SharedMemory, at: number, depth: number) {
    this.memory = memory
    this.at = at
    this.depth = depth
  }

  /** Address of unit `number`. */
  place(number: number): number {
    return this.at + (number & (this.depth - 1)) * UNIT_BYTES
  }

  /**
   * Stores an element of whole units from unit `number` on. Its first unit, whose last word says
   * that all of it is there, is stored last.
   */
  store(number: number, element: Uint8Array): void {
    if (element.length > UNIT_BYTES) {
      const behind = element.subarray(UNIT_BYTES)
      const first = plus(number, 1)
      const untilEnd = (this.depth - (first & (this.depth - 1))) * UNIT_BYTES
      this.memory.store(this.place(first), behind.subarray(0, untilEnd))
      if (behind.length > untilEnd) this.memory.store(this.at, behind.subarray(untilEnd))
    }
    this.memory.store(this.place(number), element.subarray(0, UNIT_BYTES))
  }

  /** A copy of one unit. */
  load(number: number): Uint8Array {
    return this.memory.load(this.place(number), UNIT_BYTES)
  }

  /** Copies the units from number `from` up to `end` to their places in another ring. */
  copyTo(other: Ring, from: number, end: number): void {
    const count = ahead(end, from)
    for (let i = 0; i < count; i++) {
      const number = plus(from, i)
      this.memory.store(other.place(number), this.load(number))
    }
  }

  /** Zeros: no stamp of what stood there before is taken for one of ours. */
  clear(): void {
    this.memory.store(this.at, new Uint8Array(this.depth * UNIT_BYTES))
  }
}
