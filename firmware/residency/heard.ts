// hot path
/**
 * What a notice means to the one who hears it (source 5; P5-2, P5-15, P5-28, D-12): the blocks of
 * blocks.ts change, and the current status is asked for where something was not heard.
 *
 * Invariants:
 * - A notice older than one that was taken changes nothing; the sequence is the judge, not the time
 *   at which it comes. A gap between two, or a part that was started again, makes the requester ask
 *   for the current status, again and again until it came whole.
 * - The entries of a notice are ranges of bytes in the notice's own block size, so one that was
 *   composed before a change of the size is as good after it.
 * - A current status of several messages is taken message by message. That is safe: each says what
 *   its blocks were at its own place in the sequence, and whatever changed since comes at a later
 *   one. It counts as told when all of it came without a gap.
 * - After an error, unavailable or reset nothing of before is used (P5-15); hints, which need the
 *   region to be told, rest until a whole current status came.
 */

import { u32 } from '../wire/bytes.ts'
import {
  BLOCK_READY,
  ENTRY_BYTES,
  FORM_BITMAP,
  FORM_LIST,
  MEMORY_STATUS_VERSION,
  MSETH_WORDS,
  type Mseth,
  STATUS_CHANGE,
  STATUS_CURRENT,
  STATUS_ERROR,
  STATUS_HEALTH,
  STATUS_RESET,
  STATUS_UNAVAILABLE,
} from '../wire/memory-status.ts'
import {
  type Blocks,
  blocksOf,
  forgetBlocks,
  PHASE_SILENT,
  PHASE_TOLD,
  resize,
  setBytes,
} from './blocks.ts'
import { noticeBytes } from './meter.ts'

/** What became of a notice. */
export const NOTICE_TAKEN = 0
/** Older than what is known. */
export const NOTICE_STALE = 1

/** How long the current status is waited for before it is asked for (again), µs. */
export const ASK_AGAIN_US = 20_000

/**
 * Who has heard nothing for so long asks, µs: a responder that has given the queue pair up, as none
 * of its notices was acknowledged, says nothing more.
 */
export const REFRESH_US = 1_000_000

/** Sizes above this are no sizes, log2. */
const SIZE_LOG2_MAX = 63

/** Is it a notice that we understand: fields, and a payload of `length` bytes at `at`? */
export function isNotice(mseth: Mseth, bytes: Uint8Array, at: number, length: number): boolean {
  if (mseth.version !== MEMORY_STATUS_VERSION || mseth.words !== MSETH_WORDS) return false
  if (mseth.reserved !== 0 || mseth.blockSizeLog2 > SIZE_LOG2_MAX) return false
  if (mseth.kind < STATUS_CHANGE || mseth.kind > STATUS_HEALTH) return false
  if (mseth.kind >= STATUS_ERROR) return mseth.entries === 0 && length === 0
  if (length !== entryBytes(mseth)) return false
  if (mseth.form === FORM_BITMAP) return true
  if (mseth.form !== FORM_LIST) return false
  for (let i = 0; i < mseth.entries; i++) {
    if (bytes[at + i * ENTRY_BYTES + 4]! > BLOCK_READY) return false
  }
  return true
}

/** Takes a notice about what is associated; `isNotice` has looked at it. */
export function takeNotice(
  b: Blocks,
  mseth: Mseth,
  bytes: Uint8Array,
  at: number,
  nowUs: number,
): number {
  if (mseth.incarnation !== b.incarnation) {
    if (((mseth.incarnation - b.incarnation) | 0) < 0) return stale(b)
    b.incarnation = mseth.incarnation
    b.heard = false
    forgetBlocks(b, PHASE_SILENT)
    want(b, nowUs)
  }
  const ahead = (mseth.sequence - b.sequence) | 0
  if (b.heard && ahead <= 0 && !begins(b, mseth)) return stale(b)
  if (b.heard && ahead > 1) {
    b.counts.gaps++
    b.coveredTo = -1
    want(b, nowUs)
  }
  b.heard = true
  b.refreshAtUs = nowUs + REFRESH_US
  b.sequence = mseth.sequence
  if (b.health !== mseth.health) b.revision++
  b.health = mseth.health
  b.counts.notices++
  b.counts.noticeBytes += noticeBytes(entryBytes(mseth))
  takeKind(b, mseth, bytes, at, nowUs)
  return NOTICE_TAKEN
}

