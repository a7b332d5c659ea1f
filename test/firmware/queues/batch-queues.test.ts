/**
 * Batches that the host posts as elements of its queues (source 4): towards another card, which
 * answers all of a batch by one status.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { BATCH_ELEMENTS_MAX, BATCH_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { PERSIST_ACK, WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import {
  blankPweth,
  CONDITION_EXPECT,
  CONDITION_IN_ORDER,
  CONDITION_INDEPENDENT,
  type Pweth,
  readPweth,
} from '../../../firmware/wire/persist.ts'
import { dataOf, type Sent, type TestRegion } from '../../support/cards/test-card.ts'
import { type End, hostToHost, TwoCards, toCard } from '../../support/cards/two-cards.ts'
import type { BatchFields, Cqe, ElementFields } from '../../support/queues/queue-host.ts'

const SEED = Number(process.env.SEED ?? 1)
const SLOTS = 64
const BYTES = 64
const AT_END = 1 << 18
const READ = { opcode: kind.READ }

let rig: TwoCards
let end: End
let region: TestRegion

beforeEach(() => {
  rig = new TwoCards()
  end = toCard(rig)
  region = rig.hosts[1].card.provision({ slots: SLOTS, capacity: BYTES })
})

interface Members extends BatchFields {
  /** Operation of the record with index 0. */
  readonly base?: number
  /** Which of the batch are sent, all unless given; the last of them ends the burst. */
  readonly indexes?: readonly number[]
  readonly slotOf?: (index: number) => number
  readonly dataOf?: (index: number) => Uint8Array
}

function bytesOf(index: number, base: number): Uint8Array {
  return dataOf(BYTES, base + index)
}

/** The elements of a burst; record `index` goes to slot `index`. */
function burst(count: number, members: Members = {}): ElementFields[] {
  const { base = 100, slotOf = (index) => index, ...batch } = members
  const indexes = members.indexes ?? Array.from({ length: count }, (_, i) => i)
  return indexes.map((index, i) => ({
    opcode: kind.WRITE_PERSIST,
    rkey: region.rkey,
    address: slotOf(index) * 2 ** 32,
    operation: base + index,
    wait: 2,
    inline: members.dataOf?.(index) ?? bytesOf(index, base),
    batch: {
      ...{ id: 1, count, index, left: indexes.length - 1 - i, expect: batch.expect },
      ...{ condition: batch.condition ?? CONDITION_INDEPENDENT },
      ...(batch.id === undefined ? {} : { id: batch.id }),
    } as BatchFields,
  }))
}

function readBack(slot: number): Uint8Array {
  const fields = { ...READ, rkey: region.rkey, address: slot * 2 ** 32, ...end.at(BYTES, AT_END) }
  expect(end.one(fields)).toMatchObject({ status: el.WC_SUCCESS })
  return end.bytes(BYTES, AT_END)
}

/** Name of what an element was told: 'durable', or why not. */
function toldOf({ status, flags, refusal }: Cqe): string {
  if (status === el.WC_SUCCESS) return (flags & el.DURABLE) !== 0 ? 'durable' : 'done'
  if (status !== el.WC_GENERAL_ERR) return `status ${status}`
  return FAULTS.find(({ answer, code }) => answer === 'status' && code === refusal)!.name
}

function sentBy(from: number, opcode: number): Sent[] {
  return rig.sent
    .filter((one) => one.from === from && one.frame.opcode === opcode)
    .map(({ frame }) => frame)
}

function pwethOf({ bytes, packet }: Sent): Pweth {
  const pweth = blankPweth()
  readPweth(pweth, bytes, packet.bthAt + packet.row!.pwethAt)
  return pweth
}

