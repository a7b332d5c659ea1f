/**
 * What one queue, one peer or one host may do to others: results that wait, memory that was taken
 * back, numbers on the wire, room that a silent peer keeps.
 */

import { expect, test } from 'vitest'
import { DDIO_ON } from '../../../boards/emulator/host/host-memory.ts'
import { HOST_POSTINGS, HOST_QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { CAPACITY_MIN } from '../../../firmware/host/context-cache.ts'
import * as el from '../../../firmware/host/element.ts'
import {
  QUEUE_ERROR,
  QUEUE_PAUSED,
  QUEUE_READY,
  TYPE_CONNECTED,
} from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { placed } from '../../support/cards/placed.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { End, hostToHost, TwoCards, toCard } from '../../support/cards/two-cards.ts'
import { PLACES_OF_NETWORK, type Taken, takeAllPlaces } from '../../support/peers/strangers.ts'
import { RawAgentQueues } from '../../support/queues/agent-host.ts'
import { at, localQueue, one as play, readyHost, record } from '../../support/queues/local-queue.ts'
import {
  callOf,
  fillCq,
  lock,
  release,
  sendCall,
  takeAnswers,
} from '../../support/queues/queue-calls.ts'
import { type ElementFields, elementOf, putU64 } from '../../support/queues/queue-host.ts'

/** Syndrome of the PERSIST_ACK, and opcode of the last packet of a SEND. */
const SEND_LAST = 2
const LOST = 0x55

function slotsOf(
  { slots, capacity }: { slots: number; capacity: number },
  rig: TwoCards,
): TestRegion {
  return rig.hosts[1].card.provision({ slots, capacity })
}

/** A record of which the send says that it was received, and a receive that it is durable. */
function inTwoSteps({ rkey }: TestRegion, operation: number): ElementFields {
  return {
    ...{ opcode: kind.WRITE_PERSIST, rkey, address: (operation % 8) * 2 ** 32, wait: 2 },
    ...{ operation, inline: dataOf(8, operation), flags: el.TWO_STEPS },
  }
}

function deregister({ host, lkey }: End): void {
  host.must(mad.METHOD_SET, mad.ATTRIBUTE_DEREGISTER, (body) => {
    putU32(body, mad.DEREGISTER_LKEY, lkey)
  })
}

test('P3-27: a refusal that nobody asked to hear of is told before the successes behind it', () => {
  const queue = localQueue(readyHost())
  const { host, cq, qp } = queue
  const { card } = host
  const region = card.provision({ slots: 4, capacity: 100 })
  const marker = dataOf(100, 99)
  play(queue, record(queue, region, 0, 1, marker))
  const live = Buffer.from(card.nvdimm.live.buffer, card.nvdimm.live.byteOffset)
  const second = live.indexOf(marker, live.indexOf(marker) + 1)
  card.nvdimm.refuseWrites(second >> 6)
  const flags = [0, el.SIGNALED, 0, el.SIGNALED]
  for (const [i, each] of flags.entries()) {
    const fields = record(queue, region, i, 2 + i, dataOf(100, i))
    host.post(qp.send, elementOf({ ...fields, flags: each }))
  }
  host.ring(qp.send)
  host.run()
  const told = host.poll(cq).map(({ unit, status }) => [unit, status])
  expect(told).toEqual([
    [3, el.WC_GENERAL_ERR],
    [6, el.WC_SUCCESS],
    [12, el.WC_SUCCESS],
  ])
})

test('P3-27: an element that ends its queue completes behind what is under way', () => {
  const rig = new TwoCards()
  const end = toCard(rig)
  const { rkey } = slotsOf({ slots: 4, capacity: 100 }, rig)
  const { host, cq, qp } = end
  const fields = { opcode: kind.WRITE_PERSIST, rkey, operation: 9, wait: 2 }
  rig.loses = (from, { paeth }) => from === 1 && paeth !== null
  // Nobody asks to hear of the record: what comes behind it would say that it was done.
  host.post(qp.send, elementOf({ ...fields, inline: dataOf(8, 1) }))
  host.post(qp.send, elementOf({ opcode: kind.SEND, flags: 1 << 15 }))
  host.ring(qp.send)
  rig.run()
  expect(host.poll(cq)).toEqual([])
  expect(host.zone1(qp.send).state).toBe(QUEUE_READY)
  rig.loses = () => false
  for (let i = 0; i < 3; i++) rig.pass(100_000)
  expect(host.poll(cq)).toMatchObject([{ unit: 2, status: el.WC_LOC_QP_OP_ERR }])
  expect(host.zone1(qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'ELEMENT_FORM' })
})

test('P3-13: doorbells by message push out no answer: what comes again is executed once', () => {
  const host = readyHost()
  const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 0x5000, fillCq(host))
  const answer = (): number => {
    sendCall(host, call)
    host.run()
    const found = takeAnswers(host).find(({ transaction }) => transaction === 0x5000)!
    return u32(found.body, mad.CREATE_CQ_QUEUE)
  }
  const made = answer()
  for (let i = 0; i < 40; i++) {
    host.ring(made, 'message')
    host.run()
    host.answer()
  }
  expect(answer()).toBe(made)
})

