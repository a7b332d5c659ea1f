/**
 * The IOMMU of the host, where the card uses virtual addresses (shared virtual addressing): tables
 * of pages, one for each address space that is bound to a number.
 *
 * Invariant: an access is translated when it is made, by the table of that moment, and never by an
 * earlier one; what has no translation reaches no byte, and is counted as a fault.
 */

import { IOMMU_PAGE_BYTES } from './pcie.ts'

/** Nothing is there. */
export const NO_TRANSLATION = -1

export class Iommu {
  /** Accesses that were translated, and that met no page. */
  readonly counts: { translated: number; faults: number } = { translated: 0, faults: 0 }
  private readonly spaces = new Map<number, Map<number, number>>()

  /** The page at `address` of that space lies at `at` of the memory. */
  map(space: number, address: number, at: number): void {
    let pages = this.spaces.get(space)
    if (pages === undefined) {
      pages = new Map()
      this.spaces.set(space, pages)
    }
    pages.set(Math.floor(address / IOMMU_PAGE_BYTES), at)
  }

  unmap(space: number, address: number): void {
    this.spaces.get(space)?.delete(Math.floor(address / IOMMU_PAGE_BYTES))
  }

  /** The host has started again. */
  clear(): void {
    this.spaces.clear()
  }

  /** Where that byte lies in the memory, or NO_TRANSLATION. */
  translate(space: number, address: number): number {
    const at = this.spaces.get(space)?.get(Math.floor(address / IOMMU_PAGE_BYTES))
    if (at === undefined) {
      this.counts.faults++
      return NO_TRANSLATION
    }
    this.counts.translated++
    return at + (address % IOMMU_PAGE_BYTES)
  }
}
