// hot path
/**
 * The bytes that an element of the host names: where they lie, and how they come here.
 *
 *   inline       behind the first unit of the element, in the copy of it
 *   by address   in the host's memory, in one range or in several: copied into a buffer, once
 *
 * Invariants:
 * - The ranges were judged with the element: each is covered by a memory region of its key, and
 *   they add up to its length. What is looked at here is the copy that was judged.
 * - Bytes are here, all of them, before anything is stored or sent: a host that does not answer
 *   breaks no frame and no record, and what it changes later has no effect (H2, H4).
 * - A buffer has a line of room in front, for a slot header; up to a page it is one of
 *   HOST_BUFFERS, longer it is one of those that gather messages of the wire.
 */

import { copy, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { DMA, ELEMENT_LENGTH, type Fault, PASS } from '../board/fault.ts'
import { DMA_SPACE, DONE } from '../board/hal.ts'
import {
  HOST_BUFFER_BYTES,
  HOST_BUFFERS,
  STAGING_BUFFERS,
  STAGING_BYTES,
  UNIT_BYTES,
} from '../board/limits.ts'
import { HOST_BUFFERS_AT, STAGING_AT } from '../board/memory-map.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext, GatherState, QueueState } from '../burst/context.ts'
import { STAGED_BYTES_MAX } from '../burst/staging.ts'
import { INLINE, SGE_BYTES, SGE_LENGTH, SGE_LKEY } from '../host/element.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { memoryFault } from '../host/memory-regions.ts'
import { HOST_OWNER, type Pieces, WAIT } from '../host/work.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'

/** Bytes of a buffer that is not one of the wire's. */
const PAGE_BYTES: number = HOST_BUFFER_BYTES - SLOT_HEADER_BYTES

/** How many buffers for `length` bytes are free. */
export function freeBuffers(state: GatherState & QueueState, length: number): number {
  if (length <= PAGE_BYTES) return state.hostWork.freeBufferCount
  let free = 0
  for (let i = 0; i < STAGING_BUFFERS; i++) if (state.stagingOwner[i] === -1) free += 1
  return free
}

/** Takes a buffer for `length` bytes, STAGED_BYTES_MAX at the most; -1 if there is none. */
export function takeBuffer(state: GatherState & QueueState, length: number): number {
  const work = state.hostWork
  if (length <= PAGE_BYTES) {
    if (work.freeBufferCount === 0) return -1
    work.freeBufferCount -= 1
    return work.freeBuffers[work.freeBufferCount]!
  }
  for (let i = 0; i < STAGING_BUFFERS; i++) {
    if (state.stagingOwner[i] !== -1) continue
    state.stagingOwner[i] = HOST_OWNER
    return HOST_BUFFERS + i
  }
  return -1
}

/** Gives a buffer back; -1 is none. */
export function freeBuffer(state: GatherState & QueueState, buffer: number): void {
  if (buffer < 0) return
  const work = state.hostWork
  if (buffer >= HOST_BUFFERS) {
    state.stagingOwner[buffer - HOST_BUFFERS] = -1
    return
  }
  work.freeBuffers[work.freeBufferCount] = buffer
  work.freeBufferCount += 1
}

/** Where the bytes go that the buffer holds. */
export function bufferAt(buffer: number): number {
  if (buffer >= HOST_BUFFERS) {
    return STAGING_AT + (buffer - HOST_BUFFERS) * STAGING_BYTES + SLOT_HEADER_BYTES
  }
  return HOST_BUFFERS_AT + buffer * HOST_BUFFER_BYTES + SLOT_HEADER_BYTES
}

/** The ranges of the host's memory that the element names: judged already (element-check.ts). */
export function findPieces(state: HostContext, into: Pieces): void {
  const { words } = state
  const { element } = state.host
  into.count = 0
  if (element.length === 0 || (element.flags & INLINE) !== 0) return
  if (element.entries === 0) {
    into.count = 1
    into.at[0] = element.local
    into.length[0] = element.length
    into.key[0] = element.lkey
    return
  }
  for (let i = 0; i < element.entries; i++) {
    const w = (element.behindAt + i * SGE_BYTES) >> 2
    const length = words[w + (SGE_LENGTH >> 2)]! >>> 0
    if (length === 0) continue
    into.at[into.count] = (words[w]! >>> 0) + (words[w + 1]! >>> 0) * 2 ** 32
    into.length[into.count] = length
    into.key[into.count] = words[w + (SGE_LKEY >> 2)]! >>> 0
    into.count += 1
  }
}

/**
 * Brings the bytes that the element sends: `hostWork.dataAt` says where they then lie, with a line
 * of room in front, and `hostWork.buffer` which buffer is to be given back, or -1. Returns PASS,
 * WAIT or a fault; then there is no buffer. What stands in the list is run.
 */
export function gatherBytes(state: BurstContext): number {
  const work = state.hostWork
  const { element } = state.host
  work.buffer = -1
  work.dataAt = element.at + UNIT_BYTES
  // Inline, the bytes lie there already.
  if (element.length === 0 || (element.flags & INLINE) !== 0) return PASS
  if (element.length > STAGED_BYTES_MAX) return ELEMENT_LENGTH
  const buffer = takeBuffer(state, element.length)
  if (buffer < 0) return WAIT
  findPieces(state, work.pieces)
  if (!readPieces(state, work.pieces, bufferAt(buffer))) {
    freeBuffer(state, buffer)
    return DMA
  }
  work.buffer = buffer
  work.dataAt = bufferAt(buffer)
  return PASS
}

/**
 * Brings the bytes that the element sends to `to`, where there is room for them. DMA if the host
 * does not answer.
 */
export function bringBytes(state: BurstContext, to: number): Fault {
  const { element } = state.host
  if (element.length === 0) return PASS
  if ((element.flags & INLINE) !== 0) {
    // The copy of the element is not fetched over before the list has run.
    copy(state.list, element.behindAt, to, element.length)
    return PASS
  }
  findPieces(state, state.hostWork.pieces)
  return readPieces(state, state.hostWork.pieces, to) ? PASS : DMA
}

/** Copies the ranges to `to`, one behind the other. False if the host did not answer. */
function readPieces(state: BurstContext, pieces: Pieces, to: number): boolean {
  const { list } = state
  if (list.count > 0) runBurst(state)
  // Where something failed just now, its refusal stands in front.
  const first = list.count
  let at = to
  for (let i = 0; i < pieces.count; i++) {
    copy(list, DMA_SPACE + pieces.at[i]!, at, pieces.length[i]!)
    at += pieces.length[i]!
  }
  runAll(list)
  for (let i = 0; i < pieces.count; i++) if (resultOf(list, first + i) !== DONE) return false
  return true
}

/** Do the keys of the ranges still cover them, in that domain? They may have been taken back. */
export function areCovered(state: HostState, pieces: Pieces, domain: number): boolean {
  const { regions } = state.host
  for (let i = 0; i < pieces.count; i++) {
    const fault = memoryFault(regions, pieces.key[i]!, domain, pieces.at[i]!, pieces.length[i]!)
    if (fault !== PASS) return false
  }
  return true
}

/**
 * Appends copies of `length` bytes at `from` to the host's memory, from `offset` of the ranges on.
 * They are posted writes, which nobody hears of.
 */
export function writePieces(
  state: BoardState,
  pieces: Pieces,
  offset: number,
  from: number,
  length: number,
): void {
  let skip = offset
  let at = from
  let left = length
  for (let i = 0; i < pieces.count && left > 0; i++) {
    const bytes = pieces.length[i]!
    if (skip >= bytes) {
      skip -= bytes
      continue
    }
    const here = bytes - skip < left ? bytes - skip : left
    copy(state.list, at, DMA_SPACE + pieces.at[i]! + skip, here)
    at += here
    left -= here
    skip = 0
  }
}
