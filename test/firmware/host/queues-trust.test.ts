/**
 * Pointers of doorbells that are used without a look at memory (source 3, second aspect; S1-M8):
 * what that saves, and every pointer by which nothing may be saved, lost or executed.
 */

import { describe, expect, test } from 'vitest'
import { isTaggedFor, taggedDoorbell } from '../../../firmware/board/doorbell-tag.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { DOORBELLS, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { WC_SUCCESS } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import {
  faultsOf,
  type NopHost,
  type NopOptions,
  nop,
  nopHost,
} from '../../support/queues/nop-queues.ts'
import type { Form, QueueHost } from '../../support/queues/queue-host.ts'

const DEPTH = 16
const WRAP = 2 ** 32

/** Reads over PCIe since `watch`: of zone 3 by their queue, and of rings by theirs. */
interface Reads {
  pointers: number[]
  elements: number
  others: number
}

function watch(host: QueueHost): Reads {
  const reads: Reads = { pointers: [], elements: 0, others: 0 }
  const { zone3At, eventsAt } = host
  host.ram.link.script = ({ kind, at }) => {
    if (kind !== 'read') return undefined
    if (at >= zone3At && at < eventsAt) {
      reads.pointers.push((at - zone3At) / info.ZONE3_BYTES)
    } else if (at > eventsAt) reads.elements += 1
    else reads.others += 1
    return undefined
  }
  return reads
}

/** Queues whose contexts are in the cache, of a host that asks for trust. */
function trusting(options: NopOptions = {}): NopHost {
  const made = nopHost({ trust: true, depth: DEPTH, ...options })
  const { host, cqs, sqs } = made
  for (const queue of [...sqs, ...cqs]) host.ring(queue)
  host.run()
  for (const queue of sqs) postAll(host, queue, 1, 'fifo')
  for (const cq of cqs) host.poll(cq)
  return made
}

/** Posts `count` elements, rings once and serves the card. */
function postAll(host: QueueHost, queue: number, count: number, form: Form): void {
  for (let i = 0; i < count; i++) host.post(queue, nop())
  host.ring(queue, form)
  host.run()
}

const unitsOf = (host: QueueHost, cq: number): number[] => host.poll(cq).map(({ unit }) => unit)

/** `count` numbers from `first` on, as units are numbered. */
const numbers = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => (first + i) >>> 0)

/** The queue is in order, and nobody was told of anything. */
function inOrder(host: QueueHost, queue: number): void {
  expect(host.events()).toEqual([])
  expect(host.zone1(queue)).toMatchObject({ state: info.QUEUE_READY, fault: 'PASS' })
}

