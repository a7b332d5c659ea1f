/**
 * Persist ACK Extended Transport Header, ours: 32 bytes behind AETH, big-endian.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV8888|ACBQDrrr| status |  words |
 *   +--------+--------+--------+--------+
 *  4|   0    |        first PSN         |
 *   +--------+--------+--------+--------+
 *  8|   0    |         last PSN         |
 *   +--------+--------+--------+--------+
 * 12|    batch id     |durable |count-1 |
 *   +--------+--------+--------+--------+
 * 16|        operation id, high         |
 *   +--------+--------+--------+--------+
 * 20|         operation id, low         |
 *   +--------+--------+--------+--------+
 * 24|            incarnation            |
 *   +--------+--------+--------+--------+
 * 28| copies |mechan. |     records     |
 *   +--------+--------+--------+--------+
 * 32|      bitmap, `words` words        |
 *
 *   V version 1, then the length in words    A all records of the range are durable
 *   C the operation id is cumulative         B batch fields are valid
 *   Q answers a query                        D durable in a degraded domain
 *   r reserved
 *
 * The packet is the transport acknowledgement as well: its PSN and AETH follow the rules of an ACK.
 * The operation id is that of the last record of the range.
 * Who takes the packet looks at neither version nor length: this firmware and its driver know one.
 *
 * With B the packet is the one status of a batch (D-10): its range is the PSN that ended what was
 * sent of the batch, its operation id that of record 0, and its bitmap, a word for every 32 records
 * of the batch, names the records that are durable: record i is bit 0x80000000 >>> (i & 31) of word
 * i >> 5. The status is that of the first record that was refused, or IN_DOUBT where one is. A
 * durable index of 255 is said by A.
 */

import { putU32, u16, u24, u32 } from './bytes.ts'

export const PAETH_BYTES = 32
export const PAETH_VERSION = 0
export const PAETH_FLAGS = 1
export const PAETH_STATUS = 2
export const PAETH_BITMAP_WORDS = 3
export const PAETH_FIRST_PSN = 4
export const PAETH_LAST_PSN = 8
export const PAETH_BATCH_ID = 12
export const PAETH_BATCH_DURABLE = 14
export const PAETH_BATCH_COUNT = 15
export const PAETH_OPERATION_HIGH = 16
export const PAETH_OPERATION_LOW = 20
export const PAETH_INCARNATION = 24
export const PAETH_COPIES = 28
export const PAETH_MECHANISM = 29
export const PAETH_RECORDS = 30

/** The version that we speak, and its length in words. */
export const PERSIST_ACK_VERSION = 1
export const PAETH_WORDS: number = PAETH_BYTES / 4

/** Status: the records are durable. Every other status is the code of a fault (fault.ts). */
export const STATUS_DURABLE = 0

/** How the records became durable. */
export const MECHANISM_LOCAL_FLUSH = 1
export const MECHANISM_LSB_READ = 2
export const MECHANISM_CPU_FLUSH = 3
/** Bit on top of them: what it was made durable in does not outlive the power. */
export const MECHANISM_VOLATILE = 8

/** Index of a batch in which nothing is durable yet. */
export const BATCH_NONE_DURABLE = 0xff

const ALL = 0x80
const CUMULATIVE = 0x40
const BATCH = 0x20
const QUERY = 0x10
const DEGRADED = 0x08

/** The fields of a PAETH; the bitmap is payload. */
export interface Paeth {
  version: number
  words: number
  /** Every record that ends in the range is durable. */
  all: boolean
  /** Every operation of this client up to the operation id is durable. */
  cumulative: boolean
  batch: boolean
  query: boolean
  degraded: boolean
  /** STATUS_DURABLE, or the code of the fault. */
  status: number
  /** Words of the bitmap behind this header, 0 to 8. */
  bitmapWords: number
  /** PSNs of the first and the last packet that this answers, both included. */
  firstPsn: number
  lastPsn: number
  batchId: number
  /** Highest index of the batch that is durable without a gap, or BATCH_NONE_DURABLE. */
  batchDurable: number
  /** Records in the batch, 1 to 256; 1 without one. */
  batchCount: number
  operationHigh: number
  operationLow: number
  incarnation: number
  /** Copies that are durable, 1 to 4; 0 when nothing is. */
  copies: number
  mechanism: number
  /** Records in the range. */
  records: number
}

