/**
 * A scripted peer of the requester: every packet it sends is written down, every answer is put
 * together here byte by byte, and time moves only when the test says so.
 */

import { takeResponse } from '../../../firmware/transport/completer.ts'
import {
  createRequester,
  isOrdered,
  post,
  READ,
  type Request,
  type Requester,
  type RequesterOptions,
  type RequestKind,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { pump } from '../../../firmware/transport/sender.ts'
import { writeAeth } from '../../../firmware/wire/aeth.ts'
import {
  CNP,
  OPCODES,
  PERSIST_ACK,
  RC_ACKNOWLEDGE,
  RC_ATOMIC_ACK,
  RC_READ_RESPONSE_ONLY,
} from '../../../firmware/wire/opcode.ts'
import { blankPacket, type Packet } from '../../../firmware/wire/packet.ts'
import { blankPaeth, type Paeth } from '../../../firmware/wire/persist-ack.ts'
import { writeAtomicAck, writePaeth } from '../wire/headers.ts'

export const ACK = 0x1f
export const INCARNATION = 7

export interface Sent {
  tag: number
  index: number
  psn: number
  ack: boolean
  kind: RequestKind
  /** Bytes of the request, and its packets. */
  length: number
  count: number
}

export interface Peer {
  q: Requester
  sent: Sent[]
  /** What happened, in order: "received 3", "SUCCESS 3", "data 4 @256+100". */
  story: string[]
  /** What the ended requests were, by tag. */
  results: Map<number, Request>
  /** Tags of requests that no packet can be made of: whoever has them sent hears an error. */
  unmade: Set<number>
}

export function peer(options: Partial<RequesterOptions> = {}): Peer {
  const sent: Sent[] = []
  const story: string[] = []
  const results = new Map<number, Request>()
  const unmade = new Set<number>()
  const q = createRequester(
    { firstPsn: 100, pathMtu: 256, incarnation: INCARNATION, ...options },
    {
      emit: ({ tag, kind, length, packetCount, done }, index, psn, ack) => {
        if (unmade.has(tag)) throw new Error(`${tag} is not made`)
        if (done) story.push(`SENT AFTER ITS END ${tag}`)
        sent.push({ tag, index, psn, ack, kind, length, count: packetCount })
      },
      received: (request) => story.push(`received ${request.tag}`),
      data: (request, offset, _bytes, _at, length) =>
        story.push(`data ${request.tag} @${offset}+${length}`),
      complete: (request) => {
        results.set(request.tag, { ...request })
        story.push(
          request.refusal === 0
            ? `${request.status} ${request.tag}`
            : `${request.status} ${request.tag} 0x${request.refusal.toString(16)}`,
        )
      },
    },
  )
  return { q, sent, story, results, unmade }
}

export function response(opcode: number, psn: number, payloadLength = 0): [Uint8Array, Packet] {
  const packet = blankPacket()
  packet.opcode = opcode
  packet.row = OPCODES[opcode] ?? null
  packet.psn = psn
  packet.payloadLength = payloadLength
  return [new Uint8Array(128), packet]
}

export function answer(p: Peer, psn: number, syndrome: number = ACK, nowUs = 0): void {
  const [bytes, packet] = response(RC_ACKNOWLEDGE, psn)
  writeAeth(bytes, packet.row!.aethAt, { syndrome, msn: 1 })
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

export function durable(
  p: Peer,
  paeth: Partial<Paeth>,
  psn: number = paeth.lastPsn!,
  nowUs = 0,
): void {
  const [bytes, packet] = response(PERSIST_ACK, psn)
  writeAeth(bytes, packet.row!.aethAt, { syndrome: ACK, msn: 1 })
  const full = { ...blankPaeth(), all: true, incarnation: INCARNATION, copies: 2, mechanism: 1 }
  writePaeth(bytes, packet.row!.paethAt, { ...full, firstPsn: paeth.lastPsn!, ...paeth })
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

/** A READ response of the opcode: 0x0d First, 0x0e Middle, 0x0f Last, 0x10 Only. */
export function readData(
  p: Peer,
  opcode: number,
  psn: number,
  length: number,
  nowUs = 0,
  syndrome: number = ACK,
): void {
  const [bytes, packet] = response(opcode, psn, length)
  if (packet.row!.aethAt > 0) writeAeth(bytes, packet.row!.aethAt, { syndrome, msn: 1 })
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

/** The response to FLUSH and ATOMIC WRITE. */
export function executed(p: Peer, psn: number, nowUs = 0): void {
  readData(p, RC_READ_RESPONSE_ONLY, psn, 0, nowUs)
}

/** The response to an atomic: what it found. */
export function original(p: Peer, psn: number, high: number, low: number, nowUs = 0): void {
  const [bytes, packet] = response(RC_ATOMIC_ACK, psn)
  writeAeth(bytes, packet.row!.aethAt, { syndrome: ACK, msn: 1 })
  writeAtomicAck(bytes, packet.row!.atomicAckAt, { originalHigh: high, originalLow: low })
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

/** The response to a query about operation `operationLow`. */
export function told(p: Peer, psn: number, paeth: Partial<Paeth>, nowUs = 0): void {
  const range = { firstPsn: psn, lastPsn: psn, all: false, copies: 0 }
  durable(p, { ...range, query: true, ...paeth }, psn, nowUs)
}

/** A congestion notification. */
export function congestion(p: Peer, nowUs = 0): void {
  const [bytes, packet] = response(CNP, 0)
  takeResponse(p.q, bytes, packet, nowUs)
  pump(p.q, nowUs)
}

/** Posts a record of `length` bytes under operation `tag`. */
export function persist(p: Peer, tag: number, length = 64): void {
  post(p.q, WRITE_PERSIST, tag, length, 0, tag)
  pump(p.q, 0)
}

/** Posts a request of any kind; `length` counts for messages and READs. */
export function ask(p: Peer, kind: RequestKind, tag: number, length = 8, fenced = false): void {
  const counts = !isOrdered(kind) || kind === READ
  post(p.q, kind, tag, counts ? length : 0, 0, tag)!.fenced = fenced
  pump(p.q, 0)
}

export function read(p: Peer, tag: number, length: number): void {
  post(p.q, READ, tag, length, 0, 0)
  pump(p.q, 0)
}

export function psns(p: Peer): number[] {
  return p.sent.map((s) => s.psn)
}
