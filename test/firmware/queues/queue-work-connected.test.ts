/**
 * Elements of connected queues: requests of a host over the wire, to another card or host.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { INITIATORS } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR } from '../../../firmware/host/queue-info.ts'
import { SLOT_HEADER_BYTES } from '../../../firmware/medium/slot.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_FIRST, WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import { blankPweth, readPweth } from '../../../firmware/wire/persist.ts'
import { blankReth, readReth } from '../../../firmware/wire/reth.ts'
import {
  dataOf,
  type RegionShape,
  type Sent,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { type End, incarnationOf, TwoCards, toCard } from '../../support/cards/two-cards.ts'
import { type ElementFields, u64 } from '../../support/queues/queue-host.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 1)

interface Bytes {
  readonly rkey: number
  readonly base: number
}

function bytesOf(rig: TwoCards, shape: RegionShape = {}): Bytes {
  const { fault, body } = rig.hosts[1].card.tryProvision({
    name: 'bytes',
    kind: KIND_BYTES,
    length: 131072,
    ...shape,
  })
  expect(fault).toBe('PASS')
  return { rkey: u32(body, REGION_RKEY), base: u64(body, REGION_BASE_HIGH) }
}

function record(
  region: TestRegion,
  slot: number,
  operation: number,
  rest: Partial<ElementFields>,
): ElementFields {
  const to = { rkey: region.rkey, address: slot * 2 ** 32 }
  return { opcode: kind.WRITE_PERSIST, ...to, operation, wait: 2, ...rest }
}

function recordsOf(rig: TwoCards, shape: RegionShape = {}): TestRegion {
  return rig.hosts[1].card.provision({ slots: 4, capacity: 8192, ...shape })
}

const READ = { opcode: kind.READ }

function readBack(end: End, region: TestRegion, slot: number, length: number): Uint8Array {
  const fields = { ...READ, rkey: region.rkey, address: slot * 2 ** 32, ...end.at(length, 1 << 18) }
  expect(end.one(fields)).toMatchObject({ status: el.WC_SUCCESS, length })
  return end.bytes(length, 1 << 18)
}

/** Packets of requests that the card of host 0 has sent since the rig was made. */
function writesOf(rig: TwoCards): Sent[] {
  const { sent } = rig
  return sent.filter(({ from, frame }) => from === 0 && isWrite(frame)).map(({ frame }) => frame)
}

function isWrite({ opcode }: Sent): boolean {
  return opcode >= WRITE_PERSIST_FIRST && opcode <= WRITE_PERSIST_ONLY
}

/** What a card reads of its host's memory from now on: address and length, in order. */
function readsOf({ card }: End['host']): [number, number][] {
  const reads: [number, number][] = []
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const from = words[at + hal.FROM]!
      if (op === hal.COPY && from >= hal.DMA_SPACE) {
        reads.push([from - hal.DMA_SPACE, words[at + hal.LENGTH]!])
      }
    },
  })
  return reads
}

