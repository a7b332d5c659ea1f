// hot path
/**
 * What a requester knows of the memory of a responder, block by block (source 5; P5-7, P5-10 …
 * P5-14). The driver and the firmware use this one implementation.
 *
 * Invariants:
 * - A state is a claim about a range of bytes of what is associated. `BLOCK_READY` says that all of
 *   the block was known to be ready, so after a change of the size a block is ready only if every
 *   byte of it was; nothing becomes ready that was not told.
 * - The counter of a group is the number of its blocks that are ready: one up when a block becomes
 *   ready, one down when it ceases to be, and untouched by what is told twice (P5-13). Its flag is
 *   set as soon as a member is told not to be in memory, and stays until the counter says that all
 *   are (P5-14).
 * - Groups are runs of blocks, and sets of one use that somebody named (named-groups.ts): both go
 *   by these rules.
 * - None of it is permission: a block that is believed to be ready may not be, and is then merely
 *   slow.
 * - Memory is taken once, by `createBlocks`.
 */

import { BLOCK_NOT_READY, BLOCK_READY } from '../wire/memory-status.ts'
import {
  clearNamed,
  countNamed,
  type NamedGroups,
  namedCame,
  namedWent,
  placeNamed,
} from './named-groups.ts'
import { mostLog2, PAGE_LOG2 } from './size.ts'

/** State of a block of which nothing was told since everything was forgotten. */
export const BLOCK_UNKNOWN = 2

/** What is known of the region as a whole; besides STATUS_ERROR, _UNAVAILABLE and _RESET. */
export const PHASE_SILENT = 0
/** The status of every block was told. */
export const PHASE_TOLD = 1

/** What was heard and done, since `createBlocks`. */
export interface BlockCounts {
  /** Notices that were taken; those that were older than one before; gaps between two. */
  notices: number
  stale: number
  gaps: number
  /** Bytes of the frames of those that were taken. */
  noticeBytes: number
  /** How often everything was forgotten, and how often the current status was asked for. */
  forgotten: number
  asked: number
  /** Hints, and the blocks in them. */
  hints: number
  hintedBlocks: number
  /** Blocks that an access found ready, or hinted already: no hint went out for them. */
  spared: number
}

/** One association. The owner reads it, and changes it by the functions of this folder only. */
export interface Blocks {
  /** Blocks that there is room for. */
  readonly capacity: number
  readonly counts: BlockCounts
  /** Bytes that are associated; 0 before the first association. */
  length: number
  /** Bytes of a block, log2, and the blocks; the last one may be short. */
  sizeLog2: number
  count: number
  /** BLOCK_READY, BLOCK_NOT_READY or BLOCK_UNKNOWN; and how many are ready. */
  states: Uint8Array
  ready: number
  /** Grows whenever the state of a block, or the phase, changes. */
  revision: number
  /** Blocks of a group, and the groups: blocks that are ready, and whether one is not there. */
  groupBlocks: number
  groups: number
  readonly groupReady: Uint32Array
  readonly groupFlags: Uint8Array
  /** Groups of blocks that are of one use, or null where none were named. */
  named: NamedGroups | null
  /** The coarsest size that is taken of an offer, log2; 0 is any. */
  coarsestLog2: number
  /** Until when a hint for a block counts, µs; 0 where there is none. */
  hintedUntilUs: Float64Array
  /** The run of blocks that `nextHintedBlocks` found. */
  hintFirst: number
  hintCount: number
  /** PHASE_SILENT, PHASE_TOLD, STATUS_ERROR, STATUS_UNAVAILABLE or STATUS_RESET. */
  phase: number
  /** Incarnation of the part, and sequence of the newest notice, once `heard`. */
  incarnation: number
  sequence: number
  heard: boolean
  /** HEALTH_*, as told last. */
  health: number
  /** Block behind the last one of a CURRENT under way, or -1; in blocks of the notice. */
  coveredTo: number
  /** The current status is wanted, and is asked for at that time, µs. */
  wanted: boolean
  askAtUs: number
  /** It is asked for at that time also if nobody wants it, unless something is heard, µs. */
  refreshAtUs: number
  /** Room for the other size while blocks are mapped again. */
  spareStates: Uint8Array
  spareHints: Float64Array
}

