/**
 * Guards: the code of the data that the client's CPU computed, from there to the medium and back
 * (S1-M1; source 1, ¶77 and 78; source 4, claim 1). Who damages the data or the guard on the way is
 * found before anything of the record is stored.
 */

import { describe, expect, test } from 'vitest'
import { DDIO_OFF, DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { COPY_CLEAN, GUARD, NVDIMM_SPACE, TO } from '../../../firmware/board/hal.ts'
import { BURST_FRAMES } from '../../../firmware/board/limits.ts'
import { VIEW_FIRST_COPY, VIEW_SETTLED } from '../../../firmware/burst/view.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { u16 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchRecord,
  batchFrames,
  batchSetting,
  EXPECT,
  IN_ORDER,
  INDEPENDENT,
  sequenceOf,
  statuses,
} from '../../support/cards/batch-card.ts'
import { placed, work } from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../support/cards/test-card.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { hexOf } from '../../support/wire/frames.ts'
import {
  carriedFrames,
  contentOf,
  firstDifference,
  lines,
  type Setting,
  setting,
  writeFrames,
} from '../../support/wire/requests.ts'

const GUARD_STATUS = 0x99

/** The guard in an image of a record, as it was read. */
function guardIn(image: Uint8Array): number {
  return new DataView(image.buffer, image.byteOffset).getUint32(60, true)
}

/** What a view of a record shows. */
function image({ card, qp, region }: Setting, slot: number, view: number): Uint8Array {
  return card.read(qp, region, slot, view, region.stride)!
}

/** One bit of the bytes turned round. */
function damaged(bytes: Uint8Array, bit: number): Uint8Array {
  const other = bytes.slice()
  other[bit >> 3] = other[bit >> 3]! ^ (1 << (bit & 7))
  return other
}

function statusesOf(sent: readonly Sent[]): number[] {
  return persistAcks(sent).map(({ status }) => status)
}

const FORMS = [
  {
    form: 'replicated',
    frames: (one: Setting, slot: number, data: Uint8Array, guard: number) =>
      persistFrames(one.qp, one.region, slot, data, { guard }),
  },
  {
    form: 'carried',
    frames: (one: Setting, slot: number, data: Uint8Array, guard: number) =>
      carriedFrames(one.qp, one.region, slot, new Array(one.region.copies).fill(data), { guard }),
  },
  {
    form: 'addressed',
    frames: (one: Setting, slot: number, data: Uint8Array, guard: number) =>
      carriedFrames(one.qp, one.region, slot, new Array(one.region.copies).fill(data), {
        guard,
        addressed: true,
      }),
  },
]

