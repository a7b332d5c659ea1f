/**
 * What a client says to a card, frame by frame, and what the card's answers say: the same for every
 * engine, with no clock and no retransmission in between.
 */

import { FAULTS } from '../../../firmware/board/fault.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import {
  PERSIST_ACK,
  RC_READ_REQUEST,
  UD_SEND_ONLY,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { blankPaeth, type Paeth, readPaeth } from '../../../firmware/wire/persist-ack.ts'
import { frameOf } from './frames.ts'

/** A frame that was sent, read. */
export interface Sent {
  readonly bytes: Uint8Array
  readonly packet: Packet
  readonly psn: number
  readonly opcode: number
  readonly syndrome: number
  readonly msn: number
  readonly payload: Uint8Array
  readonly paeth: Paeth | null
}

export interface RegionShape {
  readonly name?: string
  readonly slots?: number
  readonly capacity?: number
  readonly copies?: number
  readonly kind?: number
  readonly flags?: number
  readonly domain?: number
  readonly length?: number
  /** 0 the card's own NVDIMM, 1 the host's past its caches, 2 through them. */
  readonly placement?: number
}

export interface TestRegion {
  readonly name: string
  readonly rkey: number
  readonly id: number
  readonly key: Uint8Array
  readonly slots: number
  readonly capacity: number
  readonly copies: number
  readonly stride: number
  readonly unsettled: number
  /** Upper word of the address of its first byte; 0 where addresses are slots. */
  readonly baseHigh: number
}

/** A region, whose addresses count from its begin; or a key, and addresses as they are. */
export type Place = number | { readonly rkey: number; readonly baseHigh?: number }

/** The key of a place, and what is added to the upper word of an address there. */
export function keyOf(place: Place): { rkey: number; baseHigh: number } {
  if (typeof place === 'number') return { rkey: place, baseHigh: 0 }
  return { rkey: place.rkey, baseHigh: place.baseHigh ?? 0 }
}

export interface TestPeer {
  readonly number: number
  readonly peer: number
  readonly mtu: number
  psn: number
  operation: number
}

export interface PersistOptions {
  readonly wantsAck?: boolean
  readonly wait?: number
  readonly psn?: number
  readonly operation?: number
  readonly operationHigh?: number
  readonly repetition?: boolean
  /** The guard of its data. */
  readonly guard?: number
  readonly ackRequest?: boolean
  readonly ipVersion?: 4 | 6
}

/** Reads a frame that a card sent. */
export function sentOf(bytes: Uint8Array): Sent {
  checkIpv4(bytes)
  const packet = blankPacket()
  const fault = checkPacket(packet, bytes, 0, bytes.length)
  if (fault !== 0) throw new Error(`the card sent a frame that is ${FAULTS[fault]!.name}`)
  // RoCEv2 wants none (IBTA annex A17).
  if (u16(bytes, packet.bthAt - 2) !== 0) throw new Error('the card sent a UDP checksum')
  const row = packet.row!
  const aeth = row.aethAt === 0 ? -1 : packet.bthAt + row.aethAt
  const paeth = row.paethAt === 0 ? null : blankPaeth()
  if (paeth !== null) readPaeth(paeth, bytes, packet.bthAt + row.paethAt)
  return {
    bytes,
    packet,
    psn: packet.psn,
    opcode: packet.opcode,
    syndrome: aeth < 0 ? -1 : bytes[aeth]!,
    msn: aeth < 0 ? -1 : u32(bytes, aeth) & 0xffffff,
    payload: bytes.slice(packet.payloadAt, packet.payloadAt + packet.payloadLength),
    paeth,
  }
}

const IPV4_AT = 14
const IPV4_BYTES = 20

/** The IPv4 header that the card makes itself: its sum, as routers check it, and its length. */
function checkIpv4(bytes: Uint8Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  if (view.getUint16(IPV4_AT - 2) !== 0x0800) return
  let sum = 0
  for (let at = IPV4_AT; at < IPV4_AT + IPV4_BYTES; at += 2) sum += view.getUint16(at)
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16)
  if (sum !== 0xffff) throw new Error('the card sent a wrong IPv4 checksum')
  if (view.getUint16(IPV4_AT + 2) !== bytes.length - IPV4_AT) {
    throw new Error('the card sent a wrong IPv4 length')
  }
}

