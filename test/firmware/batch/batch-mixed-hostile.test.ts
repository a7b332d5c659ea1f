/**
 * Batches of several regions, and of bytes, that contradict themselves, or name what takes none
 * (S1-M9; source 4).
 *
 * Invariant: what is refused whole has stored nothing, and has one status; what names no bytes that
 * it may write draws a NAK, as every request; what a member alone asks wrongly is told of that one,
 * and the others are judged by the condition. Nothing is held behind any of them.
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF } from '../../../boards/emulator/host/host-memory.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchRecord,
  batchFrames,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { figureOf, MixedCard } from '../../support/cards/mixed-card.ts'
import { placed } from '../../support/cards/placed.ts'
import { dataOf, type Sent, type TestRegion } from '../../support/cards/test-card.ts'
import {
  contentOf,
  firstDifference,
  NAK_ACCESS,
  NAK_INVALID,
  sendFrames,
} from '../../support/wire/requests.ts'

const CONDITIONS = [INDEPENDENT, IN_ORDER, EXPECT]

/** A member that is wrong. */
type Wrong = (one: MixedCard) => BatchRecord

/** Serves the figure, and behind it that member; the condition is in order. */
function withLast(one: MixedCard, last: BatchRecord, condition = IN_ORDER): Sent[] {
  const members = [...figureOf(one), last]
  return one.card.serve(...batchFrames(one.qp, one.first, members, { condition }))
}

function provisionBytes(one: MixedCard, name: string, shape = {}): TestRegion {
  const bytes = { kind: mad.KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST }
  return one.card.provision({ name, ...bytes, ...shape })
}

/** A member that goes to the begin of another area. */
function into(one: MixedCard, area: TestRegion, length = 64): BatchRecord {
  const member = one.bytes(0, dataOf(length, 1))
  return { ...member, reth: { ...member.reth, rkey: area.rkey } }
}

const WHOLE: readonly (readonly [string, string, Wrong])[] = [
  ['the same bytes again', 'BATCH_FIELDS', (one) => one.bytes(100, dataOf(300, 9))],
  ['the first byte of others', 'BATCH_FIELDS', (one) => one.bytes(99, dataOf(2, 9))],
  ['the last byte of others', 'BATCH_FIELDS', (one) => one.bytes(399, dataOf(1, 9))],
  ['bytes around others', 'BATCH_FIELDS', (one) => one.bytes(0, dataOf(6000, 9))],
  ['bytes of a long one', 'BATCH_FIELDS', (one) => one.bytes(5999, dataOf(500, 9))],
  ['a slot again', 'BATCH_FIELDS', (one) => one.record(one.second, 3, dataOf(8, 9))],
  [
    'carried bytes',
    'BATCH_FIELDS',
    (one) => ({
      ...one.bytes(7000, dataOf(128, 9)),
      reth: { rkey: one.area.rkey, length: 64 },
      pweth: { carried: true, furtherCopies: 1 },
    }),
  ],
  [
    'bytes by a slot',
    'BATCH_REGION',
    (one) => ({ slot: 1, data: dataOf(64, 9), reth: { rkey: one.area.rkey } }),
  ],
]

describe('refused whole', () => {
  for (const condition of CONDITIONS) {
    test.each(WHOLE)(`S1-M9: %s, condition ${condition}`, (_, said, last) => {
      const one = new MixedCard()
      const before = contentOf(one.card)
      expect(statuses(withLast(one, last(one), condition))).toMatchObject([{ said, durable: [] }])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
      const again = statuses(withLast(one, one.bytes(400, dataOf(600, 9))))
      expect(again).toMatchObject([{ said: 'durable', durable: upTo(6) }])
    })
  }

  test('S1-M9: a region of another placement, first or behind', () => {
    const made = placed(DDIO_OFF)
    const local = made.card.provision({ name: 'local', slots: 4 })
    for (const [first, other] of [
      [made.region, local],
      [local, made.region],
    ] as const) {
      const members = [first, other].map(({ rkey }) => ({
        ...{ slot: 0, data: dataOf(64, 1), reth: { rkey } },
      }))
      const sent = made.card.serve(...batchFrames(made.qp, first, members))
      expect(statuses(sent)).toMatchObject([{ said: 'BATCH_REGION', durable: [] }])
    }
  })
})