describe('a write that persists (source 2)', () => {
  test('P2-3: is one element of the client, and nothing of the host at the target', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    const [, target] = rig.hosts
    const [before, data] = [target.bytes.slice(), dataOf(300, 5)]
    const { pointer } = end.host.zone1(end.qp.send)
    const cqes = end.play(record(region, 2, 9, end.put(data)))
    expect(cqes).toMatchObject([{ unit: pointer, operation: 9, flags: el.DURABLE, copies: 2 }])
    expect(end.host.zone1(end.qp.send).pointer).toBe(pointer + 1)
    const packets = writesOf(rig)
    expect(packets).toHaveLength(1)
    const { bytes, packet, payload } = packets[0]!
    const reth = blankReth()
    readReth(reth, bytes, packet.bthAt + packet.row!.rethAt)
    const pweth = blankPweth()
    readPweth(pweth, bytes, packet.bthAt + packet.row!.pwethAt)
    expect(reth).toEqual({ vaHigh: 2, vaLow: 0, rkey: region.rkey, length: 300 })
    expect(pweth).toMatchObject({ operationLow: 9, wait: 2, wantsAck: true })
    expect(payload).toEqual(data)
    expect(Buffer.compare(target.bytes, before)).toBe(0)
    for (const copy of [0, 1]) {
      const at = slotOffset(region, copy, 2) + SLOT_HEADER_BYTES
      expect(target.card.nvdimm.durable.slice(at, at + 300)).toEqual(data)
    }
  })

  test('P2-6: the card reads the element, then the data it names, and sends these', () => {
    const rig = new TwoCards()
    const psn = 0x222222
    const end = toCard(rig, 1024, psn)
    const region = recordsOf(rig)
    const [first, later] = [dataOf(300, 5), dataOf(300, 6)]
    const [unit] = end.post(record(region, 2, 9, end.put(first, 4096)))
    expect(writesOf(rig)).toEqual([])
    // Nothing has been read yet: what lies there when it is the element's turn is what is sent.
    end.put(later, 4096)
    const reads = readsOf(end.host)
    rig.run()
    const element = reads.findIndex(([at]) => at === end.host.unitAt(end.qp.send, unit!))
    const data = reads.findIndex(([at, n]) => at === end.buffer + 4096 && n === 300)
    expect(element).toBeGreaterThanOrEqual(0)
    expect(data).toBeGreaterThan(element)
    const [sent, ...more] = writesOf(rig)
    expect(more).toEqual([])
    expect(sent!.payload).toEqual(later)
    const [cqe] = end.host.poll(end.cq)
    expect(cqe).toMatchObject({ unit, psn: sent!.psn, flags: el.DURABLE })
    expect(readBack(end, region, 2, 300)).toEqual(later)
  })
})

