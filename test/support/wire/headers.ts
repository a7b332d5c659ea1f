/**
 * The halves of the headers that no part of the product needs: reading what the firmware only
 * writes, writing what it only reads, and Ethernet and IPv6, which it judges and answers in place.
 * Each goes with the header's file in `firmware/wire/`, which has the byte diagram.
 */

import type { Announcement } from '../../../firmware/wire/announcement.ts'
import {
  ATOMIC_ACK_ORIGINAL_HIGH,
  ATOMIC_ACK_ORIGINAL_LOW,
  type AtomicAck,
} from '../../../firmware/wire/atomic.ts'
import {
  BTH_ACK_REQUEST,
  BTH_DEST_QP,
  BTH_FLAGS,
  BTH_OPCODE,
  BTH_PKEY,
  BTH_PSN,
  type Bth,
} from '../../../firmware/wire/bth.ts'
import { putU16, putU24, putU32, u16, u24, u32 } from '../../../firmware/wire/bytes.ts'
import {
  ETH_DESTINATION,
  ETH_SOURCE,
  ETH_TYPE,
  ETHERTYPE_IPV4,
} from '../../../firmware/wire/ethernet.ts'
import {
  IPV4_DESTINATION,
  IPV4_FRAGMENT,
  IPV4_IDENTIFICATION,
  IPV4_PROTOCOL,
  IPV4_SOURCE,
  IPV4_TIME_TO_LIVE,
  IPV4_TOTAL_LENGTH,
  IPV4_TRAFFIC_CLASS,
  type Ipv4,
} from '../../../firmware/wire/ipv4.ts'
import {
  IPV6_ADDRESS_BYTES,
  IPV6_DESTINATION,
  IPV6_HOP_LIMIT,
  IPV6_NEXT_HEADER,
  IPV6_PAYLOAD_LENGTH,
  IPV6_SOURCE,
  IPV6_VERSION,
} from '../../../firmware/wire/ipv6.ts'
import {
  PAETH_BATCH_COUNT,
  PAETH_BATCH_DURABLE,
  PAETH_BATCH_ID,
  PAETH_BITMAP_WORDS,
  PAETH_COPIES,
  PAETH_FIRST_PSN,
  PAETH_FLAGS,
  PAETH_INCARNATION,
  PAETH_LAST_PSN,
  PAETH_MECHANISM,
  PAETH_OPERATION_HIGH,
  PAETH_OPERATION_LOW,
  PAETH_RECORDS,
  PAETH_STATUS,
  PAETH_VERSION,
  type Paeth,
} from '../../../firmware/wire/persist-ack.ts'
import {
  UDP_CHECKSUM,
  UDP_DESTINATION_PORT,
  UDP_LENGTH,
  UDP_SOURCE_PORT,
  type Udp,
} from '../../../firmware/wire/udp.ts'

