/**
 * From an element as a value to its units (firmware/host/element.ts), and from the units of a
 * completion to what they say.
 *
 * Invariant: an element is encoded whole, without its stamps, before a unit of a ring is
 * touched; what cannot be said in one is PERDURE_ARGUMENT.
 */

import {
  BATCH_ELEMENTS_MAX,
  BATCH_RECORDS_MAX,
  INLINE_BYTES_MAX,
  SGES_MAX,
  UNIT_BYTES,
  WQE_UNITS_MAX,
} from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import * as kind from '../../../firmware/transport/requester.ts'
import { writeBseth } from '../../../firmware/wire/block-size.ts'
import { CONDITION_EXPECT } from '../../../firmware/wire/persist.ts'
import { writePfeth } from '../../../firmware/wire/prefetch.ts'
import { RETH_BYTES, writeReth } from '../../../firmware/wire/reth.ts'
import { ArgumentError } from '../../base/errors.ts'
import { check, ENDPOINT, instanceOf, integer, OBJECT, shown, UINT64 } from '../../base/kinds.ts'
import type { BatchPlace, Range } from '../../way/work-request.ts'
import type { InlineRule, QueueElement, Receive } from './values.ts'

/** Bytes that the card reaches: addresses are 48 bits. */
const ADDRESS_END = 2 ** 48
const WORD_BYTES = 8

/** Kinds whose bytes go to the peer; a READ's come from there. */
const SENDING: ReadonlySet<QueueElement['kind']> = new Set([
  kind.WRITE_PERSIST,
  kind.WRITE,
  kind.WRITE_IMM,
  kind.SEND,
  kind.SEND_IMM,
  kind.SEND_INV,
])

/** Whether an element of that kind has bytes that go to the peer. */
export function sends(what: QueueElement['kind']): boolean {
  return what !== 'nop' && SENDING.has(what)
}

/** Kinds that name a range of the peer's memory, and send none. */
function isRanged(what: QueueElement['kind']): boolean {
  return what === kind.FLUSH || what === kind.ASSOCIATE || what === kind.PREFETCH_HINT
}

/** Whether an element of that kind with so many bytes has them in the element itself (P3-3). */
export function goesInline(what: QueueElement['kind'], bytes: number, rule: InlineRule): boolean {
  if (what === 'nop' || !SENDING.has(what) || bytes > rule.inlineMax || bytes === 0) return false
  return rule.inlineKinds === null || rule.inlineKinds.has(what)
}

/** Throws PERDURE_ARGUMENT unless the rule makes sense. */
export function checkInlineRule({ inlineMax, inlineKinds }: InlineRule): void {
  check('inlineMax', inlineMax, integer(0, INLINE_BYTES_MAX))
  if (inlineKinds !== null) check('inlineKinds', inlineKinds, instanceOf(Set, 'a Set of kinds'))
  for (const one of inlineKinds ?? []) {
    if (!SENDING.has(one)) throw new ArgumentError(`kind ${shown(one)} sends no bytes`)
  }
}

/** What an element carries behind its first unit, or names. */
export type Carried =
  | { readonly inline: Uint8Array }
  | { readonly ranges: readonly Range[]; readonly inline?: undefined }

/** The units of an element of a send queue. */
export function encodeElement(element: QueueElement, carried: Carried): Uint8Array {
  checkElement(element)
  const extensions = element.extensions ?? []
  const isWord = element.kind === kind.ATOMIC_WRITE
  const behind = isWord ? 0 : bytesBehind(carried)
  const units = unitsOf(behind, lastOf(element))
  if (units > WQE_UNITS_MAX) {
    throw new ArgumentError(`an element of ${units} units: at most ${WQE_UNITS_MAX}`)
  }
  const bytes = new Uint8Array(units * UNIT_BYTES)
  const view = new DataView(bytes.buffer)
  bytes[el.WQE_OPCODE] = opcodeOf(element)
  bytes[el.WQE_UNITS] = units
  view.setUint16(el.WQE_FLAGS, flagsOf(element, !isWord && carried.inline !== undefined), true)
  view.setUint32(el.WQE_RKEY, element.rkey ?? 0, true)
  view.setBigUint64(el.WQE_ADDRESS, element.address ?? 0n, true)
  view.setBigUint64(el.WQE_OPERATION, element.operation ?? 0n, true)
  view.setBigUint64(el.WQE_COMPARE, element.compare ?? 0n, true)
  view.setUint32(el.WQE_IMMEDIATE, element.guard ?? element.immediate ?? 0, true)
  bytes[el.WQE_WAIT] = element.wait ?? 0
  bytes[el.WQE_FURTHER_COPIES] = element.furtherCopies ?? 0
  if (element.kind === kind.FLUSH) {
    bytes[el.WQE_PLACEMENT] = element.placement ?? 0
    bytes[el.WQE_SELECTIVITY] = element.selectivity ?? 0
  }
  if (element.to !== undefined) {
    bytes.set(element.to.mac, el.AH_MAC)
    bytes.set(element.to.ipv4, el.AH_IPV4)
  }
  const sum = isWord ? putWord(bytes, carried) : encodeCarried(bytes, view, carried)
  if (element.bseth !== undefined) writeBseth(bytes, el.WQE_BSETH, element.bseth)
  if (element.pfeth !== undefined) writePfeth(bytes, el.WQE_PFETH, element.pfeth)
  view.setUint32(el.WQE_LENGTH, isRanged(element.kind) ? (element.length ?? 0) : sum, true)
  const lastAt = UNIT_BYTES + aligned(behind)
  extensions.forEach((reth, i) => {
    writeReth(bytes, lastAt + i * RETH_BYTES, reth)
  })
  if (element.batch !== undefined) encodeBatch(bytes, view, element.batch, lastAt)
  return bytes
}

