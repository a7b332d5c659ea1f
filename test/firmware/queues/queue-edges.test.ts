/**
 * Elements of connected queues at their bounds, and queues that name a connection that is not
 * there (H2, H3; P3-2).
 */

import { describe, expect, test } from 'vitest'
import { PORT_EPOCH } from '../../../firmware/board/hal.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import {
  ATTRIBUTE_MODIFY_QP,
  ATTRIBUTE_PROVISION,
  ATTRIBUTE_QUEUE_LOCK,
  KIND_BYTES,
  METHOD_SET,
  QUEUE_LOCK_QUEUE,
  QUEUE_LOCK_TOKEN,
  REGION_BASE_HIGH,
  REGION_CAPACITY,
  REGION_COPIES,
  REGION_NAME,
  REGION_RKEY,
  REGION_SLOTS,
} from '../../../firmware/wire/management.ts'
import {
  RC_READ_REQUEST,
  RC_READ_RESPONSE_FIRST,
  RC_READ_RESPONSE_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { blankReth, type Reth, readReth } from '../../../firmware/wire/reth.ts'
import { BYTES_AT } from '../../support/cards/bytes-card.ts'
import { dataOf, readFrame, type Sent } from '../../support/cards/test-card.ts'
import { End, TwoCards, toCard } from '../../support/cards/two-cards.ts'
import { type LocalQueue, localQueue, readBack, record } from '../../support/queues/local-queue.ts'
import { FIRST, nopHost } from '../../support/queues/nop-queues.ts'
import { callOf, release, sendCall, takeAnswers } from '../../support/queues/queue-calls.ts'
import { type ElementFields, elementOf, u64 } from '../../support/queues/queue-host.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { ACK, NAK_ACCESS, NAK_OPERATIONAL, writeFrames } from '../../support/wire/requests.ts'

interface Rig {
  readonly end: End
  readonly bytes: { readonly rkey: number; readonly base: number }
}

function rig(): Rig {
  const cards = new TwoCards()
  const end = toCard(cards)
  const shape = { name: 'bytes', kind: KIND_BYTES, length: 131072 }
  const { body } = cards.hosts[1].card.tryProvision(shape)
  return { end, bytes: { rkey: u32(body, REGION_RKEY), base: u64(body, REGION_BASE_HIGH) } }
}

describe('what cannot be said on the wire', () => {
  test('H2: a request of more bytes than a message has ends its queue', () => {
    const { end, bytes } = rig()
    const { rkey, base } = bytes
    const cqe = end.one({ opcode: kind.FLUSH, rkey, address: base, length: 2 ** 31 + 1 })
    expect(cqe.status).toBe(el.WC_LOC_LEN_ERR)
    expect(end.host.zone1(end.qp.send).state).toBe(info.QUEUE_ERROR)
  })

  test('what is associated may be longer than any message', () => {
    const { end, bytes } = rig()
    const { rkey, base } = bytes
    const cqe = end.one({ opcode: kind.ASSOCIATE, rkey, address: base, length: 2 ** 31 + 4096 })
    expect(cqe.status).not.toBe(el.WC_LOC_LEN_ERR)
  })

  test('P1-6: copies that are carried are all of one length', () => {
    const { end } = rig()
    const region = end.rig.hosts[1].card.provision({ slots: 4, capacity: 64 })
    const fields = { rkey: region.rkey, address: 0, operation: 1, wait: 2, furtherCopies: 1 }
    const odd = { ...fields, flags: el.CARRIED, inline: dataOf(63, 1) }
    expect(end.one({ opcode: kind.WRITE_PERSIST, ...odd }).status).toBe(el.WC_LOC_LEN_ERR)
  })

  test('a scattered request may have ranges of no bytes', () => {
    const { end, bytes } = rig()
    const { local, lkey } = end.put(dataOf(64, 3))
    const sges = [32, 0, 32].map((length, i) => {
      return { address: local + (i === 2 ? 32 : 0), length, lkey }
    })
    const to = { rkey: bytes.rkey, address: bytes.base }
    expect(end.one({ opcode: kind.WRITE, ...to, sges }).status).toBe(el.WC_SUCCESS)
    const back = { opcode: kind.READ, ...to, ...end.at(64, 4096) }
    expect(end.one(back).status).toBe(el.WC_SUCCESS)
    expect(end.bytes(64, 4096)).toEqual(dataOf(64, 3))
  })
})

describe('H3: a queue that names a connection which is not there', () => {
  const queue = FIRST + 8

  test('ends with its first element, which is flushed', () => {
    const { host, cqs } = nopHost({ count: 32 })
    const of = { kind: info.KIND_SEND, type: info.TYPE_CONNECTED, queuePair: 5 }
    host.forceQueue(queue, { ...of, depth: 16, completions: cqs[0]! })
    host.post(queue, elementOf({ opcode: kind.SEND, flags: el.SIGNALED, inline: dataOf(8, 1) }))
    host.ring(queue)
    host.run()
    expect(host.poll(cqs[0]!).map(({ status }) => status)).toEqual([el.WC_WR_FLUSH_ERR])
    expect(host.zone1(queue).state).toBe(info.QUEUE_ERROR)
  })

  test('may be rung for receives, and nothing comes of it', () => {
    const { host, cqs } = nopHost({ count: 32 })
    const of = { kind: info.KIND_RECEIVE, type: info.TYPE_CONNECTED, queuePair: 5 }
    host.forceQueue(queue, { ...of, depth: 16, completions: cqs[0]! })
    host.post(queue, elementOf({ opcode: el.WQE_RECEIVE, local: 0x1000, length: 64 }))
    host.ring(queue)
    host.run()
    expect(host.poll(cqs[0]!)).toEqual([])
    expect(host.zone1(queue).pointer).toBe(0)
  })
})

describe('a host that goes, or is refused, in the call in which it asks', () => {
  test.each([false, true])('P1-11: while what its peer reads cannot be read; gone: %s', (goes) => {
    const cards = new TwoCards()
    const peer = { last: 1, number: 0x77, mtu: 1024, peerPsn: 0x100, psn: 0x200, incarnation: 0 }
    const end = new End(cards, 1).ready(peer)
    const { host, qp } = end
    const { card } = host
    const { body } = card.tryProvision({ name: 'bytes', kind: KIND_BYTES, length: 4096 })
    const [at, rkey] = [u64(body, REGION_BASE_HIGH), u32(body, REGION_RKEY)]
    const vaHigh = Math.floor(at / 2 ** 32)
    const other = card.connect()
    card.nvdimm.poison(BYTES_AT / LINE_BYTES)
    const read = frameOf({
      bth: { opcode: RC_READ_REQUEST, destQp: qp.number, psn: 0x100, ackRequest: true },
      reth: { rkey, vaHigh, vaLow: at % 2 ** 32, length: 8 },
    })
    if (goes) host.port.setUint32(PORT_EPOCH, 0, true)
    const sent = card.serve(read, readFrame(other, rkey, vaHigh, 1024, 8))
    const naks = sent.filter(({ syndrome }) => syndrome === NAK_OPERATIONAL)
    expect(naks.map(({ packet }) => packet.destQp)).toEqual(goes ? [] : [0x77])
    expect(sent.filter(({ payload }) => payload.length === 8)).toHaveLength(1)
  })

  test('X-7: the next record of a batch whose first was refused is not sent', () => {
    const { end } = rig()
    const cards = end.rig
    const region = cards.hosts[1].card.provision({ slots: 4, capacity: 64 })
    const { rkey } = region
    const member = (index: number, key: number): ElementFields => ({
      ...{ opcode: kind.WRITE_PERSIST, rkey: key, address: index * 2 ** 32, wait: 2 },
      ...{ operation: 10 + index, inline: dataOf(64, index) },
      batch: { id: 1, condition: 0, count: 2, index, left: 1 - index },
    })
    const refusals: Uint8Array[] = []
    cards.loses = (from, { bytes, syndrome }) => {
      const isRefusal = from === 1 && syndrome === NAK_ACCESS
      if (isRefusal) refusals.push(bytes)
      return isRefusal
    }
    end.post(member(0, rkey + 1))
    cards.run()
    expect(refusals).toHaveLength(1)
    end.post(member(1, rkey))
    end.host.card.serve(...refusals)
    cards.run()
    // Its queue has ended: the element was never begun, and the host flushes it.
    expect(end.host.poll(end.cq).map(({ status }) => status)).toEqual([el.WC_REM_ACCESS_ERR])
    expect(end.host.zone1(end.qp.send)).toMatchObject({ state: info.QUEUE_ERROR, pointer: 2 })
    expect(cards.hosts[1].card.read(cards.hosts[1].card.connect(), region, 1, 0, 64)).not.toEqual(
      dataOf(64, 1),
    )
  })
})

describe('P3-12: a pass that has much to say', () => {
  const UNITS = 32

  /** Local queues of one host. */
  function queuesOf(count: number): { queue: LocalQueue; others: LocalQueue[] } {
    const queue = localQueue()
    const others = Array.from({ length: count }, () => {
      const cq = queue.host.createCq(64)
      return { ...queue, cq, qp: queue.host.createQp(cq, { units: 64 }) }
    })
    return { queue, others }
  }

  /** Posts as many elements that do nothing as a queue has in one turn. */
  function keepBusy({ host, qp }: LocalQueue): void {
    const nothing = elementOf({ opcode: el.WQE_NOP, flags: el.SIGNALED })
    for (let i = 0; i < UNITS; i++) host.post(qp.send, nothing)
    host.ring(qp.send)
  }

  function told({ host, cq }: LocalQueue): number {
    return host.poll(cq).filter(({ status }) => status === el.WC_SUCCESS).length
  }

  test('tells each of its own, and a record in front of what comes later', () => {
    const { queue, others } = queuesOf(5)
    const region = queue.host.card.provision({ slots: 4, capacity: 64 })
    others.forEach(keepBusy)
    const fields = record(queue, region, 1, 5, dataOf(64, 5))
    queue.host.post(queue.qp.send, elementOf({ ...fields, flags: el.SIGNALED }))
    queue.host.ring(queue.qp.send)
    queue.host.run()
    expect(others.map(told)).toEqual(others.map(() => UNITS))
    expect(queue.host.poll(queue.cq)).toMatchObject([{ status: el.WC_SUCCESS, copies: 2 }])
    expect(readBack(queue, region, 1, 0, 64)).toEqual(dataOf(64, 5))
  })

  test('goes on behind what it holds of batches and has to tell of others', () => {
    const { queue, others } = queuesOf(12)
    const { host } = queue
    const region = host.card.provision({ slots: 128, capacity: 64 })
    const [batches, rest] = [others.slice(0, 4), others.slice(4)]
    // Two units each: the last one is not in the first turn, so nothing is stored in that.
    const count = UNITS / 2 + 1
    batches.forEach((one, at) => {
      for (let index = 0; index < count; index++) {
        const slot = at * UNITS + index
        const fields = record(one, region, slot, 100 * at + 1 + index, dataOf(64, slot))
        const batch = { id: 1, condition: 0, count, index, left: count - 1 - index }
        host.post(one.qp.send, elementOf({ ...fields, batch, flags: el.SIGNALED }))
      }
      host.ring(one.qp.send)
    })
    rest.forEach(keepBusy)
    host.run()
    expect(rest.map(told)).toEqual(rest.map(() => UNITS))
    expect(batches.map(told)).toEqual(batches.map(() => count))
    const last = 3 * UNITS + count - 1
    expect(readBack(queue, region, last, 0, 64)).toEqual(dataOf(64, last))
  })

  test('keeps no request of the wire from its answer', () => {
    const { queue, others } = queuesOf(6)
    const { card } = queue.host
    const { body } = card.tryProvision({ name: 'bytes', kind: KIND_BYTES, length: 4096 })
    const [client, reader] = [card.connect(), card.connect()]
    const [at, rkey] = [u64(body, REGION_BASE_HIGH), u32(body, REGION_RKEY)]
    const address = [Math.floor(at / 2 ** 32), at % 2 ** 32] as const
    card.serve(...writeFrames(client, rkey, address[1], dataOf(8, 3), { vaHigh: address[0] }))
    others.forEach(keepBusy)
    const sent = card.serve(readFrame(reader, rkey, address[0], address[1], 8))
    expect(sent.map(({ payload }) => Uint8Array.from(payload))).toEqual([dataOf(8, 3)])
    queue.host.run()
    expect(others.map(told)).toEqual(others.map(() => UNITS))
  })
})

test('P2-25: what is sent to a receive queue that was locked at once waits for its release', () => {
  const cards = new TwoCards()
  const [from, to] = [new End(cards, 0), new End(cards, 1)]
  const common = { mtu: 1024, peerPsn: 0x100, psn: 0x100, incarnation: 0 }
  from.ready({ ...common, last: 2, number: to.qp.number })
  const ready = to.readying({ ...common, last: 3, number: from.qp.number })
  // Both calls in one, so that nothing of the queue was fetched in between.
  sendCall(to.host, callOf(ATTRIBUTE_MODIFY_QP, 500, ready))
  const fill = (body: Uint8Array): void => putU32(body, QUEUE_LOCK_QUEUE, to.qp.receive)
  sendCall(to.host, callOf(ATTRIBUTE_QUEUE_LOCK, 501, fill))
  to.host.run()
  const answers = takeAnswers(to.host)
  expect(answers.map(({ fault }) => fault)).toEqual(['PASS', 'PASS'])
  const token = u32(answers[1]!.body, QUEUE_LOCK_TOKEN)
  to.receive(0, 64)
  from.post({ opcode: kind.SEND, inline: dataOf(8, 1) })
  for (let i = 0; i < 5; i++) cards.pass(1000)
  expect(from.host.poll(from.cq)).toEqual([])
  expect(release(to.host, to.qp.receive, token)).toBe('PASS')
  cards.pass(1_000_000)
  expect(from.host.poll(from.cq)).toMatchObject([{ status: el.WC_SUCCESS }])
  expect(to.host.poll(to.receiveCq)).toMatchObject([{ status: el.WC_SUCCESS, length: 8 }])
  expect(to.bytes(8)).toEqual(dataOf(8, 1))
})

test('of a READ that is half here only the rest is asked for, past 4 GiB as below', () => {
  const cards = new TwoCards()
  const peer = { last: 1, number: 0x77, mtu: 256, peerPsn: 0x100, psn: 0x200, incarnation: 0 }
  const end = new End(cards, 1).ready(peer)
  const { card } = end.host
  const read = { opcode: kind.READ, rkey: 5, address: 3 * 2 ** 32 - 128, ...end.at(512) }
  end.host.post(end.qp.send, elementOf({ ...read, flags: el.SIGNALED }))
  end.host.ring(end.qp.send)
  const asked: Reth[] = []
  const hear = (sent: readonly Sent[]): void => {
    for (const { opcode, bytes, packet } of sent) {
      if (opcode !== RC_READ_REQUEST) continue
      const reth = blankReth()
      readReth(reth, bytes, packet.bthAt + packet.row!.rethAt)
      asked.push(reth)
    }
  }
  hear(card.serve())
  const bth = { destQp: end.qp.number, psn: 0x200 }
  const aeth = { syndrome: ACK, msn: 1 }
  const first = { bth: { ...bth, opcode: RC_READ_RESPONSE_FIRST }, aeth, payload: dataOf(256, 1) }
  hear(card.serve(frameOf(first)))
  for (let i = 0; i < 20 && asked.length < 2; i++) hear(card.pass(100_000))
  const rest = { vaHigh: 3, vaLow: 128, rkey: 5, length: 256 }
  expect(asked).toEqual([{ vaHigh: 2, vaLow: 2 ** 32 - 128, rkey: 5, length: 512 }, rest])
  const only = { bth: { ...bth, opcode: RC_READ_RESPONSE_ONLY, psn: 0x201 }, aeth }
  card.serve(frameOf({ ...only, payload: dataOf(256, 2) }))
  expect(end.host.poll(end.cq)).toMatchObject([{ status: el.WC_SUCCESS }])
  expect([end.bytes(256), end.bytes(256, 256)]).toEqual([dataOf(256, 1), dataOf(256, 2)])
})

test('P4-1: a buffer kept for a batch is lent to local records, for as long as they take', () => {
  const cards = new TwoCards(128)
  const { card } = cards.hosts[1]
  const { body } = card.tryProvision({ name: 'bytes', kind: KIND_BYTES, length: 4096 })
  const to = { rkey: u32(body, REGION_RKEY), address: u64(body, REGION_BASE_HIGH) }
  const far = card.provision({ name: 'far', slots: 8, capacity: 64 })
  const own = cards.hosts[0].must(METHOD_SET, ATTRIBUTE_PROVISION, (shape) => {
    shape.set(new TextEncoder().encode('near'), REGION_NAME)
    putU32(shape, REGION_SLOTS, 8)
    putU32(shape, REGION_CAPACITY, 64)
    shape[REGION_COPIES] = 2
  })
  const near = { rkey: u32(own, REGION_RKEY) }
  const batching = toCard(cards)
  const memory = { buffer: batching.buffer, lkey: batching.lkey }
  // Each pair has half of what is free under way, and no peer that answers: one buffer is left.
  const others = [64, 32, 16, 4, 2, 1, 1].map((count, i) => {
    return { count, end: toCard(cards, 1024, 0x200000 + i, { memory, units: 256, entries: 8 }) }
  })
  const cq = batching.host.createCq(64)
  const local = {
    host: batching.host,
    cq,
    qp: batching.host.createQp(cq, { units: 64 }),
    ...memory,
  }
  const member = (index: number): ElementFields => ({
    ...{ opcode: kind.WRITE_PERSIST, rkey: far.rkey, address: index * 2 ** 32, wait: 2 },
    ...{ operation: 10 + index, inline: dataOf(64, index) },
    batch: { id: 1, condition: 0, count: 8, index, left: 7 - index },
  })
  cards.loses = (from) => from === 0
  const write = { opcode: kind.WRITE, ...to, inline: dataOf(8, 1) }
  others.forEach(({ count, end }, i) => {
    if (i === 3) expect(batching.play(member(0))).toEqual([])
    expect(end.play(...Array.from({ length: count }, () => write))).toEqual([])
  })
  batching.put(dataOf(64, 7))
  // As many as are free, which is as many as are kept.
  for (let slot = 0; slot < 7; slot++) {
    const fields = { opcode: kind.WRITE_PERSIST, rkey: near.rkey, address: slot * 2 ** 32, wait: 2 }
    const record = { ...fields, operation: 100 + slot, ...batching.at(64), flags: el.SIGNALED }
    local.host.post(local.qp.send, elementOf(record))
  }
  local.host.ring(local.qp.send)
  batching.post(...[1, 2, 3, 4, 5, 6, 7].map(member))
  cards.run()
  cards.loses = () => false
  for (let i = 0; i < 20; i++) cards.pass(100_000)
  const statusesOf = (queue: number): number[] => local.host.poll(queue).map(({ status }) => status)
  expect(statusesOf(cq)).toEqual(Array(7).fill(el.WC_SUCCESS))
  expect(statusesOf(batching.cq)).toEqual(Array(8).fill(el.WC_SUCCESS))
  for (const { count, end } of others) {
    expect(statusesOf(end.cq)).toEqual(Array(count).fill(el.WC_SUCCESS))
  }
})
