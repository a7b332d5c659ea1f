/**
 * A remote host that is told which memory is there (source 5, figures 6 and 7): driver, card, and a
 * host with fewer frames than pages, in virtual time.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import type { Watch, WatchOptions } from '../../../host-driver/index.ts'
import { connect, RefusedError, TransportError } from '../../../host-driver/index.ts'
import {
  difference,
  OnDemandRig,
  type OnDemandRigOptions,
} from '../../support/residency/on-demand-rig.ts'
import { THOROUGH } from '../../support/run/thorough.ts'

const PAGE = 4096
const PAGES = 32

const rigs: OnDemandRig[] = []

afterEach(async () => {
  for (const rig of rigs.splice(0)) await rig.close()
})

async function open(options: OnDemandRigOptions = {}): Promise<OnDemandRig> {
  const rig = await OnDemandRig.open({ pages: PAGES, frames: 20, ...options })
  rigs.push(rig)
  return rig
}

async function watched(
  rig: OnDemandRig,
  options: WatchOptions = { blockBytes: PAGE, groupBlocks: 8 },
): Promise<Watch> {
  return await rig.memory.watch(options)
}

function bytesOf(seed: number, length = PAGE): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 13 + seed * 101 + (i >> 8)) & 0xff)
}

const pageAt = (page: number): { offset: number; length: number } => ({
  offset: page * PAGE,
  length: PAGE,
})

/** RNR NAKs and hints that `work` took. */
async function costOf(
  rig: OnDemandRig,
  work: () => Promise<unknown>,
): Promise<{ rnrs: number; hints: number }> {
  const before = await rig.counters()
  const hints = rig.memory.status?.counts.hints ?? 0
  await work()
  const { rnrs } = difference(await rig.counters(), before)
  return { rnrs, hints: (rig.memory.status?.counts.hints ?? 0) - hints }
}

describe('memory that is there', () => {
  test('P5-4, P5-6 (figure 6): is accessed at once, without a hint', async () => {
    const rig = await open()
    await watched(rig)
    await rig.memory.write(3 * PAGE, bytesOf(3))
    await rig.memory.ready(pageAt(3), { timeoutMs: 10 })
    const cost = await costOf(rig, () => rig.memory.read(3 * PAGE, PAGE))
    expect(cost).toEqual({ rnrs: 0, hints: 0 })
  })

  test('P5-2, P5-9: without a wish it is told in blocks of the agreed size', async () => {
    const rig = await open()
    for (const page of [3, 8, 9]) await rig.memory.read(page * PAGE, 1)
    const { status } = await rig.memory.watch()
    const ready = Array.from({ length: status.blocks }, (_, i) => status.stateOf(i) === 'ready')
    expect(status.blocks).toBeGreaterThan(1)
    expect(status.readyBlocks).toBe(ready.filter(Boolean).length)
    expect(status.isReady(pageAt(3)) && status.isReady(pageAt(9))).toBe(true)
    expect(status.isReady(pageAt(20))).toBe(false)
  })

  test('P5-11 … P5-14, P5-20: what comes and goes is told, counted and flagged', async () => {
    const rig = await open()
    const { status } = await watched(rig)
    expect(status).toMatchObject({ phase: 'ready', blocks: PAGES, readyBlocks: 0 })
    expect(status.groups).toEqual(new Array(4).fill({ ready: 0, size: 8, flag: true }))
    for (let page = 8; page < 16; page++) await rig.memory.read(page * PAGE, 1)
    await rig.memory.ready({ offset: 8 * PAGE, length: 8 * PAGE }, { timeoutMs: 10 })
    expect(status.groups[1]).toEqual({ ready: 8, size: 8, flag: false })
    expect(rig.pager.evict(9)).toBe(true)
    await rig.pass(2000)
    expect(status.stateOf(9)).toBe('notReady')
    expect(status.groups[1]).toEqual({ ready: 7, size: 8, flag: true })
  })
})

