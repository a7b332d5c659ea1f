/**
 * What requests leave until they are complete, or until the burst is settled: a message of several
 * packets, and an operation that waits for its turn.
 *
 * Invariant: both are made at the start, and used again.
 */

import type { Region } from '../medium/region.ts'
import type { QueuePair } from './queue-pair.ts'

/**
 * A record that somebody asks to be made durable: one per queue pair, from the First of its packets
 * to the Last, and one of the host.
 */
export interface Ask {
  region: Region | null
  slot: number
  /** Of a batch, into a region of bytes: where they go, in the address space of the board. */
  bytesAt: number
  length: number
  wait: number
  wantsAck: boolean
  operationHigh: number
  operationLow: number
  /** Copies that the payload holds. */
  carried: number
  /** The guard of its data; 0 without one. */
  guard: number
  /** PSN that ends it; 0 without a wire. */
  lastPsn: number
  /** A plain WRITE of a record: refused by NAK, acknowledged only when all copies are durable. */
  plain: boolean
  /** Into a region of bytes, where the packets are stored as they come. */
  placed: boolean
  /** A record of a batch, and its index there; and the last one of its burst. */
  batch: boolean
  batchIndex: number
  lastOfBatch: boolean
  /** Handed on under the condition "expect": the sequence that its slot must hold. */
  expects: boolean
  expectHigh: number
  expectLow: number
  /** Likewise: it became durable while it waited, and only its copies are to be told of. */
  known: boolean
  /** It may have been executed before. */
  repetition: boolean
}

export function blankAsk(): Ask {
  return {
    region: null,
    slot: 0,
    bytesAt: 0,
    length: 0,
    wait: 0,
    wantsAck: false,
    operationHigh: 0,
    operationLow: 0,
    carried: 1,
    guard: 0,
    lastPsn: 0,
    plain: false,
    placed: false,
    batch: false,
    batchIndex: 0,
    lastOfBatch: false,
    expects: false,
    expectHigh: 0,
    expectLow: 0,
    known: false,
    repetition: false,
  }
}

/** An operation that was accepted and waits for the burst to be settled (respond/ordered.ts). */
export interface Ordered {
  qp: QueuePair
  /** One of ORDERED_*, respond/ordered.ts. */
  kind: number
  /** Null for an operation that names no region: a READ of no bytes, a SEND. */
  region: Region | null
  vaHigh: number
  vaLow: number
  length: number
  psn: number
  /** The message sequence number when it was accepted. */
  msn: number
  /** A READ repeated. */
  again: boolean
  /** Opcode of an atomic, placement type of a FLUSH. */
  form: number
  /** Its operands, data or message in packet memory. */
  at: number
  /** Where it stores, an address; or where the original of an atomic goes, in packet memory. */
  to: number
  originalAt: number
  /** Of a persist: its operation; of a confirmation: receive entry and immediate. */
  operationHigh: number
  operationLow: number
  /** Fences done when it came, if it has to wait for one; else -1. */
  since: number
  /** It has stored, and waits for the fence to be answered. */
  stored: boolean
  done: boolean
}

export function blankOrdered(blankPair: QueuePair): Ordered {
  return {
    qp: blankPair,
    kind: 0,
    region: null,
    vaHigh: 0,
    vaLow: 0,
    length: 0,
    psn: 0,
    msn: 0,
    again: false,
    form: 0,
    at: 0,
    to: 0,
    originalAt: 0,
    operationHigh: 0,
    operationLow: 0,
    since: -1,
    stored: false,
    done: false,
  }
}
