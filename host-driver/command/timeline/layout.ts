/** What lies where in a part: its lanes, and the records of its regions, as the part says. */

import type { Nvdimm } from '../../../boards/emulator/index.ts'
import { LANES, LINE_BYTES, REGIONS } from '../../../firmware/board/limits.ts'
import { KIND_RECORDS, PLACEMENT_LOCAL, strideOf } from '../../../firmware/medium/region.ts'
import { SLOT_HEADER_BYTES, SLOT_MAGIC } from '../../../firmware/medium/slot.ts'
import {
  DATA_AT,
  endOfRoom,
  LANES_AT,
  OPERATIONS_AT,
  readEntry,
  regionCountOf,
} from '../../../firmware/medium/superblock.ts'
import type { Area } from './data.ts'

/** A region of records in the card's own part. */
export interface RecordsRegion {
  readonly id: number
  readonly name: string
  readonly slots: number
  readonly copies: number
  readonly stride: number
  readonly at: number
  readonly areaBytes: number
}

/** The record that a byte is of, and which copy. */
export interface RecordPlace {
  readonly region: RecordsRegion
  readonly record: number
  readonly copy: number
}

/** The regions that loads see. */
export function regionsOf(part: Nvdimm): RecordsRegion[] {
  const { liveWords: words, live: bytes } = part
  const superblock = { words, bytes, whole: 0, half: false, mended: 0 }
  const count = Math.min(regionCountOf(superblock), REGIONS)
  return Array.from({ length: count }, (_, i) => readEntry(superblock, i))
    .filter((entry) => entry.kind === KIND_RECORDS && entry.placement === PLACEMENT_LOCAL)
    .filter((entry) => entry.copies > 0 && endOfRoom(entry) <= part.bytes)
    .map(({ id, name, slots, copies, capacity, at, areaBytes }) => ({
      ...{ id, slots, copies, at, areaBytes, stride: strideOf(capacity) },
      name: textOf(name),
    }))
}

function textOf(name: Uint8Array): string {
  const end = name.indexOf(0)
  return Buffer.from(end < 0 ? name : name.subarray(0, end)).toString('utf8')
}

/** Where a copy of a record begins. */
export function slotAt(region: RecordsRegion, record: number, copy: number): number {
  return region.at + copy * region.areaBytes + record * region.stride
}

export function recordAt(regions: readonly RecordsRegion[], at: number): RecordPlace | null {
  for (const region of regions) {
    const offset = at - region.at
    if (offset < 0 || offset >= region.copies * region.areaBytes) continue
    const record = Math.floor((offset % region.areaBytes) / region.stride)
    if (record >= region.slots) return null
    return { region, record, copy: Math.floor(offset / region.areaBytes) }
  }
  return null
}

/** The lane that a byte is of, or -1. */
export function laneAt(at: number): number {
  const lane = Math.floor((at - LANES_AT) / LINE_BYTES)
  return lane >= 0 && lane < LANES ? lane : -1
}

export function laneOffset(lane: number): number {
  return LANES_AT + lane * LINE_BYTES
}

/** What is no record's, in its order. */
const PLACES: readonly (readonly [name: string, at: number, end: number])[] = [
  ['superblock, page A', 0, LANES_AT / 2],
  ['superblock, page B', LANES_AT / 2, LANES_AT],
  ...Array.from({ length: LANES }, (_, lane) => {
    return [`lane ${lane}`, laneOffset(lane), laneOffset(lane + 1)] as const
  }),
  ['operation table', OPERATIONS_AT, DATA_AT],
]

export const AREAS: readonly Area[] = PLACES.map(([name, at, end]) => {
  return { name, lines: [at / LINE_BYTES, (end - at) / LINE_BYTES] }
})

/** What a place is of, in words, where it is no record's. */
export function placeText(at: number): string {
  return PLACES.find(([, from, end]) => at >= from && at < end)?.[0] ?? 'plain memory'
}

// Positions in a slot header, 32-bit words.
const MAGIC = 4
const LENGTH = 7
const SEQUENCE = 8
const OPERATION = 12

/** What a slot header that looks like one says; null where it does not. */
interface SlotFacts {
  readonly length: number
  /** Bytes of header and data: what stands behind them, up to the end of a line, says nothing. */
  readonly bytes: number
  readonly sequence: string
  readonly operation: string
}

export function slotFacts(words: Int32Array, at: number, stride: number): SlotFacts | null {
  const w = at >> 2
  const length = words[w + LENGTH]! >>> 0
  if (words[w + MAGIC] !== SLOT_MAGIC || length >= stride) return null
  return {
    length,
    bytes: Math.min(stride, SLOT_HEADER_BYTES + length),
    sequence: wide(words, w + SEQUENCE),
    operation: wide(words, w + OPERATION),
  }
}

/** A field of 64 bits, its low word first, in decimal. */
function wide(words: Int32Array, w: number): string {
  return String((BigInt(words[w + 1]! >>> 0) << 32n) | BigInt(words[w]! >>> 0))
}
