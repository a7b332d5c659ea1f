// hot path
/**
 * The completer: what the responses mean for the requests that wait (requester.ts keeps the queue).
 *
 * What always holds:
 * - A response counts only if its PSN belongs to a packet that is on its way; a requester that
 *   takes others, as some do, reports success for what was never done (ghost ACKs, 3.5).
 * - `received` comes from acknowledgements, which are cumulative; `persisted` only from a
 *   PERSIST_ACK, which names operation and incarnation (D-5, D-6).
 * - Whatever acknowledges a packet behind a READ that still waits tells that its response was lost:
 *   the READ is asked for again from its first missing packet (wire-format 3.8).
 * - Going back happens once per missing place, until there is progress or a timeout: a NAK that the
 *   network doubles must not double the traffic.
 */

import {
  KIND_ACK,
  KIND_NAK,
  KIND_RNR,
  NAK_INVALID,
  NAK_OPERATIONAL,
  NAK_SEQUENCE,
  readAeth,
} from '../wire/aeth.ts'
import {
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_MIDDLE,
  RC_READ_RESPONSE_ONLY,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readPaeth } from '../wire/persist-ack.ts'
import { psnAdd, psnBehind, psnDistance } from './psn.ts'
import {
  complete,
  fail,
  READ,
  type Request,
  type Requester,
  release,
  requestAt,
  rewind,
  type WcStatus,
} from './requester.ts'

/** The top three bits of a syndrome; the highest is 0 in every response (wire-format 1.4). */
const SYNDROME_BITS = 0xe0

/** Minimum RNR NAK timer by code, µs (IBTA table 45; wire-format 1.4). */
const RNR_TIMER_US: readonly number[] = [
  655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120,
  7680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
  491_520,
]

/** What a fatal NAK means, from 0x61 on. */
const NAK_STATUS: readonly WcStatus[] = ['REM_INV_REQ_ERR', 'REM_ACCESS_ERR', 'REM_OP_ERR']

/** Takes a checked packet that is a response to this queue; then call `pump`. */
export function takeResponse(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  const opcode = packet.opcode
  if (q.failed || packet.row === null) {
    q.counts.ghosts++
  } else if (opcode === RC_ACKNOWLEDGE) {
    readAeth(q.aeth, bytes, packet.bthAt + packet.row.aethAt)
    takeAeth(q, packet.psn, nowUs)
  } else if (opcode === PERSIST_ACK) {
    takePersistAck(q, bytes, packet, nowUs)
  } else if (opcode >= RC_READ_RESPONSE_FIRST && opcode <= RC_READ_RESPONSE_ONLY) {
    takeReadResponse(q, bytes, packet, nowUs)
  } else {
    q.counts.ghosts++
  }
}

/** Was the packet of that PSN sent, and is it unacknowledged? */
function onItsWay(q: Requester, psn: number): boolean {
  return psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)
}

/** Place of the request that holds a PSN that is on its way. */
function placeOf(q: Requester, psn: number): number {
  const distance = psnDistance(psn, q.unackedPsn)
  let place = q.unacked
  while (psnDistance(requestAt(q, place).lastPsn, q.unackedPsn) < distance) place++
  return place
}

function takeAeth(q: Requester, psn: number, nowUs: number): void {
  if (!onItsWay(q, psn)) {
    q.counts.ghosts++
    return
  }
  const syndrome = q.aeth.syndrome
  switch (syndrome & SYNDROME_BITS) {
    case KIND_ACK:
      q.counts.acks++
      acknowledge(q, psn, nowUs)
      return
    case KIND_RNR:
      takeRnrNak(q, psn, syndrome & 31, nowUs)
      return
    case KIND_NAK:
      takeNak(q, psn, syndrome, nowUs)
      return
    default:
      q.counts.ghosts++
  }
}

/** Everything up to and with `psn` is with the responder, unless a READ stands before it. */
function acknowledge(q: Requester, psn: number, nowUs: number): void {
  let left = psnDistance(psn, q.unackedPsn) + 1
  while (left > 0 && !q.failed) {
    const request = requestAt(q, q.unacked)
    if (request.kind === READ) {
      q.counts.impliedNaks++
      goBack(q)
      return
    }
    const inRequest = psnDistance(request.lastPsn, q.unackedPsn) + 1
    const step = left < inRequest ? left : inRequest
    left -= step
    advance(q, step, nowUs)
    if (step === inRequest) {
      if (!request.received) setReceived(q, request, nowUs)
      release(q)
    }
  }
}

/** Moves the oldest unacknowledged PSN on; this is progress, so every retry count starts anew. */
function advance(q: Requester, count: number, nowUs: number): void {
  const request = requestAt(q, q.unacked)
  const behind = psnDistance(q.cursorPsn, q.unackedPsn) < count
  q.unackedPsn = psnAdd(q.unackedPsn, count)
  if (psnDistance(q.unackedPsn, request.firstPsn) === request.packetCount) q.unacked++
  if (behind || q.cursor < q.unacked) {
    q.cursor = q.unacked
    q.cursorPsn = q.unackedPsn
  }
  q.tries = 0
  q.rnrTries = 0
  q.rewoundPsn = -1
  q.ackTimerUs = q.unackedPsn === q.highPsn ? Infinity : nowUs + q.ackTimeoutUs
}

function setReceived(q: Requester, request: Request, nowUs: number): void {
  request.received = true
  request.persistAtUs = nowUs + q.persistTimeoutUs
  q.hooks.received(request)
}

