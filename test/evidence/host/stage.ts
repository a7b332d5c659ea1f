/**
 * B1 to B7: card and host are two machines. One record, in each placement and at each level; each
 * of the two, both, the flush agent or a posted write goes at every step.
 */

import {
  addTally,
  NOTHING,
  type Replayed,
  type Shard,
  type Size,
  type Stage,
  type Tally,
} from '../stage.ts'
import { brokenBases, type Played, playScript } from './play.ts'
import {
  copiesOf,
  type Event,
  LEVELS,
  type Level,
  PARTIES,
  type Party,
  PLACEMENTS,
  type Placement,
} from './rig.ts'
import {
  BACKS,
  type Back,
  isIntoBytes,
  isPlain,
  isWay,
  OPERATIONS,
  type OperationName,
  type Script,
} from './script.ts'

/** Those of an open kind have to be described to be known (open.ts). */
const DESCRIBED = 64

/** One in so many steps of an operation is played: of `write` every step, but in the suite. */
const STRIDE: Readonly<Record<Size, Readonly<Record<StrideOf, number>>>> = {
  cut: { write: 29, way: 53, own: 61, other: 67 },
  ci: { write: 1, way: 3, own: 7, other: 23 },
  nightly: { write: 1, way: 1, own: 1, other: 1 },
}
/** `own`: what has a play of its own. */
type StrideOf = 'write' | 'way' | 'own' | 'other'

function strideOf(operation: OperationName, size: Size): number {
  if (operation === 'write') return STRIDE[size].write
  if (isPlain(operation) || operation === 'batch') return STRIDE[size].own
  return STRIDE[size][isWay(operation) ? 'way' : 'other']
}

/** One in so many events is followed by a second one. */
const NESTED: Readonly<Record<Size, number>> = { cut: 5, ci: 6, nightly: 1 }

/** With one in so many events another choice of what survives is played, too. */
const OTHERS: Readonly<Record<Size, number>> = { cut: 3, ci: 3, nightly: 1 }

/** Media that need a repair, of each placement and level. */
const BASES: Readonly<Record<Size, number>> = { cut: 1, ci: 2, nightly: Infinity }

const BACKS_OF: Readonly<Record<Party, readonly Back[]>> = {
  card: ['at-once', 'flipped', 'host-again'],
  unsaved: ['host-again', 'at-once', 'late'],
  host: ['at-once', 'late', 'flipped', 'host-again'],
  both: ['at-once', 'card-first', 'flipped', 'host-again'],
  agent: ['at-once', 'late'],
  twin: ['at-once'],
  write: ['at-once'],
}

function partiesOf(placement: Placement, operation: OperationName): Party[] {
  return PARTIES.filter((party) => {
    // Bytes are not compared when they have arrived: that one of them is lost nobody can tell.
    if (party === 'write' && isIntoBytes(operation)) return false
    if (party === 'agent' || party === 'twin') return placement === 'through'
    return party !== 'write' || placement !== 'local'
  })
}

function textOf(event: Event | null): string {
  return event === null ? '-' : `${event.party}@${event.step}/${event.choice}`
}

function eventOf(text: string): Event | null {
  const [, party, step, choice] = /^(\w+)@(\d+)\/(\d+)$/.exec(text) ?? []
  if (!PARTIES.includes(party as Party)) return null
  return { party: party as Party, step: Number(step), choice: Number(choice) }
}

/** A script in one line, and back. */
export function lineOf(script: Script): string {
  const { operation, placement, level, base, event, back, nested } = script
  return [operation, placement, level, base, textOf(event), back, textOf(nested)].join(' ')
}

export function scriptOf(line: string): Script {
  const [operation, placement, level, base, event, back, nested] = line.split(' ')
  const script = {
    operation: operation as OperationName,
    placement: placement as Placement,
    level: level as Level,
    base: Number(base),
    event: eventOf(event ?? ''),
    back: back as Back,
    nested: eventOf(nested ?? ''),
  }
  const known =
    OPERATIONS.includes(script.operation) &&
    PLACEMENTS.includes(script.placement) &&
    LEVELS.includes(script.level) &&
    BACKS.includes(script.back)
  if (!known) throw new Error(`not a play: ${line}`)
  return script
}

