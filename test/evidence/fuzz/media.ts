/**
 * Parts that nobody should find at power-on: what a cut leaves of a busy card, with bits turned,
 * lines torn, doubled and swapped, and pages, lanes, table lines and slots that say anything under
 * a check code that is right.
 *
 * Invariants, whatever the part holds:
 * - Recovery refuses or serves. It throws nothing, reads and writes nothing outside the part, and
 *   the number of its commands is bounded.
 * - A part that is refused for what it holds is not written.
 * - A record of the good client that is read is, to the byte, one that it wrote; and where neither
 *   its slots nor what says where they are were spoilt, one not older than it was told is durable.
 */

import { Random } from '../../../boards/emulator/base/random.ts'
import { pending } from '../../../boards/emulator/medium/power-cut.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { dataOf, persistFrames, readFrame } from '../../support/cards/test-card.ts'
import * as oracle from '../../support/judges/oracle.ts'
import type { Arena } from './arena.ts'
import { KEPT_DOMAIN, KEPT_SLOTS } from './keeper.ts'
import { mix } from './ledger.ts'
import { put } from './mutate.ts'
import { DIALOGUES, Traffic } from './traffic.ts'
import { World, type WorldOptions } from './world.ts'

/** Frames of traffic between two cuts, and images made of what one cut leaves. */
const FRAMES_EACH = 96
const IMAGES_EACH = 12
/** Refused for what the part holds, before anything was written. */
const REFUSALS = ['BLANK', 'FOREIGN', 'NEWER', 'OLDER', 'DAMAGED', 'TRUNCATED', 'NOT_ARMED']

const WORDS = [
  0,
  1,
  2,
  3,
  63,
  64,
  100,
  640,
  4095,
  4096,
  4097,
  65536,
  2 ** 31 - 1,
  2 ** 31,
  2 ** 32 - 1,
  131072,
]

let spare: Uint8Array | null = null

/** What is wrong with one image. */
interface Spoilt {
  readonly image: Uint8Array
  readonly what: string[]
  /** Slots of the good client, lanes or the superblock were touched. */
  kept: boolean
  readonly poisoned: number[]
  armed: boolean
  dirtyShutdowns: number
}

export class Media {
  readonly arena: Arena
  private readonly traffic: Traffic
  private readonly random: Random
  private readonly kept: oracle.RegionLayout
  private readonly seed: number
  private elsewhere: Uint8Array | null = null

  constructor(options: WorldOptions) {
    this.traffic = new Traffic(options, DIALOGUES)
    this.arena = this.traffic.arena
    this.random = new Random(options.seed ^ 0x3ed1a)
    this.seed = options.seed
    const { layout } = [...this.arena.world.authority.areas.values()].find(
      ({ domain }) => domain === KEPT_DOMAIN,
    )!
    this.kept = layout
  }

  run(count: number): void {
    const { arena } = this
    const { world } = arena
    for (let left = count; left > 0 && world.complaint === ''; ) {
      const { ledger } = world
      world.ledger = null
      this.traffic.send(FRAMES_EACH)
      world.ledger = ledger
      const cut = world.part.durable.slice()
      for (const { at, versions } of pending(world.part)) {
        cut.set(versions[this.random.below(versions.length)]!, at)
      }
      for (let i = 0; i < IMAGES_EACH && left > 0 && world.complaint === ''; i++, left--) {
        this.boot(this.spoil(cut))
      }
      this.elsewhere = cut
    }
  }

  /** An image in which a few things are wrong. */
  private spoil(cut: Uint8Array): Spoilt {
    const { random } = this
    const image = cut.slice()
    const spoilt = { image, what: [], kept: false, poisoned: [], armed: true, dirtyShutdowns: 0 }
    for (let i = random.below(4); i >= 0; i--) this.spoilOnce(spoilt)
    return spoilt
  }

  private spoilOnce(spoilt: Spoilt): void {
    const ways = [
      this.turnBit,
      this.turnBit,
      this.tearLine,
      this.moveLine,
      this.sealedPage,
      this.sealedPage,
      this.sealedLane,
      this.sealedLane,
      this.sealedTableLine,
      this.sealedSlot,
      this.wholePart,
      this.condition,
    ]
    ways[this.random.below(ways.length)]!.call(this, spoilt)
  }

