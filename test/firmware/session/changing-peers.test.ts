/**
 * Who may come to a card, told and changed by its admins while it serves: PEERS, ADD_PEER and
 * REMOVE_PEER. Who comes may come at once, who goes has nothing left at once, and the next start
 * finds the same.
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { keyText } from '../../../boards/software/keys.ts'
import { BAD_COMMAND, NOT_KEPT } from '../../../firmware/board/hal.ts'
import { PEER_LINE_BYTES, PEER_REGIONS, PEERS } from '../../../firmware/board/limits.ts'
import type { KeyPair } from '../../../firmware/session/noise.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  ackStatuses,
  persistFrames,
  TestCard,
  type TestPeer,
} from '../../support/cards/test-card.ts'
import { sentBy } from '../../support/peers/strangers.ts'
import { QueueHost } from '../../support/queues/queue-host.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { KeptPeers } from '../../support/sessions/kept-peers.ts'
import {
  add,
  keeping,
  NEW,
  type Right,
  remove,
  type Told,
  told,
} from '../../support/sessions/peer-calls.ts'
import {
  ADMIN,
  ALIKE,
  IDENTITY,
  keyPair,
  NOBODY,
  peer,
  READER,
  WRITER,
} from '../../support/sessions/peers.ts'

const ADMIN_2: KeyPair = keyPair(21)

const READS = mad.PEER_MAY_READ
const WRITES = mad.PEER_MAY_WRITE

function ask(guest: Pick<Guest, 'manage'>, place: number, from = 0): Uint8Array {
  const fill = (body: Uint8Array): void => {
    body[mad.PEER_REGIONS_FROM] = from
  }
  const { fault, body } = guest.manage(mad.METHOD_GET, mad.ATTRIBUTE_PEERS, fill, place)
  expect(fault).toBe('PASS')
  return body
}

function textAt(body: Uint8Array, at: number): string {
  return Buffer.from(body.subarray(at, at + 32))
    .toString()
    .replace(/\0+$/, '')
}

/** The regions that an answer tells, with the letters of their rights. */
function regionsOf(body: Uint8Array): string[] {
  return Array.from({ length: body[mad.PEER_REGIONS_HERE]! }, (_, i) => {
    const at = mad.PEER_FIRST_REGION + i * mad.PEER_REGION_BYTES
    const right = body[at] === WRITES ? 'w' : body[at] === READS ? 'r' : '?'
    return `${right}:${textAt(body, at + mad.PEER_REGION_NAME)}`
  })
}

/** Names by places, as PEERS tells them from the first one on. */
function listed(guest: Pick<Guest, 'manage'>): Record<number, string> {
  const names: Record<number, string> = {}
  for (let place = 0; ; ) {
    const body = ask(guest, place)
    if (body.every((byte) => byte === 0)) return names
    place = body[mad.PEER_PLACE]!
    names[place] = textAt(body, mad.PEER_NAME)
    place += 1
  }
}

const lives = (guest: Guest): string => guest.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault

