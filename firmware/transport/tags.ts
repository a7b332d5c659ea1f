/**
 * Tags on the packets of a queue pair (wire/tag.ts): the board computes and checks them, under keys
 * that are drawn here and told to the client alone, in its session; or, of a queue pair that this
 * card asked another one for, that are drawn there.
 *
 * Invariants:
 * - A packet of such a queue pair touches no state before its tag is known to be good: no PSN, no
 *   acknowledgement, no region (core.ts, dispatch).
 * - Keys are those of one queue pair, drawn when it is opened, and told to one call of its client,
 *   however often that comes: no counter is used twice, as who counts from 0 asks in another call.
 *   Where this card is the client, it takes the answer to each of its calls once.
 */

import { assert } from '../board/assert.ts'
import { runAlone } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { BAD_COMMAND, SECURE, SECURE_BYTES, TAG_GOOD, TAGGED } from '../board/hal.ts'
import { SECRETS_AT } from '../board/memory-map.ts'
import { drawBytes } from '../board/random.ts'
import { TAG_KEY_BYTES, TRAILER_BYTES } from '../wire/tag.ts'
import type { QueuePair } from './queue-pair.ts'

/** Gives the queue pair, which was just opened, keys of its own. */
export function secure(state: BoardState, qp: QueuePair): void {
  useKeys(state, qp, drawBytes(state, 2 * TAG_KEY_BYTES))
}

/**
 * Gives the queue pair, which was just opened, the keys that another card has drawn for it: the
 * first of them is that of our own packets.
 */
export function secureAs(state: BoardState, qp: QueuePair, told: Uint8Array): void {
  const keys = new Uint8Array(2 * TAG_KEY_BYTES)
  keys.set(told.slice(TAG_KEY_BYTES))
  keys.set(told.slice(0, TAG_KEY_BYTES), TAG_KEY_BYTES)
  useKeys(state, qp, keys)
}

/** The key of the peer's packets, and that of ours. */
function useKeys(state: BoardState, qp: QueuePair, keys: Uint8Array): void {
  const { bytes, words } = state
  bytes.set(keys, SECRETS_AT)
  words[(SECRETS_AT + keys.length) >> 2] = qp.number
  const outcome = runAlone(state.list, SECURE, SECRETS_AT, 0, SECURE_BYTES, qp.index)
  if (outcome === BAD_COMMAND) assert(false, 'a board computes tags')
  bytes.fill(0, SECRETS_AT, SECRETS_AT + SECURE_BYTES)
  qp.tagKeys = keys
  qp.tagBytes = TRAILER_BYTES
  qp.tagFlag = TAG_GOOD
  qp.tagAux = (qp.index + 1) * TAGGED
}
