/**
 * Doorbells and pointers of the host's queues, the card's side (source 3; P3-5, P3-12 to P3-16,
 * P3-25, P3-28; faults H1, H3).
 */

import { describe, expect, test } from 'vitest'
import * as hal from '../../../firmware/board/hal.ts'
import { DOORBELLS, QUEUE_DEPTH_MAX, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { WC_LOC_QP_OP_ERR, WC_SUCCESS, WQE_NOP, WQE_STAMP } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { faultsOf, nop, nopHost } from '../../support/queues/nop-queues.ts'
import type { Cqe, QueueHost } from '../../support/queues/queue-host.ts'

const units = (cqes: readonly Cqe[]): number[] => cqes.map((cqe) => cqe.unit)

/** Posts, rings by the FIFO form, and lets the card work. */
function postNops(host: QueueHost, queue: number, count: number): void {
  for (let i = 0; i < count; i++) host.post(queue, nop())
  host.ring(queue)
  host.run()
}

describe('a doorbell', () => {
  test('P3-12: the pointer is stored, the queue is rung, and the element is executed', () => {
    const { host, cqs, sqs } = nopHost()
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    expect(host.poll(cqs[0]!)).toMatchObject([
      { queue: sqs[0], unit: 0, status: WC_SUCCESS, opcode: WQE_NOP, pointer: 1 },
    ])
    expect(host.zone1(sqs[0]!)).toMatchObject({ pointer: 1, state: info.QUEUE_READY })
  })

  test('P3-12: rung before the pointer is stored, nothing happens until it is rung again', () => {
    const { host, cqs, sqs } = nopHost()
    host.store(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    expect(host.poll(cqs[0]!)).toEqual([])
    host.setPointer(sqs[0]!)
    host.run()
    expect(host.poll(cqs[0]!)).toEqual([])
    host.ring(sqs[0]!)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0])
  })

  test.each([
    ['register', 1],
    ['fifo', 1],
    ['fifo with pointer', 1],
    ['message', 1],
    ['trusted', 0],
  ] as const)('P3-13: by %s: it names the queue; it has memory read %i times', (form, reads) => {
    const { host, cqs, sqs } = nopHost({ sendQueues: 2, trust: true, pointer: 40 })
    for (const queue of sqs) postNops(host, queue, 1)
    host.poll(cqs[0]!)
    const pointers: number[] = []
    host.ram.link.script = ({ kind, at, length }) => {
      const queue = (at - host.zone3At) / info.ZONE3_BYTES
      if (kind === 'read' && length === info.ZONE3_BYTES) pointers.push(queue)
      return undefined
    }
    for (let i = 0; i < 5; i++) {
      const { doorbells } = host.counters()
      for (const queue of sqs) host.post(queue, nop())
      host.ring(sqs[0]!, form)
      host.run()
      // The other was not named: nothing of it is taken, though its pointer is stored.
      expect(host.poll(cqs[0]!)).toMatchObject([{ queue: sqs[0], unit: 41 + i }])
      expect(host.zone1(sqs[1]!).pointer).toBe(41)
      if (form !== 'message') expect(host.counters().doorbells - doorbells).toBe(1)
    }
    expect(pointers.filter((queue) => queue === sqs[0]).length).toBe(5 * reads)
    // What it carries is compared with memory: one in front of it is counted, but for the form
    // that carries none.
    const before = faultsOf(host, 'DOORBELL')
    host.ring(sqs[0]!, form, 1000)
    host.run()
    expect(faultsOf(host, 'DOORBELL') - before).toBe(form === 'fifo' ? 0 : 1)
    expect(host.poll(cqs[0]!)).toEqual([])
  })

  test('P3-13: the register is recorded, told, and may then be deleted', () => {
    const { host, cqs, sqs } = nopHost({ sendQueues: 2 })
    const low = (7 << 16) | sqs[0]!
    host.post(sqs[0]!, nop())
    host.ringRegister(low, 1)
    host.run()
    expect(host.header(page.HEADER_RECORDED)).toBe(low)
    const before = host.counters().doorbells
    // It stands there still: nothing changes, so nothing is rung.
    host.run()
    host.ringRegister(0, 0)
    host.run()
    expect(host.counters().doorbells).toBe(before)
    expect(host.header(page.HEADER_RECORDED)).toBe(low)
    // The same word as before rings again after it was deleted.
    host.post(sqs[0]!, nop())
    host.ringRegister(low, 2)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0, 1])
  })

  test('P3-13: a doorbell of the ring is deleted by being read', () => {
    const { host, cqs, sqs } = nopHost()
    for (let lap = 0; lap < 3; lap++) {
      for (let i = 0; i < DOORBELLS; i++) expect(host.ringFifo(sqs[0]!, 0)).toBe(true)
      expect(host.ringFifo(sqs[0]!, 0)).toBe(false)
      host.run()
      const consumed = host.port.getUint32(hal.PORT_CONSUMED, true)
      expect(consumed).toBe(host.port.getUint32(hal.PORT_PRODUCED, true))
    }
    expect(host.poll(cqs[0]!)).toEqual([])
  })

  test('P3-14, P3-15: every ring reads the pointer again, by one read of zone 3', () => {
    const { host, sqs } = nopHost()
    postNops(host, sqs[0]!, 1)
    const reads: [number, number][] = []
    host.ram.link.script = ({ kind, at, length }) => {
      if (kind === 'read') reads.push([at, length])
      return undefined
    }
    const before = host.counters()
    host.ring(sqs[0]!)
    host.run()
    expect(reads).toEqual([[host.zone3At + sqs[0]! * info.ZONE3_BYTES, info.ZONE3_BYTES]])
    postNops(host, sqs[0]!, 1)
    expect(reads.length).toBe(3)
    expect(reads[2]).toEqual([host.unitAt(sqs[0]!, 1), UNIT_BYTES])
    const after = host.counters()
    expect(after.pointerReads - before.pointerReads).toBe(2)
    expect(after.elementReads - before.elementReads).toBe(1)
  })

  test('P3-4, P3-16, D-11: many elements by one ring, in order; zone 1 says how far', () => {
    const { host, cqs, sqs } = nopHost({ depth: 64, entries: 64 })
    postNops(host, sqs[0]!, 64)
    expect(units(host.poll(cqs[0]!))).toEqual(Array.from({ length: 64 }, (_, i) => i))
    const zone1 = host.zone1(sqs[0]!)
    expect(zone1.pointer).toBe(64)
    expect(zone1.address).toBe(host.unitAt(sqs[0]!, 64))
  })
})

