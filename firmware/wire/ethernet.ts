/**
 * Ethernet II header (IEEE 802.3, 3.1): 14 bytes, big-endian.
 *
 *    0       1       2       3       4       5
 *   +-------+-------+-------+-------+-------+-------+
 *  0|                  destination                  |
 *   +-------+-------+-------+-------+-------+-------+
 *  6|                    source                     |
 *   +-------+-------+-------+-------+-------+-------+
 * 12|     type      |
 *   +-------+-------+
 *
 * An 802.1Q tag puts four bytes between source and type: 0x8100 and the tag. A frame may be padded
 * to 60 bytes behind its datagram, so the lengths in IP count, never the length of the frame.
 */

import { putU16, putU32, u16, u32 } from './bytes.ts'

export const ETHERNET_BYTES = 14

/** Where the fields stand; answers are made in place, by swapping the two addresses. */
export const ETH_DESTINATION = 0
export const ETH_SOURCE = 6
export const ETH_TYPE = 12

/** Bytes of one address. */
export const MAC_BYTES = 6

/** Bytes that an 802.1Q tag adds. */
export const VLAN_BYTES = 4

export const ETHERTYPE_IPV4 = 0x0800
export const ETHERTYPE_IPV6 = 0x86dd
export const ETHERTYPE_VLAN = 0x8100

/** The fields of an Ethernet header; an address is one exact 48-bit number. */
export interface Ethernet {
  destination: number
  source: number
  type: number
}

export function blankEthernet(): Ethernet {
  return { destination: 0, source: 0, type: ETHERTYPE_IPV4 }
}

/** Reads 14 bytes at `at`; the caller has checked that they are there. */
export function readEthernet(into: Ethernet, bytes: Uint8Array, at: number): void {
  into.destination = u48(bytes, at + ETH_DESTINATION)
  into.source = u48(bytes, at + ETH_SOURCE)
  into.type = u16(bytes, at + ETH_TYPE)
}

/** Writes 14 bytes at `at`. */
export function writeEthernet(bytes: Uint8Array, at: number, from: Ethernet): void {
  putU48(bytes, at + ETH_DESTINATION, from.destination)
  putU48(bytes, at + ETH_SOURCE, from.source)
  putU16(bytes, at + ETH_TYPE, from.type)
}

function u48(bytes: Uint8Array, at: number): number {
  return u16(bytes, at) * 0x100000000 + u32(bytes, at + 2)
}

function putU48(bytes: Uint8Array, at: number, v: number): void {
  putU16(bytes, at, Math.floor(v / 0x100000000))
  putU32(bytes, at + 2, v % 0x100000000)
}
