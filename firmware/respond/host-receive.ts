// hot path
/**
 * Receive queues of the host's connected pairs: what the peer sends goes where element n points
 * (P3-26), and results in two steps are told by them (P2-24).
 *
 * Invariants:
 * - Elements are fetched ahead, POSTED_RECEIVES of a queue at the most, each once and judged; data
 *   n goes where element n points, whatever the host has changed meanwhile.
 * - A message of which no element, or no room for its completion, is here draws an RNR NAK, and
 *   nothing of it has happened (P2-25); room and elements are then looked for, and room is kept.
 * - The completion stands in the list behind the bytes that it speaks of, and the acknowledgement
 *   behind both: posted writes keep their order, so the host sees the data first.
 * - What its sender has stored before a message, and by it, is there before the host is told: a
 *   record is durable then. Where the medium refuses that the host is told of nothing (P1-11).
 * - A message of a batch takes an element when its batch is judged (engine/deliver.ts), and never
 *   between the packets of a SEND: these have the batch judged before them.
 * - Only the sender's message is longer than the element: that is its error (RECEIVE_LENGTH).
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import {
  COMPLETION_OVERRUN,
  DMA,
  type Fault,
  NOT_READY,
  PASS,
  RECEIVE_LENGTH,
} from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import { POSTED_RECEIVES, QUEUE_PAIRS, RECEIVES, UNIT_BYTES } from '../board/limits.ts'
import { FETCH_AT } from '../board/memory-map.ts'
import { runBurst, touch } from '../burst/burst.ts'
import type { AcceptContext, BurstContext, GroupContext, QueueState } from '../burst/context.ts'
import {
  contextNow,
  failHostQueue,
  NO_PLACE,
  NO_QUEUE,
  refreshNow,
} from '../burst/queue-contexts.ts'
import { failQueuePair } from '../burst/staging.ts'
import {
  beginReceiveCompletion,
  elementFault,
  endReceipt,
  isElementReady,
} from '../engine/deliver.ts'
import { commitNow, makeTellRoom } from '../engine/group.ts'
import { invalidate } from '../engine/locate.ts'
import { describeOutcome, dropResult } from '../engine/outcome.ts'
import { releaseCompletion, reserveCompletion } from '../host/completion.ts'
import {
  depthOf,
  farPointerOf,
  movePointer,
  pointerOf,
  stateOf,
  unitOffset,
  zone1Word,
} from '../host/context.ts'
import * as el from '../host/element.ts'
import { checkElement } from '../host/element-check.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import {
  ahead,
  QUEUE_ERROR,
  QUEUE_READY,
  Z1_COMPLETIONS,
  Z1_QUEUE_PAIR,
} from '../host/queue-info.ts'
import type { HostPair } from '../host/work.ts'
import { MESSAGE_NONE, MESSAGE_SEND, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { u32 } from '../wire/bytes.ts'
import { readIeth } from '../wire/ieth.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'

/** Receive entry of a queue pair whose message goes into an element of the host. */
export const HOST_RECEIVE: number = RECEIVES

/** Does the queue pair belong to the host? */
export function isHostPair(state: QueueState, qp: QueuePair): boolean {
  return state.hostWork.pairs[qp.index]!.qp === qp
}

/** The receive queue in that place was rung: its elements are fetched at the end of the pass. */
export function ringReceives(state: HostState & QueueState, place: number): void {
  const number = zone1Word(state.host, place, Z1_QUEUE_PAIR)
  const pair = state.hostWork.pairs[number & (QUEUE_PAIRS - 1)]!
  if (pair.qp === null || pair.qp.number !== number) return
  pair.receiveWaits = true
  state.hostWork.look = true
}

/** Takes the element that is next for a message that begins. NOT_READY if there is none. */
export function takeHostReceive(state: HostState & QueueState, qp: QueuePair): Fault {
  if (!isElementReady(state, state.hostWork.pairs[qp.index]!)) return NOT_READY
  qp.receive = HOST_RECEIVE
  return PASS
}

