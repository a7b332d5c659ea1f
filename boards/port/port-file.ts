/**
 * A file that a host and a card share, each in a process of its own: the port's words in its first
 * page, the host's memory behind it.
 *
 *      0 magic "PDPF"   4 version   8 bytes of memory
 *     64 card   life  | process | beat | serves | session | interrupts | consumed | dropped
 *    128 host   life  | process | beat
 *    192 host   epoch | header | register | pointer | produced | dropped
 *    256 host   the ring of doorbells
 *   4096 the memory
 *
 * Little-endian words of 32 bits. A life is a number that the process chose, or 0 when it has none;
 * the card serves the host whose life stands in `serves`; a session begins with registers of 0.
 *
 * Invariants:
 * - Every word has one writer, except for the registers, which the card sets to 0 when a session
 *   begins. All is read and written by plain calls, one behind the other: the element, the write
 *   pointer, the entry of the ring, its count. Who reads the count first and the entry then finds
 *   it whole.
 * - Two words that belong together are written by one call of eight bytes. Nothing promises that
 *   the other process sees them together; what may be torn is seen to be, or does no harm: elements
 *   and completions by their stamps, pointers as they are compared with what was known, a doorbell
 *   as it only says where to look (fault H1).
 * - A process that ends takes its life away; one that was killed is noticed by its beat, which
 *   stops, and by its number, which is gone.
 */

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  fstatSync,
  ftruncateSync,
  linkSync,
  openSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs'
import { LINE_BYTES } from '../../firmware/board/limits.ts'
import { lockSide } from '../image-lock.ts'

const MAGIC = 0x46504450
const VERSION = 1

export const CARD_LIFE = 64
export const CARD_PROCESS = 68
export const CARD_BEAT = 72
export const CARD_SERVES = 76
export const CARD_SESSION = 80
export const CARD_INTERRUPTS = 84
export const CARD_CONSUMED = 88
export const HOST_LIFE = 128
export const HOST_PROCESS = 132
export const HOST_BEAT = 136
/** The registers that the host writes, as they lie behind PORT_AT. */
export const REGISTERS = 192
const REGISTERS_BYTES = 16
export const HOST_PRODUCED = 208
export const HOST_DROPPED = 212
export const RING = 256
/** What is looked at in one call: everything in front of the ring. */
const WORDS_BYTES = 256
const MEMORY = 4096

/** From one beat to the next, ms. */
const BEAT_MS = 100
/** A process that has not beaten for so long is dead if its number is gone. */
const QUIET_MS = 300
/** And in any case after this: it hangs, or runs where we cannot see it. */
const SILENT_MS = 10_000

/** What to do about a file that is none of ours. */
const NAME_ANOTHER = 'name another file, or none that is there'

export type PortFileCode =
  | 'PORT_FILE' // the file cannot be opened or made, or is not one of ours
  | 'PORT_FILE_IN_USE' // another process is that side of the port
  | 'PORT_FILE_CARD' // the card does not let go of the host before

export class PortFileError extends Error {
  override readonly name = 'PortFileError'
  readonly code: PortFileCode

