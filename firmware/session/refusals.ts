/**
 * Whom the card has refused because nobody may do that who asked: how often, and who was the last.
 *
 * Invariant: an address is that of the packet, and so may be forged; nothing follows from it.
 */

import type { BoardState } from '../board/context.ts'
import {
  COOKIE,
  type Fault,
  FORBIDDEN,
  HANDSHAKE,
  NO_SESSION,
  NO_TAG,
  PASS,
  PEER_UNKNOWN,
  SEAL_BROKEN,
} from '../board/fault.ts'
import { putU32 } from '../wire/bytes.ts'
import { IPV6_ADDRESS_BYTES } from '../wire/ipv6.ts'
import * as mad from '../wire/management.ts'
import type { Packet } from '../wire/packet.ts'
import { readSource } from '../wire/source.ts'
import type { Refusals, SessionState } from './context.ts'

/** What only those are refused by who may not. */
const OF_STRANGERS: readonly Fault[] = [
  ...[NO_SESSION, SEAL_BROKEN, HANDSHAKE, PEER_UNKNOWN, FORBIDDEN, NO_TAG, COOKIE],
]

export function createRefusals(): Refusals {
  return { count: 0, fault: PASS, source: new Uint8Array(IPV6_ADDRESS_BYTES), atUs: 0 }
}

/** Notes that what that packet asked was refused; other faults are nobody's. */
export function noteRefusal(
  { sessions, bytes, connections }: BoardState & SessionState,
  fault: Fault,
  packet: Packet,
): void {
  if (!OF_STRANGERS.includes(fault)) return
  const { refusals } = sessions
  refusals.count += 1
  refusals.fault = fault
  refusals.atUs = connections.nowUs
  readSource(refusals.source, bytes, packet)
}

/** Writes them into the body of STATUS at `to`, which is zeros. */
export function describeRefusals(state: BoardState & SessionState, to: number): void {
  const { bytes, connections } = state
  const { count, fault, source, atUs } = state.sessions.refusals
  if (count === 0) return
  putU32(bytes, to + mad.PART_REFUSALS, count)
  bytes[to + mad.PART_REFUSED_FAULT] = fault
  bytes.set(source, to + mad.PART_REFUSED_SOURCE)
  putU32(bytes, to + mad.PART_REFUSED_SECONDS, (connections.nowUs - atUs) / 1_000_000)
}
