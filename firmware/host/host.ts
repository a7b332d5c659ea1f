/**
 * The queues of our own host: what the card holds of them while there is a host (source 3).
 *
 * Invariant: everything that a queue needs to go on lies in the host's memory; what is here
 * is a cache of it, and may be dropped and read again at any time. Memory is made once, from the
 * limits, and does not grow with the number of queues.
 */

import { CONTEXTS, FETCHES } from '../board/limits.ts'
import { type Contexts, createContexts } from './context-cache.ts'
import { createHostCalls, type HostCalls } from './host-calls.ts'
import { createMemoryRegions, type MemoryRegions } from './memory-regions.ts'
import { createPending, type Pending } from './pending.ts'
import { createQueueNumbers, type QueueNumbers } from './queue-numbers.ts'

/** What is counted, by name: `perdure inspect --queues` shows them in this order. */
export const QUEUE_COUNTERS = [
  'doorbells',
  'doorbellsRefused',
  'pointerReads',
  'elements',
  'elementReads',
  'elementsRefused',
  'completions',
  'interrupts',
  'events',
  'hits',
  'misses',
  'insertions',
  'evictions',
  'refills',
  'sweeps',
  'queueErrors',
] as const
export type QueueCounter = (typeof QUEUE_COUNTERS)[number]

/* Their numbers. */
export const DOORBELLS_TAKEN: number = QUEUE_COUNTERS.indexOf('doorbells')
export const DOORBELLS_REFUSED: number = QUEUE_COUNTERS.indexOf('doorbellsRefused')
export const POINTER_READS: number = QUEUE_COUNTERS.indexOf('pointerReads')
export const ELEMENTS: number = QUEUE_COUNTERS.indexOf('elements')
export const ELEMENT_READS: number = QUEUE_COUNTERS.indexOf('elementReads')
export const ELEMENTS_REFUSED: number = QUEUE_COUNTERS.indexOf('elementsRefused')
export const COMPLETIONS_MADE: number = QUEUE_COUNTERS.indexOf('completions')
export const INTERRUPTS: number = QUEUE_COUNTERS.indexOf('interrupts')
export const EVENTS_POSTED: number = QUEUE_COUNTERS.indexOf('events')
export const HITS: number = QUEUE_COUNTERS.indexOf('hits')
export const MISSES: number = QUEUE_COUNTERS.indexOf('misses')
export const INSERTIONS: number = QUEUE_COUNTERS.indexOf('insertions')
export const EVICTIONS: number = QUEUE_COUNTERS.indexOf('evictions')
export const REFILLS: number = QUEUE_COUNTERS.indexOf('refills')
export const SWEEPS: number = QUEUE_COUNTERS.indexOf('sweeps')
export const QUEUE_ERRORS: number = QUEUE_COUNTERS.indexOf('queueErrors')

/** No host; its zone 1 is being cleared; its queues are served. */
export const HOST_NONE = 0
export const HOST_CLEARING = 1
export const HOST_SERVED = 2

/** A work-queue element of a copy that was validated (element-check.ts). Numbers are unsigned. */
export interface Element {
  /** Its queue, and the place of the context. */
  queue: number
  place: number
  /** Its first unit in packet memory; the number of that unit; units. */
  at: number
  unit: number
  units: number
  opcode: number
  flags: number
  /** Bytes that it sends, or asks for. */
  length: number
  rkey: number
  addressHigh: number
  addressLow: number
  operationHigh: number
  operationLow: number
  compareHigh: number
  compareLow: number
  placement: number
  selectivity: number
  /** Where its bytes lie in the host's memory, an offset in DMA_SPACE; unless inline, scattered. */
  local: number
  lkey: number
  immediate: number
  wait: number
  /** Scatter/gather entries, 0 if it has none; and the further copies that it names. */
  entries: number
  furtherCopies: number
  /** Inline bytes, or scatter/gather entries, in packet memory; 0 if there are none. */
  behindAt: number
  /** The RETHs of further copies, or the sequence expected, in packet memory; 0 without them. */
  copiesAt: number
  /** Of a record of a batch, by its place in it: what PWETH says on the wire. */
  condition: number
  last: boolean
  batchId: number
  batchIndex: number
  batchCount: number
  /** Records that may come behind it before any of its burst ends. */
  batchLeft: number
  /** The sequence that its slot must hold. */
  expectHigh: number
  expectLow: number
}

