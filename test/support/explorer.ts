/**
 * Every crash of a scenario: each point, each image that may be left there, each image booted
 * through the firmware's own recovery and judged by the oracle (crash-model 2.3, 2.4; D-2, D-4).
 *
 * What always holds:
 * - A point is before a fence, behind a frame that left, and at the end of a step: between two
 *   fences the pending stores only grow, so the points before have fewer images, not others.
 * - A frame that left before the cut counts: what it acknowledged must be there afterwards.
 * - An image is booted on a new machine with a new state; only the packet memory is used again,
 *   zeroed. The part is put back by the journal behind `images` (boards/emulator/images.ts).
 * - Nothing is random but the sample of a set that is too large, and that has a seed.
 */

import { createHash } from 'node:crypto'
import { bootDirect } from '../../boards/emulator/direct.ts'
import { imageCount, images } from '../../boards/emulator/images.ts'
import { EmulatedMachine, type Watch } from '../../boards/emulator/machine.ts'
import { Nvdimm } from '../../boards/emulator/nvdimm.ts'
import type { Coarse, CutMode } from '../../boards/emulator/pieces.ts'
import { Random } from '../../boards/emulator/random.ts'
import { LANE_CHECKED_AT } from '../../firmware/commit/lane.ts'
import {
  CHECK,
  COMMAND_WORDS,
  COPY,
  COPY_CLEAN,
  type Facts,
  FENCE,
  FROM,
  LENGTH,
  NVDIMM_SPACE,
  OP,
  SKIP,
  TO,
  TRANSMIT,
} from '../../firmware/hal.ts'
import {
  LANE_LINES_AT,
  MEMORY_BYTES,
  PHASE_WORDS_AT,
  STAGING_AT,
  ZEROS_AT,
} from '../../firmware/memory-map.ts'
import { putU16, putU32, u32 } from '../../firmware/wire/bytes.ts'
import { Q_KEY_GSI } from '../../firmware/wire/deth.ts'
import * as mad from '../../firmware/wire/management.ts'
import { PERSIST_ACK, PERSIST_QUERY, UD_SEND_ONLY } from '../../firmware/wire/opcode.ts'
import { batchFrames, IN_ORDER, statuses } from './batch-card.ts'
import {
  Card,
  dataOf,
  persistFrames,
  type RegionShape,
  readFrame,
  type Sent,
  sentOf,
  type TestQueuePair,
  type TestRegion,
} from './card.ts'
import { frameOf } from './frames.ts'
import {
  copyAt,
  LANES,
  LANES_AT,
  LINE_BYTES,
  linesOfCopy,
  OPERATIONS_AT,
  OPERATIONS_BYTES,
  PAGE_BYTES,
  RecordOracle,
  type RegionLayout,
  readLane,
  readSlot,
  readSuperblock,
  sameBytes,
  sealPage,
  TableOracle,
} from './oracle.ts'

/** The seed of every sample and every random schedule: printed with what it found. */
export const SEED: number = Number(process.env.SEED ?? 20261121)

/** Bytes of the part of an exploration: what is the part's own, and up to four copies of a page. */
export const PART_BYTES: number = OPERATIONS_AT + OPERATIONS_BYTES + 4 * PAGE_BYTES

const NAME = 'records'

/** A set of images up to this size is visited whole in the recovery of a recovery. */
const NESTED_MAX = 2 ** 10

/** How the machine is damaged on purpose, to see that the exploration notices. */
export interface Damage {
  /** The fence of that number in each burst is left out, 1 being F1. */
  readonly dropFence?: number
  /** Each PERSIST_ACK leaves before the fence that it stands behind. */
  readonly acknowledgeEarly?: boolean
  /**
   * The check code is the constant zero, so that every torn image passes: what is then still right
   * is so by structure alone (D-2).
   */
  readonly checkless?: boolean
  /** No lane says which record its own must not outlive (commit.ts, "In order"). */
  readonly unlinked?: boolean
  /** What is done to the operation table (commit/operations.ts); see TABLE_DAMAGES. */
  readonly table?: TableDamage
}

/** Each takes one rule of the operation table away. */
export const TABLE_DAMAGES = {
  beforeF1: 'the line is stored before F1: no lane tells that the table is ahead',
  oneLine: 'a client has one line, not two in turn',
  notCleaned: 'the line is stored, and its write-back not started',
  recoverySkipped: 'recovery does not store the operations of the lanes',
  recoveryNotCleaned: 'recovery clears the lanes before its lines are durable',
} as const

export type TableDamage = keyof typeof TABLE_DAMAGES

/** Is that the address of a line of the operation table? */
function isTableAddress(to: number): boolean {
  const at = to - NVDIMM_SPACE
  return at >= OPERATIONS_AT && at < OPERATIONS_AT + OPERATIONS_BYTES
}

function isTableLine(line: number): boolean {
  return isTableAddress(NVDIMM_SPACE + line * LINE_BYTES)
}

/** Damages the stores into the table, of a commit or of a recovery. */
function tableWatch(skipped: boolean, cleaned: boolean, oneLine: boolean): Watch {
  let toTable = false
  return {
    onCommand: (_, op, words, at) => {
      toTable = op === COPY_CLEAN && isTableAddress(words[at + TO]!)
      if (toTable && oneLine) words[at + TO]! -= words[at + TO]! % (2 * LINE_BYTES)
    },
    replace: (_, op) => {
      if (!toTable || op !== COPY_CLEAN) return op
      if (skipped) return SKIP
      return cleaned ? op : COPY
    },
  }
}

/** The damage that each power-on brings with it. */
function bootWatches(damage: Damage): Watch[] {
  const watches: Watch[] = []
  if (damage.checkless === true) watches.push(checklessWatch())
  if (damage.table === 'recoverySkipped') watches.push(tableWatch(true, true, false))
  if (damage.table === 'recoveryNotCleaned') watches.push(tableWatch(false, false, false))
  return watches
}

/** Where a lane that is composed has its link, and the bits of the wait beside it. */
const LINK_AT = 23
const WAIT_BITS = 7

/** Takes the link out of every lane before its check code is made. */
function unlinkedWatch(packets: () => Uint8Array): Watch {
  return {
    onCommand: (_, op, words, at) => {
      const line = words[at + FROM]! - LANE_CHECKED_AT
      if (op !== CHECK || line < LANE_LINES_AT || line >= PHASE_WORDS_AT) return
      packets()[line + LINK_AT]! &= WAIT_BITS
    },
  }
}

