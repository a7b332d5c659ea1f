/**
 * A world with regions, a good client, and queue pairs for whoever attacks: how frames get their
 * numbers, and how connections that ended are made again.
 *
 * Invariant: everything follows from the seed.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { fillIcrc } from '../../../boards/software/icrc.ts'
import { BURST_FRAMES, FRAME_BYTES_MAX } from '../../../firmware/board/limits.ts'
import { findQueuePair, STATE_OPEN } from '../../../firmware/transport/queue-pair.ts'
import { putU16, putU32, u32 } from '../../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../../firmware/wire/deth.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { UD_SEND_ONLY } from '../../../firmware/wire/opcode.ts'
import * as oracle from '../../support/judges/oracle.ts'
import { CHOSEN } from '../../support/judges/psn-ends.ts'
import { callOf, type RegionShape, type TestRegion } from '../../support/wire/conversation.ts'
import { frameOf } from '../../support/wire/frames.ts'
import { bthOf } from './guard.ts'
import { KEPT, Keeper } from './keeper.ts'
import { type Kind, Kinds, MTU, type Regions } from './kinds.ts'
import { put } from './mutate.ts'
import type { Step } from './script.ts'
import { World, type WorldOptions } from './world.ts'

const FOREIGN_DOMAIN = 9

/** The regions of whoever attacks. */
export const SHAPES: Readonly<Record<keyof Regions, RegionShape>> = {
  records: { slots: 8, capacity: 100 },
  big: { slots: 4, capacity: 900 },
  fixed: { slots: 4, capacity: 64, copies: 3, flags: mad.REGION_FIXED_LENGTH },
  bytes: { kind: mad.KIND_BYTES, length: 4096 },
  durable: { kind: mad.KIND_BYTES, length: 4096, flags: mad.REGION_WRITE_PERSIST },
  long: { kind: mad.KIND_BYTES, length: 20480 },
  foreign: { kind: mad.KIND_BYTES, length: 4096, domain: FOREIGN_DOMAIN },
  pairs: { slots: 4, capacity: 300, flags: mad.REGION_PAIR },
}

/** A connection of the attacker's. */
export interface Pair {
  number: number
  readonly peer: number
  readonly ipVersion: 4 | 6
  readonly client: number
  psn: number
  operation: number
  /** What would complete what it has begun. */
  plan: readonly Kind[]
  planned: number
}

/** So often the card is given time for what a queue of the host begins as it comes to rest. */
const RESTS_MAX = 64

export class Arena {
  readonly world: World
  readonly random: Random
  readonly regions: Regions
  readonly keeper: Keeper
  /** Nothing has happened to the medium: a good client is served. */
  serving = true
  readonly pairs: Pair[] = []
  private made: readonly [readonly Kind[], readonly Kind[]] | null = null
  private weighed: readonly [readonly Kind[], readonly Kind[]] | null = null
  /** Numbers that mean something here. */
  readonly words: number[] = []
  readonly scratch: Uint8Array = new Uint8Array(2 * FRAME_BYTES_MAX)
  private readonly views: (Uint8Array | undefined)[] = []
  private readonly connects: readonly [Uint8Array, Uint8Array]
  /** Draws what begins beside its end. */
  private readonly endings: Random
  private peers = 0x10000

  constructor(options: WorldOptions, pairs = 48) {
    this.world = new World(options)
    this.random = new Random(options.seed ^ 0x5eed)
    this.endings = new Random(options.seed ^ 0x656e6473)
    const { talk, part } = this.world
    talk.format()
    this.regions = this.provision()
    const kept = talk.provision(KEPT)
    const layouts = oracle.readSuperblock(part.live)!.regions
    const layoutOf = (name: string): oracle.RegionLayout =>
      layouts.find((layout) => layout.name === name)!
    for (const region of Object.values(this.regions)) {
      const domain = region.name === 'foreign' ? FOREIGN_DOMAIN : 0
      const layout = layoutOf(region.name)
      this.world.authority.areas.set(region.rkey, { rkey: region.rkey, domain, layout })
      this.words.push(region.rkey, region.slots, region.capacity, layout.areaBytes)
    }
    this.words.push(kept.rkey, MTU, 2 ** 28, 3 * 2 ** 28, 0x80010000)
    this.keeper = new Keeper(this.world, kept, layoutOf('kept'), this.random.fork())
    this.connects = [connectFrame(4), connectFrame(6)]
    for (let i = 0; i < pairs; i++) this.addPair(i % 5 === 4 ? 6 : 4)
    this.connectAll(this.pairs)
    this.world.onSent = (frame) => {
      this.keeper.hear(frame, (peer) => this.clientOf(peer))
    }
    this.world.guard()
    // What clients have left different is made equal at any time.
    const { at, copies, areaBytes } = layoutOf('pairs')
    part.openAlways(at, at + copies * areaBytes)
  }

