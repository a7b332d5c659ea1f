/**
 * Queue information as control calls read and change it: in its place of the cache, or read by DMA.
 *
 * Invariants:
 * - What the cache has of zones 1 and 2 is what counts; what is not in it is read, not inserted:
 *   control calls evict nothing.
 * - A change is written to the host's memory and to the cache in one step, between two elements.
 * - Whatever lies in zone 1 or zone 2, nothing here reads or writes outside the queue's own bytes.
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { DMA, type Fault, PASS, QUEUE_UNKNOWN } from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import { UNIT_BYTES } from '../board/limits.ts'
import { CONTEXT_BYTES, QUEUE_INFO_AT } from '../board/memory-map.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext } from '../burst/context.ts'
import { contextAt } from '../host/context.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import * as info from '../host/queue-info.ts'

/** Places where up to four queues are looked at in one call. */
export const FIRST = 0
export const SECOND = 1
export const THIRD = 2
export const FOURTH = 3

export function zone1Of(state: HostState, queue: number): number {
  return DMA_SPACE + state.host.zone1 + queue * info.ZONE1_BYTES
}

export function zone2Of(state: HostState, queue: number): number {
  return DMA_SPACE + state.host.zone2 + queue * info.ZONE2_BYTES
}

export function zone3Of(state: HostState, queue: number): number {
  return DMA_SPACE + state.host.zone3 + queue * info.ZONE3_BYTES
}

/** Where the cache has the queue, or -1. */
export function cachedAt(state: HostState, queue: number): number {
  const place = state.host.contexts.placeOf[queue]!
  return place < 0 ? -1 : contextAt(place)
}

/** How many need the queue's context to stay: work of it is under way. */
export function pinsOf(state: HostState, queue: number): number {
  const place = state.host.contexts.placeOf[queue]!
  return place < 0 ? 0 : state.host.contexts.pins[place]!
}

/** Completions that are reserved in the queue. */
export function reservedOf(state: HostState, queue: number): number {
  const place = state.host.contexts.placeOf[queue]!
  return place < 0 ? 0 : state.host.reserved[place]!
}

/**
 * Looks at the queue of that number: zones 1 and 2 as the card has them, zone 3 as it is in memory
 * now, one behind the other at the address that is returned; -1 if the memory did not answer.
 */
export function lookAtQueue(state: BurstContext, queue: number, which: number): number {
  const { list, bytes } = state
  const at = QUEUE_INFO_AT + which * CONTEXT_BYTES
  const cached = cachedAt(state, queue)
  runBurst(state)
  let first = -1
  if (cached < 0) {
    first = copy(list, zone1Of(state, queue), at + info.CONTEXT_ZONE1, info.ZONE1_BYTES)
    copy(list, zone2Of(state, queue), at + info.CONTEXT_ZONE2, info.ZONE2_BYTES)
  } else {
    bytes.copyWithin(at, cached, cached + info.CONTEXT_ZONE3)
  }
  const last = copy(list, zone3Of(state, queue), at + info.CONTEXT_ZONE3, info.ZONE3_BYTES)
  if (first < 0) first = last
  runAll(list)
  for (let i = first; i <= last; i++) if (resultOf(list, i) !== DONE) return -1
  return at
}

/** Looks at a queue that must be there, and of that kind (0: any). Its fault, or PASS. */
export function lookAt(state: BurstContext, queue: number, which: number, kind: number): Fault {
  if (queue >= state.host.queues) return QUEUE_UNKNOWN
  const at = lookAtQueue(state, queue, which)
  if (at < 0) return DMA
  const valid = state.bytes[at + info.Z1_VALID] === 1
  const has = state.bytes[at + info.Z1_KIND]!
  return valid && (kind === 0 || has === kind) ? PASS : QUEUE_UNKNOWN
}

/** Where `lookAtQueue` has left its queue. */
export function seenAt(which: number): number {
  return QUEUE_INFO_AT + which * CONTEXT_BYTES
}

export function word(state: BoardState, at: number): number {
  return state.words[at >> 2]! >>> 0
}

export function putWord(state: BoardState, at: number, value: number): void {
  state.words[at >> 2] = value
}

/** A 64-bit address of a zone; what is beyond 2^53 is beyond every memory, too. */
export function address(state: BoardState, at: number): number {
  return word(state, at) + word(state, at + 4) * 2 ** 32
}

export function putAddress(state: BoardState, at: number, value: number): void {
  putWord(state, at, value % 2 ** 32)
  putWord(state, at + 4, Math.floor(value / 2 ** 32))
}

/** Writes zone 1 as it lies at `seenAt(which)`. */
export function writeZone1(state: HostContext, queue: number, which: number): void {
  writePart(state, queue, which, 0, info.ZONE1_BYTES)
}

/** Writes `length` bytes of zone 1 alone, from `offset` on: the others may have changed since. */
export function writePart(
  state: HostContext,
  queue: number,
  which: number,
  offset: number,
  length: number,
): void {
  const at = seenAt(which) + offset
  const cached = cachedAt(state, queue)
  copy(state.list, at, zone1Of(state, queue) + offset, length)
  if (cached >= 0) state.bytes.copyWithin(cached + offset, at, at + length)
}

/** Writes zone 2 as it lies at `seenAt(which)`, and tells the cache of zone 3. */
export function writeSeenZone2(state: HostContext, queue: number, which: number): void {
  const at = seenAt(which) + info.CONTEXT_ZONE2
  const cached = cachedAt(state, queue)
  copy(state.list, at, zone2Of(state, queue), info.ZONE2_BYTES)
  if (cached < 0) return
  const zones = info.ZONE2_BYTES + info.ZONE3_BYTES
  state.bytes.copyWithin(cached + info.CONTEXT_ZONE2, at, at + zones)
}

/** Where unit or entry `pointer` of the queue at `seenAt(which)` lies. */
export function setNext(state: BoardState, which: number, pointer: number): void {
  const at = seenAt(which)
  const ring = address(state, at + info.CONTEXT_ZONE2 + info.Z2_RING)
  const depth = word(state, at + info.CONTEXT_ZONE2 + info.Z2_DEPTH)
  putWord(state, at + info.Z1_POINTER, pointer)
  const slot = (pointer & (depth - 1)) >>> 0
  putAddress(state, at + info.Z1_ADDRESS, ring + slot * UNIT_BYTES)
}
