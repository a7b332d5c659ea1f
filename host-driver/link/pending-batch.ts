/**
 * A batch on its way: its records, and which of them go out in the next burst.
 *
 * Invariants:
 * - Every record ends once: durable, refused, not accepted, or unknown. The batch is over when all
 *   of them have ended, and sends nothing more.
 * - A burst has the records that have not ended, in their order, under the ids, indexes and
 *   operations that they had the first time (P4-9): the part knows a repetition, and executes
 *   nothing twice.
 * - While a batch is not sent to its end nothing goes that would make the part forget its records
 *   (`isOutrunBy`).
 * - Bursts are bounded: after `retries` of them in which no record has ended it gives up (P4-10).
 */

import { BATCH_CHUNK_BYTES, BATCH_CHUNKS_EACH, LINE_BYTES } from '../../firmware/board/limits.ts'
import { OPERATION_WINDOW } from '../../firmware/medium/operation-line.ts'
import { NotAccepted, type PerdureError, RefusedError, TransportError } from '../base/errors.ts'
import { type BatchCondition, CONDITIONS, judge, type Verdict } from '../way/batch-verdict.ts'
import { isNak, type JobEnd } from '../way/jobs.ts'
import { endGone } from '../way/region-handle.ts'
import { type PendingWrite, WHY_FORGOTTEN, WHY_NO_ROOM, WHY_UNMADE } from '../way/write.ts'

/** A record of a burst, and how its job ended. */
export interface BurstEnd {
  readonly write: PendingWrite
  readonly end: JobEnd
}

/** Why a record in order ends as unknown behind one that has no way to the part. */
const WHY_BEHIND = 'one before it in its batch has no way to the part'

/** Whether the record ended on this side: no room for its bytes, or it cannot be made. */
export function isUnsendable({ status, unmade }: JobEnd): boolean {
  return unmade !== undefined || status === 'LOC_LEN_ERR'
}

/** Operations that the part remembers behind the newest one. */
const WINDOW = BigInt(OPERATION_WINDOW)

export class PendingBatch {
  readonly condition: BatchCondition
  /** By index. */
  readonly writes: readonly PendingWrite[]
  /** Bursts that were sent, and statuses that were waited for. */
  bursts = 0
  waits = 0
  /** Bursts on end in which no record has ended. */
  barren = 0
  /** Called once, when every record has ended. */
  onEnd: () => void = () => {}
  /** By their places; but those of plain bytes, which have none. */
  private readonly byPlace: Map<string, PendingWrite>
  private readonly retries: number
  private readonly triedBefore: Set<PendingWrite> = new Set()
  private left: number

  constructor(condition: BatchCondition, id: number, writes: PendingWrite[], retries: number) {
    this.condition = condition
    this.writes = writes
    const records = writes.filter(({ area }) => !area)
    this.byPlace = new Map(records.map((write) => [placeOf(write), write]))
    this.retries = retries
    this.left = writes.length
    // Its one status names the fewest copies that a member waited for, and each has what it asked.
    const named = Math.min(...writes.map(({ wait }) => wait))
    for (const [index, write] of writes.entries()) {
      const place = { id, index, count: writes.length, condition: CONDITIONS[condition], left: 0 }
      write.member = write.expect === null ? place : { ...place, expect: write.expect }
      write.named = named
      write.release = () => this.ended()
    }
  }

  /** Operation of its first record: the others follow. */
  get firstOperation(): bigint {
    return this.writes[0]!.operationId
  }

  get settled(): boolean {
    return this.left === 0
  }

  /** The records that have not ended. */
  get open(): PendingWrite[] {
    return this.writes.filter((write) => !write.settled)
  }

  /** Was that called for after this batch, and goes to a place of it? */
  isBefore(write: PendingWrite): boolean {
    if (write.operationId <= this.firstOperation) return false
    if (write.area) return this.writes.some((own) => own !== write && isOver(own, write))
    const own = this.byPlace.get(placeOf(write))
    return own !== undefined && own !== write
  }

  /**
   * Would a record called for after this batch, with that operation, come too far ahead of what the
   * batch still has to send? Too far behind the newest operation the part records nothing; and in
   * order it must know every record before as durable, which it does up to the first that is not.
   */
  isOutrunBy(operation: bigint): boolean {
    const ahead = operation - this.firstOperation
    if (ahead < WINDOW || ahead < this.writes.length) return false
    const { open } = this
    const isUnsent = ({ sent, posted }: PendingWrite): boolean => !sent && !posted
    const isComplete = open.every(({ posted }) => posted)
    const first = this.condition === 'inOrder' && !isComplete ? open[0] : open.find(isUnsent)
    return first !== undefined && operation - first.operationId >= WINDOW
  }

  /** The records of the next burst: at most so many, and no more than the part can hold. */
  nextBurst(most: number): PendingWrite[] {
    const { open } = this
    const burst = open.slice(0, Math.min(most, fitTogether(open)))
    for (const [i, write] of burst.entries()) {
      write.member = { ...write.member!, left: burst.length - 1 - i }
    }
    return burst
  }

  /** Ends what goes to a region that has ended; in order nothing is taken behind that. */
  endGone(): void {
    for (const write of this.open) {
      if (write.settled || write.region.gone !== true) continue
      endGone(write)
      if (this.condition === 'inOrder') this.forget(write, WHY_BEHIND)
    }
  }

  /** Ends as unknown what was sent, and the rest with the error that nothing was. */
  giveUp(why: string, nothingSent: PerdureError): void {
    for (const write of this.open) write.giveUp(why, nothingSent)
  }

