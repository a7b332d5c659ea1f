/** The superblock's list of records that are lost (D-14). */

import { expect, test } from 'vitest'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import {
  addLost,
  createSuperblock,
  isLost,
  lostAt,
  lostOf,
  removeLost,
} from '../../../firmware/medium/superblock.ts'

test('D-14: the list of the lost keeps the records of regions apart', () => {
  const sb = createSuperblock(new ArrayBuffer(MEMORY_BYTES))
  const lost: readonly (readonly [number, number])[] = [
    [1, 5],
    [2, 5],
    [1, 6],
  ]
  for (const [region, record] of lost) expect(addLost(sb, region, record)).toBe(true)
  expect(addLost(sb, 2, 5)).toBe(false)
  expect([lostOf(sb, 1), lostOf(sb, 2), lostOf(sb, 3)]).toEqual([2, 1, 0])
  expect([0, 1, 2].map((i) => lostAt(sb, i, 1))).toEqual([5, -1, 6])
  removeLost(sb, 2, 5)
  expect([isLost(sb, 1, 5), isLost(sb, 2, 5), isLost(sb, 1, 6)]).toEqual([true, false, true])
  removeLost(sb, 2, 7)
  expect(lostOf(sb, 1)).toBe(2)
})
