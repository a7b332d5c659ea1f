/**
 * The requests that the driver makes, as jobs of a queue pair.
 *
 * Invariant: a job says everything that its packets need and nothing about when they go;
 * what it carries belongs to it, and does not change until it is done.
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
  type RequestKind,
  SEND,
  SEND_IMM,
  SEND_INV,
  WRITE,
  WRITE_IMM,
  WRITE_PERSIST,
} from '../../firmware/transport/requester.ts'
import type { Bseth } from '../../firmware/wire/block-size.ts'
import {
  type Feth,
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  SELECT_RANGE,
  SELECT_REGION,
} from '../../firmware/wire/feth.ts'
import { blankPweth, type Pweth } from '../../firmware/wire/persist.ts'
import type { Pfeth } from '../../firmware/wire/prefetch.ts'
import type { Reth } from '../../firmware/wire/reth.ts'
import type { EndStatus, PerdureError } from '../base/errors.ts'
import { BOOLEAN, type Kinds, WORD } from '../base/kinds.ts'
import type { RegionInfo } from '../control/part.ts'
import type { Member, PendingWrite } from './write.ts'

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

/** One request: where it goes, and what it carries or brings. */
export interface Job {
  readonly kind: RequestKind
  readonly vaHigh: number
  readonly vaLow: number
  readonly rkey: number
  /** Length that the RETH announces, bytes: of the message, or of what is read or flushed. */
  readonly length: number
  /** What a message sends; what a READ fills; the eight bytes of an ATOMIC WRITE. */
  readonly payload: Uint8Array
  readonly pweth: Pweth | null
  /** Where the further copies of a carried record go; empty where the slot says it. */
  readonly extensions: readonly Reth[]
  /** Of a record of a batch: the sequence that the slot must hold, or null. */
  readonly expect: bigint | null
  readonly feth: Feth | null
  /** Of ASSOCIATE and BLOCK_SIZE; of PREFETCH_HINT. */
  readonly bseth: Bseth | null
  readonly pfeth: Pfeth | null
  /** For WRITE_IMM and SEND_IMM, 32 bits; for SEND_INV the key to be invalidated. */
  readonly immediate: number
  /** The receiver of the message shall be woken, or asked to confirm. */
  readonly solicited: boolean
  /** Waits until every READ, atomic and FLUSH before it is answered. */
  readonly fenced: boolean
  /** Is told twice, over the queues of a card: received, and durable (source 2, flow 2). */
  readonly twoSteps: boolean
  /** Of atomics: what is added or swapped in, and what it is compared with; unsigned 64 bits. */
  readonly operand: bigint
  readonly compare: bigint
  /** Of a persist or a query. */
  readonly operationId: bigint
  /** Of a query: the batch that it asks about, instead of an operation, or null. */
  readonly batchId: number | null
  /** A packet of it has been sent. */
  sent: boolean
  received(): void
  done(end: JobEnd): void
}

/** Views of a record in its region's addresses: slot << 32 | view << 28 | offset. */
export const VIEW_SETTLED = 1
export const VIEW_FIRST_COPY = 2

const VIEW_UNIT = 2 ** 28

const NO_PAYLOAD = new Uint8Array(0)
const nothing = (): void => {}

/** An address in a region of the peer: its key, and the virtual address, unsigned 64 bits. */
export interface RemoteAddress {
  readonly rkey: number
  readonly va: bigint
}

/** Is told how a job ended. */
export type Done = (end: JobEnd) => void

function blankJob(kind: RequestKind, to: RemoteAddress, done: Done): Job {
  return {
    kind,
    vaHigh: Number(to.va >> 32n),
    vaLow: Number(to.va & 0xffffffffn),
    rkey: to.rkey,
    length: 0,
    payload: NO_PAYLOAD,
    pweth: null,
    extensions: [],
    expect: null,
    feth: null,
    bseth: null,
    pfeth: null,
    immediate: 0,
    solicited: false,
    fenced: false,
    twoSteps: false,
    operand: 0n,
    compare: 0n,
    operationId: 0n,
    batchId: null,
    sent: false,
    received: nothing,
    done,
  }
}

const NOWHERE: RemoteAddress = { rkey: 0, va: 0n }

// ---- records -----------------------------------------------------------------------------------

/** Writes the record of `write`; `done` is told how it ended. */
export function persistJob(write: PendingWrite, done: Done): Job {
  const { info } = write.region
  const { rkey, copies } = info
  const { slot, length, addressed } = write
  const vaOf = (view: number): number => view * VIEW_UNIT
  const first = addressed ? vaOf(VIEW_FIRST_COPY) : 0
  const extensions: Reth[] = []
  for (let copy = 1; addressed && copy < copies; copy++) {
    extensions.push({ vaHigh: slot, vaLow: vaOf(VIEW_FIRST_COPY + copy), rkey, length })
  }
  return {
    ...blankJob(WRITE_PERSIST, { rkey, va: (BigInt(slot) << 32n) + BigInt(first) }, done),
    length,
    payload: write.payload,
    pweth: persistHeader(write, copies),
    twoSteps: write.region.info.placement === 'through',
    extensions,
    expect: write.expect,
    operationId: write.operationId,
    get sent() {
      return write.sent
    },
    set sent(sent: boolean) {
      write.sent = sent
    },
    received: () => write.markReceived(),
  }
}

