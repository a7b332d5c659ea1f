/**
 * Queue information as the host may see and change it (source 3; P3-4 to P3-11).
 *
 * Invariants:
 * - Zone 1 is read only. Zone 2 is written through the card, or here by whoever shows the token of
 *   its lock. Zone 3 is the host's own. Whatever else is tried throws ForbiddenAccess, and nothing
 *   was changed: here, before the memory itself is asked.
 * - Pointer and time of zone 3 are stored as one word of 64 bits (P3-12).
 */

import type { SharedMemory } from '../../../boards/host-port.ts'
import { ForbiddenAccess } from '../../../boards/host-port.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { ArgumentError } from '../../base/errors.ts'
import type { Layout } from './layout.ts'

/** Which zone: 1, 2 or 3; of a receiver the source calls them 4, 5 and 6. */
type ZoneNumber = 1 | 2 | 3

/** What zone 2 says. */
interface Zone2 {
  /** Address of the first unit or entry. */
  readonly ring: number
  /** Units or entries, a power of two. */
  readonly depth: number
  /** Of a completion queue: completions, and µs, until an interrupt. */
  readonly count: number
  readonly periodUs: number
}

const SIZES = { 1: info.ZONE1_BYTES, 2: info.ZONE2_BYTES, 3: info.ZONE3_BYTES } as const

export class Zones {
  private readonly memory: SharedMemory
  private readonly layout: Layout
  private readonly now: () => number

  /** `now` gives µs. */
  constructor(memory: SharedMemory, layout: Layout, now: () => number) {
    this.memory = memory
    this.layout = layout
    this.now = now
  }

  /**
   * Address of the queue's part of a zone. PERDURE_ARGUMENT for a queue that there is no room for.
   */
  at(queue: number, zone: ZoneNumber): number {
    const { queues, zone1, zone2, zone3 } = this.layout
    if (!Number.isInteger(queue) || queue < 0 || queue >= queues) {
      throw new ArgumentError(`queue ${queue}: 0 to ${queues - 1}`)
    }
    if (zone === 1) return zone1 + queue * info.ZONE1_BYTES
    if (zone === 2) return zone2 + queue * info.ZONE2_BYTES
    if (zone === 3) return zone3 + queue * info.ZONE3_BYTES
    throw new ArgumentError(`zone ${zone}: 1, 2 or 3`)
  }

  /** A copy of the queue's part of a zone. */
  load(queue: number, zone: ZoneNumber): Uint8Array {
    return this.memory.load(this.at(queue, zone), SIZES[zone])
  }

  /**
   * Stores `bytes` at `offset` of the queue's part of a zone. Zone 1: ForbiddenAccess. Zone 2: with
   * the token of its lock only, else ForbiddenAccess. What leaves the part is PERDURE_ARGUMENT.
   */
  store(queue: number, zone: ZoneNumber, offset: number, bytes: Uint8Array, token = 0): void {
    const at = this.at(queue, zone)
    if (!Number.isInteger(offset) || offset < 0 || offset + bytes.length > SIZES[zone]) {
      const size = SIZES[zone]
      throw new ArgumentError(`${bytes.length} bytes at ${offset} of zone ${zone}: it has ${size}`)
    }
    if (zone === 1) {
      throw new ForbiddenAccess('zone1', queue, at + offset, `zone 1 of queue ${queue}: read only`)
    }
    if (zone === 2) this.checkLock(queue, at + offset, token)
    this.memory.store(at + offset, bytes)
  }

  private checkLock(queue: number, at: number, token: number): void {
    const held = this.word(queue, info.Z1_LOCK)
    if (token !== 0 && held === token >>> 0) return
    const message = `zone 2 of queue ${queue}: only through the card, or under its lock`
    throw new ForbiddenAccess('zone2', queue, at, message)
  }

  // ---- zone 1 ----------------------------------------------------------------------------------

  private word(queue: number, offset: number): number {
    return this.memory.loadWord(this.at(queue, 1) + offset) >>> 0
  }

  /** Units that the card has taken, or entries that it has written. */
  pointer(queue: number): number {
    return this.word(queue, info.Z1_POINTER)
  }

  /** QUEUE_RESET to QUEUE_ERROR. */
  state(queue: number): number {
    return this.word(queue, info.Z1_STATE & ~3) & 0xff
  }

  isValid(queue: number): boolean {
    return ((this.word(queue, info.Z1_STATE & ~3) >>> 16) & 0xff) !== 0
  }

  /** Number of the fault that ended the queue, or 0. */
  fault(queue: number): number {
    return this.word(queue, info.Z1_FAULT)
  }

  /** Token of who may write zone 2, or 0. */
  lock(queue: number): number {
    return this.word(queue, info.Z1_LOCK)
  }

  // ---- zone 2 ----------------------------------------------------------------------------------

  zone2(queue: number): Zone2 {
    const bytes = this.load(queue, 2)
    const view = new DataView(bytes.buffer, bytes.byteOffset)
    return {
      ring: Number(view.getBigUint64(info.Z2_RING, true)),
      depth: view.getUint32(info.Z2_DEPTH, true),
      count: view.getUint16(info.Z2_COUNT, true),
      periodUs: view.getUint16(info.Z2_PERIOD, true),
    }
  }

  // ---- zone 3 ----------------------------------------------------------------------------------

  /** Units stored, or entries taken; the time goes with it. */
  setPointer(queue: number, pointer: number): void {
    const timeUs = Math.floor(this.now()) % 2 ** 32
    this.memory.storePair(this.at(queue, 3) + info.Z3_POINTER, pointer, timeUs)
  }

  /** Asks for an interrupt at the next completion: a number other than the one before. */
  setArm(queue: number, arm: number): void {
    this.memory.storeWord(this.at(queue, 3) + info.Z3_ARM, arm)
  }

  /** As for a new queue: nothing stored, not armed. */
  resetZone3(queue: number, pointer: number): void {
    this.setPointer(queue, pointer)
    this.setArm(queue, 0)
  }
}

/** The bytes of zone 2. */
export function zone2Bytes(zone: Zone2): Uint8Array {
  const bytes = new Uint8Array(info.ZONE2_BYTES)
  const view = new DataView(bytes.buffer)
  view.setBigUint64(info.Z2_RING, BigInt(zone.ring), true)
  view.setUint32(info.Z2_DEPTH, zone.depth, true)
  view.setUint16(info.Z2_COUNT, zone.count, true)
  view.setUint16(info.Z2_PERIOD, zone.periodUs, true)
  return bytes
}
