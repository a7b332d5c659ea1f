/**
 * A host that hears of the memory behind another card over the queues of its own (source 5): its
 * card is the requester, by the engine that a driver over frames has itself. In virtual time.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import type { Engine } from '../../../boards/emulator/index.ts'
import { putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import type { Mseth } from '../../../firmware/wire/memory-status.ts'
import type { BytesRegion } from '../../../host-driver/bytes/bytes-region.ts'
import type { DeviceWatcher } from '../../../host-driver/card/device.ts'
import { Hearing } from '../../../host-driver/card/hearing.ts'
import type { QueueEvent } from '../../../host-driver/card/queues/values.ts'
import { connect, type Dpu, type PcieDevice, TransportError } from '../../../host-driver/index.ts'
import type { Notices } from '../../../host-driver/way/inbox.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { type Machine, openDevice } from '../../support/peers/hosts.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import {
  difference,
  OnDemandRig,
  type OnDemandRigOptions,
} from '../../support/residency/on-demand-rig.ts'

const PAGE = 4096
const PAGES = 32
const SEED = Number(process.env.SEED ?? 1)

/** The other machine: its card's last address byte. */
const REQUESTER = 3

interface Bench {
  readonly rig: OnDemandRig
  readonly machine: Machine
  readonly device: PcieDevice
  /** The DPU with the memory, over the queues of the requester's card; and the memory. */
  readonly dpu: Dpu
  readonly memory: BytesRegion
}

const benches: Bench[] = []

afterEach(async () => {
  for (const { rig, dpu, device } of benches.splice(0)) {
    await dpu.close()
    device.close()
    await rig.close()
  }
})

async function bench(options: OnDemandRigOptions = {}): Promise<Bench> {
  const rig = await OnDemandRig.open({ pages: PAGES, frames: 20, seed: SEED, ...options })
  const engine: Engine = options.engine ?? 'node'
  const machine = await rig.room.addMachine(REQUESTER, { engine })
  const device = await openDevice(machine, { seed: SEED + 1 })
  await device.management.format(new Uint8Array(16).fill(9))
  const as = { clientId: 77n, firstOperation: 1n }
  const dpu = await connect(device, { peer: endpointOf(2), ...as, seed: SEED + 2 })
  const memory = await dpu.openBytes('heap')
  const made = { rig, machine, device, dpu, memory }
  benches.push(made)
  return made
}

function bytesOf(seed: number, length = PAGE): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 13 + seed * 101 + (i >> 8)) & 0xff)
}

const pageAt = (page: number): { offset: number; length: number } => ({
  offset: page * PAGE,
  length: PAGE,
})

/** RNR NAKs of the card with the memory while `work` goes on. */
async function rnrsOf({ rig }: Bench, work: () => Promise<unknown>): Promise<number> {
  const before = await rig.counters()
  await work()
  return difference(await rig.counters(), before).rnrs
}

const FINE = { blockBytes: PAGE, groupBlocks: 8 }

