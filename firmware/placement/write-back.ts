/**
 * What a requester stores through the caches of the host by itself, and takes for durable by what
 * its own protocol says (source 2, both forms of the flag in flow 2; S1-M5): a WRITE or an ATOMIC
 * WRITE into bytes registered write-persist, a plain WRITE of a whole record, a FLUSH of bytes.
 *
 *   its last packet ──▶ stored; a job asks the agent (through.ts) ──▶ RNR NAK
 *   the same again  ──▶ RNR NAK, until the bell; then it is accepted, and answered as any other
 *
 * An RNR NAK, as an acknowledgement that is only withheld lets the timer of the requester run: it
 * repeats, and ends the connection after seven times. It waits for a receiver that is not ready as
 * often as it is told to, and so does its hardware, by itself.
 *
 * Invariants:
 * - The PSN of such a request is not taken before the bell for all of its bytes. So no ACK, no NAK
 *   and no response of the queue pair, all of which acknowledge what is before them, speaks for it.
 * - A job asks for what was stored in the life of the agent in which it asks. Bytes are kept
 *   nowhere else, so what was stored in an earlier life cannot be stored again: it is refused (NAK
 *   0x63), and the loss is explicit. The same holds of bytes that a WRITE has left in the caches
 *   when a FLUSH comes for them.
 * - The packet that comes again is known by its PSN, by its kind and by the bytes that it asks for,
 *   and is not stored again. Linux repeats FLUSH and ATOMIC WRITE without their address
 *   (wire-format 9.4): such a one is the one of its kind that is awaited, and speaks for what that
 *   asked for.
 * - Bytes are not compared when they have arrived, as records are: the card keeps no image of them.
 *   A write that is lost on its way ends the life of the agent by its link, or nobody can tell, as
 *   past the caches (flow 1).
 */

import { copyCached } from '../board/command-list.ts'
import { type Fault, NOT_DURABLE, NOT_READY, PASS, STAGING } from '../board/fault.ts'
import { noteStore } from '../burst/burst.ts'
import type { BurstContext, ThroughState } from '../burst/context.ts'
import type { Region } from '../medium/region.ts'
import { psnOwnerOf } from '../transport/acknowledge.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { acceptBytes, bytesFault, jobsReady } from './through.ts'

/** No job has a request that asks for that. */
export const UNASKED = -1 as Fault

/* What is asked for: bytes that are stored, a word, what lies there already, a record. */
export const ASKS_BYTES = 1
export const ASKS_WORD = 2
const ASKS_FLUSH = 3
export const ASKS_RECORD = 4

/**
 * What is known of the request of that PSN and kind, of [start, end): UNASKED, NOT_READY, or what
 * became of it. Then it is awaited no more.
 */
export function awaited(
  { cached }: QueuePair,
  psn: number,
  asks: number,
  start: number,
  end: number,
): Fault {
  if (cached.psn !== psn || cached.asks !== asks) return UNASKED
  if (cached.start !== start || cached.end !== end) return UNASKED
  if (cached.outcome === NOT_READY) cached.waitsFor = cached.order
  else if (cached.outcome !== UNASKED) cached.psn = -1
  return cached.outcome
}

/** Is it, though without its address, the one that is awaited, into that region? */
export function isAwaited({ cached }: QueuePair, psn: number, asks: number, at: Region): boolean {
  if (cached.psn !== psn || cached.asks !== asks) return false
  return cached.start >= at.base && cached.end <= at.base + at.areaBytes
}

/** From now on that request is awaited: a job has it (`taken`), or is to have it (STAGING). */
export function awaitJob(
  state: ThroughState,
  qp: QueuePair,
  psn: number,
  asks: number,
  start: number,
  end: number,
  taken: Fault,
): Fault {
  const { cached } = qp
  if (taken !== PASS && taken !== STAGING && taken !== NOT_READY) return taken
  cached.psn = psn
  cached.asks = asks
  cached.start = start
  cached.end = end
  if (taken === PASS) return NOT_READY
  cached.outcome = UNASKED
  cached.order = 0
  // The next time there may be a job, unless none has anything to do before the next start.
  return taken === STAGING && jobsReady(state, qp) === PASS ? NOT_DURABLE : NOT_READY
}

/** Stores `length` bytes into the caches, on behalf of that PSN; they are as yet with nobody. */
export function storeCached(
  state: BurstContext,
  qp: QueuePair,
  psn: number,
  from: number,
  to: number,
  length: number,
): void {
  const { list } = state
  list.owner = psnOwnerOf(qp, psn)
  copyCached(list, from, to, length)
  list.owner = 0
  qp.farAt = list.fences
  noteStore(state, qp)
}

/** A FLUSH is due of bytes in [from, from + length), stored now. */
export function noteCached(
  { through }: ThroughState,
  { cached }: QueuePair,
  from: number,
  length: number,
): void {
  const end = from + length
  if (cached.to === 0) {
    cached.from = from
    cached.to = end
    cached.life = through.agent.life
    return
  }
  if (from < cached.from) cached.from = from
  if (end > cached.to) cached.to = end
}

/** A message begins whose bytes, from that address on, are to be durable when it is accepted. */
export function beginCached({ through }: ThroughState, { cached }: QueuePair, from: number): void {
  cached.messageFrom = from
  cached.messageLife = through.agent.life
}

/**
 * The last packet of such a message, or a word (ASKS_WORD), its payload at `payloadAt`: PASS when
 * all bytes of the message are durable; NOT_READY if it is to come again.
 */
export function endCached(
  state: BurstContext & ThroughState,
  qp: QueuePair,
  psn: number,
  asks: number,
  region: Region,
  payloadAt: number,
  to: number,
  length: number,
): Fault {
  const { messageFrom, messageLife } = qp.cached
  const end = to + length
  const known = awaited(qp, psn, asks, messageFrom, end)
  if (known !== UNASKED) return known
  let taken = bytesFault(state, region)
  if (taken === PASS && messageLife !== state.through.agent.life) return NOT_DURABLE
  if (taken === PASS) {
    storeCached(state, qp, psn, payloadAt, to, length)
    taken = acceptBytes(state, qp, psn, region, messageFrom, end - messageFrom)
  }
  return awaitJob(state, qp, psn, asks, messageFrom, end, taken)
}

/** A FLUSH of [from, from + length), addresses: as `endCached`. */
export function flushCached(
  state: ThroughState,
  qp: QueuePair,
  psn: number,
  region: Region,
  from: number,
  length: number,
): Fault {
  if (length === 0) return PASS
  const { cached } = qp
  const end = from + length
  const known = awaited(qp, psn, ASKS_FLUSH, from, end)
  if (known === PASS && from <= cached.from && cached.to <= end) cached.to = 0
  if (known !== UNASKED) return known
  let taken = bytesFault(state, region)
  const isStored = from < cached.to && cached.from < end
  if (taken === PASS && isStored && cached.life !== state.through.agent.life) return NOT_DURABLE
  if (taken === PASS) taken = acceptBytes(state, qp, psn, region, from, length)
  return awaitJob(state, qp, psn, ASKS_FLUSH, from, end, taken)
}

/** A FLUSH of that region without its address: the one that is awaited, or of the whole region. */
export function flushAgain(state: ThroughState, qp: QueuePair, psn: number, region: Region): Fault {
  const { start, end } = qp.cached
  if (isAwaited(qp, psn, ASKS_FLUSH, region)) {
    return flushCached(state, qp, psn, region, start, end - start)
  }
  return flushCached(state, qp, psn, region, region.base, region.areaBytes)
}
