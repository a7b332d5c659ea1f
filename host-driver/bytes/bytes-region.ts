/**
 * A region of plain bytes on a DPU, or of memory of its host: `dpu.openBytes(name)`.
 *
 * Invariants:
 * - A FLUSH never vouches for bytes that the part may have forgotten: a part that was started again
 *   holds what was durable before, so a range with unflushed writes of an earlier incarnation is
 *   refused once, with PERDURE_RESTARTED, and has to be written again; whichever handle of the
 *   region has written, and whichever flushes.
 * - On a region that was registered write-persist every write that is done is durable (P2-5, D-9).
 */

import { ArgumentError, PerdureError } from '../base/errors.ts'
import { Gate } from '../base/gate.ts'
import type { WaitOptions } from '../base/give-up.ts'
import { checkBytes, checkFields, instanceOf, SIZE } from '../base/kinds.ts'
import type { RegionInfo } from '../control/part.ts'
import type { Connection } from '../link/connection.ts'
import { Alternatives, type OtherOptions, type Place } from '../status/alternatives.ts'
import type { WatchOptions } from '../status/criteria.ts'
import type { ByteRange, Ranges, ResidencyStatus } from '../status/residency-status.ts'
import { READY_KINDS, type ReadyOptions, WATCHED_BYTES_MAX, type Watch } from '../status/watch.ts'
import { type Outcome, quietly } from '../way/chain.ts'
import type { MessageOptions } from '../way/jobs.ts'
import { goneError, type OpenRegion, type Written } from '../way/region-handle.ts'
import type { JobQueue } from '../way/way.ts'
import type { FlushOptions } from '../way/work-request.ts'
import { RemoteMemory } from './remote-memory.ts'

const BYTES: Ranges<ByteRange> = {
  toBytes: (range) => {
    checkFields('a range', range, { offset: SIZE, length: SIZE }, ['offset', 'length'])
    return range
  },
  fromBytes: (offset, length) => ({ offset, length }),
  unit: () => 1,
}

export class BytesRegion extends RemoteMemory {
  private readonly connection: Connection
  private readonly open: OpenRegion
  private readonly gate: Gate
  private readonly written: Written
  private readonly others: Alternatives<ByteRange, BytesRegion> = new Alternatives(
    this,
    instanceOf(BytesRegion, 'a region of bytes: dpu.openBytes gives one'),
  )

  /** For `Dpu.openBytes`; not to be called by users. */
  constructor(connection: Connection, open: OpenRegion) {
    super(
      connection,
      () => `'${open.info.name}'`,
      () => ({ rkey: open.info.rkey, va: open.info.base, length: open.info.length }),
    )
    this.connection = connection
    this.open = open
    open.gate ??= new Gate()
    this.gate = open.gate
    open.written ??= { writes: 0, unflushed: null }
    this.written = open.written
  }

  get name(): string {
    return this.open.info.name
  }

  /** Bytes of the region. */
  get length(): number {
    return Number(this.open.info.length)
  }

  /** Everything that the DPU says about the region. */
  get info(): RegionInfo {
    return this.open.info
  }

  // ---- memory status ---------------------------------------------------------------------------

  /**
   * Has the DPU tell which blocks of the region are ready (source 5). Resolves when their status
   * was told. Accesses of this region then hint at what is not ready and wait for it, at most for
   * the prefetch time. Rejects with LOC_QP_OP_ERR over the queues of an local card.
   */
  watch(options: WatchOptions = {}): Promise<Watch> {
    const { connection, open } = this
    const watched = {
      what: `'${this.name}'`,
      where: () => ({
        rkey: open.info.rkey,
        va: open.info.base,
        length: Math.min(this.length, WATCHED_BYTES_MAX),
      }),
    }
    return quietly(() => connection.watches.open(connection, open, watched, BYTES, options))
  }

  /** What the DPU told of the region's blocks, while it is watched; else null. */
  get status(): ResidencyStatus | null {
    return this.watched?.status ?? null
  }

  /** Hints that these bytes will be accessed; resolves when the DPU has the hints. */
  prefetch(range: ByteRange, options: WaitOptions = {}): Promise<void> {
    return quietly(async () => {
      BYTES.toBytes(range)
      const { offset, length } = range
      this.checkRange(offset, length)
      const hinting = this.hinting(offset, length)
      await this.wait(
        () => hinting.what,
        options,
        async (caller) => {
          // There is no hint at nothing.
          if (length === 0) return
          if (this.watched !== null) await this.watched.prefetch(range)
          else await this.post(hinting, caller)
        },
      )
    })
  }

  /** Resolves when all of these bytes are ready. Rejects with PERDURE_DEADLINE. */
  ready(range: ByteRange, options: ReadyOptions = {}): Promise<void> {
    return quietly(async () => {
      BYTES.toBytes(range)
      checkFields('options', options, READY_KINDS)
      this.checkRange(range.offset, range.length)
      if (this.watched === null) throw new ArgumentError(`'${this.name}' is not watched`)
      await this.watched.ready(range, options)
    })
  }

