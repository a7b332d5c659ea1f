/**
 * A raw host for tests of the firmware: memory, queues and doorbells by hand, without a driver,
 * without PCIe and without a clock. Everything that it does has happened when the call returns.
 *
 * Invariant: it lays its memory out once, in the order header page, zones, event ring,
 * rings of management; what is asked for later lies behind that and overlaps nothing. It checks
 * nothing: a test may store what no driver would.
 */

import { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { taggedDoorbell } from '../../../firmware/board/doorbell-tag.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import * as hal from '../../../firmware/board/hal.ts'
import { DOORBELLS, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import { QUEUE_COUNTERS, type QueueCounter } from '../../../firmware/host/host.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { SEND } from '../../../firmware/transport/requester.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { TestCard } from '../cards/test-card.ts'
import { callOf } from '../wire/conversation.ts'

/** What a work-queue element says; what is left out is 0. */
export interface ElementFields {
  readonly opcode: number
  readonly flags?: number
  /** As it is, or the length of `inline`, or the sum of `sges`. */
  readonly length?: number
  readonly rkey?: number
  /** Exact integers below 2^53: of a record, slot * 2^32. */
  readonly address?: number
  readonly operation?: number
  readonly compare?: number
  readonly local?: number
  readonly lkey?: number
  readonly immediate?: number
  readonly wait?: number
  readonly furtherCopies?: number
  /** Sets INLINE, and the units. */
  readonly inline?: Uint8Array
  readonly sges?: readonly Sge[]
  /** Sets BATCH; with a sequence that is expected, the units. */
  readonly batch?: BatchFields
}

/** The place of a record in its batch; what is left out is 0. */
export interface BatchFields {
  readonly id?: number
  readonly index?: number
  readonly count?: number
  readonly condition?: number
  /** Records of its burst behind it; with 0 it is marked as the last. */
  readonly left?: number
  readonly expect?: bigint
}

export interface Sge {
  readonly address: number
  readonly length: number
  readonly lkey: number
}

/** A completion, read. */
export interface Cqe {
  readonly number: number
  readonly queue: number
  readonly unit: number
  readonly status: number
  readonly opcode: number
  readonly flags: number
  readonly length: number
  readonly immediate: number
  readonly operation: number
  readonly psn: number
  readonly copies: number
  readonly mechanism: number
  readonly refusal: number
  readonly address: number
  readonly incarnation: number
  readonly source: number
  readonly pointer: number
}

export interface HostEvent {
  readonly type: number
  readonly queue: number
  /** Name of the fault. */
  readonly fault: string
}

export interface Zone1 {
  readonly state: number
  readonly kind: number
  readonly valid: number
  readonly type: number
  readonly pointer: number
  readonly address: number
  readonly completions: number
  readonly other: number
  readonly queuePair: number
  readonly domain: number
  readonly client: number
  /** Name of the fault that ended it. */
  readonly fault: string
  readonly generation: number
  readonly lock: number
}

/** What the host knows of a queue that it made. */
interface HostQueue {
  readonly queue: number
  /** Of the ring, in DMA_SPACE. */
  ring: number
  depth: number
  /** Units stored, or entries taken. */
  pointer: number
}

export interface PairNumbers {
  readonly send: number
  readonly receive: number
  readonly number: number
}

/** Forms of the doorbell (P3-13). */
export type Form = 'register' | 'fifo' | 'fifo with pointer' | 'trusted' | 'message'

interface ForcedQueue {
  readonly kind: number
  readonly type?: number
  readonly depth: number
  readonly completions?: number
  readonly other?: number
  readonly state?: number
  readonly domain?: number
  readonly client?: number
  readonly queuePair?: number
  /** Of an SQ or RQ the read pointer, of a CQ the entries written; and of zone 3 the same. */
  readonly pointer?: number
}

const HEADER_AT = 4096
const GSI_UNITS = 64
const GSI_ENTRIES = 128
const EVENTS = 1024
/** Calls of the firmware until it is idle; more is a loop. */
const CALLS_MAX = 100_000

/** Who is at the other end of a queue pair, and how it goes on. */
interface Towards {
  readonly number: number
  readonly mtu: number
  readonly peerPsn: number
  readonly psn: number
  readonly incarnation: number
  /** Requests that may be under way; 16 by default. */
  readonly depth?: number
  /** Messages that the peer takes at once; 0, which is any number, by default. */
  readonly sendDepth?: number
  readonly mac: readonly number[]
  readonly ipv4: readonly number[]
}

/** What the call says that makes the queue pair of that send queue ready. */
export function readying(send: number, peer: Towards): (body: Uint8Array) => void {
  return (body) => {
    putU32(body, mad.MODIFY_QP_SEND, send)
    body[mad.MODIFY_QP_STATE] = info.QUEUE_READY
    putU16(body, mad.MODIFY_QP_MTU, peer.mtu)
    putU32(body, mad.MODIFY_QP_PEER, peer.number)
    putU32(body, mad.MODIFY_QP_PEER_PSN, peer.peerPsn)
    putU32(body, mad.MODIFY_QP_PSN, peer.psn)
    putU32(body, mad.MODIFY_QP_INCARNATION, peer.incarnation)
    body[mad.MODIFY_QP_DEPTH] = peer.depth ?? 16
    putU16(body, mad.MODIFY_QP_SEND_DEPTH, peer.sendDepth ?? 0)
    body.set(peer.mac, mad.MODIFY_QP_MAC)
    body.set(peer.ipv4, mad.MODIFY_QP_IPV4)
  }
}

/** A card with a host behind it, both just switched on. */
export function hostOf(ramBytes: number = 1 << 20, partBytes: number = 1 << 18): QueueHost {
  return new QueueHost(new TestCard(partBytes, { ram: new HostRam(ramBytes) }))
}

/** What a host asks of a card, in whatever engine it runs. */
export type Hosted = Pick<TestCard, 'machine' | 'must' | 'serve' | 'idle' | 'now' | 'waitUs'>

export class QueueHost {
  /** How often the link came up; the port may have seen some of that before. */
  private ups: number
  readonly card: Hosted
  readonly ram: HostRam
  readonly bytes: Uint8Array
  readonly view: DataView
  /** The card's registers. */
  readonly port: DataView
  readonly queues: Map<number, HostQueue> = new Map()
  /** Number of queues in the header page. */
  count = 0
  zone1At = 0
  zone2At = 0
  zone3At = 0
  eventsAt = 0
  private next: number = HEADER_AT + 4096
  /** Of the last epoch begun: it goes on from what the register shows. */
  epoch: number
  /** Whether the next header page asks that pointers of doorbells are used (S1-M8). */
  trust = false
  private rings = 0
  private taken = 0
  private transaction = 0
  /** Completions of management that answer no call, in their order. */
  readonly strays: Cqe[] = []
  /** Called before each call of the firmware. */
  beforeCall: () => void = () => {}

  constructor(card: Hosted) {
    const { ram, packets } = card.machine
    if (ram === null) throw new Error('the card has no host')
    this.card = card
    this.ram = ram
    this.bytes = ram.live
    this.view = new DataView(ram.live.buffer)
    this.port = new DataView(packets.buffer, packets.byteOffset, packets.length)
    this.ups = this.port.getUint32(hal.PORT_LINK, true)
    this.epoch = this.port.getUint32(hal.PORT_EPOCH, true)
  }

  /** Room for so many bytes, zeroed as memory is at first. */
  allocate(bytes: number, align: number = UNIT_BYTES): number {
    const at = Math.ceil(this.next / align) * align
    this.next = at + bytes
    if (this.next > this.bytes.length) throw new Error('the memory of the test is too small')
    return at
  }

  /** There is a host behind the port, or none, as the board sees it. */
  setLink(up: boolean): void {
    if (up && this.port.getUint32(hal.PORT_LINK, true) === 0) this.ups += 1
    this.port.setUint32(hal.PORT_LINK, up ? this.ups : 0, true)
    if (up) return
    this.port.setUint32(hal.PORT_EPOCH, 0, true)
    this.port.setUint32(hal.PORT_REGISTER, 0, true)
  }

  /** As `init`, after the memory was lost: where things lay counts no more. */
  startAnew(count: number): this {
    this.next = HEADER_AT + 4096
    this.taken = 0
    this.queues.clear()
    return this.init(count)
  }

  /** Lays out the header page and what it names; rings the card, and serves it. */
  init(count = 16, order: number = page.ORDER_DISTANCE): this {
    this.layOut(count, order)
    this.enable()
    this.run()
    if (this.header(page.HEADER_EPOCH) !== this.epoch) {
      throw new Error(
        `the card did not take the header page: fault ${this.header(page.HEADER_FAULT)}`,
      )
    }
    for (let i = 0; i < GSI_UNITS; i++) this.postAnswerBuffer()
    return this
  }

  /** The header page and everything it names, without telling the card. */
  layOut(count: number, order: number): void {
    this.count = count
    this.zone1At = this.allocate(count * info.ZONE1_BYTES, 4096)
    this.zone2At = this.allocate(count * info.ZONE2_BYTES, 4096)
    this.zone3At = this.allocate(count * info.ZONE3_BYTES, 4096)
    this.eventsAt = this.allocate(EVENTS * page.EVENT_BYTES, 4096)
    const send = this.addQueue(page.QUEUE_GSI_SEND, GSI_UNITS)
    const receive = this.addQueue(page.QUEUE_GSI_RECEIVE, GSI_UNITS)
    const completion = this.addQueue(page.QUEUE_GSI_COMPLETION, GSI_ENTRIES)
    this.putHeader(0, page.HEADER_MAGIC)
    this.putHeader(4, page.HEADER_VERSION)
    this.putHeader(page.HEADER_QUEUES, count)
    this.putHeader(page.HEADER_R1, info.ZONE1_BYTES)
    this.putHeader(page.HEADER_R2, info.ZONE2_BYTES)
    this.putHeader(page.HEADER_R3, info.ZONE3_BYTES)
    this.put64(HEADER_AT + page.HEADER_ZONE1, this.zone1At)
    this.put64(HEADER_AT + page.HEADER_ZONE2, this.zone2At)
    this.put64(HEADER_AT + page.HEADER_ZONE3, this.zone3At)
    this.put64(HEADER_AT + page.HEADER_SEND_RING, send.ring)
    this.putHeader(page.HEADER_SEND_UNITS, GSI_UNITS)
    this.putHeader(page.HEADER_RECEIVE_UNITS, GSI_UNITS)
    this.put64(HEADER_AT + page.HEADER_RECEIVE_RING, receive.ring)
    this.put64(HEADER_AT + page.HEADER_COMPLETION_RING, completion.ring)
    this.putHeader(page.HEADER_COMPLETIONS, GSI_ENTRIES)
    this.putHeader(page.HEADER_POINTER_ORDER, order)
    this.put64(HEADER_AT + page.HEADER_EVENT_RING, this.eventsAt)
    this.putHeader(page.HEADER_EVENTS, EVENTS)
    this.putHeader(page.HEADER_TRUST, this.trust ? 1 : 0)
  }

  /** A ring of its own for queue `queue`, not yet known to the card. */
  addQueue(queue: number, depth: number): HostQueue {
    const made = { queue, ring: this.allocate(depth * UNIT_BYTES), depth, pointer: 0 }
    this.queues.set(queue, made)
    return made
  }

  /** Writes the number of the header page and a new epoch into the port. */
  enable(): void {
    this.epoch += 1
    this.setLink(true)
    this.port.setUint32(hal.PORT_HEADER, HEADER_AT / 4096, true)
    this.port.setUint32(hal.PORT_EPOCH, this.epoch, true)
  }

  header(at: number): number {
    return this.view.getUint32(HEADER_AT + at, true)
  }

  putHeader(at: number, value: number): void {
    this.view.setUint32(HEADER_AT + at, value, true)
  }

  put64(at: number, value: number): void {
    this.view.setBigUint64(at, BigInt(value), true)
  }

  get64(at: number): number {
    return Number(this.view.getBigUint64(at, true))
  }

  /** Serves the card until it wants nothing more at once. */
  run(): void {
    this.beforeCall()
    this.card.serve()
    for (let calls = 0; this.card.waitUs === 1; calls++) {
      if (calls === CALLS_MAX) throw new Error('the card is never idle')
      this.beforeCall()
      this.card.idle()
    }
  }

  /** A control call through the queues of management; the answer's fault and body. */
  manage(
    method: number,
    attribute: number,
    fill: (body: Uint8Array) => void = () => {},
    modifier = 0,
  ): { fault: string; body: Uint8Array } {
    this.ask(method, attribute, fill, modifier)
    this.run()
    const answer = this.answer()
    if (answer === null) throw new Error(`control call 0x${attribute.toString(16)}: no answer`)
    return answer
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

  /** Posts a control call and rings, without serving the card. */
  ask(method: number, attribute: number, fill: (body: Uint8Array) => void, modifier = 0): void {
    this.transaction += 1
    const call = callOf(this.transaction, method, attribute, fill, modifier)
    this.post(page.QUEUE_GSI_SEND, elementOf({ opcode: SEND, inline: call }))
    this.ring(page.QUEUE_GSI_SEND, 'fifo')
  }

  /** The answer to the last control call, if it is there; its buffer is posted again. */
  answer(): { fault: string; body: Uint8Array } | null {
    let found: { fault: string; body: Uint8Array } | null = null
    for (const cqe of this.poll(page.QUEUE_GSI_COMPLETION)) {
      if (cqe.queue !== page.QUEUE_GSI_RECEIVE || cqe.status !== el.WC_SUCCESS) {
        this.strays.push(cqe)
        continue
      }
      const { ring, depth } = this.queues.get(page.QUEUE_GSI_RECEIVE)!
      const buffer = this.get64(ring + (cqe.unit % depth) * UNIT_BYTES + el.WQE_LOCAL)
      const answer = this.bytes.slice(buffer, buffer + mad.MAD_BYTES)
      this.postAnswerBuffer(buffer)
      const head = mad.blankMad()
      mad.readMad(head, answer, 0)
      if (head.transactionLow !== this.transaction) continue
      found = { fault: FAULTS[head.fault]!.name, body: answer.slice(mad.MAD_BODY) }
    }
    return found
  }

  private postAnswerBuffer(local: number = this.allocate(mad.MAD_BYTES)): void {
    const fields = { opcode: el.WQE_RECEIVE, local, length: mad.MAD_BYTES }
    this.post(page.QUEUE_GSI_RECEIVE, elementOf(fields))
  }

  createCq(
    entries = 64,
    count = 0,
    periodUs = 0,
    ring: number = this.allocate(entries * UNIT_BYTES),
  ): number {
    const body = this.must(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_CQ, (request) => {
      putU64(request, mad.CREATE_CQ_RING, ring)
      putU32(request, mad.CREATE_CQ_ENTRIES, entries)
      putU16(request, mad.CREATE_CQ_COUNT, count)
      putU16(request, mad.CREATE_CQ_PERIOD, periodUs)
    })
    const queue = u32(body, mad.CREATE_CQ_QUEUE)
    this.adopt(queue, ring, entries)
    return queue
  }

  createQp(
    completions: number,
    options: {
      readonly type?: number
      readonly units?: number
      readonly domain?: number
      readonly client?: number
      readonly receiveCompletions?: number
      /** Where both rings lie: that of the receive queue behind the other. */
      readonly rings?: number
    } = {},
  ): PairNumbers {
    const depth = options.units ?? 64
    const sendRing = options.rings ?? this.allocate(2 * depth * UNIT_BYTES)
    const receiveRing = sendRing + depth * UNIT_BYTES
    const body = this.must(mad.METHOD_SET, mad.ATTRIBUTE_CREATE_QP, (request) => {
      request[mad.CREATE_QP_TYPE] = options.type ?? info.TYPE_LOCAL
      putU16(request, mad.CREATE_QP_DOMAIN, options.domain ?? 0)
      putU32(request, mad.CREATE_QP_SEND_CQ, completions)
      putU32(request, mad.CREATE_QP_RECEIVE_CQ, options.receiveCompletions ?? completions)
      putU32(request, mad.CREATE_QP_SEND_UNITS, depth)
      putU64(request, mad.CREATE_QP_SEND_RING, sendRing)
      putU64(request, mad.CREATE_QP_RECEIVE_RING, receiveRing)
      putU32(request, mad.CREATE_QP_RECEIVE_UNITS, depth)
      putU64(request, mad.CREATE_QP_CLIENT, options.client ?? 7)
    })
    const send = u32(body, mad.CREATE_QP_SEND)
    const receive = u32(body, mad.CREATE_QP_RECEIVE)
    this.adopt(send, sendRing, depth)
    this.adopt(receive, receiveRing, depth)
    return { send, receive, number: u32(body, mad.CREATE_QP_NUMBER) }
  }

  /** A new queue goes on from where zone 3 of its number was. */
  private adopt(queue: number, ring: number, depth: number): void {
    this.queues.set(queue, { queue, ring, depth, pointer: this.zone1(queue).pointer })
  }

  /** A queue pair with both queues, or a completion queue. */
  destroy(queue: number): void {
    this.must(mad.METHOD_SET, mad.ATTRIBUTE_DESTROY, (body) => {
      putU32(body, mad.DESTROY_QUEUE, queue)
    })
    this.queues.delete(queue)
  }

  /** The L_Key of [at, at + length). */
  register(at: number, length: number, domain = 0): number {
    const body = this.must(mad.METHOD_SET, mad.ATTRIBUTE_REGISTER, (request) => {
      putU64(request, mad.REGISTER_ADDRESS, at)
      putU64(request, mad.REGISTER_LENGTH, length)
      putU16(request, mad.REGISTER_DOMAIN, domain)
    })
    return u32(body, mad.REGISTER_LKEY)
  }

  /** Writes zones 1 and 2 of a queue as the card would, and zone 3: a queue without a call. */
  forceQueue(queue: number, shape: ForcedQueue): HostQueue {
    const made = this.addQueue(queue, shape.depth)
    const pointer = shape.pointer ?? 0
    made.pointer = pointer
    const at = this.zone1At + queue * info.ZONE1_BYTES
    this.bytes.fill(0, at, at + info.ZONE1_BYTES)
    this.bytes[at + info.Z1_STATE] = shape.state ?? info.QUEUE_READY
    this.bytes[at + info.Z1_KIND] = shape.kind
    this.bytes[at + info.Z1_VALID] = 1
    this.bytes[at + info.Z1_TYPE] = shape.type ?? info.TYPE_LOCAL
    this.view.setUint32(at + info.Z1_POINTER, pointer, true)
    this.put64(at + info.Z1_ADDRESS, made.ring + (pointer & (shape.depth - 1)) * UNIT_BYTES)
    this.view.setUint32(at + info.Z1_COMPLETIONS, shape.completions ?? 0, true)
    this.view.setUint32(at + info.Z1_OTHER, shape.other ?? 0, true)
    this.view.setUint32(at + info.Z1_QUEUE_PAIR, shape.queuePair ?? 0, true)
    this.view.setUint32(at + info.Z1_DOMAIN, shape.domain ?? 0, true)
    this.put64(at + info.Z1_CLIENT, shape.client ?? 7)
    this.view.setUint32(at + info.Z1_GENERATION, 1, true)
    const zone2 = this.zone2At + queue * info.ZONE2_BYTES
    this.bytes.fill(0, zone2, zone2 + info.ZONE2_BYTES)
    this.put64(zone2 + info.Z2_RING, made.ring)
    this.view.setUint32(zone2 + info.Z2_DEPTH, shape.depth, true)
    this.setPointer(queue)
    return made
  }

  /** Stores an element and the pointer behind it, without ringing; its first unit's number. */
  post(queue: number, element: Uint8Array): number {
    const unit = this.store(queue, element)
    this.setPointer(queue)
    return unit
  }

  /** Stores the units of an element with their stamps; the pointer in memory stays. */
  store(queue: number, element: Uint8Array): number {
    const of = this.queues.get(queue)!
    const unit = of.pointer
    const units = element.length / UNIT_BYTES
    for (let i = 0; i < units; i++) {
      const at = this.unitAt(queue, unit + i)
      this.bytes.set(element.subarray(i * UNIT_BYTES, (i + 1) * UNIT_BYTES), at)
    }
    const first = this.unitAt(queue, unit)
    this.view.setUint32(first + el.WQE_STAMP, unit + 1, true)
    this.view.setUint32(first + el.WQE_STAMP_AGAIN, unit + 1, true)
    of.pointer = (unit + units) >>> 0
    return unit
  }

  unitAt(queue: number, unit: number): number {
    const { ring, depth } = this.queues.get(queue)!
    return ring + (unit & (depth - 1)) * UNIT_BYTES
  }

  /** Zone 3: pointer and time as one word of 64 bits. */
  setPointer(
    queue: number,
    pointer: number = this.queues.get(queue)!.pointer,
    time: number = this.card.now,
  ): void {
    const at = this.zone3At + queue * info.ZONE3_BYTES
    this.view.setUint32(at + info.Z3_POINTER, pointer, true)
    this.view.setUint32(at + info.Z3_TIME, time, true)
  }

  /** Asks for an interrupt at the next completion. */
  arm(queue: number): void {
    const at = this.zone3At + queue * info.ZONE3_BYTES + info.Z3_ARM
    this.view.setUint32(at, this.view.getUint32(at, true) + 1, true)
  }

  /** Rings, without serving the card; the message is answered later. */
  ring(
    queue: number,
    form: Form = 'fifo',
    pointer: number = this.queues.get(queue)?.pointer ?? 0,
  ): void {
    if (form === 'register') {
      this.rings = (this.rings + 1) & 0xffff
      if (this.rings === 0) this.rings = 1
      this.ringRegister(((this.rings << 16) | queue) >>> 0, pointer)
    } else if (form === 'message') {
      this.ask(mad.METHOD_SET, mad.ATTRIBUTE_RING, (body) => {
        putU32(body, mad.RING_COUNT, 1)
        putU32(body, mad.RING_FIRST, queue)
        putU32(body, mad.RING_FIRST + 4, pointer)
      })
    } else if (form === 'trusted') {
      this.ringFifo(taggedDoorbell(queue, pointer, this.epoch), pointer)
    } else {
      this.ringFifo(form === 'fifo' ? queue : (queue | hal.CARRIES_POINTER) >>> 0, pointer)
    }
  }

  /** Whether the card has recorded the doorbell in its register (P3-13). */
  get registerIsFree(): boolean {
    const rung = this.port.getUint32(hal.PORT_REGISTER, true)
    return rung === 0 || this.header(page.HEADER_RECORDED) === rung
  }

  /** Both words of the register doorbell. */
  ringRegister(low: number, pointer: number): void {
    this.port.setUint32(hal.PORT_REGISTER, low, true)
    this.port.setUint32(hal.PORT_POINTER, pointer, true)
  }

  /** Appends to the ring of the port, as the board does; false if it was full. */
  ringFifo(low: number, pointer: number): boolean {
    const { port } = this
    const produced = port.getUint32(hal.PORT_PRODUCED, true)
    if (info.ahead(produced, port.getUint32(hal.PORT_CONSUMED, true)) >= DOORBELLS) {
      port.setUint32(hal.PORT_DROPPED, port.getUint32(hal.PORT_DROPPED, true) + 1, true)
      return false
    }
    const at = hal.PORT_RING + (produced & (DOORBELLS - 1)) * hal.DOORBELL_BYTES
    port.setUint32(at, low, true)
    port.setUint32(at + 4, pointer, true)
    port.setUint32(hal.PORT_PRODUCED, produced + 1, true)
    return true
  }

  /** Takes the completions that are there, and says so in zone 3. */
  poll(cq: number): Cqe[] {
    const taken: Cqe[] = []
    const of = this.queues.get(cq)!
    for (let cqe = this.peek(cq); cqe !== null; cqe = this.peek(cq)) {
      taken.push(cqe)
      of.pointer = (of.pointer + 1) >>> 0
    }
    if (taken.length > 0) this.setPointer(cq)
    return taken
  }

  /** The completions that are there; they stay. */
  waiting(cq: number): Cqe[] {
    const found: Cqe[] = []
    const first = this.queues.get(cq)!.pointer
    for (let cqe = this.peek(cq); cqe !== null; cqe = this.peek(cq, first + found.length)) {
      found.push(cqe)
    }
    return found
  }

  /** The completion that is next, or has that number, if it is there. */
  peek(cq: number, number: number = this.queues.get(cq)!.pointer): Cqe | null {
    const at = this.unitAt(cq, number)
    const word = (offset: number): number => this.view.getUint32(at + offset, true)
    const stamp = (number + 1) >>> 0
    if (word(el.CQE_STAMP) !== stamp || word(el.CQE_STAMP_AGAIN) !== stamp) return null
    return {
      number,
      queue: word(el.CQE_QUEUE),
      unit: word(el.CQE_UNIT),
      status: this.bytes[at + el.CQE_STATUS]!,
      opcode: this.bytes[at + el.CQE_OPCODE]!,
      flags: this.view.getUint16(at + el.CQE_FLAGS, true),
      length: word(el.CQE_LENGTH),
      immediate: word(el.CQE_IMMEDIATE),
      operation: this.get64(at + el.CQE_OPERATION),
      psn: word(el.CQE_PSN),
      copies: this.bytes[at + el.CQE_COPIES]!,
      mechanism: this.bytes[at + el.CQE_MECHANISM]!,
      refusal: this.bytes[at + el.CQE_REFUSAL]!,
      address: this.get64(at + el.CQE_ADDRESS),
      incarnation: word(el.CQE_INCARNATION),
      source: word(el.CQE_SOURCE),
      pointer: word(el.CQE_POINTER),
    }
  }

  /** Takes the events that are there. */
  events(): HostEvent[] {
    const events: HostEvent[] = []
    for (;;) {
      const at = this.eventsAt + (this.taken & (EVENTS - 1)) * page.EVENT_BYTES
      if (this.view.getUint32(at + page.EVENT_STAMP, true) !== this.taken + 1) break
      events.push({
        type: this.bytes[at + page.EVENT_TYPE]!,
        queue: this.view.getUint32(at + page.EVENT_QUEUE, true),
        fault: faultIn(this.view.getUint32(at + page.EVENT_FAULT, true)),
      })
      this.taken += 1
    }
    this.putHeader(page.HEADER_EVENTS_TAKEN, this.taken)
    return events
  }

  zone1(queue: number): Zone1 {
    const at = this.zone1At + queue * info.ZONE1_BYTES
    const word = (offset: number): number => this.view.getUint32(at + offset, true)
    return {
      state: this.bytes[at + info.Z1_STATE]!,
      kind: this.bytes[at + info.Z1_KIND]!,
      valid: this.bytes[at + info.Z1_VALID]!,
      type: this.bytes[at + info.Z1_TYPE]!,
      pointer: word(info.Z1_POINTER),
      address: this.get64(at + info.Z1_ADDRESS),
      completions: word(info.Z1_COMPLETIONS),
      other: word(info.Z1_OTHER),
      queuePair: word(info.Z1_QUEUE_PAIR),
      domain: word(info.Z1_DOMAIN),
      client: this.get64(at + info.Z1_CLIENT),
      fault: FAULTS[word(info.Z1_FAULT)]!.name,
      generation: word(info.Z1_GENERATION),
      lock: word(info.Z1_LOCK),
    }
  }

  /** What the card counted, asked over the wire, which moves none of these counters. */
  counters(): Record<QueueCounter, number> {
    const counts: Partial<Record<QueueCounter, number>> = {}
    for (let from = 0; from < QUEUE_COUNTERS.length; from += mad.QUEUES_COUNTERS_PER_MAD) {
      const body = this.card.must(mad.METHOD_GET, mad.ATTRIBUTE_QUEUES, undefined, from)
      const here = u32(body, mad.QUEUES_COUNTERS_HERE)
      for (let i = 0; i < here; i++) {
        counts[QUEUE_COUNTERS[from + i]!] = u64(body, mad.QUEUES_COUNTERS + 8 * i)
      }
    }
    return counts as Record<QueueCounter, number>
  }

  setCache(policy: number, n = 1, ageUs = 0, capacity = 0): void {
    this.card.must(mad.METHOD_SET, mad.ATTRIBUTE_CACHE, (body) => {
      body[mad.CACHE_POLICY] = policy
      putU16(body, mad.CACHE_N, n)
      putU32(body, mad.CACHE_AGE, ageUs)
      putU32(body, mad.CACHE_CAPACITY, capacity)
    })
  }
}

/** Its name; of what is no fault, the number. */
function faultIn(word: number): string {
  return FAULTS[word]?.name ?? `${word}`
}

export function putU64(bytes: Uint8Array, at: number, value: number): void {
  putU32(bytes, at, Math.floor(value / 2 ** 32))
  putU32(bytes, at + 4, value >>> 0)
}

export function u64(bytes: Uint8Array, at: number): number {
  return u32(bytes, at) * 2 ** 32 + u32(bytes, at + 4)
}

/** The units of an element, without stamps. */
export function elementOf(fields: ElementFields): Uint8Array {
  const { inline, sges = [] } = fields
  const { batch } = fields
  const first = (inline?.length ?? 0) + sges.length * el.SGE_BYTES
  const expectAt = Math.ceil(first / el.EXPECT_BYTES) * el.EXPECT_BYTES
  const behind = batch?.expect === undefined ? first : expectAt + el.EXPECT_BYTES
  const units = 1 + Math.ceil(behind / UNIT_BYTES)
  const bytes = new Uint8Array(units * UNIT_BYTES)
  const view = new DataView(bytes.buffer)
  const put64 = (at: number, value: number): void => view.setBigUint64(at, BigInt(value), true)
  const sum = sges.reduce((total, sge) => total + sge.length, 0)
  bytes[el.WQE_OPCODE] = fields.opcode
  bytes[el.WQE_UNITS] = units
  const flags =
    (fields.flags ?? 0) |
    (inline === undefined ? 0 : el.INLINE) |
    (batch === undefined ? 0 : el.BATCH)
  view.setUint16(el.WQE_FLAGS, flags, true)
  view.setUint32(el.WQE_LENGTH, fields.length ?? inline?.length ?? sum, true)
  view.setUint32(el.WQE_RKEY, fields.rkey ?? 0, true)
  put64(el.WQE_ADDRESS, fields.address ?? 0)
  put64(el.WQE_OPERATION, fields.operation ?? 0)
  put64(el.WQE_COMPARE, fields.compare ?? 0)
  put64(el.WQE_LOCAL, fields.local ?? 0)
  view.setUint32(el.WQE_LKEY, fields.lkey ?? 0, true)
  view.setUint32(el.WQE_IMMEDIATE, fields.immediate ?? 0, true)
  bytes[el.WQE_WAIT] = fields.wait ?? 0
  bytes[el.WQE_ENTRIES] = sges.length
  bytes[el.WQE_FURTHER_COPIES] = fields.furtherCopies ?? 0
  if (inline !== undefined) bytes.set(inline, UNIT_BYTES)
  if (batch !== undefined) {
    const last = (batch.left ?? 0) === 0 ? el.LAST_OF_BATCH : 0
    bytes[el.WQE_CONDITION] = ((batch.condition ?? 0) << el.CONDITION_SHIFT) | last
    bytes[el.WQE_BATCH_INDEX] = batch.index ?? 0
    bytes[el.WQE_BATCH_COUNT] = (batch.count ?? 1) - 1
    bytes[el.WQE_BATCH_LEFT] = batch.left ?? 0
    view.setUint16(el.WQE_BATCH_ID, batch.id ?? 0, true)
    if (batch.expect !== undefined) view.setBigUint64(UNIT_BYTES + expectAt, batch.expect, true)
  }
  sges.forEach((sge, i) => {
    const at = UNIT_BYTES + i * el.SGE_BYTES
    put64(at, sge.address)
    view.setUint32(at + el.SGE_LENGTH, sge.length, true)
    view.setUint32(at + el.SGE_LKEY, sge.lkey, true)
  })
  return bytes
}
