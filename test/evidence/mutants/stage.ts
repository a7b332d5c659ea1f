/** The product with one rule broken, a hundred times over: does the evidence notice? */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Timeline } from '../../../host-driver/command/timeline/data.ts'
import { NOTHING, type Replayed, type Shard, type Size, type Stage, type Tally } from '../stage.ts'
import { buildKiller, PRODUCT_LIMIT_MS, playKiller, ROOT, witnessAgainst } from './build.ts'
import {
  DRAWN,
  drawnLacks,
  drawnShards,
  playDrawn,
  replayDrawn,
  staleEquivalents,
} from './drawn/stage.ts'
import { MUTANTS } from './list.ts'
import { type By, type Killer, type Mutant, rotOf } from './mutant.ts'

/** Mutants of one shard, and what one takes, CPU seconds. */
const EACH = 10
const SECONDS = 0.6

/** Of every so many mutants one is played in the short cut. */
const CUT_STEP = 17

/** The name of the shard that looks whether every text still stands where it stood. */
const TEXTS = 'texts'
/** Of those that play on the product as it is. */
const PRODUCT = 'the product'

function chosen(size: Size): Mutant[] {
  return MUTANTS.filter((_, i) => size !== 'cut' || i % CUT_STEP === 0)
}

/** Every play that some of these mutants are to be noticed by, each once. */
function killersOf(mutants: readonly Mutant[]): Killer[] {
  const killers = new Map(mutants.map(({ killer }) => [nameOf(killer), killer]))
  return [...killers.values()]
}

function nameOf({ by, argument }: Killer): string {
  return `${by} ${argument}`
}

function shardsOf(size: Size): Shard[] {
  const mutants = chosen(size)
  const killers = killersOf(mutants)
  const shard = (name: string, first: number, count: number): Shard => {
    const seconds = 1 + SECONDS * count
    return { name: `${name} ${first}`, seed: 0, seconds, options: { size, first, count } }
  }
  const pieces = (name: string, total: number): Shard[] =>
    Array.from({ length: Math.ceil(total / EACH) }, (_, i) =>
      shard(name, i * EACH, Math.min(EACH, total - i * EACH)),
    )
  return [
    shard(TEXTS, 0, 0),
    ...pieces(PRODUCT, killers.length),
    ...pieces('mutants', mutants.length),
  ]
}

/** What is wrong with a mutant or a play, and how to see it again. */
interface Complaint {
  readonly what: string
  readonly replay: string
}

function tallyOf(shard: Shard, complaints: readonly Complaint[], fields: Partial<Tally>): Tally {
  const described = complaints.map((complaint) => ({ shard: shard.name, ...complaint }))
  return { ...NOTHING, ...fields, violations: complaints.length, described }
}

/** A list that does not fit the sources shows nothing. */
function checkTexts(shard: Shard): Tally {
  const complaints: Complaint[] = []
  const ids = new Set<string>()
  for (const mutant of MUTANTS) {
    const { id, file } = mutant
    const rot = rotOf(mutant, readFileSync(join(ROOT, file), 'utf8'))
    if (rot !== null) complaints.push({ what: `${id}: ${rot}`, replay: id })
    if (ids.has(id)) complaints.push({ what: `two mutants are called ${id}`, replay: id })
    ids.add(id)
  }
  for (const key of staleEquivalents()) {
    complaints.push({ what: `no drawn mutant is ${key}`, replay: '' })
  }
  return tallyOf(shard, complaints, { more: { 'texts looked up': MUTANTS.length } })
}

/** A play that complains of the product as it is would kill anything. */
async function playProduct(
  shard: Shard,
  killers: readonly Killer[],
  progress: (share: number) => void,
): Promise<Tally> {
  const programs = new Map<By, string>()
  const complaints: Complaint[] = []
  for (const [i, killer] of killers.entries()) {
    const { by, argument } = killer
    const program = programs.get(by) ?? (await buildKiller(by, null))
    programs.set(by, program)
    const witness = await playKiller(program, argument, PRODUCT_LIMIT_MS)
    const name = nameOf(killer)
    if (witness !== null) {
      complaints.push({ what: `the product fails ${name}: ${witness}`, replay: `product ${name}` })
    }
    progress((i + 1) / killers.length)
  }
  return tallyOf(shard, complaints, {
    more: { 'plays that the product passes': killers.length - complaints.length },
  })
}

