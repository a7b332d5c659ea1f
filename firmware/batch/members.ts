// hot path
/**
 * The records of a batch that are collected until the last one has come.
 *
 * Invariants:
 * - A record of one packet lies in the frame in which it was received until the end of the burst of
 *   frames, and is moved only if its batch is still not complete then. One of several packets is
 *   gathered where it stays.
 * - Room is given in chunks, each to one batch; a record never spans two, has a line for its slot
 *   header in front, and is padded to whole lines. What a batch holds is given back at once.
 * - Bytes come into a chunk by commands of the list, a slot header is written at once. So before
 *   headers are, the list has run since a chunk was last given back (`isStillFilled`): what it did
 *   for the batch of before would go over them.
 */

import { assert } from '../board/assert.ts'
import type { CommandList } from '../board/command-list.ts'
import type { Fault } from '../board/fault.ts'
import {
  BATCH_CHUNK_BYTES,
  BATCH_CHUNKS_EACH,
  BATCH_RECORDS_MAX,
  BATCHES,
  LINE_BYTES,
} from '../board/limits.ts'
import { BATCHES_AT, MEMBERS_AT, MEMBERS_BYTES, SLOT_PLACES } from '../board/memory-map.ts'

/** What was seen of the slot of a member that expects a sequence there. */
export const LOOK_UNKNOWN = 0
export const LOOK_HOLDS = 1
export const LOOK_DIFFERS = 2

/** Nobody. */
const FREE = -1

/** The place of the region of a message, which has none. */
export const NO_REGION = 255

/** What is collected of one burst, in its order. */
export interface Members {
  taken: boolean
  readonly indexes: Uint8Array
  /** Place of its region in those of its batch; NO_REGION of a message. */
  readonly regions: Uint8Array
  /** Of a record its slot; of a message its index. Of plain bytes the words of their offset. */
  readonly slots: Uint32Array
  readonly offsetsHigh: Uint32Array
  readonly lengths: Uint32Array
  readonly waits: Uint8Array
  /** What storage has against it. */
  readonly faults: Uint8Array
  /** Where its data lies in packet memory, or 0; and whether that is a frame: 1. */
  readonly at: Uint32Array
  readonly inFrame: Uint8Array
  /** The sequence that its slot must hold. */
  readonly expectHigh: Uint32Array
  readonly expectLow: Uint32Array
  /** The guard of its data; 0 without one. */
  readonly guards: Uint32Array
  /** One of LOOK_*. */
  readonly looks: Uint8Array
  /** Members by slot: their number, plus one. */
  readonly bySlot: Int16Array
  readonly chunks: Int16Array
  chunkCount: number
  /** Bytes of the last chunk that are in use. */
  chunkUsed: number
}

export interface Room {
  readonly members: Members[]
  /** Chunks in use: 1. */
  readonly chunkTaken: Uint8Array
  readonly list: Pick<CommandList, 'runs'>
  /** Runs of the list when a chunk was given back last. */
  givenBackAt: number
}

/** One more, in packet memory: words of each record, then slots, then bytes. */
export function addMembers(room: Pick<Room, 'members'>, memory: ArrayBuffer): void {
  const at = MEMBERS_AT + room.members.length * MEMBERS_BYTES
  if (room.members.length < BATCHES) room.members.push(membersAt(memory, at))
}

function membersAt(memory: ArrayBuffer, from: number): Members {
  const n = BATCH_RECORDS_MAX
  const halves = from + 7 * 4 * n
  const bytes = halves + 2 * SLOT_PLACES + 2 * BATCH_CHUNKS_EACH
  return {
    taken: false,
    slots: new Uint32Array(memory, from, n),
    lengths: new Uint32Array(memory, from + 4 * n, n),
    at: new Uint32Array(memory, from + 8 * n, n),
    expectHigh: new Uint32Array(memory, from + 12 * n, n),
    expectLow: new Uint32Array(memory, from + 16 * n, n),
    guards: new Uint32Array(memory, from + 20 * n, n),
    offsetsHigh: new Uint32Array(memory, from + 24 * n, n),
    bySlot: new Int16Array(memory, halves, SLOT_PLACES),
    chunks: new Int16Array(memory, halves + 2 * SLOT_PLACES, BATCH_CHUNKS_EACH),
    indexes: new Uint8Array(memory, bytes, n),
    waits: new Uint8Array(memory, bytes + n, n),
    faults: new Uint8Array(memory, bytes + 2 * n, n),
    inFrame: new Uint8Array(memory, bytes + 3 * n, n),
    looks: new Uint8Array(memory, bytes + 4 * n, n),
    regions: new Uint8Array(memory, bytes + 5 * n, n),
    chunkCount: 0,
    chunkUsed: 0,
  }
}

