/**
 * What a simulated host asks of a DPU, and the frames that say it.
 *
 * Invariant: a durable record keeps its operation id over every connection and restart; its
 * frames are made again for each connection, as numbers and keys are others there.
 */

import { judgedGuard } from '../../support/judges/crc32c.ts'
import {
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  fillPattern,
  HEAD_AT,
  type Path,
  PERSIST_FIRST,
  PERSIST_LAST,
  PERSIST_MIDDLE,
  PERSIST_ONLY,
  put16,
  put32,
  putReth,
  QUERY,
  READ_REQUEST,
  seal,
  WRITE_FIRST,
  WRITE_LAST,
  WRITE_MIDDLE,
  WRITE_ONLY,
} from './frames.ts'
import type { Register, Version } from './register.ts'

/** Kinds of operations: what is counted, and what a world mixes. */
export const KINDS = [
  'persist', // WRITE_PERSIST of one record
  'carried', // the same with every copy in the payload
  'read', // of a record
  'record', // a plain WRITE of a record
  'batch', // a record of a batch, or a cell
  'write', // WRITE into bytes
  'look', // READ of bytes
  'flush',
  'add', // FETCH-ADD
  'swap', // COMPARE-SWAP
  'atomicWrite',
  'query', // PERSIST_QUERY
  'wrong', // a key, a length or an address that is refused
  'stops', // a WRITE_PERSIST of several packets that never ends
] as const

export type Kind = (typeof KINDS)[number]

/** A batch: what its one status speaks of. */
export interface Batch {
  readonly id: number
  readonly condition: number
  readonly count: number
  /** High and low word of the sequence that each slot must hold. */
  readonly members: Operation[]
}

export interface Operation {
  readonly kind: Kind
  readonly register: Register | null
  readonly version: Version | null
  /** Place of the region of records in the list of its world. */
  readonly region: number
  readonly slot: number
  readonly length: number
  /** Its name permanently; 0 for what has none. */
  readonly id: number
  readonly wait: number
  /** When it was sent for the first time. */
  readonly begun: number
  /** Connections on which it was sent. */
  tries: number
  batch: Batch | null
  index: number
  expect: readonly [number, number] | null
  /** Of a query: what it asks for. */
  target: Operation | null
  /** Of bytes: which cell, and the value that goes in or is added to. */
  cell: number
  value: number
  /** Of a FLUSH: what each cell held when it was sent. */
  snapshot: Int32Array | null
  /** Its frames were sent again, so that a read may have been answered more than once. */
  resent: boolean
  /** Bytes of its answer that have come. */
  got: number
  data: Uint8Array | null
}

const NO_OPERATION: Operation = {
  kind: 'read',
  register: null,
  version: null,
  region: 0,
  slot: 0,
  length: 0,
  id: 0,
  wait: 0,
  begun: 0,
  tries: 0,
  batch: null,
  index: 0,
  expect: null,
  target: null,
  cell: -1,
  value: 0,
  snapshot: null,
  resent: false,
  got: 0,
  data: null,
}

export function operationOf(fields: Partial<Operation> & { readonly kind: Kind }): Operation {
  return { ...NO_OPERATION, ...fields }
}

/** Where the frames go, and the keys that count there. */
export interface Way {
  readonly path: Path
  readonly queuePair: number
  readonly mtu: number
  /** Of each region of records, and of bytes. */
  readonly recordsKeys: readonly number[]
  readonly bytesKey: number
  readonly copies: number
  /** What is sent again under its id says so. */
  readonly marksRepetitions: boolean
}

const RETH_BYTES = 16
const PWETH_BYTES = 16
const EXPECT_BYTES = 8
const SLOT_ADDRESSED = 0x20
const CARRIED = 0x10
const IN_BATCH = 0x08
const WANTS_ACK = 0x04
const REPETITION = 0x01
const LAST_OF_BATCH = 0x08
const ONE_STATUS = 0x04
const GUARDED = 0x10
const GUARD_BYTES = 4
export const CELL_BYTES = 8
/** A region of bytes begins at address 2^32. */
const BYTES_HIGH = 1

const scratch = new Uint8Array(1 << 17)

/** The high word of a number of 64 bits, of which 53 are used. */
export function highOf(id: number): number {
  return Math.floor(id / 2 ** 32)
}

/** PSNs that the operation takes. */
export function packetsOf({ kind, length }: Operation, { mtu, copies }: Way): number {
  const bytes = kind === 'carried' ? length * copies : length
  return Math.max(1, Math.ceil(bytes / mtu))
}