describe('what goes over the wire', () => {
  test('P4-1, P4-2: every packet of a batch names batch, index, count and condition', () => {
    rig.sent.length = 0
    end.post(...burst(5, { id: 0xbeef, condition: CONDITION_IN_ORDER, base: 70 }))
    rig.run()
    const members = sentBy(0, WRITE_PERSIST_ONLY).map(pwethOf)
    expect(members).toHaveLength(5)
    for (const [batchIndex, pweth] of members.entries()) {
      expect(pweth).toMatchObject({
        ...{ batch: true, oneStatus: true, wantsAck: true, slotAddressed: true, reserved: 0 },
        ...{ batchId: 0xbeef, batchIndex, batchCount: 5, condition: CONDITION_IN_ORDER },
        ...{ lastOfBatch: batchIndex === 4, operationLow: 70 + batchIndex },
      })
    }
  })

  test('P4-3: a record behind a batch is an ordinary one, in the same piece of memory', () => {
    end.play(...burst(2, { condition: CONDITION_IN_ORDER }))
    rig.sent.length = 0
    const { batch: _, ...single } = burst(1, { base: 900 })[0]!
    expect(toldOf(end.one(single))).toBe('durable')
    expect(pwethOf(sentBy(0, WRITE_PERSIST_ONLY)[0]!)).toMatchObject({
      ...{ batch: false, oneStatus: false, condition: 0, batchId: 0, batchIndex: 0 },
      ...{ batchCount: 1, lastOfBatch: false },
    })
  })

  test('P4-8: one status for all of a batch, however many records it has', () => {
    for (const count of [1, 2, 8, BATCH_ELEMENTS_MAX]) {
      rig.sent.length = 0
      const cqes = end.play(...burst(count, { base: 1000 * count }))
      expect(cqes.map(toldOf)).toEqual(Array(count).fill('durable'))
      expect(sentBy(1, PERSIST_ACK)).toHaveLength(1)
    }
  })
})

