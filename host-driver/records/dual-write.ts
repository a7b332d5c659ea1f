/**
 * The dual write that the client drives itself (source 1, FIG. 11, [0158], [0159]; D-8), in two to
 * four places: against any RDMA target that has FLUSH, one chain WRITE A, FLUSH A, WRITE B,
 * FLUSH B, and so on; and the read of all copies.
 *
 * Invariants:
 * - The target executes a chain in order, and nothing behind a request that failed. So each copy
 *   keeps the old content, whole, until the one before it is durable (P1-9, P1-10, P1-11), and the
 *   next write of the record does not touch A before the last copy is durable (P1-12).
 * - So at any instant the copies in the order of writing are new ones, at most one torn, old ones.
 * - Each copy is a slot image (firmware/medium/slot.ts): its own check code covers data, length and
 *   sequence. All copies are identical to the byte (P1-1).
 * - A reader believes a copy for its check code and its sequence, never because some are equal
 *   (P1-28, D-15). It repairs nothing: a writer may be at work (P1-29).
 *
 * Who writes a record sees to it that nobody else does at the same time. After a cut that left the
 * copies different, the next dual write makes them equal again.
 */

import { guardOf } from '../../boards/software/guard.ts'
import { COPIES_MAX, COPIES_MIN } from '../../firmware/board/limits.ts'
import { imageBytes } from '../../firmware/medium/slot.ts'
import { copyOf } from '../base/bytes.ts'
import { sleep } from '../base/clock.ts'
import { ArgumentError, PerdureError } from '../base/errors.ts'
import { type Caller, WAIT_KINDS, type WaitOptions, within } from '../base/give-up.ts'
import {
  BYTES,
  bytesOf,
  check,
  checkFields,
  instanceOf,
  integer,
  type Kind,
  type Kinds,
  LIST,
  OBJECT,
  SIZE,
  WORD,
  wide,
} from '../base/kinds.ts'
import { WIRE, type Wire } from '../base/wire.ts'
import { RemoteMemory } from '../bytes/remote-memory.ts'
import {
  chooseCopy,
  readSlotImage,
  type SlotImage,
  type SlotRecord,
  writeSlotImage,
} from '../link/slot-image.ts'
import { type Outcome, type Pending, postTogether, quietly } from '../way/chain.ts'

/** Where one copy stands: `imageBytes(capacity)` bytes from there are its own. */
export interface DualPlace {
  readonly memory: RemoteMemory
  readonly offset: number
}

/** The places that hold one record. */
export interface DualSlots {
  /** Two to four in the order of writing, on one connection, of which no two overlap. */
  readonly places: readonly DualPlace[]
  /** Key of the check codes, 16 bytes; the same for writers and readers. */
  readonly key: Uint8Array
  /** What tells this record from others under the same key, 32 bits each; 0 and 0 by default. */
  readonly id?: number
  readonly slot?: number
}

export interface DualWriteRequest extends DualSlots, WaitOptions {
  readonly bytes: Uint8Array
  /** Bytes of data that the record has at the most; those of `bytes` by default. */
  readonly capacity?: number
  /**
   * Grows with every write of this record, unsigned 64 bits. Without one the copies are read first,
   * and theirs plus one is taken.
   */
  readonly sequence?: bigint
  /** Who writes, and under which operation; for the reader to know. */
  readonly clientId?: bigint
  readonly operationId?: bigint
}

/** All copies are durable. */
export interface DualReceipt {
  readonly sequence: bigint
  /** WRITE A, FLUSH A, WRITE B, FLUSH B, and so on. */
  readonly outcomes: readonly Outcome[]
}

/** What a reader of all copies learns. */
export interface DualRead {
  /** The record of the chosen copy. */
  readonly record: SlotRecord
  /** Which copy that is, 0 for A: see `chooseCopy` (P1-21, P1-22, P1-31). */
  readonly chosen: number
  /** All are valid and the same; else a write is under way or was cut short, or one is bad. */
  readonly settled: boolean
  /** In the order of the places. */
  readonly copies: readonly SlotImage[]
  /** How often all were read. */
  readonly attempts: number
}

