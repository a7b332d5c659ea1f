// hot path
/**
 * What a request names, and where it lies: the region of its key, the place of its bytes there, and
 * the copy of a record that is served. READ, WRITE, FLUSH and atomics of every asker are judged
 * here (wire-format 3.3, step 10; section 4).
 *
 * Invariants:
 * - A key that a SEND with Invalidate has taken back, or of a region that its peer has no right to,
 *   names nothing on that queue pair, and works on the others. What has the place of its region
 *   next, be it of the part, of the host or with another DPU, has a key that nobody has taken back
 *   (session/grants.ts).
 * - `state.located` holds what was found last, until the next request is looked for: who needs it
 *   for longer keeps it. A fault says nothing of the bytes.
 * - A record is served from a copy whose check code was verified just now.
 */

import { compare, resultOf, run } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  ALIGNMENT,
  BOUNDS,
  type Fault,
  FLUSH_FORM,
  KEY,
  NOT_DURABLE,
  PASS,
  RIGHTS,
  UNREADABLE,
  UNSETTLED_READ,
} from '../board/fault.ts'
import { DMA_FAILED, DONE } from '../board/hal.ts'
import { isSafe } from '../burst/burst.ts'
import type { ThroughContext } from '../burst/context.ts'
import { firstShown } from '../burst/through-job.ts'
import { offsetOf, VIEW_DATA, VIEW_FIRST_COPY, VIEW_SETTLED, viewOf } from '../burst/view.ts'
import type { CommitState } from '../commit/context.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  accessFault,
  byteOffset,
  FLUSH_GLOBAL,
  FLUSH_PERSISTENT,
  findRegion,
  isPair,
  KIND_BYTES,
  KIND_ON_DEMAND,
  KIND_RECORDS,
  REMOTE_ATOMIC,
  REMOTE_WRITE,
  type Region,
  slotAddress,
  WRITE_PERSIST,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'
import { imageBytes, SLOT_HEADER_BYTES } from '../medium/slot.ts'
import type { Party, QueuePair } from '../transport/queue-pair.ts'
import type { WireState } from '../wire/context.ts'
import {
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  SELECT_RANGE,
  SELECT_REGION,
} from '../wire/feth.ts'
import { ADDRESS_EXTENSION_BYTES } from '../wire/persist.ts'
import { readReth } from '../wire/reth.ts'
import { LOST, settledFrom, UNDECIDED } from './settled.ts'

/** So many views, from the first on, show data alone. */
const VIEWS_OF_DATA: number = VIEW_DATA + 1

/** What changes a region. A FLUSH changes nothing: who may read may have it made durable. */
const CHANGES: number = WRITE_PERSIST | REMOTE_WRITE | REMOTE_ATOMIC

/** Bytes of the word of an atomic, on which it must lie. */
export const WORD_BYTES = 8

// ---- keys --------------------------------------------------------------------------------------

/**
 * May who asks do that in the region that the key names? The region is then `located.region`.
 * Faults: KEY, PROTECTION_DOMAIN, RIGHTS.
 */
export function accessOf(state: MemoryState, party: Party, rkey: number, rights: number): Fault {
  const region = findRegion(state.regions, rkey)
  state.located.region = region
  if (region !== null && ((party.readable >> region.index) & 1) === 0) return KEY
  const fault = accessFault(region, party.protectionDomain, rights)
  if (fault !== PASS) return fault
  if ((rights & CHANGES) !== 0 && ((party.writable >> region!.index) & 1) === 0) return RIGHTS
  return (party.rights & rights) !== rights ? RIGHTS : PASS
}

/** Takes the key back on this queue pair. KEY if it names nothing here. */
export function invalidate(state: MemoryState, qp: QueuePair, rkey: number): Fault {
  const fault = accessOf(state, qp, rkey, 0)
  if (fault !== PASS) return fault
  qp.readable &= ~(1 << state.located.region!.index)
  return PASS
}

// ---- ranges ------------------------------------------------------------------------------------

/** Does the range lie inside the region, or inside one of the first `views` of a record? */
export function boundsFault(
  region: Region,
  vaHigh: number,
  vaLow: number,
  length: number,
  views: number,
): Fault {
  if (region.kind !== KIND_RECORDS) {
    return byteOffset(region, vaHigh, vaLow, length) < 0 ? BOUNDS : PASS
  }
  const view = viewOf(vaLow)
  const bytes = view === VIEW_DATA ? region.capacity : imageBytes(region.capacity)
  const offset = offsetOf(vaLow)
  if (vaHigh >= region.slots || view >= views) return BOUNDS
  return length > bytes || offset > bytes - length ? BOUNDS : PASS
}

/** Finds a range of a region of bytes; BOUNDS where it leaves the region. */
export function locateBytes(
  { located }: MemoryState,
  region: Region,
  vaHigh: number,
  vaLow: number,
  length: number,
): Fault {
  const offset = byteOffset(region, vaHigh, vaLow, length)
  if (offset < 0) return BOUNDS
  located.paged = null
  located.from = region.base
  located.end = region.areaBytes
  located.offset = offset
  return PASS
}

/**
 * Finds a range of a copy that its client writes; BOUNDS where it leaves the copy, or is none.
 * NOT_DURABLE while a record of the region waits for somebody to decide about it (D-14).
 */
function locateCopy(
  { located }: MemoryState,
  region: Region,
  slot: number,
  vaLow: number,
  length: number,
): Fault {
  const view = viewOf(vaLow)
  if (view < VIEW_FIRST_COPY) return BOUNDS
  const outside = boundsFault(region, slot, vaLow, length, VIEW_FIRST_COPY + region.copies)
  if (outside !== PASS) return outside
  located.paged = null
  located.from = slotAddress(region, view - VIEW_FIRST_COPY, slot)
  located.end = imageBytes(region.capacity)
  located.offset = offsetOf(vaLow)
  return region.unsettled > 0 ? NOT_DURABLE : PASS
}

