/**
 * A relay in a session of the other card: two cards with peers and the wire between them by hand,
 * so that each frame may be kept, changed or sent by whoever is on that path (R1-S13, X-1, D-6).
 */

import { describe, expect, test } from 'vitest'
import * as primitives from '../../../boards/software/noise-primitives.ts'
import { HANDSHAKES_UNPROVEN } from '../../../firmware/board/limits.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import { relayedClient } from '../../../firmware/session/relayed.ts'
import { clientTag } from '../../../firmware/session/sealed.ts'
import { STATE_OPEN } from '../../../firmware/transport/queue-pair.ts'
import { putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { ETHERNET_BYTES } from '../../../firmware/wire/ethernet.ts'
import { IPV4_BYTES } from '../../../firmware/wire/ipv4.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import { RelayWire } from '../../support/cards/relay-wire.ts'
import { dataOf, persistFrames, type TestPeer } from '../../support/cards/test-card.ts'
import { changed, Guest, payloadAt } from '../../support/sessions/guest.ts'
import { ADMIN, keyPair, NOBODY } from '../../support/sessions/peers.ts'
import {
  attachingInside,
  farIdentity,
  fromElsewhere,
  InsideWire,
  isDatagram,
  NEAR,
  RELAYING,
  turnedRound,
  withOtherByte,
  withoutTag,
} from '../../support/sessions/relay-inside.ts'

const BTH_AT = ETHERNET_BYTES + IPV4_BYTES + 8

/** Records that were said to be durable. */
function acks({ heard }: InsideWire): number {
  return heard.filter(({ opcode, paeth }) => opcode === PERSIST_ACK && paeth!.status === 0).length
}

/** What card B has there. */
function readFar(wire: InsideWire, slot: number, length = 100): Uint8Array | null {
  const far = wire.hostB.open('far')
  return wire.hostB.read(wire.hostB.connect(4096), far, slot, 0, length)
}

/** The client over there that the record says to be of. */
function clientOfRecord(wire: InsideWire, slot: number): readonly number[] {
  const far = wire.hostB.open('far')
  const header = wire.hostB.read(wire.hostB.connect(4096), far, slot, 2, 64)!
  return CLIENTS.find(([high, low]) => has(header, high, low)) ?? []
}

const THERE = (low: number): readonly [number, number] => {
  const tag = clientTag(primitives, ADMIN.public)
  const { clientHigh, clientLow } = relayedClient(primitives, RELAYING, tag, low)
  return [clientHigh, clientLow]
}
const CLIENTS = [THERE(7), THERE(8)]

/** Do these two words stand in there, one behind the other, in either order of bytes? */
function has(bytes: Uint8Array, high: number, low: number): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at + 8 <= bytes.length; at += 4) {
    if (view.getUint32(at) === high && view.getUint32(at + 4) === low) return true
    if (view.getUint32(at, true) === low && view.getUint32(at + 4, true) === high) return true
  }
  return false
}

function attributeOf(frame: Uint8Array): number {
  return u16(frame, payloadAt(frame) + mad.MAD_ATTRIBUTE)
}

function persist(wire: InsideWire, slot: number, at: { qp: TestPeer; rkey: number }): void {
  wire.serve(...persistFrames(at.qp, at, slot, dataOf(100, slot)))
  wire.pass(100)
}

function passSeconds(wire: InsideWire, seconds: number): void {
  for (let i = 0; i < 4 * seconds; i++) wire.pass(250_000)
}