describe('pointers', () => {
  test('P3-5: of an element of several units the first is next, and its last is the newest', () => {
    const { host, cqs, sqs } = nopHost()
    host.post(sqs[0]!, nop(3))
    host.post(sqs[0]!, nop(1))
    host.post(sqs[0]!, nop(5))
    host.ring(sqs[0]!)
    host.run()
    const cqes = host.poll(cqs[0]!)
    expect(units(cqes)).toEqual([0, 3, 4])
    expect(cqes.map((cqe) => cqe.pointer)).toEqual([3, 4, 9])
    expect(host.zone1(sqs[0]!).pointer).toBe(9)
  })

  test('P3-25: an empty ring, a full one, and every way for an element to wrap', () => {
    for (let many = 1; many <= 8; many++) {
      for (let from = 0; from < 16; from++) {
        const pointer = 2 ** 32 - 16 + from
        const { host, cqs, sqs } = nopHost({ depth: 16, pointer })
        host.ring(sqs[0]!)
        host.run()
        expect(host.poll(cqs[0]!)).toEqual([])
        let used = 0
        for (; used + many <= 16; used += many) host.post(sqs[0]!, nop(many))
        host.ring(sqs[0]!)
        host.run()
        const cqes = host.poll(cqs[0]!)
        expect(cqes.length).toBe(Math.floor(16 / many))
        cqes.forEach((cqe, i) => {
          expect(cqe.unit).toBe((pointer + i * many) >>> 0)
        })
        expect(host.zone1(sqs[0]!).pointer).toBe((pointer + used) >>> 0)
        expect(host.events()).toEqual([])
      }
    }
  })

  test('an element is fetched whole also where it crosses what one turn fetches', () => {
    const { host, cqs, sqs } = nopHost({ depth: 64 })
    for (let i = 0; i < 3; i++) host.post(sqs[0]!, nop(17))
    host.ring(sqs[0]!)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0, 17, 34])
    expect(host.counters()).toMatchObject({ elements: 3, elementsRefused: 0 })
  })
})

