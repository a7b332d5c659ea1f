/**
 * What lies on a simulated part, read from its bytes as the diagrams say, without any code of the
 * firmware: which version a copy is, and whether anything was touched that nobody may touch.
 *
 * What always holds: a copy counts as a version only if every field of its header and every byte of
 * its data are those of that version. Its check code is not computed here, which would be most of
 * the work: the firmware's own start rejects a copy whose code is wrong, and that record is then
 * missed; the stage `crash` judges the codes themselves.
 */

import type { Nvdimm } from '../../../boards/emulator/nvdimm.ts'
import { isPattern } from './frames.ts'
import type { Register, Version } from './register.ts'

const SLOT_MAGIC = 0x5044534c
const ENTRIES_AT = 640
const ENTRY_BYTES = 128
const REGIONS_WORD = 92 / 4
const LOST_COUNT_WORD = 96 / 4
const LOST_AT = 128
const PAGE_BYTES = 4096
/** Superblock, lanes and operation table: the firmware's own. */
export const DATA_AT = 28672

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
    if (version.length !== length || version.operation !== words[w + 12]) continue
    if (version.operation !== 0 && version.client !== words[w + 10]) continue
    if (isPattern(bytes, at + 64, length, version.uid)) return version
  }
  return null
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

  constructor(part: Nvdimm) {
    this.part = part
    this.bytes = part.durable.slice()
  }

  /** What lies there now may lie there. */
  allow(at: number, length: number): void {
    this.bytes.set(this.part.durable.subarray(at, at + length), at)
  }

  /** The first byte that nobody was allowed to change, or -1. */
  foreign(): number {
    const { part, bytes } = this
    if (Buffer.compare(part.durable.subarray(DATA_AT), bytes.subarray(DATA_AT)) === 0) return -1
    for (let at = DATA_AT; at < bytes.length; at++) if (part.durable[at] !== bytes[at]) return at
    return -1
  }
}

/** Pages that hold so many bytes. */
export function wholePages(bytes: number): number {
  return Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES
}
