// hot path
/**
 * The slot image: one copy of one record, as it lies on the medium and in packet memory.
 *
 *    byte  0 +-----------------------------------------------+
 *            | check code, 128 bits                          |
 *         16 | magic     | region    | record    | length    |
 *         32 | sequence (64)         | client (64)           |
 *         48 | operation (64)        | version   | guard     |
 *         64 +-----------------------------------------------+
 *            | data, `length` bytes, then zeros to the line  |
 *            +-----------------------------------------------+
 *
 * Little-endian, 32-bit words; a 64-bit field has its low word first.
 *
 * Invariants:
 * - The check code is SipHash-2-4-128 under the region's key over bytes [16, 64 + length) (D-3): a
 *   torn image, and an image at another record's place, are both invalid. The copies of a record
 *   are identical to the byte.
 * - An all-zero and an all-ones slot are invalid by their magic, before any code is computed.
 * - `length` is believed only up to the region's capacity, and only to find out whether the code
 *   agrees: a length is never trusted before its check.
 * - The guard is the client's own: the CRC-32C of the data as its CPU computed it, or 0 where it
 *   sent none (S1-M1; hal.ts, GUARD). It was checked before the image was stored, and goes back
 *   with every image that is read. Firmware of before wrote 0, and passes over it.
 * - A later write of a record has a greater sequence: the incarnation of the part above a counter.
 */

import { LINE_BYTES } from '../board/limits.ts'
import type { Region } from './region.ts'

export const SLOT_HEADER_BYTES: number = LINE_BYTES
/** Where the bytes under the check code begin. */
export const CHECKED_AT = 16
export const CHECK_CODE_BYTES = 16
export const SLOT_MAGIC = 0x5044534c
export const SLOT_VERSION = 1

// Positions in 32-bit words.
const MAGIC = 4
const REGION = 5
const RECORD = 6
const LENGTH = 7
const SEQUENCE_LOW = 8
const SEQUENCE_HIGH = 9
const CLIENT_LOW = 10
const CLIENT_HIGH = 11
const OPERATION_LOW = 12
const OPERATION_HIGH = 13
const VERSION = 14
const GUARD = 15

/** What a slot header says: believed only after the check. */
export interface SlotHeader {
  magic: number
  regionId: number
  record: number
  length: number
  sequenceLow: number
  sequenceHigh: number
  clientLow: number
  clientHigh: number
  operationLow: number
  operationHigh: number
  version: number
}

export function blankSlotHeader(): SlotHeader {
  return {
    magic: 0,
    regionId: 0,
    record: 0,
    length: 0,
    sequenceLow: 0,
    sequenceHigh: 0,
    clientLow: 0,
    clientHigh: 0,
    operationLow: 0,
    operationHigh: 0,
    version: 0,
  }
}

/** What a new image is made of, next to its data. */
export interface SlotContent {
  slot: number
  length: number
  sequenceLow: number
  sequenceHigh: number
  clientLow: number
  clientHigh: number
  operationLow: number
  operationHigh: number
  /** 0 without one. */
  guard: number
}

/** Writes the header at byte `at` (a multiple of 4); the board fills in the check code. */
export function writeSlotHeader(
  words: Int32Array,
  at: number,
  region: Region,
  from: SlotContent,
): void {
  const w = at >> 2
  words[w + MAGIC] = SLOT_MAGIC
  words[w + REGION] = region.id
  words[w + RECORD] = from.slot
  words[w + LENGTH] = from.length
  words[w + SEQUENCE_LOW] = from.sequenceLow
  words[w + SEQUENCE_HIGH] = from.sequenceHigh
  words[w + CLIENT_LOW] = from.clientLow
  words[w + CLIENT_HIGH] = from.clientHigh
  words[w + OPERATION_LOW] = from.operationLow
  words[w + OPERATION_HIGH] = from.operationHigh
  words[w + VERSION] = SLOT_VERSION
  words[w + GUARD] = from.guard
}

export function readSlotHeader(into: SlotHeader, words: Int32Array, at: number): void {
  const w = at >> 2
  into.magic = words[w + MAGIC]!
  into.regionId = words[w + REGION]! >>> 0
  into.record = words[w + RECORD]! >>> 0
  into.length = words[w + LENGTH]! >>> 0
  into.sequenceLow = words[w + SEQUENCE_LOW]! >>> 0
  into.sequenceHigh = words[w + SEQUENCE_HIGH]! >>> 0
  into.clientLow = words[w + CLIENT_LOW]! >>> 0
  into.clientHigh = words[w + CLIENT_HIGH]! >>> 0
  into.operationLow = words[w + OPERATION_LOW]! >>> 0
  into.operationHigh = words[w + OPERATION_HIGH]! >>> 0
  into.version = words[w + VERSION]!
}

/** Does the header name this very record, with a length that its slot can hold? */
export function headerFits(header: SlotHeader, region: Region, slot: number): boolean {
  return (
    header.magic === SLOT_MAGIC &&
    header.version === SLOT_VERSION &&
    header.regionId === region.id &&
    header.record === slot &&
    header.length <= region.capacity
  )
}

/** Bytes of an image, up to the end of its last line; the length is below 2^31. */
export function imageBytes(length: number): number {
  return SLOT_HEADER_BYTES + ((length + LINE_BYTES - 1) & -LINE_BYTES)
}
