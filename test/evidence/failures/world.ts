/**
 * A part with records and bytes, the clients of its card, and the judge of what a failing board
 * leaves behind (O1 to O7).
 *
 * Invariants:
 * - A frame that says "durable" is judged in the moment in which it leaves: what it names is in the
 *   persistence domain already, in as many copies as it says.
 * - Whatever the board did, the power goes afterwards, in the worst ways; a card without failures
 *   is started on what is left, and everything acknowledged is there, wholly, or the part says by
 *   name that it is not.
 * - The judge reads the medium by the oracle, and asks the card nothing that it could lie about.
 */

import { createHash } from 'node:crypto'
import { Random } from '../../../boards/emulator/base/random.ts'
import type { HostRam } from '../../../boards/emulator/host/host-ram.ts'
import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import type { EmulatedMachine } from '../../../boards/emulator/run/machine.ts'
import { FAULTS } from '../../../firmware/board/fault.ts'
import { COPY_CLEAN, FROM, NVDIMM_SPACE, TO } from '../../../firmware/board/hal.ts'
import * as mad from '../../../firmware/wire/management.ts'
import { PERSIST_ACK } from '../../../firmware/wire/opcode.ts'
import { type BatchOptions, batchFrames } from '../../support/cards/batch-card.ts'
import type { TestCard } from '../../support/cards/test-card.ts'
import { beginVersion, Carried, type Named, noteSequenceOf } from '../../support/crash/carried.ts'
import { acknowledgementIn } from '../../support/judges/acknowledgement.ts'
import {
  copyAt,
  RecordOracle,
  type RegionLayout,
  readSlot,
  readSuperblock,
  sameBytes,
} from '../../support/judges/oracle.ts'
import {
  dataOf,
  persistFrames,
  type Sent,
  type TestPeer,
  type TestRegion,
} from '../../support/wire/conversation.ts'
import { boardCard, type Seat, type Starter } from './card.ts'

/** Called when failures begin to count. */
export type Attach = (machine: EmulatedMachine) => void

/** One operation of the firmware, ready to be played once. */
export interface World {
  /** Plays it; `attach` is called when everything before it is done. */
  play(attach: Attach): void
  /**
   * What is wrong, when it has ended. `goesOn`: the board has power, and threw nothing. `mayLose`:
   * so much failed that a record may be given up, if that is said.
   */
  judge(goesOn: boolean, mayLose: boolean): string[]
  readonly counts: Counts
}

/** What was looked at. */
export interface Counts {
  images: number
  /** Images that were judged before, and are not judged again. */
  repeated: number
  losses: number
  acknowledged: number
  refused: number
}

export function noCounts(): Counts {
  return { images: 0, repeated: 0, losses: 0, acknowledged: 0, refused: 0 }
}

/** Bytes that are durable once the answer of that PSN has left. */
interface Claim {
  readonly qp: TestPeer
  readonly psn: number
  readonly at: number
  readonly bytes: Uint8Array
  due: boolean
}

/** Records of which an image is read over the wire. */
const READ_SLOTS = 2

const NAK = 0x60
/** Status of a record of a batch whose condition does not hold. */
const CONDITION = 0x86
const ACK_LEAST = 0x00

/** What is judged of a part with that content, whoever left it: verdicts by image. */
export type Judged = Map<string, readonly string[]>

export class PartWorld implements World {
  readonly counts: Counts = noCounts()
  readonly part: Nvdimm
  readonly complaints: string[] = []
  /** May the operation end with less than there was, if that is said? */
  mayLose = false
  /** May the part be of no use afterwards: not formatted yet, or not ours? */
  mayRefuse = false
  protected readonly initial: Uint8Array
  private readonly judged: Judged
  private readonly records = new Map<string, RecordOracle>()
  /** Records by the place of their first copy. */
  private readonly firstCopies = new Map<number, RecordOracle>()
  private readonly carried = new Carried()
  private readonly posted = new Map<number, Named>()
  private readonly claims: Claim[] = []
  private readonly touched: (readonly [at: number, length: number])[] = []
  private readonly action: (world: PartWorld, attach: Attach) => void
  private batches = 0
  private connections = 10
  layouts: readonly RegionLayout[] = []
  card: TestCard | null = null
  /** Another engine than the sources in Node. */
  starter: Starter | null = null