describe('memory at another card', () => {
  test('P5-1, P5-2, P5-11: is watched over the queues: states, groups, and edges', async () => {
    const { rig, memory } = await bench()
    const { status } = await memory.watch(FINE)
    expect(status).toMatchObject({ phase: 'ready', blocks: PAGES, readyBlocks: 0 })
    for (let page = 8; page < 16; page++) await memory.read(page * PAGE, 1)
    await memory.ready({ offset: 8 * PAGE, length: 8 * PAGE }, { timeoutMs: 10 })
    expect(status.groups[1]).toEqual({ ready: 8, size: 8, flag: false })
    expect(rig.pager.evict(9)).toBe(true)
    await rig.pass(2000)
    expect(status.stateOf(9)).toBe('notReady')
    expect(status.groups[1]).toEqual({ ready: 7, size: 8, flag: true })
  })

  test('P5-5: what is not there is hinted at, waited for, and accessed without RNR', async () => {
    const one = await bench()
    const { memory, rig } = one
    await rig.pager.store(5 * PAGE, bytesOf(5))
    await rig.pass(3000)
    rig.pager.evict(5)
    await rig.pass(3000)
    const without = await rnrsOf(one, () => memory.write(6 * PAGE, bytesOf(6)))
    expect(without, 'without a watch').toBeGreaterThan(0)
    const watch = await memory.watch(FINE)
    expect(watch.isReady(pageAt(5))).toBe(false)
    let read: Uint8Array = new Uint8Array(0)
    const rnrs = await rnrsOf(one, async () => {
      read = await memory.read(5 * PAGE, PAGE)
    })
    expect(read).toEqual(bytesOf(5))
    expect({ rnrs, hints: watch.status.counts.hints }).toEqual({ rnrs: 0, hints: 1 })
  })

  test('P5-5: of a walk through more than there are frames for hardly an RNR is left', async () => {
    const walk = async ({ memory }: Bench): Promise<void> => {
      for (let i = 0; i < 3 * PAGES; i++) await memory.read((i % PAGES) * PAGE, PAGE)
    }
    const blind = await bench()
    const without = await rnrsOf(blind, () => walk(blind))
    const one = await bench()
    await one.memory.watch(FINE)
    const rnrs = await rnrsOf(one, () => walk(one))
    expect(without).toBeGreaterThan(2 * PAGES)
    expect(rnrs).toBeLessThanOrEqual(without / 10)
    console.log(`RNRs: ${without} without a watch, ${rnrs} with one`)
  })

  test('P5-25: prefetch and ready; P5-16: after closing nothing is told', async () => {
    const { memory, rig } = await bench()
    const watch = await memory.watch(FINE)
    await memory.prefetch({ offset: 0, length: 8 * PAGE })
    await memory.ready({ offset: 0, length: 8 * PAGE }, { timeoutMs: 20 })
    expect(watch.status.readyBlocks).toBe(8)
    await watch.close()
    expect(memory.status).toBe(null)
    await memory.prefetch(pageAt(20))
    await rig.pass(1000)
    expect(rig.pager.stateOf(20), 'also without a watch').toBe('present')
    const again = await memory.watch(FINE)
    expect(again.status.readyBlocks).toBe(9)
  })

  test('P5-10, P5-29: coarse blocks, finer ones, and one for all of it', async () => {
    const { memory } = await bench()
    const watch = await memory.watch({ blockBytes: 4 * PAGE })
    await memory.prefetch({ offset: 0, length: 4 * PAGE })
    await memory.ready({ offset: 0, length: 4 * PAGE }, { timeoutMs: 20 })
    expect(watch.status).toMatchObject({ blocks: PAGES / 4, readyBlocks: 1 })
    expect(await watch.propose(PAGE)).toBe(PAGE)
    expect(watch.status).toMatchObject({ blocks: PAGES, readyBlocks: 4 })
    expect(await watch.propose(1 << 30)).toBe(PAGES * PAGE)
    expect(watch.status.blocks).toBe(1)
  })

  test('P5-15: a page that cannot be read: an error, forgotten; then again', async () => {
    const { memory, rig } = await bench()
    for (let page = 0; page < PAGES; page++) await memory.write(page * PAGE, bytesOf(page))
    const watch = await memory.watch(FINE)
    const phases: string[] = []
    watch.onChange(({ phase }) => {
      if (phases.at(-1) !== phase) phases.push(phase)
    })
    const lost = Array.from({ length: PAGES }, (_, i) => i).find((i) => !watch.isReady(pageAt(i)))!
    rig.swap.script = ({ kind, page }) => (kind === 'read' && page === lost ? 'error' : undefined)
    await memory.prefetch(pageAt(lost))
    await rig.pass(5_000)
    expect(watch.status).toMatchObject({ phase: 'error', readyBlocks: 0 })
    rig.swap.script = null
    await rig.pager.store(lost * PAGE, bytesOf(1))
    await memory.ready(pageAt(lost), { timeoutMs: 100 })
    expect(phases[0]).toBe('error')
    expect(phases.at(-1)).toBe('ready')
  })

  test('P5-30: records of a persistent region, whose part loses its armed state', async () => {
    const { rig, dpu } = await bench()
    const region = await dpu.provision({ name: 'orders', slots: 64, capacity: 960 })
    const watch = await region.watch({ blockBytes: 8192 })
    const blocks = Math.ceil((64 * region.info.stride) / 8192)
    expect(watch.status).toMatchObject({
      phase: 'ready',
      health: 'ok',
      blocks,
      readyBlocks: blocks,
    })
    await region.persist(3, bytesOf(3, 900)).persisted
    expect((await region.read(3)).data).toEqual(bytesOf(3, 900))
    expect(watch.status.counts).toMatchObject({ hints: 0, spared: 1 })
    const { nvdimm } = rig.machine.dpu
    nvdimm.armed = false
    await rig.pass(100_000)
    expect(watch.status).toMatchObject({ phase: 'unavailable', readyBlocks: 0 })
    expect(watch.isReady({ slot: 3 })).toBe(false)
    // It is there all the same: nothing has to be fetched, and nothing is hinted at.
    expect((await region.read(3)).data).toEqual(bytesOf(3, 900))
    const refused = await region.persist(3, bytesOf(4, 900)).persisted.catch((error) => error)
    expect(refused).toMatchObject({ fault: 'NOT_ARMED' })
    expect(watch.status.counts.hints).toBe(0)
    nvdimm.armed = true
    await region.ready({ slot: 0, count: 64 }, { timeoutMs: 1000 })
    expect(watch.status).toMatchObject({ phase: 'ready', health: 'ok', readyBlocks: blocks })
    await region.persist(3, bytesOf(4, 900)).persisted
    expect((await region.read(3)).data).toEqual(bytesOf(4, 900))
  })

  test('X-7: of its own memory a card tells its host nothing', async () => {
    const { device } = await bench()
    const own = await connect(device, { clientId: 9n, firstOperation: 1n, seed: 9 })
    const region = await own.provision({ name: 'mine', slots: 4, capacity: 64 })
    const error = await region.watch().catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(TransportError)
    await own.close()
  })
})

