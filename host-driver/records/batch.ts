/**
 * A batch of records: many under one status, accepted by a condition (source 4).
 *
 *     const batch = region.batch({ condition: 'inOrder' })
 *     for (const [slot, bytes] of changes) batch.persist(slot, bytes)
 *     batch.persist(3, entry, { region: index })
 *     batch.write(area, 4096, bytes)
 *     const outcome = await batch.commit()
 *     if (!outcome.all) for (const record of outcome.records) …
 *
 * Invariants:
 * - Nothing is sent before `commit`; arguments are checked, and bytes copied, at the call before.
 * - Each record is crash-atomic. Plain bytes are one copy, and are not. Of a batch in
 *   order what is durable are the first ones, without a gap, also after a cut of power.
 * - `commit` resolves when the end of every record is known, or that it cannot be; it rejects only
 *   where nothing was sent at all because of how it was called.
 */

import { BATCH_RECORDS_MAX } from '../../firmware/board/limits.ts'
import { copyOf } from '../base/bytes.ts'
import {
  ArgumentError,
  NotAccepted,
  OutcomeUnknown,
  type PerdureError,
  RefusedError,
} from '../base/errors.ts'
import { giveUpWhen } from '../base/give-up.ts'
import {
  BOOLEAN,
  check,
  checkBytes,
  checkFields,
  DURATION,
  instanceOf,
  integer,
  isObject,
  type Kind,
  type Kinds,
  oneOf,
  SIGNAL,
  UINT64,
} from '../base/kinds.ts'
import { BytesRegion } from '../bytes/bytes-region.ts'
import type { Connection } from '../link/connection.ts'
import { PendingBatch } from '../link/pending-batch.ts'
import { type BatchCondition, CONDITIONS } from '../way/batch-verdict.ts'
import { quietly } from '../way/chain.ts'
import { DURABILITY, type Durability } from '../way/durability.ts'
import { GUARD, guardFor } from '../way/guard.ts'
import type { OpenRegion } from '../way/region-handle.ts'
import { PendingWrite, type Receipt } from '../way/write.ts'

export interface BatchOptions {
  /** 'independent' unless given. */
  readonly condition?: BatchCondition
  /** Level for the records; that of `connect` by default. */
  readonly durability?: Durability
  /** Whether each record brings the guard of its data; as `connect` was told by default. */
  readonly guard?: boolean
  /** Bursts on end in which nothing was taken before the rest is given up; 3 unless given. */
  readonly retries?: number
  /** Gives up waiting: what was not sent ends as aborted, the rest as OutcomeUnknown. */
  readonly signal?: AbortSignal
  /** Gives up waiting after this time, ms, from `commit` on. */
  readonly deadlineMs?: number
}

export interface MemberOptions {
  /** Another region of records of the same connection and placement; that of the batch, else. */
  readonly region?: BatchTarget
  /**
   * With the condition 'expect', and only then: the sequence that the slot must hold for the record
   * to be accepted, as `Region.read` gives it.
   */
  readonly expect?: bigint
  /** As of `Region.persist`; as the batch was told by default. */
  readonly guard?: boolean | number
}

interface RecordOf {
  /** Place in the batch, from 0. */
  readonly index: number
  /** Name of its region. */
  readonly region: string
  /** Of plain bytes the offset of the first. */
  readonly slot: number
  readonly operationId: bigint
}

/** How one record of a batch ended. */
export type BatchRecord =
  | (RecordOf & { readonly status: 'durable'; readonly receipt: Receipt })
  /** Not durable as asked. `code` is the fault that the DPU named, or that of the error. */
  | (RecordOf & {
      readonly status: 'refused'
      readonly error: PerdureError
      readonly code: string
    })
  /** Not made durable, because the record with that index was refused. */
  | (RecordOf & {
      readonly status: 'notAccepted'
      readonly error: NotAccepted
      readonly because: number
    })
  /** Sent, and never heard of again: read the record before you decide. */
  | (RecordOf & { readonly status: 'unknown'; readonly error: OutcomeUnknown })

export interface BatchOutcome {
  /** One for each record, by index. */
  readonly records: readonly BatchRecord[]
  /** How many are durable, and whether all are. */
  readonly durable: number
  readonly all: boolean
  /** Bursts that were sent: one, and one for each time that something was not taken. */
  readonly bursts: number
  /** Answers that were waited for: one for each burst that was answered. */
  readonly waits: number
}

/** A region, and over what it is reached. */
type Ground = Pick<BatchGround, 'connection' | 'open'>

