/**
 * IPv6 header (RFC 8200, 3): 40 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0|6 |traffic|     flow label     |
 *   +-------+-------+-------+-------+
 *  4|payload length | next  |  hops |
 *   +-------+-------+-------+-------+
 *  8|            source             |
 *   |          (16 bytes)           |
 *   +-------+-------+-------+-------+
 * 24|          destination          |
 *   |          (16 bytes)           |
 *   +-------+-------+-------+-------+
 *
 * RoCEv2 knows no extension headers (IBTA annex A17): UDP follows at once. Traffic class, flow
 * label and hop limit are outside the ICRC.
 */

export const IPV6_BYTES = 40
export const IPV6_VERSION = 0
export const IPV6_PAYLOAD_LENGTH = 4
export const IPV6_NEXT_HEADER = 6
export const IPV6_HOP_LIMIT = 7
export const IPV6_SOURCE = 8
export const IPV6_DESTINATION = 24

/** Bytes of one address. */
export const IPV6_ADDRESS_BYTES = 16

/** The first byte of every group (RFC 4291, 2.7). */
export const IPV6_GROUP = 0xff

/** Is it a source that no station has: a group, nobody (::), or the station itself (::1)? */
export function isNoStation(bytes: Uint8Array, at: number): boolean {
  if (bytes[at] === IPV6_GROUP) return true
  for (let i = 0; i < IPV6_ADDRESS_BYTES - 1; i++) if (bytes[at + i] !== 0) return false
  return bytes[at + IPV6_ADDRESS_BYTES - 1]! <= 1
}
