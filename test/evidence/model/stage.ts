/**
 * C2: the protocol as a model, walked whole; each of its rules shown necessary; and the model, and
 * every decision by cases, held against the firmware.
 */

import {
  addTally,
  NOTHING,
  type Replayed,
  type Shard,
  type Size,
  type Stage,
  type Tally,
  type Violation,
} from '../stage.ts'
import { type Conformed, conformDecisions, conformOrder, DECIDED, planOf } from './conformance.ts'
import type { Mutant, Plan } from './protocol.ts'
import { totalReceipts } from './receipts.ts'
import { complaintOf, judgeRule, RULES } from './rules.ts'
import { totalFrames, totalPsns, totalRecovery, totalRequests } from './totality.ts'
import { type Walked, walk } from './walk.ts'

const DESCRIBED = 5

const PLAIN = { linked: false, checkless: false, mutant: null } as const

const LEVELS = [
  { copies: 2, wait: 1 },
  { copies: 2, wait: 2 },
  { copies: 3, wait: 2 },
] as const

/** Every mutant, and the smallest plan in which it is met. */
const MUTANTS: Readonly<Record<Mutant, Partial<Plan>>> = {
  F1: {},
  F2: {},
  F3: {},
  F4: {},
  I0: {},
  I1: {},
  I2: {},
  I3: {},
  I4: {},
  I5: {},
  I6: {},
  I7: {},
  I8: { mediaErrors: 1 },
  majority: { copies: 3, wait: 2 },
  stale: { mediaErrors: 1 },
  clearing: { crashes: 2 },
  repair: { copies: 3, wait: 2, mediaErrors: 1, crashes: 2 },
  unlinked: { linked: true },
  'table before F1': {},
  'one line': {},
  'table skipped': {},
  'known too long': { crashes: 2, mediaErrors: 1 },
}

const ALL_MUTANTS = Object.keys(MUTANTS) as Mutant[]

function mutated(mutant: Mutant): Plan {
  const small = { copies: 2, wait: 1, writes: 2, crashes: 1, mediaErrors: 0, ...PLAIN }
  return { ...small, ...MUTANTS[mutant], mutant }
}

/** What is walked whole: by size, writes, crashes and media errors. */
function plansOf(size: Size): Plan[] {
  return LEVELS.flatMap((level): Plan[] => {
    const singly = { ...PLAIN, ...level, writes: 3 }
    const batch = { ...PLAIN, ...level, linked: true, writes: 4 }
    const checkless = { ...singly, checkless: true, crashes: 2, mediaErrors: 0 }
    if (size === 'cut') {
      const short = { crashes: 1, mediaErrors: 1, writes: 2 }
      return [
        { ...singly, ...short },
        { ...batch, ...short },
        { ...checkless, writes: 2 },
      ]
    }
    const more = size === 'nightly' ? 1 : 0
    return [
      { ...singly, crashes: 2, mediaErrors: 1, writes: 3 + more },
      { ...batch, crashes: 1 + more, mediaErrors: 1 },
      { ...batch, crashes: 2 + more, mediaErrors: 0 },
      checkless,
    ]
  })
}

function nameOfPlan({
  copies,
  wait,
  writes,
  crashes,
  mediaErrors,
  linked,
  checkless,
}: Plan): string {
  const batch = linked ? ' in pairs' : ''
  const checks = checkless ? ', no check codes' : ''
  const faults = `${crashes} crashes, ${mediaErrors} media errors`
  return `${wait}of${copies}, ${writes} writes${batch}, ${faults}${checks}`
}

/** Everything but the walks, each by a name. */
const CHECKS: Readonly<Record<string, (size: Size) => Conformed>> = {
  rules: () => {
    const complaints = RULES.flatMap((rule) => complaintOf(rule, judgeRule(rule)) ?? [])
    const cells = Object.fromEntries(RULES.map(({ name }) => [name, 1]))
    return {
      count: RULES.reduce((sum, rule) => sum + judgeRule(rule).states, 0),
      cells,
      complaints,
    }
  },
  decisions: () => joined(DECIDED.map((level) => conformDecisions(planOf(level)))),
  orders: () =>
    joined(LEVELS.map(({ wait, copies }) => conformOrder(planOf(`${wait}of${copies}`)))),
  recovery: totalRecovery,
  frames: totalFrames,
  requests: totalRequests,
  psns: (size) => totalPsns(size === 'cut' ? 997 : 1),
  receipts: totalReceipts,
}

function joined(all: readonly Conformed[]): Conformed {
  return {
    count: all.reduce((sum, { count }) => sum + count, 0),
    cells: Object.assign({}, ...all.map(({ cells }) => cells)),
    complaints: all.flatMap(({ complaints }) => complaints),
  }
}