  /** A byte of the part: of what matters most, more often. */
  private place(): number {
    const { random, arena } = this
    const { bytes } = arena.world.part
    switch (random.below(7)) {
      case 0:
        return random.below(2 * oracle.PAGE_BYTES)
      case 1:
        return oracle.LANES_AT + random.below(oracle.LANES * oracle.LINE_BYTES)
      case 2:
        return oracle.OPERATIONS_AT + random.below(oracle.OPERATIONS_BYTES)
      case 3:
      case 4: {
        const copy = random.below(this.kept.copies)
        const at = oracle.copyAt(this.kept, copy, random.below(this.kept.slots))
        return at + random.below(this.kept.stride)
      }
      default:
        return random.below(bytes)
    }
  }

  private touch(spoilt: Spoilt, at: number, what: string): void {
    spoilt.what.push(what)
    const { at: first, copies, areaBytes } = this.kept
    const isKept = at >= first && at < first + copies * areaBytes
    if (isKept || at < oracle.OPERATIONS_AT) spoilt.kept = true
  }

  private turnBit(spoilt: Spoilt): void {
    const at = this.place()
    const bit = this.random.below(8)
    spoilt.image[at]! ^= 1 << bit
    this.touch(spoilt, at, `bit ${bit} of byte ${at} turned`)
  }

  /** Some chunks of a line are those of another, or zeros, or ones. */
  private tearLine(spoilt: Spoilt): void {
    const { random } = this
    const at = this.place() & -64
    const from = this.place() & -64
    const chunks = random.below(255) + 1
    const fill = random.below(3)
    for (let i = 0; i < 8; i++) {
      if (((chunks >> i) & 1) === 0) continue
      if (fill === 0) spoilt.image.copyWithin(at + 8 * i, from + 8 * i, from + 8 * i + 8)
      else spoilt.image.fill(fill === 1 ? 0 : 255, at + 8 * i, at + 8 * i + 8)
    }
    this.touch(spoilt, at, `line at ${at} torn, ${[`from ${from}`, 'zeros', 'ones'][fill]}`)
  }

  /** A line stands in the place of another, or both have changed places. */
  private moveLine(spoilt: Spoilt): void {
    const one = this.place() & -64
    const other = this.place() & -64
    const line = spoilt.image.slice(one, one + 64)
    spoilt.image.copyWithin(one, other, other + 64)
    this.touch(spoilt, one, `line at ${one} is that at ${other}`)
    if (this.random.below(2) === 0) return
    spoilt.image.set(line, other)
    this.touch(spoilt, other, 'and the reverse')
  }

  private word(): number {
    const { random } = this
    return random.below(2) === 0 ? WORDS[random.below(WORDS.length)]! : random.below(300)
  }

  private putLittle(bytes: Uint8Array, at: number, value: number): void {
    for (let i = 0; i < 4; i++) bytes[at + i] = Math.floor(value / 2 ** (8 * i))
  }

  /** A page of the superblock with a field that is wrong, and a check code that is right. */
  private sealedPage(spoilt: Spoilt): void {
    const { random } = this
    const first = random.below(2)
    const both = random.below(2) === 0
    const inHead = random.below(2) === 0
    const at = inHead ? 16 + 4 * random.below(28) : 640 + 4 * random.below(8 * 32)
    const value = this.word()
    for (const page of both ? [0, 1] : [first]) {
      const bytes = spoilt.image.subarray(4096 * page, 4096 * page + 4096)
      this.putLittle(bytes, at, value)
      if (oracle.usedBytes(bytes) <= 4096) oracle.sealPage(bytes)
    }
    const name = both ? 'both pages' : `page ${first}`
    this.touch(spoilt, 0, `${name}: word at ${at} is ${value}, sealed`)
  }

