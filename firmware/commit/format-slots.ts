/**
 * The initial records of a region.
 *
 * Invariant: behind the fence at the end all copies of every record are the same and valid
 * (P1-1); in the host's memory, through its caches, that is so for loads only, until its CPU has
 * written them back. The initial record is empty, or, where records have a fixed length, all zeros.
 */

import { assert } from '../board/assert.ts'
import { checkCode, copyClean, fenceFor, resultOf, run } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, PASS } from '../board/fault.ts'
import {
  BURST_FRAMES,
  COMMANDS_MAX,
  COPIES_MAX,
  LINE_BYTES,
  RECORD_BYTES_MAX,
  SLICE_BYTES,
  SLICE_RECORDS,
} from '../board/limits.ts'
import { LANE_LINES_AT, ZEROS_AT, ZEROS_BYTES } from '../board/memory-map.ts'
import { FIXED_LENGTH, type Region, slotAddress } from '../medium/region.ts'
import { CHECKED_AT, imageBytes, SLOT_HEADER_BYTES, writeSlotHeader } from '../medium/slot.ts'
import { listFault } from './closed.ts'

// A slot: its line twice, its code, the copies behind the first, and its zeros, a rest of a page
// among them. Those of a slice are as many pages as it has bytes.
const SLICE_ZEROS = Math.ceil(SLICE_BYTES / ZEROS_BYTES)
assert(COMMANDS_MAX > SLICE_RECORDS * (3 + COPIES_MAX) + SLICE_ZEROS, 'a slice must fit')
assert(SLICE_RECORDS <= BURST_FRAMES, 'each slot of a slice needs a line')
assert(SLICE_BYTES >= RECORD_BYTES_MAX, 'the zeros of one slot alone are not more')

/**
 * Writes the initial record into slots [first, last) of a slice, every copy: nothing else stands in
 * the list. MEDIA if the part refuses.
 */
export function formatSlots(state: BoardState, region: Region, first: number, last: number): Fault {
  const { list } = state
  const length = (region.flags & FIXED_LENGTH) !== 0 ? region.capacity : 0
  for (let slot = first; slot < last; slot++) {
    formatSlot(state, region, slot, length, LANE_LINES_AT + (slot - first) * LINE_BYTES)
  }
  fenceFor(list, slotAddress(region, 0, first))
  const failed = run(list)
  return failed < 0 ? PASS : listFault(resultOf(list, failed))
}

function formatSlot(
  state: BoardState,
  region: Region,
  slot: number,
  length: number,
  line: number,
): void {
  const list = state.list
  const blank = {
    slot,
    length,
    sequenceLow: 0,
    sequenceHigh: 0,
    clientLow: 0,
    clientHigh: 0,
    operationLow: 0,
    operationHigh: 0,
    guard: 0,
  }
  writeSlotHeader(state.words, line, region, blank)
  const to = slotAddress(region, 0, slot)
  copyClean(list, line, to, SLOT_HEADER_BYTES, 0)
  const bytes = imageBytes(length)
  for (let at = SLOT_HEADER_BYTES; at < bytes; at += ZEROS_BYTES) {
    copyClean(list, ZEROS_AT, to + at, Math.min(ZEROS_BYTES, bytes - at), 0)
  }
  // The code covers the data where it now lies; the line then goes out a second time with it.
  checkCode(list, to + CHECKED_AT, line, SLOT_HEADER_BYTES - CHECKED_AT + length, region.keyAt)
  copyClean(list, line, to, SLOT_HEADER_BYTES, 0)
  for (let c = 1; c < region.copies; c++) {
    copyClean(list, to, slotAddress(region, c, slot), bytes, 0)
  }
}
