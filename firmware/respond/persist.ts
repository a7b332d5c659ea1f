// hot path
/**
 * WRITE_PERSIST, from the packet to the group (source 1; D-7, D-8; wire-format 7.2).
 *
 * Invariants:
 * - The whole payload is in packet memory, its length exact, before its record joins a group; no
 *   slot changes for a record that fails any check.
 * - A fault of the connection (form, key, rights, bounds) is a NAK and ends the queue pair. A fault
 *   of storage (length, slot, level, health) is a PERSIST_ACK with a status, and it lives.
 * - A record of a batch is collected until the last of its batch has come (batch.ts).
 * - A single packet is committed from where it was received: its slot header replaces the spent
 *   headers in front of the payload, so a record is one piece of memory and is never copied before
 *   it is stored.
 * - A group that makes way may end the very queue pair whose message goes on: a plain WRITE of it
 *   was refused. That message is taken no further, and nothing is answered behind the NAK, which
 *   may be lost: an answer would acknowledge what it denied.
 */

import { copy } from '../board/command-list.ts'
import { type BoardState, count } from '../board/context.ts'
import {
  BOUNDS,
  DUPLICATE,
  DUPLICATE_FORGED,
  FAULTS,
  type Fault,
  MESSAGE_LENGTH,
  NOT_DURABLE,
  NOT_READY,
  PASS,
  PERSIST_HEADER,
  QP_ERROR_STATE,
  RECORD_LENGTH,
  STAGING,
} from '../board/fault.ts'
import { refuseQueuePair, store, touch, withhold, withholdRecord } from '../burst/burst.ts'
import type { GroupContext, RecordContext, ServeContext } from '../burst/context.ts'
import {
  claimStaging,
  releaseStaging,
  STAGED_BYTES_MAX,
  stagedAt,
  takeStaging,
} from '../burst/staging.ts'
import { admit, clearWay, HANDED, REPEATED } from '../engine/admit.ts'
import { commitNow } from '../engine/group.ts'
import { accessOf, namedCopiesFault } from '../engine/locate.ts'
import { isForged, repetitionFault } from '../engine/operation.ts'
import { answerRecord, copiesIn } from '../engine/receipt.ts'
import { healthFault, storageFault } from '../engine/storage.ts'
import type { MemoryState } from '../medium/context.ts'
import {
  KIND_BYTES,
  PLACEMENT_THROUGH,
  type Region,
  TAKES_GUARDS,
  toldFlags,
  WRITE_PERSIST,
} from '../medium/region.ts'
import { placementOf } from '../placement/placements.ts'
import { ASKS_BYTES, beginCached, endCached, storeCached } from '../placement/write-back.ts'
import type { Ask } from '../transport/message.ts'
import { MESSAGE_BYTES_MAX, packetsOf, psnAdd } from '../transport/psn.ts'
import {
  MESSAGE_NONE,
  MESSAGE_PERSIST,
  type QueuePair,
  remember,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import { u32 } from '../wire/bytes.ts'
import type { WireState } from '../wire/context.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import {
  GUARD_EXTENSION_BYTES,
  PERSIST_VERSION,
  PWETH_BYTES,
  PWETH_WORDS,
  readPweth,
} from '../wire/persist.ts'
import { readReth } from '../wire/reth.ts'
import { beginMember, endMember, holds, openMember, storeCollected } from './batch.ts'
import { isAhead } from './handed.ts'
import { endPlaced, placeBytes, placedFault } from './placed.ts'

