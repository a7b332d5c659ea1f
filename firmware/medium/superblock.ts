/**
 * The superblock: what the part is, which regions it holds, which records are lost.
 *
 *    byte   0 +----------------------------------------------------+
 *             | check code over [16, used), 128 bits               |
 *          16 | magic "PERDURE\0"     | version     | used bytes   |
 *          32 | update (64)           | incarnation | dirty count  |
 *          48 | device id, 128 bits                                |
 *          64 | part bytes (64)       | first free byte (64)       |
 *          80 | lanes at (64)         | lanes       | regions      |
 *          96 | lost records | operations at | void up to (64)     |
 *         112 | former up to (64)          | next region id | pieces |
 *         128 | lost records: region id, record; 8 bytes each      |
 *         640 | regions, 128 bytes each, as far as used            |
 *        3712 | pieces of the host's memory (host-pieces.ts)       |
 *             +----------------------------------------------------+
 *
 *    region entry: 0 name (32) | 32 id | 36 kind | 40 slots | 44 capacity | 48 copies | 52 flags
 *                | 56 protection domain | 60 0 | 64 at (64) | 72 area bytes (64) | 80 key (16)
 *                | 96 placement, forming, scanned, overfull, removed | 100 0 …
 *    an entry of zeros is free.
 *
 * Little-endian. It stands twice, at bytes 0 and 4096 of the part.
 *
 * Invariants:
 * - An update looks at both pages as they are on the medium now, for one may have decayed since it
 *   was written. It writes one page, fences, writes the other, fences, and begins with the page
 *   that is not whole, or not the later one. So at every instant a page is whole that was so before
 *   the update, or the new one is; of two the later update counts.
 * - A page that has decayed is found in idle time, too (placement/scrub.ts), and written again by
 *   such an update. Where both have, the image in packet memory is what is written.
 * - A page is whole if all that is used of it can be read and its check code is right. What stands
 *   behind that is nobody's: what an update before has left, or decay. No start takes it over.
 * - Where a page refuses its stores, the update ends there: the other page, whole, is not touched.
 *   If that has taken the update already (`half`), the next start may find it, and may not: until
 *   an update is in both pages again, nobody relies on either.
 *   The part goes on without a second page, and from its next start on for reading alone: neither
 *   that start nor anything else could be written down (SUPERBLOCK).
 * - The magic and the version have the same place in every version to come, so a newer part is
 *   recognised as such, not as damage.
 * - Formatting writes the magic alone first, and page B last: a format that was interrupted shows
 *   as our magic on page A and zeros on page B, and is treated as never begun.
 * - Nothing is written to a part that was refused.
 * - A part keeps the size that it had when it was formatted. In a larger one it is served, and what
 *   lies behind its end is not used, so it may go back; in a smaller one it is refused.
 * - A part of the version before is upgraded by its first start, and by one update: that which
 *   writes down the start. It says up to which sequence the lines of the operation table are of
 *   that version (commit/operations.ts); all else is laid out as it was. Of a cut in between, each
 *   page says its own version, and whichever counts is whole.
 * - A part whose regions lie in pieces of its host's memory has a version of its own, the last one:
 *   firmware that knows of no pieces would look for them elsewhere, and finds it too new.
 */

import { assert } from '../board/assert.ts'
import {
  type CommandList,
  checkCode,
  compare,
  copy,
  copyClean,
  fenceOwn,
  resultOf,
  run,
  runAll,
} from '../board/command-list.ts'
import {
  BLANK,
  DAMAGED,
  type Fault,
  FLUSH,
  FOREIGN,
  NEWER,
  OLDER,
  PASS,
  SUPERBLOCK,
  TRUNCATED,
} from '../board/fault.ts'
import { EQUAL, MEDIA_ERROR, NVDIMM_SPACE } from '../board/hal.ts'
import {
  CLIENTS,
  COPIES_MAX,
  COPIES_MIN,
  HOST_PIECES,
  LANES,
  LINE_BYTES,
  RECORD_BYTES_MAX,
  REGION_NAME_BYTES,
  REGIONS,
} from '../board/limits.ts'
import {
  KEY_BYTES,
  KEYS_AT,
  RECOVERY_AT,
  SUPERBLOCK_AT,
  SUPERBLOCK_BYTES,
  ZEROS_AT,
  ZEROS_BYTES,
} from '../board/memory-map.ts'

import {
  arePieces,
  bytesOfPieces,
  PIECE_BYTES,
  PIECES_AT,
  type Piece,
  pieceCountOf,
  piecesIn,
  putPieces,
  windowPages,
} from './host-pieces.ts'
import {
  HOST_DATA_AT,
  KIND_BYTES,
  KIND_RECORDS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  strideOf,
} from './region.ts'

