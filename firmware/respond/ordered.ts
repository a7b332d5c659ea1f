// hot path
/**
 * Ordered operations wait here from their arrival until the burst is settled (rounds.ts): READ,
 * atomics, FLUSH, ATOMIC WRITE, confirmations, persists into plain bytes.
 *
 * Invariant: a burst has at most one for each of its frames; those of a queue pair stand in
 * the order of its requests; while one waits whose response is its acknowledgement, `ackLimit` of
 * its queue pair is the PSN before the first of them.
 */

import type { BoardState } from '../board/context.ts'
import { touch } from '../burst/burst.ts'
import type { BurstState, OrderedState } from '../burst/context.ts'
import { noteDurable } from '../burst/figures.ts'
import type { Region } from '../medium/region.ts'
import type { Ordered } from '../transport/message.ts'
import { psnAdd, psnDistance } from '../transport/psn.ts'
import {
  KIND_ATOMIC,
  KIND_ATOMIC_WRITE,
  KIND_FLUSH,
  KIND_READ,
  noteKind,
  type QueuePair,
} from '../transport/queue-pair.ts'
import type { Packet } from '../wire/packet.ts'

/** Kinds of ordered operations; those with a response of their own have its number. */
export const ORDERED_READ: number = KIND_READ
export const ORDERED_ATOMIC: number = KIND_ATOMIC
export const ORDERED_FLUSH: number = KIND_FLUSH
export const ORDERED_ATOMIC_WRITE: number = KIND_ATOMIC_WRITE
/** A WRITE_PERSIST into plain bytes: only its PERSIST_ACK waits. */
export const ORDERED_PERSIST = 16
/** A SEND or WRITE with immediate whose sender wants to be told of durability. */
export const ORDERED_CONFIRM = 17

/**
 * Adds an operation of that PSN to those that wait. The PSN is accepted already, or was taken
 * before (`again`).
 */
export function addOrdered(
  state: BurstState & OrderedState,
  qp: QueuePair,
  kind: number,
  psn: number,
  region: Region | null,
  again: boolean,
): Ordered {
  const item = state.ordered[state.orderedCount]!
  state.orderedCount += 1
  item.qp = qp
  item.kind = kind
  item.region = region
  item.length = 0
  item.psn = psn
  item.msn = qp.messageSequence
  item.again = again
  item.since = -1
  item.stored = false
  item.done = false
  touch(state, qp)
  if (kind === ORDERED_PERSIST) return item
  const limit = psnAdd(psn, -1)
  const first = qp.unanswered === 0 || psnDistance(limit, qp.ackLimit) >= 0x800000
  if (first) qp.ackLimit = limit
  qp.unanswered += 1
  return item
}

/** As `addOrdered`, for a request whose response is its acknowledgement, and of all before it. */
export function addResponse(
  state: BurstState & OrderedState,
  qp: QueuePair,
  kind: number,
  packet: Packet,
  region: Region | null,
): Ordered {
  noteKind(qp, packet.psn, kind)
  qp.ackDue = false
  return addOrdered(state, qp, kind, packet.psn, region, false)
}

/** What it has stored, or has asked about, is durable, and it is answered for the first time. */
export function countOrdered(
  { figures, connections }: BoardState & BurstState,
  item: Ordered,
): void {
  noteDurable(figures, item.region!.index, connections.nowUs, 1, item.length)
}
