/** What becomes of a part at its start: its state, and one line about it for the board. */

import type { BoardState } from '../board/context.ts'
import { BLANK, FAULTS, type Fault, PASS } from '../board/fault.ts'
import type { CommitState, PartContext } from '../commit/context.ts'
import type { MemoryState } from '../medium/context.ts'
import { lostCount, versionOf } from '../medium/superblock.ts'
import * as mad from '../wire/management.ts'

export function partState(state: BoardState & CommitState): number {
  if (state.refused === BLANK) return mad.STATE_BLANK
  if (state.refused !== PASS) return mad.STATE_REFUSED
  return state.commit.closed === PASS ? mad.STATE_SERVING : mad.STATE_FAILED_CLOSED
}

/** Why the part does not serve, or not as it should; PASS if it does. */
export function partFault(state: BoardState & CommitState): Fault {
  return state.refused !== PASS ? state.refused : state.commit.closed
}

/** Records that are lost. Nobody can tell of a part that is refused: 0. */
export function lostRecords(state: BoardState & MemoryState): number {
  return state.refused === PASS ? lostCount(state.superblock) : 0
}

/** As 'state=serving format=3 lost=0', and behind it ' fault=NEWER' where there is one. */
export function describePart(state: PartContext): string {
  const format = state.refused === PASS ? versionOf(state.superblock) : 0
  const words = `state=${mad.STATE_NAMES[partState(state)]!} format=${format}`
  const fault = partFault(state)
  const told = fault === PASS ? '' : ` fault=${FAULTS[fault]!.name}`
  return `${words} lost=${lostRecords(state)}${told}`
}
