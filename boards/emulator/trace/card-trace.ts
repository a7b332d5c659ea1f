/**
 * Writes down what a card does: its frames, bursts, stores, write-backs, fences and cuts
 * (events.ts). Given to an `EmulatedDpu` as its `trace`.
 *
 * Invariants:
 * - Whoever is traced runs as without it: the trace reads, and asks for nothing.
 * - What a line of the part held at the beginning is written before the line is first stored to,
 *   and with it the whole of the record that it is of, in every copy: so a restart can be played at
 *   every line of the trace.
 * - It never has more than `limit` bytes, and says so where it ends for that.
 */

import { DONE, NOT_ARMED } from '../../../firmware/board/hal.ts'
import { LINE_BYTES, REGIONS } from '../../../firmware/board/limits.ts'
import { KIND_RECORDS, PLACEMENT_LOCAL, strideOf } from '../../../firmware/medium/region.ts'
import { imageBytes, SLOT_MAGIC } from '../../../firmware/medium/slot.ts'
import {
  DATA_AT,
  endOfRoom,
  type RegionEntry,
  readEntry,
  regionCountOf,
} from '../../../firmware/medium/superblock.ts'
import type { Clock } from '../../clock.ts'
import { BOOLEAN, COUNT, FUNCTION, type Kinds, TEXT } from '../../kinds.ts'
import { checkFields } from '../base/arguments.ts'
import type { MediumFault, MediumWatch, Nvdimm } from '../medium/nvdimm.ts'
import { type CutReport, pending } from '../medium/power-cut.ts'
import {
  type CutEvent,
  type FenceEvent,
  type FrameEvent,
  type Head,
  TRACE_VERSION,
  type TraceEvent,
} from './events.ts'
import { FrameReader } from './frame-fields.ts'

/** Bytes of a trace, unless it is said. */
const LIMIT = 32 * 2 ** 20

/** From this length on a store that says what another one said names that one, bytes. */
const SAME_FROM = 128

/** Stores that are remembered for that, at most. */
const REMEMBERED = 1024

/** Content in one line of the trace, at most. */
const BASE_BYTES = 4096

/** Positions in a slot header, 32-bit words. */
const MAGIC_WORD = 4
const LENGTH_WORD = 7

export interface CardTraceOptions {
  /** Takes each line, with its end. */
  readonly write: (line: string) => void
  /** Bytes that the lines may have together; 32 MiB unless given. */
  readonly limit?: number
  /** It begins when `begin` is called, not with the card. */
  readonly later?: boolean
  /** The board's name, for the first line; 'emulator' unless given. */
  readonly board?: string
}

const KINDS: Kinds<CardTraceOptions> = {
  write: FUNCTION,
  limit: COUNT,
  later: BOOLEAN,
  board: TEXT,
}

export class CardTrace implements MediumWatch {
  /** Events so far. */
  count = 0
  /** Bytes so far, of the lines. */
  bytes = 0
  private readonly options: CardTraceOptions
  private readonly limit: number
  private readonly reader = new FrameReader()
  private part: Nvdimm | null = null
  private clock: Pick<Clock, 'nowUs'> | null = null
  private active = false
  private ended = false
  /** Lines of the part of which the trace has what was durable: 1. */
  private known: Uint8Array = new Uint8Array(0)
  private readonly stored: Map<string, number> = new Map()
  /** The last store, which waits for the write-back of the same bytes. */
  private waiting: (TraceEvent & { e: 'store' }) | null = null
  private before: {
    readonly durable: Map<number, Uint8Array>
    readonly live: Map<number, Uint8Array>
  } | null = null

  constructor(options: CardTraceOptions) {
    checkFields('a trace', options, KINDS, ['write'])
    this.options = options
    this.limit = options.limit ?? LIMIT
  }

  /** Whether it takes down what happens now. */
  get isOpen(): boolean {
    return this.active
  }

  /** The card that it is of: called by the card, once. */
  attach(part: Nvdimm, clock: Pick<Clock, 'nowUs'>): void {
    if (this.part !== null) throw new Error('a trace is of one card')
    this.part = part
    this.clock = clock
    if (this.options.later !== true) this.begin()
  }

  /** Begins: first what is durable, and what is pending. */
  begin(): void {
    const { part } = this
    if (part === null) throw new Error('a trace begins with a card: give it to one')
    if (this.active || this.ended) return
    const head: Head = {
      trace: 'perdure',
      version: TRACE_VERSION,
      board: this.options.board ?? 'emulator',
      partBytes: part.bytes,
      dirtyShutdowns: part.dirtyShutdowns,
    }
    this.active = true
    this.known = new Uint8Array(part.bytes / LINE_BYTES)
    this.writeLine(JSON.stringify(head))
    this.know(0, Math.min(DATA_AT, part.bytes))
    this.addPending(part)
    part.watch = this
  }

