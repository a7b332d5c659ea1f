/**
 * Connections: what RDMA-CM knows of each queue pair that it made, one place per queue pair.
 *
 * Invariants:
 * - A connection is as old as its queue pair and has the same place; one whose queue pair is gone
 *   is free, whoever closed it.
 * - The low byte of our communication id is the place, the rest is drawn: an id of an earlier
 *   connection names nothing.
 * - A message counts for a connection only if both ids are right and it came from the connection's
 *   peer address.
 * - A queue pair that was put to rest is silent, and its number is not used again before
 *   TIME_WAIT_US have passed: what was on its way has died by then. One whose peer was never heard
 *   gives its place away meanwhile, as nothing of it is on its way: places that rest are of peers
 *   who had our answer, so forged requests fill none.
 */

import type { BoardState } from '../board/context.ts'
import { QUEUE_PAIRS, RESOLUTIONS } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import { failQueuePair } from '../burst/staging.ts'
import { findRegion } from '../medium/region.ts'
import { isFromStation } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { isHalfOpen } from '../transport/places.ts'
import type { Psn } from '../transport/psn.ts'
import {
  closeQueuePair,
  createQueuePair,
  HOLD_CONNECTED,
  HOLD_NONE,
  HOLD_RESTING,
  type QueuePair,
  type QueuePairOptions,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { CM_BYTES, type CmIds } from '../wire/cm.ts'
import { ETHERNET_BYTES } from '../wire/ethernet.ts'
import { IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_ADDRESS_BYTES, IPV6_DESTINATION, IPV6_SOURCE } from '../wire/ipv6.ts'
import type { Packet } from '../wire/packet.ts'
import { EVENT_CLOSED } from './active.ts'
import { announce } from './announce.ts'
import type {
  ConnectContext,
  Connection,
  ConnectionTable,
  ConnectState,
  Link,
  Resolution,
} from './context.ts'
import { blankResolution, RESOLUTION_FREE } from './resolve.ts'
import { createServices } from './services.ts'

/** Free. */
const PHASE_FREE = 0
/** REP was sent; the peer may be connected already. */
export const PHASE_REPLIED = 1
/** RTU or a first request came. */
export const PHASE_CONNECTED = 2
/** Ended; the number rests. */
export const PHASE_RESTING = 3
/** We are connecting (initiate.ts). */
export const PHASE_LINKING = 4

/**
 * Time-wait: at least twice the life time of a packet and the target ACK delay (IBTA 12.9.8.4),
 * 2 * 0.27 s and 1.07 s with the codes that Linux and we use.
 */
export const TIME_WAIT_US: number = 4.096 * 2 ** 19

const QP_GSI = 1

const NO_PEER: QueuePairOptions = {
  peerNumber: QP_GSI,
  clientHigh: 0,
  clientLow: 0,
  pathMtu: 0,
  protectionDomain: 0,
  expectedPsn: 0 as Psn,
}

export function createConnectionTable(): ConnectionTable {
  const places: Connection[] = []
  for (let place = 0; place < QUEUE_PAIRS; place++) places.push(blankConnection(place))
  const resolutions: Resolution[] = []
  for (let i = 0; i < RESOLUTIONS; i++) resolutions.push(blankResolution())
  return {
    places,
    services: createServices(),
    resolutions,
    nowUs: 0,
    timerUs: Infinity,
    psn: 0,
    blankPair: createQueuePair(QUEUE_PAIRS, QP_GSI, NO_PEER),
    message: new Uint8Array(CM_BYTES),
  }
}

/** Stands in a place that was never used. */
const NO_REPLY = new Uint8Array(0)

function blankConnection(place: number): Connection {
  return {
    place,
    phase: PHASE_FREE,
    localId: 0,
    remoteId: 0,
    guidHigh: 0,
    guidLow: 0,
    incarnation: 0,
    port: 0,
    announced: 0,
    qp: null,
    reply: NO_REPLY,
    triesLeft: 0,
    periodUs: 0,
    timerUs: Infinity,
    connectedUs: 0,
    link: null,
  }
}

/** Is it in use? One whose queue pair was closed or replaced is freed here. */
export function isLive(state: ConnectContext, connection: Connection): boolean {
  if (connection.phase === PHASE_FREE) return false
  if (state.queuePairs.places[connection.place] === connection.qp) return true
  free(state, connection)
  return false
}

/** A link whose queue pair was taken from it is over, and its owner hears of it. */
function free(state: ConnectContext, connection: Connection): void {
  const { link } = connection
  connection.phase = PHASE_FREE
  connection.incarnation = 0
  connection.port = 0
  connection.announced = 0
  connection.qp = null
  connection.link = null
  connection.timerUs = Infinity
  if (link === null || link.ended) return
  link.ended = true
  if (!isResolved(link)) link.resolution.phase = RESOLUTION_FREE
  link.owner.ended(state, link, EVENT_CLOSED)
}

/** Is the Ethernet address of the link's peer known, and anything sent there? */
export function isResolved({ mac }: Link): boolean {
  return mac.length > 0
}

/** Sets the connection's timer to so many µs from now. */
export function arm(state: ConnectState, connection: Connection, waitUs: number): void {
  armAt(state, connection, state.connections.nowUs + waitUs)
}

/** Sets the connection's timer to that time. */
export function armAt(state: ConnectState, connection: Connection, atUs: number): void {
  connection.timerUs = atUs
  if (atUs < state.connections.timerUs) state.connections.timerUs = atUs
}

/** After how many µs a timer may be due; 0 is never. */
export function connectionsWaitUs(table: ConnectionTable): number {
  if (table.timerUs === Infinity) return 0
  return Math.max(1, Math.ceil(table.timerUs - table.nowUs))
}

/** Takes the queue pair's place for a new connection, under a new id. */
export function beginConnection(state: ConnectContext, qp: QueuePair): Connection {
  const connection = state.connections.places[qp.index]!
  free(state, connection)
  if (connection.reply === NO_REPLY) connection.reply = new Uint8Array(CM_BYTES)
  connection.qp = qp
  connection.localId = (((random32(state) | 1) << 8) | qp.index) >>> 0
  return connection
}

/** The connection of both ids, from its own peer, or null. `ids` are as the peer wrote them. */
export function findConnection(
  state: ConnectContext,
  ids: CmIds,
  packet: Packet,
): Connection | null {
  const connection = state.connections.places[ids.remoteId & (QUEUE_PAIRS - 1)]!
  if (!isLive(state, connection) || connection.localId !== ids.remoteId) return null
  if (connection.remoteId !== ids.localId) return null
  return isFromPeer(state, connection.qp!, packet) ? connection : null
}

/** Did the packet come from the address of the queue pair's peer? */
export function isFromPeer(state: BoardState, qp: QueuePair, packet: Packet): boolean {
  const { bytes, words } = state
  if (packet.ipVersion !== qp.ipVersion) return false
  if (packet.ipVersion === 4) return words[(packet.ipAt + IPV4_SOURCE) >> 2] === qp.peerIpv4
  const from = packet.ipAt + IPV6_SOURCE
  const to = qp.templateAt + ETHERNET_BYTES + IPV6_DESTINATION
  for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) if (bytes[from + i] !== bytes[to + i]) return false
  return true
}

