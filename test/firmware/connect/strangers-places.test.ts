/**
 * Strangers who take all that a card gives to whoever asks: queue pairs in use, connections that
 * are never finished, forged addresses, connections that the card is told to make. The others are
 * served all the while (security, quotas per source).
 */

import { describe, expect, test } from 'vitest'
import { HOST_QUEUE_PAIRS, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  Conversation,
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import {
  PLACES_ALONE,
  PLACES_OF_NETWORK,
  Stranger,
  sentBy,
  takeAllPlaces,
} from '../../support/peers/strangers.ts'
import { createQp, hostOf } from '../../support/queues/queue-calls.ts'
import {
  CLIENT,
  type Client,
  idsFrame,
  madFrame,
  message,
  messagesOf,
  publish,
  repOf,
  reqFrame,
} from '../../support/wire/cm.ts'
import { overIpv6, writeIcrc } from '../../support/wire/frames.ts'
import { ACK, writeFrames } from '../../support/wire/requests.ts'

/** A card with a region of records, and one of bytes that is published. */
function served(): TestCard {
  const card = new TestCard(1 << 19).format()
  card.provision({ name: 'orders', slots: 8, capacity: 64 })
  card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 65536 })
  expect(publish(card).fault).toBe('PASS')
  return card
}

/** Who asks, and sends from there. */
interface Somebody {
  readonly serve: (...frames: Uint8Array[]) => Sent[]
  connect(mtu?: number, domain?: number, client?: number): TestPeer
}

/** A READ of nothing: the queue pair is in use from then on. */
function useOnce({ serve }: Somebody, qp: TestPeer): void {
  expect(serve(readFrame(qp, 0, 0, 0, 0))).toHaveLength(1)
}

/** Opens and uses so many, as far as it is let: how many it was given. */
function takeUpTo(count: number, who: Somebody): number {
  for (let taken = 0; taken < count; taken++) {
    let qp: TestPeer
    try {
      qp = who.connect(1024, 0, taken)
    } catch {
      return taken
    }
    useOnce(who, qp)
  }
  return count
}

/** Somebody comes, connects by a control call and persists a record. */
function isServed(card: TestCard, last: number): boolean {
  const who = new Stranger(card, last)
  const sent = who.serve(...persistFrames(who.connect(), card.open('orders'), 1, dataOf(8, last)))
  return persistAcks(sent).some(({ status }) => status === 0)
}

/** The GID of 10.0.0.last. */
function gidOf(last: number): Uint8Array {
  return new Uint8Array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last])
}

/** The REQ number `i` of an attacker who has all addresses from 10.0.0.3 to 10.0.0.252. */
function forged(i: number, fields: Partial<cm.CmReq> = {}): { frame: Uint8Array; last: number } {
  const last = 3 + (i % 250)
  const client = { ...CLIENT, localId: 0x51000000 + i, qpn: 0x1000 + i, transaction: 0x7000 + i }
  const frame = reqFrame(client, { localGid: gidOf(last), guidLow: i, ...fields })
  return { frame: sentBy(frame, last), last }
}

function attributes(sent: readonly Sent[]): number[] {
  return messagesOf(sent).map(({ attribute }) => attribute)
}

