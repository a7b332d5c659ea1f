/**
 * C7: failure of the k-th board call and of the k-th allocation, for all k, in every operation.
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
import { type Failure, type FailureKind, KINDS } from './board.ts'
import { hostOperations } from './hosted.ts'
import { type Squash, squeeze, squeezeOf, textOf } from './memory.ts'
import { type Operation, partOperations } from './operations.ts'
import { Squeezed, type Taken } from './squeeze.ts'
import { failuresOf, playFailure, playPlain } from './walk.ts'
import type { Counts, Judged, PartWorld } from './world.ts'

const DESCRIBED = 5

/** Shards of the board's failures, of a card alone and of one with a host; and of the engine's. */
const SHARDS = { part: 8, host: 4, engine: 4 } as const
type Group = keyof typeof SHARDS

/** CPU seconds of a shard, about. */
const SECONDS: Readonly<Record<Group, number>> = { part: 8, host: 8, engine: 10 }

/** What the suite plays: one operation of each sort, and of the failures every seventh. */
const CUT_EVERY = 7
const CUT_OPERATIONS = [
  'start: 2of2, lane B, second copy torn',
  'FORMAT',
  'WRITE_PERSIST of 64 bytes, records, wait 2, MTU 4096',
  'a batch in order of 4',
  'WRITE where every store is durable',
  'idle time behind records: lanes are cleared',
  'OPEN',
  'host: a record by address, the register rung',
  'placement: a record through the caches',
]

function operationsOf(group: string): readonly Operation[] {
  return group === 'host' ? hostOperations() : partOperations()
}

function shards(size: Size, seed: number): Shard[] {
  return (Object.keys(SHARDS) as Group[]).flatMap((group) => {
    const count = size === 'cut' ? 1 : SHARDS[group]
    return Array.from({ length: count }, (_, index): Shard => {
      const options = { group, index, count, size }
      return { name: `${group} ${index + 1}`, seed, seconds: SECONDS[group], options }
    })
  })
}

/** The operations that a shard plays. */
function mine({ options }: Shard): Operation[] {
  const { group, index, count, size } = options
  return operationsOf(String(group)).filter(({ name }, i) => {
    if (size === 'cut') return CUT_OPERATIONS.includes(name)
    return i % Number(count) === index
  })
}

function violation(shard: Shard, operation: Operation, how: string, what: string): Violation {
  const replay = `${operation.name}|${how}`
  return { shard: shard.name, what: `${operation.name}, ${how}: ${what}`, replay }
}

function textOfFailure({ k, kind, lasting }: Failure): string {
  return `${kind} at ${k} ${lasting ? 'lasting' : 'once'}`
}

function failureOf(text: string): Failure | null {
  const [, kind, k, length] = /^(\w+) at (\d+) (lasting|once)$/.exec(text) ?? []
  if (!KINDS.includes(kind as FailureKind)) return null
  return { k: Number(k), kind: kind as FailureKind, lasting: length === 'lasting' }
}

/** One thing that was played, as a tally. */
function tallyOf(
  counts: Counts,
  cell: string,
  more: Readonly<Record<string, number>>,
  described: readonly Violation[],
): Tally {
  return {
    ...NOTHING,
    count: 1,
    distinct: counts.images,
    violations: described.length,
    described,
    more: {
      'acknowledgements judged': counts.acknowledged,
      refusals: counts.refused,
      'losses said': counts.losses,
      'images met again': counts.repeated,
      ...more,
    },
    cells: { [cell]: 1 },
  }
}

