/**
 * Frames towards a station that has sent us nothing: its addresses come from our own host; and
 * datagrams from QP 1 to QP 1 (wire-format 1.6).
 *
 * Invariant: the template is as if the queue pair answered a packet of that station, so
 * there is one way in which headers are made (transport/acknowledge.ts).
 */

import { beginFrame, endFrame, prepareTemplate, takeFrame } from '../transport/acknowledge.ts'
import type { FrameContext, TransportState } from '../transport/context.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { BTH_BYTES, BTH_DEST_QP } from '../wire/bth.ts'
import { putU24 } from '../wire/bytes.ts'
import { DETH_BYTES, Q_KEY_GSI, writeDeth } from '../wire/deth.ts'
import { ETH_DESTINATION, ETH_SOURCE, ETHERNET_BYTES, MAC_BYTES } from '../wire/ethernet.ts'
import { IPV4_BYTES, IPV4_DESTINATION, IPV4_SOURCE } from '../wire/ipv4.ts'
import { MANAGEMENT_QP } from '../wire/management.ts'
import { UD_SEND_ONLY } from '../wire/opcode.ts'
import { blankPacket } from '../wire/packet.ts'

/** Prepares the headers to the station whose addresses lie at `macAt` and `ipv4At`. */
export function prepareTowards(
  state: FrameContext,
  qp: QueuePair,
  macAt: number,
  ipv4At: number,
): void {
  const { bytes, facts } = state
  const packet = blankPacket()
  const at = takeFrame(state.answers)
  packet.frameAt = at
  packet.ipAt = at + ETHERNET_BYTES
  bytes.fill(0, packet.ipAt, packet.ipAt + IPV4_BYTES)
  bytes.copyWithin(at + ETH_SOURCE, macAt, macAt + MAC_BYTES)
  bytes.set(facts.mac, at + ETH_DESTINATION)
  bytes.copyWithin(packet.ipAt + IPV4_SOURCE, ipv4At, ipv4At + 4)
  bytes.set(facts.ipv4, packet.ipAt + IPV4_DESTINATION)
  prepareTemplate(qp, bytes, packet)
}

/**
 * Begins a datagram from QP 1 to QP 1 of the station of the queue pair's template. Returns where
 * its `length` bytes go; `endDatagram` sends it.
 */
export function beginDatagram(state: FrameContext, qp: QueuePair, length: number): number {
  const { answers, bytes, connections } = state
  const end = beginFrame(answers, qp, UD_SEND_ONLY, connections.psn, DETH_BYTES + length, 0)
  connections.psn = (connections.psn + 1) & 0xffffff
  putU24(bytes, end - BTH_BYTES + BTH_DEST_QP, MANAGEMENT_QP)
  writeDeth(bytes, end, { qkey: Q_KEY_GSI, sourceQp: MANAGEMENT_QP })
  return end + DETH_BYTES
}

export function endDatagram(
  state: TransportState,
  qp: QueuePair,
  at: number,
  length: number,
): void {
  endFrame(state.answers, qp, at - DETH_BYTES, DETH_BYTES + length)
}
