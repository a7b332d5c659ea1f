// hot path
/**
 * PREFETCH_HINT: the pages that a requester says it will access are asked for of the host, which
 * loads them, or keeps them, so that the access finds them there (source 5, ¶91, ¶128; P5-5, P5-21,
 * P5-25).
 *
 * Invariants:
 * - A hint is advice. It is acknowledged at once, changes no byte, and is forgotten where there is
 *   no room, where its time is over, and with its region. Its key must grant reading, and its range
 *   must lie inside, as a READ's: it finds out nothing that a READ would not.
 * - Hints are worked off in turns of HINT_PAGES pages; whose turn is next says waiting-hints.ts.
 * - The host brings what an access waits for before what was hinted at.
 */

import type { BoardState } from '../board/context.ts'
import { BOUNDS, type Fault, PASS, RESIDENCY_FORM, RIGHTS } from '../board/fault.ts'
import { HINT_PAGES, PAGE_BYTES } from '../board/limits.ts'
import { runBurst } from '../burst/burst.ts'
import type { ResidencyState, ServeContext } from '../burst/context.ts'
import { accessOf } from '../engine/locate.ts'
import type { HostState } from '../host/host-state.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  byteOffset,
  KIND_ON_DEMAND,
  PLACEMENT_RELAY,
  REMOTE_READ,
  type Region,
} from '../medium/region.ts'
import { endHint, freeHint, type Hint, nextHint } from '../residency/waiting-hints.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import type { WireState } from '../wire/context.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  blankPfeth,
  PFETH_WORDS,
  PREFETCH_DONT_NEED,
  PREFETCH_DROP,
  PREFETCH_SEQUENTIAL,
  PREFETCH_VERSION,
  PREFETCH_WILL_NEED,
  readPfeth,
} from '../wire/prefetch.ts'
import { readReth } from '../wire/reth.ts'
import { dropPages, expectPages } from './on-demand.ts'

const pfeth = blankPfeth()

/**
 * Judges a hint, and leaves what it says in `state.reth` and here, for `keepHint`; the region is
 * `located.region`. Faults: RESIDENCY_FORM, those of a key, BOUNDS.
 */
export function judgeHint(
  state: BoardState & WireState & MemoryState,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { reth, bytes } = state
  readReth(reth, bytes, packet.bthAt + row.rethAt)
  readPfeth(pfeth, bytes, packet.bthAt + row.pfethAt)
  const { version, words, reserved, op } = pfeth
  const known = version === PREFETCH_VERSION && words === PFETH_WORDS && reserved === 0
  if (!known || op < PREFETCH_WILL_NEED || op > PREFETCH_DROP) return RESIDENCY_FORM
  return reth.length === 0 ? RESIDENCY_FORM : hintMemoryFault(state, qp)
}

/**
 * May the queue pair read the memory of `state.reth`? The region is then `located.region`. Of one
 * behind a relay only the key is judged: nothing is told of it here, and nothing loaded.
 */
export function hintMemoryFault(state: WireState & MemoryState, qp: QueuePair): Fault {
  const { reth } = state
  const fault = accessOf(state, qp, reth.rkey, REMOTE_READ)
  const region = state.located.region
  const isRelay = region !== null && region.placement === PLACEMENT_RELAY
  if (isRelay && (fault === PASS || fault === RIGHTS)) return PASS
  if (fault !== PASS || reth.length === 0) return fault
  return byteOffset(region!, reth.vaHigh, reth.vaLow, reth.length) < 0 ? BOUNDS : PASS
}

/** Keeps the hint that was judged, until its turn comes. A block has `blockBytes` bytes. */
export function keepHint(
  state: WireState & MemoryState & ResidencyState,
  qp: QueuePair,
  blockBytes: number,
  now: number,
): void {
  const { reth, hints } = state
  const region = state.located.region!
  // Other memory is always there; and what one does not need, another may.
  if (region.kind !== KIND_ON_DEMAND || pfeth.op === PREFETCH_DONT_NEED) return
  const hint = freeHint(hints, qp)
  if (hint === null) return
  const from = byteOffset(region, reth.vaHigh, reth.vaLow, reth.length)
  const reach = pfeth.op === PREFETCH_SEQUENTIAL ? 2 * reth.length : reth.length
  hint.region = region
  hint.qp = qp
  hint.drops = pfeth.op === PREFETCH_DROP
  hint.priority = pfeth.priority
  hint.untilUs = pfeth.deadlineUs === 0 ? Infinity : now + pfeth.deadlineUs
  hint.end = from + reach < region.areaBytes ? from + reach : region.areaBytes
  // Without a stride all of it is one piece.
  hint.run = pfeth.stride > 1 ? blockBytes : reach
  hint.step = pfeth.stride > 1 ? pfeth.stride * blockBytes : reach
  hint.at = from
  hint.pieceAt = from
  hint.pieceEnd = from + hint.run
  hints.order += 1
  hint.order = hints.order
  hints.each[qp.index]! += 1
  hints.count += 1
}

/** Asks the host for the pages of the next hints. True if some are left for the next turn. */
export function serveHints(state: ServeContext, now: number): boolean {
  const { hints } = state
  // Every page of a turn may be an event of its own: they find the list empty.
  runBurst(state)
  let left = HINT_PAGES
  while (hints.count > 0 && left > 0) {
    const hint = nextHint(hints)
    const region = hint.region!
    const gone = state.regions.places[region.index] !== region
    if (!gone && now <= hint.untilUs) left -= serveHint(state, hint, region, left, now)
    else hint.at = hint.end
    if (hint.at < hint.end) continue
    endHint(hints, hint)
  }
  return hints.count > 0
}

/**
 * The next pages of a hint, `most` of them; returns how many these are, or `most` where the host
 * has been told enough for this turn.
 */
function serveHint(
  state: BoardState & MemoryState & HostState,
  hint: Hint,
  region: Region,
  most: number,
  now: number,
): number {
  const end = hint.pieceEnd < hint.end ? hint.pieceEnd : hint.end
  const first = Math.floor(hint.at / PAGE_BYTES)
  const pages = Math.ceil(end / PAGE_BYTES) - first
  const count = pages < most ? pages : most
  const seen = hint.drops
    ? dropPages(state, region, first, count)
    : expectPages(state, region, first, count, now)
  hint.at = (first + seen) * PAGE_BYTES
  if (hint.at < end) return seen < count ? most : count
  hint.pieceAt += hint.step
  hint.at = hint.pieceAt
  hint.pieceEnd = hint.pieceAt + hint.run
  return count
}
