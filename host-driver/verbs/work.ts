/**
 * Work requests, checked: what makes no sense throws, before anything of its list is posted.
 *
 * Invariant: what has passed names memory of its own protection domain only, and has every
 * field that its opcode needs, in range; what the peer thinks of it the peer says.
 */

import {
  COPIES_MAX,
  INLINE_BYTES_MAX,
  QUEUE_DEPTH_MAX,
  SGES_MAX,
  UNIT_BYTES,
} from '../../firmware/board/limits.ts'
import { SGE_BYTES } from '../../firmware/host/element.ts'
import {
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  isOrdered,
  PERSIST_QUERY,
  READ,
  type RequestKind,
  SEND,
  SEND_IMM,
  SEND_INV,
  WRITE,
  WRITE_IMM,
  WRITE_PERSIST,
} from '../../firmware/transport/requester.ts'
import { DEPTH_TOLD_MAX, type Depths } from '../../firmware/wire/capability.ts'
import { TAG_KEY_BYTES } from '../../firmware/wire/tag.ts'
import { ArgumentError } from '../base/errors.ts'
import {
  BOOLEAN,
  bytesOf,
  check,
  checkField,
  checkFields,
  ENDPOINT,
  integer,
  type Kind,
  type Kinds,
  LIST,
  OBJECT,
  oneOf,
  SIZE,
  said,
  shown,
  UINT64,
  type What,
  WORD,
  wide,
} from '../base/kinds.ts'
import { PATH_MTU } from '../way/options.ts'
import {
  type CreateQp,
  FENCE,
  INLINE,
  type ModifyQp,
  type PeerAttributes,
  type QueuePair,
  type RecvRequest,
  type SendRequest,
  type Sge,
  SIGNALED,
  SOLICITED,
  type WorkOpcode,
} from '../way/verbs.ts'
import { checkBatchId, checkBatchOf } from './batch-work.ts'

const KINDS: Readonly<Record<WorkOpcode, RequestKind>> = {
  WRITE_PERSIST,
  RDMA_WRITE: WRITE,
  RDMA_WRITE_WITH_IMM: WRITE_IMM,
  SEND,
  SEND_WITH_IMM: SEND_IMM,
  SEND_WITH_INV: SEND_INV,
  RDMA_READ: READ,
  ATOMIC_FETCH_AND_ADD: FETCH_ADD,
  ATOMIC_CMP_AND_SWP: COMPARE_SWAP,
  FLUSH,
  ATOMIC_WRITE,
  PERSIST_QUERY,
}

const SGE_KINDS: Kinds<Sge> = { addr: SIZE, length: SIZE, lkey: WORD }

const REQUEST_KINDS: Kinds<SendRequest> = {
  ...{ wrId: UINT64, opcode: oneOf(Object.keys(KINDS)), sgList: LIST },
  flags: {
    give: 'SIGNALED, SOLICITED, FENCE, INLINE',
    takes: integer(0, SIGNALED | SOLICITED | FENCE | INLINE).takes,
  },
  ...{ rkey: WORD, remoteAddr: UINT64, immData: WORD, invalidateRkey: WORD },
  ...{ compareAdd: UINT64, swap: UINT64, length: WORD, wholeRegion: BOOLEAN },
  ...{ persistent: BOOLEAN, global: BOOLEAN, operationId: UINT64, batch: OBJECT },
  ...{ wait: integer(0, 255), guard: WORD, batchId: integer(0, 0xffff) },
}

/** The name of a record. */
const OPERATION = wide(1n)

/** Bytes that one request may have: what RoCEv2 carries. */
const MESSAGE_BYTES_MAX = 2 ** 31

/** Work requests that a queue takes, and bytes INLINE, unless it is told otherwise. */
export const SEND_DEPTH = 128
export const INLINE_MAX = 256

/** An element has up to WQE_UNITS_MAX units, and the ring must hold that many. */
const DEPTH_MAX = QUEUE_DEPTH_MAX / 32

/** Units of the longest element: with its bytes INLINE, or with as many pieces as may be. */
export function unitsFor(inlineMax: number): number {
  return 1 + Math.ceil(Math.max(inlineMax, SGES_MAX * SGE_BYTES) / UNIT_BYTES)
}

/** One, or several, as a list. */
export function asList<T>(one: T | readonly T[]): readonly T[] {
  return Array.isArray(one) ? (one as readonly T[]) : [one as T]
}

