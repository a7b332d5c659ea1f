/**
 * Block Size Extended Transport Header, ours: 16 bytes, big-endian (source 5; P5-7 … P5-10, P5-16,
 * P5-22 … P5-24, P5-29).
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV4444|CIONrrrr| status |  block |
 *   +--------+--------+--------+--------+
 *  4|  least |  most  |K align.| most-1 |
 *   +--------+--------+--------+--------+
 *  8|             threshold             |
 *   +--------+--------+--------+--------+
 * 12|EEEE     period  |        0        |
 *   +--------+--------+--------+--------+
 *
 *   V version 1, then the length in words    block, least, most, align.: sizes, log2 of bytes
 *   C the size is in force from here on      I opt in to notices    O opt out of them
 *   N send the status as it is now           r reserved
 *   K criteria are said: least and most are sizes that the requester takes, 0 is any, and instead
 *     of the alignment stands a budget of notices, log2 of bytes per second, 0 is any
 *   most-1     notifications of one message at the most, less one
 *   threshold  with more memory actions than that a notice leaves at once; 0: the period counts
 *   period     µs that changes are collected: the lower twelve bits, times 2^E
 *
 * Behind BTH and RETH in ASSOCIATE, which names key, address and length of what is associated;
 * behind BTH and RETH (key; address and length 0) in BLOCK_SIZE; behind BTH and AETH in the answer
 * to either. A size that was not committed is not in force: without agreement the block is the
 * whole of what was associated. K stands in ASSOCIATE, where its byte and those of the sizes said
 * nothing before it was thought of: without K they still say nothing there.
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const BSETH_BYTES = 16
export const BSETH_VERSION = 0
export const BSETH_FLAGS = 1
export const BSETH_STATUS = 2
export const BSETH_BLOCK_SIZE = 3
export const BSETH_LEAST = 4
export const BSETH_MOST = 5
export const BSETH_ALIGNMENT = 6
export const BSETH_MAXIMUM = 7
export const BSETH_THRESHOLD = 8
export const BSETH_PERIOD = 12
export const BSETH_ZERO = 14

/** The version that we speak, and its length in words. */
export const BLOCK_SIZE_VERSION = 1
export const BSETH_WORDS: number = BSETH_BYTES / 4

/** Status of an answer: granted; another size is offered instead; nothing is. */
export const SIZE_GRANTED = 0
export const SIZE_OFFERED = 1
export const SIZE_REFUSED = 2

/** The longest period that can be said, µs. */
export const PERIOD_US_MAX: number = 4095 * 2 ** 15

/** K, of the byte of the alignment. */
export const BSETH_CRITERIA = 0x80

const COMMIT = 0x80
const OPT_IN = 0x40
const OPT_OUT = 0x20
const CURRENT = 0x10
const RESERVED_FLAGS = 0x0f
const MANTISSA_BITS = 12

/** The fields of a BSETH. */
export interface Bseth {
  version: number
  words: number
  commit: boolean
  optIn: boolean
  optOut: boolean
  /** Asks for the status as it is now. */
  current: boolean
  /** SIZE_*, in an answer; else 0. */
  status: number
  blockSizeLog2: number
  leastLog2: number
  mostLog2: number
  alignmentLog2: number
  /** Least and most are sizes that the requester takes; and the bytes per second of notices. */
  criteria: boolean
  budgetLog2: number
  /** Notifications of one message, 1 to 256. */
  maximum: number
  threshold: number
  /** µs; written as the next greater that can be said. */
  periodUs: number
  /** Every bit that must be 0 and was not, or-ed together. */
  reserved: number
}

export function blankBseth(): Bseth {
  return {
    version: BLOCK_SIZE_VERSION,
    words: BSETH_WORDS,
    commit: false,
    optIn: false,
    optOut: false,
    current: false,
    status: SIZE_GRANTED,
    blockSizeLog2: 12,
    leastLog2: 0,
    mostLog2: 0,
    alignmentLog2: 0,
    criteria: false,
    budgetLog2: 0,
    maximum: 256,
    threshold: 0,
    periodUs: 0,
    reserved: 0,
  }
}

