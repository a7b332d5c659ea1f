/**
 * The host's queues of management, 0, 1 and 2: datagrams to its local card, and through it to
 * others.
 *
 * Invariant: every answer finds a buffer as long as there are receives; its buffer is
 * posted again when the answer was copied out. Who sent it is what the card says. A datagram that
 * finds the send queue full waits here, in order; whoever sent it repeats it if it takes too long,
 * so what waits is bounded.
 */

import { UNIT_BYTES } from '../../firmware/board/limits.ts'
import {
  QUEUE_GSI_COMPLETION,
  QUEUE_GSI_RECEIVE,
  QUEUE_GSI_SEND,
} from '../../firmware/host/header-page.ts'
import { SEND } from '../../firmware/transport/requester.ts'
import { MAD_BYTES } from '../../firmware/wire/management.ts'
import { keptEndpoint } from '../base/addresses.ts'
import { copyOf } from '../base/bytes.ts'
import { bytesOf, check, ENDPOINT } from '../base/kinds.ts'
import type { Endpoint } from '../base/wire.ts'
import { CompletionQueue } from './queues/completion-queue.ts'
import { encodeElement, encodeReceive } from './queues/element.ts'
import type { Layout } from './queues/layout.ts'
import type { Completion, QueueElement, Receive } from './queues/values.ts'
import { type Encoded, type QueueGround, WorkQueue } from './queues/work-queue.ts'

/** Datagrams that may wait; of more the oldest is dropped, as on a wire. */
const WAITING_MAX = 1024

/** Takes a datagram, and the addresses of the card that sent it: null for our own. */
type DatagramTaker = (datagram: Uint8Array, from: Endpoint | null) => void

export class ManagementQueue {
  readonly send: WorkQueue
  readonly receive: WorkQueue
  readonly completions: CompletionQueue
  private readonly ground: QueueGround
  private readonly take: DatagramTaker
  private readonly buffers: number
  private waiting: QueueElement[] = []
  private again: Encoded[] = []

  /** `take` gets every datagram that comes. */
  constructor(ground: QueueGround, layout: Layout, take: DatagramTaker) {
    this.ground = ground
    this.take = take
    const { sendRing, sendUnits, receiveRing, receiveUnits, completionRing, completions } = layout
    this.send = new WorkQueue(ground, QUEUE_GSI_SEND, sendRing, sendUnits)
    this.receive = new WorkQueue(ground, QUEUE_GSI_RECEIVE, receiveRing, receiveUnits)
    this.completions = new CompletionQueue(
      ground,
      QUEUE_GSI_COMPLETION,
      completionRing,
      completions,
      {},
      (queue) => [this.send, this.receive][queue],
    )
    this.buffers = ground.arena.alloc(receiveUnits * MAD_BYTES)
    const receives: Encoded[] = []
    for (let i = 0; i < receiveUnits; i++) receives.push(this.entry(this.buffers + i * MAD_BYTES))
    this.receive.post(receives)
    this.completions.dispatch(() => this.dispatched())
  }

  /** Sends a datagram of 256 bytes: to the local card, or another's. */
  post(datagram: Uint8Array, to?: Endpoint): void {
    check('a datagram:', datagram, bytesOf(MAD_BYTES))
    if (to !== undefined) check('to', to, ENDPOINT)
    const element: QueueElement = {
      kind: SEND,
      data: copyOf(datagram),
      signaled: false,
      ...(to === undefined ? {} : { to: keptEndpoint(to) }),
    }
    this.waiting.push(element)
    if (this.waiting.length > WAITING_MAX) this.waiting.shift()
    this.pump()
  }

  private pump(): void {
    while (this.waiting.length > 0 && this.send.end === null) {
      const element = this.waiting[0]!
      const units = encodeElement(element, { inline: element.data as Uint8Array })
      if (units.length / UNIT_BYTES > this.send.free) return
      this.waiting.shift()
      const [unit] = this.send.post([{ units, element, signaled: false, release: null }])
      // Nothing is heard of it again: its answer is a datagram of its own.
      this.send.outstanding.delete(unit!)
    }
  }

  private entry(address: number): Encoded {
    const element: Receive = {
      range: { address, length: MAD_BYTES, lkey: 0 },
      done: (completion) => this.received(address, completion),
    }
    return { units: encodeReceive(element), element, signaled: true, release: null }
  }

  private received(address: number, completion: Completion): void {
    if (completion.status !== 'SUCCESS') return
    const datagram = this.ground.memory.load(address, MAD_BYTES)
    this.again.push(this.entry(address))
    this.take(datagram, senderOf(completion))
  }

  private dispatched(): void {
    const { again } = this
    this.again = []
    if (again.length > 0 && this.receive.end === null) this.receive.post(again)
    this.pump()
  }

  /** For the watchdog. */
  pushOn(): boolean {
    this.completions.look()
    this.pump()
    return this.send.pushOn() || this.waiting.length > 0
  }

  /** There is no card any more. */
  close(): void {
    this.waiting = []
    this.completions.finish('')
    this.send.finish('')
    this.receive.finish('')
    this.ground.arena.release(this.buffers)
  }
}

/** As firmware/host/element.ts has it; zeros are the local card, and nobody else. */
function senderOf({ address, incarnation }: Completion): Endpoint | null {
  if (address === 0n && incarnation === 0) return null
  const bytes = new DataView(new ArrayBuffer(12))
  bytes.setBigUint64(0, address, true)
  bytes.setUint32(8, incarnation, true)
  const all = [...new Uint8Array(bytes.buffer)]
  return { mac: all.slice(0, 6), ipv4: all.slice(8) }
}