describe('what is saved', () => {
  test('S1-M8: a plausible pointer saves exactly one read per ring, of zone 3', () => {
    for (const [form, pointerReads] of [
      ['fifo', 1],
      ['fifo with pointer', 1],
      ['register', 1],
      ['trusted', 0],
    ] as const) {
      // From 40 on, so that no doorbell without a tag has one by chance.
      const { host, cqs, sqs } = trusting({ pointer: 40 })
      const reads = watch(host)
      for (let i = 1; i <= 3 * DEPTH; i++) {
        postAll(host, sqs[0]!, 1, form)
        expect(unitsOf(host, cqs[0]!)).toEqual([40 + i])
        expect([form, reads.pointers.length]).toEqual([form, i * pointerReads])
        expect([form, reads.elements, reads.others]).toEqual([form, i, 0])
      }
      inOrder(host, sqs[0]!)
    }
  })

  test('S1-M8: of a burst, and of every number of units up to the depth, too', () => {
    for (let count = 1; count <= DEPTH; count++) {
      const { host, cqs, sqs } = trusting()
      const reads = watch(host)
      postAll(host, sqs[0]!, count, 'trusted')
      expect(unitsOf(host, cqs[0]!)).toEqual(numbers(1, count))
      expect(reads.pointers).toEqual([])
      inOrder(host, sqs[0]!)
    }
  })

  test('S1-M8: the pointers of several queues in one turn, each for its own', () => {
    const { host, cqs, sqs } = trusting({ sendQueues: 5 })
    const reads = watch(host)
    sqs.forEach((queue, i) => {
      for (let n = 0; n <= i; n++) host.post(queue, nop())
      host.ring(queue, 'trusted')
    })
    host.run()
    const done = host.poll(cqs[0]!)
    sqs.forEach((queue, i) => {
      const own = done.filter((cqe) => cqe.queue === queue)
      expect(own.map(({ unit }) => unit)).toEqual(numbers(1, i + 1))
    })
    expect(reads).toEqual({ pointers: [], elements: 5, others: 0 })
  })

  test('S1-M8: after every wrap of the ring, and of the numbers themselves', () => {
    for (const before of [1, 2, DEPTH - 1, DEPTH, 3 * DEPTH]) {
      const pointer = WRAP - before - 1
      const { host, cqs, sqs } = trusting({ pointer, entries: 256 })
      const reads = watch(host)
      for (let posted = 1; posted < 6 * DEPTH; posted += 3) {
        postAll(host, sqs[0]!, 3, 'trusted')
        expect(unitsOf(host, cqs[0]!)).toEqual(numbers(pointer + posted, 3))
      }
      expect(reads.pointers).toEqual([])
      inOrder(host, sqs[0]!)
    }
  })

  test('S1-M8: more than one turn takes is read from memory, and is all done', () => {
    const { host, cqs, sqs } = trusting({ depth: 128, entries: 256 })
    const reads = watch(host)
    postAll(host, sqs[0]!, 100, 'trusted')
    expect(unitsOf(host, cqs[0]!)).toEqual(numbers(1, 100))
    expect(reads.pointers).toEqual([sqs[0], sqs[0], sqs[0]])
  })

  test('S1-M8: whichever pointer is the newer, by distance or by time', () => {
    for (const order of [page.ORDER_DISTANCE, page.ORDER_TIME]) {
      const { host, cqs, sqs } = trusting({ order })
      const reads = watch(host)
      // Memory is looked at between pointers that a doorbell brought, with the same time, or later.
      for (let i = 0; i < 12; i++) {
        host.store(sqs[0]!, nop())
        host.setPointer(sqs[0]!, undefined, i >> 2)
        host.ring(sqs[0]!, i % 3 === 2 ? 'fifo' : 'trusted')
        host.run()
        expect(unitsOf(host, cqs[0]!)).toEqual([i + 1])
      }
      expect(reads.pointers.length).toBe(4)
      inOrder(host, sqs[0]!)
    }
  })
})

describe('who asks', () => {
  test('S1-M8: the card answers in the header page, and only whom it was asked by', () => {
    for (const trust of [true, false]) {
      const { host } = nopHost({ trust })
      expect(host.header(page.HEADER_TRUSTED)).toBe(trust ? 1 : 0)
    }
  })

  test('S1-M8: a driver that does not ask is served as before, whatever it rings', () => {
    const { host, cqs, sqs } = trusting({ trust: false })
    const reads = watch(host)
    for (const form of ['fifo', 'fifo with pointer', 'register', 'message'] as const) {
      postAll(host, sqs[0]!, 1, form)
    }
    expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3, 4])
    expect(reads.pointers.filter((queue) => queue === sqs[0]).length).toBe(4)
    // A tag is part of a number that no queue has.
    const before = faultsOf(host, 'DOORBELL')
    host.post(sqs[0]!, nop())
    host.ringFifo(taggedDoorbell(sqs[0]!, 6, host.epoch), 6)
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([])
    expect(faultsOf(host, 'DOORBELL')).toBe(before + 1)
  })

  test('S1-M8: doorbells without a tag, and of other forms, have memory read', () => {
    for (const form of ['fifo', 'fifo with pointer', 'register', 'message'] as const) {
      const { host, cqs, sqs } = trusting({ pointer: 40 })
      const reads = watch(host)
      for (let i = 1; i <= 5; i++) {
        postAll(host, sqs[0]!, 1, form)
        expect(unitsOf(host, cqs[0]!)).toEqual([40 + i])
        expect(reads.pointers.filter((queue) => queue === sqs[0]).length).toBe(i)
      }
    }
  })
})

