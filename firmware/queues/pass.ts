// hot path
/**
 * One pass over the queues of the host whose turn it is.
 *
 *   pick ≤ FETCHES ▸ contexts, or their zone 3 alone ▸ judge ▸ completion queues ▸ fetch
 *        ▸ check each element once ▸ execute ▸ to the end of the line, if there is more
 *
 * Invariants:
 * - A queue is picked in its turn, and gets FETCH_UNITS units at the most; then it goes to the end.
 *   One with a full ring and ten thousand others with one element each are served alike (N22).
 * - The copy of an element that is judged is the one that is executed (H2); nothing beyond the
 *   write pointer is fetched. That was just read from zone 3, or is trusted (trust.ts).
 * - Room for the completion is reserved before the element is executed. A completion queue without
 *   room is looked at again; if there is still none, it and that queue are over, and nothing else.
 * - A read that fails is the error of its queue; what was executed before stays executed.
 * - The contexts of the pass stay where they are until it is over.
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import {
  COMPLETION_OVERRUN,
  DMA,
  DOORBELL,
  type Fault,
  PASS,
  QUEUE_CONTEXT,
} from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import { FETCH_UNITS, FETCHES, UNIT_BYTES, WQE_UNITS_MAX } from '../board/limits.ts'
import { FETCH_AT, FETCH_BYTES } from '../board/memory-map.ts'
import { runBurst } from '../burst/burst.ts'
import type {
  BurstContext,
  QueueContext,
  QueueState,
  RecordContext,
  ServeContext,
} from '../burst/context.ts'
import { failHostQueue, judgeRead, QUEUE_ABSENT, takePlace } from '../burst/queue-contexts.ts'
import { statusOf } from '../engine/complete.ts'
import { commitNow } from '../engine/group.ts'
import {
  blankOut,
  complete,
  hasReservations,
  isCrowded,
  overrun,
  refreshCompletions,
  releaseCompletion,
  reserveCompletion,
  tellAll,
} from '../host/completion.ts'
import {
  depthOf,
  farPointerOf,
  isValid,
  movePointer,
  pointerOf,
  queueKindOf,
  readContext,
  readPointer,
  refreshPointer,
  stateOf,
  unitOffset,
  writeContexts,
  zone1Word,
} from '../host/context.ts'
import { findContext } from '../host/context-cache.ts'
import { WQE_OPCODE } from '../host/element.ts'
import { checkElement, unitsAt } from '../host/element-check.ts'
import { isEventsReadDue, postEvent, readEventsTaken, refreshEvents } from '../host/events.ts'
import { EVENT_QUEUE_ERROR, QUEUE_GSI_COMPLETION } from '../host/header-page.ts'
import {
  DOORBELLS_REFUSED,
  ELEMENT_READS,
  ELEMENTS,
  ELEMENTS_REFUSED,
  HITS,
  type HostQueues,
  type Pass,
} from '../host/host.ts'
import type { HostContext } from '../host/host-state.ts'
import { frontOf, leaveLists, PENDING, stand, takeCarried, WAITING } from '../host/pending.ts'
import {
  ahead,
  KIND_COMPLETION,
  KIND_RECEIVE,
  QUEUE_ERROR,
  QUEUE_PAUSED,
  QUEUE_READY,
  Z1_COMPLETIONS,
} from '../host/queue-info.ts'
import { EXECUTED, WAIT } from '../host/work.ts'
import { giveRoomBack } from '../respond/host-receive.ts'
import { isUntold } from './connected.ts'
import { endPass, executeElement, receivesRung } from './execute.ts'
import { failHost } from './host.ts'
import { abortCollected } from './local-batch.ts'
import { forgetCarried, trustCarried } from './trust.ts'

/** Serves the queues at the front of those that were rung. */
export function serveQueuePass(state: ServeContext): void {
  const { host, list } = state
  const { pass } = host
  host.passes += 1
  writeContexts(host, list)
  if (list.count > 0) runBurst(state)
  pick(state)
  const events = isEventsReadDue(host) ? readEventsTaken(host, list) : -1
  readPicked(host, state)
  runAll(list)
  if (events >= 0 && resultOf(list, events) !== DONE) {
    failHost(state)
    return
  }
  judgePicked(state)
  if (events >= 0) refreshEvents(host, list)
  if (findCompletions(state)) judgeCompletions(state)
  fetch(state)
  for (let i = 0; i < pass.count; i++) if (pass.units[i]! > 0) executeQueue(state, i)
  endPass(state)
  unpin(host)
}

