/**
 * The checks of a REQ, and what it is refused for (wire-format 5.4, 5.5).
 *
 * Invariant: the checks run in one order, so a REQ with several faults is refused for the
 * first; nothing here changes anything.
 */

import type { BoardState } from '../board/context.ts'
import { type Fault, FORBIDDEN, PASS } from '../board/fault.ts'
import type { SessionState } from '../session/context.ts'
import { isTagOfPeer } from '../session/peers.ts'
import { depthsFault } from '../transport/depths.ts'
import {
  blankCapability,
  type Depths,
  readCapability,
  readClientDepths,
} from '../wire/capability.ts'
import * as cm from '../wire/cm.ts'
import { IPV4_DESTINATION, IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_ADDRESS_BYTES, IPV6_DESTINATION, IPV6_SOURCE } from '../wire/ipv6.ts'
import type { Packet } from '../wire/packet.ts'
import type { Call } from './call.ts'
import type { Service } from './context.ts'
import { isFromSources } from './sources.ts'

/** What a REQ was refused for, and what else its REJ says. */
export interface Refusal {
  readonly reason: number
  readonly information: number
  /** Goes into the first byte of the private data, for reason 28. */
  readonly code: Fault
}

/** A refusal with that reason. */
export function refusal(reason: number, information = -1, code: Fault = PASS): Refusal {
  return { reason, information, code }
}

/** The checks of a REQ, in order; null is accepted. */
export function judgeReq(call: Call, req: cm.CmReq, service: Service | null): Refusal | null {
  const { state, packet } = call
  if (req.transport !== cm.TRANSPORT_RC) return refusal(cm.REJECT_TRANSPORT)
  if (service === null) return refusal(cm.REJECT_SERVICE_ID)
  if (!isFromSources(state, packet, service.sources)) {
    return refusal(cm.REJECT_CONSUMER, -1, FORBIDDEN)
  }
  if (req.qpn < 2 || (req.pkey & 0x7fff) !== 0x7fff) return refusal(cm.REJECT_UNSUPPORTED)
  if (!isPeerGid(state, packet, req.localGid)) return refusal(cm.REJECT_GID)
  if (!isOwnGid(state, packet, req.remoteGid)) return refusal(cm.REJECT_GID)
  const mtu = cm.mtuOfCode(req.pathMtu)
  if (mtu === 0 || mtu > state.facts.pathMtu) {
    return refusal(cm.REJECT_MTU, cm.codeOfMtu(state.facts.pathMtu) << 4)
  }
  // A service is published on a part that serves, and its region stays: only commits may be over.
  const { closed } = state.commit
  let fault = closed === PASS ? reqDepthsFault(req) : closed
  if (fault === PASS) fault = reqClientFault(state, req)
  return fault === PASS ? null : refusal(cm.REJECT_CONSUMER, -1, fault)
}

/**
 * The id of a client is its word alone here: it is none of a peer, whose operations it could name
 * before the peer does (session/sessions.ts).
 */
function reqClientFault(state: SessionState, { privateData }: cm.CmReq): Fault {
  const block = blankCapability()
  if (!readCapability(block, privateData, cm.IP_CM_USER, cm.USER_BYTES_REQ)) return PASS
  return isTagOfPeer(state, block.clientHigh) ? FORBIDDEN : PASS
}

/** Who tells of a queue without a place is refused; who tells of none is not. */
function reqDepthsFault(req: cm.CmReq): Fault {
  const told = depthsOfReq(req)
  return told === null ? PASS : depthsFault(told)
}

/** What the capability block of a REQ tells, if there is one and it does. */
export function depthsOfReq({ privateData }: cm.CmReq): Depths | null {
  const at = cm.IP_CM_USER
  if (!readCapability(blankCapability(), privateData, at, cm.USER_BYTES_REQ)) return null
  return readClientDepths(privateData, at)
}

/** Is the GID the address at `at` of the packet: an IPv6 address, or a mapped IPv4 one? */
function isGidOf(state: BoardState, gid: Uint8Array, version: number, at: number): boolean {
  const { bytes } = state
  if (version !== 4) {
    for (let i = 0; i < IPV6_ADDRESS_BYTES; i++) if (gid[i] !== bytes[at + i]) return false
    return true
  }
  for (let i = 0; i < 10; i++) if (gid[i] !== 0) return false
  if (gid[10] !== 0xff || gid[11] !== 0xff) return false
  for (let i = 0; i < 4; i++) if (gid[12 + i] !== bytes[at + i]) return false
  return true
}

function isPeerGid(state: BoardState, packet: Packet, gid: Uint8Array): boolean {
  const at = packet.ipAt + (packet.ipVersion === 4 ? IPV4_SOURCE : IPV6_SOURCE)
  return isGidOf(state, gid, packet.ipVersion, at)
}

function isOwnGid(state: BoardState, packet: Packet, gid: Uint8Array): boolean {
  const at = packet.ipAt + (packet.ipVersion === 4 ? IPV4_DESTINATION : IPV6_DESTINATION)
  return isGidOf(state, gid, packet.ipVersion, at)
}
