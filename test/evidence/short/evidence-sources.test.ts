/** C12: does the judge of the ids of the sources itself notice what is no witness? */

import { expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { ROWS } from '../sources/list.ts'
import type { Row } from '../sources/row.ts'
import { complaintOf, rotsOf } from '../sources/stage.ts'

const ROW: Row = ROWS.find(({ id }) => id === 'P1-1')!

test('C12: a row that no longer fits sources, tests or ids is told', () => {
  expect(rotsOf([ROW])).toEqual([])
  const wrong: readonly [Partial<Row>, RegExp][] = [
    [{ id: 'a stranger' }, /no such id/],
    [{ file: 'firmware/none.ts' }, /there is no firmware/],
    [{ find: 'if (nothing) return FIXED' }, /does not stand/],
    [{ find: 'region' }, /more than once/],
    [{ replace: ROW.find }, /changes nothing/],
    [{ test: 'test/none.test.ts' }, /there is no test/],
    [{ title: 'a title of nobody' }, /"a title of nobody" does not stand/],
  ]
  for (const [change, says] of wrong) {
    expect(rotsOf([{ ...ROW, ...change }])).toEqual([expect.stringMatching(says)])
  }
  expect(rotsOf([ROW, ROW])).toEqual([expect.stringMatching(/two rows/)])
})

// Processes of their own: a busy machine takes its time.
test(
  'C12: what a test does not notice lives, and what is no program is not noticed',
  THOROUGH,
  async () => {
    expect(await complaintOf(ROW)).toBeNull()
    const harmless = ROW.find.replace('!== 0', '> 0')
    expect(await complaintOf({ ...ROW, replace: harmless })).toMatch(/P1-1 lives/)
    const noProgram = `${ROW.find} nowhere()`
    expect(await complaintOf({ ...ROW, replace: noProgram })).toMatch(/is no program/)
    expect(await complaintOf({ ...ROW, replace: 'if (' })).toMatch(/no test was played/)
  },
)
