/**
 * The driver of a card behind PCIe: memory, management, queues, and what the card tells of itself
 * (source 3).
 *
 *     const device = await PcieDevice.open(port)
 *     const cq = await device.createCq({ entries: 256 })
 *     const qp = await device.createQp({ type: 'local', sendCq: cq })
 *     qp.post({ kind: 'nop', done: ({ status }) => … })
 *
 * Invariants:
 * - The card hears of the header page only when everything that it names is in place; until it says
 *   that it has taken it, nothing is posted.
 * - What a queue has to say is said to it: completions to their elements, events to their queues;
 *   a doorbell or an interrupt that got lost is made good by looking again (watchdog.ts).
 * - When the card is gone every queue has ended, what was outstanding as WR_FLUSH_ERR, once, before
 *   `onRemoved` is called. `reopen` starts again with an empty card; buffers stay.
 */

import type { HostPort, SharedMemory } from '../../boards/host-port.ts'
import { PORT_AT, PORT_EPOCH, PORT_HEADER } from '../../firmware/board/hal.ts'
import { QUEUE_DEPTH_MAX, UNIT_BYTES } from '../../firmware/board/limits.ts'
import { HEADER_PAGE_BYTES } from '../../firmware/board/memory-map.ts'
import * as page from '../../firmware/host/header-page.ts'
import { type Clock, sleep } from '../base/clock.ts'
import { ArgumentError, faultOfNumber, PerdureError, RefusedError } from '../base/errors.ts'
import {
  BOOLEAN,
  check,
  checkDomain,
  DURATION,
  having,
  instanceOf,
  integer,
  OBJECT,
  oneOf,
  refuse,
  SIZE,
  shown,
  WORD,
  wide,
} from '../base/kinds.ts'
import { joined } from '../base/wide.ts'
import type { Endpoint } from '../base/wire.ts'
import { Calls, type DatagramWay } from '../control/calls.ts'
import { Management } from '../control/management.ts'
import { randomSource, SEED } from '../way/options.ts'
import { CardRemoved } from '../way/queue-errors.ts'
import type { Range } from '../way/work-request.ts'
import { Control, RINGS_MAX } from './control.ts'
import { ManagementQueue } from './management-queue.ts'
import { checkRoom, type OnDemandOptions, OnDemandRegion } from './on-demand.ts'
import { isPowerOfTwo } from './queues/arena.ts'
import { HostBuffer, PostedRanges } from './queues/buffers.ts'
import {
  CardQueuePair,
  destroyWhenIdle,
  QUEUE_PAIR_TYPES,
  type QueuePairOptions,
} from './queues/card-queue-pair.ts'
import { CompletionQueue, type Moderation } from './queues/completion-queue.ts'
import {
  type Doorbell,
  FifoDoorbell,
  MessageDoorbell,
  RegisterDoorbell,
  TrustedDoorbell,
} from './queues/doorbell.ts'
import { checkInlineRule } from './queues/element.ts'
import { readEvent } from './queues/events.ts'
import { checkDepth, Layout, type LayoutOptions } from './queues/layout.ts'
import type { InlineRule, QueueEvent } from './queues/values.ts'
import { type QueueGround, WorkQueue } from './queues/work-queue.ts'
import { Zones } from './queues/zones.ts'
import { Watchdog } from './watchdog.ts'

export interface PcieOptions extends LayoutOptions, Partial<InlineRule> {
  /**
   * Whether a doorbell of the form 'fifo' carries the write pointer; true by default, and always so
   * of the form 'trusted'.
   */
  readonly doorbellCarriesPointer?: boolean
  /** Longest wait for the card, in opening it and in one control call, ms; 5000 by default. */
  readonly timeoutMs?: number
  /** How often whoever waits looks again, µs; 5000 by default. */
  readonly watchdogUs?: number
  /** Makes transaction ids repeatable. */
  readonly seed?: number
}

/** A completion queue to be made. */
interface CompletionQueueOptions extends Moderation {
  /** Entries, a power of two. */
  readonly entries: number
}

/** Takes datagrams: `length` bytes at `at`. `from` is who sent it: null for the local card. */
export type DatagramHandler = (
  bytes: Uint8Array,
  at: number,
  length: number,
  from: Endpoint | null,
) => void

/** Bytes up to which work has its bytes in the element, unless told otherwise. */
const INLINE_MAX = 256

