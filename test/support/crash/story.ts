/**
 * An image, and what a start made of it, for whoever plays one again: line by line, and as a trace
 * of which a timeline is made.
 *
 * Invariants:
 * - Without a trace nothing is done, and with one nothing is played in another way.
 * - Images are visited unwatched (boards/emulator/medium/images.ts), and taken back: what happens
 *   on the one that is aimed at is watched here, and with its start the trace ends.
 */

import type { Clock } from '../../../boards/clock.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type PendingChunk, pending } from '../../../boards/emulator/medium/power-cut.ts'
import type { CardTrace } from '../../../boards/emulator/trace/card-trace.ts'
import type { TestCard } from '../cards/test-card.ts'
import { DECIDED } from '../judges/case-table.ts'
import { copyAt, LANES, LANES_AT, LINE_BYTES, readLane, sameBytes } from '../judges/oracle.ts'
import type { Actor } from './actor.ts'
import type { Started } from './booth.ts'
import { nameOfState } from './classes.ts'

function hexOf(bytes: Uint8Array): string {
  return Buffer.from(bytes)
    .toString('hex')
    .replace(/(.{16})(?=.)/g, '$1 ')
}

/** What is on the medium: each lane that is not clear, each copy, line by line. */
export function tellImage({ durable }: Nvdimm, actor: Actor): string[] {
  const told: string[] = []
  for (let lane = 0; lane < LANES; lane++) {
    const at = LANES_AT + lane * LINE_BYTES
    const line = durable.slice(at, at + LINE_BYTES)
    const said = readLane(line)
    if (said.state === 'clear') continue
    told.push(`  lane ${lane} is ${said.state}`, `    ${hexOf(line)}`)
  }
  for (const record of actor.records.values()) {
    if (record.started === 0) continue
    const { region, acknowledged, started } = record
    told.push(`  record ${record.record}: v${started} begun, v${acknowledged} acknowledged`)
    for (let copy = 0; copy < region.copies; copy++) {
      const state = nameOfState(record.versionIn(durable, copy), record)
      const at = copyAt(region, copy, record.record)
      told.push(`    copy ${'ABCD'[copy]} is ${state}`)
      for (let line = at; line < at + region.stride; line += LINE_BYTES) {
        told.push(`      ${hexOf(durable.slice(line, line + LINE_BYTES))}`)
      }
    }
  }
  return told
}

/** What the recovery reports, and what is there behind it. */
export function tellStart({ durable }: Nvdimm, actor: Actor, started: Started): string[] {
  const told = [`  it starts: state ${started.state}, fault ${started.fault}`]
  for (const { record, lane, row } of started.report) {
    told.push(
      `    record ${record}, by lane ${lane}: ${DECIDED[row]!.name}, ${DECIDED[row]!.action}`,
    )
  }
  for (const record of actor.records.values()) {
    if (record.started === 0) continue
    const states = record.statesIn(durable).map((state) => nameOfState(state, record))
    told.push(`    record ${record.record} is ${states.join('/')}`)
  }
  return told
}

function never(): never {
  throw new Error('a card of an exploration has no events to come')
}

/** Takes down the play, the cut that leaves the image that is aimed at, and the start behind. */
export class Taken {
  private readonly trace: CardTrace | null
  private chunks: readonly PendingChunk[] = []
  private hasEnded = false

  constructor(trace: CardTrace | undefined) {
    this.trace = trace ?? null
  }

  /** The exploration begins. */
  begin(card: TestCard): void {
    const clock: Clock = {
      get nowUs() {
        return card.now
      },
      schedule: never,
      cancel: never,
    }
    this.trace?.attach(card.nvdimm, clock)
  }

  frame(way: 'in' | 'out', frame: Uint8Array): Uint8Array {
    this.trace?.frame(way, frame)
    return frame
  }

  /** The power is about to go; what is pending now may survive. */
  cutBegins(part: Nvdimm): void {
    if (this.trace === null) return
    this.trace.cutBegins()
    this.chunks = pending(part)
  }

  /** It went: what is left is on the part. */
  cutEnds({ durable }: Nvdimm): void {
    const { trace, chunks } = this
    if (trace === null) return
    const isKept = ({ at, versions }: PendingChunk): boolean =>
      sameBytes(durable.subarray(at, at + 8), versions.at(-1)!)
    const kept = new Set(chunks.filter(isKept))
    const linesOf = (of: Iterable<PendingChunk>): Set<number> =>
      new Set([...of].map(({ at }) => Math.floor(at / LINE_BYTES)))
    const lost = linesOf(chunks.filter((chunk) => !kept.has(chunk)))
    trace.cutEnds({
      ...{ mode: 'chunk', strategy: 'only-matching', adrFailed: false },
      pieces: chunks.length,
      chunks: chunks.length,
      chunksKept: kept.size,
      lines: linesOf(chunks).size,
      linesTorn: [...linesOf(kept)].filter((line) => lost.has(line)).length,
    })
  }

  /** What happens to the part is taken down from here on, until the images of it end. */
  watch(part: Nvdimm): void {
    if (this.trace !== null && !this.hasEnded) part.watch = this.trace
  }

  /** A card starts on what is left. */
  starts(part: Nvdimm): void {
    this.watch(part)
    this.trace?.power(true)
  }

  end(): void {
    this.hasEnded = true
    this.trace?.end()
  }
}
