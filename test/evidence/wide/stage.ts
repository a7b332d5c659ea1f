/**
 * C1, beside the records of 64 bytes: crashes of what changes the part itself (meta.ts), and of
 * larger records (sizes.ts).
 *
 * Invariant: every play has keys of its own, from the seed and its name, so that no two of
 * them have an image in common.
 */

import { LEVELS, levelName } from '../../support/crash/scenario.ts'
import { allPictures } from '../crash/picture.ts'
import { NOTHING, type Replayed, type Shard, type Size, type Stage, type Tally } from '../stage.ts'
import { META, metaReplay, metaTally } from './meta.ts'
import { BEFORE, type Before, largeTally, prefixTally, sizesReplay } from './sizes.ts'

interface Amount {
  /** Points of control calls with more images than these are visited by lines. */
  readonly most: number
  /** Images of 4 KiB that are drawn at each point. */
  readonly drawn: number
  readonly seeds: number
}

const AMOUNTS: Readonly<Record<Size, Amount>> = {
  cut: { most: 2 ** 9, drawn: 8, seeds: 1 },
  ci: { most: 2 ** 16, drawn: 2000, seeds: 1 },
  nightly: { most: 2 ** 20, drawn: 20_000, seeds: 40 },
}

/** What the suite plays: one of each kind. */
const CUT: ReadonlySet<string> = new Set([
  'format',
  'two provisions',
  'provision of a record, 2 copies',
  'discard, 3 copies',
  'start, 2of2, cut before F3',
  '256 bytes over its own, 2of2',
  '4 KiB over another, 1of2',
  '4 KiB over its own, 2of3',
])

function shardsOf(size: Size, seed: number): Shard[] {
  const { most, drawn } = AMOUNTS[size]
  const own = (name: string): number => (seed + hashOf(name)) >>> 2
  const meta = META.map(({ name, seconds }): Shard => {
    return { name, seed: own(name), seconds, options: { kind: 'meta', most } }
  })
  const sizes = LEVELS.flatMap((level) =>
    BEFORE.flatMap((before): Shard[] => {
      const over = `over ${before}, ${levelName(level)}`
      const options = { wait: level.wait, copies: level.copies, before }
      const names = [`256 bytes ${over}`, `4 KiB ${over}`] as const
      const all = { kind: 'prefix', few: size === 'cut', ...options }
      return [
        { name: names[0], seed: own(names[0]), seconds: 4 * level.copies, options: all },
        {
          name: names[1],
          seed: own(names[1]),
          seconds: 4,
          options: { kind: 'large', drawn, ...options },
        },
      ]
    }),
  )
  return [...meta, ...sizes].filter(({ name }) => size !== 'cut' || CUT.has(name))
}

function hashOf(text: string): number {
  let hash = 7
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash, 31) + text.charCodeAt(i)
  return hash | 0
}

function shards(size: Size, seed: number): Shard[] {
  const runs = Array.from({ length: AMOUNTS[size].seeds }, (_, i) => i)
  const paint = { name: 'pictures', seed, seconds: 3, options: { kind: 'pictures' } }
  const plays = runs.flatMap((run) =>
    shardsOf(size, seed + 1000 * run).map((shard) => {
      const options = { ...shard.options, play: shard.name }
      return { ...shard, name: run === 0 ? shard.name : `${shard.name}, again ${run}`, options }
    }),
  )
  return size === 'cut' ? plays : [...plays, paint]
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  progress(0)
  const { options, name, seed } = shard
  if (options.kind === 'pictures') return { ...NOTHING, pictures: allPictures() }
  if (options.kind === 'meta') {
    return metaTally(String(options.play), name, seed, Number(options.most))
  }
  const level = { wait: Number(options.wait), copies: Number(options.copies) }
  const before = String(options.before) as Before
  if (options.kind === 'large') {
    return largeTally(level, before, name, seed, Number(options.drawn))
  }
  return prefixTally(level, before, name, seed, options.few === true)
}

/** Cells that must have been met, and were not: both pages torn in turn, and every level. */
function lacks({ cells }: Tally, size: Size): string[] {
  const met = Object.keys(cells)
  const wanted = META.filter(({ name }) => size !== 'cut' || CUT.has(name)).flatMap(({ name }) => [
    [name, 'page A torn, page B'],
    [name, 'page B torn'],
  ])
  const sizes = size === 'cut' ? [] : LEVELS.flatMap((level) => sizeCells(levelName(level)))
  return [...wanted, ...sizes]
    .filter(([play, cell]) => !met.some((one) => one.startsWith(play!) && one.includes(cell!)))
    .map(([play, cell]) => `${play}: no image was met with ${cell}`)
}

function sizeCells(level: string): string[][] {
  const copies = [...'ABC'].slice(0, Number(level.at(-1)))
  return BEFORE.flatMap((before) =>
    copies.map((copy) => [`4 KiB over ${before}, ${level}`, `copy ${copy} all but its check code`]),
  )
}

async function replay(argument: string): Promise<Replayed> {
  return argument.startsWith('meta ') ? metaReplay(argument) : sizesReplay(argument)
}

export const WIDE: Stage = {
  name: 'wide',
  id: 'C1c',
  title: 'crashes of the part itself, and of larger records',
  unit: 'crash images',
  shardsFollow: true,
  floors: {
    cut: [{ of: 'count', least: 10_000 }],
    ci: [
      { of: 'count', least: 1_500_000 },
      { of: 'distinct', least: 1_200_000 },
    ],
    nightly: [
      { of: 'count', least: 40_000_000 },
      { of: 'distinct', least: 20_000_000 },
    ],
  },
  shards,
  play,
  lacks,
  replay,
}