describe('a relay in a session of the other card', () => {
  test('sends a record on under tags; it is durable over there; nothing is in the clear', () => {
    const wire = new InsideWire()
    const toFar: Uint8Array[] = []
    const toNear: Uint8Array[] = []
    wire.toFar = (frame) => {
      toFar.push(frame)
      return [frame]
    }
    wire.toNear = (frame) => {
      toNear.push(frame)
      return [frame]
    }
    expect(wire.enter()).toBe('PASS')
    persist(wire, 1, wire.open())
    expect(acks(wire)).toBe(1)
    expect(readFar(wire, 1)).toEqual(dataOf(100, 1))
    const clear = [...toFar, ...toNear].filter(
      (frame) => isDatagram(frame) && !mad.isSealed(frame, payloadAt(frame)),
    )
    expect(new Set(clear.map(attributeOf))).toEqual(new Set([mad.ATTRIBUTE_HANDSHAKE]))
    const data = toFar.filter((frame) => !isDatagram(frame))
    expect(data.length).toBeGreaterThan(0)
    const [first] = data
    // Headers of WRITE_PERSIST, the record, trailer, ICRC.
    expect(first!.length - BTH_AT).toBe(12 + 16 + 16 + 100 + TRAILER_BYTES + 4)
    expect(wire.hostB.counter('NO_TAG')).toBe(0)
  })

  test('has another name there, if one is told', () => {
    const wire = new InsideWire()
    expect(wire.enter({ name: 'near', region: 'far' })).toBe('PASS')
    const qp = wire.hostA.connect(4096, 0, 7)
    persist(wire, 3, { qp, rkey: wire.hostA.open('near').rkey })
    expect(acks(wire)).toBe(1)
    expect(readFar(wire, 3)).toEqual(dataOf(100, 3))
    expect(wire.enter({ name: 'near', region: 'far' })).toBe('PASS')
    expect(wire.enter({ name: 'near', region: 'other' })).toBe('REGION_EXISTS')
  })

  test('D-6: writes for each client in a name that is its own over there, at every start', () => {
    const wire = new InsideWire()
    expect(CLIENTS[0]![0]).toBe(clientTag(primitives, RELAYING.public))
    expect(CLIENTS[0]![1]).not.toBe(CLIENTS[1]![1])
    expect(wire.enter()).toBe('PASS')
    persist(wire, 1, wire.open())
    expect(clientOfRecord(wire, 1)).toEqual(CLIENTS[0])
    expect(wire.enter({ name: 'other', region: 'far', client: 8 })).toBe('PASS')
    const other = { qp: wire.hostA.connect(4096, 0, 8), rkey: wire.hostA.open('other').rkey }
    persist(wire, 2, other)
    expect(clientOfRecord(wire, 2)).toEqual(CLIENTS[1])
    wire.restartNear()
    expect(wire.enter()).toBe('PASS')
    persist(wire, 3, wire.open())
    expect(clientOfRecord(wire, 3)).toEqual(CLIENTS[0])
    expect(acks(wire)).toBe(3)
  })

  test('D-6, X-3: an operation that comes again is done once, whichever card was off', () => {
    const wire = new InsideWire()
    expect(wire.enter()).toBe('PASS')
    const first = wire.open()
    wire.serve(...persistFrames(first.qp, first, 1, dataOf(100, 1), { operation: 77 }))
    wire.pass(100)
    expect(acks(wire)).toBe(1)
    const admin = wire.hostB
    for (const restart of [() => wire.restartNear(), () => wire.restartFar()]) {
      // Somebody else writes over it meanwhile.
      const far = wire.hostB.open('far')
      const writer = wire.hostB.connect(4096)
      wire.b.serve(...persistFrames(writer, far, 1, dataOf(100, 9)))
      restart()
      // It is a record that finds out that the other card knows the link no more.
      if (wire.hostB !== admin) {
        persist(wire, 2, wire.open())
        passSeconds(wire, 30)
        expect(wire.hostA.counter('NOT_DURABLE')).toBe(1)
      }
      let fault = 'CONNECTING'
      for (let i = 0; i < 20 && fault !== 'PASS'; i++) fault = wire.enter()
      expect(fault).toBe('PASS')
      const { qp, rkey } = wire.open()
      const before = acks(wire)
      wire.serve(
        ...persistFrames(qp, { rkey }, 1, dataOf(100, 1), { operation: 77, repetition: true }),
      )
      wire.pass(100)
      expect(acks(wire)).toBe(before + 1)
      expect(readFar(wire, 1)).toEqual(dataOf(100, 9))
    }
  })

  test('X-1: a record whose packet loses its tag on the way is dropped, and not durable', () => {
    const wire = new InsideWire()
    expect(wire.enter()).toBe('PASS')
    const at = wire.open()
    wire.toFar = (frame) => [isDatagram(frame) ? frame : withoutTag(frame)]
    persist(wire, 1, at)
    expect(acks(wire)).toBe(0)
    expect(wire.hostB.counter('NO_TAG')).toBeGreaterThan(0)
    expect(readFar(wire, 1)).not.toEqual(dataOf(100, 1))
    wire.toFar = (frame) => [frame]
    passSeconds(wire, 2)
    expect(acks(wire)).toBe(1)
  })

  test('X-1: an acknowledgement without its tag, or changed, or of before, is none', () => {
    const wire = new InsideWire()
    expect(wire.enter()).toBe('PASS')
    const at = wire.open()
    wire.toNear = (frame) => [withoutTag(frame), withOtherByte(frame)]
    persist(wire, 1, at)
    expect(acks(wire)).toBe(0)
    expect(wire.hostA.counter('NO_TAG')).toBeGreaterThan(0)
    wire.toNear = (frame) => [frame]
    passSeconds(wire, 2)
    expect(acks(wire)).toBe(1)
    const late: Uint8Array[] = []
    wire.toNear = (frame) => {
      late.push(frame)
      return [frame]
    }
    persist(wire, 2, at)
    const before = wire.hostA.counter('NO_TAG')
    const told = wire.heard.length
    wire.serve(...late)
    expect(late.length).toBeGreaterThan(0)
    expect(wire.hostA.counter('NO_TAG')).toBe(before + late.length)
    expect(wire.heard.length).toBe(told)
  })

  test('X-1: a link that is cut breaks the connection of the host, and nothing is durable', () => {
    const wire = new InsideWire()
    expect(wire.enter()).toBe('PASS')
    const at = wire.open()
    wire.isCut = true
    persist(wire, 1, at)
    passSeconds(wire, 30)
    expect(acks(wire)).toBe(0)
    expect(wire.hostA.counter('NOT_DURABLE')).toBe(1)
    wire.isCut = false
    let fault = 'CONNECTING'
    for (let i = 0; i < 20 && fault !== 'PASS'; i++) fault = wire.enter()
    expect(fault).toBe('PASS')
    persist(wire, 2, wire.open())
    expect(acks(wire)).toBe(1)
  })
})

