/**
 * Recovery on exact media: the interruption cases of source 1, three and four copies, losses and
 * what an operator does about them, bounded cost, decay and media errors (P1-14 … P1-31,
 * D-1 … D-4, D-13, D-14).
 *
 * Invariant: a medium is composed from images that the firmware stored itself, and is read
 * by the oracle; the firmware is asked over the wire.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import { COPY_CLEAN, FENCE, NVDIMM_SPACE, SKIP, TO } from '../../../firmware/board/hal.ts'
import { CASES } from '../../../firmware/commit/cases.ts'
import { PHASE_A, PHASE_B } from '../../../firmware/medium/lane.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistAcks, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { type Media, mediaOf, partOf, recoveryReport, SEED } from '../../support/crash/explorer.ts'
import {
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  linesOfCopy,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  PAGE_BYTES,
  type RegionLayout,
  readSuperblock,
  sealLane,
  sealPage,
  sealSlot,
  slotValid,
} from '../../support/judges/oracle.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const TWO = mediaOf({ wait: 2, copies: 2 })
const THREE = mediaOf({ wait: 2, copies: 3 })
const FOUR = mediaOf({ wait: 2, copies: 4 })

const STATUS_READ_ONLY = 0x8b
const SLOT_BYTES = 128

/** The bytes of `fresh` at [from, to), the rest of `old`. */
function mixed(
  { old, fresh }: Media,
  ...ranges: readonly (readonly [number, number])[]
): Uint8Array {
  const image = old.slice()
  for (const [from, to] of ranges) image.set(fresh.subarray(from, to), from)
  return image
}

const CODE = 16
const HALF_CODE = 8
const HALF_DATA = 72

/** How far a copy had come, in each of the three orders (P1-13): [from, to) of what is new. */
const TEARS: readonly (readonly [string, readonly (readonly [number, number])[]])[] = [
  ['data-first: partial data, no check', [[CODE, HALF_DATA]]],
  ['data-first: all data, no check', [[CODE, SLOT_BYTES]]],
  ['data-first: all data, partial check', [[HALF_CODE, SLOT_BYTES]]],
  ['check-first: partial check, no data', [[0, HALF_CODE]]],
  ['check-first: all of the check, no data', [[0, CODE]]],
  ['check-first: all of the check, partial data', [[0, HALF_DATA]]],
  [
    'mixed: partial check, partial data',
    [
      [0, HALF_CODE],
      [96, SLOT_BYTES],
    ],
  ],
]

function copiesIn(layout: RegionLayout, part: Nvdimm, record = 0): Buffer[] {
  return Array.from({ length: layout.copies }, (_, copy) => {
    const at = copyAt(layout, copy, record)
    return Buffer.from(part.durable.slice(at, at + layout.stride))
  })
}

/** Boots the part and says what became of record 0: the row, its source case, and the copies. */
function recovered(media: Media, part: Nvdimm) {
  const card = new TestCard(part)
  const [line] = recoveryReport(card).filter(({ record }) => record === 0)
  const data = card.read(card.connect(), card.open(), 0, 0, media.layout.capacity)
  return {
    card,
    row: line === undefined ? 'nothing said' : CASES[line.row]!.name,
    sourceCase: line?.sourceCase,
    // The upper bits say which copies were overwritten; the copies themselves are looked at here.
    flags: line === undefined ? undefined : line.flags & 0x0f,
    linesRead: line?.linesRead,
    copies: copiesIn(media.layout, part),
    data: data === null ? null : Buffer.from(data),
  }
}

function repeated(image: Uint8Array, count: number): Buffer[] {
  return Array.from({ length: count }, () => Buffer.from(image))
}

