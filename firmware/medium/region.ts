/**
 * Regions: what a remote key gives access to, and where its bytes lie.
 *
 * Invariants:
 * - A key is 32 bits of which 27 are random, drawn again at every power-on: a key of an earlier
 *   incarnation, or a guessed one, names nothing. Its low five bits are the region's place in the
 *   table, so a look-up is one load and one comparison.
 * - Copy `c` of slot `s` lies at `base + c * areaBytes + s * stride`, and nowhere else; slots are
 *   whole lines, so no line belongs to two of them.
 * - Bounds are judged in the form `offset <= length - count` on differences that cannot overflow.
 */

import type { BoardState } from '../board/context.ts'
import { type Fault, KEY, PASS, PROTECTION_DOMAIN, RIGHTS } from '../board/fault.ts'
import { HOST_SPACE, NVDIMM_SPACE } from '../board/hal.ts'
import { LINE_BYTES, REGIONS, RELAYS } from '../board/limits.ts'
import { random32 } from '../board/random.ts'

/** A region of slots, each of which holds one record in several copies. */
export const KIND_RECORDS = 0
/** A region of plain bytes, as any RDMA target has. */
export const KIND_BYTES = 1
/** A region of the host's ordinary memory, registered on demand: its pages come and go. */
export const KIND_ON_DEMAND = 2
/** No region: what goes to the receives of a host (MESSAGES). It is on no medium. */
export const KIND_MESSAGES = 3

/** Access flags as in wire-format section 4 (IBTA 10.6.3), and our own for WRITE_PERSIST. */
export const REMOTE_WRITE: number = 1 << 1
export const REMOTE_READ: number = 1 << 2
export const REMOTE_ATOMIC: number = 1 << 3
export const FLUSH_GLOBAL: number = 1 << 8
export const FLUSH_PERSISTENT: number = 1 << 9
export const WRITE_PERSIST: number = 1 << 16

/** What a region of records grants, and one of bytes. */
export const RECORDS_RIGHTS: number =
  WRITE_PERSIST | REMOTE_WRITE | REMOTE_READ | FLUSH_GLOBAL | FLUSH_PERSISTENT
export const BYTES_RIGHTS: number =
  REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC | FLUSH_GLOBAL | FLUSH_PERSISTENT

/** Region flag: every record has exactly `capacity` bytes (D-1). */
export const FIXED_LENGTH = 1
/** Region flag, of bytes: every store that is acknowledged is durable (P2-1, P2-5). */
export const WRITE_PERSIST_REGION = 2
/**
 * Region flag, of records: clients write the copies by themselves, each by a WRITE and a FLUSH, and
 * the card examines them and makes them equal (S1-M2; source 1, FIG. 11).
 */
export const PAIR = 8
/**
 * Region flag, of records, as it is told and never stored: a record may bring a guard (S1-M1). Of a
 * relay the other DPU has told it.
 */
export const TAKES_GUARDS = 4
/**
 * Region flag, as it is told and never stored: it may stand in a batch beside other regions, and
 * one of bytes in a batch at all (S1-M9).
 */
export const JOINS_BATCHES = 16

/*
 * Where a region lies, and how it is made durable. Numbers 0 to 2 stand on the medium and in
 * control calls, 3 in the answer to ATTACH. Code asks three things of a placement:
 *
 *   LOCAL or not         is it in the NVDIMM, or in somebody else's memory?
 *   THROUGH and above    is a record handed on (respond/persist.ts), not stored by the group?
 *   one number alone     its own rules
 */

/** In the NVDIMM, by write-back and fence. */
export const PLACEMENT_LOCAL = 0
/** In the host's memory, past its caches: a DMA read behind the writes (source 2, flow 1). */
export const PLACEMENT_BYPASS = 1
/** In the host's memory, through its caches: the host's CPU writes them back (flow 2). */
export const PLACEMENT_THROUGH = 2
/** With another DPU, to which its records are sent on (placement/relay.ts). */
export const PLACEMENT_RELAY = 3
/** In the ordinary memory of the host (status/on-demand.ts): nothing there is durable. */
export const PLACEMENT_ORDINARY = 4

/*
 * The host's memory: a page for the probe, then regions, one behind the other. Offsets in
 * HOST_SPACE, bytes.
 */
export const HOST_PROBE_AT = 0
export const HOST_DATA_AT = 4096

/**
 * Upper word of the address of the first byte of a region of bytes; the lower one is 0. Linux
 * repeats FLUSH and ATOMIC WRITE with address 0 (wire-format 9.4): no byte lies there, and none
 * within four GiB of it, so what was sent to somewhere else is never done at a region's begin.
 * Nothing on the medium depends on it.
 */
export const BYTES_BASE_HIGH = 1

export interface Region {
  readonly index: number
  readonly id: number
  readonly name: string
  readonly kind: number
  readonly slots: number
  /** Bytes of data that one slot holds. */
  readonly capacity: number
  readonly copies: number
  readonly flags: number
  readonly protectionDomain: number
  /** Bytes from one slot to the next. */
  readonly stride: number
  /** One of PLACEMENT_*. */
  readonly placement: number
  /** Offset of the first copy's area in its space, bytes. */
  readonly at: number
  /** Address of the first copy's area: its space plus `at`. */
  readonly base: number
  /** Bytes of one copy's area; a region of bytes has one. */
  readonly areaBytes: number
  /** Virtual address of the first byte, for a region of bytes. */
  readonly baseHigh: number
  readonly baseLow: number
  /** Address of the 16-byte check-code key in packet memory. */
  readonly keyAt: number
  rkey: number
  /** Of a region of bytes in the host's memory, without what is not proven (proof.ts). */
  rights: number
  /** Records that no copy could settle; while there is one, the region refuses writes (D-14). */
  unsettled: number
  /** Records so far of which decayed copies are whole again (recovery.ts). */
  repaired: number
  /** How what lies in it becomes durable, as PERSIST_ACKs and completions say it. */
  readonly mechanism: number
  /** Records that wait for a host that shows its memory; likewise. */
  pending: number
}

