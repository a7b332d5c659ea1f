/**
 * Records that nobody could settle: what gives one up, and when the region takes writes again.
 */

import { describe, expect, it } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { FIXED_LENGTH, HOST_DATA_AT, PLACEMENT_BYPASS } from '../../../firmware/medium/region.ts'
import { LOST_MAX } from '../../../firmware/medium/superblock.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { batchFrames, IN_ORDER } from '../../support/cards/batch-card.ts'
import { countCommands } from '../../support/cards/fences.ts'
import {
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  type Placed,
  placed,
  restarted,
  SEED,
  tellAgent,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const NEVER = 1_000_000

/** The operator gives the record up. */
function discard(card: TestCard, region: { readonly id: number }, record: number): string {
  return card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, region.id)
    putU32(body, mad.SETTLE_RECORD, record)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  }).fault
}

function scan(card: TestCard, region: { readonly id: number }, first = 0): [string, number] {
  const { fault, body } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (request) => {
    putU32(request, mad.SCAN_REGION, region.id)
    putU32(request, mad.SCAN_RECORD, first)
  })
  return [fault, u32(body, mad.SCAN_NEXT)]
}

/** Scans all of the region; every answer must be PASS. */
function scanAll(card: TestCard, region: TestRegion): void {
  for (let first = 0; first < region.slots; ) {
    const [fault, next] = scan(card, region, first)
    expect(fault).toBe('PASS')
    first = next
  }
}

function readData(card: TestCard, name = 'records', slot = 0): Uint8Array | null {
  return card.read(card.connect(), card.open(name), slot, VIEW_DATA, 64)
}

/** Spoils both copies of the record at rest: its check codes are wrong. */
function decay(card: TestCard, region: TestRegion, slot: number): void {
  for (let c = 0; c < region.copies; c++) {
    card.nvdimm.poison(slotOffset(region, c, slot) / 64)
  }
}

/** Likewise of record 0 of a region in the host's memory: every copy is overwritten. */
function decayPlaced({ card, host, region }: Placed): void {
  const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
  for (let c = 0; c < region.copies; c++) {
    host.store(HOST_DATA_AT + c * area, new Uint8Array(region.stride).fill(0xa5))
    host.clean(HOST_DATA_AT + c * area, region.stride)
  }
  host.fence()
  expect(readData(card)).toBeNull()
}

/** That fence from now on fails, and no other. */
function failFence(card: TestCard, number: number): void {
  let left = number
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE && --left === 0) card.nvdimm.fencesToFail = 1
    },
  })
}

function isServing(card: TestCard): boolean {
  return card.status()[mad.PART_STATE] === mad.STATE_SERVING
}

describe('SETTLE, and a host that does not answer', () => {
  /** A record that is whole, and its host, which does not answer reads [from, to). */
  function silent(from: number, to: number): Placed & { readonly data: Uint8Array } {
    const made = placed(DDIO_OFF)
    const { card, region, qp } = made
    const data = dataOf(64, 1)
    expect(persistAcks(card.serve(...persistFrames(qp, region, 0, data)))[0]).toMatchObject({
      ...{ status: 0, copies: 2 },
    })
    let reads = -1
    card.host!.link.script = ({ kind, memory }) => {
      if (kind !== 'read' || memory !== 'persistent') return undefined
      reads += 1
      return reads >= from && reads < to ? 'timeout' : undefined
    }
    return { ...made, data }
  }

  const SILENCES = [
    ...Array.from({ length: 16 }, (_, k) => [k, k + 1] as const),
    ...Array.from({ length: 8 }, (_, k) => [k, NEVER] as const),
  ]

  it.each(SILENCES)('R1-C4: a record that is whole stays, reads %i to %i unanswered', (...span) => {
    const made = silent(...span)
    const { card, region, data } = made
    expect(['DMA', 'PASS']).toContain(discard(card, region, 0))
    expect(isServing(card)).toBe(true)
    card.host!.link.script = null
    expect(discard(card, region, 0)).toBe('PASS')
    expect(readData(card)).toEqual(data)
    cutPower(made, { random: new Random(SEED), strategy: 'all' })
    const next = restarted(made)
    expect(isServing(next)).toBe(true)
    expect(readData(next)).toEqual(data)
  })

  it.each(SILENCES)('R1-C4: a scan says so, and closes nothing, reads %i to %i', (...span) => {
    const { card, region, data } = silent(...span)
    expect(['DMA', 'PASS']).toContain(scan(card, region)[0])
    expect(isServing(card)).toBe(true)
    card.host!.link.script = null
    expect(scan(card, region)).toEqual(['PASS', region.slots])
    expect(readData(card)).toEqual(data)
  })

  it.each(SILENCES)('R1-C4: a lost record is lost or blank, reads %i to %i', (...span) => {
    const made = placed(DDIO_OFF)
    const { card, region, qp } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    decayPlaced(made)
    let reads = -1
    card.host!.link.script = ({ kind, memory }) => {
      if (kind !== 'read' || memory !== 'persistent') return undefined
      reads += 1
      return reads >= span[0] && reads < span[1] ? 'timeout' : undefined
    }
    const fault = discard(card, region, 0)
    card.host!.link.script = null
    expect(['DMA', 'PASS']).toContain(fault)
    expect(readData(card) === null).toBe(fault !== 'PASS')
    expect(isServing(card)).toBe(true)
    expect(discard(card, region, 0)).toBe('PASS')
    expect(readData(card)).toEqual(new Uint8Array(64))
    expect(card.open().unsettled).toBe(0)
  })
})

