// hot path
/**
 * The intent lane: one line that says which record is being written, and how far it has come.
 *
 *    byte  0 +-----------------------------------------------+
 *            | phase word (8 bytes)  | magic     | region    |
 *         16 | record    | how, length  | sequence (64)      |
 *         32 | client (64)           | operation (64)        |
 *         48 | check code over bytes [8, 48), 128 bits       |
 *         64 +-----------------------------------------------+
 *
 *    phase word: | phase | ~phase | sequence, bits 32 to 47 | sequence, bits 0 to 31 |
 *    phase: A, then B, then, of a record that the medium took in its first copy alone, held; or
 *    unsure, behind a save that failed
 *    how, length: the link in the upper five bits of the word, the wait in the three below them,
 *    the length in the lower 24
 *
 * Invariants:
 * - The phase word is one aligned chunk of eight bytes, so it is never torn; phase and complement
 *   guard it against decay, and the sequence binds it to the entry behind it: the phase of an
 *   earlier intent never speaks for a later one.
 * - A line torn before F1 is harmless: no slot has been touched, so both copies of every record are
 *   equal. A line that fails its own check is therefore no intent. Were it a decayed one, the check
 *   codes of the slots, the second line of defence, still tell the whole copy from the torn.
 * - The link says how many lanes before this one the lane of the record is that this record must
 *   not outlive (commit.ts, "In order"); 0 is none, and so no lane names itself. Lines that were
 *   written before there were links have a 0 there: a part recovers as it did.
 */

import { assert } from '../board/assert.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import { CHECK_CODE_BYTES } from './slot.ts'

/** Nothing in flight. */
export const PHASE_NONE = 0
/** The first copy is being written; the others hold the old record. */
export const PHASE_A = 0xa1
/** The first copy holds the new record, durably; the others follow. */
export const PHASE_B = 0xb2
/** As B, and the medium took no other copy: readers are shown the first, so no older one stands. */
export const PHASE_HELD = 0xc3
/** No phase counts any more: a start went by none, through the host's caches. */
export const PHASE_UNSURE = 0xd4

export const LANE_MAGIC = 0x5044494e
/** Bytes [8, 48) of the line are under its check code, which stands at 48. */
export const LANE_CHECKED_AT = 8
export const LANE_CHECKED_BYTES = 40
export const LANE_CODE_AT = 48
export const PHASE_WORD_BYTES = 8

assert(LANE_CODE_AT + CHECK_CODE_BYTES === 64, 'a lane is one line')

// Positions in 32-bit words.
const PHASE = 0
const PHASE_SEQUENCE = 1
const MAGIC = 2
const REGION = 3
const RECORD = 4
const LENGTH = 5
const SEQUENCE_LOW = 6
const SEQUENCE_HIGH = 7
const CLIENT_LOW = 8
const CLIENT_HIGH = 9
const OPERATION_LOW = 10
const OPERATION_HIGH = 11

/** Bits of the length, below those of the wait, and of both, below the link. */
const LENGTH_BITS = 24
const LINK_SHIFT = 27
const WAIT_MASK = 7

assert(BURST_FRAMES <= 2 ** (32 - LINK_SHIFT), 'a link must fit')

/** An intent, as it is composed and as recovery reads it. */
export interface Intent {
  regionId: number
  record: number
  length: number
  sequenceLow: number
  sequenceHigh: number
  /** Durable copies that the acknowledgement waits for, 1 to 4 (D-4). */
  wait: number
  /** How many lanes before its own the record stands that it must not outlive, or 0. */
  link: number
  /** Whose operation it is; client 0 is nobody (D-6). */
  clientLow: number
  clientHigh: number
  operationLow: number
  operationHigh: number
}

export function blankIntent(): Intent {
  return {
    regionId: 0,
    record: 0,
    length: 0,
    sequenceLow: 0,
    sequenceHigh: 0,
    wait: 0,
    link: 0,
    clientLow: 0,
    clientHigh: 0,
    operationLow: 0,
    operationHigh: 0,
  }
}

