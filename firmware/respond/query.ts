/**
 * PERSIST_QUERY: is that operation durable? (D-6, G2-3, G2-5; wire-format 7.3)
 *
 * Invariant: a query takes one PSN and is answered by a PERSIST_ACK of that PSN which says
 * that it answers a query. It stands behind every record of its queue pair before it. "Durable" is
 * said only of what the operation table knows, of this client alone; "not known" is no proof of
 * the contrary. Asked again, it is answered again, with what is known then. Of a batch its status
 * is repeated, if it is the last one of its queue pair (batch-status.ts).
 */

import type { BoardState } from '../board/context.ts'
import { DUPLICATE, DUPLICATE_FORGOTTEN, type Fault, PASS, PERSIST_HEADER } from '../board/fault.ts'
import { BURST_FRAMES } from '../board/limits.ts'
import { touch } from '../burst/burst.ts'
import type { GroupContext } from '../burst/context.ts'
import { durableUpTo, type OperationId } from '../commit/operations.ts'
import { answerBatchQuery } from '../engine/batch-status.ts'
import { isKnown } from '../engine/operation.ts'
import {
  answerPersist,
  isWithheld,
  PERSIST_ANSWERS_QUERY,
  PERSIST_CUMULATIVE,
} from '../transport/acknowledge.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { STATUS_DURABLE } from '../wire/persist-ack.ts'
import {
  blankPqeth,
  PQETH_WORDS,
  QUERY_NOT_KNOWN,
  QUERY_VERSION,
  readPqeth,
} from '../wire/persist-query.ts'

const pqeth = blankPqeth()
const queriedUpTo: OperationId = { high: 0, low: 0 }

/** Takes a query of the expected PSN, everything before it being settled, and answers it. */
export function receiveQuery(
  state: GroupContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const fault = readQuery(state, packet, row)
  if (fault !== PASS) return fault
  advance(qp, packet, 1, true)
  // Its answer is its acknowledgement, and of everything before it.
  qp.ackDue = false
  touch(state, qp)
  answerQuery(state, qp, packet.psn)
  return PASS
}

/**
 * A query that was taken before. Where something in front of it still waits for its own answer, it
 * is passed over: its answer would acknowledge that.
 */
export function repeatQuery(
  state: GroupContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const waits = qp.unanswered > 0 || isWithheld(state.answers, qp)
  if (waits || readQuery(state, packet, row) !== PASS) return DUPLICATE_FORGOTTEN
  answerQuery(state, qp, packet.psn)
  return DUPLICATE
}

function readQuery(state: BoardState, packet: Packet, row: OpcodeRow): Fault {
  readPqeth(pqeth, state.bytes, packet.bthAt + row.pqethAt)
  const { version, words, reserved } = pqeth
  return version === QUERY_VERSION && words === PQETH_WORDS && reserved === 0
    ? PASS
    : PERSIST_HEADER
}

/** Answers what `pqeth` asks. */
function answerQuery(state: GroupContext, qp: QueuePair, psn: number): void {
  const { operations } = state.commit
  const { operationHigh, operationLow, batch, batchId } = pqeth
  if (batch && answerBatchQuery(state, qp, batchId, psn)) return
  const known = !batch && isKnown(state, qp, operationHigh, operationLow)
  const cumulative = !batch && durableUpTo(operations, qp.client, queriedUpTo)
  const range = state.ranges[BURST_FRAMES]!
  range.firstPsn = psn
  range.lastPsn = psn
  range.operationHigh = cumulative ? queriedUpTo.high : operationHigh
  range.operationLow = cumulative ? queriedUpTo.low : operationLow
  range.records = 0
  range.status = known ? STATUS_DURABLE : QUERY_NOT_KNOWN
  range.flags = PERSIST_ANSWERS_QUERY | (cumulative ? PERSIST_CUMULATIVE : 0)
  // In how many, and how, is not remembered: in as many as were asked for.
  range.mechanism = 0
  range.copies = known ? 1 : 0
  answerPersist(state.answers, qp, range, state.incarnation)
}