describe('lanes that are whole, and do not mean what they seem to', () => {
  const REGION_AT = 12
  const RECORD_AT = 16
  const LINK_AT = 23

  test('one that names no region of the part is cleared, and no record touched', () => {
    const lane = TWO.laneB.slice()
    lane[REGION_AT] = 99
    sealLane(lane)
    const part = partOf(TWO, [TWO.fresh, TWO.old], lane)
    const found = recovered(TWO, part)
    expect(found.row).toBe('nothing said')
    expect(found.copies).toEqual([TWO.fresh, TWO.old].map((image) => Buffer.from(image)))
    expect(part.durable.slice(LANES_AT, LANES_AT + LINE_BYTES)).toEqual(new Uint8Array(LINE_BYTES))
  })

  const WAIT_AT = 23
  const WAITS = [TWO, FOUR].flatMap((media) =>
    [media.laneA, media.laneB].flatMap((lane, phase) =>
      Array.from({ length: 8 }, (_, wait) => {
        return { media, lane, wait, copies: media.layout.copies, phase: 'AB'[phase] }
      }),
    ),
  )

  test.each(WAITS)(
    'D-4: one in phase $phase that waits for $wait of $copies stops no start',
    (of) => {
      const { media, wait, copies } = of
      const lane = of.lane.slice()
      lane[WAIT_AT] = wait
      sealLane(lane)
      const part = partOf(media, repeated(media.fresh, copies), lane)
      expect(recovered(media, part).data).toEqual(Buffer.from(media.freshData))
      // The first copy is gone, and none of those it waited for can be read: it is lost.
      const gone = partOf(media, repeated(media.old, copies), lane)
      for (let copy = 0; copy < copies; copy++) {
        gone.poison(copyAt(media.layout, copy, 0) / LINE_BYTES)
      }
      const { row } = recovered(media, gone)
      expect(CASES.find(({ name }) => name === row)?.then).toBe('lost')
    },
  )

  test('X-5: one that is linked to the lane of another group goes by its own phase', () => {
    const lane = TWO.laneB.slice()
    lane[RECORD_AT] = 1
    // To the lane before, whose record goes back; but its operation is not the one before.
    lane[LINK_AT] = (lane[LINK_AT]! & 7) | (1 << 3)
    sealLane(lane)
    const content = partOf(TWO, [TWO.old, TWO.old], TWO.laneA).durable.slice()
    content.set(lane, LANES_AT + LINE_BYTES)
    const card = new TestCard(new Nvdimm({ bytes: content.length, content }))
    const rows = recoveryReport(card).map(({ record, row }) => [record, CASES[row]!.phase])
    expect(rows).toEqual([
      [0, PHASE_A],
      [1, PHASE_B],
    ])
  })
})

describe('the five cases of source 1', () => {
  const { old, fresh, laneA, laneB, oldData, freshData } = TWO

  test('P1-14, P1-19, P1-20: case 1, before A: equal and old, nothing is done', () => {
    const found = recovered(TWO, partOf(TWO, [old, old], laneA))
    expect(found).toMatchObject({ row: 'before A', sourceCase: 1, flags: 0 })
    expect(found.copies).toEqual(repeated(old, 2))
    expect(found.data).toEqual(Buffer.from(oldData))
  })

  for (const [name, ranges] of TEARS) {
    test(`P1-13, P1-15, P1-22: case 2, during A, ${name}: B goes over A`, () => {
      const found = recovered(TWO, partOf(TWO, [mixed(TWO, ...ranges), old], laneA))
      expect(found).toMatchObject({ row: 'A torn', sourceCase: 2, flags: 1 })
      expect(found.copies).toEqual(repeated(old, 2))
      expect(found.data).toEqual(Buffer.from(oldData))
    })
  }

  test('P1-16, P1-21: case 3, between: both are valid and A wins', () => {
    const found = recovered(TWO, partOf(TWO, [fresh, old], laneB))
    expect(found).toMatchObject({ row: 'between', sourceCase: 3, flags: 1 })
    expect(found.copies).toEqual(repeated(fresh, 2))
    expect(found.data).toEqual(Buffer.from(freshData))
  })

  test('P1-16, D-2: case 3 before the phase word: not acknowledged, so old is right, too', () => {
    const found = recovered(TWO, partOf(TWO, [fresh, old], laneA))
    expect(found).toMatchObject({ row: 'A whole, unmarked', sourceCase: 3 })
    expect(found.copies).toEqual(repeated(old, 2))
  })

  for (const [name, ranges] of TEARS) {
    test(`P1-13, P1-17, P1-21: case 4, during B, ${name}: A goes over B`, () => {
      const found = recovered(TWO, partOf(TWO, [fresh, mixed(TWO, ...ranges)], laneB))
      expect(found).toMatchObject({ row: 'B torn', sourceCase: 4, flags: 1 })
      expect(found.copies).toEqual(repeated(fresh, 2))
      expect(found.data).toEqual(Buffer.from(freshData))
    })
  }

  test('P1-18, P1-20: case 5, after B: equal and new, nothing is done', () => {
    const found = recovered(TWO, partOf(TWO, [fresh, fresh], laneB))
    expect(found).toMatchObject({ row: 'after B', sourceCase: 5, flags: 0 })
    expect(found.copies).toEqual(repeated(fresh, 2))
    expect(found.data).toEqual(Buffer.from(freshData))
  })

  for (const [name, ranges] of TEARS) {
    test(`P1-19, P1-23: a scan without lanes decides by the check codes alone, ${name}`, () => {
      for (const [copies, row, kept] of [
        [[mixed(TWO, ...ranges), old], 'only B valid', old],
        [[fresh, mixed(TWO, ...ranges)], 'only A valid', fresh],
      ] as const) {
        const part = partOf(TWO, copies)
        part.dirtyShutdowns = 1
        const found = recovered(TWO, part)
        expect(found.row).toBe(row)
        expect(found.copies).toEqual(repeated(kept, 2))
      }
    })
  }

  test('P1-19: a difference in length alone is a difference', () => {
    const shorter = fresh.slice()
    new DataView(shorter.buffer).setUint32(28, 56, true)
    sealSlot(shorter, TWO.layout.key)
    expect(slotValid(shorter, TWO.layout, 0)).toBe(true)
    const found = recovered(TWO, partOf(TWO, [fresh, shorter], laneB))
    expect(found.row).toBe('between')
    expect(found.copies).toEqual(repeated(fresh, 2))
  })
})

