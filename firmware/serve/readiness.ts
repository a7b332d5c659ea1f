// hot path
/**
 * Which records of a persistent region are not ready (P5-30): those that no copy could settle,
 * those that a lane holds against older copies, and those that are locked, as their copies are
 * being written through the caches of the host.
 *
 * What always holds: nothing is looked for while nothing can have changed. What is lost or held is
 * told by two numbers; only regions through the caches, while there are jobs, are looked at each
 * time, and then the jobs alone.
 */

import { LANES, THROUGH_JOBS } from '../limits.ts'
import { PLACEMENT_THROUGH, type Region } from '../memory/region.ts'
import { LOST_MAX, lostAt, lostCount, updatesOf } from '../memory/superblock.ts'
import type { State } from '../state.ts'
import { writtenBy } from './through.ts'

/** Records of one region that may be absent at once, and can be named. */
export const ABSENT_MAX: number = LOST_MAX + LANES + THROUGH_JOBS

/** Grows or shrinks whenever a record is lost, held, or settled. */
export function stampOf(state: State, region: Region): number {
  return updatesOf(state.superblock) * 2 ** 16 + (region.unsettled & 0xffff)
}

/** May records be locked now, or have been since the last look, when `before` were absent? */
export function mayBeLocked(state: State, region: Region, before: number): boolean {
  return region.placement === PLACEMENT_THROUGH && (state.through.live || before > 0)
}

/** Writes the absent records of the region into `into`, each once; returns how many there are. */
export function absentRecords(state: State, region: Region, into: Int32Array): number {
  const { superblock, commit, through } = state
  let count = 0
  const lost = lostCount(superblock)
  for (let i = 0; i < lost; i++) count = add(into, count, lostAt(superblock, i, region.id))
  for (let lane = 0; lane < LANES; lane++) {
    const held = commit.held[lane]!
    if (held !== null && held.regionId === region.id) count = add(into, count, held.record)
  }
  for (let i = 0; i < THROUGH_JOBS; i++) count = add(into, count, writtenBy(through, i, region))
  return count
}

function add(into: Int32Array, count: number, record: number): number {
  if (record < 0 || isAmong(into, count, record)) return count
  into[count] = record
  return count + 1
}

/** Is the record one of the first `count`? */
export function isAmong(records: Int32Array, count: number, record: number): boolean {
  for (let i = 0; i < count; i++) if (records[i] === record) return true
  return false
}