  /**
   * Names regions that may be used instead of this one, on whichever DPU: `otherReady` finds out
   * where. This one and all of them are to be watched. None is used unless you do.
   */
  setAlternatives(regions: readonly BytesRegion[]): void {
    this.others.name(regions)
  }

  /**
   * Where there is as much that is ready, to be used instead (source 5): in this region, else in
   * those that were named, in their order. Null where there is none.
   */
  otherReady(range: ByteRange, options: OtherOptions = {}): Place<ByteRange, BytesRegion> | null {
    BYTES.toBytes(range)
    return this.others.find(range, options)
  }

  /**
   * For `Batch.write`; not to be called by users. Throws PERDURE_ARGUMENT where the region has not
   * these bytes, RefusedError where it has ended.
   */
  memberGround(offset: number, length: number): { connection: Connection; open: OpenRegion } {
    this.checkRange(offset, length)
    const { connection, open } = this
    return { connection, open }
  }

  private get watched(): Watch | null {
    return this.connection.watches.of(this.open)
  }

  protected override checkRange(offset: number, length: number): void {
    super.checkRange(offset, length)
    if (this.open.gone === true) throw goneError(`use '${this.name}'`)
  }

  protected override admit<T>(
    offset: number,
    length: number,
    changes: boolean,
    work: () => Promise<T>,
  ): Promise<T> {
    return this.gate.admit(changes, this.watched?.pause(offset, length) ?? null, work)
  }

  // ---- accesses --------------------------------------------------------------------------------

  override write(
    offset: number,
    bytes: Uint8Array,
    options: MessageOptions & WaitOptions = {},
  ): Promise<Outcome> {
    return quietly(async () => {
      checkBytes('what is written:', bytes)
      const work = super.write(offset, bytes, options)
      if (!this.info.writePersist) return await this.noting(offset, bytes.length, work)
      // Its acknowledgement was withheld until it was durable.
      const completion = await work
      return completion.copies > 0 ? completion : { ...completion, copies: 1 }
    })
  }

  override fetchAdd(offset: number, addend: bigint, options: WaitOptions = {}): Promise<bigint> {
    return quietly(() => this.noting(offset, 8, super.fetchAdd(offset, addend, options)))
  }

  override compareSwap(
    offset: number,
    compare: bigint,
    swap: bigint,
    options: WaitOptions = {},
  ): Promise<bigint> {
    return quietly(() => {
      return this.noting(offset, 8, super.compareSwap(offset, compare, swap, options))
    })
  }

  override atomicWrite(
    offset: number,
    bytes: Uint8Array,
    options: WaitOptions = {},
  ): Promise<Outcome> {
    return quietly(() => this.noting(offset, 8, super.atomicWrite(offset, bytes, options)))
  }

  override flush(
    offset: number,
    length: number,
    options: FlushOptions & WaitOptions = {},
  ): Promise<Outcome> {
    return quietly(() => this.flushKnown(offset, length, options))
  }

  private async flushKnown(
    offset: number,
    length: number,
    options: FlushOptions & WaitOptions,
  ): Promise<Outcome> {
    const flushing = this.flushing(offset, length, options)
    const isWhole = options.wholeRegion === true
    const to = isWhole ? Infinity : offset + length
    const from = isWhole ? 0 : offset
    const { written } = this
    const { writes } = written
    const check = (queuePair: JobQueue): void => this.checkMemory(queuePair, from, to)
    const completion = await this.access(flushing, options, { offset, length: 0 }, check)
    const { unflushed } = written
    const covered = unflushed !== null && from <= unflushed.from && unflushed.to <= to
    const isAll = covered && writes === written.writes
    if (isAll && options.persistent !== false) written.unflushed = null
    return completion
  }

  private async noting<T>(offset: number, length: number, work: Promise<T>): Promise<T> {
    const { written } = this
    written.writes++
    const result = await work
    const incarnation = this.connection.current?.granted.incarnation ?? 0
    const before = written.unflushed ?? { from: offset, to: offset, incarnation }
    written.unflushed = {
      from: Math.min(before.from, offset),
      to: Math.max(before.to, offset + length),
      incarnation: Math.min(before.incarnation, incarnation),
    }
    return result
  }

  private checkMemory({ granted }: JobQueue, from: number, to: number): void {
    const { unflushed } = this.written
    if (unflushed === null || unflushed.incarnation === granted.incarnation) return
    if (to <= unflushed.from || unflushed.to <= from) return
    this.written.unflushed = null
    throw new PerdureError(
      'PERDURE_RESTARTED',
      `flush '${this.name}': the part was started again since bytes ${unflushed.from} to ` +
        `${unflushed.to} were written, and may have forgotten them; write them again`,
    )
  }
}
