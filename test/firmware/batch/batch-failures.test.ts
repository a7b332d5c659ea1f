/**
 * Batches in which something goes wrong (source 4; D-10): every length from one to eight, every
 * place of one failure and, up to four records or with `FULL=1`, of two; every condition, every
 * kind of failure.
 *
 * Invariant: what the part must say and hold is worked out by the few lines of `accepted`,
 * from the batch alone. A batch has one status for each burst, whatever fails in it; what is
 * accepted holds its new data in every copy, and what is not, and could not be, its old.
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import {
  type BatchRecord,
  type BatchSetting,
  batchFrames,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  type Status,
  sequenceOf,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { atFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  TestCard,
} from '../../support/cards/test-card.ts'
import { THOROUGH, thoroughIf } from '../../support/run/thorough.ts'
import { NAK_SEQUENCE, slotOffset } from '../../support/wire/requests.ts'

const CONDITIONS = [INDEPENDENT, IN_ORDER, EXPECT]
const NAMES: Readonly<Record<number, string>> = {
  [INDEPENDENT]: 'independent',
  [IN_ORDER]: 'in order',
  [EXPECT]: 'expect',
}

/** Two failures in long batches are drawn, unless all of them are wanted. */
const FULL = process.env.FULL === '1'
const SEED = Number(process.env.SEED ?? 20266)
const WHOLE_UP_TO = 4
const DRAWN_OF = 8

const LENGTHS = upTo(9, 1)
const CAPACITY_BYTES = 64
const SLOTS = 300

const older = (slot: number): Uint8Array => dataOf(CAPACITY_BYTES, slot)
const newer = (slot: number): Uint8Array => dataOf(CAPACITY_BYTES, 1000 + slot)

/** What is wrong with one record. */
interface Kind {
  readonly name: string
  /** What the status says of it, or PASS where the part gets over it. */
  readonly said: string
  /** Makes the record a bad one. */
  readonly spoil?: (record: BatchRecord) => BatchRecord
  /** The line of the medium that takes nothing. */
  readonly line?: (one: BatchSetting, slot: number, lane: number) => number
  /** Only behind the first fence of the group. */
  readonly late?: boolean
  /** Does the region take no more records, until the part is started again? */
  readonly degrades?: boolean
}

const laneLine = (_one: BatchSetting, _slot: number, lane: number): number => LANES_AT / 64 + lane

function copyLine(copy: number, line: number): Kind['line'] {
  return ({ region }, slot) => slotOffset(region, copy, slot) / 64 + line
}

const SLOT: Kind = {
  name: 'a slot out of range',
  said: 'SLOT',
  spoil: (record) => ({ ...record, slot: SLOTS + record.slot }),
}
const TOO_LONG: Kind = {
  name: 'a record too long',
  said: 'RECORD_LENGTH',
  spoil: (record) => ({ ...record, data: dataOf(CAPACITY_BYTES + 1, 1) }),
}
const MISMATCH: Kind = {
  name: 'another sequence than expected',
  said: 'CONDITION',
  spoil: (record) => ({ ...record, expect: record.expect! + 1n }),
}
const LANE: Kind = { name: 'the lane', said: 'MEDIA', line: laneLine }
const PHASE: Kind = { name: 'the phase word', said: 'PASS', line: laneLine, late: true }
const COPY_A: Kind = { name: 'copy A', said: 'MEDIA', line: copyLine(0, 0) }
const TORN_A: Kind = { ...COPY_A, name: 'copy A, torn', line: copyLine(0, 1), degrades: true }
/** Copy A has it: the next start may make it durable. */
const COPY_B: Kind = { ...TORN_A, name: 'copy B', said: 'IN_DOUBT', line: copyLine(1, 0) }

const REQUESTS = [SLOT, TOO_LONG]
const MEDIA = [LANE, PHASE, COPY_A]
const DEGRADING = [TORN_A, COPY_B]

/** Which record fails in which way. */
type Failures = ReadonlyMap<number, Kind>

/** What of a burst is accepted, and the name of its status: the oracle. */
function accepted(
  condition: number,
  indexes: readonly number[],
  failures: Failures,
): { durable: number[]; said: string } {
  const isBad = (index: number): boolean => (failures.get(index)?.said ?? 'PASS') !== 'PASS'
  const first = indexes.find(isBad)
  const durable = indexes.filter((index) => {
    if (condition === IN_ORDER && first !== undefined && index >= first) return false
    return !isBad(index)
  })
  if (first === undefined) return { durable, said: 'durable' }
  // In order, nothing behind the first one that failed has come as far.
  const tried = condition === IN_ORDER ? [first] : indexes
  const isOpen = tried.some((index) => failures.get(index)?.said === 'IN_DOUBT')
  return { durable, said: isOpen ? 'IN_DOUBT' : failures.get(first)!.said }
}

