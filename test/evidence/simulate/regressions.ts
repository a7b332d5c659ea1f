/**
 * Seeds that have found something, in the product or in its judges: they are played in every run,
 * of every size.
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
  {
    seed: 2654522819,
    world: 'network',
    found: 'judge: a record of a batch was overwritten by one sent again, before its status left',
  },
  {
    seed: 2654465833,
    world: 'network',
    found: 'judge: the packets of an answer were of two executions of a READ',
  },
  {
    seed: 2654532763,
    world: 'network',
    found: 'judge: an answer came so late that the version it shows was forgotten',
  },
  {
    seed: 2654523806,
    world: 'media',
    found: 'judge: a record was mended between the refusal of a READ and its arrival',
  },
  {
    seed: 2654469778,
    world: 'media',
    found: 'judge: a line that refused stores was well again, and its record still of two ages',
  },
]
