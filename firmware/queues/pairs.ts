/**
 * Queue pairs of the host on the wire: opened when they are created, connected when they are made
 * ready, looked after, ended.
 *
 * Invariants:
 * - The number on the wire is the pair's from its creation to its end: until it is ready its place
 *   holds a queue pair that is silent, and when the connection fails the place is kept.
 * - A pair that is lost ends behind its elements: those that were under way are completed first,
 *   then both queues go to the error state (CONNECTION_LOST), with an event for each.
 * - Where a pair is closed, nothing of it is left: no posting, no reservation, no buffer.
 */

import { CONNECTION_LOST, type Fault, PASS } from '../board/fault.ts'
import { HOST_POSTINGS, PATH_MTU_BYTES_MIN, QUEUE_PAIRS } from '../board/limits.ts'
import type {
  BurstContext,
  QueueState,
  RefusalContext,
  ServeContext,
  WorkContext,
} from '../burst/context.ts'
import { findInitiator } from '../burst/initiator.ts'
import { failHostQueue } from '../burst/queue-contexts.ts'
import { failQueuePair, openPair } from '../burst/staging.ts'
import { prepareTowards } from '../burst/towards.ts'
import { dropResult } from '../engine/outcome.ts'
import { releaseCompletion } from '../host/completion.ts'
import { ringQueue } from '../host/doorbell.ts'
import type { HostPair } from '../host/work.ts'
import { serveReceives } from '../respond/host-receive.ts'
import { endWatches } from '../status/hearing.ts'
import type { TransportState } from '../transport/context.ts'
import { OWN_HOST } from '../transport/places.ts'
import type { Psn } from '../transport/psn.ts'
import { closeQueuePair, HOLD_RESTING, HOST_PEER, STATE_ERROR } from '../transport/queue-pair.ts'
import { freeNumber } from '../transport/queue-pair-number.ts'
import { flushRequester } from '../transport/requester.ts'
import { endBatchBurst } from './batch-room.ts'
import { finishPostings, isPairOpen } from './connected.ts'

/**
 * Reserves a number on the wire for a pair of those queues; -1 if the host may have no more. The
 * client is whose records the peer sends to this card.
 */
export function openHostPair(
  state: RefusalContext,
  send: number,
  receive: number,
  domain: number,
  clientHigh: number,
  clientLow: number,
): number {
  const number = freeNumber(state, OWN_HOST)
  if (number < 0) return -1
  const ended = state.queuePairs.places[number & (QUEUE_PAIRS - 1)]!
  if (ended !== null) failQueuePair(state, ended)
  const qp = openPair(state, number, {
    peerNumber: 0,
    clientHigh,
    clientLow,
    pathMtu: PATH_MTU_BYTES_MIN,
    protectionDomain: domain,
    expectedPsn: 0 as Psn,
    source: OWN_HOST,
    peer: HOST_PEER,
  })
  qp.state = STATE_ERROR
  qp.hold = HOLD_RESTING
  const pair = state.hostWork.pairs[qp.index]!
  pair.send = send
  pair.receive = receive
  pair.qp = qp
  pair.ready = false
  pair.under = 0
  pair.postings = 0
  pair.batchSent = 0
  pair.batchLeft = 0
  pair.resultFirst = -1
  pair.untoldFirst = -1
  pair.taken = 0
  pair.fetched = 0
  pair.receiveWaits = false
  pair.stopped = false
  pair.starved = false
  // Not that of the pair before: what comes too early has no room kept anywhere.
  pair.completions = -1
  pair.reserved = -1
  return number
}

/** The peer of a pair, and how it is spoken to. */
interface PairOptions {
  readonly peerNumber: number
  /** PSN of the peer's first request, and of ours. */
  readonly peerPsn: number
  readonly psn: number
  readonly pathMtu: number
  /** Incarnation that its PERSIST_ACKs name; 0 where it sends none. */
  readonly incarnation: number
  /** READs, atomics and FLUSHes of ours that it keeps at once. */
  readonly readDepth: number
  /** Messages of ours that it takes at once, as was agreed; 0 where it told nothing. */
  readonly sendDepth: number
  /** Where its Ethernet address and its IPv4 address lie in packet memory. */
  readonly macAt: number
  readonly ipv4At: number
}

