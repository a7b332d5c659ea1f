// hot path
/**
 * The batch of each queue pair: what was received of it, and what is known of it (source 4; D-10).
 *
 * Its members are records, plain bytes that are registered write-persist, and messages for the host
 * behind the queue pair (S1-M9).
 *
 * A batch comes in one burst, or in several: first all of its records, then those again that were
 * refused. Of a burst nothing is stored before its last record has come; until then its records
 * are collected (members.ts).
 *
 *   none ──▶ open ──▶ judged ──▶ done     its last record came; its group was committed
 *              ├──▶ handed ────────┘      likewise; others make its records durable, one by one
 *              └──▶ refused ───────┘      whole: what is still to come of it is passed over
 *
 * Invariants:
 * - A queue pair has one batch. What became of it is remembered until the next one begins.
 * - Indexes grow within a burst, and the operation of index i is the first one's plus i.
 * - A bit of the bitmap that is set is the truth permanently: that record was durable.
 */

import type { CommandList } from '../board/command-list.ts'
import {
  BATCH_FIELDS,
  BATCH_REGION,
  BATCH_ROOM,
  FAULTS,
  type Fault,
  IN_DOUBT,
  NO_AGENT,
  OPERATION_FORGOTTEN,
  PASS,
} from '../board/fault.ts'
import { BATCH_CHUNKS, LOCAL_BATCHES, QUEUE_PAIRS } from '../board/limits.ts'
import {
  KIND_RECORDS,
  MESSAGES,
  PLACEMENT_RELAY,
  PLACEMENT_THROUGH,
  type Region,
} from '../medium/region.ts'
import { CONDITION_IN_ORDER } from '../wire/persist.ts'
import { BITMAP_WORDS_MAX, setInBitmap } from '../wire/persist-ack.ts'
import {
  addMembers,
  freeMembers,
  hasSlot,
  type Members,
  NO_REGION,
  noteBytes,
  noteSlot,
  type Room,
  takeMembers,
} from './members.ts'
import { type BatchNotices, createNotices, noteBurstEnd } from './notices.ts'

export const BATCH_NONE = 0
/** Some of its burst is to come. */
export const BATCH_OPEN = 1
/** Likewise, but nothing of it is taken any more. */
export const BATCH_REFUSED = 2
/** All of its burst is judged; what was accepted stands in the group. */
export const BATCH_JUDGED = 3
/** Its status was given. */
export const BATCH_DONE = 4
/** All of its burst has come; what is not judged yet waits to be handed on (respond/handed.ts). */
export const BATCH_HANDED = 5

/** What a status says of a batch, besides what every receipt says. */
export interface BatchBits {
  id: number
  /** Records of the batch, 1 to 256. */
  count: number
  /** Highest index that is durable without a gap, or BATCH_NONE_DURABLE. */
  durable: number
  /** Which records are durable: wire/persist-ack.ts. */
  readonly bitmap: Uint32Array
}

export interface Batch extends BatchBits {
  /** Place of its queue pair. */
  readonly place: number
  phase: number
  condition: number
  /** A record of it may have been executed before. */
  repetition: boolean
  /**
   * Those that it has named, `regionCount` of them, the first one first: all of one placement. None
   * is there twice, and MESSAGES is none of them. What stands behind is of batches before.
   */
  readonly regions: Region[]
  regionCount: number
  /** The operation of index 0. */
  operationHigh: number
  operationLow: number

  /** Of the burst: the index that came last, or -1; the PSN that ended it; when that was, µs. */
  lastIndex: number
  psn: number
  lastUs: number
  /** Why all of it is refused, or PASS. */
  fault: Fault
  members: Members | null
  /** Members that have come; and of these how many were judged, in their order. */
  received: number
  judged: number
  /** In order: every record before this index is durable, or in the group. */
  next: number
  /** A record of the burst was refused. */
  broken: boolean
  /** The index that joined last, and the group that it joined: groups committed before. */
  joinedIndex: number
  joinedGroup: number
  /** Its records in the group in composition. */
  pending: number

