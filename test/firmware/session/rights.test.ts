/**
 * Who may do what to a card with peers (R1-S14): every control call of everybody, every request in
 * regions to which its peer has a right, and to which it has none.
 *
 * The tables here are written from the design, and are no copy of the product's: whoever adds a
 * call says here who may ask it.
 */

import { describe, expect, test } from 'vitest'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { batchFrames, bytesMember, statuses } from '../../support/cards/batch-card.ts'
import {
  ackStatuses,
  dataOf,
  persistFrames,
  readFrame,
  regionOf,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { QueueHost } from '../../support/queues/queue-host.ts'
import { associateFrame, hintFrame } from '../../support/residency/residency-asks.ts'
import { ADMIN_2, guests, IDENTITY } from '../../support/sessions/closed-card.ts'
import { Guest } from '../../support/sessions/guest.ts'
import { ADMIN, NOBODY, READER, WRITER } from '../../support/sessions/peers.ts'
import {
  atomicWriteFrame,
  carriedFrames,
  compareSwapFrame,
  fetchAddFrame,
  firstDifference,
  flushFrame,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

type Fill = (body: Uint8Array) => void

// ---- control calls -----------------------------------------------------------------------------

/** Who asks, from the least to the most. */
const ASKERS = ['stranger', 'reader', 'writer', 'admin', 'host'] as const
type Asker = (typeof ASKERS)[number]

/** The first in ASKERS that may ask it, and by which method; `open` is who may of an open card. */
const CALLS: Readonly<Record<string, readonly ['GET' | 'SET', Asker]>> = {
  STATUS: ['GET', 'stranger'],
  HANDSHAKE: ['SET', 'stranger'],
  COUNTERS: ['GET', 'reader'],
  FIGURES: ['GET', 'reader'],
  HEALTH: ['SET', 'reader'],
  OPEN: ['GET', 'reader'],
  REGION: ['GET', 'reader'],
  REPORT: ['GET', 'reader'],
  CONNECT: ['SET', 'reader'],
  DISCONNECT: ['SET', 'reader'],
  // Of a region which they may write; that is judged below.
  SCAN: ['SET', 'reader'],
  SETTLE: ['SET', 'reader'],
  FORMAT: ['SET', 'admin'],
  PROVISION: ['SET', 'admin'],
  REMOVE: ['SET', 'admin'],
  PUBLISH: ['SET', 'admin'],
  ATTACH: ['SET', 'admin'],
  DETACH: ['SET', 'admin'],
  PROBE: ['SET', 'admin'],
  PLACE: ['SET', 'admin'],
  AGENT: ['SET', 'admin'],
  PIECES: ['SET', 'admin'],
  PEERS: ['GET', 'admin'],
  ADD_PEER: ['SET', 'admin'],
  REMOVE_PEER: ['SET', 'admin'],
  QUEUES: ['GET', 'admin'],
  QUEUE: ['GET', 'admin'],
  CACHE: ['SET', 'admin'],
  CREATE_CQ: ['SET', 'host'],
  CREATE_QP: ['SET', 'host'],
  MODIFY_QP: ['SET', 'host'],
  DESTROY: ['SET', 'host'],
  REGISTER: ['SET', 'host'],
  DEREGISTER: ['SET', 'host'],
  QUEUE_WRITE: ['SET', 'host'],
  QUEUE_LOCK: ['SET', 'host'],
  QUEUE_RELEASE: ['SET', 'host'],
  RING: ['SET', 'host'],
  BATCH_NOTICES: ['SET', 'host'],
  ON_DEMAND: ['SET', 'host'],
  MAP: ['SET', 'host'],
  UNMAP: ['SET', 'host'],
  ON_DEMAND_END: ['SET', 'host'],
  ON_DEMAND_STATE: ['SET', 'host'],
  RESIDENCY: ['GET', 'host'],
}

const DENIED = ['NO_SESSION', 'FORBIDDEN', 'HOST_ONLY']

const ATTRIBUTES = Object.entries(mad)
  .filter(([name]) => name.startsWith('ATTRIBUTE_'))
  .map(([name, number]) => [name.slice('ATTRIBUTE_'.length), number as number] as const)

interface Everybody {
  readonly card: TestCard
  readonly of: Readonly<Record<Asker, Pick<Guest, 'manage'>>>
}

/** A card with a host, and somebody of each kind. */
function everybody(identity: Identity | null): Everybody {
  const facts = identity === null ? {} : { identity }
  const card = new TestCard(1 << 20, { facts, ram: new HostRam(1 << 20) })
  const host = new QueueHost(card)
  host.init()
  const guest = (keys: Guest['keys'], last: number): Guest => {
    const one = new Guest(card, keys, last)
    return identity === null ? one : one.enter()
  }
  const admin = guest(ADMIN, 11)
  admin.format().provision()
  const stranger = new Guest(card, NOBODY, 10)
  const peers = { reader: guest(READER, 13), writer: guest(WRITER, 12), admin }
  return { card, of: { stranger, ...peers, host } }
}

describe('control calls', () => {
  test('R1-S14: each has its line in the table here', () => {
    expect(Object.keys(CALLS).sort()).toEqual(ATTRIBUTES.map(([name]) => name).sort())
  })

  test.each(ASKERS)(
    'R1-S14: of a card with peers, who is %s may ask what is his, and nothing else',
    (who) => {
      const { of } = everybody(IDENTITY)
      for (const [name, attribute] of ATTRIBUTES) {
        const [method, least] = CALLS[name]!
        const number = method === 'GET' ? mad.METHOD_GET : mad.METHOD_SET
        const { fault } = of[who].manage(number, attribute)
        const may = ASKERS.indexOf(who) >= ASKERS.indexOf(least)
        if (may) expect(DENIED, `${who} ${name}: ${fault}`).not.toContain(fault)
        else expect(DENIED, `${who} ${name}: ${fault}`).toContain(fault)
      }
    },
  )

  test.each(ASKERS)(
    "R1-S14: of an open card, who is %s may ask all but what is its own host's",
    (who) => {
      const { of } = everybody(null)
      for (const [name, attribute] of ATTRIBUTES) {
        const [method, least] = CALLS[name]!
        const number = method === 'GET' ? mad.METHOD_GET : mad.METHOD_SET
        const { fault } = of[who].manage(number, attribute)
        if (least !== 'host' || who === 'host')
          expect(DENIED, `${who} ${name}`).not.toContain(fault)
        else expect(fault, `${who} ${name}`).toBe('HOST_ONLY')
      }
    },
  )

  test('R1-S14: no method or attribute is answered in the clear but STATUS and HANDSHAKE', () => {
    const { card, of } = everybody(IDENTITY)
    const before = card.nvdimm.live.slice()
    for (let attribute = 0; attribute < 0x100; attribute++) {
      for (const method of [0, mad.METHOD_GET, mad.METHOD_SET, 3, 0x7f]) {
        const { fault } = of.stranger.manage(method, attribute)
        const isStatus = attribute === mad.ATTRIBUTE_STATUS && method === mad.METHOD_GET
        const what = `attribute ${attribute}, method ${method}`
        if (isStatus) expect(fault, what).toBe('PASS')
        else expect([...DENIED, 'REQUEST', 'HANDSHAKE'], what).toContain(fault)
      }
    }
    expect(firstDifference(card.nvdimm.live, before)).toBe(-1)
  })

  test('R1-S14: STATUS tells a stranger that the card serves its peers, not of the part', () => {
    const { card, of } = everybody(IDENTITY)
    const { body } = of.stranger.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
    const told = [...body.keys()].filter((at) => body[at] !== 0)
    const state = [mad.PART_STATE, mad.PART_ACCESS]
    const word = (at: number): number[] => [at, at + 1, at + 2, at + 3]
    const may = [...state, ...word(mad.PART_PATH_MTU), ...word(mad.PART_FORMAT_VERSION)]
    for (const at of told) expect([...may, mad.PART_HEALTH, mad.PART_FAULT]).toContain(at)
    expect(body[mad.PART_ACCESS]).toBe(mad.ACCESS_PEERS)
    // The host does not answer others: nothing of its answers is left over in those to strangers.
    expect(card.sent.length).toBe(1)
  })

  test('R1-S14: what is refused in the clear tells nothing: its body is as asked, or zeros', () => {
    const { of } = everybody(IDENTITY)
    const pattern: Fill = (body) => body.fill(0x5c)
    for (const [name, attribute] of ATTRIBUTES) {
      if (name === 'STATUS') continue
      const method = CALLS[name]![0] === 'GET' ? mad.METHOD_GET : mad.METHOD_SET
      const { fault, body } = of.stranger.manage(method, attribute, pattern)
      expect(fault, name).not.toBe('PASS')
      for (const byte of body) expect([0, 0x5c]).toContain(byte)
    }
  })
})

const named =
  (name: string): Fill =>
  (body) =>
    body.set(Buffer.from(name), mad.REGION_NAME)

const NAMES = ['records', 'other', 'bytes', 'other bytes']
const OF_WRITER = ['records', 'bytes']

describe('calls about a region', () => {
  test('R1-S14: a peer opens what it may read, and is told no more', () => {
    const { admin, writer, reader, other } = guests()
    const opened = (who: Guest): string[] =>
      NAMES.filter((name) => {
        const { fault, body } = who.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, named(name))
        if (fault !== 'PASS') expect(u32(body, mad.REGION_RKEY)).toBe(0)
        return fault === 'PASS'
      })
    expect(opened(admin)).toEqual(NAMES)
    expect(opened(writer)).toEqual(OF_WRITER)
    expect(opened(reader)).toEqual(OF_WRITER)
    expect(opened(other)).toEqual(['other', 'other bytes'])
  })

  test('R1-S14: a list of the regions has those that the peer may read', () => {
    const { admin, writer, reader } = guests()
    const listed = (who: Guest): string[] =>
      Array.from({ length: 32 }, (_, i) =>
        who.manage(mad.METHOD_GET, mad.ATTRIBUTE_REGION, undefined, i),
      )
        .filter(({ fault }) => fault === 'PASS')
        .map(({ body }) => regionOf(body).name)
    expect(listed(admin)).toEqual(NAMES)
    expect(listed(writer)).toEqual(OF_WRITER)
    expect(listed(reader)).toEqual(OF_WRITER)
  })

  test('R1-S14: what became durable in a region is told to who may read it', () => {
    const { admin, writer, reader, other } = guests()
    const told = (who: Guest): string[] =>
      NAMES.filter((name) => {
        const { fault, body } = who.manage(mad.METHOD_GET, mad.ATTRIBUTE_FIGURES, named(name))
        expect(['PASS', 'FORBIDDEN']).toContain(fault)
        // The name comes back, and nothing behind it.
        if (fault !== 'PASS')
          expect(body.subarray(mad.FIGURES_FIRST_BUCKET).some((byte) => byte !== 0)).toBe(false)
        return fault === 'PASS'
      })
    expect(told(admin)).toEqual(NAMES)
    expect(told(writer)).toEqual(OF_WRITER)
    expect(told(reader)).toEqual(OF_WRITER)
    expect(told(other)).toEqual(['other', 'other bytes'])
  })

  test('R1-S14: SCAN and SETTLE are asked by who may write the region', () => {
    const { admin, writer, reader, other } = guests()
    const { id } = admin.openAsIs('records')
    const scan = (who: Guest): string =>
      who.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (body) => putU32(body, mad.SCAN_REGION, id))
        .fault
    const settle = (who: Guest): string =>
      who.manage(mad.METHOD_SET, mad.ATTRIBUTE_SETTLE, (body) => {
        putU32(body, mad.SETTLE_REGION, id)
        body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
      }).fault
    expect([admin, writer, reader, other].map(scan)).toEqual([
      'PASS',
      'PASS',
      'FORBIDDEN',
      'FORBIDDEN',
    ])
    for (const who of [reader, other]) expect(settle(who)).toBe('FORBIDDEN')
    for (const who of [admin, writer]) expect(settle(who)).not.toBe('FORBIDDEN')
  })

  test('R1-S14: a port is published and pointed elsewhere by any admin', () => {
    const { card, admin, writer } = guests()
    const publish = (who: Guest, name: string): string =>
      who.manage(mad.METHOD_SET, mad.ATTRIBUTE_PUBLISH, (body) => {
        named(name)(body)
        putU16(body, mad.PUBLISH_PORT, 7204)
        body[mad.PUBLISH_FORM] = mad.FORM_CAPABILITY
        body[mad.PUBLISH_FLAGS] = mad.PUBLISH_STOCK
      }).fault
    expect(publish(admin, 'bytes')).toBe('PASS')
    expect(publish(writer, 'records')).toBe('FORBIDDEN')
    expect(publish(new Guest(card, ADMIN_2, 77).enter(), 'records')).toBe('PASS')
  })
})

