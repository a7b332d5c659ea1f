// hot path
/**
 * Room for messages of several packets, and what becomes of it when a queue pair ends.
 *
 * Invariants:
 * - A staging buffer has one owner or none; a queue pair that fails or is closed gives its buffer
 *   back at once, and what it holds of a batch (batch.ts).
 * - A message that stops half-way is given up when its peer is silent for STAGING_TIMEOUT_US, which
 *   is longer than a peer that lost its tail may take to repeat it (fault N8). Every packet of the
 *   connection proves that there is somebody, also one that drew an RNR NAK. It is given up also
 *   where nothing else is to be done: `stallUs` is a time by which the board is asked to call.
 * - Where no buffer is free, nobody waits for longer than GATHERING_US for his share: a peer that
 *   holds fewer than another takes one of that other's, however slowly it is filled (fault N22),
 *   unless a message of the group that is complete has one to give back. The message that loses its
 *   buffer is refused at its end, its record untouched.
 * - Bytes that a record of the group still needs stay untouched until the burst is settled, because
 *   a buffer is filled by commands of the same list, behind it. The same holds of receive entries
 *   (receives.ts).
 */

import { createBatch, dropBatch } from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import type { BoardState } from '../board/context.ts'
import { STAGING } from '../board/fault.ts'
import {
  GATHERING_US,
  RECEIVES,
  REPEAT_US,
  STAGING_BUFFERS,
  STAGING_BYTES,
  STAGING_TIMEOUT_US,
} from '../board/limits.ts'
import { STAGING_AT } from '../board/memory-map.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'
import { grantAll } from '../session/grants.ts'
import { isSamePeer } from '../transport/acknowledge.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import {
  closeQueuePair,
  MESSAGE_NONE,
  openQueuePair,
  type QueuePair,
  type QueuePairOptions,
  STATE_ERROR,
} from '../transport/queue-pair.ts'
import type { GatherState, QueueState, RefusalContext } from './context.ts'

/** Largest message that can be gathered, bytes. */
export const STAGED_BYTES_MAX: number = STAGING_BYTES - SLOT_HEADER_BYTES

/** Where the data of the message goes that this queue pair gathers. */
export function stagedAt(qp: QueuePair): number {
  return STAGING_AT + qp.staging * STAGING_BYTES + SLOT_HEADER_BYTES
}

/** Takes a free buffer for the queue pair; false if there is none. */
export function takeStaging(state: BoardState & GatherState, qp: QueuePair): boolean {
  const buffer = state.stagingOwner.indexOf(-1)
  if (buffer < 0) return false
  state.stagingOwner[buffer] = qp.index
  state.stagingSinceUs[buffer] = state.connections.nowUs
  qp.staging = buffer
  return true
}

/** Takes one that another peer has to give up; false if none has. None is free. */
export function claimStaging(state: FrameContext & GatherState, qp: QueuePair): boolean {
  const buffer = bufferOwed(state, qp)
  if (buffer < 0) return false
  stopGathering(state, gathererOf(state, buffer)!)
  return takeStaging(state, qp)
}

/**
 * Who gathers in that buffer, or null: one whose record is on its way to another DPU (relay.ts), or
 * waits for its group, gathers nothing; and the owner may be the host, which has no place.
 */
function gathererOf(state: TransportState & GatherState, buffer: number): QueuePair | null {
  const qp = state.queuePairs.places[state.stagingOwner[buffer]!] ?? null
  return qp !== null && qp.staging === buffer ? qp : null
}

/** Buffers in which the peer of that queue pair gathers, over all of its connections. */
function usedBy(state: FrameContext & GatherState, qp: QueuePair): number {
  let used = 0
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    const owner = gathererOf(state, i)
    if (owner !== null && isSamePeer(owner, qp, state.bytes)) used += 1
  }
  return used
}

/**
 * The buffer that is given up for the queue pair, or -1: of those in which a message is gathered
 * for GATHERING_US, that of the peer that holds the most, if it holds more than this one does, or
 * if it was silent for so long that it repeats nothing.
 */
function bufferOwed(state: FrameContext & GatherState, qp: QueuePair): number {
  const now = state.connections.nowUs
  const own = usedBy(state, qp)
  let owed = -1
  let most = 0
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    const owner = gathererOf(state, i)
    if (owner === null || now - state.stagingSinceUs[i]! < GATHERING_US) continue
    const used = usedBy(state, owner)
    if (used <= own && now - owner.heardUs < 2 * REPEAT_US) continue
    if (used <= most) continue
    owed = i
    most = used
  }
  return owed
}

/** Its message goes on, but is refused at its end: its bytes are gathered no more. */
function stopGathering(state: GatherState, qp: QueuePair): void {
  releaseStaging(state, qp)
  qp.messageTo = 0
  qp.messageFault = STAGING
}

/** Gives the receive entry of the message in progress back, if there is one. */
export function releaseReceive(state: GatherState, qp: QueuePair): void {
  if (qp.receive < 0) return
  // An element of the host, behind the entries, is the next one's.
  if (qp.receive < RECEIVES) freeEntry(state, qp.receive)
  qp.receive = -1
}

/** The receive entry is free. */
export function freeEntry(state: GatherState, entry: number): void {
  state.receiveOwner[entry] = -1
  state.receivesTaken -= 1
}

/** Gives the buffer back, if there is one. */
export function releaseStaging(state: GatherState, qp: QueuePair): void {
  if (qp.staging < 0) return
  state.stagingOwner[qp.staging] = -1
  qp.staging = -1
}

/**
 * Opens the queue pair of that number, which may have a batch, and the regions of whose it is; its
 * place must be free.
 */
export function openPair(
  state: RefusalContext,
  number: number,
  options: QueuePairOptions,
): QueuePair {
  const qp = openQueuePair(state.queuePairs, number, options)
  qp.heardUs = state.connections.nowUs
  createBatch(state.batches, state.machine.memory, qp.index)
  grantAll(state, qp)
  return qp
}

/** The queue pair goes to the error state: silence, and what it was gathering is given back. */
export function failQueuePair(state: BatchState & GatherState & QueueState, qp: QueuePair): void {
  qp.state = STATE_ERROR
  qp.ackDue = false
  qp.message = MESSAGE_NONE
  qp.stream.active = false
  qp.stream.accepted = false
  state.hostWork.look = true
  qp.batching = false
  dropBatch(state.batches, qp.index)
  releaseStaging(state, qp)
  releaseReceive(state, qp)
}

/** It is over at once: its number names nothing, and its place is free. */
export function closePair(
  state: BatchState & GatherState & QueueState & TransportState,
  qp: QueuePair,
): void {
  failQueuePair(state, qp)
  closeQueuePair(state.queuePairs, qp)
}

/** Is there a message in progress whose peer is silent for too long, also about others? */
export function isStalled(qp: QueuePair, now: number): boolean {
  return qp.message !== MESSAGE_NONE && now - qp.heardUs > STAGING_TIMEOUT_US
}

/** Has `stallUs` know of a message of that queue pair that is in progress. */
export function noteMessage(state: GatherState, qp: QueuePair): void {
  if (qp.message === MESSAGE_NONE) return
  state.stallUs = Math.min(state.stallUs, qp.heardUs + STAGING_TIMEOUT_US + 1)
}

/** The µs after which there may be a message to give up; 0 if there is none. */
export function stallWaitUs({ stallUs }: GatherState, now: number): number {
  return stallUs === Infinity ? 0 : Math.max(1, Math.ceil(stallUs - now))
}
