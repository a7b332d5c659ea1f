/**
 * Elements of local queues: what the host does to its local card's part without a wire.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { PcieLink } from '../../../boards/emulator/host/pcie.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { LANES, LINE_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import { PLACEMENT_THROUGH } from '../../../firmware/medium/region.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { adviceFor } from '../../../host-driver/base/advice.ts'
import { attachedAgent, believe } from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type RegionShape,
  TestCard,
} from '../../support/cards/test-card.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import { at, localQueue, one, play, readBack, record } from '../../support/queues/local-queue.ts'
import type { CardHost } from '../../support/queues/queue-calls.ts'
import { type ElementFields, elementOf, QueueHost, u64 } from '../../support/queues/queue-host.ts'

const SEED = Number(process.env.SEED ?? 1)

describe('records', () => {
  test('P3-2, P3-3: a record inline, and one by address, are durable and read back', () => {
    const queue = localQueue()
    const region = queue.host.card.provision({ slots: 4, capacity: 8192 })
    for (const [slot, length] of [0, 1, 64, 100, 1024, 1025, 4096, 4097, 8192].entries()) {
      const data = dataOf(length, slot + 1)
      const cqe = one(queue, record(queue, region, slot % 4, slot + 1, data))
      expect(cqe).toMatchObject({
        status: el.WC_SUCCESS,
        opcode: kind.WRITE_PERSIST,
        operation: slot + 1,
        copies: 2,
        mechanism: 1,
        flags: el.DURABLE,
        length,
        address: (slot % 4) * 2 ** 32,
      })
      expect(readBack(queue, region, slot % 4, 0, 8192)).toEqual(
        Uint8Array.of(...data, ...new Uint8Array(8192 - length)),
      )
    }
  })

  test('X-3, D-6: an operation that is durable is acknowledged, and never written again', () => {
    const queue = localQueue()
    const region = queue.host.card.provision()
    const data = dataOf(64, 1)
    expect(one(queue, record(queue, region, 0, 9, data)).status).toBe(el.WC_SUCCESS)
    const forged = one(queue, record(queue, region, 0, 9, dataOf(64, 2)))
    expect(forged).toMatchObject({ status: el.WC_SUCCESS, flags: el.DURABLE, operation: 9 })
    expect(queue.host.card.counter('DUPLICATE_FORGED')).toBe(1)
    expect(readBack(queue, region, 0, 0, 64)).toEqual(data)
    // In one pass, too: the second finds the first in the group.
    const both = play(
      queue,
      record(queue, region, 1, 10, data),
      record(queue, region, 1, 10, dataOf(64, 3)),
    )
    expect(both.map(({ status }) => status)).toEqual([el.WC_SUCCESS, el.WC_SUCCESS])
    expect(readBack(queue, region, 1, 0, 64)).toEqual(data)
  })

  test('the same slot again in one pass: both are durable, the later stays', () => {
    const queue = localQueue()
    const region = queue.host.card.provision()
    const elements = [1, 2, 3].map((n) => record(queue, region, 5, n, dataOf(64, n)))
    expect(play(queue, ...elements).map(({ operation }) => operation)).toEqual([1, 2, 3])
    expect(readBack(queue, region, 5, 0, 64)).toEqual(dataOf(64, 3))
  })

  test('records of several queues share a group: one set of fences', () => {
    const queue = localQueue()
    const { host, cq } = queue
    const region = host.card.provision({ slots: 16 })
    const queues = [0, 1, 2, 3].map(() => ({ ...queue, qp: host.createQp(cq) }))
    const fences = host.card.nvdimm.fences
    for (const [i, other] of queues.entries()) {
      for (let n = 0; n < 4; n++) {
        const fields = record(other, region, i * 4 + n, i * 4 + n + 1, dataOf(64, n))
        host.post(other.qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
      }
      host.ring(other.qp.send)
    }
    host.run()
    expect(host.poll(cq).filter(({ status }) => status === el.WC_SUCCESS).length).toBe(16)
    expect(host.card.nvdimm.fences - fences).toBe(4)
  })

  test('records of the host and of the network share a group', () => {
    const queue = localQueue()
    const { host, qp, cq } = queue
    const region = host.card.provision()
    const far = host.card.connect()
    const fields = record(queue, region, 0, 1, dataOf(64, 1))
    host.post(qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
    host.ring(qp.send)
    const fences = host.card.nvdimm.fences
    const sent = host.card.serve(...persistFrames(far, region, 1, dataOf(64, 2)))
    expect(persistAcks(sent)).toMatchObject([{ all: true, records: 1 }])
    expect(host.poll(cq)).toMatchObject([{ status: el.WC_SUCCESS, flags: el.DURABLE }])
    expect(host.card.nvdimm.fences - fences).toBe(4)
  })

  test('P1-11: where every lane is refused, so is what shares a slot with the group', () => {
    const queue = localQueue()
    const region = queue.host.card.provision()
    for (let lane = 0; lane < LANES; lane++) {
      queue.host.card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + lane)
    }
    const elements = [1, 2].map((n) => record(queue, region, 5, n, dataOf(64, n)))
    const cqes = play(queue, ...elements)
    expect(cqes.map(({ status }) => status)).toEqual([el.WC_GENERAL_ERR, el.WC_GENERAL_ERR])
    expect(readBack(queue, region, 5, 0, 64)).toEqual(new Uint8Array(64))
  })

  test('unsignaled records say nothing, and their room is given back', () => {
    const queue = localQueue()
    const { host, cq, qp } = queue
    const region = host.card.provision()
    for (let n = 1; n <= 600; n++) {
      const fields = record(queue, region, n % 8, n, dataOf(64, n))
      host.post(qp.send, elementOf(fields))
      host.ring(qp.send)
      host.run()
    }
    expect(host.poll(cq)).toEqual([])
    expect(readBack(queue, region, 600 % 8, 0, 64)).toEqual(dataOf(64, 600))
  })

  test('the carried forms, by slot and by the address of every copy (D-8)', () => {
    const queue = localQueue()
    const { host } = queue
    const region = host.card.provision({ copies: 3, capacity: 64 })
    const data = dataOf(64, 1)
    const three = Uint8Array.of(...data, ...data, ...data)
    const to = { opcode: kind.WRITE_PERSIST, rkey: region.rkey, wait: 3, furtherCopies: 2 }
    const slot = { ...to, address: 2 * 2 ** 32, operation: 1, flags: el.CARRIED }
    expect(one(queue, { ...slot, inline: three }).status).toBe(el.WC_SUCCESS)
    expect(readBack(queue, region, 2, 0, 64)).toEqual(data)
    const differs = three.slice()
    differs[130]! ^= 1
    const refused = one(queue, { ...slot, operation: 2, inline: differs })
    expect(refused).toMatchObject({ status: el.WC_GENERAL_ERR, refusal: 0x89, flags: 0 })
    const further = new Uint8Array(32)
    const view = new DataView(further.buffer)
    for (let c = 1; c < 3; c++) {
      view.setUint32((c - 1) * 16, 3)
      view.setUint32((c - 1) * 16 + 4, (2 + c) * 2 ** 28)
      view.setUint32((c - 1) * 16 + 8, region.rkey)
      view.setUint32((c - 1) * 16 + 12, 64)
    }
    const named = {
      ...to,
      address: 3 * 2 ** 32 + 2 * 2 ** 28,
      operation: 3,
      flags: el.CARRIED | el.ADDRESSED,
      length: 192,
      inline: Uint8Array.of(...three, ...further),
    }
    expect(one(queue, named).status).toBe(el.WC_SUCCESS)
    expect(readBack(queue, region, 3, 0, 64)).toEqual(data)
  })

  test('refused by a status: the element ends, the queue lives', () => {
    const queue = localQueue()
    const region = queue.host.card.provision({ slots: 4, capacity: 64 })
    const refusal = (fields: ElementFields): number => {
      const cqe = one(queue, fields)
      expect(cqe).toMatchObject({ status: el.WC_GENERAL_ERR, flags: 0 })
      return cqe.refusal
    }
    expect(refusal(record(queue, region, 4, 1, dataOf(64, 1)))).toBe(0x82)
    expect(refusal(record(queue, region, 0, 2, dataOf(65, 1)))).toBe(0x83)
    expect(refusal(record(queue, region, 0, 3, dataOf(64, 1), 3))).toBe(0x8c)
    expect(queue.host.zone1(queue.qp.send).state).toBe(QUEUE_READY)
    expect(one(queue, record(queue, region, 0, 4, dataOf(64, 1))).status).toBe(el.WC_SUCCESS)
  })
})

describe('the order of completions is that of the elements', () => {
  test('records of several levels, refusals, repetitions and NOPs in one pass', () => {
    const queue = localQueue()
    const region = queue.host.card.provision({ slots: 8, capacity: 64, copies: 3 })
    const put = (slot: number, operation: number, wait: number): ElementFields =>
      record(queue, region, slot, operation, dataOf(64, slot), wait)
    const cqes = play(
      queue,
      put(0, 1, 3),
      put(1, 2, 1),
      { opcode: el.WQE_NOP },
      put(2, 3, 2),
      put(99, 4, 1),
      put(3, 5, 2),
      put(0, 1, 1),
      put(4, 6, 3),
      { opcode: kind.FETCH_ADD, rkey: 1 },
    )
    expect(cqes.map(({ unit }) => unit)).toEqual([0, 2, 4, 5, 7, 9, 11, 13, 15])
    expect(cqes.map(({ status }) => status)).toEqual([0, 0, 0, 0, 21, 0, 0, 0, 10])
    expect(cqes.map(({ copies }) => copies)).toEqual([3, 1, 0, 2, 0, 2, 1, 3, 0])
  })

  test('signaled or not: who is refused is told, each in its turn', () => {
    const one = fc.record({ signaled: fc.boolean(), wait: fc.integer({ min: 1, max: 3 }) })
    const records = fc.array(one, { minLength: 2, maxLength: 5 })
    fc.assert(
      fc.property(records, fc.nat(4), fc.nat(2), (all, drawn, copy) => {
        const bad = drawn % all.length
        const queue = localQueue()
        const { card } = queue.host
        const region = card.provision({ slots: 8, capacity: 64, copies: 3 })
        const area = Math.ceil((8 * region.stride) / 4096) * 4096
        card.nvdimm.refuseWrites((DATA_AT + copy * area + bad * region.stride) / 64)
        all.forEach(({ signaled, wait }, n) => {
          const fields = record(queue, region, n, n + 1, dataOf(64, n), wait)
          queue.host.post(
            queue.qp.send,
            elementOf({ ...fields, flags: signaled ? el.SIGNALED : 0 }),
          )
        })
        queue.host.ring(queue.qp.send)
        queue.host.run()
        const told = all.flatMap(({ signaled, wait }, n) => {
          const isRefused = n === bad && wait > copy
          if (!signaled && !isRefused) return []
          return [[n + 1, isRefused ? el.WC_GENERAL_ERR : el.WC_SUCCESS]]
        })
        const cqes = queue.host.poll(queue.cq)
        expect(cqes.map(({ operation, status }) => [operation, status])).toEqual(told)
        expect(queue.host.poll(queue.cq)).toEqual([])
      }),
      { seed: SEED, numRuns: 60 },
    )
  })

  test('the medium refuses a record, wherever: no completion is lost, doubled or late', () => {
    for (const waits of [
      [1, 1, 1, 1],
      [2, 2, 2, 2],
      [3, 1, 2, 1],
      [1, 3, 1, 2],
    ]) {
      for (let bad = 0; bad < 4; bad++) {
        for (let copy = 0; copy < 3; copy++) {
          const queue = localQueue()
          const { card } = queue.host
          const region = card.provision({ slots: 4, capacity: 64, copies: 3 })
          // As provision lays it out: the areas of the copies one behind the other.
          const area = Math.ceil((4 * region.stride) / 4096) * 4096
          const at = DATA_AT + copy * area + bad * region.stride
          card.nvdimm.refuseWrites(at / 64)
          const cqes = play(
            queue,
            ...waits.map((wait, n) => record(queue, region, n, n + 1, dataOf(64, n), wait)),
          )
          const name = `waits ${waits}, copy ${copy} of record ${bad}`
          expect([name, cqes.map(({ unit }) => unit)]).toEqual([name, [0, 2, 4, 6]])
          for (const [n, cqe] of cqes.entries()) {
            const good = n !== bad || waits[n]! <= copy
            expect([name, n, cqe.status]).toEqual([name, n, good ? 0 : el.WC_GENERAL_ERR])
            expect([name, n, cqe.flags]).toEqual([name, n, good ? el.DURABLE : 0])
          }
        }
      }
    }
  })
})

describe('bytes', () => {
  const shape = { name: 'bytes', kind: KIND_BYTES, length: 65536 }

  test('WRITE and READ, inline, in one range and in several, of any length', () => {
    const queue = localQueue()
    const { host } = queue
    const region = bytesOf(host, shape)
    const base = region.base
    expect(
      one(queue, { opcode: kind.WRITE, rkey: region.rkey, address: base, inline: dataOf(77, 1) })
        .status,
    ).toBe(el.WC_SUCCESS)
    const data = dataOf(5000, 2)
    host.bytes.set(data.subarray(0, 1000), queue.buffer)
    host.bytes.set(data.subarray(1000), queue.buffer + 9001)
    const { lkey, buffer } = queue
    const sges = [
      { address: buffer, length: 1000, lkey },
      { address: buffer + 9001, length: 4000, lkey },
    ]
    const write = { opcode: kind.WRITE, rkey: region.rkey, address: base + 100, sges }
    expect(one(queue, write).status).toBe(el.WC_SUCCESS)
    const pieces = [3, 4096, 901].map((length, i) => ({
      address: buffer + 20000 + i * 10000,
      length,
      lkey,
    }))
    const read = { opcode: kind.READ, rkey: region.rkey, address: base + 100, sges: pieces }
    expect(one(queue, read)).toMatchObject({ status: el.WC_SUCCESS, length: 5000 })
    const back = pieces.flatMap(({ address, length }) => [
      ...host.bytes.subarray(address, address + length),
    ])
    expect(Uint8Array.from(back)).toEqual(data)
    expect(one(queue, { opcode: kind.READ }).status).toBe(el.WC_SUCCESS)
  })

  test('P2-5, D-9: what is stored into a write-persist region is durable at its completion', () => {
    for (const opcode of [kind.WRITE, kind.WRITE_PERSIST]) {
      const queue = localQueue()
      const { card } = queue.host
      const region = bytesOf(queue.host, { ...shape, flags: 2 })
      const to = { opcode, rkey: region.rkey, address: region.base, wait: 1, operation: 5 }
      const cqe = one(queue, { ...to, inline: dataOf(200, 1) })
      expect(cqe).toMatchObject({ status: el.WC_SUCCESS, flags: el.DURABLE, copies: 1 })
      expect(indexOf(card.nvdimm.durable, dataOf(200, 1))).toBeGreaterThan(0)
    }
  })

  test('D-9: a plain WRITE is durable behind a FLUSH, and not before', () => {
    for (const flushes of [false, true]) {
      const queue = localQueue()
      const { card } = queue.host
      const region = bytesOf(queue.host, shape)
      const to = { rkey: region.rkey, address: region.base }
      expect(one(queue, { ...to, opcode: kind.WRITE, inline: dataOf(200, 1) }).flags).toBe(0)
      const flush = { ...to, opcode: kind.FLUSH, length: 200, compare: 2 }
      if (flushes) expect(one(queue, flush).status).toBe(el.WC_SUCCESS)
      expect(indexOf(card.nvdimm.durable, dataOf(200, 1)) > 0).toBe(flushes)
    }
  })

  test('FETCH-ADD, COMPARE-SWAP and ATOMIC WRITE: what they found, and what is then there', () => {
    const queue = localQueue()
    const region = bytesOf(queue.host, shape)
    const to = { rkey: region.rkey, address: region.base + 64 }
    const write = { ...to, opcode: kind.ATOMIC_WRITE, operation: 2 ** 40 + 5 }
    expect(one(queue, write).status).toBe(el.WC_SUCCESS)
    const add = one(queue, { ...to, opcode: kind.FETCH_ADD, operation: 7 })
    expect(add).toMatchObject({ status: el.WC_SUCCESS, operation: 2 ** 40 + 5 })
    const swap = { ...to, opcode: kind.COMPARE_SWAP, operation: 1, compare: 3 }
    expect(one(queue, swap).operation).toBe(2 ** 40 + 12)
    expect(one(queue, { ...swap, compare: 2 ** 40 + 12 }).operation).toBe(2 ** 40 + 12)
    expect(one(queue, { ...to, opcode: kind.FETCH_ADD }).operation).toBe(1)
  })

  test('an atomic that the medium refuses names its opcode, whatever its operands', () => {
    for (const opcode of [kind.FETCH_ADD, kind.COMPARE_SWAP]) {
      const queue = localQueue()
      const region = bytesOf(queue.host, shape)
      queue.host.card.nvdimm.refuseWrites(DATA_AT / 64)
      const operation = 0x77777777
      const cqe = one(queue, { opcode, rkey: region.rkey, address: region.base, operation })
      expect(cqe).toMatchObject({ opcode, status: el.WC_REM_OP_ERR })
    }
  })

  test('the order of a queue is kept: a READ sees what stands in front of it, and no more', () => {
    const queue = localQueue()
    const { host, buffer } = queue
    const region = host.card.provision({ slots: 4, capacity: 64 })
    const read = (to: number): ElementFields => ({
      opcode: kind.READ,
      rkey: region.rkey,
      ...at(queue, 64, to),
    })
    const cqes = play(
      queue,
      record(queue, region, 0, 1, dataOf(64, 1)),
      read(0),
      record(queue, region, 0, 2, dataOf(64, 2)),
      read(64),
    )
    expect(cqes.map(({ unit }) => unit)).toEqual([0, 2, 3, 5])
    expect(host.bytes.slice(buffer, buffer + 64)).toEqual(dataOf(64, 1))
    expect(host.bytes.slice(buffer + 64, buffer + 128)).toEqual(dataOf(64, 2))
  })

  test('a plain WRITE of a whole record is a persist in every copy (P2-5, form B)', () => {
    const queue = localQueue()
    const region = queue.host.card.provision({ slots: 4, capacity: 64 })
    const write = { opcode: kind.WRITE, rkey: region.rkey, address: 3 * 2 ** 32 }
    const cqe = one(queue, { ...write, inline: dataOf(64, 1) })
    expect(cqe).toMatchObject({ status: el.WC_SUCCESS, flags: el.DURABLE, copies: 2 })
    expect(readBack(queue, region, 3, 0, 64)).toEqual(dataOf(64, 1))
  })

  test('PERSIST_QUERY: what is durable of this client, and up to where', () => {
    const queue = localQueue()
    const region = queue.host.card.provision()
    const ask = (operation: number): ElementFields => ({ opcode: kind.PERSIST_QUERY, operation })
    expect(one(queue, ask(1))).toMatchObject({ status: el.WC_SUCCESS, flags: 0, refusal: 2 })
    play(queue, ...[1, 2, 3].map((n) => record(queue, region, n, n, dataOf(64, n))))
    expect(one(queue, ask(2))).toMatchObject({ flags: el.DURABLE | el.UP_TO, operation: 3 })
  })
})

describe('what is refused', () => {
  const ends = (fields: (queue: ReturnType<typeof localQueue>) => ElementFields) => {
    const queue = localQueue()
    const cqe = one(queue, fields(queue))
    expect(queue.host.zone1(queue.qp.send).state).toBe(QUEUE_ERROR)
    return { status: cqe.status, fault: queue.host.zone1(queue.qp.send).fault }
  }
  const bytes = { name: 'bytes', kind: KIND_BYTES, length: 4096 }

  test('what draws a NAK on the wire ends the queue', () => {
    const table: [string, number, (queue: ReturnType<typeof localQueue>) => ElementFields][] = [
      ['KEY', el.WC_REM_ACCESS_ERR, () => ({ opcode: kind.WRITE, rkey: 1, inline: dataOf(8, 1) })],
      [
        'PROTECTION_DOMAIN',
        el.WC_REM_ACCESS_ERR,
        ({ host }) => {
          const { rkey, base } = bytesOf(host, { ...bytes, domain: 5 })
          return { opcode: kind.WRITE, rkey, address: base, inline: dataOf(8, 1) }
        },
      ],
      [
        'RIGHTS',
        el.WC_REM_ACCESS_ERR,
        ({ host }) => {
          const { rkey, base } = bytesOf(host, bytes)
          return { opcode: kind.WRITE_PERSIST, rkey, address: base, wait: 1, inline: dataOf(8, 1) }
        },
      ],
      [
        'BOUNDS',
        el.WC_REM_ACCESS_ERR,
        ({ host }) => {
          const { rkey, base } = bytesOf(host, bytes)
          return { opcode: kind.WRITE, rkey, address: base + 4089, inline: dataOf(8, 1) }
        },
      ],
      [
        'ALIGNMENT',
        el.WC_REM_INV_REQ_ERR,
        ({ host }) => {
          const { rkey, base } = bytesOf(host, bytes)
          return { opcode: kind.FETCH_ADD, rkey, address: base + 4 }
        },
      ],
      [
        'FLUSH_FORM',
        el.WC_REM_INV_REQ_ERR,
        ({ host }) => {
          const { rkey, base } = bytesOf(host, bytes)
          return { opcode: kind.FLUSH, rkey, address: base, compare: 8 }
        },
      ],
      [
        'PERSIST_HEADER',
        el.WC_REM_INV_REQ_ERR,
        (queue) => record(queue, queue.host.card.provision(), 0, 1, dataOf(64, 1), 0),
      ],
      ['ELEMENT_FORM', el.WC_LOC_QP_OP_ERR, () => ({ opcode: kind.SEND, inline: dataOf(8, 1) })],
      [
        'ELEMENT_FORM',
        el.WC_LOC_QP_OP_ERR,
        () => ({ opcode: kind.WRITE_IMM, inline: dataOf(8, 1) }),
      ],
      [
        'MEMORY_KEY',
        el.WC_LOC_PROT_ERR,
        ({ host, buffer }) => {
          const { rkey, base } = bytesOf(host, bytes)
          return { opcode: kind.WRITE, rkey, address: base, local: buffer, lkey: 77, length: 8 }
        },
      ],
    ]
    for (const [fault, status, fields] of table) expect(ends(fields)).toEqual({ status, fault })
  })

  test('H4: a host that does not answer ends its element and its queue, and nothing else', () => {
    const queue = localQueue()
    const { host, cq } = queue
    const region = host.card.provision({ slots: 4, capacity: 4096 })
    const other = { ...queue, qp: host.createQp(cq) }
    const far = record(queue, region, 0, 1, dataOf(2000, 1))
    host.card.ram!.link.script = ({ kind: what, at: from }) =>
      what === 'read' && from === queue.buffer ? 'unsupported' : undefined
    const cqe = one(queue, far)
    expect(cqe).toMatchObject({ status: el.WC_GENERAL_ERR, flags: 0 })
    expect(host.zone1(queue.qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'DMA' })
    const near = one(other, record(other, region, 1, 2, dataOf(100, 2)))
    expect(near).toMatchObject({ status: el.WC_SUCCESS, flags: el.DURABLE })
    host.card.ram!.link.script = null
    expect(readBack(other, region, 1, 0, 100)).toEqual(dataOf(100, 2))
    expect(readBack(other, region, 0, 0, 64)).toEqual(new Uint8Array(64))
  })

  test('what the host that asks would have to write back itself is OWN_HOST', () => {
    const link = new PcieLink()
    const part = new Nvdimm({ bytes: 1 << 20 })
    const memory = new HostMemory({ part, platform: DDIO_ON, link })
    const card = new TestCard(1 << 18, { host: memory, ram: new HostRam(1 << 22, link) }).format()
    believe(card, PLACEMENT_THROUGH)
    const host = new QueueHost(card).init(64)
    attachedAgent(card, new RawAgentQueues(host))
    const queue = localQueue(host as CardHost)
    const region = card.provision({ name: 'records', placement: PLACEMENT_THROUGH })
    const plain = bytesOf(queue.host, { ...bytes, placement: PLACEMENT_THROUGH })
    const to = { rkey: plain.rkey, address: plain.base }
    const stores: ElementFields[] = [
      record(queue, region, 1, 1, dataOf(64, 1)),
      { ...to, opcode: kind.WRITE, inline: dataOf(8, 1) },
      { ...to, opcode: kind.ATOMIC_WRITE, operation: 1 },
      { ...to, opcode: kind.FLUSH, length: 8, compare: 2 },
    ]
    for (const [n, store] of stores.entries()) {
      const refused = { opcode: store.opcode, status: el.WC_GENERAL_ERR, refusal: 0x94 }
      expect(one(queue, store)).toMatchObject(refused)
      expect(card.counter('OWN_HOST')).toBe(n + 1)
      expect(queue.host.zone1(queue.qp.send).state).toBe(QUEUE_READY)
    }
    const near = card.provision({ name: 'near' })
    const both = play(queue, record(queue, near, 0, 50, dataOf(64, 5)), stores[0]!)
    expect(both.map(({ status }) => status)).toEqual([el.WC_SUCCESS, el.WC_GENERAL_ERR])
    expect(card.counter('PLACEMENT_WRONG')).toBe(0)
    const batched = [0, 1].map((index) => ({
      ...record(queue, region, index, 60 + index, dataOf(64, 1)),
      batch: { id: 1, condition: 0, count: 2, index, left: 1 - index },
    }))
    const whole = play(queue, ...batched).map(({ status }) => status)
    expect([whole, card.counter('BATCH_REGION')]).toEqual([
      [el.WC_GENERAL_ERR, el.WC_GENERAL_ERR],
      2,
    ])
    expect(adviceFor('OWN_HOST')).toMatch(/flushes itself.*`peer`/)
  })

  test('H5: a read that should push the writes, and fails, is no flush: nothing is durable', () => {
    for (const fails of [false, true]) {
      const link = new PcieLink()
      const memory = new HostMemory({
        part: new Nvdimm({ bytes: 1 << 20 }),
        platform: DDIO_OFF,
        link,
      })
      const card = new TestCard(1 << 18, { host: memory, ram: new HostRam(1 << 22, link) }).format()
      believe(card, 1)
      const queue = localQueue(new QueueHost(card).init(64) as CardHost)
      const region = card.provision({ slots: 4, capacity: 100, placement: 1 })
      if (fails) {
        link.script = ({ kind: what, memory: which }) =>
          what === 'read' && which === 'persistent' ? 'timeout' : undefined
      }
      const cqe = one(queue, record(queue, region, 1, 1, dataOf(100, 1)))
      if (fails) {
        expect(cqe).toMatchObject({ status: el.WC_GENERAL_ERR, flags: 0 })
        // Nobody knows what is there: the part takes nothing more before it is started again.
        expect(one(queue, record(queue, region, 2, 2, dataOf(100, 2)))).toMatchObject({
          status: el.WC_GENERAL_ERR,
          flags: 0,
        })
      } else {
        expect(cqe).toMatchObject({ status: 0, flags: el.DURABLE, mechanism: 2, copies: 2 })
      }
    }
  })

  test('H2: an element that is changed after it was fetched has no effect', () => {
    const queue = localQueue()
    const { host, qp } = queue
    const region = host.card.provision({ slots: 4, capacity: 64 })
    const element = elementOf({
      ...record(queue, region, 1, 1, dataOf(64, 1)),
      flags: el.SIGNALED,
    })
    const unit = host.post(qp.send, element)
    host.ring(qp.send)
    const ring = host.unitAt(qp.send, unit)
    let fetched = false
    host.card.ram!.link.script = ({ kind: what, at: from }) => {
      // What is read next is read behind the element.
      if (fetched) host.bytes.fill(0xee, ring, ring + 128)
      if (what === 'read' && from === ring) fetched = true
      return undefined
    }
    host.run()
    host.card.ram!.link.script = null
    expect(fetched).toBe(true)
    expect(host.poll(queue.cq).map(({ status }) => status)).toEqual([el.WC_SUCCESS])
    expect(readBack(queue, region, 1, 0, 64)).toEqual(dataOf(64, 1))
  })

  test('a part without save energy refuses the record, and not the queue (D-13)', () => {
    const queue = localQueue()
    const region = queue.host.card.provision()
    queue.host.card.nvdimm.armed = false
    const refused = one(queue, record(queue, region, 0, 1, dataOf(64, 1)))
    expect(refused).toMatchObject({ status: el.WC_GENERAL_ERR, refusal: 0x85 })
    queue.host.card.nvdimm.armed = true
    expect(one(queue, record(queue, region, 0, 2, dataOf(64, 1))).status).toBe(el.WC_SUCCESS)
  })
})

/** A region of bytes, and the address of its first one. */
function bytesOf(host: CardHost, shape: RegionShape): { rkey: number; base: number } {
  const { fault, body } = host.card.tryProvision(shape)
  expect(fault).toBe('PASS')
  return { rkey: u32(body, REGION_RKEY), base: u64(body, REGION_BASE_HIGH) }
}

/** Where `part` lies in `whole`, or -1. */
function indexOf(whole: Uint8Array, part: Uint8Array): number {
  return Buffer.from(whole.buffer, whole.byteOffset, whole.length).indexOf(part)
}
