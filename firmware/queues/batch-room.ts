// hot path
/**
 * Room for the records of a batch that the host posts for another card (source 4; P4-1).
 *
 * Invariants:
 * - No record of a batch ends before the last of its burst was sent, so a burst is begun only where
 *   there is room for all of it: postings, buffers, requests. What it may yet need is kept for it,
 *   and nobody else is given it.
 * - The records of a burst that is under way are of one batch, by their numbers: the one status
 *   that the peer gives tells what became of each.
 * - What is kept is given back with the last record, or as soon as one of the burst has ended
 *   without it: the peer has given the batch up, or the connection is over.
 */

import { HOST_BUFFER_BYTES } from '../board/limits.ts'
import type { GatherState, QueueState } from '../burst/context.ts'
import { freeBuffers } from '../engine/buffers.ts'
import { BATCH } from '../host/element.ts'
import type { Element } from '../host/host.ts'
import type { HostState } from '../host/host-state.ts'
import type { HostPair, HostWork, Posting } from '../host/work.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'
import { type Requester, room } from '../transport/requester.ts'

/** Bytes that find a place in one of the buffers of which some are kept. */
const PAGE_BYTES: number = HOST_BUFFER_BYTES - SLOT_HEADER_BYTES

/** Is the element a further record of the burst that its pair has begun? */
function isFurther(pair: HostPair, { flags, batchId }: Element): boolean {
  return (flags & BATCH) !== 0 && pair.batchSent > 0 && pair.batchId === batchId
}

/**
 * Does the record say the id of the burst that is open, and contradict its numbers? No status could
 * tell both apart: it waits until the other has ended, if only because the peer has given it up.
 */
export function isContrary(pair: HostPair, element: Element): boolean {
  if (!isFurther(pair, element)) return false
  const { batchCount, batchIndex, operationLow } = element
  return batchCount !== pair.batchCount || (operationLow - batchIndex) >>> 0 !== pair.batchOperation
}

/** Is there room kept for it, and for what comes behind it? */
function hasKeptRoom(pair: HostPair, element: Element): boolean {
  return isFurther(pair, element) && element.batchLeft < pair.batchLeft
}

/** Records that come with this one before any of them ends. */
function burstOf({ flags, batchLeft }: Element): number {
  return (flags & BATCH) === 0 ? 1 : 1 + batchLeft
}

/**
 * Would there be less left than the pair has under way, or not enough for the whole burst? A peer
 * that does not answer keeps what is sent to it for long, and others have to go on meanwhile: local
 * queues, the network. `bytes` are those that the element sends.
 */
export function lacksRoom(
  state: HostState & GatherState & QueueState,
  pair: HostPair,
  requester: Requester,
  bytes: number,
): boolean {
  const { hostWork } = state
  const { element } = state.host
  if (hasKeptRoom(pair, element)) return false
  const burst = burstOf(element)
  if (room(requester) - pair.batchLeft < burst) return true
  const { keptCount } = hostWork
  if (hostWork.freePostingCount - keptCount < pair.postings + burst) return true
  if (bytes === 0 && burst === 1) return false
  const kept = bytes <= PAGE_BYTES ? keptCount : 0
  return freeBuffers(state, bytes) - kept < pair.under + burst
}

/** The element is sent: what the rest of its burst needs is kept, or is not any more. */
export function noteSentMember(
  work: HostWork,
  pair: HostPair,
  element: Element,
  posting: Posting,
): void {
  if ((element.flags & BATCH) === 0) return
  const sent = isFurther(pair, element) ? pair.batchSent : 0
  if (sent === 0) pair.batchBurst = (pair.batchBurst + 1) | 0
  posting.batchBurst = pair.batchBurst
  endBatchBurst(work, pair)
  if (element.batchLeft === 0) return
  pair.batchId = element.batchId
  pair.batchCount = element.batchCount
  pair.batchOperation = (element.operationLow - element.batchIndex) >>> 0
  pair.batchSent = sent + 1
  pair.batchLeft = element.batchLeft
  work.keptCount += element.batchLeft
}

/** Is it of the burst that is not complete? */
export function isOfBatchBurst({ flags, pair, batchBurst }: Posting): boolean {
  return (flags & BATCH) !== 0 && pair!.batchSent > 0 && pair!.batchBurst === batchBurst
}

/** Nothing more is kept for the pair. */
export function endBatchBurst(work: HostWork, pair: HostPair): void {
  if (pair.batchLeft > 0) work.freed = true
  work.keptCount -= pair.batchLeft
  pair.batchLeft = 0
  pair.batchSent = 0
}
