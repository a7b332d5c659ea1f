/**
 * A group of as many records as a burst has, of which something fails: each is answered once, what
 * was acknowledged is there, and of all others a repetition hears what is known (P1-11, D-13, I5).
 *
 * Invariant: the group fills every place that there is for records of a group, and every
 * lane, so whoever looks behind the last one is seen.
 */

import { expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { BURST_FRAMES } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import {
  batchFrames,
  IN_ORDER,
  statuses as statusesOf,
  upTo,
} from '../../support/cards/batch-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../support/cards/test-card.ts'
import { LINE_BYTES } from '../../support/judges/oracle.ts'
import { type Setting, slotOffset } from '../../support/wire/requests.ts'

const DURABLE = 0
const MEDIA = 0x81
const CLOSED = 0x8e
const IN_DOUBT = 0x8f
const CLIENT = 7
const LAST = BURST_FRAMES - 1

const older = (slot: number): Uint8Array => dataOf(64, slot)
const newer = (slot: number): Uint8Array => dataOf(64, 100 + slot)
const SLOTS = Array.from({ length: BURST_FRAMES }, (_, slot) => slot)

/** A region of which every record holds its older data. */
function setting(): Setting {
  const card = new TestCard(1 << 18).format()
  const region = card.provision({ slots: BURST_FRAMES })
  const qp = card.connect(4096, 0, CLIENT)
  const made = { card, region, qp }
  expect(writeAll(made, 2, older)).toEqual(all(DURABLE))
  card.idle()
  return made
}

/** What was said of each of the records whose PSNs begin with that one; of each once. */
function told(sent: readonly Sent[], base: number): number[] {
  const said = SLOTS.map((): number[] => [])
  for (const { firstPsn, lastPsn, status } of persistAcks(sent)) {
    for (let psn = firstPsn; psn <= lastPsn; psn++) said[psn - base]!.push(status)
  }
  expect(said.map(({ length }) => length)).toEqual(SLOTS.map(() => 1))
  return said.map(([status]) => status!)
}

/** Writes all of them at once; what was said of each. */
function writeAll({ card, region, qp }: Setting, wait: number, data = newer): number[] {
  const base = qp.psn
  const frames = SLOTS.flatMap((slot) => persistFrames(qp, region, slot, data(slot), { wait }))
  return told(card.serve(...frames), base)
}

/** Who is shown which version: `new`, `old`, or something else. */
function shown(card: TestCard): string[] {
  const [qp, region] = [card.connect(), card.open()]
  return SLOTS.map((slot) => {
    const bytes = card.read(qp, region, slot, VIEW_DATA, 64)
    if (bytes === null) return 'refused'
    const is = (other: Uint8Array): boolean => Buffer.compare(bytes, other) === 0
    return is(newer(slot)) ? 'new' : is(older(slot)) ? 'old' : 'other'
  })
}

function all<T>(value: T): T[] {
  return SLOTS.map(() => value)
}

/** A card that starts on what is durable. */
function rebooted({ card }: Setting): TestCard {
  const content = card.nvdimm.durable.slice()
  return new TestCard(new Nvdimm({ bytes: content.length, content }))
}

/** What a repetition of that operation hears on another connection. */
function repeated({ card, region }: Setting, slot: number, operation: number): number {
  const again = card.connect(4096, 0, CLIENT)
  const options = { operation, repetition: true }
  const sent = card.serve(...persistFrames(again, region, slot, newer(slot), options))
  return persistAcks(sent)[0]!.status
}

test.each([
  { fence: 1, wait: 1, status: CLOSED, sees: 'old' },
  { fence: 2, wait: 1, status: IN_DOUBT, sees: 'old' },
  { fence: 3, wait: 1, status: IN_DOUBT, sees: 'old' },
  { fence: 3, wait: 2, status: IN_DOUBT, sees: 'old' },
  { fence: 4, wait: 1, status: DURABLE, sees: 'new' },
  { fence: 4, wait: 2, status: IN_DOUBT, sees: 'new' },
])('D-13: fence $fence fails, level $wait: what each hears, and readers see', (of) => {
  const { fence, wait, status, sees } = of
  const made = setting()
  const { card, qp } = made
  const first = qp.operation + 1
  failFence(card, fence)
  expect(writeAll(made, wait)).toEqual(all(status))
  expect(shown(card)).toEqual(all(sees))
  // What touched a slot, and was not acknowledged, the next start decides.
  for (const slot of [0, LAST]) expect(repeated(made, slot, first + slot)).toBe(status)
  expect(repeated(made, 0, first + BURST_FRAMES)).toBe(CLOSED)
  if (status === DURABLE) expect(shown(rebooted(made))).toEqual(all('new'))
})

test.each([
  { place: 'the lane', status: MEDIA, sees: 'old' },
  { place: 'copy A', status: MEDIA, sees: 'old' },
  { place: 'copy B', status: IN_DOUBT, sees: 'new' },
])(
  'P1-11: $place of the first two records and the last is refused: all others are durable',
  (of) => {
    const { place, status, sees } = of
    const made = setting()
    const { card, region } = made
    const bad = [0, 1, LAST]
    for (const slot of bad) {
      const copy = place === 'copy A' ? 0 : 1
      const line = place === 'the lane' ? LANES_AT / LINE_BYTES + slot : null
      card.nvdimm.refuseWrites(line ?? slotOffset(region, copy, slot) / LINE_BYTES)
    }
    const others = <T>(one: T, other: T): T[] => {
      return SLOTS.map((slot) => (bad.includes(slot) ? one : other))
    }
    expect(writeAll(made, 2)).toEqual(others(status, DURABLE))
    expect(shown(card)).toEqual(others(sees, 'new'))
    for (const slot of SLOTS)
      card.nvdimm.refuseWrites(slotOffset(region, 1, slot) / LINE_BYTES, false)
    expect(shown(rebooted(made))).toEqual(others(sees, 'new'))
  },
)

test.each([0, 1, 15, LAST])('P4-8: of a batch in order record %i is refused: up to there', (at) => {
  const { card, region, qp } = setting()
  card.nvdimm.refuseWrites(slotOffset(region, 0, at) / LINE_BYTES)
  const records = SLOTS.map((slot) => ({ slot, data: newer(slot) }))
  const sent = card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
  expect(statusesOf(sent).map(({ durable }) => durable)).toEqual([upTo(at)])
  expect(shown(card)).toEqual(SLOTS.map((slot) => (slot < at ? 'new' : 'old')))
})

test.each([0, LAST, LAST + 1, 36])('P4-8: a batch of two groups, record %i is refused', (at) => {
  const card = new TestCard(1 << 18).format()
  const region = card.provision({ slots: 40 })
  const qp = card.connect(4096, 0, CLIENT)
  card.nvdimm.refuseWrites(slotOffset(region, 0, at) / LINE_BYTES)
  const records = upTo(40).map((slot) => ({ slot, data: newer(slot) }))
  const frames = batchFrames(qp, region, records, { condition: IN_ORDER })
  const sent = [frames.slice(0, BURST_FRAMES), frames.slice(BURST_FRAMES)].flatMap((burst) => {
    return card.serve(...burst)
  })
  const [status] = statusesOf(sent).slice(-1)
  expect(status!.durable).toEqual(upTo(at))
})