/** A message of a batch is a SEND of it. */
function opcodeOf({ kind: what, message = false }: QueueElement): number {
  if (what === 'nop') return el.WQE_NOP
  return message ? kind.SEND : what
}

/** What an element has behind its bytes: addresses of further copies, or the sequence expected. */
export function lastOf({ extensions = [], batch }: QueueElement): number {
  return batch?.condition === CONDITION_EXPECT ? 1 : extensions.length
}

/** Units of an element with so many bytes, and so many times 16 behind them, behind its first. */
export function unitsOf(behind: number, last: number): number {
  const all = last === 0 ? behind : aligned(behind) + last * RETH_BYTES
  return 1 + Math.ceil(all / UNIT_BYTES)
}

function encodeBatch(bytes: Uint8Array, view: DataView, batch: BatchPlace, lastAt: number): void {
  const last = batch.left === 0 ? el.LAST_OF_BATCH : 0
  bytes[el.WQE_CONDITION] = (batch.condition << el.CONDITION_SHIFT) | last
  bytes[el.WQE_BATCH_INDEX] = batch.index
  bytes[el.WQE_BATCH_COUNT] = batch.count - 1
  bytes[el.WQE_BATCH_LEFT] = batch.left
  view.setUint16(el.WQE_BATCH_ID, batch.id, true)
  if (batch.condition === CONDITION_EXPECT) {
    view.setBigUint64(lastAt, batch.expect!, true)
  }
}

function aligned(bytes: number): number {
  return Math.ceil(bytes / RETH_BYTES) * RETH_BYTES
}

/** The eight bytes of an ATOMIC WRITE, as they are. */
function putWord(bytes: Uint8Array, carried: Carried): number {
  if (carried.inline?.length !== WORD_BYTES) {
    throw new ArgumentError('an atomic write has 8 bytes')
  }
  bytes.set(carried.inline, el.WQE_OPERATION)
  return WORD_BYTES
}

/** Bytes behind the first unit; a single piece is named in the first unit itself. */
function bytesBehind(carried: Carried): number {
  if (carried.inline !== undefined) return carried.inline.length
  return carried.ranges.length > 1 ? carried.ranges.length * el.SGE_BYTES : 0
}

/** Writes the bytes or where they are; returns how many. */
function encodeCarried(bytes: Uint8Array, view: DataView, carried: Carried): number {
  if (carried.inline !== undefined) {
    if (carried.inline.length > INLINE_BYTES_MAX) {
      throw new ArgumentError(`${carried.inline.length} bytes inline: at most ${INLINE_BYTES_MAX}`)
    }
    bytes.set(carried.inline, UNIT_BYTES)
    return carried.inline.length
  }
  const { ranges } = carried
  for (const range of ranges) checkRange(range)
  if (ranges.length === 1) {
    putLocal(view, ranges[0]!)
    return ranges[0]!.length
  }
  if (ranges.length > SGES_MAX) {
    throw new ArgumentError(`${ranges.length} pieces: at most ${SGES_MAX}`)
  }
  bytes[el.WQE_ENTRIES] = ranges.length
  let sum = 0
  ranges.forEach(({ address, length, lkey }, i) => {
    const at = UNIT_BYTES + i * el.SGE_BYTES
    view.setBigUint64(at, BigInt(address), true)
    view.setUint32(at + el.SGE_LENGTH, length, true)
    view.setUint32(at + el.SGE_LKEY, lkey, true)
    sum += length
  })
  if (sum >= 2 ** 32) throw new ArgumentError(`${sum} bytes in one element: below 2^32`)
  return sum
}

function putLocal(view: DataView, { address, lkey }: Range): void {
  view.setBigUint64(el.WQE_LOCAL, BigInt(address), true)
  view.setUint32(el.WQE_LKEY, lkey, true)
}

