// hot path
/**
 * Which records of a persistent region are not ready (P5-30): those that no copy could settle,
 * those that a lane leaves unsettled, or that wait with it for a host, and those that are locked,
 * as their copies are being written through the caches of the host. While a region is being made,
 * or a start has scanned it and nothing has shown yet that it is durable, all of it is not ready.
 *
 * Invariant: nothing is looked for while nothing can have changed. That is told by one
 * number; only regions through the caches, while there are jobs, are looked at each time, and then
 * the jobs alone.
 */

import { LANES, THROUGH_JOBS } from '../board/limits.ts'
import type { ThroughContext, ThroughState } from '../burst/context.ts'
import type { MemoryState } from '../medium/context.ts'
import { PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { isRegionUnsure, lostAt, lostCount, updatesOf } from '../medium/superblock.ts'
import { writtenBy } from '../placement/through.ts'

/** Stands for all records of the region together; no region has a record of that number. */
const WHOLE = 2 ** 31 - 1

/** Another one whenever a record is lost, waits or is settled, or the region is made or sure. */
export function stampOf(state: MemoryState, { unsettled, pending }: Region): number {
  // Both are below 2^8: the list of the lost, and the lanes.
  return updatesOf(state.superblock) * 2 ** 16 + unsettled * 2 ** 8 + pending
}

/** Where in the region that record begins, or all of them do. */
export function absentAt(region: Region, record: number): number {
  return record === WHOLE ? 0 : record * region.stride
}

/** Bytes that it has. */
export function absentBytes(region: Region, record: number): number {
  return record === WHOLE ? region.slots * region.stride : region.stride
}

/** May records be locked now, or have been since the last look, when `before` were absent? */
export function mayBeLocked(state: ThroughState, region: Region, before: number): boolean {
  return region.placement === PLACEMENT_THROUGH && (state.through.live || before > 0)
}

/** Writes the absent records of the region into `into`, each once; returns how many there are. */
export function absentRecords(state: ThroughContext, region: Region, into: Int32Array): number {
  const { superblock, commit, through } = state
  let count = isRegionUnsure(superblock, region.index) ? add(into, 0, WHOLE) : 0
  const lost = lostCount(superblock)
  for (let i = 0; i < lost; i++) count = add(into, count, lostAt(superblock, i, region.id))
  for (let lane = 0; lane < LANES; lane++) {
    const left = commit.pending[lane] ?? commit.unsettled[lane] ?? commit.held[lane]!
    if (left !== null && left.regionId === region.id) count = add(into, count, left.record)
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