export const FORMAT_VERSION = 3

/** The version of a part that is laid out for pieces of its host's memory, and only of such. */
export const PIECES_VERSION = 4

/** The version before, which is upgraded: it has no `former`, and other lines (2, to mid 2026). */
const FORMER_VERSION = 2

/** Where the lanes begin, the operation table, and where the first region may. */
export const LANES_AT: number = 2 * SUPERBLOCK_BYTES
export const OPERATIONS_AT: number = 3 * SUPERBLOCK_BYTES
const OPERATIONS_BYTES: number = 2 * CLIENTS * LINE_BYTES
export const DATA_AT: number = OPERATIONS_AT + OPERATIONS_BYTES

/*
 * The word of an entry that says where its region lies: PLACEMENT_*, and whether it is forming. A
 * relay, which is 3, is never there.
 */
const PLACEMENT_MASK = 3
const FORMING = 4
/** It was scanned, and what was repaired may have been in the host's cache. */
const SCANNED = 8
/** More of its records are lost than the list has room for. */
const OVERFULL = 16
/** It was removed: it is no region any more, and its room not yet free. */
const REMOVED = 32
const FLAGS: number = FORMING | SCANNED | OVERFULL | REMOVED

/** Bytes of a host's memory that a region may lie in, at the most. */
const HOST_BYTES_MAX: number = 2 ** 47

/** Above every sequence. */
const ALL_SEQUENCES: number = 2 ** 53

/** Incarnations that a part may have: the sequence has 20 bits for them (boot.ts). */
export const INCARNATIONS: number = 2 ** 20
/** Of the last of them no record's sequence reaches the end of its upper word. */
const INCARNATION_LAST: number = INCARNATIONS - 2
/** Starts that a save which failed may have taken back. */
const STARTS_TAKEN_BACK = 256
/** Failed saves that are counted one by one: a part that counts more has counted something else. */
const SAVES_FAILED_MOST = 16

/** Identities that regions of a part may have, over all its life: the report has 16 bits. */
export const REGION_IDS: number = 2 ** 16

/** Lost records that the superblock can name; a region with more is marked (`setOverfull`). */
export const LOST_MAX = 64

const MAGIC_LOW = 0x44524550 // "PERD"
const MAGIC_HIGH = 0x00455255 // "URE\0"

const CHECKED_AT = 16
const ENTRIES_AT = 640
const ENTRY_BYTES = 128
const LOST_AT = 128

// Positions in 32-bit words of the page.
const MAGIC = 4
const VERSION = 6
const USED = 7
const UPDATE = 8
const INCARNATION = 10
const DIRTY = 11
const DEVICE_ID = 12
const PART_BYTES = 16
const FREE_AT = 18
const LANES_POSITION = 20
const LANE_COUNT = 22
const REGION_COUNT = 23
const LOST_COUNT = 24
const OPERATIONS_POSITION = 25
const VOID_OPERATIONS = 26
const FORMER_OPERATIONS = 28
const NEXT_ID = 30

/** A region as the superblock names it. */
export interface RegionEntry {
  name: Uint8Array
  id: number
  kind: number
  slots: number
  capacity: number
  copies: number
  flags: number
  protectionDomain: number
  at: number
  areaBytes: number
  placement: number
}

/**
 * The superblock in use: page A in packet memory is its image, `words` and `bytes` look at it. Page
 * B there is where a page of the medium is examined.
 */
export interface Superblock {
  readonly words: Int32Array
  readonly bytes: Uint8Array
  /** Pages that were whole when they were looked at last, or written: 0 to 2. */
  whole: number
  /** An update stands in one page alone, as the other one has refused it. */
  half: boolean
  /** Pages that had decayed, and were written again since the start. */
  mended: number
}

export function createSuperblock(memory: ArrayBuffer): Superblock {
  return {
    words: new Int32Array(memory, SUPERBLOCK_AT, SUPERBLOCK_BYTES / 4),
    bytes: new Uint8Array(memory, SUPERBLOCK_AT, SUPERBLOCK_BYTES),
    whole: 0,
    half: false,
    mended: 0,
  }
}

function getWords64(words: Int32Array, w: number): number {
  return (words[w]! >>> 0) + (words[w + 1]! >>> 0) * 2 ** 32
}

function putWords64(words: Int32Array, w: number, value: number): void {
  words[w] = (value % 2 ** 32) | 0
  words[w + 1] = Math.floor(value / 2 ** 32)
}

