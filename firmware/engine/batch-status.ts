// hot path
/**
 * The one status of a batch (D-10; P4-8, P4-12, P4-13).
 *
 * Invariants:
 * - It says "durable" only of records that are, when its frame leaves: it stands in the list behind
 *   the fence of the highest level that one of its records waits for, in the last of its groups.
 *   Where the medium refuses one of them it is given behind the group, when that is settled.
 * - A burst of a batch has one status, and a queue pair that has failed has none.
 * - The bitmap is by index, over all of the batch: of records that did not come in this burst it
 *   says what is known of their operations.
 */

import {
  BATCH_DONE,
  BATCH_JUDGED,
  BATCH_NONE,
  type Batch,
  type BatchBits,
  durableUpToIndex,
  endHanding,
  endNotice,
  keeperOf,
  noteMemberDurable,
  noteRefused,
  releaseMembers,
} from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { noteDoubt, noteStored } from '../batch/notices.ts'
import { assert } from '../board/assert.ts'
import { type BoardState, count } from '../board/context.ts'
import { DUPLICATE_FORGED, FAULTS, IN_DOUBT, PASS } from '../board/fault.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import type { GroupContext } from '../burst/context.ts'
import type { GroupItem } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { MESSAGES, PLACEMENT_LOCAL } from '../medium/region.ts'
import {
  answerBatch,
  PERSIST_ALL,
  PERSIST_ANSWERS_QUERY,
  PERSIST_OF_BATCH,
} from '../transport/acknowledge.ts'
import { mechanismOf } from '../transport/mechanism.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import type { Pweth } from '../wire/persist.ts'
import { BATCH_NONE_DURABLE, BITMAP_WORDS_MAX, setInBitmap } from '../wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../wire/persist-query.ts'

/** Appends the statuses of the batches that wait for exactly so many durable copies. */
export function acknowledgeBatches(state: GroupContext, copies: number): void {
  const { batches } = state
  for (let i = 0; i < batches.joinedCount; i++) {
    const batch = batches.of[batches.joined[i]!]!
    // What was composed for this fence before was not run.
    if (batch.saidAt >= copies) batch.saidAt = 0
    if (batch.phase !== BATCH_JUDGED || batch.saidAt > 0) continue
    if (batchLevelOf(state, batch) !== copies) continue
    say(state, batch)
    batch.saidAt = copies
  }
}

/** The highest level that its records in the group wait for; 0 where the medium refused one. */
function batchLevelOf(state: CommitState, batch: Batch): number {
  const { items, count: length } = state.commit
  let level = 0
  for (let i = 0; i < length; i++) {
    const item = items[i]!
    if (item.owner !== batch.place || item.batchIndex < 0) continue
    if (item.fault !== PASS && !item.acknowledged) return 0
    if (item.wait > level) level = item.wait
  }
  return level
}

/** Says what will be so behind the fence: its records in the group are durable, too. */
function say(state: GroupContext, batch: Batch): void {
  const { items, count: length } = state.commit
  const { said } = state.batches
  copyBits(said, batch)
  let { records, copies } = batch
  for (let i = 0; i < length; i++) {
    const item = items[i]!
    if (item.owner !== batch.place || item.batchIndex < 0) continue
    setInBitmap(said.bitmap, item.batchIndex)
    records += 1
    if (copies === 0 || item.wait < copies) copies = item.wait
  }
  batch.saidRecords = records
  const qp = state.queuePairs.places[batch.place]!
  assert(qp.state === STATE_OPEN, 'a queue pair that fails drops its batch')
  answerBits(state, qp, batch, records, copies, batch.psn, 0)
}

function copyBits(to: BatchBits, from: BatchBits): void {
  to.id = from.id
  to.count = from.count
  for (let i = 0; i < BITMAP_WORDS_MAX; i++) to.bitmap[i] = from.bitmap[i]!
}

