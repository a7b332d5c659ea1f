/**
 * A queue pair of the host: a send queue, a receive queue that is at least as deep (P3-1), and what
 * becomes of their elements.
 *
 * Invariants:
 * - Every element ends at most once: by the card's completion, or as WR_FLUSH_ERR once the pair has
 *   ended. After the end nothing is posted.
 * - What an element names stays as it is until it has ended: bytes that do not go inline are copied
 *   into a buffer of ours, which is freed then.
 * - A refused post has stored nothing and holds no buffer.
 */

import { POSTED_RECEIVES } from '../../../firmware/board/limits.ts'
import { SGE_BYTES } from '../../../firmware/host/element.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { ATOMIC_WRITE } from '../../../firmware/transport/requester.ts'
import type { Depths } from '../../../firmware/wire/capability.ts'
import { ArgumentError, RefusedError } from '../../base/errors.ts'
import { BYTES, check, FUNCTION, type Kind, OBJECT } from '../../base/kinds.ts'
import { QueueEnded } from '../../way/queue-errors.ts'
import type { Range } from '../../way/work-request.ts'
import type { Control, Peer, QueuePairNumbers } from '../control.ts'
import { HostBuffer, type PostedRanges } from './buffers.ts'
import type { CompletionQueue } from './completion-queue.ts'
import {
  type Carried,
  encodeElement,
  encodeReceive,
  goesInline,
  lastOf,
  sends,
  unitsOf,
} from './element.ts'
import type { InlineRule, QueueElement, Receive } from './values.ts'
import type { Encoded, GrowthForm, QueueGround, WorkQueue } from './work-queue.ts'

/** What a pair speaks to: another machine, the card's own regions, or the card as flush agent. */
type QueuePairType = 'connected' | 'local' | 'agent'

export const QUEUE_PAIR_TYPES: Readonly<Record<QueuePairType, number>> = {
  connected: info.TYPE_CONNECTED,
  local: info.TYPE_LOCAL,
  agent: info.TYPE_AGENT,
}

export interface QueuePairOptions extends Partial<InlineRule> {
  readonly type: QueuePairType
  /** Protection domain, 0 to 65535; 0 by default. */
  readonly domain?: number
  readonly sendCq: CompletionQueue
  /** That of the send queue by default. */
  readonly receiveCq?: CompletionQueue
  /** Units of the send ring, a power of two; 128 by default. */
  readonly sendUnits?: number
  /** Units of the receive ring, a power of two, no fewer; as many by default. */
  readonly receiveUnits?: number
  /**
   * Who writes, 64 bits: of a connected pair its peer, of others this host. Operations are numbered
   * by client (D-6). By default drawn for a connected pair, else 0.
   */
  readonly clientId?: bigint
}

/** What a pair needs of its device. */
interface CardQueuePairParts {
  readonly ground: QueueGround
  readonly control: Control
  readonly send: WorkQueue
  readonly receive: WorkQueue
  readonly posted: PostedRanges
  readonly rule: InlineRule
  /** L_Key of the whole arena in the pair's domain. */
  readonly lkey: number
  /** The device forgets the pair; nothing completes to it any more. */
  readonly forget: () => void
}

/** How often a pair that is busy is asked to end, and how long between, µs. */
const BUSY_TRIES = 100
const BUSY_US = 200

/** The card has the queue in its hands, somebody else has, or its zones could not be read. */
const TRANSIENT: ReadonlySet<string> = new Set(['QUEUE_BUSY', 'QUEUE_LOCKED', 'DMA'])

export class CardQueuePair {
  /** Number on the wire; 0 of a pair that has none. */
  readonly number: number
  readonly type: QueuePairType
  readonly domain: number
  readonly send: WorkQueue
  readonly receive: WorkQueue
  readonly sendCq: CompletionQueue
  readonly receiveCq: CompletionQueue
  readonly lkey: number
  /** Told once when the pair has ended, behind its last completion; why, as a fault's name. */
  onEnded: (fault: string) => void = () => {}
  /** The peer has ended the connection, or does not answer. */
  onDisconnected: () => void = () => {}
  private readonly parts: CardQueuePairParts
  private readonly rule: InlineRule
  /** For the device: the card reads and fills nothing of the pair any more. */
  letGo: () => void = () => {}
  private ending: Promise<void> | null = null
  private destroyed = false

  constructor(parts: CardQueuePairParts, numbers: QueuePairNumbers, options: QueuePairOptions) {
    this.parts = parts
    this.number = numbers.number
    this.type = options.type
    this.domain = options.domain ?? 0
    this.send = parts.send
    this.receive = parts.receive
    this.sendCq = options.sendCq
    this.receiveCq = options.receiveCq ?? options.sendCq
    this.lkey = parts.lkey
    this.rule = parts.rule
  }