  constructor(
    content: Uint8Array,
    judged: Judged,
    action: (world: PartWorld, attach: Attach) => void,
    dirtyShutdowns = 0,
  ) {
    this.initial = content
    this.part = new Nvdimm({ bytes: content.length, content })
    this.part.dirtyShutdowns = dirtyShutdowns
    this.judged = judged
    this.action = action
    this.layOut(content)
  }

  /** Takes note of the regions there are, and of every record as it is. */
  layOut(content: Uint8Array): void {
    this.layouts = readSuperblock(content)?.regions ?? []
    for (const layout of this.layouts) {
      for (let slot = 0; layout.kind === 0 && slot < layout.slots; slot++) {
        this.keep(firstOf(content, layout, slot))
      }
    }
  }

  /** Replaces what is known of a record: `versions` may be on the medium, oldest first. */
  know(slot: number, versions: readonly Uint8Array[], acknowledged: number): void {
    const layout = this.layouts[0]!
    const [first, ...later] = versions.map((image) => versionIn(image))
    const record = new RecordOracle(layout, slot, first!)
    for (const version of later) record.versions.push(version)
    versions.forEach((image, i) => {
      record.noteSequence(i, readSlot(image).sequence)
    })
    record.started = versions.length - 1
    record.acknowledged = acknowledged
    this.keep(record)
  }

  /** The record is lost; it is blank when it is anything. */
  forget(slot: number): void {
    const blank = { data: new Uint8Array(0), client: 0, operation: 0 }
    this.keep(new RecordOracle(this.layouts[0]!, slot, blank))
  }

  private keep(record: RecordOracle): void {
    const { region } = record
    this.records.set(`${region.id} ${record.record}`, record)
    this.firstCopies.set(copyAt(region, 0, record.record), record)
  }

  /** Starts the card; `attach` where the start itself is the operation. */
  boot(attach?: Attach, ram?: HostRam): TestCard {
    this.card = boardCard(this.part, {
      seat: 'played',
      ...{ ram, starter: this.starter ?? undefined },
      leaves: (sent) => this.noteFrame(sent),
      beforeBoot: (machine) => {
        this.noteSequences(machine)
        attach?.(machine)
      },
    })
    return this.card
  }

  /** Takes note of the sequence under which an image goes to copy A. */
  private noteSequences(machine: EmulatedMachine): void {
    machine.observe({
      onCommand: (_, op, words, at) => {
        const from = words[at + FROM]!
        if (op !== COPY_CLEAN || from >= NVDIMM_SPACE) return
        const to = words[at + TO]! - NVDIMM_SPACE
        const record = this.firstCopies.get(to)
        if (record !== undefined) noteSequenceOf(record, machine.packets.subarray(from))
      },
    })
  }

  /** A connection whose operations begin where no other's do, the same ones each time. */
  connect(mtu = 4096, client = 7): TestPeer {
    this.connections += 1
    return { ...this.card!.connect(mtu, 0, client), operation: 1000 * this.connections }
  }

  play(attach: Attach): void {
    this.action(this, attach)
  }

  record(region: TestRegion, slot: number): RecordOracle {
    return this.records.get(`${region.id} ${slot}`)!
  }

  private layoutOf(region: TestRegion): RegionLayout {
    return this.layouts.find(({ id }) => id === region.id)!
  }

  /** The frames of a record; the oracle knows of it from here on. */
  persist(
    qp: TestPeer,
    region: TestRegion,
    slot: number,
    data: Uint8Array,
    wait = 2,
    client = 7,
  ): Uint8Array[] {
    const frames = persistFrames(qp, region, slot, data, { wait })
    this.carried.note(qp, this.begin(region, slot, data, wait, client, qp.operation))
    return frames
  }

