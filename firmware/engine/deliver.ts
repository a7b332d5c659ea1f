// hot path
/**
 * What the host receives: the element that is next, its memory, and the completion that tells of it
 * (P3-26); and how a message of a batch goes there (source 4; S1-M9).
 *
 * A SEND takes its element as it comes (respond/host-receive.ts). A message of a batch is collected
 * like a record, and takes one when it is judged:
 *
 *   its operation is a new one ▸ the condition holds ▸ what has to be before it is durable ▸ an
 *   element, and room for its completion, are here ▸ data and completion go to the host ▸ it joins
 *   the group, which notes its operation behind F2 ▸ F3 ▸ its bit is set
 *
 * Invariants:
 * - The completion stands in the list behind the bytes that it speaks of, and both in front of the
 *   commit that notes the operation. So a message is told as done only when the host has it.
 * - A message whose operation the table knows is not delivered again. One is delivered twice only
 *   where the power went, or the part closed, between its completion and F3: both completions name
 *   the operation. A connection that breaks comes between two calls, and so never between those.
 * - A message that is refused has taken nothing: the element is the next one's.
 * - Between the element that is found here and its completion no list is run, so what was judged
 *   still holds.
 */

import { copy } from '../board/command-list.ts'
import {
  type Fault,
  MEMORY_KEY,
  NO_RECEIVE,
  PASS,
  QP_ERROR_STATE,
  RECORD_LENGTH,
  UNREADABLE,
} from '../board/fault.ts'
import { DMA_SPACE } from '../board/hal.ts'
import { POSTED_RECEIVES } from '../board/limits.ts'
import { refuseQueuePair } from '../burst/burst.ts'
import type { BurstContext, QueueContext, QueueState } from '../burst/context.ts'
import { failHostQueue } from '../burst/queue-contexts.ts'
import { blankOut, complete, reserveCompletion } from '../host/completion.ts'
import * as el from '../host/element.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { memoryFault } from '../host/memory-regions.ts'
import type { HostPair } from '../host/work.ts'
import type { Ask } from '../transport/message.ts'
import type { Party } from '../transport/queue-pair.ts'

/** Is an element here, and room for its completion kept? Else both are looked for. */
export function isElementReady(
  { host, hostWork }: HostState & QueueState,
  pair: HostPair,
): boolean {
  const isFetched = pair.fetched !== pair.taken
  if (pair.reserved < 0 && isFetched) {
    const place = host.contexts.placeOf[pair.completions]!
    if (place >= 0 && reserveCompletion(host, place)) pair.reserved = place
  }
  if (pair.reserved >= 0 && isFetched) return true
  pair.starved = true
  hostWork.look = true
  return false
}

/** The memory of an element may have been taken back since it was judged: its queue is over. */
export function elementFault(state: QueueContext, pair: HostPair, entry: number): Fault {
  const { regions } = state.host
  const key = pair.receiveKey[entry]!
  const at = pair.receiveAt[entry]!
  const bytes = pair.receiveBytes[entry]!
  const fault = memoryFault(regions, key, pair.qp!.protectionDomain, at, bytes)
  if (fault === PASS) return PASS
  failHostQueue(state, pair.receive, MEMORY_KEY)
  return UNREADABLE
}

/** Begins the completion of the element that is next. */
export function beginReceiveCompletion(state: HostContext, pair: HostPair): void {
  const { completion } = state.host
  const unit = pair.receiveUnit[pair.taken & (POSTED_RECEIVES - 1)]!
  blankOut(completion)
  completion.queue = pair.receive
  completion.unit = unit
  completion.pointer = (unit + 1) >>> 0
  completion.opcode = el.WQE_RECEIVE
  completion.incarnation = state.incarnation
}

/** The element is the host's again, as the completion says that was begun. */
export function endReceipt(state: HostContext & QueueState, pair: HostPair): void {
  const place = pair.reserved
  pair.reserved = -1
  pair.taken = (pair.taken + 1) | 0
  // The next elements, before they are missed; and a result that waited for the message to end.
  if (pair.receiveWaits || pair.resultFirst >= 0) state.hostWork.look = true
  complete(state.host, state.list, place)
}

/**
 * Delivers the message of a batch, its data at `dataAt`, to the host behind the queue pair: PASS.
 * NO_RECEIVE without an element, or room to tell; RECORD_LENGTH where it is longer than that;
 * QP_ERROR_STATE where the element was no good, which has ended the queue pair.
 */
export function deliverMember(state: BurstContext, party: Party, ask: Ask, dataAt: number): Fault {
  const pair = state.hostWork.pairs[party.index]!
  const { qp } = pair
  if (qp !== party || !isElementReady(state, pair)) return NO_RECEIVE
  const entry = pair.taken & (POSTED_RECEIVES - 1)
  const { length } = ask
  if (length > pair.receiveBytes[entry]!) return RECORD_LENGTH
  if (length > 0) {
    const fault = elementFault(state, pair, entry)
    if (fault !== PASS) {
      refuseQueuePair(state, qp, ask.lastPsn, fault)
      return QP_ERROR_STATE
    }
    copy(state.list, dataAt, DMA_SPACE + pair.receiveAt[entry]!, length)
  }
  beginReceiveCompletion(state, pair)
  const { completion } = state.host
  completion.length = length
  completion.psn = ask.lastPsn
  completion.source = qp.peerNumber
  completion.operationHigh = ask.operationHigh
  completion.operationLow = ask.operationLow
  endReceipt(state, pair)
  return PASS
}
