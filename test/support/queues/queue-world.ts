/**
 * A card and a raw host with three queue pairs, on which posts are played in every order
 * (interleave.ts): what was posted, step by step, and the judgement of what became of it.
 *
 *   pairs 0 and 1   under test; one that ended in error is destroyed and made again
 *   pair 2          a bystander: it works, whatever happens to the others
 *
 * Invariant: every post has an operation, a slot and bytes of its own, so what it left is
 * told from what any other post left; a FETCH-ADD shows what is executed twice.
 */

import type { Access, AccessFault } from '../../../boards/emulator/host/pcie.ts'
import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import {
  CQE_STATUS,
  CQE_UNIT,
  SIGNALED,
  WC_SUCCESS,
  WQE_NOP,
  WQE_STAMP,
  WQE_STAMP_AGAIN,
} from '../../../firmware/host/element.ts'
import { EVENT_QUEUE_ERROR } from '../../../firmware/host/header-page.ts'
import {
  QUEUE_ERROR,
  QUEUE_READY,
  Z1_STATE,
  Z3_POINTER,
  ZONE1_BYTES,
  ZONE2_BYTES,
  ZONE3_BYTES,
} from '../../../firmware/host/queue-info.ts'
import { FETCH_ADD, WRITE_PERSIST } from '../../../firmware/transport/requester.ts'
import { u32 } from '../../../firmware/wire/bytes.ts'
import { KIND_BYTES, REGION_BASE_HIGH, REGION_RKEY } from '../../../firmware/wire/management.ts'
import { dataOf, type TestCard, type TestRegion } from '../cards/test-card.ts'
import type { Stage, Step } from './interleave.ts'
import {
  type Cqe,
  type ElementFields,
  elementOf,
  type Form,
  type HostEvent,
  hostOf,
  type PairNumbers,
  type QueueHost,
  u64,
} from './queue-host.ts'

export type PostKind = 'nop' | 'inline' | 'address' | 'add'
export const POST_KINDS: readonly PostKind[] = ['nop', 'inline', 'address', 'add']

/**
 * Before what the host may go on: any access of the card, or its reads, and each look at the
 * doorbells; or only before it reads an element or the bytes of a record.
 */
const PLACES = ['accesses', 'reads', 'elements'] as const
export type Places = (typeof PLACES)[number]

/** What a post has left so far. */
type Effect = 'none' | 'done' | 'wrong'

export interface Post {
  readonly kind: PostKind
  readonly queue: number
  readonly unit: number
  readonly units: number
  readonly element: Uint8Array
  /** The stores of the host, of at most eight bytes each, in the order of a driver. */
  readonly stores: readonly Step[]
  /** What is in the NVDIMM of it; a NOP leaves nothing, and counts as done. */
  effect(): Effect
  /** Of a record: whether all its copies are in the persistence domain. */
  durable(): boolean
}

const SLOTS = 8
const RECORD_BYTES = 64
const CAPACITY_BYTES = 64
/** So few that two records fill the ring, and every other post goes round its end. */
export const UNITS = 4
const ENTRIES = 8
const PAIRS = 3
/** A queue that found no room is tried again so soon. */
const MOMENT_US = 100
const QUEUES = 256

interface Pair {
  qp: PairNumbers
  cq: number
  readonly rings: number
  readonly entries: number
}

export class QueueWorld {
  readonly host: QueueHost
  readonly card: TestCard
  readonly pairs: Pair[] = []
  /** What every access of the card suffers; none without it. */
  fault: ((access: Access) => AccessFault | undefined) | null = null
  /** Where the host may go on. */
  places: Places = 'accesses'
  /** Accesses of the card since somebody set it to 0. */
  accesses = 0
  readonly region: TestRegion
  readonly lkey: number
  /** Of the same bytes, in a protection domain that no queue here has. */
  readonly foreignKey: number
  readonly payloads: number
  readonly payloadBytes: number = SLOTS * RECORD_BYTES
  private readonly wordKey: number
  private readonly wordBase: number
  /** Where the words of the atomics begin in the part. */
  private wordsAt = 0
  /** Offsets in the part of every copy of each slot. */
  private readonly copies: number[][] = []
  private operation = 0
  private forced: number = QUEUES
  /** Posts that were played and not yet judged. */
  readonly open: Post[] = []
  private complaint = ''
  private gap: (() => void) | null = null

