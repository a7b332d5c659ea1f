/**
 * Immediate data (IBTA Vol 1, 9.3): 4 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|           immediate           |
 *   +-------+-------+-------+-------+
 *
 * Four bytes for the application at the other end; nobody on the way knows what they mean.
 */

import { putU32, u32 } from './bytes.ts'

export const IMMDT_BYTES = 4
export const IMMDT_IMMEDIATE = 0

/** The one field, an unsigned 32-bit number. */
export interface Immdt {
  immediate: number
}

export function blankImmdt(): Immdt {
  return { immediate: 0 }
}

/** Reads 4 bytes at `at`; the caller has checked that they are there. */
export function readImmdt(into: Immdt, bytes: Uint8Array, at: number): void {
  into.immediate = u32(bytes, at + IMMDT_IMMEDIATE)
}

/** Writes 4 bytes at `at`. */
export function writeImmdt(bytes: Uint8Array, at: number, from: Immdt): void {
  putU32(bytes, at + IMMDT_IMMEDIATE, from.immediate)
}
