/**
 * Control calls that must not be executed twice: a probe draws another number, an agent that
 * attaches is asked everything again, a queue is made. A datagram may come again, late, though its
 * answer was taken.
 *
 * Invariants:
 * - The same request, by its source, transaction and attribute, is answered from what was answered
 *   before, and executed once. Nobody is answered by what another one was told.
 * - An answer goes when ANSWERS of the kind have come behind it, or, of a source that has more of
 *   them than any other, when one more has come: no source alone pushes out those of another.
 * - What the network asks pushes out no answer to our own host, and the other way round, nor do
 *   strangers those of the peers of a card: each kind has a list of its own.
 */

import type { Fault } from '../board/fault.ts'
import { MAD_BODY_BYTES, type Mad } from '../wire/management.ts'

/** Answers that are kept. */
const ANSWERS = 32

export interface Answer {
  /** Who asked (transport/places.ts). */
  readonly source: string
  readonly transactionHigh: number
  readonly transactionLow: number
  readonly attribute: number
  readonly fault: Fault
  readonly body: Uint8Array
}

/** The answer that the request of that source had before, or undefined. */
export function answeredBefore(
  answers: readonly Answer[],
  source: string,
  request: Mad,
): Answer | undefined {
  return answers.find(
    (one) =>
      one.source === source &&
      one.transactionHigh === request.transactionHigh &&
      one.transactionLow === request.transactionLow &&
      one.attribute === request.attribute,
  )
}

/** Keeps the answer, its body at `at`; the oldest one goes of the source that has the most. */
export function keepAnswer(
  answers: Answer[],
  source: string,
  request: Mad,
  fault: Fault,
  bytes: Uint8Array,
  at: number,
): void {
  const { transactionHigh, transactionLow, attribute } = request
  const body = bytes.slice(at, at + MAD_BODY_BYTES)
  answers.push({ source, transactionHigh, transactionLow, attribute, fault, body })
  if (answers.length > ANSWERS) answers.splice(oldestOfMost(answers), 1)
}

/** Of the sources that have the most answers, the oldest one: they stand in their order. */
function oldestOfMost(answers: readonly Answer[]): number {
  const counts = new Map<string, number>()
  for (const { source } of answers) counts.set(source, (counts.get(source) ?? 0) + 1)
  const most = Math.max(...counts.values())
  return answers.findIndex(({ source }) => counts.get(source) === most)
}
