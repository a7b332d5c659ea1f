/**
 * Recovery where one condition alone decides: lanes that are whole and say something unusual,
 * repairs that a medium refuses, scans beside lanes that hold a record (C9).
 *
 * Invariant: parts are composed from images that the firmware stored itself, sealed again by
 * the oracle where they are changed; what came of it is read by the oracle, or over the wire.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { DDIO_OFF, DDIO_ON, HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { compare } from '../../../firmware/board/command-list.ts'
import {
  CHECK,
  COPY,
  COPY_CLEAN,
  DMA_FAILED,
  FENCE,
  FLUSH,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  SKIP,
  TO,
} from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  CLIENTS,
  COPIES_MAX,
  LANES,
  LOCAL_LANES,
} from '../../../firmware/board/limits.ts'
import { EXAMINE_AT, ZEROS_AT } from '../../../firmware/board/memory-map.ts'
import { VIEW_DATA } from '../../../firmware/burst/view.ts'
import { CASES } from '../../../firmware/commit/cases.ts'
import { copiesSame, examineCopies } from '../../../firmware/commit/examine.ts'
import { hiddenCopies, LOST, REFUSED, REPAIRED } from '../../../firmware/commit/recovery.ts'
import { blankOutcome } from '../../../firmware/commit/unify.ts'
import { PHASE_A, PHASE_B, PHASE_NONE } from '../../../firmware/medium/lane.ts'
import { PLACEMENT_BYPASS, slotAddress } from '../../../firmware/medium/region.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_QUERY } from '../../../firmware/wire/opcode.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import { batchFrames, batchSetting, IN_ORDER, upTo } from '../../support/cards/batch-card.ts'
import {
  attachedAgent,
  believe,
  cardOf,
  cutPower,
  type Placed,
  placed,
  restarted,
  restartedAlone,
  SEED,
  shownCopies,
  work,
} from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { type Media, mediaOf, partOf, recoveryReport } from '../../support/crash/explorer.ts'
import {
  copyAt,
  LANES_AT,
  LINE_BYTES,
  linesOfCopy,
  OPERATIONS_AT,
  PAGE_BYTES,
  readSuperblock,
  sealClientLine,
  sealLane,
  sealPage,
  sealSlot,
} from '../../support/judges/oracle.ts'
import { frameOf } from '../../support/wire/frames.ts'

const TWO = mediaOf({ wait: 2, copies: 2 })
const NOTHING = { random: new Random(SEED), strategy: 'none' } as const

const NEW = dataOf(64, 2)

/** Where records in the host's memory have their lanes. */
const HOST_LANES_AT = LANES_AT + LOCAL_LANES * LINE_BYTES

const STATUS_DURABLE = 0
const STATUS_MEDIA = 0x81
const STATUS_READ_ONLY = 0x8b
const STATUS_IN_DOUBT = 0x8f

/** What a lane says, where it is not what its image says. */
interface Saying {
  readonly region?: number
  readonly record?: number
  /** Lanes back to the one that it must not outlive. */
  readonly link?: number
  readonly sequence?: number
  readonly sequenceHigh?: number
  /** Added to the operation of the image. */
  readonly operations?: number
}

/** That lane, saying so. */
function laneOf(image: Uint8Array, saying: Saying): Uint8Array {
  const lane = image.slice()
  const view = new DataView(lane.buffer)
  if (saying.region !== undefined) view.setUint32(12, saying.region, true)
  if (saying.record !== undefined) view.setUint32(16, saying.record, true)
  if (saying.link !== undefined) lane[23] = (lane[23]! & 7) | (saying.link << 3)
  for (const at of saying.sequence === undefined ? [] : [4, 24]) {
    view.setUint32(at, saying.sequence!, true)
  }
  if (saying.sequenceHigh !== undefined) {
    view.setUint16(2, saying.sequenceHigh, true)
    view.setUint32(28, saying.sequenceHigh, true)
  }
  view.setUint32(40, view.getUint32(40, true) + (saying.operations ?? 0), true)
  sealLane(lane)
  return lane
}

function sequenceOfLane(lane: Uint8Array): number {
  return new DataView(lane.buffer, lane.byteOffset).getUint32(24, true)
}

/** That image of a slot under another sequence. */
function slotWith({ layout }: Media, image: Uint8Array, sequence: number): Uint8Array {
  const slot = image.slice()
  new DataView(slot.buffer).setUint32(32, sequence, true)
  sealSlot(slot, layout.key)
  return slot
}

/** The sequence of a slot: its lower half, and its upper one. */
function sequenceOf(slot: Uint8Array): [number, number] {
  const view = new DataView(slot.buffer, slot.byteOffset)
  return [view.getUint32(32, true), view.getUint32(36, true)]
}

function torn(image: Uint8Array): Uint8Array {
  return image.map((byte, i) => (i === 90 ? byte ^ 0x10 : byte))
}

/** A part with these copies of records, and these lanes from the first one on. */
function partWith(
  media: Media,
  records: Readonly<Record<number, readonly Uint8Array[]>>,
  lanes: readonly Uint8Array[],
): Nvdimm {
  const content = media.content.slice()
  for (const [record, copies] of Object.entries(records)) {
    copies.forEach((copy, c) => {
      content.set(copy, copyAt(media.layout, c, Number(record)))
    })
  }
  lanes.forEach((lane, i) => {
    content.set(lane, LANES_AT + i * LINE_BYTES)
  })
  return new Nvdimm({ bytes: content.length, content })
}

/** The power goes before that fence, counted from now on. */
function endAt({ machine }: TestCard, fence: number): void {
  let seen = 0
  machine.observe({
    onCommand: (_, op) => {
      seen += op === FENCE ? 1 : 0
      if (seen === fence) machine.die()
    },
    replace: (_, op) => (machine.dead ? SKIP : op),
  })
}

/** The copies of a record, as they are durable. */
function copiesIn({ layout }: Media, part: Nvdimm, record = 0): Buffer[] {
  return Array.from({ length: layout.copies }, (_, copy) => {
    const at = copyAt(layout, copy, record)
    return Buffer.from(part.durable.slice(at, at + layout.stride))
  })
}

function imageIn({ layout, content }: Media, record: number): Uint8Array {
  const at = copyAt(layout, 0, record)
  return content.slice(at, at + layout.stride)
}

/** What the report says of records: by which phase each was judged. */
function phasesOf(card: TestCard): [number, number][] {
  return recoveryReport(card).map(({ record, row }) => [record, CASES[row]!.phase])
}

function refuseCopy(part: Nvdimm, { layout }: Media, copy: number, refuse = true): void {
  for (const line of linesOfCopy(layout, copy, 0)) part.refuseWrites(line, refuse)
}

/** A slice of a scan: what it found of its records. */
function scan(card: TestCard, { id }: Pick<TestRegion, 'id'>) {
  const body = card.scan(id)
  return {
    repaired: u32(body, mad.SCAN_REPAIRED),
    unsettled: u32(body, mad.SCAN_FOUND_UNSETTLED),
    lost: u32(body, mad.SCAN_FOUND_LOST),
  }
}

function read(card: TestCard, slot = 0): Buffer | null {
  const data = card.read(card.connect(), card.open(), slot, 0, 64)
  return data === null ? null : Buffer.from(data)
}

function write(card: TestCard, slot: number): number {
  const frames = persistFrames(card.connect(4096, 0, 99), card.open(), slot, dataOf(64, 9))
  return persistAcks(card.serve(...frames))[0]!.status
}

/** The start touches no copy of record 0, says nothing, and clears the lane. */
function expectNothingDone(part: Nvdimm): void {
  const before = copiesIn(TWO, part)
  const card = new TestCard(part)
  expect(recoveryReport(card)).toEqual([])
  expect(copiesIn(TWO, part)).toEqual(before)
  expect(part.durable.slice(LANES_AT, LANES_AT + LINE_BYTES)).toEqual(new Uint8Array(LINE_BYTES))
  expect(card.open().unsettled).toBe(0)
}

