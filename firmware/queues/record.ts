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

import { type Batch, regionOf } from '../batch/batch.ts'
import { offsetOfMember } from '../batch/members.ts'
import { count } from '../board/context.ts'
import {
  BOUNDS,
  DUPLICATE,
  DUPLICATE_FORGED,
  ELEMENT_LENGTH,
  type Fault,
  OWN_HOST,
  PASS,
  PERSIST_HEADER,
} from '../board/fault.ts'
import { COPIES_MAX } from '../board/limits.ts'
import type { AcceptContext, GroupContext, QueueState, RecordContext } from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import { admit, REPEATED } from '../engine/admit.ts'
import { freeBuffer, gatherBytes } from '../engine/buffers.ts'
import { describeEnd, finishElement, refuseElement } from '../engine/complete.ts'
import { commitNow } from '../engine/group.ts'
import { namedCopiesFault } from '../engine/locate.ts'
import { isForged, repetitionFault } from '../engine/operation.ts'
import { storageFault } from '../engine/storage.ts'
import * as el from '../host/element.ts'
import type { HostState } from '../host/host-state.ts'
import { EXECUTED, HOST_OWNER, type HostWork } from '../host/work.ts'
import { KIND_BYTES, PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import type { Ask } from '../transport/message.ts'

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
  const ask = askOf(state, region, wait, plain, copies)
  if (region.placement >= PLACEMENT_THROUGH) {
    if (hostWork.recordCount > 0) commitNow(state)
    return refuseElement(state, OWN_HOST)
  }
  const storage = storageFault(state, ask, region)
  const gathered = storage === PASS ? gatherBytes(state) : PASS
  if (gathered !== PASS) return gathered
  const buffer = storage === PASS ? hostWork.buffer : -1
  const fault = acceptHostRecord(state, storage, buffer, -1)
  if (fault === PASS) return EXECUTED
  freeBuffer(state, buffer)
  if (fault !== REPEATED && hostWork.recordCount > 0) commitNow(state)
  return fault === REPEATED ? EXECUTED : refuseElement(state, fault)
}

/**
 * Executes `host.element`, record `n` of a batch, whose bytes are there already: PASS if it is in
 * the group, or complete, or why it is refused.
 */
export function executeCollected(state: RecordContext, batch: Batch, n: number): Fault {
  const members = batch.members!
  const region = regionOf(batch, n)
  const ask = askOf(state, region, members.waits[n]!, false, 1)
  if (region.kind === KIND_BYTES) {
    // Of plain bytes the group asks where they begin, as it asks for a slot.
    ask.slot = members.slots[n]!
    ask.bytesAt = region.base + offsetOfMember(members, n)
  }
  state.hostWork.dataAt = members.at[n]!
  const fault = acceptHostRecord(state, members.faults[n] as Fault, -1, n)
  return fault === REPEATED ? PASS : fault
}

/**
 * What there is `against` `host.element`, a record of a batch that the table does not know as
 * durable; or OPERATION_FORGOTTEN.
 */
export function collectedFault(
  state: RecordContext,
  region: Region,
  wait: number,
  against: Fault,
): Fault {
  const { party } = state.hostWork
  const ask = askOf(state, region, wait, false, 1)
  return repetitionFault(state, region, party.client, party, ask, against)
}

/** What `host.element` says of its record: `hostWork.ask`. */
export function askOf(
  state: HostState & QueueState,
  region: Region,
  wait: number,
  plain: boolean,
  copies: number,
): Ask {
  const { ask } = state.hostWork
  const { element } = state.host
  ask.region = region
  ask.slot = element.addressHigh
  ask.bytesAt = 0
  ask.length = element.length / copies
  ask.wait = wait
  ask.guard = plain ? 0 : element.immediate
  ask.carried = copies
  ask.repetition = (element.flags & el.REPETITION) !== 0
  ask.operationHigh = plain ? 0 : element.operationHigh
  ask.operationLow = plain ? 0 : element.operationLow
  return ask
}

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

/** The record, `member` of a batch or -1, joins the group; REPEATED, or why it is refused. */
function acceptHostRecord(
  state: RecordContext,
  storage: Fault,
  buffer: number,
  member: number,
): Fault {
  const { hostWork } = state
  const { party, ask, dataAt, judged } = hostWork
  ask.batchIndex = state.host.element.batchIndex
  const batch = judged === null ? null : judged.batch
  const fault = admit(state, party, ask, dataAt, storage, batch, member)
  if (fault === PASS) noteRecord(state, hostWork, state.commit.count - 1, buffer)
  if (fault === REPEATED) repeatElement(state, storage)
  return fault
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

/** When the completion of the record that is item `i` is due: not before those before it. */
function recordLevelOf(state: CommitState & HostState & QueueState, i: number): number {
  const { commit, host, hostWork } = state
  const { wait } = hostWork.ask
  for (let j = i - 1; j >= 0; j--) {
    const other = hostWork.records[j]!
    if (commit.items[j]!.owner !== HOST_OWNER || other.queue !== host.element.queue) continue
    return other.level > wait ? other.level : wait
  }
  return wait
}

/** The operation was durable before: its element is complete. */
function repeatElement(state: GroupContext, storage: Fault): void {
  const { host, hostWork } = state
  const { party, ask } = hostWork
  // It completes behind the records of its queue that are on their way.
  if (hostWork.recordCount > 0) commitNow(state)
  const forged = storage === PASS && isForged(state, party, ask, hostWork.dataAt)
  count(state, forged ? DUPLICATE_FORGED : DUPLICATE)
  const region = ask.region!
  describeEnd(state, el.WC_SUCCESS)
  const { completion } = host
  completion.flags = el.DURABLE
  completion.copies = Math.min(ask.wait, region.copies)
  completion.mechanism = region.mechanism
  completion.operationHigh = ask.operationHigh
  completion.operationLow = ask.operationLow
  finishElement(state)
}
