// hot path
/**
 * Associations: which blocks of a region a requester has been told are ready, and what has changed
 * since (source 5, ¶104–116; P5-17 … P5-23). Without I/O and without a clock.
 *
 * A **unit** is a piece of the region that is ready or not as a whole: a page that is mapped, or a
 * record that can be read. A block is ready while no unit that touches it is absent: these are
 * counted per block, so only the edges, 0 to 1 and 1 to 0, are news (P5-20). News is collected for
 * a period, which begins with the first of it (P5-22), or until more than a threshold of memory
 * actions was counted (P5-23); then notice.ts makes a message of it.
 *
 * Invariants:
 * - `told` is what the requester knows when it has taken every message so far. A block that went
 *   there and back is told to nobody: `dirty` counts the blocks that differ from what was told, and
 *   each of them stands in the queue exactly once.
 * - Blocks are counted from the first byte that was associated; the last one may be shorter.
 * - All memory is made at start; an association that has ended leaves nothing behind.
 */

import { ASSOCIATED_BLOCKS, ASSOCIATIONS } from '../board/limits.ts'
import { ASSOCIATION_BYTES } from '../board/memory-map.ts'
import { STATUS_RESET } from '../wire/memory-status.ts'
import { beginMeter, createMeter, heldUntilUs, type Meter } from './meter.ts'

/** Its place is free; it lives; it waits for the end of a message, and then its place is free. */
export const FREE = 0
export const LIVE = 1
export const ENDING = 2

/** Bits of a block's flags. */
const TOLD_READY = 1
const QUEUED = 2

export interface Association {
  readonly index: number
  /** FREE, LIVE or ENDING. */
  life: number
  rkey: number
  /** What was associated: offset in the region and length, bytes. */
  from: number
  length: number

  /** Size in force, log2, and the blocks that there are; the requester's last wish that was met. */
  sizeLog2: number
  blocks: number
  wishLog2: number
  /** Sizes that it says it takes, log2: no other is offered by ourselves; 0 is any. */
  leastLog2: number
  mostLog2: number
  /** A size was agreed; without that the block is the whole. */
  committed: boolean

  /** Changes are told. */
  optedIn: boolean
  /** The kind of notice that says why nothing more is told until the region begins again; or 0. */
  outage: number
  periodUs: number
  threshold: number
  /** Changes in one message, at the most. */
  maximum: number

  /** Of the last message. */
  sequence: number
  /** A message is under way; a second one waits for its end. */
  underWay: boolean
  /** The counts are not those of this size or range: they have to be taken again. */
  stale: boolean

  /** Absent units of each block; what was told, and whether it stands in the queue. */
  readonly absent: Uint16Array
  readonly flags: Uint8Array
  /** Blocks that may differ from what was told, in the order of their first change: a ring. */
  readonly queue: Uint16Array
  queueAt: number
  queueCount: number
  /** Blocks that differ; blocks that are ready. */
  dirty: number
  ready: number

  /** Memory actions since the last message; when the changes are due, µs. */
  actions: number
  dueUs: number
  /** More was announced, so a message follows also where nothing is left to be said. */
  promised: boolean
  /** The next block of the status as it is now, or -1 where nobody asked. */
  currentAt: number
  /** A kind of notice without blocks that is to be sent, or 0. */
  endKind: number

  /** What its notices take of the network, and may take. */
  readonly meter: Meter

  /** For the choice of another size (size.ts). */
  edges: number
  calmWindows: number
  windowEndUs: number
  offerLog2: number
  countered: boolean
  quietUntilUs: number
}

/** Their blocks are counted in packet memory, from `at` on. */
export function createAssociations(memory: ArrayBuffer, at: number): Association[] {
  const all: Association[] = []
  for (let i = 0; i < ASSOCIATIONS; i++) {
    all.push(createAssociation(i, memory, at + i * ASSOCIATION_BYTES))
  }
  return all
}

