/**
 * The driver's responder: takes the SENDs of the peer, and what it says of its memory (source 5),
 * and refuses everything else.
 *
 * Invariant: PSNs are taken in order, each once; a repetition is acknowledged and never
 * delivered again, and one that asked for a block size gets the same answer again; a gap is
 * reported once until there is progress; an acknowledgement never has a PSN that was not taken;
 * after a fatal NAK there is silence (wire-format 3.3 to 3.6). A host that offers no memory has no
 * READ, WRITE or atomic to serve.
 */

import { PASS } from '../../firmware/board/fault.ts'
import { isBlockSize } from '../../firmware/residency/wish.ts'
import { psnAdd, psnBehind } from '../../firmware/transport/psn.ts'
import {
  AETH_BYTES,
  KIND_RNR,
  NAK_INVALID,
  NAK_SEQUENCE,
  SYNDROME_ACK,
  writeAeth,
} from '../../firmware/wire/aeth.ts'
import {
  BSETH_BYTES,
  type Bseth,
  blankBseth,
  readBseth,
  writeBseth,
} from '../../firmware/wire/block-size.ts'
import { BTH_BYTES } from '../../firmware/wire/bth.ts'
import { u32 } from '../../firmware/wire/bytes.ts'
import { blankMseth, type Mseth, readMseth } from '../../firmware/wire/memory-status.ts'
import {
  BLOCK_SIZE,
  BLOCK_SIZE_ANSWER,
  has,
  MEMORY_STATUS,
  type OpcodeRow,
  RC_ACKNOWLEDGE,
  SEND,
} from '../../firmware/wire/opcode.ts'
import { type Packet, payloadFault } from '../../firmware/wire/packet.ts'
import { RETH_RKEY } from '../../firmware/wire/reth.ts'
import { copyOf } from '../base/bytes.ts'
import type { Notices, Receives } from '../way/inbox.ts'
import { beginFrame, FRAME_BTH_AT, seal } from './frames.ts'
import type { Flow } from './request-frames.ts'
import type { Session } from './session.ts'

/** Asks the peer to wait 0.64 ms: RNR timer code 12 (wire-format 1.4). */
const RNR_TIMER_CODE = 12

/** Answers about block sizes that are remembered: the peer asks once per region at a time. */
const ANSWERS_KEPT = 64

const NO_PAYLOAD = new Uint8Array(0)

export class Receiver {
  private readonly session: Session
  private readonly flow: Flow
  private readonly inbox: Receives
  private readonly notices: Notices | null
  private readonly firstPsn: number
  private expectedPsn: number
  private messageSequence = 0
  private gapReported = false
  private failed = false
  /** The message in progress, or null. */
  private pieces: Uint8Array[] | null = null
  private bytes = 0
  private readonly mseth: Mseth = blankMseth()
  private readonly bseth: Bseth = blankBseth()
  /** The answers of late, by PSN, the oldest first. */
  private readonly answers: Map<number, Bseth> = new Map()

  constructor(
    session: Session,
    flow: Flow,
    firstPsn: number,
    inbox: Receives,
    notices: Notices | null = null,
  ) {
    this.session = session
    this.flow = flow
    this.firstPsn = firstPsn
    this.expectedPsn = firstPsn
    this.inbox = inbox
    this.notices = notices
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
    if (row.msethAt > 0) this.hear(frame, packet, row)
    else if (row.bsethAt > 0) this.agree(frame, packet, row)
    else this.takeSend(frame, packet, row)
  }

  /** The connection is over; half a message is given up. */
  close(): void {
    this.failed = true
    if (this.pieces !== null) this.inbox.release()
    this.pieces = null
  }

  private outOfOrder(psn: number): void {
    if (psnBehind(psn, this.expectedPsn)) {
      const again = this.answers.get(psn)
      if (again !== undefined) this.answerSize(psn, again)
      // Before anything was taken there is no PSN that could be acknowledged.
      else if (this.expectedPsn !== this.firstPsn) {
        this.answer(psnAdd(this.expectedPsn, -1), SYNDROME_ACK)
      }
    } else if (!this.gapReported) {
      this.gapReported = true
      this.answer(this.expectedPsn, NAK_SEQUENCE)
    }
  }

