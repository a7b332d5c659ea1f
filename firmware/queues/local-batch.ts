// hot path
/**
 * Batches of the host for its own part: records of a local queue that are accepted by a condition
 * (source 4; D-10), as those that come over the wire are (batch.ts).
 *
 * Invariants:
 * - Nothing of a burst is stored before its last record has come, unless another element of its
 *   queue has to follow it: then what is collected goes first, and the batch goes on.
 * - What contradicts itself, finds no room, comes too late or goes to a region that takes no
 *   batches is refused whole, before the first store of it, and what it held is given back.
 * - There is no wire, and so no one status: each record has a completion of its own, with its own
 *   reason, in the order of its queue, behind the fence that makes it durable. Its room there was
 *   reserved when the element was taken. Of one that may be durable, or become so, none says less.
 * - A burst that fits into a group is one: its fences are shared (P4-13).
 */

import {
  BATCH_REFUSED,
  beginBatch,
  enterBytes,
  enterFault,
  enterSlot,
  noteRefused,
  operationHighOf,
  operationLowOf,
  refuseWhole,
  regionOf,
  vaHighOf,
  vaLowOf,
} from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { addMember, takeRoom } from '../batch/members.ts'
import { count } from '../board/context.ts'
import {
  BATCH_ABORTED,
  BATCH_FIELDS,
  BATCH_REGION,
  BATCH_ROOM,
  BATCH_TIME,
  BOUNDS,
  FAULTS,
  type Fault,
  PASS,
  PERSIST_HEADER,
} from '../board/fault.ts'
import { BATCH_ELEMENTS_MAX, BATCH_TIMEOUT_US, LOCAL_BATCHES } from '../board/limits.ts'
import { closeCollected, describeCollected, openOf } from '../burst/collected-batches.ts'
import type {
  AcceptContext,
  GroupContext,
  QueueState,
  RecordContext,
  ThroughState,
} from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import { findClient, isDurable, NO_CLIENT } from '../commit/operations.ts'
import { lookAtSlots } from '../engine/batch-expect.ts'
import { bringBytes } from '../engine/buffers.ts'
import { refuseElement } from '../engine/complete.ts'
import { commitNow, makeGroupRoom } from '../engine/group.ts'
import { groupHoldsOperation, repetitionFault } from '../engine/operation.ts'
import { storageFault } from '../engine/storage.ts'
import { complete } from '../host/completion.ts'
import * as el from '../host/element.ts'
import type { Element } from '../host/host.ts'
import type { HostState } from '../host/host-state.ts'
import { EXECUTED, type LocalBatch } from '../host/work.ts'
import { byteOffset, KIND_BYTES, PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { CONDITION_EXPECT, CONDITION_IN_ORDER } from '../wire/persist.ts'
import { askOf, collectedFault, executeCollected } from './record.ts'

/** Executes `host.element`, a record of a batch into `region`: EXECUTED, or a fault. */
export function executeMember(state: AcceptContext, region: Region): number {
  const { host, hostWork } = state
  const { element } = host
  const place = memberPlaceFault(element, region)
  if (place !== PASS) return place
  const { last } = element
  let local = openOf(state, element.queue)
  let why: Fault = PASS
  if (local !== null && local.batch.id !== element.batchId) {
    // Its sender has lost its way: neither of the two is taken.
    giveUpBatch(state, local, BATCH_ABORTED)
    closeCollected(state, local)
    local = null
    why = BATCH_FIELDS
  }
  if (local === null) local = openLocalBatch(state, region)
  // What stands before it in its queue is told of first.
  if (hostWork.recordCount > 0) commitNow(state)
  if (local === null) return refuseMember(state, region, BATCH_ROOM)
  const { batch } = local
  batch.lastUs = host.nowUs
  if (batch.phase !== BATCH_REFUSED) {
    const fault = why === PASS ? enterLocalFault(state, local, region) : why
    if (fault !== PASS) giveUpBatch(state, local, fault)
  }
  if (batch.phase === BATCH_REFUSED) {
    refuseMember(state, region, batch.fault)
  } else {
    const fault = holdRecord(state, local, region)
    if (fault !== PASS) return fault
    if (last) storeBatch(state, local)
  }
  if (last) closeCollected(state, local)
  return EXECUTED
}

/** Is it plain bytes, and no record? */
function isAddressed({ flags }: Element): boolean {
  return (flags & el.ADDRESSED) !== 0
}

/** Does it name a slot, or bytes inside of a region of bytes? */
function memberPlaceFault(element: Element, region: Region): Fault {
  const { addressHigh, addressLow, length } = element
  if (!isAddressed(element)) return addressLow === 0 ? PASS : BOUNDS
  if (region.kind !== KIND_BYTES) return PERSIST_HEADER
  return byteOffset(region, addressHigh, addressLow, length) < 0 ? BOUNDS : PASS
}

/** Refuses `host.element`, as its batch is. */
function refuseMember(state: RecordContext, region: Region, against: Fault): number {
  const { element } = state.host
  const known = isLocalKnown(state, element.operationHigh, element.operationLow)
  return refuseElement(
    state,
    known ? against : collectedFault(state, region, element.wait, against),
  )
}

/** Begins a burst with `host.element`; null if there are too many. */
function openLocalBatch(state: AcceptContext, region: Region): LocalBatch | null {
  const { hostWork, batches } = state
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    const local = hostWork.batches[i]!
    if (local.queue >= 0) continue
    const { party } = state.hostWork
    local.queue = state.host.element.queue
    local.clientHigh = party.clientHigh
    local.clientLow = party.clientLow
    hostWork.openBatches += 1
    beginBatch(batches, local.batch, state.host.element, region)
    return local
  }
  return null
}

