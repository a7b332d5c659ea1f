/**
 * Connected pairs of two hosts that have exchanged their depths (source 3, step 201; S1-M7): who
 * keeps to what was agreed draws no RNR NAK for want of receives.
 */

import { expect, test } from 'vitest'
import { POSTED_RECEIVES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { RC_ACKNOWLEDGE } from '../../../firmware/wire/opcode.ts'
import { dataOf } from '../../support/cards/test-card.ts'
import { type End, hostToHost, TwoCards } from '../../support/cards/two-cards.ts'

const LENGTH = 64

interface Play {
  readonly rig: TwoCards
  /** RNR NAKs on the wire. */
  readonly naks: number
  /** The most messages on their way at once that card `from` had. */
  most(from: 0 | 1): number
}

/** Each end posts so many receives, then sends so many messages to the other. */
function played(sendDepth: number, count: number): Play {
  const rig = new TwoCards()
  const ends = hostToHost(rig, 1024, { sendDepth })
  for (const end of ends) end.receive(0, LENGTH, count)
  for (const end of ends) {
    end.post(
      ...Array.from({ length: count }, (_, i) => ({
        opcode: kind.SEND,
        inline: dataOf(LENGTH, i),
      })),
    )
  }
  for (let i = 0; i < 100; i++) rig.pass(1000)
  for (const end of ends) expectAll(end, count)
  const naks = rig.sent.filter(({ frame }) => isRnr(frame))
  return { rig, naks: naks.length, most: (from) => mostOf(rig, from) }
}

function expectAll(end: End, count: number): void {
  const statuses = end.host.poll(end.cq).map(({ status }) => status)
  expect(statuses).toEqual(new Array(count).fill(el.WC_SUCCESS))
  const got = end.host.poll(end.receiveCq)
  expect(got.map(({ unit }) => unit)).toEqual(Array.from({ length: count }, (_, i) => i))
  for (let i = 0; i < count; i++) expect(end.bytes(LENGTH, i * LENGTH)).toEqual(dataOf(LENGTH, i))
}

type Frame = TwoCards['sent'][number]['frame']

function isRnr({ opcode, syndrome }: Frame): boolean {
  return opcode === RC_ACKNOWLEDGE && (syndrome & 0xe0) === 0x20
}

function mostOf(rig: TwoCards, from: 0 | 1): number {
  let [unanswered, most, last] = [0, 0, -1]
  for (const { from: sender, frame } of rig.sent) {
    if (sender === from && frame.opcode <= 5) {
      if (last < 0) last = frame.psn - 1
      unanswered = (frame.psn - last) & 0xffffff
      most = Math.max(most, unanswered)
    }
    if (sender !== from && frame.opcode === RC_ACKNOWLEDGE && !isRnr(frame)) last = frame.psn
  }
  return most
}

test('S1-M7: who tells nothing sends all at once, and is told to wait', () => {
  const { naks, most } = played(0, 40)
  expect(naks).toBeGreaterThan(0)
  expect(most(0)).toBeGreaterThan(POSTED_RECEIVES)
})

test.each([1, 2, 5, POSTED_RECEIVES])('S1-M7: %i at once, both ways, and no RNR NAK', (depth) => {
  const { naks, most } = played(depth, 40)
  expect(naks).toBe(0)
  expect([most(0), most(1)]).toEqual([depth, depth])
})

test('S1-M7: a depth beyond any queue bounds nothing, and sizes nothing', () => {
  expect(played(0xffff, 40).most(0)).toBe(played(0, 40).most(0))
})

test('S1-M7: under loss nothing is lost, doubled or out of order', () => {
  const rig = new TwoCards()
  let frames = 0
  rig.loses = () => ++frames % 7 === 0
  const [one, other] = hostToHost(rig, 1024, { sendDepth: 3 })
  other.receive(0, LENGTH, 40)
  one.post(
    ...Array.from({ length: 40 }, (_, i) => ({ opcode: kind.SEND, inline: dataOf(LENGTH, i) })),
  )
  for (let i = 0; i < 200; i++) rig.pass(70_000)
  expect(one.host.poll(one.cq)).toHaveLength(40)
  const got = other.host.poll(other.receiveCq)
  expect(got.map(({ unit }) => unit)).toEqual(Array.from({ length: 40 }, (_, i) => i))
  for (let i = 0; i < 40; i++) expect(other.bytes(LENGTH, i * LENGTH)).toEqual(dataOf(LENGTH, i))
})

test('S1-M7: requests that take no receive go on as before beside them', () => {
  const [one, other] = hostToHost(new TwoCards(), 1024, { sendDepth: 1 })
  other.receive(0, LENGTH, 4)
  const region = other.host.card.provision()
  const record = { opcode: kind.WRITE_PERSIST, rkey: region.rkey, wait: 2 }
  const cqes = one.play(
    { opcode: kind.SEND, inline: dataOf(LENGTH, 0) },
    { ...record, operation: 1, inline: dataOf(LENGTH, 1) },
    { opcode: kind.SEND, inline: dataOf(LENGTH, 2) },
    { ...record, operation: 2, inline: dataOf(LENGTH, 3) },
  )
  expect(cqes.map(({ status }) => status)).toEqual([0, 0, 0, 0])
})
