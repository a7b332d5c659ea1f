/**
 * Making regions, and making a lost record blank again.
 *
 * What always holds:
 * - A region joins the superblock only when every slot of it is formatted and fenced: all copies of
 *   every record are the same and valid from the first moment (P1-1). A cut before that leaves the
 *   part as it was. One through the host's caches joins it as forming, is formatted anew at every
 *   start, and takes no record before the host's CPU has written it back.
 */

import { placeFault } from '../commit/placement.ts'
import {
  type Fault,
  FLUSH,
  NO_SPACE,
  NOT_ARMED,
  PASS,
  REGION_EXISTS,
  REGIONS_FULL,
  REQUEST,
} from '../fault.ts'
import { COPIES_MAX, COPIES_MIN, RECORD_BYTES_MAX, REGIONS } from '../limits.ts'
import {
  FIXED_LENGTH,
  findRegionByName,
  KIND_BYTES,
  KIND_RECORDS,
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
  strideOf,
  WRITE_PERSIST_REGION,
} from '../memory/region.ts'
import {
  addEntry,
  addLost,
  dropLastEntry,
  entryKeyAt,
  freeAt,
  hostFreeAt,
  isScanned,
  type RegionEntry,
  regionCountOf,
  removeLost,
  setFormed,
  setForming,
  writeSuperblock,
} from '../memory/superblock.ts'
import { KEY_BYTES, SUPERBLOCK_BYTES } from '../memory-map.ts'
import { agentFault } from '../serve/flush-agent.ts'
import { markUnflushed } from '../serve/through.ts'
import { random32, type State } from '../state.ts'
import { putU32 } from '../wire/bytes.ts'
import { installRegion, nameOf } from './boot.ts'
import { formatSlots } from './format-slots.ts'

const PAGE_BYTES = SUPERBLOCK_BYTES

function pages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}

/** Is what is asked for in range? */
function shapeFault(entry: RegionEntry): Fault {
  if (entry.name[0] === 0) return REQUEST
  if (entry.kind === KIND_BYTES) {
    if ((entry.flags & ~WRITE_PERSIST_REGION) !== 0) return REQUEST
    // The acknowledgement of a WRITE cannot wait for a host.
    if (entry.flags !== 0 && entry.placement === PLACEMENT_THROUGH) return REQUEST
    return entry.areaBytes > 0 && entry.areaBytes <= 2 ** 47 ? PASS : REQUEST
  }
  if (entry.kind !== KIND_RECORDS || (entry.flags & ~FIXED_LENGTH) !== 0) return REQUEST
  if (entry.copies < COPIES_MIN || entry.copies > COPIES_MAX) return REQUEST
  if (entry.capacity < 1 || entry.capacity > RECORD_BYTES_MAX) return REQUEST
  return entry.slots < 1 || entry.slots >= 2 ** 31 ? REQUEST : PASS
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
 * time. Faults: REQUEST, PLACEMENT_UNKNOWN, PLACEMENT_WRONG, REGION_EXISTS, REGIONS_FULL,
 * NO_SPACE, MEDIA, FLUSH.
 */
export function provision(state: State, entry: RegionEntry): Fault {
  const shape = shapeFault(entry)
  if (shape !== PASS) return shape
  const placed = placeFault(state.placement, entry.placement)
  if (placed !== PASS) return placed
  const existing = findRegionByName(state.regions, nameOf(entry.name, 0))
  if (existing !== null) return sameShape(existing, entry) ? PASS : REGION_EXISTS
  const { superblock, list } = state
  const index = regionCountOf(superblock)
  if (index === REGIONS) return REGIONS_FULL
  const records = entry.kind === KIND_RECORDS
  entry.id = index + 1
  const local = entry.placement === PLACEMENT_LOCAL
  const firstFree = freeAt(superblock)
  entry.at = local ? firstFree : hostFreeAt(superblock)
  entry.copies = records ? entry.copies : 1
  entry.areaBytes = pages(records ? entry.slots * strideOf(entry.capacity) : entry.areaBytes)
  const end = entry.at + entry.copies * entry.areaBytes
  if (end > (local ? state.facts.nvdimmBytes : state.facts.hostBytes)) return NO_SPACE
  addEntry(superblock, entry, local ? end : firstFree)
  const key = entryKeyAt(index)
  for (let i = 0; i < KEY_BYTES; i += 4) putU32(superblock.bytes, key + i, random32(state))
  if (entry.placement === PLACEMENT_THROUGH) {
    const agent = agentFault(state)
    if (agent !== PASS) {
      dropLastEntry(superblock, firstFree)
      return agent
    }
    setForming(superblock, index)
  }
  const region = installRegion(state, index)
  let fault: Fault = PASS
  if (records) fault = formatSlots(state, region, 0, region.slots)
  if (fault === PASS) fault = writeSuperblock(list, superblock)
  if (fault !== PASS) forget(state, index, firstFree)
  else markUnflushed(state, region)
  return closeBy(state, fault)
}

/** Takes back a region that could not be formatted. */
function forget(state: State, index: number, firstFree: number): void {
  state.regions.places[index] = null
  state.regions.count = index
  dropLastEntry(state.superblock, firstFree)
}

/** A part that did not fence takes nothing more (D-13); one that refused a store goes on. */
function closeBy(state: State, fault: Fault): Fault {
  if (fault === FLUSH || fault === NOT_ARMED) state.commit.closed = fault
  return fault
}

/** What the start has repaired past the host's caches is durable, now that this is shown. */
export function settleProven(state: State): Fault {
  const { superblock, regions, placement } = state
  let settled = false
  for (let i = 0; i < REGIONS; i++) {
    const region = regions.places[i]!
    if (region === null || region.placement !== PLACEMENT_BYPASS) continue
    if (placement.proven !== PLACEMENT_BYPASS || !isScanned(superblock, i)) continue
    setFormed(superblock, i)
    settled = true
  }
  return settled ? closeBy(state, writeSuperblock(state.list, superblock)) : PASS
}

/** The operator's decision about a lost record: it becomes blank. */
export function discardRecord(state: State, region: Region, record: number): Fault {
  let fault = formatSlots(state, region, record, record + 1)
  if (fault !== PASS) return closeBy(state, fault)
  removeLost(state.superblock, region.id, record)
  markUnflushed(state, region)
  fault = writeSuperblock(state.list, state.superblock)
  if (fault !== PASS) {
    // It is lost until the list without it is durable: whoever asks again has it all done again.
    addLost(state.superblock, region.id, record)
    return closeBy(state, fault)
  }
  region.unsettled = Math.max(0, region.unsettled - 1)
  return fault
}
