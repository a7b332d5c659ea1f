/**
 * Stands between boards and the firmware in Node, and keeps tapes of what was worth it: each time
 * the firmware takes a branch that no tape has yet, the tape of that power-on is kept up to there.
 *
 * Invariants:
 * - Board and firmware see what they would see without it.
 * - All branches that the firmware took in a call of a board are taken by the tapes that are kept,
 *   taken together; except for those of a tape that was full, or that a bug ended.
 */

import { ATOMIC_BYTES } from '../../../boards/emulator/run/atomic.ts'
import { type Recorder, recordBoots } from '../../../boards/emulator/run/direct.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { CHECK_CODE_BYTES } from '../../../boards/software/check-code.ts'
import { NOISE_KEY_BYTES } from '../../../boards/software/noise-primitives.ts'
import {
  AGREE,
  AUX,
  CHECK,
  COMPARE_SWAP,
  COPY,
  COPY_CLEAN,
  FETCH_ADD,
  HASH,
  KEYSTREAM,
  LENGTH,
  type Machine,
  OP,
  RECEIVE_AT,
  RECEIVED_AT,
  RESULT,
  SEAL,
  SEAL_TAG_BYTES,
  TO,
  UNSEAL,
} from '../../../firmware/board/hal.ts'
import {
  FRAME_BYTES_MAX,
  FRAME_OFFSET_BYTES,
  FRAME_STRIDE_BYTES,
} from '../../../firmware/board/limits.ts'
import { RANDOM_AT, RANDOM_BYTES } from '../../../firmware/board/memory-map.ts'
import { BACK, IDLE, OUT, PacketView, type Recorded, RUN, SERVE, Tape } from './flight-tape.ts'

/** Branches by number: 0 not taken, 1 taken, 2 on a tape that another process has kept. */
type Hits = Uint8Array

interface Counters {
  __hits: Hits
  __hit(branch: number): void
}

const counters = globalThis as unknown as Counters

/** What a process recorded. */
export class FlightRecorder {
  /** Branches taken inside calls of a board, and those of tests that call the firmware's parts. */
  readonly inside: Hits
  readonly outside: Hits
  /** Calls that did something new when their tape was full, or that a bug ended. */
  full = 0
  private readonly sessions = new Set<Session>()
  /** Branches that the call which runs was the first to take. */
  private fresh: number[] = []

  constructor(inside: Hits) {
    this.inside = inside
    this.outside = counters.__hits
    counters.__hit = (branch) => {
      const hits = counters.__hits
      hits[branch] = 1
      if (hits === this.inside) this.fresh.push(branch)
    }
    const record: Recorder = (machine, boot) => new Session(this, machine).boot(boot)
    recordBoots(record)
  }

  /** The tapes that were kept. */
  get tapes(): Recorded[] {
    return [...this.sessions].map((session) => session.recorded)
  }

  /** Runs what belongs to the firmware. */
  enter<T>(run: () => T): T {
    counters.__hits = this.inside
    try {
      return run()
    } finally {
      counters.__hits = this.outside
    }
  }

  /** Runs what belongs to the board, in the middle of the firmware. */
  leave<T>(run: () => T): T {
    counters.__hits = this.outside
    try {
      return run()
    } finally {
      counters.__hits = this.inside
    }
  }

  /** A call is over. What it was the first to do is left to others if its tape cannot be kept. */
  judge(session: Session): void {
    if (this.fresh.length === 0) return
    if (session.keep()) {
      this.sessions.add(session)
    } else {
      this.full++
      for (const branch of this.fresh) {
        this.inside[branch] = 0
        this.outside[branch] = 1
      }
    }
    this.fresh = []
  }

  stop(): void {
    recordBoots(null)
  }
}

/** A piece of packet memory that others than the firmware write, and not by a command. */
class Watched {
  private readonly at: number
  private readonly words: Int32Array
  private readonly seen: Int32Array

  constructor({ memory, packets }: EmulatedMachine, at: number, length: number) {
    this.at = at
    this.words = new Int32Array(memory, packets.byteOffset + at, length >> 2)
    this.seen = new Int32Array(length >> 2)
  }

  look(): void {
    this.seen.set(this.words)
  }

  /** Names the bytes of packet memory that have changed since the last look. */
  changes(tell: (at: number, length: number) => void): void {
    const { at, words, seen } = this
    for (let i = 0; i < words.length; i++) {
      if (words[i] === seen[i]) continue
      const first = i
      while (i < words.length && words[i] !== seen[i]) i++
      tell(at + 4 * first, 4 * (i - first))
    }
  }
}

/** One power-on. */
class Session {
  private readonly recorder: FlightRecorder
  private readonly machine: EmulatedMachine
  private readonly tape = new Tape()
  private readonly view: PacketView
  private readonly others: readonly Watched[]
  private hasEnded = false
  private keptCount = 0
  private keptLength = 0

