/**
 * Batches of records on the wire: what is held, what is taken, what the one status says (source 4).
 * What no honest sender does is in batch-hostile.test.ts.
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import {
  COPY_CLEAN,
  FENCE,
  LENGTH,
  NVDIMM_SPACE,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
import type { Pweth } from '../../../firmware/wire/persist.ts'
import {
  type BatchOptions,
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchQuery,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  type Status,
  sequenceOf,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { engineCard } from '../../support/cards/engine.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { frameOf, hexOf, writeIcrc } from '../../support/wire/frames.ts'
import {
  contentOf,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  lines,
  sendFrames,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

const CONDITIONS = [
  { condition: INDEPENDENT, name: 'independent' },
  { condition: IN_ORDER, name: 'in order' },
  { condition: EXPECT, name: 'expect' },
]

const older = (slot: number): Uint8Array => dataOf(64, slot)
const newer = (slot: number): Uint8Array => dataOf(64, 1000 + slot)

/** Records for these slots, each with what it expects. */
function recordsFor(one: BatchSetting, slots: readonly number[]): BatchRecord[] {
  return slots.map((slot) => ({ slot, data: newer(slot), expect: sequenceOf(one, slot) }))
}

/** Serves one batch; its one status. */
function serveBatch(
  one: BatchSetting,
  records: readonly BatchRecord[],
  options: BatchOptions = {},
): Status {
  const sent = one.card.serve(...batchFrames(one.qp, one.region, records, options))
  const said = statuses(sent)
  expect(said.length).toBe(1)
  expect(persistAcks(sent).length).toBe(1)
  expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  return said[0]!
}

/** The data of a slot, in every copy the same. */
function stored(one: BatchSetting, slot: number, length = 64): Uint8Array {
  const [first, ...others] = [0, 1].map((copy) => {
    const at = slotOffset(one.region, copy, slot)
    return one.card.nvdimm.live.slice(at, at + one.region.stride)
  })
  for (const other of others) expect(other).toEqual(first)
  return first!.slice(LINE_BYTES, LINE_BYTES + length)
}

/** Which of the slots hold what the batch brought; the others hold zeros, or what was there. */
function taken(
  one: BatchSetting,
  slots: readonly number[],
  before: (slot: number) => Uint8Array = () => new Uint8Array(64),
): number[] {
  return slots.filter((slot) => {
    const found = stored(one, slot)
    const isNew = Buffer.compare(found, newer(slot)) === 0
    if (!isNew) expect(found).toEqual(before(slot))
    return isNew
  })
}

/** What one list after the other did, as far as durability is concerned. */
function watched(one: BatchSetting, serve: () => void): string[] {
  const events: string[] = []
  one.card.machine.observe({
    onCommand: (_, op, words, at) => {
      const to = words[at + TO]! - NVDIMM_SPACE
      if (op === FENCE) events.push('fence')
      else if (op === TRANSMIT) events.push(words[at + LENGTH]! > 80 ? 'status' : 'ack')
      else if (op === COPY_CLEAN && to >= DATA_AT) events.push('slot')
    },
  })
  serve()
  one.card.machine.observe({})
  return events
}

const fences = (events: readonly string[]): number =>
  events.filter((event) => event === 'fence').length