  /** A lane that names anything. */
  private sealedLane(spoilt: Spoilt): void {
    const { random } = this
    const at = oracle.LANES_AT + 64 * random.below(oracle.LANES)
    const line = spoilt.image.subarray(at, at + 64)
    const phase = random.below(2) === 0 ? 161 : 178
    line[0] = phase
    line[1] = phase ^ 0xff
    this.putLittle(line, 8, 0x5044494e)
    this.putLittle(line, 12, random.below(10))
    this.putLittle(line, 16, random.below(3) === 0 ? this.word() : random.below(8))
    line[23] = random.below(256)
    this.putLittle(line, 24, this.word())
    this.putLittle(line, 28, this.word())
    this.putLittle(line, 4, line[24]! + line[25]! * 2 ** 8 + line[26]! * 2 ** 16)
    line[7] = line[27]!
    line[2] = line[28]!
    line[3] = line[29]!
    line.set(oracle.sipHash128(oracle.PART_KEY, line.slice(8, 48)), 48)
    this.touch(spoilt, at, `lane at ${at} says phase ${phase}, sealed`)
  }

  private sealedTableLine(spoilt: Spoilt): void {
    const { random } = this
    const at = oracle.OPERATIONS_AT + 64 * random.below(2 * oracle.CLIENTS)
    const line = spoilt.image.subarray(at, at + 64)
    for (let i = 0; i < 4; i++) this.putLittle(line, 16 + 4 * random.below(12), this.word())
    oracle.sealClientLine(line)
    this.touch(spoilt, at, `line of the operations at ${at}, sealed`)
  }

  /** A copy of a record of the attacker's, sealed again. */
  private sealedSlot(spoilt: Spoilt): void {
    const { random } = this
    const areas = [...this.arena.world.authority.areas.values()]
    const { layout, domain } = areas[random.below(areas.length)]!
    if (layout.kind !== 0 || domain === KEPT_DOMAIN) return
    const copy = random.below(layout.copies)
    const at = oracle.copyAt(layout, copy, random.below(layout.slots))
    const slot = spoilt.image.subarray(at, at + layout.stride)
    this.putLittle(slot, 16 + 4 * random.below(12), this.word())
    const length = slot[28]! + slot[29]! * 256
    if (64 + length <= slot.length) oracle.sealSlot(slot, layout.key)
    this.touch(spoilt, at, `copy at ${at}, sealed`)
  }

  /** Another part, or a part of another time or format. */
  private wholePart(spoilt: Spoilt): void {
    const { image } = spoilt
    const kind = this.random.below(9)
    if (kind === 0) image.fill(0)
    else if (kind === 1) image.fill(0xff)
    else if (kind === 2) this.random.fill(image, 0, 2 * oracle.PAGE_BYTES)
    else if (kind === 3) image.copyWithin(0, oracle.PAGE_BYTES, 2 * oracle.PAGE_BYTES)
    else if (kind === 4 && this.elsewhere !== null) image.set(this.elsewhere.subarray(0, 4096))
    else if (kind === 5) image.fill(0, 0, oracle.PAGE_BYTES)
    else if (kind === 6) image.fill(0, 24, 4096)
    else {
      for (const page of [0, 4096]) {
        this.putLittle(image, page + 24, kind === 7 ? 1 : 3)
        oracle.sealPage(image.subarray(page, page + 4096))
      }
    }
    this.touch(spoilt, 0, `the whole part, kind ${kind}`)
    // An old page may not know what was settled since.
    spoilt.kept = true
  }

  /** Errors of the medium, the save energy, shutdowns that were counted. */
  private condition(spoilt: Spoilt): void {
    const { random } = this
    const what = random.below(6)
    if (what < 4) {
      const line = this.place() >> 6
      spoilt.poisoned.push(line)
      this.touch(spoilt, line * 64, `line at ${line * 64} cannot be read`)
    } else if (what === 4) {
      spoilt.dirtyShutdowns = 1 + random.below(3)
      this.touch(spoilt, 0, 'an unsafe shutdown was counted')
    } else if (random.below(8) === 0) {
      spoilt.armed = false
      this.touch(spoilt, 0, 'the save energy is not armed')
    }
  }