/** Takes a packet of the expected PSN. A fault that is returned has changed nothing (write.ts). */
export function receivePersist(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const message = state.messages[qp.index]!
  if (row.begins) {
    const fault = beginPersist(state, qp, message, packet, row)
    if (fault !== PASS) return fault
    if (message.placed) return takePlaced(state, qp, message, packet, row)
    if (row.ends) {
      advance(qp, packet, 1, true)
      touch(state, qp)
      if (message.batch) endMember(state, qp, message, packet.payloadAt)
      else endPersist(state, qp, message, packet.payloadAt)
      return PASS
    }
    if (message.batch) openMember(state, qp, message)
    else openMessage(state, qp, MESSAGE_PERSIST, message.length * message.carried)
  }
  if (message.placed) return takePlaced(state, qp, message, packet, row)
  return gatherPacket(state, qp, message, packet, row)
}

/** One packet of a message of several, with room for all of it. */
export function gatherPacket(
  state: ServeContext,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const ends = row.ends
  const left = qp.messageLeft - packet.payloadLength
  if (ends ? left !== 0 : left <= 0) return MESSAGE_LENGTH
  const payloadTo = qp.messageTo
  if (payloadTo > 0) {
    copy(state.list, packet.payloadAt, payloadTo, packet.payloadLength)
    qp.messageTo = payloadTo + packet.payloadLength
  }
  qp.messageLeft = left
  if (ends && message.plain) clearWay(state, message)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  advance(qp, packet, 1, ends)
  touch(state, qp)
  if (ends) {
    const at = stagedAt(qp)
    qp.message = MESSAGE_NONE
    if (message.batch) endMember(state, qp, message, at)
    else endPersist(state, qp, message, at)
  }
  return PASS
}

/** Steps 9 and 10 for the whole message, on its first packet. Fills `message`. */
function beginPersist(
  state: ServeContext,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { reth, pweth, bytes } = state
  readReth(reth, bytes, packet.bthAt + row.rethAt)
  readPweth(pweth, bytes, packet.bthAt + row.pwethAt)
  if (pweth.version !== PERSIST_VERSION || pweth.words !== PWETH_WORDS) return PERSIST_HEADER
  if (pweth.reserved !== 0) return PERSIST_HEADER
  const { length } = reth
  const total = pweth.carried ? length * (pweth.furtherCopies + 1) : length
  const left = total - packet.payloadLength
  if (length > MESSAGE_BYTES_MAX || (row.ends ? left !== 0 : left <= 0)) return MESSAGE_LENGTH
  message.guard = pweth.guarded ? u32(bytes, packet.payloadAt - GUARD_EXTENSION_BYTES) : 0
  if (pweth.guarded && message.guard === 0) return PERSIST_HEADER
  message.batch = pweth.batch
  if (pweth.batch) return beginMember(state, qp, message, packet, row)
  const fault = accessOf(state, qp, reth.rkey, WRITE_PERSIST)
  const region = state.located.region
  if (fault !== PASS) return fault
  message.placed = region!.kind === KIND_BYTES
  // Bytes are stored as their packets come, and an older DPU behind a relay knows of no guard.
  if (pweth.guarded && (toldFlags(region!) & TAKES_GUARDS) === 0) return PERSIST_HEADER
  const form = message.placed
    ? placeBytes(state, qp, region!)
    : addressFault(state, qp, region!, packet, row)
  if (form !== PASS) return form
  // What is collected may be bytes of the same place.
  if (message.placed && qp.batching) storeCollected(state, qp)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  // Bytes are stored as they come, and wait at their end (write-back.ts).
  if (!message.placed && region!.placement >= PLACEMENT_THROUGH) {
    if (isAhead(state, qp, region!, reth.vaHigh)) return NOT_READY
    const ready = placementOf(region!)!.ready(state, qp, region!)
    if (ready !== PASS) return ready
  }
  message.plain = false
  message.region = region
  message.slot = reth.vaHigh
  message.length = length
  message.wait = pweth.wait
  message.wantsAck = pweth.wantsAck
  message.operationHigh = pweth.operationHigh
  message.operationLow = pweth.operationLow
  message.repetition = pweth.repetition
  message.carried = pweth.carried ? region!.copies : 1
  qp.messageLeft = total
  message.lastPsn = row.ends ? packet.psn : psnAdd(packet.psn, packetsOf(total, qp.pathMtu) - 1)
  qp.messageFault = message.placed
    ? placedFault(state, qp, message)
    : storageFault(state, message, region!)
  return PASS
}

