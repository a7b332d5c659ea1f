/**
 * The active side of RDMA-CM, without I/O: it is given messages and the time, and gives messages.
 * Firmware and host driver both connect with it.
 *
 *   REQ, again until REP, REJ or too often ──▶ REP: RTU, connected ──▶ DREQ, again until DREP
 *
 * Invariants:
 * - A message counts only with our communication id in it, and from REP on with the peer's; the
 *   caller has looked at its form (`cmFault`) and at the address that it came from.
 * - A REP that comes again is answered by RTU again, a DREQ always by DREP: the peer's wait ends.
 * - A REP that tells of a queue without a place is refused, as such a REQ is (S1-M7).
 * - After the end nothing is sent but that DREP, and nothing is reported twice.
 * - Starting PSNs cross over: our requests begin with the PSN of the REP, the peer's with the one
 *   that our REQ said.
 */

import { type Fault, PASS } from '../board/fault.ts'
import { depthsFault } from '../transport/depths.ts'
import { putU32 } from '../wire/bytes.ts'
import { blankCapability, type Depths, readCapability, readDepths } from '../wire/capability.ts'
import * as cm from '../wire/cm.ts'

/** REQ was sent. */
const ACTIVE_REQUESTING = 1
export const ACTIVE_CONNECTED = 2
/** DREQ was sent. */
const ACTIVE_CLOSING = 3
export const ACTIVE_ENDED = 4

/** What a message or a tick brought about. */
export const EVENT_NONE = 0
/** REP came; RTU is sent, and the queue pair may be used. */
export const EVENT_CONNECTED = 1
/** The peer said no: `reason`. */
export const EVENT_REJECTED = 2
/** Nobody answered. */
export const EVENT_TIMED_OUT = 3
/** The connection is over, by whichever side. */
export const EVENT_CLOSED = 4

export interface ActiveOptions {
  /** Not 0, and not used lately. */
  readonly localId: number
  readonly transactionHigh: number
  readonly transactionLow: number
  readonly port: number
  readonly guidHigh: number
  readonly guidLow: number
  readonly qpn: number
  /** PSN that the peer will begin its requests with. */
  readonly startingPsn: number
  /** READs and atomics that we serve at once, and that we want to have under way. */
  readonly responderResources: number
  readonly initiatorDepth: number
  /** Bytes: 256, 512, 1024, 2048 or 4096. */
  readonly pathMtu: number
  readonly ipVersion: number
  /** Addresses, 16 bytes each; IPv4 mapped: ::ffff:a.b.c.d. */
  readonly localGid: Uint8Array
  readonly remoteGid: Uint8Array
  readonly sourcePort: number
  /** At most 56 bytes for the peer's application. */
  readonly userData: Uint8Array
  /** Code t of how long an answer may take, for both sides: 4.096 µs * 2^t. */
  readonly timeoutCode: number
  /** How often a message is sent again, 0 to 15. */
  readonly retries: number
  /** Local ACK timeout code of our requests. */
  readonly ackTimeout: number
}

export interface Active {
  phase: number
  /** Sends these 256 bytes to QP 1 of the peer; they are used again when it returns. */
  readonly send: (message: Uint8Array) => void
  readonly options: ActiveOptions
  readonly message: Uint8Array
  readonly request: Uint8Array
  /** What the peer granted; read it after EVENT_CONNECTED. */
  readonly rep: cm.CmRep
  /** The depths of its queues, if it told them. */
  told: Depths | null
  /** Why the peer said no, or we to its REP, one of REJECT_*; and what was said to it. */
  reason: number
  readonly rejection: cm.CmRej
  /** When `tickActive` is wanted, µs; Infinity is never. */
  timerUs: number
  triesLeft: number
}

/** The end of what an MRA may put us off, µs. */
const DELAY_US_MAX = 60_000_000

/** Sends the REQ. */
export function startActive(
  options: ActiveOptions,
  send: (message: Uint8Array) => void,
  nowUs: number,
): Active {
  const active: Active = {
    phase: ACTIVE_REQUESTING,
    send,
    options,
    message: new Uint8Array(cm.CM_BYTES),
    request: new Uint8Array(cm.CM_BYTES),
    rep: cm.blankRep(),
    told: null,
    reason: 0,
    rejection: cm.blankRej(),
    timerUs: nowUs + cm.codedUs(options.timeoutCode),
    triesLeft: options.retries,
  }
  beginMessage(active, active.request, cm.CM_REQ)
  cm.writeReq(active.request, cm.CM_BODY, requestOf(options))
  active.send(active.request)
  return active
}

