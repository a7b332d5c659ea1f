/** The short cut of C10: recovery is bounded. And that the judge notices where it is not. */

import { expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { BOUND, type Life, lifeOf, measure, objection, PART_SIZES } from '../bound/stage.ts'
import { missed, playAll } from '../stage.ts'

const SEED = 20261121

test(
  'a start reads as many lines of 1 TiB as of 1 MiB, with the same in flight',
  THOROUGH,
  async () => {
    const total = await playAll(BOUND, 'cut', SEED)
    expect(total.described).toEqual([])
    expect(total.violations).toBe(0)
    expect(missed(BOUND, total, 'cut')).toEqual([])
    expect(BOUND.lacks!(total, 'cut')).toEqual([])
  },
)

const LIFE: Life = lifeOf('2of2 64 4 2 half 7')

test('a start that scans is noticed: what it reads is not for what was in flight', () => {
  const scanned = PART_SIZES.map((partBytes) => measure(partBytes, { ...LIFE, scanned: true }))
  expect(objection(LIFE, scanned)).toMatch(/1 MiB: \d+ lines for 4 lanes/)
})

test('a figure that grows with the part is noticed, and one that is not what was counted', () => {
  const all = PART_SIZES.map((partBytes) => measure(partBytes, LIFE))
  const [small, middle, large] = all
  expect(objection(LIFE, all)).toBeNull()
  const more = { ...large!, reads: large!.reads + 1 }
  expect(objection(LIFE, [small!, middle!, more])).toMatch(/reads: \d+ with 1 MiB, \d+ with 1 TiB/)
  const less = { ...large!, said: large!.said - 1 }
  expect(objection(LIFE, [small!, middle!, less])).toMatch(/1 TiB: \d+ lines, and it says \d+/)
})

test('a life is played again from its line', async () => {
  const { violated, text } = await BOUND.replay('2of3 4096 32 0 half 5')
  expect(violated).toBe(false)
  expect(text).toMatch(/1 TiB: \d+ lanes name a record, \d+ are torn/)
})