describe('a pointer that is not used', () => {
  /** One element waits; its doorbell says `pointer`. Memory is read, and it is done. */
  function finds(made: NopHost, pointer: number): void {
    const { host, cqs, sqs } = made
    const own = host.zone1(sqs[0]!).pointer
    const reads = watch(host)
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!, 'trusted', pointer >>> 0)
    host.run()
    expect([pointer, unitsOf(host, cqs[0]!)]).toEqual([pointer, [own]])
    expect(reads.pointers).toEqual([sqs[0]])
    inOrder(host, sqs[0]!)
  }

  test('S1-M8: too far ahead, by every distance around every limit', () => {
    for (const pointer of [0, 7, 2 ** 31 - 3, WRAP - 3]) {
      for (const far of [1, 2, DEPTH, 2 ** 15 - 1, 2 ** 15, 2 ** 16, 2 ** 31, WRAP - DEPTH - 1]) {
        const made = trusting({ pointer })
        finds(made, pointer + 1 + DEPTH + far)
      }
    }
  })

  test('S1-M8: one in front of memory is counted, as without trust', () => {
    const made = trusting()
    finds(made, 1 + DEPTH + 1)
    expect(faultsOf(made.host, 'DOORBELL')).toBe(1)
  })

  test('S1-M8: backwards, or where the card is already', () => {
    for (let back = 0; back <= 2 * DEPTH; back++) {
      const made = trusting({ pointer: 1000 })
      finds(made, 1001 - back)
      expect(faultsOf(made.host, 'DOORBELL')).toBe(0)
    }
  })

  test('S1-M8: repeated: memory is read, and nothing is executed twice', () => {
    const { host, cqs, sqs } = trusting()
    postAll(host, sqs[0]!, 3, 'trusted')
    expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3])
    const reads = watch(host)
    for (const pointer of [4, 3, 2, 4]) host.ring(sqs[0]!, 'trusted', pointer)
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([])
    expect(reads.pointers).toEqual([sqs[0]])
    inOrder(host, sqs[0]!)
  })

  test('S1-M8: of another queue: halves of two doorbells count only where they agree', () => {
    const { host, cqs, sqs } = trusting({ sendQueues: 2, entries: 1024 })
    const [one, other] = sqs as [number, number]
    let posted = 1
    for (let pointer = 0; pointer <= 3 * DEPTH; pointer++) {
      const before = host.counters().pointerReads
      host.post(one, nop())
      posted += 1
      const low = taggedDoorbell(one, posted, host.epoch)
      host.ringFifo(low, pointer)
      host.run()
      expect(unitsOf(host, cqs[0]!)).toEqual([posted - 1])
      const read = host.counters().pointerReads - before
      expect([pointer, read]).toEqual([pointer, pointer === posted ? 0 : 1])
    }
    inOrder(host, one)
    inOrder(host, other)
  })

  test('S1-M8: of all pointers that the deepest ring lets pass, one has the tag', () => {
    const depth = 2 ** 15
    for (const [own, epoch] of [
      [0, 1],
      [12345, 77],
      [WRAP - 100, 2 ** 31 + 5],
    ] as const) {
      for (const sent of [1, 2, 100, depth - 1, depth]) {
        const pointer = (own + sent) >>> 0
        const low = taggedDoorbell(9, pointer, epoch)
        const fit = numbers(own + 1, depth).filter((one) => isTaggedFor(low, one, epoch))
        expect(fit).toEqual([pointer])
      }
    }
  })

  test('S1-M8: of a queue that is not there', () => {
    const { host } = trusting()
    for (const queue of [9, host.count, 65535]) host.ring(queue, 'trusted', 1)
    host.run()
    expect(faultsOf(host, 'DOORBELL')).toBe(3)
    expect(host.events()).toEqual([{ type: page.EVENT_QUEUE_ERROR, queue: 9, fault: 'DOORBELL' }])
  })

  test('S1-M8: of a queue whose context is not cached, which is read whole, as ever', () => {
    const { host, cqs, sqs } = nopHost({ trust: true })
    const reads = watch(host)
    postAll(host, sqs[0]!, 1, 'trusted')
    expect(unitsOf(host, cqs[0]!)).toEqual([0])
    expect(reads.pointers).toContain(sqs[0])
  })

  test('S1-M8: of a completion queue, and of a queue that is paused', () => {
    const { host, cqs, sqs } = trusting({ sendQueues: 2 })
    const reads = watch(host)
    host.ring(cqs[0]!, 'trusted', host.queues.get(cqs[0]!)!.pointer)
    host.run()
    expect(reads.pointers).toEqual([cqs[0]])
    const paused = 9
    const shape = { kind: info.KIND_SEND, depth: 4, completions: cqs[0]! }
    host.forceQueue(paused, { ...shape, state: info.QUEUE_PAUSED })
    postAll(host, paused, 1, 'fifo')
    reads.pointers = []
    postAll(host, paused, 1, 'trusted')
    expect(reads.pointers).toEqual([paused])
    expect(unitsOf(host, cqs[0]!)).toEqual([])
    inOrder(host, sqs[0]!)
  })
})

