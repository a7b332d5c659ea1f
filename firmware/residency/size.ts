// hot path
/**
 * Sizes of blocks: what may be agreed, and which one the responder would rather have (P5-7 … P5-10,
 * P5-18, P5-29; source 5, ¶79–84, ¶107–111).
 *
 * Invariant: a size is a power of two, said by its logarithm; no block is smaller than a
 * page, and none is larger than it takes to be the whole of what was associated. Between these two,
 * a requester gets exactly what it wishes; else it is offered the nearest size that there is.
 *
 * The responder looks back over windows of time. Many edges in one, or notices that take most of
 * their budget, ask for coarser blocks, since every edge is told over the network. Few of both,
 * window after window, ask for finer ones, down to the wish. What it suggests or offers by itself
 * is among the sizes that the requester says it takes, so far as there are such (S1-M12); what the
 * requester asks for by name is judged by what there is alone.
 */

import { ASSOCIATED_BLOCKS, PAGE_BYTES } from '../board/limits.ts'
import { SIZE_GRANTED, SIZE_OFFERED } from '../wire/block-size.ts'
import type { Association } from './association.ts'
import { clearWatch } from './association.ts'
import { clearWindow, isLittle, isMuch } from './meter.ts'

/** A page, log2 of bytes. */
export const PAGE_LOG2: number = Math.log2(PAGE_BYTES)

/** Blocks that are offered to a requester without a wish: their states fit into 64 bytes. */
const SUGGESTED_BLOCKS = 512

/** The time that is looked back over, µs. */
export const WINDOW_US = 100_000
/** Edges of one window that are too many, and that are so few that finer blocks cost nothing. */
export const EDGES_MANY = 2048
const EDGES_FEW = 64
/** Windows with few edges, one behind the other, before a finer size is offered. */
export const CALM_WINDOWS = 8
/** A requester that refused is not asked again for so long, µs. */
export const REFUSED_US = 10_000_000

/** The smallest size, log2, in which so many bytes have no more blocks than are kept. */
export function leastLog2(length: number): number {
  return log2Within(length, ASSOCIATED_BLOCKS)
}

/** The size, log2, of which one block holds it all. */
export function mostLog2(length: number): number {
  return log2Within(length, 1)
}

/** What is offered to a requester that has no wish. */
export function suggestedLog2(length: number): number {
  return log2Within(length, SUGGESTED_BLOCKS)
}

/** Likewise, to that one: among the sizes that it says it takes. */
export function suggestedFor(a: Association): number {
  const least = nearestLog2(a.length, a.leastLog2 === 0 ? PAGE_LOG2 : a.leastLog2)
  const most = coarsestFor(a)
  const size = suggestedLog2(a.length)
  if (size > most) return most
  return size < least ? least : size
}

/** The coarsest size that it is offered. */
function coarsestFor(a: Association): number {
  return nearestLog2(a.length, a.mostLog2 === 0 ? mostLog2(a.length) : a.mostLog2)
}

/** The finest that it is offered: its wish, or a coarser one if it takes no finer. */
function finestFor(a: Association): number {
  return a.leastLog2 > a.wishLog2 ? a.leastLog2 : a.wishLog2
}

/** Sizes above this are no sizes, log2. */
const SIZE_LOG2_MAX = 63

/** Can somebody take sizes from one to the other (log2; 0 is any)? */
export function areBounds(leastSaid: number, mostSaid: number): boolean {
  if (leastSaid > SIZE_LOG2_MAX || mostSaid > SIZE_LOG2_MAX) return false
  return mostSaid === 0 || leastSaid <= mostSaid
}

function log2Within(length: number, blocks: number): number {
  let log2 = PAGE_LOG2
  while (blocks * 2 ** log2 < length) log2 += 1
  return log2
}

/** The nearest size to a wish; of none (0), what is suggested. */
export function nearestLog2(length: number, wishLog2: number): number {
  if (wishLog2 === 0) return suggestedLog2(length)
  const least = leastLog2(length)
  const most = mostLog2(length)
  if (wishLog2 < least) return least
  return wishLog2 > most ? most : wishLog2
}

/** SIZE_GRANTED for a wish that can be had; else SIZE_OFFERED, and the nearest is the offer. */
export function judgeWish(length: number, wishLog2: number): number {
  return nearestLog2(length, wishLog2) === wishLog2 ? SIZE_GRANTED : SIZE_OFFERED
}

/**
 * Another size that the requester should be offered now, or 0. To be asked now and then: a window
 * that is over is judged when it is.
 */
export function offerFor(a: Association, nowUs: number): number {
  if (!a.committed || !a.optedIn || a.outage !== 0) return 0
  if (a.offerLog2 === 0 && nowUs >= a.windowEndUs) judgeWindow(a, nowUs)
  const watched = a.edges > 0 || a.sizeLog2 > a.wishLog2
  if (a.windowEndUs === Infinity && watched) {
    a.windowEndUs = nowUs + WINDOW_US
    clearWindow(a.meter)
  }
  return nowUs < a.quietUntilUs ? 0 : a.offerLog2
}

function judgeWindow(a: Association, nowUs: number): void {
  const { edges, meter } = a
  const isBusy = edges >= EDGES_MANY || isMuch(meter, WINDOW_US)
  const isCalm = edges <= EDGES_FEW && isLittle(meter, WINDOW_US)
  a.edges = 0
  clearWindow(meter)
  a.windowEndUs = nowUs + WINDOW_US
  a.calmWindows = isCalm ? a.calmWindows + 1 : 0
  if (isBusy && a.sizeLog2 < coarsestFor(a)) {
    a.offerLog2 = a.sizeLog2 + 1
  } else if (a.calmWindows >= CALM_WINDOWS && a.sizeLog2 > finestFor(a)) {
    a.offerLog2 = a.sizeLog2 - 1
  } else if (edges === 0 && a.sizeLog2 === a.wishLog2) {
    a.windowEndUs = Infinity
  }
}

/**
 * The requester answered an offer by another size. It is offered exactly that, once, where it can
 * be had; else everything stays as it is. True if it is to be offered.
 */
export function takeCounter(a: Association, counterLog2: number, nowUs: number): boolean {
  const first = !a.countered
  if (first && judgeWish(a.length, counterLog2) === SIZE_GRANTED) {
    a.countered = true
    a.offerLog2 = counterLog2
    return true
  }
  takeRefusal(a, nowUs)
  return false
}

/** The requester keeps the size that it has. */
export function takeRefusal(a: Association, nowUs: number): void {
  clearWatch(a)
  a.countered = false
  a.quietUntilUs = nowUs + REFUSED_US
}
