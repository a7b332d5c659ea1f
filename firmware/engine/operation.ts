// hot path
/**
 * Whose operation a record is, and whether it was durable before (D-6, X-3, G2-2).
 *
 * Invariant: an operation that the table knows as durable is acknowledged again, whatever
 * connection, packet or payload it comes with, and never executed again; a PSN has no part in it,
 * nor have the health of the part and the condition of a batch: what is durable is so already.
 * For a new operation, nearly every one, that is found out by two comparisons.
 */

import { compare, copy, resultOf, runAll } from '../board/command-list.ts'
import {
  COPIES_DIFFER,
  type Fault,
  FIXED_LENGTH,
  IN_DOUBT,
  LEVEL,
  OPERATION_FORGOTTEN,
  PASS,
  RECORD_LENGTH,
  SLOT,
} from '../board/fault.ts'
import { DIFFERENT } from '../board/hal.ts'
import { EXAMINE_AT } from '../board/memory-map.ts'
import { runBurst } from '../burst/burst.ts'
import type { BurstContext, RecordContext, ThroughState } from '../burst/context.ts'
import { isOnItsWay, isWritten, type Job } from '../burst/through-job.ts'
import { isLeftOpen } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import {
  beginOperation,
  type ClientId,
  findClient,
  isDurable,
  isForgotten,
  NO_CLIENT,
  noteNewOperation,
  takeClient,
} from '../commit/operations.ts'
import { KIND_BYTES, PLACEMENT_RELAY, type Region, slotAddress } from '../medium/region.ts'
import { blankSlotHeader, readSlotHeader, SLOT_HEADER_BYTES } from '../medium/slot.ts'
import type { Ask } from '../transport/message.ts'
import type { Party } from '../transport/queue-pair.ts'
import { commitNow } from './group.ts'

/**
 * Was the record that is asked for durable before? Else its operation is noted. While a job is
 * writing its slot nothing is said of it: a job of its own will find it durable, in as many copies
 * as it asks for.
 */
export function wasDurable(state: RecordContext, party: Party, ask: Ask): boolean {
  const { operations } = state.commit
  const { operationHigh, operationLow } = ask
  if ((operationHigh | operationLow) === 0) return false
  const { clientHigh, clientLow } = party
  party.client = findClient(operations, party.client, clientHigh, clientLow)
  if (party.client === NO_CLIENT) return false
  // It may be in the group, on its way.
  if (groupHoldsOperation(state, party.client, operationHigh, operationLow)) commitNow(state)
  party.client = takeClient(operations, party.client, clientHigh, clientLow)
  const writing = isWritten(state.through.jobs, ask.region!, ask.slot)
  if (!writing && isDurable(operations, party.client, operationHigh, operationLow)) return true
  beginOperation(operations, party.client, operationHigh, operationLow)
  return false
}

/** Is the operation in the group, on its way? */
export function groupHoldsOperation(
  state: CommitState,
  client: number,
  high: number,
  low: number,
): boolean {
  const { commit } = state
  for (let i = 0; i < commit.count; i++) {
    const item = commit.items[i]!
    if (item.client !== client || item.operationLow !== low) continue
    if (item.operationHigh === high) return true
  }
  return false
}

const foundHeader = blankSlotHeader()

/** Does the slot, which there is, hold that operation, and other data than is brought? */
export function isForged(state: BurstContext, whose: ClientId, ask: Ask, dataAt: number): boolean {
  const region: Region = ask.region!
  // Bytes do not say whose they are.
  if (region.kind === KIND_BYTES) return false
  const { list } = state
  // What was received lies in packet memory only when the list has been run.
  runBurst(state)
  const from = slotAddress(region, 0, ask.slot)
  copy(list, from, EXAMINE_AT, SLOT_HEADER_BYTES)
  compare(list, from + SLOT_HEADER_BYTES, dataAt, ask.length)
  runAll(list)
  if (resultOf(list, 0) !== 0) return false
  const differs = resultOf(list, 1) === DIFFERENT
  readSlotHeader(foundHeader, state.words, EXAMINE_AT)
  if (
    foundHeader.clientLow !== whose.clientLow >>> 0 ||
    foundHeader.clientHigh !== whose.clientHigh >>> 0
  ) {
    return false
  }
  const { operationHigh, operationLow } = ask
  if (foundHeader.operationLow !== operationLow || foundHeader.operationHigh !== operationHigh)
    return false
  return differs || foundHeader.length !== ask.length
}

