/**
 * A relay whose link comes, goes, or is never what it should be: two cards and the wire between
 * them by hand, so that either end may stop at any frame (X-1, X-7, D-6).
 */

import { expect, test } from 'vitest'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { STAGING_BUFFERS } from '../../../firmware/board/limits.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK, RC_READ_RESPONSE_ONLY } from '../../../firmware/wire/opcode.ts'
import { attaching, RelayWire, related } from '../../support/cards/relay-wire.ts'
import {
  callOf,
  dataOf,
  type PersistOptions,
  persistFrames,
} from '../../support/cards/test-card.ts'
import { takeAllPlaces } from '../../support/peers/strangers.ts'
import { madFrame, publish } from '../../support/wire/cm.ts'
import { flushFrame, sendFrames, writeFrames } from '../../support/wire/requests.ts'

const ICRC_BYTES = 4
/** The end of a REP, in which it says who it is. */
const PRIVATE_BYTES = 196

/** Records that were said to be durable. */
function acks(wire: RelayWire): number {
  return wire.heard.filter(({ opcode, paeth }) => opcode === PERSIST_ACK && paeth!.status === 0)
    .length
}

test('X-1: a record goes on, and its PERSIST_ACK comes back only where it is wished for', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  const persist = (options: PersistOptions): void => {
    wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1), options))
    wire.pass(100)
  }
  persist({})
  expect(acks(wire)).toBe(1)
  persist({ wantsAck: false })
  expect(acks(wire)).toBe(1)
  const far = wire.b.open('far')
  expect(wire.b.read(wire.b.connect(4096), far, 1, 0, 100)).toEqual(dataOf(100, 1))
})

test('X-7: a region of bytes cannot be relayed, nor one of a peer that is no DPU of ours', () => {
  const wire = related()
  wire.b.provision({ name: 'plain', kind: mad.KIND_BYTES, length: 4096 })
  expect(publish(wire.b, { name: 'plain', form: mad.FORM_LIBRPMA }).fault).toBe('PASS')
  expect(wire.attach()).toBe('ATTACH_FAILED')
  expect(publish(wire.b, { name: 'far', form: mad.FORM_CAPABILITY }).fault).toBe('PASS')
  // Without the private data of a REP: who says nothing of itself is not asked to persist.
  wire.spoil = (frame) => {
    const other = frame.slice()
    if (frame.length > mad.MAD_BYTES) other.fill(0, frame.length - PRIVATE_BYTES - ICRC_BYTES)
    fillIcrc(other, 0, other.length)
    return other
  }
  expect(wire.attach()).toBe('ATTACH_FAILED')
  wire.spoil = (frame) => frame
  expect(wire.attach()).toBe('PASS')
})

test('X-7: a peer that offers no such service is not attached to', () => {
  expect(new RelayWire().attach()).toBe('ATTACH_FAILED')
})

/** Cuts the link under a record of that client, for longer than every retry of the requester. */
function endLink(wire: RelayWire, { qp, rkey }: ReturnType<RelayWire['open']>): void {
  wire.isCut = true
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  for (let s = 0; s < 40; s++) wire.pass(500_000)
}

test('a relay whose queue pair has failed is made again when it is asked for again', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  endLink(wire, wire.open())
  wire.isCut = false
  let fault = 'CONNECTING'
  for (let i = 0; i < 20 && fault !== 'PASS'; i++) fault = wire.attach()
  expect(fault).toBe('PASS')
  const again = wire.open()
  wire.serve(...persistFrames(again.qp, again, 2, dataOf(100, 2)))
  wire.pass(100)
  expect(acks(wire)).toBe(1)
})

test('X-7: what names no relay, or finds no queue pair, is refused and takes no place', () => {
  const wire = related()
  expect(wire.attach('')).toBe('REQUEST')
  expect(wire.attach('far', 0)).toBe('REQUEST')
  const region = wire.a.provision({ name: 'own' })
  takeAllPlaces(wire.a, ({ peer, qp }) => {
    peer.serve(...persistFrames(qp, region, 0, dataOf(8, 1)))
  })
  expect(wire.attach()).toBe('REGIONS_FULL')
})