describe('a lane that is whole, and names no record', () => {
  test('C9: it names a region of bytes', () => {
    const made = partOf(TWO, [TWO.fresh, TWO.old])
    const larger = made.durable.length + 8 * PAGE_BYTES
    const content = new Uint8Array(larger)
    content.set(made.durable)
    const part = new Nvdimm({ bytes: larger, content })
    const bytes = new TestCard(part).provision({
      name: 'bytes',
      kind: mad.KIND_BYTES,
      length: 4096,
    })
    part.durable.set(laneOf(TWO.laneB, { region: bytes.id }), LANES_AT)
    part.live.set(part.durable)
    expectNothingDone(part)
  })

  test('C9: it names a record behind the last one of its region', () => {
    const { slots } = TWO.layout
    const lanes = [laneOf(TWO.laneB, { record: slots })]
    expectNothingDone(partWith(TWO, { 0: [TWO.fresh, TWO.old] }, lanes))
  })
})

describe('a lane whose check code is wrong', () => {
  test.each(upTo(LINE_BYTES / 4 - 2))('D-2: word %i behind its phase is another one', (word) => {
    const lane = TWO.laneB.slice()
    lane[8 + 4 * word]! ^= 1
    expectNothingDone(partWith(TWO, { 0: [TWO.fresh, TWO.old] }, [lane]))
  })
})

test('D-2: of a full group each lane is judged by itself', () => {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ slots: BURST_FRAMES })
  const slots = upTo(BURST_FRAMES)
  const qp = card.connect()
  endAt(card, 4)
  card.serve(...slots.flatMap((slot) => persistFrames(qp, region, slot, dataOf(64, slot))))
  cut(card.nvdimm, NOTHING)
  const next = new TestCard(card.nvdimm)
  expect(phasesOf(next)).toEqual(slots.map((slot) => [slot, PHASE_B]))
  expect(recoveryReport(next).map(({ lane }) => lane)).toEqual(slots)
})

describe('lanes of two writes in flight', () => {
  /** Two regions, and a write of record 0 of each, cut behind its first copy. */
  function inTwoRegions(): TestCard {
    const card = new TestCard(1 << 17).format()
    const regions = ['one', 'two'].map((name) => card.provision({ name, slots: 2 }))
    const qp = card.connect()
    endAt(card, 4)
    card.serve(...regions.flatMap((region) => persistFrames(qp, region, 0, NEW)))
    cut(card.nvdimm, NOTHING)
    return new TestCard(card.nvdimm)
  }

  test('C9: records of that number in two regions: each lane counts', () => {
    const card = inTwoRegions()
    expect(recoveryReport(card).map(({ linesRead }) => linesRead)).toEqual([3, 3])
    expect(phasesOf(card)).toEqual([
      [0, PHASE_B],
      [0, PHASE_B],
    ])
  })

  test.each([0, 1])('C9: of one record: that in lane %i is later, and the other one void', (at) => {
    const { old, fresh, laneA, laneB } = TWO
    const earlier = laneOf(laneA, { sequence: sequenceOfLane(laneA) - 1 })
    const lanes = at === 0 ? [laneB, earlier] : [earlier, laneB]
    const part = partWith(TWO, { 0: [fresh, old] }, lanes)
    expect(recoveryReport(new TestCard(part)).map(({ lane }) => lane)).toEqual([at])
    expect(copiesIn(TWO, part)).toEqual([fresh, fresh].map((image) => Buffer.from(image)))
  })
})

test.each([0, 1, 30, 31])('P1-11: lane %i cannot be cleared: no group is given it', (lane) => {
  const card = new TestCard(1 << 17).format()
  card.provision({ slots: BURST_FRAMES })
  card.nvdimm.refuseWrites(LANES_AT / LINE_BYTES + lane)
  const next = new TestCard(card.nvdimm)
  const [qp, region] = [next.connect(), next.open()]
  const slots = upTo(BURST_FRAMES - 1)
  const frames = slots.flatMap((slot) => persistFrames(qp, region, slot, NEW))
  const answers = persistAcks(next.serve(...frames))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([STATUS_DURABLE]))
  expect(slots.map((slot) => read(next, slot))).toEqual(slots.map(() => Buffer.from(NEW)))
})

test.each([2, 3, 4])('L1: of %i copies: the first is older than its lane says', (copies) => {
  const media = mediaOf({ wait: 1, copies })
  // Phase B stands behind the fence of copy A: the medium said that it had stored it, and had not.
  const later = Array.from({ length: copies - 1 }, () => media.fresh)
  const part = partOf(media, [media.old, ...later], media.laneB)
  const card = new TestCard(part)
  const [line] = recoveryReport(card)
  expect(CASES[line!.row]!.name).toBe('A unreadable, B new')
  expect(read(card)).toEqual(Buffer.from(media.freshData))
  const all = [media.fresh, ...later].map((image) => Buffer.from(image))
  expect(copiesIn(media, part)).toEqual(all)
})

test('D-14: a scan finds what was lost before it, and what it finds lost itself', () => {
  const part = partOf(TWO, [torn(TWO.old), torn(TWO.old)], TWO.laneB)
  const card = new TestCard(part)
  expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 0, lost: 1 })
  for (const copy of [0, 1]) part.poison(copyAt(TWO.layout, copy, 1) / LINE_BYTES)
  for (let i = 0; i < 2; i++) {
    expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 0, lost: 2 })
  }
})

test.each([0, LANES, 2 * CLIENTS - 1])('D-2: line %i of the table is lost: no scan', (line) => {
  const part = partOf(TWO, [TWO.old, TWO.old])
  part.poison(OPERATIONS_AT / LINE_BYTES + line)
  expect(u32(new TestCard(part).status(), mad.PART_SCANNED)).toBe(0)
})

/** The operation that a lane names: whose it is, and which. */
function namedBy(lane: Uint8Array): { client: number; operation: number } {
  const view = new DataView(lane.buffer, lane.byteOffset)
  return { client: view.getUint32(32, true), operation: view.getUint32(40, true) }
}

/** What a query for that operation hears. */
function asked(card: TestCard, lane: Uint8Array): number {
  const { client, operation } = namedBy(lane)
  const { number, psn } = card.connect(4096, 0, client)
  const bth = { opcode: PERSIST_QUERY, destQp: number, psn, ackRequest: true }
  return persistAcks(card.serve(frameOf({ bth, pqeth: { operationLow: operation } })))[0]!.status
}

/** What a repetition of that operation hears. */
function repeated(card: TestCard, lane: Uint8Array): number {
  const { client, operation } = namedBy(lane)
  const options = { operation, repetition: true }
  const qp = card.connect(4096, 0, client)
  const frames = persistFrames(qp, card.open(), 0, TWO.freshData, options)
  return persistAcks(card.serve(...frames))[0]!.status
}

