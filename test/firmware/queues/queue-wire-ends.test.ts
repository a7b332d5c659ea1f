/**
 * How connected queues and those of management end, or wait, where the host, its memory or the room
 * for contexts fails them (P3-26, P3-28, P2-25, H2, H4).
 */

import { expect, test } from 'vitest'
import { HOST_BUFFERS, POSTED_RECEIVES, QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { RANDOM_AT, RANDOM_BYTES, RANDOM_KEY_BYTES } from '../../../firmware/board/memory-map.ts'
import { CAPACITY_MIN } from '../../../firmware/host/context-cache.ts'
import * as el from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type TestCard,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { End, hostToHost, TwoCards } from '../../support/cards/two-cards.ts'
import { at, localQueue, play, record } from '../../support/queues/local-queue.ts'
import { FIRST, nopHost } from '../../support/queues/nop-queues.ts'
import {
  type CardHost,
  callOf,
  destroy,
  hostOf,
  stationOf,
} from '../../support/queues/queue-calls.ts'
import { type ElementFields, elementOf } from '../../support/queues/queue-host.ts'
import { frameOf } from '../../support/wire/frames.ts'

/** Depth of the ring of events. */
const EVENTS = 1024

/** Reads of [from, from + length) fail, except for the first `after` of them. */
function failReads(host: CardHost, from: number, length: number, after = 0): void {
  let left = after
  host.ram.link.script = ({ kind: what, at: where }) => {
    if (what !== 'read' || where < from || where >= from + length) return undefined
    left -= 1
    return left < 0 ? 'unsupported' : undefined
  }
}

function zone3Of(host: CardHost, queue: number): number {
  return host.zone3At + queue * info.ZONE3_BYTES
}

function send(bytes: number): { opcode: number; inline: Uint8Array } {
  return { opcode: kind.SEND, inline: dataOf(bytes, 1) }
}

test('P3-26: a message that turns out longer than its element is its sender’s error', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig, 256)
  other.receive(0, 300)
  const cqes = one.play({ opcode: kind.SEND, ...one.put(dataOf(1000, 3)) })
  expect(cqes).toMatchObject([{ status: el.WC_REM_INV_REQ_ERR }])
})

/** Whatever the card draws next, the place of a queue pair is looked for from that one on. */
function drawPlace({ buffer, byteOffset }: Uint8Array, place: number): void {
  const at = byteOffset + RANDOM_AT + RANDOM_KEY_BYTES
  const words = new Int32Array(buffer, at, (RANDOM_BYTES - RANDOM_KEY_BYTES) / 4)
  for (let i = 0; i < words.length; i++) words[i] = (words[i]! & ~(QUEUE_PAIRS - 1)) | place
}

test('P2-25: what comes before any element keeps no room in the queue of an earlier pair', () => {
  const rig = new TwoCards()
  const [, first] = hostToHost(rig)
  const placeOf = ({ qp }: End): number => qp.number & (QUEUE_PAIRS - 1)
  first.receive(0, 100)
  expect(destroy(first.host, first.qp.send)).toBe('PASS')
  drawPlace(first.host.card.machine.packets, placeOf(first))
  const [one, other] = hostToHost(rig)
  expect(placeOf(other)).toBe(placeOf(first))
  one.post(send(8))
  rig.run()
  rig.pass(100)
  other.receive(0, 100)
  for (let i = 0; i < 4; i++) rig.pass(100_000)
  expect(other.host.poll(first.receiveCq)).toEqual([])
  expect(other.host.poll(other.receiveCq)).toMatchObject([{ length: 8 }])
})

test('H4: an element of a receive queue that cannot be read ends queue and pair', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const { host, qp } = other
  const { ring } = host.queues.get(qp.receive)!
  failReads(host, ring, 64)
  other.receive(0, 100)
  host.ram.link.script = null
  expect(host.zone1(qp.receive)).toMatchObject({ state: info.QUEUE_ERROR, fault: 'DMA' })
  one.post(send(8))
  for (let i = 0; i < 10; i++) rig.pass(1_000_000)
  expect(host.poll(other.receiveCq)).toEqual([])
})