  constructor(recorder: FlightRecorder, machine: EmulatedMachine) {
    this.recorder = recorder
    this.machine = machine
    this.view = new PacketView(machine.packets)
    this.others = [
      new Watched(machine, 0, RECEIVED_AT),
      new Watched(machine, RANDOM_AT, RANDOM_BYTES),
    ]
  }

  get recorded(): Recorded {
    const { facts } = this.machine
    const numbers = this.tape.numbers.slice(0, this.keptCount)
    return { facts, numbers, bytes: this.tape.bytes.slice(0, this.keptLength) }
  }

  /** Keeps what is on the tape, if the tape can be played up to here. */
  keep(): boolean {
    if (this.hasEnded) return false
    this.keptCount = this.tape.count
    this.keptLength = this.tape.length
    return true
  }

  boot(boot: (machine: Machine) => FirmwareEngine): FirmwareEngine {
    const { machine } = this
    const seen: Machine = {
      facts: machine.facts,
      memory: machine.memory,
      run: (count) => this.run(count),
    }
    let engine: FirmwareEngine | null = null
    this.call(() => {
      engine = boot(seen)
      return 0
    })
    const inner = engine!
    return {
      serve: (count, nowUs) => {
        this.tellFrames(count)
        return this.told(SERVE, count, nowUs, () => inner.serve(count, nowUs))
      },
      idle: (nowUs) => this.told(IDLE, 0, nowUs, () => inner.idle(nowUs)),
      memoryUsed: () => inner.memoryUsed(),
      dispose: () => inner.dispose(),
    }
  }

  private told(kind: number, count: number, nowUs: number, run: () => number): number {
    const { tape } = this
    if (!this.hasEnded) {
      this.tellBoard()
      tape.put(kind)
      if (kind === SERVE) tape.put(count)
      tape.put(nowUs)
    }
    return this.call(run)
  }

  private call(run: () => number): number {
    const { recorder, tape } = this
    if (tape.isFull) this.hasEnded = true
    this.tellBoard()
    try {
      const value = recorder.enter(run)
      if (!this.hasEnded) {
        tape.put(BACK)
        tape.put(value)
      }
      return value
    } catch (error) {
      this.hasEnded = true
      throw error
    } finally {
      recorder.judge(this)
      this.look()
    }
  }

  /** The firmware runs a list. */
  private run(count: number): number {
    const { machine, recorder, tape, view } = this
    if (this.hasEnded) return recorder.leave(() => machine.run(count))
    tape.put(RUN)
    tape.put(count)
    tape.put(view.hashOfList(count))
    this.look()
    const done = recorder.leave(() => machine.run(count))
    tape.put(done)
    const ran = Math.min(done + 1, count)
    const results = Uint8Array.from({ length: ran }, (_, i) => view.word(i, RESULT))
    tape.copy(results, 0, ran)
    for (let i = 0; i < done; i++) this.tellCommand(i)
    this.tellBoard()
    tape.put(OUT)
    tape.put(view.hashOfBytes(done))
    return done
  }

  /** What a command that was done has left in packet memory. */
  private tellCommand(command: number): void {
    const { view } = this
    const op = view.word(command, OP)
    const to = view.word(command, TO)
    const length = view.word(command, LENGTH)
    if (op === COPY || op === COPY_CLEAN || op === KEYSTREAM) this.tell(to, length)
    else if (op === CHECK) this.tell(to, CHECK_CODE_BYTES)
    else if (op === AGREE || op === HASH) this.tell(to, NOISE_KEY_BYTES)
    else if (op === SEAL) this.tell(to, length + SEAL_TAG_BYTES)
    else if (op === UNSEAL) this.tell(to, length - SEAL_TAG_BYTES)
    else if (op === FETCH_ADD || op === COMPARE_SWAP) {
      this.tell(to, ATOMIC_BYTES)
      this.tell(view.word(command, AUX), ATOMIC_BYTES)
    }
  }

  private tell(at: number, length: number): void {
    const { packets } = this.view
    if (at >= 0 && at + length <= packets.length) this.tape.write(packets, at, length)
  }

  /**
   * What board and host have written of their own accord: health, registers, doorbells, and the
   * words that a test has the generator draw.
   */
  private tellBoard(): void {
    if (this.hasEnded) return
    for (const watched of this.others) watched.changes((at, length) => this.tell(at, length))
    this.look()
  }

  /** What others than the firmware write is what changes from here on. */
  private look(): void {
    for (const watched of this.others) watched.look()
  }

  private tellFrames(count: number): void {
    if (this.hasEnded) return
    this.tell(RECEIVED_AT, 8 * count)
    for (let i = 0; i < count; i++) {
      const at = RECEIVE_AT + i * FRAME_STRIDE_BYTES + FRAME_OFFSET_BYTES
      this.tell(at, Math.min(this.view.received(i), FRAME_BYTES_MAX))
    }
  }
}
