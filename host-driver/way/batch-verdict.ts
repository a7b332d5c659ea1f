/**
 * What becomes of the records of a burst that the DPU has not taken (D-10, P4-9).
 *
 * The one status tells which records are durable, and the reason of the first that is not. So the
 * others that were refused fall into two kinds: those whose own reason is not known yet, and those
 * that cannot stand because of the first.
 *
 * Invariants:
 * - A record is sent again only if it may succeed, and never where it may be durable already and
 *   nobody will say so.
 * - In order, nothing behind a record that is refused for good, or forgotten, is sent again.
 * - A record that the part has forgotten is never called refused, nor, in order, one behind it:
 *   both may have been durable (X-3, D-6).
 */

import {
  CONDITION_EXPECT,
  CONDITION_IN_ORDER,
  CONDITION_INDEPENDENT,
} from '../../firmware/wire/persist.ts'
import { faultOfStatus } from '../base/errors.ts'

/**
 * 'independent': each record stands alone. 'inOrder': a record is accepted only when every earlier
 * one of its batch was. 'expect': a record is accepted only where its slot holds a given sequence.
 */
export type BatchCondition = 'independent' | 'inOrder' | 'expect'

/** The number of each condition on the wire. */
export const CONDITIONS: Readonly<Record<BatchCondition, number>> = {
  independent: CONDITION_INDEPENDENT,
  inOrder: CONDITION_IN_ORDER,
  expect: CONDITION_EXPECT,
}

/** A record that was not taken: its place in the batch, and the status that it ended with. */
interface Untaken {
  readonly index: number
  readonly status: number
  /** An earlier burst has sent it, too, and was not told why it was not taken. */
  readonly again: boolean
}

export type Verdict =
  | { readonly kind: 'again' }
  | { readonly kind: 'refused'; readonly fault: string; readonly status: number }
  /** Not taken because that record of the batch was not. */
  | { readonly kind: 'behind'; readonly because: number }
  /** It may be durable, or become so when the part starts the next time. */
  | { readonly kind: 'inDoubt' }
  /** It may have been durable, and another has written there: the part cannot tell any more. */
  | { readonly kind: 'forgotten' }

/** The reason of a record of which only the first refusal in front of it is told. */
const NOT_TOLD = 'BATCH_ABORTED'

/** Reasons that may be gone at the next try. */
const PASSING: ReadonlySet<string> = new Set([
  ...['MEDIA', 'STAGING', 'GUARD', 'BATCH_ROOM', 'BATCH_TIME', 'NO_RECEIVE', NOT_TOLD],
])

/** Reasons that hold for every record of the burst, whichever was the first to meet them. */
const OF_ALL: ReadonlySet<string> = new Set([
  ...['BATCH_FIELDS', 'BATCH_REGION', 'NOT_ARMED', 'FLUSH', 'SUPERBLOCK', 'OWN_HOST', 'NO_AGENT'],
  ...['PLACEMENT_UNKNOWN', 'PLACEMENT_WRONG'],
])

/** A reason of one record: what it says is that nobody knows. */
const FORGOTTEN = 'OPERATION_FORGOTTEN'

/** A reason of one record, or of the region: then nothing of the burst is taken. */
const READ_ONLY = 'READ_ONLY'

const AGAIN: Verdict = { kind: 'again' }
const IN_DOUBT: Verdict = { kind: 'inDoubt' }
const UNKNOWN: Verdict = { kind: 'forgotten' }

/** What else is known of a burst. */
interface Circumstances {
  /** There will be no other burst: none of its records is sent again. */
  readonly isLast: boolean
  /** None of its records was taken. */
  readonly isBarren: boolean
}

/** Judges the records of one burst that were not taken, in their order. */
export function judge(
  condition: BatchCondition,
  untaken: readonly Untaken[],
  { isLast, isBarren }: Circumstances,
): Verdict[] {
  const first = untaken[0]!
  const fault = faultOfStatus(first.status)
  // The fence that failed was that of a group: whoever is behind may have been in it.
  if (untaken.some(({ status }) => faultOfStatus(status) === 'IN_DOUBT')) {
    return untaken.map(() => IN_DOUBT)
  }
  const refused: Verdict = { kind: 'refused', fault, status: first.status }
  const behind: Verdict = { kind: 'behind', because: first.index }
  const isForGood = !PASSING.has(fault) || isLast
  const isLost = fault === FORGOTTEN
  return untaken.map((record, i) => {
    const own = faultOfStatus(record.status)
    if (own === FORGOTTEN || (isLost && condition === 'inOrder')) return UNKNOWN
    // A part that failed closed meanwhile may have this one from the burst before.
    if (fault === 'FLUSH' && record.again) return IN_DOUBT
    if (i === 0) return isForGood ? refused : AGAIN
    if (condition === 'inOrder' && isForGood) return behind
    if (OF_ALL.has(fault) || (fault === READ_ONLY && isBarren)) return refused
    // The local card tells of each record that it stands behind the first: no reason of its own.
    const isBehind = condition === 'inOrder' && own === 'CONDITION'
    if (!PASSING.has(own) && !isBehind) {
      return { kind: 'refused', fault: own, status: record.status }
    }
    // Behind one that was forgotten a record has its own reason to hear, and one fewer is open.
    return isLast && !isLost ? behind : AGAIN
  })
}
