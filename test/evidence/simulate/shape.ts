/**
 * What a simulated world is like, and the script that is played in it: both are plain data, and
 * follow from a seed. A script may be cut down, and plays on all the same.
 *
 * Invariant: each step has a number of its own, from which all of its chance comes, so that
 * a step does much the same when steps before it are left out.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { INCARNATION_LAST, type Worn } from './medium.ts'

/** What a step does; the place in this list is its number in a script. */
export const STEPS = [
  'work', // clients post operations, frames go to and fro
  'cut', // the power of a card goes, inside a burst or between two, and comes back
  'pass', // time passes: timers, idle work, retries
  'fault', // something happens to a part
  'heal', // what is wrong with a part is mended
  'die', // a host goes, and comes back as another
  'replay', // old frames come again
  'control', // an operator asks, scans, gives up what is lost
  'host', // something happens to the card's own host
  'relay', // something happens to the relays between cards, or to who may have one
] as const

export type Step = (typeof STEPS)[number]

/** Number of the step, and its own seed. */
export type Line = readonly [step: number, seed: number]

export interface Shape {
  /** Clients of each host at each card. */
  readonly hosts: number
  readonly cards: number
  readonly clients: number
  readonly slots: number
  readonly capacity: number
  readonly copies: number
  readonly mtu: number
  /** 0 no region of bytes, 1 one, KEPT_BYTES one that is registered write-persist. */
  readonly bytes: number
  /** Share of frames that meet a fault, in 65,536. */
  readonly network: number
  /** Media errors; health faults; failed saves. */
  readonly media: boolean
  readonly health: boolean
  readonly adr: boolean
  /** Media errors hit many records, and hosts die all the time. */
  readonly full: boolean
  /** The card has a host of its own behind it, and regions in its memory. */
  readonly hosted: boolean
  /** The cards have peers, and somebody is inside the network. */
  readonly attacked?: boolean
  /** The cards have peers, and each of them relays to the next one in a session there. */
  readonly relays?: boolean
  /** How often each kind of operation comes (operation.ts). */
  readonly mix: readonly number[]
  /** What the clock shows when it begins, microseconds, and how many operations clients had. */
  readonly begunUs: number
  readonly operationsBefore: number
  readonly ends: Ends
}

export const KEPT_BYTES = 2

/** Numbers that are near their ends when they begin. */
export interface Ends {
  /** The first connections of each start begin beside the end of the PSNs. */
  readonly psns: boolean
  /** Batches that clients had before. */
  readonly batchesBefore: number
  /** Null for a part that is new. */
  readonly worn: Worn | null
}

export const NO_ENDS: Ends = { psns: false, batchesBefore: 0, worn: null }

export interface Script {
  readonly world: Shape
  readonly steps: readonly Line[]
}

/**
 * Kinds of worlds: which faults there are. In `wraps` counters begin beside their ends; in `full`
 * hosts die all the time, so that there are more clients than the table of operations has places,
 * media errors come in heaps, and mostly frames are lost. In `hosted` the card has a host of its
 * own, which is a machine with a power supply of its own, and most records lie in its memory.
 */
export const WORLDS = [
  'mixed',
  'calm',
  'network',
  'media',
  'health',
  'bytes',
  'batch',
  'wraps',
  'full',
  'hosted',
] as const

/**
 * Cards of this kind relay to each other. Each start of one takes a handshake for everybody who
 * comes to it, so these worlds are few and short, and are played beside all the others.
 */
export const RELAYS = 'relays'

export type World = (typeof WORLDS)[number] | typeof RELAYS

export const ALL_WORLDS: readonly World[] = [...WORLDS, RELAYS]

/** Those that a seed may draw where none is asked for. */
const DRAWN: readonly World[] = WORLDS.filter((world) => world !== 'hosted')

function oneOf<T>(random: Random, of: readonly T[]): T {
  return of[random.below(of.length)]!
}

