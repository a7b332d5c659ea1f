// hot path
/**
 * The core: frames in, commands out. It has no I/O of its own, no clock and no randomness.
 *
 * **Every burst is settled before the next one is received.** `receive` any number of times up to
 * BURST_FRAMES, then `settle`; what the core wants to be stored or sent has then left through
 * command lists (hal.ts), in their order. The same core runs on the DPU, in the emulator, and in a
 * plain Node test in virtual time.
 *
 * Invariant: no frame of any content reaches an assert; a frame that is refused is counted
 * under the name of its fault, and has changed nothing but its queue pair's state.
 */

import type { BatchState } from './batch/context.ts'
import type { BoardState } from './board/context.ts'
import { count, isArmed } from './board/context.ts'
import {
  CONGESTION,
  CONGESTION_MARK,
  DUPLICATE,
  FAULTS,
  type Fault,
  FRAME_SHORT,
  HELD_BACK,
  ICRC,
  LINUX_FLUSH_ICRC,
  MESSAGE_TIME,
  NO_TAG,
  NOT_ARMED,
  NOT_FOR_US,
  NOT_READY,
  NOT_ROCE,
  PAGE_ABSENT,
  PASS,
  QP_ERROR_STATE,
  UNKNOWN_QP,
  WRONG_TRANSPORT,
} from './board/fault.ts'
import { ICRC_GOOD, ICRC_GOOD_LINUX_FLUSH, TAG_GOOD } from './board/hal.ts'
import { NOTIFICATION_US, QUEUE_PAIRS, TRANSMIT_FRAMES } from './board/limits.ts'
import { drain, refuseQueuePair, runBurst, touch } from './burst/burst.ts'
import type {
  BurstState,
  GatherState,
  OrderedState,
  QueueState,
  ReceiptState,
  RequestState,
  ResidencyState,
  ScrubState,
  ThroughState,
} from './burst/context.ts'
import { receiveCongestion, receiveResponse, serveInitiators } from './burst/initiator.ts'
import { takeSlice } from './burst/slice.ts'
import { failQueuePair, isStalled, noteMessage, stallWaitUs } from './burst/staging.ts'
import { comesAgainUs } from './burst/through-job.ts'
import { clearLanes } from './commit/commit.ts'
import type { CommitState } from './commit/context.ts'
import { tickConnections } from './connect/clock.ts'
import type { ConnectState } from './connect/context.ts'
import { receiveNeighbour } from './connect/neighbours.ts'
import { connectionsWaitUs } from './connect/table.ts'
import { commitNow, sendAcks } from './engine/group.ts'
import type { HostState } from './host/host-state.ts'
import { boot } from './manage/boot.ts'
import type { ManageState } from './manage/context.ts'
import { receiveManagement, serveHostCalls, serveManagement } from './manage/control.ts'
import { serveHealth } from './manage/health.ts'
import { regionJobUs, serveRegionJob } from './manage/region-job.ts'
import type { MemoryState } from './medium/context.ts'
import { serveRelays } from './placement/relay.ts'
import { scrub, scrubWaitUs } from './placement/scrub.ts'
import { serveThrough, timeThrough } from './placement/through.ts'
import { serveNotices } from './queues/batch-notices.ts'
import { serveHostPairs } from './queues/pairs.ts'
import { endQueues, serveQueues } from './queues/queues.ts'
import { receiveAtomic, receiveAtomicWrite } from './respond/atomic.ts'
import { keepCollected, serveBatches, storeCollected } from './respond/batch.ts'
import { receiveDuplicate } from './respond/duplicate.ts'
import { receiveFlush } from './respond/flush.ts'
import { serveHanded } from './respond/handed.ts'
import { receivePersist } from './respond/persist.ts'
import { receiveQuery } from './respond/query.ts'
import { receiveRead } from './respond/read.ts'
import { receiveSend } from './respond/receives.ts'
import { serveOrdered } from './respond/rounds.ts'
import { pausedWaitUs, serveStreams } from './respond/stream.ts'
import { receiveWrite } from './respond/write.ts'
import type { SessionState } from './session/context.ts'
import { noteRefusal } from './session/refusals.ts'
import { receiveResidency } from './status/associate.ts'
import { isTelling, receiveTold, serveWatches } from './status/hearing.ts'
import { serveHints } from './status/prefetch.ts'
import { serveResidency } from './status/telling.ts'
import { answer, notifyCongestion } from './transport/acknowledge.ts'
import type { TransportState } from './transport/context.ts'
import {
  findQueuePair,
  holdBack,
  isHeldBack,
  NO_JOB,
  type QueuePair,
  STATE_OPEN,
} from './transport/queue-pair.ts'
import { checkPeer, checkSequence, judgeRequest } from './transport/responder.ts'
import { NAK_SEQUENCE, rnrSyndrome } from './wire/aeth.ts'
import type { WireState } from './wire/context.ts'
import { ETH_DESTINATION } from './wire/ethernet.ts'
import { IPV4_DESTINATION } from './wire/ipv4.ts'
import { IPV6_DESTINATION } from './wire/ipv6.ts'
import { MANAGEMENT_QP } from './wire/management.ts'
import {
  ATOMIC,
  ATOMIC_WRITE,
  CNP,
  FLUSH,
  has,
  type OpcodeMask,
  type OpcodeRow,
  PERSIST,
  PREFETCH_HINT,
  RC_FLUSH,
  READ,
  RESIDENCY,
  RESPONSE,
  SEND,
  WRITE,
} from './wire/opcode.ts'
import { checkPacket, type Packet } from './wire/packet.ts'