describe('the operation of a record that goes back', () => {
  /** A part that knows the new record as durable, as its lane in phase B and the table may. */
  function known(): Nvdimm {
    const part = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB)
    expect(asked(new TestCard(part), TWO.laneB)).toBe(STATUS_DURABLE)
    cut(part, NOTHING)
    return part
  }

  /** What the table says is durable there already, and the lane says that it goes back. */
  function returning(): Nvdimm {
    const part = known()
    for (const bytes of [part.durable, part.live]) {
      bytes.set(TWO.old, copyAt(TWO.layout, 1, 0))
      bytes.set(TWO.laneA, LANES_AT)
    }
    return part
  }

  test('D-6: is not known any more', () => {
    const part = returning()
    const card = new TestCard(part)
    expect(copiesIn(TWO, part)).toEqual([TWO.old, TWO.old].map((image) => Buffer.from(image)))
    expect(asked(card, TWO.laneA)).toBe(QUERY_NOT_KNOWN)
  })

  test('D-6: is not known, durably, before a copy is touched', () => {
    const part = returning()
    const first = copyAt(TWO.layout, 0, 0)
    let content: Uint8Array | null = null
    const onCommand = (_: number, op: number, words: Float64Array, at: number): void => {
      if (op !== COPY_CLEAN || words[at + TO] !== NVDIMM_SPACE + first) return
      content ??= part.durable.slice()
    }
    new TestCard(part, { watch: { onCommand } })
    const then = new Nvdimm({ bytes: content!.length, content: content! })
    // The copy is old, and then the medium loses the lane.
    for (const bytes of [then.durable, then.live]) bytes.set(TWO.old, first)
    then.poison(LANES_AT / LINE_BYTES)
    expect(asked(new TestCard(then), TWO.laneA)).toBe(QUERY_NOT_KNOWN)
  })
})

describe('a start whose table of operations is full of other clients', () => {
  /** The line of each client in the table, and the new record in both copies. */
  function crowded(lane: Uint8Array | null): Nvdimm {
    const part = partOf(TWO, [TWO.fresh, TWO.fresh], lane)
    // Each has two lines, of which one is enough.
    const lines = upTo(CLIENTS).map((client) => OPERATIONS_AT + 2 * client * LINE_BYTES)
    const is = (at: number): boolean => part.durable[at + 16] !== 0
    const known = lines.flatMap((at) => [at, at + LINE_BYTES]).find(is)!
    const line = part.durable.slice(known, known + LINE_BYTES)
    for (const bytes of [part.durable, part.live]) {
      bytes.fill(0, OPERATIONS_AT, OPERATIONS_AT + 2 * CLIENTS * LINE_BYTES)
    }
    lines.forEach((at, i) => {
      new DataView(line.buffer).setUint32(16, 2 + i, true)
      new DataView(line.buffer).setUint32(24, 1000 + i, true)
      sealClientLine(line)
      for (const bytes of [part.durable, part.live]) bytes.set(line, at)
    })
    return part
  }

  test('D-6: a lane has the place of whoever was heard of longest ago', () => {
    const part = crowded(TWO.laneB)
    expect(asked(new TestCard(part), TWO.laneB)).toBe(STATUS_DURABLE)
  })

  test('D-6: a scan behind an unreadable lane drives out nobody', () => {
    const part = crowded(null)
    part.poison(LANES_AT / LINE_BYTES + 5)
    const card = new TestCard(part)
    expect(u32(card.status(), mad.PART_SCANNED)).toBe(TWO.layout.slots)
    expect(asked(card, TWO.laneB)).toBe(QUERY_NOT_KNOWN)
  })
})

describe('a lane that is linked to one before it', () => {
  const { old, fresh, laneA, laneB } = TWO
  const first = sequenceOfLane(laneA)
  const next: Saying = { record: 1, link: 1, operations: 1, sequence: first + 1 }

  test('C9: there is no lane so far back: it goes by its own phase', () => {
    const part = partWith(TWO, { 0: [fresh, old] }, [laneOf(laneB, { link: 3 })])
    expect(phasesOf(new TestCard(part))).toEqual([[0, PHASE_B]])
    expect(copiesIn(TWO, part)).toEqual([fresh, fresh].map((image) => Buffer.from(image)))
  })

  test('X-5: the one before goes back: so does this one, though its own phase is B', () => {
    const ours = imageIn(TWO, 1)
    const newer = slotWith(TWO, ours, first + 1)
    const part = partWith(TWO, { 0: [old, old], 1: [newer, ours] }, [laneA, laneOf(laneB, next)])
    expect(phasesOf(new TestCard(part))).toEqual([
      [0, PHASE_A],
      [1, PHASE_A],
    ])
    expect(copiesIn(TWO, part, 1)).toEqual([ours, ours].map((image) => Buffer.from(image)))
  })

  test('C9: the one before was written later: it is of another batch, and this one stays', () => {
    const ours = imageIn(TWO, 1)
    const newer = slotWith(TWO, ours, first - 1)
    const lane = laneOf(laneB, { ...next, sequence: first - 1 })
    const part = partWith(TWO, { 0: [old, old], 1: [newer, ours] }, [laneA, lane])
    expect(phasesOf(new TestCard(part))).toEqual([
      [0, PHASE_A],
      [1, PHASE_B],
    ])
    expect(copiesIn(TWO, part, 1)).toEqual([newer, newer].map((image) => Buffer.from(image)))
  })

  test('X-5: the medium refuses to take it back: neither is written, or brought forward', () => {
    const ours = imageIn(TWO, 1)
    const newer = slotWith(TWO, ours, first + 1)
    const part = partWith(TWO, { 0: [old, old], 1: [newer, ours] }, [laneA, laneOf(laneB, next)])
    const line = copyAt(TWO.layout, 0, 1) / LINE_BYTES
    part.refuseWrites(line)
    for (let start = 0; start < 2; start++) {
      const card = new TestCard(part)
      expect(scan(card, card.open())).toMatchObject({ repaired: 0, unsettled: 2 })
      expect(write(card, 2)).toBe(STATUS_READ_ONLY)
      expect(copiesIn(TWO, part, 1)).toEqual([newer, ours].map((image) => Buffer.from(image)))
      // Whoever repeats them hears that nobody knows.
      const lanes = [laneA, laneOf(laneB, next)]
      expect(lanes.map((lane) => repeated(card, lane))).toEqual([STATUS_IN_DOUBT, STATUS_IN_DOUBT])
    }
    part.refuseWrites(line, false)
    const card = new TestCard(part)
    expect(write(card, 2)).toBe(STATUS_DURABLE)
    expect(copiesIn(TWO, part, 1)).toEqual([ours, ours].map((image) => Buffer.from(image)))
  })

  test('X-5: the medium refuses, and further to the front one stays: that one is settled', () => {
    const [ours, last] = [imageIn(TWO, 1), imageIn(TWO, 2)]
    const behind: Saying = { record: 2, link: 1, operations: 2, sequence: first + 2 }
    const lanes = [laneB, laneOf(laneA, next), laneOf(laneB, behind)]
    const copies = [slotWith(TWO, last, first + 2), last]
    const newer = slotWith(TWO, ours, first + 1)
    const part = partWith(TWO, { 0: [fresh, old], 1: [newer, ours], 2: copies }, lanes)
    part.refuseWrites(copyAt(TWO.layout, 0, 2) / LINE_BYTES)
    const card = new TestCard(part)
    expect(scan(card, card.open())).toMatchObject({ repaired: 0, unsettled: 2 })
    expect(copiesIn(TWO, part)).toEqual([fresh, fresh].map((image) => Buffer.from(image)))
    expect(copiesIn(TWO, part, 1)).toEqual([ours, ours].map((image) => Buffer.from(image)))
    expect(copiesIn(TWO, part, 2)).toEqual(copies.map((image) => Buffer.from(image)))
  })

  /** After a save that failed: what becomes of a record whose copies stand at these sequences. */
  function afterFailedSave(copies: readonly Uint8Array[]): [Nvdimm, TestCard] {
    const part = partWith(TWO, { 0: [old, old], 1: copies }, [laneA, laneOf(laneB, next)])
    part.failSave()
    return [part, new TestCard(part)]
  }

  test('X-5: after a failed save one that is new in its first copy goes back, too', () => {
    const ours = imageIn(TWO, 1)
    const [part, card] = afterFailedSave([slotWith(TWO, ours, first + 1), ours])
    expect(phasesOf(card).filter(([record]) => record === 1)).toEqual([[1, PHASE_A]])
    expect(copiesIn(TWO, part, 1)).toEqual([ours, ours].map((image) => Buffer.from(image)))
    // Both records, its first copy once more before, and then all of them.
    const lines = 4 * 2 + 2 + 4 * TWO.layout.slots
    const tables = LANES + 2 * CLIENTS
    expect(u32(card.status(), mad.PART_LINES_READ) - tables).toBe(lines)
  })

  test('X-5: after a failed save one behind a record that stays stays, too', () => {
    const ours = imageIn(TWO, 1)
    const newer = slotWith(TWO, ours, first + 1)
    const lanes = [laneA, laneOf(laneB, next)]
    const part = partWith(TWO, { 0: [fresh, old], 1: [newer, ours] }, lanes)
    part.failSave()
    expect(phasesOf(new TestCard(part)).filter(([record]) => record === 1)).toEqual([
      [1, PHASE_NONE],
    ])
    expect(copiesIn(TWO, part, 1)).toEqual([newer, newer].map((image) => Buffer.from(image)))
  })

  test('C9: after a failed save the check codes decide where the first copy is another', () => {
    const ours = imageIn(TWO, 1)
    const later = slotWith(TWO, ours, first + 7)
    for (const [copies, kept] of [
      [[torn(ours), ours], ours],
      [[later, ours], later],
      [[ours, torn(ours)], ours],
    ] as const) {
      const [part, card] = afterFailedSave(copies)
      expect(phasesOf(card).filter(([record]) => record === 1)).toEqual([[1, PHASE_NONE]])
      expect(copiesIn(TWO, part, 1)).toEqual([kept, kept].map((image) => Buffer.from(image)))
    }
  })
})

