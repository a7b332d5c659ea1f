/**
 * The host's end of a port in a file (boards/port/port-file.ts): HostPort, with the card
 * in another process.
 *
 * Invariants:
 * - A host that opens the file finds memory of zeros, which no card writes on behalf of the host
 *   before it: the card has let go of that one, or is dead.
 * - What is stored is in the file when the call returns, in the order of the calls, and a doorbell
 *   is behind it.
 * - A card that ends, is killed, restarts or begins a new session is noticed within a second, told
 *   by `onInterrupt`, and has registers of 0; until then what is written to it may be lost.
 * - The port keeps the process alive until it is closed.
 */

import { performance } from 'node:perf_hooks'
import { RealClock, type Timer } from '../../boards/clock.ts'
import type { HostPort, SharedMemory } from '../../boards/host-port.ts'
import * as form from '../../boards/port/port-file.ts'
import { checkReadable, checkWritable, NO_CARD } from '../../boards/port/registers.ts'
import {
  DOORBELL_BYTES,
  PORT_AT,
  PORT_CONSUMED,
  PORT_DROPPED,
  PORT_EPOCH,
  PORT_HEADER,
  PORT_LINK,
} from '../../firmware/board/hal.ts'
import { DOORBELLS } from '../../firmware/board/limits.ts'
import { HEADER_PAGE_BYTES } from '../../firmware/board/memory-map.ts'
import { FileMemory } from './file-memory.ts'

/** Memory of a port that has to be made, unless it is said. */
const BYTES = 64 * 2 ** 20

/** A card that lives lets go of the host before within this time, ms. */
const LETS_GO_MS = 15_000

interface FilePortOptions {
  readonly path: string
  /** Of memory, if the file has to be made; 64 MiB unless given. */
  readonly bytes?: number
}

/** Opens or makes the file, as its host. Throws PortFileError. */
export async function openFilePort(options: FilePortOptions): Promise<FilePort> {
  const file = new form.PortFile(options.path, 'host', options.bytes ?? BYTES)
  try {
    file.put(form.HOST_LIFE, 0)
    await letGo(file)
    file.clearRegisters()
    file.clearMemory()
    return new FilePort(file)
  } catch (error) {
    file.close()
    throw error
  }
}

