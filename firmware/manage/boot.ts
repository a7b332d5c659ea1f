/**
 * Power-on: from a part of unknown content to one that serves.
 *
 * What always holds:
 * - A part that is refused is not written. What may be wrong with it is a fault with a name.
 * - Recovery ends before the first request is accepted (P1-27): no burst is received meanwhile.
 * - The new incarnation, the list of lost records and the operation table are durable before a lane
 *   is cleared, and a lane is cleared only behind the fence of the repair that it asked for.
 */

import { resetLanes } from '../commit/commit.ts'
import { createExamination } from '../commit/examine.ts'
import type { Intent } from '../commit/lane.ts'
import { readOperations, voidOperations } from '../commit/operations.ts'
import { rightsOf } from '../commit/placement.ts'
import {
  blankReport,
  clearAllLanes,
  type Recovery,
  recoverLanes,
  scanRegion,
  writeOperations,
} from '../commit/recovery.ts'
import { type Fault, NOT_ARMED, PASS, TRUNCATED } from '../fault.ts'
import { HEALTH_AT, SAVE_FAILED } from '../hal.ts'
import { BURST_FRAMES, LANES, REGION_NAME_BYTES, REGIONS } from '../limits.ts'
import {
  findRegionById,
  HOST_DATA_AT,
  KIND_RECORDS,
  PLACEMENT_LOCAL,
  placedAt,
  type Region,
  strideOf,
} from '../memory/region.ts'
import {
  beginIncarnation,
  dirtyCountOf,
  entryKeyAt,
  hostFreeAt,
  incarnationOf,
  installPartKey,
  isForming,
  isScanned,
  lostOf,
  readEntry,
  readSuperblock,
  regionCountOf,
  setScanned,
  setVoidOperations,
  voidOperationsOf,
  writeSuperblock,
} from '../memory/superblock.ts'
import { KEY_BYTES, KEYS_AT } from '../memory-map.ts'
import { markUnflushed, resetThrough, resumeLane } from '../serve/through.ts'
import { isArmed, random32, type State } from '../state.ts'
import { formatSlots } from './format-slots.ts'

/** Bits of the sequence's upper word below the incarnation: the counter has 44 bits. */
const SEQUENCE_COUNTER_BITS = 12

/** Virtual address of the first byte of a region of bytes: it is zero-based. */
const BASE_VA = 0

export function createRecovery(state: Omit<State, 'recovery'>): Recovery {
  return {
    list: state.list,
    words: state.words,
    examination: createExamination(),
    regions: state.regions,
    superblock: state.superblock,
    operations: state.commit.operations,
    report: blankReport(),
    closed: PASS,
    lanesUnread: false,
    keptLanes: new Uint8Array(LANES),
    unflushed: new Array<Intent | null>(LANES).fill(null),
    held: state.commit.held.fill(null),
    takenBack: state.commit.takenBack.fill(null),
  }
}

/** Brings the part up; afterwards `state.refused` says why it does not serve, or PASS. */
export function boot(state: State): void {
  state.refused = bringUp(state)
  const { queuePairs } = state
  // Its host has queue pairs to other cards also where there is no part, and so no incarnation.
  if (queuePairs.salt === 0) queuePairs.salt = (random32(state) % 0xffff) + 1
}

function bringUp(state: State): Fault {
  const { list, superblock, facts, commit } = state
  installPartKey(state.bytes)
  const health = state.words[HEALTH_AT >> 2]!
  // Without the save energy no repair could be fenced.
  if (!isArmed(state)) return NOT_ARMED
  let fault = readSuperblock(list, superblock, facts.nvdimmBytes)
  if (fault !== PASS) return fault
  if (hostFreeAt(superblock) > Math.max(facts.hostBytes, HOST_DATA_AT)) return TRUNCATED
  for (let i = 0; i < regionCountOf(superblock); i++) installRegion(state, i)
  const recovery = createRecovery(state)
  state.recovery = recovery
  const unsafe = facts.dirtyShutdowns !== dirtyCountOf(superblock) || (health & SAVE_FAILED) !== 0
  const { operations } = commit
  recovery.report.linesRead += readOperations(operations, list, voidOperationsOf(superblock))
  if (unsafe) setVoidOperations(superblock, voidOperations(operations))
  // A save that failed may have taken back a phase word and not the slots, or the reverse.
  const blind = recoverLanes(recovery, !unsafe)
  recovery.lanesUnread = blind && !unsafe
  state.through.unflushed.fill(0)
  if (blind || unsafe) scanEverything(state)
  else scanAgain(state)
  noteUnproven(state)
  recovery.lanesUnread = false
  recovery.report.linesRead += recovery.examination.linesRead
  if (recovery.closed !== PASS) return recovery.closed
  fault = writeOperations(recovery)
  if (fault !== PASS) return fault
  beginIncarnation(superblock, facts.dirtyShutdowns)
  fault = writeSuperblock(list, superblock)
  if (fault === PASS) fault = clearAllLanes(recovery)
  if (fault !== PASS) return fault
  state.incarnation = incarnationOf(superblock)
  state.queuePairs.salt = ((state.incarnation - 1) % 0xffff) + 1
  commit.sequenceHigh = state.incarnation * 2 ** SEQUENCE_COUNTER_BITS
  commit.sequenceLow = 0
  commit.closed = PASS
  resetLanes(commit, recovery.keptLanes)
  return resumeThrough(state)
}