/** Room for so many blocks, in groups of so many. */
export function createBlocks(capacity: number, groupBlocks: number): Blocks {
  return {
    capacity,
    counts: {
      notices: 0,
      stale: 0,
      gaps: 0,
      noticeBytes: 0,
      forgotten: 0,
      asked: 0,
      hints: 0,
      hintedBlocks: 0,
      spared: 0,
    },
    length: 0,
    sizeLog2: 0,
    count: 0,
    states: new Uint8Array(capacity),
    ready: 0,
    revision: 0,
    groupBlocks,
    groups: 0,
    groupReady: new Uint32Array(Math.ceil(capacity / groupBlocks)),
    groupFlags: new Uint8Array(Math.ceil(capacity / groupBlocks)),
    named: null,
    coarsestLog2: 0,
    hintedUntilUs: new Float64Array(capacity),
    hintFirst: 0,
    hintCount: 0,
    phase: PHASE_SILENT,
    incarnation: 0,
    sequence: 0,
    heard: false,
    health: 0,
    coveredTo: -1,
    wanted: false,
    askAtUs: 0,
    refreshAtUs: Infinity,
    spareStates: new Uint8Array(capacity),
    spareHints: new Float64Array(capacity),
  }
}

/** Blocks of 2^sizeLog2 bytes that so many bytes have. */
export function blocksOf(length: number, sizeLog2: number): number {
  return Math.ceil(length / 2 ** sizeLog2)
}

/** The smallest size, log2, in which there is room for what is associated. */
export function leastTaken(b: Blocks): number {
  let log2 = PAGE_LOG2
  while (blocksOf(b.length, log2) > b.capacity) log2++
  return log2
}

/**
 * So many bytes are associated with a part of that incarnation. Until the sides agree on a size all
 * of it is one block (P5-29), and nothing is known.
 */
export function associated(b: Blocks, length: number, incarnation: number): void {
  b.length = length
  b.sizeLog2 = mostLog2(length)
  b.count = 1
  b.incarnation = incarnation
  b.heard = false
  b.refreshAtUs = Infinity
  forgetBlocks(b, PHASE_SILENT)
}

/** Nothing that was told counts any more, nor any hint (P5-15). */
export function forgetBlocks(b: Blocks, phase: number): void {
  b.counts.forgotten++
  b.revision++
  b.phase = phase
  b.states.fill(BLOCK_UNKNOWN, 0, b.count)
  b.hintedUntilUs.fill(0, 0, b.count)
  b.coveredTo = -1
  b.wanted = false
  regroup(b)
}

/** Counters and flags from the states of the blocks. */
function regroup(b: Blocks): void {
  b.groups = Math.ceil(b.count / b.groupBlocks)
  b.groupReady.fill(0, 0, b.groups)
  b.groupFlags.fill(0, 0, b.groups)
  b.ready = 0
  if (b.named !== null) regroupNamed(b, b.named)
  for (let block = 0; block < b.count; block++) {
    const group = Math.floor(block / b.groupBlocks)
    if (b.states[block] === BLOCK_READY) {
      b.ready++
      b.groupReady[group]!++
    } else if (b.states[block] === BLOCK_NOT_READY) {
      b.groupFlags[group] = 1
    }
  }
}

function regroupNamed(b: Blocks, named: NamedGroups): void {
  placeNamed(named, b.length, b.sizeLog2)
  clearNamed(named)
  for (let block = 0; block < b.count; block++) {
    const state = b.states[block]!
    if (state !== BLOCK_UNKNOWN) countNamed(named, block, state === BLOCK_READY)
  }
}

/** Blocks of a group: the last one may have fewer. */
export function groupSize(b: Blocks, group: number): number {
  const left = b.count - group * b.groupBlocks
  return left < b.groupBlocks ? left : b.groupBlocks
}

/** A notice says that of a block (P5-13, P5-14). */
export function setBlock(b: Blocks, block: number, ready: boolean): void {
  const before = b.states[block]!
  const group = Math.floor(block / b.groupBlocks)
  if (ready && before !== BLOCK_READY) {
    b.states[block] = BLOCK_READY
    b.hintedUntilUs[block] = 0
    b.ready++
    b.groupReady[group]!++
    if (b.groupReady[group] === groupSize(b, group)) b.groupFlags[group] = 0
    if (b.named !== null) namedCame(b.named, block)
    b.revision++
  } else if (!ready && before !== BLOCK_NOT_READY) {
    b.states[block] = BLOCK_NOT_READY
    b.groupFlags[group] = 1
    if (b.named !== null) namedWent(b.named, block, before === BLOCK_READY)
    b.revision++
    if (before !== BLOCK_READY) return
    b.ready--
    b.groupReady[group]!--
  }
}