  /** Every run begins at this unit of its ring. */
  private readonly offset: number

  /** `trust`: pointers of doorbells are used where they can be (S1-M8). */
  constructor(offset = 0, trust = false) {
    this.offset = offset
    this.host = hostOf(1 << 20, 1 << 18)
    this.host.trust = trust
    this.card = this.host.card as TestCard
    const { card, host } = this
    card.format()
    this.region = card.provision({ slots: SLOTS, capacity: CAPACITY_BYTES })
    const { body } = card.tryProvision({ name: 'words', kind: KIND_BYTES, length: 4096, slots: 0 })
    this.wordKey = u32(body, REGION_RKEY)
    this.wordBase = u64(body, REGION_BASE_HIGH)
    host.init(QUEUES)
    this.payloads = host.allocate(this.payloadBytes, 4096)
    this.lkey = host.register(this.payloads, this.payloadBytes)
    this.foreignKey = host.register(this.payloads, this.payloadBytes, 3)
    for (let i = 0; i < PAIRS; i++) {
      const rings = host.allocate(2 * UNITS * UNIT_BYTES)
      const entries = host.allocate(ENTRIES * UNIT_BYTES)
      this.pairs.push({ qp: { send: -1, receive: -1, number: 0 }, cq: -1, rings, entries })
      this.makePair(i)
    }
    host.ram.link.script = (access) => {
      if (this.concerns(access.at)) {
        this.accesses += 1
        const read = access.kind === 'read'
        const at = read && this.isElement(access.at) ? 'elements' : read ? 'reads' : 'accesses'
        if (PLACES.indexOf(at) >= PLACES.indexOf(this.places)) this.offer()
      }
      return this.fault?.(access)
    }
    host.ram.link.watch(() => host.setLink(host.ram.link.up))
    host.ram.onWrite = (at) => this.watchCompletion(at)
    this.findPlaces()
  }

  /** Whether an access is of a queue under test; how a call goes to the card, other tests know. */
  private concerns(at: number): boolean {
    const { zone1At, zone2At, zone3At, eventsAt } = this.host
    if (at >= this.payloads) return true
    if (at < zone1At || at >= eventsAt) return false
    let queue = Math.floor((at - zone1At) / ZONE1_BYTES)
    if (at >= zone3At) queue = Math.floor((at - zone3At) / ZONE3_BYTES)
    else if (at >= zone2At) queue = Math.floor((at - zone2At) / ZONE2_BYTES)
    return this.pairs.some(({ qp, cq }) => qp.send === queue || cq === queue)
  }

  /** Whether it is in a ring of elements, or among the bytes of records. */
  private isElement(at: number): boolean {
    if (at >= this.payloads && at < this.payloads + this.payloadBytes) return true
    return this.pairs.some(({ rings }) => at >= rings && at < rings + UNITS * UNIT_BYTES)
  }

  /** What is played against the host's steps. */
  get stage(): Stage {
    return {
      watch: (gap) => {
        this.gap = gap
        this.host.beforeCall = () => {
          if (this.places !== 'elements') this.offer()
        }
      },
      run: () => this.run(),
    }
  }

  /** Serves the card until it is idle, and what it put off for a moment, too. */
  run(): void {
    const { host } = this
    host.run()
    while (host.card.waitUs > 0 && host.card.waitUs <= MOMENT_US) {
      host.card.now += host.card.waitUs
      host.run()
    }
  }

  /** A place for steps of the host; none if a queue is over: then their order is no matter. */
  private offer(): void {
    if (this.gap === null) return
    for (const { queue } of this.open) {
      const at = this.host.zone1At + queue * ZONE1_BYTES + Z1_STATE
      if (this.host.bytes[at] === QUEUE_ERROR) return
    }
    this.gap()
  }

