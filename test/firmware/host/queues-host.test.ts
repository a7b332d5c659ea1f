/**
 * How the card takes a host, refuses one, and loses one (source 3, initialisation; P3-10; H4).
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { HOST_QUEUES, QUEUE_DEPTH_MAX } from '../../../firmware/board/limits.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { ATTRIBUTE_QUEUES, METHOD_GET, QUEUES_EPOCH } from '../../../firmware/wire/management.ts'
import { FIRST, faultsOf, nop, nopHost, wait } from '../../support/queues/nop-queues.ts'
import { hostOf, type QueueHost } from '../../support/queues/queue-host.ts'

const HEADER_AT = 4096

function laidOut(bytes = 1 << 19): QueueHost {
  const host = hostOf(bytes)
  host.layOut(16, 0)
  return host
}

/** The epoch of the host that the card serves, asked over the wire; 0 if it serves none. */
function served(host: QueueHost): number {
  const body = host.card.must(METHOD_GET, ATTRIBUTE_QUEUES)
  return new DataView(body.buffer, body.byteOffset).getUint32(QUEUES_EPOCH)
}

describe('P3-10: taking a host', () => {
  test('the card answers the epoch, and says what the host needs to know of it', () => {
    const host = laidOut()
    host.enable()
    host.run()
    expect(host.header(page.HEADER_EPOCH)).toBe(1)
    expect(host.header(page.HEADER_FAULT)).toBe(0)
    expect(host.header(page.HEADER_PATH_MTU)).toBe(4096)
    const at = HEADER_AT + page.HEADER_MAC
    expect([...host.bytes.slice(at, at + 6)]).toEqual([2, 0, 0, 0, 0, 2])
    expect(served(host)).toBe(1)
  })

  test('the queues of management are there, each with its own triple', () => {
    const host = laidOut()
    host.enable()
    host.run()
    const both = { valid: 1, state: info.QUEUE_READY, type: info.TYPE_GSI, pointer: 0 }
    const [send, receive, completion] = [0, 1, 2].map((queue) => host.queues.get(queue)!)
    expect(host.zone1(0)).toMatchObject({
      ...both,
      kind: info.KIND_SEND,
      completions: 2,
      other: 1,
      address: send!.ring,
    })
    expect(host.zone1(1)).toMatchObject({
      ...both,
      kind: info.KIND_RECEIVE,
      completions: 2,
      other: 0,
      address: receive!.ring,
    })
    expect(host.zone1(2)).toMatchObject({
      ...both,
      kind: info.KIND_COMPLETION,
      address: completion!.ring,
    })
    for (const queue of [0, 1, 2]) {
      const at = host.zone2At + queue * info.ZONE2_BYTES
      expect(host.get64(at)).toBe(host.queues.get(queue)!.ring)
      expect(host.view.getUint32(at + info.Z2_DEPTH, true)).toBe(host.queues.get(queue)!.depth)
    }
  })

  test('no queue is valid by accident: what lay in zone 1 before is cleared', () => {
    for (const count of [3, 16, 63, 64, 65, 5000, HOST_QUEUES]) {
      const host = hostOf(1 << 24)
      host.layOut(count, 0)
      const end = host.zone1At + count * info.ZONE1_BYTES
      const behind = host.bytes.slice(end, host.zone2At)
      host.bytes.fill(0xff, host.zone1At, end)
      host.enable()
      host.run()
      expect(host.header(page.HEADER_EPOCH)).toBe(1)
      const rest = host.bytes.subarray(host.zone1At + FIRST * info.ZONE1_BYTES, end)
      expect(rest.every((byte) => byte === 0)).toBe(true)
      expect(Buffer.compare(host.bytes.subarray(end, host.zone2At), behind)).toBe(0)
    }
  })

  test('the work of one call is bounded, and the epoch is not answered before it is over', () => {
    const host = hostOf(1 << 24)
    host.layOut(HOST_QUEUES, 0)
    host.enable()
    let calls = 0
    const writes = (): number => host.ram.link.counts.bytesWritten
    let before = writes()
    host.card.serve()
    while (host.header(page.HEADER_EPOCH) === 0) {
      expect(writes() - before).toBeLessThanOrEqual(1 << 18)
      before = writes()
      expect(host.card.waitUs).toBe(1)
      host.card.idle()
      calls += 1
    }
    expect(calls).toBe(15)
  })

  test('another epoch begins again: no queue and no pointer of the old one is left', () => {
    const { host, cqs, sqs } = nopHost()
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.enable()
    host.run()
    expect(served(host)).toBe(2)
    expect(host.zone1(sqs[0]!)).toMatchObject({ valid: 0, state: 0, pointer: 0 })
    expect(host.zone1(cqs[0]!)).toMatchObject({ valid: 0 })
    expect(host.poll(cqs[0]!).length).toBeLessThanOrEqual(1)
  })
})

