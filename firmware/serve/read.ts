/**
 * RDMA READ: bytes of a plain region, records, and images of copies (P1-28, D-15; IBTA 9.7.5).
 *
 * What always holds:
 * - A READ is answered after the records of its burst are committed, so it sees what the same
 *   connection wrote before, and never a copy that is being written: no dirty read (I6).
 * - A record is served from a copy whose check code was verified just now; the first valid one in
 *   write order. A record of which no copy is valid, or that is on the list of the lost, fails the
 *   READ of its data, and shows an all-zero header in the settled view: loss is always explicit.
 * - Responses leave in PSN order, and no acknowledgement overtakes them.
 */

import { compare, copy, run } from '../command-list.ts'
import { firstCopy, heldIntent } from '../commit/commit.ts'
import { examineCopies, sequenceAfter } from '../commit/examine.ts'
import { imageBytes, SLOT_HEADER_BYTES } from '../commit/slot.ts'
import {
  BOUNDS,
  FAULTS,
  type Fault,
  MESSAGE_LENGTH,
  PASS,
  UNREADABLE,
  UNSETTLED_READ,
} from '../fault.ts'
import { NVDIMM_SPACE } from '../hal.ts'
import { READ_BYTES_MAX } from '../limits.ts'
import {
  accessFault,
  byteOffset,
  findRegion,
  KIND_BYTES,
  REMOTE_READ,
  type Region,
  slotAddress,
} from '../memory/region.ts'
import { isLost } from '../memory/superblock.ts'
import { ZEROS_AT } from '../memory-map.ts'
import { count, type State, touch, type WaitingRead } from '../state.ts'
import { answer, beginFrame, endFrame, writeAck } from '../transport/acknowledge.ts'
import { packetsOf, psnAdd } from '../transport/psn.ts'
import { noteRead, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { AETH_BYTES } from '../wire/aeth.ts'
import {
  type OpcodeRow,
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_LAST,
  RC_READ_RESPONSE_MIDDLE,
  RC_READ_RESPONSE_ONLY,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { failQueuePair } from './staging.ts'
import { offsetOf, VIEW_DATA, VIEW_FIRST_COPY, VIEW_SETTLED, viewOf } from './view.ts'

/** Where the bytes of one READ lie: up to `end` at `from`, zeros behind. */
interface Source {
  /** Address of the byte at offset 0, or -1: all zeros. */
  from: number
  /** Bytes at `from`. */
  end: number
  /** Offset of the READ. */
  offset: number
}

const source: Source = { from: 0, end: 0, offset: 0 }

/** Is the range allowed? Judged at acceptance, before anything is looked at. */
function rangeFault(state: State, qp: QueuePair): Fault {
  const reth = state.reth
  if (reth.length > READ_BYTES_MAX) return MESSAGE_LENGTH
  if (reth.length === 0) return PASS
  const region = findRegion(state.regions, reth.rkey)
  const fault = accessFault(region, qp.protectionDomain, REMOTE_READ)
  if (fault !== PASS) return fault
  if (region!.kind === KIND_BYTES) {
    return byteOffset(region!, reth.vaHigh, reth.vaLow, reth.length) < 0 ? BOUNDS : PASS
  }
  const view = viewOf(reth.vaLow)
  const bytes = view === VIEW_DATA ? region!.capacity : imageBytes(region!.capacity)
  const offset = offsetOf(reth.vaLow)
  if (reth.vaHigh >= region!.slots || view >= VIEW_FIRST_COPY + region!.copies) return BOUNDS
  return reth.length > bytes || offset > bytes - reth.length ? BOUNDS : PASS
}

/**
 * Accepts a READ request with the expected PSN, or a repeated one (`again`). A fault that is
 * returned has changed nothing.
 */
export function receiveRead(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  again: boolean,
): Fault {
  const reth = state.reth
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const fault = rangeFault(state, qp)
  if (fault !== PASS) return fault
  const read = state.reads[state.readsCount]!
  read.qp = qp
  read.region = findRegion(state.regions, reth.rkey)
  read.vaHigh = reth.vaHigh
  read.vaLow = reth.vaLow
  read.length = reth.length
  read.psn = packet.psn
  read.again = again
  state.readsCount += 1
  if (qp.readsWaiting === 0) qp.ackLimit = psnAdd(packet.psn, -1)
  qp.readsWaiting += 1
  if (!again) {
    noteRead(qp, packet.psn)
    advance(qp, packet, packetsOf(reth.length, qp.pathMtu), true)
    // The response is the acknowledgement, of everything before it too (wire-format 3.6).
    qp.ackDue = false
  }
  touch(state, qp)
  return PASS
}

/** Answers every READ that waits, in the order in which they came. */
export function serveReads(state: State): void {
  const reads = state.readsCount
  if (reads > 0) run(state.list)
  for (let i = 0; i < reads; i++) {
    const read = state.reads[i]!
    const qp = read.qp
    if (qp.state === STATE_OPEN) serveRead(state, read)
    qp.readsWaiting -= 1
    if (qp.readsWaiting > 0) qp.ackLimit = psnAdd(nextReadPsn(state, i, qp), -1)
  }
  state.readsCount = 0
}

function nextReadPsn(state: State, after: number, qp: QueuePair): number {
  for (let i = after + 1; i < state.readsCount; i++) {
    if (state.reads[i]!.qp === qp) return state.reads[i]!.psn
  }
  return qp.expectedPsn
}

function serveRead(state: State, read: WaitingRead): void {
  const region = read.region
  source.end = 0
  source.offset = 0
  source.from = -1
  let fault: Fault = PASS
  if (read.length > 0 && region !== null) fault = findSource(state, read, region)
  if (fault === PASS && !respond(state, read)) fault = UNREADABLE
  if (fault === PASS) return
  count(state, fault)
  if (read.again) return
  answer(state.answers, read.qp, read.psn, FAULTS[fault]!.code)
  failQueuePair(state, read.qp)
  run(state.list)
}

/** Finds where the bytes are, and verifies the copy that is served. */
function findSource(state: State, read: WaitingRead, region: Region): Fault {
  if (region.kind === KIND_BYTES) {
    source.from = NVDIMM_SPACE + region.at
    source.end = region.areaBytes
    source.offset = byteOffset(region, read.vaHigh, read.vaLow, read.length)
    return readable(state, source.from + source.offset, read.length) ? PASS : UNREADABLE
  }
  const view = viewOf(read.vaLow)
  const slot = read.vaHigh
  source.offset = offsetOf(read.vaLow)
  if (view >= VIEW_FIRST_COPY) {
    source.from = slotAddress(region, view - VIEW_FIRST_COPY, slot)
    source.end = imageBytes(region.capacity)
    // A copy that the medium lost shows as zeros, which no reader takes for a copy (D-3).
    if (!readable(state, source.from, source.end)) source.from = -1
    return PASS
  }
  const copyServed = settledCopy(state, region, slot)
  if (copyServed < 0) return view === VIEW_SETTLED ? PASS : UNSETTLED_READ
  const length = state.examination.copies[copyServed]!.header.length
  const from = slotAddress(region, copyServed, slot)
  source.from = view === VIEW_SETTLED ? from : from + SLOT_HEADER_BYTES
  source.end = view === VIEW_SETTLED ? SLOT_HEADER_BYTES + length : length
  return PASS
}

/** The first copy in write order that is valid, or -1. Usually the first one looked at. */
export function settledCopy(state: State, region: Region, slot: number): number {
  if (region.unsettled > 0 && isLost(state.superblock, region.id, slot)) return -1
  const { list, words, examination } = state
  const held = heldIntent(state.commit.held, region, slot)
  for (let c = firstCopy(state.commit, region, slot); c < region.copies; c++) {
    examineCopies(list, words, examination, region, slot, c, c + 1)
    const { valid, header } = examination.copies[c]!
    if (valid && (held === null || !sequenceAfter(held, header))) return c
  }
  return -1
}

/**
 * Sends the response packets. False if the medium could not deliver; the responses stop where it
 * did, and the NAK of the caller says so.
 */
function respond(state: State, read: WaitingRead): boolean {
  const qp = read.qp
  const answers = state.answers
  const packets = packetsOf(read.length, qp.pathMtu)
  answers.failed = false
  for (let i = 0; i < packets && !answers.failed; i++) {
    const at = i * qp.pathMtu
    const length = Math.min(qp.pathMtu, read.length - at)
    respondPacket(state, read, i, packets, source.offset + at, length)
  }
  return run(state.list) < 0 && !answers.failed
}

/** Can every byte be delivered? Asked before the first response leaves. */
function readable(state: State, from: number, length: number): boolean {
  compare(state.list, from, from, length)
  return run(state.list) < 0
}

function respondPacket(
  state: State,
  read: WaitingRead,
  index: number,
  packets: number,
  offset: number,
  length: number,
): void {
  const qp = read.qp
  const answers = state.answers
  const first = index === 0
  const last = index === packets - 1
  let opcode = RC_READ_RESPONSE_MIDDLE
  if (first) opcode = last ? RC_READ_RESPONSE_ONLY : RC_READ_RESPONSE_FIRST
  else if (last) opcode = RC_READ_RESPONSE_LAST
  const pad = -length & 3
  const headers = first || last ? AETH_BYTES : 0
  const behind = headers + length + pad
  const end = beginFrame(answers, qp, opcode, psnAdd(read.psn, index), behind, pad)
  if (headers > 0) writeAck(qp, answers.bytes, end)
  const at = end + headers
  const held = source.from < 0 ? 0 : Math.min(length, Math.max(0, source.end - offset))
  if (held > 0) copy(state.list, source.from + offset, at, held)
  if (length + pad > held) copy(state.list, ZEROS_AT, at + held, length + pad - held)
  endFrame(answers, qp, end, behind)
}
