/**
 * One queue pair of the driver: the firmware's requester with frames around it, and a receiver.
 *
 * Invariants:
 * - Every job ends exactly once, by `done`; `onIdle` is called after whatever may have made room,
 *   and `onBroken` once, after the last job of a broken queue has ended.
 * - Whatever throws while a packet is made ends that job, and those behind it of its chain; the
 *   others go on. Only where the peer has begun with it, or with its burst, the queue breaks.
 */

import { Tags } from '../../boards/software/tags.ts'
import { BATCH_RECORDS_MAX } from '../../firmware/board/limits.ts'
import { takeResponse } from '../../firmware/transport/completer.ts'
import {
  ASSOCIATE,
  BLOCK_SIZE,
  createRequester,
  flushRequester,
  isOrdered,
  joinBatch,
  PERSIST_QUERY,
  post,
  READ,
  type Request,
  type Requester,
  type RequesterCounts,
  requestAt,
  room,
  WRITE_PERSIST,
  withdraw,
} from '../../firmware/transport/requester.ts'
import { nextTimerUs, pump, tick } from '../../firmware/transport/sender.ts'
import { has, REQUEST } from '../../firmware/wire/opcode.ts'
import type { Packet } from '../../firmware/wire/packet.ts'
import { TAG_KEY_BYTES } from '../../firmware/wire/tag.ts'
import { copyOf } from '../base/bytes.ts'
import { type PerdureError, unmadeError } from '../base/errors.ts'
import { high, low } from '../base/wide.ts'
import type { Granted, Management } from '../control/management.ts'
import type { Notices, Receives } from '../way/inbox.ts'
import { FLUSHED, type HeapRequest, isNak, type Job, readBytesJob } from '../way/jobs.ts'
import type { JobQueue, Large } from '../way/way.ts'
import { Receiver } from './receiver.ts'
import { type Flow, persistHeader, requestFrame } from './request-frames.ts'
import type { Session } from './session.ts'

export interface DriverPairOptions {
  readonly ackTimeoutCode?: number
  readonly persistTimeoutUs?: number
  /** Ordered requests that the peer takes at once. */
  readonly readDepth?: number
  readonly retryCount?: number
  /** The peer is Linux: its FLUSH has an ICRC of its own, and is not repeated (6.5). */
  readonly linuxPeer?: boolean
  /** Takes what the peer sends; `firstPsn` is the PSN that its first request has. */
  readonly receive?: {
    readonly inbox: Receives
    readonly firstPsn: number
    /** Hears of the state of its memory; without it the peer is told nobody does. */
    readonly notices?: Notices
  }
  /** Closes the connection at the DPU that granted it. */
  readonly management?: Management
}

/** A job in the queue. */
interface Posted {
  readonly job: Job
  /** Tag of the last job of its chain: those between them are in the queue, too. */
  readonly chainEnd: number
  /** A packet of it was sent here. */
  begun: boolean
}

/** Jobs that may be unresolved at once: a batch, and what goes along with it. */
export const JOBS_DEPTH: number = BATCH_RECORDS_MAX + 128

export class DriverPair implements JobQueue {
  readonly batchMax: number = BATCH_RECORDS_MAX
  readonly number: number
  readonly granted: Granted
  readonly hearsStatus: boolean
  onIdle: () => void = () => {}
  onBroken: () => void = () => {}
  /** No answer came in time, and something was sent again. */
  onSilence: () => void = () => {}
  private readonly session: Session
  private readonly requester: Requester
  private readonly receiver: Receiver | null
  private readonly management: Management | null
  private readonly flow: Flow
  private readonly jobs: Map<number, Posted> = new Map()
  private nextTag = 0
  private timerUs: number = Infinity
  private cancelTimer: () => void = () => {}
  private closed = false
  private refused = false
  readonly large: Large = { sent: null, received: null }