test('P3-28: a completion queue that is gone, though receives name it, takes no message', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const { host, receiveCq } = other
  // The host's own fault: the completion queue counts no users any more.
  host.view.setUint32(host.zone1At + receiveCq * info.ZONE1_BYTES + info.Z1_USERS, 0, true)
  other.receive(0, 100)
  expect(destroy(host, receiveCq)).toBe('PASS')
  other.receive(100, 100)
  one.post(send(8))
  for (let i = 0; i < 4; i++) rig.pass(100_000)
  expect(host.zone1(other.qp.receive)).toMatchObject({ state: info.QUEUE_ERROR })
})

test('P3-28: an element of a pair that was lost in the same call is not sent', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const [peer, host] = rig.hosts
  one.post({ opcode: kind.WRITE, rkey: 1, inline: dataOf(8, 1) })
  const frames = peer.card.serve().map(({ bytes }) => bytes)
  other.post(send(8))
  host.card.serve(...frames)
  rig.pass(100)
  expect(host.zone1(other.qp.send)).toMatchObject({ pointer: 0, fault: 'CONNECTION_LOST' })
})

test('H4: a completion queue that cannot be looked at again ends alone with who needs it', () => {
  const { host, cqs, sqs } = nopHost({ entries: 2, completionQueues: 2, sendQueues: 2 })
  const [queue, neighbour] = sqs
  const nop = elementOf({ opcode: el.WQE_NOP, flags: el.SIGNALED })
  for (let i = 0; i < 2; i++) host.post(queue!, nop)
  host.ring(queue!)
  host.run()
  expect(host.poll(cqs[0]!)).toHaveLength(2)
  host.post(queue!, nop)
  host.ring(queue!)
  failReads(host as CardHost, zone3Of(host as CardHost, cqs[0]!), info.ZONE3_BYTES)
  host.run()
  host.ram.link.script = null
  expect(host.zone1(cqs[0]!)).toMatchObject({ state: info.QUEUE_ERROR, fault: 'DMA' })
  expect(host.zone1(queue!).state).toBe(info.QUEUE_ERROR)
  host.post(neighbour!, nop)
  host.ring(neighbour!)
  host.run()
  expect(host.poll(cqs[1]!)).toHaveLength(1)
})

test('H4: a datagram whose bytes cannot be read ends its queue', () => {
  const host = hostOf().init()
  const local = host.allocate(mad.MAD_BYTES)
  failReads(host, local, mad.MAD_BYTES)
  host.post(0, elementOf({ opcode: kind.SEND, local, length: mad.MAD_BYTES }))
  host.ring(0)
  host.run()
  host.ram.link.script = null
  expect(host.zone1(page.QUEUE_GSI_SEND)).toMatchObject({ fault: 'DMA' })
})

/** A response of another card. */
function response(): Uint8Array {
  return frameOf({
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload: callOf(mad.ATTRIBUTE_STATUS, 77, undefined, mad.METHOD_RESPONSE),
  })
}

test('H4: a datagram for a host whose completion queue is over is dropped, and no more', () => {
  for (const isRung of [false, true]) {
    const host = hostOf().init()
    const queue = page.QUEUE_GSI_COMPLETION
    failReads(host, zone3Of(host, queue), info.ZONE3_BYTES)
    if (isRung) {
      host.ring(queue)
      host.run()
    }
    host.card.serve(response())
    host.ram.link.script = null
    expect(host.zone1(queue)).toMatchObject({ state: info.QUEUE_ERROR, fault: 'DMA' })
    host.card.serve(response())
    expect(host.zone1(page.QUEUE_GSI_RECEIVE)).toMatchObject({
      ...{ state: info.QUEUE_READY, pointer: 0 },
    })
  }
})

