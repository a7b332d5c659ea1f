/**
 * A queue pair of the verbs, over whichever way has its queues.
 *
 * Invariants:
 * - What the verbs refuse the way never sees.
 * - Its owner learns once that it has ended, unless it was the owner who ended it.
 */

import { agreedDepths } from '../../firmware/transport/depths.ts'
import type { Depths } from '../../firmware/wire/capability.ts'
import { ArgumentError } from '../base/errors.ts'
import { QueueEnded } from '../way/queue-errors.ts'
import type {
  AsyncEvent,
  ModifyQp,
  ProtectionDomain,
  QueuePair,
  QueuePairState,
  RecvRequest,
  SendRequest,
} from '../way/verbs.ts'
import type { PairPort } from '../way/verbs-way.ts'
import { checkBursts, leftBehind } from './batch-work.ts'
import { postedOf, postedReceiveOf } from './requests.ts'
import { asList, type CheckSge, checkModify, checkRecv, checkSend, keptRequest } from './work.ts'

/** The context of a queue pair, as the queue pair uses it. */
export interface PairOwner {
  tell(event: AsyncEvent): void
  forget(qp: VerbsQueuePair): void
  /** Closes the connection at the peer. */
  disconnect(peerQpNum: number, qpNum: number): Promise<void>
}

/** A protection domain, and what it knows of memory. */
export interface CheckingDomain extends ProtectionDomain {
  /** Throws PERDURE_ARGUMENT unless a region of this domain covers the piece. */
  readonly checkSge: CheckSge
}

export class VerbsQueuePair implements QueuePair {
  readonly owner: PairOwner
  readonly pd: CheckingDomain
  readonly port: PairPort
  readonly inlineMax: number
  /** PSN of the peer's first request. */
  readonly rqPsn: number
  agreed: Depths | null = null
  private isReady = false
  private peerQpNum: number | null = null
  private told = false

  constructor(
    owner: PairOwner,
    pd: CheckingDomain,
    port: PairPort,
    options: { readonly inlineMax: number; readonly rqPsn: number },
  ) {
    this.owner = owner
    this.pd = pd
    this.port = port
    this.inlineMax = options.inlineMax
    this.rqPsn = options.rqPsn
    port.onEnded = (fault) => this.ended(fault)
  }

  get qpNum(): number {
    return this.port.qpNum
  }

  get depths(): Depths {
    return this.port.depths
  }

  get state(): QueuePairState {
    if (this.port.end !== null) return 'ERR'
    return this.isReady ? 'RTS' : 'INIT'
  }

  async modify(change: ModifyQp): Promise<void> {
    checkModify(change)
    if (change.state === 'ERR') {
      this.told = true
      await this.port.setError()
      return
    }
    if (this.state !== 'INIT') {
      throw new ArgumentError(`modify queue pair ${this.qpNum} to RTS: it is in ${this.state}`)
    }
    const { peer } = change
    if (this.port.isConnected) this.peerQpNum = peer?.destQpNum ?? null
    const told = this.port.isConnected ? (peer?.depths ?? null) : null
    const agreed = told === null ? null : agreedDepths(this.depths, told)
    await this.port.ready(peer, agreed)
    this.agreed = agreed
    this.isReady = true
  }

  postSend(requests: SendRequest | readonly SendRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    if (!this.isReady) throw new ArgumentError(`queue pair ${this.qpNum} is in INIT`)
    for (const request of list) {
      checkSend(request, this.inlineMax, this.pd.checkSge)
      this.port.check(request)
    }
    checkBursts(list)
    const left = leftBehind(list)
    this.port.post(list.map((request, i) => postedOf(request, left[i]!)))
  }

  postRecv(requests: RecvRequest | readonly RecvRequest[]): void {
    const list = asList(requests).map(keptRequest)
    this.checkAlive()
    for (const request of list) checkRecv(request, this.pd.checkSge)
    this.port.postReceive(list.map(postedReceiveOf))
  }

  async destroy(): Promise<void> {
    this.told = true
    this.owner.forget(this)
    await this.port.destroy()
    const { peerQpNum } = this
    // Asked twice, the peer might have given the number to another pair meanwhile.
    this.peerQpNum = null
    if (peerQpNum !== null) await this.owner.disconnect(peerQpNum, this.qpNum)
  }

  private checkAlive(): void {
    const { end } = this.port
    if (end !== null) throw new QueueEnded(this.qpNum, end)
  }

  private ended(fault: string): void {
    if (this.told) return
    this.told = true
    this.owner.tell({ type: 'QP_FATAL', qp: this, fault: fault === '' ? null : fault })
  }
}
