/**
 * The passive side of RDMA-CM: who connects to a published port gets a queue pair
 * (wire-format 5.5; IBTA Vol 1, 12.9).
 *
 *   REQ ──▶ checks ──▶ queue pair, ready to receive and to send ──▶ REP, again until RTU or data
 *   RTU, or a first request ──▶ connected
 *   DREQ ──▶ silent, DREP, rest
 *
 * Invariant: what is malformed or names no connection is counted and not answered. Only
 * DREQ is answered always, so that no peer waits for a connection that we forgot. A message for a
 * connection of our own making goes to its link (initiate.ts).
 */

import { CONNECTION_FORM, type Fault, PASS } from '../board/fault.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import { u32 } from '../wire/bytes.ts'
import * as cm from '../wire/cm.ts'
import type { Call } from './call.ts'
import type { ConnectContext, Connection, Link, WaitingManagement } from './context.ts'
import { takeForLink } from './initiate.ts'
import { receiveReq } from './request.ts'
import { sendBack } from './send.ts'
import {
  arm,
  confirmConnection,
  findConnection,
  isFromPeer,
  isLive,
  PHASE_REPLIED,
  PHASE_RESTING,
  putToRest,
} from './table.ts'

/** The longest that an MRA puts us off, µs. */
const DELAY_US_MAX = 60_000_000

/** Reads the message of the datagram, answers it. */
export function serveConnection(state: ConnectContext, waiting: WaitingManagement): Fault {
  const { bytes } = state
  const header = cm.blankCmHeader()
  cm.readCmHeader(header, bytes, waiting.madAt)
  const call = { state, header, packet: waiting.packet, at: waiting.madAt + cm.CM_BODY }
  const link = linkOfMessage(call)
  if (link !== null) {
    takeForLink(state, link, waiting.madAt)
    return PASS
  }
  const handler = HANDLERS[header.attribute]
  return handler === undefined ? CONNECTION_FORM : handler(call)
}

/** The link of ours that the message names by our id, from its peer, or null. */
function linkOfMessage(call: Call): Link | null {
  const { state, at, packet, header } = call
  if (header.attribute === cm.CM_REQ) return null
  const localId = u32(state.bytes, at + cm.CM_REMOTE_ID)
  const connection = state.connections.places[localId & (QUEUE_PAIRS - 1)]!
  const { link } = connection
  if (link === null || link.ended || connection.localId !== localId) return null
  if (!isLive(state, connection) || !isFromPeer(state, connection.qp!, packet)) return null
  return link
}

const HANDLERS: Readonly<Record<number, (call: Call) => Fault>> = {
  [cm.CM_REQ]: receiveReq,
  [cm.CM_RTU]: receiveRtu,
  [cm.CM_REJ]: receiveRej,
  [cm.CM_MRA]: receiveMra,
  [cm.CM_DREQ]: receiveDreq,
  [cm.CM_DREP]: receiveDrep,
}

/** The connection that the message belongs to, or null. */
function connectionOf(call: Call): Connection | null {
  const ids = { localId: 0, remoteId: 0 }
  cm.readIds(ids, call.state.bytes, call.at)
  return findConnection(call.state, ids, call.packet)
}

function receiveRtu(call: Call): Fault {
  const connection = connectionOf(call)
  if (connection === null) return CONNECTION_FORM
  confirmConnection(call.state, connection)
  return PASS
}

/** The peer takes nothing of it: the connection never was, or is no more. */
function receiveRej(call: Call): Fault {
  const connection = connectionOf(call) ?? takenBack(call)
  if (connection === null) return CONNECTION_FORM
  putToRest(call.state, connection)
  return PASS
}

/** The connection whose REQ the peer takes back, because it never had our REP, or null. */
function takenBack(call: Call): Connection | null {
  const { state, at, packet } = call
  const rej = cm.blankRej()
  cm.readRej(rej, state.bytes, at)
  if (rej.reason !== cm.REJECT_TIMEOUT || rej.informationLength < cm.GUID_BYTES) return null
  const guidHigh = u32(rej.information, 0)
  const guidLow = u32(rej.information, 4)
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const connection = state.connections.places[i]!
    if (connection.phase !== PHASE_REPLIED || !isLive(state, connection)) continue
    if (connection.remoteId !== rej.localId || connection.guidLow !== guidLow) continue
    if (connection.guidHigh !== guidHigh) continue
    if (isFromPeer(state, connection.qp!, packet)) return connection
  }
  return null
}

/** The peer has our REP and needs its time. */
function receiveMra(call: Call): Fault {
  const { state, at } = call
  const connection = connectionOf(call)
  if (connection === null || cm.mraMessage(state.bytes, at) !== cm.MESSAGE_REP) {
    return CONNECTION_FORM
  }
  if (connection.phase !== PHASE_REPLIED) return PASS
  const delayUs = Math.min(cm.codedUs(cm.mraTimeout(state.bytes, at)), DELAY_US_MAX)
  arm(state, connection, delayUs + connection.periodUs)
  return PASS
}

function receiveDreq(call: Call): Fault {
  const { state, at, packet, header } = call
  const ids = { localId: 0, remoteId: 0 }
  cm.readIds(ids, state.bytes, at)
  const connection = findConnection(state, ids, packet)
  if (connection !== null && connection.qp!.number !== cm.dreqQpn(state.bytes, at)) {
    return CONNECTION_FORM
  }
  if (connection !== null) putToRest(state, connection)
  const { message } = state.connections
  cm.writeCmHeader(message, 0, { ...header, status: 0, attribute: cm.CM_DREP })
  cm.writeIds(message, cm.CM_BODY, { localId: ids.remoteId, remoteId: ids.localId })
  sendBack(state, packet, message)
  return PASS
}

/** The answer to a goodbye of ours; there is nothing more to do. */
function receiveDrep(call: Call): Fault {
  const connection = connectionOf(call)
  return connection !== null && connection.phase === PHASE_RESTING ? PASS : CONNECTION_FORM
}