/** Every failure of the board in one operation. */
function walkBoard(shard: Shard, operation: Operation): Tally {
  const judged: Judged = new Map()
  const plain = playPlain(operation, judged)
  const said = plain.complaints.map((what) => violation(shard, operation, 'no failure', what))
  const commands = plain.kinds.length
  let total: Tally = {
    ...NOTHING,
    violations: said.length,
    described: said,
    more: { operations: 1, 'board calls': commands, 'command lists': plain.lists },
  }
  failuresOf(plain).forEach((failure, i) => {
    if (shard.options.size === 'cut' && (i + shard.seed) % CUT_EVERY !== 0) return
    const { complaints, counts, struck } = playFailure(operation, failure, judged)
    const how = textOfFailure(failure)
    const wrong = complaints.map((what) => violation(shard, operation, how, what))
    if (struck === 0) wrong.push(violation(shard, operation, how, 'the board did not fail'))
    const cell = `${operation.name} × ${failure.kind} ${failure.lasting ? 'lasting' : 'once'}`
    total = addTally(total, tallyOf(counts, cell, { 'board failures': 1 }, wrong))
  })
  return total
}

/** Steps of the limit, bytes: the engine counts eight for each allocation, and the last by size. */
const LIMIT_STEP = 8

/** A start has hundreds of thousands of limits; so many are left out between two. */
const START_STEP: Readonly<Record<Size, number>> = { cut: 1 << 14, ci: 1 << 9, nightly: 64 }
const STACK_LEAST = 1024
const STACK_STEP = 512

/** Everything that is taken from the engine, of each kind until the operation goes through. */
function squeezesOf(operation: Operation, size: Size, calls: number): Iterable<Taken>[] {
  const isStart = operation.name.startsWith('start')
  const step = isStart ? START_STEP[size] : LIMIT_STEP * (size === 'cut' ? 8 : 1)
  return [
    series((i) => ({ kind: 'stack', bytes: STACK_LEAST + i * STACK_STEP })),
    series((i) => ({ kind: 'time', asked: i })),
    series((i) => ({ kind: 'memory', more: i * step })),
    Array.from({ length: calls }, (_, call) => ({ kind: 'from', call })),
  ]
}

/** More than this and no walk ends. */
const SERIES_MAX = 100_000

function* series(make: (i: number) => Taken): Generator<Taken> {
  for (let i = 0; i < SERIES_MAX; i++) yield make(i)
}

const FRUGAL = 'operations without allocation'

/** Operations that allocate nothing, by their names: all that carry records and bytes. */
const CARRIES = /^(WRITE|READ|SEND|FETCH|COMPARE|ATOMIC|a batch|a record|one record|two records)/
const WANTED_NOTHING = 'no memory, and none wanted'

const NO_MEMORY: Taken = { kind: 'memory', more: Number.NEGATIVE_INFINITY }

/** The engine is stopped wherever it wants something in one operation. */
function walkEngine(shard: Shard, operation: Operation, squeezed: Squeezed): Tally {
  const judged: Judged = new Map()
  const size = shard.options.size as Size
  const note = (squash: Squash, how: string, cell: string): Tally => {
    const { reason, counts } = squash
    const wrong = squash.complaints.map((what) => violation(shard, operation, how, what))
    const stops = reason === null ? {} : { [`stopped: ${reason}`]: 1 }
    return tallyOf(counts, cell, { 'engine failures': 1, ...stops }, wrong)
  }
  const plain = squeeze(operation, squeezed, null, judged)
  let total = note(plain, 'no failure', `${operation.name} in QuickJS`)
  const none = squeeze(operation, squeezed, NO_MEMORY, judged)
  const frugal = none.reason === null
  const met = frugal ? WANTED_NOTHING : 'no memory'
  total = addTally(total, note(none, 'no memory', `${operation.name} × ${met}`))
  if (frugal) total = addTally(total, { ...NOTHING, more: { [FRUGAL]: 1 } })
  const series = squeezesOf(operation, size, plain.lists)
  // What allocates nothing does not fail for lack of memory.
  for (const all of frugal ? series.slice(0, 2) : series) {
    for (const how of all) {
      const squash = squeeze(operation, squeezed, how, judged)
      total = addTally(total, note(squash, textOf(how), `${operation.name} × ${how.kind}`))
      if (squash.reason === null && how.kind !== 'from') break
    }
  }
  return total
}

