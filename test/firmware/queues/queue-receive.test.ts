/**
 * Receive queues of two hosts whose pairs are connected: what is sent goes where element n points.
 */

import { expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { QUEUE_ERROR, QUEUE_READY } from '../../../firmware/host/queue-info.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { MessageCard } from '../../support/cards/message-card.ts'
import { dataOf, readFrame } from '../../support/cards/test-card.ts'
import { hostToHost, TwoCards } from '../../support/cards/two-cards.ts'
import { elementOf, u64 } from '../../support/queues/queue-host.ts'
import { sendFrames } from '../../support/wire/requests.ts'

const SEED = Number(process.env.SEED ?? 1)

test('P3-26: data n goes where element n points; a reused element points to a new place', () => {
  const [one, other] = hostToHost(new TwoCards())
  for (let lap = 0; lap < 3; lap++) {
    other.receive(lap * 100 * 200, 200, 100)
    for (let i = 0; i < 100; i++) {
      const data = dataOf(1 + (i % 200), lap * 100 + i)
      expect(one.one({ opcode: kind.SEND, inline: data }).status).toBe(el.WC_SUCCESS)
    }
    const cqes = other.host.poll(other.receiveCq)
    expect(cqes.map(({ unit }) => unit)).toEqual(
      Array.from({ length: 100 }, (_, i) => lap * 100 + i),
    )
    for (const [i, cqe] of cqes.entries()) {
      const length = 1 + (i % 200)
      expect(cqe).toMatchObject({
        queue: other.qp.receive,
        pointer: lap * 100 + i + 1,
        opcode: el.WQE_RECEIVE,
        length,
        flags: 0,
      })
      expect(other.bytes(length, (lap * 100 + i) * 200)).toEqual(dataOf(length, lap * 100 + i))
    }
  }
})

test('SEND of several packets, with immediate, with invalidate, solicited', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig, 256)
  const region = rig.hosts[1].card.provision()
  other.receive(0, 8192, 4)
  const data = dataOf(8000, 5)
  const cqes = one.play(
    { opcode: kind.SEND, ...one.put(data) },
    { opcode: kind.SEND_IMM, immediate: 0xdeadbeef, inline: dataOf(8, 1) },
    { opcode: kind.SEND_INV, immediate: region.rkey, inline: dataOf(8, 2) },
    { opcode: kind.SEND, flags: el.SOLICITED, inline: dataOf(8, 3) },
  )
  expect(cqes.map(({ status }) => status)).toEqual([0, 0, 0, 0])
  expect(other.host.poll(other.receiveCq)).toMatchObject([
    { length: 8000, flags: 0 },
    { length: 8, flags: el.WITH_IMMEDIATE, immediate: 0xdeadbeef },
    { length: 8, flags: el.WITH_INVALIDATE, immediate: region.rkey },
    { length: 8, flags: el.WAS_SOLICITED },
  ])
  expect(other.bytes(8000)).toEqual(data)
  // The key is taken back on this pair.
  const write = { opcode: kind.WRITE_PERSIST, rkey: region.rkey, wait: 1, inline: dataOf(8, 1) }
  expect(one.one(write).status).toBe(el.WC_REM_ACCESS_ERR)
})

test('WRITE with immediate takes an element; plain requests are served by the card', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  const shape = { name: 'bytes', kind: KIND_BYTES, length: 4096 }
  const { body } = rig.hosts[1].card.tryProvision(shape)
  const to = { rkey: u32(body, REGION_RKEY), address: u64(body, REGION_BASE_HIGH) }
  other.receive(0, 0)
  const write = { ...to, opcode: kind.WRITE_IMM, immediate: 7, inline: dataOf(100, 1) }
  expect(one.one(write).status).toBe(el.WC_SUCCESS)
  expect(other.host.poll(other.receiveCq)).toMatchObject([
    { unit: 0, flags: el.WITH_IMMEDIATE, immediate: 7 },
  ])
  expect(one.one({ ...to, opcode: kind.READ, ...one.at(100) }).status).toBe(el.WC_SUCCESS)
  expect(one.bytes(100)).toEqual(dataOf(100, 1))
  const region = rig.hosts[1].card.provision()
  const record = { opcode: kind.WRITE_PERSIST, rkey: region.rkey, operation: 3, wait: 2 }
  expect(one.one({ ...record, inline: dataOf(64, 1) })).toMatchObject({
    status: el.WC_SUCCESS,
    flags: el.DURABLE,
    copies: 2,
  })
})

test('P2-25: no element posted: the sender waits, and nothing is lost', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  one.post(
    { opcode: kind.SEND, inline: dataOf(64, 1) },
    { opcode: kind.SEND, inline: dataOf(64, 2) },
  )
  rig.run()
  for (let i = 0; i < 5; i++) rig.pass(1000)
  expect(one.host.poll(one.cq)).toEqual([])
  other.receive(0, 64)
  for (let i = 0; i < 5; i++) rig.pass(1000)
  expect(one.host.poll(one.cq)).toMatchObject([{ status: 0, unit: 0 }])
  other.receive(64, 64)
  for (let i = 0; i < 5; i++) rig.pass(1000)
  expect(one.host.poll(one.cq)).toMatchObject([{ status: 0, unit: 2 }])
  expect(other.host.poll(other.receiveCq).map(({ unit }) => unit)).toEqual([0, 1])
  expect(other.bytes(128)).toEqual(Uint8Array.of(...dataOf(64, 1), ...dataOf(64, 2)))
})

