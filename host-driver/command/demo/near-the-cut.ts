/**
 * The trace of the demo: what the card did around the cut, from the group before it to the one
 * behind the recovery; of a run without a cut, the first groups.
 *
 * Invariant: what is traced is bounded by the records in flight, not by the file, and in bytes.
 */

import { writeFileSync } from 'node:fs'
import { CardTrace } from '../../../boards/emulator/index.ts'
import { BURST_FRAMES } from '../../../firmware/board/limits.ts'

/** Bytes of the trace at most. */
const LIMIT = 8 * 2 ** 20

/** It begins with the group before that of the cut, which has up to a burst of records. */
const BEFORE = BURST_FRAMES + BURST_FRAMES / 4

/** And ends when so many more are durable than when it began, or when the power went. */
const AFTER = BURST_FRAMES

export class TraceNearTheCut {
  readonly trace: CardTrace
  readonly path: string
  private readonly lines: string[] = []
  private came = 0
  private from = Number.POSITIVE_INFINITY
  private until = Number.POSITIVE_INFINITY

  /** Ends up in that file when it is closed. */
  constructor(path: string) {
    this.path = path
    const write = (line: string): void => void this.lines.push(line)
    this.trace = new CardTrace({ write, limit: LIMIT, later: true })
  }

  /** The power will go inside the commit of that record, counted from 1; null: it will not. */
  plan(record: number | null): void {
    this.from = Math.max(1, (record ?? 1) - BEFORE)
    if (record === null) this.until = AFTER
  }

  /** Whether it has yet to begin, with a record that comes. */
  get waits(): boolean {
    return this.came < this.from
  }

  /**
   * A record is about to come to the card. Those that come again count again, as they do for the
   * cut; what the card has not served yet counts, so the trace never begins behind the cut.
   */
  comes(): void {
    this.came += 1
    if (!this.waits) this.trace.begin()
  }

  /** So many records are durable. */
  reached(durable: number): void {
    if (durable >= this.until) this.trace.end()
  }

  /** The power has gone. */
  cut(durable: number): void {
    this.until = durable + AFTER
  }

  close(): void {
    this.trace.end()
    writeFileSync(this.path, this.lines.join(''))
  }
}
