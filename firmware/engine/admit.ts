// hot path
/**
 * What a record has to pass before it joins the group, whoever asks for it (source 1; D-6, D-7,
 * D-8):
 *
 *   is its operation a new one? One that is durable is not executed again ▸ the condition "in
 *   order" ▸ health ▸ carried copies ▸ what a repetition may be told ▸ the group makes way ▸ the
 *   condition "expect" ▸ a message is delivered ▸ it joins
 *
 * Invariants:
 * - Nothing of a record is stored before all of it was judged; a record that is refused has changed
 *   nothing.
 * - Whatever was run on the way may have closed the part, unsettled the region, refused a record
 *   before it in its batch, or ended who asks: that is asked again behind it.
 * - The fields of an item that say whose it is, and what is asked for, are filled here alone.
 */

import { type Batch, isChainBroken, noteJoined } from '../batch/batch.ts'
import { compare, resultOf, run } from '../board/command-list.ts'
import {
  CONDITION,
  COPIES_DIFFER,
  type Fault,
  PASS,
  QP_ERROR_STATE,
  READ_ONLY,
} from '../board/fault.ts'
import { EQUAL } from '../board/hal.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext, GroupContext, RecordContext } from '../burst/context.ts'
import { type GroupItem, groupAdd, groupHolds, lanesOf, sealItem } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { enterOperation } from '../commit/operations.ts'
import {
  KIND_RECORDS,
  MESSAGES,
  PLACEMENT_LOCAL,
  PLACEMENT_THROUGH,
  type Region,
} from '../medium/region.ts'
import { SLOT_HEADER_BYTES } from '../medium/slot.ts'
import type { Ask } from '../transport/message.ts'
import { type Party, STATE_OPEN } from '../transport/queue-pair.ts'
import { CONDITION_EXPECT, CONDITION_IN_ORDER } from '../wire/persist.ts'
import { expectFault } from './batch-expect.ts'
import { isInOrder } from './batch-order.ts'
import { deliverMember } from './deliver.ts'
import { commitNow } from './group.ts'
import { clientOf, collectedClientOf, repetitionFault, wasDurable } from './operation.ts'
import { healthFault } from './storage.ts'

/** Others make the record durable: it may be handed on. */
export const HANDED = -1 as Fault

/** Its operation was durable before, and is complete. */
export const REPEATED = -2 as Fault

/**
 * The record, its data at `dataAt`, joins the group: PASS. REPEATED if it is durable already,
 * HANDED if it could join, but lies elsewhere; QP_ERROR_STATE if who asks is no more; else why it
 * is refused. `against` is what was known against it; of `batch` it is the record `member`.
 */
export function admit(
  state: RecordContext,
  party: Party,
  ask: Ask,
  dataAt: number,
  against: Fault,
  batch: Batch | null,
  member: number,
): Fault {
  const { commit } = state
  const { operationHigh: high, operationLow: low } = ask
  // Nearly every record is a new operation of a client whose place is known: asked first.
  const isNew = !ask.repetition && enterOperation(commit.operations, party.client, party, high, low)
  if (!isNew && wasDurable(state, party, ask)) return REPEATED
  const region = ask.region!
  const handed = region.placement >= PLACEMENT_THROUGH
  let fault = against
  if (batch !== null && batch.condition === CONDITION_IN_ORDER) {
    if (!isInOrder(state, party, batch, ask.batchIndex)) fault = CONDITION
  }
  // The health may have changed since it was asked for, or by what was committed just now.
  const isOlder = !isNew || batch !== null || party.staging >= 0
  if (fault === PASS && isOlder) fault = healthFault(state, region)
  if (fault === PASS && ask.carried > 1) fault = copiesFault(state, ask, dataAt)
  if (!isNew) fault = repetitionFault(state, region, party.client, party, ask, fault)
  if (fault === PASS && !handed && (mustCommit(state, ask) || standsAlone(batch, region))) {
    fault = makeWay(state, region, batch)
  }
  if (party.state !== STATE_OPEN) return QP_ERROR_STATE
  if (fault !== PASS) return fault
  // What its slot holds is looked at where its turn comes.
  if (handed) return HANDED
  if (batch !== null && batch.condition === CONDITION_EXPECT) {
    fault = expectFault(state, batch, member)
    if (fault !== PASS) return fault
  }
  if (region === MESSAGES) {
    const undelivered = deliverMember(state, party, ask, dataAt)
    if (undelivered !== PASS) return undelivered
  }
  const item = commit.items[commit.count]!
  item.imageAt = dataAt - SLOT_HEADER_BYTES
  fillItem(item, party, ask)
  item.staging = batch === null ? party.staging : -1
  item.batchIndex = batch === null ? -1 : ask.batchIndex
  item.chained = batch !== null && noteJoined(batch, ask.batchIndex, state.answers.groups)
  if (isNew && commit.operations.retired[party.client] === 0) item.client = party.client
  else item.client = ask.batch ? collectedClientOf(state, party, ask) : clientOf(state, party, ask)
  commit.count += 1
  sealItem(commit, item)
  groupAdd(state.group, commit)
  return PASS
}