/** Did it come from the addresses, of IP and of Ethernet, to which the queue pair's answers go? */
export function isFromPlace(state: BoardState, qp: QueuePair, packet: Packet): boolean {
  return isFromPeer(state, qp, packet) && isFromStation(qp, packet, state.bytes)
}

/** Has the place that the packet came from an open queue pair? */
export function isConnected(state: BoardState & TransportState, packet: Packet): boolean {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null && qp.state === STATE_OPEN && isFromPlace(state, qp, packet)) return true
  }
  return false
}

/** The peer is connected: its place is not given away any more while it does nothing. */
export function confirmConnection(state: ConnectContext, connection: Connection): void {
  if (connection.phase !== PHASE_REPLIED) return
  connection.phase = PHASE_CONNECTED
  connection.timerUs = Infinity
  connection.connectedUs = state.connections.nowUs
  connection.qp!.hold = HOLD_CONNECTED
  const region = connection.announced === 0 ? null : findRegion(state.regions, connection.announced)
  if (region !== null && !announce(state, connection.qp!, region)) putToRest(state, connection)
}

/** Ends the connection: its queue pair is silent at once, its number rests if it has to. */
export function putToRest(state: ConnectContext, connection: Connection): void {
  if (connection.phase === PHASE_RESTING) return
  const { link } = connection
  const wasHeard = (link === null || isResolved(link)) && !isHalfOpen(connection.qp!)
  connection.phase = PHASE_RESTING
  arm(state, connection, TIME_WAIT_US)
  connection.qp!.hold = wasHeard ? HOLD_RESTING : HOLD_NONE
  failQueuePair(state, connection.qp!)
}

/** The rest is over: the place is free. */
export function endRest(state: ConnectContext, connection: Connection): void {
  closeQueuePair(state.queuePairs, connection.qp!)
  free(state, connection)
}
