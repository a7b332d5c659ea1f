// hot path
/**
 * SEND, and what WRITE with immediate shares with it: receive entries, confirmations, keys taken
 * back (IBTA 9.4.1, 9.4.3; source 2, P2-17, P2-25).
 *
 * Invariants:
 * - A SEND and a WRITE with immediate take a receive entry. Where none is free they draw an RNR
 *   NAK, and nothing of them has happened (P2-25).
 * - A peer takes one more only while it holds fewer than are free: one alone has half of them at
 *   the most, each of n that take turns has its part of n + 1, and there is one for a peer that has
 *   none, whatever six others hold (fault N22).
 * - An entry is free again when its message is over, or, where the sender asked to be told
 *   (solicited event), when the confirmation has left.
 * - What belongs to the host goes into the elements of its own receive queue
 *   (respond/host-receive.ts).
 * - A confirmation leaves when everything that the queue pair stored before is durable: it is an
 *   ordered operation like FLUSH (wire-format 6.4).
 */

import { copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, NOT_DURABLE, NOT_READY, PASS, RECEIVE_LENGTH } from '../board/fault.ts'
import { RECEIVE_BYTES, RECEIVES } from '../board/limits.ts'
import { RECEIVES_AT } from '../board/memory-map.ts'
import { isSafe, touch } from '../burst/burst.ts'
import type { BurstContext, GatherState, RequestState, ServeContext } from '../burst/context.ts'
import { findInitiator } from '../burst/initiator.ts'
import { type InitiatorOptions, openInitiator } from '../burst/open-initiator.ts'
import { freeEntry, releaseReceive } from '../burst/staging.ts'
import { submit, takeWork, type WorkOwner } from '../burst/work.ts'
import { invalidate } from '../engine/locate.ts'
import { isRelaying } from '../placement/relay.ts'
import { isPassing, waitForJobs } from '../placement/through.ts'
import { isSamePeer } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import type { Ordered } from '../transport/message.ts'
import { MESSAGE_NONE, MESSAGE_SEND, type QueuePair } from '../transport/queue-pair.ts'
import { room, SEND, SEND_IMM } from '../transport/requester.ts'
import { advance } from '../transport/responder.ts'
import { u32 } from '../wire/bytes.ts'
import { PLACEMENT_PERSISTENT } from '../wire/feth.ts'
import { readIeth } from '../wire/ieth.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  endHostReceive,
  HOST_RECEIVE,
  isHostPair,
  receiveHostSend,
  takeHostReceive,
} from './host-receive.ts'
import { addOrdered, ORDERED_CONFIRM } from './ordered.ts'

/** Where the message lies that this entry has. */
export function receiveAt(entry: number): number {
  return RECEIVES_AT + entry * RECEIVE_BYTES
}

/** Takes a free entry for the queue pair; -1 if there is none for it. */
export function takeEntry(state: FrameContext & GatherState, qp: QueuePair): number {
  const free = RECEIVES - state.receivesTaken
  // Who holds as many as are free leaves those to others; nobody can while half of them are free.
  if (free <= RECEIVES / 2 && entriesOf(state, qp) >= free) return -1
  const entry = state.receiveOwner.indexOf(-1)
  state.receiveOwner[entry] = qp.index
  state.receivesTaken += 1
  return entry
}

/** Entries that the peer of that queue pair holds, over all of its connections. */
function entriesOf(state: FrameContext & GatherState, qp: QueuePair): number {
  let used = 0
  for (let i = 0; i < RECEIVES; i++) {
    const owner = state.queuePairs.places[state.receiveOwner[i]!] ?? null
    if (owner !== null && isSamePeer(owner, qp, state.bytes)) used += 1
  }
  return used
}

/** Takes a free entry for the message that begins. NOT_READY if there is none. */
export function takeReceive(state: BurstContext, qp: QueuePair): Fault {
  if (isHostPair(state, qp)) return takeHostReceive(state, qp)
  qp.receive = takeEntry(state, qp)
  return qp.receive < 0 ? NOT_READY : PASS
}

