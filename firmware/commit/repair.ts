/**
 * After a group: the records that the medium refused half-way (P1-11).
 *
 * Invariant: a record whose first copy was not taken goes back to the old one; a record
 * whose first copy is durable goes forward, and when that succeeds it *is* durable and says so.
 * Where the medium refuses the repair too, the lane stays for the next recovery, and the region
 * takes no more writes until then. A record that went forward is shown to readers from then on: its
 * lane says so first (lane.ts, held), so that it is lost and never older where that copy is.
 *
 * Of a batch in order (commit.ts), what is behind a record that went forward follows it, one after
 * the other; what is behind one that went back goes back before it, the last first. So at every cut
 * the records that are durable are the first ones of the batch: each lane that is cleared leaves
 * nothing behind it that spoke for a later one. A record that is refused for good, though its first
 * copy is durable, negates those behind it, which may be durable, too: they are not accepted, and
 * their operations are not known.
 */

import { copyClean, fenceOwn, resultOf, run } from '../board/command-list.ts'
import { CONDITION, PASS } from '../board/fault.ts'
import { MEDIA_ERROR } from '../board/hal.ts'
import { LINE_BYTES } from '../board/limits.ts'
import { ZEROS_AT } from '../board/memory-map.ts'
import { sequenceAfter } from '../medium/copies.ts'
import { PHASE_A, PHASE_B } from '../medium/lane.ts'
import { PLACEMENT_LOCAL } from '../medium/region.ts'
import type { Superblock } from '../medium/superblock.ts'
import { closedBy } from './closed.ts'
import {
  type Commit,
  doubtRecord,
  type GroupItem,
  holdLane,
  isNegated,
  laneAddress,
  leavePending,
  NO_LANE,
  retireLane,
  STAGE_FIRST_COPY,
  STAGE_PHASE,
} from './commit.ts'
import type { Examination } from './examine.ts'
import { recordOperation, withdrawOperation, writeImages } from './operations.ts'
import { blankOutcome, judgeRecord, type Outcome, repairRecord } from './unify.ts'
import { deriveUnsettled } from './unsettled.ts'

/** Settles every record of the group that failed alone. Returns how many stay degraded. */
export function repairGroup(
  commit: Commit,
  superblock: Superblock,
  examination: Examination,
): number {
  let degraded = 0
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    const negated = isNegated(commit, i)
    if (negated && item.failedStage === STAGE_PHASE) item.failedStage = STAGE_FIRST_COPY
    if (item.failedStage >= STAGE_PHASE && !repairItem(commit, examination, item)) degraded += 1
    if (negated && item.fault === PASS) negate(commit, item)
  }
  for (let i = commit.count - 1; i >= 0; i--) {
    const item = commit.items[i]!
    if (item.failedStage < 0 || item.failedStage >= STAGE_PHASE) continue
    if (!repairItem(commit, examination, item)) degraded += 1
  }
  for (let i = 0; i < commit.count; i++) {
    const { region, failedStage } = commit.items[i]!
    if (failedStage >= 0) deriveUnsettled(superblock, commit.unsettled, region)
  }
  return degraded
}

function repairItem(commit: Commit, examination: Examination, item: GroupItem): boolean {
  if (item.lane === NO_LANE) return leaveBytes(commit, item)
  if (commit.closed !== PASS) return leaveItem(commit, item)
  if (item.failedStage < STAGE_FIRST_COPY) return clearLane(commit, item)
  if (commit.hostLost && item.region.placement !== PLACEMENT_LOCAL)
    return leaveItemToHost(commit, item)
  const outcome = blankOutcome()
  const forward = item.failedStage > STAGE_FIRST_COPY
  settleItem(commit, examination, item, forward ? PHASE_B : PHASE_A, outcome)
  if (outcome.kept < 0 || outcome.failure !== 0) {
    retireLane(commit, item.lane)
    const isNew = forward && outcome.kept >= 0 && isItem(examination, outcome.kept, item)
    if (item.acknowledged || isNew) commit.held[item.lane] = { ...item }
    if (isNew && !item.acknowledged && !holdInLane(commit, item)) notHeld(commit, item, outcome)
    // Readers are not shown what the next start takes back, if the medium lets it.
    const goesBack = item.link > 0 || outcome.kept > 0
    if (!forward && goesBack) commit.takenBack[item.lane] = { ...item }
    if (outcome.failure !== 0) closeUnlessMedia(commit, outcome.failure)
    commit.unsettled[item.lane] = { ...item }
    // What goes back does so at the next start, too: copy B is whole, and old.
    if (forward) doubtRecord(item)
    noteDegraded(commit, item)
    return false
  }
  if (forward) {
    item.durable = item.region.copies
    item.fault = PASS
    if (!noteItemDurable(commit, item)) return true
  }
  return clearLane(commit, item)
}