/** Draws by counting: the same for the same seed, step and party, and spread over all of them. */
function drawn(seed: number, step: number, below: number): number {
  const mixed = Math.imul(seed + 0x9e37, 2654435761) + Math.imul(step + 1, 40503)
  return (mixed >>> 8) % below
}

/**
 * In the suite each placement has one level at which more is done than to write. Bytes have no
 * level: they are written at that one alone.
 */
function operationsOf(size: Size, placement: Placement, level: Level): readonly OperationName[] {
  const isChosen = PLACEMENTS.indexOf(placement) === LEVELS.indexOf(level)
  if (isChosen) return OPERATIONS
  return size === 'cut' ? ['write'] : OPERATIONS.filter((operation) => !isIntoBytes(operation))
}

function shards(size: Size, seed: number): Shard[] {
  return PLACEMENTS.flatMap((placement) =>
    LEVELS.flatMap((level) =>
      operationsOf(size, placement, level).map((operation): Shard => {
        const seconds = (operation === 'write' ? 6 : 2) * (placement === 'through' ? 3 : 1)
        const options = { placement, level, operation, size }
        return { name: `${operation} ${placement} ${level}`, seed, seconds, options }
      }),
    ),
  )
}

/** What throws is a complaint like any other. */
function playSafely(script: Script): Played {
  try {
    return playScript(script)
  } catch (error) {
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error)
    return { ...NOT_PLAYED, complaints: [`it throws: ${what.split('\n').slice(0, 3).join('; ')}`] }
  }
}

const NOT_PLAYED: Played = {
  complaints: [],
  acknowledged: 0,
  refused: 0,
  steps: 0,
  stepsAfter: 1,
  choices: 1,
  choicesAfter: 1,
  phase: '',
  outcome: 'refused',
  writes: 0,
}

class Walk {
  tally: Tally = NOTHING
  private readonly shard: Shard
  private readonly met = new Set<string>()

  constructor(shard: Shard) {
    this.shard = shard
  }

  play(script: Script): Played {
    const played = playSafely(script)
    const { complaints, phase, outcome, acknowledged, refused } = played
    const { operation, placement, level, event, nested, back } = script
    const replay = lineOf(script)
    const party = event?.party ?? 'nothing'
    const where = phase === '' ? 'ended' : phase
    const cell = `${operation} × ${party} × ${placement} ${level} × ${where} × ${outcome}`
    this.met.add(`${cell} ${back}`)
    const what = `${replay}: ${complaints.join('; ')}`
    const described = complaints.length > 0 ? [{ shard: this.shard.name, what, replay }] : []
    const more = {
      'acknowledgements judged': acknowledged,
      refusals: refused,
      [`${party} gone`]: 1,
      ...(nested === null ? {} : { 'nested events': 1 }),
    }
    const violations = described.length
    const one = { ...NOTHING, count: 1, violations, described, more, cells: { [cell]: 1 } }
    this.tally = addTally(this.tally, one)
    return played
  }

  get total(): Tally {
    const { tally, met } = this
    return {
      ...tally,
      distinct: met.size,
      described: tally.described.slice(0, DESCRIBED),
      seeds: 1,
    }
  }
}

/** Every event of one operation on one kind of media. */
function walk(shard: Shard, base: number, into: Walk, progress: (share: number) => void): void {
  const { operation, placement, level, size } = shard.options as unknown as {
    operation: OperationName
    placement: Placement
    level: Level
    size: Size
  }
  const of = { operation, placement, level, base }
  const plain = into.play({ ...of, event: null, back: 'at-once', nested: null })
  const stride = strideOf(operation, size)
  const parties = partiesOf(placement, operation)
  let number = 0
  parties.forEach((party, p) => {
    const steps = party === 'write' ? plain.writes : plain.steps + 1
    const each = party === 'write' && size !== 'cut' ? 1 : stride
    for (let step = drawn(shard.seed, p, each); step < steps; step += each) {
      number += 1
      const event = { party, step, choice: 0 }
      const backs = BACKS_OF[party]
      if (size === 'nightly') {
        for (const back of backs) playEach({ ...of, event, back, nested: null }, into)
      }
      const back = backs[drawn(shard.seed, number, backs.length)]!
      const first = into.play({ ...of, event, back, nested: null })
      const other = 1 + drawn(shard.seed, number, first.choices)
      const nested =
        number % NESTED[size] === 0 ? nestedOf(shard.seed, number, first, parties) : null
      const varies = first.choices > 1 && number % OTHERS[size] === 0
      if (varies || nested !== null) {
        into.play({ ...of, event: { ...event, choice: other }, back, nested })
      }
      progress((p + step / steps) / parties.length)
    }
  })
}

