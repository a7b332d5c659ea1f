/**
 * The card's end of a port in a file (../port/port-file.ts): what the power supply of an emulated
 * card wants of a port, with the host in another process.
 *
 * Invariants:
 * - There is a link while the card is on and a host lives. When either begins or ends a session
 *   begins, with registers of 0; doorbells of the session before are taken by nobody.
 * - Doorbells move from the file into the ring of packet memory as there is room, in their order;
 *   what finds no room in the file is counted by the host.
 * - No host makes this throw: a write of the card into what is the host's own is dropped and
 *   counted.
 */

import {
  DOORBELL_BYTES,
  PORT_AT,
  PORT_DROPPED,
  PORT_EPOCH,
  PORT_HEADER,
  PORT_LINK,
} from '../../../firmware/board/hal.ts'
import { DOORBELLS } from '../../../firmware/board/limits.ts'
import { HEADER_PAGE_BYTES } from '../../../firmware/board/memory-map.ts'
import { HEADER_INTERRUPTS } from '../../../firmware/host/header-page.ts'
import type { Clock, Timer } from '../../clock.ts'
import { BOOLEAN, COUNT, type Kinds, TEXT } from '../../kinds.ts'
import * as form from '../../port/port-file.ts'
import { WRITABLE } from '../../port/registers.ts'
import { CLOCK, check, checkFields } from '../base/arguments.ts'
import { type CardPort, PortWords } from './card-port.ts'
import { HostRam } from './host-ram.ts'

export interface FilePortEndOptions {
  readonly path: string
  /** Of memory, if the file has to be made. */
  readonly bytes: number
  readonly clock: Clock
}

/** The host's memory in that file: `live` is what was read of it, or written to it, last. */
class FileRam extends HostRam {
  /** Whether there is a host: without one no access of the card comes to anything. */
  attached = false
  private readonly file: form.PortFile

  constructor(file: form.PortFile) {
    super(file.bytes)
    this.file = file
  }

  protected override fetch(at: number, length: number): void {
    this.file.readMemory(at, length, this.live, at)
  }

  protected override publish(at: number, length: number): void {
    this.file.writeMemory(at, length, this.live, at)
  }

  override dmaWrite(at: number, source: Uint8Array, from: number, length: number): void {
    if (this.attached) super.dmaWrite(at, source, from, length)
    else this.link.counts.writesLost++
  }

  override dmaRead(at: number, length: number): boolean {
    if (this.attached) return super.dmaRead(at, length)
    this.link.counts.readsFailed++
    return false
  }

  /** The host is another process: its power is not ours to cut. */
  override powerCut(): void {
    this.guard.release()
  }
}

const CARD_KINDS: Kinds<FilePortEndOptions> = { path: TEXT, bytes: COUNT, clock: CLOCK }

export class FilePortEnd implements CardPort {
  readonly memory: FileRam
  /** Writes of the card into what is the host's own. */
  violations = 0

  private readonly file: form.PortFile
  private readonly clock: Clock
  private readonly beat: form.Beat
  private readonly host = new form.Peer()
  private readonly unwatch: () => void
  private words: PortWords | null = null
  private wakeCard: (() => void) | null = null
  private timer: Timer | null = null
  private activeUs = 0
  private serves = 0
  private session = 0
  private interrupts = 0
  private consumed = 0
  private dropped = 0

  constructor(options: FilePortEndOptions) {
    checkFields('a card in a file', options, CARD_KINDS, ['path', 'bytes', 'clock'])
    const { path, bytes, clock } = options
    this.file = new form.PortFile(path, 'card', bytes)
    this.clock = clock
    this.beat = new form.Beat(this.file, form.CARD_BEAT)
    this.memory = new FileRam(this.file)
    this.memory.onWrite = (at, length) => this.seeWrite(at, length)
    this.memory.onViolation = () => this.violations++
    this.unwatch = this.memory.link.watch(() => this.linkChanged())
    this.session = this.file.get(form.CARD_SESSION)
    this.file.put(form.CARD_LIFE, 0)
  }

  cardStarts(packets: Uint8Array): void {
    this.words = new PortWords(packets)
    this.begin()
  }

  cardServes(wake: () => void): void {
    this.wakeCard = wake
    this.file.put(form.CARD_PROCESS, process.pid)
    this.file.put(form.CARD_LIFE, form.newLife())
    this.activeUs = this.clock.nowUs
    this.look()
    wake()
  }

  cardStops(): void {
    if (this.words === null) return
    this.words = null
    this.wakeCard = null
    this.serves = 0
    this.begin()
    this.file.put(form.CARD_LIFE, 0)
    if (this.timer !== null) this.clock.cancel(this.timer)
    this.timer = null
  }

