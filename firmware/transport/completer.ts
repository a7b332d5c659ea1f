// hot path
/**
 * The completer: what the responses mean for the requests that wait (requester.ts keeps the queue).
 *
 * Invariants:
 * - A response counts only if its PSN belongs to a packet that is on its way; a requester that
 *   takes others, as some do, reports success for what was never done (ghost ACKs, 3.5).
 * - `received` comes from acknowledgements, which are cumulative; `persisted` only from a
 *   PERSIST_ACK, which names operation and incarnation (D-5, D-6).
 * - The records of a batch are resolved by its status alone, and by all of it or nothing: one that
 *   contradicts itself, or names other operations than were posted, is a ghost.
 * - An ordered request (READ, atomic, FLUSH, ATOMIC WRITE, query, ASSOCIATE, BLOCK_SIZE) is
 *   completed by its own response and by nothing else. Whatever acknowledges a packet behind one
 *   that still waits tells that its response was lost: it is asked for again from its first missing
 *   packet (wire-format 3.8).
 * - Going back happens once per missing place, until there is progress or a timeout: a NAK that the
 *   network doubles must not double the traffic.
 */

import { BATCH_ABORTED, FAULTS } from '../board/fault.ts'
import { BATCH_TIMEOUT_US } from '../board/limits.ts'
import {
  KIND_ACK,
  KIND_NAK,
  KIND_RNR,
  NAK_INVALID,
  NAK_OPERATIONAL,
  NAK_SEQUENCE,
  RNR_TIMER_US,
  readAeth,
} from '../wire/aeth.ts'
import { readAtomicAck } from '../wire/atomic.ts'
import { readBseth } from '../wire/block-size.ts'
import {
  BLOCK_SIZE_ANSWER,
  CNP,
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_ATOMIC_ACK,
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_MIDDLE,
  RC_READ_RESPONSE_ONLY,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  BITMAP_WORDS_MAX,
  bitmapWords,
  isInBitmap,
  readBitmap,
  readPaeth,
  STATUS_DURABLE,
  setInBitmap,
} from '../wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../wire/persist-query.ts'
import { psnAdd, psnBehind, psnDistance } from './psn.ts'
import {
  ASSOCIATE,
  ATOMIC_WRITE,
  BLOCK_SIZE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  fail,
  freeDepth,
  isBatchMember,
  isCollectedMember,
  isOrdered,
  NO_BATCH,
  PERSIST_QUERY,
  READ,
  type Request,
  type Requester,
  release,
  requestAt,
  resolveRequest,
  type WcStatus,
  WRITE,
  WRITE_IMM,
  WRITE_PERSIST,
} from './requester.ts'
import { regain, rewind, takeCongestion } from './sender.ts'

/** A burst whose end was never posted: the responder has given it up by then, and has said so. */
const BATCH_GIVEN_UP_US = 2 * BATCH_TIMEOUT_US

/** What a record of a batch is told that was refused, but is not the first that was. */
const NOT_TOLD = FAULTS[BATCH_ABORTED]!.code

/** The top three bits of a syndrome; the highest is 0 in every response (wire-format 1.4). */
const SYNDROME_BITS = 0xe0

/** What a fatal NAK means, from 0x61 on. */
const NAK_STATUS: readonly WcStatus[] = ['REM_INV_REQ_ERR', 'REM_ACCESS_ERR', 'REM_OP_ERR']

/**
 * Takes a checked packet that is a response to this queue, or a congestion notification; then call
 * `pump`.
 */
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
  } else if (opcode === RC_ATOMIC_ACK) {
    takeAtomicAck(q, bytes, packet, nowUs)
  } else if (opcode === BLOCK_SIZE_ANSWER) {
    takeSizeAnswer(q, bytes, packet, nowUs)
  } else if (opcode === CNP) {
    takeCongestion(q, nowUs)
  } else {
    q.counts.ghosts++
  }
  if (!q.failed) retireDone(q, nowUs)
}