describe('the packet', () => {
  test('P4-2: flag, condition, id, index and count stand in the header of every record', () => {
    const one = batchSetting()
    const records = recordsFor(one, [4, 5, 6])
    const frames = batchFrames(one.qp, one.region, records, { id: 0x1234, condition: IN_ORDER })
    const headers = frames.map((frame) => [...frame.slice(70, 78)])
    expect(headers).toEqual([
      [0x14, 0x6c, 0x14, 0, 0x12, 0x34, 0, 2],
      [0x14, 0x6c, 0x14, 0, 0x12, 0x34, 1, 2],
      [0x14, 0x6c, 0x1c, 0, 0x12, 0x34, 2, 2],
    ])
  })

  const fields: Partial<Pweth>[] = [
    { condition: 1 },
    { condition: 2 },
    { lastOfBatch: true },
    { oneStatus: true },
    { batchId: 1 },
    { batchIndex: 1 },
    { batchCount: 2 },
  ]

  test('P4-3: without the flag it is a record like any other, and has no fields of a batch', () => {
    const one = batchSetting()
    const base = one.qp.psn
    const said = lines(one.card.serve(...persistFrames(one.qp, one.region, 1, newer(1))), base)
    expect(said).toEqual(['ACK 0', 'PERSIST_ACK 0: 0-0 durable 2 records 1'])
    for (const field of fields) {
      const qp = one.card.connect()
      const frame = frameOf({
        bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn: qp.psn, ackRequest: true },
        reth: { rkey: one.region.rkey, length: 64, vaHigh: 2 },
        pweth: { wait: 2, slotAddressed: true, wantsAck: true, operationLow: 1, ...field },
        payload: newer(2),
      })
      expect(lines(one.card.serve(frame), qp.psn), JSON.stringify(field)).toEqual(['NAK 0x61 0'])
    }
    expect(taken(one, [1, 2])).toEqual([1])
  })

  test('P4-3, P4-13: nothing is stored before the last record has come, however they come', () => {
    for (let first = 1; first < 8; first++) {
      const one = batchSetting()
      const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(8)))
      const before = contentOf(one.card)
      expect(one.card.serve(...frames.slice(0, first))).toEqual([])
      one.card.idle()
      for (const frame of frames.slice(first, -1)) expect(one.card.serve(frame)).toEqual([])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(heldBy(one.state)).toMatchObject({ rooms: 1, chunks: 1, open: 1 })
      const [status] = statuses(one.card.serve(frames.at(-1)!))
      expect(status).toMatchObject({ id: 1, count: 8, durable: upTo(8), said: 'durable' })
      expect(taken(one, upTo(8))).toEqual(upTo(8))
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  test('P4-11, D-10: an unknown condition is NAK 0x61, and what was held is given back', () => {
    for (let condition = 3; condition < 16; condition++) {
      const one = batchSetting()
      const before = contentOf(one.card)
      const records = recordsFor(one, [1, 2])
      one.card.serve(...batchFrames(one.qp, one.region, records, { ends: false, count: 4 }))
      const base = one.qp.psn
      const [frame] = batchFrames(one.qp, one.region, recordsFor(one, [3]), { condition })
      expect(lines(one.card.serve(frame!), base)).toEqual(['NAK 0x61 0'])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })
})

describe('a whole batch', () => {
  const sizes = [1, 2, 31, 32, 33, 64, 255, 256]
  const cases = CONDITIONS.flatMap((row) => sizes.map((records) => ({ ...row, records })))

  test.each(cases)(
    'P4-5, P4-12, P4-13, D-10: $records records, $name: durable, and one status says so',
    ({ condition, records }) => {
      const one = batchSetting()
      const base = one.qp.psn
      const first = one.qp.operation + 1
      const list = recordsFor(one, upTo(records))
      const status = serveBatch(one, list, { condition, id: 7 })
      expect(status).toMatchObject({ id: 7, count: records, durable: upTo(records) })
      expect(status.paeth).toMatchObject({
        ...{ version: 1, words: 8, all: true, cumulative: false, query: false, degraded: false },
        ...{ status: 0, copies: 2, mechanism: 1, records, batchDurable: records - 1 },
        ...{ firstPsn: base + records - 1, lastPsn: base + records - 1 },
        ...{ operationHigh: 0, operationLow: first, bitmapWords: Math.ceil(records / 32) },
      })
      expect(taken(one, upTo(records))).toEqual(upTo(records))
    },
  )

  test('P4-8, P4-13: groups of 32 with four fences each, and one status at the end', () => {
    for (const records of [1, 16, 32]) {
      const one = batchSetting()
      const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(records)))
      const events = watched(one, () => one.card.serve(...frames))
      expect(fences(events)).toBe(4)
      expect(events.at(-1)).toBe('status')
      expect(events.filter((event) => event === 'status').length).toBe(1)
    }
    const one = batchSetting()
    const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(100)))
    const events = watched(one, () => one.card.serve(...frames))
    expect(fences(events)).toBe(4 * 4)
    expect(events.lastIndexOf('fence')).toBe(events.length - 2)
    expect(events.at(-1)).toBe('status')
  })

  test('P4-13: batches and single records of several connections share the fences', () => {
    const one = batchSetting()
    const others = [1, 2, 3].map((client) => one.card.connect(4096, 0, client))
    const frames = others.flatMap((qp, i) => {
      const slots = upTo(10 * i + 6, 10 * i)
      return batchFrames(qp, one.region, recordsFor(one, slots), { condition: IN_ORDER })
    })
    frames.splice(3, 0, ...persistFrames(one.qp, one.region, 90, newer(90)))
    frames.push(...persistFrames(one.qp, one.region, 91, newer(91)))
    let sent: Sent[] = []
    const events = watched(one, () => {
      sent = one.card.serve(...frames)
    })
    expect(fences(events)).toBe(4)
    expect(statuses(sent).map(({ durable }) => durable)).toEqual([upTo(6), upTo(6), upTo(6)])
    expect(persistAcks(sent).length).toBe(4)
    expect(events.slice(events.lastIndexOf('fence') + 1)).toEqual(Array(4).fill('status'))
  })

  test('P1-12: a record whose slot is in the group already waits for the next', () => {
    const one = batchSetting()
    const frames = [
      ...persistFrames(one.qp, one.region, 5, older(5)),
      ...batchFrames(one.qp, one.region, recordsFor(one, [4, 5, 6])),
    ]
    const events = watched(one, () => one.card.serve(...frames))
    expect(fences(events)).toBe(8)
    expect(taken(one, [4, 5, 6])).toEqual([4, 5, 6])
  })

  test('P4-13: a batch that fits into a group is not divided among two', () => {
    const one = batchSetting()
    const singles = upTo(10).flatMap((i) =>
      persistFrames(one.card.connect(), one.region, 100 + i, newer(100 + i)),
    )
    const batch = batchFrames(one.qp, one.region, recordsFor(one, upTo(30)))
    const held = batch.slice(0, 10)
    one.card.serve(...held)
    const events = watched(one, () => one.card.serve(...singles, ...batch.slice(10)))
    // Slots that are written up to each fence: lanes, first copies, lanes again, second copies.
    const parts = events.join(' ').split('fence')
    const slots = parts.map((part) => part.split('slot').length - 1)
    expect(slots).toEqual([0, 10, 0, 10, 0, 30, 0, 30, 0])
  })

  test('P4-13, X-1: the status stands behind the fence of the highest level waited for', () => {
    const levels = [
      [1, 1, 1],
      [1, 2, 1],
      [3, 1, 2],
      [2, 2, 2],
      [4, 4, 1],
    ]
    for (const waits of levels) {
      const one = batchSetting({ copies: 4 })
      const records = waits.map((wait, slot) => ({ slot, data: newer(slot), wait }))
      let sent: Sent[] = []
      const events = watched(one, () => {
        sent = one.card.serve(...batchFrames(one.qp, one.region, records))
      })
      const behind = events.slice(0, events.indexOf('status'))
      expect(fences(behind)).toBe(2 + Math.max(...waits))
      const [status] = statuses(sent)
      expect(status!.paeth).toMatchObject({ copies: Math.min(...waits), records: 3, all: true })
    }
  })

  test.each([256, 1024])(
    'records of several packets of %i bytes are gathered as they come',
    (mtu) => {
      for (const split of [1, 3, 7, 32]) {
        const one = batchSetting({ capacity: 5000, slots: 16 }, mtu)
        const lengths = [5000, 0, 1, mtu, mtu + 1, 3 * mtu - 1, 4999, 64]
        const records = lengths.map((length, slot) => ({ slot, data: dataOf(length, slot) }))
        const frames = batchFrames(one.qp, one.region, records, { condition: IN_ORDER })
        const said: Status[] = []
        for (let i = 0; i < frames.length; i += split) {
          said.push(...statuses(one.card.serve(...frames.slice(i, i + split))))
        }
        expect(said.map(({ durable }) => durable)).toEqual([upTo(8)])
        for (const { slot, data } of records) {
          expect(stored(one, slot, data.length)).toEqual(data)
        }
        expect(heldBy(one.state)).toEqual(NOTHING_HELD)
      }
    },
  )

  test('operation ids carry into the upper word', () => {
    const one = batchSetting()
    const records = upTo(6).map((slot) => ({
      ...{ slot, data: newer(slot) },
      pweth: {
        operationHigh: slot < 3 ? 4 : 5,
        operationLow: (0xfffffffd + slot) >>> 0,
      },
    }))
    const status = serveBatch(one, records, { condition: IN_ORDER })
    expect(status.durable).toEqual(upTo(6))
    expect(status.paeth).toMatchObject({ operationHigh: 4, operationLow: 0xfffffffd })
  })
})

