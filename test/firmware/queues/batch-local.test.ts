/**
 * Batches that the host posts as elements of a local queue (source 4): towards the part of its own
 * card, without a wire. Each record has a completion of its own, with its own reason.
 */

import { beforeEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import {
  BATCH_ELEMENTS_MAX,
  BATCH_TIMEOUT_US,
  LINE_BYTES,
  LOCAL_BATCHES,
} from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import { WRITE_PERSIST_REGION } from '../../../firmware/medium/region.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import {
  ATTRIBUTE_REMOVE,
  KIND_BYTES,
  METHOD_SET,
  REGION_RKEY,
} from '../../../firmware/wire/management.ts'
import {
  CONDITION_EXPECT,
  CONDITION_IN_ORDER,
  CONDITION_INDEPENDENT,
} from '../../../firmware/wire/persist.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import {
  at,
  type LocalQueue,
  localQueue,
  one,
  play,
  readyHost,
} from '../../support/queues/local-queue.ts'
import { type Cqe, type ElementFields, elementOf } from '../../support/queues/queue-host.ts'

const SEED = Number(process.env.SEED ?? 1)
/** Two cuts at every command instead of one. */
const FULL = process.env.FULL === '1'
const SLOTS = 64
const BYTES = 64
const ZEROS = new Uint8Array(BYTES)

let queue: LocalQueue
let region: TestRegion

beforeEach(() => {
  queue = localQueue()
  region = queue.host.card.provision({ slots: SLOTS, capacity: BYTES })
})

interface Members {
  readonly id?: number
  readonly condition?: number
  /** Operation of the record with index 0. */
  readonly base?: number
  /** Which of the batch are posted, all unless given; the last of them ends the burst. */
  readonly indexes?: readonly number[]
  /** Records that go to a slot that there is not. */
  readonly bad?: readonly number[]
  readonly expect?: (index: number) => bigint
}

function bytesOf(index: number, base = 100): Uint8Array {
  return dataOf(BYTES, base + index)
}

/** The elements of a burst; record `index` goes to slot `index`. */
function burst(count: number, members: Members = {}): ElementFields[] {
  const { id = 1, condition = CONDITION_INDEPENDENT, base = 100, bad = [] } = members
  const indexes = members.indexes ?? Array.from({ length: count }, (_, i) => i)
  return indexes.map((index, i) => ({
    opcode: kind.WRITE_PERSIST,
    rkey: region.rkey,
    address: (bad.includes(index) ? SLOTS + index : index) * 2 ** 32,
    operation: base + index,
    wait: 2,
    inline: bytesOf(index, base),
    batch: {
      ...{ id, condition, count, index, left: indexes.length - 1 - i },
      ...(members.expect === undefined ? {} : { expect: members.expect(index) }),
    },
  }))
}

/** A burst whose last record does not come. */
function opened(count: number, members: Members): ElementFields[] {
  return burst(count, members).map((one) => ({
    ...one,
    batch: { ...one.batch!, left: one.batch!.left! + 1 },
  }))
}

function readBack(slot: number, view = 0, length = BYTES): Uint8Array {
  const address = slot * 2 ** 32 + view * 2 ** 28
  const fields = { opcode: kind.READ, rkey: region.rkey, address, ...at(queue, length, 1 << 18) }
  expect(one(queue, fields).status).toBe(el.WC_SUCCESS)
  return queue.host.bytes.slice(queue.buffer + (1 << 18), queue.buffer + (1 << 18) + length)
}

function sequenceOf(slot: number): bigint {
  return new DataView(readBack(slot, 1).buffer).getBigUint64(32, true)
}

/** Name of what an element was told: 'durable', or why not. */
function toldOf({ status, flags, refusal }: Cqe): string {
  if (status === el.WC_SUCCESS) return (flags & el.DURABLE) !== 0 ? 'durable' : 'done'
  if (status !== el.WC_GENERAL_ERR) return `status ${status}`
  return nameOf(refusal)
}

/** Name of the fault with that status. */
function nameOf(status: number): string {
  return FAULTS.find(({ answer, code }) => answer === 'status' && code === status)!.name
}

