/**
 * The table of recovery: one row for whatever the copies look like, and every row met on a medium
 * (P1-14 … P1-25, D-4, D-14).
 *
 * Invariant: the images below are composed from bytes that the firmware itself stored; what
 * a row did is read from the medium by the oracle, and its name from the report over the wire.
 */

import { expect, test } from 'vitest'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CASES, type CopyFacts, caseMatches, judgeCopies } from '../../../firmware/commit/cases.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { type Media, mediaOf, partOf, recoveryReport } from '../../support/crash/explorer.ts'
import { DECIDED, type Decided, decide } from '../../support/judges/case-table.ts'
import { copyAt, linesOfCopy, slotValid } from '../../support/judges/oracle.ts'

const PHASES = [0xa1, 0xb2, 0]
const BOTH = [false, true]

function everyCombination(): CopyFacts[] {
  const all: CopyFacts[] = []
  for (const phase of PHASES) {
    for (let bits = 0; bits < 32; bits++) {
      const bit = (i: number): boolean => BOTH[(bits >> i) & 1]!
      all.push({
        phase,
        aValid: bit(0),
        bValid: bit(1),
        same: bit(2),
        bCurrent: bit(3),
        promised: bit(4),
      })
    }
  }
  return all
}

test('D-14: exactly one row of the table matches each of the 96 combinations', () => {
  const all = everyCombination()
  expect(all).toHaveLength(96)
  const met = new Set<number>()
  for (const facts of all) {
    const rows = CASES.flatMap((row, i) => (caseMatches(row, facts) ? [i] : []))
    expect(rows, JSON.stringify(facts)).toHaveLength(1)
    expect(judgeCopies(facts)).toBe(rows[0])
    met.add(rows[0]!)
  }
  expect(met.size).toBe(CASES.length)
})

test('R1-E7: the table is the one that was written from the crash model, case by case', () => {
  const own = CASES.map(({ name, then, sourceCase }) => ({ name, action: then, sourceCase }))
  expect(own).toEqual(DECIDED)
  for (const { phase, aValid, bValid, same, bCurrent, promised } of everyCombination()) {
    const lane = phase === 0xa1 ? 'A' : phase === 0xb2 ? 'B' : 'none'
    const wanted = decide({ lane, a: aValid, b: bValid, same, isNew: bCurrent, promised })
    const facts = { phase, aValid, bValid, same, bCurrent, promised }
    const { then } = CASES[judgeCopies(facts)]!
    expect([facts, then]).toEqual([facts, wanted])
  }
})

test('P1-24: no row takes a copy that is not valid, and only without one is it lost', () => {
  for (const facts of everyCombination()) {
    const { then } = CASES[judgeCopies(facts)]!
    if (then === 'useA' || then === 'none') expect(facts.aValid).toBe(true)
    if (then === 'useB') expect(facts.bValid).toBe(true)
    // The exception is said: A lost to the medium, B still old, and the new one acknowledged.
    const stale = facts.phase === 0xb2 && facts.bValid && !facts.bCurrent && facts.promised
    if (then === 'lost') expect(!facts.aValid && (!facts.bValid || stale)).toBe(true)
  }
})

test('D-14: names of rows are unique, and source cases 1 to 5 all occur', () => {
  expect(new Set(CASES.map((row) => row.name)).size).toBe(CASES.length)
  expect(new Set(CASES.map((row) => row.sourceCase))).toEqual(new Set([0, 1, 2, 3, 4, 5]))
})

const LATE = mediaOf({ wait: 2, copies: 2 })
const EARLY = mediaOf({ wait: 1, copies: 2 })

/** Half of the new image over the old one. */
function torn({ old, fresh }: Media, bytes = 72): Uint8Array {
  const image = old.slice()
  image.set(fresh.subarray(0, bytes))
  return image
}

function junk(media: Media): Uint8Array {
  return media.fresh.map((byte, i) => (i === 100 ? byte ^ 1 : byte))
}