/** Which version the part is of. */
export function versionOf(sb: Superblock): number {
  return sb.words[VERSION]!
}

export function incarnationOf(sb: Superblock): number {
  return sb.words[INCARNATION]! >>> 0
}

export function dirtyCountOf(sb: Superblock): number {
  return sb.words[DIRTY]! >>> 0
}

/** Bytes of the part when it was formatted: regions lie below that, however large it is by now. */
export function partBytesOf(sb: Superblock): number {
  return getWords64(sb.words, PART_BYTES)
}

/** Lines of the operation table count if their sequence is above this one. */
export function voidOperationsOf(sb: Superblock): number {
  return getWords64(sb.words, VOID_OPERATIONS)
}

/**
 * Lines of the table are of the version before if their sequence is not above this one. In a part
 * of that version, which `upgrade` has not seen yet, all are.
 */
export function formerOperationsOf(sb: Superblock): number {
  return versionOf(sb) >= FORMAT_VERSION ? getWords64(sb.words, FORMER_OPERATIONS) : ALL_SEQUENCES
}

/** Makes a part of the version before one of this: `sequence` is the last of its table. */
export function upgrade(sb: Superblock, sequence: number): void {
  if (versionOf(sb) >= FORMAT_VERSION) return
  sb.words[VERSION] = FORMAT_VERSION
  putWords64(sb.words, FORMER_OPERATIONS, Math.max(1, sequence))
}

export function setVoidOperations(sb: Superblock, sequence: number): void {
  putWords64(sb.words, VOID_OPERATIONS, sequence)
}

/** Places of the table up to the last one that is not free. */
export function regionCountOf(sb: Superblock): number {
  return sb.words[REGION_COUNT]! >>> 0
}

/** Offset in the page of the device id, 16 bytes. */
export const DEVICE_ID_AT: number = DEVICE_ID * 4

/**
 * Steps the incarnation: everything that an earlier power-on handed out is void. False where the
 * sequences have no room for another one: then the part has to be copied, and formatted.
 *
 * A save that failed may have taken back that the last starts were written down, though not what
 * they handed out, nor what they stored: a sequence would come again, or one before it. The count
 * of such saves is kept by the part itself, and never taken back. So incarnations are passed over
 * for each of them since the superblock that is found was written: more than it took starts back,
 * so this one is above all that were, however many saves in a row have failed.
 */
export function beginIncarnation(sb: Superblock, dirtyShutdowns: number): boolean {
  if (incarnationOf(sb) >= INCARNATION_LAST) return false
  const next = incarnationOf(sb) + 1 + STARTS_TAKEN_BACK * savesFailed(sb, dirtyShutdowns)
  sb.words[INCARNATION] = Math.min(next, INCARNATION_LAST)
  // The last one may have been handed out, and taken back.
  if (next > INCARNATION_LAST) return false
  sb.words[DIRTY] = dirtyShutdowns
  return true
}

/** Saves that failed since the superblock was written. */
function savesFailed(sb: Superblock, dirtyShutdowns: number): number {
  const counted = dirtyShutdowns - dirtyCountOf(sb)
  if (counted === 0) return 0
  // A count that went backwards is that of another controller.
  return Math.max(1, Math.min(counted, SAVES_FAILED_MOST))
}

export function readEntry(sb: Superblock, index: number): RegionEntry {
  const at = ENTRIES_AT + index * ENTRY_BYTES
  const w = at >> 2
  const words = sb.words
  return {
    name: sb.bytes.slice(at, at + REGION_NAME_BYTES),
    id: words[w + 8]! >>> 0,
    kind: words[w + 9]!,
    slots: words[w + 10]! >>> 0,
    capacity: words[w + 11]! >>> 0,
    copies: words[w + 12]!,
    flags: words[w + 13]!,
    protectionDomain: words[w + 14]!,
    at: getWords64(words, w + 16),
    areaBytes: getWords64(words, w + 18),
    placement: words[w + 24]! & PLACEMENT_MASK,
  }
}

/** Is the region not yet formatted for good? Then it is formatted again at every start. */
export function isForming(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & FORMING) !== 0
}

/** The region is not to be believed before `setFormed`. */
export function setForming(sb: Superblock, index: number): void {
  sb.words[placementAt(index)]! |= FORMING
}

/** Is it to be scanned at every start until the host's CPU has written it back? */
export function isScanned(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & SCANNED) !== 0
}

export function setScanned(sb: Superblock, index: number): void {
  sb.words[placementAt(index)]! |= SCANNED
}

/** Is the region forming, or scanned? */
export function isRegionUnsure(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & (FORMING | SCANNED)) !== 0
}