export interface DualReadRequest extends DualSlots, WaitOptions {
  /** Bytes of data that the record has at the most. */
  readonly capacity: number
  /** For the pause between two reads; without it there is none. */
  readonly wire?: Wire
}

const PLACE_KINDS: Kinds<DualPlace> = {
  memory: instanceOf(RemoteMemory, 'a region of bytes, or the memory of a target'),
  offset: SIZE,
}

const COPIES = integer(COPIES_MIN, COPIES_MAX)
const PLACES: Kind = {
  give: `a list of ${COPIES.give} places`,
  takes: (value) => LIST.takes(value) && COPIES.takes((value as readonly unknown[]).length),
}

const PLACES_KINDS: Kinds<DualSlots> = {
  ...{ places: PLACES, key: bytesOf(16) },
  ...{ id: WORD, slot: WORD },
}

const SEQUENCE = wide(1n)

const WRITE_KINDS: Kinds<DualWriteRequest> = {
  ...PLACES_KINDS,
  ...{ bytes: BYTES, capacity: WORD, sequence: SEQUENCE },
  ...{ clientId: wide(0n), operationId: wide(0n) },
  ...WAIT_KINDS,
}

const READ_KINDS: Kinds<DualReadRequest> = {
  ...PLACES_KINDS,
  ...{ capacity: WORD, wire: WIRE },
  ...WAIT_KINDS,
}

/** Reads before copies that differ are reported as they are, and the pause between two, µs. */
const ATTEMPTS = 4
const PAUSE_US = 1000

/**
 * Writes `bytes` to all places, each durable before the next is touched. Resolves when all are;
 * rejects with the reason of the first request that failed: the copies before it are new and
 * durable, and those behind it are what they were.
 */
export function dualWrite(request: DualWriteRequest): Promise<DualReceipt> {
  return quietly(() => {
    const wish = kept(request)
    checkFields('a dual write', wish, WRITE_KINDS, ['bytes'])
    return bounded('a dual write', wish, (caller) => write(wish, caller))
  })
}

async function write(request: DualWriteRequest, caller: Caller): Promise<DualReceipt> {
  const { places, bytes, capacity = bytes.length, clientId = 0n, operationId = 0n } = request
  checkPlaces(request, capacity)
  if (bytes.length > capacity) {
    throw new ArgumentError(`${bytes.length} bytes for a record of at most ${capacity}`)
  }
  // Over what was given, before any copy of it; and both before anybody waits for anything.
  const guard = guardOf(bytes)
  const data = copyOf(bytes)
  const sequence = request.sequence ?? (await nextSequence(request, capacity, caller))
  check('sequence', sequence, SEQUENCE)
  const record = { data, sequence, clientId, operationId, guard }
  const image = writeSlotImage(record, shapeOf(request, capacity), request.slot ?? 0)
  const chain = places.flatMap(({ memory, offset }) => [
    memory.writingOwn(offset, image),
    memory.flushing(offset, image.length),
  ])
  return { sequence, outcomes: await together(request, chain, caller) }
}

/**
 * Reads all places one-sidedly. Copies that differ are read again a few times, and then reported
 * with the one to be used; nothing is repaired. Rejects with PERDURE_RECORD_LOST where no copy is
 * valid.
 */
export function dualRead(request: DualReadRequest): Promise<DualRead> {
  return quietly(() => {
    const wish = kept(request)
    checkFields('a dual read', wish, READ_KINDS, ['capacity'])
    return bounded('a dual read', wish, (caller) => read(wish, caller))
  })
}

/** Does it until the caller gives up: by the clock of the connection that the places are on. */
function bounded<T>(
  what: string,
  request: DualSlots & WaitOptions,
  work: (caller: Caller) => Promise<T>,
): Promise<T> {
  return within(request.places[0]!.memory.port.way, () => what, request, work)
}

