/**
 * A region of records: the calls that people want.
 *
 * Invariant: arguments are checked before anything is sent; the bytes given to `persist`
 * are copied at the call; what `read` returns was proved by the record's own check code.
 */

import { sleep } from '../base/clock.ts'
import { ArgumentError, PerdureError, RecordCorrupt, RecordLost } from '../base/errors.ts'
import { type Caller, giveUpWhen, WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import {
  check,
  checkBytes,
  checkFields,
  DURATION,
  FUNCTION,
  instanceOf,
  integer,
  type Kinds,
  OBJECT,
  oneOf,
  SIGNAL,
  SIZE,
  shown,
  UINT64,
  wide,
} from '../base/kinds.ts'
import { RemoteMemory } from '../bytes/remote-memory.ts'
import type { RegionInfo } from '../control/part.ts'
import type { Connection } from '../link/connection.ts'
import { chooseCopy, readSlotImage, type SlotImage, type SlotRecord } from '../link/slot-image.ts'
import { Alternatives, type OtherOptions, type Place } from '../status/alternatives.ts'
import type { WatchOptions } from '../status/criteria.ts'
import type { Ranges, ResidencyStatus, SlotRange } from '../status/residency-status.ts'
import { READY_KINDS, type ReadyOptions, type Watch } from '../status/watch.ts'
import {
  type BatchListener,
  type BatchWatch,
  type BatchWatchOptions,
  checkBatchWatch,
} from '../way/batch-notices.ts'
import { type Outcome, quietly } from '../way/chain.ts'
import { DURABILITY, type Durability, waitFor } from '../way/durability.ts'
import { GUARD, guardFor } from '../way/guard.ts'
import { VIEW_FIRST_COPY, VIEW_SETTLED } from '../way/jobs.ts'
import { goneError, type OpenRegion } from '../way/region-handle.ts'
import { PendingWrite, type Write } from '../way/write.ts'
import { Batch, type BatchGround, type BatchOptions, checkBatchOptions } from './batch.ts'
import { type DualPlace, type DualReceipt, dualWrite } from './dual-write.ts'
import {
  RECORDS_KINDS,
  type ReadRecord,
  type RecordsOptions,
  recordsOf,
  type SlotRead,
} from './records.ts'

export interface PersistOptions {
  /** Level for this record; that of `connect` by default. */
  readonly durability?: Durability
  /**
   * 'replicated' (default): one copy on the wire, the DPU makes the others. 'carried': every copy
   * on the wire; the DPU refuses copies that differ (D-8). 'addressed': carried, with the address
   * and the key of every copy, as in source 1, claim 5 (P1-6).
   */
  readonly form?: 'replicated' | 'carried' | 'addressed'
  /**
   * Whether the record brings the guard of its data; as `connect` was told by default. A number is
   * the guard itself, CRC-32C as `guardOf` computes it, where the application has computed it when
   * it made the data: 1 to 2^32 - 1.
   */
  readonly guard?: boolean | number
  /** Gives up waiting: before anything is sent as aborted, later as OutcomeUnknown. */
  readonly signal?: AbortSignal
  /** Gives up waiting after this time, ms. */
  readonly deadlineMs?: number
}

export interface CopiesOptions extends WaitOptions {
  /** Grows with every write of this record, unsigned 64 bits; what the copies have, and 1, else. */
  readonly sequence?: bigint
  /** Under which operation, unsigned 64 bits, for the reader to know; 0 by default. */
  readonly operationId?: bigint
}

/** The copies of one record as they stand, which no reader of one copy would see. */
export interface CopiesRead {
  readonly copies: readonly SlotImage[]
  /** The copy to be used: the first that its own check code proves (D-15). */
  readonly chosen: number
  readonly record: ReadRecord
  /** Every copy is valid and of the same sequence; else a write was under way, or one is bad. */
  readonly settled: boolean
  /** How often the copies were read. */
  readonly attempts: number
}

/** Reads of the copies before they are reported as they are, and the pause between two, µs. */
const COPY_ATTEMPTS = 4
const COPY_PAUSE_US = 1000

/** Reads of a settled image before a wrong check code is reported. */
const READ_ATTEMPTS = 3

/** How long a read of a record that is not ready waits, unless the watch says otherwise, µs. */
const RECORD_WAIT_US = 500

const WHY_CORRUPT: Readonly<Record<string, string>> = {
  foreign: 'it is another record',
  damaged: 'its guard is not that of its data',
}

const PERSIST_KINDS: Kinds<PersistOptions> = {
  durability: DURABILITY,
  form: oneOf(['replicated', 'carried', 'addressed']),
  guard: GUARD,
  signal: SIGNAL,
  deadlineMs: DURATION,
}

const COPIES_KINDS: Kinds<CopiesOptions> = {
  ...{ sequence: wide(1n), operationId: UINT64 },
  ...WAIT_KINDS,
}

const SLOT_RANGE: Kinds<SlotRange> = { slot: SIZE, count: integer(1, 2 ** 32) }

export class Region {
  private readonly connection: Connection
  private readonly open: OpenRegion
  private readonly others: Alternatives<SlotRange, Region> = new Alternatives(
    this,
    instanceOf(Region, 'a region of records: dpu.openRegion gives one'),
  )
  private closed = false

  /** For `Dpu.openRegion`; not to be called by users. */
  constructor(connection: Connection, open: OpenRegion) {
    this.connection = connection
    this.open = open
  }

  get name(): string {
    return this.open.info.name
  }

  /** Slots, and therefore records: 0 to slots - 1. */
  get slots(): number {
    return this.open.info.slots
  }

  /** Bytes of data that one record may hold. */
  get capacity(): number {
    return this.open.info.capacity
  }

  /** Copies of each record. */
  get copies(): number {
    return this.open.info.copies
  }

  /** Every record has exactly `capacity` bytes. */
  get fixedLength(): boolean {
    return this.open.info.fixedLength
  }

  /** Refuses writes until an operator decides about a lost record. */
  get readOnly(): boolean {
    return this.open.info.readOnly
  }

  /** Everything that the DPU says about the region. */
  get info(): RegionInfo {
    return this.open.info
  }

  /**
   * Stores `bytes` as record `slot`, crash-atomically: after any power cut the record is wholly the
   * old or wholly this one, and this one once `persisted` has resolved. Records to one slot take
   * effect in the order of the calls. Throws PERDURE_ARGUMENT; everything later comes through the
   * promises.
   */
  persist(slot: number, bytes: Uint8Array, options: PersistOptions = {}): Write {
    this.checkOpen()
    this.checkPair(false)
    this.checkSlot(slot)
    this.checkLength(bytes)
    checkFields('options of a persist', options, PERSIST_KINDS)
    const { connection } = this
    const form = options.form ?? 'replicated'
    const durability = options.durability ?? connection.options.durability
    const wait = waitFor(durability, this.copies)
    const deadlineMs = options.deadlineMs ?? connection.options.deadlineMs
    const carried = form !== 'replicated'
    const write = new PendingWrite({
      region: this.open,
      slot,
      operationId: connection.takeOperations(1),
      payload: repeated(bytes, carried ? this.copies : 1),
      length: bytes.length,
      wait,
      carried,
      addressed: form === 'addressed',
      guard: guardFor(connection, this.open, bytes, options.guard),
      startedUs: connection.way.now(),
    })
    write.release = giveUpWhen(connection.way, write, deadlineMs, options.signal)
    if (!write.settled) connection.enqueue(write)
    return write
  }

  /**
   * Begins a batch: many records under one status, accepted by a condition (D-10). It may go to
   * other regions, too, and to plain bytes. Throws PERDURE_ARGUMENT.
   */
  batch(options: BatchOptions = {}): Batch {
    checkBatchOptions(options)
    return new Batch(this.batchGround(options), options)
  }

  /** For `Batch`; not to be called by users. Throws PERDURE_ARGUMENT. */
  batchGround(options: BatchOptions): BatchGround {
    this.checkOpen()
    this.checkPair(false)
    const { connection, open } = this
    const wait = waitFor(options.durability ?? connection.options.durability, this.copies)
    const check = (slot: number, bytes: Uint8Array): void => {
      this.checkOpen()
      this.checkSlot(slot)
      this.checkLength(bytes)
      const most = connection.way.batchBytesMax
      if (bytes.length <= most) return
      const what = `${bytes.length} bytes for a record of '${this.name}' in a batch`
      const how = `at most ${most} over the queues of a card; persist it by itself`
      throw new ArgumentError(`${what}: ${how}`)
    }
    return { connection, open, wait, check }
  }

  /**
   * Has the card of this host tell what batches of others have stored into the region (S1-M10). It
   * is told only what is durable. Rejects with PERDURE_ARGUMENT where the DPU is not the local
   * card, or somebody is told already; and with RefusedError.
   */
  onBatch(listener: BatchListener, options: BatchWatchOptions = {}): Promise<BatchWatch> {
    return quietly(async () => {
      this.checkOpen()
      check('listener', listener, FUNCTION)
      checkBatchWatch(options)
      const { watchBatches } = this.connection.way
      if (watchBatches !== undefined) return await watchBatches(this.open.info, listener, options)
      const what = `batches into '${this.name}': a card tells its own host of them alone`
      throw new ArgumentError(`${what}; connect there, to the local card`)
    })
  }

  /**
   * Stores `bytes` as record `slot` by a plain WRITE, as a client would that knows nothing of this
   * driver (source 2's form B, P2-5): crash-atomic, in every copy alike, without an operation id.
   * It resolves when every copy is durable. After a broken connection nobody knows whether it is
   * (EffectUnknown), and nothing is sent again.
   */
  async write(slot: number, bytes: Uint8Array, options: WaitOptions = {}): Promise<Outcome> {
    this.checkOpen()
    this.checkPair(false)
    this.checkSlot(slot)
    this.checkLength(bytes)
    // A WRITE of no bytes touches nothing, wherever it goes (IBTA C9-88).
    if (bytes.length === 0) throw new ArgumentError('a plain WRITE of a record has some bytes')
    const memory = new RemoteMemory(
      this.connection,
      () => `record ${slot} of '${this.name}'`,
      () => ({
        rkey: this.open.info.rkey,
        va: BigInt(slot) << 32n,
        length: BigInt(this.capacity),
      }),
    )
    checkFields('options of a write', options, WAIT_KINDS)
    const { signal, deadlineMs } = options
    return await memory.write(0, bytes, { signal, deadlineMs })
  }

  /**
   * The record as the DPU has settled it. Throws RecordLost where no copy is valid, RecordCorrupt
   * where what arrives does not match its check code.
   */
  async read(slot: number, options: WaitOptions = {}): Promise<ReadRecord> {
    this.checkOpen()
    this.checkSlot(slot)
    checkFields('options of a read', options, WAIT_KINDS)
    const what = (): string => `read record ${slot} of '${this.name}'`
    return await within(this.connection.way, what, options, (caller) => this.readFor(caller, slot))
  }

  /**
   * The records from one slot on, in their order, read ahead of whoever takes them:
   * `for await (const { slot, data } of region.records({ from: 100 })) …`. Those that nobody has
   * written are passed over, unless `blank` is said. The signal ends all of it; `deadlineMs` is for
   * each record. Throws PERDURE_ARGUMENT; the iteration rejects as `read` does, and ends.
   */
  records(options: RecordsOptions = {}): AsyncGenerator<SlotRead, void, undefined> {
    this.checkOpen()
    checkFields('options of records', options, RECORDS_KINDS)
    const { from = 0, count = Math.max(0, this.slots - from), signal, deadlineMs } = options
    if (from + count > this.slots) {
      const asked = `${count} records of '${this.name}' from slot ${from} on`
      throw new ArgumentError(`${asked}: its slots are 0 to ${this.slots - 1}`)
    }
    const wait = { ...(signal && { signal }), ...(deadlineMs !== undefined && { deadlineMs }) }
    return recordsOf((slot) => this.read(slot, wait), from, from + count, options)
  }

  /** As `read`, for somebody who may give up; not to be called by users. */
  async readFor(caller: Caller, slot: number): Promise<ReadRecord> {
    this.checkOpen()
    this.checkSlot(slot)
    const { stride } = this.open.info
    // What need not wait leaves within the call: a write that is asked for next stays behind it.
    const wait = this.watched?.pause(slot * stride, stride) ?? null
    if (wait !== null) await wait
    for (let attempt = 1; ; attempt++) {
      const bytes = await this.connection.read(this.open, slot, VIEW_SETTLED, caller)
      const { record, why } = readSlotImage(bytes, this.open.info, slot)
      if (record !== null) return asRead(record)
      if (why === 'empty') throw new RecordLost(this.name, slot)
      if (attempt === READ_ATTEMPTS) {
        throw new RecordCorrupt(this.name, slot, WHY_CORRUPT[why] ?? 'its check code is wrong')
      }
    }
  }

  /**
   * Every copy of the record as it stands on the medium, read one-sidedly (P1-28). Copies that
   * differ are read again a few times, for a writer may be at work, and then reported (P1-29).
   * Nothing is repaired. Throws RecordLost where no copy is valid.
   */
  async readCopies(slot: number, options: WaitOptions = {}): Promise<CopiesRead> {
    this.checkOpen()
    this.checkSlot(slot)
    checkFields('options of a read', options, WAIT_KINDS)
    const what = (): string => `read the copies of record ${slot} of '${this.name}'`
    return await within(this.connection.way, what, options, (caller) => this.readAll(slot, caller))
  }

  private async readAll(slot: number, caller: Caller): Promise<CopiesRead> {
    for (let attempts = 1; ; attempts++) {
      const copies = await this.readImages(slot, caller)
      const chosen = chooseCopy(copies)
      const record = copies[chosen]?.record ?? null
      const settled =
        record !== null && copies.every((copy) => copy.record?.sequence === record.sequence)
      if (settled || attempts === COPY_ATTEMPTS) {
        if (record === null) throw new RecordLost(this.name, slot)
        return { copies, chosen, record: asRead(record), settled, attempts }
      }
      await sleep(this.connection.way, COPY_PAUSE_US)
    }
  }

  /**
   * Writes the copies of a record of a pair region by ourselves: each by a WRITE and a FLUSH, the
   * next when it is durable (source 1, FIG. 11). Resolves when all are; one writer at a time. What
   * a cut leaves the DPU makes equal. Rejects with the reason of the first request that failed;
   * then the copies before it are new, and those behind it old.
   */
  writeCopies(slot: number, bytes: Uint8Array, options: CopiesOptions = {}): Promise<DualReceipt> {
    return quietly(async () => {
      this.checkOpen()
      this.checkSlot(slot)
      this.checkLength(bytes)
      checkFields('options', options, COPIES_KINDS)
      this.checkPair(true)
      const { id, key, capacity } = this.open.info
      const record = { ...{ id, slot, key, capacity, bytes }, ...options }
      const { clientId } = this.connection
      return await dualWrite({ ...record, places: this.placesOf(slot), clientId })
    })
  }

  /** Where the copies of a record lie, for whoever writes them. */
  private placesOf(slot: number): DualPlace[] {
    const { stride } = this.open.info
    return Array.from({ length: this.copies }, (_, c) => {
      const memory = new RemoteMemory(
        this.connection,
        () => `copy ${c} of record ${slot} of '${this.name}'`,
        () => ({
          rkey: this.open.info.rkey,
          va: (BigInt(slot) << 32n) | BigInt((VIEW_FIRST_COPY + c) * 2 ** 28),
          length: BigInt(stride),
        }),
      )
      return { memory, offset: 0 }
    })
  }

  // ---- memory status ---------------------------------------------------------------------------

  /**
   * Has the DPU tell which blocks of records are ready: settled, healthy and not under an update
   * (P5-30). Resolves when their status was told. Reads then wait, at most for the prefetch time,
   * for records that are not; what is persisted leaves at once, in the order of the calls.
   */
  watch(options: WatchOptions<SlotRange> = {}): Promise<Watch<SlotRange>> {
    return quietly(async () => {
      this.checkOpen()
      const { connection, open } = this
      // Records are addressed by what they take of the first copy.
      const watched = {
        what: `'${this.name}'`,
        where: () => ({ rkey: open.info.rkey, va: 0n, length: this.slots * open.info.stride }),
      }
      check('options of a watch', options, OBJECT)
      const wanted = { prefetchUs: RECORD_WAIT_US, ...options }
      return await connection.watches.open(connection, open, watched, this.ranges, wanted)
    })
  }

  /** What the DPU told of the region's records, while it is watched; else null. */
  get status(): ResidencyStatus<SlotRange> | null {
    return this.watched?.status ?? null
  }

  /** Resolves when all of these records are ready. Rejects with PERDURE_DEADLINE. */
  ready(range: SlotRange, options: ReadyOptions = {}): Promise<void> {
    return quietly(async () => {
      this.checkOpen()
      this.checkSlots(range)
      checkFields('options', options, READY_KINDS)
      if (this.watched === null) throw new ArgumentError(`'${this.name}' is not watched`)
      await this.watched.ready(range, options)
    })
  }

  /** Hints that these records will be accessed. They are in memory anyway: it changes nothing. */
  prefetch(range: SlotRange, options: WaitOptions = {}): Promise<void> {
    return quietly(async () => {
      this.checkOpen()
      this.checkSlots(range)
      checkFields('options of a prefetch', options, WAIT_KINDS)
      const what = (): string => `prefetch records of '${this.name}'`
      await within(
        this.connection.way,
        what,
        options,
        async () => await this.watched?.prefetch(range),
      )
    })
  }

  /**
   * Names regions that may be used instead of this one, on whichever DPU: `otherReady` finds out
   * where. This one and all of them are to be watched, and to hold records as long as this one's.
   * None is used unless you do.
   */
  setAlternatives(regions: readonly Region[]): void {
    const { capacity } = this
    this.others.name(regions, (region) => {
      if (region.capacity >= capacity) return null
      return `its records hold ${region.capacity} bytes, and those of '${this.name}' ${capacity}`
    })
  }

  /**
   * Where there are as many records that are ready, to be used instead (source 5): in this region,
   * else in those that were named, in their order. Null where there are none.
   */
  otherReady(range: SlotRange, options: OtherOptions = {}): Place<SlotRange, Region> | null {
    this.ranges.toBytes(range)
    return this.others.find(range, options)
  }

  private get watched(): Watch<SlotRange> | null {
    return this.connection.watches.of(this.open)
  }

  private get ranges(): Ranges<SlotRange> {
    const { info } = this.open
    return {
      toBytes: (range) => {
        checkFields('a range', range, SLOT_RANGE, ['slot'])
        const { slot, count = 1 } = range
        return { offset: slot * info.stride, length: count * info.stride }
      },
      fromBytes: (offset, length) => ({
        slot: Math.ceil(offset / info.stride),
        count: length / info.stride,
      }),
      unit: () => info.stride,
    }
  }

  private checkSlots(range: SlotRange): void {
    checkFields('a range', range, SLOT_RANGE, ['slot'])
    const { slot, count = 1 } = range
    this.checkSlot(slot)
    this.checkSlot(slot + count - 1)
  }

  /** Gives the region up. What is on its way goes on. */
  close(): void {
    this.closed = true
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.close()
    return Promise.resolve()
  }

  private async readImages(slot: number, caller: Caller): Promise<SlotImage[]> {
    const reads: Promise<Uint8Array>[] = []
    for (let copy = 0; copy < this.copies; copy++) {
      reads.push(this.connection.read(this.open, slot, VIEW_FIRST_COPY + copy, caller))
    }
    const images = await Promise.all(reads)
    return images.map((image) => readSlotImage(image, this.open.info, slot))
  }

  private checkOpen(): void {
    const { closed } = this.connection
    if (closed !== null) throw closed
    if (this.closed) throw new PerdureError('PERDURE_CLOSED', `region '${this.name}' is closed`)
    if (this.open.gone === true) throw goneError(`use '${this.name}'`)
    if (this.open.info.kind !== 'records') {
      throw new ArgumentError(`region '${this.name}' holds plain bytes, not records`)
    }
  }

  /** Do clients write its copies by themselves? */
  private checkPair(wanted: boolean): void {
    if (this.open.info.pair === wanted) return
    const what = `region '${this.name}' is ${wanted ? 'no' : 'a'} pair region`
    throw new ArgumentError(`${what}: use ${wanted ? 'persist' : 'writeCopies'}`)
  }

  private checkSlot(slot: number): void {
    if (Number.isInteger(slot) && slot >= 0 && slot < this.slots) return
    throw new ArgumentError(`slot ${shown(slot)} of '${this.name}': 0 to ${this.slots - 1}`)
  }

  private checkLength(bytes: Uint8Array): void {
    checkBytes('a record:', bytes)
    const { length } = bytes
    if (this.fixedLength && length !== this.capacity) {
      throw new ArgumentError(
        `${length} bytes for a record of '${this.name}': exactly ${this.capacity}`,
      )
    }
    if (length > this.capacity) {
      throw new ArgumentError(
        `${length} bytes for a record of '${this.name}': at most ${this.capacity}`,
      )
    }
  }
}

function repeated(bytes: Uint8Array, count: number): Uint8Array {
  const all = new Uint8Array(bytes.length * count)
  for (let i = 0; i < count; i++) all.set(bytes, i * bytes.length)
  return all
}

function asRead(record: SlotRecord): ReadRecord {
  return { ...record, written: record.operationId !== 0n || record.clientId !== 0n }
}
