/**
 * The connection of a client: what waits, what is on its way, and what becomes of both.
 *
 * What always holds:
 * - Requests leave in the order of the calls; at most `inFlight` records are unresolved at once.
 * - A write that was sent and is not resolved stays in `unresolved`, in order, until a PERSIST_ACK,
 *   the part itself (reconnect.ts) or giving up resolves it; it is never sent again on another
 *   connection before the part was asked.
 */

import { blankCounts, type RequesterCounts } from '../firmware/transport/requester.ts'
import { type Chain, type ChainPort, postChain, rejectChain } from './chain.ts'
import { faultOfStatus, type PerdureError, RefusedError, TransportError } from './errors.ts'
import { Inbox } from './inbox.ts'
import { persistJob, readJob } from './jobs.ts'
import type { Management } from './management.ts'
import type { ConnectOptions } from './options.ts'
import { isRefusal, type JobEnd } from './queue-pair.ts'
import { Reconnection } from './reconnect.ts'
import type { OpenRegion } from './region-handle.ts'
import { addCounts, type Statistics } from './statistics.ts'
import type { VerbsContext } from './verbs/types.ts'
import type { JobQueue, VerbsOptions, Way } from './way.ts'
import { mechanismOf, type PendingWrite } from './write.ts'

/** A READ that somebody waits for. */
export interface PendingRead {
  readonly region: OpenRegion
  readonly slot: number
  readonly view: number
  readonly resolve: (image: Uint8Array) => void
  readonly reject: (error: Error) => void
}

type Waiting = PendingWrite | PendingRead | Chain

/** How long a silent part is asked for a sign of life, µs. */
const PROBE_US = 200_000

/** The refusal that is none: whether the record is durable is not known. */
const IN_DOUBT = 'IN_DOUBT'

/** Entries of the receive queue, and bytes of a message. */
const RECEIVES = 64
const MESSAGE_BYTES_MAX = 1 << 20

