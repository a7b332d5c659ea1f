// hot path
/**
 * How what lies in a region becomes durable, as a PERSIST_ACK and a completion say it.
 *
 * What always holds: it follows from where the region lies (P2-15, P2-24); mechanisms are numbered
 * as placements are.
 */

import { assert } from '../assert.ts'
import {
  PLACEMENT_BYPASS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
} from '../memory/region.ts'
import {
  MECHANISM_CPU_FLUSH,
  MECHANISM_LOCAL_FLUSH,
  MECHANISM_LSB_READ,
} from '../wire/persist-ack.ts'

/** The mechanism's number is the placement's plus this. */
export const MECHANISM_OF_PLACEMENT: number = MECHANISM_LOCAL_FLUSH - PLACEMENT_LOCAL

/** How what lies in the region becomes durable. */
export function mechanismOf(region: Region): number {
  return region.placement + MECHANISM_OF_PLACEMENT
}

const ALIKE = 'mechanisms are numbered as placements are'
assert(MECHANISM_LSB_READ === PLACEMENT_BYPASS + MECHANISM_OF_PLACEMENT, ALIKE)
assert(MECHANISM_CPU_FLUSH === PLACEMENT_THROUGH + MECHANISM_OF_PLACEMENT, ALIKE)