  /** Of IPv4, then of IPv6. Made when somebody asks: who attacks from the host does not. */
  get kinds(): readonly [readonly Kind[], readonly Kind[]] {
    this.made ??= [new Kinds(this.regions, 4).all, new Kinds(this.regions, 6).all]
    return this.made
  }

  /** The same, as often as each is to be chosen. */
  get chances(): readonly [readonly Kind[], readonly Kind[]] {
    this.weighed ??= [chancesOf(this.kinds[0]), chancesOf(this.kinds[1])]
    return this.weighed
  }

  private provision(): Regions {
    const made: Record<string, TestRegion> = {}
    for (const [name, shape] of Object.entries(SHAPES)) {
      made[name] = this.world.talk.provision({ name, ...shape })
    }
    return made as unknown as Regions
  }

  private clientOf(peer: number): number {
    for (const pair of this.pairs) if (pair.peer === peer) return pair.client
    return 0
  }

  private addPair(ipVersion: 4 | 6): void {
    const client = 100 + this.pairs.length
    const peer = this.peers + this.pairs.length
    const operation = 1000
    const pair = { number: 0, peer, ipVersion, client, psn: 0, operation, plan: [], planned: 0 }
    this.pairs.push(pair)
  }

  /** Opens queue pairs for those peers again, in one burst. */
  connectAll(pairs: readonly Pair[]): void {
    const { script } = this.world
    script?.push({ kind: 'connect', pairs: pairs.map((pair) => this.pairs.indexOf(pair)) })
    // So many of a burst can begin where they are told to.
    const burst = this.endings.chance(0.5) ? CHOSEN : BURST_FRAMES
    for (let i = 0; i < pairs.length; i += burst) {
      const some = pairs.slice(i, i + burst)
      this.world.steer(this.endings)
      const sent = this.world.askRaw(some.map((pair) => this.connectFrame(pair)))
      const answers = sent.filter((frame) => frame[bthOf(frame, 0)] === UD_SEND_ONLY)
      some.forEach((pair, j) => {
        const end = answers[j]!.length - 4
        this.adopt(pair, answers[j]!.subarray(end - mad.MAD_BYTES, end))
      })
    }
  }

  private connectFrame(pair: Pair): Uint8Array {
    const frame = this.connects[pair.ipVersion === 4 ? 0 : 1]!
    const at = frame.length - 4 - mad.MAD_BYTES
    put(frame, at + mad.MAD_TRANSACTION_LOW, 4, this.random.next())
    put(frame, at + mad.MAD_BODY + mad.CONNECT_CLIENT_QP, 4, pair.peer)
    put(frame, at + mad.MAD_BODY + mad.CONNECT_CLIENT_ID_LOW, 4, pair.client)
    fillIcrc(frame, 0, frame.length)
    return frame.slice()
  }

  /** Takes what the answer says of the new queue pair. */
  private adopt(pair: Pair, answer: Uint8Array): void {
    if (answer[mad.MAD_FAULT] !== 0) return
    const body = answer.subarray(mad.MAD_BODY)
    const { pairs } = this.world.authority
    // The place of one that ended may be another's by now, under the same number.
    if (pairs.get(pair.number)?.peer === pair.peer) pairs.delete(pair.number)
    pair.number = u32(body, mad.CONNECT_QP)
    pair.psn = u32(body, mad.CONNECT_FIRST_PSN)
    pair.plan = []
    const { number, peer, ipVersion } = pair
    pairs.set(number, { number, peer, domain: 0, ipVersion })
  }

  /** Is the queue pair there, and does it serve? */
  isOpen(pair: Pair): boolean {
    return findQueuePair(this.world.state.queuePairs, pair.number)?.state === STATE_OPEN
  }

