/**
 * An RDMA target that is no DPU of ours: one queue pair of a plain responder over a byte array, as
 * a soft-RoCE host with persistent memory would be. It takes whole frames and answers with frames.
 *
 * A WRITE is visible at once and durable only by a persistent FLUSH; `cutPower` forgets the rest.
 * With `linux` it is as Linux is: FLUSH has an ICRC of its own, and a repeated one is not answered.
 */

import { icrcGood, icrcGoodLinuxFlush } from '../../../boards/software/icrc.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { packetsOf, psnAdd, psnBehind, psnDistance } from '../../../firmware/transport/psn.ts'
import { SYNDROME_ACK, writeAeth } from '../../../firmware/wire/aeth.ts'
import { blankAtomic, readAtomic } from '../../../firmware/wire/atomic.ts'
import { BTH_BYTES } from '../../../firmware/wire/bth.ts'
import { blankFeth, readFeth, SELECT_REGION } from '../../../firmware/wire/feth.ts'
import * as op from '../../../firmware/wire/opcode.ts'
import {
  blankPacket,
  checkPacket,
  type Packet,
  payloadFault,
} from '../../../firmware/wire/packet.ts'
import { blankReth, type Reth, readReth } from '../../../firmware/wire/reth.ts'
import type { Endpoint } from '../../../host-driver/base/wire.ts'
import { beginFrame, FRAME_BTH_AT, seal } from '../../../host-driver/frames/frames.ts'
import { writeAtomicAck } from '../wire/headers.ts'

interface TargetOptions {
  readonly own: Endpoint
  readonly peer: Endpoint
  readonly number: number
  readonly peerNumber: number
  readonly firstPsn: number
  readonly pathMtu: number
  readonly bytes: number
  readonly rkey: number
  readonly base: bigint
  readonly linux?: boolean
  transmit(frame: Uint8Array): void
}

/** An ordered request that was executed. */
interface Kept {
  readonly psn: number
  readonly psns: number
  readonly opcode: number
  readonly found: bigint
}

const NAK_SEQUENCE = 0x60
const NAK_INVALID = 0x61
const NAK_ACCESS = 0x62
const NAK_OPERATIONAL = 0x63
const NOTHING = new Uint8Array(0)

export class RdmaTarget {
  /** What is visible, and what survives a power cut. */
  readonly memory: Uint8Array
  readonly durable: Uint8Array
  /** Names of the operations that were executed, in order; a message counts at its last packet. */
  readonly executed: string[] = []
  /** Messages that were sent to it. */
  readonly messages: Uint8Array[] = []
  standardFlushes = 0
  linuxFlushes = 0
  /** Called before a packet is executed; true cuts the power. */
  cutBefore: (packet: Packet) => boolean = () => false
  /** Whether a FLUSH can be done; else it draws NAK 0x63. */
  mayFlush = true
  /** Which chunks of eight bytes reached the medium though nothing flushed them. */
  survives: (chunk: number) => boolean = () => false
  private readonly options: TargetOptions
  private readonly packet = blankPacket()
  private expected: number
  private messageSequence = 0
  private gapReported = false
  private dead = false
  private to = 0
  private pieces: Uint8Array[] = []
  private readonly kept: Kept[] = []

  constructor(options: TargetOptions) {
    this.options = options
    this.memory = new Uint8Array(options.bytes)
    this.durable = new Uint8Array(options.bytes)
    this.expected = options.firstPsn
  }

  /** What was not flushed is gone, except for what survives by chance; nothing is answered. */
  cutPower(): void {
    this.dead = true
    for (let at = 0; at < this.memory.length; at += 8) {
      if (this.survives(at >> 3)) this.durable.set(this.memory.subarray(at, at + 8), at)
    }
    this.memory.set(this.durable)
  }

  /** Starts over with what was durable in another. */
  restore(durable: Uint8Array): void {
    this.memory.set(durable)
    this.durable.set(durable)
  }

  take(frame: Uint8Array): void {
    const { packet } = this
    if (this.dead || checkPacket(packet, frame, 0, frame.length) !== PASS) return
    if (packet.destQp !== this.options.number || !this.icrcFits(frame)) return
    const { row, psn } = packet
    if (row === null) this.refuse(psn, NAK_INVALID)
    else if (psn === this.expected) this.fresh(frame, packet, row)
    else if (psnBehind(psn, this.expected)) this.again(frame, packet, row)
    else if (!this.gapReported) {
      this.gapReported = true
      this.acknowledge(this.expected, NAK_SEQUENCE)
    }
  }

  private icrcFits(frame: Uint8Array): boolean {
    const isFlush = this.packet.opcode === op.RC_FLUSH
    const standard = icrcGood(frame, 0, frame.length)
    const linux = icrcGoodLinuxFlush(frame, 0, frame.length)
    if (isFlush && standard) this.standardFlushes++
    if (isFlush && linux) this.linuxFlushes++
    return isFlush && this.options.linux === true ? linux : standard
  }

  // ---- requests in order -----------------------------------------------------------------------

