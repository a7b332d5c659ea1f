/**
 * What a power cut may leave of a part, and what the firmware's recovery makes of it.
 *
 * Invariants:
 * - Recovery is the firmware's own: each image is booted, by the sources in Node, and what the boot
 *   stored is taken back. What a record is then is read from its copies, byte by byte; the row of
 *   the table of cases is what recovery itself reports.
 * - Shown are the two ends, nothing of what is pending survives and all of it; all images, where
 *   they are few; and so many drawn ones where they are not. The same part shows the same. Where
 *   the power of the run itself went next, what that left stands first.
 */

import {
  imageCount,
  imageKeeping,
  images,
  type Nvdimm,
  Random,
} from '../../../boards/emulator/index.ts'
import { Journal } from '../../../boards/emulator/medium/journal.ts'
import { bootDirect } from '../../../boards/emulator/run/direct.ts'
import { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import { LANES, LINE_BYTES } from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { CASES } from '../../../firmware/commit/cases.ts'
import { LOST } from '../../../firmware/commit/recovery.ts'
import type { State } from '../../../firmware/core.ts'
import { laneClear, lanePhase, PHASE_A, PHASE_B } from '../../../firmware/medium/lane.ts'
import { copyOf } from '../../base/bytes.ts'
import type { Cut, CutImage, Result } from './data.ts'
import { laneOffset } from './layout.ts'
import { type Intent, type KnownRecord, versionOfCopy } from './records.ts'
import { type CutLine, keptBy } from './replay.ts'

/** From so many images on that are shown some are drawn between the two ends. */
export const IMAGES_DRAWN_FROM = 6

/** Pending stores up to which images are counted exactly, and all may be shown. */
const EXACT_STORES = 64

const FACTS: Omit<Facts, 'nvdimmBytes' | 'dirtyShutdowns'> = {
  board: 'timeline',
  hostBytes: 0,
  dmaBytes: 0,
  strictIcrc: false,
  mac: [2, 0, 0, 0, 0, 2],
  ipv4: [10, 0, 0, 2],
  ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
  pathMtu: 4096,
  entropy: [1, 2, 3, 4, 5, 6, 7, 8],
}

/** What is done with a record, in words; by the action of a case. */
const ACTIONS: Readonly<Record<string, string>> = {
  none: 'nothing to do',
  useA: 'A is copied over the others',
  useB: 'the copy behind A is copied over it',
  lost: 'lost: no copy can stand for it',
}

/** Chunks up to which a page has which of them an image keeps. */
const PLACES_MAX = 64

const NOTHING = 'nothing survives'
const ALL = 'all of it survives'
const LEFT = 'what this power cut left'

/** A record under way, and its lane as a cut can leave it whole: as stored, or as durable. */
interface Under extends Intent {
  readonly lines: readonly Uint8Array[]
}

export class Outcomes {
  readonly results: Result[] = []
  readonly cuts: Cut[] = []
  /** Boots so far. */
  boots = 0
  private readonly part: Nvdimm
  private readonly records: readonly KnownRecord[]
  private readonly most: number
  /** Places of the pending chunks in which what is durable and what was stored differ. */
  private chunks: readonly number[] = []
  private readonly numbers: Map<string, number> = new Map()
  /** What is left where nothing survives, by the records under way; as long as that is so. */
  private readonly bare: Map<string, CutImage> = new Map()
  private readonly journal: Journal
  private readonly packets: Uint8Array = new Uint8Array(MEMORY_BYTES)

  /** `most`: images of a place that are shown, where a cut may leave more. */
  constructor(part: Nvdimm, records: readonly KnownRecord[], most: number) {
    this.part = part
    this.records = records
    this.most = most
    this.journal = new Journal(part.bytes / LINE_BYTES)
  }

  /**
   * What a cut of the part as it is now may leave of the records of these intents; `left` is the
   * cut of the run itself, if it comes next. Returns its place in `cuts`.
   */
  at(
    intents: readonly Intent[],
    step: number,
    acknowledged: ReadonlyMap<KnownRecord, number>,
    left: CutLine | null = null,
  ): number {
    const { part } = this
    const under = this.under(intents)
    const { stores, lines, chunks, exact } = this.measure()
    this.chunks = chunks
    const all = exact !== null && exact <= this.most
    part.journal = this.journal
    const shown = all ? this.visitAll(stores, under) : this.visitSome(step, under)
    if (left !== null) shown.unshift(this.left(left, under))
    part.journal = null
    const images = exact === null ? `at least 2^${chunks.length}` : counted(exact)
    const records = under.map(({ record }) => this.records.indexOf(record))
    const least = under.map(({ record }) => acknowledged.get(record) ?? 0)
    const broken = shown
      .flatMap(({ results }) => results.map((one, i) => [this.results[one]!, least[i]!] as const))
      .filter(([{ outcome }, version]) => outcome < version).length
    this.cuts.push({
      ...{ lines, chunks: chunks.length, images, all, records, shown, broken },
      ...(left === null ? {} : { left: true }),
      ...(chunks.length > PLACES_MAX ? {} : { places: chunks.map((at) => at / 8) }),
    })
    return this.cuts.length - 1
  }

  /** What is durable is another than it was: what a cut leaves where nothing survives, too. */
  durableChanged(): void {
    this.bare.clear()
  }

  private under(intents: readonly Intent[]): Under[] {
    const { live, durable } = this.part
    return [...new Map(intents.map((one) => [one.record, one])).values()].map((intent) => {
      const from = laneOffset(intent.lane)
      const lines = [live, durable].map((of) => copyOf(of.subarray(from, from + LINE_BYTES)))
      return { ...intent, lines }
    })
  }

  /** What is pending: stores, lines, and the chunks in which it can be seen. */
  private measure(): { stores: number; lines: number; chunks: number[]; exact: number | null } {
    const { part } = this
    const { line, chunks: masks, count, entries } = part.pendingStores
    const lines = [...new Set(line.subarray(0, count))]
    const chunks: number[] = []
    for (const one of lines) {
      for (let i = 0; i < 8; i++) {
        const w = one * (LINE_BYTES / 4) + 2 * i
        const { liveWords: a, durableWords: b } = part
        if ((masks[one]! & (1 << i)) === 0 || (a[w] === b[w] && a[w + 1] === b[w + 1])) continue
        chunks.push(w * 4)
      }
    }
    const exact = entries <= EXACT_STORES && chunks.length < 48 ? imageCount(part) : null
    return { stores: entries, lines: lines.length, chunks, exact }
  }

  private visitAll(stores: number, under: readonly Under[]): CutImage[] {
    const { part } = this
    if (stores === 0) return [this.kept('nothing is pending', under, () => true)]
    const shown: CutImage[] = []
    const last = this.chunks.map((at) => [at, copyOf(part.live.subarray(at, at + 8))] as const)
    images(part, 'chunk', () => {
      const kept = last.filter(([at, bytes]) => isEqual(part.live, at, bytes)).map(([at]) => at)
      const name =
        kept.length === 0
          ? NOTHING
          : kept.length === last.length
            ? ALL
            : `${kept.length} of ${last.length} chunks survive`
      shown.push({ name, results: this.judge(under), ...this.bitsOf(new Set(kept)) })
    })
    return shown
  }

  private visitSome(step: number, under: readonly Under[]): CutImage[] {
    const { chunks } = this
    const ids = under.map(({ lane, step }) => `${lane}/${step}`).join()
    const bare = this.bare.get(ids) ?? this.kept(NOTHING, under, () => false)
    this.bare.set(ids, bare)
    const whole = this.kept(ALL, under, () => true)
    const random = new Random(step + 1)
    const one = chunks[random.below(Math.max(1, chunks.length))]
    const draws: readonly (readonly [string, (at: number) => boolean])[] = [
      ['each chunk by the throw of a coin', () => random.chance(0.5)],
      ['all but one chunk survive', (at) => at !== one],
      ['only one chunk survives', (at) => at === one],
      ['one chunk of ten survives', () => random.chance(0.1)],
    ]
    const drawn = draws
      .slice(0, (this.most - 2) >> 2)
      .map(([name, keep]) => this.kept(name, under, keep))
    return [{ ...bare, ...this.bitsOf(new Set()) }, whole, ...drawn]
  }

  /** The image of the chunks that `keep` takes, judged. */
  private kept(name: string, under: readonly Under[], keep: (at: number) => boolean): CutImage {
    const survivors = new Set(this.chunks.filter(keep))
    let results: number[] = []
    imageKeeping(
      this.part,
      (at) => survivors.has(at),
      () => {
        results = this.judge(under)
      },
    )
    return { name, results, ...this.bitsOf(survivors) }
  }

  /** The image that the cut of the run left, judged. */
  private left(line: CutLine, under: readonly Under[]): CutImage {
    const { part, chunks } = this
    const kept = new Set(keptBy(line))
    const [live, durable] = [part.live, part.durable].map((of) =>
      chunks.map((at) => copyOf(of.subarray(at, at + 8))),
    )
    let letters = ''
    let results: number[] = []
    const look = (): void => {
      for (const [at, data] of line.other) {
        for (const of of [part.live, part.durable]) of.set(Buffer.from(data, 'base64'), at)
      }
      const isAs = (of: readonly Uint8Array[] | undefined, i: number): boolean =>
        isEqual(part.live, chunks[i]!, of![i]!)
      letters = chunks.map((_, i) => (isAs(live, i) ? '1' : isAs(durable, i) ? '0' : 't')).join('')
      results = this.judge(under)
    }
    imageKeeping(part, (at) => kept.has(at), look)
    return { name: LEFT, results, ...(chunks.length > PLACES_MAX ? {} : { kept: letters }) }
  }

  private bitsOf(survivors: ReadonlySet<number>): Pick<CutImage, 'kept'> {
    if (this.chunks.length > PLACES_MAX) return {}
    return { kept: this.chunks.map((at) => (survivors.has(at) ? '1' : '0')).join('') }
  }

  /** What recovery makes of the part as it is: the places in `results`. */
  private judge(under: readonly Under[]): number[] {
    const { part } = this
    const left = under.map((intent) => this.leftOf(intent))
    const { report } = this.boot().recovery
    return under.map(({ record }, i) => {
      const { region } = record
      const entry = report.entries.find((one) => {
        return one.regionId === region.id && one.record === record.record
      })
      const row = entry === undefined ? null : CASES[entry.row]!
      const versions = copiesOf(record, part.live)
      const isOne = versions.every((version) => version === versions[0])
      const isLost = entry !== undefined && (entry.flags & LOST) !== 0
      return this.numberOf({
        ...left[i]!,
        row: row?.name ?? '',
        action: row === null ? '' : ACTIONS[row.then]!,
        outcome: isLost ? -1 : isOne && versions[0]! >= 0 ? versions[0]! : -2,
      })
    })
  }

  /** What the cut left of a record: its lane, and its copies. */
  private leftOf({ record, lane, version, lines }: Under): Pick<Result, 'lane' | 'copies'> {
    const { live, liveWords } = this.part
    const isWhole = lines.some((line) => isEqual(live, laneOffset(lane), line))
    const { sequence } = record.versions[version]!
    return {
      lane: isWhole ? laneText(liveWords, lane, sequence) : 'torn',
      copies: copiesOf(record, live),
    }
  }

  private boot(): State {
    const { part, packets } = this
    this.boots += 1
    packets.fill(0)
    const { bytes: nvdimmBytes, dirtyShutdowns } = part
    const facts: Facts = { ...FACTS, nvdimmBytes, dirtyShutdowns }
    const machine = new EmulatedMachine({ facts, nvdimm: part, packets, transmit: () => {} })
    let state: State | null = null
    bootDirect(machine, (made) => {
      state = made
    })
    if (state === null) throw new Error('a boot without a state')
    return state
  }

  private numberOf(result: Result): number {
    const key = JSON.stringify(result)
    const found = this.numbers.get(key)
    if (found !== undefined) return found
    this.results.push(result)
    this.numbers.set(key, this.results.length - 1)
    return this.results.length - 1
  }
}

function copiesOf(record: KnownRecord, of: Uint8Array): number[] {
  return Array.from({ length: record.region.copies }, (_, copy) => versionOfCopy(record, of, copy))
}

function isEqual(bytes: Uint8Array, at: number, other: Uint8Array): boolean {
  return other.every((byte, i) => byte === bytes[at + i])
}

function counted(images: number): string {
  return images < 1e6 ? images.toLocaleString('en') : `2^${Math.round(Math.log2(images))}`
}

// Positions in a lane, 32-bit words.
const SEQUENCE = 6

/** A lane in a word: the phase of the intent with that sequence, or what else it is. */
export function laneText(words: Int32Array, lane: number, sequence: string): string {
  if (lane < 0 || lane >= LANES) return 'none'
  const at = laneOffset(lane)
  if (laneClear(words, at)) return 'clear'
  const w = (at >> 2) + SEQUENCE
  const held = (BigInt(words[w + 1]! >>> 0) << 32n) | BigInt(words[w]! >>> 0)
  const phase = lanePhase(words, at)
  if (phase < 0) return 'torn'
  if (String(held) !== sequence) return 'another'
  return phase === PHASE_A ? 'A' : phase === PHASE_B ? 'B' : 'held'
}