/** Queues of their own that share the buffer. */
function another(): LocalQueue {
  const { host } = queue
  const cq = host.createCq(64)
  return { ...queue, cq, qp: host.createQp(cq, { units: 64 }) }
}

const told = (...elements: ElementFields[]): string[] => play(queue, ...elements).map(toldOf)

function all(count: number, what: string): string[] {
  return Array<string>(count).fill(what)
}

describe('how a batch ends', () => {
  test('P4-5, P4-13: a completion for each record, in order, and four fences for all of it', () => {
    const { machine } = queue.host.card
    for (const condition of [CONDITION_INDEPENDENT, CONDITION_IN_ORDER]) {
      const base = 1000 * (condition + 1)
      const { fences } = machine.statistics
      const cqes = play(queue, ...burst(BATCH_ELEMENTS_MAX, { condition, base, id: condition }))
      expect(machine.statistics.fences - fences).toBe(4)
      for (const [i, cqe] of cqes.entries()) {
        expect(cqe).toMatchObject({
          ...{ status: el.WC_SUCCESS, flags: el.DURABLE, copies: 2, mechanism: 1 },
          ...{ operation: base + i, address: i * 2 ** 32, length: BYTES, opcode: 1 },
        })
        expect(readBack(i)).toEqual(bytesOf(i, base))
      }
    }
  })

  test('P4-5, P4-6, P4-7: one and two failures at every place of batches up to 8', () => {
    let base = 0
    for (const condition of [CONDITION_INDEPENDENT, CONDITION_IN_ORDER]) {
      for (let count = 1; count <= 8; count++) {
        for (let first = 0; first < count; first++) {
          for (let second = first; second < count; second++) {
            base += 100
            const bad = [first, second]
            const inOrder = condition === CONDITION_IN_ORDER
            const wanted = Array.from({ length: count }, (_, i) => {
              if (inOrder && i > first) return 'CONDITION'
              return bad.includes(i) ? 'SLOT' : 'durable'
            })
            const name = `${condition} ${count} ${bad}`
            expect([name, ...told(...burst(count, { condition, base, bad }))]).toEqual([
              ...[name, ...wanted],
            ])
            // P4-9, P4-10: all of that again in one burst, under the same numbers.
            const rest = wanted.flatMap((what, i) => (what === 'durable' ? [] : [i]))
            const again = told(...burst(count, { condition, base, indexes: rest }))
            expect([name, ...again]).toEqual([name, ...all(rest.length, 'durable')])
            for (let i = 0; i < count; i++) expect(readBack(i)).toEqual(bytesOf(i, base))
          }
        }
      }
    }
  })

  test('D-10: in order: a record before it that is not durable, and not in the burst', () => {
    const condition = CONDITION_IN_ORDER
    expect(told(...burst(4, { condition, indexes: [1, 2] }))).toEqual(all(2, 'CONDITION'))
    expect(told(...burst(4, { condition, indexes: [0, 2] }))).toEqual(['durable', 'CONDITION'])
    expect(told(...burst(4, { condition, indexes: [1, 2, 3] }))).toEqual(all(3, 'durable'))
  })

  test('D-10: expect: a record is taken where its slot holds the sequence that it names', () => {
    told(...burst(4))
    const held = [0, 1, 2, 3].map(sequenceOf)
    const expected = (i: number): bigint => held[i]! + (i === 1 ? 1n : 0n)
    const members = { condition: CONDITION_EXPECT, base: 200, id: 2, expect: expected }
    expect(told(...burst(4, members))).toEqual(['durable', 'CONDITION', 'durable', 'durable'])
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(bytesOf(i, i === 1 ? 100 : 200))
    // P4-14: what is durable is not asked again, though its slot holds another sequence now.
    expect(told(...burst(4, members))).toEqual(['durable', 'CONDITION', 'durable', 'durable'])
  })

  test('P4-14: what was durable and comes again is durable, and not written again', () => {
    told(...burst(4))
    const before = [0, 1, 2, 3].map(sequenceOf)
    expect(told(...burst(4, { id: 9 }))).toEqual(all(4, 'durable'))
    expect([0, 1, 2, 3].map(sequenceOf)).toEqual(before)
  })

  test('P4-14: what is posted between its records follows those before it, not the rest', () => {
    const read = {
      ...{ opcode: kind.READ, rkey: region.rkey, address: 0, ...at(queue, BYTES) },
    }
    const [first, second, third] = burst(3, { condition: CONDITION_IN_ORDER })
    const cqes = play(queue, first!, read, second!, { opcode: el.WQE_NOP }, third!)
    expect(cqes.map(toldOf)).toEqual(['durable', 'done', 'durable', 'done', 'durable'])
    expect(queue.host.bytes.slice(queue.buffer, queue.buffer + BYTES)).toEqual(bytesOf(0))
  })

  test('a record by address, scattered, and of every length', () => {
    const { host, lkey, buffer } = queue
    region = host.card.provision({ name: 'long', slots: 8, capacity: 4096 })
    const lengths = [0, 1, 64, 1025, 4095, 4096]
    const elements = burst(lengths.length).map(({ inline: _, ...rest }, i) => {
      const length = lengths[i]!
      host.bytes.set(dataOf(length, i), buffer + i * 8192)
      if (i !== 3) return { ...rest, ...at(queue, length, i * 8192) }
      const address = buffer + i * 8192
      const sges = [
        { address, length: 1000, lkey },
        { address: address + 1000, length: 25, lkey },
      ]
      return { ...rest, sges }
    })
    expect(told(...elements)).toEqual(all(lengths.length, 'durable'))
    for (const [i, length] of lengths.entries()) {
      expect(readBack(i, 0, 4096).subarray(0, length)).toEqual(dataOf(length, i))
    }
  })
})

