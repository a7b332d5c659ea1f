/**
 * Prefetch Extended Transport Header, ours: 8 bytes behind RETH, big-endian (P5-5, P5-25).
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|VVVV2222|   op   |PPPrrrrr|    0   |
 *   +--------+--------+--------+--------+
 *  4|    deadline     |     stride      |
 *   +--------+--------+--------+--------+
 *
 *   V version 1, then the length in words    P priority    r reserved
 *   deadline  µs after which it is of no use any more; 0: none
 *   stride    blocks from one to the next, of those that are named; 0 and 1: every one
 *
 * RETH names key, address and length of the memory. Advisory: acknowledged at once, and it changes
 * no byte. The key must grant reading, as a hint must not be a way to find keys.
 */

import { putU16, u16 } from './bytes.ts'

export const PFETH_BYTES = 8
export const PFETH_VERSION = 0
export const PFETH_OP = 1
export const PFETH_PRIORITY = 2
export const PFETH_ZERO = 3
export const PFETH_DEADLINE = 4
export const PFETH_STRIDE = 6

/** The version that we speak, and its length in words. */
export const PREFETCH_VERSION = 1
export const PFETH_WORDS: number = PFETH_BYTES / 4

/** What the requester means to do: it will access the memory, soon; or it will not. */
export const PREFETCH_WILL_NEED = 1
export const PREFETCH_DONT_NEED = 2
/** It will go on behind it, too. */
export const PREFETCH_SEQUENTIAL = 3
/** It will not need it, and it may be written back and dropped. */
export const PREFETCH_DROP = 4

const PRIORITY_SHIFT = 5
const RESERVED_PRIORITY = 0x1f

/** The fields of a PFETH. */
export interface Pfeth {
  version: number
  words: number
  /** PREFETCH_*. */
  op: number
  /** 0 to 7. */
  priority: number
  deadlineUs: number
  stride: number
  /** Every bit that must be 0 and was not, or-ed together. */
  reserved: number
}

export function blankPfeth(): Pfeth {
  return {
    version: PREFETCH_VERSION,
    words: PFETH_WORDS,
    op: PREFETCH_WILL_NEED,
    priority: 0,
    deadlineUs: 0,
    stride: 0,
    reserved: 0,
  }
}

/** Reads 8 bytes at `at`; the caller has checked that they are there. */
export function readPfeth(into: Pfeth, bytes: Uint8Array, at: number): void {
  const priority = bytes[at + PFETH_PRIORITY]!
  into.version = bytes[at + PFETH_VERSION]! >> 4
  into.words = bytes[at + PFETH_VERSION]! & 15
  into.op = bytes[at + PFETH_OP]!
  into.priority = priority >> PRIORITY_SHIFT
  into.deadlineUs = u16(bytes, at + PFETH_DEADLINE)
  into.stride = u16(bytes, at + PFETH_STRIDE)
  into.reserved = (priority & RESERVED_PRIORITY) | bytes[at + PFETH_ZERO]!
}

/** Writes 8 bytes at `at`; reserved bits are 0. */
export function writePfeth(bytes: Uint8Array, at: number, from: Pfeth): void {
  bytes[at + PFETH_VERSION] = (from.version << 4) | from.words
  bytes[at + PFETH_OP] = from.op
  bytes[at + PFETH_PRIORITY] = from.priority << PRIORITY_SHIFT
  bytes[at + PFETH_ZERO] = 0
  putU16(bytes, at + PFETH_DEADLINE, from.deadlineUs)
  putU16(bytes, at + PFETH_STRIDE, from.stride)
}
