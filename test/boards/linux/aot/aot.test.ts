/**
 * The translation of the firmware's hot path to C (boards/linux/aot): a translated function does
 * exactly what the interpreter does, and leaves nothing behind.
 *
 * The cases are every operation on every kind of operand, and whatever has been thought of; the
 * rest is drawn. A profile is only a hint: learned of all cases or of a few that are all alike,
 * drawn, or of another program, every case ends as it does in the interpreter. One that is none is
 * refused.
 *
 * Skipped where nothing can be compiled. SEED replays what was drawn. FULL=1 takes all operands,
 * all cases with every profile, and the board's own level of optimization, minutes more; SEEDS=N
 * draws N larger programs and profiles, two minutes each.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { lostFunctions } from '../../../../boards/linux/profile.ts'
import {
  listOfCases,
  OPERATIONS,
  OPERATIONS_DRIVEN,
} from '../../../support/native/aot/aot-cases.ts'
import {
  HINTED,
  HINTED_DRIVEN,
  LITERALS_AFTER,
  LITERALS_DECLARED,
} from '../../../support/native/aot/aot-hinted.ts'
import { drawProfile, takeTurns } from '../../../support/native/aot/aot-profiles.ts'
import {
  type Findings,
  functionsOf,
  type Part,
  type Playing,
  playProgram,
  translatedFirmware,
  translated as translatedText,
  whyNot,
} from '../../../support/native/aot/aot-program.ts'
import { randomDriven, randomFunctions } from '../../../support/native/aot/aot-random.ts'
import { SPECIAL, SPECIAL_DRIVEN } from '../../../support/native/aot/aot-special.ts'
import { VALUES, WORDS } from '../../../support/native/aot/aot-values.ts'
import { titled } from '../../../support/native/harness.ts'
import { THOROUGH } from '../../../support/run/thorough.ts'

const FULL = process.env.FULL === '1'
const SEED = Number(process.env.SEED ?? 20261122)
const SEEDS = Number(process.env.SEEDS ?? 0)
const LEVEL = FULL ? '-O1' : '-O0'
/** Without the checks of the C's own stack, and with the others as calls, it is made sooner. */
const FLAGS = FULL
  ? []
  : ['--param', 'asan-stack=0', '--param', 'asan-instrumentation-with-call-threshold=0']
/** Of a program; each is called so many times. */
const RANDOM = { functions: 60, calls: 40 }
const MORE_RANDOM = { functions: 300, calls: 100 }
/** With a profile each of so many cases is played, and fewer functions are drawn. */
const STEP = FULL ? 1 : 6
const RANDOM_HINTED = FULL ? RANDOM : { functions: 16, calls: 40 }
/** A function gives up on its profile soon, and tries it soon again. */
const RESTLESS = ['-DAOT_LEAVES_MAX=3', '-DAOT_REST_CALLS=5']

const HELPERS: Part = { file: 'aot/helpers.ts', text: WORDS + VALUES, isTranslated: false }

function translated(name: string, text: string): Part {
  return { file: `aot/${name}.ts`, text, isTranslated: true }
}

function driver(...texts: readonly string[]): Part {
  return { file: 'aot/driver.ts', text: texts.join('\n'), isTranslated: false }
}

/** The program of all cases, of which each `step` is played. */
function wholeProgram(seed: number, random: typeof RANDOM, step: number): readonly Part[] {
  const { functions, calls } = random
  return [
    HELPERS,
    { file: 'aot/literals.ts', text: LITERALS_DECLARED, isTranslated: false },
    translated('operations', OPERATIONS),
    translated('special', SPECIAL),
    translated('hinted', HINTED),
    translated('random', randomFunctions(seed, functions)),
    driver(
      ...[listOfCases(FULL, step), OPERATIONS_DRIVEN, SPECIAL_DRIVEN, HINTED_DRIVEN],
      ...[randomDriven(seed, functions, calls), LITERALS_AFTER],
    ),
  ]
}

