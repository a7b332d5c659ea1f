/**
 * Zone 2 of the host's queues, changed while elements are outstanding: by message and under the
 * lock (source 3; P3-8, P3-9, P3-24), at every position of the ring and across 2^32.
 */

import { describe, expect, test } from 'vitest'
import { ForbiddenAccess } from '../../../boards/host-port.ts'
import { FETCH_UNITS, QUEUE_DEPTH_MAX, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { SIGNALED, WC_SUCCESS, WQE_NOP } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { type End, hostToHost, TwoCards } from '../../support/cards/two-cards.ts'
import {
  type CardHost,
  callOf,
  createQp,
  destroy,
  fillWrite,
  hostOf,
  lock,
  release,
  sendCall,
  takeAnswers,
  writeQueue,
  zone2Of,
} from '../../support/queues/queue-calls.ts'
import { elementOf } from '../../support/queues/queue-host.ts'

const HEADER_AT = 4096

interface Ring {
  readonly ring: number
  readonly depth: number
}

interface Rig {
  readonly host: CardHost
  readonly cq: number
  readonly send: number
  readonly receive: number
}

/** A local pair whose queues begin at `start`; its receive queue is deep enough for any growth. */
function rigOf(depth: number, start = 0, entries = 256): Rig {
  const host = hostOf().init()
  host.ram.guard.protect(HEADER_AT)
  const cq = host.createCq(entries)
  for (const queue of [cq + 1, cq + 2]) host.setPointer(queue, start)
  const sendRing = host.allocate(depth * UNIT_BYTES)
  const { body } = createQp(host, { sendCq: cq, sendUnits: depth, sendRing, receiveUnits: 64 })
  const send = u32(body, mad.CREATE_QP_SEND)
  const receive = u32(body, mad.CREATE_QP_RECEIVE)
  host.queues.set(send, { queue: send, ring: sendRing, depth, pointer: start })
  return { host, cq, send, receive }
}

function newRing(host: CardHost, depth: number): Ring {
  return { ring: host.allocate(depth * UNIT_BYTES), depth }
}

/** From now on the host stores into that ring. */
function storeInto(host: CardHost, queue: number, { ring, depth }: Ring): void {
  const of = host.queues.get(queue)!
  host.queues.set(queue, { ...of, ring, depth, pointer: of.pointer })
}

const NOP = elementOf({ opcode: WQE_NOP, flags: SIGNALED })

/** Stores so many elements; the numbers of their units. */
function storeNops(host: CardHost, queue: number, count: number): number[] {
  return Array.from({ length: count }, () => host.store(queue, NOP))
}

/** Units that completed, in order; each of them well. */
function completed(host: CardHost, cq: number): number[] {
  return host.poll(cq).map(({ unit, status }) => {
    expect(status).toBe(WC_SUCCESS)
    return unit
  })
}

/** Copies what the card may not have taken into its places of another ring. */
function move(host: CardHost, from: Ring, to: Ring, first: number, end: number): void {
  for (let unit = first; unit !== end; unit = (unit + 1) >>> 0) {
    const source = from.ring + (unit & (from.depth - 1)) * UNIT_BYTES
    const target = to.ring + (unit & (to.depth - 1)) * UNIT_BYTES
    host.bytes.copyWithin(target, source, source + UNIT_BYTES)
  }
}

/** The host's own store into zone 2, which the memory judges (P3-11). */
function storeZone2(host: CardHost, queue: number, { ring, depth }: Ring): void {
  host.ram.store(host.zone2At + queue * info.ZONE2_BYTES, zone2Of(ring, depth))
}

/** Positions in a ring of eight, and around 2^32. */
const STARTS = [
  0,
  1,
  2,
  3,
  4,
  5,
  6,
  7,
  2 ** 31 - 3,
  ...[8, 7, 5, 4, 3, 2, 1].map((n) => 2 ** 32 - n),
]

describe('P3-24: growth while elements are outstanding', () => {
  test.each(STARTS)('by message, from unit %i on: nothing lost, repeated or reordered', (start) => {
    for (let outstanding = 0; outstanding <= 8; outstanding++) {
      const { host, cq, send } = rigOf(8, start)
      const larger = newRing(host, 16)
      // Nothing rang yet, so the card has taken nothing: only the new ring has the elements.
      storeInto(host, send, larger)
      const units = storeNops(host, send, outstanding)
      host.setPointer(send)
      const { fault, body } = writeQueue(host, send, zone2Of(larger.ring, 16))
      expect(fault).toBe('PASS')
      expect(u32(body, mad.QUEUE_WRITE_POINTER)).toBe(start)
      if (outstanding === 0) {
        const { address } = host.zone1(send)
        expect(address).toBe(larger.ring + (start & 15) * UNIT_BYTES)
      }
      host.run()
      expect(completed(host, cq), 'the queue is looked at without a doorbell').toEqual(units)
      const more = storeNops(host, send, 16)
      host.setPointer(send)
      host.ring(send)
      host.run()
      expect(completed(host, cq)).toEqual(more)
      const end = (start + outstanding + 16) >>> 0
      expect(host.zone1(send)).toMatchObject({
        ...{ state: info.QUEUE_READY, pointer: end, lock: 0, fault: 'PASS' },
        address: larger.ring + (end & 15) * UNIT_BYTES,
      })
      expect(host.events()).toEqual([])
    }
  })

  test.each(STARTS)('under the lock, from unit %i on', (start) => {
    for (let outstanding = 0; outstanding <= 8; outstanding++) {
      const { host, cq, send } = rigOf(8, start)
      const smaller = host.queues.get(send)!
      const larger = newRing(host, 16)
      const units = storeNops(host, send, outstanding)
      host.setPointer(send)
      const { fault, token, body } = lock(host, send)
      expect(fault).toBe('PASS')
      expect(u32(body, mad.QUEUE_LOCK_POINTER)).toBe(start)
      host.ring(send)
      host.run()
      expect(completed(host, cq), 'not processed meanwhile').toEqual([])
      expect(host.zone1(send)).toMatchObject({ state: info.QUEUE_PAUSED, pointer: start })
      move(host, smaller, larger, start, (start + outstanding) >>> 0)
      host.bytes.fill(0xee, smaller.ring, smaller.ring + 8 * UNIT_BYTES)
      storeInto(host, send, larger)
      storeZone2(host, send, larger)
      // More than the old ring would have taken.
      units.push(...storeNops(host, send, 16 - outstanding))
      host.setPointer(send)
      expect(release(host, send, token)).toBe('PASS')
      host.run()
      expect(completed(host, cq)).toEqual(units)
      expect(host.zone1(send)).toMatchObject({ state: info.QUEUE_READY, lock: 0 })
      expect(host.events()).toEqual([])
    }
  })

  test('in the middle of the work: the answer says which ring the rest is taken from', () => {
    for (const ahead of [0, 1, FETCH_UNITS - 1, FETCH_UNITS, 63, 64]) {
      const { host, cq, send } = rigOf(64, 2 ** 32 - 20)
      const old = host.queues.get(send)!
      const larger = newRing(host, 64)
      const units = storeNops(host, send, ahead)
      move(host, old, larger, 2 ** 32 - 20, host.queues.get(send)!.pointer)
      host.setPointer(send)
      host.ring(send)
      const write = fillWrite(send, zone2Of(larger.ring, 64))
      sendCall(host, callOf(mad.ATTRIBUTE_QUEUE_WRITE, 50, write))
      host.run()
      const [answer] = takeAnswers(host)
      expect(answer!.fault).toBe('PASS')
      const pointer = u32(answer!.body, mad.QUEUE_WRITE_POINTER)
      expect(info.ahead(pointer, 2 ** 32 - 20)).toBe(Math.min(ahead, FETCH_UNITS))
      expect(completed(host, cq)).toEqual(units)
      storeInto(host, send, larger)
      const more = storeNops(host, send, 64)
      host.setPointer(send)
      host.ring(send)
      host.run()
      expect(completed(host, cq)).toEqual(more)
    }
  })

  test('elements of several units go on, too, over the seam of either ring', () => {
    for (let start = 0; start < 16; start++) {
      const { host, cq, send } = rigOf(16, start)
      const larger = newRing(host, 32)
      storeInto(host, send, larger)
      const units: number[] = []
      for (const bytes of [64, 200, 1, 300]) {
        const inline = new Uint8Array(bytes)
        units.push(host.store(send, elementOf({ opcode: WQE_NOP, flags: SIGNALED, inline })))
      }
      host.setPointer(send)
      expect(writeQueue(host, send, zone2Of(larger.ring, 32)).fault).toBe('PASS')
      host.run()
      expect(completed(host, cq)).toEqual(units)
    }
  })

  test('P3-23: a queue may become smaller, down to what is outstanding', () => {
    for (let outstanding = 0; outstanding <= 8; outstanding++) {
      for (const depth of [1, 2, 4, 8]) {
        const { host, cq, send } = rigOf(8, 5)
        const other = newRing(host, depth)
        const fits = outstanding <= depth
        if (fits) storeInto(host, send, other)
        const units = storeNops(host, send, outstanding)
        host.setPointer(send)
        const { fault } = writeQueue(host, send, zone2Of(other.ring, depth))
        expect(fault, `${outstanding} ${depth}`).toBe(fits ? 'PASS' : 'REQUEST')
        host.ring(send)
        host.run()
        expect(completed(host, cq)).toEqual(units)
      }
    }
  })
})

describe('P3-24: both ends of a connection grow in the middle of a stream', () => {
  /** A control call of that end, while both cards go on. */
  function callOn(end: End, attribute: number, fill: (body: Uint8Array) => void): Uint8Array {
    transaction += 1
    sendCall(end.host, callOf(attribute, transaction, fill))
    end.rig.run()
    const answer = takeAnswers(end.host).find((one) => one.transaction === transaction)
    expect(answer?.fault).toBe('PASS')
    return answer!.body
  }

  let transaction = 0x5000

  function grow(end: End, queue: number, depth: number, form: string): void {
    const { host } = end
    const old = { ...host.queues.get(queue)! }
    const larger = newRing(host, depth)
    const turn = (): void => {
      move(host, old, larger, (old.pointer - old.depth) >>> 0, old.pointer)
      storeInto(host, queue, larger)
    }
    if (form === 'message') {
      turn()
      callOn(end, mad.ATTRIBUTE_QUEUE_WRITE, fillWrite(queue, zone2Of(larger.ring, depth)))
      return
    }
    const locked = callOn(end, mad.ATTRIBUTE_QUEUE_LOCK, (body) => {
      putU32(body, mad.QUEUE_LOCK_QUEUE, queue)
    })
    turn()
    storeZone2(host, queue, larger)
    callOn(end, mad.ATTRIBUTE_QUEUE_RELEASE, (body) => {
      putU32(body, mad.QUEUE_LOCK_QUEUE, queue)
      putU32(body, mad.QUEUE_LOCK_TOKEN, u32(locked, mad.QUEUE_LOCK_TOKEN))
    })
  }

  test.each([
    ['message', 0],
    ['lock', 0],
    ['message', 5],
    ['lock', 5],
  ] as const)('by %s, every frame number %i lost: each datum once, in order', (form, period) => {
    const rig = new TwoCards()
    const [one, other] = hostToHost(rig)
    let frames = 0
    rig.loses = (_, { packet }) => {
      if (packet.destQp === 1 || period === 0) return false
      frames += 1
      return frames % period === 0
    }
    for (const { host } of [one, other]) host.ram.guard.protect(HEADER_AT)
    let sent = 0
    const send = (count: number): void => {
      const datum = (): Uint8Array => {
        sent += 1
        return Uint8Array.of(sent & 255, sent >> 8, 7, 7)
      }
      one.post(...Array.from({ length: count }, () => ({ opcode: SEND, inline: datum() })))
    }
    other.receive(0, 64, 100)
    send(30)
    grow(other, other.qp.receive, 512, form)
    send(30)
    // The receive queue first (P3-1).
    grow(one, one.qp.receive, 512, form)
    grow(one, one.qp.send, 512, form)
    other.receive(100 * 64, 64, 200)
    send(120)
    rig.run()
    const received: number[] = []
    for (let i = 0; i < 400 && received.length < sent; i++) {
      rig.pass(500_000)
      received.push(...completed(other.host, other.receiveCq))
    }
    expect(received).toEqual(Array.from({ length: 180 }, (_, i) => i))
    for (let i = 0; i < 180; i++) {
      const bytes = other.bytes(4, 64 * i)
      expect([...bytes]).toEqual([(i + 1) & 255, (i + 1) >> 8, 7, 7])
    }
    rig.pass(100_000)
    expect(completed(one.host, one.cq)).toEqual(Array.from({ length: 180 }, (_, i) => 2 * i))
    for (const { host } of [one, other]) expect(host.events()).toEqual([])
  })
})

describe('P3-27: completion queues grow, too', () => {
  test('by message: what was written stays in the old ring, what follows is in the new one', () => {
    for (let before = 0; before <= 4; before++) {
      const { host, cq, send } = rigOf(8, 0, 4)
      const old = { ...host.queues.get(cq)! }
      const larger = newRing(host, 16)
      const units = storeNops(host, send, before)
      host.setPointer(send)
      host.ring(send)
      host.run()
      const { fault, body } = writeQueue(host, cq, zone2Of(larger.ring, 16))
      expect(fault).toBe('PASS')
      expect(u32(body, mad.QUEUE_WRITE_POINTER)).toBe(before)
      const more = storeNops(host, send, 8)
      host.setPointer(send)
      host.ring(send)
      host.run()
      // All from the old ring up to the pointer, then the new one.
      expect(completed(host, cq)).toEqual(units)
      expect(host.queues.get(cq)).toMatchObject({ ring: old.ring, pointer: before })
      storeInto(host, cq, larger)
      expect(completed(host, cq)).toEqual(more)
    }
  })

  test('entries that were not taken have to fit', () => {
    const { host, cq, send } = rigOf(8, 0, 8)
    storeNops(host, send, 5)
    host.setPointer(send)
    host.ring(send)
    host.run()
    const smaller = newRing(host, 4)
    expect(writeQueue(host, cq, zone2Of(smaller.ring, 4)).fault).toBe('REQUEST')
    expect(completed(host, cq)).toHaveLength(5)
    expect(writeQueue(host, cq, zone2Of(smaller.ring, 4)).fault).toBe('PASS')
  })

  test('under the lock nothing completes into it; its queues wait, and go on then', () => {
    const { host, cq, send } = rigOf(8, 0, 4)
    const { fault, token } = lock(host, cq)
    expect(fault).toBe('PASS')
    const units = storeNops(host, send, 8)
    host.setPointer(send)
    host.ring(send)
    host.run()
    expect(host.zone1(send).pointer).toBe(0)
    const larger = newRing(host, 16)
    storeZone2(host, cq, larger)
    storeInto(host, cq, larger)
    expect(release(host, cq, token)).toBe('PASS')
    host.card.pass(1000)
    host.run()
    expect(completed(host, cq)).toEqual(units)
  })

  test('the moderation of a completion queue can be changed, and of no other', () => {
    const { host, cq, send } = rigOf(8)
    const { ring } = host.queues.get(cq)!
    expect(writeQueue(host, cq, zone2Of(ring, 256, 9, 65535)).fault).toBe('PASS')
    const zone2 = host.zone2At + cq * info.ZONE2_BYTES
    expect(host.bytes.slice(zone2, zone2 + 32)).toEqual(zone2Of(ring, 256, 9, 65535))
    const of = host.queues.get(send)!
    expect(writeQueue(host, send, zone2Of(of.ring, 8, 1)).fault).toBe('REQUEST')
    expect(writeQueue(host, send, zone2Of(of.ring, 8, 0, 1)).fault).toBe('REQUEST')
  })
})

describe('P3-8: zone 2 by message', () => {
  test.each([
    ['depth 0', 0x80000, 0],
    ['depth 12', 0x80000, 12],
    ['twice the deepest', 0x80000, 2 * QUEUE_DEPTH_MAX],
    ['depth 2^31', 0x80000, 2 ** 31],
    ['a ring that is not aligned', 0x80020, 8],
    ['a ring behind memory', 1 << 20, 8],
    ['a ring that ends behind memory', (1 << 20) - 7 * UNIT_BYTES, 8],
    ['a ring at 2^48', 2 ** 48, 8],
    ['a ring over the header page', HEADER_AT, 8],
  ])('%s is refused, and nothing has changed', (_, ring, depth) => {
    const { host, cq, send, receive } = rigOf(8)
    for (const queue of [cq, send, receive]) {
      const zone2 = host.zone2At + queue * info.ZONE2_BYTES
      const before = host.bytes.slice(zone2, zone2 + info.ZONE2_BYTES)
      expect(writeQueue(host, queue, zone2Of(ring, depth)).fault).toBe('REQUEST')
      expect(host.bytes.slice(zone2, zone2 + info.ZONE2_BYTES)).toEqual(before)
      expect(host.zone1(queue)).toMatchObject({ state: info.QUEUE_READY, lock: 0 })
    }
    const units = storeNops(host, send, 3)
    host.setPointer(send)
    host.ring(send)
    host.run()
    expect(completed(host, cq)).toEqual(units)
  })

  test('a ring over any zone, and bytes that mean nothing, are refused', () => {
    const { host, send } = rigOf(8)
    for (const at of [host.zone1At, host.zone2At, host.zone3At, host.eventsAt]) {
      expect(writeQueue(host, send, zone2Of(at, 8)).fault).toBe('REQUEST')
    }
    const { ring } = host.queues.get(send)!
    for (let at = 16; at < info.ZONE2_BYTES; at++) {
      const zone2 = zone2Of(ring, 8)
      zone2[at] = 1
      expect(writeQueue(host, send, zone2).fault, `byte ${at}`).toBe('REQUEST')
    }
  })

  test('P3-1: a send queue does not outgrow its receive queue, nor that shrink below it', () => {
    const { host, send, receive } = rigOf(8)
    expect(writeQueue(host, send, zone2Of(newRing(host, 64).ring, 64)).fault).toBe('PASS')
    expect(writeQueue(host, send, zone2Of(newRing(host, 128).ring, 128)).fault).toBe('REQUEST')
    expect(writeQueue(host, receive, zone2Of(newRing(host, 32).ring, 32)).fault).toBe('REQUEST')
    expect(writeQueue(host, receive, zone2Of(newRing(host, 128).ring, 128)).fault).toBe('PASS')
    expect(writeQueue(host, send, zone2Of(newRing(host, 128).ring, 128)).fault).toBe('PASS')
  })

  test('queues that are not there, and one that has ended', () => {
    const { host, send } = rigOf(8)
    const { ring } = newRing(host, 8)
    for (const queue of [9, host.count, 2 ** 32 - 1]) {
      expect(writeQueue(host, queue, zone2Of(ring, 8)).fault).toBe('QUEUE_UNKNOWN')
    }
    const ended = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
      putU32(body, mad.MODIFY_QP_SEND, send)
      body[mad.MODIFY_QP_STATE] = info.QUEUE_ERROR
    })
    expect(ended.fault).toBe('PASS')
    expect(writeQueue(host, send, zone2Of(ring, 8)).fault).toBe('REQUEST')
    expect(lock(host, send).fault).toBe('REQUEST')
    expect(destroy(host, send)).toBe('PASS')
    expect(lock(host, send).fault).toBe('QUEUE_UNKNOWN')
  })

  test('the queues of management grow as well, in the middle of a call', () => {
    const { host } = rigOf(8)
    for (const queue of [page.QUEUE_GSI_RECEIVE, page.QUEUE_GSI_SEND]) {
      const old = { ...host.queues.get(queue)! }
      const larger = newRing(host, 128)
      move(host, old, larger, 0, 64)
      // What waits in queue 1 lies in both; the answer comes by the new ring.
      if (queue === page.QUEUE_GSI_RECEIVE) {
        move(host, old, larger, (old.pointer - 64) >>> 0, old.pointer)
      }
      const { fault } = writeQueue(host, queue, zone2Of(larger.ring, 128))
      expect(fault).toBe('PASS')
      storeInto(host, queue, larger)
    }
    for (let i = 0; i < 40; i++) {
      expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
    }
  })

  test('P3-8: a message is carried out, and not again when it comes again', () => {
    const { host, cq, send } = rigOf(8)
    const larger = newRing(host, 16)
    const call = callOf(mad.ATTRIBUTE_QUEUE_WRITE, 60, fillWrite(send, zone2Of(larger.ring, 16)))
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)).toMatchObject([{ fault: 'PASS' }])
    const again = newRing(host, 32)
    expect(writeQueue(host, send, zone2Of(again.ring, 32)).fault).toBe('PASS')
    storeInto(host, send, again)
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)).toMatchObject([{ fault: 'PASS' }])
    const units = storeNops(host, send, 32)
    host.setPointer(send)
    host.ring(send)
    host.run()
    expect(completed(host, cq)).toEqual(units)
  })
})

