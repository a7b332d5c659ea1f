// hot path
/**
 * Queues that wait for their turn: those that were rung, and those that found no room.
 *
 *   pending   rung, or with more to do: served from the front, going on at the end (fair)
 *   waiting   an element found no room: tried again after a while, or when it is rung or woken
 *
 * Invariant: a queue stands in one of the two at most once, however often it is rung; every
 * step takes the same time, however many queues there are; memory is made once.
 */

import { HOST_QUEUES } from '../board/limits.ts'

/** Heads of the two lists, behind the places of all queues. */
export const PENDING: number = HOST_QUEUES
export const WAITING: number = HOST_QUEUES + 1
const PLACES = HOST_QUEUES + 2

/** Bits of `marks`. */
const STANDS = 1
const CARRIES = 2
/** It stands there for nothing but doorbells whose pointer may be used (queues/trust.ts). */
const TRUSTED = 4

export interface Pending {
  /** Rings through both lists, by queue; -1 of a queue that stands in none. */
  readonly next: Int32Array
  readonly before: Int32Array
  readonly marks: Uint8Array
  /** The write pointer that the last doorbell of a queue carried. */
  readonly carried: Uint32Array
  /** How many stand in each list. */
  pending: number
  waiting: number
  /** Which of the two each queue stands in. */
  readonly list: Uint8Array
}

/** `hosted`: there may be a host; without one nothing ever waits. */
export function createPending(hosted: boolean): Pending {
  const queues = hosted ? HOST_QUEUES : 0
  const places = hosted ? PLACES : 0
  const pending = {
    next: new Int32Array(places),
    before: new Int32Array(places),
    marks: new Uint8Array(queues),
    carried: new Uint32Array(queues),
    pending: 0,
    waiting: 0,
    list: new Uint8Array(queues),
  }
  clearPending(pending)
  return pending
}

/** Nobody waits. */
export function clearPending(pending: Pending): void {
  pending.marks.fill(0)
  pending.pending = 0
  pending.waiting = 0
  for (let head = PENDING; head <= WAITING; head++) {
    pending.next[head] = head
    pending.before[head] = head
  }
}

/** Puts the queue at the end of that list, unless it stands there already. */
export function stand(pending: Pending, queue: number, head: number): void {
  const { next, before, marks, list } = pending
  marks[queue]! &= ~TRUSTED
  if ((marks[queue]! & STANDS) !== 0) {
    if (list[queue] === head - PENDING) return
    leaveLists(pending, queue)
  }
  const last = before[head]!
  next[last] = queue
  before[queue] = last
  next[queue] = head
  before[head] = queue
  marks[queue]! |= STANDS
  list[queue] = head - PENDING
  if (head === PENDING) pending.pending += 1
  else pending.waiting += 1
}

/** The queue stands in no list any more. */
export function leaveLists(pending: Pending, queue: number): void {
  const { next, before, marks } = pending
  if ((marks[queue]! & STANDS) === 0) return
  const after = next[queue]!
  const first = before[queue]!
  next[first] = after
  before[after] = first
  marks[queue]! &= ~STANDS
  if (pending.list[queue] === 0) pending.pending -= 1
  else pending.waiting -= 1
}

/** The queue at the front of the list, or -1. It stays there. */
export function frontOf(pending: Pending, head: number): number {
  const first = pending.next[head]!
  return first === head ? -1 : first
}

/** A doorbell carried that write pointer. */
export function carry(pending: Pending, queue: number, pointer: number): void {
  pending.marks[queue]! |= CARRIES
  pending.carried[queue] = pointer
}

/**
 * A doorbell whose pointer may be used: the queue stands at the end of the line, unless it stands
 * there already. Of several pointers the furthest is kept.
 */
export function standTrusted(pending: Pending, queue: number, pointer: number): void {
  const { marks, carried } = pending
  const before = marks[queue]! & (STANDS | TRUSTED)
  if (before === (STANDS | TRUSTED)) {
    if (((pointer - carried[queue]!) | 0) > 0) carried[queue] = pointer
    return
  }
  stand(pending, queue, PENDING)
  carry(pending, queue, pointer)
  if ((before & STANDS) === 0) marks[queue]! |= TRUSTED
}

/** Whether the queue had its turn for such doorbells alone, since this was last asked. */
export function takeTrusted(pending: Pending, queue: number): boolean {
  if ((pending.marks[queue]! & TRUSTED) === 0) return false
  pending.marks[queue]! &= ~TRUSTED
  return true
}

/** Whether a doorbell carried a pointer since this was last asked. */
export function takeCarried(pending: Pending, queue: number): boolean {
  if ((pending.marks[queue]! & CARRIES) === 0) return false
  pending.marks[queue]! &= ~CARRIES
  return true
}
