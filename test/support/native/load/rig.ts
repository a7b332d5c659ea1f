/**
 * perdured, the C program of the same duty and a plain echo, side by side, with a load for each.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { BenchPrograms } from '../../../../boards/linux/bench/compile.ts'
import { guardOf } from '../../../../boards/software/guard.ts'
import { Trouble } from '../../../../boards/tools/debian/programs.ts'
import { ADMIN } from '../../sessions/peers.ts'
import {
  dataOf,
  type PersistOptions,
  persistFrames,
  type TestPeer,
  type TestRegion,
} from '../../wire/conversation.ts'
import { Caller } from './caller.ts'

/** Slots of the region that records go to. */
export const SLOTS = 1024
const CLIENT_QP = 0x101
const CLIENT_ID = 7

export interface LoadResult {
  readonly records: number
  /** Those that were sent again. */
  readonly again: number
  readonly answers: number
  readonly seconds: number
  readonly minNs: number
  readonly medianNs: number
  readonly p90Ns: number
  /** CPU time of the server per record, ns. */
  readonly cpuNs: number
}

/** How load.c sends: see there. */
type Way = 'persist' | 'tagged' | 'besieged' | 'echo'

export interface LoadWish {
  readonly way: Way
  readonly records: number
  /** Records that leave at once, and that may wait for their acknowledgement. */
  readonly burst: number
  readonly window: number
}

/** Where a client is with its queue pair: the next record is the first one of a load. */
export interface Stream {
  /** UDP port that the card knows it at. */
  readonly from: number
  readonly clientQp: number
  readonly psn: number
  readonly operation: number
  /** What the load reads: its frame, behind the keys where there are some. */
  readonly input: Uint8Array
}

/** One load on that server. Throws a Trouble with what it said. */
export async function runLoad(
  program: string,
  running: Running,
  { from, clientQp, psn, operation, input }: Stream,
  { way, records, burst, window }: LoadWish,
): Promise<LoadResult> {
  const numbers = [from, running.port, records, burst, window, psn, operation, SLOTS, clientQp]
  const child = spawn(program, [way, ...numbers.map(String)])
  const parts: Buffer[] = []
  let said = ''
  child.stdout.on('data', (bytes: Buffer) => parts.push(bytes))
  child.stderr.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  const before = running.cpuNs()
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  const cpuNs = (running.cpuNs() - before) / records
  if (code !== 0) throw new Trouble(`${way}, burst ${burst}, ${input.length} bytes: ${said}`)
  return { ...(JSON.parse(Buffer.concat(parts).toString()) as LoadResult), cpuNs }
}

/** One server and the folder of its files; `close` ends it. */
export class Running {
  readonly child: ChildProcess
  readonly port: number
  /** Rejects with what it said when it has ended, however; who waits for it races with this. */
  readonly ended: Promise<never>
  private readonly callers: Caller[] = []
  private readonly others: ChildProcess[] = []

  constructor(child: ChildProcess, port: number, ended: Promise<never>) {
    this.child = child
    this.port = port
    this.ended = ended
  }

  /** CPU time so far, ns: what the kernel counts for its only thread. */
  cpuNs(): number {
    return Number(readFileSync(`/proc/${this.child.pid}/schedstat`, 'utf8').split(' ')[0])
  }

  /** Who calls it as an admin, until it ends. */
  caller(): Caller {
    const caller = new Caller(this.port, ADMIN)
    this.callers.push(caller)
    return caller
  }

  /** A program that ends with it, if it has not ended before. */
  add(other: ChildProcess): void {
    this.others.push(other)
  }

  async close(): Promise<void> {
    for (const caller of this.callers.splice(0)) caller.close()
    for (const other of this.others.splice(0)) other.kill('SIGKILL')
    const closed = once(this.child, 'close')
    this.child.kill('SIGTERM')
    await closed
  }
}

/** Starts a program; its first line ends with the port that it listens on. */
async function start(program: string, args: readonly string[], env = {}): Promise<Running> {
  const child = spawn(program, args, { env: { ...process.env, ...env } })
  let said = ''
  child.stderr.on('data', (bytes: Buffer) => {
    said += bytes.toString()
  })
  const lines = createInterface(child.stdout)
  const first = once(lines, 'line') as Promise<[string]>
  const ended = once(child, 'close').then(([code, signal]): never => {
    throw new Trouble(`${program} ended (${signal ?? code}): ${said}`)
  })
  ended.catch(() => {})
  const [line] = await Promise.race([first, ended])
  return new Running(child, Number(line.split(':').at(-1)), ended)
}

/** What perdured's console says. */
export async function ask(path: string, command: string): Promise<Record<string, unknown>> {
  const socket = connect(path)
  await once(socket, 'connect')
  socket.write(`${command}\n`)
  const [line] = (await once(createInterface(socket), 'line')) as [string]
  socket.destroy()
  return JSON.parse(line) as Record<string, unknown>
}

/** What perdured counts, of what its console tells. */
export interface Counts {
  readonly bursts: number
  readonly frames: number
  readonly idleCalls: number
  readonly machine: { readonly runs: number; readonly fences: number; readonly commands: number }
}

const partBytes = (bytes: number): number =>
  Math.ceil((SLOTS * 2 * (128 + bytes)) / 4096) * 4096 + (1 << 20)