/** Between two looks at the header page, µs: the first, and the longest. */
const OPENING_US = 5
const OPENING_US_MAX = 1000
/** A card that had a host before lets go of its memory within this, µs. */
const LETTING_GO_US = 1000

/** What a register says when there is no card. */
const NO_CARD = 0xffffffff

const EVENTS_AT_ONCE = 4096

/** Why a completion queue is not ended now, but may be in a moment. */
const CQ_PASSING: ReadonlySet<string> = new Set(['QUEUE_LOCKED', 'DMA'])

const PORT = having(['readRegister', 'writeRegister', 'onInterrupt', 'setTimer'], 'a HostPort')
const PAGED = having(['use', 'load', 'store'], 'a PagedMemory')

type State = 'opening' | 'open' | 'removed' | 'closed'

/** Memory that was registered, and may be named in elements. */
interface MemoryRegion extends Range {
  /** Protection domain. */
  readonly domain: number
}

/** One of several users of a device: told as its owner is, by the callbacks of the device. */
export interface DeviceWatcher {
  happened?(event: QueueEvent): void
  /** The card is gone, and every queue has ended. */
  removed?(): void
  /** It is there again. */
  returned?(): void
}

export class PcieDevice implements Clock {
  readonly port: HostPort
  readonly memory: SharedMemory
  readonly layout: Layout
  readonly zones: Zones
  /** Told of every event, behind what the device itself makes of it. */
  onEvent: (event: QueueEvent) => void = () => {}
  /** Told when the card is gone, and when it is there again: `reopen` then works. */
  onRemoved: () => void = () => {}
  onReturned: () => void = () => {}
  readonly watchers: Set<DeviceWatcher> = new Set()
  /** Whoever wants to see the datagrams that come. */
  readonly onDatagram: Set<DatagramHandler> = new Set()
  private readonly options: PcieOptions
  private readonly rule: InlineRule
  private readonly random: () => number
  private readonly watchdog: Watchdog
  private readonly workQueues: Map<number, WorkQueue> = new Map()
  private readonly pairs: Map<number, CardQueuePair> = new Map()
  private readonly completionQueues: Map<number, CompletionQueue> = new Map()
  private readonly domains: Map<number, Promise<number>> = new Map()
  private readonly onDemand: Set<OnDemandRegion> = new Set()
  private readonly posted: PostedRanges = new PostedRanges()
  private readonly timers: Set<() => void> = new Set()
  private readonly ending: Map<CompletionQueue, Promise<void>> = new Map()
  private state: State = 'opening'
  private epoch = 0
  private interrupts = 0
  private eventsTaken = 0
  private quietLooks = 0
  private speakers = 0
  private queue: ManagementQueue | null = null
  private client: Management | null = null
  private calls: Control | null = null
  private ground: QueueGround | null = null

  private constructor(port: HostPort, options: PcieOptions) {
    const { inlineMax = INLINE_MAX, inlineKinds = null, watchdogUs = 5000 } = options
    this.rule = { inlineMax, inlineKinds }
    checkInlineRule(this.rule)
    checkSpan('watchdogUs', watchdogUs, 1)
    const { timeoutMs = 1, seed = 0, doorbellCarriesPointer = true } = options
    checkSpan('timeoutMs', timeoutMs, 0)
    check('seed', seed, SEED)
    check('doorbellCarriesPointer', doorbellCarriesPointer, BOOLEAN)
    checkChoice('doorbell', options.doorbell, ['fifo', 'trusted', 'register', 'message'])
    if (options.doorbell === 'trusted' && !doorbellCarriesPointer) {
      throw new ArgumentError("doorbell 'trusted': it carries the pointer")
    }
    checkChoice('pointerOrder', options.pointerOrder, ['distance', 'time'])
    this.port = port
    this.memory = port.memory
    this.options = { ...options }
    this.random = randomSource(options.seed)
    this.layout = new Layout(port.memory.bytes, options)
    this.zones = new Zones(port.memory, this.layout, () => port.now())
    this.watchdog = new Watchdog(this, watchdogUs, () => this.lookAfter())
  }