  /** Ends it: nothing is written any more. */
  end(): void {
    if (!this.active) return
    this.add({ e: 'end', t: this.nowUs })
    this.stop()
  }

  private stop(): void {
    this.flush()
    this.active = false
    this.ended = true
    if (this.part?.watch === this) this.part.watch = null
  }

  private get nowUs(): number {
    return this.clock?.nowUs ?? 0
  }

  // ---- the card ------------------------------------------------------------------------------

  power(on: boolean): void {
    if (this.active) this.add({ e: 'power', t: this.nowUs, on })
  }

  burst(frames: number): void {
    if (this.active) this.add({ e: 'burst', t: this.nowUs, frames })
  }

  frame(e: 'in' | 'out', frame: Uint8Array, dropped = false): void {
    if (!this.active) return
    const fields = this.reader.read(frame)
    const event: FrameEvent = { e, t: this.nowUs, ...fields, ...(dropped ? { dropped } : {}) }
    this.add(event)
  }

  /** The power is about to go: what is pending now is all that the cut chooses from. */
  cutBegins(): void {
    const { part } = this
    if (!this.active || part === null) return
    const durable = new Map<number, Uint8Array>()
    const live = new Map<number, Uint8Array>()
    const fenced = part.fenced.flatMap(({ lines }) => lines)
    const lines = new Set([
      ...pending(part).map(({ at }) => Math.floor(at / LINE_BYTES)),
      ...fenced,
    ])
    for (const line of [...lines].sort((a, b) => a - b)) {
      durable.set(line, lineOf(part.durable, line))
      live.set(line, lineOf(part.live, line))
    }
    this.before = { durable, live }
  }

  cutEnds(report: CutReport): void {
    const { before, part } = this
    this.before = null
    if (!this.active || before === null || part === null) return
    const kept: [number, string][] = []
    const other: [number, string][] = []
    let next = -1
    for (const [line, durable] of before.durable) {
      const now = lineOf(part.durable, line)
      const mask = maskOf(now, durable, before.live.get(line)!)
      if (mask < 0) other.push([line * LINE_BYTES, base64(now)])
      const digits = Math.max(0, mask).toString(16).padStart(2, '0')
      if (line === next) kept.at(-1)![1] += digits
      else kept.push([line * LINE_BYTES, digits])
      next = line + 1
    }
    const event: CutEvent = { e: 'cut', t: this.nowUs, report, kept, other }
    this.add(event)
  }

  // ---- the part ------------------------------------------------------------------------------

  stores(at: number, source: Uint8Array, sourceAt: number, length: number): void {
    this.flush()
    this.knowRecords(at, length)
    const bytes = source.subarray(sourceAt, sourceAt + length)
    this.waiting = { e: 'store', at, bytes: length, ...this.content(bytes) }
  }

  cleans(at: number, length: number): void {
    const { waiting } = this
    if (waiting !== null && waiting.at === at && waiting.bytes === length) {
      this.waiting = { ...waiting, clean: true }
      this.flush()
    } else this.add({ e: 'clean', at, bytes: length })
  }

  fenced(result: number): void {
    const failed = result === NOT_ARMED ? 'not armed' : 'flush failed'
    const event: FenceEvent = { e: 'fence', ...(result === DONE ? {} : { failed }) }
    this.add(event)
  }

  faults(what: MediumFault, at: number, length: number): void {
    this.add({ e: 'fault', what, at, bytes: length })
  }

  /** The bytes, or the number of a store that has said them. */
  private content(bytes: Uint8Array): { data: string } | { same: number } {
    const data = base64(bytes)
    if (bytes.length < SAME_FROM) return { data }
    const same = this.stored.get(data)
    if (same !== undefined) return { same }
    if (this.stored.size >= REMEMBERED) this.stored.clear()
    // It is the next event that is added: nothing comes before it.
    this.stored.set(data, this.count + 1)
    return { data }
  }

  /** What was pending when the trace began, as stores of chunks. */
  private addPending(part: Nvdimm): void {
    const { pendingStores } = part
    for (const { at, versions } of pending(part)) {
      this.knowRecords(at, versions[0]!.length)
      for (const version of versions.slice(1)) {
        this.add({ e: 'store', at, bytes: version.length, data: base64(version) })
      }
    }
    for (let i = 0; i < pendingStores.cleanedCount; i++) {
      this.add({ e: 'clean', at: pendingStores.cleaned[i]! * LINE_BYTES, bytes: LINE_BYTES })
    }
  }

