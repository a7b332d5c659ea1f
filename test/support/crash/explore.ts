/**
 * Every crash of a scenario: each point, each image that may be left there, each image booted
 * through the firmware's own recovery and judged by the oracle (crash-model 2.3, 2.4; D-2, D-4).
 *
 * Invariants:
 * - A point is before a fence, behind a frame that left, and at the end of a step: between two
 *   fences the pending stores only grow, so the points before have fewer images, not others.
 * - A frame that left before the cut counts: what it acknowledged must be there afterwards.
 * - Each image is booted lean (lean-boot.ts). The first of each class at each point, and one in so
 *   many of all, is booted the whole way as well, and asked over the wire; that the two differ in a
 *   durable byte, in the report or in the verdict is a violation.
 * - The part is put back by the journal behind `images` (boards/emulator/medium/images.ts).
 * - Nothing is random but the sample of a set that is too large, and that has a seed.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { imageCount, images } from '../../../boards/emulator/medium/images.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type Coarse, NOT_COARSE } from '../../../boards/emulator/medium/pieces.ts'
import type { Watch } from '../../../boards/emulator/run/machine.ts'
import { CHECK, FENCE, SKIP, TRANSMIT } from '../../../firmware/board/hal.ts'
import type { State } from '../../../firmware/core.ts'
import { TestCard } from '../cards/test-card.ts'
import {
  LANES,
  LANES_AT,
  LINE_BYTES,
  linesOfCopy,
  OPERATIONS_AT,
  PAGE_BYTES,
  type RecordOracle,
  sameBytes,
} from '../judges/oracle.ts'
import { Actor } from './actor.ts'
import { type Asker, Booth, type Reader, type Started } from './booth.ts'
import { Classes } from './classes.ts'
import {
  bootWatches,
  isTableLine,
  joined,
  moveAcksForward,
  moveLineForward,
  writeWatches,
} from './damage.ts'
import { ImageTable, linesPending, markerOf } from './image-table.ts'
import { Judge } from './judge.ts'
import { LeanBooth } from './lean-boot.ts'
import { PART_BYTES, SEED } from './part.ts'
import {
  type Aim,
  aimText,
  blankFindings,
  type ClassCount,
  type Findings,
  type Look,
  type MediaError,
  type Scenario,
} from './scenario.ts'
import { Taken, tellImage, tellStart } from './story.ts'
import { askerOf, startedOf } from './told.ts'

const WITNESSES = 5

/** A set of images up to this size is visited whole in the recovery of a recovery. */
const NESTED_MAX = 2 ** 10

/** One image in so many is booted the whole way, too. */
const CHECK_EACH = 256

/** At one such comparison in so many, all that a lean boot begins with is looked at, too. */
const STALENESS_EACH = 16

/**
 * From here on, as a share of the images of a point, the first of a class stands for it once more:
 * the very first image that is torn is so by one chunk only, and leaves a repair no choice.
 */
const LATE = 0.4

function isLane(line: number): boolean {
  const at = line * LINE_BYTES
  return at >= LANES_AT && at < LANES_AT + LANES * LINE_BYTES
}

/** The lines that this media error may hit. */
function linesHit(error: MediaError, record: RecordOracle): number[] {
  // The lane that the scenario's only group uses, and the first line of each page.
  if (error.lines === 'metadata') return [LANES_AT, 0, PAGE_BYTES].map((at) => at / LINE_BYTES)
  if (error.lines === 'table') return [0, 1, 2, 3].map((i) => OPERATIONS_AT / LINE_BYTES + i)
  const copies = Array.from({ length: record.region.copies }, (_, copy) => copy)
  return copies.flatMap((copy) => linesOfCopy(record.region, copy, record.record))
}

/** Chunks that are pending, whether they would change or not. */
function chunksPending(part: Nvdimm): number {
  let total = 0
  for (const one of linesPending(part)) {
    for (let bit = 0; bit < 8; bit++) total += (part.pendingStores.chunks[one]! >> bit) & 1
  }
  return total
}

/** Runs one scenario and every crash of it. */
export function explore(scenario: Scenario, look: Look = {}): Findings {
  return new Explorer(scenario, look).run()
}

/** A class of images at a point. */
interface Kind {
  readonly name: string
  readonly cell: string
  readonly count: ClassCount
  seen: number
  compared: boolean
}

/** What is wrong with an image, as two ways of booting it see it. */
interface Whole {
  readonly durable: Uint8Array
  readonly started: Started
  readonly said: readonly string[]
}

/** What is wrong with a start, in words; a lean one cannot be read over the wire. */
type Verdict = (started: Started, read: Reader | null, ask: Asker) => string[]

