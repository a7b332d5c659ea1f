/** A region that is open on a connection; `info` is learnt again after every reconnection. */

import { RefusedError } from '../base/errors.ts'
import type { Gate } from '../base/gate.ts'
import type { MayGiveUp } from '../base/give-up.ts'
import type { RegionInfo } from '../control/part.ts'

/** What was written into a region of bytes, by whoever has opened it. */
export interface Written {
  /** Grows with every write: a FLUSH vouches only for what was written before it. */
  writes: number
  /** Bytes that were not flushed, and the oldest incarnation that has some of them. */
  unflushed: {
    readonly from: number
    readonly to: number
    readonly incarnation: number
  } | null
}

export interface OpenRegion {
  info: RegionInfo
  /** Learns it again, where asking for its name is not enough. */
  learn?: () => Promise<RegionInfo>
  /** It had ended when the connection was made, or ended here: until it is opened again. */
  gone?: boolean
  /** The order of accesses of which some wait, whoever has opened it. */
  gate?: Gate
  written?: Written
}

/** Is it still the region that was opened? Memory of a host is offered again under its name. */
export function isSameRegion(now: RegionInfo, before: RegionInfo): boolean {
  if (before.kind === 'memory') return true
  return now.id === before.id && Buffer.compare(now.key, before.key) === 0
}

/** The refusal of what is for a region that has ended. */
export function goneError(what: string): RefusedError {
  return new RefusedError('NO_REGION', 0, what)
}

/** Ends what is for a region that has ended; what was sent may have been executed before. */
export function endGone(request: MayGiveUp): void {
  request.giveUp('its region has ended', goneError(request.what))
}
