/**
 * Plays the clients of an exploration: what it writes, the oracle knows.
 *
 * Invariant: a version is known to the oracle before its frame reaches the card, and counts
 * as acknowledged when the frame that says so has left.
 */

import { COPY_CLEAN, FROM, LENGTH, NVDIMM_SPACE, TO } from '../../../firmware/board/hal.ts'
import { batchFrames, IN_ORDER } from '../cards/batch-card.ts'
import {
  persistFrames,
  type RegionShape,
  type Sent,
  TestCard,
  type TestPeer,
  type TestRegion,
} from '../cards/test-card.ts'
import { acknowledgementIn } from '../judges/acknowledgement.ts'
import { judgedGuard } from '../judges/crc32c.ts'
import {
  copyAt,
  PAGE_BYTES,
  RecordOracle,
  type RegionLayout,
  readSuperblock,
  sealPage,
} from '../judges/oracle.ts'
import { beginVersion, Carried, type Named, noteSequenceOf } from './carried.ts'
import { REGION } from './part.ts'

/** One write of a burst. */
export interface Write {
  readonly slot: number
  readonly data: Uint8Array
  readonly wait: number
  /** Which of the clients writes: 0 (default) or 1. */
  readonly client?: number
  /** The guard of the data comes with them; or one that is another's: the record is refused. */
  readonly guard?: 'right' | 'wrong'
}

/** What the frame of a write says of its guard. */
function guardOptions({ data, guard }: Write): { readonly guard?: number } {
  if (guard === undefined) return {}
  return { guard: guard === 'right' ? judgedGuard(data) : judgedGuard(data) ^ 1 }
}

/** Plays the clients: what it writes, the oracle knows. */
export class Actor {
  card: TestCard
  region: TestRegion
  readonly records: Map<number, RecordOracle> = new Map()
  readonly layout: RegionLayout
  private pairs: TestPeer[]
  private readonly carried = new Carried()
  private readonly checked: boolean
  /** Clients that have written. */
  clients = 1
  private batches = 0
  private taken: readonly Sent[] = []
  private takenCount = 0
  /** Called behind each burst. */
  ended: () => void = () => {}
  fencesInBurst = 0
  /** What an acknowledgement said that none may say, or nothing. */
  wronglySaid = ''

  constructor(card: TestCard, shape: RegionShape, checked: boolean) {
    this.card = card
    this.region = card.provision({ name: REGION, slots: 4, ...shape })
    this.layout = readSuperblock(card.nvdimm.durable)?.regions[0] ?? layoutUnchecked(card)
    this.checked = checked
    // The part is new, so its clients begin with the same operations whatever was played before.
    this.pairs = [7, 8].map((client) => {
      return { ...card.connect(4096, 0, client), operation: 10_000 * client }
    })
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

  private begin(write: Write): Uint8Array {
    const { slot, data, wait, client = 0, guard } = write
    const qp = this.pairs[client]!
    this.clients = Math.max(this.clients, client + 1)
    const [frame] = persistFrames(qp, this.region, slot, data, { wait, ...guardOptions(write) })
    if (guard !== 'wrong') this.carried.note(qp, this.named(write, qp.operation))
    return frame!
  }

  /** A write that has an operation already, once more under a new PSN, as after a lost answer. */
  again({ slot, data, wait, client = 0 }: Write, version: number): void {
    const qp = this.pairs[client]!
    const record = this.record(slot)
    const { operation } = record.versions[version]!
    const [frame] = persistFrames(qp, this.region, slot, data, { wait, operation })
    this.carried.note(qp, { record, version, wait })
    this.fencesInBurst = 0
    this.card.serve(frame!)
    this.ended()
  }

  private named({ slot, data, wait, client = 0, guard }: Write, operation: number): Named {
    const isGuarded = guard !== undefined
    const version = { data, client: 7 + client, operation, isGuarded }
    return beginVersion(this.record(slot), version, wait)
  }

  /**
   * One burst that is a batch in order, of the first client. From the first record on whose guard
   * is wrong nothing of it is begun.
   */
  batch(...writes: readonly Write[]): void {
    const qp = this.pairs[0]!
    this.batches += 1
    const first = qp.operation + 1
    const wrong = writes.findIndex(({ guard }) => guard === 'wrong')
    writes.slice(0, wrong < 0 ? writes.length : wrong).forEach((write, i) => {
      const named = this.named({ ...write, client: 0 }, first + i)
      this.carried.noteInBatch(qp, this.batches, i, named)
    })
    const options = { id: this.batches, condition: IN_ORDER }
    const records = writes.map((write) => {
      const { slot, data, wait } = write
      return { slot, data, wait, ...guardOptions(write) }
    })
    this.fencesInBurst = 0
    this.card.serve(...batchFrames(qp, this.region, records, options))
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
    this.card = new TestCard(part)
    this.region = this.card.open(REGION)
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
    const said = acknowledgementIn(sent.bytes)
    const named = said === null ? [] : this.carried.namedBy(said)
    if (named.includes(undefined)) this.wronglySaid = 'what must be refused is told durable'
    return named.filter((one) => one !== undefined)
  }

  /** Takes note of what left since the last call; was there anything? */
  takeSent(): boolean {
    const { sent } = this.card
    if (sent !== this.taken) this.takenCount = 0
    this.taken = sent
    const from = this.takenCount
    this.takenCount = sent.length
    for (let i = from; i < sent.length; i++) this.noteFrame(sent[i]!)
    return sent.length > from
  }

  /** Takes note of a frame that left. */
  noteFrame(sent: Sent): void {
    for (const { record, version } of this.namedBy(sent)) {
      record.acknowledged = Math.max(record.acknowledged, version)
      if (acknowledgementIn(sent.bytes)!.copies < 2) continue
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
      noteSequenceOf(record, image)
    }
  }
}

/** The first region, where the check code of the superblock is switched off. */
function layoutUnchecked(card: TestCard): RegionLayout {
  const pages = card.nvdimm.durable.slice(0, 2 * PAGE_BYTES)
  sealPage(pages.subarray(0, PAGE_BYTES))
  return readSuperblock(pages)!.regions[0]!
}
