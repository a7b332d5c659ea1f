/**
 * `perdure-boot` with its slots, a key, and a `perdured` that it runs, in a folder of its own. It
 * is started again when it ends, as a service manager does.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { type Version, writeImage } from '../../../boards/flash/mcuboot.ts'
import { type PartKind, writePayload } from '../../../boards/flash/payload.ts'
import { FORMAT_VERSION, PIECES_VERSION } from '../../../firmware/medium/superblock.ts'
import { halOf } from '../../../host-driver/command/flash/image.ts'
import { PATIENCE_MS } from '../run/patience.ts'
import { ROOT } from '../source/sources.ts'
import { noService, PERDURED } from './service.ts'

const PERDURE_BOOT: string = process.env.PERDURE_BOOT ?? join(dirname(PERDURED), 'perdure-boot')

/** Why there is none to test; null if there is. */
export const noBoot: string | null =
  noService ?? (existsSync(PERDURE_BOOT) ? null : 'perdure-boot is not built: see perdured')

const BOARD: string = `linux-${process.arch === 'x64' ? 'x86-64' : process.arch}`
export const BUNDLE: string = readFileSync(join(ROOT, 'dist/firmware.js'), 'utf8')
const AGAIN_MS = 100

interface BootOptions {
  /** The program, and what it runs; those that the build made unless given. */
  readonly program?: string
  readonly runtime?: string
  /** More lines of boot.conf. */
  readonly boot?: string
  /** More lines of perdured.conf. */
  readonly perdured?: string
}

/** The first child of a process; undefined: it has none. */
function childOf(pid: number): number | undefined {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
    return children === '' ? undefined : Number(children.split(' ')[0])
  } catch {
    return undefined
  }
}

