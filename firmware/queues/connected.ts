// hot path
/**
 * Elements of a connected queue: requests over the wire, by the requester that the firmware's own
 * requests go through (initiator.ts).
 *
 * Invariants:
 * - The bytes of an element are in a buffer before its request is posted, and stay there until it
 *   has ended: a repetition sends the same bytes, whatever the host has done to its own (H2).
 * - An element under way has one `Posting`, which ends once, with its request, also when the
 *   connection is over: then the first says why, and the others that they were flushed.
 * - Completions of a send queue come in the order of its elements, whatever the order of the
 *   answers.
 * - What a READ brings is stored into the host's memory as it comes, each byte in front of the
 *   completion that speaks of it; posted writes keep that order.
 * - Of a record in two steps (TWO_STEPS; source 2, flow 2) the completion of the send says that the
 *   peer has it, and never that it is durable (P2-21); that one is of a receive (P2-24), and waits
 *   for one where there is none (P2-25).
 */

import { assert } from '../board/assert.ts'
import { copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  CONNECTION_LOST,
  ELEMENT_LENGTH,
  type Fault,
  MEMORY_KEY,
  PASS,
  PERSIST_HEADER,
} from '../board/fault.ts'
import { COPIES_MAX, QUEUE_PAIRS } from '../board/limits.ts'
import type {
  BurstContext,
  QueueContext,
  QueueState,
  RefusalContext,
  ServeContext,
} from '../burst/context.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import { failHostQueue } from '../burst/queue-contexts.ts'
import { type Initiator, submit, takeWork, type Work, type WorkOwner } from '../burst/work.ts'
import {
  areCovered,
  bufferAt,
  findPieces,
  freeBuffer,
  gatherBytes,
  takeBuffer,
  writePieces,
} from '../engine/buffers.ts'
import { addResult, describeOutcome, freePosting } from '../engine/outcome.ts'
import { blankOut, complete, releaseCompletion } from '../host/completion.ts'
import { zone1Word } from '../host/context.ts'
import * as el from '../host/element.ts'
import type { Completion, Element } from '../host/host.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { Z1_QUEUE_PAIR } from '../host/queue-info.ts'
import { EXECUTED, type HostPair, type HostWork, type Posting, WAIT } from '../host/work.ts'
import type { TransportState } from '../transport/context.ts'
import { MESSAGE_BYTES_MAX } from '../transport/psn.ts'
import { STATE_OPEN } from '../transport/queue-pair.ts'
import {
  ASSOCIATE,
  ATOMIC_WRITE,
  BLOCK_SIZE,
  joinBatch,
  READ,
  type Request,
  type RequestKind,
  SEND,
  type WcStatus,
  WRITE_PERSIST,
} from '../transport/requester.ts'
import { ADDRESS_EXTENSION_BYTES } from '../wire/persist.ts'
import { readReth } from '../wire/reth.ts'
import {
  endBatchBurst,
  isContrary,
  isOfBatchBurst,
  lacksRoom,
  noteSentMember,
} from './batch-room.ts'
import { describeStatus, isVainHint, noteSize } from './status.ts'

const WORD_BYTES = 8

/** Numbers of `ibv_wc_status` by what the requester calls them. */
const STATUS: Readonly<Record<WcStatus, number>> = {
  SUCCESS: el.WC_SUCCESS,
  WR_FLUSH_ERR: el.WC_WR_FLUSH_ERR,
  REM_INV_REQ_ERR: el.WC_REM_INV_REQ_ERR,
  REM_ACCESS_ERR: el.WC_REM_ACCESS_ERR,
  REM_OP_ERR: el.WC_REM_OP_ERR,
  RETRY_EXC_ERR: el.WC_RETRY_EXC_ERR,
  RNR_RETRY_EXC_ERR: el.WC_RNR_RETRY_EXC_ERR,
  RESP_TIMEOUT_ERR: el.WC_RESP_TIMEOUT_ERR,
  GENERAL_ERR: el.WC_GENERAL_ERR,
}

