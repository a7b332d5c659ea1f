/**
 * RDMA READ: bytes of a plain region, records, and images of copies (P1-28, D-15; IBTA 9.7.5).
 *
 * Invariants:
 * - A READ is an ordered operation (rounds.ts): it is answered after the records of its burst are
 *   committed, so it sees what the same connection wrote before, and never a copy that is being
 *   written: no dirty read (I6). What the connection stored before is durable by then.
 * - A record is served from a copy whose check code was verified just now; the first valid one in
 *   write order. A record of which no copy is valid, or that is on the list of the lost, fails the
 *   READ of its data, and shows an all-zero header in the settled view: loss is always explicit.
 *   A record whose host does not answer, or that nobody can decide about yet, is none of these:
 *   every such READ of it fails, as UNREADABLE.
 * - Responses leave in PSN order, and no acknowledgement overtakes them.
 * - A READ of more than READ_PACKETS packets is answered in turns (stream.ts). Everything else is
 *   answered in one piece.
 * - Of memory registered on demand the pages are there when the READ is accepted, and then until it
 *   is answered (on-demand.ts); one that needs more of them than PAGES_AT_ONCE is a long one.
 */

import { compare, copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, HELD_BACK, KEY, MESSAGE_LENGTH, PASS } from '../board/fault.ts'
import { READ_PACKETS } from '../board/limits.ts'
import { ZEROS_AT } from '../board/memory-map.ts'
import { refuseQueuePair, runBurst } from '../burst/burst.ts'
import type { BurstContext, BurstState, ServeContext } from '../burst/context.ts'
import { VIEW_FIRST_COPY } from '../burst/view.ts'
import { accessOf, boundsFault, locateBytes, locateRecord } from '../engine/locate.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  byteOffset,
  KIND_BYTES,
  KIND_ON_DEMAND,
  KIND_RECORDS,
  REMOTE_READ,
  type Region,
} from '../medium/region.ts'
import { BYTES_AT_ONCE, bringPages, checkPages, offsetIn, pagesFault } from '../status/on-demand.ts'
import {
  beginFrame,
  endFrame,
  psnOwnerOf,
  transmitRoom,
  writeAck,
} from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import type { Ordered } from '../transport/message.ts'
import { MESSAGE_BYTES_MAX, packetsOf, psnAdd, psnDistance } from '../transport/psn.ts'
import {
  KIND_READ,
  nextSaved,
  type QueuePair,
  STATE_OPEN,
  savedAround,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { AETH_BYTES } from '../wire/aeth.ts'
import type { WireState } from '../wire/context.ts'
import {
  type OpcodeRow,
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_LAST,
  RC_READ_RESPONSE_MIDDLE,
  RC_READ_RESPONSE_ONLY,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { type Reth, readReth } from '../wire/reth.ts'
import { addOrdered, addResponse, ORDERED_READ } from './ordered.ts'

/** Is the range allowed? Judged at acceptance, before anything is looked at. */
function readRangeFault(state: WireState & MemoryState, qp: QueuePair): Fault {
  const { located } = state
  const { rkey, vaHigh, vaLow, length } = state.reth
  located.region = null
  if (length > MESSAGE_BYTES_MAX) return MESSAGE_LENGTH
  if (length === 0) return PASS
  const fault = accessOf(state, qp, rkey, REMOTE_READ)
  if (fault !== PASS) return fault
  const region = located.region!
  return boundsFault(region, vaHigh, vaLow, length, VIEW_FIRST_COPY + region.copies)
}

/**
 * Accepts a READ request with the expected PSN, or a repeated one (`again`). A fault that is
 * returned has changed nothing.
 */
export function receiveRead(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  again: boolean,
): Fault {
  const reth = state.reth
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const fault = readRangeFault(state, qp)
  if (fault !== PASS) return fault
  const region = state.located.region
  const long = isLong(qp, region, reth.length)
  // One long READ at a time.
  if (long && qp.stream.accepted) return HELD_BACK
  if (region !== null && region.kind === KIND_ON_DEMAND) {
    const absent = beginFault(state, qp, region, reth.length)
    if (absent !== PASS) return absent
  }
  if (!again) save(qp, packet, reth)
  const item = again
    ? addOrdered(state, qp, ORDERED_READ, packet.psn, region, true)
    : addResponse(state, qp, KIND_READ, packet, region)
  item.vaHigh = reth.vaHigh
  item.vaLow = reth.vaLow
  item.length = reth.length
  item.form = reth.rkey
  if (long) acceptStream(qp, packet.psn)
  return PASS
}

/** From now on no request behind the long READ with a response of that PSN is taken. */
function acceptStream(qp: QueuePair, psn: number): void {
  const saved = savedAround(qp, psn)!
  qp.stream.accepted = true
  qp.stream.savedPsn = saved.psn
  qp.stream.endPsn = psnAdd(saved.psn, saved.packets)
}

/** Are the pages there that a READ of so many bytes begins with? */
function beginFault(state: ServeContext, qp: QueuePair, region: Region, length: number): Fault {
  const offset = offsetIn(state, region)
  const bytes = Math.min(length, BYTES_AT_ONCE)
  return pagesFault(state, qp, region, offset, bytes, length, state.connections.nowUs)
}

/** Accepts the PSNs of its responses, and keeps what a duplicate is compared with. */
function save(qp: QueuePair, packet: Packet, reth: Reth): void {
  const packets = packetsOf(reth.length, qp.pathMtu)
  const saved = nextSaved(qp)
  saved.kind = KIND_READ
  saved.psn = packet.psn
  saved.packets = packets
  saved.rkey = reth.rkey
  saved.vaHigh = reth.vaHigh
  saved.vaLow = reth.vaLow
  saved.length = reth.length
  advance(qp, packet, packets, true)
}

/** Is that READ one that is answered in turns? */
function isLong(qp: QueuePair, region: Region | null, length: number): boolean {
  if (region === null || region.kind === KIND_RECORDS) return false
  if (region.kind === KIND_ON_DEMAND && length > BYTES_AT_ONCE) return true
  return packetsOf(length, qp.pathMtu) > READ_PACKETS
}

/** From now on the responses to that READ are due: its first byte is at `from`. */
function beginStream(qp: QueuePair, item: Ordered, from: number): void {
  const stream = qp.stream
  stream.active = true
  stream.paused = false
  stream.savedFrom = from - psnDistance(item.psn, stream.savedPsn) * qp.pathMtu
  stream.psn = item.psn
  stream.packets = packetsOf(item.length, qp.pathMtu)
  stream.sent = 0
  stream.length = item.length
  stream.from = from
  stream.msn = item.msn
  stream.rkey = item.form
}

/** Answers a READ whose turn has come, or begins to. */
export function serveRead(state: ServeContext, item: Ordered): void {
  const { located } = state
  const { qp, region } = item
  if (region === null) {
    // A READ of no bytes names nothing.
    located.paged = null
    located.from = -1
  } else if (region.kind === KIND_BYTES) {
    locateBytes(state, region, item.vaHigh, item.vaLow, item.length)
    const from = located.from + located.offset
    if (isLong(qp, region, item.length)) {
      beginStream(qp, item, from)
      state.streaming = true
      return
    }
    checkReadable(state, qp, item.psn, from, item.length)
  } else if (region.kind === KIND_ON_DEMAND) {
    if (!findPages(state, item, region)) return
  } else {
    // What stands in the list is not to be mixed with what the examination runs.
    runBurst(state)
    const fault =
      qp.state === STATE_OPEN ? locateRecord(state, region, item.vaHigh, item.vaLow) : PASS
    if (fault !== PASS) {
      refuseQueuePair(state, qp, item.psn, fault)
      return
    }
    // What was read just now may fail all the same: a line decays, a host goes. That is this queue
    // pair's alone: no group is committed in the same list.
    state.stores += 1
  }
  respond(state, item)
}

/** As `serveRead`, of memory registered on demand. False if nothing is to be sent now. */
function findPages(state: ServeContext, item: Ordered, region: Region): boolean {
  const { located } = state
  const { qp } = item
  const offset = byteOffset(region, item.vaHigh, item.vaLow, item.length)
  if (isLong(qp, region, item.length)) {
    beginStream(qp, item, offset)
    state.streaming = true
    return false
  }
  // Its host went in this burst.
  if (state.regions.places[region.index] !== region) {
    refuseQueuePair(state, qp, item.psn, KEY)
    return false
  }
  located.paged = region
  located.from = 0
  located.end = region.areaBytes
  located.offset = offset
  checkPages(state, qp, item.psn, region, offset, item.length)
  return true
}

/** Has every byte delivered once, on behalf of that PSN: where one cannot be, it is refused. */
export function checkReadable(
  state: BoardState & BurstState,
  qp: QueuePair,
  psn: number,
  from: number,
  length: number,
): void {
  const list = state.list
  list.owner = psnOwnerOf(qp, psn)
  compare(list, from, from, length)
  list.owner = 0
  state.stores += 1
}

/** Sends the response packets; what fails on the way has been refused. */
function respond(state: BurstContext, read: Ordered): void {
  const qp = read.qp
  const packets = packetsOf(read.length, qp.pathMtu)
  for (let i = 0; i < packets; i++) {
    if (transmitRoom(state.answers) === 0) runBurst(state)
    if (qp.state !== STATE_OPEN) return
    const at = i * qp.pathMtu
    const length = Math.min(qp.pathMtu, read.length - at)
    respondPacket(state, read, i, packets, state.located.offset + at, length)
  }
}

function respondPacket(
  state: BoardState & MemoryState & TransportState,
  read: Ordered,
  index: number,
  packets: number,
  offset: number,
  length: number,
): void {
  const { paged, from, end } = state.located
  const held = from < 0 ? 0 : Math.min(length, Math.max(0, end - offset))
  const psn = psnAdd(read.psn, index)
  const opcode = responseOpcode(index, packets)
  sendResponse(state, read.qp, opcode, psn, read.msn, paged, from + offset, held, length)
}

/** The opcode of response `index` of so many. */
export function responseOpcode(index: number, packets: number): number {
  if (packets === 1) return RC_READ_RESPONSE_ONLY
  if (index === 0) return RC_READ_RESPONSE_FIRST
  return index === packets - 1 ? RC_READ_RESPONSE_LAST : RC_READ_RESPONSE_MIDDLE
}

/**
 * One response of `length` bytes: `held` of them at `from`, in `paged` if that is a region, zeros
 * behind.
 */
export function sendResponse(
  state: BoardState & MemoryState & TransportState,
  qp: QueuePair,
  opcode: number,
  psn: number,
  msn: number,
  paged: Region | null,
  from: number,
  held: number,
  length: number,
): void {
  const answers = state.answers
  const pad = -length & 3
  const headers = opcode === RC_READ_RESPONSE_MIDDLE ? 0 : AETH_BYTES
  const behind = headers + length + pad
  const end = beginFrame(answers, qp, opcode, psn, behind, pad)
  if (headers > 0) writeAck(answers.bytes, end, msn)
  const at = end + headers
  if (paged !== null) bringPages(state, paged, from, at, held)
  else if (held > 0) copy(state.list, from, at, held)
  if (length + pad > held) copy(state.list, ZEROS_AT, at + held, length + pad - held)
  endFrame(answers, qp, end, behind)
}