describe('hostile batches', () => {
  /** Each with what it does to the element of index 2 of four. */
  const WRONG: Record<string, Partial<ElementFields>> = {
    count: { batch: { id: 1, count: 5, index: 2, left: 1 } },
    condition: { batch: { id: 1, count: 4, index: 2, left: 1, condition: 1 } },
    'index twice': { batch: { id: 1, count: 4, index: 1, left: 1 } },
    operation: { operation: 999 },
    'slot twice': { address: 0 },
  }

  test.each(Object.entries(WRONG))('%s: refused whole, before the first store', (_, wrong) => {
    const elements = burst(4).map((one, i) => (i === 2 ? { ...one, ...wrong } : one))
    expect(told(...elements)).toEqual(all(4, 'BATCH_FIELDS'))
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(ZEROS)
    expect(queue.host.zone1(queue.qp.send).state).toBe(QUEUE_READY)
    expect(told(...burst(4))).toEqual(all(4, 'durable'))
  })

  test('S1-M9: another region in the middle is one more place', () => {
    const other = queue.host.card.provision({ name: 'other', slots: 4, capacity: BYTES })
    const elements = burst(4).map((one, i) => (i === 2 ? { ...one, rkey: other.rkey } : one))
    expect(told(...elements)).toEqual(all(4, 'durable'))
    expect([0, 1, 3].some((i) => Buffer.compare(readBack(i), ZEROS) === 0)).toBe(false)
    expect(readBack(2)).toEqual(ZEROS)
  })

  test('another batch in the middle: neither is taken', () => {
    const elements = [...burst(4).slice(0, 2), ...burst(3, { id: 2, base: 500 })]
    expect(told(...elements)).toEqual([
      ...['BATCH_ABORTED', 'BATCH_ABORTED', 'BATCH_FIELDS', 'BATCH_FIELDS', 'BATCH_FIELDS'],
    ])
    for (let i = 0; i < 4; i++) expect(readBack(i)).toEqual(ZEROS)
  })

  test('a burst without an end: no more than there is room for', () => {
    const elements = Array.from({ length: 40 }, (_, index) => ({
      ...burst(64, { indexes: [index] })[0]!,
      batch: { id: 1, count: 64, index, left: 1 },
    }))
    const names = told(...elements)
    expect(names).toHaveLength(40)
    expect(new Set(names)).toEqual(new Set(['BATCH_ROOM']))
    for (const i of [0, 31, 32]) expect(readBack(i)).toEqual(ZEROS)
  })

  test('P4-5: a record that begins inside its slot ends the queue', () => {
    const [first, ...rest] = burst(2)
    play(queue, { ...first!, address: 8 }, ...rest)
    const { state, fault } = queue.host.zone1(queue.qp.send)
    expect([state, fault]).toEqual([QUEUE_ERROR, 'BOUNDS'])
    expect(another().host.zone1(queue.cq).state).toBe(QUEUE_READY)
  })

  test('H4: a host that does not give the bytes of a record ends its queue', () => {
    const { host } = queue
    const [first, ...rest] = burst(2).map(({ inline: _, ...one }, i) => {
      return { ...one, ...at(queue, BYTES, i * BYTES) }
    })
    host.card.ram!.link.script = ({ kind: what, at: from }) =>
      what === 'read' && from === queue.buffer + BYTES ? 'unsupported' : undefined
    play(queue, first!, ...rest)
    host.card.ram!.link.script = null
    const { state, fault } = host.zone1(queue.qp.send)
    expect([state, fault]).toEqual([QUEUE_ERROR, 'DMA'])
    queue = another()
    for (let i = 0; i < 2; i++) expect(readBack(i)).toEqual(ZEROS)
  })

  test('BATCH_REGION: bytes take no batches', () => {
    const { card } = queue.host
    const shape = { kind: KIND_BYTES, length: 4096, flags: WRITE_PERSIST_REGION }
    const { body } = card.tryProvision({ name: 'bytes', ...shape })
    const rkey = u32(body, REGION_RKEY)
    expect(told(...burst(2).map((one) => ({ ...one, rkey })))).toEqual(all(2, 'BATCH_REGION'))
  })

  test('BATCH_TIME: records that never come: the others are refused in time', () => {
    const { host, cq } = queue
    expect(told(...opened(8, { indexes: [0, 1, 2] }))).toEqual([])
    host.card.pass(BATCH_TIMEOUT_US - 1000)
    host.run()
    expect(host.poll(cq)).toEqual([])
    host.card.pass(2000)
    host.run()
    expect(host.poll(cq).map(toldOf)).toEqual(all(3, 'BATCH_TIME'))
    for (let i = 0; i < 3; i++) expect(readBack(i)).toEqual(ZEROS)
    expect(told(...burst(8))).toEqual(all(8, 'durable'))
  })

  test('BATCH_TIME counts from the latest record: a batch that comes slowly is taken', () => {
    const { host } = queue
    for (const index of [0, 1]) {
      expect(told(...opened(3, { indexes: [index] }))).toEqual([])
      host.card.pass(BATCH_TIMEOUT_US - 1000)
      host.run()
    }
    expect(told(...burst(3, { indexes: [2] }))).toEqual(all(3, 'durable'))
  })

  test('batches of more queues than there may be: those are told that there is no room', () => {
    const { host } = queue
    const queues = Array.from({ length: LOCAL_BATCHES + 2 }, another)
    const open = opened(8, { indexes: [0] })
    const names = queues.map((one) => play(one, ...open).map(toldOf))
    expect(names).toEqual([...Array(LOCAL_BATCHES).fill([]), ['BATCH_ROOM'], ['BATCH_ROOM']])
    host.card.pass(BATCH_TIMEOUT_US + 1000)
    host.run()
    for (const one of queues.slice(0, LOCAL_BATCHES)) {
      expect(host.poll(one.cq).map(toldOf)).toEqual(['BATCH_TIME'])
    }
    expect(told(...burst(4))).toEqual(all(4, 'durable'))
  })

  test('an element that ends the queue: the batch that is open ends before it', () => {
    const open = opened(8, { indexes: [0, 1] })
    const bad = { opcode: kind.WRITE_PERSIST, rkey: 0xdead, wait: 2, inline: dataOf(8, 1) }
    const cqes = play(queue, ...open, bad)
    // It follows what is held, which goes before it.
    expect(cqes.map(toldOf)).toEqual(['durable', 'durable', `status ${el.WC_REM_ACCESS_ERR}`])
    const next = another()
    const member = { ...burst(8, { indexes: [2] })[0]!, rkey: 0xdead }
    const ended = play(next, ...opened(8, { base: 700, indexes: [0, 1] }), member)
    expect(ended.map(toldOf)).toEqual([
      ...['BATCH_ABORTED', 'BATCH_ABORTED', `status ${el.WC_REM_ACCESS_ERR}`],
    ])
    expect(next.host.zone1(next.qp.send).state).toBe(QUEUE_ERROR)
  })

  test('a region that is removed: the batch into it ends, and no other does', () => {
    const { host } = queue
    const kept = host.card.provision({ name: 'kept', slots: SLOTS, capacity: BYTES })
    const into = (elements: ElementFields[]): ElementFields[] =>
      elements.map((one) => ({ ...one, rkey: kept.rkey }))
    const next = another()
    expect(told(...opened(4, { indexes: [0, 1] }))).toEqual([])
    expect(play(next, ...into(opened(4, { base: 700, indexes: [0, 1] })))).toEqual([])
    host.card.must(METHOD_SET, ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(region.name))
    })
    host.run()
    expect(host.poll(queue.cq).map(toldOf)).toEqual(all(2, 'BATCH_ABORTED'))
    const rest = into(burst(4, { base: 700, indexes: [2, 3] }))
    expect(play(next, ...rest).map(toldOf)).toEqual(all(4, 'durable'))
  })

  test('a region that is removed: a batch goes on whose place had another one into it', () => {
    const { host } = queue
    const kept = host.card.provision({ name: 'kept', slots: SLOTS, capacity: BYTES })
    const [first, second] = burst(2)
    expect(told({ ...first!, rkey: kept.rkey }, second!)).toEqual(all(2, 'durable'))
    const into = (indexes: readonly number[], elements: typeof opened): ElementFields[] =>
      elements(4, { base: 700, indexes }).map((one) => ({ ...one, rkey: kept.rkey }))
    expect(told(...into([0, 1], opened))).toEqual([])
    host.card.must(METHOD_SET, ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(region.name))
    })
    expect(told(...into([2, 3], burst))).toEqual(all(4, 'durable'))
  })

  test('a queue that its host destroys: what is held ends as flushed, and its room is free', () => {
    const { host } = queue
    for (let i = 0; i < 3 * LOCAL_BATCHES; i++) {
      const own = another()
      expect(play(own, ...opened(8, { indexes: [0, 1] }))).toEqual([])
      host.destroy(own.qp.send)
      host.run()
      const { status, queue: of } = { status: el.WC_WR_FLUSH_ERR, queue: own.qp.send }
      expect(host.poll(own.cq)).toMatchObject([
        { status, queue: of, operation: 100, address: 0 },
        { status, queue: of, operation: 101, address: 2 ** 32 },
      ])
      host.destroy(own.cq)
    }
    expect(told(...burst(4))).toEqual(all(4, 'durable'))
  })
})