/** Operations that one connection may use without meeting those of another. */
const OPERATIONS_EACH = 10_000

/** Queue pair of whoever connects only to be told keys. */
const ASKING_QP = 0xfffff0

let operationsGiven = 0

/**
 * Where the operations of a new connection begin. An operation is named permanently (D-6): a client
 * that used an id again, after a restart even, would be told that it is durable already.
 */
function freshOperations(): number {
  operationsGiven += OPERATIONS_EACH
  return operationsGiven - OPERATIONS_EACH
}

/**
 * A client's side of a conversation with a card: control calls, regions, queue pairs, reads. It is
 * given how frames are served, and so works on any engine.
 */
export class Conversation {
  private readonly ask: (...frames: Uint8Array[]) => Sent[]
  private transaction = 0
  private peers = 0x100

  constructor(ask: (...frames: Uint8Array[]) => Sent[]) {
    this.ask = ask
  }

  /** The frame of one control call. */
  callFrame(
    method: number,
    attribute: number,
    fill: (body: Uint8Array) => void = () => {},
    modifier = 0,
  ): Uint8Array {
    this.transaction += 1
    return frameOf({
      bth: { opcode: UD_SEND_ONLY, destQp: 1 },
      deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
      payload: callOf(this.transaction, method, attribute, fill, modifier),
    })
  }

  /** One control call; the answer's fault and body. */
  manage(
    method: number,
    attribute: number,
    fill: (body: Uint8Array) => void = () => {},
    modifier = 0,
  ): { fault: string; body: Uint8Array } {
    const sent = this.ask(this.callFrame(method, attribute, fill, modifier))
    const answer = sent.find((frame) => frame.opcode === UD_SEND_ONLY)
    if (answer === undefined) throw new Error('the control call was not answered')
    const header = mad.blankMad()
    mad.readMad(header, answer.payload, 0)
    return { fault: FAULTS[header.fault]!.name, body: answer.payload.slice(mad.MAD_BODY) }
  }

  /** As `manage`, but what is refused is an error. */
  must(
    method: number,
    attribute: number,
    fill: (body: Uint8Array) => void = () => {},
    modifier = 0,
  ): Uint8Array {
    const { fault, body } = this.manage(method, attribute, fill, modifier)
    if (fault !== 'PASS') throw new Error(`control call 0x${attribute.toString(16)}: ${fault}`)
    return body
  }

  format(): this {
    this.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    return this
  }

