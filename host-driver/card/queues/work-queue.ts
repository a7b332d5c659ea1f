/**
 * A send or a receive queue: elements into the ring, the pointer behind them, and the doorbell.
 *
 *   taken ──────────── published ──────── written ──────── taken + depth
 *     units that the      units that wait     free units
 *     card may take now   for a growth
 *
 * Invariants:
 * - taken <= published <= written <= taken + depth, as numbers that wrap at 2^32 (D-11). A post
 *   that finds too few free units is refused before anything is stored (P3-25); a unit that the
 *   card has taken is free and is used again (P3-23).
 * - An element is stored whole, its second stamp last, before the pointer; pointer and time are
 *   stored as one word, before the doorbell (P3-12, X-4). Every change of the pointer rings; a list
 *   of elements changes it once, at its end (P3-14).
 * - While the queue grows, what is posted goes into the new ring, no further than the old one would
 *   have taken it, and the pointer stays: whichever ring is in force afterwards has every element
 *   from `taken` on, at its number (P3-24).
 * - Every element ends at most once: by its completion, or as flushed.
 */

import type { SharedMemory } from '../../../boards/host-port.ts'
import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { ahead, QUEUE_ERROR } from '../../../firmware/host/queue-info.ts'
import { ArgumentError, faultOfNumber, RefusedError } from '../../base/errors.ts'
import { QueueEnded, QueueFull } from '../../way/queue-errors.ts'
import type { Arena } from './arena.ts'
import type { Doorbell } from './doorbell.ts'
import { stamp } from './element.ts'
import { checkDepth } from './layout.ts'
import { plus, Ring } from './ring.ts'
import type { QueueElement, Receive } from './values.ts'
import { type Zones, zone2Bytes } from './zones.ts'

/** An element that is ready to be stored. */
export interface Encoded {
  /** Whole units, without stamps. */
  readonly units: Uint8Array
  readonly element: QueueElement | Receive
  /** Of a send: completes also when it succeeds. */
  readonly signaled: boolean
  /** Called once when the element is over, however: its buffers are free. */
  readonly release: (() => void) | null
}

/** How zone 2 is changed (P3-8, P3-9). */
export type GrowthForm = 'message' | 'lock'

/** The control calls that a queue needs. */
export interface QueueCalls {
  /** Zone 2 by message; resolves when it is in force. */
  writeQueue(queue: number, zone2: Uint8Array): Promise<void>
  /** The token; the card takes nothing of the queue until it is released. */
  lockQueue(queue: number): Promise<number>
  releaseQueue(queue: number, token: number): Promise<void>
}

/** What every queue of a device stands on. */
export interface QueueGround {
  readonly memory: SharedMemory
  readonly arena: Arena
  readonly zones: Zones
  readonly doorbell: Doorbell
  readonly calls: QueueCalls
  /** Waits so many µs. */
  readonly sleep: (us: number) => Promise<void>
}

export class WorkQueue {
  readonly queue: number
  /** Elements that are not over, by the number of their first unit, in their order. */
  readonly outstanding: Map<number, Encoded> = new Map()
  /** Told when an element went out, or units became free: to watch it, or to post more. */
  onPosted: () => void = () => {}
  /** Doorbells that were rung again as there was no progress. */
  rungAgain = 0
  private readonly ground: QueueGround
  /** Addresses of the rings that the card may know: during a growth there are two. */
  private readonly rings: Set<number> = new Set()
  private ring: Ring
  /** Units that may be in use: of the ring, or while it grows, of the old one. */
  private limit: number
  private taken: number
  private published: number
  private written: number
  private growing = false
  private held = false
  private seenTaken: number
  private ended: string | null = null

  /** `at` and `depth` of its ring; the queue goes on from where zone 1 says that it is. */
  constructor(ground: QueueGround, queue: number, at: number, depth: number) {
    this.ground = ground
    this.queue = queue
    this.ring = new Ring(ground.memory, at, depth)
    this.rings.add(at)
    this.limit = depth
    this.taken = ground.zones.pointer(queue)
    this.published = this.taken
    this.written = this.taken
    this.seenTaken = this.taken
    ground.zones.resetZone3(queue, this.written)
  }

  /** Units of the ring that is in force. */
  get depth(): number {
    return this.limit
  }

  /** Address of the ring. */
  get ringAt(): number {
    return this.ring.at
  }

  /** Write pointer: units stored so far. */
  get pointer(): number {
    return this.published
  }

  /** Units that may be stored now. */
  get free(): number {
    this.look()
    return this.limit - ahead(this.written, this.taken)
  }

  /** Units that the card has not taken. */
  get waiting(): number {
    this.look()
    return ahead(this.written, this.taken)
  }

  /** Name of the fault that ended it, '' if it was closed, null while it lives. */
  get end(): string | null {
    return this.ended
  }

  /** Whether zone 1 says that the queue is in the error state; the name of the fault, or ''. */
  get errorInMemory(): string {
    const { zones } = this.ground
    if (zones.state(this.queue) !== QUEUE_ERROR) return ''
    return faultOfNumber(zones.fault(this.queue))
  }

  /** Learns how far the card is. A pointer that cannot be is not believed (fault H3). */
  private look(pointer: number = this.ground.zones.pointer(this.queue)): void {
    const step = ahead(pointer, this.taken)
    if (step <= ahead(this.published, this.taken)) this.taken = pointer
  }