/** The frames of an operation from that PSN on. */
export function framesOf(operation: Operation, way: Way, psn: number): Uint8Array[] {
  switch (operation.kind) {
    case 'persist':
    case 'carried':
    case 'batch':
      return persistFrames(operation, way, psn)
    case 'stops':
      return persistFrames(operation, way, psn).slice(0, -1)
    case 'record':
      return recordFrames(operation, way, psn)
    case 'query':
      return [queryFrame(operation.target!.id, way, psn)]
    case 'read':
      return [readFrame(way, psn, keyOf(operation, way), operation.slot, 0, operation.length)]
    case 'look':
      return [lookFrame(operation, way, psn)]
    case 'wrong':
      return [wrongFrame(operation, way, psn)]
    default:
      return [cellFrame(operation, way, psn)]
  }
}

function keyOf({ region }: Operation, { recordsKeys }: Way): number {
  return recordsKeys[region]!
}

/** A cell of a batch has its number twice. */
function putCellValue(bytes: Uint8Array, at: number, value: number): void {
  for (let i = 0; i < CELL_BYTES; i++) bytes[at + i] = value >>> (8 * (i & 3))
}

/** The data of a record, as often as it is carried. */
function payloadOf({ kind, length, version, value }: Operation, { copies }: Way): Uint8Array {
  if (version === null) {
    putCellValue(scratch, 0, value)
    return scratch.subarray(0, CELL_BYTES)
  }
  const times = kind === 'carried' ? copies : 1
  for (let c = 0; c < times; c++) fillPattern(scratch, c * length, length, version.uid)
  return scratch.subarray(0, times * length)
}

function persistFrames(operation: Operation, way: Way, psn: number): Uint8Array[] {
  const payload = payloadOf(operation, way)
  const count = packetsOf(operation, way)
  const frames: Uint8Array[] = []
  const { batch, expect } = operation
  const acks = batch === null || operation.index === batch.count - 1
  for (let i = 0; i < count; i++) {
    const first = i === 0
    const last = i === count - 1
    const opcode =
      count === 1 ? PERSIST_ONLY : first ? PERSIST_FIRST : last ? PERSIST_LAST : PERSIST_MIDDLE
    const from = i * way.mtu
    const bytes = Math.min(way.mtu, payload.length - from)
    const more = (expect === null ? 0 : EXPECT_BYTES) + (bringsGuard(operation) ? GUARD_BYTES : 0)
    const headers = first ? RETH_BYTES + PWETH_BYTES + more : 0
    const frame = way.path.begin(opcode, way.queuePair, psn + i, last && acks, headers, bytes)
    if (first) putPersistHeaders(frame, operation, way)
    if (first && bringsGuard(operation)) {
      const guard = judgedGuard(payload.subarray(0, operation.length))
      put32(frame, HEAD_AT + headers - GUARD_BYTES, guard)
    }
    frame.set(payload.subarray(from, from + bytes), HEAD_AT + headers)
    frames.push(seal(frame))
  }
  return frames
}

/** Every other record brings the guard of its data. */
export function isGuarded({ id }: Pick<Operation, 'id'>): boolean {
  return id % 2 === 1
}

/** Bytes never do. */
function bringsGuard(operation: Operation): boolean {
  return operation.version !== null && isGuarded(operation)
}

function putPersistHeaders(frame: Uint8Array, operation: Operation, way: Way): void {
  const { batch, index, expect, kind } = operation
  const isRecord = operation.version !== null
  if (isRecord) putReth(frame, operation.slot, 0, keyOf(operation, way), operation.length)
  else putReth(frame, BYTES_HIGH, operation.cell * CELL_BYTES, way.bytesKey, CELL_BYTES)
  const at = HEAD_AT + RETH_BYTES
  const carried = kind === 'carried'
  frame[at] = 0x14
  frame[at + 1] =
    ((operation.wait - 1) << 6) |
    (isRecord ? SLOT_ADDRESSED : 0) |
    WANTS_ACK |
    (way.marksRepetitions && operation.tries > 0 ? REPETITION : 0) |
    (carried ? CARRIED : 0) |
    (batch === null ? 0 : IN_BATCH) |
    (operation.tries === 0 ? 0 : REPETITION)
  const last = batch !== null && index === batch.count - 1
  frame[at + 2] =
    batch === null ? 0 : (batch.condition << 4) | ONE_STATUS | (last ? LAST_OF_BATCH : 0)
  frame[at + 3] = (bringsGuard(operation) ? GUARDED : 0) | (carried ? way.copies - 1 : 0)
  put16(frame, at + 4, batch?.id ?? 0)
  frame[at + 6] = index
  frame[at + 7] = batch === null ? 0 : batch.count - 1
  put32(frame, at + 8, highOf(operation.id))
  put32(frame, at + 12, operation.id)
  if (expect === null) return
  put32(frame, at + 16, expect[1])
  put32(frame, at + 20, expect[0])
}

