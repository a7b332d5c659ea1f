// hot path
/**
 * Ordered operations are executed when the burst is settled, in the order of their queue pair.
 *
 * Invariants:
 * - What has to be durable before an operation is answered stands before a fence, and the answer
 *   behind it: FLUSH and every READ after the stores of its queue pair, and the answer of a store
 *   into a region registered write-persist (wire-format 6.4, 9.1, 9.2).
 * - An operation that stores (an atomic, ATOMIC WRITE) stands behind the fence of every FLUSH of
 *   its queue pair before it: the chain WRITE, FLUSH, ATOMIC WRITE needs no round trip.
 * - The operations of all queue pairs go in rounds with one fence between two: in a round, a queue
 *   pair goes as far as it can without a fence.
 * - Responses of one queue pair leave in the order of its requests, and no acknowledgement
 *   overtakes them. Where a fence fails, everybody who waited for it is refused, and nobody else.
 */

import { NOT_DURABLE } from '../board/fault.ts'
import { COMMANDS_MAX } from '../board/limits.ts'
import { isSafe, makeDurable, refuseQueuePair, runBurst } from '../burst/burst.ts'
import type { BurstState, GatherState, OrderedState, ServeContext } from '../burst/context.ts'
import { freeEntry } from '../burst/staging.ts'
import { PLACEMENT_LOCAL, WRITE_PERSIST_REGION } from '../medium/region.ts'
import { answerDone, isWithheld } from '../transport/acknowledge.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import type { Ordered } from '../transport/message.ts'
import { psnAdd, psnDistance } from '../transport/psn.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { PLACEMENT_PERSISTENT } from '../wire/feth.ts'
import { answerAtomic, executeAtomic, storeWord } from './atomic.ts'
import {
  countOrdered,
  ORDERED_ATOMIC,
  ORDERED_ATOMIC_WRITE,
  ORDERED_CONFIRM,
  ORDERED_FLUSH,
  ORDERED_PERSIST,
  ORDERED_READ,
} from './ordered.ts'
import { answerPlaced } from './placed.ts'
import { serveRead } from './read.ts'
import { confirmSend } from './receives.ts'

/** Commands that may stand in the list when an operation begins: the rest is for it, and more. */
const LIST_ROOM: number = COMMANDS_MAX >> 4

/**
 * Serves everything that waits. `urgent` is a queue pair that is about to be refused or to be told
 * of a gap: what it has stored must be durable where its acknowledgement is withheld.
 */
export function serveOrdered(state: ServeContext, urgent: QueuePair | null): void {
  let fenced = !isFenceDue(state, urgent)
  if (state.orderedCount === 0 && fenced) return
  while (serveOrderedRound(state) || !fenced) {
    fenced = true
    if (makeDurable(state)) continue
    if (isSafe(state)) {
      refuseFar(state)
      continue
    }
    refuseWaiting(state, urgent)
    break
  }
  for (let i = 0; i < state.orderedCount; i++) forgetOrdered(state, state.ordered[i]!)
  state.orderedCount = 0
  // What may fail has failed before anything is acknowledged.
  if (state.stores > 0) runBurst(state)
}

/** What was not done, because its queue pair was refused, needs its receive entry no more. */
function forgetOrdered(state: GatherState, item: Ordered): void {
  if (!item.done && item.kind === ORDERED_CONFIRM) freeEntry(state, item.at)
}

/** Is an acknowledgement due that is withheld? */
function isFenceDue(state: TransportState & BurstState, urgent: QueuePair | null): boolean {
  for (let i = 0; i < state.touchedCount; i++) {
    const qp = state.touched[i]!
    if (qp.state !== STATE_OPEN || !isWithheld(state.answers, qp)) continue
    if (qp.ackDue || qp.repeatDue >= 0 || qp === urgent) return true
  }
  return false
}

/** Goes over what waits once. True if something of it waits for a fence. */
function serveOrderedRound(state: ServeContext): boolean {
  let waits = false
  state.round += 1
  for (let i = 0; i < state.orderedCount; i++) {
    const item = state.ordered[i]!
    const qp = item.qp
    if (item.done || qp.state !== STATE_OPEN) continue
    if (qp.waitsInRound === state.round || needsFence(state, item)) {
      qp.waitsInRound = state.round
      waits = true
      continue
    }
    if (state.list.count > LIST_ROOM) runBurst(state)
    if (qp.state === STATE_OPEN && !executeOrdered(state, item)) {
      qp.waitsInRound = state.round
      waits = true
    }
  }
  return waits
}

