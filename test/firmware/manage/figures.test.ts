/**
 * What a card counts of its acknowledgements, per region, and how soon they came (burst/figures.ts,
 * FIGURES of wire/management.ts): each way in which something becomes durable counts once, and
 * nothing else counts.
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { BUCKETS, bucketOf } from '../../../firmware/board/latency.ts'
import { FLUSH_TIMEOUT_US, LINE_BYTES } from '../../../firmware/board/limits.ts'
import {
  countReleased,
  createFigures,
  forgetFigures,
  noteDurable,
} from '../../../firmware/burst/figures.ts'
import { ATOMIC_WRITE } from '../../../firmware/transport/requester.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { KIND_BYTES, METHOD_GET, METHOD_SET } from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import { bucketBeginUs } from '../../../host-driver/control/buckets.ts'
import { guardOf } from '../../../host-driver/index.ts'
import { batchFrames, batchSetting, bytesMember, IN_ORDER } from '../../support/cards/batch-card.ts'
import { bytesCard, KEPT_AT } from '../../support/cards/bytes-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import { asksFigures, countsOf, figuresOf } from '../../support/cards/figures.ts'
import { attachedAgent, placed, work } from '../../support/cards/placed.ts'
import { attaching, related } from '../../support/cards/relay-wire.ts'
import {
  ackStatuses,
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { localQueue, one, record } from '../../support/queues/local-queue.ts'
import { PORT, publish } from '../../support/wire/cm.ts'
import { asksFor, type RegionShape } from '../../support/wire/conversation.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  atomicWriteFrame,
  carriedFrames,
  fetchAddFrame,
  flushFrame,
  setting,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

/** Where bucket `b` begins, µs, as the map of FIGURES says it. */
function beginOf(b: number): number {
  return b < 4 ? b : (4 + (b % 4)) * 2 ** (Math.floor(b / 4) - 1)
}

/** A card with one region of records that takes so many bytes. */
function made(capacity = 64): ReturnType<typeof setting> {
  return setting({ slots: 64, capacity })
}

/** The call that makes a region. */
function make(card: TestCard, shape: RegionShape): Uint8Array {
  return card.callFrame(METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor({ slots: 1, ...shape }))
}

/** A WRITE_PERSIST of plain bytes to the begin of the region. */
function placedFrame(qp: TestPeer, region: TestRegion, data: Uint8Array): Uint8Array {
  qp.operation += 1
  qp.psn += 1
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn - 1, ackRequest: true },
    reth: { vaHigh: region.baseHigh, vaLow: 0, rkey: region.rkey, length: data.length },
    pweth: { wait: 1, wantsAck: true, operationLow: qp.operation },
    payload: data,
  })
}

describe('buckets', () => {
  const all = Array.from({ length: BUCKETS }, (_, b) => b)

  test.each(all)('bucket %i has the times from its begin up to the next one', (b) => {
    expect(bucketBeginUs(b)).toBe(beginOf(b))
    expect(bucketOf(beginOf(b))).toBe(b)
    expect(bucketOf(beginOf(b) + 0.5)).toBe(b)
    const last = b === BUCKETS - 1 ? 2 ** 53 : beginOf(b + 1) - 1
    expect(bucketOf(last)).toBe(b)
    if (b > 0) expect(bucketOf(beginOf(b) - 1)).toBe(b - 1)
  })

  test('each power of two from 4 on has four of one width', () => {
    for (let exponent = 2; 4 * (exponent - 1) + 4 < BUCKETS; exponent++) {
      const first = 4 * (exponent - 1)
      expect(beginOf(first)).toBe(2 ** exponent)
      for (let step = 0; step < 4; step++) {
        expect(beginOf(first + step + 1) - beginOf(first + step)).toBe(2 ** (exponent - 2))
      }
    }
  })

  test.each([2 ** 27 - 1, 2 ** 27, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 2 ** 53, Infinity])(
    'the last one has no end: %d µs',
    (us) => expect(bucketOf(us)).toBe(BUCKETS - 1),
  )

  test.each([BUCKETS, BUCKETS + 1, 255])('there is no bucket %i', (b) => {
    expect(bucketBeginUs(b)).toBe(Infinity)
  })
})