describe('S1-M1: a record that brings its guard', () => {
  test.each([2, 3, 4].flatMap((copies) => FORMS.map((form) => ({ copies, ...form }))))(
    'is kept with it in all $copies copies, $form, and goes back with every image',
    ({ copies, frames }) => {
      const one = setting({ copies, capacity: 5000, slots: 4 }, 1024)
      for (const length of [0, 1, 7, 8, 63, 64, 65, 1000, 1023, 1024, 1025, 5000]) {
        const data = dataOf(length, length)
        const guard = judgedGuard(data)
        expect(statusesOf(one.card.serve(...frames(one, 1, data, guard)))).toEqual([0])
        const views = Array.from({ length: copies }, (_, c) => VIEW_FIRST_COPY + c)
        for (const view of [VIEW_SETTLED, ...views]) {
          const found = image(one, 1, view)
          expect(guardIn(found), `${length} bytes`).toBe(guard)
          expect(hexOf(found.slice(64, 64 + length))).toBe(hexOf(data))
        }
      }
    },
  )

  test('is found after a restart, and in the copy that a scan has mended', () => {
    const one = setting({ slots: 2 })
    const data = dataOf(64, 5)
    one.card.serve(...persistFrames(one.qp, one.region, 1, data, { guard: judgedGuard(data) }))
    const card = new TestCard(one.card.nvdimm)
    const again = { card, region: card.open(), qp: card.connect() }
    for (const view of [VIEW_SETTLED, VIEW_FIRST_COPY, VIEW_FIRST_COPY + 1]) {
      expect(guardIn(image(again, 1, view))).toBe(judgedGuard(data))
    }
  })

  test('loses it to the next write that brings none, be it a plain one', () => {
    const one = setting()
    const data = dataOf(64, 5)
    const guard = judgedGuard(data)
    for (const other of [
      () => persistFrames(one.qp, one.region, 1, dataOf(64, 6)),
      () => writeFrames(one.qp, one.region, 0, dataOf(64, 6), { vaHigh: 1 }),
    ]) {
      one.card.serve(...persistFrames(one.qp, one.region, 1, data, { guard }))
      expect(guardIn(image(one, 1, VIEW_SETTLED))).toBe(guard)
      one.card.serve(...other())
      expect(guardIn(image(one, 1, VIEW_SETTLED))).toBe(0)
    }
  })

  test('costs one command more, before its lane, and nothing where it brings none', () => {
    const one = setting()
    const commands: [number, number][] = []
    one.card.machine.observe({
      onCommand: (_number, op, words, at) => void commands.push([op, words[at + TO]!]),
    })
    const listOf = (guard?: number): [number, number][] => {
      commands.length = 0
      one.card.serve(...persistFrames(one.qp, one.region, 1, dataOf(64, 1), { guard }))
      return commands.slice()
    }
    listOf()
    const without = listOf()
    const guarded = listOf(judgedGuard(dataOf(64, 1)))
    expect(without.some(([op]) => op === GUARD)).toBe(false)
    const others = guarded.filter(([op]) => op !== GUARD)
    expect(others.map(([op]) => op)).toEqual(without.map(([op]) => op))
    expect(guarded).toHaveLength(without.length + 1)
    const at = guarded.findIndex(([op]) => op === GUARD)
    const stored = guarded.findIndex(([op, to]) => op === COPY_CLEAN && to >= NVDIMM_SPACE)
    expect(at).toBeLessThan(stored)
  })
})

