/**
 * A REQ to a published port: a new connection, an old one again, or a refusal.
 *
 * Invariants:
 * - A REQ that comes again makes no second queue pair: it is answered by the same REP, byte for
 *   byte, to the peer that sent the first.
 * - Starting PSNs cross over: our requests begin with the PSN of the REQ, the peer's with the one
 *   that our REP says.
 * - The path MTU of the REQ is taken or refused, never lowered: REP has no field for it.
 * - Every refusal says its reason.
 */

import type { BoardState } from '../board/context.ts'
import {
  DUPLICATE,
  type Fault,
  PASS,
  QUEUE_PAIRS_FULL,
  STALE_CONNECTION,
  UNSERVED_CONNECTION,
} from '../board/fault.ts'
import { QUEUE_PAIRS, RESPONDER_RESOURCES, TARGET_ACK_DELAY } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import { failQueuePair, openPair } from '../burst/staging.ts'
import type { Region } from '../medium/region.ts'
import { grantOne } from '../session/grants.ts'
import { noteRefusal } from '../session/refusals.ts'
import { prepareTemplate } from '../transport/acknowledge.ts'
import { agreedDepths, CARD_DEPTHS } from '../transport/depths.ts'
import { sourceOf } from '../transport/places.ts'
import type { Psn } from '../transport/psn.ts'
import { type QueuePair, STOCK_PEER } from '../transport/queue-pair.ts'
import { freeNumber } from '../transport/queue-pair-number.ts'
import { blankCapability, readCapability } from '../wire/capability.ts'
import * as cm from '../wire/cm.ts'
import { FORM_ANNOUNCED } from '../wire/management.ts'
import type { Call } from './call.ts'
import type { Connection, Service } from './context.ts'
import { depthsOfReq, judgeReq, type Refusal, refusal } from './judge.ts'
import { dismissSilent, hasRoomOn } from './room.ts'
import { sendBack, sendTo } from './send.ts'
import { describeService, findService, regionOfService } from './services.ts'
import {
  arm,
  beginConnection,
  isFromPlace,
  isLive,
  PHASE_CONNECTED,
  PHASE_REPLIED,
  PHASE_RESTING,
  putToRest,
  TIME_WAIT_US,
} from './table.ts'

/** RNR NAKs may be as many as they like: 7 is without end. */
const RNR_RETRY_COUNT = 7

/** REP is not repeated faster, nor slower, whatever the REQ asks for, µs. */
const PERIOD_US_MIN = 100_000
const PERIOD_US_MAX = 10_000_000

/** Takes a REQ, and answers it by REP or REJ. */
export function receiveReq(call: Call): Fault {
  const { state, at } = call
  const req = cm.blankReq()
  cm.readReq(req, state.bytes, at)
  const known = findRequest(call, req)
  if (known !== null) return receiveAgain(call, req, known)
  const service = findService(state, req.serviceHigh, req.serviceLow)
  const refused = judgeReq(call, req, service)
  if (refused !== null) {
    reject(call, req, refused)
    noteRefusal(state, refused.code, call.packet)
    return UNSERVED_CONNECTION
  }
  const { port, most } = service!
  if (!hasRoomOn(state, port, most)) {
    reject(call, req, refusal(cm.REJECT_NO_RESOURCES))
    return QUEUE_PAIRS_FULL
  }
  const source = sourceOf(state, call.packet)
  const number = freeNumber(state, source)
  if (number < 0) {
    dismissSilent(state, source)
    reject(call, req, refusal(cm.REJECT_NO_RESOURCES))
    return QUEUE_PAIRS_FULL
  }
  acceptRequest(call, req, number, service!, regionOfService(state, service!)!)
  return PASS
}

/**
 * A connection of the same peer that has the REQ's communication id, or its queue pair: the REQ
 * again, or the sign that the peer has lost the connection.
 */
function findRequest(call: Call, req: cm.CmReq): Connection | null {
  const { state, packet } = call
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const connection = state.connections.places[i]!
    // A link of ours is none that a REQ has made.
    if (!isLive(state, connection) || connection.link !== null) continue
    if (connection.guidHigh !== req.guidHigh || connection.guidLow !== req.guidLow) continue
    const sameId = connection.remoteId === req.localId
    const sameQp = connection.qp!.peerNumber === req.qpn && connection.phase !== PHASE_RESTING
    if ((sameId || sameQp) && isFromPlace(state, connection.qp!, packet)) return connection
  }
  return null
}

function receiveAgain(call: Call, req: cm.CmReq, known: Connection): Fault {
  const { state } = call
  const qp = known.qp!
  if (known.remoteId === req.localId && qp.peerNumber === req.qpn) {
    if (known.phase === PHASE_REPLIED || (known.phase === PHASE_CONNECTED && !qp.used)) {
      sendTo(state, qp, known.reply)
      return DUPLICATE
    }
    // The peer has its REP, as its requests show; this one was under way for long.
    const since = state.connections.nowUs - known.connectedUs
    if (known.phase === PHASE_CONNECTED && since < TIME_WAIT_US) return DUPLICATE
  }
  // The peer has started again and knows nothing of this connection (IBTA 12.9.8.3.1).
  putToRest(state, known)
  reject(call, req, refusal(cm.REJECT_STALE))
  return STALE_CONNECTION
}

