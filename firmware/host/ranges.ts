// hot path
/**
 * Which ranges of its memory a host may name to the card.
 *
 * What always holds: nothing that the card is asked to write lies in the queue information, the
 * header page or the ring of events (P3-11: the host writes zones 1 and 2 neither directly nor
 * through the card); bounds are compared without a sum that could overflow.
 */

import { type Fault, MEMORY_KEY, PASS } from '../fault.ts'
import { QUEUE_DEPTH_MAX, UNIT_BYTES } from '../limits.ts'
import { HEADER_PAGE_BYTES } from '../memory-map.ts'
import { typeOf, zone1Word } from './context.ts'
import { EVENT_BYTES } from './header-page.ts'
import type { HostQueues } from './host.ts'
import { memoryFault } from './memory-regions.ts'
import { TYPE_GSI, Z1_DOMAIN, ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from './queue-info.ts'

/** May the card read and write [at, at + bytes) as the host's own memory? */
export function isOpen(host: HostQueues, at: number, bytes: number): boolean {
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

/**
 * May the element of the queue at `place` name [at, at + length) under that key? Of management no
 * key is asked: it is what registers memory, and its memory is the kernel's own.
 */
export function keyFault(
  host: HostQueues,
  place: number,
  key: number,
  at: number,
  length: number,
): Fault {
  if (typeOf(host, place) === TYPE_GSI) return isOpen(host, at, length) ? PASS : MEMORY_KEY
  return memoryFault(host.regions, key, zone1Word(host, place, Z1_DOMAIN), at, length)
}

/** Whether a ring of `depth` units or entries may lie at `at`. */
export function isRing(host: HostQueues, at: number, depth: number): boolean {
  if (depth < 1 || depth > QUEUE_DEPTH_MAX || (depth & (depth - 1)) !== 0) return false
  return at % UNIT_BYTES === 0 && isOpen(host, at, depth * UNIT_BYTES)
}

/** Do two ranges have a byte in common? */
export function meet(one: number, bytes: number, other: number, otherBytes: number): boolean {
  return one < other + otherBytes && other < one + bytes
}