describe('a header page that is refused', () => {
  const put64 = (host: QueueHost, at: number, value: number): void =>
    host.put64(HEADER_AT + at, value)

  const inAnother = (host: QueueHost, at: number): number =>
    at === page.HEADER_ZONE1 ? host.zone3At : host.zone1At

  const wrong: [string, (host: QueueHost) => void][] = [
    ['magic', (host) => host.putHeader(0, 1)],
    ['version', (host) => host.putHeader(4, 2)],
    ['no queues', (host) => host.putHeader(page.HEADER_QUEUES, 0)],
    ['two queues', (host) => host.putHeader(page.HEADER_QUEUES, 2)],
    ['too many queues', (host) => host.putHeader(page.HEADER_QUEUES, HOST_QUEUES + 1)],
    ['2^32 - 1 queues', (host) => host.putHeader(page.HEADER_QUEUES, 2 ** 32 - 1)],
    ['more queues than lie there', (host) => host.putHeader(page.HEADER_QUEUES, 2000)],
    ['R1', (host) => host.putHeader(page.HEADER_R1, 32)],
    ['R2', (host) => host.putHeader(page.HEADER_R2, 64)],
    ['R3', (host) => host.putHeader(page.HEADER_R3, 0)],
    ['order', (host) => host.putHeader(page.HEADER_POINTER_ORDER, 2)],
    ...[
      page.HEADER_SEND_UNITS,
      page.HEADER_RECEIVE_UNITS,
      page.HEADER_COMPLETIONS,
      page.HEADER_EVENTS,
    ].flatMap((at): [string, (host: QueueHost) => void][] =>
      [0, 3, 48, 2 * QUEUE_DEPTH_MAX, 2 ** 31, 2 ** 32 - 1].map((depth) => [
        `depth ${depth} at ${at}`,
        (host) => host.putHeader(at, depth),
      ]),
    ),
    ['one event', (host) => host.putHeader(page.HEADER_EVENTS, 1)],
    ...[
      page.HEADER_ZONE1,
      page.HEADER_ZONE2,
      page.HEADER_ZONE3,
      page.HEADER_SEND_RING,
      page.HEADER_RECEIVE_RING,
      page.HEADER_COMPLETION_RING,
      page.HEADER_EVENT_RING,
    ].flatMap((at): [string, (host: QueueHost) => void][] => [
      [`address at ${at} not on a line`, (host) => put64(host, at, host.get64(HEADER_AT + at) + 8)],
      [`address at ${at} in the page`, (host) => put64(host, at, HEADER_AT + 4096 - 64)],
      [`address at ${at} in a zone`, (host) => put64(host, at, inAnother(host, at) + 64)],
      [`address at ${at} at the end`, (host) => put64(host, at, host.bytes.length - 64)],
      [`address at ${at} beyond`, (host) => put64(host, at, 2 ** 48)],
      [
        `address at ${at} is the largest`,
        (host) => host.bytes.fill(0xff, HEADER_AT + at, HEADER_AT + at + 8),
      ],
      [
        `address at ${at} is the largest line`,
        (host) => {
          host.putHeader(at, 0xffffffc0)
          host.putHeader(at + 4, 0xffffffff)
        },
      ],
    ]),
  ]

  test('every field out of its range is counted, told, and changes nothing', () => {
    for (const [name, spoil] of wrong) {
      const host = laidOut()
      spoil(host)
      const before = host.bytes.slice()
      host.enable()
      host.run()
      const fault = FAULTS[host.header(page.HEADER_FAULT)]!.name
      expect([name, fault, host.header(page.HEADER_EPOCH)]).toEqual([name, 'HEADER_PAGE', 0])
      expect(faultsOf(host, 'HEADER_PAGE')).toBe(1)
      expect(host.header(page.HEADER_INTERRUPTS)).toBe(1)
      before.fill(0, HEADER_AT + page.HEADER_CARD, HEADER_AT + page.HEADER_CARD + 64)
      const after = host.bytes.slice()
      after.fill(0, HEADER_AT + page.HEADER_CARD, HEADER_AT + page.HEADER_CARD + 64)
      expect(Buffer.compare(after, before)).toBe(0)
      // It is looked at once; a new epoch looks again.
      host.run()
      expect(faultsOf(host, 'HEADER_PAGE')).toBe(1)
    }
  })

  test('a page outside of memory is counted', () => {
    for (const number of [2 ** 32 - 1, (1 << 19) / 4096, 2 ** 31]) {
      const host = laidOut()
      host.port.setUint32(hal.PORT_LINK, 1, true)
      host.port.setUint32(hal.PORT_HEADER, number, true)
      host.port.setUint32(hal.PORT_EPOCH, 5, true)
      host.run()
      expect(faultsOf(host, 'HEADER_PAGE')).toBe(1)
      expect(served(host)).toBe(0)
    }
  })

  test('a page that cannot be read', () => {
    const host = laidOut()
    host.ram.link.script = ({ kind }) => (kind === 'read' ? 'unsupported' : undefined)
    host.enable()
    host.run()
    expect(FAULTS[host.header(page.HEADER_FAULT)]!.name).toBe('DMA')
    expect(served(host)).toBe(0)
    host.ram.link.script = null
    host.enable()
    host.run()
    expect(served(host)).toBe(2)
  })

  test('a refused page after a good one: the good one is gone', () => {
    const { host, cqs, sqs } = nopHost()
    host.putHeader(0, 0)
    host.enable()
    host.run()
    expect(served(host)).toBe(0)
    host.post(sqs[0]!, nop())
    host.ring(sqs[0]!)
    host.run()
    expect(host.poll(cqs[0]!)).toEqual([])
  })
})