/** Takes a packet of a SEND, of the expected PSN. A fault that is returned has changed nothing. */
export function receiveHostSend(
  state: AcceptContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const pair = state.hostWork.pairs[qp.index]!
  const length = packet.payloadLength
  let fault: Fault = row.begins ? takeHostReceive(state, qp) : PASS
  const held = row.begins ? 0 : qp.messageTo
  const entry = pair.taken & (POSTED_RECEIVES - 1)
  if (fault === PASS && held + length > pair.receiveBytes[entry]!) fault = RECEIVE_LENGTH
  if (fault === PASS && length > 0) fault = elementFault(state, pair, entry)
  if (fault === PASS && row.iethAt > 0) {
    readIeth(state.ieth, state.bytes, packet.bthAt + row.iethAt)
    fault = invalidate(state, qp, state.ieth.rkey)
  }
  if (fault !== PASS) {
    if (row.begins) qp.receive = -1
    return fault
  }
  if (length > 0) {
    copy(state.list, packet.payloadAt, DMA_SPACE + pair.receiveAt[entry]! + held, length)
  }
  qp.messageTo = held + length
  qp.message = row.ends ? MESSAGE_NONE : MESSAGE_SEND
  advance(qp, packet, 1, row.ends)
  touch(state, qp)
  if (row.ends) endHostReceive(state, qp, packet, row, held + length)
  return PASS
}

/**
 * What its sender has stored before a message, and with it, is there before the host is told. False
 * where that is refused, which ends the queue pair.
 */
function isStored(state: GroupContext, qp: QueuePair): boolean {
  if (qp.recordAt === state.answers.groups) commitNow(state)
  else if (state.stores > 0 && qp.dirtyAt === state.list.fences) runBurst(state)
  return qp.state === STATE_OPEN
}

/**
 * The message is over, `length` bytes of it in the host's memory: the host is told, unless the
 * queue pair ends by that.
 */
export function endHostReceive(
  state: GroupContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  length: number,
): void {
  const { host, hostWork, bytes } = state
  const { completion } = host
  const pair = hostWork.pairs[qp.index]!
  if (!isStored(state, qp)) return
  qp.receive = -1
  beginReceiveCompletion(state, pair)
  completion.length = length
  completion.psn = packet.psn
  completion.source = qp.peerNumber
  if (row.immAt > 0) {
    completion.flags |= el.WITH_IMMEDIATE
    completion.immediate = u32(bytes, packet.bthAt + row.immAt)
  } else if (row.iethAt > 0) {
    completion.flags |= el.WITH_INVALIDATE
    completion.immediate = u32(bytes, packet.bthAt + row.iethAt)
  }
  if (packet.solicited) completion.flags |= el.WAS_SOLICITED
  endReceipt(state, pair)
}

/** Fetches elements, tells results that wait for one, finds room where there was none. */
export function serveReceives(state: BurstContext, pair: HostPair): void {
  if (pair.receiveWaits) fetchReceives(state, pair)
  while (pair.resultFirst >= 0 && pair.fetched !== pair.taken) {
    // The element that is next may be in use by a message.
    if (pair.qp!.receive >= 0) break
    if (!reserveReceive(state, pair)) {
      // Nobody rings when the host has made room.
      state.hostWork.look = true
      break
    }
    tellResult(state, pair)
    if (pair.receiveWaits) fetchReceives(state, pair)
  }
  if (pair.starved && reserveReceive(state, pair)) pair.starved = false
}

/**
 * A message of a batch is about to be judged: looks for an element, and for room to tell of it,
 * where they are missed. That may end the queue pair.
 */
export function readyReceive(state: GroupContext, qp: QueuePair): void {
  if (!isStored(state, qp)) return
  makeTellRoom(state)
  const pair = state.hostWork.pairs[qp.index]!
  if (pair.qp === qp && !isElementReady(state, pair)) serveReceives(state, pair)
}

/** Has room for one completion of its receive queue reserved. False if there is none now. */
function reserveReceive(state: BurstContext, pair: HostPair): boolean {
  if (pair.reserved >= 0) return true
  if (pair.completions < 0) return false
  const { host } = state
  const place = contextNow(state, pair.completions)
  if (place === NO_QUEUE || (place >= 0 && stateOf(host, place) === QUEUE_ERROR)) {
    endReceiveQueue(state, pair, COMPLETION_OVERRUN)
    return false
  }
  if (place < 0) return false
  if (!reserveCompletion(host, place)) {
    if (!refreshNow(state, place) || !reserveCompletion(host, place)) return false
  }
  pair.reserved = place
  return true
}

