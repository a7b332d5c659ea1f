/**
 * Batches that contradict themselves, stop half-way, or want more than there is: nothing of them is
 * stored, one status says why, and everything that was held is given back (source 4; D-10).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import {
  BATCH_CHUNKS,
  BATCH_CHUNKS_EACH,
  BATCH_TIMEOUT_US,
  BATCHES,
  LINE_BYTES,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Pweth } from '../../../firmware/wire/persist.ts'
import {
  type BatchOptions,
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { placed, tellAgent } from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
} from '../../support/cards/test-card.ts'
import { frameOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  contentOf,
  disconnect,
  firstDifference,
  lines,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 20264)

const recordsFor = (slots: readonly number[]): BatchRecord[] =>
  slots.map((slot) => ({ slot, data: dataOf(64, slot) }))

/** A whole batch is served afterwards: nothing is left of the one before. */
function expectServing(one: BatchSetting): void {
  const qp = one.card.connect()
  const frames = batchFrames(qp, one.region, recordsFor(upTo(140, 100)), { condition: IN_ORDER })
  expect(statuses(one.card.serve(...frames))[0]).toMatchObject({ durable: upTo(40) })
  expect(heldBy(one.state)).toEqual(NOTHING_HELD)
}

/** Serves the frames, so many at once. */
function serveBy(one: BatchSetting, frames: readonly Uint8Array[], burst: number): Sent[] {
  const sent: Sent[] = []
  for (let i = 0; i < frames.length; i += burst)
    sent.push(...one.card.serve(...frames.slice(i, i + burst)))
  return sent
}

interface Form {
  readonly name: string
  /** Of the record that contradicts. */
  readonly wrong: (one: BatchSetting, index: number) => Partial<BatchRecord>
}

const fields = (pweth: Partial<Pweth>) => (): Partial<BatchRecord> => ({ pweth })

const FORMS: readonly Form[] = [
  { name: 'asks for no status of the whole', wrong: fields({ oneStatus: false }) },
  { name: 'wants no acknowledgement', wrong: fields({ wantsAck: false }) },
  { name: 'has an index beyond the count', wrong: fields({ batchIndex: 8 }) },
  { name: 'has the greatest index', wrong: fields({ batchIndex: 255 }) },
  { name: 'has the first operation, 0', wrong: fields({ operationLow: 0 }) },
  {
    name: 'has an operation that begins below 0',
    wrong: (_, index) => ({ pweth: { operationLow: Math.max(0, index - 1) } }),
  },
  {
    name: 'is carried',
    wrong: () => ({
      pweth: { carried: true, furtherCopies: 1 },
      data: dataOf(128, 1),
      reth: { length: 64 },
    }),
  },
]

/** What contradicts records before it, or behind it. */
const CONTRADICTIONS: readonly Form[] = [
  { name: 'another count', wrong: fields({ batchCount: 9 }) },
  { name: 'another condition', wrong: fields({ condition: 0 }) },
  { name: 'the operation of another', wrong: fields({ operationLow: 0x7777 }) },
  { name: 'another upper half of its operation', wrong: fields({ operationHigh: 1 }) },
  { name: 'the index of the one before', wrong: (_, i) => ({ pweth: { batchIndex: i - 1 } }) },
  { name: 'the slot of the first', wrong: () => ({ slot: 0 }) },
  {
    name: 'index and operation of the first',
    wrong: (one) => ({ pweth: { batchIndex: 0, operationLow: one.qp.operation + 1 } }),
  },
]

