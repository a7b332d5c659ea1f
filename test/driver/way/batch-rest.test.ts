/**
 * Batches of more records than go out together: what becomes of those that no burst has had yet.
 */

import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { BatchCondition, BatchOutcome } from '../../../host-driver/index.ts'
import { bytesOf, indexesOf, ScriptedPart, settle } from '../../support/driver/scripted-part.ts'

const TOGETHER = 4
const COUNT = 10

function status(name: string): number {
  return FAULTS.find((row) => row.name === name && row.answer === 'status')!.code
}

function commit(part: ScriptedPart, condition: BatchCondition): Promise<BatchOutcome> {
  const batch = part.region.batch({ condition })
  for (let i = 0; i < COUNT; i++) batch.persist(i, bytesOf(i))
  return batch.commit()
}

describe('P4-9: a batch that goes out in several bursts', () => {
  for (const condition of ['independent', 'inOrder'] as const) {
    test(`${condition}: a connection breaks when all of a burst is durable`, async () => {
      const part = await ScriptedPart.open({}, TOGETHER)
      const outcome = commit(part, condition)
      part.store(TOGETHER)
      part.break()
      await settle()
      await settle()
      expect(part.bursts.slice(1).map(indexesOf)).toEqual([[4, 5, 6, 7]])
      part.answer()
      part.answer()
      expect(await outcome).toMatchObject({ all: true, bursts: 3, waits: 2 })
    })
  }

  test('P4-7: in order, nothing is sent behind a record that is refused for good', async () => {
    const part = await ScriptedPart.open({}, TOGETHER)
    const outcome = commit(part, 'inOrder')
    part.answer((index) => (index < 2 ? 0 : status('SLOT')))
    await settle()
    expect(part.open).toEqual([])
    const { records, bursts } = await outcome
    expect(bursts).toBe(1)
    expect(records[2]).toMatchObject({ status: 'refused', code: 'SLOT' })
    for (const record of records.slice(3)) {
      expect(record).toMatchObject({ status: 'notAccepted', because: 2 })
    }
  })
})