  /** The frames of a batch of the first client. */
  batch(
    qp: TestPeer,
    region: TestRegion,
    writes: readonly { readonly slot: number; readonly data: Uint8Array }[],
    options: BatchOptions & { readonly expects?: boolean } = {},
  ): Uint8Array[] {
    this.batches += 1
    const id = this.batches
    const first = qp.operation + 1
    const members = writes.map(({ slot, data }, i) => {
      const record = this.record(region, slot)
      const expect = readSlot(record.copyIn(this.part.durable, 0)).sequence
      const named = this.begin(region, slot, data, 2, 7, first + i)
      this.carried.noteInBatch(qp, id, i, named)
      return { slot, data, ...(options.expects === true ? { expect } : {}) }
    })
    return batchFrames(qp, region, members, { ...options, id })
  }

  private begin(
    region: TestRegion,
    slot: number,
    data: Uint8Array,
    wait: number,
    client: number,
    operation: number,
  ): Named {
    return beginVersion(this.record(region, slot), { data, client, operation }, wait)
  }

  /** A record that is posted as an element of the host's; the oracle knows of it from here on. */
  post(region: TestRegion, slot: number, data: Uint8Array, wait: number, operation: number): void {
    this.posted.set(operation, this.begin(region, slot, data, wait, 7, operation))
  }

  /** The host was told that the operation is durable. */
  completed(operation: number): void {
    const { record, version, wait } = this.posted.get(operation)!
    this.counts.acknowledged += 1
    record.acknowledged = Math.max(record.acknowledged, version)
    const copies = record.statesIn(this.part.durable).filter((state) => state === version).length
    if (copies >= wait) return
    this.complaints.push(`operation ${operation} completed with ${copies} copies of ${wait}`)
  }

  /** Bytes that must be durable when the answer of the queue pair's last request has left. */
  claim(qp: TestPeer, region: TestRegion, offset: number, bytes: Uint8Array): void {
    const at = this.layoutOf(region).at + offset
    this.claims.push({ qp, psn: (qp.psn - 1) & 0xffffff, at, bytes, due: false })
    this.touched.push([at, bytes.length])
  }

  /** Bytes that may change without being confirmed. */
  touch(region: TestRegion, offset: number, length: number): void {
    this.touched.push([this.layoutOf(region).at + offset, length])
  }

  private noteFrame(sent: Sent): void {
    const said = acknowledgementIn(sent.bytes)
    const spoken = said === null ? [] : this.carried.namedBy(said)
    // An acknowledgement may be of what is no record.
    const named = spoken.filter((one) => one !== undefined)
    this.counts.acknowledged += named.length
    for (const { record, version, wait } of named) {
      record.acknowledged = Math.max(record.acknowledged, version)
      const copies = record.statesIn(this.part.durable).filter((state) => state === version).length
      if (copies >= wait && copies >= said!.copies) continue
      const where = `record ${record.record}: v${version} was acknowledged`
      this.complaints.push(`${where} with ${copies} durable copies of ${wait}`)
    }
    if (said !== null && said.batch === null && said.status === CONDITION) {
      this.complaints.push(`a record at PSN ${sent.psn}, of no batch, is refused for another`)
    }
    if (sent.syndrome >= NAK || (sent.paeth?.status ?? 0) !== 0) this.counts.refused += 1
    if (sent.syndrome < ACK_LEAST || sent.syndrome >= 0x20) return
    for (const claim of this.claims) {
      const { qp, psn, at, bytes } = claim
      if (claim.due || qp.peer !== sent.packet.destQp) continue
      if (((sent.psn - psn) & 0xffffff) >= 0x800000) continue
      claim.due = true
      this.counts.acknowledged += 1
      if (sameBytes(this.part.durable.subarray(at, at + bytes.length), bytes)) continue
      this.complaints.push(`bytes at ${at} were confirmed and are not durable`)
    }
  }

  judge(goesOn: boolean, mayLose: boolean): string[] {
    this.mayLose ||= mayLose
    this.judgeImages(['none', 'all', 'some'])
    if (goesOn && this.card !== null) {
      this.goOn(this.card)
      this.judgeImages(['none', 'all'])
    }
    return this.complaints
  }

