/**
 * A medium that takes no store, at every place where a commit stores (P1-11; fault H7): the record
 * that was hit is refused or repaired, the others of its group are as if nothing had happened.
 */

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { cut } from '../../../boards/emulator/medium/power-cut.ts'
import {
  COPY_CLEAN,
  FENCE,
  FLUSH,
  NVDIMM_SPACE,
  TO,
  TRANSMIT,
} from '../../../firmware/board/hal.ts'
import { DATA_AT, LANES_AT } from '../../../firmware/medium/superblock.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { atFence, failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
} from '../../support/cards/test-card.ts'
import { recoveryReport } from '../../support/crash/booth.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'
import { hexOf } from '../../support/wire/frames.ts'
import { lines, type Setting, slotOffset, writeFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 20261)

const CAPACITY_BYTES = 100
const MEDIA = 0x81
const IN_DOUBT = 0x8f
const READ_ONLY = 0x8b

const older = (slot: number): Uint8Array => dataOf(CAPACITY_BYTES, slot)
const newer = (slot: number): Uint8Array => dataOf(CAPACITY_BYTES, 100 + slot)

/** A region of a few records, each of which holds its older data. */
function setting(copies: number, slots = 8): Setting {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ copies, slots, capacity: CAPACITY_BYTES })
  const qp = card.connect()
  for (let slot = 0; slot < slots; slot++) {
    card.serve(...persistFrames(qp, region, slot, older(slot)))
  }
  card.idle()
  return { card, region, qp }
}

/** A card that starts on that content, with those lines still refusing. */
function rebooted(content: Uint8Array, badLines: readonly number[] = []): TestCard {
  const nvdimm = new Nvdimm({ bytes: content.length, content })
  for (const line of badLines) nvdimm.refuseWrites(line)
  return new TestCard(nvdimm)
}

function read(card: TestCard, slot: number): string | null {
  const data = card.read(card.connect(), card.open(), slot, 0, CAPACITY_BYTES)
  return data === null ? null : hexOf(data)
}

type Place = 'the lane' | 'the phase word' | 'copy A' | 'copy B' | 'copy C'

interface Hit {
  readonly place: Place
  readonly copies: number
  readonly level: number
  readonly group: number
  /** Which record of the group. */
  readonly bad: number
  /** Line of the slot that refuses. */
  readonly slotLine: number
}

function lineOf(one: Setting, hit: Hit): number {
  if (hit.place === 'the lane' || hit.place === 'the phase word') return LANES_AT / 64 + hit.bad
  const copy = ['copy A', 'copy B', 'copy C'].indexOf(hit.place)
  return slotOffset(one.region, copy, hit.bad) / 64 + hit.slotLine
}

/** Commits the group with one line refusing; what was answered. */
function commitWith(one: Setting, hit: Hit): Sent[] {
  const line = lineOf(one, hit)
  const { nvdimm, machine } = one.card
  let fences = 0
  if (hit.place === 'the phase word') {
    machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE && ++fences === 1) nvdimm.refuseWrites(line)
      },
    })
  } else nvdimm.refuseWrites(line)
  const frames = Array.from({ length: hit.group }, (_, slot) =>
    persistFrames(one.qp, one.region, slot, newer(slot), { wait: hit.level }),
  )
  const sent = one.card.serve(...frames.flat())
  machine.observe({})
  return sent
}

/** The status that each record of the group was answered with; each exactly once. */
function statuses(sent: readonly Sent[], base: number, group: number): number[] {
  const said = Array.from({ length: group }, () => -1)
  for (const { firstPsn, lastPsn, status, records } of persistAcks(sent)) {
    const [first, last] = [firstPsn - base, lastPsn - base]
    let answered = 0
    for (let i = first; i <= last; i++) {
      if (said[i] !== -1) continue
      said[i] = status
      answered += 1
    }
    expect(answered).toBe(records)
  }
  return said
}

const PLACES: readonly Place[] = ['the lane', 'the phase word', 'copy A', 'copy B', 'copy C']

const HITS: Hit[] = PLACES.flatMap((place) =>
  [2, 3].flatMap((copies) =>
    [1, 2].flatMap((level) =>
      [1, 5].flatMap((group) =>
        Array.from({ length: group }, (_, bad) => bad).flatMap((bad) =>
          (place.startsWith('copy') ? [0, 1, 2] : [0]).map((slotLine) => ({
            ...{ place, copies, level, group, bad, slotLine },
          })),
        ),
      ),
    ),
  ),
).filter(({ place, copies }) => place !== 'copy C' || copies === 3)

