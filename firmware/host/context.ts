// hot path
/**
 * One cached context: the three zones of a queue as the card knows them (queue-info.ts).
 *
 * Invariants:
 * - Zone 1 is changed here first and written to the host by `writeContexts`, whole, before anything
 *   may read it back; zones 2 and 3 are the host's, and only read.
 * - A pointer of the host is believed when it is at most `depth` units from the card's own (H1,
 *   H3): a full ring cannot be mistaken for an empty one, as both count freely (D-11, P3-22).
 * - Of two write pointers the newer is used (P3-19): the one further ahead, or stored later.
 */

import { assert } from '../board/assert.ts'
import { type CommandList, copy } from '../board/command-list.ts'
import { type Fault, PASS, QUEUE_CONTEXT, QUEUE_POINTER } from '../board/fault.ts'
import { DMA_SPACE } from '../board/hal.ts'
import { UNIT_BYTES } from '../board/limits.ts'
import { CONTEXT_BYTES, CONTEXTS_AT } from '../board/memory-map.ts'
import { markDirty } from './context-cache.ts'
import { ORDER_TIME } from './header-page.ts'
import { type HostQueues, POINTER_READS } from './host.ts'
import {
  ahead,
  CONTEXT_FRESH,
  CONTEXT_ZONE1,
  CONTEXT_ZONE2,
  CONTEXT_ZONE3,
  KIND_COMPLETION,
  KIND_SEND,
  QUEUE_ERROR,
  TYPE_AGENT,
  Z1_ADDRESS,
  Z1_COMPLETIONS,
  Z1_KIND,
  Z1_POINTER,
  Z1_STATE,
  Z1_TYPE,
  Z1_VALID,
  Z2_DEPTH,
  Z2_RING,
  Z3_ARM,
  Z3_POINTER,
  Z3_TIME,
  ZONE1_BYTES,
  ZONE2_BYTES,
  ZONE3_BYTES,
} from './queue-info.ts'
import { isRing } from './ranges.ts'

/** Where the context lies in packet memory. */
export function contextAt(place: number): number {
  return CONTEXTS_AT + place * CONTEXT_BYTES
}

/** The 32-bit word of zone 1 at `offset`. */
export function zone1Word(host: HostQueues, place: number, offset: number): number {
  return host.words[(contextAt(place) + CONTEXT_ZONE1 + offset) >> 2]! >>> 0
}

export function setZone1Word(host: HostQueues, place: number, offset: number, value: number): void {
  host.words[(contextAt(place) + CONTEXT_ZONE1 + offset) >> 2] = value
  markDirty(host.contexts, place)
}

function zone1Byte(host: HostQueues, place: number, offset: number): number {
  return host.bytes[contextAt(place) + CONTEXT_ZONE1 + offset]!
}

export function stateOf(host: HostQueues, place: number): number {
  return zone1Byte(host, place, Z1_STATE)
}

export function setQueueState(host: HostQueues, place: number, state: number): void {
  host.bytes[contextAt(place) + CONTEXT_ZONE1 + Z1_STATE] = state
  markDirty(host.contexts, place)
}

export function queueKindOf(host: HostQueues, place: number): number {
  return zone1Byte(host, place, Z1_KIND)
}

export function typeOf(host: HostQueues, place: number): number {
  return zone1Byte(host, place, Z1_TYPE)
}

/** The read pointer of an SQ or RQ; entries written, of a CQ. */
export function pointerOf(host: HostQueues, place: number): number {
  return zone1Word(host, place, Z1_POINTER)
}

/** The write pointer of an SQ or RQ; entries taken, of a CQ: as far as is known. */
export function farPointerOf(host: HostQueues, place: number): number {
  return host.words[(contextAt(place) + CONTEXT_ZONE3 + Z3_POINTER) >> 2]! >>> 0
}

/** The write pointer of an SQ is known from elsewhere than zone 3; its time stays as it was. */
export function setFarPointer(host: HostQueues, place: number, pointer: number): void {
  host.words[(contextAt(place) + CONTEXT_ZONE3 + Z3_POINTER) >> 2] = pointer
}

/** The arm of a CQ, as it was read last. */
export function armOf(host: HostQueues, place: number): number {
  return host.words[(contextAt(place) + CONTEXT_ZONE3 + Z3_ARM) >> 2]! >>> 0
}

/** Units or entries of the ring. */
export function depthOf(host: HostQueues, place: number): number {
  return host.words[(contextAt(place) + CONTEXT_ZONE2 + Z2_DEPTH) >> 2]!
}

/** The 32-bit word of zone 2 at `offset`. */
export function zone2Word(host: HostQueues, place: number, offset: number): number {
  return host.words[(contextAt(place) + CONTEXT_ZONE2 + offset) >> 2]! >>> 0
}

/** Where unit or entry number `unit` lies: an offset in DMA_SPACE. */
export function unitOffset(host: HostQueues, place: number, unit: number): number {
  const slot = (unit & (depthOf(host, place) - 1)) >>> 0
  return ringOffset(host, place) + slot * UNIT_BYTES
}

function ringOffset(host: HostQueues, place: number): number {
  const low = zone2Word(host, place, Z2_RING)
  return low + zone2Word(host, place, Z2_RING + 4) * 2 ** 32
}

/** Moves the card's pointer; the host sees it when the list has run. */
export function movePointer(host: HostQueues, place: number, pointer: number): void {
  host.words[(contextAt(place) + CONTEXT_ZONE1 + Z1_POINTER) >> 2] = pointer
  markDirty(host.contexts, place)
}

