/**
 * The connection of a client: what waits, what is on its way, and what becomes of both.
 *
 * Invariants:
 * - Requests leave in the order of the calls; at most `inFlight` records are unresolved at once,
 *   where a burst of a batch counts as one: it has one answer.
 * - What a batch has not got through goes before everything that waits; a record that was called
 *   for after the batch and goes to a slot of it waits until the batch is over. So records to one
 *   slot take effect in the order of the calls, however often a batch is sent.
 * - A write that was sent and is not resolved stays in `unresolved`, in order, until a PERSIST_ACK,
 *   the part itself (reconnect.ts) or giving up resolves it; it is never sent again on another
 *   connection before the part was asked.
 */

import { blankCounts, type RequesterCounts } from '../../firmware/transport/requester.ts'
import {
  ArgumentError,
  faultOfStatus,
  type PerdureError,
  RefusedError,
  TransportError,
  unmadeError,
} from '../base/errors.ts'
import type { Caller } from '../base/give-up.ts'
import type { Management } from '../control/management.ts'
import type { PartStatus } from '../control/part.ts'
import { CardHealth, type HealthPort } from '../status/health.ts'
import type { WatchPort } from '../status/watch.ts'
import { Watches } from '../status/watches.ts'
import { Verbs } from '../verbs/verbs.ts'
import { type Chain, IN_DOUBT, postChain, rejectChain } from '../way/chain.ts'
import { Inbox, type Notices } from '../way/inbox.ts'
import { isRefusal, type JobEnd, persistJob, readJob } from '../way/jobs.ts'
import { type ConnectOptions, warn } from '../way/options.ts'
import { endGone, goneError, type OpenRegion } from '../way/region-handle.ts'
import { addCounts, type Statistics } from '../way/statistics.ts'
import type { VerbsContext } from '../way/verbs.ts'
import type { JobQueue, VerbsOptions, Way } from '../way/way.ts'
import {
  mechanismOf,
  outlivesOf,
  type PendingWrite,
  WHY_FORGOTTEN,
  WHY_NO_ROOM,
  WHY_UNMADE,
} from '../way/write.ts'
import { PathMtu } from './path-mtu.ts'
import { type BurstEnd, isUnsendable, PendingBatch } from './pending-batch.ts'
import { type Broken, Reconnection } from './reconnect.ts'

/** A READ that somebody waits for. */
interface PendingRead {
  readonly region: OpenRegion
  readonly slot: number
  readonly view: number
  /** Once that is over, the READ is not sent. */
  readonly caller: Caller
  readonly resolve: (image: Uint8Array) => void
  readonly reject: (error: Error) => void
}

type Waiting = PendingWrite | PendingRead | PendingBatch | Chain

/** Before a batch of which nothing was taken goes out again, µs; twice that the next time. */
const PAUSE_US = 500

/** How long a silent part is asked for a sign of life, µs. */
const PROBE_US = 200_000

/** One behind the last operation id. */
const OPERATIONS_END = 2n ** 64n

/** As IN_DOUBT, no refusal: it may have been durable before, and the part knows it no more. */
const FORGOTTEN = 'OPERATION_FORGOTTEN'

/** Entries of the receive queue, and bytes of a message. */
const RECEIVES = 64
const MESSAGE_BYTES_MAX = 1 << 20