/** The damage to what the clients' writes do. */
function writeWatches(damage: Damage, packets: () => Uint8Array): Watch[] {
  const watches: Watch[] = []
  if (damage.unlinked === true) watches.push(unlinkedWatch(packets))
  if (damage.checkless === true) watches.push(checklessWatch())
  if (damage.table === 'notCleaned') watches.push(tableWatch(false, false, false))
  if (damage.table === 'oneLine') watches.push(tableWatch(false, true, true))
  return watches
}

/** Moves check code and store of the one line of the group in front of the fence at `at`. */
function moveLineForward(words: Float64Array, at: number): boolean {
  let end = at + COMMAND_WORDS
  for (let fences = 0; !isTableAddress(words[end - COMMAND_WORDS + TO]!); end += COMMAND_WORDS) {
    if (words[end + OP] === FENCE) fences += 1
    if (fences === 4) return false
  }
  const pair = end - 2 * COMMAND_WORDS
  const moved = words.slice(pair, end)
  words.copyWithin(at + 2 * COMMAND_WORDS, at, pair)
  words.set(moved, at)
  return true
}

const ZERO_CODE_BYTES = 16

/** Turns the check code into zeros, in a watch. */
function checklessWatch(): Watch {
  return {
    onCommand: (_, op, words, at) => {
      if (op !== CHECK) return
      words[at + FROM] = ZEROS_AT
      words[at + LENGTH] = ZERO_CODE_BYTES
    },
    replace: (_, op) => (op === CHECK ? COPY : op),
  }
}

function joined(watches: readonly Watch[]): Watch {
  return {
    onCommand: (number, op, words, at) => {
      for (const watch of watches) watch.onCommand?.(number, op, words, at)
    },
    replace: (number, op) =>
      watches.reduce((now, watch) => watch.replace?.(number, now) ?? now, op),
  }
}

/** A line of the recovery report. */
export interface ReportLine {
  readonly region: number
  readonly lane: number
  readonly row: number
  readonly action: number
  readonly sourceCase: number
  readonly validMask: number
  readonly flags: number
  readonly record: number
  readonly linesRead: number
}

/** The entries of one REPORT answer. */
export function reportLines(body: Uint8Array): ReportLine[] {
  return Array.from({ length: u32(body, mad.REPORT_HERE) }, (_, i) => {
    const at = mad.REPORT_FIRST + i * mad.REPORT_ENTRY_BYTES
    return {
      region: body[at + mad.ENTRY_REGION]! * 256 + body[at + mad.ENTRY_REGION + 1]!,
      lane: body[at + mad.ENTRY_LANE]!,
      row: body[at + mad.ENTRY_ROW]!,
      action: body[at + mad.ENTRY_ACTION]!,
      sourceCase: body[at + mad.ENTRY_SOURCE]!,
      validMask: body[at + mad.ENTRY_VALID]!,
      flags: body[at + mad.ENTRY_FLAGS]!,
      record: u32(body, at + mad.ENTRY_RECORD),
      linesRead: u32(body, at + mad.ENTRY_LINES_READ),
    }
  })
}

/** The whole report of a card's last start. */
export function recoveryReport(card: Card): ReportLine[] {
  const lines: ReportLine[] = []
  for (;;) {
    const body = card.must(mad.METHOD_GET, mad.ATTRIBUTE_REPORT, undefined, lines.length)
    lines.push(...reportLines(body))
    if (lines.length >= u32(body, mad.REPORT_TOTAL)) return lines
  }
}

/** A control call, as a frame. */
function callFrame(
  attribute: number,
  method: number,
  fill: (body: Uint8Array) => void = () => {},
): Uint8Array {
  const payload = new Uint8Array(mad.MAD_BYTES)
  mad.writeMad(payload, 0, { ...mad.blankMad(), method, attribute, transactionLow: attribute })
  fill(payload.subarray(mad.MAD_BODY))
  const bth = { opcode: UD_SEND_ONLY, destQp: 1 }
  return frameOf({ bth, deth: { qkey: Q_KEY_GSI, sourceQp: 1 }, payload })
}

const CLIENT_QP = 0x777
const MTU = 4096

/** The clients that an actor plays, and that ask a rebooted card what became of their writes. */
const CLIENTS_ASKING = [7, 8]

/** What every rebooted card is asked: its state, its report, the region, and connections. */
const GREETING: readonly Uint8Array[] = [
  callFrame(mad.ATTRIBUTE_STATUS, mad.METHOD_GET),
  callFrame(mad.ATTRIBUTE_REPORT, mad.METHOD_GET),
  callFrame(mad.ATTRIBUTE_OPEN, mad.METHOD_GET, (body) => {
    body.set(Buffer.from(NAME), mad.REGION_NAME)
  }),
  ...CLIENTS_ASKING.map((client, i) =>
    callFrame(mad.ATTRIBUTE_CONNECT, mad.METHOD_SET, (body) => {
      putU32(body, mad.CONNECT_CLIENT_QP, CLIENT_QP + i)
      putU16(body, mad.CONNECT_PATH_MTU, MTU)
      putU32(body, mad.CONNECT_CLIENT_ID_LOW, client)
    }),
  ),
]

/** Frames of the greeting before the connections. */
const GREETING_LEAST: number = GREETING.length - CLIENTS_ASKING.length

/** What a rebooted card said of itself. */
export interface Greeting {
  readonly state: number
  /** Why it was refused, or 0. */
  readonly fault: number
  readonly report: readonly ReportLine[]
  readonly unsettled: number
  readonly rkey: number
  /** One queue pair for each of CLIENTS_ASKING. */
  readonly pairs: readonly { readonly qp: number; readonly psn: number }[]
}

/** Reads a whole slot over the wire; null after a NAK. */
export type Reader = (slot: number, length: number) => Uint8Array | null

/** Asks by PERSIST_QUERY: which of these operations of that client are known to be durable? */
export type Asker = (client: number, operations: readonly number[]) => boolean[]

/** What is done with a card that booted. */
export type Guest = (greeting: Greeting, read: Reader, ask: Asker) => void

/** Boots machines on a part, one inside the other where a recovery is itself cut. */
export class Booth {
  private readonly packets: Uint8Array[] = []
  private depth = 0
  /** How many of CLIENTS_ASKING connect. */
  clients = 1
  private readonly frames = new Map<string, Uint8Array>()

