// hot path
/**
 * The requester: the send queue of one reliable connection, without I/O and without a clock.
 *
 * What always holds:
 * - `head <= unacked <= cursor <= tail` for the places in the queue, and the same order for the
 *   PSNs that belong to them. Packets from `unackedPsn` up to `highPsn` are on their way; a
 *   response to any other PSN is a ghost: it is counted and changes nothing (wire-format 3.5).
 * - Nothing is durable by PSN alone. A persist completes only on a PERSIST_ACK of this connection's
 *   incarnation that names the operation of the record at the end of its range (D-5, D-6).
 * - A READ completes only by its data, in order. Whatever is answered beyond a READ that still
 *   waits tells that its response was lost (implied NAK, wire-format 3.8).
 * - A packet keeps its PSN for ever. Going back, asking again for a lost PERSIST_ACK and the end of
 *   a half-sent message all send the same packet under the same PSN, so the responder can tell a
 *   repetition from a new request and never executes one twice.
 *
 * The queue knows no payload: it asks `emit` for packet `index` of a request. For a READ the index
 * counts path MTUs that are here already, so that a repeated READ asks only for the rest.
 *
 * This file sends and keeps the queue; `completer.ts` takes the responses. A hook may post; it must
 * not call `pump`, `tick` or `takeResponse`, and a packet given to `emit` must not be answered
 * before `emit` returns.
 */

import { REMEMBERED_RECORDS } from '../limits.ts'
import { type Aeth, blankAeth } from '../wire/aeth.ts'
import { blankPaeth, type Paeth } from '../wire/persist-ack.ts'
import { packetsOf, psnAdd, psnDistance } from './psn.ts'

/** What a request does. */
export const WRITE_PERSIST = 1
export const READ = 2
export type RequestKind = typeof WRITE_PERSIST | typeof READ

/** How a request ended, in the words of `ibv_wc_status`. */
export type WcStatus =
  | 'SUCCESS'
  | 'WR_FLUSH_ERR' // the queue was torn down before this one was resolved: outcome unknown
  | 'REM_INV_REQ_ERR' // NAK 0x61
  | 'REM_ACCESS_ERR' // NAK 0x62
  | 'REM_OP_ERR' // NAK 0x63
  | 'RETRY_EXC_ERR' // no acknowledgement after every try
  | 'RNR_RETRY_EXC_ERR' // the responder stayed not ready
  | 'RESP_TIMEOUT_ERR' // received, but no word about its durability after every try
  | 'GENERAL_ERR' // refused by a PERSIST_ACK; `refusal` holds its status

/** One request. The record belongs to the queue and is used again after `complete`. */
export interface Request {
  /** The owner's number for it; the queue never looks at it. */
  tag: number
  kind: RequestKind
  /** Bytes sent by a persist, or asked for by a READ. */
  length: number
  packetCount: number
  firstPsn: number
  lastPsn: number
  operationHigh: number
  operationLow: number
  /** The responder has all of it; for a persist that is not durability. */
  received: boolean
  done: boolean
  status: WcStatus
  /** Status of the PERSIST_ACK that refused it, else 0. */
  refusal: number
  /** Durable copies and what made them durable, as the PERSIST_ACK said. */
  copies: number
  mechanism: number
  /** When its PERSIST_ACK is asked for again, µs, and how often that was done. */
  persistAtUs: number
  persistTries: number
  /** A READ that counts against `readDepth`. */
  readOut: boolean
}

/** What the owner of the queue supplies. None of these may throw. */
export interface RequesterHooks {
  /** Sends packet `index` of the request. */
  emit(request: Request, index: number, psn: number, ackRequest: boolean): void
  /** The responder has the whole request; comes once, before `complete`. */
  received(request: Request): void
  /** `length` bytes at `at` belong at `offset` of what the READ asked for. */
  data(request: Request, offset: number, bytes: Uint8Array, at: number, length: number): void
  /** The request has ended; copy what is wanted, the record is used again. */
  complete(request: Request): void
}

