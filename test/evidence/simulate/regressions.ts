/**
 * Seeds that have found something: they are played in every run, of every size.
 *
 * Each names the world that was asked for, and what it was.
 */

import type { World } from './shape.ts'

export interface Regression {
  readonly seed: number
  readonly world: World
  /** What was wrong when it was found. */
  readonly found: string
}

export const REGRESSIONS: readonly Regression[] = [
  {
    seed: 14,
    world: 'calm',
    found: 'a plain WRITE of a record was acknowledged with the group that made way for it',
  },
  {
    seed: 329750064,
    world: 'media',
    found: 'readers were shown a first copy that the next start takes back, as its line refused it',
  },
]
