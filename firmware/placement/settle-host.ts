/**
 * What waits for the host: records past its caches that it did not answer for, at a start or in a
 * group, each with the lane that speaks of it (faults B1, B3, B4).
 *
 * Invariants:
 * - Nothing is decided of them before the placement is shown: before that nobody knows whose memory
 *   it is, nor what becomes of a repair. Then they are settled as by a start: judged by their lane,
 *   repaired, pushed; the operation is known, and only then the lane is free.
 * - Meanwhile their region takes no records, the lane serves nobody else, and the card serves
 *   everything that does not need the host.
 * - What the host does not answer for even then waits for the next proof.
 * - Of a batch in order, a record of which nobody knew whether it goes back with the one before it
 *   is decided first, from the front; then those that follow are settled before those in front of
 *   them, which wait for them: a lane that is free says nothing any more of what follows it.
 */

import type { BoardState } from '../board/context.ts'
import { type Fault, PASS } from '../board/fault.ts'
import { DMA_FAILED, NO_POWER } from '../board/hal.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import { closedBy } from '../commit/closed.ts'
import { type Commit, decide, freeLane } from '../commit/commit.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { forgetOperation, recoverOperation, writeImages } from '../commit/operations.ts'
import {
  GOES_BACK,
  isOlder,
  judgeBefore,
  laneBefore,
  settleAgain,
  UNTOLD,
} from '../commit/recovery.ts'
import type { Outcome } from '../commit/unify.ts'
import type { MemoryState } from '../medium/context.ts'
import type { Intent } from '../medium/lane.ts'
import { findRegionById, type Region } from '../medium/region.ts'
import { lostCount, writeSuperblock } from '../medium/superblock.ts'

/** Settles what waits, as far as the placement that was shown allows. */
export function settlePending(state: PartContext): void {
  const { commit } = state
  for (let lane = 0; lane < BURST_FRAMES; lane++) decideLane(state, lane)
  // The last one first: of a batch in order, what goes back does so before the one it follows.
  for (let lane = BURST_FRAMES - 1; lane >= 0 && commit.closed === PASS; lane--) {
    const region = shownRegionOf(state, lane)
    if (region !== null && !mustWait(commit, lane)) settleLane(state, lane, region)
  }
}

/** The region of what waits in that lane, if its placement is shown, or null. */
function shownRegionOf(
  { commit, proof, regions }: MemoryState & CommitState,
  lane: number,
): Region | null {
  const intent = commit.pending[lane]!
  const region = intent === null ? null : findRegionById(regions, intent.regionId)
  return region !== null && region.placement === proof.proven ? region : null
}

/** Does what waits in that lane go back with the record before it? Without an answer it waits. */
function decideLane(state: MemoryState & CommitState, lane: number): void {
  const { commit, recovery } = state
  const intent = commit.undecided[lane]!
  const region = intent === null ? null : shownRegionOf(state, lane)
  if (region === null) return
  const before = laneBefore(commit.pending, lane, intent!)
  // Its region was removed, and with it what this one must not outlive.
  if (before < 0) {
    decide(commit, lane, false)
    return
  }
  if (commit.undecided[before] !== null) return
  const other = commit.pending[before]!
  const fate = judgeBefore(recovery, region, other, commit.phases[before]!, intent!)
  if (fate !== UNTOLD) decide(commit, lane, fate === GOES_BACK)
}

/**
 * Must the record of that lane wait on? It is undecided itself, or a lane behind it stays of one
 * that must not outlive it: its host did not answer, or the medium refuses to take it back.
 */
function mustWait({ pending, takenBack, undecided }: Commit, lane: number): boolean {
  if (undecided[lane] !== null) return true
  for (let behind = lane + 1; behind < BURST_FRAMES; behind++) {
    const intent = pending[behind] ?? takenBack[behind]!
    if (intent !== null && laneBefore(pending, behind, intent) === lane) return true
  }
  return false
}

function settleLane(state: PartContext, lane: number, region: Region): void {
  const { commit, recovery, superblock } = state
  const intent = commit.pending[lane]!
  const lost = lostCount(superblock)
  const phase = commit.phases[lane]!
  const outcome = settleAgain(recovery, region, intent.record, lane, phase, intent)
  if (outcome.failure === DMA_FAILED || outcome.failure === NO_POWER) return
  const isLost = lostCount(superblock) !== lost
  // A fence of the repair may have failed.
  let fault = recovery.closed
  if (fault === PASS && isLost) fault = writeSuperblock(state.list, superblock)
  if (fault === PASS) fault = noteSettledOperation(state, intent, outcome)
  if (fault !== PASS) commit.closed = fault
  // The medium refuses the repair, or the part takes nothing: the lane says so to the next start.
  if (fault !== PASS || recovery.keptLanes[lane] !== 0) return
  freeLane(commit, lane)
}

/** The table says durably what became of the record, before the lane that spoke for it goes. */
function noteSettledOperation(
  state: BoardState & CommitState,
  intent: Intent,
  outcome: Outcome,
): Fault {
  const { list, recovery, commit } = state
  const { operations } = commit
  if (isOlder(recovery, outcome, intent)) forgetOperation(operations, intent)
  else if (recovery.trusted && outcome.failure === 0) recoverOperation(operations, intent, true)
  const result = writeImages(operations, list)
  return result === 0 ? PASS : closedBy(result)
}
