/** C8, cut short: some of the mutants, and whether the judge of mutants itself notices. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { THOROUGH } from '../../support/run/thorough.ts'
import { filesBelow } from '../../support/source/sources.ts'
import { TEST_FILES } from '../../support/source/test-files.ts'
import { buildKiller, playKiller, ROOT, witnessAgainst } from '../mutants/build.ts'
import { draw } from '../mutants/drawn/draw.ts'
import { placesIn } from '../mutants/drawn/places.ts'
import { allMutants, drawnLacks } from '../mutants/drawn/stage.ts'
import { LEFT_OUT, SUITE } from '../mutants/drawn/suite.ts'
import { edited, parsed } from '../mutants/drawn/syntax.ts'
import { MUTANTS } from '../mutants/list.ts'
import { broken, type Mutant, rotOf } from '../mutants/mutant.ts'
import { MUTANTS_STAGE } from '../mutants/stage.ts'
import { missed, NOTHING, playAll } from '../stage.ts'

// Builds, and threads of their own: a busy machine takes its time.
test(
  'C8: every text stands where it stood; the mutants of the cut are killed',
  THOROUGH,
  async () => {
    const total = await playAll(MUTANTS_STAGE, 'cut', 1)
    expect(total.described).toEqual([])
    expect(missed(MUTANTS_STAGE, total, 'cut')).toEqual([])
    expect(total.more['texts looked up']).toBe(MUTANTS.length)
    expect(total.distinct).toBe(total.count)
    // R1-E8: those that were drawn of headers are noticed by tests that knew nothing of them.
    expect(total.more['drawn mutants']).toBe(12)
    expect(total.more['drawn and noticed']).toBeGreaterThanOrEqual(9)
  },
)

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
  // On a machine where no play is over in time, it survives as well.
  expect(await witnessAgainst(harmless, 1)).toBeNull()
})

test('C8: a mutant that does not end is noticed, in whatever time it is stopped', async () => {
  const endless: Mutant = {
    ...MUTANTS.find(({ id }) => id === 'f1-dropped')!,
    replace: '  for (;;);\n  commit.ends[STAGE_LANES] = list.count',
  }
  expect(await witnessAgainst(endless, 1)).toBe('it hangs')
})

test('C8: a list that no longer fits the sources is told', () => {
  const mutant = MUTANTS[0]!
  const text = readFileSync(join(ROOT, mutant.file), 'utf8')
  expect(rotOf(mutant, text)).toBeNull()
  expect(rotOf(mutant, text.replace(mutant.find, ''))).toMatch(/does not stand/)
  expect(rotOf(mutant, text + mutant.find)).toMatch(/more than once/)
  expect(rotOf({ ...mutant, replace: mutant.find }, text)).toMatch(/changes nothing/)
})

test('C8: a rule is found in whatever lines and columns its code stands', () => {
  const source = 'call(\n  one, // the first\n  two,\n)\nother(one, two)\n'
  const mutant: Mutant = { ...MUTANTS[0]!, find: 'call(one, two)', replace: 'call(two, one)' }
  expect(rotOf(mutant, source)).toBeNull()
  expect(broken(mutant, source)).toBe('call(two, one)\nother(one, two)\n')
  expect(rotOf({ ...mutant, find: 'call(one, too)' }, source)).toMatch(/does not stand/)
  expect(rotOf({ ...mutant, find: '(one, two)' }, source)).toMatch(/more than once/)
  expect(() => broken({ ...mutant, find: 'all(one, two)' }, source)).toThrow(/does not stand/)
})

test('C8: what hangs, throws or ends without a word has been noticed', async () => {
  expect(await playKiller('for (;;);', '', 200)).toBe('it hangs')
  expect(await playKiller('throw new Error("broken")', '')).toMatch(/broken/)
  expect(await playKiller('', '')).toMatch(/without a word/)
  const program = await buildKiller('directed', null)
  expect(await playKiller(program, 'no such play')).toMatch(/no play is called/)
})

const SOURCE = `import { PASS } from './fault.ts'
const LIMIT: number = 3
export function judge(at: number, log: Log): number {
  assert(at < 7, 'a bug')
  if (at < LIMIT && log.has(at)) return PASS
  log.note(at)
  log.last = at
  return -1
}
`

test('R1-E8: every comparison, constant, operator, call, assignment and order is a mutant', () => {
  const places = placesIn('judge.ts', SOURCE)
  const made = places.map(({ line, kind, edits }) => `${line} ${kind}: ${edits.at(-1)!.text}`)
  expect(made.sort()).toEqual([
    '2 constant: 4',
    '5 comparison: <=',
    '5 logic: ||',
    '6 call dropped: ;',
    '6 swapped: ;log.note(at)',
    '7 assignment dropped: ;',
    '8 constant: 0',
  ])
  const swapped = places.find(({ kind }) => kind === 'swapped')!
  expect(edited(SOURCE, swapped.edits)).toMatch(/last = at\n {2};log.note\(at\)\n {2}return -1/)
  expect(new Set(places.map(({ statement }) => SOURCE.slice(statement).split('\n')[0]))).toEqual(
    new Set([
      'const LIMIT: number = 3',
      'if (at < LIMIT && log.has(at)) return PASS',
      'log.note(at)',
      'log.last = at',
      'return -1',
    ]),
  )
})

test('R1-E8: whatever tests the firmware may notice a drawn mutant, or is left out by name', () => {
  const ofFirmware = TEST_FILES.filter((path) => path.startsWith('test/firmware/'))
  const known = [...SUITE, ...LEFT_OUT]
  expect(ofFirmware.filter((path) => !known.includes(path))).toEqual([])
  expect(new Set(known).size).toBe(known.length)
})

test('R1-E8: of two that are alike either may be taken; the head of a loop is in its loop', () => {
  const source = `function most(of: number[], end: number): number {
  let found = -1
  for (let i = 0; i < end; i++) if (of[i]! > found) found = of[i]!
  return found < end ? found : end
}
`
  const places = placesIn('most.ts', source)
  expect(places.map(({ line, kind }) => `${line} ${kind}`).sort()).toEqual([
    '2 constant',
    '3 arithmetic',
    '3 assignment dropped',
    '3 comparison',
    '3 constant',
  ])
  const head = places.find(({ line, kind }) => line === 3 && kind === 'constant')!
  expect(source.slice(head.statement)).toMatch(/^for/)
})

test('R1-E8: two neighbours are swapped, unless they plainly may change places', () => {
  const isSwapped = (first: string, second: string): boolean => {
    const source = `function f(): void {\n  ${first}\n  ${second}\n}\n`
    return placesIn('pair.ts', source).some(({ kind }) => kind === 'swapped')
  }
  const alike: readonly [first: string, second: string][] = [
    ['into.a = u16(bytes, at)', 'into.b = u32(bytes, at + 2)'],
    ['host.bytes[at + 4] = STATE', 'copy(list, at, to, 4)'],
    ['copyClean(list, at, to, 4, 0)', 'item.done = true'],
    ['state.first += 1', 'state.second += count'],
  ]
  for (const pair of alike) expect([...pair, isSwapped(...pair)]).toEqual([...pair, false])
  const others: readonly [first: string, second: string][] = [
    ['into.a = read(bytes, at)', 'into.b = u32(bytes, at + 2)'],
    ['copy(list, at, to, 4)', 'copy(list, to, at, 4)'],
    ['item.at = 5', 'copy(list, item.at, to, 4)'],
    ['copy(list, at, to, 4)', 'fence(list)'],
    ['state.first += 1', 'state.second = state.first'],
    ['state.first += 1', 'state.first |= 4'],
  ]
  for (const pair of others) expect([...pair, isSwapped(...pair)]).toEqual([...pair, true])
})

test('R1-E8: of two that differ the order is decided by either comparison', () => {
  const source = `function isLater(a: Sequence, b: Sequence): boolean {
  if (a.high !== b.high) return a.high > b.high
  if (a.low !== b.low) return a.low > a.high
  return a.high !== b.high ? b.high < a.high : a.low < b.low
}
`
  const places = placesIn('later.ts', source).map(({ line, edits }) => `${line}: ${edits[0]!.text}`)
  expect(places).toEqual(['2: ===', '3: ===', '3: >=', '4: ===', '4: <='])
})

test('R1-E8: neighbours that commute are not swapped, and marks are not set to other marks', () => {
  const source = `function begin(o: Owner, at: number): number {
  o.stored = 0
  o.uses += at
  o.next.fill(0)
  last = at
  last = last + o.uses
  o.marks[at] = 1
  return at > 0 ? 1 : 0
}
`
  const places = placesIn('begin.ts', source)
  const swapped = places.filter(({ kind }) => kind === 'swapped')
  // The second store of the variable reads what the first one stored.
  expect(swapped.map(({ line }) => line)).toEqual([5])
  const marks = places.filter(({ line, kind }) => line > 6 && kind === 'constant')
  expect(marks.map(({ line, edits }) => `${line}: ${edits[0]!.text}`)).toEqual([
    ...['7: 0', '8: 1', '8: 0', '8: 1'],
  ])
  expect(placesIn('same.ts', 'function fold(): void {\n  fold()\n  fold()\n}\n')).toHaveLength(2)
})

test('R1-E8: an operator beside others of its kind is another one, and still parses', () => {
  const source = 'const first = (a, b, c) => a ?? b ?? c ?? 1\n'
  const made = placesIn('chain.ts', source)
    .filter(({ kind }) => kind === 'logic')
    .map(({ edits }) => edited(source, edits).split('=> ')[1]!.trim())
  expect(made.sort()).toEqual([
    '((a ?? b ?? c) && 1)',
    '((a ?? b) && c) ?? 1',
    '((a) && b) ?? c ?? 1',
  ])
  for (const path of filesBelow('firmware').filter((one) => one.endsWith('.ts'))) {
    const text = readFileSync(join(ROOT, path), 'utf8')
    for (const { kind, edits } of placesIn(path, text)) {
      const isDefault = edits.some(({ start, end }) => text.slice(start, end) === '??')
      if (kind === 'logic' && isDefault) parsed(edited(text, edits))
    }
  }
})

test(
  'R1-E8: mutants are drawn from every file, half of them again for every seed',
  THOROUGH,
  () => {
    const all = allMutants('firmware/')
    const [first, second] = [draw(all, 400, 1), draw(all, 400, 2)]
    const files = new Set(all.map(({ file }) => file))
    for (const drawn of [first, second]) {
      expect(new Set(drawn).size).toBe(400)
      expect(new Set(drawn.map(({ file }) => file))).toEqual(files)
    }
    expect(second.slice(0, 200)).toEqual(first.slice(0, 200))
    const again = new Set(first.slice(200))
    expect(second.slice(200).filter((one) => again.has(one)).length).toBeLessThan(100)
  },
)

test('R1-E8: who lives is told where too few are noticed', () => {
  const lives = 'lives: firmware/wire/arp.ts:1:1 constant'
  const lacks = (noticed: number): readonly string[] => {
    const all = { 'drawn mutants': 102, 'drawn and the same program': 2 }
    const more = { ...all, 'drawn and noticed': noticed }
    return drawnLacks({ ...NOTHING, more, cells: { [lives]: 1 } }, 'ci')
  }
  expect(lacks(99)).toEqual([])
  expect(lacks(40)).toEqual([expect.stringMatching(/^40 of 100 of the drawn mutants/), lives])
})