function createAssociation(index: number, memory: ArrayBuffer, at: number): Association {
  return {
    index,
    life: FREE,
    rkey: 0,
    from: 0,
    length: 0,
    sizeLog2: 0,
    blocks: 0,
    wishLog2: 0,
    leastLog2: 0,
    mostLog2: 0,
    committed: false,
    optedIn: false,
    outage: 0,
    periodUs: 0,
    threshold: 0,
    maximum: 1,
    sequence: 0,
    underWay: false,
    stale: false,
    absent: new Uint16Array(memory, at, ASSOCIATED_BLOCKS),
    queue: new Uint16Array(memory, at + 2 * ASSOCIATED_BLOCKS, ASSOCIATED_BLOCKS),
    flags: new Uint8Array(memory, at + 4 * ASSOCIATED_BLOCKS, ASSOCIATED_BLOCKS),
    queueAt: 0,
    queueCount: 0,
    dirty: 0,
    ready: 0,
    actions: 0,
    dueUs: Infinity,
    promised: false,
    currentAt: -1,
    endKind: 0,
    meter: createMeter(),
    edges: 0,
    calmWindows: 0,
    windowEndUs: Infinity,
    offerLog2: 0,
    countered: false,
    quietUntilUs: 0,
  }
}

/** Associates that range, without an agreed size. The sequence goes on from where it is. */
export function beginAssociation(
  a: Association,
  rkey: number,
  from: number,
  length: number,
  wholeLog2: number,
): void {
  a.life = LIVE
  a.rkey = rkey
  a.from = from
  a.length = length
  a.committed = false
  a.optedIn = false
  a.outage = 0
  a.periodUs = 0
  a.threshold = 0
  a.maximum = 1
  a.wishLog2 = wholeLog2
  a.leastLog2 = 0
  a.mostLog2 = 0
  beginMeter(a.meter, 0)
  a.currentAt = -1
  a.promised = false
  a.endKind = 0
  a.countered = false
  a.quietUntilUs = 0
  setSize(a, wholeLog2)
}

/** The place is free as soon as nothing of it is under way. */
export function endAssociation(a: Association): void {
  a.life = a.underWay ? ENDING : FREE
}

/** From here on blocks have that size; the counts have to be taken again. */
export function setSize(a: Association, sizeLog2: number): void {
  a.sizeLog2 = sizeLog2
  a.blocks = Math.ceil(a.length / 2 ** sizeLog2)
  a.stale = true
  // The status of all blocks is one of blocks of one size.
  if (a.currentAt > 0) a.currentAt = 0
  clearWatch(a)
}

// ---- counting again -----------------------------------------------------------------------------

/** Forgets every count: all blocks are ready, until `countAbsent` says what is not there. */
export function beginCount(a: Association): void {
  a.absent.fill(0, 0, a.blocks)
  a.ready = a.blocks
}

/** A unit of `bytes` bytes at that offset of the region is absent. */
export function countAbsent(a: Association, at: number, bytes: number): void {
  const first = firstBlock(a, at)
  const last = lastBlock(a, at + bytes)
  for (let block = first; block <= last; block++) {
    if (a.absent[block] === 0) a.ready -= 1
    a.absent[block]! += 1
  }
}

/** The counts are right: changes are told from here on. */
export function endCount(a: Association): void {
  for (let block = 0; block < a.blocks; block++) {
    a.flags[block] = a.absent[block] === 0 ? TOLD_READY : 0
  }
  a.queueAt = 0
  a.queueCount = 0
  a.dirty = 0
  a.actions = 0
  a.dueUs = Infinity
  a.stale = false
}

/** First block that bytes from that offset of the region on touch; past the last one if none. */
function firstBlock(a: Association, at: number): number {
  if (at <= a.from) return 0
  return at - a.from < a.length ? Math.floor((at - a.from) / 2 ** a.sizeLog2) : a.blocks
}

/** Last block that bytes up to that offset touch, or -1. */
function lastBlock(a: Association, end: number): number {
  if (end <= a.from) return -1
  const inside = end - a.from < a.length ? end - a.from : a.length
  return Math.ceil(inside / 2 ** a.sizeLog2) - 1
}

// ---- changes -----------------------------------------------------------------------------------

/** A memory action: a unit has come, or has gone. What lies outside of the range is no news. */
export function unitChanged(a: Association, at: number, bytes: number, ready: boolean): void {
  if (a.life !== LIVE || a.stale) return
  const first = firstBlock(a, at)
  const last = lastBlock(a, at + bytes)
  if (first > last) return
  a.actions += 1
  for (let block = first; block <= last; block++) {
    if (ready) unitCame(a, block)
    else unitWent(a, block)
  }
}

