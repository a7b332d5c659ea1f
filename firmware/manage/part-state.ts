/** How a part is: its state, what STATUS tells of it, and a line about its start for the board. */

import type { BoardState } from '../board/context.ts'
import { BLANK, FAULTS, type Fault, FLUSH, MEDIA, PASS, UNREADABLE } from '../board/fault.ts'
import { HEALTH_AT, ON_TRIAL } from '../board/hal.ts'
import { REGIONS, RELAYS } from '../board/limits.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { writesFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import { strideOf } from '../medium/region.ts'
import { DEVICE_ID_AT, FORMAT_VERSION, lostCount, versionOf } from '../medium/superblock.ts'
import { describeRefusals } from '../session/refusals.ts'
import { hasPeers } from '../session/sessions.ts'
import { putU32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { put64 } from './call.ts'
import { JOB_ERASE, JOB_NONE, type ManageContext } from './context.ts'

function partState(state: BoardState & CommitState): number {
  if (state.refused === BLANK) return mad.STATE_BLANK
  if (state.refused !== PASS) return mad.STATE_REFUSED
  return state.commit.closed === PASS ? mad.STATE_SERVING : mad.STATE_FAILED_CLOSED
}

/** Why the part does not serve, or not as it should; PASS if it does. */
function partFault(state: BoardState & CommitState): Fault {
  return state.refused !== PASS ? state.refused : state.commit.closed
}

/** Records that are lost. Nobody can tell of a part that is refused: 0. */
function lostRecords(state: BoardState & MemoryState): number {
  return state.refused === PASS ? lostCount(state.superblock) : 0
}

/** As 'state=serving format=3 lost=0', and behind it ' fault=NEWER' where there is one. */
export function describePart(state: PartContext): string {
  const format = state.refused === PASS ? versionOf(state.superblock) : 0
  const words = `state=${mad.STATE_NAMES[partState(state)]!} format=${format}`
  const fault = partFault(state)
  const told = fault === PASS ? '' : ` fault=${FAULTS[fault]!.name}`
  return `${words} lost=${lostRecords(state)}${told}`
}

/** What STATUS tells of the part, at `to`: PART_BYTES. Strangers learn how it is, and no more. */
export function writePartStatus(state: ManageContext, to: number, toStranger: boolean): void {
  const { bytes } = state
  const format = state.refused === PASS ? versionOf(state.superblock) : FORMAT_VERSION
  bytes.fill(0, to, to + mad.PART_BYTES)
  bytes[to + mad.PART_STATE] = partState(state)
  const health = state.words[HEALTH_AT >> 2]!
  bytes[to + mad.PART_HEALTH] = toStranger ? health & ~ON_TRIAL : health
  bytes[to + mad.PART_FAULT] = partFault(state)
  bytes[to + mad.PART_ACCESS] = hasPeers(state) ? mad.ACCESS_PEERS : mad.ACCESS_OPEN
  putU32(bytes, to + mad.PART_PATH_MTU, state.facts.pathMtu)
  putU32(bytes, to + mad.PART_FORMAT_VERSION, format)
  if (toStranger) return
  bytes[to + mad.PART_REGIONS] = state.regions.count
  putU32(bytes, to + mad.PART_INCARNATION, state.incarnation)
  for (let i = 0; i < mad.DEVICE_ID_BYTES; i++) {
    bytes[to + mad.PART_DEVICE_ID + i] = state.superblock.bytes[DEVICE_ID_AT + i]!
  }
  put64(bytes, to + mad.PART_NVDIMM_BYTES_HIGH, state.facts.nvdimmBytes)
  putU32(bytes, to + mad.PART_UNSETTLED, lostRecords(state))
  describeRecovery(state, to)
  describeWork(state, to)
  describeRefusals(state, to)
  describeTroubles(state, to)
}

/** What the start found, and what was mended since. */
function describeRecovery(
  { bytes, recovery, superblock, commit }: ManageContext,
  to: number,
): void {
  const { report } = recovery
  putU32(bytes, to + mad.PART_REPORT_ENTRIES, report.entries.length)
  putU32(bytes, to + mad.PART_LINES_READ, report.linesRead)
  putU32(bytes, to + mad.PART_LANES_ACTIVE, report.lanesActive)
  putU32(bytes, to + mad.PART_SCANNED, report.scanned)
  putU32(bytes, to + mad.PART_REPAIRED, report.repaired)
  putU32(bytes, to + mad.PART_OPERATIONS, report.operations)
  putU32(bytes, to + mad.PART_SUPERBLOCK_WHOLE, superblock.whole)
  putU32(bytes, to + mad.PART_SUPERBLOCK_MENDED, superblock.mended)
  putU32(bytes, to + mad.PART_OPERATIONS_MENDED, commit.operations.mended)
  putU32(bytes, to + mad.PART_OPERATIONS_LOST, commit.operations.lost)
}

/** What is under way, and what remains of it. */
function describeWork({ bytes, regionJob }: ManageContext, to: number): void {
  const { kind, entry, done, total } = regionJob
  const each =
    kind === JOB_NONE || kind === JOB_ERASE ? 1 : entry!.copies * strideOf(entry!.capacity)
  const none = kind === JOB_NONE
  bytes[to + mad.PART_WORK] = kind
  putU32(bytes, to + mad.PART_WORK_REGION, none ? 0 : entry!.id)
  put64(bytes, to + mad.PART_WORK_DONE_HIGH, none ? 0 : done * each)
  put64(bytes, to + mad.PART_WORK_TOTAL_HIGH, none ? 0 : total * each)
}

/** What regions and medium have had, and have. */
function describeTroubles(state: ManageContext, to: number): void {
  const { bytes, counters, regions } = state
  let refusing = 0
  let mended = 0
  for (let i = 0; i < REGIONS + RELAYS; i++) {
    const region = regions.places[i] ?? null
    if (region === null) continue
    if (writesFault(state, region) !== PASS) refusing |= 1 << i
    mended += region.repaired
  }
  putU32(bytes, to + mad.PART_REFUSING, refusing)
  putU32(bytes, to + mad.PART_MENDED, mended)
  const failures = counters[MEDIA]! + counters[UNREADABLE]! + counters[FLUSH]!
  putU32(bytes, to + mad.PART_MEDIA_FAILURES, failures)
}