/** Commits the group, so that the record can join the next one. */
function makeWay(state: RecordContext, region: Region, batch: Batch | null): Fault {
  commitNow(state)
  // What was committed just now may have closed the part or the region, or been refused itself.
  if (batch !== null && isChainBroken(batch)) return CONDITION
  const fault = healthFault(state, region)
  return fault === PASS && lanesOf(state.commit, region) === 0 ? READ_ONLY : fault
}

/**
 * Must those plain bytes, or that message, begin a group of their batch? In order they have to
 * stand behind what came before them, and no recovery takes them back.
 */
function standsAlone(batch: Batch | null, region: Region): boolean {
  if (batch === null || region.kind === KIND_RECORDS || batch.pending === 0) return false
  return batch.condition === CONDITION_IN_ORDER
}

/** Must the group be committed before that record can join it? */
function mustCommit({ commit, group }: CommitState, { region, slot }: Ask): boolean {
  const ofHost = region!.placement !== PLACEMENT_LOCAL
  if (ofHost && commit.hostCount === commit.hostLanes) return true
  return commit.count === commit.usableLanes || groupHolds(group, commit, region!, slot)
}

/**
 * For a plain WRITE, before its PSN is taken: what the group acknowledges, as it is committed to
 * make way, must not speak of a record that has not joined it.
 */
export function clearWay(state: GroupContext, ask: Ask): void {
  if (mustCommit(state, ask)) commitNow(state)
}

/** Carried copies must be the same bytes (D-8): the board compares, before anything is stored. */
function copiesFault(state: BurstContext, ask: Ask, dataAt: number): Fault {
  const list = state.list
  // Alone in the list: what fails there is run around, and leaves no results.
  if (state.stores > 0) runBurst(state)
  const first = list.count
  for (let c = 1; c < ask.carried; c++) {
    compare(list, dataAt, dataAt + c * ask.length, ask.length)
  }
  run(list)
  for (let c = 1; c < ask.carried; c++) {
    if (resultOf(list, first + c - 1) !== EQUAL) return COPIES_DIFFER
  }
  // A fence that failed on the way has closed the part.
  return state.commit.closed
}

/** What is asked for, and by whom: an item of the group, or of a job. */
export function fillItem(item: GroupItem, party: Party, ask: Ask): void {
  item.region = ask.region!
  item.slot = ask.slot
  item.bytesAt = ask.bytesAt
  item.length = ask.length
  item.wait = ask.wait
  item.wantsAck = ask.wantsAck
  item.clientHigh = party.clientHigh
  item.clientLow = party.clientLow
  item.operationHigh = ask.operationHigh
  item.operationLow = ask.operationLow
  item.guard = ask.guard
  item.owner = party.index
  item.psn = ask.lastPsn
  item.segment = party.segment
  item.plain = ask.plain
}