/** Executes `host.element`. */
export function executeConnected(state: ServeContext): number {
  const { host, hostWork } = state
  const { element } = host
  const number = zone1Word(host, element.place, Z1_QUEUE_PAIR)
  const pair = hostWork.pairs[number & (QUEUE_PAIRS - 1)]!
  const { qp } = pair
  if (qp === null || qp.number !== number || !pair.ready) return CONNECTION_LOST
  const fault = requestFormFault(element)
  if (fault !== PASS) return fault
  if (!isPairOpen(state, pair)) {
    // It ends behind what was under way.
    hostWork.look = true
    return WAIT
  }
  const initiator = openInitiator(state, qp, pair)
  if (initiator === null || hostWork.freePostingCount === 0) return WAIT
  // What a fenced request sends may be what a READ before it brings: it is not fetched before. The
  // records of its own batch wait for it, so it does not for them.
  const fenced = (element.flags & el.FENCE) !== 0 && pair.under > pair.batchSent
  const waits = fenced || isContrary(pair, element)
  if (waits || lacksRoom(state, pair, initiator.requester, bytesSent(element))) {
    // The end of one that is under way makes room.
    pair.sendWaits = true
    return WAIT
  }
  const gathered = gatherPayload(state)
  if (gathered !== PASS) return gathered
  // A pass begins with an empty list, and composes nothing that a queue pair could fail by.
  assert(isPairOpen(state, pair), 'to gather refuses no queue pair')
  const work = takeWork(initiator)
  // Of a batch room was kept, but its requests may have failed in this very call.
  if (work === null) {
    freeBuffer(state, hostWork.buffer)
    return WAIT
  }
  if (isVainHint(state, pair, element)) spare(state, pair)
  else postElement(state, pair, initiator, work)
  return EXECUTED
}

/** Has something of the queue in that place not completed yet? Then it is tried again. */
export function isUntold(state: HostState & QueueState, place: number): boolean {
  const { host, hostWork } = state
  const number = zone1Word(host, place, Z1_QUEUE_PAIR)
  const pair = hostWork.pairs[number & (QUEUE_PAIRS - 1)]!
  if (pair.qp === null || pair.qp.number !== number || pair.untoldFirst < 0) return false
  pair.sendWaits = true
  return true
}

/** Is the queue pair still the one on the wire, and working? */
export function isPairOpen(state: TransportState, pair: HostPair): boolean {
  const { qp } = pair
  return qp !== null && qp.state === STATE_OPEN && state.queuePairs.places[qp.index] === qp
}

function bytesSent({ opcode, length }: Element): number {
  if (opcode < READ) return length
  return opcode === ATOMIC_WRITE ? WORD_BYTES : 0
}

/** What cannot be said on the wire. */
function requestFormFault(element: Element): Fault {
  const { opcode, length, flags, wait, furtherCopies } = element
  // What is associated, or hinted at, is no message.
  if (length > MESSAGE_BYTES_MAX && opcode < ASSOCIATE) return ELEMENT_LENGTH
  if (opcode !== WRITE_PERSIST) return PASS
  if (wait < 1 || wait > COPIES_MAX || furtherCopies >= COPIES_MAX) return PERSIST_HEADER
  const copies = (flags & el.CARRIED) === 0 ? 1 : furtherCopies + 1
  return length % copies === 0 ? PASS : ELEMENT_LENGTH
}

/** Brings what the request sends into a buffer: `hostWork.buffer`, or -1 if it sends nothing. */
function gatherPayload(state: BurstContext): number {
  const { hostWork, list } = state
  const { element } = state.host
  const { opcode } = element
  hostWork.buffer = -1
  const length = bytesSent(element)
  if (length === 0) return PASS
  const inline = (element.flags & el.INLINE) !== 0
  if (opcode !== ATOMIC_WRITE && !inline) return gatherBytes(state)
  const buffer = takeBuffer(state, length)
  if (buffer < 0) return WAIT
  const from = inline ? element.behindAt : element.at + el.WQE_OPERATION
  // The copy of the element is not fetched over before the list has run.
  copy(list, from, bufferAt(buffer), length)
  hostWork.buffer = buffer
  return PASS
}