/** What storage refuses of one record. */
const BAD: readonly { readonly name: string; readonly bad: Partial<BatchRecord> }[] = [
  { name: 'SLOT', bad: { slot: 5000 } },
  { name: 'RECORD_LENGTH', bad: { data: dataOf(65, 1) } },
  { name: 'LEVEL', bad: { wait: 3 } },
]

describe('selective acceptance', () => {
  const places = [0, 1, 17, 39]
  const cases = BAD.flatMap((row) => places.map((k) => ({ ...row, k })))

  test.each(places)('P4-4: record %i is not taken with a bad check code, and comes again', (k) => {
    const one = batchSetting()
    const base = one.qp.psn
    const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(40)))
    const bad = frames[k]!.slice()
    // A byte of its data: the check code in its packet is that of the record as it was sent.
    bad[bad.length - 5]! ^= 1
    const sent = one.card.serve(...frames.slice(0, k), bad, ...frames.slice(k + 1))
    expect(one.card.counter('ICRC')).toBe(1)
    // What comes behind it shows that it is missing; behind the last nothing comes.
    expect(lines(sent, base)).toEqual(k < 39 ? [`NAK 0x60 ${k}`] : [])
    expect(taken(one, upTo(40))).toEqual([])
    const [status] = statuses(one.card.serve(...frames.slice(k)))
    expect(status).toMatchObject({ said: 'durable', durable: upTo(40) })
    expect(taken(one, upTo(40))).toEqual(upTo(40))
  })

  test.each(cases)('P4-4, P4-6: independent: record $k is refused by $name alone', (row) => {
    const one = batchSetting()
    const records = recordsFor(one, upTo(40))
    records[row.k] = { ...records[row.k]!, ...row.bad }
    const status = serveBatch(one, records)
    const others = upTo(40).filter((i) => i !== row.k)
    expect(status).toMatchObject({ said: row.name, durable: others })
    const gapless = row.k === 0 ? 0xff : row.k - 1
    expect(status.paeth).toMatchObject({ all: false, records: 39, batchDurable: gapless })
    expect(taken(one, upTo(40))).toEqual(others)
    expect(one.card.counter(row.name)).toBe(1)
  })

  test.each(cases)(
    'P4-7: in order: record $k is bad by $name, and those behind go with it',
    (row) => {
      const one = batchSetting()
      const records = recordsFor(one, upTo(40))
      records[row.k] = { ...records[row.k]!, ...row.bad }
      const status = serveBatch(one, records, { condition: IN_ORDER })
      expect(status).toMatchObject({ said: row.name, durable: upTo(row.k) })
      expect(status.paeth).toMatchObject({ records: row.k, copies: row.k === 0 ? 0 : 2 })
      expect(taken(one, upTo(40))).toEqual(upTo(row.k))
      expect(one.card.counter('CONDITION')).toBe(39 - row.k)
    },
  )

  test('P4-7: several bad records: the first of them is named', () => {
    for (const { condition } of CONDITIONS.slice(0, 2)) {
      const one = batchSetting()
      const records = recordsFor(one, upTo(12))
      records[9] = { ...records[9]!, ...BAD[0]!.bad }
      records[4] = { ...records[4]!, ...BAD[2]!.bad }
      const status = serveBatch(one, records, { condition })
      expect(status.said).toBe('LEVEL')
      const expected = condition === IN_ORDER ? upTo(4) : upTo(12).filter((i) => i !== 4 && i !== 9)
      expect(status.durable).toEqual(expected)
    }
  })

  test('P4-6: a batch of which every record is refused has a status, and stores nothing', () => {
    const one = batchSetting()
    const before = contentOf(one.card)
    const records = upTo(5).map((i) => ({ slot: 1000 + i, data: newer(i) }))
    const events = watched(one, () => {
      const status = serveBatch(one, records)
      expect(status).toMatchObject({ said: 'SLOT', durable: [] })
      expect(status.paeth).toMatchObject({
        copies: 0,
        records: 0,
        mechanism: 0,
        batchDurable: 0xff,
      })
    })
    expect(fences(events)).toBe(0)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
  })

  test('D-1: a region of fixed length refuses the records that have another', () => {
    const one = batchSetting({ flags: mad.REGION_FIXED_LENGTH })
    const records = recordsFor(one, upTo(4))
    records[2] = { ...records[2]!, data: dataOf(63, 1) }
    expect(serveBatch(one, records)).toMatchObject({ said: 'FIXED_LENGTH', durable: [0, 1, 3] })
  })
})

