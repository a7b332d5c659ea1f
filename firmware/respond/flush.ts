// hot path
/**
 * FLUSH (IBTA annex A19): what the queue pair stored before it is visible, or durable, when it is
 * answered (D-9; wire-format 6.1).
 *
 * Invariants:
 * - It is answered behind a fence that stands behind every store of its queue pair, and behind the
 *   commit of its records: it covers the whole part, whichever range it names. So one that Linux
 *   repeats without its address is whole, where no byte of the region has address 0. While one of
 *   its records waits for the host's CPU or for another DPU, the answer is an RNR NAK.
 * - Bytes in the caches of the host are covered by a FLUSH that names them: it is taken when the
 *   CPU has written them back (write-back.ts). Another one says nothing of them.
 * - A part that cannot make anything durable refuses it (0x63), a region that does not grant it, or
 *   whose bounds it leaves, does so by 0x62; reserved placement types and selectivities are 0x61.
 *   Placement type 0 asks for nothing and is answered, as Linux does (wire-format 3.10).
 */

import { type Fault, FLUSH_FORM, NOT_DURABLE, NOT_READY, PASS } from '../board/fault.ts'
import { isSafe } from '../burst/burst.ts'
import type { ServeContext, ThroughState } from '../burst/context.ts'
import {
  accessOf,
  boundsFault,
  flushedBytes,
  flushFormFault,
  flushRights,
  viewsToFlush,
} from '../engine/locate.ts'
import {
  byteOffset,
  KIND_BYTES,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
} from '../medium/region.ts'
import { isRelaying } from '../placement/relay.ts'
import { isPassing, waitForJobs } from '../placement/through.ts'
import { flushAgain, flushCached } from '../placement/write-back.ts'
import { KIND_FLUSH, type QueuePair } from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import type { WireState } from '../wire/context.ts'
import { PLACEMENT_PERSISTENT, readFeth, SELECT_REGION } from '../wire/feth.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { addResponse } from './ordered.ts'

/** Accepts a FLUSH of the expected PSN. A fault that is returned has changed nothing. */
export function receiveFlush(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const feth = state.feth
  const reth = state.reth
  readFeth(feth, state.bytes, packet.bthAt + row.fethAt)
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const form = flushFormFault(feth.placement, feth.selectivity)
  if (feth.reserved !== 0 || form !== PASS) return FLUSH_FORM
  const persistent = (feth.placement & PLACEMENT_PERSISTENT) !== 0
  const fault = accessOf(state, qp, reth.rkey, flushRights(feth.placement))
  if (fault !== PASS) return fault
  const region = state.located.region!
  const whole = feth.selectivity === SELECT_REGION || isUnaddressed(state, region)
  if (!whole) {
    const outside = boundsFault(region, reth.vaHigh, reth.vaLow, reth.length, viewsToFlush(region))
    if (outside !== PASS) return outside
  }
  if (persistent && !isSafe(state)) return NOT_DURABLE
  // Records whose durability others decide: it is asked again when they are (wire-format 7.2).
  if (persistent && isRelaying(state, qp)) return NOT_READY
  if (persistent && isPassing(state, qp)) return waitForJobs(qp)
  if (persistent && region.placement === PLACEMENT_THROUGH && region.kind === KIND_BYTES) {
    const left = flushBytes(state, qp, packet, region, whole)
    if (left !== PASS) return left
  }
  advance(qp, packet, 1, true)
  const item = addResponse(state, qp, KIND_FLUSH, packet, region)
  item.form = feth.placement
  item.length = flushedBytes(region, feth.selectivity, reth.length)
  // What other queue pairs stored and are done with is covered, too. A host sees what was written
  // to its memory when a read has pushed the writes, which stands behind every fence.
  const far = region.placement !== PLACEMENT_LOCAL && feth.placement !== 0
  if ((persistent || far) && state.unfenced > 0) item.since = state.list.fences
  return PASS
}

/** Has the host's CPU written back what a FLUSH of its bytes names? */
function flushBytes(
  state: WireState & ThroughState,
  qp: QueuePair,
  packet: Packet,
  region: Region,
  whole: boolean,
): Fault {
  const { psn } = packet
  const { vaHigh, vaLow, length } = state.reth
  if (!whole) {
    const from = region.base + byteOffset(region, vaHigh, vaLow, length)
    return flushCached(state, qp, psn, region, from, length)
  }
  if (state.feth.selectivity !== SELECT_REGION) return flushAgain(state, qp, psn, region)
  return flushCached(state, qp, psn, region, region.base, region.areaBytes)
}

/** Is it one that Linux repeats, its address lost on the way? */
function isUnaddressed(state: WireState, region: Region): boolean {
  const { vaHigh, vaLow, length } = state.reth
  return vaHigh === 0 && vaLow === 0 && length <= region.areaBytes
}
