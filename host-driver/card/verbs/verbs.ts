/**
 * The verbs over the queues of the own card: to its own regions, or to another DPU through it.
 *
 * Invariant: an event is told once, and from outside of the call that brought it about.
 * When the card is gone, everything here has ended, and is made anew by whoever wants it.
 */

import { ArgumentError } from '../../base/errors.ts'
import { checkDomain } from '../../base/kinds.ts'
import type { Endpoint } from '../../base/wire.ts'
import type { Management } from '../../control/management.ts'
import { connectPair, GOODBYE_US } from '../../verbs/connect-pair.ts'
import { checkRegionLength, RegionTable } from '../../verbs/regions.ts'
import {
  type CheckSge,
  checkCreate,
  checkDepth,
  checkInit,
  INLINE_MAX,
  SEND_DEPTH,
  unitsFor,
} from '../../verbs/work.ts'
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
import type { PcieDevice } from '../device.ts'
import { powerOfTwo } from '../queues/arena.ts'
import { type DeviceWatcher, watchDevice } from '../watchers.ts'
import { PcieCompletionQueue } from './completions.ts'
import { PcieRegion } from './memory.ts'
import { type PcieContext, type PcieDomain, PcieVerbsQueuePair } from './queue-pair.ts'

export class PcieVerbs implements VerbsContext, PcieContext {
  onEvent: (event: AsyncEvent) => void = () => {}
  readonly device: PcieDevice
  readonly peer: Endpoint | null
  readonly regions: RegionTable<PcieRegion> = new RegionTable()
  private readonly management: Management
  private readonly options: VerbsOptions
  private readonly completionQueues = new Map<number, PcieCompletionQueue>()
  private readonly queuePairs = new Set<PcieVerbsQueuePair>()
  private readonly unwatch: () => void

  constructor(
    device: PcieDevice,
    peer: Endpoint | null,
    management: Management,
    options: VerbsOptions,
  ) {
    this.device = device
    this.peer = peer
    this.management = management
    this.options = options
    const watcher: DeviceWatcher = {
      happened: ({ type, queue }) => {
        const cq = this.completionQueues.get(queue)
        if (cq === undefined || (type !== 'error' && type !== 'overrun')) return
        this.completionQueues.delete(queue)
        this.tell({ type: 'CQ_ERR', cq })
      },
      removed: () => {
        this.completionQueues.clear()
        this.queuePairs.clear()
        this.regions.clear()
        this.tell({ type: 'DEVICE_FATAL', fault: null })
      },
    }
    this.unwatch = watchDevice(device, watcher)
  }

  allocPd(number: number = this.options.protectionDomain): ProtectionDomain {
    checkDomain(number)
    return new PcieProtectionDomain(this, number)
  }

  async createCq(depth: number): Promise<CompletionQueue> {
    checkDepth(depth)
    const card = await this.device.createCq({ entries: powerOfTwo(depth) })
    const cq = new PcieCompletionQueue(card, async () => {
      await this.device.destroyCq(card)
      // After a card was gone its number may be another's.
      if (this.completionQueues.get(card.queue) === cq) this.completionQueues.delete(card.queue)
    })
    this.completionQueues.set(card.queue, cq)
    return cq
  }

  async connect(qp: QueuePair): Promise<void> {
    if (!(qp instanceof PcieVerbsQueuePair)) {
      throw new ArgumentError('a queue pair of another context')
    }
    checkInit(qp)
    if (this.peer === null) {
      await qp.modify({ state: 'RTS', peer: null })
      return
    }
    await connectPair(qp, this.management, this.options)
  }

  /** Queue pairs first: what they name is in use. */
  async close(): Promise<void> {
    await Promise.allSettled([...this.queuePairs].map((qp) => qp.destroy()))
    await Promise.allSettled([...this.completionQueues.values()].map((cq) => cq.destroy()))
    await Promise.allSettled(this.regions.all().map((region) => region.dereg()))
    this.unwatch()
  }

  // ---- for its domains and queue pairs ---------------------------------------------------------

  async makeRegion(domain: number, length: number): Promise<PcieRegion> {
    const { device } = this
    const buffer = device.alloc(length)
    try {
      buffer.store(new Uint8Array(length))
      const card = await device.regMr(buffer.address, length, domain)
      const { lkey } = card
      return new PcieRegion(buffer, { domain, lkey }, this.regions, () => device.deregMr(card))
    } catch (error) {
      buffer.free()
      throw error
    }
  }

  async makeQp(pd: PcieDomain, options: CreateQp): Promise<PcieVerbsQueuePair> {
    const { sendDepth = SEND_DEPTH, recvDepth = SEND_DEPTH, inlineMax = INLINE_MAX } = options
    const sendUnits = powerOfTwo(sendDepth * unitsFor(inlineMax))
    const card = await this.device.createQp({
      type: this.peer === null ? 'local' : 'connected',
      domain: pd.number,
      sendCq: this.ownCq(options.sendCq),
      receiveCq: this.ownCq(options.recvCq),
      sendUnits,
      receiveUnits: Math.max(sendUnits, powerOfTwo(recvDepth)),
      clientId: this.options.clientId,
    })
    const rqPsn = this.options.random() & 0xffffff
    const qp = new PcieVerbsQueuePair(this, pd, card, { inlineMax, rqPsn })
    this.queuePairs.add(qp)
    return qp
  }

  /** One that the DPU knows no more, or that does not answer, is as good as closed. */
  async disconnect(peerQpNum: number, qpNum: number): Promise<void> {
    await this.management.disconnect(peerQpNum, qpNum, GOODBYE_US).catch(() => {})
  }

  forget(qp: PcieVerbsQueuePair): void {
    this.queuePairs.delete(qp)
  }

  tell(event: AsyncEvent): void {
    queueMicrotask(() => this.onEvent(event))
  }

  /** The completion queue of the card, if it is one of ours. */
  private ownCq(cq: CompletionQueue): PcieCompletionQueue['card'] {
    if (cq instanceof PcieCompletionQueue) return cq.card
    throw new ArgumentError('a completion queue of another context')
  }
}

class PcieProtectionDomain implements PcieDomain {
  readonly number: number
  readonly checkSge: CheckSge
  private readonly verbs: PcieVerbs

  constructor(verbs: PcieVerbs, number: number) {
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
