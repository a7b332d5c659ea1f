// hot path
/**
 * The event ring: how the card says that something happened to a queue, and wakes the host.
 *
 * Invariant: an event is stored before the word of interrupts that announces it. A ring
 * that is full loses events, never silently: its last place says that there were some, and that is
 * said again when there were more.
 */

import { type CommandList, copy } from '../board/command-list.ts'
import { PASS } from '../board/fault.ts'
import { DMA_SPACE } from '../board/hal.ts'
import { HEADER_PAGE_AT } from '../board/memory-map.ts'
import { takeLine } from './compose.ts'
import {
  EVENT_BYTES,
  EVENT_EVENTS_LOST,
  EVENT_FAULT,
  EVENT_QUEUE,
  EVENT_STAMP,
  EVENT_TYPE,
  HEADER_EVENTS_MADE,
  HEADER_EVENTS_TAKEN,
  HEADER_INTERRUPTS,
} from './header-page.ts'
import { EVENTS_POSTED, type HostQueues, INTERRUPTS } from './host.ts'
import { ahead } from './queue-info.ts'

/** Where events were lost, how soon it is looked whether the host has made room, µs. */
const LOOK_US = 1000

/** Where the type of an event about pages has their number. */
const COUNT_SHIFT = 16

/** Tells the host, and wakes it when the list is over. */
export function postEvent(
  host: HostQueues,
  list: CommandList,
  type: number,
  queue: number,
  fault: number,
): void {
  const { events } = host
  const room = events.depth - ahead(events.made, events.taken)
  if (room > 1) {
    putEvent(host, list, type, queue, fault)
  } else if (room === 1) {
    putEvent(host, list, EVENT_EVENTS_LOST, 0, PASS)
  } else if (!events.lost) {
    events.lost = true
    events.lookUs = host.nowUs + LOOK_US
  }
}

/**
 * Tells the host of `count` pages from `first` on of the region that the key names: `type` is
 * EVENT_PAGES_WANTED, _HINTED or _UNWANTED.
 */
export function postPages(
  host: HostQueues,
  list: CommandList,
  type: number,
  rkey: number,
  first: number,
  count: number,
): void {
  postEvent(host, list, type | (count << COUNT_SHIFT), rkey, first)
}

function putEvent(
  host: HostQueues,
  list: CommandList,
  type: number,
  queue: number,
  fault: number,
): void {
  const { events, words } = host
  const at = takeLine(host, list)
  words[(at + EVENT_TYPE) >> 2] = type
  words[(at + EVENT_QUEUE) >> 2] = queue
  words[(at + EVENT_FAULT) >> 2] = fault
  words[(at + EVENT_STAMP) >> 2] = events.made + 1
  const slot = (events.made & (events.depth - 1)) >>> 0
  copy(list, at, DMA_SPACE + events.at + slot * EVENT_BYTES, EVENT_BYTES)
  events.made = (events.made + 1) >>> 0
  host.counters[EVENTS_POSTED]! += 1
  host.interruptDue = true
}

/** Is it worth to read how many events the host has taken? */
export function isEventsReadDue(host: HostQueues): boolean {
  const { events } = host
  return events.lost || 2 * ahead(events.made, events.taken) > events.depth
}

/** Reads how many events the host has taken. Returns the number of the read. */
export function readEventsTaken(host: HostQueues, list: CommandList): number {
  const from = DMA_SPACE + host.header + HEADER_EVENTS_TAKEN
  return copy(list, from, HEADER_PAGE_AT + HEADER_EVENTS_TAKEN, 4)
}

/** What was read is believed if it can be; where events were lost, that is said now. */
export function refreshEvents(host: HostQueues, list: CommandList): void {
  const { events, words } = host
  const taken = words[(HEADER_PAGE_AT + HEADER_EVENTS_TAKEN) >> 2]! >>> 0
  events.lookUs = host.nowUs + LOOK_US
  if (ahead(events.made, taken) >= ahead(events.made, events.taken)) return
  events.taken = taken
  if (!events.lost) return
  events.lost = false
  putEvent(host, list, EVENT_EVENTS_LOST, 0, PASS)
}

/** Counts up the word that wakes the host, if anything was told since. */
export function writeInterrupt(host: HostQueues, list: CommandList): void {
  if (!host.interruptDue) return
  host.interruptDue = false
  const { words } = host
  const at = HEADER_PAGE_AT + HEADER_INTERRUPTS
  words[at >> 2]! += 1
  words[(HEADER_PAGE_AT + HEADER_EVENTS_MADE) >> 2] = host.events.made
  copy(list, at, DMA_SPACE + host.header + HEADER_INTERRUPTS, 8)
  host.counters[INTERRUPTS]! += 1
}
