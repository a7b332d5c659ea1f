/**
 * What was acknowledged, and of which the medium has then lost every copy (D-4, O7; fault H7): the
 * record is lost and says so, whatever stands in the copies that the acknowledgement did not wait
 * for.
 *
 * And what was shown to readers in one copy alone, as the medium took no other: the same.
 *
 * Invariant: the card commits by itself, and the bytes that a cut leaves are those that are
 * durable when the acknowledgement leaves.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { FENCE, TRANSMIT } from '../../../firmware/board/hal.ts'
import { atFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { recoveryReport } from '../../support/crash/explorer.ts'
import { LANES_AT } from '../../support/judges/oracle.ts'
import { hexOf } from '../../support/wire/frames.ts'
import { slotOffset } from '../../support/wire/requests.ts'

const CAPACITY = 100
const OLD = dataOf(CAPACITY, 1)
const NEW = dataOf(CAPACITY, 2)
/** Of a line of the report, and of a receipt. */
const LOST = 3
const IN_DOUBT = 0x8f

interface Level {
  readonly wait: number
  readonly copies: number
}

/** Every level that keeps a copy for which the acknowledgement does not wait. */
const LEVELS: readonly Level[] = [2, 3, 4].flatMap((copies) =>
  Array.from({ length: copies - 1 }, (_, i) => ({ wait: i + 1, copies })),
)

const nameOf = ({ wait, copies }: Level): string => `${wait}of${copies}`

interface Written {
  readonly region: TestRegion
  /** What is durable as the acknowledgement leaves, and before each fence of the commit. */
  readonly told: Uint8Array
  readonly fences: readonly Uint8Array[]
  /** What is durable when the group has ended. */
  readonly ended: Uint8Array
}

/** Record 0 is old in every copy, then new is written; a line of copy `refusing` takes nothing. */
function write({ wait, copies }: Level, refusing = -1): Written {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ copies, slots: 2, capacity: CAPACITY })
  const qp = card.connect()
  card.serve(...persistFrames(qp, region, 0, OLD))
  card.idle()
  if (refusing >= 0) card.nvdimm.refuseWrites(slotOffset(region, refusing, 0) / 64 + 1)
  const fences: Uint8Array[] = []
  let told = fences[0]
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) fences.push(card.nvdimm.durable.slice())
      // The last frame is the acknowledgement; the one before it says that the record has come.
      if (op === TRANSMIT) told = card.nvdimm.durable.slice()
    },
  })
  const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, { wait })))
  expect(receipt).toMatchObject({ status: 0 })
  return { region, told: told!, fences, ended: card.nvdimm.durable.slice() }
}

/** A card that starts on that content, the copies of record 0 before `gone` unreadable. */
function started({ region }: Written, content: Uint8Array, gone: number): TestCard {
  const nvdimm = new Nvdimm({ bytes: content.length, content: content.slice() })
  for (let c = 0; c < gone; c++) nvdimm.poison(slotOffset(region, c, 0) / 64 + 1)
  return new TestCard(nvdimm)
}

function shown(card: TestCard): string | null {
  const data = card.read(card.connect(), card.open(), 0, 0, CAPACITY)
  return data === null ? null : hexOf(data)
}

function expectLost(card: TestCard): void {
  expect(recoveryReport(card)).toMatchObject([{ record: 0, action: LOST }])
  expect(shown(card)).toBeNull()
  expect(card.open().unsettled).toBe(1)
}

describe('R1-C15: every acknowledged copy is gone, and an older one is left', () => {
  for (const level of LEVELS) {
    const { wait, copies } = level
    test(`${nameOf(level)}: the power goes as the acknowledgement leaves`, () => {
      const written = write(level)
      expectLost(started(written, written.told, wait))
    })

    for (let refusing = wait; refusing < copies; refusing++) {
      test(`${nameOf(level)}: copy ${refusing} took no store`, () => {
        const written = write(level, refusing)
        // What stands behind the copy that refused is whatever the repair could still write.
        expectLost(started(written, written.ended, copies - 1))
        expectLost(started(written, written.told, wait))
      })
    }

    test(`${nameOf(level)}: one acknowledged copy that is left is enough`, () => {
      const written = write(level)
      expect(shown(started(written, written.told, wait - 1))).toBe(hexOf(NEW))
    })
  }
})