function check(hit: Hit): void {
  const one = setting(hit.copies)
  const base = one.qp.psn
  const said = statuses(commitWith(one, hit), base, hit.group)
  said.forEach((status, slot) => {
    if (slot !== hit.bad) expect(status, `record ${slot}`).toBe(0)
  })
  // What has gone forward, and is in one copy alone, may be durable at the next start.
  expect([0, hit.place === 'copy B' ? IN_DOUBT : MEDIA]).toContain(said[hit.bad])
  const early = hit.place === 'copy B' && hit.level === 1
  if (hit.place === 'the lane' || hit.place === 'copy A') expect(said[hit.bad]).toBe(MEDIA)
  if (early || hit.place === 'copy C') expect(said[hit.bad]).toBe(0)
  const expected = said.map((status, slot) => hexOf(status === 0 ? newer(slot) : older(slot)))
  const { place } = hit
  // What reached its first copy durably goes forward, refused or not (P1-11).
  if (place === 'copy B' || place === 'copy C') expected[hit.bad] = hexOf(newer(hit.bad))
  const now = expected.map((_, slot) => read(one.card, slot))
  expect(now, 'as read at once').toEqual(expected)
  // Of a lane that refuses stores at the start, see below.
  const bad = place.startsWith('copy') ? [lineOf(one, hit)] : []
  for (const content of [one.card.nvdimm.durable, one.card.nvdimm.live]) {
    for (const badLines of [[], bad]) {
      const again = rebooted(content.slice(), badLines)
      const found = expected.map((_, slot) => read(again, slot))
      expect(found, 'as read after a reboot').toEqual(expected)
    }
  }
  consistent(one, hit)
}

/** Either the copies of every record are one, or the region takes no more writes until they are. */
function consistent(one: Setting, hit: Hit): void {
  const { card, region } = one
  const image = (content: Uint8Array, copy: number, slot: number): string => {
    const at = slotOffset(region, copy, slot)
    return hexOf(content.slice(at, at + 64 + CAPACITY_BYTES))
  }
  let apart = 0
  for (const content of [card.nvdimm.live, card.nvdimm.durable]) {
    for (let slot = 0; slot < 8; slot++) {
      for (let copy = 1; copy < hit.copies; copy++) {
        if (image(content, copy, slot) !== image(content, 0, slot)) apart += 1
      }
    }
  }
  const qp = card.connect()
  const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 7, newer(7))))
  // Where a repair met the bad line again, the copies may be the same and the region careful.
  if (apart > 0) expect(receipt!.status).toBe(READ_ONLY)
  else expect([0, READ_ONLY]).toContain(receipt!.status)
  // Once the medium takes stores again, a reboot makes everything one, and the region writable.
  const healed = rebooted(card.nvdimm.durable.slice())
  const body = healed.scan(region.id)
  expect(body[mad.SCAN_REPAIRED + 3]).toBe(0)
  expect(healed.open().unsettled).toBe(0)
}

describe('one line refuses the store', () => {
  for (const place of PLACES) {
    for (const level of [1, 2]) {
      for (const group of [1, 5]) {
        const hits = HITS.filter(
          (hit) => hit.place === place && hit.level === level && hit.group === group,
        )
        test(
          `P1-11: ${place}, level ${level}, group of ${group}: no other record suffers`,
          thoroughIf(group === 5 && (level === 2 || place.startsWith('copy'))),
          () => {
            expect(hits.length).toBeGreaterThan(0)
            for (const hit of hits) {
              try {
                check(hit)
              } catch (error) {
                throw new Error(JSON.stringify(hit), { cause: error })
              }
            }
          },
        )
      }
    }
  }
})