/** A card whose records hold older data, and the slots of it that no batch had yet. */
class Bench {
  one: BatchSetting = batchSetting({ slots: SLOTS })
  private room = SLOTS
  private free = 0
  private lanes = 0
  cards = 1

  /** Slots with older data in them; a new card where there are no more, or `fresh` is asked for. */
  slots(count: number, lanes: number, fresh: boolean): number[] {
    if (fresh || this.free + count > this.room || this.lanes + lanes > 16) {
      // A card for one batch needs no more slots than that has.
      this.room = fresh ? count : SLOTS
      this.one = batchSetting({ slots: this.room })
      this.free = 0
      this.lanes = 0
      this.cards += 1
    }
    this.lanes += lanes
    const slots = upTo(this.free + count, this.free)
    this.free += count
    const { card, qp, region } = this.one
    for (const slot of slots) card.serve(...persistFrames(qp, region, slot, older(slot)))
    card.idle()
    return slots
  }

  /** The lane that record `i` of the next group has. */
  lane(i: number): number {
    const { retiredLanes } = this.one.state.commit
    return upTo(32).filter((lane) => retiredLanes[lane] === 0)[i]!
  }
}

interface Played {
  readonly one: BatchSetting
  readonly slots: readonly number[]
  readonly records: readonly BatchRecord[]
  readonly operation: number
  readonly status: Status
  /** Takes the failures of the medium back. */
  readonly heal: () => void
}

/** One batch with these failures, in one burst. */
function play(bench: Bench, count: number, condition: number, failures: Failures): Played {
  const kinds = [...failures.values()]
  const lanes = kinds.filter(({ line }) => line === laneLine).length
  const slots = bench.slots(
    count,
    lanes,
    kinds.some(({ degrades }) => degrades === true),
  )
  const { one } = bench
  const good = slots.map((slot) => ({ slot, data: newer(slot), expect: sequenceOf(one, slot) }))
  const records = good.map((record, i) => failures.get(i)?.spoil?.(record) ?? record)
  const lines = refused(bench, condition, slots, failures)
  const operation = one.qp.operation + 1
  const frames = batchFrames(one.qp, one.region, records, { condition })
  atFence(one.card.machine, 1, () => {
    refuse(one, lines.late, true)
  })
  refuse(one, lines.early, true)
  const sent = one.card.serve(...frames)
  one.card.machine.observe({})
  const heal = (): void => refuse(one, [...lines.early, ...lines.late], false)
  return { one, slots, records: good, operation, status: only(one, sent), heal }
}

function refuse({ card }: BatchSetting, lines: readonly number[], refuses: boolean): void {
  for (const line of lines) card.nvdimm.refuseWrites(line, refuses)
}

/** The lines that refuse: of records that a request's own failure keeps out, no lane is one. */
function refused(
  bench: Bench,
  condition: number,
  slots: readonly number[],
  failures: Failures,
): { early: number[]; late: number[] } {
  const lines = { early: [] as number[], late: [] as number[] }
  const firstBad = slots.findIndex((_, i) => failures.get(i)?.spoil !== undefined)
  let joined = 0
  slots.forEach((slot, i) => {
    const kind = failures.get(i)
    const out = condition === IN_ORDER && firstBad >= 0 && i >= firstBad
    const lane = bench.lane(joined)
    if (!out && kind?.spoil === undefined) joined += 1
    if (kind?.line === undefined || (out && kind.line === laneLine)) return
    const list = kind.late === true ? lines.late : lines.early
    list.push(kind.line(bench.one, slot, lane))
  })
  return lines
}

/** The one status that was sent, with nothing held any more. */
function only(one: BatchSetting, sent: readonly Sent[]): Status {
  const said = statuses(sent)
  expect(said.length, 'statuses').toBe(1)
  expect(persistAcks(sent).length, 'acknowledgements').toBe(1)
  expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  return said[0]!
}

/** Every copy of these records, as a name: older, newer, or what else. */
function stands({ card, region }: BatchSetting, slots: readonly number[]): string[] {
  return slots.map((slot) => {
    const copies = [0, 1].map((copy) => {
      const at = slotOffset(region, copy, slot) + 64
      const data = card.nvdimm.live.subarray(at, at + CAPACITY_BYTES)
      if (Buffer.compare(data, newer(slot)) === 0) return 'newer'
      return Buffer.compare(data, older(slot)) === 0 ? 'older' : 'torn'
    })
    return copies[0] === copies[1] ? copies[0]! : copies.join()
  })
}

