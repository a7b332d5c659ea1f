/**
 * What a job of placement through has stored in the host's memory before the agent is asked to
 * write it back (through.ts).
 *
 * Invariants:
 * - Nothing is taken for stored because it was sent. A posted write is lost without a word, so the
 *   host's memory is read behind it, and compared with what it should be (faults B5, H5): a copy
 *   with its image, the copies of a repair and of a region with each other, under their check
 *   codes.
 * - Nothing is taken for stored because it was so in an earlier life of the agent: the host may
 *   have lost its caches in between (fault B1). It is made again from what outlives them: a copy
 *   from the image, a repair from its lane and from the copy that is durable, a region that is
 *   forming from nothing, any other from its records.
 * - What is made again is what was made before. The lane says the same, and the copy that it speaks
 *   for was durable before it was written: it is the source, and never overwritten.
 * - Another host may have other memory: before a further copy is stored in front of a later agent,
 *   those before it are compared with the image, and the first that is not there is stored again.
 * - A host that does not answer has said nothing (fault B4): the job stays, and tries again.
 */

import { assert } from '../board/assert.ts'
import { compare, copy, resultOf, run } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { DMA, MEDIA, PASS } from '../board/fault.ts'
import { DMA_FAILED, EQUAL, MEDIA_ERROR, NO_POWER } from '../board/hal.ts'
import type { ThroughContext } from '../burst/context.ts'
import { sliceEnd, takeSlice } from '../burst/slice.ts'
import { FORM, FURTHER, isWritten, type Job, REPAIR } from '../burst/through-job.ts'
import { closedBy } from '../commit/closed.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import { copiesSame, examineCopies } from '../commit/examine.ts'
import { formatSlots } from '../commit/format-slots.ts'
import { forgetOperation } from '../commit/operations.ts'
import { hiddenCopies, isOlder, scanRegion, settleAgain } from '../commit/recovery.ts'
import { sequenceAfter } from '../medium/copies.ts'
import { KIND_RECORDS, type Region, slotAddress } from '../medium/region.ts'
import { imageBytes, type SlotHeader } from '../medium/slot.ts'
import { isForming, lostCount, writeSuperblock } from '../medium/superblock.ts'

/** All of it is there. */
export const STORED = 0
/** Not yet, and there is more to do at once; or the host has to be asked again, later. */
const MORE = 1
export const LATER = 2
/** The medium of the host refuses it, or the part has closed: the lane stays. */
export const REFUSED = 3

/** A piece of a region is looked at so often, at the most, until nothing is found to repair. */
const LOOKS = 3

/** Stores what the job writes back next, or a part of it. Returns how far that came. */
export function storeJob(state: ThroughContext, job: Job): number {
  const { life } = state.through.agent
  if (job.begun !== life) {
    if (job.state === FURTHER && !restartCopies(state, job)) return LATER
    job.begun = life
    job.slot = 0
    if (job.state === REPAIR || job.state === FORM) job.copy = 0
  }
  if (job.state === REPAIR) return repairAgain(state, job)
  return job.state === FORM ? formAgain(state, job) : storeCopy(state, job)
}

/**
 * Back to the first of the copies before that is not there: it was durable in other memory, or has
 * decayed. False if the host does not answer.
 */
function restartCopies({ list }: BoardState, job: Job): boolean {
  const { region, slot, length, imageAt } = job.item
  for (let c = 0; c < job.copy; c++) {
    const found = compare(list, imageAt, slotAddress(region, c, slot), imageBytes(length))
    const failed = run(list)
    const result = resultOf(list, failed < 0 ? found : failed)
    if (result === DMA_FAILED || result === NO_POWER) return false
    if (result === EQUAL) continue
    job.copy = c
    // As for any first copy, its bell is waited for.
    if (c === 0) job.hidden = 1
  }
  return true
}

/** Stores the image into copy `job.copy`, and reads it back. */
function storeCopy(state: BoardState, job: Job): number {
  const { list } = state
  const { item } = job
  const to = slotAddress(item.region, job.copy, item.slot)
  const bytes = imageBytes(item.length)
  copy(list, item.imageAt, to, bytes)
  const found = compare(list, item.imageAt, to, bytes)
  const failed = run(list)
  if (failed < 0) return resultOf(list, found) === EQUAL ? STORED : LATER
  const result = resultOf(list, failed)
  if (result === DMA_FAILED || result === NO_POWER) return LATER
  assert(result === MEDIA_ERROR, 'without a fence nothing else stops a list')
  return REFUSED
}

