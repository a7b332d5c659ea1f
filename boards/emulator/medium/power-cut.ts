/**
 * What a power cut leaves: the adversary of crash-model 2.1, by the strategies of 2.5.
 *
 * Invariant: afterwards nothing is pending, what loads see is what is durable, and each
 * unit of the pending pieces (pieces.ts) holds one of its states. The same choice of the same
 * generator leaves the same image.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { BOOLEAN, FUNCTION, type Kinds, oneOf } from '../../kinds.ts'
import { check, checkFields, NVDIMM, RANDOM } from '../base/arguments.ts'
import type { Random } from '../base/random.ts'
import type { Nvdimm } from './nvdimm.ts'
import {
  CUT_MODE,
  type CutMode,
  collect,
  faultsOf,
  healingOf,
  linesOf,
  type Pieces,
  placeBase,
  placePiece,
  placeState,
  settleFaults,
  type Unit,
  unitsOf,
} from './pieces.ts'

/** How the adversary chooses (crash-model 2.5). */
export type CutStrategy =
  | 'none' // nothing pending survives
  | 'all' // everything does
  | 'all-but-one' // one unit does not, or not fully
  | 'exactly-one' // only one unit does, fully or in part
  | 'prefix' // the units stored first
  | 'suffix' // the units stored last
  | 'alternate-lines' // the even lines, or the odd ones
  | 'tenth' // each unit with probability 0.1
  | 'half' // each with 0.5
  | 'most' // each with 0.9
  | 'only-matching' // the units that `matches` names
  | 'all-but-matching' // the others

/** The strategies that need no `matches`; without a strategy one of them is drawn. */
export const CUT_STRATEGIES: readonly CutStrategy[] = [
  'none',
  'all',
  'all-but-one',
  'exactly-one',
  'prefix',
  'suffix',
  'alternate-lines',
  'tenth',
  'half',
  'most',
]

export interface CutChoice {
  readonly random: Random
  /** 'chunk' if absent. */
  readonly mode?: CutMode
  readonly strategy?: CutStrategy
  /** By the offset of the first byte of a unit. */
  readonly matches?: (at: number) => boolean
  /** The save energy fails: what the last fences covered may be lost, and the part counts it. */
  readonly adrFail?: boolean
}

const CHOICE_KINDS: Kinds<CutChoice> = {
  ...{ random: RANDOM, mode: CUT_MODE, matches: FUNCTION, adrFail: BOOLEAN },
  strategy: oneOf([...CUT_STRATEGIES, 'only-matching', 'all-but-matching']),
}

/** Throws a RangeError unless a cut can be made so. */
export function checkChoice(
  choice: Partial<CutChoice>,
  needed: readonly (keyof CutChoice)[] = [],
): void {
  checkFields('a cut', choice, CHOICE_KINDS, needed)
}

/** What a cut did. */
export interface CutReport {
  readonly mode: CutMode
  readonly strategy: CutStrategy
  readonly adrFailed: boolean
  /** Pieces that were pending. */
  readonly pieces: number
  /** Chunks that were pending, and how many of them are now as they were last stored. */
  readonly chunks: number
  readonly chunksKept: number
  /** Lines that were pending, and how many are now neither as they were nor as last stored. */
  readonly lines: number
  readonly linesTorn: number
}

/** A pending chunk: its offset, and what it may hold, durable first, then in store order. */
export interface PendingChunk {
  readonly at: number
  /** Eight bytes each. */
  readonly versions: Uint8Array[]
}

/** The state that a strategy gives to unit `i`; `one` is the unit it singles out. */
function choose(
  choice: CutChoice,
  strategy: CutStrategy,
  units: readonly Unit[],
  i: number,
  one: number,
): number {
  const { wordAt, stateCount } = units[i]!
  const all = stateCount - 1
  const random = choice.random
  switch (strategy) {
    case 'none':
      return 0
    case 'all':
      return all
    case 'all-but-one':
      return i === one ? random.below(all) : all
    case 'exactly-one':
      return i === one ? 1 + random.below(all) : 0
    case 'prefix':
      return i < one ? all : i === one ? random.below(stateCount) : 0
    case 'suffix':
      return i > one ? all : i === one ? random.below(stateCount) : 0
    case 'alternate-lines':
      return ((wordAt >> 4) & 1) === (one & 1) ? all : 0
    case 'only-matching':
      return choice.matches?.(wordAt * 4) === true ? all : 0
    case 'all-but-matching':
      return choice.matches?.(wordAt * 4) === true ? 0 : all
    default: {
      const probability = strategy === 'tenth' ? 0.1 : strategy === 'half' ? 0.5 : 0.9
      return random.chance(probability) ? all : random.below(all)
    }
  }
}

/** How many pieces of the whole order a strategy leaves under 'strict'. */
function choosePrefix(strategy: CutStrategy, random: Random, count: number): number {
  if (strategy === 'none' || count === 0) return 0
  if (strategy === 'all') return count
  if (strategy === 'all-but-one') return count - 1
  if (strategy === 'exactly-one') return 1
  return random.below(count + 1)
}

