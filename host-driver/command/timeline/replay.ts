/**
 * A trace is played: the part as it was at every event of it, pending stores and all.
 *
 * Invariant: the part is the emulator's own (`Nvdimm`). After the event `n` loads see, and a power
 * cut may leave, what they would have then in the run that was traced.
 */

import { cut, type Head, Nvdimm, Random } from '../../../boards/emulator/index.ts'
import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { copyOf } from '../../base/bytes.ts'
import type { LineRange } from './data.ts'
import type { Numbered, TraceFile } from './read-trace.ts'

export type CutLine = Numbered & { readonly e: 'cut' }
type StoreLine = Numbered & { readonly e: 'store' }

/** What an event did to the part. */
export interface Change {
  readonly adds: readonly LineRange[]
  readonly settles: readonly LineRange[]
  /** Of a cut; see `Step`. */
  readonly left?: readonly (readonly [line: number, survived: string])[]
}

const NOTHING: Change = { adds: [], settles: [] }

export class Replay {
  readonly part: Nvdimm
  private readonly stored: Map<number, Uint8Array> = new Map()

  constructor({ head, events }: Pick<TraceFile, 'head' | 'events'>) {
    this.part = new Nvdimm({ bytes: head.partBytes, condition: conditionOf(head) })
    for (const event of events) {
      if (event.e === 'base') this.place(event.at, Buffer.from(event.data, 'base64'))
    }
  }

  /** Plays the next event, in the order of the trace. */
  play(event: Numbered): Change {
    const { part } = this
    if (event.e === 'store') return this.store(event)
    if (event.e === 'clean') part.clean(event.at, event.bytes)
    if (event.e === 'fence') return this.fence(event.failed)
    if (event.e === 'cut') return this.cut(event)
    if (event.e === 'fault') this.fault(event.what, event.at, event.bytes)
    return NOTHING
  }

  /** Lines that are pending, ascending. */
  pendingLines(): number[] {
    const { line, count } = this.part.pendingStores
    return [...new Set(line.subarray(0, count))].sort((a, b) => a - b)
  }

  private store(event: StoreLine): Change {
    const { part, stored } = this
    const { at, n, same, data = '' } = event
    const bytes = same === undefined ? Buffer.from(data, 'base64') : stored.get(same)
    if (bytes === undefined) throw new RangeError(`event ${n}: no store has the number ${same}`)
    if (same === undefined) stored.set(n, bytes)
    part.store(at, bytes, 0, bytes.length)
    if (event.clean === true) part.clean(at, bytes.length)
    const first = Math.floor(at / LINE_BYTES)
    const last = Math.floor((at + bytes.length - 1) / LINE_BYTES)
    return { adds: [[first, last - first + 1]], settles: [] }
  }

  private fence(failed: 'not armed' | 'flush failed' | undefined): Change {
    const { part } = this
    const { cleaned, cleanedCount, chunks } = part.pendingStores
    const lines = [...cleaned.subarray(0, cleanedCount)]
    if (failed === 'flush failed') part.fencesToFail = 1
    part.armed = failed !== 'not armed'
    part.fence()
    part.armed = true
    return { adds: [], settles: rangesOf(lines.filter((line) => chunks[line] === 0)) }
  }

  private cut(event: CutLine): Change {
    const { part } = this
    const { other, report } = event
    const lines = this.pendingLines()
    const before = lines.map(
      (line) => [lineOf(part.durable, line), lineOf(part.live, line)] as const,
    )
    const kept = keptBy(event).map((at) => [at, copyOf(part.live.subarray(at, at + 8))] as const)
    cut(part, { random: new Random(0), strategy: 'none' })
    if (report.adrFailed) part.dirtyShutdowns++
    for (const [at, bytes] of kept) this.place(at, bytes)
    for (const [at, data] of other) this.place(at, Buffer.from(data, 'base64'))
    const survived = lines.map((line, i) => survivedOf(lineOf(part.durable, line), ...before[i]!))
    const settles = rangesOf(lines)
    let next = 0
    const left = settles.map(([first, count]) => {
      next += count
      return [first, survived.slice(next - count, next).join('')] as const
    })
    return { adds: [], settles, left }
  }

  private fault(what: string, at: number, bytes: number): void {
    const { part } = this
    const line = Math.floor(at / LINE_BYTES)
    if (what === 'poison') part.poison(line)
    if (what === 'clear') part.clearPoison(at, bytes)
    if (what === 'refuse' || what === 'take') part.refuseWrites(line, what === 'refuse')
  }

  private place(at: number, bytes: Uint8Array): void {
    this.part.live.set(bytes, at)
    this.part.durable.set(bytes, at)
  }
}

/** The chunks that a cut kept, by their places. */
export function keptBy({ kept }: CutLine): number[] {
  return kept.flatMap(([at, masks]) =>
    Array.from({ length: masks.length * 4 }, (_, chunk) => chunk)
      .filter((chunk) => ((Number.parseInt(masks[(chunk >> 2) ^ 1]!, 16) >> (chunk & 3)) & 1) === 1)
      .map((chunk) => at + 8 * chunk),
  )
}

function lineOf(bytes: Uint8Array, line: number): Uint8Array {
  return copyOf(bytes.subarray(line * LINE_BYTES, (line + 1) * LINE_BYTES))
}

/** What survived of each chunk of a line, as letters (data.ts). */
function survivedOf(now: Uint8Array, durable: Uint8Array, live: Uint8Array): string {
  return Array.from({ length: LINE_BYTES / 8 }, (_, chunk) => {
    const isAs = (other: Uint8Array): boolean => {
      return Buffer.compare(chunkOf(now, chunk), chunkOf(other, chunk)) === 0
    }
    if (isAs(live)) return isAs(durable) ? '.' : '1'
    return isAs(durable) ? '0' : 't'
  }).join('')
}

function chunkOf(line: Uint8Array, chunk: number): Uint8Array {
  return line.subarray(8 * chunk, 8 * chunk + 8)
}

function conditionOf({ dirtyShutdowns }: Head): {
  dirtyShutdowns: number
  saveFailed: boolean
  poisonedLines: number[]
} {
  return { dirtyShutdowns, saveFailed: false, poisonedLines: [] }
}

/** The lines as ranges, ascending. */
function rangesOf(lines: readonly number[]): LineRange[] {
  const ranges: [number, number][] = []
  for (const line of [...lines].sort((a, b) => a - b)) {
    const last = ranges.at(-1)
    if (last !== undefined && last[0] + last[1] === line) last[1] += 1
    else ranges.push([line, 1])
  }
  return ranges
}