describe('B5: SETTLE, and posted writes that are lost without a word', () => {
  it.each([
    ...[[0], [1], [0, 1]].map((back) => ({ back, lost: [0, 1] })),
    ...[[0], [1], [0, 1]].map((back) => ({ back, lost: [0] })),
    ...[[0], [1], [0, 1]].map((back) => ({ back, lost: [1] })),
  ])('nothing older is shown: as of old $back, lost into $lost', ({ back, lost }) => {
    // Of a fixed length, so that a copy of a copy is all of it.
    const made = placed(DDIO_OFF, { flags: FIXED_LENGTH })
    const { card, region, qp, host } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    const old = host.part.durable.slice()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2)))
    decayPlaced(made)
    scanAll(card, region)
    const area = (c: number): number => HOST_DATA_AT + c * 4096
    // The memory of the host is in part what it was: whole, and older than what is lost.
    for (const c of back) host.store(area(c), old.slice(area(c), area(c) + region.stride))
    expect(readData(card)).toBeNull()
    card.host!.link.contains = false
    card.host!.link.script = ({ kind, at }) =>
      kind === 'write' && lost.some((c) => at >= area(c) && at < area(c + 1)) ? 'lost' : undefined
    expect(discard(card, region, 0)).toBe('DMA')
    card.host!.link.script = null
    expect(readData(card)).toBeNull()
    expect(discard(card, region, 0)).toBe('PASS')
    expect(readData(card)).toEqual(new Uint8Array(64))
  })
})

