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
 *         112 | 0 …                                                |
 *         128 | lost records: region id, record; 8 bytes each      |
 *         640 | regions, 128 bytes each, as far as used            |
 *             +----------------------------------------------------+
 *
 *    region entry: 0 name (32) | 32 id | 36 kind | 40 slots | 44 capacity | 48 copies | 52 flags
 *                | 56 protection domain | 60 0 | 64 at (64) | 72 area bytes (64) | 80 key (16)
 *                | 96 placement, forming, scanned | 100 0 …
 *
 * Little-endian. It stands twice, at bytes 0 and 4096 of the part.
 *
 * What always holds:
 * - An update writes one page, fences, writes the other, fences, and begins with the page that is
 *   not the only whole one. At every instant one page is whole; of two the later update counts.
 * - The magic and the version have the same place in every version to come, so a newer part is
 *   recognised as such, not as damage.
 * - Formatting writes the magic alone first, and page B last: a format that was interrupted shows
 *   as our magic on page A and zeros on page B, and is treated as never begun.
 * - Nothing is written to a part that was refused.
 */

import { assert } from '../assert.ts'
import {
  type CommandList,
  checkCode,
  compare,
  copy,
  copyClean,
  fence,
  resultOf,
  run,
  runAll,
} from '../command-list.ts'
import {
  BLANK,
  DAMAGED,
  type Fault,
  FLUSH,
  FOREIGN,
  NEWER,
  OLDER,
  PASS,
  TRUNCATED,
} from '../fault.ts'
import { EQUAL, NVDIMM_SPACE } from '../hal.ts'
import {
  CLIENTS,
  COPIES_MAX,
  COPIES_MIN,
  LANES,
  LINE_BYTES,
  RECORD_BYTES_MAX,
  REGION_NAME_BYTES,
  REGIONS,
} from '../limits.ts'
import {
  KEY_BYTES,
  KEYS_AT,
  RECOVERY_AT,
  SUPERBLOCK_AT,
  SUPERBLOCK_BYTES,
  ZEROS_AT,
  ZEROS_BYTES,
} from '../memory-map.ts'

import {
  HOST_DATA_AT,
  KIND_BYTES,
  KIND_RECORDS,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  strideOf,
} from './region.ts'

export const FORMAT_VERSION = 2

/** Where the lanes begin, the operation table, and where the first region may. */
export const LANES_AT: number = 2 * SUPERBLOCK_BYTES
export const OPERATIONS_AT: number = 3 * SUPERBLOCK_BYTES
const OPERATIONS_BYTES: number = 2 * CLIENTS * LINE_BYTES
export const DATA_AT: number = OPERATIONS_AT + OPERATIONS_BYTES

/* The word of an entry that says where its region lies: PLACEMENT_*, and whether it is forming. */
const PLACEMENT_MASK = 3
const FORMING = 4
/** It was scanned, and what was repaired may have been in the host's cache. */
const SCANNED = 8

/** Bytes of a host's memory that a region may lie in, at the most. */
const HOST_BYTES_MAX: number = 2 ** 47

/** Incarnations that a part may have: the sequence has 20 bits for them (boot.ts). */
export const INCARNATIONS: number = 2 ** 20

/** Lost records that the superblock can name; more refuse writes all the same. */
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

/** The superblock in use: page A in packet memory is its image, `words` and `bytes` look at it. */
export interface Superblock {
  readonly words: Int32Array
  readonly bytes: Uint8Array
  /** The page to be written first: never the one that alone is whole and current. */
  first: number
}

export function createSuperblock(memory: ArrayBuffer): Superblock {
  return {
    words: new Int32Array(memory, SUPERBLOCK_AT, SUPERBLOCK_BYTES / 4),
    bytes: new Uint8Array(memory, SUPERBLOCK_AT, SUPERBLOCK_BYTES),
    first: 0,
  }
}

function get64(words: Int32Array, w: number): number {
  return (words[w]! >>> 0) + (words[w + 1]! >>> 0) * 2 ** 32
}

function put64(words: Int32Array, w: number, value: number): void {
  words[w] = (value % 2 ** 32) | 0
  words[w + 1] = Math.floor(value / 2 ** 32)
}

export function incarnationOf(sb: Superblock): number {
  return sb.words[INCARNATION]! >>> 0
}

export function dirtyCountOf(sb: Superblock): number {
  return sb.words[DIRTY]! >>> 0
}

/** Lines of the operation table count if their sequence is above this one. */
export function voidOperationsOf(sb: Superblock): number {
  return get64(sb.words, VOID_OPERATIONS)
}

export function setVoidOperations(sb: Superblock, sequence: number): void {
  put64(sb.words, VOID_OPERATIONS, sequence)
}

export function freeAt(sb: Superblock): number {
  return get64(sb.words, FREE_AT)
}

export function regionCountOf(sb: Superblock): number {
  return sb.words[REGION_COUNT]! >>> 0
}

/** Offset in the page of the device id, 16 bytes. */
export const DEVICE_ID_AT: number = DEVICE_ID * 4

