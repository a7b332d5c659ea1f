/**
 * The capability block: how two peers of ours find each other in the private data of REQ and REP
 * (wire-format 7.8). 48 bytes, 8 more that name the client, and in a REP 12 more that tell the
 * shape of a region of records, and 4 more with the depths of the queues; big-endian.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|      magic 0x4e564450, "NVDP"     |
 *   +--------+--------+--------+--------+
 *  4|   1    | words  |    features     |
 *   +--------+--------+--------+--------+
 *  8|               R_Key               |
 *   +--------+--------+--------+--------+
 * 12|       base address (8 bytes)      |
 * 20|          length (8 bytes)         |
 *   +--------+--------+--------+--------+
 * 28|slot lg2|block lo|block hi|batch -1|
 *   +--------+--------+--------+--------+
 * 32|            incarnation            |
 * 36|     durable sequence (8 bytes)    |   in a REQ, with feature 256: the depths
 * 44|            session id             |
 *   +--------+--------+--------+--------+
 * 48|        client id (8 bytes)        |   with 14 words; 0 is no client
 *   +--------+--------+--------+--------+
 * 56|               slots               |   with 17 words, in a REP: the region's shape
 * 60|              capacity             |
 * 64| copies |  kind  |      flags      |
 *   +--------+--------+--------+--------+
 * 68|   send depth    |  receive depth  |   with 18 words and feature 256
 *   +--------+--------+--------+--------+
 *
 * Invariant: a block is believed by its magic, its version and a length that holds the
 * fixed part; words beyond those that are known are passed over. Without a block, or with zeros in
 * its place, the peer is a plain RoCEv2 one and gets standard operations only. Depths are believed
 * with their feature and inside of the block. A REQ has no room behind the client's id: they stand
 * where a client, of which nothing is durable, has nothing to say.
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const CAPABILITY_BYTES = 56
const CAPABILITY_MAGIC = 0x4e564450
const CAPABILITY_VERSION = 1
/** Words without and with the client's id. */
const WORDS_FIXED = 12
const WORDS = 14
/** Words with the shape of the region. */
const WORDS_GEOMETRY = 17
/** Words with the depths behind it. */
const WORDS_DEPTHS = 18

const FEATURES = 6
const RKEY = 8
const BASE = 12
const LENGTH = 20
const SLOT_LOG2 = 28
const BLOCK_LOG2_MIN = 29
const BLOCK_LOG2_MAX = 30
const BATCH_MAX = 31
const INCARNATION = 32
const DURABLE = 36
const SESSION = 44
const CLIENT = 48
const SLOTS = 56
const CAPACITY = 60
const COPIES = 64
const KIND = 65
const FLAGS = 66
/** Send depth, and two bytes behind it receive depth: of a client, and behind a region's shape. */
const DEPTHS_REQ = DURABLE
const DEPTHS_REP = 68

/** Features. WRITE_PERSIST and its answer; the bitmap of a PERSIST_ACK; batches of records. */
export const FEATURE_PERSIST = 1
export const FEATURE_PERSIST_BITMAP = 2
export const FEATURE_BATCHES = 4
/** The state of memory is told, hints are taken, and the size of blocks is negotiated. */
export const FEATURE_STATUS = 8
export const FEATURE_PREFETCH = 16
export const FEATURE_BLOCK_SIZE = 32
export const FEATURE_DURABLE_ACK = 64
export const FEATURE_LINUX_FLUSH = 128
/** The depths of the queues are told. */
export const FEATURE_DEPTHS = 256

export interface Capability {
  features: number
  rkey: number
  baseHigh: number
  baseLow: number
  lengthHigh: number
  lengthLow: number
  slotLog2: number
  blockLog2Min: number
  blockLog2Max: number
  /** Records of the largest batch, less one. */
  batchMax: number
  incarnation: number
  /** Every operation of the client up to it is durable. */
  durableHigh: number
  durableLow: number
  sessionId: number
  clientHigh: number
  clientLow: number
}

export function blankCapability(): Capability {
  return {
    features: 0,
    rkey: 0,
    baseHigh: 0,
    baseLow: 0,
    lengthHigh: 0,
    lengthLow: 0,
    slotLog2: 0,
    blockLog2Min: 0,
    blockLog2Max: 0,
    batchMax: 0,
    incarnation: 0,
    durableHigh: 0,
    durableLow: 0,
    sessionId: 0,
    clientHigh: 0,
    clientLow: 0,
  }
}

/** Reads the block in `length` bytes at `at`; false where there is none. */
export function readCapability(
  into: Capability,
  bytes: Uint8Array,
  at: number,
  length: number,
): boolean {
  if (length < WORDS_FIXED * 4 || u32(bytes, at) !== CAPABILITY_MAGIC) return false
  const words = bytes[at + 5]!
  if (bytes[at + 4] !== CAPABILITY_VERSION || words < WORDS_FIXED || words * 4 > length) {
    return false
  }
  into.features = u16(bytes, at + FEATURES)
  into.rkey = u32(bytes, at + RKEY)
  into.baseHigh = u32(bytes, at + BASE)
  into.baseLow = u32(bytes, at + BASE + 4)
  into.lengthHigh = u32(bytes, at + LENGTH)
  into.lengthLow = u32(bytes, at + LENGTH + 4)
  into.slotLog2 = bytes[at + SLOT_LOG2]!
  into.blockLog2Min = bytes[at + BLOCK_LOG2_MIN]!
  into.blockLog2Max = bytes[at + BLOCK_LOG2_MAX]!
  into.batchMax = bytes[at + BATCH_MAX]!
  into.incarnation = u32(bytes, at + INCARNATION)
  into.durableHigh = u32(bytes, at + DURABLE)
  into.durableLow = u32(bytes, at + DURABLE + 4)
  into.sessionId = u32(bytes, at + SESSION)
  into.clientHigh = words < WORDS ? 0 : u32(bytes, at + CLIENT)
  into.clientLow = words < WORDS ? 0 : u32(bytes, at + CLIENT + 4)
  return true
}

