/**
 * Where the host's memory lies by the pieces that the card was told of (hal.ts, ARRANGE).
 *
 * Invariant: what is asked of lies inside; a run of bytes never leaves its piece.
 */

import { HOST_PIECES, PAGE_BYTES } from '../../../firmware/board/limits.ts'

/** Bytes of one entry of the table: first page, pages. */
const ENTRY_BYTES = 8

/** One piece: offset in what the card sees, offset in the host's memory, and bytes. */
interface Piece {
  readonly first: number
  readonly at: number
  readonly bytes: number
}

export class HostPieces {
  /** Bytes that the card sees. */
  readonly bytes: number
  private readonly pieces: readonly Piece[]

  private constructor(pieces: readonly Piece[]) {
    this.pieces = pieces
    this.bytes = pieces.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** All of a memory, as it is. */
  static whole(bytes: number): HostPieces {
    return new HostPieces([{ first: 0, at: 0, bytes }])
  }

  /** What the table says of a memory of `limit` bytes; null where there can be no such pieces. */
  static of(table: Int32Array, limit: number): HostPieces | null {
    const count = table.length / (ENTRY_BYTES / 4)
    if (count === 0) return HostPieces.whole(limit)
    if (count > HOST_PIECES) return null
    const pieces: Piece[] = []
    let first = 0
    for (let i = 0; i < count; i++) {
      const at = (table[2 * i]! >>> 0) * PAGE_BYTES
      const bytes = (table[2 * i + 1]! >>> 0) * PAGE_BYTES
      if (bytes === 0 || at > limit - bytes) return null
      if (pieces.some((one) => at < one.at + one.bytes && one.at < at + bytes)) return null
      pieces.push({ first, at, bytes })
      first += bytes
    }
    return new HostPieces(pieces)
  }

  /** Where the byte at that offset lies in the host's memory. */
  placeOf(offset: number): number {
    const { at, first } = this.pieceOf(offset)
    return at + offset - first
  }

  /** Of `length` bytes from there on, how many lie in one piece. */
  runOf(offset: number, length: number): number {
    const { first, bytes } = this.pieceOf(offset)
    return Math.min(length, first + bytes - offset)
  }

  /** The piece of a byte; of the end, and of nothing, the last one. */
  private pieceOf(offset: number): Piece {
    const { pieces } = this
    let i = pieces.length - 1
    while (i > 0 && offset < pieces[i]!.first) i -= 1
    return pieces[i]!
  }
}