/** Is it the same whenever the record comes? What is refused for it was never executed. */
function isOfRequest(fault: Fault): boolean {
  const shape = fault === SLOT || fault === RECORD_LENGTH || fault === FIXED_LENGTH
  return shape || fault === LEVEL || fault === COPIES_DIFFER
}

/**
 * May that operation be durable now, or later, though it cannot be acknowledged just now? Nobody is
 * sure of it; or it is durable, and another write of its slot is under way; or a job, except for
 * `except`, has it.
 */
export function isOpenOperation(
  { commit, through }: CommitState & ThroughState,
  whose: ClientId,
  high: number,
  low: number,
  except: Job | null = null,
): boolean {
  const { operations } = commit
  const client = findClient(operations, NO_CLIENT, whose.clientHigh, whose.clientLow)
  if (isDurable(operations, client, high, low)) return true
  return isLeftOpen(commit, whose, high, low) || isOnItsWay(through.jobs, whose, high, low, except)
}

/**
 * OPERATION_FORGOTTEN for a repetition that may have been executed before, IN_DOUBT for one that
 * may be durable later; else what there is `against` it, or PASS. The table does not know it as
 * durable, and `client` is where it has the client. Health and conditions are those of now: who
 * hears of them takes the record for one that is not durable, and never will be. So they say
 * nothing of a record that may be durable since long, nor of one that the next start may finish.
 */
export function repetitionFault(
  state: CommitState & ThroughState,
  region: Region,
  client: number,
  whose: ClientId,
  ask: Ask,
  against: Fault,
): Fault {
  // What goes on to another part, that one judges.
  if (!ask.repetition || region.placement === PLACEMENT_RELAY) return against
  if (isOfRequest(against)) return against
  const { operationHigh, operationLow } = ask
  const { operations } = state.commit
  if (isForgotten(operations, client, whose, operationHigh, operationLow)) {
    return OPERATION_FORGOTTEN
  }
  const open = against !== PASS && isOpenOperation(state, whose, operationHigh, operationLow)
  return open ? IN_DOUBT : against
}

/** Is that operation of who asks known to be durable? */
export function isKnown(state: CommitState, party: Party, high: number, low: number): boolean {
  const { operations } = state.commit
  party.client = findClient(operations, party.client, party.clientHigh, party.clientLow)
  return isDurable(operations, party.client, high, low)
}

/** The place in the table of the client of a record that has just come, and is taken. */
export function clientOf(state: CommitState, party: Party, ask: Ask): number {
  const { operationHigh, operationLow } = ask
  const client = collectedClientOf(state, party, ask)
  noteNewOperation(state.commit.operations, client, operationHigh, operationLow)
  beginOperation(state.commit.operations, client, operationHigh, operationLow)
  return client
}

/** Likewise of one that may have come long ago. */
export function collectedClientOf(state: CommitState, party: Party, ask: Ask): number {
  const { operationHigh, operationLow } = ask
  if ((operationHigh | operationLow) === 0) return NO_CLIENT
  const { operations } = state.commit
  // `wasDurable` has just noted it, unless it is the first of its client, or the place has gone.
  if (party.client >= 0 && operations.retired[party.client] === 0) return party.client
  party.client = takeClient(operations, party.client, party.clientHigh, party.clientLow)
  beginOperation(operations, party.client, operationHigh, operationLow)
  return party.client
}
