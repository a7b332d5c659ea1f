/**
 * Queue pairs: one reliable connection each, as its responder sees it (wire-format 3.1).
 *
 * What always holds:
 * - `expectedPsn` moves forward only, by the PSNs of an accepted request; `messageSequence` by one
 *   for each finished message. Every acknowledgement is made from them.
 * - A message of several packets belongs to one queue pair at a time; what it gathers lies in a
 *   staging buffer until its last packet, and touches no slot before (D-7).
 * - `template` holds the headers of every answer, so an answer is a copy and a few fields.
 * - What became of the last records is remembered by PSN *and* operation id: a duplicate is
 *   answered from here and never executed; a PSN alone earns nothing (D-6).
 */

import type { Fault } from '../fault.ts'
import { PASS } from '../fault.ts'
import { QUEUE_PAIRS, REMEMBERED_RECORDS } from '../limits.ts'
import { TEMPLATE_BYTES, TEMPLATES_AT } from '../memory-map.ts'
import type { Psn } from './psn.ts'

/** The queue pair serves. */
export const STATE_OPEN = 1
/** After a fatal NAK: total silence until it is closed (wire-format 3.4). */
export const STATE_ERROR = 2

/** No message is in progress. */
export const MESSAGE_NONE = 0
export const MESSAGE_WRITE = 1
export const MESSAGE_PERSIST = 2

export interface QueuePair {
  readonly index: number
  readonly number: number
  readonly peerNumber: number
  readonly clientHigh: number
  readonly clientLow: number
  readonly pathMtu: number
  readonly protectionDomain: number
  readonly firstPsn: Psn
  state: number
  expectedPsn: Psn
  messageSequence: number
  /** The gap was already reported; silence until there is progress (wire-format 3.4). */
  nakSent: boolean
  /** Was it spoken to in this burst? */
  touched: boolean
  /** An acknowledgement is due, up to the expected PSN. */
  ackDue: boolean

  /** The message in progress. */
  message: number
  /** Bytes that are still to come. */
  messageLeft: number
  /** Where the next packet's payload goes: an address of the board. */
  messageTo: number
  messageFault: Fault
  /** Staging buffer in use, or -1. */
  staging: number
  lastPacketUs: number

  /** READs of this burst that wait for their answer; answers behind them wait too. */
  readsWaiting: number
  /** PSN before the first waiting READ: no acknowledgement may pass it. */
  ackLimit: Psn
  /** PSNs of the last READs, or -1: an answer to a duplicate must not pass them. */
  readonly readPsns: Int32Array
  readsNoted: number
  /** Grows when a record is refused: no range of acknowledged records spans the gap. */
  segment: number

  /** The last records: PSN (or -1), operation id, status, durable copies. */
  readonly rememberedPsn: Int32Array
  readonly rememberedHigh: Int32Array
  readonly rememberedLow: Int32Array
  readonly rememberedStatus: Uint8Array
  readonly rememberedCopies: Uint8Array

  /** Headers of an answer, in packet memory, up to and with BTH. */
  readonly templateAt: number
  templateBytes: number
  ipVersion: number
  /** The peer's IPv4 address as the word that it is in packet memory. */
  peerIpv4: number
  /** Sum of the IPv4 header's words without length and checksum. */
  ipSum: number
}

/** READs remembered, at least the responder resources that RoCEv2 peers use; a power of two. */
const NOTED_READS = 16

export interface QueuePairTable {
  readonly places: (QueuePair | null)[]
  /** Upper sixteen bits of the numbers handed out: another value in each incarnation. */
  salt: number
  /** Where the search for a free place begins, so that a number is not soon used again. */
  next: number
}

export function createQueuePairTable(): QueuePairTable {
  const places: (QueuePair | null)[] = []
  for (let i = 0; i < QUEUE_PAIRS; i++) places.push(null)
  return { places, salt: 0, next: 0 }
}

/** The open queue pair of that number, or null. The low byte is its place in the table. */
export function findQueuePair(table: QueuePairTable, number: number): QueuePair | null {
  const qp = table.places[number & (QUEUE_PAIRS - 1)]!
  return qp !== null && qp.number === number ? qp : null
}

/** What a queue pair is opened with. */
export interface QueuePairOptions {
  readonly peerNumber: number
  readonly clientHigh: number
  readonly clientLow: number
  readonly pathMtu: number
  readonly protectionDomain: number
  readonly expectedPsn: Psn
}