/** A record that is durable is with the responder, whatever became of the acknowledgement. */
function retireDone(q: Requester, nowUs: number): void {
  while (q.unacked !== q.tail && requestAt(q, q.unacked).done) {
    advanceUnacked(q, psnDistance(requestAt(q, q.unacked).lastPsn, q.unackedPsn) + 1, nowUs)
  }
  release(q)
}

/** Was the packet of that PSN sent, and is it unacknowledged? */
function onItsWay(q: Requester, psn: number): boolean {
  return psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)
}

/** Place of the request that holds a PSN that is on its way. */
function requestPlaceOf(q: Requester, psn: number): number {
  const distance = psnDistance(psn, q.unackedPsn)
  let place = q.unacked
  while (psnDistance(requestAt(q, place).lastPsn, q.unackedPsn) < distance) place++
  return place
}

// ---- acknowledgements --------------------------------------------------------------------------

function takeAeth(q: Requester, psn: number, nowUs: number): void {
  const { syndrome } = q.aeth
  if (!onItsWay(q, psn)) {
    takeLateRefusal(q, psn, syndrome)
    return
  }
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

/**
 * A fatal NAK of a record that was acknowledged, and is not durable: it never will be over this
 * connection, on which the responder says nothing more. Anything else of such a PSN is a ghost.
 */
function takeLateRefusal(q: Requester, psn: number, syndrome: number): void {
  if (syndrome >= NAK_INVALID && syndrome <= NAK_OPERATIONAL) {
    for (let i = q.head; i < q.unacked; i++) {
      const { done, lastPsn } = requestAt(q, i)
      if (done || lastPsn !== psn) continue
      fail(q, i, NAK_STATUS[syndrome - NAK_INVALID]!)
      return
    }
  }
  q.counts.ghosts++
}

/** Everything up to and with `psn` is with the responder, unless an ordered request waits there. */
function acknowledge(q: Requester, psn: number, nowUs: number): void {
  let left = psnDistance(psn, q.unackedPsn) + 1
  while (left > 0 && !q.failed) {
    const request = requestAt(q, q.unacked)
    if (isOrdered(request.kind)) {
      responseLost(q)
      return
    }
    const inRequest = psnDistance(request.lastPsn, q.unackedPsn) + 1
    const step = left < inRequest ? left : inRequest
    left -= step
    advanceUnacked(q, step, nowUs)
    if (step === inRequest) {
      taken(q, request, nowUs)
      release(q)
    }
  }
}

/** A whole message is with the responder: the end of it, except for a persist. */
function taken(q: Requester, request: Request, nowUs: number): void {
  if (request.kind === WRITE_PERSIST) {
    if (!request.received) setReceived(q, request, nowUs)
    return
  }
  freeDepth(q, request)
  request.received = true
  resolveRequest(q, request, request.refusal === 0 ? 'SUCCESS' : 'GENERAL_ERR')
}

function setReceived(q: Requester, request: Request, nowUs: number): void {
  request.received = true
  request.persistAtUs =
    nowUs + (isCollectedMember(request) ? BATCH_GIVEN_UP_US : q.persistTimeoutUs)
  q.hooks.received(request)
}

/** Moves the oldest unacknowledged PSN on; this is progress, so every retry count starts again. */
function advanceUnacked(q: Requester, count: number, nowUs: number): void {
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
  // Whoever was not ready has taken it, from another copy of the packet perhaps.
  q.rnrUntilUs = 0
  q.rewoundPsn = -1
  q.ackTimerUs = q.unackedPsn === q.highPsn ? Infinity : nowUs + q.ackTimeoutUs
  regain(q, count)
}

/** Packets are missing at the responder: sends again from the oldest, once for each such place. */
function goBack(q: Requester): void {
  if (q.rewoundPsn === q.unackedPsn) return
  q.rewoundPsn = q.unackedPsn
  rewind(q)
}

/** The oldest response did not come: an implied NAK, counted once for each place. */
function responseLost(q: Requester): void {
  if (q.rewoundPsn !== q.unackedPsn) q.counts.impliedNaks++
  goBack(q)
}

/** A NAK at `psn` acknowledges everything below it. False where an ordered request waits there. */
function acknowledgeBelow(q: Requester, psn: number, nowUs: number): boolean {
  if (psn !== q.unackedPsn) acknowledge(q, psnAdd(psn, -1), nowUs)
  return psn === q.unackedPsn && !q.failed
}

function takeRnrNak(q: Requester, psn: number, code: number, nowUs: number): void {
  q.counts.rnrNaks++
  if (!acknowledgeBelow(q, psn, nowUs)) return
  if (q.rnrTries === 0) q.rnrSinceUs = nowUs
  const over = nowUs - q.rnrSinceUs >= q.rnrPatienceUs
  if (over || (q.rnrRetryCount < 7 && q.rnrTries >= q.rnrRetryCount)) {
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
    const place = requestPlaceOf(q, psn)
    acknowledgeBelow(q, psn, nowUs)
    fail(q, place, NAK_STATUS[syndrome - NAK_INVALID]!)
  } else {
    q.counts.ghosts++
  }
}

// ---- responses to ordered requests -------------------------------------------------------------

/** Acknowledges what stands before `place`. False if something there still waits for its own. */
function reach(q: Requester, place: number, nowUs: number): boolean {
  if (place !== q.unacked) acknowledge(q, psnAdd(requestAt(q, place).firstPsn, -1), nowUs)
  return !q.failed && place === q.unacked
}

/** The oldest request has its whole response. */
function answered(q: Requester, request: Request, status: WcStatus, nowUs: number): void {
  freeDepth(q, request)
  advanceUnacked(q, 1, nowUs)
  request.received = true
  resolveRequest(q, request, status)
  release(q)
}

/** Also the response to FLUSH and ATOMIC WRITE, which is that of a READ of no bytes. */
function takeReadResponse(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  const psn = packet.psn
  const place = onItsWay(q, psn) ? requestPlaceOf(q, psn) : -1
  const request = place < 0 ? null : requestAt(q, place)
  if (request === null || !responseFits(q, request, bytes, packet)) {
    q.counts.ghosts++
    return
  }
  if (request.escape) escaped(q, place, nowUs)
  if (!reach(q, place, nowUs)) return
  if (request.kind !== READ) {
    q.counts.otherResponses++
    answered(q, request, 'SUCCESS', nowUs)
    return
  }
  if (psn !== q.unackedPsn) {
    responseLost(q)
    return
  }
  q.counts.readResponses++
  const offset = psnDistance(psn, request.firstPsn) * q.pathMtu
  const last = psn === request.lastPsn
  if (!request.escape) {
    q.hooks.data(request, offset, bytes, packet.payloadAt, packet.payloadLength)
  }
  if (!last) advanceUnacked(q, 1, nowUs)
  else answered(q, request, 'SUCCESS', nowUs)
}

/**
 * The escape READ behind a FLUSH is answered. Linux executes in order, so the FLUSH was executed,
 * though its response was lost and will not be repeated (wire-format 6.5).
 */
function escaped(q: Requester, place: number, nowUs: number): void {
  const flushPlace = place - 1
  if (flushPlace < q.unacked || !reach(q, flushPlace, nowUs)) return
  q.counts.impliedNaks++
  answered(q, requestAt(q, flushPlace), 'SUCCESS', nowUs)
}

/** Is it what that request waits for: kind, length at its place, and no NAK in its AETH? */
function responseFits(q: Requester, request: Request, bytes: Uint8Array, packet: Packet): boolean {
  if (request.kind === READ) {
    const offset = psnDistance(packet.psn, request.firstPsn) * q.pathMtu
    const left = request.length - offset
    if (packet.payloadLength !== (left < q.pathMtu ? left : q.pathMtu)) return false
    if (packet.opcode === RC_READ_RESPONSE_MIDDLE) return true
  } else {
    if (request.kind !== FLUSH && request.kind !== ATOMIC_WRITE) return false
    if (packet.opcode !== RC_READ_RESPONSE_ONLY || packet.payloadLength !== 0) return false
  }
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  return (q.aeth.syndrome & SYNDROME_BITS) === KIND_ACK
}

function takeAtomicAck(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  const place = onItsWay(q, packet.psn) ? requestPlaceOf(q, packet.psn) : -1
  const request = place < 0 ? null : requestAt(q, place)
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  const isAtomic = request !== null && (request.kind === FETCH_ADD || request.kind === COMPARE_SWAP)
  if (!isAtomic || (q.aeth.syndrome & SYNDROME_BITS) !== KIND_ACK) {
    q.counts.ghosts++
    return
  }
  if (!reach(q, place, nowUs)) return
  q.counts.otherResponses++
  readAtomicAck(q.atomicAck, bytes, packet.bthAt + packet.row!.atomicAckAt)
  request.resultHigh = q.atomicAck.originalHigh
  request.resultLow = q.atomicAck.originalLow
  answered(q, request, 'SUCCESS', nowUs)
}

/** The answer to an ASSOCIATE or BLOCK_SIZE; what it says is for the owner to judge. */
function takeSizeAnswer(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  const place = onItsWay(q, packet.psn) ? requestPlaceOf(q, packet.psn) : -1
  const request = place < 0 ? null : requestAt(q, place)
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  const isAsked = request !== null && (request.kind === ASSOCIATE || request.kind === BLOCK_SIZE)
  const isAck = (q.aeth.syndrome & SYNDROME_BITS) === KIND_ACK
  if (!isAsked || !isAck || packet.payloadLength !== 0) {
    q.counts.ghosts++
    return
  }
  if (!reach(q, place, nowUs)) return
  q.counts.otherResponses++
  readBseth(request.size, bytes, packet.bthAt + packet.row!.bsethAt)
  answered(q, request, 'SUCCESS', nowUs)
}

// ---- durability --------------------------------------------------------------------------------

/**
 * A PERSIST_ACK is two answers in one: an acknowledgement by its PSN, and the word about
 * durability, which is believed by incarnation and operation id, never by PSN alone (D-5, D-6).
 */
function takePersistAck(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): void {
  readAeth(q.aeth, bytes, packet.bthAt + packet.row!.aethAt)
  readPaeth(q.paeth, bytes, packet.bthAt + packet.row!.paethAt)
  const paeth = q.paeth
  let fits = persistAckFits(q, packet.psn)
  if (!fits) {
    // Nothing of it is believed.
  } else if (paeth.query) {
    fits = takeQueryAnswer(q, bytes, packet, nowUs)
  } else if (paeth.batch) {
    fits = takeBatchStatus(q, bytes, packet, nowUs)
  } else if (paeth.operationHigh === 0 && paeth.operationLow === 0) {
    fits = takeWriteReceipt(q, packet.psn, nowUs)
  } else {
    fits = takeRecordReceipt(q, packet.psn, nowUs)
  }
  if (fits) q.counts.persistAcks++
  else q.counts.ghosts++
}

/** May the PERSIST_ACK that was read speak for this connection? */
function persistAckFits(q: Requester, psn: number): boolean {
  if (q.paeth.incarnation !== q.incarnation) return false
  if ((q.aeth.syndrome & SYNDROME_BITS) !== KIND_ACK) return false
  const { status, all, query, batch } = q.paeth
  if (status === STATUS_DURABLE && !all && !query && !batch) return false
  return psnBehind(psn, q.unackedPsn) || onItsWay(q, psn)
}

/** Records with operation ids: those that end in the range are durable, or refused. */
function takeRecordReceipt(q: Requester, psn: number, nowUs: number): boolean {
  const paeth = q.paeth
  const lastPlace = recordEndingAt(q, paeth.lastPsn)
  if (lastPlace < 0) return false
  const firstPsn = paeth.firstPsn
  const range = psnDistance(paeth.lastPsn, firstPsn)
  if (onItsWay(q, psn)) acknowledge(q, psn, nowUs)
  for (let i = q.head; i <= lastPlace && !q.failed; i++) {
    const request = requestAt(q, i)
    if (request.done || request.kind !== WRITE_PERSIST || isBatchMember(request)) continue
    if (psnDistance(request.lastPsn, firstPsn) > range) continue
    if (!request.received) setReceived(q, request, nowUs)
    noteReceipt(q, request)
    resolveRequest(q, request, request.refusal === STATUS_DURABLE ? 'SUCCESS' : 'GENERAL_ERR')
  }
  release(q)
  return true
}

/** Place of the unresolved record that ends at `psn`, if the PERSIST_ACK names it; else -1. */
function recordEndingAt(q: Requester, psn: number): number {
  const paeth = q.paeth
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (request.done || request.kind !== WRITE_PERSIST || request.lastPsn !== psn) continue
    if (isBatchMember(request)) return -1
    if (request.operationHigh !== paeth.operationHigh) return -1
    if (request.operationLow !== paeth.operationLow) return -1
    return i < q.unacked || onItsWay(q, psn) ? i : -1
  }
  return -1
}

