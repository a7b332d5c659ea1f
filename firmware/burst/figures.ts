// hot path
/**
 * Figures that the card keeps of what it has acknowledged, for who watches it (FIGURES of
 * wire/management.ts): per region bytes, and how often it took how long.
 *
 * What counts is each record, each store into bytes that are registered write-persist, and each
 * FLUSH to persistence, once, when it is durable as far as it asked. The time runs from the call of
 * the board that brought it to the end of the call that released its acknowledgement. So all that
 * ends in one call takes one reading of the clock, which the board does anyway, or does behind the
 * call (CALL_ENDED_AT of board/hal.ts).
 *
 * Invariants:
 * - All memory is made at the start. A group adds one entry for each run of its records that are of
 *   one region, an entry is one addition to one bucket, and nothing is allocated.
 * - What is refused, in doubt or repeated is not counted; nor is a store whose fence has not come,
 *   whose queue pair has failed by the end of that call, or whose region has ended.
 * - Figures only grow while the part runs and the region lives, and are gone with either. Numbers
 *   are exact up to 2^53; from there on they are rounded, and never go back.
 * - No entry is of a place where a region begins. A place is given in a later call than the one in
 *   which its region ended, and that end takes fences: by then all of that region was counted. A
 *   relay's entries are made behind the calls that end relays, and counted before the next ones.
 */

import type { Machine } from '../board/hal.ts'
import { CALL_ENDED_AT } from '../board/hal.ts'
import { BUCKETS, bucketOf } from '../board/latency.ts'
import { QUEUE_PAIRS, REGIONS, RELAYS } from '../board/limits.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'

/** Messages for the host are of no region, and have the place behind all: nobody asks for it. */
const PLACES: number = REGIONS + RELAYS + 1

/** Entries at once, two for each queue pair. What finds none is not counted. */
const ENTRIES: number = 2 * QUEUE_PAIRS

/** `fence` of an entry that is durable. */
const DURABLE = -1

export interface Figures {
  /** Per place of a region: bytes that are durable, and the sum of all times, whole µs. */
  readonly bytes: Float64Array
  readonly timesUs: Float64Array
  /** Per place of a region, BUCKETS of them: how often it took so long. */
  readonly buckets: Float64Array
  /** Calls of the board that brought frames, or doorbells. */
  bursts: number
  /** When the last call was over, µs, as the board says; 0 where it does not. */
  readonly callEnded: Float64Array
  /** Entries: what waits for the end of its call, or for its fence. */
  used: number
  readonly places: Uint8Array
  readonly sinceUs: Float64Array
  readonly counts: Float64Array
  readonly lengths: Float64Array
  /** Fences done when it was stored, or DURABLE. */
  readonly fences: Float64Array
  readonly owners: (QueuePair | null)[]
}

export function createFigures(machine: Machine): Figures {
  return {
    bytes: new Float64Array(PLACES),
    timesUs: new Float64Array(PLACES),
    buckets: new Float64Array(PLACES * BUCKETS),
    bursts: 0,
    callEnded: new Float64Array(machine.memory, CALL_ENDED_AT, 1),
    used: 0,
    places: new Uint8Array(ENTRIES),
    sinceUs: new Float64Array(ENTRIES),
    counts: new Float64Array(ENTRIES),
    lengths: new Float64Array(ENTRIES),
    fences: new Float64Array(ENTRIES),
    owners: new Array<QueuePair | null>(ENTRIES).fill(null),
  }
}

/** So many records of that region, `bytes` in all, are durable; they came at `sinceUs`. */
export function noteDurable(
  figures: Figures,
  place: number,
  sinceUs: number,
  count: number,
  bytes: number,
): void {
  enterFigure(figures, place, sinceUs, count, bytes, DURABLE, null)
}

/** One store of the queue pair is durable when one more fence is done than `fences`. */
export function noteUnfenced(
  figures: Figures,
  qp: QueuePair,
  place: number,
  sinceUs: number,
  bytes: number,
  fences: number,
): void {
  enterFigure(figures, place, sinceUs, 1, bytes, fences, qp)
}

function enterFigure(
  figures: Figures,
  place: number,
  sinceUs: number,
  count: number,
  bytes: number,
  fence: number,
  owner: QueuePair | null,
): void {
  const { used, places, counts, lengths, fences, owners } = figures
  const last = used - 1
  const isSame =
    used > 0 &&
    places[last] === place &&
    fences[last] === fence &&
    owners[last] === owner &&
    figures.sinceUs[last] === sinceUs
  if (isSame) {
    counts[last]! += count
    lengths[last]! += bytes
    return
  }
  if (used === ENTRIES) return
  places[used] = place
  figures.sinceUs[used] = sinceUs
  counts[used] = count
  lengths[used] = bytes
  fences[used] = fence
  owners[used] = owner
  figures.used = used + 1
}

/** At the begin of a call: what the calls before it released is counted. `fences` are done. */
export function countReleased(figures: Figures, fences: number, nowUs: number): void {
  const said = figures.callEnded[0]!
  const endUs = said > 0 && said <= nowUs ? said : nowUs
  const { used } = figures
  figures.used = 0
  for (let i = 0; i < used; i++) {
    const owner = figures.owners[i]!
    if (owner !== null && owner.state !== STATE_OPEN) continue
    if (figures.fences[i]! === fences) keepEntry(figures, i)
    else countEntry(figures, i, endUs)
  }
  forgetOwners(figures, used)
}

/** What is no longer waited for holds no queue pair. */
function forgetOwners(figures: Figures, used: number): void {
  for (let i = figures.used; i < used; i++) figures.owners[i] = null
}

function countEntry(figures: Figures, i: number, endUs: number): void {
  const place = figures.places[i]!
  const count = figures.counts[i]!
  const us = Math.max(0, Math.floor(endUs - figures.sinceUs[i]!))
  figures.buckets[place * BUCKETS + bucketOf(us)]! += count
  figures.timesUs[place]! += us * count
  figures.bytes[place]! += figures.lengths[i]!
}

/** The entry stays, in front of those that are looked at next. */
function keepEntry(figures: Figures, i: number): void {
  const { used, places, sinceUs, counts, lengths, fences, owners } = figures
  places[used] = places[i]!
  sinceUs[used] = sinceUs[i]!
  counts[used] = counts[i]!
  lengths[used] = lengths[i]!
  fences[used] = fences[i]!
  owners[used] = owners[i]!
  figures.used = used + 1
}

/** A region begins at that place, or ends there: of another one nothing is known. */
export function forgetFigures(figures: Figures, place: number): void {
  figures.bytes[place] = 0
  figures.timesUs[place] = 0
  figures.buckets.fill(0, place * BUCKETS, (place + 1) * BUCKETS)
}
