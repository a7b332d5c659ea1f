/**
 * The tables behind the host's queues against plain models: numbers in use, queues that wait, and
 * memory that elements may name.
 */

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { MEMORY_KEY, PASS } from '../../../firmware/board/fault.ts'
import { HOST_QUEUES, MEMORY_REGIONS } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { EVENT_BYTES, FIRST_QUEUE } from '../../../firmware/host/header-page.ts'
import { createHostQueues } from '../../../firmware/host/host.ts'
import {
  clearMemoryRegions,
  createMemoryRegions,
  deregisterMemory,
  memoryFault,
  registerMemory,
} from '../../../firmware/host/memory-regions.ts'
import {
  carry,
  clearPending,
  createPending,
  frontOf,
  leaveLists,
  PENDING,
  stand,
  takeCarried,
  WAITING,
} from '../../../firmware/host/pending.ts'
import { ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from '../../../firmware/host/queue-info.ts'
import {
  createQueueNumbers,
  giveNumber,
  isNumberUsed,
  resetNumbers,
  takeNumber,
} from '../../../firmware/host/queue-numbers.ts'
import { isHostRange, meet } from '../../../firmware/host/ranges.ts'

const SEED = Number(process.env.SEED ?? 1)

const draws = (times: number): fc.Arbitrary<number[]> => {
  return fc.array(fc.nat(2 ** 31 - 1), { minLength: 1, maxLength: times })
}

test('N21: a number is the next free one, round the end; what is given back is free again', () => {
  const run = fc.record({ from: fc.nat(2 ** 16), take: fc.nat(300), give: draws(40) })
  const queueCounts = fc.oneof(fc.constant(HOST_QUEUES), fc.integer({ min: 4, max: 3000 }))
  fc.assert(
    fc.property(queueCounts, fc.array(run, { maxLength: 6 }), (queues, all) => {
      const numbers = createQueueNumbers()
      const used = new Set([0, 1, 2])
      for (const { from, take, give } of all) {
        // Now and then around a place: a search goes over what is in use, and round the end.
        let next = from % 3 === 0 ? Math.max(FIRST_QUEUE, queues - 20) : FIRST_QUEUE + (from % 1500)
        if (next >= queues) next = FIRST_QUEUE
        numbers.next = next
        for (let i = 0; i < take; i++) {
          const wanted = nextFree(used, next, queues)
          const number = takeNumber(numbers, queues)
          if (number !== wanted) expect(number).toBe(wanted)
          if (wanted < 0) break
          used.add(wanted)
          next = wanted + 1 < queues ? wanted + 1 : 0
        }
        const held = [...used].filter((number) => number >= FIRST_QUEUE)
        for (const number of new Set(give.map((draw) => held[draw % held.length] ?? -1))) {
          if (number < 0) continue
          giveNumber(numbers, number)
          used.delete(number)
        }
        expect(numbers.count).toBe(used.size)
        for (const draw of give) {
          expect(isNumberUsed(numbers, draw % queues)).toBe(used.has(draw % queues))
          expect(isNumberUsed(numbers, HOST_QUEUES + draw)).toBe(false)
        }
      }
      resetNumbers(numbers)
      expect([numbers.count, takeNumber(numbers, queues)]).toEqual([FIRST_QUEUE, FIRST_QUEUE])
    }),
    { seed: SEED },
  )
})

test('N21: a search that begins behind what is free there goes over what is in use', () => {
  for (const from of [40, 1060, 1500, 2047, 3000]) {
    const numbers = createQueueNumbers()
    for (let i = 0; i < 300; i++) {
      numbers.next = from + i
      expect(takeNumber(numbers, HOST_QUEUES)).toBe(from + i)
    }
    numbers.next = from + 3
    expect(takeNumber(numbers, HOST_QUEUES)).toBe(from + 300)
  }
})

function nextFree(used: ReadonlySet<number>, from: number, queues: number): number {
  for (let i = 0; i < queues; i++) {
    const number = (from + i) % queues
    if (!used.has(number)) return number
  }
  return -1
}

test('a number is found at every fill of the words and of the words of words', () => {
  for (const full of [32, 1024, 2048, HOST_QUEUES - 1, HOST_QUEUES]) {
    const numbers = createQueueNumbers()
    numbers.used.fill(-1, 0, full >> 5)
    numbers.full.fill(-1, 0, full >> 10)
    for (let word = (full >> 10) * 32; word < full >> 5; word++) {
      numbers.full[word >> 5]! |= 1 << (word & 31)
    }
    numbers.next = 5
    expect(takeNumber(numbers, HOST_QUEUES)).toBe(full === HOST_QUEUES ? -1 : full & ~31)
  }
})

test('H3: a queue stands in one list at most, at its end; each is served from its front', () => {
  const steps = fc.array(
    fc.record({ queue: fc.nat(6), what: fc.nat(5), pointer: fc.nat(2 ** 32 - 1) }),
    { maxLength: 60 },
  )
  fc.assert(
    fc.property(steps, (all) => {
      const pending = createPending(true)
      const lists: [number[], number[]] = [[], []]
      const carried = new Map<number, number>()
      for (const { queue, what, pointer } of all) {
        const number = queue === 6 ? HOST_QUEUES - 1 : queue
        if (what < 2) {
          stand(pending, number, what === 0 ? PENDING : WAITING)
          if (!lists[what]!.includes(number)) {
            for (const list of lists) remove(list, number)
            lists[what]!.push(number)
          }
        } else if (what === 2) {
          leaveLists(pending, number)
          for (const list of lists) remove(list, number)
        } else if (what === 3) {
          carry(pending, number, pointer)
          carried.set(number, pointer)
        } else if (what === 4) {
          expect(takeCarried(pending, number)).toBe(carried.has(number))
          if (carried.has(number)) expect(pending.carried[number]).toBe(carried.get(number))
          carried.delete(number)
        }
        expect([pending.pending, pending.waiting]).toEqual(lists.map(({ length }) => length))
        for (const [i, head] of [PENDING, WAITING].entries()) {
          const list = lists[i]!
          expect(frontOf(pending, head)).toBe(list[0] ?? -1)
          expect(around(pending.next, head)).toEqual(list)
          expect(around(pending.before, head)).toEqual(list.slice().reverse())
        }
      }
      clearPending(pending)
      expect([frontOf(pending, PENDING), frontOf(pending, WAITING)]).toEqual([-1, -1])
      expect([pending.pending, pending.waiting]).toEqual([0, 0])
      for (const number of carried.keys()) expect(takeCarried(pending, number)).toBe(false)
    }),
    { seed: SEED },
  )
})

function remove(list: number[], queue: number): void {
  const place = list.indexOf(queue)
  if (place >= 0) list.splice(place, 1)
}

function around(ring: Int32Array, head: number): number[] {
  const found: number[] = []
  for (let at = ring[head]!; at !== head && found.length < 10; at = ring[at]!) found.push(at)
  return found
}

test('H4: memory is named by the key of a range that is there, in its domain and bounds', () => {
  const range = fc.record({
    at: fc.nat(2 ** 40),
    bytes: fc.integer({ min: 1, max: 2 ** 33 }),
    domain: fc.nat(3),
    random: fc.nat(2 ** 32 - 1),
  })
  const asked = fc.record({
    which: fc.nat(20),
    domain: fc.nat(3),
    shift: fc.integer({ min: -2, max: 2 }),
  })
  fc.assert(
    fc.property(
      fc.array(range, { maxLength: 12 }),
      draws(6),
      fc.array(asked),
      (all, taken, asks) => {
        const regions = createMemoryRegions()
        const known = all.map((one) => {
          const key = registerMemory(regions, one.at, one.bytes, one.domain, one.random)
          expect(key).toBeGreaterThanOrEqual(MEMORY_REGIONS)
          return { ...one, key, isThere: true }
        })
        expect(new Set(known.map(({ key }) => key)).size).toBe(known.length)
        for (const draw of taken) {
          const one = known[draw % 12]
          if (one === undefined) continue
          expect(deregisterMemory(regions, one.key)).toBe(one.isThere)
          one.isThere = false
        }
        expect(regions.count).toBe(known.filter(({ isThere }) => isThere).length)
        for (const { which, domain, shift } of asks) {
          const one = known[which % 12]
          if (one === undefined) continue
          const { key, at, bytes } = one
          const fits = one.isThere && one.domain === domain
          const told = (from: number, length: number): boolean => {
            return memoryFault(regions, key, domain, from, length) === PASS
          }
          expect(told(at + shift, bytes)).toBe(fits && shift === 0)
          expect(told(at, bytes + shift)).toBe(fits && shift <= 0)
          expect(told(at + bytes + shift, 1)).toBe(fits && shift < 0 && bytes + shift >= 0)
          expect(memoryFault(regions, key + MEMORY_REGIONS, one.domain, at, 1)).toBe(MEMORY_KEY)
        }
        for (const { domain } of known) {
          // 0 is the key of nobody, and least of a range that was there.
          expect(memoryFault(regions, 0, domain, known[0]!.at, 1)).toBe(MEMORY_KEY)
          expect(deregisterMemory(regions, 0)).toBe(false)
        }
        clearMemoryRegions(regions)
        for (const { key, domain, at } of known) {
          expect(memoryFault(regions, key, domain, at, 1)).toBe(MEMORY_KEY)
        }
      },
    ),
    { seed: SEED },
  )
})

test('H4: there is a key for as many ranges as there are places, and for no more', () => {
  const regions = createMemoryRegions()
  const keys = Array.from({ length: MEMORY_REGIONS }, (_, i) =>
    registerMemory(regions, i, 1, 0, i * 999),
  )
  expect(new Set(keys).size).toBe(MEMORY_REGIONS)
  expect([registerMemory(regions, 0, 1, 0, 9), regions.count]).toEqual([0, MEMORY_REGIONS])
  expect(deregisterMemory(regions, keys[77]!)).toBe(true)
  const key = registerMemory(regions, 4096, 8, 1, 0x87654321)
  expect(keys).not.toContain(key)
  expect(memoryFault(regions, key, 1, 4096, 8)).toBe(PASS)
})

test('P3-11: no byte that the host shows of its queues is open, up to the last of each', () => {
  const queues = 1000
  const host = createHostQueues(new ArrayBuffer(MEMORY_BYTES), true)
  const zones = { zone1: 0x40000, zone2: 0x80000, zone3: 0xc0000 }
  Object.assign(host, { ...zones, queues, header: 4096, dmaBytes: 2 ** 20 })
  Object.assign(host.events, { at: 0x20000, depth: 64 })
  for (const [at, bytes] of [
    [4096, 4096],
    [0x20000, 64 * EVENT_BYTES],
    [0x40000, queues * ZONE1_BYTES],
    [0x80000, queues * ZONE2_BYTES],
    [0xc0000, queues * ZONE3_BYTES],
  ] as const) {
    const open = [at - 1, at, at + bytes - 1, at + bytes].map((one) => isHostRange(host, one, 1))
    expect(open).toEqual([true, false, false, true])
  }
})

test('ranges meet where they have a byte in common', () => {
  const small = fc.nat(6)
  fc.assert(
    fc.property(small, small, small, small, (one, bytes, other, otherBytes) => {
      const shared = Array.from({ length: bytes }, (_, i) => one + i).some((at) => {
        return at >= other && at < other + otherBytes
      })
      if (bytes > 0 && otherBytes > 0) expect(meet(one, bytes, other, otherBytes)).toBe(shared)
    }),
    { seed: SEED },
  )
})