describe('the time', () => {
  test.each([0, 1, 3, 4, 5, 7, 8, 9, 100, 1023, 1024, 65_535, 1e6, 2 ** 27, 2 ** 40])(
    'runs from the burst to the end of its call, as the board says it: %i µs',
    (us) => {
      const { card, region, qp } = made()
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
      card.machine.tellEnd(card.now + us)
      card.now += us + 1000
      expect(figuresOf(card)).toMatchObject({ buckets: { [bucketOf(us)]: 1 }, timeUs: us })
    },
  )

  test('is that to the next call where the board does not say', () => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    card.pass(500)
    expect(figuresOf(card).buckets).toEqual({ [bucketOf(500)]: 1 })
  })

  test('is never less than nothing, nor more than to the next call, whatever a board says', () => {
    for (const [said, us] of [
      [1, 0],
      [2 ** 60, 10],
      [-1, 10],
      [Number.NaN, 10],
    ] as const) {
      const { card, region, qp } = made()
      card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
      card.machine.tellEnd(said)
      expect(figuresOf(card).buckets).toEqual({ [bucketOf(us)]: 1 })
    }
  })

  test('is that of the burst with the last record, of a batch that came in several', () => {
    const { card, region, qp } = batchSetting()
    const frames = batchFrames(
      qp,
      region,
      [1, 2, 3].map((i) => ({ slot: i, data: dataOf(64, i) })),
    )
    card.serve(...frames.slice(0, 2))
    card.pass(3000)
    card.serve(...frames.slice(2))
    card.machine.tellEnd(card.now + 6)
    expect(figuresOf(card)).toMatchObject({ buckets: { [bucketOf(6)]: 3 }, timeUs: 18 })
  })
})

