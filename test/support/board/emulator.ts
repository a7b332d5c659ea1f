/** The emulator as a board: `perdure emulate` on an image, as a user runs it. */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from '../source/sources.ts'
import {
  type BoardKind,
  type BoardOptions,
  type BoardUnderTest,
  identityFiles,
  notOf,
} from './board.ts'
import { Runtime } from './runtime.ts'

const COMMAND = join(ROOT, 'dist/perdure.js')

export const EMULATOR: BoardKind = {
  name: 'emulator',
  title: 'the emulator (perdure emulate)',
  hasConsole: false,
  cutsPower: true,
  canBeVolatile: true,
  dropsFlush: false,
  isQuick: true,
  killsInShort: 4,
  missing(options) {
    if (options?.dropFlush === true) return 'the emulator has no build without a flush'
    return existsSync(COMMAND) ? null : 'dist/perdure.js is missing: node build.mjs build'
  },
  make: (options) => new EmulatorBoard(options),
}

interface Announced {
  readonly address: string
  readonly bundle: string
}

class EmulatorBoard implements BoardUnderTest {
  readonly kind = EMULATOR
  target = ''
  bundleHash = ''
  private readonly folder = mkdtempSync(join(tmpdir(), 'perdure-board-'))
  private readonly image = join(this.folder, 'part.nvdimm')
  private readonly identity: readonly string[]
  private runtime: Runtime | null = null

  constructor({ bytes, durable = true, identity }: BoardOptions) {
    writeFileSync(this.image, new Uint8Array(bytes))
    const { key, peers } = identity ? identityFiles(this.folder, identity) : { key: '', peers: '' }
    this.identity = identity ? ['--key', key, '--peers', peers] : []
    if (durable) return
    // A part whose save at the last power cut failed: nothing may be promised of it.
    const condition = { dirtyShutdowns: 0, saveFailed: true, poisonedLines: [] }
    writeFileSync(`${this.image}.condition`, JSON.stringify(condition))
  }

  async start(): Promise<void> {
    const args = [
      COMMAND,
      'emulate',
      this.image,
      '--udp',
      '127.0.0.1:0',
      '--json',
      ...this.identity,
    ]
    this.runtime = new Runtime('perdure emulate', process.execPath, args, this.folder)
    const first = JSON.parse(await this.runtime.line()) as Announced
    this.target = first.address
    this.bundleHash = first.bundle
  }

  suspend(): void {
    this.runtime?.process.kill('SIGSTOP')
  }

  async kill(): Promise<void> {
    await this.runtime?.end('SIGKILL')
  }

  async stop(): Promise<number | null> {
    return (await this.runtime?.end('SIGTERM')) ?? null
  }

  async powerCut(): Promise<void> {
    const { runtime } = this
    runtime!.process.kill('SIGUSR2')
    // It says what was lost, and then that it serves again.
    await runtime!.line()
    await runtime!.line()
  }

  command(): Promise<never> {
    return notOf(EMULATOR, 'console')
  }

  readImage(): Uint8Array {
    return readFileSync(this.image)
  }

  writeImage(bytes: Uint8Array): void {
    writeFileSync(this.image, bytes)
  }

  story(): string {
    return `${this.target} ${this.runtime?.story ?? 'never started'}`
  }

  async close(): Promise<void> {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