  constructor(code: PortFileCode, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** A new life: not 0. */
export function newLife(): number {
  return (randomBytes(4).readUInt32LE() || 1) >>> 0
}

/** How long to wait until the next look, µs, when nothing has happened for so long. */
export function lookAgainUs(quietUs: number): number {
  if (quietUs < 2000) return 0
  return quietUs < 1_000_000 ? 1000 : 10_000
}

export class PortFile {
  readonly path: string
  /** Of the memory. */
  readonly bytes: number
  /** The words as they were read last. */
  readonly words: Uint32Array = new Uint32Array(WORDS_BYTES / 4)

  private readonly descriptor: number
  private readonly made: boolean
  private readonly unlock: () => void
  private readonly one: DataView = new DataView(new ArrayBuffer(8))

  /** Opens the file for that side, or makes it, with so many bytes of memory. */
  constructor(path: string, side: 'card' | 'host', bytes: number) {
    this.path = path
    const { descriptor, made } = openOrMake(path, bytes)
    this.descriptor = descriptor
    this.made = made
    let unlock = (): void => {}
    try {
      this.bytes = this.checkForm()
      const taken = lockSide(path, side)
      if (typeof taken === 'number') {
        const holder = taken === 0 ? 'another process' : `process ${taken}`
        const message = `${path}: ${holder} is the ${side} there: stop that one first`
        throw new PortFileError('PORT_FILE_IN_USE', message)
      }
      unlock = taken
    } catch (error) {
      closeSync(this.descriptor)
      throw error
    }
    this.unlock = unlock
  }

  private checkForm(): number {
    const [magic, version, bytes] = [0, 4, 8].map((at) => this.get(at)) as [number, number, number]
    const isOurs = magic === MAGIC && version === VERSION
    if (isOurs && isMemory(bytes) && fstatSync(this.descriptor).size >= MEMORY) return bytes
    throw new PortFileError(
      'PORT_FILE',
      `${this.path} is no port of ours, version ${VERSION}: ${NAME_ANOTHER}`,
    )
  }

  /** Reads everything in front of the ring; `at` counts from the start of the file. */
  look(): void {
    readSync(this.descriptor, this.words, 0, WORDS_BYTES, 0)
  }

  /** A word of the last look. */
  seen(at: number): number {
    return this.words[at >> 2]!
  }

  get(at: number): number {
    this.one.setUint32(0, 0)
    readSync(this.descriptor, this.one, 0, 4, at)
    return this.one.getUint32(0, true)
  }

  put(at: number, value: number): void {
    this.one.setUint32(0, value >>> 0, true)
    writeSync(this.descriptor, this.one, 0, 4, at)
  }

  putPair(at: number, low: number, high: number): void {
    this.one.setUint32(0, low >>> 0, true)
    this.one.setUint32(4, high >>> 0, true)
    writeSync(this.descriptor, this.one, 0, 8, at)
  }

  /** What the host wrote into the registers is forgotten. */
  clearRegisters(): void {
    writeSync(this.descriptor, new Uint8Array(REGISTERS_BYTES), 0, REGISTERS_BYTES, REGISTERS)
  }

  /**
   * Reads the memory at `at` into the bytes from `start` on; behind the end of the file there are
   * zeros.
   */
  readMemory(at: number, length: number, into: Uint8Array, start: number): void {
    const read = readSync(this.descriptor, into, start, length, MEMORY + at)
    if (read < length) into.fill(0, start + read, start + length)
  }

  /** Writes the bytes from `start` on into the memory at `at`. */
  writeMemory(at: number, length: number, from: Uint8Array, start: number): void {
    for (let done = 0; done < length; ) {
      done += writeSync(this.descriptor, from, start + done, length - done, MEMORY + at + done)
    }
  }

  /** All of the memory is 0. */
  clearMemory(): void {
    ftruncateSync(this.descriptor, MEMORY)
    ftruncateSync(this.descriptor, MEMORY + this.bytes)
  }

  /** Ends its use; `takeBack` removes the file if this side has made it. */
  close(takeBack = false): void {
    if (takeBack && this.made) rmSync(this.path, { force: true })
    this.unlock()
    closeSync(this.descriptor)
  }
}

function isMemory(bytes: number): boolean {
  return bytes >= LINE_BYTES && bytes < 2 ** 31 && bytes % LINE_BYTES === 0
}

/** Whoever comes first makes the file: aside, and then whole in its place. */
function openOrMake(path: string, bytes: number): { descriptor: number; made: boolean } {
  try {
    return { descriptor: openSync(path, 'r+'), made: false }
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw cannotOpen(path, error)
  }
  if (!isMemory(bytes)) {
    const message = `${path}: memory of ${bytes} bytes: whole lines, less than 2^31`
    throw new PortFileError('PORT_FILE', message)
  }
  const aside = `${path}.${process.pid}`
  let made = false
  try {
    const descriptor = openSync(aside, 'wx+')
    writeSync(descriptor, Uint32Array.of(MAGIC, VERSION, bytes), 0, 12, 0)
    ftruncateSync(descriptor, MEMORY + bytes)
    closeSync(descriptor)
    linkSync(aside, path)
    made = true
  } catch (error) {
    // The other side was quicker.
    if (!hasCode(error, 'EEXIST')) throw cannotOpen(path, error)
  } finally {
    rmSync(aside, { force: true })
  }
  return { descriptor: openSync(path, 'r+'), made }
}

function cannotOpen(path: string, cause: unknown): PortFileError {
  const reason = cause instanceof Error ? cause.message : String(cause)
  return new PortFileError('PORT_FILE', `${path} cannot be opened: ${reason}`, cause)
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** The other process, as far as its words show it. */
export class Peer {
  alive = false
  private life = 0
  private beat = -1
  private beatMs = 0

  /** Takes in what it shows now; returns whether it lives. */
  look(life: number, pid: number, beat: number, nowMs: number): boolean {
    if (life !== this.life || beat !== this.beat) {
      // A life that is seen for the first time may be what a killed process has left.
      this.alive = life !== 0 && (this.life === life || isThere(pid))
      this.life = life
      this.beat = beat
      this.beatMs = nowMs
      return this.alive
    }
    const quietMs = nowMs - this.beatMs
    if (quietMs > SILENT_MS || (quietMs > QUIET_MS && !isThere(pid))) this.alive = false
    return this.alive
  }
}

function isThere(pid: number): boolean {
  if (pid === 0 || pid > 2 ** 31 - 1) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return hasCode(error, 'EPERM')
  }
}

/** Our own beat, so that the other process sees that we live. */
export class Beat {
  private readonly file: PortFile
  private readonly at: number
  private count = 0
  private dueMs = 0

  constructor(file: PortFile, at: number) {
    this.file = file
    this.at = at
  }

  keep(nowMs: number): void {
    if (nowMs < this.dueMs) return
    this.dueMs = nowMs + BEAT_MS
    this.count = (this.count + 1) >>> 0
    this.file.put(this.at, this.count)
  }
}
