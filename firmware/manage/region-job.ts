/**
 * What takes long about regions, in slices between bursts (burst/slice.ts): the initial records of
 * one that is made, and the room of one that was removed.
 *
 * Invariants:
 * - One job is done at a time. It is bounded in memory: where it stands is one number.
 * - A region joins the superblock only when every slot of it is formatted and fenced: all copies of
 *   every record are the same and valid from the first moment (P1-1). A cut before that leaves the
 *   part as it was, as nothing on it names the region: its making is undone, and whoever asked was
 *   not answered. What was stored lies in room that is free.
 * - A region through the host's caches joins it as forming, at once. Its slots are stored in slices
 *   too, by the job that has them written back (placement/through-store.ts): until then it takes no
 *   record, and a cut, or another agent, begins that again.
 * - A region that was removed is none from the fence on that marks its entry (remove.ts). Its room
 *   is filled with zeros before it is free, so no later region shows what it held; a cut resumes
 *   that from its begin. A line that the medium does not take stays as it is, and no other one:
 *   what it holds is valid under no key and no identity that will ever be again.
 * - Where nothing may be stored now, a making ends, and says why; what resumes waits, and lets
 *   others go before it. In the host's memory a job is done in one life of its host, or begins
 *   again.
 */

import { copyClean, fenceFor, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { DMA, type Fault, MEDIA, PASS } from '../board/fault.ts'
import { MEDIA_ERROR } from '../board/hal.ts'
import { LINE_BYTES, SLICE_BYTES, SLICE_MADE, SLICE_PAUSE_US } from '../board/limits.ts'
import { KEY_BYTES, ZEROS_AT, ZEROS_BYTES } from '../board/memory-map.ts'
import type { RecordContext, ThroughContext } from '../burst/context.ts'
import { sliceEnd } from '../burst/slice.ts'
import { listFault } from '../commit/closed.ts'
import type { CommitState } from '../commit/context.ts'
import { formatSlots } from '../commit/format-slots.ts'
import { closeBy, mendFault } from '../engine/storage.ts'
import { PLACEMENT_LOCAL, PLACEMENT_THROUGH, placedAt, type Region } from '../medium/region.ts'
import {
  addEntry,
  dropEntry,
  endOfRoom,
  entryKeyAt,
  isRemoved,
  type RegionEntry,
  readEntry,
  regionCountOf,
  setForming,
  writeSuperblock,
} from '../medium/superblock.ts'
import { markUnflushed } from '../placement/through.ts'
import { isFormatted } from '../placement/through-store.ts'
import { grantAgain } from '../session/grants.ts'
import { installRegion, isPending } from './boot.ts'
import { JOB_ERASE, JOB_MAKE, JOB_NONE, type ManageContext, type ManageState } from './context.ts'

/** Begins to make the region; nothing is under way. `key` is its check-code key. */
export function beginMaking(
  state: CommitState & ManageState,
  region: Region,
  entry: RegionEntry,
  key: Uint8Array,
): void {
  const { regionJob } = state
  regionJob.kind = JOB_MAKE
  regionJob.region = region
  regionJob.entry = entry
  regionJob.key = key
  regionJob.fault = PASS
  beginWork(state, region.slots)
}

function beginWork(state: CommitState & ManageState, total: number): void {
  const { regionJob } = state
  regionJob.live = true
  regionJob.lives = state.proof.lives
  regionJob.done = 0
  regionJob.total = total
}

/** Does the next slice. The µs after which the one behind it is wanted; 0 if there is none. */
export function serveRegionJob(state: ManageContext): number {
  const { regionJob } = state
  if (!regionJob.live || state.refused !== PASS) return 0
  if (regionJob.kind === JOB_NONE) findWork(state)
  if (regionJob.kind === JOB_NONE) {
    regionJob.live = isPending(state)
    return 0
  }
  const { placement } = regionJob.entry!
  // Another host may have other memory: what was stored for an earlier one is stored again.
  if (placement !== PLACEMENT_LOCAL && regionJob.lives !== state.proof.lives) {
    beginWork(state, regionJob.total)
  }
  const fault = mendFault(state, regionJob.entry!)
  if (fault !== PASS) leaveWork(state, fault)
  else if (regionJob.kind === JOB_ERASE) eraseSlice(state)
  else formSlice(state)
  return regionJobUs(state)
}

/** The µs after which a slice is wanted; 0 if there is nothing that could be done now. */
export function regionJobUs(state: ManageContext): number {
  const { regionJob } = state
  if (!regionJob.live || state.refused !== PASS) return 0
  if (regionJob.kind !== JOB_NONE) return SLICE_PAUSE_US
  return nextWork(state) < 0 ? 0 : SLICE_PAUSE_US
}

/** Something is to be resumed, now or when it may be. */
export function noteWork(state: ManageState): void {
  state.regionJob.live = true
}

/** Is there room of a region that was removed, which is cleared next? Then there is more soon. */
export function isRoomDue(state: ThroughContext): boolean {
  return nextWork(state) >= 0
}

/** The place of a region that was removed, and whose room may be cleared now; or -1. */
function nextWork(state: ThroughContext): number {
  const { superblock } = state
  // One of the pages may say that it is a region still.
  if (superblock.half) return -1
  for (let i = 0; i < regionCountOf(superblock); i++) {
    if (isRemoved(superblock, i) && isThere(state, readEntry(superblock, i))) return i
  }
  return -1
}

/** May that room be stored into now? The host's memory may be smaller than it was, or gone. */
function isThere(state: ThroughContext, entry: RegionEntry): boolean {
  if (mendFault(state, entry) !== PASS) return false
  return entry.placement === PLACEMENT_LOCAL || endOfRoom(entry) <= state.proof.hostBytes
}

function findWork(state: ManageContext): void {
  const { superblock, regionJob } = state
  const index = nextWork(state)
  if (index < 0) return
  const entry = readEntry(superblock, index)
  regionJob.kind = JOB_ERASE
  regionJob.entry = entry
  regionJob.index = index
  beginWork(state, entry.copies * entry.areaBytes)
}

/** The job ends: a making is undone, and it is said why; what resumes waits. */
function leaveWork(state: ManageState, fault: Fault): void {
  const { regionJob } = state
  if (regionJob.kind === JOB_MAKE) regionJob.fault = fault
  // A host that did not answer is asked again when it has shown its memory again (`noteWork`). What
  // may not be stored now waits until it may.
  else if (fault === DMA) regionJob.live = false
  regionJob.kind = JOB_NONE
}

function formSlice(state: ManageContext): void {
  const { regionJob } = state
  const region = regionJob.region!
  const last = sliceEnd(region, regionJob.done, SLICE_MADE)
  let fault = formatSlots(state, region, regionJob.done, last)
  // A posted write is lost without a word: a host's memory is read behind it.
  const local = region.placement === PLACEMENT_LOCAL
  if (fault === PASS && !local && !isFormatted(state, region, regionJob.done, last)) fault = DMA
  regionJob.done = last
  const formed = fault === PASS && last === region.slots
  if (formed) fault = joinRegion(state, regionJob.entry!, regionJob.key, region.index)
  if (fault !== PASS || formed) leaveWork(state, closeBy(state, fault))
}

/** The region is one, durably, and installed; else why that is not durable. */
export function joinRegion(
  state: RecordContext,
  entry: RegionEntry,
  key: Uint8Array,
  index: number,
): Fault {
  const { superblock, list } = state
  addEntry(superblock, entry, index)
  const keyAt = entryKeyAt(index)
  for (let i = 0; i < KEY_BYTES; i++) superblock.bytes[keyAt + i] = key[i]!
  if (entry.placement === PLACEMENT_THROUGH) setForming(superblock, index)
  const fault = writeSuperblock(list, superblock)
  if (fault !== PASS) {
    dropEntry(superblock, index)
    return fault
  }
  markUnflushed(state, installRegion(state, index))
  state.regions.count = regionCountOf(superblock)
  grantAgain(state, index)
  return PASS
}

/** Fills the next piece of the room with zeros; behind the last one it is free. */
function eraseSlice(state: ManageContext): void {
  const { list, regionJob, superblock, regions } = state
  let end = Math.min(regionJob.total, regionJob.done + SLICE_BYTES)
  let failed = fillZeros(state, end, ZEROS_BYTES)
  if (failed >= 0 && resultOf(list, failed) === MEDIA_ERROR) {
    // Of that page every line is filled but those that take nothing; then those behind it.
    regionJob.done += failed * ZEROS_BYTES
    end = Math.min(regionJob.total, regionJob.done + ZEROS_BYTES)
    failed = fillZeros(state, end, LINE_BYTES)
  }
  let fault = failed < 0 ? PASS : listFault(resultOf(list, failed))
  if (fault === MEDIA) fault = PASS
  if (fault === PASS) regionJob.done = end
  const erased = fault === PASS && regionJob.done >= regionJob.total
  if (erased) {
    dropEntry(superblock, regionJob.index)
    regions.count = regionCountOf(superblock)
    fault = writeSuperblock(list, superblock)
  }
  if (fault !== PASS || erased) leaveWork(state, closeBy(state, fault))
}

/**
 * Fills the room up to `end` with zeros, in pieces of that many bytes, and fences what was taken.
 * The command that failed: the first that a medium refused, if nothing worse has happened; or -1.
 */
function fillZeros(
  { list, regionJob }: BoardState & ManageState,
  end: number,
  piece: number,
): number {
  const entry = regionJob.entry!
  const base = placedAt(entry.placement, entry.at)
  for (let at = regionJob.done; at < end; at += piece) {
    copyClean(list, ZEROS_AT, base + at, Math.min(piece, end - at), 0)
  }
  fenceFor(list, base)
  const commands = list.count
  runAll(list)
  let refused = -1
  for (let i = 0; i < commands; i++) {
    const result = resultOf(list, i)
    if (result === MEDIA_ERROR && refused < 0) refused = i
    else if (result !== 0 && result !== MEDIA_ERROR) return i
  }
  return refused
}