  /** Boots, asks, reads the records, and hands everything to `use`. */
  boot(part: Nvdimm, facts: Facts, watch: Watch | null, use: Guest): void {
    const packets = this.packets[this.depth] ?? new Uint8Array(MEMORY_BYTES)
    this.packets[this.depth] = packets
    // Single packets never reach the staging buffers behind.
    packets.fill(0, 0, STAGING_AT)
    this.depth += 1
    try {
      let sent: Uint8Array[] = []
      const transmit = (frame: Uint8Array): void => {
        sent.push(frame)
      }
      const ownFacts = { ...facts, dirtyShutdowns: part.dirtyShutdowns }
      const machine = new EmulatedMachine({ facts: ownFacts, nvdimm: part, transmit, packets })
      if (watch !== null) machine.observe(watch)
      const firmware = bootDirect(machine)
      const serve = (frames: readonly Uint8Array[]): Sent[] => {
        sent = []
        frames.forEach((frame, i) => {
          machine.place(i, frame)
        })
        firmware.serve(frames.length, 10)
        return sent.map(sentOf)
      }
      const greeting = greetingOf(serve(GREETING.slice(0, GREETING_LEAST + this.clients)))
      const psns = greeting.pairs.map(({ psn }) => psn)
      const nextPsn = (pair: number): number => {
        const psn = psns[pair]!
        psns[pair] = (psn + 1) & 0xffffff
        return psn
      }
      const read: Reader = (slot, length) => {
        const answer = serve([this.readFrame(greeting, slot, nextPsn(0), length)])
        const data = answer.find((frame) => frame.opcode === 0x10)
        return data === undefined ? null : data.payload
      }
      const ask: Asker = (client, operations) => {
        const pair = CLIENTS_ASKING.indexOf(client)
        const frames = operations.map((operation) =>
          this.queryFrame(greeting, pair, nextPsn(pair), operation),
        )
        const answers = serve(frames).filter((frame) => frame.paeth?.query === true)
        return answers.map((frame) => frame.paeth!.status === 0)
      }
      use(greeting, read, ask)
    } finally {
      this.depth -= 1
    }
  }

  private queryFrame(to: Greeting, pair: number, psn: number, operation: number): Uint8Array {
    const { qp: destQp } = to.pairs[pair]!
    const name = `${destQp} ${psn} ${operation}`
    let frame = this.frames.get(name)
    if (frame === undefined) {
      const bth = { opcode: PERSIST_QUERY, destQp, psn, ackRequest: true }
      frame = frameOf({ bth, pqeth: { operationLow: operation } })
      this.frames.set(name, frame)
    }
    return frame
  }

  /** The READ of a whole slot: kept, as most images are asked the same. */
  private readFrame(to: Greeting, slot: number, psn: number, length: number): Uint8Array {
    const { qp: number } = to.pairs[0]!
    const name = `${to.rkey} ${number} ${psn} ${slot} ${length}`
    let frame = this.frames.get(name)
    if (frame === undefined) {
      const qp = { number, peer: CLIENT_QP, mtu: MTU, psn, operation: 0 }
      frame = readFrame(qp, to.rkey, slot, 0, length)
      this.frames.set(name, frame)
    }
    return frame
  }
}

function greetingOf(answers: readonly Sent[]): Greeting {
  const pairs: { qp: number; psn: number }[] = []
  const bodies = new Map<number, Uint8Array>()
  for (const answer of answers) {
    const header = mad.blankMad()
    mad.readMad(header, answer.payload, 0)
    const body = answer.payload.subarray(mad.MAD_BODY)
    if (header.fault !== 0) continue
    bodies.set(header.attribute, body)
    if (header.attribute !== mad.ATTRIBUTE_CONNECT) continue
    pairs.push({ qp: u32(body, mad.CONNECT_QP), psn: u32(body, mad.CONNECT_FIRST_PSN) })
  }
  const none = new Uint8Array(mad.MAD_BODY_BYTES)
  const status = bodies.get(mad.ATTRIBUTE_STATUS)!
  const open = bodies.get(mad.ATTRIBUTE_OPEN) ?? none
  return {
    state: status[mad.PART_STATE]!,
    fault: status[mad.PART_FAULT]!,
    report: reportLines(bodies.get(mad.ATTRIBUTE_REPORT) ?? none),
    unsettled: u32(open, mad.REGION_UNSETTLED),
    rkey: u32(open, mad.REGION_RKEY),
    pairs,
  }
}

/** One write of a burst. */
export interface Write {
  readonly slot: number
  readonly data: Uint8Array
  readonly wait: number
  /** Which of the clients writes: 0 (default) or 1. */
  readonly client?: number
}

/** A media error at the instant of the cut, and what it may do. */
export interface MediaError {
  /** In any line of a copy that was written, or in a lane or a page of the superblock. */
  readonly lines: 'copies' | 'metadata'
  /** Only where the record is acknowledged with two copies, and nothing of it is in flight. */
  readonly later?: boolean
  /** The record may be lost if that is said; what is read is never older than acknowledged. */
  readonly mayLose?: boolean
}

export interface Scenario {
  readonly name: string
  readonly shape?: RegionShape
  /** Brings the part to where the exploration begins. */
  readonly before?: (actor: Actor) => void
  /** What is cut at every point. */
  readonly during: (actor: Actor) => void
  readonly damage?: Damage
  /** Each image is visited again with each of these media errors, one line at a time. */
  readonly mediaErrors?: readonly MediaError[]
  /** Cuts the recovery of the first image of each class, and of those recoveries again: depth. */
  readonly nested?: number
  /** Visits so many images of a point of a cut recovery, at the most. */
  readonly nestedSample?: number
  /** Visits so many images of a point at the most, chosen by the seed. */
  readonly sample?: number
  /** Visits the points of that name only. */
  readonly only?: string
  /** Boots so many images of each class at a point at the most: the first ones. */
  readonly perClass?: number
  /**
   * Slots of a batch in order, first to last: of the versions that are the newest, those that are
   * there after a recovery are the first ones (X-5, P4-13).
   */
  readonly inOrder?: readonly number[]
  /** What the adversary may choose between; 'chunk' if absent. */
  readonly mode?: CutMode
  /**
   * The lines of the operation table are cut as everything else is. Otherwise they are there wholly
   * or not at all: that a torn one counts as absent is shown where this is set.
   */
  readonly fineTable?: boolean
  /** Likewise the lanes are there wholly or not at all; of a phase word that says nothing less. */
  readonly wholeLanes?: boolean
}

