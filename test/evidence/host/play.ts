/**
 * One play: something is done with a record, an event takes a machine away on the way, and all
 * comes back in one of the ways in which it may; then, if the play says so, once more in what
 * follows.
 *
 * What must hold (O1 to O7): nothing that was acknowledged is lost, nothing older is ever shown, no
 * acknowledgement leaves that the durable bytes do not bear out, and whoever needs nothing of the
 * host is served all the time. When all is back the record is served, and takes writes.
 */

import type { TestCard } from '../../support/cards/test-card.ts'
import { BatchJudge, BatchPlay } from './batches.ts'
import { Judge } from './judge.ts'
import { BytesJudge, PlainJudge, PlainPlay } from './plain.ts'
import { LONG_US, NEW, RecordPlay, scan, TURNS } from './record.ts'
import { copiesOf, type Event, type Level, type Media, type Placement, Rig } from './rig.ts'
import { isIntoBytes, isPlain, isWay, type OperationName, type Script } from './script.ts'

/** The media that a play begins on, and the newest version that is acknowledged on them. */
interface Base {
  readonly media: Media
  readonly floor: number
}

export interface Played {
  readonly complaints: readonly string[]
  readonly acknowledged: number
  readonly refused: number
  /** Steps of the operation, and of what followed. */
  readonly steps: number
  readonly stepsAfter: number
  /** Choices that the event had, and the nested one. */
  readonly choices: number
  readonly choicesAfter: number
  /** Where the commit was when the event struck. */
  readonly phase: string
  /** What a reader was shown first behind it: the version before, the new one, or nothing. */
  readonly outcome: 'old' | 'new' | 'refused'
  readonly writes: number
}

/** Who does it, and judges what comes of it. */
function playerOf(
  operation: OperationName,
  rig: Rig,
  floor: number,
  level: Level,
  events: readonly (Event | null)[] = [],
): RecordPlay {
  // Of a save that failed no phase is believed, and a prefix is promised to nobody.
  const isExact = !events.some((event) => event?.party === 'unsaved')
  const isSlow = (events[0]?.step ?? 0) % 2 === 1
  if (operation === 'batch') return new BatchPlay(rig, level, new BatchJudge(rig, floor, isExact))
  if (isIntoBytes(operation)) {
    return new PlainPlay(rig, level, new BytesJudge(rig, floor, operation), operation, isSlow)
  }
  if (isPlain(operation)) {
    return new PlainPlay(rig, level, new PlainJudge(rig, floor, copiesOf(level)), operation, isSlow)
  }
  return new RecordPlay(rig, level, new Judge(rig, floor))
}

function provision(
  operation: OperationName,
  rig: Rig,
  card: TestCard,
  placement: Placement,
  level: Level,
): string {
  if (!isIntoBytes(operation)) return rig.provision(card, 'records', placement, copiesOf(level))
  return rig.provisionBytes(card, 'records', placement, operation !== 'flush')
}

/** What it is done with, a region of the card's own beside it, and version 1 in every copy. */
export function makeBase(
  placement: Placement,
  level: Level,
  operation: OperationName = 'write',
): Base {
  const rig = new Rig(placement)
  rig.cardOn()
  rig.byCard((card) => card.format())
  rig.driverOn()
  rig.byCard((card) => {
    const made = provision(operation, rig, card, placement, level)
    const other = rig.provision(card, 'other', 'local', 2)
    if (made !== 'PASS' || other !== 'PASS') throw new Error(`no regions: ${made}, ${other}`)
  })
  rig.work(TURNS)
  const play = playerOf(operation, rig, 0, level)
  play.write(1)
  if (play.judge.floor !== 1) throw new Error('version 1 was not acknowledged')
  rig.work(TURNS)
  rig.cutBoth()
  return { media: rig.media(), floor: 1 }
}

