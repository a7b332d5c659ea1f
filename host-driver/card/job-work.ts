/**
 * From the driver's jobs to elements of a queue, and from completions back to how a job ended.
 *
 * Invariant: a job becomes one element, or several that together do the same where it reads
 * or writes more bytes than one takes; a job that no element can say is never posted.
 */

import { BATCH_ELEMENT_BYTES_MAX } from '../../firmware/board/limits.ts'
import { RECEIVED, UP_TO } from '../../firmware/host/element.ts'
import * as kind from '../../firmware/transport/requester.ts'
import { BSETH_BYTES, type Bseth, blankBseth, readBseth } from '../../firmware/wire/block-size.ts'
import type { Pweth } from '../../firmware/wire/persist.ts'
import type { Job, JobEnd } from '../way/jobs.ts'
import type { BatchPlace, Completion, Range, WcName, Work } from './queues/work.ts'

/** Bytes that one element reads or writes: what a card gathers at once. */
export const PIECE_BYTES = 131072

/** A part of what a job reads or writes; of other jobs all of it. */
export interface Piece {
  readonly offset: number
  readonly length: number
  readonly isLast: boolean
}

/** The elements that a job becomes. */
export function piecesOf(job: Job): Piece[] {
  const whole = job.kind === kind.READ ? job.length : job.payload.length
  const splits = job.kind === kind.READ || job.kind === kind.WRITE || job.kind === kind.WRITE_IMM
  if (!splits || whole <= PIECE_BYTES) return [{ offset: 0, length: whole, isLast: true }]
  const pieces: Piece[] = []
  for (let offset = 0; offset < whole; offset += PIECE_BYTES) {
    const length = Math.min(PIECE_BYTES, whole - offset)
    pieces.push({ offset, length, isLast: offset + length === whole })
  }
  return pieces
}

/** How many of its burst come behind each of a list of jobs; 0 of what belongs to no batch. */
export function leftBehind(jobs: readonly Job[]): number[] {
  const left: number[] = []
  for (const [i, { pweth }] of [...jobs].reverse().entries()) {
    left.push(pweth?.batch === true && !pweth.lastOfBatch ? (left[i - 1] ?? 0) + 1 : 0)
  }
  return left.reverse()
}

/**
 * Why elements of such a queue cannot say the jobs of a list; null of one that they can. A burst of
 * a batch goes as a whole, or not at all.
 */
export function refusalsOf(jobs: readonly Job[], isLocal: boolean): (JobEnd['status'] | null)[] {
  const isMember = ({ pweth }: Job): boolean => pweth?.batch === true
  const tooLong = jobs.some((job) => {
    return isMember(job) && job.payload.length > BATCH_ELEMENT_BYTES_MAX
  })
  return jobs.map((job) => {
    return tooLong && isMember(job) ? 'LOC_LEN_ERR' : refusalOf(job, isLocal)
  })
}

/** Why an element of such a queue cannot say the job; null if one can. */
function refusalOf(job: Job, isLocal: boolean): JobEnd['status'] | null {
  const sends = job.kind >= kind.SEND && job.kind <= kind.SEND_INV
  // Nobody receives what a host sends to its own card.
  if (isLocal && (sends || job.kind === kind.WRITE_IMM)) return 'REM_INV_REQ_ERR'
  // And the status of its own memory its card does not tell it.
  if (isLocal && job.kind >= kind.ASSOCIATE) return 'REM_INV_REQ_ERR'
  return sends && job.payload.length > PIECE_BYTES ? 'REM_INV_REQ_ERR' : null
}

/**
 * The element of one piece; a READ puts its bytes into `into`. Behind a record of a batch come
 * `left` of its burst.
 */
export function workOf(
  job: Job,
  piece: Piece,
  into: Range | null,
  left: number,
): Omit<Work, 'done'> {
  const va = (BigInt(job.vaHigh) << 32n) + BigInt(job.vaLow) + BigInt(piece.offset)
  const work = {
    kind: job.kind === kind.WRITE_IMM && !piece.isLast ? kind.WRITE : job.kind,
    rkey: job.rkey,
    address: va,
    fenced: job.fenced && piece.offset === 0,
    solicited: job.solicited && piece.isLast,
    immediate: job.immediate,
  }
  switch (job.kind) {
    case kind.READ:
      return { ...work, data: into === null ? [] : [into] }
    case kind.FETCH_ADD:
    case kind.COMPARE_SWAP:
      return { ...work, operation: job.operand, compare: job.compare }
    case kind.FLUSH: {
      const { placement, selectivity } = job.feth!
      return { ...work, length: job.length, placement, selectivity }
    }
    case kind.ASSOCIATE:
    case kind.BLOCK_SIZE:
      return { ...work, length: job.length, bseth: job.bseth! }
    case kind.PREFETCH_HINT:
      return { ...work, length: job.length, pfeth: job.pfeth! }
    case kind.PERSIST_QUERY:
      return { ...work, operation: job.operationId }
    case kind.WRITE_PERSIST:
      return { ...work, ...recordOf(job, left), data: job.payload }
    default:
      return { ...work, data: job.payload.subarray(piece.offset, piece.offset + piece.length) }
  }
}

function recordOf(job: Job, left: number): Partial<Work> {
  const pweth = job.pweth!
  const { wait, carried, furtherCopies, slotAddressed } = pweth
  const record = { operation: job.operationId, wait, repetition: pweth.repetition }
  // One status is all that is told of a batch: there are no two steps.
  if (pweth.batch) return { ...record, batch: placeOf(pweth, job.expect, left) }
  return {
    ...record,
    carried,
    furtherCopies,
    addressed: !slotAddressed,
    extensions: job.extensions,
    twoSteps: job.twoSteps,
  }
}

function placeOf(pweth: Pweth, expect: bigint | null, left: number): BatchPlace {
  return {
    id: pweth.batchId,
    index: pweth.batchIndex,
    count: pweth.batchCount,
    condition: pweth.condition,
    left,
    ...(expect === null ? {} : { expect }),
  }
}

/** What the queue pair of another way would have said. */
function statusOf(status: WcName): JobEnd['status'] {
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

/** How the job ended. */
export function endOf(job: Job, completion: Completion, behindRefusal: boolean): JobEnd {
  const hasResult =
    job.kind === kind.FETCH_ADD || job.kind === kind.COMPARE_SWAP || job.kind === kind.PERSIST_QUERY
  const result = hasResult ? completion.operation : 0n
  return {
    status: statusOf(completion.status),
    refusal: completion.refusal,
    copies: completion.copies,
    mechanism: completion.mechanism,
    psn: completion.psn,
    resultHigh: Number(result >> 32n),
    resultLow: Number(result & 0xffffffffn),
    cumulative: (completion.flags & UP_TO) !== 0,
    behindRefusal,
    ...(isSized(job) && completion.status === 'SUCCESS' ? { size: sizeOf(completion) } : {}),
  }
}

function isSized(job: Job): boolean {
  return job.kind === kind.ASSOCIATE || job.kind === kind.BLOCK_SIZE
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
  return {
    status,
    refusal: 0,
    copies: 0,
    mechanism: 0,
    psn: 0,
    resultHigh: 0,
    resultLow: 0,
    cumulative: false,
    behindRefusal,
  }
}
