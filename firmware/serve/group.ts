// hot path
/**
 * From the group in composition to its end: acknowledged, committed, remembered.
 *
 * What always holds: the receive-ACKs of the burst so far stand in the list before the commit
 * (P2-28: received before persisted), the PERSIST_ACKs behind their fences; when this returns, the
 * group is empty and every record of it is either durable in all copies or accounted for.
 */

import { run } from '../command-list.ts'
import { commitGroup } from '../commit/commit.ts'
import { repairGroup } from '../commit/repair.ts'
import { PASS } from '../fault.ts'
import { BURST_FRAMES, TRANSMIT_FRAMES } from '../limits.ts'
import type { State } from '../state.ts'
import { answerAck } from '../transport/acknowledge.ts'
import { rememberGroup } from './receipt.ts'
import { runPrelude } from './write.ts'

/** Sends the receive-ACKs that are due, but for queue pairs whose READs must be answered first. */
export function sendAcks(state: State): void {
  for (let i = 0; i < state.touchedCount; i++) {
    const qp = state.touched[i]!
    if (qp.ackDue && qp.readsWaiting === 0) answerAck(state.answers, qp)
  }
}

/** Commits the group as it stands. */
export function commitNow(state: State): void {
  const commit = state.commit
  if (state.plainWrites > 0) runPrelude(state)
  sendAcks(state)
  if (commit.count === 0) return
  if (state.answers.used > TRANSMIT_FRAMES - BURST_FRAMES) runPrelude(state)
  commitGroup(commit)
  let failed = commit.closed !== PASS
  for (let i = 0; i < commit.count; i++) if (commit.items[i]!.failedStage >= 0) failed = true
  if (failed) repairGroup(commit, state.examination)
  rememberGroup(state)
  for (let i = 0; i < commit.count; i++) {
    const staging = commit.items[i]!.staging
    if (staging >= 0) state.stagingOwner[staging] = -1
  }
  commit.count = 0
  state.group.stamp = (state.group.stamp + 1) | 0
  if (failed) run(state.list)
}