describe('the retry', () => {
  test('P4-7, P4-9, P4-10: N records, an error at k: one status, and one burst of N-k+1', () => {
    for (const { condition } of CONDITIONS.slice(0, 2)) {
      for (const k of [0, 1, 20, 31, 32, 39]) {
        const one = batchSetting()
        one.card.nvdimm.refuseWrites(slotOffset(one.region, 0, k) / 64)
        const operation = one.qp.operation + 1
        const records = recordsFor(one, upTo(40))
        const first = serveBatch(one, records, { condition })
        const inOrder = condition === IN_ORDER
        const missing = inOrder ? upTo(40, k) : [k]
        expect(first.said).toBe('MEDIA')
        expect(first.durable).toEqual(upTo(40).filter((i) => !missing.includes(i)))
        one.card.nvdimm.refuseWrites(slotOffset(one.region, 0, k) / 64, false)
        const again = missing.map((index) => ({ ...records[index]!, index }))
        const second = serveBatch(one, again, { condition, operation, count: 40 })
        expect(second).toMatchObject({ said: 'durable', durable: upTo(40) })
        expect(second.paeth).toMatchObject({ all: true, records: missing.length, copies: 2 })
        expect(taken(one, upTo(40))).toEqual(upTo(40))
      }
    }
  })

  test('P4-9, D-6: on another connection, what is missing is known by its operations', () => {
    for (const [known, durable] of [
      [10, upTo(40)],
      [9, upTo(9)],
    ] as const) {
      const one = batchSetting()
      const operation = one.qp.operation + 1
      const records = recordsFor(one, upTo(40))
      const head = records.slice(0, known)
      serveBatch(one, head, { condition: IN_ORDER, operation, count: 40 })
      const qp = one.card.connect()
      const rest = upTo(40, 10).map((index) => ({ ...records[index]!, index }))
      const options = { condition: IN_ORDER, operation, count: 40, id: 9 }
      const status = serveBatch({ ...one, qp }, rest, options)
      expect(status).toMatchObject({ id: 9, said: known === 10 ? 'durable' : 'CONDITION', durable })
      expect(taken(one, upTo(40))).toEqual(durable)
    }
  })

  test('P4-7: what is missing in the middle of a burst refuses all behind it', () => {
    const one = batchSetting()
    const records = recordsFor(one, upTo(8))
    const some = [0, 1, 2, 4, 5].map((index) => ({ ...records[index]!, index }))
    const status = serveBatch(one, some, { condition: IN_ORDER, count: 8 })
    expect(status).toMatchObject({ said: 'CONDITION', durable: [0, 1, 2], count: 8 })
    expect(taken(one, upTo(8))).toEqual([0, 1, 2])
  })

  test('P4-14, X-3: a batch sent again under its operations is acknowledged, not written', () => {
    for (const { condition } of CONDITIONS) {
      const one = batchSetting()
      const operation = one.qp.operation + 1
      const records = recordsFor(one, upTo(40))
      serveBatch(one, records, { condition })
      one.card.idle()
      // Somebody else has written slot 3 since.
      const other = { ...one, qp: one.card.connect(4096, 0, 99) }
      one.card.serve(...persistFrames(other.qp, one.region, 3, older(3)))
      one.card.idle()
      const before = contentOf(one.card)
      for (const qp of [one.qp, one.card.connect()]) {
        const status = serveBatch({ ...one, qp }, records, { condition, operation })
        expect(status).toMatchObject({ said: 'durable', durable: upTo(40) })
        expect(status.paeth).toMatchObject({ all: true, records: 40, copies: 2 })
      }
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
      expect(one.card.counter('DUPLICATE')).toBe(80)
    }
  })
})