/** What a card that starts on this medium, when it takes stores again, reads of the records. */
function afterStart({ card }: BatchSetting, slots: readonly number[]): string[] {
  const again = new TestCard(card.nvdimm)
  const [region, qp] = [again.open(), again.connect()]
  return slots.map((slot) => {
    const data = again.read(qp, region, slot, 0, CAPACITY_BYTES)
    if (data === null) return 'lost'
    if (Buffer.compare(data, newer(slot)) === 0) return 'newer'
    return Buffer.compare(data, older(slot)) === 0 ? 'older' : 'torn'
  })
}

function nameOf(count: number, condition: number, failures: Failures): string {
  const which = [...failures].map(([i, { name }]) => `${name} at ${i}`)
  return `${count} records, ${NAMES[condition]}: ${which.join(', ')}`
}

/** Plays the batch, and sends again what was not received, when nothing is wrong any more. */
function check(bench: Bench, count: number, condition: number, failures: Failures): void {
  const name = nameOf(count, condition, failures)
  const { one, slots, records, operation, status, heal } = play(bench, count, condition, failures)
  const { durable, said } = accepted(condition, upTo(count), failures)
  expect(status, name).toMatchObject({ count, said, durable })
  const all = durable.length === count
  const firstMissing = upTo(count).find((i) => !durable.includes(i)) ?? count
  expect(status.paeth, name).toMatchObject({
    all,
    records: durable.length,
    operationLow: operation,
    batchDurable: firstMissing === 0 ? 255 : firstMissing - 1,
  })
  if (![...failures.values()].some(({ degrades }) => degrades === true)) {
    const wanted = upTo(count).map((i) => (durable.includes(i) ? 'newer' : 'older'))
    expect(stands(one, slots), name).toEqual(wanted)
    heal()
    if (!all) checkRetry(one, condition, slots, records, operation, durable, name)
    return
  }
  heal()
  const found = afterStart(one, slots)
  for (const i of durable) expect(found[i], `${name}, record ${i}`).toBe('newer')
  expect(found, name).not.toContain('torn')
  expect(found, name).not.toContain('lost')
  if (condition === IN_ORDER) expect(found.join(), name).toMatch(/^(newer,?)*(older,?)*$/)
}

/** P4-9: one burst of all that was not received, with the same id, indexes and operations. */
function checkRetry(
  one: BatchSetting,
  condition: number,
  slots: readonly number[],
  records: readonly BatchRecord[],
  operation: number,
  durable: readonly number[],
  name: string,
): void {
  const count = records.length
  const missing = upTo(count).filter((i) => !durable.includes(i))
  const again = missing.map((index) => ({ ...records[index]!, index }))
  const frames = batchFrames(one.qp, one.region, again, { condition, operation, count })
  const status = only(one, one.card.serve(...frames))
  expect(status, name).toMatchObject({ count, said: 'durable', durable: upTo(count) })
  expect(status.paeth, name).toMatchObject({ all: true, records: missing.length, copies: 2 })
  expect(stands(one, slots), name).toEqual(upTo(count).map(() => 'newer'))
}

/** The kinds that a batch of that condition can have. */
function kindsOf(condition: number): Kind[] {
  return [...REQUESTS, ...MEDIA, ...(condition === EXPECT ? [MISMATCH] : [])]
}

describe('one record fails', () => {
  for (const condition of CONDITIONS) {
    const name = NAMES[condition]
    test(
      `P4-6, P4-7, P4-9, D-10: ${name}: 1 to 8 records, every place, every kind`,
      thoroughIf(condition !== IN_ORDER),
      () => {
        const bench = new Bench()
        for (const kind of [...kindsOf(condition), ...DEGRADING]) {
          for (const count of LENGTHS) {
            for (const k of upTo(count)) check(bench, count, condition, new Map([[k, kind]]))
          }
        }
      },
    )
  }
})

describe('two records fail', () => {
  console.log(FULL ? 'all places of two failures' : `SEED=${SEED}; FULL=1 for every place`)

  for (const condition of CONDITIONS) {
    const name = NAMES[condition]
    test(
      `P4-6, P4-7, P4-9, D-10: ${name}: 2 to 8 records, two places, every two kinds`,
      THOROUGH,
      () => {
        const bench = new Bench()
        const random = new Random(SEED)
        for (const one of kindsOf(condition)) {
          for (const other of kindsOf(condition)) {
            for (const count of LENGTHS) checkTwo(bench, count, condition, one, other, random)
          }
        }
      },
    )

    test(
      `X-5, P4-7: ${name}: 2 to 4 records, one of two failures leaves a lane behind`,
      THOROUGH,
      () => {
        const bench = new Bench()
        for (const one of DEGRADING) {
          for (const other of [...MEDIA, ...DEGRADING]) {
            for (const count of upTo(5, 2)) {
              checkTwo(bench, count, condition, one, other)
              if (!DEGRADING.includes(other)) checkTwo(bench, count, condition, other, one)
            }
          }
        }
      },
    )
  }
})

