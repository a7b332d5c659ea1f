// hot path
/**
 * Judges the copy of a work-queue element, once (fault H2): what is executed is what was judged.
 *
 * Invariant: only the copy in packet memory is read, never the host's memory again; no
 * number of it is used before it was held against its limit; every range of the host's memory that
 * the element names is covered by a memory region of its key and its queue's domain (P3-28).
 */

import { ELEMENT_FORM, ELEMENT_LENGTH, type Fault, MEMORY_KEY, PASS } from '../board/fault.ts'
import {
  BATCH_ELEMENT_BYTES_MAX,
  BATCH_ELEMENTS_MAX,
  INLINE_BYTES_MAX,
  SGES_MAX,
  UNIT_BYTES,
  WQE_UNITS_MAX,
} from '../board/limits.ts'
import { BLOCK_SIZE_VERSION, BSETH_WORDS, blankBseth, readBseth } from '../wire/block-size.ts'
import { CONDITION_EXPECT } from '../wire/persist.ts'
import {
  blankPfeth,
  PFETH_BYTES,
  PFETH_WORDS,
  PREFETCH_DROP,
  PREFETCH_VERSION,
  PREFETCH_WILL_NEED,
  readPfeth,
} from '../wire/prefetch.ts'
import { queueKindOf, typeOf, zone1Word } from './context.ts'
import * as wqe from './element.ts'
import type { Element, HostQueues } from './host.ts'
import { memoryFault } from './memory-regions.ts'
import {
  KIND_RECEIVE,
  TYPE_AGENT,
  TYPE_CONNECTED,
  TYPE_GSI,
  TYPE_LOCAL,
  Z1_DOMAIN,
} from './queue-info.ts'
import { isHostRange } from './ranges.ts'

/** Opcodes of a send queue, by the type of the queue: a bit for each. */
const REQUESTS = 2 ** (wqe.WQE_PREFETCH_HINT + 1) - 2
/** About memory of a peer. */
const STATUS = 2 ** wqe.WQE_ASSOCIATE + 2 ** wqe.WQE_BLOCK_SIZE + 2 ** wqe.WQE_PREFETCH_HINT
const SENDS = 2 ** wqe.WQE_SEND + 2 ** wqe.WQE_SEND_IMM + 2 ** wqe.WQE_SEND_INV

/** Whose bytes are here, or come here: up to READ. A NOP may have some, which nobody looks at. */
function hasBytes(opcode: number): boolean {
  return opcode <= wqe.WQE_READ || opcode >= wqe.WQE_NOP
}

function mayInline(opcode: number): boolean {
  return opcode < wqe.WQE_READ || opcode === wqe.WQE_NOP
}

/**
 * Reads the element at `at`, whose first unit has number `unit`, into `host.element`. The host has
 * stored `stored` units from there on; all units that the element says it has were fetched, unless
 * they are more than that, or than any element has.
 */
export function checkElement(
  host: HostQueues,
  place: number,
  at: number,
  unit: number,
  stored: number,
): Fault {
  const { words, bytes, element } = host
  const w = at >> 2
  const stamp = (unit + 1) | 0
  if (words[w] !== stamp || words[w + (wqe.WQE_STAMP_AGAIN >> 2)] !== stamp) return ELEMENT_FORM
  element.queue = host.contexts.queueOf[place]!
  element.place = place
  element.at = at
  element.unit = unit
  element.opcode = bytes[at + wqe.WQE_OPCODE]!
  element.units = bytes[at + wqe.WQE_UNITS]!
  element.flags = words[w + (wqe.WQE_FLAGS >> 2)]! >>> 16
  element.length = words[w + (wqe.WQE_LENGTH >> 2)]! >>> 0
  element.entries = bytes[at + wqe.WQE_ENTRIES]!
  element.furtherCopies = bytes[at + wqe.WQE_FURTHER_COPIES]!
  if (element.units < 1 || element.units > WQE_UNITS_MAX) return ELEMENT_FORM
  // It would reach beyond the write pointer: it was never stored as a whole.
  if (element.units > stored) return ELEMENT_FORM
  if (!isServed(host, place, element.opcode)) return ELEMENT_FORM
  readBatch(host, element, w)
  const fault = elementShapeFault(element)
  if (fault !== PASS) return fault
  if ((element.flags & wqe.BATCH) !== 0) {
    const batch = batchFault(host, element)
    if (batch !== PASS) return batch
  }
  readFields(host, element, w)
  if (element.opcode <= wqe.WQE_PREFETCH_HINT && element.opcode >= wqe.WQE_ASSOCIATE) {
    return statusFault(host, element)
  }
  return elementRangeFault(host, place, element)
}

/** Units of the element at `at`, as it says; 0 or too many of one that is malformed. */
export function unitsAt(host: HostQueues, at: number): number {
  return host.bytes[at + wqe.WQE_UNITS]!
}

const OF_PLACES = wqe.CARRIED | wqe.ADDRESSED
const OF_RECORDS = OF_PLACES | wqe.REPETITION