/** The unit of an element of a receive queue. */
export function encodeReceive({ range }: Receive): Uint8Array {
  const bytes = new Uint8Array(UNIT_BYTES)
  const view = new DataView(bytes.buffer)
  bytes[el.WQE_OPCODE] = el.WQE_RECEIVE
  bytes[el.WQE_UNITS] = 1
  if (range !== null) {
    checkRange(range)
    putLocal(view, range)
    view.setUint32(el.WQE_LENGTH, range.length, true)
  }
  return bytes
}

/** Stamps the first unit as the one with that number. */
export function stamp(element: Uint8Array, number: number): void {
  const view = new DataView(element.buffer, element.byteOffset, element.byteLength)
  view.setUint32(el.WQE_STAMP, number + 1, true)
  view.setUint32(el.WQE_STAMP_AGAIN, number + 1, true)
}

function flagsOf(element: QueueElement, inline: boolean): number {
  return (
    (element.signaled === false ? 0 : el.SIGNALED) |
    (element.solicited === true ? el.SOLICITED : 0) |
    (element.fenced === true ? el.FENCE : 0) |
    (inline ? el.INLINE : 0) |
    (element.carried === true ? el.CARRIED : 0) |
    (element.addressed === true ? el.ADDRESSED : 0) |
    (element.twoSteps === true ? el.TWO_STEPS : 0) |
    (element.repetition === true ? el.REPETITION : 0) |
    (element.batch === undefined ? 0 : el.BATCH)
  )
}

/** PERDURE_ARGUMENT for what is no piece of memory that could ever be the card's. */
function checkRange(range: Range): void {
  check('a range', range, OBJECT)
  const { address, length, lkey } = range
  checkNumber('length', length, 2 ** 32)
  checkNumber('lkey', lkey, 2 ** 32)
  checkNumber('address', address, ADDRESS_END - length + 1)
}

function checkElement(element: QueueElement): void {
  const isKind = Number.isInteger(element.kind) && element.kind !== 'nop' && element.kind >= 1
  if (element.kind !== 'nop' && !(isKind && element.kind <= kind.PREFETCH_HINT)) {
    throw new ArgumentError(`kind ${shown(element.kind)}: 1 to ${kind.PREFETCH_HINT}, or 'nop'`)
  }
  checkNumber('length', element.length ?? 0, 2 ** 32)
  checkNumber('rkey', element.rkey ?? 0, 2 ** 32)
  checkNumber('immediate', element.immediate ?? 0, 2 ** 32)
  checkNumber('guard', element.guard ?? 0, 2 ** 32)
  const isRecord = element.kind === kind.WRITE_PERSIST && element.message !== true
  if ((element.guard ?? 0) !== 0 && !isRecord) {
    throw new ArgumentError('a guard: of a WRITE_PERSIST')
  }
  checkNumber('wait', element.wait ?? 0, 2 ** 8)
  checkNumber('furtherCopies', element.furtherCopies ?? 0, 2 ** 8)
  checkNumber('placement', element.placement ?? 0, 2 ** 8)
  checkNumber('selectivity', element.selectivity ?? 0, 2 ** 8)
  checkUint64('address', element.address ?? 0n)
  checkUint64('operation', element.operation ?? 0n)
  checkUint64('compare', element.compare ?? 0n)
  if (element.batch !== undefined) checkBatch(element, element.batch)
  else if (element.message === true) throw new ArgumentError('a message: of a batch')
  if (element.to === undefined) return
  check('to', element.to, ENDPOINT)
}

/** PERDURE_ARGUMENT for what the card would end its queue for. */
function checkBatch(element: QueueElement, batch: BatchPlace): void {
  const { id, index, count, left, condition, expect } = batch
  const several = element.carried === true || element.twoSteps === true
  if (element.kind !== kind.WRITE_PERSIST || several) {
    throw new ArgumentError('a batch has records of which one copy is carried')
  }
  if (element.message === true && (element.addressed === true || element.solicited === true)) {
    throw new ArgumentError('a message of a batch has no place, and wakes nobody')
  }
  checkNumber('batch id', id, 2 ** 16)
  checkNumber('records of a batch, less one', count - 1, BATCH_RECORDS_MAX)
  checkNumber('records of a burst, less one', left, BATCH_ELEMENTS_MAX)
  checkNumber('index', index, count - left)
  checkNumber('condition', condition, CONDITION_EXPECT + 1)
  if (condition === CONDITION_EXPECT) checkUint64('expect', expect as bigint)
}

function checkNumber(name: string, value: number, end: number): void {
  check(name, value, integer(0, end - 1))
}

function checkUint64(name: string, value: bigint): void {
  check(name, value, UINT64)
}