  /** Where each slot, and the words of the atomics, lie in the part. */
  private findPlaces(): void {
    const { live } = this.card.nvdimm
    const find = (what: Uint8Array): number[] => {
      const all = Buffer.from(live.buffer, live.byteOffset, live.length)
      const found: number[] = []
      for (let at = all.indexOf(what); at >= 0; at = all.indexOf(what, at + 1)) found.push(at)
      return found
    }
    const run = (fields: ElementFields): void => {
      const { qp, cq } = this.pairs[2]!
      this.host.post(qp.send, elementOf(fields))
      this.host.ring(qp.send)
      this.host.run()
      const [cqe] = this.host.poll(cq)
      if (cqe?.status !== WC_SUCCESS) throw new Error(`not done: ${JSON.stringify(cqe)}`)
    }
    for (let slot = 0; slot < SLOTS; slot++) {
      this.operation += 1
      const inline = dataOf(RECORD_BYTES, this.operation)
      run({ ...this.record(slot), inline })
      this.copies.push(find(inline))
    }
    const operation = 0x0012_3456_789a_bcde
    run({ ...this.add(0), operation })
    const marker = new Uint8Array(8)
    new DataView(marker.buffer).setBigUint64(0, BigInt(operation), true)
    this.wordsAt = find(marker)[0]!
  }

  private add(word: number): ElementFields {
    const { wordKey: rkey, wordBase } = this
    const address = wordBase + 8 * word
    return { opcode: FETCH_ADD, flags: SIGNALED, rkey, address, length: 8, operation: 1 }
  }

  private record(slot: number): ElementFields {
    return {
      opcode: WRITE_PERSIST,
      flags: SIGNALED,
      rkey: this.region.rkey,
      address: slot * 2 ** 32,
      operation: this.operation,
      wait: 2,
    }
  }

  /** A completion has arrived: what it says has to be so already. */
  private watchCompletion(at: number): void {
    for (const { entries, qp } of this.pairs) {
      if (at < entries || at >= entries + ENTRIES * UNIT_BYTES) continue
      const { view, bytes } = this.host
      const unit = view.getUint32(at + CQE_UNIT, true)
      const post = this.open.find((one) => one.queue === qp.send && one.unit === unit)
      const failed = bytes[at + CQE_STATUS] !== WC_SUCCESS
      if (post === undefined || failed || post.durable()) continue
      this.complaint = `unit ${unit} completed before it was durable`
    }
  }

  /** Watches the posts until they are judged. */
  begin(...posts: Post[]): readonly Post[] {
    this.open.length = 0
    this.open.push(...posts)
    this.complaint = ''
    return posts
  }

  /** Events of the pairs: that somebody rang what is no queue is an event, too. */
  private ownEvents(): HostEvent[] {
    const own = this.pairs.flatMap(({ qp, cq }) => [qp.send, qp.receive, cq])
    return this.host.events().filter(({ queue }) => own.includes(queue))
  }

