/**
 * Making the copies of a record one again (P1-19 … P1-26, P1-30, P1-31; D-4).
 *
 * Invariants:
 * - The copy that is kept is not written. A copy that is overwritten was cleared of media errors
 *   first, is written in whole lines, and is fenced before anyone is told; until then a crash finds
 *   the same decision again.
 * - Which copy counts is one rule (medium/copies.ts): no vote is taken. Where a lane names the
 *   record its phase says whether the first copy does, and the rule decides behind it.
 * - Nothing is overwritten when no valid copy is known, or when one that is newer may have been
 *   acknowledged: the record is reported as lost.
 */

import {
  append,
  type CommandList,
  copyClean,
  fenceFor,
  resultOf,
  run,
} from '../board/command-list.ts'
import { DMA_FAILED, FLUSH } from '../board/hal.ts'
import { countingCopy, sequenceAfter } from '../medium/copies.ts'
import { type Intent, isForward, PHASE_B, PHASE_HELD, PHASE_NONE } from '../medium/lane.ts'
import { PLACEMENT_LOCAL, type Region, slotAddress } from '../medium/region.ts'
import { imageBytes } from '../medium/slot.ts'
import { CASES, CLEAN_ROW, type CopyFacts, judgeCopies } from './cases.ts'
import { copiesSame, type Examination, examineCopies } from './examine.ts'

/** What was decided and done for one record. */
export interface Outcome {
  /** Row of CASES. */
  row: number
  /** Bit c set: copy c was valid before. */
  validMask: number
  /** The copy that is kept, or -1: the record is lost. */
  kept: number
  /** Bit c set: copy c was overwritten. */
  repaired: number
  /**
   * 0, or what the board answered to the repair: the kept copy is whole, the others are not. Where
   * a host did not even answer the question, none is kept.
   */
  failure: number
}

export function blankOutcome(): Outcome {
  return { row: 0, validMask: 0, kept: -1, repaired: 0, failure: 0 }
}

/** Of the copies behind the first the one that counts, or the last of them. */
function secondCopy(examination: Examination, copies: number): number {
  const found = countingCopy(examination.copies, 1, copies)
  return found < 0 ? copies - 1 : found
}

/** Is copy `b`, which is valid, the lane's own record; or without a lane, does it count? */
function isCurrent(examination: Examination, b: number, intent: Intent | null): boolean {
  if (intent === null) return countingCopy(examination.copies, 0, b + 1) === b
  const { header } = examination.copies[b]!
  return header.sequenceLow === intent.sequenceLow && header.sequenceHigh === intent.sequenceHigh
}

/**
 * Does a valid copy carry a later sequence than the intent? Then the lane is a stale one that the
 * medium did not let us clear, and its phase says nothing about what stands in the slots now.
 */
function isStale(examination: Examination, copies: number, intent: Intent): boolean {
  for (let c = 0; c < copies; c++) {
    const copy = examination.copies[c]!
    if (copy.valid && sequenceAfter(copy.header, intent)) return true
  }
  return false
}

/**
 * May the write have been acknowledged, or shown, though its first copy is gone? Of the others that
 * it waited for none can be read; one that is old, or only torn, was not fenced.
 */
function maybePromised(
  { copies }: Examination,
  region: Region,
  phase: number,
  intent: Intent,
): boolean {
  if (phase === PHASE_HELD) return true
  // The lane is media: it may say more than the region has.
  const last = Math.min(intent.wait, region.copies)
  for (let c = 1; c < last; c++) if (copies[c]!.readable) return false
  return true
}

/**
 * May the first copy stand for the record, which its lane carries forward? Not one that is older
 * than the lane says: readers were shown what a held lane speaks of; and where a copy behind it is
 * the lane's own, the medium said that it had stored the first one, and had not.
 */
function isFirstGood(
  { copies }: Examination,
  phase: number,
  intent: Intent | null,
  bCurrent: boolean,
): boolean {
  const { valid, header } = copies[0]!
  if (!valid || intent === null || !isForward(phase)) return valid
  return !sequenceAfter(intent, header) || (phase !== PHASE_HELD && !bCurrent)
}

/** Examines the record and decides by the table. `intent` is null in a scan. */
export function judgeRecord(
  list: CommandList,
  words: Int32Array,
  examination: Examination,
  region: Region,
  slot: number,
  phase: number,
  intent: Intent | null,
  into: Outcome,
): void {
  examineCopies(list, words, examination, region, slot, 0, region.copies)
  const stale = intent !== null && isStale(examination, region.copies, intent)
  const spoken = stale ? null : intent
  const copies = examination.copies
  into.validMask = 0
  for (let c = 0; c < region.copies; c++) if (copies[c]!.valid) into.validMask |= 1 << c
  const b = secondCopy(examination, region.copies)
  const said = stale ? PHASE_NONE : phase
  const bCurrent = copies[b]!.valid && isCurrent(examination, b, spoken)
  const facts: CopyFacts = {
    phase: isForward(said) ? PHASE_B : said,
    aValid: isFirstGood(examination, said, spoken, bCurrent),
    bValid: copies[b]!.valid,
    same: copiesSame(list, examination, region, slot, 0, b),
    bCurrent,
    promised: spoken !== null && maybePromised(examination, region, phase, spoken),
  }
  into.row = judgeCopies(facts)
  const then = CASES[into.row]!.then
  into.kept = then === 'lost' ? -1 : then === 'useB' ? b : 0
  into.repaired = 0
  into.failure = 0
  if (!examination.unanswered) return
  // Of what nobody answered for nothing is decided (fault H4).
  into.kept = -1
  into.failure = DMA_FAILED
}

/**
 * Overwrites every copy that differs from the kept one, each behind a fence. A copy that is the
 * same is written back too: it may be the same only for loads.
 */
export function repairRecord(
  list: CommandList,
  examination: Examination,
  region: Region,
  slot: number,
  into: Outcome,
): void {
  if (into.kept < 0) return
  const from = slotAddress(region, into.kept, slot)
  const bytes = imageBytes(examination.copies[into.kept]!.header.length)
  let stale = 0
  for (let c = 0; c < region.copies; c++) {
    if (c === into.kept) continue
    if (!copiesSame(list, examination, region, slot, into.kept, c)) stale |= 1 << c
  }
  for (let c = 0; c < region.copies; c++) {
    const to = slotAddress(region, c, slot)
    if ((stale & (1 << c)) === 0) {
      // What is the same may be so for loads only: a store refused half-way was not cleaned.
      if (into.row === CLEAN_ROW) continue
      // No command writes back a host's caches: there it is written once more.
      if (region.placement === PLACEMENT_LOCAL) append(list, FLUSH, 0, to, bytes, 0)
      else copyClean(list, from, to, bytes, 0)
      continue
    }
    // One at a time: a cut, and a media error beside it, leave another copy whole.
    if (into.repaired !== 0) fenceFor(list, to)
    copyClean(list, from, to, bytes, 0)
    into.repaired |= 1 << c
  }
  if (list.count === 0) return
  fenceFor(list, from)
  const failed = run(list)
  if (failed >= 0) into.failure = resultOf(list, failed)
}