test("D-6: an admin attaches for another peer's client, who alone is served by it", () => {
  const others = keyPair(22)
  const line = { key: [...others.public], name: 'o', admin: false, read: [], write: ['far'] }
  const near = { ...NEAR, peers: [...NEAR.peers, line] }
  const wire = new InsideWire({ a: near, b: farIdentity({ write: ['far'] }) })
  const fill = (body: Uint8Array): void => {
    attachingInside(wire.guest)(body)
    putU32(body, mad.ATTACH_CLIENT_HIGH, clientTag(primitives, others.public))
  }
  expect(wire.ask(fill)).toBe('PASS')
  persist(wire, 1, wire.open())
  expect(acks(wire)).toBe(0)
  expect(wire.hostA.counter('RIGHTS')).toBe(1)
  const other = new Guest(wire.a, others, 1, RELAYING.public).enter()
  persist(wire, 2, { qp: other.connect(4096, 0, 7), rkey: other.open('far').rkey })
  expect(acks(wire)).toBe(1)
  expect(readFar(wire, 1)).not.toEqual(dataOf(100, 1))
  expect(readFar(wire, 2)).toEqual(dataOf(100, 2))
})

describe('what is refused', () => {
  const refusedBy = (fill: (guest: Guest) => (body: Uint8Array) => void): string => {
    const wire = new InsideWire()
    return wire.ask(fill(wire.guest))
  }

  test('a card without keys of its own says that it has none', () => {
    const wire = new RelayWire({ b: farIdentity({ write: ['far'] }) })
    const speaker = new Guest(wire.a, ADMIN)
    expect(wire.ask(attachingInside(speaker))).toBe('CARD_KEYLESS')
  })

  test('a key and a port, or neither, or the own key, or one of small order', () => {
    expect(refusedBy((guest) => attachingInside(guest, { port: 7471 }))).toBe('REQUEST')
    const none = new Uint8Array(32)
    expect(refusedBy((guest) => attachingInside(guest, { key: none }))).toBe('REQUEST')
    expect(refusedBy((guest) => attachingInside(guest, { key: RELAYING.public }))).toBe('REQUEST')
    const small = Uint8Array.from(none, (_, i) => (i === 0 ? 1 : 0))
    expect(refusedBy((guest) => attachingInside(guest, { key: small }))).toBe('ATTACH_FAILED')
  })

  test('the key of another card; a region that is not there', () => {
    const key = NOBODY.public
    expect(refusedBy((guest) => attachingInside(guest, { key }))).toBe('ATTACH_FAILED')
    expect(refusedBy((guest) => attachingInside(guest, { region: 'none' }))).toBe('ATTACH_FAILED')
  })

  test('what holds no records, or whose copies are written by clients', () => {
    const wire = new InsideWire({ a: NEAR, b: farIdentity({ admin: true }) })
    wire.hostB.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 4096 })
    wire.hostB.provision({ name: 'pair', flags: mad.REGION_PAIR })
    expect(wire.enter({ name: 'bytes' })).toBe('ATTACH_FAILED')
    expect(wire.enter({ name: 'pair' })).toBe('ATTACH_FAILED')
    expect(wire.enter()).toBe('PASS')
  })

  test.each<[string, Partial<(typeof NEAR.peers)[0]> | null]>([
    ['has no line there', null],
    ['has rights to another region there', { write: ['other'] }],
  ])('RELAY_REFUSED: the relaying card %s', (_, rights) => {
    const wire = new InsideWire({ a: NEAR, b: farIdentity(rights) })
    expect(wire.enter()).toBe('RELAY_REFUSED')
    expect(wire.hostA.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, namesFar).fault).toBe('NO_REGION')
  })

  test('RELAY_REFUSED: the other card is open', () => {
    const wire = new InsideWire({ a: NEAR })
    expect(wire.enter()).toBe('RELAY_REFUSED')
  })

  test('a peer that may read alone attaches, and writes nothing', () => {
    const wire = new InsideWire({ a: NEAR, b: farIdentity({ read: ['far'] }) })
    expect(wire.enter()).toBe('PASS')
    persist(wire, 1, wire.open())
    passSeconds(wire, 1)
    expect(acks(wire)).toBe(0)
    expect(wire.hostB.counter('RIGHTS')).toBeGreaterThan(0)
    expect(readFar(wire, 1)).not.toEqual(dataOf(100, 1))
  })

  test('whoever is no admin of the relaying card', () => {
    const writer: KeyPair = keyPair(22)
    const line = { key: [...writer.public], name: 'w', admin: false, read: [], write: ['*'] }
    const near = { ...NEAR, peers: [...NEAR.peers, line] }
    const wire = new InsideWire({ a: near, b: farIdentity({ write: ['far'] }) })
    wire.hostA = new Guest(wire.a, writer, 1, RELAYING.public).enter()
    expect(wire.enter()).toBe('FORBIDDEN')
  })
})

