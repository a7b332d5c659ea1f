/**
 * How many pages of memory on demand come and go together, and who translates them, from a remote
 * host through the card to the pager (source 5, ¶129; S1-M13).
 */

import { describe, expect, test } from 'vitest'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { BLOCK_PAGES_MAX, blockPagesOf, SERVICES } from '../../../host-driver/card/granularity.ts'
import { PagedCard } from '../../support/cards/paged-card.ts'
import { difference, OnDemandRig } from '../../support/residency/on-demand-rig.ts'

const FREE = Array.from({ length: 65 }, (_, i) => i / 64)
const RATES = [0, 1, 999, 1000, 1001, 2000, 2001, 4000, 8000, 16_000, 1e6, Number.POSITIVE_INFINITY]

describe('S1-M13: the policy', () => {
  test.each([
    [1, 0, 'latency', 4],
    [1, 0, 'balanced', 8],
    [1, 0, 'throughput', 16],
    [0.5, 1000, 'throughput', 16],
    [0.49, 0, 'throughput', 8],
    [0.25, 0, 'balanced', 4],
    [0.24, 0, 'throughput', 4],
    [0.125, 0, 'latency', 1],
    [0.12, 0, 'throughput', 1],
    [1, 1001, 'throughput', 8],
    [1, 2001, 'throughput', 4],
    [1, 8001, 'throughput', 1],
    [0.25, 2000, 'balanced', 2],
    [Number.NaN, 0, 'throughput', 1],
    [1, Number.NaN, 'throughput', 1],
  ] as const)('%d free, %d swaps, %s: %i pages', (free, swapsPerS, service, pages) => {
    expect(blockPagesOf({ free, swapsPerS }, service)).toBe(pages)
  })

  test('is a power of two within its bounds, and goes one way with each of its inputs', () => {
    for (const swapsPerS of RATES) {
      for (const [i, free] of FREE.entries()) {
        const of = SERVICES.map((service) => blockPagesOf({ free, swapsPerS }, service))
        for (const pages of of) {
          expect(pages & (pages - 1)).toBe(0)
          expect(pages).toBeGreaterThanOrEqual(1)
          expect(pages).toBeLessThanOrEqual(BLOCK_PAGES_MAX)
        }
        expect([...of].sort((a, b) => a - b)).toEqual(of)
        SERVICES.forEach((service, s) => {
          const less = blockPagesOf({ free: FREE[Math.max(0, i - 1)]!, swapsPerS }, service)
          expect(less).toBeLessThanOrEqual(of[s]!)
          const faster = blockPagesOf({ free, swapsPerS: 2 * swapsPerS + 1 }, service)
          expect(faster).toBeLessThanOrEqual(of[s]!)
        })
      }
    }
  })

  test('is one page where nothing is known, or promised', () => {
    expect(blockPagesOf(undefined, 'throughput')).toBe(1)
    expect(blockPagesOf({ free: 1, swapsPerS: 0 }, undefined)).toBe(1)
  })
})

describe('S1-M13: in the pager', () => {
  test.each([
    [undefined, 1],
    ['latency', 4],
    ['balanced', 8],
    ['throughput', 16],
  ] as const)('%s: an access brings %i pages while there is room', async (service, pages) => {
    const region = service === undefined ? {} : { service }
    const rig = await OnDemandRig.open({ pages: 64, frames: 64, region })
    await rig.memory.read(20 * PAGE_BYTES, 8)
    await rig.pass(10_000)
    const there = Array.from({ length: 64 }, (_, i) => i).filter(
      (page) => rig.pager.stateOf(page) === 'present',
    )
    const first = 20 - (20 % pages)
    expect(there).toEqual(Array.from({ length: pages }, (_, i) => first + i))
    await rig.close()
  })

  test('fewer waits the larger the block; and where no room is free, page by page', async () => {
    const waits: number[] = []
    for (const service of SERVICES) {
      const rig = await OnDemandRig.open({ pages: 64, frames: 128, region: { service } })
      const before = await rig.counters()
      for (let page = 0; page < 64; page++) await rig.memory.read(page * PAGE_BYTES, 8)
      waits.push(difference(await rig.counters(), before).rnrs)
      await rig.close()
    }
    expect(waits).toEqual([...waits].sort((a, b) => b - a))
    expect(waits[2]).toBeLessThan(waits[0]!)
    const rig = await OnDemandRig.open({ pages: 64, frames: 17, region: { service: 'throughput' } })
    for (let page = 0; page < 64; page++) await rig.memory.read(page * PAGE_BYTES, 8)
    expect(rig.pager.pressure().free).toBeLessThan(1 / 8)
    const { faults } = await rig.counters()
    await rig.memory.read(0, 8)
    await rig.pass(10_000)
    expect((await rig.counters()).faults - faults).toBe(1)
    await rig.close()
  })

  test.each([
    ['page by page', 1, false, [4]],
    ['in blocks', 4, false, [4, 5]],
    ['in blocks of which one page is used', 4, true, [4]],
  ] as const)('what is idle goes %s', async (_, block, isUsed, gone) => {
    const rig = new PagedCard({ frames: 8, pages: 16, spare: 4, stayUs: 0 })
    rig.use.inBlocks!(block)
    for (const page of [4, 12, 5, 8]) {
      rig.use.want(page)
      await rig.settle()
    }
    if (isUsed) rig.write(5, 7, 42)
    await rig.settle()
    // One more than may stay: who goes?
    rig.use.want(0)
    await rig.settle()
    const left = [4, 12, 5, 8, 0].filter((page) => rig.pager.stateOf(page) !== 'present')
    expect(left).toEqual(gone)
  })
})

describe.each(['card', 'iommu'] as const)('S1-M13: %s translates', (translation) => {
  test('every byte is where it belongs, with fewer frames than pages', async () => {
    const options = { pages: 48, frames: 20, region: { translation, service: 'balanced' } } as const
    const rig = await OnDemandRig.open(options)
    const bytes = (page: number, seed: number): Uint8Array =>
      Uint8Array.from({ length: 5000 }, (_, i) => (page * 31 + i * 7 + seed) & 0xff)
    for (let round = 0; round < 2; round++) {
      for (let page = 0; page < 46; page++) {
        await rig.memory.write(page * PAGE_BYTES + 100, bytes(page, round))
        const read = await rig.memory.read(page * PAGE_BYTES + 100, 5000)
        expect(Buffer.compare(read, bytes(page, round)), `page ${page}`).toBe(0)
      }
    }
    for (let page = 0; page < 46; page++) {
      const seen = await rig.pager.load(page * PAGE_BYTES + 100, PAGE_BYTES)
      expect(Buffer.compare(seen, bytes(page, 1).subarray(0, PAGE_BYTES)), `page ${page}`).toBe(0)
    }
    const { translated, faults } = rig.machine.ram.iommu.counts
    expect(translated > 0).toBe(translation === 'iommu')
    expect(faults).toBe(0)
    const { evictions, rnrs } = await rig.counters()
    expect(evictions).toBeGreaterThan(28)
    expect(rnrs).toBeGreaterThan(28)
    await rig.region.end()
    expect(rig.region.state).toBe('ended')
    await rig.close()
  })
})