describe('every kind of request', () => {
  test('P2-16: a record, inline and by address: one completion, when it is durable', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    const incarnation = incarnationOf(rig.hosts[1])
    for (const [i, length] of [0, 1, 64, 1024, 1025, 4096, 4097, 8192].entries()) {
      const data = dataOf(length, i + 1)
      const how = length <= 1024 ? { inline: data } : end.put(data)
      const cqe = end.one(record(region, i % 4, i + 1, how))
      expect(cqe).toMatchObject({
        status: el.WC_SUCCESS,
        flags: el.DURABLE,
        copies: 2,
        mechanism: 1,
        operation: i + 1,
        address: (i % 4) * 2 ** 32,
        length,
        incarnation,
      })
      expect(readBack(end, region, i % 4, 8192).subarray(0, length)).toEqual(data)
    }
  })

  test('the carried forms, by slot and by address', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig, { capacity: 64, copies: 3 })
    const data = dataOf(64, 1)
    const three = Uint8Array.of(...data, ...data, ...data)
    const carried = { furtherCopies: 2, wait: 3, flags: el.CARRIED, inline: three }
    expect(end.one(record(region, 1, 1, carried))).toMatchObject({
      status: el.WC_SUCCESS,
      copies: 3,
    })
    expect(readBack(end, region, 1, 64)).toEqual(data)
    const further = new DataView(new ArrayBuffer(32))
    for (let c = 1; c < 3; c++) {
      further.setUint32((c - 1) * 16, 2)
      further.setUint32((c - 1) * 16 + 4, (2 + c) * 2 ** 28)
      further.setUint32((c - 1) * 16 + 8, region.rkey)
      further.setUint32((c - 1) * 16 + 12, 64)
    }
    const named = record(region, 2, 2, {
      ...carried,
      flags: el.CARRIED | el.ADDRESSED,
      address: 2 * 2 ** 32 + 2 * 2 ** 28,
      length: 192,
      inline: Uint8Array.of(...three, ...new Uint8Array(further.buffer)),
    })
    expect(end.one(named)).toMatchObject({ status: el.WC_SUCCESS, copies: 3 })
    expect(readBack(end, region, 2, 64)).toEqual(data)
  })

  test('WRITE and READ of any length, in one range and in several', () => {
    const rig = new TwoCards()
    const end = toCard(rig, 512)
    const { rkey, base } = bytesOf(rig)
    const data = dataOf(100_000, 3)
    const write = { opcode: kind.WRITE, rkey, address: base + 5, ...end.put(data) }
    expect(end.one(write)).toMatchObject({ status: el.WC_SUCCESS, length: 100_000 })
    const { lkey, buffer } = end
    const at = 1 << 18
    const sges = [1, 511, 512, 513, 60_000, 38_463].map((length, i, all) => ({
      address: buffer + at + i + all.slice(0, i).reduce((sum, one) => sum + one, 0),
      length,
      lkey,
    }))
    expect(end.one({ ...READ, rkey, address: base + 5, sges }).status).toBe(el.WC_SUCCESS)
    const back = sges.flatMap(({ address, length }) => [
      ...end.host.bytes.subarray(address, address + length),
    ])
    expect(Uint8Array.from(back)).toEqual(data)
    expect(end.one({ ...READ, ...end.at(0) }).status).toBe(el.WC_SUCCESS)
  })

  test('R1-S2: what a packet has behind its bytes is zero, whatever lay there before', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    const region = recordsOf(rig)
    end.put(new Uint8Array(64).fill(0xff))
    let operation = 0
    const work = (length: number): readonly ElementFields[] => [
      { opcode: kind.WRITE, rkey, address: base, ...end.at(length) },
      { opcode: kind.READ, rkey, address: base, ...end.at(length) },
      record(region, 2, ++operation, end.at(length)),
    ]
    let padded = 0
    for (let length = 1; length <= 8; length++) {
      work(length).forEach((fields, i) => {
        // A frame lies where the one of the burst before lay.
        expect(end.one(work(64)[i]!).status).toBe(el.WC_SUCCESS)
        const before = rig.sent.length
        expect(end.one(fields).status).toBe(el.WC_SUCCESS)
        for (const { frame } of rig.sent.slice(before)) {
          const { payloadAt, payloadLength, padBytes } = frame.packet
          const pad = frame.bytes.slice(payloadAt + payloadLength).subarray(0, padBytes)
          expect([...pad]).toEqual(Array(padBytes).fill(0))
          padded += padBytes > 0 ? 1 : 0
        }
      })
    }
    // Six of the lengths are no whole words; a READ has its pad in the answer.
    expect(padded).toBe(6 * 3)
  })

  test('atomics, ATOMIC WRITE, FLUSH and queries', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    const to = { rkey, address: base + 8 }
    expect(end.one({ ...to, opcode: kind.ATOMIC_WRITE, operation: 2 ** 33 }).status).toBe(0)
    expect(end.one({ ...to, opcode: kind.FETCH_ADD, operation: 5 }).operation).toBe(2 ** 33)
    const swap = { ...to, opcode: kind.COMPARE_SWAP, operation: 9, compare: 2 ** 33 + 5 }
    expect(end.one(swap).operation).toBe(2 ** 33 + 5)
    expect(end.one(swap).operation).toBe(9)
    const flush = { ...to, opcode: kind.FLUSH, length: 8, compare: 2 }
    expect(end.one(flush).status).toBe(el.WC_SUCCESS)
    const region = recordsOf(rig)
    const ask = { opcode: kind.PERSIST_QUERY, operation: 4 }
    expect(end.one(ask)).toMatchObject({ status: 0, flags: 0, refusal: 2, operation: 4 })
    for (let n = 1; n <= 4; n++) end.one(record(region, 0, n, { inline: dataOf(8, n) }))
    expect(end.one(ask)).toMatchObject({ flags: el.DURABLE | el.UP_TO, refusal: 0, operation: 4 })
  })

  test('a refusal by status ends its element; the queue lives', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    const refused = end.one(record(region, 99, 1, { inline: dataOf(8, 1) }))
    expect(refused).toMatchObject({ status: el.WC_GENERAL_ERR, refusal: 0x82, flags: 0 })
    expect(end.one(record(region, 0, 2, { inline: dataOf(8, 1) })).status).toBe(el.WC_SUCCESS)
  })

  test('a NOP completes behind what was posted before it, and before what comes after', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    const add = { opcode: kind.FETCH_ADD, rkey, address: base, operation: 1 }
    const nop = { opcode: el.WQE_NOP }
    const units = end.post(add, nop, nop, add, nop)
    rig.run()
    rig.pass(1000)
    expect(end.host.poll(end.cq).map(({ unit }) => unit)).toEqual(units)
  })

  test('hundreds of elements, more than are under way at once, under loss: all, in order', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig, { length: 1 << 16 })
    const random = new Random(SEED)
    rig.loses = () => random.chance(0.06)
    const { host, qp, cq } = end
    const cqes: number[] = []
    for (let n = 0; n < 600; ) {
      for (; n < 600 && n - cqes.length < 200; n++) {
        end.post({ opcode: kind.FETCH_ADD, rkey, address: base, operation: 1 })
      }
      rig.pass(70_000)
      cqes.push(...host.poll(cq).map(({ operation, status }) => (status === 0 ? operation : -1)))
    }
    for (let i = 0; i < 100 && cqes.length < 600; i++) {
      rig.pass(70_000)
      cqes.push(...host.poll(cq).map(({ operation, status }) => (status === 0 ? operation : -1)))
    }
    expect(cqes, `SEED=${SEED}`).toEqual(Array.from({ length: 600 }, (_, i) => i))
    expect(host.zone1(qp.send).pointer).toBe(600)
  })
})