describe('the order of recovery', () => {
  test('P1-26, P1-27: repair, superblock, table, lanes, all fenced; no frame before', () => {
    const part = partOf(TWO, [TWO.fresh, mixed(TWO, [16, 72])], TWO.laneB)
    const steps: string[] = []
    const card = new TestCard(part, {
      watch: {
        onCommand: (_, op, words, at) => {
          const to = words[at + TO]! - NVDIMM_SPACE
          if (op === FENCE) steps.push('fence')
          else if (op !== COPY_CLEAN) return
          else if (to < PAGE_BYTES) steps.push('page A')
          else if (to < LANES_AT) steps.push('page B')
          else if (to < LANES_AT + LANES * LINE_BYTES) steps.push('lane')
          else if (to < OPERATIONS_AT + OPERATIONS_BYTES) steps.push('table')
          else steps.push(`slot at ${to}`)
        },
      },
    })
    const lanes = new Array(LANES).fill('lane')
    const slot = `slot at ${copyAt(TWO.layout, 1, 0)}`
    const pages = ['page A', 'fence', 'page B', 'fence']
    // Repairs alone are stored before the start is written down, which a page may refuse. One line
    // of a client is durable before the other one is touched.
    const table = ['table', 'fence', 'table', 'fence']
    expect(steps).toEqual([slot, 'fence', ...pages, ...table, ...lanes, 'fence'])
    expect(card.sent).toEqual([])
    // Everything is done and durable before the first frame could be served.
    expect(copiesIn(TWO.layout, part)).toEqual(repeated(TWO.fresh, 2))
    expect(part.durable.subarray(LANES_AT, LANES_AT + LINE_BYTES).every((byte) => byte === 0)).toBe(
      true,
    )
  })

  test('P1-27: keys from before the restart name nothing', () => {
    const before = new TestCard(partOf(TWO, [TWO.old, TWO.old]))
    const stale = before.open()
    const card = new TestCard(before.nvdimm, { facts: { entropy: [8, 7, 6, 5, 4, 3, 2, 1] } })
    expect(card.open().rkey).not.toBe(stale.rkey)
    expect(card.read(card.connect(), stale, 0, 0, 64)).toBeNull()
    expect(card.counter('KEY')).toBe(1)
  })

  test('P1-26: a second start finds nothing to do, and each start has its own incarnation', () => {
    const part = partOf(TWO, [mixed(TWO, [0, 40]), TWO.old], TWO.laneA)
    const first = new TestCard(part).status()
    const second = new TestCard(part).status()
    expect(u32(first, mad.PART_REPORT_ENTRIES)).toBe(1)
    expect(u32(second, mad.PART_REPORT_ENTRIES)).toBe(0)
    expect(u32(second, mad.PART_LINES_READ)).toBe(LANES + OPERATIONS_BYTES / LINE_BYTES)
    expect(u32(second, mad.PART_INCARNATION)).toBe(u32(first, mad.PART_INCARNATION) + 1)
  })
})

