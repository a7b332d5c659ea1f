/**
 * Groups that have records and plain bytes of batches in them, and what the host of the target is
 * told of those (S1-M9, S1-M10; source 4).
 *
 * Invariant: however many members there are, whoever else is in the group, and however few lanes
 * are left, all that a status calls durable is there behind a cut; and of each region that somebody
 * watches, each record is told once, with its own region.
 */

import { describe, expect, test } from 'vitest'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchRecord,
  batchFrames,
  CONDITIONS,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { MixedCard } from '../../support/cards/mixed-card.ts'
import { NOTHING } from '../../support/cards/placed.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  type TestPeer,
  type TestRegion,
  withPassingCards,
} from '../../support/cards/test-card.ts'
import { LANES_AT, LINE_BYTES } from '../../support/judges/oracle.ts'
import {
  askNotices,
  type NoticeSetting,
  noticeSetting,
  noticesIn,
} from '../../support/queues/notice-host.ts'
import { writeFrames } from '../../support/wire/requests.ts'

const LARGE = { areaBytes: 1 << 15, slots: 128, partBytes: 1 << 20, mtu: 4096 }

/** A member of any kind: bytes, and records of either region, in turn from `from` on. */
function inTurns(one: MixedCard, count: number, from = 0): BatchRecord[] {
  return upTo(from + count, from).map((i) => {
    if (i % 3 === 0) return one.bytes(100 * i, dataOf(i % 100, i))
    const region = i % 3 === 1 ? one.first : one.second
    return one.record(region, i >> 1, dataOf(i % 64, i))
  })
}

/** All of the members are there behind a cut that leaves nothing pending. */
function expectThere(one: MixedCard, shape: (again: MixedCard) => BatchRecord[]): void {
  expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  const again = one.after(NOTHING)
  const qp = again.card.connect()
  for (const [i, { slot, data, reth, pweth }] of shape(again).entries()) {
    const isArea = pweth?.slotAddressed === false
    const region = [again.area, again.first, again.second].find(({ rkey }) => rkey === reth!.rkey)!
    const found = again.card.read(qp, region, slot, 0, data.length, isArea ? reth!.vaLow! : 0)
    expect(found, `member ${i}`).toEqual(data)
  }
}

describe.each(Object.entries(CONDITIONS))('S1-M9: %s', (_, condition) => {
  for (const retired of [0, 5, 30]) {
    test(`S1-M9: 250 members, ${retired} lanes that take nothing`, () => {
      const one = new MixedCard(null, LARGE)
      for (const lane of upTo(retired)) {
        one.card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + lane)
        // A lane is left alone when a record has found out.
        one.card.serve(...persistFrames(one.qp, one.first, 127, dataOf(64, 1)))
      }
      expect(one.state.commit.usableLanes).toBe(32 - retired)
      const members = inTurns(one, 250)
      const sent = one.card.serve(...batchFrames(one.qp, one.first, members, { condition }))
      expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: upTo(250) }])
      expectThere(one, (again) => inTurns(again, 250))
    })
  }

  test('S1-M9: bytes alone, more than a group has', () => {
    const shape = (one: MixedCard): BatchRecord[] => {
      return upTo(70).map((i) => one.bytes(64 * i + (i % 2), dataOf(63, i)))
    }
    const one = new MixedCard(null, LARGE)
    const sent = one.card.serve(...batchFrames(one.qp, one.first, shape(one), { condition }))
    expect(statuses(sent)).toMatchObject([{ said: 'durable', durable: upTo(70) }])
    expectThere(one, shape)
  })

  test('S1-M9: records, WRITEs and batches of other queue pairs in one burst of frames', () => {
    for (const turn of upTo(4)) {
      withPassingCards(() => {
        const one = new MixedCard(null, LARGE)
        const others = upTo(3).map((i) => one.card.connect(4096, 0, 20 + i))
        const streams = streamsOf(one, others, condition)
        const order = [...streams.slice(turn), ...streams.slice(0, turn)]
        const most = Math.max(...order.map((frames) => frames.length))
        // One frame of each queue pair, and again.
        const frames = upTo(most).flatMap((i) => order.flatMap((each) => each.slice(i, i + 1)))
        expect(frames.length).toBeLessThanOrEqual(32)
        const sent = one.card.serve(...frames)
        const said = statuses(sent).map((status) => [status.said, status.durable])
        expect(said).toEqual([
          ['durable', upTo(8)],
          ['durable', upTo(8)],
        ])
        expect(ackStatuses(sent).every((status) => status === 0)).toBe(true)
        expectThere(one, (again) => [
          ...inTurns(again, 8),
          ...inTurns(again, 8, 30),
          ...singles(again),
        ])
      })
    }
  })
})