describe('what counts', () => {
  test('a record, with the bytes of its data and not of its copies', () => {
    const { card, region, qp } = made(1000)
    card.serve(...persistFrames(qp, region, 0, dataOf(1000, 1)))
    expect(countsOf(card)).toEqual([1, 1000])
    card.serve(...persistFrames(qp, region, 0, new Uint8Array(0)))
    expect(countsOf(card)).toEqual([2, 1000])
  })

  test.each([1, 2, 31, 32, 33, 64])('each record of a burst: %i', (records) => {
    const { card, region, qp } = made()
    const frames = Array.from({ length: records }, (_, i) =>
      persistFrames(qp, region, i, dataOf(i % 64, i)),
    )
    card.serve(...frames.flat())
    const bytes = frames.reduce((all, _, i) => all + (i % 64), 0)
    expect(countsOf(card)).toEqual([records, bytes])
  })

  test.each([1, 2])('a record that asks for level %i of 2', (wait) => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait }))
    expect(countsOf(card)).toEqual([1, 64])
  })

  test('a record that wants no acknowledgement, as it is as durable as any', () => {
    const { card, region, qp } = made()
    const sent = card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wantsAck: false }))
    expect(persistAcks(sent)).toEqual([])
    expect(countsOf(card)).toEqual([1, 64])
  })

  test('a record of several packets, and one that carries its copies, once', () => {
    const { card, region } = made(3000)
    const qp = card.connect(256)
    card.serve(...persistFrames(qp, region, 0, dataOf(3000, 1)))
    expect(countsOf(card)).toEqual([1, 3000])
    card.serve(...carriedFrames(qp, region, 1, [dataOf(700, 1), dataOf(700, 1)]))
    expect(countsOf(card)).toEqual([2, 3700])
  })

  test('each record of a batch, whatever of it was refused', () => {
    const { card, region, qp } = batchSetting()
    const members = [0, 1, 2, 3].map((i) => ({ slot: i, data: dataOf(60, i) }))
    card.serve(...batchFrames(qp, region, members))
    expect(countsOf(card)).toEqual([4, 240])
    const spoilt = members.map((one, i) => (i === 2 ? { ...one, wait: 3 } : one))
    card.serve(...batchFrames(qp, region, spoilt, { condition: IN_ORDER }))
    expect(countsOf(card)).toEqual([6, 360])
  })

  test('a batch into several regions, in each of them', () => {
    const { card, region, qp } = batchSetting()
    const other = card.provision({ name: 'other' })
    const kept = { kind: KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST }
    const bytes = card.provision({ name: 'bytes', ...kept })
    const members = [
      { slot: 0, data: dataOf(10, 1) },
      { slot: 1, data: dataOf(20, 2), reth: { rkey: other.rkey } },
      bytesMember(bytes, 128, dataOf(40, 3)),
    ]
    card.serve(...batchFrames(qp, region, members))
    const all = ['records', 'other', 'bytes'].map((name) => countsOf(card, name))
    expect(all).toEqual([
      [1, 10],
      [1, 20],
      [1, 40],
    ])
  })

  test('a plain WRITE of a record, whose ACK is withheld until it is committed', () => {
    const { card, region, qp } = made()
    card.serve(...writeFrames(qp, region.rkey, 0, dataOf(64, 1), { vaHigh: 3 }))
    expect(countsOf(card)).toEqual([1, 64])
  })

  test('a WRITE whose ACK is withheld, when its fence is done', () => {
    const { card, kept, qp } = bytesCard()
    card.serve(...writeFrames(qp, kept, 0, dataOf(2500, 1), { ackRequest: false }).slice(0, 2))
    expect(countsOf(card, 'kept')).toEqual([0, 0])
    const silent = bytesCard()
    const frames = writeFrames(silent.qp, silent.kept, 0, dataOf(2500, 1), { ackRequest: false })
    silent.card.serve(...frames)
    expect(countsOf(silent.card, 'kept')).toEqual([0, 0])
    // The fence of whoever comes next is for it, too.
    silent.card.serve(...persistFrames(silent.qp, silent.records, 0, dataOf(8, 1)))
    expect(countsOf(silent.card, 'kept')).toEqual([1, 2500])
    silent.card.serve(...writeFrames(silent.qp, silent.kept, 0, dataOf(5, 1)))
    expect(countsOf(silent.card, 'kept')).toEqual([2, 2505])
    expect(countsOf(silent.card, 'bytes')).toEqual([0, 0])
  })

  test('a WRITE_PERSIST of plain bytes', () => {
    const { card, kept, qp } = bytesCard()
    expect(ackStatuses(card.serve(placedFrame(qp, kept, dataOf(100, 1))))).toEqual([0])
    expect(countsOf(card, 'kept')).toEqual([1, 100])
  })

  test('a FLUSH to persistence, with the range that it names', () => {
    const { card, bytes, kept, qp } = bytesCard()
    const [write] = writeFrames(qp, bytes, 0, dataOf(300, 1))
    card.serve(write!, flushFrame(qp, bytes, { length: 300 }))
    expect(countsOf(card, 'bytes')).toEqual([1, 300])
    card.serve(flushFrame(qp, bytes, { placement: 3, length: 40 }))
    expect(countsOf(card, 'bytes')).toEqual([2, 340])
    card.serve(flushFrame(qp, bytes, { selectivity: 1 }))
    expect(countsOf(card, 'bytes')).toEqual([3, 340])
    // Of visibility alone nothing is durable; what is kept is counted as it is stored.
    card.serve(flushFrame(qp, bytes, { placement: 1, length: 40 }))
    expect(countsOf(card, 'bytes')).toEqual([3, 340])
    card.serve(...writeFrames(qp, kept, 0, dataOf(50, 1)), flushFrame(qp, kept, { length: 50 }))
    expect(countsOf(card, 'kept')).toEqual([2, 50])
  })

  test('an atomic and an ATOMIC WRITE, where stores are kept', () => {
    const { card, bytes, kept, qp } = bytesCard()
    card.serve(fetchAddFrame(qp, kept, 0, 1n), atomicWriteFrame(qp, kept, 8, dataOf(8, 1)))
    expect(countsOf(card, 'kept')).toEqual([2, 16])
    card.serve(fetchAddFrame(qp, bytes, 0, 1n), atomicWriteFrame(qp, bytes, 8, dataOf(8, 1)))
    expect(countsOf(card, 'bytes')).toEqual([0, 0])
  })

  test('a record in the memory of the host, past its caches', () => {
    const { card, region, qp } = placed(DDIO_OFF)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(countsOf(card)).toEqual([1, 64])
  })

  test.each([1, 2])('a record that the host writes back, from when it came, level %i', (wait) => {
    const { card, region, qp, agent } = placed(DDIO_ON)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait }))
    expect(countsOf(card)).toEqual([0, 0])
    card.pass(5000)
    work(card, agent!)
    expect(countsOf(card)).toEqual([1, 64])
    const [bucket] = Object.keys(figuresOf(card).buckets).map(Number)
    expect(bucket).toBeGreaterThanOrEqual(bucketOf(5000))
    // It is known, and nobody writes it back a second time.
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), { wait, operation: qp.operation }))
    work(card, agent!)
    expect(countsOf(card)).toEqual([1, 64])
  })

  test('a record that goes on to another card, at both of them', () => {
    const wire = related()
    expect(wire.attach()).toBe('PASS')
    const { qp, rkey } = wire.open()
    wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
    wire.pass(100)
    expect(countsOf(wire.hostA, 'far')).toEqual([1, 100])
    expect(countsOf(wire.hostB, 'far')).toEqual([1, 100])
    wire.serve(...persistFrames(qp, { rkey }, 64, dataOf(100, 1)))
    wire.pass(100)
    expect(countsOf(wire.hostA, 'far')).toEqual([1, 100])
  })

  test("a record of the host's own queue, and what that queue stores into kept bytes", () => {
    const queue = localQueue()
    const { card } = queue.host
    const region = card.provision({ slots: 4, capacity: 256 })
    const kept = { kind: KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST }
    const bytes = card.provision({ name: 'bytes', ...kept })
    one(queue, record(queue, region, 0, 1, dataOf(64, 1)))
    expect(countsOf(card)).toEqual([1, 64])
    const address = bytes.baseHigh * 2 ** 32
    const to = { rkey: bytes.rkey, address, inline: dataOf(16, 1) }
    expect(one(queue, { opcode: 2, ...to })).toMatchObject({ status: 0 })
    expect(countsOf(card, 'bytes')).toEqual([1, 16])
    const word = { rkey: bytes.rkey, address, operation: 7 }
    expect(one(queue, { opcode: ATOMIC_WRITE, ...word })).toMatchObject({ status: 0 })
    expect(countsOf(card, 'bytes')).toEqual([2, 24])
  })
})

