/**
 * How many pages of memory on demand come and go together (source 5, ¶129): by the memory that is
 * free, the rate of swapping, and the service that its users were promised.
 *
 *   service      free room                 swapping, pages/s            pages of a block
 *   latency   4  1/2 and more: all of it   1000 and less: all of it
 *   balanced  8  1/4: half, 1/8: a quarter each doubling: half of it    the most, of which both
 *   throughput 16 less: one page                                        leave that share
 *
 * Invariants:
 * - A block is a power of two, 1 to 16 pages, which is what a request needs at once at the most.
 * - More free memory never makes it smaller, more swapping never makes it larger, and of two
 *   promises the one of more throughput never gives the smaller one.
 * - Of memory that says nothing of itself, or without a promise, a block is one page.
 */

import type { PagePressure } from '../../boards/host-port.ts'
import { PAGES_AT_ONCE } from '../../firmware/board/limits.ts'

/** What users of the memory were promised: short waits, or much that comes at once. */
export type Service = 'latency' | 'balanced' | 'throughput'

export const SERVICES: readonly Service[] = ['latency', 'balanced', 'throughput']

/** Pages of the largest block. */
export const BLOCK_PAGES_MAX: number = PAGES_AT_ONCE - 1

const MOST: Readonly<Record<Service, number>> = {
  latency: BLOCK_PAGES_MAX / 4,
  balanced: BLOCK_PAGES_MAX / 2,
  throughput: BLOCK_PAGES_MAX,
}

/** Up to so many pages a second swapping costs nobody anything. */
const CALM_PER_S = 1000

/** Pages of a block. `pressure`: of the memory now, or undefined where it says nothing. */
export function blockPagesOf(
  pressure: PagePressure | undefined,
  service: Service | undefined,
): number {
  if (pressure === undefined || service === undefined) return 1
  const { free, swapsPerS } = pressure
  if (!(free >= 1 / 8) || !(swapsPerS >= 0)) return 1
  const room = free >= 1 / 2 ? 1 : free >= 1 / 4 ? 2 : 4
  let pages = MOST[service] / room
  for (let rate = swapsPerS; rate > CALM_PER_S && pages > 1; rate /= 2) pages /= 2
  return Math.max(1, pages)
}