/** Every two places of a short batch; of a longer one, those that are drawn. */
function checkTwo(
  bench: Bench,
  count: number,
  condition: number,
  one: Kind,
  other: Kind,
  random: Random | null = null,
): void {
  const drawn = !FULL && random !== null && count > WHOLE_UP_TO
  for (let j = 0; j < count; j++) {
    for (let k = j + 1; k < count; k++) {
      if (drawn && random.below(DRAWN_OF) > 0) continue
      check(
        bench,
        count,
        condition,
        new Map([
          [j, one],
          [k, other],
        ]),
      )
    }
  }
}

describe('P4-8: N records, an error at k', () => {
  test('P4-7, P4-8, P4-9, P4-10: k-1 accepted, N-k+1 negated, one status; then one burst', () => {
    for (const count of LENGTHS) {
      for (const k of upTo(count)) {
        const { one, slots, records, operation, status, heal } = play(
          new Bench(),
          count,
          IN_ORDER,
          new Map([[k, COPY_A]]),
        )
        expect(status.durable.length).toBe(k)
        expect(count - status.durable.length).toBe(count - k)
        heal()
        checkRetry(one, IN_ORDER, slots, records, operation, upTo(k), `${count}, ${k}`)
      }
    }
  })

  test('P4-10: what still fails is refused again, what came before it not written again', () => {
    const bench = new Bench()
    const failures = new Map([
      [2, COPY_A],
      [5, SLOT],
    ])
    const { one, slots, records, operation, status, heal } = play(bench, 8, IN_ORDER, failures)
    expect(status).toMatchObject({ said: 'MEDIA', durable: [0, 1] })
    const sequences = slots.slice(0, 2).map((slot) => sequenceOf(one, slot))
    heal()
    const again = upTo(8, 2).map((index) => ({ ...records[index]!, index }))
    again[3] = { ...SLOT.spoil!(again[3]!), index: 5 }
    const options = { condition: IN_ORDER, operation, count: 8 }
    const second = only(one, one.card.serve(...batchFrames(one.qp, one.region, again, options)))
    expect(second).toMatchObject({ said: 'SLOT', durable: upTo(5) })
    expect(stands(one, slots)).toEqual(upTo(8).map((i) => (i < 5 ? 'newer' : 'older')))
    expect(slots.slice(0, 2).map((slot) => sequenceOf(one, slot))).toEqual(sequences)
  })
})

describe('a frame is lost', () => {
  /** Serves the frames except for some, and goes back to the first of these, as requesters do. */
  function goBack(
    one: BatchSetting,
    frames: readonly Uint8Array[],
    spoil: (frame: Uint8Array) => Uint8Array | null,
    bad: readonly number[],
  ): Sent[] {
    const sent: Sent[] = []
    let from = 0
    for (const at of [...bad, frames.length]) {
      const burst = frames.slice(from).flatMap((frame, i) => {
        const spoilt = from + i === at ? spoil(frame) : frame
        return spoilt === null ? [] : [spoilt]
      })
      sent.push(...one.card.serve(...burst))
      from = at
    }
    return sent
  }

  const damaged = (frame: Uint8Array): Uint8Array => {
    const copy = frame.slice()
    copy[copy.length - 8]! ^= 1
    return copy
  }

  for (const [name, spoil] of [
    ['lost', () => null],
    ['damaged', damaged],
  ] as const) {
    test(`P4-7, P4-8: one or two of them ${name}: behind go-back-N all is accepted`, () => {
      for (const condition of CONDITIONS) {
        for (const count of LENGTHS) {
          const places = upTo(count).flatMap((j) => [[j], ...upTo(count, j + 1).map((k) => [j, k])])
          const one = batchSetting({ slots: SLOTS })
          for (const bad of places) {
            const slots = upTo(count)
            const expected = slots.map((slot) => sequenceOf(one, slot))
            const records = slots.map((slot) => ({
              slot,
              data: newer(slot),
              expect: expected[slot]!,
            }))
            const frames = batchFrames(one.qp, one.region, records, { condition })
            const sent = goBack(one, frames, spoil, bad)
            const label = `${count} records, ${NAMES[condition]}, ${name}: ${bad}`
            const [status, ...more] = statuses(sent)
            expect(more, label).toEqual([])
            expect(status, label).toMatchObject({ said: 'durable', durable: upTo(count) })
            expect(stands(one, slots), label).toEqual(slots.map(() => 'newer'))
            const naks = sent.filter(({ syndrome }) => syndrome === NAK_SEQUENCE).length
            // The last frame is missed by nobody, before something comes behind it.
            expect(naks, label).toBe(bad.filter((at) => at < count - 1).length)
          }
        }
      }
    })
  }
})