test('a message that is longer than its element: the error of its sender', () => {
  const [one, other] = hostToHost(new TwoCards())
  other.receive(0, 64)
  const cqe = one.one({ opcode: kind.SEND, inline: dataOf(65, 1) })
  expect(cqe.status).toBe(el.WC_REM_INV_REQ_ERR)
  expect(other.bytes(65)).toEqual(new Uint8Array(65))
  expect(other.host.zone1(other.qp.receive)).toMatchObject({ state: QUEUE_ERROR })
})

test('a full completion queue makes the sender wait; the host takes some, and all arrive', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig, 1024, { entries: 4 })
  other.receive(0, 64, 20)
  one.post(...Array.from({ length: 20 }, (_, i) => ({ opcode: kind.SEND, inline: dataOf(64, i) })))
  const taken: number[] = []
  for (let i = 0; i < 60 && taken.length < 20; i++) {
    rig.pass(2000)
    expect(other.host.zone1(other.receiveCq).state).toBe(QUEUE_READY)
    taken.push(...other.host.poll(other.receiveCq).map(({ unit }) => unit))
  }
  expect(taken).toEqual(Array.from({ length: 20 }, (_, i) => i))
  expect(one.host.poll(one.cq).length).toBe(20)
})

test('a malformed receive ends the pair, and both of its ends know', () => {
  const rig = new TwoCards()
  const [one, other] = hostToHost(rig)
  other.host.post(other.qp.receive, elementOf({ opcode: kind.SEND }))
  other.host.ring(other.qp.receive)
  rig.run()
  const zone1 = other.host.zone1(other.qp.receive)
  expect(zone1).toMatchObject({ state: QUEUE_ERROR, fault: 'ELEMENT_FORM' })
  expect(other.host.zone1(other.qp.send).state).toBe(QUEUE_ERROR)
  one.post({ opcode: kind.SEND, inline: dataOf(8, 1) })
  for (let i = 0; i < 12; i++) rig.pass(100_000)
  expect(one.host.poll(one.cq)).toMatchObject([{ status: el.WC_RETRY_EXC_ERR }])
})

test('both directions at once, under loss: nothing lost, doubled or out of order', () => {
  const rig = new TwoCards()
  const ends = hostToHost(rig, 256)
  const random = new Random(SEED)
  rig.loses = () => random.chance(0.05)
  const got: number[][] = [[], []]
  for (let n = 0; n < 60; n++) {
    for (const [i, end] of ends.entries()) {
      end.receive((n % 16) * 1024, 1024)
      const data = new Uint8Array(700)
      data[0] = n
      data.fill(i + 1, 1)
      end.post({ opcode: kind.SEND, ...end.put(data, (1 << 18) + (n % 16) * 1024) })
    }
    for (let tries = 0; tries < 40; tries++) {
      rig.pass(70_000)
      for (const [i, end] of ends.entries()) {
        for (const cqe of end.host.poll(end.receiveCq)) {
          const [number, ...rest] = end.bytes(700, (cqe.unit % 16) * 1024)
          expect(rest.every((byte) => byte === 2 - i)).toBe(true)
          got[i]!.push(number!)
        }
      }
      if (got.every((numbers) => numbers.length === n + 1)) break
    }
  }
  const all = Array.from({ length: 60 }, (_, i) => i)
  expect(got, `SEED=${SEED}`).toEqual([all, all])
  for (const end of ends) {
    for (let i = 0; i < 10; i++) rig.pass(70_000)
    expect(end.host.poll(end.cq).map(({ status }) => status)).toEqual(all.map(() => 0))
  }
})

test('P3-26: a pair in the place of one that has failed has what is sent to it, no other', () => {
  const one = new MessageCard()
  const { card } = one
  // So many that no place is left which nobody has had.
  const ended = Array.from({ length: QUEUE_PAIRS }, () => {
    const peer = card.connect()
    expect(card.serve(readFrame(peer, { rkey: 1 }, 0, 0, 8))).toMatchObject([{ syndrome: 0x62 }])
    return peer
  })
  const qp = one.connect()
  const before = ended.filter(({ number }) => (number & 0xff) === (qp.number & 0xff)).at(-1)!
  expect(card.serve(readFrame(before, one.region, 0, 0, 8))).toEqual([])
  one.receive(64)
  expect(card.serve(...sendFrames(qp, dataOf(40, 1)))).toMatchObject([{ opcode: RC_ACKNOWLEDGE }])
  expect(one.messages().map(({ data }) => data)).toEqual([dataOf(40, 1)])
})
