// hot path
/**
 * Doorbells: how the host says that a queue has changed (source 3, steps 202, 203; P3-12, P3-13).
 *
 *   register   two words of the port; the card notes the queue and says which word it noted
 *   ring       first in, first out; deleted by being read
 *   message    a control call that names queues
 *
 * Invariant: a doorbell names a queue and proves nothing. The write pointer is read from zone 3
 * (P3-14, P3-15); one that a doorbell carries is compared with it, and then forgotten. A host may
 * ask that pointers of the ring are used instead, where they can be (queues/trust.ts).
 * A doorbell that is repeated, old, torn or of no queue does nothing but be counted (fault H1).
 * What the port had to drop is found again by looking at every queue.
 */

import { type CommandList, copy } from '../board/command-list.ts'
import { isTaggedFor } from '../board/doorbell-tag.ts'
import {
  CARRIES_POINTER,
  DMA_SPACE,
  DOORBELL_BYTES,
  PORT_CONSUMED,
  PORT_DROPPED,
  PORT_POINTER,
  PORT_PRODUCED,
  PORT_REGISTER,
  PORT_RING,
} from '../board/hal.ts'
import { DOORBELLS } from '../board/limits.ts'
import { HEADER_PAGE_AT } from '../board/memory-map.ts'
import { HEADER_RECORDED } from './header-page.ts'
import { DOORBELLS_REFUSED, DOORBELLS_TAKEN, type HostQueues, SWEEPS } from './host.ts'
import { carry, PENDING, stand, standTrusted } from './pending.ts'
import { ahead } from './queue-info.ts'

const QUEUE_MASK = 0xffff

/** The queue is to be looked at: its turn comes. False if the host has no such number. */
export function ringQueue(host: HostQueues, queue: number): boolean {
  if (!(queue < host.queues)) return false
  stand(host.pending, queue, PENDING)
  return true
}

/** Is there anything in the port that was not taken? */
export function isRung(host: HostQueues): boolean {
  const { words } = host
  return (
    words[PORT_PRODUCED >> 2] !== words[PORT_CONSUMED >> 2] ||
    words[PORT_REGISTER >> 2] !== host.register ||
    words[PORT_DROPPED >> 2] !== host.dropped
  )
}

/** Takes every doorbell that is in the port. Returns how many were refused. */
export function takeDoorbells(host: HostQueues, list: CommandList): number {
  let refused = takeRegister(host, list)
  const { words } = host
  const produced = words[PORT_PRODUCED >> 2]!
  let left = ahead(produced, words[PORT_CONSUMED >> 2]!)
  if (left > DOORBELLS) left = DOORBELLS
  for (; left > 0; left--) {
    const slot = (produced - left) & (DOORBELLS - 1)
    const word = (PORT_RING + slot * DOORBELL_BYTES) >> 2
    if (!takeRung(host, words[word]!, words[word + 1]!)) refused += 1
  }
  words[PORT_CONSUMED >> 2] = produced
  if (words[PORT_DROPPED >> 2] !== host.dropped) {
    host.dropped = words[PORT_DROPPED >> 2]!
    host.sweepLeft = host.queues
    host.counters[SWEEPS]! += 1
  }
  return refused
}

/** A doorbell of the ring: its two words. */
function takeRung(host: HostQueues, low: number, pointer: number): boolean {
  const carries = (low & CARRIES_POINTER) !== 0
  if (!carries || !host.trusts) return takeDoorbell(host, low & ~CARRIES_POINTER, carries, pointer)
  const queue = low & QUEUE_MASK
  const fits = isTaggedFor(low, pointer, host.epoch)
  if (!fits || queue >= host.queues) return takeDoorbell(host, queue, true, pointer)
  host.counters[DOORBELLS_TAKEN]! += 1
  standTrusted(host.pending, queue, pointer)
  return true
}

/** The register form: what was noted is told, so that the host may delete it. */
function takeRegister(host: HostQueues, list: CommandList): number {
  const { words } = host
  const word = words[PORT_REGISTER >> 2]!
  if (word === host.register) return 0
  host.register = word
  if (word === 0) return 0
  words[(HEADER_PAGE_AT + HEADER_RECORDED) >> 2] = word
  const to = DMA_SPACE + host.header + HEADER_RECORDED
  copy(list, HEADER_PAGE_AT + HEADER_RECORDED, to, 4)
  return takeDoorbell(host, word & QUEUE_MASK, true, words[PORT_POINTER >> 2]!) ? 0 : 1
}

/** A doorbell of the message form, with the write pointer that it carries. */
export function takeMessageDoorbell(host: HostQueues, queue: number, pointer: number): boolean {
  return takeDoorbell(host, queue, true, pointer)
}

function takeDoorbell(host: HostQueues, queue: number, carries: boolean, pointer: number): boolean {
  if (queue < 0 || !ringQueue(host, queue)) {
    host.counters[DOORBELLS_REFUSED]! += 1
    return false
  }
  host.counters[DOORBELLS_TAKEN]! += 1
  if (carries) carry(host.pending, queue, pointer)
  return true
}
