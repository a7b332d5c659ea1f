/** How much work a burst may have to wait for: counted, as it is the same on every machine. */

import { expect, test } from 'vitest'
import { SLICE_BYTES, SLICE_MADE, SLICE_RECORDS } from '../../firmware/board/limits.ts'
import { ZEROS_BYTES } from '../../firmware/board/memory-map.ts'
import { sliceCosts } from './bench-slices.ts'

/** Of a record in a slice: its stores, or looks at it, and at its copies; of a page, one. */
const MAKE = 6
const LOOK = (copies: number): number => 4 * copies
/** Both pages of the superblock, looked at and written; the frame that answers. */
const BESIDE = 24
/** The lines of some clients, looked at in idle time. */
const TABLE = 80

test('R1-A3: no call does more than a slice, of whatever takes long', async () => {
  const costs = await sliceCosts(['node'])
  expect(costs).toHaveLength(20)
  for (const { what, slotBytes, copies, calls, commands } of costs) {
    const pages = SLICE_BYTES / ZEROS_BYTES
    const fits = Math.floor(SLICE_BYTES / ((slotBytes + 64) * copies))
    const records = Math.min(SLICE_RECORDS, Math.max(1, fits))
    const most = {
      make: Math.min(SLICE_MADE, records) * (MAKE + copies) + pages + BESIDE,
      scan: records * LOOK(copies) + BESIDE,
      idle: records * LOOK(copies) + BESIDE + TABLE,
      erase: pages + BESIDE,
    }[what]!
    expect(calls, what).toBeGreaterThan(1)
    expect(commands, `${what}, ${slotBytes} bytes, ${copies} copies`).toBeLessThanOrEqual(most)
  }
})
