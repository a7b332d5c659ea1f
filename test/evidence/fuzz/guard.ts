/**
 * The judge of stores: which lines of the part an input was authorised to change, worked out from
 * its bytes alone, and a part that notices every store beyond them.
 *
 * Invariant: nothing here asks the firmware. A request that passed its ICRC, comes from the
 * peer of its queue pair, has the PSN that is due, and names a region of the queue pair's domain by
 * its key, opens the lines of what it names until the world rests; nothing else opens any.
 */

import { Nvdimm } from '../../../boards/emulator/medium/nvdimm.ts'
import * as oracle from '../../support/judges/oracle.ts'

/** A part that notices stores into lines that nobody opened. */
export class GuardedPart extends Nvdimm {
  guarding = false
  /** Opened until the world rests: the number of the rest before. */
  readonly opened: Int32Array = new Int32Array(this.bytes / oracle.LINE_BYTES).fill(-1)
  /** Open permanently: lanes, the table of operations. */
  readonly always: Uint8Array = new Uint8Array(this.bytes / oracle.LINE_BYTES)
  epoch = 0
  /** The first store that was not authorised. */
  breach = ''

  override store(at: number, source: Uint8Array, sourceAt: number, length: number): number {
    if (this.guarding && length > 0) this.look(at, length)
    return super.store(at, source, sourceAt, length)
  }

  private look(at: number, length: number): void {
    const last = (at + length - 1) >> 6
    for (let line = at >> 6; line <= last; line++) {
      if (this.always[line] !== 0 || this.opened[line] === this.epoch) continue
      if (this.breach !== '') return
      this.breach = `${length} bytes are stored at ${at} of the part, which nobody was given`
    }
  }

  open(at: number, length: number): void {
    this.opened.fill(this.epoch, at >> 6, (at + length + 63) >> 6)
  }

  openAlways(at: number, end: number): void {
    this.always.fill(1, at >> 6, (end + 63) >> 6)
  }
}

/** A region as a client knows it, and where it lies. */
interface Area {
  readonly rkey: number
  readonly domain: number
  readonly layout: oracle.RegionLayout
}

/** A queue pair that somebody opened. */
interface Known {
  readonly number: number
  readonly peer: number
  readonly domain: number
  readonly ipVersion: 4 | 6
}

const KIND_RECORDS = 0
const ETHERTYPE_IPV4 = 0x0800
const ETHERTYPE_VLAN = 0x8100

/** Flags of a WRITE_PERSIST: where by slot, or with all copies; else it has an address. */
const BY_SLOT_OR_CARRIED = 0x30
/** Flag of a region of bytes that takes these. */
const WRITE_PERSIST_REGION = 2

/** Upper word of every address in plain bytes. */
const BYTES_HIGH = 1

/* What a request names, by its opcode: an address and a length, or eight bytes. */
const NAMES_NOTHING = 0
const NAMES_RANGE = 1
const NAMES_WORD = 2
const NAMES_RECORD = 3
/** A range of bytes that is durable when it is acknowledged. */
const NAMES_PERSISTED = 4
const NAMES: Uint8Array = new Uint8Array(256)
for (const opcode of [0x06, 0x0a, 0x0b]) NAMES[opcode] = NAMES_RANGE
for (const opcode of [0x13, 0x14, 0x1d]) NAMES[opcode] = NAMES_WORD
for (const opcode of [0xc6, 0xca]) NAMES[opcode] = NAMES_RECORD

const big32 = (bytes: Uint8Array, at: number): number =>
  ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0

const big16 = (bytes: Uint8Array, at: number): number => (bytes[at]! << 8) | bytes[at + 1]!

/** Where BTH begins in a frame whose ICRC is right, from `at`. */
export function bthOf(bytes: Uint8Array, at: number): number {
  let ip = at + 14
  if (big16(bytes, ip - 2) === ETHERTYPE_VLAN) ip += 4
  return ip + (big16(bytes, ip - 2) === ETHERTYPE_IPV4 ? 28 : 48)
}

