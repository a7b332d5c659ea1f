/**
 * Batches in order at every crash: what is there afterwards are the first records of the batch,
 * each of them whole, and all that was acknowledged (X-5, P4-13; D-10).
 *
 * Invariant: every point between two fences is visited, at which some lanes may say A and
 * some B. Of two records subsets of the pending chunks are left; of three the lanes are whole, of
 * four every line is, and of images that a recovery sees alike the first few are booted. The
 * batch before has left its lanes, linked as well. Without the links the same exploration finds a
 * record that outlives the one before it.
 */

import { expect, test } from 'vitest'
import { dataOf } from '../../support/cards/test-card.ts'
import {
  type Damage,
  explore,
  type Findings,
  type Level,
  type Scenario,
  SEED,
  summary,
  type Write,
} from '../../support/crash/explorer.ts'
import {
  LEVEL_1OF2,
  LEVEL_2OF2,
  LEVEL_2OF3,
  LEVELS,
  levelName,
} from '../../support/crash/scenario.ts'
import { thoroughIf } from '../../support/run/thorough.ts'

/** Looks at more images of each kind: minutes. */
const FULL = process.env.FULL === '1'

/** Records of which only what must change changes: sequence, operation, check code, 8 bytes. */
function recordsOf(count: number, seed: number, wait: number): Write[] {
  return Array.from({ length: count }, (_, slot) => {
    const data = dataOf(64, slot)
    data.set(dataOf(8, seed + slot), 24)
    return { slot, data, wait }
  })
}

/** A batch of so many records over another one, whose lanes are still set. */
function batchOf(count: number, { wait, copies }: Level): Scenario {
  return {
    name: `${count} records in order at ${wait}of${copies}`,
    shape: { copies },
    before: (actor) => actor.batch(...recordsOf(count, 10, 2)),
    during: (actor) => {
      actor.batch(...recordsOf(count, 20, wait))
      actor.idle()
    },
    inOrder: Array.from({ length: count }, (_, slot) => slot),
  }
}

/** How much is looked at of a batch of so many. */
function lookOf(count: number, { wait, copies }: Level): Partial<Scenario> {
  // Every subset of two copies is one of these, with FULL; of two lanes, it is a sample.
  if (FULL && count === 2 && wait === copies) return { sample: 2 ** 10 }
  if (count === 2) return { sample: FULL ? 2 ** 10 : 2 ** 8, perClass: FULL ? 16 : 4 }
  if (count === 3) return { wholeLanes: true, perClass: FULL ? 4 : 2 }
  return { mode: 'line', perClass: FULL ? 8 : 2 }
}

function explored(scenario: Scenario): Findings {
  const found = explore(scenario)
  console.log(summary(found))
  if (found.witnesses.length > 0) console.log(`  ${found.witnesses[0]}`)
  return found
}

/**
 * How many images are before F3: each lane says A or B, and the line that the batch's client has in
 * the operation table is there or not, as it is stored beside the phase words.
 */
function imagesBeforeF3(count: number): number {
  return 2 ** count * 2
}

/** Images in which a record says B, and one before it says A. */
function overtaking(found: Findings): string[] {
  return [...found.classes.keys()].filter((name) => /lane \d A, .*lane \d B/.test(name))
}

for (const level of LEVELS) {
  for (const count of [2, 3, 4]) {
    const name = `${count} records at ${levelName(level)}`
    test(
      `X-5, P4-13, D-10: ${name}: the first ones are there at every crash, no other`,
      thoroughIf(count > 2 || level !== LEVEL_2OF2),
      () => {
        const found = explored({ ...batchOf(count, level), ...lookOf(count, level) })
        expect(found.witnesses, `SEED=${SEED}`).toEqual([])
        expect(overtaking(found).length).toBeGreaterThan(0)
      },
    )
  }
}

for (const [level, count] of [
  [LEVEL_1OF2, 2],
  [LEVEL_2OF2, 2],
  [LEVEL_2OF3, 2],
] as const) {
  const name = `${count} records at ${levelName(level)}`
  test(
    `X-5, P1-26: ${name}: a recovery that is cut at every command takes back as many`,
    thoroughIf(level !== LEVEL_2OF2),
    () => {
      const scenario = {
        ...batchOf(count, level),
        only: 'before F3',
        nested: 1,
        nestedSample: FULL ? 2 ** 2 : 2,
      }
      const found = explored(scenario)
      expect(found.witnesses, `SEED=${SEED}`).toEqual([])
      expect(found.images).toBe(imagesBeforeF3(count))
      expect(found.nested).toBeGreaterThan(50)
    },
  )
}

const UNLINKED: Damage = { unlinked: true }

for (const level of LEVELS) {
  test(`X-5: ${levelName(level)}: without links of lanes a record outlives another`, () => {
    for (const count of [2, 3, 4]) {
      const found = explored({ ...batchOf(count, level), only: 'before F3', damage: UNLINKED })
      expect(found.images).toBe(imagesBeforeF3(count))
      // All but those in which the lanes that say B are the first ones, whatever the table says.
      expect(found.violations).toBe(imagesBeforeF3(count) - 2 * (count + 1))
      expect(found.witnesses.every((witness) => /of the batch is there/.test(witness))).toBe(true)
    }
  })
}
