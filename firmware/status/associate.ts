// hot path
/**
 * What requesters ask about the state of memory (source 5; P5-7 … P5-10, P5-16 … P5-18, P5-29):
 * ASSOCIATE, BLOCK_SIZE and PREFETCH_HINT.
 *
 *   ASSOCIATE    key, range, wish, flags ──▶ granted, in force │ another size is offered │ refused
 *   BLOCK_SIZE   key, another wish, flags ─▶ likewise
 *   PREFETCH_HINT                         ─▶ a plain acknowledgement (prefetch.ts)
 *
 * Invariants:
 * - The key must grant reading, and the range lie inside, as a READ's. A region of records is
 *   addressed by the bytes of its first copy, as a block is one of memory.
 * - A wish that can be had is in force from its answer on; instead of any other the nearest size
 *   is offered, which is not in force until the requester proposes exactly that. Without one the
 *   block is the whole of what was associated.
 * - ASSOCIATE begins the association again, with everything that it says, and where it is refused
 *   nothing is associated, as the answer says: what was before has ended. BLOCK_SIZE changes size
 *   and flags alone.
 * - An answer stands behind everything before its request. A duplicate is answered from what it
 *   asks and what can be had now, and changes nothing.
 */

import type { BoardState } from '../board/context.ts'
import {
  DUPLICATE,
  DUPLICATE_FORGOTTEN,
  type Fault,
  OPCODE,
  PASS,
  RESIDENCY_FORM,
} from '../board/fault.ts'
import { PAGE_BYTES, REGIONS } from '../board/limits.ts'
import { touch } from '../burst/burst.ts'
import type { ResidencyState, ServeContext } from '../burst/context.ts'
import type { MemoryState } from '../medium/context.ts'
import { byteOffset, KIND_ON_DEMAND, PLACEMENT_RELAY, type Region } from '../medium/region.ts'
import {
  type Association,
  askCurrent,
  beginAssociation,
  beginOutage,
  optIn,
  setSize,
} from '../residency/association.ts'
import { beginMeter } from '../residency/meter.ts'
import {
  areBounds,
  judgeWish,
  leastLog2,
  mostLog2,
  nearestLog2,
  PAGE_LOG2,
  suggestedFor,
} from '../residency/size.ts'
import { beginFrame, endFrame, isWithheld, writeAck } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { AETH_BYTES } from '../wire/aeth.ts'
import {
  BLOCK_SIZE_VERSION,
  BSETH_BYTES,
  BSETH_WORDS,
  type Bseth,
  blankBseth,
  clearBseth,
  readBseth,
  SIZE_GRANTED,
  SIZE_REFUSED,
  writeBseth,
} from '../wire/block-size.ts'
import type { WireState } from '../wire/context.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  BLOCK_SIZE_ANSWER,
  type OpcodeRow,
  PREFETCH_HINT,
} from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { hintMemoryFault, judgeHint, keepHint } from './prefetch.ts'
import { findAssociation, releaseAssociation, takeAssociation } from './telling.ts'

const asked = blankBseth()
const sizeAnswer = blankBseth()

/**
 * Takes ASSOCIATE, BLOCK_SIZE or PREFETCH_HINT of the expected PSN; what stands before the first
 * two is settled. A fault that is returned has changed nothing.
 */
export function receiveResidency(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  if (row.opcode === PREFETCH_HINT) return receiveHint(state, qp, packet, row, now)
  const fault = judgeQuestion(state, qp, packet, row)
  if (fault !== PASS) return fault
  advance(qp, packet, 1, true)
  // The answer is the acknowledgement, and of everything before it.
  qp.ackDue = false
  touch(state, qp)
  const region = state.located.region!
  if (row.opcode === ASSOCIATE) associate(state, qp, region)
  else propose(state, findAssociation(state, qp, region))
  answerSize(state, qp, packet.psn, sizeAnswer)
  return PASS
}

/**
 * One that was taken before. Where something in front of it still waits for its own answer, it is
 * passed over: its answer would acknowledge that.
 */
export function repeatResidency(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const waits = qp.unanswered > 0 || isWithheld(state.answers, qp)
  const fault = judgeQuestion(state, qp, packet, row)
  if (waits || fault === RESIDENCY_FORM) return DUPLICATE_FORGOTTEN
  // The region may have ended since; the queue pair goes on, and has other regions.
  const a = fault === PASS ? findAssociation(state, qp, state.located.region!) : null
  if (asked.optOut) answerEnd()
  else if (a === null || saysNothing(state, row)) answerRefusal()
  else answerWish(a, asked.blockSizeLog2)
  answerSize(state, qp, packet.psn, sizeAnswer)
  return DUPLICATE
}

/** Does it associate no bytes at all, or for somebody who takes no size? */
function saysNothing(state: WireState, row: OpcodeRow): boolean {
  return row.opcode === ASSOCIATE && (state.reth.length === 0 || !areCriteria())
}

/** Is it a question of ours: which is one, and about memory that the queue pair may read? */
function judgeQuestion(
  state: BoardState & WireState & MemoryState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { reth, bytes } = state
  if (row.opcode !== ASSOCIATE && row.opcode !== BLOCK_SIZE) return OPCODE
  readReth(reth, bytes, packet.bthAt + row.rethAt)
  readBseth(asked, bytes, packet.bthAt + row.bsethAt)
  const { version, words, reserved, status, optIn: into, optOut: out } = asked
  if (version !== BLOCK_SIZE_VERSION || words !== BSETH_WORDS) return RESIDENCY_FORM
  if (reserved !== 0 || status !== 0 || (into && out)) return RESIDENCY_FORM
  const ranged = row.opcode === ASSOCIATE
  const names = reth.length !== 0 || reth.vaHigh !== 0 || reth.vaLow !== 0
  return !ranged && names ? RESIDENCY_FORM : hintMemoryFault(state, qp)
}