  /**
   * Takes the card behind the port into use. Rejects with PERDURE_ARGUMENT, MemoryFull,
   * CardRemoved, RefusedError if the card refuses the header page, and PERDURE_UNREACHABLE.
   */
  static async open(port: HostPort, options: PcieOptions = {}): Promise<PcieDevice> {
    check('port', port, PORT)
    check('options', options, OBJECT)
    const device = new PcieDevice(port, options)
    port.onInterrupt(() => device.interrupted())
    await device.start()
    return device
  }

  /** µs, on the port's clock. */
  now(): number {
    return this.port.now()
  }

  /** What still waits when the device is closed is called then: it would never be. */
  setTimer(atUs: number, callback: () => void): () => void {
    const run = (): void => {
      this.timers.delete(run)
      callback()
    }
    const cancel = this.port.setTimer(atUs, run)
    this.timers.add(run)
    return () => {
      this.timers.delete(run)
      cancel()
    }
  }

  get isOpen(): boolean {
    return this.state === 'open'
  }

  /** Control calls to the local card. Throws CardRemoved without one. */
  get management(): Management {
    this.check()
    return this.client!
  }

  /** The control calls that only the host may make. Throws CardRemoved without a card. */
  get control(): Control {
    this.check()
    return this.calls!
  }

  /** The card's port on the network. */
  get endpoint(): Endpoint {
    const { header } = this.layout
    return {
      mac: [...this.memory.load(header + page.HEADER_MAC, 6)],
      ipv4: [...this.memory.load(header + page.HEADER_IPV4, 4)],
    }
  }

  /** Largest path MTU of the port, bytes. */
  get pathMtu(): number {
    return this.memory.loadWord(this.layout.header + page.HEADER_PATH_MTU) >>> 0
  }

  private check(): void {
    this.checkNotClosed()
    if (this.state !== 'open') throw new CardRemoved()
  }

  private checkNotClosed(): void {
    if (this.state === 'closed') throw new PerdureError('PERDURE_CLOSED', 'the device was closed')
  }

  /** Throws if the card that was asked is not the one that is in use now. */
  private checkSame(control: Control): void {
    this.check()
    if (this.calls !== control) throw new CardRemoved()
  }

  // ---- opening ---------------------------------------------------------------------------------

  private async start(): Promise<void> {
    const { port, layout } = this
    this.state = 'opening'
    const before = this.readEpoch()
    if (before === NO_CARD) throw new CardRemoved()
    if (before !== 0) {
      port.writeRegister(PORT_EPOCH - PORT_AT, 0)
      await sleep(this, LETTING_GO_US)
      this.checkNotClosed()
    }
    layout.write(this.memory)
    this.epoch = (Math.max(this.epoch, before) % (NO_CARD - 1)) + 1
    this.interrupts = 0
    this.eventsTaken = 0
    port.writeRegister(PORT_HEADER - PORT_AT, layout.header / HEADER_PAGE_BYTES)
    port.writeRegister(PORT_EPOCH - PORT_AT, this.epoch)
    await this.untilTaken()
    this.serve()
    await Promise.all([...this.onDemand].map((region) => this.registerAgain(region)))
  }

  private readEpoch(): number {
    return this.port.readRegister(PORT_EPOCH - PORT_AT) >>> 0
  }

  private headerWord(at: number): number {
    return this.memory.loadWord(this.layout.header + at) >>> 0
  }

  /** Waits until the card says that it has taken the header page. */
  private async untilTaken(): Promise<void> {
    const timeoutUs = this.timeoutUs
    const endUs = this.now() + timeoutUs
    for (let waitUs = OPENING_US; ; waitUs = Math.min(2 * waitUs, OPENING_US_MAX)) {
      if (this.headerWord(page.HEADER_EPOCH) === this.epoch) return
      const fault = this.headerWord(page.HEADER_FAULT)
      if (fault !== 0) throw new RefusedError(faultOfNumber(fault), 0, 'the header page')
      if (this.readEpoch() === NO_CARD) throw new CardRemoved()
      if (this.now() >= endUs) {
        const what = `the card did not take the header page within ${timeoutUs / 1000} ms`
        throw new PerdureError('PERDURE_UNREACHABLE', what)
      }
      await sleep(this, waitUs)
      this.checkNotClosed()
    }
  }

  private get timeoutUs(): number {
    return (this.options.timeoutMs ?? 5000) * 1000
  }

