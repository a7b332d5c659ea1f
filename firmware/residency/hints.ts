// hot path
/**
 * Judging before an access, and hinting at what is not ready (source 5; P5-3 … P5-6, P5-15).
 *
 * Invariant: a block that is ready is not hinted at, and one that was hinted at is not
 * again until the prefetch time is over; there is no hint at all where the status of the region was
 * not told. An access is never refused: at the latest when the prefetch time is over it goes.
 */

import { BLOCK_READY } from '../wire/memory-status.ts'
import { type Blocks, blockAt, isRangeReady, PHASE_TOLD } from './blocks.ts'

/** How to access some bytes. */
export const ACCESS_READY = 0
/**
 * Not ready: hint, if `nextHintedBlocks` finds anything to hint at, and wait until `waitUntilUs`.
 */
export const ACCESS_WAITS = 1
/** Nothing is known that one could go by: at once, and whatever comes of it. */
export const ACCESS_BLIND = 2

/** What to do about an access to `length` bytes at `offset`. */
export function judgeAccess(b: Blocks, offset: number, length: number): number {
  if (isRangeReady(b, offset, length)) return ACCESS_READY
  return b.phase === PHASE_TOLD ? ACCESS_WAITS : ACCESS_BLIND
}

/**
 * Finds the next blocks of these bytes that are to be hinted at: `hintFirst` and `hintCount` of
 * `b`. They count as hinted for `prefetchUs` from now on. False where there are none (any more).
 */
export function nextHintedBlocks(
  b: Blocks,
  offset: number,
  length: number,
  nowUs: number,
  prefetchUs: number,
): boolean {
  if (b.phase !== PHASE_TOLD || length === 0) return false
  const last = blockAt(b, offset + length - 1)
  let first = blockAt(b, offset)
  while (first <= last && !wantsHint(b, first, nowUs)) first++
  let end = first
  for (; end <= last && wantsHint(b, end, nowUs); end++) b.hintedUntilUs[end] = nowUs + prefetchUs
  b.hintFirst = first
  b.hintCount = end - first
  if (end === first) return false
  b.counts.hints++
  b.counts.hintedBlocks += end - first
  return true
}

function wantsHint(b: Blocks, block: number, nowUs: number): boolean {
  return b.states[block] !== BLOCK_READY && b.hintedUntilUs[block]! <= nowUs
}

/** Until when an access to these bytes waits at the most, µs: for the last hint that counts. */
export function waitUntilUs(b: Blocks, offset: number, length: number): number {
  let until = 0
  if (length === 0) return until
  const last = blockAt(b, offset + length - 1)
  for (let block = blockAt(b, offset); block <= last; block++) {
    if (b.states[block] !== BLOCK_READY && b.hintedUntilUs[block]! > until) {
      until = b.hintedUntilUs[block]!
    }
  }
  return until
}
