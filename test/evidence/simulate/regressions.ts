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
  {
    seed: 2654448807,
    world: 'health',
    found: 'world: of two cards one was off when it was to be cut',
  },
  {
    seed: 2654437828,
    world: 'health',
    found: 'judge: a record was not given up, as the part was not armed, and was taken for blank',
  },
  {
    seed: 2654447838,
    world: 'mixed',
    found: "judge: the power went as a record was given up, and its copies were nobody's to change",
  },
  {
    seed: 2654451803,
    world: 'mixed',
    found:
      'world: a failing save took back that a region was made, and clients asked for it for ever',
  },
  {
    seed: 2654497803,
    world: 'mixed',
    found: 'judge: a line refused a repair, and the lane that knew of it was lost by another error',
  },
]
