/**
 * The control calls for the queues of a host: every field at its bounds, every refusal, every call
 * repeated (source 3; P3-1, P3-4, P3-6, P3-7, P3-10).
 */

import { describe, expect, test } from 'vitest'
import { Random } from '../../../boards/emulator/base/random.ts'
import {
  CONTEXTS,
  HOST_QUEUES,
  MEMORY_REGIONS,
  QUEUE_DEPTH_MAX,
  UNIT_BYTES,
} from '../../../firmware/board/limits.ts'
import { CAPACITY_MIN, POLICIES } from '../../../firmware/host/context-cache.ts'
import { SIGNALED, WQE_NOP } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import { QUEUE_COUNTERS } from '../../../firmware/host/host.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import {
  createQueueNumbers,
  giveNumber,
  isNumberUsed,
  resetNumbers,
  takeNumber,
} from '../../../firmware/host/queue-numbers.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type CardHost,
  callOf,
  createCq,
  createQp,
  destroy,
  fillCq,
  hostOf,
  lock,
  register,
  release,
  sendCall,
  stationOf,
  takeAnswers,
  writeQueue,
  zone2Of,
} from '../../support/queues/queue-calls.ts'
import { elementOf, putU64 } from '../../support/queues/queue-host.ts'

const RAM_BYTES = 1 << 20

const HOST_CALLS: Readonly<Record<string, number>> = {
  CREATE_CQ: mad.ATTRIBUTE_CREATE_CQ,
  CREATE_QP: mad.ATTRIBUTE_CREATE_QP,
  MODIFY_QP: mad.ATTRIBUTE_MODIFY_QP,
  DESTROY: mad.ATTRIBUTE_DESTROY,
  REGISTER: mad.ATTRIBUTE_REGISTER,
  DEREGISTER: mad.ATTRIBUTE_DEREGISTER,
  QUEUE_WRITE: mad.ATTRIBUTE_QUEUE_WRITE,
  QUEUE_LOCK: mad.ATTRIBUTE_QUEUE_LOCK,
  QUEUE_RELEASE: mad.ATTRIBUTE_QUEUE_RELEASE,
  RING: mad.ATTRIBUTE_RING,
  BATCH_NOTICES: mad.ATTRIBUTE_BATCH_NOTICES,
}

function queuesPage(host: CardHost): Uint8Array {
  return host.card.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES)
}

function used(host: CardHost): number {
  return u32(queuesPage(host), mad.QUEUES_USED)
}

/** Which zones the card has written since it was last asked: `zone of queue`, but management's. */
function watchZones(host: CardHost): () => string[] {
  const written = new Set<string>()
  const zones = [
    [host.zone1At, info.ZONE1_BYTES],
    [host.zone2At, info.ZONE2_BYTES],
    [host.zone3At, info.ZONE3_BYTES],
  ] as const
  host.ram.link.script = ({ kind, at, length }) => {
    zones.forEach(([zone, bytes], i) => {
      const first = Math.floor((at - zone) / bytes)
      const last = Math.floor((at + length - 1 - zone) / bytes)
      for (let queue = Math.max(first, page.FIRST_QUEUE); queue <= last; queue++) {
        if (kind === 'write' && queue < host.count) written.add(`${i + 1} of ${queue}`)
      }
    })
    return undefined
  }
  return () => {
    const seen = [...written].sort()
    written.clear()
    return seen
  }
}

/** Ranges that no ring and no memory region may touch, by name: first byte, bytes. */
function forbidden(host: CardHost): [string, number, number][] {
  const { count } = host
  return [
    ['header page', 4096, 4096],
    ['zone 1', host.zone1At, count * info.ZONE1_BYTES],
    ['zone 2', host.zone2At, count * info.ZONE2_BYTES],
    ['zone 3', host.zone3At, count * info.ZONE3_BYTES],
    ['event ring', host.eventsAt, 1024 * page.EVENT_BYTES],
  ]
}

describe('who may ask', () => {
  test.each(Object.entries(HOST_CALLS))('%s from the network is refused: HOST_ONLY', (_, id) => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    const before = host.bytes.slice()
    const asked = host.card.manage(mad.METHOD_SET, id, (body) => putU32(body, 0, cq))
    expect(asked.fault).toBe('HOST_ONLY')
    expect(host.card.counter('HOST_ONLY')).toBe(1)
    expect(Buffer.compare(host.bytes, before)).toBe(0)
  })

  test.each(Object.entries(HOST_CALLS))('%s with GET is refused: REQUEST', (_, id) => {
    expect(hostOf().init().manage(mad.METHOD_GET, id).fault).toBe('REQUEST')
  })

  test('QUEUES, QUEUE and CACHE are answered to the network and to the host alike', () => {
    const host = hostOf().init()
    const fill = (body: Uint8Array): void => putU16(body, mad.CACHE_N, 1)
    for (const ask of [host, host.card]) {
      expect(ask.manage(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES).fault).toBe('PASS')
      expect(ask.manage(mad.METHOD_GET, mad.ATTRIBUTE_QUEUE).fault).toBe('PASS')
      expect(ask.manage(mad.METHOD_SET, mad.ATTRIBUTE_CACHE, fill).fault).toBe('PASS')
    }
  })

  test('a card whose part is blank serves the queues, and its host formats it', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    host.createQp(cq)
    expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN).fault).toBe('NOT_SERVING')
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    expect(host.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN).fault).toBe('NO_REGION')
  })

  test('a host connects to its local card by local pairs, not by CONNECT', () => {
    const host = hostOf().init()
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    const asked = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, 77)
      putU16(body, mad.CONNECT_PATH_MTU, 1024)
    })
    expect(asked.fault).toBe('REQUEST')
  })
})

