/**
 * Control calls that must not be executed twice: a probe draws another number, an agent that
 * attaches is asked everything again, a queue is made. A datagram may come again, late, though its
 * answer was taken.
 *
 * Invariant: the same request, by its transaction and attribute, is answered from what was
 * answered before, and executed once, as long as no ANSWERS others of the kind have come between.
 * What the network asks pushes out no answer to our own host, and the other way round: each has a
 * list of its own.
 */

import type { Fault } from '../board/fault.ts'
import { MAD_BODY_BYTES, type Mad } from '../wire/management.ts'

/** Answers that are kept. */
const ANSWERS = 16

export interface Answer {
  readonly transactionHigh: number
  readonly transactionLow: number
  readonly attribute: number
  readonly fault: Fault
  readonly body: Uint8Array
}

/** The answer that the request had before, or undefined. */
export function answeredBefore(answers: readonly Answer[], request: Mad): Answer | undefined {
  return answers.find(
    (one) =>
      one.transactionHigh === request.transactionHigh &&
      one.transactionLow === request.transactionLow &&
      one.attribute === request.attribute,
  )
}

/** Keeps the answer, its body at `at`; the oldest one goes. */
export function keepAnswer(
  answers: Answer[],
  request: Mad,
  fault: Fault,
  bytes: Uint8Array,
  at: number,
): void {
  const { transactionHigh, transactionLow, attribute } = request
  const body = bytes.slice(at, at + MAD_BODY_BYTES)
  answers.push({ transactionHigh, transactionLow, attribute, fault, body })
  if (answers.length > ANSWERS) answers.shift()
}
