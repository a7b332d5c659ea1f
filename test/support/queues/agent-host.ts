/**
 * The queues of a flush agent on a raw host (queue-host.ts), for tests without a clock.
 *
 * Invariant: who looks at the completions sees what the card has written up to then, data
 * and completions alike, as both come over one link.
 */

import { SIGNALED, WC_SUCCESS, WQE_RECEIVE, WRITE_BACK } from '../../../firmware/host/element.ts'
import { TYPE_AGENT } from '../../../firmware/host/queue-info.ts'
import { SEND_IMM } from '../../../firmware/transport/requester.ts'
import type { AgentQueues, Flushed } from '../../../host-driver/target/flush-agent.ts'
import { type Cqe, elementOf, type PairNumbers, type QueueHost, type Zone1 } from './queue-host.ts'

/** Units of its send queue and of its receive queue. */
export const AGENT_UNITS = 16

export class RawAgentQueues implements AgentQueues {
  readonly host: QueueHost
  readonly completions: number
  readonly pair: PairNumbers
  /** Completions of its SENDs, and what was no request. */
  readonly others: Cqe[] = []

  constructor(host: QueueHost) {
    this.host = host
    this.completions = host.createCq(4 * AGENT_UNITS)
    this.pair = host.createQp(this.completions, { type: TYPE_AGENT, units: AGENT_UNITS })
  }

  get sendQueue(): number {
    return this.pair.send
  }

  /** Zone 1 of its send queue. */
  zone1(): Zone1 {
    this.host.ram.link.arrive()
    return this.host.zone1(this.pair.send)
  }

  postReceives(): void {
    const { host, pair } = this
    const room = AGENT_UNITS - this.waiting(pair.receive)
    for (let i = 0; i < room; i++) host.post(pair.receive, elementOf({ opcode: WQE_RECEIVE }))
  }

  /** Elements that the card has not taken. */
  waiting(queue: number): number {
    return (this.host.queues.get(queue)!.pointer - this.host.zone1(queue).pointer) >>> 0
  }

  takeRequests(): readonly Flushed[] {
    const { host, pair } = this
    host.ram.link.arrive()
    const requests: Flushed[] = []
    for (const cqe of host.poll(this.completions)) {
      const isRequest = cqe.queue === pair.receive && (cqe.flags & WRITE_BACK) !== 0
      if (!isRequest || cqe.status !== WC_SUCCESS) {
        this.others.push(cqe)
        continue
      }
      const { immediate: number, address, length, psn } = cqe
      requests.push({ number, address, length, psn, operationId: BigInt(cqe.operation) })
    }
    return requests
  }

  postFinished(number: number): boolean {
    const { host, pair } = this
    if (this.waiting(pair.send) === AGENT_UNITS) return false
    host.post(pair.send, elementOf({ opcode: SEND_IMM, flags: SIGNALED, immediate: number }))
    host.ring(pair.send)
    return true
  }
}