describe('R1-C15: what was not acknowledged is not taken for it', () => {
  test('2of3: with copy B torn, and A unreadable, the old record is whole', () => {
    const written = write({ wait: 2, copies: 3 })
    // Before the fence of copy B: A is new, B torn, C old.
    const [content] = written.fences.slice(3)
    const torn = content!.slice()
    torn.set(NEW.subarray(0, 40), slotOffset(written.region, 1, 0) + 64)
    expect(shown(started(written, torn, 1))).toBe(hexOf(OLD))
  })

  test('the copy with the latest sequence stands, though one before it is whole', () => {
    const level = { wait: 2, copies: 4 }
    const written = write(level)
    // Copy C is left behind, by a save that failed for it alone; D has the new record.
    const content = written.told.slice()
    const at = (copy: number): number => slotOffset(written.region, copy, 0)
    content.set(content.slice(at(1), at(1) + 64 + CAPACITY), at(3))
    expect(shown(started(written, content, 2))).toBe(hexOf(NEW))
  })
})

/** A card on a part whose record 0 is old, and whose copy B takes no store any more. */
function refusesInCopyB(copies: number): { card: TestCard; region: TestRegion; qp: TestPeer } {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ copies, slots: 2, capacity: CAPACITY })
  const qp = card.connect()
  card.serve(...persistFrames(qp, region, 0, OLD))
  card.idle()
  card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64)
  return { card, region, qp }
}

/** Likewise, behind a write that waits for two. */
function shownInOneCopy(copies: number): { card: TestCard; region: TestRegion } {
  const { card, region, qp } = refusesInCopyB(copies)
  const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, { wait: 2 })))
  expect(receipt).toMatchObject({ status: IN_DOUBT })
  expect(shown(card)).toBe(hexOf(NEW))
  return { card, region }
}