  /** The card is asked, and written to, with the board as it is by now. */
  private goOn(card: TestCard): void {
    const status = card.status()
    const state = status[mad.PART_STATE]!
    const fault = FAULTS[status[mad.PART_FAULT]!]!.name
    if (state !== mad.STATE_SERVING && fault === 'PASS') {
      this.complaints.push(`the part is in state ${state}, and does not say why`)
    }
    const [layout] = this.layouts
    if (layout === undefined || layout.kind !== 0) return
    const open = card.manage(mad.METHOD_GET, mad.ATTRIBUTE_OPEN, (body) => {
      body.set(Buffer.from(layout.name), mad.REGION_NAME)
    })
    if (open.fault !== 'PASS') return
    const region = card.open(layout.name)
    for (let slot = 0; slot < READ_SLOTS; slot++) this.readLive(card, region, slot)
    const fresh = this.connect(4096, 9)
    card.serve(...this.persist(fresh, region, 3, dataOf(24, 99), 2, 9))
    for (let i = 0; i < 3; i++) card.idle()
  }

  /** What a reader is told is durable, and no older than what was acknowledged (I6). */
  private readLive(card: TestCard, region: TestRegion, slot: number): void {
    const record = this.record(region, slot)
    // A refusal ends a queue pair.
    const data = card.read(card.connect(4096, 0, 9), region, slot, 0, region.capacity)
    if (data === null) return
    const version = record.versions.findLastIndex((one, v) => {
      return v <= record.started && sameBytes(data, padded(one.data, region.capacity))
    })
    if (version < 0) this.complaints.push(`record ${slot} reads as nothing that was written`)
    else if (version < record.acknowledged) {
      const wanted = `v${record.acknowledged} was acknowledged`
      this.complaints.push(`record ${slot} reads as v${version}, and ${wanted}`)
    }
  }

  private judgeImages(ways: readonly ('none' | 'all' | 'some')[]): void {
    for (const way of ways) {
      const image = imageOf(this.part, way)
      const mark = this.markOf(image)
      const known = this.judged.get(mark)
      if (known !== undefined) {
        this.counts.repeated += 1
        this.complaints.push(...known)
        continue
      }
      this.counts.images += 1
      const found = this.judgeImage(image).map((what) => `after a cut (${way}): ${what}`)
      this.judged.set(mark, found)
      this.complaints.push(...found)
    }
  }

  /** Everything that the verdict of an image follows from. */
  private markOf(image: Uint8Array): string {
    const hash = createHash('sha1').update(image)
    for (const record of this.records.values()) {
      hash.update(`${record.started} ${record.acknowledged},`)
    }
    for (const { due } of this.claims) hash.update(due ? '1' : '0')
    return hash.digest('base64')
  }

  /** Starts a card without failures on the image; what is wrong with what it finds. */
  private judgeImage(image: Uint8Array): string[] {
    const part = new Nvdimm({ bytes: image.length, content: image })
    const { dirtyShutdowns } = this.part
    part.dirtyShutdowns = dirtyShutdowns
    const seat: Seat = 'restarted'
    let card: TestCard
    try {
      card = boardCard(part, { seat })
    } catch (error) {
      return [`the start throws: ${String(error)}`]
    }
    const status = card.status()
    if (status[mad.PART_STATE] !== mad.STATE_SERVING) {
      const fault = FAULTS[status[mad.PART_FAULT]!]!.name
      if (this.mayRefuse && fault !== 'PASS') return []
      return [`the part does not serve: ${fault}`]
    }
    const said = [...this.judgeRecords(part), ...this.judgeBytes(part.durable)]
    return [...said, ...this.judgeReads(card, part), ...this.judgeWrite(card, part)]
  }

  private judgeRecords(part: Nvdimm): string[] {
    const lost = readSuperblock(part.durable)?.lost ?? []
    const said: string[] = []
    for (const record of this.records.values()) {
      const complaint = record.complaint(part.durable)
      if (complaint === null) continue
      const listed = lost.some(([id, slot]) => {
        return id === record.region.id && slot === record.record
      })
      if (!listed || !this.mayLose) said.push(`${complaint}${listed ? ', and is given up' : ''}`)
    }
    return said
  }

