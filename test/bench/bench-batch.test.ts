/** What the bench of batches counts. Times of the machine are not asserted; virtual ones are. */

import { expect, test } from 'vitest'
import { type BatchCost, batchCosts, floorsOf, MODES, timedCosts } from './bench-batch.ts'

const SECONDS = 0.001

function costOf<T extends { readonly mode: string }>(costs: readonly T[], mode: string): T {
  return costs.find((cost) => cost.mode === mode)!
}

test('P4-8, P4-13: a batch shares its fences, has one answer and one wait', async () => {
  const costs = await batchCosts('node', MODES, SECONDS)
  const single = {
    fencesPerRecord: 4,
    answersPerRecord: 2,
    waitsPerRecord: 1,
    messagesPerRecord: 3,
  }
  expect(costOf(costs, 'single, 1 outstanding')).toMatchObject({ ...single, ratio: 1 })
  expect(costOf(costs, 'batch of 1')).toMatchObject(single)
  for (const records of [8, 32]) {
    expect(costOf(costs, `batch of ${records}`)).toMatchObject({
      fencesPerRecord: 4 / records,
      // The acknowledgement that it was received, and the one status.
      answersPerRecord: 2 / records,
      waitsPerRecord: 1 / records,
    })
  }
  // Eight groups of 32, and a wait for none of them.
  const most = costOf(costs, 'batch of 256')
  expect(most).toMatchObject({ fencesPerRecord: 4 / 32, waitsPerRecord: 1 / 256 })
  expect(most.answersPerRecord).toBeLessThanOrEqual(9 / 256)
})

test('the floors: what is missed is said', () => {
  const cost = {
    engine: 'node',
    mode: 'batch of 32',
    ratio: 2,
    fencesPerRecord: 0.125,
  } as BatchCost
  const good = { ...cost, messagesPerRecord: 1.1 }
  expect(floorsOf([good]).map(({ ok }) => ok)).toEqual([true, true, true])
  const bad = { ...good, ratio: 1.99, fencesPerRecord: 0.126, messagesPerRecord: 1.11 }
  expect(floorsOf([bad]).map(({ ok }) => ok)).toEqual([false, false, false])
  expect(floorsOf([{ ...bad, mode: 'batch of 8' }])).toEqual([])
})

test('P4-8: through the driver a batch of 32 waits once, and is twice as fast', async () => {
  const costs = await timedCosts(MODES)
  expect(costOf(costs, 'single, 1 outstanding')).toMatchObject({ waits: 1, fences: 4, messages: 3 })
  const batch = costOf(costs, 'batch of 32')
  expect(batch).toMatchObject({ waits: 1 / 32, fences: 0.125 })
  expect(batch.messages).toBeLessThanOrEqual(1.1)
  expect(batch.ratio).toBeGreaterThan(2)
  // Not slower than as many that are outstanding one by one.
  expect(batch.ratio).toBeGreaterThan(0.95 * costOf(costs, 'single, 32 outstanding').ratio)
  expect(costOf(costs, 'batch of 256').waits).toBe(1 / 256)
})
