/**
 * A queue pair of the verbs over a wire: the driver's own requester and receiver under it.
 *
 * Invariants:
 * - Requests are started in their order, as the requester has room for them, and complete in that
 *   order, whatever the order of the answers.
 * - A place in either queue is taken by `post…` and free again when its request has completed.
 * - Once it is in error, everything that is outstanding is flushed, sends first, each once.
 */

import { ArgumentError } from '../../base/errors.ts'
import { checkBursts } from '../../verbs/batch-work.ts'
import {
  asList,
  type CheckSge,
  checkModify,
  checkRecv,
  checkSend,
  has,
  INLINE_MAX,
  keptRequest,
  plainCompletion,
  SEND_DEPTH,
  totalOf,
} from '../../verbs/work.ts'
import type { Message, Receives } from '../../way/inbox.ts'
import { FLUSHED, type JobEnd } from '../../way/jobs.ts'
import { QueueEnded, QueueFull } from '../../way/queue-errors.ts'
import type {
  AsyncEvent,
  CompletionQueue,
  CreateQp,
  ModifyQp,
  PeerAttributes,
  ProtectionDomain,
  QueuePair,
  QueuePairState,
  RecvRequest,
  SendRequest,
  WorkCompletion,
} from '../../way/verbs.ts'
import { SIGNALED } from '../../way/verbs.ts'
import { type QueuePairOptions, QueuePair as WireJobs } from '../queue-pair.ts'
import type { Session } from '../session.ts'
import type { WireCompletionQueue } from './completions.ts'
import type { WireMemory } from './memory.ts'
import { bytesOf, completionOf, jobOf, scatter } from './work.ts'

/** The context of a queue pair, as the queue pair uses it. */
export interface WireContext {
  readonly session: Session
  readonly jobOptions: QueuePairOptions
  /** The completion queue, if it is one of this context; else throws PERDURE_ARGUMENT. */
  ownCq(cq: CompletionQueue): WireCompletionQueue
  tell(event: AsyncEvent): void
  forget(qp: WireQueuePair): void
  disconnect(jobs: WireJobs): Promise<void>
}

/** A protection domain whose memory this process has. */
export interface WireDomain extends ProtectionDomain {
  readonly memory: WireMemory
  /** Throws PERDURE_ARGUMENT unless a region of this domain covers the piece. */
  readonly checkSge: CheckSge
}

/** A request that has not completed yet. */
interface Outstanding {
  readonly request: SendRequest
  /** What it sends, or has filled. */
  readonly bytes: Uint8Array
  end: JobEnd | null
}

export class WireQueuePair implements QueuePair, Receives {
  readonly qpNum: number
  readonly pd: WireDomain
  readonly inlineMax: number
  /** PSN of the peer's first request. */
  readonly rqPsn: number
  state: QueuePairState = 'INIT'
  private readonly verbs: WireContext
  private readonly sendCq: WireCompletionQueue
  private readonly recvCq: WireCompletionQueue
  private readonly sendDepth: number
  private readonly recvDepth: number
  private jobs: WireJobs | null = null
  /** In order; the first `started` of them are with `jobs`. */
  private readonly sends: Outstanding[] = []
  private started = 0
  private pumping = false
  private readonly receives: RecvRequest[] = []
  /** A message is coming in for the first of them. */
  private claimed = false

  constructor(
    verbs: WireContext,
    pd: WireDomain,
    numbers: { readonly qpNum: number; readonly rqPsn: number },
    options: CreateQp,
  ) {
    this.verbs = verbs
    this.pd = pd
    this.qpNum = numbers.qpNum
    this.rqPsn = numbers.rqPsn
    this.sendCq = verbs.ownCq(options.sendCq)
    this.recvCq = verbs.ownCq(options.recvCq)
    this.sendDepth = options.sendDepth ?? SEND_DEPTH
    this.recvDepth = options.recvDepth ?? SEND_DEPTH
    this.inlineMax = options.inlineMax ?? INLINE_MAX
    this.sendCq.users++
    this.recvCq.users++
  }

