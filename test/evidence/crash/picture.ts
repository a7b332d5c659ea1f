/**
 * Crash points as pictures: what lies on the part at each point of a play, chunk by chunk, which of
 * it is pending, what a few images look like, and what a start makes of each.
 *
 * Invariant: a picture is plain data, for the page. Its images are real ones: each was
 * started the whole way, and the record was read over the wire; what is said of copies and lanes
 * before is the oracle's word, what is said of the decision the firmware's own report.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type PendingChunk, pending } from '../../../boards/emulator/medium/power-cut.ts'
import { FENCE } from '../../../firmware/board/hal.ts'
import { TestCard } from '../../support/cards/test-card.ts'
import { Actor } from '../../support/crash/actor.ts'
import { Booth, type Greeting, type Reader } from '../../support/crash/booth.ts'
import { nameOfState } from '../../support/crash/classes.ts'
import { PART_BYTES } from '../../support/crash/part.ts'
import { LEVELS, type Level, levelName, type Scenario } from '../../support/crash/scenario.ts'
import { Scratch } from '../../support/crash/scratch.ts'
import { DECIDED } from '../../support/judges/case-table.ts'
import {
  copyAt,
  LANES_AT,
  LINE_BYTES,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  type RecordOracle,
  readLane,
} from '../../support/judges/oracle.ts'
import { KINDS, playOf } from './plays.ts'

/** A lane, a copy of a record, or a line of the operation table: lines of eight chunks. */
interface Block {
  readonly name: string
  /**
   * Each line as eight letters: `.` not touched since it became durable, `=` stored again as it
   * was, `*` pending and different. The stars of all blocks, in order, are what images choose of.
   */
  readonly lines: readonly string[]
}

/** One image that the cut may leave. */
interface ImageShown {
  /** For each star whether it survived: `1` or `0`. */
  readonly kept: string
  /** What each block then is: `A`, `torn`, `old`, `new` … */
  readonly is: readonly string[]
  /** What the start did about each record that was written, in words. */
  readonly decided: readonly string[]
  /** What each copy is behind the start, by the names of `is`. */
  readonly after: readonly string[]
  /** What a READ of each record then brings. */
  readonly reads: readonly string[]
}

interface PointShown {
  readonly name: string
  /** Of each record: `record 0: v2 begun, v1 acknowledged`. */
  readonly known: readonly string[]
  readonly blocks: readonly Block[]
  /** How many subsets of the stars there are, as text. */
  readonly subsets: string
  readonly images: readonly ImageShown[]
}

interface Picture {
  readonly picture: 'crash'
  readonly kind: string
  readonly level: string
  readonly points: readonly PointShown[]
}

/** Of the kinds of the crash stage, those that a picture can show. */
const PICTURED: readonly string[] = [
  'write over another',
  'write over a blank',
  'write over its own',
  'group of 2',
  'batch of 2',
  'overtaken in a burst',
  'overtaken by a burst',
  'repeated',
]

/** Images of one point, at the most, and how many are drawn to find them. */
const SHOWN = 12
const DRAWN = 64

const LANES_SHOWN = 2

/** Every picture of a level; of one kind, if it is named. */
export function picturesOf(level: Level, seed: number, kind?: string): Picture[] {
  const kinds = kind === undefined ? PICTURED : [kind]
  return kinds.map((name) => {
    if (!KINDS.some((one) => one.name === name)) throw new Error(`no kind is called ${name}`)
    const points = new Painter(playOf(name, level, 0), seed).paint()
    return { picture: 'crash', kind: name, level: levelName(level), points }
  })
}

export function allPictures(seed: number): Picture[] {
  return LEVELS.flatMap((level) => picturesOf(level, seed))
}

/** A block and where it lies. */
interface Placed {
  readonly name: string
  readonly at: number
  readonly lines: number
  readonly copy?: { readonly record: RecordOracle; readonly copy: number }
}

class Painter {
  private readonly scenario: Scenario
  private readonly card: TestCard
  private readonly actor: Actor
  private readonly part: Nvdimm
  private readonly scratch: Scratch
  private readonly booth = new Booth()
  private readonly random: Random
  private readonly points: PointShown[] = []
  private exploring = false
  /** The versions that were begun before the exploration. */
  private readonly before = new Map<number, number>()
  private done = ''