/** All of the region is durable. */
export function setFormed(sb: Superblock, index: number): void {
  sb.words[placementAt(index)]! &= ~(FORMING | SCANNED)
}

/** Has the region lost records that are not on the list, or may it have? */
export function isOverfull(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & OVERFULL) !== 0
}

/** It has, until all of it was looked at and every lost record is on the list. */
export function setOverfull(sb: Superblock, index: number, overfull: boolean): void {
  if (overfull) sb.words[placementAt(index)]! |= OVERFULL
  else sb.words[placementAt(index)]! &= ~OVERFULL
}

function placementAt(index: number): number {
  return ((ENTRIES_AT + index * ENTRY_BYTES) >> 2) + 24
}

/** Was the region removed, and is its room not free yet? */
export function isRemoved(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & REMOVED) !== 0
}

/** It is no region any more; or is one again, as that could not be written down. */
export function setRemoved(sb: Superblock, index: number, removed: boolean): void {
  if (removed) sb.words[placementAt(index)]! |= REMOVED
  else sb.words[placementAt(index)]! &= ~REMOVED
}

/** Is that place of the table free? */
export function isFreePlace(sb: Superblock, index: number): boolean {
  return isFreeEntry(sb.words, (ENTRIES_AT + index * ENTRY_BYTES) >> 2)
}

function isFreeEntry(words: Int32Array, w: number): boolean {
  for (let i = 0; i < ENTRY_BYTES / 4; i++) if (words[w + i] !== 0) return false
  return true
}

/** The id of the next region: none is given twice, so a slot of an earlier one is valid in none. */
export function nextIdOf(sb: Superblock): number {
  return Math.max(sb.words[NEXT_ID]!, regionCountOf(sb) + 1)
}

/** Where the rooms of the NVDIMM that are taken end. */
function freeAt(sb: Superblock): number {
  let end = DATA_AT
  for (let i = 0; i < regionCountOf(sb); i++) {
    const entry = readEntry(sb, i)
    if (entry.copies === 0 || entry.placement !== PLACEMENT_LOCAL) continue
    end = Math.max(end, endOfRoom(entry))
  }
  return end
}

/** Where the last region in the host's memory ends, bytes. One that was removed is none. */
export function hostFreeAt(sb: Superblock): number {
  let end = HOST_DATA_AT
  for (let i = 0; i < regionCountOf(sb); i++) {
    const entry = readEntry(sb, i)
    if (entry.copies === 0 || entry.placement === PLACEMENT_LOCAL || isRemoved(sb, i)) continue
    end = Math.max(end, endOfRoom(entry))
  }
  return end
}

/**
 * Up to where the host's memory is taken, bytes: by regions, by those of which the room is not free
 * yet, and by what a making stores. 0 if nothing is.
 */
export function hostTakenTo(sb: Superblock, making: RegionEntry | null): number {
  let end = 0
  for (let i = 0; i < regionCountOf(sb); i++) {
    const entry = readEntry(sb, i)
    if (entry.copies === 0 || entry.placement === PLACEMENT_LOCAL) continue
    end = Math.max(end, endOfRoom(entry))
  }
  if (making === null || making.placement === PLACEMENT_LOCAL) return end
  return Math.max(end, endOfRoom(making))
}

/** The pieces of the host's memory that the part's regions are laid out for; none: the window. */
export function piecesOf(sb: Superblock): Piece[] {
  return piecesIn(sb.words)
}

/** Lays them out for these from now on. */
export function setPieces(sb: Superblock, pieces: readonly Piece[]): void {
  putPieces(sb.words, pieces)
  sb.words[VERSION] = pieces.length > 0 ? PIECES_VERSION : FORMAT_VERSION
  sb.words[USED] = usedOf(sb.words)
}

/** Bytes of a page that are used. */
function usedOf(words: Int32Array): number {
  const pieces = pieceCountOf(words)
  if (pieces > 0) return PIECES_AT + pieces * PIECE_BYTES
  return ENTRIES_AT + words[REGION_COUNT]! * ENTRY_BYTES
}

/** Where the room of a region ends, all copies of it. */
export function endOfRoom({ at, copies, areaBytes }: RegionEntry): number {
  return at + copies * areaBytes
}

/** The first room for so many bytes below `limit`, in the NVDIMM or in the host's memory; or -1. */
export function regionRoomFor(
  sb: Superblock,
  local: boolean,
  bytes: number,
  limit: number,
): number {
  let at = local ? DATA_AT : HOST_DATA_AT
  // Every step goes past one region at least.
  for (let i = 0; i < regionCountOf(sb); i++) {
    const entry = readEntry(sb, i)
    const end = endOfRoom(entry)
    if (entry.copies === 0 || (entry.placement === PLACEMENT_LOCAL) !== local) continue
    if (end <= at || entry.at >= at + bytes) continue
    at = end
    i = -1
  }
  return bytes <= limit - at ? at : -1
}