/** A build of perdured, and the bundle that it runs. */
export interface Build {
  readonly perdured: string
  readonly firmware: string
  /** PEM file of the key that the bundle is signed with. */
  readonly trust: string
}

export function buildOf(perdured: string, trust: string): Build {
  return { perdured, trust, firmware: join(trust, '../../firmware.js') }
}

/** perdured with a region for records of that size, and a client that is connected to it. */
export interface Served {
  readonly running: Running
  readonly region: TestRegion
  readonly qp: TestPeer
  /** UDP port that the card knows this client at. */
  readonly from: number
  /** A WRITE_PERSIST Only of that client, from which a load makes all others. */
  readonly frame: Uint8Array
  /** The same, with the guard of its data (S1-M1). */
  readonly guarded: Uint8Array
}

/**
 * Starts it on a new part in that folder, which has room for records of that size; `more` are lines
 * of its configuration.
 */
export async function startBlank(
  { perdured, firmware, trust }: Build,
  folder: string,
  bytes: number,
  more: readonly string[],
  env = {},
): Promise<Running> {
  const config = join(folder, 'perdured.conf')
  const part = join(folder, 'part')
  rmSync(part, { force: true })
  const lines = [
    `firmware = ${firmware}`,
    `trust = ${trust}`,
    `memory = ${part}`,
    `memory-bytes = ${partBytes(bytes)}`,
    'memory-create = yes',
    'development = yes',
    'link = udp:127.0.0.1:0',
    ...more,
    '',
  ]
  writeFileSync(config, lines.join('\n'))
  return start(perdured, ['--config', config], env)
}

/** A WRITE_PERSIST Only of that queue pair; its first PSN stays the load's. */
export function recordOf(
  qp: TestPeer,
  region: TestRegion,
  bytes: number,
  options: PersistOptions = {},
): Uint8Array {
  return persistFrames({ ...qp }, region, 0, dataOf(bytes, 1), options)[0]!
}

/** Starts it likewise, open, and makes the region and the client. */
export async function startPerdured(
  build: Build,
  folder: string,
  bytes: number,
  more: readonly string[],
  env = {},
): Promise<Served> {
  const running = await startBlank(build, folder, bytes, more, env)
  try {
    const caller = running.caller()
    await caller.provision(SLOTS, bytes)
    const pair = { client: CLIENT_ID, clientQp: CLIENT_QP, hasTags: false }
    const { qp } = await caller.connect(pair)
    const region = await caller.open()
    const frame = recordOf(qp, region, bytes)
    const guarded = recordOf(qp, region, bytes, { guard: guardOf(dataOf(bytes, 1)) })
    return { running, region, qp, from: caller.from, frame, guarded }
  } catch (error) {
    await running.close()
    throw error
  }
}

/** Starts the C program of the same duty, for the client of `served`. */
export async function startDuty(
  duty: string,
  folder: string,
  bytes: number,
  { region, qp }: Served,
): Promise<Running> {
  const part = join(folder, 'duty-part')
  rmSync(part, { force: true })
  const key = Buffer.from(region.key).toString('hex')
  const numbers = [region.rkey, key, qp.number, CLIENT_QP, qp.psn, SLOTS, bytes]
  return start(duty, ['udp:127.0.0.1:0', part, ...numbers.map(String)])
}

/** The three servers of one case, and one client that they all take for theirs. */
export class Rig {
  private readonly programs: BenchPrograms
  private readonly folder: string
  readonly bytes: number
  readonly servers: { readonly running: Running; psn: number; operation: number }[] = []
  private served: Served | null = null

  constructor(programs: BenchPrograms, folder: string, bytes: number) {
    this.programs = programs
    this.folder = folder
    this.bytes = bytes
  }

  get console(): string {
    return join(this.folder, 'console')
  }

  /** Starts that build of perdured; the others, too, unless it is to run alone. */
  async start(perdured: string, isAlone: boolean, env = {}): Promise<void> {
    const { folder, bytes, programs } = this
    const build = buildOf(perdured, programs.signed.trust)
    const console = `console = unix:${this.console}`
    const served = await startPerdured(build, folder, bytes, [console], env)
    const { running, qp } = served
    this.add(running, qp)
    this.served = served
    if (isAlone) return
    this.add(await startDuty(programs.duty, folder, bytes, served), qp)
    this.add(await start(programs.echo, []), qp)
  }

  private add(running: Running, { psn }: { psn: number }): void {
    this.servers.push({ running, psn, operation: 1 })
  }

  /** UDP port of perdured. */
  get port(): number {
    return this.servers[0]!.running.port
  }

  /** One round of load on server `i`: 0 perdured, 1 the C program, 2 the echo. */
  async load(i: number, records: number, burst: number, window: number): Promise<LoadResult> {
    const server = this.servers[i]!
    const { frame, from } = this.served!
    const stream = { ...server, from, clientQp: CLIENT_QP, input: frame }
    const wish = { way: i === 2 ? 'echo' : 'persist', records, burst, window } as const
    const result = await runLoad(this.programs.load, server.running, stream, wish)
    server.psn = (server.psn + records) & 0xffffff
    server.operation += records
    return result
  }

  async close(): Promise<void> {
    for (const { running } of this.servers) await running.close()
  }
}
