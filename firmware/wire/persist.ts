// hot path
/**
 * Persistent Write Extended Transport Header, ours: 16 bytes behind RETH, big-endian.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV4444|CCSKBAUR|NNNNLOMr|PPPGrrEE|
 *   +--------+--------+--------+--------+
 *  4|    batch id     | index  |count-1 |
 *   +--------+--------+--------+--------+
 *  8|        operation id, high         |
 *   +--------+--------+--------+--------+
 * 12|         operation id, low         |
 *   +--------+--------+--------+--------+
 *
 *   V version 1, then the length in words    C durable copies to wait for, less one
 *   S address is slot and offset             K carried form: the payload holds every copy
 *   B part of a batch    A PERSIST_ACK wanted    U urgent    P priority
 *   R repetition: the operation may have been executed before, and others have written since
 *   N condition of the batch (D-10): 0 independent, 1 in order, 2 expect
 *   L last of the batch, or of what is sent of it again    O one status for all of the batch
 *   M the data is a message for a receive of the queue pair (S1-M9): only with B, and then without
 *   S, K and G, and with a RETH of which only the length is not 0
 *   G a guard stands behind all else         r reserved
 *   E further copies carried, 0 unless K
 *
 * With R it is executed only if the part is sure that it was not before; else it is refused as
 * OPERATION_FORGOTTEN. A requester that never says R is served as ever.
 *
 * First and Only packets of a WRITE_PERSIST have it. In the carried form without slot addressing,
 * one address extension for each further copy stands right behind it: 16 bytes each, laid out as
 * RETH. With the condition "expect" the sequence that the slot must hold stands there, 8 bytes.
 * With G the guard of the data of one copy stands last, 4 bytes, and never 0 (board/hal.ts, GUARD).
 * The operation id grows by one per record of a client and outlives its connections; in a batch it
 * is that of the first record plus the index.
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'
import { RETH_BYTES } from './reth.ts'

export const PWETH_BYTES = 16
export const PWETH_VERSION = 0
export const PWETH_FLAGS = 1
export const PWETH_CONDITION = 2
export const PWETH_COPIES = 3
export const PWETH_BATCH_ID = 4
export const PWETH_BATCH_INDEX = 6
export const PWETH_BATCH_COUNT = 7
export const PWETH_OPERATION_HIGH = 8
export const PWETH_OPERATION_LOW = 12

/** The version that we speak, and its length in words. */
export const PERSIST_VERSION = 1
export const PWETH_WORDS: number = PWETH_BYTES / 4

/** One address extension, read with `readReth`. */
export const ADDRESS_EXTENSION_BYTES: number = RETH_BYTES

const SLOT_ADDRESSED = 0x20
const CARRIED = 0x10
const BATCH = 0x08
const WANTS_ACK = 0x04
const URGENT = 0x02
const REPETITION = 0x01
const CONDITION_SHIFT = 4
const LAST_OF_BATCH = 0x08
const ONE_STATUS = 0x04
const MESSAGE = 0x02
const RESERVED_CONDITION = 0x01
const GUARDED = 0x10
const RESERVED_COPIES = 0x0c
const FURTHER_COPIES = 0x03

/** Conditions of a batch (D-10). Each record stands alone. */
export const CONDITION_INDEPENDENT = 0
/** A record is accepted only when every earlier one of its batch was. */
export const CONDITION_IN_ORDER = 1
/** A record is accepted only when its slot holds the sequence that it names. */
export const CONDITION_EXPECT = 2

/** The sequence that the slot must hold, behind a PWETH with CONDITION_EXPECT: high, low word. */
export const EXPECT_EXTENSION_BYTES = 8

/** The guard, behind every other extension of a PWETH with G. */
export const GUARD_EXTENSION_BYTES = 4

/** The fields of a PWETH. */
export interface Pweth {
  version: number
  words: number
  /** Durable copies that the acknowledgement waits for, 1 to 4 (D-4). */
  wait: number
  slotAddressed: boolean
  carried: boolean
  batch: boolean
  wantsAck: boolean
  urgent: boolean
  /** It may have been executed before: only if that is known not to be so, it is now. */
  repetition: boolean
  /** Transfer condition of the batch, CONDITION_*, up to 15; 0 without one. */
  condition: number
  /** The last record of the batch, or of what is sent of it again. */
  lastOfBatch: boolean
  /** The whole batch is answered by one status. */
  oneStatus: boolean
  /** Its data goes to a receive of the queue pair, and no region. */
  message: boolean
  /** 0 to 7. */
  priority: number
  /** The guard of its data stands behind the other extensions. */
  guarded: boolean
  /** Copies in the payload beyond the first, 0 to 3; 0 unless carried. */
  furtherCopies: number
  batchId: number
  /** Place in the batch, from 0. */
  batchIndex: number
  /** Records in the batch, 1 to 256; 1 without one. */
  batchCount: number
  operationHigh: number
  operationLow: number
  /**
   * Every bit that must be 0 in this form and was not, or-ed together: reserved ones, batch fields
   * without a batch, further copies without the carried form.
   */
  reserved: number
}