/** Answers with the bits in `said`. */
function answerBits(
  state: GroupContext,
  qp: QueuePair,
  batch: Batch,
  records: number,
  copies: number,
  psn: number,
  flags: number,
): void {
  const { said } = state.batches
  const upTo = durableUpToIndex(said.bitmap, said.count)
  const all = upTo === said.count - 1
  said.durable = upTo < 0 ? BATCH_NONE_DURABLE : upTo
  const range = state.ranges[BURST_FRAMES]!
  const decided = batch.phase === BATCH_DONE || batch.phase === BATCH_JUDGED
  range.firstPsn = psn
  range.lastPsn = psn
  range.operationHigh = batch.operationHigh
  range.operationLow = batch.operationLow
  range.records = records
  range.status = decided ? FAULTS[batch.refusal]!.code : QUERY_NOT_KNOWN
  range.flags = PERSIST_OF_BATCH | (all ? PERSIST_ALL : 0) | flags
  range.copies = copies
  range.mechanism = records > 0 ? batch.mechanism || mechanismIn(state, batch) : 0
  answerBatch(state.answers, qp, range, said, state.incarnation)
}

/** How what the group has of the batch is durable: as its regions are, or as the table is. */
function mechanismIn(state: BoardState, batch: Batch): number {
  const keeper = keeperOf(batch)
  return keeper === MESSAGES ? mechanismOf(state, PLACEMENT_LOCAL) : keeper.mechanism
}

/** What became of a record of a batch in the group. */
export function noteMember(state: BoardState & BatchState, item: GroupItem): void {
  const { notices } = state.batches
  const batch = state.batches.of[item.owner]!
  if (item.acknowledged || item.fault === PASS) {
    noteMemberDurable(batch, item.batchIndex, item.wait)
    if (notices.watched > 0) noteStored(notices, batch, item)
    return
  }
  if (item.fault === IN_DOUBT && notices.watched > 0) noteDoubt(notices, item)
  count(state, item.fault)
  noteRefused(batch, item.batchIndex, item.fault)
}

/** The group is over, and what became of its records is noted. */
export function endBatches(state: GroupContext): void {
  const { batches } = state
  for (let i = 0; i < batches.joinedCount; i++) {
    const batch = batches.of[batches.joined[i]!]!
    batch.pending = 0
    if (batch.phase === BATCH_NONE) {
      releaseMembers(batches, batch)
      endNotice(batches, batch)
    }
    if (batch.phase !== BATCH_JUDGED) continue
    // A fence that failed has kept back what stood behind it.
    const isSaid = batch.saidAt > 0 && batch.saidRecords === batch.records
    concludeBatch(state, state.queuePairs.places[batch.place]!, batch, !isSaid)
  }
  batches.joinedCount = 0
}

/** All of its burst is decided: its status is given, if it was not, and what it held is free. */
export function concludeBatch(
  state: GroupContext,
  qp: QueuePair,
  batch: Batch,
  due: boolean,
): void {
  batch.phase = BATCH_DONE
  endHanding(state.batches, batch)
  releaseMembers(state.batches, batch)
  endNotice(state.batches, batch)
  if (due && qp.state === STATE_OPEN) repeatStatus(state, qp, batch, batch.psn, 0)
}

/** Says, or says again, what is known of the batch. */
function repeatStatus(
  state: GroupContext,
  qp: QueuePair,
  batch: Batch,
  psn: number,
  flags: number,
): void {
  copyBits(state.batches.said, batch)
  answerBits(state, qp, batch, batch.records, batch.copies, psn, flags)
}

/** A record of a batch again: the one that ended its burst earns the same status again. */
export function repeatBatch(
  state: GroupContext,
  qp: QueuePair,
  lastPsn: number,
  pweth: Pweth,
): void {
  const batch = state.batches.of[qp.index]!
  if (batch.phase !== BATCH_DONE || batch.psn !== lastPsn) return
  if (batch.id === pweth.batchId && batch.count === pweth.batchCount) {
    repeatStatus(state, qp, batch, lastPsn, 0)
  } else {
    count(state, DUPLICATE_FORGED)
  }
}

/** Answers a query for the batch of that id. False if it is not the last one of the queue pair. */
export function answerBatchQuery(
  state: GroupContext,
  qp: QueuePair,
  id: number,
  psn: number,
): boolean {
  const batch = state.batches.of[qp.index]!
  if (batch.phase === BATCH_NONE || batch.id !== id) return false
  repeatStatus(state, qp, batch, psn, PERSIST_ANSWERS_QUERY)
  return true
}