describe('H1: doorbells that nobody should believe', () => {
  const queues = { sendQueues: 2, completionQueues: 2 }

  test('repeated, and of queues with nothing to do', () => {
    const { host, cqs, sqs } = nopHost(queues)
    host.post(sqs[0]!, nop())
    for (let i = 0; i < 100; i++) {
      host.ring(sqs[0]!)
      host.ring(sqs[1]!)
    }
    host.run()
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0])
    expect(host.poll(cqs[1]!)).toEqual([])
    expect(faultsOf(host, 'DOORBELL')).toBe(0)
  })

  test('of a queue that is not there, and of a number beyond all queues', () => {
    const { host, cqs, sqs } = nopHost(queues)
    for (const low of [9, 15, 16, 17, 255, 65535, 1 << 17, 0x7fffffff, 0xffffffff]) {
      const before = faultsOf(host, 'DOORBELL')
      host.ringFifo(low >>> 0, 0)
      host.run()
      expect([low, faultsOf(host, 'DOORBELL')]).toEqual([low, before + 1])
    }
    // Of those that have a number, the host is told (P3-28).
    expect(host.events()).toEqual(
      [9, 15].map((queue) => ({ type: page.EVENT_QUEUE_ERROR, queue, fault: 'DOORBELL' })),
    )
    postNops(host, sqs[0]!, 1)
    expect(units(host.poll(cqs[0]!))).toEqual([0])
    expect(host.counters().doorbellsRefused).toBe(9)
  })

  test('with a pointer in front of memory: memory is believed, and it is counted', () => {
    for (const form of ['register', 'fifo with pointer'] as const) {
      const { host, cqs, sqs } = nopHost()
      host.post(sqs[0]!, nop())
      for (const ahead of [2, 3, 17, 1000, 2 ** 31]) {
        host.ring(sqs[0]!, form, ahead)
        host.run()
      }
      expect(units(host.poll(cqs[0]!))).toEqual([0])
      expect(faultsOf(host, 'DOORBELL')).toBe(5)
      expect(host.zone1(sqs[0]!).state).toBe(info.QUEUE_READY)
    }
  })

  test('without a pointer: what stands in its other word is none', () => {
    const { host, cqs, sqs } = nopHost()
    for (const [i, other] of [1000, 2, 2 ** 31 - 1, 1].entries()) {
      host.post(sqs[0]!, nop())
      host.ringFifo(sqs[0]!, other)
      host.run()
      expect(units(host.poll(cqs[0]!))).toEqual([i])
    }
    expect(faultsOf(host, 'DOORBELL')).toBe(0)
    expect(host.counters().doorbellsRefused).toBe(0)
  })

  test('with an old pointer: memory is believed', () => {
    const { host, cqs, sqs } = nopHost()
    for (let i = 0; i < 4; i++) host.post(sqs[0]!, nop())
    host.ring(sqs[0]!, 'fifo with pointer', 1)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0, 1, 2, 3])
    expect(faultsOf(host, 'DOORBELL')).toBe(0)
  })

  test('torn: the first word of one doorbell with the second of another', () => {
    const { host, cqs, sqs } = nopHost(queues)
    postNops(host, sqs[0]!, 3)
    host.post(sqs[1]!, nop())
    host.ringRegister((9 << 16) | sqs[1]!, 3)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0, 1, 2])
    expect(units(host.poll(cqs[1]!))).toEqual([0])
    expect(faultsOf(host, 'DOORBELL')).toBe(1)
  })

  test('lost: the next one finds what was stored for both', () => {
    const { host, cqs, sqs } = nopHost()
    host.post(sqs[0]!, nop())
    host.run()
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    expect(units(host.poll(cqs[0]!))).toEqual([0, 1])
  })

  test('dropped by the port: every queue is looked at, whatever their number', () => {
    const count = 1200
    const { host, cqs } = nopHost({ count, bytes: 1 << 22, entries: 1024 })
    const sqs = Array.from({ length: 300 }, (_, i) => 4 + i * 3 + (i % 3))
    for (const queue of sqs) {
      host.forceQueue(queue, { kind: info.KIND_SEND, depth: 4, completions: cqs[0]! })
      host.post(queue, nop())
    }
    for (let i = 0; i < DOORBELLS; i++) host.ringFifo(sqs[0]!, 0)
    host.ring(sqs[1]!)
    const calls = host.card.machine.statistics.runs
    host.run()
    const done = host.poll(cqs[0]!).map((cqe) => cqe.queue)
    expect(done.sort((a, b) => a - b)).toEqual(sqs)
    expect(host.counters().sweeps).toBe(1)
    expect(host.card.machine.statistics.runs - calls).toBeLessThan(300)
  })

  test('dropped by the port: of a queue without anything new no context is read', () => {
    const { host, cqs } = nopHost({ count: 256, bytes: 1 << 20, entries: 64 })
    const sqs = Array.from({ length: 200 }, (_, i) => 8 + i)
    for (const queue of sqs) {
      host.forceQueue(queue, { kind: info.KIND_SEND, depth: 4, completions: cqs[0]! })
    }
    const fresh = sqs.filter((_, i) => i % 50 === 7)
    for (const queue of fresh) host.post(queue, nop())
    const before = host.counters().misses
    for (let i = 0; i <= DOORBELLS; i++) host.ringFifo(fresh[0]!, 0)
    host.run()
    expect(host.poll(cqs[0]!).map((cqe) => cqe.queue)).toEqual(fresh)
    expect(host.counters().sweeps).toBe(1)
    // Theirs, that of the queue in which they complete, and that of the one that has buffers.
    expect(host.counters().misses - before).toBe(fresh.length + 2)
  })
})