/** Finds what a WRITE may store into: a range of bytes, or of a copy that its client writes. */
export function locateStored(
  state: MemoryState,
  region: Region,
  vaHigh: number,
  vaLow: number,
  length: number,
): Fault {
  const locate = isPair(region) ? locateCopy : locateBytes
  return locate(state, region, vaHigh, vaLow, length)
}

/** So many views of a record a FLUSH may name: of one that its client writes each copy. */
export function viewsToFlush(region: Region): number {
  return isPair(region) ? VIEW_FIRST_COPY + region.copies : VIEWS_OF_DATA
}

/** Finds a word of a region, which may be changed. */
export function locateWord(
  state: BoardState & MemoryState & CommitState,
  region: Region,
  vaHigh: number,
  vaLow: number,
): Fault {
  // An ATOMIC WRITE asks for nothing more than a WRITE does.
  if (region.kind === KIND_ON_DEMAND) return RIGHTS
  if (region.kind !== KIND_BYTES) return BOUNDS
  const fault = locateBytes(state, region, vaHigh, vaLow, WORD_BYTES)
  if (fault !== PASS) return fault
  const { offset } = state.located
  if ((vaLow & (WORD_BYTES - 1)) !== 0 || offset % WORD_BYTES !== 0) return ALIGNMENT
  return (region.flags & WRITE_PERSIST_REGION) !== 0 && !isSafe(state) ? NOT_DURABLE : PASS
}

/** Does a FLUSH ask for anything else than what there is? */
export function flushFormFault(placement: number, selectivity: number): Fault {
  if ((placement & ~(PLACEMENT_GLOBAL | PLACEMENT_PERSISTENT)) !== 0) return FLUSH_FORM
  return selectivity === SELECT_RANGE || selectivity === SELECT_REGION ? PASS : FLUSH_FORM
}

/** What a FLUSH needs to be granted. */
export function flushRights(placement: number): number {
  const rights = (placement & PLACEMENT_PERSISTENT) !== 0 ? FLUSH_PERSISTENT : 0
  return (placement & PLACEMENT_GLOBAL) !== 0 ? rights | FLUSH_GLOBAL : rights
}

// ---- records -----------------------------------------------------------------------------------

/**
 * Finds where the bytes of a record are, and verifies the copy that is served. The list is empty
 * when this is asked.
 */
export function locateRecord(
  state: ThroughContext,
  region: Region,
  slot: number,
  vaLow: number,
): Fault {
  const { located } = state
  const view = viewOf(vaLow)
  located.paged = null
  located.end = 0
  located.from = -1
  located.offset = offsetOf(vaLow)
  if (view >= VIEW_FIRST_COPY) {
    located.from = slotAddress(region, view - VIEW_FIRST_COPY, slot)
    located.end = imageBytes(region.capacity)
    const result = deliverOnce(state, located.from, located.end)
    // A host that does not answer has lost nothing.
    if (result === DMA_FAILED) return UNREADABLE
    // A copy that the medium lost shows as zeros, which no reader takes for a copy (D-3).
    if (result !== DONE) located.from = -1
    return PASS
  }
  // The first copy in write order that is valid.
  const served = settledFrom(state, region, slot, firstShown(state.through.jobs, region, slot))
  if (served === UNDECIDED) return UNREADABLE
  if (served === LOST) return view === VIEW_SETTLED ? PASS : UNSETTLED_READ
  const length = state.examination.copies[served]!.header.length
  const from = slotAddress(region, served, slot)
  located.from = view === VIEW_SETTLED ? from : from + SLOT_HEADER_BYTES
  located.end = view === VIEW_SETTLED ? SLOT_HEADER_BYTES + length : length
  return PASS
}

/** Has every byte delivered once: DONE, or why not. The list is empty when this is asked. */
function deliverOnce({ list }: BoardState, from: number, length: number): number {
  compare(list, from, from, length)
  const failed = run(list)
  return failed < 0 ? DONE : resultOf(list, failed)
}

/**
 * Carried copies of a record, with the address and the key of every copy (D-8; source 1, claim 5):
 * is `vaLow` the begin of copy A of the slot, and do the address extensions from `at` on name the
 * others? Permission is asked for every one (P1-3).
 */
export function namedCopiesFault(
  state: BoardState & WireState & MemoryState,
  party: Party,
  region: Region,
  slot: number,
  vaLow: number,
  length: number,
  at: number,
): Fault {
  if (!namesCopy(vaLow, 0)) return BOUNDS
  const { bytes, extension, located } = state
  for (let c = 1; c < region.copies; c++) {
    readReth(extension, bytes, at + (c - 1) * ADDRESS_EXTENSION_BYTES)
    const fault = accessOf(state, party, extension.rkey, WRITE_PERSIST)
    if (fault !== PASS) return fault
    if (located.region !== region || extension.vaHigh !== slot) return BOUNDS
    if (!namesCopy(extension.vaLow, c) || extension.length !== length) return BOUNDS
  }
  return PASS
}

/** Does that lower half of an address name that copy, from its begin? */
function namesCopy(vaLow: number, copy: number): boolean {
  return viewOf(vaLow) === VIEW_FIRST_COPY + copy && offsetOf(vaLow) === 0
}

/**
 * Bytes that a FLUSH which names so many makes durable, for who counts them: none where it names
 * no range, nor where stores are durable by themselves, as these are counted.
 */
export function flushedBytes(region: Region, selectivity: number, length: number): number {
  const isCounted = (region.flags & WRITE_PERSIST_REGION) !== 0
  return selectivity !== SELECT_RANGE || isCounted ? 0 : length
}
