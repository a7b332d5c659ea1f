// hot path
/**
 * Work of an initiator: one request of ours from its composition to its end (initiator.ts).
 *
 * Invariant: a piece of work is free exactly while it has no owner.
 */

import type { BoardState } from '../board/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import {
  hasRoom,
  isOrdered,
  post,
  READ,
  type Request,
  type Requester,
  type RequestKind,
} from '../transport/requester.ts'
import type { Atomic } from '../wire/atomic.ts'
import type { Bseth } from '../wire/block-size.ts'
import type { Feth } from '../wire/feth.ts'
import type { Mseth } from '../wire/memory-status.ts'
import type { Pweth } from '../wire/persist.ts'
import type { Pfeth } from '../wire/prefetch.ts'
import type { Reth } from '../wire/reth.ts'

/**
 * Who hears what becomes of a piece of work. It sees more of the state than is handed over here.
 * None of these may run the command list.
 */
export interface WorkOwner {
  /** The peer has all of it; of a record that is not durability. */
  received(state: BoardState, work: Work): void
  /**
   * `length` bytes at `at` in packet memory, until the burst is settled, belong at `offset` of what
   * a READ asked for.
   */
  data?(state: BoardState, work: Work, offset: number, at: number, length: number): void
  done(state: BoardState, work: Work, request: Request): void
}

/** One request of ours. The record belongs to the initiator and is used again. */
export interface Work {
  /** Null while it is free. */
  owner: WorkOwner | null
  /** The owner's number for it. */
  item: number
  /** Address of the payload, in any space. */
  from: number
  length: number
  /** Immediate data, or the key that is taken back. */
  immediate: number
  solicited: boolean
  /** Where it goes, or what it asks for. */
  readonly reth: Reth
  /** Of a record: how. The id of its operation is also that of a query. */
  readonly pweth: Pweth
  /** Of a record that names every copy: where the further ones go, COPIES_MAX - 1 of them. */
  readonly extensions: readonly Reth[]
  /** How many of them there are. */
  extensionCount: number
  /** Of a record of a batch with that condition: the sequence that its slot must hold. */
  expectHigh: number
  expectLow: number
  /** Of a record that brings one: the guard of its data. */
  guard: number
  /** Of an atomic, instead of `reth`; of a FLUSH, besides. */
  readonly atomic: Atomic
  readonly feth: Feth
  /** Of a notice about memory; of a question about a block size, or an offer of one. */
  readonly mseth: Mseth
  readonly bseth: Bseth
  /** Of a hint. */
  readonly pfeth: Pfeth
}

export interface Initiator {
  readonly qp: QueuePair
  readonly requester: Requester
  readonly works: readonly Work[]
  /** It is not taken from its queue pair to make room. */
  readonly kept: boolean
}

/**
 * A free piece of work, to be filled in and given to `submit`; null if there is no room, or no
 * initiator that it could be of.
 */
export function takeWork(initiator: Initiator | null): Work | null {
  if (initiator === null || !hasRoom(initiator.requester)) return null
  for (let i = 0; i < initiator.works.length; i++) {
    if (initiator.works[i]!.owner === null) return initiator.works[i]!
  }
  return null
}

/** Posts it for that owner; it leaves when the burst is settled. Its request may be fenced. */
export function submit(
  initiator: Initiator,
  work: Work,
  kind: RequestKind,
  owner: WorkOwner,
  item: number,
): Request {
  work.owner = owner
  work.item = item
  const { operationHigh, operationLow } = work.pweth
  const tag = initiator.works.indexOf(work)
  // A READ has as many PSNs as its responses; of other ordered requests each has one.
  const length = kind === READ ? work.reth.length : isOrdered(kind) ? 0 : work.length
  return post(initiator.requester, kind, tag, length, operationHigh, operationLow)!
}
