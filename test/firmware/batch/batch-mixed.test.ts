/**
 * Batches of several regions, and of plain bytes beside records: one status, the same conditions
 * (source 4, [0059], FIG. 8; S1-M9).
 */

import { describe, expect, test } from 'vitest'
import {
  batchFrames,
  heldBy,
  IN_ORDER,
  INDEPENDENT,
  NOTHING_HELD,
  statuses,
  upTo,
} from '../../support/cards/batch-card.ts'
import { figureOf, MixedCard } from '../../support/cards/mixed-card.ts'
import { NOTHING } from '../../support/cards/placed.ts'

const CONDITIONS = [
  ['independent', INDEPENDENT],
  ['in order', IN_ORDER],
] as const

describe.each(CONDITIONS)('S1-M9: a batch of several regions and bytes, %s', (_, condition) => {
  test('is stored, durable, and has one status', () => {
    const one = new MixedCard()
    const records = figureOf(one)
    const sent = one.card.serve(...batchFrames(one.qp, one.first, records, { condition }))
    expect(statuses(sent)).toMatchObject([{ durable: upTo(5), said: 'durable' }])
    expect(heldBy(one.state)).toEqual(NOTHING_HELD)
    const again = one.after(NOTHING)
    for (const [i, record] of figureOf(again).entries()) {
      expect(again.found(record), `${i}`).toEqual(record.data)
    }
  })
})
