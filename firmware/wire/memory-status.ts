/**
 * Memory Status Extended Transport Header, ours: 32 bytes behind BTH, big-endian (source 5).
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV8888|  kind  |PMNrrrrr| health |
 *   +--------+--------+--------+--------+
 *  4|             region key            |
 *   +--------+--------+--------+--------+
 *  8|          status sequence          |
 *   +--------+--------+--------+--------+
 * 12|            incarnation            |
 *   +--------+--------+--------+--------+
 * 16| block  |  form  |     entries     |
 *   +--------+--------+--------+--------+
 * 20|            first block            |
 *   +--------+--------+--------+--------+
 * 24|     energy      |    hold-up      |
 *   +--------+--------+--------+--------+
 * 28|  temp. |  used  |    in flight    |
 *   +--------+--------+--------+--------+
 *
 *   V version 1, then the length in words      block  block size, log2 of bytes
 *   P positive, N negative acknowledgement     M more of the same status follows
 *   energy in thousandths, hold-up in ms, temperature in °C, life used in %, records in flight that
 *   are suggested: 0 where it is not known     r reserved
 *
 * A request of the responder of the memory, in its own PSN space. Behind it the entries, `entries`
 * of them: a list of {block u32, state u8}, 5 bytes each; or a bitmap from `first block` on, most
 * significant bit first, 1 is ready. The sequence grows by one per message of an association. The
 * kinds 3 to 5 have no entries and mean: forget everything known of this region (P5-15).
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const MSETH_BYTES = 32
export const MSETH_VERSION = 0
export const MSETH_KIND = 1
export const MSETH_FLAGS = 2
export const MSETH_HEALTH = 3
export const MSETH_RKEY = 4
export const MSETH_SEQUENCE = 8
export const MSETH_INCARNATION = 12
export const MSETH_BLOCK_SIZE = 16
export const MSETH_FORM = 17
export const MSETH_ENTRIES = 18
export const MSETH_FIRST_BLOCK = 20
export const MSETH_ENERGY = 24
export const MSETH_HOLD_UP = 26
export const MSETH_TEMPERATURE = 28
export const MSETH_LIFE_USED = 29
export const MSETH_IN_FLIGHT = 30

/** The version that we speak, and its length in words. */
export const MEMORY_STATUS_VERSION = 1
export const MSETH_WORDS: number = MSETH_BYTES / 4

/** Kinds of notice: blocks that changed; all blocks as they are now. */
export const STATUS_CHANGE = 1
export const STATUS_CURRENT = 2
/** The region failed; it cannot be used now; it begins again: forget what is known of it. */
export const STATUS_ERROR = 3
export const STATUS_UNAVAILABLE = 4
export const STATUS_RESET = 5
/** The health of the part, without blocks. */
export const STATUS_HEALTH = 6

/** Health: values of the byte. */
export const HEALTH_OK = 0
export const HEALTH_DEGRADED = 1
export const HEALTH_NOT_PERSISTENT = 2
export const HEALTH_FAILED = 5

/** Forms of the entries. */
export const FORM_LIST = 0
export const FORM_BITMAP = 1
/** An entry of a list: block u32, state u8. */
export const ENTRY_BYTES = 5

/** State of a block: may be accessed at once ("potentially mapped", P5-20), or not yet. */
export const BLOCK_NOT_READY = 0
export const BLOCK_READY = 1

const POSITIVE = 0x80
const NEGATIVE = 0x40
const MORE = 0x20
const RESERVED_FLAGS = 0x1f

/** The fields of an MSETH; the entries are payload. */
export interface Mseth {
  version: number
  words: number
  /** STATUS_*. */
  kind: number
  /** What was asked for is granted; or it is not (P5-26). */
  positive: boolean
  negative: boolean
  /** The next message of this association goes on with the same status. */
  more: boolean
  health: number
  rkey: number
  sequence: number
  incarnation: number
  blockSizeLog2: number
  form: number
  /** Entries of the list, or bits of the bitmap. */
  entries: number
  firstBlock: number
  energy: number
  holdUpMs: number
  temperature: number
  lifeUsed: number
  inFlight: number
  /** Every bit that must be 0 and was not, or-ed together. */
  reserved: number
}

