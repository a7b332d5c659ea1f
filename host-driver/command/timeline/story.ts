/**
 * A trace becomes what its page shows (data.ts), in two passes: the first finds the records and
 * their versions, the second asks at every store and fence what a cut may leave there.
 *
 * Invariant: every step is one event of the trace, in its order; `base` lines, and write-backs of
 * what is not pending, are none.
 */

import type { Nvdimm } from '../../../boards/emulator/index.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { LANES_AT } from '../../../firmware/medium/superblock.ts'
import type {
  CopiesChange,
  LaneChange,
  Mark,
  RecordStory,
  Row,
  Step,
  StepKind,
  Timeline,
} from './data.ts'
import { AREAS, laneAt, placeText, slotAt } from './layout.ts'
import { IMAGES_DRAWN_FROM, laneText, Outcomes } from './outcomes.ts'
import type { Numbered, TraceFile } from './read-trace.ts'
import { type Intent, type KnownRecord, Records, versionOfCopy } from './records.ts'
import { type Change, Replay } from './replay.ts'
import { type Request, Requests } from './requests.ts'

interface StoryOptions {
  readonly title: string
  /** Images of each place that the page shows, at the most: 2 or more. */
  readonly images: number
  /** Steps of which the page says what a cut may leave, at the most. */
  readonly steps: number
  /** What is wrong with the run, in one sentence. */
  readonly violation?: string
}

/** What is told of a trace, and how many boots it took. */
interface Story {
  readonly timeline: Timeline
  readonly boots: number
}

export function storyOf(file: TraceFile, options: StoryOptions): Story {
  return new Teller(file, options).tell()
}

/** The events that are steps. */
function stepsOf(events: readonly Numbered[]): Numbered[] {
  return events.filter(({ e }) => e !== 'base')
}

/** Events behind which a cut leaves something else than before. */
const CHANGES: readonly string[] = ['store', 'fence', 'cut', 'fault']

const COPY_NAMES = ['A', 'B', 'C', 'D']

class Teller {
  private readonly file: TraceFile
  private readonly options: StoryOptions
  private readonly events: readonly Numbered[]
  private readonly records: Records
  private readonly requests = new Requests()
  private readonly steps: Step[] = []
  private readonly marks: Map<KnownRecord, Mark[]> = new Map()
  private readonly lanes: Map<KnownRecord, LaneChange[]> = new Map()
  private readonly copies: Map<KnownRecord, CopiesChange[]> = new Map()
  private readonly inLanes: Map<number, Intent> = new Map()
  /** The next of the intents that is not in its lane yet. */
  private next = 0
  /** Of each record the version that a client knows to be durable. */
  private readonly acknowledged: Map<KnownRecord, number> = new Map()
  private timeUs = 0
  /** Fences of the commit so far; -1 outside of one. */
  private fences = -1
  private told = 0

  constructor(file: TraceFile, options: StoryOptions) {
    this.file = file
    this.options = options
    this.events = stepsOf(file.events)
    this.records = this.collect()
  }

  /** The first pass: which records there are, and which versions they had. */
  private collect(): Records {
    const replay = new Replay(this.file)
    const records = new Records(replay.part)
    this.events.forEach((event, step) => {
      records.before(event, step)
      replay.play(event)
      records.after(event, step)
    })
    return records
  }

  tell(): Story {
    const { records, options, events } = this
    const replay = new Replay(this.file)
    const outcomes = new Outcomes(replay.part, records.list, options.images)
    const asked = this.askedFrom()
    events.forEach((event, step) => {
      const change = replay.play(event)
      if (['fence', 'cut', 'fault'].includes(event.e)) outcomes.durableChanged()
      this.underWay(step)
      this.add(event, step, change, replay.part)
      this.follow(event, step, replay)
      const isBefore = events[step + 1]?.e === 'cut'
      const changes = CHANGES.includes(event.e) || step === asked || isBefore
      if (!changes || step < asked || this.told >= options.steps) return
      this.told += 1
      const next = events[step + 1]
      const left = next?.e === 'cut' ? next : null
      const cut = outcomes.at(this.underWay(step), step, this.acknowledged, left)
      this.steps[step] = { ...this.steps[step]!, cut }
    })
    return { timeline: this.timeline(outcomes), boots: outcomes.boots }
  }

