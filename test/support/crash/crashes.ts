/**
 * What every level must show at every crash of a 64-byte record: each point, each subset of the
 * pending chunks, each recovery (crash-model 2.2, 2.3, 3.1). One test file for each level plays it,
 * so that both cores work.
 *
 * Invariants are in explorer.ts and oracle.ts: what is judged, and by whom. Here is only what
 * is played, and how much of it there must have been.
 */

import { expect, test } from 'vitest'
import { DECIDED } from '../judges/case-table.ts'
import { THOROUGH, thoroughIf } from '../run/thorough.ts'
import {
  explore,
  type Findings,
  type Level,
  overAnother,
  overBlank,
  overOwn,
  overSimilar,
  type Scenario,
  summary,
} from './explorer.ts'

/** What the crashes of one level must meet. */
interface LevelStory {
  readonly level: Level
  /** A state of lane and copies, and the row of the recovery table that it must lead to. */
  readonly cases: readonly (readonly [string, string])[]
  /** What the recovery is cut in. */
  readonly nested: Scenario
}

/** Images of one copy when fourteen of its sixteen chunks change. */
const EPOCH = 2 ** 14

/** Every state that was met leads to its row, and what no lane names is left alone. */
function expectRows(found: Findings, cases: LevelStory['cases']): void {
  const rows = new Map(
    [...found.classes].map(([state, { rows }]) => [
      state,
      [...rows].map((row) => DECIDED[row]?.name),
    ]),
  )
  for (const [state, row] of cases) {
    expect([state, rows.get(state)]).toEqual([state, [row]])
  }
  // A lane that was torn before F1, or while it was cleared, may name a record; nothing is wrong
  // with it. A lane that is clear names none.
  for (const [state, { rows }] of found.classes) {
    if (/lane 0 [AB]/.test(state)) continue
    for (const row of rows) expect([state, DECIDED[row]?.name ?? 'clean']).toEqual([state, 'clean'])
  }
}

/** Declares the tests that every level passes. */
export function testCrashesOf({ level, cases, nested }: LevelStory): void {
  const name = `${level.wait}of${level.copies}`

  test(
    `X-2, P1-23: ${name} over another: old or new at every crash, new once acknowledged`,
    THOROUGH,
    () => {
      const found = explore(overAnother(level))
      console.log(summary(found))
      expect(found.witnesses).toEqual([])
      expect(found.images).toBeGreaterThan(level.copies * EPOCH)
      expect(found.subsets).toBeGreaterThan(level.copies * 2 ** 16)
    },
  )

  test(
    `X-2, P1-23: ${name} over a blank record: wholly blank or wholly new at every crash`,
    THOROUGH,
    () => {
      const found = explore(overBlank(level))
      console.log(summary(found))
      expect(found.witnesses).toEqual([])
      expect(found.images).toBeGreaterThan(level.copies * EPOCH)
    },
  )

  test(
    `P1-14, P1-15, P1-16, P1-17, P1-18: ${name} meets each case, and its row decides`,
    thoroughIf(name !== '2of2'),
    () => {
      const found = explore(overOwn(level))
      console.log(summary(found))
      expect(found.witnesses).toEqual([])
      expectRows(found, cases)
    },
  )

  test(
    `P1-26: ${name}: a recovery cut at every command, and cut again, decides the same`,
    THOROUGH,
    () => {
      const found = explore({ ...nested, nested: 2 })
      console.log(summary(found))
      expect(found.witnesses).toEqual([])
      expect(found.nested).toBeGreaterThan(2000)
    },
  )

  const lost = 'a lane or a superblock page lost at the same instant'
  test(`D-2: ${name} with ${lost} loses nothing`, THOROUGH, () => {
    const found = explore({ ...overSimilar(level), mediaErrors: [{ lines: 'metadata' }] })
    console.log(summary(found))
    expect(found.witnesses).toEqual([])
    expect(found.withMediaError).toBeGreaterThan(3 * 512)
  })
}
