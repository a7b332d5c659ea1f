/** Serves the queues of our own host (source 3). */

import type { State } from '../state.ts'

/** Serves what was rung. Returns the µs after which it is wanted again; 0 if it is not. */
export function serveQueues(_state: State, _now: number): number {
  return 0
}