  async modify(change: ModifyQp): Promise<void> {
    checkModify(change)
    if (change.state === 'ERR') {
      this.fail(null, false)
      return
    }
    const { peer } = change
    if (this.state !== 'INIT' || peer === null) {
      const why = peer === null ? 'over a wire there is a peer' : `it is in ${this.state}`
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: ${why}`)
    }
    this.connect(peer)
  }

  private connect(peer: PeerAttributes): void {
    const { session, jobOptions } = this.verbs
    const granted = {
      queuePair: peer.destQpNum,
      firstPsn: peer.sqPsn,
      incarnation: peer.incarnation,
      pathMtu: peer.pathMtu,
    }
    const receive = { inbox: this, firstPsn: peer.rqPsn }
    const jobs = new WireJobs(session, this.qpNum, granted, { ...jobOptions, receive })
    jobs.onIdle = () => this.pump()
    jobs.onBroken = () => this.fail(null, true)
    this.jobs = jobs
    this.state = 'RTS'
  }

  postSend(requests: SendRequest | readonly SendRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    if (this.state !== 'RTS') throw new ArgumentError(`queue pair ${this.qpNum} is in INIT`)
    for (const request of list) checkSend(request, this.inlineMax, this.pd.checkSge)
    checkBursts(list)
    const free = this.sendDepth - this.sends.length
    if (list.length > free) throw new QueueFull(this.qpNum, list.length, free)
    for (const request of list) {
      this.sends.push({ request, bytes: bytesOf(this.pd.memory, request), end: null })
    }
    this.pump()
  }

  postRecv(requests: RecvRequest | readonly RecvRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    for (const request of list) checkRecv(request, this.pd.checkSge)
    const free = this.recvDepth - this.receives.length
    if (list.length > free) throw new QueueFull(this.qpNum, list.length, free)
    this.receives.push(...list)
  }

  async destroy(): Promise<void> {
    this.fail(null, false)
    this.sendCq.users--
    this.recvCq.users--
    this.verbs.forget(this)
    if (this.jobs !== null) await this.verbs.disconnect(this.jobs)
  }

  private checkAlive(): void {
    if (this.state === 'ERR') throw new QueueEnded(this.qpNum, '')
  }

  /** Gives the requester as much as it has room for. */
  private pump(): void {
    if (this.pumping) return
    this.pumping = true
    try {
      while (this.jobs !== null && this.started < this.sends.length && this.jobs.room > 0) {
        const one = this.sends[this.started++]!
        this.jobs.post(
          jobOf(one.request, one.bytes, (end) => {
            one.end = end
            this.complete()
          }),
        )
      }
    } finally {
      this.pumping = false
    }
  }

  /** Says of every request at the front that has ended how it did. */
  private complete(): void {
    for (let one = this.sends[0]; one !== undefined && one.end !== null; one = this.sends[0]) {
      this.sends.shift()
      this.started--
      const { request, bytes, end } = one
      const ended = end!
      const succeeded = ended.status === 'SUCCESS'
      if (succeeded && request.opcode === 'RDMA_READ') {
        scatter(this.pd.memory, request.sgList ?? [], bytes)
      }
      if (succeeded && !has(request.flags, SIGNALED)) continue
      this.say(this.sendCq, completionOf(request, this.qpNum, ended))
    }
  }

  /** A completion that is lost ends the queue pair: it had something to say and could not. */
  private say(cq: WireCompletionQueue, completion: WorkCompletion): void {
    if (cq.push(completion) || this.state === 'ERR') return
    queueMicrotask(() => this.fail('COMPLETION_OVERRUN', true))
  }

  /** Ends it: what is outstanding is flushed. `unasked` tells the owner. */
  private fail(fault: string | null, unasked: boolean): void {
    if (this.state === 'ERR') return
    this.state = 'ERR'
    this.jobs?.close()
    this.complete()
    for (const { request } of this.sends.splice(0)) {
      this.say(this.sendCq, completionOf(request, this.qpNum, FLUSHED))
    }
    this.started = 0
    for (const { wrId } of this.receives.splice(0)) {
      this.say(this.recvCq, plainCompletion(wrId, this.qpNum, 'RECV', 'WR_FLUSH_ERR'))
    }
    if (unasked) this.verbs.tell({ type: 'QP_FATAL', qp: this, fault })
  }

  // ---- what the receiver asks (inbox.ts) -------------------------------------------------------

  /** Without a receive the peer is told to wait, whatever it sends. */
  get messageBytesMax(): number {
    const next = this.receives[0]
    return next === undefined ? Infinity : totalOf(next.sgList)
  }

  claim(): boolean {
    if (this.claimed || this.receives.length === 0) return false
    this.claimed = true
    return true
  }

  release(): void {
    this.claimed = false
  }

  deliver({ bytes, immediate, invalidate }: Message): void {
    const { wrId, sgList = [] } = this.receives.shift()!
    this.claimed = false
    scatter(this.pd.memory, sgList, bytes)
    this.say(this.recvCq, {
      ...plainCompletion(wrId, this.qpNum, 'RECV', 'SUCCESS'),
      byteLen: bytes.length,
      immData: immediate,
      invalidatedRkey: invalidate,
    })
  }

  refused(tooLong: boolean): void {
    const next = tooLong ? this.receives.shift() : undefined
    this.claimed = false
    if (next !== undefined) {
      this.say(this.recvCq, plainCompletion(next.wrId, this.qpNum, 'RECV', 'LOC_LEN_ERR'))
    }
    queueMicrotask(() => this.fail(tooLong ? 'RECEIVE_LENGTH' : 'OPCODE', true))
  }
}
