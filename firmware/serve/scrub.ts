/**
 * The scrub: in idle time a few records at a time are read with their check codes, and a copy that
 * has decayed is repaired from a whole one before the other decays too (architecture 5).
 *
 * What always holds: it never runs beside a commit; a record that it finds lost is on the
 * superblock's list, durably, before the next record is looked at.
 */

import { scanRegion } from '../commit/recovery.ts'
import { PASS } from '../fault.ts'
import { REGIONS, SCRUB_RECORDS } from '../limits.ts'
import { KIND_RECORDS, type Region } from '../memory/region.ts'
import { lostCount, writeSuperblock } from '../memory/superblock.ts'
import { isArmed, type State } from '../state.ts'
import { isWriting, markUnflushed } from './through.ts'

/** Scans records [first, last) of a region, and writes down what is lost. */
export function scanNow(state: State, region: Region, first: number, last: number): void {
  const lost = lostCount(state.superblock)
  const { report } = state.recovery
  const repaired = report.repaired
  for (let slot = first; slot < last; slot++) {
    if (!isWriting(state, region, slot)) scanRegion(state.recovery, region, slot, slot + 1)
  }
  if (report.repaired !== repaired) markUnflushed(state, region)
  if (state.recovery.closed !== PASS) state.commit.closed = state.recovery.closed
  if (lostCount(state.superblock) === lost) return
  const fault = writeSuperblock(state.list, state.superblock)
  if (fault !== PASS) state.commit.closed = fault
}

/** Scrubs the next records. Returns 0: nothing is urgent. */
export function scrub(state: State): number {
  if (state.refused !== PASS || state.commit.closed !== PASS) return 0
  if (!isArmed(state)) return 0
  const region = state.regions.places[state.scrubRegion % REGIONS]!
  if (region === null || region.kind !== KIND_RECORDS || state.scrubSlot >= region.slots) {
    state.scrubRegion = (state.scrubRegion + 1) % REGIONS
    state.scrubSlot = 0
    return 0
  }
  const last = Math.min(region.slots, state.scrubSlot + SCRUB_RECORDS)
  scanNow(state, region, state.scrubSlot, last)
  state.scrubSlot = last
  return 0
}