  /** The first step at which is asked: so that the cut, or the end, is among them. */
  private askedFrom(): number {
    const { events, options } = this
    const cut = events.findIndex(({ e }) => e === 'cut')
    const asks = events.flatMap(({ e }, i) => (['store', 'fence', 'cut'].includes(e) ? [i] : []))
    if (asks.length <= options.steps) return 0
    const before = cut < 0 ? asks.length : asks.filter((i) => i <= cut).length
    // Of a run with a cut a quarter is for what comes behind it.
    const spare = cut < 0 ? 0 : Math.min(asks.length - before, Math.floor(options.steps / 4))
    return asks[Math.max(0, before + spare - options.steps)]!
  }

  /** The last intent of every lane at that step; steps are asked about in their order. */
  private underWay(step: number): Intent[] {
    const { intents } = this.records
    while (this.next < intents.length && intents[this.next]!.step <= step) {
      const intent = intents[this.next++]!
      this.inLanes.set(intent.lane, intent)
    }
    return [...this.inLanes.values()]
  }

  // ---- steps ---------------------------------------------------------------------------

  private add(event: Numbered, step: number, { adds, settles, left }: Change, part: Nvdimm): void {
    const { kind, text } = this.describe(event, step)
    if ('t' in event) this.timeUs = event.t
    const { n } = event
    const record = this.recordOf(event)
    const fence = event.e === 'fence' && this.fences > 0 ? { fence: this.fences } : {}
    this.steps.push({
      ...{ n, t: this.timeUs, kind, text },
      ...(adds.length > 0 ? { adds } : {}),
      ...(settles.length > 0 ? { settles } : {}),
      ...(record === null ? {} : { record: this.records.list.indexOf(record) }),
      ...fence,
      ...(left === undefined ? {} : { left }),
      ...this.versionOf(event, part),
    })
  }

  /** Of a store into a copy, which version the copy is then. */
  private versionOf(event: Numbered, part: Nvdimm): { readonly version?: number } {
    const place = event.e === 'store' ? this.records.placeOf(event.at) : null
    if (place === null) return {}
    const record = this.records.find(place.region, place.record)
    return { version: versionOfCopy(record, part.live, place.copy) }
  }

  /** The record that an event is about, or null. */
  private recordOf(event: Numbered): KnownRecord | null {
    if (event.e === 'in' && event.persist !== undefined) {
      const { operation, slot } = event.persist
      return (
        this.records.list.find(({ record, versions }) => {
          if (slot !== undefined && slot !== record) return false
          return versions.some((one) => one.from >= 0 && one.operation === operation)
        }) ?? null
      )
    }
    if (event.e !== 'store') return null
    const place = this.records.placeOf(event.at)
    if (place !== null) return this.records.find(place.region, place.record)
    return this.inLanes.get(laneAt(event.at))?.record ?? null
  }

  /** An acknowledgement left: which versions the client knows to be durable now. */
  private acknowledge(step: number): void {
    for (const { fields, marks } of this.requests.list) {
      const last = marks.at(-1)
      if (last?.[0] !== step || last[1] !== 'durable') continue
      for (const record of this.records.list) {
        if (fields.slot !== undefined && fields.slot !== record.record) continue
        const version = record.versions.findIndex(({ operation, from }) => {
          return from >= 0 && operation === fields.operation
        })
        if (version > (this.acknowledged.get(record) ?? 0)) this.acknowledged.set(record, version)
      }
    }
  }

  private describe(event: Numbered, step: number): { kind: StepKind; text: string } {
    if (event.e === 'in') {
      const kind = this.requests.arrives(event, step)
      const dropped = event.dropped === true ? ', and nobody takes it' : ''
      return { kind, text: `${frameText(event)} reaches the card${dropped}` }
    }
    if (event.e === 'out') {
      const kind = this.requests.leaves(event, step)
      if (kind === 'durable') this.acknowledge(step)
      return { kind, text: `${frameText(event)} leaves the card` }
    }
    if (event.e === 'store') return { kind: 'store', text: this.storeText(event, step) }
    if (event.e === 'clean')
      return { kind: 'clean', text: `write-back of ${this.nameOf(event.at)}` }
    if (event.e === 'fence') return { kind: 'fence', text: this.fenceText(event.failed) }
    if (event.e === 'burst') return { kind: 'burst', text: `the card takes ${event.frames} frames` }
    if (event.e === 'power')
      return { kind: 'power', text: event.on ? 'the card starts' : 'the card is off' }
    if (event.e === 'cut') {
      this.fences = -1
      const { chunks, chunksKept, strategy } = event.report
      return {
        kind: 'cut',
        text: `POWER CUT: of ${chunks} pending chunks ${chunksKept} survived (${strategy})`,
      }
    }
    if (event.e === 'fault')
      return { kind: 'fault', text: `${event.what}: ${this.nameOf(event.at)}` }
    const end =
      event.e === 'full' ? `the trace had reached its ${event.limit} bytes` : 'the trace ends'
    return { kind: 'end', text: end }
  }