/** What the start has made one, again from its lane; until nothing is left to repair. */
function repairAgain(state: PartContext, job: Job): number {
  const { recovery, superblock } = state
  const { region, slot, lane } = job.item
  const lost = lostCount(superblock)
  const { phase, intent } = job
  const outcome = settleAgain(recovery, region, slot, lane, phase, intent!)
  const { kept, repaired, failure } = outcome
  if (failure === DMA_FAILED || failure === NO_POWER) return LATER
  if (failure !== 0 || recovery.keptLanes[lane] !== 0) {
    if (failure !== 0 && failure !== MEDIA_ERROR) state.commit.closed = closedBy(failure)
    return REFUSED
  }
  if (lostCount(superblock) !== lost && !isWrittenDown(state)) return REFUSED
  if (recovery.trusted && isOlder(recovery, { kept }, intent!)) {
    forgetOperation(state.commit.operations, intent!)
  }
  job.hidden = Math.max(job.hidden, hiddenCopies(phase, outcome, false))
  job.kept = recovery.trusted && kept >= 0 && isOfLane(state, job, kept)
  return repaired === 0 ? STORED : MORE
}

/** Is the copy that was kept of the write that the lane speaks of? */
function isOfLane({ recovery }: CommitState, { intent }: Job, kept: number): boolean {
  const { header } = recovery.examination.copies[kept]!
  return !sequenceAfter(header, intent!) && !sequenceAfter(intent!, header)
}

/** The list of the lost is durable as it stands, or the part is closed. */
function isWrittenDown(state: PartContext): boolean {
  const fault = writeSuperblock(state.list, state.superblock)
  if (fault !== PASS) state.commit.closed = fault
  return fault === PASS
}

/** The next slots of a region: initial records, or whole ones. */
function formAgain(state: ThroughContext, job: Job): number {
  const { region } = job.item
  if (region.kind !== KIND_RECORDS) return STORED
  if (!takeSlice(state)) return MORE
  const last = sliceEnd(region, job.slot)
  const forming = isForming(state.superblock, region.index)
  const came = forming
    ? formatAgain(state, region, job.slot, last)
    : rescanSlots(state, region, job.slot, last)
  if (came !== STORED) return came
  job.slot = last
  return last === region.slots ? STORED : MORE
}

/** Initial records in slots [first, last), unless they are there. */
function formatAgain(
  state: BoardState & CommitState,
  region: Region,
  first: number,
  last: number,
): number {
  if (isFormatted(state, region, first, last)) return STORED
  const fault = formatSlots(state, region, first, last)
  if (fault === PASS) return isFormatted(state, region, first, last) ? STORED : LATER
  if (fault === DMA) return LATER
  if (fault !== MEDIA) state.commit.closed = fault
  return REFUSED
}

/** Are all copies in slots [first, last) whole, the same, and initial records? */
export function isFormatted(
  state: BoardState & CommitState,
  region: Region,
  first: number,
  last: number,
): boolean {
  const { list, words, examination } = state
  for (let slot = first; slot < last; slot++) {
    examineCopies(list, words, examination, region, slot, 0, region.copies)
    for (let c = 0; c < region.copies; c++) {
      const { valid, header } = examination.copies[c]!
      if (!valid || !isInitial(header)) return false
      if (c > 0 && !copiesSame(list, examination, region, slot, 0, c)) return false
    }
  }
  return true
}

/** Is it that of an initial record? One that is written has a sequence. */
function isInitial({ sequenceLow, sequenceHigh }: SlotHeader): boolean {
  return (sequenceLow | sequenceHigh) === 0
}

/** Makes the records in slots [first, last) whole, except for those that a job is writing. */
function rescanSlots(state: ThroughContext, region: Region, first: number, last: number): number {
  const { recovery, superblock } = state
  const lost = lostCount(superblock)
  const { unanswered } = recovery
  for (let look = 0; look < LOOKS; look++) {
    const { stored } = recovery
    for (let slot = first; slot < last; slot++) {
      if (isWritten(state.through.jobs, region, slot)) continue
      scanRegion(recovery, region, slot, slot + 1)
    }
    if (recovery.stored === stored) break
  }
  if (lostCount(superblock) !== lost && !isWrittenDown(state)) return REFUSED
  if (recovery.closed !== PASS) {
    state.commit.closed = recovery.closed
    return REFUSED
  }
  return recovery.unanswered === unanswered ? STORED : LATER
}