test('whatever is posted ends, in order, and room for the next batch is there', () => {
  console.log(`SEED=${SEED}`)
  const random = new Random(SEED)
  const { host } = queue
  const pick = <T>(...from: readonly T[]): T => from[random.below(from.length)]!
  for (let round = 0; round < 60; round++) {
    const own = another()
    const units: number[] = []
    for (let i = 0; i < 4 + random.below(20); i++) {
      const index = random.below(6)
      const left = random.below(6 - index)
      const batch = {
        id: pick(1, 1, 2),
        index,
        count: pick(6, 6, 6, 7),
        left,
        condition: pick(0, 1),
      }
      const member = {
        ...{ opcode: kind.WRITE_PERSIST, rkey: pick(region.rkey, region.rkey, region.rkey, 5) },
        ...{ address: pick(index, index, SLOTS) * 2 ** 32, operation: 10_000 * round + index + 1 },
        ...{ wait: pick(1, 2, 2, 3), inline: dataOf(BYTES, round), batch },
      }
      const single = { ...member, batch: undefined } as unknown as ElementFields
      const { batch: _, ...plain } = single
      const fields = pick<ElementFields>(member, member, member, member, plain)
      const element = elementOf({ ...fields, flags: el.SIGNALED })
      if (random.below(40) === 0) element[el.WQE_CONDITION]! |= 7
      units.push(host.post(own.qp.send, element))
      if (random.below(3) === 0) host.ring(own.qp.send)
      if (random.below(5) === 0) host.run()
    }
    host.ring(own.qp.send)
    host.run()
    for (let i = 0; i < 3; i++) {
      host.card.pass(BATCH_TIMEOUT_US)
      host.run()
    }
    const ended = host.poll(own.cq).map(({ unit }) => unit)
    const isOver = host.zone1(own.qp.send).state === QUEUE_ERROR
    const name = `SEED=${SEED} round ${round}`
    expect([name, ...ended]).toEqual([name, ...units.slice(0, ended.length)])
    if (!isOver) expect([name, ended.length]).toEqual([name, units.length])
    host.destroy(own.qp.send)
    host.destroy(own.cq)
  }
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    expect(told(...burst(32, { base: 1_000_000 + 100 * i }))).toEqual(all(32, 'durable'))
  }
})

