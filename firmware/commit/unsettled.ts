/**
 * Which records of a region nobody could settle (D-14): while there is one, the region takes no
 * writes, and its reader looks at the list and the lanes first.
 *
 * Invariant: `region.unsettled` is never counted up or down. It is derived from what is
 * known: the records on the list of the lost, those whose lane stays because the medium refused
 * their repair, and one more where records are lost that the list has no room for. Whoever changes
 * one of these derives it again; so it is 0 if and only if there are none.
 *
 * Each record counts once, as no two lanes that stay speak of one: while one does, its region takes
 * no writes, and a group has no record twice; and of the lanes that a start finds, all but the one
 * with the latest sequence are void, as none is given twice.
 */

import { LANES } from '../board/limits.ts'
import type { Intent } from '../medium/lane.ts'
import type { Region } from '../medium/region.ts'
import { isLost, isOverfull, lostOf, type Superblock } from '../medium/superblock.ts'
import type { Named } from './operations.ts'

/** The record that a lane which stays leaves unsettled; its operation is 0 where it is unsure. */
export type UnsettledRecord = Pick<Intent, 'regionId' | 'record'> & Named

/** Derives `region.unsettled`; `unsettled` says it of the lanes that stay. */
export function deriveUnsettled(
  superblock: Superblock,
  unsettled: readonly (UnsettledRecord | null)[],
  region: Region,
): void {
  let count = lostOf(superblock, region.id)
  if (isOverfull(superblock, region.index)) count += 1
  for (let lane = 0; lane < LANES; lane++) {
    const one = unsettled[lane]!
    if (one === null || one.regionId !== region.id) continue
    if (!isLost(superblock, region.id, one.record)) count += 1
  }
  region.unsettled = count
}

/** The lanes of a record that was given up hold nothing any more; on the medium they stay. */
export function letGo(lanes: (UnsettledRecord | null)[], region: Region, record: number): void {
  for (let lane = 0; lane < LANES; lane++) {
    const one = lanes[lane]!
    if (one === null || one.regionId !== region.id || one.record !== record) continue
    lanes[lane] = null
  }
}