describe('memory that is not there', () => {
  test('P5-5, P5-25 (figure 7): is hinted at, waited for, accessed without RNR', async () => {
    const rig = await open()
    await rig.pager.store(5 * PAGE, bytesOf(5))
    await rig.pass(3000)
    rig.pager.evict(5)
    await rig.pass(3000)
    const watch = await watched(rig)
    expect(watch.isReady(pageAt(5))).toBe(false)
    let read: Uint8Array = new Uint8Array(0)
    const cost = await costOf(rig, async () => {
      read = await rig.memory.read(5 * PAGE, PAGE)
    })
    expect(read).toEqual(bytesOf(5))
    expect(cost).toEqual({ rnrs: 0, hints: 1 })
  })

  test('P5-5: what is written to it waits, too, and arrives', async () => {
    const rig = await open()
    await watched(rig)
    const cost = await costOf(rig, () => rig.memory.write(7 * PAGE + 100, bytesOf(7, 9000)))
    expect(cost).toEqual({ rnrs: 0, hints: 1 })
    expect(await rig.pager.load(7 * PAGE + 100, 9000)).toEqual(bytesOf(7, 9000))
  })

  test('P5-28, X-6: without a watch it works as well, by RNR', async () => {
    const rig = await open()
    const cost = await costOf(rig, () => rig.memory.write(7 * PAGE, bytesOf(1)))
    expect(cost.rnrs).toBeGreaterThan(0)
    expect(await rig.pager.load(7 * PAGE, PAGE)).toEqual(bytesOf(1))
  })

  test('P5-6: many accesses to one block are one hint', async () => {
    const rig = await open()
    await watched(rig)
    const reads = Array.from({ length: 10 }, (_, i) => rig.memory.read(4 * PAGE + i * 64, 64))
    const cost = await costOf(rig, () => Promise.all(reads))
    expect(cost.rnrs).toBe(0)
    expect(rig.memory.status!.counts).toMatchObject({ hints: 1, hintedBlocks: 1 })
  })

  test('P5-25: of a block that is hinted at a page that is about to go stays', async () => {
    for (let us = 1; us <= 8; us++) {
      const rig = await open()
      await rig.memory.write(0, bytesOf(1))
      await watched(rig, { blockBytes: 2 * PAGE })
      await rig.pass(3000)
      const began = rig.clock.nowUs
      const reading = rig.memory.read(PAGE, 8)
      await rig.pass(us)
      expect(rig.pager.evict(0)).toBe(true)
      await reading
      // Much less than the prefetch time: all of the block came.
      expect(rig.clock.nowUs - began, `evicted ${us} µs behind the READ`).toBeLessThan(1000)
    }
  })

  test('P5-25: prefetch and ready, by the caller', async () => {
    const rig = await open()
    const watch = await watched(rig)
    await rig.memory.prefetch({ offset: 0, length: 8 * PAGE })
    await rig.memory.ready({ offset: 0, length: 8 * PAGE }, { timeoutMs: 20 })
    expect(watch.status.readyBlocks).toBe(8)
    expect(watch.status.counts).toMatchObject({ hints: 1, hintedBlocks: 8 })
    await watch.close()
    await rig.memory.prefetch(pageAt(20))
    await rig.pass(1000)
    expect(rig.pager.stateOf(20), 'also without a watch').toBe('present')
  })

  test('P5-5: another place that is ready is found', async () => {
    const rig = await open()
    const { status } = await watched(rig)
    expect(status.otherReady(pageAt(0))).toBe(null)
    await rig.memory.prefetch({ offset: 10 * PAGE, length: 2 * PAGE })
    await rig.memory.ready({ offset: 10 * PAGE, length: 2 * PAGE }, { timeoutMs: 20 })
    expect(status.otherReady(pageAt(0))).toEqual(pageAt(10))
    expect(status.otherReady({ offset: 20 * PAGE, length: 2 * PAGE })).toEqual({
      ...{ offset: 10 * PAGE, length: 2 * PAGE },
    })
    expect(status.otherReady({ offset: 0, length: 3 * PAGE })).toBe(null)
  })

  test('what changes memory keeps its order, whatever waits', async () => {
    const rig = await open()
    const watch = await watched(rig)
    await rig.memory.write(20 * PAGE, new Uint8Array(8))
    await rig.memory.ready(pageAt(20), { timeoutMs: 10 })
    expect(watch.isReady(pageAt(20))).toBe(true)
    // The data goes to memory that is not there, the flag that vouches for it to memory that is.
    const data = rig.memory.write(2 * PAGE, bytesOf(2))
    const flag = rig.memory.write(20 * PAGE, Uint8Array.of(1))
    expect(await rig.memory.read(20 * PAGE, 1)).toEqual(Uint8Array.of(1))
    expect(await rig.pager.load(2 * PAGE, PAGE)).toEqual(bytesOf(2))
    await Promise.all([data, flag])
  })

  test('a read that waits lets other reads pass', async () => {
    const rig = await open()
    await watched(rig)
    await rig.memory.read(20 * PAGE, 8)
    await rig.memory.ready(pageAt(20), { timeoutMs: 10 })
    const order: number[] = []
    const slow = rig.memory.read(2 * PAGE, 8).then(() => order.push(2))
    const fast = rig.memory.read(20 * PAGE, 8).then(() => order.push(20))
    await Promise.all([slow, fast])
    expect(order).toEqual([20, 2])
  })
})

