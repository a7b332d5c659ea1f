/**
 * Work that no driver would post: elements, queue information and doorbells of a hostile host,
 * which change while they are fetched; its network answers wrongly, too.
 *
 * Invariants:
 * - The red zones of the host's memory are registered by nobody, or for another domain: no byte of
 *   them is ever written by the card. That holds while the host spoils its elements only, which is
 *   every other episode.
 * - On the part, regions of another domain and those of the good client stay as they are.
 * - Of messages that take a receive no more are on their way to a peer than were agreed (S1-M7).
 * - A host that asks that its doorbells are trusted has nothing executed that it has not posted,
 *   whatever halves of doorbells arrive (S1-M8): every other episode, as with the zones.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { taggedDoorbell } from '../../../firmware/board/doorbell-tag.ts'
import * as hal from '../../../firmware/board/hal.ts'
import * as el from '../../../firmware/host/element.ts'
import * as page from '../../../firmware/host/header-page.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { putU16, putU32 } from '../../../firmware/wire/bytes.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { psnsBesideEnds } from '../../support/judges/psn-ends.ts'
import {
  type ElementFields,
  elementOf,
  type Hosted,
  QueueHost,
  readying,
} from '../../support/queues/queue-host.ts'
import { callOf } from '../../support/wire/conversation.ts'
import { Arena, type Pair } from './arena.ts'
import { bthOf } from './guard.ts'
import { mix } from './ledger.ts'
import { mutateField, put } from './mutate.ts'
import type { WorldOptions } from './world.ts'

const HOST_BYTES = 1 << 20
const QUEUES = 32
const DATA_BYTES = 16384
const RED_BYTES = 4096
const ENTRIES = 64
const UNITS = 64
/** Calls until it is idle; more is a loop. */
const CALLS = 400
const PEER = 0x777
const FAR_DOMAIN = 9
/** By the place of the queue pair: messages that were agreed with its peer, 0 for none. */
const SEND_DEPTHS = [0, 0, 0, 2, 1]
/** SEND Last and Only, WRITE Last and Only with immediate: a message that takes a receive ends. */
const TAKES_RECEIVE = [0x02, 0x03, 0x16, 0x04, 0x05, 0x17, 0x09, 0x0b]
const SYNDROMES = [0x1f, 0x60, 0x61, 0x62, 0x63, 0x2a, 0x7f]

/** Every field of an element: bytes, pairs and words of its first unit, and what is behind. */
const FIELDS = Array.from({ length: 64 }, (_, i) => [
  { at: i, width: 1 },
  ...(i % 2 === 0 ? [{ at: i, width: 2 }] : []),
  ...(i % 4 === 0 ? [{ at: i, width: 4 }] : []),
]).flat()

interface Send {
  readonly queue: number
  readonly number: number
}

export class Work {
  readonly arena: Arena
  private readonly host: QueueHost
  private readonly random: Random
  private readonly chaotic: boolean
  private readonly sends: Send[] = []
  private readonly receives: number[] = []
  private readonly cqs: number[] = []
  private data = 0
  private reds: readonly number[] = []
  private lkeys: readonly number[] = []
  private words: readonly number[] = []
  /** The last frames of the card's own requests. */
  private readonly asked: { readonly psn: number; readonly pair: Pair }[] = []
  /** Messages that a peer was sent since it was heard of; peers that are heard in this burst. */
  private readonly fresh = new Map<number, Set<number>>()
  private readonly heard = new Set<number>()
  private readonly rings: number[] = []
  private operation = 1
  /** Its memory answers while a host starts. */
  private isStarting = false
  /** Of what is done now. */
  private hash = 0

  constructor(options: WorldOptions) {
    this.arena = new Arena({ hostBytes: HOST_BYTES, ...options }, 4)
    const { world } = this.arena
    this.random = new Random(options.seed ^ 0x40)
    this.chaotic = options.seed % 2 === 1
    this.host = new QueueHost(hosted(this.arena))
    this.host.trust = (options.seed & 2) !== 0
    this.host.init(QUEUES)
    this.settle()
    this.watch()
    for (const { layout, domain } of world.authority.areas.values()) {
      if (domain !== 0) continue
      world.part.openAlways(layout.at, layout.at + layout.copies * layout.areaBytes)
    }
  }

