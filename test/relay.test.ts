/**
 * Two hosts and two DPUs: host A persists through DPU A to DPU B, over a network that loses, repeats
 * and reorders frames everywhere. Host B looks at what DPU B has.
 */

import { describe, expect, test } from 'vitest'
import type { EmulatedDpu } from '../boards/emulator/index.ts'
import { connect, type Dpu, type Region } from '../host-driver/index.ts'
import { endpointOf, Network } from './support/network.ts'

const SEED = Number(process.env['SEED'] ?? 11)
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
async function pair(faults = {}, seed = SEED): Promise<Pair> {
  const network = new Network({ seed, faults })
  const cardA = network.addDpu(2)
  const cardB = network.addDpu(3)
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
  test('has the shape that the other DPU says, and takes a record that is durable there', async () => {
    const { relay, region, dpuA, dpuB } = await pair()
    expect(relay.info).toMatchObject({ slots: 64, capacity: 1000, copies: 2, name: 'orders' })
    const receipt = await relay.persist(5, record(5, 1)).persisted
    expect(receipt).toMatchObject({ slot: 5, copies: 2, mechanism: 'localFlush' })
    const found = await region.read(5)
    expect(found.data).toEqual(record(5, 1))
    expect(found.clientId).toBe(dpuA.clientId)
    expect(dpuB.clientId).not.toBe(dpuA.clientId)
  })

  test(`keeps every acknowledged record over a bad network (seed ${SEED})`, async () => {
    const { relay, region, dpuA } = await pair(BAD)
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
  })
})
