/**
 * A queue pair of the local card, as the verbs have it.
 *
 * Invariant: the number on the wire is the card's, and the PSN that the peer begins with is ours.
 */

import { BATCH_ELEMENT_BYTES_MAX, BATCH_ELEMENTS_MAX } from '../../../firmware/board/limits.ts'
import type { Depths } from '../../../firmware/wire/capability.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { Endpoint } from '../../base/wire.ts'
import { grantedOf } from '../../verbs/requests.ts'
import { totalOf } from '../../verbs/work.ts'
import type { PeerAttributes, SendRequest } from '../../way/verbs.ts'
import type { PairPort, Posted, PostedReceive } from '../../way/verbs-way.ts'
import { peerOf } from '../control.ts'
import type { CardQueuePair as CardPair } from '../queues/card-queue-pair.ts'
import type { ReceiveElement, SendElement } from './completions.ts'

export class PciePair implements PairPort {
  /** The local card makes the packets. */
  readonly canTag = false
  onEnded: (fault: string) => void = () => {}
  private readonly card: CardPair
  /** The DPU that is behind the local card; null for the local card itself. */
  private readonly peer: Endpoint | null

  constructor(card: CardPair, peer: Endpoint | null) {
    this.card = card
    this.peer = peer
    card.onEnded = (fault) => this.onEnded(fault)
  }

  get qpNum(): number {
    return this.card.number === 0 ? this.card.send.queue : this.card.number
  }

  get isConnected(): boolean {
    return this.card.type === 'connected'
  }

  get depths(): Depths {
    return this.card.depths
  }

  get end(): string | null {
    return this.card.end
  }

  /** Nobody receives from the local card. */
  check({ wrId, opcode, batchId }: SendRequest): void {
    if (batchId !== undefined) {
      throw new ArgumentError(`request ${wrId}: over a card a query names an operation`)
    }
    const isMessage = opcode.startsWith('SEND') || opcode === 'RDMA_WRITE_WITH_IMM'
    if (this.isConnected || !isMessage) return
    throw new ArgumentError(`request ${wrId}: ${opcode} to the local card`)
  }

  async ready(peer: PeerAttributes | null, agreed: Depths | null): Promise<void> {
    if (!this.isConnected) return
    const at = peer?.at ?? this.peer
    if (peer === null || at === null) {
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: a connected one has a peer`)
    }
    await this.card.ready(peerOf(grantedOf(peer, agreed), peer.rqPsn, at))
  }

  post(list: readonly Posted[]): void {
    for (const posted of [...list].reverse()) checkBurst(posted)
    const { qpNum } = this
    const works = list.map((posted): SendElement => ({ ...posted.request, posted, qpNum }))
    this.card.post(...works)
  }

  postReceive(list: readonly PostedReceive[]): void {
    const { qpNum } = this
    const works = list.map((received): ReceiveElement => {
      return { range: received.range, received, qpNum }
    })
    this.card.postReceive(...works)
  }

  async setError(): Promise<void> {
    await this.card.setError()
  }

  async destroy(): Promise<void> {
    await this.card.destroy()
  }
}

/** Throws PERDURE_ARGUMENT where the card would not take the burst of a record as a whole. */
function checkBurst({ wrId, request: { batch, data } }: Posted): void {
  if (batch === undefined) return
  if (batch.left >= BATCH_ELEMENTS_MAX) {
    throw new ArgumentError(`request ${wrId}: batch: at most ${BATCH_ELEMENTS_MAX} in a list`)
  }
  if (totalOf(data) > BATCH_ELEMENT_BYTES_MAX) {
    const most = `at most ${BATCH_ELEMENT_BYTES_MAX} bytes`
    throw new ArgumentError(`request ${wrId}: batch: ${most} over the queues of a card`)
  }
}