describe('power cuts', () => {
  const COUNT = 4

  /** Older records in all slots; then a batch. */
  function story(condition: number): { card: TestCard; play: () => string[] } {
    queue = localQueue(readyHost(8))
    region = queue.host.card.provision({ slots: COUNT, capacity: BYTES })
    told(...burst(COUNT, { base: 10 }))
    queue.host.card.idle()
    const elements = burst(COUNT, { condition, base: 200, id: 2 })
    return {
      card: queue.host.card,
      play: () => {
        const { host, qp, cq } = queue
        for (const one of elements) host.post(qp.send, elementOf({ ...one, flags: el.SIGNALED }))
        host.ring(qp.send)
        host.card.serve()
        for (let i = 0; i < 8 && !host.card.machine.dead; i++) host.card.idle()
        return host.poll(cq).map(toldOf)
      },
    }
  }

  test('X-5, P4-13: in order, what is durable is a prefix, whole, and all that was told', () => {
    const whole = story(CONDITION_IN_ORDER)
    const before = whole.card.machine.commandCount
    expect(whole.play()).toEqual(all(COUNT, 'durable'))
    const commands = whole.card.machine.commandCount - before
    const random = new Random(SEED)
    const met = new Set<number>()
    for (let command = 0; command < commands; command++) {
      const varied = CUT_STRATEGIES[command % CUT_STRATEGIES.length]!
      const plain = command % 2 === 0 ? 'none' : 'all'
      for (const strategy of FULL ? ([varied, plain] as const) : [varied]) {
        const { card, play: run } = story(CONDITION_IN_ORDER)
        card.machine.armCut(command)
        const names = run()
        cut(card.nvdimm, { random, strategy })
        const next = new TestCard(card.nvdimm)
        const opened = next.open()
        const qp = next.connect()
        const states = Array.from({ length: COUNT }, (_, i) => {
          const data = next.read(qp, opened, i, 0, BYTES)!
          if (Buffer.compare(data, bytesOf(i, 200)) === 0) return 'new'
          return Buffer.compare(data, bytesOf(i, 10)) === 0 ? 'old' : 'torn'
        })
        const name = `SEED=${SEED} cut ${command} of ${commands}, ${strategy}: ${states}`
        const news = states.indexOf('old') < 0 ? COUNT : states.indexOf('old')
        expect([name, ...states]).toEqual([name, ...all(news, 'new'), ...all(COUNT - news, 'old')])
        expect(names.length, name).toBeLessThanOrEqual(news)
        met.add(news)
      }
    }
    expect(met.has(0) && met.has(COUNT)).toBe(true)
  })
})

