/**
 * What the burst in progress keeps, slice by slice, and which slices are used together.
 *
 * Invariant: what leads to a run of the list names at least a BurstContext, as a command that fails
 * refuses queue pairs, and ends queues of the host.
 */

import type { BatchState } from '../batch/context.ts'
import type { BoardState } from '../board/context.ts'
import type { PartContext } from '../commit/context.ts'
import type { HostState } from '../host/host-state.ts'
import type { HostWork } from '../host/work.ts'
import type { MemoryState } from '../medium/context.ts'
import type { Residency } from '../residency/told.ts'
import type { Hints } from '../residency/waiting-hints.ts'
import type { SessionState } from '../session/context.ts'
import type { PersistRange } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import type { Ask, Ordered } from '../transport/message.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import type { WireState } from '../wire/context.ts'
import type { Figures } from './figures.ts'
import type { Relays } from './passengers.ts'
import type { Through } from './through-job.ts'
import type { Initiator } from './work.ts'

/** Of the burst in progress (burst.ts). */
export interface BurstState {
  readonly touched: QueuePair[]
  touchedCount: number
  /** Commands in the list that a medium may refuse. */
  stores: number
  /** Owners that a failed list refuses: scratch of burst.ts. */
  readonly refusals: Float64Array
  /** Stores since the last fence, except for those of commits. */
  unfenced: number
  /** What was acknowledged so far, and how soon (figures.ts). */
  readonly figures: Figures
}

/** Operations that wait for the burst to be settled, and long READs (ordered.ts, stream.ts). */
export interface OrderedState {
  readonly ordered: Ordered[]
  orderedCount: number
  /** Rounds over the ordered operations so far. */
  round: number
  /** There may be queue pairs with a long READ; and whose turn it is. */
  streaming: boolean
  streamNext: number
  /** When long READs that wait for a page look again, µs; Infinity if none does. */
  pausedUs: number
  /** Whose pages alone are asked for until then, µs, as it has waited for too long; or null. */
  readonly pageTurn: { qp: QueuePair | null; untilUs: number }
}

/** What messages take until they are complete (staging.ts, receives.ts). */
export interface GatherState {
  /** Which queue pair has each receive entry: its place, or -1. */
  readonly receiveOwner: Int32Array
  /** How many of them are taken. */
  receivesTaken: number
  /** Messages of several packets. */
  readonly messages: Ask[]
  /** Which queue pair has each staging buffer: its place, or -1. */
  readonly stagingOwner: Int32Array
  /** Since when its message is gathered, µs. */
  readonly stagingSinceUs: Float64Array
  /** Not before then is a message given up whose peer is silent, µs; Infinity if there is none. */
  stallUs: number
}

/** Acknowledgement ranges of the group, open one per queue pair (receipt.ts). */
export interface ReceiptState {
  readonly ranges: PersistRange[]
  readonly rangeOwner: QueuePair[]
  readonly openRange: Int32Array
  rangeCount: number
}

/** Records on their way through the host's caches (through.ts). */
export interface ThroughState {
  readonly through: Through
}

/** Requests of our own (initiator.ts, relay.ts). */
export interface RequestState {
  /** Queue pairs on which we make requests of our own. */
  readonly initiators: Initiator[]
  /** Regions of other DPUs that are offered here. */
  readonly relays: Relays
}

/** Elements of the host's queues under way (host/work.ts). */
export interface QueueState {
  readonly hostWork: HostWork
}

/** Who is told which memory is ready, and hints that wait (residency.ts, prefetch.ts). */
export interface ResidencyState {
  readonly residency: Residency
  readonly hints: Hints
}

/** Where the idle scrub stands, and what recovery had counted when it began with that region. */
interface ScrubPlace {
  region: number
  slot: number
  /** Lives of the host that were over when it began with the region. */
  lives: number
  unlisted: number
  unanswered: number
  /** Calls since the superblock was looked at. */
  turn: number
}

/** The idle scrub (scrub.ts). */
export interface ScrubState {
  readonly scrub: ScrubPlace
}

/** Records in the host's memory, some of which wait for its agent. */
export type ThroughContext = PartContext & ThroughState

/** A queue of the host is served, and may end. */
export type QueueContext = BoardState & MemoryState & BatchState & HostState & QueueState

/** A queue pair is opened, and granted its regions; or it ends, and what it holds is let go. */
export type RefusalContext = BoardState &
  MemoryState &
  TransportState &
  BatchState &
  GatherState &
  QueueState &
  SessionState

/** Work for an initiator, whose queue pair may end. */
export type WorkContext = RefusalContext & RequestState

/** The list is run. */
export type BurstContext = PartContext & RefusalContext & QueueContext & BurstState

/** The group is committed, and acknowledged. */
export type GroupContext = BurstContext & ReceiptState

/** A record is accepted, wherever it lies. */
export type RecordContext = GroupContext & ThroughState

/** What headers, or an element of the host, ask for is judged and accepted. */
export type AcceptContext = RecordContext & WireState

/** A request is executed, or a queue of the host. */
export type ServeContext = AcceptContext & OrderedState & RequestState & ResidencyState & ScrubState