describe('a lane that the medium did not let us clear', () => {
  test('C9: a later write stands in the slot: what the lane says of an earlier one is void', () => {
    const { old, laneA, laneB } = TWO
    const later = slotWith(TWO, TWO.fresh, sequenceOfLane(laneA) + 2)
    for (const lane of [laneA, laneB]) {
      const part = partOf(TWO, [later, old], lane)
      const card = new TestCard(part)
      expect(phasesOf(card)).toEqual([[0, PHASE_NONE]])
      expect(copiesIn(TWO, part)).toEqual([later, later].map((image) => Buffer.from(image)))
      expect(readSuperblock(part.durable)!.lost).toEqual([])
    }
  })
})

describe('sequences that are alike in their lower half', () => {
  test('C9: a copy that is 2^32 writes older is not the one of the lane', () => {
    const { old, laneB, oldData } = TWO
    const [low, high] = sequenceOf(old)
    const lane = laneOf(laneB, { sequence: low, sequenceHigh: high + 1 })
    const part = partOf(TWO, [torn(old), old], lane)
    const card = new TestCard(part)
    const [line] = recoveryReport(card)
    expect(CASES[line!.row]!.name).toBe('A unreadable, B old, not acknowledged')
    expect(read(card)).toEqual(Buffer.from(oldData))
  })
})

describe('repairs that the medium refuses', () => {
  test('C9: in phase A, of the other copy: the old record is read, and nothing written', () => {
    const { old, laneA, oldData } = TWO
    const part = partOf(TWO, [old, torn(old)], laneA)
    refuseCopy(part, TWO, 1)
    for (let start = 0; start < 2; start++) {
      const card = new TestCard(part)
      expect(recoveryReport(card)[0]!.flags & REFUSED).toBe(REFUSED)
      expect(read(card)).toEqual(Buffer.from(oldData))
      expect(write(card, 1)).toBe(STATUS_READ_ONLY)
      // A scan finds the same, and says so beside what the lane has said.
      expect(scan(card, card.open())).toMatchObject({ repaired: 0, unsettled: 1 })
      expect(recoveryReport(card)).toHaveLength(2)
    }
    refuseCopy(part, TWO, 1, false)
    const card = new TestCard(part)
    expect(write(card, 1)).toBe(STATUS_DURABLE)
    expect(copiesIn(TWO, part)).toEqual([old, old].map((image) => Buffer.from(image)))
  })

  test('C9: in phase A, of the first copy: what goes back is not brought forward by a scan', () => {
    const { old, fresh, laneA } = TWO
    const part = partOf(TWO, [fresh, old], laneA)
    refuseCopy(part, TWO, 0)
    const card = new TestCard(part)
    expect(recoveryReport(card)[0]!.flags & REFUSED).toBe(REFUSED)
    expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
    expect(copiesIn(TWO, part)).toEqual([fresh, old].map((image) => Buffer.from(image)))
    refuseCopy(part, TWO, 0, false)
    expect(read(new TestCard(part))).toEqual(Buffer.from(TWO.oldData))
  })

  test('C9: in phase B, of a first copy that is gone: the old one is read', () => {
    const { old, fresh, laneB, oldData } = TWO
    const part = partOf(TWO, [fresh, old], laneB)
    const [line] = linesOfCopy(TWO.layout, 0, 0)
    part.poison(line!)
    part.refuseWrites(line!)
    const card = new TestCard(part)
    expect(recoveryReport(card)[0]!.flags & REFUSED).toBe(REFUSED)
    expect(read(card)).toEqual(Buffer.from(oldData))
    expect(write(card, 1)).toBe(STATUS_READ_ONLY)
  })

  test.each([
    { phase: 'A', lane: TWO.laneA },
    { phase: 'B', lane: TWO.laneB },
  ])('C9: in phase $phase: its operation is in doubt while the lane stays', ({ lane }) => {
    const part = partOf(TWO, [TWO.fresh, TWO.old], lane)
    for (const copy of [0, 1]) refuseCopy(part, TWO, copy)
    expect(repeated(new TestCard(part), lane)).toBe(STATUS_IN_DOUBT)
  })

  test.each([
    { wait: 1, knows: STATUS_DURABLE },
    { wait: 2, knows: QUERY_NOT_KNOWN },
  ])('D-6: of the second copy, at level $wait: its operation is known, or not: $knows', (level) => {
    const { wait, knows } = level
    const media = mediaOf({ wait, copies: 2 })
    const part = partOf(media, [media.fresh, media.old], media.laneB)
    refuseCopy(part, media, 1)
    const card = new TestCard(part)
    expect(asked(card, media.laneB)).toBe(knows)
    expect(u32(card.status(), mad.PART_OPERATIONS)).toBe(knows === STATUS_DURABLE ? 1 : 0)
  })

  test('C9: after a failed save: the region takes no writes', () => {
    const part = partOf(TWO, [TWO.fresh, torn(TWO.old)], TWO.laneB)
    part.dirtyShutdowns = 1
    refuseCopy(part, TWO, 1)
    const card = new TestCard(part)
    expect(card.open().unsettled).toBe(1)
    expect(write(card, 1)).toBe(STATUS_READ_ONLY)
    expect(read(card)).toEqual(Buffer.from(TWO.freshData))
  })

  test('C9: a scan behind an unreadable lane notes what is whole, no other', () => {
    const { fresh } = TWO
    for (const [copies, refused, lost] of [
      [[fresh, torn(fresh)], true, 0],
      [[torn(fresh), torn(fresh)], false, 1],
      [[fresh, torn(fresh)], false, 0],
    ] as const) {
      const part = partOf(TWO, copies)
      if (refused) refuseCopy(part, TWO, 1)
      part.poison(LANES_AT / LINE_BYTES + 5)
      const card = new TestCard(part)
      const status = card.status()
      expect(u32(status, mad.PART_SCANNED)).toBe(TWO.layout.slots)
      expect(u32(status, mad.PART_UNSETTLED)).toBe(lost)
      const isWhole = !refused && lost === 0
      expect(u32(status, mad.PART_REPAIRED)).toBe(isWhole ? 1 : 0)
      expect(asked(card, TWO.laneB)).toBe(isWhole ? STATUS_DURABLE : QUERY_NOT_KNOWN)
      // It can be read again; a scan while it serves notes nothing.
      const next = new TestCard(part)
      expect(scan(next, next.open())).toEqual({
        ...{ repaired: 0, unsettled: refused ? 1 : 0, lost },
      })
      expect(asked(next, TWO.laneB)).toBe(isWhole ? STATUS_DURABLE : QUERY_NOT_KNOWN)
    }
  })

  test('R1-U1: a refused repair is told once, again of another copy, or in another region', () => {
    const card = new TestCard(1 << 18).format()
    const regions = ['one', 'two'].map((name) => card.provision({ name, slots: 4, copies: 3 }))
    const layouts = readSuperblock(card.nvdimm.durable)!.regions
    const spoil = (region: number, copy: number): void => {
      const at = copyAt(layouts[region]!, copy, 2)
      card.nvdimm.refuseWrites(at / LINE_BYTES)
      card.nvdimm.live[at]! ^= 1
      card.nvdimm.durable[at] = card.nvdimm.live[at]!
    }
    const told = (): number => {
      for (const region of regions) scan(card, region)
      return recoveryReport(card).length
    }
    spoil(0, 1)
    expect([told(), told()]).toEqual([1, 1])
    spoil(1, 1)
    expect([told(), told()]).toEqual([2, 2])
    spoil(0, 2)
    expect([told(), told()]).toEqual([3, 3])
    expect(scan(card, regions[0]!)).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
  })
})

