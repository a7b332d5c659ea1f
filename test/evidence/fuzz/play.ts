/**
 * Episodes: worlds that are fuzzed one after the other, each from a seed of its own; and what is
 * done with one that complains.
 *
 * Invariant: an episode follows from its target and its seed. A complaint is played again,
 * with every step written down, and made as short as it gets; what is left is the violation.
 */

import type { Arena } from './arena.ts'
import { Control } from './control.ts'
import { finish, Ledger, mix } from './ledger.ts'
import { Lengths } from './lengths.ts'
import { Media } from './media.ts'
import { type Step, scriptText, shrunk } from './script.ts'
import { DIALOGUES, FAULTS, PACKETS, Traffic } from './traffic.ts'
import { Work } from './work.ts'
import { pooledPackets, type WorldOptions } from './world.ts'

/** What is attacked. */
export type Target = 'packets' | 'dialogues' | 'lengths' | 'faults' | 'control' | 'work' | 'media'

export const TARGETS: readonly Target[] = [
  'packets',
  'dialogues',
  'lengths',
  'faults',
  'control',
  'work',
  'media',
]

/** A world that is being fuzzed. */
export interface Episode {
  readonly arena: Arena
  /** So many inputs more; it ends early with a complaint. */
  run(count: number): void
}

interface Opening {
  readonly open: (options: WorldOptions) => Episode
  /** Inputs of one episode. */
  readonly inputs: number
}

const OPENINGS: Readonly<Record<Target, Opening>> = {
  packets: { open: (options) => new Traffic(options, PACKETS), inputs: 60_000 },
  dialogues: { open: (options) => new Traffic(options, DIALOGUES), inputs: 40_000 },
  lengths: { open: (options) => new Lengths(options), inputs: 1 },
  faults: { open: (options) => new Traffic(options, FAULTS), inputs: 4000 },
  control: { open: (options) => new Control(options), inputs: 30_000 },
  work: { open: (options) => new Work(options), inputs: 2000 },
  media: { open: (options) => new Media(options), inputs: 1000 },
}

/** The seed of episode `i` of a shard. */
export function episodeSeed(seed: number, i: number): number {
  return finish(mix(mix(0x9e37, seed), i)) >>> 0
}

/** A fresh world of that seed, as an episode begins. */
export function openEpisode(target: Target, seed: number): Episode {
  return OPENINGS[target].open({ seed, packets: pooledPackets() })
}

/** Plays one episode into the ledger; its complaint, or nothing. */
export function playEpisode(episode: Episode, inputs: number, ledger: Ledger): string {
  const { world, keeper } = episode.arena
  world.ledger = ledger
  episode.run(inputs)
  world.tell(ledger)
  ledger.seeds++
  ledger.count('power cuts behind an acknowledgement', keeper.cuts)
  ledger.count('records of good clients', keeper.written)
  if (episode instanceof Lengths) ledger.count('kinds cut off at every byte', episode.kinds)
  return world.complaint
}

/** Steps played on a fresh world of that seed; the world as they leave it. */
function playSteps(target: Target, seed: number, steps: readonly Step[]): Arena {
  const { arena } = openEpisode(target, seed)
  for (const step of steps) {
    arena.apply(step)
    if (arena.world.complaint !== '') break
  }
  return arena
}

/** The steps of an episode up to its complaint. */
function stepsOf(target: Target, seed: number, inputs: number): Step[] {
  const episode = openEpisode(target, seed)
  const script: Step[] = []
  episode.arena.world.script = script
  episode.run(inputs)
  return script
}

/** Characters of an argument that every system takes; one of Linux has 128 KiB at the most. */
const ARGUMENT_CHARS = 100_000

/** What these do is not all of it a step; what is said of them is how many inputs it takes. */
const UNSCRIPTED: readonly Target[] = ['work', 'media']

function fewestInputs(target: Target, seed: number, inputs: number): number {
  let enough = inputs
  for (let least = 1; least < enough; ) {
    const half = (least + enough) >> 1
    const episode = openEpisode(target, seed)
    episode.run(half)
    if (episode.arena.world.complaint !== '') enough = half
    else least = half + 1
  }
  return enough
}

/** The argument that plays a complaint again, as short as it gets. */
function replayOf(target: Target, seed: number, inputs: number): string {
  if (UNSCRIPTED.includes(target)) return `${target}/${seed}/${fewestInputs(target, seed, inputs)}`
  const steps = stepsOf(target, seed, inputs)
  const fails = (some: readonly Step[]): boolean => {
    return playSteps(target, seed, some).world.complaint !== ''
  }
  if (!fails(steps)) return `${target}/${seed}/${inputs}`
  const text = scriptText(shrunk(steps, fails))
  if (text.length > ARGUMENT_CHARS) return `${target}/${seed}/${fewestInputs(target, seed, inputs)}`
  return `${target}/${seed}/${text}`
}

/** Plays so many inputs of a target into a ledger. */
export function fuzzInto(
  ledger: Ledger,
  target: Target,
  seed: number,
  inputs: number,
  progress: (share: number) => void = () => {},
): void {
  const begun = ledger.inputs
  for (let i = 0; ledger.inputs - begun < inputs; i++) {
    const left = inputs - (ledger.inputs - begun)
    const size = Math.min(left, OPENINGS[target].inputs)
    const one = episodeSeed(seed, i)
    const objection = objectionOf(ledger, target, one, size)
    if (objection !== null) {
      ledger.object(objection.what, objection.replay)
      // A card that complains at once would never come to an end.
      if (ledger.violations >= VIOLATIONS_MAX) return
    }
    progress((ledger.inputs - begun) / inputs)
  }
}

const VIOLATIONS_MAX = 3

/** One episode: what is wrong with the card, or with who attacks it, and how to see it again. */
function objectionOf(
  ledger: Ledger,
  target: Target,
  seed: number,
  inputs: number,
): { readonly what: string; readonly replay: string } | null {
  try {
    const what = playEpisode(openEpisode(target, seed), inputs, ledger)
    return what === '' ? null : { what, replay: replayOf(target, seed, inputs) }
  } catch (error) {
    // Not the card's: that is protected. A harness that throws cannot be made shorter.
    const what = `the stage threw: ${(error as Error).stack}`
    return { what, replay: `${target}/${seed}/${inputs}` }
  }
}

/** What came of a few inputs: for whoever wants to know whether a change is noticed. */
interface Fuzzed {
  readonly inputs: number
  readonly violations: number
  readonly described: readonly string[]
  readonly cells: number
}

/** Plays so many inputs of a target from a seed. */
export function fuzzOnce(target: Target, seed: number, inputs: number): Fuzzed {
  const ledger = new Ledger(target, `${target} ${seed}`)
  fuzzInto(ledger, target, seed, inputs)
  const { described, violations } = ledger
  return {
    inputs: ledger.inputs,
    violations,
    described: described.map(({ what }) => what),
    cells: Object.keys(ledger.tally().cells).length,
  }
}