  /**
   * Stores elements one behind the other, all or none, and rings once. Returns the numbers of their
   * first units. Throws QueueFull, or QueueEnded; then nothing was stored.
   */
  post(elements: readonly Encoded[]): number[] {
    if (this.ended !== null) throw new QueueEnded(this.queue, this.ended)
    let units = 0
    for (const element of elements) units += element.units.length / UNIT_BYTES
    const { free } = this
    if (units > free) throw new QueueFull(this.queue, units, free)
    const numbers: number[] = []
    for (const element of elements) {
      numbers.push(this.written)
      stamp(element.units, this.written)
      this.ring.store(this.written, element.units)
      this.outstanding.set(this.written, element)
      this.written = plus(this.written, element.units.length / UNIT_BYTES)
    }
    if (elements.length > 0 && !this.held) this.publish()
    return numbers
  }

  /** Shows the card what was stored: the pointer, then the doorbell. */
  private publish(): void {
    if (this.published === this.written) return
    this.published = this.written
    this.ground.zones.setPointer(this.queue, this.published)
    this.ringAgain()
    this.onPosted()
  }

  /** Rings with the pointer as it is: harmless at any time. */
  ringAgain(): void {
    this.ground.doorbell.ring(this.queue, this.published)
  }

  /** Rings again if units wait and none was taken since the call before. Whether any wait. */
  pushOn(): boolean {
    this.look()
    if (this.ended !== null || this.published === this.taken) return false
    if (this.seenTaken === this.taken) {
      this.rungAgain++
      this.ringAgain()
    }
    this.seenTaken = this.taken
    return true
  }

  /**
   * The element that completes, or null. What is in front of it and wanted no completion is over,
   * too: completions of a queue come in the order of its elements.
   */
  complete(unit: number, pointer: number): Encoded | null {
    this.look(pointer)
    const element = this.outstanding.get(unit)
    if (element === undefined) return null
    for (const [number, before] of this.outstanding) {
      if (number === unit || before.signaled) break
      this.outstanding.delete(number)
      before.release?.()
    }
    this.outstanding.delete(unit)
    element.release?.()
    return element
  }

  /** Ends the queue for the reason `why`; returns what was outstanding, once, in its order. */
  finish(why: string): [number, Encoded][] {
    this.ended ??= why
    const rest = [...this.outstanding]
    this.outstanding.clear()
    for (const [, { release }] of rest) release?.()
    return rest
  }

  /** The card knows the queue no more: its memory is free. */
  freeRings(): void {
    for (const at of this.rings) this.ground.arena.release(at)
    this.rings.clear()
  }

  // ---- growth ----------------------------------------------------------------------------------

  /**
   * Gives the queue a ring of `depth` units, a power of two, more than it has. What waits in it
   * goes on from the new ring, each element once and in order, and posts may come meanwhile.
   * Rejects with PERDURE_ARGUMENT, MemoryFull, or RefusedError: then all is as before. After any
   * other error the queue must be ended: nothing of it goes on.
   */
  async grow(depth: number, form: GrowthForm = 'message'): Promise<void> {
    checkDepth('depth', depth)
    if (this.ended !== null) throw new QueueEnded(this.queue, this.ended)
    if (depth <= this.limit) throw new ArgumentError(`depth ${depth}: more than ${this.limit}`)
    if (this.growing) throw new ArgumentError(`queue ${this.queue} is growing already`)
    const { arena, memory } = this.ground
    const old = this.ring
    const ring = new Ring(memory, arena.alloc(depth * UNIT_BYTES), depth)
    this.rings.add(ring.at)
    this.growing = true
    try {
      ring.clear()
      if (form === 'message') await this.growByMessage(ring)
      else await this.growUnderLock(ring)
    } catch (error) {
      // Of what was not answered nobody knows which ring is in force: nothing more is published.
      if (!(error instanceof RefusedError)) throw error
      this.goBack(old)
      this.goOn(ring.at)
      throw error
    }
    this.limit = depth
    this.goOn(old.at)
  }

  /** The growth is over; the ring at that address is not needed any more. */
  private goOn(unused: number): void {
    if (this.rings.delete(unused)) this.ground.arena.release(unused)
    this.growing = false
    this.held = false
    if (this.ended === null) this.publish()
  }

  private async growByMessage(ring: Ring): Promise<void> {
    this.moveTo(ring)
    await this.ground.calls.writeQueue(this.queue, this.zone2Of(ring))
  }

  private async growUnderLock(ring: Ring): Promise<void> {
    const { calls, zones } = this.ground
    const token = await calls.lockQueue(this.queue)
    this.moveTo(ring)
    zones.store(this.queue, 2, 0, this.zone2Of(ring), token)
    await release(calls, this.queue, token)
  }

  private zone2Of(ring: Ring): Uint8Array {
    return zone2Bytes({ ring: ring.at, depth: ring.depth, count: 0, periodUs: 0 })
  }

  /** Everything from `taken` on to the new ring, and from now on what is posted. */
  private moveTo(ring: Ring): void {
    this.look()
    this.ring.copyTo(ring, this.taken, this.written)
    this.ring = ring
    this.held = true
  }

  /** What was posted meanwhile back to the ring that stays; of one that ended it may be free. */
  private goBack(old: Ring): void {
    if (this.ring === old || this.ended !== null) return
    this.ring.copyTo(old, this.published, this.written)
    this.ring = old
  }
}

/** How often a card is asked to release a queue whose zones it could not read. */
const RELEASE_TRIES = 8

/**
 * Zone 2 is written: a release that is refused does not take that back, and ends the queue. It
 * stays locked then, and can never be destroyed: so it is asked for again where that may help.
 */
export async function release(calls: QueueCalls, queue: number, token: number): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      await calls.releaseQueue(queue, token)
      return
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      if (error.fault !== 'DMA' || tries === RELEASE_TRIES) throw new QueueEnded(queue, error.fault)
    }
  }
}