export class Connection implements WatchPort, HealthPort, Broken {
  readonly way: Way
  readonly management: Management
  readonly options: ConnectOptions
  readonly random: () => number
  readonly clientId: bigint
  readonly regions: Map<string, OpenRegion> = new Map()
  /** What the DPU sends to us, over all connections. */
  readonly inbox: Inbox
  /** What hears of the DPU's memory, over all connections. */
  readonly watches: Watches = new Watches()
  /** What hears of the DPU's part, likewise. */
  readonly health: CardHealth
  private readonly notices: Notices
  /** Regions that take no guards, of which somebody was told. */
  readonly unguarded: Set<string> = new Set()
  /** Sent and not resolved, by operation id, in order. */
  readonly unresolved: Map<bigint, PendingWrite> = new Map()
  /** Set for good by `close`; says why. */
  closed: PerdureError | null = null
  /** Called when the connection is closed: gives up what it was tied to. */
  release: () => void = () => {}
  readonly pathMtu: PathMtu
  nextOperation: bigint
  /** As the DPU said when it was connected last. */
  durable: PartStatus['durable'] = 'nothing'
  readonly totals = {
    records: 0,
    recordsDurable: 0,
    payloadBytes: 0,
    connections: 0,
    recovered: 0,
    sentAgain: 0,
    batches: 0,
    bursts: 0,
    batchWaits: 0,
  }
  private queuePair: JobQueue | null = null
  /** One that broke, and is still open at the DPU for all that is known. */
  left: JobQueue | null = null
  /** Made, and not yet in use. */
  private candidate: JobQueue | null = null
  private context: VerbsContext | null = null
  private waiting: Waiting[] = []
  /** Batches that were posted and are not over, and those of them that pause. */
  private readonly batches: Set<PendingBatch> = new Set()
  private readonly pausing: Set<PendingBatch> = new Set()
  private nextBatch = 0
  private persistsOut = 0
  private pumping = false
  private probing = false
  private readonly inFlight: number
  private past: RequesterCounts = blankCounts()
  private reconnection: Promise<void> | null = null

  constructor(
    way: Way,
    management: Management,
    options: ConnectOptions,
    clientId: bigint,
    random: () => number,
  ) {
    this.way = way
    this.management = management
    this.options = options
    const tell = (text: string): void => warn(options, text, 'PERDURE_PATH_MTU')
    this.pathMtu = new PathMtu(options.pathMtu, tell)
    this.clientId = clientId
    this.random = random
    this.nextOperation = options.firstOperation ?? 1n
    this.inFlight = options.inFlight ?? 32
    this.inbox = new Inbox(options.receives ?? RECEIVES, MESSAGE_BYTES_MAX, way)
    this.health = new CardHealth(this)
    const { watches, health } = this
    this.notices = {
      notice: (...told) => watches.notice(...told),
      proposal: (...told) => watches.proposal(...told),
      health: (...told) => health.take(...told),
    }
  }

  /** The open queue pair, or null while there is none. */
  get current(): JobQueue | null {
    return this.queuePair
  }

  /** Puts a request behind the others; it leaves as soon as there is room. */
  enqueue(request: Waiting): void {
    this.waiting.push(request)
    if (isWrite(request)) this.count(request)
    if (this.queuePair !== null) this.pump()
    else if (this.closed !== null) this.drop(this.closed)
    else if (this.options.reconnect !== false) this.reconnect().catch(() => {})
    else this.drop(new TransportError('WR_FLUSH_ERR', 'no connection'))
  }

  /** Puts a batch behind the other requests: its records follow each other without a gap. */
  enqueueBatch(batch: PendingBatch): void {
    for (const write of batch.writes) this.count(write)
    this.totals.batches++
    batch.onEnd = () => this.batchEnded(batch)
    this.enqueue(batch)
  }

  /** An id that no batch of the last 65535 has. */
  takeBatchId(): number {
    const id = this.nextBatch
    this.nextBatch = (id + 1) & 0xffff
    return id
  }

  /** Ids for so many records, one behind the other: the first. Throws PERDURE_ARGUMENT. */
  takeOperations(count: number): bigint {
    const first = this.nextOperation
    const end = first + BigInt(count)
    // Behind the last one 0 would come, which is no name: nobody could say what became of it.
    if (end > OPERATIONS_END) {
      throw new ArgumentError(`operation ${end - 1n}: at most 2^64 - 1; connect as another client`)
    }
    this.nextOperation = end
    return first
  }

  private count(write: PendingWrite): void {
    this.totals.records++
    this.totals.payloadBytes += write.length
  }

  /** Puts a chain of verbs behind the other requests. Once it was sent, it is not sent again. */
  enqueueChain(chain: Chain): void {
    this.enqueue(chain)
  }