describe('QUEUES, QUEUE and CACHE', () => {
  test('QUEUES says what there is, and every counter, from any first one on', () => {
    const host = hostOf().init(20, page.ORDER_TIME)
    host.createQp(host.createCq())
    const body = queuesPage(host)
    expect(u32(body, mad.QUEUES_EPOCH)).toBe(1)
    expect(u32(body, mad.QUEUES_COUNT)).toBe(20)
    expect(u32(body, mad.QUEUES_USED)).toBe(6)
    expect(u32(body, mad.QUEUES_CAPACITY)).toBe(CONTEXTS)
    expect(body[mad.QUEUES_ORDER]).toBe(page.ORDER_TIME)
    expect(u32(body, mad.QUEUES_COUNTERS_TOTAL)).toBe(QUEUE_COUNTERS.length)
    for (const first of [0, 1, 5, QUEUE_COUNTERS.length, QUEUE_COUNTERS.length + 1, 2 ** 32 - 1]) {
      const from = host.card.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES, undefined, first)
      const left = Math.max(0, QUEUE_COUNTERS.length - first)
      expect(u32(from, mad.QUEUES_COUNTERS_HERE)).toBe(Math.min(left, mad.QUEUES_COUNTERS_PER_MAD))
    }
  })

  test("without a host QUEUES says so, and QUEUE and the host's calls have nothing to name", () => {
    const host = hostOf()
    const body = queuesPage(host)
    expect(u32(body, mad.QUEUES_EPOCH)).toBe(0)
    expect(u32(body, mad.QUEUES_COUNT)).toBe(0)
    expect(u32(body, mad.QUEUES_USED)).toBe(0)
    const asked = host.card.manage(mad.METHOD_GET, mad.ATTRIBUTE_QUEUE)
    expect(asked.fault).toBe('QUEUE_UNKNOWN')
  })

  test('QUEUE shows the three zones, whether the cache has them or not', () => {
    const host = hostOf().init()
    const cq = host.createCq(32, 5, 9)
    const { send } = host.createQp(cq, { units: 16, domain: 3, client: 99 })
    for (const queue of [0, 1, 2, cq, send]) {
      const body = host.card.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUE, undefined, queue)
      const zone2 = host.zone2At + queue * info.ZONE2_BYTES
      const zone1 = host.zone1At + queue * info.ZONE1_BYTES
      expect(body.slice(0, 64)).toEqual(host.bytes.slice(zone1, zone1 + 64))
      expect(body.slice(mad.QUEUE_ZONE2, 96)).toEqual(host.bytes.slice(zone2, zone2 + 32))
      expect(body[mad.QUEUE_CACHED], `queue ${queue}`).toBe(queue < 3 ? 1 : 0)
    }
    for (const queue of [host.count, HOST_QUEUES, 2 ** 32 - 1]) {
      const asked = host.card.manage(mad.METHOD_GET, mad.ATTRIBUTE_QUEUE, undefined, queue)
      expect(asked.fault).toBe('QUEUE_UNKNOWN')
    }
  })

  test('CACHE takes each policy, and every number in its range; others change nothing', () => {
    const host = hostOf().init()
    const set = (policy: number, n: number, ageUs: number, capacity: number): string =>
      host.card.manage(mad.METHOD_SET, mad.ATTRIBUTE_CACHE, (body) => {
        body[mad.CACHE_POLICY] = policy
        putU16(body, mad.CACHE_N, n)
        putU32(body, mad.CACHE_AGE, ageUs)
        putU32(body, mad.CACHE_CAPACITY, capacity)
      }).fault
    const kept = (): number[] => {
      const body = queuesPage(host)
      return [
        body[mad.QUEUES_POLICY]!,
        u16(body, mad.QUEUES_N),
        u32(body, mad.QUEUES_AGE),
        u32(body, mad.QUEUES_CAPACITY),
      ]
    }
    for (let policy = 0; policy < POLICIES.length; policy++) {
      for (const n of [1, 2, CONTEXTS]) {
        for (const capacity of [CAPACITY_MIN, CONTEXTS]) {
          expect(set(policy, n, 2 ** 32 - 1, capacity)).toBe('PASS')
          expect(kept()).toEqual([policy, n, 2 ** 32 - 1, capacity])
        }
      }
    }
    const before = kept()
    const wrong = [
      [POLICIES.length, 1, 0, CONTEXTS],
      [255, 1, 0, CONTEXTS],
      [0, 0, 0, CONTEXTS],
      [0, CONTEXTS + 1, 0, CONTEXTS],
      [0, 1, 0, CAPACITY_MIN - 1],
      [0, 1, 0, CONTEXTS + 1],
      [0, 1, 0, 2 ** 32 - 1],
    ] as const
    for (const [policy, n, age, capacity] of wrong) {
      expect(set(policy, n, age, capacity), `${policy} ${n} ${capacity}`).toBe('REQUEST')
      expect(kept()).toEqual(before)
    }
    expect(set(1, 7, 8, 0), 'capacity 0 leaves it').toBe('PASS')
    expect(kept()).toEqual([1, 7, 8, CONTEXTS])
  })
})