function associate(
  state: WireState & MemoryState & ResidencyState,
  qp: QueuePair,
  region: Region,
): void {
  const { reth } = state
  const found = findAssociation(state, qp, region)
  if (asked.optOut) {
    if (found !== null) releaseAssociation(state, found)
    answerEnd()
    return
  }
  // The memory behind a relay is another card's to tell of; of no bytes there is nothing to tell.
  const own = region.placement !== PLACEMENT_RELAY && reth.length > 0
  const a = own && areCriteria() ? (found ?? takeAssociation(state, qp, region)) : null
  if (a === null) {
    if (found !== null) releaseAssociation(state, found)
    answerRefusal()
    return
  }
  const from = byteOffset(region, reth.vaHigh, reth.vaLow, reth.length)
  beginAssociation(a, reth.rkey, from, reth.length, mostLog2(reth.length))
  a.periodUs = asked.periodUs
  a.threshold = asked.threshold
  a.maximum = asked.maximum
  takeCriteria(a)
  takeWish(a)
  takeFlags(state, a, region)
}

/** BLOCK_SIZE: another proposal, or other flags. */
function propose(state: ResidencyState, a: Association | null): void {
  if (asked.optOut) {
    if (a !== null) releaseAssociation(state, a)
    answerEnd()
    return
  }
  if (a === null) {
    answerRefusal()
    return
  }
  const before = a.sizeLog2
  takeWish(a)
  // Whoever is told of changes knows at once what they are changes of.
  if (a.sizeLog2 !== before && a.optedIn) askCurrent(a)
  if (asked.optIn) optIn(a)
  if (asked.current) askCurrent(a)
}

/** Are the sizes that it takes sizes at all? Without K they say nothing. */
function areCriteria(): boolean {
  return !asked.criteria || areBounds(asked.leastLog2, asked.mostLog2)
}

/** What the requester can do, and what it bears (S1-M12). */
function takeCriteria(a: Association): void {
  if (!asked.criteria) return
  a.leastLog2 = asked.leastLog2
  a.mostLog2 = asked.mostLog2
  beginMeter(a.meter, asked.budgetLog2)
}

/** Puts the wish in force if it can be had, and composes the answer. */
function takeWish(a: Association): void {
  const wish = asked.blockSizeLog2
  if (judgeWish(a.length, wish) === SIZE_GRANTED) {
    if (a.sizeLog2 !== wish) setSize(a, wish)
    a.wishLog2 = wish
    a.committed = true
    a.countered = false
  }
  answerWish(a, wish)
}

/** What the requester of a new association wants to hear. */
function takeFlags(state: MemoryState, a: Association, region: Region): void {
  if (asked.optIn) optIn(a)
  if (asked.current) askCurrent(a)
  const outage = region.kind === KIND_ON_DEMAND ? conditionOf(state, region) : 0
  if (outage !== 0) beginOutage(a, outage)
}

/** What the host has said of the region as a whole: 0 is ready. */
function conditionOf(state: MemoryState, region: Region): number {
  return state.translation.condition[region.index - REGIONS]!
}

// ---- answers -----------------------------------------------------------------------------------

/** Granted, and in force; or the nearest that there is. Without a wish: what is in force. */
function answerWish(a: Association, wish: number): void {
  const keeps = wish === 0 && a.committed
  sizeAnswer.status = keeps ? SIZE_GRANTED : judgeWish(a.length, wish)
  sizeAnswer.commit = sizeAnswer.status === SIZE_GRANTED
  sizeAnswer.blockSizeLog2 = keeps ? a.sizeLog2 : answerTo(a, wish)
  sizeAnswer.leastLog2 = leastLog2(a.length)
  sizeAnswer.mostLog2 = mostLog2(a.length)
  sizeAnswer.maximum = a.maximum
  sizeAnswer.threshold = a.threshold
  sizeAnswer.periodUs = a.periodUs
}

/** The size that is granted or offered to who wishes that. */
function answerTo(a: Association, wish: number): number {
  return wish === 0 ? suggestedFor(a) : nearestLog2(a.length, wish)
}

/** Nothing is associated, as was asked for. */
function answerEnd(): void {
  answerRefusal()
  sizeAnswer.status = SIZE_GRANTED
}

/**
 * Nothing is associated: there is no room, no association, nothing to be told, or no size that the
 * requester takes.
 */
function answerRefusal(): void {
  clearBseth(sizeAnswer)
  sizeAnswer.status = SIZE_REFUSED
}

/** Answers a question, or an offer, of that PSN. */
export function answerSize(state: TransportState, qp: QueuePair, psn: number, from: Bseth): void {
  const { answers } = state
  const behind = AETH_BYTES + BSETH_BYTES
  const end = beginFrame(answers, qp, BLOCK_SIZE_ANSWER, psn, behind, 0)
  from.alignmentLog2 = PAGE_LOG2
  writeAck(answers.bytes, end, qp.messageSequence)
  writeBseth(answers.bytes, end + AETH_BYTES, from)
  endFrame(answers, qp, end, behind)
}

// ---- hints -------------------------------------------------------------------------------------

function receiveHint(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const fault = judgeHint(state, qp, packet, row)
  if (fault !== PASS) return fault
  advance(qp, packet, 1, true)
  touch(state, qp)
  const a = findAssociation(state, qp, state.located.region!)
  keepHint(state, qp, a === null ? PAGE_BYTES : 2 ** a.sizeLog2, now)
  return PASS
}
