/**
 * Numbers of queue pairs: the low byte is the place in the table, the rest is drawn.
 *
 * Invariants:
 * - Whoever does not see the connection guesses one of 32,766 numbers for each place; and which of
 *   the free places is taken is drawn, too.
 * - A number is another one than its place had before, and than any place had in the incarnation
 *   before: one bit says whether this one is odd. So what is still on its way to a queue pair that
 *   is gone finds none.
 * - None is 0 or 1, which are management's, nor 0xffffff, which is a group's (IBTA 3.5.10).
 */

import type { BoardState } from '../board/context.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import { random32 } from '../board/random.ts'
import type { TransportState } from './context.ts'
import { choosePlace, SHARES } from './places.ts'

/** How many upper sixteen bits there are to draw: the highest fifteen of them, from 1 on. */
const DRAWN = 0x7ffe

/** A number for a new queue pair of that source (places.ts), or -1 if there is no place for it. */
export function freeNumber(state: BoardState & TransportState, source: string): number {
  state.queuePairs.next = random32(state) & (QUEUE_PAIRS - 1)
  const { nowUs } = state.connections
  return numberAt(state, choosePlace(state.queuePairs, source, SHARES, nowUs))
}

/** The number of a new queue pair in that place; -1 if there is none. */
export function numberAt(state: BoardState & TransportState, place: number): number {
  if (place < 0) return -1
  const { queuePairs, incarnation } = state
  const drawn = random32(state) % DRAWN
  let salt = saltOf(drawn, incarnation)
  if (salt === queuePairs.salts[place]) salt = saltOf((drawn + 1) % DRAWN, incarnation)
  queuePairs.salts[place] = salt
  return (salt << 8) | place
}

function saltOf(drawn: number, incarnation: number): number {
  return ((drawn + 1) << 1) | (incarnation & 1)
}