  /**
   * What became of the posts that were begun: each queue has executed all of its own, once and in
   * their order, or it has executed some, said with an event why it did not go on, and touched
   * nothing more. Throws what is wrong; returns whether a queue failed.
   */
  judge(): boolean {
    const events = this.ownEvents()
    let failed = false
    // A doorbell by message has been answered.
    this.host.answer()
    if (this.complaint !== '') throw new Error(this.complaint)
    for (const queue of new Set(this.open.map((post) => post.queue))) {
      const posts = this.open.filter((post) => post.queue === queue)
      const cqes = this.host.poll(this.pairOf(queue).cq)
      const { state, pointer, fault } = this.host.zone1(queue)
      const { unit, units } = posts.at(-1)!
      const ended = events.filter((event) => event.queue === queue)
      const told = JSON.stringify({ state, pointer, fault, cqes, events })
      const done = cqes.filter(({ status }) => status === WC_SUCCESS).length
      if (state === QUEUE_READY) {
        if (cqes.length !== posts.length || done !== posts.length || events.length !== 0) {
          throw new Error(`not every post was completed: ${told}`)
        }
        if (pointer !== (unit + units) >>> 0) throw new Error(`the read pointer is wrong: ${told}`)
      } else {
        failed = true
        const [event] = ended
        if (state !== QUEUE_ERROR || ended.length !== 1 || event!.type !== EVENT_QUEUE_ERROR) {
          throw new Error(`a queue without a reason: ${told}`)
        }
        if (event!.fault !== fault || fault === 'PASS') throw new Error(`which fault? ${told}`)
        if (cqes.length > done + 1) throw new Error(`too many completions: ${told}`)
      }
      judgeEffects(posts, cqes, done, told)
    }
    this.open.length = 0
    return failed
  }

  /**
   * Less than `judge`, for what the host did wrong or never learned: the queue is ready, or in
   * error with an event; no record differs from copy to copy; the bystander works. `loses` says
   * that a write of the card was lost, be it the event, and the pair is made again in any case.
   * Returns the fault that ended the queue, or PASS.
   */
  survive(what: string, loses = false): string {
    const { host } = this
    const queue = this.pairs[0]!.qp.send
    const events = this.ownEvents()
    const cqes = host.poll(this.pairs[0]!.cq)
    const { state, fault } = host.zone1(queue)
    const told = `${what}: ${JSON.stringify({ state, fault, cqes, events })}`
    if (cqes.length > 1) throw new Error(`completed twice: ${told}`)
    if (!loses) {
      const ended = state === QUEUE_ERROR && events.length === 1 && events[0]!.fault === fault
      const ready = state === QUEUE_READY && events.length === 0
      if (!ended && !ready) throw new Error(`a queue without a reason: ${told}`)
    }
    for (const [slot, [first, ...others]] of this.copies.entries()) {
      const { live } = this.card.nvdimm
      const data = live.subarray(first!, first! + RECORD_BYTES)
      if (others.every((at) => same(live, at, data))) continue
      throw new Error(`the copies of slot ${slot} differ: ${told}`)
    }
    this.open.length = 0
    if (loses) this.makePair(0)
    this.heal()
    return fault
  }

  /** A number that no queue has; its zones are for `forceQueue`. */
  freshQueue(): number {
    this.forced -= 1
    return this.forced
  }

  /** After a removal: the link is there again, and the host begins with an empty memory. */
  startAnew(): void {
    const { host } = this
    host.run()
    host.ram.powerCut()
    host.ram.link.restore()
    host.startAnew(QUEUES)
    this.pairs.forEach((pair, i) => {
      pair.cq = -1
      this.makePair(i)
    })
    this.heal()
  }

  /** A post to the bystander ends as it should; pairs that failed are made again. */
  heal(): void {
    const [post] = this.begin(this.post(2, 'add')) as [Post]
    for (const step of this.stepsOf(post, 'fifo')) step.run()
    this.host.run()
    if (this.judge()) throw new Error('the bystander failed')
    this.pairs.forEach(({ qp }, i) => {
      if (this.host.zone1(qp.send).state !== QUEUE_READY) this.makePair(i)
    })
  }

  pairOf(queue: number): Pair {
    return this.pairs.find(({ qp }) => qp.send === queue || qp.receive === queue)!
  }

  /** The queues of a pair, new or again. */
  makePair(index: number): void {
    const { host } = this
    const pair = this.pairs[index]!
    if (pair.cq >= 0) {
      host.destroy(pair.qp.send)
      host.destroy(pair.cq)
      host.bytes.fill(0xa5, pair.rings, pair.rings + 2 * UNITS * UNIT_BYTES)
      host.bytes.fill(0, pair.entries, pair.entries + ENTRIES * UNIT_BYTES)
    }
    pair.cq = host.createCq(ENTRIES, 0, 0, pair.entries)
    pair.qp = host.createQp(pair.cq, { units: UNITS, rings: pair.rings, client: 1000 })
    this.bringTo(index, this.offset)
  }