  private storeText(event: Numbered & { e: 'store' }, step: number): string {
    const lane = laneAt(event.at)
    const isZero = /^A*=*$/.test(event.data ?? '-')
    const isPhase = lane >= 0 && event.bytes < LINE_BYTES && !isZero
    const isIntent = lane >= 0 && !isPhase && this.inLanes.get(lane)?.step === step
    if (isIntent) this.fences = 0
    else if (event.at < LANES_AT || (lane >= 0 && !isPhase && this.fences > 0)) this.fences = -1
    const line = isIntent ? 'the intent, phase A,' : 'zeros'
    const what = isPhase ? 'phase B' : lane >= 0 ? line : `${event.bytes} bytes`
    return `${what} into ${this.nameOf(event.at)}`
  }

  /** Fences of a commit are counted from the lanes on: F1 to F4. */
  private fenceText(failed: string | undefined): string {
    if (failed !== undefined) return `the fence fails: ${failed}`
    if (this.fences < 0) return 'a fence: what was written back is durable'
    this.fences += 1
    return `fence F${this.fences}: what was written back is durable`
  }

  private nameOf(at: number): string {
    const place = this.records.placeOf(at)
    if (place === null) return placeText(at)
    return `copy ${COPY_NAMES[place.copy]} of record ${place.record} of '${place.region.name}'`
  }

  // ---- records ---------------------------------------------------------------------------

  /** Notes what an event changed of the records under way. */
  private follow(event: Numbered, step: number, { part }: Replay): void {
    if (event.e === 'store') this.markStore(event, step)
    if (!['store', 'fence', 'cut'].includes(event.e)) return
    for (const { record, version, lane } of this.underWay(step)) {
      const { sequence } = record.versions[version]!
      const live = laneText(part.liveWords, lane, sequence)
      const durable = laneText(part.durableWords, lane, sequence)
      const lanes = listOf(this.lanes, record)
      const last = lanes.at(-1)
      if (last?.[1] !== lane || last[2] !== live || last[3] !== durable) {
        lanes.push([step, lane, live, durable])
      }
      if (event.e === 'store') continue
      const held = record.region.copies
      const whole = Array.from({ length: held }, (_, i) => versionOfCopy(record, part.durable, i))
      const count = whole.filter((one) => one === version).length
      const copies = listOf(this.copies, record)
      const before = copies.at(-1)
      if (before?.[1] !== version || before[2] !== count) copies.push([step, version, count])
    }
  }

  private markStore(event: Numbered & { e: 'store' }, step: number): void {
    const place = this.records.placeOf(event.at)
    if (place !== null) {
      const record = this.records.find(place.region, place.record)
      listOf(this.marks, record).push([step, 'copy', place.copy])
      return
    }
    const lane = laneAt(event.at)
    const intent = this.underWay(step).find((one) => one.lane === lane)
    if (intent === undefined) return
    const kind = event.bytes < LINE_BYTES ? 'phase' : 'lane'
    if (kind === 'lane' && intent.step !== step) return
    listOf(this.marks, intent.record).push([step, kind])
  }

  // ---- the whole ---------------------------------------------------------------------------

  private timeline(outcomes: Outcomes): Timeline {
    const { steps, records, options } = this
    const rows = this.rows()
    const { violation } = options
    const isCut = ({ kind }: Step): boolean => kind === 'cut'
    // What is wrong comes behind the last one.
    const cut = violation === undefined ? steps.findIndex(isCut) : steps.findLastIndex(isCut)
    const isOpen = ({ cut = -1 }: Step): boolean => {
      const told = outcomes.cuts[cut]
      return told !== undefined && told.chunks > 0 && told.records.length > 0
    }
    const middle = steps.findIndex((step, i) => i > steps.length / 4 && isOpen(step))
    return {
      title: options.title,
      ...(violation === undefined ? {} : { violation }),
      notes: this.notes(),
      steps,
      rows,
      areas: AREAS,
      records: records.list.map((record) => this.storyOf(record)),
      results: outcomes.results,
      cuts: outcomes.cuts,
      cursor: Math.max(0, cut > 0 ? cut - 1 : middle),
    }
  }

