/**
 * Control calls that came through the host's own queue and wait for the end of the burst.
 *
 * Invariant: a call that waits is a copy, which the host can no longer change; calls are
 * executed in the order in which they came, and those of a host that is gone are forgotten.
 */

import { assert } from '../board/assert.ts'
import { HOST_CALLS } from '../board/limits.ts'
import { HOST_CALL_BYTES, HOST_CALLS_AT } from '../board/memory-map.ts'
import { MAD_BYTES } from '../wire/management.ts'

export interface HostCalls {
  /** Calls that wait: in the first places. */
  count: number
  /** Epoch of the host whose answers are remembered. */
  epoch: number
}

/** Where the answer to a call is made. */
export const HOST_ANSWER_AT: number = HOST_CALLS_AT + HOST_CALLS * HOST_CALL_BYTES

export function createHostCalls(): HostCalls {
  return { count: 0, epoch: 0 }
}

/** Nothing waits, and nothing is remembered. */
export function dropHostCalls(calls: HostCalls): void {
  calls.count = 0
  calls.epoch = 0
}

export function callAt(place: number): number {
  return HOST_CALLS_AT + place * HOST_CALL_BYTES
}

assert(HOST_CALL_BYTES === MAD_BYTES, 'a call is one datagram')
