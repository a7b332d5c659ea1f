/**
 * The driver's jobs over a queue pair of the host: what a connection posts, whichever way it has.
 *
 * Invariants:
 * - Every job ends exactly once, in the order in which they were posted except for records in two
 *   steps; `onIdle` is called after whatever may have made room, and `onBroken` once, after the
 *   last job of a broken queue has ended.
 * - Jobs that find no free units, or no memory for their bytes, wait here, in their order; a list
 *   of jobs that fits goes out with one doorbell.
 * - Whatever throws while an element is made ends that job, and those behind it of its chain.
 * - A record in two steps is received when its send completes, and ends when the completion of a
 *   receive names its operation (P2-21, P2-24).
 * - A receive that is posted holds an entry of the inbox: a message that comes always has a place,
 *   and a peer that sends more is told to wait.
 */

import { BATCH_ELEMENTS_MAX, COPIES_MAX, RECEIVE_BYTES } from '../../firmware/board/limits.ts'
import { WAS_SOLICITED, WITH_IMMEDIATE, WITH_INVALIDATE } from '../../firmware/host/element.ts'
import { ahead } from '../../firmware/host/queue-info.ts'
import {
  ASSOCIATE,
  blankCounts,
  READ,
  type RequesterCounts,
  WRITE_PERSIST,
} from '../../firmware/transport/requester.ts'
import { type PerdureError, RefusedError, unmadeError } from '../base/errors.ts'
import type { Granted } from '../control/management.ts'
import type { Inbox, Notices } from '../way/inbox.ts'
import { isNak, type Job, type JobEnd } from '../way/jobs.ts'
import { CardRemoved, MemoryFull, QueueEnded } from '../way/queue-errors.ts'
import type { JobQueue } from '../way/way.ts'
import type { WorkRequest } from '../way/work-request.ts'
import type { PcieDevice } from './device.ts'
import { Hearing } from './hearing.ts'
import { endOf, isReceipt, type Piece, pieceOf, piecesOf, refusalsOf, unheard } from './job-work.ts'
import type { HostBuffer } from './queues/buffers.ts'
import type { CardQueuePair } from './queues/card-queue-pair.ts'
import { unitsOf } from './queues/element.ts'
import type { Completion, QueueElement } from './queues/values.ts'

interface PcieJobQueueOptions {
  readonly granted: Granted
  /** Takes what the peer sends; null for the local card, which sends nothing. */
  readonly inbox: Inbox | null
  /** Hears of the state of the peer's memory; not of the local card's. */
  readonly notices?: Notices
  /** Silence for 4.096 µs * 2^this, while jobs wait, is told by `onSilence`. */
  readonly ackTimeoutCode: number
  /** Closes the connection at the other DPU; nothing for the local card. */
  readonly disconnect: (timeoutUs: number) => Promise<void>
}

/** Jobs that may be unresolved at once. */
export const JOBS = 128
/** Bytes that go into the element of a job, and units that it then has at the most. */
export const JOB_INLINE_BYTES = 256
export const JOB_UNITS_MAX: number = unitsOf(JOB_INLINE_BYTES, COPIES_MAX - 1)

/** Until memory that others hold is asked for again, and how long that goes on, µs. */
const RETRY_US = 500
const PATIENCE_US = 5_000_000

/** A job, and how many of its elements have not ended. */
interface Entry {
  readonly job: Job
  left: number
  end: JobEnd | null
  /** It went out before, over an earlier queue. */
  readonly wasSent: boolean
  /** The card has taken some of it; some of it has succeeded. */
  isTaken: boolean
  isPartly: boolean
  readonly chain: Chain
}

/** Jobs that were posted together. */
interface Chain {
  /** The card has an element of them. */
  isBegun: boolean
}

interface Waiting {
  readonly entry: Entry
  readonly piece: Piece
}

export class PcieJobQueue implements JobQueue {
  readonly granted: Granted
  readonly number: number | null
  readonly counts: RequesterCounts = blankCounts()
  readonly batchMax: number = BATCH_ELEMENTS_MAX
  readonly hearsStatus: boolean
  onIdle: () => void = () => {}
  onBroken: () => void = () => {}
  onSilence: () => void = () => {}
  private readonly device: PcieDevice
  private readonly pair: CardQueuePair
  private readonly options: PcieJobQueueOptions
  private readonly isLocal: boolean
  private readonly hearing: Hearing | null
  private waiting: Waiting[] = []
  /** Elements that are posted, and jobs that have not ended. */
  private posted = 0
  private jobs = 0
  /** Records that were received and are not known to be durable, by operation. */
  private readonly received: Map<bigint, Entry> = new Map()
  private readonly receives: Set<HostBuffer> = new Set()
  private pumping = false
  private refused = false
  private isBroken = false
  private closed = false
  private told = false
  private heard = 0
  private cancelSilence: (() => void) | null = null
  private cancelRetry: (() => void) | null = null
  /** Since when there has been no memory for the first that waits, µs; null while there is. */
  private shortSinceUs: number | null = null
  private ending: Promise<void> | null = null

