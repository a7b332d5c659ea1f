// hot path
/**
 * WRITE_PERSIST into a region of plain bytes that is registered write-persist (P2-4, P2-11): one
 * copy, at the address that RETH names, and a PERSIST_ACK when a fence stands behind it.
 *
 * Invariants:
 * - Only a region registered so takes it; elsewhere nothing is written, and the answer is 0x62.
 * - Its bytes are placed as they come, packet by packet, like those of a plain WRITE: whole records
 *   are what regions of records are for.
 * - Its transport acknowledgement is withheld as for any store into such a region (D-9); through
 *   the caches of the host its last packet is not taken before the bell (write-back.ts). Where no
 *   agent is there when it begins nothing of it is stored, and it is refused by a status. One whose
 *   agent goes later is in nobody's hand: a NAK ends its connection, as for a WRITE.
 */

import type { BoardState } from '../board/context.ts'
import {
  type Fault,
  LEVEL,
  NO_AGENT,
  NOT_ARMED,
  NOT_DURABLE,
  PASS,
  PERSIST_HEADER,
} from '../board/fault.ts'
import { isSafe } from '../burst/burst.ts'
import type { BurstState, OrderedState, ReceiptState, ThroughState } from '../burst/context.ts'
import type { CommitState } from '../commit/context.ts'
import { locateBytes } from '../engine/locate.ts'
import { answerRecord, copiesIn } from '../engine/receipt.ts'
import type { MemoryState } from '../medium/context.ts'
import { PLACEMENT_THROUGH, type Region } from '../medium/region.ts'
import { bytesFault } from '../placement/through.ts'
import { ASKS_BYTES, isAwaited } from '../placement/write-back.ts'
import type { FrameContext } from '../transport/context.ts'
import type { Ask, Ordered } from '../transport/message.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { remember } from '../transport/queue-pair.ts'
import type { WireState } from '../wire/context.ts'
import { addOrdered, countOrdered, ORDERED_PERSIST } from './ordered.ts'

/** Copies that there are. */
const COPIES = 1

/** Is the form one that names bytes, inside the region? `qp.messageTo` is then where they go. */
export function placeBytes(state: WireState & MemoryState, qp: QueuePair, region: Region): Fault {
  const { reth, pweth, located } = state
  if (pweth.carried || pweth.slotAddressed) return PERSIST_HEADER
  const fault = locateBytes(state, region, reth.vaHigh, reth.vaLow, reth.length)
  qp.messageTo = located.from + located.offset
  return fault
}

/**
 * What storage has against it, on its first packet; it is refused by a status, and the queue pair
 * lives. Of one that comes again, and is stored, nothing is said here: the job of it says it.
 */
export function placedFault(
  state: BoardState & CommitState & ThroughState,
  qp: QueuePair,
  { wait, region, lastPsn }: Ask,
): Fault {
  if (wait > COPIES) return LEVEL
  if (state.commit.closed !== PASS) return state.commit.closed
  if (!isSafe(state)) return NOT_ARMED
  if (region!.placement !== PLACEMENT_THROUGH) return PASS
  if (isAwaited(qp, lastPsn, ASKS_BYTES, region!)) return PASS
  return bytesFault(state, region!) === NOT_DURABLE ? NO_AGENT : PASS
}

/** All of it is stored: its PERSIST_ACK waits for the next fence. */
export function endPlaced(state: BurstState & OrderedState, qp: QueuePair, message: Ask): void {
  const item = addOrdered(state, qp, ORDERED_PERSIST, message.lastPsn, message.region, false)
  item.operationHigh = message.operationHigh
  item.operationLow = message.operationLow
  item.form = message.wantsAck ? 1 : 0
  item.length = message.length
}

/** It is durable. */
export function answerPlaced(state: FrameContext & BurstState & ReceiptState, item: Ordered): void {
  const { qp, psn, operationHigh, operationLow } = item
  const copies = copiesIn(item.region!, COPIES)
  countOrdered(state, item)
  remember(qp, psn, operationHigh, operationLow, 0, copies)
  if (item.form === 1) answerRecord(state, qp, psn, operationHigh, operationLow, 0, copies)
}
