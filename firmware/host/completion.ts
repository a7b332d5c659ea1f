// hot path
/**
 * Completion queues: room, entries, and when the host is woken (P3-27).
 *
 * Invariants:
 * - Room for a completion is reserved before its element is executed, so completing needs no read
 *   and cannot fail. The context of a completion queue with reservations, or with an interrupt that
 *   is delayed, is pinned.
 * - An entry is copied out whole, its second stamp last; where it stands in the list is up to the
 *   caller: behind the fence that earns it.
 * - A queue that was armed is told of at the latest `period` µs after a completion that nobody was
 *   told of, also if it was armed after that completion.
 */

import { type CommandList, copy } from '../board/command-list.ts'
import { COMPLETION_OVERRUN, PASS } from '../board/fault.ts'
import { DMA_SPACE } from '../board/hal.ts'
import { CONTEXTS, UNIT_BYTES } from '../board/limits.ts'
import { takeLine } from './compose.ts'
import {
  armOf,
  depthOf,
  farPointerOf,
  movePointer,
  pointerOf,
  setZone1Word,
  stateOf,
  unitOffset,
  zone1Word,
  zone2Word,
} from './context.ts'
import * as cqe from './element.ts'
import { postEvent } from './events.ts'
import { failQueue } from './failure.ts'
import { EVENT_COMPLETION, EVENT_OVERRUN } from './header-page.ts'
import { COMPLETIONS_MADE, type Completion, type HostQueues } from './host.ts'
import { ahead, QUEUE_ERROR, QUEUE_READY, Z1_ARMED, Z2_COUNT } from './queue-info.ts'

/**
 * Reserves room for one completion. False if, as far as is known, there is none; or if the queue is
 * paused, or over.
 */
export function reserveCompletion(host: HostQueues, place: number): boolean {
  if (stateOf(host, place) !== QUEUE_READY) return false
  const taken = ahead(pointerOf(host, place), farPointerOf(host, place))
  const reserved = host.reserved[place]!
  if (taken + reserved >= depthOf(host, place)) return false
  if (reserved === 0) host.contexts.pins[place]! += 1
  host.reserved[place] = reserved + 1
  return true
}

/** Takes a reservation back. */
export function releaseCompletion(host: HostQueues, place: number): void {
  host.reserved[place]! -= 1
  if (host.reserved[place] === 0) host.contexts.pins[place]! -= 1
}

/** No room even after looking again: that completion queue is over, and no other (N21). */
export function overrun(host: HostQueues, list: CommandList, place: number): void {
  failQueue(host, list, host.contexts.queueOf[place]!, COMPLETION_OVERRUN, EVENT_OVERRUN)
}

/**
 * Appends the entry that `host.completion` describes to the list, on a reservation. In a queue that
 * is in the error state nothing is written any more.
 */
export function complete(host: HostQueues, list: CommandList, place: number): void {
  const number = enterCompletion(host, place)
  if (number < 0) return
  writeEntry(host, list, place, number)
  wakeHost(host, list, place)
}

/**
 * The first half of completing: the entry gets its number, on a reservation; -1 in a queue that is
 * in the error state. Whoever takes it writes it, once or again where the list stopped before it,
 * and then tells the host.
 */
export function enterCompletion(host: HostQueues, place: number): number {
  releaseCompletion(host, place)
  if (stateOf(host, place) === QUEUE_ERROR) return -1
  const number = pointerOf(host, place)
  movePointer(host, place, (number + 1) >>> 0)
  host.counters[COMPLETIONS_MADE]! += 1
  host.untold[place]! += 1
  return number
}

/** Appends the entry of that number as `host.completion` describes it. */
export function writeEntry(
  host: HostQueues,
  list: CommandList,
  place: number,
  number: number,
): void {
  const at = takeLine(host, list)
  putEntry(host, at, number, host.completion)
  copy(list, at, DMA_SPACE + unitOffset(host, place, number), UNIT_BYTES)
}

function putEntry(host: HostQueues, at: number, number: number, from: Completion): void {
  const { words, bytes } = host
  const w = at >> 2
  words[w + (cqe.CQE_STAMP >> 2)] = number + 1
  words[w + (cqe.CQE_QUEUE >> 2)] = from.queue
  words[w + (cqe.CQE_UNIT >> 2)] = from.unit
  words[w + (cqe.CQE_STATUS >> 2)] = from.status | (from.opcode << 8) | (from.flags << 16)
  words[w + (cqe.CQE_LENGTH >> 2)] = from.length
  words[w + (cqe.CQE_IMMEDIATE >> 2)] = from.immediate
  words[w + (cqe.CQE_OPERATION >> 2)] = from.operationLow
  words[w + (cqe.CQE_OPERATION >> 2) + 1] = from.operationHigh
  words[w + (cqe.CQE_PSN >> 2)] = from.psn
  words[w + (cqe.CQE_COPIES >> 2)] = from.copies | (from.mechanism << 8)
  bytes[at + cqe.CQE_REFUSAL] = from.refusal
  words[w + (cqe.CQE_ADDRESS >> 2)] = from.addressLow
  words[w + (cqe.CQE_ADDRESS >> 2) + 1] = from.addressHigh
  words[w + (cqe.CQE_INCARNATION >> 2)] = from.incarnation
  words[w + (cqe.CQE_SOURCE >> 2)] = from.source
  words[w + (cqe.CQE_POINTER >> 2)] = from.pointer
  words[w + (cqe.CQE_STAMP_AGAIN >> 2)] = number + 1
}