  /** Reads the image of a slot, unless the caller has given up. Survives reconnections. */
  async read(region: OpenRegion, slot: number, view: number, caller: Caller): Promise<Uint8Array> {
    caller.check()
    let forget = (): void => {}
    const image = new Promise<Uint8Array>((resolve, reject) => {
      forget = caller.onGivenUp(reject)
      this.enqueue({ region, slot, view, caller, resolve, reject })
    })
    return await image.finally(forget)
  }

  /** The verbs of the way, in the name of this client; they end with the connection. */
  get verbs(): VerbsContext {
    if (this.context === null) {
      const { way, management, queueOptions } = this
      this.context = new Verbs(way.openVerbs(queueOptions), management, queueOptions)
    }
    return this.context
  }

  /** Gives back what the verbs have made, if anything was. */
  async closeVerbs(): Promise<void> {
    const { context } = this
    this.context = null
    await context?.close()
  }

  private get queueOptions(): VerbsOptions {
    const { options, clientId, random } = this
    const persistTimeoutMs = options.persistTimeoutMs ?? 200
    return {
      ...{ clientId, random },
      protectionDomain: options.protectionDomain ?? 0,
      pathMtu: this.pathMtu.size,
      ackTimeoutCode: options.ackTimeoutCode ?? 14,
      persistTimeoutUs: persistTimeoutMs * 1000,
    }
  }

  /** Makes a queue at both ends; `use` takes it into use. */
  async open(): Promise<JobQueue> {
    const { management, inbox, notices } = this
    const options = { ...this.queueOptions, inbox, notices }
    this.candidate = await this.way.openQueue(management, options)
    this.totals.connections++
    return this.candidate
  }

  /** From now on requests leave over this queue pair. */
  use(queuePair: JobQueue): void {
    this.endReconnection()
    this.left = null
    this.queuePair = queuePair
    this.persistsOut = 0
    queuePair.onBroken = () => this.broken(queuePair)
    queuePair.onSilence = () => void this.probe(queuePair)
    this.watches.begin(queuePair)
    this.health.begin()
    queuePair.onIdle = () => this.pump()
    this.pump()
  }

  /**
   * Asks a part that is silent whether it was started again. If so, this queue pair is void, and
   * waiting for its retries would only take time.
   */
  private async probe(queuePair: JobQueue): Promise<void> {
    if (this.probing || this.options.reconnect === false) return
    this.probing = true
    try {
      const { incarnation } = await this.management.status(PROBE_US)
      const isVoid = incarnation !== queuePair.granted.incarnation
      if (isVoid && this.queuePair === queuePair) await this.reconnect()
    } catch {
      // It stays silent: the requester's retries go on, and end.
    } finally {
      this.probing = false
    }
  }

  /** Takes the queue pair out of use, keeps its counts, and returns it. */
  retire(): JobQueue | null {
    const { queuePair } = this
    if (queuePair === null) return null
    this.queuePair = null
    queuePair.close()
    this.watches.lost()
    this.health.lost()
    this.past = addCounts(this.past, queuePair.counts)
    return queuePair
  }

  /** Puts what a broken connection left undone in front of everything else. */
  requeue(writes: readonly PendingWrite[]): void {
    const again = new Set<Waiting>(writes.map((write) => this.batchOf(write) ?? write))
    // All that was sent of a batch may be settled, and the rest of it was never sent.
    const queued = new Set<Waiting>([...this.waiting, ...this.pausing])
    const begun = [...this.batches].filter((batch) => !again.has(batch) && !queued.has(batch))
    this.waiting = [...again, ...begun, ...this.waiting]
  }

  /** The batch that was posted and has the record, if there is one. */
  private batchOf(write: PendingWrite): PendingBatch | undefined {
    if (write.member === null) return undefined
    return [...this.batches].find((batch) => batch.writes[write.member!.index] === write)
  }

  /** Makes the connection again and resumes what was on its way; one attempt at a time. */
  reconnect(): Promise<void> {
    if (this.closed !== null) return Promise.reject(this.closed)
    this.reconnection ??= new Reconnection(this).run()
    return this.reconnection
  }

