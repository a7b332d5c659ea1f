/**
 * Which pages of a memory the card has read and written: the accessed and the dirty bits that an
 * IOMMU keeps beside its translations (VT-d, second-level accessed and dirty flags).
 *
 * Invariant: a write of the card is marked when it is in the memory, not before; a mark
 * stays until it is taken.
 */

import { IOMMU_PAGE_BYTES } from './pcie.ts'

const ACCESSED = 1
const DIRTY = 2

export class PageMarks {
  private readonly marks: Uint8Array

  constructor(bytes: number) {
    this.marks = new Uint8Array(Math.ceil(bytes / IOMMU_PAGE_BYTES))
  }

  read(at: number, length: number): void {
    this.set(at, length, ACCESSED)
  }

  write(at: number, length: number): void {
    this.set(at, length, ACCESSED | DIRTY)
  }

  private set(at: number, length: number, mark: number): void {
    const last = Math.floor((at + Math.max(1, length) - 1) / IOMMU_PAGE_BYTES)
    for (let page = Math.floor(at / IOMMU_PAGE_BYTES); page <= last; page++) {
      this.marks[page]! |= mark
    }
  }

  /** Whether the page at `at` was reached at all since this was asked last. */
  takeAccessed(at: number): boolean {
    return this.take(at, ACCESSED)
  }

  /** Whether it was written since this was asked last. */
  takeDirty(at: number): boolean {
    return this.take(at, DIRTY)
  }

  private take(at: number, mark: number): boolean {
    const page = at / IOMMU_PAGE_BYTES
    const had = (this.marks[page]! & mark) !== 0
    this.marks[page]! &= ~mark
    return had
  }
}