  /** Makes the queues of management, and what stands on them. */
  private serve(): void {
    const { port, memory, zones, layout, options } = this
    const isTrusting = this.headerWord(page.HEADER_TRUSTED) === 1
    const fifo = isTrusting
      ? new TrustedDoorbell(port, this.epoch)
      : new FifoDoorbell(port, options.doorbellCarriesPointer ?? true)
    const datagrams: DatagramWay = {
      now: () => this.now(),
      setTimer: (atUs, callback) => this.setTimer(atUs, callback),
      onDatagram: null,
      nextSpeaker: () => this.nextSpeaker(),
      sendDatagram: (datagram) => this.sendDatagram(datagram),
    }
    this.client = new Management(new Calls(datagrams, this.timeoutUs, this.random))
    const calls = new Control(this.client)
    this.calls = calls
    const { arena } = layout
    const basis = { memory, arena, zones, calls, sleep: (us: number) => sleep(this, us) }
    this.ground = { ...basis, doorbell: this.makeDoorbell(fifo, calls) }
    this.state = 'open'
    this.queue = new ManagementQueue({ ...basis, doorbell: fifo }, layout, (datagram, from) => {
      // What the local card was asked, nobody else answers.
      if (from === null) datagrams.onDatagram?.(datagram, 0, datagram.length)
      for (const handler of this.onDatagram) handler(datagram, 0, datagram.length, from)
    })
  }

  private makeDoorbell(fifo: Doorbell, calls: Control): Doorbell {
    const { doorbell = 'fifo' } = this.options
    if (doorbell === 'register') return new RegisterDoorbell(this.port, this.layout.header)
    if (doorbell === 'message') return new MessageDoorbell((rings) => calls.ring(rings), RINGS_MAX)
    return fifo
  }

  /** A number for whoever speaks to a DPU over this device: no other has it. */
  nextSpeaker(): number {
    return this.speakers++
  }

  /** Sends a datagram of 256 bytes to the card, or through it to another's QP 1. */
  sendDatagram(datagram: Uint8Array, to?: Endpoint): void {
    if (this.queue === null) return
    this.queue.post(datagram, to)
    this.watchdog.watch(this.queue)
  }

  // ---- memory ----------------------------------------------------------------------------------

  /** A buffer of so many bytes that the card reaches. Throws MemoryFull. */
  alloc(bytes: number): HostBuffer {
    return new HostBuffer(this.memory, this.layout.arena, bytes)
  }

  /** L_Key of the whole arena in a protection domain: every buffer of `alloc` is in it. */
  arenaKey(domain: number): Promise<number> {
    checkDomain(domain)
    let key = this.domains.get(domain)
    if (key === undefined) {
      const { at, bytes } = this.layout.arena
      key = this.control.register(at, bytes, domain)
      this.domains.set(domain, key)
      key.catch(() => this.domains.delete(domain))
    }
    return key
  }

  /** Registers `length` bytes at `address` in a protection domain, 0 to 65535. */
  async regMr(address: number, length: number, domain = 0): Promise<MemoryRegion> {
    check('address', address, SIZE)
    check('length', length, SIZE)
    const inside = address >= this.layout.arena.at && address + length <= this.memory.bytes
    if (!(inside && length > 0)) {
      throw new ArgumentError(`${length} bytes at ${address} are not in the arena`)
    }
    checkDomain(domain)
    const lkey = await this.control.register(address, length, domain)
    return { address, length, lkey, domain }
  }

  /** No element that comes later can name the region. */
  async deregMr(region: MemoryRegion): Promise<void> {
    check('a memory region', region, OBJECT)
    check('lkey', region.lkey, WORD)
    await this.control.deregister(region.lkey)
  }

  /**
   * Offers memory whose pages come and go to others, as `dpu.openBytes(name)`. It is offered again
   * whenever the device is reopened. Rejects with PERDURE_ARGUMENT, RefusedError.
   */
  async registerOnDemand(options: OnDemandOptions): Promise<OnDemandRegion> {
    check('options', options, OBJECT)
    check('memory', options.memory, PAGED)
    const { control } = this
    checkRoom(options.memory)
    const region = new OnDemandRegion(options, () => this.onDemand.delete(region))
    await region.register(control)
    this.onDemand.add(region)
    this.checkSame(control)
    return region
  }

