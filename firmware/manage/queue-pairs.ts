/**
 * Control calls that make, change and end the queues of the host (source 3, step 201; P3-1, P3-4).
 *
 * Invariants:
 * - A queue has a number, and so a triple of zones, that no other has (P3-10); it begins empty, at
 *   the pointer that the host has left in its zone 3.
 * - The receive queue of a pair is at least as deep as its send queue (P3-1).
 * - A completion queue is not ended while a queue pair names it: zone 1 counts them. One that is
 *   told what batches store is not ended, and no pair names it (batch-notices.ts).
 * - What is refused has changed nothing.
 */

import { isNoticeQueue } from '../batch/notices.ts'
import { copy, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  DMA,
  type Fault,
  PASS,
  QUEUE_BUSY,
  QUEUE_LOCKED,
  QUEUE_PAIRS_FULL,
  QUEUE_UNKNOWN,
  QUEUES_FULL,
  REQUEST,
} from '../board/fault.ts'
import { DONE } from '../board/hal.ts'
import { RESPONDER_RESOURCES, UNIT_BYTES } from '../board/limits.ts'
import { runBurst } from '../burst/burst.ts'
import { flushCollected } from '../burst/collected-batches.ts'
import type { BurstContext, ServeContext } from '../burst/context.ts'
import { startCompletions, tellAll } from '../host/completion.ts'
import { FIRST_QUEUE } from '../host/header-page.ts'
import type { HostContext } from '../host/host-state.ts'
import { leaveLists, PENDING, stand, takeCarried } from '../host/pending.ts'
import * as info from '../host/queue-info.ts'
import { giveNumber, isNumberUsed, takeNumber } from '../host/queue-numbers.ts'
import { isRing, meet } from '../host/ranges.ts'
import * as seen from '../queues/look.ts'
import { closeHostPair, openHostPair, pairOf, readyHostPair } from '../queues/pairs.ts'
import { isMtu, isPeer, PSNS } from '../transport/pair-fields.ts'
import { putU32, u16, u32 } from '../wire/bytes.ts'
import { MAC_BYTES } from '../wire/ethernet.ts'
import { IPV4_NO_STATION } from '../wire/ipv4.ts'
import * as mad from '../wire/management.ts'
import { type Call, get64 } from './call.ts'

/** What a queue is made with. */
interface Shape {
  readonly queue: number
  readonly kind: number
  readonly type: number
  readonly state: number
  readonly ring: number
  readonly depth: number
}

export function createCq(call: Call): Fault {
  const { state, bytes, at, to } = call
  const { numbers, queues } = state.host
  const ring = get64(bytes, at + mad.CREATE_CQ_RING)
  const depth = u32(bytes, at + mad.CREATE_CQ_ENTRIES)
  if (!isRing(state.host, ring, depth)) return REQUEST
  const queue = takeNumber(numbers, queues)
  if (queue < 0) return QUEUES_FULL
  const kind = info.KIND_COMPLETION
  const ready = { type: info.TYPE_LOCAL, state: info.QUEUE_READY }
  if (!composeQueue(state, { queue, kind, ...ready, ring, depth }, seen.FIRST)) {
    giveNumber(numbers, queue)
    return DMA
  }
  const zone2 = seen.seenAt(seen.FIRST) + info.CONTEXT_ZONE2
  putU16Little(bytes, zone2 + info.Z2_COUNT, u16(bytes, at + mad.CREATE_CQ_COUNT))
  putU16Little(bytes, zone2 + info.Z2_PERIOD, u16(bytes, at + mad.CREATE_CQ_PERIOD))
  writeZones(state, queue, seen.FIRST)
  putU32(bytes, to + mad.CREATE_CQ_QUEUE, queue)
  return PASS
}

/** The zones of the control call are little-endian, as the host's memory is. */
function putU16Little(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value & 255
  bytes[at + 1] = value >> 8
}

/**
 * Composes zones 1 and 2 of a new queue at `seenAt(which)`, empty at the pointer of its zone 3.
 * False if the host's memory did not answer.
 */
