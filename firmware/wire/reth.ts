// hot path
/**
 * RDMA Extended Transport Header (IBTA Vol 1, 9.3): 16 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|     virtual address, high     |
 *   +-------+-------+-------+-------+
 *  4|     virtual address, low      |
 *   +-------+-------+-------+-------+
 *  8|             R_Key             |
 *   +-------+-------+-------+-------+
 * 12|            length             |
 *   +-------+-------+-------+-------+
 *
 * The address stays two halves: a 64-bit number would cost an allocation per packet. The address
 * extensions of a carried WRITE_PERSIST (persist.ts) have this same layout.
 */

import { putU32, u32 } from './bytes.ts'

export const RETH_BYTES = 16
export const RETH_VA_HIGH = 0
export const RETH_VA_LOW = 4
export const RETH_RKEY = 8
export const RETH_LENGTH = 12

/** Four unsigned 32-bit numbers. */
export interface Reth {
  vaHigh: number
  vaLow: number
  rkey: number
  /** Bytes of the whole message, 0 to 2^31. */
  length: number
}

export function blankReth(): Reth {
  return { vaHigh: 0, vaLow: 0, rkey: 0, length: 0 }
}

/** Reads 16 bytes at `at`; the caller has checked that they are there. */
export function readReth(into: Reth, bytes: Uint8Array, at: number): void {
  into.vaHigh = u32(bytes, at + RETH_VA_HIGH)
  into.vaLow = u32(bytes, at + RETH_VA_LOW)
  into.rkey = u32(bytes, at + RETH_RKEY)
  into.length = u32(bytes, at + RETH_LENGTH)
}

/** Writes 16 bytes at `at`. */
export function writeReth(bytes: Uint8Array, at: number, from: Reth): void {
  putU32(bytes, at + RETH_VA_HIGH, from.vaHigh)
  putU32(bytes, at + RETH_VA_LOW, from.vaLow)
  putU32(bytes, at + RETH_RKEY, from.rkey)
  putU32(bytes, at + RETH_LENGTH, from.length)
}
