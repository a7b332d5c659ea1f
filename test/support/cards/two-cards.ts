/**
 * Two cards on one wire, each with its host: frames go from one to the other, in order, unless a
 * test loses them. No clock: time passes when the test says so.
 */

import * as el from '../../../firmware/host/element.ts'
import { TYPE_CONNECTED } from '../../../firmware/host/queue-info.ts'
import { putU16, putU32, u16, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { CardHost, callOf, sendCall, stationOf, takeAnswers } from '../queues/queue-calls.ts'
import {
  type Cqe,
  type ElementFields,
  elementOf,
  type PairNumbers,
  readying,
} from '../queues/queue-host.ts'
import type { Sent } from './test-card.ts'

const RAM_BYTES = 1 << 22
const ROUNDS_MAX = 10_000
const BUFFER_BYTES: number = 1 << 19

/** Last bytes of the stations' addresses; a `Card` is spoken to at 2. */
const LASTS = [3, 2] as const

export class TwoCards {
  readonly hosts: readonly [CardHost, CardHost]
  /** Every frame that was sent, with the number of its card, also if it was lost. */
  readonly sent: { from: number; frame: Sent }[] = []
  /** Whether a frame is lost. */
  loses: (from: number, frame: Sent) => boolean = () => false
  private readonly inboxes: [Uint8Array[], Uint8Array[]] = [[], []]
  private transaction = 0x1000

  constructor(queues = 64) {
    this.hosts = [this.host(0, queues), this.host(1, queues)]
  }

  private host(which: 0 | 1, queues: number): CardHost {
    const host = new CardHost(RAM_BYTES, LASTS[which])
    host.init(queues)
    host.must(mad.METHOD_SET, mad.ATTRIBUTE_FORMAT)
    return host
  }

  /** Serves both cards until nothing is on the wire, and neither wants to go on at once. */
  run(): void {
    for (let rounds = 0; ; rounds++) {
      if (rounds === ROUNDS_MAX) throw new Error('the cards are never quiet')
      const sent = this.serve(0) + this.serve(1)
      if (sent === 0) return
    }
  }

  /** Lets so many µs pass on both cards, and serves them. */
  pass(us: number): void {
    for (const { card } of this.hosts) card.now += us
    this.run()
  }

  private serve(which: 0 | 1): number {
    const { card } = this.hosts[which]
    const frames = this.inboxes[which].splice(0, 32)
    card.serve(...frames)
    for (let i = 0; card.waitUs === 1; i++) {
      if (i === ROUNDS_MAX) throw new Error('a card is never idle')
      card.idle()
    }
    for (const frame of card.sent) {
      this.sent.push({ from: which, frame })
      if (!this.loses(which, frame)) this.inboxes[which === 0 ? 1 : 0].push(frame.bytes)
    }
    return card.sent.length + this.inboxes[0].length + this.inboxes[1].length
  }

  /** A control call of host 0 to the card of host 1, over the wire. */
  call(attribute: number, fill: (body: Uint8Array) => void): Uint8Array {
    this.transaction += 1
    const [host] = this.hosts
    sendCall(host, callOf(attribute, this.transaction, fill), stationOf(LASTS[1]))
    this.run()
    const answer = takeAnswers(host).find((one) => one.transaction === this.transaction)
    if (answer?.fault !== 'PASS') throw new Error(`no good answer: ${answer?.fault}`)
    return answer.body
  }
}

interface EndOptions {
  /** Units of both queues, and entries of the completion queue of the send queue. */
  readonly units?: number
  /** Entries of the completion queue of the receive queue. */
  readonly entries?: number
  /** A buffer that is registered already. */
  readonly memory?: { readonly buffer: number; readonly lkey: number }
  /** Of both hosts: messages that the other takes at once, as was agreed. */
  readonly sendDepth?: number
}

/** One end of a connection: queues of a host, a buffer and its key. */
export class End {
  readonly rig: TwoCards
  readonly host: CardHost
  readonly cq: number
  readonly receiveCq: number
  readonly qp: PairNumbers
  readonly buffer: number
  readonly lkey: number

  constructor(rig: TwoCards, which: 0 | 1, options: EndOptions = {}) {
    const { units = 256, entries = units, memory } = options
    this.rig = rig
    this.host = rig.hosts[which]
    this.cq = this.host.createCq(units)
    this.receiveCq = this.host.createCq(entries)
    this.qp = this.host.createQp(this.cq, {
      type: TYPE_CONNECTED,
      units,
      receiveCompletions: this.receiveCq,
    })
    this.buffer = memory?.buffer ?? this.host.allocate(BUFFER_BYTES, 4096)
    this.lkey = memory?.lkey ?? this.host.register(this.buffer, BUFFER_BYTES)
  }

  /** The pair is ready, towards the station with that last byte. */
  ready(peer: Peer): this {
    this.host.must(mad.METHOD_SET, mad.ATTRIBUTE_MODIFY_QP, this.readying(peer))
    return this
  }

  /** What the call says that makes it ready. */
  readying(peer: Peer): (body: Uint8Array) => void {
    return readying(this.qp.send, { ...peer, ...stationOf(peer.last) })
  }

  /** Posts elements, all signaled, and rings once. */
  post(...elements: ElementFields[]): number[] {
    const units = elements.map((fields) =>
      this.host.post(
        this.qp.send,
        elementOf({ ...fields, flags: (fields.flags ?? 0) | el.SIGNALED }),
      ),
    )
    this.host.ring(this.qp.send)
    return units
  }

  /** Posts elements, serves both cards; the completions of sends. */
  play(...elements: ElementFields[]): Cqe[] {
    this.post(...elements)
    this.rig.run()
    return this.host.poll(this.cq)
  }

  one(fields: ElementFields): Cqe {
    const cqes = this.play(fields)
    if (cqes.length !== 1) throw new Error(`${cqes.length} completions: ${JSON.stringify(cqes)}`)
    return cqes[0]!
  }

  /** Posts receives into the buffer, and rings; each of them takes `length` bytes. */
  receive(offset: number, length: number, count = 1): void {
    for (let i = 0; i < count; i++) {
      const fields = { opcode: el.WQE_RECEIVE, ...this.at(length, offset + i * length) }
      this.host.post(this.qp.receive, elementOf(fields))
    }
    this.host.ring(this.qp.receive)
    this.rig.run()
  }

  at(length: number, offset = 0): { local: number; lkey: number; length: number } {
    return { local: this.buffer + offset, lkey: this.lkey, length }
  }

  bytes(length: number, offset = 0): Uint8Array {
    return this.host.bytes.slice(this.buffer + offset, this.buffer + offset + length)
  }

  put(data: Uint8Array, offset = 0): { local: number; lkey: number; length: number } {
    this.host.bytes.set(data, this.buffer + offset)
    return this.at(data.length, offset)
  }
}

interface Peer {
  readonly last: number
  readonly number: number
  readonly mtu: number
  readonly peerPsn: number
  readonly psn: number
  readonly incarnation: number
  readonly depth?: number
  readonly sendDepth?: number
}

/** Host 0, connected to the card of host 1, as any client of it is. */
export function toCard(rig: TwoCards, mtu = 1024, psn = 0x111111, options: EndOptions = {}): End {
  const end = new End(rig, 0, options)
  const body = rig.call(mad.ATTRIBUTE_CONNECT, (request) => {
    putU32(request, mad.CONNECT_CLIENT_QP, end.qp.number)
    putU32(request, mad.CONNECT_CLIENT_PSN, psn)
    putU16(request, mad.CONNECT_PATH_MTU, mtu)
    putU32(request, mad.CONNECT_CLIENT_ID_LOW, 7)
  })
  return end.ready({
    last: LASTS[1],
    number: u32(body, mad.CONNECT_QP),
    mtu: u16(body, mad.CONNECT_GRANTED_MTU),
    peerPsn: psn,
    psn: u32(body, mad.CONNECT_FIRST_PSN),
    incarnation: u32(body, mad.CONNECT_INCARNATION),
  })
}

/** Both hosts, connected to each other. */
export function hostToHost(
  rig: TwoCards,
  mtu = 1024,
  options: EndOptions = {},
): readonly [End, End] {
  const ends = [new End(rig, 0), new End(rig, 1, options)] as const
  for (const i of [0, 1] as const) {
    ends[i].ready({
      last: LASTS[1 - i]!,
      number: ends[1 - i]!.qp.number,
      mtu,
      peerPsn: 0xfffffe + (1 - i),
      psn: 0xfffffe + i,
      incarnation: incarnationOf(rig.hosts[1 - i]!),
      sendDepth: options.sendDepth ?? 0,
    })
  }
  return ends
}

export function incarnationOf(host: CardHost): number {
  return u32(host.must(mad.METHOD_GET, mad.ATTRIBUTE_STATUS), mad.PART_INCARNATION)
}
