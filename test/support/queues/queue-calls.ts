/**
 * Control calls of a raw host, field by field: every field can be set to anything, and a call can
 * be repeated as it was.
 */

import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import type { Identity } from '../../../firmware/board/hal.ts'
import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import {
  AH_IPV4,
  AH_MAC,
  WC_SUCCESS,
  WQE_LOCAL,
  WQE_RECEIVE,
} from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../cards/test-card.ts'
import { elementOf, putU64, QueueHost } from './queue-host.ts'

/** A raw host whose card takes frames, too. */
export class CardHost extends QueueHost {
  declare readonly card: TestCard

  /** `last` is the last byte of the card's addresses; with an identity it has peers. */
  constructor(ramBytes: number = 1 << 20, last = 2, identity?: Identity) {
    const facts = { ...stationOf(last), ...(identity && { identity }) }
    super(new TestCard(1 << 18, { facts, ram: new HostRam(ramBytes) }))
  }
}

export function hostOf(ramBytes?: number): CardHost {
  return new CardHost(ramBytes)
}

export interface Answered {
  readonly fault: string
  readonly body: Uint8Array
}

/** An answer as it came out of queue 1. */
interface Arrived extends Answered {
  readonly transaction: number
  readonly unit: number
}

/** Addresses of a station. */
interface Station {
  readonly mac: readonly number[]
  readonly ipv4: readonly number[]
}

export function stationOf(last: number): Station {
  return { mac: [2, 0, 0, 0, 0, last], ipv4: [10, 0, 0, last] }
}

/** The 256 bytes of a call. */
export function callOf(
  attribute: number,
  transaction: number,
  fill: (body: Uint8Array) => void = () => {},
  method: number = mad.METHOD_SET,
  modifier = 0,
): Uint8Array {
  const call = new Uint8Array(mad.MAD_BYTES)
  const head = { ...mad.blankMad(), method, attribute, modifier, transactionLow: transaction }
  mad.writeMad(call, 0, head)
  fill(call.subarray(mad.MAD_BODY))
  return call
}

/** Posts the call inline to that station, the local card if there is none, and rings. */
export function sendCall(host: QueueHost, call: Uint8Array, to?: Station, flags = 0): number {
  const element = elementOf({ opcode: SEND, inline: call, flags })
  if (to !== undefined) {
    element.set(to.mac, AH_MAC)
    element.set(to.ipv4, AH_IPV4)
  }
  const unit = host.post(page.QUEUE_GSI_SEND, element)
  host.ring(page.QUEUE_GSI_SEND)
  return unit
}

/** Everything that came into queue 1; each buffer is posted again unless `keep`. */
export function takeAnswers(host: QueueHost, keep = false): Arrived[] {
  const arrived: Arrived[] = []
  for (const cqe of host.poll(page.QUEUE_GSI_COMPLETION)) {
    if (cqe.queue !== page.QUEUE_GSI_RECEIVE || cqe.status !== WC_SUCCESS) {
      host.strays.push(cqe)
      continue
    }
    const buffer = host.get64(host.unitAt(page.QUEUE_GSI_RECEIVE, cqe.unit) + WQE_LOCAL)
    const bytes = host.bytes.slice(buffer, buffer + mad.MAD_BYTES)
    const head = mad.blankMad()
    mad.readMad(head, bytes, 0)
    arrived.push({
      transaction: head.transactionLow,
      unit: cqe.unit,
      fault: FAULTS[head.fault]!.name,
      body: bytes.slice(mad.MAD_BODY),
    })
    if (!keep) postBuffer(host, buffer)
  }
  return arrived
}

export function postBuffer(host: QueueHost, local: number): void {
  const fields = { opcode: WQE_RECEIVE, local, length: mad.MAD_BYTES }
  host.post(page.QUEUE_GSI_RECEIVE, elementOf(fields))
}

/** Asks the local card with any field set to anything. */
function ask(host: QueueHost, attribute: number, fill: (body: Uint8Array) => void): Answered {
  return host.manage(mad.METHOD_SET, attribute, fill)
}

interface CqFields {
  readonly ring?: number
  readonly entries?: number
  readonly count?: number
  readonly periodUs?: number
}

export function fillCq(host: QueueHost, fields: CqFields = {}): (body: Uint8Array) => void {
  const entries = fields.entries ?? 16
  const ring = fields.ring ?? host.allocate(Math.min(entries, 64) * UNIT_BYTES)
  return (body) => {
    putU64(body, mad.CREATE_CQ_RING, ring)
    putU32(body, mad.CREATE_CQ_ENTRIES, entries)
    putU16(body, mad.CREATE_CQ_COUNT, fields.count ?? 0)
    putU16(body, mad.CREATE_CQ_PERIOD, fields.periodUs ?? 0)
  }
}