describe('limits', () => {
  test('more pairs than may have requests under way at once: all are served', () => {
    const rig = new TwoCards(256)
    const { rkey, base } = bytesOf(rig)
    const memory = toCard(rig)
    const ends = Array.from({ length: INITIATORS + 8 }, () =>
      toCard(rig, 1024, 1, { units: 16, memory }),
    )
    for (const [i, end] of ends.entries()) {
      for (let n = 0; n < 3; n++) {
        end.post({ opcode: kind.FETCH_ADD, rkey, address: base + 8 * i, operation: 1 })
      }
    }
    rig.run()
    for (let i = 0; i < 20; i++) rig.pass(100)
    for (const end of ends) {
      expect(end.host.poll(end.cq).map(({ operation }) => operation)).toEqual([0, 1, 2])
    }
  })

  test('more bytes by address than there are buffers: elements wait, and none is lost', () => {
    for (const length of [100, 8000]) {
      const rig = new TwoCards()
      const end = toCard(rig)
      const { rkey, base } = bytesOf(rig)
      // All of them are posted before one is answered.
      rig.loses = () => true
      for (let n = 0; n < 60; n++) {
        const from = end.put(dataOf(length, n), n * 8192)
        end.post({ opcode: kind.WRITE, rkey, address: base + (n % 16) * 8000, ...from })
      }
      rig.run()
      rig.loses = () => false
      const status: number[] = []
      for (let i = 0; i < 40; i++) {
        rig.pass(70_000)
        status.push(...end.host.poll(end.cq).map((cqe) => cqe.status))
      }
      expect(status).toEqual(Array.from({ length: 60 }, () => el.WC_SUCCESS))
    }
  })

  test('what is longer than any buffer is refused before anything of it is read', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    const write = { opcode: kind.WRITE, rkey, address: base, ...end.at(131_073) }
    expect(end.one(write).status).toBe(el.WC_LOC_LEN_ERR)
  })
})

