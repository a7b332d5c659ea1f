/**
 * The translation of the firmware's hot path to C (boards/linux/aot): a translated function does
 * exactly what the interpreter does, and leaves nothing behind.
 *
 * The cases are every operation on every kind of operand, and whatever has been thought of;
 * the rest is drawn. Skipped where nothing can be compiled. SEED replays what was drawn. FULL=1
 * takes all operands and the board's own level of optimization, minutes more; SEEDS=N draws N
 * larger programs, a minute or two each.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { listOfCases, OPERATIONS, OPERATIONS_DRIVEN } from './support/native/aot-cases.ts'
import {
  type Findings,
  functionsOf,
  type Part,
  playProgram,
  whyNot,
} from './support/native/aot-program.ts'
import { randomDriven, randomFunctions } from './support/native/aot-random.ts'
import { SPECIAL, SPECIAL_DRIVEN } from './support/native/aot-special.ts'
import { VALUES, WORDS } from './support/native/aot-values.ts'
import { titled } from './support/native/harness.ts'

const FULL = process.env.FULL === '1'
const SEED = Number(process.env.SEED ?? 20261122)
const SEEDS = Number(process.env.SEEDS ?? 0)
const LEVEL = FULL ? '-O1' : '-O0'
/** Of a program; each is called so many times. */
const RANDOM = { functions: 60, calls: 40 }
const MORE_RANDOM = { functions: 300, calls: 100 }
const MINUTES = 60_000

const HELPERS: Part = { file: 'aot/helpers.ts', text: WORDS + VALUES, isTranslated: false }

function translated(name: string, text: string): Part {
  return { file: `aot/${name}.ts`, text, isTranslated: true }
}

function driver(...texts: readonly string[]): Part {
  return { file: 'aot/driver.ts', text: texts.join('\n'), isTranslated: false }
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

const because = whyNot()

describe.skipIf(because !== null)(titled('the translated firmware', because), () => {
  test(
    `every operation does what the interpreter does, and so do drawn functions, seed ${SEED}`,
    () => {
      const { functions, calls } = RANDOM
      const parts = [
        HELPERS,
        translated('operations', OPERATIONS),
        translated('special', SPECIAL),
        translated('random', randomFunctions(SEED, functions)),
        driver(
          ...[listOfCases(FULL), OPERATIONS_DRIVEN, SPECIAL_DRIVEN],
          randomDriven(SEED, functions, calls),
        ),
      ]
      const found = playProgram(parts, LEVEL)
      expectSame(found, parts)
      expect(found.cases).toBeGreaterThan(20_000)
      expect(found.bytes).toBeGreaterThan(10_000_000)
    },
    20 * MINUTES,
  )

  test('a function that does something else is found', () => {
    const parts = [
      translated('runs', '  function which(a) { return [a, runs()] }'),
      driver('  globalThis.cases = () => 2\n  globalThis.play = (i) => String(which(i)[i])'),
    ]
    const found = playProgram(parts, LEVEL)
    expect(found.functions).toEqual([0, 1])
    expect(found.differences).toBe(1)
    expect(found.text).toBe('case 1, from byte 0:\n- 1\n+ 2\n')
  })

  const seeds = Array.from({ length: SEEDS }, (_, i) => SEED + 1 + i)
  test.each(seeds)(
    'drawn functions, seed %i',
    (seed) => {
      const kept = mkdtempSync(join(tmpdir(), 'perdure-aot-'))
      try {
        const { functions, calls } = MORE_RANDOM
        const parts = [
          HELPERS,
          translated('random', randomFunctions(seed, functions)),
          driver(listOfCases(false), randomDriven(seed, functions, calls)),
        ]
        expectSame(playProgram(parts, LEVEL, kept), parts)
      } finally {
        rmSync(kept, { recursive: true, force: true })
      }
    },
    20 * MINUTES,
  )
})
