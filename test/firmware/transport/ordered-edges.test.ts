/**
 * Requests beside each other where something ends: fences that fail under those that wait, long
 * READs with repetitions behind them, records by plain WRITE with immediate data.
 */

import { describe, expect, test } from 'vitest'
import { BURST_FRAMES, LANES, READ_PACKETS } from '../../../firmware/board/limits.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import { CNP, PERSIST_ACK, RC_ACKNOWLEDGE, RC_ATOMIC_ACK } from '../../../firmware/wire/opcode.ts'
import { batchFrames, statuses } from '../../support/cards/batch-card.ts'
import { bytesCard } from '../../support/cards/bytes-card.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  readFrame,
  type Sent,
} from '../../support/cards/test-card.ts'
import { frameOf } from '../../support/wire/frames.ts'
import {
  ACK,
  fetchAddFrame,
  flushFrame,
  lines,
  NAK_OPERATIONAL,
  sendFrames,
  writeFrames,
} from '../../support/wire/requests.ts'

const LINE = 64
const fresh = (slot: number): Uint8Array => dataOf(64, 1000 + slot)

/** Syndromes of what came, without what only acknowledges. */
const naks = (sent: readonly Sent[]): number[] =>
  sent.flatMap(({ syndrome }) => (syndrome > ACK ? [syndrome] : []))

test('D-13: when a fence fails those hear it who wait for it, and nobody else', () => {
  const one = bytesCard()
  const { card, bytes, kept } = one
  const [reader, flusher, writer] = [one.qp, card.connect(1024), card.connect(1024)]
  card.nvdimm.fencesToFail = 1
  const sent = card.serve(
    readFrame(reader, bytes, 0, 0, 32),
    ...writeFrames(flusher, bytes, 64, dataOf(8, 1), { ackRequest: false }),
    flushFrame(flusher, bytes, { vaLow: 64 }),
    ...writeFrames(writer, kept, 0, dataOf(8, 1), { ackRequest: false }),
  )
  expect(sent.filter(({ payload }) => payload.length === 32)).toHaveLength(1)
  expect(naks(sent).length).toBeGreaterThan(0)
  for (const syndrome of naks(sent)) expect(syndrome).toBe(NAK_OPERATIONAL)
})

describe('a long READ', () => {
  const LENGTH = 256 * (READ_PACKETS + 40)

  test('N3: an atomic that is repeated under it is answered as before', () => {
    const { card, bytes, qp } = bytesCard(256)
    const { psn } = qp
    card.serve(fetchAddFrame(qp, bytes, 0, 1n))
    const first = card.serve(readFrame(qp, bytes, 0, 1024, LENGTH))
    expect(first.length).toBeLessThan(READ_PACKETS + 40)
    const again = card.serve(fetchAddFrame({ ...qp, psn }, bytes, 0, 1n, { psn }))
    expect(again.filter(({ opcode }) => opcode === RC_ATOMIC_ACK)).toHaveLength(1)
    expect(naks(again)).toEqual([])
  })

  test('N3: an earlier one that is repeated under it waits until it is asked again', () => {
    const { card, bytes, qp } = bytesCard(256)
    const { psn } = qp
    card.serve(readFrame(qp, bytes, 0, 0, LENGTH))
    for (let i = 0; i < 10; i++) card.idle()
    card.serve(readFrame(qp, bytes, 0, 1024, LENGTH))
    const rest = card.serve(readFrame({ ...qp, psn }, bytes, 0, 0, LENGTH))
    expect(card.counter('HELD_BACK')).toBe(1)
    // Both may have been lost: the one that was sent first is asked for, and what is behind it.
    expect(lines(rest.slice(-1), psn)).toEqual(['NAK 0x21 0'])
  })
})

describe('D-9: a record by plain WRITE', () => {
  test('with immediate data is durable when it is acknowledged', () => {
    const { card, records, qp } = bytesCard()
    const frames = writeFrames(qp, records, 0, fresh(1), { vaHigh: 1, immediate: 7 })
    expect(naks(card.serve(...frames))).toEqual([])
    expect(card.read(qp, records, 1, 0, 64)).toEqual(fresh(1))
  })

  test('with immediate data into no slot is refused, and takes no entry for it', () => {
    for (let i = 0; i < 3; i++) {
      const { card, records, qp } = bytesCard()
      const options = { vaHigh: 99, immediate: 7 }
      expect(naks(card.serve(...writeFrames(qp, records, 0, fresh(1), options)))).toHaveLength(1)
    }
  })

  test('I4: of the same slot, twice in one burst: both are acknowledged, the later stays', () => {
    const { card, records, qp } = bytesCard()
    const sent = card.serve(
      ...writeFrames(qp, records, 0, fresh(1), { vaHigh: 1 }),
      ...writeFrames(qp, records, 0, fresh(2), { vaHigh: 1 }),
    )
    expect(naks(sent)).toEqual([])
    expect(card.read(qp, records, 1, 0, 64)).toEqual(fresh(2))
  })
})

test('P1-11: where every lane is refused, so is a batch that shares a slot with the group', () => {
  const { card, records, qp } = bytesCard()
  for (let lane = 0; lane < LANES; lane++) card.nvdimm.refuseWrites(LANES_AT / LINE + lane)
  const sent = card.serve(
    ...persistFrames(card.connect(), records, 0, fresh(0)),
    ...batchFrames(qp, records, [{ slot: 0, data: fresh(1) }]),
  )
  expect(persistAcks(sent).every(({ status, batch }) => status !== 0 || batch)).toBe(true)
  expect(statuses(sent)).toMatchObject([{ durable: [] }])
})

test('a congestion notification to a card that has requests of its own under way', () => {
  const { card, qp, bytes } = bytesCard()
  card.serve(...sendFrames(qp, dataOf(8, 1), { solicited: true }))
  const bth = { opcode: CNP, destQp: qp.number, psn: 0 }
  expect(card.serve(frameOf({ bth, payload: new Uint8Array(16) }))).toEqual([])
  expect(card.counter('CONGESTION')).toBe(1)
  expect(naks(card.serve(...writeFrames(qp, bytes, 0, dataOf(8, 1))))).toEqual([])
})

test('P2-28: of a burst with more answers than places, received stands before durable', () => {
  const { card, bytes, records } = bytesCard(256)
  const readers = Array.from({ length: BURST_FRAMES - 1 }, () => card.connect(256))
  const writer = card.connect(256)
  const sent = card.serve(
    ...readers.map((qp) => readFrame(qp, bytes, 0, 0, 2048)),
    ...persistFrames(writer, records, 0, fresh(0)),
  )
  const toWriter = sent.filter(({ packet }) => packet.destQp === writer.peer)
  // Received in front of durable, though the burst had to be run in between.
  expect(toWriter.map(({ opcode }) => opcode)).toEqual([RC_ACKNOWLEDGE, PERSIST_ACK])
  expect(sent.reduce((sum, { payload }) => sum + payload.length, 0)).toBe(31 * 2048)
})
