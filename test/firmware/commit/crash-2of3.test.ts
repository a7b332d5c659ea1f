/** Every crash of a 64-byte record at level 2of3. */

import { expect, test } from 'vitest'
import { testCrashesOf } from '../../support/crash/crashes.ts'
import { explore, type Level, overSimilar, summary } from '../../support/crash/explorer.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const LEVEL: Level = { wait: 2, copies: 3 }

testCrashesOf({
  level: LEVEL,
  cases: [
    ['lane 0 A, record 0 old/old/old', 'before A'],
    ['lane 0 A, record 0 torn/old/old', 'A torn'],
    ['lane 0 A, record 0 new/old/old', 'A whole, unmarked'],
    ['lane 0 B, record 0 new/old/old', 'between'],
    ['lane 0 B, record 0 new/torn/old', 'between'],
    ['lane 0 B, record 0 new/new/old', 'after B'],
    ['lane 0 B, record 0 new/new/torn', 'after B'],
    ['lane 0 B, record 0 new/new/new', 'after B'],
  ],
  nested: overSimilar(LEVEL),
})

test(
  'D-4: 2of3 loses nothing to a cut and a media error in any copy at the same instant',
  THOROUGH,
  () => {
    const found = explore({ ...overSimilar(LEVEL), mediaErrors: [{ lines: 'copies' }] })
    console.log(summary(found))
    expect(found.witnesses).toEqual([])
    expect(found.withMediaError).toBeGreaterThan(4000)
  },
)