/** Says nothing, and asks for nothing. */
export function clearBseth(into: Bseth): void {
  into.version = BLOCK_SIZE_VERSION
  into.words = BSETH_WORDS
  into.commit = false
  into.optIn = false
  into.optOut = false
  into.current = false
  into.status = SIZE_GRANTED
  into.blockSizeLog2 = 0
  into.leastLog2 = 0
  into.mostLog2 = 0
  into.alignmentLog2 = 0
  into.criteria = false
  into.budgetLog2 = 0
  into.maximum = 1
  into.threshold = 0
  into.periodUs = 0
}

/** Reads 16 bytes at `at`; the caller has checked that they are there. */
export function readBseth(into: Bseth, bytes: Uint8Array, at: number): void {
  const flags = bytes[at + BSETH_FLAGS]!
  const alignment = bytes[at + BSETH_ALIGNMENT]!
  const period = u16(bytes, at + BSETH_PERIOD)
  into.version = bytes[at + BSETH_VERSION]! >> 4
  into.words = bytes[at + BSETH_VERSION]! & 15
  into.commit = (flags & COMMIT) !== 0
  into.optIn = (flags & OPT_IN) !== 0
  into.optOut = (flags & OPT_OUT) !== 0
  into.current = (flags & CURRENT) !== 0
  into.status = bytes[at + BSETH_STATUS]!
  into.blockSizeLog2 = bytes[at + BSETH_BLOCK_SIZE]!
  into.leastLog2 = bytes[at + BSETH_LEAST]!
  into.mostLog2 = bytes[at + BSETH_MOST]!
  into.criteria = alignment >= BSETH_CRITERIA
  into.alignmentLog2 = into.criteria ? 0 : alignment
  into.budgetLog2 = into.criteria ? alignment - BSETH_CRITERIA : 0
  into.maximum = bytes[at + BSETH_MAXIMUM]! + 1
  into.threshold = u32(bytes, at + BSETH_THRESHOLD)
  into.periodUs = (period & (2 ** MANTISSA_BITS - 1)) * 2 ** (period >> MANTISSA_BITS)
  into.reserved = (flags & RESERVED_FLAGS) | u16(bytes, at + BSETH_ZERO)
}

/** Writes 16 bytes at `at`; reserved bits are 0. A period above PERIOD_US_MAX is that. */
export function writeBseth(bytes: Uint8Array, at: number, from: Bseth): void {
  bytes[at + BSETH_VERSION] = (from.version << 4) | from.words
  bytes[at + BSETH_FLAGS] =
    (from.commit ? COMMIT : 0) |
    (from.optIn ? OPT_IN : 0) |
    (from.optOut ? OPT_OUT : 0) |
    (from.current ? CURRENT : 0)
  bytes[at + BSETH_STATUS] = from.status
  bytes[at + BSETH_BLOCK_SIZE] = from.blockSizeLog2
  bytes[at + BSETH_LEAST] = from.leastLog2
  bytes[at + BSETH_MOST] = from.mostLog2
  const { criteria, budgetLog2, alignmentLog2 } = from
  bytes[at + BSETH_ALIGNMENT] = criteria ? BSETH_CRITERIA + budgetLog2 : alignmentLog2
  bytes[at + BSETH_MAXIMUM] = from.maximum - 1
  putU32(bytes, at + BSETH_THRESHOLD, from.threshold)
  putU16(bytes, at + BSETH_PERIOD, periodWord(from.periodUs))
  putU16(bytes, at + BSETH_ZERO, 0)
}

function periodWord(us: number): number {
  let exponent = 0
  let mantissa = us < PERIOD_US_MAX ? us : PERIOD_US_MAX
  while (mantissa > 2 ** MANTISSA_BITS - 1) {
    mantissa /= 2
    exponent += 1
  }
  return (exponent << MANTISSA_BITS) | Math.ceil(mantissa)
}