/** One packet into a region of bytes: stored at once, unless it is refused at its end. */
function takePlaced(
  state: ServeContext,
  qp: QueuePair,
  message: Ask,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const length = packet.payloadLength
  const left = qp.messageLeft - length
  if (row.ends ? left !== 0 : left <= 0) return MESSAGE_LENGTH
  const fault = qp.messageFault
  if (fault === PASS && length > 0) {
    const stored = storePlaced(state, qp, message.region!, packet, row)
    if (stored !== PASS) return stored
  }
  qp.message = row.ends ? MESSAGE_NONE : MESSAGE_PERSIST
  qp.messageTo += length
  qp.messageLeft = left
  advance(qp, packet, 1, row.ends)
  touch(state, qp)
  if (row.ends && fault === PASS) endPlaced(state, qp, message)
  else if (row.ends) refuseRecord(state, qp, message, fault)
  return PASS
}

/** The bytes of one packet; of the last one only PASS says that it is taken. */
function storePlaced(
  state: ServeContext,
  qp: QueuePair,
  region: Region,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const { psn, payloadAt, payloadLength } = packet
  const to = qp.messageTo
  if (region.placement !== PLACEMENT_THROUGH) {
    withhold(state, qp, psn)
    store(state, qp, psn, payloadAt, to, payloadLength)
    return PASS
  }
  if (row.begins) beginCached(state, qp, to)
  if (row.ends) return endCached(state, qp, psn, ASKS_BYTES, region, payloadAt, to, payloadLength)
  storeCached(state, qp, psn, payloadAt, to, payloadLength)
  return PASS
}

/**
 * The three ways to say where (D-8): replicated, by slot; carried, by slot; carried, with the
 * address and the key of every copy.
 */
function addressFault(
  state: BoardState & WireState & MemoryState,
  qp: QueuePair,
  region: Region,
  packet: Packet,
  row: OpcodeRow,
): Fault {
  const reth = state.reth
  const pweth = state.pweth
  if (pweth.carried && pweth.furtherCopies + 1 !== region.copies) return PERSIST_HEADER
  if (pweth.slotAddressed) return reth.vaLow === 0 ? PASS : BOUNDS
  if (!pweth.carried) return PERSIST_HEADER
  const { vaHigh, vaLow, length } = reth
  const at = packet.bthAt + row.pwethAt + PWETH_BYTES
  return namedCopiesFault(state, qp, region, vaHigh, vaLow, length, at)
}

/** Begins to gather a message of several packets; without room it is refused at its end. */
export function openMessage(state: GroupContext, qp: QueuePair, kind: number, total: number): void {
  qp.message = kind
  qp.messageLeft = total
  qp.staging = -1
  qp.messageTo = 0
  if (qp.messageFault !== PASS) return
  if (total > STAGED_BYTES_MAX) {
    qp.messageFault = RECORD_LENGTH
    return
  }
  if (!takeStaging(state, qp)) reclaimStaging(state, qp)
  if (qp.staging >= 0) qp.messageTo = stagedAt(qp)
  else qp.messageFault = STAGING
}

/**
 * Takes a buffer that a finished message of the group has, when that is committed; or another
 * peer's; and none if that has ended the queue pair.
 */
function reclaimStaging(state: GroupContext, qp: QueuePair): void {
  if (state.commit.count > 0) commitNow(state)
  if (qp.state === STATE_OPEN && !takeStaging(state, qp)) claimStaging(state, qp)
}