  /** Writes down what is durable of these bytes, and of the records that they are of. */
  private knowRecords(at: number, length: number): void {
    const { part, known } = this
    if (part === null || this.isKnown(at, length)) return
    const region = at < DATA_AT ? null : regionAt(part, at)
    if (region !== null) {
      const stride = strideOf(region.capacity)
      const offset = (at - region.at) % region.areaBytes
      const last = Math.floor((offset + length - 1) / stride)
      for (let slot = Math.floor(offset / stride); slot <= last && slot < region.slots; slot++) {
        for (let copy = 0; copy < region.copies; copy++) {
          const from = region.at + copy * region.areaBytes + slot * stride
          if (known[from / LINE_BYTES] === 0) this.know(from, heldBytes(part, from, stride))
        }
      }
    }
    this.know(at, length)
  }

  private isKnown(at: number, length: number): boolean {
    const last = Math.floor((at + length - 1) / LINE_BYTES)
    for (let line = Math.floor(at / LINE_BYTES); line <= last; line++) {
      if (this.known[line] === 0) return false
    }
    return true
  }

  /** The same of the lines of these bytes alone, those that are zero left out. */
  private know(at: number, length: number): void {
    const { part, known } = this
    if (part === null) return
    const end = Math.ceil((at + length) / LINE_BYTES)
    let from = -1
    for (let line = Math.floor(at / LINE_BYTES); line <= end; line++) {
      const isWanted = line < end && known[line] === 0 && !isZero(part.durableWords, line)
      if (line < end) known[line] = 1
      const isLong = from >= 0 && (line - from) * LINE_BYTES >= BASE_BYTES
      if (from >= 0 && (!isWanted || isLong)) {
        const data = base64(part.durable.subarray(from * LINE_BYTES, line * LINE_BYTES))
        this.add({ e: 'base', at: from * LINE_BYTES, data })
        from = -1
      }
      if (isWanted && from < 0) from = line
    }
  }

  // ---- the lines -----------------------------------------------------------------------------

  private add(event: TraceEvent): void {
    this.flush()
    this.put(event)
  }

  private flush(): void {
    const { waiting } = this
    this.waiting = null
    if (waiting !== null) this.put(waiting)
  }

  private put(event: TraceEvent): void {
    if (!this.active) return
    const line = JSON.stringify({ n: this.count + 1, ...event })
    // Room for the line that says that there is no more.
    if (this.bytes + line.length + FULL_BYTES > this.limit) {
      const full: TraceEvent = { e: 'full', limit: this.limit }
      this.writeLine(JSON.stringify({ n: ++this.count, ...full }))
      this.waiting = null
      this.stop()
      return
    }
    this.count += 1
    this.writeLine(line)
  }

  private writeLine(line: string): void {
    this.bytes += line.length + 1
    this.options.write(`${line}\n`)
  }
}

const FULL_BYTES = 80

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
}

function lineOf(bytes: Uint8Array, line: number): Uint8Array {
  return bytes.slice(line * LINE_BYTES, (line + 1) * LINE_BYTES)
}

function isZero(words: Int32Array, line: number): boolean {
  for (let i = line * 16; i < line * 16 + 16; i++) if (words[i] !== 0) return false
  return true
}

/** Which chunks of a line are as `live` has them, where all others are as `durable`; else -1. */
function maskOf(now: Uint8Array, durable: Uint8Array, live: Uint8Array): number {
  let mask = 0
  for (let chunk = 0; chunk < 8; chunk++) {
    const [from, to] = [chunk * 8, chunk * 8 + 8]
    const is = (other: Uint8Array): boolean =>
      now.subarray(from, to).every((byte, i) => byte === other[from + i])
    if (is(live)) mask |= is(durable) ? 0 : 1 << chunk
    else if (!is(durable)) return -1
  }
  return mask
}

/** The region of records of the card's own part that has that byte, or null. */
function regionAt(part: Nvdimm, at: number): RegionEntry | null {
  const { liveWords: words, live: bytes } = part
  const superblock = { words, bytes, whole: 0, half: false, mended: 0 }
  const count = Math.min(regionCountOf(superblock), REGIONS)
  for (let i = 0; i < count; i++) {
    const entry = readEntry(superblock, i)
    if (entry.kind !== KIND_RECORDS || entry.placement !== PLACEMENT_LOCAL) continue
    if (at >= entry.at && at < endOfRoom(entry)) return entry
  }
  return null
}

/** Bytes of the record whose slot of `stride` bytes is there, as its header says it. */
function heldBytes(part: Nvdimm, at: number, stride: number): number {
  const word = at >> 2
  const { durableWords } = part
  if (durableWords[word + MAGIC_WORD] !== SLOT_MAGIC) return stride
  return Math.min(stride, imageBytes(Math.min(durableWords[word + LENGTH_WORD]! >>> 0, stride)))
}
