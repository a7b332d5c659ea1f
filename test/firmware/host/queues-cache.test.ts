/**
 * The cache of queue contexts (source 3; P3-17 to P3-22): hit, miss, insert and evict, under every
 * policy; and which of two write pointers is the newer.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CONTEXTS } from '../../../firmware/board/limits.ts'
import {
  type Contexts,
  clearContexts,
  createContexts,
  findContext,
  insertContext,
  markDirty,
  POLICIES,
  POLICY_AGE,
  POLICY_LEAST_USED,
  POLICY_N_OLDEST,
  POLICY_OLDEST,
  POLICY_RANDOM,
  removeContext,
  setPolicy,
} from '../../../firmware/host/context-cache.ts'
import { ORDER_DISTANCE, ORDER_TIME } from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { nop, nopHost } from '../../support/queues/nop-queues.ts'
import type { QueueHost } from '../../support/queues/queue-host.ts'

const CAPACITY = 6

function cacheOf(policy: number, n = 1, ageUs = 0): Contexts {
  const contexts = createContexts(true)
  const random = new Random(7)
  contexts.draw = () => random.below(2 ** 32)
  setPolicy(contexts, policy, n, ageUs, CAPACITY)
  return contexts
}

/** Queues 10, 11, … inserted at 0, 10, … µs, until the cache is full. */
function fill(contexts: Contexts): void {
  for (let i = 0; i < CAPACITY; i++) insertContext(contexts, 10 + i, 10 * i)
}

function queuesIn(contexts: Contexts): number[] {
  return [...contexts.queueOf].filter((queue) => queue >= 0).sort((a, b) => a - b)
}

describe('P3-18: what is evicted', () => {
  test('the oldest inserted, however recently it was used', () => {
    const contexts = cacheOf(POLICY_OLDEST)
    fill(contexts)
    findContext(contexts, 10)
    insertContext(contexts, 20, 100)
    insertContext(contexts, 21, 110)
    expect(queuesIn(contexts)).toEqual([12, 13, 14, 15, 20, 21])
    expect(contexts.evictions).toBe(2)
  })

  test('the n oldest at once', () => {
    const contexts = cacheOf(POLICY_N_OLDEST, 4)
    fill(contexts)
    insertContext(contexts, 20, 100)
    expect(queuesIn(contexts)).toEqual([14, 15, 20])
    expect(contexts.evictions).toBe(4)
  })

  test('all that are older than a time; if there is none, the oldest', () => {
    const contexts = cacheOf(POLICY_AGE, 1, 75)
    fill(contexts)
    insertContext(contexts, 20, 100)
    expect(queuesIn(contexts)).toEqual([13, 14, 15, 20])
    insertContext(contexts, 21, 100)
    insertContext(contexts, 22, 100)
    expect(contexts.evictions).toBe(3)
    insertContext(contexts, 23, 100)
    expect(queuesIn(contexts)).toEqual([14, 15, 20, 21, 22, 23])
    expect(contexts.evictions).toBe(4)
  })

  test('P3-18: n at random: as many as asked, any of them; the same with the same seed', () => {
    const survivors = (): number[][] => {
      const contexts = cacheOf(POLICY_RANDOM, 2)
      return Array.from({ length: 200 }, (_, i) => {
        insertContext(contexts, 10 + i, i)
        return queuesIn(contexts)
      })
    }
    expect(survivors()).toEqual(survivors())
    const several = cacheOf(POLICY_RANDOM, 2)
    fill(several)
    insertContext(several, 20, 100)
    expect(several.evictions).toBe(2)
    const counts = new Array(CAPACITY).fill(0)
    for (let i = 0; i < 300; i++) {
      const contexts = cacheOf(POLICY_RANDOM, 1)
      const random = new Random(i)
      contexts.draw = () => random.below(2 ** 32)
      fill(contexts)
      insertContext(contexts, 20, 100)
      for (let q = 0; q < CAPACITY; q++) if (findContext(contexts, 10 + q) < 0) counts[q] += 1
    }
    expect(counts.reduce((a, b) => a + b)).toBe(300)
    for (const count of counts) expect(count).toBeGreaterThan(0)
  })

  test('the least recently used', () => {
    const contexts = cacheOf(POLICY_LEAST_USED)
    fill(contexts)
    for (const queue of [11, 10, 13]) findContext(contexts, queue)
    insertContext(contexts, 20, 100)
    insertContext(contexts, 21, 100)
    expect(queuesIn(contexts)).toEqual([10, 11, 13, 15, 20, 21])
    insertContext(contexts, 22, 100)
    insertContext(contexts, 23, 100)
    expect(queuesIn(contexts)).toEqual([10, 13, 20, 21, 22, 23])
  })
})

