/**
 * One card under fuzzing: the firmware's own core on the emulated machine, every frame served as it
 * came, every store, command and answer looked at.
 *
 * Invariant: what a world does follows from its seed and the steps that it is given. A
 * complaint names the first thing that must not be; behind it nothing counts.
 */

import { crc32 } from 'node:zlib'
import { Random } from '../../../boards/emulator/base/random.ts'
import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { EmulatedMachine, type MachineOptions } from '../../../boards/emulator/run/machine.ts'
import {
  BAD_COMMAND,
  COMMAND_WORDS,
  COMMANDS_AT,
  type Facts,
  ICRC_GOOD,
  RECEIVE_AT,
  RECEIVED_AT,
  RESULT,
} from '../../../firmware/board/hal.ts'
import {
  BURST_FRAMES,
  COMMANDS_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
  STAGING_TIMEOUT_US,
} from '../../../firmware/board/limits.ts'
import { MEMORY_BYTES, RANDOM_AT, RANDOM_BYTES } from '../../../firmware/board/memory-map.ts'
import { random32 } from '../../../firmware/board/random.ts'
import { idle, receive, type State, settle } from '../../../firmware/core.ts'
import { createState } from '../../../firmware/main.ts'
import { boot } from '../../../firmware/manage/boot.ts'
import {
  findQueuePair,
  MESSAGE_NONE,
  type QueuePair,
  STATE_OPEN,
} from '../../../firmware/transport/queue-pair.ts'
import { FACTS } from '../../support/cards/test-card.ts'
import * as oracle from '../../support/judges/oracle.ts'
import { aim, CHOSEN, psnsBesideEnds, WORDS_EACH } from '../../support/judges/psn-ends.ts'
import { Conversation, type Sent, sentOf } from '../../support/wire/conversation.ts'
import { isRoce } from '../../support/wire/frames.ts'
import { Authority, bthOf, GuardedPart } from './guard.ts'
import { type Ledger, mix } from './ledger.ts'
import type { Step } from './script.ts'

/** Commands that one call of the firmware may need, whatever came. */
const COMMANDS_EACH = 60_000
/** Calls of `idle` until a card wants nothing more at once. */
const IDLE_CALLS = 5_000
/** Longer than anything waits that a peer has begun. */
export const REST_US: number = STAGING_TIMEOUT_US + 1_000_000
/** Bytes of a frame that count for whether it differs, besides its length. */
const HASHED_WORDS = 40
const PART_BYTES: number = 1 << 17

/** A machine that notices commands that it had to refuse. */
export class StrictMachine extends EmulatedMachine {
  refused = ''
  private readonly ring: Float64Array

  constructor(options: MachineOptions) {
    super(options)
    const { buffer, byteOffset } = this.packets
    this.ring = new Float64Array(buffer, byteOffset + COMMANDS_AT, COMMANDS_MAX * COMMAND_WORDS)
  }

  override run(count: number): number {
    const done = super.run(count)
    if (done !== count && this.ring[done * COMMAND_WORDS + RESULT] === BAD_COMMAND) {
      const at = done * COMMAND_WORDS
      this.refused ||= `a command of no sense: ${this.ring.slice(at, at + 6).join(' ')}`
    }
    return done
  }
}

/** The same firmware in another engine: what it does must be the same, byte for byte. */
export interface Twin {
  place(i: number, frame: Uint8Array): void
  serve(count: number, now: number): number
  idle(now: number): number
  /** A hash of every frame that it has sent. */
  readonly sent: number
  readonly part: Nvdimm
  readonly machine: StrictMachine
}

export interface WorldOptions {
  readonly twin?: Twin
  readonly seed: number
  readonly partBytes?: number
  /** What the part holds at first. */
  readonly content?: Uint8Array
  /** Lines that cannot be read at power-on; and whether the save energy is armed then. */
  readonly poisoned?: readonly number[]
  readonly armed?: boolean
  /** Memory of a host behind PCIe, bytes. */
  readonly hostBytes?: number
  /** Packet memory, to be used again: it is cleared here. */
  readonly packets?: Uint8Array
  readonly facts?: Partial<Facts>
}

