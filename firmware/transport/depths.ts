/**
 * How many messages may be on their way between two queue pairs (source 3, step 201; S1-M7).
 *
 * Each side tells the other, while the two connect, how many messages that take a receive it may
 * have on its way at once, and how many it takes at once. What one may send is then the smaller of
 * its own and what the other takes.
 *
 * Invariants:
 * - Both sides have the same four numbers and the same rule: what they agree on is the same.
 * - Nothing that is agreed exceeds the own number. So what a peer tells only makes less of it, and
 *   no memory has the size that a peer tells.
 * - Who takes nothing, or sends nothing, at all is refused (QUEUE_DEPTH): a pair has two queues.
 *   Who tells nothing is served as before, and bounded by RNR NAKs alone.
 */

import { type Fault, PASS, QUEUE_DEPTH } from '../board/fault.ts'
import { RECEIVES, WORKS } from '../board/limits.ts'
import type { Depths } from '../wire/capability.ts'

/**
 * What every queue pair of a card tells, as far as it is not its host's: its requester's works, and
 * of the receive entries that it shares with others what one peer has at the most.
 */
export const CARD_DEPTHS: Depths = { send: WORKS, receive: RECEIVES / 2 }

/** QUEUE_DEPTH unless the peer has both queues. */
export function depthsFault(told: Depths): Fault {
  return told.send > 0 && told.receive > 0 ? PASS : QUEUE_DEPTH
}

/** Messages that may be on their way at once, to the peer and from it. */
export function agreedDepths(own: Depths, told: Depths): Depths {
  return { send: Math.min(own.send, told.receive), receive: Math.min(own.receive, told.send) }
}
