/**
 * The good client in the middle of garbage: it writes records, and whatever a frame beside it does,
 * what it was told is durable must outlive a power cut at that very instant, and be read again.
 *
 * Invariant: nobody else is authorised in its region; the judge of its records is the
 * oracle, which knows nothing of the firmware.
 */

import type { Random } from '../../../boards/emulator/base/random.ts'
import { CUT_STRATEGIES, pending } from '../../../boards/emulator/medium/power-cut.ts'
import { MEMORY_BYTES } from '../../../firmware/board/memory-map.ts'
import { dataOf, persistFrames, readFrame, type TestPeer } from '../../support/cards/test-card.ts'
import { type Acknowledgement, acknowledgementIn } from '../../support/judges/acknowledgement.ts'
import * as oracle from '../../support/judges/oracle.ts'
import { type RegionShape, sentOf, type TestRegion } from '../../support/wire/conversation.ts'
import { World } from './world.ts'

export const KEPT_SLOTS = 4
export const KEPT_BYTES = 64
export const KEPT_DOMAIN = 5
/** The region of the good client. */
export const KEPT: RegionShape = {
  name: 'kept',
  slots: KEPT_SLOTS,
  capacity: KEPT_BYTES,
  domain: KEPT_DOMAIN,
}
const KEPT_CLIENT = 77
/** Operations that the table names one by one. */
const KNOWN_WINDOW = 128n

interface Waiting {
  readonly psn: number
  readonly slot: number
  readonly version: number
}

/**
 * A durable acknowledgement of a client that is not ours: its operation must be known permanently.
 */
interface Told {
  readonly client: number
  readonly operation: number
}

/** What a cut would have left when an acknowledgement went out. */
interface Snapshot {
  readonly image: Uint8Array
  readonly strategy: string
  readonly told: Told | null
  readonly acknowledged: readonly number[]
  readonly started: readonly number[]
}

let spare: Uint8Array | null = null

export class Keeper {
  readonly records: oracle.RecordOracle[] = []
  readonly waiting: Waiting[] = []
  cuts = 0
  /** Records written so far. */
  written = 0
  private readonly world: World
  private readonly region: TestRegion
  private qp: TestPeer
  private readonly random: Random
  private snapshot: Snapshot | null = null
  /** The next acknowledgement is looked at with the eyes of a power cut. */
  private armed = false

  constructor(world: World, region: TestRegion, layout: oracle.RegionLayout, random: Random) {
    this.world = world
    this.region = region
    this.random = random
    // Its operations follow from nothing but the world.
    this.qp = { ...world.talk.connect(4096, KEPT_DOMAIN, KEPT_CLIENT), operation: 1000 }
    const blank = { data: new Uint8Array(0), client: 0, operation: 0 }
    for (let slot = 0; slot < KEPT_SLOTS; slot++) {
      this.records.push(new oracle.RecordOracle(layout, slot, blank))
    }
    world.authority.pairs.set(this.qp.number, { ...this.qp, domain: KEPT_DOMAIN, ipVersion: 4 })
    world.authority.areas.set(region.rkey, { rkey: region.rkey, domain: KEPT_DOMAIN, layout })
  }

  get number(): number {
    return this.qp.number
  }

  /** Puts the next record into the burst. */
  write(): void {
    const slot = this.written++ % KEPT_SLOTS
    const record = this.records[slot]!
    if (this.waiting.some((one) => one.slot === slot)) return
    const data = dataOf(KEPT_BYTES, this.written)
    const [frame] = persistFrames(this.qp, this.region, slot, data)
    const { operation } = this.qp
    const version = record.versions.push({ data, client: KEPT_CLIENT, operation }) - 1
    record.started = version
    this.waiting.push({ psn: (this.qp.psn - 1) & 0xffffff, slot, version })
    this.world.stage(frame!)
  }

  /** A cut is played at the next acknowledgement of durability that goes out, to whomever. */
  arm(): void {
    this.armed = true
  }

  /** A frame that the card sends. `clientOf`: whose queue pair has that peer number, or 0. */
  hear(frame: Uint8Array, clientOf: (peer: number) => number): void {
    const said = acknowledgementIn(frame)
    if (said === null) return
    // The product's own reader takes it, too.
    sentOf(frame)
    const { peer, operation } = said
    if (peer === this.qp.peer) this.settle(said)
    if (said.status !== 0) return
    if (!this.armed) return
    const client = peer === this.qp.peer ? 0 : clientOf(peer)
    const all = said.all || said.batch === null
    const knows = client !== 0 && all && operation < 2 ** 32
    this.take(knows && operation !== 0 ? { client, operation } : null)
  }