  /** Others than the group make its records durable, and it is looked after until its end. */
  handing: boolean
  /** Members that may be handed on; and records that were, and have not come to their end. */
  due: number
  handed: number
  /** What there is against every member that was not handed on: NO_AGENT, BATCH_TIME or PASS. */
  against: Fault
  /** Members that a link to another DPU still reads; did it break; what made them durable there. */
  lent: number
  linkLost: boolean
  mechanism: number

  /** The lowest index of the burst that was refused, or is in doubt, or -1; and why. */
  refusedIndex: number
  refusal: Fault
  /** Records of the burst that are durable, and the least copies that one of them waited for. */
  records: number
  copies: number
  /** The level at which its status stands in the list, or 0; the records it calls durable. */
  saidAt: number
  saidRecords: number
}

export interface Batches extends Room {
  /** By the place of the queue pair. */
  readonly of: (Batch | null)[]
  /** Batches of which some is to come. */
  open: number
  /** Batches that are handed on, and the place of the queue pair whose turn is the next. */
  handing: number
  turn: number
  /** Members that lie where they were received: they must be moved before the next burst. */
  inFrames: number
  /** Places of the batches that have records in the group in composition. */
  readonly joined: Uint16Array
  joinedCount: number
  /** A status in composition. */
  readonly said: BatchBits
  /** What is stored, for the host of this card. */
  readonly notices: BatchNotices
}

/** Those of queue pairs come with these (`createBatch`); a host's own need room from the start. */
export function createBatches(packets: ArrayBuffer, hosted: boolean, list: CommandList): Batches {
  const of: (Batch | null)[] = []
  for (let place = 0; place < QUEUE_PAIRS; place++) of.push(null)
  const batches: Batches = {
    members: [],
    chunkTaken: new Uint8Array(BATCH_CHUNKS),
    list,
    givenBackAt: -1,
    of,
    open: 0,
    handing: 0,
    turn: 0,
    inFrames: 0,
    joined: new Uint16Array(QUEUE_PAIRS),
    joinedCount: 0,
    said: { id: 0, count: 1, durable: 0, bitmap: new Uint32Array(BITMAP_WORDS_MAX) },
    notices: createNotices(hosted),
  }
  for (let i = 0; hosted && i < LOCAL_BATCHES; i++) addMembers(batches, packets)
  return batches
}

/** A queue pair is opened at that place: it may have a batch, and that one may be collecting. */
export function createBatch(batches: Batches, packets: ArrayBuffer, place: number): void {
  if (batches.of[place] !== null) return
  batches.of[place] = blankBatch(place)
  addMembers(batches, packets)
}

export function blankBatch(place: number): Batch {
  return {
    place,
    phase: BATCH_NONE,
    id: 0,
    count: 1,
    durable: 0,
    bitmap: new Uint32Array(BITMAP_WORDS_MAX),
    condition: 0,
    repetition: false,
    regions: [MESSAGES],
    regionCount: 0,
    operationHigh: 0,
    operationLow: 0,
    lastIndex: -1,
    psn: 0,
    lastUs: 0,
    fault: PASS,
    members: null,
    received: 0,
    judged: 0,
    next: 0,
    broken: false,
    joinedIndex: -1,
    joinedGroup: -1,
    pending: 0,
    handing: false,
    due: 0,
    handed: 0,
    against: PASS,
    lent: 0,
    linkLost: false,
    mechanism: 0,
    refusedIndex: -1,
    refusal: PASS,
    records: 0,
    copies: 0,
    saidAt: 0,
    saidRecords: 0,
  }
}

/** What a record says of its batch: in a packet, or in an element of the host. */
interface BatchFields {
  readonly condition: number
  readonly batchId: number
  readonly batchIndex: number
  readonly batchCount: number
  readonly operationHigh: number
  readonly operationLow: number
}

/** Is some of its burst to come? */
export function isBatchOpen(batch: Batch): boolean {
  return batch.phase === BATCH_OPEN || batch.phase === BATCH_REFUSED
}