/** Takes queues from the front of the line, with a place for the context of each. */
function pick(state: HostContext & QueueState): void {
  const { host } = state
  const { pass, pending, contexts } = host
  pass.count = 0
  // Each of them may need a place for its completion queue, too.
  const half = contexts.capacity >> 1
  const most = half < FETCHES ? half : FETCHES
  while (pass.count < most) {
    const queue = frontOf(pending, PENDING)
    if (queue < 0) return
    let place = findContext(contexts, queue)
    const known = place >= 0
    if (known) host.counters[HITS]! += 1
    else place = takePlace(host, queue)
    if (place < 0) {
      // Every context has to stay. Those that stay for a delayed interrupt need not, nor those that
      // stay for a message yet to come.
      tellAll(host, state.list)
      giveRoomBack(state)
      stand(pending, queue, WAITING)
      return
    }
    leaveLists(pending, queue)
    contexts.pins[place]! += 1
    const i = pass.count
    pass.queues[i] = queue
    pass.places[i] = place
    pass.completions[i] = -1
    pass.known[i] = known ? 1 : 0
    pass.units[i] = 0
    pass.count = i + 1
  }
}

/**
 * Of a queue that is known one read, of its pointer (P3-15), or none where a doorbell has told it
 * (S1-M8); of another one all of it (P3-17).
 */
function readPicked(host: HostQueues, { list }: BoardState): void {
  const { pass } = host
  for (let i = 0; i < pass.count; i++) {
    const place = pass.places[i]!
    const queue = pass.queues[i]!
    const known = pass.known[i] === 1
    pass.reads[i] = -1
    pass.trusted[i] = known && trustCarried(host, place, queue) ? 1 : 0
    if (pass.trusted[i] === 1) continue
    const read = known ? readPointer : readContext
    pass.reads[i] = read(host, list, place, queue)
  }
}

/** Looks at all results of the list before anything is composed in it again. */
function judgePicked(state: QueueContext): void {
  const { host, list } = state
  const { pass } = host
  for (let i = 0; i < pass.count; i++) {
    const place = pass.places[i]!
    const read = pass.reads[i]!
    if (pass.known[i] === 1) {
      pass.outcomes[i] = read < 0 || resultOf(list, read) === DONE ? PASS : DMA
    } else {
      pass.outcomes[i] = judgeRead(host, list, place, read)
      if (host.contexts.queueOf[place] !== pass.queues[i]) pass.places[i] = -1
    }
  }
  for (let i = 0; i < pass.count; i++) judgeQueue(state, i)
}

/** Judges one queue by its context, and sees how many of its units are to be fetched. */
function judgeQueue(state: QueueContext, i: number): void {
  const { host, list } = state
  const { pass, pending } = host
  const queue = pass.queues[i]!
  const place = pass.places[i]!
  const carries = takeCarried(pending, queue)
  let fault = pass.outcomes[i]!
  if (fault === QUEUE_ABSENT || (place >= 0 && !isValid(host, place))) {
    refuseDoorbell(state)
    postEvent(host, list, EVENT_QUEUE_ERROR, queue, DOORBELL)
    return
  }
  if (fault === PASS && stateOf(host, place) === QUEUE_ERROR) {
    refuseDoorbell(state)
    return
  }
  const fresh = pass.known[i] === 1 && pass.trusted[i] === 0
  if (fault === PASS && fresh) fault = refreshPointer(host, place)
  if (fault !== PASS) {
    failHostQueue(state, queue, fault as Fault)
    return
  }
  // A pointer behind memory's is old, and does no harm; one in front of it was never stored.
  const ahead = carries ? (pending.carried[queue]! - farPointerOf(host, place)) | 0 : 0
  if (ahead > 0) refuseDoorbell(state)
  const kind = queueKindOf(host, place)
  if (kind === KIND_COMPLETION) refreshCompletions(host, list, place)
  else if (kind === KIND_RECEIVE) receivesRung(state, place)
  else if (stateOf(host, place) === QUEUE_READY) pass.units[i] = unitsToFetch(host, place)
}

function refuseDoorbell(state: HostContext): void {
  state.host.counters[DOORBELLS_REFUSED]! += 1
  count(state, DOORBELL)
}

function unitsToFetch(host: HostQueues, place: number): number {
  const stored = ahead(farPointerOf(host, place), pointerOf(host, place))
  return stored < FETCH_UNITS ? stored : FETCH_UNITS
}

