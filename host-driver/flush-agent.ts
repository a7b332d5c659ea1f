/**
 * The flush agent: on the target machine it writes back from the CPU's caches what the card has put
 * there, and rings (source 2, flow 2: S1005, S1008, S1014; P2-17 to P2-24).
 *
 *   receive ──▶ request of the card ──▶ clean its lines ──▶ fence ──▶ bell
 *
 * What always holds: the bell for a request is rung behind the fence that follows its clean, never
 * before; requests are taken in order, and none is passed over; a line of the ring that is not
 * whole, of another number, or not for this agent, is no request.
 */

import { PROBE_NUMBER_BYTES } from '../firmware/commit/placement.ts'
import { LINE_BYTES } from '../firmware/limits.ts'
import {
  REQUEST_ADDRESS,
  REQUEST_END,
  REQUEST_LENGTH,
  REQUEST_NUMBER,
  REQUEST_OPERATION,
  REQUEST_PSN,
  REQUEST_TOKEN,
  REQUESTS,
  RING_RECEIVES,
  RING_TOKEN,
  requestAt,
} from '../firmware/memory/flush-request.ts'
import { HOST_PROBE_AT, HOST_RING_AT } from '../firmware/memory/region.ts'

/** The target machine's memory that the card sees. Offsets and lengths are bytes. */
export interface HostMemory {
  /** The bytes as the CPU sees them; null where the medium fails. */
  load(at: number, length: number): { readonly bytes: Uint8Array | null }
  store(at: number, bytes: Uint8Array): void
  /** Begins to write back the lines of [at, at + length): CLWB. */
  clean(at: number, length: number): void
  /** Waits until everything cleaned before is durable: SFENCE. */
  fence(): void
  /** Writes the bell of the card: every request up to that number is finished. */
  ring(number: number): void
}

/** What the agent asks of the card. */
export interface AgentControl {
  /** Says that the agent is there; rejects with the card's refusal. `number` is the probe's. */
  attachAgent(
    number: Uint8Array,
  ): Promise<{ readonly firstRequest: number; readonly token: number }>
  detachAgent(number: Uint8Array): Promise<void>
}

/** What was written back, and for whom: the completion of the receive. */
export interface Flushed {
  readonly number: number
  /** Offset in the host's memory, and bytes. */
  readonly address: number
  readonly length: number
  /** PSN of the data (P2-18). */
  readonly psn: number
  readonly operationId: bigint
}

export class FlushAgent {
  /** Requests that were finished. */
  finished = 0
  /** Told of each one, behind its fence and before its bell. */
  onFlushed: ((flushed: Flushed) => void) | null = null

  private readonly memory: HostMemory
  private readonly control: AgentControl
  private next = 0
  private token = 0
  private isAttached = false

  constructor(memory: HostMemory, control: AgentControl) {
    this.memory = memory
    this.control = control
  }

  /** Attaches, and posts a receive for every place of the ring. */
  async attach(): Promise<void> {
    const { firstRequest, token } = await this.control.attachAgent(this.probeNumber())
    this.begin(firstRequest, token)
  }

  /** Begins with that request; for `attach`, and for who has the card's answer already. */
  begin(firstRequest: number, token: number): void {
    this.next = firstRequest
    this.token = token
    this.isAttached = true
    // What an earlier life left in the ring is nobody's request; the card asks for none before it
    // has a receive.
    const clear = new Uint8Array(REQUESTS * LINE_BYTES)
    this.memory.store(HOST_RING_AT + LINE_BYTES, clear)
    this.postReceives()
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
    for (;;) {
      const request = this.take()
      if (request === null) break
      this.memory.clean(request.address, request.length)
      served.push(request)
      this.next = (this.next + 1) >>> 0
    }
    const last = served.at(-1)
    if (last === undefined) {
      this.keepReceives()
      return 0
    }
    this.memory.fence()
    for (const request of served) this.onFlushed?.(request)
    this.finished += served.length
    // First the bell: a receive says that the place in the ring may be written again.
    this.memory.ring(last.number)
    this.postReceives()
    return served.length
  }

  /** The next request, if it is there. */
  private take(): Flushed | null {
    const { bytes } = this.memory.load(requestAt(this.next), LINE_BYTES)
    if (bytes === null) return null
    const view = new DataView(bytes.buffer, bytes.byteOffset, LINE_BYTES)
    const number = view.getUint32(REQUEST_NUMBER, true)
    if (number !== this.next || view.getUint32(REQUEST_END, true) !== number) return null
    if (view.getUint32(REQUEST_TOKEN, true) !== this.token) return null
    return {
      number,
      address: Number(view.getBigUint64(REQUEST_ADDRESS, true)),
      length: Number(view.getBigUint64(REQUEST_LENGTH, true)),
      psn: view.getUint32(REQUEST_PSN, true),
      operationId: view.getBigUint64(REQUEST_OPERATION, true),
    }
  }

  /** An agent that was replaced may have written over the line of the receives. */
  private keepReceives(): void {
    const { bytes } = this.memory.load(HOST_RING_AT, LINE_BYTES)
    if (bytes === null) return
    const token = new DataView(bytes.buffer, bytes.byteOffset).getUint32(RING_TOKEN, true)
    if (token !== this.token) this.postReceives()
  }

  private postReceives(): void {
    const line = new Uint8Array(LINE_BYTES)
    const view = new DataView(line.buffer)
    view.setUint32(RING_TOKEN, this.token, true)
    view.setUint32(RING_RECEIVES, (this.next - 1 + REQUESTS) >>> 0, true)
    this.memory.store(HOST_RING_AT, line)
  }
}