/** Sets what a completion says to zero, to be filled in. */
export function blankOut(into: Completion): void {
  into.queue = 0
  into.unit = 0
  into.status = 0
  into.opcode = 0
  into.flags = 0
  into.length = 0
  into.immediate = 0
  into.operationHigh = 0
  into.operationLow = 0
  into.psn = 0
  into.copies = 0
  into.mechanism = 0
  into.refusal = 0
  into.addressHigh = 0
  into.addressLow = 0
  into.incarnation = 0
  into.source = 0
  into.pointer = 0
}

/**
 * Zone 3 of a completion queue was read again: it may have been armed behind its last completion,
 * and then entries that the host has not taken are to be told of.
 */
export function refreshCompletions(host: HostQueues, list: CommandList, place: number): void {
  const there = ahead(pointerOf(host, place), farPointerOf(host, place))
  if (there === 0) {
    host.untold[place] = 0
    stopTimer(host, place)
    return
  }
  host.untold[place] = there
  wakeHost(host, list, place)
}

/** Wakes the host now, or starts to wait for more completions (moderation). */
export function wakeHost(host: HostQueues, list: CommandList, place: number): void {
  if (stateOf(host, place) === QUEUE_ERROR || !isQueueArmed(host, place)) return
  const moderation = zone2Word(host, place, Z2_COUNT)
  const count = moderation & 0xffff
  const periodUs = moderation >>> 16
  if (periodUs === 0 || host.untold[place]! >= count) {
    interrupt(host, list, place)
  } else if (host.dueUs[place] === Infinity) {
    host.dueUs[place] = host.nowUs + periodUs
    host.timers += 1
    host.contexts.pins[place]! += 1
    if (host.dueUs[place] < host.soonestUs) host.soonestUs = host.dueUs[place]!
  }
}

/** Armed: the host has changed its word since the last interrupt. */
function isQueueArmed(host: HostQueues, place: number): boolean {
  return armOf(host, place) !== zone1Word(host, place, Z1_ARMED)
}

function interrupt(host: HostQueues, list: CommandList, place: number): void {
  stopTimer(host, place)
  host.untold[place] = 0
  setZone1Word(host, place, Z1_ARMED, armOf(host, place))
  postEvent(host, list, EVENT_COMPLETION, host.contexts.queueOf[place]!, PASS)
}

function stopTimer(host: HostQueues, place: number): void {
  if (host.dueUs[place] === Infinity) return
  host.dueUs[place] = Infinity
  host.timers -= 1
  host.contexts.pins[place]! -= 1
  if (host.timers === 0) host.soonestUs = Infinity
}

/** The interrupts whose time has come by `now`. */
export function tickCompletions(host: HostQueues, list: CommandList, now: number): void {
  let soonest = Infinity
  for (let place = 0; place < CONTEXTS; place++) {
    const due = host.dueUs[place]!
    if (due <= now && due !== Infinity) interrupt(host, list, place)
    else if (due < soonest) soonest = due
  }
  host.soonestUs = soonest
}

/** Does not wait any longer: the places are wanted. */
export function tellAll(host: HostQueues, list: CommandList): void {
  if (host.timers > 0) tickCompletions(host, list, Infinity)
}

/**
 * Is what room there is kept for receives? Elements that are sent wait for messages of the peer to
 * be taken, and these need room, too: were all of it reserved for what is sent, at both ends,
 * nothing would go on.
 */
export function isCrowded(host: HostQueues, place: number): boolean {
  const depth = depthOf(host, place)
  const reserved = host.reserved[place]!
  const taken = ahead(pointerOf(host, place), farPointerOf(host, place))
  return reserved > 0 && taken + reserved >= depth - (depth >> 2)
}

/** Are there reservations that have still to become entries, or nothing? */
export function hasReservations(host: HostQueues, place: number): boolean {
  return host.reserved[place]! > 0
}

/** A new context came into the place: nothing is reserved or delayed in it. */
export function startCompletions(host: HostQueues, place: number): void {
  host.reserved[place] = 0
  host.untold[place] = 0
  host.dueUs[place] = Infinity
}

/** There is no host any more: nothing is reserved, and no interrupt is due. */
export function clearTimers(host: HostQueues): void {
  host.reserved.fill(0)
  host.untold.fill(0)
  host.dueUs.fill(Infinity)
  host.soonestUs = Infinity
  host.timers = 0
}
