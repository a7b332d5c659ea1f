// hot path
/**
 * The card hears for its host how the memory at a peer is (source 5; P5-2, P5-5, P5-6, P5-11): what
 * a driver over frames does itself, by the same engine (residency/blocks.ts).
 *
 *   peer ──MEMORY_STATUS, BLOCK_SIZE──▶ a watch ──EVENT_RESIDENCY──▶ host ──RESIDENCY──▶ its states
 *   host ──ASSOCIATE, BLOCK_SIZE, PREFETCH_HINT (queues/status.ts)──▶ peer
 *
 * Invariants:
 * - A watch is of one pair of the host and one key. It begins when ASSOCIATE is posted, so that no
 *   notice comes before it, and ends with its pair, by opting out, or with a refusal.
 * - What is told under a key that nobody watches is acknowledged and forgotten.
 * - Where a notice was not heard the card asks again by itself: the host needs to know nothing of
 *   it.
 * - The host is told once that there is something new, however much comes until it asks.
 */

import type { BoardState } from '../board/context.ts'
import { DUPLICATE, DUPLICATE_FORGOTTEN, type Fault, PASS, RESIDENCY_FORM } from '../board/fault.ts'
import { HINTED_US, WATCHES } from '../board/limits.ts'
import { touch } from '../burst/burst.ts'
import type { BurstContext, QueueState, ServeContext, WorkContext } from '../burst/context.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import { submit, takeWork, type WorkOwner } from '../burst/work.ts'
import { postEvent } from '../host/events.ts'
import { EVENT_RESIDENCY } from '../host/header-page.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { createWatched, type HostPair, NO_BLOCKS, type Watch } from '../host/work.ts'
import { associated, type Blocks } from '../residency/blocks.ts'
import {
  ASK_AGAIN_US,
  isAsking,
  isNotice,
  nextAskUs,
  takeNotice,
  want,
} from '../residency/heard.ts'
import { nextHintedBlocks } from '../residency/hints.ts'
import { answerProposal, isBlockSize, takeWishAnswer } from '../residency/wish.ts'
import { isWithheld } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { BLOCK_SIZE, type Request } from '../transport/requester.ts'
import { advance } from '../transport/responder.ts'
import { blankBseth, clearBseth, readBseth } from '../wire/block-size.ts'
import { u32 } from '../wire/bytes.ts'
import { blankMseth, readMseth } from '../wire/memory-status.ts'
import { MEMORY_STATUS, type OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { RETH_RKEY } from '../wire/reth.ts'
import { answerSize } from './associate.ts'

/** How soon a question for which there is no room is tried again, µs. */
const ROOM_US = 1_000

// ---- beginning and end -------------------------------------------------------------------------

/** The watch of the pair under that key, or null. */
export function findWatch(state: QueueState, pair: HostPair, rkey: number): Watch | null {
  const { watches } = state.hostWork
  for (let i = 0; i < WATCHES; i++) {
    const watch = watches[i]!
    if (watch.pair === pair && watch.rkey === rkey) return watch
  }
  return null
}

/** Begins one, or begins it again; false if there is no place for another. Nothing is known. */
export function beginWatch(
  state: HostState & QueueState,
  pair: HostPair,
  rkey: number,
  vaHigh: number,
  vaLow: number,
  length: number,
): boolean {
  const watch = findWatch(state, pair, rkey) ?? freeWatch(state)
  if (watch === null) return false
  if (watch.pair === null) state.hostWork.followed += 1
  // Taken once, when its place is used for the first time.
  if (watch.blocks === NO_BLOCKS) watch.blocks = createWatched()
  const { blocks } = watch
  watch.pair = pair
  watch.rkey = rkey
  watch.vaHigh = vaHigh
  watch.vaLow = vaLow
  watch.isTold = false
  associated(blocks, length, pair.incarnation)
  want(blocks, state.host.nowUs + ASK_AGAIN_US)
  watch.revision = blocks.revision
  return true
}

/** One whose last question is still under way is not free: its answer would be another's. */
function freeWatch(state: QueueState): Watch | null {
  const { watches } = state.hostWork
  for (let i = 0; i < WATCHES; i++) {
    const watch = watches[i]!
    if (watch.pair === null && !watch.isAsking) return watch
  }
  return null
}

export function endWatch(state: QueueState, pair: HostPair, rkey: number): void {
  const watch = findWatch(state, pair, rkey)
  if (watch === null) return
  watch.pair = null
  state.hostWork.followed -= 1
}

/** The pair is no more. */
export function endWatches(state: QueueState, pair: HostPair): void {
  const { watches } = state.hostWork
  for (let i = 0; i < WATCHES; i++) {
    if (watches[i]!.pair === pair) endWatch(state, pair, watches[i]!.rkey)
  }
}

// ---- what the peer says ------------------------------------------------------------------------

const mseth = blankMseth()
const bseth = blankBseth()
const statusAnswer = blankBseth()

/** The watch that a BLOCK_SIZE of the peer is about, or null: then it asks about our memory. */
function watchOf(
  state: BoardState & QueueState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Watch | null {
  const pair = state.hostWork.pairs[qp.index]!
  if (pair.qp !== qp) return null
  return findWatch(state, pair, u32(state.bytes, packet.bthAt + row.rethAt + RETH_RKEY))
}

/** Is the request about memory of the peer: does it tell, rather than ask? */
export function isTelling(
  state: BoardState & QueueState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): boolean {
  if (row.opcode === MEMORY_STATUS) return state.hostWork.pairs[qp.index]!.qp === qp
  return row.bsethAt > 0 && watchOf(state, qp, packet, row) !== null
}

/**
 * Takes MEMORY_STATUS, or BLOCK_SIZE about memory that is watched, of the expected PSN. A fault
 * that is returned has changed nothing.
 */
export function receiveTold(
  state: BurstContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const { bytes } = state
  if (row.bsethAt > 0) {
    readBseth(bseth, bytes, packet.bthAt + row.bsethAt)
    if (!isBlockSize(bseth)) return RESIDENCY_FORM
    advance(qp, packet, 1, true)
    qp.ackDue = false
    touch(state, qp)
    answerOffer(state, qp, packet, row)
    return PASS
  }
  readMseth(mseth, bytes, packet.bthAt + row.msethAt)
  const { payloadAt, payloadLength } = packet
  if (!isNotice(mseth, bytes, payloadAt, payloadLength)) return RESIDENCY_FORM
  advance(qp, packet, 1, true)
  touch(state, qp)
  const watch = findWatch(state, state.hostWork.pairs[qp.index]!, mseth.rkey)
  if (watch !== null) takeNotice(watch.blocks, mseth, bytes, payloadAt, now)
  return PASS
}

/** A BLOCK_SIZE that was taken before is answered alike: the size is in force, or still is not. */
export function repeatTold(
  state: FrameContext & QueueState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  readBseth(bseth, state.bytes, packet.bthAt + row.bsethAt)
  // What waits for its own answer would be acknowledged with it.
  if (qp.unanswered > 0 || isWithheld(state.answers, qp)) return DUPLICATE_FORGOTTEN
  if (!isBlockSize(bseth)) return DUPLICATE_FORGOTTEN
  answerOffer(state, qp, packet, row)
  return DUPLICATE
}

/** The peer proposes a size. */
function answerOffer(
  state: FrameContext & QueueState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): void {
  statusAnswer.maximum = bseth.maximum
  statusAnswer.threshold = bseth.threshold
  statusAnswer.periodUs = bseth.periodUs
  answerProposal(watchOf(state, qp, packet, row)!.blocks, bseth, statusAnswer)
  answerSize(state, qp, packet.psn, statusAnswer)
}

// ---- in turns ----------------------------------------------------------------------------------

/** Asks, and tells the host. The µs after which it wants to be called again; 0 is never. */
export function serveWatches(state: ServeContext, now: number): number {
  const { watches } = state.hostWork
  let atUs = Infinity
  for (let i = 0; i < WATCHES; i++) {
    const watch = watches[i]!
    const { pair } = watch
    if (pair === null || pair.qp === null || pair.qp.state !== STATE_OPEN) continue
    const { blocks } = watch
    if (!watch.isAsking && isAsking(blocks, now)) askStatus(state, pair, watch, i, now)
    if (blocks.revision !== watch.revision && !watch.isTold) tellHost(state, pair, watch)
    const wantsUs = watch.isAsking ? Infinity : nextAskUs(blocks)
    if (wantsUs < atUs) atUs = wantsUs
  }
  if (atUs === Infinity) return 0
  return Math.max(1, Math.ceil(atUs - now))
}

function tellHost(state: HostContext, pair: HostPair, watch: Watch): void {
  watch.isTold = true
  postEvent(state.host, state.list, EVENT_RESIDENCY, pair.send, watch.rkey)
}

/** Asks for the current status, without a wish: the size in force stays what it is. */
function askStatus(
  state: WorkContext,
  pair: HostPair,
  watch: Watch,
  item: number,
  now: number,
): void {
  const initiator = openInitiator(state, pair.qp!, pair)
  const work = takeWork(initiator)
  if (work === null) {
    want(watch.blocks, now + ROOM_US)
    return
  }
  const { reth } = work
  reth.vaHigh = 0
  reth.vaLow = 0
  reth.rkey = watch.rkey
  reth.length = 0
  work.length = 0
  work.solicited = false
  clearBseth(work.bseth)
  work.bseth.current = true
  watch.isAsking = true
  submit(initiator!, work, BLOCK_SIZE, QUESTIONS, item)
}

const QUESTIONS: WorkOwner = {
  received() {},
  done(state: BoardState & QueueState, work, request) {
    const watch = state.hostWork.watches[work.item]!
    watch.isAsking = false
    if (watch.pair !== null && request.status === 'SUCCESS') takeSize(watch.blocks, request)
  },
}

/** An answer of the peer about the size of a block. */
export function takeSize(blocks: Blocks, request: Request): void {
  if (isBlockSize(request.size)) takeWishAnswer(blocks, request.size)
}

// ---- hints -------------------------------------------------------------------------------------

/**
 * Is a hint at these bytes of no use: are they ready, hinted at just now, or is nothing known of
 * them (P5-6, P5-15)? Those that it is of use for count as hinted at.
 */
export function isVain(
  watch: Watch,
  vaHigh: number,
  vaLow: number,
  length: number,
  now: number,
): boolean {
  const { blocks } = watch
  const offset = (vaHigh - watch.vaHigh) * 2 ** 32 + (vaLow - watch.vaLow)
  // What is not watched the peer judges.
  if (offset < 0 || offset + length > blocks.length) return false
  let vain = true
  while (nextHintedBlocks(blocks, offset, length, now, HINTED_US)) vain = false
  if (vain) blocks.counts.spared++
  return vain
}