describe('PEERS', () => {
  test('R1-S16: tells each peer, and what it may do', () => {
    const five = ['a', 'b b', 'ü', '%', '*']
    const { admin } = keeping([
      ...IDENTITY.peers,
      peer('björn🗄', NEW, { read: five, write: ['x', 'y', 'z'] }),
    ])
    expect(listed(admin)).toEqual({ 0: 'admin', 1: 'writer', 2: 'reader', 3: 'björn🗄' })
    const first = ask(admin, 0)
    expect(first.subarray(0, 32)).toEqual(ADMIN.public)
    expect(first[mad.PEER_RIGHTS]).toBe(mad.RIGHTS_ADMIN)
    expect(first[mad.PEER_REGIONS_TOTAL]).toBe(0)
    expect(regionsOf(ask(admin, 1))).toEqual(['w:records'])
    expect(regionsOf(ask(admin, 2))).toEqual(['r:records'])
    const all = [...five.map((name) => `r:${name}`), 'w:x', 'w:y', 'w:z']
    for (let from = 0; from < 12; from++) {
      const body = ask(admin, 3, from)
      expect(body.subarray(0, 32)).toEqual(NEW.public)
      expect(body[mad.PEER_REGIONS_TOTAL]).toBe(8)
      expect(body[mad.PEER_REGIONS_FROM]).toBe(from)
      expect(regionsOf(body)).toEqual(all.slice(from, from + 3))
    }
  })

  test('R1-S16: is for admins and the own host; an open card has none', () => {
    const { card } = keeping()
    const guests = [new Guest(card, WRITER).enter(), new Guest(card, READER).enter()]
    for (const guest of guests) {
      expect(guest.manage(mad.METHOD_GET, mad.ATTRIBUTE_PEERS).fault).toBe('FORBIDDEN')
      expect(add(guest, { rights: 1 })).toBe('FORBIDDEN')
      expect(remove(guest, ADMIN.public)).toBe('FORBIDDEN')
    }
    const stranger = new Guest(card, NOBODY)
    expect(stranger.manage(mad.METHOD_GET, mad.ATTRIBUTE_PEERS).fault).toBe('NO_SESSION')
    expect(add(stranger, { rights: 1 })).toBe('NO_SESSION')
    expect(remove(stranger, ADMIN.public)).toBe('NO_SESSION')
    const open = new Guest(new TestCard(1 << 20), ADMIN)
    expect(open.manage(mad.METHOD_GET, mad.ATTRIBUTE_PEERS).fault).toBe('OPEN_CARD')
    expect(add(open, { rights: 1 })).toBe('OPEN_CARD')
    expect(remove(open, ADMIN.public)).toBe('OPEN_CARD')
  })

  test('R1-S16: the own host tells and changes them over PCIe', () => {
    const kept = new KeptPeers(IDENTITY)
    const card = new TestCard(1 << 20, { peers: kept, ram: new HostRam(1 << 20) })
    const host = new QueueHost(card)
    host.init()
    expect(add(host, { regions: [[READS, 'records']] })).toBe('PASS')
    expect(Object.values(listed(host))).toEqual(['admin', 'writer', 'reader', 'new'])
    expect(remove(host, WRITER.public)).toBe('PASS')
    expect(Object.values(listed(host))).toEqual(['admin', 'reader', 'new'])
  })
})

