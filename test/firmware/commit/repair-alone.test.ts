/**
 * What is settled behind a group: a record that went forward, and what is chained behind it, where
 * the repair itself fails, or a fence behind it (P1-11, D-13, X-5).
 *
 * Invariant: a part starts again on what was durable at the end, with a medium that takes
 * everything; what was acknowledged is there then, in every copy, and nothing is torn.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { COPY_CLEAN, FENCE, FROM, NVDIMM_SPACE, TO } from '../../../firmware/board/hal.ts'
import { BURST_FRAMES, LANES } from '../../../firmware/board/limits.ts'
import { ZEROS_AT } from '../../../firmware/board/memory-map.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { batchFrames, IN_ORDER, statuses, upTo } from '../../support/cards/batch-card.ts'
import { atFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { LINE_BYTES } from '../../support/judges/oracle.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { type Setting, slotOffset } from '../../support/wire/requests.ts'

const DURABLE = 0
const MEDIA = 0x81
const IN_DOUBT = 0x8f
const CLIENT = 7
const SLOTS = [0, 1, 2, 3]
const older = (slot: number): Uint8Array => dataOf(64, slot)
const newer = (slot: number): Uint8Array => dataOf(64, 100 + slot)

/** A region of which every record holds its older data, and lanes that are clear. */
function setting(): Setting {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ slots: SLOTS.length })
  const qp = card.connect(4096, 0, CLIENT)
  card.serve(...SLOTS.flatMap((slot) => persistFrames(qp, region, slot, older(slot))))
  card.idle()
  return { card, region, qp }
}

/** Does so behind that fence, counted from now on. */
function behindFence(card: TestCard, fence: number, act: () => void): void {
  atFence(card.machine, fence, act)
}

/** What readers see of each record. A refusal ends a connection, so each has its own. */
function shown(card: TestCard): string[] {
  const region = card.open()
  return SLOTS.map((slot) => {
    const bytes = card.read(card.connect(), region, slot, VIEW_DATA, 64)
    if (bytes === null) return 'refused'
    const is = (other: Uint8Array): boolean => Buffer.compare(bytes, other) === 0
    return is(newer(slot)) ? 'new' : is(older(slot)) ? 'old' : 'other'
  })
}

function rebooted({ card }: Setting): TestCard {
  const content = card.nvdimm.durable.slice()
  return new TestCard(new Nvdimm({ bytes: content.length, content }))
}

/** The lines of that copy of a record take nothing any more. */
function refuseCopy({ card, region }: Setting, slot: number, copy = 1): void {
  const first = slotOffset(region, copy, slot) / LINE_BYTES
  for (const line of [first, first + 1]) card.nvdimm.refuseWrites(line)
}

/** What a repetition of that operation hears on another connection. */
function repeated({ card, region }: Setting, slot: number, operation: number): number {
  const again = card.connect(4096, 0, CLIENT)
  const options = { operation, repetition: true }
  return persistAcks(card.serve(...persistFrames(again, region, slot, newer(slot), options)))[0]!
    .status
}

/** What was said of each record, in the order of their PSNs. */
function said(answers: readonly ReturnType<typeof persistAcks>[number][]): number[] {
  return answers
    .flatMap(({ firstPsn, lastPsn, status }) => {
      return Array.from({ length: lastPsn - firstPsn + 1 }, (_, i) => [firstPsn + i, status])
    })
    .sort(([one], [other]) => one! - other!)
    .map(([, status]) => status!)
}

test.each([
  { copy: 0, status: MEDIA, sees: 'old' },
  { copy: 1, status: IN_DOUBT, sees: 'new' },
])('P1-11: copy $copy of two records is refused: both are told so, the third is durable', (of) => {
  const made = setting()
  const { card, region, qp } = made
  for (const slot of [0, 1]) refuseCopy(made, slot, of.copy)
  const frames = [0, 1, 2].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
  expect(said(persistAcks(card.serve(...frames)))).toEqual([of.status, of.status, DURABLE])
  expect(shown(card)).toEqual([of.sees, of.sees, 'new', 'old'])
  expect(shown(rebooted(made))).toEqual([of.sees, of.sees, 'new', 'old'])
})