describe('what does not count', () => {
  test('a repetition, under its PSN or under another one', () => {
    const { card, region, qp } = made()
    const frames = persistFrames(qp, region, 0, dataOf(64, 1))
    card.serve(...frames)
    expect(ackStatuses(card.serve(...frames))).toEqual([0])
    const again = { operation: qp.operation, repetition: true }
    expect(ackStatuses(card.serve(...persistFrames(qp, region, 0, dataOf(64, 1), again)))).toEqual([
      0,
    ])
    expect(countsOf(card)).toEqual([1, 64])
  })

  test('a batch that comes again, and a FLUSH, an atomic and a WRITE that do', () => {
    const { card, region, qp } = batchSetting()
    const batch = batchFrames(qp, region, [{ slot: 0, data: dataOf(8, 1) }])
    card.serve(...batch)
    card.serve(...batch)
    expect(countsOf(card)).toEqual([1, 8])
    const two = bytesCard()
    const frames = [
      ...writeFrames(two.qp, two.kept, 0, dataOf(8, 1)),
      flushFrame(two.qp, two.bytes),
      fetchAddFrame(two.qp, two.kept, 0, 1n),
    ]
    for (const frame of frames) two.card.serve(frame)
    for (const frame of frames) two.card.serve(frame)
    expect(countsOf(two.card, 'kept')).toEqual([2, 16])
    expect(countsOf(two.card, 'bytes')).toEqual([1, 8])
  })

  test.each<[string, Parameters<typeof persistFrames>[4], number]>([
    ['whose level is not possible', { wait: 3 }, 0],
    ['whose slot is not there', {}, 64],
    ['whose guard is another', { guard: (guardOf(dataOf(64, 1)) ^ 1) >>> 0 }, 0],
  ])('a record %s', (_, options, slot) => {
    const { card, region, qp } = made()
    const sent = card.serve(...persistFrames(qp, region, slot, dataOf(64, 1), options))
    expect(ackStatuses(sent).filter((status) => status === 0)).toEqual([])
    expect(countsOf(card)).toEqual([0, 0])
  })

  test('a record that the medium refuses, beside others that it takes', () => {
    const { card, region, qp } = made()
    card.nvdimm.refuseWrites(slotOffset(region, 0, 1) / LINE_BYTES)
    const frames = [0, 1, 2].flatMap((slot) => persistFrames(qp, region, slot, dataOf(64, slot)))
    card.serve(...frames)
    expect(countsOf(card)).toEqual([2, 128])
  })

  test.each([1, 2, 3, 4])('a record whose fence %i fails', (nth) => {
    const { card, region, qp } = made()
    failFence(card, nth)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(countsOf(card)).toEqual([0, 0])
  })

  test('a record told to be in doubt, which a later agent of the host makes durable', () => {
    const { card, region, qp } = placed(DDIO_ON)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    // The first idle call begins the time; the second ends it.
    card.pass(FLUSH_TIMEOUT_US)
    card.pass(FLUSH_TIMEOUT_US)
    const agent = attachedAgent(card)
    work(card, agent)
    expect(agent.finished).toBeGreaterThan(0)
    expect(countsOf(card)).toEqual([0, 0])
    card.serve(...persistFrames(qp, region, 1, dataOf(32, 2)))
    work(card, agent)
    expect(countsOf(card)).toEqual([1, 32])
  })

  test('a WRITE into kept bytes whose fence fails, or whose queue pair does', () => {
    const first = bytesCard()
    failFence(first.card, 1)
    first.card.serve(...writeFrames(first.qp, first.kept, 0, dataOf(64, 1)))
    expect(countsOf(first.card, 'kept')).toEqual([0, 0])
    const { card, kept, records, qp } = bytesCard()
    const other = card.connect(1024)
    card.serve(...writeFrames(qp, kept, 0, dataOf(64, 1), { ackRequest: false }))
    card.nvdimm.refuseWrites((KEPT_AT + 4096) / LINE_BYTES)
    card.serve(...writeFrames(qp, kept, 4096, dataOf(64, 2)))
    card.serve(...persistFrames(other, records, 0, dataOf(8, 1)))
    expect(countsOf(card, 'kept')[0]).toBeLessThanOrEqual(1)
  })

  test('a READ, a WRITE into plain bytes, and a question', () => {
    const { card, bytes, qp } = bytesCard()
    card.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    for (const name of ['bytes', 'kept', 'records']) expect(countsOf(card, name)).toEqual([0, 0])
  })
})

