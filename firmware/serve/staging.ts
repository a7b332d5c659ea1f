// hot path
/**
 * Room for messages of several packets, and what becomes of it when a queue pair ends.
 *
 * What always holds: a staging buffer has one owner or none; a queue pair that fails or is closed
 * gives its buffer back at once, and what it holds of a batch (batch.ts), a message that stopped
 * half-way when somebody needs the room (fault N8). Bytes that a record of the group still needs
 * stay untouched until the burst is settled, because a buffer is filled by commands of the same
 * list, behind it. The same holds of receive entries (receives.ts).
 */

import { createBatch, dropBatch } from '../batch/batch.ts'
import { SLOT_HEADER_BYTES } from '../commit/slot.ts'
import { RECEIVES, STAGING_BUFFERS, STAGING_BYTES, STAGING_TIMEOUT_US } from '../limits.ts'
import { STAGING_AT } from '../memory-map.ts'
import type { State } from '../state.ts'
import {
  MESSAGE_NONE,
  openQueuePair,
  type QueuePair,
  type QueuePairOptions,
  STATE_ERROR,
} from '../transport/queue-pair.ts'

/** Largest message that can be gathered, bytes. */
export const STAGED_BYTES_MAX: number = STAGING_BYTES - SLOT_HEADER_BYTES

/** Where the data of the message goes that this queue pair gathers. */
export function stagedAt(qp: QueuePair): number {
  return STAGING_AT + qp.staging * STAGING_BYTES + SLOT_HEADER_BYTES
}

/** Takes a buffer for the queue pair; false if there is none. */
export function takeStaging(state: State, qp: QueuePair, now: number): boolean {
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    if (state.stagingOwner[i] !== -1 && !giveUp(state, i, now)) continue
    state.stagingOwner[i] = qp.index
    qp.staging = i
    return true
  }
  return false
}

/** Gives the receive entry of the message in progress back, if there is one. */
export function releaseReceive(state: State, qp: QueuePair): void {
  if (qp.receive < 0) return
  // An element of the host, behind the entries, is the next one's.
  if (qp.receive < RECEIVES) state.receiveOwner[qp.receive] = -1
  qp.receive = -1
}

/** Gives the buffer back, if there is one. */
export function releaseStaging(state: State, qp: QueuePair): void {
  if (qp.staging < 0) return
  state.stagingOwner[qp.staging] = -1
  qp.staging = -1
}

/** Opens the queue pair of that number, which may have a batch; its place must be free. */
export function openPair(state: State, number: number, options: QueuePairOptions): QueuePair {
  const qp = openQueuePair(state.queuePairs, number, options)
  createBatch(state.batches, state.machine.memory, qp.index)
  return qp
}

/** The queue pair goes to the error state: silence, and what it was gathering is given back. */
export function failQueuePair(state: State, qp: QueuePair): void {
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

/** Has the message in progress stopped for too long? */
export function isStalled(qp: QueuePair, now: number): boolean {
  return qp.message !== MESSAGE_NONE && now - qp.lastPacketUs > STAGING_TIMEOUT_US
}

/**
 * Ends the message that the buffer gathers if it has stalled; true if the buffer is free now. One
 * whose record is on its way to another DPU (relay.ts) gathers nothing.
 */
function giveUp(state: State, buffer: number, now: number): boolean {
  // Nor does one of the host, whose owner has no place.
  const qp = state.queuePairs.places[state.stagingOwner[buffer]!] ?? null
  if (qp === null || qp.staging !== buffer || !isStalled(qp, now)) return false
  failQueuePair(state, qp)
  return true
}