  /** What was confirmed is there, and nothing changed that nobody wrote to (O3). */
  private judgeBytes(durable: Uint8Array): string[] {
    const said: string[] = []
    for (const { due, at, bytes } of this.claims) {
      if (!due || sameBytes(durable.subarray(at, at + bytes.length), bytes)) continue
      said.push(`bytes at ${at} were confirmed and are lost`)
    }
    for (const layout of this.layouts) {
      if (layout.kind !== 1) continue
      const end = layout.at + layout.areaBytes
      const now = durable.slice(layout.at, end)
      const then = this.initial.slice(layout.at, end)
      for (const [at, length] of this.touched) {
        now.fill(0, at - layout.at, at - layout.at + length)
        then.fill(0, at - layout.at, at - layout.at + length)
      }
      if (!sameBytes(now, then)) said.push('bytes changed that nobody wrote to')
    }
    return said
  }

  /** Every record reads as what is on the medium; one that was given up does not read at all. */
  private judgeReads(card: TestCard, part: Nvdimm): string[] {
    const lost = readSuperblock(part.durable)!.lost.map(([id, slot]) => `${id} ${slot}`)
    const said: string[] = []
    for (const layout of this.layouts) {
      if (layout.kind !== 0) continue
      const region = card.open(layout.name)
      for (let slot = 0; slot < READ_SLOTS; slot++) {
        const name = `${layout.id} ${slot}`
        const record = this.records.get(name)!
        const version = record.statesIn(part.durable)[0]!
        const data = card.read(card.connect(4096, 0, 9), region, slot, 0, layout.capacity)
        if (lost.includes(name)) {
          if (data !== null) said.push(`record ${slot} of ${layout.name} is lost, and reads`)
          if (!this.mayLose) said.push(`record ${slot} of ${layout.name} is given up`)
          this.counts.losses += 1
          continue
        }
        const wanted = version < 0 ? null : padded(record.versions[version]!.data, layout.capacity)
        if (data !== null && wanted !== null && sameBytes(data, wanted)) continue
        said.push(`record ${slot} of ${layout.name} reads as something else than v${version}`)
      }
    }
    return said
  }

  /** All is well again: a record is taken, and durable. */
  private judgeWrite(card: TestCard, part: Nvdimm): string[] {
    const layout = this.layouts.find(({ kind }) => kind === 0)
    if (layout === undefined) return []
    const region = card.open(layout.name)
    if (region.unsettled > 0) return this.mayLose ? [] : ['the region takes no records']
    const qp = { ...card.connect(4096, 0, 9), operation: 999_000 }
    const data = dataOf(16, 77)
    const sent = card.serve(...persistFrames(qp, region, 2, data, { wait: 2 }))
    const good = sent.some((frame) => frame.opcode === PERSIST_ACK && frame.paeth!.status === 0)
    if (!good) return ['a new record is not taken']
    const copies = Array.from({ length: layout.copies }, (_, copy) => {
      const at = copyAt(layout, copy, 2)
      return readSlot(part.durable.subarray(at, at + layout.stride)).data
    })
    const there = copies.filter((copy) => sameBytes(copy, data)).length
    return there < 2 ? ['a new record is acknowledged and is not durable'] : []
  }
}

function padded(data: Uint8Array, capacity: number): Uint8Array {
  const whole = new Uint8Array(capacity)
  whole.set(data)
  return whole
}

function versionIn(image: Uint8Array) {
  const slot = readSlot(image)
  return { data: slot.data, client: Number(slot.client), operation: Number(slot.operation) }
}

function firstOf(content: Uint8Array, layout: RegionLayout, slot: number): RecordOracle {
  const at = copyAt(layout, 0, slot)
  return new RecordOracle(layout, slot, versionIn(content.subarray(at, at + layout.stride)))
}

/** What a cut leaves: nothing that was pending, all of it, or of each chunk as chance says. */
function imageOf(part: Nvdimm, way: 'none' | 'all' | 'some'): Uint8Array {
  const image = (way === 'all' ? part.live : part.durable).slice()
  if (way !== 'some') return image
  const random = new Random(part.bytesStored)
  const { line, count } = part.pendingStores
  for (const one of new Set(line.subarray(0, count))) {
    for (let at = one * 64; at < one * 64 + 64; at += 8) {
      if (random.chance(0.5)) image.set(part.live.subarray(at, at + 8), at)
    }
  }
  return image
}