describe('SETTLE and SCAN, where nobody has shown how it becomes durable', () => {
  it('R1-C4: nothing is stored into the host’s memory before the placement is proven', () => {
    const made = placed(DDIO_OFF)
    decayPlaced(made)
    const before = made.host.part.live.slice()
    cutPower(made, { random: new Random(SEED), strategy: 'all' })
    const next = restarted(made)
    const region = next.open()
    expect(discard(next, region, 0)).toBe('PLACEMENT_UNKNOWN')
    expect(scan(next, region)[0]).toBe('PLACEMENT_UNKNOWN')
    for (let i = 0; i < 64; i++) next.idle()
    expect(next.host!.part.live).toEqual(before)
    believe(next, 1)
    expect(discard(next, region, 0)).toBe('PASS')
    expect(readData(next)).toEqual(new Uint8Array(64))
  })

  it('B3, X-5: a record of which nobody knows yet whether it goes back is not given up', () => {
    let refused = 0
    for (let at = 0, ended = false; !ended; at++) {
      const made = placed(DDIO_OFF)
      const { card, region, qp } = made
      for (const slot of [0, 1]) {
        card.serve(...persistFrames(qp, region, slot, dataOf(64, slot + 1)))
      }
      const batching = card.connect()
      card.machine.armCut(at)
      const batch = [0, 1].map((slot) => ({ slot, data: dataOf(64, slot + 3) }))
      card.serve(...batchFrames(batching, region, batch, { condition: IN_ORDER }))
      ended = !card.machine.dead
      cutPower(made, { random: new Random(SEED + at), strategy: 'none' })
      // The host answers its probe, and nothing about the record that the other one waits for.
      const host = new HostMemory({ part: made.host.part, platform: DDIO_OFF })
      host.link.script = (access) =>
        access.kind === 'read' && access.at >= HOST_DATA_AT ? 'timeout' : undefined
      const next = cardOf(card.nvdimm, host)
      believe(next, PLACEMENT_BYPASS)
      host.link.script = null
      const fault = discard(next, region, 1)
      expect(['PASS', 'PLACEMENT_UNKNOWN']).toContain(fault)
      if (fault !== 'PASS') refused += 1
      believe(next, PLACEMENT_BYPASS)
      expect([dataOf(64, 2), dataOf(64, 4)]).toContainEqual(readData(next, 'records', 1))
      expect(discard(next, region, 1)).toBe('PASS')
      expect(readData(next, 'records', 1)).not.toEqual(new Uint8Array(64))
    }
    expect(refused).toBeGreaterThan(0)
  })

  it('R1-C4: without save energy neither looks, and the part stays open', () => {
    const card = new TestCard().format()
    const region = card.provision()
    card.nvdimm.armed = false
    expect(discard(card, region, 0)).toBe('NOT_ARMED')
    expect(scan(card, region)[0]).toBe('NOT_ARMED')
    card.nvdimm.armed = true
    expect(discard(card, region, 0)).toBe('PASS')
    expect(isServing(card)).toBe(true)
  })

  it('R1-C4: through the caches it is lost by name until the agent’s bell', () => {
    const made = placed(DDIO_ON)
    const { card, region, agent } = made
    decayPlaced(made)
    expect(discard(card, region, 0)).toBe('UNDER_WAY')
    expect(readData(card)).toBeNull()
    expect(discard(card, region, 0)).toBe('UNDER_WAY')
    expect(scan(card, region)).toEqual(['PASS', 0])
    work(card, agent!)
    expect(discard(card, region, 0)).toBe('PASS')
    expect(readData(card)).toEqual(new Uint8Array(64))
    expect(card.open().unsettled).toBe(0)
  })

  it('R1-C4: through the caches, an agent that goes leaves it lost', () => {
    const made = placed(DDIO_ON)
    const { card, region, agent } = made
    decayPlaced(made)
    expect(discard(card, region, 0)).toBe('UNDER_WAY')
    tellAgent(card, mad.AGENT_DETACH, agent!.queues.sendQueue)
    expect(discard(card, region, 0)).toBe('NO_AGENT')
    work(card, attachedAgent(card))
    expect(readData(card)).toBeNull()
    cutPower(made, { random: new Random(SEED), strategy: 'none' })
    const next = restarted(made)
    expect(next.open().unsettled).toBe(1)
    expect(readData(next)).toBeNull()
  })
})

