// hot path
/**
 * The responder's judgement of a request: the ordered checks of wire-format 3.3 and IBTA 9.7 that
 * need the connection but not the memory behind it.
 *
 * Invariant: the checks run in the order of the specification (an operation that is not
 * served has no order to be judged), so a packet with several faults is answered for the first;
 * steps 6 to 9 are asked only of the expected PSN; nothing here changes a queue pair: accepting a
 * packet is `advance`, and the caller's decision.
 */

import {
  DUPLICATE,
  type Fault,
  MESSAGE_ORDER,
  OPCODE,
  PASS,
  QP_ERROR_STATE,
  SEQUENCE,
  SEQUENCE_AGAIN,
  WRONG_PEER,
} from '../board/fault.ts'
import { ETHERNET_BYTES } from '../wire/ethernet.ts'
import { IPV4_SOURCE } from '../wire/ipv4.ts'
import { IPV6_DESTINATION, IPV6_SOURCE } from '../wire/ipv6.ts'
import { has, type OpcodeRow, PERSIST, REQUEST, SEND } from '../wire/opcode.ts'
import { type Packet, payloadFault } from '../wire/packet.ts'
import { psnAdd, psnBehind } from './psn.ts'
import {
  forgetOld,
  MESSAGE_NONE,
  MESSAGE_PERSIST,
  MESSAGE_RECORD,
  MESSAGE_SEND,
  MESSAGE_WRITE,
  type QueuePair,
  STATE_OPEN,
} from './queue-pair.ts'

/**
 * Step 2: is the packet from the connected peer, in a state that takes requests? Frames lie so that
 * the addresses in IP are whole words. Of other transports no packet comes so far.
 */
export function checkPeer(
  qp: QueuePair,
  packet: Packet,
  bytes: Uint8Array,
  words: Int32Array,
): Fault {
  if (packet.ipVersion !== qp.ipVersion) return WRONG_PEER
  if (packet.ipVersion === 4) {
    if (words[(packet.ipAt + IPV4_SOURCE) >> 2] !== qp.peerIpv4) return WRONG_PEER
  } else {
    const from = packet.ipAt + IPV6_SOURCE
    const to = qp.templateAt + ETHERNET_BYTES + IPV6_DESTINATION
    for (let i = 0; i < 16; i++) if (bytes[from + i] !== bytes[to + i]) return WRONG_PEER
  }
  return qp.state === STATE_OPEN ? PASS : QP_ERROR_STATE
}

/** Step 5: where the PSN stands. DUPLICATE and SEQUENCE are answered, not only counted. */
export function checkSequence(qp: QueuePair, packet: Packet): Fault {
  if (packet.psn === qp.expectedPsn) return PASS
  if (psnBehind(packet.psn, qp.expectedPsn)) return DUPLICATE
  return qp.nakSent ? SEQUENCE_AGAIN : SEQUENCE
}

/** Step 6: First, Middle, Last and Only in order. */
function checkOrder(qp: QueuePair, row: OpcodeRow): Fault {
  const message = qp.message
  if (row.begins) return message === MESSAGE_NONE ? PASS : MESSAGE_ORDER
  const is = row.properties
  if (has(is, PERSIST)) return message === MESSAGE_PERSIST ? PASS : MESSAGE_ORDER
  if (has(is, SEND)) return message === MESSAGE_SEND ? PASS : MESSAGE_ORDER
  // Only a WRITE is left: every other request is one packet, which begins.
  return message === MESSAGE_WRITE || message === MESSAGE_RECORD ? PASS : MESSAGE_ORDER
}

/** Steps 6, 7 and 9, of a packet with the expected PSN. */
export function judgeRequest(qp: QueuePair, packet: Packet): Fault {
  const row = packet.row
  if (row === null || (row.properties & REQUEST) === 0) return OPCODE
  const fault = checkOrder(qp, row)
  if (fault !== PASS) return fault
  return payloadFault(row, packet.payloadLength, packet.padBytes, qp.pathMtu)
}

/** Accepts the packet: its PSNs are consumed, and a finished message is counted. */
export function advance(qp: QueuePair, packet: Packet, psns: number, finished: boolean): void {
  const next = psnAdd(qp.expectedPsn, psns)
  const quarters = (next ^ qp.expectedPsn) & 0xc00000
  qp.expectedPsn = next
  qp.used = true
  if (quarters !== 0) forgetOld(qp)
  qp.nakSent = false
  if (finished) qp.messageSequence = (qp.messageSequence + 1) & 0xffffff
  if (packet.ackRequest) qp.ackDue = true
}