describe('how a batch ends', () => {
  test('P4-5, P4-13: a completion for each record, in order, when it is durable', () => {
    const units = end.post(...burst(8))
    rig.run()
    const cqes = end.host.poll(end.cq)
    expect(cqes.map(({ unit }) => unit)).toEqual(units)
    for (const [i, cqe] of cqes.entries()) {
      expect(cqe).toMatchObject({
        ...{ status: el.WC_SUCCESS, flags: el.DURABLE, copies: 2, mechanism: 1 },
        ...{ operation: 100 + i, address: i * 2 ** 32, length: BYTES },
      })
      expect(readBack(i)).toEqual(bytesOf(i, 100))
    }
  })

  test.each([0, 3, 5])('P4-5: each completes under its own id, and record %i is told why', (k) => {
    const slotOf = (index: number): number => (index === k ? SLOTS + 1 : index)
    const units = end.post(...burst(6, { slotOf }))
    rig.run()
    const cqes = end.host.poll(end.cq)
    const said = units.map((unit, i) => [unit, 100 + i, i === k ? 'SLOT' : 'durable'])
    expect(cqes.map((cqe) => [cqe.unit, cqe.operation, toldOf(cqe)])).toEqual(said)
    for (let i = 0; i < 6; i++) if (i !== k) expect(readBack(i)).toEqual(bytesOf(i, 100))
  })

  test('P4-7, P4-9: in order: nothing behind the first refusal; that again in one burst', () => {
    const condition = CONDITION_IN_ORDER
    const slotOf = (index: number): number => (index === 3 ? SLOTS + 1 : index)
    expect(end.play(...burst(6, { condition, slotOf })).map(toldOf)).toEqual([
      ...['durable', 'durable', 'durable', 'SLOT', 'BATCH_ABORTED', 'BATCH_ABORTED'],
    ])
    for (const i of [4, 5]) expect(readBack(i)).toEqual(new Uint8Array(BYTES))
    const again = burst(6, { condition, indexes: [3, 4, 5] })
    expect(end.play(...again).map(toldOf)).toEqual(['durable', 'durable', 'durable'])
    for (let i = 0; i < 6; i++) expect(readBack(i)).toEqual(bytesOf(i, 100))
  })

  test('P4-14: what was durable and comes again is durable, and not written again', () => {
    const members = { condition: CONDITION_IN_ORDER }
    end.play(...burst(4, members))
    const cqes = end.play(...burst(4, { ...members, id: 2, dataOf: () => dataOf(BYTES, 999) }))
    expect(cqes.map(toldOf)).toEqual(Array(4).fill('durable'))
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(bytesOf(i, 100))
  })

  test('D-10: expect: a record is taken where its slot holds the sequence that it names', () => {
    end.play(...burst(3))
    const sequences = [0, 1, 2].map(sequenceOf)
    const wanted = [sequences[0]!, sequences[1]! + 1n, sequences[2]!]
    const elements = burst(3, { id: 2, base: 200, condition: CONDITION_EXPECT }).map((one, i) => ({
      ...one,
      batch: { ...one.batch!, expect: wanted[i]! },
    }))
    expect(end.play(...elements).map(toldOf)).toEqual(['durable', 'CONDITION', 'durable'])
    expect([0, 1, 2].map(readBack)).toEqual([
      ...[bytesOf(0, 200), bytesOf(1, 100), bytesOf(2, 200)],
    ])
  })

  test('a batch that contradicts itself at the peer is refused, all of it; the queue lives', () => {
    const twice = burst(4, { slotOf: (index) => (index === 3 ? 1 : index) })
    const order = burst(4).map((one, i, all) =>
      i === 2 ? { ...all[1]!, batch: { ...all[1]!.batch!, left: 1 } } : one,
    )
    const other = burst(4).map((one, i) => ({ ...one, batch: { ...one.batch!, condition: i & 1 } }))
    for (const [i, wrong] of [twice, order, other].entries()) {
      expect([
        i,
        end
          .play(...wrong)
          .map(toldOf)
          .sort(),
      ]).toEqual([i, ['BATCH_ABORTED', 'BATCH_ABORTED', 'BATCH_ABORTED', 'BATCH_FIELDS']])
    }
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(new Uint8Array(BYTES))
    expect(end.host.zone1(end.qp.send).state).toBe(QUEUE_READY)
    expect(end.play(...burst(4, { id: 2 })).map(toldOf)).toEqual(Array(4).fill('durable'))
  })

  test('another batch in the middle of one: neither is taken, and each is told', () => {
    const [one, two] = [burst(4), burst(4, { id: 2, base: 500 })]
    const told = end.play(...one.slice(0, 2), ...two).map(toldOf)
    expect(told).toHaveLength(6)
    expect(told).not.toContain('durable')
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(new Uint8Array(BYTES))
  })

  test('records that no status could tell apart: the others are given up before they go', () => {
    const wrongs: Partial<ElementFields>[] = [
      { operation: 999 },
      { batch: { id: 1, count: 5, index: 2, left: 1 } },
    ]
    for (const wrong of wrongs) {
      const own = toCard(rig)
      own.post(...burst(4).map((one, i) => (i === 2 ? { ...one, ...wrong } : one)))
      for (let i = 0; i < 10; i++) rig.pass(BATCH_TIMEOUT_US)
      const told = own.host.poll(own.cq).map(toldOf)
      expect(told).toEqual(['BATCH_TIME', 'BATCH_ABORTED', 'BATCH_TIME', 'durable'])
      expect(own.host.zone1(own.qp.send).state).toBe(QUEUE_READY)
    }
  })
})

/** The sequence that the slot holds, as its settled image says. */
function sequenceOf(slot: number): bigint {
  const va = slot * 2 ** 32 + 2 ** 28
  const fields = { ...READ, rkey: region.rkey, address: va, ...end.at(64, AT_END) }
  expect(end.one(fields).status).toBe(el.WC_SUCCESS)
  return end.host.view.getBigUint64(end.buffer + AT_END + SEQUENCE_AT, true)
}

const SEQUENCE_AT = 32