describe('what leaves a region unsettled', () => {
  /** A record, of level 1of2 and acknowledged, whose second copy the medium refuses for good. */
  function held(wait = 1): { card: TestCard; region: TestRegion } {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 17 })).format()
    const region = card.provision({ slots: 8 })
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64)
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 2), { wait }))
    expect(card.open().unsettled).toBe(1)
    return { card, region }
  }

  function statusOfWrite(card: TestCard, region: TestRegion, slot: number): number {
    return persistAcks(
      card.serve(...persistFrames(card.connect(), region, slot, dataOf(64, 9))),
    )[0]!.status
  }

  it('D-14, D-13: a fence of it that fails: it is lost until somebody gives it up again', () => {
    for (let fence = 1; ; fence++) {
      const card = new TestCard().format()
      const region = card.provision({ slots: 8 })
      decay(card, region, 4)
      failFence(card, fence)
      const fault = discard(card, region, 4)
      if (fault === 'PASS') break
      expect(fault).toBe('FLUSH')
      expect(card.open().unsettled).toBe(1)
      expect(readData(card, 'records', 4)).toBeNull()
      const next = new TestCard(card.nvdimm)
      expect(discard(next, region, 4)).toBe('PASS')
      expect(readData(next, 'records', 4)).toEqual(new Uint8Array(64))
      expect(next.open().unsettled).toBe(0)
    }
  })

  it('R1-C5: that another record is given up shows no older copy of one that a lane holds', () => {
    const { card, region } = held()
    decay(card, region, 5)
    expect(discard(card, region, 5)).toBe('PASS')
    expect(card.open().unsettled).toBe(1)
    expect(statusOfWrite(card, region, 3)).toBe(0x8b)
    card.nvdimm.poison(slotOffset(region, 0, 0) / 64)
    expect(readData(card)).toBeNull()
  })

  it('R1-C5: a record that a lane holds is given up, and the region takes writes again', () => {
    const { card, region } = held()
    card.nvdimm.poison(slotOffset(region, 0, 0) / 64)
    expect(discard(card, region, 0)).toBe('MEDIA')
    expect(readData(card)).toBeNull()
    card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64, false)
    expect(discard(card, region, 0)).toBe('PASS')
    expect(readData(card)).toEqual(new Uint8Array(64))
    expect(card.open().unsettled).toBe(0)
    expect(statusOfWrite(card, region, 0)).toBe(0)
    const next = new TestCard(card.nvdimm)
    expect(readData(next)).toEqual(dataOf(64, 9))
    expect(next.open().unsettled).toBe(0)
  })

  it.each([1, 2])('R1-C5: and it stays given up over a start, level %iof2', (wait) => {
    for (let at = 0, ended = false; !ended; at++) {
      const { card, region } = held(wait)
      expect(readData(card)).toEqual(dataOf(64, 2))
      card.nvdimm.poison(slotOffset(region, 0, 0) / 64)
      card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64, false)
      card.machine.armCut(at)
      let fault = ''
      try {
        fault = discard(card, region, 0)
      } catch {
        // No answer: the power went.
      }
      ended = !card.machine.dead
      card.machine.die()
      cut(card.nvdimm, { random: new Random(SEED + at) })
      const next = new TestCard(card.nvdimm)
      if (fault !== 'PASS' && next.open().unsettled > 0) {
        expect(readData(next)).toBeNull()
        expect(discard(next, region, 0)).toBe('PASS')
      }
      for (const one of [next, new TestCard(card.nvdimm)]) {
        expect([one.open().unsettled, readData(one)]).toEqual([0, new Uint8Array(64)])
      }
    }
  })

  it('R1-C4: what the superblock does not take is not made blank, and stays lost', () => {
    const card = new TestCard().format()
    const region = card.provision({ slots: 8 })
    decay(card, region, 5)
    const before = card.nvdimm.live.slice(slotOffset(region, 0, 0))
    for (const page of [0, 1]) card.nvdimm.refuseWrites((page * 4096) / 64)
    expect(discard(card, region, 5)).toBe('SUPERBLOCK')
    expect(card.nvdimm.live.slice(slotOffset(region, 0, 0))).toEqual(before)
    expect(readData(card, 'records', 5)).toBeNull()
    for (const page of [0, 1]) card.nvdimm.refuseWrites((page * 4096) / 64, false)
    expect(discard(card, region, 5)).toBe('PASS')
    expect(readData(card, 'records', 5)).toEqual(new Uint8Array(64))
  })

  it('R1-C4: of several given up in one burst one is, and the others are asked for again', () => {
    const card = new TestCard().format()
    const region = card.provision({ slots: 8 })
    const slots = [2, 3, 4]
    for (const slot of slots) decay(card, region, slot)
    const ask = (slot: number): Uint8Array =>
      card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
        putU32(body, mad.SETTLE_REGION, region.id)
        putU32(body, mad.SETTLE_RECORD, slot)
        body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
      })
    expect(card.serve(...slots.map(ask))).toHaveLength(3)
    expect(slots.map((slot) => readData(card, 'records', slot) !== null)).toEqual([
      ...[true, false, false],
    ])
    expect(slots.map((slot) => discard(card, region, slot))).toEqual(['PASS', 'PASS', 'PASS'])
  })

  it('R1-C5: a record that is looked at, or lost, again and again counts once', () => {
    const card = new TestCard().format()
    const region = card.provision({ slots: 8 })
    for (const slot of [1, 4]) decay(card, region, slot)
    for (let i = 0; i < 3; i++) {
      scanAll(card, region)
      expect(card.open().unsettled).toBe(2)
      expect(new TestCard(card.nvdimm).open().unsettled).toBe(2)
    }
    expect(discard(card, region, 4)).toBe('PASS')
    expect(discard(card, region, 4)).toBe('PASS')
    expect(card.open().unsettled).toBe(1)
  })
})