/** The lines of a scenario that are cut as one piece. */
function coarseOf({ fineTable, wholeLanes }: Scenario): Coarse | undefined {
  if (fineTable === true) return undefined
  if (wholeLanes !== true) return isTableLine
  return (line) => isTableLine(line) || isLane(line)
}

function isLane(line: number): boolean {
  const at = line * LINE_BYTES
  return at >= LANES_AT && at < LANES_AT + LANES * LINE_BYTES
}

/** How often one class of images was met, and what recovery made of it. */
export interface ClassCount {
  images: number
  /** Rows of the recovery table, -1 where there was no line in the report. */
  readonly rows: Set<number>
}

export interface Findings {
  readonly scenario: string
  points: number
  /** Images that differ, and how many subsets of the pending chunks they stand for. */
  images: number
  subsets: number
  boots: number
  /** Images left by a cut of a recovery, not counting those that were judged before. */
  nested: number
  nestedRepeated: number
  /** Images with a media error, and how many of them ended in a loss that was said. */
  withMediaError: number
  losses: number
  readonly classes: Map<string, ClassCount>
  violations: number
  /** The first few. */
  readonly witnesses: string[]
  milliseconds: number
}

const WITNESSES = 5

/** A write that a PSN brought. */
export interface Named {
  readonly record: RecordOracle
  readonly version: number
  readonly wait: number
}

/** Plays the clients: what it writes, the oracle knows. */
export class Actor {
  card: Card
  region: TestRegion
  readonly records: Map<number, RecordOracle> = new Map()
  readonly layout: RegionLayout
  private pairs: TestQueuePair[]
  /** What each PSN of each client brought. */
  private readonly carried = new Map<string, Named>()
  private readonly checked: boolean
  /** Clients that have written. */
  clients = 1
  private batches = 0
  /** Called behind each burst. */
  ended: () => void = () => {}
  fencesInBurst = 0

  constructor(card: Card, shape: RegionShape, checked: boolean) {
    this.card = card
    this.region = card.provision({ name: NAME, slots: 4, ...shape })
    this.layout = readSuperblock(card.nvdimm.durable)?.regions[0] ?? layoutUnchecked(card)
    this.checked = checked
    this.pairs = [card.connect(4096, 0, 7), card.connect(4096, 0, 8)]
  }

  record(slot: number): RecordOracle {
    let record = this.records.get(slot)
    if (record === undefined) {
      const fixed = (this.layout.flags & 1) !== 0
      const data = new Uint8Array(fixed ? this.layout.capacity : 0)
      const blank = { data, client: 0, operation: 0 }
      record = new RecordOracle(this.layout, slot, blank, this.checked)
      this.records.set(slot, record)
    }
    return record
  }

  /** One burst of writes. */
  write(...writes: readonly Write[]): void {
    const frames = writes.map((write) => this.begin(write))
    this.fencesInBurst = 0
    this.card.serve(...frames)
    this.ended()
  }

  private begin({ slot, data, wait, client = 0 }: Write): Uint8Array {
    const qp = this.pairs[client]!
    this.clients = Math.max(this.clients, client + 1)
    const [frame] = persistFrames(qp, this.region, slot, data, { wait })
    const named = this.named(slot, data, wait, client, qp.operation)
    this.carried.set(`${qp.peer} ${(qp.psn - 1) & 0xffffff}`, named)
    return frame!
  }

  private named(
    slot: number,
    data: Uint8Array,
    wait: number,
    client: number,
    operation: number,
  ): Named {
    const record = this.record(slot)
    record.versions.push({ data, client: 7 + client, operation })
    record.started = record.versions.length - 1
    return { record, version: record.started, wait }
  }

  /** One burst that is a batch in order, of the first client. */
  batch(...writes: readonly Write[]): void {
    const qp = this.pairs[0]!
    this.batches += 1
    const first = qp.operation + 1
    writes.forEach(({ slot, data, wait }, i) => {
      const named = this.named(slot, data, wait, 0, first + i)
      this.carried.set(`${qp.peer} batch ${this.batches} ${i}`, named)
    })
    const options = { id: this.batches, condition: IN_ORDER }
    this.fencesInBurst = 0
    this.card.serve(...batchFrames(qp, this.region, writes, options))
    this.ended()
  }

  idle(): void {
    this.fencesInBurst = 0
    this.card.idle()
    this.ended()
  }

  /**
   * Starts the part again, on a new card. What each record then is, is where it goes on from:
   * whatever was begun and did not last must not come back.
   */
  restart(): void {
    const part = this.card.nvdimm
    this.card = new Card(part)
    this.region = this.card.open(NAME)
    this.pairs = this.pairs.map(({ operation }, i) => ({
      ...this.card.connect(4096, 0, 7 + i),
      operation,
    }))
    this.carried.clear()
    for (const record of this.records.values()) {
      const version = record.statesIn(part.durable)[0]!
      this.records.set(record.record, record.from(version))
    }
  }

  /** The records that a PERSIST_ACK speaks of as durable. */
  namedBy(sent: Sent): Named[] {
    const [status] = statuses([sent])
    if (status !== undefined) {
      const { destQp } = sent.packet
      return status.durable.map((i) => this.carried.get(`${destQp} batch ${status.id} ${i}`)!)
    }
    if (sent.opcode !== PERSIST_ACK || sent.paeth!.status !== 0) return []
    const { firstPsn, lastPsn } = sent.paeth!
    const named: Named[] = []
    for (let psn = firstPsn; ; psn = (psn + 1) & 0xffffff) {
      named.push(this.carried.get(`${sent.packet.destQp} ${psn}`)!)
      if (psn === lastPsn) return named
    }
  }

  /** Takes note of a frame that left. */
  noteFrame(sent: Sent): void {
    for (const { record, version } of this.namedBy(sent)) {
      record.acknowledged = Math.max(record.acknowledged, version)
      if (sent.paeth!.copies < 2) continue
      record.acknowledgedTwice = Math.max(record.acknowledgedTwice, version)
    }
  }

