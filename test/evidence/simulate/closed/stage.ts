/**
 * C13: the worlds of C3 with peers, sessions and tags, and somebody inside the network who reads
 * and writes every frame (attacker.ts). The same judges look on: nothing that he does loses,
 * changes or reads a record, runs a call, or makes a client believe what its card did not say. When
 * he falls silent every operation ends.
 */

import { addTally, NOTHING, type Shard, type Size, type Stage, type Tally } from '../../stage.ts'
import { playScript, stepsOf } from '../play.ts'
import type { Regression } from '../regressions.ts'
import { attackedScript, RELAYS, scriptOf } from '../shape.ts'
import { describe, type PlayOne, playSeeds, SIMULATE, tallyOf } from '../stage.ts'
import { ATTACKS } from './attacker.ts'

interface Plan {
  readonly shards: number
  readonly seedsEach: number
  /** Seeds of worlds with relays, beside those. */
  readonly relaysEach: number
  /** Steps of each script. */
  readonly steps: number
}

/** Every shard has seeds of every world. */
const PLANS: Readonly<Record<Size, Plan>> = {
  cut: { shards: 1, seedsEach: 10, relaysEach: 0, steps: 50 },
  ci: { shards: 20, seedsEach: 10, relaysEach: 4, steps: 240 },
  nightly: { shards: 1_800, seedsEach: 10, relaysEach: 4, steps: 240 },
}

/** Seconds of CPU that a step takes, about: nearly all of it for the curves of handshakes. */
const STEP_SECONDS = 0.01

async function playOne(steps: number, ...of: Parameters<PlayOne>): Promise<Tally> {
  const [shard, seed, world, isTold] = of
  const length = world === RELAYS ? Math.min(steps, stepsOf(world)) : steps
  const script = attackedScript(scriptOf(seed, length, world))
  const played = await playScript(script, seed)
  const [violation] = played.violations
  const described =
    violation === undefined || !isTold ? [] : [await describe(shard, seed, script, violation)]
  const tally = tallyOf(played, described)
  const attacks = ATTACKS.reduce((sum, attack) => sum + (played.counts[attack] ?? 0), 0)
  return { ...tally, distinct: 1, more: { ...tally.more, attacks } }
}

/** What this stage has found, played again in each run. */
const FOUND: readonly Regression[] = [
  {
    seed: 3296306620,
    world: 'hosted',
    found: 'an answer of an earlier queue pair went to a number that another client had since',
  },
  {
    seed: 40030,
    world: 'relays',
    found:
      'world: a card went as its operator gave another one its line again, and nobody asked twice',
  },
]

/** Steps of the scripts that found it. */
const FOUND_STEPS = 240

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const steps = Number(shard.options.steps)
  let total = NOTHING
  for (const { seed, world } of shard.options.place === 0 ? FOUND : []) {
    total = addTally(total, await playOne(FOUND_STEPS, shard.name, seed, world, true))
  }
  return playSeeds(shard, progress, (...of) => playOne(steps, ...of), total)
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
    const { shards, seedsEach, relaysEach, steps } = PLANS[size]
    return Array.from({ length: shards }, (_, place) => ({
      name: `seeds-${place}`,
      seed,
      seconds: (seedsEach * steps + relaysEach * stepsOf(RELAYS)) * STEP_SECONDS,
      options: { place, seeds: seedsEach, relays: relaysEach, steps },
    }))
  },
  play,
  lacks: (total) =>
    ATTACKS.filter((attack) => total.cells[attack] === undefined).map(
      (attack) => `nobody has tried "${attack}"`,
    ),
  replay: SIMULATE.replay,
}
