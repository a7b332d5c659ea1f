// hot path
/**
 * Memory of the host that is registered on demand: its pages come and go, and a request that needs
 * one which is away waits for it (source 5; P5-27, P5-28, X-6).
 *
 *   WRITE, READ ──▶ page ──medium/translation.ts──▶ frame, or virtual address: carried out
 *                     └─ away: EVENT_PAGES_WANTED to the host, RNR NAK to the requester
 *
 * Invariants:
 * - The pages are looked up before the PSN of a packet is consumed: one that is refused for a page
 *   has changed nothing, and comes again. What was accepted is carried out by the end of its burst,
 *   and pages are taken by control calls, which are executed behind it (core.ts): a translation
 *   holds from its look-up to the last command that uses it. Except for a host that goes: then
 *   nothing accepted is answered any more (KEY).
 * - A host that takes a page waits for the answer to UNMAP. That is a posted write, composed when
 *   every list with the old translation has run: reads were completed then, and posted writes
 *   arrive in their order (PCIe Base 2.4.1). So no byte reaches a frame that was taken.
 * - A request needs PAGES_AT_ONCE pages at once at the most, those at its begin: of a longer WRITE
 *   every packet needs its own, a longer READ is answered in turns and pauses (stream.ts).
 * - Requests that need many pages each may take them from one another forever, where the host has
 *   few frames. So who has waited for too long has a turn, the longest first, and meanwhile no page
 *   is asked for on behalf of another: it gets all of its own, and is served.
 * - Nothing here is durable, and nothing says so: WRITE_PERSIST, atomics and FLUSH are not granted.
 *   That bytes can be seen by everybody is told by a READ behind the WRITE, which pushes it; a
 *   FLUSH for that would need a page that may be away.
 * - The host is told of the same page once in TELL_AGAIN_US, whoever asks; and once more where an
 *   access needs what was hinted at, for that comes first. Nobody but the host is believed where a
 *   page lies.
 */

import { compare, copy } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { type Fault, KEY, PAGE_ABSENT, PASS, UNREADABLE } from '../board/fault.ts'
import {
  ON_DEMAND_REGIONS,
  PAGE_BYTES,
  PAGES_AT_ONCE,
  QUEUE_PAIRS,
  REGIONS,
} from '../board/limits.ts'
import type { BurstState, OrderedState, ServeContext } from '../burst/context.ts'
import { postPages } from '../host/events.ts'
import {
  EVENT_PAGES_HINTED,
  EVENT_PAGES_UNWANTED,
  EVENT_PAGES_WANTED,
} from '../host/header-page.ts'
import type { HostState } from '../host/host-state.ts'
import type { MemoryState } from '../medium/context.ts'
import { byteOffset, KIND_ON_DEMAND, type Region } from '../medium/region.ts'
import {
  ANYWHERE,
  AWAY,
  addressOfPage,
  isPageThere,
  isToBeTold,
  pagesOf,
  releasePages,
  THERE,
} from '../medium/translation.ts'
import { psnOwnerOf } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import type { WireState } from '../wire/context.ts'
import { ON_DEMAND_READY } from '../wire/management.ts'
import { STATUS_ERROR, STATUS_UNAVAILABLE } from '../wire/memory-status.ts'
import { regionEnded } from './telling.ts'

/** Bytes of a request whose pages must be there at once. */
export const BYTES_AT_ONCE: number = (PAGES_AT_ONCE - 1) * PAGE_BYTES

/** Runs of pages that the host is told of at once, at the most: of others in a later turn. */
const RUNS_MAX = 16

/** Who has waited for so long has a turn, µs; and how long that is, at the most. */
const STARVED_US = 5_000
const TURN_US = 10_000

/** Where the region stands in the tables of those that are registered on demand. */
function regionPlaceOf(region: Region): number {
  return region.index - REGIONS
}

