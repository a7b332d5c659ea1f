/**
 * A full-duplex Ethernet link between two ends that does to frames what a bad network does.
 *
 * Invariants:
 * - A frame is copied when it is sent; the receiver may keep what it gets.
 * - The two directions do not share chance: what one end sends never changes what becomes of the
 *   other end's frames. The same seed and the same frames at the same times end the same way.
 * - Every frame that is sent is counted, and so is everything that was done to it.
 * - The tap sees what the cable carries: every frame as it leaves its sender, the lost ones too.
 */

import type { Clock } from '../../clock.ts'
import { FUNCTION, type Kinds, OBJECT, oneOf } from '../../kinds.ts'
import { CLOCK, check, checkFields, MICROSECONDS, NUMBER, PROBABILITY } from '../base/arguments.ts'
import { Random } from '../base/random.ts'

/** The ends of the link: `a` is the host's by custom, `b` the DPU's. */
export type LinkEnd = 'a' | 'b'

/** What a direction does to its frames. Probabilities go from 0 to 1; all are 0 unless given. */
export interface LinkFaults {
  readonly loss?: number
  readonly duplication?: number
  /** The frame is held back, so that later ones overtake it. */
  readonly reordering?: number
  /** One bit of the frame is flipped. */
  readonly corruption?: number
  /** How long a frame that is held back stays at most, microseconds. */
  readonly reorderUs?: number
  /** Up to so much is added to the latency of each frame, microseconds; the order stays. */
  readonly jitterUs?: number
}

/** What a script wants done to one frame; what it leaves out does not happen. */
export interface Verdict {
  readonly drop?: boolean
  /** Further copies that arrive. */
  readonly copies?: number
  /** Time added to the latency, microseconds; later frames may overtake. */
  readonly delayUs?: number
  /** The bit to flip, counted from the first of the frame. */
  readonly flipBit?: number
}

/**
 * Decides about the `number`-th frame (from 0) of its direction, before chance does. A frame for
 * which it returns a verdict is spared by chance.
 */
export type LinkScript = (frame: Uint8Array, from: LinkEnd, number: number) => Verdict | undefined

export interface LinkOptions {
  readonly clock: Clock
  readonly seed?: number
  /** Time from end to end, microseconds. */
  readonly latencyUs?: number
  /** What happens to the frames of both ends, unless `faultsFrom` names the end. */
  readonly faults?: LinkFaults
  readonly faultsFrom?: Partial<Record<LinkEnd, LinkFaults>>
  readonly script?: LinkScript
  readonly tap?: (frame: Uint8Array, timeUs: number, from: LinkEnd) => void
}

export interface LinkCounts {
  sent: number
  sentBytes: number
  delivered: number
  lost: number
  duplicated: number
  reordered: number
  corrupted: number
}

interface Direction {
  readonly random: Random
  readonly counts: LinkCounts
  faults: LinkFaults
  /** When the last frame in order arrives: the next one may not arrive before it. */
  lastUs: number
}

const LATENCY_US = 2
const REORDER_US = 50

const END = oneOf(['a', 'b'])

const FAULT_KINDS: Kinds<LinkFaults> = {
  ...{ loss: PROBABILITY, duplication: PROBABILITY, reordering: PROBABILITY },
  ...{ corruption: PROBABILITY, reorderUs: MICROSECONDS, jitterUs: MICROSECONDS },
}

const LINK_KINDS: Kinds<LinkOptions> = {
  ...{ clock: CLOCK, seed: NUMBER, latencyUs: MICROSECONDS, faults: OBJECT, faultsFrom: OBJECT },
  ...{ script: FUNCTION, tap: FUNCTION },
}

function checkFaults(faults: LinkFaults | undefined): void {
  if (faults !== undefined) checkFields('faults of a link', faults, FAULT_KINDS)
}

export class Link {
  script: LinkScript | undefined
  tap: LinkOptions['tap']
  private readonly clock: Clock
  private readonly latencyUs: number
  private readonly directions: Readonly<Record<LinkEnd, Direction>>
  private readonly receivers: Partial<Record<LinkEnd, (frame: Uint8Array) => void>> = {}

