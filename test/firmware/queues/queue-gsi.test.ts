/**
 * The general service interface of a host: datagrams from queue 0 to the local card and to others,
 * and back into queue 1 (source 3; X-4, H2, H4).
 */

import { describe, expect, test } from 'vitest'
import { HOST_CALLS } from '../../../firmware/board/limits.ts'
import { CAPACITY_MIN, POLICIES } from '../../../firmware/host/context-cache.ts'
import * as el from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import {
  CardHost,
  callOf,
  createCq,
  destroy,
  fillCq,
  hostOf,
  postBuffer,
  sendCall,
  stationOf,
  takeAnswers,
} from '../../support/queues/queue-calls.ts'
import { elementOf } from '../../support/queues/queue-host.ts'
import { frameOf, writeIcrc } from '../../support/wire/frames.ts'

const GET_STATUS = callOf(mad.ATTRIBUTE_STATUS, 77, undefined, mad.METHOD_GET)

/** Queues in use, as the card says to its own host. */
function used(host: CardHost): number {
  return u32(host.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES), mad.QUEUES_USED)
}

/** Carries frames between the cards until none is left; `lost` may drop some. */
function carry(
  one: TestCard,
  other: TestCard,
  lost: (frame: Uint8Array) => boolean = () => false,
): void {
  const waiting = new Map([
    [one, [] as Uint8Array[]],
    [other, [] as Uint8Array[]],
  ])
  const collect = (): void => {
    for (const [from, to] of [
      [one, other],
      [other, one],
    ] as const) {
      const frames = from.sent.map(({ bytes }) => bytes).filter((bytes) => !lost(bytes))
      waiting.get(to)!.push(...frames)
      from.sent = []
    }
  }
  for (let turn = 0; turn < 20; turn++) {
    collect()
    for (const card of [one, other]) {
      card.serve(...waiting.get(card)!.splice(0))
      while (card.waitUs === 1) card.idle()
    }
  }
}

/** A response frame of another card, as it comes to ours. */
function responseTo(transaction: number, payload?: Uint8Array, ipVersion?: 4 | 6): Uint8Array {
  const response =
    payload ?? callOf(mad.ATTRIBUTE_STATUS, transaction, undefined, mad.METHOD_RESPONSE)
  return frameOf({
    ...(ipVersion === undefined ? {} : { ipVersion }),
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload: response,
  })
}