describe('R1-E2: a record that readers were shown in its first copy, which is then lost', () => {
  for (const copies of [2, 3, 4]) {
    const name = `2of${copies}`
    test(`${name}: lost while the card serves: no reader is given the older one`, () => {
      const { card, region } = shownInOneCopy(copies)
      card.nvdimm.poison(slotOffset(region, 0, 0) / 64 + 1)
      expect(shown(card)).toBeNull()
    })

    test(`${name}: lost at the next start, or at the one behind it: said`, () => {
      const { card, region } = shownInOneCopy(copies)
      const written = { region, told: card.nvdimm.durable, fences: [], ended: card.nvdimm.durable }
      expectLost(started(written, written.ended, 1))
      // A start that finds the copy still refusing shows the record, and keeps what the lane says.
      const content = written.ended.slice()
      const nvdimm = new Nvdimm({ bytes: content.length, content })
      nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64)
      expect(shown(new TestCard(nvdimm))).toBe(hexOf(NEW))
      expectLost(started(written, nvdimm.durable, 1))
    })

    test(`${name}: its lane takes no store either: it is not shown`, () => {
      const { card, region, qp } = refusesInCopyB(copies)
      atFence(card.machine, 3, () => {
        // Behind the fence of the phase, the third.
        card.nvdimm.refuseWrites(LANES_AT / 64)
      })
      card.serve(...persistFrames(qp, region, 0, NEW, { wait: 2 }))
      card.machine.observe({})
      expect(shown(card)).not.toBe(hexOf(NEW))
      const again = new Nvdimm({
        bytes: card.nvdimm.bytes,
        content: card.nvdimm.durable.slice(),
      })
      again.refuseWrites(slotOffset(region, 1, 0) / 64)
      again.refuseWrites(LANES_AT / 64)
      expect(shown(new TestCard(again))).not.toBe(hexOf(NEW))
    })
  }

  test('shown behind a failed save, and no copy takes a store: the next start keeps it', () => {
    for (const { wait, copies } of LEVELS) {
      // Copy A is durable, and the lane says that nothing is acknowledged yet.
      const written = write({ wait, copies })
      const content = written.fences[2]!.slice()
      const part = new Nvdimm({ bytes: content.length, content })
      part.failSave()
      const lines = Array.from({ length: copies }, (_, c) => slotOffset(written.region, c, 0) / 64)
      for (const line of lines) part.refuseWrites(line)
      expect(shown(new TestCard(part))).toBe(hexOf(NEW))
      part.failSave(false)
      expect(shown(new TestCard(part))).toBe(hexOf(NEW))
      for (const line of lines) part.refuseWrites(line, false)
      expect(shown(new TestCard(part))).toBe(hexOf(NEW))
    }
  })

  test('shown behind a failed save in one copy, which is gone behind another one: lost', () => {
    for (const copies of [2, 3, 4]) {
      const written = write({ wait: 1, copies })
      const part = new Nvdimm({ bytes: written.told.length, content: written.told.slice() })
      const line = (copy: number): number => slotOffset(written.region, copy, 0) / 64
      part.failSave()
      for (let c = 1; c < copies; c++) part.refuseWrites(line(c))
      expect(shown(new TestCard(part))).toBe(hexOf(NEW))
      // The second start believes no phase either, and is told again what the first one showed.
      expect(shown(new TestCard(part))).toBe(hexOf(NEW))
      part.poison(line(0) + 1)
      expectLost(new TestCard(part))
      expect(shown(new TestCard(part))).toBeNull()
    }
  })

  test('shown behind a failed save in one copy, which another save takes back: lost', () => {
    const written = write({ wait: 1, copies: 2 })
    const part = new Nvdimm({ bytes: written.told.length, content: written.told.slice() })
    const at = (copy: number): number => slotOffset(written.region, copy, 0)
    part.failSave()
    part.refuseWrites(at(1) / 64)
    expect(shown(new TestCard(part))).toBe(hexOf(NEW))
    // Copy A is what it was before: as old as copy B, and whole.
    const content = part.durable.slice()
    content.set(content.slice(at(1), at(1) + 64 + CAPACITY), at(0))
    const after = new Nvdimm({ bytes: content.length, content })
    after.failSave()
    expectLost(new TestCard(after))
  })

  test('the first copy is gone, and the second half-written: lost at once', () => {
    const card = new TestCard(1 << 17).format()
    const region = card.provision({ copies: 2, slots: 2, capacity: CAPACITY })
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 0, OLD))
    card.idle()
    atFence(card.machine, 3, () => {
      card.nvdimm.poison(slotOffset(region, 0, 0) / 64 + 1)
      card.nvdimm.refuseWrites(slotOffset(region, 1, 0) / 64 + 1)
    })
    const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, { wait: 2 })))
    card.machine.observe({})
    expect(receipt).toMatchObject({ status: IN_DOUBT })
    expect(shown(card)).toBeNull()
  })

  test('both copies take nothing, and the first is gone: what is old and whole stands', () => {
    const card = new TestCard(1 << 17).format()
    const region = card.provision({ copies: 2, slots: 2, capacity: CAPACITY })
    const qp = card.connect()
    card.serve(...persistFrames(qp, region, 0, OLD))
    card.idle()
    const line = (copy: number): number => slotOffset(region, copy, 0) / 64
    atFence(card.machine, 3, () => {
      card.nvdimm.poison(line(0) + 1)
      for (const copy of [0, 1]) card.nvdimm.refuseWrites(line(copy))
    })
    const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, NEW, { wait: 2 })))
    card.machine.observe({})
    expect(receipt).toMatchObject({ status: IN_DOUBT })
    expect(shown(card)).toBe(hexOf(OLD))
    const again = new Nvdimm({ bytes: card.nvdimm.bytes, content: card.nvdimm.durable.slice() })
    again.poison(line(0) + 1)
    again.refuseWrites(line(0))
    expect(shown(new TestCard(again))).toBe(hexOf(OLD))
  })

  test('once the medium takes stores again, the next start makes every copy one', () => {
    const { card, region } = shownInOneCopy(3)
    const healed = new Nvdimm({ bytes: card.nvdimm.bytes, content: card.nvdimm.durable.slice() })
    const again = new TestCard(healed)
    expect(shown(again)).toBe(hexOf(NEW))
    expect(again.open().unsettled).toBe(0)
    const copy = (c: number): Uint8Array => {
      const at = slotOffset(region, c, 0)
      return healed.durable.slice(at, at + 64 + CAPACITY)
    }
    expect(copy(1)).toEqual(copy(0))
    expect(copy(2)).toEqual(copy(0))
  })
})