function requestOf(options: ActiveOptions): cm.CmReq {
  const req = {
    ...cm.blankReq(),
    localId: options.localId,
    serviceLow: cm.SERVICE_TCP | options.port,
    guidHigh: options.guidHigh,
    guidLow: options.guidLow,
    qpn: options.qpn,
    responderResources: options.responderResources,
    initiatorDepth: options.initiatorDepth,
    remoteTimeout: options.timeoutCode,
    startingPsn: options.startingPsn,
    localTimeout: options.timeoutCode,
    pathMtu: cm.codeOfMtu(options.pathMtu),
    cmRetries: options.retries,
    localGid: options.localGid,
    remoteGid: options.remoteGid,
    ackTimeout: options.ackTimeout,
  }
  writeIpHeader(req.privateData, options)
  req.privateData.set(options.userData, cm.IP_CM_USER)
  return req
}

/** The header of IP addressing: an IPv4 address stands there unmapped (wire-format 5.7). */
function writeIpHeader(bytes: Uint8Array, options: ActiveOptions): void {
  const { ipVersion, sourcePort } = options
  const from = ipVersion === 4 ? 12 : 0
  bytes[cm.IP_CM_IP_VERSION] = ipVersion << 4
  bytes[cm.IP_CM_SOURCE_PORT] = sourcePort >> 8
  bytes[cm.IP_CM_SOURCE_PORT + 1] = sourcePort
  for (let i = from; i < cm.GID_BYTES; i++) {
    bytes[cm.IP_CM_SOURCE + i] = options.localGid[i]!
    bytes[cm.IP_CM_DESTINATION + i] = options.remoteGid[i]!
  }
}

/** The exchange of REQ, REP and RTU has one transaction id, that of DREQ and DREP another. */
function beginMessage(active: Active, message: Uint8Array, attribute: number): void {
  const { transactionHigh, transactionLow } = active.options
  const second = attribute === cm.CM_DREQ ? 1 : 0
  cm.writeCmHeader(message, 0, {
    ...cm.blankCmHeader(),
    attribute,
    transactionHigh,
    transactionLow: (transactionLow ^ second) >>> 0,
  })
}

/** Takes the message of 256 bytes at `at`; returns the event. */
export function takeMessage(active: Active, bytes: Uint8Array, at: number, nowUs: number): number {
  const header = cm.blankCmHeader()
  const ids = { localId: 0, remoteId: 0 }
  cm.readCmHeader(header, bytes, at)
  cm.readIds(ids, bytes, at + cm.CM_BODY)
  if (ids.remoteId !== active.options.localId) return EVENT_NONE
  const body = at + cm.CM_BODY
  if (header.attribute === cm.CM_REP) return takeRep(active, bytes, body, ids)
  if (header.attribute === cm.CM_REJ) return takeRej(active, bytes, body, ids)
  if (header.attribute === cm.CM_MRA) return takeMra(active, bytes, body, nowUs)
  if (header.attribute === cm.CM_DREQ) return takeDreq(active, bytes, body, header, ids)
  const isDrep = header.attribute === cm.CM_DREP && ids.localId === active.rep.localId
  return isDrep && active.phase === ACTIVE_CLOSING ? endActive(active, EVENT_CLOSED) : EVENT_NONE
}

function endActive(active: Active, event: number): number {
  active.phase = ACTIVE_ENDED
  active.timerUs = Infinity
  return event
}

function takeRep(active: Active, bytes: Uint8Array, at: number, ids: cm.CmIds): number {
  const { rep } = active
  if (active.phase === ACTIVE_CONNECTED) {
    if (ids.localId === rep.localId) sendRtu(active)
    return EVENT_NONE
  }
  if (active.phase !== ACTIVE_REQUESTING) return EVENT_NONE
  cm.readRep(rep, bytes, at)
  if (rep.qpn < 2 || rep.localId === 0) return rejectRep(active, cm.REJECT_NO_QP)
  active.told = depthsOfRep(rep)
  const fault = active.told === null ? PASS : depthsFault(active.told)
  if (fault !== PASS) return rejectRep(active, cm.REJECT_CONSUMER, fault)
  active.phase = ACTIVE_CONNECTED
  active.timerUs = Infinity
  sendRtu(active)
  return EVENT_CONNECTED
}

function sendRtu(active: Active): void {
  const { message, rep, options } = active
  beginMessage(active, message, cm.CM_RTU)
  cm.writeIds(message, cm.CM_BODY, { localId: options.localId, remoteId: rep.localId })
  active.send(message)
}

/** What the capability block of a REP tells, if there is one and it does. */
function depthsOfRep({ privateData }: cm.CmRep): Depths | null {
  const { length } = privateData
  if (!readCapability(blankCapability(), privateData, 0, length)) return null
  return readDepths(privateData, 0, length)
}

