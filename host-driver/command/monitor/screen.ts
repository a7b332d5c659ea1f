/**
 * The tables of a monitor on a terminal, renewed in place, with the last events at its foot.
 *
 * Invariant: nothing in a line moves the cursor or goes on in the next one: what a card says is
 * escaped (base/printable.ts), and a line ends where the terminal does. So the screen is never
 * higher than the terminal, and renewing it leaves nothing of what stood there.
 */

import { printable } from '../../base/printable.ts'
import type { HealthEvent, Look } from './look.ts'
import { eventLine, screenLines } from './text.ts'

/** Events that the foot has at the most. */
const EVENTS = 8

/** The cursor goes to the top; the rest of a line, and of the screen, is blank. */
const TOP = '\u001b[H'
const END_OF_LINE = '\u001b[K'
const END_OF_SCREEN = '\u001b[J'
const CLEAR = '\u001b[2J'

/** What is shown, of a terminal of that size. */
interface Size {
  readonly columns: number
  readonly rows: number
}

export class Screen {
  private readonly looks: Map<string, Look> = new Map()
  private readonly intervalSeconds: number
  private events: readonly HealthEvent[] = []
  private isCleared = false

  constructor(intervalSeconds: number) {
    this.intervalSeconds = intervalSeconds
  }

  /** One more look, and what has happened; the texts that renew the screen. */
  renew(look: Look, events: readonly HealthEvent[], size: Size): string {
    this.looks.set(look.target, look)
    this.events = [...this.events, ...events].slice(-EVENTS)
    const clear = this.isCleared ? '' : CLEAR
    this.isCleared = true
    const lines = this.lines(look.atMs, size.rows - 1).map((line) => {
      return `${[...printable(line)].slice(0, size.columns).join('')}${END_OF_LINE}\n`
    })
    return `${clear}${TOP}${lines.join('')}${END_OF_SCREEN}`
  }

  private lines(atMs: number, rows: number): string[] {
    const at = new Date(atMs).toISOString().slice(11, 19)
    const head = `perdure monitor, every ${this.intervalSeconds} s, at ${at} UTC; Ctrl-C ends it`
    const foot = this.events.length === 0 ? [] : ['', ...this.events.map(eventLine)]
    const body = screenLines([...this.looks.values()])
    const room = Math.max(0, rows - 2 - foot.length)
    const left = body.length - room
    const shown = left > 0 ? [...body.slice(0, room - 1), `… ${left + 1} more lines`] : body
    return [head, '', ...shown, ...foot].slice(0, Math.max(1, rows))
  }
}