/** A guest for parts of each size. */
class Engines {
  private readonly bySize = new Map<number, Squeezed>()

  async for(operation: Operation): Promise<Squeezed> {
    const { part } = operation.begin(new Map()) as PartWorld
    const made = this.bySize.get(part.bytes) ?? (await Squeezed.evaluate(part.bytes))
    this.bySize.set(part.bytes, made)
    return made
  }

  dispose(): void {
    for (const made of this.bySize.values()) made.dispose()
  }
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const all = mine(shard)
  const engines = new Engines()
  let total: Tally = { ...NOTHING, seeds: 1 }
  for (const [i, operation] of all.entries()) {
    const one =
      shard.options.group === 'engine'
        ? walkEngine(shard, operation, await engines.for(operation))
        : walkBoard(shard, operation)
    total = addTally(total, one)
    total = { ...total, described: total.described.slice(0, DESCRIBED) }
    progress((i + 1) / all.length)
  }
  engines.dispose()
  return total
}

/** Every operation, on the board and in the engine, was met with every kind it may fail with. */
function lacks(total: Tally, size: Size): string[] {
  const names = [...partOperations(), ...hostOperations()].map(({ name }) => name)
  const wanted = size === 'cut' ? CUT_OPERATIONS : names
  const met = Object.keys(total.cells)
  return wanted.flatMap((name) => {
    const has = (kind: string): boolean => met.some((cell) => cell.startsWith(`${name} × ${kind}`))
    const kinds = size === 'cut' ? [''] : ['power once', 'throws once']
    const missing = kinds.filter((kind) => !has(kind))
    const allocates = CARRIES.test(name) && !has(WANTED_NOTHING)
    return [
      ...missing.map((kind) => `${name} was never played with ${kind}`),
      ...(allocates ? [`${name} was never carried out without allocation`] : []),
    ]
  })
}

async function replay(argument: string): Promise<Replayed> {
  const [name = '', how = ''] = argument.split('|')
  const operation = [...partOperations(), ...hostOperations()].find((one) => one.name === name)
  if (operation === undefined) return { violated: false, text: `no operation is called ${name}` }
  const failure = failureOf(how)
  const lines = [`${name}, ${how}`]
  let complaints: readonly string[]
  if (failure !== null) {
    const trial = playFailure(operation, failure, new Map())
    complaints = trial.complaints
    lines.push(`the board failed ${trial.struck} times`)
  } else if (how === 'no failure') {
    complaints = playPlain(operation, new Map()).complaints
  } else {
    const taken = how === 'no memory' ? NO_MEMORY : squeezeOf(how)
    const squash = squeeze(operation, await new Engines().for(operation), taken, new Map())
    complaints = squash.complaints
    lines.push(squash.reason === null ? 'it went through' : `it stopped: ${squash.reason}`)
  }
  lines.push(...complaints, complaints.length === 0 ? 'all is well' : 'that must not be')
  return { violated: complaints.length > 0, text: lines.join('\n') }
}

export const FAILURES: Stage = {
  name: 'failures',
  id: 'C7',
  title: 'failure of the k-th board call and the k-th allocation, for all k, in every operation',
  unit: 'failures',
  floors: {
    cut: [
      { of: 'board failures', least: 200 },
      { of: 'engine failures', least: 100 },
    ],
    // A firmware that asks the board less has fewer failures, and is none the worse for that.
    ci: [
      { of: 'board failures', least: 15_000 },
      { of: 'engine failures', least: 4_000 },
      { of: 'distinct', least: 2_000 },
    ],
    nightly: [
      { of: 'board failures', least: 15_000 },
      { of: 'engine failures', least: 20_000 },
    ],
  },
  shardsFollow: true,
  shards,
  play,
  lacks,
  replay,
}