  status(): Uint8Array {
    return this.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS)
  }

  /** Asks for a region; `fault` is PASS where it was made. Then the body has its keys. */
  tryProvision(shape: RegionShape = {}): { fault: string; body: Uint8Array } {
    const { fault, body } = this.provisionAsIs(shape)
    return { fault, body: fault === 'PASS' ? this.withKeys(body) : body }
  }

  /** One call: without a connection it is told no keys. */
  provisionAsIs(shape: RegionShape = {}): { fault: string; body: Uint8Array } {
    return this.manage(mad.METHOD_SET, mad.ATTRIBUTE_PROVISION, asksFor(shape))
  }

  provision(shape: RegionShape = {}): TestRegion {
    let { fault, body } = this.tryProvision(shape)
    while (fault === 'UNDER_WAY') ({ fault, body } = this.tryProvision(shape))
    if (fault !== 'PASS') throw new Error(`the region was not made: ${fault}`)
    return regionOf(body)
  }

  open(name = 'records'): TestRegion {
    return regionOf(this.withKeys(this.bodyOf(name)))
  }

  /** Without a connection it is told no keys. */
  openAsIs(name: string): TestRegion {
    return regionOf(this.bodyOf(name))
  }

  private bodyOf(name: string): Uint8Array {
    return this.must(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (request) => {
      request.set(new TextEncoder().encode(name), mad.REGION_NAME)
    })
  }

  /** What tells of a region, with its keys: for these it connects, if it has no connection. */
  private withKeys(told: Uint8Array): Uint8Array {
    if (u32(told, mad.REGION_RKEY) !== 0) return told
    const body = this.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, ASKING_QP)
      putU16(request, mad.CONNECT_PATH_MTU, 256)
    })
    const opened = this.bodyOf(regionOf(told).name)
    this.disconnect({ number: u32(body, mad.CONNECT_QP), peer: ASKING_QP })
    return opened
  }

  disconnect({ number, peer }: Pick<TestPeer, 'number' | 'peer'>): void {
    this.must(mad.METHOD_SET, mad.ATTRIBUTE_DISCONNECT, (request) => {
      putU32(request, mad.DISCONNECT_QP, number)
      putU32(request, mad.DISCONNECT_CLIENT_QP, peer)
    })
  }

  /** Looks at the records of that region from that one on, and repairs; what the answer says. */
  scan(region: number, record = 0): Uint8Array {
    return this.must(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (request) => {
      putU32(request, mad.SCAN_REGION, region)
      putU32(request, mad.SCAN_RECORD, record)
    })
  }

  connect(mtu = 4096, domain = 0, client = 7): TestPeer {
    this.peers += 1
    const peer = this.peers
    const body = this.must(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, (request) => {
      putU32(request, mad.CONNECT_CLIENT_QP, peer)
      putU16(request, mad.CONNECT_PATH_MTU, mtu)
      putU16(request, mad.CONNECT_DOMAIN, domain)
      putU32(request, mad.CONNECT_CLIENT_ID_LOW, client)
    })
    return {
      number: u32(body, mad.CONNECT_QP),
      peer,
      mtu: u16(body, mad.CONNECT_GRANTED_MTU),
      psn: u32(body, mad.CONNECT_FIRST_PSN),
      operation: freshOperations(),
    }
  }

  counter(name: string): number {
    const index = FAULTS.findIndex((row) => row.name === name)
    if (index < 0) throw new Error(`no fault ${name}`)
    const body = this.must(mad.METHOD_GET, mad.ATTRIBUTE_COUNTERS, undefined, index)
    return u32(body, mad.COUNTERS_FIRST) * 2 ** 32 + u32(body, mad.COUNTERS_FIRST + 4)
  }

  /** The READ of [offset, offset + length) in a view of a slot; the data, or null after a NAK. */
  read(
    qp: TestPeer,
    region: TestRegion,
    slot: number,
    view: number,
    length: number,
    offset = 0,
  ): Uint8Array | null {
    const all = this.ask(readFrame(qp, region, slot, view * 2 ** 28 + offset, length))
    // Others may be answered meanwhile.
    const sent = all.filter(({ packet }) => packet.destQp === qp.peer)
    if (sent.some((frame) => frame.syndrome >= 0x60)) return null
    const parts = sent.filter((frame) => frame.opcode >= 0x0d && frame.opcode <= 0x10)
    return Uint8Array.from(parts.flatMap((frame) => [...frame.payload]))
  }
}

/** Writes the body of a call that asks for such a region. */
export function asksFor(shape: RegionShape): (body: Uint8Array) => void {
  return (body) => {
    body.set(new TextEncoder().encode(shape.name ?? 'records'), mad.REGION_NAME)
    putU32(body, mad.REGION_SLOTS, shape.slots ?? 8)
    putU32(body, mad.REGION_CAPACITY, shape.capacity ?? 64)
    body[mad.REGION_COPIES] = shape.copies ?? 2
    body[mad.REGION_KIND] = shape.kind ?? mad.KIND_RECORDS
    putU16(body, mad.REGION_FLAGS, shape.flags ?? 0)
    putU16(body, mad.REGION_DOMAIN, shape.domain ?? 0)
    putU32(body, mad.REGION_LENGTH_LOW, shape.length ?? 0)
    body[mad.REGION_PLACEMENT] = shape.placement ?? 0
  }
}

