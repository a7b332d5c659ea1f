// hot path
/**
 * The end of one queue: its error state, and the event that says why (P3-28, H3).
 *
 * Invariant: nothing of a queue is processed once it is here; no other queue is touched; a
 * queue that is in the error state already is told of only once.
 */

import { type CommandList, copy } from '../board/command-list.ts'
import type { Fault } from '../board/fault.ts'
import { DMA_SPACE } from '../board/hal.ts'
import { takeLine } from './compose.ts'
import { setQueueState, setZone1Word, stateOf } from './context.ts'
import { postEvent } from './events.ts'
import { type HostQueues, QUEUE_ERRORS } from './host.ts'
import { leaveLists } from './pending.ts'
import { QUEUE_ERROR, Z1_FAULT, Z1_STATE, ZONE1_BYTES } from './queue-info.ts'

/**
 * Takes the queue to the error state. `event` is the type of what the host is told. False if it was
 * there already.
 */
export function failQueue(
  host: HostQueues,
  list: CommandList,
  queue: number,
  fault: Fault,
  event: number,
): boolean {
  leaveLists(host.pending, queue)
  const place = host.contexts.placeOf[queue]!
  if (place >= 0) {
    if (stateOf(host, place) === QUEUE_ERROR) return false
    setQueueState(host, place, QUEUE_ERROR)
    setZone1Word(host, place, Z1_FAULT, fault)
  } else {
    writeError(host, list, queue, fault)
  }
  host.counters[QUEUE_ERRORS]! += 1
  postEvent(host, list, event, queue, fault)
  return true
}

/** Zone 1 of a queue that is not in the cache: its state, and the fault. */
function writeError(host: HostQueues, list: CommandList, queue: number, fault: Fault): void {
  const at = takeLine(host, list)
  const to = DMA_SPACE + host.zone1 + queue * ZONE1_BYTES
  host.words[at >> 2] = fault
  host.bytes[at + 4] = QUEUE_ERROR
  copy(list, at, to + Z1_FAULT, 4)
  copy(list, at + 4, to + Z1_STATE, 1)
}
