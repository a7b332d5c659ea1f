// hot path
/**
 * The initiating side of the firmware: its own requests on a queue pair, by the same requester that
 * the host driver has (transport/requester.ts). A DPU is responder and requester at once.
 *
 * Invariants:
 * - What a piece of work sends stays where it is, untouched, until its owner hears of its end: a
 *   repetition reads it again.
 * - Every piece of work ends exactly once, also when its queue pair fails, is closed, or its place
 *   is taken by another.
 * - Frames leave through the command list like answers, so nothing that is sent overtakes a fence
 *   that was composed before it.
 */

import { copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, PASS, UNEXPECTED_RESPONSE } from '../board/fault.ts'
import { ZEROS_AT } from '../board/memory-map.ts'
import { beginFrame, endFrame } from '../transport/acknowledge.ts'
import { takeResponse } from '../transport/completer.ts'
import type { FrameContext } from '../transport/context.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { requestOpcode } from '../transport/request-opcode.ts'
import { flushRequester, READ, type Request } from '../transport/requester.ts'
import { nextTimerUs, takeCongestion, tick } from '../transport/sender.ts'
import { writeAtomic } from '../wire/atomic.ts'
import { writeBseth } from '../wire/block-size.ts'
import { BTH_ACK_REQUEST, BTH_BYTES, BTH_FLAGS } from '../wire/bth.ts'
import { putU32 } from '../wire/bytes.ts'
import { writeFeth } from '../wire/feth.ts'
import { writeMseth } from '../wire/memory-status.ts'
import { OPCODES, type OpcodeRow, PAYLOAD_NONE } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  ADDRESS_EXTENSION_BYTES,
  CONDITION_EXPECT,
  EXPECT_EXTENSION_BYTES,
  GUARD_EXTENSION_BYTES,
  type Pweth,
  writePweth,
} from '../wire/persist.ts'
import { blankPqeth, writePqeth } from '../wire/persist-query.ts'
import { writePfeth } from '../wire/prefetch.ts'
import { blankReth, type Reth, writeReth } from '../wire/reth.ts'
import type { RequestState, WorkContext } from './context.ts'
import { failQueuePair } from './staging.ts'
import type { Initiator, Work } from './work.ts'

/** Bits of BTH that `beginFrame` leaves 0. */
const ACK_WANTED = 0x80
const SOLICITED = 0x80

/** The initiator of the queue pair, or null; also where there is no queue pair. */
export function findInitiator(state: RequestState, qp: QueuePair | null): Initiator | null {
  for (let i = 0; i < state.initiators.length; i++) {
    const one = state.initiators[i]!
    if (one.qp === qp) return one
  }
  return null
}

/** Takes it out of the table. */
export function removeInitiator(state: RequestState, index: number): void {
  const last = state.initiators.pop()!
  if (index < state.initiators.length) state.initiators[index] = last
}

/** A response on the queue pair: to one of our requests, or to none. */
export function receiveResponse(
  state: BoardState & RequestState,
  qp: QueuePair,
  packet: Packet,
  now: number,
): Fault {
  const initiator = findInitiator(state, qp)
  if (initiator === null) return UNEXPECTED_RESPONSE
  const { ghosts } = initiator.requester.counts
  takeResponse(initiator.requester, state.bytes, packet, now)
  return initiator.requester.counts.ghosts === ghosts ? PASS : UNEXPECTED_RESPONSE
}

/** The network asks us to send less on the queue pair (wire-format 3.9). */
export function receiveCongestion(state: RequestState, qp: QueuePair, now: number): void {
  const initiator = findInitiator(state, qp)
  if (initiator !== null) takeCongestion(initiator.requester, now)
}

/**
 * Lets time pass and sends what may go. Returns the microseconds after which it wants to be called
 * again, or 0.
 */
export function serveInitiators(state: WorkContext, now: number): number {
  let atUs = Infinity
  for (let i = state.initiators.length - 1; i >= 0; i--) {
    const one = state.initiators[i]!
    const { requester, qp } = one
    const open = qp.state === STATE_OPEN && state.queuePairs.places[qp.index] === qp
    if (open) tick(requester, now)
    else flushRequester(requester)
    if (requester.failed) endInitiator(state, i, open)
    else atUs = Math.min(atUs, nextTimerUs(requester))
  }
  return atUs === Infinity ? 0 : Math.max(1, Math.ceil(atUs - now))
}

/** Everything that it had to do has ended; a peer that does not answer is as one that is gone. */
function endInitiator(state: WorkContext, index: number, open: boolean): void {
  if (open) failQueuePair(state, state.initiators[index]!.qp)
  removeInitiator(state, index)
}