export function regionOf(body: Uint8Array): TestRegion {
  const end = body.indexOf(0)
  return {
    name: new TextDecoder().decode(body.slice(0, end)),
    rkey: u32(body, mad.REGION_RKEY),
    id: u32(body, mad.REGION_ID),
    key: body.slice(mad.REGION_CHECK_KEY, mad.REGION_CHECK_KEY + 16),
    slots: u32(body, mad.REGION_SLOTS),
    capacity: u32(body, mad.REGION_CAPACITY),
    copies: body[mad.REGION_COPIES]!,
    stride: u32(body, mad.REGION_STRIDE),
    unsettled: u32(body, mad.REGION_UNSETTLED),
    baseHigh: u32(body, mad.REGION_BASE_HIGH),
  }
}

/** The frames of a replicated WRITE_PERSIST; PSN and operation id of the queue pair move on. */
export function persistFrames(
  qp: TestPeer,
  region: Place,
  slot: number,
  data: Uint8Array,
  options: PersistOptions = {},
): Uint8Array[] {
  const { rkey, baseHigh } = keyOf(region)
  const packets = Math.max(1, Math.ceil(data.length / qp.mtu))
  const psn = options.psn ?? qp.psn
  const operation = options.operation ?? qp.operation + 1
  if (options.psn === undefined) qp.psn = (psn + packets) & 0xffffff
  if (options.operation === undefined) qp.operation = operation
  const frames: Uint8Array[] = []
  for (let i = 0; i < packets; i++) {
    frames.push(
      frameOf({
        ipVersion: options.ipVersion ?? 4,
        bth: {
          opcode: persistOpcode(i, packets),
          destQp: qp.number,
          psn: (psn + i) & 0xffffff,
          ackRequest: options.ackRequest ?? i === packets - 1,
        },
        reth: { vaHigh: baseHigh + slot, vaLow: 0, rkey, length: data.length },
        pweth: {
          wait: options.wait ?? 2,
          slotAddressed: true,
          wantsAck: options.wantsAck ?? true,
          operationHigh: options.operationHigh ?? 0,
          repetition: options.repetition ?? false,
          operationLow: operation,
          guarded: options.guard !== undefined,
        },
        ...(i === 0 ? { guard: options.guard } : {}),
        payload: data.slice(i * qp.mtu, (i + 1) * qp.mtu),
      }),
    )
  }
  return frames
}

/** The opcode of packet `index` of a WRITE_PERSIST of so many. */
export function persistOpcode(index: number, packets: number): number {
  if (packets === 1) return WRITE_PERSIST_ONLY
  if (index === 0) return WRITE_PERSIST_FIRST
  return index === packets - 1 ? WRITE_PERSIST_LAST : WRITE_PERSIST_MIDDLE
}

/** A READ request; the queue pair's PSN moves on by its responses. */
export function readFrame(
  qp: TestPeer,
  place: Place,
  vaHigh: number,
  vaLow: number,
  length: number,
): Uint8Array {
  const { rkey, baseHigh } = keyOf(place)
  const psn = qp.psn
  qp.psn = (psn + Math.max(1, Math.ceil(length / qp.mtu))) & 0xffffff
  return frameOf({
    bth: { opcode: RC_READ_REQUEST, destQp: qp.number, psn, ackRequest: true },
    reth: { vaHigh: baseHigh + vaHigh, vaLow, rkey, length },
  })
}

/** The PERSIST_ACKs among the frames. */
export function persistAcks(sent: readonly Sent[]): Paeth[] {
  return sent.flatMap((frame) => (frame.opcode === PERSIST_ACK ? [frame.paeth!] : []))
}

/** What the PERSIST_ACKs among the frames say. */
export function ackStatuses(sent: readonly Sent[]): number[] {
  return persistAcks(sent).map(({ status }) => status)
}

/** Data of that many bytes that no other seed gives. */
export function dataOf(length: number, seed: number): Uint8Array {
  return Uint8Array.from(
    { length },
    (_, i) => (Math.imul(i + 1, 2654435761) ^ (seed * 40503)) >>> 13,
  )
}

/** The 256 bytes of one control call, whichever way it goes. */
export function callOf(
  transactionLow: number,
  method: number,
  attribute: number,
  fill: (body: Uint8Array) => void,
  modifier: number,
): Uint8Array {
  const call = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(call, 0, { ...mad.blankMad(), method, attribute, modifier, transactionLow })
  fill(call.subarray(mad.MAD_BODY))
  return call
}
