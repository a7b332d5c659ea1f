// hot path
/**
 * The requester: the send queue of one reliable connection, without I/O and without a clock.
 *
 * Invariants:
 * - `head <= unacked <= cursor <= tail` for the places in the queue, and the same order for the
 *   PSNs that belong to them. Packets from `unackedPsn` up to `highPsn` are on their way; a
 *   response to any other PSN is a ghost: it is counted and changes nothing (wire-format 3.5).
 * - Nothing is durable by PSN alone. A persist completes only on a PERSIST_ACK of this connection's
 *   incarnation that names the operation of the record at the end of its range (D-5, D-6).
 * - Records of a batch complete together, by the one status that names the batch and its first
 *   operation (P4-8), never by an answer to one record: what the status covers are the members up
 *   to its PSN, and each is durable or not by its bit. One burst of a batch is on its way at once,
 *   for the responder repeats the status of the last one only.
 * - A request that wants a response of its own (`isOrdered`) completes only by that response, in
 *   order. Whatever is answered beyond one that still waits tells that its response was lost
 *   (implied NAK, wire-format 3.8).
 * - A packet keeps its PSN permanently. Going back, asking again for a lost PERSIST_ACK and the end
 *   of a half-sent message all send the same packet under the same PSN, so the responder can tell a
 *   repetition from a new request and never executes one twice.
 *
 * The queue knows no payload: it asks `emit` for packet `index` of a request. For a READ the index
 * counts path MTUs that are here already, so that a repeated READ asks only for the rest.
 *
 * This file keeps the queue; `sender.ts` sends and lets time pass, `completer.ts` takes the
 * responses. A hook may post; it must not call `pump`, `tick` or `takeResponse`, and a packet given
 * to `emit` must not be answered before `emit` returns.
 */

import { type Aeth, blankAeth } from '../wire/aeth.ts'
import { type AtomicAck, blankAtomicAck } from '../wire/atomic.ts'
import { type Bseth, blankBseth } from '../wire/block-size.ts'
import type { Pweth } from '../wire/persist.ts'
import { BITMAP_WORDS_MAX, blankPaeth, type Paeth } from '../wire/persist-ack.ts'
import { packetsOf, psnAdd } from './psn.ts'

/** What a request does: messages, acknowledged by their last PSN. */
export const WRITE_PERSIST = 1
export const WRITE = 2
export const WRITE_IMM = 3
export const SEND = 4
export const SEND_IMM = 5
export const SEND_INV = 6
/** Requests with a response of their own. From here to BLOCK_SIZE a kind is ordered. */
export const READ = 7
export const FETCH_ADD = 8
export const COMPARE_SWAP = 9
export const FLUSH = 10
export const ATOMIC_WRITE = 11
export const PERSIST_QUERY = 12
export const ASSOCIATE = 13
export const BLOCK_SIZE = 14
/** Messages again. */
export const PREFETCH_HINT = 15
export const MEMORY_STATUS = 16
export type RequestKind = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12 | 13 | 14 | 15 | 16

/** Does a request of that kind complete only by a response of its own? */
export function isOrdered(kind: RequestKind): boolean {
  return kind >= READ && kind <= BLOCK_SIZE
}

/**
 * Does it count against the responder's depth, and does a fence wait for it? Queries, and questions
 * about the residency of memory, are answered from what is known, and need nothing kept.
 */
export function needsDepth(kind: RequestKind): boolean {
  return kind >= READ && kind < PERSIST_QUERY
}

/** Does it take a receive of the responder? */
export function takesReceive(kind: RequestKind): boolean {
  return kind >= WRITE_IMM && kind <= SEND_INV
}

/** The batch of a request that belongs to none. */
export const NO_BATCH = -1

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

/** What a completion is of, in the words of `ibv_wc_opcode`; ours have names of their own. */
export const WC_OPCODES: readonly string[] = [
  '',
  'PERSIST',
  'RDMA_WRITE',
  'RDMA_WRITE',
  'SEND',
  'SEND',
  'SEND',
  'RDMA_READ',
  'FETCH_ADD',
  'COMP_SWAP',
  'FLUSH',
  'ATOMIC_WRITE',
  'PERSIST_QUERY',
  'ASSOCIATE',
  'BLOCK_SIZE',
  'PREFETCH_HINT',
  'MEMORY_STATUS',
]