test('X-1: behind a link that is over, a record ends its connection and is not durable', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const first = wire.open()
  endLink(wire, first)
  const second = wire.a.connect(4096, 0, 7)
  const before = wire.heard.length
  wire.serve(...persistFrames(second, first, 2, dataOf(100, 2)))
  expect(wire.heard.slice(before).map(({ opcode }) => opcode)).not.toContain(PERSIST_ACK)
  expect(wire.a.counter('NOT_DURABLE')).toBeGreaterThan(0)
})

test('X-1: a message that loses its relay while it comes is not durable', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open(256)
  const data = dataOf(700, 3)
  wire.serve(...persistFrames(qp, { rkey }, 3, data))
  wire.pass(100)
  expect(acks(wire)).toBe(1)
  const frames = persistFrames(qp, { rkey }, 4, data)
  expect(frames).toHaveLength(3)
  wire.serve(frames[0]!, frames[1]!)
  const name = (body: Uint8Array): void => body.set(new TextEncoder().encode('far'))
  const detach = callOf(99, mad.METHOD_SET, mad.ATTRIBUTE_DETACH, name, 0)
  wire.serve(madFrame(detach))
  wire.serve(frames[2]!)
  expect(acks(wire), 'nothing is durable').toBe(1)
  const far = wire.b.open('far')
  const there = wire.b.read(wire.b.connect(4096), far, 4, 0, 700)
  expect(there === null || !Buffer.from(there).equals(Buffer.from(data))).toBe(true)
})

test('with every buffer taken a record draws an RNR NAK, and passes with one free', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { rkey } = wire.open()
  wire.isCut = true
  const pairs = Array.from({ length: STAGING_BUFFERS + 1 }, () => wire.a.connect(256, 0, 7))
  const frames = pairs.map((qp, i) => persistFrames(qp, { rkey }, i, dataOf(200, i))[0]!)
  wire.serve(...frames)
  const rnr = wire.heard.filter(({ syndrome }) => syndrome >> 5 === 1)
  expect(rnr.map(({ packet }) => packet.destQp)).toEqual([pairs.at(-1)!.peer])
  wire.isCut = false
  for (let i = 0; i < 20; i++) wire.pass(100_000)
  expect(acks(wire)).toBe(STAGING_BUFFERS)
  wire.serve(frames.at(-1)!)
  wire.pass(100)
  expect(acks(wire)).toBe(STAGING_BUFFERS + 1)
})

test('D-6: a relay takes no records of another client than its own', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { rkey } = wire.open()
  wire.serve(...persistFrames(wire.a.connect(4096, 0, 8), { rkey }, 1, dataOf(100, 1)))
  wire.pass(100)
  expect(acks(wire)).toBe(0)
  expect(wire.heard.some(({ paeth, syndrome }) => paeth?.status !== 0 || syndrome === 0x62)).toBe(
    true,
  )
  expect(wire.a.counter('RIGHTS')).toBe(1)
  const far = wire.b.open('far')
  expect(wire.b.read(wire.b.connect(4096), far, 1, 0, 100)).not.toEqual(dataOf(100, 1))
})

test('a SEND that is to be confirmed waits for the record that is on its way', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  wire.isCut = true
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  const send = sendFrames(qp, dataOf(8, 1), { solicited: true })
  wire.serve(...send)
  const rnr = wire.heard.filter(({ syndrome }) => syndrome >> 5 === 1)
  expect(rnr).toHaveLength(1)
  wire.isCut = false
  for (let i = 0; i < 20; i++) wire.pass(100_000)
  expect(acks(wire)).toBe(1)
  const before = wire.heard.length
  wire.serve(...send)
  const answers = wire.heard.slice(before)
  expect(answers.some(({ syndrome }) => syndrome >> 5 === 1)).toBe(false)
  expect(answers.some(({ payload }) => Buffer.from(payload).equals(dataOf(8, 1)))).toBe(true)
})

