/**
 * What the command says, and where: data on stdout, talk on stderr. Progress is talk: on a terminal
 * one line that renews itself, elsewhere a line every few seconds, and none with --json.
 *
 * With --json, stdout carries JSON and nothing else; 64-bit numbers are decimal strings in it, and
 * bytes are base64.
 *
 * Invariant: a line is one line, and has nothing in it that a terminal obeys but what is put
 * on here: a name, or what a card or a peer says, comes out escaped.
 */

import { PerdureError, RefusedError } from '../../base/errors.ts'
import { printable, printableJson } from '../../base/printable.ts'
import { codeOf } from './exit-codes.ts'
import { Progress, type Unit } from './progress.ts'
import { messageOf } from './system-errors.ts'

/** How a line looks on a terminal that has colours. */
export type Look = 'plain' | 'bold' | 'red'

/** What turns a look on and off again. */
const LOOKS = {
  plain: ['', ''],
  bold: ['\u001b[1m', '\u001b[22m'],
  red: ['\u001b[31m', '\u001b[39m'],
}

/** Between two shows of progress, ms: on a terminal, and elsewhere. */
const RENEW_MS = 100
const LINE_MS = 5000

export class Output {
  readonly json: boolean
  private readonly now: () => number
  private readonly isTerminal: boolean
  private readonly hasColour: boolean
  private progressLength = 0

  /** `now`: the clock by which progress is told, ms. */
  constructor(json: boolean, now: () => number = () => performance.now()) {
    this.json = json
    this.now = now
    this.isTerminal = process.stderr.isTTY === true
    const { NO_COLOR } = process.env
    this.hasColour = this.isTerminal && (NO_COLOR === undefined || NO_COLOR === '')
  }

  /** A line for people; nobody parses it. */
  say(line: string, look: Look = 'plain'): void {
    this.clearProgress()
    process.stderr.write(`${this.looking(printable(line), look)}\n`)
  }

  /** A line of data. */
  print(line: string, look: Look = 'plain'): void {
    this.clearProgress()
    process.stdout.write(`${this.looking(printable(line), look)}\n`)
  }

  /** A value for programs. */
  printJson(value: unknown): void {
    this.print(toJson(value))
  }

  /** A value for programs that is no data. */
  sayJson(value: unknown): void {
    this.say(toJson(value))
  }

  /**
   * Work begins of which so much is to be done, and so much was done before. Returns what is called
   * with how much is done since then: it shows that, and how fast it goes.
   */
  progress(
    what: string,
    total: number,
    unit: Unit = 'records',
    before: number = 0,
  ): (done: number) => void {
    if (this.json) return () => {}
    const progress = new Progress(what, total, unit, before, this.now())
    const pauseMs = this.isTerminal ? RENEW_MS : LINE_MS
    // A terminal shows at once that something goes on; a line says what has taken long.
    let nextMs = this.now() + (this.isTerminal ? 0 : pauseMs)
    return (done) => {
      const nowMs = this.now()
      const isLast = this.isTerminal && done >= total
      if (nowMs < nextMs && !isLast) return
      nextMs = nowMs + pauseMs
      const line = progress.line(done, nowMs)
      if (this.isTerminal) this.renew(line)
      else this.say(line)
    }
  }

  private renew(text: string): void {
    const line = printable(text)
    process.stderr.write(`\r${line.padEnd(this.progressLength)}`)
    this.progressLength = line.length
  }

  /** What has happened, for programs or for people. */
  tell(json: object, text: string): void {
    if (this.json) this.printJson(json)
    else this.say(text)
  }

  /**
   * An error, on stderr: for people, or with --json as an object. What another program has said may
   * have several lines.
   */
  fail(error: unknown): void {
    this.clearProgress()
    const message = messageOf(error)
    if (!this.json) {
      const [first, ...more] = message.split('\n')
      process.stderr.write(`${this.looking('perdure:', 'red')} ${printable(first!)}\n`)
      for (const line of more) this.say(line)
      return
    }
    const code = codeOf(error) ?? 'UNEXPECTED'
    const more =
      error instanceof RefusedError
        ? { fault: error.fault, status: error.status, advice: error.advice }
        : error instanceof PerdureError
          ? { ...error, name: undefined }
          : {}
    this.sayJson({ error: { ...more, code, message } })
  }

  private looking(text: string, look: Look): string {
    return this.hasColour ? LOOKS[look].join(text) : text
  }

  private clearProgress(): void {
    if (this.progressLength === 0) return
    process.stderr.write(`\r${' '.repeat(this.progressLength)}\r`)
    this.progressLength = 0
  }
}

/** JSON in one line, with escapes for all that a terminal obeys. */
export function toJson(value: unknown): string {
  const json = JSON.stringify(value, (_key, one: unknown) => {
    if (typeof one === 'bigint') return one.toString()
    return one instanceof Uint8Array ? Buffer.from(one).toString('base64') : one
  })
  return printableJson(json)
}