function composeQueue(state: BurstContext, shape: Shape, which: number): boolean {
  const { list, bytes } = state
  const { queue } = shape
  const at = seen.seenAt(which)
  runBurst(state)
  const zone1 = copy(list, seen.zone1Of(state, queue), at, info.ZONE1_BYTES)
  const zone3At = at + info.CONTEXT_ZONE3
  const zone3 = copy(list, seen.zone3Of(state, queue), zone3At, info.ZONE3_BYTES)
  runAll(list)
  if (resultOf(list, zone1) !== DONE || resultOf(list, zone3) !== DONE) return false
  const generation = seen.word(state, at + info.Z1_GENERATION) + 1
  bytes.fill(0, at, zone3At)
  bytes[at + info.Z1_STATE] = shape.state
  bytes[at + info.Z1_KIND] = shape.kind
  bytes[at + info.Z1_VALID] = 1
  bytes[at + info.Z1_TYPE] = shape.type
  seen.putWord(state, at + info.Z1_GENERATION, generation)
  seen.putAddress(state, at + info.CONTEXT_ZONE2 + info.Z2_RING, shape.ring)
  seen.putWord(state, at + info.CONTEXT_ZONE2 + info.Z2_DEPTH, shape.depth)
  seen.setNext(state, which, seen.word(state, zone3At + info.Z3_POINTER))
  return true
}

function writeZones(state: HostContext, queue: number, which: number): void {
  // The cache may still have the queue that had the number before.
  const place = state.host.contexts.placeOf[queue]!
  if (place >= 0) startCompletions(state.host, place)
  seen.writeZone1(state, queue, which)
  seen.writeSeenZone2(state, queue, which)
}

/** Where the two queues of a pair, and their completion queues, are looked at. */
const SEND = seen.FIRST
const RECEIVE = seen.SECOND
const SEND_CQ = seen.THIRD
const RECEIVE_CQ = seen.FOURTH

export function createQp(call: Call): Fault {
  const { state, bytes, at } = call
  const type = bytes[at + mad.CREATE_QP_TYPE]!
  const { TYPE_CONNECTED, TYPE_LOCAL, TYPE_AGENT } = info
  if (type !== TYPE_CONNECTED && type !== TYPE_LOCAL && type !== TYPE_AGENT) return REQUEST
  const sendRing = get64(bytes, at + mad.CREATE_QP_SEND_RING)
  const sendUnits = u32(bytes, at + mad.CREATE_QP_SEND_UNITS)
  const receiveRing = get64(bytes, at + mad.CREATE_QP_RECEIVE_RING)
  const receiveUnits = u32(bytes, at + mad.CREATE_QP_RECEIVE_UNITS)
  if (!isRing(state.host, sendRing, sendUnits)) return REQUEST
  if (!isRing(state.host, receiveRing, receiveUnits) || receiveUnits < sendUnits) return REQUEST
  const sendBytes = sendUnits * UNIT_BYTES
  if (meet(sendRing, sendBytes, receiveRing, receiveUnits * UNIT_BYTES)) return REQUEST
  const sendCq = u32(bytes, at + mad.CREATE_QP_SEND_CQ)
  const receiveCq = u32(bytes, at + mad.CREATE_QP_RECEIVE_CQ)
  let fault = lookAtCq(state, sendCq, SEND_CQ)
  if (fault === PASS) fault = lookAtCq(state, receiveCq, RECEIVE_CQ)
  if (fault !== PASS) return fault
  const { numbers, queues } = state.host
  const send = takeNumber(numbers, queues)
  const receive = send < 0 ? -1 : takeNumber(numbers, queues)
  const ready = type === TYPE_CONNECTED ? info.QUEUE_INIT : info.QUEUE_READY
  const both = { type, state: ready }
  const sq = { queue: send, kind: info.KIND_SEND, ...both, ring: sendRing, depth: sendUnits }
  const rq = { queue: receive, kind: info.KIND_RECEIVE, ...both }
  if (receive < 0) fault = QUEUES_FULL
  else if (!composeQueue(state, sq, SEND)) fault = DMA
  else if (!composeQueue(state, { ...rq, ring: receiveRing, depth: receiveUnits }, RECEIVE))
    fault = DMA
  else fault = finishQp(call, send, receive)
  if (fault === PASS) return PASS
  if (send >= 0) giveNumber(numbers, send)
  if (receive >= 0) giveNumber(numbers, receive)
  return fault
}