describe('two doorbells in one turn', () => {
  test('S1-M8: merged, in either order: no read, and the further pointer counts', () => {
    for (const pointers of [
      [2, 4],
      [4, 2],
      [4, 3, 2],
      [3, 4, 4],
    ]) {
      const { host, cqs, sqs } = trusting()
      const reads = watch(host)
      for (let i = 0; i < 3; i++) host.post(sqs[0]!, nop())
      for (const pointer of pointers) host.ring(sqs[0]!, 'trusted', pointer)
      host.run()
      expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3])
      expect(reads).toEqual({ pointers: [], elements: 1, others: 0 })
    }
  })

  test('S1-M8: merged across the wrap of the numbers', () => {
    const pointer = WRAP - 3
    const { host, cqs, sqs } = trusting({ pointer })
    const reads = watch(host)
    for (let i = 0; i < 5; i++) host.post(sqs[0]!, nop())
    for (const far of [WRAP - 1, 3, 0]) host.ring(sqs[0]!, 'trusted', far)
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual(numbers(pointer + 1, 5))
    expect(reads.pointers).toEqual([])
  })

  test('S1-M8: with one of another kind memory is read, and finds what was lost', () => {
    const forms = ['fifo', 'trusted'] as const
    for (const order of [forms, [...forms].reverse()]) {
      const { host, cqs, sqs } = trusting()
      const reads = watch(host)
      for (let i = 0; i < 3; i++) host.post(sqs[0]!, nop())
      // The doorbell of the last two got lost.
      for (const form of order) host.ring(sqs[0]!, form, 2)
      host.run()
      expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3])
      expect(reads.pointers).toEqual([sqs[0]])
    }
  })

  test('S1-M8: with a sweep memory is read: what the port dropped is found', () => {
    const { host, cqs, sqs } = trusting({ sendQueues: 2 })
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!, 'trusted')
    for (let i = 1; i < DOORBELLS; i++) host.ringFifo(sqs[1]!, 0)
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!, 'trusted')
    expect(host.port.getUint32(hal.PORT_DROPPED, true)).toBe(1)
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([1, 2])
  })

  test('S1-M8: lost: the next one finds all', () => {
    const { host, cqs, sqs } = trusting()
    host.post(sqs[0]!, nop())
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([])
    const reads = watch(host)
    postAll(host, sqs[0]!, 1, 'trusted')
    expect(unitsOf(host, cqs[0]!)).toEqual([1, 2])
    expect(reads.pointers).toEqual([])
  })

  test('S1-M8: overtaken: the older one has memory read, for nothing', () => {
    const { host, cqs, sqs } = trusting()
    for (let i = 0; i < 3; i++) host.post(sqs[0]!, nop())
    host.ring(sqs[0]!, 'trusted', 4)
    host.run()
    const reads = watch(host)
    host.ring(sqs[0]!, 'trusted', 2)
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3])
    expect(reads).toEqual({ pointers: [sqs[0]], elements: 0, others: 0 })
  })
})