const NAKS: readonly (readonly [string, number, Wrong])[] = [
  ['bytes behind the end', NAK_ACCESS, (one) => one.bytes(65536 - 63, dataOf(64, 9))],
  [
    'bytes before the begin',
    NAK_ACCESS,
    (one) => ({ ...one.bytes(0, dataOf(8, 9)), reth: { rkey: one.area.rkey, vaLow: 0 } }),
  ],
  ['a guard', NAK_INVALID, (one) => ({ ...one.bytes(7000, dataOf(64, 9)), guard: 77 })],
  [
    'records by address',
    NAK_INVALID,
    (one) => ({ ...one.record(one.first, 9, dataOf(64, 9)), pweth: { slotAddressed: false } }),
  ],
  [
    'bytes that are not registered',
    NAK_ACCESS,
    (one) => into(one, provisionBytes(one, 'plain', { flags: 0 })),
  ],
  [
    'bytes of another protection domain',
    NAK_ACCESS,
    (one) => into(one, provisionBytes(one, 'other', { domain: 3 })),
  ],
]

describe('a NAK', () => {
  test.each(NAKS)('S1-M9: %s', (_, syndrome, last) => {
    const one = new MixedCard()
    const wrong = last(one)
    const before = contentOf(one.card)
    const sent = withLast(one, wrong)
    expect(statuses(sent)).toEqual([])
    expect(sent.map((frame) => frame.syndrome)).toContain(syndrome)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  })
})

const ALONE: readonly (readonly [string, string, Wrong])[] = [
  ['two copies of bytes', 'LEVEL', (one) => ({ ...one.bytes(7000, dataOf(64, 9)), wait: 2 })],
  ['more bytes than a record has', 'RECORD_LENGTH', (one) => one.bytes(8192, dataOf(65537, 9))],
]

describe('refused alone', () => {
  for (const condition of CONDITIONS) {
    test.each(ALONE)(`S1-M9: %s, condition ${condition}`, (_, said, wrong) => {
      const one = new MixedCard(null, { areaBytes: 1 << 17 })
      const [first, ...others] = figureOf(one)
      const members = [first!, wrong(one), ...others]
      const expecting = one.expecting(members)
      const sent = one.card.serve(...batchFrames(one.qp, one.first, expecting, { condition }))
      const durable = upTo(6).filter((i) => (condition === IN_ORDER ? i < 1 : i !== 1))
      expect(statuses(sent)).toMatchObject([{ said, durable }])
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    })
  }

  test('S1-M9: a sequence that bytes have not', () => {
    const one = new MixedCard()
    const members = one.expecting(figureOf(one))
    members[1] = { ...members[1]!, expect: 5n }
    const sent = one.card.serve(...batchFrames(one.qp, one.first, members, { condition: EXPECT }))
    expect(statuses(sent)).toMatchObject([{ said: 'CONDITION', durable: [0, 2, 3, 4] }])
    expect(one.found(members[1]!)).toEqual(new Uint8Array(300))
  })

  test('S1-M9: no bytes, at the begin, inside, and at the end', () => {
    for (const condition of CONDITIONS) {
      const one = new MixedCard()
      const members = [0, 70, 65536].map((at) => one.bytes(at, new Uint8Array(0)))
      const sent = one.card.serve(...batchFrames(one.qp, one.first, members, { condition }))
      expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: upTo(3) }])
    }
  })

  test('S1-M9: as many bytes as a record has, and a second area of the same addresses', () => {
    for (const condition of CONDITIONS) {
      const one = new MixedCard(null, { areaBytes: 1 << 17 })
      const second = provisionBytes(one, 'second area')
      const members = [one.bytes(1, dataOf(65536, 3)), into(one, second), ...figureOf(one).slice(4)]
      const expecting = [...members.slice(0, 2), ...one.expecting(members.slice(2))]
      const sent = one.card.serve(...batchFrames(one.qp, one.first, expecting, { condition }))
      expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: upTo(3) }])
      expect(one.card.read(one.card.connect(), second, 0, 0, 64)).toEqual(dataOf(64, 1))
      expect(one.found(members[0]!)).toEqual(members[0]!.data)
    }
  })
})

