/**
 * Which regions the queue pairs of each peer may use: `readable` and `writable`, a bit for each
 * place of the table (transport/queue-pair.ts), so that a request costs one test more.
 *
 * Invariants:
 * - The bits follow the table: whenever another region gets a place, those of every queue pair are
 *   decided again. A key that was taken back there was another one.
 * - Of what a peer may not read it may change nothing.
 * - Records that clients without sessions write no session writes (connect/publish.ts).
 * - The other end of a link has nothing of us: we ask, and it answers.
 * - Of an open card everybody has every region.
 */

import { QUEUE_PAIRS } from '../board/limits.ts'
import type { MemoryState } from '../medium/context.ts'
import { KIND_ON_DEMAND, type Region } from '../medium/region.ts'
import type { TransportState } from '../transport/context.ts'
import { HOST_PEER, type QueuePair } from '../transport/queue-pair.ts'
import type { SessionState } from './context.ts'
import { mayRead, mayWrite } from './rights.ts'

/** A new queue pair gets the regions that its peer has rights to. */
export function grantAll(state: MemoryState & SessionState, qp: QueuePair): void {
  const { places } = state.regions
  for (let i = 0; i < places.length; i++) grantRegion(state, qp, i, places[i]!)
}

/**
 * The place has another region: every queue pair is granted that one, or is not. Where the region
 * is the same, and other clients write it than before, those of peers alone are (`onlyPeers`).
 */
export function grantAgain(
  state: MemoryState & TransportState & SessionState,
  index: number,
  onlyPeers = false,
): void {
  const region = state.regions.places[index]!
  for (let i = 0; i < QUEUE_PAIRS; i++) {
    const qp = state.queuePairs.places[i]!
    if (qp !== null && (!onlyPeers || qp.peer >= 0)) grantRegion(state, qp, index, region)
  }
}

/** A stock client of a card with peers has the region that its port publishes, and no other. */
export function grantOne({ sessions }: SessionState, qp: QueuePair, region: Region): void {
  if (sessions.own === null) return
  qp.readable = 1 << region.index
  qp.writable = qp.readable
}

function grantRegion(
  { sessions }: SessionState,
  qp: QueuePair,
  index: number,
  region: Region | null,
): void {
  const bit = 1 << index
  const { peer } = qp
  if (sessions.own === null) {
    qp.readable |= bit
    return
  }
  const who = peer < 0 ? null : sessions.peers[peer]!
  const isHosts = peer === HOST_PEER && region !== null && region.kind === KIND_ON_DEMAND
  const reads = who === null ? isHosts : region !== null && mayRead(who, region.name)
  const isStock = (sessions.stockRegions & bit) !== 0
  const writes = reads && (who === null || (!isStock && mayWrite(who, region!.name)))
  qp.readable = reads ? qp.readable | bit : qp.readable & ~bit
  qp.writable = writes ? qp.writable | bit : qp.writable & ~bit
}