describe('the end of a pair', () => {
  test('destroyed with requests under way, again and again: nothing is left behind', () => {
    const rig = new TwoCards(64)
    const { rkey, base } = bytesOf(rig)
    const memory = toCard(rig)
    const { host } = memory
    for (let i = 0; i < 60; i++) {
      const end = toCard(rig, 1024, 5, { units: 16, memory })
      rig.loses = () => true
      for (let n = 0; n < 5; n++) {
        end.post({ opcode: kind.WRITE, rkey, address: base, ...end.put(dataOf(5000, 1)) })
        end.post({ opcode: kind.READ, rkey, address: base, ...end.at(500) })
      }
      rig.run()
      host.destroy(end.qp.send)
      rig.run()
      expect(host.poll(end.cq).map(({ status }) => status)).toEqual(
        Array.from({ length: 10 }, () => el.WC_WR_FLUSH_ERR),
      )
      host.destroy(end.cq)
      host.destroy(end.receiveCq)
      rig.loses = () => false
      rig.run()
    }
    const write = { opcode: kind.WRITE, rkey, address: base, ...memory.put(dataOf(5000, 2)) }
    expect(memory.one(write).status).toBe(el.WC_SUCCESS)
  })

  test('H4: the host goes with requests under way, again and again: the next one finds all', () => {
    const rig = new TwoCards(64)
    const { rkey, base } = bytesOf(rig)
    const [host] = rig.hosts
    for (let i = 0; i < 12; i++) {
      const end = toCard(rig)
      expect(
        end.one({ opcode: kind.WRITE, rkey, address: base, inline: dataOf(8, 1) }).status,
      ).toBe(0)
      rig.loses = () => true
      for (let n = 0; n < 12; n++) {
        end.post({ opcode: kind.WRITE, rkey, address: base, ...end.put(dataOf(5000, 1)) })
        end.post({ opcode: kind.READ, rkey, address: base, ...end.at(500) })
        end.post({ opcode: kind.WRITE, rkey, address: base, ...end.put(dataOf(500, 1)) })
      }
      rig.run()
      host.setLink(false)
      rig.run()
      rig.loses = () => false
      host.bytes.fill(0)
      host.setLink(true)
      host.startAnew(64)
      rig.run()
    }
  })
})

describe('what the host does meanwhile', () => {
  test('H2, P3-23: what is changed behind an element that was taken is not sent', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    const data = dataOf(3000, 1)
    // The first packets are lost; the bytes have changed when they are sent again.
    rig.loses = (from) => from === 0
    end.post(record(region, 1, 1, end.put(data)))
    rig.run()
    end.host.bytes.fill(0xee, end.buffer, end.buffer + 3000)
    end.host.bytes.fill(0xee, end.host.unitAt(end.qp.send, 0), end.host.unitAt(end.qp.send, 1))
    rig.loses = () => false
    rig.pass(100_000)
    expect(end.host.poll(end.cq)).toMatchObject([{ status: el.WC_SUCCESS, operation: 1 }])
    expect(readBack(end, region, 1, 3000)).toEqual(data)
  })

  test('H4: a host that does not answer ends its queue; no frame is broken', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    end.host.card.ram!.link.script = ({ kind: what, at }) =>
      what === 'read' && at === end.buffer ? 'poisoned' : undefined
    rig.sent.length = 0
    const cqe = end.one(record(region, 1, 1, end.put(dataOf(3000, 1))))
    expect(cqe).toMatchObject({ status: el.WC_GENERAL_ERR, flags: 0 })
    expect(end.host.zone1(end.qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'DMA' })
    expect(rig.sent).toEqual([])
  })

  test('a connection that fails: the first says why, the rest are flushed, then the event', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    const good = { opcode: kind.WRITE, rkey, address: base, inline: dataOf(8, 1) }
    const cqes = end.play(good, { ...good, rkey: rkey ^ 0x100 }, good, good)
    expect(cqes.map(({ status }) => status)).toEqual([
      el.WC_SUCCESS,
      el.WC_REM_ACCESS_ERR,
      el.WC_WR_FLUSH_ERR,
      el.WC_WR_FLUSH_ERR,
    ])
    const zone1 = end.host.zone1(end.qp.send)
    expect(zone1).toMatchObject({ state: QUEUE_ERROR, fault: 'CONNECTION_LOST' })
    const events = end.host.events().map(({ queue, fault }) => ({ queue, fault }))
    expect(events).toContainEqual({ queue: end.qp.send, fault: 'CONNECTION_LOST' })
    expect(events).toContainEqual({ queue: end.qp.receive, fault: 'CONNECTION_LOST' })
  })

  test('a peer that is silent: RETRY_EXC_ERR after its tries', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const { rkey, base } = bytesOf(rig)
    rig.loses = () => true
    end.post({ opcode: kind.WRITE, rkey, address: base, inline: dataOf(8, 1) })
    for (let i = 0; i < 12; i++) rig.pass(100_000)
    expect(end.host.poll(end.cq)).toMatchObject([{ status: el.WC_RETRY_EXC_ERR }])
    expect(end.host.zone1(end.qp.send).state).toBe(QUEUE_ERROR)
  })
})

