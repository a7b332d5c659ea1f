/**
 * A simulated DPU: a part, a machine on it, and the firmware in whatever engine it is booted.
 *
 * Invariant: packet memory is used again at the next power-on. All of it is zeros then but
 * the places of payloads, which the firmware writes before it reads them: what a card held before
 * is still there, so that firmware which read it would be found out.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import type { HostMemory } from '../../../boards/emulator/host/host-memory.ts'
import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { type CutChoice, cut } from '../../../boards/emulator/medium/power-cut.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { EmulatedMachine, type Watch } from '../../../boards/emulator/run/machine.ts'
import { STREAM_KEY_BYTES } from '../../../boards/software/keystream.ts'
import type { PeersList } from '../../../boards/software/peers-file.ts'
import type { Facts } from '../../../firmware/board/hal.ts'
import {
  clearPacketMemory,
  givePacketMemory,
  takePacketMemory,
} from '../../support/cards/packet-memory.ts'
import { aim, psnsBesideEnds } from '../../support/judges/psn-ends.ts'
import { identityOf } from './closed/identities.ts'
import type { PeerEnd } from './closed/peer-end.ts'
import { DATAGRAM, dpuIpv4, dpuMac, get24, type Path, put16, put32, seal } from './frames.ts'
import { regionCount, type Worn, wear } from './medium.ts'
import { Lane } from './network.ts'

/**
 * Boots the firmware on the machine that `machineFor` makes; an engine that has packet memory of
 * its own gives it. May take its time (QuickJS), or not (Node).
 */
export type Boot = (
  machineFor: (packets?: Uint8Array) => EmulatedMachine,
) => FirmwareEngine | Promise<FirmwareEngine>

/** The queue pair number of the operator, who asks without a network. */
const OPERATOR = 0xe0
const MAD_BYTES = 256
const MAD_MAGIC = 0x50445243
/** Where a datagram has its body, and the reason of a refusal before it. */
const BODY_AT = 62 + 32
const FAULT_AT = 62 + 29
const METHOD_SET = 2
const HANDSHAKE = 0x80

/** What the operator is told by STATUS. */
export interface Status {
  readonly state: number
  readonly fault: number
  readonly unsettled: number
  readonly linesRead: number
  readonly scanned: number
  /** Whether it is open, as it says itself: 1 is open, 2 is closed. */
  readonly access: number
}

/** What a control call came to: 0, or the number of the reason why it was refused (fault.ts). */
export interface Answer {
  readonly fault: number
  readonly body: Uint8Array
}

interface CardOptions {
  readonly index: number
  readonly bytes: number
  readonly adrFences: number
  /** Draws PSNs beside their ends for the first connections of a start; null: they are anywhere. */
  readonly psns: Random | null
  readonly sent: (card: Card, frame: Uint8Array) => void
  /** The power goes; what is pending still is. */
  readonly struck: () => void
  readonly boot: Boot
  readonly watch: Watch | undefined
  /** The memories of its own host, behind one link; null without one. */
  readonly far: { readonly memory: HostMemory; readonly ram: HostRam } | null
  /** Of a closed card: the operator's end of his session, and who hears what he sends. */
  readonly operator: PeerEnd | null
  readonly overheard: (frame: Uint8Array) => void
  /** Who may come to a closed card, where that changes; null: it is always the same. */
  readonly peers: PeersList | null
}

/** Of the starts one in four has the entropy of the one before. */
const ENTROPY_REPEATS_MASK = 3

export class Card {
  readonly index: number
  readonly part: Nvdimm
  readonly inbox: Lane = new Lane(true)
  machine: EmulatedMachine | null = null
  engine: FirmwareEngine | null = null
  /** After how many µs the firmware wants its `idle`; 1 is at once, 0 never. */
  waitUs = 0
  /** When that is, µs; Infinity is never. */
  dueUs: number = Infinity
  private readonly options: CardOptions
  private readonly packets: Uint8Array
  private choice: CutChoice | null = null
  private answer: Uint8Array | null = null
  private asking = false
  /** The firmware is called, and has not returned; told when it has. */
  isServing = false
  onReturned: () => void = () => {}
  /** What the last start was given. */
  private entropy: readonly number[] | null = null

  constructor(options: CardOptions) {
    this.options = options
    this.index = options.index
    this.part = new Nvdimm({ bytes: options.bytes, adrFences: options.adrFences })
    this.packets = takePacketMemory()
  }

  /** Its packet memory may be another card's. */
  release(): void {
    this.engine?.dispose()
    this.engine = null
    givePacketMemory(this.packets)
  }

