/**
 * Scenarios of the crash explorer that are small enough to be played for every mutant: each crash
 * point, each image that may be left, recovered and judged from the bytes
 * (support/crash/explorer.ts).
 *
 * Invariant: they are scenarios as test/firmware/commit/crash.test.ts has them, not made for one
 * fault; of each class of images only the first few of a point are started.
 */

import { dataOf } from '../../../support/cards/test-card.ts'
import {
  explore,
  type Level,
  overAnother,
  overSimilar,
  type Scenario,
} from '../../../support/crash/explorer.ts'
import { pairKind, tallyOfPairs } from '../../crash/pairs.ts'
import { timelineOfImage } from '../../crash/picture.ts'
import { playOf } from '../../crash/plays.ts'
import type { Play } from '../killer.ts'

/** Images of a point that are visited, and of each class those that are started. */
const SAMPLE: number = 2 ** 12
const PER_CLASS = 6

/** Two versions of a record that differ in two chunks of data. */
function pair(seed: number): readonly [Uint8Array, Uint8Array] {
  const first = dataOf(64, seed)
  const second = first.slice()
  second.set(dataOf(16, seed + 1), 24)
  return [first, second]
}

function twice(wait: number): Scenario {
  const [first, second] = pair(1)
  return {
    name: 'one record twice in one burst',
    before: (actor) => actor.write({ slot: 0, data: first, wait: 2 }),
    during: (actor) => {
      actor.write({ slot: 0, data: second, wait }, { slot: 0, data: first, wait, client: 1 })
      actor.idle()
    },
  }
}

/** Three records of a batch in order, each over an old one. */
function inOrder(wait: number): Scenario {
  const pairs = [pair(11), pair(13), pair(15)]
  const writes = (version: 0 | 1) =>
    pairs.map((pair, slot) => ({ slot, data: pair[version], wait: version === 0 ? 2 : wait }))
  return {
    name: 'a batch in order',
    before: (actor) => {
      actor.write(...writes(0))
      actor.idle()
    },
    during: (actor) => {
      actor.batch(...writes(1))
      actor.idle()
    },
    inOrder: [0, 1, 2],
    perClass: 1,
    wholeLanes: true,
    sample: 2 ** 11,
  }
}

function level(name: string): Level {
  const [wait, copies] = name.split('of').map(Number)
  return { wait: wait!, copies: copies! }
}

/** By the first word of an argument; the second is the level, the others say what is hit, too. */
const SCENARIOS: Readonly<Record<string, (of: Level) => Scenario>> = {
  similar: overSimilar,
  another: overAnother,
  twice: ({ wait }) => twice(wait),
  order: ({ wait }) => inOrder(wait),
}

const EXTRAS: Readonly<Record<string, Partial<Scenario>>> = {
  /** A line of the metadata is lost at the same instant. */
  metadata: { mediaErrors: [{ lines: 'metadata' }], perClass: 2 },
  /** A line of a copy is lost at the same instant; the record may be lost if that is said. */
  copies: { mediaErrors: [{ lines: 'copies', mayLose: true }], perClass: 2 },
  /** A line of a copy is lost later, when all is acknowledged. */
  later: { mediaErrors: [{ lines: 'copies', later: true }], perClass: 2 },
  /** Recovery is cut, too, and that recovery once more. */
  nested: { nested: 1, nestedSample: 32, perClass: 1 },
  /** The lines of the operation table are cut as everything else is. */
  table: { fineTable: true },
  /** Check codes say nothing: what is still right is so by structure alone (D-2). */
  checkless: { damage: { checkless: true } },
}

/** A play of the stage as it is: KIND, LEVEL. */
function playStage(kind: string, of: Level, show: Show): string | null {
  const pair = pairKind(kind)
  if (pair !== null) return tallyOfPairs(pair, of, 0, '', '').described[0]?.what ?? null
  return playScenario({ ...playOf(kind, of, 0), perClass: PER_CLASS }, show).what
}

type Show = Parameters<Play>[1]

/** What is wrong, which is shown, and how many images were visited. */
function playScenario(
  scenario: Scenario,
  show: Show,
): { readonly what: string | null; readonly images: number } {
  const { images, witnesses, aims } = explore(scenario)
  const [what = null] = witnesses
  if (what === null || show === undefined) return { what, images }
  const { timeline } = timelineOfImage(scenario, aims[0]!, what)
  if (timeline !== undefined) show(timeline)
  return { what, images }
}

/** NAME LEVEL EXTRAS of a scenario here, or `KIND, LEVEL` of the stage. */
export const play: Play = (argument, show) => {
  const staged = /^(.+), (\dof\d)$/.exec(argument)
  if (staged !== null) return playStage(staged[1]!, level(staged[2]!), show)
  const [name, of, ...extras] = argument.split(' ')
  const make = SCENARIOS[name!]
  if (make === undefined) throw new Error(`no scenario is called ${name}`)
  let scenario: Scenario = { sample: SAMPLE, perClass: PER_CLASS, ...make(level(of!)) }
  for (const extra of extras) scenario = { ...scenario, ...EXTRAS[extra]! }
  const { what, images } = playScenario(scenario, show)
  if (what !== null) return what
  return images < 10 ? `only ${images} images were visited` : null
}
