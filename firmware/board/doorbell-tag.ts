// hot path
/**
 * The tag of a doorbell whose pointer may be used without a look at memory (queues/trust.ts).
 *
 *   first word    queue, 16 bits | CARRIES_POINTER | tag, 15 bits: (pointer ^ epoch) modulo 2^15
 *   second word   the write pointer
 *
 * Invariant: a queue is at most 2^15 units deep. So of all pointers that are up to a depth ahead of
 * where the card is, one has the tag: the first word alone says which the second has to be.
 */

import { assert } from './assert.ts'
import { CARRIES_POINTER } from './hal.ts'
import { HOST_QUEUES, QUEUE_DEPTH_MAX } from './limits.ts'

const TAG_SHIFT = 17
const TAG_MASK = 0x7fff

/** The first word of a doorbell for `queue`, whose write pointer is `pointer`. */
export function taggedDoorbell(queue: number, pointer: number, epoch: number): number {
  return (queue | CARRIES_POINTER | (((pointer ^ epoch) & TAG_MASK) << TAG_SHIFT)) >>> 0
}

/** Was that first word made for this pointer, in this epoch? */
export function isTaggedFor(low: number, pointer: number, epoch: number): boolean {
  return low >>> TAG_SHIFT === ((pointer ^ epoch) & TAG_MASK)
}

assert(HOST_QUEUES <= CARRIES_POINTER, 'a queue stands below the bit')
assert(2 * CARRIES_POINTER === 1 << TAG_SHIFT, 'a tag stands above the bit')
assert(QUEUE_DEPTH_MAX <= TAG_MASK + 1, 'a tag tells pointers of one ring apart')