/** Why all of the batch is refused with `host.element`. */
function enterLocalFault(state: BatchState & HostState, local: LocalBatch, region: Region): Fault {
  const { batches } = state
  const { batch } = local
  const { element } = state.host
  const { addressHigh, addressLow, length } = element
  const fault = enterFault(batches, batch, element, region, BATCH_ELEMENTS_MAX)
  if (fault !== PASS) return fault
  const entered = isAddressed(element)
    ? enterBytes(batch, region, byteOffset(region, addressHigh, addressLow, length), length)
    : enterSlot(batch, region, addressHigh)
  if (entered !== PASS) return entered
  // As for a single record: the host writes there itself, and so it does for another DPU.
  if (region.placement >= PLACEMENT_THROUGH) return BATCH_REGION
  const at = takeRoom(batches, batch.members!, length)
  if (at === 0) return BATCH_ROOM
  batch.members!.at[batch.received] = at
  return PASS
}

/** The record waits for the last of its burst. DMA if the host does not give its bytes. */
function holdRecord(state: RecordContext, local: LocalBatch, region: Region): Fault {
  const { element } = state.host
  const { batch } = local
  const n = batch.received
  const members = batch.members!
  const at = members.at[n]!
  const storage = storageFault(state, askOf(state, region, element.wait, false, 1), region)
  const brought = storage === PASS ? bringBytes(state, at) : PASS
  if (brought !== PASS) return brought
  const { batchIndex, length, wait, immediate: guard } = element
  addMember(members, n, batchIndex, length, wait, guard, storage)
  members.at[n] = at
  members.expectHigh[n] = element.expectHigh
  members.expectLow[n] = element.expectLow
  const collected = local.collected[n]!
  collected.unit = element.unit
  collected.units = element.units
  collected.flags = element.flags
  collected.place = state.hostWork.place
  batch.received = n + 1
  batch.lastIndex = element.batchIndex
  return PASS
}

// ---- its judgement -----------------------------------------------------------------------------

/** Another element of the queue comes: what is collected of its batch goes before it. */
export function storeCollectedLocal(state: RecordContext): void {
  const { host, hostWork } = state
  const { element } = host
  if (hostWork.openBatches === 0) return
  if (element.opcode === el.WQE_WRITE_PERSIST && (element.flags & el.BATCH) !== 0) return
  const local = openOf(state, element.queue)
  if (local === null || local.batch.judged === local.batch.received) return
  const { place } = hostWork
  Object.assign(hostWork.aside, element)
  storeBatch(state, local)
  Object.assign(element, hostWork.aside)
  hostWork.place = place
}

