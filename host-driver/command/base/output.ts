/**
 * What the command says, and where: data on stdout, talk on stderr, progress only on a terminal.
 *
 * With --json, stdout carries JSON and nothing else; 64-bit numbers are decimal strings in it, and
 * bytes are base64.
 */

import { PerdureError, RefusedError } from '../../base/errors.ts'
import { codeOf } from './exit-codes.ts'
import { messageOf } from './system-errors.ts'

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
  say(line: string): void {
    this.clearProgress()
    process.stderr.write(`${line}\n`)
  }

  /** A line of data. */
  print(line: string): void {
    this.clearProgress()
    process.stdout.write(`${line}\n`)
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
    const line = `${what} ${done}/${total}`
    process.stderr.write(`\r${line.padEnd(this.progressLength)}`)
    this.progressLength = line.length
  }

  bold(text: string): string {
    return this.hasColour ? `\u001b[1m${text}\u001b[22m` : text
  }

  red(text: string): string {
    return this.hasColour ? `\u001b[31m${text}\u001b[39m` : text
  }

  /** An error, on stderr: for people, or with --json as an object. */
  fail(error: unknown): void {
    this.clearProgress()
    const message = messageOf(error)
    if (!this.json) {
      this.say(`${this.red('perdure:')} ${message}`)
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

  private clearProgress(): void {
    if (this.progressLength === 0) return
    process.stderr.write(`\r${' '.repeat(this.progressLength)}\r`)
    this.progressLength = 0
  }
}

/** JSON in one line. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, one: unknown) => {
    if (typeof one === 'bigint') return one.toString()
    return one instanceof Uint8Array ? Buffer.from(one).toString('base64') : one
  })
}
