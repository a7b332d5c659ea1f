/** A piece of the persistent memory of a machine, as its card is told of it (target/pieces.ts). */

import { HOST_PIECES, PAGE_BYTES } from '../../firmware/board/limits.ts'
import { integer, isObject, type Kind } from './kinds.ts'

/** One piece: where it begins in the memory that the card's window shows, and how long it is. */
export interface MemoryPiece {
  /** Bytes; a multiple of 4096. */
  readonly at: number
  /** Likewise, and not 0. */
  readonly bytes: number
}

const PAGES_END = 2 ** 32
const AT = integer(0, PAGES_END * PAGE_BYTES)

/** 1 to 16 pieces of whole pages that do not overlap. */
export const PIECES: Kind = {
  give: `1 to ${HOST_PIECES} of { at, bytes }, in pages of ${PAGE_BYTES}, none in another's bytes`,
  takes: (value) => Array.isArray(value) && arePieces(value),
}

function arePieces(list: readonly unknown[]): boolean {
  if (list.length === 0 || list.length > HOST_PIECES) return false
  if (!list.every(isPiece)) return false
  const ordered = [...list].sort((a, b) => a.at - b.at)
  return ordered.every(({ at }, i) => {
    const before = ordered[i - 1]
    return before === undefined || before.at + before.bytes <= at
  })
}

function isPiece(value: unknown): value is MemoryPiece {
  if (!isObject(value)) return false
  const { at, bytes } = value as Partial<MemoryPiece>
  if (!AT.takes(at) || !AT.takes(bytes) || bytes === 0) return false
  return at! % PAGE_BYTES === 0 && bytes! % PAGE_BYTES === 0 && AT.takes(at! + bytes!)
}
