/**
 * Batches whose queue pair ends while they are judged, and statuses that tell several stories.
 */

import { expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { WRITE_PERSIST_ONLY } from '../../../firmware/wire/opcode.ts'
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
} from '../../support/cards/batch-card.ts'
import { failFence } from '../../support/cards/fences.ts'
import {
  dataOf,
  persistAcks,
  persistFrames,
  type TestPeer,
  type TestRegion,
} from '../../support/cards/test-card.ts'
import { frameOf } from '../../support/wire/frames.ts'

const recordsFor = (slots: readonly number[]): { slot: number; data: Uint8Array }[] =>
  slots.map((slot) => ({ slot, data: dataOf(64, slot) }))

/** A WRITE_PERSIST of bytes at the begin of a region of bytes. */
function bytesFrame(qp: TestPeer, region: TestRegion, payload: Uint8Array): Uint8Array {
  const { psn } = qp
  qp.psn = (psn + 1) & 0xffffff
  return frameOf({
    bth: { opcode: WRITE_PERSIST_ONLY, destQp: qp.number, psn, ackRequest: true },
    reth: { vaHigh: region.baseHigh, rkey: region.rkey, length: payload.length },
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
    card.serve(bytesFrame(qp, bytes, mark))
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
    const failing = bytesFrame(qp, bytes, mark)
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
    failFence(one.card, fence)
    const frames = batchFrames(one.qp, one.region, recordsFor([999, ...upTo(5)]))
    const [status] = statuses(one.card.serve(...frames))
    one.card.machine.observe({})
    // A requester that is told of the first one only would take the others for not stored.
    expect(status).toMatchObject({ said: 'IN_DOUBT', durable: [] })
  }
})

/** What ends a batch, though its last record has not come: a frame that its sender sends next. */
const ENDINGS: Record<string, (qp: TestPeer, region: TestRegion) => Uint8Array[]> = {
  'contradicts itself': (qp, region) =>
    batchFrames(qp, region, [{ slot: 1, data: dataOf(64, 1), pweth: { batchCount: 9 } }]),
  'has its queue pair end': (qp) => persistFrames(qp, { rkey: 0 }, 1, dataOf(64, 1)),
}

test.each(Object.keys(ENDINGS))(
  'D-7: what a batch gathered does not go over the headers of the next: it %s',
  (ending) => {
    const one = batchSetting({ slots: 8, capacity: 1000 }, 256)
    const { card, qp, region } = one
    const other = card.connect(256)
    const gathered = batchFrames(qp, region, [{ slot: 0, data: dataOf(1000, 7) }], { ends: false })
    const records = upTo(5, 2).map((slot) => ({ slot, data: dataOf(300, slot) }))
    const next = batchFrames(other, region, records)
    const sent = card.serve(...gathered, ...ENDINGS[ending]!(qp, region), ...next)
    expect(statuses(sent).at(-1)).toMatchObject({ said: 'durable', durable: upTo(3) })
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    for (const { slot, data } of records) {
      expect(card.read(card.connect(), region, slot, 0, 300), `slot ${slot}`).toEqual(data)
    }
  },
)

test.each([1, 2])(
  'D-13: a record behind what is held is not taken where that closes the part: fence F%i',
  (failing) => {
    const { card, region, qp } = batchSetting()
    card.serve(...batchFrames(qp, region, recordsFor([5, 6]), { ends: false, count: 3 }))
    const other = card.connect(4096, 0, 8)
    const group = upTo(131, 100).flatMap((slot) =>
      persistFrames(other, region, slot, dataOf(64, 1)),
    )
    let fences = 0
    card.machine.observe({
      onCommand: (_, op) => {
        fences += op === FENCE ? 1 : 0
        if (op === FENCE && fences === failing) card.nvdimm.fencesToFail = 1
      },
    })
    const sent = card.serve(...group, ...persistFrames(qp, region, 5, dataOf(64, 9)))
    const said = failing === 1 ? 'FLUSH' : 'IN_DOUBT'
    const codes = [said, 'FLUSH'].map((name) => FAULTS.find((row) => row.name === name)!.code)
    expect(persistAcks(sent).map(({ status }) => status)).toEqual([
      ...upTo(31).map(() => codes[0]),
      codes[1],
    ])
    // Nor is anything shown that the next start takes back.
    expect(card.read(qp, region, 100, 0, 64)).toEqual(new Uint8Array(64))
  },
)
