/**
 * Power-on: from a part of unknown content to one that serves.
 *
 * Invariants:
 * - A part that is refused is not written. What may be wrong with it is a fault with a name.
 * - Recovery ends before the first request is accepted (P1-27): no burst is received meanwhile.
 * - The new incarnation, the list of lost records and the operation table are durable before a lane
 *   is cleared, and a lane is cleared only behind the fence of the repair that it asked for.
 * - Where the superblock does not take the new incarnation, as a page of it refuses stores, no lane
 *   is cleared and no record taken: what the part holds is whole, and is served for reading.
 */

import { type BoardState, isArmed } from '../board/context.ts'
import { type Fault, NOT_ARMED, PASS, SUPERBLOCK, TRUNCATED } from '../board/fault.ts'
import { HEALTH_AT, SAVE_FAILED } from '../board/hal.ts'
import { BURST_FRAMES, LANES, REGIONS } from '../board/limits.ts'
import { KEY_BYTES, KEYS_AT } from '../board/memory-map.ts'
import { stir } from '../board/random.ts'
import type { BurstState, ThroughContext } from '../burst/context.ts'
import { forgetFigures } from '../burst/figures.ts'
import { resetLanes } from '../commit/commit.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { createExamination } from '../commit/examine.ts'
import { readOperations, voidOperations } from '../commit/operations.ts'
import { rightsOf } from '../commit/proof.ts'
import {
  blankReport,
  clearAllLanes,
  LOOK_WAITS,
  type Recovery,
  recoverLanes,
  scanRegion,
  writeOperations,
} from '../commit/recovery.ts'
import { deriveUnsettled } from '../commit/unsettled.ts'
import type { MemoryState } from '../medium/context.ts'
import type { Intent } from '../medium/lane.ts'
import {
  BYTES_BASE_HIGH,
  drawKey,
  findRegionById,
  HOST_DATA_AT,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  placedAt,
  type Region,
  strideOf,
} from '../medium/region.ts'
import { regionNameOf } from '../medium/region-name.ts'
import {
  beginIncarnation,
  dirtyCountOf,
  entryKeyAt,
  formerOperationsOf,
  hostFreeAt,
  incarnationOf,
  installPartKey,
  isForming,
  isFreePlace,
  isRemoved,
  isScanned,
  type RegionEntry,
  readEntry,
  readSuperblock,
  regionCountOf,
  setScanned,
  setVoidOperations,
  upgrade,
  voidOperationsOf,
  writeSuperblock,
} from '../medium/superblock.ts'
import { lookAtPairs } from '../placement/pair.ts'
import { markUnflushed, resetThrough, resumeLane } from '../placement/through.ts'
import { mechanismOf } from '../transport/mechanism.ts'
import { JOB_NONE, type ManageContext, type ManageState } from './context.ts'
import { beginPieces } from './pieces.ts'

/** Bits of the sequence's upper word below the incarnation: the counter has 44 bits. */
const SEQUENCE_COUNTER_BITS = 12

export function createRecovery(state: Omit<PartContext, 'recovery'>): Recovery {
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
    pending: state.commit.pending.fill(null),
    undecided: state.commit.undecided.fill(null),
    phases: state.commit.phases,
    hidden: new Uint8Array(LANES),
    trusted: false,
    unscanned: new Uint8Array(REGIONS),
    unanswered: 0,
    held: state.commit.held.fill(null),
    takenBack: state.commit.takenBack.fill(null),
    unsettled: state.commit.unsettled.fill(null),
    unlisted: 0,
    stored: 0,
    found: { lost: 0, unsettled: 0, underWay: 0 },
  }
}

/** Brings the part up; afterwards `state.refused` says why it does not serve, or PASS. */
export function boot(state: ManageContext): void {
  state.refused = bringUp(state)
}

function bringUp(state: ManageContext): Fault {
  const { list, superblock, facts, commit, regions } = state
  installPartKey(state.bytes)
  const health = state.words[HEALTH_AT >> 2]!
  // Without the save energy no repair could be fenced.
  if (!isArmed(state)) return NOT_ARMED
  let fault = readSuperblock(list, superblock, facts.nvdimmBytes)
  if (fault !== PASS) return fault
  // Behind it the part counts its starts, durably, before anybody is served: and a save that takes
  // that back is counted by the part.
  stir(state, [incarnationOf(superblock), facts.dirtyShutdowns, ...facts.mac])
  beginPieces(state)
  if (hostFreeAt(superblock) > Math.max(state.proof.hostBytes, HOST_DATA_AT)) return TRUNCATED
  for (let i = 0; i < regionCountOf(superblock); i++) {
    if (!isFreePlace(superblock, i) && !isRemoved(superblock, i)) installRegion(state, i)
  }
  regions.count = regionCountOf(superblock)
  const recovery = createRecovery(state)
  state.recovery = recovery
  const unsafe = facts.dirtyShutdowns !== dirtyCountOf(superblock) || (health & SAVE_FAILED) !== 0
  const { operations } = commit
  const former = formerOperationsOf(superblock)
  const floor = voidOperationsOf(superblock)
  recovery.report.linesRead += readOperations(operations, list, floor, former)
  upgrade(superblock, operations.sequence)
  if (unsafe) setVoidOperations(superblock, voidOperations(operations))
  // A save that failed may have taken back a phase word and not the slots, or the reverse.
  const blind = recoverLanes(recovery, !unsafe)
  recovery.lanesUnread = blind && !unsafe
  state.through.unflushed.fill(0)
  if (blind || unsafe) scanEverything(state)
  else rescanRegions(state)
  recovery.lanesUnread = false
  recovery.report.linesRead += recovery.examination.linesRead
  if (recovery.closed !== PASS) return recovery.closed
  const begun = beginIncarnation(superblock, facts.dirtyShutdowns)
  const written = begun ? writeSuperblock(list, superblock) : SUPERBLOCK
  if (written === SUPERBLOCK) recovery.keptLanes.fill(1)
  else fault = written === PASS ? endRecovery(recovery) : written
  if (fault !== PASS) return fault
  state.incarnation = incarnationOf(superblock)
  commit.sequenceHigh = state.incarnation * 2 ** SEQUENCE_COUNTER_BITS
  commit.sequenceLow = 0
  commit.closed = written
  resetLanes(commit, recovery.keptLanes)
  resumeThrough(state)
  lookAtPairs(state)
  resetWork(state)
  return PASS
}

