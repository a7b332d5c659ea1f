/**
 * Opening the initiating side of a queue pair (initiator.ts): memory is taken here, once.
 *
 * Invariant: there are at most INITIATORS at once; one that has nothing to do makes room,
 * unless it is kept for a link, and its queue pair goes on with the PSN that it had come to. A peer
 * that stays not ready is given up in time: what is sent to it keeps memory that others need. That
 * of a pair of our host is opened as its records need it, whoever is first to send something there:
 * opened for a notice it would believe no receipt.
 */

import { COPIES_MAX, INITIATORS, WORKS } from '../board/limits.ts'
import type { FrameContext } from '../transport/context.ts'
import type { Psn } from '../transport/psn.ts'
import type { QueuePair } from '../transport/queue-pair.ts'
import { createRequester, unresolved } from '../transport/requester.ts'
import { blankAtomic } from '../wire/atomic.ts'
import { blankBseth } from '../wire/block-size.ts'
import { blankFeth } from '../wire/feth.ts'
import { blankMseth } from '../wire/memory-status.ts'
import { blankPweth } from '../wire/persist.ts'
import { blankPfeth } from '../wire/prefetch.ts'
import { blankReth, type Reth } from '../wire/reth.ts'
import type { RequestState, WorkContext } from './context.ts'
import { emit, findInitiator, removeInitiator } from './initiator.ts'
import type { Initiator, Work } from './work.ts'

/** How long a peer may stay not ready, µs. */
const RNR_PATIENCE_US = 10_000_000

/** What an initiator is opened with. */
export interface InitiatorOptions {
  /** Incarnation that the peer's PERSIST_ACKs must name; 0 where it sends none. */
  readonly incarnation: number
  /** Requests of ours that the peer keeps at once. */
  readonly readDepth: number
  /** It stays for as long as its queue pair does, also when it has nothing to do. */
  readonly kept: boolean
}

/** Gives the queue pair an initiator, or finds the one that it has; null if all are in use. */
export function openInitiator(
  state: WorkContext,
  qp: QueuePair,
  options: InitiatorOptions,
): Initiator | null {
  const found = findInitiator(state, qp)
  if (found !== null) return found
  if (state.initiators.length === INITIATORS && !closeIdle(state)) return null
  const pair = state.hostWork.pairs[qp.index]!
  const initiator = createInitiator(state, qp, pair.qp === qp ? pair : options)
  state.initiators.push(initiator)
  return initiator
}

function createInitiator(state: FrameContext, qp: QueuePair, options: InitiatorOptions): Initiator {
  const { incarnation, readDepth, kept } = options
  const works: Work[] = []
  for (let i = 0; i < WORKS; i++) works.push(blankWork())
  const requester = createRequester(
    {
      ...{ firstPsn: qp.requesterPsn, pathMtu: qp.pathMtu, depth: WORKS, incarnation, readDepth },
      sendDepth: qp.sendDepth,
      rnrPatienceUs: RNR_PATIENCE_US,
    },
    {
      emit: (request, index, psn, ackRequest) => {
        emit(state, qp, works[request.tag]!, request, index, psn, ackRequest)
      },
      received: (request) => works[request.tag]!.owner!.received(state, works[request.tag]!),
      data: (request, offset, _bytes, at, length) => {
        const work = works[request.tag]!
        work.owner!.data?.(state, work, offset, at, length)
      },
      complete: (request) => {
        const work = works[request.tag]!
        const owner = work.owner!
        owner.done(state, work, request)
        work.owner = null
      },
    },
  )
  return { qp, requester, works, kept }
}

/** Makes room: an initiator that has nothing to do is not needed before it has. */
function closeIdle(state: RequestState): boolean {
  for (let i = 0; i < state.initiators.length; i++) {
    const { qp, requester, kept } = state.initiators[i]!
    // One that is promised a confirmation in this burst is not idle.
    if (kept || unresolved(requester) > 0 || qp.unanswered > 0) continue
    qp.requesterPsn = requester.nextPsn as Psn
    removeInitiator(state, i)
    return true
  }
  return false
}

function blankWork(): Work {
  const extensions: Reth[] = []
  for (let i = 1; i < COPIES_MAX; i++) extensions.push(blankReth())
  return {
    owner: null,
    item: 0,
    from: 0,
    length: 0,
    immediate: 0,
    solicited: false,
    reth: blankReth(),
    pweth: blankPweth(),
    extensions,
    extensionCount: 0,
    expectHigh: 0,
    expectLow: 0,
    guard: 0,
    atomic: blankAtomic(),
    feth: blankFeth(),
    mseth: blankMseth(),
    bseth: blankBseth(),
    pfeth: blankPfeth(),
  }
}