/** What is collected is committed, as far as the condition lets it. */
function storeBatch(state: RecordContext, local: LocalBatch): void {
  const { host, hostWork } = state
  const { batch } = local
  makeGroupRoom(state, batch)
  let looked = batch.condition === CONDITION_EXPECT ? batch.judged : batch.received
  while (batch.judged < batch.received) {
    const n = batch.judged
    if (n === looked) looked = lookAtSlots(state, batch, n)
    batch.judged = n + 1
    const index = takeUp(state, local, n)
    hostWork.judged = local
    const fault = executeCollected(state, batch, n)
    hostWork.judged = null
    if (fault === PASS) {
      batch.next = index + 1
      // In order nothing stands in a group behind plain bytes.
      const isLast = isAddressed(host.element) && batch.condition === CONDITION_IN_ORDER
      if (isLast && hostWork.recordCount > 0) commitNow(state)
      continue
    }
    noteRefused(batch, index, fault)
    if (hostWork.recordCount > 0) commitNow(state)
    refuseElement(state, fault)
  }
  // What it holds is given back.
  if (hostWork.recordCount > 0) commitNow(state)
}

/** Record `n` is `host.element` again; returns its index. */
function takeUp(state: HostState & QueueState, local: LocalBatch, n: number): number {
  const { element } = state.host
  const { batch } = local
  const members = batch.members!
  const collected = local.collected[n]!
  const index = members.indexes[n]!
  element.queue = local.queue
  element.opcode = el.WQE_WRITE_PERSIST
  element.unit = collected.unit
  element.units = collected.units
  element.flags = collected.flags
  element.length = members.lengths[n]!
  element.immediate = members.guards[n]!
  element.addressHigh = vaHighOf(batch, n)
  element.addressLow = vaLowOf(batch, n)
  element.operationHigh = operationHighOf(batch, index)
  element.operationLow = operationLowOf(batch, index)
  element.batchIndex = index
  state.hostWork.place = collected.place
  return index
}

/** Is that operation of the queue's client durable? */
function isLocalKnown(state: GroupContext, high: number, low: number): boolean {
  const { operations } = state.commit
  const { party } = state.hostWork
  const client = findClient(operations, party.client, party.clientHigh, party.clientLow)
  party.client = client
  if (client === NO_CLIENT) return false
  // It may be in the group, on its way.
  if (groupHoldsOperation(state, client, high, low)) commitNow(state)
  return isDurable(operations, client, high, low)
}

// ---- its end -----------------------------------------------------------------------------------

/** What is collected is refused, and so is what is still to come of the burst. */
function giveUpBatch(state: RecordContext, local: LocalBatch, fault: Fault): void {
  const { hostWork, host } = state
  const { batch } = local
  if (hostWork.recordCount > 0) commitNow(state)
  for (let n = batch.judged; n < batch.received; n++) {
    const told = givenUpFault(state, local, n, fault)
    count(state, told)
    describeCollected(state, local, n)
    host.completion.status = el.WC_GENERAL_ERR
    host.completion.refusal = FAULTS[told]!.code
    complete(host, state.list, local.collected[n]!.place)
  }
  refuseWhole(state.batches, batch, batch.lastIndex, fault)
}

/** What is said of record `n`; its queue's context may be elsewhere by now. */
function givenUpFault(
  state: CommitState & ThroughState & QueueState,
  local: LocalBatch,
  n: number,
  against: Fault,
): Fault {
  const { batch } = local
  const { ask } = state.hostWork
  const { operations } = state.commit
  const index = batch.members!.indexes[n]!
  const high = operationHighOf(batch, index)
  const low = operationLowOf(batch, index)
  const client = findClient(operations, NO_CLIENT, local.clientHigh, local.clientLow)
  if (client !== NO_CLIENT && isDurable(operations, client, high, low)) return against
  ask.repetition = (local.collected[n]!.flags & el.REPETITION) !== 0
  ask.operationHigh = high
  ask.operationLow = low
  return repetitionFault(state, regionOf(batch, n), client, local, ask, against)
}

/** An element ends the queue: the records of a batch that is open end before it. */
export function abortCollected(state: RecordContext, queue: number): void {
  const local = openOf(state, queue)
  if (local === null) return
  if (local.batch.phase !== BATCH_REFUSED) giveUpBatch(state, local, BATCH_ABORTED)
  closeCollected(state, local)
}

/** Gives up what nothing more came of. */
export function serveCollected(state: RecordContext): void {
  const { hostWork, host } = state
  for (let i = 0; i < LOCAL_BATCHES; i++) {
    const local = hostWork.batches[i]!
    if (local.queue < 0 || local.batch.lastUs + BATCH_TIMEOUT_US > host.nowUs) continue
    if (local.batch.phase !== BATCH_REFUSED) giveUpBatch(state, local, BATCH_TIME)
    closeCollected(state, local)
  }
}