/** The start is written down: the table follows, and then the lanes have nothing more to say. */
function endRecovery(recovery: Recovery): Fault {
  const fault = writeOperations(recovery)
  return fault === PASS ? clearAllLanes(recovery) : fault
}

/**
 * What recovery left to the host's CPU, and regions there whose making was interrupted: these are
 * formatted when there is an agent.
 */
function resumeThrough(state: ThroughContext): void {
  const { unflushed, phases, hidden } = state.recovery
  resetThrough(state)
  for (let lane = BURST_FRAMES; lane < LANES; lane++) {
    const intent = unflushed[lane]!
    const region = intent === null ? null : findRegionById(state.regions, intent.regionId)
    if (region === null) continue
    resumeLane(state, lane, region, intent!, phases[lane]!, hidden[lane]!)
  }
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && isForming(state.superblock, i)) markUnflushed(state, region)
  }
}

/** Nothing is under way in slices; what was is found again (region-job.ts). */
function resetWork(state: MemoryState & ManageState): void {
  const { regionJob } = state
  regionJob.kind = JOB_NONE
  regionJob.fault = PASS
  regionJob.live = isPending(state)
}

/** Was a region removed whose room is not free yet, though it may have to wait? */
export function isPending({ superblock }: MemoryState): boolean {
  for (let i = 0; i < regionCountOf(superblock); i++) if (isRemoved(superblock, i)) return true
  return false
}

function scanEverything(state: ThroughContext): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && region.kind === KIND_RECORDS) scanWhole(state, region)
  }
}

/**
 * Scans a region; one in the host's memory again at every start until it was written back, or past
 * its caches until it was scanned with its placement shown: what a start repairs may lie in them.
 * One that is only being made has nothing to lose: it is made again.
 */
function scanWhole(state: ThroughContext, region: Region): void {
  if (isForming(state.superblock, region.index)) return
  scanRegion(state.recovery, region, 0, region.slots)
  if (region.placement === PLACEMENT_LOCAL) return
  // What goes through its caches is looked at again by the job that has it written back.
  if (region.placement === PLACEMENT_BYPASS) state.recovery.unscanned[region.index] = LOOK_WAITS
  setScanned(state.superblock, region.index)
  markUnflushed(state, region)
}

/** Scans the regions that were scanned at an earlier start, and never written back. */
function rescanRegions(state: ThroughContext): void {
  for (let i = 0; i < REGIONS; i++) {
    const region = state.regions.places[i]!
    if (region !== null && isScanned(state.superblock, i)) scanWhole(state, region)
  }
}

/** Puts region `index` of the superblock into the table, under a new key. */
export function installRegion(state: PartContext & BurstState, index: number): Region {
  const { superblock, regions, commit } = state
  const from = entryKeyAt(index)
  const key = superblock.bytes.subarray(from, from + KEY_BYTES)
  const region = regionOfEntry(state, index, readEntry(superblock, index), key)
  region.rkey = drawKey(state, index)
  deriveUnsettled(superblock, commit.unsettled, region)
  regions.places[index] = region
  forgetFigures(state.figures, index)
  return region
}

/** A region as its entry says, with its check-code key in place; nobody has a key to it. */
export function regionOfEntry(
  state: BoardState & CommitState,
  index: number,
  entry: RegionEntry,
  key: Uint8Array,
): Region {
  const keyAt = KEYS_AT + (index + 1) * KEY_BYTES
  state.bytes.set(key, keyAt)
  const records = entry.kind === KIND_RECORDS
  return {
    index,
    id: entry.id,
    name: regionNameOf(entry.name, 0),
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
    baseHigh: records ? 0 : BYTES_BASE_HIGH,
    baseLow: 0,
    keyAt,
    rkey: 0,
    rights: rightsOf(state.proof, entry),
    unsettled: 0,
    repaired: 0,
    mechanism: mechanismOf(state, entry.placement),
    pending: 0,
  }
}
