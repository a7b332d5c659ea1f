/**
 * What the card keeps while it executes elements of its host's queues, beside the contexts: queue
 * pairs that reach over the wire, elements under way, records of a group, buffers.
 *
 * Invariant: everything is made once, from the limits; an element under way has exactly one
 * `Posting` from its acceptance to its completion, and the completion queue has room for it.
 */

import { type Batch, blankBatch } from '../batch/batch.ts'
import { assert } from '../board/assert.ts'
import {
  ASSOCIATED_BLOCKS,
  BATCH_ELEMENTS_MAX,
  BURST_FRAMES,
  CONTEXTS,
  HOST_BUFFERS,
  HOST_POSTINGS,
  LOCAL_BATCHES,
  POSTED_RECEIVES,
  QUEUE_PAIRS,
  SGES_MAX,
  STAGING_BUFFERS,
  WATCHES,
} from '../board/limits.ts'
import { NO_CLIENT } from '../commit/operations.ts'
import { type Blocks, createBlocks } from '../residency/blocks.ts'
import { type Ask, blankAsk } from '../transport/message.ts'
import {
  ALL_REGIONS,
  ALL_RIGHTS,
  type Party,
  type QueuePair,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { blankElement, type Element } from './host.ts'

/** Blocks of a peer's memory that are counted together. */
const GROUP_BLOCKS = 64

/** Owner of a record of the group, and of a staging buffer, that is the host's. */
export const HOST_OWNER: number = QUEUE_PAIRS

/** What becomes of an element: done, or under way; not begun, as there is no room; a fault else. */
export const EXECUTED = 0
export const WAIT = -1

/** Ranges of the host's memory, one behind the other: offsets in DMA_SPACE, and bytes. */
export interface Pieces {
  count: number
  readonly at: number[]
  readonly length: number[]
  /** Key of the memory region of each. */
  readonly key: number[]
}

/** A queue pair of the host that is connected over the wire. */
export interface HostPair {
  /** Its queues in the host's memory; -1 while the place is free. */
  send: number
  receive: number
  /** The queue pair on the wire: silent until it is ready. */
  qp: QueuePair | null
  ready: boolean
  /** What its initiator is opened with. */
  incarnation: number
  readDepth: number
  readonly kept: boolean
  /** Elements of its send queue under way; and all of its that have a `Posting`. */
  under: number
  postings: number
  /**
   * The burst of a batch that is not complete: its number on this pair; id, records of the batch,
   * low word of the operation of index 0; records sent, none if all is complete; places kept for
   * more.
   */
  batchBurst: number
  batchId: number
  batchCount: number
  batchOperation: number
  batchSent: number
  batchLeft: number
  /** Results that wait for a receive, in their order. */
  resultFirst: number
  resultLast: number
  /** Elements whose send completion was not made: in the order in which they were posted. */
  untoldFirst: number
  untoldLast: number
  /** Elements of its receive queue that were fetched: a ring, free-running. */
  readonly receiveAt: number[]
  readonly receiveKey: number[]
  readonly receiveBytes: number[]
  readonly receiveUnit: number[]
  taken: number
  fetched: number
  /** Its receive queue, or its send queue, has more and found no room here. */
  receiveWaits: boolean
  sendWaits: boolean
  /** One of its queues has ended by itself: its requests end, too. */
  stopped: boolean
  /** Somebody was told that there is no receive, or no room for its completion. */
  starved: boolean
  /** Number of its receives' completion queue, once known; and where room is reserved, or -1. */
  completions: number
  reserved: number
}

/** An element of a send queue on its way over the wire. */
export interface Posting {
  /** Null while it is free. */
  pair: HostPair | null
  queue: number
  unit: number
  /** Units taken of the queue with it. */
  pointer: number
  /** Place of the completion queue's context, pinned by the reservation. */
  place: number
  opcode: number
  flags: number
  length: number
  /** Of a record of a batch: number of its burst on the pair. */
  batchBurst: number
  operationHigh: number
  operationLow: number
  addressHigh: number
  addressLow: number
  buffer: number
  /** Where a READ goes; and whether that was not the queue's any more when it came. */
  readonly pieces: Pieces
  revoked: boolean
  /** The peer has it, and the completion that says so is due, or was made. */
  received: boolean
  receivedTold: boolean
  ended: boolean
  /** It stands among those that are to be told of. */
  listed: boolean
  status: number
  refusal: number
  copies: number
  mechanism: number
  psn: number
  resultHigh: number
  resultLow: number
  cumulative: boolean
  /** Of ASSOCIATE and BLOCK_SIZE: their key; and whether there was no place for a watch. */
  rkey: number
  unheard: boolean
  /** The next one that waits for a receive, or -1. */
  next: number
  /** The element of its pair that was posted behind it, or -1: while it is untold. */
  behind: number
}

/** Memory of a peer that the host follows (hearing.ts). */
export interface Watch {
  /** Null while it is free. */
  pair: HostPair | null
  rkey: number
  /** Address of the first byte that is associated. */
  vaHigh: number
  vaLow: number
  /** NO_BLOCKS until its place is used for the first time. */
  blocks: Blocks
  /** The current status is being asked for. */
  isAsking: boolean
  /** The host was told that there is something new, and has not asked what; the last it knows. */
  isTold: boolean
  revision: number
}

/** A record of the host in the group: what its completion says. Its place is that of the item. */
export interface HostRecord {
  queue: number
  unit: number
  pointer: number
  place: number
  opcode: number
  flags: number
  length: number
  addressHigh: number
  addressLow: number
  buffer: number
  /**
   * Durable copies at which its completion is due: no fewer than those of the records of its queue
   * before it, so that completions come in order.
   */
  level: number
  /** Number of the entry of the completion queue, once it has one; else -1. */
  entry: number
  /** The batch that it belongs to, -1 without one; and its place there. */
  batch: number
  batchIndex: number
}

/** A record of a batch for the own part that waits for the last of its burst. */
interface CollectedElement {
  unit: number
  units: number
  flags: number
  /** Place of the completion queue's context, pinned by the reservation. */
  place: number
}

/** The batch of a local queue of which some is to come. */
export interface LocalBatch {
  readonly number: number
  /** Its queue; -1 while it is free. */
  queue: number
  /** The client of that queue. */
  clientHigh: number
  clientLow: number
  readonly batch: Batch
  /** By number of the member. */
  readonly collected: readonly CollectedElement[]
}

export interface HostWork {
  readonly pairs: readonly HostPair[]
  readonly postings: readonly Posting[]
  readonly freePostings: Int16Array
  freePostingCount: number
  /** Postings, and buffers of a page, that are kept for what is to come of batches. */
  keptCount: number
  /** Postings to be told of, in order. */
  readonly listed: Int16Array
  listedCount: number
  readonly records: readonly HostRecord[]
  /** Records of the host in the group; and whether something failed as it was committed. */
  recordCount: number
  groupFailed: boolean
  readonly freeBuffers: Int16Array
  freeBufferCount: number
  readonly watches: readonly Watch[]
  /** Watches that are not free. */
  followed: number
  readonly batches: readonly LocalBatch[]
  openBatches: number
  /** The one whose record is judged; and what was `host.element` before that. */
  judged: LocalBatch | null
  readonly aside: Element
  /** Place of the context of the completion queue, where the element has its reservation. */
  place: number
  /** Bytes of the element that is executed: where they lie, and in which buffer, or -1. */
  dataAt: number
  buffer: number
  readonly pieces: Pieces
  readonly ask: Ask
  /** Who speaks through the queue of a context, by its place; and through that of the element. */
  readonly parties: readonly HostParty[]
  party: HostParty
  /** A queue pair has failed, or something waits in one: they are to be looked at. */
  look: boolean
  /** Something has ended since: what found no room may find it now. */
  freed: boolean
}

/** A queue of the host as one that asks: its memory is that of the part, with every right. */
interface HostParty extends Party {
  clientHigh: number
  clientLow: number
  protectionDomain: number
}

function blankParty(): HostParty {
  return {
    index: HOST_OWNER,
    segment: 0,
    staging: -1,
    clientHigh: 0,
    clientLow: 0,
    state: STATE_OPEN,
    client: NO_CLIENT,
    protectionDomain: 0,
    rights: ALL_RIGHTS,
    readable: ALL_REGIONS,
    writable: ALL_REGIONS,
  }
}

/** Plain arrays: there are many, and each is small. */
function zeros(count: number): number[] {
  return new Array<number>(count).fill(0)
}

function blankPieces(): Pieces {
  return { count: 0, at: zeros(SGES_MAX), length: zeros(SGES_MAX), key: zeros(SGES_MAX) }
}

function blankPair(): HostPair {
  return {
    send: -1,
    receive: -1,
    qp: null,
    ready: false,
    incarnation: 0,
    readDepth: 0,
    kept: false,
    under: 0,
    postings: 0,
    batchBurst: 0,
    batchId: 0,
    batchCount: 0,
    batchOperation: 0,
    batchSent: 0,
    batchLeft: 0,
    resultFirst: -1,
    resultLast: -1,
    untoldFirst: -1,
    untoldLast: -1,
    receiveAt: zeros(POSTED_RECEIVES),
    receiveKey: zeros(POSTED_RECEIVES),
    receiveBytes: zeros(POSTED_RECEIVES),
    receiveUnit: zeros(POSTED_RECEIVES),
    taken: 0,
    fetched: 0,
    receiveWaits: false,
    sendWaits: false,
    stopped: false,
    starved: false,
    completions: -1,
    reserved: -1,
  }
}

function blankPosting(): Posting {
  return {
    pair: null,
    queue: 0,
    unit: 0,
    pointer: 0,
    place: 0,
    opcode: 0,
    flags: 0,
    length: 0,
    batchBurst: 0,
    operationHigh: 0,
    operationLow: 0,
    addressHigh: 0,
    addressLow: 0,
    buffer: -1,
    pieces: blankPieces(),
    revoked: false,
    received: false,
    receivedTold: false,
    ended: false,
    listed: false,
    status: 0,
    refusal: 0,
    copies: 0,
    mechanism: 0,
    psn: 0,
    resultHigh: 0,
    resultLow: 0,
    cumulative: false,
    rkey: 0,
    unheard: false,
    next: -1,
    behind: -1,
  }
}

function blankRecord(): HostRecord {
  return {
    queue: 0,
    unit: 0,
    pointer: 0,
    place: 0,
    opcode: 0,
    flags: 0,
    length: 0,
    addressHigh: 0,
    addressLow: 0,
    buffer: -1,
    level: 0,
    entry: -1,
    batch: -1,
    batchIndex: 0,
  }
}

/** Of a watch that never began: a host that asks for none needs no memory for them. */
export const NO_BLOCKS: Blocks = createBlocks(0, GROUP_BLOCKS)

/** What a watch knows. */
export function createWatched(): Blocks {
  return createBlocks(ASSOCIATED_BLOCKS, GROUP_BLOCKS)
}

function blankWatch(): Watch {
  return {
    ...{ pair: null, rkey: 0, vaHigh: 0, vaLow: 0 },
    blocks: NO_BLOCKS,
    ...{ isAsking: false, isTold: false, revision: 0 },
  }
}

function blankCollected(): CollectedElement {
  return { unit: 0, units: 0, flags: 0, place: 0 }
}

function blankLocalBatch(number: number): LocalBatch {
  const collected = each(BATCH_ELEMENTS_MAX, blankCollected)
  const batch = blankBatch(HOST_OWNER + number)
  return { number, queue: -1, clientHigh: 0, clientLow: 0, batch, collected }
}

function each<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make)
}