  /** The DPU has this connection no more: it is made again, where it shall be. */
  mend(): void {
    if (this.closed === null && this.options.reconnect !== false) this.reconnect().catch(() => {})
  }

  /** An attempt is over: who learns of its end and asks for another gets a new one. */
  endReconnection(): void {
    this.reconnection = null
    this.candidate = null
  }

  /** Every write that is not settled. */
  openWrites(): PendingWrite[] {
    const batches = [...this.waiting.filter(isBatch), ...this.batches]
    const inBatches = batches.flatMap((batch) => batch.open)
    const all = [...this.unresolved.values(), ...this.waiting.filter(isWrite), ...inBatches]
    return all.filter((write) => !write.settled)
  }

  /** Ends everything that waits or is unresolved. */
  drop(error: PerdureError): void {
    const { waiting } = this
    this.waiting = []
    const why = 'the connection ended before the answer'
    for (const write of [...this.unresolved.values()]) write.giveUp(why, error)
    this.unresolved.clear()
    for (const batch of [...this.batches]) batch.giveUp(why, error)
    for (const request of waiting) endRequest(request, why, error)
  }

  /** Ends the connection for good. */
  close(error: PerdureError): void {
    if (this.closed !== null) return
    this.closed = error
    this.release()
    this.retire()
    this.candidate?.close()
    void this.closeVerbs()
    this.watches.end(error)
    this.health.end(error)
    this.drop(error)
    this.inbox.close(error)
    this.management.close(error)
    this.way.close()
  }

  /** The counts over all connections. */
  statistics(): Statistics {
    const { past, queuePair } = this
    const counts = queuePair === null ? past : addCounts(past, queuePair.counts)
    return { ...counts, ...this.way.counts, ...this.totals }
  }

  private pump(): void {
    if (this.pumping) return
    this.pumping = true
    try {
      this.postWaiting()
    } finally {
      this.pumping = false
    }
  }

  private postWaiting(): void {
    const { queuePair } = this
    while (queuePair !== null && queuePair === this.queuePair && this.waiting.length > 0) {
      const next = this.waiting[0]!
      if (!isSettled(next) && !isGone(next) && !this.mayGo(queuePair, next)) return
      this.waiting.shift()
      if (isSettled(next)) continue
      if (isGone(next)) {
        refuseGone(next)
        // Of a batch what goes elsewhere may go on.
        if (isBatch(next) && !next.settled) this.waiting.unshift(next)
        continue
      }
      try {
        this.postNext(queuePair, next)
      } catch (thrown) {
        // It ends by itself, and what is behind it goes on.
        endRequest(next, WHY_UNMADE, unmadeError(thrown))
      }
    }
  }

  private postNext(queuePair: JobQueue, next: Waiting): void {
    if (isWrite(next)) this.postWrite(queuePair, next)
    else if (isBatch(next)) this.postBurst(queuePair, next)
    else if (isChain(next)) postChain(queuePair, next)
    else this.postRead(queuePair, next)
  }

  private mayGo(queuePair: JobQueue, next: Waiting): boolean {
    if (isChain(next)) return queuePair.room >= next.verbs.length
    if (isBatch(next)) {
      const { length } = next.open
      if (queuePair.room < Math.min(length, queuePair.batchMax)) return false
    }
    if (queuePair.room < 1) return false
    if (!isWrite(next) && !isBatch(next)) return true
    return this.persistsOut < this.inFlight && !this.mustWait(next, queuePair.batchMax)
  }

  /**
   * Was a batch called for before, is not over, and has a slot that this goes to as well? Or would
   * what is sent of this take from under it what it stands on?
   */
  private mustWait(next: PendingWrite | PendingBatch, batchMax: number): boolean {
    if (this.batches.size === 0) return false
    const writes = isBatch(next) ? next.open : [next]
    const { operationId } = writes.slice(0, Math.max(1, batchMax)).at(-1)!
    return [...this.batches].some((batch) => {
      return batch.isOutrunBy(operationId) || writes.some((write) => batch.isBefore(write))
    })
  }

