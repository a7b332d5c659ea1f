// hot path
/**
 * The condition "expect": a record is accepted only when its slot holds the sequence that it names
 * (D-10; P4-11).
 *
 * Invariants:
 * - What counts is what a reader would be served: a copy whose check code was verified just now,
 *   the first valid one in write order. A lost record holds no sequence.
 * - Plain bytes have no sequence. Who expects 0 of them expects nothing.
 * - What the group in composition writes there is committed first, and then is what the slot holds.
 * - Slots are looked at for a whole group at once, by two runs of the board; where a first copy is
 *   not what is served, that slot is looked at as for a reader.
 */

import { type Batch, regionOf } from '../batch/batch.ts'
import { LOOK_DIFFERS, LOOK_HOLDS, LOOK_UNKNOWN, type Members } from '../batch/members.ts'
import { checkCode, compare, copy, resultOf, runAll } from '../board/command-list.ts'
import type { BoardState } from '../board/context.ts'
import { CONDITION, type Fault, PASS, PLACEMENT_UNKNOWN } from '../board/fault.ts'
import { EQUAL } from '../board/hal.ts'
import { BURST_FRAMES, LINE_BYTES } from '../board/limits.ts'
import { EXPECT_AT } from '../board/memory-map.ts'
import { drain } from '../burst/burst.ts'
import type { GroupContext, RecordContext } from '../burst/context.ts'
import { firstShown } from '../burst/through-job.ts'
import { firstCopy, groupHolds, heldIntent } from '../commit/commit.ts'
import type { CommitState } from '../commit/context.ts'
import { KIND_RECORDS, type Region, slotAddress } from '../medium/region.ts'
import {
  blankSlotHeader,
  CHECK_CODE_BYTES,
  CHECKED_AT,
  headerFits,
  readSlotHeader,
  SLOT_HEADER_BYTES,
  type SlotHeader,
} from '../medium/slot.ts'
import { commitNow } from './group.ts'
import { LOST, settledFrom, UNDECIDED } from './settled.ts'

/** Behind the check code of the header that was read, where the computed one goes. */
const COMPUTED_AT: number = CHECK_CODE_BYTES

const expectedHeader = blankSlotHeader()

/** Looks at the slots of the members from `n` on, of one group. Returns the member behind them. */
export function lookAtSlots(state: GroupContext, batch: Batch, n: number): number {
  const members = batch.members!
  const end = Math.min(batch.received, n + BURST_FRAMES)
  for (let m = n; m < end; m++) {
    const region = regionOf(batch, m)
    if (!groupHolds(state.group, state.commit, region, members.slots[m]!)) continue
    commitNow(state)
    break
  }
  // What stands in the list is not to be mixed with what is read here.
  drain(state)
  // What was run just now may have ended who asks, and given back what the batch held.
  if (batch.members === null) return end
  readHeaders(state, batch, n, end)
  verifyHeaders(state, batch, n, end)
  return end
}

/** Reads first copies; a member whose sequence is known from that, unless its code is wrong. */
function readHeaders(
  state: BoardState & CommitState,
  batch: Batch,
  from: number,
  end: number,
): void {
  const { list } = state
  const members = batch.members!
  for (let n = from; n < end; n++) {
    members.looks[n] = LOOK_UNKNOWN
    if (members.faults[n] !== PASS) continue
    const region = regionOf(batch, n)
    if (region.kind !== KIND_RECORDS) continue
    const to = EXPECT_AT + (n - from) * LINE_BYTES
    copy(list, slotAddress(region, 0, members.slots[n]!), to, SLOT_HEADER_BYTES)
  }
  runAll(list)
  let command = 0
  for (let n = from; n < end; n++) {
    if (members.faults[n] !== PASS) continue
    const region = regionOf(batch, n)
    if (region.kind !== KIND_RECORDS) continue
    const readable = resultOf(list, command) === 0
    command += 1
    if (!readable || !isFirstServed(state, region, members.slots[n]!)) continue
    readSlotHeader(expectedHeader, state.words, EXPECT_AT + (n - from) * LINE_BYTES)
    if (!headerFits(expectedHeader, region, members.slots[n]!)) continue
    members.looks[n] = isHeaderExpected(members, n, expectedHeader) ? LOOK_HOLDS : LOOK_DIFFERS
  }
}

/** Is the first copy, if it is valid, the one that a reader is served? */
function isFirstServed(state: CommitState, region: Region, slot: number): boolean {
  const { commit } = state
  return firstCopy(commit, region, slot) === 0 && heldIntent(commit.held, region, slot) === null
}

function isHeaderExpected(
  members: Members,
  n: number,
  { sequenceHigh, sequenceLow }: SlotHeader,
): boolean {
  return sequenceHigh === members.expectHigh[n]! && sequenceLow === members.expectLow[n]!
}

/** What was read counts only where the check code agrees. */
function verifyHeaders(state: BoardState, batch: Batch, from: number, end: number): void {
  const { list, words } = state
  const members = batch.members!
  for (let n = from; n < end; n++) {
    if (members.looks[n] === LOOK_UNKNOWN) continue
    const line = EXPECT_AT + (n - from) * LINE_BYTES
    const region = regionOf(batch, n)
    readSlotHeader(expectedHeader, words, line)
    const at = slotAddress(region, 0, members.slots[n]!) + CHECKED_AT
    const length = SLOT_HEADER_BYTES - CHECKED_AT + expectedHeader.length
    checkCode(list, at, line + COMPUTED_AT, length, region.keyAt)
    compare(list, line + COMPUTED_AT, line, CHECK_CODE_BYTES)
  }
  if (list.count === 0) return
  runAll(list)
  let command = 0
  for (let n = from; n < end; n++) {
    if (members.looks[n] === LOOK_UNKNOWN) continue
    const valid = resultOf(list, command) === 0 && resultOf(list, command + 1) === EQUAL
    command += 2
    if (!valid) members.looks[n] = LOOK_UNKNOWN
  }
}

/** Does the slot of member `n` hold another sequence than it expects? */
export function expectFault(state: RecordContext, batch: Batch, n: number): Fault {
  const members = batch.members!
  const look = members.looks[n]
  if (look === LOOK_HOLDS) return PASS
  if (look === LOOK_DIFFERS) return CONDITION
  const { expectHigh, expectLow } = members
  const region = regionOf(batch, n)
  // Plain bytes have no sequence: nothing is to be expected of them.
  if (region.kind !== KIND_RECORDS) return (expectHigh[n]! | expectLow[n]!) === 0 ? PASS : CONDITION
  return sequenceFault(state, region, members.slots[n]!, expectHigh[n]!, expectLow[n]!)
}

/** Does the slot hold another sequence than that, for a reader just now? */
export function sequenceFault(
  state: RecordContext,
  region: Region,
  slot: number,
  high: number,
  low: number,
): Fault {
  drain(state)
  const found = settledFrom(state, region, slot, firstShown(state.through.jobs, region, slot))
  // A host that does not answer says nothing of the sequence.
  if (found === UNDECIDED) return PLACEMENT_UNKNOWN
  if (found === LOST) return CONDITION
  const { sequenceHigh, sequenceLow } = state.examination.copies[found]!.header
  return sequenceHigh === high && sequenceLow === low ? PASS : CONDITION
}