  /**
   * What a peer is told: elements of the send queue, and of the receive queue what the card has at
   * hand. It fetches the others behind those: what is sent faster is told to wait (RNR NAK).
   */
  get depths(): Depths {
    return { send: this.send.depth, receive: Math.min(this.receive.depth, POSTED_RECEIVES) }
  }

  /** Name of the fault that ended the pair, '' if it was closed, null while it lives. */
  get end(): string | null {
    return this.send.end
  }

  // ---- posting ---------------------------------------------------------------------------------

  /**
   * Posts elements one behind the other, all or none, with one doorbell; the numbers of their first
   * units. Throws QueueFull, MemoryFull, QueueEnded, or PERDURE_ARGUMENT.
   */
  post(...works: QueueElement[]): number[] {
    const encoded: Encoded[] = []
    try {
      for (const element of works) {
        checkData(element)
        encoded.push(this.encode(element))
      }
      return this.send.post(encoded)
    } catch (error) {
      for (const { release } of encoded) release?.()
      throw error
    }
  }

  /** Units that the element has. */
  unitsOf(element: QueueElement): number {
    const { data = [] } = element
    const bytes = data instanceof Uint8Array ? data.length : sumOf(data)
    let behind = 0
    if (this.isInline(element, bytes)) behind = element.kind === ATOMIC_WRITE ? 0 : bytes
    else if (!(data instanceof Uint8Array) && data.length > 1) behind = data.length * SGE_BYTES
    return unitsOf(behind, lastOf(element))
  }

  private isInline(element: QueueElement, bytes: number): boolean {
    if (element.kind === ATOMIC_WRITE) return true
    if (element.inline === true && !sends(element.kind)) {
      throw new ArgumentError(`kind ${element.kind} sends no bytes: nothing can go inline`)
    }
    return element.inline ?? goesInline(element.kind, bytes, this.rule)
  }

  private encode(element: QueueElement): Encoded {
    const { data = [] } = element
    const signaled = element.signaled !== false
    const bytes = data instanceof Uint8Array ? data.length : sumOf(data)
    if (this.isInline(element, bytes)) {
      const inline = data instanceof Uint8Array ? data : this.gather(data)
      return { units: encodeElement(element, { inline }), element, signaled, release: null }
    }
    if (!(data instanceof Uint8Array)) {
      return { units: encodeElement(element, { ranges: data }), element, signaled, release: null }
    }
    if (!sends(element.kind) && bytes > 0) {
      throw new ArgumentError('bytes of the heap can only be sent; a READ fills ranges')
    }
    if (bytes === 0)
      return { units: encodeElement(element, { ranges: [] }), element, signaled, release: null }
    const { memory, arena } = this.parts.ground
    const buffer = new HostBuffer(memory, arena, bytes)
    const release = (): void => buffer.free()
    try {
      buffer.store(data)
      const carried: Carried = { ranges: [buffer.range(this.lkey)] }
      return { units: encodeElement(element, carried), element, signaled, release }
    } catch (error) {
      release()
      throw error
    }
  }

  /** The bytes of ranges, to go inline. */
  private gather(ranges: readonly Range[]): Uint8Array {
    const { memory } = this.parts.ground
    const pieces = ranges.map(({ address, length }) => {
      if (address >= 0 && length >= 0 && address + length <= memory.bytes) {
        return memory.load(address, length)
      }
      throw new ArgumentError(`${length} bytes at ${address}: the memory has ${memory.bytes}`)
    })
    return Buffer.concat(pieces)
  }

  /**
   * Posts receive elements, all or none, with one doorbell. Besides what `post` throws:
   * PERDURE_ARGUMENT for a place that is posted already (P3-26).
   */
  postReceive(...receives: Receive[]): number[] {
    const { posted } = this.parts
    const encoded: Encoded[] = []
    try {
      for (const element of receives) {
        check('a receive', element, OBJECT)
        check('range', element.range, RANGE_OR_NONE)
        const range = element.range && { ...element.range }
        const units = encodeReceive(element)
        if (range !== null) posted.add(range)
        const release = range === null ? null : (): void => posted.remove(range)
        encoded.push({ units, element, signaled: true, release })
      }
      return this.receive.post(encoded)
    } catch (error) {
      for (const { release } of encoded) release?.()
      throw error
    }
  }

  // ---- life ------------------------------------------------------------------------------------

  /** Connects the pair: ready to receive and to send. */
  async ready(peer: Peer): Promise<void> {
    await this.parts.control.modifyQp(this.send.queue, info.QUEUE_READY, peer)
  }

  /** Ends the pair at the card and here; what is outstanding ends as flushed. */
  async setError(): Promise<void> {
    await this.parts.control.modifyQp(this.send.queue, info.QUEUE_ERROR, null)
    this.fail('')
  }