  private postWrite(queuePair: JobQueue, write: PendingWrite): void {
    const job = persistJob(write, (end) => {
      if (this.queuePair === queuePair) this.persistsOut--
      this.writeEnded(write, end, queuePair)
    })
    this.unresolved.set(write.operationId, write)
    this.persistsOut++
    write.posted = true
    queuePair.post(job)
  }

  private writeEnded(write: PendingWrite, end: JobEnd, queuePair: JobQueue): void {
    const { status } = end
    write.posted = false
    if (status === 'SUCCESS') {
      this.unresolved.delete(write.operationId)
      this.writeAnswered(write, end, queuePair)
    } else if (isRefusal(status)) {
      this.unresolved.delete(write.operationId)
      writeRefused(write, end)
    } else if (end.unmade !== undefined) {
      this.unresolved.delete(write.operationId)
      write.giveUp(WHY_UNMADE, end.unmade)
    } else if (status === 'LOC_LEN_ERR') {
      // It found no room on its way, and would find none on another connection.
      this.unresolved.delete(write.operationId)
      write.giveUp(WHY_NO_ROOM, new TransportError(status, write.what))
    } else if (write.settled) {
      // Given up by its caller: what became of it is no longer asked.
      this.unresolved.delete(write.operationId)
    }
  }

  /** Durable, and in as many copies as it waits for: an answer that names fewer proves nothing. */
  private writeAnswered(write: PendingWrite, end: JobEnd, queuePair: JobQueue): void {
    if (end.copies < write.named) {
      const why = `the DPU names ${end.copies} durable copies of ${write.named} that it waits for`
      write.giveUp(why, new TransportError('GENERAL_ERR', write.what))
      return
    }
    this.noteDurable()
    write.succeed({
      region: write.region.info.name,
      slot: write.slot,
      operationId: write.operationId,
      psn: end.psn,
      // The status of a batch names the fewest that one of its records waited for.
      copies: write.member === null ? end.copies : write.wait,
      of: write.region.info.copies,
      mechanism: mechanismOf(end.mechanism),
      durable: outlivesOf(end.mechanism),
      incarnation: queuePair.granted.incarnation,
      latencyUs: this.way.now() - write.startedUs,
    })
  }

  /** The part has said that the record is durable. */
  noteDurable(): void {
    this.totals.recordsDurable++
  }

  /** Posts what a batch has not got through, as much of it as goes together. */
  private postBurst(queuePair: JobQueue, batch: PendingBatch): void {
    const writes = batch.nextBurst(queuePair.batchMax)
    if (writes.length === 0) {
      batch.giveUp('', new TransportError('LOC_QP_OP_ERR', 'a batch'))
      return
    }
    const ends: BurstEnd[] = []
    const jobs = writes.map((write) => {
      return persistJob(write, (end) => {
        ends.push({ write, end })
        if (end.status === 'SUCCESS') this.writeEnded(write, end, queuePair)
        write.posted = false
        if (ends.length === writes.length) this.burstEnded(batch, ends, queuePair)
      })
    })
    this.batches.add(batch)
    this.persistsOut++
    batch.bursts++
    this.totals.bursts++
    for (const write of writes) {
      this.unresolved.set(write.operationId, write)
      write.posted = true
    }
    queuePair.postChain(jobs)
  }

  /** Every job of a burst has ended: by one status, on this side, or with the connection. */
  private burstEnded(batch: PendingBatch, ends: readonly BurstEnd[], queuePair: JobQueue): void {
    if (this.queuePair === queuePair) this.persistsOut--
    const isAnswered = ends.every(({ end }) => !isBroken(end))
    if (isAnswered) {
      if (!ends.every(({ end }) => isUnsendable(end))) this.totals.batchWaits++
      batch.answered(ends)
    } else {
      batch.broken(ends)
    }
    for (const { write } of ends) {
      if (isAnswered || write.settled) this.unresolved.delete(write.operationId)
    }
    if (isAnswered && !batch.settled) this.burstAgain(batch)
  }

