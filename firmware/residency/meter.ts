// hot path
/**
 * What the notices of an association take of the network, measured against a budget (source 5, ¶82,
 * ¶84, ¶109, ¶111: size and time by bandwidth; S1-M12). Without I/O and without a clock.
 *
 * Every message is paid for by the time in which the budget yields its bytes. Changes may run ahead
 * of that by AHEAD_US; then they wait, and what waits is collected, as within a period.
 *
 * Invariants:
 * - In any t µs an association sends at most budget × (t + AHEAD_US) bytes of changes, and a
 *   message more: one leaves only while what left before it is paid for within AHEAD_US.
 * - The status as it is now, and the word that a region failed, never wait: they are paid later,
 *   so that changes wait for them.
 * - The budget is the smaller one of ours and the requester's, and never less than LEAST_LOG2: then
 *   a short notice leaves about once in AHEAD_US.
 * - Waiting changes when something is told, and never what: a requester that believes what was is
 *   slower, and nothing else.
 */

import { NOTICE_BYTES_PER_S } from '../board/limits.ts'
import { BTH_BYTES } from '../wire/bth.ts'
import { ETHERNET_BYTES } from '../wire/ethernet.ts'
import { ICRC_BYTES } from '../wire/icrc.ts'
import { IPV4_BYTES } from '../wire/ipv4.ts'
import { MSETH_BYTES } from '../wire/memory-status.ts'
import { UDP_BYTES } from '../wire/udp.ts'

export interface Meter {
  /** Bytes per second that may leave. */
  bytesPerS: number
  /** Bytes that left since the window began. */
  windowBytes: number
  /** Until when what has left takes all that the budget yields, µs. */
  paidUntilUs: number
}

/** So far changes may run ahead of what the budget yields, µs. */
export const AHEAD_US = 100_000

/** The smallest budget, log2 of bytes per second. */
const LEAST_LOG2 = 10

/** Quarters of the budget that are much, and so little that twice as much is not much. */
const MUCH = 3
const LITTLE = 1

const HEADERS: number =
  ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES + BTH_BYTES + MSETH_BYTES + ICRC_BYTES

export function createMeter(): Meter {
  return { bytesPerS: NOTICE_BYTES_PER_S, windowBytes: 0, paidUntilUs: 0 }
}

/** Nothing has left, and the requester bears so much, log2 of bytes per second; 0 is any. */
export function beginMeter(meter: Meter, budgetLog2: number): void {
  const bears = budgetLog2 === 0 ? NOTICE_BYTES_PER_S : 2 ** budgetLog2
  const least = 2 ** LEAST_LOG2
  meter.bytesPerS = bears > NOTICE_BYTES_PER_S ? NOTICE_BYTES_PER_S : bears < least ? least : bears
  meter.paidUntilUs = 0
  clearWindow(meter)
}

/** Bytes of the frame of a notice with so many bytes of entries. */
export function noticeBytes(length: number): number {
  return HEADERS + length
}

/** So many bytes leave. */
export function spend(meter: Meter, bytes: number, nowUs: number): void {
  const from = meter.paidUntilUs > nowUs ? meter.paidUntilUs : nowUs
  meter.paidUntilUs = from + (bytes * 1_000_000) / meter.bytesPerS
  meter.windowBytes += bytes
}

/** Until when changes wait for the budget, µs. */
export function heldUntilUs(meter: Meter): number {
  return meter.paidUntilUs - AHEAD_US
}

// ---- for the size of blocks --------------------------------------------------------------------

/** A window of time begins. */
export function clearWindow(meter: Meter): void {
  meter.windowBytes = 0
}

/** Did a window of so many µs take nearly all of the budget? */
export function isMuch(meter: Meter, windowUs: number): boolean {
  return meter.windowBytes * 4 >= share(meter, windowUs) * MUCH
}

/** Did it take so little that blocks may be finer? One size finer has at most twice the edges. */
export function isLittle(meter: Meter, windowUs: number): boolean {
  return meter.windowBytes * 4 <= share(meter, windowUs) * LITTLE
}

function share(meter: Meter, windowUs: number): number {
  return (meter.bytesPerS * windowUs) / 1_000_000
}