describe.each([
  { name: 'three copies', media: THREE },
  { name: 'four copies', media: FOUR },
])('$name', ({ media }) => {
  const { copies } = media.layout
  const every = Array.from({ length: copies }, (_, copy) => copy)
  const masks = Array.from({ length: 2 ** copies - 2 }, (_, i) => i + 1)

  test.each(masks)('P1-30, S1-M4: those in %i are new, others old: all become new', (mask) => {
    const images = every.map((c) => ((mask >> c) & 1 ? media.fresh : media.old))
    const part = partOf(media, images)
    part.dirtyShutdowns = 1
    const found = recovered(media, part)
    expect(found.flags).toBe(1)
    expect(found.copies).toEqual(repeated(media.fresh, copies))
    expect(found.data).toEqual(Buffer.from(media.freshData))
  })

  test.each(every)('P1-31, D-4: copy %i is the first that is valid: it wins, no vote', (first) => {
    const bad = mixed(media, [16, 72])
    const images = every.map((c) => (c < first ? bad : c === first ? media.fresh : media.old))
    const part = partOf(media, images)
    part.dirtyShutdowns = 1
    expect(recovered(media, part).copies).toEqual(repeated(media.fresh, copies))
  })

  const bad = mixed(media, [0, 8], [64, 100])
  const rest = repeated(media.old, copies - 1)

  test.each([
    ['in phase A the first whole copy behind A', media.old, media.laneA, [bad, ...rest]],
    ['in phase B copy A', media.fresh, media.laneB, [media.fresh, bad, ...rest.slice(1)]],
    [
      'behind the fence of the second copy A, too',
      media.fresh,
      media.laneB,
      [media.fresh, media.fresh, bad, ...rest.slice(2)],
    ],
  ])('P1-31: %s is taken', (_, kept, lane, images) => {
    expect(recovered(media, partOf(media, images, lane)).copies).toEqual(repeated(kept, copies))
  })

  test('P1-31, P1-24: none is valid: nothing is overwritten', () => {
    const images = every.map((c) => mixed(media, [32, 72 + 8 * c]))
    const part = partOf(media, images, media.laneB)
    const found = recovered(media, part)
    expect(found.copies).toEqual(images.map((image) => Buffer.from(image)))
    expect(found.data).toBeNull()
  })
})

/** Settles a record as the operator: it becomes blank. */
function discard(card: TestCard, region: number, record: number): Uint8Array {
  return card.must(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
    putU32(body, mad.SETTLE_REGION, region)
    putU32(body, mad.SETTLE_RECORD, record)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  })
}

/** The status of the PERSIST_ACK for a write of that record. */
function writeStatus(card: TestCard, slot: number, data: Uint8Array): number {
  const qp = card.connect()
  return persistAcks(card.serve(...persistFrames(qp, card.open(), slot, data)))[0]!.status
}