const namesFar = (body: Uint8Array): void => body.set(Buffer.from('far'), mad.REGION_NAME)

describe('whoever is on the path', () => {
  test('R1-S13: forges and repeats answers: all are counted, and nothing follows', () => {
    const wire = new InsideWire()
    const forged = (frame: Uint8Array): Uint8Array[] => {
      if (!isDatagram(frame)) return []
      const inTheClear = changed(frame, (payload) => {
        payload[mad.MAD_VERSION] = mad.MANAGEMENT_VERSION
      })
      return [changed(frame, (payload) => (payload[mad.MAD_BODY]! ^= 1)), inTheClear]
    }
    wire.toNear = (frame) => [...forged(frame), frame, frame]
    expect(wire.enter()).toBe('PASS')
    expect(wire.hostA.counter('SEAL_BROKEN')).toBeGreaterThanOrEqual(4)
    expect(wire.hostA.counter('UNEXPECTED_RESPONSE')).toBeGreaterThan(0)
    persist(wire, 1, wire.open())
    expect(acks(wire)).toBe(1)
  })

  test('R1-S13: sends our own calls back, as they are and as answers: nothing follows', () => {
    const wire = new InsideWire()
    wire.toFar = (frame) => {
      if (!isDatagram(frame)) return [frame]
      const back = turnedRound(frame)
      const asAnswer = changed(back, (payload) => {
        payload[mad.MAD_METHOD] = mad.METHOD_RESPONSE
      })
      wire.heard.push(...wire.a.serve(back, asAnswer).filter(({ packet }) => packet.destQp !== 1))
      return [frame]
    }
    expect(wire.enter()).toBe('PASS')
    expect(wire.hostA.counter('SEAL_BROKEN')).toBeGreaterThanOrEqual(3)
    persist(wire, 1, wire.open())
    expect(acks(wire)).toBe(1)
  })

  test('R1-S13: answers count from the address of the other card alone', () => {
    const wire = new InsideWire()
    wire.toNear = (frame) => (isDatagram(frame) ? [fromElsewhere(frame)] : [frame])
    expect(wire.enter()).toBe('CONNECTING')
    passSeconds(wire, 6)
    expect(wire.enter()).toBe('ATTACH_FAILED')
    expect(wire.hostA.counter('UNEXPECTED_RESPONSE')).toBeGreaterThan(0)
  })

  test('a flood of first messages at the other card keeps nobody out who shows its cookie', () => {
    const wire = new InsideWire()
    let cookies = 0
    wire.toFar = (frame) => {
      if (!isDatagram(frame) || attributeOf(frame) !== mad.ATTRIBUTE_HANDSHAKE) return [frame]
      const at = payloadAt(frame) + mad.MAD_BODY + mad.HANDSHAKE_COOKIE
      if (u32(frame, at) !== 0) cookies += 1
      const flood = new Guest(wire.b, NOBODY, 9)
      const others = Array.from({ length: HANDSHAKES_UNPROVEN }, () => flood.firstMessage().frame)
      if (cookies === 0) flood.serve(...others)
      return [frame]
    }
    expect(wire.enter()).toBe('PASS')
    expect(cookies).toBe(1)
    expect(wire.hostB.counter('COOKIE')).toBeGreaterThan(0)
  })
})