test('P2-25: a result waits for room in the completion queue, and needs no doorbell then', () => {
  const rig = new TwoCards()
  const end = toCard(rig, 1024, 0x111111, { entries: 2 })
  const region = slotsOf({ slots: 8, capacity: 100 }, rig)
  end.receive(0, 0, 4)
  for (let n = 1; n <= 4; n++) end.play(inTwoSteps(region, n))
  const told: number[] = []
  for (let i = 0; i < 4; i++) {
    told.push(...end.host.poll(end.receiveCq).map(({ operation }) => operation))
    rig.pass(100)
  }
  expect(told).toEqual([1, 2, 3, 4])
})

test('P2-24: a result that met a message half-way is told when the message is over', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig, 256)
  const region = slotsOf({ slots: 8, capacity: 100 }, rig)
  one.receive(0, 4096, 2)
  let lost = 0
  rig.loses = (from, { opcode }) => {
    if (from === 1 && opcode === SEND_LAST) lost += 1
    return from === 1 && opcode === SEND_LAST && lost === 1
  }
  other.post({ opcode: kind.SEND, ...other.put(dataOf(1000, 3)) })
  rig.run()
  expect(one.play(inTwoSteps(region, 1))).toMatchObject([{ flags: el.RECEIVED }])
  rig.pass(100_000)
  rig.pass(100)
  expect(one.host.poll(one.receiveCq)).toMatchObject([
    { length: 1000, operation: 0 },
    { length: 0, operation: 1, flags: el.DURABLE },
  ])
})

test('P3-28: what a READ brings is not stored into memory whose key was taken back', () => {
  const rig = new TwoCards()
  const end = toCard(rig)
  const region = slotsOf({ slots: 4, capacity: 100 }, rig)
  const { rkey } = region
  const write = { opcode: kind.WRITE_PERSIST, rkey, operation: 9, wait: 2 }
  expect(end.one({ ...write, inline: dataOf(100, 5) }).status).toBe(el.WC_SUCCESS)
  rig.loses = (from) => from === 1
  end.post({ opcode: kind.READ, rkey, ...end.at(100) })
  rig.run()
  deregister(end)
  end.host.bytes.fill(LOST, end.buffer, end.buffer + 100)
  rig.loses = () => false
  rig.pass(100_000)
  expect(end.bytes(100)).toEqual(new Uint8Array(100).fill(LOST))
  expect(end.host.poll(end.cq)).toMatchObject([{ status: el.WC_LOC_PROT_ERR }])
  expect(end.host.zone1(end.qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'MEMORY_KEY' })
})

test('P3-28: nor is what a peer sends to an element that was fetched before', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  other.receive(0, 100, 2)
  deregister(other)
  other.host.bytes.fill(LOST, other.buffer, other.buffer + 200)
  const sent = one.play({ opcode: kind.SEND, inline: dataOf(64, 1) })
  expect(sent).toMatchObject([{ status: el.WC_REM_OP_ERR }])
  expect(other.bytes(200)).toEqual(new Uint8Array(200).fill(LOST))
  const { receive } = other.qp
  expect(other.host.zone1(receive)).toMatchObject({ state: QUEUE_ERROR, fault: 'MEMORY_KEY' })
})

test('P3-28: a message is not taken whose completion queue is over', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const { host, receiveCq } = other
  other.receive(0, 100, 2)
  host.ram.link.script = ({ kind: access }) => (access === 'read' ? 'unsupported' : undefined)
  host.ring(receiveCq)
  host.card.serve()
  host.ram.link.script = null
  expect(host.zone1(receiveCq)).toMatchObject({ state: QUEUE_ERROR, fault: 'DMA' })
  expect(one.play({ opcode: kind.SEND, inline: dataOf(8, 1) })).toEqual([])
  const { receive } = other.qp
  expect(host.zone1(receive)).toMatchObject({ state: QUEUE_ERROR, fault: 'COMPLETION_OVERRUN' })
})

