/**
 * Every image that a power cut may leave, visited once each.
 *
 * Invariant: in a visit the part is as it comes up after the cut: nothing is pending, and
 * loads see what is durable. Whatever the visit does to the part, booting a machine on it or
 * visiting the images of a second cut, is taken back afterwards; and so in the end is the cut.
 * Nothing reaches the backing, or who watches the part, meanwhile.
 *
 * From one image to the next one unit changes by one state: reflected Gray code over mixed bases
 * (Knuth, The Art of Computer Programming, 7.2.1.1, algorithm H). So an image costs one store of
 * a chunk, whatever the size of the part.
 */

import { LINE_BYTES } from '../../../firmware/board/limits.ts'
import { BOOLEAN, FUNCTION } from '../../kinds.ts'
import { check, checkGiven, NVDIMM } from '../base/arguments.ts'
import { Journal } from './journal.ts'
import type { Nvdimm } from './nvdimm.ts'
import {
  type Coarse,
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
  strictStates,
  type Unit,
  unitsOf,
} from './pieces.ts'

/** More images than this are refused: no test would end. */
const IMAGES_MAX = 2 ** 28

function checkVisit(part: Nvdimm, mode: CutMode, adrFail: boolean, coarse?: Coarse): void {
  check('part', part, NVDIMM)
  check('mode', mode, CUT_MODE)
  check('adrFail', adrFail, BOOLEAN)
  checkGiven('coarse', coarse, FUNCTION)
}

/** How many images there are; Infinity from 2^1024 on. */
export function imageCount(
  part: Nvdimm,
  mode: CutMode = 'chunk',
  adrFail = false,
  coarse?: Coarse,
): number {
  checkVisit(part, mode, adrFail, coarse)
  const pieces = collect(part, adrFail ? part.fenced : [])
  if (mode === 'strict') return strictStates(pieces).length
  return unitsOf(part, pieces, mode, coarse).reduce((count, unit) => count * unit.stateCount, 1)
}

/**
 * Calls `visit` in every image that a cut in this mode may leave, and returns how many there are.
 * Throws a RangeError, before the first, if there are more than 2^28.
 */
export function images(
  part: Nvdimm,
  mode: CutMode,
  visit: (image: number) => void,
  adrFail = false,
  coarse?: Coarse,
): number {
  checkVisit(part, mode, adrFail, coarse)
  check('visit', visit, FUNCTION)
  const count = imageCount(part, mode, adrFail, coarse)
  if (count > IMAGES_MAX) throw new RangeError(`${count} images: too many to visit`)
  const pieces = collect(part, adrFail ? part.fenced : [])
  const units = mode === 'strict' ? [] : unitsOf(part, pieces, mode, coarse)
  const prefixes = mode === 'strict' ? strictStates(pieces) : []
  const healing = healingOf(part)
  const faults = faultsOf(part)
  const resume = suspend(part, linesOf(pieces), adrFail)
  const journal = part.journal!
  const { armed, saveFailed, dirtyShutdowns, fencesToFail } = part
  let image = 0
  const show = (): void => {
    if (faults.length > 0) settleFaults(part, faults, healing)
    const mark = journal.mark()
    visit(image++)
    if (part.pendingStores.count > 0) part.pendingStores.clear()
    journal.undo(part, mark)
    if (part.fenced.length > 0) part.fenced = []
    part.armed = armed
    part.saveFailed = saveFailed
    part.dirtyShutdowns = dirtyShutdowns
    part.fencesToFail = fencesToFail
  }
  try {
    placeBase(part, pieces)
    if (mode === 'strict') walkPrefixes(part, pieces, prefixes, show)
    else walkUnits(part, units, show)
  } finally {
    resume()
  }
  return count
}

/**
 * Calls `visit` in one image that a cut may leave: of the pending chunks, by the offset of each,
 * those that `keep` takes are as they were last stored, all others as they are durable. It costs
 * as much as there are pending lines.
 */
export function imageKeeping(part: Nvdimm, keep: (at: number) => boolean, visit: () => void): void {
  check('part', part, NVDIMM)
  check('keep', keep, FUNCTION)
  check('visit', visit, FUNCTION)
  const { armed, saveFailed, dirtyShutdowns, fencesToFail } = part
  const { line, chunks } = part.pendingStores
  const masks = new Map<number, number>()
  for (let i = 0; i < part.pendingStores.count; i++) masks.set(line[i]!, chunks[line[i]!]!)
  const healing = healingOf(part)
  const faults = faultsOf(part)
  const resume = suspend(part, [...masks.keys()], false)
  try {
    for (const [at, mask] of masks) keepChunks(part, at, mask, keep)
    settleFaults(part, faults, healing)
    visit()
  } finally {
    resume()
    part.armed = armed
    part.saveFailed = saveFailed
    part.dirtyShutdowns = dirtyShutdowns
    part.fencesToFail = fencesToFail
  }
}

/** Makes the pending chunks of a line what loads see and what is durable, alike. */
function keepChunks(part: Nvdimm, line: number, mask: number, keep: (at: number) => boolean): void {
  const { liveWords, durableWords } = part
  for (let i = 0; i < 8; i++) {
    if ((mask & (1 << i)) === 0) continue
    const word = line * (LINE_BYTES / 4) + 2 * i
    const [from, into] = keep(word * 4) ? [liveWords, durableWords] : [durableWords, liveWords]
    into[word] = from[word]!
    into[word + 1] = from[word + 1]!
  }
}

/** Puts aside what a cut ends; the function that it returns brings everything back. */
function suspend(part: Nvdimm, lines: readonly number[], adrFail: boolean): () => void {
  const { backing, fenced, journal: outer, watch } = part
  const journal = outer ?? new Journal(part.bytes / LINE_BYTES)
  const mark = journal.mark()
  for (const line of lines) journal.note(part, line, line)
  for (const line of part.faulty()) journal.note(part, line, line)
  const stores = part.pendingStores.suspend()
  part.journal = journal
  part.backing = null
  part.watch = null
  part.fenced = []
  if (adrFail) part.dirtyShutdowns++
  return () => {
    part.pendingStores.clear()
    journal.undo(part, mark)
    part.pendingStores.resume(stores)
    part.journal = outer
    part.backing = backing
    part.watch = watch
    part.fenced = fenced
    if (adrFail) part.dirtyShutdowns--
  }
}

function walkPrefixes(
  part: Nvdimm,
  pieces: Pieces,
  prefixes: readonly number[],
  show: () => void,
): void {
  let done = 0
  for (const length of prefixes) {
    while (done < length) placePiece(part, pieces, done++)
    show()
  }
}

/** Algorithm H: one unit goes one state up or down from each image to the next. */
function walkUnits(part: Nvdimm, units: readonly Unit[], show: () => void): void {
  const n = units.length
  const state = new Int32Array(n)
  const step = new Int32Array(n).fill(1)
  const focus = Int32Array.from({ length: n + 1 }, (_, i) => i)
  for (;;) {
    show()
    const i = focus[0]!
    focus[0] = 0
    if (i === n) return
    const now = state[i]! + step[i]!
    state[i] = now
    if (now === 0 || now === units[i]!.stateCount - 1) {
      step[i] = -step[i]!
      focus[i] = focus[i + 1]!
      focus[i + 1] = i + 1
    }
    placeState(part, units[i]!, now)
  }
}
