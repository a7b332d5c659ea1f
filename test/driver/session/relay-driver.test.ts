/**
 * Host A persists through card A to card B in sessions all the way, over a network that loses,
 * repeats and reorders frames: records, batches, queries, cards that go off, peers that come and go
 * (X-1, X-3, D-6, R1-S13).
 */

import { describe, expect, test } from 'vitest'
import { type EmulatedDpu, type Engine, Nvdimm } from '../../../boards/emulator/index.ts'
import { keyText } from '../../../boards/software/keys.ts'
import * as primitives from '../../../boards/software/noise-primitives.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import { relayedClient } from '../../../firmware/session/relayed.ts'
import { keptAttachment } from '../../../host-driver/control/attachment.ts'
import { connect, type Dpu, PerdureError, type Region } from '../../../host-driver/index.ts'
import { endpointOf, Network } from '../../support/peers/network.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { KeptPeers } from '../../support/sessions/kept-peers.ts'
import { ADMIN, CARD, peer } from '../../support/sessions/peers.ts'
import { farIdentity, NEAR, RELAYING } from '../../support/sessions/relay-inside.ts'

const SEED = Number(process.env.SEED ?? 23)
const BAD = { loss: 0.05, duplication: 0.05, reordering: 0.05 }
const FAR_KEY = keyText(CARD.public)
const ATTACHMENT = { name: 'orders', address: '10.0.0.3', cardKey: FAR_KEY } as const

interface Pair {
  readonly network: Network
  readonly cardA: EmulatedDpu
  readonly cardB: EmulatedDpu
  readonly dpuA: Dpu
  readonly dpuB: Dpu
  readonly region: Region
}

/** Both cards have peers; card A may write `orders` at card B, unless it is told otherwise. */
async function pair(
  faults = {},
  engine: Engine = 'node',
  far: Identity = farIdentity({ write: ['orders'] }),
): Promise<Pair> {
  const network = new Network({ seed: SEED, faults, latencyUs: 2 })
  const part = (): Nvdimm => new Nvdimm({ bytes: 1 << 18 })
  const options = { nvdimm: part(), engine, peers: new KeptPeers(NEAR) }
  const cardA = await network.addDpu(2, options)
  const cardB = await network.addDpu(3, { nvdimm: part(), engine, peers: new KeptPeers(far) })
  network.clock.start()
  const as = { key: ADMIN.secret, warn: () => {} }
  const there = { ...as, seed: SEED + 1, peer: endpointOf(3), cardKey: FAR_KEY }
  const dpuB = await connect(network.addHost(), there)
  await dpuB.format()
  const region = await dpuB.provision({ name: 'orders', slots: 64, capacity: 1000 })
  const cardKey = keyText(RELAYING.public)
  const own = { ...as, seed: SEED + 2, peer: endpointOf(2), cardKey }
  const dpuA = await connect(network.addHost(), own)
  await dpuA.format()
  return { network, cardA, cardB, dpuA, dpuB, region }
}

function record(slot: number, round: number): Uint8Array {
  const length = 1 + ((slot * 137 + round * 71) % 1000)
  return Uint8Array.from({ length }, (_, i) => (i * 7 + slot * 31 + round) & 0xff)
}

/** The id that the client of card A has at card B. */
function idThere(dpu: Dpu): bigint {
  const { clientId } = dpu
  const [high, low] = [Number(clientId >> 32n), Number(clientId & 0xffffffffn)]
  const there = relayedClient(primitives, RELAYING, high, low)
  return (BigInt(there.clientHigh) << 32n) | BigInt(there.clientLow)
}