/** One that is gone is sent nothing. */
function signalTo(pid: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

export class BootFolder {
  readonly path: string = mkdtempSync(join(tmpdir(), 'pb-'))
  readonly key: KeyObject
  program: string
  /** Where SMP is asked. */
  readonly socket: string = this.at('smp')
  /** Where SMP is asked by UDP, as it says. */
  readonly ways: string[] = []
  /** Words in front of the program, at its next start alone. */
  under: readonly string[] = []
  private isUnder = false
  /** How often it has ended. */
  ends = 0
  private child: ChildProcess | null = null
  private isOver = false
  private said = ''
  private addresses: string[] = []
  private wake: () => void = () => {}

  constructor(options: BootOptions = {}) {
    const { program = PERDURE_BOOT, runtime = PERDURED, boot = '', perdured = '' } = options
    this.program = program
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    this.key = privateKey
    const write = (name: string, content: string | Uint8Array): void => {
      writeFileSync(this.at(name), content)
    }
    write('trust.pem', publicKey.export({ type: 'spki', format: 'pem' }).toString())
    write('firmware.js', BUNDLE)
    write('firmware.js.sig', sign(null, Buffer.from(BUNDLE), privateKey))
    write(
      'boot.conf',
      `board = ${BOARD}
trust = ${this.at('trust.pem')}
slots = ${this.at('slots')}
smp = unix:${this.socket}
runtime = ${runtime}
configuration = ${this.at('perdured.conf')}
console = unix:${this.at('console')}
${boot}`,
    )
    write(
      'perdured.conf',
      `firmware = ${this.at('firmware.js')}
trust = ${this.at('trust.pem')}
memory = ${this.at('part')}
memory-bytes = 16M
memory-create = yes
development = yes
shadow = yes
console = unix:${this.at('console')}
${perdured}`,
    )
  }

  at(name: string): string {
    return join(this.path, name)
  }

  /** An image of that bundle, signed; with the runtime where it is given. */
  imageOf(bundle: string, version: Version, runtime?: Uint8Array): Uint8Array {
    const bytes = new Uint8Array(Buffer.from(bundle))
    const parts: [PartKind, Uint8Array][] = [
      ['bundle', bytes],
      ['signature', new Uint8Array(sign(null, bytes, this.key))],
    ]
    if (runtime !== undefined) parts.push(['runtime', runtime])
    const formats = [FORMAT_VERSION, PIECES_VERSION] as const
    const purpose = { counter: 0, targets: [BOARD], formats, hal: halOf() }
    return writeImage(writePayload(purpose, parts), version, this.key)
  }

  /** Starts it, and again and again; the driver's address when what it runs serves first. */
  async start(): Promise<string> {
    this.run()
    const timer = globalThis.setTimeout(() => this.wake(), PATIENCE_MS)
    const until = Date.now() + PATIENCE_MS
    try {
      while (this.addresses.length === 0) {
        if (Date.now() > until) throw new Error(`perdure-boot does not serve: ${this.said}`)
        await new Promise<void>((resolve) => {
          this.wake = resolve
        })
      }
    } finally {
      globalThis.clearTimeout(timer)
    }
    return this.addresses[0]!
  }

  /** Starts it, and waits for nothing that it runs. */
  async startAlone(): Promise<void> {
    this.run()
    await this.back()
  }

  private run(): void {
    const args = ['--config', this.at('boot.conf'), '--notify', this.at('notify')]
    const [program, ...words] = [...this.under, this.program, ...args]
    this.isUnder = this.under.length > 0
    this.under = []
    const child = spawn(program!, words, { stdio: ['ignore', 'pipe', 'pipe'] })
    this.child = child
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.said = (this.said + text).slice(-20_000)
    })
    createInterface(child.stdout).on('line', (line) => {
      if (line.startsWith('perdure://')) this.addresses.push(line)
      if (line.startsWith('smp:udp:')) this.ways.push(line)
      this.wake()
    })
    child.once('exit', async () => {
      if (this.child === child) this.child = null
      this.ends++
      await setTimeout(AGAIN_MS)
      if (!this.isOver) this.run()
    })
  }

  /** What runs from now on is reached where it is now. */
  keepPort(address: string): void {
    const path = this.at('perdured.conf')
    const place = address.replace('perdure://', 'udp:')
    writeFileSync(path, readFileSync(path, 'utf8').replace(/^link = .*$/m, `link = ${place}`))
  }

  /** Whether it has said that. */
  hasBeen(text: string): boolean {
    return this.said.includes(text)
  }

  /** What it said, and what it runs. */
  get story(): string {
    return this.said
  }

  /** Its process; undefined while there is none. */
  private get pid(): number | undefined {
    const pid = this.child?.pid
    return this.isUnder && pid !== undefined ? childOf(pid) : pid
  }

  /** Ends it by a signal; it comes back. */
  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    signalTo(this.pid, signal)
  }

  /** Ends it in order; resolves when it is back, under those words. */
  async restart(under: readonly string[]): Promise<void> {
    const { ends } = this
    this.under = under
    this.kill('SIGTERM')
    while (this.ends === ends) await setTimeout(5)
    await this.back()
  }

  /** What it runs: the number of its process; undefined while nothing does. */
  get runs(): number | undefined {
    return this.pid === undefined ? undefined : childOf(this.pid)
  }

  /** Ends what it runs, at once. */
  killWhatRuns(): void {
    signalTo(this.runs, 'SIGKILL')
  }

  /** Resolves when it answers. */
  async back(): Promise<void> {
    for (const until = Date.now() + PATIENCE_MS; Date.now() < until; await setTimeout(20)) {
      const socket = connect(this.socket)
      socket.write('boot\n')
      socket.on('error', () => {})
      const answers = await new Promise<boolean>((resolve) => {
        socket.once('data', () => resolve(true))
        socket.once('close', () => resolve(false))
      })
      socket.destroy()
      if (answers) return
    }
    throw new Error(`perdure-boot does not come back: ${this.said}`)
  }

  async close(): Promise<void> {
    this.isOver = true
    const { child } = this
    if (child !== null) {
      const gone = once(child, 'exit')
      this.kill('SIGTERM')
      await gone
    }
    rmSync(this.path, { recursive: true, force: true })
  }
}
