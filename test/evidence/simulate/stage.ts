/**
 * C3: worlds of many hosts, DPUs and records in virtual time, with everything going wrong that may,
 * judged at each acknowledgement, each read and each restart (world.ts).
 */

import type { Stage, Tally, Violation } from '../stage.ts'
import { addTally, NOTHING, type Replayed, type Shard, type Size } from '../stage.ts'
import { PAST_AN_END } from './client.ts'
import { SEVERAL, STRUCTURES, WHILE_IT_SERVES } from './medium.ts'
import { NETWORK_FAULTS } from './network.ts'
import { PARTIES, TROUBLES } from './own-host.ts'
import { playScript, playSeed, stepsOf } from './play.ts'
import { PHASES, STRATEGIES } from './power.ts'
import { REGRESSIONS } from './regressions.ts'
import { RELAY_EVENTS } from './relays/steps.ts'
import { ALL_WORLDS, RELAYS, type Script, scriptOf, WORLDS, type World } from './shape.ts'
import { shrink } from './shrink.ts'
import { MORE_CLIENTS, MORE_LOST, type Played, WORN_OUT } from './world.ts'

interface Plan {
  readonly shards: number
  readonly seedsEach: number
  /** Seeds of worlds with relays, beside those. */
  readonly relaysEach: number
}

const PLANS: Readonly<Record<Size, Plan>> = {
  cut: { shards: 1, seedsEach: 35, relaysEach: 1 },
  ci: { shards: 107, seedsEach: 100, relaysEach: 2 },
  nightly: { shards: 2_500, seedsEach: 110, relaysEach: 4 },
}

/** Seconds of CPU that a seed takes, about. */
const SEED_SECONDS = 0.045
const RELAY_SECONDS = 0.7
/** Violations of a shard that are made short, and told. */
const TOLD_MOST = 2

/** Seeds of a run, all of them different: those of shard k begin here. */
function seedOf(seed: number, shard: number, i: number): number {
  return (Math.imul(seed, 0x9e3779b1) + shard * 1_000 + i) >>> 0
}

/** What a world came to. */
export function tallyOf(played: Played, described: readonly Violation[]): Tally {
  const { operations, cuts, violations, cells, counts } = played
  return {
    ...NOTHING,
    count: operations,
    seeds: 1,
    violations: violations.length,
    described,
    cells: { ...cells, ...named(counts) },
    more: { 'power cuts': cuts, ...figures(counts) },
  }
}

/** How operations ended, and what the network did, are cells; the rest is figures. */
function named(counts: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0))
}

function figures(counts: Readonly<Record<string, number>>): Record<string, number> {
  const { acknowledged = 0, losses = 0 } = counts
  let faults = 0
  for (const name of NETWORK_FAULTS) faults += counts[name] ?? 0
  return {
    'acknowledgements judged': acknowledged,
    'losses said': losses,
    'frames that met a fault': faults,
  }
}

/** What plays it again: the short script in one line. */
export async function describe(
  shard: string,
  seed: number,
  script: Script,
  violation: string,
): Promise<Violation> {
  const short = await shrink(script, seed, violation, {})
  return { shard, what: `seed ${seed}: ${violation}`, replay: JSON.stringify({ seed, ...short }) }
}

async function playOne(shard: string, seed: number, world: World, isTold: boolean): Promise<Tally> {
  const played = await playSeed(seed, { world })
  const [violation] = played.violations
  if (violation === undefined || !isTold) return { ...tallyOf(played, []), distinct: 1 }
  const script = scriptOf(seed, stepsOf(world), world)
  return tallyOf(played, [await describe(shard, seed, script, violation)])
}

/** Plays one seed; of what is told the script is made short. */
export type PlayOne = (shard: string, seed: number, world: World, isTold: boolean) => Promise<Tally>

/** Plays the seeds of a shard, world by world, those with relays last, behind what `total` has. */
export async function playSeeds(
  { name, seed, options }: Shard,
  progress: (share: number) => void,
  playOne: PlayOne,
  total: Tally = NOTHING,
): Promise<Tally> {
  const others = Number(options.seeds)
  const seeds = others + Number(options.relays)
  let sum = total
  for (let i = 0; i < seeds; i++) {
    const own = seedOf(seed, Number(options.place), i)
    const world = i < others ? WORLDS[i % WORLDS.length]! : RELAYS
    sum = addTally(sum, await playOne(name, own, world, sum.described.length < TOLD_MOST))
    progress((i + 1) / seeds)
  }
  return sum
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  let total = NOTHING
  for (const { seed, world } of shard.options.place === 0 ? REGRESSIONS : []) {
    const isTold = total.described.length < TOLD_MOST
    total = addTally(total, await playOne(shard.name, seed, world, isTold))
  }
  return playSeeds(shard, progress, playOne, total)
}