describe('records that are lost', () => {
  const decayed = TWO.fresh.map((byte, i) => (i === 90 ? byte ^ 0x10 : byte))
  const LOSSES = [
    ['P1-24: both fail', [mixed(TWO, [16, 72]), mixed(TWO, [0, 8])], TWO.laneB, 'both torn in B'],
    ['P1-25: equal, but invalid', [decayed, decayed], TWO.laneB, 'equal but invalid in B'],
    ['P1-24: both fail, found by a scan', [mixed(TWO, [16, 72]), decayed], null, 'both torn'],
    ['P1-25: equal but invalid, by a scan', [decayed, decayed], null, 'equal but invalid'],
  ] as const

  for (const [name, copies, lane, row] of LOSSES) {
    test(`${name}: not overwritten, reads fail, writes are refused, the report says so`, () => {
      const part = partOf(TWO, copies, lane)
      if (lane === null) part.dirtyShutdowns = 1
      const { card, ...found } = recovered(TWO, part)
      expect(found).toMatchObject({ row, flags: 2, data: null })
      expect(found.copies).toEqual(copies.map((copy) => Buffer.from(copy)))
      expect(card.counter('UNSETTLED_READ')).toBe(1)
      expect(card.open().unsettled).toBe(1)
      expect(u32(card.status(), mad.PART_UNSETTLED)).toBe(1)
      // The settled view shows no image: an all-zero header (D-14, D-15).
      const settled = card.read(card.connect(), card.open(), 0, 1, 128)
      expect(settled!.every((byte) => byte === 0)).toBe(true)
      // The other records are served; writes are refused, for all of them.
      const neighbour = card.read(card.connect(), card.open(), 1, 0, 64)
      expect(Buffer.from(neighbour!)).toEqual(Buffer.from(dataOf(64, 21)))
      expect(writeStatus(card, 1, dataOf(64, 1))).toBe(STATUS_READ_ONLY)
      expect(readSuperblock(part.durable)!.lost).toEqual([[TWO.layout.id, 0]])
    })

    test(`${name}: lost after restarts, blank and writable once discarded`, () => {
      const part = partOf(TWO, copies, lane)
      if (lane === null) part.dirtyShutdowns = 1
      for (let start = 0; start < 3; start++) {
        const card = new TestCard(part)
        expect(card.open().unsettled).toBe(1)
        expect(card.read(card.connect(), card.open(), 0, 0, 64)).toBeNull()
        expect(writeStatus(card, 0, dataOf(64, 1))).toBe(STATUS_READ_ONLY)
        expect(copiesIn(TWO.layout, part)).toEqual(copies.map((copy) => Buffer.from(copy)))
      }
      const card = new TestCard(part)
      const answer = discard(card, card.open().id, 0)
      expect(u32(answer, mad.REGION_UNSETTLED)).toBe(0)
      expect(answer[mad.REGION_READ_ONLY]).toBe(0)
      expect(readSuperblock(part.durable)!.lost).toEqual([])
      for (const served of [card, new TestCard(part)]) {
        const data = served.read(served.connect(), served.open(), 0, 0, 64)
        expect(Buffer.from(data!)).toEqual(Buffer.alloc(64))
      }
      const later = new TestCard(part)
      expect(writeStatus(later, 0, dataOf(64, 77))).toBe(0)
      const again = new TestCard(part)
      const data = again.read(again.connect(), again.open(), 0, 0, 64)
      expect(Buffer.from(data!)).toEqual(Buffer.from(dataOf(64, 77)))
    })
  }

  test('D-14: a discard that the superblock refuses is refused, and done when asked again', () => {
    const part = partOf(TWO, [decayed, decayed], TWO.laneB)
    const card = new TestCard(part)
    const { id } = card.open()
    for (const page of [0, PAGE_BYTES]) part.refuseWrites(page / LINE_BYTES)
    expect(() => discard(card, id, 0)).toThrow('SUPERBLOCK')
    expect(card.read(card.connect(), card.open(), 0, 0, 64)).toBeNull()
    for (const page of [0, PAGE_BYTES]) part.refuseWrites(page / LINE_BYTES, false)
    discard(card, id, 0)
    expect(readSuperblock(part.durable)!.lost).toEqual([])
    cut(part, { random: new Random(1), strategy: 'none' })
    const after = new TestCard(part)
    const data = after.read(after.connect(), after.open(), 0, 0, 64)
    expect(Buffer.from(data!)).toEqual(Buffer.alloc(64))
  })

  test('D-14: a discard that is cut leaves the record lost or blank, never torn', () => {
    let points = 0
    for (let at = 0; at < 200; at++) {
      const part = partOf(TWO, [decayed, decayed], TWO.laneB)
      const card = new TestCard(part)
      const { id } = card.open()
      card.machine.armCut(at)
      try {
        discard(card, id, 0)
      } catch {
        // No answer: the power went.
      }
      if (!card.machine.dead) break
      points += 1
      cut(part, { random: new Random(SEED + at) })
      const after = new TestCard(part)
      const data = after.read(after.connect(), after.open(), 0, 0, 64)
      const isLost = readSuperblock(part.durable)!.lost.length === 1
      expect(data === null, `cut at ${at}, SEED=${SEED}`).toBe(isLost)
      if (data !== null) expect(Buffer.from(data)).toEqual(Buffer.alloc(64))
    }
    expect(points).toBeGreaterThan(10)
  })

  test('D-14: one whose lane cannot be cleared is lost once, however often it is found', () => {
    const part = partOf(TWO, [decayed, decayed], TWO.laneB)
    for (let lane = 0; lane < LANES; lane++) part.refuseWrites(LANES_AT / LINE_BYTES + lane)
    for (let start = 0; start < 3; start++) {
      const card = new TestCard(part)
      expect(card.open().unsettled).toBe(1)
      expect(readSuperblock(part.durable)!.lost).toEqual([[TWO.layout.id, 0]])
    }
  })

  test.each([
    ['A', TWO.laneA],
    ['B', TWO.laneB],
  ])(
    'D-14: one for which the list has no room is told again by its lane in phase %s',
    (_, lane) => {
      const part = partOf(TWO, [decayed, decayed], lane)
      for (const bytes of [part.durable, part.live]) {
        for (const page of [0, 1]) {
          const at = page * PAGE_BYTES
          const view = new DataView(bytes.buffer, bytes.byteOffset + at)
          view.setUint32(96, 64, true)
          for (let i = 0; i < 64; i++) view.setUint32(128 + 8 * i, 999, true)
          sealPage(bytes.subarray(at, at + PAGE_BYTES))
        }
      }
      for (let start = 0; start < 2; start++) {
        const card = new TestCard(part)
        const region = card.open()
        expect(region.unsettled).toBe(1)
        const frames = persistFrames(card.connect(4096, 0, 99), region, 1, dataOf(64, 1))
        expect(persistAcks(card.serve(...frames))[0]!.status).toBe(STATUS_READ_ONLY)
        expect(readSuperblock(part.durable)!.lost).toHaveLength(64)
      }
    },
  )

  test('D-14: more losses than the superblock can name: all refused, no write taken', () => {
    const card = new TestCard(1 << 18)
    card.format()
    const region = card.provision({ slots: 100, capacity: 64 })
    const part = card.nvdimm
    const layout = readSuperblock(part.durable)!.regions[0]!
    const content = part.durable.slice()
    for (let record = 0; record < 80; record++) {
      for (let copy = 0; copy < 2; copy++) content[copyAt(layout, copy, record) + 40]! ^= 1
    }
    const condition = { dirtyShutdowns: 1, saveFailed: false, poisonedLines: [] }
    const decayedPart = new Nvdimm({ bytes: part.bytes, content, condition })
    for (let start = 0; start < 2; start++) {
      const again = new TestCard(decayedPart)
      const qp = again.connect()
      expect(again.open().unsettled).toBeGreaterThanOrEqual(64)
      expect(writeStatus(again, 90, dataOf(64, 1))).toBe(STATUS_READ_ONLY)
      for (const record of [0, 63, 64, 79]) {
        expect(again.read(again.connect(), again.open(), record, 0, 64)).toBeNull()
      }
      expect(again.read(qp, again.open(), 80, 0, 64)).not.toBeNull()
    }
    expect(region.slots).toBe(100)
  })
})