  hostStops(): void {}

  /** A session begins: nobody has written a register, and nobody has rung. */
  private begin(): void {
    const { file } = this
    const up = this.serves !== 0 && this.memory.link.up
    this.memory.attached = this.serves !== 0
    this.memory.guard.release()
    file.clearRegisters()
    this.consumed = file.get(form.HOST_PRODUCED)
    file.put(form.CARD_CONSUMED, this.consumed)
    this.dropped = file.get(form.HOST_DROPPED)
    this.session = (this.session + 1) >>> 0
    file.put(form.CARD_SESSION, this.session)
    file.put(form.CARD_SERVES, up ? this.serves : 0)
    this.words?.reset()
    this.words?.put(PORT_LINK, up ? 1 : 0)
  }

  private linkChanged(): void {
    if (this.words === null) return
    this.begin()
    this.wakeCard?.()
  }

  /** Looks at what the host has done, and says when to look again. */
  private look(): void {
    this.timer = null
    const { file, clock } = this
    const nowMs = performance.now()
    this.beat.keep(nowMs)
    file.look()
    if (this.seeHost(nowMs) || this.takeRegisters() || this.takeDoorbells()) {
      this.activeUs = clock.nowUs
      this.wakeCard?.()
    }
    const again = clock.nowUs + form.lookAgainUs(clock.nowUs - this.activeUs)
    this.timer = clock.schedule(again, () => this.look())
  }

  /** Whether a host has come or gone. */
  private seeHost(nowMs: number): boolean {
    const { file } = this
    const life = file.seen(form.HOST_LIFE)
    const pid = file.seen(form.HOST_PROCESS)
    const alive = this.host.look(life, pid, file.seen(form.HOST_BEAT), nowMs)
    const serves = alive ? life : 0
    if (serves === this.serves) return false
    // From one host to the next by way of none, so that the firmware sees that it is another one.
    this.serves = this.serves === 0 ? serves : 0
    this.begin()
    return true
  }

  /** Whether a register has changed; the epoch last, as it says that the others are there. */
  private takeRegisters(): boolean {
    const { words, file } = this
    if (words === null || this.serves === 0 || !this.memory.link.up) return false
    let changed = false
    for (let i = WRITABLE.length - 1; i >= 0; i--) {
      const at = WRITABLE[i]!
      const value = file.seen(form.REGISTERS + at)
      if (words.get(PORT_AT + at) === value) continue
      words.put(PORT_AT + at, value)
      changed = true
      if (PORT_AT + at !== PORT_EPOCH) continue
      if (value === 0) this.memory.guard.release()
      else this.memory.guard.protect(words.get(PORT_HEADER) * HEADER_PAGE_BYTES)
    }
    return changed
  }

  private takeDoorbells(): boolean {
    const { words, file } = this
    if (words === null || this.serves === 0 || !this.memory.link.up) return false
    const dropped = file.seen(form.HOST_DROPPED)
    const fresh = (dropped - this.dropped) >>> 0
    this.dropped = dropped
    // A count that no host can have reached says only that there is something.
    const waiting = (file.seen(form.HOST_PRODUCED) - this.consumed) >>> 0
    if (waiting === 0 && fresh === 0) return false
    if (waiting > DOORBELLS) this.consumed = (this.consumed + waiting - DOORBELLS) >>> 0
    let count = Math.min(waiting, DOORBELLS)
    for (; count > 0 && !words.full; count--) {
      const at = form.RING + (this.consumed % DOORBELLS) * DOORBELL_BYTES
      words.append(file.get(at), file.get(at + 4), undefined)
      this.consumed = (this.consumed + 1) >>> 0
    }
    const lost = fresh + Math.max(0, waiting - DOORBELLS)
    words.put(PORT_DROPPED, words.get(PORT_DROPPED) + lost)
    file.put(form.CARD_CONSUMED, this.consumed)
    return true
  }

  private seeWrite(at: number, length: number): void {
    const { header } = this.memory.guard
    const word = header + HEADER_INTERRUPTS
    if (header < 0 || at >= word + 4 || word >= at + length) return
    this.interrupts = (this.interrupts + 1) >>> 0
    this.file.put(form.CARD_INTERRUPTS, this.interrupts)
  }

  /** The card's process ends; `takeBack` removes the file if this card has made it. */
  close(takeBack = false): void {
    check('takeBack', takeBack, BOOLEAN)
    this.cardStops()
    this.unwatch()
    this.file.close(takeBack)
  }
}
