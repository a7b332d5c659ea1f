/**
 * Small pieces of the general stages, each played on the firmware that it was loaded with.
 *
 * Invariant: a piece is what its stage plays, with seeds and scenarios of the stage's own
 * kinds; it is the same every time, and none was chosen for a mutant.
 */

import type { Level } from '../../../support/crash/explorer.ts'
import { LEVELS, levelName } from '../../../support/crash/scenario.ts'
import { hostOperations } from '../../failures/hosted.ts'
import { type Operation, partOperations } from '../../failures/operations.ts'
import { failuresOf, playFailure, playPlain } from '../../failures/walk.ts'
import { playCorpus } from '../../fuzz/corpus.ts'
import { Ledger } from '../../fuzz/ledger.ts'
import { openEpisode, playEpisode, TARGETS } from '../../fuzz/play.ts'
import { type Conformed, conformDecisions, conformOrder } from '../../model/conformance.ts'
import { totalReceipts } from '../../model/receipts.ts'
import { totalFrames, totalPsns, totalRecovery, totalRequests } from '../../model/totality.ts'
import { playSeed } from '../../simulate/play.ts'
import { WORLDS } from '../../simulate/shape.ts'
import { play as playScenario } from '../killers/crash.ts'
import { play as playSchedules } from '../killers/model.ts'

/** What a piece found: a sentence, or null. */
export type Piece = () => string | null | Promise<string | null>

/** How much of each stage: a few minutes' worth for all mutants of a run, or hours. */
export type Amount = 'few' | 'many'

/** Every piece, by the name of its stage and its own. */
export function pieces(amount: Amount): ReadonlyMap<string, Piece> {
  return new Map([
    ...crashes(),
    ...models(),
    ...simulations(SEEDS[amount], STEPS[amount]),
    ...fuzzes(SEEDS[amount]),
    ...failures(FAILURE_STEP[amount]),
  ])
}

type Named = [name: string, piece: Piece]

/** Scenarios of killers/crash.ts, each at each level; and what else is hit, of one of them. */
function crashes(): Named[] {
  const plain = ['similar', 'another', 'twice', 'order'].flatMap((scenario) =>
    LEVELS.map((level) => `${scenario} ${levelName(level)}`),
  )
  const extras = ['metadata', 'copies', 'later', 'table', 'checkless']
  const more = extras.flatMap((extra) => ['2of2'].map((level) => `similar ${level} ${extra}`))
  return [...plain, ...more].map((argument) => {
    return [`crash ${argument}`, () => playScenario(argument)]
  })
}

const PSN_STEP = 4999

function models(): Named[] {
  const at = (level: Level) => ({
    ...level,
    writes: 2,
    crashes: 1,
    mediaErrors: 0,
    linked: false,
    checkless: false,
    mutant: null,
  })
  const checks: [string, () => Conformed][] = [
    ...LEVELS.flatMap((level): [string, () => Conformed][] => [
      [`decisions ${levelName(level)}`, () => conformDecisions(at(level))],
      [`orders ${levelName(level)}`, () => conformOrder(at(level))],
    ]),
    ['recovery', totalRecovery],
    ['frames', totalFrames],
    ['requests', totalRequests],
    ['psns', () => totalPsns(PSN_STEP)],
    ['receipts', totalReceipts],
  ]
  const held = checks.map(([name, check]): Named => {
    return [`model ${name}`, () => check().complaints[0] ?? null]
  })
  return [...held, ['model schedules', () => playSchedules('0')]]
}

const SEEDS: Readonly<Record<Amount, number>> = { few: 1, many: 12 }
/** Steps of a script: a world of few is played for a while, one of many to its end. */
const STEPS: Readonly<Record<Amount, number>> = { few: 40, many: 240 }

function simulations(seeds: number, steps: number): Named[] {
  return WORLDS.flatMap((world) =>
    Array.from({ length: seeds }, (_, i): Named => {
      const play = async (): Promise<string | null> => {
        return (await playSeed(i + 1, { world, steps })).violations[0] ?? null
      }
      return [`simulate ${world} ${i + 1}`, play]
    }),
  )
}

/** Inputs of one piece: enough for each kind to come some hundred times. */
const INPUTS: Readonly<Record<(typeof TARGETS)[number], number>> = {
  packets: 3000,
  dialogues: 2000,
  lengths: 1,
  faults: 1000,
  control: 2000,
  work: 600,
  media: 30,
}

function fuzzes(seeds: number): Named[] {
  const drawn = TARGETS.flatMap((target) =>
    Array.from({ length: seeds }, (_, i): Named => {
      const seed = i + 1
      const play = (): string | null => {
        const ledger = new Ledger(target, target)
        return playEpisode(openEpisode(target, seed), INPUTS[target], ledger) || null
      }
      return [`fuzz ${target} ${seed}`, play]
    }),
  )
  const corpus = (): string | null => {
    const ledger = new Ledger('corpus', 'corpus')
    playCorpus(ledger, 1)
    return ledger.described[0]?.what ?? null
  }
  return [...drawn, ['fuzz corpus', corpus]]
}

/** Of the failures of an operation, one in so many. */
const FAILURE_STEP: Readonly<Record<Amount, number>> = { few: 41, many: 1 }

function failures(step: number): Named[] {
  return [...partOperations(), ...hostOperations()].map((operation) => {
    return [`failures ${operation.name}`, () => playFailures(operation, step)]
  })
}

function playFailures(operation: Operation, step: number): string | null {
  const judged = new Map()
  const plain = playPlain(operation, judged)
  if (plain.complaints.length > 0) return `no failure: ${plain.complaints[0]}`
  for (const [i, failure] of failuresOf(plain).entries()) {
    if (i % step !== 0) continue
    const { complaints } = playFailure(operation, failure, judged)
    const { kind, k, lasting } = failure
    if (complaints.length > 0) {
      return `${kind} at ${k}${lasting ? ', lasting' : ''}: ${complaints[0]}`
    }
  }
  return null
}
