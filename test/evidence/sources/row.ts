/**
 * A row: what an id promises, broken by one change, and the test of the suite that notices.
 *
 * Invariant: one row for an id, and its test fails by what it expects or by what the product says,
 * never because the changed text is no program.
 */

import type { Change } from '../mutants/mutant.ts'

export interface Row extends Change {
  /** Of the requirements: `P1-9`, `D-2`, `S1-M4`. */
  readonly id: string
  /** What the product does with the change, in a few words. */
  readonly broken: string
  /** The test file, from the root, which imports the changed source itself. */
  readonly test: string
  /** Part of the title of one of its tests, as it stands there. */
  readonly title: string
}

/** The variable of the environment with the change of a run, as JSON; without it there is none. */
export const CHANGE = 'PERDURE_CHANGE'
