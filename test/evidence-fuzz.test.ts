/** The short cut of the fuzzing: no objection, what has to be met is met; and the judges notice. */

import { expect, test } from 'vitest'
import { fuzzOnce } from './evidence/fuzz/play.ts'
import { scriptOf, scriptText, shrunk } from './evidence/fuzz/script.ts'
import { FUZZ } from './evidence/fuzz/stage.ts'
import { missed, playAll } from './evidence/stage.ts'

test('C5: inputs that nobody should send: nothing escapes, every reason to refuse is met', async () => {
  const total = await playAll(FUZZ, 'cut', 20_266)
  expect(total.described).toEqual([])
  expect(total.violations).toBe(0)
  expect(missed(FUZZ, total, 'cut')).toEqual([])
  expect(FUZZ.lacks!(total, 'cut')).toEqual([])
})

test('the same seed plays the same inputs', () => {
  expect(fuzzOnce('packets', 7, 5000)).toEqual(fuzzOnce('packets', 7, 5000))
})

test('a script is the same after it was written down', () => {
  const steps = scriptOf(scriptText([]))
  expect(steps).toEqual([])
  const bytes = Uint8Array.of(1, 2, 255)
  const all = scriptOf(scriptText([{ kind: 'frame', bytes }, { kind: 'serve' }]))
  expect(all).toEqual([{ kind: 'frame', bytes }, { kind: 'serve' }])
})

test('what fails is made as short as it gets', () => {
  const all = Array.from({ length: 1000 }, (_, i) => i)
  const fails = (some: readonly number[]): boolean => some.includes(17) && some.includes(801)
  expect(shrunk(all, fails)).toEqual([17, 801])
})
