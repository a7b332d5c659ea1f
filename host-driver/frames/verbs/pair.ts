/**
 * A queue pair of the verbs over a wire: the driver's own requester and receiver under it.
 *
 * Invariants:
 * - Requests are started in their order, as the requester has room for them, and complete in that
 *   order, whatever the order of the answers.
 * - A place in either queue is taken by `post…` and free again when its request has completed.
 * - Once it has ended, everything that is outstanding is flushed, sends first, each once.
 */

import { READ } from '../../../firmware/transport/requester.ts'
import type { Depths } from '../../../firmware/wire/capability.ts'
import { ArgumentError } from '../../base/errors.ts'
import { completionOf, grantedOf, receivedOf } from '../../verbs/requests.ts'
import type { Message, Receives } from '../../way/inbox.ts'
import { FLUSHED, type JobEnd } from '../../way/jobs.ts'
import { QueueFull } from '../../way/queue-errors.ts'
import type { PeerAttributes, WorkCompletion } from '../../way/verbs.ts'
import type {
  CompletionPort,
  PairOptions,
  PairPort,
  Posted,
  PostedReceive,
} from '../../way/verbs-way.ts'
import { type DriverPairOptions, JOBS_DEPTH, DriverPair as WireJobs } from '../driver-pair.ts'
import type { Session } from '../session.ts'
import { WireCompletions } from './completions.ts'
import type { WireMemory } from './memory.ts'

/** What the pairs of one client share. */
export interface WireGround {
  readonly session: Session
  readonly memory: WireMemory
  readonly jobOptions: DriverPairOptions
}

/** A request that has not completed yet. */
interface Outstanding {
  readonly posted: Posted
  /** What it sends, or has filled. */
  readonly data: Uint8Array
  end: JobEnd | null
}

export class WirePair implements PairPort, Receives {
  readonly canTag = true
  readonly qpNum: number
  readonly isConnected = true
  end: string | null = null
  onEnded: (fault: string) => void = () => {}
  private readonly ground: WireGround
  private readonly options: PairOptions
  private readonly sendCq: WireCompletions
  private readonly recvCq: WireCompletions
  private jobs: WireJobs | null = null
  /** In order; the first `started` of them are with `jobs`. */
  private readonly sends: Outstanding[] = []
  private started = 0
  private pumping = false
  private readonly receives: PostedReceive[] = []
  /** A message is coming in for the first of them. */
  private claimed = false

  constructor(ground: WireGround, qpNum: number, options: PairOptions) {
    this.ground = ground
    this.qpNum = qpNum
    this.options = options
    this.sendCq = ownPort(options.sendCq)
    this.recvCq = ownPort(options.recvCq)
    this.sendCq.users.add(this)
    this.recvCq.users.add(this)
  }

  check(): void {}

  get depths(): Depths {
    const { sendDepth, recvDepth } = this.options
    return { send: Math.min(sendDepth, JOBS_DEPTH), receive: recvDepth }
  }

  async ready(peer: PeerAttributes | null, agreed: Depths | null): Promise<void> {
    if (peer === null) {
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: over a wire there is a peer`)
    }
    const { session, jobOptions } = this.ground
    const receive = { inbox: this, firstPsn: peer.rqPsn }
    const granted = grantedOf(peer, agreed)
    const jobs = new WireJobs(session, this.qpNum, granted, { ...jobOptions, receive })
    jobs.onIdle = () => this.pump()
    jobs.onBroken = () => this.fail('')
    this.jobs = jobs
  }

  post(list: readonly Posted[]): void {
    this.checkRoom(list.length, this.options.sendDepth - this.sends.length)
    for (const posted of list) {
      const { data, inline = false } = posted.request
      this.sends.push({ posted, data: this.ground.memory.gather(data, inline), end: null })
    }
    this.pump()
  }

  postReceive(list: readonly PostedReceive[]): void {
    this.checkRoom(list.length, this.options.recvDepth - this.receives.length)
    this.receives.push(...list)
  }

  private checkRoom(count: number, free: number): void {
    if (count > free) throw new QueueFull(this.qpNum, count, free)
  }

  async setError(): Promise<void> {
    this.fail('')
  }

  async destroy(): Promise<void> {
    this.fail('')
    this.sendCq.users.delete(this)
    this.recvCq.users.delete(this)
  }

  /** Gives the requester as much as it has room for. */
  private pump(): void {
    if (this.pumping) return
    this.pumping = true
    try {
      while (this.jobs !== null && this.started < this.sends.length && this.jobs.room > 0) {
        this.start(this.jobs, this.sends[this.started++]!)
      }
    } finally {
      this.pumping = false
    }
  }

  private start(jobs: WireJobs, one: Outstanding): void {
    jobs.post({
      request: { ...one.posted.request, data: one.data },
      sent: false,
      received: () => {},
      done: (end) => {
        one.end = end
        this.complete()
      },
    })
  }

  /** Says of every request at the front that has ended how it did. */
  private complete(): void {
    for (let one = this.sends[0]; one !== undefined && one.end !== null; one = this.sends[0]) {
      this.sends.shift()
      this.started--
      const { posted, data, end } = one
      const { kind, signaled, data: ranges } = posted.request
      const succeeded = end.status === 'SUCCESS'
      if (succeeded && kind === READ) this.ground.memory.scatter(ranges, data)
      if (succeeded && signaled === false) continue
      this.say(this.sendCq, completionOf(posted, this.qpNum, end))
    }
  }

  /** A completion that is lost ends the queue pair: it had something to say and could not. */
  private say(cq: WireCompletions, completion: WorkCompletion): void {
    if (cq.push(completion) || this.end !== null) return
    queueMicrotask(() => this.fail('COMPLETION_OVERRUN'))
  }

  private fail(fault: string): void {
    if (this.end !== null) return
    this.end = ''
    this.jobs?.close()
    this.complete()
    for (const { posted } of this.sends.splice(0)) {
      this.say(this.sendCq, completionOf(posted, this.qpNum, FLUSHED))
    }
    this.started = 0
    for (const one of this.receives.splice(0)) {
      this.say(this.recvCq, receivedOf(one, this.qpNum, 'WR_FLUSH_ERR'))
    }
    this.onEnded(fault)
  }

  // ---- what the receiver asks (inbox.ts) -------------------------------------------------------

  /** Without a receive the peer is told to wait, whatever it sends. */
  get messageBytesMax(): number {
    const next = this.receives[0]
    return next === undefined ? Infinity : (next.range?.length ?? 0)
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
    const next = this.receives.shift()!
    this.claimed = false
    if (next.range !== null) this.ground.memory.scatter([next.range], bytes)
    const said = { byteLen: bytes.length, immData: immediate, invalidatedRkey: invalidate }
    this.say(this.recvCq, receivedOf(next, this.qpNum, 'SUCCESS', said))
  }

  refused(tooLong: boolean): void {
    const next = tooLong ? this.receives.shift() : undefined
    this.claimed = false
    if (next !== undefined) this.say(this.recvCq, receivedOf(next, this.qpNum, 'LOC_LEN_ERR'))
    queueMicrotask(() => this.fail(tooLong ? 'RECEIVE_LENGTH' : 'OPCODE'))
  }
}

function ownPort(port: CompletionPort): WireCompletions {
  if (port instanceof WireCompletions) return port
  throw new ArgumentError('a completion queue of another context')
}