/** What goes into a completion; `complete` clears it. */
export interface Completion {
  queue: number
  unit: number
  status: number
  opcode: number
  flags: number
  length: number
  immediate: number
  operationHigh: number
  operationLow: number
  psn: number
  copies: number
  mechanism: number
  refusal: number
  addressHigh: number
  addressLow: number
  incarnation: number
  source: number
  pointer: number
}

/** The event ring of the host. */
interface EventRing {
  at: number
  depth: number
  /** Events written, and those that the host has taken as far as is known; free-running. */
  made: number
  taken: number
  /** Events were lost since EVENT_EVENTS_LOST was written; when to look for room, µs. */
  lost: boolean
  lookUs: number
}

/** One pass over rung queues: what was picked, by number in the pass. */
export interface Pass {
  readonly queues: Int32Array
  readonly places: Int16Array
  /** Places of their completion queues, or -1. */
  readonly completions: Int16Array
  /** Whether the context was in the cache; its first read in the list; what that came to. */
  readonly known: Uint8Array
  readonly reads: Int32Array
  readonly outcomes: Int32Array
  /** Whether its write pointer is that of a doorbell, and zone 3 was not read. */
  readonly trusted: Uint8Array
  /** Units to be executed. */
  readonly units: Int32Array
  count: number
}

export interface HostQueues {
  /** Which queues there are; and control calls that wait. */
  readonly numbers: QueueNumbers
  readonly calls: HostCalls
  /** The epoch of the header page that was taken, or 0: there is no host. */
  epoch: number
  /** Queues that the host made room for: K. */
  queues: number
  /** Addresses of the zones, in DMA_SPACE's own bytes. */
  zone1: number
  zone2: number
  zone3: number
  /** ORDER_DISTANCE or ORDER_TIME. */
  pointerOrder: number
  /** Pointers that tagged doorbells carry are used where they can be (queues/trust.ts). */
  trusts: boolean
  /** By place in QUEUE_COUNTERS. */
  readonly counters: Float64Array
  /** Packet memory. */
  readonly bytes: Uint8Array
  readonly words: Int32Array
  /**
   * HOST_*; the epoch that the port showed last, taken or refused, and its link; where the header
   * page is.
   */
  phase: number
  seenEpoch: number
  seenLink: number
  /** The host that was there has gone, whatever the port shows now: nothing of it may be left. */
  gone: boolean
  header: number
  /** Queues whose zone 1 was cleared so far. */
  cleared: number
  /** Bytes of DMA_SPACE. */
  dmaBytes: number
  readonly pending: Pending
  readonly contexts: Contexts
  readonly regions: MemoryRegions
  readonly events: EventRing
  readonly element: Element
  readonly completion: Completion
  readonly pass: Pass
  /** Passes so far. */
  passes: number
  /** By place, of completion queues: room that is reserved; completions that no interrupt told. */
  readonly reserved: Int32Array
  readonly untold: Int32Array
  /** When the interrupt is due all the same, µs, or Infinity; the soonest, and how many wait. */
  readonly dueUs: Float64Array
  soonestUs: number
  timers: number
  /** By place: the pass in which zone 3 was read last. */
  readonly readPass: Float64Array
  /** By place: its zone 3 is to be read though nobody rang. */
  readonly stale: Uint8Array
  /** The word of interrupts is to be written. */
  interruptDue: boolean
  /** Completions and events composed in the list in progress: how many, and which list. */
  composed: number
  composedRun: number
  /** Runs the list in progress. */
  makeRoom: () => void
  /** Register doorbell as it was seen last; doorbells dropped as the port said last. */
  register: number
  dropped: number
  /** Queues that the sweep has still to look at, and the next one. */
  sweepLeft: number
  sweepNext: number
  /** When the waiting queues are tried again, µs; Infinity if there is none. */
  retryUs: number
  /** That long after the time before, µs; and elements that were executed by then. */
  retryGapUs: number
  retryExecuted: number
  /** Queues that were found waiting for the message of another since then. */
  behindMessages: number
  nowUs: number
}