/** One request. The record belongs to the queue and is used again after `complete`. */
export interface Request {
  /** The owner's number for it; the queue never looks at it. */
  tag: number
  kind: RequestKind
  /** Bytes sent by a message, or asked for by a READ; 0 of the others. */
  length: number
  packetCount: number
  firstPsn: number
  lastPsn: number
  operationHigh: number
  operationLow: number
  /** Waits until everything ordered before it is answered. */
  fenced: boolean
  /** The queue's own READ behind a FLUSH towards Linux: no hook but `emit` hears of it. */
  escape: boolean
  /**
   * Id of the batch that it is a record of, or that a query asks about, or NO_BATCH. The answer to
   * such a query leaves its bitmap in the queue, for as long as `complete` is called.
   */
  batchId: number
  batchIndex: number
  batchCount: number
  /** The last of its batch, or of what is sent of it again: the one status comes behind it. */
  lastOfBatch: boolean
  /** The responder has all of it; for a persist that is not durability. */
  received: boolean
  done: boolean
  status: WcStatus
  /** Status of the PERSIST_ACK that refused it or answered the query, else 0. */
  refusal: number
  /** Durable copies and what made them durable, as the PERSIST_ACK said; else 0. */
  copies: number
  mechanism: number
  /** What an atomic found, or the operation id in the answer to a query. */
  resultHigh: number
  resultLow: number
  /** Every operation up to the one in the answer to the query is durable. */
  cumulative: boolean
  /** What was answered to an ASSOCIATE or BLOCK_SIZE; means nothing of other kinds. */
  readonly size: Bseth
  /** When its PERSIST_ACK is asked for again, µs, and how often that was done. */
  persistAtUs: number
  persistTries: number
  /** It is on its way and counts against `readDepth`, or against `sendDepth`. */
  out: boolean
}

/** What the owner of the queue supplies. None of these may throw. */
interface RequesterHooks {
  /** Sends packet `index` of the request. An escape READ has length 0 and the tag of its FLUSH. */
  emit(request: Request, index: number, psn: number, ackRequest: boolean): void
  /** The responder has the whole record of a persist; comes once, before `complete`. */
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
  /** Requests that may be unresolved at once, 2 or more. */
  readonly depth?: number
  /** Ordered requests that may be unanswered at once: the responder's depth, 1 or more. */
  readonly readDepth?: number
  /** Messages that take a receive and may be unacknowledged at once, 1 or more; any number if 0. */
  readonly sendDepth?: number
  /** Local ACK timeout code t: 4.096 µs * 2^t, 0 is never (IBTA 9.9.2). */
  readonly ackTimeoutCode?: number
  /** Tries after the first one, without any progress between them. */
  readonly retryCount?: number
  /** Tries after an RNR NAK; 7 is without end. */
  readonly rnrRetryCount?: number
  /** How long RNR NAKs are borne without any progress between them, µs; permanently if absent. */
  readonly rnrPatienceUs?: number
  /** How long a received record may go without a PERSIST_ACK before it is asked for again, µs. */
  readonly persistTimeoutUs?: number
  readonly persistRetryCount?: number
  /**
   * The peer is Linux, which ignores a repeated FLUSH: each is followed by a READ of no bytes,
   * whose response proves that the FLUSH was executed (wire-format 6.5).
   */
  readonly linuxPeer?: boolean
}

/** What the queue has counted. */
export interface RequesterCounts {
  packets: number
  retransmissions: number
  acks: number
  persistAcks: number
  readResponses: number
  /** Answers to atomics, FLUSH, ATOMIC WRITE and queries. */
  otherResponses: number
  timeouts: number
  sequenceNaks: number
  rnrNaks: number
  impliedNaks: number
  /** Records asked for again because their PERSIST_ACK did not come. */
  persistRepeats: number
  /** Congestion notifications, and how often one narrowed the window. */
  congestions: number
  windowCuts: number
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
  readonly sendDepth: number
  readonly ackTimeoutUs: number
  readonly retryCount: number
  readonly rnrRetryCount: number
  readonly rnrPatienceUs: number
  readonly persistTimeoutUs: number
  readonly persistRetryCount: number
  readonly linuxPeer: boolean
  readonly counts: RequesterCounts
  readonly ring: Request[]
  readonly aeth: Aeth
  readonly paeth: Paeth
  readonly atomicAck: AtomicAck
  /** Of the last answer about a batch: which of its records are durable (wire/persist-ack.ts). */
  readonly bitmap: Uint32Array
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
  /** Packets since the last one that asks for an answer; requests that count against each depth. */
  sinceAck: number
  readsOut: number
  sendsOut: number
  /** Place of the last record that ended a burst of a batch, -1 before the first. */
  batchBurstEnd: number
  /** No record before this place will be asked for again by itself. */
  asked: number
  /** PSNs that congestion leaves of the window, and those acknowledged towards one more. */
  openWindow: number
  regained: number
  /** No congestion notification narrows the window again before this, µs. */
  cutAgainUs: number
  /** Absolute, µs; Infinity is not running. */
  ackTimerUs: number
  rnrUntilUs: number
  tries: number
  rnrTries: number
  /** When the first RNR NAK came since there was progress, µs. */
  rnrSinceUs: number
  /** The PSN that a NAK made us go back to since there was progress, or -1. */
  rewoundPsn: number
}

