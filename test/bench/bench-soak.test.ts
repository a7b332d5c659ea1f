/** Nothing of the firmware grows: not by connections, nor by records, nor as time goes by. */

import { expect, test } from 'vitest'
import { THOROUGH } from '../support/run/thorough.ts'
import { soak } from './bench-soak.ts'

test('R1-A4: the guest’s heap is flat over all of these', THOROUGH, async () => {
  const growths = await soak({ connections: 300, records: 2000, hours: 1 })
  expect(growths.map(({ what }) => what)).toEqual(['connections', 'records', 'seconds'])
  for (const growth of growths) {
    expect(growth.guestBefore, growth.what).toBeGreaterThan(1 << 20)
    expect(growth, growth.what).toMatchObject({ isFlat: true })
  }
})