describe('CREATE_CQ and CREATE_QP', () => {
  test('P3-4: zones 1 and 2 say address, depth, state, validity and pointer of a queue', () => {
    const host = hostOf().init()
    const cqRing = host.allocate(32 * UNIT_BYTES)
    const made = createCq(host, { ring: cqRing, entries: 32, count: 5, periodUs: 60_000 })
    const cq = u32(made.body, mad.CREATE_CQ_QUEUE)
    const sendRing = host.allocate(16 * UNIT_BYTES)
    const receiveRing = host.allocate(64 * UNIT_BYTES)
    const { body } = createQp(host, {
      ...{ sendCq: 2 + cq - 2, sendRing, sendUnits: 16, receiveRing, receiveUnits: 64 },
      ...{ domain: 0xfedc, client: 0x1_2345_6789_abcd },
    })
    const send = u32(body, mad.CREATE_QP_SEND)
    const receive = u32(body, mad.CREATE_QP_RECEIVE)
    const common = { state: info.QUEUE_READY, valid: 1, type: info.TYPE_LOCAL, pointer: 0, lock: 0 }
    expect(host.zone1(cq)).toMatchObject({
      ...{ ...common, kind: info.KIND_COMPLETION, address: cqRing, fault: 'PASS' },
      other: 2,
    })
    const pair = { completions: cq, domain: 0xfedc, client: 0x1_2345_6789_abcd, queuePair: 0 }
    expect(host.zone1(send)).toMatchObject({
      ...{ ...common, ...pair, kind: info.KIND_SEND, address: sendRing, other: receive },
    })
    expect(host.zone1(receive)).toMatchObject({
      ...{ ...common, ...pair, kind: info.KIND_RECEIVE, address: receiveRing, other: send },
    })
    const zone2 = (queue: number): DataView =>
      new DataView(host.bytes.buffer, host.zone2At + queue * info.ZONE2_BYTES, info.ZONE2_BYTES)
    expect(Number(zone2(send).getBigUint64(info.Z2_RING, true))).toBe(sendRing)
    expect(zone2(send).getUint32(info.Z2_DEPTH, true)).toBe(16)
    expect(zone2(receive).getUint32(info.Z2_DEPTH, true)).toBe(64)
    expect(zone2(cq).getUint16(info.Z2_COUNT, true)).toBe(5)
    expect(zone2(cq).getUint16(info.Z2_PERIOD, true)).toBe(60_000)
  })

  test('P3-10: a queue has its own triple, and making or ending it touches no other', () => {
    const host = hostOf().init(16)
    const bytesOf = (queue: number): Uint8Array[] =>
      [
        [host.zone1At, info.ZONE1_BYTES],
        [host.zone2At, info.ZONE2_BYTES],
        [host.zone3At, info.ZONE3_BYTES],
      ].map(([at, each]) => host.bytes.slice(at! + queue * each!, at! + (queue + 1) * each!))
    const numbers = new Set<number>([0, 1, 2])
    for (let i = 3; i < 16; i++) {
      const before = Array.from({ length: 16 }, (_, queue) => bytesOf(queue))
      const queue = u32(createCq(host).body, mad.CREATE_CQ_QUEUE)
      expect(numbers.has(queue)).toBe(false)
      numbers.add(queue)
      for (let other = 3; other < 16; other++) {
        const same = JSON.stringify(bytesOf(other)) === JSON.stringify(before[other])
        expect(same, `queue ${other} when ${queue} was made`).toBe(other !== queue)
      }
    }
    expect(createCq(host).fault).toBe('QUEUES_FULL')
    expect(used(host)).toBe(16)
    expect(destroy(host, 9)).toBe('PASS')
    expect(host.zone1(9)).toMatchObject({ valid: 0, state: info.QUEUE_RESET })
    const again = u32(createCq(host).body, mad.CREATE_CQ_QUEUE)
    expect(again).toBe(9)
    expect(host.zone1(9).generation).toBe(2)
  })

  test('a pair needs two numbers: with one left it is refused, and that one stays free', () => {
    const host = hostOf().init(7)
    const cq = host.createCq(16)
    host.createQp(cq, { units: 8 })
    expect(createQp(host, { sendCq: cq }).fault).toBe('QUEUES_FULL')
    expect(used(host)).toBe(6)
    expect(host.zone1(cq).other).toBe(2)
    expect(createCq(host).fault).toBe('PASS')
    expect(used(host)).toBe(7)
  })

  test('every number is given once, whatever was given back before', () => {
    const numbers = createQueueNumbers()
    const random = new Random(7)
    for (const queues of [3, 4, 31, 32, 33, 1023, 1024, 1025, HOST_QUEUES]) {
      resetNumbers(numbers)
      const free = new Set(Array.from({ length: queues - 3 }, (_, i) => i + 3))
      const takeAll = (): void => {
        for (let left = free.size; left > 0; left--) {
          const number = takeNumber(numbers, queues)
          expect(free.delete(number), `${number} of ${queues}`).toBe(true)
        }
        expect(takeNumber(numbers, queues)).toBe(-1)
        expect(numbers.count).toBe(queues)
      }
      takeAll()
      for (let i = 0; i < 100 && queues > 3; i++) {
        const number = 3 + random.below(queues - 3)
        if (free.has(number)) continue
        giveNumber(numbers, number)
        free.add(number)
        expect(isNumberUsed(numbers, number)).toBe(false)
      }
      takeAll()
    }
  })

  test('numbers are found among 65,536, whichever are in use, and not soon given again', () => {
    const host = hostOf(1 << 24).init(HOST_QUEUES)
    const ring = host.allocate(UNIT_BYTES)
    const given: number[] = []
    for (let i = 0; i < 200; i++) {
      given.push(u32(createCq(host, { ring, entries: 1 }).body, mad.CREATE_CQ_QUEUE))
    }
    expect(given).toEqual(Array.from({ length: 200 }, (_, i) => i + 3))
    for (const queue of [50, 3, 202]) expect(destroy(host, queue)).toBe('PASS')
    expect(u32(createCq(host, { ring, entries: 1 }).body, mad.CREATE_CQ_QUEUE)).toBe(203)
  })

  test.each([
    ['0 entries', { entries: 0 }, 'REQUEST'],
    ['1 entry', { entries: 1 }, 'PASS'],
    ['3 entries', { entries: 3 }, 'REQUEST'],
    ['2^31 entries', { entries: 2 ** 31 }, 'REQUEST'],
    ['2^32 - 1 entries', { entries: 2 ** 32 - 1 }, 'REQUEST'],
    ['twice the most entries', { entries: 2 * QUEUE_DEPTH_MAX }, 'REQUEST'],
    ['a ring at half a unit', { ring: 0x80020 }, 'REQUEST'],
    ['a ring at an odd byte', { ring: 0x80001 }, 'REQUEST'],
    ['a ring that ends with memory', { ring: RAM_BYTES - 16 * UNIT_BYTES }, 'PASS'],
    ['a ring that ends behind memory', { ring: RAM_BYTES - 15 * UNIT_BYTES }, 'REQUEST'],
    ['a ring behind memory', { ring: RAM_BYTES }, 'REQUEST'],
    ['a ring at 2^47', { ring: 2 ** 47 }, 'REQUEST'],
    ['a ring at 2^48', { ring: 2 ** 48 }, 'REQUEST'],
    ['a ring at 2^63', { ring: 2 ** 63 }, 'REQUEST'],
    ['the longest moderation', { count: 65535, periodUs: 65535 }, 'PASS'],
  ] as const)('CREATE_CQ with %s: %s', (_, fields, fault) => {
    const host = hostOf(RAM_BYTES).init()
    const before = used(host)
    expect(createCq(host, fields).fault).toBe(fault)
    expect(used(host)).toBe(before + (fault === 'PASS' ? 1 : 0))
  })

  test('the deepest rings are taken', () => {
    const host = hostOf(1 << 24).init()
    const ring = host.allocate(QUEUE_DEPTH_MAX * UNIT_BYTES)
    const made = createCq(host, { ring, entries: QUEUE_DEPTH_MAX })
    expect(made.fault).toBe('PASS')
    const sendRing = host.allocate(QUEUE_DEPTH_MAX * UNIT_BYTES)
    const receiveRing = host.allocate(QUEUE_DEPTH_MAX * UNIT_BYTES)
    const units = { sendUnits: QUEUE_DEPTH_MAX, receiveUnits: QUEUE_DEPTH_MAX }
    const sendCq = u32(made.body, mad.CREATE_CQ_QUEUE)
    expect(createQp(host, { ...units, sendCq, sendRing, receiveRing }).fault).toBe('PASS')
  })

  test('P3-11: no ring touches the header page, the zones or the ring of events', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    for (const [name, at, bytes] of forbidden(host)) {
      const end = Math.ceil((at + bytes) / UNIT_BYTES) * UNIT_BYTES
      for (const ring of [at - UNIT_BYTES, at, end - UNIT_BYTES]) {
        expect(createCq(host, { ring, entries: 2 }).fault, `${name}, CQ`).toBe('REQUEST')
        const two = { sendCq: cq, sendUnits: 2, receiveUnits: 2 }
        expect(createQp(host, { ...two, sendRing: ring }).fault, `${name}, SQ`).toBe('REQUEST')
        expect(createQp(host, { ...two, receiveRing: ring }).fault, `${name}, RQ`).toBe('REQUEST')
      }
    }
  })

  test.each([
    ['send units 0', { sendUnits: 0 }, 'REQUEST'],
    ['send units 6', { sendUnits: 6 }, 'REQUEST'],
    ['send units 2^16', { sendUnits: 2 ** 16, receiveUnits: 2 ** 16 }, 'REQUEST'],
    ['receive units 0', { receiveUnits: 0 }, 'REQUEST'],
    ['receive units 12', { receiveUnits: 12 }, 'REQUEST'],
    ['one unit each', { sendUnits: 1, receiveUnits: 1 }, 'PASS'],
    ['a send ring that is not aligned', { sendRing: 0x80010 }, 'REQUEST'],
    ['a receive ring behind memory', { receiveRing: RAM_BYTES }, 'REQUEST'],
    ['both rings in one place', { sendRing: 0x80000, receiveRing: 0x80000 }, 'REQUEST'],
    ['rings that overlap by a unit', { sendRing: 0x80000, receiveRing: 0x801c0 }, 'REQUEST'],
    ['rings that touch', { sendRing: 0x80000, receiveRing: 0x80200 }, 'PASS'],
    ['no such send CQ', { sendCq: 9 }, 'QUEUE_UNKNOWN'],
    ['no such receive CQ', { receiveCq: 9 }, 'QUEUE_UNKNOWN'],
    ['a CQ beyond K', { sendCq: 16 }, 'QUEUE_UNKNOWN'],
    ['CQ 2^32 - 1', { receiveCq: 2 ** 32 - 1 }, 'QUEUE_UNKNOWN'],
    ['a send queue as CQ', { sendCq: 0 }, 'QUEUE_UNKNOWN'],
    ["management's CQ", { sendCq: page.QUEUE_GSI_COMPLETION }, 'QUEUE_UNKNOWN'],
    ['the type of management', { type: info.TYPE_GSI }, 'REQUEST'],
    ['a type that is none', { type: 4 }, 'REQUEST'],
    ['type 255', { type: 255 }, 'REQUEST'],
    ['the type of the flush agent', { type: info.TYPE_AGENT }, 'PASS'],
    ['the greatest client', { client: 2 ** 53 - 1 }, 'PASS'],
    ['the greatest domain', { domain: 65535 }, 'PASS'],
  ] as const)('CREATE_QP with %s: %s', (_, fields, fault) => {
    const host = hostOf(RAM_BYTES).init()
    const cq = host.createCq(16)
    const before = used(host)
    expect(createQp(host, { sendCq: cq, ...fields }).fault).toBe(fault)
    expect(used(host)).toBe(before + (fault === 'PASS' ? 2 : 0))
    expect(host.zone1(cq).other, 'queues that name the CQ').toBe(fault === 'PASS' ? 2 : 0)
  })

  test('P3-1: the receive queue is at least as deep as the send queue, or there is no pair', () => {
    const host = hostOf().init(64)
    const cq = host.createCq(16)
    for (const sendUnits of [1, 2, 4, 8]) {
      for (const receiveUnits of [1, 2, 4, 8]) {
        const { fault } = createQp(host, { sendCq: cq, sendUnits, receiveUnits })
        expect(fault, `${sendUnits} ${receiveUnits}`).toBe(
          receiveUnits >= sendUnits ? 'PASS' : 'REQUEST',
        )
      }
    }
  })

  test('P3-6: the card writes zones 1 and 2 of the queue in question, never zone 3', () => {
    const host = hostOf().init()
    // What an earlier user of the number left, and what only the host may change.
    for (let queue = 3; queue < host.count; queue++) host.setPointer(queue, 40 + queue, 1234)
    const written = watchZones(host)
    const cq = u32(createCq(host).body, mad.CREATE_CQ_QUEUE)
    expect(written()).toEqual([`1 of ${cq}`, `2 of ${cq}`])
    const pair = createQp(host, { sendCq: cq }).body
    const [send, receive] = [u32(pair, mad.CREATE_QP_SEND), u32(pair, mad.CREATE_QP_RECEIVE)]
    // Of the completion queue zone 1 says how many name it.
    const made = [`1 of ${cq}`, ...[send, receive].flatMap((one) => [`1 of ${one}`, `2 of ${one}`])]
    expect(written()).toEqual(made.sort())
    for (const queue of [cq, send, receive]) {
      expect(host.zone1(queue).pointer, 'it begins empty').toBe(40 + queue)
    }
    expect(destroy(host, send)).toBe('PASS')
    expect(destroy(host, cq)).toBe('PASS')
    expect(written().filter((zone) => !zone.startsWith('1 '))).toEqual([])
  })

  test('P3-7: zone 1 may not be changed, zone 2 disturbs when it is, zone 3 does not', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    const sendRing = host.allocate(8 * UNIT_BYTES)
    const { body } = createQp(host, { sendCq: cq, sendUnits: 8, sendRing, receiveUnits: 16 })
    const send = u32(body, mad.CREATE_QP_SEND)
    host.queues.set(send, { queue: send, ring: sendRing, depth: 8, pointer: 0 })
    const at = (zone: number, bytes: number): number => zone + send * bytes
    const work = (): number[] => {
      host.post(send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
      host.ring(send)
      host.run()
      return host.poll(cq).map(({ unit }) => unit)
    }
    const written = watchZones(host)
    // Zone 3 is all that the host changes for a post: the card needs no word, and writes zone 1.
    expect([work(), work()]).toEqual([[0], [1]])
    expect(written()).toEqual([`1 of ${cq}`, `1 of ${send}`])
    // Zone 1: read pointer and state of the host's making would have units taken twice, or never.
    host.view.setUint32(at(host.zone1At, info.ZONE1_BYTES) + info.Z1_POINTER, 0, true)
    host.bytes[at(host.zone1At, info.ZONE1_BYTES) + info.Z1_STATE] = info.QUEUE_ERROR
    expect(work()).toEqual([2])
    expect(host.zone1(send)).toMatchObject({ pointer: 3, state: info.QUEUE_READY })
    // Zone 2: depth and ring are in force when the card was asked, and not at work.
    const ring = host.allocate(16 * UNIT_BYTES)
    written()
    expect(writeQueue(host, send, zone2Of(ring, 16)).fault).toBe('PASS')
    expect(written()).toEqual([`1 of ${send}`, `2 of ${send}`])
    const depth = at(host.zone2At, info.ZONE2_BYTES) + info.Z2_DEPTH
    expect(host.view.getUint32(depth, true)).toBe(16)
    host.queues.set(send, { queue: send, ring, depth: 16, pointer: 3 })
    host.view.setUint32(depth, 1, true)
    expect([work(), work()]).toEqual([[3], [4]])
    // Zone 3: pointers go on and stay, at any time, and nothing is lost.
    host.setPointer(send)
    expect(work()).toEqual([5])
  })
})