/** Puts a region into that place of the page, which is free. */
export function addEntry(sb: Superblock, from: RegionEntry, index: number): void {
  const at = ENTRIES_AT + index * ENTRY_BYTES
  const w = at >> 2
  const words = sb.words
  for (let i = 0; i < REGION_NAME_BYTES; i++) sb.bytes[at + i] = from.name[i]!
  words[w + 8] = from.id
  words[w + 9] = from.kind
  words[w + 10] = from.slots
  words[w + 11] = from.capacity
  words[w + 12] = from.copies
  words[w + 13] = from.flags
  words[w + 14] = from.protectionDomain
  putWords64(words, w + 16, from.at)
  putWords64(words, w + 18, from.areaBytes)
  words[w + 24] = from.placement
  words[NEXT_ID] = from.id + 1
  setCount(sb, Math.max(regionCountOf(sb), index + 1))
}

/** Takes a region off the page: its place is free, and its room. */
export function dropEntry(sb: Superblock, index: number): void {
  const at = ENTRIES_AT + index * ENTRY_BYTES
  sb.words[NEXT_ID] = nextIdOf(sb)
  sb.bytes.fill(0, at, at + ENTRY_BYTES)
  let count = regionCountOf(sb)
  while (count > 0 && isFreePlace(sb, count - 1)) count -= 1
  setCount(sb, count)
}

function setCount(sb: Superblock, count: number): void {
  sb.words[REGION_COUNT] = count
  sb.words[USED] = usedOf(sb.words)
  putWords64(sb.words, FREE_AT, freeAt(sb))
}

/** Offset in the page of the check-code key of region `index`. */
export function entryKeyAt(index: number): number {
  return ENTRIES_AT + index * ENTRY_BYTES + 80
}

export function lostCount(sb: Superblock): number {
  return sb.words[LOST_COUNT]! >>> 0
}

/** Is the record on the list of the lost? */
export function isLost(sb: Superblock, regionId: number, record: number): boolean {
  const count = lostCount(sb)
  for (let i = 0; i < count; i++) {
    const w = (LOST_AT >> 2) + 2 * i
    if (sb.words[w]! >>> 0 === regionId && sb.words[w + 1]! >>> 0 === record) return true
  }
  return false
}

/** Lost records of one region. */
export function lostOf(sb: Superblock, regionId: number): number {
  let lost = 0
  for (let i = 0; i < lostCount(sb); i++) {
    if (sb.words[(LOST_AT >> 2) + 2 * i]! >>> 0 === regionId) lost += 1
  }
  return lost
}

/** The record of entry `i` of the list, or -1 where that is one of another region. */
export function lostAt(sb: Superblock, i: number, regionId: number): number {
  const w = (LOST_AT >> 2) + 2 * i
  return sb.words[w]! >>> 0 === regionId ? sb.words[w + 1]! >>> 0 : -1
}

/** How often it was written; grows with every change of the list. */
export function updatesOf(sb: Superblock): number {
  return sb.words[UPDATE]! >>> 0
}

/** Names a record as lost. Returns false when the list is full or it was there already. */
export function addLost(sb: Superblock, regionId: number, record: number): boolean {
  const count = lostCount(sb)
  if (count === LOST_MAX || isLost(sb, regionId, record)) return false
  const w = (LOST_AT >> 2) + 2 * count
  sb.words[w] = regionId
  sb.words[w + 1] = record
  sb.words[LOST_COUNT] = count + 1
  return true
}

/** Takes a record off the list; the last entry takes its place. */
export function removeLost(sb: Superblock, regionId: number, record: number): void {
  const count = lostCount(sb)
  for (let i = 0; i < count; i++) {
    const w = (LOST_AT >> 2) + 2 * i
    if (sb.words[w]! >>> 0 !== regionId || sb.words[w + 1]! >>> 0 !== record) continue
    const last = (LOST_AT >> 2) + 2 * (count - 1)
    sb.words[w] = sb.words[last]!
    sb.words[w + 1] = sb.words[last + 1]!
    sb.words[last] = 0
    sb.words[last + 1] = 0
    sb.words[LOST_COUNT] = count - 1
    return
  }
}

