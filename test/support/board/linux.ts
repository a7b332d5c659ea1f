/**
 * The native runtime as a board: `perdured` on a plain file, over UDP; in shadow mode unless told
 * otherwise, so that a SIGKILL loses every store that was not written back, as a power cut would.
 */

import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { filesBelow, ROOT } from '../sources.ts'
import { type BoardKind, type BoardOptions, type BoardUnderTest, notOf } from './board.ts'
import { signedBundle } from './bundle.ts'
import { Runtime } from './runtime.ts'

/** Longest start and longest answer, ms: the machine may be busy. */
const WAIT_MS = 60_000

const ARCHITECTURE = process.arch === 'x64' ? 'x86-64' : process.arch

function programOf(dropFlush: boolean): string {
  const flavour = dropFlush ? `${ARCHITECTURE}-drop-flush` : ARCHITECTURE
  return join(ROOT, 'dist/linux', flavour, 'perdured')
}

/** What the program knows of the firmware, compiled in (boards/linux/hal-header.ts). */
const SHARED = ['hal', 'limits', 'memory-map'].map((name) => `firmware/${name}.ts`)

/** Why there is no program that could run, and the command that makes one; null if there is. */
function missing(dropFlush: boolean): string | null {
  const program = programOf(dropFlush)
  const how = `node build.mjs --board linux --install${dropFlush ? ' --drop-flush' : ''}`
  if (process.platform !== 'linux') return 'this is not Linux'
  if (!existsSync(program)) return `perdured is not built: ${how}`
  const builtMs = statSync(program).mtimeMs
  const sources = [...filesBelow('boards/linux/src'), ...SHARED]
  const newer = sources.find((path) => statSync(join(ROOT, path)).mtimeMs > builtMs)
  return newer === undefined ? null : `perdured is older than ${newer}: ${how}`
}

export const LINUX: BoardKind = {
  name: 'linux',
  title: `the native runtime (perdured, ${ARCHITECTURE})`,
  hasConsole: true,
  cutsPower: false,
  canBeVolatile: true,
  dropsFlush: true,
  isQuick: true,
  killsInShort: 25,
  missing: (options) => missing(options?.dropFlush === true),
  make: (options) => new LinuxBoard(options),
}

interface Announced {
  readonly address: string
  readonly bundle: string
}

class LinuxBoard implements BoardUnderTest {
  readonly kind = LINUX
  target = ''
  bundleHash = ''
  private readonly folder = mkdtempSync(join(tmpdir(), 'perdure-board-'))
  private readonly image = join(this.folder, 'part.nvdimm')
  private readonly config = join(this.folder, 'perdured.conf')
  private readonly socket = join(this.folder, 'console')
  private readonly program: string
  private runtime: Runtime | null = null

  constructor({ bytes, durable = true, shadow = true, dropFlush = false }: BoardOptions) {
    this.program = programOf(dropFlush)
    writeFileSync(this.image, new Uint8Array(bytes))
    const keys = {
      ...signedBundle(this.folder),
      ...{ memory: this.image, development: durable ? 'yes' : 'no', shadow: shadow ? 'yes' : 'no' },
      ...{ link: 'udp:127.0.0.1:0', console: `unix:${this.socket}` },
    }
    const lines = Object.entries(keys).map(([key, value]) => `${key} = ${value}\n`)
    writeFileSync(this.config, lines.join(''))
  }

  async start(): Promise<void> {
    const args = ['--config', this.config, '--json']
    this.runtime = new Runtime('perdured', this.program, args, this.folder)
    const first = JSON.parse(await this.runtime.line(WAIT_MS)) as Announced
    this.target = first.address
    this.bundleHash = first.bundle
  }

  async kill(): Promise<void> {
    await this.runtime?.end('SIGKILL')
  }

  async stop(): Promise<number | null> {
    return (await this.runtime?.end('SIGTERM')) ?? null
  }

  powerCut(): Promise<never> {
    return notOf(LINUX, 'switch for its power: in shadow mode a kill is a cut')
  }

  async command(line: string): Promise<Readonly<Record<string, unknown>>> {
    const socket = connect(this.socket)
    try {
      socket.setTimeout(WAIT_MS, () => socket.destroy(new Error('the console is silent')))
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
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }
}