describe('expect', () => {
  test('P4-11: a record is accepted only where its slot holds the sequence that it names', () => {
    const one = batchSetting()
    one.card.serve(
      ...upTo(20).flatMap((slot) => persistFrames(one.qp, one.region, slot, older(slot))),
    )
    const records = recordsFor(one, upTo(20)).map((record, i) => {
      if (i % 5 === 1) return { ...record, expect: record.expect! + 1n }
      if (i % 5 === 2) return { ...record, expect: record.expect! + (1n << 32n) }
      return i % 5 === 3 ? { ...record, expect: 0n } : record
    })
    const status = serveBatch(one, records, { condition: EXPECT })
    const good = upTo(20).filter((i) => i % 5 === 0 || i % 5 === 4)
    expect(status).toMatchObject({ said: 'CONDITION', durable: good })
    expect(taken(one, upTo(20), older)).toEqual(good)
    expect(one.card.counter('CONDITION')).toBe(12)
  })

  test('P4-11: a write before it in the same burst counts, whoever wrote', () => {
    for (const own of [true, false]) {
      const one = batchSetting()
      const writer = own ? one.qp : one.card.connect(4096, 0, 55)
      const [before] = recordsFor(one, [5])
      const write = persistFrames(writer, one.region, 5, older(5))
      const sent = one.card.serve(
        ...write,
        ...batchFrames(one.qp, one.region, [before!], { condition: EXPECT }),
      )
      expect(statuses(sent)[0]).toMatchObject({ said: 'CONDITION', durable: [] })
      expect(stored(one, 5)).toEqual(older(5))
      const [now] = recordsFor(one, [5])
      expect(serveBatch(one, [now!], { condition: EXPECT }).durable).toEqual([0])
    }
  })

  test('P4-11: compare and write: of two that expect the same, the first is taken', () => {
    const one = batchSetting()
    const other = one.card.connect(4096, 0, 56)
    const records = recordsFor(one, [5, 6])
    const sent = one.card.serve(
      ...batchFrames(one.qp, one.region, records, { condition: EXPECT }),
      ...batchFrames(other, one.region, records, { condition: EXPECT }),
    )
    expect(statuses(sent).map(({ durable }) => durable)).toEqual([[0, 1], []])
  })

  test.each(['torn', 'unreadable'])('D-15: a first copy that is %s does not count', (how) => {
    const one = batchSetting()
    for (const slot of [1, 2])
      one.card.serve(...persistFrames(one.qp, one.region, slot, older(slot)))
    one.card.idle()
    const records = recordsFor(one, [1, 2])
    const at = slotOffset(one.region, 0, 1)
    if (how === 'unreadable') one.card.nvdimm.poison(at / 64)
    else one.card.nvdimm.live[at + 33] = one.card.nvdimm.live[at + 33]! ^ 1
    const status = serveBatch(one, records, { condition: EXPECT })
    expect(status).toMatchObject({ durable: [0, 1] })
  })

  test('D-15: each of several first copies is judged by its own check code', () => {
    const one = batchSetting({ slots: 8 })
    const slots = upTo(4)
    const records = recordsFor(one, slots)
    const at = slotOffset(one.region, 0, 2) + 33
    one.card.nvdimm.live[at] = one.card.nvdimm.live[at]! ^ 1
    const status = serveBatch(one, records, { condition: EXPECT })
    expect(status).toMatchObject({ durable: slots })
  })

  test('a slot whose data is torn in its only readable copy holds no sequence', () => {
    const one = batchSetting()
    one.card.serve(...persistFrames(one.qp, one.region, 1, older(1)))
    one.card.idle()
    const records = recordsFor(one, [1])
    for (const copy of [0, 1]) {
      const at = slotOffset(one.region, copy, 1) + LINE_BYTES
      one.card.nvdimm.live[at] = one.card.nvdimm.live[at]! ^ 1
    }
    expect(serveBatch(one, records, { condition: EXPECT }).said).toBe('CONDITION')
  })

  test('the slots of a group are looked at by two runs of the board', () => {
    const one = batchSetting()
    const runs = (condition: number): number => {
      const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(32)), { condition })
      const before = one.state.list.runs
      one.card.serve(...frames)
      return one.state.list.runs - before
    }
    expect(runs(EXPECT) - runs(INDEPENDENT)).toBeLessThanOrEqual(3)
  })
})

