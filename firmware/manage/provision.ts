/**
 * Making regions: which may be, where, and under which identity.
 *
 * Invariants:
 * - A region is made by one call, or, where that takes longer than a slice, in the slices behind it
 *   (region-job.ts): whoever asks again is told that it is under way, until it is there.
 * - Its identity was never another's, and its check-code key is drawn again: what a region before
 *   it has left in its room is valid in none of its slots (I8).
 */

import {
  type Fault,
  NO_SPACE,
  PASS,
  REGION_EXISTS,
  REGIONS_FULL,
  REQUEST,
  UNDER_WAY,
} from '../board/fault.ts'
import { COPIES_MAX, COPIES_MIN, RECORD_BYTES_MAX, REGIONS, SLOTS_MAX } from '../board/limits.ts'
import { KEY_BYTES, SUPERBLOCK_BYTES } from '../board/memory-map.ts'
import { drawBytes } from '../board/random.ts'
import { takeSlice } from '../burst/slice.ts'
import type { CommitState } from '../commit/context.ts'
import { placeFault } from '../commit/proof.ts'
import { LOOK_DUE } from '../commit/recovery.ts'
import { closeBy, mendFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  FIXED_LENGTH,
  findRegionByName,
  KIND_BYTES,
  KIND_RECORDS,
  PAIR,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
  strideOf,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'
import { isRegionName, regionNameOf } from '../medium/region-name.ts'
import {
  isFreePlace,
  mendSuperblock,
  nextIdOf,
  partBytesOf,
  REGION_IDS,
  type RegionEntry,
  regionRoomFor,
} from '../medium/superblock.ts'
import { regionOfEntry } from './boot.ts'
import { JOB_MAKE, JOB_NONE, type ManageContext, type RegionJob } from './context.ts'
import { beginMaking, isRoomDue, joinRegion, serveRegionJob } from './region-job.ts'

const PAGE_BYTES = SUPERBLOCK_BYTES

function pages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}

/** Is what is asked for in range? */
function regionShapeFault(entry: RegionEntry): Fault {
  if (!isRegionName(entry.name, 0)) return REQUEST
  if (entry.kind === KIND_BYTES) {
    if ((entry.flags & ~WRITE_PERSIST_REGION) !== 0) return REQUEST
    return entry.areaBytes > 0 && entry.areaBytes <= 2 ** 47 ? PASS : REQUEST
  }
  if (entry.kind !== KIND_RECORDS) return REQUEST
  // Of what a client writes the length is its own, and a fence is the card's own NVDIMM's.
  const isOwn = entry.flags === PAIR && entry.placement === PLACEMENT_LOCAL
  if (!isOwn && (entry.flags & ~FIXED_LENGTH) !== 0) return REQUEST
  if (entry.copies < COPIES_MIN || entry.copies > COPIES_MAX) return REQUEST
  if (entry.capacity < 1 || entry.capacity > RECORD_BYTES_MAX) return REQUEST
  return entry.slots < 1 || entry.slots > SLOTS_MAX ? REQUEST : PASS
}

function sameShape(region: Region, entry: RegionEntry): boolean {
  if (region.kind !== entry.kind || region.protectionDomain !== entry.protectionDomain) return false
  if (region.placement !== entry.placement) return false
  if (region.kind === KIND_BYTES) {
    return region.areaBytes === pages(entry.areaBytes) && region.flags === entry.flags
  }
  return (
    region.slots === entry.slots &&
    region.capacity === entry.capacity &&
    region.copies === entry.copies &&
    region.flags === entry.flags
  )
}

/**
 * Makes the region that `entry` asks for. Asking again for the same is answered like the first
 * time; while it is made, or something else is done in slices, by UNDER_WAY, and a slice of that is
 * done. Faults: REQUEST, UNDER_WAY, PLACEMENT_UNKNOWN, PLACEMENT_WRONG, NO_AGENT, REGION_EXISTS,
 * REGIONS_FULL, NO_SPACE, MEDIA, DMA, FLUSH.
 */
