// hot path
/**
 * What batches have stored, until the host of this card is told of it (source 4, claim 1; S1-M10).
 *
 *   a record is durable ──▶ a notice of its own ───────────────────────────┐
 *            └──▶ added up for its queue pair ──▶ its burst is over ───────┴▶ waits ──▶ written
 *                                                                    (queues/batch-notices.ts)
 *
 * Invariants:
 * - Only what its group has made durable is noted, when the group is over: behind its fences, and
 *   as it was settled. So whenever it is told, it is durable.
 * - A record is noted when it is stored, and so once: what was durable before joins no group.
 * - What was noted is told, or counted in `missed`, and so is each record in doubt: it may be
 *   durable, or become so, and nobody says that later. A count is told, too, as soon as there is
 *   room. Only the end of the host, or of its queue, ends that, and the host knows of both.
 * - Nothing here waits for the host, or fails: no batch notices that somebody is told of it.
 * - Memory is made once. Where nobody asks, a record costs one comparison, and so does a burst.
 */

import { BATCH_NOTICES, QUEUE_PAIRS, REGIONS } from '../board/limits.ts'
import type { GroupItem } from '../commit/commit.ts'
import type { Region } from '../medium/region.ts'

/*
 * A notice, as words. NOTICE_REGION is an index; NOTICE_HOW is copies u8, mechanism u8, status u8.
 * NOTICE_BATCH is id u16, index u8, count - 1 u8. NOTICE_LENGTH is bytes, of a record alone.
 */
const NOTICE_REGION = 0
const NOTICE_RECORDS = 1
export const NOTICE_FLAGS = 2
export const NOTICE_BATCH = 3
export const NOTICE_OPERATION = 4
export const NOTICE_CLIENT = 6
export const NOTICE_LOWEST = 8
export const NOTICE_HIGHEST = 9
export const NOTICE_SEQUENCE = 10
export const NOTICE_HOW = 12
export const NOTICE_LENGTH = 13
const NOTICE_WORDS = 14

/** NOTICE_FLAGS: it is of one record; every record of its batch is durable. */
export const OF_RECORD = 1
export const OF_ALL = 2

/** Who is told of a region: a completion queue of the host. */
export interface BatchWatch {
  readonly regionId: number
  readonly queue: number
  /** Of each record, or of what a burst of a batch has stored. */
  readonly each: boolean
  /** Records that may be stored, and of which nothing was told. */
  missed: number
  /** The region is gone, which the host has still to be told. */
  over: boolean
  /** The turn in which its queue had no room. */
  fullTurn: number
}

export interface BatchNotices {
  /** By the index of the region. */
  readonly watches: (BatchWatch | null)[]
  watched: number
  /** Notices that wait, oldest first: a ring. */
  readonly words: Int32Array
  first: number
  count: number
  /** By the place of the queue pair, as a notice: what of its burst is stored and not told yet. */
  readonly sums: Int32Array
  /** When there is something to tell, µs; Infinity if there is nothing. */
  dueUs: number
  turn: number
}

/** What a notice says of the batch. */
interface Noted {
  readonly place: number
  readonly id: number
  readonly count: number
  readonly operationHigh: number
  readonly operationLow: number
}

/** `hosted`: there may be a host behind the card. */
export function createNotices(hosted: boolean): BatchNotices {
  const watches: (BatchWatch | null)[] = []
  for (let i = 0; i < REGIONS; i++) watches.push(null)
  return {
    watches,
    watched: 0,
    words: new Int32Array(hosted ? BATCH_NOTICES * NOTICE_WORDS : 0),
    first: 0,
    count: 0,
    sums: new Int32Array(hosted ? QUEUE_PAIRS * NOTICE_WORDS : 0),
    dueUs: Infinity,
    turn: 0,
  }
}

// ---- who is told -------------------------------------------------------------------------------

/** What is stored into the region from now on is told. Nobody was told of it before. */
export function beginNotices(
  notices: BatchNotices,
  region: Region,
  queue: number,
  each: boolean,
): void {
  const watch = { regionId: region.id, queue, each, missed: 0, over: false, fullTurn: -1 }
  notices.watches[region.index] = watch
  notices.watched += 1
}

/** Nobody is told of that region any more. Returns how many records were missed. */
export function endNotices(notices: BatchNotices, index: number): number {
  const watch = notices.watches[index] ?? null
  if (watch === null) return 0
  notices.watches[index] = null
  notices.watched -= 1
  for (let at = 0; at < notices.sums.length; at += NOTICE_WORDS) {
    if (notices.sums[at + NOTICE_REGION] === index) notices.sums[at + NOTICE_RECORDS] = 0
  }
  return watch.missed
}

/** The region is gone: its watch ends when that is told. */
export function endWatchedRegion(notices: BatchNotices, region: Region): void {
  const watch = notices.watches[region.index] ?? null
  if (watch === null || watch.regionId !== region.id) return
  watch.over = true
  notices.dueUs = 0
}

/** The host is gone: nobody is told of anything. */
export function clearNotices(notices: BatchNotices): void {
  notices.watches.fill(null)
  notices.watched = 0
  notices.count = 0
  notices.sums.fill(0)
  notices.dueUs = Infinity
}

/** Is the completion queue one of those that are told? */
export function isNoticeQueue(notices: BatchNotices, queue: number): boolean {
  for (let i = 0; notices.watched > 0 && i < REGIONS; i++) {
    if (notices.watches[i]?.queue === queue) return true
  }
  return false
}

/** Who is told of the region with that index, or null. */
function watcherOf(notices: BatchNotices, index: number): BatchWatch | null {
  const watch = notices.watches[index] ?? null
  return watch === null || watch.over ? null : watch
}

