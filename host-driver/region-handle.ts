/** A region that is open on a connection; `info` is learnt anew after every reconnection. */

import type { RegionInfo } from './part.ts'

export interface OpenRegion {
  info: RegionInfo
  /** Learns it anew, where asking for its name is not enough. */
  learn?: () => Promise<RegionInfo>
}
