/**
 * Mutants that a tool draws, and what general stages and the suite make of them (C8).
 *
 * Invariant: a mutant is noticed by something that was there before it was drawn. One that
 * nothing notices is named; it counts against the product's evidence unless it is shown to be the
 * same program (equivalents.ts).
 */

import {
  NOTHING,
  type Replayed,
  type Shard,
  type Size,
  type Tally,
  type Violation,
} from '../../stage.ts'
import { type Bench, newBench, type Panel, productFiles, sourceOf } from './bench.ts'
import { draw } from './draw.ts'
import { changeOf, EQUIVALENTS, equivalenceOf, keyOf } from './equivalents.ts'
import { Ladder, type Verdict } from './ladder.ts'
import { type Drawn, nameOfPlace, placesIn } from './places.ts'
import { Reach } from './reach.ts'
import { SUITE, SUITE_OF_CUT } from './suite.ts'

/** Name of the shards. */
export const DRAWN = 'drawn'

interface Plan extends Panel {
  readonly shards: number
  readonly mutants: number
  /** Folder whose files give the mutants. */
  readonly below: string
  /** Work that is spent on one mutant, at the most: turns of loops and calls. */
  readonly most: number
  readonly seconds: number
}

const ALL = { suite: SUITE, below: 'firmware/' }

const PLANS: Readonly<Record<Size, Plan>> = {
  cut: {
    shards: 1,
    mutants: 12,
    below: 'firmware/wire/',
    suite: SUITE_OF_CUT,
    pieces: null,
    most: 2e6,
    seconds: 4,
  },
  ci: { ...ALL, pieces: 'few', shards: 1, mutants: 200, most: 24e6, seconds: 450 },
  nightly: { ...ALL, pieces: 'many', shards: 8, mutants: 2000, most: 400e6, seconds: 300 },
}

/** What decides whether anything is durable: its mutants have a floor of their own. */
const ESSENTIAL = new RegExp(
  [
    String.raw`^firmware\/(?:commit\/`,
    String.raw`medium\/(?:slot|lane|operation-line)`,
    String.raw`(?:burst|placement)\/through`,
    String.raw`engine\/(?:admit|operation|receipt)`,
    String.raw`respond\/placed`,
    String.raw`transport\/acknowledge)`,
  ].join('|'),
)

/** Of these each is given so many times the work, as all of them should be noticed. */
const ESSENTIAL_TIMES = 2

/**
 * So many in a hundred are noticed, at least: of all, and where durability is decided. Of the
 * latter a fresh draw has some thirty, so that chance alone moves its share by ten.
 */
const LEAST = { all: 75, essential: 80 } as const

const COUNTED = 'drawn mutants'
const NOTICED = 'drawn and noticed'
const SAME = 'drawn and the same program'
const OF_ESSENTIAL = 'drawn where durability is decided'
const ESSENTIAL_NOTICED = 'noticed where durability is decided'

export function drawnShards(size: Size, seed: number): Shard[] {
  const { shards, seconds } = PLANS[size]
  return Array.from({ length: shards }, (_, part) => {
    return { name: `${DRAWN} ${part}`, seed, seconds, options: { size, part } }
  })
}

/** Every mutant of the product, or of a folder. */
export function allMutants(below: string): Drawn[] {
  const files = productFiles().filter((file) => file.startsWith(below))
  return files.flatMap((file) => placesIn(file, sourceOf(file)))
}

interface Court {
  readonly bench: Bench
  readonly reach: Reach
  readonly wrong: readonly { readonly unit: string; readonly witness: string }[]
}

async function convene(of: Panel, progress: (share: number) => void): Promise<Court> {
  const wrong: { unit: string; witness: string }[] = []
  const reach = new Reach()
  await reach.measure(of, (unit, witness) => wrong.push({ unit, witness }), progress)
  return { bench: await newBench(of), reach, wrong }
}

