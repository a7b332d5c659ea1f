// hot path
/**
 * Serves the queues of our own host (source 3; P3-12 to P3-28).
 *
 *   port ▸ doorbells ▸ pending ▸ a pass over those whose turn it is (queues/pass.ts)
 *        ▸ zone 1 of what has changed, events, interrupt
 *
 * Invariants:
 * - A call does a bounded amount of work, and says whether there is more. One with nothing to do
 *   loads a few words.
 * - No doorbell is needed twice: what the port dropped is found by looking at every queue, a slice
 *   in each call; what found no room is tried again.
 */

import { assert } from '../board/assert.ts'
import { copy, resultOf, runAll } from '../board/command-list.ts'
import { count } from '../board/context.ts'
import { DOORBELL } from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import { FETCHES } from '../board/limits.ts'
import { FETCH_AT, FETCH_BYTES } from '../board/memory-map.ts'
import { runBurst } from '../burst/burst.ts'
import { collectedDueUs } from '../burst/collected-batches.ts'
import type { BurstContext, QueueState, ServeContext } from '../burst/context.ts'
import { tickCompletions } from '../host/completion.ts'
import { writeContexts } from '../host/context.ts'
import { isRung, ringQueue, takeDoorbells } from '../host/doorbell.ts'
import { readEventsTaken, refreshEvents, writeInterrupt } from '../host/events.ts'
import { ELEMENTS, HOST_SERVED, type HostQueues } from '../host/host.ts'
import type { HostContext } from '../host/host-state.ts'
import { frontOf, PENDING, stand, WAITING } from '../host/pending.ts'
import {
  QUEUE_ERROR,
  Z1_ARMED,
  Z1_POINTER,
  Z1_STATE,
  Z1_VALID,
  Z3_ARM,
  Z3_POINTER,
  ZONE1_BYTES,
  ZONE3_BYTES,
} from '../host/queue-info.ts'
import { failHost, isHostDue, serveHost } from './host.ts'
import { serveCollected } from './local-batch.ts'
import { serveQueuePass } from './pass.ts'

/** What found no room is tried again after this, µs, if nothing wakes it; so many at once. */
const RETRY_US = 50
const RETRIES = 64

/** Where all wait for messages of others, twice as late each time, and at the latest after this. */
const RETRY_US_MAX = 800

/** Queues in one slice of a sweep: their zones 1 and 3 fit where elements are fetched. */
const SWEEP_QUEUES = 256
const SWEEP_ZONE3_AT: number = FETCH_AT + SWEEP_QUEUES * ZONE1_BYTES

/** Serves what was rung, as far as one call goes; `endQueues` ends what this began. */
export function serveQueues(state: ServeContext, now: number): void {
  const { host } = state
  host.nowUs = now
  if (isHostDue(host)) serveHost(state)
  if (host.phase !== HOST_SERVED) return
  if (isRung(host)) {
    const refused = takeDoorbells(host, state.list)
    for (let i = 0; i < refused; i++) count(state, DOORBELL)
  }
  if (host.soonestUs <= now) tickCompletions(host, state.list, now)
  if (host.retryUs <= now) retry(host)
  if (state.hostWork.openBatches > 0) serveCollected(state)
  if (host.sweepLeft > 0) sweep(state)
  if (host.pending.pending > 0) serveQueuePass(state)
  else if (host.events.lost && host.events.lookUs <= now) lookAtEvents(state)
}

/** Nobody rings when the host has made room for events. */
function lookAtEvents(state: ServeContext): void {
  const { host, list } = state
  runBurst(state)
  const read = readEventsTaken(host, list)
  runAll(list)
  if (resultOf(list, read) === DONE) refreshEvents(host, list)
  else failHost(state)
}

/**
 * Tells the host what has changed: zone 1 of its queues, and that there are events. Returns the µs
 * after which its queues are to be served again; 0 if nothing waits.
 */
export function endQueues(state: HostContext & QueueState): number {
  const { host, list } = state
  if (host.phase !== HOST_SERVED) return isHostDue(host) ? 1 : 0
  if (host.contexts.dirtyCount > 0) writeContexts(host, list)
  writeInterrupt(host, list)
  const { pending } = host
  if (pending.pending > 0 || host.sweepLeft > 0) return 1
  if (pending.waiting > 0 && host.retryUs === Infinity) noteRetry(host)
  let due = host.soonestUs < host.retryUs ? host.soonestUs : host.retryUs
  if (host.events.lost && host.events.lookUs < due) due = host.events.lookUs
  const collectedUs = collectedDueUs(state)
  if (collectedUs < due) due = collectedUs
  if (due === Infinity) return 0
  return Math.max(1, Math.ceil(due - host.nowUs))
}

/** Says when queues that found no room have their turn again. */
function noteRetry(host: HostQueues): void {
  const { pending, counters } = host
  const executed = counters[ELEMENTS]!
  const isLater = executed === host.retryExecuted && host.behindMessages === pending.waiting
  const later = Math.min(2 * host.retryGapUs, RETRY_US_MAX)
  host.retryGapUs = isLater ? Math.max(later, RETRY_US) : RETRY_US
  host.retryExecuted = executed
  host.behindMessages = 0
  host.retryUs = host.nowUs + host.retryGapUs
}

/** Queues that found no room have their turn again. */
function retry(host: HostQueues): void {
  host.retryUs = Infinity
  for (let i = 0; i < RETRIES; i++) {
    const queue = frontOf(host.pending, WAITING)
    if (queue < 0) return
    stand(host.pending, queue, PENDING)
  }
}

/** Doorbells were dropped: looks at some queues whether they have more than was seen. */
function sweep(state: BurstContext): void {
  const { host, list, words } = state
  const first = host.sweepNext < host.queues ? host.sweepNext : 0
  const rest = host.queues - first
  const queues = Math.min(rest, SWEEP_QUEUES, host.sweepLeft)
  writeContexts(host, list)
  runBurst(state)
  const zone1 = DMA_SPACE + host.zone1 + first * ZONE1_BYTES
  const zone3 = DMA_SPACE + host.zone3 + first * ZONE3_BYTES
  const one = copy(list, zone1, FETCH_AT, queues * ZONE1_BYTES)
  const three = copy(list, zone3, SWEEP_ZONE3_AT, queues * ZONE3_BYTES)
  runAll(list)
  // If the host does not answer, each queue finds that out for itself.
  const answered = resultOf(list, one) === DONE && resultOf(list, three) === DONE
  for (let i = 0; i < queues; i++) {
    const w1 = (FETCH_AT + i * ZONE1_BYTES) >> 2
    const w3 = (SWEEP_ZONE3_AT + i * ZONE3_BYTES) >> 2
    const valid = state.bytes[(w1 << 2) + Z1_VALID] === 1
    const over = state.bytes[(w1 << 2) + Z1_STATE] === QUEUE_ERROR
    const moved = words[w1 + (Z1_POINTER >> 2)] !== words[w3 + (Z3_POINTER >> 2)]
    const armed = words[w1 + (Z1_ARMED >> 2)] !== words[w3 + (Z3_ARM >> 2)]
    if (!answered || (valid && !over && (moved || armed))) ringQueue(host, first + i)
  }
  host.sweepLeft -= queues
  host.sweepNext = first + queues
}

const SWEEP_BYTES = SWEEP_QUEUES * (ZONE1_BYTES + ZONE3_BYTES)
assert(SWEEP_BYTES <= FETCHES * FETCH_BYTES, 'a slice of a sweep must fit')
