/**
 * What lies on a simulated part, read from its bytes as the diagrams say, without any code of the
 * firmware: which version a copy is, and whether anything was touched that nobody may touch.
 *
 * Invariant: a copy counts as a version only if every field of its header and every byte of
 * its data are those of that version. Its check code is not computed here, which would be most of
 * the work: the firmware's own start rejects a copy whose code is wrong, and that record is then
 * missed; the stage `crash` judges the codes themselves.
 */

import type { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import { judgedGuard } from '../../support/judges/crc32c.ts'
import { sealPage } from '../../support/judges/oracle.ts'
import { isPattern } from './frames.ts'
import { highOf, isGuarded } from './operation.ts'
import type { Register, Version } from './register.ts'

const SLOT_MAGIC = 0x5044534c
const ENTRIES_AT = 640
const ENTRY_BYTES = 128
/** In an entry: of the region more records are lost than the list names. */
const FLAGS_WORD = 96 / 4
const OVERFULL = 16
const UPDATE_WORD = 32 / 4
const INCARNATION_WORD = 40 / 4
const DIRTY_WORD = 44 / 4
const VOID_WORD = 104 / 4
const REGIONS_WORD = 92 / 4
const LOST_COUNT_WORD = 96 / 4
const LOST_AT = 128
const PAGE_BYTES = 4096
/** A part has so many incarnations: the sequences have no room for one more. */
export const INCARNATION_LAST: number = 2 ** 20 - 2
/** Starts that one save which failed may have taken back, and saves that are counted so. */
const STARTS_TAKEN_BACK = 256
const SAVES_FAILED_MOST = 16
/** Superblock, lanes and operation table: the firmware's own. */
export const DATA_AT = 28672
export const TABLE_AT = 12288

/** What a part is made of, as media errors meet it. */
export const STRUCTURES = ['superblock', 'lane', 'table', 'record'] as const

/** In what is counted: more than one of them; and behind what was hit. */
export const SEVERAL = 'several structures'
export const WHILE_IT_SERVES = ' hit while it serves'

export type Structure = (typeof STRUCTURES)[number]

/** What lies in that line of 64 bytes. */
export function structureOf(line: number): Structure {
  const at = line * 64
  if (at < 2 * PAGE_BYTES) return 'superblock'
  if (at < TABLE_AT) return 'lane'
  return at < DATA_AT ? 'table' : 'record'
}

/** A region, from its entry. */
export interface Layout {
  readonly id: number
  readonly slots: number
  readonly capacity: number
  readonly copies: number
  readonly at: number
  readonly areaBytes: number
  readonly stride: number
  readonly bytesKind: boolean
}

export function layoutOf(part: Nvdimm, index: number): Layout {
  const words = new Uint32Array(part.live.buffer)
  const at = (ENTRIES_AT + index * ENTRY_BYTES) / 4
  const capacity = words[at + 11]!
  return {
    id: words[at + 8]!,
    bytesKind: words[at + 9] === 1,
    slots: words[at + 10]!,
    capacity,
    copies: words[at + 12]!,
    at: words[at + 16]!,
    areaBytes: words[at + 18]!,
    stride: 64 + Math.ceil(capacity / 64) * 64,
  }
}

export function regionCount(part: Nvdimm): number {
  return part.liveWords[REGIONS_WORD]!
}

/**
 * The incarnation that the next start finds: of the page of the superblock that can be read, and is
 * later. One that is torn is taken for whole; who asks can bear that.
 */
function incarnationOf(part: Nvdimm): number {
  return part.liveWords[INCARNATION_WORD + countingPage(part)]! >>> 0
}

/** Where that page begins, in 32-bit words. */
function countingPage(part: Nvdimm): number {
  const later = laterUpdate(part)
  const second = !part.readable(0, PAGE_BYTES) || (later && part.readable(PAGE_BYTES, PAGE_BYTES))
  return second ? PAGE_BYTES / 4 : 0
}

/** Is no incarnation left for a start? Each save that has failed since the last one costs some. */
export function isWornOut(part: Nvdimm): boolean {
  const counted = part.dirtyShutdowns - (part.liveWords[DIRTY_WORD + countingPage(part)]! >>> 0)
  const failed = counted === 0 ? 0 : Math.max(1, Math.min(counted, SAVES_FAILED_MOST))
  return incarnationOf(part) + 1 + STARTS_TAKEN_BACK * failed > INCARNATION_LAST
}

/** What a part says that has had many starts, updates and groups, and some saves that failed. */
export interface Worn {
  readonly incarnation: number
  readonly update: number
  /** The sequence up to which lines of the operation table are void. */
  readonly operations: number
  readonly dirtyShutdowns: number
}

/** Makes both pages of the superblock those of a part that has had many starts. */
export function wear(part: Nvdimm, worn: Worn): void {
  for (const at of [0, PAGE_BYTES]) {
    const page = part.live.subarray(at, at + PAGE_BYTES)
    const view = new DataView(page.buffer, at)
    view.setBigUint64(UPDATE_WORD * 4, BigInt(worn.update), true)
    view.setUint32(INCARNATION_WORD * 4, worn.incarnation, true)
    view.setUint32(DIRTY_WORD * 4, worn.dirtyShutdowns, true)
    view.setBigUint64(VOID_WORD * 4, BigInt(worn.operations), true)
    sealPage(page)
    part.durable.set(page, at)
  }
  part.dirtyShutdowns = worn.dirtyShutdowns
}

/** Was the second page written later than the first? */
function laterUpdate({ liveWords }: Nvdimm): boolean {
  for (const word of [UPDATE_WORD + 1, UPDATE_WORD]) {
    const first = liveWords[word]! >>> 0
    const second = liveWords[word + PAGE_BYTES / 4]! >>> 0
    if (first !== second) return second > first
  }
  return false
}

/** Does the part say that more of that region is lost than stands on its list? */
export function isOverfull(part: Nvdimm, index: number): boolean {
  const word = countingPage(part) + (ENTRIES_AT + index * ENTRY_BYTES) / 4 + FLAGS_WORD
  return (part.liveWords[word]! & OVERFULL) !== 0
}

/** Is the record on the list of the lost of the first page of the superblock? */
export function isListedLost(part: Nvdimm, layout: Layout, record: number): boolean {
  const words = part.durableWords
  for (let i = 0; i < words[LOST_COUNT_WORD]!; i++) {
    const at = (LOST_AT + 8 * i) / 4
    if (words[at] === layout.id && words[at + 1] === record) return true
  }
  return false
}

export function copyAt({ at, areaBytes, stride }: Layout, copy: number, record: number): number {
  return at + copy * areaBytes + record * stride
}

/** Which version lies there in those bytes; null for none, torn. */
export function versionAt(
  bytes: Uint8Array,
  words: Int32Array,
  at: number,
  layout: Layout,
  record: number,
  register: Register,
): Version | null {
  const w = at >> 2
  const length = words[w + 7]!
  if (words[w + 4] !== SLOT_MAGIC || words[w + 5] !== layout.id || words[w + 6] !== record) {
    return null
  }
  if (length < 0 || length > layout.capacity || words[w + 14] !== 1) return null
  const { versions } = register
  for (let i = versions.length - 1; i >= 0; i--) {
    const version = versions[i]!
    if (version.length !== length || (version.operation | 0) !== words[w + 12]) continue
    if (highOf(version.operation) !== words[w + 13]) continue
    const { names } = version
    if (version.operation !== 0 && names === null && version.client !== words[w + 10]) continue
    if (!isPattern(bytes, at + 64, length, version.uid)) continue
    if (names !== null && !names.takes(version.client, words[w + 11]!, words[w + 10]!)) return null
    // What came with a guard has it in every copy (S1-M1).
    const guard = guardOf(version, bytes.subarray(at + 64, at + 64 + length))
    return words[w + 15]! >>> 0 === guard ? version : null
  }
  return null
}

/** Worked out once. */
function guardOf(version: Version, data: Uint8Array): number {
  version.guard ??= isGuarded({ id: version.operation }) ? judgedGuard(data) : 0
  return version.guard
}

/** The sequence of a copy, low and high word. */
export function sequenceAt(part: Nvdimm, at: number): readonly [number, number] {
  return [part.liveWords[at / 4 + 8]! >>> 0, part.liveWords[at / 4 + 9]! >>> 0]
}

/** Has the durable copy at `a` a later sequence than the one at `b`? */
export function isLater({ durableWords }: Nvdimm, a: number, b: number): boolean {
  for (const word of [9, 8]) {
    const one = durableWords[a / 4 + word]! >>> 0
    const other = durableWords[b / 4 + word]! >>> 0
    if (one !== other) return one > other
  }
  return false
}

/** Where bytes may have been stored that nobody is allowed to store (O3). */
export class Shadow {
  private readonly bytes: Uint8Array
  private readonly part: Nvdimm
  private readonly from: number
  private readonly end: number

  constructor(part: Nvdimm, from: number, end: number) {
    this.part = part
    this.from = from
    this.end = end
    this.bytes = part.durable.slice()
  }

  /** What lies there now may lie there. */
  allow(at: number, length: number): void {
    this.bytes.set(this.part.durable.subarray(at, at + length), at)
  }

  /** The first byte that nobody was allowed to change, or -1. */
  foreign(): number {
    const { part, bytes, from, end } = this
    if (Buffer.compare(part.durable.subarray(from, end), bytes.subarray(from, end)) === 0) return -1
    for (let at = from; at < end; at++) if (part.durable[at] !== bytes[at]) return at
    return -1
  }
}

/** Pages that hold so many bytes. */
export function wholePages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}
