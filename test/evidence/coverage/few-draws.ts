/**
 * What stands for fast-check where branches are counted: a property is tried with few draws, and
 * with the same ones each time, in QuickJS with fewer yet. The suite tries it with all of them.
 */

import fc from 'fast-check'

const DRAWS_MAX = process.env.VITEST === undefined ? 20 : 800
const SEED = 1

function assertFew<T>(property: fc.IRawProperty<T>, options: fc.Parameters<T> = {}): unknown {
  const numRuns = Math.min(options.numRuns ?? DRAWS_MAX, DRAWS_MAX)
  return fc.assert(property, { seed: SEED, ...options, numRuns })
}

const few: unknown = { ...fc, assert: assertFew }
export default few
