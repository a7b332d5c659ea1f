/**
 * The IOMMU of the host, where the card uses virtual addresses (shared virtual addressing): tables
 * of pages, one for each address space that is bound to a number.
 *
 * Invariants:
 * - An access is translated when it is made, by the table of that moment, and never by an earlier
 *   one; what has no translation reaches no byte, and is counted as a fault.
 * - A number has the table that was bound to it last. Whoever had it before reaches it no more,
 *   whatever he takes out of his own table, or puts into it: the card may have given his number
 *   away before he hears of it.
 */

import { IOMMU_PAGE_BYTES } from './pcie.ts'

/** Nothing is there. */
export const NO_TRANSLATION = -1

/** Where the pages of one address space lie in the memory. */
export class PageTable {
  private readonly pages = new Map<number, number>()

  /** The page at `address` lies at `at` of the memory. */
  map(address: number, at: number): void {
    this.pages.set(Math.floor(address / IOMMU_PAGE_BYTES), at)
  }

  unmap(address: number): void {
    this.pages.delete(Math.floor(address / IOMMU_PAGE_BYTES))
  }

  /** Where the page of `address` lies, or NO_TRANSLATION. */
  pageAt(address: number): number {
    return this.pages.get(Math.floor(address / IOMMU_PAGE_BYTES)) ?? NO_TRANSLATION
  }
}

export class Iommu {
  /** Accesses that were translated, and that met no page. */
  readonly counts: { translated: number; faults: number } = { translated: 0, faults: 0 }
  private readonly spaces = new Map<number, PageTable>()

  /** That space is this table from now on, in the place of any other. */
  bind(space: number, table: PageTable): void {
    this.spaces.set(space, table)
  }

  /** It is not any more; where it is another one by now nothing changes. */
  unbind(space: number, table: PageTable): void {
    if (this.spaces.get(space) === table) this.spaces.delete(space)
  }

  /** The page at `address` of that space lies at `at` of the memory. */
  map(space: number, address: number, at: number): void {
    const table = this.spaces.get(space) ?? new PageTable()
    table.map(address, at)
    this.bind(space, table)
  }

  unmap(space: number, address: number): void {
    this.spaces.get(space)?.unmap(address)
  }

  /** The host has started again. */
  clear(): void {
    this.spaces.clear()
  }

  /** Where that byte lies in the memory, or NO_TRANSLATION. */
  translate(space: number, address: number): number {
    const at = this.spaces.get(space)?.pageAt(address) ?? NO_TRANSLATION
    if (at === NO_TRANSLATION) {
      this.counts.faults++
      return NO_TRANSLATION
    }
    this.counts.translated++
    return at + (address % IOMMU_PAGE_BYTES)
  }
}