describe('a region whose lost records have no room on the list', () => {
  /** The list is full of records of other regions. */
  function fill(part: Nvdimm): Nvdimm {
    for (const bytes of [part.durable, part.live]) {
      for (const page of [0, 1]) {
        const at = page * PAGE_BYTES
        const view = new DataView(bytes.buffer, bytes.byteOffset + at)
        view.setUint32(96, 64, true)
        for (let i = 0; i < 64; i++) view.setUint32(128 + 8 * i, 999, true)
        sealPage(bytes.subarray(at, at + PAGE_BYTES))
      }
    }
    return part
  }

  /** Record 0 is lost, and the list is full of others. */
  function marked(): { card: TestCard; part: Nvdimm; told: () => number[][] } {
    const part = fill(partWith(TWO, { 0: [torn(TWO.old), torn(TWO.old)] }, []))
    part.dirtyShutdowns = 1
    const card = new TestCard(part)
    const told = () => recoveryReport(card).map(({ record, flags }) => [record, flags])
    return { card, part, told }
  }

  test('R1-C5: one is told once, however often a scan finds it; so is another one', () => {
    const { card, part, told } = marked()
    expect(told()).toEqual([[0, LOST]])
    for (let i = 0; i < 2; i++) {
      expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 0, lost: 1 })
      expect(told()).toEqual([[0, LOST]])
    }
    for (const copy of [0, 1]) part.poison(copyAt(TWO.layout, copy, 1) / LINE_BYTES)
    for (let i = 0; i < 2; i++) {
      expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 0, lost: 2 })
      expect(told()).toEqual([
        [0, LOST],
        [1, LOST],
      ])
    }
  })

  test('R1-E2: its lane holds one that was acknowledged: no older copy stands for it', () => {
    const media = mediaOf({ wait: 1, copies: 2 })
    const part = fill(partOf(media, [media.fresh, media.old], media.laneB))
    part.poison(copyAt(media.layout, 0, 0) / LINE_BYTES)
    for (let start = 0; start < 2; start++) {
      const card = new TestCard(part)
      expect(read(card)).toBeNull()
      expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
      expect(write(card, 1)).toBe(STATUS_READ_ONLY)
    }
  })

  test('R1-C5: one that decays again is repaired again, and told again', () => {
    const { card, part, told } = marked()
    for (let i = 1; i < 3; i++) {
      part.poison(copyAt(TWO.layout, 0, 1) / LINE_BYTES)
      expect(scan(card, card.open())).toEqual({ repaired: 1, unsettled: 0, lost: 1 })
      expect(told()).toHaveLength(1 + i)
    }
  })

  test('R1-U1: one of which the medium refuses a repair is told once beside it', () => {
    const { card, part, told } = marked()
    part.poison(copyAt(TWO.layout, 1, 1) / LINE_BYTES)
    part.refuseWrites(copyAt(TWO.layout, 1, 1) / LINE_BYTES)
    for (let i = 0; i < 2; i++) {
      expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 1, lost: 1 })
      expect(told()).toEqual([
        [0, LOST],
        [1, 0x20 | REFUSED | REPAIRED],
      ])
    }
  })
})

describe('a scan beside a lane that holds its record', () => {
  test('C9: acknowledged at 1of2, copy B refuses: the scan leaves both copies as they are', () => {
    const card = new TestCard(1 << 18).format()
    const region = card.provision({ slots: 4 })
    const [layout] = readSuperblock(card.nvdimm.durable)!.regions
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    card.nvdimm.refuseWrites(copyAt(layout!, 1, 0) / LINE_BYTES)
    const frames = persistFrames(qp, region, 0, dataOf(64, 2), { wait: 1 })
    expect(persistAcks(card.serve(...frames))[0]!.status).toBe(STATUS_DURABLE)
    expect(scan(card, region)).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
    // Copy A decays: no scan brings back the record that copy B holds still.
    card.nvdimm.poison(copyAt(layout!, 0, 0) / LINE_BYTES)
    expect(scan(card, region)).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
    expect(read(card)).toBeNull()
  })
})

/** Where a copy of record 0 begins in the host's memory. */
function placeOf({ card }: Pick<Placed, 'card'>, copy: number): number {
  return copyAt(readSuperblock(card.nvdimm.durable)!.regions[0]!, copy, 0)
}

function decay({ host }: Pick<Placed, 'host'>, at: number): void {
  host.part.live[at]! ^= 1
  host.part.durable[at] = host.part.live[at]!
}

function readPlaced(card: TestCard, slot = 0): Buffer | null {
  const data = card.read(card.connect(), card.open(), slot, VIEW_DATA, 64)
  return data === null ? null : Buffer.from(data)
}

