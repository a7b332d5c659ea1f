/**
 * A guest that can be powered on again and again: the bundle is evaluated once, and every power-on
 * begins with the very memory that the evaluation left.
 *
 * Invariants:
 * - All of a guest's state is its WebAssembly memory: engine, heap, stack and packets. Between two
 *   calls nothing of it is anywhere else, so a guest that is put back is the guest of before, byte
 *   for byte (evidence-quickjs.test.ts compares all of it).
 * - Packet memory is zeros at a power-on, and nothing of an earlier one can be seen.
 * - An engine of an earlier power-on refuses to serve. A guest that stopped, or whose machine
 *   threw, is spent: it has to be evaluated again.
 *
 * An evaluation takes some fifty milliseconds of one core, a power-on four. The bundle is the
 * shipped one; a few lines behind it hold its `start` back until the facts are known.
 */

import { findBundle } from '../../../boards/emulator/run/bundle.ts'
import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import { bootGuest, type Guest, type GuestMachine } from '../../../boards/emulator/run/guest.ts'
import { RECEIVE_AT } from '../../../firmware/board/hal.ts'
import { FACTS } from './test-card.ts'

/** Instead of a count of frames: the facts lie in packet memory, start. */
const START = -1

/** Instead of a count of frames: what the extension answers, as text in packet memory. */
const ASK = -2

/** Where text goes through packet memory, before a start or behind the last burst. */
const TEXT_AT = RECEIVE_AT
const TEXT_BYTES = 4096

/** Where the engine's runtime keeps at how much it collects, and its limit, which is known. */
const LIMIT_OFFSET = 24
const THRESHOLD_OFFSET = 108
const THRESHOLD_FIRST = 256 * 1024
const LIMIT = 24 * 2 ** 20

export interface ColdOptions {
  /** The shipped bundle unless given. */
  readonly source?: string
  /** Less memory than a card has, in pages of 64 KiB. */
  readonly memoryPages?: number
  /** Litters before every command list, and collects before one in so many. */
  readonly collectEvery?: number
  /** An expression: what `ask` answers, as text. */
  readonly answer?: string
}

/** What stands behind the bundle: `start` waits, and the machine may be littered. */
function waiting({ collectEvery = 0, answer = '""' }: ColdOptions): string {
  const run = '(count) => { const a = {}; a.self = a; return board.run(count) }'
  return `
;((start) => {
  globalThis.perdure = { start(board) {
    const text = new Uint8Array(board.memory, ${TEXT_AT}, ${TEXT_BYTES})
    const run = ${collectEvery > 0 ? run : 'board.run'}
    let firmware, left = ''
    const put = () => {
      const count = Math.min(left.length, ${TEXT_BYTES})
      for (let i = 0; i < count; i++) text[i] = left.charCodeAt(i)
      left = left.slice(count)
      return count
    }
    return {
      serve(count, now) {
        if (count >= 0) return firmware.serve(count, now)
        if (count === ${ASK}) {
          if (now === 0) left = (${answer})
          return put()
        }
        const facts = JSON.parse(String.fromCharCode(...text.subarray(0, now)))
        text.fill(0)
        firmware = start({ facts, memory: board.memory, run })
        return 0
      },
      idle: (now) => firmware.idle(now),
    }
  } }
})(perdure.start)`
}

/** A part of memory as it was when the bundle had been evaluated; null where all was zeros. */
export interface Stretch {
  readonly at: number
  readonly end: number
  readonly bytes: Uint8Array | null
}

const PAGE_BYTES = 64 * 1024

/** All of a memory; most of it is zeros, and to clear is cheaper than to copy. */
export function stretchesOf(memory: Uint8Array): Stretch[] {
  const isZero = (at: number): boolean => {
    return memory.subarray(at, at + PAGE_BYTES).every((byte) => byte === 0)
  }
  const stretches: Stretch[] = []
  let at = 0
  while (at < memory.length) {
    const zero = isZero(at)
    let end = at + PAGE_BYTES
    while (end < memory.length && isZero(end) === zero) end += PAGE_BYTES
    stretches.push({ at, end, bytes: zero ? null : memory.slice(at, end) })
    at = end
  }
  return stretches
}

/** Makes a memory what it was when its stretches were taken. */
export function putBack(memory: Uint8Array, stretches: readonly Stretch[]): void {
  for (const { at, end, bytes } of stretches) {
    if (bytes === null) memory.fill(0, at, end)
    else memory.set(bytes, at)
  }
}