export interface RequesterOptions {
  /** PSN of the first packet: what the responder expects. */
  readonly firstPsn: number
  /** Payload bytes of a full packet: 256 to 4096. */
  readonly pathMtu: number
  /** Incarnation of the responder that this connection belongs to. */
  readonly incarnation: number
  /** PSNs that may be unacknowledged at once, 1 to 128. */
  readonly window?: number
  /** Requests that may be unresolved at once. */
  readonly depth?: number
  /** READs that may be unanswered at once: the responder's depth. */
  readonly readDepth?: number
  /** Local ACK timeout code t: 4.096 µs * 2^t, 0 is never (IBTA 9.9.2). */
  readonly ackTimeoutCode?: number
  /** Tries after the first one, without any progress between them. */
  readonly retryCount?: number
  /** Tries after an RNR NAK; 7 is without end. */
  readonly rnrRetryCount?: number
  /** How long a received record may go without a PERSIST_ACK before it is asked for again, µs. */
  readonly persistTimeoutUs?: number
  readonly persistRetryCount?: number
}

/** What the queue has counted. */
export interface RequesterCounts {
  packets: number
  retransmissions: number
  acks: number
  persistAcks: number
  readResponses: number
  timeouts: number
  sequenceNaks: number
  rnrNaks: number
  impliedNaks: number
  /** Records asked for again because their PERSIST_ACK did not come. */
  persistRepeats: number
  /** Responses that answer nothing that waits: old, foreign or forged. */
  ghosts: number
}

export interface Requester {
  readonly hooks: RequesterHooks
  readonly pathMtu: number
  readonly incarnation: number
  readonly window: number
  readonly depth: number
  readonly readDepth: number
  readonly ackTimeoutUs: number
  readonly retryCount: number
  readonly rnrRetryCount: number
  readonly persistTimeoutUs: number
  readonly persistRetryCount: number
  readonly counts: RequesterCounts
  readonly ring: readonly Request[]
  readonly aeth: Aeth
  readonly paeth: Paeth
  /** Nothing is sent or taken any more; every request was completed. */
  failed: boolean
  /** Places, free-running: oldest unresolved, oldest unacknowledged, next to send, next free. */
  head: number
  unacked: number
  cursor: number
  tail: number
  /** First PSN not acknowledged; next to send; one past the highest ever sent; next to give out. */
  unackedPsn: number
  cursorPsn: number
  highPsn: number
  nextPsn: number
  /** Packets since the last AckReq, READs on their way. */
  sinceAck: number
  readsOut: number
  /** Absolute, µs; Infinity is not running. */
  ackTimerUs: number
  rnrUntilUs: number
  tries: number
  rnrTries: number
  /** The PSN that a NAK made us go back to since there was progress, or -1. */
  rewoundPsn: number
}

export function createRequester(options: RequesterOptions, hooks: RequesterHooks): Requester {
  const depth = options.depth ?? 128
  const code = options.ackTimeoutCode ?? 14
  const ring: Request[] = []
  for (let i = 0; i < depth; i++) ring.push(blankRequest())
  return {
    hooks,
    pathMtu: options.pathMtu,
    incarnation: options.incarnation,
    window: options.window ?? 128,
    depth,
    readDepth: options.readDepth ?? 16,
    ackTimeoutUs: code === 0 ? Infinity : 4.096 * 2 ** code,
    retryCount: options.retryCount ?? 7,
    rnrRetryCount: options.rnrRetryCount ?? 7,
    persistTimeoutUs: options.persistTimeoutUs ?? 200_000,
    persistRetryCount: options.persistRetryCount ?? 7,
    counts: blankCounts(),
    ring,
    aeth: blankAeth(),
    paeth: blankPaeth(),
    failed: false,
    head: 0,
    unacked: 0,
    cursor: 0,
    tail: 0,
    unackedPsn: options.firstPsn,
    cursorPsn: options.firstPsn,
    highPsn: options.firstPsn,
    nextPsn: options.firstPsn,
    sinceAck: 0,
    readsOut: 0,
    ackTimerUs: Infinity,
    rnrUntilUs: 0,
    tries: 0,
    rnrTries: 0,
    rewoundPsn: -1,
  }
}

