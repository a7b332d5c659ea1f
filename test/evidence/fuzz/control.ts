/**
 * Control messages that nobody should send: calls of every method, attribute and modifier with
 * hostile bodies, messages of RDMA-CM, ARP and neighbour discovery.
 *
 * Invariant: what an operator may do is authorised (guard.ts): a call that makes a region
 * may use what no region has, one that removes a region its room, one that gives up a record its
 * slots; nothing else is changed.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as cm from '../../../firmware/wire/cm.ts'
import * as mad from '../../../firmware/wire/management.ts'
import * as dialogue from '../../support/wire/cm.ts'
import { callOf } from '../../support/wire/conversation.ts'
import { hex } from '../../support/wire/frames.ts'
import { Arena } from './arena.ts'
import { bthOf } from './guard.ts'
import type { Field } from './kinds.ts'
import { mutateField, put } from './mutate.ts'
import type { WorldOptions } from './world.ts'

const REST_FRAMES = 1024
/** Where a REQ has the number of its queue pair. */
const REQ_QPN = 32
/** Where the payload of a datagram over IPv4 begins. */
const PAYLOAD_AT = 14 + 20 + 8 + 12 + 8

interface Message {
  readonly frame: Uint8Array
  readonly fields: readonly Field[]
  readonly payloadAt: number
  /** A message of RDMA-CM: its attribute. */
  readonly cm: number
}

const ATTRIBUTES: readonly number[] = Object.entries(mad)
  .filter(([name]) => name.startsWith('ATTRIBUTE_'))
  .map(([, value]) => value as number)

const name = (body: Uint8Array, text: string): void => {
  body.set(new TextEncoder().encode(text), mad.REGION_NAME)
}

/** Bodies with which a call is served, or nearly. */
const BODIES: Readonly<Record<number, (body: Uint8Array) => void>> = {
  [mad.ATTRIBUTE_PROVISION]: (body) => {
    name(body, 'hostile0')
    putU32(body, mad.REGION_SLOTS, 4)
    putU32(body, mad.REGION_CAPACITY, 64)
    body[mad.REGION_COPIES] = 2
  },
  [mad.ATTRIBUTE_OPEN]: (body) => name(body, 'bytes'),
  [mad.ATTRIBUTE_FIGURES]: (body) => name(body, 'bytes'),
  [mad.ATTRIBUTE_HEALTH]: (body) => {
    body[mad.HEALTH_ACTION] = mad.HEALTH_BEGIN
  },
  [mad.ATTRIBUTE_REMOVE]: (body) => name(body, 'hostile0'),
  [mad.ATTRIBUTE_CONNECT]: (body) => {
    putU32(body, mad.CONNECT_CLIENT_QP, 0x222)
    putU16(body, mad.CONNECT_PATH_MTU, 1024)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, 9)
  },
  [mad.ATTRIBUTE_SCAN]: (body) => putU32(body, mad.SCAN_REGION, 1),
  [mad.ATTRIBUTE_SETTLE]: (body) => {
    putU32(body, mad.SETTLE_REGION, 1)
    body[mad.SETTLE_DECISION] = mad.SETTLE_DISCARD
  },
  [mad.ATTRIBUTE_PUBLISH]: (body) => {
    name(body, 'bytes')
    putU16(body, mad.PUBLISH_PORT, dialogue.PORT)
    body[mad.PUBLISH_FORM] = mad.FORM_LIBRPMA
  },
  [mad.ATTRIBUTE_ATTACH]: (body) => {
    name(body, 'far')
    body[mad.ATTACH_IP_VERSION] = 4
    putU16(body, mad.ATTACH_PORT, 7000)
    body.set([10, 0, 0, 9], mad.ATTACH_ADDRESS)
    putU32(body, mad.ATTACH_CLIENT_LOW, 3)
  },
  [mad.ATTRIBUTE_DETACH]: (body) => name(body, 'far'),
  [mad.ATTRIBUTE_CACHE]: (body) => putU16(body, mad.CACHE_N, 4),
}

