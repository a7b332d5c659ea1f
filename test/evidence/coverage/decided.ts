/**
 * C9: of what decides, each condition alone: recovery, the decision to acknowledge, and the checks
 * of a packet (MC/DC, decisions.ts).
 *
 * Invariant: the tests are among those that notice drawn mutants; each is played on
 * the product once. A condition that nobody shows is named, with what it lacks.
 */

import { testFiles } from '../../support/source/test-files.ts'
import { newBench, playEach } from '../mutants/drawn/bench.ts'
import { marked } from '../mutants/drawn/marks.ts'
import { unitNames } from '../mutants/drawn/reach.ts'
import { ARGUED } from './argued.ts'
import { type Decision, Decisions } from './decisions.ts'

/** What decides that something is durable, and what believes a header. */
const DECIDING: readonly string[] = [
  'firmware/commit/cases.ts',
  'firmware/commit/recovery.ts',
  'firmware/commit/unify.ts',
  'firmware/engine/receipt.ts',
  'firmware/medium/copies.ts',
  'firmware/transport/acknowledge.ts',
  'firmware/transport/responder.ts',
  'firmware/wire/opcode.ts',
  'firmware/wire/packet.ts',
]

const SUITE = `
  acknowledge-alone acknowledged-gone batch batch-bursts batch-edges congestion connect-doubt
  duplicates flush groups media-errors operations operations-table ordered ordered-edges persist
  persist-edges placement-bypass placement-chains placement-edges placement-mixed
  placement-restarts placement-through read recovery recovery-alone recovery-table responder send
  superblock-lost wire wire-hostile wire-vectors write-persist-region
`

/** Work of one test, at the most: what takes longer enumerates, or draws. */
const WORK_MAX = 1_500_000

/** Of the general stages those that cut recoveries, and know every row. */
const PLAYED = /^(suite|crash|model) /

export interface Decided {
  readonly decisions: number
  readonly conditions: number
  readonly shown: number
  /** Of those that were not shown, those that cannot be, with an argument. */
  readonly argued: number
  /** What is missing: file, line, condition, and how it did not decide. */
  readonly missing: readonly string[]
  /** Arguments about conditions that there are not, or that were shown. */
  readonly stale: readonly string[]
  /** What a test says of the product. */
  readonly failed: readonly string[]
}

/** The name of what a condition lacks, without the line: arguments outlive it. */
function nameOf({ file, conditions }: Decision, place: number, value: boolean): string {
  return `${file}: ${conditions[place]} decides by being ${value}, in: ${conditions.join(' , ')}`
}

export async function decide(progress: (share: number) => void): Promise<Decided> {
  const decisions = new Decisions()
  const failed = await play(decisions, progress)
  const missing: string[] = []
  const argued = new Set<string>()
  let [conditions, shown] = [0, 0]
  decisions.all.forEach((decision, i) => {
    decisions.shown(i).forEach(({ f, t }, place) => {
      conditions += 1
      if (f && t) shown += 1
      for (const [value, met] of [[false, f] as const, [true, t] as const]) {
        if (met) continue
        const name = nameOf(decision, place, value)
        if (ARGUED.has(name)) argued.add(name)
        else missing.push(`line ${decision.line} of ${name}`)
      }
    })
  })
  const stale = [...ARGUED.keys()].filter((name) => !argued.has(name))
  const { length } = decisions.all
  return { decisions: length, conditions, shown, argued: argued.size, missing, stale, failed }
}

async function play(decisions: Decisions, progress: (share: number) => void): Promise<string[]> {
  const suite = testFiles(SUITE)
  const bench = await newBench(
    { suite, pieces: 'few' },
    {
      marked: (file, text) => {
        return marked(DECIDING.includes(file) ? decisions.marked(file, text) : text, null)
      },
    },
  )
  Object.assign(globalThis, decisions.marks())
  const killers = bench.killers()
  const names = unitNames(killers, suite).filter((name) => PLAYED.test(name))
  const failed: string[] = []
  await playEach(bench, killers, names, {
    mostFor: () => WORK_MAX,
    // What was cut off, or threw, in the middle of a decision has not ended it.
    begins: () => decisions.forget(),
    ended: ({ name, witness }) => {
      if (witness !== null) failed.push(`${name}: ${witness}`)
    },
    progress,
  })
  return failed
}
