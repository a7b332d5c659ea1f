/**
 * The announcement of a region: what the responder tells its client by a SEND as soon as they are
 * connected (source 2, registration; P2-2). 24 bytes, big-endian.
 *
 *    0        1        2        3
 *   +--------+--------+--------+--------+
 *  0|     start address (8 bytes)       |
 *  8|          length (8 bytes)         |
 *   +--------+--------+--------+--------+
 * 16|               R_Key               |
 * 20|           access flags            |
 *   +--------+--------+--------+--------+
 *
 * Length counts bytes; the access flags are those of wire-format 4, and bit 16 for the right to
 * WRITE_PERSIST.
 */

import { putU32 } from './bytes.ts'

export const ANNOUNCEMENT_BYTES = 24
const ADDRESS = 0
const LENGTH = 8
const RKEY = 16
const RIGHTS = 20

export interface Announcement {
  addressHigh: number
  addressLow: number
  lengthHigh: number
  lengthLow: number
  rkey: number
  rights: number
}

/** Writes 24 bytes at `at`. */
export function writeAnnouncement(bytes: Uint8Array, at: number, from: Announcement): void {
  putU32(bytes, at + ADDRESS, from.addressHigh)
  putU32(bytes, at + ADDRESS + 4, from.addressLow)
  putU32(bytes, at + LENGTH, from.lengthHigh)
  putU32(bytes, at + LENGTH + 4, from.lengthLow)
  putU32(bytes, at + RKEY, from.rkey)
  putU32(bytes, at + RIGHTS, from.rights)
}