describe('order towards other requests of the queue pair', () => {
  const held = upTo(4)

  /** Half a batch, then those frames, then the rest: everything in bursts of so many frames. */
  function between(
    one: BatchSetting,
    frames: () => Uint8Array[],
    options: BatchOptions = {},
    burst = 32,
  ): { middle: Sent[]; status: Status } {
    const operation = one.qp.operation + 1
    const records = recordsFor(one, upTo(8))
    const half = { ...options, operation, count: 8 }
    one.qp.operation += 8
    const first = batchFrames(one.qp, one.region, records.slice(0, 4), { ...half, ends: false })
    const middle = frames()
    const rest = records.slice(4).map((record, i) => ({ ...record, index: 4 + i }))
    const last = batchFrames(one.qp, one.region, rest, half)
    const sent: Sent[][] = []
    const list = [...first, ...middle, ...last]
    for (let i = 0; i < list.length; i += burst)
      sent.push(one.card.serve(...list.slice(i, i + burst)))
    const all = sent.flat()
    const said = statuses(all)
    expect(said.length).toBe(1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    return { middle: all.filter((frame) => frame.paeth?.batch !== true), status: said[0]! }
  }

  const bursts = [1, 3, 5, 32]

  test.each(bursts)('P4-14: a READ sees what was sent before it, in bursts of %i', (burst) => {
    for (const { condition } of CONDITIONS) {
      const one = batchSetting()
      const read = (): Uint8Array[] =>
        held.map((slot) => readFrame(one.qp, one.region, slot, 0, 64))
      const { middle, status } = between(one, read, { condition }, burst)
      const reads = middle.filter(({ payload }) => payload.length === 64)
      expect(reads.map(({ payload }) => [...payload])).toEqual(held.map((slot) => [...newer(slot)]))
      expect(status).toMatchObject({ said: 'durable', durable: upTo(8), count: 8 })
      expect(status.paeth).toMatchObject({ all: true, records: 8 })
    }
  })

  test.each(bursts)('P4-14: one status also where the part before was refused, in %i', (burst) => {
    for (const { condition } of CONDITIONS.slice(0, 2)) {
      const one = batchSetting()
      one.card.nvdimm.refuseWrites(slotOffset(one.region, 0, 2) / 64)
      const read = (): Uint8Array[] => [readFrame(one.qp, one.region, 1, 0, 64)]
      const { middle, status } = between(one, read, { condition }, burst)
      const read1 = middle.find(({ payload }) => payload.length === 64)
      expect(read1!.payload).toEqual(newer(1))
      const durable = condition === IN_ORDER ? [0, 1] : [0, 1, 3, 4, 5, 6, 7]
      expect(status).toMatchObject({ said: 'MEDIA', durable })
    }
  })

  const others: [string, (one: BatchSetting, bytes: TestRegion) => Uint8Array[]][] = [
    ['FLUSH', (one, bytes) => [flushFrame(one.qp, bytes)]],
    ['an atomic', (one, bytes) => [fetchAddFrame(one.qp, bytes, 0, 1n)]],
    ['a WRITE', (one, bytes) => writeFrames(one.qp, bytes, 0, dataOf(64, 1))],
    ['a SEND', (one) => sendFrames(one.qp, dataOf(64, 1))],
    ['a query', (one) => [batchQuery(one.qp, 1)]],
  ]

  test.each(others)('P4-14, D-9: what is held goes in front of %s', (_, frames) => {
    for (const burst of bursts) {
      const one = batchSetting()
      const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
      const qp = { ...one.qp }
      const first = batchFrames(qp, one.region, recordsFor(one, held), { count: 8, ends: false })
      const list = [...first, ...frames({ ...one, qp }, bytes)]
      for (let i = 0; i < list.length; i += burst) one.card.serve(...list.slice(i, i + burst))
      expect(taken(one, upTo(8))).toEqual(held)
      expect(heldBy(one.state)).toMatchObject({ open: 1, inGroup: 0, inFrames: 0 })
    }
  })

  test('P4-14: a record of a slot that is held is stored behind it', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const write = (): Uint8Array[] => persistFrames(one.qp, one.region, 2, older(2))
      const { middle, status } = between(one, write, { condition: IN_ORDER }, burst)
      expect(persistAcks(middle).map(({ status: code }) => code)).toEqual([0])
      expect(status.durable).toEqual(upTo(8))
      expect(stored(one, 2)).toEqual(older(2))
    }
  })

  test('P4-14: so is a plain WRITE of it', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const write = (): Uint8Array[] => writeFrames(one.qp, one.region, 0, older(2), { vaHigh: 2 })
      const { status } = between(one, write, { condition: IN_ORDER }, burst)
      expect(status.durable).toEqual(upTo(8))
      expect(stored(one, 2)).toEqual(older(2))
    }
  })

  test('P4-14: records of other slots in between have receipts of their own', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const write = (): Uint8Array[] => persistFrames(one.qp, one.region, 20, newer(20))
      const base = one.qp.psn
      const { middle, status } = between(one, write, {}, burst)
      expect(status.durable).toEqual(upTo(8))
      const receipts = persistAcks(middle).map(({ firstPsn, lastPsn, records }) => {
        return [firstPsn - base, lastPsn - base, records]
      })
      expect(receipts).toEqual([[4, 4, 1]])
      expect(taken(one, [20])).toEqual([20])
    }
  })

  test('P4-14: no range of single records spans a record that is held', () => {
    const one = batchSetting()
    const base = one.qp.psn
    const [first] = recordsFor(one, [30])
    const frames = [
      ...persistFrames(one.qp, one.region, 10, newer(10)),
      ...batchFrames(one.qp, one.region, [first!], { count: 2, ends: false }),
      ...persistFrames(one.qp, one.region, 11, newer(11)),
    ]
    const receipts = persistAcks(one.card.serve(...frames))
    expect(receipts.map(({ firstPsn, lastPsn }) => [firstPsn - base, lastPsn - base])).toEqual([
      [0, 0],
      [2, 2],
    ])
  })

  test('P4-14: batches of several queue pairs, packet by packet in turn, keep their orders', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const pairs = upTo(4).map((i) => one.card.connect(4096, 0, 20 + i))
      const lists = pairs.map((qp, i) => {
        const slots = upTo(10).map((n) => 10 * i + n)
        return batchFrames(qp, one.region, recordsFor(one, slots), { condition: IN_ORDER, id: i })
      })
      const mixed = upTo(10).flatMap((n) => lists.map((list) => list[n]!))
      const sent: Sent[] = []
      for (let i = 0; i < 40; i += burst) sent.push(...one.card.serve(...mixed.slice(i, i + burst)))
      const said = statuses(sent)
      expect(said.map(({ id, durable }) => [id, durable])).toEqual(
        upTo(4).map((i) => [i, upTo(10)]),
      )
      for (let i = 0; i < 4; i++) {
        const sequences = upTo(10).map((n) => sequenceOf(one, 10 * i + n))
        expect(sequences).toEqual([...sequences].sort((a, b) => Number(a - b)))
      }
      expect(taken(one, upTo(40))).toEqual(upTo(40))
      expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    }
  })

  test('P4-12: a batch may follow another at once; an id may be used again', () => {
    for (const burst of bursts) {
      const one = batchSetting()
      const frames = upTo(5).flatMap((i) => {
        const slots = upTo(6).map((n) => 3 * i + n)
        return batchFrames(one.qp, one.region, recordsFor(one, slots), { id: i % 2 })
      })
      const sent: Sent[] = []
      for (let i = 0; i < 30; i += burst)
        sent.push(...one.card.serve(...frames.slice(i, i + burst)))
      expect(statuses(sent).map(({ id, durable }) => [id, durable.length])).toEqual([
        ...[
          [0, 6],
          [1, 6],
          [0, 6],
          [1, 6],
        ],
        [0, 6],
      ])
    }
  })
})

