/** What the bench of memory status counts: all of it in virtual time, so all of it is asserted. */

import { expect, test } from 'vitest'
import { wellFormed } from '../support/bench/well-formed.ts'
import {
  accessesOf,
  type LoadCost,
  MODES,
  type Mode,
  PATTERNS,
  type Pattern,
  runLoad,
} from '../support/residency/paged-load.ts'
import { floorsOf, percentile, type StatusCost, statusCosts, svgOf } from './bench-status.ts'

const SIZE = { pages: 128, frames: 64, accesses: 200 }

function costOf<T extends LoadCost>(costs: readonly T[], pattern: Pattern, mode: Mode): T {
  return costs.find((cost) => cost.pattern === pattern && cost.mode === mode)!
}

test('P5-5, P5-6, P5-25: notices with hints cut RNRs by 90 %, and the time with them', async () => {
  const costs = await statusCosts([SIZE], PATTERNS, 1)
  expect(floorsOf(costs).map(({ ok }) => ok)).toEqual([true, true, true, true])
  for (const pattern of PATTERNS) {
    const [none, access, ahead] = MODES.map((mode) => costOf(costs, pattern, mode))
    expect(none).toMatchObject({ hints: 0, notices: 0, noticeBytesPerMb: 0, hintBytesPerMb: 0 })
    expect(none!.rnrs).toBeGreaterThanOrEqual(none!.faults)
    for (const cost of [access!, ahead!]) {
      expect(cost.latencies).toHaveLength(SIZE.accesses)
      expect(cost.hints).toBeGreaterThan(0)
      expect(cost.notices).toBeGreaterThan(0)
      expect(cost.cut).toBeGreaterThan(90)
      // Two hundredths of what is served.
      expect(cost.noticeBytesPerMb).toBeLessThan(20_000)
      expect(cost.mbPerSecond).toBeGreaterThan(none!.mbPerSecond)
      expect(percentile(cost.latencies, 0.9)).toBeLessThan(percentile(none!.latencies, 0.9))
      // Nobody waited until a hint did not count any more.
      expect(cost.latencies.at(-1)).toBeLessThan(5000)
    }
    expect(ahead!.mbPerSecond).toBeGreaterThan(access!.mbPerSecond)
  }
  // Neighbours are hinted at together.
  const sequential = costOf(costs, 'sequential', 'ahead')
  expect(sequential.hints).toBeLessThan(SIZE.accesses / 4)
})

test('the same seed gives the same figures', async () => {
  const load = { pattern: 'hot-spot', mode: 'ahead', pages: 64, frames: 32, accesses: 100 } as const
  expect(await runLoad({ ...load, seed: 7 })).toEqual(await runLoad({ ...load, seed: 7 }))
})

test('the work: round and round, anywhere, and mostly in a spot that moves', () => {
  const pagesOf = (pattern: Pattern): number[] => {
    return accessesOf(pattern, 100, 1000, 3).map(({ page }) => page)
  }
  expect(pagesOf('sequential').slice(98, 102)).toEqual([98, 99, 0, 1])
  expect(new Set(pagesOf('random')).size).toBe(100)
  const isHot = (page: number, i: number): boolean => {
    return (page - Math.floor(i / 64) + 100) % 100 < 15
  }
  const hot = pagesOf('hot-spot').filter(isHot).length
  expect(hot).toBeGreaterThan(880)
  expect(hot).toBeLessThan(950)
  expect(pagesOf('hot-spot').some((page) => page >= 50)).toBe(true)
  expect(pagesOf('random')).toEqual(pagesOf('random'))
})

test('the floors: what is missed is said, and random work has none', () => {
  const cost = { pattern: 'sequential', mode: 'access', pages: 128 } as StatusCost
  const costs = [
    { ...cost, mode: 'none', cut: 0 },
    { ...cost, cut: 90 },
    { ...cost, mode: 'ahead', cut: 89.9 },
    { ...cost, pattern: 'random', cut: 0 },
    { ...cost, pattern: 'hot-spot', cut: -1 },
  ] as const
  expect(floorsOf(costs).map(({ ok }) => ok)).toEqual([true, false, false])
})

test('the plot is well-formed, complete and names nothing outside itself', () => {
  const costs: StatusCost[] = PATTERNS.flatMap((pattern) =>
    MODES.map((mode, i) => ({
      ...{ pattern, mode, pages: 128, frames: 64, accesses: 1000, faults: 1000 },
      ...{ rnrs: 1000 >> (4 * i), hints: 0, notices: 0, noticeBytesPerMb: 0, hintBytesPerMb: 0 },
      ...{ latencies: [11, 200 / (i + 1), 1300], mbPerSecond: 1, cut: 0 },
    })),
  )
  const svg = svgOf(costs)
  expect(wellFormed(svg)).toBe('')
  expect(svg.match(/<polyline/g)).toHaveLength(PATTERNS.length * MODES.length)
  // A background, a box for each panel and for the bars, and the bars.
  expect(svg.match(/<rect/g)).toHaveLength(1 + PATTERNS.length + 1 + costs.length)
  expect(svg.match(/(href|src|url)/g)).toBe(null)
  expect(svg).not.toMatch(/NaN|undefined|Infinity/)
  for (const pattern of PATTERNS) expect(svg).toContain(pattern)
})