/**
 * A number for a new queue pair, or -1. A free place is taken first, then one in the error state,
 * which is silent for ever, then one that never was used: a flood of connections that do nothing
 * keeps nobody out.
 */
export function freeNumber(table: QueuePairTable): number {
  for (let pass = 0; pass < 3; pass++) {
    for (let i = 0; i < QUEUE_PAIRS; i++) {
      const place = (table.next + i) & (QUEUE_PAIRS - 1)
      if (!mayTake(table.places[place]!, pass)) continue
      table.next = place + 1
      return (table.salt << 8) | place
    }
  }
  return -1
}

function mayTake(qp: QueuePair | null, pass: number): boolean {
  if (qp === null || pass === 0) return qp === null
  if (qp.state === STATE_ERROR || pass === 1) return qp.state === STATE_ERROR
  return qp.expectedPsn === qp.firstPsn && qp.message === MESSAGE_NONE
}

/** Opens the queue pair of that number; its place must be free. */
export function openQueuePair(
  table: QueuePairTable,
  number: number,
  options: QueuePairOptions,
): QueuePair {
  const qp = createQueuePair(number & (QUEUE_PAIRS - 1), number, options)
  table.places[qp.index] = qp
  return qp
}

/** A queue pair in no table: for management, which has no connection but answers like one. */
export function createQueuePair(
  index: number,
  number: number,
  options: QueuePairOptions,
): QueuePair {
  return {
    index,
    number,
    peerNumber: options.peerNumber,
    clientHigh: options.clientHigh,
    clientLow: options.clientLow,
    pathMtu: options.pathMtu,
    protectionDomain: options.protectionDomain,
    firstPsn: options.expectedPsn,
    state: STATE_OPEN,
    expectedPsn: options.expectedPsn,
    messageSequence: 0,
    nakSent: false,
    touched: false,
    ackDue: false,
    message: MESSAGE_NONE,
    messageLeft: 0,
    messageTo: 0,
    messageFault: PASS,
    staging: -1,
    lastPacketUs: 0,
    readsWaiting: 0,
    ackLimit: options.expectedPsn,
    readPsns: new Int32Array(NOTED_READS).fill(-1),
    readsNoted: 0,
    segment: 0,
    rememberedPsn: new Int32Array(REMEMBERED_RECORDS).fill(-1),
    rememberedHigh: new Int32Array(REMEMBERED_RECORDS),
    rememberedLow: new Int32Array(REMEMBERED_RECORDS),
    rememberedStatus: new Uint8Array(REMEMBERED_RECORDS),
    rememberedCopies: new Uint8Array(REMEMBERED_RECORDS),
    templateAt: TEMPLATES_AT + index * TEMPLATE_BYTES,
    templateBytes: 0,
    ipVersion: 4,
    peerIpv4: 0,
    ipSum: 0,
  }
}

export function closeQueuePair(table: QueuePairTable, qp: QueuePair): void {
  table.places[qp.index] = null
}

/** Keeps the PSN of an accepted READ. */
export function noteRead(qp: QueuePair, psn: number): void {
  qp.readPsns[qp.readsNoted] = psn
  qp.readsNoted = (qp.readsNoted + 1) & (NOTED_READS - 1)
}

/** Keeps what became of the record that ended at `psn`. */
export function remember(
  qp: QueuePair,
  psn: number,
  operationHigh: number,
  operationLow: number,
  status: number,
  copies: number,
): void {
  const place = psn & (REMEMBERED_RECORDS - 1)
  qp.rememberedPsn[place] = psn
  qp.rememberedHigh[place] = operationHigh
  qp.rememberedLow[place] = operationLow
  qp.rememberedStatus[place] = status
  qp.rememberedCopies[place] = copies
}

/** The place of the record that ended at `psn` under that operation id, or -1. */
export function recall(
  qp: QueuePair,
  psn: number,
  operationHigh: number,
  operationLow: number,
): number {
  const place = psn & (REMEMBERED_RECORDS - 1)
  if (qp.rememberedPsn[place] !== psn) return -1
  if (qp.rememberedHigh[place] !== (operationHigh | 0)) return -1
  return qp.rememberedLow[place] === (operationLow | 0) ? place : -1
}
