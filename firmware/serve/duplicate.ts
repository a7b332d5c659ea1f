/**
 * Requests whose PSN was taken before (X-3, G2-2; wire-format 3.5; faults N2, N3, N9).
 *
 * What always holds: a duplicate changes no memory. It is acknowledged as received; a record is
 * acknowledged as durable again only if its PSN *and* its operation id are those remembered. A READ
 * is answered again from what is there now.
 */

import { DUPLICATE_FORGED, PASS } from '../fault.ts'
import { count, type State } from '../state.ts'
import { answerDuplicate } from '../transport/acknowledge.ts'
import { packetsOf, psnAdd, psnDistance } from '../transport/psn.ts'
import { type QueuePair, recall } from '../transport/queue-pair.ts'
import { has, type OpcodeRow, PERSIST, READ } from '../wire/opcode.ts'
import type { Packet } from '../wire/packet.ts'
import { readPweth } from '../wire/persist.ts'
import { readReth } from '../wire/reth.ts'
import { receiveRead } from './read.ts'
import { answerRecord } from './receipt.ts'

export function receiveDuplicate(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
): void {
  if (has(row.properties, READ)) {
    repeatRead(state, qp, packet, row)
    return
  }
  if (has(row.properties, PERSIST) && row.begins) repeatReceipt(state, qp, packet, row)
  answerDuplicate(state.answers, qp, packet.psn)
}

/** A READ again: its response, or a part of it, was lost. It must lie wholly in the past. */
function repeatRead(state: State, qp: QueuePair, packet: Packet, row: OpcodeRow): void {
  readReth(state.reth, state.bytes, packet.bthAt + row.rethAt)
  const packets = packetsOf(state.reth.length, qp.pathMtu)
  if (packets > psnDistance(qp.expectedPsn, packet.psn)) return
  const fault = receiveRead(state, qp, packet, row, true)
  if (fault !== PASS) count(state, fault)
}

/** A record again: the same receipt again, if it is the same operation. */
function repeatReceipt(state: State, qp: QueuePair, packet: Packet, row: OpcodeRow): void {
  const { reth, pweth } = state
  readReth(reth, state.bytes, packet.bthAt + row.rethAt)
  readPweth(pweth, state.bytes, packet.bthAt + row.pwethAt)
  const total = reth.length * (pweth.carried ? pweth.furtherCopies + 1 : 1)
  const lastPsn = psnAdd(packet.psn, packetsOf(total, qp.pathMtu) - 1)
  const place = recall(qp, lastPsn, pweth.operationHigh, pweth.operationLow)
  if (place >= 0) {
    const status = qp.rememberedStatus[place]!
    const copies = qp.rememberedCopies[place]!
    answerRecord(state, qp, lastPsn, pweth.operationHigh, pweth.operationLow, status, copies)
  } else if (qp.rememberedPsn[lastPsn & (qp.rememberedPsn.length - 1)] === lastPsn) {
    count(state, DUPLICATE_FORGED)
  }
}
