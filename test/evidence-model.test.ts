/** C2 in short: small walks of the model, every rule left out, and the firmware beside it. */

import { expect, test } from 'vitest'
import { MODEL } from './evidence/model/stage.ts'
import { missed, playAll } from './evidence/stage.ts'

const SEED = 2

test('X-1, X-2, X-5: every state that two writes reach is right, and no rule can go', async () => {
  const total = await playAll(MODEL, 'cut', SEED)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(MODEL, total, 'cut')).toEqual([])
  expect(MODEL.lacks!(total, 'cut')).toEqual([])
}, 120_000)

test('a rule that is left out is told as the shortest schedule to what goes wrong', async () => {
  const { violated, text } = await MODEL.replay('mutant F2')
  expect(violated).toBe(true)
  expect(text).toContain('the lane of v1 says B')
  expect(text).toMatch(/record 0 is lost, and no medium failed\n\d+ states, 1 violations$/)
})
