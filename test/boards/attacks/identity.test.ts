/**
 * Who says that he is another: what belongs to a client, a queue pair, a connection, a port, is his
 * who asks from the address that it was made from. Everybody else is told nothing of it, and ends
 * nothing, even where he knows every number of it.
 */

import { describe, expect, test } from 'vitest'
import { blankCapability, writeCapability } from '../../../firmware/wire/capability.ts'
import * as wire from '../../../firmware/wire/cm.ts'
import {
  blankLibrpma,
  type LibrpmaDescriptor,
  readLibrpma,
} from '../../../firmware/wire/librpma.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type Address, overVersion6 } from '../../support/attacks/address.ts'
import { type Arena, NOTES, onEveryBoard, record } from '../../support/attacks/arena.ts'
import {
  attributesOf,
  type CmConnection,
  cmClient,
  cmConnect,
  cmRequest,
  goodbye,
} from '../../support/attacks/cm-station.ts'
import { contentOf, type Station } from '../../support/attacks/station.ts'
import { readFrame } from '../../support/wire/conversation.ts'
import { hexOf } from '../../support/wire/frames.ts'

const BYTES = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096 }
const OTHER = { name: 'other bytes', kind: mad.KIND_BYTES, length: 4096 }

/** The address that an attacker says, by those of the victim and of himself. */
type Forged = (victim: Address, eve: Address) => Address

/** The next port. */
let ports = 7204

onEveryBoard((arena) => {
  describe('queue pairs', () => describeQueuePairs(arena))
  describe('connections of RDMA-CM', () => describeConnections(arena))
  describe('ports', () => describePorts(arena))
})

function describeQueuePairs(arena: () => Arena): void {
  test.each<[string, number, Forged]>([
    ['0', 0, (_, eve) => eve],
    ['that was drawn', 0x51, (_, eve) => eve],
    ['0, and his IPv4 address,', 0, ({ ip }, { mac }) => ({ mac, ip })],
    ['0, and his Ethernet address,', 0, ({ mac }, { ip }) => ({ mac, ip })],
  ])(
    'R1-S5: with number and id %s of a client nobody else is told its queue pair',
    async (_, clientHigh, forged) => {
      const station = await arena().station()
      const fields = { qpn: 17, clientHigh, clientLow: clientHigh === 0 ? 0 : 0x1234 }
      const qp = await station.connect({ ...fields, mtu: 1024 })
      const eve = await arena().station()
      const told = await eve.tryConnect(fields, forged(station.address, eve.address))
      if (told.fault === 'PASS') {
        expect(told.qp.number).not.toBe(qp.number)
        expect(told.qp.psn).not.toBe(qp.psn)
      }
      // It is the victim's still, at the PSN that it was.
      const notes = await station.region(NOTES.name)
      const acks = await station.persist(qp, notes, 1, record(1))
      expect(acks).toMatchObject([{ status: 0 }])
    },
  )

  test('R1-S5: who asks again from where he asked is told the same', async () => {
    const station = await arena().station()
    const fields = { qpn: 18, clientHigh: 0, clientLow: 0 }
    const { number, psn } = await station.connect(fields)
    expect(await station.connect(fields)).toMatchObject({ number, psn })
  })

  test.each<[string, Forged]>([
    ['elsewhere', (_, eve) => eve],
    ['another IPv4 address', ({ mac }, { ip }) => ({ mac, ip })],
    ['the same address over IPv6', overVersion6],
  ])('R1-S5: DISCONNECT from %s ends nothing of a client', async (_, forged) => {
    const { station, qp, notes } = await arena().client()
    expect(await station.persist(qp, notes, 2, record(2))).toMatchObject([{ status: 0 }])
    const eve = await arena().station()
    await eve.disconnect(qp, forged(station.address, eve.address))
    expect(hexOf((await station.read(qp, notes, 2, 64))!)).toBe(hexOf(record(2)))
  })

  test('R1-S5: nor does one from its own address that does not name its own number', async () => {
    const { station, qp, notes } = await arena().client()
    expect(await station.persist(qp, notes, 2, record(2))).toMatchObject([{ status: 0 }])
    const { address } = station
    const eve = await arena().station()
    for (let bit = 0; bit < 24; bit++) {
      await eve.disconnect(
        { ...qp, peer: qp.peer ^ (1 << bit) },
        { ...eve.address, ip: address.ip },
      )
    }
    expect(hexOf((await station.read(qp, notes, 2, 64))!)).toBe(hexOf(record(2)))
  })
}

/** Where the region of a port is, as a REP tells. */
function placeIn({ rep }: CmConnection): LibrpmaDescriptor {
  const place = blankLibrpma()
  expect(readLibrpma(place, rep.privateData, 0)).toBe(true)
  return place
}

