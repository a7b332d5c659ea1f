/**
 * The pieces that the host's persistent memory is made of: HOST_SPACE shows them one behind the
 * other, wherever each lies (source 2, virtual address registration: the target page table).
 *
 *    superblock   124 pieces u32, 0: the whole window
 *                3712 of each: first page u32, pages u32; a page is 4096 bytes of the window
 *
 * Invariants:
 * - An offset in HOST_SPACE is all that the firmware has of a place there: regions, lanes and
 *   requests of the agent name offsets. The board translates them, by ARRANGE, and nobody else on
 *   the card.
 * - What lies in a piece is found again in the same piece: a table takes the place of another one
 *   only if every byte that a region takes lies where it lay (`keepsPlaces`). So of a cut in
 *   between either table may be found.
 * - No two pieces share a page, and none leaves the window.
 */

import { assert } from '../board/assert.ts'
import { HOST_PIECES, PAGE_BYTES } from '../board/limits.ts'

/** Where the table stands in the superblock, bytes. */
export const PIECES_AT = 3712
export const PIECE_BYTES = 8
const COUNT = 31

/** One piece: pages of the window. */
export interface Piece {
  readonly page: number
  readonly pages: number
}

/** Pieces of the table in the page of a superblock; 0 where HOST_SPACE is the whole window. */
export function pieceCountOf(words: Int32Array): number {
  return words[COUNT]! >>> 0
}

/** The table in the page of a superblock, which has so many pieces as there is room for. */
export function piecesIn(words: Int32Array): Piece[] {
  const w = PIECES_AT >> 2
  return Array.from({ length: pieceCountOf(words) }, (_, i) => ({
    page: words[w + 2 * i]! >>> 0,
    pages: words[w + 2 * i + 1]! >>> 0,
  }))
}

/** Puts the table into the page, in the place of any other. */
export function putPieces(words: Int32Array, pieces: readonly Piece[]): void {
  assert(pieces.length <= HOST_PIECES, 'who states more is refused')
  const w = PIECES_AT >> 2
  words.fill(0, w, w + 2 * HOST_PIECES)
  pieces.forEach(({ page, pages }, i) => {
    words[w + 2 * i] = page
    words[w + 2 * i + 1] = pages
  })
  words[COUNT] = pieces.length
}

/** Whole pages of a window of so many bytes. */
export function windowPages(bytes: number): number {
  return Math.floor(bytes / PAGE_BYTES)
}

/** The whole window as one piece. */
export function wholeWindow(bytes: number): Piece[] {
  return [{ page: 0, pages: windowPages(bytes) }]
}

/** Bytes that the pieces have together. */
export function bytesOfPieces(pieces: readonly Piece[]): number {
  return pieces.reduce((bytes, { pages }) => bytes + pages * PAGE_BYTES, 0)
}

/** Are there some, none of them empty, in a window of that many pages, and each for itself? */
export function arePieces(pieces: readonly Piece[], limit: number): boolean {
  if (pieces.length === 0 || pieces.length > HOST_PIECES) return false
  const ordered = [...pieces].sort((a, b) => a.page - b.page)
  let end = 0
  for (const { page, pages } of ordered) {
    if (page < end || pages < 1) return false
    end = page + pages
  }
  return end <= limit
}

/** The pieces from the first one on, up to the first that a window of that many pages lacks. */
export function piecesWithin(pieces: readonly Piece[], limit: number): Piece[] {
  const first = pieces.findIndex(({ page, pages }) => page + pages > limit)
  return pieces.slice(0, first < 0 ? pieces.length : first)
}

/** Does every byte of HOST_SPACE below `end` lie in the same place by both? */
export function keepsPlaces(one: readonly Piece[], other: readonly Piece[], end: number): boolean {
  for (let at = 0; at < end / PAGE_BYTES; ) {
    const a = restAt(one, at)
    const b = restAt(other, at)
    if (a === null || b === null || a.page !== b.page) return false
    at += Math.min(a.pages, b.pages)
  }
  return true
}

/** Where that page of HOST_SPACE lies, and the pages of its piece from it on. */
function restAt(pieces: readonly Piece[], at: number): Piece | null {
  let first = 0
  for (const { page, pages } of pieces) {
    if (at < first + pages) return { page: page + at - first, pages: first + pages - at }
    first += pages
  }
  return null
}
