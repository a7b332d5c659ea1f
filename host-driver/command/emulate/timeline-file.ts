/**
 * `emulate --timeline FILE`: the events of the card, for `perdure timeline`.
 *
 * Invariants:
 * - Who watches changes nothing: what cannot be written is told at the end, by `close`.
 * - A file that is there is as it was until `begin`, which needs it to be there or to be made.
 */

import { closeSync, openSync, writeSync } from 'node:fs'
import { CardTrace } from '../../../boards/emulator/index.ts'

/** Characters that wait before they go to the file. */
const WAITING = 1 << 18

export class TimelineFile {
  readonly trace: CardTrace
  private readonly path: string
  private file: number | null = null
  private waiting: string[] = []
  private length = 0
  private failure: Error | null = null

  constructor(path: string) {
    this.path = path
    this.trace = new CardTrace({ write: (line) => this.take(line), later: true })
  }

  /** From now on events go to the file, in the place of what is there. */
  begin(): void {
    this.file = openSync(this.path, 'w')
    this.trace.begin()
  }

  close(): void {
    if (this.file === null) return
    this.trace.end()
    this.flush()
    closeSync(this.file)
    this.file = null
    if (this.failure === null) return
    const { message } = this.failure
    throw new Error(`${this.path} cannot be written: ${message}`, { cause: this.failure })
  }

  private take(line: string): void {
    this.waiting.push(line)
    this.length += line.length
    if (this.length >= WAITING) this.flush()
  }

  private flush(): void {
    const text = this.waiting.join('')
    this.waiting = []
    this.length = 0
    try {
      if (this.file !== null && this.failure === null) writeSync(this.file, text)
    } catch (error) {
      this.failure = error as Error
    }
  }
}
