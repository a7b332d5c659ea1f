/**
 * One queue pair of the driver: the firmware's requester, with frames around it.
 *
 * What always holds: every job ends exactly once, by `done`; `onIdle` is called after whatever may
 * have made room, and `onBroken` once, after the last job of a broken queue has ended.
 */

import { takeResponse } from '../firmware/transport/completer.ts'
import {
  createRequester,
  flush,
  hasRoom,
  nextTimerUs,
  post,
  pump,
  READ,
  type Request,
  type Requester,
  type RequesterCounts,
  type RequestKind,
  tick,
  type WcStatus,
} from '../firmware/transport/requester.ts'
import { BTH_BYTES } from '../firmware/wire/bth.ts'
import {
  OPCODES,
  RC_READ_REQUEST,
  WRITE_PERSIST_FIRST,
  WRITE_PERSIST_LAST,
  WRITE_PERSIST_MIDDLE,
  WRITE_PERSIST_ONLY,
} from '../firmware/wire/opcode.ts'
import { type Pweth, writePweth } from '../firmware/wire/persist.ts'
import { writeReth } from '../firmware/wire/reth.ts'
import { beginFrame, FRAME_BTH_AT, seal } from './frames.ts'
import type { Granted } from './management.ts'
import type { Session } from './session.ts'

/** How a job ended. */
export interface JobEnd {
  readonly status: WcStatus
  /** Status of the PERSIST_ACK that refused it, else 0. */
  readonly refusal: number
  readonly copies: number
  readonly mechanism: number
  /** PSN of its last packet. */
  readonly psn: number
}

/** One request: where it goes, and what it carries or brings. */
export interface Job {
  readonly kind: RequestKind
  readonly vaHigh: number
  readonly vaLow: number
  readonly rkey: number
  /** Length that the RETH announces, bytes: of the record, or of what is read. */
  readonly length: number
  /** What a persist sends; what a READ fills. */
  readonly payload: Uint8Array
  readonly pweth: Pweth | null
  /** A packet of it has been sent. */
  sent: boolean
  received(): void
  done(end: JobEnd): void
}

export interface QueuePairOptions {
  readonly window?: number
  readonly ackTimeoutCode?: number
  readonly persistTimeoutUs?: number
}

const NO_PAYLOAD = new Uint8Array(0)

export class QueuePair {
  readonly number: number
  readonly granted: Granted
  onIdle: () => void = () => {}
  onBroken: () => void = () => {}
  /** No answer came in time, and something was sent again. */
  onSilence: () => void = () => {}
  private readonly session: Session
  private readonly requester: Requester
  private readonly jobs: Map<number, Job> = new Map()
  private nextTag = 0
  private timerUs: number = Infinity
  private cancelTimer: () => void = () => {}
  private closed = false

  constructor(session: Session, number: number, granted: Granted, options: QueuePairOptions) {
    this.session = session
    this.number = number
    this.granted = granted
    const { firstPsn, pathMtu, incarnation } = granted
    this.requester = createRequester(
      { firstPsn, pathMtu, incarnation, ...options },
      {
        emit: (request, index, psn, ackRequest) => this.emit(request, index, psn, ackRequest),
        received: (request) => this.jobs.get(request.tag)!.received(),
        data: (request, offset, bytes, at, length) => {
          this.jobs.get(request.tag)!.payload.set(bytes.subarray(at, at + length), offset)
        },
        complete: (request) => this.complete(request),
      },
    )
    session.queuePairs.set(number, (bytes, packet) => {
      this.run((nowUs) => takeResponse(this.requester, bytes, packet, nowUs))
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
    return hasRoom(this.requester)
  }

  /** Puts a job at the end of the queue; without room, or once broken, it ends as flushed. */
  post(job: Job): void {
    if (!this.hasRoom) {
      job.done({ status: 'WR_FLUSH_ERR', refusal: 0, copies: 0, mechanism: 0, psn: 0 })
      return
    }
    const tag = this.nextTag++
    const { pweth } = job
    this.jobs.set(tag, job)
    this.run(() => {
      const length = job.kind === READ ? job.length : job.payload.length
      post(
        this.requester,
        job.kind,
        tag,
        length,
        pweth?.operationHigh ?? 0,
        pweth?.operationLow ?? 0,
      )
    })
  }

  /** Ends every job as flushed, and takes nothing more. `onBroken` is not called. */
  close(): void {
    if (this.closed) return
    this.closed = true
    this.cancelTimer()
    this.session.queuePairs.delete(this.number)
    flush(this.requester)
  }

  private run(work: (nowUs: number) => void): void {
    if (this.closed) return
    this.session.exclusively(() => {
      const nowUs = this.session.wire.now()
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
    this.cancelTimer = this.session.wire.setTimer(atUs, () => {
      this.timerUs = Infinity
      const repeatsBefore = this.repeats
      this.run((nowUs) => tick(this.requester, nowUs))
      if (this.repeats > repeatsBefore && !this.closed) this.onSilence()
    })
  }

  private complete(request: Request): void {
    const job = this.jobs.get(request.tag)!
    this.jobs.delete(request.tag)
    job.done({
      status: request.status,
      refusal: request.refusal,
      copies: request.copies,
      mechanism: request.mechanism,
      psn: request.lastPsn,
    })
  }

  private emit(request: Request, index: number, psn: number, ackRequest: boolean): void {
    const job = this.jobs.get(request.tag)!
    const isRead = job.kind === READ
    const opcode = isRead ? RC_READ_REQUEST : persistOpcode(index, request.packetCount)
    const row = OPCODES[opcode]!
    const { pathMtu } = this.requester
    const offset = index * pathMtu
    const frame = beginFrame(this.session.own, this.session.peer, {
      opcode,
      destQp: this.granted.queuePair,
      psn,
      ackRequest,
      flow: this.number,
      headerBytes: row.headerBytes - BTH_BYTES,
      payload: isRead ? NO_PAYLOAD : job.payload,
      payloadAt: offset,
      payloadLength: isRead ? 0 : Math.min(pathMtu, job.payload.length - offset),
    })
    if (row.rethAt > 0) {
      // A READ that is taken up again asks for the rest only (wire-format 3.8).
      const skipped = isRead ? offset : 0
      writeReth(frame, FRAME_BTH_AT + row.rethAt, {
        vaHigh: job.vaHigh,
        vaLow: job.vaLow + skipped,
        rkey: job.rkey,
        length: job.length - skipped,
      })
    }
    if (row.pwethAt > 0) writePweth(frame, FRAME_BTH_AT + row.pwethAt, job.pweth!)
    job.sent = true
    this.session.send(seal(frame))
  }
}

function persistOpcode(index: number, packetCount: number): number {
  if (packetCount === 1) return WRITE_PERSIST_ONLY
  if (index === 0) return WRITE_PERSIST_FIRST
  return index === packetCount - 1 ? WRITE_PERSIST_LAST : WRITE_PERSIST_MIDDLE
}

/** Whether the DPU itself said no. */
export function isRefusal(status: WcStatus): boolean {
  return status === 'REM_INV_REQ_ERR' || status === 'REM_ACCESS_ERR' || status === 'GENERAL_ERR'
}