  /** `pair` has a completion queue of its own, for both of its queues, that nobody else polls. */
  constructor(device: PcieDevice, pair: CardQueuePair, options: PcieJobQueueOptions) {
    this.device = device
    this.pair = pair
    this.options = options
    this.granted = options.granted
    this.isLocal = pair.type === 'local'
    this.number = this.isLocal ? null : pair.number
    const { notices } = options
    this.hearing = notices === undefined ? null : new Hearing(device, pair.send.queue, notices)
    this.hearsStatus = this.hearing !== null
    pair.onEnded = () => this.ended()
    pair.sendCq.dispatch(() => this.dispatched())
    if (options.inbox !== null) options.inbox.onFree = () => this.refill()
    this.refill()
  }

  get broken(): boolean {
    return this.isBroken || this.pair.end !== null
  }

  /** While what was flushed is handed out, the end of the pair is not told yet. */
  private get isOpen(): boolean {
    return !this.broken && !this.closed
  }

  get room(): number {
    if (!this.isOpen) return 0
    return Math.max(0, JOBS - this.jobs)
  }

  post(job: Job): void {
    this.postChain([job])
  }

  postChain(jobs: readonly Job[]): void {
    if (this.room < jobs.length) {
      for (const job of jobs) job.done(unheard('WR_FLUSH_ERR', this.refused))
      return
    }
    const refusals = refusalsOf(jobs, this.isLocal)
    const chain = { isBegun: false }
    for (const [i, job] of jobs.entries()) {
      const refusal = refusals[i]!
      if (refusal !== null) {
        job.done(unheard(refusal, false))
        continue
      }
      if (job.request.kind === ASSOCIATE) this.follow(job.request)
      const pieces = piecesOf(job.request)
      const fresh = { end: null, wasSent: job.sent, isTaken: false, isPartly: false, chain }
      const entry: Entry = { job, left: pieces.length, ...fresh }
      this.jobs++
      for (const piece of pieces) this.waiting.push({ entry, piece })
    }
    this.pump()
    this.watchSilence()
  }

  private follow({ rkey, bseth }: WorkRequest): void {
    if (bseth!.optOut) this.hearing?.forget(rkey!)
    else this.hearing?.follow(rkey!)
  }

  // ---- out -------------------------------------------------------------------------------------

  private pump(): void {
    if (this.pumping) return
    this.pumping = true
    try {
      while (this.waiting.length > 0 && this.isOpen && this.postSome()) {}
    } finally {
      this.pumping = false
    }
  }

  /** Posts as many of those that wait as go out together; false if none does now. */
  private postSome(): boolean {
    const { works, buffers, thrown } = this.gather()
    const [sent, why] = this.postAsManyAsFit(works, thrown)
    for (const [i, buffer] of buffers.entries()) if (i >= sent) buffer?.free()
    if (sent === 0) return isShort(why) ? this.giveUpHopeless() : this.drop(unmadeError(why))
    this.shortSinceUs = null
    this.posted += sent
    for (const { entry } of this.waiting.splice(0, sent)) {
      entry.job.sent = true
      entry.chain.isBegun = true
    }
    return true
  }

  /** The elements of those that wait, as many as there is room for, and what ended the list. */
  private gather(): { works: QueueElement[]; buffers: (HostBuffer | null)[]; thrown: unknown } {
    const { pair } = this
    let free = pair.send.free
    const works: QueueElement[] = []
    const buffers: (HostBuffer | null)[] = []
    const most = JOBS - this.posted
    try {
      for (const next of this.waiting) {
        if (works.length >= most) break
        const buffer = this.bufferFor(next)
        buffers.push(buffer)
        const work = this.workFor(next, buffer)
        const units = pair.unitsOf(work)
        if (units > free) break
        free -= units
        works.push(work)
      }
    } catch (thrown) {
      return { works, buffers, thrown }
    }
    return { works, buffers, thrown: null }
  }

  private bufferFor({ entry, piece }: Waiting): HostBuffer | null {
    return entry.job.request.kind === READ && piece.length > 0
      ? this.device.alloc(piece.length)
      : null
  }

  private workFor(next: Waiting, buffer: HostBuffer | null): QueueElement {
    const { entry, piece } = next
    const range = buffer?.range(this.pair.lkey) ?? null
    return {
      ...pieceOf(entry.job.request, piece, range),
      done: (completion) => this.completed(next, buffer, completion),
    }
  }

