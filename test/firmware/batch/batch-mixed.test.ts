/**
 * Batches of several regions, and of plain bytes beside records: one status, the same conditions
 * (source 4, [0059], FIG. 8; S1-M9).
 */

import { describe, expect, test } from 'vitest'
import {
  type BatchRecord,
  batchFrames,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { MixedCard } from '../../support/cards/mixed-card.ts'
import { NOTHING } from '../../support/cards/placed.ts'
import { dataOf } from '../../support/cards/test-card.ts'

/** The batch that the figure shows: to record buffers, and to an area. */
function figure(one: MixedCard, seed = 0): BatchRecord[] {
  return [
    one.record(one.first, 3, dataOf(64, seed + 1)),
    one.bytes(100, dataOf(300, seed + 2)),
    one.record(one.second, 3, dataOf(48, seed + 3)),
    one.bytes(1000, dataOf(5000, seed + 4)),
    one.record(one.first, 4, dataOf(64, seed + 5)),
  ]
}

const CONDITIONS = [
  ['independent', INDEPENDENT],
  ['in order', IN_ORDER],
] as const

describe.each(CONDITIONS)('S1-M9: a batch of several regions and bytes, %s', (_, condition) => {
  test('is stored, durable, and has one status', () => {
    const one = new MixedCard()
    const records = figure(one)
    const sent = one.card.serve(...batchFrames(one.qp, one.first, records, { condition }))
    expect(statuses(sent)).toMatchObject([{ durable: upTo(5), said: 'durable' }])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    const again = one.after(NOTHING)
    for (const [i, record] of figure(again).entries()) {
      expect(again.found(record), `${i}`).toEqual(record.data)
    }
  })
})
