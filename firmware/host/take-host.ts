/**
 * The header page, judged: what the host says of its queues, before any of it is believed (P3-10).
 *
 * Invariant: only the copy in packet memory is read, and nothing of it is used before all
 * of it was judged. No two of the ranges that it names have a byte in common, so nothing that the
 * card writes for one queue is another's; all of them lie in what DMA may reach.
 */

import { type Fault, HEADER_PAGE, PASS } from '../board/fault.ts'
import { HOST_QUEUES, QUEUE_DEPTH_MAX, UNIT_BYTES } from '../board/limits.ts'
import { HEADER_PAGE_AT, HEADER_PAGE_BYTES } from '../board/memory-map.ts'
import * as page from './header-page.ts'
import type { HostQueues } from './host.ts'
import { ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from './queue-info.ts'

/** What the page says, in numbers. */
export interface Layout {
  queues: number
  zone1: number
  zone2: number
  zone3: number
  sendRing: number
  sendUnits: number
  receiveRing: number
  receiveUnits: number
  completionRing: number
  completions: number
  pointerOrder: number
  eventRing: number
  events: number
  trust: number
}

/** Reads the page at HEADER_PAGE_AT; any bytes give numbers. */
export function readLayout({ words }: HostQueues): Layout {
  const word = (at: number): number => words[(HEADER_PAGE_AT + at) >> 2]! >>> 0
  const address = (at: number): number => word(at) + word(at + 4) * 2 ** 32
  return {
    queues: word(page.HEADER_QUEUES),
    zone1: address(page.HEADER_ZONE1),
    zone2: address(page.HEADER_ZONE2),
    zone3: address(page.HEADER_ZONE3),
    sendRing: address(page.HEADER_SEND_RING),
    sendUnits: word(page.HEADER_SEND_UNITS),
    receiveRing: address(page.HEADER_RECEIVE_RING),
    receiveUnits: word(page.HEADER_RECEIVE_UNITS),
    completionRing: address(page.HEADER_COMPLETION_RING),
    completions: word(page.HEADER_COMPLETIONS),
    pointerOrder: word(page.HEADER_POINTER_ORDER),
    eventRing: address(page.HEADER_EVENT_RING),
    events: word(page.HEADER_EVENTS),
    trust: word(page.HEADER_TRUST),
  }
}

/** The page lies at offset `header` of the host's memory. */
export function layoutFault(host: HostQueues, header: number, layout: Layout): Fault {
  const word = (at: number): number => host.words[(HEADER_PAGE_AT + at) >> 2]! >>> 0
  if (word(0) !== page.HEADER_MAGIC || word(4) !== page.HEADER_VERSION) return HEADER_PAGE
  if (word(page.HEADER_R1) !== ZONE1_BYTES) return HEADER_PAGE
  if (word(page.HEADER_R2) !== ZONE2_BYTES) return HEADER_PAGE
  if (word(page.HEADER_R3) !== ZONE3_BYTES) return HEADER_PAGE
  const { queues, sendUnits, receiveUnits, completions, events } = layout
  if (queues < page.FIRST_QUEUE || queues > HOST_QUEUES) return HEADER_PAGE
  if (layout.pointerOrder > page.ORDER_TIME) return HEADER_PAGE
  if (![sendUnits, receiveUnits, completions].every(isDepth)) return HEADER_PAGE
  if (!isDepth(events) || events < EVENTS_MIN) return HEADER_PAGE
  const ranges = [
    [header, HEADER_PAGE_BYTES],
    [layout.zone1, queues * ZONE1_BYTES],
    [layout.zone2, queues * ZONE2_BYTES],
    [layout.zone3, queues * ZONE3_BYTES],
    [layout.sendRing, sendUnits * UNIT_BYTES],
    [layout.receiveRing, receiveUnits * UNIT_BYTES],
    [layout.completionRing, completions * UNIT_BYTES],
    [layout.eventRing, events * page.EVENT_BYTES],
  ] as const
  for (let i = 0; i < ranges.length; i++) {
    const [at, bytes] = ranges[i]!
    if (at % UNIT_BYTES !== 0 || bytes > host.dmaBytes || at > host.dmaBytes - bytes) {
      return HEADER_PAGE
    }
    for (let j = 0; j < i; j++) {
      const [other, otherBytes] = ranges[j]!
      if (at < other + otherBytes && other < at + bytes) return HEADER_PAGE
    }
  }
  return PASS
}

/** One event, and the one that says that more were lost. */
const EVENTS_MIN = 2

function isDepth(depth: number): boolean {
  return depth >= 1 && depth <= QUEUE_DEPTH_MAX && (depth & (depth - 1)) === 0
}
