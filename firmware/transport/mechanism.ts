/**
 * How what lies in a region becomes durable, as a PERSIST_ACK and a completion say it.
 *
 * Invariant: it follows from where the region lies (P2-15, P2-24); mechanisms are numbered
 * as placements are. A bit on top says that the card's own memory, without which no record comes
 * through a crash, does not outlive the power. A region has its number when it is opened.
 */

import { assert } from '../board/assert.ts'
import type { BoardState } from '../board/context.ts'
import { HEALTH_AT, VOLATILE } from '../board/hal.ts'
import { PLACEMENT_BYPASS, PLACEMENT_LOCAL, PLACEMENT_THROUGH } from '../medium/region.ts'
import {
  MECHANISM_CPU_FLUSH,
  MECHANISM_LOCAL_FLUSH,
  MECHANISM_LSB_READ,
  MECHANISM_VOLATILE,
} from '../wire/persist-ack.ts'

/** The mechanism's number is the placement's plus this. */
const MECHANISM_OF_PLACEMENT: number = MECHANISM_LOCAL_FLUSH - PLACEMENT_LOCAL

/** How what is placed there becomes durable. */
export function mechanismOf(state: BoardState, placement: number): number {
  const isVolatile = (state.words[HEALTH_AT >> 2]! & VOLATILE) !== 0
  return (placement + MECHANISM_OF_PLACEMENT) | (isVolatile ? MECHANISM_VOLATILE : 0)
}

const ALIKE = 'mechanisms are numbered as placements are'
assert(MECHANISM_LSB_READ === PLACEMENT_BYPASS + MECHANISM_OF_PLACEMENT, ALIKE)
assert(MECHANISM_CPU_FLUSH === PLACEMENT_THROUGH + MECHANISM_OF_PLACEMENT, ALIKE)