  private fresh(frame: Uint8Array, packet: Packet, row: op.OpcodeRow): void {
    if (this.cutBefore(packet)) {
      this.cutPower()
      return
    }
    const { payloadLength, padBytes, psn, bthAt } = packet
    if (payloadFault(row, payloadLength, padBytes, this.options.pathMtu) !== PASS) {
      this.refuse(psn, NAK_INVALID)
      return
    }
    const reth = blankReth()
    if (row.rethAt > 0) readReth(reth, frame, bthAt + row.rethAt)
    this.gapReported = false
    const is = row.properties
    if (op.has(is, op.READ)) this.read(psn, reth)
    else if (op.has(is, op.ATOMIC)) this.atomic(frame, packet, row)
    else if (op.has(is, op.FLUSH)) this.flush(frame, packet, row, reth)
    else if (op.has(is, op.ATOMIC_WRITE)) this.atomicWrite(frame, packet, reth)
    else if (op.has(is, op.WRITE)) this.write(frame, packet, row, reth)
    else if (op.has(is, op.SEND)) this.send(frame, packet, row)
    else this.refuse(psn, NAK_INVALID)
  }

  /** Offset of the range, or -1. */
  private offsetOf(reth: Reth, length: number): number {
    const va = (BigInt(reth.vaHigh) << 32n) | BigInt(reth.vaLow)
    const offset = Number(va - this.options.base)
    const fits = offset >= 0 && offset + length <= this.memory.length
    return reth.rkey === this.options.rkey && fits ? offset : -1
  }

  private write(frame: Uint8Array, packet: Packet, row: op.OpcodeRow, reth: Reth): void {
    const { payloadAt, payloadLength, psn } = packet
    if (row.begins) this.to = reth.length === 0 ? 0 : this.offsetOf(reth, reth.length)
    if (this.to < 0) {
      this.refuse(psn, NAK_ACCESS)
      return
    }
    this.memory.set(frame.subarray(payloadAt, payloadAt + payloadLength), this.to)
    this.to += payloadLength
    this.finish(packet, row, row.immAt > 0 ? 'WRITE_IMM' : 'WRITE')
  }

  private send(frame: Uint8Array, packet: Packet, row: op.OpcodeRow): void {
    const { payloadAt, payloadLength } = packet
    if (row.begins) this.pieces = []
    this.pieces.push(frame.slice(payloadAt, payloadAt + payloadLength))
    if (row.ends) this.messages.push(new Uint8Array(Buffer.concat(this.pieces)))
    this.finish(packet, row, row.iethAt > 0 ? 'SEND_INV' : 'SEND')
  }

  private finish(packet: Packet, row: op.OpcodeRow, name: string): void {
    this.expected = psnAdd(this.expected, 1)
    if (row.ends) {
      this.messageSequence++
      this.executed.push(name)
    }
    if (packet.ackRequest) this.acknowledge(packet.psn, SYNDROME_ACK)
  }

  private read(psn: number, reth: Reth): void {
    const offset = reth.length === 0 ? 0 : this.offsetOf(reth, reth.length)
    if (offset < 0) {
      this.refuse(psn, NAK_ACCESS)
      return
    }
    const psns = packetsOf(reth.length, this.options.pathMtu)
    if (reth.length > 0) this.executed.push('READ')
    this.keep(psn, psns, op.RC_READ_REQUEST, 0n)
    this.readResponses(psn, offset, reth.length)
  }

  private flush(frame: Uint8Array, packet: Packet, row: op.OpcodeRow, reth: Reth): void {
    const feth = blankFeth()
    readFeth(feth, frame, packet.bthAt + row.fethAt)
    const all = feth.selectivity === SELECT_REGION
    const offset = all ? 0 : this.offsetOf(reth, reth.length)
    if (offset < 0 || !this.mayFlush) {
      this.refuse(packet.psn, offset < 0 ? NAK_ACCESS : NAK_OPERATIONAL)
      return
    }
    const length = all ? this.memory.length : reth.length
    if (feth.placement & 2) this.durable.set(this.memory.subarray(offset, offset + length), offset)
    this.executed.push('FLUSH')
    this.keep(packet.psn, 1, op.RC_FLUSH, 0n)
    this.respond(packet.psn, NOTHING, op.RC_READ_RESPONSE_ONLY)
  }

  private atomicWrite(frame: Uint8Array, packet: Packet, reth: Reth): void {
    const offset = this.offsetOf(reth, 8)
    if (offset < 0 || offset % 8 !== 0 || reth.length !== 8) {
      this.refuse(packet.psn, offset < 0 ? NAK_ACCESS : NAK_INVALID)
      return
    }
    this.memory.set(frame.subarray(packet.payloadAt, packet.payloadAt + 8), offset)
    this.executed.push('ATOMIC_WRITE')
    this.keep(packet.psn, 1, op.RC_ATOMIC_WRITE, 0n)
    this.respond(packet.psn, NOTHING, op.RC_READ_RESPONSE_ONLY)
  }

