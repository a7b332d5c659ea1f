// hot path
/**
 * Batches of local queues that are open: which queue has one, and how it is forgotten.
 *
 * Invariant: what a batch holds is given back when it is closed, however that comes about; a record
 * that is collected has its reservation of a completion, and ends by that one, unless the host is
 * gone.
 */

import {
  BATCH_NONE,
  operationHighOf,
  operationLowOf,
  releaseMembers,
  vaHighOf,
  vaLowOf,
} from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { BATCH_TIMEOUT_US, LOCAL_BATCHES } from '../board/limits.ts'
import { blankOut, complete } from '../host/completion.ts'
import * as el from '../host/element.ts'
import type { HostContext } from '../host/host-state.ts'
import type { LocalBatch } from '../host/work.ts'
import type { QueueContext, QueueState } from './context.ts'

/** The batch of that queue of which some is to come, or null. */
export function openOf(state: QueueState, queue: number): LocalBatch | null {
  const { hostWork } = state
  if (hostWork.openBatches === 0) return null
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    if (hostWork.batches[i]!.queue === queue) return hostWork.batches[i]!
  }
  return null
}

/** Nothing more comes of the burst, and nothing of it is collected. */
export function closeCollected(state: BatchState & QueueState, local: LocalBatch): void {
  const { batches, hostWork } = state
  batches.open -= 1
  hostWork.openBatches -= 1
  local.queue = -1
  local.batch.phase = BATCH_NONE
  releaseMembers(batches, local.batch)
}

/** Begins to say how record `n` ended: `host.completion`. */
export function describeCollected(state: HostContext, local: LocalBatch, n: number): void {
  const { completion } = state.host
  const { batch } = local
  const members = batch.members!
  const { unit, units } = local.collected[n]!
  const index = members.indexes[n]!
  blankOut(completion)
  completion.queue = local.queue
  completion.unit = unit
  completion.pointer = (unit + units) >>> 0
  completion.opcode = el.WQE_WRITE_PERSIST
  completion.length = members.lengths[n]!
  completion.addressHigh = vaHighOf(batch, n)
  completion.addressLow = vaLowOf(batch, n)
  completion.operationHigh = operationHighOf(batch, index)
  completion.operationLow = operationLowOf(batch, index)
  completion.incarnation = state.incarnation
}

/** The queue is over: what is collected of it ends as flushed. */
export function flushCollected(state: QueueContext, queue: number): void {
  const { host, list } = state
  const local = openOf(state, queue)
  if (local === null) return
  const { batch } = local
  for (let n = batch.judged; n < batch.received; n++) {
    describeCollected(state, local, n)
    host.completion.status = el.WC_WR_FLUSH_ERR
    complete(host, list, local.collected[n]!.place)
  }
  closeCollected(state, local)
}

/** The host is gone, and its batches with it: nobody is told. */
export function dropCollected(state: BatchState & QueueState): void {
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    const local = state.hostWork.batches[i]!
    if (local.queue >= 0) closeCollected(state, local)
  }
}

/** When a batch is to be given up, µs, or Infinity. */
export function collectedDueUs({ hostWork }: QueueState): number {
  let dueUs = Infinity
  if (hostWork.openBatches === 0) return dueUs
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    const { queue, batch } = hostWork.batches[i]!
    const atUs = batch.lastUs + BATCH_TIMEOUT_US
    if (queue >= 0 && atUs < dueUs) dueUs = atUs
  }
  return dueUs
}