/** Takes all records of a region off the list, and says which they were. */
export function removeLostOf(sb: Superblock, regionId: number): number[] {
  const removed: number[] = []
  for (let i = lostCount(sb) - 1; i >= 0; i--) {
    const record = lostAt(sb, i, regionId)
    if (record < 0) continue
    removeLost(sb, regionId, record)
    removed.push(record)
  }
  return removed
}

/** The key under which superblock and lanes are checked: public, it guards against decay alone. */
const PART_KEY = 'PERDURE PART KEY'

export function installPartKey(bytes: Uint8Array): void {
  for (let i = 0; i < KEY_BYTES; i++) bytes[KEYS_AT + i] = PART_KEY.charCodeAt(i)
}

function seal(list: CommandList, sb: Superblock): void {
  checkCode(list, SUPERBLOCK_AT + CHECKED_AT, SUPERBLOCK_AT, sb.words[USED]! - CHECKED_AT, KEYS_AT)
}

function writePage(list: CommandList, sb: Superblock, page: number): void {
  const to = NVDIMM_SPACE + page * SUPERBLOCK_BYTES
  copyClean(list, SUPERBLOCK_AT, to, sb.words[USED]!, 0)
  fenceOwn(list)
}

/**
 * Makes the page in packet memory durable, twice. SUPERBLOCK if a page of the part refuses it, and
 * the other one is not touched behind that; FLUSH if the part did not fence.
 */
export function writeSuperblock(list: CommandList, sb: Superblock): Fault {
  assert(list.count === 0, 'what stands before an update has been run')
  const first = pageToBegin(list, sb)
  putWords64(sb.words, UPDATE, getWords64(sb.words, UPDATE) + 1)
  seal(list, sb)
  writePage(list, sb, first)
  const second = list.count
  writePage(list, sb, 1 - first)
  const failed = run(list)
  if (failed < 0) {
    sb.mended += 2 - sb.whole
    sb.whole = 2
    sb.half = false
    return PASS
  }
  if (resultOf(list, failed) !== MEDIA_ERROR) return FLUSH
  sb.whole = 1
  if (failed >= second) sb.half = true
  return SUPERBLOCK
}

/** Looks at both pages, and notes how many are whole. The one to be written first: see above. */
function pageToBegin(list: CommandList, sb: Superblock): number {
  const page = viewPage(list.machine.memory, 1)
  const updates: number[] = []
  sb.whole = 0
  for (let p = 0; p < 2; p++) {
    fetchPage(list, page, p)
    const valid = verifyPage(list, page)
    updates.push(valid ? getWords64(page.words, UPDATE) : NOT_WHOLE)
    if (valid) sb.whole += 1
  }
  return updates[1]! < updates[0]! ? 1 : 0
}

/**
 * Has a page decayed, or refused the last update? Then another one mends it. PASS, or what
 * `writeSuperblock` says.
 */
export function mendSuperblock(list: CommandList, sb: Superblock): Fault {
  pageToBegin(list, sb)
  return sb.whole === 2 && !sb.half ? PASS : writeSuperblock(list, sb)
}

/** Lays out an empty part. The caller has found it BLANK. */
export function formatPart(
  list: CommandList,
  sb: Superblock,
  deviceId: Uint8Array,
  partBytes: number,
): Fault {
  sb.words.fill(0)
  sb.words[MAGIC] = MAGIC_LOW
  sb.words[MAGIC + 1] = MAGIC_HIGH
  sb.words[VERSION] = FORMAT_VERSION
  sb.words[USED] = ENTRIES_AT
  for (let i = 0; i < 16; i++) sb.bytes[DEVICE_ID_AT + i] = deviceId[i]!
  putWords64(sb.words, PART_BYTES, partBytes)
  putWords64(sb.words, FREE_AT, DATA_AT)
  putWords64(sb.words, LANES_POSITION, LANES_AT)
  sb.words[LANE_COUNT] = LANES
  sb.words[OPERATIONS_POSITION] = OPERATIONS_AT
  // The magic alone and first, then everything else.
  copyClean(list, SUPERBLOCK_AT + CHECKED_AT, NVDIMM_SPACE + CHECKED_AT, 8, 0)
  fenceOwn(list)
  copyClean(list, ZEROS_AT, NVDIMM_SPACE + LANES_AT, LANES * LINE_BYTES, 0)
  for (let at = OPERATIONS_AT; at < DATA_AT; at += ZEROS_BYTES) {
    copyClean(list, ZEROS_AT, NVDIMM_SPACE + at, ZEROS_BYTES, 0)
  }
  fenceOwn(list)
  if (run(list) >= 0) return FLUSH
  const fault = writeSuperblock(list, sb)
  sb.mended = 0
  return fault
}