/** Bytes of the entries. */
function entryBytes(mseth: Mseth): number {
  if (mseth.form === FORM_BITMAP) return Math.ceil(mseth.entries / 8)
  return mseth.entries * ENTRY_BYTES
}

/**
 * Before anything was told, the beginning of a current status is believed whatever its sequence:
 * what came before it may have been about an association that is over.
 */
function begins(b: Blocks, mseth: Mseth): boolean {
  return b.phase === PHASE_SILENT && mseth.kind === STATUS_CURRENT && mseth.firstBlock === 0
}

function stale(b: Blocks): number {
  b.counts.stale++
  return NOTICE_STALE
}

function takeKind(b: Blocks, mseth: Mseth, bytes: Uint8Array, at: number, nowUs: number): void {
  switch (mseth.kind) {
    case STATUS_CHANGE:
      applyEntries(b, mseth, bytes, at)
      return
    case STATUS_CURRENT:
      takeCurrent(b, mseth, bytes, at)
      return
    case STATUS_ERROR:
    case STATUS_UNAVAILABLE:
      b.wanted = false
      if (b.phase !== mseth.kind) forgetBlocks(b, mseth.kind)
      return
    case STATUS_RESET:
      forgetBlocks(b, mseth.kind)
      // It follows by itself.
      want(b, nowUs + ASK_AGAIN_US)
      return
    default:
  }
}

/** A part of the current status, or all of it. Its size is the one in force at the responder. */
function takeCurrent(b: Blocks, mseth: Mseth, bytes: Uint8Array, at: number): void {
  if (mseth.blockSizeLog2 !== b.sizeLog2) resize(b, mseth.blockSizeLog2)
  const isBitmap = mseth.form === FORM_BITMAP
  const first = isBitmap ? mseth.firstBlock : 0
  if (first === 0) b.coveredTo = 0
  b.coveredTo = b.coveredTo === first ? first + mseth.entries : -1
  applyEntries(b, mseth, bytes, at)
  if (mseth.more) return
  const isWhole = b.coveredTo >= blocksOf(b.length, mseth.blockSizeLog2)
  b.coveredTo = -1
  if (!isWhole) return
  b.wanted = false
  if (b.phase === PHASE_TOLD) return
  b.phase = PHASE_TOLD
  b.revision++
}

/** Entries that follow one another are one range, so that they may fill a coarser block of ours. */
function applyEntries(b: Blocks, mseth: Mseth, bytes: Uint8Array, at: number): void {
  const size = 2 ** mseth.blockSizeLog2
  const isBitmap = mseth.form === FORM_BITMAP
  let from = 0
  let to = 0
  let ready = false
  for (let i = 0; i < mseth.entries; i++) {
    const entryAt = at + i * ENTRY_BYTES
    const block = isBitmap ? mseth.firstBlock + i : u32(bytes, entryAt)
    const state = isBitmap ? (bytes[at + (i >> 3)]! >> (7 - (i & 7))) & 1 : bytes[entryAt + 4]!
    const one = state === BLOCK_READY
    if (block !== to || one !== ready) {
      setBytes(b, from * size, to * size, ready)
      from = block
      ready = one
    }
    to = block + 1
  }
  setBytes(b, from * size, to * size, ready)
}

// ---- asking ------------------------------------------------------------------------------------

/** The current status is wanted, and asked for at that time, unless it comes by itself. */
export function want(b: Blocks, atUs: number): void {
  if (!b.wanted || atUs < b.askAtUs) b.askAtUs = atUs
  b.wanted = true
}

/**
 * A hint was in vain: perhaps the notice that followed it was not heard. Not more often than the
 * current status is asked for anyway.
 */
export function doubtHint(b: Blocks, nowUs: number): void {
  if (b.wanted || b.phase !== PHASE_TOLD) return
  b.wanted = true
  if (b.askAtUs < nowUs) b.askAtUs = nowUs
}

/** When `isAsking` wants to be called, µs; Infinity is never: nothing was ever heard or wanted. */
export function nextAskUs(b: Blocks): number {
  return b.wanted ? b.askAtUs : b.refreshAtUs
}

/** Is the current status to be asked for now? If so it counts as asked for. */
export function isAsking(b: Blocks, nowUs: number): boolean {
  if (nowUs < nextAskUs(b)) return false
  b.wanted = true
  b.askAtUs = nowUs + ASK_AGAIN_US
  b.counts.asked++
  return true
}