type Scan = 'scan'

/** An image that leads to one row: the copies, what the lane says, and which copy is unreadable. */
interface Way {
  readonly row: string
  readonly copies: (media: Media) => readonly [Uint8Array, Uint8Array]
  readonly lane: 'A' | 'B' | Scan
  readonly poison?: 0 | 1
  readonly media?: Media
}

const WAYS: readonly Way[] = [
  { row: 'before A', copies: (m) => [m.old, m.old], lane: 'A' },
  { row: 'A torn', copies: (m) => [torn(m), m.old], lane: 'A' },
  { row: 'A whole, unmarked', copies: (m) => [m.fresh, m.old], lane: 'A' },
  { row: 'B unreadable, A whole', copies: (m) => [m.fresh, m.old], lane: 'A', poison: 1 },
  { row: 'both torn in A', copies: (m) => [torn(m), m.old], lane: 'A', poison: 1 },
  { row: 'equal but invalid in A', copies: (m) => [junk(m), junk(m)], lane: 'A' },
  { row: 'after B', copies: (m) => [m.fresh, m.fresh], lane: 'B' },
  { row: 'between', copies: (m) => [m.fresh, m.old], lane: 'B' },
  { row: 'B torn', copies: (m) => [m.fresh, torn(m)], lane: 'B' },
  { row: 'A unreadable, B new', copies: (m) => [m.fresh, m.fresh], lane: 'B', poison: 0 },
  {
    row: 'A unreadable, B old, acknowledged',
    copies: (m) => [m.fresh, m.old],
    lane: 'B',
    poison: 0,
    media: EARLY,
  },
  {
    row: 'A unreadable, B old, not acknowledged',
    copies: (m) => [m.fresh, m.old],
    lane: 'B',
    poison: 0,
  },
  { row: 'both torn in B', copies: (m) => [m.fresh, torn(m)], lane: 'B', poison: 0 },
  { row: 'equal but invalid in B', copies: (m) => [junk(m), junk(m)], lane: 'B' },
  { row: 'clean', copies: (m) => [m.fresh, m.fresh], lane: 'scan' },
  { row: 'A newer', copies: (m) => [m.fresh, m.old], lane: 'scan' },
  { row: 'B newer', copies: (m) => [m.old, m.fresh], lane: 'scan' },
  { row: 'only A valid', copies: (m) => [m.fresh, torn(m)], lane: 'scan' },
  { row: 'only B valid', copies: (m) => [torn(m), m.fresh], lane: 'scan' },
  { row: 'both torn', copies: (m) => [torn(m), torn(m, 40)], lane: 'scan' },
  { row: 'equal but invalid', copies: (m) => [junk(m), junk(m)], lane: 'scan' },
]

function copyIn(media: Media, part: Nvdimm, copy: number): Buffer {
  const at = copyAt(media.layout, copy, 0)
  return Buffer.from(part.durable.slice(at, at + media.layout.stride))
}

function partOn(way: Way, media: Media): Nvdimm {
  const lanes = { A: media.laneA, B: media.laneB, scan: null }
  const part = partOf(media, way.copies(media), lanes[way.lane])
  // An unsafe shutdown makes the start look at everything.
  if (way.lane === 'scan') part.dirtyShutdowns = 1
  if (way.poison !== undefined) part.poison(linesOfCopy(media.layout, way.poison, 0)[1]!)
  return part
}

/** What was written by hand of that row: nothing below takes what it expects from the firmware. */
function decidedOf({ row }: Way): Decided {
  return DECIDED.find(({ name }) => name === row)!
}