/**
 * Plain WRITEs whose acknowledgement was withheld until they were durable have no operation id
 * (source 2's form B, D-9): the range tells how, and the PSN acknowledges them as it always does.
 */
function takeWriteReceipt(q: Requester, psn: number, nowUs: number): boolean {
  const firstPsn = q.paeth.firstPsn
  const range = psnDistance(q.paeth.lastPsn, firstPsn)
  if (!onItsWay(q, q.paeth.lastPsn)) return false
  const lastPlace = requestPlaceOf(q, q.paeth.lastPsn)
  let told = 0
  for (let i = q.unacked; i <= lastPlace; i++) {
    const request = requestAt(q, i)
    if (request.kind !== WRITE && request.kind !== WRITE_IMM) continue
    if (psnDistance(request.lastPsn, firstPsn) > range) continue
    noteReceipt(q, request)
    told++
  }
  if (told > 0 && onItsWay(q, psn)) acknowledge(q, psn, nowUs)
  return told > 0
}

/** What became of an operation of this client, on this connection or an earlier one. */
function takeQueryAnswer(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): boolean {
  const paeth = q.paeth
  const { psn } = packet
  const place = onItsWay(q, psn) ? requestPlaceOf(q, psn) : -1
  const request = place < 0 ? null : requestAt(q, place)
  if (request === null || request.kind !== PERSIST_QUERY) return false
  const isBatch = request.batchId !== NO_BATCH
  if (isBatch) {
    if (!aboutBatch(q, request, bytes, packet)) return false
  } else if (!paeth.cumulative) {
    if (request.operationHigh !== paeth.operationHigh) return false
    if (request.operationLow !== paeth.operationLow) return false
  }
  if (!reach(q, place, nowUs)) return true
  noteReceipt(q, request)
  request.resultHigh = paeth.operationHigh
  request.resultLow = paeth.operationLow
  request.cumulative = paeth.cumulative
  const known = isBatch || paeth.status === STATUS_DURABLE || paeth.status === QUERY_NOT_KNOWN
  q.counts.otherResponses++
  answered(q, request, known ? 'SUCCESS' : 'GENERAL_ERR', nowUs)
  return true
}

