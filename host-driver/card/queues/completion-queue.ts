/**
 * A completion queue: what has become of elements, read from the ring that the card writes (P3-27).
 *
 * Invariants:
 * - An entry is believed when both of its stamps are those of its number: one that is old, or half
 *   written, is not there yet (fault H2). Each is read once, in order.
 * - The consumer pointer is in zone 3 after each poll, before the completions are handed out.
 * - What the card will never complete is completed here, as flushed, behind what it did complete.
 * - A completion of no element that is known is counted and dropped; a notice is of none.
 */

import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import { ArgumentError, RefusedError } from '../../base/errors.ts'
import { COUNT, check } from '../../base/kinds.ts'
import { QueueEnded } from '../../way/queue-errors.ts'
import { checkDepth } from './layout.ts'
import { plus, Ring } from './ring.ts'
import type { Completion, QueueElement, Receive } from './values.ts'
import { WC_NAMES } from './values.ts'
import { type GrowthForm, type QueueGround, release, type WorkQueue } from './work-queue.ts'
import { zone2Bytes } from './zones.ts'

/** When the card interrupts: after so many completions, or so long behind the first. 0: at once. */
export interface Moderation {
  /** Completions, 0 to 65535. */
  readonly count?: number
  /** µs, 0 to 65535. */
  readonly periodUs?: number
}

/** Completions handed out in one go when a queue is dispatched. */
const DISPATCHED = 64

export class CompletionQueue {
  readonly queue: number
  readonly moderation: Required<Moderation>
  /** Entries that named no element that is known. */
  ghosts = 0
  /** Called once after `arm`, when there is something to poll, or the queue has ended. */
  onReady: () => void = () => {}
  /** Takes notices, which are of no element, when the queue is dispatched. */
  onNotice: (completion: Completion) => void = () => {}
  /** Told of each `arm`: to watch that it arrives. */
  onArmed: () => void = () => {}
  private readonly ground: QueueGround
  private readonly queueOf: (queue: number) => WorkQueue | undefined
  /** Addresses of the rings that the card may know: during a growth there are two. */
  private readonly rings: Set<number> = new Set()
  private ring: Ring
  /** The ring to be, while the queue grows. */
  private next: Ring | null = null
  private taken = 0
  private told = 0
  private arms = 0
  private isArmed = false
  private ended: string | null = null
  private readonly read: Completion[] = []

  constructor(
    ground: QueueGround,
    queue: number,
    at: number,
    entries: number,
    moderation: Moderation,
    queueOf: (queue: number) => WorkQueue | undefined,
  ) {
    this.ground = ground
    this.queue = queue
    this.queueOf = queueOf
    this.moderation = { count: 0, periodUs: 0, ...moderation }
    this.ring = new Ring(ground.memory, at, entries)
    this.rings.add(at)
    this.taken = ground.zones.pointer(queue)
    this.told = this.taken
    ground.zones.resetZone3(queue, this.taken)
  }

  get entries(): number {
    return this.ring.depth
  }

  /** Entries taken so far. */
  get pointer(): number {
    return this.taken
  }

  get armed(): boolean {
    return this.isArmed
  }

  /** Name of the fault that ended it ('COMPLETION_OVERRUN'), '' if it was closed, else null. */
  get end(): string | null {
    return this.ended
  }

  /** Up to `most` completions, the oldest first. */
  poll(most: number): Completion[] {
    check('poll', most, COUNT)
    while (this.read.length < most && this.takeEntry()) {}
    this.tell()
    return this.read.splice(0, most)
  }

  /** Reads everything that the card has written so far; `poll` hands it out. */
  absorb(): void {
    while (this.takeEntry()) {}
    this.tell()
  }

  /** Completes, as flushed, what the card will not; behind everything that it has written. */
  flush(queue: number, pointer: number, rest: readonly (readonly [number, Flushed])[]): void {
    for (const [unit, { units, element }] of rest) {
      this.read.push(flushed(queue, unit, units[el.WQE_OPCODE]!, pointer, element))
    }
    this.look()
  }

  /**
   * Asks to be told of the next completion, once: by `onReady`. One that is there already is told
   * of by `look`, so arm first, and poll then.
   */
  arm(): void {
    if (this.ended !== null) throw new QueueEnded(this.queue, this.ended)
    this.isArmed = true
    this.arms = plus(this.arms, 1)
    this.ground.zones.setArm(this.queue, this.arms)
    this.ringAgain()
    this.onArmed()
  }

  /** Rings with everything as it is: harmless at any time. */
  ringAgain(): void {
    this.ground.doorbell.ring(this.queue, this.told)
  }

  /** Whether there is something to poll. */
  get hasEntry(): boolean {
    return this.read.length > 0 || this.entryAt() >= 0
  }

  /** Tells whoever armed it, if there is something to poll. */
  look(): void {
    if (!this.isArmed || !(this.ended !== null || this.hasEntry)) return
    this.isArmed = false
    this.onReady()
  }

  /** The card has answered the arm, though what it tells of may have been polled already. */
  woken(): void {
    if (!this.isArmed) return
    this.isArmed = false
    this.onReady()
  }

  /**
   * Hands every completion to its work from now on. `after` is called when some were handed out and
   * no more are there.
   */
  dispatch(after: () => void): void {
    this.onReady = () => {
      for (let more = true; more; ) {
        const completions = this.poll(DISPATCHED)
        for (const completion of completions) {
          if (completion.opcode === el.CQE_NOTICE) this.onNotice(completion)
          else completion.element?.done?.(completion)
        }
        more = completions.length > 0
        if (!more && this.ended === null) {
          this.arm()
          more = this.hasEntry
        }
      }
      after()
    }
    this.arm()
  }

