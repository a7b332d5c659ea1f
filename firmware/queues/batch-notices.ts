/**
 * Tells the host what batches have stored: entries of a completion queue of its choice (source 4,
 * claim 1; S1-M10).
 *
 * Invariants:
 * - It is done between bursts, behind the commit: an entry speaks of what is durable (notices.ts).
 * - An entry takes room that the host has made, or is not written: then its records are missed, and
 *   an entry that counts them is written before any other one of that region. Where nothing else
 *   comes it is tried again every LOOK_US.
 * - The queue is for notices alone (manage/batch-notices.ts), so none of them takes the room of a
 *   completion; and it never ends because it is full.
 * - A queue is looked at once in a turn where it had no room, however many notices wait for it.
 */

import type { BatchWatch } from '../batch/notices.ts'
import * as told from '../batch/notices.ts'
import { REGIONS } from '../board/limits.ts'
import type { BurstContext } from '../burst/context.ts'
import { contextNow, NO_QUEUE, refreshNow } from '../burst/queue-contexts.ts'
import { blankOut, complete, reserveCompletion } from '../host/completion.ts'
import { stateOf } from '../host/context.ts'
import * as el from '../host/element.ts'
import type { HostState } from '../host/host-state.ts'
import { QUEUE_ERROR } from '../host/queue-info.ts'

/** How soon it is looked again whether the host has made room, µs. */
const LOOK_US = 1000

/** There is no room for an entry now. */
const NO_ROOM = -1

/** Tells what is due. Returns the µs until it is wanted again, or 0. */
export function serveNotices(state: BurstContext, now: number): number {
  const { notices } = state.batches
  if (notices.dueUs <= now) tellNotices(state)
  return notices.dueUs === Infinity ? 0 : Math.max(1, Math.ceil(notices.dueUs - now))
}

/** Tells everything that waits, as far as there is room for it; the rest is missed. */
export function tellNotices(state: BurstContext): void {
  const { notices } = state.batches
  notices.turn += 1
  notices.dueUs = Infinity
  while (notices.count > 0) {
    tellOldest(state)
    told.dropOldest(notices)
  }
  for (let i = 0; notices.watched > 0 && i < REGIONS; i++) {
    const watch = notices.watches[i]!
    if (watch === null || (watch.missed === 0 && !watch.over)) continue
    if (!tellMissed(state, i, watch)) notices.dueUs = state.host.nowUs + LOOK_US
  }
}

function tellOldest(state: BurstContext): void {
  const { notices } = state.batches
  const index = told.oldestRegion(notices)
  const watch = notices.watches[index]!
  // Its queue has ended meanwhile.
  if (watch === null) return
  let place = NO_ROOM
  if (watch.missed === 0 || tellMissed(state, index, watch)) place = roomFor(state, index, watch)
  if (place === NO_ROOM) {
    watch.missed += told.oldestRecords(notices)
    return
  }
  beginEntry(state, watch)
  describeNotice(state, told.oldestAt(notices))
  complete(state.host, state.list, place)
}

/** Says how many records were missed, and whether the region is gone. False without room. */
function tellMissed(state: BurstContext, index: number, watch: BatchWatch): boolean {
  const { notices } = state.batches
  const place = roomFor(state, index, watch)
  if (place === NO_ROOM) return false
  // What waits in front of the end is told before it.
  const isOver = watch.over && notices.count === 0
  const { completion } = state.host
  beginEntry(state, watch)
  completion.length = watch.missed
  completion.flags = (watch.missed > 0 ? el.NOTICE_MISSED : 0) | (isOver ? el.NOTICE_OVER : 0)
  complete(state.host, state.list, place)
  watch.missed = 0
  if (isOver) told.endNotices(notices, index)
  return true
}

/** Where room for one entry is reserved now, or NO_ROOM. A queue that is over is told no more. */
function roomFor(state: BurstContext, index: number, watch: BatchWatch): number {
  const { host } = state
  const { notices } = state.batches
  if (watch.fullTurn === notices.turn) return NO_ROOM
  const place = contextNow(state, watch.queue)
  if (place === NO_QUEUE || (place >= 0 && stateOf(host, place) === QUEUE_ERROR)) {
    // An event has told the host.
    told.endNotices(notices, index)
    return NO_ROOM
  }
  if (place >= 0) {
    if (reserveCompletion(host, place)) return place
    if (refreshNow(state, place) && reserveCompletion(host, place)) return place
  }
  watch.fullTurn = notices.turn
  return NO_ROOM
}

function beginEntry({ host }: HostState, watch: BatchWatch): void {
  const { completion } = host
  blankOut(completion)
  completion.queue = watch.queue
  completion.unit = watch.regionId
  completion.opcode = el.CQE_NOTICE
}

/** What the notice at that word says, in the fields of a completion (host/element.ts). */
function describeNotice({ host, batches }: BurstContext, at: number): void {
  const { completion } = host
  const { words } = batches.notices
  const flags = words[at + told.NOTICE_FLAGS]!
  const how = words[at + told.NOTICE_HOW]!
  completion.flags = el.DURABLE
  if ((flags & told.OF_RECORD) !== 0) completion.flags |= el.NOTICE_RECORD
  if ((flags & told.OF_ALL) !== 0) completion.flags |= el.NOTICE_ALL
  completion.length = words[at + told.NOTICE_LENGTH]!
  completion.immediate = words[at + told.NOTICE_BATCH]!
  completion.operationLow = words[at + told.NOTICE_OPERATION]!
  completion.operationHigh = words[at + told.NOTICE_OPERATION + 1]!
  completion.psn = words[at + told.NOTICE_CLIENT + 1]!
  completion.source = words[at + told.NOTICE_CLIENT]!
  completion.copies = how & 0xff
  completion.mechanism = (how >> 8) & 0xff
  completion.refusal = (how >> 16) & 0xff
  completion.addressHigh = words[at + told.NOTICE_HIGHEST]!
  completion.addressLow = words[at + told.NOTICE_LOWEST]!
  completion.incarnation = words[at + told.NOTICE_SEQUENCE + 1]!
  completion.pointer = words[at + told.NOTICE_SEQUENCE]!
}
