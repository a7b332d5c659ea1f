/**
 * A driver with a key, over each way to a card with peers (R1-S13): over frames, and behind the
 * card of its own host. Its records go on when the card has started again.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { connect, type Dpu } from '../../../host-driver/index.ts'
import { type OpenWay, openWay, type WayName } from '../../support/driver/ways.ts'
import { endpointOf } from '../../support/peers/network.ts'
import { IDENTITY } from '../../support/sessions/closed-card.ts'
import { ADMIN, CARD, WRITER } from '../../support/sessions/peers.ts'

const BYTES = new Uint8Array(64).fill(0x5a)
const open: OpenWay[] = []
const dpus: Dpu[] = []

afterEach(async () => {
  for (const dpu of dpus.splice(0)) await dpu.close()
  for (const way of open.splice(0)) await way.close()
})

/** The way of an admin to a card with peers; the card of the host has the same. */
async function enter(name: WayName): Promise<OpenWay> {
  const keys = { key: ADMIN.secret, cardKey: CARD.public, warn: (): void => {} }
  const way = await openWay(name, { connect: keys, card: { facts: { identity: IDENTITY } } })
  open.push(way)
  return way
}

describe.each(['frames', 'behind'] as const)('%s', (name) => {
  test('R1-S13: a session is made, and again when the card has started anew', async () => {
    const way = await enter(name)
    await way.dpu.format()
    await way.dpu.close()
    const keys = { key: WRITER.secret, cardKey: CARD.public, seed: 5, warn: (): void => {} }
    const admin = { ...keys, key: ADMIN.secret, seed: 6 }
    const target = way.device ?? way.room.addHost()
    const where = { peer: endpointOf(2) }
    const again = await connect(target, { ...where, ...admin })
    dpus.push(again)
    await again.provision({ name: 'records', slots: 8, capacity: 64 })
    const dpu = await connect(way.device ?? way.room.addHost(), { ...where, ...keys })
    dpus.push(dpu)
    const region = await dpu.openRegion('records')
    expect((await region.persist(3, BYTES).persisted).copies).toBe(2)
    await way.restart()
    expect((await region.persist(4, BYTES).persisted).copies).toBe(2)
    expect((await region.read(3)).data).toEqual(BYTES)
    expect((await again.status()).state).toBe('serving')
  })
})