/** Sends one packet of a request. Of a READ, `index` path MTUs are here already. */
export function emit(
  state: FrameContext,
  qp: QueuePair,
  work: Work,
  request: Request,
  index: number,
  psn: number,
  ackRequest: boolean,
): void {
  const { answers } = state
  const { bytes } = answers
  const opcode = requestOpcode(request.kind, index, request.packetCount)
  const row = OPCODES[opcode]!
  const offset = index * qp.pathMtu
  const left = row.payload === PAYLOAD_NONE ? 0 : work.length - offset
  const length = left < qp.pathMtu ? left : qp.pathMtu
  const pad = -length & 3
  const extended = row.pwethAt > 0 ? extensionsOf(work) : 0
  const headers = row.headerBytes + extended - BTH_BYTES
  const behind = headers + length + pad
  const end = beginFrame(answers, qp, opcode, psn, behind, pad)
  const bth = end - BTH_BYTES
  if (ackRequest) bytes[bth + BTH_ACK_REQUEST] = ACK_WANTED
  if (work.solicited && row.ends) bytes[bth + BTH_FLAGS]! |= SOLICITED
  if (request.kind === READ) writeRest(bytes, bth + row.rethAt, work.reth, offset)
  else if (row.rethAt > 0) writeReth(bytes, bth + row.rethAt, work.reth)
  if (row.pwethAt > 0) writePweth(bytes, bth + row.pwethAt, work.pweth)
  if (row.immAt > 0) putU32(bytes, bth + row.immAt, work.immediate)
  if (extended > 0) writeExtensions(bytes, bth + row.headerBytes, extended, work)
  writeRareHeaders(bytes, bth, row, work)
  const at = end + headers
  if (length > 0) copy(state.list, work.from + offset, at, length)
  if (pad > 0) copy(state.list, ZEROS_AT, at + length, pad)
  endFrame(answers, qp, end, behind)
}

const rest = blankReth()

/** A READ asks for what is not here yet. */
function writeRest(bytes: Uint8Array, at: number, reth: Reth, skipped: number): void {
  const low = reth.vaLow + skipped
  rest.vaHigh = (reth.vaHigh + (low >= 2 ** 32 ? 1 : 0)) >>> 0
  rest.vaLow = low >>> 0
  rest.rkey = reth.rkey
  rest.length = reth.length - skipped
  writeReth(bytes, at, rest)
}

function extensionsOf({ pweth, extensionCount }: Work): number {
  const guard = pweth.guarded ? GUARD_EXTENSION_BYTES : 0
  if (expects(pweth)) return EXPECT_EXTENSION_BYTES + guard
  return extensionCount * ADDRESS_EXTENSION_BYTES + guard
}

function expects({ batch, condition }: Pweth): boolean {
  return batch && condition === CONDITION_EXPECT
}

/** Extensions of so many bytes; the guard stands last. */
function writeExtensions(bytes: Uint8Array, at: number, length: number, work: Work): void {
  const { pweth } = work
  if (pweth.guarded) putU32(bytes, at + length - GUARD_EXTENSION_BYTES, work.guard)
  if (expects(pweth)) {
    putU32(bytes, at, work.expectHigh)
    putU32(bytes, at + 4, work.expectLow)
    return
  }
  for (let i = 0; i < work.extensionCount; i++) {
    writeReth(bytes, at + i * ADDRESS_EXTENSION_BYTES, work.extensions[i]!)
  }
}

const rarePqeth = blankPqeth()

/** The headers of requests of which few are made. */
function writeRareHeaders(bytes: Uint8Array, bth: number, row: OpcodeRow, work: Work): void {
  if (row.fethAt > 0) writeFeth(bytes, bth + row.fethAt, work.feth)
  if (row.iethAt > 0) putU32(bytes, bth + row.iethAt, work.immediate)
  if (row.atomicAt > 0) writeAtomic(bytes, bth + row.atomicAt, work.atomic)
  if (row.msethAt > 0) writeMseth(bytes, bth + row.msethAt, work.mseth)
  if (row.bsethAt > 0) writeBseth(bytes, bth + row.bsethAt, work.bseth)
  if (row.pfethAt > 0) writePfeth(bytes, bth + row.pfethAt, work.pfeth)
  if (row.pqethAt === 0) return
  rarePqeth.operationHigh = work.pweth.operationHigh
  rarePqeth.operationLow = work.pweth.operationLow
  writePqeth(bytes, bth + row.pqethAt, rarePqeth)
}
