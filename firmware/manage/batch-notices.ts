/**
 * The control call by which the host asks to be told what batches store (S1-M10).
 *
 * Invariants:
 * - What was stored before the call is told as it was asked for before; everything that is stored
 *   behind it, under a later sequence than the answer has, as the call says.
 * - A queue for notices is for them alone: no queue pair names it, and it does not end before.
 * - What is refused has changed nothing.
 */

import { beginNotices, endNotices } from '../batch/notices.ts'
import {
  BATCH_REGION,
  type Fault,
  NO_REGION,
  PASS,
  QUEUE_BUSY,
  QUEUE_LOCKED,
  QUEUE_UNKNOWN,
  REQUEST,
} from '../board/fault.ts'
import type { BurstContext } from '../burst/context.ts'
import { commitNow } from '../engine/group.ts'
import { FIRST_QUEUE } from '../host/header-page.ts'
import * as info from '../host/queue-info.ts'
import { findRegionById, KIND_RECORDS, PLACEMENT_THROUGH } from '../medium/region.ts'
import { tellNotices } from '../queues/batch-notices.ts'
import * as seen from '../queues/look.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import type { Call } from './call.ts'

/** Has the host told what batches store into a region, in a completion queue; or ends that. */
export function watchBatches(call: Call): Fault {
  const { state, bytes, at, to } = call
  const { notices } = state.batches
  const each = bytes[at + mad.NOTICES_EACH]!
  const queue = u32(bytes, at + mad.NOTICES_QUEUE)
  if (each > mad.NOTICES_RECORD) return REQUEST
  const region = findRegionById(state.regions, u32(bytes, at + mad.NOTICES_REGION))
  if (region === null) return NO_REGION
  if (region.kind !== KIND_RECORDS || region.placement >= PLACEMENT_THROUGH) return BATCH_REGION
  // The region that was in its place before is gone, and that is not told yet.
  if (notices.watches[region.index]?.over === true) return QUEUE_BUSY
  const fault = each === mad.NOTICES_NONE ? PASS : queueFault(state, queue)
  if (fault !== PASS) return fault
  commitNow(state)
  tellNotices(state)
  putU32(bytes, to + mad.NOTICES_MISSED, endNotices(notices, region.index))
  if (each !== mad.NOTICES_NONE) beginNotices(notices, region, queue, each === mad.NOTICES_RECORD)
  putU32(bytes, to + mad.NOTICES_SEQUENCE, state.commit.sequenceHigh)
  putU32(bytes, to + mad.NOTICES_SEQUENCE + 4, state.commit.sequenceLow)
  return PASS
}

/** Why that queue is none for notices, or PASS. */
function queueFault(state: BurstContext, queue: number): Fault {
  if (queue < FIRST_QUEUE) return QUEUE_UNKNOWN
  const fault = seen.lookAt(state, queue, seen.FIRST, info.KIND_COMPLETION)
  if (fault !== PASS) return fault
  const zone1 = seen.seenAt(seen.FIRST)
  if (state.bytes[zone1 + info.Z1_STATE] === info.QUEUE_ERROR) return QUEUE_UNKNOWN
  if (seen.word(state, zone1 + info.Z1_LOCK) !== 0) return QUEUE_LOCKED
  return seen.word(state, zone1 + info.Z1_USERS) === 0 ? PASS : QUEUE_BUSY
}