describe('contradictions', () => {
  const bursts = [1, 3, 32]

  /** The batch of eight with the wrong record at `k`. */
  function refusedWhole({ wrong }: Form, k: number, burst: number): void {
    const one = batchSetting()
    const records = recordsFor(upTo(8))
    records[k] = { ...records[k]!, ...wrong(one, k) }
    const before = contentOf(one.card)
    const frames = batchFrames(one.qp, one.region, records, { condition: IN_ORDER, id: 3 })
    const base = one.qp.psn - 1
    const said = statuses(serveBy(one, frames, burst))
    expect(said.length).toBe(1)
    expect(said[0]).toMatchObject({ id: 3, said: 'BATCH_FIELDS', durable: [], psn: base })
    expect(said[0]!.paeth).toMatchObject({ records: 0, copies: 0, all: false, firstPsn: base })
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(one.card.counter('BATCH_FIELDS')).toBe(1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    // The queue pair lives, and its next batch is taken.
    const next = batchFrames(one.qp, one.region, recordsFor(upTo(8)))
    expect(statuses(one.card.serve(...next))[0]).toMatchObject({ durable: upTo(8) })
    expectServing(one)
  }

  const places = [0, 1, 4, 7]

  test.each(FORMS)('D-10, P4-12: one record $name: the whole batch is refused', (form) => {
    for (const k of places) for (const burst of bursts) refusedWhole(form, k, burst)
  })

  test.each(CONTRADICTIONS)('D-10, P4-12: one record has $name: the whole is refused', (form) => {
    for (const k of places.slice(1)) for (const burst of bursts) refusedWhole(form, k, burst)
  })

  test('the last mark is missing: the batch is given up in time, and so is what follows it', () => {
    const one = batchSetting()
    const before = contentOf(one.card)
    one.card.serve(...batchFrames(one.qp, one.region, recordsFor(upTo(8)), { ends: false }))
    expect(one.card.waitUs).toBeGreaterThan(0)
    expect(one.card.waitUs).toBeLessThanOrEqual(BATCH_TIMEOUT_US)
    expect(one.card.pass(BATCH_TIMEOUT_US - 10)).toEqual([])
    const [status, ...others] = statuses(one.card.pass(20))
    expect(others).toEqual([])
    expect(status).toMatchObject({ said: 'BATCH_TIME', durable: [], count: 8, psn: one.qp.psn - 1 })
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expectServing(one)
  })

  test('P4-9: a last mark that comes early ends the burst; the others were not received', () => {
    for (const early of [1, 3, 7]) {
      const one = batchSetting()
      const records = recordsFor(upTo(8))
      const operation = one.qp.operation + 1
      const options = { operation, count: 8, condition: IN_ORDER }
      const first = batchFrames(one.qp, one.region, records.slice(0, early), options)
      const [status] = statuses(one.card.serve(...first))
      expect(status).toMatchObject({ said: 'durable', count: 8, durable: upTo(early) })
      expect(status!.paeth.all).toBe(false)
      const rest = upTo(8, early).map((index) => ({ ...records[index]!, index }))
      const [last] = statuses(one.card.serve(...batchFrames(one.qp, one.region, rest, options)))
      expect(last).toMatchObject({ said: 'durable', durable: upTo(8) })
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  test('another batch begins before the end of one: neither is taken, each has its status', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const before = contentOf(one.card)
      const frames = [
        ...batchFrames(one.qp, one.region, recordsFor(upTo(4)), { id: 1, ends: false }),
        ...batchFrames(one.qp, one.region, recordsFor(upTo(8, 4)), { id: 2 }),
      ]
      const said = statuses(serveBy(one, frames, burst))
      expect(said.map(({ id, said: why, durable }) => [id, why, durable])).toEqual([
        [1, 'BATCH_ABORTED', []],
        [2, 'BATCH_FIELDS', []],
      ])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
      expectServing(one)
    }
  })

  test('what was stored before a contradiction stays so, and the status says it', () => {
    const one = batchSetting()
    const operation = one.qp.operation + 1
    const options = { operation, count: 8, condition: IN_ORDER }
    const first = batchFrames(one.qp, one.region, recordsFor(upTo(3)), { ...options, ends: false })
    const read = readFrame(one.qp, one.region, 2, 0, 64)
    const wrong = recordsFor([0, 50]).map((record, i) => ({ ...record, index: 3 + i }))
    const rest = batchFrames(one.qp, one.region, wrong, options)
    const [status] = statuses(one.card.serve(...first, read, ...rest))
    expect(status).toMatchObject({ said: 'BATCH_FIELDS', durable: [0, 1, 2] })
    expect(status!.paeth.records).toBe(3)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })
})

describe('what ends a batch from outside', () => {
  test('a gap in the packets is asked for, and the batch goes on when it is filled', () => {
    for (let lost = 0; lost < 8; lost++) {
      const one = batchSetting()
      const frames = batchFrames(one.qp, one.region, recordsFor(upTo(8)))
      const sent = one.card.serve(...frames.filter((_, i) => i !== lost))
      expect(statuses(sent)).toEqual([])
      const [status] = statuses(one.card.serve(...frames.slice(lost)))
      expect(status).toMatchObject({ said: 'durable', durable: upTo(8) })
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  const fatal: [string, (one: BatchSetting) => Uint8Array[]][] = [
    [
      'a reserved opcode',
      ({ qp }) => [frameOf({ bth: { opcode: 0x18, destQp: qp.number, psn: qp.psn } })],
    ],
    ['a wrong key', ({ qp }) => batchFrames(qp, { rkey: 0 }, recordsFor([9]))],
    [
      'an address that is no slot',
      ({ qp, region }) => batchFrames(qp, region, [{ ...recordsFor([9])[0]!, reth: { vaLow: 8 } }]),
    ],
    [
      'a length that its packet does not have',
      ({ qp, region }) =>
        batchFrames(qp, region, [{ ...recordsFor([9])[0]!, reth: { length: 63 } }]),
    ],
    [
      'a length near 2^32',
      ({ qp, region }) =>
        batchFrames(qp, region, [{ ...recordsFor([9])[0]!, reth: { length: 0xffffffff } }]),
    ],
    [
      'no slot, and not carried',
      ({ qp, region }) =>
        batchFrames(qp, region, [{ ...recordsFor([9])[0]!, pweth: { slotAddressed: false } }]),
    ],
  ]

  test.each(fatal)('%s ends the queue pair, and what it held is given back', (_, frames) => {
    for (const apart of [false, true]) {
      const one = batchSetting()
      const before = contentOf(one.card)
      const held = batchFrames(one.qp, one.region, recordsFor(upTo(6)), { ends: false, count: 9 })
      const end = frames(one)
      const sent = apart
        ? [...one.card.serve(...held), ...one.card.serve(...end)]
        : one.card.serve(...held, ...end)
      expect(sent.filter(({ syndrome }) => syndrome > 0x60).length).toBe(1)
      expect(statuses(sent)).toEqual([])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
      expect(one.card.pass(BATCH_TIMEOUT_US)).toEqual([])
      expectServing(one)
    }
  })

  test('a queue pair that is closed gives back what it held', () => {
    const one = batchSetting()
    const before = contentOf(one.card)
    one.card.serve(...batchFrames(one.qp, one.region, recordsFor(upTo(6)), { ends: false }))
    disconnect(one.card, one.qp)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expectServing(one)
  })

  test('a record that stops half-way ends the queue pair, not only its batch', () => {
    const one = batchSetting({ capacity: 2000, slots: 140 }, 256, 1 << 20)
    const records = [...recordsFor(upTo(3)), { slot: 5, data: dataOf(2000, 5) }]
    const frames = batchFrames(one.qp, one.region, records)
    one.card.serve(...frames.slice(0, -2))
    expect(heldBy(one.state)).toMatchObject({ rooms: 1, open: 1 })
    expect(one.card.pass(BATCH_TIMEOUT_US + 1)).toEqual([])
    expect(heldBy(one.state)).toMatchObject({ rooms: 1, open: 1 })
    expect(one.card.waitUs).toBeGreaterThan(100)
    one.card.pass(STAGING_TIMEOUT_US)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expect(one.card.serve(...frames.slice(-2))).toEqual([])
    expectServing(one)
  })

  test('records that come after their batch was given up are a burst of their own', () => {
    const one = batchSetting()
    const frames = batchFrames(one.qp, one.region, recordsFor(upTo(8)), { condition: IN_ORDER })
    one.card.serve(...frames.slice(0, 5))
    one.card.pass(BATCH_TIMEOUT_US)
    const [status] = statuses(one.card.serve(...frames.slice(5)))
    expect(status).toMatchObject({ said: 'CONDITION', durable: [], count: 8 })
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })
})

describe('room', () => {
  test('so many batches are held at once, and one more is refused whole', () => {
    const one = batchSetting()
    const before = contentOf(one.card)
    const pairs = upTo(BATCHES + 1).map((i) => one.card.connect(4096, 0, 30 + i))
    const lists = pairs.map((qp, i) => batchFrames(qp, one.region, recordsFor([2 * i, 2 * i + 1])))
    expect(lists.flatMap((list) => statuses(one.card.serve(list[0]!)))).toEqual([])
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(heldBy(one.state).rooms).toBe(BATCHES)
    const said = lists.flatMap((list) => statuses(one.card.serve(list[1]!)))
    expect(said.map(({ said: why }) => why)).toEqual([
      ...Array(BATCHES).fill('durable'),
      'BATCH_ROOM',
    ])
    expect(one.card.counter('BATCH_ROOM')).toBe(1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })

  const LONG = { capacity: 65536, slots: 80 }

  test('the longest records: as many chunks as one batch may have, and no more', () => {
    for (const count of [BATCH_CHUNKS_EACH, BATCH_CHUNKS_EACH + 1]) {
      const one = batchSetting(LONG, 4096, 1 << 24)
      const records = upTo(count).map((slot) => ({ slot, data: dataOf(65536, slot) }))
      const frames = batchFrames(one.qp, one.region, records)
      const [status] = statuses(one.card.serve(...frames))
      const fits = count === BATCH_CHUNKS_EACH
      expect(status).toMatchObject({ durable: fits ? upTo(count) : [] })
      expect(status!.said).toBe(fits ? 'durable' : 'BATCH_ROOM')
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  test('all chunks are in use: what fits into one burst of frames is taken, more is not', () => {
    const one = batchSetting(LONG, 4096, 1 << 24)
    for (let i = 0; i < BATCH_CHUNKS / BATCH_CHUNKS_EACH; i++) {
      const qp = one.card.connect(4096, 0, 60 + i)
      const records = upTo(BATCH_CHUNKS_EACH).map((n) => {
        return { slot: 16 * i + n, data: dataOf(65536, n) }
      })
      const options = { count: 17, ends: false }
      expect(statuses(one.card.serve(...batchFrames(qp, one.region, records, options)))).toEqual([])
    }
    expect(heldBy(one.state).chunks).toBe(BATCH_CHUNKS)
    const whole = batchFrames(one.qp, one.region, recordsFor(upTo(80, 70)))
    expect(statuses(one.card.serve(...whole))[0]).toMatchObject({ durable: upTo(10) })
    const apart = batchFrames(one.qp, one.region, recordsFor(upTo(80, 70)))
    expect(one.card.serve(...apart.slice(0, 5))).toEqual([])
    expect(statuses(one.card.serve(...apart.slice(5)))[0]).toMatchObject({
      ...{ said: 'BATCH_ROOM', durable: [], count: 10 },
    })
    one.card.pass(BATCH_TIMEOUT_US)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expect(one.card.counter('BATCH_TIME')).toBe(4)
    expectServing({ ...one, region: one.card.provision({ name: 'short', slots: 300 }) })
  })

  test('room that ends while a record of several packets comes: nothing goes astray', () => {
    const one = batchSetting(LONG, 4096, 1 << 24)
    for (let i = 0; i < 4; i++) {
      const qp = one.card.connect(4096, 0, 60 + i)
      const count = i < 3 ? 16 : 15
      const records = upTo(count).map((n) => ({ slot: 16 * i + n, data: dataOf(65536, n) }))
      one.card.serve(...batchFrames(qp, one.region, records, { count: 17, ends: false }))
    }
    // The last chunk goes to the long record; the short ones in their frames find none.
    const other = one.card.connect(4096, 0, 99)
    const long = [{ slot: 70, data: dataOf(65536, 70) }]
    const shorts = batchFrames(one.qp, one.region, recordsFor([71, 72]), { count: 3, ends: false })
    const frames = batchFrames(other, one.region, long)
    one.card.serve(...frames.slice(0, 8), ...shorts)
    const [status] = statuses(one.card.serve(...frames.slice(8)))
    expect(status).toMatchObject({ said: 'durable', durable: [0] })
    expect(one.card.read(other, one.region, 70, 0, 4096)).toEqual(dataOf(65536, 70).slice(0, 4096))
    expect(one.card.counter('BATCH_ROOM')).toBe(1)
  })
})

describe('room that is given back while it is still of use', () => {
  const LONG = { capacity: 65536, slots: 80 }
  const long = (slot: number): BatchRecord => ({ slot, data: dataOf(65536, slot) })

  function holdsLong({ card, region }: BatchSetting, slot: number): boolean {
    const at = slotOffset(region, 0, slot) + LINE_BYTES
    const found = card.nvdimm.live.subarray(at, at + 65536)
    return Buffer.compare(found, long(slot).data) === 0
  }

  test('a batch is refused while its record is gathered: the rest of that goes nowhere', () => {
    const one = batchSetting(LONG, 4096, 1 << 24)
    for (let i = 0; i < 4; i++) {
      const qp = one.card.connect(4096, 0, 60 + i)
      const records = upTo(i < 3 ? 16 : 15).map((n) => long(16 * i + n))
      one.card.serve(...batchFrames(qp, one.region, records, { count: 17, ends: false }))
    }
    // Beside the long record, the last chunk has room for seven short ones.
    const shorts = recordsFor(upTo(79, 71))
    const refused = batchFrames(one.qp, one.region, [...shorts, long(70)])
    expect(one.card.serve(...refused.slice(0, 12))).toEqual([])
    expect(one.card.counter('BATCH_ROOM')).toBe(1)
    // Another one takes the chunk, and has nearly filled it when the rest comes.
    const other = one.card.connect(4096, 0, 99)
    const frames = batchFrames(other, one.region, [long(69)])
    one.card.serve(...frames.slice(0, -1))
    const said = statuses(one.card.serve(...refused.slice(12), ...frames.slice(-1)))
    expect(said.map(({ said: why }) => why).sort()).toEqual(['BATCH_ROOM', 'durable'])
    expect(holdsLong(one, 69)).toBe(true)
  })

  test('what is in the group keeps its place until that is committed', () => {
    for (const end of ['a contradiction', 'the end of its queue pair']) {
      const one = batchSetting(LONG, 4096, 1 << 24)
      const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
      const records = [long(1), long(2)]
      one.card.serve(...batchFrames(one.qp, one.region, records, { ends: false, count: 9 }))
      // In one burst: what is held joins the group, the batch ends, another gathers.
      const write = writeFrames(one.qp, bytes, 0, dataOf(8, 1))
      const wrong = batchFrames(one.qp, one.region, [{ slot: 5, data: dataOf(64, 1) }])
      const fatal = frameOf({ bth: { opcode: 0x18, destQp: one.qp.number, psn: one.qp.psn - 1 } })
      const other = one.card.connect(4096, 0, 99)
      const frames = batchFrames(other, one.region, [long(40), long(41)])
      const last = end === 'a contradiction' ? wrong : [fatal]
      one.card.serve(...write, ...last, ...frames.slice(0, 30))
      one.card.serve(...frames.slice(30))
      for (const slot of [1, 2, 40, 41]) expect(holdsLong(one, slot), end).toBe(true)
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })
})

describe('regions', () => {
  const regions = {
    bytes: { name: 'bytes', kind: mad.KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST },
  }

  test('a region of bytes takes no batches', () => {
    const one = batchSetting()
    const region = one.card.provision(regions.bytes)
    const before = contentOf(one.card)
    const [status] = statuses(one.card.serve(...batchFrames(one.qp, region, recordsFor(upTo(5)))))
    expect(status).toMatchObject({ said: 'BATCH_REGION', durable: [], count: 5 })
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })

  test('S1-M5: one in the memory of the host behind its caches does, without an agent none', () => {
    const { card, region, qp, agent } = placed(DDIO_ON)
    const records = recordsFor(upTo(2)).map((record) => ({ ...record, data: dataOf(8, 1) }))
    card.serve(...batchFrames(qp, region, records))
    const sent: Sent[] = []
    for (let i = 0; i < 12; i++) {
      agent!.poll()
      sent.push(...card.pass(10))
    }
    expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: [0, 1], count: 2 }])
    tellAgent(card, mad.AGENT_DETACH, agent!.queues.sendQueue)
    const [status] = statuses(card.serve(...batchFrames(qp, region, records)))
    expect(status).toMatchObject({ said: 'NO_AGENT', durable: [], count: 2 })
  })

  test('P4-13: one in the memory of the host past its caches does, and says how', () => {
    const { card, region, qp } = placed(DDIO_OFF)
    const count = Math.min(4, region.slots)
    const records = recordsFor(upTo(count)).map((record) => ({ ...record, data: dataOf(8, 1) }))
    const [status] = statuses(card.serve(...batchFrames(qp, region, records)))
    expect(status).toMatchObject({ said: 'durable', durable: upTo(count) })
    expect(status!.paeth.mechanism).toBe(2)
  })
})

describe('lengths', () => {
  test('an extension that the packet does not hold is no frame', () => {
    const one = batchSetting()
    for (const length of [0, 4]) {
      const frame = batchFrames({ ...one.qp }, one.region, [
        { slot: 1, data: dataOf(length, 1) },
      ])[0]!
      // The condition of the batch says that there is an extension.
      frame[72] = 0x2c
      writeIcrc(frame)
      expect(one.card.serve(frame)).toEqual([])
    }
    expect(one.card.counter('FRAME_SHORT')).toBe(2)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })

  test('carried copies of any number, with addresses or without, are refused whole', () => {
    for (const furtherCopies of [0, 1, 2, 3]) {
      for (const slotAddressed of [false, true]) {
        const one = batchSetting()
        const before = contentOf(one.card)
        const { qp, region } = one
        const base = qp.psn
        const frame = frameOf({
          bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
          reth: { rkey: region.rkey, length: 8, vaLow: slotAddressed ? 0 : 2 ** 29 },
          pweth: {
            ...{ wait: 2, slotAddressed, wantsAck: true, carried: true, furtherCopies },
            ...{ batch: true, oneStatus: true, lastOfBatch: true, operationLow: 5 },
          },
          extensions: slotAddressed
            ? []
            : upTo(furtherCopies).map(() => ({ vaHigh: 0, vaLow: 0, rkey: 0, length: 0 })),
          payload: dataOf(8 * (furtherCopies + 1), 1),
        })
        const sent = one.card.serve(frame)
        expect(statuses(sent).map(({ said }) => said)).toEqual(['BATCH_FIELDS'])
        expect(lines(sent, base).at(-1)).toBe('ACK 0')
        expect(firstDifference(contentOf(one.card), before)).toBe(-1)
        expect(heldBy(one.state)).toEqual(NOTHING_HELD)
      }
    }
  })
})

test('seeded: spoilt headers of batches store no half record, and leave nothing held', () => {
  const random = new Random(SEED)
  for (let run = 0; run < 10; run++) {
    const one = batchSetting({ slots: 16 }, [256, 4096][run % 2]!)
    const known = new Map<number, Set<string>>()
    const note = (slot: number, data: Uint8Array): void => {
      const set = known.get(slot) ?? new Set([Buffer.alloc(64).toString('hex')])
      known.set(slot, set.add(Buffer.from(data).toString('hex')))
    }
    let pairs = upTo(3).map((i) => one.card.connect(one.qp.mtu, 0, 40 + i))
    for (let step = 0; step < 12; step++) {
      const frames = upTo(1 + random.below(12)).flatMap(() => {
        const qp = pairs[random.below(pairs.length)]!
        const count = 1 + random.below(6)
        const records = upTo(count).map((i) => {
          const slot = random.below(16)
          const data = dataOf(64, step * 100 + i)
          note(slot, data)
          return { slot, data }
        })
        const options: BatchOptions = { condition: random.below(3), id: random.below(3) }
        return batchFrames(qp, one.region, records, { ...options, ends: random.below(4) > 0 })
      })
      for (const frame of frames) spoil(frame, random)
      one.card.serve(...frames)
      if (random.below(4) === 0) one.card.pass(random.below(2 * BATCH_TIMEOUT_US))
      pairs = pairs.map((qp, i) => {
        const broken = random.below(3) === 0
        if (broken) disconnect(one.card, qp)
        return broken ? one.card.connect(one.qp.mtu, 0, 40 + i) : qp
      })
    }
    one.card.pass(2 * BATCH_TIMEOUT_US)
    one.card.pass(2 * STAGING_TIMEOUT_US)
    expect(heldBy(one.state), `seed ${SEED}, run ${run}`).toEqual(NOTHING_HELD)
    for (const [slot, values] of known) {
      const found = one.card.read(one.card.connect(), one.region, slot, 0, 64)!
      expect([...values], `seed ${SEED}, run ${run}`).toContain(Buffer.from(found).toString('hex'))
    }
    const frames = persistFrames(one.card.connect(), one.region, 1, dataOf(64, 1))
    expect(persistAcks(one.card.serve(...frames)).length).toBe(1)
  }
})

/** Now and then some bits of the header of the batch are others; the packet is whole. */
function spoil(frame: Uint8Array, random: Random): void {
  if (random.below(6) > 0) return
  const at = 70 + random.below(16)
  frame[at] = frame[at]! ^ (1 << random.below(8))
  writeIcrc(frame)
}

test('EXPECT is a condition like the others in all of this', () => {
  const one = batchSetting()
  const frames = batchFrames(one.qp, one.region, recordsFor(upTo(4)), { condition: EXPECT })
  one.card.serve(...frames.slice(0, 2))
  one.card.pass(BATCH_TIMEOUT_US)
  expect(heldBy(one.state)).toEqual(NOTHING_HELD)
})