/** Begins a burst with that member; the batch of its queue pair before is over. */
export function beginBatch(
  batches: Batches,
  batch: Batch,
  fields: BatchFields,
  region: Region,
): void {
  const { batchIndex, batchId, batchCount } = fields
  const borrow = fields.operationLow < batchIndex
  const low = (fields.operationLow - batchIndex) >>> 0
  const high = (fields.operationHigh - (borrow ? 1 : 0)) >>> 0
  const again = batch.phase === BATCH_DONE && batch.id === batchId && batch.count === batchCount
  // What is known of the same batch stays true.
  if (!again || batch.operationHigh !== high || batch.operationLow !== low) batch.bitmap.fill(0)
  batch.phase = BATCH_OPEN
  batch.id = batchId
  batch.count = batchCount
  batch.condition = fields.condition
  batch.repetition = false
  batch.regionCount = 0
  if (region !== MESSAGES) placeOf(batch, region)
  batch.operationHigh = high
  batch.operationLow = low
  batch.lastIndex = -1
  batch.fault = PASS
  batch.received = 0
  batch.judged = 0
  batch.next = 0
  batch.broken = false
  batch.joinedIndex = -1
  batch.joinedGroup = -1
  batch.due = 0
  batch.handed = 0
  batch.against = PASS
  batch.linkLost = false
  batch.mechanism = 0
  batch.refusedIndex = -1
  batch.refusal = PASS
  batch.records = 0
  batch.copies = 0
  batch.saidAt = 0
  batches.open += 1
}

/** Does the record contradict itself, or what came of its batch before? */
function fieldsFault(batch: Batch, fields: BatchFields): Fault {
  const { batchIndex } = fields
  if (batchIndex >= fields.batchCount || batchIndex <= batch.lastIndex) return BATCH_FIELDS
  if (fields.batchCount !== batch.count || fields.condition !== batch.condition) return BATCH_FIELDS
  if ((batch.operationHigh | batch.operationLow) === 0) return BATCH_FIELDS
  // Operations that would begin below 0, or come round.
  if (batch.operationHigh > fields.operationHigh) return BATCH_FIELDS
  const low = operationLowOf(batch, batchIndex)
  const high = operationHighOf(batch, batchIndex)
  return low === fields.operationLow && high === fields.operationHigh ? PASS : BATCH_FIELDS
}

/**
 * Why all of the batch, which has no more than `most` members, is refused with that one; else there
 * is room for it, and `enterSlot`, `enterBytes` or `enterMessage` is next. BATCH_REGION where the
 * region is kept by somebody else than the one before it: of another placement, or behind another
 * link. Messages are kept with what the group stores, and with nothing that is handed on.
 */
export function enterFault(
  batches: Batches,
  batch: Batch,
  fields: BatchFields,
  region: Region,
  most: number,
): Fault {
  const fault = fieldsFault(batch, fields)
  if (fault !== PASS) return fault
  if (!isKeptWith(batch, region)) return BATCH_REGION
  if (batch.received === most) return BATCH_ROOM
  if (batch.members === null) batch.members = takeMembers(batches)
  return batch.members === null ? BATCH_ROOM : PASS
}

/** Is the region kept by whoever keeps the members before? */
function isKeptWith(batch: Batch, region: Region): boolean {
  const first = keeperOf(batch)
  if (region === MESSAGES || first === MESSAGES) {
    return Math.max(region.placement, first.placement) < PLACEMENT_THROUGH
  }
  if (region.placement !== first.placement) return false
  return region.placement !== PLACEMENT_RELAY || region === first
}

/** The region that says by whom the members are kept: the first one; of messages alone MESSAGES. */
export function keeperOf({ regions, regionCount }: Batch): Region {
  return regionCount === 0 ? MESSAGES : regions[0]!
}

/** The next member is a record of that slot. BATCH_FIELDS if another is; BATCH_REGION of bytes. */
export function enterSlot(batch: Batch, region: Region, slot: number): Fault {
  if (region.kind !== KIND_RECORDS) return BATCH_REGION
  const place = placeOf(batch, region)
  return noteSlot(batch.members!, place, slot, batch.received) ? BATCH_FIELDS : PASS
}