/** Waits until no card serves the host that was there before. */
async function letGo(file: form.PortFile): Promise<void> {
  const card = new form.Peer()
  const from = performance.now()
  for (let ms = 0; ms < LETS_GO_MS; ms = performance.now() - from) {
    file.look()
    const pid = file.seen(form.CARD_PROCESS)
    const alive = card.look(file.seen(form.CARD_LIFE), pid, file.seen(form.CARD_BEAT), from + ms)
    if (!alive || file.seen(form.CARD_SERVES) === 0) return
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  const message = `${file.path}: the card does not let go of the host that was there before`
  throw new form.PortFileError('PORT_FILE_CARD', message)
}

export class FilePort implements HostPort {
  private readonly file: form.PortFile
  private readonly ram: FileMemory
  private readonly clock = new RealClock()
  private readonly card = new form.Peer()
  private readonly beat: form.Beat
  private readonly life = form.newLife()
  private callback: (() => void) | null = null
  private timer: Timer | null = null
  private closed = false
  private activeUs = 0
  private present = false
  private session = 0
  private interrupts = 0
  private header = 0
  private produced: number
  private dropped: number

  /** Use `openFilePort`. */
  constructor(file: form.PortFile) {
    this.file = file
    this.ram = new FileMemory(file)
    this.beat = new form.Beat(file, form.HOST_BEAT)
    this.produced = file.get(form.HOST_PRODUCED)
    this.dropped = file.get(form.HOST_DROPPED)
    this.interrupts = file.get(form.CARD_INTERRUPTS)
    file.put(form.HOST_PROCESS, process.pid)
    file.put(form.HOST_LIFE, this.life)
    // Not at once: whoever opened the port asks for interrupts first.
    this.timer = this.clock.schedule(0, () => this.look())
  }

  get memory(): SharedMemory {
    return this.ram
  }

  /** Looks at what the card has done, and says when to look again. */
  private look(): void {
    this.timer = null
    if (this.closed) return
    const { clock } = this
    if (this.seeCard()) {
      this.activeUs = clock.nowUs
      this.callback?.()
    }
    if (this.closed) return
    const again = clock.nowUs + form.lookAgainUs(clock.nowUs - this.activeUs)
    this.timer = clock.schedule(again, () => this.look())
  }

  /** Whether the card has come, gone, or sent an interrupt. */
  private seeCard(): boolean {
    const { file } = this
    const nowMs = performance.now()
    this.beat.keep(nowMs)
    file.look()
    const life = file.seen(form.CARD_LIFE)
    const pid = file.seen(form.CARD_PROCESS)
    const alive = this.card.look(life, pid, file.seen(form.CARD_BEAT), nowMs)
    const present = alive && file.seen(form.CARD_SERVES) === this.life
    const session = file.seen(form.CARD_SESSION)
    const interrupts = file.seen(form.CARD_INTERRUPTS)
    const isNew = present !== this.present || (present && session !== this.session)
    if (isNew) {
      this.ram.guard.release()
      this.header = 0
    }
    const seen = isNew || interrupts !== this.interrupts
    this.present = present
    this.session = session
    this.interrupts = interrupts
    return seen
  }

  /** The host is at work: the card's answer is looked for at once. */
  private expectAnswer(): void {
    this.activeUs = this.clock.nowUs
    if (this.timer === null || this.timer.atUs <= this.activeUs) return
    this.clock.cancel(this.timer)
    this.timer = this.clock.schedule(this.activeUs, () => this.look())
  }

  writeRegister(at: number, value: number): void {
    checkWritable(at)
    if (!this.present) return
    this.watchEpoch(at, value)
    this.file.put(form.REGISTERS + at, value)
    this.expectAnswer()
  }

  writeRegisterPair(at: number, low: number, high: number): void {
    checkWritable(at)
    checkWritable(at + 4)
    if (at % 8 !== 0) throw new RangeError(`a pair of registers does not begin at ${at}`)
    if (!this.present) return
    this.watchEpoch(at + 4, high)
    this.watchEpoch(at, low)
    this.file.putPair(form.REGISTERS + at, low, high)
    this.expectAnswer()
  }

  /** The moment at which the host hands over what is the card's. */
  private watchEpoch(at: number, value: number): void {
    if (at === PORT_HEADER - PORT_AT) this.header = (value >>> 0) * HEADER_PAGE_BYTES
    if (at !== PORT_EPOCH - PORT_AT) return
    if (value === 0) this.ram.guard.release()
    else this.ram.guard.protect(this.header)
  }

  ringDoorbell(low: number, high: number): void {
    if (!this.present) return
    const { file, produced } = this
    if ((produced - file.get(form.CARD_CONSUMED)) >>> 0 >= DOORBELLS) {
      this.dropped = (this.dropped + 1) >>> 0
      file.put(form.HOST_DROPPED, this.dropped)
    } else {
      file.putPair(form.RING + (produced % DOORBELLS) * DOORBELL_BYTES, low, high)
      this.produced = (produced + 1) >>> 0
      file.put(form.HOST_PRODUCED, this.produced)
    }
    this.expectAnswer()
  }

  readRegister(at: number): number {
    checkReadable(at)
    this.seeCardNow()
    if (!this.present) return NO_CARD
    const register = PORT_AT + at
    if (register === PORT_LINK) return 1
    if (register === PORT_CONSUMED) return this.file.get(form.CARD_CONSUMED)
    if (register === PORT_DROPPED) return this.file.get(form.HOST_DROPPED)
    return this.file.get(form.REGISTERS + at)
  }

  /** What is noticed here is told as if it had been noticed later. */
  private seeCardNow(): void {
    if (this.closed || !this.seeCard()) return
    this.clock.schedule(this.clock.nowUs, () => this.callback?.())
    this.expectAnswer()
  }

  onInterrupt(callback: () => void): void {
    this.callback = callback
  }

  now(): number {
    return this.clock.nowUs
  }

  setTimer(atUs: number, callback: () => void): () => void {
    const timer = this.clock.schedule(atUs, callback)
    return () => this.clock.cancel(timer)
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.present = false
    this.callback = null
    this.clock.close()
    this.file.put(form.HOST_LIFE, 0)
    this.file.close()
  }
}