function acceptRequest(
  call: Call,
  req: cm.CmReq,
  number: number,
  service: Service,
  region: Region,
): void {
  const { state, packet } = call
  const ended = state.queuePairs.places[number & (QUEUE_PAIRS - 1)]!
  if (ended !== null) failQueuePair(state, ended)
  const block = blankCapability()
  const user = req.privateData
  const speaks = readCapability(block, user, cm.IP_CM_USER, cm.USER_BYTES_REQ)
  const client = speaks ? block : null
  const told = depthsOfReq(req)
  if (client !== null) endOlder(call, req, client.incarnation)
  const qp = openPair(state, number, {
    peerNumber: req.qpn,
    // A plain peer names no operations.
    clientHigh: client?.clientHigh ?? 0,
    clientLow: client?.clientLow ?? 0,
    pathMtu: cm.mtuOfCode(req.pathMtu),
    protectionDomain: region.protectionDomain,
    expectedPsn: (random32(state) & 0xffffff) as Psn,
    requesterPsn: req.startingPsn as Psn,
    sendDepth: told === null ? 0 : agreedDepths(CARD_DEPTHS, told).send,
    speaksPersist: speaks,
    rights: service.rights,
    source: sourceOf(state, packet),
    peer: STOCK_PEER,
  })
  grantOne(state, qp, region)
  prepareTemplate(qp, state.bytes, packet)
  const connection = beginConnection(state, qp)
  connection.phase = PHASE_REPLIED
  connection.remoteId = req.localId
  connection.guidHigh = req.guidHigh
  connection.guidLow = req.guidLow
  connection.incarnation = client?.incarnation ?? 0
  connection.port = service.port
  connection.announced = service.form === FORM_ANNOUNCED ? region.rkey : 0
  connection.triesLeft = req.cmRetries
  const periodUs = cm.codedUs(req.localTimeout)
  connection.periodUs = Math.min(Math.max(periodUs, PERIOD_US_MIN), PERIOD_US_MAX)
  arm(state, connection, connection.periodUs)
  const rep = replyOf(state, connection, qp, req)
  const who = { client, sessionId: connection.localId, tellsDepths: told !== null }
  describeService(state, service, region, who, rep.privateData)
  cm.writeCmHeader(connection.reply, 0, { ...call.header, status: 0, attribute: cm.CM_REP })
  cm.writeRep(connection.reply, cm.CM_BODY, rep)
  sendTo(state, qp, connection.reply)
}

/**
 * A peer that has started again has no connection of before: what it sent over one and is still on
 * its way must not be taken behind what it sends now.
 */
function endOlder({ state, packet }: Call, req: cm.CmReq, incarnation: number): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const connection = state.connections.places[i]!
    if (connection.incarnation === 0 || connection.incarnation >= incarnation) continue
    if (connection.guidHigh !== req.guidHigh || connection.guidLow !== req.guidLow) continue
    // A GUID is no secret. `findRequest` has just freed those that are over.
    if (!isFromPlace(state, connection.qp!, packet)) continue
    putToRest(state, connection)
  }
}

/** The REP, without its private data. */
function replyOf(
  state: BoardState,
  connection: Connection,
  qp: QueuePair,
  req: cm.CmReq,
): cm.CmRep {
  const { mac } = state.facts
  return {
    ...cm.blankRep(),
    localId: connection.localId,
    remoteId: connection.remoteId,
    qpn: qp.number,
    startingPsn: qp.firstPsn,
    responderResources: RESPONDER_RESOURCES,
    // What the peer must serve, never more than it offers; 0 would take its rights away.
    initiatorDepth: Math.max(1, Math.min(req.responderResources, RESPONDER_RESOURCES)),
    targetAckDelay: TARGET_ACK_DELAY,
    rnrRetryCount: RNR_RETRY_COUNT,
    guidHigh: cm.guidHigh(mac),
    guidLow: cm.guidLow(mac),
  }
}

/** Refuses a REQ. */
function reject(call: Call, req: cm.CmReq, refused: Refusal): void {
  const { state, packet, header } = call
  const { message } = state.connections
  const rej = { ...cm.blankRej(), remoteId: req.localId, reason: refused.reason }
  if (refused.information >= 0) {
    rej.informationLength = 1
    rej.information[0] = refused.information
  }
  rej.privateData[0] = refused.code
  cm.writeCmHeader(message, 0, { ...header, status: 0, attribute: cm.CM_REJ })
  cm.writeRej(message, cm.CM_BODY, rej)
  sendBack(state, packet, message)
}