  /** The PSN that is due, where the attacker knows it no more. */
  resume(pair: Pair): void {
    const due = this.world.expected(pair.number)
    if (due >= 0) pair.psn = due
  }

  /** The first `length` bytes of the buffer, without making a view each time. */
  view(length: number): Uint8Array {
    let view = this.views[length]
    if (view === undefined) {
      view = this.scratch.subarray(0, length)
      this.views[length] = view
    }
    return view
  }

  /** Puts a kind into the buffer, for that queue pair, with its numbers; its length. */
  fill(kind: Kind, pair: Pair, psn: number): number {
    const { frame, bthAt, operationAt } = kind
    const { scratch } = this
    scratch.set(frame)
    if (scratch[bthAt]! >> 5 !== 3) {
      put(scratch, bthAt + 5, 3, pair.number)
      put(scratch, bthAt + 9, 3, psn)
    }
    if (operationAt !== 0) {
      // Of a batch the operations follow from that of its first record.
      const index = (frame[operationAt - 11]! & 8) !== 0 ? frame[operationAt - 6]! : 0
      if (index === 0) pair.operation += 8
      put(scratch, operationAt, 4, pair.operation + index)
    }
    return frame.length
  }

  /** Puts the right ICRC into the buffer. */
  seal(length: number, linuxFlush = false): void {
    fillIcrc(this.scratch, 0, length, linuxFlush)
  }

  /** The good client puts a record into the burst. */
  good(): void {
    this.world.script?.push({ kind: 'good' })
    this.world.quietly(() => this.keeper.write())
  }

  /** The next acknowledgement of durability is looked at with the eyes of a power cut. */
  arm(): void {
    this.world.script?.push({ kind: 'arm' })
    this.keeper.arm()
  }

  /** Serves the burst, and judges the cut that was played in it. */
  serve(): void {
    this.world.serve()
    this.keeper.judgeCut()
  }

  /** Comes to rest, and looks whether the good client is served as ever. */
  rest(): void {
    const { world, keeper } = this
    world.script?.push({ kind: 'rest' })
    world.quietly(() => {
      world.rest()
      keeper.judgeCut()
      if (this.serving) keeper.judgeService()
      this.judgeHeld()
    })
  }

  apply(step: Step): void {
    const { world } = this
    if (step.kind === 'frame') world.stage(step.bytes)
    else if (step.kind === 'serve') this.serve()
    else if (step.kind === 'pass') world.pass(step.us)
    else if (step.kind === 'good') this.good()
    else if (step.kind === 'arm') this.arm()
    else if (step.kind === 'rest') this.rest()
    else if (step.kind === 'connect') this.connectAll(step.pairs.map((i) => this.pairs[i]!))
    else world.medium(step.what, step.value)
  }

  /**
   * What was held for messages and batches that stopped half-way was given back. A queue of the
   * host that waited may begin the next of its batches as the card comes to rest: that has its
   * time, too.
   */
  private judgeHeld(): void {
    const { world } = this
    const { state } = world
    const isKept = (): boolean => state.batches.chunkTaken.includes(1)
    for (let i = 0; i < RESTS_MAX && isKept() && world.complaint === ''; i++) world.rest()
    if (world.complaint !== '') return
    if (state.stagingOwner.some((owner) => owner >= 0)) world.object('a buffer is kept')
    if (isKept()) world.object('room of a batch is kept')
  }
}

function chancesOf(kinds: readonly Kind[]): Kind[] {
  return kinds.flatMap((kind) => {
    const times = Math.max(1, Math.round(kind.weight * 25))
    return new Array<Kind>(times).fill(kind)
  })
}

function connectFrame(ipVersion: 4 | 6): Uint8Array {
  const fill = (body: Uint8Array): void => {
    putU16(body, mad.CONNECT_PATH_MTU, MTU)
    putU32(body, mad.CONNECT_CLIENT_ID_LOW, 1)
  }
  return frameOf({
    ipVersion,
    bth: { opcode: UD_SEND_ONLY, destQp: 1 },
    deth: { qkey: Q_KEY_GSI, sourceQp: 1 },
    payload: callOf(1, mad.METHOD_SET, mad.ATTRIBUTE_CONNECT, fill, 0),
  })
}
