/**
 * One end of a wire: frames in and out, judged, counted and captured.
 *
 * Invariant: a frame that is not whole (form, ICRC), not for us or not from our peer is dropped and
 * counted, and reaches nobody; frames are handed on one at a time, also when handling one brings
 * the next.
 */

import { icrcGood } from '../../boards/software/icrc.ts'
import type { Tags } from '../../boards/software/tags.ts'
import { PASS } from '../../firmware/board/fault.ts'
import { BTH_BYTES } from '../../firmware/wire/bth.ts'
import { u32 } from '../../firmware/wire/bytes.ts'
import { CM_BODY, CM_REMOTE_ID, cmFault, isCm } from '../../firmware/wire/cm.ts'
import { blankDeth, DETH_BYTES, writeDeth } from '../../firmware/wire/deth.ts'
import { IPV4_DESTINATION, IPV4_SOURCE } from '../../firmware/wire/ipv4.ts'
import { MAD_BYTES, MANAGEMENT_QP } from '../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../firmware/wire/packet.ts'
import { TRAILER_BYTES } from '../../firmware/wire/tag.ts'
import { copyOf } from '../base/bytes.ts'
import type { Endpoint, Wire } from '../base/wire.ts'
import type { DatagramWay } from '../control/calls.ts'
import type { PcapWriter } from '../way/pcap.ts'
import { blankWireCounts, type WireCounts } from '../way/way.ts'
import { beginFrame, FRAME_BTH_AT, seal } from './frames.ts'

type PacketHandler = (bytes: Uint8Array, packet: Packet) => void

/** Who takes the packets of a queue pair of ours. */
interface PairPort {
  /** Tags of its packets; null: they have none. */
  readonly tags: Tags | null
  readonly take: PacketHandler
}

export class Session implements DatagramWay {
  readonly wire: Wire
  own: Endpoint
  readonly peer: Endpoint
  readonly counts: WireCounts = blankWireCounts()
  onDatagram: DatagramWay['onDatagram'] = null
  /** Takes messages of RDMA-CM, by our communication id. */
  readonly connections: Map<number, PacketHandler> = new Map()
  /** Takes packets of the reliable connection, by the number of our queue pair. */
  readonly queuePairs: Map<number, PairPort> = new Map()
  private readonly capture: PcapWriter | undefined
  private readonly packet: Packet = blankPacket()
  private readonly waiting: Uint8Array[] = []
  private busy = false
  private psn = 0
  private readonly address: number
  private readonly peerAddress: number

  constructor(wire: Wire, own: Endpoint, peer: Endpoint, capture?: PcapWriter) {
    this.wire = wire
    this.own = own
    this.peer = peer
    this.capture = capture
    this.address = u32(Uint8Array.from(own.ipv4), 0)
    this.peerAddress = u32(Uint8Array.from(peer.ipv4), 0)
    wire.onFrame((frame) => this.receive(frame))
  }

  now(): number {
    return this.wire.now()
  }

  setTimer(atUs: number, callback: () => void): () => void {
    return this.wire.setTimer(atUs, callback)
  }

  tried(): string {
    return this.wire.tried?.() ?? ''
  }

  sendDatagram(datagram: Uint8Array): void {
    this.psn = (this.psn + 1) & 0xffffff
    const frame = beginFrame(this.own, this.peer, {
      opcode: UD_SEND_ONLY,
      destQp: MANAGEMENT_QP,
      psn: this.psn,
      ackRequest: false,
      flow: MANAGEMENT_QP,
      headerBytes: DETH_BYTES,
      payload: datagram,
      payloadAt: 0,
      payloadLength: MAD_BYTES,
    })
    writeDeth(frame, FRAME_BTH_AT + BTH_BYTES, blankDeth())
    this.send(seal(frame))
  }

  close(): void {
    this.wire.close()
  }

  send(frame: Uint8Array): void {
    this.counts.framesSent++
    this.counts.bytesSent += frame.length
    this.capture?.add(this.wire.now(), frame)
    try {
      this.wire.send(frame)
    } catch {
      // A frame that a wire does not take is lost, as on any wire: it is sent again, or given up.
    }
  }

  /** Runs `work`; frames that come meanwhile wait until it is done. */
  exclusively(work: () => void): void {
    if (this.busy) {
      work()
      return
    }
    this.busy = true
    try {
      work()
      for (let frame = this.waiting.shift(); frame; frame = this.waiting.shift()) this.take(frame)
    } finally {
      this.busy = false
    }
  }

  private receive(frame: Uint8Array): void {
    this.counts.framesReceived++
    this.counts.bytesReceived += frame.length
    this.capture?.add(this.wire.now(), frame)
    if (this.busy) this.waiting.push(copyOf(frame))
    else this.exclusively(() => this.take(frame))
  }

  private take(frame: Uint8Array): void {
    const { packet } = this
    const whole = checkPacket(packet, frame, 0, frame.length) === PASS && this.forUs(frame)
    const isDatagram = packet.opcode === UD_SEND_ONLY
    const handler = !whole ? null : isDatagram ? this.takerOf(frame) : this.handlerOf(frame)
    if (handler !== null) handler(frame, packet)
    else this.counts.framesDropped++
  }

  /** Who takes the datagram: a connection in the making, or management. */
  private takerOf(frame: Uint8Array): PacketHandler | null {
    const { payloadAt, payloadLength } = this.packet
    if (!isCm(frame, payloadAt, payloadLength)) {
      return this.onDatagram === null ? null : this.takeDatagram
    }
    if (cmFault(frame, payloadAt, payloadLength) !== PASS) return null
    return this.connections.get(u32(frame, payloadAt + CM_BODY + CM_REMOTE_ID)) ?? null
  }

  private readonly takeDatagram: PacketHandler = (frame, { payloadAt, payloadLength }) => {
    this.onDatagram?.(frame, payloadAt, payloadLength)
  }

  /** Who takes the packet; null where there is none, and where it has not the tag that it needs. */
  private handlerOf(frame: Uint8Array): PacketHandler | null {
    const { packet } = this
    const port = this.queuePairs.get(packet.destQp)
    if (port === undefined) return null
    if (port.tags === null) return port.take
    if (!port.tags.take(frame, 0, frame.length)) return null
    packet.payloadLength -= TRAILER_BYTES
    return packet.payloadLength < 0 ? null : port.take
  }

  private forUs(frame: Uint8Array): boolean {
    const { packet } = this
    if (packet.ipVersion !== 4 || !icrcGood(frame, 0, frame.length)) return false
    if (u32(frame, packet.ipAt + IPV4_SOURCE) !== this.peerAddress) return false
    return u32(frame, packet.ipAt + IPV4_DESTINATION) === this.address
  }
}
