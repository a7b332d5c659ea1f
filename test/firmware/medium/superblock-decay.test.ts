/**
 * Pages of the superblock that decay while the part serves, and lines of them that take no stores
 * (faults H6, H7; L1 to L3).
 *
 * Invariant: with one page decayed the power may go at any command of an update, and the
 * part comes up with every record; a page that refuses its stores costs the part its writes, never
 * what it holds.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { SCRUB_TURNS } from '../../../firmware/board/limits.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { LINE_BYTES, PAGE_BYTES, readSuperblock, sealPage } from '../../support/judges/oracle.ts'

const RECORD = dataOf(64, 1)
const PART_BYTES = 2 ** 16
/** Where a page says its incarnation, and the last that it may say. */
const INCARNATION_AT = 40
const INCARNATION_LAST = 2 ** 20 - 2

/** A part with one record in three copies, acknowledged in two. */
const CONTENT = ((): Uint8Array => {
  const card = new TestCard(PART_BYTES).format()
  const region = card.provision({ slots: 2, copies: 3 })
  const [ack] = persistAcks(
    card.serve(...persistFrames(card.connect(), region, 0, RECORD, { wait: 2 })),
  )
  expect(ack).toMatchObject({ status: 0, copies: 2 })
  card.idle()
  return card.nvdimm.durable.slice()
})()

/** It serves again, and both pages are whole. */
function served(): TestCard {
  return new TestCard(new Nvdimm({ bytes: PART_BYTES, content: CONTENT }))
}

function lineOf(page: number, at: number): number {
  return (page * PAGE_BYTES + at) / LINE_BYTES
}

/** The state of the part, or the fault that it names. */
function stateOf(card: TestCard): string {
  const status = card.status()
  const fault = FAULTS[status[mad.PART_FAULT]!]!.name
  return fault === 'PASS' && status[mad.PART_STATE] === mad.STATE_SERVING ? 'serving' : fault
}

function pagesOf(card: TestCard): { whole: number; mended: number } {
  const status = card.status()
  return {
    whole: u32(status, mad.PART_SUPERBLOCK_WHOLE),
    mended: u32(status, mad.PART_SUPERBLOCK_MENDED),
  }
}

/** Makes a region. False if the power went meanwhile. */
function provisioned(card: TestCard): boolean {
  try {
    card.provision({ name: 'more', slots: 1 })
  } catch (error) {
    if (!card.machine.dead) throw error
  }
  return !card.machine.dead
}

function expectRecord(card: TestCard): void {
  const read = card.read(card.connect(), card.open(), 0, VIEW_DATA, RECORD.length)
  expect(Buffer.from(read!)).toEqual(Buffer.from(RECORD))
}

/** Idle time, until what describes the part had its turn. */
function scrubbed(card: TestCard): void {
  for (let i = 0; i < SCRUB_TURNS; i++) card.idle()
}

describe.each([0, 1])('R1-C8: page %i decays while the part serves', (page) => {
  /** Each with the line that decays: the head, and the first region. */
  for (const at of [0, 640]) {
    test(`line at ${at}: the power goes at each command of the next update`, () => {
      let last = false
      let points = 0
      for (; !last; points++) {
        const card = served()
        card.nvdimm.poison(lineOf(page, at))
        card.machine.armCut(points)
        last = provisioned(card)
        if (!card.machine.dead) card.machine.die()
        cut(card.nvdimm, { random: new Random(points) })
        const next = new TestCard(card.nvdimm)
        expect(stateOf(next)).toBe('serving')
        expectRecord(next)
      }
      expect(points).toBeGreaterThan(10)
    })
  }

  test('idle time mends it, and says so', () => {
    const card = served()
    expect(pagesOf(card)).toEqual({ whole: 2, mended: 0 })
    card.nvdimm.poison(lineOf(page, 640))
    scrubbed(card)
    expect(pagesOf(card)).toEqual({ whole: 2, mended: 1 })
    const bytes = card.nvdimm.durable.slice()
    bytes.copyWithin(0, page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
    bytes.fill(0, PAGE_BYTES, 2 * PAGE_BYTES)
    expect(readSuperblock(bytes)!.regions.length).toBe(1)
    scrubbed(card)
    expect(pagesOf(card).mended).toBe(1)
  })

  test('the save energy goes while idle time mends it: the part closes, a start mends', () => {
    const card = served()
    card.nvdimm.poison(lineOf(page, 0))
    card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE) card.nvdimm.armed = false
      },
    })
    scrubbed(card)
    card.nvdimm.armed = true
    expect(stateOf(card)).toBe('FLUSH')
    card.machine.die()
    cut(card.nvdimm, { random: new Random(1), strategy: 'none' })
    const next = new TestCard(card.nvdimm)
    expect(stateOf(next)).toBe('serving')
    expect(pagesOf(next).whole).toBe(2)
    expectRecord(next)
  })

  test("what decays behind all that is used of it is nobody's", () => {
    const card = served()
    card.nvdimm.poison(lineOf(page, 4032))
    card.provision({ name: 'more', slots: 1 })
    scrubbed(card)
    expect(pagesOf(card)).toEqual({ whole: 2, mended: 0 })
    card.machine.die()
    cut(card.nvdimm, { random: new Random(1) })
    expect(stateOf(new TestCard(card.nvdimm))).toBe('serving')
  })

  test('R1-A10: a line of it takes no stores: a start serves for reading, and says so', () => {
    const card = served()
    card.machine.die()
    cut(card.nvdimm, { random: new Random(1) })
    card.nvdimm.refuseWrites(lineOf(page, 0))
    for (let start = 0; start < 3; start++) {
      const next = new TestCard(card.nvdimm)
      expect(stateOf(next)).toBe('SUPERBLOCK')
      expect(next.status()[mad.PART_STATE]).toBe(mad.STATE_FAILED_CLOSED)
      expect(pagesOf(next).whole).toBe(1)
      expectRecord(next)
      const [ack] = persistAcks(
        next.serve(...persistFrames(next.connect(), next.open(), 0, dataOf(64, 9))),
      )
      expect(ack!.status).toBe(0x97)
      expectRecord(next)
      next.machine.die()
      cut(next.nvdimm, { random: new Random(start) })
    }
  })

  test('R1-A10: it refuses stores while the part serves: records go on, and it is counted', () => {
    const card = served()
    card.nvdimm.refuseWrites(lineOf(page, 64))
    expect(card.tryProvision({ name: 'more', slots: 1 }).fault).toBe('SUPERBLOCK')
    const before = card.counter('SUPERBLOCK')
    scrubbed(card)
    expect(card.counter('SUPERBLOCK')).toBe(before + 1)
    expect(pagesOf(card).whole).toBe(1)
    const [ack] = persistAcks(card.serve(...persistFrames(card.connect(), card.open(), 0, RECORD)))
    expect(ack!.status).toBe(0)
    expectRecord(card)
  })
})