describe('another life, and the end', () => {
  test.each([mad.ATTRIBUTE_OPEN, mad.ATTRIBUTE_CONNECT])(
    'X-3: a card that starts again before it answers 0x%s is entered again',
    (attribute) => {
      const wire = new InsideWire()
      let restarts = 0
      wire.toFar = (frame) => {
        if (restarts === 0 && isDatagram(frame) && attributeOf(frame) === attribute) {
          restarts += 1
          wire.restartFar()
        }
        return [frame]
      }
      expect(wire.enter()).toBe('PASS')
      expect(restarts).toBe(1)
      persist(wire, 1, wire.open())
      expect(acks(wire)).toBe(1)
    },
  )

  test('a peer that is removed is out at once, and whoever attaches again is told so', () => {
    const wire = new InsideWire()
    expect(wire.enter()).toBe('PASS')
    const at = wire.open()
    persist(wire, 1, at)
    wire.hostB.must(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE_PEER, (body) => body.set(RELAYING.public))
    persist(wire, 2, at)
    passSeconds(wire, 40)
    expect(acks(wire)).toBe(1)
    expect(readFar(wire, 2)).not.toEqual(dataOf(100, 2))
    let fault = 'CONNECTING'
    for (let i = 0; i < 20 && fault === 'CONNECTING'; i++) fault = wire.enter()
    expect(fault).toBe('RELAY_REFUSED')
  })

  test('DETACH closes the queue pair over there, also where its first words are lost', () => {
    const wire = new InsideWire()
    const pairs = (): number => openPairs(wire)
    expect(wire.enter()).toBe('PASS')
    persist(wire, 1, wire.open())
    expect(pairs()).toBe(1)
    let lost = 0
    wire.toFar = (frame) => {
      lost += 1
      return lost <= 2 ? [] : [frame]
    }
    const fill = (body: Uint8Array): void => body.set(Buffer.from('far'))
    wire.carry(
      wire.sentByA(() => {
        wire.hostA.must(mad.METHOD_SET, mad.ATTRIBUTE_DETACH, fill)
      }),
    )
    expect(
      wire.hostA.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, attachingInside(wire.guest)),
    ).toEqual(expect.objectContaining({ fault: 'CONNECTING' }))
    passSeconds(wire, 2)
    expect(pairs()).toBe(0)
    expect(wire.enter()).toBe('PASS')
  })

  test.each([
    ['before the other card is found', 0],
    ['when the first message is out', 10_000],
  ])('a relay that is taken back while it is made leaves nothing here: %s', (_, us) => {
    const wire = new InsideWire()
    const fill = attachingInside(wire.guest)
    const frames = wire.sentByA(() => {
      wire.hostA.manage(mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, fill)
    })
    let sent = 0
    wire.toFar = () => {
      sent += 1
      return []
    }
    wire.carry(frames)
    if (us > 0) wire.pass(us)
    expect(sent).toBe(us > 0 ? 1 : 0)
    const name = (body: Uint8Array): void => body.set(Buffer.from('far'))
    wire.hostA.must(mad.METHOD_SET, mad.ATTRIBUTE_DETACH, name)
    passSeconds(wire, 4)
    expect(wire.state.connections.places.filter(({ link }) => link !== null)).toEqual([])
    wire.toFar = (frame) => [frame]
    expect(wire.enter()).toBe('PASS')
  })
})

/** Open queue pairs of the relaying card at card B. */
function openPairs(wire: InsideWire): number {
  const { places } = wire.farState.queuePairs
  return places.filter((qp) => qp !== null && qp.state === STATE_OPEN && qp.peer === 1).length
}