  /** A region of which the card does not take any more has ended. */
  private async registerAgain(region: OnDemandRegion): Promise<void> {
    try {
      await region.register(this.control)
    } catch (error) {
      if (this.state === 'open') await region.end()
      else if (!(error instanceof PerdureError)) throw error
    }
  }

  // ---- queues ----------------------------------------------------------------------------------

  /** Makes a completion queue. Rejects with PERDURE_ARGUMENT, MemoryFull, RefusedError. */
  async createCq(options: CompletionQueueOptions): Promise<CompletionQueue> {
    check('options', options, OBJECT)
    const { entries, count = 0, periodUs = 0 } = options
    checkDepth('entries', entries)
    check('count', count, integer(0, 0xffff))
    check('periodUs', periodUs, integer(0, 0xffff))
    const { arena } = this.layout
    const { control } = this
    const ring = arena.alloc(entries * UNIT_BYTES)
    try {
      this.memory.store(ring, new Uint8Array(entries * UNIT_BYTES))
      const queue = await control.createCq({ ring, entries, count, periodUs })
      this.checkSame(control)
      const queueOf = (number: number): WorkQueue | undefined => this.workQueues.get(number)
      const moderation = { count, periodUs }
      const cq = new CompletionQueue(this.ground!, queue, ring, entries, moderation, queueOf)
      this.completionQueues.set(queue, cq)
      const late = new LateRing(cq)
      cq.onArmed = () => this.watchdog.watch(late.again())
      return cq
    } catch (error) {
      arena.release(ring)
      throw error
    }
  }

  /** Ends a completion queue; refused with QUEUE_BUSY while a queue pair names it. */
  async destroyCq(cq: CompletionQueue): Promise<void> {
    check('a completion queue', cq, instanceOf(CompletionQueue, 'one of this device'))
    // After a card was gone its number may be another's.
    if (this.completionQueues.get(cq.queue) !== cq) return
    // Asked twice, the second call might end another queue that has got the number meanwhile.
    const ending = this.ending.get(cq) ?? this.endAtCard(cq).finally(() => this.ending.delete(cq))
    this.ending.set(cq, ending)
    await ending
  }

  private async endAtCard(cq: CompletionQueue): Promise<void> {
    await destroyWhenIdle(this.control, this.ground!, cq.queue, undefined, CQ_PASSING)
    if (this.completionQueues.get(cq.queue) !== cq) return
    cq.finish('')
    this.completionQueues.delete(cq.queue)
    cq.freeRings()
  }

  /**
   * Who writes over a new pair. Whoever is at the other end of a connected one is nobody that the
   * card knows, and numbers operations as it likes: two of them must not be taken for one.
   */
  private clientOf(type: QueuePairOptions['type']): bigint {
    return type === 'connected' ? joined(this.random(), this.random()) : 0n
  }

  /**
   * Makes a queue pair; one that is connected has to be made `ready` then. Rejects with
   * PERDURE_ARGUMENT, MemoryFull, RefusedError.
   */
  async createQp(asked: QueuePairOptions): Promise<CardQueuePair> {
    check('options', asked, OBJECT)
    const options = { ...asked }
    const { sendCq, receiveCq = sendCq, domain = 0, sendUnits = 128 } = options
    const clientId = options.clientId ?? this.clientOf(options.type)
    const { receiveUnits = sendUnits } = options
    checkQueuePair(options, sendUnits, receiveUnits)
    checkDomain(domain)
    const rule = {
      inlineMax: options.inlineMax ?? this.rule.inlineMax,
      inlineKinds: options.inlineKinds === undefined ? this.rule.inlineKinds : options.inlineKinds,
    }
    checkInlineRule(rule)
    const { arena } = this.layout
    const { control } = this
    for (const cq of [sendCq, receiveCq]) {
      if (cq instanceof CompletionQueue && this.completionQueues.get(cq.queue) === cq) continue
      throw new ArgumentError('a completion queue that is not, or no more, of this device')
    }
    const lkey = await this.arenaKey(domain)
    const sendRing = arena.alloc(sendUnits * UNIT_BYTES)
    let receiveRing = 0
    try {
      receiveRing = arena.alloc(receiveUnits * UNIT_BYTES)
      this.memory.store(sendRing, new Uint8Array(sendUnits * UNIT_BYTES))
      this.memory.store(receiveRing, new Uint8Array(receiveUnits * UNIT_BYTES))
      const numbers = await control.createQp({
        type: QUEUE_PAIR_TYPES[options.type],
        domain,
        sendCq: sendCq.queue,
        receiveCq: receiveCq.queue,
        sendRing,
        sendUnits,
        receiveRing,
        receiveUnits,
        clientId,
      })
      this.checkSame(control)
      const ground = this.ground!
      const send = new WorkQueue(ground, numbers.send, sendRing, sendUnits)
      const receive = new WorkQueue(ground, numbers.receive, receiveRing, receiveUnits)
      const { posted } = this
      const forget = (): void => this.forget(send.queue, receive.queue)
      const parts = { ground, control, send, receive, posted, rule, lkey, forget }
      const pair = new CardQueuePair(parts, numbers, options)
      this.remember(pair)
      return pair
    } catch (error) {
      arena.release(sendRing)
      if (receiveRing !== 0) arena.release(receiveRing)
      throw error
    }
  }