/**
 * Everything that one DPU holds while it has power, made once at the start; nothing is added later.
 * The sum of all slices: who is called from here sees those that it names.
 */
export type State = BoardState &
  WireState &
  MemoryState &
  CommitState &
  TransportState &
  BatchState &
  HostState &
  BurstState &
  OrderedState &
  GatherState &
  ReceiptState &
  ThroughState &
  RequestState &
  QueueState &
  ResidencyState &
  ScrubState &
  ConnectState &
  SessionState &
  ManageState

/** Answers that one frame may cause, at the most. */
const ANSWERS_PER_FRAME = 4

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
  if (state.answers.used > TRANSMIT_FRAMES - ANSWERS_PER_FRAME) runBurst(state)
  state.connections.nowUs = now
  const packet = state.packet
  let fault = checkPacket(packet, state.bytes, at, length)
  if (fault === NOT_ROCE) {
    fault = receiveNeighbour(state, at, length)
    if (fault !== PASS) count(state, fault)
    return
  }
  if (fault === PASS) fault = destinationFault(state, packet)
  const standard = (flags & ICRC_GOOD) !== 0
  if (fault === PASS && !standard) fault = linuxFlushFault(state, packet, flags)
  if (fault === PASS) fault = dispatch(state, packet, flags, now)
  if (fault === NO_TAG) noteRefusal(state, fault, packet)
  if (fault !== PASS) count(state, fault)
}