test('nobody on the network ends a queue pair of the host, nor gets its number', () => {
  const rig = new TwoCards()
  const end = new End(rig, 1)
  const { card } = rig.hosts[1]
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
    putU32(body, mad.DISCONNECT_QP, end.qp.number)
  })
  const taken = takeAllPlaces(card, ({ peer, qp }) => peer.serve(readFrame(qp, 0, 0, 0, 0)))
  expect(taken).toHaveLength(PLACES_OF_NETWORK)
  const numbers = taken.map(({ qp }) => qp.number)
  expect(numbers).not.toContain(end.qp.number)
})

test('who was silent for long makes room for others, but not a pair of the host', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const { card } = rig.hosts[1]
  const region = slotsOf({ slots: 4, capacity: 64 }, rig)
  const keep = ({ peer, qp }: Taken): number =>
    peer.serve(...persistFrames(qp, region, 0, dataOf(8, 1))).length
  const clients = takeAllPlaces(card, keep)
  rig.pass(61_000_000)
  for (const client of clients) expect(keep(client)).toBeGreaterThan(0)
  card.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
    putU32(request, mad.CONNECT_CLIENT_QP, 0x7777)
    putU16(request, mad.CONNECT_PATH_MTU, 1024)
  })
  other.receive(0, 64)
  expect(one.one({ opcode: kind.SEND, inline: dataOf(8, 1) }).status).toBe(el.WC_SUCCESS)
})

test('a pair that failed keeps its number until its elements have ended', () => {
  const rig = new TwoCards(600)
  const [one, other] = hostToHost(rig)
  const [peer, host] = rig.hosts
  // The host has what is kept for it, others have the rest: there is no place but its own.
  for (let i = 1; i < HOST_QUEUE_PAIRS; i++) {
    host.createQp(other.cq, { type: TYPE_CONNECTED, units: 2 })
  }
  takeAllPlaces(host.card, ({ peer: { serve }, qp }) => serve(readFrame(qp, 0, 0, 0, 0)))
  rig.loses = (from) => from === 1
  other.post({ opcode: kind.READ, rkey: 5, ...other.at(100) })
  rig.run()
  // In one burst: a request that ends the pair, and the call for another pair.
  one.post({ opcode: kind.WRITE, rkey: 1, inline: dataOf(8, 1) })
  const frames = peer.card.serve().map(({ bytes }) => bytes)
  const rings = host.allocate(2 * 8 * 64)
  host.ask(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_QP, (body) => {
    body[mad.CREATE_QP_TYPE] = TYPE_CONNECTED
    putU32(body, mad.CREATE_QP_SEND_CQ, other.cq)
    putU32(body, mad.CREATE_QP_RECEIVE_CQ, other.receiveCq)
    putU32(body, mad.CREATE_QP_SEND_UNITS, 8)
    putU64(body, mad.CREATE_QP_SEND_RING, rings)
    putU32(body, mad.CREATE_QP_RECEIVE_UNITS, 8)
    putU64(body, mad.CREATE_QP_RECEIVE_RING, rings + 8 * 64)
  })
  host.card.serve(...frames)
  rig.pass(100)
  const { fault, body } = host.answer()!
  expect([fault, u32(body, mad.CREATE_QP_NUMBER)]).toEqual(['QUEUE_PAIRS_FULL', 0])
  expect(host.poll(other.cq)).toMatchObject([{ unit: 0, status: el.WC_WR_FLUSH_ERR }])
  expect(host.zone1(other.qp.send)).toMatchObject({ state: QUEUE_ERROR, fault: 'CONNECTION_LOST' })
})

test('P2-25: the agent’s completion queue is locked for a moment: it is asked later', () => {
  const { card, region, qp, agent } = placed(DDIO_ON)
  const { queues } = agent!
  if (!(queues instanceof RawAgentQueues)) throw new Error('these are other queues')
  const { host, completions } = queues
  const { token } = lock(host, completions)
  card.serve(...persistFrames(qp, region, 1, dataOf(64, 1)))
  card.pass(1000)
  expect(host.zone1(completions).state).toBe(QUEUE_PAUSED)
  expect(release(host, completions, token)).toBe('PASS')
  const statuses: number[] = []
  for (let i = 0; i < 12; i++) {
    agent!.poll()
    statuses.push(...persistAcks(card.pass(10)).map(({ status }) => status))
  }
  expect(statuses).toEqual([0])
  expect(host.zone1(completions).state).toBe(QUEUE_READY)
})

