/**
 * Who carries out records that the group does not store itself: a row for each such placement.
 * A new placement is a row here, its code in this folder, its number in medium/region.ts, and what
 * health and mechanism say of it (engine/storage.ts, transport/mechanism.ts).
 *
 * Invariant: a record that is `ready` on its first packet is accepted, or refused, on its last one;
 * nothing of it is stored before that.
 */

import { assert } from '../board/assert.ts'
import type { Fault } from '../board/fault.ts'
import type { ServeContext } from '../burst/context.ts'
import {
  PLACEMENT_ORDINARY,
  PLACEMENT_RELAY,
  PLACEMENT_THROUGH,
  type Region,
} from '../medium/region.ts'
import type { Ask } from '../transport/message.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { acceptRelay, relayReady } from './relay.ts'
import { acceptThrough, throughReady } from './through.ts'

/** What a placement says to a record. */
interface Placement {
  /** Could it be taken now? Asked before its first packet is: PASS, NOT_READY, or a fault. */
  readonly ready: (state: ServeContext, qp: QueuePair, region: Region) => Fault
  /** Takes it, its data at `dataAt`, to be answered when it is durable. A fault refuses it. */
  readonly accept: (state: ServeContext, qp: QueuePair, ask: Ask, dataAt: number) => Fault
}

const THROUGH: Placement = { ready: throughReady, accept: acceptThrough }
const RELAY: Placement = { ready: relayReady, accept: acceptRelay }

/** By PLACEMENT_*; null where the group stores the records itself, or takes none. */
const PLACEMENTS: readonly (Placement | null)[] = [null, null, THROUGH, RELAY, null]

/** Who carries out the records of the region; null if the group does. */
export function placementOf(region: Region): Placement | null {
  return PLACEMENTS[region.placement]!
}

assert(PLACEMENTS[PLACEMENT_THROUGH] === THROUGH, 'the rows stand by their numbers')
assert(PLACEMENTS[PLACEMENT_RELAY] === RELAY, 'the rows stand by their numbers')
assert(PLACEMENTS.length === PLACEMENT_ORDINARY + 1, 'each placement has a row')
