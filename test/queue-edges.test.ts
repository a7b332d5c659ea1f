/**
 * Elements of connected queues at their bounds, and queues that name a connection that is not
 * there (H2, H3; P3-2).
 */

import { describe, expect, test } from 'vitest'
import * as el from '../firmware/host/element.ts'
import * as info from '../firmware/host/queue-info.ts'
import * as kind from '../firmware/transport/requester.ts'
import { u32 } from '../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../firmware/wire/management.ts'
import { dataOf } from './support/card.ts'
import { FIRST, nopHost } from './support/nop-queues.ts'
import { elementOf, u64 } from './support/queue-host.ts'
import { type End, TwoCards, toCard } from './support/two-cards.ts'

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

  test('P5-17: what is associated may be longer than any message', () => {
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

  test('P3-3: a scattered request may have ranges of no bytes', () => {
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