  /** A burst goes again: at once, or after a pause where nothing of it was taken. */
  private burstAgain(batch: PendingBatch): void {
    if (batch.barren === 0) {
      this.waiting.unshift(batch)
      return
    }
    this.pausing.add(batch)
    const atUs = this.way.now() + PAUSE_US * 2 ** Math.min(batch.barren, 10)
    this.way.setTimer(atUs, () => {
      if (!this.pausing.delete(batch)) return
      this.waiting.unshift(batch)
      if (this.queuePair !== null) this.pump()
    })
  }

  private batchEnded(batch: PendingBatch): void {
    this.batches.delete(batch)
    this.pausing.delete(batch)
    if (this.queuePair !== null) this.pump()
  }

  private postRead(queuePair: JobQueue, read: PendingRead): void {
    const image = new Uint8Array(read.region.info.stride)
    queuePair.post(
      readJob(read.region.info, read.slot, read.view, image, ({ status, unmade }) => {
        if (status === 'SUCCESS') read.resolve(image)
        else if (unmade !== undefined) read.reject(unmade)
        else if (isFinal(status) || this.closed !== null) {
          read.reject(this.closed ?? new TransportError(status, whatOf(read)))
        } else {
          this.waiting.unshift(read)
        }
      }),
    )
  }

  private broken(queuePair: JobQueue): void {
    if (this.queuePair !== queuePair) return
    // Whoever makes it again takes it out of use, and closes it at the DPU, too.
    if (this.options.reconnect !== false) {
      this.reconnect().catch(() => {})
      return
    }
    this.left = this.retire()
    this.drop(new TransportError('WR_FLUSH_ERR', 'the connection broke'))
  }
}

function endRequest(request: Waiting, why: string, error: PerdureError): void {
  if (isWrite(request) || isBatch(request)) request.giveUp(why, error)
  else if (isChain(request)) rejectChain(request, error)
  else request.reject(error)
}

function isWrite(request: Waiting): request is PendingWrite {
  return 'payload' in request
}

function isChain(request: Waiting): request is Chain {
  return 'verbs' in request
}

function isBatch(request: Waiting): request is PendingBatch {
  return request instanceof PendingBatch
}

function isSettled(request: Waiting): boolean {
  if (isWrite(request) || isBatch(request)) return request.settled
  return request.caller?.hasGivenUp === true
}

/** The DPU said no; or that nobody knows, which is no refusal. */
function writeRefused(write: PendingWrite, { status, refusal }: JobEnd): void {
  if (status !== 'GENERAL_ERR') {
    write.deny(status)
    return
  }
  const fault = faultOfStatus(refusal)
  const error = new RefusedError(fault, refusal, write.what)
  if (fault === IN_DOUBT) {
    write.giveUp('a fence, or its repair, failed, and the next start of the part decides', error)
  } else if (fault === FORGOTTEN) {
    write.giveUp(WHY_FORGOTTEN, error)
  } else {
    write.fail(error)
  }
}

/** Is it for a region that has ended? */
function isGone(request: Waiting): boolean {
  if (isChain(request)) return false
  if (isBatch(request)) return request.open.some(({ region }) => region.gone === true)
  return request.region.gone === true
}

function refuseGone(request: Waiting): void {
  if (isWrite(request)) endGone(request)
  else if (isBatch(request)) request.endGone()
  else if (!isChain(request)) request.reject(goneError(whatOf(request)))
}

function whatOf({ slot, region }: PendingRead): string {
  return `read record ${slot} of '${region.info.name}'`
}

/** Whether a READ that ended so would end so again. */
function isFinal(status: JobEnd['status']): boolean {
  return isRefusal(status) || status === 'REM_OP_ERR' || status === 'LOC_LEN_ERR'
}

/** Whether the record of a batch ended with the connection. */
function isBroken(end: JobEnd): boolean {
  return end.status !== 'SUCCESS' && end.status !== 'GENERAL_ERR' && !isUnsendable(end)
}