  /** Of the records in the range each is durable, or refused; of others nothing is said. */
  private settle({ status, firstPsn, lastPsn }: Acknowledgement): void {
    const span = (lastPsn - firstPsn) & 0xffffff
    const isMeant = ({ psn }: Waiting): boolean => ((psn - firstPsn) & 0xffffff) <= span
    const meant = this.waiting.filter(isMeant)
    this.waiting.splice(0, Infinity, ...this.waiting.filter((one) => !isMeant(one)))
    if (status !== 0) return
    for (const one of meant) {
      this.records[one.slot]!.acknowledged = one.version
      this.noteSequence(this.records[one.slot]!)
    }
  }

  /** The sequence under which the newest version is stored. */
  private noteSequence(record: oracle.RecordOracle): void {
    const slot = oracle.readSlot(record.copyIn(this.world.part.live, 0))
    const newest = record.versions.length - 1
    const { client, operation } = record.versions[newest]!
    if (slot.client !== BigInt(client) || slot.operation !== BigInt(operation)) return
    record.noteSequence(newest, slot.sequence)
  }

  /** What the part could hold if the power went now. */
  private take(told: Told | null): void {
    const { part } = this.world
    this.armed = false
    const image = part.durable.slice()
    const strategy = CUT_STRATEGIES[this.random.below(3)]!
    if (strategy !== 'none') this.surviving(image)
    this.snapshot = {
      image,
      strategy,
      told,
      acknowledged: this.records.map(({ acknowledged }) => acknowledged),
      started: this.records.map(({ started }) => started),
    }
  }

  /** Of every pending chunk any version may have survived. */
  private surviving(image: Uint8Array): void {
    for (const { at, versions } of pending(this.world.part)) {
      image.set(versions[this.random.below(versions.length)]!, at)
    }
  }

  /** Starts a card on what was taken, if anything was, and judges what it finds. */
  judgeCut(): void {
    const taken = this.snapshot
    if (taken === null) return
    this.snapshot = null
    this.cuts++
    spare ??= new Uint8Array(MEMORY_BYTES)
    const seed = 1 + this.cuts
    const next = new World({ seed, content: taken.image, packets: spare })
    const live = next.part.live
    const floor = oracle.readSuperblock(live)?.voidOperations ?? 0n
    this.records.forEach((record, slot) => {
      const begun = record.started
      this.noteSequence(record)
      record.started = taken.started[slot]!
      const complaint = record.complaint(live, taken.acknowledged[slot]!)
      record.started = begun
      if (complaint !== null) this.world.object(`a cut behind an acknowledgement: ${complaint}`)
    })
    const { told } = taken
    if (told === null) return
    const line = new oracle.TableOracle().lineOf(live, told.client, floor)
    const operation = BigInt(told.operation)
    // A client that jumps ahead has given up what is far behind.
    if (line !== null && line.newest - operation >= KNOWN_WINDOW) return
    if (line === null || !oracle.lineKnows(line, operation)) {
      const what = `operation ${told.operation} of client ${told.client}`
      this.world.object(`${what} was acknowledged as durable, and a cut has lost it`)
    }
  }

  /** Everything that was written is acknowledged or refused, and read as it was written. */
  judgeService(): void {
    const { world } = this
    if (this.waiting.length > 0) world.object('a good client waits for its acknowledgement')
    for (let slot = 0; slot < KEPT_SLOTS; slot++) {
      const record = this.records[slot]!
      // One that was refused may be there all the same: a fence that failed says no more.
      const possible = record.versions.slice(record.acknowledged, record.started + 1)
      const length = Math.max(...possible.map(({ data }) => data.length))
      const frame = readFrame(this.qp, this.region, slot, 0, length)
      const sent = world.ask([frame]).filter(({ opcode }) => opcode === 0x10)
      const found = sent[0]?.payload ?? new Uint8Array(0)
      if (possible.some(({ data }) => data.length === 0 || oracle.sameBytes(found, data))) continue
      world.object(`record ${slot} of a good client is not read as it was written`)
    }
  }
}
