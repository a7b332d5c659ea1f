/**
 * What the verbs need of the local card: its memory and its queues, to its own regions or to
 * another DPU through it.
 *
 * Invariant: what the card says of a completion queue is said to that queue, and to none that has
 * got its number later.
 */

import { ArgumentError } from '../../base/errors.ts'
import type { Endpoint } from '../../base/wire.ts'
import { unitsFor } from '../../verbs/work.ts'
import type {
  CompletionPort,
  MemoryPort,
  PairOptions,
  PairPort,
  VerbsWay,
} from '../../way/verbs-way.ts'
import type { PcieDevice } from '../device.ts'
import { powerOfTwo } from '../queues/arena.ts'
import type { CompletionQueue } from '../queues/completion-queue.ts'
import { watchDevice } from '../watchers.ts'
import { PcieCompletions } from './completions.ts'
import { registerMemory } from './memory.ts'
import { PciePair } from './pair.ts'

export class PcieVerbs implements VerbsWay {
  onLost: () => void = () => {}
  private readonly device: PcieDevice
  private readonly peer: Endpoint | null
  private readonly clientId: bigint
  private readonly completions = new Map<number, PcieCompletions>()
  private readonly unwatch: () => void

  /** `peer` is the DPU behind the card; null for the card itself. */
  constructor(device: PcieDevice, peer: Endpoint | null, clientId: bigint) {
    this.device = device
    this.peer = peer
    this.clientId = clientId
    this.unwatch = watchDevice(device, {
      happened: ({ type, queue }) => {
        const cq = this.completions.get(queue)
        if (cq === undefined || (type !== 'error' && type !== 'overrun')) return
        this.completions.delete(queue)
        cq.onFailed()
      },
      removed: () => {
        this.completions.clear()
        this.onLost()
      },
    })
  }

  async register(domain: number, length: number): Promise<MemoryPort> {
    return await registerMemory(this.device, domain, length)
  }

  async openCq(depth: number): Promise<CompletionPort> {
    const card = await this.device.createCq({ entries: powerOfTwo(depth) })
    const cq = new PcieCompletions(card, async () => {
      await this.device.destroyCq(card)
      // After a card was gone its number may be another's.
      if (this.completions.get(card.queue) === cq) this.completions.delete(card.queue)
    })
    this.completions.set(card.queue, cq)
    return cq
  }

  async openPair(options: PairOptions): Promise<PairPort> {
    const { domain, sendCq, recvCq, sendDepth, recvDepth, inlineMax } = options
    const sendUnits = powerOfTwo(sendDepth * unitsFor(inlineMax))
    const isLocal = this.peer === null
    const card = await this.device.createQp({
      type: isLocal ? 'local' : 'connected',
      ...{ domain, sendCq: ownQueue(sendCq), receiveCq: ownQueue(recvCq), sendUnits },
      receiveUnits: Math.max(sendUnits, powerOfTwo(recvDepth)),
      ...(isLocal && { clientId: this.clientId }),
    })
    return new PciePair(card, this.peer)
  }

  close(): void {
    this.unwatch()
  }
}

/** The completion queue of the card, if it is one. */
function ownQueue(port: CompletionPort): CompletionQueue {
  if (port instanceof PcieCompletions) return port.card
  throw new ArgumentError('a completion queue of another context')
}