export class Connection implements ChainPort {
  readonly way: Way
  readonly management: Management
  readonly options: ConnectOptions
  readonly random: () => number
  readonly clientId: bigint
  readonly regions: Map<string, OpenRegion> = new Map()
  /** What the DPU sends to us, over all connections. */
  readonly inbox: Inbox
  /** Sent and not resolved, by operation id, in order. */
  readonly unresolved: Map<bigint, PendingWrite> = new Map()
  /** Set for good by `close`; says why. */
  closed: PerdureError | null = null
  /** Called when the connection is closed: gives up what it was tied to. */
  release: () => void = () => {}
  nextOperation: bigint
  readonly totals = {
    records: 0,
    recordsDurable: 0,
    payloadBytes: 0,
    connections: 0,
    recovered: 0,
    sentAgain: 0,
  }
  private queuePair: JobQueue | null = null
  /** Made, and not yet in use. */
  private candidate: JobQueue | null = null
  private context: VerbsContext | null = null
  private waiting: Waiting[] = []
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
    this.clientId = clientId
    this.random = random
    this.nextOperation = options.firstOperation ?? 1n
    this.inFlight = options.inFlight ?? 32
    this.inbox = new Inbox(options.receives ?? RECEIVES, MESSAGE_BYTES_MAX)
  }

  /** The open queue pair, or null while there is none. */
  get current(): JobQueue | null {
    return this.queuePair
  }

  /** Puts a request behind the others; it leaves as soon as there is room. */
  enqueue(request: Waiting): void {
    this.waiting.push(request)
    if (isWrite(request)) {
      this.totals.records++
      this.totals.payloadBytes += request.length
    }
    if (this.queuePair !== null) this.pump()
    else if (this.closed !== null) this.drop(this.closed)
    else if (this.options.reconnect !== false) this.reconnect().catch(() => {})
    else this.drop(new TransportError('WR_FLUSH_ERR', 'no connection'))
  }

  /** Puts a chain of verbs behind the other requests. Once it was sent, it is not sent again. */
  enqueueChain(chain: Chain): void {
    this.enqueue(chain)
  }

  /** Reads the image of a slot. Survives reconnections. */
  read(region: OpenRegion, slot: number, view: number): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.enqueue({ region, slot, view, resolve, reject })
    })
  }

  /** The verbs of the way, in the name of this client; they end with the connection. */
  get verbs(): VerbsContext {
    this.context ??= this.way.openVerbs(this.management, this.queueOptions)
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
      pathMtu: options.pathMtu ?? 4096,
      ackTimeoutCode: options.ackTimeoutCode ?? 14,
      persistTimeoutUs: persistTimeoutMs * 1000,
    }
  }

  /** Makes a queue at both ends; `use` takes it into use. */
  async open(): Promise<JobQueue> {
    const { management, inbox } = this
    this.candidate = await this.way.openQueue(management, { ...this.queueOptions, inbox })
    this.totals.connections++
    return this.candidate
  }

  /** From now on requests leave over this queue pair. */
  use(queuePair: JobQueue): void {
    this.endReconnection()
    this.queuePair = queuePair
    this.persistsOut = 0
    queuePair.onIdle = () => this.pump()
    queuePair.onBroken = () => this.broken(queuePair)
    queuePair.onSilence = () => void this.probe(queuePair)
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
    this.past = addCounts(this.past, queuePair.counts)
    return queuePair
  }

  /** Puts what a broken connection left undone in front of everything else. */
  requeue(writes: readonly PendingWrite[]): void {
    this.waiting = [...writes, ...this.waiting]
  }

  /** Makes the connection anew and resumes what was on its way; one attempt at a time. */
  reconnect(): Promise<void> {
    if (this.closed !== null) return Promise.reject(this.closed)
    this.reconnection ??= new Reconnection(this).run()
    return this.reconnection
  }

  /** An attempt is over: who learns of its end and asks for another gets a new one. */
  endReconnection(): void {
    this.reconnection = null
    this.candidate = null
  }

  /** Every write that is not settled. */
  openWrites(): PendingWrite[] {
    const all = [...this.unresolved.values(), ...this.waiting.filter(isWrite)]
    return all.filter((write) => !write.settled)
  }

  /** Ends everything that waits or is unresolved. */
  drop(error: PerdureError): void {
    const { waiting } = this
    this.waiting = []
    const why = 'the connection ended before the answer'
    for (const write of [...this.unresolved.values()]) write.giveUp(why, error)
    this.unresolved.clear()
    for (const request of waiting) {
      if (isWrite(request)) request.giveUp(why, error)
      else if (isChain(request)) rejectChain(request, error)
      else request.reject(error)
    }
  }

  /** Ends the connection for good. */
  close(error: PerdureError): void {
    if (this.closed !== null) return
    this.closed = error
    this.release()
    this.retire()
    this.candidate?.close()
    void this.closeVerbs()
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
    this.postWaiting()
    this.pumping = false
  }

  private postWaiting(): void {
    const { queuePair } = this
    while (queuePair !== null && queuePair === this.queuePair && this.waiting.length > 0) {
      const next = this.waiting[0]!
      if (!isSettled(next)) {
        if (queuePair.room < (isChain(next) ? next.verbs.length : 1)) return
        if (isWrite(next) && this.persistsOut >= this.inFlight) return
      }
      this.waiting.shift()
      if (isSettled(next)) continue
      if (isWrite(next)) this.postWrite(queuePair, next)
      else if (isChain(next)) postChain(queuePair, next)
      else this.postRead(queuePair, next)
    }
  }

  private postWrite(queuePair: JobQueue, write: PendingWrite): void {
    this.unresolved.set(write.operationId, write)
    this.persistsOut++
    write.posted = true
    queuePair.post(
      persistJob(write, (end) => {
        if (this.queuePair === queuePair) this.persistsOut--
        this.writeEnded(write, end, queuePair)
      }),
    )
  }

  private writeEnded(write: PendingWrite, end: JobEnd, queuePair: JobQueue): void {
    const { status } = end
    write.posted = false
    if (status === 'SUCCESS') {
      this.unresolved.delete(write.operationId)
      this.totals.recordsDurable++
      write.succeed({
        region: write.region.info.name,
        slot: write.slot,
        operationId: write.operationId,
        psn: end.psn,
        copies: end.copies,
        of: write.region.info.copies,
        mechanism: mechanismOf(end.mechanism),
        incarnation: queuePair.granted.incarnation,
        latencyUs: this.way.now() - write.startedUs,
      })
    } else if (isRefusal(status)) {
      this.unresolved.delete(write.operationId)
      const refused = status === 'GENERAL_ERR'
      const fault = faultOfStatus(end.refusal)
      const refusal = new RefusedError(fault, end.refusal, write.what)
      if (refused && fault === IN_DOUBT) {
        write.giveUp('a fence failed under it, and the next start of the part decides', refusal)
        return
      }
      write.fail(refused ? refusal : new TransportError(status, write.what))
    } else if (write.settled) {
      // Given up by its caller: what became of it is no longer asked.
      this.unresolved.delete(write.operationId)
    }
  }

  private postRead(queuePair: JobQueue, read: PendingRead): void {
    const image = new Uint8Array(read.region.info.stride)
    queuePair.post(
      readJob(read.region.info, read.slot, read.view, image, ({ status }) => {
        if (status === 'SUCCESS') read.resolve(image)
        else if (isRefusal(status) || status === 'REM_OP_ERR' || this.closed !== null) {
          const what = `read record ${read.slot} of '${read.region.info.name}'`
          read.reject(this.closed ?? new TransportError(status, what))
        } else {
          this.waiting.unshift(read)
        }
      }),
    )
  }

  private broken(queuePair: JobQueue): void {
    if (this.queuePair !== queuePair) return
    this.retire()
    if (this.options.reconnect !== false) this.reconnect().catch(() => {})
    else this.drop(new TransportError('WR_FLUSH_ERR', 'the connection broke'))
  }
}

function isWrite(request: Waiting): request is PendingWrite {
  return 'payload' in request
}

function isChain(request: Waiting): request is Chain {
  return 'verbs' in request
}

function isSettled(request: Waiting): boolean {
  return isWrite(request) && request.settled
}