//                 persist carried read record batch write look flush add swap aw query wrong stops
const MIXES: Readonly<Record<World, readonly number[]>> = {
  mixed: [40, 4, 24, 6, 8, 4, 3, 3, 3, 2, 2, 1, 1, 1],
  calm: [60, 4, 30, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
  network: [50, 4, 30, 6, 6, 0, 0, 0, 0, 0, 0, 2, 1, 1],
  media: [50, 4, 30, 6, 6, 0, 0, 0, 0, 0, 0, 1, 0, 1],
  health: [50, 4, 30, 6, 6, 2, 1, 2, 1, 0, 0, 1, 0, 0],
  bytes: [16, 0, 8, 2, 2, 20, 14, 10, 12, 8, 8, 0, 1, 0],
  batch: [12, 0, 14, 2, 60, 0, 0, 0, 0, 0, 0, 2, 0, 0],
  wraps: [40, 4, 24, 6, 8, 4, 3, 3, 3, 2, 2, 4, 1, 1],
  full: [50, 4, 26, 4, 10, 0, 0, 0, 0, 0, 0, 4, 0, 1],
  hosted: [50, 4, 30, 4, 5, 0, 0, 0, 0, 0, 0, 6, 1, 1],
  relays: [50, 4, 20, 2, 20, 0, 0, 0, 0, 0, 0, 2, 1, 1],
}

/** What there is more of than there is room for. */
const FULL = { hosts: 3, cards: 1, clients: 8, slots: 96, copies: 2, media: true } as const

/** One card and its host; of three clients of a host one asks for records of the card alone. */
const HOSTED = { cards: 1, clients: 3, bytes: 0 } as const

/** Where signed and unsigned words end; and far on, where another word is not 0. */
const CLOCK_WRAPS = [2 ** 31, 2 ** 32, 2 ** 48] as const
const OPERATION_WRAPS = [2 ** 31, 2 ** 32, 2 ** 52] as const
/**
 * Queue pairs have 16 bits of the incarnation; the sign of a record's sequence follows from it; and
 * behind the last there is none.
 */
const INCARNATION_WRAPS = [2 ** 16, 2 ** 19, INCARNATION_LAST] as const
const UPDATE_WRAPS = [2 ** 31, 2 ** 32] as const
const SAVE_WRAPS = [2 ** 31] as const
const BATCH_WRAPS = [2 ** 15, 2 ** 16] as const

/** A number that a counter reaches soon, and goes beyond. */
function besideWrap(random: Random, wraps: readonly number[], distance: number): number {
  return oneOf(random, wraps) - 1 - random.below(distance)
}

/** They have a generator of their own: the rest of a seed's world is the same without them. */
function endsOf(random: Random, world: World): Ends {
  const psns = random.chance(0.5)
  if (world !== 'wraps') return { ...NO_ENDS, psns }
  return {
    psns: true,
    batchesBefore: besideWrap(random, BATCH_WRAPS, 60),
    worn: {
      incarnation: besideWrap(random, INCARNATION_WRAPS, 100),
      update: besideWrap(random, UPDATE_WRAPS, 100),
      operations: besideWrap(random, OPERATION_WRAPS, 200),
      dirtyShutdowns: besideWrap(random, SAVE_WRAPS, 3),
    },
  }
}

function shapeOf(random: Random, world: World, ends: Ends): Shape {
  const wraps = world === 'wraps'
  const full = world === 'full'
  const hosted = world === 'hosted'
  const all = world === 'mixed' || wraps
  const rough = oneOf(random, [0, 0, 300, 1500, 6000])
  const shape = {
    hosts: 1 + random.below(3),
    cards: random.chance(0.2) ? 2 : 1,
    clients: 1 + random.below(2),
    slots: oneOf(random, [4, 16, 24, 48, 64]),
    capacity: oneOf(random, [64, 64, 64, 64, 64, 120, 128, 200, 300, 700]),
    copies: oneOf(random, [2, 2, 2, 3, 4]),
    mtu: oneOf(random, [256, 512, 1024, 4096]),
    bytes: world === 'bytes' || all || world === 'health' ? 1 + random.below(2) : 0,
    network: world === 'network' ? Math.max(300, rough) : all ? rough : 0,
    media: world === 'media' || (all && random.chance(0.3)),
    health: world === 'health' || (all && random.chance(0.3)),
    adr: (world === 'health' || all) && random.chance(0.2),
    mix: MIXES[world],
    begunUs: 1_000 + (wraps ? besideWrap(random, CLOCK_WRAPS, 20_000_000) : 0),
    operationsBefore: wraps ? besideWrap(random, OPERATION_WRAPS, 200) : 0,
    full,
    hosted,
    ends,
  }
  if (hosted) return { ...shape, ...HOSTED, ...smallShape(random) }
  if (world === RELAYS) return { ...shape, ...smallShape(random), ...relayShape(random) }
  // What is repeated where the medium has lost the record, too.
  return full ? { ...shape, ...FULL, network: rough > 0 ? 300 : 0 } : shape
}

/** Few records, so that what happens meets them. */
function smallShape(random: Random): Partial<Shape> {
  return {
    hosts: 1 + random.below(2),
    slots: oneOf(random, [1, 2, 4, 8, 24]),
    capacity: oneOf(random, [64, 64, 64, 120, 200]),
    copies: oneOf(random, [2, 2, 3]),
    network: oneOf(random, [0, 0, 0, 300]),
  }
}

/** Two cards mostly, and few clients: each makes a session at every start. */
function relayShape(random: Random): Partial<Shape> {
  return {
    relays: true,
    cards: random.chance(0.2) ? 3 : 2,
    clients: 1,
    media: random.chance(0.2),
    network: oneOf(random, [0, 0, 300, 1500]),
  }
}

/** Steps of a script, by how often they come. */
function stepFor(random: Random, shape: Shape): number {
  const { network, media, health, full, hosted } = shape
  const drawn = random.below(100)
  if (shape.relays && drawn < 87) return drawn < 44 ? 0 : drawn < 56 ? 1 : drawn < 78 ? 9 : 2
  if (hosted && drawn < 76) return drawn < 30 ? 0 : drawn < 40 ? 1 : 8
  if (full && drawn < 16) return drawn < 12 ? 5 : 3
  if (full && drawn < 36) return 7
  if (drawn < 44) return 0
  if (drawn < 80) return 1
  if (drawn < 87) return 2
  if (drawn < 92) return media || health ? 3 : 0
  if (drawn < 95) return media || health ? 4 : 0
  if (drawn < 96) return 5
  if (drawn < 98) return network > 0 ? 6 : 0
  return 7
}

/** Frames that the network harms by itself where somebody is inside it, in 65,536. */
const ATTACKED_LEAST = 300

/** Clients of each host there: every one makes a session at every start. */
const ATTACKED_CLIENTS = 3

/** The script of the same steps, with somebody inside the network. */
export function attackedScript({ world, steps }: Script): Script {
  const network = Math.max(ATTACKED_LEAST, world.network)
  const clients = Math.min(ATTACKED_CLIENTS, world.clients)
  return { steps, world: { ...world, network, clients, attacked: true } }
}

/** The script of a seed. */
export function scriptOf(seed: number, steps: number, world?: World): Script {
  const random = new Random(seed)
  const drawn = oneOf(random, DRAWN)
  const kind = world ?? drawn
  const shape = shapeOf(random, kind, endsOf(new Random(seed ^ 0x656e6473), kind))
  const lines: Line[] = []
  for (let i = 0; i < steps; i++) lines.push([stepFor(random, shape), random.next()])
  return { world: shape, steps: lines }
}
