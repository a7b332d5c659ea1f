// hot path
/**
 * The core: frames in, commands out. It has no I/O of its own, no clock and no randomness.
 *
 * **Every burst is settled before the next one is received.** `receive` any number of times up to
 * BURST_FRAMES, then `settle`; what the core wants to be stored or sent has then left through
 * command lists (hal.ts), in their order. The same core runs on the DPU, in the emulator, and in a
 * plain Node test in virtual time.
 *
 * What always holds: no frame of any content reaches an assert; a frame that is refused is counted
 * under the name of its fault, and has changed nothing but its queue pair's state.
 */

import { run } from './command-list.ts'
import { clearLanes } from './commit/commit.ts'
import {
  DUPLICATE,
  FAULTS,
  type Fault,
  ICRC,
  NOT_ARMED,
  NOT_FOR_US,
  OPCODE,
  PASS,
  SEQUENCE,
  SEQUENCE_AGAIN,
  UNEXPECTED_RESPONSE,
  UNKNOWN_QP,
  WRONG_TRANSPORT,
} from './fault.ts'
import { ICRC_GOOD } from './hal.ts'
import { QUEUE_PAIRS, TRANSMIT_FRAMES } from './limits.ts'
import { boot } from './manage/boot.ts'
import { receiveManagement, serveManagement } from './manage/control.ts'
import { receiveDuplicate } from './serve/duplicate.ts'
import { commitNow, sendAcks } from './serve/group.ts'
import { receivePersist } from './serve/persist.ts'
import { receiveRead, serveReads } from './serve/read.ts'
import { scrub } from './serve/scrub.ts'
import { failQueuePair, isStalled } from './serve/staging.ts'
import { receiveWrite, runPrelude } from './serve/write.ts'
import { count, isArmed, type State, touch } from './state.ts'
import { answer } from './transport/acknowledge.ts'
import { findQueuePair, type QueuePair, STATE_OPEN } from './transport/queue-pair.ts'
import { checkPeer, checkSequence, judgeRequest } from './transport/responder.ts'
import { ETH_DESTINATION } from './wire/ethernet.ts'
import { IPV4_DESTINATION } from './wire/ipv4.ts'
import { IPV6_DESTINATION } from './wire/ipv6.ts'
import { MANAGEMENT_QP } from './wire/management.ts'
import { has, type OpcodeRow, PERSIST, READ, RESPONSE } from './wire/opcode.ts'
import { checkPacket, type Packet } from './wire/packet.ts'

/** Answers that one frame may cause, at the most. */
const ANSWERS_PER_FRAME = 3

/**
 * Takes the frame of `length` bytes at `at` in packet memory; `flags` are the board's. Frames start
 * at 2 modulo 4 (FRAME_OFFSET_BYTES), so that what is behind Ethernet is aligned.
 */
export function receive(
  state: State,
  at: number,
  length: number,
  flags: number,
  now: number,
): void {
  if (state.answers.used > TRANSMIT_FRAMES - ANSWERS_PER_FRAME) runPrelude(state)
  const packet = state.packet
  let fault = checkPacket(packet, state.bytes, at, length)
  if (fault === PASS) fault = addressFault(state, packet)
  if (fault === PASS && (flags & ICRC_GOOD) === 0) fault = ICRC
  if (fault === PASS) fault = dispatch(state, packet, now)
  if (fault !== PASS) count(state, fault)
}

/** Is the frame addressed to this port? */
function addressFault(state: State, packet: Packet): Fault {
  const bytes = state.bytes
  const words = state.words
  const mac = packet.frameAt + ETH_DESTINATION
  if ((bytes[mac]! | (bytes[mac + 1]! << 8)) !== state.macHead) return NOT_FOR_US
  if (words[(mac + 2) >> 2] !== state.macTail) return NOT_FOR_US
  if (packet.ipVersion === 4) {
    if (words[(packet.ipAt + IPV4_DESTINATION) >> 2] !== state.ipv4) return NOT_FOR_US
  } else {
    const facts = state.facts
    const ip = packet.ipAt + IPV6_DESTINATION
    for (let i = 0; i < 16; i++) if (bytes[ip + i] !== facts.ipv6[i]) return NOT_FOR_US
  }
  return PASS
}

function dispatch(state: State, packet: Packet, now: number): Fault {
  if (packet.destQp === MANAGEMENT_QP) return receiveManagement(state, packet)
  const qp = findQueuePair(state.queuePairs, packet.destQp)
  if (qp === null) return UNKNOWN_QP
  const row = packet.row
  if (row !== null && row.transport === 'ud') return WRONG_TRANSPORT
  const fault = checkPeer(qp, packet, state.bytes, state.words)
  if (fault !== PASS) return fault
  if (row !== null && has(row.properties, RESPONSE)) return UNEXPECTED_RESPONSE
  return request(state, qp, packet, row, now)
}

/** A request, in the order of wire-format 3.3 from step 5 on. The fault is answered here. */
function request(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow | null,
  now: number,
): Fault {
  let fault = checkSequence(qp, packet)
  if (fault === DUPLICATE) {
    if (row !== null) receiveDuplicate(state, qp, packet, row)
    return fault
  }
  if (fault === PASS) fault = judgeRequest(qp, packet)
  if (fault === PASS) fault = execute(state, qp, packet, row, now)
  if (fault !== PASS) refuse(state, qp, packet, fault)
  return fault
}

function execute(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow | null,
  now: number,
): Fault {
  if (row === null) return OPCODE
  if (has(row.properties, PERSIST)) return receivePersist(state, qp, packet, row, now)
  if (has(row.properties, READ)) return receiveRead(state, qp, packet, row, false)
  return receiveWrite(state, qp, packet, row, now)
}

/**
 * Answers a refused request. Everything accepted before is answered first; after a fatal NAK there
 * is silence (wire-format 3.4).
 */
function refuse(state: State, qp: QueuePair, packet: Packet, fault: Fault): void {
  if (fault === SEQUENCE_AGAIN || FAULTS[fault]!.answer !== 'nak') return
  settleBurst(state)
  if (qp.state !== STATE_OPEN) return
  touch(state, qp)
  if (fault === SEQUENCE) {
    qp.nakSent = true
    answer(state.answers, qp, qp.expectedPsn, FAULTS[fault]!.code)
    return
  }
  answer(state.answers, qp, packet.psn, FAULTS[fault]!.code)
  failQueuePair(state, qp)
}

/** Commits, answers, and leaves nothing of the frames received so far undone. */
function settleBurst(state: State): void {
  commitNow(state)
  serveReads(state)
  sendAcks(state)
  for (let i = 0; i < state.touchedCount; i++) state.touched[i]!.touched = false
  state.touchedCount = 0
}

/** Ends the burst. Returns 1 if there is lazy work for `idle`, else 0. */
export function settle(state: State): number {
  settleBurst(state)
  // A part that had no save energy at power-on starts when it has.
  if (state.refused === NOT_ARMED && isArmed(state)) boot(state)
  serveManagement(state)
  run(state.list)
  return state.commit.dirtyLanes.includes(1) ? 1 : 0
}

/**
 * Lazy work, when no frame waits: clears lanes, gives up messages that stopped half-way (fault N8),
 * scrubs a few records. Returns 1 if more is to be done soon.
 */
export function idle(state: State, now: number): number {
  clearLanes(state.commit)
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null && isStalled(qp, now)) failQueuePair(state, qp)
  }
  return scrub(state)
}