/** What recovery left to the host's CPU, and regions there whose making was interrupted. */
function resumeThrough(state: State): Fault {
  const { unflushed } = state.recovery
  resetThrough(state)
  for (let lane = BURST_FRAMES; lane < LANES; lane++) {
    const intent = unflushed[lane]!
    const region = intent === null ? null : findRegionById(state.regions, intent.regionId)
    if (region !== null) resumeLane(state, lane, region, intent!.record)
  }
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region === null || !isForming(state.superblock, i)) continue
    const fault = formatSlots(state, region, 0, region.slots)
    if (fault !== PASS) return fault
    markUnflushed(state, region)
  }
  return PASS
}

function scanEverything(state: State): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && region.kind === KIND_RECORDS) {
      scanWhole(state, region)
    }
  }
}

/**
 * Scans a region; one in the host's memory again at every start until it was written back, or its
 * placement is shown.
 */
function scanWhole(state: State, region: Region): void {
  scanRegion(state.recovery, region, 0, region.slots)
  if (region.placement === PLACEMENT_LOCAL) return
  setScanned(state.superblock, region.index)
  markUnflushed(state, region)
}

/**
 * What was repaired past the host's caches is durable only if they are passed by as ever, which
 * nobody has shown yet (fault H6). Until somebody does, the region is scanned at every start.
 */
function noteUnproven(state: State): void {
  const { unflushed } = state.recovery
  for (let lane = 0; lane < BURST_FRAMES; lane++) {
    const intent = unflushed[lane]!
    const region = intent === null ? null : findRegionById(state.regions, intent.regionId)
    if (region !== null) setScanned(state.superblock, region.index)
  }
}

/** Scans the regions that were scanned at an earlier start, and never written back. */
function scanAgain(state: State): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && isScanned(state.superblock, i)) scanWhole(state, region)
  }
}

/** The name in an entry or a request: bytes up to the first zero, one character each. */
export function nameOf(bytes: Uint8Array, at: number): string {
  let name = ''
  for (let i = 0; i < REGION_NAME_BYTES && bytes[at + i] !== 0; i++) {
    name += String.fromCharCode(bytes[at + i]!)
  }
  return name
}

/** Puts region `index` of the superblock into the table, under a new key. */
export function installRegion(state: State, index: number): Region {
  const { superblock, regions, bytes } = state
  const entry = readEntry(superblock, index)
  const keyAt = KEYS_AT + (index + 1) * KEY_BYTES
  const from = entryKeyAt(index)
  for (let i = 0; i < KEY_BYTES; i++) bytes[keyAt + i] = superblock.bytes[from + i]!
  const records = entry.kind === KIND_RECORDS
  const region: Region = {
    index,
    id: entry.id,
    name: nameOf(entry.name, 0),
    kind: entry.kind,
    slots: entry.slots,
    capacity: entry.capacity,
    copies: entry.copies,
    flags: entry.flags,
    protectionDomain: entry.protectionDomain,
    stride: records ? strideOf(entry.capacity) : 0,
    placement: entry.placement,
    at: entry.at,
    base: placedAt(entry.placement, entry.at),
    areaBytes: entry.areaBytes,
    baseHigh: BASE_VA,
    baseLow: BASE_VA,
    keyAt,
    rkey: ((random32(state) << 5) | index) >>> 0,
    rights: rightsOf(state.placement, entry),
    unsettled: lostOf(superblock, entry.id),
  }
  regions.places[index] = region
  regions.count = index + 1
  return region
}
