/**
 * Which tests of parts play in QuickJS: it is thirty times slower than Node, so those do that take
 * a branch which it has not taken yet, and of several that take it the one that costs least.
 *
 * Invariant: what a test costs is how many branches it passes, counted, so that the same
 * tests are chosen on every machine.
 */

/** Instead of the place of a test: what is taken when the file is loaded. */
export const LOADED = -1

/** What a test takes, and what it costs. */
export interface Taken {
  /** In the order of the file, from 0; or LOADED. */
  readonly place: number
  /** Numbers of branches. */
  readonly branches: readonly number[]
  /** How many branches it passed, each time counted. */
  readonly cost: number
}

/** Marks that count: that of a branch is never set, and so it is told each time. */
export class Counter {
  readonly tests: Taken[] = []
  readonly marks: Uint8Array
  private readonly seen: Uint8Array
  private cost = 0

  constructor(branches: number) {
    this.marks = new Uint8Array(branches)
    this.seen = new Uint8Array(branches)
  }

  readonly hit = (branch: number): void => {
    this.seen[branch] = 1
    this.cost++
  }

  /** What was taken since the last time belongs to that test. */
  readonly ended = (place: number): void => {
    const { seen, cost } = this
    const branches = [...seen.keys()].filter((branch) => seen[branch] === 1)
    this.tests.push({ place, branches, cost })
    seen.fill(0)
    this.cost = 0
  }
}

/**
 * Places of tests that together take all branches that are `wanted` and any of them takes; LOADED
 * first if that is worth it.
 */
export function needed(tests: readonly Taken[], wanted: Uint8Array): number[] {
  const cheapest = [...tests].sort((a, b) => a.cost - b.cost)
  const times = new Uint32Array(wanted.length)
  const chosen = cheapest.filter(({ branches }) => {
    const isNew = branches.some((branch) => wanted[branch] === 1 && times[branch] === 0)
    if (isNew) for (const branch of branches) times[branch]! += 1
    return isNew
  })
  // The dearest first: what it takes may be taken by several that came later.
  const kept = chosen.reverse().filter(({ branches }) => {
    const isAlone = branches.some((branch) => wanted[branch] === 1 && times[branch] === 1)
    if (!isAlone) for (const branch of branches) times[branch]! -= 1
    return isAlone
  })
  return kept.map(({ place }) => place).sort((a, b) => a - b)
}