describe.each(POLICIES.map((name, policy) => ({ name, policy })))('policy $name', ({ policy }) => {
  test('what is pinned, or not yet written, stays; a cache full of that takes nothing', () => {
    for (let mask = 0; mask < 2 ** CAPACITY; mask++) {
      for (const why of ['pinned', 'dirty']) {
        const contexts = cacheOf(policy, 3, 1000)
        fill(contexts)
        for (let i = 0; i < CAPACITY; i++) {
          if ((mask & (1 << i)) === 0) continue
          const place = findContext(contexts, 10 + i)
          if (why === 'pinned') contexts.pins[place]! += 1
          else markDirty(contexts, place)
        }
        const place = insertContext(contexts, 20, 500)
        expect(place >= 0).toBe(mask !== 2 ** CAPACITY - 1)
        for (let i = 0; i < CAPACITY; i++) {
          if ((mask & (1 << i)) !== 0) expect(findContext(contexts, 10 + i)).toBeGreaterThan(-1)
        }
        expect(contexts.used).toBe(queuesIn(contexts).length)
      }
    }
  })

  test('capacity and policy change while it runs, and every look-up is right', () => {
    const seed = Number(process.env.SEED ?? 1)
    console.log(`seed ${seed}`)
    const random = new Random(seed)
    const contexts = cacheOf(policy)
    const pinned = new Set<number>()
    const inside = new Set<number>()
    for (let step = 0; step < 4000; step++) {
      const queue = random.below(60)
      const place = findContext(contexts, queue)
      expect(place >= 0).toBe(inside.has(queue))
      if (place >= 0) expect(contexts.queueOf[place]).toBe(queue)
      const what = random.below(10)
      if (place < 0) {
        const taken = insertContext(contexts, queue, step)
        if (taken >= 0) inside.add(queue)
        for (const other of inside) if (contexts.placeOf[other]! < 0) inside.delete(other)
        for (const other of pinned) expect(inside.has(other)).toBe(true)
      } else if (what === 0 && pinned.size < 8) {
        if (!pinned.has(queue)) contexts.pins[place]! += 1
        pinned.add(queue)
      } else if (what === 1 && pinned.has(queue)) {
        contexts.pins[place]! -= 1
        pinned.delete(queue)
      } else if (what === 2 && !pinned.has(queue)) {
        removeContext(contexts, place)
        inside.delete(queue)
      }
      if (random.below(500) === 0) {
        setPolicy(
          contexts,
          random.below(5),
          1 + random.below(5),
          random.below(300),
          random.below(40),
        )
      }
      expect(contexts.used).toBe(inside.size)
    }
    clearContexts(contexts)
    expect(queuesIn(contexts)).toEqual([])
    for (let i = 0; i < CONTEXTS; i++) insertContext(contexts, i, 0)
  })
})

/** Posts one element, rings, and lets the card work; the units done. */
function one(host: QueueHost, queue: number, cq: number): number[] {
  host.post(queue, nop())
  host.ring(queue)
  host.run()
  return host.poll(cq).map((cqe) => cqe.unit)
}

