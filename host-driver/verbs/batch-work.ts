/**
 * Work requests that are members of a batch, records and messages, checked: one list holds all of
 * what goes out in one burst.
 *
 * Invariant: what has passed is a burst that the responder can take, as far as the requests
 * themselves tell: ids and counts that agree, indexes that grow, operations that follow the
 * indexes, every slot of a region once, and a last one at its end and nowhere else.
 */

import { BATCH_RECORDS_MAX } from '../../firmware/board/limits.ts'
import { isInBitmap } from '../../firmware/wire/persist-ack.ts'
import { ArgumentError } from '../base/errors.ts'
import { checkField, integer, type Kind, oneOf, said, shown, type What } from '../base/kinds.ts'
import { CONDITIONS } from '../way/batch-verdict.ts'
import type { BatchOf, SendRequest } from '../way/verbs.ts'

const BATCH_ID = integer(0, 0xffff)
const CONDITION: Kind = oneOf(Object.keys(CONDITIONS))

/** Throws PERDURE_ARGUMENT unless a batch can have that id. */
export function checkBatchId(id: number, what: What): void {
  checkField(what, 'batch: id', id, BATCH_ID)
}

/** Throws PERDURE_ARGUMENT unless what a request says of its batch makes sense by itself. */
export function checkBatchOf(batch: BatchOf, what: What): void {
  const { id, index, count, condition, last, expect } = batch
  const refuse = (why: string): never => {
    throw new ArgumentError(`${said(what)}: batch: ${why}`)
  }
  checkBatchId(id, what)
  if (!Number.isInteger(count) || count < 1 || count > BATCH_RECORDS_MAX) {
    refuse(`${shown(count)} records: 1 to ${BATCH_RECORDS_MAX}`)
  }
  if (!Number.isInteger(index) || index < 0 || index >= count) {
    refuse(`index ${shown(index)}: 0 to ${count - 1}`)
  }
  checkField(what, 'batch: condition', condition, CONDITION)
  if (typeof last !== 'boolean') refuse('say whether it is the last')
  if (condition !== 'expect') {
    if (expect !== undefined) refuse(`expect in '${condition}'`)
  } else if (typeof expect !== 'bigint' || expect < 0n || expect >= 2n ** 64n) {
    refuse(`expect ${shown(expect)}: a bigint from 0 to 2^64 - 1`)
  }
}

/** Throws PERDURE_ARGUMENT unless the records of a batch in the list are whole bursts. */
export function checkBursts(list: readonly SendRequest[]): void {
  let open: SendRequest | null = null
  let places = new Set<string>()
  for (const request of list) {
    const { batch, wrId } = request
    if (open !== null) checkFollows(open, request)
    if (batch === undefined) continue
    if (open === null) places = new Set()
    if (request.opcode !== 'SEND') {
      const slot = request.remoteAddr! >> 32n
      const place = `${request.rkey}:${slot}`
      if (places.has(place)) throw new ArgumentError(`request ${wrId}: batch: slot ${slot} twice`)
      places.add(place)
    }
    open = batch.last ? null : request
  }
  if (open !== null) {
    throw new ArgumentError(`request ${open.wrId}: batch: none after it is the last one`)
  }
}

/** Does the request go on with the burst that the one before it belongs to? */
function checkFollows(before: SendRequest, request: SendRequest): void {
  const refuse = (why: string): never => {
    throw new ArgumentError(`request ${request.wrId}: batch: ${why}`)
  }
  const batch = request.batch ?? refuse('the one before it is not the last of its batch')
  const first = before.batch!
  if (batch.id !== first.id) refuse(`id ${batch.id} inside of batch ${first.id}`)
  if (batch.count !== first.count) refuse(`${batch.count} records, before it ${first.count}`)
  if (batch.condition !== first.condition) refuse(`another condition than before it`)
  if (batch.index <= first.index) refuse(`index ${batch.index} after ${first.index}`)
  const base = before.operationId! - BigInt(first.index)
  if (request.operationId! - BigInt(batch.index) !== base) {
    refuse(`operation ${request.operationId}: ${base} plus the index`)
  }
}

/** The indexes whose bits are set. */
export function indexesIn(bitmap: Uint32Array): number[] {
  const all = Array.from({ length: BATCH_RECORDS_MAX }, (_, index) => index)
  return all.filter((index) => isInBitmap(bitmap, index))
}

/** Records of its burst that come behind each request of a list that was checked. */
export function leftBehind(list: readonly SendRequest[]): number[] {
  const left: number[] = []
  for (const [i, { batch }] of [...list].reverse().entries()) {
    left.push(batch === undefined || batch.last ? 0 : left[i - 1]! + 1)
  }
  return left.reverse()
}
