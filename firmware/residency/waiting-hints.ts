// hot path
/**
 * Hints that wait for their turn (status/prefetch.ts): who has a place, and whose turn is next.
 *
 * Invariants:
 * - The queue pairs take turns, whatever the priority of their hints is: that orders those of one.
 * - None has more than HINTS_EACH waiting, and one of each finds room while others have several.
 */

import { HINTS, HINTS_EACH, QUEUE_PAIRS } from '../board/limits.ts'
import type { Region } from '../medium/region.ts'
import type { QueuePair } from '../transport/queue-pair.ts'

export interface Hint {
  /** Null while its place is free. */
  region: Region | null
  qp: QueuePair | null
  /** Its pages may go. */
  drops: boolean
  priority: number
  /** Hints of one priority are done in the order in which they came. */
  order: number
  /** After that it is of no use, µs. */
  untilUs: number
  /** Offsets in the region: next to be looked at; where its piece begins and ends; the end. */
  at: number
  pieceAt: number
  pieceEnd: number
  end: number
  /** From one piece to the next, and the length of each, bytes. */
  step: number
  run: number
}

export interface Hints {
  readonly places: readonly Hint[]
  count: number
  order: number
  /** Number of the queue pair that had its turn last. */
  turn: number
  /** Hints of each queue pair that wait, by its place. */
  readonly each: Uint8Array
}

export function createHints(): Hints {
  const places: Hint[] = []
  for (let i = 0; i < HINTS; i++) places.push(blankHint())
  return { places, count: 0, order: 0, turn: 0, each: new Uint8Array(QUEUE_PAIRS + 1) }
}

function blankHint(): Hint {
  return {
    region: null,
    qp: null,
    drops: false,
    priority: 0,
    order: 0,
    untilUs: 0,
    at: 0,
    pieceAt: 0,
    pieceEnd: 0,
    end: 0,
    step: 0,
    run: 0,
  }
}

/** A place for a hint; who has none takes that of the newest one of somebody who has several. */
export function freeHint(hints: Hints, qp: QueuePair): Hint | null {
  const { each } = hints
  const own = each[qp.index]!
  if (own >= HINTS_EACH || (own > 0 && hints.count === HINTS)) return null
  let newest: Hint | null = null
  for (let i = 0; i < HINTS; i++) {
    const hint = hints.places[i]!
    if (hint.region === null) return hint
    const isOneOfMany = each[hint.qp!.index]! > 1
    if (isOneOfMany && (newest === null || hint.order > newest.order)) newest = hint
  }
  if (newest !== null) endHint(hints, newest)
  return newest
}

export function endHint(hints: Hints, hint: Hint): void {
  hints.each[hint.qp!.index]! -= 1
  hints.count -= 1
  hint.region = null
  hint.qp = null
}

/** Of the next queue pair that has some: the most urgent, or the one of these that came first. */
export function nextHint(hints: Hints): Hint {
  let best: Hint | null = null
  let nearest = QUEUE_PAIRS
  for (let i = 0; i < HINTS; i++) {
    const hint = hints.places[i]!
    if (hint.region === null) continue
    const away = (hint.qp!.index - hints.turn - 1) & (QUEUE_PAIRS - 1)
    if (away > nearest || (away === nearest && !isBefore(hint, best!))) continue
    best = hint
    nearest = away
  }
  hints.turn = best!.qp!.index
  return best!
}

function isBefore(one: Hint, other: Hint): boolean {
  if (one.priority !== other.priority) return one.priority > other.priority
  return one.order < other.order
}