describe('connected pairs: CREATE_QP and MODIFY_QP', () => {
  interface ReadyFields {
    readonly send?: number
    readonly state?: number
    readonly mtu?: number
    readonly peer?: number
    readonly peerPsn?: number
    readonly psn?: number
    readonly depth?: number
    readonly mac?: readonly number[]
    readonly ipv4?: readonly number[]
  }

  const READY = {
    ...{ state: info.QUEUE_READY, mtu: 1024, peer: 0x1234, peerPsn: 5, psn: 6, depth: 16 },
    ...stationOf(3),
  }

  function modify(host: CardHost, send: number, fields: ReadyFields = {}): string {
    const all = { send, ...READY, ...fields }
    return host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
      putU32(body, mad.MODIFY_QP_SEND, all.send)
      body[mad.MODIFY_QP_STATE] = all.state
      putU16(body, mad.MODIFY_QP_MTU, all.mtu)
      putU32(body, mad.MODIFY_QP_PEER, all.peer)
      putU32(body, mad.MODIFY_QP_PEER_PSN, all.peerPsn)
      putU32(body, mad.MODIFY_QP_PSN, all.psn)
      body[mad.MODIFY_QP_DEPTH] = all.depth
      body.set(all.mac, mad.MODIFY_QP_MAC)
      body.set(all.ipv4, mad.MODIFY_QP_IPV4)
    }).fault
  }

  function connected(host: CardHost): { cq: number; send: number; receive: number; qp: number } {
    const cq = host.createCq(16)
    const { send, receive, number } = host.createQp(cq, { type: info.TYPE_CONNECTED, units: 8 })
    return { cq, send, receive, qp: number }
  }

  const states = (host: CardHost, ...queues: number[]): number[] =>
    queues.map((queue) => host.zone1(queue).state)

  test('a pair is made, has a number on the wire, is made ready, ends, and is not there', () => {
    const host = hostOf().init()
    const { send, receive, qp } = connected(host)
    expect(qp).toBeGreaterThan(1)
    expect(host.zone1(send).queuePair).toBe(qp)
    expect(host.zone1(receive).queuePair).toBe(qp)
    expect(states(host, send, receive)).toEqual([info.QUEUE_INIT, info.QUEUE_INIT])
    expect(modify(host, send)).toBe('PASS')
    expect(states(host, send, receive)).toEqual([info.QUEUE_READY, info.QUEUE_READY])
    expect(modify(host, send), 'ready already').toBe('REQUEST')
    expect(modify(host, send, { state: info.QUEUE_ERROR })).toBe('PASS')
    expect(states(host, send, receive)).toEqual([info.QUEUE_ERROR, info.QUEUE_ERROR])
    expect(modify(host, send, { state: info.QUEUE_ERROR }), 'again').toBe('PASS')
    expect(modify(host, send), 'never again').toBe('REQUEST')
    expect(host.events(), 'the host knows').toEqual([])
    expect(destroy(host, send)).toBe('PASS')
    expect(modify(host, send)).toBe('QUEUE_UNKNOWN')
  })

  test.each([
    ['state 0', { state: info.QUEUE_RESET }, 'REQUEST'],
    ['state 1', { state: info.QUEUE_INIT }, 'REQUEST'],
    ['state 4', { state: info.QUEUE_PAUSED }, 'REQUEST'],
    ['state 255', { state: 255 }, 'REQUEST'],
    ['MTU 0', { mtu: 0 }, 'REQUEST'],
    ['MTU 128', { mtu: 128 }, 'REQUEST'],
    ['MTU 256', { mtu: 256 }, 'PASS'],
    ['MTU 1000', { mtu: 1000 }, 'REQUEST'],
    ['MTU 4096', { mtu: 4096 }, 'PASS'],
    ['MTU 8192', { mtu: 8192 }, 'REQUEST'],
    ['peer 0', { peer: 0 }, 'REQUEST'],
    ['peer 1', { peer: 1 }, 'REQUEST'],
    ['peer 2', { peer: 2 }, 'PASS'],
    ['peer 2^24 - 1', { peer: 2 ** 24 - 1 }, 'PASS'],
    ['peer 2^24', { peer: 2 ** 24 }, 'REQUEST'],
    ["the peer's PSN 2^24 - 1", { peerPsn: 2 ** 24 - 1 }, 'PASS'],
    ["the peer's PSN 2^24", { peerPsn: 2 ** 24 }, 'REQUEST'],
    ['PSN 2^24 - 1', { psn: 2 ** 24 - 1 }, 'PASS'],
    ['PSN 2^32 - 1', { psn: 2 ** 32 - 1 }, 'REQUEST'],
    ['READ depth 0', { depth: 0 }, 'REQUEST'],
    ['READ depth 1', { depth: 1 }, 'PASS'],
    ['READ depth 17', { depth: 17 }, 'REQUEST'],
    ['no Ethernet address', { mac: [0, 0, 0, 0, 0, 0] }, 'REQUEST'],
    ['a group of stations', { mac: [1, 0, 0x5e, 0, 0, 1] }, 'REQUEST'],
    ['everybody', { mac: [255, 255, 255, 255, 255, 255] }, 'REQUEST'],
    ['no IPv4 address', { ipv4: [0, 0, 0, 0] }, 'REQUEST'],
    ['a group of IPv4', { ipv4: [224, 0, 0, 1] }, 'REQUEST'],
    ['all of IPv4', { ipv4: [255, 255, 255, 255] }, 'REQUEST'],
    ['the station itself', { ipv4: [127, 0, 0, 1] }, 'REQUEST'],
    ['the last below the groups', { ipv4: [223, 255, 255, 255] }, 'PASS'],
    ['a queue of management', { send: 0 }, 'QUEUE_UNKNOWN'],
    ['a completion queue', { send: 3 }, 'QUEUE_UNKNOWN'],
    ['the receive queue', { send: 5 }, 'QUEUE_UNKNOWN'],
    ['no such queue', { send: 9 }, 'QUEUE_UNKNOWN'],
    ['a queue beyond K', { send: 2 ** 32 - 1 }, 'QUEUE_UNKNOWN'],
  ] as const)('MODIFY_QP with %s: %s', (_, fields, fault) => {
    const host = hostOf().init()
    const { send, receive } = connected(host)
    expect([send, receive]).toEqual([4, 5])
    expect(modify(host, send, fields)).toBe(fault)
    const now = fault === 'PASS' ? info.QUEUE_READY : info.QUEUE_INIT
    expect(states(host, send, receive)).toEqual([now, now])
    if (fault !== 'PASS') expect(modify(host, send), 'nothing has changed').toBe('PASS')
  })

  test('a local pair is ready from the start; the host may end it', () => {
    const host = hostOf().init()
    const { send, receive } = host.createQp(host.createCq(16), { units: 8 })
    expect(modify(host, send)).toBe('REQUEST')
    expect(modify(host, send, { state: info.QUEUE_ERROR })).toBe('PASS')
    expect(states(host, send, receive)).toEqual([info.QUEUE_ERROR, info.QUEUE_ERROR])
  })

  test('the host has 128 numbers on the wire; a pair that ends gives back its own alone', () => {
    const host = hostOf(1 << 22).init(1024)
    const cq = host.createCq(16)
    const units = { type: info.TYPE_CONNECTED, sendUnits: 1, receiveUnits: 1, sendCq: cq }
    const sends: number[] = []
    for (let i = 0; i < 128; i++) {
      const { fault, body } = createQp(host, units)
      expect(fault).toBe('PASS')
      sends.push(u32(body, mad.CREATE_QP_SEND))
    }
    expect(createQp(host, units).fault).toBe('QUEUE_PAIRS_FULL')
    expect(used(host), 'no number is lost').toBe(4 + 256)
    expect(modify(host, sends[7]!, { state: info.QUEUE_ERROR })).toBe('PASS')
    // Its place goes to another pair before the old queues are ended: which one is drawn.
    const place = host.zone1(sends[7]!).queuePair & 255
    let next = u32(createQp(host, units).body, mad.CREATE_QP_SEND)
    while ((host.zone1(next).queuePair & 255) !== place) {
      expect(destroy(host, next)).toBe('PASS')
      next = u32(createQp(host, units).body, mad.CREATE_QP_SEND)
    }
    expect(destroy(host, sends[7]!)).toBe('PASS')
    expect(createQp(host, units).fault, 'the number is not free').toBe('QUEUE_PAIRS_FULL')
    expect(modify(host, next)).toBe('PASS')
    expect(createQp(host, { ...units, type: info.TYPE_LOCAL }).fault).toBe('PASS')
  })
})