export async function playDrawn(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const { size, part } = shard.options as { size: Size; part: number }
  const plan = PLANS[size]
  const { bench, reach, wrong } = await convene(plan, (share) => progress(share / 3))
  const ladder = new Ladder(bench, reach, plan.most)
  const mutants = draw(allMutants(plan.below), plan.mutants, shard.seed)
  const mine = mutants.filter((_, i) => i % plan.shards === part)
  const verdicts: Verdict[] = []
  for (const [i, mutant] of mine.entries()) {
    const same = equivalenceOf(mutant, sourceOf(mutant.file)) !== null
    // Only where there is time is it shown again that nobody tells it from the product.
    if (same && size !== 'nightly') verdicts.push({ mutant, unit: null, witness: '', played: 0 })
    else verdicts.push(await ladder.judge(mutant, timesFor(mutant)))
    progress((1 + (2 * (i + 1)) / mine.length) / 3)
  }
  const unfit = wrong.map(({ unit, witness }) => {
    return { shard: shard.name, what: `the product fails ${unit}: ${witness}`, replay: unit }
  })
  return tallyOf(shard, verdicts, unfit)
}

function timesFor({ file }: Drawn): number {
  return ESSENTIAL.test(file) ? ESSENTIAL_TIMES : 1
}

function tallyOf(shard: Shard, verdicts: readonly Verdict[], unfit: readonly Violation[]): Tally {
  const more: Record<string, number> = {}
  const cells: Record<string, number> = {}
  const described = [...unfit]
  const count = (name: string): void => {
    more[name] = (more[name] ?? 0) + 1
  }
  for (const { mutant, unit } of verdicts) {
    const same = equivalenceOf(mutant, sourceOf(mutant.file)) !== null
    const essential = ESSENTIAL.test(mutant.file)
    count(COUNTED)
    if (unit === null) cells[`${same ? SAME : 'lives'}: ${nameOfPlace(mutant)}`] = 1
    else count(`noticed by ${unit.split(' ')[0]}`)
    if (same) count(SAME)
    else if (essential) count(OF_ESSENTIAL)
    if (unit !== null && !same) count(NOTICED)
    if (unit !== null && !same && essential) count(ESSENTIAL_NOTICED)
    if (unit !== null && same) {
      const what = `it is no equivalent: ${nameOfPlace(mutant)} is noticed by ${unit}`
      described.push({ shard: shard.name, what, replay: `${DRAWN} ${nameOfPlace(mutant)}` })
    }
  }
  return { ...NOTHING, violations: described.length, described, more, cells }
}

/** What of the floors is not reached, and who lives there. */
export function drawnLacks({ more, cells }: Tally, size: Size): string[] {
  if (size === 'cut') return []
  const alive = Object.keys(cells).filter((cell) => cell.startsWith('lives: '))
  const essential = alive.filter((cell) => ESSENTIAL.test(cell.replace('lives: ', '')))
  const { [COUNTED]: all = 0, [SAME]: same = 0, [NOTICED]: noticed = 0 } = more
  const { [OF_ESSENTIAL]: core = 0, [ESSENTIAL_NOTICED]: coreNoticed = 0 } = more
  return [
    ...shortOf(LEAST.all, 'of the drawn mutants', noticed, all - same, alive),
    ...shortOf(LEAST.essential, 'where durability is decided', coreNoticed, core, essential),
  ]
}

function shortOf(
  least: number,
  where: string,
  noticed: number,
  all: number,
  alive: readonly string[],
): string[] {
  if (100 * noticed >= least * all) return []
  return [`${noticed} of ${all} ${where} are noticed, and ${least} % are asked`, ...alive]
}

/** Entries of the list of equivalents that fit nothing. */
export function staleEquivalents(): string[] {
  const mutants = allMutants('firmware/')
  const known = new Set(mutants.map((one) => keyOf(changeOf(one, sourceOf(one.file)))))
  return EQUIVALENTS.map(keyOf).filter((key) => !known.has(key))
}

/** `FILE:LINE:COLUMN KIND`: every unit that comes there is played, until one notices. */
export async function replayDrawn(name: string): Promise<Replayed> {
  const mutant = allMutants('firmware/').find((one) => nameOfPlace(one) === name)
  if (mutant === undefined) return { violated: true, text: `no mutant is called ${name}` }
  const text = sourceOf(mutant.file)
  const { line, mutant: made } = changeOf(mutant, text)
  const { bench, reach } = await convene(PLANS.nightly, () => {})
  const { unit, witness, played } = await new Ladder(bench, reach, PLANS.nightly.most).judge(mutant)
  const because = equivalenceOf(mutant, text)
  const end = unit === null ? 'SURVIVED: nobody noticed' : `killed by ${unit}: ${witness}`
  const same = because === null ? [] : [`listed as the same program: ${because}`]
  const lines = [name, `  - ${line}`, `  + ${made}`, `${played} units played`, ...same, end]
  return { violated: unit === null && because === null, text: lines.join('\n') }
}