/** The places of contexts are wanted: gives room back that is kept for messages yet to come. */
export function giveRoomBack(state: HostState & QueueState): void {
  const { host, hostWork } = state
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const pair = hostWork.pairs[i]!
    if (pair.qp === null || pair.reserved < 0 || pair.qp.receive >= 0) continue
    releaseCompletion(host, pair.reserved)
    pair.reserved = -1
  }
}

/** The result of a record in two steps: the completion of a receive (P2-24). */
function tellResult(state: HostContext & QueueState, pair: HostPair): void {
  const { hostWork } = state
  const { completion } = state.host
  const posting = hostWork.postings[pair.resultFirst]!
  beginReceiveCompletion(state, pair)
  completion.psn = posting.psn
  completion.source = pair.qp!.peerNumber
  completion.incarnation = pair.incarnation
  completion.operationHigh = posting.operationHigh
  completion.operationLow = posting.operationLow
  completion.addressHigh = posting.addressHigh
  completion.addressLow = posting.addressLow
  describeOutcome(completion, posting)
  dropResult(hostWork, pair)
  endReceipt(state, pair)
}

/** Fetches what the host has stored, as far as there is room for it here. */
function fetchReceives(state: BurstContext, pair: HostPair): void {
  const { host, list } = state
  const place = contextNow(state, pair.receive)
  if (place === NO_PLACE) {
    state.hostWork.look = true
    return
  }
  pair.receiveWaits = false
  if (place < 0 || stateOf(host, place) !== QUEUE_READY) return
  pair.completions = zone1Word(host, place, Z1_COMPLETIONS)
  const first = pointerOf(host, place)
  const stored = ahead(farPointerOf(host, place), first)
  const room = POSTED_RECEIVES - ahead(pair.fetched, pair.taken)
  const units = stored < room ? stored : room
  pair.receiveWaits = stored > room
  if (units === 0) return
  if (list.count > 0) runBurst(state)
  // Where something failed just now, its refusal stands in front.
  const read = list.count
  for (let i = 0; i < units; i++) {
    const from = DMA_SPACE + unitOffset(host, place, (first + i) >>> 0)
    copy(list, from, FETCH_AT + i * UNIT_BYTES, UNIT_BYTES)
  }
  runAll(list)
  for (let i = 0; i < units; i++) {
    if (resultOf(list, read + i) === DONE) continue
    endReceiveQueue(state, pair, DMA)
    return
  }
  for (let i = 0; i < units; i++) {
    const unit = (first + i) >>> 0
    const fault = checkElement(host, place, FETCH_AT + i * UNIT_BYTES, unit, 1)
    if (fault !== PASS) {
      movePointer(host, place, unit)
      endReceiveQueue(state, pair, fault)
      return
    }
    keep(state, pair)
  }
  movePointer(host, place, (first + units) >>> 0)
  readyCompletions(state, pair)
}

/**
 * The messages that come are to find the completion queue, and room in it as far as there is some;
 * where it has gone by then, or is full, they draw an RNR NAK, and it is looked at again.
 */
function readyCompletions(state: BurstContext, pair: HostPair): void {
  const { host } = state
  const place = contextNow(state, pair.completions)
  if (place < 0) return
  const used = ahead(pointerOf(host, place), farPointerOf(host, place)) + host.reserved[place]!
  if (used + POSTED_RECEIVES > depthOf(host, place)) refreshNow(state, place)
}

/** Keeps `host.element`. */
function keep(state: HostState, pair: HostPair): void {
  const { element } = state.host
  const entry = pair.fetched & (POSTED_RECEIVES - 1)
  pair.receiveAt[entry] = element.local
  pair.receiveKey[entry] = element.lkey
  pair.receiveBytes[entry] = element.length
  pair.receiveUnit[entry] = element.unit
  pair.fetched = (pair.fetched + 1) | 0
}

/** The receive queue is over, and its pair with it. */
function endReceiveQueue(state: BurstContext, pair: HostPair, fault: Fault): void {
  failHostQueue(state, pair.receive, fault)
  failQueuePair(state, pair.qp!)
  state.hostWork.look = true
}
