/**
 * The driver's work queues in front of a card that does what the test says: the ring, the pointer,
 * the doorbell, and growth.
 */

import { describe, expect, test } from 'vitest'
import { CARRIES_POINTER } from '../../../../firmware/board/hal.ts'
import { Z1_POINTER, Z3_POINTER } from '../../../../firmware/host/queue-info.ts'
import { PerdureError } from '../../../../host-driver/base/errors.ts'
import type { GrowthForm, WorkQueue } from '../../../../host-driver/card/queues/work-queue.ts'
import { QueueFull } from '../../../../host-driver/way/queue-errors.ts'
import {
  FakeQueueCard,
  refused,
  type Step,
  tagged,
} from '../../../support/queues/fake-queue-card.ts'

/** Numbers around which something might go wrong. */
const POINTERS = [0, 1, 2, 3, 2 ** 31 - 2, 2 ** 32 - 3, 2 ** 32 - 1]

const numbers = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => from + i)

describe('posting', () => {
  test('P3-12, X-4: the element, then pointer and time as one, then the doorbell', () => {
    const card = new FakeQueueCard()
    const queue = card.make(8)
    card.steps.length = 0
    queue.post([tagged(1, 3)])
    const zone3 = card.zones.at(card.queue, 3) + Z3_POINTER
    const expected: Step[] = [
      { what: 'store', at: card.place(1), bytes: 128 },
      { what: 'store', at: card.place(0), bytes: 64 },
      { what: 'pair', at: zone3, bytes: 8 },
      { what: 'ring', at: (card.queue | CARRIES_POINTER) >>> 0, bytes: 3 },
    ]
    expect(card.steps).toEqual(expected)
    expect(card.port.memory.view.getUint32(zone3 + 4, true)).toBe(card.port.time)
  })

  test('P3-14: every change of the pointer rings, and a list of elements changes it once', () => {
    const card = new FakeQueueCard()
    const queue = card.make(8)
    const rings = (): number => card.steps.filter(({ what }) => what === 'ring').length
    queue.post([tagged(1)])
    queue.post([tagged(2)])
    expect(rings()).toBe(2)
    queue.post([tagged(3), tagged(4), tagged(5)])
    expect(rings()).toBe(3)
    queue.post([])
    expect(rings()).toBe(3)
    card.take()
    expect(card.taken).toEqual([1, 2, 3, 4, 5])
  })

  test('P3-2, P3-23: elements of every size wrap at every place, and at 2^32', () => {
    for (const start of POINTERS) {
      for (let units = 1; units <= 8; units++) {
        const card = new FakeQueueCard()
        const queue = card.make(8, start)
        for (let tag = 0; tag < 20; tag++) {
          expect(queue.post([tagged(tag, units)])).toEqual([(start + tag * units) >>> 0])
          card.take()
        }
        expect(card.taken).toEqual(numbers(0, 20))
      }
    }
  })

  test('P3-23: a ring of four goes 11, 12, 13, 14, 11', () => {
    const card = new FakeQueueCard()
    const queue = card.make(4)
    const places: number[] = []
    for (let tag = 1; tag <= 5; tag++) {
      const [unit] = queue.post([tagged(tag)])
      places.push(card.place(unit!))
      card.take(1)
    }
    expect(places[4]).toBe(places[0])
    expect(new Set(places).size).toBe(4)
    expect(card.taken).toEqual([1, 2, 3, 4, 5])
  })

  test('P3-25: free units count down; a post with too few changes nothing', () => {
    for (const start of POINTERS) {
      const card = new FakeQueueCard()
      const queue = card.make(8, start)
      for (let free = 8; free > 0; free--) {
        expect(queue.free).toBe(free)
        const before = card.port.memory.live.slice()
        const steps = card.steps.length
        const list = [tagged(99), tagged(99, free)]
        expect(() => queue.post(list)).toThrow(QueueFull)
        expect(() => queue.post(list)).toThrow(`${free + 1} units asked for, ${free} are free`)
        expect(Buffer.compare(card.port.memory.live, before)).toBe(0)
        expect(card.steps.length).toBe(steps)
        queue.post([tagged(free)])
      }
      expect(() => queue.post([tagged(0)])).toThrow(QueueFull)
      card.take(1)
      expect(queue.free).toBe(1)
      queue.post([tagged(0)])
      card.take()
      expect(card.taken).toEqual([8, 7, 6, 5, 4, 3, 2, 1, 0])
    }
  })

  test('H3: a read pointer that cannot be is not believed', () => {
    const card = new FakeQueueCard()
    const queue = card.make(8, 100)
    queue.post([tagged(1), tagged(2)])
    for (const wrong of [99, 103, 104, 2 ** 31, 2 ** 32 - 1, 0]) {
      card.setZone1(card.queue, Z1_POINTER, wrong)
      expect(queue.free, `pointer ${wrong}`).toBe(6)
    }
    card.setZone1(card.queue, Z1_POINTER, 101)
    expect(queue.free).toBe(7)
  })

  test('H1: units that wait are rung for again; a queue that moves is left alone', () => {
    const card = new FakeQueueCard()
    const queue = card.make(8)
    const rings = (): number => card.steps.filter(({ what }) => what === 'ring').length
    expect(queue.pushOn()).toBe(false)
    queue.post([tagged(1), tagged(2)])
    expect([queue.pushOn(), rings()]).toEqual([true, 2])
    expect([queue.pushOn(), rings()]).toEqual([true, 3])
    card.take(1)
    expect([queue.pushOn(), rings()]).toEqual([true, 3])
    expect([queue.pushOn(), rings()]).toEqual([true, 4])
    card.take()
    expect([queue.pushOn(), rings()]).toEqual([false, 4])
  })
})