  constructor(scenario: Scenario, seed: number) {
    this.scenario = scenario
    this.card = new TestCard(PART_BYTES)
    this.card.format()
    this.part = this.card.nvdimm
    this.actor = new Actor(this.card, scenario.shape ?? {}, true)
    this.scratch = new Scratch(this.part)
    this.random = new Random(seed)
  }

  paint(): PointShown[] {
    const { actor, card, scenario } = this
    card.machine.observe({
      onCommand: (_, op, words, at) => {
        actor.noteCommand(op, words, at)
        if (actor.takeSent()) this.paintPoint('behind an answer')
        if (op !== FENCE) return
        actor.fencesInBurst += 1
        this.paintPoint(`before fence ${actor.fencesInBurst}`)
      },
    })
    actor.ended = () => {
      actor.takeSent()
      this.paintPoint('at the end of a step')
    }
    scenario.before?.(actor)
    for (const { record, started } of actor.records.values()) this.before.set(record, started)
    this.exploring = true
    scenario.during(actor)
    return this.points
  }

  /** The records that the play writes, so far. */
  private written(): RecordOracle[] {
    return [...this.actor.records.values()].filter(
      ({ record, started }) => started > (this.before.get(record) ?? 0),
    )
  }

  private paintPoint(name: string): void {
    const { part } = this
    const known = this.written().map(({ record, started, acknowledged }) => {
      return `record ${record}: v${started} begun, v${acknowledged} acknowledged`
    })
    const { entries } = part.pendingStores
    const now = `${entries} ${part.fences} ${part.bytesStored} ${known.join()}`
    if (!this.exploring || now === this.done) return
    this.done = now
    const chunks = pending(part)
    const placed = this.placed(chunks)
    const stars: PendingChunk[] = []
    const blocks = placed.map((block) => blockOf(block, chunks, stars))
    const images = this.imagesOf(placed, stars)
    const subsets = (2 ** stars.length).toLocaleString('en')
    this.points.push({ name, known, blocks, subsets, images })
  }

  /** What is drawn: lanes, copies, and lines of the table that are pending. */
  private placed(chunks: readonly PendingChunk[]): Placed[] {
    const lanes = Array.from({ length: LANES_SHOWN }, (_, lane): Placed => {
      return { name: `lane ${lane}`, at: LANES_AT + lane * LINE_BYTES, lines: 1 }
    })
    const records = this.written()
    const copies = records.flatMap((record) =>
      Array.from({ length: record.region.copies }, (_, copy): Placed => {
        const of = records.length === 1 ? '' : ` of record ${record.record}`
        const at = copyAt(record.region, copy, record.record)
        const lines = record.region.stride / LINE_BYTES
        return { name: `slot ${'ABC'[copy]}${of}`, at, lines, copy: { record, copy } }
      }),
    )
    const inTable = chunks.filter(
      ({ at }) => at >= OPERATIONS_AT && at < OPERATIONS_AT + OPERATIONS_BYTES,
    )
    const lines = [...new Set(inTable.map(({ at }) => Math.floor(at / LINE_BYTES)))]
    const table = lines.map((line, i): Placed => {
      const name = lines.length === 1 ? 'operations' : `operations ${i + 1}`
      return { name, at: line * LINE_BYTES, lines: 1 }
    })
    return [...lanes.filter((_, lane) => lane === 0 || this.isUsed(lane)), ...copies, ...table]
  }

  private isUsed(lane: number): boolean {
    const at = LANES_AT + lane * LINE_BYTES
    return this.part.live.subarray(at, at + LINE_BYTES).some((byte) => byte !== 0)
  }

  /** Images of every class that was found, the plainest of each. */
  private imagesOf(placed: readonly Placed[], stars: readonly PendingChunk[]): ImageShown[] {
    const shown: ImageShown[] = []
    const times = new Map<string, number>()
    const tried = new Set<string>()
    for (const kept of this.subsetsOf(stars)) {
      if (shown.length === SHOWN || tried.has(kept)) continue
      tried.add(kept)
      this.scratch.take(this.part)
      this.scratch.show(
        stars,
        [...kept].map((bit) => bit === '1'),
      )
      const is = placed.map((block) => this.stateOf(block))
      const name = is.join()
      const before = times.get(name) ?? 0
      times.set(name, before + 1)
      // One of each class; two more where something is torn.
      if (before > (name.includes('torn') ? 2 : 0)) continue
      shown.push(this.start(kept, is, placed))
    }
    return shown
  }