class Explorer {
  private readonly scenario: Scenario
  private readonly card: TestCard
  private readonly actor: Actor
  private readonly part: Nvdimm
  private readonly booth = new Booth()
  private readonly lean: LeanBooth
  private readonly judge: Judge
  private readonly classes: Classes
  private readonly random: Random
  private readonly checkEach: number
  private readonly aim: Aim | null
  private readonly findings: Findings
  private readonly always: readonly Watch[]
  private readonly taken: Taken
  private exploring = false
  /** Images met so far, and those a cut recovery left, with what became of them. */
  private readonly met = new ImageTable()
  private readonly judged = new ImageTable()
  private readonly represented = new Set<string>()
  private kinds = new Map<number, Kind>()
  private point = ''
  private pointKind = ''
  private image = 0
  /** Of each cut recovery around: the command and the image. */
  private readonly path: (readonly [number, number])[] = []
  private line: number | undefined
  private done = ''

  constructor(scenario: Scenario, look: Look) {
    this.scenario = scenario
    const { damage = {}, shape = {}, entropy } = scenario
    const facts = entropy === undefined ? {} : { entropy: [entropy, 2, 3, 4, 5, 6, 7, 8] }
    this.always = bootWatches(damage)
    this.taken = new Taken(look.trace)
    this.card = new TestCard(PART_BYTES, {
      ...{ facts, watch: joined(this.always) },
      hears: (frame) => this.taken.frame('in', frame),
      leaves: ({ bytes }) => this.taken.frame('out', bytes),
    })
    this.part = this.card.nvdimm
    this.card.format()
    const checked = damage.checkless !== true
    this.actor = new Actor(this.card, shape, checked)
    this.lean = new LeanBooth(this.part, this.card.facts)
    this.judge = new Judge(this.part, this.actor, scenario)
    this.classes = new Classes(this.part, this.actor, checked)
    this.random = new Random(look.seed ?? SEED)
    this.checkEach = look.checkEach ?? CHECK_EACH
    this.aim = look.aim ?? null
    this.findings = blankFindings(scenario.name)
  }

  run(): Findings {
    const began = performance.now()
    const { scenario, actor, card, findings } = this
    this.watch()
    actor.ended = () => {
      actor.takeSent()
      if (this.exploring) this.visitPoint('at the end of a step')
    }
    scenario.before?.(actor)
    for (let slot = 0; slot < actor.region.slots; slot++) actor.record(slot)
    this.exploring = true
    this.taken.begin(card)
    scenario.during(actor)
    this.taken.end()
    card.machine.observe({})
    findings.distinct = this.met.size
    findings.forgotten = this.judge.forgotten
    findings.milliseconds = performance.now() - began
    return findings
  }

  /** Watches the card: what it stores and sends is noted, and, while exploring, it is damaged. */
  private watch(): void {
    const { actor, card } = this
    const damage = this.scenario.damage ?? {}
    let moved = -1
    let fenceAt = -1
    let lineAt = -1
    const own: Watch = {
      onCommand: (number, op, words, at) => {
        actor.noteCommand(op, words, at)
        if (actor.takeSent() && this.exploring) this.visitPoint('behind a frame')
        if (number === fenceAt && lineAt >= 0) this.visitPoint('behind the line')
        if (number === fenceAt || op !== FENCE) return
        actor.fencesInBurst += 1
        if (!this.exploring) return
        this.visitPoint(`before F${actor.fencesInBurst}`)
        if (damage.table === 'beforeF1' && actor.fencesInBurst === 1) {
          if (!moveLineForward(words, at)) return
          lineAt = number
          fenceAt = number + 2
        }
        if (damage.acknowledgeEarly !== true) return
        moved = number
        fenceAt = number + moveAcksForward(words, at)
      },
      replace: (number, op) => {
        if (number === lineAt) return CHECK
        if (moved >= 0 && number >= moved && number < fenceAt) return TRANSMIT
        if (number === fenceAt) return FENCE
        const dropped = this.exploring && actor.fencesInBurst === damage.dropFence
        return op === FENCE && dropped ? SKIP : op
      },
    }
    card.machine.observe(joined([...writeWatches(damage, () => card.machine.packets), own]))
  }

  // ---- points and their images -----------------------------------------------------------------