describe('TWO_STEPS: the completions of source 2, flow 2, on queues', () => {
  test('P2-21, P2-22, P2-24: received by the send, durable by a receive', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    end.receive(0, 0)
    const sends = end.play(record(region, 1, 77, { inline: dataOf(64, 1), flags: el.TWO_STEPS }))
    expect(sends).toMatchObject([{ status: 0, flags: el.RECEIVED, copies: 0, operation: 77 }])
    expect(end.host.poll(end.receiveCq)).toMatchObject([
      {
        queue: end.qp.receive,
        unit: 0,
        opcode: el.WQE_RECEIVE,
        status: 0,
        flags: el.DURABLE,
        copies: 2,
        operation: 77,
        address: 2 ** 32,
        psn: rig.sent.find(({ frame }) => frame.paeth !== null)!.frame.paeth!.lastPsn,
      },
    ])
  })

  test('P2-25: without a receive the result is held, and not lost', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    const two = [1, 2, 3].map((n) =>
      record(region, n, n, { inline: dataOf(64, n), flags: el.TWO_STEPS }),
    )
    expect(end.play(...two).map(({ flags }) => flags)).toEqual([2, 2, 2].map(() => el.RECEIVED))
    expect(end.host.poll(end.receiveCq)).toEqual([])
    end.receive(0, 0)
    rig.run()
    expect(end.host.poll(end.receiveCq)).toMatchObject([{ operation: 1, flags: el.DURABLE }])
    end.receive(0, 0, 2)
    rig.run()
    expect(end.host.poll(end.receiveCq)).toMatchObject([{ operation: 2 }, { operation: 3 }])
  })

  test('P2-21: what was received is never called durable before the PERSIST_ACK', () => {
    const rig = new TwoCards()
    const end = toCard(rig)
    const region = recordsOf(rig)
    end.receive(0, 0)
    // Every PERSIST_ACK is lost.
    rig.loses = (from, frame) => from === 1 && frame.paeth !== null
    end.post(record(region, 1, 5, { inline: dataOf(64, 1), flags: el.TWO_STEPS }))
    rig.run()
    for (let i = 0; i < 3; i++) rig.pass(100_000)
    expect(end.host.poll(end.cq)).toMatchObject([{ flags: el.RECEIVED, copies: 0 }])
    expect(end.host.poll(end.receiveCq)).toEqual([])
    rig.loses = () => false
    for (let i = 0; i < 6; i++) rig.pass(100_000)
    expect(end.host.poll(end.receiveCq)).toMatchObject([{ flags: el.DURABLE, operation: 5 }])
  })
})