describe('regions', () => {
  test('two of them are apart, also in one burst, in any order', () => {
    const card = new TestCard().format()
    const regions = ['one', 'two'].map((name) => card.provision({ name, slots: 16 }))
    const qp = card.connect()
    const order = [0, 1, 1, 0, 0, 0, 1, 0]
    const frames = order.flatMap((which, i) =>
      persistFrames(qp, regions[which]!, i, dataOf(10 * (which + 1), i)),
    )
    card.serve(...frames)
    expect(countsOf(card, 'one')).toEqual([5, 50])
    expect(countsOf(card, 'two')).toEqual([3, 60])
    expect(figuresOf(card, 'one').region).toBe(regions[0]!.id)
    expect(figuresOf(card, 'two').region).toBe(regions[1]!.id)
  })

  test('one that is removed and made again begins at nothing, also in its last burst', () => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(countsOf(card)).toEqual([1, 64])
    const name = (body: Uint8Array): void => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
    }
    const remove = card.callFrame(METHOD_SET, mad.ATTRIBUTE_REMOVE, name)
    card.serve(...persistFrames(qp, region, 1, dataOf(64, 1)), remove)
    for (let i = 0; i < 100; i++) card.idle()
    const next = card.provision({ slots: 64 })
    expect(next.id).not.toBe(region.id)
    expect(figuresOf(card)).toMatchObject({ bytes: 0, timeUs: 0, buckets: {}, region: next.id })
  })

  test('one that begins in a burst leaves what that burst did to others', () => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)), make(card, { name: 'other' }))
    expect(card.open('other').id).toBeGreaterThan(0)
    expect(countsOf(card)).toEqual([1, 64])
    expect(countsOf(card, 'other')).toEqual([0, 0])
  })

  test('a relay that ends and is made again begins at nothing', () => {
    const wire = related()
    wire.attach()
    const { qp, rkey } = wire.open()
    wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
    wire.pass(100)
    expect(countsOf(wire.hostA, 'far')).toEqual([1, 100])
    wire.serve(wire.a.callFrame(METHOD_SET, mad.ATTRIBUTE_DETACH, asksFigures('far')))
    for (let i = 0; i < 10; i++) wire.pass(100_000)
    expect(wire.attach()).toBe('PASS')
    expect(countsOf(wire.hostA, 'far')).toEqual([0, 0])
  })

  test('a relay in the place of one that ends as an answer comes has nothing of it', () => {
    const wire = related()
    wire.attach()
    publish(wire.b, { name: 'far', form: mad.FORM_CAPABILITY, port: PORT + 1 })
    const { qp, rkey } = wire.open()
    const toB = wire.sentByA(() => wire.a.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1))))
    wire.b.serve(...toB)
    wire.b.idle()
    const answers = wire.b.sent.map(({ bytes }) => bytes)
    const detach = wire.a.callFrame(METHOD_SET, mad.ATTRIBUTE_DETACH, asksFigures('far'))
    const other = attaching('other', PORT + 1)
    wire.serve(...answers, detach, wire.a.callFrame(METHOD_SET, mad.ATTRIBUTE_ATTACH, other))
    expect(ackStatuses(wire.heard)).toEqual([0])
    expect(wire.ask(other)).toBe('PASS')
    expect(countsOf(wire.hostA, 'other')).toEqual([0, 0])
  })

  test('everything is gone with the power', () => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(countsOf(card)).toEqual([1, 64])
    const again = new TestCard(card.nvdimm)
    expect(countsOf(again)).toEqual([0, 0])
    // The two questions.
    expect(figuresOf(again, '').bursts).toBe(2)
  })
})