function persistHeader(write: PendingWrite, copies: number): Pweth {
  return {
    ...blankPweth(),
    wait: write.wait,
    slotAddressed: !write.addressed,
    carried: write.carried,
    furtherCopies: write.carried ? copies - 1 : 0,
    wantsAck: true,
    repetition: write.repetition,
    operationHigh: Number(write.operationId >> 32n),
    operationLow: Number(write.operationId & 0xffffffffn),
    ...(write.member && batchFields(write.member)),
  }
}

/** What the header of a record says about its batch: it is answered by one status. */
function batchFields({ id, index, count, condition, isLast }: Member): Partial<Pweth> {
  return {
    ...{ batch: true, oneStatus: true, batchId: id, batchIndex: index, batchCount: count },
    ...{ condition, lastOfBatch: isLast },
  }
}

/** Stores `bytes` in the slot at that address; it waits for so many durable copies. */
export function recordJob(
  to: RemoteAddress,
  bytes: Uint8Array,
  operationId: bigint,
  wait: number,
  done: Done,
  member: Member | null = null,
  expect: bigint | null = null,
): Job {
  return {
    ...blankJob(WRITE_PERSIST, to, done),
    length: bytes.length,
    payload: bytes,
    pweth: {
      ...blankPweth(),
      wait,
      slotAddressed: true,
      wantsAck: true,
      operationHigh: Number(operationId >> 32n),
      operationLow: Number(operationId & 0xffffffffn),
      ...(member && batchFields(member)),
    },
    expect,
    operationId,
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
export function queryJob(operationId: bigint, done: Done): Job {
  return { ...blankJob(PERSIST_QUERY, NOWHERE, done), operationId }
}

/** Asks what became of the last batch of the connection, if that is its id (P4-12). */
export function batchQueryJob(batchId: number, done: Done): Job {
  return { ...blankJob(PERSIST_QUERY, NOWHERE, done), batchId }
}

// ---- bytes -------------------------------------------------------------------------------------

/** Reads `into.length` bytes. */
export function readBytesJob(from: RemoteAddress, into: Uint8Array, done: Done): Job {
  return { ...blankJob(READ, from, done), length: into.length, payload: into }
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
  return { ...blankJob(kind, to, done), ...carried(bytes, options) }
}

export interface SendOptions extends MessageOptions {
  /** Key of the receiver's that it shall invalidate; not together with immediate data. */
  readonly invalidate?: number
}

export const SEND_KINDS: Kinds<SendOptions> = { ...MESSAGE_KINDS, invalidate: WORD }

/** Sends `bytes` to whoever receives at the other end. */
export function sendJob(bytes: Uint8Array, options: SendOptions, done: Done): Job {
  let kind: RequestKind = SEND
  if (options.immediate !== undefined) kind = SEND_IMM
  if (options.invalidate !== undefined) kind = SEND_INV
  const job = { ...blankJob(kind, NOWHERE, done), ...carried(bytes, options) }
  return kind === SEND_INV ? { ...job, immediate: options.invalidate! } : job
}

function carried(bytes: Uint8Array, options: MessageOptions): Partial<Job> {
  return {
    length: bytes.length,
    payload: bytes,
    immediate: options.immediate ?? 0,
    solicited: options.solicited === true,
    fenced: options.fenced === true,
  }
}

export interface FlushOptions {
  /** In a domain that survives power loss; true by default. */
  readonly persistent?: boolean
  /** Visible to everybody at the other end; false by default. */
  readonly global?: boolean
  /** The whole region, whatever the range says. */
  readonly wholeRegion?: boolean
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
  const { persistent = true, global = false, wholeRegion = false } = options
  const placement = (persistent ? PLACEMENT_PERSISTENT : 0) | (global ? PLACEMENT_GLOBAL : 0)
  const selectivity = wholeRegion ? SELECT_REGION : SELECT_RANGE
  return {
    ...blankJob(FLUSH, to, done),
    length,
    feth: { placement, selectivity, reserved: 0 },
  }
}

/** Adds to the number at an address that eight divides. */
export function fetchAddJob(to: RemoteAddress, operand: bigint, done: Done): Job {
  return { ...blankJob(FETCH_ADD, to, done), operand }
}

/** Swaps the number at an address that eight divides, if it is `compare`. */
export function compareSwapJob(
  to: RemoteAddress,
  compare: bigint,
  operand: bigint,
  done: Done,
): Job {
  return { ...blankJob(COMPARE_SWAP, to, done), compare, operand }
}

/** Stores eight bytes at once, at an address that eight divides. */
export function atomicWriteJob(to: RemoteAddress, bytes: Uint8Array, done: Done): Job {
  return { ...blankJob(ATOMIC_WRITE, to, done), length: bytes.length, payload: bytes }
}

// ---- memory status -----------------------------------------------------------------------------

/** Associates `length` bytes at an address, or ends that (source 5). */
export function associateJob(to: RemoteAddress, length: number, bseth: Bseth, done: Done): Job {
  return { ...blankJob(ASSOCIATE, to, done), length, bseth }
}

/** Proposes a block size, or asks for the current status, of what is associated under that key. */
export function blockSizeJob(rkey: number, bseth: Bseth, done: Done): Job {
  return { ...blankJob(BLOCK_SIZE, { rkey, va: 0n }, done), bseth }
}

/** Says that `length` bytes at an address will be accessed. */
export function prefetchJob(to: RemoteAddress, length: number, pfeth: Pfeth, done: Done): Job {
  return { ...blankJob(PREFETCH_HINT, to, done), length, pfeth }
}
