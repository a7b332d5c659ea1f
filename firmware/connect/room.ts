/**
 * Room for new connections when every place is connected.
 *
 * Invariant: only who was silent for a minute loses a place, or, for a peer that has fewer,
 * who has nothing under way; only when there is no other, and it is told so by DREQ; the number
 * rests like any other. So one packet a minute on each of them does not keep all places (fault
 * N22): a peer that comes finds one within SHARED_SILENCE_US, until all have equally many.
 */

import { QUEUE_PAIRS, REPEAT_US } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import { failQueuePair } from '../burst/staging.ts'
import { isSamePeer } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { HOLD_RESTING, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import * as cm from '../wire/cm.ts'
import type { Packet } from '../wire/packet.ts'
import type { ConnectContext, Connection } from './context.ts'
import { sendTo } from './send.ts'
import { isFromPeer, isLive, PHASE_CONNECTED, putToRest } from './table.ts'

/** How long a peer must have been silent to be taken for dead, µs. */
const SILENCE_US = 60_000_000

/**
 * The same, where it has more connections than who asks for one, µs. Longer than a peer waits
 * before it repeats what was not answered: such a connection has nothing under way.
 */
const SHARED_SILENCE_US: number = 2 * REPEAT_US

/**
 * Makes room for the sender of that packet where every place is connected: the peer that was silent
 * for longest, and for a while, is told that its connection is over. Who died without a word does
 * not keep others out permanently.
 */
export function dismissSilent(state: ConnectContext, packet: Packet): void {
  const { connections } = state
  const silent = longestSilent(state, null, connections.nowUs - SILENCE_US)
  const chosen = silent ?? longestSilent(state, packet, connections.nowUs - SHARED_SILENCE_US)
  if (chosen === null) return
  const connection = connections.places[chosen.index]!
  // One that a control call has opened is not told: its client asks again.
  if (isLive(state, connection)) dismiss(state, connection)
  else failQueuePair(state, chosen)
}

/**
 * The queue pair that was not heard for longest since `heardUs`, or null; where a packet is given,
 * of the peers with more queue pairs than its sender has, and will have.
 */
function longestSilent(
  state: ConnectContext,
  packet: Packet | null,
  heardUs: number,
): QueuePair | null {
  const { places } = state.queuePairs
  const allowed = packet === null ? 0 : 1 + pairsOf(state, (qp) => isFromPeer(state, qp, packet))
  let silent: QueuePair | null = null
  let sinceUs = heardUs
  // Most are one peer's, where there is need to choose: it is counted once.
  let counted: QueuePair | null = null
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = places[i]!
    if (qp === null || !mayDismiss(state, qp) || silentSince(state, qp) > sinceUs) continue
    if (packet !== null && !(counted !== null && isSamePeer(qp, counted, state.bytes))) {
      if (pairsOf(state, (other) => isSamePeer(other, qp, state.bytes)) <= allowed) continue
      counted = qp
    }
    silent = qp
    sinceUs = silentSince(state, qp)
  }
  return silent
}

/** Open queue pairs of which that holds. */
function pairsOf(state: TransportState, isOne: (qp: QueuePair) => boolean): number {
  const isOpen = (qp: QueuePair | null): boolean => qp !== null && qp.state === STATE_OPEN
  return state.queuePairs.places.filter((qp) => isOpen(qp) && isOne(qp!)).length
}

/** Is it one that may lose its place: open, not our host's, not just being connected, no link? */
function mayDismiss(state: ConnectContext, qp: QueuePair): boolean {
  if (qp.state !== STATE_OPEN || qp.hold === HOLD_RESTING) return false
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
