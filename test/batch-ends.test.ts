/**
 * Batches whose queue pair ends while they are judged, and statuses that tell several stories.
 */

import { expect, test } from 'vitest'
import { FENCE } from '../firmware/hal.ts'
import * as mad from '../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../firmware/wire/opcode.ts'
import {
  batchFrames,
  batchSetting,
  EXPECT,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  statuses,
  upTo,
} from './support/batch-card.ts'
import { dataOf, persistFrames, type TestQueuePair } from './support/card.ts'
import { frameOf } from './support/frames.ts'

const recordsFor = (slots: readonly number[]): { slot: number; data: Uint8Array }[] =>
  slots.map((slot) => ({ slot, data: dataOf(64, slot) }))

/** A WRITE_PERSIST of bytes at the begin of a region of bytes. */
function bytesFrame(qp: TestQueuePair, rkey: number, payload: Uint8Array): Uint8Array {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn, ackRequest: true },
    reth: { vaLow: 0, rkey, length: payload.length },
    pweth: { wait: 1, wantsAck: true, operationHigh: 1 },
    payload,
  })
}

test.each([INDEPENDENT, IN_ORDER, EXPECT])(
  'P1-11: a store of the queue pair fails under the batch that is judged: condition %i',
  (condition) => {
    const one = batchSetting({}, 4096, 1 << 19)
    const { card, qp, region } = one
    const shape = { name: 'bytes', kind: mad.KIND_BYTES, length: 4096, flags: 2 }
    const bytes = card.provision(shape)
    const mark = new Uint8Array(64).fill(0xab)
    card.serve(bytesFrame(qp, bytes.rkey, mark))
    const at = Buffer.from(card.nvdimm.live).indexOf(Buffer.from(mark))
    expect(at).toBeGreaterThan(0)
    const frames = batchFrames(qp, region, recordsFor(upTo(31)), {
      condition,
      ends: false,
      count: 32,
    })
    const other = persistFrames(card.connect(), region, 200, dataOf(64, 9))
    card.serve(...frames)
    card.nvdimm.refuseWrites(at / 64)
    const failing = bytesFrame(qp, bytes.rkey, mark)
    const operation = qp.operation - 31
    const last = batchFrames(qp, region, [{ ...recordsFor([31])[0]!, index: 31 }], {
      ...{ condition, count: 32, operation },
    })
    const sent = card.serve(...other, failing, ...last)
    expect(sent.filter(({ syndrome }) => syndrome > 0x60).length).toBe(1)
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
  },
)

test('D-13, P4-12: where a record is in doubt the one status says so before anything else', () => {
  for (const fence of [2, 3, 4]) {
    const one = batchSetting()
    let seen = 0
    one.card.machine.observe({
      onCommand: (_, op) => {
        if (op === FENCE && ++seen === fence) one.card.nvdimm.fencesToFail = 1
      },
    })
    const frames = batchFrames(one.qp, one.region, recordsFor([999, ...upTo(5)]))
    const [status] = statuses(one.card.serve(...frames))
    one.card.machine.observe({})
    // A requester that is told of the first one only would take the others for not stored.
    expect(status).toMatchObject({ said: 'IN_DOUBT', durable: [] })
  }
})
