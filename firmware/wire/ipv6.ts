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

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const IPV6_BYTES = 40
export const IPV6_VERSION = 0
export const IPV6_PAYLOAD_LENGTH = 4
export const IPV6_NEXT_HEADER = 6
export const IPV6_HOP_LIMIT = 7
export const IPV6_SOURCE = 8
export const IPV6_DESTINATION = 24

/** Bytes of one address. */
export const IPV6_ADDRESS_BYTES = 16

/** The fields of an IPv6 header; the addresses are the record's own 16 bytes each. */
export interface Ipv6 {
  /** DSCP (six bits) and ECN (two). */
  trafficClass: number
  flowLabel: number
  /** Bytes from the first of UDP to the last of the ICRC. */
  payloadLength: number
  nextHeader: number
  hopLimit: number
  readonly source: Uint8Array
  readonly destination: Uint8Array
}

export function blankIpv6(): Ipv6 {
  return {
    trafficClass: 0,
    flowLabel: 0,
    payloadLength: 0,
    nextHeader: 17,
    hopLimit: 64,
    source: new Uint8Array(IPV6_ADDRESS_BYTES),
    destination: new Uint8Array(IPV6_ADDRESS_BYTES),
  }
}

/** Reads 40 bytes at `at`; the caller has checked that they are there, and the version. */
export function readIpv6(into: Ipv6, bytes: Uint8Array, at: number): void {
  const word = u32(bytes, at + IPV6_VERSION)
  into.trafficClass = (word >>> 20) & 0xff
  into.flowLabel = word & 0xfffff
  into.payloadLength = u16(bytes, at + IPV6_PAYLOAD_LENGTH)
  into.nextHeader = bytes[at + IPV6_NEXT_HEADER]!
  into.hopLimit = bytes[at + IPV6_HOP_LIMIT]!
  for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) {
    into.source[i] = bytes[at + IPV6_SOURCE + i]!
    into.destination[i] = bytes[at + IPV6_DESTINATION + i]!
  }
}

/** Writes 40 bytes at `at`. */
export function writeIpv6(bytes: Uint8Array, at: number, from: Ipv6): void {
  putU32(bytes, at + IPV6_VERSION, (6 << 28) | (from.trafficClass << 20) | from.flowLabel)
  putU16(bytes, at + IPV6_PAYLOAD_LENGTH, from.payloadLength)
  bytes[at + IPV6_NEXT_HEADER] = from.nextHeader
  bytes[at + IPV6_HOP_LIMIT] = from.hopLimit
  bytes.set(from.source, at + IPV6_SOURCE)
  bytes.set(from.destination, at + IPV6_DESTINATION)
}
