/**
 * Who may call what of a card with peers (session/).
 *
 * Invariants:
 * - A call in the clear learns that the card serves, and may begin a handshake; nothing else.
 * - What has no line here is an admin's. Our own host may call everything, and so may anybody of an
 *   open card.
 * - What concerns a region asks for a right to it: to read it is to be told of it, to write it is
 *   to have it mended, or a lost record given up.
 */

import { type Fault, FORBIDDEN, NO_SESSION, PASS } from '../board/fault.ts'
import { isConnected } from '../connect/table.ts'
import type { Region } from '../medium/region.ts'
import { mayRead, mayWrite } from '../session/rights.ts'
import { hasPeers } from '../session/sessions.ts'
import { OWN_HOST, sourceOf } from '../transport/places.ts'
import { ANYBODY } from '../transport/queue-pair.ts'
import * as mad from '../wire/management.ts'
import type { Call } from './call.ts'

const FOR_STRANGERS = [mad.ATTRIBUTE_STATUS, mad.ATTRIBUTE_HANDSHAKE]

const FOR_PEERS = [
  ...[mad.ATTRIBUTE_STATUS, mad.ATTRIBUTE_HANDSHAKE],
  ...[mad.ATTRIBUTE_COUNTERS, mad.ATTRIBUTE_FIGURES, mad.ATTRIBUTE_HEALTH],
  ...[mad.ATTRIBUTE_OPEN, mad.ATTRIBUTE_REGION, mad.ATTRIBUTE_REPORT],
  ...[mad.ATTRIBUTE_CONNECT, mad.ATTRIBUTE_DISCONNECT],
  ...[mad.ATTRIBUTE_SCAN, mad.ATTRIBUTE_SETTLE],
]

/** Does nobody have to come in a session? Our own host, and all of an open card. */
function needsNoSession({ state, packet }: Call): boolean {
  return packet === null || !hasPeers(state)
}

/** May who asks do everything with every region? */
export function mayAll(call: Call): boolean {
  const { session, state } = call
  return needsNoSession(call) || (session !== null && state.sessions.peers[session.peer]!.admin)
}

/** Does it come in the clear, to a card with peers? */
export function isStranger(call: Call): boolean {
  return !needsNoSession(call) && call.session === null
}

/** NO_SESSION or FORBIDDEN, where who asks may not call that. */
export function callFault(call: Call, attribute: number): Fault {
  if (needsNoSession(call)) return PASS
  const { session } = call
  if (session === null) return FOR_STRANGERS.includes(attribute) ? PASS : NO_SESSION
  if (mayAll(call)) return PASS
  return FOR_PEERS.includes(attribute) ? PASS : FORBIDDEN
}

/** FORBIDDEN where who asks may not read the region. */
export function readFault(call: Call, region: Region): Fault {
  if (needsNoSession(call)) return PASS
  return mayRead(call.state.sessions.peers[call.session!.peer]!, region.name) ? PASS : FORBIDDEN
}

/** FORBIDDEN where who asks may not change the region. */
export function writeFault(call: Call, region: Region): Fault {
  if (needsNoSession(call)) return PASS
  return mayWrite(call.state.sessions.peers[call.session!.peer]!, region.name) ? PASS : FORBIDDEN
}

/**
 * May who asks be told the keys of a region that he may read? Of an open card who is connected may
 * (R1-S1): that address can be reached.
 */
export function mayLearnKeys(call: Call): boolean {
  const { state, packet, session } = call
  return packet === null || (hasPeers(state) ? session !== null : isConnected(state, packet))
}

/** Whose queue pairs and answers those of who asks are (transport/places.ts). */
export function askerOf({ state, packet, session }: Call): string {
  if (packet === null) return OWN_HOST
  return session === null ? sourceOf(state, packet) : peerSource(session.peer)
}

/** Whose those of the peer at that place are. */
export function peerSource(place: number): string {
  return `peer ${place}`
}

/** The peer that asks over the network. */
export function peerNumberOf({ session }: Call): number {
  return session === null ? ANYBODY : session.peer
}