function blankRequest(): Request {
  return {
    tag: 0,
    kind: WRITE_PERSIST,
    length: 0,
    packetCount: 1,
    firstPsn: 0,
    lastPsn: 0,
    operationHigh: 0,
    operationLow: 0,
    received: false,
    done: true,
    status: 'SUCCESS',
    refusal: 0,
    copies: 0,
    mechanism: 0,
    persistAtUs: Infinity,
    persistTries: 0,
    readOut: false,
  }
}

export function blankCounts(): RequesterCounts {
  return {
    packets: 0,
    retransmissions: 0,
    acks: 0,
    persistAcks: 0,
    readResponses: 0,
    timeouts: 0,
    sequenceNaks: 0,
    rnrNaks: 0,
    impliedNaks: 0,
    persistRepeats: 0,
    ghosts: 0,
  }
}

/** The request at a place of the queue. */
export function requestAt(q: Requester, place: number): Request {
  return q.ring[place % q.depth]!
}

// ---- posting and sending -----------------------------------------------------------------------

/** Whether `post` would take another request. */
export function hasRoom(q: Requester): boolean {
  return !q.failed && q.tail - q.head < q.depth
}

/**
 * Puts a request of `length` bytes at the end of the queue; `pump` sends it. For a persist `length`
 * counts the payload, and the operation id is what its PERSIST_ACK must name. Returns null, and
 * does nothing, where `hasRoom` says no.
 */
export function post(
  q: Requester,
  kind: RequestKind,
  tag: number,
  length: number,
  operationHigh: number,
  operationLow: number,
): Request | null {
  if (!hasRoom(q)) return null
  const request = requestAt(q, q.tail)
  request.tag = tag
  request.kind = kind
  request.length = length
  request.packetCount = packetsOf(length, q.pathMtu)
  request.firstPsn = q.nextPsn
  request.lastPsn = psnAdd(q.nextPsn, request.packetCount - 1)
  request.operationHigh = operationHigh
  request.operationLow = operationLow
  request.received = false
  request.done = false
  request.status = 'SUCCESS'
  request.refusal = 0
  request.copies = 0
  request.mechanism = 0
  request.persistAtUs = Infinity
  request.persistTries = 0
  request.readOut = false
  q.nextPsn = psnAdd(q.nextPsn, request.packetCount)
  q.tail++
  return request
}

/** Sends what the window lets out. To be called after posting, responses and ticks. */
export function pump(q: Requester, nowUs: number): void {
  while (!q.failed && q.cursor !== q.tail && nowUs >= q.rnrUntilUs) {
    const request = requestAt(q, q.cursor)
    const index = psnDistance(q.cursorPsn, request.firstPsn)
    const psnCount = request.kind === READ ? request.packetCount - index : 1
    if (!windowAllows(q, request, psnCount)) return
    const psn = q.cursorPsn
    const last = index + psnCount === request.packetCount
    const ackRequest = request.kind !== READ && (last || q.sinceAck + 1 >= q.window >> 1)
    q.counts.packets++
    if (psnDistance(psn, q.unackedPsn) < psnDistance(q.highPsn, q.unackedPsn)) {
      q.counts.retransmissions++
    }
    q.sinceAck = ackRequest ? 0 : q.sinceAck + 1
    q.cursorPsn = psnAdd(psn, psnCount)
    if (last) q.cursor++
    if (psnDistance(q.cursorPsn, q.unackedPsn) > psnDistance(q.highPsn, q.unackedPsn)) {
      q.highPsn = q.cursorPsn
    }
    if (request.kind === READ) {
      request.readOut = true
      q.readsOut++
    }
    if (q.ackTimerUs === Infinity) q.ackTimerUs = nowUs + q.ackTimeoutUs
    q.hooks.emit(request, index, psn, ackRequest)
  }
}

/**
 * A READ longer than the window goes out alone: its responses are the responder's to pace. And no
 * record ends so far behind one that is still unresolved that the responder would forget the older.
 */
