/**
 * Batches into relays: what is collected here goes on to the other DPU as a batch of the same id,
 * count, condition, indexes, operations and guards (relay.ts; source 4; S1-M5).
 *
 * Invariants:
 * - A burst goes on when all of it is here. It goes in bursts of as many records as the link has
 *   room for, BATCH_ELEMENTS_MAX at the most, one after the other. The last record of each ends it
 *   there, so the other DPU judges each by itself, and knows what it took before.
 * - It is of one region: each relay has a link of its own.
 * - In order: the next burst goes when every record of the one before was taken; else the rest is
 *   refused by CONDITION. What came in an earlier burst the other DPU knows, which judges the order
 *   against that. So what is durable there are the first ones.
 * - A bit of the status is set for what DPU B has called durable. A link that breaks ends the
 *   queue pair of the host: nobody here knows what became of the records that it had.
 * - What was sent stays where it was collected until the link lets go of it, also when the queue
 *   pair of the host has ended: a repetition reads it again.
 */

import {
  BATCH_NONE,
  type Batch,
  keeperOf,
  noteHandedEnd,
  noteRefused,
  operationHighOf,
  operationLowOf,
  releaseMembers,
} from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { type BoardState, count } from '../board/context.ts'
import { CONDITION, FAULTS, type Fault, IN_DOUBT, PASS, STAGING } from '../board/fault.ts'
import { BATCH_ELEMENTS_MAX, BATCH_RECORDS_MAX } from '../board/limits.ts'
import type { RequestState } from '../burst/context.ts'
import { findInitiator } from '../burst/initiator.ts'
import { type Initiator, submit, takeWork, type Work, type WorkOwner } from '../burst/work.ts'
import type { MemoryState } from '../medium/context.ts'
import { joinBatch, type Request, room, WRITE_PERSIST } from '../transport/requester.ts'
import { CONDITION_IN_ORDER } from '../wire/persist.ts'
import { relayOf } from './relay.ts'

/** Members that go on in one burst. */
const chosen = new Uint8Array(BATCH_ELEMENTS_MAX)

/** Sends the next burst on, unless one is on its way. True if it was sent, or anything refused. */
export function relayMembers(
  state: BoardState & BatchState & MemoryState & RequestState,
  batch: Batch,
): boolean {
  if (batch.handed > 0) return false
  const { judged } = batch
  const region = keeperOf(batch)
  const isThere = state.regions.places[region.index] === region
  const initiator = isThere ? findInitiator(state, relayOf(state, region).qp) : null
  const most = initiator === null ? 0 : burstRoom(initiator)
  let burst = 0
  for (; batch.judged < batch.due; batch.judged++) {
    const n = batch.judged
    const fault = faultOf(batch, n, initiator)
    if (fault === PASS && burst === most) break
    if (fault === PASS) {
      chosen[burst] = n
      burst += 1
      continue
    }
    count(state, fault)
    noteRefused(batch, batch.members!.indexes[n]!, fault)
  }
  for (let i = 0; i < burst; i++) sendMember(state, initiator!, batch, chosen[i]!, i === burst - 1)
  return batch.judged > judged
}

/** What there is against member `n` before it is sent. */
function faultOf(batch: Batch, n: number, initiator: Initiator | null): Fault {
  if (batch.condition === CONDITION_IN_ORDER && batch.broken) return CONDITION
  if (batch.against !== PASS) return batch.against
  const fault = batch.members!.faults[n]! as Fault
  // Nothing of it has been sent: the next attempt is as good as the first.
  return fault === PASS && initiator === null ? STAGING : fault
}

/** Records that the link takes now, as one burst. */
function burstRoom({ requester, works }: Initiator): number {
  const most = Math.min(room(requester), BATCH_ELEMENTS_MAX)
  let free = 0
  for (let i = 0; i < works.length && free < most; i++) if (works[i]!.owner === null) free += 1
  return free
}

function sendMember(
  state: RequestState,
  initiator: Initiator,
  batch: Batch,
  n: number,
  isLast: boolean,
): void {
  const work = takeWork(initiator)!
  const members = batch.members!
  const index = members.indexes[n]!
  const { pweth, reth } = work
  work.from = members.at[n]!
  work.length = members.lengths[n]!
  work.extensionCount = 0
  work.guard = members.guards[n]!
  work.expectHigh = members.expectHigh[n]!
  work.expectLow = members.expectLow[n]!
  reth.vaHigh = members.slots[n]!
  reth.vaLow = 0
  reth.rkey = relayOf(state, keeperOf(batch)).rkey
  reth.length = work.length
  pweth.wait = members.waits[n]!
  pweth.slotAddressed = true
  pweth.carried = false
  pweth.furtherCopies = 0
  pweth.wantsAck = true
  pweth.repetition = batch.repetition
  pweth.guarded = work.guard !== 0
  pweth.operationHigh = operationHighOf(batch, index)
  pweth.operationLow = operationLowOf(batch, index)
  pweth.batch = true
  pweth.oneStatus = true
  pweth.message = false
  pweth.condition = batch.condition
  pweth.lastOfBatch = isLast
  pweth.batchId = batch.id
  pweth.batchIndex = index
  pweth.batchCount = batch.count
  const item = batch.place * BATCH_RECORDS_MAX + n
  joinBatch(submit(initiator, work, WRITE_PERSIST, MEMBERS, item), pweth)
  batch.handed += 1
  batch.lent += 1
}

/** The fault of a status of another DPU; a doubt where it is not known here: none says less. */
function faultOfStatus(status: number): Fault {
  for (let i = 0; i < FAULTS.length; i++) {
    const { answer, code } = FAULTS[i]!
    if (answer === 'status' && code === status) return i as Fault
  }
  return IN_DOUBT
}

const MEMBERS: WorkOwner = {
  received() {},
  done({ batches }: BoardState & BatchState, work: Work, request: Request) {
    const batch = batches.of[Math.floor(work.item / BATCH_RECORDS_MAX)]!
    batch.lent -= 1
    // No other begins in its place before the last one is back.
    if (batch.phase === BATCH_NONE) {
      releaseMembers(batches, batch)
      return
    }
    const index = batch.members!.indexes[work.item % BATCH_RECORDS_MAX]!
    if (request.status === 'SUCCESS') {
      batch.mechanism = request.mechanism
      noteHandedEnd(batch, index, request.copies, PASS)
    } else if (request.status === 'GENERAL_ERR') {
      noteHandedEnd(batch, index, 0, faultOfStatus(request.refusal))
    } else {
      batch.linkLost = true
    }
  },
}
