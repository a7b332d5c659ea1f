/**
 * The verbs, with the nouns of the field. They are the same over every way to a DPU: verbs/ stands
 * on what a way has for them (verbs-way.ts), frames over a wire or the queues of the local card.
 *
 *     const { verbs } = dpu
 *     const pd = verbs.allocPd()
 *     const mr = await pd.regMr(4096)
 *     const cq = await verbs.createCq(64)
 *     const qp = await pd.createQp({ sendCq: cq, recvCq: cq })
 *     await verbs.connect(qp)
 *     qp.postSend({ wrId: 1n, opcode: 'RDMA_WRITE', flags: SIGNALED, sgList: [mr.sge()], … })
 *     cq.poll(16)
 *
 * Invariants, on both ways:
 * - A work request that is malformed throws, and of the list that it stands in nothing is posted.
 * - The requests of a queue complete in the order in which they were posted, each once: with a
 *   completion if it was signaled or did not succeed, without one otherwise. That a later one
 *   succeeded says that every earlier one did.
 * - After the first error everything behind it ends as WR_FLUSH_ERR, and the queue pair takes no
 *   more. What the peer had of a request before stays done: a flushed request may have had its
 *   effect.
 * - A completion queue that is full loses completions, never durability: it is in error from then
 *   on, as is every queue pair that had something to say to it.
 */

import type { Depths } from '../../firmware/wire/capability.ts'
import type { EndStatus } from '../base/errors.ts'
import type { Endpoint } from '../base/wire.ts'
import type { BatchCondition } from './batch-verdict.ts'
import type { Mechanism } from './write.ts'

/** What a work request does, in the words of `ibv_wr_opcode`; ours have names of their own. */
export type WorkOpcode =
  | 'WRITE_PERSIST'
  | 'RDMA_WRITE'
  | 'RDMA_WRITE_WITH_IMM'
  | 'SEND'
  | 'SEND_WITH_IMM'
  | 'SEND_WITH_INV'
  | 'RDMA_READ'
  | 'ATOMIC_FETCH_AND_ADD'
  | 'ATOMIC_CMP_AND_SWP'
  | 'FLUSH'
  | 'ATOMIC_WRITE'
  | 'PERSIST_QUERY'

/** How a work request ended, in the words of `ibv_wc_status`; of GENERAL_ERR `fault` says why. */
export type WorkStatus = EndStatus

/** Flags of a work request. */
export const SIGNALED = 1
export const SOLICITED = 2
export const FENCE = 4
/** The bytes are taken at the call: the memory may be used again at once. */
export const INLINE = 8

/** A piece of a memory region. */
export interface Sge {
  readonly addr: number
  readonly length: number
  readonly lkey: number
}

/**
 * What makes a WRITE_PERSIST a record of a batch (D-10), and a SEND a message of one, which the
 * peer's host receives under the same condition (S1-M9). The members of a batch are posted in one
 * list, one behind the other, under operations that follow each other; they complete when the one
 * status of the batch has come, each by itself. One that was refused ends as GENERAL_ERR: with the
 * reason in `fault` if it is the first of them, else with BATCH_ABORTED. It is posted again in
 * another list, under the same id, index, count and operation.
 */
export interface BatchOf {
  /** Names the batch on this queue pair, 0 to 65535; free again when the batch is over. */
  readonly id: number
  /** Place in the batch, from 0, and records that it has in all, up to 256. */
  readonly index: number
  readonly count: number
  readonly condition: BatchCondition
  /** It is the last of what is posted of the batch. */
  readonly last: boolean
  /** With 'expect': the sequence that the slot must hold, unsigned 64 bits. */
  readonly expect?: bigint
}