/** Room for what a batch holds, or null. */
export function takeMembers(room: Pick<Room, 'members'>): Members | null {
  for (let i = 0; i < room.members.length; i++) {
    const members = room.members[i]!
    if (members.taken) continue
    members.taken = true
    members.bySlot.fill(0)
    return members
  }
  return null
}

export function freeMembers(room: Room, members: Members): void {
  if (members.chunkCount > 0) room.givenBackAt = room.list.runs
  for (let i = 0; i < members.chunkCount; i++) room.chunkTaken[members.chunks[i]!] = 0
  members.chunkCount = 0
  members.chunkUsed = 0
  members.taken = false
}

/** May a command that stands in the list still fill a chunk that was given back? */
export function isStillFilled(room: Room): boolean {
  return room.givenBackAt === room.list.runs
}

/** The place of that slot in `bySlot`: of the one who has it, or that is free for it. */
function placeOfSlot(members: Members, region: number, slot: number): number {
  const { bySlot, slots, regions } = members
  let place = (slot ^ (region << 5)) & (SLOT_PLACES - 1)
  for (;;) {
    const other = bySlot[place]! - 1
    if (other < 0 || (slots[other] === slot && regions[other] === region)) return place
    place = (place + 1) & (SLOT_PLACES - 1)
  }
}

/** Has that slot come before? Else it is noted as that of member `n`. */
export function noteSlot(members: Members, region: number, slot: number, n: number): boolean {
  const place = placeOfSlot(members, region, slot)
  if (members.bySlot[place]! > 0) return true
  members.bySlot[place] = n + 1
  members.slots[n] = slot
  members.regions[n] = region
  return false
}

/** Is that slot one of them? */
export function hasSlot(members: Members, region: number, slot: number): boolean {
  return members.bySlot[placeOfSlot(members, region, slot)]! > 0
}

/** Where member `n`, of plain bytes, begins: bytes from the begin of its region. */
export function offsetOfMember({ offsetsHigh, slots }: Members, n: number): number {
  return offsetsHigh[n]! * 2 ** 32 + slots[n]!
}

/**
 * Has one of them stored a part of those bytes, which are none of a record? Else they are noted as
 * those of member `n`.
 */
export function noteBytes(
  members: Members,
  region: number,
  offset: number,
  length: number,
  n: number,
): boolean {
  const { regions, lengths } = members
  for (let other = 0; other < n; other++) {
    if (regions[other] !== region) continue
    const from = offsetOfMember(members, other)
    if (offset < from + lengths[other]! && from < offset + length) return true
  }
  regions[n] = region
  members.slots[n] = offset % 2 ** 32
  members.offsetsHigh[n] = Math.floor(offset / 2 ** 32)
  return false
}

/** Where the data of a record of that length, which fits a slot, may be kept; 0 without room. */
export function takeRoom(room: Room, members: Members, length: number): number {
  const bytes = LINE_BYTES + Math.ceil(length / LINE_BYTES) * LINE_BYTES
  if (members.chunkCount === 0 || members.chunkUsed + bytes > BATCH_CHUNK_BYTES) {
    const chunk = members.chunkCount < BATCH_CHUNKS_EACH ? room.chunkTaken.indexOf(0) : FREE
    if (chunk === FREE) return 0
    room.chunkTaken[chunk] = 1
    members.chunks[members.chunkCount] = chunk
    members.chunkCount += 1
    members.chunkUsed = 0
  }
  const chunk = members.chunks[members.chunkCount - 1]!
  const at = BATCHES_AT + chunk * BATCH_CHUNK_BYTES + members.chunkUsed + LINE_BYTES
  members.chunkUsed += bytes
  return at
}

/** Fills in member `n`; its slot was noted, its data is not there yet. */
export function addMember(
  members: Members,
  n: number,
  index: number,
  length: number,
  wait: number,
  guard: number,
  fault: Fault,
): void {
  members.indexes[n] = index
  members.lengths[n] = length
  members.waits[n] = wait
  members.guards[n] = guard
  members.faults[n] = fault
  members.at[n] = 0
  members.inFrame[n] = 0
}

assert(BATCHES_AT % LINE_BYTES === 0, 'a slot header must start on a line')

assert(MEMBERS_BYTES % 4 === 0, 'words of members must be aligned')
