// hot path
/**
 * One packet, as far as it can be judged without knowing any connection.
 *
 * Invariants:
 * - This is the one place that compares lengths with headers. After PASS every header of the row,
 *   and every address extension, lies inside the frame and may be read without looking again.
 * - Nothing is trusted that was not compared: the frame may be any bytes of any length. Every frame
 *   gives a fault or PASS, none throws.
 * - The lengths in IP and UDP decide where the packet ends. What stands behind is Ethernet padding.
 * - After PASS the source addresses are those of one station: an answer goes to nobody else. Of a
 *   frame whose Ethernet source is a group nothing more is looked at, whatever it carries.
 *
 * The checksums of IP and UDP are not verified: the ICRC, which the board checked, covers every
 * field of them that is used here. The checks go from the outermost header inwards. They run once
 * for each packet, in QuickJS, so they are flat, read bytes themselves and allocate nothing.
 */

import {
  type Fault,
  FRAME_LONG,
  FRAME_SHORT,
  GROUP_SOURCE,
  IP_HEADER,
  IP_LENGTH,
  NOT_ROCE,
  PACKET_LENGTH,
  PARTITION,
  PASS,
  TRANSPORT_VERSION,
  WRONG_TRANSPORT,
} from '../board/fault.ts'
import { FRAME_BYTES_MAX } from '../board/limits.ts'
import {
  BTH_ACK_REQUEST,
  BTH_BYTES,
  BTH_DEST_QP,
  BTH_FLAGS,
  BTH_OPCODE,
  BTH_PKEY,
  BTH_PSN,
} from './bth.ts'
import {
  ETH_SOURCE,
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV4,
  ETHERTYPE_IPV6,
  ETHERTYPE_VLAN,
  VLAN_BYTES,
} from './ethernet.ts'
import { ICRC_BYTES } from './icrc.ts'
import {
  IPV4_BYTES,
  IPV4_FRAGMENT,
  IPV4_NO_STATION,
  IPV4_PROTOCOL,
  IPV4_SOURCE,
  IPV4_TOTAL_LENGTH,
  IPV4_VERSION,
  IPV4_VERSION_5_WORDS,
} from './ipv4.ts'
import {
  IPV6_BYTES,
  IPV6_GROUP,
  IPV6_NEXT_HEADER,
  IPV6_PAYLOAD_LENGTH,
  IPV6_SOURCE,
  IPV6_VERSION,
  isNoStation,
} from './ipv6.ts'
import {
  OPCODES,
  type OpcodeRow,
  PAYLOAD_ANY,
  PAYLOAD_EIGHT,
  PAYLOAD_FULL,
  PAYLOAD_SOME,
} from './opcode.ts'
import { extensionBytes } from './persist.ts'
import { PROTOCOL_UDP, ROCE_PORT, UDP_BYTES, UDP_DESTINATION_PORT, UDP_LENGTH } from './udp.ts'

/** What is known of a packet after PASS. Offsets are into the bytes that the frame came in. */
export interface Packet {
  frameAt: number
  /** Bytes from `frameAt` to the end of the ICRC, without padding of Ethernet. */
  frameLength: number
  /** 4 or 6. */
  ipVersion: number
  ipAt: number
  bthAt: number
  opcode: number
  /** The opcode's row; null for a reserved opcode of the reliable connection. */
  row: OpcodeRow | null
  destQp: number
  psn: number
  ackRequest: boolean
  solicited: boolean
  padBytes: number
  pkey: number
  /** Behind all headers and extensions. */
  payloadAt: number
  /** Bytes of payload, without pad. */
  payloadLength: number
}

export function blankPacket(): Packet {
  return {
    frameAt: 0,
    frameLength: 0,
    ipVersion: 4,
    ipAt: 0,
    bthAt: 0,
    opcode: 0,
    row: null,
    destQp: 0,
    psn: 0,
    ackRequest: false,
    solicited: false,
    padBytes: 0,
    pkey: 0,
    payloadAt: 0,
    payloadLength: 0,
  }
}