describe('a relay in a session of the other card', () => {
  test.each(['node', 'quickjs'] as const)(
    `keeps every record and every batch, over a bad network: %s (seed ${SEED})`,
    async (engine) => {
      const { dpuA, region } = await pair(BAD, engine)
      const relay = await dpuA.attach(ATTACHMENT)
      expect(relay.info).toMatchObject({ slots: 64, capacity: 1000, copies: 2, name: 'orders' })
      const writes = Array.from({ length: 64 }, (_, slot) => {
        return relay.persist(slot, record(slot, 1)).persisted
      })
      for (const receipt of await Promise.all(writes)) {
        expect(receipt).toMatchObject({ copies: 2, mechanism: 'localFlush' })
      }
      for (let slot = 0; slot < 64; slot++) {
        const { data, clientId } = await region.read(slot)
        expect(data).toEqual(record(slot, 1))
        expect(clientId).toBe(idThere(dpuA))
      }
      const batch = relay.batch({ condition: 'inOrder' })
      for (let slot = 0; slot < 64; slot++) batch.persist(slot, record(slot, 2))
      expect(await batch.commit()).toMatchObject({ all: true, durable: 64 })
      for (let slot = 0; slot < 64; slot++) {
        expect((await region.read(slot)).data).toEqual(record(slot, 2))
      }
    },
  )

  for (const victim of ['A', 'B', 'both'] as const) {
    test(
      `X-3, D-6: loses and repeats nothing when ${victim} goes off (seed ${SEED})`,
      THOROUGH,
      async () => {
        const { dpuA, dpuB, network, cardA, cardB } = await pair(BAD)
        const relay = await dpuA.attach(ATTACHMENT)
        const id = idThere(dpuA)
        const writes: Promise<unknown>[] = []
        for (let round = 1; round <= 3; round++) {
          for (let slot = 0; slot < 32; slot++) {
            writes.push(relay.persist(slot, record(slot, round)).persisted)
          }
        }
        const victims = victim === 'A' ? [cardA] : victim === 'B' ? [cardB] : [cardA, cardB]
        network.clock.schedule(network.clock.nowUs + 400, () => {
          for (const card of victims) {
            card.powerCut({ strategy: 'none' })
            network.clock.schedule(network.clock.nowUs + 50_000, () => void card.powerOn())
          }
        })
        await Promise.all(writes)
        const region = await dpuB.openRegion('orders')
        for (let slot = 0; slot < 32; slot++) {
          const { data, clientId } = await region.read(slot)
          expect(data).toEqual(record(slot, 3))
          expect(clientId).toBe(id)
        }
      },
    )
  }

  test('ends with the line of the relaying card, and says why to who asks again', async () => {
    const { dpuA, dpuB } = await pair()
    const relay = await dpuA.attach(ATTACHMENT)
    await relay.persist(1, record(1, 1)).persisted
    await dpuB.removePeer(RELAYING.public)
    // Under another name: the link that there is has still to find out.
    const more = { ...ATTACHMENT, name: 'more', region: 'orders' }
    await expect(dpuA.attach(more)).rejects.toMatchObject({ fault: 'RELAY_REFUSED' })
    await dpuB.addPeer({ ...peer('near', RELAYING, { write: ['orders'] }), key: RELAYING.public })
    const again = await dpuA.attach(more)
    await again.persist(2, record(2, 2)).persisted
  })
})

test('what no card could attach is refused before anything is asked', () => {
  const from = { name: 'orders', address: '10.0.0.3' }
  const refused = (more: object): string => {
    try {
      keptAttachment({ ...from, ...more })
    } catch (error) {
      if (error instanceof PerdureError) return `${error.code}: ${error.message}`
    }
    return 'taken'
  }
  expect(refused({})).toMatch(/^PERDURE_ARGUMENT: .*give cardKey, .*or port/)
  expect(refused({ port: 7300, cardKey: FAR_KEY })).toMatch(/^PERDURE_ARGUMENT: .*one of them/)
  expect(refused({ port: 7300, region: 'x' })).toMatch(/^PERDURE_ARGUMENT: .*goes with cardKey/)
  expect(refused({ cardKey: '12' })).toMatch(/^PERDURE_ARGUMENT: cardKey: .*64 hexadecimal digits/)
  expect(refused({ cardKey: new Uint8Array(32) })).toMatch(/^PERDURE_ARGUMENT: cardKey: nobody has/)
  expect(refused({ port: 7300 })).toBe('taken')
  expect(keptAttachment({ ...from, cardKey: CARD.public, region: 'x' })).toEqual({
    ...{ ...from, cardKey: FAR_KEY, region: 'x' },
  })
})
