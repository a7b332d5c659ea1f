/**
 * The host's end of the port of an emulated card: HostPort, in one process and one time.
 *
 *   driver ── register writes, doorbells ──▶ pcie.ts (DOORBELL_NS) ──▶ PORT_AT in packet memory
 *   driver ◀── interrupt (CPU_WAKE_NS) ── the card's write of HEADER_INTERRUPTS, as it arrives
 *
 * Invariants:
 * - Register writes arrive in the order in which they were made, behind everything that the host
 *   stored before, unless a test disturbs them (fault H1); a read of a register pushes them.
 * - A register write belongs to the card that is on when it is made: without a card, or without a
 *   link, it is lost, and so is what had not arrived when either went.
 * - What the host may not write is refused here and never reaches packet memory.
 * - When the host writes its epoch, the zones of the header page it named are guarded from then on
 *   (zone-guard.ts); 0 takes that back, and so does the end of the card or of the link.
 * - A card that was started, and a link that came back, has registers of 0.
 */

import { PORT_AT, PORT_EPOCH, PORT_HEADER, PORT_LINK } from '../../../firmware/board/hal.ts'
import { HEADER_PAGE_BYTES } from '../../../firmware/board/memory-map.ts'
import { HEADER_INTERRUPTS } from '../../../firmware/host/header-page.ts'
import type { Clock, Timer } from '../../clock.ts'
import type { HostPort } from '../../host-port.ts'
import { FUNCTION, type Kinds } from '../../kinds.ts'
import { checkReadable, checkWritable, NO_CARD } from '../../port/registers.ts'
import { CLOCK, check, checkFields, RAM } from '../base/arguments.ts'
import { MachineClock } from '../base/clock.ts'
import type { Random } from '../base/random.ts'
import type { CutChoice } from '../medium/power-cut.ts'
import { type CardPort, PortWords } from './card-port.ts'
import type { HostRam } from './host-ram.ts'
import { CPU_WAKE_NS, DOORBELL_NS } from './pcie.ts'

/** One write of the host, on its way. */
export interface RegisterWrite {
  /** Its number since the port was made, from 0. */
  readonly number: number
  readonly form: 'register' | 'pair' | 'ring'
  /** The first register, from PORT_AT; 0 for the ring. */
  readonly at: number
  readonly low: number
  readonly high: number
}

/** What becomes of it (fault H1). What is not named goes as it should. */
export interface RegisterFate {
  readonly lost?: boolean
  /** It arrives so many times; 1 unless given. */
  readonly times?: number
  /** Later by so much, so that others may overtake it: more than PCIe allows. */
  readonly delayNs?: number
  /** Only this half of its 64 bits arrives. */
  readonly torn?: 'low' | 'high'
}

/** Faults of doorbells by chance, each a probability per write of the ring or of a pair. */
export interface DoorbellChances {
  readonly random: Random
  readonly lost?: number
  readonly twice?: number
  readonly torn?: number
  readonly late?: number
}

/** Longer than anything honest takes on its way, nanoseconds. */
const LATE_NS_MAX = 50_000

export interface PortOptions {
  readonly ram: HostRam
  readonly clock: Clock
}

const PORT_KINDS: Kinds<PortOptions> = { ram: RAM, clock: CLOCK }

interface OnItsWay {
  readonly write: RegisterWrite
  readonly torn: 'low' | 'high' | undefined
  timer: Timer | null
}

export class EmulatedPort implements HostPort, CardPort {
  readonly memory: HostRam
  /** What the host's programs wait by: with its power, all that they wait for ends. */
  readonly hostClock: MachineClock
  /** Decides about each register write; undefined leaves it to chance. */
  script: ((write: RegisterWrite) => RegisterFate | undefined) | null = null
  chances: DoorbellChances | null = null
  /** Register writes that reached nobody. */
  lost = 0

  private readonly clock: Clock
  private readonly unwatch: () => void
  private words: PortWords | null = null
  /** How often the link was up since the port was made. */
  private ups = 1
  private wakeCard: (() => void) | null = null
  private onItsWay: OnItsWay[] = []
  private header = 0
  private number = 0
  private interrupt: (() => void) | null = null
  private waking: Timer | null = null

  constructor(options: PortOptions) {
    checkFields('a port', options, PORT_KINDS, ['ram', 'clock'])
    const { ram, clock } = options
    this.memory = ram
    this.clock = clock
    this.hostClock = new MachineClock(clock)
    ram.link.useClock(clock)
    ram.onWrite = (at, length) => this.seeWrite(at, length)
    this.unwatch = ram.link.watch(() => this.linkChanged())
  }

  private get link(): HostRam['link'] {
    return this.memory.link
  }

  cardStarts(packets: Uint8Array): void {
    this.forget()
    this.words = new PortWords(packets)
    this.tellLink()
  }

  cardServes(wake: () => void): void {
    this.wakeCard = wake
    wake()
    this.interruptHost()
  }

  cardStops(): void {
    if (this.words === null) return
    this.forget()
    this.words = null
    this.wakeCard = null
    this.interruptHost()
  }

  /** What is on its way reaches nobody, and no zone is anybody's. */
  private forget(): void {
    for (const { timer } of this.onItsWay) if (timer !== null) this.clock.cancel(timer)
    this.lost += this.onItsWay.length
    this.onItsWay = []
    this.memory.guard.release()
    this.header = 0
  }

