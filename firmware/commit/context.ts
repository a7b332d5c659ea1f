/** Records on their way into the part: the slice of the state that commit/ owns. */

import type { BoardState } from '../board/context.ts'
import type { MemoryState } from '../medium/context.ts'
import type { Commit, GroupIndex } from './commit.ts'
import type { Examination } from './examine.ts'
import type { Proof } from './proof.ts'
import type { Recovery } from './recovery.ts'

export interface CommitState {
  readonly commit: Commit
  readonly group: GroupIndex
  /** What the probe of this power-on has shown of the host's memory. */
  readonly proof: Proof
  readonly examination: Examination
  /** Of the last start. */
  recovery: Recovery
}

/** The part, and what is known of the records on it. */
export type PartContext = BoardState & MemoryState & CommitState