export function createCq(host: QueueHost, fields: CqFields = {}): Answered {
  return ask(host, mad.ATTRIBUTE_CREATE_CQ, fillCq(host, fields))
}

interface QpFields {
  readonly type?: number
  readonly domain?: number
  readonly sendCq: number
  readonly receiveCq?: number
  readonly sendUnits?: number
  readonly sendRing?: number
  readonly receiveUnits?: number
  readonly receiveRing?: number
  readonly client?: number
}

export function createQp(host: QueueHost, fields: QpFields): Answered {
  const sendUnits = fields.sendUnits ?? 8
  const receiveUnits = fields.receiveUnits ?? sendUnits
  const sendRing = fields.sendRing ?? host.allocate(Math.min(sendUnits, 64) * UNIT_BYTES)
  const receiveRing = fields.receiveRing ?? host.allocate(Math.min(receiveUnits, 64) * UNIT_BYTES)
  return ask(host, mad.ATTRIBUTE_CREATE_QP, (body) => {
    body[mad.CREATE_QP_TYPE] = fields.type ?? info.TYPE_LOCAL
    putU16(body, mad.CREATE_QP_DOMAIN, fields.domain ?? 0)
    putU32(body, mad.CREATE_QP_SEND_CQ, fields.sendCq)
    putU32(body, mad.CREATE_QP_RECEIVE_CQ, fields.receiveCq ?? fields.sendCq)
    putU32(body, mad.CREATE_QP_SEND_UNITS, sendUnits)
    putU64(body, mad.CREATE_QP_SEND_RING, sendRing)
    putU64(body, mad.CREATE_QP_RECEIVE_RING, receiveRing)
    putU32(body, mad.CREATE_QP_RECEIVE_UNITS, receiveUnits)
    putU64(body, mad.CREATE_QP_CLIENT, fields.client ?? 7)
  })
}

export function destroy(host: QueueHost, queue: number): string {
  return ask(host, mad.ATTRIBUTE_DESTROY, (body) => putU32(body, mad.DESTROY_QUEUE, queue)).fault
}

export function register(host: QueueHost, at: number, length: number, domain = 0): Answered {
  return ask(host, mad.ATTRIBUTE_REGISTER, (body) => {
    putU64(body, mad.REGISTER_ADDRESS, at)
    putU64(body, mad.REGISTER_LENGTH, length)
    putU16(body, mad.REGISTER_DOMAIN, domain)
  })
}

/** Zone 2 as the host composes it. */
export function zone2Of(ring: number, depth: number, count = 0, periodUs = 0): Uint8Array {
  const bytes = new Uint8Array(info.ZONE2_BYTES)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(info.Z2_RING, BigInt(ring), true)
  view.setUint32(info.Z2_DEPTH, depth, true)
  view.setUint16(info.Z2_COUNT, count, true)
  view.setUint16(info.Z2_PERIOD, periodUs, true)
  return bytes
}

export function fillWrite(queue: number, zone2: Uint8Array): (body: Uint8Array) => void {
  return (body) => {
    putU32(body, mad.QUEUE_WRITE_QUEUE, queue)
    body.set(zone2, mad.QUEUE_WRITE_ZONE2)
  }
}

export function writeQueue(host: QueueHost, queue: number, zone2: Uint8Array): Answered {
  return ask(host, mad.ATTRIBUTE_QUEUE_WRITE, fillWrite(queue, zone2))
}

export function lock(host: QueueHost, queue: number): Answered & { token: number } {
  const answer = ask(host, mad.ATTRIBUTE_QUEUE_LOCK, (body) => {
    putU32(body, mad.QUEUE_LOCK_QUEUE, queue)
  })
  return { ...answer, token: u32(answer.body, mad.QUEUE_LOCK_TOKEN) }
}

export function release(host: QueueHost, queue: number, token: number): string {
  return ask(host, mad.ATTRIBUTE_QUEUE_RELEASE, (body) => {
    putU32(body, mad.QUEUE_LOCK_QUEUE, queue)
    putU32(body, mad.QUEUE_LOCK_TOKEN, token)
  }).fault
}

/** Zone 2 stored by the host itself, as only who has the lock may. */
export function storeZone2(host: QueueHost, queue: number, zone2: Uint8Array): void {
  host.bytes.set(zone2, host.zone2At + queue * info.ZONE2_BYTES)
}