describe('the card', () => {
  test('counts bursts, fences and PERSIST_ACKs', () => {
    const { card, region, qp } = made()
    const before = figuresOf(card, '')
    const { fences } = card.machine.statistics
    const sent = card.serve(...[0, 1, 2].flatMap((i) => persistFrames(qp, region, i, dataOf(8, i))))
    card.serve(...persistFrames(qp, region, 0, dataOf(8, 1), { wait: 3 }))
    card.serve(flushFrame(qp, region))
    const after = figuresOf(card, '')
    expect(after.bursts - before.bursts).toBe(4)
    expect(after.fences - before.fences).toBe(card.machine.statistics.fences - fences)
    // A range, a refusal, and the answer to a FLUSH.
    expect(persistAcks(sent).length).toBe(1)
    expect(after.acks - before.acks).toBe(3)
  })

  test('without a name tells of itself alone', () => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    expect(figuresOf(card, '')).toMatchObject({ region: 0, bytes: 0, buckets: {} })
  })

  test('does so while its part is blank, and knows no region then', () => {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 18 }))
    expect(figuresOf(card, '')).toMatchObject({ fences: 0, acks: 0, buckets: {} })
    const { fault } = card.manage(METHOD_GET, mad.ATTRIBUTE_FIGURES, asksFigures('records'))
    expect(fault).toBe('NO_REGION')
  })
})