  /** In order, of an operation that we serve, and of a length that the packet may have. */
  private isServed(row: OpcodeRow, packet: Packet): boolean {
    const { opcode, payloadLength, padBytes } = packet
    const isStatus = opcode === MEMORY_STATUS || opcode === BLOCK_SIZE
    if (isStatus ? this.notices === null : !has(row.properties, SEND)) return false
    if (row.begins !== (this.pieces === null)) return false
    return payloadFault(row, payloadLength, padBytes, this.flow.pathMtu) === PASS
  }

  // ---- memory status ---------------------------------------------------------------------------

  private hear(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    const { psn, payloadAt, payloadLength } = packet
    readMseth(this.mseth, frame, packet.bthAt + row.msethAt)
    if (!this.notices!.notice(this.mseth, frame, payloadAt, payloadLength)) {
      this.fail(psn, false)
      return
    }
    this.taken()
    if (packet.ackRequest) this.answer(psn, SYNDROME_ACK)
  }

  private agree(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    const { psn, bthAt } = packet
    readBseth(this.bseth, frame, bthAt + row.bsethAt)
    if (!isBlockSize(this.bseth)) {
      this.fail(psn, false)
      return
    }
    const answer = this.notices!.proposal(u32(frame, bthAt + row.rethAt + RETH_RKEY), this.bseth)
    this.taken()
    this.answers.set(psn, answer)
    if (this.answers.size > ANSWERS_KEPT) this.answers.delete([...this.answers.keys()][0]!)
    this.answerSize(psn, answer)
  }

  /** A whole message of one packet, or the last packet of one, was taken. */
  private taken(): void {
    this.expectedPsn = psnAdd(this.expectedPsn, 1)
    this.gapReported = false
    this.messageSequence = (this.messageSequence + 1) & 0xffffff
  }

  // ---- messages --------------------------------------------------------------------------------

  private takeSend(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    if (row.begins && row.ends && this.hearsHealth(frame, packet)) return
    const before = row.begins ? 0 : this.bytes
    if (before + packet.payloadLength > this.inbox.messageBytesMax) {
      this.fail(packet.psn, true)
      return
    }
    if (row.begins && !this.inbox.claim()) {
      this.answer(packet.psn, KIND_RNR | RNR_TIMER_CODE)
      return
    }
    this.append(frame, packet, row)
  }

  /** What tells of the part needs no entry: it is heard at once. */
  private hearsHealth(frame: Uint8Array, packet: Packet): boolean {
    const { psn, payloadAt, payloadLength } = packet
    if (this.notices?.health(frame, payloadAt, payloadLength) !== true) return false
    this.taken()
    if (packet.ackRequest) this.answer(psn, SYNDROME_ACK)
    return true
  }

  private append(frame: Uint8Array, packet: Packet, row: OpcodeRow): void {
    const { payloadAt, payloadLength } = packet
    if (row.begins) {
      this.pieces = []
      this.bytes = 0
    }
    this.pieces!.push(copyOf(frame.subarray(payloadAt, payloadAt + payloadLength)))
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

  // ---- answers ---------------------------------------------------------------------------------

  private answer(psn: number, syndrome: number): void {
    const frame = this.begin(psn, RC_ACKNOWLEDGE, AETH_BYTES)
    writeAeth(frame, FRAME_BTH_AT + BTH_BYTES, { syndrome, msn: this.messageSequence })
    this.session.send(seal(frame, false, this.flow.tags))
  }

  private answerSize(psn: number, size: Bseth): void {
    const frame = this.begin(psn, BLOCK_SIZE_ANSWER, AETH_BYTES + BSETH_BYTES)
    const at = FRAME_BTH_AT + BTH_BYTES
    writeAeth(frame, at, { syndrome: SYNDROME_ACK, msn: this.messageSequence })
    writeBseth(frame, at + AETH_BYTES, size)
    this.session.send(seal(frame, false, this.flow.tags))
  }

  private begin(psn: number, opcode: number, headerBytes: number): Uint8Array {
    const { own, peer, number, destQp } = this.flow
    return beginFrame(own, peer, {
      ...{ opcode, destQp, psn, headerBytes },
      ackRequest: false,
      flow: number,
      tagged: this.flow.tags !== null,
      payload: NO_PAYLOAD,
      payloadAt: 0,
      payloadLength: 0,
    })
  }
}
