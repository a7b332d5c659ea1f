/**
 * The verbs over any way: protection domains, completion queues and queue pairs of one client.
 *
 * Invariants:
 * - An event is told once, and from outside of the call that brought it about.
 * - A pair has its own number and PSN before the DPU is told of them, and goes from INIT to RTS
 *   with what the DPU granted, or not at all.
 * - When a card is gone everything here has ended, and is made again by whoever wants it.
 */

import { ArgumentError } from '../base/errors.ts'
import { checkDomain } from '../base/kinds.ts'
import type { Management } from '../control/management.ts'
import type {
  AsyncEvent,
  CompletionQueue,
  CreateQp,
  MemoryRegion,
  PeerAttributes,
  ProtectionDomain,
  QueuePair,
  VerbsContext,
} from '../way/verbs.ts'
import type { CompletionPort, VerbsWay } from '../way/verbs-way.ts'
import type { VerbsOptions } from '../way/way.ts'
import { VerbsCompletionQueue } from './completion-queue.ts'
import { type CheckingDomain, type PairOwner, VerbsQueuePair } from './queue-pair.ts'
import { checkRegionLength, Region, RegionTable } from './regions.ts'
import {
  type CheckSge,
  checkCreate,
  checkDepth,
  checkInit,
  INLINE_MAX,
  SEND_DEPTH,
} from './work.ts'

/** How long the DPU may take to let a queue pair go, µs. */
const GOODBYE_US = 500_000

export class Verbs implements VerbsContext, PairOwner {
  onEvent: (event: AsyncEvent) => void = () => {}
  readonly regions: RegionTable = new RegionTable()
  private readonly way: VerbsWay
  private readonly management: Management
  private readonly options: VerbsOptions
  private readonly completionQueues = new Set<CompletionQueue>()
  private readonly queuePairs = new Set<VerbsQueuePair>()

  constructor(way: VerbsWay, management: Management, options: VerbsOptions) {
    this.way = way
    this.management = management
    this.options = options
    way.onLost = () => {
      this.completionQueues.clear()
      this.queuePairs.clear()
      this.regions.clear()
      this.tell({ type: 'DEVICE_FATAL', fault: null })
    }
  }

  allocPd(number: number = this.options.protectionDomain): ProtectionDomain {
    checkDomain(number)
    return new Domain(this, number)
  }

  async createCq(depth: number): Promise<CompletionQueue> {
    checkDepth(depth)
    const port = await this.way.openCq(depth)
    const forget = (cq: CompletionQueue): void => void this.completionQueues.delete(cq)
    const cq = new VerbsCompletionQueue(port, forget)
    port.onFailed = () => {
      forget(cq)
      this.tell({ type: 'CQ_ERR', cq })
    }
    this.completionQueues.add(cq)
    return cq
  }

  async connect(qp: QueuePair): Promise<void> {
    if (!(qp instanceof VerbsQueuePair && qp.owner === this)) {
      throw new ArgumentError('a queue pair of another context')
    }
    checkInit(qp)
    const peer = qp.port.isConnected ? await this.connectAtPeer(qp) : null
    await qp.modify({ state: 'RTS', peer })
  }

  private async connectAtPeer(qp: VerbsQueuePair): Promise<PeerAttributes> {
    const { qpNum, rqPsn, pd, depths } = qp
    const { pathMtu, clientId } = this.options
    const granted = await this.management.connect(
      ...([qpNum, rqPsn, pathMtu, pd.number, clientId] as const),
      depths,
      this.management.isSealed && qp.port.canTag,
    )
    return {
      ...{ destQpNum: granted.queuePair, sqPsn: granted.firstPsn, rqPsn },
      ...{ pathMtu: granted.pathMtu, incarnation: granted.incarnation },
      depths: granted.told ?? null,
      tagKeys: granted.tagKeys ?? null,
    }
  }

  /** Queue pairs first: what they name is in use. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.queuePairs].map((qp) => qp.destroy()))
    await Promise.allSettled([...this.completionQueues].map((cq) => cq.destroy()))
    await Promise.allSettled(this.regions.all().map((region) => region.dereg()))
    this.way.close()
  }

  // ---- for its domains and queue pairs ---------------------------------------------------------

  async makeRegion(domain: number, length: number): Promise<MemoryRegion> {
    const port = await this.way.register(domain, length)
    return new Region(port, domain, this.regions)
  }

  async makeQp(pd: CheckingDomain, options: CreateQp): Promise<QueuePair> {
    const { sendDepth = SEND_DEPTH, recvDepth = SEND_DEPTH, inlineMax = INLINE_MAX } = options
    const port = await this.way.openPair({
      ...{ domain: pd.number, sendDepth, recvDepth, inlineMax },
      ...{ sendCq: portOf(options.sendCq), recvCq: portOf(options.recvCq) },
    })
    const rqPsn = this.options.random() & 0xffffff
    const qp = new VerbsQueuePair(this, pd, port, { inlineMax, rqPsn })
    this.queuePairs.add(qp)
    return qp
  }

  forget(qp: VerbsQueuePair): void {
    this.queuePairs.delete(qp)
  }

  tell(event: AsyncEvent): void {
    queueMicrotask(() => this.onEvent(event))
  }

  /** One that the DPU knows no more, or that does not answer, is as good as closed. */
  async disconnect(peerQpNum: number, qpNum: number): Promise<void> {
    await this.management.disconnect(peerQpNum, qpNum, GOODBYE_US).catch(() => {})
  }
}

function portOf(cq: CompletionQueue): CompletionPort {
  if (cq instanceof VerbsCompletionQueue) return cq.port
  throw new ArgumentError('a completion queue of another context')
}

class Domain implements CheckingDomain {
  readonly number: number
  readonly checkSge: CheckSge
  private readonly verbs: Verbs

  constructor(verbs: Verbs, number: number) {
    this.verbs = verbs
    this.number = number
    this.checkSge = (sge, what) => verbs.regions.check(number, sge, what)
  }

  async regMr(length: number): Promise<MemoryRegion> {
    checkRegionLength(length)
    return await this.verbs.makeRegion(this.number, length)
  }

  async createQp(options: CreateQp): Promise<QueuePair> {
    checkCreate(options)
    return await this.verbs.makeQp(this, options)
  }
}