describe('more lost records than the list has room for', () => {
  const LOST = LOST_MAX + 2

  /** A region of 100 records of which `LOST` have decayed, all of it scanned. */
  function overfull(): { card: TestCard; region: TestRegion } {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 19 })).format()
    const region = card.provision({ slots: 100 })
    for (let slot = 0; slot < LOST; slot++) decay(card, region, slot)
    for (let i = 0; i < 3; i++) scanAll(card, region)
    // Those on the list, and one for "and more".
    expect(card.open().unsettled).toBe(LOST_MAX + 1)
    return { card, region }
  }

  function rest(card: TestCard): void {
    let calls = 0
    for (card.idle(); card.waitUs > 0; card.idle()) {
      calls += 1
      expect(calls).toBeLessThan(1000)
    }
  }

  function expectWhole(card: TestCard, region: TestRegion): void {
    expect(card.open().unsettled).toBe(0)
    const write = persistFrames(card.connect(), card.open(), 99, dataOf(64, 3))
    expect(persistAcks(card.serve(...write))[0]!.status).toBe(0)
    expect(region.slots).toBe(100)
    for (let slot = 0; slot < LOST; slot++) {
      expect(readData(card, 'records', slot)).toEqual(new Uint8Array(64))
    }
  }

  it('D-14, D-13: one that has no room there, and a fence of it fails: it is lost still', () => {
    for (let fence = 1; ; fence++) {
      const { card, region } = overfull()
      failFence(card, fence)
      const fault = discard(card, region, LOST - 1)
      if (fault === 'PASS') break
      expect(fault).toBe('FLUSH')
      expect(card.open().unsettled).toBe(LOST_MAX + 1)
      const next = new TestCard(card.nvdimm)
      rest(next)
      expect(next.open().unsettled).toBe(LOST_MAX + 1)
      for (let slot = 0; slot < LOST; slot++) expect(discard(next, region, slot)).toBe('PASS')
      rest(next)
      expectWhole(next, region)
    }
  })

  it.each(['first to last', 'last to first'])('R1-C5: all are given up, %s', (order) => {
    const { card, region } = overfull()
    for (let i = 0; i < LOST; i++) {
      const slot = order === 'first to last' ? i : LOST - 1 - i
      expect(discard(card, region, slot), `${slot}`).toBe('PASS')
      expect(card.open().unsettled).toBeGreaterThan(0)
    }
    rest(card)
    expectWhole(card, region)
  })

  /** Both copies of record 3 of a second region have decayed, while the list is full of others. */
  function beside(calls: number): { card: TestCard; region: TestRegion; other: TestRegion } {
    const card = new TestCard(new Nvdimm({ bytes: 1 << 19 })).format()
    const region = card.provision({ slots: 100 })
    for (let slot = 0; slot < LOST_MAX; slot++) decay(card, region, slot)
    scanAll(card, region)
    const other = card.provision({ name: 'other', slots: 40 })
    for (let i = 0; i < calls; i++) card.idle()
    for (const copy of [0, 1]) card.nvdimm.poison(inOther(other, copy, 3) / 64)
    return { card, region, other }
  }

  /** It lies behind the areas of the first one. */
  function inOther(other: TestRegion, copy: number, slot: number): number {
    return 2 * Math.ceil((100 * 128) / 4096) * 4096 + slotOffset(other, copy, slot)
  }

  it('R1-C5: a region takes writes when all that it lost is given up, and the list is full', () => {
    const { card, other } = beside(0)
    scanAll(card, other)
    expect(card.open('other').unsettled).toBe(1)
    expect(discard(card, other, 3)).toBe('PASS')
    for (let i = 0; i < 200; i++) card.idle()
    expect(u32(card.status(), mad.PART_UNSETTLED)).toBe(LOST_MAX)
    expect(card.open('other').unsettled).toBe(0)
    const write = persistFrames(card.connect(), card.open('other'), 3, dataOf(64, 3))
    expect(persistAcks(card.serve(...write))[0]!.status).toBe(0)
  })

  it('R1-C5: a record that is lost behind the look at it: its region stays marked', () => {
    for (let calls = 0; calls < 36; calls++) {
      const { card, region, other } = beside(calls)
      card.nvdimm.refuseWrites(inOther(other, 0, 3) / 64)
      expect(discard(card, other, 3)).toBe('MEDIA')
      expect(discard(card, region, 0)).toBe('PASS')
      for (let i = 0; i < 20; i++) {
        expect(card.open('other').unsettled, `${calls} calls, and ${i}`).toBeGreaterThan(0)
        card.idle()
      }
      expect(readData(card, 'other', 3)).toBeNull()
    }
  })

  it('R1-C5: what was not given up is listed when there is room; none is forgotten', () => {
    const { card, region } = overfull()
    expect(discard(card, region, 0)).toBe('PASS')
    rest(card)
    expect(card.open().unsettled).toBe(LOST_MAX + 1)
    for (let slot = 1; slot < LOST; slot++) expect(discard(card, region, slot)).toBe('PASS')
    rest(card)
    expectWhole(card, region)
  })

  it('R1-C5: a start between any two of them forgets none', () => {
    let { card } = overfull()
    const { region } = overfull()
    for (let slot = LOST - 1; slot >= 0; slot--) {
      expect(discard(card, region, slot)).toBe('PASS')
      card = new TestCard(card.nvdimm)
      expect(card.open().unsettled).toBeGreaterThan(0)
    }
    rest(card)
    expectWhole(card, region)
  })

  it('R1-C5: without save energy the card looks for none, and wants no call for it', () => {
    const { card, region } = overfull()
    expect(discard(card, region, 0)).toBe('PASS')
    expect(card.waitUs).toBeGreaterThan(0)
    card.nvdimm.armed = false
    card.machine.tellHealth()
    card.idle()
    expect(card.waitUs).toBe(0)
    card.status()
    expect(card.waitUs).toBe(0)
    card.nvdimm.armed = true
    card.machine.tellHealth()
    for (let slot = 1; slot < LOST; slot++) expect(discard(card, region, slot)).toBe('PASS')
    rest(card)
    expectWhole(card, region)
  })

  it('R1-C5, R1-A10: a mark that cannot be taken away closes the part, and stays', () => {
    const { card, region } = overfull()
    for (let slot = 0; slot < LOST; slot++) expect(discard(card, region, slot)).toBe('PASS')
    for (const page of [0, 1]) card.nvdimm.refuseWrites((page * 4096) / 64)
    rest(card)
    expect(isServing(card)).toBe(false)
    const write = persistFrames(card.connect(), card.open(), 99, dataOf(64, 3))
    expect(persistAcks(card.serve(...write))[0]!.status).not.toBe(0)
    for (const page of [0, 1]) card.nvdimm.refuseWrites((page * 4096) / 64, false)
    const next = new TestCard(card.nvdimm)
    expect(next.open().unsettled).toBe(1)
    rest(next)
    expectWhole(next, region)
  })

  it('R1-C5: no more than a slice of it keeps a burst waiting', () => {
    const { card, region } = overfull()
    discard(card, region, 0)
    let most = 0
    const commands = countCommands(card.machine)
    for (card.idle(); card.waitUs > 0; card.idle()) {
      most = Math.max(most, commands.passed)
      commands.passed = 0
    }
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThan(16 * 16)
  })
})