describe('the whole region', () => {
  test('P5-10: coarse blocks, and finer ones: mapped again, and told', async () => {
    const rig = await open()
    const watch = await watched(rig, { blockBytes: 4 * PAGE })
    await rig.memory.prefetch({ offset: 0, length: 4 * PAGE })
    await rig.memory.ready({ offset: 0, length: 4 * PAGE }, { timeoutMs: 20 })
    expect(watch.status).toMatchObject({ blocks: PAGES / 4, readyBlocks: 1 })
    expect(await watch.propose(PAGE)).toBe(PAGE)
    expect(watch.status).toMatchObject({ blocks: PAGES, readyBlocks: 4 })
  })

  test('P5-9: either side begins: the driver proposes a size, and so does the card', async () => {
    const rig = await open({ readUs: 1, writeUs: 1, stayUs: 0 })
    const watch = await watched(rig)
    const sizes: number[] = []
    watch.onChange(({ blockBytes }) => {
      if (sizes.at(-1) !== blockBytes) sizes.push(blockBytes)
    })
    expect(await watch.propose(4 * PAGE)).toBe(4 * PAGE)
    expect(await watch.propose(PAGE)).toBe(PAGE)
    expect(sizes).toEqual([4 * PAGE, PAGE])
    // So much comes and goes that telling of every page costs too much of the network.
    const other = await rig.connect()
    const memory = await other.openBytes('heap')
    for (let round = 0; round < 80; round++) {
      await memory.prefetch({ offset: 0, length: 16 * PAGE })
      await rig.pass(50)
      for (let page = 0; page < 16; page++) rig.pager.evict(page)
    }
    await rig.pass(200_000)
    expect(sizes).toEqual([4 * PAGE, PAGE, 2 * PAGE])
    expect(watch.status).toMatchObject({ phase: 'ready', blocks: PAGES / 2 })
    await rig.memory.ready({ offset: 0, length: 2 * PAGE }, { timeoutMs: 20 })
    expect(watch.isReady(pageAt(1))).toBe(true)
  })

  test('P5-28: after the connection was made again the status is that of now', async () => {
    const rig = await open()
    const watch = await watched(rig)
    await rig.memory.write(0, bytesOf(1))
    await rig.dpu.reconnect()
    await rig.memory.ready(pageAt(0), { timeoutMs: 50 })
    expect(watch.status).toMatchObject({ phase: 'ready', readyBlocks: 1 })
  })

  test('P5-15: a page that cannot be read: an error, and no hint is sent', async () => {
    const rig = await open()
    for (let page = 0; page < PAGES; page++) await rig.memory.write(page * PAGE, bytesOf(page))
    const watch = await watched(rig)
    const phases: string[] = []
    watch.onChange(({ phase }) => {
      if (phases.at(-1) !== phase) phases.push(phase)
    })
    const lost = Array.from({ length: PAGES }, (_, i) => i).find((i) => !watch.isReady(pageAt(i)))!
    rig.swap.script = ({ kind, page }) => (kind === 'read' && page === lost ? 'error' : undefined)
    await rig.memory.prefetch(pageAt(lost))
    await rig.pass(5_000)
    expect(watch.status).toMatchObject({ phase: 'error', readyBlocks: 0 })
    const cost = await costOf(rig, () => rig.memory.prefetch({ offset: 0, length: PAGES * PAGE }))
    expect(cost).toEqual({ rnrs: 0, hints: 0 })
    // A page that is written as a whole is well again, and so is the region.
    rig.swap.script = null
    await rig.pager.store(lost * PAGE, bytesOf(1))
    await rig.memory.ready(pageAt(lost), { timeoutMs: 100 })
    expect(phases).toEqual(['error', 'reset', 'ready'])
  })

  test('P5-28: a card that was started again: the memory is told again', async () => {
    const rig = await open()
    const watch = await watched(rig)
    await rig.memory.write(4 * PAGE, bytesOf(4))
    const { incarnation } = watch.status
    await restart(rig)
    await rig.device.reopen()
    await rig.dpu.reconnect()
    expect(await rig.memory.read(4 * PAGE, PAGE)).toEqual(bytesOf(4))
    await rig.memory.ready(pageAt(4), { timeoutMs: 100 })
    expect(watch.status.incarnation).toBe(incarnation + 1)
  })

  test('X-7: memory that is gone with its card ends the watch', async () => {
    const rig = await open()
    const watch = await watched(rig)
    await rig.memory.write(4 * PAGE, bytesOf(4))
    await restart(rig)
    // Before the host has registered its memory with the card again.
    await rig.dpu.reconnect()
    expect(watch.isOpen).toBe(false)
    const error = await watch.ready(pageAt(4)).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(RefusedError)
    await rig.device.reopen()
    const memory = await rig.dpu.openBytes('heap')
    const again = await memory.watch({ blockBytes: PAGE })
    expect(await memory.read(4 * PAGE, PAGE)).toEqual(bytesOf(4))
    await memory.ready(pageAt(4), { timeoutMs: 100 })
    expect(again.status.phase).toBe('ready')
  })

  async function restart(rig: OnDemandRig): Promise<void> {
    rig.machine.dpu.powerCut({ strategy: 'all' })
    await rig.pass(50_000)
    await rig.machine.dpu.powerOn()
    await rig.pass(1000)
  }

  test('X-7: over the queues of the local card it is refused, with a type', async () => {
    const rig = await open()
    const dpu = await connect(rig.device, { clientId: 9n, firstOperation: 1n, seed: 9 })
    const region = await dpu.provision({ name: 'orders', slots: 4, capacity: 64 })
    const error = await region.watch().catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(TransportError)
    expect((error as TransportError).message).toContain("not its local card's")
  })
})