/** A completion queue that a pair may name: there, not of management, not in error, not locked. */
function lookAtCq(state: BurstContext, queue: number, which: number): Fault {
  if (queue < FIRST_QUEUE) return QUEUE_UNKNOWN
  const fault = seen.lookAt(state, queue, which, info.KIND_COMPLETION)
  if (fault !== PASS) return fault
  if (isNoticeQueue(state.batches.notices, queue)) return QUEUE_BUSY
  const has = state.bytes[seen.seenAt(which) + info.Z1_STATE]
  return has === info.QUEUE_ERROR ? QUEUE_UNKNOWN : PASS
}

/** The zones of both queues are composed: what the pair is, and who counts it. */
function finishQp(call: Call, send: number, receive: number): Fault {
  const { state, bytes, at, to } = call
  const type = bytes[at + mad.CREATE_QP_TYPE]!
  const domain = u16(bytes, at + mad.CREATE_QP_DOMAIN)
  const sendCq = u32(bytes, at + mad.CREATE_QP_SEND_CQ)
  const receiveCq = u32(bytes, at + mad.CREATE_QP_RECEIVE_CQ)
  const clientHigh = u32(bytes, at + mad.CREATE_QP_CLIENT)
  const clientLow = u32(bytes, at + mad.CREATE_QP_CLIENT + 4)
  let number = 0
  if (type === info.TYPE_CONNECTED) {
    number = openHostPair(state, send, receive, domain, clientHigh, clientLow)
    if (number < 0) return QUEUE_PAIRS_FULL
  }
  describeQueue(state, SEND, sendCq, receive, number, domain)
  describeQueue(state, RECEIVE, receiveCq, send, number, domain)
  for (let which = SEND; which <= RECEIVE; which++) {
    seen.putWord(state, seen.seenAt(which) + info.Z1_CLIENT, clientLow)
    seen.putWord(state, seen.seenAt(which) + info.Z1_CLIENT + 4, clientHigh)
  }
  writeZones(state, send, SEND)
  writeZones(state, receive, RECEIVE)
  countUsers(state, sendCq, receiveCq, 1)
  putU32(bytes, to + mad.CREATE_QP_SEND, send)
  putU32(bytes, to + mad.CREATE_QP_RECEIVE, receive)
  putU32(bytes, to + mad.CREATE_QP_NUMBER, number)
  return PASS
}

function describeQueue(
  state: BoardState,
  which: number,
  cq: number,
  other: number,
  number: number,
  domain: number,
): void {
  const at = seen.seenAt(which)
  seen.putWord(state, at + info.Z1_COMPLETIONS, cq)
  seen.putWord(state, at + info.Z1_OTHER, other)
  seen.putWord(state, at + info.Z1_QUEUE_PAIR, number)
  seen.putWord(state, at + info.Z1_DOMAIN, domain)
}

/** One pair more, or less, names the completion queues that are looked at. */
function countUsers(state: HostContext, sendCq: number, receiveCq: number, by: number): void {
  const both = sendCq === receiveCq
  countUser(state, sendCq, SEND_CQ, both ? 2 * by : by)
  if (!both) countUser(state, receiveCq, RECEIVE_CQ, by)
}

function countUser(state: HostContext, cq: number, which: number, by: number): void {
  const at = seen.seenAt(which) + info.Z1_USERS
  seen.putWord(state, at, seen.word(state, at) + by)
  seen.writePart(state, cq, which, info.Z1_USERS, 4)
}