describe('duplicates and queries', () => {
  test('P4-14, X-3: every packet again is acknowledged; the last earns the status again', () => {
    for (const { condition } of CONDITIONS) {
      const one = batchSetting()
      const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(6)), { condition })
      const [status] = statuses(one.card.serve(...frames))
      one.card.idle()
      const before = contentOf(one.card)
      for (const [i, frame] of frames.entries()) {
        const sent = one.card.serve(frame)
        expect(sent.some(({ syndrome }) => syndrome === 0x1f)).toBe(true)
        expect(statuses(sent)).toEqual(i === 5 ? [status] : [])
        expect(persistAcks(sent).length).toBe(i === 5 ? 1 : 0)
      }
      expect(statuses(one.card.serve(...frames))).toEqual([status])
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    }
  })

  test('X-3: in its own burst of frames a batch is executed once', () => {
    const one = batchSetting()
    const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(4)))
    const sent = one.card.serve(...frames.flatMap((frame) => [frame, frame]))
    expect(statuses(sent).map(({ durable }) => durable)).toEqual([upTo(4)])
    expect(sequenceOf(one, 3) - sequenceOf(one, 0)).toBe(3n)
  })

  test('N3: under another id it earns no status', () => {
    const one = batchSetting()
    const before = { ...one.qp }
    const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(3)))
    one.card.serve(...frames)
    const forged = batchFrames(before, one.region, recordsFor(one, upTo(3)), { id: 99 })
    expect(persistAcks(one.card.serve(...forged))).toEqual([])
    expect(one.card.counter('DUPLICATE_FORGED')).toBe(1)
  })

  test('P4-12, G2-3: a query repeats the status of the last batch, and of no other', () => {
    const one = batchSetting()
    const records = recordsFor(one, upTo(40))
    records[7] = { ...records[7]!, ...BAD[0]!.bad }
    const status = serveBatch(one, records, { id: 5 })
    const asked = { ...one.qp }
    const query = batchQuery(one.qp, 5)
    for (let i = 0; i < 2; i++) {
      const [answer] = statuses(one.card.serve(query))
      expect(answer).toMatchObject({ id: 5, count: 40, durable: status.durable, said: 'SLOT' })
      expect(answer!.paeth).toMatchObject({ query: true, firstPsn: asked.psn, lastPsn: asked.psn })
    }
    const [other] = persistAcks(one.card.serve(batchQuery(one.qp, 6)))
    expect(other).toMatchObject({ query: true, batch: false, status: 2, bitmapWords: 0 })
    const fresh = one.card.connect()
    expect(persistAcks(one.card.serve(batchQuery(fresh, 5)))[0]).toMatchObject({ status: 2 })
  })

  test('P4-12: while some of the batch is to come, a query says what is durable so far', () => {
    const one = batchSetting()
    const records = recordsFor(one, upTo(3))
    one.card.serve(...batchFrames(one.qp, one.region, records, { count: 5, ends: false, id: 3 }))
    const [answer] = statuses(one.card.serve(batchQuery(one.qp, 3)))
    expect(answer).toMatchObject({ id: 3, count: 5, durable: [0, 1, 2], said: '2' })
  })

  test('the batch of a query is 0 without its flag, and its other bits are', () => {
    for (const [byte, value] of [
      [1, 0x80],
      [1, 0x21],
      [2, 1],
      [3, 1],
    ] as const) {
      const one = batchSetting()
      const frame = batchQuery(one.qp, 0, { batch: byte === 1 && value === 0x21 })
      frame[54 + byte] = value
      writeIcrc(frame)
      expect(lines(one.card.serve(frame), one.qp.psn - 1)).toEqual(['NAK 0x61 0'])
    }
  })
})