test('N22: a host that speaks to nobody leaves room to gather for the network', () => {
  const rig = new TwoCards()
  const [, other] = hostToHost(rig)
  const { card } = rig.hosts[1]
  const region = slotsOf({ slots: 4, capacity: 8192 }, rig)
  const client = card.connect(1024, 0, 99)
  rig.loses = (from) => from === 1
  const long = { opcode: kind.WRITE, rkey: 3, ...other.put(dataOf(8192, 1)) }
  other.post(...Array.from({ length: 30 }, () => long))
  rig.run()
  const sent = card.serve(...persistFrames(client, region, 1, dataOf(5000, 9)))
  expect(persistAcks(sent)).toMatchObject([{ status: 0 }])
})

test('N22: and buffers for local queues, which go on at once', () => {
  const rig = new TwoCards()
  const [, other] = hostToHost(rig)
  const host = rig.hosts[1]
  const nobody = { last: 3, number: 77, mtu: 1024, peerPsn: 5, psn: 6, incarnation: 1 }
  const ends = [0, 1].map(() => new End(rig, 1, { memory: other }).ready(nobody))
  const local = localQueue(host)
  const { rkey } = slotsOf({ slots: 4, capacity: 8192 }, rig)
  rig.loses = (from) => from === 1
  const page = { opcode: kind.WRITE, rkey: 3, ...other.put(dataOf(2000, 1)) }
  for (const end of [other, ...ends]) end.post(...Array.from({ length: 64 }, () => page))
  rig.run()
  host.bytes.set(dataOf(2000, 9), local.buffer)
  const fields = { opcode: kind.WRITE_PERSIST, rkey, operation: 1, wait: 2, ...at(local, 2000) }
  expect(play(local, fields).status).toBe(el.WC_SUCCESS)
})

test('N22: results of one pair that wait for receives leave room for other pairs', () => {
  const rig = new TwoCards()
  const end = toCard(rig)
  const other = toCard(rig, 1024, 0x222222, { memory: end })
  const region = slotsOf({ slots: 8, capacity: 100 }, rig)
  for (let n = 1; n <= HOST_POSTINGS; n++) {
    end.post(inTwoSteps(region, n))
    if (n % 32 !== 0) continue
    rig.run()
    end.host.poll(end.cq)
  }
  const { rkey } = region
  const fields = { opcode: kind.WRITE_PERSIST, rkey, operation: 999, wait: 2 }
  expect(other.one({ ...fields, inline: dataOf(8, 3) })).toMatchObject({ status: el.WC_SUCCESS })
})

test('P3-18: room that is kept for messages yet to come keeps no place that others need', () => {
  const rig = new TwoCards(256)
  const host = rig.hosts[1]
  const { card } = host
  let memory: End | undefined
  for (let i = 0; i < CAPACITY_MIN; i++) {
    const peer = new End(rig, 0, { units: 16 })
    const end: End = new End(rig, 1, { units: 16, ...(memory === undefined ? {} : { memory }) })
    memory = end
    const both = { mtu: 1024, peerPsn: 1, psn: 1, incarnation: 1 }
    peer.ready({ ...both, last: 2, number: end.qp.number })
    end.ready({ ...both, last: 3, number: peer.qp.number })
    end.receive(0, 100)
    const send = { opcode: kind.SEND, inline: dataOf(8, 1) }
    expect(peer.one(send).status).toBe(el.WC_SUCCESS)
    end.host.poll(end.receiveCq)
    // The next one finds no element, and room is kept for it.
    peer.post(send)
    rig.run()
  }
  rig.loses = (from) => from === 0
  const queue = localQueue(host)
  host.setCache(0, 1, 0, CAPACITY_MIN)
  host.post(queue.qp.send, elementOf({ opcode: el.WQE_NOP, flags: el.SIGNALED }))
  host.ring(queue.qp.send)
  for (let i = 0; i < 4; i++) card.pass(100)
  expect(host.poll(queue.cq)).toMatchObject([{ status: el.WC_SUCCESS }])
  expect(host.manage(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_CQ, fillCq(host)).fault).toBe('PASS')
})
