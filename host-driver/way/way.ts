/**
 * A way to a DPU: frames over a wire (wire-way.ts), or the queues of the local card behind PCIe
 * (card/way.ts). Everything above stands on these two interfaces and knows neither frame nor
 * doorbell.
 *
 * Invariants:
 * - A datagram may get lost or come twice; whoever sends one repeats it until it is answered.
 * - Every job ends exactly once, by `done`; `onIdle` is called after whatever may have made room,
 *   and `onBroken` once, after the last job of a broken queue has ended. Any of them may be called
 *   from inside `post`.
 */

import type { RequesterCounts } from '../../firmware/transport/requester.ts'
import type { DatagramWay } from '../control/calls.ts'
import type { Granted, Management } from '../control/management.ts'
import type { WatchBatches } from './batch-notices.ts'
import type { Inbox, Notices } from './inbox.ts'
import type { Job } from './jobs.ts'
import type { VerbsWay } from './verbs-way.ts'

/** What went over the wire, in frames and bytes of Ethernet; nothing where a card does that. */
export interface WireCounts {
  framesSent: number
  framesReceived: number
  bytesSent: number
  bytesReceived: number
  /** Received, and not taken: damaged, foreign or of another connection. */
  framesDropped: number
}

export function blankWireCounts(): WireCounts {
  return { framesSent: 0, framesReceived: 0, bytesSent: 0, bytesReceived: 0, framesDropped: 0 }
}

/** Whose queues they are, and how they shall be. */
export interface VerbsOptions {
  /** Who writes, 64 bits. */
  readonly clientId: bigint
  readonly protectionDomain: number
  /** Payload bytes of a packet that are asked for. */
  readonly pathMtu: number
  readonly ackTimeoutCode: number
  readonly persistTimeoutUs: number
  /** Gives 32 bits. */
  readonly random: () => number
}

export interface QueueOptions extends VerbsOptions {
  /** Takes what the peer sends. */
  readonly inbox: Inbox
  /** Hears of the state of the peer's memory, where the way can tell it. */
  readonly notices?: Notices
}

/** Of large packets that were sent, and of those that were asked for. */
export type Large = Record<'sent' | 'received', 'passed' | 'lost' | null>

/** Requests to one DPU, in their order, over one connection. */
export interface JobQueue {
  /** What the DPU granted: its incarnation says for how long the queue is good. */
  readonly granted: Granted
  /** Its number at this end, to which the DPU sends; absent where there is no such way. */
  readonly number?: number | null
  readonly counts: RequesterCounts
  onIdle: () => void
  onBroken: () => void
  /** No answer came in time, and something was sent again. */
  onSilence: () => void
  readonly broken: boolean
  /**
   * What became of packets of more than half the path MTU, each way: one came through, or the
   * connection broke under one and none had. Undefined where the local card makes the packets.
   */
  readonly large?: Large
  /** Whether the DPU can tell over it how its memory is (MEMORY_STATUS). */
  readonly hearsStatus?: boolean
  /** Jobs that may be posted now. */
  readonly room: number
  /** Records of a batch that go out in one burst; 0 where there are no batches. */
  readonly batchMax: number
  /** Puts a job at the end of the queue; without room, or once broken, it ends as flushed. */
  post(job: Job): void
  /** Puts jobs at the end of the queue, one right behind the other: all of them, or none. */
  postChain(jobs: readonly Job[]): void
  /** Ends every job as flushed, and takes nothing more. `onBroken` is not called. */
  close(): void
  /**
   * Closes it at the DPU, too: when this resolves, nothing of it takes effect any more. Rejects
   * with RefusedError where the DPU knows it no more, and with PERDURE_UNREACHABLE.
   */
  disconnect(timeoutUs: number): Promise<void>
}

export interface Way extends DatagramWay {
  readonly counts: WireCounts
  /**
   * Bytes of a record that it takes in a batch (`JobQueue.batchMax`), at the most: known of the
   * way, so that it is known also while there is no queue.
   */
  readonly batchBytesMax: number
  /** Makes a queue at both ends. `management` speaks to the DPU over this way. */
  openQueue(management: Management, options: QueueOptions): Promise<JobQueue>
  /** What the verbs need of it. */
  openVerbs(options: VerbsOptions): VerbsWay
  /** Where the DPU is the card of this host: it tells of the batches of others. */
  readonly watchBatches?: WatchBatches
  /** As of Wire. */
  seek?(): void
  close(): void
}