export class ColdGuest {
  /** Garbage collections that were forced. */
  collections = 0
  private readonly guest: Guest<GuestMachine>
  private readonly memory: Uint8Array
  private readonly cold: readonly Stretch[]
  private readonly words: Int32Array
  private readonly thresholdAt: number
  private readonly collectEvery: number
  private lists = 0
  private machine: GuestMachine | null = null
  private powerOns = 0
  private spent = false

  /** Use `evaluate`. */
  private constructor(options: ColdOptions, guest: Guest<GuestMachine>) {
    this.guest = guest
    this.memory = new Uint8Array(guest.packets.buffer)
    this.words = new Int32Array(guest.packets.buffer)
    this.collectEvery = options.collectEvery ?? 0
    this.thresholdAt = this.collectEvery > 0 ? thresholdOf(this.words) : -1
    // What the engine makes for its first such answer is there from now on.
    guest.memoryUsed()
    this.cold = stretchesOf(this.memory)
  }

  static async evaluate(options: ColdOptions = {}): Promise<ColdGuest> {
    let cold: ColdGuest | null = null
    const source = (options.source ?? findBundle().source) + waiting(options)
    const machine: GuestMachine = {
      facts: FACTS,
      run: (count) => cold!.run(count),
      die: () => cold!.machine!.die(),
    }
    const pages = options.memoryPages
    const guest = await bootGuest({
      source,
      machineFor: () => machine,
      ...(pages === undefined ? {} : { memoryPages: pages }),
    })
    cold = new ColdGuest(options, guest)
    return cold
  }

  /** Whether it can be powered on no more. */
  get isSpent(): boolean {
    return this.spent
  }

  private run(count: number): number {
    if (this.collectEvery > 0 && ++this.lists % this.collectEvery === 0) this.collectNext()
    return this.machine!.run(count)
  }

  /** The next object that the guest makes, in front of its next list, is behind a collection. */
  private collectNext(): void {
    const { words, thresholdAt } = this
    const at = words[thresholdAt]
    if (at !== 0 && at !== THRESHOLD_FIRST) this.collections++
    words[thresholdAt] = 0
  }

  /** Powers it on: recovery has run when this returns. */
  start(machineFor: (packets: Uint8Array) => GuestMachine): FirmwareEngine {
    const { guest, memory } = this
    putBack(memory, this.cold)
    const machine = machineFor(guest.packets)
    this.machine = machine
    const facts = Buffer.from(JSON.stringify(machine.facts), 'latin1')
    if (facts.length > TEXT_BYTES) throw new RangeError(`facts of ${facts.length} bytes`)
    guest.packets.set(facts, TEXT_AT)
    const mine = ++this.powerOns
    this.call(() => guest.serve(START, facts.length))
    const check = (): void => {
      if (mine !== this.powerOns) throw new Error('the guest was powered on again')
    }
    return {
      serve: (count, nowUs) => {
        check()
        return this.call(() => guest.serve(count, nowUs))
      },
      idle: (nowUs) => {
        check()
        return this.call(() => guest.idle(nowUs))
      },
      memoryUsed: () => guest.memoryUsed(),
      dispose: () => {},
    }
  }

  private call(run: () => number): number {
    try {
      return run()
    } catch (error) {
      this.spent = true
      throw error
    }
  }

  /** What the option `answer` comes to now. Ruins what lies in the receive places. */
  ask(): string {
    const pieces: string[] = []
    let count = this.guest.serve(ASK, 0)
    while (count > 0) {
      const text = this.guest.packets.subarray(TEXT_AT, TEXT_AT + count)
      pieces.push(Buffer.from(text).toString('latin1'))
      count = this.guest.serve(ASK, 1)
    }
    return pieces.join('')
  }

  /** All of its memory, as it is now. */
  image(): Uint8Array {
    return this.memory.slice()
  }

  dispose(): void {
    this.guest.dispose()
  }
}

/**
 * Where the runtime keeps the size at which it collects next, a word's place. The engine lets
 * nobody ask for a collection, but it looks at this word whenever it makes an object, and writes it
 * when it has collected.
 */
function thresholdOf(words: Int32Array): number {
  const found: number[] = []
  for (let at = words.indexOf(LIMIT); at >= 0; at = words.indexOf(LIMIT, at + 1)) {
    const place = at + (THRESHOLD_OFFSET - LIMIT_OFFSET) / 4
    if (words[place] === THRESHOLD_FIRST) found.push(place)
  }
  if (found.length !== 1) throw new Error('the engine keeps its runtime in another form')
  return found[0]!
}