describe('S1-M1: what was damaged on the way', () => {
  test.each(FORMS)('is refused for any bit of the data or the guard, $form', ({ frames }) => {
    const one = setting({ slots: 4, capacity: 100 })
    const data = dataOf(21, 1)
    const guard = judgedGuard(data)
    const before = contentOf(one.card)
    for (let bit = 0; bit < 8 * 21; bit++) {
      const base = one.qp.psn
      const sent = one.card.serve(...frames(one, 1, damaged(data, bit), guard))
      expect(lines(sent, base)).toContain('PERSIST_ACK 0: 0-0 GUARD records 1')
    }
    for (let bit = 0; bit < 32; bit++) {
      const other = (guard ^ (1 << bit)) >>> 0
      const sent = one.card.serve(...frames(one, 1, data, other))
      expect(statusesOf(sent)).toEqual([GUARD_STATUS])
    }
    expect(one.card.counter('GUARD')).toBe(8 * 21 + 32)
    // Neither slots nor table: a restart finds what was there.
    const card = new TestCard(one.card.nvdimm)
    const again = { card, region: card.open(), qp: card.connect() }
    expect(guardIn(image(again, 1, VIEW_SETTLED))).toBe(0)
    expect(hexOf(contentOf(card).slice(-4096))).toBe(hexOf(before.slice(-4096)))
  })

  test('is taken when it comes whole, under the same operation', () => {
    const one = setting()
    const data = dataOf(64, 1)
    const guard = judgedGuard(data)
    const again = { guard, operation: 9 }
    const bad = persistFrames(one.qp, one.region, 1, damaged(data, 77), again)
    expect(statusesOf(one.card.serve(...bad))).toEqual([GUARD_STATUS])
    const good = persistFrames(one.qp, one.region, 1, data, { ...again, repetition: true })
    expect(statusesOf(one.card.serve(...good))).toEqual([0])
    expect(guardIn(image(one, 1, VIEW_SETTLED))).toBe(guard)
  })

  test('alone is refused, of all that one group has, whichever it is', () => {
    for (let bad = 0; bad < 6; bad++) {
      const one = setting({ slots: 8 })
      const burst = Array.from({ length: 6 }, (_, slot) => {
        const data = dataOf(64, slot)
        const sent = slot === bad ? damaged(data, 100) : data
        return persistFrames(one.qp, one.region, slot, sent, { guard: judgedGuard(data) })
      })
      const acks = persistAcks(one.card.serve(...burst.flat()))
      const said = acks.map(({ status, records }) => [status, records])
      expect(said).toContainEqual([GUARD_STATUS, 1])
      const durable = said.filter(([status]) => status === 0)
      expect(durable.reduce((sum, [, records]) => sum + records!, 0)).toBe(5)
      for (let slot = 0; slot < 6; slot++) {
        const expected = slot === bad ? 0 : judgedGuard(dataOf(64, slot))
        expect(guardIn(image(one, slot, VIEW_SETTLED))).toBe(expected)
      }
    }
  })

  test('is refused where all of a group are, and the next group is taken', () => {
    const one = setting({ slots: 40 })
    const serveAll = (broken: boolean): number[] => {
      const burst = Array.from({ length: 32 }, (_, slot) => {
        const data = dataOf(64, slot)
        const sent = broken ? damaged(data, slot) : data
        return persistFrames(one.qp, one.region, slot, sent, { guard: judgedGuard(data) })
      })
      return statusesOf(one.card.serve(...burst.flat()))
    }
    expect(new Set(serveAll(true))).toEqual(new Set([GUARD_STATUS]))
    expect(new Set(serveAll(false))).toEqual(new Set([0]))
  })

  test.each([
    { name: 'past the caches of the host', platform: DDIO_OFF },
    { name: "through the host's caches", platform: DDIO_ON },
  ])('is refused $name, and what comes whole behind it is stored', ({ platform }) => {
    const made = placed(platform)
    const { card, region, qp, agent } = made
    const data = dataOf(64, 1)
    const guard = judgedGuard(data)
    const sentOf = (bytes: Uint8Array): Sent[] => {
      const sent = card.serve(...persistFrames(qp, region, 0, bytes, { guard }))
      card.sent = []
      if (agent !== null) work(card, agent)
      return [...sent, ...card.sent]
    }
    for (let round = 0; round < 12; round++) {
      expect(statusesOf(sentOf(damaged(data, 40 * round)))).toEqual([GUARD_STATUS])
    }
    expect(statusesOf(sentOf(data))).toEqual([0])
    const found = image(made, 0, VIEW_SETTLED)
    expect([guardIn(found), hexOf(found.slice(64, 128))]).toEqual([guard, hexOf(data)])
  })

  test('leaves no lane behind of the record that its job had before', () => {
    const { card, region, qp, agent } = placed(DDIO_ON)
    const data = dataOf(64, 1)
    const guard = judgedGuard(data)
    const isClear = (): boolean => card.nvdimm.live.subarray(lane, lane + 64).every((x) => x === 0)
    const lane = LANES_AT + BURST_FRAMES * 64
    card.serve(...persistFrames(qp, region, 0, data, { guard }))
    while (!statusesOf(card.sent).includes(0)) {
      agent!.poll()
      card.idle()
    }
    expect(isClear()).toBe(false)
    card.serve(...persistFrames(qp, region, 0, damaged(data, 7), { guard }))
    work(card, agent!)
    expect(statusesOf(card.sent)).toEqual([GUARD_STATUS])
    expect(isClear()).toBe(true)
  })

  test('has no say where its operation is durable already', () => {
    const one = setting()
    const data = dataOf(64, 1)
    const guard = judgedGuard(data)
    one.card.serve(...persistFrames(one.qp, one.region, 1, data, { guard, operation: 5 }))
    const bad = persistFrames(one.qp, one.region, 1, damaged(data, 3), { guard, operation: 5 })
    expect(statusesOf(one.card.serve(...bad))).toEqual([0])
    expect(hexOf(image(one, 1, VIEW_SETTLED).slice(64, 128))).toBe(hexOf(data))
  })
})