describe('H4: a host that is gone', () => {
  test('surprise removal before every access of a pass: it is dropped, and comes back', () => {
    let accesses = 1
    for (let at = 0; at < accesses; at++) {
      const { host, cqs, sqs } = nopHost({ sendQueues: 3 })
      for (const queue of sqs) {
        for (let i = 0; i < 3; i++) host.post(queue, nop(2))
        host.ring(queue)
      }
      host.arm(cqs[0]!)
      host.ring(cqs[0]!)
      let seen = 0
      host.ram.link.script = () => {
        seen += 1
        if (seen - 1 === at) host.setLink(false)
        return seen > at ? 'removal' : undefined
      }
      host.run()
      if (seen <= at) break
      accesses = Math.max(accesses, at + 2)
      for (let i = 0; i < 5; i++) wait(host, 100)
      host.run()
      expect([at, served(host), host.card.waitUs]).toEqual([at, 0, host.card.waitUs])
      host.ram.link.script = null
      host.ram.link.restore()
      host.enable()
      host.run()
      expect([at, served(host)]).toEqual([at, 2])
    }
    expect(accesses).toBeGreaterThan(15)
  })

  test('removal while zone 1 is being cleared', () => {
    const host = hostOf(1 << 24)
    host.layOut(HOST_QUEUES, 0)
    host.enable()
    for (let i = 0; i < 5; i++) host.card.idle()
    host.setLink(false)
    host.run()
    expect(served(host)).toBe(0)
    host.enable()
    host.run()
    expect(served(host)).toBe(2)
  })

  test.each(['frames', 'nothing'])(
    'another host by the epoch of the one before, where %s come in between',
    (between) => {
      const { host } = nopHost()
      host.setLink(false)
      host.epoch -= 1
      host.putHeader(page.HEADER_EPOCH, 0)
      host.enable()
      if (between === 'frames') host.card.serve(new Uint8Array(64))
      host.run()
      expect(host.header(page.HEADER_EPOCH)).toBe(host.epoch)
      expect([1, 2, 3].map((queue) => host.zone1(queue + FIRST).valid)).toEqual([0, 0, 0])
    },
  )

  test('epoch 0: the host gives its queues up', () => {
    const { host } = nopHost()
    host.port.setUint32(hal.PORT_EPOCH, 0, true)
    host.run()
    expect(served(host)).toBe(0)
    expect(host.header(page.HEADER_EPOCH)).toBe(1)
  })
})

describe('a read that fails', () => {
  test('at every read of a pass in turn: the error of its queue alone, and never an end', () => {
    const outcomes = new Set<string>()
    for (const cached of [false, true]) {
      for (let at = 0; ; at++) {
        const { host, cqs, sqs } = nopHost({ sendQueues: 3, completionQueues: 3, depth: 4 })
        const round = (): void => {
          for (const queue of sqs) {
            for (let i = 0; i < 3; i++) host.post(queue, nop())
            host.ring(queue)
          }
          host.run()
        }
        if (cached) round()
        for (const cq of cqs) host.poll(cq)
        let reads = 0
        let failed = -1
        host.ram.link.script = ({ kind, at: offset }) => {
          if (kind === 'write') return undefined
          reads += 1
          if (reads - 1 !== at) return undefined
          failed = offset
          return 'poisoned'
        }
        round()
        if (failed < 0) break
        const events = host.events()
        const hit = events.filter(({ fault }) => fault === 'DMA').map(({ queue }) => queue)
        outcomes.add(`${events.length} events`)
        // A completion queue takes the queue with it that wanted to complete into it.
        expect([at, hit.length >= 1 && hit.length <= 2]).toEqual([at, true])
        const others = sqs.filter((queue) => host.zone1(queue).state === info.QUEUE_READY)
        expect(others.length).toBe(2)
        for (const queue of others) {
          const cqes = host.poll(cqs[sqs.indexOf(queue)]!)
          expect(cqes.map((cqe) => cqe.status)).toEqual([0, 0, 0])
        }
      }
    }
    expect([...outcomes].sort()).toEqual(['1 events', '2 events'])
  })

  test('of what the host says of its events: the host is not served any more', () => {
    const { host } = nopHost()
    for (let i = 0; i < 600; i++) {
      host.ring(15)
      host.run()
    }
    host.ram.link.script = ({ at }) =>
      at === HEADER_AT + page.HEADER_EVENTS_TAKEN ? 'timeout' : undefined
    host.ring(15)
    host.run()
    expect(served(host)).toBe(0)
    expect(FAULTS[host.header(page.HEADER_FAULT)]!.name).toBe('DMA')
    expect(host.header(page.HEADER_EPOCH)).toBe(0)
  })
})
