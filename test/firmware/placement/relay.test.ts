/**
 * Two hosts and two DPUs: host A persists through DPU A to DPU B, over a network that loses,
 * repeats and reorders frames everywhere. Host B looks at what DPU B has.
 */

import { describe, expect, test } from 'vitest'
import {
  DDIO_OFF,
  DDIO_ON,
  type EmulatedDpu,
  EmulatedPort,
  type Engine,
  HostMemory,
  HostRam,
  HostSide,
  Nvdimm,
} from '../../../boards/emulator/index.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { RELAYS, STAGING_TIMEOUT_US } from '../../../firmware/board/limits.ts'
import { openPair, takeStaging } from '../../../firmware/burst/staging.ts'
import { createState } from '../../../firmware/main.ts'
import type { Psn } from '../../../firmware/transport/psn.ts'
import { MESSAGE_PERSIST } from '../../../firmware/transport/queue-pair.ts'
import { putU16 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_LAST } from '../../../firmware/wire/opcode.ts'
import { startFlushAgent } from '../../../host-driver/card/agent-queues.ts'
import { PcieDevice } from '../../../host-driver/card/device.ts'
import { connect, type Dpu, probePlacement, type Region } from '../../../host-driver/index.ts'
import { FACTS, sentOf, TestCard } from '../../support/cards/test-card.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import { divided, THOROUGH } from '../../support/run/thorough.ts'
import { isRoce } from '../../support/wire/frames.ts'

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

/** Where the region of DPU B lies, on what platform, and what makes it durable there. */
const PLACES = {
  local: { platform: null, mechanism: 'localFlush' },
  bypass: { platform: DDIO_OFF, mechanism: 'lsbRead' },
  through: { platform: DDIO_ON, mechanism: 'cpuFlush' },
} as const
type Place = keyof typeof PLACES

/** DPU B has a region and publishes it; DPU A offers it to host A. */
async function pair(
  faults = {},
  engine: Engine = 'node',
  placement: Place = 'local',
  latencyUs = 2,
): Promise<Pair> {
  const network = new Network({ seed: SEED, faults, latencyUs })
  const cardA = await network.addDpu(2, { engine })
  const { platform } = PLACES[placement]
  const part = new Nvdimm({ bytes: 1 << 18 })
  const host = platform === null ? null : new HostMemory({ part, platform })
  const ram = new HostRam(1 << 20, host?.link)
  const port = new EmulatedPort({ ram, clock: network.clock })
  const cardB = await network.addDpu(3, { engine, port, ...(host === null ? {} : { host }) })
  network.clock.start()
  const dpuB = await connect(network.addHost(), { seed: SEED + 1, peer: endpointOf(3) })
  await dpuB.format()
  if (host !== null) await register(new HostSide(cardB, host), port, dpuB)
  const region = await dpuB.provision({ name: 'orders', slots: 64, capacity: 1000, placement })
  await dpuB.publish({ name: 'orders', port: PORT, form: 'capability' })
  const dpuA = await connect(network.addHost(), { seed: SEED + 2, peer: endpointOf(2) })
  await dpuA.format()
  const relay = await dpuA.attach({ name: 'orders', address: '10.0.0.3', port: PORT })
  return { network, cardA, cardB, dpuA, relay, dpuB, region }
}