describe('H3: pointers that cannot be (P3-28)', () => {
  const errors = (host: QueueHost, queue: number, fault: string): void => {
    expect(host.events()).toEqual([{ type: page.EVENT_QUEUE_ERROR, queue, fault }])
    expect(host.zone1(queue)).toMatchObject({ state: info.QUEUE_ERROR, fault })
  }

  test('P3-28: further ahead than the queue is deep: every distance around every limit', () => {
    for (const depth of [1, 2, 16, 64]) {
      for (const pointer of [0, 5, 2 ** 31 - 1, 2 ** 32 - 3]) {
        for (const ahead of [depth + 1, 2 * depth + 1, 2 ** 16, 2 ** 31, 2 ** 32 - 1]) {
          const { host, cqs, sqs } = nopHost({ depth, pointer })
          host.setPointer(sqs[0]!, (pointer + ahead) >>> 0)
          host.ring(sqs[0]!)
          host.run()
          errors(host, sqs[0]!, 'QUEUE_POINTER')
          expect(host.poll(cqs[0]!)).toEqual([])
        }
      }
    }
  })

  test('backwards, while its context is cached', () => {
    const { host, cqs, sqs } = nopHost({ sendQueues: 2 })
    postNops(host, sqs[0]!, 5)
    host.setPointer(sqs[0]!, 4)
    host.ring(sqs[0]!)
    host.run()
    errors(host, sqs[0]!, 'QUEUE_POINTER')
    host.poll(cqs[0]!)
    // No other queue knows of it.
    postNops(host, sqs[1]!, 1)
    expect(units(host.poll(cqs[0]!))).toEqual([0])
  })

  test('a queue in the error state is not processed, and says so once', () => {
    const { host, cqs, sqs } = nopHost()
    host.setPointer(sqs[0]!, 100)
    host.ring(sqs[0]!)
    host.run()
    errors(host, sqs[0]!, 'QUEUE_POINTER')
    const { doorbellsRefused, queueErrors } = host.counters()
    for (let i = 0; i < 10; i++) postNops(host, sqs[0]!, 1)
    expect(host.poll(cqs[0]!)).toEqual([])
    expect(host.events()).toEqual([])
    expect(host.counters()).toMatchObject({
      doorbellsRefused: doorbellsRefused + 10,
      queueErrors,
    })
  })

  test('queue information that contradicts itself', () => {
    const wrong: [string, (host: QueueHost, zone1: number, zone2: number) => void][] = [
      ['kind 0', (host, zone1) => host.bytes.fill(0, zone1 + info.Z1_KIND, zone1 + 2)],
      ['kind 4', (host, zone1) => host.bytes.fill(4, zone1 + info.Z1_KIND, zone1 + 2)],
      ['state', (host, zone1) => host.bytes.fill(7, zone1, zone1 + 1)],
      ['type', (host, zone1) => host.bytes.fill(4, zone1 + info.Z1_TYPE, zone1 + 4)],
      ['depth 0', (host, _, zone2) => host.view.setUint32(zone2 + info.Z2_DEPTH, 0, true)],
      ['depth 3', (host, _, zone2) => host.view.setUint32(zone2 + info.Z2_DEPTH, 3, true)],
      [
        'depth beyond the limit',
        (host, _, zone2) => host.view.setUint32(zone2 + info.Z2_DEPTH, 2 * QUEUE_DEPTH_MAX, true),
      ],
      [
        'negative depth',
        (host, _, zone2) => host.view.setUint32(zone2 + info.Z2_DEPTH, 2 ** 31, true),
      ],
      ['ring not on a unit', (host, _, zone2) => host.put64(zone2, 4096 + 32)],
      ['ring beyond memory', (host, _, zone2) => host.put64(zone2, host.bytes.length)],
      ['ring at the end', (host, _, zone2) => host.put64(zone2, host.bytes.length - 15 * 64)],
      [
        'ring at the end of all numbers',
        (host, _, zone2) => host.bytes.fill(255, zone2 + 1, zone2 + 8),
      ],
      ['ring in zone 1', (host, _, zone2) => host.put64(zone2, host.zone1At)],
      ['ring in zone 3', (host, _, zone2) => host.put64(zone2, host.zone3At)],
      ['ring in the header page', (host, _, zone2) => host.put64(zone2, 4096)],
      ['ring in the events', (host, _, zone2) => host.put64(zone2, host.eventsAt + 1024)],
      [
        'completion queue beyond all',
        (host, zone1) => host.view.setUint32(zone1 + info.Z1_COMPLETIONS, 16, true),
      ],
      [
        'a completion queue that is none',
        (host, zone1) => host.view.setUint32(zone1 + info.Z1_COMPLETIONS, 5, true),
      ],
      [
        'a completion queue that is not there',
        (host, zone1) => host.view.setUint32(zone1 + info.Z1_COMPLETIONS, 15, true),
      ],
    ]
    for (const [name, spoil] of wrong) {
      const { host, cqs, sqs } = nopHost({ sendQueues: 2 })
      const queue = sqs[0]!
      spoil(host, host.zone1At + queue * info.ZONE1_BYTES, host.zone2At + queue * info.ZONE2_BYTES)
      host.post(queue, nop())
      postNops(host, sqs[1]!, 1)
      host.ring(queue)
      host.run()
      expect([name, host.events()]).toEqual([
        name,
        [{ type: page.EVENT_QUEUE_ERROR, queue, fault: 'QUEUE_CONTEXT' }],
      ])
      expect(host.poll(cqs[0]!).map((cqe) => cqe.queue)).toEqual([sqs[1]])
    }
  })

  test('a queue that is made, paused or reset waits, and is rung again when it is ready', () => {
    for (const state of [info.QUEUE_RESET, info.QUEUE_INIT, info.QUEUE_PAUSED]) {
      const { host, cqs } = nopHost()
      const queue = 9
      host.forceQueue(queue, { kind: info.KIND_SEND, depth: 4, completions: cqs[0]!, state })
      postNops(host, queue, 2)
      expect(host.poll(cqs[0]!)).toEqual([])
      expect(host.events()).toEqual([])
      expect(host.zone1(queue).state).toBe(state)
    }
  })
})