export function blankPaeth(): Paeth {
  return {
    version: PERSIST_ACK_VERSION,
    words: PAETH_WORDS,
    all: false,
    cumulative: false,
    batch: false,
    query: false,
    degraded: false,
    status: STATUS_DURABLE,
    bitmapWords: 0,
    firstPsn: 0,
    lastPsn: 0,
    batchId: 0,
    batchDurable: 0,
    batchCount: 1,
    operationHigh: 0,
    operationLow: 0,
    incarnation: 0,
    copies: 0,
    mechanism: 0,
    records: 0,
  }
}

/** Reads 32 bytes at `at`; the caller has checked that they are there. */
export function readPaeth(into: Paeth, bytes: Uint8Array, at: number): void {
  const flags = bytes[at + PAETH_FLAGS]!
  into.version = bytes[at + PAETH_VERSION]! >> 4
  into.words = bytes[at + PAETH_VERSION]! & 15
  into.all = (flags & ALL) !== 0
  into.cumulative = (flags & CUMULATIVE) !== 0
  into.batch = (flags & BATCH) !== 0
  into.query = (flags & QUERY) !== 0
  into.degraded = (flags & DEGRADED) !== 0
  into.status = bytes[at + PAETH_STATUS]!
  into.bitmapWords = bytes[at + PAETH_BITMAP_WORDS]!
  into.firstPsn = u24(bytes, at + PAETH_FIRST_PSN + 1)
  into.lastPsn = u24(bytes, at + PAETH_LAST_PSN + 1)
  into.batchId = u16(bytes, at + PAETH_BATCH_ID)
  into.batchDurable = bytes[at + PAETH_BATCH_DURABLE]!
  into.batchCount = bytes[at + PAETH_BATCH_COUNT]! + 1
  into.operationHigh = u32(bytes, at + PAETH_OPERATION_HIGH)
  into.operationLow = u32(bytes, at + PAETH_OPERATION_LOW)
  into.incarnation = u32(bytes, at + PAETH_INCARNATION)
  into.copies = bytes[at + PAETH_COPIES]!
  into.mechanism = bytes[at + PAETH_MECHANISM]!
  into.records = u16(bytes, at + PAETH_RECORDS)
}

// ---- the bitmap --------------------------------------------------------------------------------

/** Words of the longest bitmap. */
export const BITMAP_WORDS_MAX = 8

/** Words of the bitmap of a batch of so many records. */
export function bitmapWords(count: number): number {
  return (count + 31) >> 5
}

/** Sets the bit of that record. */
export function setInBitmap(bitmap: Uint32Array, index: number): void {
  bitmap[index >> 5]! |= 0x80000000 >>> (index & 31)
}

/** Is the bit of that record set? */
export function isInBitmap(bitmap: Uint32Array, index: number): boolean {
  return (bitmap[index >> 5]! & (0x80000000 >>> (index & 31))) !== 0
}

/** Writes the first `words` words at `at`. */
export function writeBitmap(
  bytes: Uint8Array,
  at: number,
  bitmap: Uint32Array,
  words: number,
): void {
  for (let i = 0; i < words; i++) putU32(bytes, at + 4 * i, bitmap[i]!)
}

/** Reads `words` words at `at`, at most BITMAP_WORDS_MAX; what lies behind them is 0. */
export function readBitmap(into: Uint32Array, bytes: Uint8Array, at: number, words: number): void {
  for (let i = 0; i < BITMAP_WORDS_MAX; i++) into[i] = i < words ? u32(bytes, at + 4 * i) : 0
}
