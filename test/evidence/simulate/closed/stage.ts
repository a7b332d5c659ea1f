/**
 * C13: the worlds of C3 with peers, sessions and tags, and somebody inside the network who reads
 * and writes every frame (attacker.ts). The same judges look on: nothing that he does loses,
 * changes or reads a record, runs a call, or makes a client believe what its card did not say. When
 * he falls silent every operation ends.
 */

import type { Shard, Size, Stage, Tally } from '../../stage.ts'
import { addTally, NOTHING } from '../../stage.ts'
import { playScript } from '../play.ts'
import { attackedScript, scriptOf, WORLDS } from '../shape.ts'
import { describe, SIMULATE, seedOf, tallyOf } from '../stage.ts'
import { ATTACKS } from './attacker.ts'

interface Plan {
  readonly shards: number
  readonly seedsEach: number
  /** Steps of each script. */
  readonly steps: number
}

/** Every shard has seeds of every world. */
const PLANS: Readonly<Record<Size, Plan>> = {
  cut: { shards: 1, seedsEach: 10, steps: 50 },
  ci: { shards: 18, seedsEach: 10, steps: 240 },
  nightly: { shards: 1_800, seedsEach: 10, steps: 240 },
}

/** Seconds of CPU that a step takes, about: nearly all of it for the curves of handshakes. */
const STEP_SECONDS = 0.01
/** Violations of a shard that are made short, and told. */
const TOLD_MOST = 2

async function playOne(shard: Shard, i: number, isTold: boolean): Promise<Tally> {
  const { seed, name, options } = shard
  const own = seedOf(seed, Number(options.place), i)
  const world = WORLDS[i % WORLDS.length]!
  const script = attackedScript(scriptOf(own, Number(options.steps), world))
  const played = await playScript(script, own)
  const [violation] = played.violations
  const described =
    violation === undefined || !isTold ? [] : [await describe(name, own, script, violation)]
  const tally = tallyOf(played, described)
  const attacks = ATTACKS.reduce((sum, attack) => sum + (played.counts[attack] ?? 0), 0)
  return { ...tally, distinct: 1, more: { ...tally.more, attacks } }
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const seeds = Number(shard.options.seeds)
  let total = NOTHING
  for (let i = 0; i < seeds; i++) {
    total = addTally(total, await playOne(shard, i, total.described.length < TOLD_MOST))
    progress((i + 1) / seeds)
  }
  return total
}

export const ATTACK: Stage = {
  name: 'attack',
  id: 'C13',
  title: 'somebody inside the network, who has no key',
  unit: 'operations',
  shardsFollow: true,
  floors: {
    cut: [
      { of: 'count', least: 1_500 },
      { of: 'attacks', least: 1_000 },
    ],
    ci: [
      { of: 'count', least: 200_000 },
      { of: 'attacks', least: 150_000 },
      { of: 'power cuts', least: 10_000 },
    ],
    nightly: [
      { of: 'count', least: 20_000_000 },
      { of: 'attacks', least: 15_000_000 },
      { of: 'power cuts', least: 1_000_000 },
    ],
  },
  shards: (size, seed) => {
    const { shards, seedsEach, steps } = PLANS[size]
    return Array.from({ length: shards }, (_, place) => ({
      name: `seeds-${place}`,
      seed,
      seconds: seedsEach * steps * STEP_SECONDS,
      options: { place, seeds: seedsEach, steps },
    }))
  },
  play,
  lacks: (total) =>
    ATTACKS.filter((attack) => total.cells[attack] === undefined).map(
      (attack) => `nobody has tried "${attack}"`,
    ),
  replay: SIMULATE.replay,
}
