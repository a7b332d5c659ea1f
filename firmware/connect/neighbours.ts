/**
 * Neighbour answers: who asks for the Ethernet address of our IPv4 or IPv6 address gets it.
 *
 * Invariant: nothing is answered that was not checked whole (wire/arp.ts,
 * wire/neighbour.ts) and is not for this port; an answer goes to the station that asked; a station
 * that claims our own address gets none. Answers carry no ICRC: they are not RoCEv2.
 *
 * Linux asks once by broadcast before its first connection message, and now and then by unicast
 * while it talks to us; without an answer it stops talking.
 */

import { append } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import {
  type Fault,
  GROUP_SOURCE,
  NEIGHBOUR_FORM,
  NOT_FOR_US,
  NOT_ROCE,
  PASS,
} from '../board/fault.ts'
import { ICRC_NONE, TRANSMIT } from '../board/hal.ts'
import { takeFrame } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import * as arp from '../wire/arp.ts'
import { isAt, putU16, u16 } from '../wire/bytes.ts'
import {
  ETH_DESTINATION,
  ETH_SOURCE,
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV6,
  MAC_BYTES,
} from '../wire/ethernet.ts'
import { IPV4_NO_STATION } from '../wire/ipv4.ts'
import {
  IPV6_ADDRESS_BYTES,
  IPV6_BYTES,
  IPV6_DESTINATION,
  IPV6_SOURCE,
  isNoStation,
} from '../wire/ipv6.ts'
import * as nd from '../wire/neighbour.ts'
import type { CmContext, ConnectState } from './context.ts'
import { FRAME_BYTES_MIN, learn, putBytes } from './resolve.ts'

/**
 * Takes a frame that is not RoCEv2. PASS where it was answered or learnt from; NOT_ROCE where it is
 * none of ours; NOT_FOR_US, NEIGHBOUR_FORM and GROUP_SOURCE are dropped. The Ethernet source was
 * looked at before (wire/packet.ts).
 */
export function receiveNeighbour(state: CmContext, at: number, length: number): Fault {
  const { bytes } = state
  const type = u16(bytes, at + ETH_TYPE)
  const end = at + length
  if (type === arp.ETHERTYPE_ARP) return receiveArp(state, at, end)
  const ipAt = at + ETHERNET_BYTES
  if (type !== ETHERTYPE_IPV6 || end - ipAt < IPV6_BYTES) return NOT_ROCE
  return nd.isNeighbour(bytes, ipAt, end) ? receiveDiscovery(state, at, end) : NOT_ROCE
}

const NOBODY = [0, 0, 0, 0]

function isBroadcast(bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < MAC_BYTES; i++) if (bytes[at + i] !== 0xff) return false
  return true
}

function receiveArp(state: CmContext, at: number, end: number): Fault {
  const { bytes, facts } = state
  const body = at + ETHERNET_BYTES
  const fault = arp.arpFault(bytes, body, end)
  if (fault !== PASS) return fault
  if (isNobodyAsking(bytes, body)) return GROUP_SOURCE
  if (!isAt(bytes, at, facts.mac) && !isBroadcast(bytes, at)) return NOT_FOR_US
  if (!isAt(bytes, body + arp.ARP_TARGET_IPV4, facts.ipv4)) return NOT_FOR_US
  if (isAt(bytes, body + arp.ARP_SENDER_IPV4, facts.ipv4)) return NOT_FOR_US
  if (u16(bytes, body + arp.ARP_OPERATION) === arp.ARP_REPLY) {
    const sender = body + arp.ARP_SENDER_IPV4
    return learn(state, 4, sender, body + arp.ARP_SENDER_MAC) ? PASS : NOT_FOR_US
  }
  answerArp(state, body)
  return PASS
}

/** Whether the sender has an IPv4 address of no station; 0.0.0.0 is a probe's (RFC 5227, 2.1). */
function isNobodyAsking(bytes: Uint8Array, body: number): boolean {
  const sender = body + arp.ARP_SENDER_IPV4
  return IPV4_NO_STATION[bytes[sender]!] !== 0 && !isAt(bytes, sender, NOBODY)
}

/** The reply to the request whose body lies at `from`. */
function answerArp(state: FrameContext, from: number): void {
  const { bytes, facts, answers } = state
  const at = takeFrame(answers)
  const body = at + ETHERNET_BYTES
  const sender = from + arp.ARP_SENDER_MAC
  bytes.fill(0, at, at + FRAME_BYTES_MIN)
  bytes.copyWithin(at + ETH_DESTINATION, sender, sender + MAC_BYTES)
  putBytes(bytes, at + ETH_SOURCE, facts.mac)
  putU16(bytes, at + ETH_TYPE, arp.ETHERTYPE_ARP)
  arp.writeArpHead(bytes, body, arp.ARP_REPLY)
  putBytes(bytes, body + arp.ARP_SENDER_MAC, facts.mac)
  putBytes(bytes, body + arp.ARP_SENDER_IPV4, facts.ipv4)
  // Ethernet and IPv4 address of who asked stand behind one another in both places.
  bytes.copyWithin(body + arp.ARP_TARGET_MAC, sender, sender + MAC_BYTES + 4)
  append(state.list, TRANSMIT, at, 0, FRAME_BYTES_MIN, ICRC_NONE)
}

