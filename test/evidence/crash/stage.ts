/**
 * C1: every crash of every kind of operation on records of 64 bytes, at every level: each point,
 * each subset of the eight-byte chunks that are pending, each recovery, cut again and again.
 *
 * Invariant: an image is what `images` (boards/emulator) leaves of the part, booted by the
 * firmware's own recovery and judged by the oracle; nothing is counted that was not booted. Images
 * are told apart by all that is on the part, and no two plays have one in common.
 */

import {
  LEVEL_2OF2,
  LEVEL_2OF3,
  LEVELS,
  type Level,
  levelName,
  type Scenario,
} from '../../support/crash/scenario.ts'
import type { Shard, Size, Stage, Tally } from '../stage.ts'
import { cellsOf } from './cells.ts'
import { exploreOnce, tallyOf, tellOne } from './engine.ts'
import { PAIR_KINDS, pairCells, pairKind, tallyOfPairs, tellPairs } from './pairs.ts'
import { withPicture } from './picture.ts'
import { KINDS, playOf } from './plays.ts'

/** Patterns of data that every kind is played with. */
const PATTERNS: Readonly<Record<Size, number>> = { cut: 1, ci: 4, nightly: 700 }

/** What the suite plays: the cheap kinds, at one level each. */
const CUT: Readonly<Record<string, string>> = {
  'write over its own': '2of2',
  'group of 4, one finely': '2of2',
  'batch of 2': '1of2',
  'overtaken by a burst': '1of2',
  recovery: '1of2',
  'media errors': '2of3',
  'guarded batch': '2of2',
  'pair left torn': '2of2',
}

/** Of a pair region its client has the fences: a level is how many copies there are. */
const PAIR_LEVELS: readonly Level[] = [LEVEL_2OF2, LEVEL_2OF3]

/** Every kind, with the levels at which it is played, and its seconds. */
const ALL_KINDS: readonly { name: string; seconds: number; levels: readonly Level[] }[] = [
  ...KINDS.map(({ name, seconds }) => ({ name, seconds, levels: LEVELS })),
  ...PAIR_KINDS.map(({ name, seconds }) => ({ name, seconds, levels: PAIR_LEVELS })),
]

function shardOf(kind: string, level: Level, pattern: number, seed: number): Shard {
  const made = ALL_KINDS.find(({ name }) => name === kind)!
  return {
    name: `${kind}, ${levelName(level)}, pattern ${pattern}`,
    seed,
    seconds: made.seconds,
    options: { kind, level: levelName(level), pattern },
  }
}

/** The first pattern of a run: a fresh seed has fresh data. */
function firstPattern(seed: number): number {
  return 5 * (seed % 10_000)
}

function shards(size: Size, seed: number): Shard[] {
  const first = firstPattern(seed)
  return Array.from({ length: PATTERNS[size] }, (_, i) => first + i).flatMap((pattern) =>
    ALL_KINDS.flatMap(({ name, levels }) =>
      levels
        .filter((level) => size !== 'cut' || CUT[name] === levelName(level))
        .map((level) => shardOf(name, level, pattern, seed)),
    ),
  )
}

function levelOf(name: string): Level {
  const found = LEVELS.find((level) => levelName(level) === name)
  if (found === undefined) throw new Error(`no level is called ${name}`)
  return found
}

/** Of each cell its kind and level: patterns are added up. */
function withPlace(cells: Tally['cells'], place: string): Record<string, number> {
  return Object.fromEntries(Object.entries(cells).map(([name, n]) => [`${place}, ${name}`, n]))
}

async function play({ name, seed, options }: Shard, progress: (share: number) => void) {
  const kind = String(options.kind)
  const level = String(options.level)
  const pattern = Number(options.pattern)
  progress(0)
  const aim = `${kind}, ${level}, ${pattern}, ${seed}:`
  const pair = pairKind(kind)
  const tally =
    pair === null
      ? tallyOfPlay(playOf(kind, levelOf(level), pattern), seed, name, aim)
      : tallyOfPairs(pair, levelOf(level), pattern, name, aim)
  return { ...tally, seeds: 1, cells: withPlace(tally.cells, `${kind}, ${level}`) }
}

function tallyOfPlay(scenario: Scenario, seed: number, name: string, aim: string): Tally {
  return withPicture(tallyOf(exploreOnce(scenario, { seed }), name, aim), CRASH.name, scenario)
}

/** What the write of source 1 leads to: of a pair, that of a client that was not disturbed. */
function foretold(name: string, level: Level): string[] {
  if (name === 'pair write') return pairCells(level)
  const records = KINDS.find((kind) => kind.name === name)?.records
  return records === undefined ? [] : cellsOf(records, level)
}

/** Cells that must have been met and were not. */
function lacks(total: Tally, size: Size): string[] {
  const wanted = ALL_KINDS.flatMap(({ name, levels }) =>
    levels.flatMap((level) => {
      if (size === 'cut' && CUT[name] !== levelName(level)) return []
      const cells = foretold(name, level)
      for (const at of DEPTHS[name] ?? []) cells.push(`recovery cut ${at} deep`)
      return cells.map((cell) => `${name}, ${levelName(level)}, ${cell}`)
    }),
  )
  const met = Object.keys(total.cells)
  const has = new Set(met)
  return wanted
    .filter((cell) => !has.has(cell) && !met.some((one) => one.startsWith(`${cell}:`)))
    .map((cell) => `no image was met: ${cell}`)
}

/** How deep were recoveries cut that were then cut again? */
const DEPTHS: Readonly<Record<string, readonly number[]>> = {
  recovery: [1, 2],
  'recovery of 2 in order': [1],
}

const ARGUMENT = /^(.+), (\dof\d), (\d+), (\d+): (\S+)$/

export const CRASH: Stage = {
  name: 'crash',
  id: 'C1',
  title: 'every crash of every operation, every subset of what was pending',
  unit: 'crash images',
  shardsFollow: true,
  floors: {
    cut: [
      { of: 'count', least: 100_000 },
      { of: 'distinct', least: 60_000 },
      { of: 'boots of the whole card beside', least: 200 },
    ],
    ci: [
      { of: 'count', least: 10_000_000 },
      { of: 'distinct', least: 1_000_000 },
      { of: 'images of cut recoveries', least: 100_000 },
      { of: 'images with a media error', least: 100_000 },
      { of: 'boots of the whole card beside', least: 10_000 },
    ],
    nightly: [
      { of: 'count', least: 2_000_000_000 },
      { of: 'distinct', least: 200_000_000 },
    ],
  },
  shards,
  play,
  lacks,
  replay: async (argument) => {
    const found = ARGUMENT.exec(argument)
    if (found === null) throw new Error('KIND, LEVEL, PATTERN, SEED: POINT.IMAGE')
    const [, kind, level, pattern, seed, aim] = found
    const pair = pairKind(kind!)
    if (pair !== null) return tellPairs(pair, levelOf(level!), Number(pattern), aim!)
    const scenario = playOf(kind!, levelOf(level!), Number(pattern))
    return tellOne(scenario, aim!, { seed: Number(seed) })
  },
}
