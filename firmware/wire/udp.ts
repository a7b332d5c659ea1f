/**
 * UDP header (RFC 768): 8 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|  source port  |     4791      |
 *   +-------+-------+-------+-------+
 *  4|    length     |   checksum    |
 *   +-------+-------+-------+-------+
 *
 * The length counts this header and everything to the end of the ICRC. The source port only spreads
 * flows over paths. The checksum is 0, on IPv6 too: the ICRC does its work.
 */

import { putU16 } from './bytes.ts'

export const UDP_BYTES = 8
export const UDP_SOURCE_PORT = 0
export const UDP_DESTINATION_PORT = 2
export const UDP_LENGTH = 4
export const UDP_CHECKSUM = 6

/** The UDP port of RoCEv2 (IBTA annex A17). */
export const ROCE_PORT = 4791

/** The number of UDP in the IP header. */
export const PROTOCOL_UDP = 17

/** The fields of a UDP header. */
export interface Udp {
  sourcePort: number
  destinationPort: number
  /** Bytes from the first of this header to the last of the ICRC. */
  length: number
  checksum: number
}

export function blankUdp(): Udp {
  return { sourcePort: 0xc000, destinationPort: ROCE_PORT, length: UDP_BYTES, checksum: 0 }
}

/** Writes 8 bytes at `at`. */
export function writeUdp(bytes: Uint8Array, at: number, from: Udp): void {
  putU16(bytes, at + UDP_SOURCE_PORT, from.sourcePort)
  putU16(bytes, at + UDP_DESTINATION_PORT, from.destinationPort)
  putU16(bytes, at + UDP_LENGTH, from.length)
  putU16(bytes, at + UDP_CHECKSUM, from.checksum)
}
