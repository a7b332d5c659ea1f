/**
 * Clients of RDMA-CM at a card with peers (R1-S14): they have no sessions and no tags, so whoever
 * is on their path may do what they may. What they get is what an admin has published for them by
 * name, to whom that says, and as many as that says; and it is nothing of a session's.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { CLIENTS } from '../../../firmware/board/limits.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { ackStatuses, dataOf, persistFrames, TestCard } from '../../support/cards/test-card.ts'
import { persists, reads, removeRegion } from '../../support/sessions/asks.ts'
import { ADMIN_2, guests } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { connectStock, ipv4, publishStock, type Source } from '../../support/sessions/stock.ts'
import { CM_NAMES, messagesOf, publish } from '../../support/wire/cm.ts'

const NO_RESOURCES = 3
const CONSUMER = 28

const RIGHT_TO_READ = 1 << 2

const nameOf = (fault: number): string => FAULTS[fault]!.name

describe('what an admin publishes', () => {
  test('R1-S14: is for clients without sessions where that is said, and only there', () => {
    const { card, admin } = guests()
    expect(publishStock(admin, 'bytes', { flags: 0 })).toBe('STOCK_UNSAID')
    expect(connectStock(card).reason).toBe(cm.REJECT_SERVICE_ID)
    expect(publishStock(admin, 'bytes')).toBe('PASS')
    expect(connectStock(card).reason).toBe(0)
  })

  test('R1-S14: has to be said again where it is changed, and what was stays until then', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes')
    const { qp } = connectStock(card)
    expect(publishStock(admin, 'other bytes', { flags: 0 })).toBe('STOCK_UNSAID')
    expect(reads(card, qp, bytes)).toBe(true)
    expect(reads(card, connectStock(card, { n: 2 }).qp, bytes)).toBe(true)
  })

  test('R1-S14: published again changes nothing, but with other addresses it does', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes', { sources: [[ipv4(9), 128]] })
    const first = connectStock(card, { last: 9 })
    publishStock(admin, 'bytes', { sources: [[ipv4(9), 128]] })
    expect(reads(first, first.qp, bytes)).toBe(true)
    for (const [n, source] of (
      [
        [ipv4(9), 127],
        [ipv4(8), 127],
      ] as const
    ).entries()) {
      const before = connectStock(card, { last: 9, n: n + 2 })
      publishStock(admin, 'bytes', { sources: [source] })
      expect(reads(before, before.qp, bytes)).toBe(false)
    }
  })

  test.each([
    ['another flag', { flags: 2 }],
    ['more flags', { flags: 3 }],
    ['five sources', { sources: Array.from({ length: 5 }, () => [ipv4(1), 128] as const) }],
    ['129 bits', { sources: [[ipv4(1), 129] as const] }],
  ])('R1-S14: is refused with %s', (_, options) => {
    const { card, admin } = guests()
    expect(publishStock(admin, 'bytes', options)).toBe('REQUEST')
    expect(connectStock(card).reason).toBe(cm.REJECT_SERVICE_ID)
  })

  test('R1-S14: another admin changes and withdraws, from wherever he comes', () => {
    const { card, admin } = guests()
    const second = new Guest(card, ADMIN_2, 12).enter()
    const bytes = admin.openAsIs('bytes')
    expect(publishStock(admin, 'bytes')).toBe('PASS')
    expect(publishStock(second, 'other bytes')).toBe('PASS')
    expect(reads(card, connectStock(card).qp, bytes)).toBe(false)
    expect(publishStock(second, '', { form: mad.FORM_NONE, flags: 0 })).toBe('PASS')
    expect(connectStock(card, { n: 2 }).reason).toBe(cm.REJECT_SERVICE_ID)
  })

  test('R1-S14: needs no word of an open card', () => {
    const card = new TestCard(1 << 20)
    card.format()
    card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
    expect(publish(card).fault).toBe('PASS')
    expect(connectStock(card).reason).toBe(0)
  })
})

describe('a stock client', () => {
  test('R1-S14: has the region that its port publishes, with the rights of it, no other', () => {
    const { card, admin } = guests()
    const regions = ['records', 'other', 'bytes', 'other bytes'].map((name) => admin.openAsIs(name))
    publishStock(admin, 'bytes')
    const has = regions.map((region, n) => reads(card, connectStock(card, { n }).qp, region))
    expect(has).toEqual([false, false, true, false])
  })

  test('R1-S14: loses it with the region, and has not what comes in its place', () => {
    const { card, admin, state } = guests()
    publishStock(admin, 'bytes')
    const { qp } = connectStock(card)
    const before = admin.openAsIs('bytes')
    const place = state.regions.places.findIndex((region) => region?.name === 'bytes')
    removeRegion(card, admin, 'bytes')
    for (const name of ['bytes', 'secret']) {
      const region = admin.provision({ name, kind: mad.KIND_BYTES, length: 8192 })
      if (name === 'bytes') expect(state.regions.places[place]?.name).toBe('bytes')
      expect(connectStock(card, { n: 9 }).reason).toBe(cm.REJECT_SERVICE_ID)
      expect(reads(card, qp, before)).toBe(false)
      expect(reads(card, qp, region)).toBe(false)
      if (name === 'bytes') removeRegion(card, admin, 'bytes')
    }
  })

  test('R1-S14: is no client of a peer, whose operations it could name', () => {
    const { card, admin, writer, state } = guests()
    publishStock(admin, 'other')
    const [records, other] = [admin.openAsIs('records'), admin.openAsIs('other')]
    const victim = writer.connect(4096, 0, 7)
    expect(persists(writer, victim, records)).toEqual([0])
    const before = state.sessions.refusals.count
    // Eve knows the peer's public key, and which operation is the next.
    const eve = connectStock(card, { block: { clientHigh: writer.tag, clientLow: 7 }, last: 66 })
    expect([eve.reason, nameOf(eve.fault)]).toEqual([CONSUMER, 'FORBIDDEN'])
    expect(state.sessions.refusals.count).toBe(before + 1)
    expect([...state.sessions.refusals.source]).toEqual(ipv4(66))
    const operation = victim.operation + 1
    card.serve(...persistFrames(eve.qp, other, 3, dataOf(64, 9), { operation }))
    const data = dataOf(64, 2)
    expect(ackStatuses(writer.serve(...persistFrames(victim, records, 2, data)))).toEqual([0])
    expect(writer.read(victim, records, 2, 0, 64)).toEqual(data)
  })

  test('R1-S14: of a card with peers keeps a client of its own', () => {
    const { card, admin } = guests()
    publishStock(admin, 'records')
    const records = admin.openAsIs('records')
    const { qp, reason } = connectStock(card, { block: { clientHigh: 5, clientLow: 7 } })
    expect(reason).toBe(0)
    expect(persists(card, qp, records, 3)).toEqual([0])
  })

  test('R1-S14: has other clients forgotten who are nobody, and none of a peer', () => {
    const { card, admin, writer } = guests()
    publishStock(admin, 'other')
    const [records, other] = [admin.openAsIs('records'), admin.openAsIs('other')]
    const pairs = [7, 8].map((client) => writer.connect(4096, 0, client))
    const sent = pairs.map((qp, slot) => {
      const frames = persistFrames(qp, records, slot, dataOf(64, slot))
      expect(ackStatuses(writer.serve(...frames))).toEqual([0])
      return qp.operation
    })
    for (let i = 1; i < 3 * CLIENTS; i++) {
      const eve = connectStock(card, { block: { clientHigh: 5, clientLow: i }, n: i & 63 })
      expect(persists(card, eve.qp, other, 3)).toEqual([0])
      eve.leave()
      card.now += 3_000_000
      card.idle()
    }
    // What the peer sends again, as it heard nothing, is known to be durable, and not in doubt.
    const again = pairs.map((qp, slot) => {
      const repeats = { operation: sent[slot]!, repetition: true }
      return ackStatuses(writer.serve(...persistFrames(qp, records, slot, dataOf(64, 9), repeats)))
    })
    expect(again).toEqual([[0], [0]])
    expect(writer.read(pairs[0]!, records, 0, 0, 64)).toEqual(dataOf(64, 0))
  })
})

describe('records that stock clients write', () => {
  test('R1-S14: are written by no session, and read by those who may', () => {
    const { card, admin, writer, reader } = guests()
    const records = admin.openAsIs('records')
    const [before, look] = [writer.connect(), reader.connect()]
    expect(persists(writer, before, records)).toEqual([0])
    expect(publishStock(admin, 'records')).toBe('PASS')
    expect(persists(writer, before, records)).toEqual([])
    const byAdmin = admin.connect()
    expect(persists(admin, byAdmin, records)).toEqual([])
    const { qp } = connectStock(card, { block: { clientHigh: 5, clientLow: 7 } })
    expect(persists(card, qp, records)).toEqual([0])
    expect(reads(reader, look, records)).toBe(true)
  })

  test('R1-S14: are those of sessions again when they are published no more', () => {
    const { card, admin, writer } = guests()
    const records = admin.openAsIs('records')
    publishStock(admin, 'records')
    const { qp } = connectStock(card, { block: { clientHigh: 5, clientLow: 7 } })
    const pair = writer.connect()
    expect(publishStock(admin, '', { form: mad.FORM_NONE, flags: 0 })).toBe('PASS')
    expect(persists(writer, pair, records)).toEqual([0])
    expect(persists(card, qp, records)).toEqual([])
    expect(reads(card, qp, records)).toBe(false)
  })

  test('R1-S14: stay with who came to another port of theirs', () => {
    const { card, admin, writer } = guests()
    const records = admin.openAsIs('records')
    publishStock(admin, 'records', { port: 7472 })
    publishStock(admin, 'records', { rights: RIGHT_TO_READ })
    const { qp } = connectStock(card, { block: { clientHigh: 5, clientLow: 7 } })
    publishStock(admin, '', { form: mad.FORM_NONE, port: 7472 })
    expect(reads(card, qp, records)).toBe(true)
    expect(persists(writer, writer.connect(), records)).toEqual([0])
  })

  test('R1-S14: stay theirs while one of several ports publishes them', () => {
    const { admin, writer } = guests()
    const records = admin.openAsIs('records')
    for (const port of [7471, 7472]) expect(publishStock(admin, 'records', { port })).toBe('PASS')
    expect(publishStock(admin, '', { form: mad.FORM_NONE })).toBe('PASS')
    expect(persists(writer, writer.connect(), records)).toEqual([])
    expect(publishStock(admin, '', { form: mad.FORM_NONE, port: 7472 })).toBe('PASS')
    expect(persists(writer, writer.connect(), records)).toEqual([0])
  })

  test('R1-S14: are the sessions’ where stock clients may only read them, or it is bytes', () => {
    const { card, admin, writer } = guests()
    const records = admin.openAsIs('records')
    expect(publishStock(admin, 'records', { rights: RIGHT_TO_READ })).toBe('PASS')
    expect(publishStock(admin, 'bytes', { port: 7472 })).toBe('PASS')
    const stock = connectStock(card, { block: { clientHigh: 5, clientLow: 7 } })
    expect(persists(card, stock.qp, records)).toEqual([])
    const pair = writer.connect()
    expect(persists(writer, pair, records)).toEqual([0])
    expect(reads(writer, pair, records)).toBe(true)
  })

  test('R1-S14: nor does a region of the same place inherit that', () => {
    const { card, admin, other, state } = guests()
    publishStock(admin, 'records')
    const before = state.regions.places.findIndex((region) => region?.name === 'records')
    removeRegion(card, admin, 'records')
    removeRegion(card, admin, 'other')
    admin.provision({ name: 'first' })
    const region = admin.provision({ name: 'other' })
    const places = state.regions.places.map((one) => one?.name)
    expect([places.includes('first'), before]).toEqual([true, 0])
    expect(persists(other, other.connect(), region)).toEqual([0])
  })
})

describe('a port that offers something else', () => {
  const changes: readonly [string, string, Parameters<typeof publishStock>[2]][] = [
    ['another region', 'other bytes', {}],
    ['fewer rights', 'bytes', { rights: RIGHT_TO_READ }],
    ['to others', 'bytes', { sources: [[ipv4(77), 128]] }],
    ['to fewer', 'bytes', { connections: 1 }],
    ['nothing', '', { form: mad.FORM_NONE, flags: 0 }],
  ]

  test.each(changes)('R1-S14: ends the connections that it had, and says so: %s', (_, ...to) => {
    const { card, admin } = guests()
    const [bytes, others] = [admin.openAsIs('bytes'), admin.openAsIs('other bytes')]
    publishStock(admin, 'bytes')
    const { qp } = connectStock(card)
    expect(reads(card, qp, bytes)).toBe(true)
    expect(publishStock(admin, ...to)).toBe('PASS')
    const said = messagesOf(card.sent).map(({ attribute }) => CM_NAMES[attribute])
    expect(said).toEqual(['DREQ'])
    for (const region of [bytes, others]) expect(reads(card, qp, region)).toBe(false)
  })

  test('R1-S14: gives who comes behind that what it offers now, and nothing else', () => {
    const { card, admin } = guests()
    const regions = [admin.openAsIs('bytes'), admin.openAsIs('other bytes')]
    publishStock(admin, 'bytes')
    publishStock(admin, 'other bytes')
    const has = regions.map((region, n) => reads(card, connectStock(card, { n }).qp, region))
    expect(has).toEqual([false, true])
  })

  test('R1-S14: leaves those of another port, and of who asks for the same again', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes')
    const { qp } = connectStock(card)
    publishStock(new Guest(card, ADMIN_2, 77).enter(), 'bytes')
    publishStock(admin, 'bytes', { port: 7472 })
    publishStock(admin, '', { port: 7472, form: mad.FORM_NONE })
    expect(reads(card, qp, bytes)).toBe(true)
  })

  test('of an open card leaves connections as they are', () => {
    const card = new TestCard(1 << 20)
    card.format()
    const area = { kind: mad.KIND_BYTES, length: 8192 }
    const bytes = card.provision({ name: 'bytes', ...area })
    publishStock(card, 'bytes')
    const { qp } = connectStock(card)
    publishStock(card, '', { form: mad.FORM_NONE })
    expect(reads(card, qp, bytes)).toBe(true)
  })
})

describe('who may connect to a port', () => {
  const net = (address: readonly number[], prefix: number): Source => [address, prefix]
  const rows: readonly [string, readonly Source[], readonly [number, boolean][]][] = [
    [
      'one address',
      [net(ipv4(5), 128)],
      [
        [5, true],
        [4, false],
        [7, false],
      ],
    ],
    [
      'either of two',
      [net(ipv4(5), 128), net(ipv4(9), 128)],
      [
        [5, true],
        [9, true],
        [1, false],
      ],
    ],
    [
      'a range within a byte',
      [net(ipv4(8), 126)],
      [
        [8, true],
        [11, true],
        [12, false],
        [7, false],
      ],
    ],
    [
      'a range of bytes',
      [net(ipv4(0), 120)],
      [
        [1, true],
        [254, true],
      ],
    ],
    ['a range elsewhere', [net([...ipv4(0).slice(0, 14), 1, 0], 120)], [[1, false]]],
    [
      'every IPv4 address',
      [net(ipv4(0), 96)],
      [
        [1, true],
        [99, true],
      ],
    ],
    ['everybody', [net(new Array(16).fill(0), 0)], [[1, true]]],
    ['somebody of IPv6', [net([0xfd, ...new Array(15).fill(0)], 8)], [[1, false]]],
  ]

  test.each(rows)('R1-S14: is who is named: %s', (_, sources, expected) => {
    const { card, admin, state } = guests()
    expect(publishStock(admin, 'bytes', { sources })).toBe('PASS')
    for (const [last, may] of expected) {
      const before = state.sessions.refusals.count
      const { reason, fault } = connectStock(card, { last })
      expect([last, reason, nameOf(fault)]).toEqual(
        may ? [last, 0, 'PASS'] : [last, CONSUMER, 'FORBIDDEN'],
      )
      expect(state.sessions.refusals.count - before).toBe(may ? 0 : 1)
    }
  })

  test('R1-S14: and who is refused is counted, and the last of them named', () => {
    const { card, admin } = guests()
    publishStock(admin, 'bytes', { sources: [net(ipv4(5), 128)] })
    const before = u32(admin.status(), mad.PART_REFUSALS)
    for (const last of [21, 22, 23]) connectStock(card, { last })
    const status = admin.status()
    expect(u32(status, mad.PART_REFUSALS)).toBe(before + 3)
    expect(nameOf(status[mad.PART_REFUSED_FAULT]!)).toBe('FORBIDDEN')
    const at = mad.PART_REFUSED_SOURCE
    expect([...status.subarray(at, at + 16)]).toEqual(ipv4(23))
  })

  test('is who is named at an open card, too', () => {
    const card = new TestCard(1 << 20)
    card.format()
    card.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
    publishStock(card, 'bytes', { flags: 0, sources: [net(ipv4(5), 128)] })
    expect(connectStock(card, { last: 5 }).reason).toBe(0)
    expect(connectStock(card, { last: 6 }).reason).toBe(CONSUMER)
  })
})

describe('a port with room for two', () => {
  test('R1-S14: refuses the third, until one has left', () => {
    const { card, admin } = guests()
    publishStock(admin, 'bytes', { connections: 2 })
    const clients = [1, 2].map((last) => connectStock(card, { last }))
    expect(clients.map(({ reason }) => reason)).toEqual([0, 0])
    expect(connectStock(card, { last: 3 }).reason).toBe(NO_RESOURCES)
    clients[0]!.leave()
    expect(connectStock(card, { last: 3, n: 2 }).reason).toBe(0)
    expect(connectStock(card, { last: 4 }).reason).toBe(NO_RESOURCES)
  })

  test('R1-S14: takes nothing from another port', () => {
    const { card, admin } = guests()
    publishStock(admin, 'other bytes', { port: 7472 })
    publishStock(admin, 'bytes', { connections: 2 })
    for (const last of [1, 2, 3]) connectStock(card, { last })
    expect(publishStock(admin, 'other bytes', { port: 7471 })).toBe('PASS')
    expect([1, 2, 3].map((last) => connectStock(card, { last, n: 5 }).reason)).toEqual([0, 0, 0])
  })

  test('R1-S14: is not kept full by who never says that he is connected', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes', { connections: 2 })
    const honest = connectStock(card)
    for (let n = 0; n < 20; n++) connectStock(card, { last: 66, n, confirms: false })
    expect(reads(card, honest.qp, bytes)).toBe(true)
    const other = connectStock(card, { last: 2 })
    expect(reads(other, other.qp, bytes)).toBe(true)
  })

  test('R1-S14: is not kept full by who breaks his own connection', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes', { connections: 2 })
    for (const last of [1, 2]) {
      const eve = connectStock(card, { last })
      expect(reads(eve, eve.qp, bytes)).toBe(true)
      expect(reads(eve, eve.qp, { ...bytes, rkey: bytes.rkey ^ 0x10000 })).toBe(false)
      expect(reads(eve, eve.qp, bytes), 'its queue pair is over').toBe(false)
    }
    const other = connectStock(card, { last: 3 })
    expect(other.reason).toBe(0)
    expect(reads(other, other.qp, bytes)).toBe(true)
  })

  test('R1-S14: is full of those who have spoken and never said that they are connected', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes', { connections: 1 })
    const first = connectStock(card, { last: 1, confirms: false })
    expect(reads(first, first.qp, bytes)).toBe(true)
    expect(connectStock(card, { last: 2 }).reason).toBe(NO_RESOURCES)
    expect(reads(first, first.qp, bytes)).toBe(true)
  })

  test('R1-S14: has who was silent for a minute make room, and tells him', () => {
    const { card, admin } = guests()
    const bytes = admin.openAsIs('bytes')
    publishStock(admin, 'bytes', { connections: 2 })
    const [dead, alive] = [1, 2].map((last) => connectStock(card, { last }))
    card.now += 61_000_000
    expect(reads(alive!, alive!.qp, bytes)).toBe(true)
    expect(connectStock(card, { last: 3 }).reason).toBe(NO_RESOURCES)
    const said = messagesOf(card.sent).map(({ attribute }) => CM_NAMES[attribute])
    expect(said).toEqual(['DREQ', 'REJ'])
    expect(connectStock(card, { last: 3 }).reason).toBe(0)
    expect(reads(dead!, dead!.qp, bytes)).toBe(false)
    expect(reads(alive!, alive!.qp, bytes)).toBe(true)
  })
})
