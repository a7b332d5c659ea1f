/**
 * The dual write that the client drives itself (source 1, FIG. 11; D-8): against any RDMA target
 * that has FLUSH, one chain WRITE A, FLUSH A, WRITE B, FLUSH B; and the read of both copies.
 *
 * Invariants:
 * - The target executes a chain in order, and nothing behind a request that failed. So B keeps the
 *   old content, whole, until A is durable (P1-9, P1-10, P1-11), and the next write of the pair
 *   does not touch A before B is durable (P1-12).
 * - Each copy is a slot image (firmware/medium/slot.ts): its own check code covers data, length and
 *   sequence. Both copies are identical to the byte (P1-1).
 * - A reader believes a copy for its check code and its sequence, never because two are equal
 *   (P1-28, D-15). It repairs nothing: a writer may be at work (P1-29).
 *
 * Who writes a pair sees to it that nobody else does at the same time. After a cut that left the
 * copies different, the next dual write makes them equal again.
 */

import { imageBytes } from '../../firmware/medium/slot.ts'
import { copyOf } from '../base/bytes.ts'
import { sleep } from '../base/clock.ts'
import { ArgumentError, PerdureError } from '../base/errors.ts'
import {
  BYTES,
  bytesOf,
  check,
  checkFields,
  instanceOf,
  type Kinds,
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
import { type Completion, quietly } from '../way/chain.ts'

/** One place of the pair: `imageBytes(capacity)` bytes from there are its own. */
export interface DualPlace {
  readonly memory: RemoteMemory
  readonly offset: number
}

/** Two places that hold one record. */
export interface DualPair {
  /** Both on one connection, and not overlapping. */
  readonly a: DualPlace
  readonly b: DualPlace
  /** Key of the check codes, 16 bytes; the same for writers and readers. */
  readonly key: Uint8Array
  /** What tells this pair from others under the same key, 32 bits each; 0 and 0 by default. */
  readonly id?: number
  readonly slot?: number
}

export interface DualWriteRequest extends DualPair {
  readonly bytes: Uint8Array
  /** Bytes of data that the record has at the most; those of `bytes` by default. */
  readonly capacity?: number
  /**
   * Grows with every write of this pair, unsigned 64 bits. Without one the copies are read first,
   * and theirs plus one is taken.
   */
  readonly sequence?: bigint
  /** Who writes, and under which operation; for the reader to know. */
  readonly clientId?: bigint
  readonly operationId?: bigint
}

/** Both copies are durable. */
export interface DualReceipt {
  readonly sequence: bigint
  /** WRITE A, FLUSH A, WRITE B, FLUSH B. */
  readonly completions: readonly Completion[]
}

/** What a reader of both copies learns. */
export interface DualRead {
  /** The record of the chosen copy. */
  readonly record: SlotRecord
  /** 0 for A, 1 for B: the first that its own check code proves (P1-21, P1-22, P1-31). */
  readonly chosen: number
  /** Both are valid and the same; else a write is under way or was cut short, or one is bad. */
  readonly settled: boolean
  readonly copies: readonly [SlotImage, SlotImage]
  /** How often both were read. */
  readonly attempts: number
}

export interface DualReadRequest extends DualPair {
  /** Bytes of data that the record has at the most. */
  readonly capacity: number
  /** For the pause between two reads; without it there is none. */
  readonly wire?: Wire
}

const PLACE_KINDS: Kinds<DualPlace> = {
  memory: instanceOf(RemoteMemory, 'a region of bytes, or the memory of a target'),
  offset: SIZE,
}

const PAIR_KINDS: Kinds<DualPair> = {
  ...{ a: OBJECT, b: OBJECT, key: bytesOf(16) },
  ...{ id: WORD, slot: WORD },
}

const SEQUENCE = wide(1n)

const WRITE_KINDS: Kinds<DualWriteRequest> = {
  ...PAIR_KINDS,
  ...{ bytes: BYTES, capacity: WORD, sequence: SEQUENCE },
  ...{ clientId: wide(0n), operationId: wide(0n) },
}

const READ_KINDS: Kinds<DualReadRequest> = { ...PAIR_KINDS, capacity: WORD, wire: WIRE }

/** Reads before copies that differ are reported as they are, and the pause between two, µs. */
const ATTEMPTS = 4
const PAUSE_US = 1000

/**
 * Writes `bytes` to both places, each durable before the next is touched. Resolves when both are;
 * rejects with the reason of the first request that failed: where that is WRITE A or FLUSH A, B is
 * what it was; where it is WRITE B or FLUSH B, A is new and durable.
 */
export function dualWrite(request: DualWriteRequest): Promise<DualReceipt> {
  return quietly(() => write(kept(request)))
}

async function write(request: DualWriteRequest): Promise<DualReceipt> {
  checkFields('a dual write', request, WRITE_KINDS, ['bytes'])
  const { a, b, bytes, capacity = bytes.length, clientId = 0n, operationId = 0n } = request
  checkPair(request, capacity)
  if (bytes.length > capacity) {
    throw new ArgumentError(`${bytes.length} bytes for a record of at most ${capacity}`)
  }
  const data = copyOf(bytes)
  const sequence = request.sequence ?? (await nextSequence(request, capacity))
  check('sequence', sequence, SEQUENCE)
  const record = { data, sequence, clientId, operationId }
  const image = writeSlotImage(record, shapeOf(request, capacity), request.slot ?? 0)
  const chain = [
    a.memory.writingOwn(a.offset, image),
    a.memory.flushing(a.offset, image.length),
    b.memory.writingOwn(b.offset, image),
    b.memory.flushing(b.offset, image.length),
  ]
  a.memory.port.enqueueChain({ verbs: chain.map(({ verb }) => verb), check: () => {} })
  return { sequence, completions: await Promise.all(chain.map(({ result }) => result)) }
}

/**
 * Reads both places one-sidedly. Copies that differ are read again a few times, and then reported
 * with the one to be used; nothing is repaired. Rejects with PERDURE_RECORD_LOST where no copy is
 * valid.
 */
export function dualRead(request: DualReadRequest): Promise<DualRead> {
  return quietly(() => read(kept(request)))
}

async function read(request: DualReadRequest): Promise<DualRead> {
  checkFields('a dual read', request, READ_KINDS, ['capacity'])
  checkPair(request, request.capacity)
  for (let attempts = 1; ; attempts++) {
    const copies = await readCopies(request, request.capacity)
    const chosen = chooseCopy(copies)
    const record = copies[chosen]?.record ?? null
    const settled = record !== null && sameRecord(copies[0].record, copies[1].record)
    if (settled || attempts === ATTEMPTS) {
      if (record === null) throw lost(copies)
      return { record, chosen, settled, copies, attempts }
    }
    if (request.wire !== undefined) await sleep(request.wire, PAUSE_US)
  }
}

async function readCopies(pair: DualPair, capacity: number): Promise<[SlotImage, SlotImage]> {
  const length = imageBytes(capacity)
  const chain = [pair.a, pair.b].map(({ memory, offset }) =>
    memory.reading(offset, new Uint8Array(length)),
  )
  pair.a.memory.port.enqueueChain({ verbs: chain.map(({ verb }) => verb), check: () => {} })
  const [imageA, imageB] = await Promise.all(chain.map(({ result }) => result))
  const shape = shapeOf(pair, capacity)
  const slot = pair.slot ?? 0
  return [readSlotImage(imageA!, shape, slot), readSlotImage(imageB!, shape, slot)]
}

/** One more than what the copies have; 1 where nothing was ever written. Refuses a lost record. */
async function nextSequence(pair: DualPair, capacity: number): Promise<bigint> {
  const copies = await readCopies(pair, capacity)
  const found = copies.flatMap(({ record }) => (record === null ? [] : [record.sequence]))
  if (found.length === 0) {
    if (copies.every(({ why }) => why === 'empty')) return 1n
    throw lost(copies)
  }
  return found.reduce((most, one) => (one > most ? one : most)) + 1n
}

function sameRecord(one: SlotRecord | null, other: SlotRecord | null): boolean {
  if (one === null || other === null) return false
  if (one.sequence !== other.sequence || one.data.length !== other.data.length) return false
  return Buffer.compare(one.data, other.data) === 0
}

/** The request as it is now. What was read decides what is written, and takes its time. */
function kept<T extends DualPair>(request: T): T {
  check('a request', request, OBJECT)
  for (const which of ['a', 'b'] as const) {
    checkFields(`place ${which}`, request[which], PLACE_KINDS, ['memory', 'offset'])
  }
  check('key:', request.key, bytesOf(16))
  return { ...request, a: { ...request.a }, b: { ...request.b }, key: copyOf(request.key) }
}

function shapeOf(
  pair: DualPair,
  capacity: number,
): { id: number; capacity: number; key: Uint8Array } {
  return { id: pair.id ?? 0, capacity, key: pair.key }
}

function lost(copies: readonly SlotImage[]): PerdureError {
  const why = copies.map((copy) => copy.why).join(', ')
  return new PerdureError('PERDURE_RECORD_LOST', `no copy of the pair is valid: ${why}`)
}

function checkPair({ a, b }: DualPair, capacity: number): void {
  if (a.memory.port !== b.memory.port) {
    throw new ArgumentError('both places of a pair lie on one connection')
  }
  const apart = Math.abs(a.offset - b.offset)
  if (a.memory === b.memory && apart < imageBytes(capacity)) {
    throw new ArgumentError(`places ${apart} bytes apart: a copy has ${imageBytes(capacity)}`)
  }
}