/** The fields of an Ethernet header; an address is one exact 48-bit number. */
interface Ethernet {
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

/** Reads 20 bytes at `at`; the caller has checked that they are there, and the version. */
export function readIpv4(into: Ipv4, bytes: Uint8Array, at: number): void {
  into.trafficClass = bytes[at + IPV4_TRAFFIC_CLASS]!
  into.totalLength = u16(bytes, at + IPV4_TOTAL_LENGTH)
  into.identification = u16(bytes, at + IPV4_IDENTIFICATION)
  into.fragment = u16(bytes, at + IPV4_FRAGMENT)
  into.timeToLive = bytes[at + IPV4_TIME_TO_LIVE]!
  into.protocol = bytes[at + IPV4_PROTOCOL]!
  into.source = u32(bytes, at + IPV4_SOURCE)
  into.destination = u32(bytes, at + IPV4_DESTINATION)
}

/** The fields of an IPv6 header; the addresses are the record's own 16 bytes each. */
interface Ipv6 {
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

/** Reads 8 bytes at `at`; the caller has checked that they are there. */
export function readUdp(into: Udp, bytes: Uint8Array, at: number): void {
  into.sourcePort = u16(bytes, at + UDP_SOURCE_PORT)
  into.destinationPort = u16(bytes, at + UDP_DESTINATION_PORT)
  into.length = u16(bytes, at + UDP_LENGTH)
  into.checksum = u16(bytes, at + UDP_CHECKSUM)
}

/** Reads 12 bytes at `at`; the caller has checked that they are there. */
export function readBth(into: Bth, bytes: Uint8Array, at: number): void {
  const flags = bytes[at + BTH_FLAGS]!
  into.opcode = bytes[at + BTH_OPCODE]!
  into.solicited = flags >= 0x80
  into.padBytes = (flags >> 4) & 3
  into.version = flags & 15
  into.pkey = u16(bytes, at + BTH_PKEY)
  into.destQp = u24(bytes, at + BTH_DEST_QP)
  into.ackRequest = bytes[at + BTH_ACK_REQUEST]! >= 0x80
  into.psn = u24(bytes, at + BTH_PSN)
}

/** Writes 8 bytes at `at`. */
export function writeAtomicAck(bytes: Uint8Array, at: number, from: AtomicAck): void {
  putU32(bytes, at + ATOMIC_ACK_ORIGINAL_HIGH, from.originalHigh)
  putU32(bytes, at + ATOMIC_ACK_ORIGINAL_LOW, from.originalLow)
}

/** Flags of a PAETH. */
const FLAGS_OF_PAETH = { all: 0x80, cumulative: 0x40, batch: 0x20, query: 0x10, degraded: 0x08 }

/** Writes 32 bytes at `at`; reserved bits are 0. */
export function writePaeth(bytes: Uint8Array, at: number, from: Paeth): void {
  bytes[at + PAETH_VERSION] = (from.version << 4) | from.words
  bytes[at + PAETH_FLAGS] =
    (from.all ? FLAGS_OF_PAETH.all : 0) |
    (from.cumulative ? FLAGS_OF_PAETH.cumulative : 0) |
    (from.batch ? FLAGS_OF_PAETH.batch : 0) |
    (from.query ? FLAGS_OF_PAETH.query : 0) |
    (from.degraded ? FLAGS_OF_PAETH.degraded : 0)
  bytes[at + PAETH_STATUS] = from.status
  bytes[at + PAETH_BITMAP_WORDS] = from.bitmapWords
  bytes[at + PAETH_FIRST_PSN] = 0
  putU24(bytes, at + PAETH_FIRST_PSN + 1, from.firstPsn)
  bytes[at + PAETH_LAST_PSN] = 0
  putU24(bytes, at + PAETH_LAST_PSN + 1, from.lastPsn)
  putU16(bytes, at + PAETH_BATCH_ID, from.batchId)
  bytes[at + PAETH_BATCH_DURABLE] = from.batchDurable
  bytes[at + PAETH_BATCH_COUNT] = from.batchCount - 1
  putU32(bytes, at + PAETH_OPERATION_HIGH, from.operationHigh)
  putU32(bytes, at + PAETH_OPERATION_LOW, from.operationLow)
  putU32(bytes, at + PAETH_INCARNATION, from.incarnation)
  bytes[at + PAETH_COPIES] = from.copies
  bytes[at + PAETH_MECHANISM] = from.mechanism
  putU16(bytes, at + PAETH_RECORDS, from.records)
}

/** Reads 24 bytes at `at`; the caller has checked that they are there. */
export function readAnnouncement(bytes: Uint8Array, at: number): Announcement {
  return {
    addressHigh: u32(bytes, at),
    addressLow: u32(bytes, at + 4),
    lengthHigh: u32(bytes, at + 8),
    lengthLow: u32(bytes, at + 12),
    rkey: u32(bytes, at + 16),
    rights: u32(bytes, at + 20),
  }
}