/** A request as it is now: its completion comes later, and whoever posted it may use it again. */
export function keptRequest<T extends SendRequest | RecvRequest>(request: T): T {
  check('a work request', request, OBJECT)
  const { sgList = [], batch } = request as SendRequest
  check('sgList:', sgList, LIST)
  for (const sge of sgList) checkFields('a piece', sge, SGE_KINDS, ['addr', 'length', 'lkey'])
  if (batch !== undefined) check('batch:', batch, OBJECT)
  return {
    ...request,
    sgList: sgList.map((sge) => ({ ...sge })),
    ...(batch && { batch: { ...batch } }),
  }
}

/** The kind of request that an opcode asks for. */
export function kindOf(opcode: WorkOpcode): RequestKind {
  return KINDS[opcode]
}

export function has(flags: number | undefined, flag: number): boolean {
  return ((flags ?? 0) & flag) !== 0
}

/** Bytes of a list of pieces. */
export function totalOf(pieces: readonly { readonly length: number }[]): number {
  let total = 0
  for (const { length } of pieces) total += length
  return total
}

/** What a queue pair knows of memory: throws PERDURE_ARGUMENT unless a region covers the piece. */
export type CheckSge = (sge: Sge, what: What) => void

/** Throws PERDURE_ARGUMENT for a request that makes no sense. */
export function checkSend(request: SendRequest, inlineMax: number, checkSge: CheckSge): void {
  const { wrId, opcode, sgList = [] } = request
  const what = (): string => `request ${shown(wrId)}`
  checkFields(what, request, REQUEST_KINDS, ['wrId', 'opcode'])
  const kind = KINDS[opcode]
  checkPieces(sgList, SGES_MAX, what, checkSge)
  checkLengths(request, kind, totalOf(sgList), inlineMax, what)
  if (needsPlace(kind)) {
    checkField(what, 'rkey', request.rkey, WORD)
    checkField(what, 'remoteAddr', request.remoteAddr, UINT64)
  }
  checkNeeded(request, kind, what)
}

/** Throws PERDURE_ARGUMENT for a receive that makes no sense. */
export function checkRecv(request: RecvRequest, checkSge: CheckSge): void {
  const what = (): string => `receive ${shown(request.wrId)}`
  checkField(what, 'wrId', request.wrId, UINT64)
  checkPieces(request.sgList ?? [], 1, what, checkSge)
}

function checkPieces(sgList: readonly Sge[], most: number, what: What, checkSge: CheckSge): void {
  if (sgList.length > most) {
    throw new ArgumentError(`${said(what)}: ${sgList.length} pieces: at most ${most}`)
  }
  for (const sge of sgList) checkSge(sge, what)
}

function checkLengths(
  request: SendRequest,
  kind: RequestKind,
  total: number,
  inlineMax: number,
  what: What,
): void {
  const refuse = (why: string): never => {
    throw new ArgumentError(`${said(what)}: ${why}`)
  }
  if (total >= MESSAGE_BYTES_MAX) refuse(`${total} bytes: below 2^31`)
  if (kind === ATOMIC_WRITE && total !== 8) refuse(`an atomic write has 8 bytes, not ${total}`)
  const bare = isOrdered(kind) && kind !== READ && kind !== ATOMIC_WRITE
  if (bare && total > 0) refuse(`${request.opcode} has no bytes of its own`)
  if (!has(request.flags, INLINE)) return
  if (isOrdered(kind) && kind !== ATOMIC_WRITE) refuse(`${request.opcode} carries nothing INLINE`)
  if (total > inlineMax) refuse(`${total} bytes INLINE: at most ${inlineMax}`)
}

/** Whether the request names an address at the peer. */
function needsPlace(kind: RequestKind): boolean {
  return kind !== SEND && kind !== SEND_IMM && kind !== SEND_INV && kind !== PERSIST_QUERY
}

function checkNeeded(request: SendRequest, kind: RequestKind, what: What): void {
  const { operationId, wait = 2, batch } = request
  if (batch !== undefined) {
    if (kind !== WRITE_PERSIST && kind !== SEND) {
      throw new ArgumentError(`${said(what)}: a batch is of WRITE_PERSIST and SEND`)
    }
    checkBatchOf(batch, what)
    if (kind === SEND) checkMessage(request, what)
  }
  if (kind === WRITE_IMM || kind === SEND_IMM) checkField(what, 'immData', request.immData, WORD)
  if (kind === SEND_INV) checkField(what, 'invalidateRkey', request.invalidateRkey, WORD)
  if (kind === FETCH_ADD || kind === COMPARE_SWAP) {
    checkField(what, 'compareAdd', request.compareAdd, UINT64)
    if (request.remoteAddr! % 8n !== 0n) {
      throw new ArgumentError(`${said(what)}: remoteAddr ${request.remoteAddr}: a multiple of 8`)
    }
  }
  if (kind === ATOMIC_WRITE && request.remoteAddr! % 8n !== 0n) {
    throw new ArgumentError(`${said(what)}: remoteAddr ${request.remoteAddr}: a multiple of 8`)
  }
  if (kind === COMPARE_SWAP) checkField(what, 'swap', request.swap, UINT64)
  if (kind === FLUSH) checkFlush(request, what)
  if (kind !== WRITE_PERSIST && kind !== PERSIST_QUERY) return
  if (kind === PERSIST_QUERY && request.batchId !== undefined) {
    checkBatchId(request.batchId, what)
    return
  }
  checkField(what, 'operationId', operationId, OPERATION)
  if (kind === WRITE_PERSIST && !(Number.isInteger(wait) && wait >= 1 && wait <= COPIES_MAX)) {
    throw new ArgumentError(`${said(what)}: wait for ${wait} copies: 1 to ${COPIES_MAX}`)
  }
}