/** The update of a page that is not whole: before any. */
const NOT_WHOLE = -1

/** What one page turned out to be; `at` is where it lies in packet memory. */
interface PageView {
  readonly at: number
  readonly words: Int32Array
  readable: boolean
  valid: boolean
  zero: boolean
}

function viewPage(memory: ArrayBuffer, page: number): PageView {
  const at = SUPERBLOCK_AT + page * SUPERBLOCK_BYTES
  const words = new Int32Array(memory, at, SUPERBLOCK_BYTES / 4)
  return { at, words, readable: false, valid: false, zero: false }
}

/** Reads page `p` of the medium, whole; where a line cannot be read, what is used of it. */
function fetchPage(list: CommandList, page: PageView, p: number): void {
  const { at } = page
  const from = NVDIMM_SPACE + p * SUPERBLOCK_BYTES
  copy(list, ZEROS_AT, at, SUPERBLOCK_BYTES)
  const all = copy(list, from, at, SUPERBLOCK_BYTES)
  const zeros = compare(list, at, ZEROS_AT, SUPERBLOCK_BYTES)
  runAll(list)
  page.readable = resultOf(list, all) === 0
  page.zero = page.readable && resultOf(list, zeros) === EQUAL
  if (page.readable) return
  copy(list, ZEROS_AT, at, SUPERBLOCK_BYTES)
  const head = copy(list, from, at, ENTRIES_AT)
  runAll(list)
  const used = page.words[USED]!
  if (resultOf(list, head) !== 0 || !isUsed(used)) return
  const rest = copy(list, from + ENTRIES_AT, at + ENTRIES_AT, used - ENTRIES_AT)
  runAll(list)
  page.readable = resultOf(list, rest) === 0
}

function isUsed(bytes: number): boolean {
  return bytes >= ENTRIES_AT && bytes <= SUPERBLOCK_BYTES
}

function verifyPage(list: CommandList, page: PageView): boolean {
  const { at, words } = page
  const version = words[VERSION]!
  if (!isOurs(page) || version < FORMER_VERSION || version > PIECES_VERSION) return false
  const used = words[USED]!
  if (!isUsed(used)) return false
  checkCode(list, at + CHECKED_AT, RECOVERY_AT, used - CHECKED_AT, KEYS_AT)
  const same = compare(list, RECOVERY_AT, at, KEY_BYTES)
  runAll(list)
  return resultOf(list, same) === EQUAL && isSane(words, list.machine.facts.nvdimmBytes)
}

/**
 * Does the page name only what can be? The check code guards against decay, not against a page that
 * somebody made: nothing that it says may lead outside the part. A part that has shrunk is another
 * matter (TRUNCATED), so its own statement of its size is the measure.
 */
function isSane(words: Int32Array, partBytes: number): boolean {
  const regions = words[REGION_COUNT]!
  const bytes = getWords64(words, PART_BYTES)
  if (regions < 0 || regions > REGIONS) return false
  if (!arePiecesSane(words) || words[USED] !== usedOf(words)) return false
  if (words[LOST_COUNT]! < 0 || words[LOST_COUNT]! > LOST_MAX) return false
  if (words[LANE_COUNT] !== LANES || getWords64(words, LANES_POSITION) !== LANES_AT) return false
  if (words[OPERATIONS_POSITION] !== OPERATIONS_AT) return false
  if (words[INCARNATION]! < 0 || words[INCARNATION]! > INCARNATION_LAST) return false
  if (bytes % SUPERBLOCK_BYTES !== 0 || bytes > Math.max(partBytes, 2 ** 47)) return false
  const next = Math.max(words[NEXT_ID]!, regions + 1)
  const far = pieceCountOf(words) === 0 ? HOST_BYTES_MAX : bytesOfPieces(piecesIn(words))
  let end = DATA_AT
  for (let i = 0; i < regions; i++) {
    const w = entryWord(i)
    if (isFreeEntry(words, w)) continue
    if (words[w + 8]! < 1 || words[w + 8]! >= next || next > REGION_IDS) return false
    const placement = words[w + 24]! & PLACEMENT_MASK
    const local = placement === PLACEMENT_LOCAL
    if ((words[w + 24]! & ~(PLACEMENT_MASK | FLAGS)) !== 0 || placement > PLACEMENT_THROUGH) {
      return false
    }
    if (getWords64(words, w + 16) < (local ? DATA_AT : HOST_DATA_AT)) return false
    if (!isEntrySane(words, w, local ? bytes : far)) return false
    for (let j = 0; j < i; j++) if (isInTheWay(words, entryWord(j), w)) return false
    if (local) end = Math.max(end, endOfEntry(words, w))
  }
  return getWords64(words, FREE_AT) === end
}