  /** What a driver does at its start: memory, keys, queues. */
  private settle(): void {
    const { host } = this
    const red = (): number => host.allocate(RED_BYTES, 4096)
    const first = red()
    this.data = host.allocate(DATA_BYTES, 4096)
    const far = red()
    this.reds = [first, red(), far]
    this.lkeys = [
      host.register(this.data, DATA_BYTES),
      host.register(this.data, 64),
      host.register(far, RED_BYTES, FAR_DOMAIN),
    ]
    this.openQueues()
    this.onDemand()
    this.words = [...this.arena.words, ...this.lkeys, ...this.reds, this.data, HOST_BYTES]
  }

  private openQueues(): void {
    const { host } = this
    for (let i = 0; i < 2; i++) this.cqs[i] = host.createCq(ENTRIES, i, 10 * i)
    for (let i = 0; i < 5; i++) this.openQueue(i)
  }

  /** Queue pair `i`: of the own part, or connected. */
  private openQueue(i: number): void {
    const { host, arena } = this
    const connected = i >= 2
    const type = connected ? info.TYPE_CONNECTED : info.TYPE_LOCAL
    const rings = this.rings[i] ?? host.allocate(2 * UNITS * 64)
    this.rings[i] = rings
    const options = { type, units: UNITS, rings }
    const { send, receive, number } = host.createQp(this.cqs[i % 2]!, options)
    this.sends[i] = { queue: send, number }
    this.receives[i] = receive
    if (!connected) return
    const [peerPsn, psn] = psnsBesideEnds(this.random) as [number, number]
    host.must(
      mad.METHOD_SET,
      mad.ATTRIBUTE_MODIFY_QP,
      readying(send, {
        ...{ number: PEER + i, mtu: 256, peerPsn, psn, incarnation: 1, depth: 4 },
        sendDepth: SEND_DEPTHS[i]!,
        ...{ mac: [2, 0, 0, 0, 0, 1], ipv4: [10, 0, 0, 1] },
      }),
    )
    this.fresh.delete(PEER + i)
    const known = arena.pairs.find(({ peer }) => peer === PEER + i)
    if (known !== undefined) {
      known.number = number
      known.psn = peerPsn
      return
    }
    arena.pairs.push({
      ...{ number, peer: PEER + i, ipVersion: 4, client: 200 + i },
      ...{ psn: peerPsn, operation: 1, plan: [], planned: 0 },
    })
  }

  /** A region whose pages come and go: some of it is there. */
  private onDemand(): void {
    this.host.manage(mad.METHOD_SET, mad.ATTRIBUTE_ON_DEMAND, (body) => {
      body.set(new TextEncoder().encode('pages'), mad.ON_DEMAND_NAME)
      putU32(body, mad.ON_DEMAND_LENGTH + 4, 16 * 4096)
      putU16(body, mad.ON_DEMAND_RIGHTS, 6)
    })
  }

  private watch(): void {
    const { world } = this.arena
    const { ram } = this.host
    const before = world.onSent
    world.onSent = (frame) => {
      before?.(frame)
      this.hear(frame)
    }
    // A host that spoils its zones has asked for what it gets.
    ram.onViolation = () => {}
    if (!this.chaotic) ram.onWrite = (at, length) => this.judgeWrite(at, length)
    ram.link.script = ({ kind }) => {
      if (kind !== 'read') return undefined
      // What was validated may be another thing by now.
      if (this.random.below(60) === 0) this.spoilElement()
      if (!this.chaotic || this.isStarting || this.random.below(80) > 0) return undefined
      return (['unsupported', 'poisoned', 'timeout'] as const)[this.random.below(3)]
    }
  }

  private judgeWrite(at: number, length: number): void {
    for (const red of this.reds) {
      if (at >= red + RED_BYTES || at + length <= red) continue
      this.arena.world.object(`the card writes ${length} bytes at ${at} of a host that gave none`)
    }
  }

  /** Notes a request that the card has sent, to be answered in some way. */
  private hear(frame: Uint8Array): void {
    const bth = bthOf(frame, 0)
    const peer = (frame[bth + 5]! << 16) | (frame[bth + 6]! << 8) | frame[bth + 7]!
    const pair = this.arena.pairs.find((one) => one.peer === peer)
    if (pair === undefined || peer < PEER) return
    const psn = (frame[bth + 9]! << 16) | (frame[bth + 10]! << 8) | frame[bth + 11]!
    if (TAKES_RECEIVE.includes(frame[bth]!)) this.judgeDepth(peer, psn)
    this.asked.push({ psn, pair })
    if (this.asked.length > 64) this.asked.shift()
  }