  /** Takes note of what a command is about to store. */
  noteCommand(op: number, words: Float64Array, at: number): void {
    const from = words[at + FROM]!
    if (op !== COPY_CLEAN || from >= NVDIMM_SPACE) return
    const image = this.card.machine.packets.slice(from, from + words[at + LENGTH]!)
    this.noteStore(words[at + TO]! - NVDIMM_SPACE, image)
  }

  /** What a READ of the whole slot brings, as hex, and what it should by the medium. */
  read(slot: number): string | null {
    const data = this.card.read(this.pairs[0]!, this.region, slot, 0, this.region.capacity)
    return data === null ? null : Buffer.from(data).toString('hex')
  }

  expected(slot: number): string {
    const record = this.record(slot)
    const data = Buffer.alloc(this.region.capacity)
    data.set(record.versions[record.started]!.data)
    return data.toString('hex')
  }

  /** Takes note of the sequence under which an image goes to copy A. */
  noteStore(to: number, image: Uint8Array): void {
    for (const record of this.records.values()) {
      if (to !== copyAt(this.layout, 0, record.record)) continue
      const slot = readSlot(image)
      const version = record.versions.findIndex(
        ({ operation, client }) =>
          BigInt(operation) === slot.operation && BigInt(client) === slot.client,
      )
      if (version > 0) record.noteSequence(version, slot.sequence)
    }
  }
}

/** The first region, where the check code of the superblock is switched off. */
function layoutUnchecked(card: Card): RegionLayout {
  const pages = card.nvdimm.durable.slice(0, 2 * PAGE_BYTES)
  sealPage(pages.subarray(0, PAGE_BYTES))
  return readSuperblock(pages)!.regions[0]!
}

/** Swaps the fence at `at` with the PERSIST_ACKs behind it; how many there are. */
function moveAcksForward(words: Float64Array, at: number): number {
  const fence = words.slice(at, at + COMMAND_WORDS)
  let count = 0
  let next = at + COMMAND_WORDS
  while (words[next + OP] === TRANSMIT) {
    words.copyWithin(next - COMMAND_WORDS, next, next + COMMAND_WORDS)
    next += COMMAND_WORDS
    count += 1
  }
  words.set(fence, next - COMMAND_WORDS)
  return count
}

/** Chunks that are pending, whether they would change or not. */
function chunksPending(part: Nvdimm): number {
  const { line, count, chunks } = part.pendingStores
  let total = 0
  for (const one of new Set(line.subarray(0, count))) {
    for (let bit = 0; bit < 8; bit++) total += (chunks[one]! >> bit) & 1
  }
  return total
}

function nameOfState(state: number, record: RecordOracle): string {
  if (state < 0) return 'torn'
  if (state === record.started) return 'new'
  return state === record.started - 1 ? 'old' : `v${state}`
}

/** Runs one scenario and every crash of it. */
export function explore(scenario: Scenario): Findings {
  return new Explorer(scenario).run()
}

/**
 * From here on, as a share of the images of a point, the first of a class stands for it once more:
 * the very first image that is torn is so by one chunk only, and leaves a repair no choice.
 */
const LATE = 0.4

/** Number of the action 'lost' in the report (management.ts, REPORT). */
const LOST_ACTION = 3

/** The lines that this media error may hit. */
function linesHit(error: MediaError, record: RecordOracle): number[] {
  // The lane that the scenario's only group uses, and the first line of each page.
  if (error.lines === 'metadata') return [LANES_AT, 0, PAGE_BYTES].map((at) => at / LINE_BYTES)
  const copies = Array.from({ length: record.region.copies }, (_, copy) => copy)
  return copies.flatMap((copy) => linesOfCopy(record.region, copy, record.record))
}

class Explorer {
  private readonly scenario: Scenario
  private readonly card: Card
  private readonly actor: Actor
  private readonly part: Nvdimm
  private readonly booth = new Booth()
  private readonly random = new Random(SEED)
  private readonly findings: Findings
  private readonly always: readonly Watch[]
  private readonly table = new TableOracle()
  private exploring = false
  /** What must stay as it is, since the last point. */
  private outside: Uint8Array = new Uint8Array(0)
  /** Images that a cut recovery left, and what became of them. */
  private readonly judged = new Map<string, string>()
  private readonly represented = new Set<string>()
  private readonly laneStates = new Map<string, string>()
  private point = ''
  private done = ''
  private taken: readonly Sent[] = []
  private takenCount = 0

  constructor(scenario: Scenario) {
    this.scenario = scenario
    const { damage = {}, shape = {} } = scenario
    this.always = bootWatches(damage)
    this.card = new Card(PART_BYTES, {}, joined(this.always))
    this.part = this.card.nvdimm
    this.card.format()
    this.actor = new Actor(this.card, shape, damage.checkless !== true)
    this.findings = {
      scenario: scenario.name,
      points: 0,
      images: 0,
      subsets: 0,
      boots: 0,
      nested: 0,
      nestedRepeated: 0,
      withMediaError: 0,
      losses: 0,
      classes: new Map(),
      violations: 0,
      witnesses: [],
      milliseconds: 0,
    }
  }

  run(): Findings {
    const began = performance.now()
    const { scenario, actor, card } = this
    this.watch()
    actor.ended = () => {
      this.takeSent()
      if (this.exploring) this.visitPoint('at the end of a step')
    }
    scenario.before?.(actor)
    for (let slot = 0; slot < actor.region.slots; slot++) actor.record(slot)
    this.exploring = true
    scenario.during(actor)
    card.machine.observe({})
    this.findings.milliseconds = performance.now() - began
    return this.findings
  }

  /** Watches the card: what it stores and sends is noted, and, while exploring, it is damaged. */
  private watch(): void {
    const { actor, card } = this
    const damage = this.scenario.damage ?? {}
    let moved = -1
    let fenceAt = -1
    let lineAt = -1
    const own: Watch = {
      onCommand: (number, op, words, at) => {
        actor.noteCommand(op, words, at)
        if (this.takeSent() && this.exploring) this.visitPoint('behind a frame')
        if (number === fenceAt && lineAt >= 0) this.visitPoint('behind the line')
        if (number === fenceAt || op !== FENCE) return
        actor.fencesInBurst += 1
        if (!this.exploring) return
        this.visitPoint(`before F${actor.fencesInBurst}`)
        if (damage.table === 'beforeF1' && actor.fencesInBurst === 1) {
          if (!moveLineForward(words, at)) return
          lineAt = number
          fenceAt = number + 2
        }
        if (damage.acknowledgeEarly !== true) return
        moved = number
        fenceAt = number + moveAcksForward(words, at)
      },
      replace: (number, op) => {
        if (number === lineAt) return CHECK
        if (moved >= 0 && number >= moved && number < fenceAt) return TRANSMIT
        if (number === fenceAt) return FENCE
        const dropped = this.exploring && actor.fencesInBurst === damage.dropFence
        return op === FENCE && dropped ? SKIP : op
      },
    }
    card.machine.observe(joined([...writeWatches(damage, () => card.machine.packets), own]))
  }

