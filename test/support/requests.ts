/**
 * Requests that a card (card.ts) is asked, and its answers as lines that are easily compared.
 */

import { FAULTS } from '../../firmware/fault.ts'
import type { QueuePair } from '../../firmware/transport/queue-pair.ts'
import { putU16, putU32, u32 } from '../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../firmware/wire/deth.ts'
import * as mad from '../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_READ_RESPONSE_ONLY,
  RC_WRITE_FIRST,
  RC_WRITE_LAST,
  RC_WRITE_MIDDLE,
  RC_WRITE_ONLY,
  UD_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../firmware/wire/opcode.ts'
import type { Reth } from '../../firmware/wire/reth.ts'
import { Card, type Sent, type TestQueuePair, type TestRegion } from './card.ts'
import { frameOf } from './frames.ts'

/** Every path MTU of RoCEv2, bytes. */
export const PATH_MTUS: readonly number[] = [256, 512, 1024, 2048, 4096]

/** Answers of the transport. */
export const ACK = 0x1f
export const NAK_SEQUENCE = 0x60
export const NAK_INVALID = 0x61
export const NAK_ACCESS = 0x62
export const NAK_OPERATIONAL = 0x63

interface Packets {
  readonly first: number
  readonly middle: number
  readonly last: number
  readonly only: number
}

const WRITES: Packets = {
  first: RC_WRITE_FIRST,
  middle: RC_WRITE_MIDDLE,
  last: RC_WRITE_LAST,
  only: RC_WRITE_ONLY,
}

const PERSISTS: Packets = {
  first: WRITE_PERSIST_FIRST,
  middle: WRITE_PERSIST_MIDDLE,
  last: WRITE_PERSIST_LAST,
  only: WRITE_PERSIST_ONLY,
}

function opcodeOf(packets: Packets, index: number, count: number): number {
  if (count === 1) return packets.only
  if (index === 0) return packets.first
  return index === count - 1 ? packets.last : packets.middle
}

export interface WriteOptions {
  readonly vaHigh?: number
  readonly psn?: number
  /** Length that RETH announces, bytes; that of the data unless given. */
  readonly length?: number
  readonly ackRequest?: boolean
  readonly ipVersion?: 4 | 6
}

