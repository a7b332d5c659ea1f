/**
 * `perdured` with a bundle, a key and a configuration of the test's own, in a folder of its own.
 */

import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Runtime } from '../board/runtime.ts'
import { PATIENCE_MS } from '../run/patience.ts'
import { ROOT } from '../source/sources.ts'

const ARCHITECTURE = process.arch === 'x64' ? 'x86-64' : process.arch
const BUNDLE = join(ROOT, 'dist/firmware.js')
/** `PERDURED` names another build of it, as one with sanitizers. */
export const PERDURED: string =
  process.env.PERDURED ?? join(ROOT, 'dist/linux', ARCHITECTURE, 'perdured')

/** Why there is none to test; null if there is. */
export const noService: string | null = existsSync(PERDURED)
  ? null
  : 'perdured is not built: node build.mjs --board linux --install'

/** A key with several values stands on as many lines. */
export type Keys = Readonly<Record<string, string | readonly string[]>>

type Answer = Readonly<Record<string, unknown>>

interface End {
  readonly code: number | null
  readonly said: string
}

export class ServiceFolder {
  readonly path: string = mkdtempSync(join(tmpdir(), 'perdure-service-'))
  readonly key: KeyObject
  readonly runtimes: Runtime[] = []
  private readonly program: string
  private readonly environment: Readonly<Record<string, string>>

  /** `program` is a build of it, `environment` what that finds beside ours. */
  constructor(
    source: string = readFileSync(BUNDLE, 'utf8'),
    program: string = PERDURED,
    environment: Readonly<Record<string, string>> = {},
  ) {
    this.program = program
    this.environment = environment
    const { privateKey, publicKey } = generateKeyPairSync('ed25519')
    this.key = privateKey
    this.write('trust.pem', publicKey.export({ type: 'spki', format: 'pem' }).toString())
    this.putBundle(source)
  }

  at(name: string): string {
    return join(this.path, name)
  }

  write(name: string, content: string | Uint8Array): void {
    writeFileSync(this.at(name), content)
  }

  /** The bundle, signed. */
  putBundle(source: string): void {
    this.write('firmware.js', source)
    this.write('firmware.js.sig', sign(null, Buffer.from(source), this.key))
  }

  /** Writes a configuration that works, except for what is named; '' leaves a key out. */
  configure(keys: Keys = {}): string {
    const all: Keys = {
      ...{ firmware: this.at('firmware.js'), trust: this.at('trust.pem') },
      ...{ memory: this.at('part'), 'memory-bytes': '16M', 'memory-create': 'yes' },
      ...{ development: 'yes', link: 'udp:127.0.0.1:0', console: `unix:${this.at('console')}` },
      ...keys,
    }
    const said = Object.entries(all).flatMap(([key, value]) => {
      return [value].flat().flatMap((one) => (one === '' ? [] : [`${key} = ${one}\n`]))
    })
    this.write('conf', said.join(''))
    return this.at('conf')
  }

  /** Starts it. */
  run(...args: string[]): Runtime {
    const { program, environment } = this
    const runtime = new Runtime('perdured', program, args, this.path, undefined, environment)
    this.runtimes.push(runtime)
    return runtime
  }

  /** Starts it with that configuration, and waits until it says where it serves. */
  async serve(keys: Keys = {}): Promise<{ readonly runtime: Runtime; readonly address: string }> {
    const runtime = this.run('--config', this.configure(keys))
    return { runtime, address: await runtime.line() }
  }

  /** Likewise, over so many links. */
  async serveOver(...link: string[]): Promise<{ runtime: Runtime; addresses: string[] }> {
    const { runtime, address } = await this.serve({ link })
    const addresses = [address]
    while (addresses.length < link.length) addresses.push(await runtime.line())
    return { runtime, addresses }
  }

  /** How it ends by itself: exit code, and what it said. */
  async ends(keys: Keys = {}, ...args: string[]): Promise<End> {
    const runtime = this.run('--config', this.configure(keys), ...args)
    const code = await runtime.over()
    return { code, said: runtime.story }
  }

  /** One line to the console and the answer. Rejects where the console sends it away. */
  async ask(line: string): Promise<Answer> {
    const socket = connect(this.at('console'))
    try {
      socket.setTimeout(PATIENCE_MS, () => socket.destroy(new Error('the console is silent')))
      socket.write(`${line}\n`)
      const lines = createInterface({ input: socket })
      const gone = once(socket, 'close').then(() => Promise.reject(new Error('sent away')))
      const [answer] = (await Promise.race([once(lines, 'line'), gone])) as [string]
      return JSON.parse(answer) as Answer
    } finally {
      socket.destroy()
    }
  }

  async close(): Promise<void> {
    for (const runtime of this.runtimes) if (runtime.isRunning) await runtime.end('SIGKILL')
    rmSync(this.path, { recursive: true, force: true })
  }
}
