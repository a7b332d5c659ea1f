/**
 * IPv4 header without options (RFC 791, 3.1): 20 bytes, big-endian.
 *
 *    0       1       2       3
 *   +-------+-------+-------+-------+
 *  0| 4 | 5 |traffic| total length  |
 *   +-------+-------+-------+-------+
 *  4|identification |flags, fragment|
 *   +-------+-------+-------+-------+
 *  8|  TTL  |  17   |   checksum    |
 *   +-------+-------+-------+-------+
 * 12|            source             |
 *   +-------+-------+-------+-------+
 * 16|          destination          |
 *   +-------+-------+-------+-------+
 *
 * RoCEv2 knows no options and no fragments (IBTA annex A17): the ICRC starts here and assumes this
 * form. The identification is inside the ICRC; traffic class, TTL and checksum are not.
 */

import { putU16, putU32, u16 } from './bytes.ts'

export const IPV4_BYTES = 20
export const IPV4_VERSION = 0
export const IPV4_TRAFFIC_CLASS = 1
export const IPV4_TOTAL_LENGTH = 2
export const IPV4_IDENTIFICATION = 4
export const IPV4_FRAGMENT = 6
export const IPV4_TIME_TO_LIVE = 8
export const IPV4_PROTOCOL = 9
export const IPV4_CHECKSUM = 10
export const IPV4_SOURCE = 12
export const IPV4_DESTINATION = 16
export const IPV4_ADDRESS_BYTES = 4

/**
 * By the first byte of a source address, 1 where no station has such a one: this network and nobody
 * (0), the station itself (127), groups, reserved addresses and broadcast (from 224 on; RFC 6890,
 * 2.2.2, RFC 1112, 4).
 */
export const IPV4_NO_STATION: Uint8Array = new Uint8Array(256).fill(1, 224)
IPV4_NO_STATION[0] = IPV4_NO_STATION[127] = 1

/** Version 4, five words of header. */
export const IPV4_VERSION_5_WORDS = 0x45

/** The fragment word of every packet of ours: do not fragment, offset 0. */
export const IPV4_DO_NOT_FRAGMENT = 0x4000

/** The fields of an IPv4 header; the checksum is made when it is written. */
export interface Ipv4 {
  /** DSCP (six bits) and ECN (two). */
  trafficClass: number
  /** Bytes from the first of this header to the last of the ICRC. */
  totalLength: number
  identification: number
  /** Three bits of flags and thirteen of offset. */
  fragment: number
  timeToLive: number
  protocol: number
  source: number
  destination: number
}

export function blankIpv4(): Ipv4 {
  return {
    trafficClass: 0,
    totalLength: IPV4_BYTES,
    identification: 0,
    fragment: IPV4_DO_NOT_FRAGMENT,
    timeToLive: 64,
    protocol: 17,
    source: 0,
    destination: 0,
  }
}

/** Writes 20 bytes at `at`, checksum included. */
export function writeIpv4(bytes: Uint8Array, at: number, from: Ipv4): void {
  bytes[at + IPV4_VERSION] = IPV4_VERSION_5_WORDS
  bytes[at + IPV4_TRAFFIC_CLASS] = from.trafficClass
  putU16(bytes, at + IPV4_IDENTIFICATION, from.identification)
  putU16(bytes, at + IPV4_FRAGMENT, from.fragment)
  bytes[at + IPV4_TIME_TO_LIVE] = from.timeToLive
  bytes[at + IPV4_PROTOCOL] = from.protocol
  putU32(bytes, at + IPV4_SOURCE, from.source)
  putU32(bytes, at + IPV4_DESTINATION, from.destination)
  writeIpv4Length(bytes, at, from.totalLength)
}

/** Sets the total length, bytes, and makes the checksum again. */
export function writeIpv4Length(bytes: Uint8Array, at: number, totalLength: number): void {
  putU16(bytes, at + IPV4_TOTAL_LENGTH, totalLength)
  putU16(bytes, at + IPV4_CHECKSUM, ipv4Checksum(bytes, at))
}

/** The checksum that the header at `at` must have; what stands in the field does not matter. */
export function ipv4Checksum(bytes: Uint8Array, at: number): number {
  let sum =
    u16(bytes, at) +
    u16(bytes, at + 2) +
    u16(bytes, at + 4) +
    u16(bytes, at + 6) +
    u16(bytes, at + 8) +
    u16(bytes, at + 12) +
    u16(bytes, at + 14) +
    u16(bytes, at + 16) +
    u16(bytes, at + 18)
  sum = (sum & 0xffff) + (sum >> 16)
  sum = (sum & 0xffff) + (sum >> 16)
  return ~sum & 0xffff
}