describe('fail closed', () => {
  test('D-13: what is not armed takes nothing of a batch', () => {
    for (const { condition } of CONDITIONS) {
      const one = batchSetting()
      const records = recordsFor(one, upTo(5))
      one.card.nvdimm.armed = false
      const before = contentOf(one.card)
      const status = serveBatch(one, records, { condition })
      expect(status).toMatchObject({ said: 'NOT_ARMED', durable: [] })
      expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    }
  })

  test('D-13: nor what is unarmed only when the last record comes', () => {
    const one = batchSetting()
    const frames = batchFrames(one.qp, one.region, recordsFor(one, upTo(5)))
    one.card.serve(...frames.slice(0, 4))
    one.card.nvdimm.armed = false
    expect(statuses(one.card.serve(frames[4]!))[0]).toMatchObject({
      said: 'NOT_ARMED',
      durable: [],
    })
  })

  const moments = [1, 2].flatMap((wait) =>
    upTo(9, 1).map((fence) => ({ wait, fence, group: fence < 5 ? 1 : 2 })),
  )

  test.each(moments)(
    'D-13, P4-13: fence $fence of two groups fails, level $wait: the one status is the truth',
    ({ wait, fence, group }) => {
      for (const { condition } of CONDITIONS.slice(0, 2)) {
        const one = batchSetting()
        const records = recordsFor(one, upTo(40)).map((record) => ({ ...record, wait }))
        failFence(one.card, fence)
        const status = serveBatch(one, records, { condition })
        one.card.machine.observe({})
        const enough = fence - 4 * (group - 1) === 4 && wait === 1
        const first = group === 1 ? 0 : 32
        const last = enough ? Math.min(40, first + 32) : first
        expect(status.durable).toEqual(upTo(last))
        const behind = fence - 4 * (group - 1) === 1 || enough ? 'FLUSH' : 'IN_DOUBT'
        expect(status.said).toBe(last === 40 ? 'durable' : enough && condition ? 'FLUSH' : behind)
        expect(one.state.commit.closed).not.toBe(0)
      }
    },
  )

  test('D-14: a region with a lost record takes no batch', () => {
    const one = batchSetting()
    for (const copy of [0, 1]) one.card.nvdimm.poison(slotOffset(one.region, copy, 0) / 64)
    one.card.scan(one.region.id)
    expect(serveBatch(one, [{ slot: 5, data: newer(5) }])).toMatchObject({ said: 'READ_ONLY' })
  })

  const stages = ['lane', 'first copy', 'second copy'] as const

  test.each(stages)(
    'P1-11, P4-13: a medium that refuses a %s: one status, and it is so',
    (stage) => {
      for (const { condition } of CONDITIONS.slice(0, 2)) {
        for (const waits of [[2], [1], [1, 2], [2, 1]]) {
          for (const k of [0, 3, 9]) refusedAt(stage, condition, waits, k)
        }
      }
    },
  )

  function refusedAt(
    stage: (typeof stages)[number],
    condition: number,
    waits: readonly number[],
    k: number,
  ): void {
    const one = batchSetting()
    const copy = stage === 'second copy' ? 1 : 0
    const lane = LANES_AT / LINE_BYTES + k
    one.card.nvdimm.refuseWrites(
      stage === 'lane' ? lane : slotOffset(one.region, copy, k) / LINE_BYTES,
    )
    const records = recordsFor(one, upTo(10)).map((record, i) => {
      return { ...record, wait: waits[i % waits.length]! }
    })
    const status = serveBatch(one, records, { condition })
    // Whatever is called durable can be read; in order it has no gap.
    for (const slot of status.durable) {
      expect(one.card.read({ ...one.card.connect() }, one.region, slot, 0, 64)).toEqual(newer(slot))
    }
    if (condition === IN_ORDER) expect(status.durable).toEqual(upTo(status.durable.length))
    expect(status.paeth.records).toBe(status.durable.length)
    if (stage !== 'second copy') {
      expect(status.durable).toEqual(
        condition === IN_ORDER ? upTo(k) : upTo(10).filter((i) => i !== k),
      )
      expect(status.said).toBe('MEDIA')
    }
  }
})

test('QuickJS on the card says the same as Node, to the byte', async () => {
  const said: string[][] = []
  for (const engine of ['node', 'quickjs'] as const) {
    const card = await engineCard(engine, 1 << 18, { ram: new HostRam(1 << 16) })
    card.format()
    const region = card.provision({ slots: 64, capacity: 600 })
    const qp = card.connect(256)
    qp.operation = 1
    const heard: string[] = []
    for (const { condition } of CONDITIONS) {
      const records = upTo(40).map((slot) => {
        return { slot: slot === 30 ? 99 : slot, data: dataOf(15 * slot, slot), expect: 0n }
      })
      const frames = batchFrames(qp, region, records, { condition })
      for (let i = 0; i < frames.length; i += 32) {
        for (const { bytes } of card.serve(...frames.slice(i, i + 32))) heard.push(hexOf(bytes))
      }
    }
    expect(heard.length).toBeGreaterThan(3)
    said.push(heard)
  }
  expect(said[1]).toEqual(said[0])
})