/** Forms of a record that no batch has: several copies, or two completions. */
const ONE_BY_ONE = wqe.CARRIED | wqe.TWO_STEPS

/** What no message of a batch has: a place, two completions, a word on how the host is woken. */
const OF_OTHERS = OF_PLACES | wqe.TWO_STEPS | wqe.SOLICITED

function isServed(host: HostQueues, place: number, opcode: number): boolean {
  if (queueKindOf(host, place) === KIND_RECEIVE) return opcode === wqe.WQE_RECEIVE
  if (opcode === wqe.WQE_NOP) return true
  if (opcode > wqe.WQE_PREFETCH_HINT) return false
  const type = typeOf(host, place)
  let served = REQUESTS
  if (type === TYPE_GSI) served = 2 ** wqe.WQE_SEND
  else if (type === TYPE_AGENT) served = SENDS
  else if (type === TYPE_LOCAL) served = REQUESTS - SENDS - STATUS
  return (served & (1 << opcode)) !== 0
}

/** Flags, entries and what stands behind the first unit: do they fit together, and the units? */
function elementShapeFault(element: Element): Fault {
  const { flags, opcode, entries, length } = element
  if (flags > wqe.FLAGS_ALL) return ELEMENT_FORM
  const inline = (flags & wqe.INLINE) !== 0
  if (inline && (entries > 0 || !mayInline(opcode))) return ELEMENT_FORM
  if (entries > SGES_MAX || (entries > 0 && !hasBytes(opcode))) return ELEMENT_FORM
  if (entries > 0 && opcode === wqe.WQE_RECEIVE) return ELEMENT_FORM
  if (inline && length > INLINE_BYTES_MAX) return ELEMENT_LENGTH
  if (!isMemberForm(opcode, flags)) return ELEMENT_FORM
  const first = inline ? (length + 15) & -16 : entries * wqe.SGE_BYTES
  const last = lastBytes(element)
  const behind = first + last
  element.behindAt = inline || entries > 0 ? element.at + UNIT_BYTES : 0
  element.copiesAt = last > 0 ? element.at + UNIT_BYTES + first : 0
  if (element.units !== 1 + Math.ceil(behind / UNIT_BYTES)) return ELEMENT_LENGTH
  return PASS
}

/** Do the flags of records and of batches fit together, and the opcode? */
function isMemberForm(opcode: number, flags: number): boolean {
  const batch = (flags & wqe.BATCH) !== 0
  if (opcode === wqe.WQE_WRITE_PERSIST) return !batch || (flags & ONE_BY_ONE) === 0
  if (batch) return opcode === wqe.WQE_SEND && (flags & OF_OTHERS) === 0
  return (flags & OF_RECORDS) === 0
}

/** What stands behind the bytes of a record: further addresses, or the sequence expected. */
function lastBytes({ flags, furtherCopies, condition }: Element): number {
  if ((flags & wqe.BATCH) !== 0) return condition === CONDITION_EXPECT ? wqe.EXPECT_BYTES : 0
  return (flags & wqe.ADDRESSED) !== 0 ? furtherCopies * wqe.COPY_BYTES : 0
}

/** The place of a record in its batch. */
function readBatch({ bytes, words }: HostQueues, element: Element, w: number): void {
  if ((element.flags & wqe.BATCH) === 0) return
  const { at } = element
  const condition = bytes[at + wqe.WQE_CONDITION]!
  element.condition = condition >> wqe.CONDITION_SHIFT
  element.last = (condition & wqe.LAST_OF_BATCH) !== 0
  element.batchIndex = bytes[at + wqe.WQE_BATCH_INDEX]!
  element.batchCount = bytes[at + wqe.WQE_BATCH_COUNT]! + 1
  element.batchLeft = bytes[at + wqe.WQE_BATCH_LEFT]!
  element.batchId = words[w + (wqe.WQE_BATCH_ID >> 2)]! & 0xffff
}

/**
 * What no batch may say. Whether its records agree with each other is for whoever holds all of
 * them: the peer, or the part.
 */
function batchFault(host: HostQueues, element: Element): Fault {
  const { bytes, words } = host
  const { at, condition, copiesAt, last, batchIndex, batchCount, batchLeft } = element
  const zeros = words[(at + wqe.WQE_BATCH_ID) >> 2]! >>> 16
  const spare = bytes[at + wqe.WQE_CONDITION]! & ~(15 << wqe.CONDITION_SHIFT) & ~wqe.LAST_OF_BATCH
  if (condition > CONDITION_EXPECT || (zeros | spare) !== 0) return ELEMENT_FORM
  // A message of a batch goes over the wire, to a host.
  const isMessage = element.opcode === wqe.WQE_SEND
  if (isMessage && typeOf(host, element.place) !== TYPE_CONNECTED) return ELEMENT_FORM
  // Indexes grow, and a burst is under way as a whole.
  if (batchIndex + batchLeft >= batchCount || batchLeft >= BATCH_ELEMENTS_MAX) return ELEMENT_FORM
  if (last !== (batchLeft === 0)) return ELEMENT_FORM
  if (element.length > BATCH_ELEMENT_BYTES_MAX) return ELEMENT_LENGTH
  if (copiesAt === 0) return PASS
  const e = copiesAt >> 2
  element.expectLow = words[e]! >>> 0
  element.expectHigh = words[e + 1]! >>> 0
  const behind = e + (wqe.EXPECT_ZEROS >> 2)
  return (words[behind]! | words[behind + 1]!) === 0 ? PASS : ELEMENT_FORM
}

