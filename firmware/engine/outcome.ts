// hot path
/**
 * What the peer said of an element of a connected queue, and the results that wait for a receive
 * entry of their pair (P2-25).
 *
 * Invariant: a posting is free, under way, or a result of its pair, and one of these alone.
 */

import * as el from '../host/element.ts'
import type { Completion } from '../host/host.ts'
import type { HostPair, HostWork, Posting } from '../host/work.ts'
import {
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
} from '../transport/requester.ts'

/** What the peer said of an element, for its completion. */
export function describeOutcome(into: Completion, posting: Posting): void {
  const { opcode, status } = posting
  into.status = status
  into.refusal = posting.refusal
  into.copies = posting.copies
  into.mechanism = posting.mechanism
  if (opcode >= FETCH_ADD && opcode !== FLUSH && opcode !== ATOMIC_WRITE) {
    into.operationHigh = posting.resultHigh
    into.operationLow = posting.resultLow
  }
  if (opcode === FETCH_ADD || opcode === COMPARE_SWAP || status !== el.WC_SUCCESS) return
  if (posting.copies > 0 && posting.refusal === 0) into.flags |= el.DURABLE
  if (opcode === PERSIST_QUERY && posting.cumulative) into.flags |= el.UP_TO
}

/** The result waits for a receive of its pair. */
export function addResult(work: HostWork, pair: HostPair, item: number): void {
  work.postings[item]!.next = -1
  if (pair.resultFirst < 0) pair.resultFirst = item
  else work.postings[pair.resultLast]!.next = item
  pair.resultLast = item
}

/** Takes the first result that waits out of its pair, and forgets it. */
export function dropResult(work: HostWork, pair: HostPair): void {
  const item = pair.resultFirst
  pair.resultFirst = work.postings[item]!.next
  freePosting(work, item)
}

/** The element has ended: its posting may be another one's. */
export function freePosting(work: HostWork, item: number): void {
  const posting = work.postings[item]!
  posting.pair!.postings -= 1
  work.freed = true
  posting.pair = null
  work.freePostings[work.freePostingCount] = item
  work.freePostingCount += 1
}