function unitCame(a: Association, block: number): void {
  if (a.absent[block] === 0) return
  a.absent[block]! -= 1
  if (a.absent[block] !== 0) return
  a.ready += 1
  edge(a, block, TOLD_READY)
}

function unitWent(a: Association, block: number): void {
  a.absent[block]! += 1
  if (a.absent[block] !== 1) return
  a.ready -= 1
  edge(a, block, 0)
}

/** The block is ready now, or is not any more. */
function edge(a: Association, block: number, state: number): void {
  const flags = a.flags[block]!
  a.edges += 1
  if ((flags & TOLD_READY) === state) {
    a.dirty -= 1
    return
  }
  a.dirty += 1
  if ((flags & QUEUED) !== 0) return
  a.flags[block] = flags | QUEUED
  a.queue[(a.queueAt + a.queueCount) % ASSOCIATED_BLOCKS] = block
  a.queueCount += 1
}

/** The next block that differs from what was told, which it is told by this; -1 if none does. */
export function takeChanged(a: Association): number {
  while (a.queueCount > 0) {
    const block = a.queue[a.queueAt]!
    a.queueAt = (a.queueAt + 1) % ASSOCIATED_BLOCKS
    a.queueCount -= 1
    a.flags[block]! &= ~QUEUED
    if (isToldReady(a, block) === isBlockReady(a, block)) continue
    tellBlock(a, block)
    return block
  }
  return -1
}

/** What is sent now says how that block is. */
export function tellBlock(a: Association, block: number): void {
  if (isToldReady(a, block) === isBlockReady(a, block)) return
  a.flags[block]! ^= TOLD_READY
  a.dirty -= 1
}

function isToldReady(a: Association, block: number): boolean {
  return (a.flags[block]! & TOLD_READY) !== 0
}

export function isBlockReady(a: Association, block: number): boolean {
  return a.absent[block] === 0
}

/** Changes are told from now on, and only those from now on. */
export function optIn(a: Association): void {
  if (!a.optedIn && !a.stale) endCount(a)
  a.optedIn = true
}

/** Asks for the status as it is now, from the first block on; or for why there is none. */
export function askCurrent(a: Association): void {
  if (a.outage === 0) a.currentAt = 0
  else a.endKind = a.outage
}

/**
 * The region failed or cannot be used: a notice of that kind, to who wants any, and nothing of what
 * was to be told before.
 */
export function beginOutage(a: Association, kind: number): void {
  dropNews(a, kind)
  a.outage = kind
}

/** The region begins again: that is said, and then the status of all of it. */
export function endOutage(a: Association): void {
  dropNews(a, STATUS_RESET)
  a.outage = 0
  a.stale = true
}

function dropNews(a: Association, kind: number): void {
  if (a.optedIn || a.currentAt >= 0 || a.endKind !== 0) a.endKind = kind
  a.promised = false
  a.currentAt = -1
  a.dueUs = Infinity
}

// ---- time --------------------------------------------------------------------------------------

/**
 * When something is to be told, µs: now or earlier, later, or Infinity. Changes begin their period
 * by being seen here, and wait for the budget of notices; what was asked for, or says why nothing
 * more is told, does not.
 */
export function tellsAtUs(a: Association, nowUs: number): number {
  if (a.life !== LIVE) return Infinity
  if (a.endKind !== 0) return nowUs
  if (a.outage !== 0 || a.stale) return Infinity
  if (a.currentAt >= 0) return nowUs
  const heldUs = heldUntilUs(a.meter)
  if (a.promised) return laterOf(nowUs, heldUs)
  if (!a.optedIn) return Infinity
  if (a.dirty > 0 && a.dueUs === Infinity) a.dueUs = nowUs + a.periodUs
  if (a.threshold > 0 && a.actions > a.threshold && a.dirty > 0) return laterOf(nowUs, heldUs)
  if (a.dueUs <= nowUs && a.dirty === 0) {
    // It went there and back within the period.
    a.dueUs = Infinity
    a.actions = 0
  }
  return laterOf(a.dueUs, heldUs)
}

function laterOf(one: number, other: number): number {
  return one > other ? one : other
}

/** Nothing was seen of this size yet. */
export function clearWatch(a: Association): void {
  a.edges = 0
  a.calmWindows = 0
  a.windowEndUs = Infinity
  a.offerLog2 = 0
}
