/**
 * The requests that the driver makes, as jobs of a queue pair.
 *
 * Invariant: what a job carries belongs to it, and does not change until it is done.
 */

import {
  ASSOCIATE,
  ATOMIC_WRITE,
  BLOCK_SIZE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
  PREFETCH_HINT,
  READ,
  SEND,
  SEND_IMM,
  SEND_INV,
  WRITE,
  WRITE_IMM,
  WRITE_PERSIST,
} from '../../firmware/transport/requester.ts'
import type { Bseth } from '../../firmware/wire/block-size.ts'
import type { Pfeth } from '../../firmware/wire/prefetch.ts'
import type { Reth } from '../../firmware/wire/reth.ts'
import type { EndStatus, PerdureError } from '../base/errors.ts'
import { BOOLEAN, type Kinds, WORD } from '../base/kinds.ts'
import type { RegionInfo } from '../control/part.ts'
import { type FlushOptions, flushFields, type WorkRequest } from './work-request.ts'
import type { PendingWrite } from './write.ts'

/** How a job ended. */
export interface JobEnd {
  readonly status: EndStatus
  /** Status of the PERSIST_ACK that refused it, or that answered a query; else 0. */
  readonly refusal: number
  readonly copies: number
  readonly mechanism: number
  /** PSN of its last packet. */
  readonly psn: number
  /** What an atomic found, or the operation id in the answer to a query; else 0. */
  readonly resultHigh: number
  readonly resultLow: number
  /** Every operation up to the one in the answer to a query is durable. */
  readonly cumulative: boolean
  /** Of a query about a batch: a bit for each record that is durable (wire/persist-ack.ts). */
  readonly bitmap?: Uint32Array
  /** What was answered to an ASSOCIATE or BLOCK_SIZE. */
  readonly size?: Bseth
  /** The peer refused one before it, and has executed nothing since: it had no effect. */
  readonly behindRefusal: boolean
  /** It went out in pieces, and some of them had their effect before one failed. */
  readonly isPartly?: boolean
  /** What was thrown as it was made or encoded: it ends by itself, and is not sent again. */
  readonly unmade?: PerdureError
}

/** The end of a job that was never sent, or of which nothing was heard. */
export const FLUSHED: JobEnd = {
  status: 'WR_FLUSH_ERR',
  refusal: 0,
  copies: 0,
  mechanism: 0,
  psn: 0,
  resultHigh: 0,
  resultLow: 0,
  cumulative: false,
  behindRefusal: false,
}

/** Whether the peer refused the request, and broke the connection before it executed any of it. */
export function isNak(status: JobEnd['status']): boolean {
  return status === 'REM_INV_REQ_ERR' || status === 'REM_ACCESS_ERR'
}

/** Whether the DPU itself said no. */
export function isRefusal(status: JobEnd['status']): boolean {
  return isNak(status) || status === 'GENERAL_ERR'
}

/** A request whose bytes lie in the heap of this process. */
export interface HeapRequest extends WorkRequest {
  readonly data?: Uint8Array
}

/** One request on its way, and who hears of it. */
export interface Job {
  readonly request: HeapRequest
  /** A packet of it has been sent. */
  sent: boolean
  received(): void
  done(end: JobEnd): void
}

/** Views of a record in its region's addresses: slot << 32 | view << 28 | offset. */
export const VIEW_SETTLED = 1
export const VIEW_FIRST_COPY = 2

const VIEW_UNIT = 2 ** 28

const nothing = (): void => {}

/** An address in a region of the peer: its key, and the virtual address, unsigned 64 bits. */
export interface RemoteAddress {
  readonly rkey: number
  readonly va: bigint
}

/** Is told how a job ended. */
export type Done = (end: JobEnd) => void

function jobOf(request: HeapRequest, done: Done): Job {
  return { request, sent: false, received: nothing, done }
}

// ---- records -----------------------------------------------------------------------------------

/** Writes the record of `write`; `done` is told how it ended. */
export function persistJob(write: PendingWrite, done: Done): Job {
  return {
    request: persistRequest(write),
    get sent() {
      return write.sent
    },
    set sent(sent: boolean) {
      write.sent = sent
    },
    received: () => write.markReceived(),
    done,
  }
}

function persistRequest(write: PendingWrite): HeapRequest {
  const { rkey, copies, placement, takesGuards, base } = write.region.info
  const { slot, length, addressed, carried, member, area } = write
  const vaOf = (view: number): number => view * VIEW_UNIT
  const first = addressed ? vaOf(VIEW_FIRST_COPY) : 0
  const extensions: Reth[] = []
  for (let copy = 1; addressed && copy < copies; copy++) {
    extensions.push({ vaHigh: slot, vaLow: vaOf(VIEW_FIRST_COPY + copy), rkey, length })
  }
  return {
    kind: WRITE_PERSIST,
    rkey,
    address: area ? base + BigInt(slot) : (BigInt(slot) << 32n) + BigInt(first),
    data: write.payload,
    length,
    operation: write.operationId,
    wait: write.wait,
    carried,
    furtherCopies: carried ? copies - 1 : 0,
    addressed: addressed || area,
    extensions,
    batch: member ?? undefined,
    // Firmware of before may have been put back since the guard was computed.
    guard: takesGuards ? write.guard : 0,
    repetition: write.repetition,
    // One status is all that is told of a batch: there are no two steps.
    twoSteps: placement === 'through' && member === null,
  }
}