/** What the board of such a world states. */
export function factsOf({ seed, partBytes, content, hostBytes, facts }: WorldOptions): Facts {
  return {
    ...FACTS,
    nvdimmBytes: partBytes ?? content?.length ?? PART_BYTES,
    dmaBytes: hostBytes ?? 0,
    entropy: entropyOf(seed),
    ...facts,
  }
}

/** Entropy of a power-on: part of what a seed says. */
function entropyOf(seed: number): number[] {
  const random = new Random(seed)
  return Array.from({ length: 8 }, () => random.next())
}

let pool: Uint8Array | null = null

/** Packet memory of worlds that follow one another. */
export function pooledPackets(): Uint8Array {
  pool ??= new Uint8Array(MEMORY_BYTES)
  return pool
}

export class World {
  readonly part: GuardedPart
  readonly machine: StrictMachine
  readonly state: State
  readonly ram: HostRam | null
  readonly authority: Authority
  readonly talk: Conversation
  now = 0
  waitUs = 0
  /** Frames in the burst so far. */
  staged = 0
  complaint = ''
  /** What was done, if somebody wants to know. */
  script: Step[] | null = null
  /** Told of every frame that the card sends. */
  onSent: ((frame: Uint8Array) => void) | null = null
  /** Where frames that are served are counted; null while nobody fuzzes. */
  ledger: Ledger | null = null
  private readonly twin: Twin | null
  /** As `Twin.sent`. */
  private sentHash = 0
  private readonly received: Int32Array
  private readonly words: Int32Array
  private readonly counted: Float64Array
  private kept: Uint8Array[] | null = null
  private readonly due = (number: number): number => this.expected(number)

  constructor(options: WorldOptions) {
    const { content, hostBytes = 0 } = options
    const facts = factsOf(options)
    const bytes = facts.nvdimmBytes
    this.twin = options.twin ?? null
    this.part = new GuardedPart(content === undefined ? { bytes } : { bytes, content })
    for (const line of options.poisoned ?? []) this.part.poison(line)
    this.part.armed = options.armed ?? true
    this.ram = hostBytes > 0 ? new HostRam(hostBytes) : null
    const packets = options.packets ?? new Uint8Array(MEMORY_BYTES)
    packets.fill(0)
    this.machine = new StrictMachine({
      facts,
      nvdimm: this.part,
      ram: this.ram,
      transmit: (frame) => this.hear(frame),
      packets,
    })
    this.state = createState(this.machine)
    boot(this.state)
    this.received = new Int32Array(packets.buffer, RECEIVED_AT, 2 * BURST_FRAMES)
    this.words = new Int32Array(packets.buffer)
    this.counted = new Float64Array(this.state.counters.length)
    this.authority = new Authority(this.part)
    this.talk = new Conversation((...frames) => this.ask(frames))
  }

  /** From now on only what is authorised may change. */
  guard(): void {
    this.part.always.fill(0)
    this.part.opened.fill(-1)
    this.part.openAlways(oracle.LANES_AT, oracle.OPERATIONS_AT + oracle.OPERATIONS_BYTES)
    this.part.guarding = true
    this.note()
  }

  /** Takes the frame into the burst; one that is full is served first. */
  stage(frame: Uint8Array): void {
    if (this.staged === BURST_FRAMES) this.serve()
    this.script?.push({ kind: 'frame', bytes: frame.slice() })
    this.machine.place(this.staged, frame)
    this.twin?.place(this.staged, frame)
    this.staged++
  }

  /** Serves the burst. */
  serve(): void {
    this.script?.push({ kind: 'serve' })
    const count = this.staged
    const commands = this.machine.commandCount
    this.staged = 0
    this.now += 10
    this.protect(() => {
      this.receiveAll(count)
      this.waitUs = settle(this.state)
      this.compare(this.twin?.serve(count, this.now))
    })
    this.note()
    this.judge(commands)
  }

