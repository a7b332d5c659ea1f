/**
 * What the card draws tells nothing of what else it draws. The attacker owns a region, is told its
 * keys, and turns the generator back and on from there.
 *
 * What is drawn may hit a guess by chance. The attacker guesses so little here that chance does it
 * once in 10^5 runs; what is computed hits always.
 */

import { describe, expect, test } from 'vitest'
import { type Arena, NOTES, onEveryBoard, someone } from '../../support/attacks/arena.ts'
import type { Station } from '../../support/attacks/station.ts'
import { believed, Xorshift } from '../../support/attacks/xorshift.ts'
import { regionOf, type TestRegion } from '../../support/wire/conversation.ts'

/** How far the attacker goes on, and back. */
const ON = 8
const BACK = 32

/** R_Keys have the region's place in their low bits, and what was drawn above. */
const PLACE_BITS = 5

/** Queue pairs that are opened in a row. */
const ROW = 16

let made = 0

/** A region of the attacker's, and what it is told of it. */
async function ownRegion(eve: Station): Promise<TestRegion> {
  const name = `of eve ${++made}`
  const { fault, body } = await eve.provision({ name, slots: 1, capacity: 64, copies: 2 })
  expect(fault).toBe('PASS')
  return regionOf(body)
}

/** Each 32-bit number that the key lets one expect next. */
function expectedOf(key: Uint8Array): number[] {
  return believed(key).flatMap((generator) => Array.from({ length: ON }, () => generator.next()))
}

/** Those that it lets one believe were drawn before. */
function rememberedOf(key: Uint8Array): number[] {
  return believed(key).flatMap((generator) => Array.from({ length: BACK }, () => generator.back()))
}

test('the attacker turns an xorshift128 back and on', () => {
  // Seeds and outputs of the paper's own xor128(), as its readers have run it.
  const seeds = [88675123, 521288629, 362436069, 123456789]
  const drawn = [3701687786, 458299110, 2500872618, 3633119408, 516391518]
  const generator = new Xorshift(seeds)
  expect(drawn.map(() => generator.next())).toEqual(drawn)
  expect(drawn.map(() => generator.back())).toEqual(drawn.toReversed())
  expect(drawn.map(() => generator.next())).toEqual(drawn)
})

onEveryBoard((arena) => {
  describe('predictions', () => describePredictions(arena))
})

function describePredictions(arena: () => Arena): void {
  test('R1-S2: from a check-code key nobody computes the PSN of the next connection', async () => {
    const eve = await arena().station()
    await eve.connect()
    const { key } = await ownRegion(eve)
    const expected = expectedOf(key)
    const victim = await arena().station()
    const { psn } = await victim.connect()
    expect(expected.filter((word) => (word & 0xffffff) === psn)).toEqual([])
    expect(expected.filter((word) => word >>> 8 === psn)).toEqual([])
  })

  test('R1-S2: nor the R_Key of any region, of the same start or another', async () => {
    const eve = await arena().station()
    await eve.connect()
    const own = await ownRegion(eve)
    const other = await ownRegion(eve)
    const notes = await eve.region(NOTES.name)
    const expected = [...expectedOf(own.key), ...rememberedOf(own.key)]
    for (const { rkey } of [own, other, notes]) {
      const above = rkey >>> PLACE_BITS
      expect(expected.filter((word) => (word << PLACE_BITS) >>> PLACE_BITS === above)).toEqual([])
      expect(expected.filter((word) => word >>> PLACE_BITS === above)).toEqual([])
    }
  })

  test('R1-S2: numbers of queue pairs in a row do not follow one another', async () => {
    const eve = await arena().station()
    const numbers: number[] = []
    for (let i = 0; i < ROW; i++) {
      const qp = await eve.connect()
      numbers.push(qp.number)
      await eve.disconnect(qp)
    }
    const steps = numbers.slice(1).map((number, i) => number - numbers[i]!)
    // Chance makes three pairs of them follow one another once in 10^10 rows.
    expect(steps.filter((step) => Math.abs(step) === 1).length).toBeLessThan(3)
    expect(new Set(steps).size).toBeGreaterThan(ROW / 2)
    expect(new Set(numbers.map((number) => number >> 8)).size).toBeGreaterThan(ROW / 2)
  })

  test('R1-S2: what is open tells nothing of the number that comes next', async () => {
    const eve = await arena().station()
    const numbers: number[] = []
    for (let i = 0; i < ROW; i++) numbers.push((await eve.connect({}, someone())).number)
    const steps = numbers.slice(1).map((number, i) => number - numbers[i]!)
    expect(steps.filter((step) => Math.abs(step) === 1).length).toBeLessThan(3)
    expect(new Set(steps).size).toBeGreaterThan(ROW / 2)
  })

  test('R1-S2: a start draws other PSNs and R_Keys than the one before', async () => {
    const drawn: { psn: number; rkey: number }[] = []
    for (let start = 0; start < 2; start++) {
      const { qp, notes } = await arena().client()
      drawn.push({ psn: qp.psn, rkey: notes.rkey })
      arena().close()
      await arena().rig.restart('kill')
    }
    const [one, other] = drawn
    expect(other!.rkey).not.toBe(one!.rkey)
    expect(other!.psn).not.toBe(one!.psn)
  })
}
