/**
 * What a client knows of its records: of each the versions that it began, and which of them were
 * acknowledged as durable.
 *
 * Invariant: the bytes of a version are a function of region, slot and version alone, so
 * whoever reads a record can tell which version it is, and whether it is that one wholly.
 */

import type { Durability } from '../../host-driver/index.ts'
import { randomSource } from '../../host-driver/way/options.ts'

/** A region that the kills are aimed at. */
interface Target {
  readonly name: string
  readonly slots: number
  /** Bytes of the longest record; records are of every length up to that. */
  readonly capacity: number
  readonly copies: number
  /** The levels that its records are written at, in turn by version. */
  readonly levels: readonly Durability[]
}

/** Small records, pages, records of several packets, and three copies: under a megabyte of part. */
export const TARGETS: readonly Target[] = [
  { name: 'small', slots: 64, capacity: 64, copies: 2, levels: ['2of2', '1of2'] },
  { name: 'pages', slots: 16, capacity: 4096, copies: 2, levels: ['2of2', '1of2'] },
  { name: 'long', slots: 4, capacity: 65536, copies: 2, levels: ['2of2', '1of2'] },
  { name: 'three', slots: 16, capacity: 1000, copies: 3, levels: ['2of3', '3of3', '1of3'] },
]

/** Bytes of a part that has room for them all. */
export const PART_BYTES: number = 2 << 20

/** Names region, slot and version at the head of a record, bytes. */
const HEAD_BYTES = 16
const MAGIC = 0x4b494c4c

/** One record, as its writer knows it. */
export interface Entry {
  readonly target: Target
  readonly region: number
  readonly slot: number
  /** The version that was seen last, or acknowledged: an older one is a loss. 0: never written. */
  atLeast: number
  /** The first version that was begun since the last look at the record. */
  from: number
  /** The newest version that was begun. */
  begun: number
  /** Somebody waits for an answer. */
  busy: boolean
}

export class Ledger {
  readonly entries: readonly Entry[] = TARGETS.flatMap((target, region) =>
    Array.from({ length: target.slots }, (_, slot) => ({
      ...{ target, region, slot },
      ...{ atLeast: 0, from: 1, begun: 0, busy: false },
    })),
  )

  /** Records of which something was begun since the last look. */
  touched(): Entry[] {
    return this.entries.filter(({ begun, from }) => begun >= from)
  }
}

/** May the record be this version now? */
export function isAllowed({ atLeast, from, begun }: Entry, version: number): boolean {
  return version === atLeast || (version > atLeast && version >= from && version <= begun)
}

/** The level of a version. */
export function levelOf({ target }: Entry, version: number): Durability {
  return target.levels[version % target.levels.length]!
}

/** The bytes of a version; every length from 16 to the capacity occurs, the longest often. */
export function bytesOf({ target, region, slot }: Entry, version: number): Uint8Array {
  const random = randomSource(region * 2 ** 24 + slot * 2 ** 16 + version)
  const room = target.capacity - HEAD_BYTES
  const draw = random()
  const length = HEAD_BYTES + (draw % 4 === 0 ? room : (draw >>> 2) % (room + 1))
  const words = new Uint32Array(Math.ceil(length / 4))
  words.set([MAGIC, region, slot, version])
  // A stream of its own for each record: no eight bytes of two versions are alike by design.
  let state = random() | 1
  for (let i = HEAD_BYTES / 4; i < words.length; i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    words[i] = state
  }
  return new Uint8Array(words.buffer, 0, length)
}

/** The version that these bytes say they are, or -1 where they are no record of that place. */
function versionSaid({ region, slot }: Entry, bytes: Uint8Array): number {
  if (bytes.length < HEAD_BYTES) return -1
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEAD_BYTES)
  const said = [0, 4, 8].map((at) => view.getUint32(at, true))
  if (said[0] !== MAGIC || said[1] !== region || said[2] !== slot) return -1
  return view.getUint32(12, true)
}

/** The version that these bytes are, wholly; -1 where they are none. */
export function versionOf(entry: Entry, bytes: Uint8Array): number {
  if (bytes.length === 0) return 0
  const version = versionSaid(entry, bytes)
  if (version < 1 || version > entry.begun) return -1
  return Buffer.compare(bytesOf(entry, version), bytes) === 0 ? version : -1
}
