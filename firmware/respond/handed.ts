// hot path
/**
 * Batches whose records others than the group make durable: those that go through the caches of the
 * host (placement/through.ts; source 2, flow 2; S1-M5), or on to another DPU (relay-batch.ts).
 *
 *   its last record has come ──▶ handed on, as far as there are jobs and the condition lets it ──▶
 *   each ends by itself, and is noted ──▶ the next one … ──▶ the one status, behind the last end
 *
 * Invariants:
 * - Nothing of a burst is handed on before its last record has come, unless another request of its
 *   queue pair has to follow it (`storeCollected`). That one comes again until what it follows is
 *   handed on, or durable, as it asks: neither its queue pair nor the host waits for it.
 * - Through caches, in order: a record is handed on when no other of its burst is under way. The
 *   one before it is then durable as far as it was asked for: behind the bell of the host's CPU for
 *   each such copy, and behind the fence of the phase that speaks for them. So no recovery takes it
 *   back, and no loss of the host's caches. The one behind it has touched neither lane nor slot
 *   before that. So at any cut, of card, host or both, what is durable are the first ones, without
 *   a gap. One that was refused, or is in doubt, ends the burst: those behind it are refused
 *   by CONDITION.
 * - Through caches, expect: the slot is judged when the job of the record has its turn there.
 * - A batch has no more jobs than leave THROUGH_SINGLES to others, all batches together; a job that
 *   becomes free is theirs first, below that. So neither keeps the other out, whatever comes.
 * - Of a record that nobody asks for any more nothing is kept: jobs that were begun go on for
 *   nobody, and what was not handed on is given back with the queue pair.
 * - What is made durable on another connection while it waits here gets its bit then, and is never
 *   stored again: the table may have forgotten it when its turn comes.
 * - The status leaves when each record of the burst is noted, and so behind all bells and fences
 *   that it speaks of. Until then a query is told that nothing is known.
 */