  private remember(pair: CardQueuePair): void {
    for (const queue of [pair.send, pair.receive]) {
      this.workQueues.set(queue.queue, queue)
      this.pairs.set(queue.queue, pair)
    }
    pair.send.onPosted = () => this.watchdog.watch(pair)
    const late = new LateRing(pair.receive)
    pair.receive.onPosted = () => this.watchdog.watch(late.again())
  }

  private forget(...queues: number[]): void {
    for (const queue of queues) {
      this.workQueues.delete(queue)
      this.pairs.delete(queue)
    }
  }

  // ---- what the card says ----------------------------------------------------------------------

  private interrupted(): void {
    if (this.state === 'removed') {
      if (this.readEpoch() === NO_CARD) return
      for (const one of [...this.watchers]) one.returned?.()
      this.onReturned()
      return
    }
    if (this.state !== 'open') return
    const count = this.headerWord(page.HEADER_INTERRUPTS)
    if (count === this.interrupts && !this.isThere()) return
    this.interrupts = count
    this.look()
  }

  /** Everything that the card may have written. */
  private look(): void {
    this.ground?.doorbell.look()
    this.takeEvents()
    this.queue?.completions.look()
  }

  /** At every turn of the watchdog: an interrupt may have got lost, or the card. */
  private lookAfter(): void {
    if (this.state !== 'open') return
    const count = this.headerWord(page.HEADER_INTERRUPTS)
    this.quietLooks = count === this.interrupts ? this.quietLooks + 1 : 0
    this.interrupts = count
    if (this.quietLooks > 0 && !this.isThere()) return
    this.look()
  }

  /** Whether the card is there, and ours; if not, everything has ended when this returns. */
  private isThere(): boolean {
    if (this.readEpoch() === this.epoch) return true
    this.lose()
    return false
  }

  private takeEvents(): void {
    const { layout, memory } = this
    let lost = false
    let taken = 0
    for (; taken < EVENTS_AT_ONCE && this.state === 'open'; taken++) {
      const slot = this.eventsTaken & (layout.events - 1)
      const event = readEvent(memory, layout.eventRing + slot * page.EVENT_BYTES, this.eventsTaken)
      if (event === null) break
      this.eventsTaken = (this.eventsTaken + 1) >>> 0
      if (event.type === 'lost') lost = true
      this.happened(event)
    }
    if (taken > 0 && this.state === 'open') {
      memory.storeWord(layout.header + page.HEADER_EVENTS_TAKEN, this.eventsTaken)
    }
    if (lost) this.lookAtEverything()
  }

  private happened(event: QueueEvent): void {
    const { type, queue, fault } = event
    const cq = this.completionQueues.get(queue)
    if (type === 'completion') {
      cq?.woken()
    } else if (event.pages !== undefined) {
      for (const region of this.onDemand) if (region.rkey === queue) region.told(event)
    } else if (type === 'disconnected') {
      this.pairs.get(queue)?.onDisconnected()
    } else if (cq !== undefined && (type === 'error' || type === 'overrun')) {
      this.endCq(cq, fault)
    } else if (type === 'error') {
      this.pairs.get(queue)?.fail(fault)
      // Without management nothing can be asked of the card any more.
      if (queue < page.FIRST_QUEUE) this.lose()
    }
    for (const one of [...this.watchers]) one.happened?.(event)
    this.onEvent(event)
  }