/** Spoils what the operation is to mend, before the card is on. */
function spoil(play: RecordPlay, { operation }: Script): void {
  if (operation === 'scan') play.judge.spoil(0, 1)
  if (operation === 'discard') play.judge.spoil(1, Infinity)
}

/** Plays it; `spoilt` may take something away that the product rests on, to see it noticed. */
export function playScript(script: Script, spoilt: (rig: Rig) => void = () => {}): Played {
  const base = baseOf(script)
  const rig = new Rig(script.placement, base.media)
  spoilt(rig)
  const events = [script.event, script.nested]
  const play = playerOf(script.operation, rig, base.floor, script.level, events)
  const { judge } = play
  spoil(play, script)
  if (script.operation !== 'repair') {
    rig.cardOn()
    rig.driverOn()
    if (script.operation === 'discard') rig.byCard((card) => scan(card, 1))
    if (isWay(script.operation)) play.ways.open()
    rig.work(2)
  }
  let phase = ''
  rig.onStrike = () => {
    play.hear()
    phase = judge.phase(NEW)
    judge.first = -1
  }
  rig.arm(script.event)
  play.operate(script)
  const { steps, writes } = rig
  rig.strikeNow()
  const { choices } = rig
  rig.onStrike = () => {}
  if (rig.lacksAgent) rig.work(script.back === 'late' ? 3 : 1, LONG_US)
  if (script.event?.party === 'twin') rig.attachAgent()
  if (script.event?.party === 'write') rig.resetHost()
  rig.arm(script.nested)
  play.comeBack(script.back)
  play.demand(script.operation)
  const stepsAfter = rig.steps
  rig.strikeNow()
  const choicesAfter = rig.choices
  if (script.nested !== null) {
    rig.arm(null)
    play.comeBack('at-once')
    play.demand(script.operation)
  }
  play.end()
  const { complaints, acknowledged, refused, first } = judge
  const outcome = first < 0 ? 'refused' : first >= NEW ? 'new' : 'old'
  const counts = { acknowledged, refused, steps, stepsAfter, choices, choicesAfter, writes }
  return { complaints, phase, outcome, ...counts }
}

/** A choice in which some line is torn, where there are that many. */
const TORN = 6

const quiet = new Map<string, Base>()
const broken = new Map<string, readonly Base[]>()

function quietBase(placement: Placement, level: Level, operation: OperationName = 'write'): Base {
  const own = operation === 'batch' || isPlain(operation) ? operation : 'write'
  const key = `${placement} ${level} ${own}`
  const made = quiet.get(key) ?? makeBase(placement, level, own)
  quiet.set(key, made)
  return made
}

/**
 * What a cut of both machines in the middle of a write leaves: one of every kind that a start can
 * tell apart by the lane and the copies.
 */
export function brokenBases(placement: Placement, level: Level): readonly Base[] {
  const key = `${placement} ${level}`
  const known = broken.get(key)
  if (known !== undefined) return known
  const found = new Map<string, Base>()
  for (let step = 0, going = true; going; step += 2) {
    // Nothing survives, all of it does where that is all there is to choose, or something is torn.
    for (const choice of [0, 1, TORN]) {
      const rig = new Rig(placement, quietBase(placement, level).media)
      const play = playerOf('write', rig, 1, level)
      rig.cardOn()
      rig.driverOn()
      rig.arm({ party: 'both', step, choice })
      play.write(NEW)
      going = rig.struck
      if (!going) break
      const kind = `${play.judge.phase(NEW)}: ${play.judge.copies()}`
      if (kind.startsWith('lane -') || found.has(kind)) continue
      found.set(kind, { media: rig.media(), floor: play.judge.floor })
    }
  }
  const bases = [...found.values()]
  broken.set(key, bases)
  return bases
}

function baseOf({ operation, placement, level, base }: Script): Base {
  if (operation === 'repair') return brokenBases(placement, level)[base]!
  return quietBase(placement, level, operation)
}