// ---- queue pairs -------------------------------------------------------------------------------

describe('queue pairs', () => {
  test('R1-S14: the client of another peer, or of none, is nobody of ours', () => {
    const all = guests()
    const connect = (who: Guest, high: number): string =>
      who.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
        putU32(body, mad.CONNECT_CLIENT_QP, 0x321)
        putU16(body, mad.CONNECT_PATH_MTU, 1024)
        putU32(body, mad.CONNECT_CLIENT_ID_HIGH, high)
      }).fault
    const peers = [all.admin, all.writer, all.reader, all.other]
    for (const who of peers) {
      expect(connect(who, 0)).toBe('FORBIDDEN')
      for (const whom of peers) {
        expect(connect(who, whom.tag)).toBe(who === whom ? 'PASS' : 'FORBIDDEN')
      }
    }
  })

  test('R1-S14: DISCONNECT of another peer, in a session or in the clear, ends nothing', () => {
    const { card, admin, writer, reader } = guests()
    const region = writer.openAsIs('records')
    const qp = writer.connect()
    const end: Fill = (body) => {
      putU32(body, mad.DISCONNECT_QP, qp.number)
      putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
    }
    for (const who of [admin, reader, new Guest(card, READER, 12).enter()]) {
      who.manage(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, end)
    }
    expect(writer.inTheClear(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, end)?.fault).toBe(
      'NO_SESSION',
    )
    expect(ackStatuses(writer.serve(...persistFrames(qp, region, 1, dataOf(64, 1))))).toEqual([0])
    // A peer may, from wherever it is.
    new Guest(card, WRITER, 99).enter().manage(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, end)
    expect(writer.serve(...persistFrames(qp, region, 1, dataOf(64, 2)))).toEqual([])
  })

  test('R1-S14: CONNECT of another peer from the same place is told another queue pair', () => {
    const { card, writer } = guests()
    const [qp] = [writer.connect()]
    const eve = new Guest(card, READER, 12).enter()
    const body = eve.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, qp!.peer)
      putU16(request, mad.CONNECT_PATH_MTU, 4096)
      putU32(request, mad.CONNECT_CLIENT_ID_LOW, 7)
    })
    expect(u32(body, mad.CONNECT_QP)).not.toBe(qp!.number)
  })
})