/** Steps the incarnation: everything that an earlier power-on handed out is void. */
export function beginIncarnation(sb: Superblock, dirtyShutdowns: number): void {
  sb.words[INCARNATION] = incarnationOf(sb) + 1
  sb.words[DIRTY] = dirtyShutdowns
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
    at: get64(words, w + 16),
    areaBytes: get64(words, w + 18),
    placement: words[w + 24]! & PLACEMENT_MASK,
  }
}

/** Is the region not yet formatted for good? Then it is formatted anew at every start. */
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
export function isUnsure(sb: Superblock, index: number): boolean {
  return (sb.words[placementAt(index)]! & (FORMING | SCANNED)) !== 0
}

/** All of the region is durable. */
export function setFormed(sb: Superblock, index: number): void {
  sb.words[placementAt(index)]! &= PLACEMENT_MASK
}

function placementAt(index: number): number {
  return ((ENTRIES_AT + index * ENTRY_BYTES) >> 2) + 24
}

/** Where the next region in the host's memory begins: behind the last one, bytes. */
export function hostFreeAt(sb: Superblock): number {
  let end = HOST_DATA_AT
  for (let i = 0; i < regionCountOf(sb); i++) {
    const { placement, at, copies, areaBytes } = readEntry(sb, i)
    if (placement !== PLACEMENT_LOCAL) end = at + copies * areaBytes
  }
  return end
}

/** Appends a region to the page; the caller has checked that there is a place for it. */
export function addEntry(sb: Superblock, from: RegionEntry, endAt: number): void {
  const index = regionCountOf(sb)
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
  put64(words, w + 16, from.at)
  put64(words, w + 18, from.areaBytes)
  words[w + 24] = from.placement
  words[REGION_COUNT] = index + 1
  words[USED] = at + ENTRY_BYTES
  put64(words, FREE_AT, endAt)
}

/** Takes the last region off the page again, and gives its room back. */
export function dropLastEntry(sb: Superblock, firstFree: number): void {
  const index = regionCountOf(sb) - 1
  const at = ENTRIES_AT + index * ENTRY_BYTES
  sb.bytes.fill(0, at, at + ENTRY_BYTES)
  sb.words[REGION_COUNT] = index
  sb.words[USED] = at
  put64(sb.words, FREE_AT, firstFree)
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
  fence(list)
}

/** Makes the page in packet memory durable, twice. FLUSH if the part did not take it. */
export function writeSuperblock(list: CommandList, sb: Superblock): Fault {
  put64(sb.words, UPDATE, get64(sb.words, UPDATE) + 1)
  seal(list, sb)
  const { first } = sb
  writePage(list, sb, first)
  const firstEnd = list.count
  writePage(list, sb, 1 - first)
  const failed = run(list)
  // A page that failed half-way is the first to be written again; the other one is whole.
  if (failed >= firstEnd) sb.first = 1 - first
  return failed < 0 ? PASS : FLUSH
}

/** Lays out an empty part. The caller has found it BLANK. */
export function formatPart(
  list: CommandList,
  sb: Superblock,
  deviceId: Uint8Array,
  partBytes: number,
): Fault {
  sb.first = 0
  sb.words.fill(0)
  sb.words[MAGIC] = MAGIC_LOW
  sb.words[MAGIC + 1] = MAGIC_HIGH
  sb.words[VERSION] = FORMAT_VERSION
  sb.words[USED] = ENTRIES_AT
  for (let i = 0; i < 16; i++) sb.bytes[DEVICE_ID_AT + i] = deviceId[i]!
  put64(sb.words, PART_BYTES, partBytes)
  put64(sb.words, FREE_AT, DATA_AT)
  put64(sb.words, LANES_POSITION, LANES_AT)
  sb.words[LANE_COUNT] = LANES
  sb.words[OPERATIONS_POSITION] = OPERATIONS_AT
  // The magic alone and first, then everything else.
  copyClean(list, SUPERBLOCK_AT + CHECKED_AT, NVDIMM_SPACE + CHECKED_AT, 8, 0)
  fence(list)
  copyClean(list, ZEROS_AT, NVDIMM_SPACE + LANES_AT, LANES * LINE_BYTES, 0)
  for (let at = OPERATIONS_AT; at < DATA_AT; at += ZEROS_BYTES) {
    copyClean(list, ZEROS_AT, NVDIMM_SPACE + at, ZEROS_BYTES, 0)
  }
  fence(list)
  if (run(list) >= 0) return FLUSH
  return writeSuperblock(list, sb)
}

/** What one page turned out to be. */
interface PageView {
  readonly words: Int32Array
  readable: boolean
  valid: boolean
  zero: boolean
}

function viewPage(memory: ArrayBuffer, page: number): PageView {
  const at = SUPERBLOCK_AT + page * SUPERBLOCK_BYTES
  const words = new Int32Array(memory, at, SUPERBLOCK_BYTES / 4)
  return { words, readable: false, valid: false, zero: false }
}

