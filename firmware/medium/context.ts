/** Regions, and where they lie: the slice of the state that medium/ owns. */

import type { Located, RegionTable } from './region.ts'
import type { Superblock } from './superblock.ts'
import type { Translation } from './translation.ts'

export interface MemoryState {
  readonly regions: RegionTable
  readonly superblock: Superblock
  /** What the last request named, and where it lies: engine/locate.ts. */
  readonly located: Located
  /** The host's memory that is registered on demand. */
  readonly translation: Translation
}
