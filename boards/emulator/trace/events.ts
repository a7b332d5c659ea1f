/**
 * The lines of a trace: what a card, its part and its wire did, one JSON object a line, in their
 * order (host-driver/doc/timeline.md).
 *
 * Invariants:
 * - The first line is a `Head`. A reader takes the version that it knows, and passes over fields
 *   and events that it does not.
 * - `n` counts the events from 1 without a gap. `t` is the card's clock, µs; it stands still inside
 *   a burst, so the order of the lines says more than it.
 * - `at` and `bytes` are places and lengths in the part, bytes. Content is base64.
 * - With the `base` lines of the whole file laid down first, the other lines played in their order
 *   give what loads see, what is pending, and what is durable, at every line.
 */

import type { CutReport } from '../medium/power-cut.ts'

/** The version of the lines below. */
export const TRACE_VERSION = 1

export interface Head {
  readonly trace: 'perdure'
  readonly version: number
  /** The board's name. */
  readonly board: string
  readonly partBytes: number
  /** Unsafe shutdowns that the part had counted. */
  readonly dirtyShutdowns: number
}

/** What was durable there before the trace began. What no `base` names was zero, or nobody's. */
interface BaseEvent {
  readonly e: 'base'
  readonly at: number
  readonly data: string
}

/** The card starts, or stops. */
interface PowerEvent {
  readonly e: 'power'
  readonly t: number
  readonly on: boolean
}

/** The card takes so many frames that wait, as one burst. */
interface BurstEvent {
  readonly e: 'burst'
  readonly t: number
  readonly frames: number
}

/** A frame that reaches the card (`in`) or leaves it (`out`). */
export interface FrameEvent extends FrameFields {
  readonly e: 'in' | 'out'
  readonly t: number
  /** Nobody took it: the card was off, or its ring full. */
  readonly dropped?: boolean
}

/** What its headers say, as far as a timeline needs it. */
export interface FrameFields {
  /** The opcode's name, or what is wrong with the frame. */
  readonly name: string
  /** Queue pair that it goes to, and PSN. */
  readonly qp?: number
  readonly psn?: number
  /** Bytes of payload in this packet. */
  readonly bytes?: number
  /** Of a request: whether it begins and ends its message. */
  readonly begins?: boolean
  readonly ends?: boolean
  /** Of a WRITE_PERSIST that begins a message. */
  readonly persist?: PersistFields
  /** Of an acknowledgement: the AETH's syndrome, 0 to 31 where it is no refusal. */
  readonly syndrome?: number
  /** Of a PERSIST_ACK. */
  readonly durable?: DurableFields
}

export interface PersistFields {
  /** Operation id, decimal. */
  readonly operation: string
  /** The record, where the request names a slot. */
  readonly slot?: number
  readonly key: number
  /** Copies that the acknowledgement waits for. */
  readonly wait: number
  readonly batch?: { readonly id: number; readonly index: number; readonly count: number }
}

export interface DurableFields {
  readonly firstPsn: number
  readonly lastPsn: number
  /** All records of the range are durable. */
  readonly all: boolean
  /** 0: durable; else the code of the fault. */
  readonly status: number
  readonly copies: number
  readonly operation: string
  /** Of a batch: which of its records are durable, a digit each. */
  readonly batch?: { readonly id: number; readonly count: number; readonly durable: string }
}

/** Bytes are stored: `data`, or those of the store with the number `same`. */
export interface StoreEvent {
  readonly e: 'store'
  readonly at: number
  readonly bytes: number
  readonly data?: string
  readonly same?: number
  /** The write-back of the very same bytes began right behind it. */
  readonly clean?: true
}

/** The write-back of these lines begins. */
interface CleanEvent {
  readonly e: 'clean'
  readonly at: number
  readonly bytes: number
}

/** A fence ended: what was cleaned is durable, unless `failed` says why not. */
export interface FenceEvent {
  readonly e: 'fence'
  readonly failed?: 'not armed' | 'flush failed'
}

/** Lines get a media error, lose it, refuse stores or take them again. */
interface FaultEvent {
  readonly e: 'fault'
  readonly what: 'poison' | 'clear' | 'refuse' | 'take'
  readonly at: number
  readonly bytes: number
}

/**
 * The power went. Of the pending lines `kept` says, from each place on, which of their chunks of
 * eight bytes are now as they were last stored: two hex digits a line, the lowest bit for the first
 * chunk. Lines that hold something else stand in `other`; all that is in neither is as it was
 * durable.
 */
export interface CutEvent {
  readonly e: 'cut'
  readonly t: number
  readonly report: CutReport
  readonly kept: readonly (readonly [at: number, masks: string])[]
  readonly other: readonly (readonly [at: number, data: string])[]
}

/** No more was written: the trace had reached so many bytes. */
interface FullEvent {
  readonly e: 'full'
  readonly limit: number
}

/** Whoever wrote it ended it. */
interface EndEvent {
  readonly e: 'end'
  readonly t: number
}

export type TraceEvent =
  | BaseEvent
  | PowerEvent
  | BurstEvent
  | FrameEvent
  | StoreEvent
  | CleanEvent
  | FenceEvent
  | FaultEvent
  | CutEvent
  | FullEvent
  | EndEvent