describe('ADD_PEER', () => {
  test('R1-S16: lets a peer come at once, to do what was said, and after the next start', () => {
    const { kept, card, admin } = keeping()
    expect(new Guest(card, NEW).shake()).toBe('PEER_UNKNOWN')
    expect(add(admin, { regions: [[READS, 'records']] })).toBe('PASS')
    const guest = new Guest(card, NEW, 20).enter()
    expect(guest.openAsIs('records').rkey).not.toBe(0)
    expect(guest.manage(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT).fault).toBe('FORBIDDEN')
    expect(kept.peers.at(-1)).toEqual(peer('new', NEW, { read: ['records'] }))
    const next = new TestCard(card.nvdimm, { peers: kept })
    expect(new Guest(next, NEW, 20).enter().openAsIs('records').rkey).not.toBe(0)
  })

  test('R1-S16: an admin that comes may do everything', () => {
    const { card, admin } = keeping()
    expect(add(admin, { key: ADMIN_2.public, name: 'second', rights: 1 })).toBe('PASS')
    const second = new Guest(card, ADMIN_2, 21).enter()
    expect(add(second, { regions: [[WRITES, '*']] })).toBe('PASS')
    expect(new Guest(card, NEW, 20).enter().openAsIs('records').rkey).not.toBe(0)
  })

  test('R1-S16: names of any kind come to the board as its file has them', () => {
    const { kept, admin } = keeping()
    const regions: Right[] = [
      [READS, 'a b'],
      [READS, '100%'],
      [WRITES, 'ü🗄#'],
    ]
    expect(add(admin, { name: 'björn🗄', regions })).toBe('PASS')
    expect(kept.text.split('\n').at(-2)).toBe(
      `${keyText(NEW.public)} björn🗄 read:a%20b read:100%25 write:%c3%bc%f0%9f%97%84%23`,
    )
    expect(kept.peers.at(-1)).toEqual(
      peer('björn🗄', NEW, { read: ['a b', '100%'], write: ['ü🗄#'] }),
    )
  })

  test('R1-S16: one with many regions is told in several datagrams', () => {
    const { kept, card, admin } = keeping()
    const name = Buffer.alloc(32, 'ü')
    const all = Array.from({ length: PEER_REGIONS }, (_, i): Right => {
      return [i % 2 ? WRITES : READS, Buffer.concat([Buffer.alloc(30, 'ä'), Buffer.from(`0${i}`)])]
    })
    const part = (from: number): Told => {
      return { name, total: all.length, from, regions: all.slice(from, from + 3) }
    }
    expect(add(admin, part(0))).toBe('PASS')
    expect(add(admin, part(3))).toBe('PASS')
    expect(new Guest(card, NEW).shake()).toBe('PEER_UNKNOWN')
    expect(kept.peers).toHaveLength(3)
    expect(add(admin, part(6))).toBe('PASS')
    expect(new Guest(card, NEW).shake()).toBe('PASS')
    expect(kept.peers.at(-1)!.read).toHaveLength(4)
    expect(kept.peers.at(-1)!.write).toHaveLength(4)
    // The longest line that there can be.
    expect(Buffer.byteLength(kept.text.split('\n').at(-2)!)).toBeLessThanOrEqual(PEER_LINE_BYTES)
  })

  const AB: readonly Right[] = [
    [READS, 'a'],
    [READS, 'b'],
    [READS, 'c'],
  ]

  test('R1-S16: what does not go on with what was told is refused, and ends it', () => {
    const first = { total: 5, regions: AB }
    const last = {
      total: 5,
      from: 3,
      regions: AB.slice(0, 2).map(([right]): Right => [right, 'd']),
    }
    const wrong: readonly Told[] = [
      { ...last, from: 2 },
      { ...last, from: 4 },
      { ...last, key: WRITER.public },
      { ...last, regions: [] },
      { ...last, regions: AB },
    ]
    for (const one of wrong) {
      const { kept, admin } = keeping()
      expect(add(admin, first)).toBe('PASS')
      expect(add(admin, one)).toBe('REQUEST')
      expect(add(admin, last)).toBe('REQUEST')
      expect(kept.peers).toHaveLength(3)
    }
    const { admin } = keeping()
    expect(add(admin, last)).toBe('REQUEST')
  })

  test('R1-S16: one is told at a time, by one who tells it', () => {
    const { kept, card, admin } = keeping()
    add(admin, { key: ADMIN_2.public, name: 'second', rights: 1 })
    const second = new Guest(card, ADMIN_2, 21).enter()
    const last: Told = { total: 4, from: 3, regions: [[READS, 'd']] }
    expect(add(admin, { total: 4, regions: AB })).toBe('PASS')
    expect(add(second, last)).toBe('REQUEST')
    expect(add(admin, last)).toBe('REQUEST')
    expect(add(admin, { total: 4, regions: AB })).toBe('PASS')
    expect(add(second, { name: 'other', regions: AB })).toBe('PASS')
    expect(add(admin, last)).toBe('REQUEST')
    expect(kept.peers.map(({ name }) => name)).toEqual([
      ...['admin', 'writer', 'reader', 'second', 'other'],
    ])
  })

  const MALFORMED: readonly (readonly [string, Told])[] = [
    ['more regions than there can be', { total: PEER_REGIONS + 1, regions: AB }],
    ['more here than there is room for', { total: 8, regions: AB, here: 4 }],
    ['more here than in all', { total: 2, regions: AB }],
    ['none here of some', { total: 2 }],
    ['a right that there is not', { regions: [[0, 'a']] }],
    ['another one', { regions: [[3, 'a']] }],
    ['a region without a name', { regions: [[READS, '']] }],
    ['a name of a region with a control', { regions: [[READS, 'a\n']] }],
    ['no name', { name: '', rights: 1 }],
    ['a name with a blank', { name: 'a b', rights: 1 }],
    ['a name with an end of a line', { name: 'a\n', rights: 1 }],
    ['a name that is no UTF-8', { name: Uint8Array.of(0xff), rights: 1 }],
    ['a name that goes on behind its end', { name: 'a\0b', rights: 1 }],
    ['rights that there are not', { rights: 2 }],
    ['an admin with a region', { rights: 1, regions: AB }],
    ['nobody with a right', {}],
    ['a region twice', { regions: [...AB.slice(0, 2), [WRITES, 'a']] }],
    ['a blank that is none of ASCII', { name: 'a\u00a0b', rights: 1 }],
    ['a key that nobody has', { key: new Uint8Array(32), rights: 1 }],
  ]
  test.each(MALFORMED)('R1-S16: %s is refused, and nobody comes', (_, peer) => {
    const { kept, admin } = keeping()
    const before = kept.text
    expect(add(admin, peer)).toBe('REQUEST')
    expect(kept.text).toBe(before)
    expect(Object.values(listed(admin))).toEqual(['admin', 'writer', 'reader'])
  })

  test('R1-S16: nobody comes twice, and no name', () => {
    const { admin } = keeping()
    expect(add(admin, { key: READER.public, rights: 1 })).toBe('PEER_TAKEN')
    expect(add(admin, { name: 'reader', rights: 1 })).toBe('PEER_TAKEN')
    expect(Object.values(listed(admin))).toEqual(['admin', 'writer', 'reader'])
  })

  test('D-6, R1-S16: nobody comes whose clients could be those of another', () => {
    const [one, other] = ALIKE
    const { admin } = keeping()
    expect(add(admin, { key: one.public, rights: 1 })).toBe('PASS')
    expect(add(admin, { key: other.public, name: 'other', rights: 1 })).toBe('PEER_TAKEN')
    expect(remove(admin, one.public)).toBe('PASS')
    expect(add(admin, { key: other.public, name: 'other', rights: 1 })).toBe('PASS')
  })

  test('R1-S16: as many come as a card knows; who goes makes room', () => {
    const { kept, admin } = keeping()
    for (let i = 3; i < PEERS; i++) {
      expect(add(admin, { key: keyPair(30 + i).public, name: `${i}`, rights: 1 })).toBe('PASS')
    }
    expect(add(admin, { rights: 1 })).toBe('PEERS_FULL')
    expect(kept.peers).toHaveLength(PEERS)
    expect(remove(admin, WRITER.public)).toBe('PASS')
    expect(add(admin, { rights: 1 })).toBe('PASS')
    expect(listed(admin)[1]).toBe('new')
  })

  test.each([
    [NOT_KEPT, 'PEERS_FIXED'],
    [BAD_COMMAND, 'REQUEST'],
  ])('R1-S16: a board that refuses it as %i: nobody comes, or goes', (result, fault) => {
    const { kept, card, admin } = keeping()
    const reader = new Guest(card, READER, 13).enter()
    kept.refuses = result
    expect(add(admin, { rights: 1 })).toBe(fault)
    expect(new Guest(card, NEW).shake()).toBe('PEER_UNKNOWN')
    expect(remove(admin, READER.public)).toBe(result === NOT_KEPT ? fault : 'NO_PEER')
    expect(lives(reader)).toBe('PASS')
    expect(new Guest(card, READER).shake()).toBe('PASS')
  })

  test('R1-S16: a board without a list keeps no other peers', () => {
    const card = new TestCard(1 << 20, { facts: { identity: IDENTITY } })
    const admin = new Guest(card, ADMIN).enter()
    expect(add(admin, { rights: 1 })).toBe('PEERS_FIXED')
    expect(remove(admin, READER.public)).toBe('PEERS_FIXED')
  })
})

