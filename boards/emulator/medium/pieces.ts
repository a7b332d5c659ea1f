/**
 * What is pending in a part, cut into pieces, and the units that a power cut chooses between.
 *
 * A mode says which sets of pieces may survive a cut:
 *
 *   strict   a prefix of the store order over the whole part
 *   prefix   in each line, on its own, a prefix of the order in that line
 *   chunk    of each aligned chunk, on its own, any version from the durable one to the last
 *   line     each line whole, as it was or as it is
 *
 * Invariant: strict is contained in prefix, prefix in chunk (crash-model 2.1). Except for
 * strict, a mode divides the pieces into units that choose independently; a unit has a list of
 * states, the first being that nothing of it survived, the last that everything did. A line may be
 * said to be coarse: whatever the mode, it is one unit, and survives wholly or not at all. States
 * that are equal to the byte are one. After an ADR failure the pieces of the last fences count as
 * pending, too.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { type Kind, oneOf } from '../../kinds.ts'
import type { FencedLines, Nvdimm } from './nvdimm.ts'
import { HEALS } from './pending.ts'

export type CutMode = 'strict' | 'prefix' | 'chunk' | 'line'

export const CUT_MODES: readonly CutMode[] = ['strict', 'prefix', 'chunk', 'line']
export const CUT_MODE: Kind = oneOf(CUT_MODES)

const LINE_WORDS = LINE_BYTES / 4

/** The pieces in store order: which chunk (a line has eight), and its two words. */
export interface Pieces {
  readonly chunk: number[]
  readonly low: number[]
  readonly high: number[]
  /** What every chunk held before its first piece. */
  readonly base: Map<number, readonly [number, number]>
}

/** A unit: consecutive words of the part, and the states between which it chooses. */
export interface Unit {
  readonly wordAt: number
  readonly wordCount: number
  readonly states: Int32Array
  readonly stateCount: number
}

/** Collects the pieces, newest first so that before-images give the versions, then turns round. */
export function collect(part: Nvdimm, fenced: readonly FencedLines[]): Pieces {
  const pending = part.pendingStores
  const chunk: number[] = []
  const low: number[] = []
  const high: number[] = []
  const base = new Map<number, readonly [number, number]>()
  const take = (piece: number, words: Int32Array, at: number, then: Int32Array): void => {
    const now = base.get(piece) ?? ([then[2 * piece]!, then[2 * piece + 1]!] as const)
    chunk.push(piece)
    low.push(now[0])
    high.push(now[1])
    base.set(piece, [words[at]!, words[at + 1]!])
  }
  for (let entry = pending.count - 1; entry >= 0; entry--) {
    const line = pending.line[entry]!
    const image = pending.before[entry]!
    for (let i = 7; i >= 0; i--) {
      if ((pending.mask[entry]! & (1 << i)) === 0) continue
      const words = image < 0 ? part.durableWords : pending.images
      take(8 * line + i, words, (image < 0 ? line : image) * LINE_WORDS + 2 * i, part.liveWords)
    }
  }
  for (let at = fenced.length - 1; at >= 0; at--) {
    const { lines, before } = fenced[at]!
    for (let l = lines.length - 1; l >= 0; l--) {
      const words = before[l]!
      for (let i = 7; i >= 0; i--) {
        const piece = 8 * lines[l]! + i
        const at = 2 * piece
        const [low, high] = base.get(piece) ?? [part.durableWords[at], part.durableWords[at + 1]]
        if (words[2 * i] === low && words[2 * i + 1] === high) continue
        take(piece, words, 2 * i, part.durableWords)
      }
    }
  }
  chunk.reverse()
  low.reverse()
  high.reverse()
  return { chunk, low, high, base }
}

/** Stores the pieces of a group in order into `words`, and keeps every new state of them. */
function unitOf(
  pieces: Pieces,
  members: readonly number[],
  wordAt: number,
  words: Int32Array,
): Unit {
  const wordCount = words.length
  const states: Int32Array[] = [words.slice()]
  const seen = new Set([words.join()])
  for (const member of members) {
    const at = 2 * pieces.chunk[member]! - wordAt
    words[at] = pieces.low[member]!
    words[at + 1] = pieces.high[member]!
    const name = words.join()
    if (seen.has(name)) continue
    seen.add(name)
    states.push(words.slice())
  }
  const all = new Int32Array(states.length * wordCount)
  states.forEach((state, i) => {
    all.set(state, i * wordCount)
  })
  return { wordAt, wordCount, states: all, stateCount: states.length }
}

/** Says of a line, by its number, whether it is coarse. */
export type Coarse = (line: number) => boolean

export const NOT_COARSE: Coarse = () => false

/** The units of the modes but 'strict', in the order of their first stores. */
export function unitsOf(
  part: Nvdimm,
  pieces: Pieces,
  mode: CutMode,
  coarse: Coarse = NOT_COARSE,
): Unit[] {
  const fine: number[] = []
  const rest: number[] = []
  pieces.chunk.forEach((chunk, i) => {
    if (coarse(chunk >> 3)) rest.push(i)
    else fine.push(i)
  })
  return [
    ...unitsAmong(part, pieces, fine, mode === 'chunk' ? 1 : 8, mode === 'line'),
    ...unitsAmong(part, pieces, rest, 8, true),
  ]
}

