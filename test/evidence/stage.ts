/**
 * What a stage of the evidence is: a kind of attack on the promise that nothing acknowledged is
 * lost and nothing torn is returned, cut into shards that workers play side by side.
 *
 * Invariants:
 * - A shard is plain data, and what it does follows from it alone: the same shard gives the same
 *   tally on every machine, whatever ran beside it. Time appears in no decision.
 * - Shards of a stage have nothing in common, so that counts of distinct things may be added.
 * - Every violation names an argument that plays it again: `npm run evidence -- --replay`.
 */

import type { Timeline } from '../../host-driver/command/timeline/data.ts'

/**
 * How much is played. `cut`: seconds, inside `npm test`, with fixed seeds; `ci`: all stages in
 * some 35 minutes on two cores; `nightly`: days, or what fits into the minutes it is given.
 */
export type Size = 'cut' | 'ci' | 'nightly'

/** What one worker plays in one go. */
export interface Shard {
  /** Unique within the stage. */
  readonly name: string
  /** Where its chance comes from; printed with whatever it finds. */
  readonly seed: number
  /** CPU seconds that it takes, about: the longest shards begin first. */
  readonly seconds: number
  readonly options: Readonly<Record<string, string | number | boolean>>
}

/** Something that must not be. */
export interface Violation {
  readonly shard: string
  /** One sentence: what happened, where. */
  readonly what: string
  /** Argument of `--replay STAGE ARGUMENT`; a seed, or a short script in one line. */
  readonly replay: string
}

/** What was played, and what came of it. Tallies of shards are added up. */
export interface Tally {
  /** How many of the stage's units: images, operations, inputs, mutants, branches. */
  readonly count: number
  /** How many of them differ, as the stage's title says. */
  readonly distinct: number
  /** Seeds played. */
  readonly seeds: number
  /** Violations met; only the first few of each shard are described. */
  readonly violations: number
  readonly described: readonly Violation[]
  /** Further counts by name, for the table's second part: 'power cuts', 'losses said'. */
  readonly more: Readonly<Record<string, number>>
  /** How often each cell was met: (phase × class × strategy), refusal reason, opcode. */
  readonly cells: Readonly<Record<string, number>>
  /** Data of the page: see page.ts. Kept as they come, one for each picture. */
  readonly pictures: readonly unknown[]
}

export const NOTHING: Tally = {
  count: 0,
  distinct: 0,
  seeds: 0,
  violations: 0,
  described: [],
  more: {},
  cells: {},
  pictures: [],
}

/** A count that a run must reach. */
export interface Floor {
  /** 'count', 'distinct', 'seeds', or the name of one of `more`. */
  readonly of: string
  readonly least: number
}

/** What a replay found. */
export interface Replayed {
  readonly violated: boolean
  /** The story, line by line: what was done, what left, what is on the medium, who objects. */
  readonly text: string
  /** What happened, to look at. */
  readonly timeline?: Timeline
}

export interface Stage {
  /** One word: `--stage NAME`. */
  readonly name: string
  /** Its place in the plan: C1 … C13. */
  readonly id: string
  /** What it shows, in a few words, for the table. */
  readonly title: string
  /** What is counted, in the plural. */
  readonly unit: string
  readonly floors: Readonly<Record<Size, readonly Floor[]>>
  /**
   * A worker may play several of its shards: none leaves anything behind that another can see, nor
   * memory that is not given back.
   */
  readonly shardsFollow?: boolean
  /** The shards of a run of that size; `seed` is that of the whole run. */
  shards(size: Size, seed: number): readonly Shard[]
  /** Plays a shard. `progress` may be called often, with the share that is done, 0 to 1. */
  play(shard: Shard, progress: (share: number) => void): Promise<Tally>
  /** What the whole lacks: cells that nothing reached. One sentence each; empty if all is well. */
  lacks?(total: Tally, size: Size): readonly string[]
  replay(argument: string): Promise<Replayed>
}

function addCounts(
  a: Readonly<Record<string, number>>,
  b: Readonly<Record<string, number>>,
): Record<string, number> {
  const sum = { ...a }
  for (const [name, count] of Object.entries(b)) sum[name] = (sum[name] ?? 0) + count
  return sum
}

export function addTally(a: Tally, b: Tally): Tally {
  return {
    count: a.count + b.count,
    distinct: a.distinct + b.distinct,
    seeds: a.seeds + b.seeds,
    violations: a.violations + b.violations,
    described: [...a.described, ...b.described],
    more: addCounts(a.more, b.more),
    cells: addCounts(a.cells, b.cells),
    pictures: [...a.pictures, ...b.pictures],
  }
}

/** The value that a floor is about. */
export function countOf(tally: Tally, of: string): number {
  if (of === 'count' || of === 'distinct' || of === 'seeds') return tally[of]
  return tally.more[of] ?? 0
}

/** Floors that were not reached, as sentences. */
export function missed(stage: Stage, total: Tally, size: Size): string[] {
  return stage.floors[size].flatMap(({ of, least }) => {
    const value = countOf(total, of)
    if (value >= least) return []
    const name = of === 'count' ? stage.unit : of
    return [`${value.toLocaleString('en')} ${name}, and ${least.toLocaleString('en')} are asked`]
  })
}

/** Plays the shards of a size one after the other, here: what the suite does. */
export async function playAll(stage: Stage, size: Size, seed: number): Promise<Tally> {
  let total = NOTHING
  for (const shard of stage.shards(size, seed)) {
    total = addTally(total, await stage.play(shard, () => {}))
  }
  return total
}
