/**
 * What control calls tell, and let be done, depends on where they come from: keys, connections of
 * others, ports of others (R1-S1, R1-S4, R1-S5). A stranger here is another machine, or one that
 * forges addresses.
 */

import { describe, expect, test } from 'vitest'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  regionOf,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { PLACES_ALONE, Stranger, sentBy } from '../../support/peers/strangers.ts'
import { writeIcrc } from '../../support/wire/frames.ts'

const NO_KEY = new Uint8Array(16)
const PORT = 7204
const STATION = [2, 0x66, 0x66, 0, 0, 1]

function served(): TestCard {
  const card = new TestCard(new Nvdimm({ bytes: 1 << 20 })).format()
  card.provision()
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
  return card
}

/** The frame as another station sends it, with the addresses of IP as they are. */
function fromStation(frame: Uint8Array): Uint8Array {
  const copy = frame.slice()
  copy.set(STATION, 6)
  writeIcrc(copy)
  return copy
}

/** Station to which the last answer went. */
function stationOf(card: TestCard): number[] {
  return [...card.sent.at(-1)!.bytes.subarray(0, 6)]
}

function openFrame(card: TestCard, name: string): Uint8Array {
  return card.callFrame(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
    body.set(Buffer.from(name), mad.REGION_NAME)
  })
}

describe('keys', () => {
  test('R1-S1: a datagram is told of a region, and no key of it; a connection is', () => {
    const card = served()
    const { rkey, key } = card.open()
    for (const eve of [new Stranger(card, 66), new Stranger(card, 66, 6)]) {
      const { fault, body } = eve.manage(mad.METHOD_GET, mad.ATTRIBUTE_REGION)
      expect(fault).toBe('PASS')
      for (const told of [eve.openAsIs('records'), regionOf(body)]) {
        expect(told).toMatchObject({ name: 'records', rkey: 0, key: NO_KEY, slots: 8, copies: 2 })
      }
      const made = eve.provisionAsIs()
      expect(made.fault).toBe('PASS')
      expect(regionOf(made.body)).toMatchObject({ rkey: 0, key: NO_KEY })
      eve.connect()
      expect(eve.openAsIs('records')).toMatchObject({ rkey, key })
    }
  })

  test('R1-S1: the connection of somebody else is none', () => {
    const card = served()
    card.connect()
    expect(new Stranger(card, 66).openAsIs('records').rkey).toBe(0)
    expect(card.openAsIs('records').rkey).not.toBe(0)
  })

  test('R1-S1: one that has ended, or failed, is none', () => {
    const card = served()
    const eve = new Stranger(card, 66)
    const leave = (who: Stranger, qp: TestPeer): void => who.disconnect(qp)
    for (const end of [leave, fail]) {
      const qp = eve.connect()
      expect(eve.openAsIs('records').rkey).not.toBe(0)
      end(eve, qp)
      expect(eve.openAsIs('records').rkey).toBe(0)
    }
  })

  test('R1-S1: nor is it enough to have the address of IP of who is connected', () => {
    const card = served()
    card.connect()
    const told = (frame: Uint8Array): TestRegion => {
      const [answer] = card.serve(frame)
      return regionOf(answer!.payload.slice(mad.MAD_BODY))
    }
    expect(told(openFrame(card, 'records')).rkey).not.toBe(0)
    expect(told(fromStation(openFrame(card, 'records')))).toMatchObject({ rkey: 0, key: NO_KEY })
    // With a connection of its own it is a client itself, and each is answered where it asked.
    card.serve(fromStation(connectFrame(card, 0x999, 1)))
    expect(told(fromStation(openFrame(card, 'records'))).rkey).not.toBe(0)
    expect(stationOf(card)).toEqual(STATION)
    expect(told(openFrame(card, 'records')).rkey).not.toBe(0)
    expect(stationOf(card)).not.toEqual(STATION)
  })
})

function connectFrame(card: TestCard, peer: number, client: number): Uint8Array {
  return card.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
    putU32(body, mad.CONNECT_CLIENT_QP, peer)
    putU16(body, mad.CONNECT_PATH_MTU, 1024)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, client)
  })
}

/** A key that there is not: the card answers by a fatal NAK. */
function fail(who: TestCard | Stranger, qp: TestPeer): void {
  who.serve(...persistFrames(qp, 0xdead, 0, dataOf(64, 1)))
}