  /** Visits every image that a cut may leave here, unless nothing changed since the last point. */
  private visitPoint(point: string): void {
    const { part, findings, aim, scenario } = this
    const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored} ${this.bounds()}`
    if (now === this.done) return
    this.done = now
    if ((scenario.only ?? point) !== point) return
    findings.points += 1
    // What is booted on the images changes the part's counts, so that the next point is a new one;
    // it is one, too, where nothing was booted: points have the same numbers in a replay.
    this.done = ''
    this.point = `point ${findings.points}, ${point}`
    this.pointKind = point
    if (aim !== null && aim.point !== findings.points) return
    this.classes.begin()
    this.kinds = new Map()
    for (const what of this.judge.begin()) this.violation('at the point itself', what)
    findings.subsets += 2 ** chunksPending(part)
    if (aim !== null) this.taken.cutBegins(this.part)
    this.visitImages()
    if (aim !== null) this.taken.end()
  }

  private visitImages(): void {
    const { part, findings, aim, scenario } = this
    const mode = scenario.mode ?? 'chunk'
    const coarse = this.coarse()
    const count = imageCount(part, mode, false, coarse)
    findings.possible += count
    const share = (scenario.sample ?? Number.POSITIVE_INFINITY) / count
    const mark = markerOf(this.part, linesPending(this.part))
    const visit = (image: number): void => {
      if (aim !== null && aim.image !== image) return
      if (aim === null && share < 1 && !this.random.chance(share)) return
      const kind = this.kindNow()
      kind.seen += 1
      if (aim === null && kind.seen > (scenario.perClass ?? Number.POSITIVE_INFINITY)) return
      findings.images += 1
      this.met.put(mark(), 0)
      this.image = image
      this.visitImage(kind, image > count * LATE)
    }
    images(part, mode, visit, false, coarse)
  }

  /** The lines that are cut as one piece here. */
  private coarse(): Coarse | undefined {
    const { fineTable, wholeLanes, fineRecord } = this.scenario
    const table: Coarse = fineTable === true ? NOT_COARSE : isTableLine
    const lanes: Coarse = wholeLanes === true ? isLane : NOT_COARSE
    const others = fineRecord === undefined ? NOT_COARSE : this.apartFrom(fineRecord)
    const all = [table, lanes, others].filter((one) => one !== NOT_COARSE)
    if (all.length === 0) return undefined
    return all.length === 1 ? all[0] : (line) => all.some((one) => one(line))
  }

  /** The lines of every record but this one, and of their lanes. */
  private apartFrom(record: number): Coarse {
    const lines = new Set<number>()
    let lane = 0
    for (const other of this.actor.records.values()) {
      if (other.started === 0) continue
      if (other.record !== record) {
        lines.add(LANES_AT / LINE_BYTES + lane)
        for (let copy = 0; copy < other.region.copies; copy++) {
          for (const line of linesOfCopy(other.region, copy, other.record)) lines.add(line)
        }
      }
      lane += 1
    }
    return (line) => lines.has(line)
  }

  private kindNow(): Kind {
    const number = this.classes.number()
    let kind = this.kinds.get(number)
    if (kind === undefined) {
      const name = this.classes.name()
      let count = this.findings.classes.get(name)
      if (count === undefined) {
        count = { images: 0, rows: new Set() }
        this.findings.classes.set(name, count)
      }
      const cell = `${this.pointKind}: ${name}`
      kind = { name, cell, count, seen: 0, compared: false }
      this.kinds.set(number, kind)
    }
    return kind
  }

  private visitImage(kind: Kind, late: boolean): void {
    const { scenario, findings, aim } = this
    const { name, count, cell } = kind
    if (aim !== null) {
      this.tell(`the image is: ${name}`)
      this.taken.cutEnds(this.part)
    }
    if ((scenario.nested ?? 0) > 0 && this.isRepresentative(name, late)) this.cutRecovery(1, name)
    count.images += 1
    findings.cells.set(cell, (findings.cells.get(cell) ?? 0) + 1)
    for (const error of scenario.mediaErrors ?? []) this.poisonEach(error)
    if (aim !== null && (aim.path.length > 0 || aim.line !== undefined)) return
    const compare = !kind.compared || this.isCompared()
    kind.compared = true
    this.bootAndJudge(name, compare)
    count.rows.add(this.row)
  }

  /** Does the image stand for its class, to have its recovery cut? */
  private isRepresentative(name: string, late: boolean): boolean {
    if (this.aim !== null) return this.aim.path.length > 0
    const representative = `${name} ${this.judge.tableState()} ${late ? 'late' : 'early'}`
    if (this.represented.has(representative)) return false
    this.represented.add(representative)
    return true
  }

  /** One image in so many. */
  private isCompared(): boolean {
    return this.aim !== null || this.findings.boots % this.checkEach === 0
  }

  private written(slot: number): boolean {
    return (this.actor.records.get(slot)?.started ?? 0) > 0
  }

  /** What is begun and acknowledged, as words. */
  private bounds(): string {
    const records = [...this.actor.records.values()]
    return records.map((record) => `${record.acknowledged} ${record.started}`).join()
  }

  // ---- media errors ----------------------------------------------------------------------------

  /** Boots the image once for each line that the media error may hit. */
  private poisonEach(error: MediaError): void {
    for (const record of this.actor.records.values()) {
      if (record.started === 0) continue
      if (error.later === true && record.acknowledgedTwice < record.started) continue
      for (const line of linesHit(error, record)) {
        if (this.aim !== null && this.aim.line !== line) continue
        this.line = line
        this.judge.tableLine = error.lines === 'table' ? line : -1
        images(this.part, 'chunk', () => {
          this.taken.watch(this.part)
          this.part.poison(line)
          this.findings.withMediaError += 1
          const name = `media error in line ${line}`
          if (error.mayLose === true) this.bootAndReadOrLose(name, record)
          else this.bootAndJudge(name, this.isCompared())
        })
        this.line = undefined
        this.judge.tableLine = -1
      }
    }
  }

  /** The record is not older than acknowledged, or lost, and then said to be and left alone. */
  private bootAndReadOrLose(name: string, record: RecordOracle): void {
    const before = this.judge.copiesOf(record)
    let lost = false
    this.bootBoth(name, this.isCompared(), (started, read, ask) => {
      const said: string[] = []
      lost = this.judge.judgeLoss(said, record, before, started, read, ask)
      return said
    })
    if (lost) this.findings.losses += 1
  }

  // ---- boots -----------------------------------------------------------------------------------

  /** Boots the image as it is and judges everything; the versions that the records then have. */
  private bootAndJudge(name: string, compare: boolean): number {
    this.bootBoth(name, compare, this.judging)
    return this.decided
  }

  private readonly judging: Verdict = (started, read, ask) => this.judge.judge(started, read, ask)

  /** What the records were behind the last lean boot, as a number. */
  private decided = 0
  /** Row of CASES of the first written record of its report, or -1. */
  private row = -1

  /** Boots lean and, if `compare`, the whole way before; what is wrong is a violation. */
  private bootBoth(name: string, compare: boolean, verdict: Verdict): void {
    const { findings } = this
    findings.boots += 1
    const whole = compare ? this.bootWhole(verdict) : null
    const looks = compare && findings.compared % STALENESS_EACH === 1
    const stale = looks ? this.lean.staleness() : null
    if (stale !== null) this.violation(name, `a lean boot begins with another ${stale}`)
    const { aim, path } = this
    const isAimed = aim !== null && aim.path.length === path.length
    if (isAimed) this.taken.starts(this.part)
    this.lean.boot(this.watchOf(null), (state) => {
      if (isAimed) this.taken.end()
      const started = startedOf(state)
      const said = verdict(started, null, askerOf(state))
      for (const what of said) this.violation(name, what)
      this.decided = this.versionsNow()
      this.row = this.rowOf(state)
      if (whole !== null) this.compare(name, whole, started, said)
      if (this.aim !== null) {
        findings.story.push(...tellStart(this.part, this.actor, started), ...said)
      }
    })
  }

  private rowOf({ recovery }: State): number {
    for (const { record, row } of recovery.report.entries) if (this.written(record)) return row
    return -1
  }

  private versionsNow(): number {
    let all = 0
    for (const record of this.actor.records.values()) {
      all = (Math.imul(all, 31) + record.versionIn(this.part.durable, 0) + 1) | 0
    }
    return all >>> 1
  }

  private watchOf(own: Watch | null): Watch | null {
    const watches = own === null ? this.always : [...this.always, own]
    return watches.length === 0 ? null : joined(watches)
  }

  /** Boots the image the whole way; afterwards the part is as before. */
  private bootWhole(verdict: Verdict): Whole {
    const { part, card, findings, booth } = this
    findings.compared += 1
    booth.clients = this.actor.clients
    let whole: Whole | null = null
    let durable = new Uint8Array(0)
    const booted = (): void => {
      durable = part.durable.slice()
    }
    images(part, 'chunk', () => {
      booth.boot(
        part,
        card.facts,
        this.watchOf(null),
        (started, read, ask) => {
          whole = { durable, started, said: verdict(started, read, ask) }
        },
        booted,
      )
    })
    return whole!
  }

  /** What two ways of booting one image must agree about. */
  private compare(name: string, whole: Whole, started: Started, said: readonly string[]): void {
    for (const what of whole.said) {
      if (!said.includes(what)) this.violation(name, `over the wire: ${what}`)
    }
    if (!sameBytes(whole.durable, this.part.durable)) {
      this.violation(name, 'a lean boot leaves other bytes than a boot of the whole card')
    }
    if (statementOf(whole.started) !== statementOf(started)) {
      this.violation(name, 'a lean boot reports something else than a boot of the whole card')
    }
  }

  // ---- recoveries that are cut -----------------------------------------------------------------

  /** Cuts the recovery of the image at every command, and those recoveries again. */
  private cutRecovery(depth: number, name: string): void {
    let decided = 0
    const { part } = this
    images(part, 'chunk', () => {
      decided = this.bootAndJudge(name, this.isCompared())
    })
    const seen = new Set<string>()
    let done = ''
    images(part, 'chunk', () => {
      const onCommand = (number: number): void => {
        const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored}`
        if (now === done) return
        done = now
        if (this.aim !== null && this.aim.path[depth - 1]?.[0] !== number) return
        if (this.aim !== null) this.taken.cutBegins(this.part)
        this.cutRecoveryAt(depth, name, number, decided, seen)
      }
      if (this.aim !== null) this.taken.starts(part)
      this.lean.boot(this.watchOf({ onCommand }), () => {})
    })
  }

  private cutRecoveryAt(
    depth: number,
    above: string,
    command: number,
    decided: number,
    seen: Set<string>,
  ): void {
    const { part, findings, judged, aim } = this
    const name = `${above}, its recovery cut at ${command}`
    const share = (this.scenario.nestedSample ?? NESTED_MAX) / imageCount(part)
    const mark = markerOf(this.part, linesPending(this.part))
    const bounds = hashOf(this.bounds())
    images(part, 'chunk', (image) => {
      if (aim !== null && aim.path[depth - 1]![1] !== image) return
      if (aim === null && share < 1 && !this.random.chance(share)) return
      const now = mark()
      this.met.put(now, 0)
      now.low ^= bounds
      let became = aim === null ? judged.get(now) : -1
      this.path.push([command, image])
      if (became < 0) {
        const { low, high } = now
        findings.nested += 1
        if (aim !== null) {
          this.tell(`its recovery is cut at ${command}: ${this.classes.name()}`)
          this.taken.cutEnds(part)
        }
        this.cutAgain(depth, name, seen)
        became = this.bootAndJudge(name, this.isCompared())
        judged.put({ low, high }, became)
      } else findings.nestedRepeated += 1
      if (became !== decided) {
        this.violation(name, `decides ${became}, and decided ${decided} before it was cut`)
      }
      this.path.pop()
    })
  }

  /** Cuts the recovery of what a cut recovery left, where it stands for its kind. */
  private cutAgain(depth: number, name: string, seen: Set<string>): void {
    if (this.aim !== null) {
      if (this.aim.path.length > depth) this.cutRecovery(depth + 1, name)
      return
    }
    if (depth >= (this.scenario.nested ?? 0)) return
    const kind = `${this.classes.number()} ${this.superblockState()}`
    if (seen.has(kind)) return
    seen.add(kind)
    const cell = `recovery cut ${depth} deep: ${this.classes.name()}`
    this.findings.cells.set(cell, (this.findings.cells.get(cell) ?? 0) + 1)
    this.cutRecovery(depth + 1, name)
  }

  /** How the pages of the superblock stand to each other. */
  private superblockState(): string {
    const a = this.part.durable.subarray(0, PAGE_BYTES)
    const b = this.part.durable.subarray(PAGE_BYTES, 2 * PAGE_BYTES)
    if (sameBytes(a, b)) return 'pages the same'
    return sameBytes(a.subarray(16), b.subarray(16)) ? 'codes differ' : 'pages differ'
  }

  // ---- what is said ----------------------------------------------------------------------------

  private tell(what: string): void {
    this.findings.story.push(`${this.point}: ${what}`, ...tellImage(this.part, this.actor))
  }

  private violation(name: string, what: string): void {
    const { findings, image, path, line } = this
    findings.violations += 1
    if (findings.witnesses.length === WITNESSES) return
    findings.witnesses.push(`${this.point}: ${name}: ${what}`)
    const aim = { point: findings.points, image, path: [...path] }
    findings.aims.push(aimText(line === undefined ? aim : { ...aim, line }))
  }
}

function statementOf({ state, fault, unsettled, report }: Started): string {
  return JSON.stringify([state, fault, unsettled, report.slice(0, 8)])
}

function hashOf(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash, 31) + text.charCodeAt(i)
  return hash | 0
}