/** Reads zones 1, 2 and 3 of the queue into the place. Returns the number of the first read. */
export function readContext(
  host: HostQueues,
  list: CommandList,
  place: number,
  queue: number,
): number {
  const at = contextAt(place)
  const first = copy(
    list,
    DMA_SPACE + host.zone1 + queue * ZONE1_BYTES,
    at + CONTEXT_ZONE1,
    ZONE1_BYTES,
  )
  copy(list, DMA_SPACE + host.zone2 + queue * ZONE2_BYTES, at + CONTEXT_ZONE2, ZONE2_BYTES)
  readPointer(host, list, place, queue)
  return first
}

/** Reads that `readContext` appends. */
export const CONTEXT_READS = 3

/** Reads zone 3 of the queue, beside what is known of it. Returns the number of the read. */
export function readPointer(
  host: HostQueues,
  list: CommandList,
  place: number,
  queue: number,
): number {
  host.counters[POINTER_READS]! += 1
  host.readPass[place] = host.passes
  host.stale[place] = 0
  const from = DMA_SPACE + host.zone3 + queue * ZONE3_BYTES
  return copy(list, from, contextAt(place) + CONTEXT_FRESH, ZONE3_BYTES)
}

/** What was just read of zone 3 is all that is known of it. */
export function acceptPointer(host: HostQueues, place: number): void {
  const at = contextAt(place)
  host.bytes.copyWithin(at + CONTEXT_ZONE3, at + CONTEXT_FRESH, at + CONTEXT_FRESH + ZONE3_BYTES)
}

/**
 * Compares what was just read of zone 3 with what was known; the newer is kept (P3-19). A pointer
 * that cannot be is a fault: its queue is over.
 */
export function refreshPointer(host: HostQueues, place: number): Fault {
  const { words } = host
  const known = (contextAt(place) + CONTEXT_ZONE3) >> 2
  const fresh = (contextAt(place) + CONTEXT_FRESH) >> 2
  words[known + (Z3_ARM >> 2)] = words[fresh + (Z3_ARM >> 2)]!
  if (isNewer(host, place, known, fresh)) {
    words[known] = words[fresh]!
    words[known + (Z3_TIME >> 2)] = words[fresh + (Z3_TIME >> 2)]!
  }
  return pointerFault(host, place)
}

function isNewer(host: HostQueues, place: number, known: number, fresh: number): boolean {
  const { words } = host
  const one = words[fresh]! >>> 0
  const other = words[known]! >>> 0
  if (one === other) return false
  const own = pointerOf(host, place)
  // Where nothing is known that is not done, whatever differs is newer, or a fault.
  if (own === other) return true
  const later = (words[fresh + (Z3_TIME >> 2)]! - words[known + (Z3_TIME >> 2)]!) | 0
  if (host.pointerOrder === ORDER_TIME && later !== 0) return later > 0
  if (queueKindOf(host, place) !== KIND_COMPLETION) return ahead(one, own) > ahead(other, own)
  // What cannot be is not older, but a fault.
  const left = ahead(own, one)
  return left < ahead(own, other) || left > depthOf(host, place)
}

/** Is the host's pointer where it may be, seen from the card's? */
export function pointerFault(host: HostQueues, place: number): Fault {
  const own = pointerOf(host, place)
  const far = farPointerOf(host, place)
  const distance = queueKindOf(host, place) === KIND_COMPLETION ? ahead(own, far) : ahead(far, own)
  return distance > depthOf(host, place) ? QUEUE_POINTER : PASS
}

/** Is there such a queue at all? */
export function isValid(host: HostQueues, place: number): boolean {
  return zone1Byte(host, place, Z1_VALID) === 1
}

/** Does what was read of a valid queue contradict itself (P3-28, H3)? */
export function contextFault(host: HostQueues, place: number): Fault {
  const kind = queueKindOf(host, place)
  if (kind < KIND_SEND || kind > KIND_COMPLETION) return QUEUE_CONTEXT
  if (stateOf(host, place) > QUEUE_ERROR || typeOf(host, place) > TYPE_AGENT) return QUEUE_CONTEXT
  if (!isRing(host, ringOffset(host, place), depthOf(host, place))) return QUEUE_CONTEXT
  const completions = zone1Word(host, place, Z1_COMPLETIONS)
  if (kind !== KIND_COMPLETION && completions >= host.queues) return QUEUE_CONTEXT
  return PASS
}

/** Writes zone 1 of every context that was changed. */
export function writeContexts(host: HostQueues, list: CommandList): void {
  const { contexts } = host
  for (let i = 0; i < contexts.dirtyCount; i++) {
    const place = contexts.dirtyPlaces[i]!
    const queue = contexts.queueOf[place]!
    contexts.dirty[place] = 0
    putNext(host, place)
    const to = DMA_SPACE + host.zone1 + queue * ZONE1_BYTES
    copy(list, contextAt(place) + CONTEXT_ZONE1, to, ZONE1_BYTES)
  }
  contexts.dirtyCount = 0
}

/** The address of the unit, or the entry, that is next: of use to the host alone. */
function putNext(host: HostQueues, place: number): void {
  const word = (contextAt(place) + CONTEXT_ZONE1 + Z1_ADDRESS) >> 2
  const address = unitOffset(host, place, pointerOf(host, place))
  host.words[word] = (address % 2 ** 32) | 0
  host.words[word + 1] = Math.floor(address / 2 ** 32)
}

assert(CONTEXT_FRESH + ZONE3_BYTES <= CONTEXT_BYTES, 'a context must fit')
