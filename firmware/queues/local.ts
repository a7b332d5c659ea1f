// hot path
/**
 * Elements of a local queue: requests of the host to the part of its local card, without a wire.
 *
 * Invariants:
 * - They are judged as if they came over the wire: what draws a NAK there ends the queue here; what
 *   is refused there by a status ends its element alone, by GENERAL_ERR and that status.
 * - They are executed in the order of their queue, each exactly once: an element that is not a
 *   record stands behind the commit of every record before it (queues/record.ts).
 * - A READ is served from what is settled (engine/locate.ts). It is complete before its completion
 *   is composed: where a byte could not be delivered, the completion is an error.
 * - What is stored into a region registered write-persist is durable before its completion stands
 *   in a list; so is everything before a FLUSH.
 * - Regions through the host's caches and of other DPUs take no store from here, nor bytes there a
 *   FLUSH (OWN_HOST): the host that asks is the one whose CPU would have to write back, and a relay
 *   speaks in the name of a connection. Both are reached over a connected queue pair. Memory of the
 *   host itself that is registered on demand is not reached from here at all (RIGHTS).
 */

import { append, copyClean, resultOf, run } from '../board/command-list.ts'
import {
  DMA,
  ELEMENT_FORM,
  ELEMENT_LENGTH,
  type Fault,
  LEVEL,
  NOT_DURABLE,
  NOT_READY,
  OWN_HOST,
  PASS,
  PERSIST_HEADER,
  RIGHTS,
  UNREADABLE,
} from '../board/fault.ts'
import {
  DMA_FAILED,
  DMA_SPACE,
  COMPARE_SWAP as OP_COMPARE_SWAP,
  FETCH_ADD as OP_FETCH_ADD,
} from '../board/hal.ts'
import { LOCAL_BYTES_MAX } from '../board/limits.ts'
import { ZEROS_AT, ZEROS_BYTES } from '../board/memory-map.ts'
import { isSafe, makeDurable, runBurst } from '../burst/burst.ts'
import type { AcceptContext, BurstContext, GroupContext, QueueState } from '../burst/context.ts'
import { noteDurable } from '../burst/figures.ts'
import { noteParty } from '../burst/queue-contexts.ts'
import { VIEW_FIRST_COPY } from '../burst/view.ts'
import { durableUpTo, findClient, isDurable, type OperationId } from '../commit/operations.ts'
import { findPieces, writePieces } from '../engine/buffers.ts'
import { describeEnd, finishElement, refuseElement } from '../engine/complete.ts'
import { commitNow } from '../engine/group.ts'
import {
  accessOf,
  boundsFault,
  flushedBytes,
  flushFormFault,
  flushRights,
  locateBytes,
  locateRecord,
  locateStored,
  locateWord,
  viewsToFlush,
  WORD_BYTES,
} from '../engine/locate.ts'
import * as el from '../host/element.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { EXECUTED, WAIT } from '../host/work.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  isPair,
  KIND_BYTES,
  KIND_ON_DEMAND,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  REMOTE_ATOMIC,
  REMOTE_READ,
  REMOTE_WRITE,
  type Region,
  WRITE_PERSIST_REGION,
  WRITE_PERSIST as WRITE_PERSIST_RIGHT,
} from '../medium/region.ts'
import { lookBeforeWrite } from '../placement/scrub.ts'
import {
  ATOMIC_WRITE,
  COMPARE_SWAP,
  FETCH_ADD,
  FLUSH,
  PERSIST_QUERY,
  READ,
  WRITE,
  WRITE_PERSIST,
} from '../transport/requester.ts'
import { putU32, u32 } from '../wire/bytes.ts'
import { PLACEMENT_PERSISTENT, SELECT_RANGE } from '../wire/feth.ts'
import { QUERY_NOT_KNOWN } from '../wire/persist-query.ts'
import { executeMember, storeCollectedLocal } from './local-batch.ts'
import { executeRecord } from './record.ts'

type Execute = (state: AcceptContext) => number

/** By opcode. What is not here is not served: nobody receives what a local queue sends. */
const EXECUTE: readonly Execute[] = makeTable()