/** Takes a packet of the expected PSN. A fault that is returned has changed nothing. */
export function receiveSend(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  if (isHostPair(state, qp)) return receiveHostSend(state, qp, packet, row)
  const length = packet.payloadLength
  const held = row.begins ? 0 : qp.messageTo - receiveAt(qp.receive)
  if (held + length > RECEIVE_BYTES) return RECEIVE_LENGTH
  let fault: Fault = PASS
  if (row.begins) fault = takeReceive(state, qp)
  if (fault === PASS && row.ends) fault = endFault(state, qp, packet, row)
  if (fault !== PASS) {
    if (row.begins) releaseReceive(state, qp)
    return fault
  }
  if (row.begins) qp.messageTo = receiveAt(qp.receive)
  if (length > 0) copy(state.list, packet.payloadAt, qp.messageTo, length)
  qp.messageTo += length
  qp.message = row.ends ? MESSAGE_NONE : MESSAGE_SEND
  advance(qp, packet, 1, row.ends)
  touch(state, qp)
  if (row.ends) endReceive(state, qp, packet, row, held + length)
  return PASS
}

/** What the last packet may still have against it; the key that it takes back is then gone. */
export function endFault(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  // Where the host receives, it is the host that is woken, and nothing is confirmed.
  if (qp.receive === HOST_RECEIVE) return PASS
  if (packet.solicited && (isUnsure(qp) || !isSafe(state))) return NOT_DURABLE
  // What it wrote before becomes durable elsewhere: it asks again until that is so.
  if (packet.solicited && isRelaying(state, qp)) return NOT_READY
  if (packet.solicited && isPassing(state, qp)) return waitForJobs(qp)
  if (packet.solicited && !canConfirm(state, qp)) return NOT_READY
  if (row.iethAt === 0) return PASS
  readIeth(state.ieth, state.bytes, packet.bthAt + row.iethAt)
  return invalidate(state, qp, state.ieth.rkey)
}

/** Has it stored bytes of which nobody can say yet that they are durable? */
function isUnsure(qp: QueuePair): boolean {
  return qp.volatile || qp.cached.to > 0
}

/** The message is over, `length` bytes of it in the entry: the sender is told, if it asked. */
export function endReceive(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  length: number,
): void {
  if (qp.receive === HOST_RECEIVE) {
    endHostReceive(state, qp, packet, row, length)
    return
  }
  if (!packet.solicited) {
    releaseReceive(state, qp)
    return
  }
  const item = addOrdered(state, qp, ORDERED_CONFIRM, packet.psn, null, false)
  item.form = PLACEMENT_PERSISTENT
  item.at = qp.receive
  item.length = length
  item.to = row.immAt
  item.operationLow = row.immAt === 0 ? 0 : u32(state.bytes, packet.bthAt + row.immAt)
  qp.receive = -1
}

/**
 * Everything before is durable: says so to the sender, by a SEND of what it sent. `item.at` is the
 * receive entry, `item.length` the bytes in it; `item.operationLow` the immediate, if `item.to` is
 * not 0.
 */
export function confirmSend(state: GatherState & RequestState, item: Ordered): void {
  const initiator = findInitiator(state, item.qp)
  const work = takeWork(initiator)
  if (work === null) {
    // Our requests have failed since: the queue pair ends with them.
    freeEntry(state, item.at)
    return
  }
  work.from = receiveAt(item.at)
  work.length = item.length
  work.immediate = item.operationLow
  submit(initiator!, work, item.to === 0 ? SEND : SEND_IMM, CONFIRMATIONS, item.at)
}

/** The entry stays as it is until the sender has the confirmation, or is gone. */
const CONFIRMATIONS: WorkOwner = {
  received() {},
  done(state: BoardState & GatherState, work) {
    freeEntry(state, work.item)
  },
}

/**
 * Can the queue pair be told? The works that its confirmations still have, and those that wait to
 * be told in this burst, must be fewer than there are.
 */
function canConfirm(state: ServeContext, qp: QueuePair): boolean {
  const initiator = openInitiator(state, qp, PEER)
  return initiator !== null && room(initiator.requester) > state.orderedCount
}

/** A peer that is only told something sends no PERSIST_ACK and keeps no READ of ours. */
const PEER: InitiatorOptions = { incarnation: 0, readDepth: 1, kept: false }
