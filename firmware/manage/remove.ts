/**
 * REMOVE: a region ends permanently.
 *
 * Invariants:
 * - It ends with the fence that marks its entry in the superblock: a cut before that leaves it as
 *   it was, one behind it finds no such region at any start. Its records are lost no more, either.
 * - Where one page alone has taken that, the next start may find it or not. So it takes nothing
 *   from then on, which could be gone then; its lanes stay, and its room is not touched before both
 *   pages say it.
 * - From then on its key names nothing, and nothing that was begun stores into it: what was under
 *   way is refused on its queue pair, as by a key that names nothing; what goes through the host's
 *   caches is in doubt. Ports publish it no more; who follows its state, or is told what is stored
 *   there, is told that it is gone.
 * - Its room is free again when it is filled with zeros (region-job.ts), and not before. A lane
 *   that still names it is void, also at the next start: its identity is never given again. One
 *   that stayed for its sake, as a host is away or a medium refused a repair, serves others.
 */

import { isBatchOpen, namesRegion } from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { endWatchedRegion } from '../batch/notices.ts'
import { isArmed } from '../board/context.ts'
import { type Fault, KEY, NOT_ARMED, PASS, REQUEST } from '../board/fault.ts'
import { BURST_FRAMES, LANES, LOCAL_BATCHES, QUEUE_PAIRS } from '../board/limits.ts'
import { refuseQueuePair } from '../burst/burst.ts'
import type { GatherState } from '../burst/context.ts'
import { type Commit, freeLane } from '../commit/commit.ts'
import { withdrawRegion } from '../connect/publish.ts'
import { commitNow } from '../engine/group.ts'
import { closeBy } from '../engine/storage.ts'
import { isPair, KIND_ON_DEMAND, PLACEMENT_RELAY, type Region } from '../medium/region.ts'
import { addLost, removeLostOf, setRemoved, writeSuperblock } from '../medium/superblock.ts'
import { endThrough } from '../placement/through.ts'
import { abortCollected } from '../queues/local-batch.ts'
import { regionEnded } from '../status/telling.ts'
import {
  MESSAGE_PERSIST,
  MESSAGE_RECORD,
  MESSAGE_WRITE,
  type QueuePair,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { STATUS_ERROR } from '../wire/memory-status.ts'
import type { ManageContext } from './context.ts'
import { noteWork } from './region-job.ts'

/**
 * Removes the region. Faults: REQUEST, if it is not of this part; NOT_ARMED, FLUSH; SUPERBLOCK, and
 * then it has ended until the next start at the least, unless no page has taken it.
 */
export function removeRegion(state: ManageContext, region: Region): Fault {
  if (region.placement === PLACEMENT_RELAY || region.kind === KIND_ON_DEMAND) return REQUEST
  commitNow(state)
  const { superblock, commit } = state
  if (commit.closed !== PASS) return commit.closed
  if (!isArmed(state)) return NOT_ARMED
  setRemoved(superblock, region.index, true)
  const lost = removeLostOf(superblock, region.id)
  const fault = writeSuperblock(state.list, superblock)
  if (fault !== PASS && !superblock.half) {
    // It is there until an update without it is durable.
    setRemoved(superblock, region.index, false)
    for (const record of lost) addLost(superblock, region.id, record)
    return closeBy(state, fault)
  }
  state.regions.places[region.index] = null
  state.located.region = null
  state.regionJob.removed = region
  return fault
}

/**
 * Behind the answer to a call: where it has removed a region, nothing reaches that any more, and
 * whoever was on the way to it is told.
 */
export function endRemoved(state: ManageContext): void {
  const region = state.regionJob.removed
  if (region === null) return
  state.regionJob.removed = null
  endRegion(state, region)
}

function endRegion(state: ManageContext, region: Region): void {
  const { commit, hostWork } = state
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp === null || qp.state !== STATE_OPEN || !isInto(state, qp, region)) continue
    refuseQueuePair(state, qp, qp.expectedPsn, KEY)
  }
  for (let i = 0; i < LOCAL_BATCHES && i < hostWork.batches.length; i++) {
    const { queue, batch } = hostWork.batches[i]!
    if (queue >= 0 && namesRegion(batch, region)) abortCollected(state, queue)
  }
  endWatchedRegion(state.batches.notices, region)
  endThrough(state, region)
  regionEnded(state, region, STATUS_ERROR)
  withdrawRegion(state, region)
  // Where the next start may find it, it finds its lanes, too.
  const isOver = !state.superblock.half
  for (let lane = 0; isOver && lane < LANES; lane++) endLane(commit, lane, region)
  state.recovery.unscanned[region.index] = 0
  noteWork(state)
}

/** What the lane says of the region is void, and it serves others. */
function endLane(commit: Commit, lane: number, { id }: Region): void {
  let isNamed = false
  const { held, takenBack, unsettled, pending, undecided } = commit
  for (const lanes of [held, takenBack, unsettled, pending, undecided]) {
    if (lanes[lane]?.regionId !== id) continue
    lanes[lane] = null
    isNamed = true
  }
  // Those of jobs are given back with them.
  if (isNamed && lane < BURST_FRAMES) freeLane(commit, lane)
}

/** Has the queue pair a message, or a batch, under way into the region? */
function isInto(state: BatchState & GatherState, qp: QueuePair, region: Region): boolean {
  const batch = state.batches.of[qp.index]!
  if (batch !== null && isBatchOpen(batch) && namesRegion(batch, region)) return true
  const { message } = qp
  // Of other messages nobody notes the region: what stands there is that of an earlier one.
  if (message === MESSAGE_PERSIST || message === MESSAGE_RECORD) {
    return state.messages[qp.index]!.region === region
  }
  // Of a pair region clients write every copy.
  const areas = isPair(region) ? region.copies : 1
  const end = region.base + areas * region.areaBytes
  return message === MESSAGE_WRITE && qp.messageTo >= region.base && qp.messageTo < end
}