describe('room', () => {
  test('batches that are under way at once: each whole, or not begun, and all of them end', () => {
    // No number of them fills the room exactly.
    const count = 28
    const memory = { buffer: end.buffer, lkey: end.lkey }
    const ends = [end, ...Array.from({ length: 9 }, () => toCard(rig, 1024, 0x22, { memory }))]
    // The peer hears nothing for a while.
    rig.loses = (from) => from === 0
    rig.sent.length = 0
    // Each posts a part of its batch, and later the rest.
    for (const [from, to] of [
      [0, 20],
      [20, count],
    ] as const) {
      for (const [i, one] of ends.entries()) {
        const slotOf = (index: number): number => (index + 4 * i) % SLOTS
        const elements = burst(count, { base: 1000 * (i + 1), slotOf, id: i })
        one.post(...elements.slice(from, to))
        rig.run()
      }
    }
    const sent = new Map<number, number>()
    for (const { batchId } of sentBy(0, WRITE_PERSIST_ONLY).map(pwethOf)) {
      sent.set(batchId, (sent.get(batchId) ?? 0) + 1)
    }
    expect([...new Set(sent.values())]).toEqual([count])
    expect(sent.size).toBeGreaterThan(1)
    expect(sent.size).toBeLessThan(ends.length)
    rig.loses = () => false
    const told = ends.map(() => [] as string[])
    for (let i = 0; i < 100; i++) {
      rig.pass(70_000)
      for (const [j, { host, cq }] of ends.entries()) told[j]!.push(...host.poll(cq).map(toldOf))
    }
    for (const one of told) expect(one).toEqual(Array(count).fill('durable'))
  })

  test('P4-14: what is posted between its records takes nothing of what a batch needs', () => {
    const words = rig.hosts[1].card.provision({ name: 'other', slots: 4, capacity: BYTES })
    const members = burst(BATCH_ELEMENTS_MAX)
    const reads = Array.from({ length: 20 }, () => ({
      ...{ ...READ, rkey: words.rkey, address: 0, ...end.at(8, AT_END) },
    }))
    end.post(...members.slice(0, 4), ...reads, ...members.slice(4, 8))
    end.post(...members.slice(8))
    for (let i = 0; i < 20; i++) rig.pass(1000)
    const cqes = end.host.poll(end.cq)
    expect(cqes).toHaveLength(BATCH_ELEMENTS_MAX + reads.length)
    const told = cqes.filter(({ opcode }) => opcode === kind.WRITE_PERSIST).map(toldOf)
    expect(told).toEqual(Array(BATCH_ELEMENTS_MAX).fill('durable'))
  })

  test('a fence on a record waits for what is read before it, and not for its own batch', () => {
    end.host.bytes.set(dataOf(BYTES, 5), end.buffer + AT_END)
    const read = { ...READ, rkey: region.rkey, address: 9 * 2 ** 32, ...end.at(BYTES, AT_END) }
    const members = burst(3)
    const { inline: _, ...byAddress } = members[2]!
    const fenced = { ...byAddress, ...end.at(BYTES, AT_END), flags: el.FENCE }
    const cqes = end.play(members[0]!, read, members[1]!, fenced)
    expect(cqes.map(({ status }) => status)).toEqual([0, 0, 0, 0])
    // What the READ brought, zeros.
    expect(readBack(2)).toEqual(new Uint8Array(BYTES))
  })

  test('under loss every batch ends, in order, once', () => {
    let frames = 0
    rig.loses = () => ++frames % 7 === 3
    const told: string[] = []
    for (let n = 0; n < 6; n++) {
      end.post(...burst(16, { base: 100 * (n + 1), id: n, condition: CONDITION_IN_ORDER }))
    }
    for (let i = 0; i < 200 && told.length < 96; i++) {
      rig.pass(70_000)
      told.push(...end.host.poll(end.cq).map(toldOf))
    }
    expect(told).toEqual(Array(96).fill('durable'))
    rig.loses = () => false
    for (let i = 0; i < 16; i++) expect(readBack(i)).toEqual(bytesOf(i, 600))
  })
})

