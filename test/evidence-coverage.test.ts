/** A short cut of the evidence: the branches of the kernel, in Node and in QuickJS (C9). */

import { expect, test } from 'vitest'
import { COVERAGE } from './evidence/coverage/stage.ts'
import { missed, playAll } from './evidence/stage.ts'

test('C9: every branch of the kernel is taken, and QuickJS does what Node does', async () => {
  const tally = await playAll(COVERAGE, 'cut', 1)
  expect(tally.described).toEqual([])
  expect(COVERAGE.lacks!(tally, 'cut')).toEqual([])
  expect(missed(COVERAGE, tally, 'cut')).toEqual([])
  expect(tally.distinct).toBe(tally.count)
})
