/**
 * The flush agent's queue pair with a card behind PCIe (source 2, flow 2; P2-17 to P2-23).
 *
 * Invariant: the agent has its turn behind every completion of a RECEIVE, however many come
 * at once; when the pair has ended it has no more turns.
 */

import { WRITE_BACK } from '../../firmware/host/element.ts'
import { SEND_IMM } from '../../firmware/transport/requester.ts'
import { COUNT, check, having } from '../base/kinds.ts'
import {
  type AgentControl,
  type AgentQueues,
  checkAgent,
  FlushAgent,
  type Flushed,
  type HostMemory,
} from '../target/flush-agent.ts'
import type { PcieDevice } from './device.ts'
import type { CardQueuePair } from './queues/card-queue-pair.ts'
import type { Completion, Receive } from './queues/values.ts'

/** RECEIVEs that wait, and SENDs that may be under way, unless told otherwise. */
const AGENT_UNITS = 32

const DEVICE = having(['createCq', 'createQp'], 'an open PcieDevice')

export class PcieAgentQueues implements AgentQueues {
  /** Told when requests may be there. */
  onRequests: () => void = () => {}
  /** The RECEIVEs, SENDs and completions. */
  readonly pair: CardQueuePair
  private readonly requests: Flushed[] = []
  private readonly receive: Receive

  private constructor(pair: CardQueuePair) {
    this.pair = pair
    this.receive = { range: null, done: (completion) => this.completed(completion) }
    pair.sendCq.dispatch(() => this.onRequests())
  }

  /** Rejects with PERDURE_ARGUMENT, or as `createCq` and `createQp` of the device do. */
  static async open(device: PcieDevice, units: number = AGENT_UNITS): Promise<PcieAgentQueues> {
    check('device', device, DEVICE)
    check('units', units, COUNT)
    const sendCq = await device.createCq({ entries: 2 * units })
    const pair = await device.createQp({ type: 'agent', sendCq, sendUnits: units })
    return new PcieAgentQueues(pair)
  }

  get sendQueue(): number {
    return this.pair.send.queue
  }

  /** Name of the fault that ended the pair, '' if it was closed, null while it lives. */
  get end(): string | null {
    return this.pair.end
  }

  postReceives(): void {
    const { pair, receive } = this
    if (pair.end !== null) return
    const room = pair.receive.depth - pair.receive.outstanding.size
    if (room > 0) pair.postReceive(...new Array<Receive>(room).fill(receive))
  }

  private completed({
    status,
    flags,
    immediate,
    address,
    length,
    psn,
    operation,
  }: Completion): void {
    if (status !== 'SUCCESS' || (flags & WRITE_BACK) === 0) return
    const number = immediate
    this.requests.push({ number, address: Number(address), length, psn, operationId: operation })
  }

  takeRequests(): readonly Flushed[] {
    return this.requests.splice(0)
  }

  postFinished(number: number): boolean {
    const { pair } = this
    if (pair.end !== null || pair.send.free === 0) return false
    pair.post({ kind: SEND_IMM, immediate: number })
    return true
  }
}

/**
 * Starts a flush agent over queues of its own: it is attached, and serves, when this resolves.
 * Rejects with PERDURE_ARGUMENT before anything is made.
 */
export async function startFlushAgent(
  memory: HostMemory,
  control: AgentControl,
  device: PcieDevice,
): Promise<FlushAgent> {
  checkAgent(memory, control)
  const queues = await PcieAgentQueues.open(device)
  const agent = new FlushAgent(memory, control, queues)
  queues.onRequests = () => agent.poll()
  await agent.attach()
  return agent
}