test('P1-11: one of a full group is refused: it is told so, and all others are durable', () => {
  const card = new TestCard(1 << 17).format()
  const slots = upTo(BURST_FRAMES)
  const region = card.provision({ slots: slots.length })
  const qp = card.connect(4096, 0, CLIENT)
  refuseCopy({ card, region, qp }, 5, 0)
  const frames = slots.flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
  const told = said(persistAcks(card.serve(...frames)))
  expect(told).toEqual(slots.map((slot) => (slot === 5 ? MEDIA : DURABLE)))
})

/** What the medium refuses of two records, from that fence on, or at once. */
interface Refusal {
  readonly what: string
  readonly from: number
  /** Until that one, if it takes them again. */
  readonly until?: number
  readonly lines: (region: TestRegion) => number[]
  /** Copies that the acknowledgement waits for. */
  readonly wait?: number
}

const lanesOf = (...lanes: number[]) => lanes.map((lane) => LANES_AT / LINE_BYTES + lane)

function copiesOf(copy: number, ...slots: number[]): (region: TestRegion) => number[] {
  return (region) => slots.map((slot) => slotOffset(region, copy, slot) / LINE_BYTES)
}

const REFUSALS: readonly Refusal[] = [
  { what: 'a lane', from: 0, lines: () => lanesOf(1) },
  { what: 'a first copy', from: 1, lines: copiesOf(0, 1) },
  { what: 'a phase word', from: 2, lines: () => lanesOf(1) },
  { what: 'a phase word, once,', from: 2, until: 4, lines: () => lanesOf(1) },
  { what: 'a second copy', from: 1, lines: copiesOf(1, 1) },
  { what: 'both first copies', from: 1, lines: copiesOf(0, 0, 1) },
  { what: 'both phase words', from: 2, lines: () => lanesOf(0, 1) },
  { what: 'both second copies', from: 1, lines: copiesOf(1, 0, 1) },
  {
    what: 'both second copies, which nobody waits for,',
    from: 1,
    lines: copiesOf(1, 0, 1),
    wait: 1,
  },
]

/** Two records are written; that is refused, and that fence fails. */
function refused({ from, until, lines, wait = 2 }: Refusal, fence: number) {
  const made = setting()
  const { card, region, qp } = made
  const refuse = (is = true): void => {
    for (const line of lines(region)) card.nvdimm.refuseWrites(line, is)
  }
  if (from === 0) refuse()
  let [fences, cleared] = [0, 0]
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      const isLater = fence > 0 && fences >= fence
      if (isLater && op === COPY_CLEAN && words[at + FROM] === ZEROS_AT) cleared += 1
      if (op !== FENCE) return
      fences += 1
      if (fences === from) refuse()
      if (fences === until) refuse(false)
      if (fences === fence) card.nvdimm.fencesToFail = 1
    },
  })
  const frames = [0, 1].flatMap((slot) => persistFrames(qp, region, slot, newer(slot), { wait }))
  const sent = persistAcks(card.serve(...frames))
  card.machine.observe({})
  return { ...made, sent, fences, cleared, operations: [qp.operation - 1, qp.operation] }
}

/** Does a query hear that the operation is durable? */
function isKnown(card: TestCard, operation: number): boolean {
  const { number, psn } = card.connect(4096, 0, CLIENT)
  const bth = { opcode: PERSIST_QUERY, destQp: number, psn, ackRequest: true }
  const [answer] = persistAcks(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))
  return answer!.status === DURABLE
}

