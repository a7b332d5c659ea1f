// hot path
/**
 * The cache of queue contexts: CONTEXTS places for the queues of the host that are at work (source
 * 3; P3-17, P3-18).
 *
 * A table leads from the queue to its place, and two rings go through the places: in the order in
 * which they were filled, and in the order in which they were last used. A full cache evicts by the
 * policy that is set; the policy and the capacity may be changed at any time.
 *
 * Invariants:
 * - A place that is pinned, or changed and not yet written to the host, is never evicted: what is
 *   evicted is what the host's memory has, too, and may be read again.
 * - A look-up takes one step; an eviction at most one walk over the places, however many queues
 *   there are.
 * - The numbers that random eviction draws come from the owner, so a run can be repeated.
 */

import { assert } from '../board/assert.ts'
import { CONTEXTS, HOST_QUEUES } from '../board/limits.ts'

/** The one inserted first; the n inserted first; all older than a time, or else the oldest. */
export const POLICY_OLDEST = 0
export const POLICY_N_OLDEST = 1
export const POLICY_AGE = 2
export const POLICY_RANDOM = 3
export const POLICY_LEAST_USED = 4
export const POLICIES: readonly string[] = ['oldest', 'n-oldest', 'age', 'random', 'least-used']

/** A pass needs a queue and its completion queue, twice. */
export const CAPACITY_MIN = 4

/** Head of both rings. */
const HEAD = CONTEXTS

export interface Contexts {
  /** By queue: its place, or -1. */
  readonly placeOf: Int16Array
  /** By queue: 1 if it was evicted since there is this host. */
  readonly wasHere: Uint8Array
  /** By place: its queue, or -1. */
  readonly queueOf: Int32Array
  /** By place: how many need it to stay. */
  readonly pins: Int32Array
  /** By place: 1 if zone 1 was changed and not yet written to the host. */
  readonly dirty: Uint8Array
  readonly insertedUs: Float64Array
  /** Places with `dirty`, in the order in which they became so. */
  readonly dirtyPlaces: Int16Array
  dirtyCount: number
  /** The places in use, in no order, then the free ones; and where each stands among them. */
  readonly order: Int16Array
  readonly rank: Int16Array
  /** Ring in the order of insertion, oldest behind HEAD. */
  readonly later: Int16Array
  readonly earlier: Int16Array
  /** Ring in the order of use, longest ago behind HEAD. */
  readonly newer: Int16Array
  readonly staler: Int16Array
  used: number
  capacity: number
  policy: number
  n: number
  ageUs: number
  evictions: number
  /** The next 32 random bits. */
  draw: () => number
}

/** `hosted`: there may be a host; without one nothing is ever looked up. */
export function createContexts(hosted: boolean): Contexts {
  const queues = hosted ? HOST_QUEUES : 0
  const contexts = {
    placeOf: new Int16Array(queues),
    wasHere: new Uint8Array(queues),
    queueOf: new Int32Array(CONTEXTS),
    pins: new Int32Array(CONTEXTS),
    dirty: new Uint8Array(CONTEXTS),
    insertedUs: new Float64Array(CONTEXTS),
    dirtyPlaces: new Int16Array(CONTEXTS),
    dirtyCount: 0,
    order: new Int16Array(CONTEXTS),
    rank: new Int16Array(CONTEXTS),
    later: new Int16Array(CONTEXTS + 1),
    earlier: new Int16Array(CONTEXTS + 1),
    newer: new Int16Array(CONTEXTS + 1),
    staler: new Int16Array(CONTEXTS + 1),
    used: 0,
    capacity: CONTEXTS,
    policy: POLICY_LEAST_USED,
    n: 1,
    ageUs: 0,
    evictions: 0,
    draw: nothing,
  }
  clearContexts(contexts)
  return contexts
}

function nothing(): number {
  return 0
}

/** Forgets everything; policy and capacity stay. */
export function clearContexts(contexts: Contexts): void {
  contexts.placeOf.fill(-1)
  contexts.wasHere.fill(0)
  contexts.queueOf.fill(-1)
  contexts.pins.fill(0)
  contexts.dirty.fill(0)
  contexts.dirtyCount = 0
  contexts.used = 0
  for (let i = 0; i < CONTEXTS; i++) {
    contexts.order[i] = i
    contexts.rank[i] = i
  }
  contexts.later[HEAD] = HEAD
  contexts.earlier[HEAD] = HEAD
  contexts.newer[HEAD] = HEAD
  contexts.staler[HEAD] = HEAD
}

/** The place of the queue's context, or -1; a place that is found was used now. */
export function findContext(contexts: Contexts, queue: number): number {
  const place = contexts.placeOf[queue]!
  if (place >= 0 && contexts.newer[place] !== HEAD) {
    unlink(contexts.newer, contexts.staler, place)
    appendPlace(contexts.newer, contexts.staler, place)
  }
  return place
}