/** A part of that size, filled with one region, its power cut in a burst of 32 writes. */
function cutInFlight(bytes: number): Nvdimm {
  const card = new TestCard(bytes)
  card.format()
  const slots = Math.floor((bytes - 65536) / (2 * 128))
  const region = card.provision({ slots, capacity: 64 })
  const qp = card.connect()
  const random = new Random(SEED)
  const burst = Array.from({ length: 32 }, (_, i) =>
    persistFrames(qp, region, i * Math.floor(slots / 32), dataOf(64, i)),
  )
  let fences = 0
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) fences += 1
      if (op === FENCE && fences === 4) card.machine.die()
    },
    replace: (_, op) => (card.machine.dead ? SKIP : op),
  })
  card.serve(...burst.flat())
  expect(card.machine.dead).toBe(true)
  cut(card.nvdimm, { random, strategy: 'half' })
  return card.nvdimm
}

describe('what recovery costs', () => {
  test('D-2: the lines read are as many for 64 MiB as for 1 MiB, with the same in flight', () => {
    const [small, large] = [1 << 20, 1 << 26].map((bytes) => {
      const part = cutInFlight(bytes)
      const card = new TestCard(part)
      const status = card.status()
      expect(u32(status, mad.PART_LANES_ACTIVE)).toBe(32)
      expect(u32(status, mad.PART_SCANNED)).toBe(0)
      expect(recoveryReport(card)).toHaveLength(32)
      return u32(status, mad.PART_LINES_READ)
    })
    expect(large).toBe(small)
    // The lanes, the table, and for each record a header and a data line of both copies.
    expect(small).toBeLessThanOrEqual(LANES + OPERATIONS_BYTES / LINE_BYTES + 32 * 4)
  })

  test('D-2: nothing in flight: the lanes are read, and no record', () => {
    const part = partOf(TWO, [TWO.old, TWO.old])
    const status = new TestCard(part).status()
    expect(u32(status, mad.PART_LINES_READ)).toBe(LANES + OPERATIONS_BYTES / LINE_BYTES)
    expect(u32(status, mad.PART_LANES_ACTIVE)).toBe(0)
  })
})

/** Puts an image in the place of a copy, on a card that serves. */
function place(card: TestCard, at: number, image: Uint8Array): void {
  card.nvdimm.live.set(image, at)
  card.nvdimm.durable.set(image, at)
}

function scan(card: TestCard, region: number): { repaired: number; unsettled: number } {
  const body = card.scan(region)
  return { repaired: u32(body, mad.SCAN_REPAIRED), unsettled: u32(body, mad.SCAN_UNSETTLED) }
}