describe('DESTROY', () => {
  test('a pair ends with both queues; a CQ that a pair names is busy until then', () => {
    const host = hostOf().init()
    const one = host.createCq(16)
    const other = host.createCq(16)
    const { send, receive } = host.createQp(one, { receiveCompletions: other, units: 8 })
    expect(destroy(host, one)).toBe('QUEUE_BUSY')
    expect(destroy(host, other)).toBe('QUEUE_BUSY')
    expect(destroy(host, receive)).toBe('QUEUE_UNKNOWN')
    expect(destroy(host, send)).toBe('PASS')
    expect(host.zone1(send).valid).toBe(0)
    expect(host.zone1(receive).valid).toBe(0)
    expect(destroy(host, send)).toBe('QUEUE_UNKNOWN')
    expect(destroy(host, one)).toBe('PASS')
    expect(destroy(host, other)).toBe('PASS')
    expect(used(host)).toBe(page.FIRST_QUEUE)
  })

  test('the queues of management, and numbers that are none, cannot be ended', () => {
    const host = hostOf().init()
    for (const queue of [0, 1, 2, 5, host.count, 2 ** 31, 2 ** 32 - 1]) {
      expect(destroy(host, queue), `${queue}`).toBe('QUEUE_UNKNOWN')
    }
  })

  test('a pair stays while the lock of either queue is taken', () => {
    const host = hostOf().init()
    const { send, receive } = host.createQp(host.createCq(16), { units: 8 })
    for (const queue of [send, receive]) {
      const { token } = lock(host, queue)
      expect(destroy(host, send)).toBe('QUEUE_LOCKED')
      expect([host.zone1(send).valid, host.zone1(receive).valid]).toEqual([1, 1])
      expect(release(host, queue, token)).toBe('PASS')
    }
    expect(destroy(host, send)).toBe('PASS')
    expect([host.zone1(send).valid, host.zone1(receive).valid]).toEqual([0, 0])
  })

  test('nothing is taken from a queue that was ended, though it was rung', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    const { send } = host.createQp(cq, { units: 8 })
    host.store(send, new Uint8Array(UNIT_BYTES))
    expect(destroy(host, send)).toBe('PASS')
    host.setPointer(send)
    host.ring(send)
    host.run()
    expect(host.zone1(send)).toMatchObject({ valid: 0, pointer: 0, fault: 'PASS' })
    expect(host.events()).toEqual([
      { type: page.EVENT_QUEUE_ERROR, queue: send, fault: 'DOORBELL' },
    ])
  })
})