describe('more than one line refuses', () => {
  test('X-1, P1-11: 32 connections and several bad second copies: no false receipt', () => {
    for (const bad of [[3], [3, 9], [0, 1, 2], [3, 9, 20, 31], [30, 31]]) {
      const card = new TestCard(1 << 18).format()
      const region = card.provision({ slots: 32 })
      const pairs = Array.from({ length: 32 }, () => card.connect())
      for (const slot of bad) card.nvdimm.refuseWrites(slotOffset(region, 1, slot) / 64)
      const sent = card.serve(
        ...pairs.flatMap((qp, slot) => persistFrames(qp, region, slot, dataOf(64, slot))),
      )
      pairs.forEach((qp, slot) => {
        const own = sent.filter((frame) => frame.packet.destQp === qp.peer)
        const [receipt, ...more] = persistAcks(own)
        expect(more).toEqual([])
        expect(receipt!.status).toBe(bad.includes(slot) ? IN_DOUBT : 0)
        const copies = [0, 1].map((copy) => {
          const at = slotOffset(region, copy, slot)
          return hexOf(card.nvdimm.durable.slice(at + 64, at + 128))
        })
        expect(copies[0]).toBe(hexOf(dataOf(64, slot)))
        if (!bad.includes(slot)) expect(copies[1]).toBe(copies[0])
      })
    }
  })

  test('P1-11: a whole group is refused: every record stays readable', () => {
    for (const copy of [0, 1]) {
      const one = setting(2)
      for (let slot = 0; slot < 8; slot++) {
        one.card.nvdimm.refuseWrites(slotOffset(one.region, copy, slot) / 64)
      }
      const frames = Array.from({ length: 8 }, (_, slot) =>
        persistFrames(one.qp, one.region, slot, newer(slot)),
      )
      const receipts = persistAcks(one.card.serve(...frames.flat()))
      expect(receipts.map(({ status }) => status)).toEqual(
        frames.map(() => (copy === 0 ? MEDIA : IN_DOUBT)),
      )
      expect(receipts.map(({ copies }) => copies)).toEqual(frames.map(() => copy))
      for (let slot = 0; slot < 8; slot++) {
        expect(read(one.card, slot)).toBe(hexOf(copy === 0 ? older(slot) : newer(slot)))
      }
    }
  })

  test('every lane refuses: nothing is taken, and nothing is said to be', () => {
    const one = setting(2)
    for (let lane = 0; lane < 32; lane++) one.card.nvdimm.refuseWrites(LANES_AT / 64 + lane)
    for (let i = 0; i < 40; i++) {
      const frames = persistFrames(one.qp, one.region, i % 8, newer(i % 8))
      const [receipt] = persistAcks(one.card.serve(...frames))
      expect(receipt!.status).not.toBe(0)
    }
    for (let slot = 0; slot < 8; slot++) expect(read(one.card, slot)).toBe(hexOf(older(slot)))
  })

  test('H7: a part with a lane that takes no store starts, and serves with the other lanes', () => {
    const one = setting(2)
    for (const lane of [0, 7, 31]) {
      const again = rebooted(one.card.nvdimm.durable.slice(), [LANES_AT / 64 + lane])
      expect(again.status()[mad.PART_STATE]).toBe(mad.STATE_SERVING)
      const [region, qp] = [again.open(), again.connect()]
      for (let i = 0; i < 40; i++) {
        const [receipt] = persistAcks(again.serve(...persistFrames(qp, region, i % 8, newer(i))))
        expect([0, MEDIA]).toContain(receipt!.status)
        if (i > 0) expect(receipt!.status).toBe(0)
      }
    }
  })

  test('a lane that could not be cleared does not speak for a later write of its record', () => {
    const one = setting(2)
    const hit: Hit = { place: 'the phase word', copies: 2, level: 1, group: 1, bad: 0, slotLine: 0 }
    expect(persistAcks(commitWith(one, hit))[0]!.status).toBe(0)
    // The power is cut when the receipt of the next write is on its way.
    let left: Uint8Array | null = null
    one.card.machine.observe({
      onCommand: (_, op, words, at) => {
        if (op === TRANSMIT && words[at + 3]! > 80) left = one.card.nvdimm.durable.slice()
      },
    })
    const frames = persistFrames(one.qp, one.region, 0, dataOf(CAPACITY_BYTES, 200), { wait: 1 })
    expect(persistAcks(one.card.serve(...frames))[0]!.status).toBe(0)
    for (const badLines of [[], [LANES_AT / 64]]) {
      expect(read(rebooted(left!, badLines), 0)).toBe(hexOf(dataOf(CAPACITY_BYTES, 200)))
    }
  })
})