  /**
   * Gives one of the queues more units (P3-24). The receive queue has to stay the deeper one
   * (P3-1): let it grow first. Rejects as WorkQueue.grow does; the pair has ended where that asks
   * for it.
   */
  async grow(which: 'send' | 'receive', depth: number, form?: GrowthForm): Promise<void> {
    if (which === 'send' && depth > this.receive.depth) {
      throw new ArgumentError(`${depth} units: the receive queue has ${this.receive.depth} (P3-1)`)
    }
    try {
      await this[which].grow(depth, form)
    } catch (error) {
      const before = error instanceof RefusedError || isHarmless(error)
      if (!before) this.fail('CONNECTION_LOST')
      throw error
    }
  }

  /**
   * The pair is over, for that reason: what was outstanding ends as WR_FLUSH_ERR, once. A card that
   * has not ended it itself may still read what was posted, and fill it: until `destroy`, no memory
   * of the device that becomes free is given out again.
   */
  fail(fault: string): void {
    if (this.end !== null) return
    if (this.send.errorInMemory === '') this.letGo = this.parts.ground.arena.hold()
    this.sendCq.absorb()
    this.receiveCq.absorb()
    const sent = this.send.finish(fault)
    const received = this.receive.finish(fault)
    const { zones } = this.parts.ground
    this.sendCq.flush(this.send.queue, zones.pointer(this.send.queue), sent)
    this.receiveCq.flush(this.receive.queue, zones.pointer(this.receive.queue), received)
    this.onEnded(fault)
  }

  /**
   * Ends the pair here: what is outstanding ends as flushed, and nothing more is posted. The card
   * does not know before `destroy`.
   */
  close(): void {
    this.onEnded = () => {}
    this.fail('')
  }

  /**
   * Ends the pair at the card, too: when this resolves, nothing of it takes effect any more, and
   * its rings are free. Rejects with RefusedError where the card knows it no more.
   */
  async destroy(timeoutUs?: number): Promise<void> {
    if (this.destroyed) return
    this.close()
    // Asked twice, the second call might end another pair that has got the number meanwhile.
    this.ending ??= this.endAtCard(timeoutUs).finally(() => {
      this.ending = null
    })
    await this.ending
  }

  /** One that was not answered is tried again by the next call. */
  private async endAtCard(timeoutUs?: number): Promise<void> {
    const { control, ground } = this.parts
    try {
      await destroyWhenIdle(control, ground, this.send.queue, timeoutUs)
    } catch (error) {
      if (error instanceof RefusedError && error.fault === 'QUEUE_UNKNOWN') this.letGo()
      throw error
    }
    this.letGo()
    this.destroyed = true
    this.parts.forget()
    this.send.freeRings()
    this.receive.freeRings()
  }

  /** For the watchdog: rings again where the card takes nothing. Whether anything is waited for. */
  pushOn(): boolean {
    if (this.end !== null) return false
    const fault = this.send.errorInMemory || this.receive.errorInMemory
    if (fault !== '') {
      this.fail(fault)
      return false
    }
    const waits = this.send.pushOn()
    this.sendCq.look()
    return waits || (this.sendCq.armed && this.send.outstanding.size > 0)
  }
}

/** Ends a queue, or a pair; what is refused for a reason that passes is asked for again. */
export async function destroyWhenIdle(
  control: Control,
  ground: QueueGround,
  queue: number,
  timeoutUs?: number,
  transient: ReadonlySet<string> = TRANSIENT,
): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await control.destroy(queue, timeoutUs)
      return
    } catch (error) {
      const isBusy = error instanceof RefusedError && transient.has(error.fault)
      if (!isBusy || tries === BUSY_TRIES) throw error
    }
    await ground.sleep(BUSY_US)
  }
}

/** Whether a growth that ended so has changed nothing. */
function isHarmless(error: unknown): boolean {
  if (error instanceof QueueEnded) return false
  const code = error instanceof Error && 'code' in error ? error.code : ''
  return code === 'PERDURE_ARGUMENT' || code === 'PERDURE_MEMORY_FULL'
}

const DATA: Kind = {
  give: `${BYTES.give}, or a list of ranges`,
  takes: (value) => BYTES.takes(value) || (Array.isArray(value) && value.every(OBJECT.takes)),
}

const RANGE_OR_NONE: Kind = {
  give: 'a range of a buffer, or null',
  takes: (value) => value === null || OBJECT.takes(value),
}

/**
 * Throws PERDURE_ARGUMENT unless the element says what it sends, or where bytes go, if anything.
 */
function checkData(element: QueueElement): void {
  check('element', element, OBJECT)
  if (element.data !== undefined) check('data:', element.data, DATA)
  if (element.done !== undefined) check('done', element.done, FUNCTION)
}

function sumOf(ranges: readonly Range[]): number {
  let sum = 0
  for (const { length } of ranges) sum += length
  return sum
}
