/**
 * Requests whose PSN was taken before (X-3, G2-2; wire-format 3.5; faults N2, N3, N9).
 *
 * Invariants:
 * - A duplicate changes no memory. A message is acknowledged as received; a record is acknowledged
 *   as durable again only if its PSN *and* its operation id are those remembered.
 * - A READ is answered again from what is there now, and only if it lies inside one that was
 *   accepted; an atomic from the original that was kept; FLUSH and ATOMIC WRITE because a request
 *   of that kind had that PSN: Linux repeats them without their address (wire-format 9.4).
 * - What is answered again stands in line with what was accepted in this burst, so answers leave in
 *   the order of the requests; what still waits for its first answer is not answered twice. What
 *   cannot be answered yet is to come again, and so is all that the peer sent behind it: no
 *   acknowledgement passes it.
 */

import { count } from '../board/context.ts'
import {
  DUPLICATE,
  DUPLICATE_FORGED,
  DUPLICATE_FORGOTTEN,
  type Fault,
  HELD_BACK,
  PAGE_ABSENT,
  PASS,
} from '../board/fault.ts'
import { touch } from '../burst/burst.ts'
import type { AcceptContext, BurstState, OrderedState, ServeContext } from '../burst/context.ts'
import { repeatBatch } from '../engine/batch-status.ts'
import { isKnown } from '../engine/operation.ts'
import { answerRecord, copiesIn } from '../engine/receipt.ts'
import { findRegion, PLACEMENT_THROUGH } from '../medium/region.ts'
import { repeatResidency } from '../status/associate.ts'
import { isTelling, repeatTold } from '../status/hearing.ts'
import { answerDuplicate, isWithheld } from '../transport/acknowledge.ts'
import { packetsOf, psnAdd, psnDistance } from '../transport/psn.ts'
import {
  KIND_ATOMIC,
  KIND_ATOMIC_WRITE,
  KIND_FLUSH,
  type QueuePair,
  recall,
  requestKindOf,
  type SavedRequest,
  savedAround,
  savedAt,
} from '../transport/queue-pair.ts'
import {
  ATOMIC,
  ATOMIC_WRITE,
  FLUSH,
  has,
  type OpcodeRow,
  PERSIST,
  QUERY,
  READ,
  RESIDENCY,
  WRITE,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readPweth } from '../wire/persist.ts'
import { type Reth, readReth } from '../wire/reth.ts'
import { addOrdered } from './ordered.ts'
import { repeatQuery } from './query.ts'
import { receiveRead } from './read.ts'

/**
 * Answers it. DUPLICATE; DUPLICATE_FORGOTTEN if nothing is known to answer it with; PAGE_ABSENT if
 * it is to come again, as what it reads is away now; HELD_BACK if it is, as a long READ is answered
 * first.
 */
export function receiveDuplicate(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const is = row.properties
  if (qp.stream.accepted && psnDistance(packet.psn, qp.stream.endPsn) < 0x800000) return HELD_BACK
  if (has(is, READ)) return repeatRead(state, qp, packet, row)
  if (has(is, ATOMIC)) return repeatAtomic(state, qp, packet.psn)
  if (has(is, FLUSH)) return repeatDone(state, qp, packet.psn, KIND_FLUSH)
  if (has(is, ATOMIC_WRITE)) return repeatDone(state, qp, packet.psn, KIND_ATOMIC_WRITE)
  if (has(is, QUERY)) return repeatQuery(state, qp, packet, row)
  if (has(is, RESIDENCY) && row.bsethAt > 0) {
    if (isTelling(state, qp, packet, row)) return repeatTold(state, qp, packet, row)
    return repeatResidency(state, qp, packet, row)
  }
  if (has(is, PERSIST) && row.begins) repeatReceipt(state, qp, packet, row)
  if (has(is, WRITE) && row.begins && qp.speaksPersist) repeatRecord(state, qp, packet, row)
  const waits = qp.unanswered > 0 && !qp.stream.accepted
  if (!waits && !isWithheld(state.answers, qp)) {
    answerDuplicate(state.answers, qp, packet.psn)
    return DUPLICATE
  }
  // Answers in front of it come first.
  qp.repeatDue = packet.psn
  touch(state, qp)
  return DUPLICATE
}

/** Is the request of that PSN waiting for its first answer? */
function isWaiting(state: OrderedState, qp: QueuePair, psn: number): boolean {
  for (let i = 0; i < state.orderedCount; i++) {
    const item = state.ordered[i]!
    if (item.qp === qp && item.psn === psn && !item.again) return true
  }
  return false
}