describe('what is settled at once', () => {
  test('P1-11: a phase word that the medium refuses: its record is durable all the same', () => {
    for (const level of [1, 2]) {
      const one = setting(2, 1)
      const hit: Hit = { place: 'the phase word', copies: 2, level, group: 1, bad: 0, slotLine: 0 }
      expect(persistAcks(commitWith(one, hit))).toMatchObject([{ status: 0, records: 1 }])
      expect(read(one.card, 0)).toBe(hexOf(newer(0)))
    }
  })

  test('P1-11: a record that goes back is read from either copy, also where one is lost', () => {
    for (const lost of [0, 1]) {
      const { card, region, qp } = setting(2, 1)
      const line = slotOffset(region, 0, 0) / 64
      card.nvdimm.refuseWrites(line)
      atFence(card.machine, 2, () => {
        // The group goes on without it, and the medium takes stores again before it is repaired.
        card.nvdimm.refuseWrites(line, false)
      })
      const sent = card.serve(...persistFrames(qp, region, 0, newer(0)))
      expect(persistAcks(sent).map(({ status }) => status)).toEqual([MEDIA])
      card.nvdimm.poison(slotOffset(region, lost, 0) / 64)
      expect(read(card, 0)).toBe(hexOf(older(0)))
      // It is not known as durable: asked for again, it is executed.
      const again = { operation: qp.operation, repetition: true }
      const [receipt] = persistAcks(card.serve(...persistFrames(qp, region, 0, newer(0), again)))
      expect(receipt!.status).toBe(0)
      expect(read(card, 0)).toBe(hexOf(newer(0)))
    }
  })

  test('P1-11: two records whose first copies are refused, one behind the other, go back', () => {
    const { card, region, qp } = setting(2, 3)
    for (const slot of [0, 1]) card.nvdimm.refuseWrites(slotOffset(region, 0, slot) / 64)
    const frames = [0, 1, 2].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
    const { psn } = qp
    const said = persistAcks(card.serve(...frames))
    expect(said.map((one) => [psn - one.firstPsn, one.status, one.copies])).toEqual([
      [1, 0, 2],
      [3, MEDIA, 0],
      [2, MEDIA, 0],
    ])
    expect([0, 1, 2].map((slot) => read(card, slot))).toEqual(
      [older(0), older(1), newer(2)].map(hexOf),
    )
  })

  test('D-13: where a repair closes the part, what was durable is read from its first copy', () => {
    const { card, region, qp } = setting(2, 3)
    const lines = [0, 1].map((slot) => slotOffset(region, 0, slot) / 64)
    for (const line of lines) card.nvdimm.refuseWrites(line)
    let fences = 0
    card.machine.observe({
      onCommand: (_, op) => {
        if (op !== FENCE) return
        fences += 1
        // The medium takes stores again before the repair, whose first fence then fails.
        if (fences === 4) for (const line of lines) card.nvdimm.refuseWrites(line, false)
        if (fences === 5) card.nvdimm.fencesToFail = 1
      },
    })
    const frames = [0, 1, 2].flatMap((slot) => persistFrames(qp, region, slot, newer(slot)))
    const said = persistAcks(card.serve(...frames))
    expect(said.map(({ status }) => status)).toEqual([0, IN_DOUBT, MEDIA])
    card.nvdimm.poison(slotOffset(region, 1, 2) / 64)
    expect(read(card, 2)).toBe(hexOf(newer(2)))
  })

  test('D-13: what was acknowledged in one group is nothing to the record of the next', () => {
    const { card, region, qp } = setting(2, 2)
    const line = slotOffset(region, 1, 0) / 64
    card.nvdimm.refuseWrites(line)
    atFence(card.machine, 4, () => {
      // Behind the acknowledgement of level 1, and before the repair.
      card.nvdimm.refuseWrites(line, false)
    })
    const statusesOf = (...frames: Uint8Array[]): number[] => {
      return persistAcks(card.serve(...frames)).map(({ status }) => status)
    }
    expect(statusesOf(...persistFrames(qp, region, 0, newer(0), { wait: 1 }))).toEqual([0])
    // The next group closes the part between its first copy and the phase.
    failFence(card, 2)
    expect(statusesOf(...persistFrames(qp, region, 1, newer(1), { wait: 1 }))).toEqual([IN_DOUBT])
    const again = { operation: qp.operation, repetition: true }
    expect(statusesOf(...persistFrames(card.connect(), region, 1, newer(1), again))).toEqual([
      IN_DOUBT,
    ])
  })

  test('H7, P1-26: a scan of records that are whole stores nothing, and has nothing to say', () => {
    const { card, region } = setting(3, 2)
    let stores = 0
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        const isStore = op === COPY_CLEAN || op === FLUSH
        if (isStore && words[at + TO]! >= NVDIMM_SPACE + DATA_AT) stores += 1
      },
    })
    card.scan(region.id)
    expect(stores).toBe(0)
    expect(recoveryReport(card)).toEqual([])
  })
})

