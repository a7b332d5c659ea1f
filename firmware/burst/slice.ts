/**
 * Slices: what takes long is done a little at a time, between two bursts.
 *
 * Invariant: a slice looks at, or stores, at most SLICE_RECORDS slots, and SLICE_BYTES in
 * all their copies unless it is one slot alone; behind it, bursts have SLICE_PAUSE_US before the
 * next one. A call of the board does one slice at the most, whoever asks for how many. So no burst
 * waits for longer than one slice.
 */

import type { BoardState } from '../board/context.ts'
import { SLICE_BYTES, SLICE_PAUSE_US, SLICE_RECORDS } from '../board/limits.ts'
import type { Region } from '../medium/region.ts'

export { SLICE_PAUSE_US }

/** The end of the slice of `most` slots that begins at that slot: the first one behind it. */
export function sliceEnd(region: Region, first: number, most: number = SLICE_RECORDS): number {
  const fits = Math.floor(SLICE_BYTES / (region.stride * region.copies))
  const slots = Math.min(most, Math.max(1, fits))
  return Math.min(region.slots, first + slots)
}

/** May this call of the board do a slice? One that may has. */
export function takeSlice(state: BoardState): boolean {
  const { regionJob } = state
  const may = !regionJob.sliced
  regionJob.sliced = true
  return may
}
