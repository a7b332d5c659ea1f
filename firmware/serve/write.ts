// hot path
/**
 * Plain RDMA WRITE into a region of bytes: placed as it comes, packet by packet (IBTA 9.4.3).
 *
 * What always holds: the bounds of the whole message are judged on its first packet, and no packet
 * reaches beyond what was announced there. Nothing is promised of durability: the acknowledgement
 * of a WRITE means received (wire-format 6.3).
 */

import { append, resultOf, runAll, tagOf } from '../command-list.ts'
import { BOUNDS, FAULTS, type Fault, MESSAGE_LENGTH, PASS, UNREADABLE } from '../fault.ts'
import { COPY, NVDIMM_SPACE } from '../hal.ts'
import { accessFault, byteOffset, findRegion, KIND_BYTES, REMOTE_WRITE } from '../memory/region.ts'
import { count, type State, touch } from '../state.ts'
import { answer } from '../transport/acknowledge.ts'
import { MESSAGE_BYTES_MAX } from '../transport/psn.ts'
import {
  MESSAGE_NONE,
  MESSAGE_WRITE,
  type QueuePair,
  STATE_ERROR,
} from '../transport/queue-pair.ts'
import { advance } from '../transport/responder.ts'
import type { OpcodeRow } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readReth } from '../wire/reth.ts'
import { failQueuePair } from './staging.ts'

/** Takes a packet of the expected PSN. A fault that is returned has changed nothing. */
export function receiveWrite(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const { begins, ends } = row
  const reth = state.reth
  if (begins) readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  const length = begins ? reth.length : qp.messageLeft
  const left = length - packet.payloadLength
  if (length > MESSAGE_BYTES_MAX || (ends ? left !== 0 : left <= 0)) return MESSAGE_LENGTH
  let to = qp.messageTo
  if (begins && length > 0) {
    const region = findRegion(state.regions, reth.rkey)
    const fault = accessFault(region, qp.protectionDomain, REMOTE_WRITE)
    if (fault !== PASS) return fault
    const offset = byteOffset(region!, reth.vaHigh, reth.vaLow, length)
    if (offset < 0 || region!.kind !== KIND_BYTES) return BOUNDS
    to = NVDIMM_SPACE + region!.at + offset
  }
  if (packet.payloadLength > 0) {
    append(
      state.list,
      COPY,
      packet.payloadAt,
      to,
      packet.payloadLength,
      (qp.index + 1) * 2 ** 24 + packet.psn,
    )
    state.plainWrites += 1
  }
  qp.message = ends ? MESSAGE_NONE : MESSAGE_WRITE
  qp.messageLeft = left
  qp.messageTo = to + packet.payloadLength
  qp.lastPacketUs = now
  advance(qp, packet, 1, ends)
  touch(state, qp)
  return PASS
}

/**
 * Runs what stands in the list. A WRITE that the medium did not take ends its queue pair with a
 * NAK (remote operational error); everything else in the list cannot fail.
 */
export function runPrelude(state: State): void {
  const list = state.list
  const length = list.count
  const suspicious = state.plainWrites > 0
  state.plainWrites = 0
  runAll(list)
  if (!suspicious) return
  for (let i = 0; i < length; i++) {
    const tag = tagOf(list, i)
    if (tag === 0 || resultOf(list, i) === 0) continue
    const qp = state.queuePairs.places[Math.floor(tag / 2 ** 24) - 1]!
    if (qp === null || qp.state === STATE_ERROR) continue
    count(state, UNREADABLE)
    answer(state.answers, qp, tag % 2 ** 24, FAULTS[UNREADABLE]!.code)
    failQueuePair(state, qp)
  }
}
