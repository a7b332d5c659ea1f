/**
 * The invariant CRC (IBTA Vol 1, 7.8.1 and annex A17): its masks as data, and a plain reference to
 * hold every board's version against.
 *
 * Invariant: it covers everything from the first byte of IP to the last of the pad, and
 * lets routers change what they must. The fields that they may change count as all ones, and eight
 * bytes of ones in front stand for the local route header, which Ethernet does not have. It is the
 * CRC-32 of Ethernet: polynomial 0xedb88320 (reflected), ones at the start, complement at the end.
 */

import { BTH_BYTES, BTH_CONGESTION } from '../../../firmware/wire/bth.ts'
import { u16 } from '../../../firmware/wire/bytes.ts'
import {
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV6,
  ETHERTYPE_VLAN,
  VLAN_BYTES,
} from '../../../firmware/wire/ethernet.ts'
import { ICRC_BYTES } from '../../../firmware/wire/icrc.ts'
import {
  IPV4_BYTES,
  IPV4_CHECKSUM,
  IPV4_TIME_TO_LIVE,
  IPV4_TOTAL_LENGTH,
  IPV4_TRAFFIC_CLASS,
} from '../../../firmware/wire/ipv4.ts'
import {
  IPV6_BYTES,
  IPV6_HOP_LIMIT,
  IPV6_PAYLOAD_LENGTH,
  IPV6_VERSION,
} from '../../../firmware/wire/ipv6.ts'
import { UDP_BYTES, UDP_CHECKSUM } from '../../../firmware/wire/udp.ts'

/** Bytes of ones that stand for the local route header. */
export const ROUTE_HEADER_BYTES = 8

/** One byte that the ICRC sees otherwise: the bits `ones` count as set. */
interface IcrcMask {
  /** Offset from the first byte of IP. */
  readonly at: number
  readonly ones: number
}

/** Masks of IPv4, UDP and BTH: traffic class, TTL, both checksums, congestion bits. */
export const ICRC_MASKS_IPV4: readonly IcrcMask[] = [
  { at: IPV4_TRAFFIC_CLASS, ones: 0xff },
  { at: IPV4_TIME_TO_LIVE, ones: 0xff },
  { at: IPV4_CHECKSUM, ones: 0xff },
  { at: IPV4_CHECKSUM + 1, ones: 0xff },
  { at: IPV4_BYTES + UDP_CHECKSUM, ones: 0xff },
  { at: IPV4_BYTES + UDP_CHECKSUM + 1, ones: 0xff },
  { at: IPV4_BYTES + UDP_BYTES + BTH_CONGESTION, ones: 0xff },
]

/** Masks of IPv6, UDP and BTH: traffic class, flow label, hop limit, checksum, congestion bits. */
export const ICRC_MASKS_IPV6: readonly IcrcMask[] = [
  { at: IPV6_VERSION, ones: 0x0f },
  { at: IPV6_VERSION + 1, ones: 0xff },
  { at: IPV6_VERSION + 2, ones: 0xff },
  { at: IPV6_VERSION + 3, ones: 0xff },
  { at: IPV6_HOP_LIMIT, ones: 0xff },
  { at: IPV6_BYTES + UDP_CHECKSUM, ones: 0xff },
  { at: IPV6_BYTES + UDP_CHECKSUM + 1, ones: 0xff },
  { at: IPV6_BYTES + UDP_BYTES + BTH_CONGESTION, ones: 0xff },
]

/** Bytes from IP to the end of BTH: behind them nothing is masked. */
export const ICRC_MASKED_BYTES_IPV4: number = IPV4_BYTES + UDP_BYTES + BTH_BYTES
export const ICRC_MASKED_BYTES_IPV6: number = IPV6_BYTES + UDP_BYTES + BTH_BYTES

const POLYNOMIAL = 0xedb88320

const TABLE = crcTable()

function crcTable(): Int32Array {
  const entries = new Int32Array(256)
  for (let i = 0; i < 256; i++) {
    let register = i
    for (let bit = 0; bit < 8; bit++) {
      register = (register & 1) === 0 ? register >>> 1 : (register >>> 1) ^ POLYNOMIAL
    }
    entries[i] = register
  }
  return entries
}

function step(register: number, byte: number): number {
  return (register >>> 8) ^ TABLE[(register ^ byte) & 0xff]!
}

/**
 * The ICRC that the frame of `length` bytes at `at` must have, as an unsigned number: its lowest
 * byte is the first on the wire. The frame is one that `checkPacket` passes; the lengths in IP say
 * where the ICRC stands, so padding behind it does not matter.
 */
export function icrcReference(bytes: Uint8Array, at: number, length: number): number {
  let ipAt = at + ETHERNET_BYTES
  if (u16(bytes, at + ETH_TYPE) === ETHERTYPE_VLAN) ipAt += VLAN_BYTES
  const isIpv6 = u16(bytes, ipAt - 2) === ETHERTYPE_IPV6
  const masks = isIpv6 ? ICRC_MASKS_IPV6 : ICRC_MASKS_IPV4
  const datagramLength = isIpv6
    ? IPV6_BYTES + u16(bytes, ipAt + IPV6_PAYLOAD_LENGTH)
    : u16(bytes, ipAt + IPV4_TOTAL_LENGTH)
  const end = Math.min(ipAt + datagramLength, at + length) - ICRC_BYTES
  let register = -1
  for (let i = 0; i < ROUTE_HEADER_BYTES; i++) register = step(register, 0xff)
  let next = 0
  for (let i = ipAt; i < end; i++) {
    let byte = bytes[i]!
    if (next < masks.length && i - ipAt === masks[next]!.at) {
      byte |= masks[next]!.ones
      next += 1
    }
    register = step(register, byte)
  }
  return ~register >>> 0
}
