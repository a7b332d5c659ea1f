/**
 * Control calls for queues whose host does not answer: every read of queue information, of every
 * call, fails once; and what a call meets that finds a queue in a state of another's making (H4,
 * H5; P3-1, P3-4, P3-8).
 */

import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { AccessFault } from '../../../boards/emulator/host/pcie.ts'
import { SIGNALED, WQE_NOP } from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { WRITE } from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  type CardHost,
  createCq,
  createQp,
  destroy,
  hostOf,
  lock,
  release,
  stationOf,
  storeZone2,
  writeQueue,
  zone2Of,
} from '../../support/queues/queue-calls.ts'
import { elementOf } from '../../support/queues/queue-host.ts'

interface Made {
  readonly host: CardHost
  readonly cq: number
  readonly other: number
  readonly send: number
  readonly receive: number
}

/** A connected pair with a completion queue for each of its queues. */
function made(type: number = info.TYPE_CONNECTED): Made {
  const host = hostOf().init()
  const cq = host.createCq(16)
  const other = host.createCq(16)
  const { send, receive } = host.createQp(cq, { type, units: 8, receiveCompletions: other })
  return { host, cq, other, send, receive }
}

function modify({ host, send }: Made, state: number): string {
  return host.manage(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, (body) => {
    putU32(body, mad.MODIFY_QP_SEND, send)
    body[mad.MODIFY_QP_STATE] = state
    putU16(body, mad.MODIFY_QP_MTU, 1024)
    putU32(body, mad.MODIFY_QP_PEER, 0x1234)
    body[mad.MODIFY_QP_DEPTH] = 16
    body.set(stationOf(3).mac, mad.MODIFY_QP_MAC)
    body.set(stationOf(3).ipv4, mad.MODIFY_QP_IPV4)
  }).fault
}

function look({ host, send }: Made): string {
  return host.manage(mad.METHOD_GET, mad.ATTRIBUTE_QUEUE, undefined, send).fault
}

/** Is that address in a zone of a queue that is not one of management? */
function inZones({ zone1At, zone2At, zone3At, count }: CardHost, at: number): boolean {
  return [
    [zone1At, info.ZONE1_BYTES],
    [zone2At, info.ZONE2_BYTES],
    [zone3At, info.ZONE3_BYTES],
  ].some(([zone, bytes]) => {
    return at >= zone! + page.FIRST_QUEUE * bytes! && at < zone! + count * bytes!
  })
}

/** Lets the `k`-th read of queue information fail, from 0; true once it has. */
function failRead(host: CardHost, k: number, how: AccessFault): () => boolean {
  let reads = 0
  host.ram.link.script = ({ kind, at }) => {
    if (kind !== 'read' || !inZones(host, at)) return undefined
    reads += 1
    return reads === k + 1 ? how : undefined
  }
  return () => {
    host.ram.link.script = null
    return reads > k
  }
}

/** Zones 1 and 2 of every queue but those of management: what the card may have changed. */
function zonesOf({ zone1At, zone2At, count, bytes }: CardHost): string {
  const zone1 = bytes.slice(
    zone1At + page.FIRST_QUEUE * info.ZONE1_BYTES,
    zone1At + count * info.ZONE1_BYTES,
  )
  const zone2 = bytes.slice(
    zone2At + page.FIRST_QUEUE * info.ZONE2_BYTES,
    zone2At + count * info.ZONE2_BYTES,
  )
  return createHash('sha1').update(zone1).update(zone2).digest('hex')
}

const CALLS: readonly (readonly [string, (one: Made) => string, number])[] = [
  ['CREATE_CQ', ({ host }) => createCq(host).fault, 2],
  [
    'CREATE_QP',
    ({ host, cq, other }) => createQp(host, { sendCq: cq, receiveCq: other }).fault,
    10,
  ],
  ['MODIFY_QP to ready', (one) => modify(one, info.QUEUE_READY), 4],
  ['MODIFY_QP to error', (one) => modify(one, info.QUEUE_ERROR), 4],
  ['DESTROY of a pair', ({ host, send }) => destroy(host, send), 8],
  ['QUEUE_LOCK', ({ host, send }) => lock(host, send).fault, 2],
  ['QUEUE', look, 2],
  [
    'QUEUE_WRITE',
    ({ host, send }) => writeQueue(host, send, zone2Of(host.queues.get(send)!.ring, 8)).fault,
    4,
  ],
]