describe('batches that never end by themselves', () => {
  const first = { indexes: [0, 1, 2] } as const

  /** A burst whose last record does not come. */
  function open(id = 1): ElementFields[] {
    return burst(8, { ...first, id }).map((one) => ({
      ...one,
      batch: { ...one.batch!, left: one.batch!.left! + 1 },
    }))
  }

  test('BATCH_TIME: records that never come: the others are refused, and room is free', () => {
    const memory = { buffer: end.buffer, lkey: end.lkey }
    const others = Array.from({ length: 4 }, () => toCard(rig, 1024, 0x22, { memory }))
    end.post(...open())
    rig.pass(BATCH_TIMEOUT_US / 2)
    expect(end.host.poll(end.cq)).toEqual([])
    rig.pass(BATCH_TIMEOUT_US)
    rig.pass(BATCH_TIMEOUT_US)
    expect(end.host.poll(end.cq).map(toldOf)).toEqual([
      ...['BATCH_TIME', 'BATCH_ABORTED', 'BATCH_ABORTED'],
    ])
    for (let i = 0; i < 3; i++) expect(readBack(i)).toEqual(new Uint8Array(BYTES))
    for (const [i, other] of [end, ...others].entries()) {
      const elements = burst(BATCH_ELEMENTS_MAX, { base: 1000 * (i + 1), id: 2 })
      expect(other.play(...elements).map(toldOf)).toEqual(Array(32).fill('durable'))
    }
  })

  test('an element that ends the queue: the open batch ends first, then the queue', () => {
    const bad = { opcode: kind.WRITE_PERSIST, rkey: region.rkey, wait: 9, inline: dataOf(8, 1) }
    end.post(...open(), bad)
    for (let i = 0; i < 4; i++) rig.pass(BATCH_TIMEOUT_US)
    const cqes = end.host.poll(end.cq)
    expect(cqes.slice(0, 3).map(toldOf)).toEqual([
      ...['BATCH_TIME', 'BATCH_ABORTED', 'BATCH_ABORTED'],
    ])
    expect(cqes[3]).toMatchObject({ status: el.WC_REM_INV_REQ_ERR })
    expect(end.host.zone1(end.qp.send).state).toBe(QUEUE_ERROR)
  })

  test('a peer that is gone: every record is told so, and others have the room', () => {
    end.post(...open())
    rig.run()
    rig.loses = () => true
    end.post(...burst(8, { indexes: [3, 4] }))
    for (let i = 0; i < 300; i++) rig.pass(70_000)
    const cqes = end.host.poll(end.cq)
    expect(cqes).toHaveLength(5)
    expect(cqes[0]!.status).toBe(el.WC_RETRY_EXC_ERR)
    for (const { status } of cqes.slice(1)) expect(status).toBe(el.WC_WR_FLUSH_ERR)
    rig.loses = () => false
    const other = toCard(rig)
    const elements = burst(BATCH_ELEMENTS_MAX, { base: 1000 })
    expect(other.play(...elements).map(toldOf)).toEqual(Array(32).fill('durable'))
  })
})

test('whatever is posted ends, in order, also under loss, and others find room', () => {
  console.log(`SEED=${SEED}`)
  const random = new Random(SEED)
  const pick = <T>(...from: readonly T[]): T => from[random.below(from.length)]!
  const memory = { buffer: end.buffer, lkey: end.lkey }
  for (let round = 0; round < 20; round++) {
    const own = toCard(rig, 1024, 0x300 + round, { memory, units: 64 })
    const units: number[] = []
    rig.loses = () => random.chance(round % 2 === 0 ? 0 : 0.03)
    for (let i = 0; i < 4 + random.below(20); i++) {
      const index = random.below(6)
      const left = random.below(6 - index)
      const batch = { id: pick(1, 1, 2), index, count: pick(6, 6, 7), left, condition: pick(0, 1) }
      const member = {
        ...{ opcode: kind.WRITE_PERSIST, rkey: pick(...Array(30).fill(region.rkey), 5) },
        ...{ address: pick(index, index, SLOTS) * 2 ** 32, operation: 10_000 * round + index + 1 },
        ...{ wait: pick(1, 2, 2, 3), inline: dataOf(BYTES, round), batch },
      }
      const { batch: _, ...plain } = member
      const read = { ...READ, rkey: region.rkey, address: 0, ...end.at(BYTES, AT_END) }
      units.push(...own.post(pick<ElementFields>(member, member, member, member, plain, read)))
      if (random.below(5) === 0) rig.run()
    }
    for (let i = 0; i < 400; i++) rig.pass(100_000)
    rig.loses = () => false
    rig.pass(1000)
    const ended = own.host.poll(own.cq).map(({ unit }) => unit)
    const isOver = own.host.zone1(own.qp.send).state === QUEUE_ERROR
    const name = `SEED=${SEED} round ${round}`
    expect([name, ...ended]).toEqual([name, ...units.slice(0, ended.length)])
    if (!isOver) expect([name, ended.length]).toEqual([name, units.length])
    own.host.destroy(own.qp.send)
  }
  const others = Array.from({ length: 3 }, (_, i) => toCard(rig, 1024, 0x900 + i, { memory }))
  for (const [i, other] of others.entries()) other.post(...burst(32, { base: 1_000_000 + 100 * i }))
  for (let i = 0; i < 10; i++) rig.pass(1000)
  for (const { host, cq } of others) {
    expect(host.poll(cq).map(toldOf)).toEqual(Array(32).fill('durable'))
  }
})