/** All functions that are written ran translated; nothing tells them from interpreted ones. */
function expectSame(found: Findings, parts: readonly Part[]): void {
  const written = parts.filter((part) => part.isTranslated).map((part) => functionsOf(part.text))
  expect(found.text).toBe('')
  expect(found.differences).toBe(0)
  expect(found.functions).toEqual([0, written.reduce((sum, count) => sum + count, 0)])
  expect(found.allocations[1]).toBe(found.allocations[0])
  expect(found.objects[1]).toBe(found.objects[0])
}

/** What is drawn for functions and profiles beside SEED is made in a folder that goes. */
function inFolder<T>(use: (kept: string) => T): T {
  const kept = mkdtempSync(join(tmpdir(), 'perdure-aot-'))
  try {
    return use(kept)
  } finally {
    rmSync(kept, { recursive: true, force: true })
  }
}

const because = whyNot()

describe.skipIf(because !== null)(titled('the translated firmware', because), () => {
  test(
    `every operation does what the interpreter does, and so do drawn functions, seed ${SEED}`,
    THOROUGH,
    () => {
      const parts = wholeProgram(SEED, RANDOM, 1)
      const found = playProgram(parts, { level: LEVEL, flags: FLAGS })
      expectSame(found, parts)
      expect(found.cases).toBeGreaterThan(20_000)
      expect(found.bytes).toBeGreaterThan(10_000_000)
    },
  )

  test('a function that does something else is found', THOROUGH, () => {
    const parts = [
      translated('runs', '  function which(a) { return [a, runs()] }'),
      driver('  globalThis.cases = () => 2\n  globalThis.play = (i) => String(which(i)[i])'),
    ]
    const found = playProgram(parts, { level: LEVEL })
    expect(found.functions).toEqual([0, 1])
    expect(found.differences).toBe(1)
    expect(found.text).toBe('case 1, from byte 0:\n- 1\n+ 2\n')
  })

  test('the profile that the build goes by is of this firmware', THOROUGH, () => {
    const { text, profile } = translatedFirmware()
    const { lost, count } = lostFunctions(profile, text)
    expect(count).toBeGreaterThan(100)
    const what = `${lost.join(', ')} are not in the bundle: npm run bench:native -- --learn`
    expect(lost.length / count, what).toBeLessThanOrEqual(0.1)
  })

  const seeds = Array.from({ length: SEEDS }, (_, i) => SEED + 1 + i)
  test.each(seeds)('drawn functions, seed %i', THOROUGH, (seed) => {
    const { functions, calls } = MORE_RANDOM
    const parts = [
      HELPERS,
      translated('random', randomFunctions(seed, functions)),
      driver(listOfCases(false), randomDriven(seed, functions, calls)),
    ]
    expectSame(
      inFolder((kept) => playProgram(parts, { level: LEVEL, kept })),
      parts,
    )
  })
})