  constructor(session: Session, number: number, granted: Granted, options: DriverPairOptions) {
    this.session = session
    this.number = number
    this.granted = granted
    const { firstPsn, pathMtu, incarnation, queuePair: destQp } = granted
    const { own, peer } = session
    const { receive, linuxPeer = false, management = null } = options
    this.management = management
    const tags = tagsOf(granted)
    this.flow = { own, peer, number, destQp, pathMtu, linuxPeer, tags }
    this.receiver = receive
      ? new Receiver(session, this.flow, receive.firstPsn, receive.inbox, receive.notices)
      : null
    this.hearsStatus = receive?.notices !== undefined
    this.requester = createRequester(
      {
        ...{ ...options, firstPsn, pathMtu, incarnation, depth: JOBS_DEPTH },
        sendDepth: granted.agreed?.send ?? 0,
      },
      {
        emit: (request, index, psn, ackRequest) => this.emit(request, index, psn, ackRequest),
        received: (request) => this.jobs.get(request.tag)!.job.received(),
        data: (request, offset, bytes, at, length) => {
          this.jobs.get(request.tag)!.job.request.data!.set(bytes.subarray(at, at + length), offset)
        },
        complete: (request) => this.complete(request),
      },
    )
    session.queuePairs.set(number, {
      tags,
      take: (bytes, packet) => this.take(bytes, packet),
    })
  }

  get counts(): RequesterCounts {
    return this.requester.counts
  }

  /** How often time ran out, for an acknowledgement or a receipt. */
  private get repeats(): number {
    return this.counts.timeouts + this.counts.persistRepeats
  }

  get broken(): boolean {
    return this.requester.failed
  }

  get hasRoom(): boolean {
    return this.room > 0
  }

  /** Jobs that may be posted now. */
  get room(): number {
    return room(this.requester)
  }

  /** Puts a job at the end of the queue; without room, or once broken, it ends as flushed. */
  post(job: Job): void {
    this.postChain([job])
  }

  /** Puts jobs at the end of the queue, one right behind the other: all of them, or none. */
  postChain(jobs: readonly Job[]): void {
    if (this.room < jobs.length) {
      for (const job of jobs) job.done(FLUSHED)
      return
    }
    this.run(() => {
      const chainEnd = this.nextTag + jobs.length - 1
      for (const job of jobs) this.append(job, chainEnd)
    })
  }

  private append(job: Job, chainEnd: number): void {
    const tag = this.nextTag++
    this.jobs.set(tag, { job, chainEnd, begun: false })
    const { kind, data, operation = 0n, batch, batchId, fenced } = job.request
    const length = isOrdered(kind) && kind !== READ ? 0 : (data?.length ?? 0)
    // Of an atomic it is a number, and names nothing.
    const name = kind === WRITE_PERSIST || kind === PERSIST_QUERY ? operation : 0n
    const request = post(this.requester, kind, tag, length, high(name), low(name))!
    request.fenced = fenced === true
    if (batch !== undefined) joinBatch(request, persistHeader(job.request))
    if (batchId !== undefined) request.batchId = batchId
  }

  /** Ends every job as flushed, and takes nothing more. `onBroken` is not called. */
  close(): void {
    if (this.closed) return
    this.closed = true
    this.cancelTimer()
    this.session.queuePairs.delete(this.number)
    this.receiver?.close()
    flushRequester(this.requester)
  }

  async disconnect(timeoutUs: number): Promise<void> {
    await this.management?.disconnect(this.granted.queuePair, this.number, timeoutUs)
  }

  /** Responses and congestion notifications are the requester's, requests the receiver's. */
  private take(bytes: Uint8Array, packet: Packet): void {
    const { row } = packet
    if (row === null || has(row.properties, REQUEST)) {
      if (this.receiver === null) this.session.counts.framesDropped++
      else this.receiver.take(bytes, packet)
      return
    }
    this.run((nowUs) => takeResponse(this.requester, bytes, packet, nowUs))
  }

  private run(work: (nowUs: number) => void): void {
    if (this.closed) return
    this.session.exclusively(() => {
      const nowUs = this.session.now()
      work(nowUs)
      pump(this.requester, nowUs)
    })
    if (this.closed) return
    if (this.requester.failed) {
      this.close()
      this.onBroken()
      return
    }
    this.onIdle()
    this.schedule()
  }