describe('copies that are none', () => {
  const { layout } = TWO
  const [atA, atB] = [copyAt(layout, 0, 0), copyAt(layout, 1, 0)]

  /** A card whose copies are whole, for each test its own. */
  function wholeCard(): { card: TestCard; id: number } {
    const card = new TestCard(partOf(TWO, [TWO.fresh, TWO.fresh]))
    return { card, id: card.open().id }
  }

  test('D-3: each single flipped bit of a copy is found, and repaired from the other', () => {
    const { card, id } = wholeCard()
    for (let bit = 0; bit < SLOT_BYTES * 8; bit++) {
      const image = TWO.fresh.slice()
      image[bit >> 3]! ^= 1 << (bit & 7)
      place(card, bit % 2 === 0 ? atA : atB, image)
      expect(scan(card, id), `bit ${bit}`).toEqual({ repaired: 1, unsettled: 0 })
      expect(copiesIn(layout, card.nvdimm)).toEqual(repeated(TWO.fresh, 2))
    }
  })

  test(
    'D-3: 2 to 64 flipped bits, in header, length, sequence and data, are found',
    THOROUGH,
    () => {
      const { card, id } = wholeCard()
      const random = new Random(SEED)
      for (let round = 0; round < 4000; round++) {
        const image = TWO.fresh.slice()
        const count = 2 + random.below(63)
        const field = random.below(3)
        const [from, to] = [
          [0, SLOT_BYTES],
          [28, 40],
          [0, 64],
        ][field]!
        for (let i = 0; i < count; i++) {
          image[from! + random.below(to! - from!)]! ^= 1 << random.below(8)
        }
        if (Buffer.compare(image, TWO.fresh) === 0) continue
        place(card, round % 2 === 0 ? atA : atB, image)
        const found = scan(card, id)
        expect(found, `round ${round}, SEED=${SEED}`).toEqual({ repaired: 1, unsettled: 0 })
        expect(copiesIn(layout, card.nvdimm)).toEqual(repeated(TWO.fresh, 2))
      }
    },
  )

  test('D-3: a whole copy of another record, of this region or another, is no copy', () => {
    const { card, id } = wholeCard()
    const neighbour = copiesIn(layout, card.nvdimm, 1)[0]!
    expect(slotValid(neighbour, layout, 1)).toBe(true)
    const other = card.provision({ name: 'other', slots: 4, capacity: 64 })
    card.serve(...persistFrames(card.connect(), other, 0, TWO.freshData))
    const otherLayout = readSuperblock(card.nvdimm.durable)!.regions[1]!
    const foreign = copiesIn(otherLayout, card.nvdimm)[0]!
    expect(slotValid(foreign, otherLayout, 0)).toBe(true)
    for (const image of [neighbour, foreign]) {
      for (const at of [atA, atB]) {
        place(card, at, image)
        expect(scan(card, id)).toEqual({ repaired: 1, unsettled: 0 })
        expect(copiesIn(layout, card.nvdimm)).toEqual(repeated(TWO.fresh, 2))
      }
    }
  })

  test('D-3: all zeros and all ones are no copy; in both places they are a loss', () => {
    const { card, id } = wholeCard()
    for (const byte of [0x00, 0xff]) {
      const blank = new Uint8Array(SLOT_BYTES).fill(byte)
      for (const at of [atA, atB]) {
        place(card, at, blank)
        expect(scan(card, id)).toEqual({ repaired: 1, unsettled: 0 })
      }
      const part = partOf(TWO, [blank, blank])
      part.dirtyShutdowns = 1
      const found = recovered(TWO, part)
      expect(found).toMatchObject({ row: 'equal but invalid', data: null })
      expect(found.copies).toEqual(repeated(blank, 2))
    }
  })

  test('D-3: a length beyond the slot is not followed, even under a right check code', () => {
    const { card, id } = wholeCard()
    for (const length of [65, 128, 65536, 2 ** 31 - 1, 2 ** 31, 2 ** 32 - 1]) {
      const image = new Uint8Array(4096)
      image.set(TWO.fresh)
      new DataView(image.buffer).setUint32(28, length, true)
      if (length <= 128) sealSlot(image, layout.key)
      place(card, atA, image.slice(0, SLOT_BYTES))
      expect(scan(card, id), `${length}`).toEqual({ repaired: 1, unsettled: 0 })
    }
  })
})

