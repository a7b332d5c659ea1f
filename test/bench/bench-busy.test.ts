/** The bench of records beside other work measures what it says, however long that takes. */

import { expect, test } from 'vitest'
import { LOADS, waitsBeside } from './bench-busy.ts'

test('R1-A3: a record is acknowledged beside a peer that holds all it may, and timed', async () => {
  const load = LOADS.find(({ bytes }) => bytes === 0)!
  const waits = await waitsBeside('node', load, 100)
  expect(waits).toMatchObject({ engine: 'node', what: load.what, records: 100 })
  expect(waits.p50Us).toBeGreaterThan(0)
  expect(waits.p99Us).toBeGreaterThanOrEqual(waits.p50Us)
  expect(waits.ratio).toBeCloseTo(waits.p99Us / waits.quietP99Us)
})
