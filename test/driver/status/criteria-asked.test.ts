/**
 * Criteria for block size and time of notices, as a user of the driver says them (S1-M12): use,
 * budget, room and groups; against the card, over frames and over its queues. In virtual time.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { ENGINES } from '../../../boards/emulator/run/dpu.ts'
import type { BytesRegion, Watch, WatchOptions } from '../../../host-driver/index.ts'
import { connect } from '../../../host-driver/index.ts'
import { failure, thrown } from '../../support/driver/failures.ts'
import { openDevice } from '../../support/peers/hosts.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { OnDemandRig, type OnDemandRigOptions } from '../../support/residency/on-demand-rig.ts'
import { runLoad } from '../../support/residency/paged-load.ts'

const PAGE = 4096
const KIB = 1024
const SOON = { timeoutMs: 50 }

const ends: (() => Promise<void> | void)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function rigOf(options: OnDemandRigOptions = {}): Promise<OnDemandRig> {
  const rig = await OnDemandRig.open({ pages: 32, frames: 20, ...options })
  ends.push(() => rig.close())
  return rig
}

const pages = (first: number, count: number): { offset: number; length: number } => ({
  offset: first * PAGE,
  length: count * PAGE,
})

/** Pages come and go for so long, µs, one after the other, since another host reads them. */
async function churn(rig: OnDemandRig, us: number): Promise<void> {
  const other = await rig.connect()
  const memory = await other.openBytes('heap')
  const end = rig.clock.nowUs + us
  for (let page = 0; rig.clock.nowUs < end; page = (page + 1) % 16) {
    await memory.read(page * PAGE, 1)
    await rig.pass(100)
    rig.pager.evict(page)
    await rig.pass(100)
  }
  await other.close()
}

/** Bytes of notices that were heard in that time, µs. */
async function heardIn(rig: OnDemandRig, watch: Watch, us: number): Promise<number> {
  const { noticeBytes } = watch.status.counts
  await churn(rig, us)
  return watch.status.counts.noticeBytes - noticeBytes
}

describe('S1-M12: the kind of use', () => {
  test('S1-M12: decides the size of a block, where none is given', async () => {
    const rig = await rigOf({ pages: 2048 })
    const sizeOf = async (options: WatchOptions): Promise<number> => {
      await using watch = await rig.memory.watch(options)
      return watch.status.blockBytes / KIB
    }
    expect(await sizeOf({})).toBe(16)
    expect(await sizeOf({ use: 'scattered' })).toBe(4)
    expect(await sizeOf({ use: 'sequential' })).toBe(64)
    expect(await sizeOf({ use: 'sequential', blockBytes: 8 * KIB })).toBe(8)
  })

  test('S1-M12: in sequence: fewer bytes of notices, and more of work', async () => {
    const load = { pattern: 'sequential', mode: 'access', pages: 128, frames: 64 } as const
    const costs = await Promise.all(
      (['scattered', 'sequential'] as const).map((use) => {
        const watch = { use, ...(use === 'scattered' ? {} : { blockBytes: 64 * KIB }) }
        return runLoad({ ...load, accesses: 512, seed: 1, watch })
      }),
    )
    const [fine, coarse] = costs as [(typeof costs)[0], (typeof costs)[0]]
    expect(coarse.noticeBytesPerMb).toBeLessThan(fine.noticeBytesPerMb / 3)
    expect(coarse.mbPerSecond).toBeGreaterThan(fine.mbPerSecond * 1.5)
    expect([fine.rnrs, coarse.rnrs]).toEqual([0, 0])
  })

  test('S1-M12: scattered: no blocks coarser than what is brought at once', async () => {
    const rig = await rigOf({ pages: 64 })
    const watch = await rig.memory.watch({ use: 'scattered', budget: 1 * KIB })
    const told = async (): Promise<number> => {
      await churn(rig, 150_000)
      return watch.status.blockBytes / KIB
    }
    const sizes: number[] = []
    for (let i = 0; i < 5; i++) sizes.push(await told())
    expect(Math.max(...sizes)).toBeGreaterThan(4)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64)
    await watch.ready(pages(20, 2), SOON)
  })
})

describe('S1-M12: a budget of notices', () => {
  test('S1-M12: they keep to it, and what is told in the end is true', async () => {
    const rig = await rigOf()
    const free = await rig.memory.watch({ blockBytes: PAGE, threshold: 1, periodUs: 0 })
    const without = await heardIn(rig, free, 400_000)
    await free.close()
    const spare = { threshold: 1, periodUs: 0, blockBytes: PAGE, use: 'scattered' } as const
    const watch = await rig.memory.watch({ ...spare, budget: 8 * KIB + 5 })
    const heard = await heardIn(rig, watch, 400_000)
    expect(heard).toBeLessThanOrEqual(8 * KIB * 0.5 + 1000)
    expect(heard).toBeGreaterThan(1 * KIB)
    expect(without, 'without one').toBeGreaterThan(4 * heard)
    for (const page of [3, 4]) await rig.memory.read(page * PAGE, 1)
    await rig.pass(500_000)
    const size = watch.status.blockBytes
    for (let block = 0; block < watch.status.blocks; block++) {
      const own = Array.from({ length: size / PAGE }, (_, i) => (block * size) / PAGE + i)
      const there = own.every((page) => rig.pager.stateOf(page) === 'present')
      expect(watch.status.stateOf(block)).toBe(there ? 'ready' : 'notReady')
    }
  })

  test.each(ENGINES)(
    'S1-M12: if it is too small, coarser blocks are agreed: %s',
    async (engine) => {
      const rig = await rigOf({ engine })
      const watch = await rig.memory.watch({ blockBytes: PAGE, budget: 4 * KIB })
      expect(watch.status.blockBytes).toBe(PAGE)
      await churn(rig, 500_000)
      expect(watch.status.blockBytes).toBeGreaterThan(PAGE)
    },
  )

  test('S1-M12: an access waits for a late notice no longer than for a lost one', async () => {
    const rig = await rigOf()
    await rig.memory.watch({ blockBytes: PAGE, threshold: 1, budget: 1 * KIB, prefetchUs: 2000 })
    await churn(rig, 300_000)
    const from = rig.clock.nowUs
    await rig.memory.write(20 * PAGE, Uint8Array.of(9))
    expect(rig.clock.nowUs - from).toBeLessThan(10_000)
    expect(await rig.memory.read(20 * PAGE, 1)).toEqual(Uint8Array.of(9))
  })
})

