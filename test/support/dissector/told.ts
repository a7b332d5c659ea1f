/**
 * What the readers of `firmware/wire/` make of a frame, under the names that the dissector has for
 * it: what its fields are compared with.
 */

import { icrcGood, icrcGoodLinuxFlush } from '../../../boards/software/icrc.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as management from '../../../firmware/wire/management.ts'
import type { OpcodeRow } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { CONDITION_EXPECT } from '../../../firmware/wire/persist.ts'
import { TRAILER_BYTES } from '../../../firmware/wire/tag.ts'
import {
  BODIES,
  type BodyField,
  NAME_BYTES,
} from '../../../host-driver/command/capture/dissector/bodies.ts'
import { PRIVATE_AT } from '../../../host-driver/command/capture/dissector/cm-headers.ts'
import { HEADERS } from '../../../host-driver/command/capture/dissector/headers.ts'

/** Values by the names of fields, without `perdure.` in front. */
export type Told = Map<string, (bigint | string)[]>

const IS_GOOD = 1n
const IS_BAD = 2n
const IS_LINUX_FLUSH = 3n
const MAGIC_OF_BLOCK = 0x4e564450

function add(told: Told, name: string, value: bigint | string | number): void {
  const values = told.get(name) ?? []
  values.push(typeof value === 'number' ? BigInt(value) : value)
  told.set(name, values)
}

/** Adds the fields of a header at `at`; what its reader makes of it. */
function addHeader(
  told: Told,
  name: string,
  bytes: Uint8Array,
  at: number,
): Record<string, number> {
  const { asked, length, fields } = HEADERS[name]!
  const record = asked.read(bytes.subarray(at, at + length))
  for (const [key, { name: field, low, only, unless }] of fields) {
    if (only !== undefined && record[only] === 0) continue
    if (unless !== undefined && record[unless] !== 0) continue
    const value = BigInt(record[key]!)
    add(told, field, low === undefined ? value : (value << 32n) | BigInt(record[low]!))
  }
  return record
}

/** Extensions behind the headers of a WRITE_PERSIST, in their order. */
function addExtensions(told: Told, bytes: Uint8Array, packet: Packet, row: OpcodeRow): void {
  const pweth = HEADERS.pweth!.asked.read(bytes.subarray(packet.bthAt + row.pwethAt))
  let at = packet.bthAt + row.headerBytes
  if (pweth.carried === 1 && pweth.slotAddressed === 0) {
    for (let i = 0; i < pweth.furtherCopies!; i++) {
      addHeader(told, 'extension', bytes, at)
      at += HEADERS.extension!.length
    }
  }
  if (pweth.batch === 1 && pweth.condition === CONDITION_EXPECT) {
    add(told, 'batch.expect', (BigInt(u32(bytes, at)) << 32n) | BigInt(u32(bytes, at + 4)))
    at += 8
  }
  if (pweth.guarded === 1) add(told, 'guard', u32(bytes, at))
  if (pweth.slotAddressed === 0) return
  add(told, 'slot', u32(bytes, packet.bthAt + row.rethAt))
  add(told, 'offset', u32(bytes, packet.bthAt + row.rethAt + 4))
}

function readField(bytes: Uint8Array, at: number, field: BodyField): bigint | string {
  if (field.bytes === 'text') {
    const text = Buffer.from(bytes.subarray(at, at + NAME_BYTES))
    const end = text.indexOf(0)
    return text.toString('utf8', 0, end < 0 ? NAME_BYTES : end)
  }
  if (field.bytes === 1) return BigInt(bytes[at]!)
  if (field.bytes === 2) return BigInt(u16(bytes, at))
  if (field.bytes === 4) return BigInt(u32(bytes, at))
  return (BigInt(u32(bytes, at)) << 32n) | BigInt(u32(bytes, at + 4))
}

function addCall(told: Told, bytes: Uint8Array, at: number): void {
  const mad = addHeader(told, 'mad', bytes, at)
  const body = at + management.MAD_BODY
  if (management.isSealed(bytes, at)) {
    add(told, 'sealed.session', u32(bytes, body + management.SEALED_SESSION))
    const high = u32(bytes, body + management.SEALED_COUNTER_HIGH)
    const low = u32(bytes, body + management.SEALED_COUNTER_LOW)
    add(told, 'sealed.counter', (BigInt(high) << 32n) | BigInt(low))
    return
  }
  const isAnswer = mad.method === management.METHOD_RESPONSE
  if (isAnswer && mad.fault !== 0) return
  for (const { side, attributes, fields } of BODIES) {
    if ((side === 'answer') !== isAnswer || !attributes.includes(mad.attribute!)) continue
    for (const field of fields) add(told, field.name, readField(bytes, body + field.at, field))
  }
}

function addCm(told: Told, bytes: Uint8Array, at: number): void {
  const { attribute } = addHeader(told, 'cm', bytes, at)
  const name = attribute === cm.CM_REQ ? 'req' : attribute === cm.CM_REP ? 'rep' : null
  if (name === null) return
  const body = at + cm.CM_BODY
  addHeader(told, name, bytes, body)
  const block = body + PRIVATE_AT[name] + (name === 'req' ? cm.IP_CM_USER : 0)
  if (u32(bytes, block) === MAGIC_OF_BLOCK) addHeader(told, 'capability', bytes, block)
}

/** The fields that a frame has; null where it is none that the dissector knows. */
export function toldOf(bytes: Uint8Array, isTagged: boolean): Told | null {
  const packet = blankPacket()
  if (checkPacket(packet, bytes, 0, bytes.length) !== PASS || packet.row === null) return null
  const { row, bthAt, opcode, destQp, psn, payloadAt, payloadLength } = packet
  const told: Told = new Map()
  add(told, 'opcode', opcode)
  add(told, 'qp', destQp)
  add(told, 'psn', psn)
  add(told, 'payload_length', payloadLength - (isTagged ? TRAILER_BYTES : 0))
  const chain = Object.keys(HEADERS).filter(
    (name) => Number(row[`${name}At` as keyof OpcodeRow]) > 0,
  )
  for (const name of chain) {
    addHeader(told, name, bytes, bthAt + Number(row[`${name}At` as keyof OpcodeRow]))
  }
  if (row.pwethAt !== 0) addExtensions(told, bytes, packet, row)
  if (row.dethAt !== 0) {
    if (cm.cmFault(bytes, payloadAt, payloadLength) === PASS) addCm(told, bytes, payloadAt)
    else if (management.madFault(bytes, payloadAt, payloadLength) === PASS) {
      addCall(told, bytes, payloadAt)
    }
  }
  const isLinux = icrcGoodLinuxFlush(bytes, 0, bytes.length)
  const isGood = icrcGood(bytes, 0, bytes.length)
  add(told, 'icrc.status', isGood ? IS_GOOD : isLinux ? IS_LINUX_FLUSH : IS_BAD)
  return told
}