/** What is to be sent. Which fields count depends on the opcode. */
export interface SendRequest {
  /** Comes back in the completion; unsigned 64 bits. */
  readonly wrId: bigint
  readonly opcode: WorkOpcode
  /** SIGNALED, SOLICITED, FENCE, INLINE. */
  readonly flags?: number
  /** What is sent, or what a READ fills; an ATOMIC_WRITE has eight bytes. */
  readonly sgList?: readonly Sge[]
  /** Where in the peer's region. */
  readonly rkey?: number
  readonly remoteAddr?: bigint
  /** Of …_WITH_IMM: 32 bits for the receiver. */
  readonly immData?: number
  /** Of SEND_WITH_INV: the key that the receiver shall invalidate. */
  readonly invalidateRkey?: number
  /** What FETCH_AND_ADD adds; what CMP_AND_SWP compares with, and stores. Unsigned 64 bits. */
  readonly compareAdd?: bigint
  readonly swap?: bigint
  /** Of FLUSH: so many bytes, or the whole region; persistent unless it says otherwise. */
  readonly length?: number
  readonly wholeRegion?: boolean
  readonly persistent?: boolean
  readonly global?: boolean
  /** Of WRITE_PERSIST, PERSIST_QUERY and a SEND with `batch`: the operation, 64 bits, from 1. */
  readonly operationId?: bigint
  /** Of WRITE_PERSIST: durable copies that are waited for; 2 unless given. */
  readonly wait?: number
  /** Of WRITE_PERSIST: the guard of its data (`guardOf`); none unless given, or 0. */
  readonly guard?: number
  /** Of WRITE_PERSIST: it is a record of a batch; of SEND: a message of one. */
  readonly batch?: BatchOf
  /**
   * Of PERSIST_QUERY, instead of an operation: the id of the last batch of the queue pair. Over the
   * queues of a card there is no such query.
   */
  readonly batchId?: number
}

export interface RecvRequest {
  readonly wrId: bigint
  /** Where the message goes, one piece; none takes messages without bytes only. */
  readonly sgList?: readonly Sge[]
}

/** One completion. */
export interface WorkCompletion {
  readonly wrId: bigint
  readonly status: WorkStatus
  /** As in `ibv_wc_opcode`: 'RDMA_WRITE', 'PERSIST', 'RECV' and so on. */
  readonly opcode: string
  /** Number of the queue pair at this end, as `QueuePair.qpNum`. */
  readonly qpNum: number
  /** Bytes that were received or read, or sent. */
  readonly byteLen: number
  /** Of a received message: its immediate data, or the key to be invalidated; else null. */
  readonly immData: number | null
  readonly invalidatedRkey: number | null
  /** What stood there before an atomic; else null. */
  readonly original: bigint | null
  /** Of a record: durable copies, and what made them durable. */
  readonly copies: number
  readonly mechanism: Mechanism
  /** Of a query: whether the operation is durable, and every one up to which is, or null. */
  readonly durable: boolean
  readonly upTo: bigint | null
  /**
   * Of a query about a batch: the indexes that are durable, or null where the DPU does not know it.
   * `fault` is then the reason of the first record that was refused.
   */
  readonly durableIndexes: readonly number[] | null
  /**
   * Of a received message of a batch: its operation; else null. Such a message may come twice,
   * after the power of this card went: under the same operation.
   */
  readonly operationId: bigint | null
  /** Name of the fault where the status alone says too little, or null. */
  readonly fault: string | null
}

/** Memory that work requests may name. */
export interface MemoryRegion {
  readonly lkey: number
  readonly addr: number
  readonly length: number
  /** Copies bytes into it. Throws PERDURE_ARGUMENT outside of it. */
  fill(at: number, bytes: Uint8Array): void
  /** A copy of what is in it now. */
  read(at: number, length: number): Uint8Array
  /** A piece of it; all of it by default. */
  sge(at?: number, length?: number): Sge
  /** Gives it back; a request that names it afterwards is malformed. */
  dereg(): Promise<void>
}

export interface ProtectionDomain {
  readonly number: number
  /** Registers so many bytes of fresh memory, zeros. */
  regMr(length: number): Promise<MemoryRegion>
  createQp(options: CreateQp): Promise<QueuePair>
}

