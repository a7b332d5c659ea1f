/** Batches that come: the slice of the state that batch/ owns. */

import type { Batches } from './batch.ts'

export interface BatchState {
  /** What is held of batches, and known of them. */
  readonly batches: Batches
}