/** Reads the image of a slot in one view into `into`. */
export function readJob(
  info: RegionInfo,
  slot: number,
  view: number,
  into: Uint8Array,
  done: Done,
): Job {
  const va = (BigInt(slot) << 32n) | BigInt(view * VIEW_UNIT)
  return readBytesJob({ rkey: info.rkey, va }, into, done)
}

/** Asks whether the operation of that id, of this client, is durable. */
export function queryJob(operation: bigint, done: Done): Job {
  return jobOf({ kind: PERSIST_QUERY, operation }, done)
}

// ---- bytes -------------------------------------------------------------------------------------

/** Reads `into.length` bytes. */
export function readBytesJob(from: RemoteAddress, into: Uint8Array, done: Done): Job {
  return jobOf({ kind: READ, rkey: from.rkey, address: from.va, data: into }, done)
}

/** What a message may carry besides its bytes. */
export interface MessageOptions {
  /** Immediate data for the receiver, 0 to 2^32 - 1. */
  readonly immediate?: number
  /** Wakes the receiver; a DPU confirms by a message when what was written before is durable. */
  readonly solicited?: boolean
  /** Waits until every READ, atomic and FLUSH before it is answered. */
  readonly fenced?: boolean
}

export const MESSAGE_KINDS: Kinds<MessageOptions> = {
  immediate: WORD,
  solicited: BOOLEAN,
  fenced: BOOLEAN,
}

/** Writes `bytes`, which must not change until it is done. */
export function writeJob(
  to: RemoteAddress,
  bytes: Uint8Array,
  options: MessageOptions,
  done: Done,
): Job {
  const kind = options.immediate === undefined ? WRITE : WRITE_IMM
  return jobOf({ ...carried(bytes, options), kind, rkey: to.rkey, address: to.va }, done)
}

export interface SendOptions extends MessageOptions {
  /** Key of the receiver's that it shall invalidate; not together with immediate data. */
  readonly invalidate?: number
}

export const SEND_KINDS: Kinds<SendOptions> = { ...MESSAGE_KINDS, invalidate: WORD }

/** Sends `bytes` to whoever receives at the other end. */
export function sendJob(bytes: Uint8Array, options: SendOptions, done: Done): Job {
  const { immediate, invalidate } = options
  if (invalidate !== undefined) {
    return jobOf({ ...carried(bytes, options), kind: SEND_INV, immediate: invalidate }, done)
  }
  const kind = immediate === undefined ? SEND : SEND_IMM
  return jobOf({ ...carried(bytes, options), kind }, done)
}

function carried(data: Uint8Array, options: MessageOptions): Partial<HeapRequest> {
  return {
    data,
    immediate: options.immediate ?? 0,
    solicited: options.solicited === true,
    fenced: options.fenced === true,
  }
}

export const FLUSH_KINDS: Kinds<FlushOptions> = {
  persistent: BOOLEAN,
  global: BOOLEAN,
  wholeRegion: BOOLEAN,
}

/** Flushes what was written to `length` bytes before it. */
export function flushJob(
  to: RemoteAddress,
  length: number,
  options: FlushOptions,
  done: Done,
): Job {
  return jobOf(
    { ...flushFields(options), kind: FLUSH, rkey: to.rkey, address: to.va, length },
    done,
  )
}

/** Adds to the number at an address that eight divides. */
export function fetchAddJob(to: RemoteAddress, operation: bigint, done: Done): Job {
  return jobOf({ kind: FETCH_ADD, rkey: to.rkey, address: to.va, operation }, done)
}

/** Swaps the number at an address that eight divides, if it is `compare`. */
export function compareSwapJob(
  to: RemoteAddress,
  compare: bigint,
  operation: bigint,
  done: Done,
): Job {
  return jobOf({ kind: COMPARE_SWAP, rkey: to.rkey, address: to.va, compare, operation }, done)
}

/** Stores eight bytes at once, at an address that eight divides. */
export function atomicWriteJob(to: RemoteAddress, bytes: Uint8Array, done: Done): Job {
  return jobOf({ kind: ATOMIC_WRITE, rkey: to.rkey, address: to.va, data: bytes }, done)
}

// ---- memory status -----------------------------------------------------------------------------

/** Associates `length` bytes at an address, or ends that (source 5). */
export function associateJob(to: RemoteAddress, length: number, bseth: Bseth, done: Done): Job {
  return jobOf({ kind: ASSOCIATE, rkey: to.rkey, address: to.va, length, bseth }, done)
}

/** Proposes a block size, or asks for the current status, of what is associated under that key. */
export function blockSizeJob(rkey: number, bseth: Bseth, done: Done): Job {
  return jobOf({ kind: BLOCK_SIZE, rkey, bseth }, done)
}

/** Says that `length` bytes at an address will be accessed. */
export function prefetchJob(to: RemoteAddress, length: number, pfeth: Pfeth, done: Done): Job {
  return jobOf({ kind: PREFETCH_HINT, rkey: to.rkey, address: to.va, length, pfeth }, done)
}