  /** Posts NOPs, at least a lap of them, until the next unit is the `offset`-th of its ring. */
  bringTo(pair: number, offset: number): void {
    const { send } = this.pairs[pair]!.qp
    for (let posted = 0; posted < UNITS || this.unitOf(send) !== offset; posted++) this.nop(pair)
  }

  private nop(pair: number): void {
    const { qp, cq } = this.pairs[pair]!
    this.host.post(qp.send, elementOf({ opcode: WQE_NOP, flags: SIGNALED }))
    this.host.ring(qp.send)
    this.host.run()
    const [cqe] = this.host.poll(cq)
    if (cqe?.status !== WC_SUCCESS) throw new Error(`a NOP failed: ${JSON.stringify(cqe)}`)
  }

  /**
   * Every run has to begin alike: the elements of so many units on that pair go round the end of
   * their ring, or they do not, as from the `offset`-th unit.
   */
  align(pair: number, units: number): void {
    const { send } = this.pairs[pair]!.qp
    const alike = (at: number): boolean => {
      if (units > 2) return at === this.offset
      return at + units > UNITS === this.offset + units > UNITS
    }
    while (!alike(this.unitOf(send))) this.nop(pair)
  }

  private unitOf(queue: number): number {
    return this.host.queues.get(queue)!.pointer % UNITS
  }

  /** A post of that kind, not yet stored: the ring has room, and the host counts its units. */
  post(pair: number, kind: PostKind): Post {
    const { host } = this
    const queue = this.pairs[pair]!.qp.send
    const of = host.queues.get(queue)!
    const unit = of.pointer
    this.operation += 1
    const slot = (this.operation - 1) % SLOTS
    const data = dataOf(RECORD_BYTES, this.operation)
    const local = this.payloads + slot * RECORD_BYTES
    const fields: Record<PostKind, ElementFields> = {
      nop: { opcode: WQE_NOP, flags: SIGNALED },
      inline: { ...this.record(slot), inline: data },
      address: { ...this.record(slot), length: RECORD_BYTES, local, lkey: this.lkey },
      add: this.add(slot),
    }
    const element = elementOf(fields[kind])
    const units = element.length / UNIT_BYTES
    of.pointer = (unit + units) >>> 0
    const stores = this.storesOf(queue, unit, element)
    if (kind === 'address') stores.unshift(...this.wordsInto(local, data))
    const left = kind === 'nop' ? NOTHING : this.leaves(kind, slot, data)
    return { kind, queue, unit, units, element, stores, ...left }
  }

  private leaves(kind: PostKind, slot: number, data: Uint8Array): Pick<Post, 'effect' | 'durable'> {
    const { live, durable } = this.card.nvdimm
    const places = kind === 'add' ? [this.wordsAt + 8 * slot] : this.copies[slot]!
    const length = kind === 'add' ? 8 : RECORD_BYTES
    const before = live.slice(places[0]!, places[0]! + length)
    const after = kind === 'add' ? oneMore(before) : data
    const holds = (bytes: Uint8Array, what: Uint8Array): boolean =>
      places.every((at) => same(bytes, at, what))
    return {
      effect: () => (holds(live, after) ? 'done' : holds(live, before) ? 'none' : 'wrong'),
      // An atomic in a plain region promises no more than that it was executed.
      durable: () => kind === 'add' || holds(durable, after),
    }
  }

  /** The element, unit by unit; of the first unit the second stamp comes last of all. */
  private storesOf(queue: number, unit: number, element: Uint8Array): Step[] {
    const { host } = this
    const units = element.length / UNIT_BYTES
    const view = new DataView(element.buffer)
    view.setUint32(WQE_STAMP, unit + 1, true)
    view.setUint32(WQE_STAMP_AGAIN, unit + 1, true)
    const stores: Step[] = []
    for (let i = 0; i < units; i++) {
      const piece = element.subarray(i * UNIT_BYTES, (i + 1) * UNIT_BYTES)
      stores.push(...this.wordsInto(host.unitAt(queue, unit + i), piece))
    }
    const [last] = stores.splice(UNIT_BYTES / 8 - 1, 1)
    stores.push(last!)
    return stores
  }

