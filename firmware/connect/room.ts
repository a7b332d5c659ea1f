/**
 * Room for who may have no more queue pairs, or finds none (transport/places.ts).
 *
 * Invariants:
 * - Only who was silent for a minute loses a place that he holds, to himself or to a source that
 *   has no more than he has; or, to a source that has fewer, who has nothing under way. It is told
 *   so by DREQ; the number rests like any other. So one packet a minute on each of them does not
 *   keep all places (fault N22): a source that comes finds one within SHARED_SILENCE_US, until all
 *   have equally many.
 * - Others lose nothing for a source that would get no place by it.
 * - A port that has as many connections as it may loses the oldest of its own whose peer was never
 *   heard; else that one which was silent for a minute. A queue pair that has failed takes no room
 *   there, whether its peer says goodbye or not.
 */

import { QUEUE_PAIRS, REPEAT_US } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import { failQueuePair } from '../burst/staging.ts'
import { isHalfOpen, isNextToGrow, placesOfSources } from '../transport/places.ts'
import { HOLD_RESTING, type QueuePair, STATE_ERROR, STATE_OPEN } from '../transport/queue-pair.ts'
import * as cm from '../wire/cm.ts'
import type { ConnectContext, Connection } from './context.ts'
import { sendTo } from './send.ts'
import { isLive, PHASE_CONNECTED, PHASE_RESTING, putToRest } from './table.ts'

/** How long a peer must have been silent to be taken for dead, µs. */
const SILENCE_US = 60_000_000

/**
 * The same, where it has more connections than who asks for one, µs. Longer than a peer waits
 * before it repeats what was not answered: such a connection has nothing under way.
 */
const SHARED_SILENCE_US: number = 2 * REPEAT_US

/**
 * Makes room for that source: of those that may have to go, the one that was silent for longest is
 * told that its connection is over. Who died without a word does not keep others out permanently,
 * nor himself. Returns the place where it can be had at once, else -1.
 */
export function dismissSilent(state: ConnectContext, source: string): number {
  const chosen = longestSilent(state, source)
  if (chosen === null) return -1
  const connection = state.connections.places[chosen.index]!
  if (isLive(state, connection)) {
    dismiss(state, connection)
    return -1
  }
  // One that a control call has opened is not told: its client asks again.
  failQueuePair(state, chosen)
  return chosen.index
}

/**
 * The queue pair that has to go for that source, or null: of those that were silent for a minute
 * the one that was not heard for longest, else of those of sources that have more.
 */
function longestSilent(state: ConnectContext, source: string): QueuePair | null {
  const { places } = state.queuePairs
  const { nowUs } = state.connections
  const counts = placesOfSources(state.queuePairs)
  const own = counts.get(source) ?? 0
  const mayGrow = isNextToGrow(state.queuePairs, source)
  let silent: QueuePair | null = null
  let sinceUs = nowUs - SILENCE_US
  let shared: QueuePair | null = null
  let sharedSinceUs = nowUs - SHARED_SILENCE_US
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = places[i]!
    if (qp === null || !mayDismiss(state, qp)) continue
    const has = counts.get(qp.source)!
    if (qp.source !== source && (!mayGrow || has < own)) continue
    const heardUs = silentSince(state, qp)
    if (heardUs <= sinceUs) {
      silent = qp
      sinceUs = heardUs
    }
    // It has more than the source has, and will have.
    if (has > own + 1 && heardUs <= sharedSinceUs) {
      shared = qp
      sharedSinceUs = heardUs
    }
  }
  return silent ?? shared
}

/**
 * Is there room for one more connection on that port, which may have so many? Where there is not,
 * who was silent for longest is told that it is over, if that was a minute.
 */
export function hasRoomOn(state: ConnectContext, port: number, most: number): boolean {
  const connections = connectionsOf(state, port).filter(({ qp }) => qp!.state !== STATE_ERROR)
  if (connections.length < most) return true
  connections.sort((a, b) => silentSince(state, a.qp!) - silentSince(state, b.qp!))
  const halfOpen = connections.find(({ qp }) => isHalfOpen(qp!))
  if (halfOpen !== undefined) {
    putToRest(state, halfOpen)
    return true
  }
  const silent = connections.find(({ qp }) => mayDismiss(state, qp!))
  if (silent === undefined) return false
  if (silentSince(state, silent.qp!) <= state.connections.nowUs - SILENCE_US) dismiss(state, silent)
  return false
}

/** Connections that have come to the port, and are not over. */
function connectionsOf(state: ConnectContext, port: number): Connection[] {
  const { places } = state.connections
  return places.filter(
    (connection) =>
      connection.port === port && isLive(state, connection) && connection.phase !== PHASE_RESTING,
  )
}

/** Every connection that has come to the port is over, and its peer is told so. */
export function dismissAll(state: ConnectContext, port: number): void {
  for (const connection of connectionsOf(state, port)) dismiss(state, connection)
}

/** Is it one that may lose its place: in use, not our host's, not just being connected, no link? */
function mayDismiss(state: ConnectContext, qp: QueuePair): boolean {
  if (qp.state !== STATE_OPEN || qp.hold === HOLD_RESTING || isHalfOpen(qp)) return false
  const connection = state.connections.places[qp.index]!
  if (!isLive(state, connection)) return true
  return connection.phase === PHASE_CONNECTED && connection.link === null
}

function silentSince(state: ConnectContext, qp: QueuePair): number {
  const connection = state.connections.places[qp.index]!
  return isLive(state, connection) ? Math.max(connection.connectedUs, qp.heardUs) : qp.heardUs
}

/** Says goodbye once; the answer, if there is one, finds a connection that rests. */
function dismiss(state: ConnectContext, connection: Connection): void {
  const { message } = state.connections
  const header = cm.blankCmHeader()
  header.attribute = cm.CM_DREQ
  header.transactionHigh = random32(state)
  header.transactionLow = random32(state)
  cm.writeCmHeader(message, 0, header)
  cm.writeIds(message, cm.CM_BODY, connection)
  cm.putDreqQpn(message, cm.CM_BODY, connection.qp!.peerNumber)
  sendTo(state, connection.qp!, message)
  putToRest(state, connection)
}
