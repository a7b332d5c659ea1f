/**
 * Atomic Extended Transport Header (IBTA Vol 1, 9.3): 28 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|     virtual address, high     |
 *   +-------+-------+-------+-------+
 *  4|     virtual address, low      |
 *   +-------+-------+-------+-------+
 *  8|             R_Key             |
 *   +-------+-------+-------+-------+
 * 12|     swap (or add), high       |
 *   +-------+-------+-------+-------+
 * 16|     swap (or add), low        |
 *   +-------+-------+-------+-------+
 * 20|         compare, high         |
 *   +-------+-------+-------+-------+
 * 24|         compare, low          |
 *   +-------+-------+-------+-------+
 *
 * and its answer, the Atomic ACK Extended Transport Header (9.3): 8 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|        original, high         |
 *   +-------+-------+-------+-------+
 *  4|         original, low         |
 *   +-------+-------+-------+-------+
 *
 * Operands and the original are numbers on the wire; the word in memory has the responder's order.
 */

import { putU32, u32 } from './bytes.ts'

export const ATOMIC_BYTES = 28
export const ATOMIC_VA_HIGH = 0
export const ATOMIC_VA_LOW = 4
export const ATOMIC_RKEY = 8
export const ATOMIC_SWAP_HIGH = 12
export const ATOMIC_SWAP_LOW = 16
export const ATOMIC_COMPARE_HIGH = 20
export const ATOMIC_COMPARE_LOW = 24

/** Seven unsigned 32-bit numbers. FetchAdd adds `swap` and has no `compare`. */
export interface Atomic {
  vaHigh: number
  vaLow: number
  rkey: number
  swapHigh: number
  swapLow: number
  compareHigh: number
  compareLow: number
}

export function blankAtomic(): Atomic {
  return {
    vaHigh: 0,
    vaLow: 0,
    rkey: 0,
    swapHigh: 0,
    swapLow: 0,
    compareHigh: 0,
    compareLow: 0,
  }
}

/** Reads 28 bytes at `at`; the caller has checked that they are there. */
export function readAtomic(into: Atomic, bytes: Uint8Array, at: number): void {
  into.vaHigh = u32(bytes, at + ATOMIC_VA_HIGH)
  into.vaLow = u32(bytes, at + ATOMIC_VA_LOW)
  into.rkey = u32(bytes, at + ATOMIC_RKEY)
  into.swapHigh = u32(bytes, at + ATOMIC_SWAP_HIGH)
  into.swapLow = u32(bytes, at + ATOMIC_SWAP_LOW)
  into.compareHigh = u32(bytes, at + ATOMIC_COMPARE_HIGH)
  into.compareLow = u32(bytes, at + ATOMIC_COMPARE_LOW)
}

/** Writes 28 bytes at `at`. */
export function writeAtomic(bytes: Uint8Array, at: number, from: Atomic): void {
  putU32(bytes, at + ATOMIC_VA_HIGH, from.vaHigh)
  putU32(bytes, at + ATOMIC_VA_LOW, from.vaLow)
  putU32(bytes, at + ATOMIC_RKEY, from.rkey)
  putU32(bytes, at + ATOMIC_SWAP_HIGH, from.swapHigh)
  putU32(bytes, at + ATOMIC_SWAP_LOW, from.swapLow)
  putU32(bytes, at + ATOMIC_COMPARE_HIGH, from.compareHigh)
  putU32(bytes, at + ATOMIC_COMPARE_LOW, from.compareLow)
}

export const ATOMIC_ACK_BYTES = 8
export const ATOMIC_ACK_ORIGINAL_HIGH = 0
export const ATOMIC_ACK_ORIGINAL_LOW = 4

/** What the word held before, as two unsigned 32-bit halves. */
export interface AtomicAck {
  originalHigh: number
  originalLow: number
}

export function blankAtomicAck(): AtomicAck {
  return { originalHigh: 0, originalLow: 0 }
}

/** Reads 8 bytes at `at`; the caller has checked that they are there. */
export function readAtomicAck(into: AtomicAck, bytes: Uint8Array, at: number): void {
  into.originalHigh = u32(bytes, at + ATOMIC_ACK_ORIGINAL_HIGH)
  into.originalLow = u32(bytes, at + ATOMIC_ACK_ORIGINAL_LOW)
}
