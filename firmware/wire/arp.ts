/**
 * Address Resolution Protocol for IPv4 over Ethernet (RFC 826): 28 bytes behind the Ethernet
 * header, big-endian.
 *
 *    0       1       2       3       4       5
 *   +-------+-------+-------+-------+-------+-------+
 *  0|   1 Ethernet  |  0x0800 IPv4  |   6   |   4   |
 *   +-------+-------+-------+-------+-------+-------+
 *  6|   operation   |       sender hardware ...
 *   +-------+-------+-------+-------+-------+-------+
 * 12|  ... address  |        sender IPv4            |
 *   +-------+-------+-------+-------+-------+-------+
 * 18|           target hardware address             |
 *   +-------+-------+-------+-------+-------+-------+
 * 24|          target IPv4          |
 *   +-------+-------+-------+-------+
 *
 * Invariant: after PASS of `arpFault` all 28 bytes are there and the fixed fields are those
 * above; anything else is no ARP that concerns us.
 */

import { type Fault, NEIGHBOUR_FORM, PASS } from '../board/fault.ts'
import { putU16, u16 } from './bytes.ts'
import { IPV4_ADDRESS_BYTES } from './ipv4.ts'

export const ETHERTYPE_ARP = 0x0806

export const ARP_BYTES = 28
export const ARP_HARDWARE = 0
export const ARP_PROTOCOL = 2
export const ARP_HARDWARE_BYTES = 4
export const ARP_PROTOCOL_BYTES = 5
export const ARP_OPERATION = 6
export const ARP_SENDER_MAC = 8
export const ARP_SENDER_IPV4 = 14
export const ARP_TARGET_MAC = 18
export const ARP_TARGET_IPV4 = 24

export const ARP_REQUEST = 1
export const ARP_REPLY = 2

const HARDWARE_ETHERNET = 1
const PROTOCOL_IPV4 = 0x0800
const MAC_BYTES = 6

/** Whether [at, end) holds a request or reply of that form: PASS or NEIGHBOUR_FORM. */
export function arpFault(bytes: Uint8Array, at: number, end: number): Fault {
  if (end - at < ARP_BYTES) return NEIGHBOUR_FORM
  if (u16(bytes, at + ARP_HARDWARE) !== HARDWARE_ETHERNET) return NEIGHBOUR_FORM
  if (u16(bytes, at + ARP_PROTOCOL) !== PROTOCOL_IPV4) return NEIGHBOUR_FORM
  if (bytes[at + ARP_HARDWARE_BYTES] !== MAC_BYTES) return NEIGHBOUR_FORM
  if (bytes[at + ARP_PROTOCOL_BYTES] !== IPV4_ADDRESS_BYTES) return NEIGHBOUR_FORM
  const operation = u16(bytes, at + ARP_OPERATION)
  if (operation !== ARP_REQUEST && operation !== ARP_REPLY) return NEIGHBOUR_FORM
  // A station has an address of its own: no group's, and not none (IEEE 802.3, 3.2.3).
  return (bytes[at + ARP_SENDER_MAC]! & 1) === 0 ? PASS : NEIGHBOUR_FORM
}

/** Writes the fixed fields and the operation, 8 bytes; the addresses are the caller's. */
export function writeArpHead(bytes: Uint8Array, at: number, operation: number): void {
  putU16(bytes, at + ARP_HARDWARE, HARDWARE_ETHERNET)
  putU16(bytes, at + ARP_PROTOCOL, PROTOCOL_IPV4)
  bytes[at + ARP_HARDWARE_BYTES] = MAC_BYTES
  bytes[at + ARP_PROTOCOL_BYTES] = IPV4_ADDRESS_BYTES
  putU16(bytes, at + ARP_OPERATION, operation)
}
