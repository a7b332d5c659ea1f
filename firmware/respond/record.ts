// hot path
/**
 * A plain WRITE into a region of records: source 2's form B (P2-5, P2-9). The virtual address is
 * the slot above 32 zero bits, the length that of the whole record.
 *
 * Invariants:
 * - It is a persist with all copies of its region and without an operation id: gathered, committed
 *   and crash-atomic as one that our own peers ask for.
 * - Its transport acknowledgement is withheld until all copies are durable; what cannot become
 *   durable is refused by a NAK, as its sender knows no other word for it.
 * - Through the caches of the host its last packet is not taken before the last bell (S1-M5): a job
 *   has the record, and the packet that comes again is told what became of it (write-back.ts).
 * - A sender that speaks our protocol gets a PERSIST_ACK of operation 0 on top.
 */

import { copy } from '../board/command-list.ts'
import * as faults from '../board/fault.ts'
import {
  BOUNDS,
  type Fault,
  MESSAGE_LENGTH,
  NOT_DURABLE,
  NOT_READY,
  PASS,
  QP_ERROR_STATE,
} from '../board/fault.ts'
import { touch } from '../burst/burst.ts'
import type { AcceptContext, ServeContext } from '../burst/context.ts'
import { releaseReceive, releaseStaging, stagedAt } from '../burst/staging.ts'
import { clearWay } from '../engine/admit.ts'
import { accessOf } from '../engine/locate.ts'
import { answerRecord, copiesIn } from '../engine/receipt.ts'
import { healthFault, storageFault } from '../engine/storage.ts'
import { PLACEMENT_THROUGH, REMOTE_WRITE, slotAddress } from '../medium/region.ts'
import { acceptThrough, isSoonMade } from '../placement/through.ts'
import { ASKS_RECORD, awaited, awaitJob, UNASKED } from '../placement/write-back.ts'
import type { Ask } from '../transport/message.ts'
import { MESSAGE_BYTES_MAX, packetsOf, psnAdd } from '../transport/psn.ts'
import {
  MESSAGE_NONE,
  MESSAGE_RECORD,
  type QueuePair,
  remember,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { isAhead } from './handed.ts'
import { endPersist, gatherPacket, openMessage } from './persist.ts'
import { endFault, endReceive, takeReceive } from './receives.ts'

/** Takes a packet of the expected PSN; RETH of a first one was read. A fault changed nothing. */
export function receiveRecord(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const message = state.messages[qp.index]!
  let fault: Fault = PASS
  if (row.immAt !== 0) fault = takeReceive(state, qp)
  if (fault === PASS && row.begins) fault = beginRecord(state, qp, message, packet, row)
  if (fault === PASS && row.immAt !== 0) fault = endFault(state, qp, packet, row)
  if (fault === PASS && row.ends && isCached(message) && qp.messageFault === PASS) {
    fault = receiveCached(state, qp, message, packet, row)
  } else if (fault === PASS && row.begins && row.ends) {
    advance(qp, packet, 1, true)
    touch(state, qp)
    endPersist(state, qp, message, packet.payloadAt)
  } else if (fault === PASS) {
    fault = gatherPacket(state, qp, message, packet, row)
  }
  if (row.immAt !== 0) {
    // Refused at its end it has given the entry back, with its queue pair.
    if (fault === PASS && qp.state === STATE_OPEN) endReceive(state, qp, packet, row, 0)
    else releaseReceive(state, qp)
  }
  return fault
}

/** Does the host's CPU write it back? */
function isCached({ region }: Ask): boolean {
  return region!.placement === PLACEMENT_THROUGH
}

/** The last packet of such a record: PASS when all copies are durable, and it is taken. */
function receiveCached(
  state: ServeContext,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { payloadAt, payloadLength, psn } = packet
  const left = row.begins ? 0 : qp.messageLeft - payloadLength
  if (left !== 0) return MESSAGE_LENGTH
  if (!row.begins) copy(state.list, payloadAt, qp.messageTo, payloadLength)
  const region = message.region!
  const start = slotAddress(region, 0, message.slot)
  const end = start + message.length
  let fault = awaited(qp, psn, ASKS_RECORD, start, end)
  if (fault === UNASKED) {
    fault = healthFault(state, region)
    if (fault !== PASS) return NOT_DURABLE
    const dataAt = row.begins ? payloadAt : stagedAt(qp)
    const taken = acceptThrough(state, qp, message, dataAt)
    fault = awaitJob(state, qp, psn, ASKS_RECORD, start, end, taken)
  }
  if (fault !== PASS) return fault
  qp.message = MESSAGE_NONE
  advance(qp, packet, 1, true)
  touch(state, qp)
  releaseStaging(state, qp)
  qp.segment += 1
  const copies = copiesIn(region, region.copies)
  remember(qp, psn, 0, 0, 0, copies)
  if (message.wantsAck) answerRecord(state, qp, psn, 0, 0, 0, copies)
  return PASS
}

function beginRecord(
  state: AcceptContext,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const reth = state.reth
  const length = reth.length
  const left = length - packet.payloadLength
  if (length > MESSAGE_BYTES_MAX || (row.ends ? left !== 0 : left <= 0)) return MESSAGE_LENGTH
  const fault = accessOf(state, qp, reth.rkey, REMOTE_WRITE)
  if (fault !== PASS) return fault
  if (reth.vaLow !== 0) return BOUNDS
  const region = state.located.region!
  message.region = region
  message.slot = reth.vaHigh
  message.length = length
  message.wait = region.copies
  message.wantsAck = qp.speaksPersist
  message.repetition = false
  message.operationHigh = 0
  message.operationLow = 0
  message.carried = 1
  message.guard = 0
  message.lastPsn = psnAdd(packet.psn, packetsOf(length, qp.pathMtu) - 1)
  message.plain = true
  message.placed = false
  message.batch = false
  if (isAhead(state, qp, region, message.slot)) return NOT_READY
  if (isSoonMade(state, qp, region)) return NOT_READY
  if (row.ends) clearWay(state, message)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  const storage = storageFault(state, message, region)
  if (storage !== PASS) return refusalOf(storage)
  qp.messageFault = PASS
  if (row.ends) return PASS
  openMessage(state, qp, MESSAGE_RECORD, length)
  if (qp.messageFault === PASS) return PASS
  // A record of one copy fits every buffer: there was none.
  qp.message = MESSAGE_NONE
  return NOT_READY
}

/** What a status of ours is to a peer that knows only NAKs. */
function refusalOf(fault: Fault): Fault {
  const out = fault === faults.SLOT || fault === faults.RECORD_LENGTH
  return out || fault === faults.FIXED_LENGTH ? BOUNDS : NOT_DURABLE
}
