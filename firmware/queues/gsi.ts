/**
 * Datagrams of the host: what it sends from queue 0, and what comes back into queue 1. QP 1, the
 * general service interface, is the card's; its host is one of those that speak to it.
 *
 *   element of queue 0 ──▶ local card: waits for the end of the burst (host/host-calls.ts)
 *                     └──▶ another:  a UD SEND from QP 1 to QP 1
 *
 * Invariants:
 * - A datagram is taken once, whole, as it was in the copy of its element; one that says nothing is
 *   counted and forgotten, as on the wire: its completion says that it was sent.
 * - The completion of one that came says who sent it; that the local card did, nobody on the
 *   network can make it say.
 * - Whatever comes, and however much, ends nothing: what finds no element or no room is dropped and
 *   counted.
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import {
  DMA,
  ELEMENT_LENGTH,
  type Fault,
  MANAGEMENT_FORM,
  NOT_READY,
  PASS,
  UNEXPECTED_RESPONSE,
} from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import { HOST_CALLS, UNIT_BYTES } from '../board/limits.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext } from '../burst/context.ts'
import { contextNow, failHostQueue, refreshNow } from '../burst/queue-contexts.ts'
import { beginDatagram, endDatagram, prepareTowards } from '../burst/towards.ts'
import { blankOut, complete, reserveCompletion } from '../host/completion.ts'
import { farPointerOf, movePointer, pointerOf, stateOf, unitOffset } from '../host/context.ts'
import { AH_IPV4, AH_MAC, WC_SUCCESS, WQE_RECEIVE } from '../host/element.ts'
import { checkElement } from '../host/element-check.ts'
import { QUEUE_GSI_COMPLETION, QUEUE_GSI_RECEIVE } from '../host/header-page.ts'
import { HOST_SERVED } from '../host/host.ts'
import { callAt } from '../host/host-calls.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { ahead, QUEUE_READY } from '../host/queue-info.ts'
import { EXECUTED, WAIT } from '../host/work.ts'
import { wordAt } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import { isAt } from '../wire/bytes.ts'
import { ETH_SOURCE, MAC_BYTES } from '../wire/ethernet.ts'
import { IPV4_SOURCE } from '../wire/ipv4.ts'
import { isSealed, MAD_BYTES, MAD_METHOD, METHOD_RESPONSE, madFault } from '../wire/management.ts'
import type { Packet } from '../wire/packet.ts'
import { seenAt, THIRD } from './look.ts'

/** Where the element of queue 1 is looked at. */
const RECEIVED: number = seenAt(THIRD)

const IPV4_ADDRESS_BYTES = 4

/**
 * Sends the datagram of the element at `elementAt`, its `length` bytes at `from` in packet memory.
 * Returns EXECUTED, WAIT or the fault of the element.
 */
export function sendDatagram(
  state: FrameContext & HostState,
  elementAt: number,
  from: number,
  length: number,
): number {
  if (length !== MAD_BYTES) return ELEMENT_LENGTH
  if (!isOwn(state, elementAt)) sendOn(state, elementAt, from)
  else if (state.host.calls.count === HOST_CALLS) return WAIT
  else keepCall(state, from)
  return EXECUTED
}

/** Is the element's datagram for this card? */
function isOwn(state: BoardState, at: number): boolean {
  const { bytes, facts } = state
  const mac = at + AH_MAC
  const ipv4 = at + AH_IPV4
  if (isZero(bytes, mac, MAC_BYTES) && isZero(bytes, ipv4, IPV4_ADDRESS_BYTES)) return true
  return isAt(bytes, mac, facts.mac) && isAt(bytes, ipv4, facts.ipv4)
}

/** The call waits for the end of the burst, as those of the network do. */
function keepCall(state: HostContext, from: number): void {
  const { bytes } = state
  const { calls } = state.host
  const request = bytes[from + MAD_METHOD] !== METHOD_RESPONSE
  const isOurs = madFault(bytes, from, MAD_BYTES) === PASS && !isSealed(bytes, from)
  if (!request || !isOurs) {
    count(state, MANAGEMENT_FORM)
    return
  }
  bytes.copyWithin(callAt(calls.count), from, from + MAD_BYTES)
  calls.count += 1
}

