/** A region that is open on a connection; `info` is learnt anew after every reconnection. */

import type { Gate } from './gate.ts'
import type { RegionInfo } from './part.ts'

export interface OpenRegion {
  info: RegionInfo
  /** Learns it anew, where asking for its name is not enough. */
  learn?: () => Promise<RegionInfo>
  /** Its host had taken it away when the connection was made: until it is opened again. */
  gone?: boolean
  /** The order of accesses of which some wait, whoever has opened it. */
  gate?: Gate
}
