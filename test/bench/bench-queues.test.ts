/** What the bench of the host's queues counts, and the form of its plot. Times are not asserted. */

import { describe, expect, test } from 'vitest'
import { CONTEXTS } from '../../firmware/board/limits.ts'
import { POLICIES } from '../../firmware/host/context-cache.ts'
import { wellFormed } from '../support/bench/well-formed.ts'
import {
  type CurvePoint,
  crowdCost,
  curve,
  doorbellCosts,
  PATTERNS,
  postCost,
  svgOf,
  trustCosts,
} from './bench-queues.ts'

const SECONDS = 0.01

test('P3-15: a doorbell costs one read over PCIe, by a pointer to the pointer two', async () => {
  const costs = await doorbellCosts()
  for (const doorbells of [1, 16]) {
    const [ours, conventional] = costs.filter((cost) => cost.doorbells === doorbells)
    expect(ours).toMatchObject({ scheme: 'zone 3', readsPerDoorbell: 1 })
    expect(conventional).toMatchObject({ scheme: 'pointer to pointer', readsPerDoorbell: 2 })
    expect(conventional!.nanoseconds / ours!.nanoseconds).toBeGreaterThan(1.9)
  }
})

test('S1-M8: a doorbell whose pointer is trusted costs one read less per ring', async () => {
  for (const doorbells of [1, 16]) {
    const [read, trusted] = await trustCosts('node', doorbells, SECONDS)
    expect(read).toMatchObject({ trusted: false, doorbells, ratio: 1 })
    expect(trusted).toMatchObject({ trusted: true, doorbells })
    // Once in a lap of the completion queue its zone 3 is read, and the pointer again.
    expect(read!.readsPerRing).toBeCloseTo(2, 1)
    expect(trusted!.readsPerRing).toBeCloseTo(1, 1)
    expect(trusted!.nanosecondsPerRing).toBeLessThan(0.8 * read!.nanosecondsPerRing)
  }
})

describe('a post', () => {
  test('P3-14, P3-15: of a NOP is one read of the pointer and one of the element', async () => {
    const cost = await postCost('node', 'NOP', 1, SECONDS)
    // Once in a lap of the completion queue the card looks what the host has taken of it.
    expect(cost.dmaReadsPerPost).toBeCloseTo(2, 1)
    expect(cost.fencesPerPost).toBe(0)
  })

  test('P3-3: of a record inline needs no read more, one by address one more', async () => {
    const inline = await postCost('node', 'record, 64 inline', 1, SECONDS)
    expect(inline.dmaReadsPerPost).toBeCloseTo(2, 1)
    const byAddress = await postCost('node', 'record, 4096 by address', 1, SECONDS)
    expect(byAddress.dmaReadsPerPost).toBeCloseTo(3, 1)
  })

  test('of a durable record is four fences alone, and a share of four in a burst', async () => {
    const alone = await postCost('node', 'record, 64 inline', 1, SECONDS)
    expect(alone.fencesPerPost).toBe(4)
    const burst = await postCost('node', 'record, 64 inline', 32, SECONDS)
    expect(burst.fencesPerPost).toBeLessThan(4 / 12)
    expect(burst.dmaReadsPerPost).toBeLessThan(0.5)
  })
})

test('P3-17, P3-18: contexts that fit are found; of more it is up to the policy', async () => {
  const points = await curve([16, 2 * CONTEXTS], SECONDS)
  expect(points).toHaveLength(POLICIES.length * PATTERNS.length * 2)
  for (const { pattern, pairs, hitRate, dmaReadsPerPost } of points) {
    if (pairs === 16) {
      expect(hitRate).toBe(1)
      expect(dmaReadsPerPost).toBeLessThanOrEqual(2)
    } else {
      expect(hitRate).toBeLessThan(0.95)
      // By Zipf's law some posts share a doorbell, and its reads.
      if (pattern === 'uniform') expect(dmaReadsPerPost).toBeGreaterThan(2)
    }
  }
})

test('queue pairs that rest cost those that work nothing but memory of the host', async () => {
  const { pairs, active, ratio } = await crowdCost(200, 10, SECONDS)
  expect({ pairs, active }).toEqual({ pairs: 200, active: 10 })
  expect(ratio).toBeGreaterThan(0)
})

test('the plot is well-formed, complete and names nothing outside itself', () => {
  const points: CurvePoint[] = POLICIES.flatMap((policy) =>
    PATTERNS.flatMap((pattern) =>
      [1, 100, 10_000].map((pairs) => ({
        policy,
        pattern,
        pairs,
        postsPerSecond: 123_456,
        hitRate: 1 / pairs,
        dmaReadsPerPost: 2,
      })),
    ),
  )
  const svg = svgOf(points)
  expect(wellFormed(svg)).toBe('')
  expect(svg.match(/<polyline/g)).toHaveLength(2 * POLICIES.length * PATTERNS.length)
  expect(svg.match(/<circle/g)).toHaveLength(2 * points.length)
  expect(svg.match(/(href|src|url)/g)).toBe(null)
  expect(svg).not.toMatch(/NaN|undefined|Infinity/)
  for (const policy of POLICIES) expect(svg).toContain(policy)
})
