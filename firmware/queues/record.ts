// hot path
/**
 * Records of the host's own part: WRITE_PERSIST, and WRITE of a whole record, on a local queue
 * (source 1; D-6, D-7, D-8, X-3).
 *
 * Invariants:
 * - The whole record is in packet memory before it joins the group, inline in the copy of its
 *   element, whose spent first unit becomes its slot header, or in a buffer.
 * - Records of several queues and of the network are committed by one group and its fences; one
 *   whose slot the group has already commits that first.
 * - An operation that is durable already is acknowledged, whatever queue and payload it comes with,
 *   and is never executed again.
 */

import { count } from '../board/context.ts'
import {
  BOUNDS,
  CONDITION,
  DUPLICATE,
  DUPLICATE_FORGED,
  ELEMENT_LENGTH,
  type Fault,
  OWN_HOST,
  PASS,
  PERSIST_HEADER,
  READ_ONLY,
} from '../board/fault.ts'
import { COPIES_MAX } from '../board/limits.ts'
import type {
  AcceptContext,
  BurstContext,
  GroupContext,
  QueueState,
  RecordContext,
} from '../burst/context.ts'
import { groupAdd, groupHolds, lanesOf, sealItem } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { enterOperation } from '../commit/operations.ts'
import { copiesFault } from '../engine/admit.ts'
import { freeBuffer, gatherBytes } from '../engine/buffers.ts'
import { describeEnd, finishElement, refuseElement } from '../engine/complete.ts'
import { commitNow } from '../engine/group.ts'
import { namedCopiesFault } from '../engine/locate.ts'
import { clientOf, isForged, repetitionFault, wasDurable } from '../engine/operation.ts'
import { storageFault } from '../engine/storage.ts'
import * as el from '../host/element.ts'
import type { HostState } from '../host/host-state.ts'
import { EXECUTED, HOST_OWNER, type HostWork } from '../host/work.ts'
import { PLACEMENT_LOCAL, PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'
import type { TransportState } from '../transport/context.ts'
import type { PersistMessage } from '../transport/message.ts'
import type { Party } from '../transport/queue-pair.ts'
import { CONDITION_IN_ORDER } from '../wire/persist.ts'

/**
 * Executes `host.element`, a record into `region`, which grants it; `plain` has no operation.
 * Returns EXECUTED, WAIT or a fault.
 */
export function executeRecord(
  state: AcceptContext,
  region: Region,
  wait: number,
  plain: boolean,
): number {
  const { host, hostWork } = state
  const { element } = host
  const copies = (element.flags & el.CARRIED) === 0 ? 1 : element.furtherCopies + 1
  const form = recordFormFault(state, region, copies)
  if (form !== PASS) return form
  const message = messageOf(state, region, wait, plain, copies)
  if (region.placement >= PLACEMENT_THROUGH) {
    if (hostWork.recordCount > 0) commitNow(state)
    return refuseElement(state, OWN_HOST)
  }
  const storage = storageFault(state, message, region)
  const gathered = storage === PASS ? gatherBytes(state) : PASS
  if (gathered !== PASS) return gathered
  const buffer = storage === PASS ? hostWork.buffer : -1
  const fault = acceptHostRecord(state, region, storage, buffer)
  if (fault === PASS) return EXECUTED
  freeBuffer(state, buffer)
  if (fault !== REPEATED && hostWork.recordCount > 0) commitNow(state)
  return fault === REPEATED ? EXECUTED : refuseElement(state, fault)
}

/**
 * Executes `host.element`, a record of a batch whose bytes lie at `dataAt` already: PASS if it is
 * in the group, or complete, or why it is refused.
 */
export function executeHeld(
  state: RecordContext,
  region: Region,
  wait: number,
  dataAt: number,
): Fault {
  const storage = storageFault(state, messageOf(state, region, wait, false, 1), region)
  state.hostWork.dataAt = dataAt
  const fault = acceptHostRecord(state, region, storage, -1)
  return fault === REPEATED ? PASS : fault
}

/**
 * What there is `against` `host.element`, a record of a batch that the table does not know as
 * durable; or OPERATION_FORGOTTEN.
 */
export function heldFault(
  state: RecordContext,
  region: Region,
  wait: number,
  against: Fault,
): Fault {
  const { party } = state.hostWork
  const message = messageOf(state, region, wait, false, 1)
  return repetitionFault(state, region, party.client, party, message, against)
}

/** What `host.element` says of its record: `hostWork.message`. */
export function messageOf(
  state: HostState & QueueState,
  region: Region,
  wait: number,
  plain: boolean,
  copies: number,
): PersistMessage {
  const { message } = state.hostWork
  const { element } = state.host
  message.region = region
  message.slot = element.addressHigh
  message.length = element.length / copies
  message.wait = wait
  message.carried = copies
  message.repetition = (element.flags & el.REPETITION) !== 0
  message.operationHigh = plain ? 0 : element.operationHigh
  message.operationLow = plain ? 0 : element.operationLow
  return message
}

/** The operation was durable before, and is complete. */
const REPEATED = -1 as Fault

/** As over the wire: by slot; carried, by slot; carried, with the address of every copy (D-8). */
function recordFormFault(state: AcceptContext, region: Region, copies: number): Fault {
  const { element } = state.host
  const addressed = (element.flags & el.ADDRESSED) !== 0
  if (copies > 1 && copies !== region.copies) return PERSIST_HEADER
  if (copies > COPIES_MAX || element.length % copies !== 0) return ELEMENT_LENGTH
  if (!addressed) return element.addressLow === 0 ? PASS : BOUNDS
  if (copies === 1 || copies !== region.copies) return PERSIST_HEADER
  const { addressHigh, addressLow, copiesAt } = element
  const length = element.length / copies
  const { party } = state.hostWork
  return namedCopiesFault(state, party, region, addressHigh, addressLow, length, copiesAt)
}

/** The record joins the group; REPEATED, or why it is refused. */
function acceptHostRecord(
  state: RecordContext,
  region: Region,
  storage: Fault,
  buffer: number,
): Fault {
  const { commit, hostWork } = state
  const { message } = hostWork
  const { operations } = commit
  const { party } = state.hostWork
  const { client } = party
  const { operationHigh, operationLow } = message
  const isNew =
    !message.repetition && enterOperation(operations, client, party, operationHigh, operationLow)
  if (!isNew && isHostRepetition(state, party, storage)) return REPEATED
  let fault = storage
  // The health may have changed by what was committed just now.
  if (fault === PASS && !isNew) fault = storageFault(state, message, region)
  if (fault === PASS && message.carried > 1) fault = copiesFault(state, message, hostWork.dataAt)
  fault = repetitionFault(state, region, party.client, party, message, fault)
  if (fault !== PASS) return fault
  let full = commit.count === commit.usableLanes
  if (region.placement !== PLACEMENT_LOCAL && commit.hostCount === commit.hostLanes) full = true
  if (full || groupHolds(state.group, commit, region, message.slot)) {
    commitNow(state)
    fault = storageFault(state, message, region)
    if (fault === PASS && lanesOf(commit, region) === 0) fault = READ_ONLY
    if (isPredecessorRefused(hostWork)) fault = CONDITION
    if (fault !== PASS) return fault
  }
  joinHostRecord(state, party, region, buffer, isNew)
  return PASS
}

function joinHostRecord(
  state: BurstContext,
  party: Party,
  region: Region,
  buffer: number,
  isNew: boolean,
): void {
  const { commit, hostWork } = state
  const { message } = hostWork
  const item = commit.items[commit.count]!
  noteRecord(state, hostWork, commit.count, buffer)
  item.imageAt = hostWork.dataAt - SLOT_HEADER_BYTES
  item.region = region
  item.slot = message.slot
  item.length = message.length
  item.wait = message.wait
  item.wantsAck = true
  item.clientHigh = party.clientHigh
  item.clientLow = party.clientLow
  item.operationHigh = message.operationHigh
  item.operationLow = message.operationLow
  item.owner = HOST_OWNER
  item.psn = 0
  item.segment = 0
  item.staging = -1
  item.plain = false
  item.batchIndex = -1
  item.chained = isChained(state)
  const noted = isNew && commit.operations.retired[party.client] === 0
  item.client = noted ? party.client : clientOf(state, party, message)
  commit.count += 1
  sealItem(commit, item)
  groupAdd(state.group, commit)
}

/** Is an earlier record of its batch in order refused? */
function isPredecessorRefused({ judged }: HostWork): boolean {
  return judged !== null && judged.batch.condition === CONDITION_IN_ORDER && judged.batch.broken
}

/** Does the record that becomes an item follow another of its batch in order in the group? */
function isChained({ hostWork, host, answers }: TransportState & HostState & QueueState): boolean {
  const { judged } = hostWork
  if (judged === null) return false
  const { batch } = judged
  const { batchIndex } = host.element
  const isNext = batch.joinedGroup === answers.groups && batch.joinedIndex === batchIndex - 1
  batch.joinedIndex = batchIndex
  batch.joinedGroup = answers.groups
  return isNext && batch.condition === CONDITION_IN_ORDER
}

/** What its completion says, beside item `i` of the group. */
function noteRecord(
  state: CommitState & HostState & QueueState,
  work: HostWork,
  i: number,
  buffer: number,
): void {
  const { element } = state.host
  const record = work.records[i]!
  record.queue = element.queue
  record.unit = element.unit
  record.pointer = (element.unit + element.units) >>> 0
  record.place = work.place
  record.opcode = element.opcode
  record.flags = element.flags
  record.length = element.length
  record.addressHigh = element.addressHigh
  record.addressLow = element.addressLow
  record.buffer = buffer
  record.level = recordLevelOf(state, i)
  record.entry = -1
  record.batch = work.judged === null ? -1 : work.judged.number
  record.batchIndex = element.batchIndex
  work.recordCount += 1
}

/** When the completion of the record that becomes item `i` is due: not before those before it. */
function recordLevelOf(state: CommitState & HostState & QueueState, i: number): number {
  const { commit, host, hostWork } = state
  const { wait } = hostWork.message
  for (let j = i - 1; j >= 0; j--) {
    const other = hostWork.records[j]!
    if (commit.items[j]!.owner !== HOST_OWNER || other.queue !== host.element.queue) continue
    return other.level > wait ? other.level : wait
  }
  return wait
}

/** Was the operation durable before? Then its element is complete. */
function isHostRepetition(state: GroupContext, party: Party, storage: Fault): boolean {
  const { host, hostWork } = state
  const { message } = hostWork
  if (!wasDurable(state, party, message, false)) return false
  // It completes behind the records of its queue that are on their way.
  if (hostWork.recordCount > 0) commitNow(state)
  const forged = storage === PASS && isForged(state, party, message, hostWork.dataAt)
  count(state, forged ? DUPLICATE_FORGED : DUPLICATE)
  const region = message.region!
  describeEnd(state, el.WC_SUCCESS)
  const { completion } = host
  completion.flags = el.DURABLE
  completion.copies = Math.min(message.wait, region.copies)
  completion.mechanism = region.mechanism
  completion.operationHigh = message.operationHigh
  completion.operationLow = message.operationLow
  finishElement(state)
  return true
}
