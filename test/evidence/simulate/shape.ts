/**
 * What a simulated world is like, and the script that is played in it: both are plain data, and
 * follow from a seed. A script may be cut down, and plays on all the same.
 *
 * What always holds: each step has a number of its own, from which all of its chance comes, so that
 * a step does much the same when steps before it are left out.
 */

import { Random } from '../../../boards/emulator/random.ts'

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
  /** 0 no region of bytes, 1 one, 2 one that is registered write-persist. */
  readonly bytes: number
  /** Share of frames that meet a fault, in 65,536. */
  readonly network: number
  /** Media errors; health faults; failed saves. */
  readonly media: boolean
  readonly health: boolean
  readonly adr: boolean
  /** How often each kind of operation comes (operation.ts). */
  readonly mix: readonly number[]
}

export interface Script {
  readonly world: Shape
  readonly steps: readonly Line[]
}

/** Kinds of worlds: which faults there are. */
export const WORLDS = ['mixed', 'calm', 'network', 'media', 'health', 'bytes', 'batch'] as const

export type World = (typeof WORLDS)[number]

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
}

export function shapeOf(random: Random, world: World): Shape {
  const all = world === 'mixed'
  const rough = oneOf(random, [0, 0, 300, 1500, 6000])
  return {
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
  }
}

/** Steps of a script, by how often they come. */
function stepFor(random: Random, { network, media, health }: Shape): number {
  const drawn = random.below(100)
  if (drawn < 44) return 0
  if (drawn < 80) return 1
  if (drawn < 87) return 2
  if (drawn < 92) return media || health ? 3 : 0
  if (drawn < 95) return media || health ? 4 : 0
  if (drawn < 96) return 5
  if (drawn < 98) return network > 0 ? 6 : 0
  return 7
}

/** The script of a seed. */
export function scriptOf(seed: number, steps: number, world?: World): Script {
  const random = new Random(seed)
  const drawn = oneOf(random, WORLDS)
  const shape = shapeOf(random, world ?? drawn)
  const lines: Line[] = []
  for (let i = 0; i < steps; i++) lines.push([stepFor(random, shape), random.next()])
  return { world: shape, steps: lines }
}