// ---- batches -----------------------------------------------------------------------------------

/**
 * The one status of a batch: every record of it up to the PSN of the status is durable or refused,
 * as its bit says. Only the first refusal has its reason with it; of the others it is not told, and
 * they may be sent again (P4-9).
 */
function takeBatchStatus(q: Requester, bytes: Uint8Array, packet: Packet, nowUs: number): boolean {
  const { paeth, bitmap } = q
  const lastPlace = lastCovered(q, paeth.lastPsn)
  if (lastPlace < 0 || !takeBitmap(q, bytes, packet)) return false
  const firstRefused = lowestRefused(q, lastPlace)
  // A refusal has a reason. A reason needs no refusal: what was refused may be durable since long.
  if (firstRefused >= 0 && paeth.status === STATUS_DURABLE) return false
  if (onItsWay(q, packet.psn)) acknowledge(q, packet.psn, nowUs)
  for (let i = q.head; i <= lastPlace && !q.failed; i++) {
    const request = requestAt(q, i)
    if (!isCovered(q, request)) continue
    if (!request.received) setReceived(q, request, nowUs)
    if (isInBitmap(bitmap, request.batchIndex)) {
      request.copies = paeth.copies
      request.mechanism = paeth.mechanism
      resolveRequest(q, request, 'SUCCESS')
    } else {
      request.refusal = request.batchIndex === firstRefused ? paeth.status : NOT_TOLD
      resolveRequest(q, request, 'GENERAL_ERR')
    }
  }
  release(q)
  return true
}