/** Numbers 0 to `count` - 1, the lowest on top. */
function stack(count: number): Int16Array {
  return Int16Array.from({ length: count }, (_, i) => count - 1 - i)
}

export function createHostWork(): HostWork {
  return {
    pairs: each(QUEUE_PAIRS, blankPair),
    postings: each(HOST_POSTINGS, blankPosting),
    freePostings: stack(HOST_POSTINGS),
    freePostingCount: HOST_POSTINGS,
    keptCount: 0,
    // Each of them twice: it was received, and it has ended.
    listed: new Int16Array(2 * HOST_POSTINGS),
    listedCount: 0,
    records: each(BURST_FRAMES, blankRecord),
    recordCount: 0,
    groupFailed: false,
    freeBuffers: stack(HOST_BUFFERS),
    freeBufferCount: HOST_BUFFERS,
    watches: each(WATCHES, blankWatch),
    followed: 0,
    batches: Array.from({ length: LOCAL_BATCHES }, (_, i) => blankLocalBatch(i)),
    openBatches: 0,
    judged: null,
    aside: blankElement(),
    place: 0,
    dataAt: 0,
    buffer: -1,
    pieces: blankPieces(),
    ask: { ...blankAsk(), wantsAck: true },
    parties: each(CONTEXTS, blankParty),
    party: blankParty(),
    look: false,
    freed: false,
  }
}

/** Of every card that has no host: nothing in it ever changes. */
export const NO_HOST_WORK: HostWork = createHostWork()

/** A queue of the host has ended by itself: if it is of a pair, that ends when pairs are served. */
export function noteQueueEnd(work: HostWork, queue: number): void {
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const pair = work.pairs[i]!
    if (!pair.ready || (pair.send !== queue && pair.receive !== queue)) continue
    pair.stopped = true
    work.look = true
  }
}

assert(HOST_BUFFERS + STAGING_BUFFERS <= 0x7fff, 'a buffer is a 16-bit number')