function shards(size: Size, seed: number): Shard[] {
  const walks = plansOf(size).map((plan, index): Shard => {
    const seconds = plan.crashes === 2 && plan.mediaErrors === 1 ? 15 : 2
    return { name: nameOfPlan(plan), seed, seconds, options: { kind: 'walk', size, index } }
  })
  const others = ['mutants', 'checks'].map((kind): Shard => {
    return { name: kind, seed, seconds: 6, options: { kind, size } }
  })
  return [...walks, ...others]
}

function violations(shard: Shard, complaints: readonly string[], replay: string): Violation[] {
  return complaints.map((what) => ({ shard: shard.name, what, replay }))
}

function walkTally(shard: Shard, plan: Plan): Tally {
  const { states, transitions, classes, wrong } = walk(plan, true)
  const replay = `walk ${shard.options.size} ${shard.options.index}`
  const told = wrong.map((what) => `${nameOfPlan(plan)}: ${what}`)
  return {
    ...NOTHING,
    count: states,
    distinct: states,
    violations: wrong.length,
    described: violations(shard, told, replay),
    more: { transitions, 'classes that a recovery met': classes },
    cells: { [nameOfPlan(plan)]: 1 },
  }
}

/** Without any of its rules the protocol fails: a mutant that nothing notices is a violation. */
function mutantTally(shard: Shard): Tally {
  let total: Tally = NOTHING
  for (const mutant of ALL_MUTANTS) {
    const { states, transitions, violations: met } = walk(mutated(mutant), false)
    const missed = met > 0 ? [] : [`nothing goes wrong without ${mutant}`]
    total = addTally(total, {
      ...NOTHING,
      count: states,
      violations: missed.length,
      described: violations(shard, missed, `mutant ${mutant}`),
      more: { transitions, 'rules shown necessary': met > 0 ? 1 : 0 },
      cells: { [`without ${mutant}`]: 1 },
    })
  }
  return total
}

function checkTally(shard: Shard): Tally {
  let total: Tally = NOTHING
  for (const [name, check] of Object.entries(CHECKS)) {
    const { count, cells, complaints } = check(shard.options.size as Size)
    total = addTally(total, {
      ...NOTHING,
      violations: complaints.length,
      described: violations(shard, complaints, `check ${name}`).slice(0, DESCRIBED),
      more: { [`${name} held against the model`]: count },
      cells,
    })
  }
  return total
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const { kind, size, index } = shard.options
  progress(0)
  if (kind === 'mutants') return mutantTally(shard)
  if (kind === 'checks') return checkTally(shard)
  return walkTally(shard, plansOf(size as Size)[Number(index)]!)
}

/** Every rule is shown necessary, every row of the table is met, every check is made. */
function lacks(total: Tally): string[] {
  const wanted = ALL_MUTANTS.map((mutant) => `without ${mutant}`)
  return wanted
    .filter((cell) => total.cells[cell] === undefined)
    .map((cell) => `not played: ${cell}`)
}

/** The shortest schedule of what is wrong, step by step. */
function told({ schedule, states, violations: met }: Walked, name: string): Replayed {
  const steps = schedule.map((step, i) => `${String(i + 1).padStart(3)}  ${step}`)
  const end = `${states} states, ${met} violations`
  return { violated: met > 0, text: [name, ...steps, end].join('\n') }
}

async function replay(argument: string): Promise<Replayed> {
  const [kind, ...rest] = argument.split(' ')
  const name = rest.join(' ')
  if (kind === 'mutant' && ALL_MUTANTS.includes(name as Mutant)) {
    return told(walk(mutated(name as Mutant), false), `without ${name}`)
  }
  if (kind === 'walk') {
    const plan = plansOf((rest[0] ?? 'ci') as Size)[Number(rest[1])]
    if (plan !== undefined) return told(walk(plan, false), nameOfPlan(plan))
  }
  const check = kind === 'check' ? CHECKS[name] : undefined
  if (check === undefined) return { violated: false, text: `nothing is called ${argument}` }
  const { count, complaints } = check('ci')
  return { violated: complaints.length > 0, text: [`${name}: ${count}`, ...complaints].join('\n') }
}

export const MODEL: Stage = {
  name: 'model',
  id: 'C2',
  title: 'the protocol as a model: every reachable state, and every rule shown necessary',
  unit: 'states',
  floors: {
    cut: [
      { of: 'count', least: 10_000 },
      { of: 'rules shown necessary', least: ALL_MUTANTS.length },
    ],
    ci: [
      { of: 'count', least: 3_000_000 },
      { of: 'transitions', least: 6_000_000 },
      { of: 'rules shown necessary', least: ALL_MUTANTS.length },
    ],
    nightly: [
      { of: 'count', least: 10_000_000 },
      { of: 'rules shown necessary', least: ALL_MUTANTS.length },
    ],
  },
  shards,
  play,
  lacks,
  replay,
}
