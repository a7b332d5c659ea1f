/**
 * How the driver divides the memory that it shares with its card (source 3, initialisation; P3-10).
 *
 *   page 0            left alone: no address is 0
 *   header page       firmware/host/header-page.ts
 *   zones 1, 2, 3     K * R1, K * R2, K * R3, each from a page of its own
 *   events, rings of management
 *   the rest          an arena, for rings and buffers
 *
 * Invariant: R1 + R2 + R3 = R, and queue q has bytes [q * R1, q * R1 + R1) of zone 1, and
 * so on: its triple is used by no other. Nothing overlaps, as each part starts where the one before
 * ends. Everything in front of the arena is cleared before the card hears of it.
 */

import type { SharedMemory } from '../../../boards/host-port.ts'
import { HOST_QUEUES, QUEUE_DEPTH_MAX, UNIT_BYTES } from '../../../firmware/board/limits.ts'
import { HEADER_PAGE_BYTES } from '../../../firmware/board/memory-map.ts'
import * as page from '../../../firmware/host/header-page.ts'
import { ZONE1_BYTES, ZONE2_BYTES, ZONE3_BYTES } from '../../../firmware/host/queue-info.ts'
import { ArgumentError } from '../../base/errors.ts'
import { shown } from '../../base/kinds.ts'
import { MemoryFull } from '../../way/queue-errors.ts'
import { Arena, isPowerOfTwo } from './arena.ts'
import type { DoorbellForm } from './values.ts'

/** R: bytes of queue information of one queue. */
export const QUEUE_INFO_BYTES: number = ZONE1_BYTES + ZONE2_BYTES + ZONE3_BYTES

export interface LayoutOptions {
  /** K: numbers of queues, those of management among them; 4 to 65536, 1024 by default. */
  readonly queues?: number
  /** Units of the send ring of management; a power of two, 128 by default. */
  readonly managementUnits?: number
  /** Units of its receive ring: answers that may come at once; a power of two, 128 by default. */
  readonly managementReceives?: number
  /** Events that may wait to be read; a power of two, 1024 by default. */
  readonly events?: number
  /** Which of two write pointers is the newer (D-11): by distance (default) or by time. */
  readonly pointerOrder?: 'distance' | 'time'
  /**
   * How the queues ring; 'fifo' by default. By 'trusted' the card uses the pointers of the ring,
   * and saves reads; one that does not know how is rung by 'fifo'. Management rings by either.
   */
  readonly doorbell?: DoorbellForm
}

const PAGE_BYTES = HEADER_PAGE_BYTES

/** The queue information of so many queues; what they use of memory besides. */
export class Layout {
  readonly queues: number
  readonly header: number = PAGE_BYTES
  readonly zone1: number
  readonly zone2: number
  readonly zone3: number
  readonly eventRing: number
  readonly events: number
  readonly sendRing: number
  readonly sendUnits: number
  readonly receiveRing: number
  readonly receiveUnits: number
  readonly completionRing: number
  readonly completions: number
  readonly pointerOrder: number
  readonly trust: number
  readonly arena: Arena

  /** Divides a memory of so many bytes. Throws MemoryFull if it is too small. */
  constructor(bytes: number, options: LayoutOptions = {}) {
    const {
      queues = 1024,
      managementUnits = 128,
      managementReceives = 128,
      events = 1024,
    } = options
    if (!Number.isInteger(queues) || queues <= page.FIRST_QUEUE || queues > HOST_QUEUES) {
      throw new ArgumentError(`${shown(queues)} queues: ${page.FIRST_QUEUE + 1} to ${HOST_QUEUES}`)
    }
    checkDepth('managementUnits', managementUnits, 8)
    checkDepth('managementReceives', managementReceives, 8)
    checkDepth('events', events, 8)
    this.queues = queues
    this.events = events
    this.sendUnits = managementUnits
    this.receiveUnits = managementReceives
    this.completions = 2 * Math.max(managementUnits, managementReceives)
    const byTime = options.pointerOrder === 'time'
    this.pointerOrder = byTime ? page.ORDER_TIME : page.ORDER_DISTANCE
    this.trust = options.doorbell === 'trusted' ? 1 : 0
    let next = this.header + PAGE_BYTES
    const take = (length: number): number => {
      const at = next
      next = Math.ceil((at + length) / PAGE_BYTES) * PAGE_BYTES
      return at
    }
    this.zone1 = take(queues * ZONE1_BYTES)
    this.zone2 = take(queues * ZONE2_BYTES)
    this.zone3 = take(queues * ZONE3_BYTES)
    this.eventRing = take(events * page.EVENT_BYTES)
    this.sendRing = take(this.sendUnits * UNIT_BYTES)
    this.receiveRing = take(this.receiveUnits * UNIT_BYTES)
    this.completionRing = take(this.completions * UNIT_BYTES)
    const rest = Math.floor(bytes / PAGE_BYTES) * PAGE_BYTES - next
    if (!(rest > 0)) throw new MemoryFull(next, bytes)
    this.arena = new Arena(next, rest)
  }

  /** Clears everything in front of the arena and fills the header page. */
  write(memory: SharedMemory): void {
    const blank = new Uint8Array(PAGE_BYTES)
    for (let at = this.header; at < this.arena.at; at += PAGE_BYTES) memory.store(at, blank)
    memory.store(this.header, this.headerPage())
  }

  /** The header page, as it is given to the card. */
  headerPage(): Uint8Array {
    const bytes = new Uint8Array(PAGE_BYTES)
    const view = new DataView(bytes.buffer)
    const put = (at: number, value: number): void => view.setUint32(at, value, true)
    const put64 = (at: number, value: number): void => view.setBigUint64(at, BigInt(value), true)
    put(0, page.HEADER_MAGIC)
    put(4, page.HEADER_VERSION)
    put(page.HEADER_QUEUES, this.queues)
    put(page.HEADER_R1, ZONE1_BYTES)
    put(page.HEADER_R2, ZONE2_BYTES)
    put(page.HEADER_R3, ZONE3_BYTES)
    put64(page.HEADER_ZONE1, this.zone1)
    put64(page.HEADER_ZONE2, this.zone2)
    put64(page.HEADER_ZONE3, this.zone3)
    put64(page.HEADER_SEND_RING, this.sendRing)
    put(page.HEADER_SEND_UNITS, this.sendUnits)
    put(page.HEADER_RECEIVE_UNITS, this.receiveUnits)
    put64(page.HEADER_RECEIVE_RING, this.receiveRing)
    put64(page.HEADER_COMPLETION_RING, this.completionRing)
    put(page.HEADER_COMPLETIONS, this.completions)
    put(page.HEADER_POINTER_ORDER, this.pointerOrder)
    put64(page.HEADER_EVENT_RING, this.eventRing)
    put(page.HEADER_EVENTS, this.events)
    put(page.HEADER_TRUST, this.trust)
    return bytes
  }
}

/** Throws PERDURE_ARGUMENT unless `depth` is a power of two from `least` to QUEUE_DEPTH_MAX. */
export function checkDepth(name: string, depth: number, least = 1): void {
  if (isPowerOfTwo(depth) && depth >= least && depth <= QUEUE_DEPTH_MAX) return
  throw new ArgumentError(`${name} ${shown(depth)}: a power of two, ${least} to ${QUEUE_DEPTH_MAX}`)
}