describe('what a batch names ends while it is collected', () => {
  /** Serves all but the last member of the figure. */
  function begun(): { one: MixedCard; last: Uint8Array[]; members: BatchRecord[] } {
    const one = new MixedCard(null, { mtu: 4096 })
    const members = figureOf(one)
    const frames = members.map((member, index) =>
      batchFrames(one.qp, one.first, [{ ...member, index }], {
        ...{ count: 5, operation: one.qp.operation + 1, ends: index === 4, condition: IN_ORDER },
      }),
    )
    one.card.serve(...frames.slice(0, 4).flat())
    return { one, last: frames[4]!, members }
  }

  test.each(['area', 'first', 'second'])('S1-M9: the region %s is removed', (name) => {
    const { one, last, members } = begun()
    one.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode(name), mad.REGION_NAME)
    })
    expect(statuses(one.card.serve(...last))).toEqual([])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    for (let i = 0; i < 40; i++) one.card.idle()
    // Neither what was removed, nor what is in its place next, has anything of it.
    const next = provisionBytes(one, 'next')
    expect(one.card.read(one.card.connect(), next, 0, 0, 2048)).toEqual(new Uint8Array(2048))
    const rest = members.filter(({ reth }) => reth!.rkey !== one[name as 'area'].rkey)
    for (const member of rest) {
      expect(one.found(member)?.some((byte) => byte !== 0) ?? false, name).toBe(false)
    }
  })

  test('S1-M9: a region that an earlier batch has named is removed: this one goes on', () => {
    const { one, last, members } = begun()
    expect(statuses(one.card.serve(...last))).toMatchObject([{ said: 'durable' }])
    const next = [10, 11].map((slot) => one.record(one.first, slot, dataOf(64, slot)))
    const frames = batchFrames(one.qp, one.first, next, { id: 2, operation: 500 })
    one.card.serve(frames[0]!)
    one.card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(new TextEncoder().encode('second'), mad.REGION_NAME)
    })
    expect(statuses(one.card.serve(frames[1]!))).toMatchObject([{ id: 2, durable: [0, 1] }])
    for (const member of [members[0]!, ...next]) expect(one.found(member)).toEqual(member.data)
  })

  test('S1-M9: a key is taken back: what came before it is stored, and nothing else', () => {
    const one = new MixedCard()
    const members = figureOf(one)
    const operation = one.qp.operation + 1
    const options = { operation, count: 5, condition: IN_ORDER }
    const frames = [
      ...batchFrames(one.qp, one.first, members.slice(0, 3), { ...options, ends: false }),
      ...sendFrames(one.qp, dataOf(8, 1), { invalidate: one.area.rkey }),
      ...batchFrames(one.qp, one.first, [{ ...members[3]!, index: 3 }], options),
    ]
    const sent = one.card.serve(...frames)
    expect(statuses(sent)).toEqual([])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    expect(one.found(members[1]!)).toEqual(members[1]!.data)
    expect(one.found(members[3]!)).toEqual(new Uint8Array(5000))
  })
})

test('S1-M9: who takes such batches tells it: records, and bytes that are registered', () => {
  const { card } = batchSetting()
  const flagsOf = (name: string): number => {
    const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (request) => {
      request.set(new TextEncoder().encode(name), mad.REGION_NAME)
    })
    return new DataView(body.buffer, body.byteOffset).getUint16(mad.REGION_FLAGS)
  }
  const shape = { kind: mad.KIND_BYTES, length: 4096 }
  card.provision({ name: 'plain', ...shape })
  card.provision({ name: 'kept', ...shape, flags: mad.REGION_WRITE_PERSIST })
  const joins = (name: string): boolean => (flagsOf(name) & mad.REGION_JOINS_BATCHES) !== 0
  expect(['records', 'plain', 'kept'].map(joins)).toEqual([true, false, true])
  const asked = { name: 'asked', ...shape, flags: mad.REGION_JOINS_BATCHES }
  expect(card.tryProvision(asked).fault).not.toBe('PASS')
})