  /** As long as its peer is silent, every message that is sent is on its way. */
  private judgeDepth(peer: number, psn: number): void {
    const depth = SEND_DEPTHS[peer - PEER]!
    if (depth === 0 || this.heard.has(peer)) return
    const messages = this.fresh.get(peer) ?? new Set()
    this.fresh.set(peer, messages.add(psn))
    if (messages.size <= depth) return
    this.arena.world.object(`${messages.size} messages are on their way, and ${depth} were agreed`)
  }

  /** What peers have said was served: from now on they are silent again. */
  private silence(): void {
    for (const peer of this.heard) this.fresh.delete(peer)
    this.heard.clear()
  }

  /** Of what was executed well, all was posted: its unit is behind the pointer in memory. */
  private judgeExecuted(): void {
    const { host, chaotic, cqs, sends } = this
    if (chaotic || !host.trust) return
    for (const cq of cqs) {
      for (const { queue, unit, status } of host.waiting(cq)) {
        if (status !== el.WC_SUCCESS || !sends.some((one) => one.queue === queue)) continue
        const at = host.zone3At + queue * info.ZONE3_BYTES + info.Z3_POINTER
        if ((host.view.getUint32(at, true) - 1 - unit) << 0 >= 0) continue
        this.arena.world.object(`unit ${unit} of queue ${queue} is executed, and was not posted`)
      }
    }
  }

  run(count: number): void {
    const { arena, random, host } = this
    const { world } = arena
    for (let done = 0; done < count && world.complaint === ''; done++) {
      this.hash = 0
      this.disturb()
      world.ledger?.see(this.hash)
      if (random.below(4) > 0) continue
      if (random.below(6) === 0) arena.good()
      arena.serve()
      for (let calls = 0; world.waitUs === 1 && world.complaint === ''; calls++) {
        if (calls > CALLS) world.object('the card is never idle')
        world.pass(10)
      }
      this.silence()
      host.ram.link.arrive()
      this.judgeExecuted()
      if (random.below(3) === 0) this.drain()
      if (random.below(80) === 0 || (random.below(8) === 0 && !this.revive())) this.restart()
      if (random.below(40) === 0) world.pass(500 + random.below(600_000))
    }
    host.ram.link.script = null
    if (world.complaint === '') arena.rest()
  }

  private drain(): void {
    for (const cq of this.cqs) {
      const of = this.host.queues.get(cq)!
      for (let i = 0; i < ENTRIES && this.host.peek(cq) !== null; i++) {
        of.pointer = (of.pointer + 1) >>> 0
      }
      this.host.setPointer(cq)
    }
  }

  /** One thing that a driver would do, or would not. */
  private disturb(): void {
    const { random } = this
    const what = random.below(16)
    this.hash = mix(this.hash, what)
    if (what < 9) this.post()
    else if (what < 11) this.answer()
    else if (what === 11) this.spoilElement()
    else if (what === 12) this.ringWildly()
    else if (what === 13) this.call()
    else if (what === 14) this.receive()
    else if (this.chaotic) this.spoilZone()
    else this.ringAll()
  }

  /** An element of any kind, perhaps with wrong fields, and its doorbell. */
  private post(): void {
    const { random, host } = this
    const { queue } = this.sends[random.below(this.sends.length)]!
    const element = elementOf(this.fields())
    for (let i = random.below(10) - 7; i > 0; i--) mutateField(element, FIELDS, random, this.words)
    if (element.length / 64 > UNITS) return
    this.note(element)
    if (!this.chaotic && host.trust && random.below(5) === 0) {
      this.tear(queue, element)
      return
    }
    host.post(queue, element)
    const carrying = host.trust ? 'trusted' : 'fifo with pointer'
    if (random.below(4) > 0) host.ring(queue, random.below(2) === 0 ? 'fifo' : carrying)
  }

  /** An element that is stored and not posted, and a doorbell of which one half is of later. */
  private tear(queue: number, element: Uint8Array): void {
    const { host } = this
    const posted = host.store(queue, element)
    host.ringFifo(taggedDoorbell(queue, posted, host.epoch), host.queues.get(queue)!.pointer)
  }