  /** His end of the session with a closed card. */
  get operator(): PeerEnd | null {
    return this.options.operator
  }

  /** What is watched all the time. */
  get watch(): Watch {
    return this.options.watch ?? {}
  }

  get isOn(): boolean {
    return this.engine !== null
  }

  /** What a start draws: fresh words, or now and then those of the last start again (fault L6). */
  private drawEntropy(random: Random): readonly number[] {
    const fresh = Array.from({ length: 8 }, () => random.next())
    if (this.entropy !== null && (fresh[0]! & ENTROPY_REPEATS_MASK) === 0) return this.entropy
    this.entropy = fresh
    return fresh
  }

  /** The first clients of a start are told to begin beside the end of the PSNs. */
  private aimed(psns: Random): Watch {
    // The keys of the regions are drawn first.
    let first = STREAM_KEY_BYTES / 4 + regionCount(this.part)
    return {
      onStream: ({ buffer, byteOffset, length }) => {
        const words = new Int32Array(buffer, byteOffset, length / 4)
        if (first > 0) aim(words, first, psnsBesideEnds(psns))
        first = 0
      },
    }
  }

  /** Power comes. A cut that `armed` sets may end the start again: then it is off. */
  powerOn(
    random: Random,
    armed: (machine: EmulatedMachine) => void,
  ): undefined | Promise<undefined> {
    const entropy = this.drawEntropy(random)
    const { part, options, index } = this
    options.operator?.leave()
    const identity = options.peers?.identity ?? identityOf(index)
    const facts: Facts = {
      board: 'simulation',
      ...(options.operator === null ? {} : { identity }),
      nvdimmBytes: part.bytes,
      ...{ strictIcrc: false, pathMtu: 4096, entropy },
      hostBytes: options.far?.memory.bytes ?? 0,
      dmaBytes: options.far?.ram.bytes ?? 0,
      dirtyShutdowns: part.dirtyShutdowns,
      mac: dpuMac(this.index),
      ipv4: dpuIpv4(this.index),
      ipv6: [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2 + this.index],
    }
    const machineFor = (packets?: Uint8Array): EmulatedMachine => {
      const machine = new EmulatedMachine({
        facts,
        nvdimm: part,
        host: options.far?.memory ?? null,
        ram: options.far?.ram ?? null,
        packets: packets ?? this.clearedPackets(),
        transmit: (frame) => this.transmitted(frame),
        onCut: () => this.struck(),
        ...(options.peers === null ? {} : { peers: options.peers }),
      })
      this.machine = machine
      const aimed = options.psns === null ? {} : this.aimed(options.psns)
      machine.observe({ ...aimed, ...options.watch })
      armed(machine)
      return machine
    }
    const booted = options.boot(machineFor)
    if (booted instanceof Promise) return booted.then((engine) => this.started(engine))
    return this.started(booted)
  }

  /** Off, with all that was stored; the next start follows many others. */
  age(worn: Worn): void {
    this.turnOff()
    cut(this.part, { random: new Random(0), strategy: 'all' })
    wear(this.part, worn)
  }

  private clearedPackets(): Uint8Array {
    clearPacketMemory(this.packets)
    return this.packets
  }

  private started(engine: FirmwareEngine): undefined {
    this.engine = engine
    if (this.machine!.dead) this.turnOff()
  }

  private transmitted(frame: Uint8Array): void {
    if (this.asking && frame[42] === DATAGRAM && get24(frame, 47) === OPERATOR) this.answer = frame
    else this.options.sent(this, frame)
  }

  /** The next cut leaves this. */
  arm(choice: CutChoice): void {
    this.choice = choice
  }

  private struck(): void {
    this.options.struck()
    cut(this.part, this.choice!)
  }

  /** The power goes now, between two lists. */
  cutNow(): void {
    if (this.machine !== null && !this.machine.dead) {
      this.machine.die()
      this.struck()
    }
    this.turnOff()
  }

  turnOff(): void {
    this.engine?.dispose()
    this.engine = null
    this.machine = null
    this.wait(0, 0)
    this.inbox.frames = []
  }

  /** Serves what waits, in one burst of at most so many frames; true if the power went. */
  serve(most: number, nowUs: number): boolean {
    const { engine, machine } = this
    const frames = this.inbox.take(most)
    for (let i = 0; i < frames.length; i++) machine!.place(i, frames[i]!)
    this.isServing = true
    this.wait(engine!.serve(frames.length, nowUs), nowUs)
    this.isServing = false
    this.onReturned()
    return this.checkPower()
  }