describe('X-4: an element that is not whole', () => {
  const spoilt: [string, (host: QueueHost, at: number) => void][] = [
    ['the first stamp is old', (host, at) => host.view.setUint32(at + WQE_STAMP, 0, true)],
    ['the second stamp is old', (host, at) => host.view.setUint32(at + 60, 0, true)],
    ['it says that it has no units', (host, at) => host.bytes.fill(0, at + 5, at + 6)],
    ['it reaches beyond the pointer', (host, at) => host.bytes.fill(3, at + 5, at + 6)],
    ['it is longer than any', (host, at) => host.bytes.fill(200, at + 5, at + 6)],
  ]

  test.each(spoilt)('%s: what stood before it is done, and the queue ends', (_, spoil) => {
    const { host, cqs, sqs } = nopHost()
    const queue = sqs[0]!
    host.post(queue, nop())
    host.post(queue, nop(2))
    spoil(host, host.unitAt(queue, 1))
    host.ring(queue)
    host.run()
    expect(host.poll(cqs[0]!)).toMatchObject([
      { unit: 0, status: WC_SUCCESS, pointer: 1 },
      { unit: 1, status: WC_LOC_QP_OP_ERR, pointer: 1 },
    ])
    expect(host.zone1(queue)).toMatchObject({
      pointer: 1,
      state: info.QUEUE_ERROR,
      fault: 'ELEMENT_FORM',
    })
    expect(host.events()).toEqual([{ type: page.EVENT_QUEUE_ERROR, queue, fault: 'ELEMENT_FORM' }])
    expect(host.counters()).toMatchObject({ elements: 1, elementsRefused: 1, queueErrors: 1 })
  })
})
