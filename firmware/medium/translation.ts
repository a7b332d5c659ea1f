// hot path
/**
 * Where the pages lie of memory that the host registered on demand (source 5, P5-27), by either of
 * two ways. Which one, the host says when it registers the region:
 *
 *   the card     page ──▶ frame, a page of DMA_SPACE: this table has it
 *   the IOMMU    page ──▶ the host's own virtual address, in SHARED_SPACE: the IOMMU has the frame
 *
 * Invariants:
 * - Nobody else knows of the two: `isPageThere` and `addressOfPage` are all that an access asks. Of
 *   both the card knows which pages are there. A posted write brings no fault back, so an IOMMU
 *   that refuses it would be too late: the host says of each page that it came (MAP), and takes it
 *   only when the card has answered UNMAP, whoever translates.
 * - Where the IOMMU translates no address of a frame is known to the card, so none that is old can
 *   be used.
 * - A region has a piece of one pool that was made at start: nothing is allocated later, and a page
 *   is found by one addition and one load. No two regions share a piece.
 * - What came in a call that was executed before, or was overtaken by a later one, is told by its
 *   sequence, and changes nothing.
 * - When the host was last asked for a page, or told that it is not needed, is known: it is not
 *   told of the same page again and again.
 */

import { DMA_SPACE, SHARED_SPACE, SPACE_BYTES } from '../board/hal.ts'
import { ON_DEMAND_PAGES, ON_DEMAND_REGIONS, PAGE_BYTES } from '../board/limits.ts'

/** No frame has the page. */
export const NO_FRAME = -1

/** The page is there, and the IOMMU knows where. */
export const IN_PLACE = 0

/** Of a region whose pages this table translates. */
export const BY_TABLE = -1

/** How often the host is told of the same page, µs. */
export const TELL_AGAIN_US = 10_000

export interface Translation {
  /**
   * The frame of each page of the pool, or NO_FRAME; IN_PLACE where the IOMMU translates. When the
   * host was told of the page, µs.
   */
  readonly frames: Int32Array
  readonly toldUs: Float64Array
  /** When the host was told of a hint at it. */
  readonly hintedUs: Float64Array
  /** By place of a region: its first page in the pool, and its pages; 0 if there is no region. */
  readonly first: Int32Array
  readonly pages: Int32Array
  /** The host's virtual address of its first byte, which the IOMMU translates; or BY_TABLE. */
  readonly shared: Float64Array
  /** Sequence of the last call that was executed. */
  readonly sequence: Int32Array
  /** Pages that have a frame. */
  readonly mapped: Int32Array
  /** What the host has said of the whole region: 0 ready, else ON_DEMAND_STATE's kind. */
  readonly condition: Uint8Array
}

/** Without a host there are no pages. A piece of the pool is made ready when it is taken. */
export function createTranslation(hosted: boolean): Translation {
  const pool = hosted ? ON_DEMAND_PAGES : 0
  return {
    frames: new Int32Array(pool),
    toldUs: new Float64Array(pool),
    hintedUs: new Float64Array(pool),
    first: new Int32Array(ON_DEMAND_REGIONS),
    pages: new Int32Array(ON_DEMAND_REGIONS),
    shared: new Float64Array(ON_DEMAND_REGIONS).fill(BY_TABLE),
    sequence: new Int32Array(ON_DEMAND_REGIONS),
    mapped: new Int32Array(ON_DEMAND_REGIONS),
    condition: new Uint8Array(ON_DEMAND_REGIONS),
  }
}

/** Pages that so many bytes have. */
export function pagesOf(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES)
}

/**
 * Takes a piece of the pool for the region at that place; false if there is none so long. `shared`:
 * the virtual address that the IOMMU translates, or BY_TABLE.
 */
export function takePages(
  table: Translation,
  place: number,
  pages: number,
  shared: number,
): boolean {
  let at = freePagesAt(table, 0, pages)
  for (let i = 0; i < ON_DEMAND_REGIONS && at < 0; i++) {
    if (table.pages[i] !== 0) at = freePagesAt(table, table.first[i]! + table.pages[i]!, pages)
  }
  if (at < 0) return false
  table.first[place] = at
  table.pages[place] = pages
  table.shared[place] = shared
  table.sequence[place] = 0
  table.condition[place] = 0
  clearPages(table, place)
  return true
}

/** `at` if so many pages are free from there on, else -1. */
function freePagesAt(table: Translation, at: number, pages: number): number {
  if (pages > table.frames.length || at > table.frames.length - pages) return -1
  for (let i = 0; i < ON_DEMAND_REGIONS; i++) {
    const first = table.first[i]!
    if (table.pages[i] !== 0 && at < first + table.pages[i]! && first < at + pages) return -1
  }
  return at
}

/** Gives the piece back. */
export function releasePages(table: Translation, place: number): void {
  clearPages(table, place)
  table.pages[place] = 0
}

/** No page of the region is there. */
export function clearPages(table: Translation, place: number): void {
  const first = table.first[place]!
  table.frames.fill(NO_FRAME, first, first + table.pages[place]!)
  table.toldUs.fill(-Infinity, first, first + table.pages[place]!)
  table.hintedUs.fill(-Infinity, first, first + table.pages[place]!)
  table.mapped[place] = 0
}

/** Is that page, which the region must have, there? */
export function isPageThere(table: Translation, place: number, page: number): boolean {
  return table.frames[table.first[place]! + page] !== NO_FRAME
}

/** The address of that page, which must be there: in DMA_SPACE, or in SHARED_SPACE. */
export function addressOfPage(table: Translation, place: number, page: number): number {
  const shared = table.shared[place]!
  if (shared === BY_TABLE) return DMA_SPACE + table.frames[table.first[place]! + page]! * PAGE_BYTES
  return SHARED_SPACE + place * SPACE_BYTES + shared + page * PAGE_BYTES
}

/** Is a call of that sequence newer than the last one? Then it is the last one now. */
export function isNextCall(table: Translation, place: number, sequence: number): boolean {
  const newer = ((sequence - table.sequence[place]!) | 0) > 0
  if (newer) table.sequence[place] = sequence
  return newer
}

/** The page lies in that frame from now on, or nowhere. True if it came, or went. */
export function setFrame(table: Translation, place: number, page: number, frame: number): boolean {
  const at = table.first[place]! + page
  const was = table.frames[at]!
  table.frames[at] = frame
  if (was !== frame) {
    table.toldUs[at] = -Infinity
    table.hintedUs[at] = -Infinity
  }
  if ((was === NO_FRAME) === (frame === NO_FRAME)) return false
  table.mapped[place]! += frame === NO_FRAME ? -1 : 1
  return true
}

/** Pages that are away, pages that are there, or both. */
export const AWAY = 1
export const THERE = 2
export const ANYWHERE = 3

/**
 * Is the page one of `which`, and the host to be told of it now? It is then marked as told of. What
 * the host has heard by a hint only (`hinted`), an access tells it again.
 */
export function isToBeTold(
  table: Translation,
  place: number,
  page: number,
  which: number,
  hinted: boolean,
  nowUs: number,
): boolean {
  const at = table.first[place]! + page
  if (((table.frames[at] === NO_FRAME ? AWAY : THERE) & which) === 0) return false
  if (nowUs - table.toldUs[at]! < TELL_AGAIN_US) return false
  if (hinted && nowUs - table.hintedUs[at]! < TELL_AGAIN_US) return false
  const marks = hinted ? table.hintedUs : table.toldUs
  marks[at] = nowUs
  return true
}