/**
 * The bytes from `from` to `to` are all ready; or some of them are not. A block becomes ready when
 * it lies wholly within; it ceases to be where it is only touched.
 */
export function setBytes(b: Blocks, from: number, to: number, ready: boolean): void {
  if (from >= b.length) return
  const size = 2 ** b.sizeLog2
  const first = ready ? Math.ceil(from / size) : Math.floor(from / size)
  let end = b.count
  if (to < b.length) end = ready ? Math.floor(to / size) : Math.ceil(to / size)
  for (let block = first; block < end; block++) setBlock(b, block, ready)
}

// ---- another size ------------------------------------------------------------------------------

/**
 * From now on blocks have 2^sizeLog2 bytes; what is known is mapped to them (P5-10). False, and
 * nothing changes, where there is no room for so many.
 */
export function resize(b: Blocks, sizeLog2: number): boolean {
  const count = blocksOf(b.length, sizeLog2)
  if (count > b.capacity) return false
  if (sizeLog2 === b.sizeLog2) return true
  const finer = sizeLog2 < b.sizeLog2
  for (let block = 0; block < count; block++) {
    if (finer) inherit(b, block, Math.floor(block / 2 ** (b.sizeLog2 - sizeLog2)))
    else joinParts(b, block, 2 ** (sizeLog2 - b.sizeLog2))
  }
  const { states, hintedUntilUs } = b
  b.states = b.spareStates
  b.hintedUntilUs = b.spareHints
  b.spareStates = states
  b.spareHints = hintedUntilUs
  b.sizeLog2 = sizeLog2
  b.count = count
  b.coveredTo = -1
  b.revision++
  regroup(b)
  return true
}

/** A finer block is what the one was that held it. */
function inherit(b: Blocks, block: number, from: number): void {
  b.spareStates[block] = b.states[from]!
  b.spareHints[block] = b.hintedUntilUs[from]!
}

/** A coarser block is ready if all its parts were, and hinted if all the others were. */
function joinParts(b: Blocks, block: number, parts: number): void {
  const end = (block + 1) * parts < b.count ? (block + 1) * parts : b.count
  let state = BLOCK_READY
  let hinted = Infinity
  for (let part = block * parts; part < end; part++) {
    const one = b.states[part]!
    if (one === BLOCK_READY) continue
    if (one === BLOCK_NOT_READY || state === BLOCK_READY) state = one
    const until = b.hintedUntilUs[part]!
    if (until < hinted) hinted = until
  }
  b.spareStates[block] = state
  b.spareHints[block] = hinted === Infinity ? 0 : hinted
}

// ---- judging -----------------------------------------------------------------------------------

/** The first and the last block of some bytes, which lie within. */
export function blockAt(b: Blocks, offset: number): number {
  return Math.floor(offset / 2 ** b.sizeLog2)
}

/** Are all these bytes known to be ready (P5-3)? Whole groups are judged by their counter. */
export function isRangeReady(b: Blocks, offset: number, length: number): boolean {
  if (length === 0) return true
  const last = blockAt(b, offset + length - 1)
  let block = blockAt(b, offset)
  while (block <= last) {
    const group = Math.floor(block / b.groupBlocks)
    if (b.groupReady[group] === groupSize(b, group)) {
      block = (group + 1) * b.groupBlocks
    } else if (b.states[block] === BLOCK_READY) {
      block++
    } else {
      return false
    }
  }
  return true
}

/**
 * The first of `run` blocks in a row that are ready, from `near` on and round to it: what to use
 * instead of a block that is not (P5-5). -1 where there is none. Groups without any are skipped.
 */
export function findReady(b: Blocks, run: number, near: number): number {
  const behind = findBetween(b, run, near, b.count)
  return behind >= 0 ? behind : findBetween(b, run, 0, near + run - 1)
}

function findBetween(b: Blocks, run: number, from: number, to: number): number {
  const end = to < b.count ? to : b.count
  let found = 0
  let block = from
  while (block < end) {
    const group = Math.floor(block / b.groupBlocks)
    if (b.groupReady[group] === 0) {
      found = 0
      block = (group + 1) * b.groupBlocks
      continue
    }
    found = b.states[block] === BLOCK_READY ? found + 1 : 0
    if (found === run) return block - run + 1
    block++
  }
  return -1
}