/** `hosted`: there may be a host behind the card. */
export function createHostQueues(memory: ArrayBuffer, hosted: boolean): HostQueues {
  return {
    numbers: createQueueNumbers(),
    calls: createHostCalls(),
    epoch: 0,
    queues: 0,
    zone1: 0,
    zone2: 0,
    zone3: 0,
    pointerOrder: 0,
    trusts: false,
    counters: new Float64Array(QUEUE_COUNTERS.length),
    bytes: new Uint8Array(memory),
    words: new Int32Array(memory),
    phase: HOST_NONE,
    seenEpoch: 0,
    seenLink: 0,
    gone: false,
    header: 0,
    cleared: 0,
    dmaBytes: 0,
    pending: createPending(hosted),
    contexts: createContexts(hosted),
    regions: createMemoryRegions(),
    events: { at: 0, depth: 0, made: 0, taken: 0, lost: false, lookUs: 0 },
    element: blankElement(),
    completion: blankCompletion(),
    pass: createPass(),
    passes: 0,
    reserved: new Int32Array(CONTEXTS),
    untold: new Int32Array(CONTEXTS),
    dueUs: new Float64Array(CONTEXTS).fill(Infinity),
    soonestUs: Infinity,
    timers: 0,
    readPass: new Float64Array(CONTEXTS),
    stale: new Uint8Array(CONTEXTS),
    interruptDue: false,
    composed: 0,
    composedRun: -1,
    makeRoom: () => {},
    register: 0,
    dropped: 0,
    sweepLeft: 0,
    sweepNext: 0,
    retryUs: Infinity,
    retryGapUs: 0,
    retryExecuted: 0,
    behindMessages: 0,
    nowUs: 0,
  }
}

function createPass(): Pass {
  return {
    queues: new Int32Array(FETCHES),
    places: new Int16Array(FETCHES),
    completions: new Int16Array(FETCHES),
    known: new Uint8Array(FETCHES),
    reads: new Int32Array(FETCHES),
    outcomes: new Int32Array(FETCHES),
    trusted: new Uint8Array(FETCHES),
    units: new Int32Array(FETCHES),
    count: 0,
  }
}

export function blankElement(): Element {
  return {
    queue: 0,
    place: 0,
    at: 0,
    unit: 0,
    units: 0,
    opcode: 0,
    flags: 0,
    length: 0,
    rkey: 0,
    addressHigh: 0,
    addressLow: 0,
    operationHigh: 0,
    operationLow: 0,
    compareHigh: 0,
    compareLow: 0,
    placement: 0,
    selectivity: 0,
    local: 0,
    lkey: 0,
    immediate: 0,
    wait: 0,
    entries: 0,
    furtherCopies: 0,
    behindAt: 0,
    copiesAt: 0,
    condition: 0,
    last: false,
    batchId: 0,
    batchIndex: 0,
    batchCount: 1,
    batchLeft: 0,
    expectHigh: 0,
    expectLow: 0,
  }
}

function blankCompletion(): Completion {
  return {
    queue: 0,
    unit: 0,
    status: 0,
    opcode: 0,
    flags: 0,
    length: 0,
    immediate: 0,
    operationHigh: 0,
    operationLow: 0,
    psn: 0,
    copies: 0,
    mechanism: 0,
    refusal: 0,
    addressHigh: 0,
    addressLow: 0,
    incarnation: 0,
    source: 0,
    pointer: 0,
  }
}
