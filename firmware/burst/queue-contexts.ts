// hot path
/**
 * Contexts that are needed outside of a pass over the queues, and the end of a queue.
 *
 * Invariant: a context that is returned stays in its place until something is read or
 * inserted again, unless its owner pins it; to read one, the list in progress is run first.
 */

import { type CommandList, resultOf, runAll } from '../board/command-list.ts'
import { count } from '../board/context.ts'
import { DMA, type Fault, PASS } from '../board/fault.ts'
import { DONE } from '../board/hal.ts'
import { startCompletions } from '../host/completion.ts'
import {
  acceptPointer,
  CONTEXT_READS,
  contextFault,
  isValid,
  pointerFault,
  readContext,
  readPointer,
  refreshPointer,
  stateOf,
  writeContexts,
  zone1Word,
} from '../host/context.ts'
import { findContext, insertContext, removeContext } from '../host/context-cache.ts'
import { failQueue } from '../host/failure.ts'
import { EVENT_QUEUE_ERROR } from '../host/header-page.ts'
import { EVICTIONS, type HostQueues, INSERTIONS, MISSES, REFILLS } from '../host/host.ts'
import type { HostState } from '../host/host-state.ts'
import { QUEUE_ERROR, Z1_CLIENT, Z1_DOMAIN } from '../host/queue-info.ts'
import { noteQueueEnd } from '../host/work.ts'
import { runBurst } from './burst.ts'
import { flushCollected } from './collected-batches.ts'
import type { BurstContext, QueueContext, QueueState } from './context.ts'

/** Who speaks through the queue of `host.element`: `hostWork.party`. */
export function noteParty({ host, hostWork }: HostState & QueueState): void {
  const { place } = host.element
  const party = hostWork.parties[place]!
  party.protectionDomain = zone1Word(host, place, Z1_DOMAIN)
  party.clientLow = zone1Word(host, place, Z1_CLIENT)
  party.clientHigh = zone1Word(host, place, Z1_CLIENT + 4)
  hostWork.party = party
}

/** Ends one queue of the host: nothing of it is processed any more (P3-28). */
export function failHostQueue(state: QueueContext, queue: number, fault: Fault): void {
  flushCollected(state, queue)
  if (failQueue(state.host, state.list, queue, fault, EVENT_QUEUE_ERROR)) count(state, fault)
  noteQueueEnd(state.hostWork, queue)
}

/** Why no context came: the cache is full of what has to stay; the queue is not there; or over. */
export const NO_PLACE = -1
export const NO_QUEUE = -2

/** The place of the queue's context, read now if it is not in the cache; or one of NO_*. */
export function contextNow(state: BurstContext, queue: number): number {
  const { host, list } = state
  if (!(queue < host.queues)) return NO_QUEUE
  const found = findContext(host.contexts, queue)
  // One that was ended stays in its place until the place is needed.
  if (found >= 0) return isValid(host, found) ? found : NO_QUEUE
  writeContexts(host, list)
  if (list.count > 0) runBurst(state)
  const place = takePlace(host, queue)
  if (place < 0) return NO_PLACE
  const read = readContext(host, list, place, queue)
  runAll(list)
  const fault = judgeRead(host, list, place, read)
  if (fault === PASS) return place
  if (fault !== QUEUE_ABSENT) failHostQueue(state, queue, fault as Fault)
  return NO_QUEUE
}

/** Reads zone 3 of a queue in the cache again. False if that ended the queue. */
export function refreshNow(state: BurstContext, place: number): boolean {
  const { host, list } = state
  const queue = host.contexts.queueOf[place]!
  writeContexts(host, list)
  if (list.count > 0) runBurst(state)
  const read = readPointer(host, list, place, queue)
  runAll(list)
  const fault = resultOf(list, read) === DONE ? refreshPointer(host, place) : DMA
  if (fault !== PASS) failHostQueue(state, queue, fault)
  return fault === PASS
}

/** A place for the context of a queue that is not in the cache, or -1. */
export function takePlace(host: HostQueues, queue: number): number {
  const { contexts, counters } = host
  counters[MISSES]! += 1
  const evicted = contexts.evictions
  const place = insertContext(contexts, queue, host.nowUs)
  counters[EVICTIONS]! += contexts.evictions - evicted
  if (place < 0) return -1
  counters[INSERTIONS]! += 1
  if (contexts.wasHere[queue] === 1) counters[REFILLS]! += 1
  startCompletions(host, place)
  return place
}

/** There is no such queue. */
export const QUEUE_ABSENT = -1

/**
 * Judges a context whose reads begin at `read` in the list that has run; nothing is composed.
 * Returns PASS, the fault that ends the queue, or QUEUE_ABSENT; a place with nothing to keep is
 * free.
 */
export function judgeRead(
  host: HostQueues,
  list: CommandList,
  place: number,
  read: number,
): number {
  for (let i = 0; i < CONTEXT_READS; i++) {
    if (resultOf(list, read + i) === DONE) continue
    removeContext(host.contexts, place)
    return DMA
  }
  if (!isValid(host, place)) {
    removeContext(host.contexts, place)
    return QUEUE_ABSENT
  }
  acceptPointer(host, place)
  if (stateOf(host, place) === QUEUE_ERROR) return PASS
  const fault = contextFault(host, place)
  return fault === PASS ? pointerFault(host, place) : fault
}