describe('P3-9: the lock', () => {
  test('P3-9: a second locker is refused, and the first one keeps it', () => {
    const { host, send } = rigOf(8)
    const first = lock(host, send)
    expect(first.fault).toBe('PASS')
    expect(first.token).not.toBe(0)
    expect(host.zone1(send).lock).toBe(first.token)
    expect(lock(host, send).fault).toBe('QUEUE_LOCKED')
    expect(host.zone1(send).lock).toBe(first.token)
    expect(release(host, send, first.token)).toBe('PASS')
    const next = lock(host, send)
    expect(next.fault).toBe('PASS')
    expect(next.token).not.toBe(first.token)
  })

  test('it is released by its token only', () => {
    const { host, send, receive } = rigOf(8)
    expect(release(host, send, 0), 'never locked').toBe('QUEUE_LOCKED')
    const { token } = lock(host, send)
    for (const wrong of [0, 1, token ^ 1, (token + 1) >>> 0]) {
      expect(release(host, send, wrong >>> 0), `${wrong}`).toBe('QUEUE_LOCKED')
      expect(host.zone1(send)).toMatchObject({ state: info.QUEUE_PAUSED, lock: token })
    }
    expect(release(host, receive, token), 'of another queue').toBe('QUEUE_LOCKED')
    expect(release(host, send, token)).toBe('PASS')
    expect(release(host, send, token), 'once').toBe('QUEUE_LOCKED')
  })

  test("P3-11: without it the host cannot store into zone 2, with it only into its queue's", () => {
    const { host, send, receive } = rigOf(8)
    const ring = host.queues.get(send)!
    expect(() => storeZone2(host, send, ring)).toThrow(ForbiddenAccess)
    const { token } = lock(host, send)
    storeZone2(host, send, ring)
    expect(() => storeZone2(host, receive, ring)).toThrow(ForbiddenAccess)
    release(host, send, token)
    expect(() => storeZone2(host, send, ring)).toThrow(ForbiddenAccess)
  })

  test('while it is held nothing else changes the queue, and every other queue works', () => {
    const { host, cq, send } = rigOf(8)
    const other = createQp(host, { sendCq: cq })
    const second = u32(other.body, mad.CREATE_QP_SEND)
    const ring = host.allocate(8 * UNIT_BYTES)
    expect(writeQueue(host, second, zone2Of(ring, 8)).fault).toBe('PASS')
    host.queues.set(second, { queue: second, ring, depth: 8, pointer: 0 })
    const { token } = lock(host, send)
    const { ring: locked } = host.queues.get(send)!
    expect(writeQueue(host, send, zone2Of(locked, 8)).fault).toBe('QUEUE_LOCKED')
    expect(destroy(host, send)).toBe('QUEUE_LOCKED')
    const modify = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
      putU32(body, mad.MODIFY_QP_SEND, send)
      body[mad.MODIFY_QP_STATE] = info.QUEUE_ERROR
    })
    expect(modify.fault).toBe('QUEUE_LOCKED')
    const held = storeNops(host, send, 4)
    const free = storeNops(host, second, 4)
    for (const queue of [send, second]) {
      host.setPointer(queue)
      for (const form of ['fifo', 'register', 'message'] as const) {
        host.ring(queue, form)
        host.run()
      }
    }
    expect(completed(host, cq)).toEqual(free)
    expect(release(host, send, token)).toBe('PASS')
    host.run()
    expect(completed(host, cq)).toEqual(held)
  })

  test('the queues of management cannot be locked: nobody could ask for the release', () => {
    const { host } = rigOf(8)
    for (const queue of [0, 1, 2]) expect(lock(host, queue).fault).toBe('QUEUE_UNKNOWN')
  })

  test.each([
    ['depth 0', (ring: Ring) => ({ ...ring, depth: 0 })],
    ['depth 3', (ring: Ring) => ({ ...ring, depth: 3 })],
    ['too small a depth for what waits', (ring: Ring) => ({ ...ring, depth: 2 })],
    ['a depth beyond the receive queue', (ring: Ring) => ({ ...ring, depth: 128 })],
    ['a ring that is not aligned', (ring: Ring) => ({ ...ring, ring: ring.ring + 4 })],
    ['a ring behind memory', (ring: Ring) => ({ ...ring, ring: 1 << 20 })],
    ['a ring over zone 1', (ring: Ring) => ({ ...ring, ring: 0 })],
  ])('P3-28: a bad zone 2 at the release, %s, ends that queue and no other', (name, spoil) => {
    const { host, cq, send, receive } = rigOf(8)
    storeNops(host, send, 4)
    host.setPointer(send)
    const { token } = lock(host, send)
    const bad = spoil(host.queues.get(send)!)
    storeZone2(host, send, name === 'a ring over zone 1' ? { ...bad, ring: host.zone1At } : bad)
    expect(release(host, send, token)).toBe('QUEUE_CONTEXT')
    expect(host.zone1(send)).toMatchObject({
      ...{ state: info.QUEUE_ERROR, fault: 'QUEUE_CONTEXT', lock: 0, pointer: 0 },
    })
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: send, fault: 'QUEUE_CONTEXT' },
    ])
    host.ring(send)
    host.run()
    expect(completed(host, cq)).toEqual([])
    expect(host.zone1(receive).state).toBe(info.QUEUE_READY)
    expect(destroy(host, send)).toBe('PASS')
  })

  test('H4: zone 2 that cannot be read at the release ends a queue that works', () => {
    for (const isCached of [false, true]) {
      const { host, send } = rigOf(8)
      host.ring(isCached ? send : page.QUEUE_GSI_SEND)
      host.run()
      const { token } = lock(host, send)
      const at = host.zone2At + send * info.ZONE2_BYTES
      host.ram.link.script = (access) =>
        access.kind === 'read' && access.at === at ? 'poisoned' : undefined
      expect(release(host, send, token)).toBe('DMA')
      host.ram.link.script = null
      // One that the card does not know at all is left as it was, to be asked for again.
      const { state, fault } = host.zone1(send)
      expect([state, fault]).toEqual(
        isCached ? [info.QUEUE_ERROR, 'DMA'] : [info.QUEUE_PAUSED, 'PASS'],
      )
      expect(release(host, send, token)).toBe(isCached ? 'QUEUE_LOCKED' : 'PASS')
    }
  })

  test('a lock and a release that come again are answered as before', () => {
    const { host, send } = rigOf(8)
    const fill = (body: Uint8Array): void => putU32(body, mad.QUEUE_LOCK_QUEUE, send)
    const call = callOf(mad.ATTRIBUTE_QUEUE_LOCK, 70, fill)
    for (let i = 0; i < 2; i++) sendCall(host, call)
    host.run()
    const [one, two] = takeAnswers(host)
    const token = u32(one!.body, mad.QUEUE_LOCK_TOKEN)
    expect([one!.fault, two!.fault]).toEqual(['PASS', 'PASS'])
    expect(two!.body).toEqual(one!.body)
    const end = callOf(mad.ATTRIBUTE_QUEUE_RELEASE, 71, (body) => {
      fill(body)
      putU32(body, mad.QUEUE_LOCK_TOKEN, token)
    })
    for (let i = 0; i < 2; i++) sendCall(host, end)
    host.run()
    expect(takeAnswers(host).map(({ fault }) => fault)).toEqual(['PASS', 'PASS'])
    expect(host.zone1(send)).toMatchObject({ state: info.QUEUE_READY, lock: 0 })
  })
})