function recordFrames(operation: Operation, way: Way, psn: number): Uint8Array[] {
  const payload = payloadOf(operation, way)
  const count = packetsOf(operation, way)
  const frames: Uint8Array[] = []
  for (let i = 0; i < count; i++) {
    const first = i === 0
    const last = i === count - 1
    const opcode = count === 1 ? WRITE_ONLY : first ? WRITE_FIRST : last ? WRITE_LAST : WRITE_MIDDLE
    const from = i * way.mtu
    const bytes = Math.min(way.mtu, payload.length - from)
    const headers = first ? RETH_BYTES : 0
    const frame = way.path.begin(opcode, way.queuePair, psn + i, last, headers, bytes)
    if (first) putReth(frame, operation.slot, 0, keyOf(operation, way), operation.length)
    frame.set(payload.subarray(from, from + bytes), HEAD_AT + headers)
    frames.push(seal(frame))
  }
  return frames
}

function queryFrame(id: number, way: Way, psn: number): Uint8Array {
  const frame = way.path.begin(QUERY, way.queuePair, psn, true, 12, 0)
  put32(frame, HEAD_AT, 0x13000000)
  put32(frame, HEAD_AT + 4, highOf(id))
  put32(frame, HEAD_AT + 8, id)
  return seal(frame)
}

function readFrame(
  way: Way,
  psn: number,
  key: number,
  vaHigh: number,
  vaLow: number,
  length: number,
): Uint8Array {
  const frame = way.path.begin(READ_REQUEST, way.queuePair, psn, true, RETH_BYTES, 0)
  putReth(frame, vaHigh, vaLow, key, length)
  return seal(frame)
}

function lookFrame({ cell, length }: Operation, way: Way, psn: number): Uint8Array {
  return readFrame(way, psn, way.bytesKey, BYTES_HIGH, cell * CELL_BYTES, length)
}

/** A cell holds a number twice, so that one that is torn shows. */
function cellFrame({ kind, cell, value }: Operation, way: Way, psn: number): Uint8Array {
  const { path, queuePair, bytesKey } = way
  const at = cell * CELL_BYTES
  if (kind === 'write' || kind === 'atomicWrite') {
    const opcode = kind === 'write' ? WRITE_ONLY : ATOMIC_WRITE
    const frame = path.begin(opcode, queuePair, psn, true, RETH_BYTES, CELL_BYTES)
    putReth(frame, BYTES_HIGH, at, bytesKey, CELL_BYTES)
    putCellValue(frame, HEAD_AT + RETH_BYTES, value)
    return seal(frame)
  }
  if (kind === 'flush') {
    const frame = path.begin(FLUSH, queuePair, psn, true, 4 + RETH_BYTES, 0)
    put32(frame, HEAD_AT, 2)
    for (const [i, word] of [BYTES_HIGH, 0, bytesKey, CELL_BYTES].entries()) {
      put32(frame, HEAD_AT + 4 + 4 * i, word)
    }
    return seal(frame)
  }
  const frame = path.begin(kind === 'add' ? FETCH_ADD : COMPARE_SWAP, queuePair, psn, true, 28, 0)
  const [operand, compare] = kind === 'add' ? [1, 0] : [value, value - 1]
  const words = [BYTES_HIGH, at, bytesKey, operand, operand, compare, compare]
  for (const [i, word] of words.entries()) {
    put32(frame, HEAD_AT + 4 * i, word)
  }
  return seal(frame)
}

/** Requests that ask for what is not theirs. The slot says which. */
function wrongFrame(operation: Operation, way: Way, psn: number): Uint8Array {
  const { slot, value } = operation
  const { path, queuePair } = way
  const recordsKey = keyOf(operation, way)
  const frame = path.begin(WRITE_ONLY, queuePair, psn, true, RETH_BYTES, 8)
  const [vaHigh, vaLow, key, length] = [
    [0, 0, (recordsKey ^ (value | 32)) >>> 0, 8], // a key that is nobody's
    [0x7fffffff, 0, recordsKey, 8], // a slot that is not
    [0, 1, recordsKey, 8], // not the begin of a slot
    [0, 0, recordsKey, 0x80000001], // longer than any message
    [0xffffffff, 0xfffffff8, recordsKey, 8], // to the end of all addresses
    [0, 0, recordsKey, 0], // a length of nothing, and a payload
  ][slot % 6]! as [number, number, number, number]
  putReth(frame, vaHigh, vaLow, key, length)
  fillPattern(frame, HEAD_AT + RETH_BYTES, 8, value)
  return seal(frame)
}