describe('media errors and unsafe shutdowns', () => {
  test('D-4: 2of2 survives any one media error later on, in any line of the part', THOROUGH, () => {
    const lines = TWO.content.length / LINE_BYTES
    for (let line = 0; line < lines; line++) {
      const part = partOf(TWO, [TWO.fresh, TWO.fresh])
      part.poison(line)
      const card = new TestCard(part)
      const data = card.read(card.connect(), card.open(), 0, 0, 64)
      expect(Buffer.from(data!), `line ${line}`).toEqual(Buffer.from(TWO.freshData))
    }
  })

  test('D-4: 1of2, A lost to the medium in phase B: an explicit loss, never the old value', () => {
    const media = mediaOf({ wait: 1, copies: 2 })
    for (const other of [media.old, mixed(media, [16, 72]), mixed(media, [0, 16])]) {
      for (const line of linesOfCopy(media.layout, 0, 0)) {
        const part = partOf(media, [media.fresh, other], media.laneB)
        part.poison(line)
        const found = recovered(media, part)
        expect(found).toMatchObject({ data: null, flags: 2 })
        expect(found.copies[1]).toEqual(Buffer.from(other))
        expect(readSuperblock(part.durable)!.lost).toEqual([[media.layout.id, 0]])
        // The lane is cleared by now; the list keeps what it said.
        expect(recovered(media, part).data).toBeNull()
      }
    }
  })

  test('D-2: a lane that cannot be read makes recovery look at every record', () => {
    for (const lane of [0, 1, 31]) {
      const part = partOf(TWO, [TWO.fresh, mixed(TWO, [16, 72])], TWO.laneB)
      part.poison(LANES_AT / LINE_BYTES + lane)
      const card = new TestCard(part)
      expect(u32(card.status(), mad.PART_SCANNED)).toBe(TWO.layout.slots)
      expect(copiesIn(TWO.layout, part)).toEqual(repeated(TWO.fresh, 2))
      // It is healed: the next start reads the lanes alone.
      expect(u32(new TestCard(part).status(), mad.PART_SCANNED)).toBe(0)
    }
  })

  test('H7: one page of the superblock unreadable: the other counts, both are whole again', () => {
    for (const page of [0, 1]) {
      for (const line of [0, 3, 10]) {
        const part = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB)
        part.poison((page * PAGE_BYTES) / LINE_BYTES + line)
        expect(recovered(TWO, part).copies).toEqual(repeated(TWO.fresh, 2))
        const a = part.durable.slice(0, PAGE_BYTES)
        const b = part.durable.slice(PAGE_BYTES, 2 * PAGE_BYTES)
        expect(Buffer.compare(a, b)).toBe(0)
        expect(part.isPoisoned((page * PAGE_BYTES) / LINE_BYTES + line)).toBe(false)
      }
    }
  })

  test('H7: both pages unreadable: refused as damaged, and nothing is written', () => {
    const part = partOf(TWO, [TWO.fresh, TWO.old], TWO.laneB)
    part.poison(0)
    part.poison(PAGE_BYTES / LINE_BYTES)
    const before = Buffer.from(part.durable)
    const card = new TestCard(part)
    const status = card.status()
    expect(status[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe('DAMAGED')
    expect(Buffer.compare(before, part.durable)).toBe(0)
  })

  test('D-13: an unsafe shutdown makes recovery look at all records, once, and count them', () => {
    const part = partOf(TWO, [TWO.fresh, mixed(TWO, [0, 16])])
    part.dirtyShutdowns = 3
    const card = new TestCard(part)
    const status = card.status()
    expect(u32(status, mad.PART_SCANNED)).toBe(TWO.layout.slots)
    expect(u32(status, mad.PART_REPAIRED)).toBe(1)
    const [line, ...others] = recoveryReport(card)
    expect(others).toEqual([])
    expect(line).toMatchObject({ lane: 255, record: 0 })
    expect(line!.flags & 0x0f).toBe(1)
    expect(readSuperblock(part.durable)!.dirtyShutdowns).toBe(3)
    expect(u32(new TestCard(part).status(), mad.PART_SCANNED)).toBe(0)
  })

  test('D-13: a failed save makes recovery look at every record', () => {
    const part = partOf(TWO, [TWO.fresh, mixed(TWO, [0, 16])])
    part.failSave()
    expect(u32(new TestCard(part).status(), mad.PART_SCANNED)).toBe(TWO.layout.slots)
    expect(copiesIn(TWO.layout, part)).toEqual(repeated(TWO.fresh, 2))
  })

  test('D-13: not armed at the start: refused, untouched; armed and restarted, it serves', () => {
    const part = partOf(TWO, [TWO.fresh, mixed(TWO, [0, 16])], TWO.laneB)
    part.armed = false
    const before = Buffer.from(part.durable)
    const card = new TestCard(part)
    const status = card.status()
    expect(status[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    expect(card.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN).fault).toBe('NOT_SERVING')
    expect(card.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe('NOT_ARMED')
    expect(Buffer.compare(before, part.durable)).toBe(0)
    part.armed = true
    const found = recovered(TWO, part)
    expect(found.row).toBe('B torn')
    expect(found.copies).toEqual(repeated(TWO.fresh, 2))
  })

  test('P1-11, D-13: a repair that cannot be fenced: refused, and the next start repairs', () => {
    const part = partOf(TWO, [TWO.fresh, mixed(TWO, [0, 16])], TWO.laneB)
    part.fencesToFail = 1
    const card = new TestCard(part)
    expect(card.status()[mad.PART_STATE]).toBe(mad.STATE_REFUSED)
    const lane = part.durable.slice(LANES_AT, LANES_AT + LINE_BYTES)
    expect(Buffer.compare(lane, TWO.laneB)).toBe(0)
    cut(part, { random: new Random(SEED) })
    expect(recovered(TWO, part).copies).toEqual(repeated(TWO.fresh, 2))
  })
})
