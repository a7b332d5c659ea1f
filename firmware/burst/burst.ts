// hot path
/**
 * The one place where the list of a burst is run, and where what failed in it finds its owner.
 *
 * Invariants:
 * - A command that fails refuses the queue pair on whose behalf it stood there, at its PSN, and no
 *   other: the further commands of that queue pair are left out, those of the others are done.
 * - Nothing of a queue pair leaves behind a command of its own that failed, so nothing is
 *   acknowledged or answered that did not happen.
 * - A fence that fails closes the part (fail closed, D-13). Nothing of a queue pair stands behind
 *   one, so nobody else is to be refused by it.
 * - A push behind a fence that fails closes nothing: what the NVDIMM was given is durable. The host
 *   is lost, and who has stored there since the last push is refused; nobody else (fault H4).
 * - A refusal acknowledges what came before it, so before it leaves, stores whose acknowledgement
 *   is withheld are fenced; where that fails, the first of them is what is refused.
 */

import { assert } from '../board/assert.ts'
import {
  copyClean,
  fence,
  isFence,
  isPush,
  OWNER_LEAST,
  resultOf,
  run,
} from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import { FAULTS, type Fault, NOT_DURABLE, PASS, UNREADABLE } from '../board/fault.ts'
import {
  ARMED,
  COMMAND_WORDS,
  HEALTH_AT,
  HOST_SPACE,
  NO_POWER,
  OP,
  OWNER,
  SAVE_FAILED,
  SKIP,
} from '../board/hal.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import { closedBy } from '../commit/closed.ts'
import type { CommitState } from '../commit/context.ts'
import { unprove } from '../commit/proof.ts'
import { answer, isWithheld, psnOwnerOf } from '../transport/acknowledge.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import { type Psn, psnAdd, psnDistance } from '../transport/psn.ts'
import { MESSAGE_NONE, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import type { BurstContext, BurstState, RefusalContext } from './context.ts'
import { failQueuePair } from './staging.ts'

/**
 * Stores `length` bytes on behalf of that PSN of the queue pair; the next fence makes them durable.
 */
export function store(
  state: BoardState & BurstState,
  qp: QueuePair,
  psn: number,
  from: number,
  to: number,
  length: number,
): void {
  const list = state.list
  copyClean(list, from, to, length, psnOwnerOf(qp, psn))
  if (to >= HOST_SPACE) qp.farAt = list.fences
  noteStore(state, qp)
}

/** No acknowledgement goes past that PSN before the next fence. */
export function withhold(state: FrameContext, qp: QueuePair, psn: number): void {
  if (qp.withheldAt === state.list.fences) return
  if (!isWithheld(state.answers, qp)) qp.withheldFrom = psn as Psn
  qp.withheldAt = state.list.fences
}

/** No acknowledgement goes past that PSN before the group is committed. */
export function withholdRecord(state: TransportState, qp: QueuePair, psn: number): void {
  if (!isWithheld(state.answers, qp)) qp.withheldFrom = psn as Psn
  qp.recordAt = state.answers.groups
}

/**
 * The host is gone, or may have been: what was on its way to its memory, or in its caches, is lost.
 * Nothing that it has shown holds any more; and whoever has stored there what no read has pushed
 * yet, or is in the middle of it, is refused, as nobody could tell it later what is missing.
 */
export function loseHost(state: BurstContext): void {
  const { list, queuePairs, commit } = state
  unprove(state.proof, state.regions)
  list.posted = 0
  // What stands in the group was judged by what that host had shown.
  if (commit.hostCount > 0) commit.hostLost = true
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = queuePairs.places[i]!
    if (qp === null || qp.state !== STATE_OPEN) continue
    const stores = qp.message !== MESSAGE_NONE && qp.messageTo >= HOST_SPACE
    if (!stores && qp.farAt !== list.fences) continue
    // A NAK acknowledges what is before it: nothing that waits for its answer.
    const at = qp.unanswered > 0 ? psnAdd(qp.ackLimit, 1) : qp.expectedPsn
    refuseQueuePair(state, qp, at, NOT_DURABLE)
  }
}

/** The queue pair has stored something that no fence covers yet. */
export function noteStore(state: BoardState & BurstState, qp: QueuePair): void {
  qp.dirtyAt = state.list.fences
  state.stores += 1
  state.unfenced += 1
}

/** May anything become durable now? */
export function isSafe(state: BoardState & CommitState): boolean {
  if (state.commit.closed !== PASS) return false
  return (state.words[HEALTH_AT >> 2]! & (ARMED | SAVE_FAILED)) === ARMED
}

/** Runs what stands in the list, and refuses whom a failure belongs to. */
export function runBurst(state: BurstContext): void {
  const list = state.list
  const length = list.count
  state.stores = 0
  const failed = run(list)
  if (failed >= 0) resumeList(state, length, failed)
}

/** Runs what stands in the list, and the refusals that it brings. */
export function drain(state: BurstContext): void {
  runBurst(state)
  if (state.list.count > 0) runBurst(state)
}