describe('to the local card', () => {
  test('a call is answered into the next element of queue 1, with one completion each', () => {
    const host = hostOf().init()
    const unit = sendCall(host, GET_STATUS, undefined, el.SIGNALED)
    host.run()
    const cqes = host.poll(page.QUEUE_GSI_COMPLETION)
    expect(cqes.map(({ queue }) => queue)).toEqual([0, 1])
    expect(cqes[0]).toMatchObject({ unit, status: el.WC_SUCCESS, opcode: SEND, length: 256 })
    expect(cqes[1]).toMatchObject({
      ...{ unit: 0, status: el.WC_SUCCESS, opcode: el.WQE_RECEIVE, length: 256 },
      ...{ source: 1, pointer: 1 },
    })
    expect(cqes[1], 'zeros: the local card says so').toMatchObject({ address: 0, incarnation: 0 })
    expect(host.zone1(page.QUEUE_GSI_RECEIVE).pointer).toBe(1)
    expect(host.zone1(page.QUEUE_GSI_SEND).pointer).toBe(unit + 5)
  })

  test('one that is not signaled has the answer alone', () => {
    const host = hostOf().init()
    sendCall(host, GET_STATUS)
    host.run()
    expect(host.poll(page.QUEUE_GSI_COMPLETION).map(({ queue }) => queue)).toEqual([1])
  })

  test('its bytes may lie elsewhere in memory: no key is asked of management', () => {
    const host = hostOf().init()
    const at = host.allocate(mad.MAD_BYTES)
    host.bytes.set(GET_STATUS, at)
    host.post(0, elementOf({ opcode: SEND, local: at, length: mad.MAD_BYTES }))
    host.ring(0)
    host.run()
    expect(takeAnswers(host)).toMatchObject([{ transaction: 77, fault: 'PASS' }])
  })

  test('the address of the local card is the local card, too', () => {
    const host = hostOf().init()
    sendCall(host, GET_STATUS, stationOf(2))
    host.run()
    expect(takeAnswers(host)).toMatchObject([{ transaction: 77, fault: 'PASS' }])
    expect(host.card.sent).toEqual([])
  })

  test('calls are executed in their order, also more than fit into one burst', () => {
    const host = hostOf(1 << 21).init(64)
    const calls = 2 * HOST_CALLS + 5
    for (let i = 0; i < calls; i++) {
      sendCall(host, callOf(mad.ATTRIBUTE_CREATE_CQ, 100 + i, fillCq(host, { entries: 1 })))
      // The ring has 64 units, 12 calls.
      if (i % 12 === 11) host.run()
    }
    host.run()
    const answers = takeAnswers(host)
    expect(answers.map(({ transaction }) => transaction)).toEqual(
      Array.from({ length: calls }, (_, i) => 100 + i),
    )
    expect(answers.map(({ body }) => u32(body, mad.CREATE_CQ_QUEUE))).toEqual(
      Array.from({ length: calls }, (_, i) => 3 + i),
    )
  })

  test('more calls at once than may wait: the rest waits in the ring, in its order', () => {
    const host = hostOf().init()
    const calls = 3 * HOST_CALLS
    for (let i = 0; i < calls; i++) {
      const at = host.allocate(mad.MAD_BYTES)
      host.bytes.set(callOf(mad.ATTRIBUTE_STATUS, 400 + i, undefined, mad.METHOD_GET), at)
      host.post(0, elementOf({ opcode: SEND, local: at, length: mad.MAD_BYTES }))
    }
    host.ring(0)
    for (let i = 0; i < 10; i++) {
      host.run()
      host.card.pass(100)
    }
    expect(takeAnswers(host).map(({ transaction }) => transaction)).toEqual(
      Array.from({ length: calls }, (_, i) => 400 + i),
    )
  })

  test.each([
    ['no magic', (call: Uint8Array) => call.fill(0, mad.MAD_MAGIC, mad.MAD_MAGIC + 4)],
    ['another class', (call: Uint8Array) => call.fill(7, mad.MAD_CLASS, mad.MAD_CLASS + 1)],
    ['another version', (call: Uint8Array) => call.fill(9, mad.MAD_VERSION, mad.MAD_VERSION + 1)],
    ['a response', (call: Uint8Array) => call.fill(0x81, mad.MAD_METHOD, mad.MAD_METHOD + 1)],
    ['zeros', (call: Uint8Array) => call.fill(0)],
  ])('%s is dropped and counted; the element is done, the queue lives', (_, spoil) => {
    const host = hostOf().init()
    const call = GET_STATUS.slice()
    spoil(call)
    sendCall(host, call, undefined, el.SIGNALED)
    host.run()
    const cqes = host.poll(page.QUEUE_GSI_COMPLETION)
    expect(cqes).toMatchObject([{ queue: 0, status: el.WC_SUCCESS }])
    expect(host.card.counter('MANAGEMENT_FORM')).toBe(1)
    expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
  })

  test.each([0, 1, 252, 255, 257, 320])('H2: a datagram of %i bytes ends the queue', (length) => {
    const host = hostOf().init()
    host.post(0, elementOf({ opcode: SEND, inline: new Uint8Array(length) }))
    host.ring(0)
    host.run()
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toMatchObject([
      { queue: 0, status: el.WC_LOC_LEN_ERR },
    ])
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: 0, fault: 'ELEMENT_LENGTH' },
    ])
    expect(host.zone1(0)).toMatchObject({ state: info.QUEUE_ERROR, fault: 'ELEMENT_LENGTH' })
  })

  test('P3-11: a call cannot be read from, nor answered into, what the host may not write', () => {
    const zone1 = hostOf().init().zone1At
    const reads = hostOf().init()
    reads.post(0, elementOf({ opcode: SEND, local: zone1, length: mad.MAD_BYTES }))
    reads.ring(0)
    reads.run()
    expect(reads.events()).toMatchObject([{ queue: 0, fault: 'MEMORY_KEY' }])

    const writes = new CardHost()
    writes.layOut(16, 0)
    writes.enable()
    writes.run()
    const fields = { opcode: el.WQE_RECEIVE, local: writes.zone1At, length: mad.MAD_BYTES }
    writes.post(1, elementOf(fields))
    const before = writes.bytes.slice(writes.zone1At + 192, writes.zone1At + 1024)
    sendCall(writes, GET_STATUS)
    writes.run()
    expect(writes.events()).toMatchObject([{ queue: 1, fault: 'MEMORY_KEY' }])
    const after = writes.bytes.slice(writes.zone1At + 192, writes.zone1At + 1024)
    expect(after).toEqual(before)
  })
})

