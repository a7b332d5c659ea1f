/**
 * Requests that a card (test-card.ts) is asked, and its answers as lines that are easily compared.
 */

import { fillIcrc } from '../../../boards/software/icrc.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { DATA_AT } from '../../../firmware/medium/superblock.ts'
import type { QueuePair } from '../../../firmware/transport/queue-pair.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  CNP,
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_ATOMIC_ACK,
  RC_ATOMIC_WRITE,
  RC_COMPARE_SWAP,
  RC_FETCH_ADD,
  RC_FLUSH,
  RC_READ_RESPONSE_ONLY,
  RC_SEND_FIRST,
  RC_SEND_LAST,
  RC_SEND_LAST_IMM,
  RC_SEND_LAST_INV,
  RC_SEND_MIDDLE,
  RC_SEND_ONLY,
  RC_SEND_ONLY_IMM,
  RC_SEND_ONLY_INV,
  RC_WRITE_FIRST,
  RC_WRITE_LAST,
  RC_WRITE_LAST_IMM,
  RC_WRITE_MIDDLE,
  RC_WRITE_ONLY,
  RC_WRITE_ONLY_IMM,
  UD_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import type { Reth } from '../../../firmware/wire/reth.ts'
import {
  keyOf,
  type Place,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../cards/test-card.ts'
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

const WRITES_IMM: Packets = { ...WRITES, last: RC_WRITE_LAST_IMM, only: RC_WRITE_ONLY_IMM }

const SENDS: Packets = {
  first: RC_SEND_FIRST,
  middle: RC_SEND_MIDDLE,
  last: RC_SEND_LAST,
  only: RC_SEND_ONLY,
}

const SENDS_IMM: Packets = { ...SENDS, last: RC_SEND_LAST_IMM, only: RC_SEND_ONLY_IMM }
const SENDS_INV: Packets = { ...SENDS, last: RC_SEND_LAST_INV, only: RC_SEND_ONLY_INV }

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

interface WriteOptions {
  readonly vaHigh?: number
  readonly psn?: number
  /** Length that RETH announces, bytes; that of the data unless given. */
  readonly length?: number
  readonly ackRequest?: boolean
  readonly ipVersion?: 4 | 6
  /** Immediate data, if there shall be any. */
  readonly immediate?: number
  /** The receiver shall be woken: a confirmation is asked for. */
  readonly solicited?: boolean
}

/** The frames of a plain WRITE; the queue pair's PSN moves on unless one is given. */
export function writeFrames(
  qp: TestPeer,
  place: Place,
  vaLow: number,
  data: Uint8Array,
  options: WriteOptions = {},
): Uint8Array[] {
  const { rkey, baseHigh } = keyOf(place)
  const count = Math.max(1, Math.ceil(data.length / qp.mtu))
  const psn = options.psn ?? qp.psn
  if (options.psn === undefined) qp.psn = (psn + count) & 0xffffff
  return Array.from({ length: count }, (_, i) =>
    frameOf({
      ipVersion: options.ipVersion ?? 4,
      bth: {
        opcode: opcodeOf(options.immediate === undefined ? WRITES : WRITES_IMM, i, count),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: options.ackRequest ?? i === count - 1,
        solicited: (options.solicited ?? false) && i === count - 1,
      },
      imm: { immediate: options.immediate ?? 0 },
      reth: {
        vaHigh: baseHigh + (options.vaHigh ?? 0),
        vaLow,
        rkey,
        length: options.length ?? data.length,
      },
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

interface SendOptions {
  readonly psn?: number
  readonly immediate?: number
  /** The key to take back. */
  readonly invalidate?: number
  readonly solicited?: boolean
}

/** The frames of a SEND; the queue pair's PSN moves on unless one is given. */
export function sendFrames(
  qp: TestPeer,
  data: Uint8Array,
  options: SendOptions = {},
): Uint8Array[] {
  const { immediate, invalidate } = options
  const count = Math.max(1, Math.ceil(data.length / qp.mtu))
  const psn = nextPsn(qp, options.psn, count)
  const kind = invalidate !== undefined ? SENDS_INV : immediate !== undefined ? SENDS_IMM : SENDS
  return Array.from({ length: count }, (_, i) =>
    frameOf({
      bth: {
        opcode: opcodeOf(kind, i, count),
        destQp: qp.number,
        psn: (psn + i) & 0xffffff,
        ackRequest: i === count - 1,
        solicited: (options.solicited ?? false) && i === count - 1,
      },
      imm: { immediate: immediate ?? 0 },
      ieth: { rkey: invalidate ?? 0 },
      payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

/** The PSN that is given, or the next of the queue pair, which moves on. */
function nextPsn(qp: TestPeer, given: number | undefined, count: number): number {
  if (given !== undefined) return given
  const psn = qp.psn
  qp.psn = (psn + count) & 0xffffff
  return psn
}

interface OneOptions {
  readonly psn?: number
  readonly vaHigh?: number
  readonly ipVersion?: 4 | 6
}

/** Numbers of 64 bits as the two words that a header has. */
function halves(value: bigint): [number, number] {
  return [Number(BigInt.asUintN(64, value) >> 32n), Number(value & 0xffffffffn)]
}

function atomicFrame(
  opcode: number,
  qp: TestPeer,
  place: Place,
  vaLow: number,
  swap: bigint,
  compare: bigint,
  options: OneOptions,
): Uint8Array {
  const { rkey, baseHigh } = keyOf(place)
  const [swapHigh, swapLow] = halves(swap)
  const [compareHigh, compareLow] = halves(compare)
  return frameOf({
    ipVersion: options.ipVersion ?? 4,
    bth: { opcode, destQp: qp.number, psn: nextPsn(qp, options.psn, 1), ackRequest: true },
    atomic: {
      ...{ vaHigh: baseHigh + (options.vaHigh ?? 0), vaLow, rkey },
      ...{ swapHigh, swapLow, compareHigh, compareLow },
    },
  })
}

export function fetchAddFrame(
  qp: TestPeer,
  place: Place,
  vaLow: number,
  add: bigint,
  options: OneOptions = {},
): Uint8Array {
  return atomicFrame(RC_FETCH_ADD, qp, place, vaLow, add, 0n, options)
}

export function compareSwapFrame(
  qp: TestPeer,
  place: Place,
  vaLow: number,
  compare: bigint,
  swap: bigint,
  options: OneOptions = {},
): Uint8Array {
  return atomicFrame(RC_COMPARE_SWAP, qp, place, vaLow, swap, compare, options)
}

export function atomicWriteFrame(
  qp: TestPeer,
  place: Place,
  vaLow: number,
  data: Uint8Array,
  options: OneOptions & { readonly length?: number } = {},
): Uint8Array {
  const { rkey, baseHigh } = keyOf(place)
  return frameOf({
    ipVersion: options.ipVersion ?? 4,
    bth: {
      opcode: RC_ATOMIC_WRITE,
      destQp: qp.number,
      psn: nextPsn(qp, options.psn, 1),
      ackRequest: true,
    },
    reth: {
      ...{ vaHigh: baseHigh + (options.vaHigh ?? 0), vaLow, rkey },
      length: options.length ?? 8,
    },
    payload: data,
  })
}

interface FlushOptions extends OneOptions {
  /** Visible to all 1, persistent 2 (the default), both 3. */
  readonly placement?: number
  /** A range 0 (the default), the whole region 1. */
  readonly selectivity?: number
  readonly vaLow?: number
  readonly length?: number
  /** The ICRC that Linux puts on a FLUSH. */
  readonly linux?: boolean
}

export function flushFrame(qp: TestPeer, place: Place, options: FlushOptions = {}): Uint8Array {
  const { rkey, baseHigh } = keyOf(place)
  const { placement = 2, selectivity = 0, vaLow = 0, length = 8 } = options
  const frame = frameOf({
    ipVersion: options.ipVersion ?? 4,
    bth: {
      opcode: RC_FLUSH,
      destQp: qp.number,
      psn: nextPsn(qp, options.psn, 1),
      ackRequest: true,
    },
    feth: { placement, selectivity },
    reth: { vaHigh: baseHigh + (options.vaHigh ?? 0), vaLow, rkey, length },
  })
  if (options.linux === true) fillIcrc(frame, 0, frame.length, true)
  return frame
}

interface CarriedOptions {
  readonly wait?: number
  readonly psn?: number
  readonly operation?: number
  readonly guard?: number
  /** Names every copy by its address and key; else by the slot alone. */
  readonly addressed?: boolean
  /** Key, slot and the rest of the second and further copies, where they shall be wrong. */
  readonly extensions?: readonly Partial<Reth>[]
  readonly slotView?: number
}

/** The frames of a WRITE_PERSIST that carries every copy (source 1, claim 5). */
export function carriedFrames(
  qp: TestPeer,
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
        guarded: options.guard !== undefined,
      },
      extensions: addressed && i === 0 ? extensions : [],
      ...(i === 0 ? { guard: options.guard } : {}),
      payload: payload.slice(i * qp.mtu, (i + 1) * qp.mtu),
    }),
  )
}

/** Opens a queue pair by a control call over IPv6. */
export function connectIpv6(card: Pick<TestCard, 'serve'>, mtu = 4096): TestPeer {
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

/** Closes a queue pair by a control call. */
export function disconnect(card: Pick<TestCard, 'must'>, qp: TestPeer): void {
  card.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (body) => {
    putU32(body, mad.DISCONNECT_QP, qp.number)
    putU32(body, mad.DISCONNECT_CLIENT_QP, qp.peer)
  })
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
  if (frame.opcode === CNP) return 'CNP'
  if (frame.opcode === RC_ATOMIC_ACK) {
    const original = new DataView(frame.bytes.buffer, frame.packet.payloadAt - 8, 8)
    return `ATOMIC ${psn}: ${original.getBigUint64(0)}`
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
export function asTestQueuePair(qp: QueuePair): TestPeer {
  return {
    number: qp.number,
    peer: qp.peerNumber,
    mtu: qp.pathMtu,
    psn: qp.expectedPsn,
    operation: 0,
  }
}

/** Everything that the part holds now. */
export function contentOf(card: TestCard): Uint8Array {
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
  return DATA_AT + copy * area + slot * region.stride
}

/** A card with one region and a queue pair to it. */
export interface Setting {
  readonly card: TestCard
  readonly region: TestRegion
  readonly qp: TestPeer
}

/** Makes one; `shape` is the region's. */
export function setting(shape: Parameters<TestCard['provision']>[0] = {}, mtu = 4096): Setting {
  const card = new TestCard(1 << 19).format()
  const region = card.provision(shape)
  return { card, region, qp: card.connect(mtu) }
}