/**
 * Runs the list with a fence at its end: afterwards every store is durable, or false is returned
 * and the part is closed, or its host lost: then every store into the NVDIMM is. Without save
 * energy the fence is not even tried.
 */
export function makeDurable(state: BurstContext): boolean {
  const list = state.list
  const { lives } = state.proof
  if (!isSafe(state)) {
    runBurst(state)
    return false
  }
  fence(list)
  runBurst(state)
  if (state.commit.closed !== PASS) return false
  noteFence(state)
  return state.proof.lives === lives
}

/** A fence was done: what was stored before it is durable. */
export function noteFence(state: BoardState & BurstState): void {
  state.list.fences += 1
  state.unfenced = 0
}

/** The list stopped at command `at`: goes on without the queue pair that it belonged to. */
function resumeList(state: BurstContext, length: number, failed: number): void {
  const list = state.list
  let at = failed
  let refused = 0
  let pushed = true
  for (;;) {
    const result = resultOf(list, at)
    if (result === NO_POWER) return
    if (isPush(list, at)) pushed = false
    else if (isFence(list, at)) closeAt(state, at, length)
    // What is refused is skipped: a command that fails is the first one of its owner.
    const owner = list.words[at * COMMAND_WORDS + OWNER]!
    if (owner >= OWNER_LEAST) {
      state.refusals[refused] = owner
      refused += 1
    }
    skipCommands(state, length, at, refused)
    const done = list.machine.run(length)
    if (done === length || done <= at) break
    at = done
  }
  if (!pushed) loseHost(state)
  if (withheldAmong(state, refused) && isSafe(state)) fenceNow(state)
  for (let i = 0; i < refused; i++) {
    const owner = state.refusals[i]!
    refuseQueuePair(state, holderOf(state, owner), owner % OWNER_LEAST, UNREADABLE)
  }
}

/** What is withheld becomes durable before a refusal acknowledges it, or the part is closed. */
function fenceNow(state: BurstContext): void {
  const { list } = state
  fence(list)
  const failed = run(list)
  if (failed >= 0 && !isPush(list, failed)) {
    state.commit.closed = closedBy(resultOf(list, failed))
    return
  }
  if (failed >= 0) loseHost(state)
  noteFence(state)
}

/** The fence at that place of the list failed. */
function closeAt(state: BoardState & CommitState, at: number, length: number): void {
  const { list } = state
  state.commit.closed = closedBy(resultOf(list, at))
  for (let i = at + 1; i < length; i++) {
    assert(list.words[i * COMMAND_WORDS + OWNER]! < OWNER_LEAST, 'a fence is for what is before it')
  }
}

function withheldAmong(state: TransportState & BurstState, refused: number): boolean {
  for (let i = 0; i < refused; i++) {
    if (isWithheld(state.answers, holderOf(state, state.refusals[i]!))) return true
  }
  return false
}

/**
 * The queue pair that owns a command. It is in its place: what clears one (a call over the wire, a
 * call of the host or its end, a connection whose time is over) comes when all has run by which a
 * queue pair may fail.
 */
function holderOf(state: TransportState, owner: number): QueuePair {
  return state.queuePairs.places[ownerPlaceOf(owner)]!
}

function ownerPlaceOf(owner: number): number {
  return Math.floor(owner / OWNER_LEAST) - 1
}

function isRefused(state: BurstState, owner: number, refused: number): boolean {
  for (let i = 0; i < refused; i++) {
    if (ownerPlaceOf(state.refusals[i]!) === ownerPlaceOf(owner)) return true
  }
  return false
}

/** Makes skips of all commands up to `at`, which are done, and of those that are refused. */
function skipCommands(
  state: BoardState & BurstState,
  length: number,
  at: number,
  refused: number,
): void {
  const words = state.list.words
  for (let i = 0; i < length; i++) {
    const word = i * COMMAND_WORDS
    const owner = words[word + OWNER]!
    const out = owner >= OWNER_LEAST && isRefused(state, owner, refused)
    if (i <= at || out) words[word + OP] = SKIP
  }
}

/**
 * Ends the queue pair with the fault's NAK at `psn`, or at its first store that is not durable and
 * whose acknowledgement is withheld: a NAK acknowledges what is before it.
 */
export function refuseQueuePair(
  state: RefusalContext,
  qp: QueuePair,
  psn: number,
  fault: Fault,
): void {
  if (qp.state !== STATE_OPEN) return
  let at = psn
  let why = fault
  if (isWithheld(state.answers, qp) && psnDistance(psn, qp.withheldFrom) < 0x800000) {
    at = qp.withheldFrom
    why = NOT_DURABLE
  }
  count(state, why)
  answer(state.answers, qp, at, FAULTS[why]!.code)
  failQueuePair(state, qp)
}

/** Marks the queue pair as answered in this burst. */
export function touch(state: BurstState, qp: QueuePair): void {
  if (qp.touched) return
  qp.touched = true
  state.touched[state.touchedCount] = qp
  state.touchedCount += 1
}