  private note(bytes: Uint8Array): void {
    for (let i = 0; i < Math.min(128, bytes.length); i += 4) {
      this.hash = mix(this.hash, (bytes[i]! << 16) ^ (bytes[i + 1]! << 8) ^ bytes[i + 2]!)
    }
  }

  /** Queue pairs that ended are made again; false where the host has spoilt too much to go on. */
  private revive(): boolean {
    const { host, sends, receives } = this
    try {
      for (let i = 0; i < sends.length; i++) {
        if (host.zone1(sends[i]!.queue).state === info.QUEUE_READY) continue
        host.destroy(sends[i]!.queue)
        host.queues.delete(receives[i]!)
        this.openQueue(i)
      }
      return sends.every(({ queue }, i) => {
        return host.queues.has(queue) && host.queues.has(receives[i]!)
      })
    } catch {
      // It has locked or destroyed its own queues.
      return false
    }
  }

  /** The host ends in the middle of a burst, and comes back with empty memory. */
  private restart(): void {
    const { arena, random, host } = this
    for (let i = random.below(8); i > 0; i--) {
      if (random.below(3) === 0) arena.good()
      else this.answer()
    }
    if (random.below(2) === 0) host.setLink(false)
    else host.enable()
    arena.serve()
    this.isStarting = true
    host.bytes.fill(0)
    host.startAnew(QUEUES)
    this.rings.length = 0
    this.settle()
    this.isStarting = false
  }

  private fields(): ElementFields {
    const { random, arena } = this
    const { records, bytes, durable, fixed, big } = arena.regions
    const region = [records, bytes, durable, fixed, big][random.below(5)]!
    const isRecords = region === records || region === fixed || region === big
    const drawn = random.below(20)
    const opcode = drawn < 16 ? drawn : drawn < 19 ? el.WQE_READ : el.WQE_NOP
    const address = isRecords ? random.below(9) * 2 ** 32 : 8 * random.below(520)
    const length = [0, 1, 8, 48, 64, 100, 300, 4096][random.below(8)]!
    const base = {
      ...{ opcode, rkey: region.rkey, address, operation: this.operation++, wait: 1 },
      ...{ compare: random.below(3), flags: random.below(4) === 0 ? random.below(256) & 0x67 : 1 },
    }
    const wrong = random.below(6)
    const lkey = this.lkeys[wrong === 0 ? random.below(3) : wrong === 1 ? 2 : 0]!
    const local = wrong < 3 ? this.reds[wrong === 1 ? 2 : random.below(3)]! + 8 : this.data + 64
    switch (random.below(4)) {
      case 0:
        return { ...base, inline: new Uint8Array(Math.min(length, 1024)).fill(this.operation) }
      case 1: {
        const sges = Array.from({ length: 1 + random.below(4) }, (_, i) => {
          return { address: local + 512 * i, length: length >> 2, lkey }
        })
        return { ...base, sges }
      }
      case 2:
        return { ...base, ...this.batch(), inline: new Uint8Array(48).fill(this.operation) }
      default:
        return { ...base, local, lkey, length }
    }
  }

  private batch(): Pick<ElementFields, 'batch'> {
    const { random } = this
    const index = random.below(4)
    const condition = random.below(4)
    const expect = condition === 2 ? { expect: BigInt(random.below(3)) } : {}
    return { batch: { id: 3, index, count: 4, condition, left: 3 - index, ...expect } }
  }

  /** A receive element. */
  private receive(): void {
    const { random, host } = this
    const queue = this.receives[random.below(this.receives.length)]!
    const lkey = this.lkeys[random.below(10) === 0 ? 1 : 0]!
    const length = [0, 64, 256, 4096][random.below(4)]!
    host.post(queue, elementOf({ opcode: el.WQE_RECEIVE, local: this.data, lkey, length }))
    host.ring(queue)
  }

  /** A byte of an element that is posted already. */
  private spoilElement(): void {
    const { random, host } = this
    const { queue } = this.sends[random.below(this.sends.length)]!
    const ring = host.queues.get(queue)?.ring
    if (ring !== undefined) host.bytes[ring + random.below(UNITS * 64)] = random.below(256)
  }

