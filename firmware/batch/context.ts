/** Batches that come: the slice of the state that batch/ owns. */

import type { Batches } from './batch.ts'

export interface BatchState {
  /** What is collected of batches, and known of them. */
  readonly batches: Batches
}