describe('any mix of records on a medium with bad lines', () => {
  const record = fc.record({
    pair: fc.nat({ max: 3 }),
    slot: fc.nat({ max: 7 }),
    wait: fc.integer({ min: 1, max: 2 }),
    length: fc.constantFrom(0, 1, 64, CAPACITY_BYTES),
  })
  const line = fc.oneof(
    fc.record({ lane: fc.nat({ max: 5 }) }),
    fc.record({ copy: fc.nat({ max: 2 }), slot: fc.nat({ max: 7 }), line: fc.nat({ max: 2 }) }),
  )
  const bursts = fc.array(
    fc.record({
      records: fc.array(record, { minLength: 1, maxLength: 32, size: 'max' }),
      bad: fc.array(line, { maxLength: 3 }),
      idle: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  )

  test(`P1-11, X-1: each is answered once, and found if confirmed (seed ${SEED})`, THOROUGH, () => {
    fc.assert(
      fc.property(fc.constantFrom(2, 3), bursts, (copies, parts) => {
        const one = setting(copies)
        const pairs = Array.from({ length: 4 }, () => one.card.connect())
        /** What each record may hold: all that came since the last one that was confirmed. */
        const may = Array.from({ length: 8 }, (_, slot) => [hexOf(older(slot))])
        let seed = 1000
        for (const { records, bad, idle } of parts) {
          for (const what of bad) {
            const at =
              'lane' in what
                ? LANES_AT / 64 + what.lane
                : slotOffset(one.region, what.copy % copies, what.slot) / 64 + what.line
            one.card.nvdimm.refuseWrites(at)
          }
          const asked = records.map(({ pair, slot, wait, length }) => {
            const qp = pairs[pair]!
            const { psn } = qp
            seed += 1
            const data = dataOf(length, seed)
            const [frame] = persistFrames(qp, one.region, slot, data, { wait })
            const padded = new Uint8Array(CAPACITY_BYTES)
            padded.set(data)
            return { frame: frame!, peer: qp.peer, psn, slot, wait, holds: hexOf(padded) }
          })
          const sent = one.card.serve(...asked.map(({ frame }) => frame))
          for (const { peer, psn, slot, wait, holds } of asked) {
            const receipts = sent.filter(
              (frame) =>
                frame.paeth !== null &&
                frame.packet.destQp === peer &&
                ((psn - frame.paeth.firstPsn) & 0xffffff) <=
                  ((frame.paeth.lastPsn - frame.paeth.firstPsn) & 0xffffff),
            )
            const own = receipts.filter(
              ({ paeth }) => paeth!.status !== 0 || paeth!.copies === wait,
            )
            expect(own.length, 'receipts for a record').toBe(1)
            if (own[0]!.paeth!.status === 0) may[slot] = [holds]
            else may[slot]!.push(holds)
          }
          if (idle) one.card.idle()
        }
        const seen = may.map((_, slot) => read(one.card, slot))
        seen.forEach((data, slot) => {
          expect(may[slot], `record ${slot}`).toContain(data)
        })
        for (const content of [one.card.nvdimm.durable, one.card.nvdimm.live]) {
          const again = rebooted(content.slice())
          seen.forEach((_, slot) => {
            expect(may[slot], `record ${slot} after a reboot`).toContain(read(again, slot))
          })
        }
      }),
      { seed: SEED, numRuns: 250 },
    )
  })
})

describe('a line that cannot be read', () => {
  test('X-1: a record written over a media error is readable in every copy confirmed', () => {
    for (const copy of [0, 1]) {
      for (const slotLine of [0, 1, 2]) {
        const one = setting(2)
        one.card.nvdimm.poison(slotOffset(one.region, copy, 1) / 64 + slotLine)
        const [receipt] = persistAcks(
          one.card.serve(...persistFrames(one.qp, one.region, 1, newer(1))),
        )
        expect(receipt).toMatchObject({ status: 0, copies: 2 })
        for (const view of [2, 3]) {
          const image = one.card.read(one.qp, one.region, 1, view, 192)!
          expect(hexOf(image.slice(64, 64 + CAPACITY_BYTES)), `copy ${view - 2}`).toBe(
            hexOf(newer(1)),
          )
        }
      }
    }
  })

  test('H7: the scrub repairs a copy with a media error from the other, unasked', () => {
    for (const copy of [0, 1]) {
      const one = setting(2)
      const line = slotOffset(one.region, copy, 5) / 64
      one.card.nvdimm.poison(line)
      for (let i = 0; i < 40; i++) one.card.idle()
      expect(one.card.nvdimm.isPoisoned(line)).toBe(false)
      expect(read(one.card, 5)).toBe(hexOf(older(5)))
    }
  })

  test('H7, D-14: the scrub finds a lost record, names it, and the region refuses writes', () => {
    const one = setting(2)
    for (const copy of [0, 1]) one.card.nvdimm.poison(slotOffset(one.region, copy, 5) / 64)
    for (let i = 0; i < 40; i++) one.card.idle()
    expect(one.card.open().unsettled).toBe(1)
    const frames = persistFrames(one.qp, one.region, 1, newer(1))
    expect(persistAcks(one.card.serve(...frames))[0]!.status).toBe(READ_ONLY)
    expect(read(one.card, 1)).toBe(hexOf(older(1)))
    expect(read(one.card, 5)).toBe(null)
  })
})

describe('plain WRITE', () => {
  test('what the medium does not take ends its connection with NAK 0x63, and no other', () => {
    const one = setting(2)
    const bytes = one.card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    const [good, bad] = [one.card.connect(), one.card.connect()]
    one.card.nvdimm.refuseWrites((slotOffset(one.region, 2, 0) + 640) / 64)
    const bases = [good.psn, bad.psn, one.qp.psn]
    const sent = one.card.serve(
      ...writeFrames(good, bytes, 0, dataOf(64, 1)),
      ...writeFrames(bad, bytes, 600, dataOf(64, 2)),
      ...persistFrames(one.qp, one.region, 1, newer(1)),
      ...writeFrames(good, bytes, 128, dataOf(64, 3)),
    )
    const said = [good, bad, one.qp].map((qp, i) =>
      lines(
        sent.filter((frame) => frame.packet.destQp === qp.peer),
        bases[i]!,
      ),
    )
    expect(said).toEqual([
      ['ACK 1'],
      ['NAK 0x63 0'],
      ['ACK 0', 'PERSIST_ACK 0: 0-0 durable 2 records 1'],
    ])
    expect(one.card.serve(readFrame(bad, bytes, 0, 0, 8))).toEqual([])
    expect(one.card.counter('UNREADABLE')).toBe(1)
  })
})

test('D-4: a lane that could not be cleared brings no older record back for a newer one', () => {
  const { card, region, qp } = setting(2)
  // The lane of the last group says B, for record 0, and takes nothing any more.
  card.serve(...persistFrames(qp, region, 0, newer(0), { wait: 1 }))
  card.nvdimm.refuseWrites(LANES_AT / 64)
  card.idle()
  card.serve(...persistFrames(qp, region, 1, newer(1), { wait: 1 }))
  atFence(card.machine, 3, () => {
    // Behind the acknowledgement of level 1, before the second copy.
    card.machine.armCut(2)
  })
  const latest = dataOf(CAPACITY_BYTES, 300)
  const sent = card.serve(...persistFrames(qp, region, 0, latest, { wait: 1 }))
  expect(persistAcks(sent).map(({ status }) => status)).toEqual([0])
  cut(card.nvdimm, { random: new Random(SEED), strategy: 'none' })
  card.nvdimm.poison(slotOffset(region, 0, 0) / 64 + 1)
  const next = new TestCard(card.nvdimm)
  expect(read(next, 0)).toBeNull()
  expect(next.open().unsettled).toBe(1)
})

test('D-13: a repetition that comes in the burst that closes the part is refused, too', () => {
  const { card, region, qp } = setting(2)
  const other = card.connect()
  const operation = qp.operation + 1
  card.nvdimm.fencesToFail = 1
  // The second one has the first one committed, to see what becomes of it.
  const sent = card.serve(
    ...persistFrames(qp, region, 0, newer(0), { operation }),
    ...persistFrames(other, region, 0, newer(0), { operation }),
  )
  expect(persistAcks(sent).map(({ status }) => status)).toEqual([0x8e, 0x8e])
})
