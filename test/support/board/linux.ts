/**
 * The native runtime as a board: `perdured` on a plain file, over UDP; in shadow mode unless told
 * otherwise, so that a SIGKILL loses every store that was not written back, as a power cut would.
 */

import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { PATIENCE_MS } from '../run/patience.ts'
import {
  type BoardKind,
  type BoardOptions,
  type BoardUnderTest,
  identityFiles,
  notOf,
} from './board.ts'
import { signedBundle } from './bundle.ts'
import { type Flavour, OWN_ARCHITECTURE, perduredMissing, perduredPath } from './perdured.ts'
import { Runtime } from './runtime.ts'

const NATIVE = {
  hasConsole: true,
  cutsPower: false,
  canBeVolatile: true,
  isQuick: true,
} as const

export const LINUX: BoardKind = {
  ...NATIVE,
  name: 'linux',
  title: `the native runtime (perdured, ${OWN_ARCHITECTURE})`,
  dropsFlush: true,
  killsInShort: 25,
  missing: (options) =>
    perduredMissing(OWN_ARCHITECTURE, options?.dropFlush === true ? 'drop-flush' : ''),
  make: (options) => new LinuxBoard(LINUX, options.dropFlush === true ? 'drop-flush' : '', options),
}

/** The same, built so that it stops at every access that C does not allow. */
export const LINUX_SANITIZE: BoardKind = {
  ...NATIVE,
  name: 'linux-sanitize',
  title: `the native runtime (perdured, ${OWN_ARCHITECTURE}) with sanitizers`,
  dropsFlush: false,
  killsInShort: 3,
  missing: (options) =>
    options?.dropFlush === true
      ? 'it has no build without write-backs'
      : perduredMissing(OWN_ARCHITECTURE, 'sanitize'),
  make: (options) => new LinuxBoard(LINUX_SANITIZE, 'sanitize', options),
}

/** How AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer begin. */
const SANITIZER = /Sanitizer|runtime error:/

interface Announced {
  readonly address: string
  readonly bundle: string
}

class LinuxBoard implements BoardUnderTest {
  readonly kind: BoardKind
  target = ''
  bundleHash = ''
  private readonly folder = mkdtempSync(join(tmpdir(), 'perdure-board-'))
  private readonly image = join(this.folder, 'part.nvdimm')
  private readonly config = join(this.folder, 'perdured.conf')
  private readonly socket = join(this.folder, 'console')
  private readonly program: string
  private runtime: Runtime | null = null

  constructor(
    kind: BoardKind,
    flavour: Flavour,
    { bytes, durable = true, shadow = true, identity }: BoardOptions,
  ) {
    this.kind = kind
    this.program = perduredPath(OWN_ARCHITECTURE, flavour)
    writeFileSync(this.image, new Uint8Array(bytes))
    const { firmware, signature, trust } = signedBundle(this.folder)
    const keys = {
      ...{ firmware, signature, trust },
      ...{ memory: this.image, development: durable ? 'yes' : 'no', shadow: shadow ? 'yes' : 'no' },
      ...{ link: 'udp:127.0.0.1:0', console: `unix:${this.socket}` },
      ...(identity && identityFiles(this.folder, identity)),
    }
    const lines = Object.entries(keys).map(([key, value]) => `${key} = ${value}\n`)
    writeFileSync(this.config, lines.join(''))
  }

  async start(): Promise<void> {
    const args = ['--config', this.config, '--json']
    this.runtime = new Runtime('perdured', this.program, args, this.folder)
    const first = JSON.parse(await this.runtime.line()) as Announced
    this.target = first.address
    this.bundleHash = first.bundle
  }

  suspend(): void {
    this.runtime?.process.kill('SIGSTOP')
  }

  async kill(): Promise<void> {
    await this.end('SIGKILL')
  }

  async stop(): Promise<number | null> {
    return await this.end('SIGTERM')
  }

  private async end(signal: NodeJS.Signals): Promise<number | null> {
    const { runtime } = this
    if (runtime === null) return null
    const code = await runtime.end(signal)
    if (SANITIZER.test(runtime.story)) throw new Error(runtime.story)
    return code
  }

  powerCut(): Promise<never> {
    return notOf(this.kind, 'switch for its power: in shadow mode a kill is a cut')
  }

  async command(line: string): Promise<Readonly<Record<string, unknown>>> {
    const socket = connect(this.socket)
    try {
      socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error('the console is silent')))
      socket.write(`${line}\n`)
      const [answer] = (await once(createInterface({ input: socket }), 'line')) as [string]
      return JSON.parse(answer) as Record<string, unknown>
    } finally {
      socket.destroy()
    }
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
    try {
      await this.kill()
    } finally {
      rmSync(this.folder, { recursive: true, force: true })
    }
  }
}
