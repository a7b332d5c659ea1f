/**
 * Neighbour solicitation and advertisement (RFC 4861, 4.3 and 4.4): ICMPv6, 24 bytes and options.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0| type  |   0   |   checksum    |   type 135 solicitation, 136 advertisement
 *   +-------+-------+-------+-------+
 *  4|flags  |       reserved        |   an advertisement's: 80 router, 40 solicited, 20 override
 *   +-------+-------+-------+-------+
 *  8|        target address         |
 *   |          (16 bytes)           |
 *   +-------+-------+-------+-------+
 * 24| option type, length in eights |   1 link-layer address of the source, 2 of the target:
 *   |   six bytes of an address     |   eight bytes
 *   +-------+-------+-------+-------+
 *
 * The checksum is that of ICMPv6: ones' complement over a pseudo header of both addresses, length
 * and next header 58, and everything from the type on (RFC 4443, 2.3). The hop limit is 255 in
 * every one of them: a packet that came through a router is none.
 *
 * Invariant: after PASS of `neighbourFault` the message and every option lie inside the
 * packet, no option has length 0, the checksum is right and the target is no group.
 */

import { type Fault, NEIGHBOUR_FORM, PASS } from '../board/fault.ts'
import { putU16, putU32, u16 } from './bytes.ts'
import {
  IPV6_ADDRESS_BYTES,
  IPV6_BYTES,
  IPV6_DESTINATION,
  IPV6_HOP_LIMIT,
  IPV6_NEXT_HEADER,
  IPV6_PAYLOAD_LENGTH,
  IPV6_SOURCE,
} from './ipv6.ts'

/** The number of ICMPv6 in the IP header. */
export const PROTOCOL_ICMPV6 = 58

export const NEIGHBOUR_BYTES = 24
export const NEIGHBOUR_TYPE = 0
export const NEIGHBOUR_CODE = 1
export const NEIGHBOUR_CHECKSUM = 2
export const NEIGHBOUR_FLAGS = 4
export const NEIGHBOUR_TARGET = 8

export const SOLICITATION = 135
export const ADVERTISEMENT = 136

export const FLAG_SOLICITED = 0x40
export const FLAG_OVERRIDE = 0x20

export const OPTION_BYTES = 8
export const OPTION_SOURCE_ADDRESS = 1
export const OPTION_TARGET_ADDRESS = 2

/** A packet that has this hop limit was not forwarded. */
export const HOP_LIMIT_LOCAL = 255

/** Does the IPv6 packet at `ipAt` carry a message of ours? The frame has at least its header. */
export function isNeighbour(bytes: Uint8Array, ipAt: number, end: number): boolean {
  const at = ipAt + IPV6_BYTES
  if (end - at < 1 || bytes[ipAt + IPV6_NEXT_HEADER] !== PROTOCOL_ICMPV6) return false
  return bytes[at] === SOLICITATION || bytes[at] === ADVERTISEMENT
}

/** Whether the IPv6 packet [ipAt, end) is a sound message: PASS or NEIGHBOUR_FORM. */
export function neighbourFault(bytes: Uint8Array, ipAt: number, end: number): Fault {
  const at = ipAt + IPV6_BYTES
  const length = u16(bytes, ipAt + IPV6_PAYLOAD_LENGTH)
  if (length < NEIGHBOUR_BYTES || end - at < length) return NEIGHBOUR_FORM
  if (bytes[ipAt + IPV6_HOP_LIMIT] !== HOP_LIMIT_LOCAL) return NEIGHBOUR_FORM
  if (bytes[at + NEIGHBOUR_CODE] !== 0) return NEIGHBOUR_FORM
  if (bytes[at + NEIGHBOUR_TARGET] === 0xff) return NEIGHBOUR_FORM
  for (let option = at + NEIGHBOUR_BYTES; option < at + length; ) {
    const left = at + length - option
    const bytesOfOption = left >= 2 ? bytes[option + 1]! * OPTION_BYTES : 0
    if (bytesOfOption === 0 || bytesOfOption > left) return NEIGHBOUR_FORM
    option += bytesOfOption
  }
  return neighbourChecksum(bytes, ipAt) === 0 ? PASS : NEIGHBOUR_FORM
}