  /** Time for lazy work; true if the power went. */
  idle(nowUs: number): boolean {
    this.machine!.tellHealth()
    this.isServing = true
    this.wait(this.engine!.idle(nowUs), nowUs)
    this.isServing = false
    this.onReturned()
    return this.checkPower()
  }

  private wait(us: number, nowUs: number): void {
    this.waitUs = us
    this.dueUs = us === 0 ? Infinity : nowUs + us
  }

  private checkPower(): boolean {
    if (!this.machine!.dead) return false
    this.turnOff()
    return true
  }

  /** Asks the part how it is, without a network; null if the power went meanwhile. */
  status(path: Path, nowUs: number): Status | null {
    const answer = this.ask(path, nowUs, 1, 0x10, 0, () => {})
    if (answer === null) return null
    const { body } = answer
    const word = (at: number): number =>
      ((body[at]! << 24) | (body[at + 1]! << 16) | (body[at + 2]! << 8) | body[at + 3]!) >>> 0
    return {
      state: body[0]!,
      fault: body[2]!,
      unsettled: word(44),
      linesRead: word(48),
      scanned: word(56),
      access: body[97]!,
    }
  }

  /** A control call of the operator: its answer; null if the power went meanwhile. */
  ask(
    path: Path,
    nowUs: number,
    method: number,
    attribute: number,
    modifier: number,
    fill: (body: Uint8Array) => void,
  ): Answer | null {
    const { operator } = this.options
    // The second time in another session, where the one before is over.
    for (let tries = 0; tries < 2; tries++) {
      if (operator?.isIn === false && !this.enter(operator, path, nowUs)) return null
      const frame = datagram(path, OPERATOR, nowUs, method, attribute, modifier, fill)
      const asked = operator === null ? frame : operator.seal(frame)
      const answer = this.exchange(asked, nowUs)
      if (answer === null) return null
      const opened = operator === null ? answer : operator.open(answer, throws)
      if (opened !== null) return { fault: opened[FAULT_AT]!, body: opened.subarray(BODY_AT) }
      operator?.leave()
    }
    throw new Error('an operator is answered outside of his session')
  }

  /** Makes a session for the operator; false if the power went meanwhile. */
  private enter(operator: PeerEnd, path: Path, nowUs: number): boolean {
    // The second time with the cookie that he may be asked for.
    for (let tries = 0; tries < 2 && !operator.isIn; tries++) {
      const first = datagram(path, OPERATOR, nowUs, METHOD_SET, HANDSHAKE, 0, (body) => {
        body.set(operator.hello())
      })
      const answer = this.exchange(first, nowUs)
      if (answer === null) return false
      operator.open(answer, throws)
    }
    if (!operator.isIn) throw new Error('an operator is given no session')
    return true
  }

  /** The answer to a frame of the operator; null if the power went meanwhile. */
  private exchange(frame: Uint8Array, nowUs: number): Uint8Array | null {
    this.options.overheard(frame)
    this.answer = null
    this.asking = true
    const waiting = this.inbox.take(Number.MAX_SAFE_INTEGER)
    this.inbox.frames = [frame]
    const gone = this.serve(1, nowUs)
    if (!gone) this.inbox.frames = waiting
    this.asking = false
    if (gone) return null
    const answer = this.answer as Uint8Array | null
    if (answer === null) throw new Error('a control call was not answered')
    const wrong = this.options.operator?.sees(answer) ?? null
    if (wrong !== null) throw new Error(wrong)
    return answer
  }
}

function throws(what: string): never {
  throw new Error(what)
}

/** A control call as it goes to queue pair 1. */
export function datagram(
  path: Path,
  from: number,
  transaction: number,
  method: number,
  attribute: number,
  modifier: number,
  fill: (body: Uint8Array) => void,
): Uint8Array {
  const frame = path.begin(DATAGRAM, 1, 0, false, 8, MAD_BYTES)
  put32(frame, 54, 0x80010000)
  put32(frame, 58, from)
  frame.fill(0, 62, 62 + MAD_BYTES)
  frame.set([1, 0x09, 1, method], 62)
  put32(frame, 62 + 12, transaction)
  put16(frame, 62 + 16, attribute)
  put32(frame, 62 + 20, modifier)
  put32(frame, 62 + 24, MAD_MAGIC)
  frame[62 + 28] = 1
  fill(frame.subarray(62 + 32, 62 + MAD_BYTES))
  return seal(frame)
}