export interface CompletionQueue {
  /** Completions that it holds; the depth that was asked for, or more. */
  readonly depth: number
  /** It was full: completions are missing, and no more come. */
  readonly failed: boolean
  /** Called once after `arm`, when there is a completion that was not there before. */
  onEvent: () => void
  /** Takes up to `most` completions, oldest first. */
  poll(most?: number): WorkCompletion[]
  /** Asks for `onEvent` at the next completion. Poll once more behind it: one may be there. */
  arm(): void
  /** Gives it back. Rejects with QUEUE_BUSY while a queue pair has it. */
  destroy(): Promise<void>
}

export interface CreateQp {
  readonly sendCq: CompletionQueue
  readonly recvCq: CompletionQueue
  /** Work requests that may be outstanding, of each kind, or more; 128 unless given. */
  readonly sendDepth?: number
  readonly recvDepth?: number
  /** Bytes that a request may carry INLINE; 0 to 1024, 256 unless given. */
  readonly inlineMax?: number
}

/** INIT takes receives; RTS sends and receives; ERR flushes whatever comes. */
export type QueuePairState = 'INIT' | 'RTS' | 'ERR'

/** To what a queue pair is connected: as the peer's CONNECT answered, and what it was told. */
export interface PeerAttributes {
  /** The peer's queue pair, and the PSN of our first request. */
  readonly destQpNum: number
  readonly sqPsn: number
  /** PSN of the peer's first request. */
  readonly rqPsn: number
  readonly pathMtu: number
  /** Incarnation of the peer's part; 0 where it has none. */
  readonly incarnation: number
  /** `QueuePair.depths` of the peer; without it nothing is agreed. */
  readonly depths?: Depths | null
  /** Keys of the tags of our packets and the peer's, 32 bytes each; without them there are none. */
  readonly tagKeys?: Uint8Array | null
  /** Where the peer is; where the way leads unless given. */
  readonly at?: Endpoint
}

export type ModifyQp =
  | { readonly state: 'RTS'; readonly peer: PeerAttributes | null }
  | { readonly state: 'ERR' }

export interface QueuePair {
  /** Its number on the wire; of one to the local card, the number of its send queue. */
  readonly qpNum: number
  readonly pd: ProtectionDomain
  readonly state: QueuePairState
  readonly inlineMax: number
  /**
   * Messages that take a receive: how many it may have on their way at once, and how many it takes
   * at once. Its peer is to be told.
   */
  readonly depths: Depths
  /**
   * How many may be on their way at once, to the peer and from it (source 3, step 201): no more are
   * sent. Null before it is connected, and where the peer tells nothing.
   */
  readonly agreed: Depths | null
  modify(change: ModifyQp): Promise<void>
  /**
   * Posts one request, or several, in their order. Throws PERDURE_ARGUMENT where one of them makes
   * no sense, and PERDURE_QUEUE_FULL where they have no room; then none of them is posted.
   */
  postSend(requests: SendRequest | readonly SendRequest[]): void
  postRecv(requests: RecvRequest | readonly RecvRequest[]): void
  /** Ends it at both ends; what is outstanding is flushed first. */
  destroy(): Promise<void>
}

/** What happens besides completions. */
export type AsyncEvent =
  | { readonly type: 'QP_FATAL'; readonly qp: QueuePair; readonly fault: string | null }
  | { readonly type: 'CQ_ERR'; readonly cq: CompletionQueue }
  | { readonly type: 'DEVICE_FATAL'; readonly fault: string | null }

export interface VerbsContext {
  /** Told of each event, once. */
  onEvent: (event: AsyncEvent) => void
  /** A new protection domain; its number is that of the regions at the DPU. */
  allocPd(number?: number): ProtectionDomain
  createCq(depth: number): Promise<CompletionQueue>
  /** Connects a queue pair in INIT to the DPU, in the name of the client; it is then in RTS. */
  connect(qp: QueuePair): Promise<void>
  /** Gives everything back that was made in it: it resolves when that is done, or cannot be. */
  close(): Promise<void>
}