/** A READ again: its response, or a part of it, was lost. */
function repeatRead(state: ServeContext, qp: QueuePair, packet: Packet, row: OpcodeRow): Fault {
  const reth = state.reth
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const saved = savedAround(qp, packet.psn)
  if (saved === null || !isPart(qp, saved, packet.psn, reth)) return DUPLICATE_FORGOTTEN
  if (isWaiting(state, qp, saved.psn)) return DUPLICATE
  const stream = qp.stream
  if (stream.accepted && saved.psn === stream.savedPsn) {
    // Its turn is to come.
    if (!stream.active) return DUPLICATE
    // The peer lost what came from here on.
    stream.psn = packet.psn
    stream.from = stream.savedFrom + psnDistance(packet.psn, saved.psn) * qp.pathMtu
    stream.length = reth.length
    stream.packets = packetsOf(reth.length, qp.pathMtu)
    stream.sent = 0
    // Who waits for a page hears of it, or it would take the card for one that is gone.
    return stream.paused ? PAGE_ABSENT : DUPLICATE
  }
  const fault = receiveRead(state, qp, packet, row, true)
  if (fault === PASS) return DUPLICATE
  return fault === PAGE_ABSENT || fault === HELD_BACK ? fault : DUPLICATE_FORGOTTEN
}

/** Does the READ in `reth` ask for what that one asked for from that PSN on, and no more? */
function isPart(qp: QueuePair, saved: SavedRequest, psn: number, reth: Reth): boolean {
  const begun = psnDistance(psn, saved.psn) * qp.pathMtu
  if (saved.length === 0) return reth.length === 0
  if (reth.rkey !== saved.rkey || reth.length === 0) return false
  const ahead = (reth.vaHigh - saved.vaHigh) * 2 ** 32 + (reth.vaLow - saved.vaLow)
  return ahead === begun && reth.length <= saved.length - begun
}

function repeatAtomic(state: BurstState & OrderedState, qp: QueuePair, psn: number): Fault {
  if (isWaiting(state, qp, psn)) return DUPLICATE
  const saved = savedAt(qp, psn, KIND_ATOMIC)
  if (saved === null) return DUPLICATE_FORGOTTEN
  addOrdered(state, qp, KIND_ATOMIC, psn, null, true).originalAt = saved.originalAt
  return DUPLICATE
}

/** FLUSH or ATOMIC WRITE: what it asked for is done. */
function repeatDone(
  state: BurstState & OrderedState,
  qp: QueuePair,
  psn: number,
  kind: number,
): Fault {
  if (isWaiting(state, qp, psn)) return DUPLICATE
  if (requestKindOf(qp, psn) !== kind) return DUPLICATE_FORGOTTEN
  addOrdered(state, qp, kind, psn, null, true)
  return DUPLICATE
}

/** A record again: the same receipt again, if it is the same operation. */
function repeatReceipt(state: AcceptContext, qp: QueuePair, packet: Packet, row: OpcodeRow): void {
  const { reth, pweth } = state
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  readPweth(pweth, state.bytes, packet.bthAt + row.pwethAt)
  const total = reth.length * (pweth.carried ? pweth.furtherCopies + 1 : 1)
  const lastPsn = psnAdd(packet.psn, packetsOf(total, qp.pathMtu) - 1)
  if (pweth.batch) {
    repeatBatch(state, qp, lastPsn, pweth)
    return
  }
  const place = recall(qp, lastPsn, pweth.operationHigh, pweth.operationLow)
  if (place >= 0) {
    const status = qp.rememberedStatus[place]!
    if (status === 0 && !pweth.wantsAck) return
    const copies = qp.rememberedCopies[place]!
    answerRecord(state, qp, lastPsn, pweth.operationHigh, pweth.operationLow, status, copies)
  } else if (qp.rememberedPsn.includes(lastPsn)) {
    count(state, DUPLICATE_FORGED)
  } else if (isKnown(state, qp, pweth.operationHigh, pweth.operationLow)) {
    // Too long ago for the queue pair, but not for the table. No answer speaks of a PSN to come.
    if (!pweth.wantsAck || psnDistance(lastPsn, qp.expectedPsn) < 0x800000) return
    const region = findRegion(state.regions, reth.rkey)
    if (region === null || region.placement >= PLACEMENT_THROUGH) return
    const copies = copiesIn(region, Math.min(pweth.wait, region.copies))
    answerRecord(state, qp, lastPsn, pweth.operationHigh, pweth.operationLow, 0, copies)
  }
}

/** A plain WRITE of a record again: it has operation 0, and was durable if it is remembered. */
function repeatRecord(state: AcceptContext, qp: QueuePair, packet: Packet, row: OpcodeRow): void {
  const reth = state.reth
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const lastPsn = psnAdd(packet.psn, packetsOf(reth.length, qp.pathMtu) - 1)
  const place = recall(qp, lastPsn, 0, 0)
  if (place < 0 || qp.rememberedStatus[place] !== 0) return
  answerRecord(state, qp, lastPsn, 0, 0, 0, qp.rememberedCopies[place]!)
}