describe('work that does not fit into memory', () => {
  /** One access of a random kind and place; what the memory must hold is kept beside it. */
  async function access(rig: OnDemandRig, random: Random, truth: Uint8Array): Promise<void> {
    const length = 1 + random.below(2 * PAGE)
    const offset = random.below(truth.length - length)
    if (random.chance(0.5)) {
      const bytes = bytesOf(random.below(256), length)
      truth.set(bytes, offset)
      await rig.memory.write(offset, bytes)
    } else {
      expect(await rig.memory.read(offset, length)).toEqual(truth.slice(offset, offset + length))
    }
  }

  test(
    'X-6, P5-28: never a wrong byte over a bad link, and the end is known',
    THOROUGH,
    async () => {
      for (let seed = 1; seed <= 4; seed++) {
        const faults = seed % 2 === 0 ? { loss: 0.01, duplication: 0.01, reordering: 0.02 } : {}
        const rig = await open({ seed, faults, connect: { ackTimeoutCode: 9 } })
        const random = new Random(seed)
        const watch = await watched(rig, { blockBytes: PAGE << random.below(3), periodUs: 50 })
        const truth = new Uint8Array(PAGES * PAGE)
        for (let i = 0; i < 30; i++) {
          await access(rig, random, truth)
          if (random.chance(0.2)) rig.pager.evict(random.below(PAGES))
        }
        // A notice that is lost is sent again when the card's timer is over.
        await rig.pass(1_000_000)
        const { status } = watch
        const pages = status.blockBytes / PAGE
        for (let block = 0; block < status.blocks; block++) {
          const all = Array.from({ length: pages }, (_, i) => rig.pager.stateOf(block * pages + i))
          const isThere = all.every((state) => state === 'present')
          expect(status.stateOf(block), `seed ${seed}, block ${block}`).toBe(
            isThere ? 'ready' : 'notReady',
          )
        }
        expect(await rig.pager.load(0, truth.length)).toEqual(truth)
      }
    },
  )

  test('P5-5, P5-25: in sequence over twice the memory, hints leave few RNRs', async () => {
    async function rnrsOf(isWatched: boolean): Promise<number> {
      const rig = await open({ pages: 128, frames: 64 })
      if (isWatched) await watched(rig)
      const { rnrs } = await costOf(rig, async () => {
        for (let i = 0; i < 256; i++) await rig.memory.write((i % 128) * PAGE, bytesOf(i))
      })
      return rnrs
    }
    const without = await rnrsOf(false)
    const hinted = await rnrsOf(true)
    expect(without).toBeGreaterThan(200)
    expect(hinted).toBeLessThan(0.1 * without)
  })
})
