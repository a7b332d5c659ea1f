// hot path
/**
 * The condition "in order": a record is accepted only when all those before it in its batch are
 * (D-10; P4-13).
 *
 * Invariant: a record that joins the group stands behind records that are durable, or in the same
 * group before it and chained to it.
 */

import { type Batch, operationHighOf, operationLowOf } from '../batch/batch.ts'
import type { GroupContext } from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import type { Party } from '../transport/queue-pair.ts'
import { isInBitmap } from '../wire/persist-ack.ts'
import { commitNow } from './group.ts'
import { groupHoldsOperation, isKnown } from './operation.ts'

/** Is every record before that index durable, or in the group? */
export function isInOrder(state: GroupContext, party: Party, batch: Batch, index: number): boolean {
  if (batch.broken) return false
  for (; batch.next < index; batch.next++) {
    if (isInBitmap(batch.bitmap, batch.next)) continue
    if (knowsRecord(state, party, batch, batch.next)) continue
    // Another queue pair of its client may have brought it to the group.
    const high = operationHighOf(batch, batch.next)
    const low = operationLowOf(batch, batch.next)
    if (!groupHoldsOperation(state, party.client, high, low)) return false
    commitNow(state)
    if (!knowsRecord(state, party, batch, batch.next)) return false
  }
  return true
}

/** Is the record of that index known to be durable? */
export function knowsRecord(
  state: CommitState,
  party: Party,
  batch: Batch,
  index: number,
): boolean {
  return isKnown(state, party, operationHighOf(batch, index), operationLowOf(batch, index))
}