/** More fragments, and the offset: a fragment has one of these bits set. */
const FRAGMENT_BITS = 0x3fff

/** The bit of membership does not count: we are a full member of the default partition. */
const PKEY_BITS = 0x7fff

/** IPv6 extension headers (RFC 8200, 4): options, routing, fragment, authentication. */
const EXTENSION_HEADERS = [0, 43, 44, 51, 60]

/**
 * Checks the frame of `length` bytes at `at` and says what is in it. After a fault, `into` holds
 * what was read up to there and must not be used.
 */
export function checkPacket(into: Packet, bytes: Uint8Array, at: number, length: number): Fault {
  if (length < ETHERNET_BYTES + VLAN_BYTES) return FRAME_SHORT
  if (length > FRAME_BYTES_MAX) return FRAME_LONG
  if ((bytes[at + ETH_SOURCE]! & 1) !== 0) return GROUP_SOURCE
  let ipAt = at + ETHERNET_BYTES
  let type = (bytes[at + ETH_TYPE]! << 8) | bytes[at + ETH_TYPE + 1]!
  if (type === ETHERTYPE_VLAN) {
    ipAt += VLAN_BYTES
    type = (bytes[ipAt - 2]! << 8) | bytes[ipAt - 1]!
  }
  into.frameAt = at
  into.ipAt = ipAt
  const end = at + length
  let fault = NOT_ROCE
  if (type === ETHERTYPE_IPV4) fault = checkIpv4(into, bytes, ipAt, end)
  else if (type === ETHERTYPE_IPV6) fault = checkIpv6(into, bytes, ipAt, end)
  return fault === PASS ? checkTransport(into, bytes) : fault
}

function checkIpv4(into: Packet, bytes: Uint8Array, at: number, end: number): Fault {
  if (end - at < IPV4_BYTES) return FRAME_SHORT
  if (bytes[at + IPV4_PROTOCOL] !== PROTOCOL_UDP) return NOT_ROCE
  if (bytes[at + IPV4_VERSION] !== IPV4_VERSION_5_WORDS) return IP_HEADER
  const fragment = (bytes[at + IPV4_FRAGMENT]! << 8) | bytes[at + IPV4_FRAGMENT + 1]!
  if ((fragment & FRAGMENT_BITS) !== 0) return IP_HEADER
  const total = (bytes[at + IPV4_TOTAL_LENGTH]! << 8) | bytes[at + IPV4_TOTAL_LENGTH + 1]!
  into.ipVersion = 4
  const fault = checkUdp(into, bytes, at + IPV4_BYTES, end, total - IPV4_BYTES)
  if (fault !== PASS) return fault
  return IPV4_NO_STATION[bytes[at + IPV4_SOURCE]!] === 0 ? PASS : GROUP_SOURCE
}

function checkIpv6(into: Packet, bytes: Uint8Array, at: number, end: number): Fault {
  if (end - at < IPV6_BYTES) return FRAME_SHORT
  if (bytes[at + IPV6_VERSION]! >> 4 !== 6) return IP_HEADER
  const next = bytes[at + IPV6_NEXT_HEADER]!
  if (next !== PROTOCOL_UDP) return EXTENSION_HEADERS.includes(next) ? IP_HEADER : NOT_ROCE
  const payload = (bytes[at + IPV6_PAYLOAD_LENGTH]! << 8) | bytes[at + IPV6_PAYLOAD_LENGTH + 1]!
  into.ipVersion = 6
  const fault = checkUdp(into, bytes, at + IPV6_BYTES, end, payload)
  if (fault !== PASS) return fault
  const first = bytes[at + IPV6_SOURCE]!
  if (first !== 0 && first !== IPV6_GROUP) return PASS
  return isNoStation(bytes, at + IPV6_SOURCE) ? GROUP_SOURCE : PASS
}

