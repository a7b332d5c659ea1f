/**
 * Work requests of the verbs as requests of a way, and the ends of these as completions.
 *
 * Invariant: a request that was checked (values.ts) can be said; the bytes that it names are not
 * touched here. Fields that its opcode does not have are left out.
 */

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
  WC_OPCODES,
  WRITE_IMM,
  WRITE_PERSIST,
} from '../../firmware/transport/requester.ts'
import type { Depths } from '../../firmware/wire/capability.ts'
import { STATUS_DURABLE } from '../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../firmware/wire/persist-query.ts'
import { faultOfStatus } from '../base/errors.ts'
import type { Granted } from '../control/management.ts'
import { CONDITIONS } from '../way/batch-verdict.ts'
import { resultOf } from '../way/chain.ts'
import type { JobEnd } from '../way/jobs.ts'
import {
  type BatchOf,
  FENCE,
  INLINE,
  type PeerAttributes,
  type RecvRequest,
  type SendRequest,
  type Sge,
  SIGNALED,
  SOLICITED,
  type WorkCompletion,
} from '../way/verbs.ts'
import type { Posted, PostedReceive, RangedRequest } from '../way/verbs-way.ts'
import { type BatchPlace, flushFields, type Range } from '../way/work-request.ts'
import { mechanismOf } from '../way/write.ts'
import { indexesIn } from './batch-work.ts'
import { has, kindOf, totalOf } from './work.ts'

function rangeOf({ addr, length, lkey }: Sge): Range {
  return { address: addr, length, lkey }
}

/** What a peer has granted, of all that a queue pair knows of it. */
export function grantedOf(peer: PeerAttributes, agreed: Depths | null): Granted {
  const { destQpNum, sqPsn, incarnation, pathMtu, tagKeys = null } = peer
  return { queuePair: destQpNum, firstPsn: sqPsn, incarnation, pathMtu, agreed, tagKeys }
}

/** What is posted for a request; behind a record of a batch come `left` of its burst. */
export function postedOf(send: SendRequest, left: number): Posted {
  const { wrId, opcode, flags, sgList = [], rkey = 0, remoteAddr = 0n } = send
  const { wait = 2, guard, batch } = send
  const asked = kindOf(opcode)
  // A message of a batch goes as its records do, and to no region.
  const message = asked === SEND && batch !== undefined
  const kind = message ? WRITE_PERSIST : asked
  const { placement, selectivity } = flushFields(send)
  const request = {
    kind,
    message,
    data: sgList.map(rangeOf),
    length: kind === FLUSH ? (send.length ?? 0) : undefined,
    rkey: message ? 0 : rkey,
    address: message ? 0n : remoteAddr,
    operation: operationOf(kind, send),
    compare: kind === COMPARE_SWAP ? send.compareAdd : undefined,
    immediate: immediateOf(kind, send),
    wait: message ? 1 : kind === WRITE_PERSIST ? wait : undefined,
    guard: asked === WRITE_PERSIST ? guard : undefined,
    batch: batch === undefined ? undefined : placeOf(batch, left),
    batchId: kind === PERSIST_QUERY ? send.batchId : undefined,
    placement,
    selectivity,
    inline: has(flags, INLINE),
    signaled: has(flags, SIGNALED),
    solicited: has(flags, SOLICITED),
    fenced: has(flags, FENCE),
  }
  return { wrId, request }
}

function operationOf(kind: RequestKind, send: SendRequest): bigint | undefined {
  const { operationId, compareAdd, swap, batchId } = send
  if (kind === FETCH_ADD) return compareAdd
  if (kind === COMPARE_SWAP) return swap
  const isNamed = kind === WRITE_PERSIST || (kind === PERSIST_QUERY && batchId === undefined)
  return isNamed ? operationId : undefined
}

function immediateOf(
  kind: RequestKind,
  { immData, invalidateRkey }: SendRequest,
): number | undefined {
  if (kind === SEND_INV) return invalidateRkey
  return kind === WRITE_IMM || kind === SEND_IMM ? immData : undefined
}

function placeOf({ id, index, count, condition, expect }: BatchOf, left: number): BatchPlace {
  return { id, index, count, condition: CONDITIONS[condition], left, expect }
}

export function postedReceiveOf({ wrId, sgList = [] }: RecvRequest): PostedReceive {
  const [sge] = sgList
  return { wrId, range: sge === undefined ? null : rangeOf(sge) }
}

/** The completion that tells how the request ended. */
export function completionOf(
  { wrId, request }: Posted,
  qpNum: number,
  end: JobEnd,
): WorkCompletion {
  const { kind, message = false } = request
  const { status, copies, refusal } = end
  const plain = plainCompletion(wrId, qpNum, WC_OPCODES[message ? SEND : kind]!, status)
  if (status === 'GENERAL_ERR') return { ...plain, fault: faultOfStatus(refusal) }
  if (status !== 'SUCCESS') return plain
  if (end.bitmap !== undefined) return { ...plain, ...ofBatch(end, end.bitmap) }
  const isQuery = kind === PERSIST_QUERY
  return {
    ...plain,
    byteLen: byteLenOf(request),
    original: kind === FETCH_ADD || kind === COMPARE_SWAP ? resultOf(end) : null,
    copies,
    mechanism: kind === WRITE_PERSIST || kind === FLUSH ? mechanismOf(end.mechanism) : 'unknown',
    durable: isQuery && refusal === STATUS_DURABLE,
    upTo: isQuery && end.cumulative ? resultOf(end) : null,
  }
}

/** What the answer to a query about a batch says. */
function ofBatch({ refusal }: JobEnd, bitmap: Uint32Array): Partial<WorkCompletion> {
  if (refusal === QUERY_NOT_KNOWN) return {}
  const fault = refusal === STATUS_DURABLE ? null : faultOfStatus(refusal)
  return { durable: fault === null, durableIndexes: indexesIn(bitmap), fault }
}

/** Bytes that a completion of the request counts. */
function byteLenOf({ kind, data }: RangedRequest): number {
  if (kind === FETCH_ADD || kind === COMPARE_SWAP) return 8
  const isBare = isOrdered(kind) && kind !== READ && kind !== ATOMIC_WRITE
  return isBare ? 0 : totalOf(data)
}

/** The completion of a receive. */
export function receivedOf(
  { wrId }: PostedReceive,
  qpNum: number,
  status: WorkCompletion['status'],
  message: Partial<WorkCompletion> = {},
): WorkCompletion {
  return { ...plainCompletion(wrId, qpNum, 'RECV', status), ...message }
}

/** A completion in which nothing but its request and its status is said. */
function plainCompletion(
  wrId: bigint,
  qpNum: number,
  opcode: string,
  status: WorkCompletion['status'],
): WorkCompletion {
  return {
    ...{ wrId, status, opcode, qpNum, byteLen: 0, immData: null, invalidatedRkey: null },
    ...{ original: null, copies: 0, mechanism: 'unknown', durable: false, upTo: null },
    ...{ durableIndexes: null, operationId: null, fault: null },
  }
}