// ---- requests ----------------------------------------------------------------------------------

/** One kind of request: does it succeed? In `records` and in `bytes`, or one of them. */
interface Request {
  readonly name: string
  /** 'read' changes nothing. */
  readonly right: 'read' | 'write'
  readonly region: 'records' | 'bytes'
  readonly frames: (qp: TestPeer, region: TestRegion) => Uint8Array[]
}

const addressOf = ({ baseHigh }: TestRegion): number => baseHigh * 2 ** 32

const REQUESTS: readonly Request[] = [
  {
    name: 'READ of a record',
    right: 'read',
    region: 'records',
    frames: (qp, r) => [readFrame(qp, r, 1, 0, 16)],
  },
  { name: 'READ', right: 'read', region: 'bytes', frames: (qp, r) => [readFrame(qp, r, 0, 0, 16)] },
  { name: 'FLUSH', right: 'read', region: 'bytes', frames: (qp, r) => [flushFrame(qp, r)] },
  {
    name: 'FLUSH of the region',
    right: 'read',
    region: 'bytes',
    frames: (qp, r) => [flushFrame(qp, r, { selectivity: 1 })],
  },
  {
    name: 'the question for its memory',
    right: 'read',
    region: 'bytes',
    frames: (qp, r) => [associateFrame(qp, { rkey: r.rkey, address: addressOf(r), length: 8192 })],
  },
  {
    name: 'a hint',
    right: 'read',
    region: 'bytes',
    frames: (qp, r) => [hintFrame(qp, { rkey: r.rkey, address: addressOf(r), length: 4096 })],
  },
  {
    name: 'WRITE',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => writeFrames(qp, r, 0, dataOf(64, 5)),
  },
  {
    name: 'WRITE of many packets',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => writeFrames({ ...qp, mtu: 256 }, r, 0, dataOf(200, 5)),
  },
  {
    name: 'WRITE with immediate',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => writeFrames(qp, r, 0, dataOf(64, 5), { immediate: 3 }),
  },
  {
    name: 'WRITE of a record',
    right: 'write',
    region: 'records',
    frames: (qp, r) => writeFrames(qp, r, 0, dataOf(64, 6), { vaHigh: 1 }),
  },
  {
    name: 'WRITE_PERSIST',
    right: 'write',
    region: 'records',
    frames: (qp, r) => persistFrames(qp, r, 1, dataOf(64, 7)),
  },
  {
    name: 'WRITE_PERSIST again, as a repetition',
    right: 'write',
    region: 'records',
    frames: (qp, r) => persistFrames(qp, r, 1, dataOf(64, 7), { repetition: true }),
  },
  {
    name: 'WRITE_PERSIST, carried',
    right: 'write',
    region: 'records',
    frames: (qp, r) => carriedFrames(qp, r, 1, [dataOf(64, 8), dataOf(64, 8)]),
  },
  {
    name: 'a batch of records',
    right: 'write',
    region: 'records',
    frames: (qp, r) => batchFrames(qp, r, [{ slot: 1, data: dataOf(64, 9) }]),
  },
  {
    name: 'a batch of bytes',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => batchFrames(qp, r, [bytesMember(r, 0, dataOf(64, 9))]),
  },
  {
    name: 'FETCH_ADD',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => [fetchAddFrame(qp, r, 0, 1n)],
  },
  {
    name: 'COMPARE_SWAP',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => [compareSwapFrame(qp, r, 0, 0n, 9n)],
  },
  {
    name: 'ATOMIC WRITE',
    right: 'write',
    region: 'bytes',
    frames: (qp, r) => [atomicWriteFrame(qp, r, 0, dataOf(8, 4))],
  },
  {
    name: 'SEND with Invalidate',
    right: 'read',
    region: 'bytes',
    frames: (qp, r) => sendFrames(qp, dataOf(8, 1), { invalidate: r.rkey }),
  },
]