export function destroy(call: Call): Fault {
  const { state, bytes, at } = call
  const queue = u32(bytes, at + mad.DESTROY_QUEUE)
  if (queue < FIRST_QUEUE) return QUEUE_UNKNOWN
  const fault = seen.lookAt(state, queue, SEND, 0)
  if (fault !== PASS) return fault
  const kind = bytes[seen.seenAt(SEND) + info.Z1_KIND]
  if (kind === info.KIND_RECEIVE) return QUEUE_UNKNOWN
  if (seen.word(state, seen.seenAt(SEND) + info.Z1_LOCK) !== 0) return QUEUE_LOCKED
  return kind === info.KIND_COMPLETION ? destroyCq(state, queue) : destroyQp(state, queue)
}

function destroyCq(state: BurstContext, queue: number): Fault {
  if (seen.word(state, seen.seenAt(SEND) + info.Z1_USERS) !== 0) return QUEUE_BUSY
  if (isNoticeQueue(state.batches.notices, queue)) return QUEUE_BUSY
  // An interrupt that is delayed need not be.
  if (seen.pinsOf(state, queue) > 0) tellAll(state.host, state.list)
  if (seen.pinsOf(state, queue) > 0) return QUEUE_BUSY
  const fault = seen.lookAt(state, queue, SEND, info.KIND_COMPLETION)
  if (fault !== PASS) return fault
  endQueue(state, queue, SEND)
  return PASS
}

function destroyQp(state: ServeContext, send: number): Fault {
  const sendAt = seen.seenAt(SEND)
  const receiveAt = seen.seenAt(RECEIVE)
  const receive = seen.word(state, sendAt + info.Z1_OTHER)
  let fault = seen.lookAt(state, receive, RECEIVE, info.KIND_RECEIVE)
  if (fault !== PASS) return fault
  if (seen.word(state, receiveAt + info.Z1_LOCK) !== 0) return QUEUE_LOCKED
  const sendCq = seen.word(state, sendAt + info.Z1_COMPLETIONS)
  const receiveCq = seen.word(state, receiveAt + info.Z1_COMPLETIONS)
  fault = seen.lookAt(state, sendCq, SEND_CQ, info.KIND_COMPLETION)
  if (fault === PASS) fault = seen.lookAt(state, receiveCq, RECEIVE_CQ, info.KIND_COMPLETION)
  if (fault !== PASS) return fault
  closeWire(state, send)
  endQueue(state, send, SEND)
  endQueue(state, receive, RECEIVE)
  countUsers(state, sendCq, receiveCq, -1)
  return PASS
}

/** The queue is not there any more; its number may be given again. */
function endQueue(state: HostContext, queue: number, which: number): void {
  const { pending, numbers } = state.host
  const at = seen.seenAt(which)
  state.bytes[at + info.Z1_STATE] = info.QUEUE_RESET
  state.bytes[at + info.Z1_VALID] = 0
  seen.writeZone1(state, queue, which)
  leaveLists(pending, queue)
  takeCarried(pending, queue)
  if (isNumberUsed(numbers, queue)) giveNumber(numbers, queue)
}

/** The pair of a send queue is ready to receive and to send, or ends. */
export function modifyQp(call: Call): Fault {
  const { state, bytes, at } = call
  const send = u32(bytes, at + mad.MODIFY_QP_SEND)
  const wanted = bytes[at + mad.MODIFY_QP_STATE]!
  if (wanted !== info.QUEUE_READY && wanted !== info.QUEUE_ERROR) return REQUEST
  if (send < FIRST_QUEUE) return QUEUE_UNKNOWN
  let fault = seen.lookAt(state, send, SEND, info.KIND_SEND)
  if (fault !== PASS) return fault
  const receive = seen.word(state, seen.seenAt(SEND) + info.Z1_OTHER)
  fault = seen.lookAt(state, receive, RECEIVE, info.KIND_RECEIVE)
  if (fault !== PASS) return fault
  if (isQueueLocked(state, SEND) || isQueueLocked(state, RECEIVE)) return QUEUE_LOCKED
  const has = bytes[seen.seenAt(SEND) + info.Z1_STATE]!
  if (wanted === info.QUEUE_ERROR) {
    if (has !== info.QUEUE_ERROR) endPair(state, send, receive)
    return PASS
  }
  if (has !== info.QUEUE_INIT) return REQUEST
  fault = readyFault(call)
  if (fault !== PASS) return fault
  fault = readyPair(call, seen.word(state, seen.seenAt(SEND) + info.Z1_QUEUE_PAIR))
  if (fault !== PASS) return fault
  putQueueState(state, send, SEND, info.QUEUE_READY)
  putQueueState(state, receive, RECEIVE, info.QUEUE_READY)
  // What was posted before is taken now.
  stand(state.host.pending, send, PENDING)
  stand(state.host.pending, receive, PENDING)
  return PASS
}

