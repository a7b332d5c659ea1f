/**
 * FLUSH Extended Transport Header (IBTA Vol 1, annex A19): 4 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+--------+
 *  0|       reserved        |rrSSPPPP|
 *   +-------+-------+-------+--------+
 *
 *   P placement: bit 0 visible to all, bit 1 persistent   S 0 the range of RETH, 1 its whole region
 *
 * It stands in front of RETH, not behind it. The bit positions are those of Linux.
 */

import { putU32, u32 } from './bytes.ts'

export const FETH_BYTES = 4
export const FETH_WORD = 0

/** Placement types: bits, both may be asked for. */
export const PLACEMENT_GLOBAL = 1
export const PLACEMENT_PERSISTENT = 2

/** Selectivity: what is to be flushed. */
export const SELECT_RANGE = 0
export const SELECT_REGION = 1

/** The fields of a FETH. */
export interface Feth {
  placement: number
  selectivity: number
  /** The reserved bits, in place; a sender writes 0. */
  reserved: number
}

export function blankFeth(): Feth {
  return { placement: PLACEMENT_PERSISTENT, selectivity: SELECT_RANGE, reserved: 0 }
}

/** Reads 4 bytes at `at`; the caller has checked that they are there. */
export function readFeth(into: Feth, bytes: Uint8Array, at: number): void {
  const word = u32(bytes, at + FETH_WORD)
  into.placement = word & 15
  into.selectivity = (word >> 4) & 3
  into.reserved = (word & ~63) >>> 0
}

/** Writes 4 bytes at `at`; reserved bits are 0. */
export function writeFeth(bytes: Uint8Array, at: number, from: Feth): void {
  putU32(bytes, at + FETH_WORD, (from.selectivity << 4) | from.placement)
}
