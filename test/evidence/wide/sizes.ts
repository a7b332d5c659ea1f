/**
 * Larger records: of 256 bytes every image that cached stores may leave, and of 4 KiB every class
 * of what a recovery can see, and images drawn from the seed (crash-model 2.2, 2.4, 2.5).
 */

import { dataOf } from '../../support/cards/test-card.ts'
import type { Actor, Write } from '../../support/crash/actor.ts'
import { type Level, levelName, type Scenario } from '../../support/crash/scenario.ts'
import { OPERATIONS_AT, OPERATIONS_BYTES, PAGE_BYTES } from '../../support/judges/oracle.ts'
import { exploreOnce, tallyOf, tellOne } from '../crash/engine.ts'
import { NOTHING, type Replayed, type Tally } from '../stage.ts'
import { playSize, type SizeLook, type SizePlay } from './sizes-player.ts'

/** What was there before the record was written. */
export const BEFORE = ['another', 'its own', 'a blank'] as const
export type Before = (typeof BEFORE)[number]

function prepare(actor: Actor, before: Before, bytes: number, seed: number): void {
  const neighbour: Write = { slot: 1, data: dataOf(bytes, seed + 2), wait: 2 }
  const other: Write = { slot: 0, data: dataOf(bytes - 40, seed + 1), wait: 2, client: 1 }
  if (before === 'another') actor.write(other, neighbour)
  else if (before === 'its own') actor.write({ slot: 0, data: dataOf(bytes, seed + 1), wait: 2 })
  if (before === 'its own') actor.idle()
}

function write(actor: Actor, bytes: number, seed: number, { wait }: Level): void {
  actor.write({ slot: 0, data: dataOf(bytes, seed + 3), wait })
  actor.idle()
}

/** Each line of it holds a prefix of its stores: nine states of a line, of five lines a copy. */
function prefixed(level: Level, before: Before, seed: number, few: boolean): Scenario {
  const bytes = few ? 128 : 256
  return {
    name: `${bytes} bytes over ${before}, ${levelName(level)}`,
    shape: { slots: 2, copies: level.copies, capacity: bytes },
    entropy: (seed % 2 ** 30) | 0,
    before: (actor) => prepare(actor, before, bytes, seed),
    during: (actor) => write(actor, bytes, seed, level),
    mode: 'prefix',
  }
}

/** Plays every image of a record of 256 bytes. */
export function prefixTally(
  level: Level,
  before: Before,
  shard: string,
  seed: number,
  few: boolean,
): Tally {
  const replay = `prefix ${seed} ${few ? 'few' : 'all'} ${levelName(level)} ${before}:`
  const tally = tallyOf(exploreOnce(prefixed(level, before, seed, few), { seed }), shard, replay)
  const cells = Object.entries(tally.cells).map(([name, count]) => [`prefix, ${name}`, count])
  return { ...tally, cells: Object.fromEntries(cells) }
}

const LARGE = 4096

function large(level: Level, before: Before, seed: number): SizePlay {
  const { copies } = level
  return {
    shape: { slots: 2, capacity: LARGE, copies },
    partBytes: OPERATIONS_AT + OPERATIONS_BYTES + copies * 3 * PAGE_BYTES,
    before: (actor) => prepare(actor, before, LARGE, seed),
    during: (actor) => write(actor, LARGE, seed, level),
  }
}

/** Plays the classes of a record of 4 KiB, and so many drawn images at each point. */
export function largeTally(
  level: Level,
  before: Before,
  shard: string,
  seed: number,
  drawn: number,
): Tally {
  const found = playSize(large(level, before, seed), { seed, drawn })
  const of = `4 KiB over ${before}, ${levelName(level)}`
  const cells = [...found.cells].map(([name, count]) => [`${of}, ${name}`, count])
  return {
    ...NOTHING,
    count: found.images + found.nested,
    distinct: found.distinct.size,
    violations: found.violations,
    described: found.witnesses.map((what, i) => {
      const replay = `large ${seed} ${drawn} ${found.aims[i]} ${levelName(level)} ${before}`
      return { shard, what: `${of}, ${what}`, replay }
    }),
    more: { 'crash points': found.points, 'images of cut recoveries': found.nested },
    cells: Object.fromEntries(cells),
  }
}

function levelIn(name: string): Level {
  const [wait, copies] = name.split('of').map(Number)
  return { wait: wait!, copies: copies! }
}

function beforeIn(name: string): Before {
  const found = BEFORE.find((one) => one === name)
  if (found === undefined) throw new Error(`nothing is called ${name}`)
  return found
}

/** `prefix SEED all LEVEL BEFORE: AIM`, or `large SEED DRAWN IMAGE LEVEL BEFORE`. */
export function sizesReplay(argument: string): Replayed {
  const [kind, seed, amount, ...rest] = argument.split(' ')
  if (kind === 'prefix') {
    const [level, ...words] = rest
    const [before, aim] = words.join(' ').split(': ')
    const scenario = prefixed(levelIn(level!), beforeIn(before!), Number(seed), amount === 'few')
    return tellOne(scenario, aim!, { seed: Number(seed) })
  }
  const [aim, level, ...before] = rest
  const look: SizeLook = { seed: Number(seed), drawn: Number(amount), aim: Number(aim) }
  const play = large(levelIn(level!), beforeIn(before.join(' ')), Number(seed))
  const { story, witnesses, violations } = playSize(play, look)
  return { violated: violations > 0, text: [...story, ...witnesses].join('\n') }
}
