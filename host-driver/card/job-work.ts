/**
 * What a queue does with the driver's jobs before and after their elements: pieces, refusals, ends.
 *
 * Invariant: a job becomes one element, or several that together do the same where it reads
 * or writes more bytes than one takes; a job that no element can say is never posted.
 */

import { BATCH_ELEMENT_BYTES_MAX } from '../../firmware/board/limits.ts'
import { RECEIVED, UP_TO } from '../../firmware/host/element.ts'
import * as kind from '../../firmware/transport/requester.ts'
import { BSETH_BYTES, type Bseth, blankBseth, readBseth } from '../../firmware/wire/block-size.ts'
import { high, low } from '../base/wide.ts'
import { FLUSHED, type HeapRequest, type Job, type JobEnd } from '../way/jobs.ts'
import type { Range, WorkRequest } from '../way/work-request.ts'
import type { Completion, WcName } from './queues/values.ts'

/** Bytes that one element reads or writes: what a card gathers at once. */
export const PIECE_BYTES = 131072

/** A part of what a job reads or writes; of other jobs all of it. */
export interface Piece {
  readonly offset: number
  readonly length: number
  readonly isLast: boolean
}

/** The elements that a request becomes. */
export function piecesOf({ kind: what, data }: HeapRequest): Piece[] {
  const whole = data?.length ?? 0
  const splits = what === kind.READ || what === kind.WRITE || what === kind.WRITE_IMM
  if (!splits || whole <= PIECE_BYTES) return [{ offset: 0, length: whole, isLast: true }]
  const pieces: Piece[] = []
  for (let offset = 0; offset < whole; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, whole - offset)
    pieces.push({ offset, length, isLast: offset + length === whole })
  }
  return pieces
}

/** One piece as a request of its own; a READ puts its bytes into `into`. */
export function pieceOf(request: HeapRequest, piece: Piece, into: Range | null): WorkRequest {
  const { offset, length, isLast } = piece
  const { data, address = 0n, fenced = false, solicited = false } = request
  const isRead = request.kind === kind.READ
  const ranges = into === null ? [] : [into]
  if (offset === 0 && isLast) return isRead ? { ...request, data: ranges } : request
  return {
    ...request,
    kind: request.kind === kind.WRITE_IMM && !isLast ? kind.WRITE : request.kind,
    address: address + BigInt(offset),
    fenced: fenced && offset === 0,
    solicited: solicited && isLast,
    data: isRead ? ranges : data!.subarray(offset, offset + length),
  }
}

/**
 * Why elements of such a queue cannot say the jobs of a list; null of one that they can. A burst of
 * a batch goes as a whole, or not at all.
 */
export function refusalsOf(jobs: readonly Job[], isLocal: boolean): (JobEnd['status'] | null)[] {
  const tooLong = jobs.some(({ request: { batch, data } }) => {
    return batch !== undefined && data!.length > BATCH_ELEMENT_BYTES_MAX
  })
  return jobs.map(({ request }) => {
    return tooLong && request.batch !== undefined ? 'LOC_LEN_ERR' : refusalOf(request, isLocal)
  })
}

/** Why an element of such a queue cannot say the request; null if one can. */
function refusalOf(request: HeapRequest, isLocal: boolean): JobEnd['status'] | null {
  const { kind: what, data } = request
  const sends = what >= kind.SEND && what <= kind.SEND_INV
  // Nobody receives what a host sends to its local card.
  if (isLocal && (sends || what === kind.WRITE_IMM)) return 'REM_INV_REQ_ERR'
  // And the status of its own memory its card does not tell it.
  if (isLocal && what >= kind.ASSOCIATE) return 'REM_INV_REQ_ERR'
  return sends && data!.length > PIECE_BYTES ? 'REM_INV_REQ_ERR' : null
}

/** What the queue pair of another way would have said. */
export function statusOf(status: WcName): JobEnd['status'] {
  switch (status) {
    case 'SUCCESS':
    case 'REM_INV_REQ_ERR':
    case 'REM_ACCESS_ERR':
    case 'REM_OP_ERR':
    case 'RETRY_EXC_ERR':
    case 'RNR_RETRY_EXC_ERR':
    case 'RESP_TIMEOUT_ERR':
    case 'GENERAL_ERR':
    case 'LOC_LEN_ERR':
    case 'LOC_QP_OP_ERR':
    case 'LOC_PROT_ERR':
    case 'LOC_ACCESS_ERR':
    case 'FATAL_ERR':
      return status
    default:
      return 'WR_FLUSH_ERR'
  }
}

/** Whether the completion says only that the peer has it. */
export function isReceipt(completion: Completion): boolean {
  return completion.status === 'SUCCESS' && (completion.flags & RECEIVED) !== 0
}

/** How a request of that kind ended. */
export function endOf(
  what: kind.RequestKind,
  completion: Completion,
  behindRefusal: boolean,
): JobEnd {
  const hasResult =
    what === kind.FETCH_ADD || what === kind.COMPARE_SWAP || what === kind.PERSIST_QUERY
  const isSized = what === kind.ASSOCIATE || what === kind.BLOCK_SIZE
  const result = hasResult ? completion.operation : 0n
  return {
    status: statusOf(completion.status),
    refusal: completion.refusal,
    copies: completion.copies,
    mechanism: completion.mechanism,
    psn: completion.psn,
    resultHigh: high(result),
    resultLow: low(result),
    cumulative: (completion.flags & UP_TO) !== 0,
    behindRefusal,
    ...(isSized && completion.status === 'SUCCESS' ? { size: sizeOf(completion) } : {}),
  }
}

/** The size in the answer. */
function sizeOf({ operation, address }: Completion): Bseth {
  const bytes = new DataView(new ArrayBuffer(BSETH_BYTES))
  bytes.setBigUint64(0, operation)
  bytes.setBigUint64(8, address)
  const bseth = blankBseth()
  readBseth(bseth, new Uint8Array(bytes.buffer), 0)
  return bseth
}

/** A job of which nothing was posted, or nothing more will be heard. */
export function unheard(status: JobEnd['status'], behindRefusal: boolean): JobEnd {
  return { ...FLUSHED, status, behindRefusal }
}