describe('a host that rings ahead of what it stored', () => {
  test('S1-M8: what was not stored is not executed, ends nothing, and is found when it is', () => {
    for (let stored = 0; stored < 4; stored++) {
      for (let ahead = 1; stored + ahead <= DEPTH; ahead++) {
        const { host, cqs, sqs } = trusting()
        const reads = watch(host)
        for (let i = 0; i < stored; i++) host.post(sqs[0]!, nop())
        host.ring(sqs[0]!, 'trusted', 1 + stored + ahead)
        host.run()
        expect(unitsOf(host, cqs[0]!)).toEqual(numbers(1, stored))
        expect(reads.pointers).toEqual([sqs[0]])
        inOrder(host, sqs[0]!)
        postAll(host, sqs[0]!, 1, 'trusted')
        expect(unitsOf(host, cqs[0]!)).toEqual([1 + stored])
        inOrder(host, sqs[0]!)
      }
    }
  })

  test('S1-M8: units of the lap before are not executed again', () => {
    const { host, cqs, sqs } = trusting()
    for (let lap = 0; lap < 3; lap++) {
      postAll(host, sqs[0]!, DEPTH, 'trusted')
      const first = 1 + lap * DEPTH
      expect(unitsOf(host, cqs[0]!)).toEqual(numbers(first, DEPTH))
      for (const ahead of [1, 2, DEPTH]) {
        host.ring(sqs[0]!, 'trusted', first + DEPTH + ahead)
        host.run()
        expect(unitsOf(host, cqs[0]!)).toEqual([])
      }
    }
    inOrder(host, sqs[0]!)
  })

  test('S1-M8: half of an element is not executed', () => {
    const { host, cqs, sqs } = trusting()
    const unit = host.store(sqs[0]!, nop(3))
    host.view.setUint32(host.unitAt(sqs[0]!, unit) + 60, 0, true)
    host.ring(sqs[0]!, 'trusted', unit + 3)
    host.run()
    expect(host.poll(cqs[0]!)).toEqual([])
    inOrder(host, sqs[0]!)
    host.view.setUint32(host.unitAt(sqs[0]!, unit) + 60, unit + 1, true)
    host.setPointer(sqs[0]!)
    host.ring(sqs[0]!, 'trusted')
    host.run()
    expect(host.poll(cqs[0]!)).toMatchObject([{ unit, status: WC_SUCCESS, pointer: unit + 3 }])
  })

  test('S1-M8: a pointer into the middle of an element has memory read', () => {
    for (let part = 1; part < 5; part++) {
      const { host, cqs, sqs } = trusting()
      const reads = watch(host)
      host.post(sqs[0]!, nop(5))
      host.ring(sqs[0]!, 'trusted', 1 + part)
      host.run()
      expect(unitsOf(host, cqs[0]!)).toEqual([1])
      expect(reads.pointers).toEqual([sqs[0]])
      inOrder(host, sqs[0]!)
    }
  })

  test('S1-M8, P3-28: stored and not shown: the next look at memory finds it, and ends it', () => {
    const { host, cqs, sqs } = trusting({ sendQueues: 2 })
    host.store(sqs[0]!, nop())
    host.ring(sqs[0]!, 'trusted')
    host.run()
    expect(unitsOf(host, cqs[0]!)).toEqual([1])
    host.ring(sqs[0]!, 'fifo')
    host.run()
    expect(host.zone1(sqs[0]!)).toMatchObject({
      state: info.QUEUE_ERROR,
      fault: 'QUEUE_POINTER',
    })
    postAll(host, sqs[1]!, 1, 'trusted')
    expect(unitsOf(host, cqs[0]!)).toEqual([1])
  })

  test('S1-M8: an element that is malformed ends its queue, when memory shows it, too', () => {
    const { host, cqs, sqs } = trusting()
    const unit = host.post(sqs[0]!, nop())
    host.view.setUint32(host.unitAt(sqs[0]!, unit), 99, true)
    host.ring(sqs[0]!, 'trusted')
    host.run()
    expect(host.zone1(sqs[0]!)).toMatchObject({ state: info.QUEUE_ERROR, fault: 'ELEMENT_FORM' })
    expect(host.poll(cqs[0]!)).toMatchObject([{ unit }])
  })
})