/** `length` is what IP says of UDP and all behind it. */
function checkUdp(into: Packet, bytes: Uint8Array, at: number, end: number, length: number): Fault {
  if (end - at < UDP_BYTES) return FRAME_SHORT
  const port = (bytes[at + UDP_DESTINATION_PORT]! << 8) | bytes[at + UDP_DESTINATION_PORT + 1]!
  if (port !== ROCE_PORT) return NOT_ROCE
  const udpLength = (bytes[at + UDP_LENGTH]! << 8) | bytes[at + UDP_LENGTH + 1]!
  // From BTH to ICRC it is whole words, whatever the pad says: another length is not RoCEv2's.
  if (udpLength !== length || end - at < length || (length & 3) !== 0) return IP_LENGTH
  if (length < UDP_BYTES + BTH_BYTES + ICRC_BYTES) return FRAME_SHORT
  into.bthAt = at + UDP_BYTES
  into.frameLength = at + length - into.frameAt
  return PASS
}

function checkTransport(into: Packet, bytes: Uint8Array): Fault {
  const at = into.bthAt
  const flags = bytes[at + BTH_FLAGS]!
  if ((flags & 15) !== 0) return TRANSPORT_VERSION
  const pkey = (bytes[at + BTH_PKEY]! << 8) | bytes[at + BTH_PKEY + 1]!
  if ((pkey & PKEY_BITS) !== PKEY_BITS) return PARTITION
  const opcode = bytes[at + BTH_OPCODE]!
  const row = OPCODES[opcode]
  const end = into.frameAt + into.frameLength - ICRC_BYTES
  let payloadAt = at + BTH_BYTES
  if (row !== undefined) {
    payloadAt = at + row.headerBytes
    if (row.pwethAt !== 0 && payloadAt <= end) {
      payloadAt += extensionBytes(bytes, at + row.pwethAt)
    }
    into.row = row
  } else {
    // A reserved opcode of the reliable connection draws a NAK (invalid request), so it passes.
    if (opcode >> 5 !== 0) return WRONG_TRANSPORT
    into.row = null
  }
  const padBytes = (flags >> 4) & 3
  if (payloadAt + padBytes > end) return FRAME_SHORT
  into.opcode = opcode
  into.solicited = flags >= 0x80
  into.padBytes = padBytes
  into.pkey = pkey
  into.destQp =
    (bytes[at + BTH_DEST_QP]! << 16) |
    (bytes[at + BTH_DEST_QP + 1]! << 8) |
    bytes[at + BTH_DEST_QP + 2]!
  into.ackRequest = bytes[at + BTH_ACK_REQUEST]! >= 0x80
  into.psn =
    (bytes[at + BTH_PSN]! << 16) | (bytes[at + BTH_PSN + 1]! << 8) | bytes[at + BTH_PSN + 2]!
  into.payloadAt = payloadAt
  into.payloadLength = end - padBytes - payloadAt
  return PASS
}

/**
 * Whether a payload of that many bytes, with that pad, is what the opcode allows on a path of that
 * MTU: PASS or PACKET_LENGTH. It needs the connection, and comes late in the responder's order.
 */
export function payloadFault(
  row: OpcodeRow,
  payloadLength: number,
  padBytes: number,
  pathMtu: number,
): Fault {
  if (padBytes !== (-payloadLength & 3)) return PACKET_LENGTH
  let least = 0
  let most = 0
  if (row.payload === PAYLOAD_ANY) most = pathMtu
  else if (row.payload === PAYLOAD_FULL) least = most = pathMtu
  else if (row.payload === PAYLOAD_SOME) {
    least = 1
    most = pathMtu
  } else if (row.payload === PAYLOAD_EIGHT) least = most = 8
  return payloadLength < least || payloadLength > most ? PACKET_LENGTH : PASS
}