/** The number of a posting for the element, which is under way from here on. */
function takePosting(state: HostState & QueueState, pair: HostPair): number {
  const { hostWork } = state
  hostWork.freePostingCount -= 1
  const item = hostWork.freePostings[hostWork.freePostingCount]!
  describePosting(state, pair, hostWork.postings[item]!)
  pair.under += 1
  pair.postings += 1
  expect(hostWork, pair, item)
  return item
}

/** It has ended without being sent, and completes in its turn. */
function spare(state: HostState & QueueState, pair: HostPair): void {
  const item = takePosting(state, pair)
  const posting = state.hostWork.postings[item]!
  posting.status = el.WC_SUCCESS
  posting.refusal = 0
  posting.copies = 0
  posting.mechanism = 0
  posting.psn = 0
  posting.resultHigh = 0
  posting.resultLow = 0
  posting.ended = true
  list(state.hostWork, item)
}

function postElement(
  state: HostContext & QueueState,
  pair: HostPair,
  initiator: Initiator,
  work: Work,
): void {
  const { hostWork } = state
  const { element } = state.host
  const item = takePosting(state, pair)
  const posting = hostWork.postings[item]!
  const opcode = sentKindOf(element)
  work.from = hostWork.buffer < 0 ? 0 : bufferAt(hostWork.buffer)
  work.length = bytesSent(element)
  work.immediate = element.immediate
  work.solicited = (element.flags & el.SOLICITED) !== 0
  work.extensionCount = 0
  aimRequest(work, element)
  if (opcode === READ) findPieces(state, posting.pieces)
  if (opcode === WRITE_PERSIST) describePersist(state, work, element)
  if (opcode >= ASSOCIATE) describeStatus(state, pair, work, posting)
  noteSentMember(hostWork, pair, element, posting)
  const request = submit(initiator, work, opcode as RequestKind, POSTINGS, item)
  request.fenced = (element.flags & el.FENCE) !== 0
  if (opcode === WRITE_PERSIST) joinBatch(request, work.pweth)
}

/** A message of a batch goes as its records do. */
function sentKindOf({ opcode, flags }: Element): number {
  return opcode === SEND && (flags & el.BATCH) !== 0 ? WRITE_PERSIST : opcode
}

function describePosting(state: HostState & QueueState, pair: HostPair, posting: Posting): void {
  const { element } = state.host
  posting.pair = pair
  posting.queue = element.queue
  posting.unit = element.unit
  posting.pointer = (element.unit + element.units) >>> 0
  posting.place = state.hostWork.place
  posting.opcode = element.opcode
  posting.flags = element.flags
  posting.length = element.length
  posting.operationHigh = element.operationHigh
  posting.operationLow = element.operationLow
  posting.addressHigh = element.addressHigh
  posting.addressLow = element.addressLow
  posting.buffer = state.hostWork.buffer
  posting.pieces.count = 0
  posting.revoked = false
  posting.received = false
  posting.receivedTold = false
  posting.ended = false
  posting.listed = false
  posting.next = -1
}

/** Where the request goes: RETH, AtomicETH and FETH; the operation of a record or a query. */
function aimRequest(work: Work, element: Element): void {
  const { reth, atomic, pweth } = work
  reth.vaHigh = element.addressHigh
  reth.vaLow = element.addressLow
  reth.rkey = element.rkey
  reth.length = element.opcode === ATOMIC_WRITE ? WORD_BYTES : element.length
  atomic.vaHigh = element.addressHigh
  atomic.vaLow = element.addressLow
  atomic.rkey = element.rkey
  atomic.swapHigh = element.operationHigh
  atomic.swapLow = element.operationLow
  atomic.compareHigh = element.compareHigh
  atomic.compareLow = element.compareLow
  work.feth.placement = element.placement
  work.feth.selectivity = element.selectivity
  pweth.operationHigh = element.operationHigh
  pweth.operationLow = element.operationLow
}