describe.skipIf(because !== null)(titled('a profile of the translation', because), () => {
  const parts = wholeProgram(SEED, RANDOM_HINTED, STEP)
  const quick = { level: LEVEL, flags: FLAGS }
  const learned = new Map<number, string>()
  /** What a share of the cases shows, 0: all; a program that learns is as any other. */
  function learn(share: number): string {
    const known = learned.get(share)
    if (known !== undefined) return known
    const found = playProgram(parts, { ...quick, learns: true, share })
    expectSame(found, parts)
    learned.set(share, found.profile)
    return found.profile
  }
  function expectHint(profile: string, playing: Playing = quick): void {
    const found = playProgram(parts, { ...playing, profile })
    expectSame(found, parts)
    expect(found.cases).toBeGreaterThan(40_000 / STEP)
  }

  test(
    'learned of all cases: as without, whether surprises are few or a function gives up on it',
    THOROUGH,
    () => {
      const profile = learn(0)
      expect(profile.split('\n').length).toBeGreaterThan(900)
      expectHint(profile, { ...quick, flags: [...FLAGS, ...RESTLESS] })
    },
  )

  test(
    'learned of calls that are all alike: as without, though everything else is a surprise',
    THOROUGH,
    () => expectHint(takeTurns([1, 2, 3].map((share) => learn(share)))),
  )

  test(`drawn, right and wrong: as without, seed ${SEED}`, THOROUGH, () =>
    expectHint(drawProfile(learn(0), SEED)),
  )

  test(
    'R1-A8: a function that strange frames led astray comes back when they are over',
    THOROUGH,
    () => {
      const [strange, plain] = [200_000, 300_000]
      const parts = [
        translated('sum', '  function sum(a, b) { return a + b }'),
        driver(
          '  globalThis.cases = () => 2',
          '  globalThis.play = (i) => {',
          '    const isStrange = i === 0 && share() === 0',
          '    const one = isStrange ? 0.5 : 1',
          '    let last = 0',
          `    for (let k = isStrange ? ${strange} : ${plain}; k > 0; k--) last = sum(k, one)`,
          '    return String(last)',
          '  }',
        ),
      ]
      const { profile } = playProgram(parts, { ...quick, learns: true, share: 1 })
      const found = playProgram(parts, { ...quick, profile })
      expect(found).toMatchObject({ text: '', differences: 0 })
      // It gave up on its profile soon, tried it now and then, and went by it again at last.
      expect(found.resumes).toBeGreaterThan(1000)
      expect(found.resumes).toBeLessThan(3000)
      expect(found.rests).toBeGreaterThan(strange - 3000)
      expect(found.rests).toBeLessThan(strange + 65_536)
    },
  )

  test('what was seen to go beyond the integers, or into bytes, resumes never', THOROUGH, () => {
    const parts = [
      translated('owner', '  function owner(i, psn) { return (i + 1) * 2 ** 24 - -psn }'),
      translated(
        'put',
        '  function put(to, v) { to[0] = v >> 24; to[1] = v >> 16; to[2] = v; return to[2] }',
      ),
      driver(
        '  const arrays = [Uint8Array, Int16Array, Uint16Array].map((Of) => new Of(3))',
        '  globalThis.cases = () => 600',
        '  globalThis.play = (i) => {',
        '    const wide = owner(i, 2 ** 24 - 1)',
        '    return String([wide, ...arrays.map((to) => put(to, wide % 2 ** 32))])',
        '  }',
      ),
    ]
    const { profile } = playProgram(parts, { ...quick, learns: true, share: 0 })
    const found = playProgram(parts, { ...quick, profile })
    expect(found).toMatchObject({ text: '', differences: 0, resumes: 0 })
  })

  const small = [
    translated('small', '  function sum(a, o) { return a + o.x }'),
    driver('  globalThis.cases = () => 9\n  globalThis.play = (i) => sum(i, { x: i / 2 })'),
  ]
  /** Whether a function was seen at all says only where it lies. */
  const plain = (text: string) => text.replaceAll('__attribute__((cold)) ', '')

  test('of another program, it changes nothing', () => {
    const without = translatedText(small, '')
    const hash = /^\/\* sum ([0-9a-f]+) ([0-9a-f]+) \*\/$/m.exec(without)
    const [, named, bytes] = hash!
    const notes = Array.from({ length: 9 }, (_, at) => ` ${at}:10001`).join('')
    const more = (Number.parseInt(bytes!, 16) + 1).toString(16)
    for (const head of [`sum 1 ${bytes}`, `some ${named} ${bytes}`, `sum ${named} ${more}`]) {
      expect(plain(translatedText(small, `${head}${notes}\n`)), head).toBe(plain(without))
    }
    const hinted = translatedText(small, `sum ${named} ${bytes}${notes}\n`)
    expect(plain(hinted)).not.toBe(plain(without))
  })

  test.each(['no profile', 'sum', 'sum 1', 'sum 1 x', 'sum x 1', 'sum 1 0', 'sum 1 -5', '-'])(
    'a line that is none is refused: %s',
    THOROUGH,
    (line) => {
      for (const text of [`${line}\n`, `# learned\nsum 1 7 0:1\n${line}\n`]) {
        expect(() => translatedText(small, text)).toThrow(`translate: no profile: ${line}`)
      }
    },
  )

  const seeds = Array.from({ length: SEEDS }, (_, i) => SEED + 1 + i)
  test.each(seeds)('drawn, seed %i', THOROUGH, (seed) => {
    const profile = drawProfile(learn(0), seed)
    inFolder((kept) => expectHint(profile, { ...quick, kept }))
  })
})
