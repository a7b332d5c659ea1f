// hot path
/**
 * What a record must pass before it joins the group, whoever asks for it (source 1; D-7, D-8).
 *
 * Invariant: nothing of a record is stored before all of it was judged.
 */

import { compare, resultOf, run } from '../board/command-list.ts'
import { COPIES_DIFFER, type Fault } from '../board/fault.ts'
import { EQUAL } from '../board/hal.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext } from '../burst/context.ts'
import type { PersistMessage } from '../transport/message.ts'

/** Carried copies must be the same bytes (D-8): the board compares, before anything is stored. */
export function copiesFault(state: BurstContext, message: PersistMessage, dataAt: number): Fault {
  const list = state.list
  // Alone in the list: what fails there is run around, and leaves no results.
  if (state.stores > 0) runBurst(state)
  const first = list.count
  for (let c = 1; c < message.carried; c++) {
    compare(list, dataAt, dataAt + c * message.length, message.length)
  }
  run(list)
  for (let c = 1; c < message.carried; c++) {
    if (resultOf(list, first + c - 1) !== EQUAL) return COPIES_DIFFER
  }
  // A fence that failed on the way has closed the part.
  return state.commit.closed
}
