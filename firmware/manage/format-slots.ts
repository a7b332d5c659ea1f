/**
 * The initial records of a region.
 *
 * What always holds: behind the fence at the end all copies of every record are the same and valid
 * (P1-1); in the host's memory, through its caches, that is so for loads only, until its CPU has
 * written them back. The initial record is empty, or, where records have a fixed length, all zeros.
 */

import { checkCode, copyClean, fence, resultOf, run } from '../command-list.ts'
import { listFault } from '../commit/closed.ts'
import { CHECKED_AT, imageBytes, SLOT_HEADER_BYTES, writeSlotHeader } from '../commit/slot.ts'
import { type Fault, PASS } from '../fault.ts'
import { BURST_FRAMES, COMMANDS_MAX, LINE_BYTES } from '../limits.ts'
import { FIXED_LENGTH, type Region, slotAddress } from '../memory/region.ts'
import { LANE_LINES_AT, ZEROS_AT, ZEROS_BYTES } from '../memory-map.ts'
import type { State } from '../state.ts'

/** Writes the initial record into slots [first, last), every copy. MEDIA if the part refuses. */
export function formatSlots(state: State, region: Region, first: number, last: number): Fault {
  const list = state.list
  const fixed = (region.flags & FIXED_LENGTH) !== 0
  const length = fixed ? region.capacity : 0
  const perSlot = region.copies + 4 + Math.ceil(length / ZEROS_BYTES)
  let scratch = 0
  for (let slot = first; slot < last; slot++) {
    if (list.count + perSlot > COMMANDS_MAX || scratch === BURST_FRAMES) {
      const fault = runFormat(state)
      if (fault !== PASS) return fault
      scratch = 0
    }
    formatSlot(state, region, slot, length, LANE_LINES_AT + scratch * LINE_BYTES)
    scratch += 1
  }
  fence(list)
  return runFormat(state)
}

function runFormat(state: State): Fault {
  const failed = run(state.list)
  return failed < 0 ? PASS : listFault(resultOf(state.list, failed))
}

function formatSlot(
  state: State,
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