/** Is it the group of those addresses that end like ours: ff02::1:ff00:0/104 (RFC 4291, 2.7.1)? */
function isSolicitedGroup(bytes: Uint8Array, at: number, ipv6: readonly number[]): boolean {
  if (bytes[at] !== 0xff || bytes[at + 1] !== 2) return false
  for (let i = 2; i < 11; i++) if (bytes[at + i] !== 0) return false
  return bytes[at + 11] === 1 && bytes[at + 12] === 0xff && isAt(bytes, at + 13, ipv6.slice(13))
}

/** Is it the Ethernet group of an IPv6 group that ends like ours (RFC 2464, 7)? */
function isSolicitedMac(bytes: Uint8Array, at: number, ipv6: readonly number[]): boolean {
  const head = bytes[at] === 0x33 && bytes[at + 1] === 0x33 && bytes[at + 2] === 0xff
  return head && isAt(bytes, at + 3, ipv6.slice(13))
}

function isUnspecified(bytes: Uint8Array, at: number): boolean {
  for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) if (bytes[at + i] !== 0) return false
  return true
}

function receiveDiscovery(state: CmContext, at: number, end: number): Fault {
  const { bytes, facts } = state
  const ipAt = at + ETHERNET_BYTES
  const fault = nd.neighbourFault(bytes, ipAt, end)
  if (fault !== PASS) return fault
  const body = ipAt + IPV6_BYTES
  const from = ipAt + IPV6_SOURCE
  const asks = bytes[body] === nd.SOLICITATION
  // Who is about to take an address has none yet, and asks for it (RFC 4862, 5.4.2).
  if (isNoStation(bytes, from) && !(asks && isUnspecified(bytes, from))) return GROUP_SOURCE
  const own = isAt(bytes, at, facts.mac)
  if (!own && !isSolicitedMac(bytes, at, facts.ipv6)) return NOT_FOR_US
  const to = ipAt + IPV6_DESTINATION
  const toGroup = isSolicitedGroup(bytes, to, facts.ipv6)
  if (!toGroup && !isAt(bytes, to, facts.ipv6)) return NOT_FOR_US
  if (!asks) return receiveAdvertisement(state, at)
  if (!isAt(bytes, body + nd.NEIGHBOUR_TARGET, facts.ipv6)) return NOT_FOR_US
  if (isAt(bytes, from, facts.ipv6)) return NOT_FOR_US
  const option = nd.optionAddress(bytes, ipAt, nd.OPTION_SOURCE_ADDRESS)
  if (isUnspecified(bytes, from)) {
    // Somebody is about to take our address (RFC 4862, 5.4.3): all nodes are told that it is ours.
    if (!toGroup || option >= 0) return NEIGHBOUR_FORM
    advertise(state, -1, -1, nd.FLAG_OVERRIDE)
    return PASS
  }
  const mac = option >= 0 ? option : at + ETH_SOURCE
  if ((bytes[mac]! & 1) !== 0) return NEIGHBOUR_FORM
  advertise(state, mac, from, nd.FLAG_SOLICITED | nd.FLAG_OVERRIDE)
  return PASS
}

/** Where a station is that we asked for; without the option it is where the frame came from. */
function receiveAdvertisement(state: BoardState & ConnectState, at: number): Fault {
  const ipAt = at + ETHERNET_BYTES
  const option = nd.optionAddress(state.bytes, ipAt, nd.OPTION_TARGET_ADDRESS)
  const mac = option >= 0 ? option : at + ETH_SOURCE
  if ((state.bytes[mac]! & 1) !== 0) return NEIGHBOUR_FORM
  return learn(state, 6, ipAt + nd.AT_TARGET, mac) ? PASS : NOT_FOR_US
}

const ALL_NODES_MAC = [0x33, 0x33, 0, 0, 0, 1]
const ALL_NODES = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]

/** Says where we are: to the station and address at those positions, or, where -1, to all. */
function advertise(state: FrameContext, macAt: number, ipFrom: number, flags: number): void {
  const { bytes, facts, answers } = state
  const at = takeFrame(answers)
  const ipAt = at + ETHERNET_BYTES
  if (macAt >= 0) bytes.copyWithin(at + ETH_DESTINATION, macAt, macAt + MAC_BYTES)
  else putBytes(bytes, at + ETH_DESTINATION, ALL_NODES_MAC)
  putBytes(bytes, at + ETH_SOURCE, facts.mac)
  putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6)
  nd.writeNeighbour(bytes, ipAt, {
    type: nd.ADVERTISEMENT,
    flags,
    option: nd.OPTION_TARGET_ADDRESS,
  })
  const destination = ipAt + nd.AT_DESTINATION
  putBytes(bytes, ipAt + nd.AT_SOURCE, facts.ipv6)
  if (ipFrom >= 0) bytes.copyWithin(destination, ipFrom, ipFrom + IPV6_ADDRESS_BYTES)
  else putBytes(bytes, destination, ALL_NODES)
  putBytes(bytes, ipAt + nd.AT_TARGET, facts.ipv6)
  putBytes(bytes, ipAt + nd.AT_OPTION, facts.mac)
  nd.sealNeighbour(bytes, ipAt)
  append(state.list, TRANSMIT, at, 0, ETHERNET_BYTES + nd.NEIGHBOUR_PACKET_BYTES, ICRC_NONE)
}