describe('S1-M12: room for blocks', () => {
  /** Both ways: over frames, and over the queues of the requester's own card. */
  async function remote(rig: OnDemandRig, over: string): Promise<BytesRegion> {
    if (over === 'frames') return rig.memory
    const machine = await rig.room.addMachine(3, { engine: 'node' })
    const device = await openDevice(machine, { seed: 5 })
    await device.management.format(new Uint8Array(16).fill(9))
    const as = { clientId: 77n, firstOperation: 1n, seed: 6 }
    const dpu = await connect(device, { peer: endpointOf(2), ...as })
    ends.push(async () => {
      await dpu.close()
      device.close()
    })
    return await dpu.openBytes('heap')
  }

  test.each(['frames', 'queues'])('S1-M12: is told, and kept to, over %s', async (over) => {
    const rig = await rigOf()
    const memory = await remote(rig, over)
    const sizes: number[][] = []
    for (const options of [{ blocks: 8 }, { blocks: 8, blockBytes: PAGE }, { blocks: 1 }]) {
      await using watch = await memory.watch(options)
      sizes.push([watch.status.blocks, watch.status.blockBytes / KIB])
      if (options.blocks === 1) continue
      expect(await watch.propose(PAGE), 'no finer one').toBe(16 * KIB)
      expect(await watch.propose(32 * KIB)).toBe(32 * KIB)
    }
    expect(sizes).toEqual([
      [8, 16],
      [8, 16],
      [1, 128],
    ])
  })
})

describe('S1-M12: groups of one use', () => {
  const GROUPS = { index: [pages(0, 2), pages(30, 1)], log: [pages(8, 8)], none: [] }

  test('S1-M12: are counted by their names, in blocks of any size', async () => {
    const rig = await rigOf()
    const watch = await rig.memory.watch({ blockBytes: PAGE, groups: GROUPS })
    const { status } = watch
    expect(status.groupNames).toEqual(['index', 'log', 'none'])
    expect(status.group('index')).toEqual({ ready: 0, size: 3, flag: true })
    expect(status.group('none')).toEqual({ ready: 0, size: 0, flag: false })
    for (const range of GROUPS.index) await rig.memory.ready(range, SOON)
    expect(status.group('index')).toEqual({ ready: 3, size: 3, flag: false })
    expect(status.group('log')).toMatchObject({ ready: 0, size: 8 })
    rig.pager.evict(30)
    await rig.pass(2000)
    expect(status.group('index')).toEqual({ ready: 2, size: 3, flag: true })
    await watch.propose(4 * PAGE)
    expect(status.group('index')).toMatchObject({ size: 2 })
    expect(status.group('log')).toMatchObject({ size: 2 })
    expect(status.groups, 'groups in a row are there as well').toHaveLength(1)
  })

  test('S1-M12: of records, too', async () => {
    const rig = await rigOf()
    const region = await rig.dpu.provision({ name: 'orders', slots: 64, capacity: 960 })
    const groups = { hot: [{ slot: 0, count: 8 }, { slot: 60 }] }
    const { status } = await region.watch({ blockBytes: PAGE, groups })
    const { ready, size, flag } = status.group('hot')
    expect([ready, flag]).toEqual([size, false])
    expect(size).toBeGreaterThan(1)
  })
})

describe('S1-M12, X-7: what is no criterion', () => {
  test('S1-M12: is refused in words', async () => {
    const { memory } = await rigOf()
    const range = { offset: 0, length: 8 }
    const wrong: [object, string][] = [
      [{ use: 'random' }, 'say scattered, sequential'],
      [{ budget: 1023 }, '1024 to'],
      [{ budget: 1e99 }, '1024 to'],
      [{ blocks: 0 }, '1 to 65536'],
      [{ groups: [] }, 'an object with the fields by name'],
      [{ groups: { a: range } }, "ranges of group 'a' an object: a list"],
      [{ groups: { a: [7] } }, 'a range 7'],
      [{ groups: { a: [{ offset: 31 * PAGE, length: PAGE + 1 }] } }, 'and the region at 131072'],
      [
        { groups: Object.fromEntries([...'abcdefghi'].map((name) => [name, []])) },
        'groups 9: 0 to 8',
      ],
    ]
    for (const [options, message] of wrong) {
      const error = await failure(memory.watch(options as WatchOptions))
      expect([error.code, error.message]).toEqual([
        'PERDURE_ARGUMENT',
        expect.stringContaining(message),
      ])
    }
    const { status } = await memory.watch({ groups: { a: [range] } })
    const error = thrown(() => status.group('b'))
    expect([error.code, error.message]).toEqual([
      'PERDURE_ARGUMENT',
      expect.stringContaining("group 'b': say a"),
    ])
  })
})
