/** Regions, and where they lie: the slice of the state that medium/ owns. */

import type { Region, RegionTable } from './region.ts'
import type { Superblock } from './superblock.ts'
import type { Translation } from './translation.ts'

export interface MemoryState {
  readonly regions: RegionTable
  readonly superblock: Superblock
  /** The region that a key named last: burst/access.ts. */
  accessed: Region | null
  /** The host's memory that is registered on demand. */
  readonly translation: Translation
}