test('P5-2, P5-5: in QuickJS, too: hinted at, waited for, and told', async () => {
  const { memory, rig } = await bench({ engine: 'quickjs', pages: 8, frames: 20 })
  const watch = await memory.watch(FINE)
  await memory.write(2 * PAGE, bytesOf(2))
  expect(await memory.read(2 * PAGE, PAGE)).toEqual(bytesOf(2))
  expect(watch.status.counts.hints).toBe(1)
  rig.pager.evict(2)
  await rig.pass(2000)
  expect(watch.isReady(pageAt(2))).toBe(false)
})

describe('whatever goes wrong', () => {
  test('P5-28: notices and answers that are lost change nothing but the time', async () => {
    const { memory, rig } = await bench({
      faults: { loss: 0.03, duplication: 0.02 },
    })
    const random = new Random(SEED)
    const watch = await memory.watch(FINE)
    for (let i = 0; i < 60; i++) {
      const page = random.below(PAGES)
      await memory.write(page * PAGE, bytesOf(i))
      expect(await memory.read(page * PAGE, PAGE), `seed ${SEED}, ${i}`).toEqual(bytesOf(i))
    }
    await rig.pass(200_000)
    for (let page = 0; page < PAGES; page++) {
      const there = rig.pager.stateOf(page) === 'present'
      expect(watch.isReady(pageAt(page)), `seed ${SEED}, page ${page}`).toBe(there)
    }
  })

  test('P5-28: the requester’s card is started again: it is associated again', async () => {
    const { memory, rig, machine, device, dpu } = await bench()
    const watch = await memory.watch(FINE)
    await memory.write(4 * PAGE, bytesOf(4))
    machine.dpu.powerCut({ strategy: 'all' })
    await rig.pass(50_000)
    await machine.dpu.powerOn()
    await rig.pass(1000)
    await device.reopen()
    await dpu.reconnect()
    expect(await memory.read(4 * PAGE, PAGE)).toEqual(bytesOf(4))
    await memory.ready(pageAt(4), { timeoutMs: 100 })
    expect(watch.status).toMatchObject({ phase: 'ready', blocks: PAGES })
  })

  test('the DPU with the memory is started again: nothing of before counts', async () => {
    const { memory, rig, dpu } = await bench()
    const watch = await memory.watch(FINE)
    await memory.write(4 * PAGE, bytesOf(4))
    const { incarnation } = watch.status
    rig.machine.dpu.powerCut({ strategy: 'all' })
    await rig.pass(50_000)
    await rig.machine.dpu.powerOn()
    await rig.pass(1000)
    await rig.device.reopen()
    await dpu.reconnect()
    expect(await memory.read(4 * PAGE, PAGE)).toEqual(bytesOf(4))
    await memory.ready(pageAt(4), { timeoutMs: 100 })
    expect(watch.status.incarnation).toBe(incarnation + 1)
  })
})