/** A record that waits for `commit`. */
interface Entry {
  readonly open: OpenRegion
  readonly wait: number
  /** Plain bytes, from that offset on. */
  readonly area: boolean
  readonly slot: number
  readonly bytes: Uint8Array
  readonly expect: bigint | null
  /** Of its bytes, as they were given; 0 without one. */
  readonly guard: number
}

/** What a batch needs to know of a region. */
export interface BatchGround {
  readonly connection: Connection
  readonly open: OpenRegion
  readonly wait: number
  /** Throws PERDURE_ARGUMENT unless the region takes that record, PERDURE_CLOSED if closed. */
  check(slot: number, bytes: Uint8Array): void
}

/** A region of records: `dpu.openRegion` gives one. */
interface BatchTarget {
  /** For `Batch`; not to be called by users. */
  batchGround(options: BatchOptions): BatchGround
}

const TARGET: Kind = {
  give: 'a region of records: dpu.openRegion gives one',
  takes: (value) => isObject(value) && 'batchGround' in value,
}

const AREA: Kind = instanceOf(BytesRegion, 'a region of bytes: dpu.openBytes gives one')

const RETRIES = 3
const RETRIES_MAX = 1000

const BATCH_KINDS: Kinds<BatchOptions> = {
  condition: oneOf(Object.keys(CONDITIONS)),
  durability: DURABILITY,
  guard: BOOLEAN,
  retries: integer(0, RETRIES_MAX),
  signal: SIGNAL,
  deadlineMs: DURATION,
}

const MEMBER_KINDS: Kinds<MemberOptions> = { region: TARGET, expect: UINT64, guard: GUARD }

/** Throws PERDURE_ARGUMENT unless a batch can be so. */
export function checkBatchOptions(options: BatchOptions): void {
  checkFields('options of a batch', options, BATCH_KINDS)
}

export class Batch {
  private readonly ground: BatchGround
  private readonly options: BatchOptions
  private readonly condition: BatchCondition
  private readonly entries: Entry[] = []
  private readonly places: Set<string> = new Set()
  private committed = false

  /** For `Region.batch`; not to be called by users. */
  constructor(ground: BatchGround, options: BatchOptions) {
    this.ground = ground
    this.options = { ...options }
    this.condition = options.condition ?? 'independent'
  }

  /** Records that it has so far. */
  get length(): number {
    return this.entries.length
  }

  /**
   * Adds a record. Throws PERDURE_ARGUMENT.
   */
  persist(slot: number, bytes: Uint8Array, options: MemberOptions = {}): void {
    this.checkOpen()
    checkFields('options of a record', options, MEMBER_KINDS)
    const { expect, region } = options
    const ground = region?.batchGround(this.options) ?? this.ground
    const { connection, open, wait } = ground
    ground.check(slot, bytes)
    const what = `record ${slot} of a batch`
    this.checkRoom(what)
    this.checkBeside(what, ground)
    const place = `${open.info.id}:${slot}`
    if (this.places.has(place)) {
      throw new ArgumentError(`${what}: it has that slot already; say it in the next batch`)
    }
    const wantsExpect = this.condition === 'expect'
    if (wantsExpect !== (expect !== undefined)) {
      const how = wantsExpect ? 'say which sequence to expect' : `expect in '${this.condition}'`
      throw new ArgumentError(`${what}: ${how}`)
    }
    this.places.add(place)
    const guard = guardFor(connection, open, bytes, options.guard ?? this.options.guard)
    const entry = { slot, bytes: copyOf(bytes), expect: expect ?? null, guard }
    this.entries.push({ ...entry, open, wait, area: false })
  }

  /**
   * Adds plain bytes of a region that is registered write-persist: one copy, durable with the
   * status, and not crash-atomic. They expect nothing. Throws PERDURE_ARGUMENT.
   */
  write(area: BytesRegion, offset: number, bytes: Uint8Array): void {
    this.checkOpen()
    check('the region of bytes of a batch', area, AREA)
    checkBytes('bytes of a batch:', bytes)
    const { length } = bytes
    const ground = area.memberGround(offset, length)
    const { open, connection } = ground
    const what = `bytes from ${offset} of '${open.info.name}' in a batch`
    this.checkRoom(what)
    if (!open.info.writePersist) {
      throw new ArgumentError(`${what}: the region is not registered write-persist`)
    }
    this.checkBeside(what, ground)
    const most = connection.way.batchBytesMax
    if (length > most) throw new ArgumentError(`${what}: ${length} bytes, at most ${most}`)
    if (this.entries.some((one) => isOver(one, open, offset, length))) {
      throw new ArgumentError(`${what}: it has some of them already; say it in the next batch`)
    }
    const expect = this.condition === 'expect' ? 0n : null
    const entry = { slot: offset, bytes: copyOf(bytes), expect, guard: 0 }
    this.entries.push({ ...entry, open, wait: 1, area: true })
  }

