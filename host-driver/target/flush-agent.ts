/**
 * The flush agent: on the target machine it writes back from the CPU's caches what the card has put
 * there, and says so (source 2, flow 2: S1005, S1008, S1014; P2-17 to P2-24). It speaks to the card
 * over a queue pair of its own:
 *
 *   RECEIVE ──▶ its completion: write back these bytes ──▶ clean ──▶ fence ──▶ SEND
 *
 * Invariant: the SEND for a request is posted behind the fence that follows its clean,
 * never before; requests are taken in order, and none is passed over; what was asked of an earlier
 * agent is no request. The pieces that it writes back in are those that it has named to the card.
 */

import { PROBE_NUMBER_BYTES } from '../../firmware/commit/proof.ts'
import { HOST_PROBE_AT } from '../../firmware/medium/region.ts'
import { check, checkField, having } from '../base/kinds.ts'
import { type MemoryPiece, PIECES } from '../base/pieces.ts'

/** The target machine's memory that the card sees. Offsets and lengths are bytes. */
export interface HostMemory {
  /** The pieces that the offsets run through (memoryInPieces); without them the card's window. */
  readonly pieces?: readonly MemoryPiece[]
  /** The bytes as the CPU sees them; null where the medium fails. */
  load(at: number, length: number): { readonly bytes: Uint8Array | null }
  /** Begins to write back the lines of [at, at + length): CLWB. */
  clean(at: number, length: number): void
  /** Waits until everything cleaned before is durable: SFENCE. */
  fence(): void
}

/** The queue pair between the agent and its card (TYPE_AGENT). */
export interface AgentQueues {
  /** Number of its send queue, by which the card knows the pair. */
  readonly sendQueue: number
  /** Posts a RECEIVE for every free place of the receive queue. */
  postReceives(): void
  /** Takes the completions of receives that are there, in their order. */
  takeRequests(): readonly Flushed[]
  /** Posts a SEND that carries the number; false if there is no room for it now. */
  postFinished(number: number): boolean
}

/** What the agent asks of the card. */
export interface AgentControl {
  /**
   * Says that the agent is there, and through which pieces it looks, none for the card's window;
   * rejects with the card's refusal: PIECES, if others hold. `number` is the probe's.
   */
  attachAgent(
    number: Uint8Array,
    sendQueue: number,
    pieces?: readonly MemoryPiece[],
  ): Promise<{ readonly firstRequest: number }>
  detachAgent(number: Uint8Array): Promise<void>
}

/** What the card wants written back, and for whom: the completion of the receive. */
export interface Flushed {
  readonly number: number
  /** Offset in the host's memory, and bytes. */
  readonly address: number
  readonly length: number
  /** PSN of the data (P2-18). */
  readonly psn: number
  readonly operationId: bigint
}

const MEMORY = having(['load', 'clean', 'fence'], 'a HostMemory')
const CONTROL = having(['attachAgent', 'detachAgent'], 'an AgentControl')
const QUEUES = having(['postReceives', 'takeRequests', 'postFinished'], 'AgentQueues')

/** Throws PERDURE_ARGUMENT unless an agent can be there for them. */
export function checkAgent(memory: HostMemory, control: AgentControl): void {
  check('memory', memory, MEMORY)
  if (memory.pieces !== undefined) checkField('memory', 'pieces', memory.pieces, PIECES)
  check('control', control, CONTROL)
}

export class FlushAgent {
  /** Requests that were finished. */
  finished = 0
  /** Told of each one, behind its fence and before its SEND. */
  onFlushed: ((flushed: Flushed) => void) | null = null

  private readonly memory: HostMemory
  private readonly control: AgentControl
  private readonly pair: AgentQueues
  private next = 0
  private isAttached = false
  /** The last number finished has not been sent: there was no room. */
  private isOwing = false

  /** Throws PERDURE_ARGUMENT. */
  constructor(memory: HostMemory, control: AgentControl, queues: AgentQueues) {
    checkAgent(memory, control)
    check('queues', queues, QUEUES)
    this.memory = memory
    this.control = control
    this.pair = queues
  }

  /** Attaches, and posts a RECEIVE for every place of its receive queue. */
  async attach(): Promise<void> {
    const { sendQueue } = this.pair
    const { pieces } = this.memory
    const number = this.probeNumber()
    const { firstRequest } = await this.control.attachAgent(number, sendQueue, pieces)
    this.begin(firstRequest)
  }

  /** Begins with that request; for `attach`, and for who has the card's answer already. */
  begin(firstRequest: number): void {
    this.next = firstRequest
    this.isAttached = true
    this.pair.postReceives()
  }

  /** Goes; the card refuses from then on what needs an agent. */
  async detach(): Promise<void> {
    this.isAttached = false
    await this.control.detachAgent(this.probeNumber())
  }

  /** What the card's last probe left in this memory: only who sees it knows it. */
  private probeNumber(): Uint8Array {
    const { bytes } = this.memory.load(HOST_PROBE_AT, PROBE_NUMBER_BYTES)
    return bytes ?? new Uint8Array(PROBE_NUMBER_BYTES)
  }

  /** Serves every request that is there, in order: one fence for all of them. Returns how many. */
  poll(): number {
    if (!this.isAttached) return 0
    const served: Flushed[] = []
    for (const request of this.pair.takeRequests()) {
      // Another number: it was asked of an earlier agent, over the same queues.
      if (request.number !== this.next) continue
      this.memory.clean(request.address, request.length)
      served.push(request)
      this.next = (this.next + 1) >>> 0
    }
    if (served.length > 0) {
      this.memory.fence()
      for (const request of served) this.onFlushed?.(request)
      this.finished += served.length
      this.isOwing = true
    }
    // One SEND for all: it says that every request up to that number is finished.
    if (this.isOwing) this.isOwing = !this.pair.postFinished((this.next - 1) >>> 0)
    this.pair.postReceives()
    return served.length
  }
}