function makeTable(): Execute[] {
  const table: Execute[] = []
  for (let i = 0; i <= PERSIST_QUERY; i++) table.push(refuseForm)
  table[WRITE_PERSIST] = persist
  table[WRITE] = writeLocal
  table[READ] = read
  table[FETCH_ADD] = atomic
  table[COMPARE_SWAP] = atomic
  table[FLUSH] = flushLocal
  table[ATOMIC_WRITE] = writeWord
  table[PERSIST_QUERY] = query
  return table
}

function refuseForm(): number {
  return ELEMENT_FORM
}

/** Executes `host.element`. */
export function executeLocal(state: AcceptContext): number {
  noteParty(state)
  storeCollectedLocal(state)
  const { opcode } = state.host.element
  const isRecord = opcode === WRITE_PERSIST || opcode === WRITE
  // Everything else is executed, and completes, behind the records that are on their way.
  if (!isRecord && state.hostWork.recordCount > 0) commitNow(state)
  const outcome = EXECUTE[opcode]!(state)
  // What ends the queue does so behind them, too.
  if (outcome !== EXECUTED && state.hostWork.recordCount > 0) commitNow(state)
  return outcome
}

/** May the queue do that in the region that its element names? It is then `located.region`. */
function access(state: MemoryState & HostState & QueueState, rights: number): Fault {
  const fault = accessOf(state, state.hostWork.party, state.host.element.rkey, rights)
  const { region } = state.located
  // The host reaches its own memory without the card.
  return region !== null && region.kind === KIND_ON_DEMAND ? RIGHTS : fault
}

function persist(state: AcceptContext): number {
  const { element } = state.host
  const fault = access(state, WRITE_PERSIST_RIGHT)
  if (fault !== PASS) return fault
  const region = state.located.region!
  if (element.wait < 1) return PERSIST_HEADER
  // Nobody would compare it.
  if (element.immediate !== 0 && region.kind === KIND_BYTES) return PERSIST_HEADER
  if ((element.flags & el.BATCH) !== 0) return executeMember(state, region)
  if (region.kind !== KIND_BYTES) return executeRecord(state, region, element.wait, false)
  if ((element.flags & el.CARRIED) !== 0) return PERSIST_HEADER
  commitNow(state)
  if (element.wait > 1) return refuseElement(state, LEVEL)
  return storeElement(state, region, true)
}

/** A plain WRITE: of bytes, or of a whole record in every copy (source 2, form B). */
function writeLocal(state: AcceptContext): number {
  const fault = access(state, REMOTE_WRITE)
  if (fault !== PASS) return fault
  const region = state.located.region!
  if (region.kind !== KIND_BYTES && !isPair(region)) {
    return executeRecord(state, region, region.copies, true)
  }
  if (isPair(region)) {
    const { addressHigh, addressLow } = state.host.element
    const unseen = lookBeforeWrite(state, region, addressHigh, addressLow)
    if (unseen === NOT_READY) {
      state.host.behindMessages += 1
      return WAIT
    }
    if (unseen !== PASS) return unseen
  }
  return storeElement(state, region, false)
}

/** Stores the bytes of the element into a region of bytes, or a copy that the host writes. */
function storeElement(state: GroupContext, region: Region, persisted: boolean): number {
  const { located } = state
  const { element } = state.host
  if (element.length > LOCAL_BYTES_MAX) return ELEMENT_LENGTH
  const { addressHigh, addressLow, length } = element
  const outside = locateStored(state, region, addressHigh, addressLow, length)
  if (outside !== PASS) return outside
  let to = located.from + located.offset
  commitNow(state)
  if (region.placement >= PLACEMENT_THROUGH) return refuseElement(state, OWN_HOST)
  const durable = persisted || (region.flags & WRITE_PERSIST_REGION) !== 0
  if (durable && !isSafe(state)) return NOT_DURABLE
  const work = state.hostWork
  const inline = (element.flags & el.INLINE) !== 0
  work.pieces.count = 0
  findPieces(state, work.pieces)
  commitNow(state)
  runBurst(state)
  const { list } = state
  if (inline) copyClean(list, element.behindAt, to, length, 0)
  for (let i = 0; i < work.pieces.count; i++) {
    const bytes = work.pieces.length[i]!
    copyClean(list, DMA_SPACE + work.pieces.at[i]!, to, bytes, 0)
    to += bytes
  }
  const stored = endStore(state, durable)
  if (stored !== PASS) return stored
  if (durable) countElement(state, region, length)
  describeEnd(state, el.WC_SUCCESS)
  if (durable) describeDurable(state, region, 1)
  finishElement(state)
  return EXECUTED
}