  /**
   * Every record of a burst was answered, or ended on this side: ends those that are not to be sent
   * again. In order nothing behind one that ended on this side can be taken.
   */
  answered(ends: readonly BurstEnd[]): void {
    const first = this.endUnsendable(ends)
    const unsent = this.condition === 'inOrder' ? first : null
    const told = ends.filter(({ end }) => !isUnsendable(end))
    const at = unsent === null ? this.writes.length : unsent.member!.index
    if (told.length > 0) this.judgeBurst(told, at)
    if (unsent !== null) this.forget(unsent, WHY_BEHIND)
  }

  /** The answer to a burst; in order whatever is refused behind `unsent` is so because of that. */
  private judgeBurst(ends: readonly BurstEnd[], unsent: number): void {
    const untaken = ends
      .filter(({ write }) => !write.settled)
      .sort((one, other) => one.write.member!.index - other.write.member!.index)
    const isBarren = untaken.length === ends.length
    this.waits++
    this.barren = isBarren ? this.barren + 1 : 0
    if (untaken.length === 0) return
    const verdicts = judge(
      this.condition,
      untaken.map(({ write, end }) => ({
        index: write.member!.index,
        status: end.refusal,
        again: this.triedBefore.has(write),
      })),
      { isLast: this.barren >= this.retries, isBarren },
    )
    if (verdicts.some(({ kind }) => kind !== 'again')) this.barren = 0
    const isBehind = (i: number): boolean => untaken[i]!.write.member!.index > unsent
    for (const [i, verdict] of verdicts.entries()) {
      const { write } = untaken[i]!
      const isUnknown = verdict.kind === 'inDoubt' || verdict.kind === 'forgotten'
      if (isBehind(i) && !isUnknown) write.fail(this.notAccepted(write, unsent))
      else this.carryOut(write, verdict)
    }
    const refused = verdicts.findIndex(({ kind }, i) => kind === 'refused' && !isBehind(i))
    if (this.condition !== 'inOrder') return
    if (refused >= 0) this.negate(untaken[refused]!.write)
    const lost = verdicts.findIndex(({ kind }) => kind === 'forgotten')
    if (lost >= 0) this.forget(untaken[lost]!.write, WHY_FORGOTTEN)
  }

  /** In order nothing behind a record that is refused for good can be taken, sent or not. */
  private negate(refused: PendingWrite): void {
    const { index } = refused.member!
    for (const write of this.open) {
      if (write.member!.index > index) write.fail(this.notAccepted(write, index))
    }
  }

  /** In order nothing behind a record that is lost is taken; what was sent may have been. */
  private forget(lost: PendingWrite, why: string): void {
    const { index } = lost.member!
    for (const write of this.open) {
      if (write.member!.index > index) write.giveUp(why, this.notAccepted(write, index))
    }
  }

  private carryOut(write: PendingWrite, verdict: Verdict): void {
    if (verdict.kind === 'again') {
      this.triedBefore.add(write)
    } else if (verdict.kind === 'refused') {
      write.fail(new RefusedError(verdict.fault, verdict.status, write.what))
    } else if (verdict.kind === 'behind') {
      write.fail(this.notAccepted(write, verdict.because))
    } else if (verdict.kind === 'forgotten') {
      write.giveUp(WHY_FORGOTTEN, new RefusedError('OPERATION_FORGOTTEN', 0, write.what))
    } else {
      const why = 'a fence, or its repair, failed, and the next start of the part decides'
      write.giveUp(why, new RefusedError('IN_DOUBT', 0, write.what))
    }
  }

  /**
   * The peer refused a packet of the burst and broke the connection. What it does not serve at all
   * it will not serve later; behind a record that it refused nothing stands in order.
   */
  broken(ends: readonly BurstEnd[]): void {
    this.endUnsendable(ends)
    const at = ends.findIndex(({ end }) => isNak(end.status))
    if (at < 0) return
    const { write: first, end } = ends[at]!
    if (!first.settled) first.deny(end.status)
    if (end.status === 'REM_INV_REQ_ERR') {
      for (const write of this.open) write.deny(end.status)
    } else if (this.condition === 'inOrder') {
      if (first.repetition) this.forget(first, WHY_FORGOTTEN)
      else this.negate(first)
    }
  }

  /** Ends those that would find no way on another connection either; the first of them, or null. */
  private endUnsendable(ends: readonly BurstEnd[]): PendingWrite | null {
    let first: PendingWrite | null = null
    for (const { write, end } of ends) {
      if (!isUnsendable(end)) continue
      if (end.unmade !== undefined) write.giveUp(WHY_UNMADE, end.unmade)
      else write.giveUp(WHY_NO_ROOM, new TransportError(end.status, write.what))
      if (first === null || write.member!.index < first.member!.index) first = write
    }
    return first
  }

  private notAccepted(write: PendingWrite, because: number): NotAccepted {
    return new NotAccepted(write.what, because, this.writes[because]!.what)
  }

  private ended(): void {
    this.left--
    if (this.left === 0) this.onEnd()
  }
}

function placeOf({ region, slot }: PendingWrite): string {
  return `${region.info.id}:${slot}`
}

/** Do both go to some of the same plain bytes? */
function isOver(one: PendingWrite, other: PendingWrite): boolean {
  if (!one.area || one.region.info.id !== other.region.info.id) return false
  return one.slot < other.slot + other.length && other.slot < one.slot + one.length
}

/** How many of these, from the first on, find room in the pieces that a part has for one batch. */
function fitTogether(writes: readonly PendingWrite[]): number {
  let pieces = 0
  let left = 0
  for (const [i, { length }] of writes.entries()) {
    const bytes = LINE_BYTES + Math.ceil(length / LINE_BYTES) * LINE_BYTES
    if (bytes > left) {
      if (pieces === BATCH_CHUNKS_EACH) return i
      pieces++
      left = BATCH_CHUNK_BYTES
    }
    left -= bytes
  }
  return writes.length
}