  private tellLink(): void {
    this.words?.put(PORT_LINK, this.link.up ? this.ups : 0)
  }

  private linkChanged(): void {
    this.forget()
    if (this.link.up) this.ups++
    // The function is reset with its link.
    this.words?.reset()
    this.tellLink()
    this.wakeCard?.()
    this.interruptHost()
  }

  writeRegister(at: number, value: number): void {
    checkWritable(at)
    this.watchEpoch(at, value)
    this.send('register', at, value, 0)
  }

  writeRegisterPair(at: number, low: number, high: number): void {
    checkWritable(at)
    checkWritable(at + 4)
    if (at % 8 !== 0) throw new RangeError(`a pair of registers does not begin at ${at}`)
    this.watchEpoch(at + 4, high)
    this.watchEpoch(at, low)
    this.send('pair', at, low, high)
  }

  ringDoorbell(low: number, high: number): void {
    this.send('ring', 0, low, high)
  }

  /** The moment at which the host hands over what is the card's. */
  private watchEpoch(at: number, value: number): void {
    if (this.wakeCard === null || !this.link.up) return
    if (at === PORT_HEADER - PORT_AT) this.header = (value >>> 0) * HEADER_PAGE_BYTES
    if (at !== PORT_EPOCH - PORT_AT) return
    if (value === 0) this.memory.guard.release()
    else this.memory.guard.protect(this.header)
  }

  private send(form: RegisterWrite['form'], at: number, low: number, high: number): void {
    const { link, clock } = this
    link.counts.registerWrites++
    const write = { number: this.number++, form, at, low, high }
    if (this.wakeCard === null || !link.up) {
      this.lost++
      return
    }
    const fate = this.script?.(write) ?? this.chance(write)
    if (fate.lost === true) {
      this.lost++
      return
    }
    const atUs = clock.nowUs + (DOORBELL_NS + (fate.delayNs ?? 0)) / 1000
    for (let i = fate.times ?? 1; i > 0; i--) {
      const one: OnItsWay = { write, torn: fate.torn, timer: null }
      one.timer = clock.schedule(atUs, () => this.deliver(one))
      this.onItsWay.push(one)
    }
  }

  private chance({ form }: RegisterWrite): RegisterFate {
    if (this.chances === null || form === 'register') return {}
    const { random, lost = 0, twice = 0, torn = 0, late = 0 } = this.chances
    return {
      lost: random.chance(lost),
      times: random.chance(twice) ? 2 : 1,
      ...(random.chance(torn) ? { torn: random.chance(0.5) ? 'low' : 'high' } : {}),
      delayNs: random.chance(late) ? random.below(LATE_NS_MAX) : 0,
    }
  }

  private deliver(one: OnItsWay): void {
    this.arriveAtCard(one)
    this.wakeCard?.()
  }

  private arriveAtCard(one: OnItsWay): void {
    this.onItsWay.splice(this.onItsWay.indexOf(one), 1)
    const { words } = this
    const { form, at, low, high } = one.write
    if (words === null) return
    if (form === 'ring') {
      words.append(low, high, one.torn)
      return
    }
    if (one.torn !== 'high') words.put(PORT_AT + at, low)
    if (form === 'pair' && one.torn !== 'low') words.put(PORT_AT + at + 4, high)
  }

  readRegister(at: number): number {
    checkReadable(at)
    const { words } = this
    if (words === null || this.wakeCard === null || !this.link.up) return NO_CARD
    const before = [...this.onItsWay]
    for (const one of before) {
      if (one.timer !== null) this.clock.cancel(one.timer)
      this.arriveAtCard(one)
    }
    if (before.length > 0) this.wakeCard()
    return words.get(PORT_AT + at)
  }

  onInterrupt(callback: () => void): void {
    check('callback', callback, FUNCTION)
    this.interrupt = callback
  }

  /** A write of the card has arrived: is it the word that wakes the host? */
  private seeWrite(at: number, length: number): void {
    const { header } = this.memory.guard
    const word = header + HEADER_INTERRUPTS
    if (header >= 0 && at < word + 4 && word < at + length) this.interruptHost()
  }

  /** Several interrupts before the host is awake are one. */
  private interruptHost(): void {
    this.waking ??= this.clock.schedule(this.clock.nowUs + CPU_WAKE_NS / 1000, () => {
      this.waking = null
      this.interrupt?.()
    })
  }

  now(): number {
    return Math.floor(this.clock.nowUs)
  }

  setTimer(atUs: number, callback: () => void): () => void {
    const timer = this.hostClock.schedule(atUs, callback)
    return () => this.hostClock.cancel(timer)
  }

  /**
   * The host is reset, or loses its power, alone: its ordinary memory, its caches, what was on its
   * way to it and its driver are lost (`PcieLink.loseHost`). `link.restore`, or
   * `HostMemory.comeBack`, has it there again.
   */
  resetHost(choice?: CutChoice): void {
    this.link.loseHost(choice)
    this.hostStops()
  }

  /** Nobody is there whom a timer or an interrupt could call. */
  hostStops(): void {
    this.interrupt = null
    this.hostClock.stop()
    if (this.waking !== null) this.clock.cancel(this.waking)
    this.waking = null
  }

  close(): void {
    this.hostStops()
    this.unwatch()
  }
}
