/**
 * A board's runtime as a process: its lines, its end, and what it said on stderr.
 *
 * Invariant: every wait has a limit, and a wait that fails says what the process said last.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { PATIENCE_MS } from '../run/patience.ts'

/** Most of stderr that is kept, characters. */
const STORY_CHARS = 4000

export class Runtime {
  readonly process: ChildProcess
  private readonly what: string
  private readonly lines: string[] = []
  private readonly ended: Promise<number | null>
  private wake: () => void = () => {}
  private isOver = false
  private said = ''

  /**
   * Starts it; `input`, if it is given, is what it finds on stdin, and `environment` what it finds
   * beside ours.
   */
  constructor(
    what: string,
    program: string,
    args: readonly string[],
    cwd: string,
    input?: string,
    environment: Readonly<Record<string, string>> = {},
  ) {
    this.what = what
    const stdin = input === undefined ? 'ignore' : 'pipe'
    const env = { ...process.env, ...environment }
    this.process = spawn(program, args, { cwd, env, stdio: [stdin, 'pipe', 'pipe'] })
    this.process.stdin?.on('error', () => {})
    this.process.stdin?.end(input)
    const out = createInterface({ input: this.process.stdout! })
    out.on('line', (line) => {
      this.lines.push(line)
      this.wake()
    })
    this.process.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.said = (this.said + text).slice(-STORY_CHARS)
    })
    this.ended = new Promise((resolve) => {
      this.process.on('error', (error) => {
        this.said += error.message
      })
      this.process.on('close', (code) => {
        this.isOver = true
        resolve(code)
        this.wake()
      })
    })
  }

  get isRunning(): boolean {
    return !this.isOver
  }

  /** What it said on stderr, its last part. */
  get story(): string {
    return this.said
  }

  /** The next line of stdout. Rejects where the process ends first, or never says one. */
  async line(): Promise<string> {
    const timer = setTimeout(() => this.wake(), PATIENCE_MS)
    const until = Date.now() + PATIENCE_MS
    try {
      while (this.lines.length === 0) {
        if (this.isOver) throw new Error(`${this.what} ended: ${this.said}`)
        if (Date.now() >= until) throw new Error(`${this.what} says nothing: ${this.said}`)
        await new Promise<void>((resolve) => {
          this.wake = resolve
        })
      }
    } finally {
      clearTimeout(timer)
    }
    return this.lines.shift()!
  }

  /** Waits until it ends by itself; its exit code. */
  over(): Promise<number | null> {
    return this.ended
  }

  /** Ends it by that signal; its exit code, null where the signal ended it. */
  async end(signal: NodeJS.Signals): Promise<number | null> {
    if (!this.isOver) this.process.kill(signal)
    return await this.ended
  }
}
