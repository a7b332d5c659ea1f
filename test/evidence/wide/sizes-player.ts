/**
 * The crashes of records whose subsets cannot be counted out: 65 lines of a record of 4 KiB have
 * 2^520 subsets. A recovery sees of them only what the lane is, what each copy is, and whether two
 * copies are the same (crash-model 2.4, R1); so every class of that is made, torn in every way that
 * has an end or a border in it, and more are drawn by the strategies of crash-model 2.5.
 *
 * Invariant: points, recovery and judge are those of the exhaustive exploration. A class is
 * made, not met: its name says which chunks survived. Every image is started, and of each class one
 * start is cut before a fence, and what that leaves, by a strategy, is started again.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type PendingChunk, pending } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { type RegionShape, TestCard } from '../../support/cards/test-card.ts'
import { Actor } from '../../support/crash/actor.ts'
import { Judge } from '../../support/crash/judge.ts'
import { LeanBooth } from '../../support/crash/lean-boot.ts'
import { Scratch } from '../../support/crash/scratch.ts'
import { askerOf, startedOf } from '../../support/crash/told.ts'
import { copyAt, LANES, LANES_AT, LINE_BYTES, OPERATIONS_AT } from '../../support/judges/oracle.ts'

export interface SizePlay {
  readonly shape: RegionShape
  readonly partBytes: number
  before(actor: Actor): void
  during(actor: Actor): void
}

export interface SizeLook {
  readonly seed: number
  /** Images that are drawn at each point. */
  readonly drawn: number
  /** Only the image of that number, over all points. */
  readonly aim?: number
}

interface SizeFindings {
  images: number
  points: number
  nested: number
  violations: number
  readonly distinct: Set<string>
  readonly witnesses: string[]
  readonly aims: number[]
  readonly cells: Map<string, number>
  readonly story: string[]
}

export function playSize(play: SizePlay, look: SizeLook): SizeFindings {
  return new SizePlayer(play, look).run()
}

const WITNESSES = 5
const LINE_CHUNKS = 8

/** Where a chunk stands among the pending ones of its lane, copy or table. */
interface Place {
  /** Of the group: number of the line, and how many lines there are. */
  readonly line: number
  readonly lines: number
  /** Of the line. */
  readonly chunk: number
}

/** Which chunks of a copy survive. */
const COPY_WAYS: Readonly<Record<string, (place: Place) => boolean>> = {
  old: () => false,
  new: () => true,
  'its check code only': ({ line, chunk }) => line === 0 && chunk < 2,
  'all but its check code': ({ line, chunk }) => line > 0 || chunk >= 2,
  'its header only': ({ line }) => line === 0,
  'all but its header': ({ line }) => line > 0,
  'its first chunk only': ({ line, chunk }) => line === 0 && chunk === 0,
  'all but its first chunk': ({ line, chunk }) => line > 0 || chunk > 0,
  'its last chunk only': ({ line, lines, chunk }) => line === lines - 1 && chunk === 7,
  'all but its last chunk': ({ line, lines, chunk }) => line < lines - 1 || chunk < 7,
  'its last line only': ({ line, lines }) => line === lines - 1,
  'all but its last line': ({ line, lines }) => line < lines - 1,
  'one line in the middle only': ({ line, lines }) => line === lines >> 1,
  'all but one in the middle': ({ line, lines }) => line !== lines >> 1,
  'its first half': ({ line, lines }) => line < lines / 2,
  'its second half': ({ line, lines }) => line >= lines / 2,
  'its even lines': ({ line }) => line % 2 === 0,
  'its odd lines': ({ line }) => line % 2 === 1,
  'of each line the first half': ({ chunk }) => chunk < LINE_CHUNKS / 2,
  'of each line the second half': ({ chunk }) => chunk >= LINE_CHUNKS / 2,
}

/** Which chunks of a line on its own survive: of a lane, of the operation table. */
const LINE_WAYS: Readonly<Record<string, (place: Place) => boolean>> = {
  old: () => false,
  new: () => true,
  'first chunk only': ({ chunk }) => chunk === 0,
  'all but the first chunk': ({ chunk }) => chunk > 0,
  'first half': ({ chunk }) => chunk < LINE_CHUNKS / 2,
  'second half': ({ chunk }) => chunk >= LINE_CHUNKS / 2,
}

/** The shares with which chunks survive, or whole lines; and runs of the order. */
const STRATEGIES = ['tenth', 'half', 'most', 'lines', 'prefix', 'suffix', 'one', 'but one'] as const