describe('batches beside other records', () => {
  test('P4-8: one that does not fit into what is left of a group has one of its own', () => {
    const { host, qp, cq } = queue
    const far = host.card.connect()
    const frames = Array.from({ length: 20 }, (_, i) =>
      persistFrames(far, region, 30 + i, dataOf(BYTES, i)),
    )
    for (const fields of burst(20)) {
      host.post(qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
    }
    host.ring(qp.send)
    const fences = host.card.nvdimm.fences
    expect(persistAcks(host.card.serve(...frames.flat())).every(({ status }) => status === 0)).toBe(
      true,
    )
    host.run()
    expect(host.poll(cq).map(toldOf)).toEqual(all(20, 'durable'))
    expect(host.card.nvdimm.fences - fences).toBe(8)
  })

  test('D-10: a batch that is refused, and its record that the network brings in the group', () => {
    const { card } = queue.host
    const { host, qp, cq } = queue
    const far = card.connect()
    // Of the same client, under the operation of the second one, which contradicts the first.
    const frames = persistFrames(far, region, 1, bytesOf(1), { operation: 101 })
    const [first, second] = burst(2)
    for (const fields of [first!, { ...second!, batch: { ...second!.batch!, count: 3 } }]) {
      host.post(qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
    }
    host.ring(qp.send)
    const acks = persistAcks(card.serve(...frames))
    expect(acks).toMatchObject([{ status: 0 }])
    host.run()
    expect(host.poll(cq).map(toldOf)).toEqual(all(2, 'BATCH_FIELDS'))
    expect([readBack(0), readBack(1)]).toEqual([ZEROS, bytesOf(1)])
  })

  test('in order, and over: what the network brings next is none of it, nor refused for it', () => {
    const { card } = queue.host
    expect(told(...burst(2, { condition: CONDITION_IN_ORDER }))).toEqual(all(2, 'durable'))
    const far = card.connect()
    card.nvdimm.refuseWrites(DATA_AT / LINE_BYTES)
    const frames = [0, 1].flatMap((slot) => persistFrames(far, region, slot, bytesOf(slot, 50)))
    const names = persistAcks(card.serve(...frames)).map(({ status }) => {
      return status === 0 ? 'durable' : nameOf(status)
    })
    expect(names).toEqual(['durable', 'MEDIA'])
    queue = another()
    expect(readBack(1)).toEqual(bytesOf(1, 50))
  })

  test('X-5: in order, behind a record of another queue: nothing follows a refusal', () => {
    const { host } = queue
    const other = another()
    host.card.nvdimm.refuseWrites(DATA_AT / LINE_BYTES)
    const [single] = burst(1, { indexes: [1], base: 900 })
    const { batch: _, ...record } = single!
    host.post(other.qp.send, elementOf({ ...record, flags: el.SIGNALED }))
    for (const fields of burst(2, { condition: CONDITION_IN_ORDER })) {
      host.post(queue.qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
    }
    host.ring(other.qp.send)
    host.ring(queue.qp.send)
    host.run()
    expect(host.poll(other.cq).map(toldOf)).toEqual(['durable'])
    expect(host.poll(queue.cq).map(toldOf)).toEqual(['MEDIA', 'CONDITION'])
    queue = another()
    expect(readBack(1)).toEqual(bytesOf(1, 900))
  })
})

test('D-7: what a batch held does not go over the headers of the next', () => {
  const wide = queue.host.card.provision({ name: 'wide', slots: 8, capacity: 1000 })
  type Batch = NonNullable<ElementFields['batch']>
  const member = (slot: number, bytes: number, batch: Batch): ElementFields => ({
    ...{ opcode: kind.WRITE_PERSIST, rkey: wide.rkey, address: slot * 2 ** 32, wait: 2 },
    ...{ operation: 10 + slot, inline: dataOf(bytes, slot), batch },
  })
  const of = (id: number, count: number, index: number): Batch => ({
    ...{ id, condition: CONDITION_INDEPENDENT, count, index, left: count - 1 - index },
  })
  const contrary = member(1, 64, { ...of(1, 2, 1), count: 3 })
  const next = [2, 3, 4].map((slot, i) => member(slot, 300, of(2, 3, i)))
  const cqes = play(queue, member(0, 500, of(1, 2, 0)), contrary, ...next)
  const refused = all(2, 'BATCH_FIELDS')
  expect(cqes.map(toldOf)).toEqual([...refused, ...all(3, 'durable')])
  for (const slot of [2, 3, 4]) {
    const fields = { opcode: kind.READ, rkey: wide.rkey, address: slot * 2 ** 32 }
    expect(one(queue, { ...fields, ...at(queue, 300) }).status).toBe(el.WC_SUCCESS)
    const { host, buffer } = queue
    expect(host.bytes.slice(buffer, buffer + 300)).toEqual(dataOf(300, slot))
  }
})
