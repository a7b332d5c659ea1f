/**
 * Work requests as elements for the own card, and the card's completions in the words of the verbs.
 *
 * Invariant: a request that was checked (work.ts) makes an element; the bytes that it names
 * are not touched here, unless it is INLINE.
 */

import { RECEIVED, UP_TO, WITH_IMMEDIATE, WITH_INVALIDATE } from '../../../firmware/host/element.ts'
import {
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
  WC_OPCODES,
  WRITE_PERSIST,
} from '../../../firmware/transport/requester.ts'
import {
  PLACEMENT_GLOBAL,
  PLACEMENT_PERSISTENT,
  SELECT_RANGE,
  SELECT_REGION,
} from '../../../firmware/wire/feth.ts'
import { STATUS_DURABLE } from '../../../firmware/wire/persist-ack.ts'
import { faultOfStatus } from '../../base/errors.ts'
import { byteLenOf, has, kindOf, plainCompletion } from '../../verbs/work.ts'
import { CONDITIONS } from '../../way/batch-verdict.ts'
import {
  FENCE,
  INLINE,
  type RecvRequest,
  type SendRequest,
  type Sge,
  SIGNALED,
  SOLICITED,
  type WorkCompletion,
  type WorkStatus,
} from '../../way/verbs.ts'
import type { BatchPlace, Range } from '../../way/work-request.ts'
import { mechanismOf } from '../../way/write.ts'
import type { Completion, Receive, Work } from '../queues/work.ts'

/** An element, and the request that it is of. */
interface SendWork extends Work {
  readonly request: SendRequest
  readonly qpNum: number
}

interface RecvWork extends Receive {
  readonly received: RecvRequest
  readonly qpNum: number
}

function rangeOf({ addr, length, lkey }: Sge): Range {
  return { address: addr, length, lkey }
}

/** The element that does what the request says; behind a record of a batch `left` of its burst. */
export function workOf(request: SendRequest, qpNum: number, left: number): SendWork {
  const { flags, sgList = [], rkey = 0, remoteAddr = 0n, length } = request
  const kind = kindOf(request.opcode)
  const isSwap = kind === COMPARE_SWAP
  const { compareAdd = 0n, swap = 0n, operationId = 0n } = request
  const operand = kind === FETCH_ADD ? compareAdd : operationId
  return {
    kind,
    request,
    qpNum,
    data: sgList.map(rangeOf),
    inline: has(flags, INLINE),
    ...(kind === FLUSH ? { length: length ?? 0, ...placeOf(request) } : {}),
    rkey,
    address: remoteAddr,
    operation: isSwap ? swap : operand,
    compare: isSwap ? compareAdd : 0n,
    immediate: request.immData ?? request.invalidateRkey ?? 0,
    ...(kind === WRITE_PERSIST ? { wait: request.wait ?? 2, ...placeInBatch(request, left) } : {}),
    signaled: has(flags, SIGNALED),
    solicited: has(flags, SOLICITED),
    fenced: has(flags, FENCE),
  }
}

function placeInBatch({ batch }: SendRequest, left: number): { readonly batch?: BatchPlace } {
  if (batch === undefined) return {}
  const { id, index, count, condition, expect } = batch
  const place = { id, index, count, condition: CONDITIONS[condition], left }
  return { batch: expect === undefined ? place : { ...place, expect } }
}

function placeOf({ persistent = true, global = false, wholeRegion = false }: SendRequest): {
  readonly placement: number
  readonly selectivity: number
} {
  return {
    placement: (persistent ? PLACEMENT_PERSISTENT : 0) | (global ? PLACEMENT_GLOBAL : 0),
    selectivity: wholeRegion ? SELECT_REGION : SELECT_RANGE,
  }
}

export function receiveOf(received: RecvRequest, qpNum: number): RecvWork {
  const [sge] = received.sgList ?? []
  return { received, qpNum, range: sge === undefined ? null : rangeOf(sge) }
}

/** What the card said, in the words of the verbs; null for one that nobody asked for. */
export function completionOf(completion: Completion): WorkCompletion | null {
  const { work } = completion
  if (work === null || (completion.flags & RECEIVED) !== 0) return null
  if ('received' in work) return receivedOf(completion, work as RecvWork)
  return 'request' in work ? sentOf(completion, work as SendWork) : null
}

function sentOf(completion: Completion, { request, qpNum }: SendWork): WorkCompletion {
  const kind = kindOf(request.opcode)
  const { refusal, flags, operation, copies } = completion
  const status = completion.status as WorkStatus
  const plain = plainCompletion(request.wrId, qpNum, WC_OPCODES[kind]!, status)
  if (status === 'GENERAL_ERR') return { ...plain, fault: faultOfStatus(refusal) }
  if (status !== 'SUCCESS') return plain
  const isQuery = kind === PERSIST_QUERY
  return {
    ...plain,
    byteLen: byteLenOf(request),
    original: kind === FETCH_ADD || kind === COMPARE_SWAP ? operation : null,
    copies,
    mechanism:
      kind === WRITE_PERSIST || kind === FLUSH ? mechanismOf(completion.mechanism) : 'unknown',
    durable: isQuery && refusal === STATUS_DURABLE,
    upTo: isQuery && (flags & UP_TO) !== 0 ? operation : null,
  }
}

function receivedOf(completion: Completion, { received, qpNum }: RecvWork): WorkCompletion {
  const { flags, immediate } = completion
  const status = completion.status as WorkStatus
  const plain = plainCompletion(received.wrId, qpNum, 'RECV', status)
  if (status !== 'SUCCESS') return plain
  return {
    ...plain,
    byteLen: completion.length,
    immData: (flags & WITH_IMMEDIATE) !== 0 ? immediate : null,
    invalidatedRkey: (flags & WITH_INVALIDATE) !== 0 ? immediate : null,
  }
}