/** So many bytes of the region are durable. */
function countElement({ figures, connections }: BurstContext, region: Region, bytes: number): void {
  noteDurable(figures, region.index, connections.nowUs, 1, bytes)
}

/** Runs what stores, alone in the list, and makes it durable if that is asked for. */
function endStore(state: BurstContext, durable: boolean): Fault {
  const { list } = state
  const failed = run(list)
  // Part of it may be stored: the next FLUSH covers that, too.
  state.unfenced += 1
  if (failed >= 0) return storeFault(resultOf(list, failed))
  return !durable || makeDurable(state) ? PASS : NOT_DURABLE
}

function storeFault(result: number): Fault {
  return result === DMA_FAILED ? DMA : UNREADABLE
}

/** What became durable, and how. */
function describeDurable(state: HostState, region: Region, copies: number): void {
  const { completion, element } = state.host
  completion.flags = el.DURABLE
  completion.copies = copies
  completion.mechanism = region.mechanism
  completion.operationHigh = element.operationHigh
  completion.operationLow = element.operationLow
}

function read(state: AcceptContext): number {
  const { addressHigh, addressLow, length } = state.host.element
  let fault: Fault = PASS
  if (length > 0) fault = access(state, REMOTE_READ)
  if (fault !== PASS) return fault
  if (length > LOCAL_BYTES_MAX) return ELEMENT_LENGTH
  const region = length > 0 ? state.located.region! : null
  if (region !== null) {
    const views = VIEW_FIRST_COPY + region.copies
    fault = boundsFault(region, addressHigh, addressLow, length, views)
  }
  if (fault !== PASS) return fault
  commitNow(state)
  // What stands in the list is not to be mixed with what the examination runs.
  runBurst(state)
  if (region !== null) {
    fault =
      region.kind === KIND_BYTES
        ? locateBytes(state, region, addressHigh, addressLow, length)
        : locateRecord(state, region, addressHigh, addressLow)
  }
  if (fault !== PASS) return fault
  if (region !== null && !bring(state, length)) return UNREADABLE
  describeEnd(state, el.WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

/** Copies what is there to the host's memory, and zeros behind. False if it cannot be delivered. */
function bring(state: HostContext & MemoryState & QueueState, length: number): boolean {
  const { pieces } = state.hostWork
  const { from, end, offset } = state.located
  findPieces(state, pieces)
  const held = from < 0 ? 0 : Math.min(length, Math.max(0, end - offset))
  if (held > 0) writePieces(state, pieces, 0, from + offset, held)
  for (let at = held; at < length; at += ZEROS_BYTES) {
    writePieces(state, pieces, at, ZEROS_AT, Math.min(ZEROS_BYTES, length - at))
  }
  return run(state.list) < 0
}

function flushLocal(state: AcceptContext): number {
  const { element } = state.host
  const { placement, selectivity } = element
  const form = flushFormFault(placement, selectivity)
  if (form !== PASS) return form
  const persistent = (placement & PLACEMENT_PERSISTENT) !== 0
  let fault = access(state, flushRights(placement))
  if (fault !== PASS) return fault
  const region = state.located.region!
  if (selectivity === SELECT_RANGE) {
    const { addressHigh, addressLow, length } = element
    fault = boundsFault(region, addressHigh, addressLow, length, viewsToFlush(region))
  }
  if (fault !== PASS) return fault
  if (persistent && !isSafe(state)) return NOT_DURABLE
  commitNow(state)
  const { kind, placement: lies } = region
  if (persistent && kind === KIND_BYTES && lies === PLACEMENT_THROUGH) {
    return refuseElement(state, OWN_HOST)
  }
  const far = region.placement !== PLACEMENT_LOCAL && placement !== 0
  const due = (persistent || far) && state.unfenced > 0
  if (due && !makeDurable(state)) return NOT_DURABLE
  // A group that was committed just now may have closed the part.
  if (persistent && !isSafe(state)) return NOT_DURABLE
  if (persistent) countElement(state, region, flushedBytes(region, selectivity, element.length))
  describeEnd(state, el.WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

/** Operands and original lie in the spent element, behind the opcode: a refusal names that yet. */
const OPERANDS_BEHIND = 16
const ORIGINAL_BEHIND = 16

function atomic(state: AcceptContext): number {
  const { host, bytes, list, located } = state
  const { element } = host
  let fault = access(state, REMOTE_ATOMIC)
  if (fault !== PASS) return fault
  const region = located.region!
  fault = locateWord(state, region, element.addressHigh, element.addressLow)
  if (fault !== PASS) return fault
  const to = located.from + located.offset
  const at = element.at + OPERANDS_BEHIND
  putU32(bytes, at, element.operationHigh)
  putU32(bytes, at + 4, element.operationLow)
  putU32(bytes, at + 8, element.compareHigh)
  putU32(bytes, at + 12, element.compareLow)
  commitNow(state)
  runBurst(state)
  const op = element.opcode === COMPARE_SWAP ? OP_COMPARE_SWAP : OP_FETCH_ADD
  append(list, op, at, to, WORD_BYTES, at + ORIGINAL_BEHIND)
  const durable = (region.flags & WRITE_PERSIST_REGION) !== 0
  fault = endStore(state, durable)
  if (fault !== PASS) return fault
  if (durable) countElement(state, region, WORD_BYTES)
  describeEnd(state, el.WC_SUCCESS)
  host.completion.operationHigh = u32(bytes, at + ORIGINAL_BEHIND)
  host.completion.operationLow = u32(bytes, at + ORIGINAL_BEHIND + 4)
  finishElement(state)
  return EXECUTED
}

/** ATOMIC WRITE: the eight bytes of the operation field, as they are. */
function writeWord(state: AcceptContext): number {
  const { located } = state
  const { element } = state.host
  let fault = access(state, REMOTE_WRITE)
  if (fault !== PASS) return fault
  const region = located.region!
  fault = locateWord(state, region, element.addressHigh, element.addressLow)
  if (fault !== PASS) return fault
  if (region.placement >= PLACEMENT_THROUGH) return refuseElement(state, OWN_HOST)
  const to = located.from + located.offset
  commitNow(state)
  runBurst(state)
  const from = element.at + el.WQE_OPERATION
  copyClean(state.list, from, to, WORD_BYTES, 0)
  const durable = (region.flags & WRITE_PERSIST_REGION) !== 0
  fault = endStore(state, durable)
  if (fault !== PASS) return fault
  if (durable) countElement(state, region, WORD_BYTES)
  describeEnd(state, el.WC_SUCCESS)
  finishElement(state)
  return EXECUTED
}

const upTo: OperationId = { high: 0, low: 0 }

/** Is that operation of the queue's client durable? */
function query(state: GroupContext): number {
  const { host, commit } = state
  const { element, completion } = host
  commitNow(state)
  const { operations } = commit
  const { party } = state.hostWork
  const client = findClient(operations, party.client, party.clientHigh, party.clientLow)
  const known = isDurable(operations, client, element.operationHigh, element.operationLow)
  const cumulative = durableUpTo(operations, client, upTo)
  describeEnd(state, el.WC_SUCCESS)
  completion.operationHigh = cumulative ? upTo.high : element.operationHigh
  completion.operationLow = cumulative ? upTo.low : element.operationLow
  completion.flags = (known ? el.DURABLE : 0) | (cumulative ? el.UP_TO : 0)
  completion.refusal = known ? 0 : QUERY_NOT_KNOWN
  completion.copies = known ? 1 : 0
  finishElement(state)
  return EXECUTED
}