/**
 * The next member goes to those plain bytes. BATCH_FIELDS where another goes to some of them: it
 * may have to come again, and would be stored over this one. BATCH_REGION through the caches of the
 * host and with another DPU: what is handed on are records.
 */
export function enterBytes(batch: Batch, region: Region, offset: number, length: number): Fault {
  if (region.placement >= PLACEMENT_THROUGH) return BATCH_REGION
  const place = placeOf(batch, region)
  return noteBytes(batch.members!, place, offset, length, batch.received) ? BATCH_FIELDS : PASS
}

/** The next member is a message: its index, which no other has, stands for its slot. */
export function enterMessage(batch: Batch, index: number): void {
  noteSlot(batch.members!, NO_REGION, index, batch.received)
}

/** The place of the region in those of the batch, which has room for every one. */
function placeOf(batch: Batch, region: Region): number {
  const place = findPlace(batch, region)
  if (place >= 0) return place
  // A list that was cut and grown again would be allocated again for each batch.
  batch.regions[batch.regionCount] = region
  batch.regionCount += 1
  return batch.regionCount - 1
}

/** The place of the region in those of the batch, or -1. */
function findPlace({ regions, regionCount }: Batch, region: Region): number {
  for (let i = 0; i < regionCount; i++) if (regions[i] === region) return i
  return -1
}

/** Has a member of its burst gone to the region? */
export function namesRegion(batch: Batch, region: Region): boolean {
  return findPlace(batch, region) >= 0
}

/** The region of member `n`; MESSAGES of a message. */
export function regionOf({ members, regions }: Batch, n: number): Region {
  const place = members!.regions[n]!
  return place === NO_REGION ? MESSAGES : regions[place]!
}

/** The virtual address of member `n`, upper and lower word: of a record its slot above zeros. */
export function vaHighOf(batch: Batch, n: number): number {
  const { slots, offsetsHigh } = batch.members!
  const { kind, baseHigh } = regionOf(batch, n)
  return kind === KIND_RECORDS ? slots[n]! : baseHigh + offsetsHigh[n]!
}

export function vaLowOf(batch: Batch, n: number): number {
  return regionOf(batch, n).kind === KIND_RECORDS ? 0 : batch.members!.slots[n]!
}

/** Is a record of that slot collected, which is not judged yet? */
export function hasCollected(batch: Batch, region: Region, slot: number): boolean {
  const place = findPlace(batch, region)
  if (place < 0 || batch.judged === batch.received) return false
  return hasSlot(batch.members!, place, slot)
}

/** The operation of that index, low and high word. */
export function operationLowOf(batch: Batch, index: number): number {
  return (batch.operationLow + index) >>> 0
}

export function operationHighOf(batch: Batch, index: number): number {
  const carry = batch.operationLow + index >= 2 ** 32
  return (batch.operationHigh + (carry ? 1 : 0)) >>> 0
}

/** How much worse it is not to be told: of a doubt, and of what was forgotten. */
function weightOf(fault: Fault): number {
  return fault === IN_DOUBT ? 2 : fault === OPERATION_FORGOTTEN ? 1 : 0
}

/**
 * That record of the burst is not stored. The first one's reason is told, but a doubt before any
 * reason, and before all but a doubt that one was forgotten: whoever is not told of it would take
 * the record for one that is not durable, and never will be.
 */
export function noteRefused(batch: Batch, index: number, fault: Fault): void {
  batch.broken = true
  const isTold = batch.refusedIndex >= 0 && batch.refusedIndex <= index
  const heavier = weightOf(fault) - weightOf(batch.refusal)
  if (heavier < 0 || (heavier === 0 && isTold)) return
  batch.refusedIndex = index
  batch.refusal = fault
}

/** That record of the burst is durable, in as many copies as it waited for. */
export function noteMemberDurable(batch: Batch, index: number, copies: number): void {
  batch.bitmap[index >> 5]! |= 0x80000000 >>> (index & 31)
  batch.records += 1
  if (batch.copies === 0 || copies < batch.copies) batch.copies = copies
}

/**
 * That operation of who sends the batch is durable. The table may forget it before the record has
 * its turn that waits with it: it is never executed again.
 */