describe('H4, H5: a read of queue information that fails', () => {
  test.each(CALLS)(
    '%s: refused at each of its reads, and nothing has changed',
    (_, call, least) => {
      for (const how of ['unsupported', 'poisoned', 'timeout'] as const) {
        let k = 0
        for (; ; k++) {
          const one = made()
          const before = zonesOf(one.host)
          const failed = failRead(one.host, k, how)
          const fault = call(one)
          // The card reads on behind a call that has been answered.
          if (!failed() || fault === 'PASS') break
          expect([k, fault]).toEqual([k, 'DMA'])
          expect(zonesOf(one.host), `read ${k}`).toBe(before)
          expect(call(one), `read ${k}, then again`).toBe('PASS')
        }
        expect(k).toBeGreaterThanOrEqual(least)
      }
    },
  )

  test('DESTROY of a completion queue: refused, and it is there', () => {
    for (let k = 0; ; k++) {
      const { host, cq, other, send } = made(info.TYPE_LOCAL)
      expect(destroy(host, send)).toBe('PASS')
      const failed = failRead(host, k, 'timeout')
      const fault = destroy(host, cq)
      if (!failed()) {
        expect(k).toBeGreaterThanOrEqual(4)
        return
      }
      expect([k, fault]).toEqual([k, 'DMA'])
      expect(destroy(host, cq)).toBe('PASS')
      expect(destroy(host, other)).toBe('PASS')
    }
  })

  test('QUEUE_RELEASE: what the host may have changed is unknown: the queue is in error', () => {
    const seen = new Set<string>()
    for (let k = 0; ; k++) {
      const { host, send } = made(info.TYPE_LOCAL)
      const { token } = lock(host, send)
      const failed = failRead(host, k, 'unsupported')
      const fault = release(host, send, token)
      if (!failed() || fault === 'PASS') break
      expect([k, fault]).toEqual([k, 'DMA'])
      const { state, lock: held } = host.zone1(send)
      seen.add(held === 0 ? `state ${state}` : 'locked still')
    }
    expect(seen).toEqual(new Set(['locked still', `state ${info.QUEUE_ERROR}`]))
  })
})

describe('queues that others have brought where they are', () => {
  test('P3-8: a completion queue whose zone 2 was spoilt under the lock is none for a pair', () => {
    const { host, cq } = made()
    const { token } = lock(host, cq)
    storeZone2(host, cq, zone2Of(1, 16))
    expect(release(host, cq, token)).toBe('QUEUE_CONTEXT')
    expect(host.zone1(cq).state).toBe(info.QUEUE_ERROR)
    expect(createQp(host, { sendCq: cq }).fault).toBe('QUEUE_UNKNOWN')
  })

  test('P3-9: a queue that fails while it is locked is released as it is, in error', () => {
    const { host, send } = made(info.TYPE_LOCAL)
    host.run()
    const { token, fault } = lock(host, send)
    expect(fault).toBe('PASS')
    host.setPointer(send, 9)
    host.ring(send)
    host.run()
    expect(host.zone1(send).state).toBe(info.QUEUE_ERROR)
    expect(release(host, send, token)).toBe('PASS')
    expect(host.zone1(send)).toMatchObject({ state: info.QUEUE_ERROR, lock: 0 })
  })

  test('with no number left a pair is refused, and takes none', () => {
    const host = hostOf().init(8)
    const cq = host.createCq(16)
    for (let i = page.FIRST_QUEUE + 1; i < 8; i++) expect(createCq(host).fault).toBe('PASS')
    expect(createQp(host, { sendCq: cq }).fault).toBe('QUEUES_FULL')
    expect(createCq(host).fault).toBe('QUEUES_FULL')
    expect(u32(host.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES), mad.QUEUES_USED)).toBe(8)
  })

  test('a completion queue whose interrupt is delayed tells at once when it ends', () => {
    const host = hostOf().init()
    const cq = host.createCq(16, 10, 60_000)
    const { send } = host.createQp(cq, { units: 8 })
    host.post(send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
    host.ring(send)
    host.run()
    expect(host.poll(cq)).toHaveLength(1)
    host.post(send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
    host.ring(send)
    host.run()
    expect(destroy(host, send)).toBe('PASS')
    expect(destroy(host, cq)).toBe('PASS')
    expect(destroy(host, cq)).toBe('QUEUE_UNKNOWN')
  })

  test('P3-4: a promised completion keeps its queue, whatever the host made of its users', () => {
    const one = made()
    const { host, cq, send } = one
    // The host's own fault: the completion queue counts no users any more.
    host.view.setUint32(host.zone1At + cq * info.ZONE1_BYTES + info.Z1_USERS, 0, true)
    expect(modify(one, info.QUEUE_READY)).toBe('PASS')
    host.post(send, elementOf({ opcode: WRITE, flags: SIGNALED, inline: new Uint8Array(8) }))
    host.ring(send)
    host.run()
    expect(destroy(host, cq)).toBe('QUEUE_BUSY')
    const lock = host.manage(mad.METHOD_SET, mad.ATTRIBUTE_QUEUE_LOCK, (body) => {
      putU32(body, mad.QUEUE_LOCK_QUEUE, cq)
    })
    expect(lock.fault, 'nor may it be stopped').toBe('QUEUE_BUSY')
    expect(destroy(host, send), 'what is under way is flushed').toBe('PASS')
    expect(host.poll(cq)).toHaveLength(1)
    expect(destroy(host, cq)).toBe('QUEUE_BUSY')
  })
})