/** Plain bytes are what the medium took of them, and durable only where all of it was fenced. */
function leaveBytes(commit: Commit, item: GroupItem): boolean {
  if (commit.closed !== PASS) doubtRecord(item)
  noteDegraded(commit, item)
  return true
}

/** Is that copy the item's, and not one from before? */
function isItem(examination: Examination, copy: number, item: GroupItem): boolean {
  return !sequenceAfter(item, examination.copies[copy]!.header)
}

/** Says in the lane that readers are shown the record, though fewer copies are durable. */
function holdInLane(commit: Commit, item: GroupItem): boolean {
  const { list, words } = commit
  holdLane(list, words, item.lane, item, 0)
  fenceOwn(list)
  const failed = run(list)
  if (failed >= 0) closeUnlessMedia(commit, resultOf(list, failed))
  return failed < 0
}

/**
 * Nothing says that readers are shown the record. Where the medium refused its repair, the older
 * copy stands for it; where that was stored and not fenced, nobody knows what the next start finds.
 */
function notHeld(commit: Commit, item: GroupItem, { failure }: Outcome): void {
  const lanes = failure === MEDIA_ERROR ? commit.takenBack : commit.undecided
  lanes[item.lane] = { ...item }
}

/** The host did not answer: the record waits with its lane until one has shown its memory. */
function leaveItemToHost(commit: Commit, item: GroupItem): boolean {
  const { lane, region } = item
  const phase = item.failedStage > STAGE_PHASE ? PHASE_B : PHASE_A
  retireLane(commit, lane)
  leavePending(commit, lane, region, { ...item }, phase)
  doubtRecord(item)
  noteDegraded(commit, item)
  return false
}

/** The record is durable, and behind one that was refused. */
function negate(commit: Commit, item: GroupItem): void {
  item.fault = CONDITION
  withdrawOperation(commit.operations, item.client, item.operationHigh, item.operationLow)
}

/** The part has closed: the lane says at the next start what is to be done. */
function leaveItem(commit: Commit, item: GroupItem): boolean {
  retireLane(commit, item.lane)
  doubtRecord(item)
  noteDegraded(commit, item)
  commit.doubtful = commit.count
  return false
}

/**
 * The record of a lane that stays: what was acknowledged is known, as the next recovery will find,
 * and what was not is not durable in as many copies as it asked for.
 */
function noteDegraded(commit: Commit, item: GroupItem): void {
  const { operations } = commit
  const note = item.acknowledged ? recordOperation : withdrawOperation
  note(operations, item.client, item.operationHigh, item.operationLow)
}

/** The operation goes into the table, durably, while the lane still speaks for it. */
function noteItemDurable(commit: Commit, item: GroupItem): boolean {
  const { list, operations } = commit
  recordOperation(operations, item.client, item.operationHigh, item.operationLow)
  const result = writeImages(operations, list)
  if (result === 0) return true
  closeUnlessMedia(commit, result)
  retireLane(commit, item.lane)
  return false
}

function settleItem(
  commit: Commit,
  examination: Examination,
  item: GroupItem,
  phase: number,
  into: Outcome,
): void {
  const { list, words } = commit
  judgeRecord(list, words, examination, item.region, item.slot, phase, item, into)
  repairRecord(list, examination, item.region, item.slot, into)
}

/** A refused store concerns its record alone; a fence that failed closes the part (D-13). */
function closeUnlessMedia(commit: Commit, result: number): void {
  if (result !== MEDIA_ERROR) commit.closed = closedBy(result)
}

/** A lane that a media error hit is cleared, or retired if it takes nothing more. */
function clearLane(commit: Commit, item: GroupItem): boolean {
  const list = commit.list
  copyClean(list, ZEROS_AT, laneAddress(item.lane), LINE_BYTES, 0)
  fenceOwn(list)
  commit.dirtyLanes[item.lane] = 0
  const failed = run(list)
  if (failed < 0) return true
  closeUnlessMedia(commit, resultOf(list, failed))
  retireLane(commit, item.lane)
  return true
}
