/**
 * Sending messages of RDMA-CM: UD SEND Only from QP 1 to QP 1 (wire-format 1.6).
 *
 * What always holds: an answer goes to the address that asked, a message of ours to the peer of its
 * connection; 256 bytes, each of them written.
 */

import type { State } from '../state.ts'
import { beginFrame, endFrame, prepareTemplate } from '../transport/acknowledge.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { BTH_BYTES, BTH_DEST_QP } from '../wire/bth.ts'
import { putU24 } from '../wire/bytes.ts'
import { CM_BYTES } from '../wire/cm.ts'
import { DETH_BYTES, Q_KEY_GSI, writeDeth } from '../wire/deth.ts'
import { MANAGEMENT_QP } from '../wire/management.ts'
import { UD_SEND_ONLY } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'

/** Sends the message to who sent the packet. */
export function sendBack(state: State, packet: Packet, message: Uint8Array): void {
  const { nobody } = state.connections
  prepareTemplate(nobody, state.bytes, packet)
  sendTo(state, nobody, message)
}

/** Sends the message to the peer of the queue pair, to its QP 1. */
export function sendTo(state: State, qp: QueuePair, message: Uint8Array): void {
  const { answers, bytes, connections } = state
  const behind = DETH_BYTES + CM_BYTES
  const end = beginFrame(answers, qp, UD_SEND_ONLY, connections.psn, behind, 0)
  connections.psn = (connections.psn + 1) & 0xffffff
  putU24(bytes, end - BTH_BYTES + BTH_DEST_QP, MANAGEMENT_QP)
  writeDeth(bytes, end, { qkey: Q_KEY_GSI, sourceQp: MANAGEMENT_QP })
  bytes.set(message, end + DETH_BYTES)
  endFrame(answers, qp, end, behind)
}