describe('P3-18: with the smallest cache', () => {
  test.each(POLICIES.map((name, policy) => [name, policy] as const))(
    'policy %s: calls are answered while more queues work than have a context',
    (_, policy) => {
      const host = hostOf().init(64)
      const cq = host.createCq(256)
      const sends = Array.from({ length: 8 }, () => host.createQp(cq, { units: 8 }).send)
      host.must(mad.METHOD_SET, mad.ATTRIBUTE_CACHE, (body) => {
        body[mad.CACHE_POLICY] = policy
        putU16(body, mad.CACHE_N, 2)
        putU32(body, mad.CACHE_CAPACITY, CAPACITY_MIN)
      })
      for (let i = 0; i < 20; i++) {
        for (const send of sends) {
          host.post(send, elementOf({ opcode: el.WQE_NOP, flags: el.SIGNALED }))
          host.ring(send)
        }
        expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
        for (let pass = 0; pass < 5; pass++) {
          host.card.pass(100)
          host.run()
        }
        expect(host.poll(cq)).toHaveLength(8)
      }
      const made = createCq(host)
      expect(made.fault).toBe('PASS')
      expect(destroy(host, u32(made.body, mad.CREATE_CQ_QUEUE))).toBe('PASS')
      for (const send of sends) expect(destroy(host, send)).toBe('PASS')
      expect(destroy(host, cq)).toBe('PASS')
      expect(used(host)).toBe(3)
    },
  )
})

describe('without room for the answer', () => {
  /** A host whose queue 1 is empty. */
  function bare(): CardHost {
    const host = new CardHost()
    host.layOut(16, 0)
    host.enable()
    host.run()
    return host
  }

  test('no element in queue 1: dropped and counted; repeated, it is answered as it was', () => {
    const host = bare()
    const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 5, fillCq(host))
    sendCall(host, call)
    host.run()
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toEqual([])
    expect(host.card.counter('NOT_READY')).toBe(1)
    expect(host.zone1(3).valid).toBe(1)
    postBuffer(host, host.allocate(mad.MAD_BYTES))
    sendCall(host, call)
    host.run()
    const [answer] = takeAnswers(host)
    expect(answer).toMatchObject({ transaction: 5, fault: 'PASS' })
    expect(u32(answer!.body, mad.CREATE_CQ_QUEUE)).toBe(3)
    postBuffer(host, host.allocate(mad.MAD_BYTES))
    expect(used(host), 'made once').toBe(4)
  })

  test('a buffer that is too short ends queue 1, not queue 0', () => {
    const host = bare()
    const at = host.allocate(256)
    host.post(1, elementOf({ opcode: el.WQE_RECEIVE, local: at, length: mad.MAD_BYTES - 1 }))
    sendCall(host, GET_STATUS, undefined, el.SIGNALED)
    host.run()
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: 1, fault: 'ELEMENT_LENGTH' },
    ])
    expect(host.zone1(0).state).toBe(info.QUEUE_READY)
    expect(host.poll(page.QUEUE_GSI_COMPLETION)[0]).toMatchObject({ queue: 0, status: 0 })
    sendCall(host, GET_STATUS)
    host.run()
    expect(host.events(), 'said once').toEqual([])
  })

  test.each([
    ['another opcode', (bytes: Uint8Array, at: number) => bytes.fill(1, at + 4, at + 5)],
    ['an old stamp', (bytes: Uint8Array, at: number) => bytes.fill(0, at, at + 4)],
    ['half a stamp', (bytes: Uint8Array, at: number) => bytes.fill(0, at + 60, at + 64)],
    ['two units', (bytes: Uint8Array, at: number) => bytes.fill(2, at + 5, at + 6)],
  ])('H2: an element of queue 1 with %s ends it', (_, spoil) => {
    const host = bare()
    postBuffer(host, host.allocate(mad.MAD_BYTES))
    spoil(host.bytes, host.unitAt(1, 0))
    sendCall(host, GET_STATUS)
    host.run()
    expect(host.events()).toHaveLength(1)
    expect(host.zone1(1).state).toBe(info.QUEUE_ERROR)
    expect(host.zone1(0).state).toBe(info.QUEUE_READY)
  })

  test('H3: a write pointer of queue 1 that cannot be ends it', () => {
    const host = bare()
    host.setPointer(1, 65)
    sendCall(host, GET_STATUS)
    host.run()
    expect(host.events()).toMatchObject([{ queue: 1, fault: 'QUEUE_POINTER' }])
  })
})