describe('REGISTER and DEREGISTER', () => {
  test('ranges are registered, at the edges of memory too, each with a key of its own', () => {
    const host = hostOf(RAM_BYTES).init()
    const keys = new Set<number>()
    for (const [at, length] of [
      [0, 1],
      [0, 4096],
      [RAM_BYTES - 1, 1],
      [host.allocate(100), 100],
      [host.allocate(100), 99],
    ] as const) {
      const { fault, body } = register(host, at, length, 65535)
      expect(fault, `${at} ${length}`).toBe('PASS')
      keys.add(u32(body, mad.REGISTER_LKEY))
    }
    expect(keys.size).toBe(5)
    expect(keys.has(0)).toBe(false)
  })

  test.each([
    ['nothing', 0x80000, 0],
    ['one byte behind memory', RAM_BYTES, 1],
    ['a byte too many', RAM_BYTES - 1, 2],
    ['all of it and one', 0, RAM_BYTES + 1],
    ['2^32 bytes', 0, 2 ** 32],
    ['an address of 2^48', 2 ** 48, 64],
    ['a length of 2^48', 0x80000, 2 ** 48],
    ['a length of 2^63', 0x80000, 2 ** 63],
  ])('%s cannot be registered', (_, at, length) => {
    expect(register(hostOf(RAM_BYTES).init(), at, length).fault).toBe('REQUEST')
  })

  test('P3-11: what the host may not write it cannot have the card write, either', () => {
    const host = hostOf().init()
    for (const [name, at, bytes] of forbidden(host)) {
      for (const [from, length] of [
        [at, 1],
        [at + bytes - 1, 1],
        [at - 1, 2],
        [at + bytes - 1, 2],
        [0, host.bytes.length],
      ] as const) {
        expect(register(host, from, length).fault, name).toBe('REQUEST')
      }
    }
  })

  test('there are so many regions and no more; each one that is taken back makes room', () => {
    const host = hostOf().init()
    const at = host.allocate(4096)
    const keys: number[] = []
    for (let i = 0; i < MEMORY_REGIONS; i++) keys.push(host.register(at, i + 1))
    expect(register(host, at, 64).fault).toBe('REGIONS_OF_HOST_FULL')
    const takeBack = (key: number): string =>
      host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DEREGISTER, (body) => {
        putU32(body, mad.DEREGISTER_LKEY, key)
      }).fault
    expect(takeBack(keys[7]!)).toBe('PASS')
    expect(takeBack(keys[7]!)).toBe('MEMORY_KEY')
    expect(takeBack(0)).toBe('MEMORY_KEY')
    expect(takeBack((keys[8]! ^ 0x100) >>> 0)).toBe('MEMORY_KEY')
    expect(register(host, at, 64).fault).toBe('PASS')
    expect(register(host, at, 64).fault).toBe('REGIONS_OF_HOST_FULL')
  })
})