async function playMutants(
  shard: Shard,
  mutants: readonly Mutant[],
  progress: (share: number) => void,
): Promise<Tally> {
  const complaints: Complaint[] = []
  const more: Record<string, number> = {}
  const cells: Record<string, number> = {}
  for (const [i, mutant] of mutants.entries()) {
    const { id, rule, file, killer } = mutant
    if ((await witnessAgainst(mutant)) === null) {
      const what = `${id} survives ${nameOf(killer)}: ${file} without "${rule}"`
      complaints.push({ what, replay: id })
    } else {
      const by = `killed by ${killer.by}`
      more[by] = (more[by] ?? 0) + 1
      cells[nameOf(killer)] = (cells[nameOf(killer)] ?? 0) + 1
    }
    progress((i + 1) / mutants.length)
  }
  const distinct = mutants.length - complaints.length
  return tallyOf(shard, complaints, { count: mutants.length, distinct, more, cells })
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const { size, first, count } = shard.options as { size: Size; first: number; count: number }
  if (shard.name.startsWith(TEXTS)) return checkTexts(shard)
  if (shard.name.startsWith(DRAWN)) return playDrawn(shard, progress)
  const mutants = chosen(size)
  const piece = <T>(of: readonly T[]): T[] => of.slice(first, first + count)
  if (shard.name.startsWith(PRODUCT)) return playProduct(shard, piece(killersOf(mutants)), progress)
  return playMutants(shard, piece(mutants), progress)
}

function quoted(mark: string, text: string): string[] {
  return text.split('\n').map((line) => `  ${mark} ${line}`)
}

/**
 * `ID` of a mutant, `drawn FILE:LINE:COLUMN KIND`, or `product BY ARGUMENT`: that play, on the
 * product as it is.
 */
async function replay(argument: string): Promise<Replayed> {
  if (argument.startsWith(`${DRAWN} `)) return replayDrawn(argument.slice(DRAWN.length + 1))
  const [first, by, ...rest] = argument.split(' ')
  if (first === 'product') {
    const witness = await playKiller(
      await buildKiller(by as By, null),
      rest.join(' '),
      PRODUCT_LIMIT_MS,
    )
    const text = `the product, ${by} ${rest.join(' ')}: ${witness ?? 'nothing is wrong'}`
    return { violated: witness !== null, text }
  }
  const mutant = MUTANTS.find(({ id }) => id === argument)
  if (mutant === undefined) return { violated: true, text: `no mutant is called ${argument}` }
  const { rule, file, find, replace, killer } = mutant
  const rot = rotOf(mutant, readFileSync(join(ROOT, file), 'utf8'))
  const story = [`${rule}`, file, ...quoted('-', find), ...quoted('+', replace), nameOf(killer)]
  if (rot !== null) return { violated: true, text: [...story, rot].join('\n') }
  const shown: { timeline?: Timeline } = {}
  const witness = await witnessAgainst(mutant, undefined, (timeline) => {
    shown.timeline = timeline
  })
  const end = witness === null ? 'SURVIVED: nobody noticed' : `killed: ${witness}`
  return { violated: witness === null, text: [...story, end].join('\n'), ...shown }
}

export const MUTANTS_STAGE: Stage = {
  name: 'mutants',
  id: 'C8',
  title: 'the product with one rule broken; distinct: noticed',
  unit: 'mutants',
  floors: {
    cut: [{ of: 'count', least: 8 }],
    ci: [
      { of: 'count', least: 60 },
      { of: 'distinct', least: 60 },
    ],
    nightly: [
      { of: 'count', least: 60 },
      { of: 'distinct', least: 60 },
    ],
  },
  shards: (size, seed) => [...shardsOf(size), ...drawnShards(size, seed)],
  play,
  lacks: drawnLacks,
  replay,
}