describe('to another card', () => {
  function two(): [CardHost, CardHost] {
    return [new CardHost(1 << 20, 2).init(), new CardHost(1 << 20, 3).init()]
  }

  test('a call goes out as a UD SEND from QP 1 to QP 1, and its answer comes into queue 1', () => {
    const [host, far] = two()
    sendCall(host, GET_STATUS, stationOf(3), el.SIGNALED)
    host.run()
    const [frame] = host.card.sent
    expect(frame).toMatchObject({ opcode: UD_SEND_ONLY, payload: GET_STATUS })
    expect(frame!.packet.destQp).toBe(1)
    const deth = frame!.packet.bthAt + 12
    expect(u32(frame!.bytes, deth)).toBe(Q_KEY_GSI)
    expect(u32(frame!.bytes, deth + 4)).toBe(1)
    expect([...frame!.bytes.slice(0, 12)]).toEqual([...stationOf(3).mac, ...stationOf(2).mac])
    carry(host.card, far.card)
    const answers = takeAnswers(host)
    expect(answers).toMatchObject([{ transaction: 77, fault: 'PASS' }])
    expect(host.strays).toMatchObject([{ queue: 0, status: el.WC_SUCCESS, opcode: SEND }])
    expect(far.poll(page.QUEUE_GSI_COMPLETION), "the other's host sees nothing of it").toEqual([])
  })

  test('what only the host of a card may ask is refused to the host of another', () => {
    const [host, far] = two()
    sendCall(host, callOf(mad.ATTRIBUTE_CREATE_CQ, 9, fillCq(far)), stationOf(3))
    host.run()
    carry(host.card, far.card)
    expect(takeAnswers(host)).toMatchObject([{ transaction: 9, fault: 'HOST_ONLY' }])
    expect(used(far)).toBe(3)
  })

  test('both hosts ask each other at once, many times, and each has its own answers', () => {
    const [host, far] = two()
    for (let i = 0; i < 10; i++) {
      sendCall(host, callOf(mad.ATTRIBUTE_STATUS, 100 + i, undefined, mad.METHOD_GET), stationOf(3))
      sendCall(far, callOf(mad.ATTRIBUTE_STATUS, 200 + i, undefined, mad.METHOD_GET), stationOf(2))
    }
    host.run()
    far.run()
    carry(host.card, far.card)
    const of = (one: CardHost): number[] => takeAnswers(one).map(({ transaction }) => transaction)
    expect(of(host)).toEqual(Array.from({ length: 10 }, (_, i) => 100 + i))
    expect(of(far)).toEqual(Array.from({ length: 10 }, (_, i) => 200 + i))
  })

  test('N1: a lost call and a lost answer are repeated; what is done once stays done once', () => {
    const [host, far] = two()
    far.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    const connect = callOf(mad.ATTRIBUTE_CONNECT, 300, (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, 77)
      body.set([4, 0], mad.CONNECT_PATH_MTU)
    })
    const numbers: number[] = []
    for (const lost of ['call', 'answer', 'nothing', 'nothing']) {
      sendCall(host, connect, stationOf(3))
      host.run()
      carry(
        host.card,
        far.card,
        (frame) =>
          (lost === 'call' ? frame[5] === 3 : false) || (lost === 'answer' && frame[5] === 2),
      )
      for (const { fault, body } of takeAnswers(host)) {
        expect(fault).toBe('PASS')
        numbers.push(u32(body, mad.CONNECT_QP))
      }
    }
    expect(numbers).toHaveLength(2)
    expect(new Set(numbers).size).toBe(1)
  })

  test('an answer that comes twice is told twice: the driver knows its transactions', () => {
    const host = hostOf().init()
    host.card.serve(responseTo(5), responseTo(5))
    host.run()
    expect(takeAnswers(host).map(({ transaction }) => transaction)).toEqual([5, 5])
  })

  test('the completion of an answer says who sent it: the MAC, and the IPv4 address', () => {
    const [host, far] = two()
    sendCall(host, GET_STATUS, stationOf(3))
    host.run()
    carry(host.card, far.card)
    host.card.serve(responseTo(5))
    const cqes = host.poll(page.QUEUE_GSI_COMPLETION)
    const senders = cqes.map(({ address, incarnation }) => {
      const bytes = Buffer.alloc(12)
      bytes.writeBigUInt64LE(BigInt(address))
      bytes.writeUInt32LE(incarnation, 8)
      return { mac: [...bytes.subarray(0, 6)], ipv4: [...bytes.subarray(8)] }
    })
    expect(senders).toEqual([stationOf(3), stationOf(1)])
  })

  test('nobody on the network can be taken for the local card', () => {
    const host = hostOf().init()
    const zeros = responseTo(5)
    zeros.fill(0, 6, 12)
    zeros.fill(0, 26, 30)
    writeIcrc(zeros)
    host.card.serve(zeros)
    const six = responseTo(6, undefined, 6)
    six.fill(0, 6, 12)
    host.card.serve(six)
    expect(host.card.counter('GROUP_SOURCE')).toBe(1)
    expect(host.card.counter('UNEXPECTED_RESPONSE')).toBe(1)
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toEqual([])
    // A MAC of zeros alone names somebody: the IPv4 address does.
    const half = responseTo(7)
    half.fill(0, 6, 12)
    writeIcrc(half)
    host.card.serve(half)
    const named = Buffer.from(stationOf(1).ipv4).readUInt32LE()
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toMatchObject([{ address: 0, incarnation: named }])
  })

  test.each([1, 2, 4, 8])('a flood ends nothing, also with %i completions', (entries) => {
    const host = hostOf()
    host.layOut(16, 0)
    host.putHeader(page.HEADER_COMPLETIONS, entries)
    host.queues.get(page.QUEUE_GSI_COMPLETION)!.depth = entries
    host.enable()
    host.run()
    for (let i = 0; i < 32; i++) postBuffer(host, host.allocate(mad.MAD_BYTES))
    host.card.serve(...Array.from({ length: 16 }, (_, i) => responseTo(1000 + i)))
    host.run()
    expect(host.card.counter('NOT_READY')).toBe(16 - entries)
    // What is sent waits until the host has taken what came.
    sendCall(host, GET_STATUS, undefined, el.SIGNALED)
    host.run()
    host.card.pass(100)
    host.run()
    expect(host.events()).toEqual([])
    for (const queue of [0, 1, 2]) expect(host.zone1(queue).state).toBe(info.QUEUE_READY)
    expect(takeAnswers(host)).toHaveLength(entries)
    const transactions: number[] = []
    for (let i = 0; i < 4; i++) {
      host.card.pass(100)
      host.run()
      transactions.push(...takeAnswers(host).map(({ transaction }) => transaction))
    }
    // Its completion may have taken the only room there was: then the call is to be repeated.
    expect(transactions).toEqual(entries === 1 ? [] : [77])
    sendCall(host, GET_STATUS)
    host.run()
    expect(takeAnswers(host)).toMatchObject([{ transaction: 77, fault: 'PASS' }])
  })

  test('answers without a host, or before it is served, are dropped and counted', () => {
    const card = new TestCard(1 << 18)
    card.serve(responseTo(5))
    expect(card.sent).toEqual([])
    expect(card.counter('UNEXPECTED_RESPONSE')).toBe(1)
  })

  test('more answers than elements: what fits is told, the rest is counted', () => {
    const host = hostOf().init()
    for (let i = 0; i < 5; i++) {
      host.card.serve(...Array.from({ length: 16 }, (_, j) => responseTo(1000 + 16 * i + j)))
    }
    host.run()
    expect(takeAnswers(host).map(({ transaction }) => transaction)).toEqual(
      Array.from({ length: 64 }, (_, i) => 1000 + i),
    )
    expect(host.card.counter('NOT_READY')).toBe(16)
    expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_STATUS).fault).toBe('PASS')
  })

  test('a response that is not ours is dropped as before', () => {
    const host = hostOf().init()
    const strange = callOf(mad.ATTRIBUTE_STATUS, 5, undefined, mad.METHOD_RESPONSE)
    strange[mad.MAD_MAGIC] = 0
    host.card.serve(responseTo(0, strange))
    expect(host.poll(page.QUEUE_GSI_COMPLETION)).toEqual([])
    expect(host.card.counter('MANAGEMENT_FORM')).toBe(1)
  })
})