  private *subsetsOf(stars: readonly PendingChunk[]): Generator<string> {
    const count = stars.length
    const bits = (is: (i: number) => boolean): string =>
      stars.map((_, i) => (is(i) ? '1' : '0')).join('')
    yield bits(() => false)
    if (count === 0) return
    yield bits((i) => i < count / 2)
    yield bits((i) => i === 0)
    yield bits(() => true)
    yield bits((i) => i < count - 1)
    yield bits((i) => i % 2 === 0)
    for (let draw = 0; draw < DRAWN; draw++) yield bits(() => this.random.chance(0.5))
    for (let draw = 0; draw < DRAWN; draw++) {
      const lines = [...new Set(stars.map(({ at }) => at >> 6))]
      const whole = new Set(lines.filter(() => this.random.chance(0.5)))
      yield bits((i) => whole.has(stars[i]!.at >> 6))
    }
  }

  /** What a block is on the scratch part. */
  private stateOf({ at, lines, copy, name }: Placed): string {
    const { durable } = this.scratch.part
    if (copy !== undefined) {
      return nameOfState(copy.record.versionIn(durable, copy.copy), copy.record)
    }
    if (!name.startsWith('lane')) return ''
    return readLane(durable.slice(at, at + lines * LINE_BYTES)).state
  }

  /** Starts what is shown, the whole way, and reads. */
  private start(kept: string, is: string[], placed: readonly Placed[]): ImageShown {
    const { booth, scratch, actor, card } = this
    let decided: string[] = []
    let reads: string[] = []
    booth.clients = actor.clients
    booth.boot(scratch.part, card.facts, null, (greeting, read) => {
      decided = this.decisions(greeting)
      reads = this.written().map((record) => `record ${record.record}: ${readOf(record, read)}`)
    })
    const after = placed.map((block) => this.stateOf(block))
    return { kept, is, decided, after, reads }
  }

  private decisions({ report }: Greeting): string[] {
    return this.written().map(({ record }) => {
      const line = report.find((entry) => entry.record === record)
      if (line === undefined) return `record ${record}: no lane names it; it is left as it is`
      const row = DECIDED[line.row]!
      return `record ${record}: “${row.name}” → ${ACTIONS[row.action]}${caseOf(row.sourceCase)}`
    })
  }
}

const ACTIONS = {
  none: 'nothing to do',
  useA: 'copy A over the others',
  useB: 'copy B over the others',
  lost: 'lost, and said to be',
} as const

function caseOf(sourceCase: number): string {
  return sourceCase === 0 ? '' : ` (case ${sourceCase} of source 1)`
}

function readOf(record: RecordOracle, read: Reader): string {
  const data = read(record.record, record.region.capacity)
  if (data === null) return 'is refused'
  const version = record.versions.findIndex((one) => {
    const whole = new Uint8Array(record.region.capacity)
    whole.set(one.data)
    return Buffer.compare(whole, data) === 0
  })
  return version < 0 ? 'something else' : `v${version}, the ${nameOfState(version, record)} one`
}

/** The letters of a block; its stars are added to those of the blocks before. */
function blockOf(
  { name, at, lines }: Placed,
  chunks: readonly PendingChunk[],
  stars: PendingChunk[],
): Block {
  const drawn = Array.from({ length: lines }, (_, line) =>
    Array.from({ length: LINE_BYTES / 8 }, (_, i) => {
      const chunk = chunks.find((one) => one.at === at + line * LINE_BYTES + i * 8)
      if (chunk === undefined) return '.'
      const { versions } = chunk
      if (Buffer.compare(versions[0]!, versions.at(-1)!) === 0) return '='
      stars.push(chunk)
      return '*'
    }).join(''),
  )
  return { name, lines: drawn }
}