describe('RING', () => {
  test('so many doorbells and no others; one of no queue is counted and the rest are rung', () => {
    const host = hostOf().init()
    const ring = (count: number, queues: readonly number[]): string =>
      host.manage(mad.METHOD_SET, mad.ATTRIBUTE_RING, (body) => {
        putU32(body, mad.RING_COUNT, count)
        for (const [i, queue] of queues.entries()) {
          putU32(body, mad.RING_FIRST + 8 * i, queue)
        }
      }).fault
    expect(ring(0, [])).toBe('REQUEST')
    expect(ring(mad.RING_MAX + 1, [])).toBe('REQUEST')
    expect(ring(2 ** 32 - 1, [])).toBe('REQUEST')
    expect(host.card.counter('DOORBELL')).toBe(0)
    expect(ring(3, [host.count, 2 ** 32 - 1, 1])).toBe('PASS')
    expect(host.card.counter('DOORBELL')).toBe(2)
    expect(ring(mad.RING_MAX, new Array(mad.RING_MAX).fill(2))).toBe('PASS')
    expect(host.card.counter('DOORBELL')).toBe(2)
  })
})

describe('datagrams that come again', () => {
  test('CREATE_CQ: a repeated call makes one queue and is answered alike, late or at once', () => {
    const host = hostOf().init()
    const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 500, fillCq(host))
    sendCall(host, call)
    sendCall(host, call)
    host.run()
    const [first, again] = takeAnswers(host)
    expect(first).toMatchObject({ fault: 'PASS', transaction: 500 })
    expect(again!.body).toEqual(first!.body)
    // The calls of other transactions in between do not matter.
    for (let i = 0; i < 15; i++) {
      sendCall(host, callOf(mad.ATTRIBUTE_CREATE_CQ, 501 + i, fillCq(host, { entries: 0 })))
      host.run()
      expect(takeAnswers(host)[0]!.fault).toBe('REQUEST')
    }
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)[0]!.body).toEqual(first!.body)
    expect(used(host)).toBe(4)
  })

  test('a refusal is repeated, too: what came between does not turn it round', () => {
    const host = hostOf().init(4)
    const cq = host.createCq(16)
    const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 600, fillCq(host))
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)[0]!.fault).toBe('QUEUES_FULL')
    expect(destroy(host, cq)).toBe('PASS')
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)[0]!.fault).toBe('QUEUES_FULL')
    expect(used(host)).toBe(3)
  })

  test('DESTROY, REGISTER, DEREGISTER: done once, said twice', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    const at = host.allocate(64)
    const twice = (transaction: number, id: number, fill: (body: Uint8Array) => void): string[] => {
      const call = callOf(id, transaction, fill)
      sendCall(host, call)
      sendCall(host, call)
      host.run()
      const [one, other] = takeAnswers(host)
      expect(other!.body).toEqual(one!.body)
      return [one!.fault, other!.fault]
    }
    const done = ['PASS', 'PASS']
    expect(
      twice(700, mad.ATTRIBUTE_DESTROY, (body) => putU32(body, mad.DESTROY_QUEUE, cq)),
    ).toEqual(done)
    let key = 0
    const enroll = (body: Uint8Array): void => {
      putU64(body, mad.REGISTER_ADDRESS, at)
      putU64(body, mad.REGISTER_LENGTH, 64)
    }
    sendCall(host, callOf(mad.ATTRIBUTE_REGISTER, 701, enroll))
    sendCall(host, callOf(mad.ATTRIBUTE_REGISTER, 701, enroll))
    host.run()
    const keys = takeAnswers(host).map(({ body }) => u32(body, mad.REGISTER_LKEY))
    key = keys[0]!
    expect(keys).toEqual([key, key])
    expect(
      twice(702, mad.ATTRIBUTE_DEREGISTER, (body) => putU32(body, mad.DEREGISTER_LKEY, key)),
    ).toEqual(done)
  })

  test('what the network repeats pushes out no answer to the host', () => {
    const host = hostOf().init()
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 800, fillCq(host))
    sendCall(host, call)
    host.run()
    const [first] = takeAnswers(host)
    for (let i = 0; i < 40; i++) host.card.manage(mad.METHOD_SET, mad.ATTRIBUTE_PLACE)
    sendCall(host, call)
    host.run()
    expect(takeAnswers(host)[0]!.body).toEqual(first!.body)
    expect(used(host)).toBe(4)
  })
})

