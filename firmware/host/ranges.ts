// hot path
/**
 * Which ranges of its memory a host may name to the card.
 *
 * Invariant: nothing that the card is asked to write lies in the queue information, the
 * header page or the ring of events (P3-11: the host writes zones 1 and 2 neither directly nor
 * through the card); bounds are compared without a sum that could overflow.
 */

import { QUEUE_DEPTH_MAX, UNIT_BYTES } from '../board/limits.ts'
import { HEADER_PAGE_BYTES } from '../board/memory-map.ts'
import { EVENT_BYTES } from './header-page.ts'
import type { HostQueues } from './host.ts'
import { ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from './queue-info.ts'

/** May the card read and write [at, at + bytes) as the host's own memory? */
export function isHostRange(host: HostQueues, at: number, bytes: number): boolean {
  if (bytes > host.dmaBytes || at > host.dmaBytes - bytes) return false
  const { queues, events } = host
  return (
    !meet(at, bytes, host.header, HEADER_PAGE_BYTES) &&
    !meet(at, bytes, host.zone1, queues * ZONE1_BYTES) &&
    !meet(at, bytes, host.zone2, queues * ZONE2_BYTES) &&
    !meet(at, bytes, host.zone3, queues * ZONE3_BYTES) &&
    !meet(at, bytes, events.at, events.depth * EVENT_BYTES)
  )
}

/** Whether a ring of `depth` units or entries may lie at `at`. */
export function isRing(host: HostQueues, at: number, depth: number): boolean {
  if (depth < 1 || depth > QUEUE_DEPTH_MAX || (depth & (depth - 1)) !== 0) return false
  return at % UNIT_BYTES === 0 && isHostRange(host, at, depth * UNIT_BYTES)
}

/** Do two ranges have a byte in common? */
export function meet(one: number, bytes: number, other: number, otherBytes: number): boolean {
  return one < other + otherBytes && other < one + bytes
}
