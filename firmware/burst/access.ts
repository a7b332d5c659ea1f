// hot path
/**
 * What a key gives access to, on one queue pair (wire-format 3.3, step 10; section 4).
 *
 * Invariant: a key that a SEND with Invalidate has taken back names nothing any more on the
 * queue pair that took it back, and works on the others. What has the place of its region next, be
 * it of the part, of the host or with another DPU, has a key that nobody has taken back.
 */

import { type Fault, KEY, PASS, RIGHTS } from '../board/fault.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import type { MemoryState } from '../medium/context.ts'
import { accessFault, findRegion } from '../medium/region.ts'
import type { TransportState } from '../transport/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'

/**
 * May the queue pair do that in the region that the key names? The region is then
 * `state.accessed`. Faults: KEY, PROTECTION_DOMAIN, RIGHTS.
 */
export function accessOf(state: MemoryState, qp: QueuePair, rkey: number, rights: number): Fault {
  const region = findRegion(state.regions, rkey)
  state.accessed = region
  if (region !== null && ((qp.invalidated >> region.index) & 1) !== 0) return KEY
  const fault = accessFault(region, qp.protectionDomain, rights)
  return fault === PASS && (qp.rights & rights) !== rights ? RIGHTS : fault
}

/** Takes the key back on this queue pair. KEY if it names nothing here. */
export function invalidate(state: MemoryState, qp: QueuePair, rkey: number): Fault {
  const fault = accessOf(state, qp, rkey, 0)
  if (fault !== PASS) return fault
  qp.invalidated |= 1 << state.accessed!.index
  return PASS
}

/** A key that was taken back on some queue pair was another one, of who had the place before. */
export function forgetInvalidated(state: TransportState, index: number): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null) qp.invalidated &= ~(1 << index)
  }
}