const elementBseth = blankBseth()
const elementPfeth = blankPfeth()

/** What the peer would end the connection for. */
function statusFault({ bytes, words }: HostQueues, element: Element): Fault {
  const { opcode, at, length, addressHigh, addressLow } = element
  if (opcode === wqe.WQE_PREFETCH_HINT) {
    readPfeth(elementPfeth, bytes, at + wqe.WQE_PFETH)
    const { version, words: size, reserved, op } = elementPfeth
    const known = version === PREFETCH_VERSION && size === PFETH_WORDS && reserved === 0
    const w = (at + wqe.WQE_PFETH + PFETH_BYTES) >> 2
    if (!known || (words[w]! | words[w + 1]!) !== 0) return ELEMENT_FORM
    if (op < PREFETCH_WILL_NEED || op > PREFETCH_DROP) return ELEMENT_FORM
    return length === 0 ? ELEMENT_LENGTH : PASS
  }
  readBseth(elementBseth, bytes, at + wqe.WQE_BSETH)
  const { version, words: size, reserved, status, optIn, optOut } = elementBseth
  if (version !== BLOCK_SIZE_VERSION || size !== BSETH_WORDS) return ELEMENT_FORM
  if (reserved !== 0 || status !== 0 || (optIn && optOut)) return ELEMENT_FORM
  if (opcode === wqe.WQE_ASSOCIATE) return PASS
  return (length | addressHigh | addressLow) === 0 ? PASS : ELEMENT_FORM
}

function readFields(host: HostQueues, element: Element, w: number): void {
  const { words, bytes } = host
  const { at } = element
  element.rkey = words[w + (wqe.WQE_RKEY >> 2)]! >>> 0
  element.addressLow = words[w + (wqe.WQE_ADDRESS >> 2)]! >>> 0
  element.addressHigh = words[w + (wqe.WQE_ADDRESS >> 2) + 1]! >>> 0
  element.operationLow = words[w + (wqe.WQE_OPERATION >> 2)]! >>> 0
  element.operationHigh = words[w + (wqe.WQE_OPERATION >> 2) + 1]! >>> 0
  element.compareLow = words[w + (wqe.WQE_COMPARE >> 2)]! >>> 0
  element.compareHigh = words[w + (wqe.WQE_COMPARE >> 2) + 1]! >>> 0
  element.placement = bytes[at + wqe.WQE_PLACEMENT]!
  element.selectivity = bytes[at + wqe.WQE_SELECTIVITY]!
  element.local = addressIn(words, w + (wqe.WQE_LOCAL >> 2))
  element.lkey = words[w + (wqe.WQE_LKEY >> 2)]! >>> 0
  element.immediate = words[w + (wqe.WQE_IMMEDIATE >> 2)]! >>> 0
  element.wait = bytes[at + wqe.WQE_WAIT]!
}

/** A 64-bit address; one beyond 2^53 is not exact, and beyond every memory. */
function addressIn(words: Int32Array, word: number): number {
  return (words[word]! >>> 0) + (words[word + 1]! >>> 0) * 2 ** 32
}

/** Is every range that the element names covered by a memory region, and is their sum right? */
function elementRangeFault(host: HostQueues, place: number, element: Element): Fault {
  const { flags, length, entries } = element
  if ((flags & wqe.INLINE) !== 0 || !hasBytes(element.opcode)) return PASS
  if (entries === 0) {
    if (length === 0) return PASS
    return elementKeyFault(host, place, element.lkey, element.local, length)
  }
  let sum = 0
  for (let i = 0; i < entries; i++) {
    const w = (element.behindAt + i * wqe.SGE_BYTES) >> 2
    const part = host.words[w + (wqe.SGE_LENGTH >> 2)]! >>> 0
    const key = host.words[w + (wqe.SGE_LKEY >> 2)]! >>> 0
    sum += part
    if (part === 0) continue
    const fault = elementKeyFault(host, place, key, addressIn(host.words, w), part)
    if (fault !== PASS) return fault
  }
  return sum === length ? PASS : ELEMENT_LENGTH
}

/**
 * May the element of the queue at `place` name [at, at + length) under that key? Of management no
 * key is asked: it is what registers memory, and its memory is the kernel's own.
 */
function elementKeyFault(
  host: HostQueues,
  place: number,
  key: number,
  at: number,
  length: number,
): Fault {
  if (typeOf(host, place) === TYPE_GSI) return isHostRange(host, at, length) ? PASS : MEMORY_KEY
  return memoryFault(host.regions, key, zone1Word(host, place, Z1_DOMAIN), at, length)
}