/** Writes 56 bytes at `at`. */
export function writeCapability(bytes: Uint8Array, at: number, from: Capability): void {
  putU32(bytes, at, CAPABILITY_MAGIC)
  bytes[at + 4] = CAPABILITY_VERSION
  bytes[at + 5] = WORDS
  putU16(bytes, at + FEATURES, from.features)
  putU32(bytes, at + RKEY, from.rkey)
  putU32(bytes, at + BASE, from.baseHigh)
  putU32(bytes, at + BASE + 4, from.baseLow)
  putU32(bytes, at + LENGTH, from.lengthHigh)
  putU32(bytes, at + LENGTH + 4, from.lengthLow)
  bytes[at + SLOT_LOG2] = from.slotLog2
  bytes[at + BLOCK_LOG2_MIN] = from.blockLog2Min
  bytes[at + BLOCK_LOG2_MAX] = from.blockLog2Max
  bytes[at + BATCH_MAX] = from.batchMax
  putU32(bytes, at + INCARNATION, from.incarnation)
  putU32(bytes, at + DURABLE, from.durableHigh)
  putU32(bytes, at + DURABLE + 4, from.durableLow)
  putU32(bytes, at + SESSION, from.sessionId)
  putU32(bytes, at + CLIENT, from.clientHigh)
  putU32(bytes, at + CLIENT + 4, from.clientLow)
}

/** The shape of a region. */
export interface Geometry {
  slots: number
  /** Bytes of data that a slot holds. */
  capacity: number
  copies: number
  kind: number
  flags: number
}

export function blankGeometry(): Geometry {
  return { slots: 0, capacity: 0, copies: 0, kind: 0, flags: 0 }
}

/** Reads the shape behind a block that `readCapability` has found; false where there is none. */
export function readGeometry(
  into: Geometry,
  bytes: Uint8Array,
  at: number,
  length: number,
): boolean {
  const words = bytes[at + 5]!
  if (words < WORDS_GEOMETRY || words * 4 > length) return false
  into.slots = u32(bytes, at + SLOTS)
  into.capacity = u32(bytes, at + CAPACITY)
  into.copies = bytes[at + COPIES]!
  into.kind = bytes[at + KIND]!
  into.flags = u16(bytes, at + FLAGS)
  return true
}

/** Adds the shape to a block that `writeCapability` has written: 68 bytes in all. */
export function writeGeometry(bytes: Uint8Array, at: number, from: Geometry): void {
  bytes[at + 5] = WORDS_GEOMETRY
  putU32(bytes, at + SLOTS, from.slots)
  putU32(bytes, at + CAPACITY, from.capacity)
  bytes[at + COPIES] = from.copies
  bytes[at + KIND] = from.kind
  putU16(bytes, at + FLAGS, from.flags)
}

/** How deep the queues of a pair are, in messages that take a receive. */
export interface Depths {
  /** That it may have on their way at once, */
  readonly send: number
  /** and that it takes at once. */
  readonly receive: number
}

/** The most that a block can tell. */
export const DEPTH_TOLD_MAX = 0xffff

/** The depths in a client's block that `readCapability` has found; null where it tells none. */
export function readClientDepths(bytes: Uint8Array, at: number): Depths | null {
  return tellsDepths(bytes, at) ? depthsAt(bytes, at + DEPTHS_REQ) : null
}

/**
 * The depths behind a block that `readCapability` has found; null where it tells none, or says that
 * it did and is too short.
 */
export function readDepths(bytes: Uint8Array, at: number, length: number): Depths | null {
  const words = bytes[at + 5]!
  const whole = words >= WORDS_DEPTHS && words * 4 <= length
  return whole && tellsDepths(bytes, at) ? depthsAt(bytes, at + DEPTHS_REP) : null
}

function tellsDepths(bytes: Uint8Array, at: number): boolean {
  return (u16(bytes, at + FEATURES) & FEATURE_DEPTHS) !== 0
}

function depthsAt(bytes: Uint8Array, at: number): Depths {
  return { send: u16(bytes, at), receive: u16(bytes, at + 2) }
}

/** Adds the depths to a client's block that `writeCapability` has written. */
export function writeClientDepths(bytes: Uint8Array, at: number, from: Depths): void {
  putDepths(bytes, at, DEPTHS_REQ, from)
}

/** Adds the depths to a block that `writeGeometry` has written: 72 bytes in all. */
export function writeDepths(bytes: Uint8Array, at: number, from: Depths): void {
  bytes[at + 5] = WORDS_DEPTHS
  putDepths(bytes, at, DEPTHS_REP, from)
}

function putDepths(bytes: Uint8Array, at: number, to: number, { send, receive }: Depths): void {
  putU16(bytes, at + FEATURES, u16(bytes, at + FEATURES) | FEATURE_DEPTHS)
  putU16(bytes, at + to, Math.min(send, DEPTH_TOLD_MAX))
  putU16(bytes, at + to + 2, Math.min(receive, DEPTH_TOLD_MAX))
}