class SizePlayer {
  private readonly play: SizePlay
  private readonly look: SizeLook
  private readonly card: TestCard
  private readonly actor: Actor
  private readonly part: Nvdimm
  private readonly random: Random
  private readonly desk: Desk
  private readonly second: Desk
  private readonly findings: SizeFindings
  private image = -1
  /** What is pending at this point: images are shown on parts of their own. */
  private chunks: readonly PendingChunk[] = []
  private done = ''
  private exploring = false

  constructor(play: SizePlay, look: SizeLook) {
    this.play = play
    this.look = look
    const entropy = [look.seed | 0, 2, 3, 4, 5, 6, 7, 8]
    this.card = new TestCard(play.partBytes, { facts: { entropy } })
    this.card.format()
    this.part = this.card.nvdimm
    this.actor = new Actor(this.card, play.shape, true)
    this.random = new Random(look.seed)
    this.desk = new Desk(this.card, this.actor)
    this.second = new Desk(this.card, this.actor)
    this.findings = {
      ...{ images: 0, points: 0, nested: 0, violations: 0, distinct: new Set() },
      ...{ witnesses: [], aims: [], cells: new Map(), story: [] },
    }
  }

  run(): SizeFindings {
    const { actor, card, play, findings } = this
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        actor.noteCommand(op, words, at)
        if (actor.takeSent()) this.visitPoint('behind a frame')
        if (op !== FENCE) return
        actor.fencesInBurst += 1
        this.visitPoint(`before F${actor.fencesInBurst}`)
      },
    })
    actor.ended = () => {
      actor.takeSent()
      this.visitPoint('at the end of a step')
    }
    play.before(actor)
    for (let slot = 0; slot < actor.region.slots; slot++) actor.record(slot)
    this.exploring = true
    play.during(actor)
    return findings
  }

  private visitPoint(point: string): void {
    const { part, findings, look } = this
    const bounds = [...this.actor.records.values()].map(({ acknowledged }) => acknowledged).join()
    const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored} ${bounds}`
    if (!this.exploring || now === this.done) return
    this.done = now
    findings.points += 1
    const chunks = pending(part)
    this.chunks = chunks
    for (const desk of [this.desk, this.second]) desk.begin(part)
    const groups = this.groupsOf(chunks)
    this.visitClasses(point, chunks, groups)
    for (let i = 0; i < look.drawn; i++) {
      const strategy = STRATEGIES[i % STRATEGIES.length]!
      this.visit(`${point}: drawn, ${strategy}`, this.drawn(chunks, strategy), i % 8 === 0)
    }
  }

  /** Every way of the lanes with every way of each copy and of the table. */
  private visitClasses(
    point: string,
    chunks: readonly PendingChunk[],
    groups: ReadonlyMap<string, readonly number[]>,
  ): void {
    const names = [...groups.keys()]
    const walk = (at: number, chosen: ReadonlyMap<number, boolean>, name: string): void => {
      const group = names[at]
      if (group === undefined) {
        const survivors = chunks.map((_, i) => chosen.get(i) === true)
        this.visit(`${point}: ${name}`, survivors, true)
        return
      }
      const members = groups.get(group)!
      const places = placesOf(members.map((i) => chunks[i]!.at))
      const ways = group.startsWith('copy') ? COPY_WAYS : LINE_WAYS
      for (const [way, survives] of Object.entries(ways)) {
        const next = new Map(chosen)
        members.forEach((i, j) => {
          next.set(i, survives(places[j]!))
        })
        walk(at + 1, next, `${name}${name === '' ? '' : ', '}${group} ${way}`)
      }
    }
    walk(0, new Map(), '')
  }

  /** The pending chunks by what they belong to. */
  private groupsOf(chunks: readonly PendingChunk[]): Map<string, number[]> {
    const groups = new Map<string, number[]>()
    chunks.forEach(({ at }, i) => {
      const name = this.groupOf(at)
      groups.set(name, [...(groups.get(name) ?? []), i])
    })
    return groups
  }

  private groupOf(at: number): string {
    if (at >= LANES_AT && at < LANES_AT + LANES * LINE_BYTES) return 'lane'
    if (at >= OPERATIONS_AT && at < this.actor.layout.at) return 'table'
    for (const { region, record, started } of this.actor.records.values()) {
      for (let copy = 0; started > 0 && copy < region.copies; copy++) {
        const from = copyAt(region, copy, record)
        if (at >= from && at < from + region.stride) return `copy ${'ABC'[copy]}`
      }
    }
    return 'elsewhere'
  }

  private drawn(
    chunks: readonly PendingChunk[],
    strategy: (typeof STRATEGIES)[number],
  ): readonly boolean[] {
    const { random } = this
    const border = random.below(chunks.length + 1)
    const lines = new Set<number>()
    for (const { at } of chunks) if (random.chance(0.5)) lines.add(Math.floor(at / LINE_BYTES))
    return chunks.map(({ at }, i) => {
      switch (strategy) {
        case 'tenth':
          return random.chance(0.1)
        case 'half':
          return random.chance(0.5)
        case 'most':
          return random.chance(0.9)
        case 'lines':
          return lines.has(Math.floor(at / LINE_BYTES))
        case 'prefix':
          return i < border
        case 'suffix':
          return i >= border
        case 'one':
          return i === border
        default:
          return i !== border
      }
    })
  }

  private visit(name: string, survivors: readonly boolean[], cutAgain: boolean): void {
    const { findings, look, desk } = this
    this.image += 1
    const fence = this.random.below(5)
    const seed = this.random.below(2 ** 30)
    if (look.aim !== undefined && look.aim !== this.image) return
    findings.cells.set(name, (findings.cells.get(name) ?? 0) + 1)
    const bits = `${findings.points} ${bitsOf(survivors)}`
    if (findings.distinct.has(bits)) return
    findings.images += 1
    findings.distinct.add(bits)
    desk.show(this.chunks, survivors)
    if (cutAgain) this.cutStart(name, fence, seed)
    this.object(name, desk.start())
    desk.restore()
  }

  /** Cuts the start before that fence; what is left, by chance, is started again. */
  private cutStart(name: string, fence: number, seed: number): void {
    const { desk, second, findings } = this
    const random = new Random(seed)
    const share = [0, 0.1, 0.5, 0.9, 1][seed % 5]!
    let fences = 0
    desk.startWatched((op) => {
      if (op !== FENCE || fences++ !== fence) return
      findings.nested += 1
      const left = pending(desk.part)
      second.take(desk.part)
      second.show(
        left,
        left.map(() => random.chance(share)),
      )
      this.object(`${name}, its start cut before F${fence + 1}`, second.start())
      second.restore()
    })
  }

  private object(name: string, said: readonly string[]): void {
    const { findings, look } = this
    if (look.aim !== undefined) findings.story.push(`${name}: ${said.join('; ') || 'all is well'}`)
    for (const what of said) {
      findings.violations += 1
      if (findings.witnesses.length === WITNESSES) return
      findings.witnesses.push(`${name}: ${what}`)
      findings.aims.push(this.image)
    }
  }
}

/** A part of its own on which images are shown, started and judged. */
class Desk extends Scratch {
  private readonly lean: LeanBooth
  private readonly judge: Judge

  constructor(card: TestCard, actor: Actor) {
    super(card.nvdimm)
    this.lean = new LeanBooth(this.part, card.facts)
    this.judge = new Judge(this.part, actor, { name: '', during: () => {} })
  }

  /** A new point: nothing is pending here of what is pending there. */
  begin(from: Nvdimm): void {
    this.take(from)
    this.judge.begin()
  }

  /** Everything that is wrong behind a start. */
  start(): string[] {
    let said: string[] = []
    this.lean.boot(null, (state) => {
      said = this.judge.judge(startedOf(state), null, askerOf(state))
    })
    return said
  }

  /** Starts, and tells of every command; afterwards the image is there again. */
  startWatched(told: (op: number) => void): void {
    const image = this.part.durable.slice()
    this.lean.boot({ onCommand: (_, op) => told(op) }, () => {})
    this.part.pendingStores.clear()
    this.put(0, image)
  }
}

function bitsOf(survivors: readonly boolean[]): string {
  let bits = ''
  for (let i = 0; i < survivors.length; i += 32) {
    let word = 0
    for (let j = i; j < i + 32 && j < survivors.length; j++) {
      if (survivors[j] === true) word |= 1 << (j - i)
    }
    bits += `${word >>> 0} `
  }
  return bits
}

/** Where each chunk stands: lines are numbered as they come. */
function placesOf(offsets: readonly number[]): Place[] {
  const lines = [...new Set(offsets.map((at) => Math.floor(at / LINE_BYTES)))]
  return offsets.map((at) => ({
    line: lines.indexOf(Math.floor(at / LINE_BYTES)),
    lines: lines.length,
    chunk: (at % LINE_BYTES) / LINE_CHUNKS,
  }))
}