function needsFence(state: FrameContext, item: Ordered): boolean {
  const qp = item.qp
  const fences = state.list.fences
  const kind = item.kind
  // Every response acknowledges what is before it (wire-format 3.6).
  const before = psnDistance(item.psn, qp.withheldFrom) < 0x800000
  if (before && isWithheld(state.answers, qp)) return true
  if (item.again && kind !== ORDERED_READ) return false
  if (kind === ORDERED_FLUSH) {
    if (item.since === fences) return true
    return (item.form & PLACEMENT_PERSISTENT) !== 0 && qp.dirtyAt === fences
  }
  if (kind === ORDERED_ATOMIC || kind === ORDERED_ATOMIC_WRITE) {
    return item.stored && qp.dirtyAt === fences
  }
  return qp.dirtyAt === fences
}

/** Executes and answers. False if it has stored, and its answer waits for a fence. */
function executeOrdered(state: ServeContext, item: Ordered): boolean {
  const kind = item.kind
  if (kind === ORDERED_ATOMIC || kind === ORDERED_ATOMIC_WRITE) {
    if (!item.stored && !item.again) {
      if (kind === ORDERED_ATOMIC) executeAtomic(state, item)
      else storeWord(state, item)
      item.stored = true
      if (item.since >= 0) return false
    }
    if (!item.again && (item.region!.flags & WRITE_PERSIST_REGION) !== 0) countOrdered(state, item)
    if (kind === ORDERED_ATOMIC) answerAtomic(state, item.qp, item.psn, item.msn, item.originalAt)
    else answerDone(state.answers, item.qp, item.psn, item.msn)
  } else if (kind === ORDERED_READ) {
    serveRead(state, item)
  } else if (kind === ORDERED_PERSIST) {
    answerPlaced(state, item)
  } else if (!item.again && (item.form & PLACEMENT_PERSISTENT) !== 0 && !isSafe(state)) {
    // The part was closed in this burst: nothing that was stored before is sure to stay.
    refuseQueuePair(state, item.qp, item.psn, NOT_DURABLE)
    forgetOrdered(state, item)
  } else if (kind === ORDERED_FLUSH) {
    if (!item.again && (item.form & PLACEMENT_PERSISTENT) !== 0) countOrdered(state, item)
    answerDone(state.answers, item.qp, item.psn, item.msn)
  } else {
    confirmSend(state, item)
  }
  finishOrdered(state, item)
  return true
}

/** The operation is answered: acknowledgements may go up to the next one. */
function finishOrdered(state: OrderedState, item: Ordered): void {
  item.done = true
  const qp = item.qp
  // A long READ is answered when its last packet is.
  if (item.kind === ORDERED_PERSIST) return
  if (item.kind === ORDERED_READ && qp.stream.active && qp.stream.psn === item.psn) return
  qp.unanswered -= 1
  if (qp.unanswered === 0) return
  let first = -1
  if (qp.stream.active) first = qp.stream.psn
  for (let i = 0; i < state.orderedCount; i++) {
    const other = state.ordered[i]!
    if (other.qp !== qp || other.done || other.kind === ORDERED_PERSIST) continue
    if (first < 0 || psnDistance(other.psn, first) >= 0x800000) first = other.psn
  }
  qp.ackLimit = psnAdd(first, -1)
}

/**
 * The host is lost. Who has stored there is refused already; nor does anybody hear that what others
 * have stored there is durable.
 */
function refuseFar(state: ServeContext): void {
  for (let i = 0; i < state.orderedCount; i++) {
    const { done, region, qp, psn } = state.ordered[i]!
    if (done || region === null || region.placement === PLACEMENT_LOCAL) continue
    refuseQueuePair(state, qp, psn, NOT_DURABLE)
  }
}

/** No fence any more: refuses whoever waits for one. */
function refuseWaiting(state: ServeContext, urgent: QueuePair | null): void {
  for (let i = 0; i < state.orderedCount; i++) {
    const item = state.ordered[i]!
    if (!item.done) refuseQueuePair(state, item.qp, item.psn, NOT_DURABLE)
  }
  for (let i = 0; i < state.touchedCount; i++) {
    const qp = state.touched[i]!
    if (!isWithheld(state.answers, qp)) continue
    if (!qp.ackDue && qp.repeatDue < 0 && qp !== urgent) continue
    refuseQueuePair(state, qp, qp.withheldFrom, NOT_DURABLE)
  }
}