async function read(request: DualReadRequest, caller: Caller): Promise<DualRead> {
  checkPlaces(request, request.capacity)
  for (let attempts = 1; ; attempts++) {
    const copies = await readCopies(request, request.capacity, caller)
    const chosen = chooseCopy(copies)
    const record = copies[chosen]?.record ?? null
    const settled = record !== null && copies.every((copy) => sameRecord(copy.record, record))
    if (settled || attempts === ATTEMPTS) {
      if (record === null) throw lost(copies)
      return { record, chosen, settled, copies, attempts }
    }
    if (request.wire !== undefined) await sleep(request.wire, PAUSE_US)
  }
}

async function readCopies(
  request: DualSlots,
  capacity: number,
  caller: Caller,
): Promise<SlotImage[]> {
  const length = imageBytes(capacity)
  const chain = request.places.map(({ memory, offset }) =>
    memory.reading(offset, new Uint8Array(length)),
  )
  const images = await together(request, chain, caller)
  const shape = shapeOf(request, capacity)
  return images.map((image) => readSlotImage(image, shape, request.slot ?? 0))
}

/** Puts requests on the wire in one chain; resolves when all are done. */
function together<T>(
  { places }: DualSlots,
  chain: readonly Pending<T>[],
  caller: Caller,
): Promise<T[]> {
  postTogether(places[0]!.memory.port, chain, caller)
  return Promise.all(chain.map(({ result }) => result))
}

/** One more than what the copies have; 1 where nothing was ever written. Refuses a lost record. */
async function nextSequence(request: DualSlots, capacity: number, caller: Caller): Promise<bigint> {
  const copies = await readCopies(request, capacity, caller)
  const found = copies.flatMap(({ record }) => (record === null ? [] : [record.sequence]))
  if (found.length === 0) {
    if (copies.every(({ why }) => why === 'empty')) return 1n
    throw lost(copies)
  }
  return found.reduce((most, one) => (one > most ? one : most)) + 1n
}

function sameRecord(one: SlotRecord | null, other: SlotRecord): boolean {
  if (one === null) return false
  if (one.sequence !== other.sequence || one.data.length !== other.data.length) return false
  return Buffer.compare(one.data, other.data) === 0
}

/** The request as it is now. What was read decides what is written, and takes its time. */
function kept<T extends DualSlots>(request: T): T {
  check('a request', request, OBJECT)
  check('places:', request.places, PLACES)
  const places = Array.from(request.places, (place, i) => {
    checkFields(() => `place ${i}`, place, PLACE_KINDS, ['memory', 'offset'])
    return { ...place }
  })
  check('key:', request.key, bytesOf(16))
  return { ...request, places, key: copyOf(request.key) }
}

function shapeOf(
  { id = 0, key }: DualSlots,
  capacity: number,
): { id: number; capacity: number; key: Uint8Array } {
  return { id, capacity, key }
}

function lost(copies: readonly SlotImage[]): PerdureError {
  const why = copies.map((copy) => copy.why).join(', ')
  return new PerdureError('PERDURE_RECORD_LOST', `no copy of the record is valid: ${why}`)
}

/** Each place has room for a copy, and shares none of it with another. */
function checkPlaces({ places }: DualSlots, capacity: number): void {
  const length = imageBytes(capacity)
  const addresses = places.map(({ memory, offset }) => memory.addressOf(offset, length))
  for (let i = 1; i < places.length; i++) {
    if (places[i]!.memory.port !== places[0]!.memory.port) {
      throw new ArgumentError('all places of a record lie on one connection')
    }
    for (let j = 0; j < i; j++) {
      if (addresses[i]!.rkey !== addresses[j]!.rkey) continue
      const apart = addresses[i]!.va - addresses[j]!.va
      if (apart >= length || apart <= -length) continue
      throw new ArgumentError(`places ${j} and ${i} are ${apart} bytes apart, of ${length} each`)
    }
  }
}
