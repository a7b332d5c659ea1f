/**
 * The scrub: in idle time a few records at a time are read with their check codes, and a copy that
 * has decayed is repaired from a whole one before the other decays too (architecture 5). Every
 * SCRUB_TURNS calls what describes the part has its turn: the pages of the superblock, and some
 * lines of the operation table.
 *
 * Invariants:
 * - It never runs beside a commit; nor where nothing may be stored now, as what it finds could not
 *   be mended.
 * - A record that it finds lost is on the superblock's list, durably, before the next record is
 *   looked at; where the list is full, its region is marked as durably.
 * - A region is so marked until all of it was looked at, from its first record to its last, every
 *   record was answered for, and none was lost that is not on the list. As soon as the list has
 *   room that is done first, so the region takes writes again when the last one is settled; while
 *   the list is full, in its turn.
 * - A record of a pair region is looked at before a client writes into a copy of it, so that a cut
 *   never finds the only good one torn (pair.ts).
 * - One past the host's caches that a start could not look at, as its host was away, takes no
 *   writes until such a look at all of it, which is the first thing that is done when the host has
 *   shown its memory. In one life of the host, or it begins again.
 */

import { count, isArmed } from '../board/context.ts'
import { DMA, type Fault, NOT_DURABLE, NOT_READY, PASS, SUPERBLOCK } from '../board/fault.ts'
import { REGIONS, SCRUB_TURNS } from '../board/limits.ts'
import { runBurst } from '../burst/burst.ts'
import type { AcceptContext, ScrubState, ServeContext, ThroughContext } from '../burst/context.ts'
import { SLICE_PAUSE_US, sliceEnd } from '../burst/slice.ts'
import { isWritten } from '../burst/through-job.ts'
import { VIEW_FIRST_COPY, viewOf } from '../burst/view.ts'
import { closedBy } from '../commit/closed.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { examineCopies } from '../commit/examine.ts'
import { scrubLines } from '../commit/operations.ts'
import { LOOK_DUE, LOOK_WAITS, scanRegion } from '../commit/recovery.ts'
import { deriveUnsettled } from '../commit/unsettled.ts'
import { commitNow } from '../engine/group.ts'
import { mendFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import { sequenceAfter } from '../medium/copies.ts'
import { isPair, KIND_RECORDS, type Region } from '../medium/region.ts'
import {
  isOverfull,
  LOST_MAX,
  lostCount,
  mendSuperblock,
  setFormed,
  setOverfull,
  writeSuperblock,
} from '../medium/superblock.ts'
import type { TransportState } from '../transport/context.ts'
import { fenceCopies, isUnderWay } from './pair.ts'
import { isUnflushed, markUnflushed } from './through.ts'

/** May the records of the region be looked at, and mended, just now? */
function isMendable(state: ThroughContext, region: Region): boolean {
  return mendFault(state, region) === PASS && !isUnflushed(state, region)
}

/**
 * Scans records [first, last) of a region, and writes down what is lost. One that somebody is
 * writing is passed over, and counted as that. DMA if a host did not answer for one of them; or why
 * the part has closed.
 */
export function scanNow(
  state: ThroughContext & TransportState,
  region: Region,
  first: number,
  last: number,
): Fault {
  const { superblock, recovery, through } = state
  const { unanswered, stored } = recovery
  const lost = lostCount(superblock)
  const overfull = isOverfull(superblock, region.index)
  const pair = isPair(region)
  if (pair) {
    const fenced = fenceCopies(state.list)
    if (fenced !== PASS) {
      state.commit.closed = fenced
      return fenced
    }
  }
  for (let slot = first; slot < last; slot++) {
    const busy = pair ? isUnderWay(state, region, slot) : isWritten(through.jobs, region, slot)
    if (busy) recovery.found.underWay += 1
    else scanRegion(recovery, region, slot, slot + 1)
  }
  if (recovery.stored !== stored) markUnflushed(state, region)
  let fault = recovery.closed
  const same = lostCount(superblock) === lost && isOverfull(superblock, region.index) === overfull
  if (fault === PASS && !same) fault = writeSuperblock(state.list, superblock)
  if (fault !== PASS) state.commit.closed = fault
  else if (recovery.unanswered !== unanswered) fault = DMA
  return fault
}

/**
 * Before a client writes into a copy, which the message may leave torn: the others must be valid,
 * durable and not older. Where they are not the record is made whole first, and one of them at the
 * least must be so then. NOT_READY while another message into the record is under way; NOT_DURABLE
 * where that cannot be done now.
 */
export function lookBeforeWrite(
  state: AcceptContext,
  region: Region,
  slot: number,
  vaLow: number,
): Fault {
  const copy = viewOf(vaLow) - VIEW_FIRST_COPY
  // Who looks for the copy says so.
  if (slot >= region.slots || copy < 0 || copy >= region.copies) return PASS
  if (isUnderWay(state, region, slot)) return NOT_READY
  if (mendFault(state, region) !== PASS) return NOT_DURABLE
  // What stands in the list is not to be mixed with what the look runs.
  commitNow(state)
  runBurst(state)
  const fenced = fenceCopies(state.list)
  if (fenced !== PASS) {
    state.commit.closed = fenced
    return NOT_DURABLE
  }
  const others = region.copies - 1
  if (othersOf(state, region, slot, copy) === others) return PASS
  if (scanNow(state, region, slot, slot + 1) !== PASS) return NOT_DURABLE
  // The medium may refuse a copy; of a record that is lost its region says so.
  const isSpare = region.unsettled > 0 || othersOf(state, region, slot, copy) > 0
  return isSpare ? PASS : NOT_DURABLE
}

/** How many copies besides that one are valid, and not older? */
function othersOf(state: AcceptContext, region: Region, slot: number, copy: number): number {
  const { examination } = state
  examineCopies(state.list, state.words, examination, region, slot, 0, region.copies)
  const own = examination.copies[copy]!
  let count = 0
  for (let c = 0; c < region.copies; c++) {
    const { valid, header } = examination.copies[c]!
    if (c === copy || !valid) continue
    if (!own.valid || !sequenceAfter(own.header, header)) count += 1
  }
  return count
}

/**
 * Mends superblock and operation table. A page that takes no stores is counted: what was written
 * down stands in the other one, so the part goes on until something else is to be.
 */
function scrubTables(state: PartContext): void {
  const { list, commit } = state
  const fault = mendSuperblock(list, state.superblock)
  if (fault !== PASS) count(state, fault)
  if (fault !== PASS && fault !== SUPERBLOCK) commit.closed = fault
  const result = scrubLines(commit.operations, list)
  if (result !== 0) commit.closed = closedBy(result)
}

/** Scrubs the next records. Returns the µs after which it wants to go on; 0: nothing is urgent. */
export function scrub(state: ServeContext): number {
  const { scrub: at } = state
  if (state.refused !== PASS || state.commit.closed !== PASS || !isArmed(state)) return 0
  at.turn = (at.turn + 1) % SCRUB_TURNS
  if (at.turn === 0) scrubTables(state)
  const urgent = urgentRegion(state)
  if (urgent >= 0 && at.region !== urgent) beginRegionScrub(state, urgent)
  const region = state.regions.places[at.region]!
  const waitUs = urgent < 0 ? 0 : SLICE_PAUSE_US
  if (region === null || region.kind !== KIND_RECORDS || !isMendable(state, region)) {
    beginRegionScrub(state, (at.region + 1) % REGIONS)
    return waitUs
  }
  if (at.slot < region.slots) {
    const last = sliceEnd(region, at.slot)
    const fault = scanNow(state, region, at.slot, last)
    // A host that hangs is not asked again before it has shown its memory again.
    if (fault === DMA && isDue(state, region)) state.recovery.unscanned[region.index] = LOOK_WAITS
    at.slot = last
    return waitUs
  }
  // Also where the list is full: what is lost of this region may have been given up.
  if (isDue(state, region) || isOverfull(state.superblock, region.index)) endLook(state, region)
  beginRegionScrub(state, (at.region + 1) % REGIONS)
  return waitUs
}

/** The µs after which the scrub wants to go on with a region that is marked; 0 if there is none. */
export function scrubWaitUs(state: ThroughContext): number {
  return urgentRegion(state) < 0 ? 0 : SLICE_PAUSE_US
}

/** The scrub is at the first record of that region. */
function beginRegionScrub(state: CommitState & ScrubState, index: number): void {
  const { scrub: at, recovery, proof } = state
  at.lives = proof.lives
  at.region = index
  at.slot = 0
  at.unlisted = recovery.unlisted
  at.unanswered = recovery.unanswered
}

/** The first region that has to be looked at, and can be; or -1. */
function urgentRegion(state: ThroughContext): number {
  const { regions } = state
  if (state.refused !== PASS) return -1
  // Every burst asks: as few places as there are.
  for (let i = 0; i < regions.count; i++) {
    const region = regions.places[i]!
    if (region !== null && isUrgent(state, region) && isMendable(state, region)) return i
  }
  return -1
}

/** Has nobody looked at all of it, and is its host there? */
function isDue({ recovery }: CommitState, { index }: Region): boolean {
  return recovery.unscanned[index] === LOOK_DUE
}

/** Is that so, or is it marked, and the list has room? */
function isUrgent(state: MemoryState & CommitState, region: Region): boolean {
  if (isDue(state, region)) return true
  const { superblock } = state
  return isOverfull(superblock, region.index) && lostCount(superblock) < LOST_MAX
}

/** All of the region was looked at: was it answered for, and is what is lost on the list? */
function endLook(state: ServeContext, region: Region): void {
  const { superblock, recovery, scrub: at, proof } = state
  const { index } = region
  if (at.unanswered !== recovery.unanswered || at.lives !== proof.lives) return
  const isListed = at.unlisted === recovery.unlisted
  const wasDue = isDue(state, region)
  if (!wasDue && !isListed) return
  if (wasDue) setFormed(superblock, index)
  recovery.unscanned[index] = 0
  if (isListed) setOverfull(superblock, index, false)
  deriveUnsettled(superblock, state.commit.unsettled, region)
  const fault = writeSuperblock(state.list, superblock)
  if (fault !== PASS) state.commit.closed = fault
}