export function noteKnownMember(batch: Batch, high: number, low: number): void {
  if (batch.phase !== BATCH_OPEN && batch.phase !== BATCH_HANDED) return
  const ahead = ((high >>> 0) - batch.operationHigh) * 2 ** 32
  const index = ahead + ((low >>> 0) - batch.operationLow)
  if (index >= 0 && index < batch.count) setInBitmap(batch.bitmap, index)
}

/** What of the burst has come so far may be handed on. */
export function beginHanding(batches: Batches, batch: Batch): void {
  batch.due = batch.received
  if (batch.handing) return
  batch.handing = true
  batches.handing += 1
}

/** Nothing of it is handed on any more. */
export function endHanding(batches: Batches, batch: Batch): void {
  if (!batch.handing) return
  batch.handing = false
  batches.handing -= 1
}

/** A record that was handed on is durable as it was asked for (PASS), or its fault is told. */
export function noteHandedEnd(batch: Batch, index: number, copies: number, fault: Fault): void {
  batch.handed -= 1
  if (fault === PASS) {
    noteMemberDurable(batch, index, copies)
    return
  }
  // Who waited for one in vain is told soon, and not after as long for each.
  if (fault === NO_AGENT) batch.against = fault
  noteRefused(batch, index, fault)
}

/**
 * Has the batch of that place records of which it is not known yet what becomes of them? A queue
 * pair was opened there.
 */
export function isHanding(batches: Batches, place: number): boolean {
  const batch = batches.of[place]!
  if (!batch.handing) return false
  return batch.judged < batch.due || batch.handed > 0
}

/**
 * The record of that index joins the group, before which so many were committed. Must it not
 * outlive the one that joined before it?
 */
export function noteJoined(batch: Batch, index: number, groups: number): boolean {
  const isNext = batch.joinedGroup === groups && batch.joinedIndex === index - 1
  batch.joinedIndex = index
  batch.joinedGroup = groups
  return isNext && batch.condition === CONDITION_IN_ORDER
}

/** Is an earlier record of the burst refused, which those behind it must not outlive? */
export function isChainBroken(batch: Batch): boolean {
  return batch.condition === CONDITION_IN_ORDER && batch.broken
}

/** Nothing more of the burst is taken; what was not judged is refused with it. */
export function refuseWhole(batches: Batches, batch: Batch, index: number, fault: Fault): void {
  const { members, judged } = batch
  const first = judged < batch.received ? members!.indexes[judged]! : index
  batch.phase = BATCH_REFUSED
  batch.fault = fault
  batch.judged = batch.received
  noteRefused(batch, first, fault)
  releaseMembers(batches, batch)
}

/** Gives back what the batch holds, unless the group in composition, or a link, needs it still. */
export function releaseMembers(batches: Batches, batch: Batch): void {
  if (batch.members === null || batch.pending > 0 || batch.lent > 0) return
  freeMembers(batches, batch.members)
  batch.members = null
}

/** The queue pair of that place is over, and its batch with it. */
export function dropBatch(batches: Batches, place: number): void {
  const batch = batches.of[place]!
  if (isBatchOpen(batch)) batches.open -= 1
  batch.phase = BATCH_NONE
  endHanding(batches, batch)
  releaseMembers(batches, batch)
  // What of it stands in the group is noted behind that.
  if (batch.pending === 0) endNotice(batches, batch)
}

/** Nothing more of the burst is stored: who wants to know what was is told. */
export function endNotice({ notices }: Batches, batch: Batch): void {
  if (notices.watched === 0) return
  const all = durableUpToIndex(batch.bitmap, batch.count) === batch.count - 1
  noteBurstEnd(notices, batch, all, FAULTS[batch.refusal]!.code)
}

/** The highest index up to which every bit is set, or -1. */
export function durableUpToIndex(bitmap: Uint32Array, count: number): number {
  let index = 0
  while (index < count && bitmap[index >> 5] === 0xffffffff) index += 32
  while (index < count && (bitmap[index >> 5]! & (0x80000000 >>> (index & 31))) !== 0) index += 1
  return (index < count ? index : count) - 1
}
