/**
 * One request to a DPU, as plain data: records, bytes, memory status and the verbs all ask for the
 * same. Each way encodes it once: as the packets of a request, or as an element of a queue.
 *
 * Invariant: a request says everything that its packets or its element will, and nothing about when
 * they go. What it names does not change until it is done.
 */

import type { RequestKind } from '../../firmware/transport/requester.ts'
import type { Bseth } from '../../firmware/wire/block-size.ts'
import {
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  SELECT_RANGE,
  SELECT_REGION,
} from '../../firmware/wire/feth.ts'
import type { Pfeth } from '../../firmware/wire/prefetch.ts'
import type { Reth } from '../../firmware/wire/reth.ts'

/** A piece of memory of a region that was registered. */
export interface Range {
  /** Bytes; of memory that a card reaches, in DMA_SPACE and below 2^48. */
  readonly address: number
  /** Bytes, 0 to 2^32 - 1. */
  readonly length: number
  /** L_Key of the memory region that covers it. */
  readonly lkey: number
}

/** The place of a record in its batch (source 4; D-10). */
export interface BatchPlace {
  /** Names the batch on its queue pair, 16 bits. */
  readonly id: number
  /** From 0, of how many. */
  readonly index: number
  readonly count: number
  /** CONDITION_* of firmware/wire/persist.ts. */
  readonly condition: number
  /** Records that come behind it in its burst; 0 of the last one. */
  readonly left: number
  /** With CONDITION_EXPECT the sequence that its slot must hold, unsigned 64 bits. */
  readonly expect?: bigint
}

/** What is to be done. Which fields count depends on the kind; numbers are 0 unless given. */
export interface WorkRequest {
  readonly kind: RequestKind
  /**
   * What it sends, or of a READ where the bytes go. On a card bytes of the heap go inline, if the
   * rules of the queue say so (P3-3), and otherwise through a buffer that the queue allocates and
   * frees.
   */
  readonly data?: Uint8Array | readonly Range[]
  /**
   * Of FLUSH, ASSOCIATE and PREFETCH_HINT: bytes. Of a carried record: bytes of one copy. Of
   * everything else the length of `data`.
   */
  readonly length?: number
  readonly rkey?: number
  /** In the peer's region, unsigned 64 bits: of a record, slot << 32. */
  readonly address?: bigint
  /** Of a record or a query; what an atomic adds or swaps in. Unsigned 64 bits. */
  readonly operation?: bigint
  /** Of an atomic: what it compares with. Unsigned 64 bits. */
  readonly compare?: bigint
  /** Of SEND_IMM and WRITE_IMM; of SEND_INV the key to be invalidated. */
  readonly immediate?: number
  /** Of a record: durable copies to wait for. */
  readonly wait?: number
  /** Of a record: every copy is carried; how many besides the first. */
  readonly carried?: boolean
  readonly furtherCopies?: number
  /**
   * Of a record: the address of every copy is named; here those of the further ones. Of plain bytes
   * that are not carried: there is no slot.
   */
  readonly addressed?: boolean
  readonly extensions?: readonly Reth[]
  /** Of a record that belongs to a batch. */
  readonly batch?: BatchPlace
  /** Of a member of a batch: its bytes go to a receive of the peer's host, and to no region. */
  readonly message?: boolean
  /** Of a query over frames: the batch that it asks about, instead of an operation. */
  readonly batchId?: number
  /** Of ASSOCIATE and BLOCK_SIZE; of PREFETCH_HINT. */
  readonly bseth?: Bseth
  readonly pfeth?: Pfeth
  /** Of FLUSH: placement and selectivity (wire/feth.ts). */
  readonly placement?: number
  readonly selectivity?: number
  /** Whether the bytes go into the element; by the rules of the queue unless given. */
  readonly inline?: boolean
  /** Wants a completion also when it succeeds; true by default. */
  readonly signaled?: boolean
  /** The receiver of the message shall be woken, or asked to confirm. */
  readonly solicited?: boolean
  /** Waits until every READ, atomic and FLUSH before it is answered. */
  readonly fenced?: boolean
  /** Is told twice, over the queues of a card: received, and durable (source 2, flow 2). */
  readonly twoSteps?: boolean
  /** Of a record: the guard of the data of one copy, 1 to 2^32 - 1; 0 where it has none. */
  readonly guard?: number
  /** Of a record: it may have been executed before. */
  readonly repetition?: boolean
}

export interface FlushOptions {
  /** In a domain that survives power loss; true by default. */
  readonly persistent?: boolean
  /** Visible to everybody at the other end; false by default. */
  readonly global?: boolean
  /** The whole region, whatever the range says. */
  readonly wholeRegion?: boolean
}

/** The same, as a request says it. */
export function flushFields({
  persistent = true,
  global = false,
  wholeRegion = false,
}: FlushOptions): Pick<WorkRequest, 'placement' | 'selectivity'> {
  return {
    placement: (persistent ? PLACEMENT_PERSISTENT : 0) | (global ? PLACEMENT_GLOBAL : 0),
    selectivity: wholeRegion ? SELECT_REGION : SELECT_RANGE,
  }
}
