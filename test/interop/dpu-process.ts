/**
 * `perdure emulate` as a process, with the shipped bundle in QuickJS: what the guest talks to.
 *
 * Invariant: what it says on stdout is JSON, one object a line; a wait for one has a limit,
 * and ends with what it said on stderr when the process ends.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { Trouble } from '../../boards/tools/debian/programs.ts'
import { PATIENCE_MS } from '../support/run/patience.ts'

export type Told = Readonly<Record<string, unknown>>

export class DpuProcess {
  private readonly child: ChildProcess
  private readonly told: Told[] = []
  private errors = ''
  private ended = false
  private wake: () => void = () => {}

  constructor(command: string, args: readonly string[]) {
    this.child = spawn(process.execPath, [command, 'emulate', ...args, '--json'], {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    createInterface({ input: this.child.stdout! }).on('line', (line) => {
      this.told.push(JSON.parse(line) as Told)
      this.wake()
    })
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.errors += text
    })
    const kill = (): boolean => this.child.kill('SIGKILL')
    process.once('exit', kill)
    this.child.on('close', () => {
      process.off('exit', kill)
      this.ended = true
      this.wake()
    })
  }

  /** The next object that has `key`; those before it are passed over. */
  async next(key: string): Promise<Told> {
    const endMs = performance.now() + PATIENCE_MS
    for (;;) {
      for (let one = this.told.shift(); one !== undefined; one = this.told.shift()) {
        if (key in one) return one
      }
      if (this.failure !== null) throw new Trouble(this.failure)
      const waitMs = endMs - performance.now()
      if (waitMs <= 0) throw new Trouble(`the emulated DPU never said '${key}': ${this.errors}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, waitMs)
        this.wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  /** Why it is no more, or null while it runs: it serves until it is told to stop. */
  get failure(): string | null {
    return this.ended ? `the emulated DPU ended: ${this.errors.trim()}` : null
  }

  /** Pulls the plug. */
  async cutPower(): Promise<{ cut: Told; on: Told }> {
    this.child.kill('SIGUSR2')
    const { powerCut } = await this.next('powerCut')
    const { powerOn } = await this.next('powerOn')
    return { cut: powerCut as Told, on: powerOn as Told }
  }

  /** Pulls the plug of the card and of the host behind it; `cut` is what that host has lost. */
  async cutBoth(): Promise<{ cut: Told; on: Told }> {
    this.child.stdin!.write('both reset\n')
    const { hostCut } = await this.next('hostCut')
    const { powerOn } = await this.next('powerOn')
    await this.next('hostOn')
    return { cut: hostCut as Told, on: powerOn as Told }
  }

  /** Kills it at once, as a crash of the whole machine would: it gets no time for anything. */
  async kill(): Promise<void> {
    await this.end('SIGKILL')
  }

  async stop(): Promise<void> {
    await this.end('SIGTERM')
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    if (this.ended) return
    const gone = new Promise((resolve) => this.child.once('close', resolve))
    this.child.kill(signal)
    await gone
  }
}