describe('a host that goes', () => {
  /**
   * The host begins a new epoch on the same memory, with the same queues, their rings as they were.
   */
  function beginAgain({ host, cqs, sqs }: NopHost): void {
    for (const queue of [...cqs, ...sqs]) {
      const { ring, depth } = host.queues.get(queue)!
      const kind = cqs.includes(queue) ? info.KIND_COMPLETION : info.KIND_SEND
      const made = host.forceQueue(queue, { kind, depth, completions: cqs[0]! })
      made.ring = ring
      host.put64(host.zone2At + queue * info.ZONE2_BYTES, ring)
    }
  }

  test('S1-M8: doorbells of the epoch before execute nothing that lies in the rings still', () => {
    for (const linkDown of [false, true]) {
      const made = trusting()
      const { host, cqs, sqs } = made
      const cq = host.queues.get(cqs[0]!)!
      postAll(host, sqs[0]!, 5, 'trusted')
      expect(unitsOf(host, cqs[0]!)).toEqual([1, 2, 3, 4, 5])
      const old = taggedDoorbell(sqs[0]!, 4, host.epoch)
      if (linkDown) {
        host.setLink(false)
        host.run()
      }
      host.enable()
      host.run()
      expect(host.header(page.HEADER_TRUSTED)).toBe(1)
      beginAgain(made)
      host.bytes.fill(0, cq.ring, cq.ring + cq.depth * UNIT_BYTES)
      host.ring(sqs[0]!)
      host.run()
      // Units 0 to 5 lie there, with the stamps that they need. None of them was posted.
      for (const pointer of [4, 1, 6]) host.ringFifo(old, pointer)
      host.run()
      expect(host.poll(cqs[0]!)).toEqual([])
      inOrder(host, sqs[0]!)
      postAll(host, sqs[0]!, 1, 'trusted')
      expect(unitsOf(host, cqs[0]!)).toEqual([0])
    }
  })

  test('S1-M8: a host that comes without asking is served without trust', () => {
    const made = trusting()
    const { host, cqs, sqs } = made
    host.view.setUint32(4096 + page.HEADER_TRUST, 0, true)
    host.enable()
    host.run()
    expect(host.header(page.HEADER_TRUSTED)).toBe(0)
    beginAgain(made)
    const cq = host.queues.get(cqs[0]!)!
    host.bytes.fill(0, cq.ring, cq.ring + cq.depth * UNIT_BYTES)
    const reads = watch(host)
    postAll(host, sqs[0]!, 1, 'fifo with pointer')
    postAll(host, sqs[0]!, 1, 'fifo with pointer')
    expect(unitsOf(host, cqs[0]!)).toEqual([0, 1])
    expect(reads.pointers.filter((queue) => queue === sqs[0]).length).toBe(2)
  })

  test('S1-M8: doorbells of an earlier queue of that number are behind the new one', () => {
    const { host } = nopHost({ trust: true })
    const cq = host.createCq(16)
    const { send } = host.createQp(cq, { units: 8 })
    postAll(host, send, 1, 'fifo')
    postAll(host, send, 5, 'trusted')
    expect(unitsOf(host, cq)).toEqual([0, 1, 2, 3, 4, 5])
    const { ring } = host.queues.get(send)!
    host.destroy(send)
    // The next of that number has its ring, too, with all that stands there.
    let again = host.createQp(cq, { units: 8, rings: ring })
    for (let tries = 0; again.send !== send; tries++) {
      expect(tries).toBeLessThan(host.count)
      host.destroy(again.send)
      again = host.createQp(cq, { units: 8, rings: ring })
    }
    for (let pointer = 1; pointer <= 6; pointer++) host.ring(send, 'trusted', pointer)
    host.run()
    expect(host.poll(cq)).toEqual([])
    inOrder(host, send)
    postAll(host, send, 1, 'trusted')
    expect(unitsOf(host, cq)).toEqual([6])
  })
})