/** Was it refused? What was neither answered nor refused is 'silent'. */
function outcomeOf(sent: readonly Sent[], qp: TestPeer): 'done' | 'refused' | 'silent' {
  const own = sent.filter(({ packet }) => packet.destQp === qp.peer)
  const codes = [...ackStatuses(own), ...statuses(own).map(({ paeth }) => paeth.status)]
  if (own.some(({ syndrome }) => syndrome >= 0x60)) return 'refused'
  if (codes.some((code) => code !== 0)) return 'refused'
  return own.length > 0 ? 'done' : 'silent'
}

function outcome(who: Guest, region: TestRegion, { frames }: Request): string {
  const qp = who.connect()
  const sent = who.serve(...frames(qp, region))
  const said = outcomeOf(sent, qp)
  who.disconnect(qp)
  return said
}

describe('requests', () => {
  test.each(REQUESTS)(
    'R1-S14: $name is done for who has the right to $right; others are refused, and change nothing',
    (request) => {
      const { card, admin, writer, reader, other } = guests()
      const region = admin.openAsIs(request.region)
      for (const who of [admin, writer, ...(request.right === 'read' ? [reader] : [])]) {
        expect(outcome(who, region, request)).toBe('done')
      }
      const before = card.nvdimm.live.slice()
      for (const who of [other, ...(request.right === 'read' ? [] : [reader])]) {
        expect(outcome(who, region, request)).toBe('refused')
      }
      expect(firstDifference(card.nvdimm.live, before)).toBe(-1)
    },
  )
})
