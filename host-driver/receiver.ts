/**
 * The driver's responder: takes the SENDs of the peer, and refuses everything else.
 *
 * What always holds: PSNs are taken in order, each once; a repetition is acknowledged and never
 * delivered again; a gap is reported once until there is progress; an acknowledgement never
 * has a PSN that was not taken; after a fatal NAK there is silence (wire-format 3.3 to 3.6). A host
 * that offers no memory has no READ, WRITE or atomic to serve.
 */

import { PASS } from '../firmware/fault.ts'
import { psnAdd, psnBehind } from '../firmware/transport/psn.ts'
import {
  AETH_BYTES,
  KIND_RNR,
  NAK_INVALID,
  NAK_SEQUENCE,
  SYNDROME_ACK,
  writeAeth,
} from '../firmware/wire/aeth.ts'
import { BTH_BYTES } from '../firmware/wire/bth.ts'
import { u32 } from '../firmware/wire/bytes.ts'
import { has, type OpcodeRow, RC_ACKNOWLEDGE, SEND } from '../firmware/wire/opcode.ts'
import { type Packet, payloadFault } from '../firmware/wire/packet.ts'
import { beginFrame, FRAME_BTH_AT, seal } from './frames.ts'
import type { Receives } from './inbox.ts'
import type { Flow } from './request-frames.ts'
import type { Session } from './session.ts'

/** Asks the peer to wait 0.64 ms: RNR timer code 12 (wire-format 1.4). */
const RNR_TIMER_CODE = 12

const NO_PAYLOAD = new Uint8Array(0)

export class Receiver {
  private readonly session: Session
  private readonly flow: Flow
  private readonly inbox: Receives
  private readonly firstPsn: number
  private expectedPsn: number
  private messageSequence = 0
  private gapReported = false
  private failed = false
  /** The message in progress, or null. */
  private pieces: Uint8Array[] | null = null
  private bytes = 0

  constructor(session: Session, flow: Flow, firstPsn: number, inbox: Receives) {
    this.session = session
    this.flow = flow
    this.firstPsn = firstPsn
    this.expectedPsn = firstPsn
    this.inbox = inbox
  }

  /** Takes a checked packet that is a request to us. */
  take(frame: Uint8Array, packet: Packet): void {
    const { psn, row } = packet
    if (this.failed) return
    if (psn !== this.expectedPsn) {
      this.outOfOrder(psn)
      return
    }
    if (row === null || !this.isServed(row, packet)) {
      this.fail(psn, false)
      return
    }
    const before = row.begins ? 0 : this.bytes
    if (before + packet.payloadLength > this.inbox.messageBytesMax) {
      this.fail(psn, true)
      return
    }
    if (row.begins && !this.inbox.claim()) {
      this.answer(psn, KIND_RNR | RNR_TIMER_CODE)
      return
    }
    this.append(frame, packet, row)
  }

  /** The connection is over; half a message is given up. */
  close(): void {
    this.failed = true
    if (this.pieces !== null) this.inbox.release()
    this.pieces = null
  }

  private outOfOrder(psn: number): void {
    if (psnBehind(psn, this.expectedPsn)) {
      // Before anything was taken there is no PSN that could be acknowledged.
      if (this.expectedPsn === this.firstPsn) return
      this.answer(psnAdd(this.expectedPsn, -1), SYNDROME_ACK)
    } else if (!this.gapReported) {
      this.gapReported = true
      this.answer(this.expectedPsn, NAK_SEQUENCE)
    }
  }

  /** In order, of an operation that we serve, and of a length that the packet may have. */
  private isServed(row: OpcodeRow, packet: Packet): boolean {
    if (!has(row.properties, SEND) || row.begins !== (this.pieces === null)) return false
    const { payloadLength, padBytes } = packet
    return payloadFault(row, payloadLength, padBytes, this.flow.pathMtu) === PASS
  }

  private append(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    const { payloadAt, payloadLength } = packet
    if (row.begins) {
      this.pieces = []
      this.bytes = 0
    }
    this.pieces!.push(frame.slice(payloadAt, payloadAt + payloadLength))
    this.bytes += payloadLength
    this.expectedPsn = psnAdd(this.expectedPsn, 1)
    this.gapReported = false
    if (row.ends) this.messageSequence = (this.messageSequence + 1) & 0xffffff
    if (packet.ackRequest) this.answer(packet.psn, SYNDROME_ACK)
    if (row.ends) this.deliver(frame, packet, row)
  }

  private deliver(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    const pieces = this.pieces!
    this.pieces = null
    this.inbox.deliver({
      bytes: pieces.length === 1 ? pieces[0]! : new Uint8Array(Buffer.concat(pieces)),
      immediate: row.immAt > 0 ? u32(frame, packet.bthAt + row.immAt) : null,
      invalidate: row.iethAt > 0 ? u32(frame, packet.bthAt + row.iethAt) : null,
      solicited: packet.solicited,
    })
  }

  private fail(psn: number, tooLong: boolean): void {
    this.answer(psn, NAK_INVALID)
    this.close()
    this.inbox.refused(tooLong)
  }

  private answer(psn: number, syndrome: number): void {
    const { own, peer, number, destQp } = this.flow
    const frame = beginFrame(own, peer, {
      opcode: RC_ACKNOWLEDGE,
      destQp,
      psn,
      ackRequest: false,
      flow: number,
      headerBytes: AETH_BYTES,
      payload: NO_PAYLOAD,
      payloadAt: 0,
      payloadLength: 0,
    })
    writeAeth(frame, FRAME_BTH_AT + BTH_BYTES, { syndrome, msn: this.messageSequence })
    this.session.send(seal(frame))
  }
}
