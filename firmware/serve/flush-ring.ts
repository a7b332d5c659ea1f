/**
 * The card's side of the ring of flush requests: who may ask, what was asked, what is finished.
 *
 * What always holds:
 * - A request is written behind the data that it speaks of, in the same list: who sees the request
 *   sees the data (PCIe ordering).
 * - `finished` moves forward only, and never past what was asked. A bell that says otherwise is
 *   counted; one of an agent that is gone is passed over, one that says too much ends the agent
 *   (fault H1), and is never believed later.
 * - A new agent has finished nothing: whatever was asked before it is asked again.
 */

import { copy, run } from '../command-list.ts'
import { PLACEMENT_UNPROVEN } from '../commit/placement.ts'
import { BELL, type Fault, NO_AGENT, PASS, PLACEMENT_UNKNOWN, PLACEMENT_WRONG } from '../fault.ts'
import { HOST_FLUSHED_AT, HOST_SPACE } from '../hal.ts'
import { LINE_BYTES } from '../limits.ts'
import {
  numberReached,
  REQUEST_ADDRESS,
  REQUEST_END,
  REQUEST_LENGTH,
  REQUEST_NUMBER,
  REQUEST_OPERATION,
  REQUEST_PSN,
  REQUEST_QP,
  REQUEST_SLOT,
  REQUEST_TOKEN,
  REQUESTS,
  RING_RECEIVES,
  RING_TOKEN,
  requestAt,
} from '../memory/flush-request.ts'
import { HOST_RING_AT, PLACEMENT_THROUGH } from '../memory/region.ts'
import { FLUSH_LINES_AT, FLUSH_RING_AT } from '../memory-map.ts'
import { count, random32, type State } from '../state.ts'

const NO_BELL = -1

export interface FlushRing {
  attached: boolean
  token: number
  /** Number of the last request written, of the last one finished, of the last receive posted. */
  asked: number
  finished: number
  receives: number
  /** The bell that was counted as wrong, or NO_BELL: it says nothing until it changes. */
  wrongBell: number
}

export function createFlushRing(): FlushRing {
  return { attached: false, token: 0, asked: 0, finished: 0, receives: 0, wrongBell: NO_BELL }
}

/** What a request asks to be written back, and of which record it speaks. */
export interface FlushRequest {
  /** Address in HOST_SPACE, and bytes. */
  address: number
  length: number
  psn: number
  queuePair: number
  slot: number
  operationHigh: number
  operationLow: number
}

/**
 * The agent is there. It shows the number of the last probe, as only who sees the host's memory
 * can. Faults: PLACEMENT_UNKNOWN, PLACEMENT_WRONG.
 */
export function attachAgent(state: State, numberHigh: number, numberLow: number): Fault {
  const { placement } = state
  if (placement.proven === PLACEMENT_UNPROVEN) return PLACEMENT_UNKNOWN
  if (numberHigh !== placement.numberHigh || numberLow !== placement.numberLow) {
    return PLACEMENT_UNKNOWN
  }
  if (placement.proven !== PLACEMENT_THROUGH) return PLACEMENT_WRONG
  const { ring } = state.through
  ring.attached = true
  ring.token = (random32(state) | 1) >>> 0
  ring.finished = ring.asked
  ring.receives = ring.asked
  return PASS
}

/** PASS while an agent is attached, as far as is known. */
export function agentFault(state: State): Fault {
  return state.through.ring.attached ? PASS : NO_AGENT
}

/**
 * Reads the bell. False if it speaks of what was not asked: then the agent is not to be believed. A
 * bell that goes back is that of an agent that was replaced.
 */
export function readBell(state: State): boolean {
  const { ring } = state.through
  const bell = state.words[HOST_FLUSHED_AT >> 2]! >>> 0
  if (!ring.attached || bell === ring.finished || bell === ring.wrongBell) return true
  if (numberReached(bell, ring.finished) && numberReached(ring.asked, bell)) {
    ring.finished = bell
    ring.wrongBell = NO_BELL
    return true
  }
  count(state, BELL)
  ring.wrongBell = bell
  return numberReached(ring.asked, bell)
}

/** Is there a receive for one more request? If not, the agent's line is read again. */
export function hasReceive(state: State): boolean {
  const { ring } = state.through
  if (!ring.attached) return false
  if (ring.receives === ring.asked) readReceives(state)
  return ring.receives !== ring.asked
}

/** A line that is not of this agent, or says more than the ring holds, says nothing. */
function readReceives(state: State): void {
  const { ring } = state.through
  copy(state.list, HOST_SPACE + HOST_RING_AT, FLUSH_RING_AT, LINE_BYTES)
  if (run(state.list) >= 0) return
  const token = state.words[(FLUSH_RING_AT + RING_TOKEN) >> 2]! >>> 0
  const receives = state.words[(FLUSH_RING_AT + RING_RECEIVES) >> 2]! >>> 0
  if (token !== ring.token || !numberReached(receives, ring.asked)) return
  if (numberReached(ring.finished + REQUESTS, receives)) ring.receives = receives
}

/** Appends a request to the list; there is a receive for it. Returns its number. */
export function askFlush(state: State, request: FlushRequest): number {
  const { ring } = state.through
  ring.asked = (ring.asked + 1) >>> 0
  const number = ring.asked
  const line = FLUSH_LINES_AT + (number & (REQUESTS - 1)) * LINE_BYTES
  const words = state.words
  const w = line >> 2
  const offset = request.address - HOST_SPACE
  for (let i = 0; i < LINE_BYTES / 4; i++) words[w + i] = 0
  words[w + (REQUEST_NUMBER >> 2)] = number
  words[w + (REQUEST_PSN >> 2)] = request.psn
  words[w + (REQUEST_ADDRESS >> 2)] = (offset % 2 ** 32) | 0
  words[w + (REQUEST_ADDRESS >> 2) + 1] = Math.floor(offset / 2 ** 32)
  words[w + (REQUEST_LENGTH >> 2)] = (request.length % 2 ** 32) | 0
  words[w + (REQUEST_LENGTH >> 2) + 1] = Math.floor(request.length / 2 ** 32)
  words[w + (REQUEST_OPERATION >> 2)] = request.operationLow
  words[w + (REQUEST_OPERATION >> 2) + 1] = request.operationHigh
  words[w + (REQUEST_QP >> 2)] = request.queuePair
  words[w + (REQUEST_SLOT >> 2)] = request.slot
  words[w + (REQUEST_TOKEN >> 2)] = ring.token
  words[w + (REQUEST_END >> 2)] = number
  copy(state.list, line, HOST_SPACE + requestAt(number), LINE_BYTES)
  return number
}

export function isFinished(ring: FlushRing, number: number): boolean {
  return ring.attached && numberReached(ring.finished, number)
}
