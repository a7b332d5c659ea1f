/**
 * What is posted to a queue of the host, and what is heard of it: elements and completions as
 * values.
 *
 * Invariant: an element says everything that its units will; it belongs to the queue until
 * its completion came. Memory that it names by address must not change before that.
 */

import type { RequestKind } from '../../../firmware/transport/requester.ts'
import type { Endpoint } from '../../base/wire.ts'
import type { Range, WorkRequest } from '../../way/work-request.ts'

/** What to do when an element has completed. */
type Done = (completion: Completion) => void

/** One element of a send queue: a request, and what only the queues of a card know. */
export interface QueueElement extends Omit<WorkRequest, 'kind'> {
  /** What it does; 'nop' does nothing. */
  readonly kind: RequestKind | 'nop'
  /** Of a datagram: whom to; the local card by default. */
  readonly to?: Endpoint
  /** Told of every completion of it; an element that is not signaled hears of errors only. */
  readonly done?: Done
}

/** One element of a receive queue. */
export interface Receive {
  /** Where a message goes; null takes completions without bytes only. */
  readonly range: Range | null
  readonly done?: Done
}

/** In the words of `ibv_wc_status`, without the prefix IBV_WC_, by number. */
export const WC_NAMES = [
  'SUCCESS',
  'LOC_LEN_ERR',
  'LOC_QP_OP_ERR',
  'LOC_EEC_OP_ERR',
  'LOC_PROT_ERR',
  'WR_FLUSH_ERR',
  'MW_BIND_ERR',
  'BAD_RESP_ERR',
  'LOC_ACCESS_ERR',
  'REM_INV_REQ_ERR',
  'REM_ACCESS_ERR',
  'REM_OP_ERR',
  'RETRY_EXC_ERR',
  'RNR_RETRY_EXC_ERR',
  'LOC_RDD_VIOL_ERR',
  'REM_INV_RD_REQ_ERR',
  'REM_ABORT_ERR',
  'INV_EECN_ERR',
  'INV_EEC_STATE_ERR',
  'FATAL_ERR',
  'RESP_TIMEOUT_ERR',
  'GENERAL_ERR',
] as const

export type WcName = (typeof WC_NAMES)[number]

/** A completion, read. Numbers that its kind does not have are 0. */
export interface Completion {
  /** Queue of the element, and number of its first unit. */
  readonly queue: number
  readonly unit: number
  /** The element itself; null of a notice, and if it is known no more: its end was told before. */
  readonly element: QueueElement | Receive | null
  readonly status: WcName
  /** RequestKind, WQE_NOP or WQE_RECEIVE; or CQE_NOTICE, whose fields element.ts has. */
  readonly opcode: number
  /** Of firmware/host/element.ts: WITH_IMMEDIATE, DURABLE, RECEIVED and so on. */
  readonly flags: number
  /** Bytes that were received or read. */
  readonly length: number
  readonly immediate: number
  /**
   * Operation of a record; what an atomic found. Unsigned 64 bits. Of ASSOCIATE and BLOCK_SIZE the
   * upper half of the BSETH in the answer; the lower half is `address`.
   */
  readonly operation: bigint
  readonly psn: number
  /** Durable copies, what made them so, and the status of the PERSIST_ACK that refused it. */
  readonly copies: number
  readonly mechanism: number
  readonly refusal: number
  /** Of the record or the bytes at the peer, unsigned 64 bits; of a datagram, MAC of its sender. */
  readonly address: bigint
  /** Of the part that answered; of a datagram, IPv4 address of its sender. */
  readonly incarnation: number
  /** Queue pair that it came from. */
  readonly source: number
  /** Units that the card had taken of the queue. */
  readonly pointer: number
}

/** What happened to a queue, as the card says (firmware/host/header-page.ts, EVENT_*). */
export interface QueueEvent {
  readonly type:
    | 'error'
    | 'overrun'
    | 'completion'
    | 'disconnected'
    | 'lost'
    | 'pagesWanted'
    | 'pagesUnwanted'
    | 'residency'
    | 'pagesHinted'
    | 'unknown'
  /** Where it is about pages the R_Key of their region. */
  readonly queue: number
  /** Name of the fault, as in firmware/board/fault.ts; 'PASS' if there is none. */
  readonly fault: string
  /** So many pages from the first on. */
  readonly pages?: { readonly first: number; readonly count: number }
  /** Key of the memory of which the queue has heard. */
  readonly rkey?: number
}

/** Ways to ring (P3-13). */
export type DoorbellForm = 'fifo' | 'trusted' | 'register' | 'message'

/** When bytes go into the element itself (P3-3). */
export interface InlineRule {
  /** Up to so many bytes, 0 to INLINE_BYTES_MAX. */
  readonly inlineMax: number
  /** Of these kinds only; null: of every kind that sends bytes. */
  readonly inlineKinds: ReadonlySet<RequestKind> | null
}
