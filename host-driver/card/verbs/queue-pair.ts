/**
 * A queue pair of the own card, in the words of the verbs.
 *
 * Invariant: what the verbs refuse, the rings never see; the number on the wire is the
 * card's, and the PSN that the peer begins with is ours.
 */

import { BATCH_ELEMENT_BYTES_MAX, BATCH_ELEMENTS_MAX } from '../../../firmware/board/limits.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { Endpoint } from '../../base/wire.ts'
import { checkBursts } from '../../verbs/batch-work.ts'
import {
  asList,
  type CheckSge,
  checkModify,
  checkRecv,
  checkSend,
  keptRequest,
  totalOf,
} from '../../verbs/work.ts'
import { QueueEnded } from '../../way/queue-errors.ts'
import type {
  AsyncEvent,
  ModifyQp,
  PeerAttributes,
  ProtectionDomain,
  QueuePair,
  QueuePairState,
  RecvRequest,
  SendRequest,
} from '../../way/verbs.ts'
import type { PcieQueuePair as CardPair } from '../queues/queue-pair.ts'
import { receiveOf, workOf } from './work.ts'

/** READs and atomics that a peer takes at once, if it says nothing else. */
const READ_DEPTH = 16

/** The context of a queue pair, as the queue pair uses it. */
export interface PcieContext {
  /** The DPU that is behind the own card; null for the own card itself. */
  readonly peer: Endpoint | null
  tell(event: AsyncEvent): void
  forget(qp: PcieVerbsQueuePair): void
  disconnect(peerQpNum: number, qpNum: number): Promise<void>
}

/** A protection domain whose memory the card reaches. */
export interface PcieDomain extends ProtectionDomain {
  /** Throws PERDURE_ARGUMENT unless a region of this domain covers the piece. */
  readonly checkSge: CheckSge
}

export class PcieVerbsQueuePair implements QueuePair {
  readonly pd: PcieDomain
  readonly inlineMax: number
  readonly card: CardPair
  /** PSN of the peer's first request. */
  readonly rqPsn: number
  private readonly verbs: PcieContext
  private ready = false
  private peerQpNum: number | null = null
  private told = false

  constructor(
    verbs: PcieContext,
    pd: PcieDomain,
    card: CardPair,
    options: { readonly inlineMax: number; readonly rqPsn: number },
  ) {
    this.verbs = verbs
    this.pd = pd
    this.card = card
    this.inlineMax = options.inlineMax
    this.rqPsn = options.rqPsn
    card.onEnded = (fault) => this.ended(fault)
  }

  get qpNum(): number {
    return this.card.number === 0 ? this.card.send.queue : this.card.number
  }

  get state(): QueuePairState {
    if (this.card.end !== null) return 'ERR'
    return this.ready ? 'RTS' : 'INIT'
  }

  async modify(change: ModifyQp): Promise<void> {
    checkModify(change)
    if (change.state === 'ERR') {
      this.told = true
      await this.card.setError()
      return
    }
    if (this.state !== 'INIT') {
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: it is in ${this.state}`)
    }
    if (this.card.type === 'connected') await this.connect(change.peer)
    this.ready = true
  }

  private async connect(peer: PeerAttributes | null): Promise<void> {
    const at = peer?.at ?? this.verbs.peer
    if (peer === null || at === null) {
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: a connected one has a peer`)
    }
    this.peerQpNum = peer.destQpNum
    await this.card.ready({
      queuePair: peer.destQpNum,
      peerPsn: peer.rqPsn,
      psn: peer.sqPsn,
      pathMtu: peer.pathMtu,
      incarnation: peer.incarnation,
      readDepth: READ_DEPTH,
      mac: at.mac,
      ipv4: at.ipv4,
    })
  }

  postSend(requests: SendRequest | readonly SendRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    if (!this.ready) throw new ArgumentError(`queue pair ${this.qpNum} is in INIT`)
    for (const request of list) {
      checkSend(request, this.inlineMax, this.pd.checkSge)
      if (request.batchId !== undefined) {
        throw new ArgumentError(`request ${request.wrId}: over a card a query names an operation`)
      }
      if (this.card.type === 'local') checkLocal(request)
    }
    checkBursts(list)
    const left = leftBehind(list)
    this.card.post(...list.map((request, i) => workOf(request, this.qpNum, left[i]!)))
  }

  postRecv(requests: RecvRequest | readonly RecvRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    for (const request of list) checkRecv(request, this.pd.checkSge)
    this.card.postReceive(...list.map((request) => receiveOf(request, this.qpNum)))
  }

  async destroy(): Promise<void> {
    this.told = true
    this.verbs.forget(this)
    await this.card.destroy()
    if (this.peerQpNum !== null) await this.verbs.disconnect(this.peerQpNum, this.qpNum)
  }

  private checkAlive(): void {
    const { end } = this.card
    if (end !== null) throw new QueueEnded(this.qpNum, end)
  }

  /** Its owner is told, unless it was the owner who ended it. */
  private ended(fault: string): void {
    if (this.told) return
    this.told = true
    this.verbs.tell({ type: 'QP_FATAL', qp: this, fault: fault === '' ? null : fault })
  }
}

/**
 * Records of its burst that come behind each request of a list. Throws PERDURE_ARGUMENT where the
 * card would not take the burst as a whole.
 */
function leftBehind(list: readonly SendRequest[]): number[] {
  const left: number[] = []
  for (const [i, { wrId, batch, sgList }] of [...list].reverse().entries()) {
    left.push(batch === undefined || batch.last ? 0 : left[i - 1]! + 1)
    if (left[i]! >= BATCH_ELEMENTS_MAX) {
      throw new ArgumentError(`request ${wrId}: batch: at most ${BATCH_ELEMENTS_MAX} in a list`)
    }
    if (batch !== undefined && totalOf(sgList) > BATCH_ELEMENT_BYTES_MAX) {
      const most = `at most ${BATCH_ELEMENT_BYTES_MAX} bytes`
      throw new ArgumentError(`request ${wrId}: batch: ${most} over the queues of a card`)
    }
  }
  return left.reverse()
}

/** Throws PERDURE_ARGUMENT for what is meant for a peer: nobody receives from the own card. */
function checkLocal({ wrId, opcode }: SendRequest): void {
  const isMessage = opcode.startsWith('SEND') || opcode === 'RDMA_WRITE_WITH_IMM'
  if (isMessage) throw new ArgumentError(`request ${wrId}: ${opcode} to the own card`)
}
