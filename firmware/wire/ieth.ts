/**
 * Invalidate Extended Transport Header (IBTA Vol 1, 9.3): 4 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|             R_Key             |
 *   +-------+-------+-------+-------+
 */

import { putU32, u32 } from './bytes.ts'

export const IETH_BYTES = 4
export const IETH_RKEY = 0

/** The key that the receiver shall invalidate. */
export interface Ieth {
  rkey: number
}

export function blankIeth(): Ieth {
  return { rkey: 0 }
}

/** Reads 4 bytes at `at`; the caller has checked that they are there. */
export function readIeth(into: Ieth, bytes: Uint8Array, at: number): void {
  into.rkey = u32(bytes, at + IETH_RKEY)
}

/** Writes 4 bytes at `at`. */
export function writeIeth(bytes: Uint8Array, at: number, from: Ieth): void {
  putU32(bytes, at + IETH_RKEY, from.rkey)
}
