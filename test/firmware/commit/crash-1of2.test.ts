/** Every crash of a 64-byte record at level 1of2. */

import { expect, test } from 'vitest'
import { testCrashesOf } from '../../support/crash/crashes.ts'
import { explore, type Level, overOwn, overSimilar, summary } from '../../support/crash/explorer.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const LEVEL: Level = { wait: 1, copies: 2 }

testCrashesOf({
  level: LEVEL,
  cases: [
    ['lane 0 A, record 0 old/old', 'before A'],
    ['lane 0 A, record 0 torn/old', 'A torn'],
    ['lane 0 A, record 0 new/old', 'A whole, unmarked'],
    ['lane 0 B, record 0 new/old', 'between'],
    ['lane 0 B, record 0 new/torn', 'B torn'],
    ['lane 0 B, record 0 new/new', 'after B'],
  ],
  nested: overOwn(LEVEL),
})

test(
  'D-4: 1of2 with a media error at the same instant: new or an explicit loss, never old',
  THOROUGH,
  () => {
    const found = explore({
      ...overSimilar(LEVEL),
      mediaErrors: [{ lines: 'copies', mayLose: true }],
    })
    console.log(summary(found))
    expect(found.witnesses).toEqual([])
    expect(found.losses).toBeGreaterThan(500)
  },
)