  /** Takes note of what left since the last call; was there anything? */
  private takeSent(): boolean {
    const { sent } = this.card
    if (sent !== this.taken) this.takenCount = 0
    this.taken = sent
    const from = this.takenCount
    this.takenCount = sent.length
    for (let i = from; i < sent.length; i++) this.actor.noteFrame(sent[i]!)
    return sent.length > from
  }

  /** Visits every image that a cut may leave here, unless nothing changed since the last point. */
  private visitPoint(point: string): void {
    const { part, findings } = this
    const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored} ${this.bounds()}`
    if (now === this.done) return
    this.done = now
    if ((this.scenario.only ?? point) !== point) return
    findings.points += 1
    this.point = `point ${findings.points}, ${point}`
    this.outside = this.outsideNow()
    const mode = this.scenario.mode ?? 'chunk'
    const coarse = coarseOf(this.scenario)
    const count = imageCount(part, mode, false, coarse)
    const share = (this.scenario.sample ?? Number.POSITIVE_INFINITY) / count
    findings.subsets += 2 ** chunksPending(part)
    const seen = new Map<string, number>()
    const visit = (image: number): void => {
      if (share < 1 && !this.random.chance(share)) return
      if (this.isSeen(seen)) return
      findings.images += 1
      this.visitImage(image > count * LATE)
    }
    images(part, mode, visit, false, coarse)
  }

  /** Were enough images of this class booted at this point? */
  private isSeen(seen: Map<string, number>): boolean {
    const { perClass } = this.scenario
    if (perClass === undefined) return false
    const name = this.classOf()
    const times = (seen.get(name) ?? 0) + 1
    seen.set(name, times)
    return times > perClass
  }

  private visitImage(late: boolean): void {
    const { scenario, findings } = this
    const name = this.classOf()
    let known = findings.classes.get(name)
    if (known === undefined) {
      known = { images: 0, rows: new Set() }
      findings.classes.set(name, known)
    }
    const representative = `${name} ${this.tableState()} ${late ? 'late' : 'early'}`
    if ((scenario.nested ?? 0) > 0 && !this.represented.has(representative)) {
      this.represented.add(representative)
      this.cutRecovery(1, name)
    }
    known.images += 1
    for (const error of scenario.mediaErrors ?? []) this.poisonEach(error)
    const { rows } = known
    this.bootAndJudge(name, (greeting) => {
      const line = greeting.report.find((entry) => this.written(entry.record))
      rows.add(line?.row ?? -1)
    })
  }

  private written(slot: number): boolean {
    return (this.actor.records.get(slot)?.started ?? 0) > 0
  }

  /** What is begun and acknowledged, as words. */
  private bounds(): string {
    const records = [...this.actor.records.values()]
    return records.map((record) => `${record.acknowledged} ${record.started}`).join()
  }

  /** Boots the image once for each line that the media error may hit. */
  private poisonEach(error: MediaError): void {
    for (const record of this.actor.records.values()) {
      if (record.started === 0) continue
      if (error.later === true && record.acknowledgedTwice < record.started) continue
      for (const line of linesHit(error, record)) {
        images(this.part, 'chunk', () => {
          this.part.poison(line)
          this.findings.withMediaError += 1
          const name = `media error in line ${line}`
          if (error.mayLose === true) this.bootAndReadOrLose(name, record)
          else this.bootAndJudge(name)
        })
      }
    }
  }

  /** The record is not older than acknowledged, or lost, and then said to be and left alone. */
  private bootAndReadOrLose(name: string, record: RecordOracle): void {
    const copies = (): string => {
      const all = record.region.copies
      const each = Array.from({ length: all }, (_, c) => record.copyIn(this.part.durable, c))
      return Buffer.concat(each).toString('latin1')
    }
    const before = copies()
    this.findings.boots += 1
    this.boot(null, (greeting, read, ask) => {
      const known = this.knownOf(record, ask)
      const data = read(record.record, record.region.capacity)
      if (data !== null || greeting.unsettled !== 1) {
        this.expectRead(record, data, record.acknowledged, name)
        this.judgeOperations(name, record, known)
        return
      }
      this.findings.losses += 1
      if (known.has(record.started)) {
        this.violation(name, 'the operation of a lost record is known as durable')
      }
      if (copies() !== before) this.violation(name, 'a lost record was written to')
      const line = greeting.report.find((entry) => entry.record === record.record)
      if (line === undefined || line.action !== LOST_ACTION) {
        this.violation(name, 'the report does not say that the record is lost')
      }
    })
  }

  private boot(watch: Watch | null, use: Guest): void {
    const watches = watch === null ? this.always : [...this.always, watch]
    const all = watches.length === 0 ? null : joined(watches)
    this.booth.clients = this.actor.clients
    this.booth.boot(this.part, this.card.facts, all, use)
  }

  /** Boots the image as it is and judges everything; the versions that the records then have. */
  private bootAndJudge(name: string, look: (greeting: Greeting) => void = () => {}): string {
    this.findings.boots += 1
    this.boot(null, (greeting, read, ask) => {
      look(greeting)
      this.judge(name, greeting, read, ask)
    })
    const records = [...this.actor.records.values()]
    return records.map((record) => record.statesIn(this.part.durable)[0]).join()
  }

  private judge(name: string, greeting: Greeting, read: Reader, ask: Asker): void {
    const { part, actor } = this
    if (greeting.state !== mad.STATE_SERVING) this.violation(name, 'the part does not serve')
    if (greeting.unsettled !== 0) this.violation(name, 'a record was given up as lost')
    for (const record of actor.records.values()) {
      const complaint = record.complaint(part.durable)
      if (complaint !== null) this.violation(name, complaint)
      if (record.started === 0 || complaint !== null) continue
      this.expectRead(record, read(record.record, record.region.capacity), 0, name)
      // Without check codes a torn line of the table says anything: it has no other structure.
      if (this.scenario.damage?.checkless === true) continue
      this.judgeOperations(name, record, this.knownOf(record, ask))
    }
    this.judgeOrder(name)
    if (!sameBytes(this.outsideNow(), this.outside)) {
      this.violation(name, 'a byte changed that nothing was written to')
    }
    const lanes = part.durable.subarray(LANES_AT, LANES_AT + LANES * LINE_BYTES)
    if (lanes.some((byte) => byte !== 0)) this.violation(name, 'a lane was not cleared')
  }

  /** Of a batch in order the first records are there, and none behind one that is not. */
  private judgeOrder(name: string): void {
    const slots = this.scenario.inOrder ?? []
    const there = slots.map((slot) => {
      const record = this.actor.record(slot)
      return record.started > 0 && record.statesIn(this.part.durable)[0] === record.started
    })
    const missing = there.indexOf(false)
    const later = there.lastIndexOf(true)
    if (missing < 0 || later < missing) return
    this.violation(name, `record ${later} of the batch is there, and record ${missing} is not`)
  }

  /**
   * The versions of a record whose operations are known as durable, on the medium and, as the card
   * says, over the wire: that they differ is a violation.
   */
  private knownOf(record: RecordOracle, ask: Asker): Set<number> {
    const { durable } = this.part
    const known = new Set<number>()
    for (const asking of new Set(record.versions.map(({ client }) => client))) {
      const asked = [...record.versions.keys()].filter(
        (v) => v > 0 && record.versions[v]!.client === asking,
      )
      const operations = asked.map((v) => record.versions[v]!.operation)
      const said = asked.length === 0 ? [] : ask(asking, operations)
      asked.forEach((v, i) => {
        const there = this.table.knows(durable, asking, operations[i]!)
        if (there) known.add(v)
        if (said[i] === there) return
        this.violation(`operation ${operations[i]}`, `medium ${there}, answer ${said[i]}`)
      })
    }
    return known
  }

  /**
   * An operation is known exactly when its record is that version or a later one: what was
   * acknowledged is known, what is known is durable, and what recovery finished is not done again.
   */
  private judgeOperations(name: string, record: RecordOracle, known: Set<number>): void {
    const version = record.statesIn(this.part.durable)[0]!
    for (let v = 1; v <= record.started; v++) {
      if (known.has(v) === v <= version) continue
      const what = `record ${record.record} is v${version} (v${record.acknowledged} acknowledged)`
      this.violation(name, `${what}, and v${v} is ${known.has(v) ? '' : 'not '}known as durable`)
    }
  }

  /** Which versions the table knows now, before a recovery. */
  private tableState(): string {
    const { durable } = this.part
    const all = [...this.actor.records.values()].map((record) =>
      record.versions.slice(1).map(({ client, operation }) => {
        return this.table.knows(durable, client, operation) ? 'known' : 'open'
      }),
    )
    return all.join()
  }

  /** What a READ brought must be the version in copy A, and that one `atLeast` or later. */
  private expectRead(
    record: RecordOracle,
    data: Uint8Array | null,
    atLeast: number,
    name: string,
  ): void {
    const version = record.statesIn(this.part.durable)[0]!
    const wanted = new Uint8Array(record.region.capacity)
    if (version >= 0) wanted.set(record.versions[version]!.data)
    if (data === null) this.violation(name, `record ${record.record} cannot be read`)
    else if (version < atLeast || !sameBytes(data, wanted)) {
      this.violation(name, `record ${record.record} reads as something else than v${version}`)
    }
  }

  /** Cuts the recovery of the image at every command, and those recoveries again. */
  private cutRecovery(depth: number, name: string): void {
    let decided = ''
    images(this.part, 'chunk', () => {
      decided = this.bootAndJudge(name)
    })
    const { part } = this
    const seen = new Set<string>()
    let done = ''
    images(part, 'chunk', () => {
      const onCommand = (number: number): void => {
        const now = `${part.pendingStores.entries} ${part.fences} ${part.bytesStored}`
        if (now === done) return
        done = now
        this.cutRecoveryAt(depth, `${name}, its recovery cut at ${number}`, decided, seen)
      }
      this.boot({ onCommand }, () => {})
    })
  }

  private cutRecoveryAt(depth: number, name: string, decided: string, seen: Set<string>): void {
    const { part, findings, judged } = this
    const share = (this.scenario.nestedSample ?? NESTED_MAX) / imageCount(part)
    images(part, 'chunk', () => {
      if (share < 1 && !this.random.chance(share)) return
      const mark = this.hashOfPart()
      let now = judged.get(mark)
      if (now === undefined) {
        findings.nested += 1
        const kind = `${this.classOf()} ${this.superblockState()}`
        if (depth < (this.scenario.nested ?? 0) && !seen.has(kind)) {
          seen.add(kind)
          this.cutRecovery(depth + 1, name)
        }
        now = this.bootAndJudge(name)
        judged.set(mark, now)
      } else findings.nestedRepeated += 1
      if (now !== decided) {
        this.violation(name, `decides ${now}, and decided ${decided} before it was cut`)
      }
    })
  }

  /** Everything that a recovery looks at, and what is acknowledged, in a few bytes. */
  private hashOfPart(): string {
    return createHash('sha1').update(this.part.durable).update(this.bounds()).digest('base64')
  }

  /** How the pages of the superblock stand to each other. */
  private superblockState(): string {
    const a = this.part.durable.subarray(0, PAGE_BYTES)
    const b = this.part.durable.subarray(PAGE_BYTES, 2 * PAGE_BYTES)
    if (sameBytes(a, b)) return 'pages the same'
    return sameBytes(a.subarray(16), b.subarray(16)) ? 'codes differ' : 'pages differ'
  }

  /** What the image is for a recovery: the lanes, and the version of each copy. */
  private classOf(): string {
    const { durable } = this.part
    let name = ''
    for (let lane = 0; lane < 4; lane++) {
      const at = LANES_AT + lane * LINE_BYTES
      const state = this.laneState(durable.subarray(at, at + LINE_BYTES))
      if (state !== 'clear') name += `lane ${lane} ${state}, `
    }
    for (const record of this.actor.records.values()) {
      if (record.started === 0) continue
      const states = record.statesIn(durable).map((state) => nameOfState(state, record))
      name += `record ${record.record} ${states.join('/')} `
    }
    return name.trim()
  }

  private laneState(line: Uint8Array): string {
    const bytes = Buffer.from(line.buffer, line.byteOffset, line.length).toString('latin1')
    let state = this.laneStates.get(bytes)
    if (state === undefined) {
      state = readLane(line, this.scenario.damage?.checkless !== true).state
      this.laneStates.set(bytes, state)
    }
    return state
  }

  /** The bytes that nothing may change: all but superblock, lanes and the slots written to. */
  private outsideNow(): Uint8Array {
    const from = LANES_AT + LANES * LINE_BYTES
    const bytes = this.part.durable.slice(from)
    bytes.fill(0, OPERATIONS_AT - from, OPERATIONS_AT + OPERATIONS_BYTES - from)
    for (const record of this.actor.records.values()) {
      if (record.started === 0) continue
      for (let copy = 0; copy < record.region.copies; copy++) {
        const at = copyAt(record.region, copy, record.record) - from
        bytes.fill(0, at, at + record.region.stride)
      }
    }
    return bytes
  }

  private violation(name: string, what: string): void {
    this.findings.violations += 1
    if (this.findings.witnesses.length === WITNESSES) return
    this.findings.witnesses.push(`${this.point}: ${name}: ${what}`)
  }
}

/** One line about an exploration, for the log. */
export function summary(found: Findings): string {
  const seconds = (found.milliseconds / 1000).toFixed(1)
  const nested = found.nested === 0 ? '' : `, ${found.nested} of cut recoveries`
  const { withMediaError, losses } = found
  const media =
    withMediaError === 0 ? '' : `, ${withMediaError} with a media error (${losses} explicit losses)`
  return (
    `${found.scenario}: ${found.points} points, ${found.images} images ` +
    `(${found.subsets} subsets)${nested}${media}, ${found.boots} boots, ` +
    `${found.classes.size} classes, ${found.violations} violations, ${seconds} s`
  )
}

/** A durability level: how many durable copies, of how many (D-4). */
export interface Level {
  readonly wait: number
  readonly copies: number
}

/**
 * The scenarios that every level goes through. In each a record of 64 bytes is written to slot 0
 * beside a neighbour that must not change; what differs is what was there, and so how many of the
 * sixteen chunks of a copy change: all fourteen that can, where the old record is of another
 * client and length; twelve, where only data, sequence, operation and check code are new.
 */
export function overAnother({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a record of another client and length`,
    shape: { copies },
    before: (actor) => {
      actor.write(
        { slot: 0, data: dataOf(48, 1), wait: 2, client: 1 },
        { slot: 1, data: dataOf(64, 2), wait: 2 },
      )
    },
    // The lanes of the group before are still set: the first fence covers their clearing, too.
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 3), wait })
      actor.idle()
    },
  }
}