/** What the report and the counters say of the record, beside the row. */
function expectTold(card: TestCard, way: Way, media: Media, before: readonly Buffer[]): void {
  const { action: then, sourceCase } = decidedOf(way)
  const isScan = way.lane === 'scan'
  const isRepaired = then === 'useA' || then === 'useB'
  // Which copies were overwritten stands above what was done.
  const flags = { none: 0, useA: 0x21, useB: 0x11, lost: 2 }[then]
  const valid = before.map((copy, c) => c !== way.poison && slotValid(copy, media.layout, 0))
  const validMask = (valid[0] ? 1 : 0) | (valid[1] ? 2 : 0)
  const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_REPORT)
  expect([u32(body, mad.REPORT_TOTAL), u32(body, mad.REPORT_HERE)]).toEqual([1, 1])
  const entry = body.subarray(mad.REPORT_FIRST)
  expect([entry[mad.ENTRY_FLAGS], entry[mad.ENTRY_VALID]]).toEqual([flags, validMask])
  const kept = before[then === 'useB' ? 1 : 0]!
  const sequence = [u32(entry, mad.ENTRY_SEQUENCE_LOW), u32(entry, mad.ENTRY_SEQUENCE_HIGH)]
  expect(sequence).toEqual([kept.readUInt32LE(32), kept.readUInt32LE(36)])
  expect(u32(entry, mad.ENTRY_LINES_READ)).toBe(4)
  const status = card.status()
  expect({
    entries: u32(status, mad.PART_REPORT_ENTRIES),
    unsettled: u32(status, mad.PART_UNSETTLED),
    lanes: u32(status, mad.PART_LANES_ACTIVE),
    scanned: u32(status, mad.PART_SCANNED),
    repaired: u32(status, mad.PART_REPAIRED),
  }).toEqual({
    entries: 1,
    unsettled: then === 'lost' ? 1 : 0,
    lanes: isScan ? 0 : 1,
    scanned: isScan ? media.layout.slots : 0,
    repaired: isRepaired ? 1 : 0,
  })
  // What was merely under way is no decay.
  const decay = isRepaired && (isScan || sourceCase === 0) ? 1 : 0
  const region = card.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (request) => {
    request.set(Buffer.from('records'), mad.REGION_NAME)
  })
  expect(u32(region, mad.REGION_REPAIRED)).toBe(decay)
}

test('every row has its image below', () => {
  expect(WAYS.map((way) => way.row)).toEqual(DECIDED.map((row) => row.name))
})

for (const way of WAYS) {
  const row = decidedOf(way)
  test(`D-14, S1-M4: "${way.row}" is met on a medium, and what is done is: ${row.action}`, () => {
    const media = way.media ?? LATE
    const part = partOn(way, media)
    const before = [copyIn(media, part, 0), copyIn(media, part, 1)]
    const card = new TestCard(part)
    const after = [copyIn(media, part, 0), copyIn(media, part, 1)]
    const wanted = {
      none: before,
      useA: [before[0], before[0]],
      useB: [before[1], before[1]],
      lost: before,
    }[row.action]
    expect(after).toEqual(wanted)

    const [line, ...others] = recoveryReport(card)
    expect(others).toEqual([])
    if (way.row === 'clean') {
      // Nothing is said of the records that a scan finds in order.
      expect(line).toBeUndefined()
      expect(u32(card.status(), mad.PART_SCANNED)).toBe(media.layout.slots)
      return
    }
    const actions = ['none', 'useA', 'useB', 'lost']
    expect(DECIDED[line!.row]!.name).toBe(way.row)
    expect(actions[line!.action]).toBe(row.action)
    expect(line).toMatchObject({ record: 0, sourceCase: row.sourceCase })
    expect(line!.lane).toBe(way.lane === 'scan' ? 255 : 0)
    expectTold(card, way, media, before)
    const data = card.read(card.connect(), card.open(), 0, 0, 64)
    expect(data === null).toBe(row.action === 'lost')
    const kept = row.action === 'useB' ? 1 : 0
    if (data !== null) expect(Buffer.from(data)).toEqual(before[kept]!.subarray(64))
  })
}
