/** What a trace says of a frame: its fields, read as the firmware reads them. */

import { FAULTS, PASS } from '../../../firmware/board/fault.ts'
import { blankAeth, readAeth } from '../../../firmware/wire/aeth.ts'
import { has, PERSIST } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { blankPweth, readPweth } from '../../../firmware/wire/persist.ts'
import {
  BITMAP_WORDS_MAX,
  blankPaeth,
  isInBitmap,
  PAETH_BYTES,
  readBitmap,
  readPaeth,
} from '../../../firmware/wire/persist-ack.ts'
import { blankReth, readReth } from '../../../firmware/wire/reth.ts'
import type { DurableFields, FrameFields, PersistFields } from './events.ts'

export class FrameReader {
  private readonly packet: Packet = blankPacket()
  private readonly aeth = blankAeth()
  private readonly reth = blankReth()
  private readonly pweth = blankPweth()
  private readonly paeth = blankPaeth()
  private readonly bitmap: Uint32Array = new Uint32Array(BITMAP_WORDS_MAX)

  /** The fields of any frame, whatever is in it. */
  read(frame: Uint8Array): FrameFields {
    const { packet } = this
    const fault = checkPacket(packet, frame, 0, frame.length)
    if (fault !== PASS) return { name: FAULTS[fault]!.name }
    const { row, destQp: qp, psn, payloadLength, bthAt } = packet
    if (row === null) return { name: `opcode ${packet.opcode}`, qp, psn }
    const { begins, ends } = row
    const fields = { name: row.name, qp, psn, bytes: payloadLength }
    if (row.paethAt !== 0)
      return { ...fields, ...this.acknowledgement(frame), durable: this.durable(frame) }
    if (row.aethAt !== 0) return { ...fields, ...this.acknowledgement(frame) }
    if (!has(row.properties, PERSIST)) return { ...fields, begins, ends }
    if (row.pwethAt === 0) return { ...fields, begins, ends }
    return { ...fields, begins, ends, persist: this.persist(frame, bthAt) }
  }

  private acknowledgement(frame: Uint8Array): { readonly syndrome: number } {
    const { packet, aeth } = this
    readAeth(aeth, frame, packet.bthAt + packet.row!.aethAt)
    return { syndrome: aeth.syndrome }
  }

  private persist(frame: Uint8Array, bthAt: number): PersistFields {
    const { pweth, reth, packet } = this
    const row = packet.row!
    readReth(reth, frame, bthAt + row.rethAt)
    readPweth(pweth, frame, bthAt + row.pwethAt)
    const { batchId: id, batchIndex: index, batchCount: count } = pweth
    return {
      operation: decimal(pweth.operationHigh, pweth.operationLow),
      ...(pweth.slotAddressed ? { slot: reth.vaHigh } : {}),
      key: reth.rkey,
      wait: pweth.wait,
      ...(pweth.batch ? { batch: { id, index, count } } : {}),
    }
  }

  private durable(frame: Uint8Array): DurableFields {
    const { paeth, packet, bitmap } = this
    const at = packet.bthAt + packet.row!.paethAt
    readPaeth(paeth, frame, at)
    const { firstPsn, lastPsn, all, status, copies, batchId: id, batchCount: count } = paeth
    const words = Math.min(paeth.bitmapWords, packet.payloadLength >> 2, BITMAP_WORDS_MAX)
    readBitmap(bitmap, frame, at + PAETH_BYTES, words)
    const digits = Array.from({ length: count }, (_, i) => (all || isInBitmap(bitmap, i) ? 1 : 0))
    return {
      ...{ firstPsn, lastPsn, all, status, copies },
      operation: decimal(paeth.operationHigh, paeth.operationLow),
      ...(paeth.batch ? { batch: { id, count, durable: digits.join('') } } : {}),
    }
  }
}

/** Two unsigned halves as one decimal number. */
function decimal(high: number, low: number): string {
  return String((BigInt(high >>> 0) << 32n) | BigInt(low >>> 0))
}
