/**
 * C4: the bundle that a card runs, in the engine that it runs in, plays the seeds of the simulated
 * world, and what it does is byte for byte what the sources do in Node: every command list, every
 * frame, at every cut. So what is shown in Node holds for what ships.
 *
 * Invariant: Node has no part in what QuickJS does but the machine, the network and the
 * judges. Three kinds of guest play: as a card has it; with the least memory that the firmware
 * starts in; and with garbage, and collections of it, between command lists.
 */

import { NOTHING, type Shard, type Size, type Stage, type Tally, type Violation } from '../stage.ts'
import { Guests } from './guests.ts'
import { type Pair, playPair, tellPair } from './pair.ts'
import { leastMemory, longLife, PAGE_KIBIBYTES } from './pressure.ts'

/** How a guest lives. */
type Kind = 'card' | 'tight' | 'collecting'

/** How many seeds of each kind, and the steps of their scripts. */
interface Plan {
  readonly shards: Readonly<Record<Kind, number>>
  readonly seeds: number
  readonly steps: number
}

const PLANS: Readonly<Record<Size, Plan>> = {
  cut: { shards: { card: 1, tight: 1, collecting: 1 }, seeds: 2, steps: 60 },
  ci: { shards: { card: 6, tight: 2, collecting: 1 }, seeds: 24, steps: 165 },
  nightly: { shards: { card: 120, tight: 40, collecting: 40 }, seeds: 24, steps: 260 },
}

/** CPU seconds of one seed of 260 steps in both engines, about. */
const SECONDS: Readonly<Record<Kind, number>> = { card: 1.2, tight: 1.2, collecting: 3 }

/** Before one list in so many the garbage is collected: each time takes two milliseconds. */
const COLLECT_EVERY = 11

/** Violations of one shard that are described. */
const DESCRIBED_MAX = 5

/** Between the seeds of two shards. */
const STRIDE = 1_000_003

async function guestsOf(kind: Kind): Promise<Guests> {
  if (kind === 'collecting') return new Guests({ collectEvery: COLLECT_EVERY })
  if (kind === 'card') return new Guests()
  return new Guests({ memoryPages: (await leastMemory()).pages })
}

function shardsOf(size: Size, seed: number): Shard[] {
  const { shards, seeds, steps } = PLANS[size]
  const seconds = (kind: Kind): number => (seeds * steps * SECONDS[kind]) / 260
  const played = Object.entries(shards).flatMap(([kind, count]) =>
    Array.from({ length: count }, (_, i) => ({ kind: kind as Kind, name: `${kind} ${i}` })),
  )
  return [
    ...played.map(({ kind, name }, i): Shard => {
      const options = { kind, seeds, steps }
      return { name, seed: (seed + i * STRIDE) >>> 0, seconds: seconds(kind), options }
    }),
    { name: 'memory', seed, seconds: 2, options: { kind: 'memory' } },
  ]
}

/** What a shard adds up. */
class Sum {
  tally: Tally = NOTHING
  private readonly shard: Shard
  private readonly hashes = new Set<number>()

  constructor(shard: Shard) {
    this.shard = shard
  }

  add(seed: number, { node, quickjs, differs }: Pair): void {
    const { kind, steps } = this.shard.options
    this.hashes.add(quickjs.hash)
    const { count, more, cells } = this.tally
    const power = (more['power cuts'] ?? 0) + quickjs.cuts
    this.tally = {
      ...this.tally,
      count: count + quickjs.operations,
      seeds: this.tally.seeds + 1,
      distinct: this.hashes.size,
      more: { ...more, 'power cuts': power },
      cells: { ...cells, [String(kind)]: (cells[String(kind)] ?? 0) + 1 },
    }
    const wrong = [...(differs === null ? [] : [differs]), ...node.violations]
    for (const what of wrong) this.violation(`seed ${seed}: ${what}`, `${kind}:${seed}:${steps}`)
  }

  violation(what: string, replay: string): void {
    const { described, violations } = this.tally
    const said: Violation = { shard: this.shard.name, what, replay }
    this.tally = {
      ...this.tally,
      violations: violations + 1,
      described: violations < DESCRIBED_MAX ? [...described, said] : described,
    }
  }

  count(name: string, value: number): void {
    this.tally = { ...this.tally, more: { ...this.tally.more, [name]: value } }
  }
}

async function playSeeds(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const kind = shard.options.kind as Kind
  const seeds = Number(shard.options.seeds)
  const steps = Number(shard.options.steps)
  const guests = await guestsOf(kind)
  const sum = new Sum(shard)
  for (let i = 0; i < seeds; i++) {
    const seed = (shard.seed + i) >>> 0
    sum.add(seed, await playPair(seed, steps, guests.boot))
    progress((i + 1) / seeds)
  }
  if (guests.grown > 0) {
    const bytes = guests.growth.toLocaleString('en')
    sum.violation(`${guests.grown} guests held ${bytes} bytes more or less when they went off`, '')
  }
  sum.count('power-ons', guests.powerOns)
  if (kind === 'collecting') sum.count('collections forced', guests.collections)
  guests.dispose()
  return sum.tally
}

async function playMemory(shard: Shard): Promise<Tally> {
  const { pages, refused } = await leastMemory()
  const sum = new Sum(shard)
  sum.count('KiB is the least memory', pages * PAGE_KIBIBYTES)
  sum.count('boots refused in less', refused)
  const { operations, grown } = await longLife()
  sum.count('records of a long life in it', operations)
  if (grown !== 0) sum.violation(`the heap grew by ${grown} bytes in a long life`, '')
  return sum.tally
}

export const QUICKJS: Stage = {
  name: 'quickjs',
  id: 'C4',
  title: 'the shipped bundle in QuickJS leaves the traces of Node',
  unit: 'operations',
  floors: {
    cut: [{ of: 'seeds', least: 6 }],
    ci: [
      { of: 'count', least: 300_000 },
      { of: 'seeds', least: 200 },
    ],
    nightly: [
      { of: 'count', least: 5_000_000 },
      { of: 'seeds', least: 2000 },
    ],
  },
  shards: shardsOf,
  async play(shard, progress) {
    return shard.options.kind === 'memory' ? playMemory(shard) : playSeeds(shard, progress)
  },
  lacks(total) {
    return ['card', 'tight', 'collecting']
      .filter((kind) => (total.cells[kind] ?? 0) === 0)
      .map((kind) => `no seed was played by a guest of kind ${kind}`)
  },
  async replay(argument) {
    const [kind, seed, steps] = argument.split(':')
    const guests = await guestsOf(kind as Kind)
    const { differs, node } = await playPair(Number(seed), Number(steps), guests.boot)
    const text = await tellPair(Number(seed), Number(steps), guests.boot)
    guests.dispose()
    return { violated: differs !== null || node.violations.length > 0, text }
  },
}