  constructor(options: LinkOptions) {
    checkFields('a link', options, LINK_KINDS, ['clock'])
    for (const faults of [options.faults, options.faultsFrom?.a, options.faultsFrom?.b]) {
      checkFaults(faults)
    }
    const random = new Random(options.seed ?? 0)
    const direction = (end: LinkEnd): Direction => ({
      random: random.fork(),
      counts: {
        sent: 0,
        sentBytes: 0,
        delivered: 0,
        lost: 0,
        duplicated: 0,
        reordered: 0,
        corrupted: 0,
      },
      faults: options.faultsFrom?.[end] ?? options.faults ?? {},
      lastUs: 0,
    })
    this.clock = options.clock
    this.latencyUs = options.latencyUs ?? LATENCY_US
    this.directions = { a: direction('a'), b: direction('b') }
    this.script = options.script
    this.tap = options.tap
  }

  /** Sets who receives at an end. Frames that arrive where nobody receives are lost. */
  attach(end: LinkEnd, receive: (frame: Uint8Array) => void): void {
    check('end', end, END)
    check('receive', receive, FUNCTION)
    this.receivers[end] = receive
  }

  /** Changes what happens to the frames that an end sends from now on. */
  setFaults(from: LinkEnd, faults: LinkFaults): void {
    check('end', from, END)
    checkFields('faults of a link', faults, FAULT_KINDS)
    this.directions[from].faults = faults
  }

  /** Counted per sender. */
  counts(from: LinkEnd): Readonly<LinkCounts> {
    check('end', from, END)
    return this.directions[from].counts
  }

  send(from: LinkEnd, frame: Uint8Array): void {
    const direction = this.directions[from]
    const { counts } = direction
    const number = counts.sent++
    counts.sentBytes += frame.length
    // Of a Buffer `slice` would be a view.
    const copy = new Uint8Array(frame)
    this.tap?.(copy, this.clock.nowUs, from)
    const verdict = this.script?.(copy, from, number) ?? chance(direction, copy)
    if (verdict.drop === true) {
      counts.lost++
      return
    }
    const { copies = 0, delayUs, flipBit } = verdict
    let carried = copy
    if (flipBit !== undefined && flipBit >= 0 && flipBit < copy.length * 8) {
      counts.corrupted++
      carried = copy.slice()
      carried[flipBit >> 3] = carried[flipBit >> 3]! ^ (0x80 >> (flipBit & 7))
    }
    counts.duplicated += copies
    if (delayUs !== undefined) counts.reordered++
    const arrivesUs = this.arrival(direction, delayUs)
    for (let i = 0; i <= copies; i++)
      this.carry(from, i === 0 ? carried : carried.slice(), arrivesUs)
  }

  /** When a frame arrives. One that is held back does not hold back those behind it. */
  private arrival(direction: Direction, delayUs: number | undefined): number {
    const { jitterUs = 0 } = direction.faults
    const soonest = this.clock.nowUs + this.latencyUs
    if (delayUs !== undefined) return soonest + delayUs
    const late = jitterUs === 0 ? 0 : direction.random.below(jitterUs + 1)
    direction.lastUs = Math.max(direction.lastUs, soonest + late)
    return direction.lastUs
  }

  private carry(from: LinkEnd, frame: Uint8Array, arrivesUs: number): void {
    const { counts } = this.directions[from]
    this.clock.schedule(arrivesUs, () => {
      const receive = this.receivers[from === 'a' ? 'b' : 'a']
      if (receive === undefined) {
        counts.lost++
        return
      }
      counts.delivered++
      receive(frame)
    })
  }
}

/** What chance does to a frame. Every fault takes its numbers, whether it strikes or not. */
function chance(direction: Direction, frame: Uint8Array): Verdict {
  const { random, faults } = direction
  const { loss = 0, duplication = 0, reordering = 0, corruption = 0 } = faults
  if (loss === 0 && duplication === 0 && reordering === 0 && corruption === 0) return {}
  const drop = random.chance(loss)
  const copies = random.chance(duplication) ? 1 : 0
  const isHeld = random.chance(reordering)
  const delay = 1 + random.below(faults.reorderUs ?? REORDER_US)
  const isFlipped = random.chance(corruption)
  const flipBit = random.below(Math.max(1, frame.length * 8))
  return {
    drop,
    copies,
    ...(isHeld ? { delayUs: delay } : {}),
    ...(isFlipped ? { flipBit } : {}),
  }
}
