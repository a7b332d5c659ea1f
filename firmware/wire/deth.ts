/**
 * Datagram Extended Transport Header (IBTA Vol 1, 9.3): 8 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|             Q_Key             |
 *   +-------+-------+-------+-------+
 *  4|reserve|       source QP       |
 *   +-------+-------+-------+-------+
 */

import { putU24, putU32, u24, u32 } from './bytes.ts'

export const DETH_BYTES = 8
export const DETH_QKEY = 0
export const DETH_RESERVED = 4
export const DETH_SOURCE_QP = 5

/** The well-known Q_Key of QP 1, the general services interface. */
export const Q_KEY_GSI = 0x80010000

/** The fields of a DETH. */
export interface Deth {
  qkey: number
  /** Queue pair number of the sender, 24 bits: where an answer goes. */
  sourceQp: number
}

export function blankDeth(): Deth {
  return { qkey: Q_KEY_GSI, sourceQp: 1 }
}

/** Reads 8 bytes at `at`; the caller has checked that they are there. */
export function readDeth(into: Deth, bytes: Uint8Array, at: number): void {
  into.qkey = u32(bytes, at + DETH_QKEY)
  into.sourceQp = u24(bytes, at + DETH_SOURCE_QP)
}

/** Writes 8 bytes at `at`. */
export function writeDeth(bytes: Uint8Array, at: number, from: Deth): void {
  putU32(bytes, at + DETH_QKEY, from.qkey)
  bytes[at + DETH_RESERVED] = 0
  putU24(bytes, at + DETH_SOURCE_QP, from.sourceQp)
}
