// hot path
/**
 * Batches of records, from their packets to the group (source 4; D-10, P4-3 to P4-14).
 *
 * Invariants:
 * - Nothing of a burst is stored before its last record has come, unless another request of its
 *   queue pair has to follow it: then what is collected goes first, and the batch goes on.
 * - What contradicts itself is refused whole (BATCH_FIELDS), as is what finds no room, comes too
 *   late, or names a region that takes no batches: nothing more of it is stored, one status says
 *   so, and what it held is given back. What is still to come of the burst is passed over.
 * - Plain bytes (S1-M9) are stored when their group is committed, and no later than here: before
 *   anything that comes behind them. In order they are alone of their batch in that group, so what
 *   came before is durable, and what comes behind has touched nothing, when the first is stored.
 * - So it is with messages (S1-M9), which the host has just before their group is committed: in
 *   order it is told of one exactly when all before it is accepted, and durable in every copy.
 * - A record that is known to be durable is accepted and not stored again, whatever the condition.
 *   In order, every record before it is durable or stands in the same group in front of it.
 * - To be received is to be collected: the transport acknowledges a record as it comes, and its
 *   durability is said by the one status (batch-status.ts).
 */

import {
  BATCH_HANDED,
  BATCH_JUDGED,
  BATCH_OPEN,
  BATCH_REFUSED,
  type Batch,
  beginBatch,
  enterBytes,
  enterFault,
  enterMessage,
  enterSlot,
  hasCollected,
  isBatchOpen,
  keeperOf,
  noteMemberDurable,
  noteRefused,
  operationHighOf,
  operationLowOf,
  refuseWhole,
  regionOf,
} from '../batch/batch.ts'
import type { BatchState } from '../batch/context.ts'
import { addMember, type Members, takeRoom } from '../batch/members.ts'
import { copy } from '../board/command-list.ts'
import { count } from '../board/context.ts'
import {
  BATCH_ABORTED,
  BATCH_FIELDS,
  BATCH_REGION,
  BATCH_ROOM,
  BATCH_TIME,
  BOUNDS,
  DUPLICATE,
  type Fault,
  IN_DOUBT,
  NOT_READY,
  PASS,
  PERSIST_HEADER,
  QP_ERROR_STATE,
} from '../board/fault.ts'
import {
  BATCH_RECORDS_MAX,
  BATCH_TIMEOUT_US,
  QUEUE_PAIRS,
  STAGING_TIMEOUT_US,
} from '../board/limits.ts'
import type {
  AcceptContext,
  GroupContext,
  RecordContext,
  RequestState,
  ThroughState,
} from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import { noteNewOperation, takeClient } from '../commit/operations.ts'
import { admit, REPEATED } from '../engine/admit.ts'
import { lookAtSlots } from '../engine/batch-expect.ts'
import { knowsRecord } from '../engine/batch-order.ts'
import { concludeBatch } from '../engine/batch-status.ts'
import { commitNow, makeGroupRoom } from '../engine/group.ts'
import { accessOf, locateBytes } from '../engine/locate.ts'
import { repetitionFault } from '../engine/operation.ts'
import { storageFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  KIND_BYTES,
  KIND_RECORDS,
  MESSAGES,
  PLACEMENT_RELAY,
  type Region,
  TAKES_GUARDS,
  toldFlags,
  WRITE_PERSIST,
} from '../medium/region.ts'
import { linkFault } from '../placement/relay.ts'
import { isSoonMade } from '../placement/through.ts'
import { type Ask, blankAsk } from '../transport/message.ts'
import { packetsOf, psnAdd } from '../transport/psn.ts'
import {
  MESSAGE_NONE,
  MESSAGE_PERSIST,
  type QueuePair,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { u32 } from '../wire/bytes.ts'
import type { WireState } from '../wire/context.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { CONDITION_EXPECT, CONDITION_IN_ORDER, PWETH_BYTES } from '../wire/persist.ts'
import { isInBitmap, setInBitmap } from '../wire/persist-ack.ts'
import { concludeHanded, fillMember, handCollected, isHandedOn } from './handed.ts'
import { isHostPair, readyReceive } from './host-receive.ts'

/** The record that is being judged. */
const record: Ask = { ...blankAsk(), batch: true }

// ---- its packets -------------------------------------------------------------------------------

/** The first packet of a record of a batch. A fault that is returned has changed nothing. */
export function beginMember(
  state: AcceptContext & RequestState,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { reth, pweth } = state
  if (pweth.condition > CONDITION_EXPECT) return PERSIST_HEADER
  const fault = pweth.message ? aimMessage(state, message) : aimMember(state, qp, message)
  if (fault !== PASS) return fault
  const batch = state.batches.of[qp.index]!
  let why = PASS
  if (qp.batching && batch.id !== pweth.batchId) {
    // Its sender has lost its way: neither of the two is taken.
    refuseBatch(state, qp, batch, batch.lastIndex, BATCH_ABORTED)
    closeBatch(state, qp, batch)
    why = BATCH_FIELDS
  }
  // The one before has still to be told of, or is still sent: this one comes again.
  if (batch.phase === BATCH_HANDED || (batch.lent > 0 && !qp.batching)) return NOT_READY
  if (!pweth.message && isSoonMade(state, qp, message.region!)) return NOT_READY
  if (batch.pending > 0 && !qp.batching) commitNow(state)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  message.placed = false
  message.plain = false
  message.length = reth.length
  message.wait = pweth.wait
  message.carried = pweth.carried ? pweth.furtherCopies + 1 : 1
  message.lastOfBatch = pweth.lastOfBatch
  const total = reth.length * message.carried
  message.lastPsn = psnAdd(packet.psn, packetsOf(total, qp.pathMtu) - 1)
  enterMember(state, qp, batch, message, why)
  if (batch.phase === BATCH_OPEN && batch.condition === CONDITION_EXPECT) {
    const at = packet.bthAt + row.pwethAt + PWETH_BYTES
    batch.members!.expectHigh[batch.received] = u32(state.bytes, at)
    batch.members!.expectLow[batch.received] = u32(state.bytes, at + 4)
  }
  return PASS
}

/** It goes to the host, and so to no place of any region. */
function aimMessage({ reth, pweth }: WireState, message: Ask): Fault {
  if (pweth.slotAddressed || pweth.carried || pweth.guarded) return PERSIST_HEADER
  if ((reth.vaHigh | reth.vaLow | reth.rkey) !== 0) return PERSIST_HEADER
  message.region = MESSAGES
  message.slot = pweth.batchIndex
  message.bytesAt = 0
  return PASS
}

/** It goes to a slot, or to bytes, of the region that its key names. */
function aimMember(state: AcceptContext & RequestState, qp: QueuePair, message: Ask): Fault {
  const { reth, pweth } = state
  const fault = accessOf(state, qp, reth.rkey, WRITE_PERSIST)
  if (fault !== PASS) return fault
  const region = state.located.region!
  message.region = region
  message.slot = reth.vaHigh
  const form = memberFormFault(state, region, message)
  if (form !== PASS || region.placement !== PLACEMENT_RELAY) return form
  const link = linkFault(state, qp, region)
  if (link !== PASS) return link
  const isGuard = pweth.guarded && (toldFlags(region) & TAKES_GUARDS) === 0
  return isGuard ? PERSIST_HEADER : PASS
}

/** Does it name a slot, or bytes inside of a region of bytes? */
function memberFormFault(state: WireState & MemoryState, region: Region, message: Ask): Fault {
  const { reth, pweth, located } = state
  message.bytesAt = 0
  if (pweth.carried) return PASS
  if (pweth.slotAddressed) return reth.vaLow === 0 ? PASS : BOUNDS
  // No guard is kept with bytes.
  if (region.kind !== KIND_BYTES || pweth.guarded) return PERSIST_HEADER
  const fault = locateBytes(state, region, reth.vaHigh, reth.vaLow, reth.length)
  message.bytesAt = located.from + located.offset
  return fault
}

/** The record becomes the next member of its batch, or all of the batch is refused: `why`. */
function enterMember(
  state: AcceptContext,
  qp: QueuePair,
  batch: Batch,
  message: Ask,
  why: Fault,
): void {
  const { batches, pweth } = state
  const region = message.region!
  const { batchIndex } = pweth
  if (!qp.batching) {
    beginBatch(batches, batch, pweth, region)
    qp.batching = true
    if (!pweth.repetition) noteBegin(state, qp)
  }
  batch.lastUs = state.connections.nowUs
  if (pweth.repetition) batch.repetition = true
  if (batch.phase === BATCH_REFUSED) return
  const formed = !pweth.carried && pweth.wantsAck && pweth.oneStatus
  let fault = why === PASS && !formed ? BATCH_FIELDS : why
  if (fault === PASS) fault = enterFault(batches, batch, pweth, region, BATCH_RECORDS_MAX)
  if (fault === PASS) fault = enterPlace(state, qp, batch, message)
  if (fault !== PASS) {
    refuseBatch(state, qp, batch, batchIndex, fault)
    return
  }
  batch.lastIndex = batchIndex
  const storage = storageFault(state, message, region)
  const { length, wait, guard } = message
  addMember(batch.members!, batch.received, batchIndex, length, wait, guard, storage)
}

/** The next member goes where `message` says; why all of the batch is refused by that, or PASS. */
function enterPlace(state: AcceptContext, qp: QueuePair, batch: Batch, message: Ask): Fault {
  const { slot, bytesAt, length } = message
  const region = message.region!
  if (region === MESSAGES) {
    // Without a host behind it nobody receives.
    if (!isHostPair(state, qp)) return BATCH_REGION
    enterMessage(batch, slot)
    return PASS
  }
  if (bytesAt === 0) return enterSlot(batch, region, slot)
  return enterBytes(batch, region, bytesAt - region.base, length)
}

/** Its operations are new ones as it comes: when it is judged, they may be so no more. */
function noteBegin({ commit, pweth }: WireState & CommitState, qp: QueuePair): void {
  const { operations } = commit
  const { operationHigh, operationLow } = pweth
  if ((operationHigh | operationLow) === 0) return
  qp.client = takeClient(operations, qp.client, qp.clientHigh, qp.clientLow)
  noteNewOperation(operations, qp.client, operationHigh, operationLow)
}

/** The record has several packets: they are gathered where it is collected. */
export function openMember(state: RecordContext, qp: QueuePair, message: Ask): void {
  const batch = state.batches.of[qp.index]!
  qp.message = MESSAGE_PERSIST
  qp.messageLeft = message.length * message.carried
  qp.staging = -1
  qp.messageTo = 0
  if (batch.phase !== BATCH_OPEN) return
  const members = batch.members!
  const n = batch.received
  if (members.faults[n] !== PASS) return
  const at = takeRoom(state.batches, members, message.length)
  if (at === 0) refuseBatch(state, qp, batch, batch.lastIndex, BATCH_ROOM)
  members.at[n] = at
  qp.messageTo = at
}

/** The record is complete; if it has one packet only, its data is at `dataAt`. */
export function endMember(state: RecordContext, qp: QueuePair, message: Ask, dataAt: number): void {
  const { batches } = state
  const batch = batches.of[qp.index]!
  // No range of records that are acknowledged one by one spans it.
  qp.segment += 1
  batch.psn = message.lastPsn
  batch.lastUs = state.connections.nowUs
  if (batch.phase === BATCH_OPEN) {
    const members = batch.members!
    const n = batch.received
    if (members.faults[n] === PASS && members.at[n] === 0) {
      members.at[n] = dataAt
      members.inFrame[n] = 1
      batches.inFrames += 1
    }
    batch.received = n + 1
  }
  if (!message.lastOfBatch) return
  storeCollected(state, qp)
  if (qp.state === STATE_OPEN) closeBatch(state, qp, batch)
}

// ---- its end -----------------------------------------------------------------------------------

/** Nothing more comes of the burst, and all of it is judged. */
function closeBatch(state: RecordContext, qp: QueuePair, batch: Batch): void {
  state.batches.open -= 1
  qp.batching = false
  for (let index = 0; index < batch.count; index++) {
    if (isInBitmap(batch.bitmap, index)) continue
    if (knowsRecord(state, qp, batch, index)) setInBitmap(batch.bitmap, index)
  }
  batch.phase = batch.handing ? BATCH_HANDED : BATCH_JUDGED
  if (batch.handing) concludeHanded(state, qp, batch)
  else if (batch.pending === 0) concludeBatch(state, qp, batch, true)
}

/** Refuses what was not judged of the burst, and whatever of it is still to come, if any is. */
function refuseBatch(
  state: RecordContext,
  qp: QueuePair,
  batch: Batch,
  index: number,
  fault: Fault,
): void {
  const { phase } = batch
  if (phase === BATCH_REFUSED) return
  const told = wholeFault(state, qp, batch, index, fault)
  count(state, told)
  // What is gathered of it goes nowhere any more.
  if (qp.message === MESSAGE_PERSIST && state.messages[qp.index]!.batch) qp.messageTo = 0
  refuseWhole(state.batches, batch, index, told)
  if (phase === BATCH_HANDED) batch.phase = phase
}

/** What is said of a burst that is refused whole, from that record on: as of each one of it. */
function wholeFault(
  state: CommitState & ThroughState,
  qp: QueuePair,
  batch: Batch,
  index: number,
  against: Fault,
): Fault {
  record.repetition = batch.repetition
  let told = against
  const first = batch.judged < batch.received ? batch.members!.indexes[batch.judged]! : index
  for (let i = first; batch.repetition && i < batch.count; i++) {
    if (knowsRecord(state, qp, batch, i)) continue
    record.operationHigh = operationHighOf(batch, i)
    record.operationLow = operationLowOf(batch, i)
    const fault = repetitionFault(state, keeperOf(batch), qp.client, qp, record, against)
    // Of a doubt nobody is told less.
    if (fault !== against && told !== IN_DOUBT) told = fault
  }
  return told
}

/**
 * The burst of frames ends, in which members lie: what is collected in them is moved, as the next
 * one overwrites them.
 */
export function keepCollected(state: RecordContext): void {
  const { batches } = state
  batches.inFrames = 0
  for (let place = 0; place < QUEUE_PAIRS; place++) {
    const batch = batches.of[place] ?? null
    if (batch === null || batch.members === null) continue
    if (batch.phase === BATCH_OPEN || batch.phase === BATCH_HANDED) keepMembers(state, batch)
  }
}

function keepMembers(state: RecordContext, batch: Batch): void {
  const members = batch.members!
  for (let n = batch.judged; n < batch.received; n++) {
    if (members.inFrame[n] === 0) continue
    const length = members.lengths[n]!
    const to = takeRoom(state.batches, members, length)
    if (to === 0) {
      refuseBatch(state, state.queuePairs.places[batch.place]!, batch, batch.lastIndex, BATCH_ROOM)
      return
    }
    if (length > 0) copy(state.list, members.at[n]!, to, length)
    members.at[n] = to
    members.inFrame[n] = 0
  }
}

/** Gives up batches of which nothing more came. Returns the µs until it is wanted again, or 0. */
export function serveBatches(state: RecordContext, now: number): number {
  const { batches } = state
  let waitUs = 0
  for (let place = 0; place < QUEUE_PAIRS && batches.open > 0; place++) {
    const batch = batches.of[place] ?? null
    if (batch === null || !isBatchOpen(batch)) continue
    const qp = state.queuePairs.places[place]!
    let leftUs = batch.lastUs + BATCH_TIMEOUT_US - now
    if (qp.message !== MESSAGE_NONE) {
      // A message that stops half-way ends its queue pair, and the batch with it.
      leftUs = Math.max(1, leftUs, qp.heardUs + STAGING_TIMEOUT_US + 1 - now)
    }
    if (leftUs > 0) {
      if (waitUs === 0 || leftUs < waitUs) waitUs = leftUs
      continue
    }
    refuseBatch(state, qp, batch, batch.lastIndex, BATCH_TIME)
    closeBatch(state, qp, batch)
  }
  return waitUs
}

// ---- its judgement -----------------------------------------------------------------------------

/** Is a record of that slot collected, and not judged yet? */
export function holds(state: BatchState, qp: QueuePair, region: Region, slot: number): boolean {
  const batch = state.batches.of[qp.index]!
  return batch.phase === BATCH_OPEN && hasCollected(batch, region, slot)
}

/** What is collected goes into the group, or is handed on, as far as the condition lets it. */
export function storeCollected(state: RecordContext, qp: QueuePair): void {
  const batch = state.batches.of[qp.index]!
  if (batch.phase !== BATCH_OPEN || batch.judged === batch.received) return
  if (isHandedOn(batch)) {
    handCollected(state, qp, batch)
    return
  }
  const members = batch.members!
  makeGroupRoom(state, batch)
  let apart = false
  let looked = batch.condition === CONDITION_EXPECT ? batch.judged : batch.received
  while (batch.judged < batch.received) {
    const n = batch.judged
    // What was run just now may have ended the queue pair, and given back what it held.
    if (n === looked && qp.state === STATE_OPEN) looked = lookAtSlots(state, batch, n)
    if (qp.state === STATE_OPEN && regionOf(batch, n) === MESSAGES) readyReceive(state, qp)
    if (qp.state !== STATE_OPEN) return
    const index = members.indexes[n]!
    batch.judged = n + 1
    const fault = judgeMember(state, qp, batch, members, n)
    if (fault === PASS) {
      batch.next = index + 1
      if (record.region!.kind !== KIND_RECORDS) apart = endApart(state, batch)
      continue
    }
    count(state, fault)
    noteRefused(batch, index, fault)
  }
  // What its queue pair stores next must not be stored before them.
  if (apart && qp.state === STATE_OPEN) commitNow(state)
}

/**
 * Plain bytes, or a message, have joined the group: in order nothing stands in it behind them. Is
 * it to end with the burst?
 */
function endApart(state: GroupContext, batch: Batch): boolean {
  if (batch.condition !== CONDITION_IN_ORDER) return true
  commitNow(state)
  return false
}

/** Judges one record: it joins the group, or is known to be durable, or its fault is returned. */
function judgeMember(
  state: RecordContext,
  qp: QueuePair,
  batch: Batch,
  members: Members,
  n: number,
): Fault {
  const index = members.indexes[n]!
  fillMember(record, batch, n)
  const fault = admit(state, qp, record, members.at[n]!, members.faults[n] as Fault, batch, n)
  if (fault === QP_ERROR_STATE) return BATCH_ABORTED
  if (fault === PASS) notePending(state, batch)
  if (fault !== REPEATED) return fault
  count(state, DUPLICATE)
  noteMemberDurable(batch, index, Math.min(record.wait, record.region!.copies))
  return PASS
}

/** A record of the batch has joined the group. */
function notePending({ batches }: BatchState, batch: Batch): void {
  if (batch.pending === 0) {
    batches.joined[batches.joinedCount] = batch.place
    batches.joinedCount += 1
    batch.saidAt = 0
  }
  batch.pending += 1
}