/** A place for the context of a queue that has none, or -1 if every place has to stay. */
export function insertContext(contexts: Contexts, queue: number, now: number): number {
  // A capacity that became smaller while places were pinned is come down to here.
  while (contexts.used >= contexts.capacity) {
    if (!evict(contexts, now)) return -1
  }
  assert(contexts.placeOf[queue] === -1, 'a queue has one context')
  const place = contexts.order[contexts.used]!
  contexts.placeOf[queue] = place
  contexts.queueOf[place] = queue
  contexts.pins[place] = 0
  contexts.insertedUs[place] = now
  contexts.used += 1
  appendPlace(contexts.later, contexts.earlier, place)
  appendPlace(contexts.newer, contexts.staler, place)
  return place
}

/** The context leaves the cache without being counted as evicted: its queue is not there. */
export function removeContext(contexts: Contexts, place: number): void {
  const queue = contexts.queueOf[place]!
  unlink(contexts.later, contexts.earlier, place)
  unlink(contexts.newer, contexts.staler, place)
  contexts.placeOf[queue] = -1
  contexts.queueOf[place] = -1
  contexts.used -= 1
  const { order, rank } = contexts
  const last = order[contexts.used]!
  const here = rank[place]!
  order[here] = last
  rank[last] = here
  order[contexts.used] = place
  rank[place] = contexts.used
}

/** Sets how contexts are evicted; numbers out of range are taken to the next that is in it. */
export function setPolicy(
  contexts: Contexts,
  policy: number,
  n: number,
  ageUs: number,
  capacity: number,
): void {
  contexts.policy = policy
  contexts.n = Math.max(1, n)
  contexts.ageUs = ageUs
  contexts.capacity = Math.min(CONTEXTS, Math.max(CAPACITY_MIN, capacity))
}

/** Zone 1 of the place was changed: it is written to the host before the list is over. */
export function markDirty(contexts: Contexts, place: number): void {
  if (contexts.dirty[place] !== 0) return
  contexts.dirty[place] = 1
  contexts.dirtyPlaces[contexts.dirtyCount] = place
  contexts.dirtyCount += 1
}

/** Makes room for one at least. False if every place has to stay. */
function evict(contexts: Contexts, now: number): boolean {
  const before = contexts.used
  const policy = contexts.policy
  if (policy === POLICY_RANDOM) evictRandom(contexts)
  else if (policy === POLICY_LEAST_USED) evictAlong(contexts, contexts.newer, 1)
  else if (policy === POLICY_AGE) evictOlder(contexts, now - contexts.ageUs)
  else evictAlong(contexts, contexts.later, policy === POLICY_N_OLDEST ? contexts.n : 1)
  return contexts.used < before
}

function mayLeave(contexts: Contexts, place: number): boolean {
  return contexts.pins[place] === 0 && contexts.dirty[place] === 0
}

function drop(contexts: Contexts, place: number): void {
  contexts.wasHere[contexts.queueOf[place]!] = 1
  contexts.evictions += 1
  removeContext(contexts, place)
}

/** Evicts the first `n` that may leave, along one of the rings. */
function evictAlong(contexts: Contexts, ring: Int16Array, n: number): void {
  let left = n
  let place = ring[HEAD]!
  while (place !== HEAD && left > 0) {
    const next = ring[place]!
    if (mayLeave(contexts, place)) {
      drop(contexts, place)
      left -= 1
    }
    place = next
  }
}

/** All that were inserted before `dueUs`; if there is none, the oldest. */
function evictOlder(contexts: Contexts, dueUs: number): void {
  const before = contexts.used
  let place = contexts.later[HEAD]!
  while (place !== HEAD && contexts.insertedUs[place]! < dueUs) {
    const next = contexts.later[place]!
    if (mayLeave(contexts, place)) drop(contexts, place)
    place = next
  }
  if (contexts.used === before) evictAlong(contexts, contexts.later, 1)
}

/** `n` places at random; one that has to stay gives way to the next place that may leave. */
function evictRandom(contexts: Contexts): void {
  for (let left = contexts.n; left > 0 && contexts.used > 0; left--) {
    let at = contexts.draw() % contexts.used
    let tries = contexts.used
    while (!mayLeave(contexts, contexts.order[at]!)) {
      tries -= 1
      if (tries === 0) return
      at = at + 1 === contexts.used ? 0 : at + 1
    }
    drop(contexts, contexts.order[at]!)
  }
}

function appendPlace(next: Int16Array, before: Int16Array, place: number): void {
  const last = before[HEAD]!
  next[last] = place
  before[place] = last
  next[place] = HEAD
  before[HEAD] = place
}

function unlink(next: Int16Array, before: Int16Array, place: number): void {
  const after = next[place]!
  const first = before[place]!
  next[first] = after
  before[after] = first
}