describe('connections', () => {
  test('R1-S5: nobody is told the numbers of a connection that he has not made', () => {
    const card = served()
    const qp = card.connect(1024, 0, 0)
    const told = (frame: Uint8Array): { number: number; psn: number } => {
      const [answer] = card.serve(frame)
      const body = answer!.payload.subarray(mad.MAD_BODY)
      return { number: u32(body, mad.CONNECT_QP), psn: u32(body, mad.CONNECT_FIRST_PSN) }
    }
    const again = told(connectFrame(card, qp.peer, 0))
    expect(again).toEqual({ number: qp.number, psn: qp.psn })
    const forged = told(fromStation(connectFrame(card, qp.peer, 0)))
    expect(forged.number).not.toBe(qp.number)
    expect(forged.psn).not.toBe(qp.psn)
    for (const ipVersion of [4, 6] as const) {
      const eve = new Stranger(card, 66, ipVersion)
      const body = eve.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
        putU32(request, mad.CONNECT_CLIENT_QP, qp.peer)
        putU16(request, mad.CONNECT_PATH_MTU, 1024)
      })
      expect(u32(body, mad.CONNECT_QP)).not.toBe(qp.number)
      expect(u16(body, mad.CONNECT_GRANTED_MTU)).toBe(1024)
    }
    // The victim's goes on.
    const acks = persistAcks(card.serve(...persistFrames(qp, card.open(), 0, dataOf(64, 1))))
    expect(acks[0]!.status).toBe(0)
  })

  test('R1-S5: a connection ends where it was made, and nowhere else', () => {
    const card = served()
    const qp = card.connect()
    for (const eve of [new Stranger(card, 66), new Stranger(card, 66, 6)]) eve.disconnect(qp)
    const frames = persistFrames(qp, card.open(), 0, dataOf(64, 1))
    expect(persistAcks(card.serve(...frames))[0]!.status).toBe(0)
    card.disconnect(qp)
    expect(card.serve(...persistFrames(qp, card.open(), 0, dataOf(64, 2)))).toEqual([])
  })

  test('R1-S6: forged datagrams, sent once, do not hold up a source of many', () => {
    const card = served()
    const peer = new Stranger(card, 5)
    const use = (): void => {
      const frames = persistFrames(peer.connect(), peer.open(), 0, dataOf(8, 1))
      expect(persistAcks(peer.serve(...frames))[0]!.status).toBe(0)
    }
    for (let i = 0; i < 16; i++) use()
    const forge = (): void => {
      for (let i = 0; i < 240; i++) card.serve(sentBy(connectFrame(card, 77, 1), 10 + i))
    }
    forge()
    card.pass(5_000_000)
    for (let i = 16; i < PLACES_ALONE; i++) use()
    expect(() => peer.connect()).toThrow('QUEUE_PAIRS_FULL')
    // Those that still come take nothing of it, and it takes nothing of theirs.
    forge()
    expect(() => peer.connect()).toThrow('QUEUE_PAIRS_FULL')
  })
})

describe('ports', () => {
  const publish = (name: string, form = mad.FORM_CAPABILITY, rights = 0) => {
    return (body: Uint8Array): void => {
      body.set(Buffer.from(name), mad.REGION_NAME)
      putU16(body, mad.PUBLISH_PORT, PORT)
      body[mad.PUBLISH_FORM] = form
      putU32(body, mad.PUBLISH_RIGHTS, rights)
    }
  }
  const ask = (who: TestCard | Stranger, fill: (body: Uint8Array) => void): string =>
    who.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, fill).fault
  const withdraw = publish('', mad.FORM_NONE)

  test('R1-S4: nobody else points a port elsewhere, or ends what it publishes', () => {
    const card = served()
    expect(ask(card, publish('records'))).toBe('PASS')
    for (const eve of [new Stranger(card, 66), new Stranger(card, 66, 6)]) {
      expect(ask(eve, publish('bytes'))).toBe('PORT_TAKEN')
      expect(ask(eve, publish('records', mad.FORM_ANNOUNCED))).toBe('PORT_TAKEN')
      expect(ask(eve, publish('records', mad.FORM_CAPABILITY, 1))).toBe('PORT_TAKEN')
      expect(ask(eve, withdraw)).toBe('PORT_TAKEN')
      // It is as he asks for: nothing changes, nor does it become his.
      expect(ask(eve, publish('records'))).toBe('PASS')
      expect(ask(eve, withdraw)).toBe('PORT_TAKEN')
    }
    expect(ask(card, publish('bytes'))).toBe('PASS')
    expect(ask(card, withdraw)).toBe('PASS')
    expect(ask(new Stranger(card, 66), publish('records'))).toBe('PASS')
    expect(ask(card, publish('bytes'))).toBe('PORT_TAKEN')
  })

  test('R1-S4: the port of a region that is no more is free', () => {
    const card = served()
    expect(ask(card, publish('records'))).toBe('PASS')
    card.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE, (body) => {
      body.set(Buffer.from('records'), mad.REGION_NAME)
    })
    expect(ask(new Stranger(card, 66), publish('bytes'))).toBe('PASS')
  })
})