/**
 * How a record is to be kept. Without an address for every copy it goes by slot; ADDRESSED alone
 * names bytes of a region that is registered write-persist.
 */
function describePersist(state: BoardState, work: Work, element: Element): void {
  const { pweth, reth } = work
  pweth.message = element.opcode === SEND
  if (pweth.message) {
    describeMessage(work, element)
    return
  }
  const carried = (element.flags & el.CARRIED) !== 0
  const addressed = (element.flags & el.ADDRESSED) !== 0
  pweth.wait = element.wait
  pweth.slotAddressed = !addressed
  pweth.carried = carried
  pweth.furtherCopies = carried ? element.furtherCopies : 0
  pweth.wantsAck = true
  pweth.guarded = element.immediate !== 0
  work.guard = element.immediate
  describeBatch(work, element)
  reth.length = element.length / (pweth.furtherCopies + 1)
  if (!carried || !addressed) return
  work.extensionCount = element.furtherCopies
  for (let i = 0; i < element.furtherCopies; i++) {
    const at = element.copiesAt + i * ADDRESS_EXTENSION_BYTES
    readReth(work.extensions[i]!, state.bytes, at)
  }
}

/** A message of a batch has no place in any region. */
function describeMessage(work: Work, element: Element): void {
  const { pweth, reth } = work
  reth.vaHigh = 0
  reth.vaLow = 0
  reth.rkey = 0
  pweth.wait = 1
  pweth.slotAddressed = false
  pweth.carried = false
  pweth.furtherCopies = 0
  pweth.wantsAck = true
  pweth.guarded = false
  work.guard = 0
  describeBatch(work, element)
}

/** The place of a member in its batch, of which one status tells the end; or that it has none. */
function describeBatch(work: Work, element: Element): void {
  const { pweth } = work
  const batch = (element.flags & el.BATCH) !== 0
  pweth.batch = batch
  pweth.repetition = (element.flags & el.REPETITION) !== 0
  pweth.oneStatus = batch
  pweth.condition = batch ? element.condition : 0
  pweth.lastOfBatch = batch && element.last
  pweth.batchId = batch ? element.batchId : 0
  pweth.batchIndex = batch ? element.batchIndex : 0
  pweth.batchCount = batch ? element.batchCount : 1
  work.expectHigh = element.expectHigh
  work.expectLow = element.expectLow
}

/** What becomes of requests. Completions are made in `finishPostings`: here, no list may run. */
const POSTINGS: WorkOwner = {
  received(state: BoardState & QueueState, work) {
    const posting = state.hostWork.postings[work.item]!
    posting.received = true
    if ((posting.flags & el.TWO_STEPS) !== 0) list(state.hostWork, work.item)
  },
  data(state: HostContext & QueueState, work, offset, at, length) {
    const posting = state.hostWork.postings[work.item]!
    const { protectionDomain } = posting.pair!.qp!
    if (!areCovered(state, posting.pieces, protectionDomain)) posting.revoked = true
    if (!posting.revoked) writePieces(state, posting.pieces, offset, at, length)
  },
  done(state: RefusalContext, work, request) {
    const posting = state.hostWork.postings[work.item]!
    freeBuffer(state, posting.buffer)
    posting.buffer = -1
    noteStatus(posting, request)
    if (isSized(posting.opcode)) noteSize(state, posting, request)
    // Records of a burst end behind its last: this one has ended without that.
    if (isOfBatchBurst(posting)) endBatchBurst(state.hostWork, posting.pair!)
    posting.ended = true
    list(state.hostWork, work.item)
  },
}

function list(work: HostWork, item: number): void {
  const posting = work.postings[item]!
  if (posting.listed) return
  posting.listed = true
  work.listed[work.listedCount] = item
  work.listedCount += 1
}