  /** Nothing more comes from the card. What was read can still be polled. */
  finish(why: string): void {
    if (this.ended !== null) return
    this.absorb()
    this.ended = why
    this.look()
  }

  // ---- entries ---------------------------------------------------------------------------------

  /** Address of the entry that is next, or -1 if it is not there. While growing in either ring. */
  private entryAt(): number {
    if (this.ended !== null) return -1
    if (this.isWhole(this.ring)) return this.ring.place(this.taken)
    if (this.next !== null && this.isWhole(this.next)) return this.next.place(this.taken)
    return -1
  }

  private isWhole(ring: Ring): boolean {
    const { memory } = this.ground
    const at = ring.place(this.taken)
    const stamp = plus(this.taken, 1)
    return (
      memory.loadWord(at + el.CQE_STAMP_AGAIN) >>> 0 === stamp &&
      memory.loadWord(at + el.CQE_STAMP) >>> 0 === stamp
    )
  }

  private takeEntry(): boolean {
    const at = this.entryAt()
    if (at < 0) return false
    const bytes = this.ground.memory.load(at, UNIT_BYTES)
    this.taken = plus(this.taken, 1)
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    if (bytes[el.CQE_OPCODE] === el.CQE_NOTICE) {
      this.read.push(readEntry(bytes, view, null))
      return true
    }
    const queue = view.getUint32(el.CQE_QUEUE, true)
    const unit = view.getUint32(el.CQE_UNIT, true)
    const pointer = view.getUint32(el.CQE_POINTER, true)
    const element = this.queueOf(queue)?.complete(unit, pointer) ?? null
    if (element === null) this.ghosts++
    else this.read.push(readEntry(bytes, view, element.element))
    return true
  }

  private tell(): void {
    if (this.told === this.taken || this.ended !== null) return
    this.told = this.taken
    this.ground.zones.setPointer(this.queue, this.taken)
  }

  // ---- growth ----------------------------------------------------------------------------------

  /**
   * Gives the queue room for `entries`, a power of two, more than it has (P3-27). Entries may come
   * meanwhile. Rejects as WorkQueue.grow does.
   */
  async grow(entries: number, form: GrowthForm = 'message'): Promise<void> {
    checkDepth('entries', entries)
    if (this.ended !== null) throw new QueueEnded(this.queue, this.ended)
    if (entries <= this.entries) throw new ArgumentError(`entries ${entries}: more than before`)
    if (this.next !== null) throw new ArgumentError(`queue ${this.queue} is growing already`)
    const { arena, memory, calls, zones } = this.ground
    const ring = new Ring(memory, arena.alloc(entries * UNIT_BYTES), entries)
    this.rings.add(ring.at)
    ring.clear()
    this.next = ring
    const zone2 = zone2Bytes({ ring: ring.at, depth: entries, ...this.moderation })
    try {
      if (form === 'message') {
        await calls.writeQueue(this.queue, zone2)
      } else {
        const token = await calls.lockQueue(this.queue)
        zones.store(this.queue, 2, 0, zone2, token)
        await release(calls, this.queue, token)
      }
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error
      this.next = null
      this.freeRing(ring.at)
      throw error
    }
    // What was written before the change is in the old ring, and here already.
    this.absorb()
    const old = this.ring
    this.ring = ring
    this.next = null
    this.freeRing(old.at)
  }

  private freeRing(at: number): void {
    if (this.rings.delete(at)) this.ground.arena.release(at)
  }

  /** The card knows the queue no more: its memory is free. */
  freeRings(): void {
    for (const at of [...this.rings]) this.freeRing(at)
  }
}

/** What is completed as flushed. */
interface Flushed {
  readonly units: Uint8Array
  readonly element: QueueElement | Receive
}

function readEntry(
  bytes: Uint8Array,
  view: DataView,
  element: QueueElement | Receive | null,
): Completion {
  return {
    queue: view.getUint32(el.CQE_QUEUE, true),
    unit: view.getUint32(el.CQE_UNIT, true),
    element,
    status: WC_NAMES[bytes[el.CQE_STATUS]!] ?? 'GENERAL_ERR',
    opcode: bytes[el.CQE_OPCODE]!,
    flags: view.getUint16(el.CQE_FLAGS, true),
    length: view.getUint32(el.CQE_LENGTH, true),
    immediate: view.getUint32(el.CQE_IMMEDIATE, true),
    operation: view.getBigUint64(el.CQE_OPERATION, true),
    psn: view.getUint32(el.CQE_PSN, true),
    copies: bytes[el.CQE_COPIES]!,
    mechanism: bytes[el.CQE_MECHANISM]!,
    refusal: bytes[el.CQE_REFUSAL]!,
    address: view.getBigUint64(el.CQE_ADDRESS, true),
    incarnation: view.getUint32(el.CQE_INCARNATION, true),
    source: view.getUint32(el.CQE_SOURCE, true),
    pointer: view.getUint32(el.CQE_POINTER, true),
  }
}

function flushed(
  queue: number,
  unit: number,
  opcode: number,
  pointer: number,
  element: QueueElement | Receive,
): Completion {
  return {
    queue,
    unit,
    element,
    status: 'WR_FLUSH_ERR',
    opcode,
    flags: 0,
    length: 0,
    immediate: 0,
    operation: 0n,
    psn: 0,
    copies: 0,
    mechanism: 0,
    refusal: 0,
    address: 0n,
    incarnation: 0,
    source: 0,
    pointer,
  }
}