/** The units of so many chunks each; with `ends`, only their first and their last state. */
function unitsAmong(
  part: Nvdimm,
  pieces: Pieces,
  among: readonly number[],
  chunksEach: number,
  ends: boolean,
): Unit[] {
  const groups = new Map<number, number[]>()
  for (const i of among) {
    const group = Math.floor(pieces.chunk[i]! / chunksEach)
    const members = groups.get(group)
    if (members === undefined) groups.set(group, [i])
    else members.push(i)
  }
  const units: Unit[] = []
  for (const [group, members] of groups) {
    const wordAt = 2 * chunksEach * group
    const words = part.durableWords.slice(wordAt, wordAt + 2 * chunksEach)
    for (let i = 0; i < chunksEach; i++) {
      const before = pieces.base.get(group * chunksEach + i)
      if (before !== undefined) words.set(before, 2 * i)
    }
    let unit = unitOf(pieces, members, wordAt, words)
    const { states, wordCount } = unit
    // What was stored and taken back is, as a whole, what stood there.
    if (ends && words.every((word, i) => word === states[i])) continue
    if (ends && unit.stateCount > 2) {
      const both = new Int32Array(2 * wordCount)
      both.set(states.subarray(0, wordCount))
      both.set(words, wordCount)
      unit = { wordAt, wordCount, states: both, stateCount: 2 }
    }
    if (unit.stateCount > 1) units.push(unit)
  }
  return units
}

/** Puts words into the part as they are after the cut: what loads see is what is durable. */
function place(
  part: Nvdimm,
  wordAt: number,
  from: Int32Array,
  fromAt: number,
  count: number,
): void {
  for (let i = 0; i < count; i++) {
    const word = from[fromAt + i]!
    part.durableWords[wordAt + i] = word
    part.liveWords[wordAt + i] = word
  }
}

export function placeState(part: Nvdimm, unit: Unit, state: number): void {
  place(part, unit.wordAt, unit.states, state * unit.wordCount, unit.wordCount)
}

export function placePiece(part: Nvdimm, pieces: Pieces, i: number): void {
  const at = 2 * pieces.chunk[i]!
  part.durableWords[at] = pieces.low[i]!
  part.durableWords[at + 1] = pieces.high[i]!
  part.liveWords[at] = pieces.low[i]!
  part.liveWords[at + 1] = pieces.high[i]!
}

export function placeBase(part: Nvdimm, pieces: Pieces): void {
  for (const [chunk, [low, high]] of pieces.base) {
    const at = 2 * chunk
    part.durableWords[at] = low
    part.durableWords[at + 1] = high
    part.liveWords[at] = low
    part.liveWords[at + 1] = high
  }
}

export function linesOf(pieces: Pieces): number[] {
  return [...new Set(pieces.chunk.map((chunk) => chunk >> 3))]
}

/**
 * The lines that a pending store heals, and the words that must all survive for it. Where it wrote
 * what stood there, survival cannot be seen, and the adversary says no.
 */
export function healingOf(part: Nvdimm): Map<number, Int32Array> {
  const { line, mask, count } = part.pendingStores
  const healing = new Map<number, Int32Array>()
  for (let entry = 0; entry < count; entry++) {
    if (mask[entry]! < HEALS) continue
    const at = line[entry]! * LINE_WORDS
    const words = part.liveWords.slice(at, at + LINE_WORDS)
    if (words.every((word, i) => part.durableWords[at + i] === word)) continue
    healing.set(line[entry]!, words)
  }
  return healing
}

/** The faulty lines, with their flags before the cut. */
export function faultsOf(part: Nvdimm): (readonly [number, number])[] {
  return part.faulty().map((line) => [line, part.lineFlags(line)] as const)
}

/** Gives every line that was faulty the flags that the cut leaves it. */
export function settleFaults(
  part: Nvdimm,
  faults: readonly (readonly [number, number])[],
  healing: ReadonlyMap<number, Int32Array>,
): void {
  for (const [line, flags] of faults) {
    const at = line * LINE_WORDS
    const healed = healing.get(line)?.every((word, i) => part.durableWords[at + i] === word)
    part.restoreFlags(line, flags)
    part.restoreFlags(line, part.flagsAfterCut(line, healed ?? false))
  }
}

/** The lengths of the prefixes of the whole order whose images differ. */
export function strictStates(pieces: Pieces): number[] {
  const states = [0]
  const now = new Map(pieces.base)
  const seen = new Set([[...now.values()].join()])
  const versions = new Set(pieces.chunk).size === pieces.chunk.length
  for (let i = 0; i < pieces.chunk.length; i++) {
    const chunk = pieces.chunk[i]!
    const [low, high] = now.get(chunk)!
    if (low === pieces.low[i] && high === pieces.high[i]) continue
    now.set(chunk, [pieces.low[i]!, pieces.high[i]!])
    if (!versions) {
      const name = [...now.values()].join()
      if (seen.has(name)) continue
      seen.add(name)
    }
    states.push(i + 1)
  }
  return states
}
