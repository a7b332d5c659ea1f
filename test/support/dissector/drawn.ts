/** Frames of every opcode and datagrams of every kind, with headers that are drawn. */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { PASS } from '../../../firmware/board/fault.ts'
import { BTH_BYTES } from '../../../firmware/wire/bth.ts'
import { blankCapability, writeCapability } from '../../../firmware/wire/capability.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as management from '../../../firmware/wire/management.ts'
import { OPCODES, RC_FLUSH, UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import { blankPacket, checkPacket } from '../../../firmware/wire/packet.ts'
import { BODIES, NAME_BYTES } from '../../../host-driver/command/capture/dissector/bodies.ts'
import { PRIVATE_AT } from '../../../host-driver/command/capture/dissector/cm-headers.ts'
import { frameOf, writeIcrc } from '../wire/frames.ts'

const PAYLOAD_BYTES = 200

function draw(random: Random, bytes: Uint8Array): Uint8Array {
  for (let i = 0; i < bytes.length; i++) bytes[i] = random.below(256)
  return bytes
}

/** Of each opcode so many, every bit behind BTH drawn; only what is read without a fault. */
export function drawnFrames(random: Random, each: number): Uint8Array[] {
  const frames: Uint8Array[] = []
  for (const row of OPCODES) {
    if (row === undefined) continue
    for (let i = 0; i < each; i++) {
      const bth = { opcode: row.opcode, destQp: random.below(1 << 24), psn: random.below(1 << 24) }
      const ipVersion = i % 4 === 0 ? 6 : 4
      const frame = frameOf({ ipVersion, bth, payload: new Uint8Array(PAYLOAD_BYTES) })
      const packet = blankPacket()
      checkPacket(packet, frame, 0, frame.length)
      draw(random, frame.subarray(packet.bthAt + BTH_BYTES))
      writeIcrc(frame)
      if (checkPacket(packet, frame, 0, frame.length) === PASS) frames.push(frame)
    }
  }
  return frames
}

function datagram(payload: Uint8Array, destQp: number): Uint8Array {
  return frameOf({ bth: { opcode: UD_SEND_ONLY, destQp }, payload })
}

/** A body, drawn; where its attribute has a name there, that is text, and zeros behind it. */
function drawBody(random: Random, attribute: number, body: Uint8Array): void {
  draw(random, body)
  const bodies = BODIES.filter(({ attributes }) => attributes.includes(attribute))
  if (!bodies.some(({ fields }) => fields.some(({ bytes }) => bytes === 'text'))) return
  body.fill(0, 0, NAME_BYTES)
  body.set(Buffer.from(`orders ${random.below(1000)}`))
}

/** A FLUSH with each ICRC: the standard one, that of Linux, a wrong one. */
export function flushes(): Uint8Array[] {
  const frames = [0, 1, 2].map(() => frameOf({ bth: { opcode: RC_FLUSH } }))
  fillIcrc(frames[1]!, 0, frames[1]!.length, true)
  frames[2]![frames[2]!.length - 1]! ^= 1
  return frames
}

/** Control calls: every attribute, asked, answered, refused and sealed, with bodies drawn. */
export function drawnCalls(random: Random): Uint8Array[] {
  const attributes = Object.entries(management)
    .filter(([name]) => name.startsWith('ATTRIBUTE_'))
    .map(([, attribute]) => attribute as number)
  const ways = [
    { method: management.METHOD_SET, fault: 0, version: management.MANAGEMENT_VERSION },
    { method: management.METHOD_GET, fault: 0, version: management.MANAGEMENT_VERSION },
    { method: management.METHOD_RESPONSE, fault: 0, version: management.MANAGEMENT_VERSION },
    { method: management.METHOD_RESPONSE, fault: 0, version: management.MANAGEMENT_VERSION },
    { method: management.METHOD_RESPONSE, fault: 90, version: management.MANAGEMENT_VERSION },
    { method: management.METHOD_GET, fault: 0, version: management.SEALED_VERSION },
  ]
  return attributes.flatMap((attribute) =>
    ways.map(({ method, fault, version }) => {
      const payload = new Uint8Array(management.MAD_BYTES)
      drawBody(random, attribute, payload.subarray(management.MAD_BODY))
      const [transactionHigh, transactionLow] = [random.below(2 ** 32), random.below(2 ** 32)]
      const header = { method, status: random.below(9), transactionHigh, transactionLow, fault }
      const modifier = random.below(2 ** 32)
      management.writeMad(payload, 0, { ...header, attribute, modifier }, version)
      return datagram(payload, 1)
    }),
  )
}

/** Messages of RDMA-CM, with bodies drawn and our block in the private data of some. */
export function drawnCm(random: Random): Uint8Array[] {
  const kinds = [cm.CM_REQ, cm.CM_REP, cm.CM_RTU, cm.CM_REQ, cm.CM_REP]
  return kinds.map((attribute, i) => {
    const payload = new Uint8Array(cm.CM_BYTES)
    cm.writeCmHeader(payload, 0, { ...cm.blankCmHeader(), attribute })
    const body = draw(random, payload.subarray(cm.CM_BODY))
    const isReq = attribute === cm.CM_REQ
    const at = isReq ? PRIVATE_AT.req + cm.IP_CM_USER : PRIVATE_AT.rep
    if (i < 2) writeCapability(body, at, drawnBlock(random))
    return datagram(payload, 1)
  })
}

function drawnBlock(random: Random): ReturnType<typeof blankCapability> {
  const block = blankCapability()
  const limits: Partial<Record<keyof typeof block, number>> = {
    ...{ features: 2 ** 16, slotLog2: 256, blockLog2Min: 256, blockLog2Max: 256, batchMax: 256 },
  }
  for (const name of Object.keys(block) as (keyof typeof block)[]) {
    block[name] = random.below(limits[name] ?? 2 ** 32)
  }
  return block
}
