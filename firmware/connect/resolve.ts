/**
 * Asking for the Ethernet address of a peer: an ARP request or a neighbour solicitation, repeated,
 * then given up.
 *
 * Invariant: an answer is believed only for an address that is being asked for, and only
 * once; what is learnt is used for the one connection that asked, and not kept.
 */

import { append } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { ICRC_NONE, TRANSMIT } from '../board/hal.ts'
import { takeFrame } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import * as arp from '../wire/arp.ts'
import { isAt, putU16 } from '../wire/bytes.ts'
import {
  ETH_DESTINATION,
  ETH_SOURCE,
  ETH_TYPE,
  ETHERNET_BYTES,
  ETHERTYPE_IPV6,
  MAC_BYTES,
} from '../wire/ethernet.ts'
import * as nd from '../wire/neighbour.ts'
import type { CmContext, ConnectState, Resolution } from './context.ts'

/** Nobody asks. */
export const RESOLUTION_FREE = 0
const RESOLUTION_ASKING = 1
export const RESOLUTION_KNOWN = 2
export const RESOLUTION_FAILED = 3

/** How often it is asked, and how long is waited for each answer (RFC 4861, 10: RetransTimer). */
const TRIES = 4
const WAIT_US = 1_000_000

/** The shortest frame of Ethernet without its check sequence, bytes (IEEE 802.3, 3.2.8). */
export const FRAME_BYTES_MIN = 60

export function blankResolution(): Resolution {
  return {
    phase: RESOLUTION_FREE,
    ipVersion: 4,
    address: [],
    mac: [0, 0, 0, 0, 0, 0],
    triesLeft: 0,
    timerUs: Infinity,
  }
}

export function putBytes(bytes: Uint8Array, at: number, from: ArrayLike<number>): void {
  for (let i = 0; i < from.length; i++) bytes[at + i] = from[i]!
}

/** Begins to ask for the address. */
export function resolve(
  state: CmContext,
  into: Resolution,
  ipVersion: number,
  address: readonly number[],
): void {
  into.phase = RESOLUTION_ASKING
  into.ipVersion = ipVersion
  into.address = address
  into.triesLeft = TRIES
  askNeighbour(state, into)
}

/** Asks again when it is time, or gives up. */
export function tickResolution(state: CmContext, resolution: Resolution): void {
  if (resolution.phase !== RESOLUTION_ASKING) return
  if (state.connections.nowUs < resolution.timerUs) return
  if (resolution.triesLeft > 0) askNeighbour(state, resolution)
  else resolution.phase = RESOLUTION_FAILED
}

function askNeighbour(state: CmContext, resolution: Resolution): void {
  resolution.triesLeft -= 1
  resolution.timerUs = state.connections.nowUs + WAIT_US
  if (resolution.ipVersion === 4) askArp(state, resolution.address)
  else askDiscovery(state, resolution.address)
}

function askArp(state: FrameContext, address: readonly number[]): void {
  const { bytes, facts, answers } = state
  const at = takeFrame(answers)
  const body = at + ETHERNET_BYTES
  bytes.fill(0, at, at + FRAME_BYTES_MIN)
  bytes.fill(0xff, at + ETH_DESTINATION, at + ETH_DESTINATION + MAC_BYTES)
  putBytes(bytes, at + ETH_SOURCE, facts.mac)
  putU16(bytes, at + ETH_TYPE, arp.ETHERTYPE_ARP)
  arp.writeArpHead(bytes, body, arp.ARP_REQUEST)
  putBytes(bytes, body + arp.ARP_SENDER_MAC, facts.mac)
  putBytes(bytes, body + arp.ARP_SENDER_IPV4, facts.ipv4)
  putBytes(bytes, body + arp.ARP_TARGET_IPV4, address)
  append(state.list, TRANSMIT, at, 0, FRAME_BYTES_MIN, ICRC_NONE)
}

/** Goes to the group of all addresses that end alike (RFC 4291, 2.7.1; RFC 2464, 7). */
function askDiscovery(state: FrameContext, address: readonly number[]): void {
  const { bytes, facts, answers } = state
  const at = takeFrame(answers)
  const ipAt = at + ETHERNET_BYTES
  const group = [0xff, ...address.slice(13)]
  putBytes(bytes, at + ETH_DESTINATION, [0x33, 0x33, ...group])
  putBytes(bytes, at + ETH_SOURCE, facts.mac)
  putU16(bytes, at + ETH_TYPE, ETHERTYPE_IPV6)
  nd.writeNeighbour(bytes, ipAt, {
    type: nd.SOLICITATION,
    flags: 0,
    option: nd.OPTION_SOURCE_ADDRESS,
  })
  putBytes(bytes, ipAt + nd.AT_SOURCE, facts.ipv6)
  putBytes(bytes, ipAt + nd.AT_DESTINATION, [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, ...group])
  putBytes(bytes, ipAt + nd.AT_TARGET, address)
  putBytes(bytes, ipAt + nd.AT_OPTION, facts.mac)
  nd.sealNeighbour(bytes, ipAt)
  append(state.list, TRANSMIT, at, 0, ETHERNET_BYTES + nd.NEIGHBOUR_PACKET_BYTES, ICRC_NONE)
}

/** Takes an answer: where the station with the address at `addressAt` is. Did anybody ask? */
export function learn(
  state: BoardState & ConnectState,
  ipVersion: number,
  addressAt: number,
  macAt: number,
): boolean {
  const { bytes, connections } = state
  let known = false
  for (let i = 0; i < connections.resolutions.length; i++) {
    const resolution = connections.resolutions[i]!
    if (resolution.phase !== RESOLUTION_ASKING || resolution.ipVersion !== ipVersion) continue
    if (!isAt(bytes, addressAt, resolution.address)) continue
    for (let j = 0; j < MAC_BYTES; j++) resolution.mac[j] = bytes[macAt + j]!
    resolution.phase = RESOLUTION_KNOWN
    // Who asked is woken by the next tick.
    connections.timerUs = connections.nowUs
    known = true
  }
  return known
}
