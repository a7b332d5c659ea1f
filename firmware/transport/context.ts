/** Queue pairs and the frames that leave: the slice of the state that transport/ owns. */

import type { BoardState } from '../board/context.ts'
import type { Answers } from './acknowledge.ts'
import type { QueuePair, QueuePairTable } from './queue-pair.ts'

export interface TransportState {
  readonly queuePairs: QueuePairTable
  readonly answers: Answers
  /** PSN of our next datagram, and who sends those; the rest of it is that of connect/. */
  readonly connections: { psn: number; readonly blankPair: QueuePair }
}

/** Frames that leave on behalf of a queue pair. */
export type FrameContext = BoardState & TransportState