  /** Does the other engine do the same? */
  private compare(waitUs: number | undefined): void {
    const { twin } = this
    if (twin === null) return
    if (waitUs !== this.waitUs) this.object(`QuickJS waits ${waitUs} us, and Node ${this.waitUs}`)
    if (twin.sent !== this.sentHash) this.object('QuickJS and Node have sent other frames')
    if (twin.machine.refused !== '') this.object(`in QuickJS, ${twin.machine.refused}`)
  }

  private receiveAll(count: number): void {
    const { state, received, now, ledger } = this
    const packets = this.machine.packets
    state.connections.nowUs = now
    for (let i = 0; i < count; i++) {
      const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
      const length = received[2 * i]!
      const flags = received[2 * i + 1]!
      if ((flags & ICRC_GOOD) !== 0) this.authority.hear(packets, at, this.due)
      if (ledger === null) receive(state, at, length, flags, now)
      else this.receiveCounted(ledger, at, length, flags)
    }
  }

  private receiveCounted(ledger: Ledger, at: number, length: number, flags: number): void {
    const { state, now } = this
    const packets = this.machine.packets
    const bth = length < 62 ? -1 : bthOf(packets, at)
    const opcode = bth < 0 ? 0 : packets[bth]!
    const place = bth < 0 ? 0 : this.stateAt(packets, bth)
    ledger.see(this.hashOf(at, length))
    receive(state, at, length, flags, now)
    ledger.meet(opcode, this.lastFault(), place)
  }

  /** The fault that was counted last. */
  private lastFault(): number {
    const { counters } = this.state
    const { counted } = this
    let fault = 0
    for (let i = 1; i < counters.length; i++) {
      if (counters[i] === counted[i]) continue
      counted[i] = counters[i]!
      fault = i
    }
    return fault
  }

  private hashOf(at: number, length: number): number {
    const { words } = this
    let hash = length
    const first = (at + 2) >> 2
    const count = Math.min(HASHED_WORDS, length >> 2)
    for (let i = first; i < first + count; i++) hash = mix(hash, words[i]!)
    // The ICRC stands for what was not looked at.
    return mix(hash, words[(at + length - 4) >> 2]!)
  }

  private stateAt(bytes: Uint8Array, bth: number): number {
    const number = (bytes[bth + 5]! << 16) | (bytes[bth + 6]! << 8) | bytes[bth + 7]!
    if (number === 1) return 1
    const qp = findQueuePair(this.state.queuePairs, number)
    return qp === null ? 0 : stateOf(qp)
  }

  /** The next connections begin beside the end of the PSNs. */
  steer(random: Random): void {
    // What a twin draws is its own.
    if (this.twin !== null) return
    const { state } = this
    // A refill is due before the words that are aimed at are used up.
    while (RANDOM_AT + RANDOM_BYTES - 4 * state.random.next < 4 * WORDS_EACH * CHOSEN)
      random32(state)
    aim(state.words, state.random.next, psnsBesideEnds(random))
  }

  /** The PSN that a queue pair takes next, or -1. */
  expected(number: number): number {
    return findQueuePair(this.state.queuePairs, number)?.expectedPsn ?? -1
  }

  /** Lets time go by. */
  pass(us: number): void {
    this.script?.push({ kind: 'pass', us })
    this.now += us
    const commands = this.machine.commandCount
    this.protect(() => {
      this.waitUs = idle(this.state, this.now)
      this.compare(this.twin?.idle(this.now))
    })
    this.judge(commands)
  }

