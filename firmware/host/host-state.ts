/** The queues of our own host: the slice of the state that host/ owns. */

import type { BoardState } from '../board/context.ts'
import type { HostQueues } from './host.ts'

export interface HostState {
  readonly host: HostQueues
}

/** The host's queues, and the list that reads and writes them. */
export type HostContext = BoardState & HostState