/** Writes the eight bytes of a phase word at byte `at`, a multiple of 8. */
export function writePhaseWord(
  words: Int32Array,
  at: number,
  phase: number,
  sequenceLow: number,
  sequenceHigh: number,
): void {
  words[at >> 2] = phase | ((phase ^ 0xff) << 8) | (sequenceHigh << 16)
  words[(at >> 2) + PHASE_SEQUENCE] = sequenceLow
}

/** Writes the line at byte `at`, in phase A; the board fills in the check code. */
export function writeIntent(words: Int32Array, at: number, from: Intent): void {
  const w = at >> 2
  writePhaseWord(words, at, PHASE_A, from.sequenceLow, from.sequenceHigh)
  words[w + MAGIC] = LANE_MAGIC
  words[w + REGION] = from.regionId
  words[w + RECORD] = from.record
  words[w + LENGTH] = from.length | (from.wait << LENGTH_BITS) | (from.link << LINK_SHIFT)
  words[w + SEQUENCE_LOW] = from.sequenceLow
  words[w + SEQUENCE_HIGH] = from.sequenceHigh
  words[w + CLIENT_LOW] = from.clientLow
  words[w + CLIENT_HIGH] = from.clientHigh
  words[w + OPERATION_LOW] = from.operationLow
  words[w + OPERATION_HIGH] = from.operationHigh
}

export function readIntent(into: Intent, words: Int32Array, at: number): void {
  const w = at >> 2
  into.regionId = words[w + REGION]! >>> 0
  into.record = words[w + RECORD]! >>> 0
  into.length = words[w + LENGTH]! & (2 ** LENGTH_BITS - 1)
  into.wait = (words[w + LENGTH]! >> LENGTH_BITS) & WAIT_MASK
  into.link = words[w + LENGTH]! >>> LINK_SHIFT
  into.sequenceLow = words[w + SEQUENCE_LOW]! >>> 0
  into.sequenceHigh = words[w + SEQUENCE_HIGH]! >>> 0
  into.clientLow = words[w + CLIENT_LOW]! >>> 0
  into.clientHigh = words[w + CLIENT_HIGH]! >>> 0
  into.operationLow = words[w + OPERATION_LOW]! >>> 0
  into.operationHigh = words[w + OPERATION_HIGH]! >>> 0
}

/**
 * Is `before` the record whose operation comes right before that of `intent`? It may be one of
 * another region (S1-M9): operations are numbered by client.
 */
export function isPredecessor(before: Intent, intent: Intent): boolean {
  const next = (before.operationLow + 1) | 0
  const high = next === 0 ? before.operationHigh + 1 : before.operationHigh
  return (
    (before.clientLow | 0) === (intent.clientLow | 0) &&
    (before.clientHigh | 0) === (intent.clientHigh | 0) &&
    next === (intent.operationLow | 0) &&
    (high | 0) === (intent.operationHigh | 0)
  )
}

/** Is the whole line zero: no intent? */
export function laneClear(words: Int32Array, at: number): boolean {
  const w = at >> 2
  for (let i = 0; i < 16; i++) if (words[w + i] !== 0) return false
  return true
}

/**
 * The phase that the line states, or -1 when its phase word does not stand for the entry behind
 * it. The caller has verified the entry's check code.
 */
export function lanePhase(words: Int32Array, at: number): number {
  const w = at >> 2
  const word = words[w + PHASE]!
  const phase = word & 0xff
  if (((word >> 8) & 0xff) !== (phase ^ 0xff)) return -1
  if (words[w + MAGIC] !== LANE_MAGIC) return -1
  if (words[w + PHASE_SEQUENCE] !== words[w + SEQUENCE_LOW]) return -1
  if (word >>> 16 !== (words[w + SEQUENCE_HIGH]! & 0xffff)) return -1
  return phase === PHASE_A || phase === PHASE_UNSURE || isForward(phase) ? phase : -1
}

/** Does the record of such a lane go forward: is its first copy the new one, durably? */
export function isForward(phase: number): boolean {
  return phase === PHASE_B || phase === PHASE_HELD
}