/** The message is complete, its data at `dataAt`: it joins the group, or is refused. */
export function endPersist(state: ServeContext, qp: QueuePair, ask: Ask, dataAt: number): void {
  // A record of the same slot that is collected was sent before this one.
  const afterCollected = qp.batching && holds(state, qp, ask.region!, ask.slot)
  if (afterCollected) storeCollected(state, qp)
  const { plain } = ask
  if (plain) withholdPlain(state, qp, ask)
  const against = afterCollected ? messageOrHealthFault(state, qp, ask) : qp.messageFault
  const fault = admit(state, qp, ask, dataAt, against, null, -1)
  // What was run just now may have ended the queue pair, and given its buffer back.
  if (fault === QP_ERROR_STATE) return
  if (fault !== PASS) {
    endUnjoined(state, qp, ask, dataAt, fault)
    return
  }
  qp.staging = -1
  if (plain) withholdPlain(state, qp, ask)
}

/** The record has not joined the group: others have it, it is durable already, or refused. */
function endUnjoined(
  state: ServeContext,
  qp: QueuePair,
  ask: Ask,
  dataAt: number,
  fault: Fault,
): void {
  if (fault === HANDED) {
    hand(state, qp, ask, dataAt)
    return
  }
  if (fault === REPEATED) repeat(state, qp, ask, qp.messageFault === PASS ? dataAt : 0)
  releaseStaging(state, qp)
  if (fault !== REPEATED) refuseRecord(state, qp, ask, fault)
}

/** The fault of the message, or of the part, whose health what was committed just now may show. */
function messageOrHealthFault(state: RecordContext, qp: QueuePair, ask: Ask): Fault {
  return qp.messageFault === PASS ? healthFault(state, ask.region!) : qp.messageFault
}

/**
 * A plain WRITE of a record: the group withholds its acknowledgement, and so does, before it joins,
 * one that is committed to make way. Through caches only one comes here that has lost its buffer:
 * it is refused (record.ts).
 */
function withholdPlain(state: GroupContext, qp: QueuePair, ask: Ask): void {
  // It has no operation that could end a range of several.
  qp.segment += 1
  withholdRecord(state, qp, ask.lastPsn)
}

/** The record was durable before: it is acknowledged, and there is nothing to do. */
function repeat(state: RecordContext, qp: QueuePair, ask: Ask, dataAt: number): void {
  const { lastPsn, operationHigh, operationLow, wait } = ask
  const region = ask.region!
  count(state, dataAt > 0 && isForged(state, qp, ask, dataAt) ? DUPLICATE_FORGED : DUPLICATE)
  // As many copies as it asks for, and as it was acknowledged with.
  const copies = copiesIn(region, Math.min(wait, region.copies))
  remember(qp, lastPsn, operationHigh, operationLow, 0, copies)
  if (ask.wantsAck) answerRecord(state, qp, lastPsn, operationHigh, operationLow, 0, copies)
}

/** The record is made durable by others, later than the group: no range of the group spans it. */
function hand(state: ServeContext, qp: QueuePair, ask: Ask, dataAt: number): void {
  qp.segment += 1
  const region = ask.region!
  const fault = placementOf(region)!.accept(state, qp, ask, dataAt)
  releaseStaging(state, qp)
  if (fault === PASS) return
  refuseRecord(state, qp, ask, repetitionFault(state, region, qp.client, qp, ask, fault))
}

/** Refuses the record by a status, a plain WRITE by a NAK; what was acknowledged stays so. */
function refuseRecord(state: GroupContext, qp: QueuePair, message: Ask, fault: Fault): void {
  if (message.plain) {
    refuseQueuePair(state, qp, message.lastPsn, NOT_DURABLE)
    return
  }
  count(state, fault)
  qp.segment += 1
  const { lastPsn, operationHigh, operationLow } = message
  const status = FAULTS[fault]!.code
  remember(qp, lastPsn, operationHigh, operationLow, status, 0)
  answerRecord(state, qp, lastPsn, operationHigh, operationLow, status, 0)
}