/** Opens what frames are authorised to change. */
export class Authority {
  readonly areas: Map<number, Area> = new Map()
  readonly pairs: Map<number, Known> = new Map()
  private readonly part: GuardedPart

  constructor(part: GuardedPart) {
    this.part = part
  }

  /** A frame whose ICRC is right; `due` is the PSN that its queue pair expects, or -1. */
  hear(bytes: Uint8Array, at: number, due: (number: number) => number): void {
    const bth = bthOf(bytes, at)
    const names = NAMES[bytes[bth]!]!
    if (names === NAMES_NOTHING) {
      if (bytes[bth] === 0x64) this.hearControl(bytes, bth)
      return
    }
    const number = big32(bytes, bth + 4) & 0xffffff
    const pair = this.pairs.get(number)
    if (pair === undefined || due(number) !== (big32(bytes, bth + 8) & 0xffffff)) return
    const area = this.areas.get(big32(bytes, bth + 20))
    if (area === undefined || area.domain !== pair.domain) return
    const high = big32(bytes, bth + 12)
    const low = big32(bytes, bth + 16)
    const length = names === NAMES_WORD ? 8 : big32(bytes, bth + 24)
    const hasAddress = names === NAMES_RECORD && (bytes[bth + 29]! & BY_SLOT_OR_CARRIED) === 0
    this.grant(area, hasAddress ? NAMES_PERSISTED : names, high, low, length)
  }

  private grant(area: Area, names: number, high: number, low: number, length: number): void {
    const { layout } = area
    if (layout.kind === KIND_RECORDS) {
      if (names === NAMES_WORD || high >= layout.slots) return
      for (let copy = 0; copy < layout.copies; copy++) {
        this.part.open(oracle.copyAt(layout, copy, high), layout.stride)
      }
      return
    }
    if (names === NAMES_RECORD || high !== BYTES_HIGH) return
    if (names === NAMES_PERSISTED && (layout.flags & WRITE_PERSIST_REGION) === 0) return
    if (length > layout.areaBytes || low > layout.areaBytes - length || length === 0) return
    this.part.open(layout.at + low, length)
  }

  /**
   * A control call that makes a region may change the superblock and what no region has; one that
   * removes a region, the superblock and the region; one that gives a record up, the superblock and
   * its record.
   */
  private hearControl(bytes: Uint8Array, bth: number): void {
    const mad = bth + 20
    if (bytes[mad + 3] !== 2) return
    const attribute = big16(bytes, mad + 16)
    if (attribute === 0x12) {
      // It may be made in later calls, in slices.
      this.part.openAlways(0, oracle.LANES_AT)
      this.part.openAlways(this.freeAt(), this.part.bytes)
    } else if (attribute === 0x15) {
      this.hearRemoval(bytes.subarray(mad + 32, mad + 64))
    } else if (attribute === 0x33) {
      this.part.open(0, oracle.LANES_AT)
      const record = big32(bytes, mad + 36)
      for (const { layout } of this.areas.values()) {
        if (layout.id !== big32(bytes, mad + 32) || record >= layout.slots) continue
        this.grant({ rkey: 0, domain: 0, layout }, NAMES_RECORD, record, 0, 0)
      }
    }
  }

  /** The room is filled with zeros in later calls, and whatever is made then may lie in it. */
  private hearRemoval(name: Uint8Array): void {
    const { part } = this
    part.openAlways(0, oracle.LANES_AT)
    const said = Buffer.from(name).toString('latin1').replace(/\0+$/, '')
    for (const { layout } of this.areas.values()) {
      if (layout.name !== said) continue
      part.openAlways(layout.at, layout.at + (layout.copies || 1) * layout.areaBytes)
    }
  }

  /** Behind every region that is known. */
  freeAt(): number {
    let end = oracle.OPERATIONS_AT + oracle.OPERATIONS_BYTES
    for (const { layout } of this.areas.values()) {
      end = Math.max(end, layout.at + layout.copies * layout.areaBytes)
    }
    return end
  }
}