describe('REMOVE_PEER', () => {
  test('R1-S16: whoever goes has neither session, nor queue pair, nor a way back', () => {
    const { kept, card, admin } = keeping()
    const writer = new Guest(card, WRITER, 12).enter()
    const again = new Guest(card, WRITER, 14).enter()
    const reader = new Guest(card, READER, 13).enter()
    const region = writer.openAsIs('records')
    const qp = writer.connect()
    const other = admin.connect()
    const record = (of: TestPeer, slot: number): Uint8Array => {
      return persistFrames(of, region, slot, new Uint8Array(64).fill(slot))[0]!
    }
    const [first, second, third] = [0, 1, 2].map((slot) => record(qp, slot))
    expect(ackStatuses(writer.serve(first!))).toEqual([0])
    // In one burst with what he sends before and behind it.
    const gone = admin.sealedFrame(mad.METHOD_SET, mad.ATTRIBUTE_REMOVE_PEER, (body) => {
      body.set(WRITER.public, mad.PEER_KEY)
    })
    const asks = writer.sealedFrame(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    const sent = card.serve(sentBy(second!, 12), sentBy(gone, 11), sentBy(asks, 12))
    expect(ackStatuses(sent)).toEqual([0])
    expect(admin.answerOf(sent)).toMatchObject({ fault: 'PASS' })
    expect(writer.answerOf(sent)).toMatchObject({ fault: 'NO_SESSION', isSealed: false })
    expect(writer.serve(third!)).toEqual([])
    expect(lives(again)).toBe('NO_SESSION')
    expect(new Guest(card, WRITER).shake()).toBe('PEER_UNKNOWN')
    expect(lives(reader)).toBe('PASS')
    expect(ackStatuses(admin.serve(record(other, 5)))).toEqual([0])
    expect(kept.peers.map(({ name }) => name)).toEqual(['admin', 'reader'])
    const next = new TestCard(card.nvdimm, { peers: kept })
    expect(new Guest(next, WRITER).shake()).toBe('PEER_UNKNOWN')
  })

  test('R1-S16: an admin may go himself, and is told so', () => {
    const { card, admin } = keeping()
    add(admin, { key: ADMIN_2.public, name: 'second', rights: 1 })
    expect(remove(admin, ADMIN.public)).toBe('PASS')
    expect(lives(admin)).toBe('NO_SESSION')
    expect(Object.values(listed(new Guest(card, ADMIN_2).enter()))).toEqual([
      ...['writer', 'reader', 'second'],
    ])
  })

  test('R1-S16: one admin stays, and somebody', () => {
    const { admin } = keeping()
    expect(remove(admin, ADMIN.public)).toBe('LAST_ADMIN')
    expect(lives(admin)).toBe('PASS')
    const kept = new KeptPeers({ ...IDENTITY, peers: [peer('writer', WRITER, { write: ['*'] })] })
    const card = new TestCard(1 << 20, { peers: kept, ram: new HostRam(1 << 20) })
    const host = new QueueHost(card)
    host.init()
    expect(remove(host, WRITER.public)).toBe('LAST_ADMIN')
    expect(add(host, { regions: [[READS, 'a']] })).toBe('PASS')
    expect(remove(host, WRITER.public)).toBe('PASS')
  })

  test('R1-S16: nobody goes who is not there', () => {
    const { admin } = keeping()
    expect(remove(admin, NEW.public)).toBe('NO_PEER')
    expect(remove(admin, new Uint8Array(32))).toBe('NO_PEER')
    expect(remove(admin, READER.public)).toBe('PASS')
    expect(remove(admin, READER.public)).toBe('NO_PEER')
  })

  test('R1-S16: who comes to his place hears no answer of his, and has none of his clients', () => {
    const { card, admin } = keeping()
    add(admin, { key: ADMIN_2.public, name: 'second', rights: 1 })
    const second = new Guest(card, ADMIN_2, 21).enter()
    const call = second.callFrame(mad.METHOD_SET, mad.ATTRIBUTE_ADD_PEER, told({ rights: 1 }))
    expect(second.answerOf(second.serve(second.sealed(call)))).toMatchObject({ fault: 'PASS' })
    expect(second.answerOf(second.serve(second.sealed(call)))).toMatchObject({ fault: 'PASS' })
    expect(remove(admin, ADMIN_2.public)).toBe('PASS')
    const third = keyPair(22)
    expect(add(admin, { key: third.public, name: 'third', rights: 1 })).toBe('PASS')
    expect(Object.values(listed(admin))).toEqual(['admin', 'writer', 'reader', 'third', 'new'])
    const heir = new Guest(card, third, 21).enter()
    // The same request of another peer is another one.
    expect(heir.answerOf(heir.serve(heir.sealed(call)))).toMatchObject({ fault: 'PEER_TAKEN' })
  })
})
