/**
 * Rights by region where something changes or is mixed (R1-S14): regions that come and go, copies
 * and members that name several regions, starts.
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { PAGE_BYTES } from '../../../firmware/board/limits.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type BatchRecord,
  batchFrames,
  bytesMember,
  statuses,
} from '../../support/cards/batch-card.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  readFrame,
  TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { stationOf } from '../../support/queues/queue-calls.ts'
import { QueueHost, readying } from '../../support/queues/queue-host.ts'
import { BASE, fillMap, fillOnDemand, payloadOf, words } from '../../support/residency/on-demand.ts'
import { associateFrame, sizeAnswers } from '../../support/residency/residency-asks.ts'
import { persists, reads, removeRegion } from '../../support/sessions/asks.ts'
import { closedCard, guests, IDENTITY } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { ADMIN, peer, WRITER } from '../../support/sessions/peers.ts'
import {
  carriedFrames,
  firstDifference,
  sendFrames,
  slotOffset,
  writeFrames,
} from '../../support/wire/requests.ts'

type Fill = (body: Uint8Array) => void

const named =
  (name: string): Fill =>
  (body) =>
    body.set(Buffer.from(name), mad.REGION_NAME)

// ---- regions that come and go ------------------------------------------------------------------

describe('a region in the place of another one', () => {
  test('R1-S14: is not had by the queue pairs of who had the former', () => {
    const { card, admin, writer, reader, state } = guests()
    const records = admin.openAsIs('records')
    const [one, two] = [writer.connect(), reader.connect()]
    expect(persists(writer, one, records)).toEqual([0])
    removeRegion(card, admin, 'records')
    const secret = admin.provision({ name: 'secret' })
    const places = state.regions.places.map((region) => region?.name)
    expect(places[0]).toBe('secret')
    expect(reads(writer, one, secret)).toBe(false)
    expect(reads(reader, two, secret)).toBe(false)
    expect(persists(writer, writer.connect(), secret)).toEqual([])
  })

  test('R1-S14: is had by the queue pairs of who has a right to its name', () => {
    const { card, admin, writer, reader, other } = guests()
    const [one, two, three] = [writer.connect(), reader.connect(), other.connect()]
    removeRegion(card, admin, 'other')
    removeRegion(card, admin, 'records')
    admin.provision({ name: 'first' })
    const records = admin.provision({ name: 'records' })
    expect(persists(writer, one, records)).toEqual([0])
    expect(reads(reader, two, records)).toBe(true)
    expect(reads(other, three, records)).toBe(false)
  })

  test('R1-S14: has a right to be written by nobody who may only read it', () => {
    const { card, admin, reader } = guests()
    const qp = reader.connect()
    removeRegion(card, admin, 'bytes')
    const area = { kind: mad.KIND_BYTES, length: 8192 }
    const bytes = admin.provision({ name: 'bytes', ...area })
    const before = card.nvdimm.live.slice()
    expect(reads(reader, qp, bytes)).toBe(true)
    reader.serve(...writeFrames(qp, bytes, 0, dataOf(64, 1)))
    expect(firstDifference(card.nvdimm.live, before)).toBe(-1)
  })

  test('R1-S14: is there again on a queue pair that had taken the key of the former back', () => {
    const { card, admin, writer } = guests()
    const qp = writer.connect()
    const before = admin.openAsIs('bytes')
    writer.serve(...sendFrames(qp, dataOf(8, 1), { invalidate: before.rkey }))
    removeRegion(card, admin, 'bytes')
    const bytes = admin.provision({ name: 'bytes', kind: mad.KIND_BYTES, length: 8192 })
    expect(reads(writer, qp, bytes)).toBe(true)
  })

  test('R1-S14: tells nothing of its memory to who has asked for that of the former', () => {
    const { card, admin, reader } = guests()
    const qp = reader.connect()
    const ask = (region: TestRegion): number => {
      const range = { rkey: region.rkey, address: region.baseHigh * 2 ** 32, length: 4096 }
      return sizeAnswers(reader.serve(associateFrame(qp, range))).length
    }
    expect(ask(admin.openAsIs('bytes'))).toBe(1)
    removeRegion(card, admin, 'bytes')
    const secret = admin.provision({ name: 'secret', kind: mad.KIND_BYTES, length: 8192 })
    expect(ask(secret)).toBe(0)
  })
})

test('R1-S14: rights are the same after a restart, and old keys and queue pairs are none', () => {
  const { card, admin, writer, other } = guests()
  const before = admin.openAsIs('records')
  const old = writer.connect()
  const again = closedCard(card.nvdimm).card
  const [newAdmin, newWriter, newOther] = [admin, writer, other].map(({ keys }, i) =>
    new Guest(again, keys, 11 + i).enter(),
  ) as [Guest, Guest, Guest]
  const records = newAdmin.openAsIs('records')
  expect(records.rkey).not.toBe(before.rkey)
  expect(newWriter.serve(...persistFrames(old, records, 1, dataOf(64, 1)))).toEqual([])
  expect(persists(newWriter, newWriter.connect(), before)).toEqual([])
  expect(persists(newWriter, newWriter.connect(), records)).toEqual([0])
  expect(persists(newOther, newOther.connect(), records)).toEqual([])
  expect(newOther.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named('records')).fault).toBe(
    'FORBIDDEN',
  )
})

test('R1-S14: a name of more than ASCII is compared as text is, letter by letter', () => {
  const name = 'Zürich €🙂'
  const peers = [peer('admin', ADMIN, { admin: true }), peer('writer', WRITER, { write: [name] })]
  const { card } = closedCard(1 << 20, { facts: { identity: { ...IDENTITY, peers } } })
  const admin = new Guest(card, ADMIN, 11).enter()
  const writer = new Guest(card, WRITER, 12).enter()
  admin.format()
  const theirs = admin.provision({ name })
  const others = ['Zürich €🙃', 'Zurich €🙂'].map((other) => admin.provision({ name: other }))
  expect(persists(writer, writer.connect(), theirs)).toEqual([0])
  for (const other of others) expect(persists(writer, writer.connect(), other)).toEqual([])
})

test('R1-S14: REPORT tells a peer of regions that he may read, an admin of those gone', () => {
  const { card, admin, writer, reader, other } = guests()
  const losses = ['records', 'other'].map((name, i) => {
    const region = admin.openAsIs(name)
    // One lies behind the other, and both are alike.
    for (const copy of [0, 1]) card.nvdimm.poison(slotOffset(region, 2 * i + copy, 3) / 64)
    admin.scan(region.id)
    return region.id
  })
  const told = (who: Guest): number[] => {
    const body = who.must(mad.METHOD_GET, mad.ATTRIBUTE_REPORT)
    const here = u32(body, mad.REPORT_HERE)
    expect(u32(body, mad.REPORT_TOTAL)).toBe(here)
    return Array.from({ length: here }, (_, i) => {
      return u16(body, mad.REPORT_FIRST + i * mad.REPORT_ENTRY_BYTES + mad.ENTRY_REGION)
    })
  }
  const [records, others] = losses
  expect(told(admin)).toEqual(losses)
  expect([told(writer), told(reader), told(other)]).toEqual([[records], [records], [others]])
  removeRegion(card, admin, 'records')
  expect(told(admin)).toEqual(losses)
  expect([told(writer), told(reader), told(other)]).toEqual([[], [], [others]])
})

// ---- queue pairs of the host -------------------------------------------------------------------

test('R1-S14: the peer of a queue pair of the host has what the host registers, no region', () => {
  const facts = { identity: IDENTITY }
  const card = new TestCard(1 << 20, { facts, ram: new HostRam(4 << 20) })
  const host = new QueueHost(card).init()
  const admin = new Guest(card, ADMIN, 11).enter()
  admin.format()
  const before = admin.provision()
  const { number, send } = host.createQp(host.createCq(16), { type: TYPE_CONNECTED, units: 8 })
  const peer = { number: 0x321, mtu: 1024, peerPsn: 5, psn: 6, incarnation: 0, ...stationOf(1) }
  host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, readying(send, peer))
  const behind = admin.provision({ name: 'other' })
  const heap = host.must(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND, fillOnDemand())
  const rkey = u32(heap, mad.ON_DEMAND_RKEY)
  const frame = host.allocate(PAGE_BYTES, PAGE_BYTES) / PAGE_BYTES
  host.must(mad.METHOD_SET, mad.ATTRIBUTE_MAP, fillMap(rkey, 1, [[0, frame]]))
  host.bytes.set(dataOf(16, 9), frame * PAGE_BYTES)
  const qp = { number, peer: 0x321, mtu: 1024, psn: 5, operation: 0 }
  const [vaHigh, vaLow] = words(BASE)
  expect(payloadOf(card.serve(readFrame(qp, { rkey }, vaHigh, vaLow, 16)))).toEqual(dataOf(16, 9))
  for (const region of [before, behind]) expect(reads(card, qp, region)).toBe(false)
})

// ---- several regions in one request ------------------------------------------------------------

describe('a request that names several regions', () => {
  test('R1-S14: carried copies by a key of a region without the right store nothing', () => {
    const { card, admin, writer } = guests()
    const [records, other] = [admin.openAsIs('records'), admin.openAsIs('other')]
    const copies = [dataOf(64, 1), dataOf(64, 1)]
    const good = carriedFrames(writer.connect(), records, 2, copies, { addressed: true })
    expect(ackStatuses(writer.serve(...good))).toEqual([0])
    const before = card.nvdimm.live.slice()
    for (const [region, rkey] of [
      [records, other.rkey],
      [other, records.rkey],
      [other, other.rkey],
    ] as const) {
      const qp = writer.connect()
      const options = { addressed: true, extensions: [{ rkey }] }
      expect(ackStatuses(writer.serve(...carriedFrames(qp, region, 1, copies, options)))).toEqual(
        [],
      )
    }
    expect(firstDifference(card.nvdimm.live, before)).toBe(-1)
  })

  test.each([
    ['records', 0],
    ['bytes', 1],
  ])('R1-S14: a batch with a member in %s of others stores nothing of theirs', (_, kind) => {
    const { admin, writer } = guests()
    const [records, other] = [admin.openAsIs('records'), admin.openAsIs('other')]
    const foreign = admin.openAsIs('other bytes')
    const bad: BatchRecord =
      kind === 0
        ? { slot: 1, data: dataOf(64, 2), reth: { rkey: other.rkey } }
        : bytesMember(foreign, 0, dataOf(64, 2))
    const look = new Guest({ serve: (...frames) => writer.serve(...frames) }, ADMIN, 21).enter()
    for (const members of [
      [{ slot: 1, data: dataOf(64, 3) }, bad],
      [bad, { slot: 2, data: dataOf(64, 3) }],
    ]) {
      const qp = writer.connect()
      const said = statuses(writer.serve(...batchFrames(qp, records, members)))
      expect(
        said.filter((one) => one.said === 'durable' && one.count === one.durable.length),
      ).toEqual([])
    }
    const qp = look.connect()
    const data = kind === 0 ? look.read(qp, other, 1, 0, 64) : look.read(qp, foreign, 0, 0, 64)
    expect(data === null || data.every((byte) => byte === 0)).toBe(true)
  })
})

test('R1-S14: a peer with another key of the same name is another one', () => {
  const { card, writer } = guests()
  expect(writer.tag).not.toBe(new Guest(card, ADMIN).tag)
  expect(new Guest(card, WRITER).tag).toBe(writer.tag)
})
