/**
 * The network between the simulated hosts and DPUs: it does to frames whatever a network may do.
 *
 * Invariant: with `quiet` set every frame arrives once and in order. A frame that is
 * changed is changed in a copy; what its ICRC then says is what a switch would have left. Frames
 * that are kept to be sent again, perhaps behind a restart, are copies, too.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { get24, seal } from './frames.ts'

/** What the network did, by name: the cells of the stage. */
export const NETWORK_FAULTS = [
  'loss',
  'duplicate',
  'overtake',
  'delay',
  'flip',
  'truncate',
  'lengthen',
  'foreign',
  'replay',
  'garbage',
] as const

type NetworkFault = (typeof NETWORK_FAULTS)[number]

/** Delays, µs: within a burst, beyond the retry timeout, beyond every timer. */
const DELAYS = [15, 200, 1_500, 8_000, 3_000_000]

/** Where a frame has its protocol, the last byte of its host's address, opcode, and queue pair. */
const PROTOCOL = 23
const HOST = 29
const OPCODE = 42
const QUEUE_PAIR = 47

/** Frames that are kept to be sent again. */
const KEPT = 32

interface Late {
  readonly atUs: number
  readonly to: Lane
  readonly frame: Uint8Array
}

/** Frames on their way to one receiver, in order. */
export class Lane {
  frames: Uint8Array[] = []
  /** A card takes damaged frames, as its board looks at them; a host's NIC drops them. */
  readonly takesDamaged: boolean
  readonly kept: Uint8Array[] = []
  keptAt = 0

  constructor(takesDamaged: boolean) {
    this.takesDamaged = takesDamaged
  }

  /** The next frames, at the most so many. */
  take(count: number): Uint8Array[] {
    const { frames } = this
    if (frames.length <= count) {
      this.frames = []
      return frames
    }
    return frames.splice(0, count)
  }
}

/** Who is inside the network, and decides what goes on to `to`. */
export interface Intruder {
  /** A frame goes to `to`: it goes on, or what he makes of it. */
  meet(to: Lane, frame: Uint8Array): void
  /** From here on his chance comes from there. */
  reseed(random: Random): void
}

export class Network {
  intruder: Intruder | null = null
  /** Of 65,536 frames so many meet a fault. */
  faultsIn65536 = 0
  quiet = false
  /** Queue pairs that a card has made for a host, by which it is known. */
  private readonly made: Map<number, Set<number>> = new Map()
  readonly counts: Record<NetworkFault, number>
  private late: Late[] = []
  private random: Random

  constructor(random: Random) {
    this.random = random
    this.counts = Object.fromEntries(NETWORK_FAULTS.map((name) => [name, 0])) as Record<
      NetworkFault,
      number
    >
  }

  /** From here on chance comes from there: each step of a script has its own. */
  reseed(random: Random): void {
    this.random = random
    this.intruder?.reseed(random.fork())
  }

  send(to: Lane, frame: Uint8Array, nowUs: number): void {
    if (this.quiet) {
      to.frames.push(frame)
      return
    }
    const drawn = this.random.next()
    if ((drawn & 0xffff) >= this.faultsIn65536) this.pass(to, frame)
    else this.harm(to, frame, nowUs, NETWORK_FAULTS[(drawn >>> 16) % NETWORK_FAULTS.length]!)
    if (drawn >>> 27 === 0) this.keep(to, frame)
  }

  private pass(to: Lane, frame: Uint8Array): void {
    if (this.intruder === null) to.frames.push(frame)
    else this.intruder.meet(to, frame)
  }

  private keep(to: Lane, frame: Uint8Array): void {
    to.kept[to.keptAt] = frame.slice()
    to.keptAt = (to.keptAt + 1) % KEPT
  }

  private harm(to: Lane, frame: Uint8Array, nowUs: number, fault: NetworkFault): void {
    const { random } = this
    this.counts[fault]++
    const damaged = (make: () => Uint8Array): void => {
      if (to.takesDamaged) to.frames.push(make())
    }
    switch (fault) {
      case 'loss':
        return
      case 'duplicate':
        to.frames.push(frame, frame)
        return
      case 'overtake':
        to.frames.splice(Math.max(0, to.frames.length - 1 - random.below(3)), 0, frame)
        return
      case 'delay':
        this.postpone(to, frame.slice(), nowUs + DELAYS[random.below(DELAYS.length)]!)
        return
      case 'flip':
        damaged(() => this.flipped(frame))
        return
      case 'truncate':
        damaged(() => frame.slice(0, random.below(frame.length)))
        return
      case 'lengthen':
        // An Ethernet pad, or what a bad switch appends: the lengths in IP count.
        damaged(() => Uint8Array.from([...frame, ...new Uint8Array(1 + random.below(60))]))
        return
      case 'foreign':
        damaged(() => this.foreign(frame))
        if (random.chance(0.5)) to.frames.push(frame)
        return
      case 'replay':
        to.frames.push(frame)
        this.replay(to)
        return
      default:
        damaged(() => this.garbage(frame))
        to.frames.push(frame)
    }
  }

  private postpone(to: Lane, frame: Uint8Array, atUs: number): void {
    this.late.push({ atUs, to, frame })
  }

  private flipped(frame: Uint8Array): Uint8Array {
    const copy = frame.slice()
    for (let i = 0; i <= this.random.below(3); i++) {
      copy[this.random.below(copy.length)]! ^= 1 << this.random.below(8)
    }
    return copy
  }

  /**
   * For another address, or of another protocol; its ICRC is right. It is no request that the card
   * could take for one of the same host.
   */
  private foreign(frame: Uint8Array): Uint8Array {
    const copy = frame.slice()
    const at = [5, 12, 23, 33, 36, OPCODE, 44, QUEUE_PAIR + 2][this.random.below(8)]!
    copy[at] = copy[at]! ^ (1 << this.random.below(7))
    if (at === OPCODE) copy[at] = 0x20 | (copy[at]! & 0x1f)
    if (this.made.get(copy[HOST]!)?.has(get24(copy, QUEUE_PAIR))) copy[PROTOCOL]! ^= 1
    return seal(copy)
  }

  /** A card has made that queue pair for that host. */
  noteQueuePair(host: number, queuePair: number): void {
    const made = this.made.get(host) ?? new Set()
    this.made.set(host, made.add(queuePair))
  }

  private garbage(frame: Uint8Array): Uint8Array {
    const copy = frame.slice()
    this.random.fill(copy, 14, copy.length - 14)
    return copy
  }

  /** Sends again what was sent some time ago, perhaps before a restart. */
  replay(to: Lane): void {
    const { kept } = to
    if (kept.length > 0) to.frames.push(kept[this.random.below(kept.length)]!)
  }

  /** What was late and is due comes in behind what is there. */
  arrive(nowUs: number): void {
    const { late } = this
    if (late.length === 0) return
    const due = late.filter(({ atUs }) => atUs <= nowUs)
    if (due.length === 0) return
    this.late = late.filter(({ atUs }) => atUs > nowUs)
    for (const { to, frame } of due) to.frames.push(frame)
  }

  /** Nothing is on its way any more. */
  drain(): void {
    this.late = []
  }
}