// ---- what is told ------------------------------------------------------------------------------

/** A record of the batch is durable, and its group is over. */
export function noteStored(notices: BatchNotices, batch: Noted, item: GroupItem): void {
  const { index } = item.region
  const watch = watcherOf(notices, index)
  if (watch === null) return
  const { words, sums } = notices
  const sum = batch.place * NOTICE_WORDS
  // What a batch stores in another region is told apart.
  if (sums[sum + NOTICE_REGION] !== index) noteBurstEnd(notices, batch, false, 0)
  if (watch.each) {
    const at = takeNoticeRoom(notices, watch, 1)
    if (at >= 0) putRecord(words, at, batch, item)
  } else if (sums[sum + NOTICE_RECORDS] === 0) {
    putRecord(sums, sum, batch, item)
  } else {
    addRecord(sums, sum, item)
  }
}

/** What became of that record of a batch nobody knows, and nobody will say. */
export function noteDoubt(notices: BatchNotices, { region }: GroupItem): void {
  const watch = watcherOf(notices, region.index)
  if (watch === null) return
  watch.missed += 1
  notices.dueUs = 0
}

/**
 * The burst is over, or goes on in another region: what was added up of it waits to be told. `all`
 * records of its batch are durable; `status` is that of its first record that was refused, or 0.
 */
export function noteBurstEnd(
  notices: BatchNotices,
  batch: Noted,
  all: boolean,
  status: number,
): void {
  const { words, sums } = notices
  const from = batch.place * NOTICE_WORDS
  const records = sums[from + NOTICE_RECORDS]!
  if (records === 0) return
  sums[from + NOTICE_RECORDS] = 0
  // Its batch ends before the region does, and what is added up when its watch ends is cleared.
  const watch = notices.watches[sums[from + NOTICE_REGION]!]!
  const at = takeNoticeRoom(notices, watch, records)
  if (at < 0) return
  for (let i = 0; i < NOTICE_WORDS; i++) words[at + i] = sums[from + i]!
  words[at + NOTICE_RECORDS] = records
  words[at + NOTICE_FLAGS] = all ? OF_ALL : 0
  words[at + NOTICE_BATCH] = batch.id | ((batch.count - 1) << 24)
  words[at + NOTICE_OPERATION] = batch.operationLow
  words[at + NOTICE_OPERATION + 1] = batch.operationHigh
  words[at + NOTICE_HOW]! |= status << 16
  words[at + NOTICE_LENGTH] = records
}

/** Room for one more notice, of so many records; -1 if there is none, and they are missed. */
function takeNoticeRoom(notices: BatchNotices, watch: BatchWatch, records: number): number {
  notices.dueUs = 0
  if (notices.count === BATCH_NOTICES) {
    watch.missed += records
    return -1
  }
  const place = (notices.first + notices.count) % BATCH_NOTICES
  notices.count += 1
  return place * NOTICE_WORDS
}

function copiesOf({ durable, region }: GroupItem): number {
  return durable < region.copies ? durable : region.copies
}

function putRecord(words: Int32Array, at: number, batch: Noted, item: GroupItem): void {
  const { id, count } = batch
  words[at + NOTICE_REGION] = item.region.index
  words[at + NOTICE_RECORDS] = 1
  words[at + NOTICE_FLAGS] = OF_RECORD
  words[at + NOTICE_BATCH] = id | (item.batchIndex << 16) | ((count - 1) << 24)
  words[at + NOTICE_OPERATION] = item.operationLow
  words[at + NOTICE_OPERATION + 1] = item.operationHigh
  words[at + NOTICE_CLIENT] = item.clientLow
  words[at + NOTICE_CLIENT + 1] = item.clientHigh
  words[at + NOTICE_LOWEST] = item.slot
  words[at + NOTICE_HIGHEST] = item.slot
  words[at + NOTICE_SEQUENCE] = item.sequenceLow
  words[at + NOTICE_SEQUENCE + 1] = item.sequenceHigh
  words[at + NOTICE_HOW] = copiesOf(item) | (item.region.mechanism << 8)
  words[at + NOTICE_LENGTH] = item.length
}

/** One record more: records of a queue pair are stored in the order of their sequences. */
function addRecord(words: Int32Array, at: number, item: GroupItem): void {
  const { slot } = item
  const copies = copiesOf(item)
  words[at + NOTICE_RECORDS]! += 1
  if (slot < words[at + NOTICE_LOWEST]! >>> 0) words[at + NOTICE_LOWEST] = slot
  if (slot > words[at + NOTICE_HIGHEST]! >>> 0) words[at + NOTICE_HIGHEST] = slot
  words[at + NOTICE_SEQUENCE] = item.sequenceLow
  words[at + NOTICE_SEQUENCE + 1] = item.sequenceHigh
  if (copies < (words[at + NOTICE_HOW]! & 0xff)) {
    words[at + NOTICE_HOW] = copies | (item.region.mechanism << 8)
  }
}

// ---- the oldest that waits ---------------------------------------------------------------------

/** Where the oldest notice lies in `words`. */
export function oldestAt(notices: BatchNotices): number {
  return notices.first * NOTICE_WORDS
}

/** Index of the region of the oldest notice; and how many records it is about. */
export function oldestRegion(notices: BatchNotices): number {
  return notices.words[oldestAt(notices) + NOTICE_REGION]!
}

export function oldestRecords(notices: BatchNotices): number {
  return notices.words[oldestAt(notices) + NOTICE_RECORDS]!
}

/** The oldest notice is told, or counted as missed. */
export function dropOldest(notices: BatchNotices): void {
  notices.first = (notices.first + 1) % BATCH_NOTICES
  notices.count -= 1
}