/**
 * Where a message of a batch goes (S1-M9): to a receive of the host behind its queue pair. Whoever
 * asks a member for its region is told this one, which no key names and no table holds. What stands
 * in the NVDIMM of a message is its operation.
 */
export const MESSAGES: Region = {
  index: REGIONS + RELAYS,
  id: -1,
  name: '',
  kind: KIND_MESSAGES,
  slots: 0,
  capacity: 0,
  copies: 1,
  flags: 0,
  protectionDomain: 0,
  stride: 0,
  placement: PLACEMENT_LOCAL,
  at: 0,
  base: 0,
  areaBytes: 0,
  baseHigh: 0,
  baseLow: 0,
  keyAt: 0,
  rkey: 0,
  rights: 0,
  unsettled: 0,
  repaired: 0,
  mechanism: 0,
  pending: 0,
}

/** Places for regions; the low five bits of a key choose the place. */
export interface RegionTable {
  readonly places: (Region | null)[]
  count: number
}

export function createRegionTable(): RegionTable {
  const places: (Region | null)[] = []
  for (let i = 0; i < REGIONS + RELAYS; i++) places.push(null)
  return { places, count: 0 }
}

/** What one request names, and where its bytes lie: up to `end` at `from`, zeros behind. */
export interface Located {
  /** The region that its key names, or null. */
  region: Region | null
  /** The region, if it is registered on demand: `from` is 0 then, and offsets are its own. */
  paged: Region | null
  /** Address of the byte at offset 0, or -1: all zeros. */
  from: number
  /** Bytes at `from`. */
  end: number
  /** Offset of the request. */
  offset: number
}

export function blankLocated(): Located {
  return { region: null, paged: null, from: 0, end: 0, offset: 0 }
}

/** Bytes from one slot to the next for a capacity: the header line and whole lines of data. */
export function strideOf(capacity: number): number {
  return LINE_BYTES + Math.ceil(capacity / LINE_BYTES) * LINE_BYTES
}

/** Address of offset `at` in the space of that placement. */
export function placedAt(placement: number, at: number): number {
  return (placement === PLACEMENT_LOCAL ? NVDIMM_SPACE : HOST_SPACE) + at
}

/** Address of copy `copy` of slot `slot`. */
export function slotAddress(region: Region, copy: number, slot: number): number {
  return region.base + copy * region.areaBytes + slot * region.stride
}

/** A key for the region at that place of the table, never 0: all that is not the place is drawn. */
export function drawKey(state: BoardState, index: number): number {
  const drawn = random32(state) << 5
  return ((drawn === 0 ? 1 << 5 : drawn) | index) >>> 0
}

/** The region that a key names, or null. */
export function findRegion(table: RegionTable, rkey: number): Region | null {
  const region = table.places[rkey & 31]!
  return region !== null && region.rkey === rkey ? region : null
}

export function findRegionByName(table: RegionTable, name: string): Region | null {
  for (let i = 0; i < table.places.length; i++) {
    const region = table.places[i]!
    if (region !== null && region.name === name) return region
  }
  return null
}

export function findRegionById(table: RegionTable, id: number): Region | null {
  for (let i = 0; i < REGIONS; i++) {
    const region = table.places[i]!
    if (region !== null && region.id === id) return region
  }
  return null
}

/** The flags of the region as others are told of them. */
export function toldFlags(region: Region): number {
  const { kind, placement, flags } = region
  // Each relay has a link of its own.
  if (placement === PLACEMENT_RELAY) return flags & ~JOINS_BATCHES
  if (kind === KIND_RECORDS) return isPair(region) ? flags : flags | TAKES_GUARDS | JOINS_BATCHES
  const joins = (flags & WRITE_PERSIST_REGION) !== 0 && placement < PLACEMENT_THROUGH
  return joins ? flags | JOINS_BATCHES : flags
}

/** Do clients write its copies by themselves? */
export function isPair({ kind, flags }: Pick<Region, 'kind' | 'flags'>): boolean {
  return kind === KIND_RECORDS && (flags & PAIR) !== 0
}

/** Key, protection domain and rights, in that order (wire-format 3.3, step 10). */
export function accessFault(region: Region | null, domain: number, rights: number): Fault {
  if (region === null) return KEY
  if (region.protectionDomain !== domain) return PROTECTION_DOMAIN
  return (region.rights & rights) === rights ? PASS : RIGHTS
}

/**
 * Offset of [va, va + length) in a region of bytes, or -1 where it leaves the region. The address
 * is two unsigned words; only their differences enter arithmetic.
 */
export function byteOffset(region: Region, vaHigh: number, vaLow: number, length: number): number {
  const high = vaHigh - region.baseHigh
  if (high < 0 || high >= 2 ** 16) return -1
  const offset = high * 2 ** 32 + (vaLow - region.baseLow)
  if (offset < 0 || length > region.areaBytes || offset > region.areaBytes - length) return -1
  return offset
}