test.each(REFUSALS.flatMap((one) => upTo(13, 1).map((fence) => ({ ...one, fence }))))(
  'D-13: $what is refused, and fence $fence fails: the part closes, and forgets nothing',
  ({ fence, ...one }) => {
    const made = refused(one, fence)
    const { card, sent, fences, operations } = made
    const told = said(sent)
    expect(told).toHaveLength(2)
    const closes = fences >= fence
    const state = closes ? mad.STATE_FAILED_CLOSED : mad.STATE_SERVING
    expect(card.status()[mad.PART_STATE]).toBe(state)
    // In how many copies they are is said, too.
    const most = one.wait ?? 2
    for (const { status, copies } of sent) if (status === DURABLE) expect(copies).toBe(most)
    const before = shown(card).slice(0, 2)
    const known = operations.filter((operation) => isKnown(card, operation))
    expect(known).toEqual(operations.filter((_, i) => told[i] === DURABLE))
    // No lane is cleared behind it, and those that still are may be so durably, or not.
    expect(made.cleared).toBe(0)
    card.idle()
    const { durable, live } = card.nvdimm
    const mixed = durable.slice()
    mixed.set(live.subarray(LANES_AT, LANES_AT + LANES * LINE_BYTES), LANES_AT)
    for (const content of [durable.slice(), live.slice(), mixed]) {
      const next = new TestCard(new Nvdimm({ bytes: content.length, content }))
      const then = shown(next).slice(0, 2)
      for (const i of [0, 1]) {
        expect(['old', 'new']).toContain(then[i])
        if (told[i] === DURABLE) expect(then[i]).toBe('new')
        if (told[i] === DURABLE) expect(isKnown(next, operations[i]!)).toBe(true)
        if (told[i] === MEDIA) expect(then[i]).toBe('old')
        // What was shown once is not taken back; copies are one.
        if (before[i] === 'new') expect(then[i]).toBe('new')
        const [first, second] = [0, 1].map((copy) => {
          const at = slotOffset(made.region, copy, i)
          return next.nvdimm.durable.slice(at, at + 128)
        })
        expect(first).toEqual(second)
      }
    }
  },
)

test('P1-11: no copy of a record is left: nobody knows, and the part serves the others', () => {
  const made = setting()
  const { card, region, qp } = made
  behindFence(card, 3, () => {
    for (const copy of [0, 1]) {
      card.nvdimm.poison(slotOffset(region, copy, 1) / LINE_BYTES)
      refuseCopy(made, 1, copy)
    }
  })
  const frames = [0, 1].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
  expect(said(persistAcks(card.serve(...frames)))).toEqual([DURABLE, IN_DOUBT])
  expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
  expect(shown(card)).toEqual(['new', 'refused', 'old', 'old'])
  // A start that can read them again finds what its lane says.
  expect(shown(rebooted(made))).toEqual(['new', 'new', 'old', 'old'])
})

test.each([
  { what: 'a lane', told: [DURABLE, MEDIA], fences: 4 },
  { what: 'a first copy', told: [DURABLE, MEDIA], fences: 6 },
  { what: 'a phase word', told: [DURABLE, DURABLE], fences: 7 },
  { what: 'a second copy', told: [DURABLE, IN_DOUBT], fences: 5 },
  { what: 'both first copies', told: [MEDIA, MEDIA], fences: 8 },
  { what: 'both second copies', told: [IN_DOUBT, IN_DOUBT], fences: 6 },
])('P1-11: $what is refused: $told is told behind so many fences: $fences', (row) => {
  const made = refused(REFUSALS.find(({ what }) => what === row.what)!, 0)
  expect([said(made.sent), made.fences]).toEqual([row.told, row.fences])
})

test.each([0, 1])('D-13: made whole before the part closes: copy %i may go', (copy) => {
  const made = setting()
  const { card, region, qp } = made
  let fences = 0
  card.machine.observe({
    onCommand: (_, op) => {
      if (op !== FENCE) return
      fences += 1
      if (fences === 2) for (const line of lanesOf(0, 1, 2)) card.nvdimm.refuseWrites(line)
      // The repair of the second record cannot be fenced, and the third one is left.
      if (fences === 8) card.nvdimm.fencesToFail = 1
    },
  })
  const frames = [0, 1, 2].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
  const told = said(persistAcks(card.serve(...frames)))
  expect(told).toEqual([DURABLE, IN_DOUBT, IN_DOUBT])
  card.nvdimm.poison(slotOffset(region, copy, 0) / LINE_BYTES)
  expect(shown(card)[0]).toBe('new')
})

