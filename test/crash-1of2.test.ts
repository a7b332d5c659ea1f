/**
 * Every crash of a 64-byte record at level 1of2: each point, each subset of the pending chunks,
 * each recovery (crash-model 2.2, 2.3, 3.1).
 *
 * What always holds is in test/support/explorer.ts and test/support/oracle.ts: what is judged, and
 * by whom. Here is only what is played, and how much of it there must have been.
 */

import { expect, test, vi } from 'vitest'
import { CASES } from '../firmware/commit/cases.ts'
import {
  explore,
  type Level,
  overAnother,
  overBlank,
  overOwn,
  overSimilar,
  summary,
} from './support/explorer.ts'

// Tens of thousands of starts in one test: a busy machine takes its time.
vi.setConfig({ testTimeout: 300_000 })

const LEVEL: Level = { wait: 1, copies: 2 }

/** Images of one copy when fourteen of its sixteen chunks change. */
const EPOCH = 2 ** 14
const COPIES = 2

test('X-2, P1-23: 1of2 over another: old or new at every crash, new once acknowledged', () => {
  const found = explore(overAnother(LEVEL))
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  expect(found.images).toBeGreaterThan(COPIES * EPOCH)
  expect(found.subsets).toBeGreaterThan(COPIES * 2 ** 16)
})

test('X-2, P1-23: 1of2 over a blank record: wholly blank or wholly new at every crash', () => {
  const found = explore(overBlank(LEVEL))
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  expect(found.images).toBeGreaterThan(COPIES * EPOCH)
})

test('P1-14, P1-15, P1-16, P1-17, P1-18: 1of2 meets each case, and its row decides', () => {
  const found = explore(overOwn(LEVEL))
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  const rows = new Map(
    [...found.classes].map(([name, { rows }]) => [name, [...rows].map((row) => CASES[row]?.name)]),
  )
  for (const [name, row] of [
    ['lane 0 A, record 0 old/old', 'before A'],
    ['lane 0 A, record 0 torn/old', 'A torn'],
    ['lane 0 A, record 0 new/old', 'A whole, unmarked'],
    ['lane 0 B, record 0 new/old', 'between'],
    ['lane 0 B, record 0 new/torn', 'B torn'],
    ['lane 0 B, record 0 new/new', 'after B'],
  ] as const) {
    expect([name, rows.get(name)]).toEqual([name, [row]])
  }
  // A lane that was torn before F1, or while it was cleared, may name a record; nothing is wrong
  // with it. A lane that is clear names none.
  for (const [name, { rows }] of found.classes) {
    if (/lane 0 [AB]/.test(name)) continue
    for (const row of rows) expect([name, CASES[row]?.name ?? 'clean']).toEqual([name, 'clean'])
  }
})

test('P1-26: 1of2: a recovery cut at every command, and cut again, decides the same', () => {
  const found = explore({ ...overOwn(LEVEL), nested: 2 })
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  expect(found.nested).toBeGreaterThan(2000)
})

test('D-2: 1of2 with a lane or a superblock page lost at the same instant loses nothing', () => {
  const found = explore({ ...overSimilar(LEVEL), mediaErrors: [{ lines: 'metadata' }] })
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  expect(found.withMediaError).toBeGreaterThan(3 * 512)
})

test('D-4: 1of2 with a media error at the same instant: new or an explicit loss, never old', () => {
  const found = explore({
    ...overSimilar(LEVEL),
    mediaErrors: [{ lines: 'copies', mayLose: true }],
  })
  console.log(summary(found))
  expect(found.witnesses).toEqual([])
  expect(found.losses).toBeGreaterThan(500)
})