describe('S1-M9: messages beside records', () => {
  let ends: readonly [End, End]

  beforeEach(() => {
    rig = new TwoCards()
    ends = hostToHost(rig)
    end = ends[0]
    region = rig.hosts[1].card.provision({ slots: SLOTS, capacity: BYTES })
  })

  /** The elements of a burst, of which those with these indexes are messages. */
  function withMessages(messages: readonly number[], members: Members = {}): ElementFields[] {
    return burst(3, members).map((one, index) => {
      if (!messages.includes(index)) return one
      const { rkey: _, address: __, wait: ___, ...message } = one
      return { ...message, opcode: kind.SEND }
    })
  }

  test('each completes as done; the other host is told, with bytes and operation', () => {
    const other = ends[1]
    for (const [i, condition] of [CONDITION_INDEPENDENT, CONDITION_IN_ORDER].entries()) {
      const base = 100 * (i + 1)
      other.receive(0, BYTES)
      const cqes = end.play(...withMessages([2], { condition, base, id: i }))
      expect(cqes.map(toldOf)).toEqual(['durable', 'durable', 'durable'])
      expect(cqes.map(({ opcode }) => opcode)).toEqual([
        ...[kind.WRITE_PERSIST, kind.WRITE_PERSIST, kind.SEND],
      ])
      expect(other.host.poll(other.receiveCq)).toMatchObject([
        { status: el.WC_SUCCESS, opcode: el.WQE_RECEIVE, length: BYTES, operation: base + 2 },
      ])
      expect(other.bytes(BYTES)).toEqual(bytesOf(2, base))
      expect(readBack(1)).toEqual(bytesOf(1, base))
    }
  })

  test('what is refused before it in order keeps it back; without a receive it is refused', () => {
    const other = ends[1]
    other.receive(0, BYTES)
    const slotOf = (index: number): number => (index === 1 ? 9999 : index)
    const refused = withMessages([2], { condition: CONDITION_IN_ORDER, slotOf })
    expect(end.play(...refused).map(toldOf)).toEqual(['durable', 'SLOT', 'BATCH_ABORTED'])
    expect(other.host.poll(other.receiveCq)).toEqual([])
    const both = withMessages([0, 2], { condition: CONDITION_INDEPENDENT, base: 300, id: 5 })
    expect(end.play(...both).map(toldOf)).toEqual(['durable', 'durable', 'NO_RECEIVE'])
    expect(other.host.poll(other.receiveCq)).toMatchObject([{ operation: 300 }])
  })

  test('under loss each is told once, in order', () => {
    const other = ends[1]
    let frames = 0
    rig.loses = () => ++frames % 7 === 3
    const said: string[] = []
    other.receive(0, BYTES, 12)
    for (let n = 0; n < 12; n++) {
      const condition = n % 2 === 0 ? CONDITION_IN_ORDER : CONDITION_INDEPENDENT
      end.post(...withMessages([1], { base: 100 * (n + 1), id: n, condition }))
    }
    const got: number[] = []
    for (let i = 0; i < 200 && said.length < 36; i++) {
      rig.pass(70_000)
      said.push(...end.host.poll(end.cq).map(toldOf))
      got.push(...other.host.poll(other.receiveCq).map(({ operation }) => operation))
    }
    expect(said).toEqual(Array(36).fill('durable'))
    expect(got).toEqual(Array.from({ length: 12 }, (_, n) => 100 * (n + 1) + 1))
  })
})