test('H3: a queue that names a pair which is not there is neither made ready nor held', () => {
  const { host } = nopHost({ count: 32 })
  const queue = FIRST + 8
  const shape = { type: info.TYPE_CONNECTED, queuePair: 5, depth: 16, completions: FIRST }
  const of = { ...shape, state: info.QUEUE_INIT }
  host.forceQueue(queue, { ...of, kind: info.KIND_SEND, other: queue + 1 })
  host.forceQueue(queue + 1, { ...of, kind: info.KIND_RECEIVE, other: queue })
  const ready = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
    putU32(body, mad.MODIFY_QP_SEND, queue)
    body[mad.MODIFY_QP_STATE] = info.QUEUE_READY
    putU16(body, mad.MODIFY_QP_MTU, 1024)
    putU32(body, mad.MODIFY_QP_PEER, 0x1234)
    body[mad.MODIFY_QP_DEPTH] = 16
    body.set(stationOf(3).mac, mad.MODIFY_QP_MAC)
    body.set(stationOf(3).ipv4, mad.MODIFY_QP_IPV4)
  })
  expect(ready.fault).toBe('CONNECTION_LOST')
  expect(destroy(host, queue)).toBe('PASS')
})

test('P2-25: a record waits for a buffer while silent peers have all of them', () => {
  const rig = new TwoCards(128)
  const queue = localQueue(rig.hosts[1])
  const { card } = queue.host
  const region = card.provision({ slots: 8, capacity: 4096 })
  const nobody = { last: 3, number: 0x1234, mtu: 1024, peerPsn: 1, psn: 1, incarnation: 1 }
  const ends = Array.from({ length: 8 }, () => new End(rig, 1, { memory: queue }).ready(nobody))
  rig.loses = (from) => from === 0
  for (const end of ends) {
    end.post(...Array.from({ length: HOST_BUFFERS / 2 }, () => send(8)))
    rig.run()
  }
  const { host, qp, cq } = queue
  const wanted = record(queue, region, 1, 1, dataOf(3000, 1))
  expect(wanted).toMatchObject(at(queue, 3000))
  host.post(qp.send, elementOf({ ...wanted, flags: el.SIGNALED }))
  host.ring(qp.send)
  for (let i = 0; i < 4; i++) card.pass(100)
  expect(host.poll(cq)).toEqual([])
  destroy(host, ends[0]!.qp.send)
  for (let i = 0; i < 4; i++) card.pass(100)
  expect(host.poll(cq)).toMatchObject([{ status: el.WC_SUCCESS, flags: el.DURABLE }])
})

test('P2-25: messages whose contexts find no place wait until room that is kept is wanted', () => {
  const rig = new TwoCards(128)
  const memory = localQueue(rig.hosts[1])
  const { host } = memory
  const { card } = host
  const others = localQueue(rig.hosts[0])
  const pairs = Array.from({ length: CAPACITY_MIN + 1 }, () => {
    const ends = [
      new End(rig, 0, { memory: others, units: 16 }),
      new End(rig, 1, { memory, units: 16 }),
    ] as const
    const both = { mtu: 1024, peerPsn: 1, psn: 1, incarnation: 0 }
    ends[0].ready({ ...both, last: 2, number: ends[1].qp.number })
    ends[1].ready({ ...both, last: 3, number: ends[0].qp.number })
    return ends
  })
  const [late, ...early] = pairs
  // More than are fetched at once: the queue has to be looked at again.
  late![1].receive(0, 100, POSTED_RECEIVES + 2)
  for (const [one, other] of early) {
    other.receive(0, 100)
    expect(one.one(send(8)).status).toBe(el.WC_SUCCESS)
  }
  host.setCache(0, 1, 0, CAPACITY_MIN)
  const nop = { opcode: el.WQE_NOP }
  expect(play(memory, nop)).toHaveLength(1)
  // The next one finds no element, and room is kept for it.
  for (const [one] of early) {
    one.post(send(8))
    rig.run()
  }
  expect(late![0].play(send(8))).toEqual([])
  host.post(memory.qp.send, elementOf({ ...nop, flags: el.SIGNALED }))
  host.ring(memory.qp.send)
  for (let i = 0; i < 4; i++) card.pass(100)
  expect(host.poll(memory.cq)).toHaveLength(1)
  for (const [, other] of early) other.receive(0, 100)
  for (let i = 0; i < 6; i++) rig.pass(100_000)
  expect(host.poll(late![1].receiveCq)).toMatchObject([{ length: 8 }])
})