import {
  BATCH_HANDED,
  BATCH_OPEN,
  type Batch,
  beginHanding,
  hasCollected,
  keeperOf,
  noteMemberDurable,
  noteRefused,
  operationHighOf,
  operationLowOf,
  regionOf,
  releaseMembers,
} from '../batch/batch.ts'
import { type Members, offsetOfMember } from '../batch/members.ts'
import { count } from '../board/context.ts'
import { BATCH_TIME, DUPLICATE, type Fault, NOT_DURABLE, PASS, SLOT } from '../board/fault.ts'
import { BATCH_TIMEOUT_US, QUEUE_PAIRS } from '../board/limits.ts'
import { drain, refuseQueuePair } from '../burst/burst.ts'
import type { RecordContext, RequestState, ThroughState } from '../burst/context.ts'
import { hasJobForBatch } from '../burst/through-job.ts'
import { admit, HANDED, REPEATED } from '../engine/admit.ts'
import { concludeBatch } from '../engine/batch-status.ts'
import { repetitionFault } from '../engine/operation.ts'
import { KIND_BYTES, PLACEMENT_RELAY, PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { relayMembers } from '../placement/relay-batch.ts'
import { acceptThrough } from '../placement/through.ts'
import { type Ask, blankAsk } from '../transport/message.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { CONDITION_EXPECT, CONDITION_IN_ORDER } from '../wire/persist.ts'
import { isInBitmap } from '../wire/persist-ack.ts'

/** Is what the batch has collected handed on, and not stored by the group? */
export function isHandedOn(batch: Batch): boolean {
  return keeperOf(batch).placement >= PLACEMENT_THROUGH
}

/** Fills in member `n` of the batch, as it is asked for. */
export function fillMember(ask: Ask, batch: Batch, n: number): void {
  const members = batch.members!
  const index = members.indexes[n]!
  ask.batch = true
  ask.batchIndex = index
  const region = regionOf(batch, n)
  ask.region = region
  ask.slot = members.slots[n]!
  ask.bytesAt = region.kind === KIND_BYTES ? region.base + offsetOfMember(members, n) : 0
  ask.operationHigh = operationHighOf(batch, index)
  ask.operationLow = operationLowOf(batch, index)
  ask.repetition = batch.repetition
  ask.length = members.lengths[n]!
  ask.wait = members.waits[n]!
  ask.guard = members.guards[n]!
  ask.lastPsn = batch.psn
}

/** The record that is being handed on. */
const handed: Ask = blankAsk()

/** What has come of the burst is handed on, as far as it can be now. */
export function handCollected(state: RecordContext, qp: QueuePair, batch: Batch): void {
  beginHanding(state.batches, batch)
  // A link reads what it sends until its end: not from frames, which are moved later.
  if (keeperOf(batch).placement !== PLACEMENT_THROUGH) return
  if (handMembers(state, qp, batch)) endTurn(state, batch)
}

/** Hands on what can be handed on now. True if anything was, or was refused. */
function handMembers(state: RecordContext, qp: QueuePair, batch: Batch): boolean {
  const { judged } = batch
  while (batch.judged < batch.due && mayHand(state, batch)) {
    const n = batch.judged
    const fault = handMember(state, qp, batch, n)
    // What was run just now may have ended the queue pair, and given back what its batch held.
    if (qp.state !== STATE_OPEN) return true
    batch.judged = n + 1
    if (fault === PASS) continue
    count(state, fault)
    noteRefused(batch, batch.members!.indexes[n]!, fault)
  }
  return batch.judged > judged
}

/** Is it the turn of the next record, and is there a job for it? Without an agent it needs none. */
function mayHand({ through }: ThroughState, batch: Batch): boolean {
  if (batch.against !== PASS || !through.agent.attached) return true
  if (batch.condition === CONDITION_IN_ORDER && batch.handed > 0) return false
  return hasJobForBatch(through.jobs)
}

/** What there was against member `n` before it is judged. */
function knownFault(state: RecordContext, batch: Batch, n: number): Fault {
  const region: Region = regionOf(batch, n)
  if (state.regions.places[region.index] !== region) return SLOT
  if (batch.against !== PASS) return batch.against
  return batch.members!.faults[n]! as Fault
}

/**
 * Judges one record: it has a job, or is known to be durable, or its fault is returned. Of a queue
 * pair that this has ended there is nothing to be said.
 */
function handMember(state: RecordContext, qp: QueuePair, batch: Batch, n: number): Fault {
  const members: Members = batch.members!
  const at = members.at[n]!
  fillMember(handed, batch, n)
  handed.expects = batch.condition === CONDITION_EXPECT
  handed.expectHigh = members.expectHigh[n]!
  handed.expectLow = members.expectLow[n]!
  handed.known = isInBitmap(batch.bitmap, handed.batchIndex)
  const fault = admit(state, qp, handed, at, knownFault(state, batch, n), batch, n)
  if (fault === REPEATED) {
    count(state, DUPLICATE)
    noteMemberDurable(batch, handed.batchIndex, Math.min(handed.wait, handed.region!.copies))
    return PASS
  }
  if (fault !== HANDED) return fault
  const refused = acceptThrough(state, qp, handed, at)
  if (refused !== PASS) {
    return repetitionFault(state, handed.region!, qp.client, qp, handed, refused)
  }
  batch.handed += 1
  return PASS
}

/** Has all of the burst come to its end? Then its status is given. True if it was. */
export function concludeHanded(state: RecordContext, qp: QueuePair, batch: Batch): boolean {
  if (batch.phase !== BATCH_HANDED || batch.judged < batch.received) return false
  releaseMembers(state.batches, batch)
  if (batch.handed > 0) return false
  concludeBatch(state, qp, batch, true)
  return true
}

/** The next records of the batch. True if any was handed on, or refused. */
function goOn(
  state: RecordContext & RequestState,
  qp: QueuePair,
  batch: Batch,
  now: number,
): boolean {
  if (batch.linkLost) {
    refuseQueuePair(state, qp, batch.psn, NOT_DURABLE)
    return true
  }
  const isRelay = keeperOf(batch).placement === PLACEMENT_RELAY
  const went = isRelay ? relayMembers(state, batch) : handMembers(state, qp, batch)
  if (went || batch.handed > 0) {
    batch.lastUs = now
    return went
  }
  if (batch.judged >= batch.due || now - batch.lastUs < BATCH_TIMEOUT_US) return false
  // Nothing of it is under way, and there was no room for more for too long.
  batch.against = BATCH_TIME
  return true
}

/** It has had its turn: the next is that of the batch behind it. */
function endTurn({ batches }: RecordContext, { place }: Batch): void {
  batches.turn = (place + 1) % QUEUE_PAIRS
}

/**
 * Goes on with every batch that is handed on, one after the other, from the one on that is behind
 * what has gone on last. True if the jobs are to be looked after again.
 */
export function serveHanded(state: RecordContext & RequestState, now: number): boolean {
  const { batches, queuePairs } = state
  const { turn } = batches
  let went = false
  for (let i = 0; i < QUEUE_PAIRS && batches.handing > 0; i++) {
    const place = (turn + i) % QUEUE_PAIRS
    const batch = batches.of[place] ?? null
    if (batch === null || !batch.handing) continue
    const qp = queuePairs.places[place]!
    if (goOn(state, qp, batch, now)) {
      endTurn(state, batch)
      went = true
    }
    if (concludeHanded(state, qp, batch)) went = true
  }
  if (state.list.count > 0) drain(state)
  return went
}

/**
 * Is a record of that slot collected, or waits to be handed on? What asks for the slot comes again
 * behind it: what is collected so far is handed on before the rest has come. Where that ends the
 * queue pair it stays ahead, and what asks is taken no further.
 */
export function isAhead(
  state: RecordContext,
  qp: QueuePair,
  region: Region,
  slot: number,
): boolean {
  const batch = state.batches.of[qp.index]!
  const { phase } = batch
  if (phase !== BATCH_OPEN && phase !== BATCH_HANDED) return false
  if (!isHandedOn(batch) || !hasCollected(batch, region, slot)) return false
  if (phase === BATCH_OPEN) handCollected(state, qp, batch)
  return batch.judged < batch.received
}