describe('the call', () => {
  test('tells as many buckets as a datagram has room for, and where to go on', () => {
    const { card, region, qp } = made()
    const times = Array.from({ length: 40 }, (_, i) => beginOf(2 * i + 1))
    for (const us of times) {
      card.serve(...persistFrames(qp, region, 0, dataOf(1, 1)))
      card.machine.tellEnd(card.now + us)
      card.now += us
    }
    const ask = (first: number): Uint8Array => {
      return card.must(METHOD_GET, mad.ATTRIBUTE_FIGURES, asksFigures('records', first))
    }
    const next: number[] = []
    for (let first = 0; next.length < 3; next.push(first)) first = ask(first)[mad.FIGURES_NEXT]!
    expect(next).toEqual([29, 57, 0])
    expect(ask(0)[mad.FIGURES_HERE]).toBe(mad.FIGURES_PER_MAD)
    expect(figuresOf(card).buckets).toEqual(Object.fromEntries(times.map((_, i) => [2 * i + 1, 1])))
  })

  test('an answer that is sealed has room for them', () => {
    const end = mad.FIGURES_BUCKETS + mad.FIGURES_PER_MAD * mad.FIGURES_BUCKET_BYTES
    expect(end).toBeLessThanOrEqual(mad.SEALED_BODY_BYTES)
  })

  test.each([BUCKETS, BUCKETS + 1, 255])('from bucket %i on there is none', (first) => {
    const { card, region, qp } = made()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const ask = asksFigures('records', first)
    const body = card.must(METHOD_GET, mad.ATTRIBUTE_FIGURES, ask)
    expect([body[mad.FIGURES_HERE], body[mad.FIGURES_NEXT]]).toEqual([0, 0])
  })

  test('of a region that there is not, or by the wrong method, it is refused', () => {
    const { card } = made()
    const ask = asksFigures('nothing')
    expect(card.manage(METHOD_GET, mad.ATTRIBUTE_FIGURES, ask).fault).toBe('NO_REGION')
    expect(card.manage(METHOD_SET, mad.ATTRIBUTE_FIGURES, ask).fault).toBe('REQUEST')
  })
})

describe('numbers without end', () => {
  const memory = new ArrayBuffer(1 << 12)
  const figures = createFigures({ memory } as Parameters<typeof createFigures>[0])

  test.each([2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, 2 ** 53])('%i and one more goes on', (count) => {
    forgetFigures(figures, 0)
    figures.buckets[7] = count
    figures.bytes[0] = count
    noteDurable(figures, 0, 0, 5, 64)
    countReleased(figures, 0, 7)
    expect(figures.buckets[7]).toBeGreaterThanOrEqual(count)
    expect(figures.buckets[7]! - count).toBeGreaterThanOrEqual(4)
    expect(figures.bytes[0]! - count).toBeGreaterThanOrEqual(63)
  })

  test('what a datagram cannot say stays at 2^53', () => {
    const { card, state, region, qp } = batchSetting()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    state.figures.buckets[bucketOf(10)] = 2 ** 60
    expect(figuresOf(card).buckets).toEqual({ [bucketOf(10)]: 2 ** 53 })
  })

  test('so many things at once are counted that nothing is lost', () => {
    forgetFigures(figures, 0)
    for (let i = 0; i < 512; i++) noteDurable(figures, 0, i, 1, 1)
    countReleased(figures, 0, 512)
    expect(figures.bytes[0]).toBe(512)
    // One more than there are entries.
    for (let i = 0; i < 513; i++) noteDurable(figures, 0, i, 1, 1)
    countReleased(figures, 0, 513)
    expect(figures.bytes[0]).toBe(1024)
  })
})
