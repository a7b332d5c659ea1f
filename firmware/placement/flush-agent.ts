/**
 * The card's side of the flush agent's queue pair (TYPE_AGENT): who may be asked, what was asked,
 * what is finished (source 2, S1005 to S1017; P2-17 to P2-25).
 *
 *   its RECEIVE ──▶ taken for the data, cleared ──▶ completion: WRITE_BACK, where, PSN, operation
 *   its SEND    ──▶ the number that it carries is finished ──▶ PERSIST_ACKs ──▶ its completion
 *
 * Invariants:
 * - A request is written behind the data that it speaks of, over the same link: who sees the
 *   completion sees the data (PCIe ordering). Without a RECEIVE nothing is asked (P2-25).
 * - `finished` moves forward only, and never past what was asked. A SEND that goes back is counted
 *   and passed over; one that says too much ends the agent (fault H1) and its queue, and is never
 *   believed later. A SEND of another queue earns nothing.
 * - A new agent has finished nothing, and has a life of its own: whatever was asked before it is
 *   stored and asked again (through.ts). One whose host is gone, or has begun again, is gone with
 *   it (H4), and earns nothing from that moment on.
 * - A SEND completes behind the PERSIST_ACKs that it earned.
 */

import { assert } from '../board/assert.ts'
import { copy, resultOf, run, runAll } from '../board/command-list.ts'
import { count } from '../board/context.ts'
import {
  BELL,
  COMPLETION_OVERRUN,
  DMA,
  ELEMENT_FORM,
  type Fault,
  NO_AGENT,
  PASS,
  PLACEMENT_UNKNOWN,
  PLACEMENT_WRONG,
  QUEUE_UNKNOWN,
} from '../board/fault.ts'
import { DMA_SPACE, DONE, HOST_SPACE } from '../board/hal.ts'
import { UNIT_BYTES } from '../board/limits.ts'
import { FLUSH_ELEMENT_AT } from '../board/memory-map.ts'
import type { BurstContext, QueueState, RecordContext, ThroughState } from '../burst/context.ts'
import { contextNow, failHostQueue, NO_QUEUE, refreshNow } from '../burst/queue-contexts.ts'
import { type FlushAgent, type FlushRequest, NONE } from '../burst/through-job.ts'
import type { CommitState } from '../commit/context.ts'
import { PLACEMENT_UNPROVEN } from '../commit/proof.ts'
import { describeEnd, finishElement } from '../engine/complete.ts'
import { blankOut, complete, overrun, reserveCompletion } from '../host/completion.ts'
import {
  farPointerOf,
  movePointer,
  pointerOf,
  queueKindOf,
  stateOf,
  typeOf,
  unitOffset,
  writeContexts,
  zone1Word,
} from '../host/context.ts'
import { ringQueue } from '../host/doorbell.ts'
import { WC_SUCCESS, WQE_RECEIVE, WQE_SEND_IMM, WRITE_BACK } from '../host/element.ts'
import { checkElement } from '../host/element-check.ts'
import { writeInterrupt } from '../host/events.ts'
import { HOST_SERVED } from '../host/host.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import {
  ahead,
  KIND_SEND,
  QUEUE_ERROR,
  QUEUE_PAUSED,
  QUEUE_READY,
  TYPE_AGENT,
  Z1_COMPLETIONS,
  Z1_OTHER,
} from '../host/queue-info.ts'
import { EXECUTED, WAIT } from '../host/work.ts'
import { PLACEMENT_THROUGH } from '../medium/region.ts'

/** Is number `a` the same as `b` or later? Numbers are 32 bits and wrap. */
function reached(a: number, b: number): boolean {
  return ((a - b) | 0) >= 0
}

/** Whoever speaks for the agent shows the number of the last probe: only who sees it knows it. */
export function proveAgent(state: CommitState, numberHigh: number, numberLow: number): Fault {
  const { proof } = state
  if (proof.proven === PLACEMENT_UNPROVEN) return PLACEMENT_UNKNOWN
  if (numberHigh !== proof.numberHigh || numberLow !== proof.numberLow) {
    return PLACEMENT_UNKNOWN
  }
  return proof.proven === PLACEMENT_THROUGH ? PASS : PLACEMENT_WRONG
}

/** The agent is there, with that send queue. */
export function attachAgent(state: RecordContext, send: number): Fault {
  const { host } = state
  if (host.phase !== HOST_SERVED) return QUEUE_UNKNOWN
  const place = contextNow(state, send)
  if (place < 0) return QUEUE_UNKNOWN
  if (queueKindOf(host, place) !== KIND_SEND || typeOf(host, place) !== TYPE_AGENT)
    return QUEUE_UNKNOWN
  if (stateOf(host, place) !== QUEUE_READY) return QUEUE_UNKNOWN
  const { agent } = state.through
  endAgent(agent)
  agent.attached = true
  agent.broken = false
  agent.send = send
  agent.receive = zone1Word(host, place, Z1_OTHER)
  agent.epoch = host.epoch
  agent.finished = agent.asked
  agent.noted = NONE
  return PASS
}

/** The agent's life is over, if there was one. */
export function endAgent(agent: FlushAgent): void {
  agent.attached = false
  agent.life += 1
}

/** Is the agent still to be believed, and its host there? */
export function isAgentWell(state: CommitState & HostState & ThroughState): boolean {
  const { agent } = state.through
  const { host } = state
  if (!agent.attached) return true
  if (state.proof.proven !== PLACEMENT_THROUGH) return false
  return !agent.broken && host.phase === HOST_SERVED && host.epoch === agent.epoch
}

