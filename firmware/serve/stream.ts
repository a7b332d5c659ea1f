// hot path
/**
 * Long READs: up to 2^31 bytes, answered in turns between the bursts (IBTA 9.7.5).
 *
 * What always holds:
 * - In a turn one queue pair sends READ_PACKETS packets; the queue pairs take turns, so a long READ
 *   keeps nobody waiting for longer than that.
 * - Until it is answered, no further request of its queue pair is taken: they are dropped as if
 *   they were lost, and when the READ is done a NAK (0x60) asks for them.
 * - The key is looked at again in every turn, and its bytes are delivered once before they are
 *   sent: a turn that cannot be is refused at the PSN of its first packet.
 * - A duplicate of a part of it begins anew from there: the peer lost what came behind.
 */

import { PASS } from '../fault.ts'
import { QUEUE_PAIRS, READ_PACKETS } from '../limits.ts'
import { REMOTE_READ } from '../memory/region.ts'
import type { State } from '../state.ts'
import { answer, roomFor } from '../transport/acknowledge.ts'
import { psnAdd } from '../transport/psn.ts'
import { type QueuePair, STATE_OPEN } from '../transport/queue-pair.ts'
import { NAK_SEQUENCE } from '../wire/aeth.ts'
import { accessOf } from './access.ts'
import { refuseQueuePair, runBurst } from './burst.ts'
import { checkReadable, responseOpcode, sendResponse } from './read.ts'

/** Gives the next queue pair with a long READ its turn. True if there is more to do. */
export function serveStreams(state: State): boolean {
  if (!state.streaming) return false
  const places = state.queuePairs.places
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const place = (state.streamNext + i) & (QUEUE_PAIRS - 1)
    const qp = places[place]!
    if (qp === null || !qp.stream.active) continue
    state.streamNext = place + 1
    serveTurn(state, qp)
    return true
  }
  state.streaming = false
  return false
}

function serveTurn(state: State, qp: QueuePair): void {
  const stream = qp.stream
  const mtu = qp.pathMtu
  const at = stream.sent * mtu
  const count = Math.min(READ_PACKETS, stream.packets - stream.sent)
  const first = psnAdd(stream.psn, stream.sent)
  const fault = accessOf(state, qp, stream.rkey, REMOTE_READ)
  if (fault !== PASS) {
    refuseQueuePair(state, qp, first, fault)
    return
  }
  const length = Math.min(count * mtu, stream.length - at)
  checkReadable(state, qp, first, stream.from + at, length)
  for (let i = 0; i < count; i++) {
    if (roomFor(state.answers) === 0) runBurst(state)
    if (qp.state !== STATE_OPEN) return
    const index = stream.sent + i
    const bytes = Math.min(mtu, length - i * mtu)
    const opcode = responseOpcode(index, stream.packets)
    const psn = psnAdd(stream.psn, index)
    sendResponse(state, qp, opcode, psn, stream.msn, stream.from + index * mtu, bytes, bytes)
  }
  runBurst(state)
  if (qp.state !== STATE_OPEN) return
  stream.sent += count
  if (stream.sent === stream.packets) endStream(state, qp)
}

/** The READ is answered; the requests behind it are asked for, if there were any. */
function endStream(state: State, qp: QueuePair): void {
  qp.stream.active = false
  qp.stream.accepted = false
  qp.unanswered -= 1
  if (!qp.stream.heldBack) return
  qp.stream.heldBack = false
  qp.nakSent = true
  answer(state.answers, qp, qp.expectedPsn, NAK_SEQUENCE)
}