function sendOn(state: FrameContext, elementAt: number, from: number): void {
  const { blankPair } = state.connections
  prepareTowards(state, blankPair, elementAt + AH_MAC, elementAt + AH_IPV4)
  const at = beginDatagram(state, blankPair, MAD_BYTES)
  state.bytes.copyWithin(at, from, from + MAD_BYTES)
  endDatagram(state, blankPair, at, MAD_BYTES)
}

function isZero(bytes: Uint8Array, at: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (bytes[at + i] !== 0) return false
  return true
}

/**
 * Puts the datagram of 256 bytes at `at`, from that queue pair, into the next element of queue 1.
 * Where there is none it is dropped and counted: who asked repeats it. It came in `packet`, or is
 * our own.
 */
export function deliverDatagram(
  state: BurstContext,
  at: number,
  source: number,
  packet: Packet | null,
): void {
  // The host asks by IPv4. Zeros are the local card: no packet comes from them (wire/packet.ts).
  const isAsked = packet === null || packet.ipVersion === 4
  const awaited = state.host.phase === HOST_SERVED && isAsked
  const fault = awaited ? deliverMessage(state, at, source, packet) : UNEXPECTED_RESPONSE
  if (fault !== PASS) count(state, fault)
}

function deliverMessage(
  state: BurstContext,
  at: number,
  source: number,
  packet: Packet | null,
): Fault {
  const { host, list } = state
  runBurst(state)
  const cq = contextNow(state, QUEUE_GSI_COMPLETION)
  if (cq < 0) return NOT_READY
  // The other must not push it out.
  host.contexts.pins[cq]! += 1
  const place = contextNow(state, QUEUE_GSI_RECEIVE)
  host.contexts.pins[cq]! -= 1
  if (place < 0 || stateOf(host, place) !== QUEUE_READY) return NOT_READY
  if (!refreshNow(state, place)) return NOT_READY
  const stored = ahead(farPointerOf(host, place), pointerOf(host, place))
  if (stored === 0) return NOT_READY
  const fault = fetchReceive(state, place, stored)
  if (fault !== PASS) {
    failHostQueue(state, QUEUE_GSI_RECEIVE, fault)
    return PASS
  }
  if (!hasCompletionRoom(state, cq)) return NOT_READY
  copy(list, at, DMA_SPACE + host.element.local, MAD_BYTES)
  const { completion } = host
  blankOut(completion)
  completion.queue = QUEUE_GSI_RECEIVE
  completion.unit = host.element.unit
  completion.status = WC_SUCCESS
  completion.opcode = WQE_RECEIVE
  completion.length = MAD_BYTES
  completion.source = source
  if (packet !== null) tellSender(state, packet)
  completion.pointer = (completion.unit + 1) >>> 0
  complete(host, list, cq)
  movePointer(host, place, completion.pointer)
  return PASS
}

/** Who sent it: MAC and IPv4 address, byte by byte as in the address of a datagram. */
function tellSender(state: HostContext, packet: Packet): void {
  const { bytes } = state
  const { completion } = state.host
  const mac = packet.frameAt + ETH_SOURCE
  completion.addressLow = wordAt(bytes, mac)
  completion.addressHigh = bytes[mac + 4]! | (bytes[mac + 5]! << 8)
  completion.incarnation = wordAt(bytes, packet.ipAt + IPV4_SOURCE)
}

/** Fetches the next element of queue 1 once, and judges the copy. */
function fetchReceive(state: HostContext, place: number, stored: number): Fault {
  const { host, list } = state
  const unit = pointerOf(host, place)
  const read = copy(list, DMA_SPACE + unitOffset(host, place, unit), RECEIVED, UNIT_BYTES)
  runAll(list)
  if (resultOf(list, read) !== DONE) return DMA
  const fault = checkElement(host, place, RECEIVED, unit, stored)
  if (fault !== PASS) return fault
  return host.element.length < MAD_BYTES ? ELEMENT_LENGTH : PASS
}

/** Room for one completion, as the host's memory has it now if need be. */
function hasCompletionRoom(state: BurstContext, cq: number): boolean {
  const { host } = state
  if (stateOf(host, cq) !== QUEUE_READY) return false
  if (reserveCompletion(host, cq)) return true
  return refreshNow(state, cq) && reserveCompletion(host, cq)
}