/** A client of RDMA-CM connects; `meanwhile` happens in each of its round trips. */
function isServedByCm(card: TestCard, client: Client, meanwhile: () => void): boolean {
  const rep = repOf(card.serve(reqFrame(client)))
  meanwhile()
  card.serve(idsFrame(client, cm.CM_RTU, rep.localId))
  meanwhile()
  const qp = { number: rep.qpn, peer: client.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
  const [answer] = card.serve(...writeFrames(qp, card.open('bytes'), 64, dataOf(8, 1)))
  return answer?.syndrome === ACK
}

describe('queue pairs in use', () => {
  test('one who takes what he gets has half, and others are served at once', () => {
    const card = served()
    const greedy = new Stranger(card, 66)
    expect(takeUpTo(300, greedy)).toBe(PLACES_ALONE)
    expect(card.counter('QUEUE_PAIRS_FULL')).toBe(1)
    for (let last = 70; last < 100; last++) expect(isServed(card, last)).toBe(true)
    expect(isServedByCm(card, CLIENT, () => {})).toBe(true)
    expect(() => greedy.connect()).toThrow('QUEUE_PAIRS_FULL')
  })

  test('by RDMA-CM and by control calls he has one share', () => {
    const card = served()
    expect(takeUpTo(60, new Stranger(card, 1))).toBe(60)
    for (let i = 0; i < PLACES_ALONE - 60; i++) {
      const client = { ...CLIENT, localId: 0x100 + i, qpn: 0x5000 + i }
      const rep = repOf(card.serve(reqFrame(client)))
      card.serve(idsFrame(client, cm.CM_RTU, rep.localId))
    }
    expect(attributes(card.serve(reqFrame(CLIENT)))).toEqual([cm.CM_REJ])
    expect(isServed(card, 70)).toBe(true)
  })

  test('the host of the card finds what is kept for it, whatever the network has', () => {
    const host = hostOf(1 << 22).init(1024)
    const { card } = host
    card.format()
    const taken = takeAllPlaces(card, ({ peer, qp }) => useOnce(peer, qp))
    expect(taken).toHaveLength(PLACES_OF_NETWORK)
    const sendCq = host.createCq(16)
    const units = { type: TYPE_CONNECTED, sendUnits: 1, receiveUnits: 1, sendCq }
    for (let i = 0; i < HOST_QUEUE_PAIRS; i++) expect(createQp(host, units).fault).toBe('PASS')
    expect(createQp(host, units).fault).toBe('QUEUE_PAIRS_FULL')
    for (const { peer, qp } of taken) useOnce(peer, qp)
  })

  test('what the host has leaves half to the network', () => {
    const host = hostOf(1 << 22).init(1024)
    const { card } = host
    card.format()
    const sendCq = host.createCq(16)
    const units = { type: TYPE_CONNECTED, sendUnits: 1, receiveUnits: 1, sendCq }
    for (let i = 0; i < QUEUE_PAIRS / 2; i++) expect(createQp(host, units).fault).toBe('PASS')
    expect(createQp(host, units).fault).toBe('QUEUE_PAIRS_FULL')
    const taken = takeAllPlaces(card, ({ peer, qp }) => useOnce(peer, qp))
    expect(taken).toHaveLength(QUEUE_PAIRS / 2)
  })
})

describe('IPv6', () => {
  /** Somebody with that address: a prefix of eight bytes, and the last byte. */
  function at(card: TestCard, prefix: readonly number[], last: number): Somebody {
    const serve = (...frames: Uint8Array[]): Sent[] =>
      card.serve(
        ...frames.map((frame) => {
          const copy = overIpv6(frame)
          copy.set([...prefix, 0, 0, 0, 0, 0, 0, 0, last], 22)
          writeIcrc(copy)
          return copy
        }),
      )
    const talk = new Conversation(serve)
    const client = 1000 * (2 + prefix[7]!) + last
    return { serve, connect: (mtu, domain, more = 0) => talk.connect(mtu, domain, client + more) }
  }

  /** Queue pairs that all addresses of a /64 get together. */
  function takenFrom(card: TestCard, prefix: readonly number[]): number {
    let taken = 0
    for (let last = 3; last < 253; last++) taken += takeUpTo(1, at(card, prefix, last))
    return taken
  }

  test('all addresses of a /64 elsewhere are one source', () => {
    const card = served()
    expect(takenFrom(card, [0x20, 1, 0xd, 0xb8, 0, 0, 0, 1])).toBe(PLACES_ALONE)
    // The eighth byte tells two of them apart, and another one is served.
    expect(takenFrom(card, [0x20, 1, 0xd, 0xb8, 0, 0, 0, 2])).toBe(PLACES_ALONE / 2)
    expect(isServed(card, 70)).toBe(true)
  })

  test.each([
    ['the network of the card', [0xfd, 0, 0, 0, 0, 0, 0, 0]],
    ['the link', [0xfe, 0x80, 0, 0, 0, 0, 0, 0]],
  ])('neighbours of %s are a source each', (_, prefix) => {
    const card = served()
    expect(takeUpTo(300, at(card, prefix, 77))).toBe(PLACES_ALONE)
    for (let last = 3; last < 30; last++) expect(takeUpTo(1, at(card, prefix, last))).toBe(1)
  })
})

describe('connections that are never finished', () => {
  test('a flood of REQs from 250 addresses keeps nobody out, who answers in time', () => {
    const card = served()
    let sent = 0
    const flood = (count: number) => (): void => {
      for (let i = 0; i < count; i++) card.serve(forged(sent++).frame)
    }
    flood(1000)()
    // There are 224 half-open places, and two in use more after each lap.
    for (let i = 0; i < 3; i++) {
      const client = { ...CLIENT, localId: 1 + i, qpn: 0x321 + i }
      expect(isServedByCm(card, client, flood(PLACES_OF_NETWORK - 1 - 2 * i))).toBe(true)
      expect(isServed(card, 254)).toBe(true)
    }
    expect(card.counter('QUEUE_PAIRS_FULL')).toBe(0)
  })

  test('a flood of one address does not touch what another one has begun', () => {
    const card = served()
    const rep = repOf(card.serve(reqFrame(CLIENT)))
    for (let i = 0; i < 1000; i++) card.serve(forged(250 * i).frame)
    card.serve(idsFrame(CLIENT, cm.CM_RTU, rep.localId))
    const qp = { number: rep.qpn, peer: CLIENT.qpn, mtu: 1024, psn: rep.startingPsn, operation: 0 }
    const [answer] = card.serve(...writeFrames(qp, card.open('bytes'), 64, dataOf(8, 1)))
    expect(answer!.syndrome).toBe(ACK)
  })

  test('who takes his REQs back, or never answers, leaves no place that rests', () => {
    const card = served()
    for (let i = 0; i < 2 * QUEUE_PAIRS; i++) {
      const { frame, last } = forged(i)
      expect(attributes(card.serve(frame))).toEqual([cm.CM_REP])
      const rej = message(cm.CM_REJ, 0x7000 + i, (bytes, at) => {
        const information = new Uint8Array(72)
        putU32(information, 0, 0x020000ff)
        putU32(information, 4, i)
        const ids = { localId: 0x51000000 + i, reason: cm.REJECT_TIMEOUT, informationLength: 8 }
        cm.writeRej(bytes, at, { ...cm.blankRej(), ...ids, information })
      })
      card.serve(sentBy(madFrame(rej), last))
    }
    for (let i = 0; i < 2 * QUEUE_PAIRS; i++) card.serve(forged(i + 1000, { cmRetries: 0 }).frame)
    // They are given up, all of them at once.
    card.pass(20_000_000)
    for (let i = 0; i < 10; i++) expect(isServed(card, 100 + i)).toBe(true)
    expect(isServedByCm(card, CLIENT, () => {})).toBe(true)
    expect(card.counter('QUEUE_PAIRS_FULL')).toBe(0)
  })

  test('links that end before their peer was asked leave no place that rests', () => {
    const card = served()
    const name = (body: Uint8Array): void => body.set(new TextEncoder().encode('x'))
    for (let i = 0; i < 2 * QUEUE_PAIRS; i++) {
      const { fault } = card.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, (body) => {
        name(body)
        body[mad.ATTACH_IP_VERSION] = 4
        body.set([10, 0, i >> 8, i & 255], mad.ATTACH_ADDRESS)
        putU16(body, mad.ATTACH_PORT, 1)
      })
      expect(fault).toBe('CONNECTING')
      card.must(mad.METHOD_SET, mad.ATTRIBUTE_DETACH, name)
    }
    expect(isServed(card, 70)).toBe(true)
  })

  test('a connection that was used rests when it ends: its number is not given meanwhile', () => {
    const card = served()
    const numbers = new Set<number>()
    const rest = (i: number): void => {
      const client = { ...CLIENT, localId: 0x100 + i, qpn: 0x5000 + i }
      const rep = repOf(card.serve(reqFrame(client)))
      card.serve(idsFrame(client, cm.CM_RTU, rep.localId))
      const qpn = (bytes: Uint8Array, at: number): void => cm.putDreqQpn(bytes, at, rep.qpn)
      card.serve(idsFrame(client, cm.CM_DREQ, rep.localId, qpn))
      numbers.add(rep.qpn)
    }
    for (let i = 0; i < PLACES_ALONE; i++) rest(i)
    expect(numbers.size).toBe(PLACES_ALONE)
    // Who makes places rest takes them from himself.
    expect(attributes(card.serve(reqFrame(CLIENT)))).toEqual([cm.CM_REJ])
    const other = new Stranger(card, 70)
    for (let i = 0; i < PLACES_ALONE / 2; i++) {
      const qp = other.connect(1024, i)
      expect(numbers.has(qp.number)).toBe(false)
      useOnce(other, qp)
    }
  })
})

test('a flood of control calls for connections spoils none that is used', () => {
  const card = served()
  const honest = new Stranger(card, 70)
  const qp = honest.connect()
  useOnce(honest, qp)
  for (let i = 0; i < 1500; i++) {
    const flood = new Stranger(card, 3 + (i % 60))
    const body = flood.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, 0x1000 + i)
      putU16(request, mad.CONNECT_PATH_MTU, 1024)
    })
    expect(u32(body, mad.CONNECT_QP)).not.toBe(qp.number)
  }
  useOnce(honest, qp)
  expect(isServed(card, 71)).toBe(true)
})
