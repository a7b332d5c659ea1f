/**
 * The control calls for the queues of the host (wire/management.ts, 0x60 to 0x6d; source 3), and
 * where those for its memory on demand (on-demand.ts) and for that of peers (residency.ts) are
 * listed.
 *
 * Invariant: what the card has done for its host anybody may see, and an operator may say
 * how contexts are evicted; all else only the host itself may ask, through its own queue.
 */

import { count } from '../board/context.ts'
import {
  DMA,
  DOORBELL,
  type Fault,
  MEMORY_KEY,
  PASS,
  QUEUE_UNKNOWN,
  REGIONS_OF_HOST_FULL,
  REQUEST,
} from '../board/fault.ts'
import { CONTEXTS } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import { CAPACITY_MIN, POLICIES, setPolicy } from '../host/context-cache.ts'
import { takeMessageDoorbell } from '../host/doorbell.ts'
import { QUEUE_COUNTERS } from '../host/host.ts'
import { deregisterMemory, registerMemory } from '../host/memory-regions.ts'
import * as info from '../host/queue-info.ts'
import { isHostRange } from '../host/ranges.ts'
import * as seen from '../queues/look.ts'
import { putU16, putU32, u16, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { watchBatches } from './batch-notices.ts'
import { type Call, get64, type Handler, put64 } from './call.ts'
import {
  deregisterOnDemand,
  mapPages,
  registerOnDemand,
  tellState,
  unmapPages,
} from './on-demand.ts'
import { createCq, createQp, destroy, modifyQp } from './queue-pairs.ts'
import { residency } from './residency.ts'
import { lockQueue, releaseQueue, writeQueue } from './zone2.ts'

export const QUEUE_HANDLERS: Readonly<Record<number, readonly [number, Handler]>> = {
  [mad.ATTRIBUTE_QUEUES]: [mad.METHOD_GET, readQueueCounters],
  [mad.ATTRIBUTE_QUEUE]: [mad.METHOD_GET, zones],
  [mad.ATTRIBUTE_CACHE]: [mad.METHOD_SET, cache],
  [mad.ATTRIBUTE_CREATE_CQ]: [mad.METHOD_SET, createCq],
  [mad.ATTRIBUTE_CREATE_QP]: [mad.METHOD_SET, createQp],
  [mad.ATTRIBUTE_MODIFY_QP]: [mad.METHOD_SET, modifyQp],
  [mad.ATTRIBUTE_DESTROY]: [mad.METHOD_SET, destroy],
  [mad.ATTRIBUTE_REGISTER]: [mad.METHOD_SET, register],
  [mad.ATTRIBUTE_DEREGISTER]: [mad.METHOD_SET, deregister],
  [mad.ATTRIBUTE_QUEUE_WRITE]: [mad.METHOD_SET, writeQueue],
  [mad.ATTRIBUTE_QUEUE_LOCK]: [mad.METHOD_SET, lockQueue],
  [mad.ATTRIBUTE_QUEUE_RELEASE]: [mad.METHOD_SET, releaseQueue],
  [mad.ATTRIBUTE_RING]: [mad.METHOD_SET, ring],
  [mad.ATTRIBUTE_BATCH_NOTICES]: [mad.METHOD_SET, watchBatches],
  [mad.ATTRIBUTE_ON_DEMAND]: [mad.METHOD_SET, registerOnDemand],
  [mad.ATTRIBUTE_MAP]: [mad.METHOD_SET, mapPages],
  [mad.ATTRIBUTE_UNMAP]: [mad.METHOD_SET, unmapPages],
  [mad.ATTRIBUTE_ON_DEMAND_END]: [mad.METHOD_SET, deregisterOnDemand],
  [mad.ATTRIBUTE_ON_DEMAND_STATE]: [mad.METHOD_SET, tellState],
  [mad.ATTRIBUTE_RESIDENCY]: [mad.METHOD_GET, residency],
}

/** Attributes that whoever asks is answered. */
export const FOR_ANYBODY: readonly number[] = [
  mad.ATTRIBUTE_QUEUES,
  mad.ATTRIBUTE_QUEUE,
  mad.ATTRIBUTE_CACHE,
]

/**
 * Those that only our own host may ask, which are all others; each of them is executed once, except
 * for REPEATABLE.
 */
export const FOR_THE_HOST: readonly number[] = Object.keys(QUEUE_HANDLERS)
  .map(Number)
  .filter((attribute) => !FOR_ANYBODY.includes(attribute))

/**
 * What may be executed again, and comes too often to be remembered: a doorbell, what pages have a
 * sequence of their own for, and a question.
 */
export const REPEATABLE: readonly number[] = [
  mad.ATTRIBUTE_RING,
  mad.ATTRIBUTE_MAP,
  mad.ATTRIBUTE_UNMAP,
  mad.ATTRIBUTE_RESIDENCY,
]

function readQueueCounters(call: Call): Fault {
  const { bytes, to, modifier } = call
  const { host } = call.state
  const { contexts } = host
  const total = QUEUE_COUNTERS.length
  const here = Math.max(0, Math.min(mad.QUEUES_COUNTERS_PER_MAD, total - modifier))
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  putU32(bytes, to + mad.QUEUES_EPOCH, host.epoch)
  putU32(bytes, to + mad.QUEUES_COUNT, host.queues)
  putU32(bytes, to + mad.QUEUES_USED, host.epoch === 0 ? 0 : host.numbers.count)
  putU32(bytes, to + mad.QUEUES_CACHED, contexts.used)
  putU32(bytes, to + mad.QUEUES_CAPACITY, contexts.capacity)
  bytes[to + mad.QUEUES_POLICY] = contexts.policy
  bytes[to + mad.QUEUES_ORDER] = host.pointerOrder
  putU16(bytes, to + mad.QUEUES_N, contexts.n)
  putU32(bytes, to + mad.QUEUES_AGE, contexts.ageUs)
  putU32(bytes, to + mad.QUEUES_COUNTERS_TOTAL, total)
  putU32(bytes, to + mad.QUEUES_COUNTERS_HERE, here)
  for (let i = 0; i < here; i++) {
    put64(bytes, to + mad.QUEUES_COUNTERS + i * mad.COUNTER_BYTES, host.counters[modifier + i]!)
  }
  return PASS
}

/** The zones of a queue as the card has them; of one that it has not, as they are in memory. */
function zones(call: Call): Fault {
  const { state, bytes, to, modifier } = call
  if (modifier >= state.host.queues) return QUEUE_UNKNOWN
  const cached = seen.cachedAt(state, modifier)
  const at = cached < 0 ? seen.lookAtQueue(state, modifier, seen.FIRST) : cached
  if (at < 0) return DMA
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  bytes.copyWithin(to, at, at + info.CONTEXT_FRESH)
  bytes[to + mad.QUEUE_CACHED] = cached < 0 ? 0 : 1
  return PASS
}

function cache(call: Call): Fault {
  const { state, bytes, at } = call
  const { contexts } = state.host
  const policy = bytes[at + mad.CACHE_POLICY]!
  const n = u16(bytes, at + mad.CACHE_N)
  const ageUs = u32(bytes, at + mad.CACHE_AGE)
  const capacity = u32(bytes, at + mad.CACHE_CAPACITY)
  if (policy >= POLICIES.length || n < 1 || n > CONTEXTS) return REQUEST
  if (capacity !== 0 && (capacity < CAPACITY_MIN || capacity > CONTEXTS)) return REQUEST
  setPolicy(contexts, policy, n, ageUs, capacity === 0 ? contexts.capacity : capacity)
  return PASS
}

function register(call: Call): Fault {
  const { state, bytes, at, to } = call
  const { host } = state
  const from = get64(bytes, at + mad.REGISTER_ADDRESS)
  const length = get64(bytes, at + mad.REGISTER_LENGTH)
  const domain = u16(bytes, at + mad.REGISTER_DOMAIN)
  if (length < 1 || !isHostRange(host, from, length)) return REQUEST
  const key = registerMemory(host.regions, from, length, domain, random32(state))
  if (key === 0) return REGIONS_OF_HOST_FULL
  putU32(bytes, to + mad.REGISTER_LKEY, key)
  return PASS
}

function deregister(call: Call): Fault {
  const { state, bytes, at } = call
  const key = u32(bytes, at + mad.DEREGISTER_LKEY)
  return deregisterMemory(state.host.regions, key) ? PASS : MEMORY_KEY
}

/** Doorbells by message. One of no queue is counted, and the others are rung all the same. */
function ring(call: Call): Fault {
  const { state, bytes, at } = call
  const { host } = state
  const many = u32(bytes, at + mad.RING_COUNT)
  if (many < 1 || many > mad.RING_MAX) return REQUEST
  for (let i = 0; i < many; i++) {
    const one = at + mad.RING_FIRST + 8 * i
    if (!takeMessageDoorbell(host, u32(bytes, one), u32(bytes, one + 4))) count(state, DOORBELL)
  }
  return PASS
}