/** Refuses the REP, for what it says; for reason 28 the private data has the number of a fault. */
function rejectRep(active: Active, reason: number, code: Fault = PASS): number {
  const { rejection } = active
  Object.assign(rejection, { message: cm.MESSAGE_REP, reason, remoteId: active.rep.localId })
  rejection.privateData[0] = code
  sendRej(active, rejection)
  active.reason = reason
  return endActive(active, EVENT_REJECTED)
}

/**
 * Takes the REQ back. The peer's id is not known: our GUID, beside our id, tells the peer which REQ
 * it is (IBTA 12.6.7.2, reason 4).
 */
function takeBack(active: Active): void {
  const { guidHigh, guidLow } = active.options
  const rej = { ...cm.blankRej(), reason: cm.REJECT_TIMEOUT, informationLength: cm.GUID_BYTES }
  putU32(rej.information, 0, guidHigh)
  putU32(rej.information, 4, guidLow)
  sendRej(active, rej)
}

function sendRej(active: Active, rej: cm.CmRej): void {
  const { message, options } = active
  beginMessage(active, message, cm.CM_REJ)
  cm.writeRej(message, cm.CM_BODY, { ...rej, localId: options.localId })
  active.send(message)
}

function takeRej(active: Active, bytes: Uint8Array, at: number, ids: cm.CmIds): number {
  if (active.phase === ACTIVE_ENDED) return EVENT_NONE
  const asked = active.phase === ACTIVE_REQUESTING
  if (!asked && ids.localId !== active.rep.localId) return EVENT_NONE
  cm.readRej(active.rejection, bytes, at)
  active.reason = active.rejection.reason
  return endActive(active, asked ? EVENT_REJECTED : EVENT_CLOSED)
}

function takeMra(active: Active, bytes: Uint8Array, at: number, nowUs: number): number {
  const message = active.phase === ACTIVE_REQUESTING ? cm.MESSAGE_REQ : cm.MESSAGE_OTHER
  if (active.timerUs === Infinity || cm.mraMessage(bytes, at) !== message) return EVENT_NONE
  const delayUs = Math.min(cm.codedUs(cm.mraTimeout(bytes, at)), DELAY_US_MAX)
  active.timerUs = nowUs + delayUs + cm.codedUs(active.options.timeoutCode)
  return EVENT_NONE
}

function takeDreq(
  active: Active,
  bytes: Uint8Array,
  at: number,
  header: cm.CmHeader,
  ids: cm.CmIds,
): number {
  const { message, options, rep, phase } = active
  if (phase === ACTIVE_REQUESTING || ids.localId !== rep.localId) return EVENT_NONE
  if (cm.dreqQpn(bytes, at) !== options.qpn) return EVENT_NONE
  cm.writeCmHeader(message, 0, { ...header, attribute: cm.CM_DREP })
  cm.writeIds(message, cm.CM_BODY, { localId: options.localId, remoteId: rep.localId })
  active.send(message)
  return phase === ACTIVE_ENDED ? EVENT_NONE : endActive(active, EVENT_CLOSED)
}

/** Ends a connection by DREQ; EVENT_CLOSED follows. An attempt to connect ends at once. */
export function closeActive(active: Active, nowUs: number): number {
  if (active.phase === ACTIVE_REQUESTING) {
    // The peer may have a queue pair already: it is told that nobody comes.
    takeBack(active)
    return endActive(active, EVENT_CLOSED)
  }
  if (active.phase !== ACTIVE_CONNECTED) return EVENT_NONE
  active.phase = ACTIVE_CLOSING
  active.triesLeft = active.options.retries
  active.timerUs = nowUs + cm.codedUs(active.options.timeoutCode)
  sendDreq(active)
  return EVENT_NONE
}

function sendDreq(active: Active): void {
  const { message, rep, options } = active
  beginMessage(active, message, cm.CM_DREQ)
  cm.writeIds(message, cm.CM_BODY, { localId: options.localId, remoteId: rep.localId })
  cm.putDreqQpn(message, cm.CM_BODY, rep.qpn)
  active.send(message)
}

/** Repeats what is not answered, and gives up; returns the event. */
export function tickActive(active: Active, nowUs: number): number {
  if (nowUs < active.timerUs) return EVENT_NONE
  const requesting = active.phase === ACTIVE_REQUESTING
  if (active.triesLeft === 0) {
    if (requesting) {
      takeBack(active)
      active.reason = cm.REJECT_TIMEOUT
    }
    return endActive(active, requesting ? EVENT_TIMED_OUT : EVENT_CLOSED)
  }
  active.triesLeft -= 1
  active.timerUs = nowUs + cm.codedUs(active.options.timeoutCode)
  if (requesting) active.send(active.request)
  else sendDreq(active)
  return EVENT_NONE
}