/** The completion queues of what is to be executed. True if some of them have to be read. */
function findCompletions(state: BurstContext): boolean {
  const { host, list } = state
  const { pass, contexts, pending } = host
  if (list.count > 0) runBurst(state)
  let reads = false
  for (let i = 0; i < pass.count; i++) {
    pass.reads[i] = -1
    if (pass.units[i] === 0) continue
    const queue = zone1Word(host, pass.places[i]!, Z1_COMPLETIONS)
    let place = findContext(contexts, queue)
    const known = place >= 0
    if (known) host.counters[HITS]! += 1
    else place = takePlace(host, queue)
    if (place < 0) {
      tellAll(host, list)
      giveRoomBack(state)
      stand(pending, pass.queues[i]!, WAITING)
      pass.units[i] = 0
      continue
    }
    contexts.pins[place]! += 1
    pass.completions[i] = place
    pass.known[i] = known ? 1 : 0
    if (known && host.stale[place] === 0) continue
    reads = true
    pass.reads[i] = known
      ? readPointer(host, list, place, queue)
      : readContext(host, list, place, queue)
  }
  if (reads) runAll(list)
  return reads
}

/** Judges the completion queues that were read; whose is of no use is executed no further. */
function judgeCompletions(state: QueueContext): void {
  const { host, list } = state
  const { pass } = host
  for (let i = 0; i < pass.count; i++) {
    pass.outcomes[i] = PASS
    const read = pass.reads[i]!
    if (read < 0) continue
    if (pass.known[i] === 1) pass.outcomes[i] = resultOf(list, read) === DONE ? PASS : DMA
    else pass.outcomes[i] = judgeRead(host, list, pass.completions[i]!, read)
  }
  for (let i = 0; i < pass.count; i++) {
    if (pass.reads[i]! < 0) continue
    const queue = zone1Word(host, pass.places[i]!, Z1_COMPLETIONS)
    const place = pass.completions[i]!
    let fault = pass.outcomes[i]!
    if (fault === PASS && pass.known[i] === 1) fault = refreshPointer(host, place)
    if (fault === PASS) refreshCompletions(host, list, place)
    else if (fault !== QUEUE_ABSENT) failHostQueue(state, queue, fault as Fault)
  }
}

/** A queue without a completion queue that is in order ends here. */
function refuseWithout(state: QueueContext, i: number): void {
  const { host } = state
  const { pass, contexts } = host
  const place = pass.completions[i]!
  let fault: Fault = PASS
  if (contexts.queueOf[place] !== zone1Word(host, pass.places[i]!, Z1_COMPLETIONS)) {
    pass.completions[i] = -1
    fault = pass.outcomes[i] === DMA ? DMA : QUEUE_CONTEXT
  } else if (!isValid(host, place) || queueKindOf(host, place) !== KIND_COMPLETION) {
    fault = QUEUE_CONTEXT
  } else if (stateOf(host, place) === QUEUE_ERROR) {
    fault = COMPLETION_OVERRUN
  } else if (stateOf(host, place) === QUEUE_PAUSED) {
    pass.units[i] = 0
    stand(host.pending, pass.queues[i]!, WAITING)
  }
  if (fault === PASS) return
  pass.units[i] = 0
  failHostQueue(state, pass.queues[i]!, fault)
}

/** Reads the units of every queue of the pass, once; a ring that wraps takes two reads. */
function fetch(state: BurstContext): void {
  const { host, list } = state
  const { pass } = host
  for (let i = 0; i < pass.count; i++) if (pass.units[i]! > 0) refuseWithout(state, i)
  if (list.count > 0) runBurst(state)
  for (let i = 0; i < pass.count; i++) {
    const units = pass.units[i]!
    if (units === 0) continue
    const place = pass.places[i]!
    const unit = pointerOf(host, place)
    const untilWrap = depthOf(host, place) - ((unit & (depthOf(host, place) - 1)) >>> 0)
    const first = units < untilWrap ? units : untilWrap
    const to = FETCH_AT + i * FETCH_BYTES
    const from = DMA_SPACE + unitOffset(host, place, unit)
    pass.reads[i] = copy(list, from, to, first * UNIT_BYTES)
    host.counters[ELEMENT_READS]! += 1
    if (first === units) continue
    const rest = DMA_SPACE + unitOffset(host, place, unit + first)
    copy(list, rest, to + first * UNIT_BYTES, (units - first) * UNIT_BYTES)
    host.counters[ELEMENT_READS]! += 1
  }
  if (list.count === 0) return
  const reads = list.count
  runAll(list)
  for (let i = 0; i < pass.count; i++) {
    if (pass.units[i] === 0) continue
    pass.outcomes[i] = PASS
    const end = nextRead(pass, i, reads)
    for (let read = pass.reads[i]!; read < end; read++) {
      if (resultOf(list, read) !== DONE) pass.outcomes[i] = DMA
    }
  }
}

/** The number of the first read of the next queue that has some. */
function nextRead(pass: Pass, i: number, reads: number): number {
  for (let j = i + 1; j < pass.count; j++) if (pass.units[j]! > 0) return pass.reads[j]!
  return reads
}

