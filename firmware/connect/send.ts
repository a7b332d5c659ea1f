/**
 * Sending messages of RDMA-CM: UD SEND Only from QP 1 to QP 1 (wire-format 1.6).
 *
 * Invariant: an answer goes to the address that asked, a message of ours to the peer of its
 * connection; 256 bytes, each of them written.
 */

import { beginDatagram, endDatagram } from '../burst/towards.ts'
import { prepareTemplate } from '../transport/acknowledge.ts'
import type { FrameContext } from '../transport/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { CM_BYTES } from '../wire/cm.ts'
import type { Packet } from '../wire/packet.ts'
import type { CmContext } from './context.ts'

/** Sends the message to who sent the packet. */
export function sendBack(state: CmContext, packet: Packet, message: Uint8Array): void {
  const { blankPair } = state.connections
  prepareTemplate(blankPair, state.bytes, packet)
  sendTo(state, blankPair, message)
}

/** Sends the message to the peer of the queue pair, to its QP 1. */
export function sendTo(state: FrameContext, qp: QueuePair, message: Uint8Array): void {
  const at = beginDatagram(state, qp, CM_BYTES)
  state.bytes.set(message, at)
  endDatagram(state, qp, at, CM_BYTES)
}