test('P1-11: the lane of a record that was settled is clear, and is not cleared again', () => {
  const { card } = refused(REFUSALS.find(({ what }) => what === 'a first copy')!, 0)
  const lane = (i: number): number[] => {
    return [
      ...card.nvdimm.durable.slice(LANES_AT + i * LINE_BYTES, LANES_AT + (i + 1) * LINE_BYTES),
    ]
  }
  expect(lane(1)).toEqual(new Array(LINE_BYTES).fill(0))
  const stores: number[] = []
  card.machine.observe({
    onCommand: (_, op, words, at) => {
      if (op === COPY_CLEAN) stores.push((words[at + TO]! - NVDIMM_SPACE - LANES_AT) / LINE_BYTES)
    },
  })
  card.idle()
  expect(stores).toEqual([0])
})

describe('a first copy is stored, and refused when its stage is repeated', () => {
  /** The other record of the group is refused, and so the stage is repeated without it. */
  function repeatedStage(
    watch: (op: number, made: Setting) => void = () => {},
  ): Setting & { told: number[] } {
    const made = setting()
    const { card, region, qp } = made
    refuseCopy(made, 1, 0)
    const to = NVDIMM_SPACE + slotOffset(region, 0, 0)
    let stores = 0
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        watch(op, made)
        if (op !== COPY_CLEAN || words[at + TO] !== to) return
        stores += 1
        if (stores === 2) refuseCopy(made, 0, 0)
      },
    })
    const frames = [0, 1].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
    return { ...made, told: said(persistAcks(card.serve(...frames))) }
  }

  test.each(upTo(11, 2))('D-13: fence %i fails beside it: nothing shown is taken back', (fence) => {
    let seen = 0
    const made = repeatedStage((op, { card }) => {
      if (op === FENCE && ++seen === fence) card.nvdimm.fencesToFail = 1
    })
    const before = shown(made.card).slice(0, 2)
    const then = shown(rebooted(made)).slice(0, 2)
    for (const i of [0, 1]) if (before[i] === 'new') expect(then[i]).toBe('new')
    expect(before).not.toContain('other')
  })

  test('P1-11: readers are shown the old one, which the next start makes whole', () => {
    const made = repeatedStage()
    expect(made.told).toEqual([MEDIA, MEDIA])
    expect(shown(made.card)).toEqual(['old', 'old', 'old', 'old'])
    expect(shown(rebooted(made))).toEqual(['old', 'old', 'old', 'old'])
  })
})

test.each([0, 1, 2])(
  'X-5: record %i stays in doubt: who is durable behind it is not known',
  (at) => {
    const made = setting()
    const { card, region, qp } = made
    refuseCopy(made, at)
    const first = qp.operation + 1
    const records = SLOTS.map((slot) => ({ slot, data: newer(slot) }))
    const sent = card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
    expect(statuses(sent).map(({ durable }) => durable)).toEqual([upTo(at)])
    expect(shown(card)).toEqual(SLOTS.map(() => 'new'))
    const known = SLOTS.filter((slot) => repeated(made, slot, first + slot) === DURABLE)
    expect(known).toEqual(upTo(at))
    expect(shown(rebooted(made))).toEqual(SLOTS.map(() => 'new'))
  },
)

test.each([0, 1, 2])(
  'X-5: record %i keeps phase A and one copy: who is behind it goes back',
  (at) => {
    const made = setting()
    const { card, region, qp } = made
    refuseCopy(made, at)
    behindFence(card, 2, () => card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + at))
    const records = SLOTS.map((slot) => ({ slot, data: newer(slot) }))
    const sent = card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
    expect(statuses(sent).map(({ durable }) => durable)).toEqual([upTo(at)])
    const behind = SLOTS.filter((slot) => slot > at)
    expect(behind.map((slot) => shown(card)[slot])).toEqual(behind.map(() => 'old'))
    const next = shown(rebooted(made))
    expect(next.slice(0, at)).toEqual(upTo(at).map(() => 'new'))
    expect(behind.map((slot) => next[slot])).toEqual(behind.map(() => 'old'))
  },
)
