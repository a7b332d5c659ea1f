// hot path
/**
 * From the group in composition to its end: acknowledged, committed, remembered.
 *
 * Invariant: the receive-ACKs of the burst so far stand in the list before the commit
 * (P2-28: received before persisted), the PERSIST_ACKs behind their fences; when this returns, the
 * group is empty and every record of it is either durable in all copies or accounted for. Records
 * of the host stand in the same group; their completions take the place of the PERSIST_ACKs.
 */

import { type Batch, keeperOf } from '../batch/batch.ts'
import { isStillFilled } from '../batch/members.ts'
import { run } from '../board/command-list.ts'
import { PASS } from '../board/fault.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import { loseHost, noteFence, runBurst } from '../burst/burst.ts'
import type { BurstState, GroupContext } from '../burst/context.ts'
import { commitGroup, lanesLeft, lanesOf } from '../commit/commit.ts'
import { repairGroup } from '../commit/repair.ts'
import { composeRoom } from '../host/compose.ts'
import { answerAck, answerDuplicate, isWithheld, transmitRoom } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { STATE_OPEN } from '../transport/queue-pair.ts'
import { rememberGroup } from './receipt.ts'
import { tellRecords } from './record-end.ts'

/**
 * Sends the receive-ACKs that are due, except for queue pairs with operations that must be answered
 * first, or with stores that must be durable first.
 */
export function sendAcks(state: TransportState & BurstState): void {
  for (let i = 0; i < state.touchedCount; i++) {
    const qp = state.touched[i]!
    if ((!qp.ackDue && qp.repeatDue < 0) || qp.state !== STATE_OPEN) continue
    if (qp.unanswered > 0 || isWithheld(state.answers, qp)) continue
    if (qp.ackDue) answerAck(state.answers, qp)
    else answerDuplicate(state.answers, qp, qp.repeatDue)
    qp.repeatDue = -1
  }
}

/**
 * What is collected of a batch is about to be judged: the group makes way where all of it would fit
 * into one group, and not into what is left of this one.
 */
export function makeGroupRoom(state: GroupContext, batch: Batch): void {
  const { commit } = state
  if (isStillFilled(state.batches)) runBurst(state)
  const left = batch.received - batch.judged
  // Others of it are of the same placement.
  const region = keeperOf(batch)
  if (left <= lanesOf(commit, region) && left > lanesLeft(commit, region)) commitNow(state)
}

/** Completions of a group, and again those that a refusal in between has delayed. */
const COMPLETION_LINES: number = 4 * BURST_FRAMES

/** A message is about to be delivered, if it may be: there is to be room to tell of it. */
export function makeTellRoom(state: GroupContext): void {
  if (composeRoom(state.host, state.list) < COMPLETION_LINES) runBurst(state)
}

/** Commits the group as it stands. */
export function commitNow(state: GroupContext): void {
  const commit = state.commit
  if (state.stores > 0) runBurst(state)
  sendAcks(state)
  if (commit.count === 0) return
  if (transmitRoom(state.answers) < BURST_FRAMES) runBurst(state)
  const ofHost = state.hostWork.recordCount > 0
  // A line for each completion: none of them may run the list.
  if (ofHost && composeRoom(state.host, state.list) < COMPLETION_LINES) runBurst(state)
  // Its first fence covers what was stored before, and every acknowledgement in it stands behind.
  const fences = state.list.fences
  noteFence(state)
  commitGroup(commit)
  if (commit.closed !== PASS) state.list.fences = fences
  const failed = commit.closed !== PASS || commit.refused
  if (commit.hostLost) loseHost(state)
  state.answers.groups += 1
  if (failed) repairGroup(commit, state.superblock, state.examination)
  state.hostWork.groupFailed = failed
  rememberGroup(state)
  if (ofHost) tellRecords(state, commit.count)
  for (let i = 0; i < commit.count; i++) {
    const staging = commit.items[i]!.staging
    if (staging >= 0) state.stagingOwner[staging] = -1
  }
  commit.count = 0
  commit.hostCount = 0
  commit.hostLost = false
  state.group.stamp = (state.group.stamp + 1) | 0
  if (failed) run(state.list)
}