test('H4: a host whose count of events cannot be read is served no more', () => {
  const { host } = nopHost()
  const card = host.card as TestCard
  for (let i = 0; i < EVENTS + 8; i++) {
    host.ring(15)
    host.run()
  }
  host.ram.link.script = ({ kind: what }) => (what === 'read' ? 'unsupported' : undefined)
  card.pass(1_000_000)
  host.ram.link.script = null
  expect(host.header(page.HEADER_EPOCH)).toBe(0)
})

/** What a peer may ask a host's queue pair for, of slot 1 of a region of the card. */
function askedOf({ rkey }: Pick<TestRegion, 'rkey'>): Record<string, ElementFields[]> {
  const at = { rkey, address: 2 ** 32 }
  const inline = dataOf(64, 9)
  const persist = { opcode: kind.WRITE_PERSIST, ...at, inline, operation: 9, wait: 2 }
  const member = (index: number, condition: number): ElementFields => ({
    ...{ ...persist, operation: 9 + index, address: (1 + 3 * index) * 2 ** 32 },
    batch: { id: 5, condition, count: 2, index, left: 1 - index },
  })
  return {
    record: [persist],
    'record that waits for one copy': [{ ...persist, wait: 1 }],
    'member of a batch': [member(0, 0)],
    batch: [member(0, 0), member(1, 0)],
    'batch in order': [member(0, 1), member(1, 1)],
    'plain WRITE': [{ opcode: kind.WRITE, ...at, inline }],
    'WRITE that tells': [{ opcode: kind.WRITE_IMM, ...at, inline }],
    SEND: [{ opcode: kind.SEND, inline }],
    READ: [{ opcode: kind.READ, rkey, address: 0 }],
    FLUSH: [{ opcode: kind.FLUSH, rkey, address: 0 }],
  }
}

/** How a host may be gone when a burst comes. */
const GOINGS: Record<string, (host: CardHost) => void> = {
  'its link is down': (host) => host.setLink(false),
  'it began again': (host) => host.enable(),
  'its header page does not answer': (host) => {
    failReads(host, 0, 1 << 16)
    host.enable()
  },
  'its count of events does not answer': (host) => {
    for (let i = 0; i < EVENTS + 8; i++) {
      host.ring(40)
      host.run()
    }
    failReads(host, 0, 1 << 16)
    host.card.now += 1_000_000
  },
}

for (const [going, goes] of Object.entries(GOINGS)) {
  test(`H2: what peers sent to a host ends well in the burst in which ${going}`, () => {
    for (const asked of Object.keys(askedOf({ rkey: 0 }))) {
      const rig = new TwoCards()
      const [peer, { card }] = rig.hosts
      const region = card.provision({ slots: 8, capacity: 100 })
      const bystander = card.connect()
      card.serve(...persistFrames(bystander, region, 1, dataOf(64, 1)))
      const [one, other] = hostToHost(rig)
      other.receive(0, 100)
      one.post(...askedOf(region)[asked]!)
      const frames = peer.card.serve().map(({ bytes }) => bytes)
      expect(frames.length, asked).toBeGreaterThan(0)
      goes(other.host)
      const beside = persistFrames(bystander, region, 2, dataOf(64, 2))
      expect(persistAcks(card.serve(...frames, ...beside)), asked).toContainEqual(
        expect.objectContaining({ status: 0, operationLow: bystander.operation }),
      )
      card.pass(100)
      const [read] = card.serve(readFrame(bystander, region, 1, 0, 64))
      expect([dataOf(64, 1), dataOf(64, 9)], asked).toContainEqual(read!.payload)
    }
  })
}