  private wordsInto(at: number, bytes: Uint8Array): Step[] {
    return Array.from({ length: bytes.length / 8 }, (_, i) => ({
      name: `store ${i}`,
      run: () => this.host.bytes.set(bytes.subarray(i * 8, i * 8 + 8), at + i * 8),
    }))
  }

  pointerOf(post: Post): Step {
    const pointer = (post.unit + post.units) >>> 0
    return { name: 'pointer', run: () => this.host.setPointer(post.queue, pointer) }
  }

  bellOf(post: Post, form: Form): Step {
    const pointer = (post.unit + post.units) >>> 0
    return this.bell(form, form, post.queue, () => pointer)
  }

  /** The register is free again when the card has said that it recorded what is there (P3-13). */
  private bell(name: string, form: Form, queue: number, pointer: () => number): Step {
    const { host } = this
    const run = (): void => host.ring(queue, form, pointer())
    if (form !== 'register') return { name, rings: true, run }
    return { name, rings: true, run, ready: () => host.registerIsFree }
  }

  /** A doorbell that nobody had to ring: of what was posted before. */
  spareBell(post: Post, form: Form): Step {
    return this.bell(`spare ${form}`, form, post.queue, () => this.pointerInMemory(post.queue))
  }

  /** The write pointer that zone 3 holds now. */
  pointerInMemory(queue: number): number {
    return this.host.view.getUint32(this.host.zone3At + queue * ZONE3_BYTES + Z3_POINTER, true)
  }

  /** Takes back a post that was never stored. */
  forget(post: Post): void {
    this.host.queues.get(post.queue)!.pointer = post.unit
  }

  /**
   * All steps of a post. Stores of eight bytes come one by one where it is rung by the ring of the
   * port, or trusted; what other forms fetch is no different from the first, so there they are two.
   */
  stepsOf(post: Post, form: Form): Step[] {
    const all = post.stores
    const run = (): void => {
      for (const step of all.slice(0, -1)) step.run()
    }
    const most: Step = { name: 'stores', run }
    const stores = form === 'fifo' || form === 'trusted' ? all : [most, all.at(-1)!]
    return [...stores, this.pointerOf(post), this.bellOf(post, form)]
  }
}

/** What the first `done` posts say is so; of one that failed there is nothing, or all of it. */
function judgeEffects(
  posts: readonly Post[],
  cqes: readonly Cqe[],
  done: number,
  told: string,
): void {
  posts.forEach((post, i) => {
    const cqe = cqes[i]
    if (cqe !== undefined && cqe.unit !== post.unit) throw new Error(`out of order: ${told}`)
    if (i < done && cqe!.status !== WC_SUCCESS) throw new Error(`went on behind a fault: ${told}`)
    const effect = post.effect()
    if (effect === 'wrong') throw new Error(`torn, or done twice: ${told}`)
    if (i < done && effect !== 'done') throw new Error(`completed and not done: ${told}`)
    if (i > done && effect === 'done' && post.kind !== 'nop') {
      throw new Error(`done behind one that failed: ${told}`)
    }
  })
}

const NOTHING: Pick<Post, 'effect' | 'durable'> = { effect: () => 'done', durable: () => true }

function oneMore(word: Uint8Array): Uint8Array {
  const more = word.slice()
  const view = new DataView(more.buffer)
  view.setBigUint64(0, BigInt.asUintN(64, view.getBigUint64(0, true) + 1n), true)
  return more
}

function same(bytes: Uint8Array, at: number, data: Uint8Array): boolean {
  for (let i = 0; i < data.length; i++) if (bytes[at + i] !== data[i]) return false
  return true
}
