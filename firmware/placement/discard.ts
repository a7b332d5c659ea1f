/**
 * SETTLE: the operator gives a record up that is lost, and it becomes blank (D-14).
 *
 * Invariants:
 * - Only what was looked at whole is given up. A host that did not answer for one copy has said
 *   nothing about the record: the call is refused, and nothing has changed. Nor is anything stored
 *   where nobody has shown how it becomes durable.
 * - A record that can be read stays: a request that comes again, late, takes nothing that was
 *   written since.
 * - It is lost by name before the first copy is blanked, and until every copy is blank for good:
 *   behind the fence, or, through the host's caches, behind the agent's bell (through.ts). A cut in
 *   between, or an agent that goes, leaves it lost, and whoever asks again has it done again.
 * - Lanes that held it against older copies hold it no more, on the medium neither, before it is
 *   lost no more: its blank is older. Others stay there until the next start, which finds the blank
 *   in every copy, whatever they say.
 */

import type { BoardState } from '../board/context.ts'
import { DMA, type Fault, PASS, PLACEMENT_UNKNOWN, UNDER_WAY } from '../board/fault.ts'
import type { ThroughContext } from '../burst/context.ts'
import { takeSlice } from '../burst/slice.ts'
import { firstShown, isWritten } from '../burst/through-job.ts'
import { heldIntent } from '../commit/commit.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { examineCopies } from '../commit/examine.ts'
import { formatSlots } from '../commit/format-slots.ts'
import { deriveUnsettled } from '../commit/unsettled.ts'
import { settledAmong } from '../engine/settled.ts'
import { closeBy, mendFault } from '../engine/storage.ts'
import { isPair, PLACEMENT_LOCAL, PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { addLost, isLost, setOverfull, writeSuperblock } from '../medium/superblock.ts'
import type { TransportState } from '../transport/context.ts'
import { isUnderWay } from './pair.ts'
import { isUnflushed, markBlanked, settleBlanked } from './through.ts'
import { isFormatted } from './through-store.ts'

/**
 * Makes the record blank if it is lost; PASS as well if it is not. Faults: UNDER_WAY, to be asked
 * again; DMA, NOT_ARMED, NO_AGENT, PLACEMENT_*; MEDIA, FLUSH.
 */
export function discardRecord(
  state: ThroughContext & TransportState,
  region: Region,
  record: number,
): Fault {
  const refused = mendFault(state, region)
  if (refused !== PASS) return refused
  if (heldIntent(state.commit.pending, region, record) !== null) return PLACEMENT_UNKNOWN
  if (isUnflushed(state, region) || isWritten(state.through.jobs, region, record)) return UNDER_WAY
  // The rest of a message would tear the blank, and its sender be told that all of it is there.
  if (isPair(region) && isUnderWay(state, region, record)) return UNDER_WAY
  if (!takeSlice(state)) return UNDER_WAY
  const { list, words, examination } = state
  examineCopies(list, words, examination, region, record, 0, region.copies)
  if (examination.unanswered) return DMA
  if (settledAmong(state, region, record, firstShown(state.through.jobs, region, record)) >= 0)
    return PASS
  let fault = nameLost(state, region, record)
  if (fault === PASS) fault = blank(state, region, record)
  if (fault !== PASS) return closeBy(state, fault)
  markBlanked(state, region, record)
  if (region.placement === PLACEMENT_THROUGH) return UNDER_WAY
  return closeBy(state, settleBlanked(state, region))
}

/** Blanks every copy. DMA if the host's memory has not all of it: posted writes get lost. */
function blank(state: BoardState & CommitState, region: Region, record: number): Fault {
  const fault = formatSlots(state, region, record, record + 1)
  if (fault !== PASS || region.placement === PLACEMENT_LOCAL) return fault
  return isFormatted(state, region, record, record + 1) ? PASS : DMA
}

/** The record is on the list of the lost, durably; or its region is marked, if that is full. */
function nameLost(state: PartContext, region: Region, record: number): Fault {
  const { superblock, commit } = state
  if (isLost(superblock, region.id, record)) return PASS
  if (!addLost(superblock, region.id, record)) {
    setOverfull(superblock, region.index, true)
    // A look at the region that is under way may have passed the record while it was whole.
    state.recovery.unlisted += 1
  }
  deriveUnsettled(superblock, commit.unsettled, region)
  return writeSuperblock(state.list, superblock)
}
