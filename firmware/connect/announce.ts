/**
 * Telling a client by a SEND which region its connection is for (source 2, registration; P2-2): for
 * clients that look for it in a message, not in the private data of REP.
 *
 * Invariant: the announcement waits in a receive entry of ours until the client has
 * acknowledged it, and is sent again until then; a client that posts no receive gets none, and
 * cannot use what it was not told, as keys are drawn at random.
 */

import type { BoardState } from '../board/context.ts'
import type { GatherState, WorkContext } from '../burst/context.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import { freeEntry } from '../burst/staging.ts'
import { submit, takeWork, type WorkOwner } from '../burst/work.ts'
import type { Region } from '../medium/region.ts'
import { receiveAt, takeEntry } from '../respond/receives.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { SEND } from '../transport/requester.ts'
import { ANNOUNCEMENT_BYTES, writeAnnouncement } from '../wire/announcement.ts'

/** Announces the region on the queue pair. False if there is no room for it. */
export function announce(state: WorkContext, qp: QueuePair, region: Region): boolean {
  const initiator = openInitiator(state, qp, { incarnation: 0, readDepth: 1, kept: false })
  const work = takeWork(initiator)
  const entry = work === null ? -1 : takeEntry(state, qp)
  if (entry < 0) return false
  writeAnnouncement(state.bytes, receiveAt(entry), {
    addressHigh: region.baseHigh,
    addressLow: region.baseLow,
    lengthHigh: Math.floor(region.areaBytes / 2 ** 32),
    lengthLow: region.areaBytes % 2 ** 32,
    rkey: region.rkey,
    rights: region.rights & qp.rights,
  })
  work!.from = receiveAt(entry)
  work!.length = ANNOUNCEMENT_BYTES
  work!.solicited = true
  submit(initiator!, work!, SEND, ANNOUNCEMENTS, entry)
  return true
}

const ANNOUNCEMENTS: WorkOwner = {
  received() {},
  done(state: BoardState & GatherState, work) {
    freeEntry(state, work.item)
    work.solicited = false
  },
}
