/**
 * Looking at the copies of one record: which are readable and valid, which are the same.
 *
 * Invariant: nothing is written; a media error makes a copy invalid and stops nothing; a
 * header's length is used only to find out whether the check code agrees with it; where a host did
 * not answer, that is said.
 */

import {
  type CommandList,
  checkCode,
  compare,
  copy,
  resultOf,
  runAll,
} from '../board/command-list.ts'
import { DMA_FAILED, DONE, EQUAL } from '../board/hal.ts'
import { COPIES_MAX, LINE_BYTES } from '../board/limits.ts'
import { EXAMINE_AT } from '../board/memory-map.ts'
import { type Region, slotAddress } from '../medium/region.ts'
import {
  blankSlotHeader,
  CHECK_CODE_BYTES,
  CHECKED_AT,
  headerFits,
  imageBytes,
  readSlotHeader,
  SLOT_HEADER_BYTES,
  type SlotHeader,
} from '../medium/slot.ts'

/** What was seen of one copy. */
interface CopyView {
  readonly header: SlotHeader
  readable: boolean
  valid: boolean
}

/** What was seen of one record. */
export interface Examination {
  readonly copies: readonly CopyView[]
  /** Lines read from the medium so far, over all examinations: the cost of recovery. */
  linesRead: number
  /** A host did not answer: what was not read is not known, and nothing is wrong with it. */
  unanswered: boolean
}

export function createExamination(): Examination {
  const copies: CopyView[] = []
  for (let c = 0; c < COPIES_MAX; c++) {
    copies.push({ header: blankSlotHeader(), readable: false, valid: false })
  }
  return { copies, linesRead: 0, unanswered: false }
}

/** Where the header line of copy `c` was read to, in packet memory. */
function headerAt(c: number): number {
  return EXAMINE_AT + c * LINE_BYTES
}

function copyCodeAt(c: number): number {
  return EXAMINE_AT + (COPIES_MAX + c) * LINE_BYTES
}

/** Reads copies [first, last) of the record: two calls of the board. */
export function examineCopies(
  list: CommandList,
  words: Int32Array,
  into: Examination,
  region: Region,
  slot: number,
  first: number,
  last: number,
): void {
  into.unanswered = false
  // Answers, and completions of the host, may stand in front of it.
  const before = list.count
  for (let c = first; c < last; c++) {
    copy(list, slotAddress(region, c, slot), headerAt(c), SLOT_HEADER_BYTES)
  }
  runAll(list)
  for (let c = first; c < last; c++) {
    const view = into.copies[c]!
    view.readable = isRead(list, into, before + c - first)
    if (view.readable) readSlotHeader(view.header, words, headerAt(c))
    view.valid = view.readable && headerFits(view.header, region, slot)
    into.linesRead += 1
  }
  verifyCodes(list, into, region, slot, first, last)
}

/** Has the command of that number read what it should? */
function isRead(list: CommandList, into: Examination, index: number): boolean {
  const result = resultOf(list, index)
  if (result === DMA_FAILED) into.unanswered = true
  return result === DONE
}

function verifyCodes(
  list: CommandList,
  into: Examination,
  region: Region,
  slot: number,
  first: number,
  last: number,
): void {
  for (let c = first; c < last; c++) {
    const view = into.copies[c]!
    if (!view.valid) continue
    const from = slotAddress(region, c, slot) + CHECKED_AT
    const length = SLOT_HEADER_BYTES - CHECKED_AT + view.header.length
    checkCode(list, from, copyCodeAt(c), length, region.keyAt)
    compare(list, copyCodeAt(c), headerAt(c), CHECK_CODE_BYTES)
    into.linesRead += imageBytes(view.header.length) / LINE_BYTES - 1
  }
  if (list.count === 0) return
  runAll(list)
  let index = 0
  for (let c = first; c < last; c++) {
    const view = into.copies[c]!
    if (!view.valid) continue
    const readable = isRead(list, into, index)
    if (!readable) view.readable = false
    view.valid = readable && resultOf(list, index + 1) === EQUAL
    index += 2
  }
}

/**
 * Are copies `a` and `b` the same bytes? Valid copies are compared up to the end of their data;
 * otherwise the whole slots are. An unreadable copy is the same as nothing.
 */
export function copiesSame(
  list: CommandList,
  into: Examination,
  region: Region,
  slot: number,
  a: number,
  b: number,
): boolean {
  const one = into.copies[a]!
  const other = into.copies[b]!
  if (!one.readable || !other.readable || one.valid !== other.valid) return false
  if (one.valid && one.header.length !== other.header.length) return false
  const length = one.valid ? SLOT_HEADER_BYTES + one.header.length : region.stride
  const at = compare(list, slotAddress(region, a, slot), slotAddress(region, b, slot), length)
  runAll(list)
  return resultOf(list, at) === EQUAL
}