describe('S1-M1: of a batch', () => {
  const CONDITIONS = [
    { name: 'independent', condition: INDEPENDENT, durable: [0, 1, 3, 4] },
    { name: 'in order', condition: IN_ORDER, durable: [0, 1] },
    { name: 'expect', condition: EXPECT, durable: [0, 1, 3, 4] },
  ]

  test.each(CONDITIONS)('$name, the damaged record has its status', ({ condition, durable }) => {
    const one = batchSetting()
    const records = (bad: number): BatchRecord[] =>
      [0, 1, 2, 3, 4].map((slot) => {
        const data = dataOf(64, 10 + slot)
        const sent = slot === bad ? damaged(data, 99) : data
        const expected = condition === EXPECT ? { expect: sequenceOf(one, slot) } : {}
        return { slot, data: sent, guard: judgedGuard(data), ...expected }
      })
    const frames = batchFrames(one.qp, one.region, records(2), { condition })
    const [status] = statuses(one.card.serve(...frames))
    expect([status!.said, status!.durable]).toEqual(['GUARD', durable])
    // What was not taken comes again, whole.
    const left = [0, 1, 2, 3, 4].filter((index) => !durable.includes(index))
    const again = records(-1)
      .map((record, index) => ({ ...record, index, pweth: { repetition: true } }))
      .filter(({ index }) => left.includes(index))
    const burst = { condition, count: 5, operation: one.qp.operation - 4 }
    const [second] = statuses(one.card.serve(...batchFrames(one.qp, one.region, again, burst)))
    expect([second!.said, second!.durable]).toEqual(['durable', [0, 1, 2, 3, 4]])
    for (let slot = 0; slot < 5; slot++) {
      expect(guardIn(image(one, slot, VIEW_SETTLED))).toBe(judgedGuard(dataOf(64, 10 + slot)))
    }
  })

  test('whose records take several packets, and wait over several bursts, they are found', () => {
    const one = batchSetting({ slots: 8, capacity: 1000 }, 256)
    const data = dataOf(1000, 3)
    const guard = judgedGuard(data)
    const records = [data, damaged(data, 7999), data].map((sent, slot) => ({
      slot,
      data: sent,
      guard,
    }))
    const sent: Sent[] = []
    for (const frame of batchFrames(one.qp, one.region, records)) {
      sent.push(...one.card.serve(frame))
    }
    const [status] = statuses(sent)
    expect([status!.said, status!.durable]).toEqual(['GUARD', [0, 2]])
  })
})

describe('S1-M1: who takes guards says so, and others refuse them', () => {
  test('a region of records tells it, and one of bytes does not', () => {
    const one = setting()
    const bytes = one.card.provision({
      name: 'bytes',
      kind: mad.KIND_BYTES,
      length: 4096,
      flags: 2,
    })
    const flagsOf = (name: string): number => {
      const told = one.card.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (request) => {
        request.set(new TextEncoder().encode(name), mad.REGION_NAME)
      })
      return u16(told, mad.REGION_FLAGS)
    }
    expect(flagsOf('records') & mad.REGION_TAKES_GUARDS).toBe(mad.REGION_TAKES_GUARDS)
    expect(flagsOf('bytes') & mad.REGION_TAKES_GUARDS).toBe(0)
    const data = dataOf(64, 1)
    const frames = persistFrames(one.qp, bytes, 0, data, { guard: judgedGuard(data) })
    expect(one.card.serve(...frames)[0]!.syndrome).toBe(0x61)
    expect(one.card.counter('PERSIST_HEADER')).toBe(1)
  })

  test('a guard of 0 is none, and its header is refused', () => {
    const one = setting()
    const before = contentOf(one.card)
    const sent = one.card.serve(...persistFrames(one.qp, one.region, 1, dataOf(8, 1), { guard: 0 }))
    expect(sent[0]!.syndrome).toBe(0x61)
    expect(firstDifference(contentOf(one.card), before)).toBe(-1)
    expect(one.card.read(one.card.connect(), one.region, 1, 0, 8)).toHaveLength(8)
  })
})