/** Host B probes, and serves as flush agent where its caches are in between. */
async function register(side: HostSide, port: EmulatedPort, dpu: Dpu): Promise<void> {
  const { placement } = await probePlacement(side, dpu.host)
  if (placement !== 'through') return
  await startFlushAgent(side, dpu.host, await PcieDevice.open(port, { seed: SEED }))
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

  const ways = (['local', 'bypass', 'through'] as const).flatMap((placement) =>
    (['node', 'quickjs'] as const).map((engine) => [placement, engine] as const),
  )

  for (const { rows, options } of divided(
    ways,
    ([placement, engine]) => placement !== 'local' || engine !== 'node',
  )) {
    test.each(rows)(
      `keeps every record over a bad network: %s, %s (seed ${SEED})`,
      options,
      async (placement, engine) => {
        const { relay, region, dpuA } = await pair(BAD, engine, placement)
        const last = new Map<number, Uint8Array>()
        for (let round = 0; round < 4; round++) {
          const writes = []
          for (let slot = 0; slot < 64; slot++) {
            const bytes = record(slot, round)
            last.set(slot, bytes)
            writes.push(relay.persist(slot, bytes).persisted)
          }
          for (const receipt of await Promise.all(writes)) {
            expect(receipt).toMatchObject({ copies: 2, mechanism: PLACES[placement].mechanism })
          }
        }
        for (const [slot, bytes] of last) expect((await region.read(slot)).data).toEqual(bytes)
        expect(dpuA.statistics().retransmissions).toBeGreaterThan(0)
      },
    )
  }

  test.each(['local', 'bypass', 'through'] as const)(
    `S1-M5, P4-9: batches, relayed and straight, over a bad network, to %s (seed ${SEED})`,
    async (placement) => {
      const { relay, region } = await pair(BAD, 'node', placement)
      const conditions = (['independent', 'inOrder', 'expect'] as const).flatMap((condition) =>
        [relay, region].map((way) => [condition, way] as const),
      )
      for (const [round, [condition, way]] of conditions.entries()) {
        const batch = way.batch({ condition })
        for (let slot = 0; slot < 64; slot++) {
          const { sequence } = await region.read(slot)
          const expects = condition === 'expect' ? { expect: sequence } : {}
          batch.persist(slot, record(slot, round), expects)
        }
        const outcome = await batch.commit()
        expect(outcome).toMatchObject({ all: true, durable: 64 })
        for (const one of outcome.records) {
          const { mechanism } = PLACES[placement]
          expect(one).toMatchObject({ status: 'durable', receipt: { copies: 2, mechanism } })
        }
        for (let slot = 0; slot < 64; slot++) {
          expect((await region.read(slot)).data).toEqual(record(slot, round))
        }
      }
    },
  )

  for (const victim of ['A', 'B', 'both'] as const) {
    test(
      `loses nothing when the power of ${victim} goes in between (seed ${SEED})`,
      THOROUGH,
      async () => {
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
      },
    )
  }

  test('X-1: takes no record of another client: it would pass for a repetition', async () => {
    const { network, relay, region } = await pair()
    await relay.persist(1, record(1, 1)).persisted
    const other = await connect(network.addHost(), { seed: 77, peer: endpointOf(2) })
    const same = await other.openRegion('orders')
    await expect(same.persist(2, record(2, 1)).persisted).rejects.toMatchObject({
      status: 'REM_ACCESS_ERR',
    })
    expect((await region.read(2)).written).toBe(false)
    await relay.persist(2, record(2, 2)).persisted
    expect((await region.read(2)).data).toEqual(record(2, 2))
  })

  test('X-1: a record whose relay ends as it comes goes by no other one', async () => {
    const { network, dpuA, dpuB, region } = await pair()
    const { clock } = network
    const wire = network.addHost()
    let loses = true
    const send = (frame: Uint8Array): void => {
      const isLast = isRoce(frame) && sentOf(frame).opcode === WRITE_PERSIST_LAST
      if (!isLast || !loses) wire.send(frame)
    }
    const peer = endpointOf(2)
    const host = await connect({ ...wire, send }, { seed: 6, peer, pathMtu: 256 })
    const relay = await host.attach({ name: 'mine', address: '10.0.0.3', port: PORT })
    const bytes = record(5, 1).slice(0, 500)
    const write = relay.persist(5, bytes)
    await new Promise<void>((resolve) => clock.schedule(clock.nowUs + 1000, resolve))
    const other = await dpuB.provision({ name: 'other', slots: 64, capacity: 1000 })
    await dpuB.publish({ name: 'other', port: PORT + 1, form: 'capability' })
    await dpuA.detach('mine')
    await dpuA.attach({ name: 'theirs', address: '10.0.0.3', port: PORT + 1 })
    loses = false
    await expect(write.persisted).rejects.toMatchObject({ fault: 'STAGING' })
    for (const there of [region, other]) expect((await there.read(5)).written).toBe(false)
    const again = await host.attach({ name: 'mine', address: '10.0.0.3', port: PORT })
    await again.persist(5, bytes).persisted
    expect((await region.read(5)).data).toEqual(bytes)
  })

  test('keeps its way to the other DPU, however many clients are confirmed', async () => {
    const { network, relay, dpuA } = await pair()
    await dpuA.provision({ name: 'own', slots: 2, capacity: 8 })
    await relay.persist(1, record(1, 1)).persisted
    for (let i = 0; i < 20; i++) {
      const other = await connect(network.addHost(), { seed: 100 + i, peer: endpointOf(2) })
      await other.send(Uint8Array.of(i), { solicited: true })
      expect((await other.messages.next()).bytes).toEqual(Uint8Array.of(i))
    }
    await relay.persist(2, record(2, 1)).persisted
  })

  test('X-1: a confirmation waits for records that become durable elsewhere', async () => {
    const { relay, dpuA } = await pair({}, 'node', 'local', 5000)
    const told: string[] = []
    void relay.persist(1, record(1, 1)).persisted.then(() => told.push('durable'))
    void dpuA.send(Uint8Array.of(1), { solicited: true })
    await dpuA.messages.next()
    told.push('confirmed')
    expect(told).toEqual(['durable', 'confirmed'])
  })

  test("a buffer whose record is on its way is nobody else's, also when its sender stalls", () => {
    const card = new EmulatedMachine({
      facts: { ...FACTS, nvdimmBytes: 1 << 18 },
      nvdimm: new Nvdimm({ bytes: 1 << 18 }),
      transmit: () => {},
    })
    const state = createState(card)
    const [sender, other] = [0, 1].map((place) =>
      openPair(state, place, {
        ...{ peerNumber: 2 + place, clientHigh: 0, clientLow: 1, pathMtu: 1024 },
        ...{ protectionDomain: 0, expectedPsn: 0 as Psn },
      }),
    )
    expect(takeStaging(state, sender!)).toBe(true)
    const passenger = sender!.staging
    sender!.staging = -1
    expect(takeStaging(state, sender!)).toBe(true)
    sender!.message = MESSAGE_PERSIST
    state.connections.nowUs = 2 * STAGING_TIMEOUT_US
    expect(takeStaging(state, other!)).toBe(true)
    expect(other!.staging).not.toBe(passenger)
    expect(state.stagingOwner[passenger]).toBe(sender!.index)
  })

  test('attempts that failed, and that nobody asks about again, keep no place', () => {
    const card = new TestCard(1 << 18).format()
    const attach = (name: string): string =>
      card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
        body.set(new TextEncoder().encode(name), mad.REGION_NAME)
        body[mad.ATTACH_IP_VERSION] = 4
        body.set([10, 0, 0, 99], mad.ATTACH_ADDRESS)
        putU16(body, mad.ATTACH_PORT, PORT)
      }).fault
    for (let round = 0; round < 3; round++) {
      for (let i = 0; i < RELAYS; i++) expect(attach(`${round} ${i}`)).toBe('CONNECTING')
      expect(attach('one more')).toBe('REGIONS_FULL')
      for (let s = 0; s < 12; s++) card.pass(1_000_000)
    }
    expect(attach('2 1')).toBe('ATTACH_FAILED')
  })

  test('goes on by itself after the other DPU was away', THOROUGH, async () => {
    const { relay, network, cardB, dpuB } = await pair()
    await relay.persist(1, record(1, 1)).persisted
    const { clock } = network
    const later = (us: number): Promise<void> =>
      new Promise((resolve) => clock.schedule(clock.nowUs + us, resolve))
    cardB.powerCut({ strategy: 'none' })
    // Long enough for DPU A to find out, as something is asked of it in between.
    const write = relay.persist(1, record(1, 2))
    await later(8_000_000)
    await cardB.powerOn()
    await dpuB.publish({ name: 'orders', port: PORT, form: 'capability' })
    await write.persisted
    await relay.persist(2, record(2, 1)).persisted
    const region = await dpuB.openRegion('orders')
    expect((await region.read(1)).data).toEqual(record(1, 2))
    expect((await region.read(2)).data).toEqual(record(2, 1))
  })

  test('X-7: refusals of the other DPU arrive as they are', async () => {
    const { relay, cardB } = await pair()
    await relay.persist(0, new Uint8Array(8)).persisted
    cardB.nvdimm.armed = false
    await expect(relay.persist(0, new Uint8Array(8)).persisted).rejects.toMatchObject({
      fault: 'NOT_ARMED',
    })
  })

  test('X-7: what cannot be attached says why', THOROUGH, async () => {
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
    await expect(
      dpuA.publish({ name: 'orders', port: PORT, form: 'capability' }),
    ).rejects.toMatchObject({ fault: 'REQUEST' })
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
