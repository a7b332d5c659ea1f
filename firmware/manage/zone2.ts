/**
 * Zone 2 of the host's queues: ring, depth and moderation, changed through the card (source 3;
 * P3-8, P3-9, P3-24).
 *
 *   by message   the host sends zone 2, the card writes it: between two elements
 *   by lock      lock, and the queue stands still ─▶ the host writes ─▶ release, and it is judged
 *
 * Unit n lies in place n modulo depth. So before the message the host has stored each element that
 * the card has not taken where the new ring wants it, and leaves it in the old one, too: whichever
 * pointer the answer tells, everything in front of it was taken from the old ring, and all others
 * are taken from the new one. Of a completion queue, what is in front of the pointer was written to
 * the old ring, and all others are written to the new one. Nothing is lost, repeated or reordered.
 *
 * Invariants:
 * - What is outstanding fits into the new ring, and the receive queue of a pair stays at least as
 *   deep as its send queue (P3-1).
 * - While a queue is locked nothing is taken from it, and nobody else gets its lock; what rang
 *   meanwhile is looked at when it is released.
 * - A bad zone 2 ends that queue and no other; one that is sent by message is refused instead.
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  DMA,
  type Fault,
  PASS,
  QUEUE_BUSY,
  QUEUE_CONTEXT,
  QUEUE_LOCKED,
  QUEUE_UNKNOWN,
  REQUEST,
} from '../board/fault.ts'
import { DONE } from '../board/hal.ts'
import { random32 } from '../board/random.ts'
import type { BurstContext } from '../burst/context.ts'
import { failHostQueue } from '../burst/queue-contexts.ts'
import { FIRST_QUEUE } from '../host/header-page.ts'
import type { HostContext } from '../host/host-state.ts'
import { PENDING, stand } from '../host/pending.ts'
import * as info from '../host/queue-info.ts'
import { isRing } from '../host/ranges.ts'
import * as seen from '../queues/look.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import type { Call } from './call.ts'

/** Where the queue is looked at, and the other one of its pair. */
const QUEUE = seen.FIRST
const OTHER = seen.SECOND

/** Bytes of zone 2 that mean something; the rest is 0. */
const ZONE2_USED = 16

/** Zone 2 by message. */
export function writeQueue(call: Call): Fault {
  const { state, bytes, at, to } = call
  const queue = u32(bytes, at + mad.QUEUE_WRITE_QUEUE)
  let fault = seen.lookAt(state, queue, QUEUE, 0)
  if (fault !== PASS) return fault
  const zone1 = seen.seenAt(QUEUE)
  if (isZone2Locked(state)) return QUEUE_LOCKED
  if (!mayChange(state)) return REQUEST
  const from = at + mad.QUEUE_WRITE_ZONE2
  bytes.copyWithin(zone1 + info.CONTEXT_ZONE2, from, from + info.ZONE2_BYTES)
  fault = zone2Fault(state, queue)
  if (fault !== PASS) return fault
  const pointer = seen.word(state, zone1 + info.Z1_POINTER)
  takeZone2(state, queue, pointer)
  putU32(bytes, to + mad.QUEUE_WRITE_POINTER, pointer)
  return PASS
}

/** Gives the lock of zone 2, and stops the queue. */
export function lockQueue(call: Call): Fault {
  const { state, bytes, at, to } = call
  const queue = u32(bytes, at + mad.QUEUE_LOCK_QUEUE)
  // Without management nobody could ask for the release.
  if (queue < FIRST_QUEUE) return QUEUE_UNKNOWN
  const fault = seen.lookAt(state, queue, QUEUE, 0)
  if (fault !== PASS) return fault
  const zone1 = seen.seenAt(QUEUE)
  if (isZone2Locked(state)) return QUEUE_LOCKED
  if (!mayChange(state)) return REQUEST
  const completions = bytes[zone1 + info.Z1_KIND] === info.KIND_COMPLETION
  if (completions && seen.reservedOf(state, queue) > 0) return QUEUE_BUSY
  const token = (random32(state) | 1) >>> 0
  bytes[zone1 + info.Z1_BEFORE] = bytes[zone1 + info.Z1_STATE]!
  bytes[zone1 + info.Z1_STATE] = info.QUEUE_PAUSED
  seen.putWord(state, zone1 + info.Z1_LOCK, token)
  seen.writeZone1(state, queue, QUEUE)
  putU32(bytes, to + mad.QUEUE_LOCK_TOKEN, token)
  putU32(bytes, to + mad.QUEUE_LOCK_POINTER, seen.word(state, zone1 + info.Z1_POINTER))
  return PASS
}