/** Packets are missing at the responder: sends again from the oldest, once for each such place. */
function goBack(q: Requester): void {
  if (q.rewoundPsn === q.unackedPsn) return
  q.rewoundPsn = q.unackedPsn
  rewind(q)
}

/** A NAK at `psn` acknowledges everything below it. False where a READ stands in between. */
function acknowledgeBelow(q: Requester, psn: number, nowUs: number): boolean {
  if (psn !== q.unackedPsn) acknowledge(q, psnAdd(psn, -1), nowUs)
  return psn === q.unackedPsn && !q.failed
}

function takeRnrNak(q: Requester, psn: number, code: number, nowUs: number): void {
  q.counts.rnrNaks++
  if (!acknowledgeBelow(q, psn, nowUs)) return
  if (q.rnrRetryCount < 7 && q.rnrTries >= q.rnrRetryCount) {
    fail(q, q.unacked, 'RNR_RETRY_EXC_ERR')
    return
  }
  q.rnrTries++
  q.rnrUntilUs = nowUs + RNR_TIMER_US[code]!
  q.ackTimerUs = Infinity
  rewind(q)
}

function takeNak(q: Requester, psn: number, syndrome: number, nowUs: number): void {
  if (syndrome === NAK_SEQUENCE) {
    q.counts.sequenceNaks++
    if (acknowledgeBelow(q, psn, nowUs)) goBack(q)
  } else if (syndrome <= NAK_OPERATIONAL) {
    // The responder is in its error state and silent from now on, also about a READ before `psn`.
    const place = placeOf(q, psn)
    acknowledgeBelow(q, psn, nowUs)
    fail(q, place, NAK_STATUS[syndrome - NAK_INVALID]!)
  } else {
    q.counts.ghosts++
  }
}

function takeReadResponse(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  const psn = packet.psn
  const place = onItsWay(q, psn) ? placeOf(q, psn) : -1
  const request = place < 0 ? null : requestAt(q, place)
  if (request === null || request.kind !== READ || !readFits(q, request, bytes, packet)) {
    q.counts.ghosts++
    return
  }
  if (place !== q.unacked) acknowledge(q, psnAdd(request.firstPsn, -1), nowUs)
  if (q.failed || place !== q.unacked) return
  if (psn !== q.unackedPsn) {
    q.counts.impliedNaks++
    goBack(q)
    return
  }
  q.counts.readResponses++
  const length = packet.payloadLength
  const offset = psnDistance(psn, request.firstPsn) * q.pathMtu
  const last = psn === request.lastPsn
  if (last && request.readOut) {
    request.readOut = false
    q.readsOut--
  }
  advance(q, 1, nowUs)
  q.hooks.data(request, offset, bytes, packet.payloadAt, length)
  if (!last || request.done) return
  request.received = true
  complete(q, request, 'SUCCESS')
  release(q)
}

/** Has the response the length that its place in the READ asks for, and no NAK in its AETH? */
function readFits(q: Requester, request: Request, bytes: Uint8Array, packet: Packet): boolean {
  const offset = psnDistance(packet.psn, request.firstPsn) * q.pathMtu
  const left = request.length - offset
  if (packet.payloadLength !== (left < q.pathMtu ? left : q.pathMtu)) return false
  if (packet.opcode === RC_READ_RESPONSE_MIDDLE) return true
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  return (q.aeth.syndrome & SYNDROME_BITS) === 0
}

/**
 * A PERSIST_ACK is two answers in one: an acknowledgement by its PSN, and the word about
 * durability, which is believed by incarnation and operation id, never by PSN alone (D-5, D-6).
 */
function takePersistAck(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  readPaeth(q.paeth, bytes, packet.bthAt + packet.row!.paethAt)
  const paeth = q.paeth
  const lastPlace = recordEndingAt(q, paeth.lastPsn)
  if (lastPlace < 0 || !persistAckFits(q, packet.psn)) {
    q.counts.ghosts++
    return
  }
  q.counts.persistAcks++
  const firstPsn = paeth.firstPsn
  const range = psnDistance(paeth.lastPsn, firstPsn)
  const copies = paeth.copies
  const mechanism = paeth.mechanism
  const refusal = paeth.status
  if (onItsWay(q, packet.psn)) acknowledge(q, packet.psn, nowUs)
  for (let i = q.head; i <= lastPlace && !q.failed; i++) {
    const request = requestAt(q, i)
    if (request.done || request.kind === READ) continue
    if (psnDistance(request.lastPsn, firstPsn) > range) continue
    if (!request.received) setReceived(q, request, nowUs)
    request.copies = copies
    request.mechanism = mechanism
    request.refusal = refusal
    complete(q, request, refusal === 0 ? 'SUCCESS' : 'GENERAL_ERR')
  }
  release(q)
}

/** May the PERSIST_ACK that was read speak for this connection? */
function persistAckFits(q: Requester, psn: number): boolean {
  if (q.paeth.incarnation !== q.incarnation) return false
  if ((q.aeth.syndrome & SYNDROME_BITS) !== KIND_ACK) return false
  if (q.paeth.status === 0 && !q.paeth.all) return false
  return psnBehind(psn, q.unackedPsn) || onItsWay(q, psn)
}

/** Place of the unresolved record that ends at `psn`, if the PERSIST_ACK names it; else -1. */
function recordEndingAt(q: Requester, psn: number): number {
  const paeth = q.paeth
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (request.done || request.kind === READ || request.lastPsn !== psn) continue
    if (request.operationHigh !== paeth.operationHigh) return -1
    if (request.operationLow !== paeth.operationLow) return -1
    return i < q.unacked || onItsWay(q, psn) ? i : -1
  }
  return -1
}