export function blankMseth(): Mseth {
  return {
    version: MEMORY_STATUS_VERSION,
    words: MSETH_WORDS,
    kind: STATUS_CHANGE,
    positive: false,
    negative: false,
    more: false,
    health: HEALTH_OK,
    rkey: 0,
    sequence: 0,
    incarnation: 0,
    blockSizeLog2: 12,
    form: FORM_LIST,
    entries: 0,
    firstBlock: 0,
    energy: 0,
    holdUpMs: 0,
    temperature: 0,
    lifeUsed: 0,
    inFlight: 0,
    reserved: 0,
  }
}

/** Reads 32 bytes at `at`; the caller has checked that they are there. */
export function readMseth(into: Mseth, bytes: Uint8Array, at: number): void {
  const flags = bytes[at + MSETH_FLAGS]!
  into.version = bytes[at + MSETH_VERSION]! >> 4
  into.words = bytes[at + MSETH_VERSION]! & 15
  into.kind = bytes[at + MSETH_KIND]!
  into.positive = (flags & POSITIVE) !== 0
  into.negative = (flags & NEGATIVE) !== 0
  into.more = (flags & MORE) !== 0
  into.health = bytes[at + MSETH_HEALTH]!
  into.rkey = u32(bytes, at + MSETH_RKEY)
  into.sequence = u32(bytes, at + MSETH_SEQUENCE)
  into.incarnation = u32(bytes, at + MSETH_INCARNATION)
  into.blockSizeLog2 = bytes[at + MSETH_BLOCK_SIZE]!
  into.form = bytes[at + MSETH_FORM]!
  into.entries = u16(bytes, at + MSETH_ENTRIES)
  into.firstBlock = u32(bytes, at + MSETH_FIRST_BLOCK)
  into.energy = u16(bytes, at + MSETH_ENERGY)
  into.holdUpMs = u16(bytes, at + MSETH_HOLD_UP)
  into.temperature = bytes[at + MSETH_TEMPERATURE]!
  into.lifeUsed = bytes[at + MSETH_LIFE_USED]!
  into.inFlight = u16(bytes, at + MSETH_IN_FLIGHT)
  into.reserved = flags & RESERVED_FLAGS
}

/** Writes 32 bytes at `at`; reserved bits are 0. */
export function writeMseth(bytes: Uint8Array, at: number, from: Mseth): void {
  bytes[at + MSETH_VERSION] = (from.version << 4) | from.words
  bytes[at + MSETH_KIND] = from.kind
  bytes[at + MSETH_FLAGS] =
    (from.positive ? POSITIVE : 0) | (from.negative ? NEGATIVE : 0) | (from.more ? MORE : 0)
  bytes[at + MSETH_HEALTH] = from.health
  putU32(bytes, at + MSETH_RKEY, from.rkey)
  putU32(bytes, at + MSETH_SEQUENCE, from.sequence)
  putU32(bytes, at + MSETH_INCARNATION, from.incarnation)
  bytes[at + MSETH_BLOCK_SIZE] = from.blockSizeLog2
  bytes[at + MSETH_FORM] = from.form
  putU16(bytes, at + MSETH_ENTRIES, from.entries)
  putU32(bytes, at + MSETH_FIRST_BLOCK, from.firstBlock)
  putU16(bytes, at + MSETH_ENERGY, from.energy)
  putU16(bytes, at + MSETH_HOLD_UP, from.holdUpMs)
  bytes[at + MSETH_TEMPERATURE] = from.temperature
  bytes[at + MSETH_LIFE_USED] = from.lifeUsed
  putU16(bytes, at + MSETH_IN_FLIGHT, from.inFlight)
}
