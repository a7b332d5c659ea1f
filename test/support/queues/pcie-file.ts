/**
 * Starts the other side of a port in a file as a process, and talks to it (pcie-file-child.ts).
 *
 * Invariant: a child ends with the test that started it, and every wait has a limit.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { PATIENCE_MS } from '../run/patience.ts'
import type { Answered, Asked } from './pcie-file-child.ts'

/** A folder for one test file: the program of the children, and the files that they share. */
export class Workshop {
  readonly folder: string = mkdtempSync(join(tmpdir(), 'perdure-port-'))
  private readonly program = join(this.folder, 'child.mjs')
  private readonly children: Child[] = []
  private files = 0

  constructor() {
    buildSync({
      entryPoints: [fileURLToPath(new URL('pcie-file-child.ts', import.meta.url))],
      outfile: this.program,
      bundle: true,
      platform: 'node',
      format: 'esm',
      target: 'node20',
      logLevel: 'error',
    })
  }

  /** Where a new file may be made. */
  newPath(): string {
    return join(this.folder, `port-${this.files++}`)
  }

  async start(side: 'host' | 'card' | 'driver', path: string, bytes = 65536): Promise<Child> {
    const child = new Child(fork(this.program, [side, path, String(bytes)], { execArgv: [] }))
    this.children.push(child)
    await child.next('ready')
    return child
  }

  async close(): Promise<void> {
    for (const child of this.children) await child.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export class Child {
  readonly events: string[] = []
  private readonly process: ChildProcess
  private readonly waiting = new Map<number, (answer: Answered) => void>()
  private failure: Answered['error']
  private asked = 0
  private ended = false

  constructor(child: ChildProcess) {
    this.process = child
    child.on('message', (answer: Answered) => {
      if (answer.id !== undefined) this.waiting.get(answer.id)?.(answer)
      else this.events.push(answer.event!)
      this.failure ??= answer.id === undefined ? answer.error : undefined
    })
    child.on('exit', () => {
      this.ended = true
    })
  }

  /** Waits for an event; those before it are passed over. */
  async next(event: string): Promise<void> {
    await until(() => {
      if (this.failure !== undefined) throw Object.assign(new Error(), this.failure)
      if (this.ended) throw new Error(`the child ended before '${event}'`)
      const at = this.events.indexOf(event)
      if (at >= 0) this.events.splice(0, at + 1)
      return at >= 0
    }, event)
  }

  /** Calls a function there. What it throws is thrown here, with its name and code. */
  async call(call: string, ...args: number[]): Promise<unknown> {
    const id = this.asked++
    const question: Asked = { id, call, args }
    let answer: Answered | null = null
    this.waiting.set(id, (one) => {
      answer = one
    })
    this.process.send(question)
    await until(() => answer !== null, call)
    const { error, result } = answer! as Answered
    if (error !== undefined) throw Object.assign(new Error(error.message), error)
    return result
  }

  /** SIGKILL, and nothing that it could do about it. */
  async kill(): Promise<void> {
    if (!this.ended) this.process.kill('SIGKILL')
    await until(() => this.ended, 'the end')
  }
}

/** Waits until it is so. */
export async function until(isSo: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + PATIENCE_MS
  while (!isSo()) {
    if (performance.now() > endMs) throw new Error(`waited in vain for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
}