  /** Lets the card come to rest; afterwards nothing is authorised any more. */
  rest(): void {
    this.passQuietly(REST_US)
    for (let calls = 0; this.waitUs === 1 && this.complaint === ''; calls++) {
      if (calls === IDLE_CALLS) this.object('the card is never idle')
      this.passQuietly(10)
    }
    this.part.epoch++
    if (this.twin !== null && !oracle.sameBytes(this.twin.part.live, this.part.live)) {
      this.object('QuickJS and Node have stored other bytes')
    }
  }

  private passQuietly(us: number): void {
    this.quietly(() => this.pass(us))
  }

  /** What is done inside is no step of its own. */
  quietly(call: () => void): void {
    const { script } = this
    this.script = null
    call()
    this.script = script
  }

  /** Serves frames as a burst of their own, which counts for nothing, and reads what was sent. */
  ask(frames: readonly Uint8Array[]): Sent[] {
    return this.askRaw(frames).map(sentOf)
  }

  /** The same, and what was sent is not read. */
  askRaw(frames: readonly Uint8Array[]): Uint8Array[] {
    if (this.staged > 0) this.serve()
    const { ledger, script } = this
    this.ledger = null
    this.script = null
    this.kept = []
    for (const frame of frames) this.stage(frame)
    this.serve()
    const sent = this.kept
    this.kept = null
    this.ledger = ledger
    this.script = script
    return sent
  }

  /** Something happens to the medium. */
  medium(what: string, value: number): void {
    this.script?.push({ kind: 'medium', what, value })
    const { part } = this
    if (what === 'armed') part.armed = value !== 0
    else if (what === 'fences') part.fencesToFail = value
    else if (what === 'poison') part.poison(value)
    else if (what === 'refuse') part.refuseWrites(value)
    else if (what === 'take') part.refuseWrites(value, false)
    else throw new Error(`nothing called ${what} happens to a medium`)
  }

  private hear(frame: Uint8Array): void {
    const { ledger } = this
    if (this.twin !== null) this.sentHash = hashFrame(this.sentHash, frame)
    if (!isRoce(frame)) return
    this.kept?.push(frame)
    const bth = bthOf(frame, 0)
    const opcode = frame[bth]!
    if (ledger !== null) {
      const at = opcode * 256 + (opcode >= 0x0d && opcode <= 0x12 ? frame[bth + 12]! : 0)
      ledger.answers[at] = ledger.answers[at]! + 1
    }
    this.onSent?.(frame)
  }

  object(what: string): void {
    this.complaint ||= what
  }

  /** Whatever leaves the firmware is a complaint. */
  private protect(call: () => void): void {
    try {
      call()
    } catch (error) {
      const stack = error instanceof Error ? (error.stack ?? error.message) : String(error)
      this.object(`the firmware threw: ${stack.split('\n').slice(0, 3).join(' ')}`)
    }
  }

  private judge(commands: number): void {
    const { part, machine } = this
    if (part.breach !== '') this.object(part.breach)
    if (machine.refused !== '') this.object(machine.refused)
    const used = machine.commandCount - commands
    if (used > COMMANDS_EACH) this.object(`one call made ${used} commands`)
  }

  /** What was counted so far is known: what comes is the next frame's. */
  private note(): void {
    this.counted.set(this.state.counters)
  }

  /** What was refused, into the ledger: once, at the end. */
  tell(ledger: Ledger): void {
    this.state.counters.forEach((times, fault) => {
      ledger.refusals[fault] = ledger.refusals[fault]! + times
    })
  }
}

/** A hash that goes on over one frame more. */
export function hashFrame(hash: number, frame: Uint8Array): number {
  return mix(mix(hash, crc32(frame)), frame.length)
}

/** What a queue pair is like, by the place of its name in STATES. */
function stateOf(qp: QueuePair): number {
  if (qp.state !== STATE_OPEN) return 4
  if (qp.message !== MESSAGE_NONE) return 4 + qp.message
  if (qp.batching) return 9
  if (qp.stream.accepted) return 10
  if (qp.nakSent) return 11
  if (qp.unanswered > 0) return 12
  if (qp.ackDue) return 13
  return qp.used ? 3 : 2
}