function describeConnections(arena: () => Arena): void {
  /** Somebody publishes, and the victim is connected. */
  async function connected(): Promise<{ station: Station; own: CmConnection; port: number }> {
    const owner = await arena().station()
    await owner.provision(BYTES)
    const port = ports++
    expect((await owner.publish(BYTES.name, port)).fault).toBe('PASS')
    const station = await arena().station()
    return { station, own: await cmConnect(station, port), port }
  }

  /** The connection serves as before, and its client is told nothing else. */
  async function lives(station: Station, own: CmConnection, place = placeIn(own)): Promise<void> {
    const { addressHigh, addressLow, rkey } = place
    const sent = await station.ask([readFrame(own.qp, rkey, addressHigh, addressLow, 8)])
    expect(attributesOf(sent)).toEqual([])
    expect(contentOf(sent, own.qp)).toHaveLength(8)
  }

  test('R1-S5: a client of RDMA-CM, whose id is 0, is told to nobody by its number', async () => {
    const { station, own } = await connected()
    const eve = await arena().station()
    const { fault, qp } = await eve.tryConnect({ qpn: own.qp.peer, clientHigh: 0, clientLow: 0 })
    if (fault === 'PASS') {
      expect(qp.number).not.toBe(own.qp.number)
      expect(qp.psn).not.toBe(own.qp.psn)
    }
    await lives(station, own)
  })

  test('R1-S5: nor is its queue pair ended by DISCONNECT from another address', async () => {
    const { station, own } = await connected()
    await (await arena().station()).disconnect(own.qp)
    await lives(station, own)
  })

  test('R1-S5: nor by one that says its address: such numbers are no secret', async () => {
    const { station, own } = await connected()
    await (await arena().station()).disconnect(own.qp, station.address)
    await lives(station, own)
  })

  test('R1-S5: DREQ from another address ends no connection, whatever it knows', async () => {
    const { station, own } = await connected()
    const eve = await arena().station()
    await eve.ask([goodbye(own)])
    await lives(station, own)
  })

  test.each<[string, Forged]>([
    ['elsewhere', (_, eve) => eve],
    ['another Ethernet address', ({ ip }, { mac }) => ({ mac, ip })],
    ['its own address, forged,', (victim) => victim],
  ])('R1-S5: REQ in the name of a client from %s ends nothing of his', async (_, forged) => {
    const { station, own, port } = await connected()
    const eve = await arena().station()
    const source = forged(station.address, eve.address)
    // Linux counts its queue pairs from 17 on; the GUID follows from the Ethernet address.
    const sameQp = cmClient(eve, { qpn: own.client.qpn })
    await eve.ask([cmRequest(sameQp, port, source, guidOf(station.address))], source)
    await lives(station, own)
  })

  test('R1-S5: nor does one that knows its communication id, from another address', async () => {
    const { station, own, port } = await connected()
    const eve = await arena().station()
    for (const client of [cmClient(eve, { localId: own.client.localId }), own.client]) {
      await eve.ask([cmRequest(client, port, eve.address, guidOf(station.address))])
      await lives(station, own)
    }
  })

  test('R1-S5: nor where it says that this client has started again since', async () => {
    const { station, own, port } = await connected()
    const place = placeIn(own)
    const newer = await cmConnect(station, port, started(1))
    const eve = await arena().station()
    const guid = guidOf(station.address)
    await eve.ask([cmRequest(cmClient(eve), port, eve.address, { ...started(9), ...guid })])
    await lives(station, newer, place)
    await lives(station, own)
  })
}

/** The GUID of a client's card, as everybody can derive it. */
function guidOf({ mac }: Address): Partial<wire.CmReq> {
  return { guidHigh: wire.guidHigh(mac), guidLow: wire.guidLow(mac) }
}

/** A capability block of a client in that incarnation. */
function started(incarnation: number): Partial<wire.CmReq> {
  const privateData = new Uint8Array(wire.PRIVATE_BYTES_REQ)
  const block = { ...blankCapability(), features: 1, clientLow: 0x77, incarnation }
  writeCapability(privateData, wire.IP_CM_USER, block)
  return { privateData }
}

function describePorts(arena: () => Arena): void {
  /** A port of the owner's, who is connected. */
  async function published(): Promise<{ owner: Station; port: number; rkey: number }> {
    const owner = await arena().station()
    await owner.connect()
    await owner.provision(BYTES)
    await owner.provision(OTHER)
    const port = ports++
    expect((await owner.publish(BYTES.name, port)).fault).toBe('PASS')
    return { owner, port, rkey: (await owner.region(BYTES.name)).rkey }
  }

  /** The key that a client of the port is told. */
  async function offered(port: number): Promise<number> {
    const client = await arena().station()
    return placeIn(await cmConnect(client, port)).rkey
  }

  test('R1-S4: a port that is taken does not come to point to another region', async () => {
    const { port, rkey } = await published()
    const eve = await arena().station()
    await eve.connect()
    for (const form of [mad.FORM_LIBRPMA, mad.FORM_CAPABILITY, mad.FORM_ANNOUNCED]) {
      expect((await eve.publish(OTHER.name, port, form)).fault).toBe('PORT_TAKEN')
    }
    expect(await offered(port)).toBe(rkey)
  })

  test('R1-S4: nor is it withdrawn from another address', async () => {
    const { port, rkey } = await published()
    const eve = await arena().station()
    await eve.connect()
    for (const name of ['', BYTES.name]) {
      expect((await eve.publish(name, port, mad.FORM_NONE)).fault).toBe('PORT_TAKEN')
    }
    expect(await offered(port)).toBe(rkey)
  })

  test('R1-S4: nor by who sends from the IPv4 address of its publisher alone', async () => {
    const { owner, port, rkey } = await published()
    const eve = await arena().station()
    const source = { mac: eve.address.mac, ip: owner.address.ip }
    await eve.publish(OTHER.name, port, mad.FORM_LIBRPMA, source).catch(() => {})
    await eve.publish('', port, mad.FORM_NONE, source).catch(() => {})
    expect(await offered(port)).toBe(rkey)
  })

  test('R1-S4: who has published a port may change it, withdraw it, and it is free', async () => {
    const { owner, port } = await published()
    expect((await owner.publish(BYTES.name, port)).fault).toBe('PASS')
    expect((await owner.publish(OTHER.name, port)).fault).toBe('PASS')
    expect((await owner.publish('', port, mad.FORM_NONE)).fault).toBe('PASS')
    const eve = await arena().station()
    expect((await eve.publish(OTHER.name, port)).fault).toBe('PASS')
    expect((await eve.publish('', port, mad.FORM_NONE)).fault).toBe('PASS')
  })
}