/** Is it answered by the size of a block? */
function isSized(opcode: number): boolean {
  return opcode === ASSOCIATE || opcode === BLOCK_SIZE
}

function noteStatus(posting: Posting, request: Request): void {
  posting.status = posting.revoked ? el.WC_LOC_PROT_ERR : STATUS[request.status]
  posting.refusal = request.refusal
  posting.copies = request.copies
  posting.mechanism = request.mechanism
  posting.psn = request.lastPsn
  posting.resultHigh = request.resultHigh
  posting.resultLow = request.resultLow
  posting.cumulative = request.cumulative
}

/** The element is under way; its completion comes behind those of the elements before it. */
function expect(work: HostWork, pair: HostPair, item: number): void {
  work.postings[item]!.behind = -1
  if (pair.untoldFirst < 0) pair.untoldFirst = item
  else work.postings[pair.untoldLast]!.behind = item
  pair.untoldLast = item
}

/** Completes what has ended, or was received, since this was called last. */
export function finishPostings(state: QueueContext): void {
  const work = state.hostWork
  let noted = 0
  for (let i = 0; i < work.listedCount; i++) {
    // To complete one may run the list, and more may end by that.
    for (; noted < work.listedCount; noted++) notePostingEnd(work, work.listed[noted]!)
    const { pair } = work.postings[work.listed[i]!]!
    if (pair !== null) tellInOrder(state, pair)
  }
  work.listedCount = 0
}

function notePostingEnd(work: HostWork, item: number): void {
  const posting = work.postings[item]!
  const pair = posting.pair!
  posting.listed = false
  if (!posting.ended) return
  pair.under -= 1
  work.freed = true
  work.look = true
  if (posting.receivedTold) addResult(work, pair, item)
}

/** The send completions of a pair, as far as nothing before them is awaited. */
function tellInOrder(state: QueueContext, pair: HostPair): void {
  const { postings } = state.hostWork
  for (let item = pair.untoldFirst; item >= 0; item = pair.untoldFirst) {
    const posting = postings[item]!
    const twoSteps = posting.received && (posting.flags & el.TWO_STEPS) !== 0
    if (!posting.ended && !twoSteps) return
    pair.untoldFirst = posting.behind
    if (twoSteps) tellReceived(state, pair, item)
    else tellEnded(state, posting, item)
  }
}

/** The peer has it; that it is durable, or how it failed, a receive says. */
function tellReceived(state: HostContext & QueueState, pair: HostPair, item: number): void {
  const { host, hostWork, list: commands } = state
  const posting = hostWork.postings[item]!
  posting.receivedTold = true
  describeResult(host.completion, posting)
  host.completion.flags = el.RECEIVED
  complete(host, commands, posting.place)
  // It has ended while it waited for those before it, and is not listed any more.
  if (posting.ended && !posting.listed) addResult(hostWork, pair, item)
}

function tellEnded(state: QueueContext, posting: Posting, item: number): void {
  const { host, hostWork, list: commands } = state
  const silent = (posting.flags & el.SIGNALED) === 0
  if (silent && posting.status === el.WC_SUCCESS) {
    releaseCompletion(host, posting.place)
  } else {
    describeResult(host.completion, posting)
    describeOutcome(host.completion, posting)
    complete(host, commands, posting.place)
  }
  if (posting.revoked) failHostQueue(state, posting.queue, MEMORY_KEY)
  freePosting(hostWork, item)
}

function describeResult(into: Completion, posting: Posting): void {
  blankOut(into)
  into.queue = posting.queue
  into.unit = posting.unit
  into.pointer = posting.pointer
  into.opcode = posting.opcode
  into.length = posting.length
  into.addressHigh = posting.addressHigh
  into.addressLow = posting.addressLow
  into.operationHigh = posting.operationHigh
  into.operationLow = posting.operationLow
  into.psn = posting.psn
  into.incarnation = posting.pair!.incarnation
}
