// hot path
/**
 * Executes the elements of the host's queues, by the type of the queue: on the card's own part
 * (queues/local.ts), over the wire (queues/connected.ts), as datagrams of management, for the flush
 * agent.
 *
 * Invariant: an element is executed once, from the copy that was judged, and completes
 * itself; where it returns WAIT nothing of it has happened; where it returns a fault its queue is
 * over, and the caller says so. At the end of a pass every record that it brought is committed.
 */

import { assert } from '../board/assert.ts'
import { COMMANDS_MAX } from '../board/limits.ts'
import { runBurst } from '../burst/burst.ts'
import { dropCollected } from '../burst/collected-batches.ts'
import type {
  BurstContext,
  QueueState,
  RecordContext,
  ServeContext,
  WorkContext,
} from '../burst/context.ts'
import { freeBuffer, gatherBytes } from '../engine/buffers.ts'
import { describeEnd, finishElement } from '../engine/complete.ts'
import { commitNow } from '../engine/group.ts'
import { typeOf } from '../host/context.ts'
import * as el from '../host/element.ts'
import type { HostState } from '../host/host-state.ts'
import { TYPE_AGENT, TYPE_CONNECTED, TYPE_GSI, TYPE_LOCAL } from '../host/queue-info.ts'
import { EXECUTED, WAIT } from '../host/work.ts'
import { executeAgentSend } from '../placement/flush-agent.ts'
import { ringReceives } from '../respond/host-receive.ts'
import { executeConnected, isUntold } from './connected.ts'
import { sendDatagram } from './gsi.ts'
import { executeLocal } from './local.ts'
import { storeCollectedLocal } from './local-batch.ts'
import { dropPairs, serveHostPairs } from './pairs.ts'

/** Commands that may stand in the list when an element begins: the rest is for it. */
const LIST_ROOM: number = COMMANDS_MAX >> 3

/**
 * Executes `host.element`, which has its reservation in the completion queue whose context is
 * in that place: EXECUTED, WAIT, or the fault that ends its queue.
 */
export function executeElement(state: ServeContext, completions: number): number {
  const { host } = state
  state.hostWork.place = completions
  const { element } = host
  const type = typeOf(host, element.place)
  if (state.list.count > LIST_ROOM) runBurst(state)
  if (element.opcode === el.WQE_NOP) return executeNothing(state, type)
  if (type === TYPE_LOCAL) return executeLocal(state)
  if (type === TYPE_CONNECTED) return executeConnected(state)
  if (type === TYPE_GSI) return executeDatagram(state)
  assert(type === TYPE_AGENT, 'a context of any other type was refused when it was read')
  return executeAgentSend(state)
}

/** A NOP: it completes behind everything that was posted before it. */
function executeNothing(state: RecordContext, type: number): number {
  if (type === TYPE_CONNECTED && isUntold(state, state.host.element.place)) return WAIT
  if (type === TYPE_LOCAL) storeCollectedLocal(state)
  if (state.hostWork.recordCount > 0) commitNow(state)
  describeEnd(state, el.WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

function executeDatagram(state: BurstContext): number {
  const { element } = state.host
  const gathered = gatherBytes(state)
  if (gathered !== EXECUTED) return gathered
  const { buffer, dataAt } = state.hostWork
  const sent = sendDatagram(state, element.at, dataAt, element.length)
  freeBuffer(state, buffer)
  if (sent !== EXECUTED) return sent
  describeEnd(state, el.WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

/** A receive queue was rung; its context is in that place. */
export function receivesRung(state: HostState & QueueState, place: number): void {
  if (typeOf(state.host, place) === TYPE_CONNECTED) ringReceives(state, place)
}

/** The end of a pass: what was fetched is not needed any more. */
export function endPass(state: ServeContext): void {
  if (state.hostWork.recordCount > 0) commitNow(state)
  serveHostPairs(state)
}

/** The host is gone, with everything that it had asked for. */
export function dropHostWork(state: WorkContext): void {
  dropCollected(state)
  dropPairs(state)
}