  /**
   * Sees to it that `tick` is called in time. A timer that is early is left alone: the next moment
   * moves with every answer, and most timers would be cancelled unused.
   */
  private schedule(): void {
    const atUs = nextTimerUs(this.requester)
    if (this.closed || atUs >= this.timerUs) return
    this.cancelTimer()
    this.timerUs = atUs
    this.cancelTimer = this.session.setTimer(atUs, () => {
      this.timerUs = Infinity
      const repeatsBefore = this.repeats
      this.run((nowUs) => tick(this.requester, nowUs))
      if (this.repeats > repeatsBefore && !this.closed) this.onSilence()
    })
  }

  private complete(request: Request): void {
    const { job } = this.jobs.get(request.tag)!
    this.jobs.delete(request.tag)
    this.noteLarge(job.request, request.status)
    job.done({
      status: request.status,
      refusal: request.refusal,
      copies: request.copies,
      mechanism: request.mechanism,
      psn: request.lastPsn,
      resultHigh: request.resultHigh,
      resultLow: request.resultLow,
      cumulative: request.cumulative,
      ...(asksSize(request.kind) && { size: { ...request.size } }),
      ...(job.request.batchId !== undefined && { bitmap: new Uint32Array(this.requester.bitmap) }),
      behindRefusal: this.refused,
    })
    // Completions come in order, and a peer that refused is silent from then on (3.4). One that had
    // trouble of its own may have executed what came behind it before it found out.
    if (isNak(request.status)) this.refused = true
  }

  private noteLarge({ kind, data }: HeapRequest, status: Request['status']): void {
    const { large, granted } = this
    const way = kind === READ ? 'received' : 'sent'
    const bytes = data?.length ?? 0
    if (2 * bytes <= granted.pathMtu || large[way] === 'passed') return
    if (status === 'SUCCESS') large[way] = 'passed'
    else if (status === 'RETRY_EXC_ERR') large[way] = 'lost'
  }

  private emit(request: Request, index: number, psn: number, ackRequest: boolean): void {
    // An escape READ outlives the FLUSH that it has the tag of.
    const posted = this.jobs.get(request.tag)
    const job = posted?.job ?? ESCAPE
    let frame: Uint8Array
    try {
      frame = requestFrame(this.flow, job.request, request, index, psn, ackRequest)
    } catch (thrown) {
      this.takeBack(posted!, request, unmadeError(thrown))
      return
    }
    if (posted !== undefined) posted.begun = true
    job.sent = true
    this.session.send(frame)
  }

  /** No packet can be made of it: it ends, and what stood on it. */
  private takeBack({ begun, chainEnd }: Posted, request: Request, unmade: PerdureError): void {
    const { requester } = this
    const { tag } = request
    const before = this.jobs.get(tag - 1)
    const isInBurst = before?.chainEnd === chainEnd && before.job.request.batch !== undefined
    if (begun || isInBurst) {
      request.done = true
      this.endUnmade(tag, unmade)
      flushRequester(requester)
      return
    }
    const { cursor, tail } = requester
    const at = requestAt(requester, cursor) === request ? cursor : cursor - 1
    let end = at
    while (end < tail && requestAt(requester, end).tag <= chainEnd) end++
    withdraw(requester, at, end - at)
    for (let next = tag; next <= chainEnd; next++) this.endUnmade(next, unmade)
  }

  private endUnmade(tag: number, unmade: PerdureError): void {
    const { job } = this.jobs.get(tag)!
    this.jobs.delete(tag)
    job.done({ ...FLUSHED, status: 'LOC_QP_OP_ERR', unmade })
  }
}

/** The tags of the connection, where the DPU granted some. */
function tagsOf({ tagKeys }: Granted): Tags | null {
  if (tagKeys === undefined || tagKeys === null) return null
  const ours = copyOf(tagKeys.subarray(0, TAG_KEY_BYTES))
  return new Tags(copyOf(tagKeys.subarray(TAG_KEY_BYTES)), ours)
}

function asksSize(kind: Request['kind']): boolean {
  return kind === ASSOCIATE || kind === BLOCK_SIZE
}

const ESCAPE: Job = readBytesJob({ rkey: 0, va: 0n }, new Uint8Array(0), () => {})
