/** A short cut of the evidence: the branches of the kernel, in Node and in QuickJS (C9). */

import { describe, expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { Decisions } from '../coverage/decisions.ts'
import { LOADED, needed, type Taken } from '../coverage/guest/parts-plan.ts'
import { cover } from '../coverage/run.ts'
import { COVERAGE, decidedTally } from '../coverage/stage.ts'
import { LEFT_OUT } from '../coverage/tests.ts'
import { missed, playAll } from '../stage.ts'

test(
  'C9: every branch of the kernel is taken, and QuickJS does what Node does',
  THOROUGH,
  async () => {
    const tally = await playAll(COVERAGE, 'cut', 1)
    expect(tally.described).toEqual([])
    expect(COVERAGE.lacks!(tally, 'cut')).toEqual([])
    expect(missed(COVERAGE, tally, 'cut')).toEqual([])
    expect(tally.distinct).toBe(tally.count)
  },
)

test(
  'tests that are left out are played, each once, where a branch is missing',
  THOROUGH,
  async () => {
    const files = ['test/firmware/residency/residency-blocks.test.ts']
    const { names, passed, failed } = await cover(files, () => {}, {
      parts: [],
      wanted: () => true,
    })
    const left = names.filter((name) => LEFT_OUT.some((part) => new RegExp(part).test(name)))
    expect(failed).toEqual([])
    expect(left.length).toBeGreaterThan(0)
    expect(left.length).toBeLessThan(names.length)
    expect(passed).toBe(names.length)
  },
)

describe('tests of parts for QuickJS', () => {
  const wanted = Uint8Array.of(1, 1, 1, 0)
  const placesOf = (...tests: readonly (readonly [number, number[]])[]): number[] => {
    const taken = tests.map(([cost, branches], i): Taken => ({ place: i + LOADED, cost, branches }))
    return needed(taken, wanted)
  }

  test('what takes nothing that is wanted does not play', () => {
    expect(placesOf([1, []], [1, [3]], [5, [0, 3]])).toEqual([1])
  })

  test('of two that take the same the cheaper one plays', () => {
    expect(placesOf([0, []], [9, [0, 1]], [2, [0, 1]], [9, [2]])).toEqual([1, 2])
  })

  test('a dear one that takes all is worth several, and then they do not play', () => {
    expect(placesOf([0, []], [1, [0]], [2, [1]], [9, [0, 1, 2]])).toEqual([2])
    expect(placesOf([1, [0]], [2, [1]], [9, [2]])).toEqual([LOADED, 0, 1])
  })
})

test('R1-E8: a condition is shown when it decided alone, by being true and by being false', () => {
  const decisions = new Decisions()
  const text = 'const judge = (a, b, c) => a && (b || !c)'
  const marked = decisions.marked('judge.ts', text)
  Object.assign(globalThis, decisions.marks())
  const judge = new Function(`${marked}; return judge`)() as (...of: boolean[]) => boolean
  const lacks = (): string[] =>
    decisions.shown(0).flatMap(({ f, t }, i) => {
      return [...(f ? [] : [`${'abc'[i]} false`]), ...(t ? [] : [`${'abc'[i]} true`])]
    })
  expect(judge(true, true, true)).toBe(true)
  expect(lacks()).toEqual(['a false', 'b false', 'c false', 'c true'])
  expect(judge(true, false, true)).toBe(false)
  // With b false, c decides by being true; with c true, b by being false.
  expect(lacks()).toEqual(['a false', 'c false'])
  expect(judge(true, false, false)).toBe(true)
  expect(lacks()).toEqual(['a false'])
  expect(judge(false, true, false)).toBe(false)
  expect(lacks()).toEqual([])
})

test('C9: a condition that nobody shows is a violation, as is an argument about nothing', () => {
  const shard = { name: 'decisions', seed: 0, seconds: 1, options: {} }
  const counts = { decisions: 1, conditions: 2, shown: 2, argued: 0 }
  const none = { missing: [], stale: [], failed: [] }
  expect(decidedTally(shard, { ...counts, ...none }).violations).toBe(0)
  for (const one of ['missing', 'stale', 'failed']) {
    const tally = decidedTally(shard, { ...counts, ...none, [one]: ['a decides by being true'] })
    expect(tally.violations).toBe(1)
    expect(tally.described[0]!.what).toContain('a decides by being true')
  }
})