describe('P3-17: through the firmware', () => {
  test('P3-17: a miss reads three zones and inserts; a hit reads zone 3 alone', () => {
    const { host, cqs, sqs } = nopHost()
    const zero = host.counters()
    const reads = (): number => {
      const before = host.ram.link.counts.reads
      one(host, sqs[0]!, cqs[0]!)
      return host.ram.link.counts.reads - before
    }
    // Its own three zones, those of its completion queue, and the element.
    expect(reads()).toBe(7)
    expect(reads()).toBe(2)
    expect(reads()).toBe(2)
    const { hits, misses, insertions, pointerReads } = host.counters()
    expect(misses - zero.misses).toBe(2)
    expect(insertions - zero.insertions).toBe(2)
    expect(hits - zero.hits).toBe(4)
    expect(pointerReads - zero.pointerReads).toBe(4)
  })

  test.each(POLICIES.map((name, policy) => ({ name, policy })))(
    'policy $name: many queues, a small cache; nothing is lost, repeated or reordered',
    ({ policy }) => {
      const queues = 40
      const { host, cqs, sqs } = nopHost({
        count: 64,
        sendQueues: queues,
        completionQueues: 3,
        entries: 256,
        pointer: 2 ** 32 - 5,
      })
      host.setCache(policy, 3, 40, 8)
      const random = new Random(Number(process.env.SEED ?? 3))
      const next = new Map(sqs.map((queue) => [queue, 2 ** 32 - 5]))
      for (let round = 0; round < 60; round++) {
        for (let i = 0; i < 10; i++) {
          const queue = sqs[random.below(queues)]!
          if (info.ahead(host.queues.get(queue)!.pointer, host.zone1(queue).pointer) > 12) continue
          host.post(queue, nop(1 + random.below(3)))
          host.ring(queue)
        }
        host.run()
        for (const cqe of cqs.flatMap((cq) => host.poll(cq))) {
          expect(cqe.unit).toBe(next.get(cqe.queue))
          next.set(cqe.queue, cqe.pointer)
        }
      }
      for (const queue of sqs) {
        expect(next.get(queue)).toBe(host.queues.get(queue)!.pointer)
        expect(host.zone1(queue).pointer).toBe(next.get(queue))
      }
      expect(host.events()).toEqual([])
      const counts = host.counters()
      expect(counts.evictions).toBeGreaterThan(50)
      expect(counts.refills).toBeGreaterThan(50)
      expect(counts.insertions - counts.evictions).toBeLessThanOrEqual(8)
    },
  )
})

describe('P3-19: which write pointer is the newer', () => {
  /** Zone 3 as it is read; the queue is paused, so that what is known is not used up. */
  function seen(order: number, pointer: number, known: [number, number], fresh: [number, number]) {
    const { host, cqs } = nopHost({ order })
    const queue = 9
    const shape = { kind: info.KIND_SEND, depth: 16, completions: cqs[0]!, pointer }
    host.forceQueue(queue, { ...shape, state: info.QUEUE_PAUSED })
    for (const [far, time] of [known, fresh]) {
      host.setPointer(queue, (pointer + far) >>> 0, time >>> 0)
      host.ring(queue)
      host.run()
    }
    const body = host.card.must(1, 0x61, undefined, queue)
    const at = 96
    const word = new DataView(body.buffer, body.byteOffset).getUint32(at, true)
    return host.zone1(queue).state === info.QUEUE_ERROR ? 'error' : info.ahead(word, pointer)
  }

  test('P3-19, P3-20, P3-22, D-11: the one further ahead, across every wrap', () => {
    for (const pointer of [0, 7, 2 ** 31 - 4, 2 ** 32 - 4]) {
      for (const known of [0, 1, 8, 15, 16]) {
        for (const fresh of [0, 1, 8, 15, 16]) {
          const newer = seen(ORDER_DISTANCE, pointer, [known, 0], [fresh, 0])
          expect(newer).toBe(Math.max(known, fresh))
        }
      }
    }
  })

  test('P3-21, D-11: the later one, also where the clock wraps', () => {
    for (const now of [1000, 2 ** 31 - 1, 2 ** 32 - 1]) {
      for (const known of [1, 8, 16]) {
        for (const fresh of [1, 8, 16]) {
          const at = (by: number): [number, number] => [fresh, now + by]
          expect(seen(ORDER_TIME, 5, [known, now], at(1))).toBe(fresh)
          expect(seen(ORDER_TIME, 5, [known, now], at(-1))).toBe(known)
          expect(seen(ORDER_TIME, 5, [known, now], at(0))).toBe(Math.max(known, fresh))
        }
      }
    }
  })

  test('P3-21: where nothing waits, a pointer that moved is newer whatever its time', () => {
    expect(seen(ORDER_TIME, 5, [0, 1000], [3, 1000 + 2 ** 31])).toBe(3)
    expect(seen(ORDER_TIME, 5, [0, 1000], [3, 0])).toBe(3)
    expect(seen(ORDER_TIME, 5, [0, 1000], [2 ** 32 - 1, 2000])).toBe('error')
  })
})
