/**
 * A system for the supervisor of `perdure-boot` that is all in memory: a clock that is moved by
 * hand, programs that end when they are told to, sockets at which nobody is.
 */

import { createHash, createPublicKey, verify } from 'node:crypto'
import { brotliDecompressSync } from 'node:zlib'
import type { Storage } from '../../../boards/flash/storage.ts'
import type { Came, Host, Spawn } from '../../../boards/linux/boot/script/host.ts'
import { readSettings, type Settings } from '../../../boards/linux/boot/script/settings.ts'
import { Supervisor } from '../../../boards/linux/boot/script/supervisor.ts'
import { HAL, keyOf } from './slot-model.ts'

/** A program that was started. */
interface Started extends Spawn {
  readonly pid: number
  /** Of the files of memory that it inherits, or that it is. */
  readonly files: readonly Uint8Array[]
  /** Those that are to end it. */
  readonly signals: string[]
  /** How often it was told that it is confirmed. */
  confirmed: number
}

const KEYS: Readonly<Record<string, string>> = {
  '/trust': createPublicKey(keyOf(0x11)).export({ type: 'spki', format: 'pem' }).toString(),
  '/other': createPublicKey(keyOf(0x22)).export({ type: 'spki', format: 'pem' }).toString(),
}

const NOTHING: Came = { readable: [], writable: [], ended: [], stops: false }

class BootHost implements Host {
  readonly args: readonly string[] = []
  readonly architecture = 'x86-64'
  readonly watchdogMs = 5000
  readonly started: Started[] = []
  readonly told: string[] = []
  readonly logged: string[] = []
  readonly printed: string[] = []
  now = 1000
  exited: number | null = null
  /** Why the next start of a program fails; null: it does not. */
  refuses: string | null = null
  /** What its console answers. */
  console: string | null = null
  private readonly notices: [peer: string, text: string][] = []
  private readonly files = new Map<number, Uint8Array>()
  private next = 10

  nowMs(): number {
    return this.now
  }
  log(_level: string, text: string): void {
    this.logged.push(text)
  }
  print(text: string): void {
    this.printed.push(text)
  }
  readFile(path: string): ArrayBuffer {
    const text = KEYS[path]
    if (text === undefined) throw new Error(`${path} cannot be read: No such file or directory`)
    return Uint8Array.from(Buffer.from(text)).buffer
  }
  openStorage(): number {
    throw new Error('the storage is given')
  }
  lock(): number {
    return 9
  }
  readAt(): ArrayBuffer {
    throw new Error('the storage is given')
  }
  writeAt(): void {}
  sync(): void {}
  sha256(bytes: Uint8Array): ArrayBuffer {
    return Uint8Array.from(createHash('sha256').update(bytes).digest()).buffer
  }
  verify(key: Uint8Array, message: Uint8Array, signature: Uint8Array): boolean {
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key])
    const open = createPublicKey({ key: der, format: 'der', type: 'spki' })
    return verify(null, message, open, signature)
  }
  brotli(bytes: Uint8Array, most: number): ArrayBuffer {
    return Uint8Array.from(brotliDecompressSync(bytes, { maxOutputLength: most })).buffer
  }
  memoryFile(_name: string, bytes: Uint8Array): number {
    this.files.set(++this.next, Uint8Array.from(bytes))
    return this.next
  }
  listenUnix(): number {
    return ++this.next
  }
  listenUdp(): number {
    return ++this.next
  }
  portOf(): number {
    return 1337
  }
  openTty(path: string): number {
    throw new Error(`${path} cannot be opened: No such file or directory`)
  }
  listenNotify(): number {
    return ++this.next
  }
  accept(): number {
    return -1
  }
  read(): null {
    return null
  }
  write(_descriptor: number, bytes: Uint8Array): number {
    return bytes.length
  }
  receiveFrom(): { bytes: ArrayBuffer; peer: string } | null {
    const notice = this.notices.shift()
    if (notice === undefined) return null
    const [peer, text] = notice
    return { bytes: Uint8Array.from(Buffer.from(text)).buffer, peer }
  }
  sendTo(): void {}
  close(descriptor: number): void {
    this.files.delete(descriptor)
  }
  spawn(what: Spawn): number {
    if (this.refuses !== null) {
      const message = this.refuses
      this.refuses = null
      throw new Error(message)
    }
    const own = /^\/proc\/self\/fd\/(\d+)$/.exec(what.program)
    const descriptors = [...what.inherits, ...(own === null ? [] : [Number(own[1])])]
    const files = descriptors.flatMap((descriptor) => this.files.get(descriptor) ?? [])
    const pid = 100 + this.started.length
    this.started.push({ ...what, pid, files, signals: [], confirmed: 0 })
    return pid
  }
  kill(pid: number, signal: string): void {
    const started = this.started.find((one) => one.pid === pid)!
    if (signal === 'URG') started.confirmed += 1
    else started.signals.push(signal)
  }
  ask(): string | null {
    return this.console
  }
  notify(state: string): void {
    this.told.push(state)
  }
  exit(code: number): void {
    this.exited ??= code
  }

  /** What a child says: the last one, unless it is another. */
  says(text: string, pid: number = this.started.at(-1)!.pid): void {
    this.notices.push([String(pid), text])
  }

  /** Whether files of memory are open: none stays so. */
  get openFiles(): number {
    return this.files.size
  }
}

const SETTINGS: Settings = readSettings(`board = emulator
trust = /trust
trust = /other
smp = udp:127.0.0.1:0
`)

/** What a child says of its part when it is ready. */
interface Facts {
  readonly state?: string
  readonly fault?: string
  readonly format?: number
  readonly lost?: number
  readonly armed?: number
}

/** A supervisor on that storage, and what happens to it. */
export class BootRig {
  readonly host: BootHost = new BootHost()
  readonly boot: Supervisor

  constructor(storage: Storage, settings: Settings = SETTINGS) {
    this.boot = new Supervisor({
      ...{ host: this.host, settings, hal: HAL, notifyPath: '/notify', storage },
    })
    this.turn()
  }

  turn(more: Partial<Came> = {}): void {
    const readable = this.boot.watch().readable
    this.boot.turn({ ...NOTHING, readable, ...more })
  }

  /** Goes on to that moment, turn by turn as the supervisor wants them. */
  pass(ms: number): void {
    const end = this.host.now + ms
    for (;;) {
      const { untilMs } = this.boot.watch()
      if (untilMs > end) break
      this.host.now = Math.max(untilMs, this.host.now + 1)
      this.turn()
    }
    this.host.now = end
  }

  /** What was started last. */
  get last(): Started {
    return this.host.started.at(-1)!
  }

  /** It says that it is ready. */
  ready({ state = 'serving', fault = '', format = 3, lost = 0, armed = 1 }: Facts = {}): void {
    const part = `PERDURE_STATE=${state}\nPERDURE_FORMAT=${format}\nPERDURE_LOST=${lost}`
    const more = fault === '' ? '' : `\nPERDURE_FAULT=${fault}`
    this.host.says(`READY=1\nPERDURE_ARMED=${armed}\n${part}${more}`)
    this.turn()
  }

  /** It ends: an exit code, or minus a signal. */
  ends(status: number): void {
    this.turn({ ended: [{ pid: this.last.pid, status }] })
  }
}