  private notes(): string[] {
    const { events, file, options } = this
    const asks = events.filter(({ e }) => ['store', 'fence', 'cut'].includes(e)).length
    const full = events.find(({ e }) => e === 'full')
    return [
      ...(file.cutOff ? ['The last line of the trace is not whole, and is left out.'] : []),
      ...(full?.e === 'full' ? [`The trace ends at its limit of ${full.limit} bytes.`] : []),
      ...(asks > this.told
        ? [`Of ${asks} stores and fences ${this.told} say what a cut may leave (--steps).`]
        : []),
      ...(options.images < IMAGES_DRAWN_FROM
        ? ['Images between the two ends are not drawn (--images).']
        : []),
    ]
  }

  private rows(): Row[] {
    const { requests } = this
    const pairs = [...requests.pairs].map(([pair, marks]): Row => {
      return { kind: 'pair', label: `queue pair 0x${pair.toString(16)}`, marks }
    })
    return [...pairs, ...this.batchRows(), ...this.recordRows()]
  }

  private batchRows(): Row[] {
    const batches = new Map<string, Request[]>()
    for (const request of this.requests.list) {
      const { batch } = request.fields
      if (batch === undefined) continue
      const key = `batch ${batch.id} (${batch.count} records)`
      batches.set(key, [...(batches.get(key) ?? []), request])
    }
    return [...batches].map(([label, members]) => ({
      kind: 'batch',
      label,
      marks: members.flatMap(({ marks }) => marks).sort((a, b) => a[0] - b[0]),
    }))
  }

  private recordRows(): Row[] {
    const { records, requests } = this
    return records.list.map((record, at) => {
      const own = requests.list.filter((request) => this.isOf(request, record))
      const marks = [...own.flatMap((one) => one.marks), ...listOf(this.marks, record)]
      marks.sort((a, b) => a[0] - b[0])
      return { kind: 'record', label: this.labelOf(record), marks, record: at }
    })
  }

  /** Whether it is the request of a version of that record. */
  private isOf({ fields }: Request, { record, versions }: KnownRecord): boolean {
    if (fields.slot !== undefined && fields.slot !== record) return false
    return versions.some(({ operation, from }) => from >= 0 && operation === fields.operation)
  }

  private labelOf({ region, record }: KnownRecord): string {
    const { regionNames } = this.records
    return regionNames.length > 1 ? `${region.name} ${record}` : `record ${record}`
  }

  private storyOf(record: KnownRecord): RecordStory {
    const { region, versions } = record
    const longest = Math.max(LINE_BYTES, ...versions.map(({ image }) => image?.length ?? 0))
    return {
      name: this.labelOf(record),
      places: Array.from({ length: region.copies }, (_, copy) => {
        return slotAt(region, record.record, copy) / LINE_BYTES
      }),
      lines: Math.ceil(longest / LINE_BYTES),
      versions: versions.map(({ image: _, ...version }) => version),
      lanes: listOf(this.lanes, record),
      copies: listOf(this.copies, record),
    }
  }
}

/** The list of that key, which is there behind this. */
function listOf<K, T>(lists: Map<K, T[]>, key: K): T[] {
  const found = lists.get(key)
  if (found !== undefined) return found
  const made: T[] = []
  lists.set(key, made)
  return made
}

function frameText({
  name,
  psn,
  persist,
  bytes,
  durable,
}: Extract<Numbered, { e: 'in' | 'out' }>): string {
  const words = [name.replace(/^(Perdure|RC) /, '')]
  if (persist !== undefined) words.push(`of operation ${persist.operation}, ${bytes} B,`)
  if (durable !== undefined) {
    const told = durable.status === 0 ? `${durable.copies} copies durable` : 'refused'
    words.push(`up to operation ${durable.operation}, ${told},`)
  }
  if (psn !== undefined) words.push(`PSN ${psn}`)
  return words.join(' ')
}