describe('records in the host’s memory whose lane waits for the host', () => {
  /** A record is acknowledged, its lane is not cleared yet, and both machines lose their power. */
  function cutBehindAcknowledgement(): Placed {
    const made = placed(DDIO_OFF, { copies: 2 })
    const { card, region } = made
    const qp = card.connect(4096, 0, 7)
    const sent = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(persistAcks(sent)[0]!.status).toBe(STATUS_DURABLE)
    cutPower(made, NOTHING)
    return made
  }

  /** The card starts while its host is away, which then comes back. */
  function startedBefore(made: Placed): TestCard {
    const card = restartedAlone(made)
    const host = card.host!
    expect(readPlaced(card)).toBeNull()
    expect(recoveryReport(card)).toEqual([])
    host.comeBack()
    believe(card, PLACEMENT_BYPASS)
    return card
  }

  test('R1-A2: all copies are whole: nothing is told', () => {
    const card = startedBefore(cutBehindAcknowledgement())
    expect(recoveryReport(card)).toEqual([])
    expect(readPlaced(card)).toEqual(Buffer.from(NEW))
  })

  test('R1-A2: a copy has decayed meanwhile: it is repaired, and told', () => {
    const made = cutBehindAcknowledgement()
    decay(made, placeOf(made, 1))
    const card = startedBefore(made)
    expect(recoveryReport(card)).toMatchObject([{ record: 0, validMask: 1 }])
    expect(readPlaced(card)).toEqual(Buffer.from(NEW))
    expect(write(card, 1)).toBe(STATUS_DURABLE)
  })

  test('R1-A2: its memory takes no stores: the record is read, and its region not written', () => {
    const made = cutBehindAcknowledgement()
    made.host.part.refuseWrites(placeOf(made, 1) / LINE_BYTES)
    const card = startedBefore(made)
    expect(recoveryReport(card)[0]!.flags & REFUSED).toBe(REFUSED)
    expect(readPlaced(card)).toEqual(Buffer.from(NEW))
    expect(write(card, 1)).toBe(STATUS_READ_ONLY)
  })

  test('P1-11: it refuses a first copy: the record is refused, and its region written on', () => {
    const made = placed(DDIO_OFF, { copies: 2 })
    const { card, region, qp } = made
    const old = dataOf(64, 1)
    for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, old))
    made.host.part.refuseWrites(placeOf(made, 0) / LINE_BYTES)
    const sent = card.serve(...persistFrames(qp, region, 0, NEW))
    expect(persistAcks(sent)[0]!.status).toBe(STATUS_MEDIA)
    expect(readPlaced(card)).toEqual(Buffer.from(old))
    expect(write(card, 1)).toBe(STATUS_DURABLE)
  })

  /** A card with a region of its own, too, whose host does not answer from that fence on. */
  function silentFrom(fence: number, act: () => void): Placed & { readonly own: TestRegion } {
    const made = placed(DDIO_OFF, { copies: 2 })
    const { card, region, qp } = made
    const own = card.provision({ name: 'own', slots: 16 })
    for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, dataOf(64, 1)))
    card.idle()
    let [seen, silent] = [0, false]
    card.machine.observe({
      onCommand: (_, op) => {
        if (op !== FENCE) return
        seen += 1
        if (seen === 2) act()
        if (seen === fence) silent = true
      },
    })
    card.host!.link.script = ({ kind, memory }) =>
      silent && kind === 'read' && memory === 'persistent' ? 'timeout' : undefined
    return { ...made, own }
  }

  /** The host answers again, and shows its memory. */
  function answers({ card }: Placed): void {
    card.machine.observe({})
    card.host!.link.script = null
    believe(card, PLACEMENT_BYPASS)
  }

  test('B3: lost beside a record of the card that the medium refuses: that one is told', () => {
    const made = silentFrom(2, () => {})
    const { card, region, own, qp } = made
    const [layout] = readSuperblock(card.nvdimm.durable)!.regions.slice(1)
    card.nvdimm.refuseWrites(copyAt(layout!, 0, 0) / LINE_BYTES)
    const frames = [own, region].flatMap((one) => persistFrames(qp, one, 0, NEW))
    const told = persistAcks(card.serve(...frames)).map(({ status }) => status)
    expect(told).toEqual([STATUS_MEDIA, STATUS_IN_DOUBT])
    const again = card.serve(...persistFrames(card.connect(), own, 1, NEW))
    expect(persistAcks(again)[0]!.status).toBe(STATUS_DURABLE)
    answers(made)
    expect(write(card, 1)).toBe(STATUS_DURABLE)
  })

  test('B3: it is lost behind a phase word that was refused: that record goes back', () => {
    const made: ReturnType<typeof silentFrom> = silentFrom(4, () => {
      made.card.nvdimm.refuseWrites(HOST_LANES_AT / LINE_BYTES)
    })
    const { card, region, own, qp } = made
    const frames = [0, 1].flatMap((slot) => persistFrames(qp, region, slot, NEW))
    const told = persistAcks(card.serve(...frames)).map(({ status }) => status)
    expect(new Set(told)).toEqual(new Set([STATUS_IN_DOUBT]))
    // Their lanes are left to them, whatever the card writes of its own.
    const lanes = card.nvdimm.durable.slice(HOST_LANES_AT, HOST_LANES_AT + 2 * LINE_BYTES)
    expect([lanes[0], lanes[LINE_BYTES]]).toEqual([PHASE_A, PHASE_B])
    const client = card.connect()
    const many = upTo(16).flatMap((slot) => persistFrames(client, own, slot, NEW))
    const sent = persistAcks(card.serve(...many)).map(({ status }) => status)
    expect(new Set(sent)).toEqual(new Set([STATUS_DURABLE]))
    const now = card.nvdimm.durable.slice(HOST_LANES_AT, HOST_LANES_AT + 2 * LINE_BYTES)
    expect(now).toEqual(lanes)
    answers(made)
    expect([0, 1].map((slot) => shownCopies(card, card.open(), slot))).toEqual([
      ['old', 'old'],
      ['new', 'new'],
    ])
  })

  test('R1-C9: its operation, which the table knows, is known when its host has shown it', () => {
    const made = cutBehindAcknowledgement()
    const lane = made.card.nvdimm.durable.slice(HOST_LANES_AT, HOST_LANES_AT + LINE_BYTES)
    const card = restartedAlone(made)
    const host = card.host!
    expect(asked(card, lane)).toBe(QUERY_NOT_KNOWN)
    host.comeBack()
    believe(card, PLACEMENT_BYPASS)
    expect(asked(card, lane)).toBe(STATUS_DURABLE)
  })

  test.each([
    { silence: 'no copy', mute: [0, 1] },
    { silence: 'not the first copy', mute: [0] },
    { silence: 'not the second copy', mute: [1] },
  ])('X-5: of the one before it $silence is answered for: it waits, and its lane', ({ mute }) => {
    const made = placed(DDIO_OFF, { copies: 2 })
    const { card, host, region, qp } = made
    for (const slot of [0, 1]) card.serve(...persistFrames(qp, region, slot, dataOf(64, 1)))
    card.idle()
    endAt(card, 3)
    const records = [0, 1].map((slot) => ({ slot, data: NEW }))
    card.serve(...batchFrames(qp, region, records, { condition: IN_ORDER }))
    cutPower(made, NOTHING)
    const before = host.part.durable.slice()
    const silent = new HostMemory({ part: host.part, platform: DDIO_OFF })
    silent.link.script = ({ kind, memory, at }) => {
      const isFirst = mute.some((copy) => at === placeOf(made, copy))
      return kind === 'read' && memory === 'persistent' && isFirst ? 'timeout' : undefined
    }
    const waiting = cardOf(card.nvdimm, silent)
    expect(readPlaced(waiting, 1)).toBeNull()
    if (mute.includes(0)) expect(readPlaced(waiting, 0)).toBeNull()
    expect(host.part.durable).toEqual(before)
    const lanes = waiting.nvdimm.durable.subarray(HOST_LANES_AT)
    expect([0, 1].map((lane) => lanes[lane * LINE_BYTES])).toEqual([PHASE_A, PHASE_A])
    silent.link.script = null
    believe(waiting, PLACEMENT_BYPASS)
    for (const slot of [0, 1]) {
      expect(readPlaced(waiting, slot)).toEqual(Buffer.from(NEW))
      expect(shownCopies(waiting, waiting.open(), slot)).toEqual(['new', 'new'])
    }
  })

  test('R1-A2: its memory takes none at the start, and all later: its region is written', () => {
    const made = cutBehindAcknowledgement()
    const line = placeOf(made, 1) / LINE_BYTES
    decay(made, placeOf(made, 1))
    made.host.part.refuseWrites(line)
    const card = restarted(made)
    expect(card.open().unsettled).toBe(1)
    expect(readPlaced(card)).toEqual(Buffer.from(NEW))
    made.host.part.refuseWrites(line, false)
    believe(card, PLACEMENT_BYPASS)
    expect(card.open().unsettled).toBe(0)
    expect(recoveryReport(card).map(({ flags }) => flags)).toEqual([0x25, 0x21])
    expect(Math.max(...recoveryReport(card).map(({ linesRead }) => linesRead))).toBe(4)
    expect(write(card, 1)).toBe(STATUS_DURABLE)
  })

  test('R1-E2: its memory refuses copy B: the older one never stands for the first', () => {
    const made = placed(DDIO_OFF, { copies: 2 })
    const { card, region, qp } = made
    for (const data of [dataOf(64, 1), NEW]) {
      if (data === NEW) endAt(card, 4)
      card.serve(...persistFrames(qp, region, 0, data))
    }
    cutPower(made, NOTHING)
    made.host.part.refuseWrites(placeOf(made, 1) / LINE_BYTES)
    const next = restarted(made)
    believe(next, PLACEMENT_BYPASS)
    expect(recoveryReport(next).map(({ flags }) => flags & REFUSED)).toEqual([REFUSED, REFUSED])
    expect(readPlaced(next)).toEqual(Buffer.from(NEW))
    decay(made, placeOf(made, 0))
    expect(readPlaced(next)).toBeNull()
    expect(scan(next, next.open())).toEqual({ repaired: 0, unsettled: 1, lost: 0 })
  })

  test('R1-A2: no copy is whole: it is lost, by name', () => {
    const made = cutBehindAcknowledgement()
    for (const copy of [0, 1]) decay(made, placeOf(made, copy))
    const card = startedBefore(made)
    expect(readSuperblock(card.nvdimm.durable)!.lost).toEqual([[card.open().id, 0]])
    expect(recoveryReport(card)).toHaveLength(1)
    expect(readPlaced(card)).toBeNull()
  })

  test('R1-C4: a scan that the host does not answer finds nothing lost or unsettled', () => {
    const { card, region, qp } = placed(DDIO_OFF, { copies: 2 })
    card.serve(...persistFrames(qp, region, 0, NEW))
    card.host!.link.script = ({ kind, memory }) =>
      kind === 'read' && memory === 'persistent' ? 'unsupported' : undefined
    expect(() => scan(card, region)).toThrow('DMA')
    card.host!.link.script = null
    expect(scan(card, region)).toEqual({ repaired: 0, unsettled: 0, lost: 0 })
  })
})