  /** Completions were lost: whoever waits for one of that queue waits no more. */
  private endCq(cq: CompletionQueue, fault: string): void {
    const pairs = new Set(this.pairs.values())
    for (const pair of pairs) {
      if (pair.sendCq === cq || pair.receiveCq === cq) pair.fail(fault)
    }
    cq.finish(fault)
  }

  private lookAtEverything(): void {
    for (const cq of this.completionQueues.values()) cq.look()
    for (const pair of new Set(this.pairs.values())) {
      const fault = pair.send.errorInMemory || pair.receive.errorInMemory
      if (fault !== '') pair.fail(fault)
    }
  }

  // ---- the end ---------------------------------------------------------------------------------

  private lose(): void {
    this.end('removed', new CardRemoved())
    for (const one of [...this.watchers]) one.removed?.()
    this.onRemoved()
  }

  /** Every queue ends; the rings are free, buffers stay. */
  private end(state: State, error: PerdureError): void {
    this.state = state
    this.watchdog.stop()
    this.ground?.doorbell.close()
    for (const pair of new Set(this.pairs.values())) {
      pair.fail('CONNECTION_LOST')
      pair.letGo()
      pair.send.freeRings()
      pair.receive.freeRings()
    }
    for (const cq of this.completionQueues.values()) {
      cq.finish('')
      cq.freeRings()
    }
    this.workQueues.clear()
    this.pairs.clear()
    this.completionQueues.clear()
    this.domains.clear()
    for (const region of this.onDemand) region.cardGone()
    this.queue?.close()
    this.queue = null
    this.client?.close(error)
  }

  /** Starts again on a card that was gone. Rejects as `open` does. */
  async reopen(): Promise<void> {
    if (this.state === 'open') return
    if (this.state !== 'removed') this.check()
    try {
      await this.start()
    } catch (error) {
      if (this.state === 'opening') this.state = 'removed'
      throw error
    }
  }

  /** Lets the card go: it takes nothing more from the memory. */
  close(): void {
    if (this.state === 'closed') return
    const wasOpen = this.state === 'open'
    this.end('closed', new PerdureError('PERDURE_CLOSED', 'the device was closed'))
    if (wasOpen) this.port.writeRegister(PORT_EPOCH - PORT_AT, 0)
    const waiting = [...this.timers]
    this.port.close()
    for (const run of waiting) run()
  }
}

/** How often a queue rings again that waits for somebody else, not for the card. */
const LATE_RINGS = 6

/**
 * The doorbell of a receive queue, or of a completion queue that was armed, may have got lost: it
 * is rung again a few times, and then no more.
 */
class LateRing {
  private readonly queue: WorkQueue | CompletionQueue
  private left = LATE_RINGS

  constructor(queue: WorkQueue | CompletionQueue) {
    this.queue = queue
  }

  /** Begins again: it was rung just now. */
  again(): this {
    this.left = LATE_RINGS
    return this
  }

  pushOn(): boolean {
    const { queue } = this
    if (queue.end !== null) return false
    if (queue instanceof CompletionQueue) queue.look()
    const waits = queue instanceof CompletionQueue ? queue.armed : queue.waiting > 0
    if (!waits) return false
    queue.ringAgain()
    this.left--
    return this.left > 0
  }
}

function checkQueuePair(
  { type, clientId = 0n }: QueuePairOptions,
  sendUnits: number,
  receiveUnits: number,
): void {
  check('type', type, oneOf(Object.keys(QUEUE_PAIR_TYPES)))
  checkDepth('sendUnits', sendUnits)
  const deep = isPowerOfTwo(receiveUnits) && receiveUnits <= QUEUE_DEPTH_MAX
  if (!deep || receiveUnits < sendUnits) {
    const range = `${sendUnits} (the units of the send queue) to ${QUEUE_DEPTH_MAX}`
    throw new ArgumentError(`receiveUnits ${shown(receiveUnits)}: a power of two, ${range} (P3-1)`)
  }
  check('clientId', clientId, wide(0n))
}

/** A span of time. */
function checkSpan(name: string, value: number, least: number): void {
  const give = least === 0 ? 'more than 0' : `${least} or more`
  check(name, value, { ...DURATION, give })
  if (value < least) refuse(name, value, give)
}

function checkChoice(name: string, value: string | undefined, choices: readonly string[]): void {
  if (value !== undefined) check(name, value, oneOf(choices))
}