describe('reading what the card has heard', () => {
  /** A card that answers when the test says so, and what was told of it. */
  function fake(): {
    readonly device: PcieDevice
    readonly calls: ((body: Uint8Array) => void)[]
    readonly told: Mseth[]
    readonly notices: Notices
    happened(event: Partial<QueueEvent>): void
  } {
    const watchers = new Set<DeviceWatcher>()
    const calls: ((body: Uint8Array) => void)[] = []
    const told: Mseth[] = []
    const residency = (): Promise<Uint8Array> => new Promise((resolve) => calls.push(resolve))
    return {
      device: { watchers, control: { residency } } as unknown as PcieDevice,
      ...{ calls, told },
      notices: {
        notice: (mseth) => told.push({ ...mseth }) > 0,
        proposal: (_, bseth) => bseth,
        health: () => false,
      },
      happened: (event) => {
        for (const one of watchers) one.happened?.(event as QueueEvent)
      },
    }
  }

  /** `here` blocks of `blocks` from one on, none of them ready. */
  function answer(blocks: number, here: number, sizeLog2 = 12): Uint8Array {
    const body = new Uint8Array(mad.MAD_BODY_BYTES)
    body[mad.RESIDENCY_PHASE] = 1
    body[mad.RESIDENCY_BLOCK_SIZE] = sizeLog2
    putU32(body, mad.RESIDENCY_BLOCKS, blocks)
    putU32(body, mad.RESIDENCY_HERE, here)
    return body
  }

  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
  const news = { type: 'residency', queue: 9, rkey: 5 } as const

  test('what is new while it reads is read again, in parts if it is long', async () => {
    const { device, calls, told, notices, happened } = fake()
    const hearing = new Hearing(device, 9, notices)
    hearing.follow(5)
    happened(news)
    happened({ ...news, queue: 8 })
    expect(calls.length).toBe(1)
    happened(news)
    happened(news)
    calls[0]!(answer(1300, 1280))
    await turn()
    calls[1]!(answer(1300, 20))
    await turn()
    expect(told.map(({ firstBlock, entries, more }) => [firstBlock, entries, more])).toEqual([
      ...[[0, 1280, true] as const, [1280, 20, false] as const],
    ])
    expect(calls.length, 'once more').toBe(3)
    calls[2]!(answer(1300, 1280))
    await turn()
    calls[3]!(answer(650, 20, 13))
    await turn()
    expect(told.length, 'the size has changed in between').toBe(3)
    expect(calls.length).toBe(4)
    happened({ type: 'lost', queue: 0 })
    expect(calls.length, 'also when events were lost').toBe(5)
    hearing.forget(5)
    calls[4]!(answer(1, 1))
    await turn()
    expect(told.length).toBe(3)
    hearing.close()
    happened(news)
    expect(calls.length).toBe(5)
  })
})

test('memory behind a relay is not told of, and the queue pair lives', async () => {
  const network = new Network({ seed: SEED, latencyUs: 2 })
  await network.addDpu(2)
  await network.addDpu(3)
  network.clock.start()
  const far = await connect(network.addHost(), { seed: SEED + 1, peer: endpointOf(3) })
  await far.format()
  await far.provision({ name: 'orders', slots: 64, capacity: 100 })
  await far.publish({ name: 'orders', port: 7471, form: 'capability' })
  const near = await connect(network.addHost(), { seed: SEED + 2, peer: endpointOf(2) })
  await near.format()
  const relay = await near.attach({ name: 'orders', address: '10.0.0.3', port: 7471 })
  const before = near.statistics().connections
  await expect(relay.watch()).rejects.toThrow()
  expect(await relay.persist(3, dataOf(100, 1)).persisted).toMatchObject({ slot: 3, copies: 2 })
  expect(near.statistics().connections).toBe(before)
})
