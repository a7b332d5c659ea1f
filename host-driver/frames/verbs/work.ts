/**
 * Work requests as jobs, and the ends of jobs as completions.
 *
 * Invariant: a request that was checked (work.ts) makes a job; bytes that are INLINE, or in
 * several pieces, are copied, and one piece is sent from where it lies.
 */

import {
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
  WC_OPCODES,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { QUERY_NOT_KNOWN } from '../../../firmware/wire/persist-query.ts'
import { faultOfStatus } from '../../base/errors.ts'
import { indexesIn, memberOf } from '../../verbs/batch-work.ts'
import { byteLenOf, has, kindOf, plainCompletion, totalOf } from '../../verbs/work.ts'
import { resultOf } from '../../way/chain.ts'
import {
  atomicWriteJob,
  batchQueryJob,
  compareSwapJob,
  type Done,
  fetchAddJob,
  flushJob,
  type Job,
  type JobEnd,
  queryJob,
  type RemoteAddress,
  readBytesJob,
  recordJob,
  sendJob,
  writeJob,
} from '../../way/jobs.ts'
import {
  FENCE,
  INLINE,
  type SendRequest,
  type Sge,
  SOLICITED,
  type WorkCompletion,
} from '../../way/verbs.ts'
import { mechanismOf } from '../../way/write.ts'
import type { WireMemory } from './memory.ts'

/** The bytes of a request: where they lie, or a copy of them. */
function gather(memory: WireMemory, sgList: readonly Sge[], copied: boolean): Uint8Array {
  if (sgList.length === 1 && !copied) return memory.at(sgList[0]!)
  const bytes = new Uint8Array(totalOf(sgList))
  let at = 0
  for (const sge of sgList) {
    bytes.set(memory.at(sge), at)
    at += sge.length
  }
  return bytes
}

/** Puts what a READ brought, or a message, where it belongs. */
export function scatter(memory: WireMemory, sgList: readonly Sge[], bytes: Uint8Array): void {
  let at = 0
  for (const sge of sgList) {
    memory.at(sge).set(bytes.subarray(at, at + sge.length))
    at += sge.length
  }
}

/** The bytes that a request sends, or has filled, as they are at the time of the call. */
export function bytesOf(memory: WireMemory, request: SendRequest): Uint8Array {
  return gather(memory, request.sgList ?? [], has(request.flags, INLINE))
}

/** The job that does what the request says. */
export function jobOf(request: SendRequest, bytes: Uint8Array, done: Done): Job {
  const { flags } = request
  const job = plainJob(request, bytes, done)
  const marks = { solicited: has(flags, SOLICITED), fenced: has(flags, FENCE) }
  return { ...job, request: { ...job.request, ...marks } }
}

function plainJob(request: SendRequest, bytes: Uint8Array, done: Done): Job {
  const { immData, invalidateRkey, compareAdd = 0n, swap = 0n, operationId = 0n } = request
  const to: RemoteAddress = { rkey: request.rkey ?? 0, va: request.remoteAddr ?? 0n }
  switch (request.opcode) {
    case 'WRITE_PERSIST':
      return recordOf(request, to, bytes, done)
    case 'RDMA_WRITE':
      return writeJob(to, bytes, {}, done)
    case 'RDMA_WRITE_WITH_IMM':
      return writeJob(to, bytes, { immediate: immData! }, done)
    case 'SEND':
      return sendJob(bytes, {}, done)
    case 'SEND_WITH_IMM':
      return sendJob(bytes, { immediate: immData! }, done)
    case 'SEND_WITH_INV':
      return sendJob(bytes, { invalidate: invalidateRkey! }, done)
    case 'RDMA_READ':
      return readBytesJob(to, bytes, done)
    case 'ATOMIC_FETCH_AND_ADD':
      return fetchAddJob(to, compareAdd, done)
    case 'ATOMIC_CMP_AND_SWP':
      return compareSwapJob(to, compareAdd, swap, done)
    case 'FLUSH':
      return flushJob(to, request.length ?? 0, request, done)
    case 'ATOMIC_WRITE':
      return atomicWriteJob(to, bytes, done)
    case 'PERSIST_QUERY':
      return request.batchId === undefined
        ? queryJob(operationId, done)
        : batchQueryJob(request.batchId, done)
  }
}

/** What the answer to a query about a batch says. */
function ofBatch({ refusal }: JobEnd, bitmap: Uint32Array): Partial<WorkCompletion> {
  if (refusal === QUERY_NOT_KNOWN) return {}
  const fault = refusal === STATUS_DURABLE ? null : faultOfStatus(refusal)
  return { durable: fault === null, durableIndexes: indexesIn(bitmap), fault }
}

function recordOf(request: SendRequest, to: RemoteAddress, bytes: Uint8Array, done: Done): Job {
  const { operationId = 0n, wait = 2 } = request
  return recordJob(to, bytes, operationId, wait, done, memberOf(request))
}

/** The completion that tells how the request ended. */
export function completionOf(request: SendRequest, qpNum: number, end: JobEnd): WorkCompletion {
  const kind = kindOf(request.opcode)
  const { status, copies, refusal } = end
  const plain = plainCompletion(request.wrId, qpNum, WC_OPCODES[kind]!, status)
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