/** How many of the `length` bytes from `offset` on are there, up to the first page that is away. */
export function reachOf(
  state: MemoryState,
  region: Region,
  offset: number,
  length: number,
): number {
  const { translation } = state
  const place = regionPlaceOf(region)
  let page = Math.floor(offset / PAGE_BYTES)
  let end = page * PAGE_BYTES
  while (end < offset + length && isPageThere(translation, place, page)) {
    page += 1
    end = page * PAGE_BYTES
  }
  return end <= offset ? 0 : Math.min(length, end - offset)
}

/**
 * Tells the host that `count` pages from `first` on will be needed together, by a hint: those
 * that are away are to come when no access waits for others, and those that are there, some of
 * which may be about to go, to stay. Returns how many of them were looked at.
 */
export function expectPages(
  state: BoardState & MemoryState & HostState,
  region: Region,
  first: number,
  count: number,
  now: number,
): number {
  return tellOfPages(state, region, first, count, ANYWHERE, EVENT_PAGES_HINTED, now)
}

/**
 * Tells the host that a requester will not need those of the pages that are there. Returns how many
 * of them were looked at.
 */
export function dropPages(
  state: BoardState & MemoryState & HostState,
  region: Region,
  first: number,
  count: number,
): number {
  const now = state.connections.nowUs
  return tellOfPages(state, region, first, count, THERE, EVENT_PAGES_UNWANTED, now)
}

/** Neighbours make one event. What reaches beyond the region is left out. */
function tellOfPages(
  state: BoardState & MemoryState & HostState,
  region: Region,
  first: number,
  count: number,
  which: number,
  type: number,
  now: number,
): number {
  const { host, list, translation } = state
  const place = regionPlaceOf(region)
  if (translation.condition[place] !== ON_DEMAND_READY) return count
  const end = Math.min(translation.pages[place]!, first + count)
  const hinted = type === EVENT_PAGES_HINTED
  let run = 0
  let runs = 0
  let page = first
  for (; page < end && runs < RUNS_MAX; page++) {
    if (isToBeTold(translation, place, page, which, hinted, now)) {
      run += 1
      if (page + 1 < end) continue
      page += 1
    }
    if (run === 0) continue
    postPages(host, list, type, region.rkey, page - run, run)
    runs += 1
    run = 0
  }
  return page < end ? page - first : count
}

/**
 * Are `bytes` from `offset` on there for that queue pair now? If not, the host is asked for the
 * pages of `ahead` bytes. Faults: PAGE_ABSENT; KEY if the region is no more; UNREADABLE.
 */
export function pagesFault(
  state: ServeContext,
  qp: QueuePair,
  region: Region,
  offset: number,
  bytes: number,
  ahead: number,
  now: number,
): Fault {
  if (state.regions.places[region.index] !== region) return KEY
  const condition = state.translation.condition[regionPlaceOf(region)]
  if (condition === STATUS_ERROR) return UNREADABLE
  if (condition === ON_DEMAND_READY && reachOf(state, region, offset, bytes) === bytes) {
    if (qp.absentUs !== Infinity) endWaiting(state, qp)
    return PASS
  }
  if (!mayAsk(state, qp, now)) return PAGE_ABSENT
  const first = Math.floor(offset / PAGE_BYTES)
  const span = Math.min(ahead, BYTES_AT_ONCE)
  const count = pagesOf(offset + span) - first
  tellOfPages(state, region, first, count, AWAY, EVENT_PAGES_WANTED, now)
  return PAGE_ABSENT
}

function endWaiting(state: OrderedState, qp: QueuePair): void {
  qp.absentUs = Infinity
  if (state.pageTurn.qp === qp) state.pageTurn.qp = null
}

