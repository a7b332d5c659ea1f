// hot path
/**
 * Long READs: up to 2^31 bytes, answered in turns between the bursts (IBTA 9.7.5).
 *
 * Invariants:
 * - In a turn one queue pair sends READ_PACKETS packets; the queue pairs take turns, so a long READ
 *   keeps nobody waiting for longer than that.
 * - Until it is answered, no request behind it is taken, new or repeated: these are held back, and
 *   when the READ is done an RNR NAK asks for the first of them. Nothing was lost, so nothing says
 *   so; and what is still on its way behind that one waits until the peer has gone back.
 * - The key is looked at again in every turn, and its bytes are delivered once before they are
 *   sent: a turn that cannot be is refused at the PSN of its first packet.
 * - A duplicate of a part of it begins again from there: the peer lost what came behind.
 * - Of memory registered on demand a turn sends what is there, and every turn looks the pages up
 *   again. Where the next page is away, the READ pauses, and keeps nobody waiting, until pages have
 *   come, or it is time to ask for that one again.
 */

import type { BoardState } from '../board/context.ts'
import { type Fault, PAGE_ABSENT, PASS } from '../board/fault.ts'
import { QUEUE_PAIRS, READ_PACKETS } from '../board/limits.ts'
import { refuseQueuePair, runBurst } from '../burst/burst.ts'
import type { OrderedState, ServeContext } from '../burst/context.ts'
import { accessOf } from '../engine/locate.ts'
import type { MemoryState } from '../medium/context.ts'
import { KIND_ON_DEMAND, REMOTE_READ, type Region } from '../medium/region.ts'
import { TELL_AGAIN_US } from '../medium/translation.ts'
import { BYTES_AT_ONCE, checkPages, pagesFault, reachOf, wakePaused } from '../status/on-demand.ts'
import { answer, transmitRoom } from '../transport/acknowledge.ts'
import type { TransportState } from '../transport/context.ts'
import { psnAdd } from '../transport/psn.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { checkReadable, responseOpcode, sendResponse } from './read.ts'

/** An RNR NAK of the shortest time, 0.01 ms: what waited for its turn may come now. */
const RNR_NAK_NEXT = 0x21

/** Gives the next queue pair with a long READ its turn. */
export function serveStreams(state: ServeContext): void {
  if (state.pausedUs <= state.connections.nowUs) wakePaused(state)
  if (!state.streaming) return
  const places = state.queuePairs.places
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const place = (state.streamNext + i) & (QUEUE_PAIRS - 1)
    const qp = places[place]!
    if (qp === null || !qp.stream.active || qp.stream.paused) continue
    state.streamNext = place + 1
    serveTurn(state, qp)
    return
  }
  state.streaming = false
}

function serveTurn(state: ServeContext, qp: QueuePair): void {
  const stream = qp.stream
  const mtu = qp.pathMtu
  const at = stream.sent * mtu
  let count = Math.min(READ_PACKETS, stream.packets - stream.sent)
  const first = psnAdd(stream.psn, stream.sent)
  let fault = accessOf(state, qp, stream.rkey, REMOTE_READ)
  const region = state.located.region
  const paged = region !== null && region.kind === KIND_ON_DEMAND ? region : null
  if (fault === PASS && paged !== null) fault = awaitPages(state, qp, paged, stream.from + at)
  if (fault === PAGE_ABSENT) return
  if (fault !== PASS) {
    refuseQueuePair(state, qp, first, fault)
    return
  }
  if (paged !== null) count = packetsThere(state, qp, paged, count)
  const length = Math.min(count * mtu, stream.length - at)
  if (paged !== null) checkPages(state, qp, first, paged, stream.from + at, length)
  else checkReadable(state, qp, first, stream.from + at, length)
  for (let i = 0; i < count; i++) {
    if (transmitRoom(state.answers) === 0) runBurst(state)
    if (qp.state !== STATE_OPEN) return
    const index = stream.sent + i
    const bytes = Math.min(mtu, length - i * mtu)
    const opcode = responseOpcode(index, stream.packets)
    const psn = psnAdd(stream.psn, index)
    const from = stream.from + index * mtu
    sendResponse(state, qp, opcode, psn, stream.msn, paged, from, bytes, bytes)
  }
  runBurst(state)
  if (qp.state !== STATE_OPEN) return
  stream.sent += count
  if (stream.sent === stream.packets) endStream(state, qp)
}

/** The READ is answered; the requests behind it are asked for, if there were any. */
function endStream(state: TransportState, qp: QueuePair): void {
  qp.stream.active = false
  qp.stream.accepted = false
  qp.unanswered -= 1
  if (qp.heldBackPsn >= 0) answer(state.answers, qp, qp.heldBackFirst, RNR_NAK_NEXT)
}

/** Is the page there that the next response needs? If not, the READ pauses: PAGE_ABSENT. */
function awaitPages(state: ServeContext, qp: QueuePair, region: Region, offset: number): Fault {
  const { stream } = qp
  const left = stream.length - stream.sent * qp.pathMtu
  const now = state.connections.nowUs
  const fault = pagesFault(state, qp, region, offset, Math.min(qp.pathMtu, left), left, now)
  if (fault === PAGE_ABSENT) {
    stream.paused = true
    state.pausedUs = Math.min(state.pausedUs, now + TELL_AGAIN_US)
  }
  return fault
}

/** How many of the next `count` responses have their pages, one at the least. */
function packetsThere(state: MemoryState, qp: QueuePair, region: Region, count: number): number {
  const { stream, pathMtu } = qp
  const at = stream.sent * pathMtu
  const span = Math.min(count * pathMtu, stream.length - at, BYTES_AT_ONCE)
  const reach = reachOf(state, region, stream.from + at, span)
  return reach === stream.length - at ? count : Math.max(1, Math.floor(reach / pathMtu))
}

/** The µs after which READs that pause look again. Asked only while one does. */
export function pausedWaitUs(state: BoardState & OrderedState): number {
  return Math.max(1, Math.ceil(state.pausedUs - state.connections.nowUs))
}
