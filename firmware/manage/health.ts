/**
 * The card tells how its part is to who has asked for it, over his own queue pair (HEALTH of
 * wire/management.ts).
 *
 *   HEALTH ──▶ a watch ──look, every LOOK_US──▶ another health than was told ──▶ SEND ──▶ requester
 *                            ▲                                                    │
 *                            └──────────────── acknowledged: looks at once ◀──────┘
 *
 * Invariants:
 * - What is told is how the part is when the message is made, and not what has happened: a message
 *   that would tell nothing new is not made. So there is one at the most for each queue pair,
 *   however much happens, and what comes back before it is looked at is not told.
 * - A message is under way alone, and lies in its place until it is acknowledged; the transport
 *   repeats it. Who posts no receive for it, or does not answer, loses his queue pair in time, as
 *   for any other message, and nobody else anything.
 * - A watch is of one queue pair of who asks, over the network, and ends with it.
 * - Everything that is told is found by looking, by the same functions as STATUS: nothing that
 *   changes health has to say so. Where nobody asks, a burst costs one comparison.
 */

import { type Fault, PASS, QUEUE_UNKNOWN, REQUEST } from '../board/fault.ts'
import { QUEUE_PAIRS } from '../board/limits.ts'
import { HEALTH_PLACE_BYTES, HEALTHS_AT } from '../board/memory-map.ts'
import { openInitiator } from '../burst/open-initiator.ts'
import { submit, takeWork, type WorkOwner } from '../burst/work.ts'
import { isFromPeer } from '../connect/table.ts'
import { isHostPair } from '../respond/host-receive.ts'
import { findQueuePair, type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { SEND } from '../transport/requester.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import * as mad from '../wire/management.ts'
import { peerNumberOf } from './access.ts'
import type { Call } from './call.ts'
import { HEALTH_WORDS, type ManageContext, type ManageState } from './context.ts'
import { writePartStatus } from './part-state.ts'

/** How often it is looked how the part is, µs. */
const LOOK_US = 10_000
/** How soon a message for which there is no room is tried again, µs. */
const ROOM_US = 1_000

/** Where it is written how the part is now. */
const NOW_AT = HEALTHS_AT + QUEUE_PAIRS * HEALTH_PLACE_BYTES

/** Words of STATUS that are compared, but for the first: of that the regions are not health. */
const COMPARED = [
  ...[mad.PART_UNSETTLED, mad.PART_SUPERBLOCK_WHOLE],
  ...[mad.PART_REFUSING, mad.PART_MENDED, mad.PART_MEDIA_FAILURES],
]
const WITHOUT_REGIONS = 0xffffff

/** Who is only told something sends no PERSIST_ACK and keeps no READ of ours. */
const INITIATOR = { incarnation: 0, readDepth: 1, kept: false }

/** Has a queue pair told how the part is, from now on or no more; the answer says how it is now. */
export function watchHealth(call: Call): Fault {
  const { state, bytes, at, to } = call
  const { healthWatches } = state
  const action = bytes[at + mad.HEALTH_ACTION]!
  if (action > mad.HEALTH_BEGIN) return REQUEST
  const qp = findQueuePair(state.queuePairs, u32(bytes, at + mad.HEALTH_QP))
  if (qp === null || !isAskers(call, qp)) return QUEUE_UNKNOWN
  const watch = healthWatches.watches[qp.index]!
  if (watch.qp !== qp) {
    if (watch.qp === null) healthWatches.active[healthWatches.asked++] = qp.index
    watch.qp = qp
    watch.number = 0
  }
  watch.markHigh = u32(bytes, at + mad.HEALTH_MARK)
  watch.markLow = u32(bytes, at + mad.HEALTH_MARK + 4)
  bytes.fill(0, to, to + mad.MAD_BODY_BYTES)
  writePartStatus(state, to, false)
  putU32(bytes, to + mad.HEALTH_TOLD, watch.number)
  noteTold(state, qp.index, to)
  if (action === mad.HEALTH_END) stopTelling(state, qp.index)
  return PASS
}

/**
 * Is the queue pair one of who asks? As for DISCONNECT, of a card without peers it is whoever has
 * its address and knows both numbers.
 */
function isAskers(call: Call, qp: QueuePair): boolean {
  const { state, bytes, at, packet, session } = call
  if (packet === null || isHostPair(state, qp) || qp.state !== STATE_OPEN) return false
  if (qp.peerNumber !== u32(bytes, at + mad.HEALTH_CLIENT_QP)) return false
  if (qp.peer !== peerNumberOf(call)) return false
  return session !== null || isFromPeer(state, qp, packet)
}

/** The last of those who ask is looked at in its stead. */
function stopTelling({ healthWatches }: ManageState, index: number): void {
  const { active, watches } = healthWatches
  watches[index]!.qp = null
  healthWatches.asked -= 1
  active[active.indexOf(index)] = active[healthWatches.asked]!
}

/** Looks, and tells who does not know. Returns the µs until it is wanted again, or 0. */
export function serveHealth(state: ManageContext, now: number): number {
  const { healthWatches } = state
  if (now >= healthWatches.dueUs) {
    healthWatches.dueUs = now + LOOK_US
    writePartStatus(state, NOW_AT, false)
    serveHealthWatches(state, now)
    if (healthWatches.asked === 0) return 0
  }
  return Math.max(1, Math.ceil(healthWatches.dueUs - now))
}

/** The first one for whom there is no room is the first one next time. */
function serveHealthWatches(state: ManageContext, now: number): void {
  const { healthWatches, queuePairs } = state
  const { active, watches } = healthWatches
  let isRoom = true
  let turn = 0
  while (turn < healthWatches.asked) {
    const index = active[turn]!
    const qp = watches[index]!.qp!
    if (qp.state !== STATE_OPEN || queuePairs.places[index] !== qp) {
      stopTelling(state, index)
      continue
    }
    if (!tellNews(state, index, qp) && isRoom) {
      isRoom = false
      healthWatches.dueUs = now + ROOM_US
      active[turn] = active[0]!
      active[0] = index
    }
    turn += 1
  }
}

/** Tells it, if there is news. False without room. */
function tellNews(state: ManageContext, index: number, qp: QueuePair): boolean {
  const { underWay } = state.healthWatches.watches[index]!
  return underWay || !isNews(state, index) || tell(state, index, qp)
}

/** Is the part other than its watch was told last? */
function isNews({ words, healthWatches }: ManageContext, index: number): boolean {
  const { told } = healthWatches
  const first = index * HEALTH_WORDS
  if (told[first] !== (words[NOW_AT >> 2]! & WITHOUT_REGIONS)) return true
  for (let i = 0; i < COMPARED.length; i++) {
    if (told[first + 1 + i] !== words[(NOW_AT + COMPARED[i]!) >> 2]) return true
  }
  return false
}

/** It is told what stands at `at`. */
function noteTold({ bytes, words, healthWatches }: ManageContext, index: number, at: number): void {
  const { told } = healthWatches
  const first = index * HEALTH_WORDS
  bytes.copyWithin(NOW_AT, at, at + mad.PART_BYTES)
  told[first] = words[NOW_AT >> 2]! & WITHOUT_REGIONS
  for (let i = 0; i < COMPARED.length; i++) {
    told[first + 1 + i] = words[(NOW_AT + COMPARED[i]!) >> 2]!
  }
}

/** Sends how the part is now; false without room. */
function tell(state: ManageContext, index: number, qp: QueuePair): boolean {
  const { bytes, healthWatches } = state
  const watch = healthWatches.watches[index]!
  const initiator = openInitiator(state, qp, INITIATOR)
  const work = takeWork(initiator)
  if (work === null) return false
  const at = HEALTHS_AT + index * HEALTH_PLACE_BYTES
  watch.number = (watch.number + 1) >>> 0
  watch.underWay = true
  putU32(bytes, at + mad.HEALTH_SEND_MAGIC, mad.HEALTH_MAGIC)
  putU32(bytes, at + mad.HEALTH_SEND_NUMBER, watch.number)
  putU32(bytes, at + mad.HEALTH_SEND_MARK, watch.markHigh)
  putU32(bytes, at + mad.HEALTH_SEND_MARK + 4, watch.markLow)
  bytes.copyWithin(at + mad.HEALTH_SEND_PART, NOW_AT, NOW_AT + mad.PART_BYTES)
  noteTold(state, index, NOW_AT)
  work.from = at
  work.length = mad.HEALTH_SEND_BYTES
  work.solicited = false
  submit(initiator!, work, SEND, MESSAGES, index)
  return true
}

const MESSAGES: WorkOwner = {
  received() {},
  done(state: ManageContext, work) {
    state.healthWatches.watches[work.item]!.underWay = false
    state.healthWatches.dueUs = 0
  },
}