  /** Their bytes need memory, too: all of them, or the half, and so on. How many, or why none. */
  private postAsManyAsFit(
    works: readonly QueueElement[],
    thrown: unknown,
  ): [sent: number, why: unknown] {
    let why = thrown
    for (let count = works.length; count > 0; count >>= 1) {
      try {
        this.pair.post(...works.slice(0, count))
        return [count, null]
      } catch (error) {
        why = error
      }
    }
    return [0, why]
  }

  /** The first that waits can be no element: it ends, and what waits of its chain; others go on. */
  private drop(unmade: PerdureError): boolean {
    const { chain, job } = this.waiting[0]!.entry
    const dropped = this.waiting.filter(({ entry }) => entry.chain === chain)
    this.waiting = this.waiting.filter(({ entry }) => entry.chain !== chain)
    const end = { ...unheard('LOC_QP_OP_ERR', false), unmade }
    for (const { entry } of dropped) {
      entry.end = end
      entry.left--
      if (entry.left === 0) this.finish(entry, end)
    }
    // Of a burst that it has begun with the card waits for the rest.
    if (job.request.batch !== undefined && chain.isBegun) this.pair.fail('CONNECTION_LOST')
    return true
  }

  /**
   * With nothing of ours under way nobody will tell when memory becomes free: it is asked for again
   * for a while. What is larger than all of it can never go, nor what finds no place beside the
   * rings: it ends, and what stands behind it goes on.
   */
  private giveUpHopeless(): boolean {
    if (this.posted > 0) return false
    const { entry, piece } = this.waiting[0]!
    const nowUs = this.device.now()
    this.shortSinceUs ??= nowUs
    const mayFit = piece.length <= this.device.layout.arena.bytes
    if (mayFit && nowUs - this.shortSinceUs < PATIENCE_US) {
      this.cancelRetry ??= this.device.setTimer(nowUs + RETRY_US, () => {
        this.cancelRetry = null
        this.pump()
        if (this.isOpen) this.onIdle()
      })
      return false
    }
    this.shortSinceUs = null
    this.waiting = this.waiting.filter((other) => other.entry !== entry)
    entry.left = 0
    this.finish(entry, unheard('LOC_LEN_ERR', false))
    return true
  }

  // ---- in --------------------------------------------------------------------------------------

  private completed(
    { entry, piece }: Waiting,
    buffer: HostBuffer | null,
    completion: Completion,
  ): void {
    this.heard++
    this.posted--
    const { job } = entry
    if (completion.status === 'SUCCESS' && buffer !== null) {
      job.request.data!.set(buffer.load(), piece.offset)
    }
    buffer?.free()
    if (completion.status !== 'WR_FLUSH_ERR' || !this.wasNotTaken(completion)) entry.isTaken = true
    if (isReceipt(completion)) {
      this.received.set(job.request.operation!, entry)
      job.received()
      return
    }
    this.count(job)
    const end = endOf(job.request.kind, completion, this.refused)
    if (end.status === 'SUCCESS') entry.isPartly = true
    if (entry.end === null || entry.end.status === 'SUCCESS') entry.end = end
    entry.left--
    if (entry.left === 0) this.finish(entry, entry.end)
    if (isNak(end.status)) this.refused = true
  }

  /** The card has ended the queue in front of the element, and said so. */
  private wasNotTaken({ unit, pointer }: Completion): boolean {
    return this.pair.send.errorInMemory !== '' && ahead(unit, pointer) < 2 ** 31
  }

  /** What no card has taken was not sent; of the others a part may have had its effect. */
  private finish(entry: Entry, end: JobEnd): void {
    const { job, wasSent, isTaken, isPartly } = entry
    this.jobs--
    if (!isTaken) job.sent = wasSent
    job.done(isPartly && end.status !== 'SUCCESS' ? { ...end, isPartly } : end)
  }

  private count({ request: { kind } }: Job): void {
    if (kind === WRITE_PERSIST) this.counts.persistAcks++
    else if (kind === READ) this.counts.readResponses++
    else if (kind > READ) this.counts.otherResponses++
    else this.counts.acks++
  }

  /** A receive has completed: a record is durable, or a message has come. */
  private arrived(buffer: HostBuffer, completion: Completion): void {
    this.heard++
    const entry = this.received.get(completion.operation)
    const { inbox } = this.options
    if (entry !== undefined) {
      this.received.delete(completion.operation)
      this.count(entry.job)
      this.finish(entry, endOf(entry.job.request.kind, completion, this.refused))
    } else if (completion.status === 'SUCCESS') {
      const { flags, immediate } = completion
      const bytes = buffer.load(0, Math.min(completion.length, buffer.length))
      if (this.options.notices?.health(bytes, 0, bytes.length) === true) {
        this.giveBack(buffer)
        return
      }
      this.receives.delete(buffer)
      inbox!.deliver({
        bytes,
        immediate: (flags & WITH_IMMEDIATE) !== 0 ? immediate : null,
        invalidate: (flags & WITH_INVALIDATE) !== 0 ? immediate : null,
        solicited: (flags & WAS_SOLICITED) !== 0,
      })
      buffer.free()
      return
    }
    this.giveBack(buffer)
  }