export function provision(state: ManageContext, entry: RegionEntry): Fault {
  const shape = regionShapeFault(entry)
  if (shape !== PASS) return shape
  const name = regionNameOf(entry.name, 0)
  const known = placeFault(state.proof, entry.placement)
  if (known !== PASS) return known
  const existing = findRegionByName(state.regions, name)
  if (existing !== null) return sameShape(existing, entry) ? PASS : REGION_EXISTS
  const { regionJob } = state
  if (regionJob.kind === JOB_MAKE && regionJob.region!.name === name) {
    if (!sameShape(regionJob.region!, entry)) return REGION_EXISTS
    return continueMaking(state)
  }
  if (regionJob.fault !== PASS && regionJob.region!.name === name) return takeFault(regionJob)
  const refused = mendFault(state, entry)
  if (refused !== PASS) return refused
  // Whoever asks again helps: also where another region is made, or the room of one is cleared.
  if (regionJob.kind !== JOB_NONE && takeSlice(state)) serveRegionJob(state)
  if (regionJob.kind !== JOB_NONE) return UNDER_WAY
  const fault = placeRegion(state, entry)
  if ((fault !== NO_SPACE && fault !== REGIONS_FULL) || !isRoomDue(state)) return fault
  // What was removed just now leaves its room, and its place, when that is cleared.
  if (takeSlice(state)) serveRegionJob(state)
  return UNDER_WAY
}

/** Finds a place and room, and begins: on what both pages of the superblock say is free. */
function placeRegion(state: ManageContext, entry: RegionEntry): Fault {
  const { superblock, proof, list } = state
  const mended = superblock.half ? mendSuperblock(list, superblock) : PASS
  if (mended !== PASS) return closeBy(state, mended)
  let index = 0
  while (index < REGIONS && !isFreePlace(superblock, index)) index += 1
  if (index === REGIONS || nextIdOf(superblock) >= REGION_IDS) return REGIONS_FULL
  const records = entry.kind === KIND_RECORDS
  const local = entry.placement === PLACEMENT_LOCAL
  entry.id = nextIdOf(superblock)
  entry.copies = records ? entry.copies : 1
  entry.areaBytes = pages(records ? entry.slots * strideOf(entry.capacity) : entry.areaBytes)
  const limit = local ? partBytesOf(superblock) : proof.hostBytes
  entry.at = regionRoomFor(superblock, local, entry.copies * entry.areaBytes, limit)
  if (entry.at < 0) return NO_SPACE
  const key = drawBytes(state, KEY_BYTES)
  // What goes through the host's caches is stored by the job that has it written back.
  if (!records || entry.placement === PLACEMENT_THROUGH) {
    return closeBy(state, joinRegion(state, entry, key, index))
  }
  beginMaking(state, regionOfEntry(state, index, entry, key), entry, key)
  return continueMaking(state)
}

/** Does a slice of the making, if this call may. PASS when the region is there. */
function continueMaking(state: ManageContext): Fault {
  const { regionJob } = state
  if (takeSlice(state)) serveRegionJob(state)
  return regionJob.kind === JOB_NONE ? takeFault(regionJob) : UNDER_WAY
}

/** What the making ended with: said once, to whoever asks for that region. */
function takeFault(work: RegionJob): Fault {
  const { fault } = work
  work.fault = PASS
  return fault
}

/**
 * Where it is shown that the host's caches are passed by, what a start scanned there is looked at
 * again (scrub.ts): its repairs may have lain in them, and the host may have started since.
 */
export function lookAgain({ regions, proof, recovery }: MemoryState & CommitState): void {
  if (proof.proven !== PLACEMENT_BYPASS) return
  for (let i = 0; i < regions.count; i++) {
    if (recovery.unscanned[i] !== 0) recovery.unscanned[i] = LOOK_DUE
  }
}