export function createRequester(options: RequesterOptions, hooks: RequesterHooks): Requester {
  const depth = options.depth ?? 128
  const window = options.window ?? 128
  const code = options.ackTimeoutCode ?? 14
  const ring: Request[] = []
  for (let i = 0; i < depth; i++) ring.push(blankRequest())
  return {
    hooks,
    pathMtu: options.pathMtu,
    incarnation: options.incarnation,
    window,
    depth,
    // A responder that grants none says so itself, by a NAK; with none here nothing would ever go.
    readDepth: Math.max(1, options.readDepth ?? 16),
    sendDepth: options.sendDepth || Infinity,
    ackTimeoutUs: code === 0 ? Infinity : 4.096 * 2 ** code,
    retryCount: options.retryCount ?? 7,
    rnrRetryCount: options.rnrRetryCount ?? 7,
    rnrPatienceUs: options.rnrPatienceUs ?? Infinity,
    persistTimeoutUs: options.persistTimeoutUs ?? 200_000,
    persistRetryCount: options.persistRetryCount ?? 7,
    linuxPeer: options.linuxPeer ?? false,
    counts: blankCounts(),
    ring,
    aeth: blankAeth(),
    paeth: blankPaeth(),
    atomicAck: blankAtomicAck(),
    bitmap: new Uint32Array(BITMAP_WORDS_MAX),
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
    sendsOut: 0,
    batchBurstEnd: -1,
    asked: 0,
    openWindow: window,
    regained: 0,
    cutAgainUs: 0,
    ackTimerUs: Infinity,
    rnrUntilUs: 0,
    tries: 0,
    rnrTries: 0,
    rnrSinceUs: 0,
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
    fenced: false,
    escape: false,
    batchId: NO_BATCH,
    batchIndex: 0,
    batchCount: 1,
    lastOfBatch: false,
    received: false,
    done: true,
    status: 'SUCCESS',
    refusal: 0,
    copies: 0,
    mechanism: 0,
    resultHigh: 0,
    resultLow: 0,
    cumulative: false,
    size: blankBseth(),
    persistAtUs: Infinity,
    persistTries: 0,
    out: false,
  }
}

export function blankCounts(): RequesterCounts {
  return {
    packets: 0,
    retransmissions: 0,
    acks: 0,
    persistAcks: 0,
    readResponses: 0,
    otherResponses: 0,
    timeouts: 0,
    sequenceNaks: 0,
    rnrNaks: 0,
    impliedNaks: 0,
    persistRepeats: 0,
    congestions: 0,
    windowCuts: 0,
    ghosts: 0,
  }
}

/** The request at a place of the queue. */
export function requestAt(q: Requester, place: number): Request {
  return q.ring[place % q.depth]!
}

// ---- posting -----------------------------------------------------------------------------------

/** Requests that `post` takes now, of whatever kind. */
export function room(q: Requester): number {
  if (q.failed) return 0
  const places = q.depth - (q.tail - q.head)
  return q.linuxPeer ? places >> 1 : places
}

/** Whether `post` would take another request. */
export function hasRoom(q: Requester): boolean {
  return room(q) > 0
}