describe('growing', () => {
  interface Case {
    readonly form: GrowthForm
    readonly start: number
    /** Units stored before, and how many of them the card takes while it is asked. */
    readonly fill: number
    readonly takes: number
    /** Elements posted while the call is on its way. */
    readonly meanwhile: number
    readonly refuse: boolean
  }

  const OLD = 4
  const NEW = 16

  function everyCase(): Case[] {
    const cases: Case[] = []
    for (const form of ['message', 'lock'] as const) {
      for (const start of POINTERS) {
        for (let fill = 0; fill <= OLD; fill++) {
          for (let takes = 0; takes <= fill; takes++) {
            for (let meanwhile = 0; meanwhile <= OLD - fill + takes; meanwhile++) {
              for (const refuse of [false, true]) {
                cases.push({ form, start, fill, takes, meanwhile, refuse })
              }
            }
          }
        }
      }
    }
    return cases
  }

  async function run(one: Case): Promise<{ card: FakeQueueCard; queue: WorkQueue; tag: number }> {
    const { form, start, fill, takes, meanwhile, refuse } = one
    const card = new FakeQueueCard()
    const queue = card.make(OLD, start)
    const freeBefore = card.layout.arena.freeBytes
    let tag = 0
    for (let i = 0; i < fill; i++) queue.post([tagged(tag++)])
    card.onCall = async (call) => {
      if (call === 'release') {
        card.take()
        return
      }
      card.take(takes)
      // Some are posted before the card looks at the call, and some are not.
      await Promise.resolve()
      for (let i = 0; i < meanwhile; i++) queue.post([tagged(tag++)])
      await Promise.resolve()
      if (refuse) throw refused('QUEUE_LOCKED')
    }
    const growth = queue.grow(NEW, form)
    if (refuse) {
      await expect(growth).rejects.toMatchObject({ fault: 'QUEUE_LOCKED' })
      expect(card.layout.arena.freeBytes).toBe(freeBefore)
      expect(queue.depth).toBe(OLD)
    } else {
      await growth
      expect(queue.depth).toBe(NEW)
      expect(card.zones.zone2(card.queue)).toMatchObject({ ring: queue.ringAt, depth: NEW })
      expect(card.layout.arena.freeBytes).toBe(freeBefore - (NEW - OLD) * 64)
    }
    return { card, queue, tag }
  }

  test('P3-24: at every fill and position nothing is lost, doubled or reordered', async () => {
    const cases = everyCase()
    for (const one of cases) {
      const { card, queue, tag } = await run(one)
      let next = tag
      const { free } = queue
      for (let i = 0; i < free; i++) queue.post([tagged(next++)])
      expect(() => queue.post([tagged(0)])).toThrow(QueueFull)
      card.take()
      expect(card.taken, JSON.stringify(one)).toEqual(numbers(0, next))
      expect(queue.free).toBe(one.refuse ? OLD : NEW)
    }
    expect(cases.length).toBe(2 * POINTERS.length * 2 * 55)
  })

  test('P3-24: elements of several units move whole, also those that wrap', async () => {
    for (const form of ['message', 'lock'] as const) {
      for (let start = 0; start < 8; start++) {
        for (const units of [2, 3, 4]) {
          const card = new FakeQueueCard()
          const queue = card.make(8, start)
          const count = Math.floor(8 / units)
          for (let tag = 0; tag < count; tag++) queue.post([tagged(tag, units)])
          await queue.grow(32, form)
          const more = Math.floor(queue.free / units)
          for (let tag = count; tag < count + more; tag++) queue.post([tagged(tag, units)])
          card.take()
          expect(card.taken).toEqual(numbers(0, count + more))
        }
      }
    }
  })

  test('P3-24: what makes no sense is refused, and two growths at once', async () => {
    const card = new FakeQueueCard()
    const queue = card.make(8)
    for (const depth of [0, -8, 4, 8, 12, 1.5, Number.NaN, 65536, 2 ** 31]) {
      await expect(queue.grow(depth)).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    }
    await expect(queue.grow(32768)).rejects.toMatchObject({ code: 'PERDURE_MEMORY_FULL' })
    const first = queue.grow(16)
    await expect(queue.grow(32)).rejects.toMatchObject({ code: 'PERDURE_ARGUMENT' })
    await first
    await queue.grow(32)
    expect(queue.depth).toBe(32)
  })

  test('a growth that is not answered publishes nothing more', async () => {
    const card = new FakeQueueCard()
    const queue = card.make(4)
    queue.post([tagged(1)])
    card.onCall = () => {
      queue.post([tagged(2)])
      throw new PerdureError('PERDURE_UNREACHABLE', 'no answer')
    }
    await expect(queue.grow(8)).rejects.toMatchObject({ code: 'PERDURE_UNREACHABLE' })
    queue.post([tagged(3)])
    expect(card.pointer).toBe(1)
    expect(queue.finish('gone').map(([unit]) => unit)).toEqual([0, 1, 2])
    expect(queue.finish('again')).toEqual([])
    expect(() => queue.post([tagged(4)])).toThrow('gone')
  })
})
