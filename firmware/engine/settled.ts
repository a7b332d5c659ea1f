// hot path
/**
 * The copy of a record that readers are served (D-15).
 *
 * Invariant: it is the first in write order whose check code is right just now, of those
 * that no recovery takes back; a record that is lost has none. Nor has one of which a copy in front
 * was not delivered by its host: that may be a later one than those behind it. That one is not
 * lost, nor is one of which a copy is withheld, or written, or waits for a host: it may stand for
 * the record when that is settled. Nor is one whose region is still being made.
 */

import type { ThroughContext, ThroughState } from '../burst/context.ts'
import { heldByJob, isWritten } from '../burst/through-job.ts'
import { firstCopy, heldIntent } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { type Examination, examineCopies } from '../commit/examine.ts'
import { sequenceAfter } from '../medium/copies.ts'
import type { Intent } from '../medium/lane.ts'
import { PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { isForming, isLost } from '../medium/superblock.ts'

/** No copy stands for the record, for good; or nobody can tell just now. */
export const LOST = -1
export const UNDECIDED = -2

/** That copy, not before copy `shown`; LOST or UNDECIDED. Usually the first one looked at. */
export function settledFrom(
  state: ThroughContext,
  region: Region,
  slot: number,
  shown: number,
): number {
  const { list, words, examination } = state
  if (region.unsettled > 0 && isLost(state.superblock, region.id, slot)) return LOST
  const held = heldAgainst(state, region, slot)
  const first = Math.max(firstCopy(state.commit, region, slot), shown)
  for (let c = first; c < region.copies; c++) {
    examineCopies(list, words, examination, region, slot, c, c + 1)
    if (examination.unanswered) return UNDECIDED
    if (mayStand(examination, c, held)) return c
  }
  return first > 0 || isRecordOpen(state, region, slot) ? UNDECIDED : LOST
}

/** Does the record wait for a host, for what a job writes of it, or for its region to be made? */
function isRecordOpen(
  { commit, through, superblock }: ThroughContext,
  region: Region,
  slot: number,
): boolean {
  if (heldIntent(commit.pending, region, slot) !== null) return true
  if (region.placement !== PLACEMENT_THROUGH) return false
  return isForming(superblock, region.index) || isWritten(through.jobs, region, slot)
}

/** Likewise, or -1, where all copies of the record have just been examined. */
export function settledAmong(
  state: ThroughContext,
  region: Region,
  slot: number,
  shown: number,
): number {
  if (isLost(state.superblock, region.id, slot)) return -1
  const held = heldAgainst(state, region, slot)
  const first = Math.max(firstCopy(state.commit, region, slot), shown)
  for (let c = first; c < region.copies; c++) if (mayStand(state.examination, c, held)) return c
  return -1
}

/** What no older copy may stand for, or null. */
function heldAgainst(
  { commit, through }: CommitState & ThroughState,
  region: Region,
  slot: number,
): Intent | null {
  return heldIntent(commit.held, region, slot) ?? heldByJob(through.jobs, region, slot)
}

/** Is copy `c` valid, and not older than what is held against it? */
function mayStand(examination: Examination, c: number, held: Intent | null): boolean {
  const { valid, header } = examination.copies[c]!
  return valid && (held === null || !sequenceAfter(held, header))
}
