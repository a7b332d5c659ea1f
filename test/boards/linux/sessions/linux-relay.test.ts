/**
 * Two native runtimes, each a process with peers of its own: a client persists through one card
 * into a region of the other, and the cards speak in a session (R1-S13, R1-S15, X-1). The far one
 * is killed, starts again, and takes the near one off its list. They have a link of their own
 * between them, where every frame is seen. The program is the one that
 * `node build.mjs --board linux` made; without it this is skipped.
 */

import { afterEach, describe, expect, test } from 'vitest'
import { keyText } from '../../../../boards/software/keys.ts'
import type { Identity } from '../../../../firmware/board/hal.ts'
import { u16 } from '../../../../firmware/wire/bytes.ts'
import * as mad from '../../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../../firmware/wire/opcode.ts'
import { TRAILER_BYTES } from '../../../../firmware/wire/tag.ts'
import { connect, type Dpu, PerdureError, type Region } from '../../../../host-driver/index.ts'
import { identityFiles } from '../../../support/board/board.ts'
import { failure } from '../../../support/driver/failures.ts'
import { titled } from '../../../support/native/harness.ts'
import { PatchCable } from '../../../support/native/patch-cable.ts'
import { type Keys, noService, ServiceFolder } from '../../../support/native/service.ts'
import { PATIENCE_MS, PATIENT } from '../../../support/run/patience.ts'
import { ADMIN, CARD, peer } from '../../../support/sessions/peers.ts'
import { farIdentity, NEAR, RELAYING } from '../../../support/sessions/relay-inside.ts'

const SHAPE = { name: 'orders', slots: 16, capacity: 512 }
const FAR_KEY = keyText(CARD.public)
/** Bytes in front of BTH in a frame of IPv4 and in one of IPv6, and of BTH itself. */
const [BTH_IPV4, BTH_IPV6, BTH_BYTES] = [42, 62, 12] as const
const IPV6 = 0x86dd

const folders: ServiceFolder[] = []
const cables: PatchCable[] = []
const open: Dpu[] = []
afterEach(async () => {
  for (const dpu of open.splice(0)) await dpu.close()
  for (const one of cables.splice(0)) await one.close()
  for (const one of folders.splice(0)) await one.close()
})

/** A record of that slot and round: no other has these bytes. */
const record = (slot: number, round: number): Uint8Array =>
  Uint8Array.from({ length: SHAPE.capacity }, (_, i) => i * 7 + slot * 31 + round)

/** The card 10.0.0.last, fd00::last, which a kill takes what was not written back from. */
class Card {
  readonly folder = new ServiceFolder()
  private readonly keys: Keys
  private readonly cable: PatchCable
  private address = ''

  constructor(last: number, identity: Identity, cable: PatchCable) {
    folders.push(this.folder)
    this.cable = cable
    this.keys = {
      ...{ mac: `02:00:00:00:00:0${last}`, ipv4: `10.0.0.${last}`, ipv6: `fd00::${last}` },
      ...{ shadow: 'yes', 'memory-bytes': '4M', ...identityFiles(this.folder.path, identity) },
    }
  }

  /** Starts it, where it was before, and plugs it in. */
  async start(): Promise<this> {
    const port = /:(\d+)\/?/.exec(this.address.split('@').at(-1)!)?.[1] ?? 0
    const net = this.folder.at('net')
    const link = [`udp:127.0.0.1:${port}`, `stream:unix:${net}`]
    const { address } = await this.folder.serve({ ...this.keys, link })
    this.address = address
    await this.cable.plug(net)
    return this
  }

  async kill(): Promise<void> {
    await this.folder.runtimes.at(-1)!.end('SIGKILL')
  }

  /** An admin of it. */
  async come(): Promise<Dpu> {
    const patience = { ...PATIENT, reconnectTimeoutMs: PATIENCE_MS }
    const dpu = await connect(this.address, { ...patience, key: ADMIN.secret, warn: () => {} })
    open.push(dpu)
    return dpu
  }
}

interface Both {
  readonly cable: PatchCable
  readonly near: Card
  readonly far: Card
  readonly dpu: Dpu
}

/** Both cards serve; the far one has the region, and the near one may write it. */
async function both(far: Identity = farIdentity({ write: [SHAPE.name] })): Promise<Both> {
  const cable = new PatchCable()
  cables.push(cable)
  const [nearCard, farCard] = [new Card(2, NEAR, cable), new Card(3, far, cable)]
  await Promise.all([nearCard.start(), farCard.start()])
  const dpu = await nearCard.come()
  await dpu.format()
  const there = await farCard.come()
  await there.format()
  await there.provision(SHAPE)
  return { cable, near: nearCard, far: farCard, dpu }
}