/** The part at its last incarnation but one. */
function nearlyOver(): Nvdimm {
  const card = served()
  card.machine.die()
  cut(card.nvdimm, { random: new Random(1) })
  const content = card.nvdimm.durable.slice()
  for (const page of [0, 1]) {
    const bytes = content.subarray(page * PAGE_BYTES, (page + 1) * PAGE_BYTES)
    new DataView(bytes.buffer, bytes.byteOffset).setUint32(
      INCARNATION_AT,
      INCARNATION_LAST - 1,
      true,
    )
    sealPage(bytes)
  }
  return new Nvdimm({ bytes: PART_BYTES, content })
}

test('R1-E6: behind its last incarnation a part serves for reading, and says so', () => {
  const nvdimm = nearlyOver()
  const last = new TestCard(nvdimm)
  expect(stateOf(last)).toBe('serving')
  const newer = dataOf(64, 2)
  const send = (to: TestCard): { status: number } =>
    persistAcks(to.serve(...persistFrames(to.connect(), to.open(), 0, newer, { wait: 2 })))[0]!
  expect(send(last).status).toBe(0)
  for (let start = 0; start < 3; start++) {
    const next = new TestCard(nvdimm)
    expect(stateOf(next)).toBe('SUPERBLOCK')
    expect(readSuperblock(nvdimm.durable)!.incarnation).toBe(INCARNATION_LAST)
    expect(Buffer.compare(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)!, newer)).toBe(0)
    expect(send(next).status).toBe(0x97)
    expect(next.tryProvision({ name: 'more', slots: 1 }).fault).toBe('SUPERBLOCK')
    next.machine.die()
    cut(nvdimm, { random: new Random(start) })
  }
})

test('R1-E6: nor does a save that failed, and took the last one back, have it come again', () => {
  const nvdimm = nearlyOver()
  const before = nvdimm.durable.slice(0, 2 * PAGE_BYTES)
  const last = new TestCard(nvdimm)
  const newer = dataOf(64, 2)
  const send = (to: TestCard): { status: number } =>
    persistAcks(to.serve(...persistFrames(to.connect(), to.open(), 0, newer, { wait: 2 })))[0]!
  expect(send(last).status).toBe(0)
  last.machine.die()
  cut(nvdimm, { random: new Random(1), strategy: 'none' })
  const content = nvdimm.durable.slice()
  content.set(before)
  const next = new TestCard(new Nvdimm({ bytes: PART_BYTES, content }), {
    facts: { dirtyShutdowns: 1 },
  })
  expect(stateOf(next)).toBe('SUPERBLOCK')
  expect(Buffer.compare(next.read(next.connect(), next.open(), 0, VIEW_DATA, 64)!, newer)).toBe(0)
  expect(send(next).status).toBe(0x97)
})

test('R1-C8: both pages decay while the part serves: it writes them from what it knows', () => {
  const card = served()
  for (const page of [0, 1]) card.nvdimm.poison(lineOf(page, 0))
  scrubbed(card)
  expect(pagesOf(card)).toEqual({ whole: 2, mended: 2 })
  card.machine.die()
  cut(card.nvdimm, { random: new Random(1) })
  const next = new TestCard(card.nvdimm)
  expect(stateOf(next)).toBe('serving')
  expectRecord(next)
})