  private giveBack(buffer: HostBuffer): void {
    if (!this.receives.delete(buffer)) return
    buffer.free()
    this.options.inbox!.release()
  }

  /** Posts receives, as many as there are entries of the inbox for. */
  private refill(): void {
    const { inbox } = this.options
    if (inbox === null) return
    const bytes = Math.min(inbox.messageBytesMax, RECEIVE_BYTES)
    const works = []
    while (this.pair.end === null && this.pair.receive.free > works.length && inbox.claim()) {
      let buffer: HostBuffer
      try {
        buffer = this.device.alloc(bytes)
      } catch (error) {
        inbox.release()
        if (error instanceof MemoryFull) break
        throw error
      }
      this.receives.add(buffer)
      const done = (completion: Completion): void => this.arrived(buffer, completion)
      works.push({ range: buffer.range(this.pair.lkey), done })
    }
    if (works.length > 0) this.pair.postReceive(...works)
  }

  private dispatched(): void {
    // A pair that is ending tells that when everything of it has ended.
    if (this.isBroken) this.tellBroken()
    if (!this.isOpen) return
    this.refill()
    this.pump()
    this.onIdle()
  }

  // ---- the end ---------------------------------------------------------------------------------

  /** The pair has ended by itself; what it had has been completed, or is about to be. */
  private ended(): void {
    this.isBroken = true
    this.end()
    // What was flushed is dispatched before this, unless it was found inside a dispatch.
    if (this.posted === 0) this.tellBroken()
  }

  private tellBroken(): void {
    if (this.told || this.closed || this.posted > 0) return
    this.told = true
    this.flush()
    this.onBroken()
  }

  private end(): void {
    this.hearing?.close()
    this.cancelSilence?.()
    this.cancelSilence = null
    this.cancelRetry?.()
    this.cancelRetry = null
    if (this.options.inbox !== null) this.options.inbox.onFree = () => {}
  }

  /** Ends what waits here, and what was received and will not be heard of again. */
  private flush(): void {
    const { waiting } = this
    this.waiting = []
    for (const { entry } of waiting) {
      if (--entry.left > 0) continue
      this.finish(entry, unheard('WR_FLUSH_ERR', this.refused))
    }
    const received = [...this.received.values()]
    this.received.clear()
    for (const entry of received) this.finish(entry, unheard('WR_FLUSH_ERR', false))
    for (const buffer of [...this.receives]) this.giveBack(buffer)
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.end()
    this.pair.close()
    this.flush()
    this.destroy().catch(() => {})
  }

  /** Closes it, and ends the pair at the card: nothing more of it is sent. */
  destroy(timeoutUs?: number): Promise<void> {
    this.close()
    this.ending ??= this.endAtCard(timeoutUs).catch((error: unknown) => {
      // What was not answered is asked again by the next call.
      this.ending = null
      throw error
    })
    return this.ending
  }

  /** Where the card is gone, or knows the pair no more, it is over anyway. */
  private async endAtCard(timeoutUs?: number): Promise<void> {
    try {
      await this.pair.destroy(timeoutUs)
      await this.device.destroyCq(this.pair.sendCq)
    } catch (error) {
      if (!(error instanceof RefusedError) && !(error instanceof CardRemoved)) throw error
    }
  }

  async disconnect(timeoutUs: number): Promise<void> {
    await this.destroy(timeoutUs)
    await this.options.disconnect(timeoutUs)
  }

  // ---- silence ---------------------------------------------------------------------------------

  /** Tells when nothing was heard for a while although something is under way. */
  private watchSilence(): void {
    if (this.cancelSilence !== null || this.jobs === 0 || !this.isOpen) return
    const before = this.heard
    const atUs = this.device.now() + 4.096 * 2 ** this.options.ackTimeoutCode
    this.cancelSilence = this.device.setTimer(atUs, () => {
      this.cancelSilence = null
      if (this.jobs > 0 && this.heard === before) {
        this.counts.timeouts++
        this.onSilence()
      }
      this.watchSilence()
    })
  }
}

/** Whether nothing is wrong with the element: room comes back, or the end of the queue is told. */
function isShort(why: unknown): boolean {
  return why === null || why instanceof MemoryFull || why instanceof QueueEnded
}