/** Every choice of what survives. */
function playEach(script: Script, into: Walk): void {
  for (let choice = 1, choices = 2; choice < choices; choice++) {
    choices = into.play({ ...script, event: { ...script.event!, choice } }).choices
  }
}

/** A second event, somewhere in what followed the first one. */
function nestedOf(seed: number, number: number, first: Played, parties: readonly Party[]): Event {
  const among = parties.filter((party) => party !== 'write')
  const party = among[drawn(seed, 3 * number, among.length)]!
  const step = drawn(seed, 7 * number, first.stepsAfter)
  return { party, step, choice: drawn(seed, 11 * number, 4) }
}

async function play(shard: Shard, progress: (share: number) => void): Promise<Tally> {
  const { operation, placement, level, size } = shard.options
  const into = new Walk(shard)
  const repairs = operation === 'repair'
  const all = repairs ? brokenBases(placement as Placement, level as Level).length : 1
  const bases = Math.min(all, BASES[size as Size])
  for (let i = 0; i < bases; i++) {
    const base = repairs ? (shard.seed + i * Math.ceil(all / bases)) % all : 0
    walk(shard, base, into, (share) => progress((i + share) / bases))
  }
  return into.total
}

/** The states of a commit in which a machine may go: the lane, and copies of the new version. */
function phasesOf(level: Level): string[] {
  const copies = copiesOf(level)
  const behind = Array.from({ length: copies }, (_, i) => `lane B, ${i + 1} of ${copies}`)
  return [`lane -, 0 of ${copies}`, `lane A, 0 of ${copies}`, `lane A, 1 of ${copies}`, ...behind]
}

/** Each machine, and both, have gone in every state of a commit, at each level and placement. */
function lacks({ cells }: Tally, size: Size): string[] {
  if (size === 'cut') return []
  const met = Object.keys(cells)
  return PLACEMENTS.flatMap((placement) =>
    LEVELS.flatMap((level) =>
      (['card', 'host', 'both'] as const).flatMap((party) =>
        phasesOf(level).flatMap((phase) => {
          const cell = `write × ${party} × ${placement} ${level} × ${phase}`
          return met.some((name) => name.startsWith(`${cell} × `)) ? [] : [`${cell}: never met`]
        }),
      ),
    ),
  )
}

async function replay(line: string): Promise<Replayed> {
  const script = scriptOf(line)
  const { complaints, phase, outcome, acknowledged, refused, choices, steps } = playSafely(script)
  const lines = [
    `${script.operation}, ${script.placement}, ${script.level}: ${steps} steps;`,
    `${textOf(script.event)}, one of ${choices} choices, where the medium says ${phase};`,
    `it comes back ${script.back}; then ${textOf(script.nested)}.`,
    `${acknowledged} acknowledgements, ${refused} refusals; a reader is shown: ${outcome}.`,
  ]
  const wrong = complaints.length > 0 ? complaints : ['Nothing to object to.']
  return { violated: complaints.length > 0, text: [...lines, ...wrong].join('\n') }
}

export const HOST: Stage = {
  name: 'host',
  id: 'C11',
  title: 'the host fails alone, the card alone, or both',
  unit: 'plays',
  floors: {
    cut: [{ of: 'count', least: 100 }],
    ci: [{ of: 'count', least: 2400 }],
    nightly: [{ of: 'count', least: 100_000 }],
  },
  shards,
  play,
  lacks,
  replay,
}
