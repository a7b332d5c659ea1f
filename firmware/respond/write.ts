// hot path
/**
 * Plain RDMA WRITE, with or without immediate (IBTA 9.4.3).
 *
 * Invariants:
 * - The bounds of the whole message are judged on its first packet, and no packet reaches beyond
 *   what was announced there.
 * - Into a region of bytes it is placed as it comes, packet by packet, and its write-back started.
 *   Nothing is promised of durability: the acknowledgement of a WRITE means received (wire-format
 *   6.3). Where the region is registered write-persist, it is withheld until a fence (D-9, P2-5);
 *   through the caches of the host the last packet is not taken before the bell (write-back.ts).
 * - Into a region of records it is a persist of one whole record in every copy (P2-5, form B): it
 *   is acknowledged when all are durable, and refused where that cannot be.
 * - Into a copy that its client writes by itself (S1-M2) it is placed as bytes are. Nothing is
 *   promised of it before the FLUSH behind it.
 * - Into memory registered on demand it is placed as it comes, where the pages are now; a packet
 *   whose page is away draws an RNR NAK, and comes again (on-demand.ts).
 */

import {
  BOUNDS,
  type Fault,
  MESSAGE_LENGTH,
  NOT_DURABLE,
  PASS,
  QP_ERROR_STATE,
} from '../board/fault.ts'
import { isSafe, store, touch, withhold } from '../burst/burst.ts'
import type { AcceptContext, GatherState, ServeContext } from '../burst/context.ts'
import { noteDurable, noteUnfenced } from '../burst/figures.ts'
import { releaseReceive } from '../burst/staging.ts'
import { accessOf, locateStored } from '../engine/locate.ts'
import {
  findRegion,
  isPair,
  KIND_ON_DEMAND,
  KIND_RECORDS,
  PLACEMENT_THROUGH,
  REMOTE_WRITE,
  type Region,
  WRITE_PERSIST_REGION,
} from '../medium/region.ts'
import { lookBeforeWrite } from '../placement/scrub.ts'
import {
  ASKS_BYTES,
  beginCached,
  endCached,
  noteCached,
  storeCached,
} from '../placement/write-back.ts'
import { BYTES_AT_ONCE, offsetIn, pagesFault, storePages } from '../status/on-demand.ts'
import { MESSAGE_BYTES_MAX } from '../transport/psn.ts'
import {
  MESSAGE_NONE,
  MESSAGE_RECORD,
  MESSAGE_WRITE,
  type QueuePair,
  STATE_OPEN,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import type { WireState } from '../wire/context.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { endFault, endReceive, takeReceive } from './receives.ts'
import { receiveRecord } from './record.ts'

/**
 * Takes a packet of the expected PSN. A fault that is returned has changed nothing, but that bytes
 * which come again may have been stored already (NOT_READY; write-back.ts).
 */
export function receiveWrite(
  state: ServeContext,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const { begins, ends } = row
  const reth = state.reth
  if (qp.message === MESSAGE_RECORD) return receiveRecord(state, qp, packet, row)
  if (begins) readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  if (begins && reth.length > 0) {
    const region = findRegion(state.regions, reth.rkey)
    if (region !== null && region.kind === KIND_RECORDS && !isPair(region)) {
      return receiveRecord(state, qp, packet, row)
    }
  }
  const length = begins ? reth.length : qp.messageLeft
  const left = length - packet.payloadLength
  const long = length > MESSAGE_BYTES_MAX || (ends ? left !== 0 : left <= 0)
  let fault = PASS
  // Receive entries are judged before lengths, and those before keys (wire-format 3.3).
  if (row.immAt !== 0) fault = takeReceive(state, qp)
  if (fault === PASS && long) fault = MESSAGE_LENGTH
  if (begins) qp.paged = false
  if (fault === PASS && begins && length > 0) fault = aimWrite(state, qp, length)
  if (fault === PASS && qp.paged) fault = absentFault(state, qp, length, packet, row, now)
  if (fault === PASS && row.immAt !== 0) fault = endFault(state, qp, packet, row)
  if (begins && length === 0) forgetAim(qp)
  const isWaited = ends && qp.cached.messageFrom >= 0
  if (fault === PASS && isWaited) fault = endWrittenBack(state, qp, packet)
  if (fault !== PASS) {
    if (row.immAt !== 0) releaseReceive(state, qp)
    return fault
  }
  const bytes = packet.payloadLength
  if (bytes > 0 && !isWaited) storePacket(state, qp, packet)
  qp.message = ends ? MESSAGE_NONE : MESSAGE_WRITE
  qp.messageLeft = left
  qp.messageTo += bytes
  advance(qp, packet, 1, ends)
  touch(state, qp)
  if (ends && (qp.placing || isWaited)) countWrite(state, qp, isWaited)
  if (row.immAt !== 0) endReceive(state, qp, packet, row, 0)
  return PASS
}

/** All of a message is stored that is durable when it is acknowledged, or `is` so already. */
function countWrite(
  { figures, messages, list, connections }: ServeContext,
  qp: QueuePair,
  is: boolean,
): void {
  const { region, length } = messages[qp.index]!
  const { index } = region!
  if (is) noteDurable(figures, index, connections.nowUs, 1, length)
  else noteUnfenced(figures, qp, index, connections.nowUs, length, list.fences)
}

/** It has no bytes, and goes nowhere. */
function forgetAim(qp: QueuePair): void {
  qp.placing = false
  qp.cached.messageFrom = -1
}

/** One packet of the message, where that goes. */
function storePacket(state: ServeContext, qp: QueuePair, packet: Packet): void {
  const { psn, payloadAt, payloadLength } = packet
  const { messageTo } = qp
  const { region } = state.messages[qp.index]!
  if (qp.paged) {
    storePages(state, qp, psn, payloadAt, region!, payloadLength)
  } else if (qp.caching) {
    storeCached(state, qp, psn, payloadAt, messageTo, payloadLength)
  } else {
    if (qp.placing) withhold(state, qp, psn)
    store(state, qp, psn, payloadAt, messageTo, payloadLength)
  }
}

/** The last packet of a message that the host's CPU writes back: PASS when it has. */
function endWrittenBack(state: ServeContext, qp: QueuePair, packet: Packet): Fault {
  const region = state.messages[qp.index]!.region!
  const { psn, payloadAt, payloadLength } = packet
  return endCached(state, qp, psn, ASKS_BYTES, region, payloadAt, qp.messageTo, payloadLength)
}

/** Judges where the message goes; `qp.messageTo` is then its first address. */
function aimWrite(state: AcceptContext, qp: QueuePair, length: number): Fault {
  const { reth, located } = state
  const fault = accessOf(state, qp, reth.rkey, REMOTE_WRITE)
  if (fault !== PASS) return fault
  const region = located.region!
  if (region.kind === KIND_ON_DEMAND) return aimAtPages(state, qp, region)
  const unseen = isPair(region) ? lookBeforeWrite(state, region, reth.vaHigh, reth.vaLow) : PASS
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  if (unseen !== PASS) return unseen
  const outside = locateStored(state, region, reth.vaHigh, reth.vaLow, length)
  if (outside !== PASS) return outside
  const durable = (region.flags & WRITE_PERSIST_REGION) !== 0
  if (durable && !isSafe(state)) return NOT_DURABLE
  const { cached } = qp
  cached.messageFrom = -1
  qp.caching = region.placement === PLACEMENT_THROUGH
  qp.placing = durable && !qp.caching
  qp.messageTo = located.from + located.offset
  // Noted before a confirmation is judged that would speak of this message, too.
  if (durable && qp.caching) beginCached(state, qp, qp.messageTo)
  else if (qp.caching) noteCached(state, qp, qp.messageTo, length)
  const message = state.messages[qp.index]!
  message.region = region
  message.length = length
  return PASS
}

/** As `aimWrite`; `qp.messageTo` is then an offset in the region. */
function aimAtPages(state: WireState & GatherState, qp: QueuePair, region: Region): Fault {
  const offset = offsetIn(state, region)
  if (offset < 0) return BOUNDS
  state.messages[qp.index]!.region = region
  forgetAim(qp)
  qp.paged = true
  // Nothing is confirmed to it any more: a confirmation says that all of it is durable.
  qp.volatile = true
  qp.messageTo = offset
  return PASS
}

/** Are the pages there: those that the message of `length` bytes begins with, or the packet's? */
function absentFault(
  state: ServeContext,
  qp: QueuePair,
  length: number,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const region = state.messages[qp.index]!.region!
  const bytes = row.begins ? Math.min(length, BYTES_AT_ONCE) : packet.payloadLength
  return pagesFault(state, qp, region, qp.messageTo, bytes, length, now)
}