function singles(one: MixedCard): BatchRecord[] {
  return upTo(6).map((i) => one.record(one.first, 100 + i, dataOf(64, i)))
}

/** Two batches, records one by one, and plain WRITEs: each of a queue pair of its own. */
function streamsOf(one: MixedCard, others: readonly TestPeer[], condition: number): Uint8Array[][] {
  const [second, third, fourth] = others as [TestPeer, TestPeer, TestPeer]
  const inSecond = inTurns(one, 8, 30)
  return [
    batchFrames(one.qp, one.first, inTurns(one, 8), { condition }),
    batchFrames(second, one.first, inSecond, { condition: INDEPENDENT }),
    singles(one).flatMap(({ slot, data }) => persistFrames(third, one.first, slot, data)),
    upTo(6).flatMap((i) => writeFrames(fourth, one.area, 30000 + 64 * i, dataOf(64, i))),
  ]
}

// ---- what is told ------------------------------------------------------------------------------

/** Two regions that somebody may watch, and an area, which nobody does. */
interface Watched {
  readonly setting: NoticeSetting
  readonly regions: readonly TestRegion[]
  readonly area: TestRegion
}

function watchedRegions(): Watched {
  const setting = noticeSetting(512)
  const { host, region } = setting
  const second = host.card.provision({ name: 'second', slots: 300 })
  const bytes = { kind: mad.KIND_BYTES, length: 65536, flags: mad.REGION_WRITE_PERSIST }
  const area = host.card.provision({ name: 'area', ...bytes })
  return { setting, regions: [region, second], area }
}

/** Where the members go: to one of two regions, or to bytes. */
const PLANS: readonly (readonly number[])[] = upTo(3 ** 4).map((n) =>
  upTo(4).map((i) => Math.floor(n / 3 ** i) % 3),
)

function membersOf(
  { regions, area }: Watched,
  plan: readonly number[],
  base: number,
): BatchRecord[] {
  return plan.map((to, i) => {
    const data = dataOf(40, base + i)
    if (to < 2) return { slot: (base + i) % 300, data, reth: { rkey: regions[to]!.rkey } }
    const reth = { rkey: area.rkey, vaHigh: area.baseHigh, vaLow: 64 * ((base + i) % 1000) }
    return { ...{ slot: 0, data, wait: 1, reth }, pweth: { slotAddressed: false } }
  })
}

const EACH = ['record', 'burst', 'nothing'] as const

for (const first of EACH) {
  for (const second of EACH) {
    test(`S1-M9, S1-M10: of two regions, told by ${first} and ${second}`, () => {
      const one = watchedRegions()
      const { setting, regions } = one
      const each = [first, second]
      regions.forEach((region, i) => {
        const { fault } = askNotices(setting.host, region, setting.cq, each[i]!)
        expect(fault).toBe('PASS')
      })
      PLANS.forEach((plan, n) => {
        for (const condition of [INDEPENDENT, IN_ORDER]) {
          const base = 8 * n + 4 * condition
          const members = membersOf(one, plan, base)
          const frames = batchFrames(setting.qp, regions[0]!, members, { condition, id: n })
          expect(statuses(setting.host.card.serve(...frames))).toMatchObject([{ said: 'durable' }])
          expectTold(one, each, plan, base)
        }
      })
    })
  }
}

/** Each member is told once, as its region asks. */
function expectTold(
  one: Watched,
  each: readonly string[],
  plan: readonly number[],
  base: number,
): void {
  const { setting, regions } = one
  const told = noticesIn(setting.host, setting.cq)
  const name = `${plan}`
  for (const [i, region] of regions.entries()) {
    const of = told.filter((notice) => notice.region === region.id)
    const slots = plan.flatMap((to, index) => (to === i ? [(base + index) % 300] : []))
    if (each[i] === 'nothing') {
      expect(of, name).toEqual([])
      continue
    }
    expect(
      of.every(({ says }) => says === each[i]),
      name,
    ).toBe(true)
    expect(
      of.reduce((sum, { records }) => sum + records, 0),
      name,
    ).toBe(slots.length)
    if (each[i] === 'record')
      expect(
        of.map((notice) => notice.slots[0]),
        name,
      ).toEqual(slots)
    for (const slot of slots) {
      const hits = of.filter((notice) => notice.slots[0] <= slot && slot <= notice.slots[1])
      if (base % 300 < 290) expect(hits.length, `${name}: slot ${slot}`).toBeGreaterThan(0)
    }
  }
  const known = regions.map(({ id }) => id)
  expect(
    told.every(({ region }) => known.includes(region)),
    name,
  ).toBe(true)
}
