// hot path
/**
 * How elements of the host end: what their completions say (source 3; P3-27).
 *
 * Invariant: an element that succeeds unasked (not SIGNALED) gives its reservation back
 * and says nothing; every other one ends by exactly one completion.
 */

import { count } from '../board/context.ts'
import * as faults from '../board/fault.ts'
import { FAULTS, type Fault } from '../board/fault.ts'
import type { QueueState } from '../burst/context.ts'
import { blankOut, complete, releaseCompletion } from '../host/completion.ts'
import * as el from '../host/element.ts'
import type { HostContext } from '../host/host-state.ts'
import { EXECUTED } from '../host/work.ts'

/** `ibv_wc_status` of an element that ends its queue by that fault. */
export function statusOf(fault: Fault): number {
  if (fault === faults.ELEMENT_LENGTH) return el.WC_LOC_LEN_ERR
  if (fault === faults.MEMORY_KEY) return el.WC_LOC_PROT_ERR
  if (fault === faults.DMA) return el.WC_GENERAL_ERR
  if (fault === faults.CONNECTION_LOST) return el.WC_WR_FLUSH_ERR
  const { answer, code } = FAULTS[fault]!
  // As a peer on the wire would have told it.
  if (answer === 'nak' && code >= NAK_INVALID) return NAK_STATUS[code - NAK_INVALID]!
  return el.WC_LOC_QP_OP_ERR
}

const NAK_INVALID = 0x61
const NAK_STATUS: readonly number[] = [
  el.WC_REM_INV_REQ_ERR,
  el.WC_REM_ACCESS_ERR,
  el.WC_REM_OP_ERR,
]

/** Begins to say how the element ended: `host.completion`, except for what is special of it. */
export function describeEnd(state: HostContext, status: number): void {
  const { element, completion } = state.host
  blankOut(completion)
  completion.queue = element.queue
  completion.unit = element.unit
  completion.status = status
  completion.opcode = element.opcode
  completion.length = element.length
  completion.addressHigh = element.addressHigh
  completion.addressLow = element.addressLow
  completion.pointer = (element.unit + element.units) >>> 0
  completion.incarnation = state.incarnation
}

/** Ends the element as `host.completion` describes it. */
export function finishElement(state: HostContext & QueueState): void {
  const { host, list } = state
  const { place } = state.hostWork
  const silent = (host.element.flags & el.SIGNALED) === 0
  if (silent && host.completion.status === el.WC_SUCCESS) releaseCompletion(host, place)
  else complete(host, list, place)
}

/** Refuses the element alone, as a PERSIST_ACK with that status would. */
export function refuseElement(state: HostContext & QueueState, fault: Fault): number {
  count(state, fault)
  describeEnd(state, el.WC_GENERAL_ERR)
  const { completion, element } = state.host
  completion.refusal = FAULTS[fault]!.code
  completion.operationHigh = element.operationHigh
  completion.operationLow = element.operationLow
  finishElement(state)
  return EXECUTED
}
