/**
 * How the power goes in a simulated world: what survives of what was pending, and the name of the
 * cell that a cut falls into (strategy × phase of the commit × what the restart made of it).
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { CutMode } from '../../../boards/emulator/medium/pieces.ts'
import {
  CUT_STRATEGIES,
  type CutChoice,
  type CutStrategy,
} from '../../../boards/emulator/medium/power-cut.ts'
import type { Layout } from './medium.ts'

const LANES_AT = 8192
const TABLE_AT = 12288
const DATA_AT = 28672
const LINE_BYTES = 64
const CHECK_BYTES = 16

/** Strategies of our own beside those of the emulator: by what the bytes are (crash-model 2.5). */
const CHOSEN = ['only-check', 'all-but-check', 'only-meta', 'only-data', 'one-new'] as const

export const STRATEGIES: readonly string[] = [...CUT_STRATEGIES, ...CHOSEN]

const MODES: readonly CutMode[] = ['chunk', 'chunk', 'chunk', 'prefix', 'strict']

interface Choice {
  readonly name: string
  readonly choice: CutChoice
}

/** Draws what a cut leaves. */
export function choiceOf(random: Random, layout: Layout, adrFail: boolean): Choice {
  const place = random.below(STRATEGIES.length)
  const name = STRATEGIES[place]!
  const mode = MODES[random.below(MODES.length)]!
  const common = { random: random.fork(), mode, adrFail }
  if (place < CUT_STRATEGIES.length) {
    return { name, choice: { ...common, strategy: name as CutStrategy } }
  }
  const isCheck = (at: number): boolean =>
    at >= layout.at && ((at - layout.at) % layout.areaBytes) % layout.stride < CHECK_BYTES
  const isMeta = (at: number): boolean => at < DATA_AT
  const slot = random.below(layout.slots)
  const isOne = (at: number): boolean =>
    isMeta(at) ||
    Math.floor(((at - layout.at) % layout.areaBytes) / layout.stride) === slot ||
    ((at >> 3) & 1) === 0
  const strategy: CutStrategy = name === 'all-but-check' ? 'all-but-matching' : 'only-matching'
  const matches =
    name === 'only-meta'
      ? isMeta
      : name === 'only-data'
        ? (at: number): boolean => !isMeta(at)
        : name === 'one-new'
          ? isOne
          : isCheck
  return { name, choice: { ...common, mode: 'chunk', strategy, matches } }
}

/** Where a commit is, by what is pending. */
export const PHASES = ['nothing', 'lane', 'copy A', 'copy B', 'copy C+'] as const

export type Phase = (typeof PHASES)[number]

/** What is pending now, as a phase. */
export function phaseOf(part: Nvdimm, layout: Layout): Phase {
  const { line, mask, count } = part.pendingStores
  let phase: Phase = 'nothing'
  for (let entry = 0; entry < count; entry++) {
    if (mask[entry] === 0) continue
    const at = line[entry]! * LINE_BYTES
    if (at >= layout.at && at < layout.at + layout.copies * layout.areaBytes) {
      const copy = Math.floor((at - layout.at) / layout.areaBytes)
      return copy === 0 ? 'copy A' : copy === 1 ? 'copy B' : 'copy C+'
    }
    if (at >= LANES_AT && at < TABLE_AT) phase = 'lane'
  }
  return phase
}
