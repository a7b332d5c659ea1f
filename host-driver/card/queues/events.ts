/** Events of the card: what its ring of them says (firmware/host/header-page.ts). */

import type { SharedMemory } from '../../../boards/host-port.ts'
import * as page from '../../../firmware/host/header-page.ts'
import { faultOfNumber } from '../../base/errors.ts'
import type { QueueEvent } from './values.ts'

const TYPES: Readonly<Record<number, QueueEvent['type']>> = {
  [page.EVENT_QUEUE_ERROR]: 'error',
  [page.EVENT_OVERRUN]: 'overrun',
  [page.EVENT_COMPLETION]: 'completion',
  [page.EVENT_DISCONNECTED]: 'disconnected',
  [page.EVENT_EVENTS_LOST]: 'lost',
  [page.EVENT_PAGES_WANTED]: 'pagesWanted',
  [page.EVENT_PAGES_UNWANTED]: 'pagesUnwanted',
  [page.EVENT_RESIDENCY]: 'residency',
  [page.EVENT_PAGES_HINTED]: 'pagesHinted',
}

const OF_PAGES: ReadonlySet<QueueEvent['type']> = new Set([
  'pagesWanted',
  'pagesUnwanted',
  'pagesHinted',
])

/** The event at `at`, if it is the one with that number; null if it is not there yet. */
export function readEvent(memory: SharedMemory, at: number, number: number): QueueEvent | null {
  if (memory.loadWord(at + page.EVENT_STAMP) >>> 0 !== (number + 1) >>> 0) return null
  const word = memory.loadWord(at + page.EVENT_TYPE)
  const type = TYPES[word & 0xff] ?? 'unknown'
  const queue = memory.loadWord(at + page.EVENT_QUEUE) >>> 0
  const last = memory.loadWord(at + page.EVENT_FAULT) >>> 0
  if (type === 'residency') return { type, queue, fault: 'PASS', rkey: last }
  if (!OF_PAGES.has(type)) return { type, queue, fault: faultOfNumber(last) }
  return { type, queue, fault: 'PASS', pages: { first: last, count: word >>> 16 } }
}