/** The host ends the pair itself: it knows, and no event tells it. */
function endPair(state: ServeContext, send: number, receive: number): void {
  const { pending } = state.host
  closeWire(state, send)
  putQueueState(state, send, SEND, info.QUEUE_ERROR)
  putQueueState(state, receive, RECEIVE, info.QUEUE_ERROR)
  leaveLists(pending, send)
  leaveLists(pending, receive)
}

/** Ends the connection of the send queue that is looked at, if it has one: it may be another's. */
function closeWire(state: ServeContext, send: number): void {
  const number = seen.word(state, seen.seenAt(SEND) + info.Z1_QUEUE_PAIR)
  const pair = pairOf(state, number)
  if (pair?.send === send) closeHostPair(state, pair)
  // One that speaks to the own part has no connection, but may hold records of a batch.
  flushCollected(state, send)
}

function isQueueLocked(state: BoardState, which: number): boolean {
  return seen.word(state, seen.seenAt(which) + info.Z1_LOCK) !== 0
}

/** The pair of that number on the wire speaks to whom the call names. */
function readyPair({ state, bytes, at }: Call, number: number): Fault {
  return readyHostPair(state, number, {
    peerNumber: u32(bytes, at + mad.MODIFY_QP_PEER),
    peerPsn: u32(bytes, at + mad.MODIFY_QP_PEER_PSN),
    psn: u32(bytes, at + mad.MODIFY_QP_PSN),
    pathMtu: u16(bytes, at + mad.MODIFY_QP_MTU),
    incarnation: u32(bytes, at + mad.MODIFY_QP_INCARNATION),
    readDepth: bytes[at + mad.MODIFY_QP_DEPTH]!,
    sendDepth: u16(bytes, at + mad.MODIFY_QP_SEND_DEPTH),
    macAt: at + mad.MODIFY_QP_MAC,
    ipv4At: at + mad.MODIFY_QP_IPV4,
  })
}

/** Every field that says who the peer is, and how it is spoken to. */
function readyFault({ state, bytes, at }: Call): Fault {
  const mtu = u16(bytes, at + mad.MODIFY_QP_MTU)
  const depth = bytes[at + mad.MODIFY_QP_DEPTH]!
  const mac = at + mad.MODIFY_QP_MAC
  if (!isMtu(mtu) || mtu > state.facts.pathMtu) return REQUEST
  if (!isPeer(u32(bytes, at + mad.MODIFY_QP_PEER))) return REQUEST
  if (u32(bytes, at + mad.MODIFY_QP_PEER_PSN) >= PSNS) return REQUEST
  if (u32(bytes, at + mad.MODIFY_QP_PSN) >= PSNS) return REQUEST
  if (depth < 1 || depth > RESPONDER_RESOURCES) return REQUEST
  const isBlank = bytes.subarray(mac, mac + MAC_BYTES).every((byte) => byte === 0)
  // A group of stations has no queue pair.
  if (isBlank || (bytes[mac]! & 1) !== 0) return REQUEST
  return IPV4_NO_STATION[bytes[at + mad.MODIFY_QP_IPV4]!] === 0 ? PASS : REQUEST
}

function putQueueState(state: HostContext, queue: number, which: number, to: number): void {
  state.bytes[seen.seenAt(which) + info.Z1_STATE] = to
  seen.writePart(state, queue, which, info.Z1_STATE, 1)
}