/** The frames of a plain WRITE; the queue pair's PSN moves on unless one is given. */
export function writeFrames(
  qp: TestQueuePair,
  rkey: number,
  vaLow: number,
  data: Uint8Array,
  options: WriteOptions = {},
): Uint8Array[] {
  const count = Math.max(1, Math.ceil(data.length / qp.mtu))
  const psn = options.psn ?? qp.psn
  if (options.psn === undefined) qp.psn = (psn + count) & 0xffffff
  return Array.from({ length: count }, (_, i) =>
    frameOf({
      ipVersion: options.ipVersion ?? 4,
      bth: {
        opcode: opcodeOf(WRITES, i, count),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: options.ackRequest ?? i === count - 1,
      },
      reth: {
        vaHigh: options.vaHigh ?? 0,
        vaLow,
        rkey,
        length: options.length ?? data.length,
      },
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

export interface CarriedOptions {
  readonly wait?: number
  readonly psn?: number
  readonly operation?: number
  /** Names every copy by its address and key; else by the slot alone. */
  readonly addressed?: boolean
  /** Key, slot and the rest of the second and further copies, where they shall be wrong. */
  readonly extensions?: readonly Partial<Reth>[]
  readonly slotView?: number
}

/** The frames of a WRITE_PERSIST that carries every copy (source 1, claim 5). */
export function carriedFrames(
  qp: TestQueuePair,
  region: TestRegion,
  slot: number,
  copies: readonly Uint8Array[],
  options: CarriedOptions = {},
): Uint8Array[] {
  const length = copies[0]!.length
  const payload = Uint8Array.from(copies.flatMap((copy) => [...copy]))
  const count = Math.max(1, Math.ceil(payload.length / qp.mtu))
  const psn = options.psn ?? qp.psn
  const operation = options.operation ?? qp.operation + 1
  if (options.psn === undefined) qp.psn = (psn + count) & 0xffffff
  if (options.operation === undefined) qp.operation = operation
  const addressed = options.addressed ?? false
  const { rkey } = region
  const extensions = copies.slice(1).map((_, c) => ({
    ...{ vaHigh: slot, vaLow: (3 + c) * 2 ** 28, rkey, length },
    ...options.extensions?.[c],
  }))
  return Array.from({ length: count }, (_, i) =>
    frameOf({
      bth: {
        opcode: opcodeOf(PERSISTS, i, count),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: i === count - 1,
      },
      reth: {
        vaHigh: slot,
        vaLow: addressed ? (options.slotView ?? 2) * 2 ** 28 : 0,
        rkey,
        length,
      },
      pweth: {
        wait: options.wait ?? 2,
        slotAddressed: !addressed,
        carried: true,
        furtherCopies: copies.length - 1,
        wantsAck: true,
        operationLow: operation,
      },
      extensions: addressed && i === 0 ? extensions : [],
      payload: payload.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

/** Opens a queue pair by a control call over IPv6. */
export function connectIpv6(card: Card, mtu = 4096): TestQueuePair {
  const payload = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(payload, 0, {
    ...mad.blankMad(),
    method: mad.METHOD_SET,
    attribute: mad.ATTRIBUTE_CONNECT,
    transactionLow: 0x60000,
  })
  const peer = 0x6666
  putU32(payload, mad.MAD_BODY + mad.CONNECT_CLIENT_QP, peer)
  putU16(payload, mad.MAD_BODY + mad.CONNECT_PATH_MTU, mtu)
  putU32(payload, mad.MAD_BODY + mad.CONNECT_CLIENT_ID_LOW, 6)
  const [answer] = card.serve(
    frameOf({
      ipVersion: 6,
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
      payload,
    }),
  )
  const body = answer!.payload.slice(mad.MAD_BODY)
  return {
    number: u32(body, mad.CONNECT_QP),
    peer,
    mtu,
    psn: u32(body, mad.CONNECT_FIRST_PSN),
    operation: 0,
  }
}

/** PSN as counted from `base`, a small number either way. */
function relative(psn: number, base: number): number {
  const distance = (psn - base) & 0xffffff
  return distance < 0x800000 ? distance : distance - 0x1000000
}

const STATUS_NAMES = new Map(
  FAULTS.filter((row) => row.answer === 'status').map((row) => [row.code, row.name]),
)

/** What a frame says, its PSNs counted from `base`. */
export function line(frame: Sent, base: number): string {
  const psn = relative(frame.psn, base)
  if (frame.opcode === PERSIST_ACK) {
    const { firstPsn, lastPsn, status, copies, records } = frame.paeth!
    const range = `${relative(firstPsn, base)}-${relative(lastPsn, base)}`
    const said = status === 0 ? `durable ${copies}` : STATUS_NAMES.get(status)
    return `PERSIST_ACK ${psn}: ${range} ${said} records ${records}`
  }
  if (frame.opcode === RC_ACKNOWLEDGE) {
    return frame.syndrome === ACK ? `ACK ${psn}` : `NAK 0x${frame.syndrome.toString(16)} ${psn}`
  }
  if (frame.opcode > RC_ACKNOWLEDGE) return `opcode 0x${frame.opcode.toString(16)}`
  const only = frame.opcode === RC_READ_RESPONSE_ONLY ? 'Only' : ''
  return `READ ${psn}${only === '' ? '' : ' only'}: ${frame.payload.length} B`
}

/** The answers as lines. */
export function lines(sent: readonly Sent[], base: number): string[] {
  return sent.map((frame) => line(frame, base))
}

/** A queue pair that the test knows, as the firmware's table of a dialogue holds it. */
export function asTestQueuePair(qp: QueuePair): TestQueuePair {
  return {
    number: qp.number,
    peer: qp.peerNumber,
    mtu: qp.pathMtu,
    psn: qp.expectedPsn,
    operation: 0,
  }
}

/** Everything that the part holds now. */
export function contentOf(card: Card): Uint8Array {
  return card.nvdimm.live.slice()
}

/** Where two contents of a part differ: the offset of the first byte, or -1. */
export function firstDifference(one: Uint8Array, other: Uint8Array): number {
  if (Buffer.compare(one, other) === 0) return -1
  return one.findIndex((byte, i) => byte !== other[i])
}

/** Byte offset in the part of copy `copy` of a slot; the region is the first of its part. */
export function slotOffset(region: TestRegion, copy: number, slot: number): number {
  const area = Math.ceil((region.slots * region.stride) / 4096) * 4096
  return 3 * 4096 + copy * area + slot * region.stride
}

/** A card with one region and a queue pair to it. */
export interface Setting {
  readonly card: Card
  readonly region: TestRegion
  readonly qp: TestQueuePair
}

/** Makes one; `shape` is the region's. */
export function setting(shape: Parameters<Card['provision']>[0] = {}, mtu = 4096): Setting {
  const card = new Card(1 << 19).format()
  const region = card.provision(shape)
  return { card, region, qp: card.connect(mtu) }
}
