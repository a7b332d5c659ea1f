/**
 * Two hosts and two DPUs: host A persists through DPU A to DPU B, over a network that loses,
 * repeats and reorders frames everywhere. Host B looks at what DPU B has.
 */

import { describe, expect, test } from 'vitest'
import type { EmulatedDpu, Engine } from '../boards/emulator/index.ts'
import { connect, type Dpu, type Region } from '../host-driver/index.ts'
import { endpointOf, Network } from './support/network.ts'

const SEED = Number(process.env.SEED ?? 11)
const PORT = 7471
const BAD = { loss: 0.05, duplication: 0.05, reordering: 0.05 }

interface Pair {
  network: Network
  cardA: EmulatedDpu
  cardB: EmulatedDpu
  /** Host A's connection to DPU A, and the region of DPU B through it. */
  dpuA: Dpu
  relay: Region
  /** Host B's connection to DPU B. */
  dpuB: Dpu
  region: Region
}

/** DPU B has a region and publishes it; DPU A offers it to host A. */
async function pair(faults = {}, engine: Engine = 'node', seed = SEED): Promise<Pair> {
  const network = new Network({ seed, faults })
  const cardA = await network.addDpu(2, { engine })
  const cardB = await network.addDpu(3, { engine })
  network.clock.start()
  const dpuB = await connect(network.addHost(), { seed: seed + 1, peer: endpointOf(3) })
  await dpuB.format()
  const region = await dpuB.provision({ name: 'orders', slots: 64, capacity: 1000 })
  await dpuB.publish({ name: 'orders', port: PORT, form: 'capability' })
  const dpuA = await connect(network.addHost(), { seed: seed + 2, peer: endpointOf(2) })
  await dpuA.format()
  const relay = await dpuA.attach({ name: 'orders', address: '10.0.0.3', port: PORT })
  return { network, cardA, cardB, dpuA, relay, dpuB, region }
}

function record(slot: number, round: number): Uint8Array {
  const length = 1 + ((slot * 137 + round * 71) % 1000)
  return Uint8Array.from({ length }, (_, i) => (i * 7 + slot * 31 + round) & 0xff)
}

describe('a region of another DPU', () => {
  test('has the shape that the other DPU says; a record in it is durable there', async () => {
    const { relay, region, dpuA, dpuB } = await pair()
    expect(relay.info).toMatchObject({ slots: 64, capacity: 1000, copies: 2, name: 'orders' })
    const receipt = await relay.persist(5, record(5, 1)).persisted
    expect(receipt).toMatchObject({ slot: 5, copies: 2, mechanism: 'localFlush' })
    const found = await region.read(5)
    expect(found.data).toEqual(record(5, 1))
    expect(found.clientId).toBe(dpuA.clientId)
    expect(dpuB.clientId).not.toBe(dpuA.clientId)
  })

  test.each(['node', 'quickjs'] as const)(
    `keeps every acknowledged record over a bad network: %s (seed ${SEED})`,
    async (engine) => {
      const { relay, region, dpuA } = await pair(BAD, engine)
      const last = new Map<number, Uint8Array>()
      for (let round = 0; round < 4; round++) {
        const writes = []
        for (let slot = 0; slot < 64; slot++) {
          const bytes = record(slot, round)
          last.set(slot, bytes)
          writes.push(relay.persist(slot, bytes).persisted)
        }
        for (const receipt of await Promise.all(writes)) expect(receipt.copies).toBe(2)
      }
      for (const [slot, bytes] of last) expect((await region.read(slot)).data).toEqual(bytes)
      expect(dpuA.statistics().retransmissions).toBeGreaterThan(0)
    },
  )

  for (const victim of ['A', 'B', 'both'] as const) {
    test(`loses nothing when the power of ${victim} goes in between (seed ${SEED})`, async () => {
      const { relay, network, cardA, cardB, dpuB } = await pair(BAD)
      const acknowledged = new Map<number, number>()
      const writes: Promise<unknown>[] = []
      for (let round = 1; round <= 3; round++) {
        for (let slot = 0; slot < 64; slot++) {
          const { persisted } = relay.persist(slot, record(slot, round))
          const last = (): number => Math.max(round, acknowledged.get(slot) ?? 0)
          writes.push(persisted.then(() => acknowledged.set(slot, last())))
        }
      }
      network.clock.schedule(network.clock.nowUs + 400, () => {
        for (const card of victim === 'A' ? [cardA] : victim === 'B' ? [cardB] : [cardA, cardB]) {
          card.powerCut({ strategy: 'none' })
          network.clock.schedule(network.clock.nowUs + 50_000, () => void card.powerOn())
        }
      })
      if (victim !== 'A') {
        // What DPU B publishes is gone with its power: its host publishes it again.
        network.clock.schedule(network.clock.nowUs + 60_000, () => {
          void dpuB.publish({ name: 'orders', port: PORT, form: 'capability' })
        })
      }
      await Promise.all(writes)
      expect(acknowledged.size).toBe(64)
      const region = await dpuB.openRegion('orders')
      for (const [slot, round] of acknowledged) {
        expect(round).toBe(3)
        expect((await region.read(slot)).data).toEqual(record(slot, 3))
      }
    })
  }

  test('X-7: refusals of the other DPU arrive as they are', async () => {
    const { relay, cardB } = await pair()
    await relay.persist(0, new Uint8Array(8)).persisted
    cardB.nvdimm.armed = false
    await expect(relay.persist(0, new Uint8Array(8)).persisted).rejects.toMatchObject({
      fault: 'NOT_ARMED',
    })
  })

  test('X-7: what cannot be attached says why', async () => {
    const { dpuA, dpuB } = await pair()
    const port = PORT
    await expect(dpuA.attach({ name: 'x', address: 'orders', port })).rejects.toMatchObject({
      code: 'PERDURE_ARGUMENT',
    })
    await expect(dpuA.attach({ name: 'x', address: '10.0.0.3', port: 0 })).rejects.toMatchObject({
      code: 'PERDURE_ARGUMENT',
    })
    for (const at of [
      { address: '10.0.0.3', port: 9 },
      { address: '10.0.0.99', port },
      { address: 'fd00::99', port },
    ]) {
      await expect(dpuA.attach({ name: 'x', ...at })).rejects.toMatchObject({
        fault: 'ATTACH_FAILED',
      })
    }
    await expect(
      dpuA.attach({ name: 'orders', address: '10.0.0.3', port: PORT + 1 }),
    ).rejects.toMatchObject({ fault: 'REGION_EXISTS' })
    await dpuB.provision({ name: 'own', slots: 4, capacity: 64 })
    await expect(dpuB.attach({ name: 'own', address: '10.0.0.2', port })).rejects.toMatchObject({
      fault: 'REGION_EXISTS',
    })
  })

  test('over IPv6, again after it was detached, and as often as there are places', async () => {
    const { dpuA, region } = await pair()
    await dpuA.detach('orders')
    const again = await dpuA.attach({ name: 'orders', address: 'fd00::3', port: PORT })
    await again.persist(1, record(1, 1)).persisted
    expect((await region.read(1)).data).toEqual(record(1, 1))
    for (let i = 1; i < 8; i++) {
      await dpuA.attach({ name: `orders ${i}`, address: '10.0.0.3', port: PORT })
    }
    await expect(
      dpuA.attach({ name: 'one more', address: '10.0.0.3', port: PORT }),
    ).rejects.toMatchObject({ fault: 'REGIONS_FULL' })
    await again.persist(2, record(2, 1)).persisted
  })
})