function survive(part: Nvdimm, pieces: Pieces, choice: CutChoice, strategy: CutStrategy): void {
  if (choice.mode === 'strict') {
    placeBase(part, pieces)
    const count = choosePrefix(strategy, choice.random, pieces.chunk.length)
    for (let i = 0; i < count; i++) placePiece(part, pieces, i)
    return
  }
  const units = unitsOf(part, pieces, choice.mode ?? 'chunk')
  placeBase(part, pieces)
  const one = units.length === 0 ? 0 : choice.random.below(units.length)
  for (let i = 0; i < units.length; i++) {
    placeState(part, units[i]!, choose(choice, strategy, units, i, one))
  }
}

/** Counts what became of the pieces. */
function report(part: Nvdimm, pieces: Pieces, choice: CutChoice, strategy: CutStrategy): CutReport {
  const last = new Map<number, number>()
  pieces.chunk.forEach((chunk, i) => {
    last.set(chunk, i)
  })
  const changed = new Set<number>()
  const incomplete = new Set<number>()
  let chunksKept = 0
  for (const [chunk, i] of last) {
    const [low, high] = pieces.base.get(chunk)!
    const isLow = part.durableWords[2 * chunk]
    const isHigh = part.durableWords[2 * chunk + 1]
    const isKept = isLow === pieces.low[i] && isHigh === pieces.high[i]
    if (isKept) chunksKept++
    else incomplete.add(chunk >> 3)
    if (isLow !== low || isHigh !== high) changed.add(chunk >> 3)
  }
  return {
    mode: choice.mode ?? 'chunk',
    strategy,
    adrFailed: choice.adrFail ?? false,
    pieces: pieces.chunk.length,
    chunks: last.size,
    chunksKept,
    lines: linesOf(pieces).length,
    linesTorn: [...changed].filter((line) => incomplete.has(line)).length,
  }
}

/** What is pending, chunk by chunk in ascending order, with every version that it may hold. */
export function pending(part: Nvdimm): PendingChunk[] {
  check('part', part, NVDIMM)
  const pieces = collect(part, [])
  const chunks = new Map<number, Uint8Array[]>()
  const bytesOf = (low: number, high: number): Uint8Array =>
    new Uint8Array(Int32Array.of(low, high).buffer)
  for (const [chunk, [low, high]] of pieces.base) chunks.set(chunk, [bytesOf(low, high)])
  pieces.chunk.forEach((chunk, i) => {
    chunks.get(chunk)!.push(bytesOf(pieces.low[i]!, pieces.high[i]!))
  })
  const sorted = [...chunks].sort(([a], [b]) => a - b)
  return sorted.map(([chunk, versions]) => ({ at: chunk * 8, versions }))
}

/** The bytes of those lines, one behind the other. */
function bytesOf(of: Uint8Array, lines: Int32Array): Uint8Array {
  const bytes = new Uint8Array(lines.length * LINE_BYTES)
  lines.forEach((line, i) => {
    bytes.set(of.subarray(line * LINE_BYTES, (line + 1) * LINE_BYTES), i * LINE_BYTES)
  })
  return bytes
}

/** Has the backing take over what the cut left: what it cannot take was not left, either. */
function keepUp(part: Nvdimm, lines: Int32Array, before: Uint8Array): void {
  const left = bytesOf(part.durable, lines)
  const { durable, live } = part
  // The part is as its backing is until that has taken each piece.
  lines.forEach((line, i) => {
    durable.set(before.subarray(i * LINE_BYTES, (i + 1) * LINE_BYTES), line * LINE_BYTES)
  })
  part.writeThrough(lines, left)
  for (const line of lines) {
    const at = line * LINE_BYTES
    live.set(durable.subarray(at, at + LINE_BYTES), at)
  }
}

/** Cuts the power of a part. Afterwards nothing is pending, and what loads see is durable. */
export function cut(part: Nvdimm, choice: CutChoice): CutReport {
  check('part', part, NVDIMM)
  checkChoice(choice, ['random'])
  const { random } = choice
  const strategy = choice.strategy ?? CUT_STRATEGIES[random.below(CUT_STRATEGIES.length)]!
  const pieces = collect(part, choice.adrFail === true ? part.fenced : [])
  const lines = Int32Array.from(linesOf(pieces)).sort()
  const healing = healingOf(part)
  const faults = faultsOf(part)
  if (part.journal !== null) {
    for (const line of lines) part.journal.note(part, line, line)
    for (const [line] of faults) part.journal.note(part, line, line)
  }
  const before = part.backing === null ? null : bytesOf(part.durable, lines)
  survive(part, pieces, choice, strategy)
  part.pendingStores.clear()
  part.fenced = []
  settleFaults(part, faults, healing)
  if (choice.adrFail === true) part.dirtyShutdowns++
  if (before !== null) keepUp(part, lines, before)
  part.noteCondition()
  return report(part, pieces, choice, strategy)
}