  private atomic(frame: Uint8Array, packet: Packet, row: op.OpcodeRow): void {
    const from = blankAtomic()
    readAtomic(from, frame, packet.bthAt + row.atomicAt)
    const offset = this.offsetOf({ ...from, length: 8 }, 8)
    if (offset < 0 || offset % 8 !== 0) {
      this.refuse(packet.psn, offset < 0 ? NAK_ACCESS : NAK_INVALID)
      return
    }
    const view = new DataView(this.memory.buffer)
    const found = view.getBigUint64(offset, true)
    const operand = (BigInt(from.swapHigh) << 32n) | BigInt(from.swapLow)
    const compare = (BigInt(from.compareHigh) << 32n) | BigInt(from.compareLow)
    if (packet.opcode === op.RC_FETCH_ADD) view.setBigUint64(offset, found + operand, true)
    else if (found === compare) view.setBigUint64(offset, operand, true)
    this.executed.push(packet.opcode === op.RC_FETCH_ADD ? 'FETCH_ADD' : 'COMPARE_SWAP')
    this.keep(packet.psn, 1, packet.opcode, found)
    this.atomicResponse(packet.psn, found)
  }

  private keep(psn: number, psns: number, opcode: number, found: bigint): void {
    this.expected = psnAdd(this.expected, psns)
    this.messageSequence++
    this.kept.push({ psn, psns, opcode, found })
  }

  // ---- repetitions -----------------------------------------------------------------------------

  private again(frame: Uint8Array, packet: Packet, row: op.OpcodeRow): void {
    const { psn, opcode } = packet
    const is = row.properties
    if (op.has(is, op.WRITE) || op.has(is, op.SEND)) {
      const behind = this.kept.filter((kept) => psnDistance(kept.psn, psn) < 0x800000)
      this.acknowledge(psnAdd(behind[0]?.psn ?? this.expected, -1), SYNDROME_ACK)
      return
    }
    const kept = this.kept.find((one) => psnDistance(psn, one.psn) < one.psns)
    if (kept === undefined || kept.opcode !== opcode) return
    if (op.has(is, op.READ)) {
      const reth = blankReth()
      readReth(reth, frame, packet.bthAt + row.rethAt)
      const offset = reth.length === 0 ? 0 : this.offsetOf(reth, reth.length)
      if (offset >= 0) this.readResponses(psn, offset, reth.length)
    } else if (op.has(is, op.ATOMIC)) {
      this.atomicResponse(psn, kept.found)
    } else if (opcode !== op.RC_FLUSH || this.options.linux !== true) {
      this.respond(psn, NOTHING, op.RC_READ_RESPONSE_ONLY)
    }
  }

  // ---- answers ---------------------------------------------------------------------------------

  private readResponses(psn: number, offset: number, length: number): void {
    const { pathMtu } = this.options
    const count = packetsOf(length, pathMtu)
    for (let i = 0; i < count; i++) {
      const from = offset + i * pathMtu
      const bytes = this.memory.slice(from, Math.min(from + pathMtu, offset + length))
      let opcode = op.RC_READ_RESPONSE_MIDDLE
      if (count === 1) opcode = op.RC_READ_RESPONSE_ONLY
      else if (i === 0) opcode = op.RC_READ_RESPONSE_FIRST
      else if (i === count - 1) opcode = op.RC_READ_RESPONSE_LAST
      this.respond(psnAdd(psn, i), bytes, opcode)
    }
  }

  private respond(psn: number, payload: Uint8Array, opcode: number): void {
    const frame = this.frameOf(opcode, psn, payload)
    const row = op.OPCODES[opcode]!
    const aeth = { syndrome: SYNDROME_ACK, msn: this.messageSequence }
    if (row.aethAt > 0) writeAeth(frame, FRAME_BTH_AT + row.aethAt, aeth)
    this.options.transmit(seal(frame))
  }

  private atomicResponse(psn: number, found: bigint): void {
    const frame = this.frameOf(op.RC_ATOMIC_ACK, psn, NOTHING)
    const row = op.OPCODES[op.RC_ATOMIC_ACK]!
    writeAeth(frame, FRAME_BTH_AT + row.aethAt, {
      syndrome: SYNDROME_ACK,
      msn: this.messageSequence,
    })
    writeAtomicAck(frame, FRAME_BTH_AT + row.atomicAckAt, {
      originalHigh: Number(found >> 32n),
      originalLow: Number(found & 0xffffffffn),
    })
    this.options.transmit(seal(frame))
  }

  private refuse(psn: number, syndrome: number): void {
    this.acknowledge(psn, syndrome)
    this.dead = true
  }

  private acknowledge(psn: number, syndrome: number): void {
    const frame = this.frameOf(op.RC_ACKNOWLEDGE, psn, NOTHING)
    writeAeth(frame, FRAME_BTH_AT + BTH_BYTES, { syndrome, msn: this.messageSequence })
    this.options.transmit(seal(frame))
  }

  private frameOf(opcode: number, psn: number, payload: Uint8Array): Uint8Array {
    const { own, peer, peerNumber, number } = this.options
    return beginFrame(own, peer, {
      opcode,
      destQp: peerNumber,
      psn,
      ackRequest: false,
      flow: number,
      headerBytes: op.OPCODES[opcode]!.headerBytes - BTH_BYTES,
      payload,
      payloadAt: 0,
      payloadLength: payload.length,
    })
  }
}
