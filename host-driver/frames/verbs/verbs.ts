/**
 * The verbs over a wire: protection domains, completion queues and queue pairs of one session.
 *
 * Invariant: an event is told once, and from outside of the call that brought it about;
 * a queue pair has the numbers that its peer was told, and no other has them.
 */

import { ArgumentError } from '../../base/errors.ts'
import { checkDomain } from '../../base/kinds.ts'
import type { Management } from '../../control/management.ts'
import { connectPair, GOODBYE_US } from '../../verbs/connect-pair.ts'
import { checkRegionLength } from '../../verbs/regions.ts'
import { type CheckSge, checkCreate, checkDepth, checkInit } from '../../verbs/work.ts'
import type {
  AsyncEvent,
  CompletionQueue,
  CreateQp,
  MemoryRegion,
  ProtectionDomain,
  QueuePair,
  VerbsContext,
} from '../../way/verbs.ts'
import type { VerbsOptions } from '../../way/way.ts'
import type { QueuePairOptions, QueuePair as WireJobs } from '../queue-pair.ts'
import type { Session } from '../session.ts'
import { WireCompletionQueue } from './completions.ts'
import { WireMemory } from './memory.ts'
import { type WireContext, type WireDomain, WireQueuePair } from './queue-pair.ts'

export class WireVerbs implements VerbsContext, WireContext {
  onEvent: (event: AsyncEvent) => void = () => {}
  readonly session: Session
  readonly memory: WireMemory = new WireMemory()
  private readonly management: Management
  private readonly options: VerbsOptions
  private readonly queuePairs = new Set<WireQueuePair>()

  constructor(session: Session, management: Management, options: VerbsOptions) {
    this.session = session
    this.management = management
    this.options = options
  }

  get jobOptions(): QueuePairOptions {
    const { ackTimeoutCode, persistTimeoutUs } = this.options
    return { ackTimeoutCode, persistTimeoutUs, management: this.management }
  }

  allocPd(number: number = this.options.protectionDomain): ProtectionDomain {
    checkDomain(number)
    return new WireProtectionDomain(this, number)
  }

  async createCq(depth: number): Promise<CompletionQueue> {
    checkDepth(depth)
    const cq = new WireCompletionQueue(depth)
    cq.onOverrun = () => this.tell({ type: 'CQ_ERR', cq })
    return cq
  }

  async connect(qp: QueuePair): Promise<void> {
    if (!(qp instanceof WireQueuePair)) throw new ArgumentError('a queue pair of another context')
    checkInit(qp)
    await connectPair(qp, this.management, this.options)
  }

  // ---- for its queue pairs ---------------------------------------------------------------------

  makeQp(pd: WireDomain, options: CreateQp): WireQueuePair {
    const { random } = this.options
    const numbers = { qpNum: 0x10 + (random() % 0xffff00), rqPsn: random() & 0xffffff }
    const qp = new WireQueuePair(this, pd, numbers, options)
    this.queuePairs.add(qp)
    return qp
  }

  ownCq(cq: CompletionQueue): WireCompletionQueue {
    if (cq instanceof WireCompletionQueue) return cq
    throw new ArgumentError('a completion queue of another context')
  }

  forget(qp: WireQueuePair): void {
    this.queuePairs.delete(qp)
  }

  tell(event: AsyncEvent): void {
    queueMicrotask(() => this.onEvent(event))
  }

  /** One that the DPU knows no more, or that does not answer, is as good as closed. */
  async disconnect(jobs: WireJobs): Promise<void> {
    await jobs.disconnect(GOODBYE_US).catch(() => {})
  }

  async close(): Promise<void> {
    await Promise.all([...this.queuePairs].map((qp) => qp.destroy()))
  }
}

class WireProtectionDomain implements WireDomain {
  readonly number: number
  readonly checkSge: CheckSge
  private readonly verbs: WireVerbs

  constructor(verbs: WireVerbs, number: number) {
    this.verbs = verbs
    this.number = number
    this.checkSge = (sge, what) => verbs.memory.regions.check(number, sge, what)
  }

  get memory(): WireMemory {
    return this.verbs.memory
  }

  async regMr(length: number): Promise<MemoryRegion> {
    checkRegionLength(length)
    return this.memory.register(this.number, length)
  }

  async createQp(options: CreateQp): Promise<QueuePair> {
    checkCreate(options)
    return this.verbs.makeQp(this, options)
  }
}
