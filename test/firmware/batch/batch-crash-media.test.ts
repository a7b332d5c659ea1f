/**
 * Batches in order on a medium that refuses a line, and cuts of what is done about it (X-5, P1-11).
 *
 * Invariant: at every command the power goes at least once; behind the next start, and
 * behind one with a medium that takes stores again, the records that are there are the first ones
 * of the batch, and all that a status called durable is there.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { CUT_STRATEGIES, cut } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { batchFrames, IN_ORDER, statuses, upTo } from '../../support/cards/batch-card.ts'
import { atFence } from '../../support/cards/fences.ts'
import { dataOf, TestCard } from '../../support/cards/test-card.ts'
import { SEED } from '../../support/crash/explorer.ts'
import { LANES_AT, LINE_BYTES, readLane } from '../../support/judges/oracle.ts'
import { thoroughIf } from '../../support/run/thorough.ts'
import { slotOffset } from '../../support/wire/requests.ts'

// Hundreds of starts in one test: a busy machine takes its time.
/** Cuts at every command in every case. */
const FULL = process.env.FULL === '1'

/** The first line of a copy of a slot, by number. */
type SlotLine = (copy: number, slot: number) => number

/** A medium that was cut before F3 of a batch of three; lane 0 says A, the lanes behind it B. */
function cutBeforeF3(): { content: Uint8Array; slotLine: SlotLine } {
  const card = new TestCard(1 << 17).format()
  const region = card.provision({ slots: 3 })
  const qp = card.connect()
  const records = (seed: number) => upTo(3).map((slot) => ({ slot, data: dataOf(64, seed + slot) }))
  card.serve(...batchFrames(qp, region, records(OLD), { condition: IN_ORDER }))
  card.idle()
  let content = new Uint8Array(0)
  const { nvdimm } = card
  atFence(card.machine, 3, () => {
    content = nvdimm.durable.slice()
    for (const lane of [1, 2]) {
      const at = LANES_AT + lane * LINE_BYTES
      content.set(nvdimm.live.subarray(at, at + 8), at)
    }
  })
  card.serve(...batchFrames(qp, region, records(NEW), { condition: IN_ORDER, id: 2 }))
  return { content, slotLine: (copy, slot) => slotOffset(region, copy, slot) / LINE_BYTES }
}

const OLD = 1
const NEW = 100

/** What the records of a card are: the old or the new ones. */
function readAll(card: TestCard): string[] {
  const [region, qp] = [card.open(), card.connect()]
  return upTo(3).map((slot) => {
    const data = card.read(qp, region, slot, 0, 64)!
    const is = (seed: number): boolean => Buffer.compare(data, dataOf(64, seed + slot)) === 0
    return is(NEW) ? 'new' : is(OLD) ? 'old' : 'torn'
  })
}

test('X-5, P1-11: a record that the medium does not let go back is not shown, nor scrubbed', () => {
  for (const slots of [[1], [2], [1, 2], [0], [0, 2]]) {
    const { content, slotLine } = cutBeforeF3()
    const nvdimm = new Nvdimm({ bytes: content.length, content })
    for (const slot of slots) nvdimm.refuseWrites(slotLine(0, slot))
    // A start in which it is refused, and two more when the medium takes stores again.
    for (const heals of [false, true, true]) {
      if (heals) for (const slot of slots) nvdimm.refuseWrites(slotLine(0, slot), false)
      const card = new TestCard(nvdimm)
      for (let look = 0; look < 2; look++) {
        // The first record of a batch must outlive none: it may be either.
        const [first, ...others] = readAll(card)
        expect(['old', slots.includes(0) ? 'new' : 'old'], `${slots}`).toContain(first)
        expect(others, `${slots}`).toEqual(['old', 'old'])
        for (let i = 0; i < 40; i++) card.idle()
      }
      expect(card.open().unsettled > 0, `${slots}`).toBe(!heals)
    }
  }
})

/** The lines of a record that refuse its store, by what they hold. */
const PLACES = {
  'its lane': (slot: number) => LANES_AT / LINE_BYTES + slot,
  'its phase word': (slot: number) => LANES_AT / LINE_BYTES + slot,
  'copy A': (slot: number, lineOf: SlotLine) => lineOf(0, slot),
  'copy A, torn': (slot: number, lineOf: SlotLine) => lineOf(0, slot) + 1,
  'copy B': (slot: number, lineOf: SlotLine) => lineOf(1, slot),
} as const