/** The pair speaks from now on to that peer. CONNECTION_LOST if there is no such pair. */
export function readyHostPair(state: RefusalContext, number: number, options: PairOptions): Fault {
  const pair = pairOf(state, number)
  if (pair === null) return CONNECTION_LOST
  const held = pair.qp!
  const qp = openPair(state, number, {
    peerNumber: options.peerNumber,
    clientHigh: held.clientHigh,
    clientLow: held.clientLow,
    pathMtu: options.pathMtu,
    protectionDomain: held.protectionDomain,
    expectedPsn: options.peerPsn as Psn,
    requesterPsn: options.psn as Psn,
    sendDepth: options.sendDepth,
    speaksPersist: options.incarnation !== 0,
    source: OWN_HOST,
    peer: HOST_PEER,
  })
  // Nobody takes its number before the host has closed it, also when it has failed.
  qp.hold = HOLD_RESTING
  qp.heardUs = state.connections.nowUs
  prepareTowards(state, qp, options.macAt, options.ipv4At)
  pair.qp = qp
  pair.incarnation = options.incarnation
  pair.readDepth = options.readDepth
  pair.ready = true
  state.hostWork.look = true
  return PASS
}

/** The pair of that number on the wire, or null. */
export function pairOf(state: QueueState, number: number): HostPair | null {
  const pair = state.hostWork.pairs[number & (QUEUE_PAIRS - 1)]!
  return pair.qp !== null && pair.qp.number === number ? pair : null
}

/** Ends the pair: what was under way is flushed, and its number is free. */
export function closeHostPair(state: ServeContext, pair: HostPair): void {
  cutPair(state, pair)
  finishPostings(state)
  while (pair.resultFirst >= 0) dropResult(state.hostWork, pair)
  if (pair.reserved >= 0) releaseCompletion(state.host, pair.reserved)
  forgetPair(state, pair)
}

/** Its requests end, and the peer hears nothing more. */
function cutPair(state: WorkContext, pair: HostPair): void {
  const qp = pair.qp!
  // Nobody takes its number before the host has closed it.
  failQueuePair(state, qp)
  const initiator = findInitiator(state, qp)
  if (initiator !== null) flushRequester(initiator.requester)
}

function forgetPair(state: TransportState & QueueState, pair: HostPair): void {
  const qp = pair.qp!
  closeQueuePair(state.queuePairs, qp)
  endBatchBurst(state.hostWork, pair)
  endWatches(state, pair)
  pair.reserved = -1
  pair.resultFirst = -1
  pair.untoldFirst = -1
  pair.qp = null
  pair.ready = false
  pair.send = -1
  pair.receive = -1
}

/** The host is gone, and everything of it: nobody is told. */
export function dropPairs(state: WorkContext): void {
  const work = state.hostWork
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const pair = work.pairs[i]!
    if (pair.qp === null) continue
    cutPair(state, pair)
    forgetPair(state, pair)
  }
  work.listedCount = 0
  work.freePostingCount = HOST_POSTINGS
  for (let i = 0; i < HOST_POSTINGS; i++) {
    work.postings[i]!.pair = null
    work.freePostings[i] = HOST_POSTINGS - 1 - i
  }
  work.look = false
}

/** What found no place in the cache of contexts is tried again after this, µs. */
const RETRY_US = 50

/**
 * Completes what has ended on the wire, and looks after the pairs for which that is due. Returns
 * the µs after which it is wanted again, 0 if it is not.
 */
export function serveHostPairs(state: ServeContext): number {
  const work = state.hostWork
  if (work.listedCount > 0) finishPostings(state)
  if (!work.look) return 0
  work.look = false
  const { freed } = work
  work.freed = false
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const pair = work.pairs[i]!
    if (pair.qp === null || !pair.ready) continue
    if (pair.sendWaits && freed) {
      pair.sendWaits = false
      ringQueue(state.host, pair.send)
    }
    if (pair.stopped) {
      cutPair(state, pair)
      finishPostings(state)
    }
    if (isPairOpen(state, pair)) serveReceives(state, pair)
    else if (pair.under > 0) work.look = true
    else losePair(state, pair)
  }
  return work.look ? RETRY_US : 0
}

function losePair(state: BurstContext, pair: HostPair): void {
  const work = state.hostWork
  pair.ready = false
  endWatches(state, pair)
  serveReceives(state, pair)
  while (pair.resultFirst >= 0) dropResult(work, pair)
  failHostQueue(state, pair.send, CONNECTION_LOST)
  failHostQueue(state, pair.receive, CONNECTION_LOST)
}
