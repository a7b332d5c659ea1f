// hot path
/**
 * How records of the host end that were in a group: the completion stands in the list of the
 * commit, right behind the fence that makes the record durable as far as it asks.
 *
 * Invariants:
 * - A completion of success is behind that fence, so a host that sees it has a durable record,
 *   whenever the power goes (D-7).
 * - An entry of the completion queue is given to a record once, in the order of its queue. Where
 *   the list stopped before it, because the medium refused a record, the same entry is written
 *   again, with what is true then; so no entry is left out and none is written for nothing.
 * - The host is told of completions (interrupts, events) behind the commit, never inside of it.
 */

import { noteRefused } from '../batch/batch.ts'
import { assert } from '../board/assert.ts'
import { type BoardState, count } from '../board/context.ts'
import { FAULTS, PASS } from '../board/fault.ts'
import type { BurstContext, QueueState } from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import {
  blankOut,
  enterCompletion,
  releaseCompletion,
  wakeHost,
  writeEntry,
} from '../host/completion.ts'
import * as el from '../host/element.ts'
import type { HostQueues } from '../host/host.ts'
import type { HostContext, HostState } from '../host/host-state.ts'
import { HOST_OWNER, type HostRecord } from '../host/work.ts'
import { freeBuffer } from './buffers.ts'

/** `HostRecord.entry` of a record that has none yet. */
const ENTRY_NONE = -1

/** So many copies of the group are durable: appends the completion of item `i` if it is due. */
export function completeRecord(state: BurstContext, i: number, copies: number): void {
  const { commit, hostWork } = state
  const record = hostWork.records[i]!
  if (record.level !== copies || (record.flags & el.SIGNALED) === 0) return
  if (commit.items[i]!.fault !== PASS || isAfterRefusal(state, i)) return
  describeRecordEnd(state, i, record, commit.items[i]!.wait)
  appendCompletion(state, record)
}

/** Was a record of its queue before it refused? Then that is told first. */
function isAfterRefusal(state: CommitState & QueueState, i: number): boolean {
  const { commit, hostWork } = state
  const { queue } = hostWork.records[i]!
  for (let j = 0; j < i; j++) {
    const { owner, fault } = commit.items[j]!
    if (owner === HOST_OWNER && fault !== PASS && hostWork.records[j]!.queue === queue) return true
  }
  return false
}

/**
 * The group is committed: item `i` is durable, or was refused. Where anything has failed every
 * completion is written, perhaps again, with what is true now: the bytes of those that were there
 * already are the same.
 */
export function endRecord(state: BurstContext, i: number): void {
  const { commit, host, hostWork } = state
  const item = commit.items[i]!
  const record = hostWork.records[i]!
  const taken = item.acknowledged || item.fault === PASS
  hostWork.recordCount -= 1
  if (!taken) count(state, item.fault)
  if (!taken && record.batch >= 0) {
    noteRefused(hostWork.batches[record.batch]!.batch, record.batchIndex, item.fault)
  }
  if (taken && (record.flags & el.SIGNALED) === 0) {
    releaseCompletion(host, record.place)
  } else if (hostWork.groupFailed) {
    describeRecordEnd(state, i, record, taken ? item.wait : item.durable)
    if (!taken) {
      host.completion.status = el.WC_GENERAL_ERR
      host.completion.refusal = FAULTS[item.fault]!.code
      host.completion.flags = 0
      if (record.entry === ENTRY_NONE) goBefore(state, i)
    }
    appendCompletion(state, record)
  }
  freeBuffer(state, record.buffer)
}

function describeRecordEnd(
  state: BoardState & CommitState & HostState,
  i: number,
  record: HostRecord,
  copies: number,
): void {
  const { completion } = state.host
  const item = state.commit.items[i]!
  blankOut(completion)
  completion.queue = record.queue
  completion.unit = record.unit
  completion.pointer = record.pointer
  completion.opcode = record.opcode
  completion.length = record.length
  completion.addressHigh = record.addressHigh
  completion.addressLow = record.addressLow
  completion.operationHigh = item.operationHigh
  completion.operationLow = item.operationLow
  completion.flags = el.DURABLE
  completion.copies = copies
  completion.mechanism = item.region.mechanism
  completion.incarnation = state.incarnation
}

/**
 * A refusal of which nobody asked to be told: it gets the entry of the record behind it in its
 * queue, that one the next, and so on. None of them was written yet, as this one was in the way.
 */
function goBefore(state: CommitState & HostState & QueueState, i: number): void {
  const { commit, host, hostWork } = state
  const record = hostWork.records[i]!
  record.entry = entryOf(host, record)
  for (let j = commit.count - 1; j > i; j--) {
    const other = hostWork.records[j]!
    if (commit.items[j]!.owner !== HOST_OWNER || other.queue !== record.queue) continue
    if (other.entry < 0) continue
    const { entry } = record
    record.entry = other.entry
    other.entry = entry
  }
}

/**
 * The next entry. Within a pass a completion queue is ended only before anything is reserved in it,
 * and a record is told of in the pass in which it was executed.
 */
function entryOf(host: HostQueues, record: HostRecord): number {
  const number = enterCompletion(host, record.place)
  assert(number >= 0, 'a completion queue outlives what it has reserved for a record')
  return number
}

function appendCompletion(state: HostContext, record: HostRecord): void {
  const { host, list } = state
  if (record.entry === ENTRY_NONE) record.entry = entryOf(host, record)
  writeEntry(host, list, record.place, record.entry)
}

/** Behind the commit of `count` items: wakes the hosts whose records are done. */
export function tellRecords(state: BurstContext, items: number): void {
  const { commit, host, hostWork, list } = state
  for (let i = 0; i < items; i++) {
    if (commit.items[i]!.owner !== HOST_OWNER) continue
    const record = hostWork.records[i]!
    if (record.entry >= 0) wakeHost(host, list, record.place)
  }
}
