/**
 * `perdure-boot` around functions of a test: compiled with the sanitizers, and linked with a script
 * that evaluates what it is given.
 *
 * What is given is the text of a function: it has `host`, a value of the test, and what `PRELUDE`
 * defines, and nothing of the file that it stands in.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileBoot } from '../../../boards/linux/boot/compile.ts'
import type { Host, Script } from '../../../boards/linux/boot/script/host.ts'
import { hostArchitecture } from '../../../boards/linux/toolchain.ts'
import { ROOT } from '../source/sources.ts'
import { noCompiler } from './harness.ts'

const ARCHITECTURE = process.arch === 'x64' ? 'x86-64' : process.arch
const BUILT = join(ROOT, 'dist/linux', ARCHITECTURE, 'perdure-boot')

/** Why there is none to test; null if there is. */
export const noBoot: string | null = existsSync(BUILT)
  ? noCompiler
  : 'perdure-boot is not built: node build.mjs --board linux --install'

/** What functions of a test may use beside `host`. */
declare global {
  /** Bytes of a text, and the text of bytes, of one byte a letter. */
  function toBytes(text: string): Uint8Array
  function toText(bytes: ArrayBuffer | null | undefined): string
  /** What a call throws: `NAME CODE: MESSAGE`. */
  function thrown(call: () => unknown): string
}

const PRELUDE = `
  globalThis.toBytes = (text) => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
  globalThis.toText = (bytes) => String.fromCharCode(...new Uint8Array(bytes))
  globalThis.thrown = (call) => {
    try { call() } catch (error) { return error.name + ' ' + error.code + ': ' + error.message }
    return 'nothing is thrown'
  }
  globalThis.perdureBoot = {
    start: (host) => (0, eval)('(' + host.args[0] + ')')(host, JSON.parse(host.args[1])),
  }
`

/** Compiles the program with the sanitizers, and returns its path. */
export function compileBootHarness(): string {
  const folder = mkdtempSync(join(tmpdir(), 'boot-'))
  const script = join(folder, 'script.js')
  writeFileSync(script, PRELUDE)
  return compileBoot({
    ...{ architecture: hostArchitecture(), sanitize: true, dropFlush: false, install: false },
    ...{ script, program: join(folder, 'perdure-boot'), say: () => {} },
  })
}

/** The program with a script, as it runs. */
export class BootHarness {
  readonly child: ChildProcess
  private readonly exited: Promise<unknown[]>
  stdout = ''
  stderr = ''
  private heard: () => void = () => {}

  constructor(program: string, words: readonly string[], env: NodeJS.ProcessEnv) {
    this.child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'], env })
    this.exited = once(this.child, 'close')
    this.child.stdout!.on('data', (bytes: Buffer) => {
      this.stdout += bytes.toString()
      this.heard()
    })
    this.child.stderr!.on('data', (bytes: Buffer) => {
      this.stderr += bytes.toString()
    })
    void this.exited.then(() => this.heard())
  }

  /** Waits until it has printed that. Rejects when it has ended without it. */
  async says(text: string): Promise<void> {
    while (!this.stdout.includes(text)) {
      const { exitCode, signalCode } = this.child
      if (exitCode !== null || signalCode !== null) throw new Error(`${this.stdout}${this.stderr}`)
      await new Promise<void>((resolve) => {
        this.heard = resolve
      })
    }
  }

  /** Its exit code, once it has ended and all that it started. */
  async over(): Promise<number | null> {
    await this.exited
    return this.child.exitCode
  }
}

/** A function of a test that a script is made of. */
export type Start<T> = (host: Host, given: T) => Script

/** Starts the program with that script. */
export function startBoot<T>(
  program: string,
  start: Start<T>,
  given: T,
  env: NodeJS.ProcessEnv = {},
): BootHarness {
  return new BootHarness(program, [String(start), JSON.stringify(given)], env)
}

/** Calls a function in the program, which then ends, and returns what it returned. */
export async function callBoot<T, R>(
  program: string,
  call: (host: Host, given: T) => R,
  given: T,
  env: NodeJS.ProcessEnv = {},
): Promise<R> {
  const start = `(host, given) => {
    host.print('=' + JSON.stringify((${String(call)})(host, given) ?? null))
    host.exit(0)
  }`
  const running = new BootHarness(program, [start, JSON.stringify(given)], env)
  const code = await running.over()
  const answer = /^=(.*)$/m.exec(running.stdout)?.[1]
  if (code !== 0 || answer === undefined || running.stderr !== '') {
    throw new Error(`exit code ${code}: ${running.stdout}${running.stderr}`)
  }
  return JSON.parse(answer) as R
}
