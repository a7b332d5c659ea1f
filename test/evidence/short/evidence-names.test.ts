/** What the evidence knows of sources and tests by their text or name: is it still called so? */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../support/source/sources.ts'
import { testsOf } from '../coverage/tests.ts'
import { MUTANTS_STAGE } from '../mutants/stage.ts'
import { ROWS } from '../sources/list.ts'
import { rotsOf } from '../sources/stage.ts'

test('C8: every text that a mutant changes stands where it stood', async () => {
  const shard = MUTANTS_STAGE.shards('cut', 1).find(({ name }) => name.startsWith('texts'))!
  const { described } = await MUTANTS_STAGE.play(shard, () => {})
  const rots = described.map(({ what }) => what)
  expect(rots, `${rots.join('; ')}: its mutant moves along`).toEqual([])
})

test('C9: every file of tests that branches are counted with is there', () => {
  expect(testsOf('ci').filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
})

test('C12: every text that breaks an id stands where it stood, and so does the title', () => {
  const rots = rotsOf(ROWS)
  expect(rots, `${rots.join('; ')}: its row moves along`).toEqual([])
})
