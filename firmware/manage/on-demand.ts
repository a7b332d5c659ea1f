/**
 * The control calls for memory of the host that is registered on demand (wire/management.ts, 0x70
 * to 0x74; source 5, P5-27): which pages are there, and in which frames.
 *
 * Invariants:
 * - Only our own host asks, and of its own memory: a frame lies in what DMA may reach, outside of
 *   the queue information (P3-11). A call with one entry that may not be is refused whole.
 * - MAP and UNMAP are executed in their order, each once, however often they come: the sequence
 *   says so, and no answer has to be kept.
 * - Whoever follows the state of memory is told of every page that came or went, and of nothing
 *   else (status/telling.ts).
 */

import { assert } from '../board/assert.ts'
import type { BoardState } from '../board/context.ts'
import {
  type Fault,
  KEY,
  ON_DEMAND_FULL,
  PAGE,
  PASS,
  REGION_EXISTS,
  REQUEST,
} from '../board/fault.ts'
import { SPACE_BYTES } from '../board/hal.ts'
import { ON_DEMAND_PAGES, ON_DEMAND_REGIONS, PAGE_BYTES, REGIONS, RELAYS } from '../board/limits.ts'
import { ZEROS_AT } from '../board/memory-map.ts'
import type { ResidencyState } from '../burst/context.ts'
import type { HostState } from '../host/host-state.ts'
import { isHostRange } from '../host/ranges.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  drawKey,
  findRegion,
  findRegionByName,
  KIND_ON_DEMAND,
  PLACEMENT_ORDINARY,
  REMOTE_READ,
  REMOTE_WRITE,
  type Region,
} from '../medium/region.ts'
import { isRegionName, regionNameOf } from '../medium/region-name.ts'
import {
  BY_TABLE,
  clearPages,
  IN_PLACE,
  isNextCall,
  NO_FRAME,
  pagesOf,
  setFrame,
  takePages,
} from '../medium/translation.ts'
import { grantAgain } from '../session/grants.ts'
import { endOnDemand, wakePaused } from '../status/on-demand.ts'
import { pageChanged, regionEnded } from '../status/telling.ts'
import { putU32, u16, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { STATUS_ERROR, STATUS_RESET, STATUS_UNAVAILABLE } from '../wire/memory-status.ts'
import { isFree } from './attach.ts'
import { type Call, get64 } from './call.ts'

/** What such a region may grant: nothing there is durable, and no word of it the card's alone. */
const GRANTS: number = REMOTE_READ | REMOTE_WRITE

export function registerOnDemand(call: Call): Fault {
  const { state, bytes, at, to } = call
  const name = regionNameOf(bytes, at + mad.ON_DEMAND_NAME)
  const length = get64(bytes, at + mad.ON_DEMAND_LENGTH)
  const rights = u16(bytes, at + mad.ON_DEMAND_RIGHTS)
  const baseHigh = u32(bytes, at + mad.ON_DEMAND_BASE_HIGH)
  const baseLow = u32(bytes, at + mad.ON_DEMAND_BASE_LOW)
  if (!isRegionName(bytes, at + mad.ON_DEMAND_NAME)) return REQUEST
  if (length === 0 || rights === 0 || (rights & ~GRANTS) !== 0) return REQUEST
  if (baseLow % PAGE_BYTES !== 0) return REQUEST
  if (length > ON_DEMAND_PAGES * PAGE_BYTES) return ON_DEMAND_FULL
  // The last byte has an address, too.
  if (baseHigh + Math.floor((baseLow + length - 1) / 2 ** 32) >= 2 ** 32) return REQUEST
  if (findRegionByName(state.regions, name) !== null) return REGION_EXISTS
  if (state.attachments.some((one) => one.name === name)) return REGION_EXISTS
  let place = 0
  while (place < ON_DEMAND_REGIONS && !isFree(state, place)) place += 1
  if (place === ON_DEMAND_REGIONS) return ON_DEMAND_FULL
  const shared = sharedAddress(call)
  if (!canTranslate(call, shared, length, place)) return REQUEST
  if (!takePages(state.translation, place, pagesOf(length), shared)) return ON_DEMAND_FULL
  const domain = u16(bytes, at + mad.ON_DEMAND_DOMAIN)
  const region = onDemandRegionOf(state, REGIONS + place, name, {
    length,
    baseHigh,
    baseLow,
    domain,
    rights,
  })
  state.regions.places[region.index] = region
  grantAgain(state, region.index)
  putU32(bytes, to + mad.ON_DEMAND_RKEY, region.rkey)
  putU32(bytes, to + mad.ON_DEMAND_PLACE, region.index)
  return PASS
}

/** The virtual address that the IOMMU is to translate, or BY_TABLE. */
function sharedAddress({ bytes, at }: Call): number {
  if ((bytes[at + mad.ON_DEMAND_FLAGS]! & mad.ON_DEMAND_SHARED) === 0) return BY_TABLE
  return get64(bytes, at + mad.ON_DEMAND_SHARED_HIGH)
}

/** Can the region be translated so? The board has to have that address space for the card. */
function canTranslate({ state }: Call, shared: number, length: number, place: number): boolean {
  if (shared === BY_TABLE) return true
  if (shared % PAGE_BYTES !== 0 || shared + length > SPACE_BYTES) return false
  return place < (state.facts.sharedSpaces ?? 0)
}

interface Shape {
  readonly length: number
  readonly baseHigh: number
  readonly baseLow: number
  readonly domain: number
  readonly rights: number
}

function onDemandRegionOf(state: BoardState, index: number, name: string, shape: Shape): Region {
  return {
    ...{ index, id: 0, name, kind: KIND_ON_DEMAND, slots: 0, capacity: 0, copies: 0, flags: 0 },
    protectionDomain: shape.domain,
    placement: PLACEMENT_ORDINARY,
    ...{ stride: 0, at: 0, base: 0 },
    areaBytes: shape.length,
    baseHigh: shape.baseHigh,
    baseLow: shape.baseLow,
    keyAt: ZEROS_AT,
    rkey: drawKey(state, index),
    rights: shape.rights,
    unsettled: 0,
    repaired: 0,
    mechanism: 0,
    pending: 0,
  }
}

/** The region that the call is about: its key is the first word of each. */
function named(call: Call): Region | null {
  const region = findRegion(call.state.regions, u32(call.bytes, call.at))
  return region !== null && region.kind === KIND_ON_DEMAND ? region : null
}

export function mapPages(call: Call): Fault {
  const { state, bytes, at } = call
  const region = named(call)
  if (region === null) return KEY
  const many = u32(bytes, at + mad.MAP_COUNT)
  if (many < 1 || many > mad.MAP_MAX) return REQUEST
  const pages = pagesOf(region.areaBytes)
  const place = region.index - REGIONS
  const isShared = state.translation.shared[place] !== BY_TABLE
  for (let i = 0; i < many; i++) {
    const entry = at + mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES
    if (u32(bytes, entry) >= pages) return PAGE
    if (!isFrame(state, isShared, u32(bytes, entry + 4))) return PAGE
  }
  if (!isNextCall(state.translation, place, u32(bytes, at + mad.MAP_SEQUENCE))) return PASS
  for (let i = 0; i < many; i++) {
    const entry = at + mad.MAP_FIRST + i * mad.MAP_ENTRY_BYTES
    putPage(state, region, u32(bytes, entry), isShared ? IN_PLACE : u32(bytes, entry + 4))
  }
  wakePaused(state)
  return PASS
}

/** May a page lie there? */
function isFrame(state: HostState, isShared: boolean, frame: number): boolean {
  if (isShared) return frame === mad.MAP_IN_PLACE
  return isHostRange(state.host, frame * PAGE_BYTES, PAGE_BYTES)
}

export function unmapPages(call: Call): Fault {
  const { state, bytes, at } = call
  const region = named(call)
  if (region === null) return KEY
  const many = u32(bytes, at + mad.UNMAP_COUNT)
  if (many < 1 || many > mad.UNMAP_MAX) return REQUEST
  const pages = pagesOf(region.areaBytes)
  const first = at + mad.UNMAP_FIRST
  for (let i = 0; i < many; i++) {
    if (u32(bytes, first + i * mad.UNMAP_ENTRY_BYTES) >= pages) return PAGE
  }
  const place = region.index - REGIONS
  if (!isNextCall(state.translation, place, u32(bytes, at + mad.UNMAP_SEQUENCE))) return PASS
  for (let i = 0; i < many; i++) {
    putPage(state, region, u32(bytes, first + i * mad.UNMAP_ENTRY_BYTES), NO_FRAME)
  }
  return PASS
}

function putPage(
  state: MemoryState & ResidencyState,
  region: Region,
  page: number,
  frame: number,
): void {
  if (!setFrame(state.translation, region.index - REGIONS, page, frame)) return
  pageChanged(state, region, page, frame !== NO_FRAME)
}

/** The region ends; a key that names none was ended before. */
export function deregisterOnDemand(call: Call): Fault {
  const region = named(call)
  if (region === null) return KEY
  endOnDemand(call.state, region)
  return PASS
}

/** What the host says of the region as a whole. */
export function tellState(call: Call): Fault {
  const { state, bytes, at } = call
  const region = named(call)
  if (region === null) return KEY
  const { translation } = state
  const place = region.index - REGIONS
  const kind = bytes[at + mad.ON_DEMAND_STATE_KIND]!
  const was = translation.condition[place]!
  if (kind === STATUS_ERROR || kind === STATUS_UNAVAILABLE) {
    translation.condition[place] = kind
    if (kind !== was) regionEnded(state, region, kind)
  } else if (kind === STATUS_RESET || kind === mad.ON_DEMAND_READY) {
    translation.condition[place] = mad.ON_DEMAND_READY
    if (kind === STATUS_RESET) clearPages(translation, place)
    // Whoever forgot what was known begins again.
    if (kind === STATUS_RESET || was !== mad.ON_DEMAND_READY) {
      regionEnded(state, region, STATUS_RESET)
    }
  } else {
    return REQUEST
  }
  wakePaused(state)
  return PASS
}

assert(ON_DEMAND_REGIONS === RELAYS, 'they share the places behind the regions')