test('X-1: a FLUSH waits for the record that is on its way, and that of another does not', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const own = wire.a.provision({ name: 'own' })
  const { qp, rkey } = wire.open()
  const other = wire.a.connect(4096, 0, 7)
  wire.isCut = true
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  /** What is said to a FLUSH. */
  const told = (frame: Uint8Array): string[] => {
    const before = wire.heard.length
    wire.serve(frame)
    return wire.heard.slice(before).map(({ opcode, syndrome }) => {
      return opcode === RC_READ_RESPONSE_ONLY ? 'done' : `${syndrome >> 5}`
    })
  }
  const flush = flushFrame(qp, own)
  expect(told(flush)).toEqual(['1'])
  expect(told(flushFrame(other, own))).toEqual(['done'])
  expect(told(flushFrame(qp, own, { psn: qp.psn - 1, placement: 1 }))).toEqual(['done'])
  wire.isCut = false
  for (let i = 0; i < 20; i++) wire.pass(100_000)
  expect(acks(wire)).toBe(1)
  expect(told(flushFrame(qp, own))).toEqual(['done'])
})

test('X-1: what is told of one record waits for no message whose buffer is an earlier one', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  const slow = wire.a.connect(256, 0, 7)
  const [first, last] = persistFrames(slow, { rkey }, 2, dataOf(400, 2))
  wire.serve(first!)
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  wire.pass(100)
  expect(acks(wire)).toBe(1)
  wire.serve(last!)
  wire.pass(100)
  expect(acks(wire)).toBe(2)
  const far = wire.b.open('far')
  expect(wire.b.read(wire.b.connect(4096), far, 2, 0, 400)).toEqual(dataOf(400, 2))
})

test('X-1: a host that ended meanwhile hears nothing of its record, whose buffer is free', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  wire.isCut = true
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  wire.serve(...writeFrames(qp, rkey + 1, 0, dataOf(8, 1)))
  const before = wire.heard.length
  wire.isCut = false
  for (let i = 0; i < 20; i++) wire.pass(100_000)
  expect(wire.heard.slice(before)).toEqual([])
  const far = wire.b.open('far')
  expect(wire.b.read(wire.b.connect(4096), far, 1, 0, 100)).toEqual(dataOf(100, 1))
  const others = Array.from({ length: STAGING_BUFFERS }, () => wire.a.connect(256, 0, 7))
  wire.serve(...others.flatMap((one, i) => persistFrames(one, { rkey }, i, dataOf(200, i))))
  wire.pass(100)
  expect(acks(wire), 'every buffer is free').toBe(STAGING_BUFFERS)
})

test('who asks for a relay at once when its queue pair has failed gets it made again', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  wire.isCut = true
  wire.serve(...persistFrames(qp, { rkey }, 1, dataOf(100, 1)))
  for (let i = 0; i < 2000 && wire.a.counter('NOT_DURABLE') === 0; i++) wire.pass(10_000)
  expect(wire.a.counter('NOT_DURABLE')).toBe(1)
  wire.isCut = false
  // In this very instant: nothing has looked at the link since.
  wire.serve(madFrame(callOf(99, mad.METHOD_SET, mad.ATTRIBUTE_ATTACH, attaching(), 0)))
  const header = mad.blankMad()
  mad.readMad(header, wire.heard.at(-1)!.payload, 0)
  expect(FAULTS[header.fault]!.name, 'what was sent may still be under way').toBe('CONNECTING')
  expect(wire.attach()).toBe('PASS')
  const again = wire.open()
  wire.serve(...persistFrames(again.qp, again, 2, dataOf(100, 2)))
  wire.pass(100)
  expect(acks(wire)).toBe(1)
})

test('a key that was taken back is not that of the relay which has the place next', () => {
  const wire = related()
  expect(wire.attach()).toBe('PASS')
  const { qp, rkey } = wire.open()
  wire.serve(...sendFrames(qp, dataOf(8, 1), { invalidate: rkey }))
  const name = (body: Uint8Array): void => body.set(new TextEncoder().encode('far'))
  wire.serve(madFrame(callOf(99, mad.METHOD_SET, mad.ATTRIBUTE_DETACH, name, 0)))
  wire.pass(1_000_000)
  expect(wire.attach()).toBe('PASS')
  wire.serve(...persistFrames(qp, { rkey: wire.open().rkey }, 4, dataOf(64, 3)))
  wire.pass(100)
  expect(acks(wire)).toBe(1)
})