export function blankPweth(): Pweth {
  return {
    version: PERSIST_VERSION,
    words: PWETH_WORDS,
    wait: 1,
    slotAddressed: false,
    carried: false,
    batch: false,
    wantsAck: false,
    urgent: false,
    repetition: false,
    condition: 0,
    lastOfBatch: false,
    oneStatus: false,
    message: false,
    priority: 0,
    guarded: false,
    furtherCopies: 0,
    batchId: 0,
    batchIndex: 0,
    batchCount: 1,
    operationHigh: 0,
    operationLow: 0,
    reserved: 0,
  }
}

/** Reads 16 bytes at `at`; the caller has checked that they are there. */
export function readPweth(into: Pweth, bytes: Uint8Array, at: number): void {
  const flags = bytes[at + PWETH_FLAGS]!
  const copies = bytes[at + PWETH_COPIES]!
  const batch = (flags & BATCH) !== 0
  const fields =
    bytes[at + PWETH_CONDITION]! |
    bytes[at + PWETH_BATCH_ID]! |
    bytes[at + PWETH_BATCH_ID + 1]! |
    bytes[at + PWETH_BATCH_INDEX]! |
    bytes[at + PWETH_BATCH_COUNT]!
  // Of nearly every record, and of the one read before it, they are 0, and so they stay.
  if (fields !== 0 || into.batch || into.reserved !== 0) readBatchFields(into, bytes, at)
  let reserved = copies & RESERVED_COPIES
  into.version = bytes[at + PWETH_VERSION]! >> 4
  into.words = bytes[at + PWETH_VERSION]! & 15
  into.wait = (flags >> 6) + 1
  into.slotAddressed = (flags & SLOT_ADDRESSED) !== 0
  into.carried = (flags & CARRIED) !== 0
  into.batch = batch
  into.wantsAck = (flags & WANTS_ACK) !== 0
  into.urgent = (flags & URGENT) !== 0
  into.repetition = (flags & REPETITION) !== 0
  into.priority = copies >> 5
  into.guarded = (copies & GUARDED) !== 0
  into.furtherCopies = copies & FURTHER_COPIES
  into.operationHigh = u32(bytes, at + PWETH_OPERATION_HIGH)
  into.operationLow = u32(bytes, at + PWETH_OPERATION_LOW)
  reserved |= batch ? bytes[at + PWETH_CONDITION]! & RESERVED_CONDITION : fields
  if (!into.carried) reserved |= into.furtherCopies
  into.reserved = reserved
}

function readBatchFields(into: Pweth, bytes: Uint8Array, at: number): void {
  const condition = bytes[at + PWETH_CONDITION]!
  into.condition = condition >> CONDITION_SHIFT
  into.lastOfBatch = (condition & LAST_OF_BATCH) !== 0
  into.oneStatus = (condition & ONE_STATUS) !== 0
  into.message = (condition & MESSAGE) !== 0
  into.batchId = u16(bytes, at + PWETH_BATCH_ID)
  into.batchIndex = bytes[at + PWETH_BATCH_INDEX]!
  into.batchCount = bytes[at + PWETH_BATCH_COUNT]! + 1
}

/** Writes 16 bytes at `at`; reserved bits are 0. */
export function writePweth(bytes: Uint8Array, at: number, from: Pweth): void {
  bytes[at + PWETH_VERSION] = (from.version << 4) | from.words
  bytes[at + PWETH_FLAGS] =
    ((from.wait - 1) << 6) |
    (from.slotAddressed ? SLOT_ADDRESSED : 0) |
    (from.carried ? CARRIED : 0) |
    (from.batch ? BATCH : 0) |
    (from.wantsAck ? WANTS_ACK : 0) |
    (from.urgent ? URGENT : 0) |
    (from.repetition ? REPETITION : 0)
  bytes[at + PWETH_CONDITION] =
    (from.condition << CONDITION_SHIFT) |
    (from.lastOfBatch ? LAST_OF_BATCH : 0) |
    (from.oneStatus ? ONE_STATUS : 0) |
    (from.message ? MESSAGE : 0)
  bytes[at + PWETH_COPIES] =
    (from.priority << 5) | (from.guarded ? GUARDED : 0) | from.furtherCopies
  putU16(bytes, at + PWETH_BATCH_ID, from.batchId)
  bytes[at + PWETH_BATCH_INDEX] = from.batchIndex
  bytes[at + PWETH_BATCH_COUNT] = from.batchCount - 1
  putU32(bytes, at + PWETH_OPERATION_HIGH, from.operationHigh)
  putU32(bytes, at + PWETH_OPERATION_LOW, from.operationLow)
}

/** Bytes of extensions behind the PWETH at `at`: 0 to 60. */
export function extensionBytes(bytes: Uint8Array, at: number): number {
  const flags = bytes[at + PWETH_FLAGS]!
  const copies = bytes[at + PWETH_COPIES]!
  let length = (copies & GUARDED) === 0 ? 0 : GUARD_EXTENSION_BYTES
  // Nearly every record.
  if ((flags & (CARRIED | BATCH)) === 0) return length
  if ((flags & (SLOT_ADDRESSED | CARRIED)) === CARRIED) {
    length += (copies & FURTHER_COPIES) * ADDRESS_EXTENSION_BYTES
  }
  const expects = bytes[at + PWETH_CONDITION]! >> CONDITION_SHIFT === CONDITION_EXPECT
  return (flags & BATCH) !== 0 && expects ? length + EXPECT_EXTENSION_BYTES : length
}