/**
 * Puts a request of `length` bytes at the end of the queue; `pump` sends it. For a message `length`
 * counts the payload, for a READ what it brings; it is 0 for every other kind. The operation id is
 * what the PERSIST_ACK of a persist must name, and what a query asks about. Returns null, and does
 * nothing, where `hasRoom` says no. The owner may set `fenced` in what it gets, and `joinBatch`,
 * before `pump`.
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
  const request = appendRequest(q, kind, tag, length)
  request.operationHigh = operationHigh
  request.operationLow = operationLow
  if (kind === FLUSH && q.linuxPeer) appendRequest(q, READ, tag, 0).escape = true
  return request
}

function appendRequest(q: Requester, kind: RequestKind, tag: number, length: number): Request {
  const request = requestAt(q, q.tail)
  request.tag = tag
  request.kind = kind
  request.length = length
  request.packetCount = packetsOf(length, q.pathMtu)
  request.firstPsn = q.nextPsn
  request.lastPsn = psnAdd(q.nextPsn, request.packetCount - 1)
  request.operationHigh = 0
  request.operationLow = 0
  request.fenced = false
  request.escape = false
  request.batchId = NO_BATCH
  request.batchIndex = 0
  request.batchCount = 1
  request.lastOfBatch = false
  request.received = false
  request.done = false
  request.status = 'SUCCESS'
  request.refusal = 0
  request.copies = 0
  request.mechanism = 0
  request.resultHigh = 0
  request.resultLow = 0
  request.cumulative = false
  request.persistAtUs = Infinity
  request.persistTries = 0
  request.out = false
  q.nextPsn = psnAdd(q.nextPsn, request.packetCount)
  q.tail++
  return request
}

/**
 * Makes a persist a record of the batch that its header names. The records of a burst are posted in
 * their order, up to the one that ends it.
 */
export function joinBatch(request: Request, pweth: Pweth): void {
  if (!pweth.batch) return
  request.batchId = pweth.batchId
  request.batchIndex = pweth.batchIndex
  request.batchCount = pweth.batchCount
  request.lastOfBatch = pweth.lastOfBatch
}

/** A record that is answered by the status of its batch, and not by what comes for its own PSN. */
export function isBatchMember(request: Request): boolean {
  return request.kind === WRITE_PERSIST && request.batchId !== NO_BATCH
}

/** A record of a batch that only waits for those behind it: nothing comes for it before. */
export function isCollectedMember(request: Request): boolean {
  return isBatchMember(request) && !request.lastOfBatch
}

/**
 * Takes `count` requests out again, from `place` on, the first of which `emit` was just called for
 * and could not make a packet of. Nothing was ever sent of them, nor of what is behind them, which
 * moves up. Nobody is told.
 */
export function withdraw(q: Requester, place: number, count: number): void {
  const first = requestAt(q, place)
  let psn = first.firstPsn
  freeDepth(q, first)
  // A burst begins when the one before has ended: no other is waited for.
  if (q.batchBurstEnd >= place) q.batchBurstEnd = -1
  q.counts.packets--
  q.cursor = place
  q.cursorPsn = psn
  q.highPsn = psn
  q.tail -= count
  for (let i = place; i < q.tail; i++) {
    const next = requestAt(q, i + count)
    q.ring[(i + count) % q.depth] = requestAt(q, i)
    q.ring[i % q.depth] = next
    next.firstPsn = psn
    next.lastPsn = psnAdd(psn, next.packetCount - 1)
    psn = psnAdd(psn, next.packetCount)
  }
  q.nextPsn = psn
  // Whether one that is on its way asks for an answer was not kept: the next one does.
  q.sinceAck = q.openWindow
  if (q.cursorPsn === q.unackedPsn) q.ackTimerUs = Infinity
}

/** It counts against no depth any more. */
export function freeDepth(q: Requester, request: Request): void {
  if (!request.out) return
  request.out = false
  if (takesReceive(request.kind)) q.sendsOut--
  else q.readsOut--
}

// ---- ends --------------------------------------------------------------------------------------

/** Resolves one request. */
export function resolveRequest(q: Requester, request: Request, status: WcStatus): void {
  request.done = true
  request.status = status
  if (!request.escape) q.hooks.complete(request)
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
  // Nobody hears of an escape READ: its FLUSH says why, or what comes next.
  let about = place
  if (place >= 0 && requestAt(q, place).escape) {
    const isOver = place === q.head || requestAt(q, place - 1).done
    about = isOver ? place + 1 : place - 1
  }
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (!request.done) resolveRequest(q, request, i === about ? status : 'WR_FLUSH_ERR')
  }
}

/** Tears the queue down: everything unresolved ends as WR_FLUSH_ERR. */
export function flushRequester(q: Requester): void {
  fail(q, -1, 'WR_FLUSH_ERR')
}

/** Requests that are not resolved yet. */
export function unresolved(q: Requester): number {
  let count = 0
  for (let i = q.head; i < q.tail; i++) {
    const request = requestAt(q, i)
    if (!request.done && !request.escape) count++
  }
  return count
}