/** May pages be asked for on behalf of that queue pair now? */
function mayAsk(state: TransportState & OrderedState, qp: QueuePair, now: number): boolean {
  const { pageTurn } = state
  if (qp.absentUs === Infinity) qp.absentUs = now
  const holder = pageTurn.qp
  // Who has had its turn waits again, or does not come any more.
  if (holder !== null && (now >= pageTurn.untilUs || holder.state !== STATE_OPEN)) {
    holder.absentUs = holder === qp ? now : Infinity
    pageTurn.qp = null
  }
  if (pageTurn.qp === null && now - qp.absentUs >= STARVED_US) {
    pageTurn.qp = longestWaiting(state, qp)
    pageTurn.untilUs = now + TURN_US
  }
  return pageTurn.qp === null || pageTurn.qp === qp
}

function longestWaiting(state: TransportState, asking: QueuePair): QueuePair {
  let longest = asking
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp === null || qp.state !== STATE_OPEN) continue
    if (qp.absentUs < longest.absentUs) longest = qp
  }
  return longest
}

/** Offset of the range of `state.reth` in the region, or -1 where it leaves it. */
export function offsetIn(state: WireState, region: Region): number {
  const { vaHigh, vaLow, length } = state.reth
  return byteOffset(region, vaHigh, vaLow, length)
}

/** Where that byte of the region lies, whoever translates it. Its page must be there. */
function addressOf(state: MemoryState, region: Region, offset: number): number {
  const page = Math.floor(offset / PAGE_BYTES)
  const at = addressOfPage(state.translation, regionPlaceOf(region), page)
  return at + (offset - page * PAGE_BYTES)
}

/** Bytes of [offset, offset + length) that lie in the page of the first one. */
function inPage(offset: number, length: number): number {
  return Math.min(length, PAGE_BYTES - (offset % PAGE_BYTES))
}

/** Stores what came in that packet, page by page: posted writes, which nobody answers. */
export function storePages(
  state: BoardState & MemoryState,
  qp: QueuePair,
  psn: number,
  from: number,
  region: Region,
  length: number,
): void {
  const { list } = state
  const to = qp.messageTo
  list.owner = psnOwnerOf(qp, psn)
  let done = 0
  while (done < length) {
    const bytes = inPage(to + done, length - done)
    copy(list, from + done, addressOf(state, region, to + done), bytes)
    done += bytes
  }
  list.owner = 0
}

/** Brings bytes of the region into packet memory, page by page. */
export function bringPages(
  state: BoardState & MemoryState,
  region: Region,
  offset: number,
  to: number,
  length: number,
): void {
  let done = 0
  while (done < length) {
    const bytes = inPage(offset + done, length - done)
    copy(state.list, addressOf(state, region, offset + done), to + done, bytes)
    done += bytes
  }
}

/** Has every byte delivered once, on behalf of that PSN: where one cannot be, it is refused. */
export function checkPages(
  state: BoardState & MemoryState & BurstState,
  qp: QueuePair,
  psn: number,
  region: Region,
  offset: number,
  length: number,
): void {
  const { list } = state
  list.owner = psnOwnerOf(qp, psn)
  let done = 0
  while (done < length) {
    const bytes = inPage(offset + done, length - done)
    const at = addressOf(state, region, offset + done)
    compare(list, at, at, bytes)
    done += bytes
  }
  list.owner = 0
  state.stores += 1
}

/** Long READs that wait for a page look again, soon. */
export function wakePaused(state: TransportState & OrderedState): void {
  if (state.pausedUs === Infinity) return
  state.pausedUs = Infinity
  state.streaming = true
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null) qp.stream.paused = false
  }
}

/** The region is no more: its key names nothing, and its pages are the host's alone. */
export function endOnDemand(state: ServeContext, region: Region): void {
  regionEnded(state, region, STATUS_UNAVAILABLE)
  state.regions.places[region.index] = null
  releasePages(state.translation, regionPlaceOf(region))
  wakePaused(state)
}

/** The host is gone, and all of its memory with it. */
export function endAllOnDemand(state: ServeContext): void {
  for (let i = 0; i < ON_DEMAND_REGIONS; i++) {
    const region = state.regions.places[REGIONS + i]!
    if (region !== null && region.kind === KIND_ON_DEMAND) endOnDemand(state, region)
  }
}