  private checkRoom(what: string): void {
    if (this.entries.length < BATCH_RECORDS_MAX) return
    throw new ArgumentError(`${what}: it has ${BATCH_RECORDS_MAX} already, the most there may be`)
  }

  /** May it stand beside what goes to the region of the batch? */
  private checkBeside(what: string, { connection, open }: Ground): void {
    const { info } = this.ground.open
    const beside = `${what}, beside records of '${info.name}'`
    if (connection !== this.ground.connection) {
      throw new ArgumentError(`${beside}: it is of another connection`)
    }
    if (open.info.id === info.id) return
    if (open.info.placement !== info.placement) {
      const where = `one lies '${open.info.placement}', the other '${info.placement}'`
      throw new ArgumentError(`${beside}: ${where}; use a batch for each`)
    }
    if (open.info.joinsBatches && info.joinsBatches) return
    const why = 'the card keeps one of them with another DPU, or through caches, or is older'
    throw new ArgumentError(`${beside}: ${why}; use a batch for each`)
  }

  /**
   * Sends the batch, and again what of it was not taken, and tells how each record has ended.
   * Records are durable when it resolves, or it says which are not.
   */
  commit(): Promise<BatchOutcome> {
    return quietly(() => this.send())
  }

  private async send(): Promise<BatchOutcome> {
    this.checkOpen()
    if (this.entries.length === 0) throw new ArgumentError('a batch without records')
    const { connection } = this.ground
    const first = connection.takeOperations(this.entries.length)
    this.committed = true
    const { signal } = this.options
    const deadlineMs = this.options.deadlineMs ?? connection.options.deadlineMs
    const { retries = RETRIES } = this.options
    const writes = this.entries.map((entry, i) => this.writeOf(entry, first + BigInt(i)))
    const batch = new PendingBatch(this.condition, connection.takeBatchId(), writes, retries)
    const what = `a batch of ${writes.length} records of '${this.ground.open.info.name}'`
    const giveUp = (why: string, error: PerdureError): void => batch.giveUp(why, error)
    const release = giveUpWhen(connection.way, { what, giveUp }, deadlineMs, signal)
    if (!batch.settled) connection.enqueueBatch(batch)
    const ends = await Promise.allSettled(writes.map(({ persisted }) => persisted))
    release()
    return outcomeOf(batch, ends)
  }

  private writeOf(entry: Entry, operationId: bigint): PendingWrite {
    const { open, slot, bytes, wait, expect, guard, area } = entry
    const write = new PendingWrite({
      ...{ region: open, slot, operationId, payload: bytes, length: bytes.length, wait, area },
      ...{ carried: false, guard, startedUs: this.ground.connection.way.now() },
    })
    write.expect = expect
    return write
  }

  private checkOpen(): void {
    if (this.committed) throw new ArgumentError('the batch is committed; begin another')
    const { closed } = this.ground.connection
    if (closed !== null) throw closed
  }
}

/** Do the bytes overlap those of that entry? */
function isOver(one: Entry, open: OpenRegion, offset: number, length: number): boolean {
  if (!one.area || one.open.info.id !== open.info.id) return false
  return offset < one.slot + one.bytes.length && one.slot < offset + length
}

function outcomeOf(
  batch: PendingBatch,
  ends: readonly PromiseSettledResult<Receipt>[],
): BatchOutcome {
  const records = ends.map((end, index): BatchRecord => {
    const { region, slot, operationId } = batch.writes[index]!
    const about = { index, region: region.info.name, slot, operationId }
    if (end.status === 'fulfilled') return { ...about, status: 'durable', receipt: end.value }
    const error = end.reason as PerdureError
    if (error instanceof OutcomeUnknown) return { ...about, status: 'unknown', error }
    if (error instanceof NotAccepted) {
      return { ...about, status: 'notAccepted', error, because: error.because }
    }
    const code = error instanceof RefusedError ? error.fault : error.code
    return { ...about, status: 'refused', error, code }
  })
  const durable = records.filter(({ status }) => status === 'durable').length
  const { bursts, waits } = batch
  return { records, durable, all: durable === records.length, bursts, waits }
}