/** Takes the lock back, and zone 2 as the host has left it. */
export function releaseQueue(call: Call): Fault {
  const { state, bytes, at } = call
  const queue = u32(bytes, at + mad.QUEUE_LOCK_QUEUE)
  const token = u32(bytes, at + mad.QUEUE_LOCK_TOKEN)
  let fault = seen.lookAt(state, queue, QUEUE, 0)
  if (fault !== PASS) return fault
  const zone1 = seen.seenAt(QUEUE)
  if (token === 0 || token !== seen.word(state, zone1 + info.Z1_LOCK)) return QUEUE_LOCKED
  seen.putWord(state, zone1 + info.Z1_LOCK, 0)
  if (bytes[zone1 + info.Z1_STATE] !== info.QUEUE_PAUSED) {
    // It failed while it was locked.
    seen.writeZone1(state, queue, QUEUE)
    return PASS
  }
  bytes[zone1 + info.Z1_STATE] = bytes[zone1 + info.Z1_BEFORE]!
  const zone2 = zone1 + info.CONTEXT_ZONE2
  const read = copy(state.list, seen.zone2Of(state, queue), zone2, info.ZONE2_BYTES)
  runAll(state.list)
  fault = resultOf(state.list, read) === DONE ? zone2Fault(state, queue) : DMA
  if (fault === PASS) {
    takeZone2(state, queue, seen.word(state, zone1 + info.Z1_POINTER))
    return PASS
  }
  const why = fault === DMA ? DMA : QUEUE_CONTEXT
  seen.writeZone1(state, queue, QUEUE)
  failHostQueue(state, queue, why)
  return why
}

function isZone2Locked(state: BoardState): boolean {
  return seen.word(state, seen.seenAt(QUEUE) + info.Z1_LOCK) !== 0
}

/** A queue that is not ready to work has nothing to change. */
function mayChange(state: BoardState): boolean {
  const has = state.bytes[seen.seenAt(QUEUE) + info.Z1_STATE]!
  return has === info.QUEUE_INIT || has === info.QUEUE_READY
}

/** Whether the queue can go on with zone 2 as it lies at `seenAt(QUEUE)`. */
function zone2Fault(state: BurstContext, queue: number): Fault {
  const { bytes } = state
  const zone1 = seen.seenAt(QUEUE)
  const zone2 = zone1 + info.CONTEXT_ZONE2
  const ring = seen.address(state, zone2 + info.Z2_RING)
  const depth = seen.word(state, zone2 + info.Z2_DEPTH)
  if (!isRing(state.host, ring, depth)) return REQUEST
  for (let i = ZONE2_USED; i < info.ZONE2_BYTES; i++) if (bytes[zone2 + i] !== 0) return REQUEST
  const own = seen.word(state, zone1 + info.Z1_POINTER)
  const far = seen.word(state, zone1 + info.CONTEXT_ZONE3 + info.Z3_POINTER)
  if (bytes[zone1 + info.Z1_KIND] === info.KIND_COMPLETION) {
    const there = info.ahead(own, far) + seen.reservedOf(state, queue)
    return there > depth ? REQUEST : PASS
  }
  if (seen.word(state, zone2 + info.Z2_COUNT) !== 0) return REQUEST
  if (info.ahead(far, own) > depth) return REQUEST
  return pairFault(state, depth)
}

/** P3-1, for what is about to be the depth of one queue of a pair. */
function pairFault(state: BurstContext, depth: number): Fault {
  const zone1 = seen.seenAt(QUEUE)
  const other = seen.word(state, zone1 + info.Z1_OTHER)
  const fault = seen.lookAt(state, other, OTHER, 0)
  if (fault !== PASS) return fault
  const zone2 = seen.seenAt(OTHER) + info.CONTEXT_ZONE2
  const otherDepth = seen.word(state, zone2 + info.Z2_DEPTH)
  const send = state.bytes[zone1 + info.Z1_KIND] === info.KIND_SEND
  return (send ? otherDepth < depth : depth < otherDepth) ? REQUEST : PASS
}

/** The queue goes on with the zone 2 that lies at `seenAt(QUEUE)`, and is looked at again. */
function takeZone2(state: HostContext, queue: number, pointer: number): void {
  seen.setNext(state, QUEUE, pointer)
  seen.writeZone1(state, queue, QUEUE)
  seen.writeSeenZone2(state, queue, QUEUE)
  stand(state.host.pending, queue, PENDING)
}
