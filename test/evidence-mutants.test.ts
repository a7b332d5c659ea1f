/** C8, cut short: some of the mutants, and whether the judge of mutants itself notices. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { buildKiller, playKiller, ROOT, witnessAgainst } from './evidence/mutants/build.ts'
import { MUTANTS } from './evidence/mutants/list.ts'
import { type Mutant, rotOf } from './evidence/mutants/mutant.ts'
import { MUTANTS_STAGE } from './evidence/mutants/stage.ts'
import { missed, playAll } from './evidence/stage.ts'

// Builds, and threads of their own: a busy machine takes its time.
vi.setConfig({ testTimeout: 300_000 })

test('C8: every text stands where it stood; the mutants of the cut are killed', async () => {
  const total = await playAll(MUTANTS_STAGE, 'cut', 1)
  expect(total.described).toEqual([])
  expect(missed(MUTANTS_STAGE, total, 'cut')).toEqual([])
  expect(total.more['texts looked up']).toBe(MUTANTS.length)
  expect(total.distinct).toBe(total.count)
})

test('C8: a whole run has sixty mutants and more, each under a name of its own', () => {
  expect(MUTANTS.length).toBeGreaterThanOrEqual(60)
  expect(new Set(MUTANTS.map(({ id }) => id)).size).toBe(MUTANTS.length)
  const all = MUTANTS_STAGE.shards('ci', 1).filter(({ name }) => name.startsWith('mutants'))
  const played = all.reduce((sum, { options }) => sum + Number(options.count), 0)
  expect(played).toBe(MUTANTS.length)
})

test('C8: a change that breaks no rule survives, so that a kill means something', async () => {
  const harmless: Mutant = {
    ...MUTANTS.find(({ id }) => id === 'f1-dropped')!,
    replace: '  fence(list)\n  fence(list)\n  commit.ends[STAGE_LANES] = list.count',
  }
  expect(await witnessAgainst(harmless)).toBeNull()
})

test('C8: a list that no longer fits the sources is told', () => {
  const mutant = MUTANTS[0]!
  const text = readFileSync(join(ROOT, mutant.file), 'utf8')
  expect(rotOf(mutant, text)).toBeNull()
  expect(rotOf(mutant, text.replace(mutant.find, ''))).toMatch(/does not stand/)
  expect(rotOf(mutant, text + mutant.find)).toMatch(/more than once/)
  expect(rotOf({ ...mutant, replace: mutant.find }, text)).toMatch(/changes nothing/)
})

test('C8: what hangs, throws or ends without a word has been noticed', async () => {
  expect(await playKiller('for (;;);', '', 200)).toBe('it hangs')
  expect(await playKiller('throw new Error("broken")', '')).toMatch(/broken/)
  expect(await playKiller('', '')).toMatch(/without a word/)
  const program = await buildKiller('directed', null)
  expect(await playKiller(program, 'no such play')).toMatch(/no play is called/)
})
