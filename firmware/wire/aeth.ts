/**
 * ACK Extended Transport Header (IBTA Vol 1, 9.3): 4 bytes, big-endian.
 *
 *    0        1       2       3
 *   +--------+-------+-------+-------+
 *  0|0KKVVVVV|          MSN          |
 *   +--------+-------+-------+-------+
 *
 *   K 00 acknowledged, V is the credit count; 01 receiver not ready, V is the timer;
 *     11 refused, V says why; 10 reserved
 */

import { putU24, u24 } from './bytes.ts'

export const AETH_BYTES = 4
export const AETH_SYNDROME = 0
export const AETH_MSN = 1

/** Acknowledged, without credit information. 0x00 would mean zero credits and stop a sender. */
export const SYNDROME_ACK = 0x1f
/** PSN sequence error: packets are missing; the PSN of the answer is the expected one. */
export const NAK_SEQUENCE = 0x60
/** Invalid request. */
export const NAK_INVALID = 0x61
/** Remote access error. */
export const NAK_ACCESS = 0x62
/** Remote operational error. */
export const NAK_OPERATIONAL = 0x63

/** The two bits that tell the kinds apart, and their values. */
export const SYNDROME_KIND = 0x60
export const KIND_ACK = 0x00
export const KIND_RNR = 0x20
export const KIND_NAK = 0x60

/** Minimum RNR NAK timer by code, µs (IBTA table 45; wire-format 1.4). */
export const RNR_TIMER_US: readonly number[] = [
  655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920, 2560, 3840, 5120,
  7680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760, 327_680,
  491_520,
]

/** Codes of the shortest and of the longest time that is asked for below: 0.02 and 0.64 ms. */
const RNR_SHORTEST = 2
const RNR_LONGEST = 12

/** Syndrome of an RNR NAK of that time, µs, or what is next below it; 0.02 to 0.64 ms. */
export function rnrSyndrome(us: number): number {
  let code = RNR_SHORTEST
  while (code < RNR_LONGEST && RNR_TIMER_US[code + 1]! <= us) code++
  return KIND_RNR | code
}

/** The fields of an AETH. */
export interface Aeth {
  syndrome: number
  /** Message sequence number, 24 bits: messages that the responder has completed. */
  msn: number
}

export function blankAeth(): Aeth {
  return { syndrome: SYNDROME_ACK, msn: 0 }
}

/** Reads 4 bytes at `at`; the caller has checked that they are there. */
export function readAeth(into: Aeth, bytes: Uint8Array, at: number): void {
  into.syndrome = bytes[at + AETH_SYNDROME]!
  into.msn = u24(bytes, at + AETH_MSN)
}

/** Writes 4 bytes at `at`. */
export function writeAeth(bytes: Uint8Array, at: number, from: Aeth): void {
  bytes[at + AETH_SYNDROME] = from.syndrome
  putU24(bytes, at + AETH_MSN, from.msn)
}