/** Serves a batch of three, one line refusing, and cuts at that command; false if there is none. */
function cutAt(place: keyof typeof PLACES, bad: number, wait: number, at: number): boolean {
  const name = `${place} of record ${bad}, wait ${wait}, cut at ${at}, SEED=${SEED}`
  const card = new TestCard(1 << 17).format()
  const { nvdimm, machine } = card
  const region = card.provision({ slots: 3 })
  const qp = card.connect()
  const lineOf: SlotLine = (copy, slot) => slotOffset(region, copy, slot) / LINE_BYTES
  const records = (seed: number) =>
    upTo(3).map((slot) => ({ slot, data: dataOf(64, seed + slot), wait }))
  card.serve(...batchFrames(qp, region, records(OLD), { condition: IN_ORDER }))
  card.idle()
  const frames = batchFrames(qp, region, records(NEW), { condition: IN_ORDER, id: 2 })
  const line = PLACES[place](bad, lineOf)
  let fences = 0
  const refuses = (): void => nvdimm.refuseWrites(line)
  if (place === 'its phase word') {
    machine.observe({ onCommand: (_, op) => void (op === FENCE && ++fences === 1 && refuses()) })
  } else refuses()
  machine.armCut(at)
  const said = statuses(card.serve(...frames))
  card.idle()
  if (!machine.dead) return false
  const random = new Random(SEED + at)
  cut(nvdimm, { random, strategy: CUT_STRATEGIES[at % CUT_STRATEGIES.length]! })
  // At every other start the line takes stores again.
  for (const heals of [at % 2 === 0, true]) {
    if (heals) nvdimm.refuseWrites(line, false)
    const found = readAll(new TestCard(nvdimm))
    expect(found.join(), name).toMatch(/^(new,?)*(old,?)*$/)
    for (const { durable } of said) {
      for (const i of durable) expect(found[i], `${name}, record ${i}`).toBe('new')
    }
  }
  return true
}

for (const place of Object.keys(PLACES) as (keyof typeof PLACES)[]) {
  test(
    `X-5, P1-11: a cut at every command while the medium refuses ${place}`,
    thoroughIf(/phase word|copy A, torn|copy B/.test(place)),
    () => {
      let cuts = 0
      for (const bad of [0, 1]) {
        for (const wait of [1, 2]) {
          // Every command of two of these four, unless all are wanted.
          const [first, step] = FULL ? [0, 1] : [(bad + wait) % 2, 2]
          for (let at = first; cutAt(place, bad, wait, at); at += step) cuts += 1
        }
      }
      expect(cuts).toBeGreaterThan(FULL ? 50 : 25)
    },
  )
}

test('X-1, X-5: a lane that could not be cleared is not taken for that of another batch', () => {
  // It says A of a record that went back; it was sent again, and what follows is acknowledged.
  const { content } = cutBeforeF3()
  const nvdimm = new Nvdimm({ bytes: content.length, content })
  nvdimm.refuseWrites(LANES_AT / LINE_BYTES)
  const card = new TestCard(nvdimm)
  const [region, qp] = [card.open(), card.connect()]
  const records = upTo(3).map((slot) => ({ slot, data: dataOf(64, NEW + slot), wait: 1 }))
  const { operation } = laneOf(content)
  let left = new Uint8Array(0)
  atFence(card.machine, 4, () => {
    // Behind F3, before F4: acknowledged, and every copy B is old.
    left = nvdimm.durable.slice()
  })
  const frames = batchFrames(qp, region, records, { condition: IN_ORDER, operation })
  expect(statuses(card.serve(...frames))).toMatchObject([{ said: 'durable', durable: upTo(3) }])
  for (const stuck of [false, true]) {
    const again = new Nvdimm({ bytes: left.length, content: left.slice() })
    if (stuck) again.refuseWrites(LANES_AT / LINE_BYTES)
    expect(readAll(new TestCard(again))).toEqual(['new', 'new', 'new'])
  }
})

/** The operation that lane 0 names. */
function laneOf(content: Uint8Array): { operation: number } {
  const lane = readLane(content.slice(LANES_AT, LANES_AT + LINE_BYTES))
  if (lane.state !== 'A') throw new Error(`lane 0 is ${lane.state}`)
  return { operation: Number(lane.operation) }
}