/** Executes what was fetched of one queue, in order, as far as it goes. */
function executeQueue(state: ServeContext, i: number): void {
  const { host } = state
  const { pass, pending } = host
  const place = pass.places[i]!
  const queue = pass.queues[i]!
  if (pass.outcomes[i] !== PASS) {
    failHostQueue(state, queue, pass.outcomes[i] as Fault)
    return
  }
  const far = farPointerOf(host, place)
  const first = pointerOf(host, place)
  const end = (first + pass.units[i]!) >>> 0
  let unit = first
  let line = PENDING
  while (unit !== end && stateOf(host, place) === QUEUE_READY) {
    const at = FETCH_AT + i * FETCH_BYTES + ahead(unit, first) * UNIT_BYTES
    const units = unitsAt(host, at)
    const stored = ahead(far, unit)
    // The rest of it is fetched in the next turn.
    if (units > ahead(end, unit) && units <= WQE_UNITS_MAX && units <= stored) break
    const outcome = executeOne(state, i, at, unit, stored)
    if (outcome === WAIT) {
      line = WAITING
      break
    }
    if (outcome === AGAIN) break
    if (outcome !== EXECUTED) return
    unit = (unit + units) >>> 0
    movePointer(host, place, unit)
  }
  if (unit !== far && stateOf(host, place) === QUEUE_READY) stand(pending, queue, line)
}

/** Its completion queue, or its own pointer, is to be read before the element is executed. */
const AGAIN = -2

/** Judges and executes one element: EXECUTED, WAIT, AGAIN, or the fault that was its end. */
function executeOne(
  state: ServeContext,
  i: number,
  at: number,
  unit: number,
  stored: number,
): number {
  const { host, list } = state
  const { pass, counters } = host
  const place = pass.places[i]!
  const completions = pass.completions[i]!
  const fault = checkElement(host, place, at, unit, stored)
  if (fault !== PASS && pass.trusted[i] === 1) return AGAIN
  // What ends its queue completes behind what is under way.
  if (fault !== PASS && isUntold(state, place)) return WAIT
  const crowded = fault === PASS && isCrowded(host, completions)
  if (crowded || !reserveCompletion(host, completions)) {
    if (fault !== PASS) return refuseUnit(state, i, fault, at, unit, false)
    if (host.readPass[completions] !== host.passes) {
      host.stale[completions] = 1
      return AGAIN
    }
    // Others have the room; they give it back, or use it.
    if (crowded || hasReservations(host, completions)) return WAIT
    // What fills that one may have come from the network: nobody there shall end management.
    if (host.contexts.queueOf[completions] === QUEUE_GSI_COMPLETION) return WAIT
    overrun(host, list, completions)
    return refuseUnit(state, i, COMPLETION_OVERRUN, at, unit, false)
  }
  if (fault !== PASS) return refuseUnit(state, i, fault, at, unit, true)
  let outcome = executeElement(state, completions)
  if (outcome > EXECUTED && isUntold(state, place)) outcome = WAIT
  if (outcome === EXECUTED) {
    counters[ELEMENTS]! += 1
  } else if (outcome === WAIT) {
    releaseCompletion(host, completions)
  } else {
    refuseUnit(state, i, outcome as Fault, at, unit, true)
  }
  return outcome
}

/** The element ends its queue; its completion says so, if there is room for one. */
function refuseUnit(
  state: RecordContext,
  i: number,
  fault: Fault,
  at: number,
  unit: number,
  hasRoom: boolean,
): Fault {
  const { host, list } = state
  const { pass, completion } = host
  host.counters[ELEMENTS_REFUSED]! += 1
  // What was executed before it completes before it.
  if (state.hostWork.recordCount > 0) commitNow(state)
  abortCollected(state, pass.queues[i]!)
  if (hasRoom) {
    blankOut(completion)
    completion.queue = pass.queues[i]!
    completion.unit = unit
    completion.status = statusOf(fault)
    completion.opcode = host.bytes[at + WQE_OPCODE]!
    completion.pointer = unit
    complete(host, list, pass.completions[i]!)
  }
  failHostQueue(state, pass.queues[i]!, fault)
  return fault
}

/** The pass is over: its contexts may go. */
function unpin(host: HostQueues): void {
  const { pass, contexts } = host
  for (let i = 0; i < pass.count; i++) {
    if (pass.trusted[i] === 1) forgetCarried(host, pass.places[i]!)
    if (pass.places[i]! >= 0) contexts.pins[pass.places[i]!]! -= 1
    if (pass.completions[i]! >= 0) contexts.pins[pass.completions[i]!]! -= 1
  }
  pass.count = 0
}
