/**
 * What the command says, and where: data on stdout, talk on stderr, progress only on a terminal.
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
import { messageOf } from './system-errors.ts'

/** How a line looks on a terminal that has colours. */
export type Look = 'plain' | 'bold' | 'red'

/** What turns a look on and off again. */
const LOOKS = {
  plain: ['', ''],
  bold: ['\u001b[1m', '\u001b[22m'],
  red: ['\u001b[31m', '\u001b[39m'],
}

export class Output {
  readonly json: boolean
  private readonly isTerminal: boolean
  private readonly hasColour: boolean
  private progressLength = 0
  private progressAtMs = 0

  constructor(json: boolean) {
    this.json = json
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

  /** How far something is; shown on a terminal, ten times a second at most. */
  progress(what: string, done: number, total: number): void {
    const now = performance.now()
    if (!this.isTerminal || this.json || (done < total && now - this.progressAtMs < 100)) return
    this.progressAtMs = now
    const line = printable(`${what} ${done}/${total}`)
    process.stderr.write(`\r${line.padEnd(this.progressLength)}`)
    this.progressLength = line.length
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
    this.say(toJson({ error: { ...more, code, message } }))
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