/** Is the frame addressed to this port? */
function destinationFault(state: State, packet: Packet): Fault {
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

/** A FLUSH of Linux has an ICRC of its own (wire-format 2.5, 9.4). */
function linuxFlushFault(state: State, packet: Packet, flags: number): Fault {
  const linux = packet.opcode === RC_FLUSH && (flags & ICRC_GOOD_LINUX_FLUSH) !== 0
  if (!linux || state.facts.strictIcrc) return ICRC
  count(state, LINUX_FLUSH_ICRC)
  return PASS
}

function dispatch(state: State, packet: Packet, flags: number, now: number): Fault {
  if (packet.destQp === MANAGEMENT_QP) return receiveManagement(state, packet)
  const qp = findQueuePair(state.queuePairs, packet.destQp)
  if (qp === null) return UNKNOWN_QP
  if ((flags & TAG_GOOD) !== qp.tagFlag) return NO_TAG
  packet.payloadLength -= qp.tagBytes
  if (packet.payloadLength < 0) return FRAME_SHORT
  const row = packet.row
  if (row !== null && row.transport === 'ud') return WRONG_TRANSPORT
  const fault = checkPeer(qp, packet, state.bytes, state.words)
  if (fault !== PASS) return fault
  qp.heardUs = now
  if (state.bytes[packet.ipAt + 1] !== 0 && isMarked(state, packet)) tellCongestion(state, qp, now)
  if (packet.opcode === CNP) {
    receiveCongestion(state, qp, now)
    return CONGESTION
  }
  if (packet.opcode === RC_FLUSH) qp.linuxFlush = (flags & ICRC_GOOD) === 0
  if (row !== null && (row.properties & RESPONSE) !== 0) {
    return receiveResponse(state, qp, packet, now)
  }
  return receiveRequest(state, qp, packet, row, now)
}

/** Did the packet meet congestion on its way (ECN 11, RFC 3168)? */
function isMarked(state: State, packet: Packet): boolean {
  const traffic = state.bytes[packet.ipAt + 1]!
  return ((packet.ipVersion === 4 ? traffic : traffic >> 4) & 3) === 3
}

/** The sender is told, not more often than it can be of use (wire-format 3.9). */
function tellCongestion(state: State, qp: QueuePair, now: number): void {
  count(state, CONGESTION_MARK)
  if (now - qp.notifiedUs < NOTIFICATION_US) return
  qp.notifiedUs = now
  notifyCongestion(state.answers, qp)
}

/** A request, in the order of wire-format 3.3 from step 5 on. The fault is answered here. */
function receiveRequest(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow | null,
  now: number,
): Fault {
  if (qp.heldBackPsn >= 0 && isHeldBack(qp, packet.psn)) return HELD_BACK
  let fault = checkSequence(qp, packet)
  if (fault === DUPLICATE) {
    if (row !== null) fault = receiveDuplicate(state, qp, packet, row)
    if (fault === PAGE_ABSENT) refuseAgain(state, qp, packet)
    if (fault === PAGE_ABSENT || fault === HELD_BACK) holdBack(qp, packet.psn, packet.psn)
    return fault
  }
  if (qp.stream.accepted) {
    holdBack(qp, qp.expectedPsn, packet.psn)
    return HELD_BACK
  }
  if (fault === PASS) fault = judgeRequest(qp, packet)
  if (fault === PASS) fault = executeRequest(state, qp, packet, row!, now)
  if (fault !== PASS) refuseRequest(state, qp, packet, fault)
  return fault
}

/** A repeated READ of a page that is away: a gap behind it has not been told of by that. */
function refuseAgain(state: State, qp: QueuePair, packet: Packet): void {
  const { nakSent } = qp
  refuseRequest(state, qp, packet, PAGE_ABSENT)
  qp.nakSent = nakSent
}

/** What is acknowledged by a plain ACK. */
const MESSAGE = (PERSIST | WRITE | SEND) as OpcodeMask

function executeRequest(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const is = row.properties
  // Nearly every request, and nothing in front of it to wait for.
  if ((is & PERSIST) !== 0 && qp.unanswered === 0) {
    return receivePersist(state, qp, packet, row)
  }
  // What is collected of a batch was sent before any other request.
  if (qp.batching && !has(is, PERSIST)) storeCollected(state, qp)
  if (has(is, MESSAGE)) return executeMessage(state, qp, packet, row, now)
  if (has(is, READ)) return receiveRead(state, qp, packet, row, false)
  if (has(is, ATOMIC)) return receiveAtomic(state, qp, packet, row)
  if (has(is, FLUSH)) return receiveFlush(state, qp, packet, row)
  if (has(is, ATOMIC_WRITE)) return executeAtomicWrite(state, qp, packet, row)
  if (packet.opcode === PREFETCH_HINT) return receiveResidency(state, qp, packet, row, now)
  // What stands in front of a question is durable, or refused, before it is answered.
  settleBurst(state, qp)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  if (has(is, RESIDENCY)) {
    if (isTelling(state, qp, packet, row)) return receiveTold(state, qp, packet, row, now)
    return receiveResidency(state, qp, packet, row, now)
  }
  return receiveQuery(state, qp, packet, row)
}

function executeAtomicWrite(state: State, qp: QueuePair, packet: Packet, row: OpcodeRow): Fault {
  // Through the caches of the host it is stored at once, and never before a FLUSH in front of it.
  if (qp.unanswered > 0 && state.through.agent.attached) settleBurst(state, null)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  return receiveAtomicWrite(state, qp, packet, row)
}

function executeMessage(
  state: State,
  qp: QueuePair,
  packet: Packet,
  row: OpcodeRow,
  now: number,
): Fault {
  const is = row.properties
  // Nothing is stored before what stands in front of it: an atomic, a FLUSH and its fence.
  if (qp.unanswered > 0) settleBurst(state, null)
  if (qp.state !== STATE_OPEN) return QP_ERROR_STATE
  if (has(is, PERSIST)) return receivePersist(state, qp, packet, row)
  if (has(is, WRITE)) return receiveWrite(state, qp, packet, row, now)
  return receiveSend(state, qp, packet, row)
}

/**
 * Answers a refused request. Everything accepted before is answered first; after a fatal NAK there
 * is silence (wire-format 3.4).
 */
function refuseRequest(state: State, qp: QueuePair, packet: Packet, fault: Fault): void {
  const row = FAULTS[fault]!
  if (row.answer !== 'nak') return
  // A NAK acknowledges what is before it: that must be durable where this is withheld.
  touch(state, qp)
  settleBurst(state, qp)
  if (qp.state !== STATE_OPEN) return
  touch(state, qp)
  // A gap, or a receiver that is not ready: said once, until there is progress.
  const fatal = row.code > NAK_SEQUENCE
  if (!fatal) qp.nakSent = true
  const ahead = !fatal && fault !== PAGE_ABSENT
  const { waitsFor } = qp.cached
  qp.cached.waitsFor = NO_JOB
  const isTimed = fault === NOT_READY && waitsFor !== NO_JOB
  const { nowUs } = state.connections
  const syndrome = isTimed
    ? rnrSyndrome(comesAgainUs(state.through.jobs, waitsFor, nowUs))
    : row.code
  answer(state.answers, qp, ahead ? qp.expectedPsn : packet.psn, syndrome)
  if (fatal) failQueuePair(state, qp)
}

/**
 * Commits, answers, and leaves nothing of the frames received so far undone, except for long READs.
 * `urgent` is about to be refused, or told of a gap.
 */
function settleBurst(state: State, urgent: QueuePair | null): void {
  commitNow(state)
  serveOrdered(state, urgent)
  sendAcks(state)
  for (let i = 0; i < state.touchedCount; i++) {
    const qp = state.touched[i]!
    qp.touched = false
    noteMessage(state, qp)
  }
  state.touchedCount = 0
}

/** Ends the burst. Returns the µs after which `idle` is wanted; 0 if it is not. */
export function settle(state: State): number {
  const now = state.connections.nowUs
  state.regionJob.sliced = false
  // First, so that records of the host and of the network share a group and its fences.
  serveQueues(state, now)
  settleBurst(state, null)
  if (state.batches.inFrames > 0) keepCollected(state)
  if (state.streaming || state.pausedUs <= now) serveStreams(state)
  // A part that had no save energy at power-on starts when it has.
  if (state.refused === NOT_ARMED && isArmed(state)) boot(state)
  if (state.managementsCount > 0) serveManagement(state)
  const ownUs = serveStations(state, now)
  const more = state.streaming || state.commit.dirtyLanes.includes(1)
  const throughUs = isThroughLive(state) ? serveJobs(state, now) : 0
  // Behind nearly every group: nothing is sooner.
  if (more) return 1
  const waitUs = sooner(throughUs, clocksWaitUs(state, now))
  const lazyUs = sooner(regionJobUs(state), scrubWaitUs(state))
  return sooner(lazyUs, sooner(ownUs, waitUs))
}

/**
 * Lazy work, when no frame waits: clears lanes, gives up messages and batches that stopped half-way
 * (fault N8), goes on with long READs, scrubs a few records, repeats what RDMA-CM waits for.
 * Returns as `settle` does.
 */
export function idle(state: State, now: number): number {
  state.regionJob.sliced = false
  clearLanes(state.commit)
  giveUpMessages(state, now)
  tickConnections(state, now)
  serveStreams(state)
  serveQueues(state, now)
  const ownUs = serveStations(state, now)
  timeThrough(state, now)
  const waitUs = sooner(serveJobs(state, now), clocksWaitUs(state, now))
  if (state.streaming) return 1
  return sooner(serveSlice(state), sooner(ownUs, waitUs))
}

/** A slice of what takes long, if a call of the host has not done one; else the next records. */
function serveSlice(state: State): number {
  if (!takeSlice(state)) return sooner(regionJobUs(state), scrubWaitUs(state))
  const workUs = serveRegionJob(state)
  return workUs > 0 ? workUs : scrub(state)
}

/** Ends the queue pairs whose messages stopped half-way; looks when the next one may be. */
function giveUpMessages(state: State, now: number): void {
  const { places } = state.queuePairs
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = places[i]!
    if (qp !== null && isStalled(qp, now)) giveUpMessage(state, qp)
  }
  state.stallUs = Infinity
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = places[i]!
    if (qp !== null) noteMessage(state, qp)
  }
}