describe('a scan through the host’s caches', () => {
  /** Scans the region: what it repaired, and where the next one is to begin. */
  function looked(card: TestCard): { repaired: number; next: number } {
    const body = card.scan(card.open().id)
    return { repaired: u32(body, mad.SCAN_REPAIRED), next: u32(body, mad.SCAN_NEXT) }
  }

  /** A record that is durable there, and of which nothing is cached. */
  function durable(): Placed {
    const made = placed(DDIO_ON, { copies: 2 })
    made.card.serve(...persistFrames(made.qp, made.region, 0, NEW))
    work(made.card, made.agent!)
    made.host.loseCaches()
    return made
  }

  test.each([0, 1])(
    'X-1: copy %i is repaired: the agent writes it back before the next',
    (copy) => {
      const made = durable()
      const { card, host, region, agent } = made
      const at = placeOf(made, copy)
      const before = host.part.durable.slice(at, at + region.stride)
      decay(made, at)
      expect(looked(card)).toEqual({ repaired: 1, next: region.slots })
      expect(looked(card)).toEqual({ repaired: 0, next: 0 })
      work(card, agent!)
      expect(host.part.durable.slice(at, at + region.stride)).toEqual(before)
      expect(looked(card)).toEqual({ repaired: 0, next: region.slots })
    },
  )

  test('X-1: no copy is whole: nothing was stored, and nothing is to be written back', () => {
    const made = durable()
    for (const copy of [0, 1]) decay(made, placeOf(made, copy))
    const { card, region } = made
    for (let i = 0; i < 2; i++) expect(looked(card)).toEqual({ repaired: 0, next: region.slots })
  })
})

describe('a lane of a record through the host’s caches', () => {
  test.each([
    { what: 'goes back from another copy', phase: PHASE_A, kept: 1, validMask: 0b11, hides: 1 },
    { what: 'went back at a start before', phase: PHASE_A, kept: 0, validMask: 0b11, hides: 1 },
    { what: 'is whole in this copy alone', phase: PHASE_A, kept: 0, validMask: 0b01, hides: 0 },
    { what: 'goes forward from this copy', phase: PHASE_B, kept: 0, validMask: 0b11, hides: 0 },
    { what: 'goes forward from another', phase: PHASE_B, kept: 1, validMask: 0b10, hides: 1 },
  ])('X-1: before its bell so many copies of what $what are hidden: $hides', (row) => {
    const { phase, kept, validMask, hides } = row
    expect(hiddenCopies(phase, { ...blankOutcome(), kept, validMask }, false)).toBe(hides)
  })

  const ALL = COPIES_MAX
  test.each([
    { what: 'same', row: 'clean', kept: 0, validMask: 0b11, hides: 0 },
    { what: 'same behind an unsure start', unsure: true, validMask: 0b11, hides: ALL },
    { what: 'newer in the first one', row: 'A newer', kept: 0, validMask: 0b11, hides: ALL },
    { what: 'newer in another one', row: 'B newer', kept: 1, validMask: 0b11, hides: ALL },
    { what: 'whole in the first one', row: 'only A valid', kept: 0, validMask: 0b01, hides: 0 },
    { what: 'whole in others', row: 'only B valid', kept: 1, validMask: 0b110, hides: 1 },
    { what: 'not answered for', failure: DMA_FAILED, validMask: 0b01, hides: ALL },
  ])('B7: without a phase to go by, what is $what has so many hidden: $hides', (one) => {
    const { row = 'clean', kept = 0, validMask, failure = 0, unsure = false, hides } = one
    const place = CASES.findIndex(({ phase, name }) => phase === PHASE_NONE && name === row)
    const outcome = { ...blankOutcome(), row: place, kept, validMask, failure }
    expect(hiddenCopies(PHASE_NONE, outcome, unsure)).toBe(hides)
  })

  test('C9: the host’s memory refuses the repair: no bell is awaited', () => {
    const made = placed(DDIO_ON, { copies: 2 })
    const { card, region, qp, agent } = made
    card.serve(...persistFrames(qp, region, 0, dataOf(64, 1)))
    work(card, agent!)
    card.serve(...persistFrames(qp, region, 0, NEW, { wait: 1 }))
    agent!.poll()
    card.idle()
    card.idle()
    cutPower(made, NOTHING)
    made.host.part.refuseWrites(placeOf(made, 1) / LINE_BYTES)
    const next = restarted(made)
    believe(next, 2)
    const second = attachedAgent(next)
    work(next, second)
    expect(recoveryReport(next)[0]!.flags & REFUSED).toBe(REFUSED)
    expect(readPlaced(next)).toEqual(Buffer.from(NEW))
    expect(write(next, 1)).toBe(STATUS_READ_ONLY)
  })
})

/** What may be wrong with a copy, and what is seen of it then. */
const SIGHTS: readonly {
  readonly what: string
  /** Makes it so; the check code is right afterwards. */
  readonly seal?: (copy: DataView) => void
  readonly isTorn?: boolean
  /** Its line that cannot be read. */
  readonly unreadable?: number
  /** Lines that are looked at. */
  readonly lines: number
}[] = [
  { what: 'is whole', lines: 2 },
  { what: 'is torn', isTorn: true, lines: 2 },
  { what: 'is of another kind', seal: (copy) => copy.setUint32(16, 1, true), lines: 1 },
  { what: 'is of another region', seal: (copy) => copy.setUint32(20, 99, true), lines: 1 },
  { what: 'is of another record', seal: (copy) => copy.setUint32(24, 1, true), lines: 1 },
  { what: 'is longer than its record', seal: (copy) => copy.setUint32(28, 61, true), lines: 1 },
  { what: 'is of another version', seal: (copy) => copy.setUint32(56, 2, true), lines: 1 },
  { what: 'has a header that cannot be read', unreadable: 0, lines: 1 },
  { what: 'has data that cannot be read', unreadable: 1, lines: 2 },
]