/**
 * Does the answer tell of the batch that the query asks about? It says what is durable of it, and
 * why something is not; of another one than the last of the connection nothing is known.
 */
function aboutBatch(q: Requester, request: Request, bytes: Uint8Array, packet: Packet): boolean {
  if (q.paeth.batch) {
    return q.paeth.batchId === request.batchId && takeBitmap(q, bytes, packet)
  }
  q.bitmap.fill(0)
  return q.paeth.status === QUERY_NOT_KNOWN
}

/** Is it an unresolved record of the batch that the PERSIST_ACK names: same id, same operations? */
function isCovered(q: Requester, request: Request): boolean {
  const paeth = q.paeth
  if (request.done || !isBatchMember(request) || request.batchId !== paeth.batchId) return false
  if (request.batchCount !== paeth.batchCount) return false
  const low = paeth.operationLow + request.batchIndex
  if (request.operationLow !== low >>> 0) return false
  const high = paeth.operationHigh + (low > 0xffffffff ? 1 : 0)
  return request.operationHigh === high >>> 0
}

/** Place of the last record that a status at `psn` covers: only what was sent is answered. */
function lastCovered(q: Requester, psn: number): number {
  let found = -1
  if (!psnBehind(psn, q.highPsn)) return found
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (psnBehind(psn, request.lastPsn)) break
    if (isCovered(q, request)) found = i
  }
  return found
}

/** Reads the bitmap: a bit for every record of the batch. With "all" it needs none. */
function takeBitmap(q: Requester, bytes: Uint8Array, packet: Packet): boolean {
  const { all, batchCount } = q.paeth
  const words = q.paeth.bitmapWords
  if (words > BITMAP_WORDS_MAX || packet.payloadLength < 4 * words) return false
  if (!all && words < bitmapWords(batchCount)) return false
  readBitmap(q.bitmap, bytes, packet.payloadAt, words)
  for (let i = 0; all && i < batchCount; i++) setInBitmap(q.bitmap, i)
  return true
}

/** The lowest index that the status covers and calls refused; -1 where every record is durable. */
function lowestRefused(q: Requester, lastPlace: number): number {
  for (let i = q.head; i <= lastPlace; i++) {
    const request = requestAt(q, i)
    const { batchIndex } = request
    if (isCovered(q, request) && !isInBitmap(q.bitmap, batchIndex)) return batchIndex
  }
  return -1
}

function noteReceipt(q: Requester, request: Request): void {
  request.copies = q.paeth.copies
  request.mechanism = q.paeth.mechanism
  request.refusal = q.paeth.status
}