/** Is there a RECEIVE for one more request? If not, zone 3 is read again. */
export function hasReceive(state: RecordContext): boolean {
  const { agent } = state.through
  if (!agent.attached || agent.broken) return false
  const place = receivePlace(state)
  if (place < 0) return false
  const { host } = state
  if (pointerOf(host, place) !== farPointerOf(host, place)) return true
  if (refreshNow(state, place)) return pointerOf(host, place) !== farPointerOf(host, place)
  agent.broken = true
  return false
}

/** Where the context of its receive queue is, or NONE; a queue that is over ends the agent. */
function receivePlace(state: RecordContext): number {
  const { agent } = state.through
  const { host } = state
  const place = contextNow(state, agent.receive)
  if (place === NO_QUEUE) agent.broken = true
  if (place < 0) return NONE
  const stands = stateOf(host, place)
  if (stands === QUEUE_ERROR || typeOf(host, place) !== TYPE_AGENT) agent.broken = true
  return stands === QUEUE_READY ? place : NONE
}

/**
 * Takes a RECEIVE for the request, and appends its completion; there is one. False if it could not
 * be: then the agent is gone.
 */
export function askFlush(state: RecordContext, request: FlushRequest): boolean {
  const { agent } = state.through
  const { host, list } = state
  const place = receivePlace(state)
  assert(place >= 0, 'who is asked has a receive: hasReceive has just seen it')
  host.contexts.pins[place]! += 1
  const cq = contextNow(state, zone1Word(host, place, Z1_COMPLETIONS))
  host.contexts.pins[place]! -= 1
  // One that is locked is asked again when it is released.
  if (cq < 0 || stateOf(host, cq) === QUEUE_PAUSED) return false
  const fault = takeAgentReceive(state, place, cq)
  if (fault !== PASS) {
    failHostQueue(state, agent.receive, fault)
    agent.broken = true
    return false
  }
  agent.asked = (agent.asked + 1) >>> 0
  tellRequest(state, place, request)
  complete(host, list, cq)
  movePointer(host, place, host.completion.pointer)
  return true
}

/**
 * Fetches the RECEIVE that is next, once, and judges the copy; promises room for its completion.
 */
function takeAgentReceive(state: BurstContext, place: number, cq: number): Fault {
  const { host, list } = state
  const unit = pointerOf(host, place)
  const stored = ahead(farPointerOf(host, place), unit)
  if (list.count > 0) run(list)
  const from = DMA_SPACE + unitOffset(host, place, unit)
  const read = copy(list, from, FLUSH_ELEMENT_AT, UNIT_BYTES)
  runAll(list)
  if (resultOf(list, read) !== DONE) return DMA
  const fault = checkElement(host, place, FLUSH_ELEMENT_AT, unit, stored)
  if (fault !== PASS) return fault
  if (stateOf(host, cq) === QUEUE_ERROR) return COMPLETION_OVERRUN
  if (reserveCompletion(host, cq)) return PASS
  if (!refreshNow(state, cq)) return COMPLETION_OVERRUN
  if (reserveCompletion(host, cq)) return PASS
  overrun(host, list, cq)
  return COMPLETION_OVERRUN
}

/** The element is made from the data, and is at once its completion (P2-18, P2-19). */
function tellRequest(state: HostState & ThroughState, place: number, request: FlushRequest): void {
  const { host } = state
  const { completion } = host
  const { agent } = state.through
  const offset = request.address - HOST_SPACE
  const unit = pointerOf(host, place)
  blankOut(completion)
  completion.queue = agent.receive
  completion.unit = unit
  completion.status = WC_SUCCESS
  completion.opcode = WQE_RECEIVE
  completion.flags = WRITE_BACK
  completion.length = request.length
  completion.immediate = agent.asked
  completion.operationHigh = request.operationHigh
  completion.operationLow = request.operationLow
  completion.psn = request.psn
  completion.addressHigh = Math.floor(offset / 2 ** 32)
  completion.addressLow = (offset % 2 ** 32) | 0
  completion.source = request.queuePair
  completion.pointer = (unit + 1) >>> 0
}

/**
 * Executes a SEND of an agent: every request up to the number that it carries is finished. EXECUTED
 * behind the PERSIST_ACKs that it earned; WAIT until then; or the fault that ends its queue.
 */
export function executeAgentSend(state: RecordContext): number {
  const { agent } = state.through
  const { queue, unit, opcode, length, immediate: number } = state.host.element
  if (opcode !== WQE_SEND_IMM || length !== 0) return ELEMENT_FORM
  if (!agent.attached || !isAgentWell(state) || queue !== agent.send) return NO_AGENT
  if (agent.noted === unit) {
    assert(agent.served, 'behind every pass over the queues the jobs have been looked after')
    agent.noted = NONE
    return endSend(state)
  }
  if (number === agent.finished) return endSend(state)
  if (reached(number, agent.finished) && reached(agent.asked, number)) {
    agent.finished = number
    agent.noted = unit
    agent.served = false
    return WAIT
  }
  if (!reached(agent.asked, number)) {
    agent.broken = true
    return BELL
  }
  count(state, BELL)
  return endSend(state)
}

function endSend(state: HostContext & QueueState): number {
  describeEnd(state, WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

/** What was finished has been acknowledged: the SEND that said so may complete. True if one may. */
export function releaseSend(state: HostState & ThroughState): boolean {
  const { agent } = state.through
  if (agent.noted === NONE || agent.served) return false
  agent.served = true
  return ringQueue(state.host, agent.send)
}

/** Tells the host what was asked: zone 1 of its queues, and that there are events. */
export function tellAgentHost(state: HostContext): void {
  const { host, list } = state
  if (host.phase !== HOST_SERVED) return
  writeContexts(host, list)
  writeInterrupt(host, list)
}

export function isFinished(agent: FlushAgent, number: number): boolean {
  return agent.attached && reached(agent.finished, number)
}