describe('what is seen of the copies of a record', () => {
  const copies = [0, 1, 2]
  const cases = copies.flatMap((copy) => SIGHTS.map((sight) => ({ ...sight, copy })))

  /** A record of 60 bytes in three copies, of which one is as that says. */
  function seen({ copy, seal, isTorn = false, unreadable }: (typeof cases)[number]) {
    const { card, state, region, qp } = batchSetting({ slots: 2, copies: 3, capacity: 60 })
    card.serve(...persistFrames(qp, region, 0, dataOf(60, 1)))
    const [layout] = readSuperblock(card.nvdimm.durable)!.regions
    const at = copyAt(layout!, copy, 0)
    const bytes = card.nvdimm.live.subarray(at, at + layout!.stride)
    if (isTorn) bytes[90]! ^= 0x10
    if (seal !== undefined) {
      seal(new DataView(bytes.buffer, bytes.byteOffset))
      sealSlot(bytes, layout!.key)
    }
    if (unreadable !== undefined) card.nvdimm.poison(at / LINE_BYTES + unreadable)
    const { list, words, examination, regions } = state
    const place = regions.places[0]!
    return {
      ...{ list, examination, place },
      look: (first: number, last: number) =>
        examineCopies(list, words, examination, place, 0, first, last),
      views: () => examination.copies.map(({ readable, valid }) => [readable, valid]),
    }
  }

  const [good, bad] = [
    [true, true],
    [true, false],
  ]

  test.each(cases)('D-3, H7: copy $copy $what: nothing is wrong with the others', (one) => {
    const { examination, list, place, look, views } = seen(one)
    const own = one.unreadable !== undefined ? [false, false] : one.what === 'is whole' ? good : bad
    const before = examination.linesRead
    look(0, 3)
    const all = copies.map((copy) => (copy === one.copy ? own : good))
    expect(views().slice(0, 3)).toEqual(all)
    expect(examination.linesRead - before).toBe(4 + one.lines)
    for (const a of copies) {
      for (const b of copies) {
        const same = all[a]![0]! && all[a] === all[b]
        expect(copiesSame(list, examination, place, 0, a, b)).toBe(same)
      }
    }
    // One by one, whatever stands in the list in front of it.
    for (const copy of copies) {
      compare(list, ZEROS_AT, EXAMINE_AT, 64)
      look(copy, copy + 1)
      expect(views().slice(0, 3)).toEqual(all)
    }
  })
})

test('D-14: a part that was never formatted has read, found and settled nothing', () => {
  const status = new TestCard(1 << 16).status()
  expect(status[mad.PART_STATE]).toBe(mad.STATE_BLANK)
  const last = mad.PART_OPERATIONS
  for (let at = mad.PART_REPORT_ENTRIES; at <= last; at += 4) expect(u32(status, at)).toBe(0)
})

test('P1-20: a scan of what is whole stores nothing, and waits for no fence', () => {
  const card = new TestCard(partOf(TWO, [TWO.fresh, TWO.fresh]))
  const ops = new Set<number>()
  card.machine.observe({ onCommand: (_, op) => ops.add(op) })
  expect(scan(card, card.open())).toEqual({ repaired: 0, unsettled: 0, lost: 0 })
  for (const op of [FENCE, FLUSH, COPY_CLEAN]) expect(ops.has(op)).toBe(false)
})

describe('what a start stores of a record, and what it writes back', () => {
  const media = mediaOf({ wait: 2, copies: 3 })
  const { old, fresh, laneA, laneB } = media

  test.each([
    {
      what: 'is new at first',
      copies: [fresh, old, old],
      lane: laneB,
      steps: 'clean0 1 fence 2 fence',
    },
    {
      what: 'is old but first',
      copies: [fresh, old, old],
      lane: laneA,
      steps: '0 clean1 clean2 fence',
    },
    {
      what: 'was made whole',
      copies: [fresh, fresh, fresh],
      lane: laneB,
      steps: 'clean0 clean1 clean2 fence',
    },
    { what: 'differs at last', copies: [fresh, fresh, old], lane: null, steps: '2 fence' },
    { what: 'is whole', copies: [fresh, fresh, fresh], lane: null, steps: '' },
  ])('P1-26: one that $what, each copy behind its fence: $steps', ({ copies, lane, steps }) => {
    const part = partOf(media, copies, lane)
    if (lane === null) part.dirtyShutdowns = 1
    const seen: string[] = []
    const onCommand = (_: number, op: number, words: Float64Array, at: number): void => {
      const copy = [0, 1, 2].findIndex((one) => {
        return words[at + TO] === NVDIMM_SPACE + copyAt(media.layout, one, 0)
      })
      if (copy >= 0 && (op === FLUSH || op === COPY_CLEAN)) {
        expect(words[at + LENGTH]).toBe(128)
        seen.push(op === FLUSH ? `clean${copy}` : `${copy}`)
      }
      if (op === FENCE && seen.length > 0) seen.push('fence')
    }
    new TestCard(part, { watch: { onCommand } })
    // The fences of superblock, table and lanes follow.
    expect(seen.join(' ').replace(/ fence( fence)*$/, seen.length > 0 ? ' fence' : '')).toBe(steps)
  })
})

describe('what a start reads of the medium', () => {
  const LARGE = mediaOf({ wait: 2, copies: 2 }, { capacity: 300 })
  const { old, fresh, laneA, laneB } = LARGE
  const headerless = fresh.map((byte, i) => (i === 16 ? byte ^ 1 : byte))

  test.each([
    { what: 'is as it was', copies: [old, old], lane: laneA, lines: 12 },
    { what: 'goes back', copies: [fresh, old], lane: laneA, lines: 12 },
    { what: 'goes forward', copies: [fresh, old], lane: laneB, lines: 12 },
    { what: 'has a header that is none', copies: [fresh, headerless], lane: laneB, lines: 7 },
    { what: 'has none that is one', copies: [headerless, headerless], lane: laneB, lines: 2 },
  ])('D-2: of a record that $what: what it says that it reads, and no more', (one) => {
    const lines = new Set<number>()
    const part = partOf(LARGE, one.copies, one.lane)
    const onCommand = (_: number, op: number, words: Float64Array, at: number): void => {
      const from = words[at + FROM]! - NVDIMM_SPACE
      if ((op !== COPY && op !== CHECK) || from < LANES_AT) return
      const first = Math.floor(from / LINE_BYTES)
      const last = Math.floor((from + words[at + LENGTH]! - 1) / LINE_BYTES)
      for (let line = first; line <= last; line++) lines.add(line)
    }
    const card = new TestCard(part, { watch: { onCommand } })
    expect(u32(card.status(), mad.PART_LINES_READ)).toBe(lines.size)
    expect(recoveryReport(card)).toMatchObject([{ record: 0, linesRead: one.lines }])
    const slots = [0, 1].flatMap((copy) => linesOfCopy(LARGE.layout, copy, 0))
    expect(slots.filter((line) => lines.has(line))).toHaveLength(one.lines)
  })
})

test('H7: a copy that could not be read is the same as nothing, also if it can be later', () => {
  const { card, state } = batchSetting({ slots: 2 })
  const { list, words, examination } = state
  const region = state.regions.places[0]!
  // Torn alike: neither is valid, and their bytes are the same.
  for (const copy of [0, 1]) card.nvdimm.live[slotAddress(region, copy, 0) + 16]! ^= 1
  for (const unread of [[], [0], [1], [0, 1]]) {
    examineCopies(list, words, examination, region, 0, 0, 2)
    for (const copy of unread) examination.copies[copy]!.readable = false
    expect(copiesSame(list, examination, region, 0, 0, 1)).toBe(unread.length === 0)
  }
})
