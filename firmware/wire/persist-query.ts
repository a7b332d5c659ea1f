// hot path
/**
 * Persist Query Extended Transport Header, ours: 12 bytes behind BTH, big-endian.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV3333|rrBrrrrr|    batch id     |
 *   +--------+--------+--------+--------+
 *  4|        operation id, high         |
 *   +--------+--------+--------+--------+
 *  8|        operation id, low          |
 *   +--------+--------+--------+--------+
 *
 *   V version 1, then the length in words    B asks for a batch; its id is 0 else    r reserved
 *
 * Asks whether an operation of this client is durable (D-6, G2-3). Answered by a PERSIST_ACK with
 * the flag "answers a query" and the PSN of the query: status 0, it is; QUERY_NOT_KNOWN, it is not
 * known to be. Where the answer is cumulative, every operation up to the id in it is durable.
 *
 * With B it asks what became of the last batch of this queue pair (D-10, P4-12), whatever operation
 * it names. Answered by the status of the batch, its bitmap included; by QUERY_NOT_KNOWN without a
 * bitmap where the last batch has another id, and with one while some of the batch is to come.
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const PQETH_BYTES = 12
export const PQETH_VERSION = 0
export const PQETH_FLAGS = 1
export const PQETH_BATCH_ID = 2
export const PQETH_OPERATION_HIGH = 4
export const PQETH_OPERATION_LOW = 8

const BATCH = 0x20

/** The version that we speak, and its length in words. */
export const QUERY_VERSION = 1
export const PQETH_WORDS: number = PQETH_BYTES / 4

/** Status of the answer: the operation is not known to be durable, nor the batch to be decided. */
export const QUERY_NOT_KNOWN = 0x02

/** The fields of a PQETH. */
export interface Pqeth {
  version: number
  words: number
  /** Asks for the batch of that id. */
  batch: boolean
  batchId: number
  operationHigh: number
  operationLow: number
  /** Every bit that must be 0 in this form and was not, or-ed together. */
  reserved: number
}

export function blankPqeth(): Pqeth {
  return {
    version: QUERY_VERSION,
    words: PQETH_WORDS,
    batch: false,
    batchId: 0,
    operationHigh: 0,
    operationLow: 0,
    reserved: 0,
  }
}

/** Reads 12 bytes at `at`; the caller has checked that they are there. */
export function readPqeth(into: Pqeth, bytes: Uint8Array, at: number): void {
  into.version = bytes[at + PQETH_VERSION]! >> 4
  into.words = bytes[at + PQETH_VERSION]! & 15
  into.operationHigh = u32(bytes, at + PQETH_OPERATION_HIGH)
  into.operationLow = u32(bytes, at + PQETH_OPERATION_LOW)
  const flags = bytes[at + PQETH_FLAGS]!
  into.batch = (flags & BATCH) !== 0
  into.batchId = u16(bytes, at + PQETH_BATCH_ID)
  into.reserved = into.batch ? flags & ~BATCH : flags | into.batchId
}

/** Writes 12 bytes at `at`; reserved bits are 0. */
export function writePqeth(bytes: Uint8Array, at: number, from: Pqeth): void {
  bytes[at + PQETH_VERSION] = (from.version << 4) | from.words
  bytes[at + PQETH_FLAGS] = from.batch ? BATCH : 0
  putU16(bytes, at + PQETH_BATCH_ID, from.batchId)
  putU32(bytes, at + PQETH_OPERATION_HIGH, from.operationHigh)
  putU32(bytes, at + PQETH_OPERATION_LOW, from.operationLow)
}