describe('H4: memory that does not answer', () => {
  /** The reads by DMA of one call, and what became of it when read number `failing` failed. */
  function failing(at: number): { reads: number; answers: string[]; host: CardHost } {
    const host = hostOf().init()
    const cq = host.createCq(16)
    let reads = 0
    host.ram.link.script = ({ kind }) => {
      if (kind !== 'read') return undefined
      reads += 1
      return reads - 1 === at ? 'unsupported' : undefined
    }
    const fill = (body: Uint8Array): void => {
      putU32(body, mad.CREATE_QP_SEND_CQ, cq)
      putU32(body, mad.CREATE_QP_RECEIVE_CQ, cq)
      body[mad.CREATE_QP_TYPE] = info.TYPE_LOCAL
      putU32(body, mad.CREATE_QP_SEND_UNITS, 8)
      putU32(body, mad.CREATE_QP_RECEIVE_UNITS, 8)
      putU32(body, mad.CREATE_QP_SEND_RING + 4, host.allocate(512))
      putU32(body, mad.CREATE_QP_RECEIVE_RING + 4, host.allocate(512))
    }
    sendCall(host, callOf(mad.ATTRIBUTE_CREATE_QP, 900, fill))
    host.run()
    host.ram.link.script = null
    return { reads, answers: takeAnswers(host).map(({ fault }) => fault), host }
  }

  test('each read of a call fails once: an answer says DMA, or a queue of management ends', () => {
    const { reads, answers } = failing(-1)
    expect(answers).toEqual(['PASS'])
    expect(reads).toBeGreaterThan(5)
    for (let at = 0; at < reads; at++) {
      const { answers, host } = failing(at)
      const events = host.events()
      const [answer] = answers
      const ended = events.map(({ queue }) => queue)
      for (const queue of ended) expect(queue, `read ${at}`).toBeLessThan(3)
      if (answer === undefined) expect(ended.length, `read ${at}`).toBeGreaterThan(0)
      else expect(['PASS', 'DMA'], `read ${at}`).toContain(answer)
      // Where it was refused nothing is left of it, else it is there whole.
      const made = host.zone1(4).valid
      expect(host.zone1(5).valid, `read ${at}`).toBe(made)
      expect(host.zone1(3).other, `read ${at}`).toBe(2 * made)
      if (answer !== undefined) expect(used(host), `read ${at}`).toBe(4 + 2 * made)
      if (answer !== undefined) expect(made, `read ${at}`).toBe(answer === 'PASS' ? 1 : 0)
    }
  })
})
