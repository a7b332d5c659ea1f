// hot path
/**
 * A write pointer that a doorbell carries, used without a look at memory: one read over PCIe fewer
 * (source 3, second aspect; S1-M8). The host asks for it in its header page, the card answers there
 * that it does so; who does not ask has every pointer read from zone 3.
 *
 * The pointer is used if all of this holds. If not, zone 3 is read, as for any doorbell.
 *
 *   1  the doorbell came by the ring, and its tag is that of the pointer and of this epoch
 *   2  the queue has its turn for such doorbells alone: a sweep, a doorbell of another kind, more
 *      work than one turn takes, or room that was missing ask for memory
 *   3  it is a send queue that is ready, and its context is in the cache
 *   4  the pointer is ahead of what is known, and at most the depth ahead of what was taken
 *
 * What a wrong pointer does, by what made it wrong (H1):
 *
 * - Torn. Of the pointers that rule 4 lets pass one has the tag (board/doorbell-tag.ts). So halves
 *   of two doorbells are used only where they say what the queue's own doorbell said.
 * - Old, repeated, overtaken. The host stored all units up to it before it rang, so each that is
 *   used shows nothing that was not posted. One behind what is known has memory read. Of several
 *   in one turn the furthest counts.
 * - Of an earlier queue of that number. Units are numbered on from one to the next, so all its
 *   pointers are behind.
 * - Of an earlier epoch. With it all contexts and doorbells that were taken are dropped, and a new
 *   host has to ask again. What the port still holds of them is taken before any context is in the
 *   cache, so memory is read. What comes later yet, which PCIe never does, has another tag if the
 *   epoch has another number. And who asks for trust gives each queue a ring of zeros: what it did
 *   not store since has no stamp.
 * - Lost. As any doorbell: the next one finds all, and so does the driver's watchdog, which rings
 *   with a pointer that is known, and so has memory read.
 * - Invented, by a host that rings ahead of what it stored. Stamps tell what is stored (X-4, H2).
 *   An element without them is not executed, and ends nothing yet: memory is read, and the element
 *   is fetched again. If one was stored and not yet shown in zone 3, the next look at memory finds
 *   the host's pointer behind the card's, and ends the queue (H3).
 *
 * Invariant: the pointer serves one turn, and is forgotten. The next one checks what was taken by
 * it: a doorbell's has to be ahead of that, and memory's must not be behind it.
 */

import {
  depthOf,
  farPointerOf,
  pointerOf,
  queueKindOf,
  setFarPointer,
  stateOf,
} from '../host/context.ts'
import type { HostQueues } from '../host/host.ts'
import { takeCarried, takeTrusted } from '../host/pending.ts'
import { ahead, KIND_SEND, QUEUE_READY } from '../host/queue-info.ts'

/** Takes what doorbells carried for the queue's write pointer, if rules 2 to 4 hold. */
export function trustCarried(host: HostQueues, place: number, queue: number): boolean {
  const { pending } = host
  if (!takeTrusted(pending, queue)) return false
  if (queueKindOf(host, place) !== KIND_SEND || stateOf(host, place) !== QUEUE_READY) return false
  const pointer = pending.carried[queue]!
  const own = pointerOf(host, place)
  const step = ahead(pointer, own)
  if (step > depthOf(host, place) || step <= ahead(farPointerOf(host, place), own)) return false
  takeCarried(pending, queue)
  setFarPointer(host, place, pointer)
  return true
}

/** The turn is over: nothing is known but what was taken, until a doorbell or memory says more. */
export function forgetCarried(host: HostQueues, place: number): void {
  setFarPointer(host, place, pointerOf(host, place))
}