/** A table, and one that can be, has the version of its own alone. */
function arePiecesSane(words: Int32Array): boolean {
  const pieces = pieceCountOf(words)
  if (words[VERSION] !== PIECES_VERSION) return pieces === 0
  return pieces <= HOST_PIECES && arePieces(piecesIn(words), windowPages(HOST_BYTES_MAX))
}

function entryWord(index: number): number {
  return (ENTRIES_AT + index * ENTRY_BYTES) >> 2
}

/** The end of all copies of a region, bytes. */
function endOfEntry(words: Int32Array, w: number): number {
  return getWords64(words, w + 16) + words[w + 12]! * getWords64(words, w + 18)
}

/** Have two regions an identity in common, or bytes? */
function isInTheWay(words: Int32Array, one: number, other: number): boolean {
  if (isFreeEntry(words, one)) return false
  if (words[one + 8] === words[other + 8]) return true
  const isLocal = (w: number): boolean => (words[w + 24]! & PLACEMENT_MASK) === PLACEMENT_LOCAL
  if (isLocal(one) !== isLocal(other)) return false
  if (endOfEntry(words, one) <= getWords64(words, other + 16)) return false
  return endOfEntry(words, other) > getWords64(words, one + 16)
}

function isEntrySane(words: Int32Array, w: number, bytes: number): boolean {
  const copies = words[w + 12]!
  const at = getWords64(words, w + 16)
  const areaBytes = getWords64(words, w + 18)
  if (copies < 1 || copies > COPIES_MAX || at % LINE_BYTES !== 0) return false
  if (areaBytes % LINE_BYTES !== 0 || at > bytes || areaBytes > (bytes - at) / copies) return false
  if (words[w + 9] === KIND_BYTES) return copies === 1
  const capacity = words[w + 11]!
  const slots = words[w + 10]! >>> 0
  if (words[w + 9] !== KIND_RECORDS || capacity < 1 || capacity > RECORD_BYTES_MAX) return false
  return slots >= 1 && copies >= COPIES_MIN && slots <= areaBytes / strideOf(capacity)
}

function isOurs(page: PageView): boolean {
  return page.readable && page.words[MAGIC] === MAGIC_LOW && page.words[MAGIC + 1] === MAGIC_HIGH
}

function superblockRefusal(a: PageView, b: PageView): Fault {
  const newer = (page: PageView): boolean => isOurs(page) && page.words[VERSION]! > PIECES_VERSION
  if (newer(a) || newer(b)) return NEWER
  const older = (page: PageView): boolean => isOurs(page) && page.words[VERSION] === 1
  if (older(a) || older(b)) return OLDER
  if (a.zero && b.zero) return BLANK
  if (isOurs(a) && b.zero) return BLANK // a format that was interrupted
  if (isOurs(a) || isOurs(b) || !a.readable || !b.readable) return DAMAGED
  return FOREIGN
}

/**
 * Reads both pages and leaves the one that counts in packet memory. Returns PASS, or why the part
 * is refused: BLANK, FOREIGN, NEWER, OLDER, DAMAGED, TRUNCATED. Nothing is written.
 */
export function readSuperblock(list: CommandList, sb: Superblock, partBytes: number): Fault {
  const memory = list.machine.memory
  const pages = [viewPage(memory, 0), viewPage(memory, 1)] as const
  const [a, b] = pages
  pages.forEach((page, p) => {
    fetchPage(list, page, p)
    page.valid = verifyPage(list, page)
  })
  sb.mended = 0
  sb.half = false
  if (!a.valid && !b.valid) return superblockRefusal(a, b)
  const later = a.valid && b.valid && getWords64(b.words, UPDATE) > getWords64(a.words, UPDATE)
  if (!a.valid || later) sb.words.set(b.words)
  // Entries of regions that are gone may stand there: a place of the table is free by its zeros.
  sb.bytes.fill(0, sb.words[USED]!)
  if (partBytesOf(sb) > partBytes) return TRUNCATED
  return PASS
}

assert(LOST_AT + LOST_MAX * 8 <= ENTRIES_AT, 'the list of the lost must fit')
assert(ENTRIES_AT + REGIONS * ENTRY_BYTES <= SUPERBLOCK_BYTES, 'the table must fit')
assert(ENTRIES_AT + REGIONS * ENTRY_BYTES <= PIECES_AT, 'the pieces stand behind the regions')
assert(PIECES_AT + HOST_PIECES * PIECE_BYTES <= SUPERBLOCK_BYTES, 'the pieces must fit')