describe('any bytes at all', () => {
  const SEED = Number(process.env.SEED ?? 1)

  test.each([SEED, SEED + 1, SEED + 2, SEED + 3])(
    'every call with any body is answered, and management lives on; SEED=%i',
    (seed) => {
      const random = new Random(seed)
      const host = hostOf(1 << 22).init(64)
      host.ram.guard.protect(4096)
      const cq = host.createCq(16)
      for (let i = 0; i < 4; i++) {
        const type = i < 2 ? info.TYPE_LOCAL : info.TYPE_CONNECTED
        host.createQp(cq, { type, units: 8 })
      }
      const ids = Object.values(HOST_CALLS)
      for (let i = 0; i < 1500; i++) {
        const id = ids[random.below(ids.length)]!
        const { fault } = host.manage(mad.METHOD_SET, id, (body) => {
          for (let at = 0; at < 64; at++) {
            const small = random.below(2) === 0
            if (random.below(3) === 0) body[at] = small ? random.below(12) : random.below(256)
          }
          if (id !== mad.ATTRIBUTE_REGISTER && random.below(4) > 0)
            putU32(body, 0, random.below(20))
          // The rings of management stay where the test has them.
          if (id === mad.ATTRIBUTE_QUEUE_WRITE) putU32(body, 0, 3 + random.below(12))
        })
        expect(fault).not.toBe('HOST_ONLY')
        if (i % 100 === 0) host.events()
      }
      for (const queue of [0, 1, 2]) {
        expect(host.zone1(queue)).toMatchObject({ state: info.QUEUE_READY, fault: 'PASS', lock: 0 })
      }
      const live = Array.from({ length: host.count }, (_, queue) => host.zone1(queue).valid)
      expect(live.filter((valid) => valid === 1)).toHaveLength(used(host))
    },
  )
})

describe('a new epoch', () => {
  test('nothing of the host before is left: queues, keys, locks, answers', () => {
    const host = hostOf().init()
    const cq = host.createCq(16)
    host.createQp(cq)
    const key = host.register(host.allocate(64), 64)
    const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 900, fillCq(host))
    sendCall(host, call)
    host.run()
    const old = takeAnswers(host)[0]!.body
    expect(u32(old, mad.CREATE_CQ_QUEUE)).toBe(6)

    host.init()
    expect(used(host)).toBe(page.FIRST_QUEUE)
    expect(destroy(host, cq)).toBe('QUEUE_UNKNOWN')
    const takeBack = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_DEREGISTER, (body) => {
      putU32(body, mad.DEREGISTER_LKEY, key)
    })
    expect(takeBack.fault).toBe('MEMORY_KEY')
    sendCall(host, call)
    host.run()
    const again = takeAnswers(host)[0]!
    expect(again.fault).toBe('PASS')
    expect(u32(again.body, mad.CREATE_CQ_QUEUE), 'executed, not remembered').toBe(3)
  })

  test.each([1, 2, 2 ** 32 - 1])(
    '%i, of the host before, too: no answer is remembered',
    (epoch) => {
      const host = hostOf()
      host.epoch = epoch - 1
      host.init().createCq(16)
      const call = callOf(mad.ATTRIBUTE_CREATE_CQ, 900, fillCq(host))
      const created = (): number => {
        sendCall(host, call)
        host.run()
        return u32(takeAnswers(host)[0]!.body, mad.CREATE_CQ_QUEUE)
      }
      expect(created()).toBe(4)
      host.setLink(false)
      host.epoch -= 1
      host.init()
      expect(created()).toBe(3)
    },
  )
})
