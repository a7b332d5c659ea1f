/** The verdict of `npm run bench`: a floor that is broken is told by the exit code. */

import { expect, test } from 'vitest'
import { Calibration } from '../support/bench/calibration.ts'
import { holds as guardHolds } from '../support/bench/guard-cost.ts'
import { ENGINES, exitCodeOf, floorOf, holds, type Measured } from './bench-floors.ts'

const HELD = { recordBytes: 64, burst: 32 } as const

/** A row of each engine, at so many times its floor; rows that are held to nothing beside them. */
function rowsAt(times: Readonly<Record<string, number>>): Measured[] {
  return ENGINES.flatMap((engine) => {
    const row = { engine, ...HELD, recordsPerThousandTurns: 0 }
    const free = { ...row, recordBytes: 4096, recordsPerThousandTurns: 0.001 }
    return [{ ...row, recordsPerThousandTurns: floorOf(row) * times[engine]! }, free]
  })
}

test('floors that hold end with 0', () => {
  expect(exitCodeOf(rowsAt({ node: 1, quickjs: 1 }))).toBe(0)
})

test.each(ENGINES)('a floor that is broken in %s ends with 1', (engine) => {
  const rows = rowsAt({ node: 1, quickjs: 1, [engine]: 0.99 })
  expect(exitCodeOf(rows)).toBe(1)
  expect(rows.filter((row) => !holds(row)).map((row) => row.engine)).toEqual([engine])
})

test.each(ENGINES)('an engine that was not held to anything ends with 1: %s', (engine) => {
  const rows = rowsAt({ node: 2, quickjs: 2 })
  expect(exitCodeOf(rows.filter((row) => row.engine !== engine || row.burst !== 32))).toBe(1)
})

test('what is no number breaks its floor', () => {
  expect(exitCodeOf(rowsAt({ node: Number.NaN, quickjs: 1 }))).toBe(1)
})

test.each(ENGINES)('the loop that floors are ratios to turns in %s', async (engine) => {
  const turns = (await Calibration.in(engine)).look()
  expect(turns).toBeGreaterThan(1000)
  expect(turns).toBeLessThan(1e10)
})

test('S1-M1: in bursts of 32 a guard costs at most a tenth of 64 bytes, a third of 4096', () => {
  const held = (recordBytes: number, ...ratios: number[]): boolean[] =>
    ratios.map((ratio) => guardHolds({ recordBytes, burst: 32, ratio }))
  expect(held(64, 1.1, 1.11, Number.NaN)).toEqual([true, false, false])
  expect(held(4096, 1.35, 1.36, Number.NaN)).toEqual([true, false, false])
})