function fieldsAt(at: number, end: number): Field[] {
  const fields: Field[] = []
  for (let i = at; i < end; i++) fields.push({ at: i, width: 1 })
  for (let i = at; i + 1 < end; i += 2) fields.push({ at: i, width: 2 })
  for (let i = at; i + 3 < end; i += 4) for (let k = 0; k < 3; k++) fields.push({ at: i, width: 4 })
  return fields
}

function messageOf(frame: Uint8Array, cmAttribute = 0, used = 140): Message {
  const payloadAt = frame[12] === 0x86 ? PAYLOAD_AT + 20 : PAYLOAD_AT
  const end = Math.min(frame.length - 4, payloadAt + used)
  return { frame, fields: fieldsAt(payloadAt - 8, end), payloadAt, cm: cmAttribute }
}

function calls(): Message[] {
  const messages: Message[] = []
  for (const attribute of ATTRIBUTES) {
    for (const method of [mad.METHOD_GET, mad.METHOD_SET]) {
      const fill = BODIES[attribute] ?? (() => {})
      const call = callOf(1, method, attribute, fill, 0)
      // A call that is served is worth more than one of the wrong method.
      const times = BODIES[attribute] === undefined ? 1 : 3
      const message = messageOf(dialogue.madFrame(call), 0, 32 + 100)
      for (let i = 0; i < times; i++) messages.push(message)
    }
  }
  return messages
}

function connections(): Message[] {
  const messages: Message[] = []
  for (const ipVersion of [4, 6] as const) {
    const client = { ...dialogue.CLIENT, ipVersion }
    const req = messageOf(dialogue.reqFrame(client), cm.CM_REQ, 256)
    messages.push(req, req, req)
    for (const attribute of [cm.CM_RTU, cm.CM_DREQ, cm.CM_DREP, cm.CM_REJ, cm.CM_MRA, cm.CM_REP]) {
      messages.push(messageOf(dialogue.idsFrame(client, attribute, 0), attribute, 64))
    }
  }
  return messages
}

/** ARP and neighbour discovery as they are asked; no ICRC is in them. */
const NEIGHBOURS: readonly Uint8Array[] = [
  hex(`020000000002 020000000001 0806 0001 0800 0604 0001
    020000000001 0a000001 000000000000 0a000002`),
  hex(`020000000002 020000000001 0806 0001 0800 0604 0002
    020000000001 0a000009 020000000002 0a000002`),
  hex(`3333ff000002 020000000001 86dd 60000000 0020 3aff
    fd000000000000000000000000000001 ff0200000000000000000001ff000002
    87007d97 00000000 fd000000000000000000000000000002 0101 020000000001`),
]

export class Control {
  readonly arena: Arena
  private readonly random: Random
  private readonly messages: readonly Message[] = [...calls(), ...connections()]
  private readonly neighbours: readonly Message[] = NEIGHBOURS.map((frame) => {
    return { frame, fields: fieldsAt(0, frame.length), payloadAt: 0, cm: 0 }
  })
  /** Communication ids and number of the connections that the card agreed to, newest last. */
  private readonly agreed: number[] = []
  private frames = 0

  constructor(options: WorldOptions) {
    this.arena = new Arena({ partBytes: 1 << 18, ...options }, 8)
    this.random = new Random(options.seed ^ 0xc0)
    const { world } = this.arena
    const before = world.onSent
    world.onSent = (frame) => {
      before?.(frame)
      this.hear(frame)
    }
  }

  /** Notes what a REP says: the ids of the card's side. */
  private hear(frame: Uint8Array): void {
    const bth = bthOf(frame, 0)
    const at = bth + 20
    if (frame[bth] !== 0x64) return
    this.note(frame, at)
    if (frame[at + 1] !== cm.CM_CLASS) return
    if (frame[at + 17] !== cm.CM_REP && frame[at + 17] !== cm.CM_REQ) return
    this.agreed.push(u32(frame, at + cm.CM_BODY))
    if (this.agreed.length > 8) this.agreed.shift()
  }

  /** Which call or message was answered how. */
  private note(frame: Uint8Array, at: number): void {
    const { ledger } = this.arena.world
    if (ledger === null) return
    const attribute = (frame[at + 16]! << 8) | frame[at + 17]!
    const isCall = frame[at + 1] === mad.CLASS_VENDOR
    const said = isCall ? (FAULTS[frame[at + mad.MAD_FAULT]!]?.name ?? '?') : 'RDMA-CM'
    ledger.name(`control: 0x${attribute.toString(16).padStart(4, '0')} ${said}`)
  }

