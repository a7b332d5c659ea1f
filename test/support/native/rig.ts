/**
 * perdured, the C program of the same duty and a plain echo, side by side, with a load for each.
 */

import { type ChildProcess, spawn } from 'node:child_process'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { BenchPrograms } from '../../../boards/linux/bench/compile.ts'
import { guardOf } from '../../../boards/software/guard.ts'
import { Trouble } from '../../../boards/tools/debian/programs.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import {
  callOf,
  dataOf,
  type PersistOptions,
  persistFrames,
  regionOf,
  sentOf,
  type TestPeer,
  type TestRegion,
} from '../wire/conversation.ts'
import { frameOf } from '../wire/frames.ts'

/** Slots of the region that records go to. */
export const SLOTS = 1024
const CLIENT_QP = 0x101
const CLIENT_ID = 7

export interface LoadResult {
  readonly records: number
  readonly answers: number
  readonly seconds: number
  readonly minNs: number
  readonly medianNs: number
  readonly p90Ns: number
  /** CPU time of the server per record, ns. */
  readonly cpuNs: number
}

/** One server and the folder of its files; `close` ends it. */
export class Running {
  readonly child: ChildProcess
  readonly port: number

  constructor(child: ChildProcess, port: number) {
    this.child = child
    this.port = port
  }

  /** CPU time so far, ns: what the kernel counts for its only thread. */
  cpuNs(): number {
    return Number(readFileSync(`/proc/${this.child.pid}/schedstat`, 'utf8').split(' ')[0])
  }

  async close(): Promise<void> {
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
  const ended = once(child, 'close').then(() => {
    throw new Trouble(`${program} ended: ${said}`)
  })
  ended.catch(() => {})
  const [line] = await Promise.race([first, ended])
  return new Running(child, Number(line.split(':').at(-1)))
}

/** Control calls over UDP, one after the other. */
class Caller {
  private readonly socket: Socket
  private readonly port: number
  private transaction = 0

  constructor(socket: Socket, port: number) {
    this.socket = socket
    this.port = port
  }

  /** Asked again while it is under way: a region is made in slices. */
  async call(method: number, attribute: number, fill: (body: Uint8Array) => void = () => {}) {
    for (;;) {
      const { fault, body } = await this.ask(method, attribute, fill)
      if (fault === 'PASS') return body
      if (fault !== 'UNDER_WAY') throw new Trouble(`control call ${attribute}: ${fault}`)
    }
  }

  private async ask(method: number, attribute: number, fill: (body: Uint8Array) => void) {
    const payload = callOf(++this.transaction, method, attribute, fill, 0)
    const bth = { opcode: UD_SEND_ONLY, destQp: 1 }
    const frame = frameOf({ bth, deth: { qkey: Q_KEY_GSI, sourceQp: 1 }, payload })
    const answered = once(this.socket, 'message') as Promise<[Buffer]>
    this.socket.send(frame, this.port, '127.0.0.1')
    const [answer] = await answered
    const header = mad.blankMad()
    const { payload: body } = sentOf(answer)
    mad.readMad(header, body, 0)
    return { fault: FAULTS[header.fault]!.name, body: body.slice(mad.MAD_BODY) }
  }
}

/** Makes a region for records of that size, and connects to it. */
async function provision(
  port: number,
  bytes: number,
): Promise<{ region: TestRegion; qp: TestPeer }> {
  const socket = createSocket('udp4')
  try {
    return await provisionOver(new Caller(socket, port), bytes)
  } finally {
    socket.close()
  }
}

async function provisionOver(
  caller: Caller,
  bytes: number,
): Promise<{ region: TestRegion; qp: TestPeer }> {
  await caller.call(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
  const region = regionOf(
    await caller.call(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, (body) => {
      body.set(new TextEncoder().encode('records'), mad.REGION_NAME)
      putU32(body, mad.REGION_SLOTS, SLOTS)
      putU32(body, mad.REGION_CAPACITY, bytes)
      body[mad.REGION_COPIES] = 2
      body[mad.REGION_KIND] = mad.KIND_RECORDS
    }),
  )
  const body = await caller.call(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
    putU32(request, mad.CONNECT_CLIENT_QP, CLIENT_QP)
    putU16(request, mad.CONNECT_PATH_MTU, 4096)
    putU32(request, mad.CONNECT_CLIENT_ID_LOW, CLIENT_ID)
  })
  const qp = {
    number: u32(body, mad.CONNECT_QP),
    peer: CLIENT_QP,
    mtu: u16(body, mad.CONNECT_GRANTED_MTU),
    psn: u32(body, mad.CONNECT_FIRST_PSN),
    operation: 0,
  }
  return { region, qp }
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
  /** A WRITE_PERSIST Only of that client, from which a load makes all others. */
  readonly frame: Uint8Array
  /** The same, with the guard of its data (S1-M1). */
  readonly guarded: Uint8Array
}

/** Starts it on a new part in that folder; `more` are lines of its configuration. */
export async function startPerdured(
  { perdured, firmware, trust }: Build,
  folder: string,
  bytes: number,
  more: readonly string[],
  env = {},
): Promise<Served> {
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
  const running = await start(perdured, ['--config', config], env)
  try {
    const { region, qp } = await provision(running.port, bytes)
    const data = dataOf(bytes, 1)
    // Of a copy, so that the first PSN is the load's.
    const recordOf = (options: PersistOptions): Uint8Array =>
      persistFrames({ ...qp }, region, 0, data, options)[0]!
    const guarded = recordOf({ guard: guardOf(data) })
    return { running, region, qp, frame: recordOf({}), guarded }
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
  private frame: Uint8Array = new Uint8Array(0)

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
    const { running, qp, frame } = served
    this.add(running, qp)
    this.frame = frame
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
    const { psn, operation, running } = server
    const numbers = [running.port, records, burst, window, psn, operation, SLOTS, CLIENT_QP]
    const child = spawn(this.programs.load, [i === 2 ? 'echo' : 'persist', ...numbers.map(String)])
    const parts: Buffer[] = []
    let said = ''
    child.stdout.on('data', (bytes: Buffer) => parts.push(bytes))
    child.stderr.on('data', (bytes: Buffer) => {
      said += bytes.toString()
    })
    const before = running.cpuNs()
    child.stdin.end(this.frame)
    const [code] = (await once(child, 'close')) as [number | null]
    const cpuNs = (running.cpuNs() - before) / records
    if (code !== 0) throw new Trouble(`server ${i}, ${this.bytes} bytes, burst ${burst}: ${said}`)
    server.psn = (psn + records) & 0xffffff
    server.operation += records
    return { ...(JSON.parse(Buffer.concat(parts).toString()) as LoadResult), cpuNs }
  }

  async close(): Promise<void> {
    for (const { running } of this.servers) await running.close()
  }
}