/** The option's address in a message that `neighbourFault` has passed: its position, or -1. */
export function optionAddress(bytes: Uint8Array, ipAt: number, type: number): number {
  const at = ipAt + IPV6_BYTES
  const end = at + u16(bytes, ipAt + IPV6_PAYLOAD_LENGTH)
  for (let option = at + NEIGHBOUR_BYTES; option < end; ) {
    if (bytes[option] === type && bytes[option + 1] === 1) return option + 2
    option += bytes[option + 1]! * OPTION_BYTES
  }
  return -1
}

/**
 * The ones' complement over pseudo header and message of the packet at `ipAt`: 0 where the checksum
 * in it is right, and what must stand there where the field is 0.
 */
export function neighbourChecksum(bytes: Uint8Array, ipAt: number): number {
  const length = u16(bytes, ipAt + IPV6_PAYLOAD_LENGTH)
  let sum = length + PROTOCOL_ICMPV6
  for (let i = 0; i < 2 * IPV6_ADDRESS_BYTES; i += 2) sum += u16(bytes, ipAt + IPV6_SOURCE + i)
  const at = ipAt + IPV6_BYTES
  // A header of 24 bytes and options of whole eights: there is no odd byte at the end.
  for (let i = 0; i < length; i += 2) sum += u16(bytes, at + i)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16)
  return ~sum & 0xffff
}

/** What a message is written with. */
export interface Neighbour {
  type: number
  flags: number
  /** Kind of its one option. */
  option: number
}

/**
 * Writes IPv6 header, message and one option behind it, 72 bytes at `ipAt`, except for the
 * addresses and the checksum: the caller puts source, destination, target and the option's address
 * where they belong and then calls `sealNeighbour`.
 */
export function writeNeighbour(bytes: Uint8Array, ipAt: number, from: Neighbour): void {
  const at = ipAt + IPV6_BYTES
  bytes.fill(0, ipAt, at + NEIGHBOUR_BYTES + OPTION_BYTES)
  putU32(bytes, ipAt, 6 << 28)
  putU16(bytes, ipAt + IPV6_PAYLOAD_LENGTH, NEIGHBOUR_BYTES + OPTION_BYTES)
  bytes[ipAt + IPV6_NEXT_HEADER] = PROTOCOL_ICMPV6
  bytes[ipAt + IPV6_HOP_LIMIT] = HOP_LIMIT_LOCAL
  bytes[at + NEIGHBOUR_TYPE] = from.type
  bytes[at + NEIGHBOUR_FLAGS] = from.flags
  bytes[at + NEIGHBOUR_BYTES] = from.option
  bytes[at + NEIGHBOUR_BYTES + 1] = 1
}

/** Makes the checksum of a message that `writeNeighbour` began. */
export function sealNeighbour(bytes: Uint8Array, ipAt: number): void {
  const at = ipAt + IPV6_BYTES + NEIGHBOUR_CHECKSUM
  putU16(bytes, at, 0)
  putU16(bytes, at, neighbourChecksum(bytes, ipAt))
}

/** Where the addresses of a packet of `writeNeighbour` go, from its IPv6 header on. */
export const AT_SOURCE: number = IPV6_SOURCE
export const AT_DESTINATION: number = IPV6_DESTINATION
export const AT_TARGET: number = IPV6_BYTES + NEIGHBOUR_TARGET
export const AT_OPTION: number = IPV6_BYTES + NEIGHBOUR_BYTES + 2
export const NEIGHBOUR_PACKET_BYTES: number = IPV6_BYTES + NEIGHBOUR_BYTES + OPTION_BYTES
