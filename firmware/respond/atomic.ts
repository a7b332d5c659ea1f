// hot path
/**
 * FETCH-ADD, COMPARE-SWAP and ATOMIC WRITE (IBTA 9.4.5; annex A19).
 *
 * Invariants:
 * - Key and bounds are judged before alignment, as Linux does (wire-format 4); the word is the
 *   machine's own, the operands and the original are numbers of the wire; ATOMIC WRITE stores its
 *   eight bytes as they came (wire-format 1.3).
 * - What an atomic found is kept in packet memory until RESPONDER_RESOURCES others have come: a
 *   duplicate is answered from there, and nothing is executed twice.
 */

import { append, copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, MESSAGE_LENGTH, PASS } from '../board/fault.ts'
import { COMPARE_SWAP, FETCH_ADD } from '../board/hal.ts'
import { ORIGINAL_BYTES } from '../board/memory-map.ts'
import { noteStore, store } from '../burst/burst.ts'
import type { BurstContext, BurstState, ServeContext, ThroughState } from '../burst/context.ts'
import { accessOf, locateWord, WORD_BYTES } from '../engine/locate.ts'
import {
  PLACEMENT_THROUGH,
  REMOTE_ATOMIC,
  REMOTE_WRITE,
  type Region,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'
import {
  ASKS_WORD,
  beginCached,
  endCached,
  isAwaited,
  noteCached,
  storeCached,
} from '../placement/write-back.ts'
import { beginFrame, endFrame, psnOwnerOf, writeAck } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import type { Ordered } from '../transport/message.ts'
import {
  KIND_ATOMIC,
  KIND_ATOMIC_WRITE,
  nextSaved,
  type QueuePair,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { AETH_BYTES } from '../wire/aeth.ts'
import { ATOMIC_ACK_BYTES, ATOMIC_SWAP_HIGH, readAtomic } from '../wire/atomic.ts'
import { type OpcodeRow, RC_ATOMIC_ACK, RC_COMPARE_SWAP } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { addResponse } from './ordered.ts'

/** Accepts a FETCH-ADD or COMPARE-SWAP of the expected PSN. A fault has changed nothing. */
export function receiveAtomic(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { atomic, located } = state
  const at = packet.bthAt + row.atomicAt
  readAtomic(atomic, state.bytes, at)
  let fault = accessOf(state, qp, atomic.rkey, REMOTE_ATOMIC)
  if (fault !== PASS) return fault
  const region = located.region!
  fault = locateWord(state, region, atomic.vaHigh, atomic.vaLow)
  if (fault !== PASS) return fault
  const saved = nextSaved(qp)
  saved.kind = KIND_ATOMIC
  saved.psn = packet.psn
  saved.packets = 1
  advance(qp, packet, 1, true)
  const item = addResponse(state, qp, KIND_ATOMIC, packet, region)
  item.length = WORD_BYTES
  item.form = packet.opcode
  item.at = at + ATOMIC_SWAP_HIGH
  item.to = located.from + located.offset
  item.originalAt = saved.originalAt
  if ((region.flags & WRITE_PERSIST_REGION) !== 0) item.since = 0
  return PASS
}

/** Accepts an ATOMIC WRITE of the expected PSN. A fault has changed nothing: see write.ts. */
export function receiveAtomicWrite(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { reth, located } = state
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  if (reth.length !== WORD_BYTES) return MESSAGE_LENGTH
  let fault = accessOf(state, qp, reth.rkey, REMOTE_WRITE)
  if (fault !== PASS) return fault
  const region = located.region!
  const durable = (region.flags & WRITE_PERSIST_REGION) !== 0
  const cached = region.placement === PLACEMENT_THROUGH
  const { psn } = packet
  // One that comes again may be without its address, and has been judged.
  const isBare = cached && (reth.vaHigh | reth.vaLow) === 0
  const isAgain = isBare && isAwaited(qp, psn, ASKS_WORD, region)
  if (!isAgain) fault = locateWord(state, region, reth.vaHigh, reth.vaLow)
  const to = isAgain ? qp.cached.start : located.from + located.offset
  if (fault === PASS && durable && cached) fault = storeWordCached(state, qp, packet, region, to)
  if (fault !== PASS) return fault
  advance(qp, packet, 1, true)
  const item = addResponse(state, qp, KIND_ATOMIC_WRITE, packet, region)
  item.length = WORD_BYTES
  item.at = packet.payloadAt
  item.to = to
  // The host's CPU has written it back already.
  item.stored = durable && cached
  if (durable && !cached) item.since = 0
  return PASS
}

/** A word that the host's CPU writes back: PASS when it has. */
function storeWordCached(
  state: BurstContext & ThroughState,
  qp: QueuePair,
  { psn, payloadAt }: Packet,
  region: Region,
  to: number,
): Fault {
  beginCached(state, qp, to)
  const fault = endCached(state, qp, psn, ASKS_WORD, region, payloadAt, to, WORD_BYTES)
  qp.cached.messageFrom = -1
  return fault
}

/** Executes a FETCH-ADD or COMPARE-SWAP. */
export function executeAtomic(state: BoardState & BurstState, item: Ordered): void {
  const list = state.list
  const op = item.form === RC_COMPARE_SWAP ? COMPARE_SWAP : FETCH_ADD
  list.owner = psnOwnerOf(item.qp, item.psn)
  append(list, op, item.at, item.to, WORD_BYTES, item.originalAt)
  list.owner = 0
  noteStore(state, item.qp)
}

/** Executes an ATOMIC WRITE: eight bytes on a boundary of eight never tear. */
export function storeWord(state: BurstContext & ThroughState, item: Ordered): void {
  const { qp, psn, at, to, region } = item
  if (region!.placement !== PLACEMENT_THROUGH) {
    store(state, qp, psn, at, to, WORD_BYTES)
    return
  }
  noteCached(state, qp, to, WORD_BYTES)
  storeCached(state, qp, psn, at, to, WORD_BYTES)
}

/** The response of an atomic, from what is kept: the first one, or the same again. */
export function answerAtomic(
  state: FrameContext,
  qp: QueuePair,
  psn: number,
  msn: number,
  originalAt: number,
): void {
  const answers = state.answers
  const behind = AETH_BYTES + ATOMIC_ACK_BYTES
  const end = beginFrame(answers, qp, RC_ATOMIC_ACK, psn, behind, 0)
  writeAck(answers.bytes, end, msn)
  copy(state.list, originalAt, end + AETH_BYTES, ORIGINAL_BYTES)
  endFrame(answers, qp, end, behind)
}