function examinePages(list: CommandList, pages: readonly PageView[]): void {
  for (let p = 0; p < 2; p++) {
    const at = SUPERBLOCK_AT + p * SUPERBLOCK_BYTES
    copy(list, NVDIMM_SPACE + p * SUPERBLOCK_BYTES, at, SUPERBLOCK_BYTES)
    compare(list, at, ZEROS_AT, SUPERBLOCK_BYTES)
  }
  runAll(list)
  for (let p = 0; p < 2; p++) {
    const page = pages[p]!
    page.readable = resultOf(list, 2 * p) === 0
    page.zero = page.readable && resultOf(list, 2 * p + 1) === EQUAL
  }
  for (let p = 0; p < 2; p++) pages[p]!.valid = verifyPage(list, pages[p]!, p)
}

function verifyPage(list: CommandList, page: PageView, p: number): boolean {
  if (!isOurs(page) || page.words[VERSION] !== FORMAT_VERSION) return false
  const used = page.words[USED]!
  if (used < ENTRIES_AT || used > SUPERBLOCK_BYTES) return false
  const at = SUPERBLOCK_AT + p * SUPERBLOCK_BYTES
  checkCode(list, at + CHECKED_AT, RECOVERY_AT, used - CHECKED_AT, KEYS_AT)
  compare(list, RECOVERY_AT, at, KEY_BYTES)
  runAll(list)
  return resultOf(list, 1) === EQUAL && isSane(page.words, list.machine.facts.nvdimmBytes)
}

/**
 * Does the page name only what can be? The check code guards against decay, not against a page that
 * somebody made: nothing that it says may lead outside the part. A part that has shrunk is another
 * matter (TRUNCATED), so its own statement of its size is the measure.
 */
function isSane(words: Int32Array, partBytes: number): boolean {
  const regions = words[REGION_COUNT]!
  const bytes = get64(words, PART_BYTES)
  if (regions < 0 || regions > REGIONS) return false
  if (words[USED] !== ENTRIES_AT + regions * ENTRY_BYTES) return false
  if (words[LOST_COUNT]! < 0 || words[LOST_COUNT]! > LOST_MAX) return false
  if (words[LANE_COUNT] !== LANES || get64(words, LANES_POSITION) !== LANES_AT) return false
  if (words[OPERATIONS_POSITION] !== OPERATIONS_AT) return false
  if (words[INCARNATION]! < 0 || words[INCARNATION]! >= INCARNATIONS - 1) return false
  if (bytes % SUPERBLOCK_BYTES !== 0 || bytes > Math.max(partBytes, 2 ** 47)) return false
  // Regions lie one behind the other, and what is free begins behind the last: none overlaps.
  let end = DATA_AT
  let hostEnd = HOST_DATA_AT
  for (let i = 0; i < regions; i++) {
    const w = (ENTRIES_AT + i * ENTRY_BYTES) >> 2
    const placement = words[w + 24]! & PLACEMENT_MASK
    const local = placement === PLACEMENT_LOCAL
    if ((words[w + 24]! & ~(PLACEMENT_MASK | FORMING | SCANNED)) !== 0) return false
    if (placement > PLACEMENT_THROUGH) return false
    if (get64(words, w + 16) !== (local ? end : hostEnd)) return false
    if (!isEntrySane(words, w, local ? bytes : HOST_BYTES_MAX)) return false
    const taken = words[w + 12]! * get64(words, w + 18)
    if (local) end += taken
    else hostEnd += taken
  }
  return get64(words, FREE_AT) === end
}

function isEntrySane(words: Int32Array, w: number, bytes: number): boolean {
  const copies = words[w + 12]!
  const at = get64(words, w + 16)
  const areaBytes = get64(words, w + 18)
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

function refusal(a: PageView, b: PageView): Fault {
  const newer = (page: PageView): boolean => isOurs(page) && page.words[VERSION]! > FORMAT_VERSION
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
 * is refused: BLANK, FOREIGN, NEWER, DAMAGED, TRUNCATED. Nothing is written.
 */
export function readSuperblock(list: CommandList, sb: Superblock, partBytes: number): Fault {
  const memory = list.machine.memory
  const a = viewPage(memory, 0)
  const b = viewPage(memory, 1)
  examinePages(list, [a, b])
  if (!a.valid && !b.valid) return refusal(a, b)
  const later = a.valid && b.valid && get64(b.words, UPDATE) > get64(a.words, UPDATE)
  if (!a.valid || later) sb.words.set(b.words)
  const behind = !b.valid || get64(b.words, UPDATE) < get64(a.words, UPDATE)
  sb.first = a.valid && behind ? 1 : 0
  if (get64(sb.words, PART_BYTES) > partBytes) return TRUNCATED
  return PASS
}

assert(LOST_AT + LOST_MAX * 8 <= ENTRIES_AT, 'the list of the lost must fit')
assert(ENTRIES_AT + REGIONS * ENTRY_BYTES <= SUPERBLOCK_BYTES, 'the table must fit')
