// hot path
/**
 * Receipts: which records a PERSIST_ACK speaks of (D-5, D-6, X-1).
 *
 * Invariants:
 * - A range covers records of one queue pair that are all durable at least as far as the range
 *   says, when its frame leaves: the TRANSMIT stands behind the fence. A record that was refused,
 *   or that waits for a later fence, ends the range of its queue pair.
 * - What became of a record is remembered by PSN and operation id before the next burst, so a
 *   duplicate gets the same receipt again, and only a duplicate of that operation.
 */

import { count } from '../board/context.ts'
import { FAULTS, NOT_DURABLE, PASS } from '../board/fault.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import { refuseQueuePair } from '../burst/burst.ts'
import type { GroupContext, ReceiptState } from '../burst/context.ts'
import { noteDurable } from '../burst/figures.ts'
import type { GroupItem } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { HOST_OWNER } from '../host/work.ts'
import type { Region } from '../medium/region.ts'
import {
  answerPersist,
  PERSIST_ALL,
  PERSIST_DEGRADED,
  type PersistRange,
} from '../transport/acknowledge.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import { psnDistance } from '../transport/psn.ts'
import { type QueuePair, remember, STATE_OPEN } from '../transport/queue-pair.ts'
import { MECHANISM_LOCAL_FLUSH } from '../wire/persist-ack.ts'
import { acknowledgeBatches, endBatches, noteMember } from './batch-status.ts'
import { completeRecord, endRecord } from './record-end.ts'

/** A bitmap names at most 256 PSNs, and so does a range (wire-format 7.3). */
const RANGE_PSNS = 256

const NO_RANGE = -1

/** Copies and mechanism in one byte. */
const COPIES_MASK = 15
const MECHANISM_SHIFT = 4

export function blankRange(): PersistRange {
  return {
    firstPsn: 0,
    lastPsn: 0,
    operationHigh: 0,
    operationLow: 0,
    records: 0,
    status: 0,
    flags: PERSIST_ALL,
    copies: 0,
    mechanism: MECHANISM_LOCAL_FLUSH,
    segment: 0,
  }
}

/** Durable copies with their mechanism, as they are remembered in one byte. */
export function packCopies(copies: number, mechanism: number): number {
  return copies | (mechanism << MECHANISM_SHIFT)
}

/** Likewise, for a region's record. */
export function copiesIn(region: Region, copies: number): number {
  return copies | (region.mechanism << MECHANISM_SHIFT)
}

/**
 * Answers for one record alone, `copies` as remembered: a refusal, a late success, again. Behind a
 * NAK that ended the queue pair there is silence: an answer would acknowledge what it denied.
 */
export function answerRecord(
  state: FrameContext & ReceiptState,
  qp: QueuePair,
  psn: number,
  operationHigh: number,
  operationLow: number,
  status: number,
  copies: number,
): void {
  if (qp.state !== STATE_OPEN) return
  const range = state.ranges[BURST_FRAMES]!
  range.firstPsn = psn
  range.lastPsn = psn
  range.operationHigh = operationHigh
  range.operationLow = operationLow
  range.records = 1
  range.status = status
  range.copies = copies & COPIES_MASK
  range.mechanism = copies >> MECHANISM_SHIFT || MECHANISM_LOCAL_FLUSH
  range.flags = status === 0 ? PERSIST_ALL : range.copies > 0 ? PERSIST_DEGRADED : 0
  answerPersist(state.answers, qp, range, state.incarnation)
}

/** Appends the PERSIST_ACKs of the records that wait for exactly so many durable copies. */
export function acknowledgeCopies(state: GroupContext, copies: number): void {
  const commit = state.commit
  let plain = false
  state.rangeCount = 0
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.owner === HOST_OWNER) {
      completeRecord(state, i, copies)
      continue
    }
    if (item.plain) plain = true
    if (item.fault !== PASS || item.wait > copies) state.openRange[item.owner] = NO_RANGE
    else if (item.wait === copies && item.wantsAck) addToRange(state, item, copies)
  }
  if (plain) releaseRecords(state, copies)
  if (state.batches.joinedCount > 0) acknowledgeBatches(state, copies)
  for (let r = 0; r < state.rangeCount; r++) {
    const qp = state.rangeOwner[r]!
    state.openRange[qp.index] = NO_RANGE
    if (qp.state === STATE_OPEN)
      answerPersist(state.answers, qp, state.ranges[r]!, state.incarnation)
  }
}

/** Answers that are composed now stand behind so many copies of every plain WRITE of a record. */
function releaseRecords(state: CommitState & TransportState, copies: number): void {
  const { commit, answers, queuePairs } = state
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.plain) queuePairs.places[item.owner]!.recordAt = -1
  }
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    const done = item.fault === PASS && item.wait <= copies
    if (item.plain && !done) queuePairs.places[item.owner]!.recordAt = answers.groups
  }
}

function addToRange(state: TransportState & ReceiptState, item: GroupItem, copies: number): void {
  const open = state.openRange[item.owner]!
  const mechanism = item.region.mechanism
  let range = state.ranges[open === NO_RANGE ? state.rangeCount : open]!
  const apart =
    open === NO_RANGE ||
    range.segment !== item.segment ||
    range.mechanism !== mechanism ||
    psnDistance(item.psn, range.firstPsn) >= RANGE_PSNS
  if (apart) {
    range = state.ranges[state.rangeCount]!
    state.rangeOwner[state.rangeCount] = state.queuePairs.places[item.owner]!
    state.openRange[item.owner] = state.rangeCount
    state.rangeCount += 1
    range.firstPsn = item.psn
    range.segment = item.segment
    range.records = 0
    range.status = 0
    range.flags = PERSIST_ALL
    range.copies = copies
    range.mechanism = mechanism
  }
  range.lastPsn = item.psn
  range.operationHigh = item.operationHigh
  range.operationLow = item.operationLow
  range.records += 1
}

/** After the group: remembers every record, and answers for those that went their own way. */
export function rememberGroup(state: GroupContext): void {
  const commit = state.commit
  const { figures } = state
  const { nowUs } = state.connections
  // Records of one region, one behind the other, are counted as one.
  let place = commit.items[0]!.region.index
  let records = 0
  let bytes = 0
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    const taken = item.acknowledged || item.fault === PASS
    if (item.region.index !== place) {
      if (records > 0) noteDurable(figures, place, nowUs, records, bytes)
      place = item.region.index
      records = 0
      bytes = 0
    }
    if (taken) {
      records += 1
      bytes += item.length
    }
    if (item.owner === HOST_OWNER) {
      endRecord(state, i)
      continue
    }
    if (item.batchIndex >= 0) {
      noteMember(state, item)
      continue
    }
    const qp = state.queuePairs.places[item.owner]!
    const status = taken ? 0 : FAULTS[item.fault]!.code
    // As `copiesIn` does.
    const mechanism = item.region.mechanism
    const copies = (taken ? item.wait : item.durable) | (mechanism << MECHANISM_SHIFT)
    if (!taken) count(state, item.fault)
    remember(qp, item.psn, item.operationHigh, item.operationLow, status, copies)
    const inRange = item.failedStage < 0 && item.fault === PASS
    if (inRange || item.acknowledged) continue
    if (!taken && item.plain) refuseQueuePair(state, qp, item.psn, NOT_DURABLE)
    if (taken && !item.wantsAck) continue
    const { psn, operationHigh, operationLow } = item
    answerRecord(state, qp, psn, operationHigh, operationLow, status, copies)
  }
  if (records > 0) noteDurable(figures, place, nowUs, records, bytes)
  if (state.batches.joinedCount > 0) endBatches(state)
}