/** Cells without which a run has not seen what it is for. */
function wanted(size: Size): string[] {
  const cells: string[] = []
  const phases = [...PHASES, 'recovery']
  for (const strategy of STRATEGIES) {
    for (const phase of phases) if (size !== 'cut') cells.push(`${strategy} × ${phase}`)
    cells.push(strategy)
  }
  const relays = size === 'cut' ? ['relay PASS', 'relay broken'] : RELAY_EVENTS
  const hits = [...STRUCTURES, SEVERAL].map((hit) => `${hit}${WHILE_IT_SERVES}`)
  const full = size === 'cut' ? [MORE_CLIENTS] : [MORE_CLIENTS, MORE_LOST]
  const happens = [...hits, ...full, ...wantedOfHosts(size), ...relays]
  return [...cells, ...phases, 'old', 'new', ...happens]
}

/** Who went, in which placement the records were, how it came back; and what else goes wrong. */
function wantedOfHosts(size: Size): string[] {
  const parties = PARTIES.map((party) => `${party} goes`)
  if (size === 'cut') return parties
  const met = ['card', 'host', 'both'].flatMap((party) => [
    `${party} × bypass`,
    `${party} × through`,
  ])
  const troubles = TROUBLES.map((trouble) => `host ${trouble}`)
  const calls = ['another agent', 'asked to give up', 'scanned']
  return [
    ...parties,
    ...met,
    'agent × through',
    'at once',
    'late',
    'flipped',
    ...troubles,
    ...calls,
  ]
}

function lacks(total: Tally, size: Size): readonly string[] {
  const met = new Set<string>()
  for (const cell of Object.keys(total.cells)) {
    const [strategy, phase, became] = cell.split(' × ')
    for (const name of [cell, strategy, phase, became, `${strategy} × ${phase}`]) {
      if (name !== undefined) met.add(name)
    }
  }
  return wanted(size)
    .concat(NETWORK_FAULTS, PAST_AN_END, size === 'cut' ? [] : WORN_OUT)
    .filter((cell) => !met.has(cell))
    .map((cell) => `nothing has met "${cell}"`)
}

/** `seed=7 world=mixed`, or a script as one line of JSON. */
async function replay(argument: string): Promise<Replayed> {
  const lines: string[] = []
  const tell = (line: string): void => void lines.push(line)
  let played: Played
  if (argument.startsWith('{')) {
    const { seed, ...script } = JSON.parse(argument) as Script & { readonly seed: number }
    played = await playScript(script, seed, { tell })
  } else {
    const seed = Number(/seed=(\d+)/.exec(argument)?.[1])
    const world = ALL_WORLDS.find((name) => argument.includes(`world=${name}`))
    if (!Number.isSafeInteger(seed)) throw new Error('seed=NUMBER [world=NAME], or a script')
    played = await playSeed(seed, { tell, ...(world === undefined ? {} : { world }) })
  }
  const { violations, operations, cuts, hash } = played
  lines.push(`${operations} operations, ${cuts} power cuts, trace 0x${hash.toString(16)}`)
  lines.push(...(violations.length > 0 ? violations : ['nothing is wrong']))
  return { violated: violations.length > 0, text: lines.join('\n') }
}

export const SIMULATE: Stage = {
  name: 'simulate',
  id: 'C3',
  title: 'hosts and DPUs in virtual time, everything going wrong',
  unit: 'operations',
  shardsFollow: true,
  floors: {
    cut: [
      { of: 'count', least: 50_000 },
      { of: 'power cuts', least: 2_500 },
      { of: 'seeds', least: 35 },
    ],
    ci: [
      { of: 'count', least: 20_000_000 },
      { of: 'power cuts', least: 700_000 },
      { of: 'seeds', least: 2_000 },
    ],
    nightly: [
      { of: 'count', least: 600_000_000 },
      { of: 'power cuts', least: 30_000_000 },
      { of: 'seeds', least: 100_000 },
    ],
  },
  shards: (size, seed) => {
    const { shards, seedsEach, relaysEach } = PLANS[size]
    return Array.from({ length: shards }, (_, place) => ({
      name: `seeds-${place}`,
      seed,
      seconds: seedsEach * SEED_SECONDS + relaysEach * RELAY_SECONDS,
      options: { place, seeds: seedsEach, relays: relaysEach },
    }))
  },
  play,
  lacks,
  replay,
}
