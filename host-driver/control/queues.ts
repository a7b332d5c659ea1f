/** What a card says of the queues of its own host, in plain values. */

import { CONTEXTS } from '../../firmware/board/limits.ts'
import { CAPACITY_MIN, POLICIES } from '../../firmware/host/context-cache.ts'
import { ORDER_TIME } from '../../firmware/host/header-page.ts'
import { QUEUE_COUNTERS, type QueueCounter } from '../../firmware/host/host.ts'
import * as info from '../../firmware/host/queue-info.ts'
import * as mad from '../../firmware/wire/management.ts'
import { faultOfNumber } from '../base/errors.ts'
import { checkFields, integer, type Kinds, oneOf, WORD } from '../base/kinds.ts'
import { u64 } from '../base/wide.ts'

/**
 * How contexts leave the cache when it is full (P3-18): the one inserted first; the n inserted
 * first; all older than a time, or else the oldest; one at random; the one used longest ago.
 */
export type CachePolicy = 'oldest' | 'n-oldest' | 'age' | 'random' | 'least-used'

/** Everything that a card has done for its host's queues. */
export interface QueuesStatus {
  /** Number of the host's start that the card knows, or 0: there is no host. */
  readonly epoch: number
  /** Queues that the host made room for, those in use, and those whose context is cached. */
  readonly queues: number
  readonly used: number
  readonly cached: number
  /** Contexts that the card keeps at once, and how it makes room. */
  readonly capacity: number
  readonly policy: CachePolicy | 'unknown'
  /** Of 'n-oldest' and of 'age'. */
  readonly n: number
  readonly ageUs: number
  /** Which of two write pointers is the newer (D-11). */
  readonly pointerOrder: 'distance' | 'time'
  /** Since the card was started. */
  readonly counters: Readonly<Record<QueueCounter, bigint>>
}

/** One queue of the host, as the card has it. */
export interface QueueInfo {
  readonly queue: number
  /** Whether it is in use at all. */
  readonly valid: boolean
  readonly kind: 'send' | 'receive' | 'completion' | 'unknown'
  readonly type: 'connected' | 'local' | 'gsi' | 'agent' | 'unknown'
  readonly state: 'reset' | 'init' | 'ready' | 'paused' | 'error' | 'unknown'
  /** Name of the fault that ended it, or null. */
  readonly fault: string | null
  /** Units of a work queue, entries of a completion queue. */
  readonly depth: number
  /** Units taken, and stored; of a completion queue entries taken, and written. */
  readonly readPointer: number
  readonly writePointer: number
  /** Units or entries that are free. */
  readonly free: number
  /** Of a work queue: where its completions go, and the other queue of its pair. */
  readonly completionQueue: number | null
  readonly otherQueue: number | null
  /** Its number on the wire, 0 of one that has none. */
  readonly queuePair: number
  readonly protectionDomain: number
  readonly clientId: bigint
  /** Grows when the number is given to another queue. */
  readonly generation: number
  readonly locked: boolean
  readonly cached: boolean
}

/** How contexts shall leave the cache. */
export interface CacheRequest {
  readonly policy: CachePolicy
  /** Of 'n-oldest': how many at once, 1 to 256. */
  readonly n?: number
  /** Of 'age': those that were inserted longer ago, µs. */
  readonly ageUs?: number
  /** Contexts that may be kept at once; as many as before unless given. */
  readonly capacity?: number
}

const KINDS: readonly (QueueInfo['kind'] | undefined)[] = [
  undefined,
  'send',
  'receive',
  'completion',
]
const TYPES: readonly QueueInfo['type'][] = ['connected', 'local', 'gsi', 'agent']
const STATES: Readonly<Record<number, QueueInfo['state']>> = {
  [info.QUEUE_RESET]: 'reset',
  [info.QUEUE_INIT]: 'init',
  [info.QUEUE_READY]: 'ready',
  [info.QUEUE_PAUSED]: 'paused',
  [info.QUEUE_ERROR]: 'error',
}

function big(body: Uint8Array): DataView {
  return new DataView(body.buffer, body.byteOffset, body.byteLength)
}