function windowAllows(q: Requester, request: Request, psnCount: number): boolean {
  if (request.kind === READ && q.readsOut >= q.readDepth) return false
  const oldest = requestAt(q, q.head)
  if (psnDistance(request.lastPsn, oldest.lastPsn) >= REMEMBERED_RECORDS) return false
  const out = psnDistance(q.cursorPsn, q.unackedPsn)
  return out === 0 || out + psnCount <= q.window
}

/** Goes back to the oldest unacknowledged packet; PSNs stay what they were. */
export function rewind(q: Requester): void {
  for (let i = q.unacked; i <= q.cursor && i < q.tail; i++) requestAt(q, i).readOut = false
  q.readsOut = 0
  q.cursor = q.unacked
  q.cursorPsn = q.unackedPsn
}

// ---- time --------------------------------------------------------------------------------------

/** When `tick` wants to be called next, µs; Infinity is never. */
export function nextTimerUs(q: Requester): number {
  if (q.failed) return Infinity
  let at = q.ackTimerUs
  if (q.rnrUntilUs > 0 && q.rnrUntilUs < at) at = q.rnrUntilUs
  for (let i = q.head; i < q.unacked; i++) {
    const request = requestAt(q, i)
    if (!request.done && request.persistAtUs < at) at = request.persistAtUs
  }
  return at
}

/** Lets time pass: timeouts, the end of an RNR wait, PERSIST_ACKs that did not come. */
export function tick(q: Requester, nowUs: number): void {
  if (q.failed) return
  if (q.rnrUntilUs > 0 && nowUs >= q.rnrUntilUs) {
    q.rnrUntilUs = 0
    q.ackTimerUs = nowUs + q.ackTimeoutUs
  }
  if (nowUs >= q.ackTimerUs) timeout(q, nowUs)
  if (!q.failed) askAgain(q, nowUs)
  pump(q, nowUs)
}

function timeout(q: Requester, nowUs: number): void {
  q.counts.timeouts++
  q.tries++
  if (q.tries > q.retryCount) {
    fail(q, q.unacked, 'RETRY_EXC_ERR')
    return
  }
  q.ackTimerUs = nowUs + q.ackTimeoutUs
  q.rewoundPsn = -1
  rewind(q)
}

/** Sends again, under its own PSNs, every record whose PERSIST_ACK is overdue (G2-3). */
function askAgain(q: Requester, nowUs: number): void {
  for (let i = q.head; i < q.unacked; i++) {
    const request = requestAt(q, i)
    if (request.done || nowUs < request.persistAtUs) continue
    if (request.persistTries >= q.persistRetryCount) {
      fail(q, i, 'RESP_TIMEOUT_ERR')
      return
    }
    // Each wait is longer, so that a part that is merely slow is not asked ever more.
    request.persistTries++
    request.persistAtUs = nowUs + q.persistTimeoutUs * (request.persistTries + 1)
    q.counts.persistRepeats++
    const count = request.packetCount
    for (let index = 0; index < count && !request.done; index++) {
      q.counts.packets++
      q.counts.retransmissions++
      q.hooks.emit(request, index, psnAdd(request.firstPsn, index), index === count - 1)
    }
  }
}

// ---- ends --------------------------------------------------------------------------------------

/** Resolves one request. */
export function complete(q: Requester, request: Request, status: WcStatus): void {
  request.done = true
  request.status = status
  q.hooks.complete(request)
}

/** Frees the places of what is resolved and can no longer be asked for. */
export function release(q: Requester): void {
  while (q.head < q.unacked && requestAt(q, q.head).done) q.head++
}

/** The connection is broken: one request says why, the others are flushed, in order. */
export function fail(q: Requester, place: number, status: WcStatus): void {
  if (q.failed) return
  q.failed = true
  q.ackTimerUs = Infinity
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (!request.done) complete(q, request, i === place ? status : 'WR_FLUSH_ERR')
  }
}

/** Tears the queue down: everything unresolved ends as WR_FLUSH_ERR. */
export function flush(q: Requester): void {
  fail(q, -1, 'WR_FLUSH_ERR')
}

/** Requests that are not resolved yet. */
export function unresolved(q: Requester): number {
  let count = 0
  for (let i = q.head; i < q.tail; i++) if (!requestAt(q, i).done) count++
  return count
}