/** What a message of a batch says of itself besides what a SEND does. */
function checkMessage({ operationId, flags }: SendRequest, what: What): void {
  checkField(what, 'operationId', operationId, OPERATION)
  if (has(flags, SOLICITED)) throw new ArgumentError(`${said(what)}: batch: SOLICITED`)
}

function checkFlush(request: SendRequest, what: What): void {
  const { persistent = true, global = false, wholeRegion = false, length } = request
  if (!persistent && !global) throw new ArgumentError(`${said(what)}: persistent, global, or both`)
  if (!wholeRegion) checkField(what, 'length', length, WORD)
}

const DEPTH = integer(1, DEPTH_MAX)

const CREATE_KINDS: Kinds<CreateQp> = {
  ...{ sendCq: OBJECT, recvCq: OBJECT, sendDepth: DEPTH, recvDepth: DEPTH },
  inlineMax: integer(0, INLINE_BYTES_MAX),
}

/** Throws PERDURE_ARGUMENT unless such a queue pair can be. */
export function checkCreate(options: CreateQp): void {
  checkFields('a queue pair', options, CREATE_KINDS, ['sendCq', 'recvCq'])
}

/** Throws PERDURE_ARGUMENT unless a completion queue can be so deep. */
export function checkDepth(depth: number): void {
  check('a completion queue of', depth, DEPTH)
}

/** Throws PERDURE_ARGUMENT unless so many completions can be taken. */
export function checkMost(most: number): void {
  check('poll', most, SIZE)
}

/** Throws PERDURE_ARGUMENT unless the queue pair may be connected: before its peer is asked. */
export function checkInit({ qpNum, state }: QueuePair): void {
  if (state === 'INIT') return
  throw new ArgumentError(`connect queue pair ${qpNum}: it is in ${state}`)
}

/** Throws PERDURE_ARGUMENT unless a queue pair may be asked for that. */
export function checkModify(change: ModifyQp): void {
  checkFields('a change', change as ModifyFields, MODIFY_KINDS, ['state'])
  const { state, peer } = change as ModifyFields
  if (state === 'RTS' && peer !== null) {
    checkFields('a peer', peer as PeerAttributes, PEER_KINDS, PEER_NEEDED)
  }
}

interface ModifyFields {
  readonly state: string
  readonly peer: PeerAttributes | null
}

const MODIFY_KINDS: Kinds<ModifyFields> = {
  state: oneOf(['RTS', 'ERR']),
  peer: { ...OBJECT, takes: (value) => value === null || OBJECT.takes(value) },
}

const NUMBER_24 = integer(0, 2 ** 24 - 1)

const TOLD = integer(1, DEPTH_TOLD_MAX)

const DEPTHS: Kind = {
  give: `null, or send and receive, each ${TOLD.give}`,
  takes: (value) => {
    if (value === null) return true
    const { send, receive } = Object(value) as Partial<Depths>
    return TOLD.takes(send) && TOLD.takes(receive)
  },
}

const TAG_KEYS: Kind = {
  give: `null, or ${2 * TAG_KEY_BYTES} bytes`,
  takes: (value) => value === null || bytesOf(2 * TAG_KEY_BYTES).takes(value),
}

const PEER_KINDS: Kinds<PeerAttributes> = {
  ...{ destQpNum: NUMBER_24, sqPsn: NUMBER_24, rqPsn: NUMBER_24, pathMtu: PATH_MTU },
  ...{ incarnation: WORD, at: ENDPOINT, depths: DEPTHS, tagKeys: TAG_KEYS },
}

const PEER_NEEDED = ['destQpNum', 'sqPsn', 'rqPsn', 'pathMtu', 'incarnation'] as const