/** Eight chunks change, data among them: where each image is booted many times. */
export function overSimilar({ wait, copies }: Level): Scenario {
  const data = dataOf(64, 5)
  const half = data.slice()
  half.set(dataOf(32, 6), 16)
  return {
    name: `${wait}of${copies} over a record with half of the data the same`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data, wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: half, wait })
      actor.idle()
    },
  }
}

export function overBlank({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a blank record`,
    shape: { copies },
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 4), wait })
      actor.idle()
    },
  }
}

export function overOwn({ wait, copies }: Level): Scenario {
  return {
    name: `${wait}of${copies} over a record of the same client and length`,
    shape: { copies },
    before: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 5), wait: 2 })
      actor.idle()
    },
    during: (actor) => {
      actor.write({ slot: 0, data: dataOf(64, 6), wait })
      actor.idle()
    },
  }
}

/** What a part may be made of: images of one record and its lane, as the firmware wrote them. */
export interface Media {
  readonly layout: RegionLayout
  /** The part with the old record in every copy and no lane set. */
  readonly content: Uint8Array
  /** The record before and after: whole slots. */
  readonly old: Uint8Array
  readonly fresh: Uint8Array
  readonly oldData: Uint8Array
  readonly freshData: Uint8Array
  /** The lane in phase A and in phase B. */
  readonly laneA: Uint8Array
  readonly laneB: Uint8Array
}

/** Writes record 0 twice, the second time at that level, and keeps what went by. */
export function mediaOf(level: Level, shape: RegionShape = {}, bytes: number = PART_BYTES): Media {
  const card = new Card(bytes)
  card.format()
  const actor = new Actor(card, { copies: level.copies, ...shape }, true)
  const { capacity } = actor.region
  const oldData = dataOf(capacity, 11)
  const freshData = dataOf(capacity, 12)
  for (let slot = 1; slot < Math.min(4, actor.region.slots); slot++) {
    actor.write({ slot, data: dataOf(capacity, 20 + slot), wait: 2 })
  }
  actor.write({ slot: 0, data: oldData, wait: 2 })
  actor.idle()
  // A fence that makes the clearing of the lanes durable, and nothing else.
  card.nvdimm.fence()
  const at = copyAt(actor.layout, 0, 0)
  const slotNow = (): Uint8Array => card.nvdimm.durable.slice(at, at + actor.layout.stride)
  const laneNow = (): Uint8Array => card.nvdimm.durable.slice(LANES_AT, LANES_AT + LINE_BYTES)
  const content = card.nvdimm.durable.slice()
  const old = slotNow()
  const lanes: Uint8Array[] = []
  card.machine.observe({
    onCommand: (_, op) => {
      if (op === FENCE) lanes.push(laneNow())
    },
  })
  actor.write({ slot: 0, data: freshData, wait: level.wait })
  const [, laneA, , laneB] = lanes
  return {
    layout: actor.layout,
    content,
    old,
    fresh: slotNow(),
    oldData,
    freshData,
    laneA: laneA!,
    laneB: laneB!,
  }
}

/** A part with exactly these copies of record 0, and that lane. */
export function partOf(
  media: Media,
  copies: readonly Uint8Array[],
  lane: Uint8Array | null = null,
): Nvdimm {
  const content = media.content.slice()
  copies.forEach((copy, i) => {
    content.set(copy, copyAt(media.layout, i, 0))
  })
  if (lane !== null) content.set(lane, LANES_AT)
  return new Nvdimm({ bytes: content.length, content })
}