  private ringWildly(): void {
    const { random, host } = this
    const low = random.below(3) === 0 ? random.below(2 ** 31) : random.below(QUEUES)
    const carries = random.below(2) === 0 ? hal.CARRIES_POINTER : 0
    const pointer = random.below(3) === 0 ? random.below(2 ** 31) : random.below(200)
    if (random.below(2) === 0) host.ringFifo((low | carries) >>> 0, pointer)
    else host.ringRegister(((random.below(65536) << 16) | (low & 0xffff)) >>> 0, pointer)
    if (random.below(6) !== 0) return
    const { queue } = this.sends[random.below(this.sends.length)]!
    host.setPointer(queue, host.queues.get(queue)!.pointer + random.below(300))
  }

  private ringAll(): void {
    for (const { queue } of this.sends) {
      this.host.setPointer(queue)
      this.host.ring(queue)
    }
  }

  /** Zones, header page, registers, link. */
  private spoilZone(): void {
    const { random, host } = this
    const zones = [
      [host.zone1At, info.ZONE1_BYTES],
      [host.zone2At, info.ZONE2_BYTES],
      [host.zone3At, info.ZONE3_BYTES],
      [4096 - random.below(QUEUES) * 64, 128],
    ] as const
    const [at, bytes] = zones[random.below(4)]!
    const to = at + random.below(QUEUES) * bytes + 4 * random.below(bytes / 4)
    const value = random.below(2) === 0 ? random.below(64) : random.below(2 ** 31)
    if (to >= 0) host.view.setInt32(to, value, true)
    if (random.below(30) === 0) host.port.setUint32(hal.PORT_EPOCH, random.below(3) * 77, true)
    if (random.below(60) === 0) host.setLink(random.below(2) === 0)
    if (random.below(30) === 0) host.setCache(random.below(5), 1 + random.below(9), 99, 8)
  }

  /** A control call of the host's own, of any attribute. */
  private call(): void {
    const { random, host } = this
    const attribute = 0x60 + random.below(0x18)
    const fill = (body: Uint8Array): void => {
      for (let at = 0; at < 64; at += 4) {
        const word = this.words[random.below(this.words.length)]!
        if (random.below(2) === 0) put(body, at, 4, random.below(3) === 0 ? word : random.below(99))
      }
    }
    const inline = callOf(random.next(), 1 + random.below(2), attribute, fill, random.below(40))
    host.post(page.QUEUE_GSI_SEND, elementOf({ opcode: 4, inline }))
    host.ring(page.QUEUE_GSI_SEND)
  }

  /** What a peer says to a request of the card's: the answer, or something like one. */
  private answer(): void {
    const { random, arena } = this
    const asked = this.asked[random.below(Math.max(1, this.asked.length))]
    if (asked === undefined) return
    const opcodes = [0x11, 0x11, 0x10, 0x12, 0xd1, 0xd9, 0x0d, 0x0e, 0x0f, 0x04, 0x0a, 0x0c, 0xc4]
    const opcode = opcodes[random.below(opcodes.length)]!
    const kinds = arena.kinds[0].filter((kind) => kind.opcode === opcode)
    const kind = kinds[random.below(kinds.length)]!
    const { pair } = asked
    const length = arena.fill(kind, pair, asked.psn)
    const { scratch } = arena
    if (opcode <= 0x0c || opcode === 0xc4) put(scratch, kind.bthAt + 9, 3, pair.psn)
    else if (random.below(4) === 0) {
      scratch[kind.bthAt + 12] = SYNDROMES[random.below(SYNDROMES.length)]!
    }
    for (let i = random.below(6) - 3; i > 0; i--) {
      mutateField(scratch, kind.fields, random, this.words)
    }
    arena.seal(length)
    this.heard.add(pair.peer)
    arena.world.stage(arena.view(length))
    arena.resume(pair)
  }
}

/** What a raw host needs of a card. */
function hosted({ world }: Arena): Hosted {
  return {
    machine: world.machine,
    must: (...call) => world.talk.must(...call),
    serve: () => {
      world.serve()
      return []
    },
    idle: () => world.pass(10),
    get now() {
      return world.now
    },
    set now(us: number) {
      world.now = us
    },
    get waitUs() {
      return world.waitUs
    },
    set waitUs(us: number) {
      world.waitUs = us
    },
  }
}
