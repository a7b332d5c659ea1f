/**
 * What comes on a queue pair behind a plain WRITE that is refused as its group makes way (P2-9,
 * D-9, H7): the NAK ends the queue pair in the middle of the message that was on its turn.
 *
 * Invariant: nothing leaves behind the NAK. It may be lost on the way, and the answer to
 * anything behind it would acknowledge the WRITE that it denied.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { STAGING_BUFFERS } from '../../../firmware/board/limits.ts'
import { BYTES_AT, bytesCard } from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type Sent,
  type TestCard,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { lines, setting, slotOffset, writeFrames } from '../../support/wire/requests.ts'

const MTU = 256
const LONG = 300
const OLD = dataOf(64, 1)
const NEW = dataOf(64, 2)

interface Scene {
  readonly card: TestCard
  readonly qp: TestPeer
  /** Its record 0 takes no store. */
  readonly refusing: TestRegion
  readonly other: TestRegion
}

function scene(): Scene {
  const { card, region, qp } = setting({ name: 'refusing', slots: 4, capacity: 64 }, MTU)
  const other = card.provision({ name: 'other', slots: 4, capacity: LONG })
  card.nvdimm.refuseWrites(slotOffset(region, 0, 0) / 64)
  return { card, qp, refusing: region, other }
}

/** The NAK of the WRITE, at `psn`, comes last; nothing acknowledges that PSN, or one behind it. */
function expectSilence(sent: readonly Sent[], psn: number): void {
  expect(lines(sent, psn).at(-1)).toBe('NAK 0x63 0')
  for (const frame of sent.slice(0, -1)) expect(frame.psn).toBe((psn - 1) & 0xffffff)
}

/** All room for messages of several packets is free: so many peers gather one at a time. */
function expectRoom(card: TestCard, other: TestRegion): void {
  const halves = Array.from({ length: STAGING_BUFFERS }, () => {
    return persistFrames(card.connect(MTU), other, 2, dataOf(LONG, 3))
  })
  expect(card.serve(...halves.map(([first]) => first!))).toEqual([])
  for (const [, last] of halves) {
    expect(persistAcks(card.serve(last!))).toMatchObject([{ status: 0 }])
  }
}

describe('behind a plain WRITE that is refused as its group makes way', () => {
  test('a record is not even refused, when the part does not fence', () => {
    const { card, qp, other } = scene()
    const { psn } = qp
    card.nvdimm.fencesToFail = 1
    const sent = card.serve(
      ...writeFrames(qp, other, 0, OLD),
      ...persistFrames(qp, other, 1, OLD),
      ...persistFrames(qp, other, 1, NEW),
    )
    expectSilence(sent, psn)
  })

  const behind: readonly (readonly [string, (scene: Scene) => Uint8Array[]])[] = [
    ['a record', ({ qp, other }) => persistFrames(qp, other, 1, NEW)],
    ['a record of two packets', ({ qp, other }) => persistFrames(qp, other, 1, dataOf(LONG, 2))],
    ['a plain WRITE', ({ qp, other }) => writeFrames(qp, other, 0, NEW, { vaHigh: 1 })],
    [
      'a plain WRITE of two packets',
      ({ qp, other }) => writeFrames(qp, other, 0, dataOf(LONG, 2), { vaHigh: 1 }),
    ],
    [
      'the same operation again',
      ({ qp, other }) => persistFrames(qp, other, 1, NEW, { operation: qp.operation }),
    ],
  ]

  test.each(behind)('%s is neither taken nor answered', (_, frames) => {
    const one = scene()
    const { card, qp, refusing, other } = one
    const { psn } = qp
    const sent = card.serve(
      ...writeFrames(qp, refusing, 0, OLD),
      ...persistFrames(qp, other, 1, OLD),
      ...frames(one),
    )
    expectSilence(sent, psn)
    expect(card.read(card.connect(), other, 1, 0, 64)).toEqual(OLD)
    expectRoom(card, other)
  })

  test('the first packet of a message has no room kept for it', () => {
    const { card, qp, refusing, other } = scene()
    const gathering = Array.from({ length: STAGING_BUFFERS - 1 }, () => {
      return persistFrames(card.connect(MTU), other, 2, dataOf(LONG, 3))
    })
    card.serve(...gathering.map(([first]) => first!))
    const { psn } = qp
    const sent = card.serve(
      ...writeFrames(qp, refusing, 0, OLD),
      ...persistFrames(qp, other, 1, dataOf(LONG, 1)),
      persistFrames(qp, other, 3, dataOf(LONG, 2))[0]!,
    )
    expectSilence(sent, psn)
    for (const [, last] of gathering) card.serve(last!)
    expectRoom(card, other)
  })
})

test('D-9: a part that does not fence what it withheld before a refusal takes nothing more', () => {
  const { card, bytes, kept, records, qp } = bytesCard()
  const psn = qp.psn
  card.nvdimm.refuseWrites((BYTES_AT + 64) / 64)
  card.nvdimm.fencesToFail = 1
  const sent = card.serve(...writeFrames(qp, kept, 0, OLD), ...writeFrames(qp, bytes, 64, NEW))
  expect(lines(sent, psn)).not.toContain('ACK 0')
  const [receipt] = persistAcks(card.serve(...persistFrames(card.connect(), records, 1, NEW)))
  expect(FAULTS.find(({ code }) => code === receipt!.status)!.name).toBe('FLUSH')
})