/** The µs after which a message may have to be given up, or RDMA-CM repeats; 0 is never. */
function clocksWaitUs(state: State, now: number): number {
  return sooner(stallWaitUs(state, now), connectionsWaitUs(state.connections))
}

/** Ends a queue pair whose message stopped half-way, and tells its peer. */
function giveUpMessage(state: State, qp: QueuePair): void {
  touch(state, qp)
  settleBurst(state, qp)
  refuseQueuePair(state, qp, qp.expectedPsn, MESSAGE_TIME)
}

/**
 * Calls each station that has something, in this order, and runs what they put into the list: a
 * burst that only brings records calls none. What a station sends goes out by the ones after it:
 * hints and notices about memory are posted, and the initiators send them. Returns as `settle`
 * does.
 */
function serveStations(state: State, now: number): number {
  const { hostWork } = state
  const { notices } = state.batches
  let waitUs = 0
  if (state.host.calls.count > 0) serveHostCalls(state)
  if (state.hints.count > 0 && serveHints(state, now)) waitUs = 1
  if (state.batches.open > 0) waitUs = sooner(waitUs, serveBatches(state, now))
  if (notices.dueUs !== Infinity) waitUs = sooner(waitUs, serveNotices(state, now))
  if (hostWork.followed > 0) waitUs = sooner(waitUs, serveWatches(state, now))
  if (state.healthWatches.asked > 0) waitUs = sooner(waitUs, serveHealth(state, now))
  if (state.residency.taken > 0) waitUs = sooner(waitUs, serveResidency(state, now))
  if (state.initiators.length > 0) waitUs = sooner(waitUs, serveInitiators(state, now))
  if (hostWork.look || hostWork.listedCount > 0) waitUs = sooner(waitUs, serveHostPairs(state))
  if (state.relays.arrived > 0) serveRelays(state)
  if (state.pausedUs !== Infinity) waitUs = sooner(waitUs, pausedWaitUs(state))
  const queuesUs = endQueues(state)
  drain(state)
  // A queue pair that ended behind their turn has left some.
  if (notices.dueUs === 0) waitUs = 1
  return queuesUs === 0 ? waitUs : sooner(waitUs, queuesUs)
}

/** Are there jobs of placement through, or an agent who may have gone? */
function isThroughLive({ batches, through }: State): boolean {
  return through.live || through.agent.attached || batches.handing > 0
}

/** Goes on with those jobs, and with what batches hand on to them. Returns as `settle` does. */
function serveJobs(state: State, now: number): number {
  const waitUs = serveThrough(state, now)
  return state.batches.handing > 0 && serveHanded(state, now) ? 1 : waitUs
}

/** The sooner of two waits, µs; 0 is never. */
function sooner(one: number, other: number): number {
  if (one === 0 || other === 0) return one + other
  return one < other ? one : other
}