/** The relay, however often an attempt ends because a busy machine gave a card no turn. */
async function attach(dpu: Dpu, address: string, name = 'orders'): Promise<Region> {
  const until = Date.now() + PATIENCE_MS
  for (;;) {
    try {
      return await dpu.attach({ name, region: SHAPE.name, address, cardKey: FAR_KEY })
    } catch (error) {
      const fault = error instanceof PerdureError && 'fault' in error ? error.fault : ''
      if (fault !== 'ATTACH_FAILED' || Date.now() > until) throw error
    }
  }
}

/** What goes over the cable is of management, and sealed; or a record, which has a tag. */
function nothingIsClear({ seen }: PatchCable, isIpv6: boolean): void {
  const bthAt = isIpv6 ? BTH_IPV6 : BTH_IPV4
  const packets = seen.filter((frame) => {
    return frame.length > bthAt + BTH_BYTES && u16(frame, 12) === (isIpv6 ? IPV6 : 0x0800)
  })
  const isCall = (frame: Uint8Array): boolean => frame[bthAt] === 0x64
  const at = bthAt + BTH_BYTES + 8
  const clear = packets.filter((frame) => isCall(frame) && !mad.isSealed(frame, at))
  const attributes = clear.map((frame) => u16(frame, at + mad.MAD_ATTRIBUTE))
  expect(new Set(attributes)).toEqual(new Set([mad.ATTRIBUTE_HANDSHAKE]))
  const records = packets.filter((frame) => frame[bthAt] === WRITE_PERSIST_ONLY)
  expect(records.length).toBeGreaterThanOrEqual(SHAPE.slots)
  for (const { length } of records) {
    // Headers of WRITE_PERSIST, its guard, the record, trailer, ICRC.
    expect(length - bthAt).toBe(BTH_BYTES + 36 + SHAPE.capacity + TRAILER_BYTES + 4)
  }
}

describe.skipIf(noService !== null)(titled('two perdureds with peers', noService), () => {
  test.each(['10.0.0.3', 'fd00::3'])(
    'X-1, R1-S13: a record that went through one to %s outlives a kill -9 of the other',
    async (address) => {
      const { cable, far, dpu } = await both()
      const relay = await attach(dpu, address)
      expect(relay.info).toMatchObject({ slots: 16, capacity: 512, copies: 2, name: 'orders' })
      for (let slot = 0; slot < SHAPE.slots; slot++) {
        const receipt = await relay.persist(slot, record(slot, 1)).persisted
        expect(receipt).toMatchObject({ copies: 2 })
      }
      await far.kill()
      nothingIsClear(cable, address.includes(':'))
      await far.start()
      const region = await (await far.come()).openRegion(SHAPE.name)
      for (let slot = 0; slot < SHAPE.slots; slot++) {
        expect((await region.read(slot)).data).toEqual(record(slot, 1))
      }
      // The client goes on by itself, in another session of its card with the far one.
      await relay.persist(3, record(3, 2)).persisted
      expect((await region.read(3)).data).toEqual(record(3, 2))
    },
  )

  test('D-6: what is under way when the near one is killed is there once', async () => {
    const { near, far, dpu } = await both()
    const relay = await attach(dpu, '10.0.0.3')
    const under = Array.from({ length: SHAPE.slots }, (_, slot) => {
      return relay.persist(slot, record(slot, 1)).persisted
    })
    await Promise.race(under)
    await near.kill()
    await near.start()
    await Promise.all(under)
    const batch = relay.batch({ condition: 'inOrder' })
    for (let slot = 0; slot < 8; slot++) batch.persist(slot, record(slot, 2))
    expect(await batch.commit()).toMatchObject({ all: true, durable: 8 })
    const region = await (await far.come()).openRegion(SHAPE.name)
    for (let slot = 0; slot < SHAPE.slots; slot++) {
      expect((await region.read(slot)).data).toEqual(record(slot, slot < 8 ? 2 : 1))
    }
  })

  test('RELAY_REFUSED: the far one has no line for the near one, or has one no more', async () => {
    const { far, dpu } = await both(farIdentity(null))
    expect(await failure(attach(dpu, '10.0.0.3'))).toMatchObject({ fault: 'RELAY_REFUSED' })
    const admin = await far.come()
    const line = { ...peer('near', RELAYING, { write: [SHAPE.name] }), key: RELAYING.public }
    await admin.addPeer(line)
    const relay = await attach(dpu, '10.0.0.3')
    await relay.persist(1, record(1, 1)).persisted
    await admin.removePeer(RELAYING.public)
    const more = (): Promise<unknown> => failure(attach(dpu, '10.0.0.3', 'more'))
    expect(await more()).toMatchObject({ fault: 'RELAY_REFUSED' })
    // It stays so behind a restart, as the list is that of the file.
    await far.kill()
    await far.start()
    expect(await more()).toMatchObject({ fault: 'RELAY_REFUSED' })
  })
})