/** Reads the bodies of QUEUES: the first of them, and the counters of all. */
export function readQueuesStatus(bodies: readonly Uint8Array[]): QueuesStatus {
  const first = bodies[0]!
  const view = big(first)
  const counts: bigint[] = []
  for (const body of bodies) {
    const here = countersHere(body)
    for (let i = 0; i < here; i++) {
      counts.push(u64(body, mad.QUEUES_COUNTERS + i * mad.COUNTER_BYTES))
    }
  }
  const counters = Object.fromEntries(QUEUE_COUNTERS.map((name, i) => [name, counts[i] ?? 0n]))
  return {
    epoch: view.getUint32(mad.QUEUES_EPOCH),
    queues: view.getUint32(mad.QUEUES_COUNT),
    used: view.getUint32(mad.QUEUES_USED),
    cached: view.getUint32(mad.QUEUES_CACHED),
    capacity: view.getUint32(mad.QUEUES_CAPACITY),
    policy: (POLICIES[first[mad.QUEUES_POLICY]!] ?? 'unknown') as CachePolicy | 'unknown',
    n: view.getUint16(mad.QUEUES_N),
    ageUs: view.getUint32(mad.QUEUES_AGE),
    pointerOrder: first[mad.QUEUES_ORDER] === ORDER_TIME ? 'time' : 'distance',
    counters: counters as Record<QueueCounter, bigint>,
  }
}

/** Counters that a body of QUEUES has, and those that there are in all. */
export function countersHere(body: Uint8Array): number {
  return Math.min(big(body).getUint32(mad.QUEUES_COUNTERS_HERE), mad.QUEUES_COUNTERS_PER_MAD)
}

export function countersInAll(body: Uint8Array): number {
  return big(body).getUint32(mad.QUEUES_COUNTERS_TOTAL)
}

/** Reads the body of QUEUE: the zones, little-endian as in memory. */
export function readQueueInfo(queue: number, body: Uint8Array): QueueInfo {
  const view = big(body)
  const word = (at: number): number => view.getUint32(at, true)
  const kind = KINDS[body[info.Z1_KIND]!] ?? 'unknown'
  const isCq = kind === 'completion'
  const own = word(info.Z1_POINTER)
  const other = word(mad.QUEUE_ZONE3 + info.Z3_POINTER)
  const depth = word(mad.QUEUE_ZONE2 + info.Z2_DEPTH)
  const fault = word(info.Z1_FAULT)
  return {
    queue,
    valid: body[info.Z1_VALID] === 1,
    kind,
    type: TYPES[body[info.Z1_TYPE]!] ?? 'unknown',
    state: STATES[body[info.Z1_STATE]!] ?? 'unknown',
    fault: fault === 0 ? null : faultOfNumber(fault),
    depth,
    readPointer: isCq ? other : own,
    writePointer: isCq ? own : other,
    free: depth - (isCq ? info.ahead(own, other) : info.ahead(other, own)),
    completionQueue: isCq ? null : word(info.Z1_COMPLETIONS),
    otherQueue: isCq ? null : word(info.Z1_OTHER),
    queuePair: word(info.Z1_QUEUE_PAIR),
    protectionDomain: word(info.Z1_DOMAIN),
    clientId: view.getBigUint64(info.Z1_CLIENT, true),
    generation: word(info.Z1_GENERATION),
    locked: word(info.Z1_LOCK) !== 0,
    cached: body[mad.QUEUE_CACHED] !== 0,
  }
}

const CAPACITY = integer(CAPACITY_MIN, CONTEXTS)

const CACHE_KINDS: Kinds<CacheRequest> = {
  policy: oneOf(POLICIES),
  n: integer(1, CONTEXTS),
  ageUs: WORD,
  // 0 is as many as before.
  capacity: { ...CAPACITY, takes: (value) => value === 0 || CAPACITY.takes(value) },
}

/** The body of CACHE. Throws PERDURE_ARGUMENT for what no card takes. */
export function cacheBody(request: CacheRequest): Uint8Array {
  checkFields('a cache', request, CACHE_KINDS, ['policy'])
  const { policy, n = 1, ageUs = 0, capacity = 0 } = request
  const number = POLICIES.indexOf(policy)
  const body = new Uint8Array(mad.MAD_BODY_BYTES)
  const view = big(body)
  body[mad.CACHE_POLICY] = number
  view.setUint16(mad.CACHE_N, n)
  view.setUint32(mad.CACHE_AGE, ageUs)
  view.setUint32(mad.CACHE_CAPACITY, capacity)
  return body
}