  /** Starts a card on the image, and judges what it makes of it. */
  private boot(spoilt: Spoilt): void {
    const { arena } = this
    const said = spoilt.what.join('; ')
    const { ledger } = arena.world
    let hash = 0
    for (const word of Buffer.from(said)) hash = mix(hash, word)
    for (let i = 0; i < spoilt.image.length; i += 1021) hash = mix(hash, spoilt.image[i]!)
    ledger?.see(hash)
    spare ??= new Uint8Array(arena.world.machine.packets.length)
    const object = (what: string): void => arena.world.object(`a part with ${said}: ${what}`)
    try {
      const world = new World({
        seed: this.seed,
        content: spoilt.image,
        packets: spare,
        poisoned: spoilt.poisoned,
        armed: spoilt.armed,
        facts: { dirtyShutdowns: spoilt.dirtyShutdowns },
      })
      this.judge(world, spoilt, object)
      if (world.complaint !== '') object(world.complaint)
      if (ledger !== null) world.tell(ledger)
    } catch (error) {
      const stack = error instanceof Error ? (error.stack ?? '') : String(error)
      object(`it threw: ${stack.split('\n').slice(0, 3).join(' ')}`)
    }
  }

  private judge(world: World, spoilt: Spoilt, object: (what: string) => void): void {
    const { state, part } = world
    const reason = FAULTS[state.refused]!.name
    const { ledger } = this.arena.world
    ledger?.name(`media: ${reason === 'PASS' ? 'it serves' : reason}`)
    if (ledger !== null && state.refused !== 0) ledger.refusals[state.refused]! += 1
    if (world.machine.commandCount > COMMANDS_MAX) object('the start needs too many commands')
    if (reason !== 'PASS') {
      if (REFUSALS.includes(reason) && !oracle.sameBytes(part.live, spoilt.image)) {
        object(`refused as ${reason}, and written all the same`)
      }
      world.talk.manage(mad.METHOD_SET, mad.ATTRIBUTE_CONNECT)
      const { fault } = world.talk.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN)
      if (reason !== 'NOT_ARMED' && fault !== 'NOT_SERVING') object(`it serves although ${reason}`)
      return
    }
    this.judgeRecords(world, spoilt, object)
    world.talk.manage(mad.METHOD_SET, mad.ATTRIBUTE_SCAN, (body) => put(body, 0, 4, 1))
    for (let i = 0; i < 4; i++) world.pass(1000)
  }

  /** Every record of the good client, read and written. */
  private judgeRecords(world: World, spoilt: Spoilt, object: (what: string) => void): void {
    const { fault } = world.talk.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
      body.set(new TextEncoder().encode('kept'))
    })
    if (fault !== 'PASS') {
      if (!spoilt.kept) object(`the region of the good client is ${fault}`)
      return
    }
    const region = world.talk.open('kept')
    const qp = { ...world.talk.connect(4096, KEPT_DOMAIN, 77), operation: 2 ** 24 }
    this.arena.keeper.records.slice(0, KEPT_SLOTS).forEach((record, slot) => {
      const wanted = record.versions.map(({ data }) => data)
      const oldest = spoilt.kept ? 0 : record.acknowledged
      const length = wanted[record.acknowledged]!.length
      const sent = world.ask([readFrame(qp, region, slot, 0, length)])
      const answer = sent.find(({ opcode }) => opcode === 0x10)
      if (answer === undefined) {
        if (!spoilt.kept) object(`record ${slot} is lost`)
        return
      }
      const same = wanted.slice(oldest).some((data) => isBegin(data, answer.payload))
      if (!same) object(`record ${slot} is read as nobody wrote it`)
    })
    world.ask(persistFrames(qp, region, 0, dataOf(64, 1)))
  }
}

/** A blank record, and one that is longer, are read with zeros behind them. */
function isBegin(data: Uint8Array, read: Uint8Array): boolean {
  if (data.length === 0) return read.every((byte) => byte === 0)
  return oracle.sameBytes(data.subarray(0, read.length), read)
}

/** Recovery reads every lane, every slot that a lane names or, at the worst, all of the part. */
const COMMANDS_MAX = 40_000