  run(count: number): void {
    const { arena, random } = this
    const { world } = arena
    for (let left = count; left > 0 && world.complaint === ''; ) {
      const size = Math.min(left, 1 + random.below(8))
      for (let i = 0; i < size; i++) this.next()
      if (random.below(8) === 0) arena.good()
      arena.serve()
      left -= size
      this.frames += size
      if (random.below(12) === 0) world.pass(1 + random.below(60_000))
      if (random.below(500) === 0) world.pass(20_000_000)
      if (this.frames < REST_FRAMES) continue
      this.frames = 0
      arena.rest()
    }
    if (world.complaint === '') arena.rest()
  }

  private next(): void {
    const { arena, random } = this
    const { scratch, world } = arena
    if (random.below(14) === 0) {
      this.nextNeighbour()
      return
    }
    const {
      frame,
      fields,
      payloadAt,
      cm: attribute,
    } = this.messages[random.below(this.messages.length)]!
    scratch.set(frame)
    put(scratch, payloadAt + mad.MAD_TRANSACTION_LOW, 4, random.below(4) * 1000 + random.below(40))
    if (attribute === 0) this.vary(payloadAt)
    else this.identify(payloadAt, attribute)
    for (let i = random.below(4); i > 0; i--) mutateField(scratch, fields, random, arena.words)
    arena.seal(frame.length)
    world.stage(arena.view(frame.length))
  }

  /** Names of regions, and what else has to differ that a call is not always the same. */
  private vary(payloadAt: number): void {
    const { arena, random } = this
    const body = payloadAt + mad.MAD_BODY
    const { scratch } = arena
    // The last letter of `hostile0`.
    if (scratch[body] === 0x68 && random.below(2) === 0) scratch[body + 7] = random.below(256)
    if (random.below(6) === 0) put(scratch, payloadAt + mad.MAD_MODIFIER, 4, random.below(300))
    const pair = arena.pairs[random.below(arena.pairs.length)]!
    if (random.below(12) === 0) put(scratch, body, 4, pair.number)
    if (random.below(12) === 0) put(scratch, body + 4, 4, pair.peer)
    if (scratch[payloadAt + 17] !== mad.ATTRIBUTE_PUBLISH) return
    put(scratch, body + mad.PUBLISH_PORT, 2, dialogue.PORT + random.below(80))
    if (random.below(4) === 0) scratch[body + mad.PUBLISH_FLAGS] = random.below(4)
    if (random.below(8) === 0) put(scratch, body + mad.PUBLISH_CONNECTIONS, 2, random.below(4))
    if (random.below(8) !== 0) return
    scratch[body + mad.PUBLISH_SOURCES] = random.below(6)
    const first = body + mad.PUBLISH_FIRST_SOURCE
    scratch[first + 10] = scratch[first + 11] = 0xff
    scratch[first + mad.PUBLISH_SOURCE_PREFIX] = random.below(140)
  }

  /** Ids of a connection: one of a few of ours, and one that the card has given. */
  private identify(payloadAt: number, attribute: number): void {
    const { arena, random, agreed } = this
    const body = payloadAt + cm.CM_BODY
    put(arena.scratch, body, 4, 0x0a0b0000 + random.below(24))
    if (attribute === cm.CM_REQ) {
      put(arena.scratch, body + REQ_QPN, 3, 0x300 + random.below(24))
    } else if (agreed.length > 0) {
      put(arena.scratch, body + 4, 4, agreed[random.below(agreed.length)]!)
    }
  }

  private nextNeighbour(): void {
    const { arena, random } = this
    const { frame, fields } = this.neighbours[random.below(this.neighbours.length)]!
    arena.scratch.set(frame)
    for (let i = random.below(3); i > 0; i--) {
      mutateField(arena.scratch, fields, random, arena.words)
    }
    const cut = random.below(6) === 0
    arena.world.stage(arena.view(cut ? random.below(frame.length + 1) : frame.length))
  }
}
