/**
 * Each id of the sources and decisions, broken once: does the test that names it notice?
 *
 * Invariant: a test counts as a witness only if it passes on the product as it is, and fails on the
 * changed one by what it expects or by what the product says; a change that is no program is none.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { BEHAVIOURS } from '../../support/run/behaviours.ts'
import { ROOT } from '../../support/source/sources.ts'
import { rotOf } from '../mutants/mutant.ts'
import { NOTHING, type Replayed, type Shard, type Size, type Stage, type Tally } from '../stage.ts'
import { ROWS } from './list.ts'
import type { Row } from './row.ts'
import { runTitles } from './run.ts'

/** Ids of what the sources say and the product had not (requirements-review.md). */
const MISSING_ONCE = Array.from({ length: 14 }, (_, i) => `S1-M${i + 1}`)

/** Every id that is to have a row. */
export const IDS: readonly string[] = [...BEHAVIOURS, ...MISSING_ONCE]

/** Of every so many rows one is played in the short cut. */
const CUT_STEP = 10
/** What a row takes, seconds. */
const SECONDS = 3

/** A text that a program cannot be made of, or a name that is none, fails every test. */
const NO_PROGRAM = /^(SyntaxError|ReferenceError|TypeError)\b/

/** Ids that nothing breaks yet. */
function withoutRow(): string[] {
  const had = new Set(ROWS.map(({ id }) => id))
  return IDS.filter((id) => !had.has(id))
}

/** What is wrong with the texts of the rows: nothing is played for it. */
export function rotsOf(rows: readonly Row[]): string[] {
  return rows.flatMap((row, i) => {
    const { id, file, test, title } = row
    const say = (what: string): string[] => [`${id}: ${what}`]
    if (!IDS.includes(id)) return say('no such id')
    if (rows.findIndex((other) => other.id === id) < i) return say('it has two rows')
    if (!existsSync(join(ROOT, file))) return say(`there is no ${file}`)
    const rot = rotOf(row, readFileSync(join(ROOT, file), 'utf8'))
    if (rot !== null) return say(rot)
    if (!existsSync(join(ROOT, test))) return say(`there is no ${test}`)
    const isTitle = readFileSync(join(ROOT, test), 'utf8').includes(title)
    return isTitle ? [] : say(`"${title}" does not stand in ${test}`)
  })
}

/** What there is to say against a row, or null: its test noticed. */
export async function complaintOf(row: Row): Promise<string | null> {
  const { id, broken, test, title } = row
  const rot = rotsOf([row])[0]
  if (rot !== undefined) return rot
  const { passed, failed, trouble } = await runTitles(test, [title], row)
  if (trouble !== '') return `${id}: ${broken}: ${trouble}`
  if (failed.length === 0) {
    return `${id} lives: ${broken}, and ${passed.length} tests of ${test} pass, "${title}"`
  }
  const [first] = failed
  return failed.every(({ message }) => NO_PROGRAM.test(message))
    ? `${id}: the change is no program: ${first!.message}`
    : null
}

/** Titles of these rows that do not pass on the product as it is. */
async function failingOf(rows: readonly Row[]): Promise<string[]> {
  const { test } = rows[0]!
  const { passed, failed, trouble } = await runTitles(
    test,
    rows.map(({ title }) => title),
    null,
  )
  if (trouble !== '') return [`${test}: ${trouble}`]
  const absent = rows.filter(({ title }) => !passed.some((name) => name.includes(title)))
  return [
    ...failed.map(({ title, message }) => `the product fails ${test}, ${title}: ${message}`),
    ...absent.map(({ id, title }) => `${id}: no test of ${test} passes as "${title}"`),
  ]
}

function rowsOf(size: Size): Row[] {
  return ROWS.filter((_, i) => size !== 'cut' || i % CUT_STEP === 0)
}

/** The name of the shard that looks whether every text still stands where it stood. */
const TEXTS = 'texts'

function shardsOf(size: Size): Shard[] {
  const tests = new Map<string, number>()
  for (const { test } of rowsOf(size)) tests.set(test, (tests.get(test) ?? 0) + 1)
  const shard = (name: string, seconds: number): Shard => {
    return { name, seed: 0, seconds, options: { size } }
  }
  return [shard(TEXTS, 1), ...[...tests].map(([name, n]) => shard(name, SECONDS * (1 + n)))]
}

function lookAtTexts(): Tally {
  const described = rotsOf(ROWS).map((what) => ({ shard: TEXTS, what, replay: '' }))
  const more = { 'ids without a mutation': withoutRow().length }
  return { ...NOTHING, violations: described.length, described, more }
}

/** Everything that one test file is to notice. */
async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  if (shard.name === TEXTS) return lookAtTexts()
  const rows = rowsOf(shard.options.size as Size).filter(({ test }) => test === shard.name)
  const described = (await failingOf(rows)).map((what) => {
    return { shard: shard.name, what, replay: rows[0]!.id }
  })
  const cells: Record<string, number> = {}
  for (const [i, row] of rows.entries()) {
    progress((i + 1) / (rows.length + 1))
    const what = await complaintOf(row)
    if (what === null) cells[`${row.id}: ${row.broken}: ${row.test}, "${row.title}"`] = 1
    else described.push({ shard: shard.name, what, replay: row.id })
  }
  const distinct = Object.keys(cells).length
  const violations = described.length
  return { ...NOTHING, count: rows.length, distinct, violations, described, cells }
}

function quoted(mark: string, text: string): string[] {
  return text.split('\n').map((line) => `  ${mark} ${line}`)
}

/** `ID`: the change, and whether its test notices. `table`: every row, and nothing is played. */
async function replay(argument: string): Promise<Replayed> {
  if (argument === 'table') return { violated: false, text: tableOf(ROWS) }
  const row = ROWS.find(({ id }) => id === argument)
  if (row === undefined) return { violated: true, text: `${argument} has no row` }
  const { id, broken, file, find, replace, test, title } = row
  const story = [`${id}: ${broken}`, file, ...quoted('-', find), ...quoted('+', replace)]
  const wrong = [...(await failingOf([row])), (await complaintOf(row)) ?? '']
  const text = [...story, `${test}, "${title}"`, ...wrong.filter((one) => one !== '')]
  const violated = wrong.some((one) => one !== '')
  return { violated, text: [...text, violated ? 'NOT NOTICED' : 'noticed'].join('\n') }
}

/** Id, change, test; and in the end the ids without a row. */
function tableOf(rows: readonly Row[]): string {
  const lines = rows.map(({ id, broken, file, test, title }) => {
    return `| ${id} | ${broken} (\`${file}\`) | \`${test}\`: ${title} |`
  })
  const head = ['| id | what is broken | who notices |', '|---|---|---|']
  const without = withoutRow()
  const end = `Without a mutation, ${without.length}: ${without.join(', ')}`
  return [...head, ...lines, '', end].join('\n')
}

export const SOURCES: Stage = {
  name: 'sources',
  id: 'C12',
  title: 'ids of the sources broken, each by one change; distinct: noticed',
  unit: 'ids',
  floors: {
    cut: [{ of: 'distinct', least: 16 }],
    ci: [{ of: 'distinct', least: 160 }],
    nightly: [{ of: 'distinct', least: 160 }],
  },
  shards: shardsOf,
  play,
  replay,
}
