/**
 * `perdure console TARGET [COMMAND]`: the console of a card, over its serial line or its socket.
 *
 * Invariants:
 * - An answer is a line with a JSON object. Whatever else comes over a serial line, the messages of
 *   a kernel that boots for one, is not taken for an answer.
 * - Commands go out one at a time, each behind the answer to the one before.
 */

import { createInterface } from 'node:readline'
import type { Duplex } from 'node:stream'
import type { Command } from 'commander'
import { PerdureError } from '../../base/errors.ts'
import { type Waiter, waiterOf } from '../../base/waiter.ts'
import { unixSocket, wholeNumber } from '../base/arguments.ts'
import { OK, UNAVAILABLE } from '../base/exit-codes.ts'
import { BAUD, openLine } from '../base/line.ts'
import { Output } from '../base/output.ts'
import { type Cell, facts } from '../base/table.ts'

interface Options {
  readonly baud: number
  readonly timeout: number
  readonly json?: boolean
}

/** An answer, as it came. */
type Answer = Readonly<Record<string, unknown>>

const GIVE = 'a console is unix:PATH, or a serial line as /dev/ttyUSB0'
const TIMEOUT_MS = 5000

export function addConsole(program: Command): void {
  program
    .command('console')
    .description("talk to a card's console: 'help' says what it understands")
    .argument('<target>', 'unix:PATH, or a serial line as /dev/ttyUSB0', consoleTarget)
    .argument('[command]', 'one command; without it, lines of standard input')
    .option('--baud <n>', 'speed of a serial line', wholeNumber(1), BAUD)
    .option('--timeout <ms>', 'longest wait for an answer', wholeNumber(1), TIMEOUT_MS)
    .option('--json', 'answers as they come, one JSON object a line')
    .action(async (target: string, command: string | undefined, options: Options) => {
      process.exitCode = await talk(target, command, options)
    })
}

/** A target that `openLine` opens, as it stands on the command line. */
function consoleTarget(text: string): string {
  if (text.startsWith('unix:')) unixSocket(text)
  return text
}

async function talk(
  target: string,
  command: string | undefined,
  { baud, timeout, json = false }: Options,
): Promise<number> {
  const output = new Output(json)
  const card = new Console(await openLine(target, baud, GIVE), target, timeout)
  try {
    const commands = command === undefined ? createInterface({ input: process.stdin }) : [command]
    let code = OK
    for await (const one of commands) {
      const line = one.trim()
      if (line === '') continue
      const answer = await card.ask(line)
      show(output, answer)
      if (answer.error !== undefined) code = UNAVAILABLE
    }
    return code
  } finally {
    card.close()
  }
}

function show(output: Output, answer: Answer): void {
  if (output.json) {
    output.printJson(answer)
    return
  }
  for (const line of facts(flat(answer, ''))) output.print(line)
}

/** The fields, those of objects inside by dotted names. */
function flat(answer: Answer, prefix: string): [string, Cell][] {
  return Object.entries(answer).flatMap(([name, value]): [string, Cell][] => {
    const whole = `${prefix}${name}`
    if (typeof value === 'object' && value !== null) return flat(value as Answer, `${whole}.`)
    return [[whole, typeof value === 'number' ? value : String(value)]]
  })
}

/** A console: one question, one answer. */
class Console {
  private readonly line: Duplex
  private readonly name: string
  private readonly timeoutMs: number
  private waiting: Waiter<Answer> | null = null

  constructor(line: Duplex, name: string, timeoutMs: number) {
    this.line = line
    this.name = name
    this.timeoutMs = timeoutMs
    createInterface({ input: line }).on('line', (text) => this.heard(text))
    line.on('error', (error) => this.failed(error.message))
    line.once('close', () => this.failed('the connection ended'))
  }

  ask(command: string): Promise<Answer> {
    return new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(
        () => this.failed(`no answer to '${command}' within ${this.timeoutMs} ms`),
        this.timeoutMs,
      )
      const done = (): void => {
        clearTimeout(timer)
        this.waiting = null
      }
      this.waiting = waiterOf(done, resolve, reject)
      if (this.line.destroyed) this.failed('the connection ended')
      else this.line.write(`${command}\n`)
    })
  }

  close(): void {
    this.line.destroy()
  }

  private heard(text: string): void {
    const answer = answerOf(text)
    if (answer !== null) this.waiting?.resolve(answer)
  }

  private failed(why: string): void {
    this.waiting?.reject(new PerdureError('PERDURE_UNREACHABLE', `${this.name}: ${why}`))
  }
}

/** The JSON object that a line is; null if it is none. */
function answerOf(text: string): Answer | null {
  try {
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Answer) : null
  } catch {
    return null
  }
}
