/**
 * A card without firmware, for tests of the driver's queues: it sees the same memory, and does what
 * a test tells it to, when it is told.
 *
 * Invariant: it takes elements only from the ring that is in force, only in front of the
 * write pointer, and only while the queue is not locked; every element has to be whole.
 */

import type { HostPort, SharedMemory } from '../../../boards/host-port.ts'
import { UNIT_BYTES } from '../../../firmware/board/limits.ts'
import * as el from '../../../firmware/host/element.ts'
import * as info from '../../../firmware/host/queue-info.ts'
import { RefusedError } from '../../../host-driver/base/errors.ts'
import { FifoDoorbell } from '../../../host-driver/card/queues/doorbell.ts'
import { Layout } from '../../../host-driver/card/queues/layout.ts'
import {
  type Encoded,
  type QueueGround,
  WorkQueue,
} from '../../../host-driver/card/queues/work-queue.ts'
import { Zones } from '../../../host-driver/card/queues/zones.ts'

/** Plain memory; `seen` is told of every store: where, and how many bytes. */
class PlainMemory implements SharedMemory {
  readonly live: Uint8Array
  readonly view: DataView
  readonly bytes: number
  seen: (what: string, at: number, bytes: number) => void = () => {}

  constructor(bytes: number) {
    this.bytes = bytes
    this.live = new Uint8Array(bytes)
    this.view = new DataView(this.live.buffer)
  }

  load(at: number, length: number): Uint8Array {
    return this.live.slice(at, at + length)
  }

  loadWord(at: number): number {
    return this.view.getInt32(at, true)
  }

  store(at: number, bytes: Uint8Array): void {
    this.live.set(bytes, at)
    this.seen('store', at, bytes.length)
  }

  storeWord(at: number, value: number): void {
    this.view.setInt32(at, value | 0, true)
    this.seen('word', at, 4)
  }

  storePair(at: number, low: number, high: number): void {
    this.view.setUint32(at, low, true)
    this.view.setUint32(at + 4, high, true)
    this.seen('pair', at, 8)
  }
}

/** A port of which every register write is written down. */
class PlainPort implements HostPort {
  readonly memory: PlainMemory
  time = 100
  readonly timers: { atUs: number; callback: () => void }[] = []
  written: (what: string, low: number, high: number) => void = () => {}

  constructor(bytes: number) {
    this.memory = new PlainMemory(bytes)
  }

  writeRegister(at: number, value: number): void {
    this.written('register', at, value)
  }

  writeRegisterPair(_at: number, low: number, high: number): void {
    this.written('pair', low >>> 0, high)
  }

  ringDoorbell(low: number, high: number): void {
    this.written('ring', low >>> 0, high)
  }

  readRegister(): number {
    return 0
  }

  onInterrupt(): void {}

  now(): number {
    return this.time
  }

  setTimer(atUs: number, callback: () => void): () => void {
    const timer = { atUs, callback }
    this.timers.push(timer)
    return () => {
      const i = this.timers.indexOf(timer)
      if (i >= 0) this.timers.splice(i, 1)
    }
  }

  /** Lets time pass to `atUs`, and runs what is due. */
  runUntil(atUs: number): void {
    for (;;) {
      const due = this.timers.filter((timer) => timer.atUs <= atUs)
      if (due.length === 0) break
      const next = due.reduce((a, b) => (b.atUs < a.atUs ? b : a))
      this.timers.splice(this.timers.indexOf(next), 1)
      this.time = Math.max(this.time, next.atUs)
      next.callback()
    }
    this.time = atUs
  }

  close(): void {}
}

/** What happened, in order. */
export interface Step {
  readonly what: string
  readonly at: number
  readonly bytes: number
}

/** Queue 3 of a host, and the card that serves it. */
export class FakeQueueCard {
  readonly port: PlainPort = new PlainPort(1 << 17)
  readonly layout: Layout
  readonly zones: Zones
  readonly ground: QueueGround
  readonly queue = 3
  /** Immediate data of every element that was taken, in order. */
  readonly taken: number[] = []
  readonly steps: Step[] = []
  /** What the card does when a control call comes, before it answers; throws to refuse. */
  onCall: (call: 'write' | 'lock' | 'release') => void | Promise<void> = () => {}

  constructor() {
    const { port } = this
    const options = { queues: 8, managementUnits: 8, managementReceives: 8, events: 8 }
    this.layout = new Layout(port.memory.bytes, options)
    this.zones = new Zones(port.memory, this.layout, () => port.now())
    this.ground = {
      memory: port.memory,
      arena: this.layout.arena,
      zones: this.zones,
      doorbell: new FifoDoorbell(port, true),
      sleep: async () => {},
      calls: {
        writeQueue: async (queue, zone2) => {
          await this.onCall('write')
          port.memory.live.set(zone2, this.zones.at(queue, 2))
        },
        lockQueue: async (queue) => {
          await this.onCall('lock')
          this.setZone1(queue, info.Z1_LOCK, 77)
          return 77
        },
        releaseQueue: async (queue) => {
          await this.onCall('release')
          this.setZone1(queue, info.Z1_LOCK, 0)
        },
      },
    }
    port.memory.seen = (what, at, bytes) => this.steps.push({ what, at, bytes })
    port.written = (what, low, high) => this.steps.push({ what, at: low, bytes: high })
  }

  /** Makes queue 3, which has taken `pointer` units before. */
  make(depth: number, pointer = 0): WorkQueue {
    const ring = this.layout.arena.alloc(depth * UNIT_BYTES)
    const zone2 = this.zones.at(this.queue, 2)
    const { view } = this.port.memory
    view.setBigUint64(zone2 + info.Z2_RING, BigInt(ring), true)
    view.setUint32(zone2 + info.Z2_DEPTH, depth, true)
    this.setZone1(this.queue, info.Z1_STATE, info.QUEUE_READY)
    this.setZone1(this.queue, info.Z1_POINTER, pointer)
    return new WorkQueue(this.ground, this.queue, ring, depth)
  }

  setZone1(queue: number, offset: number, value: number): void {
    this.port.memory.view.setUint32(this.zones.at(queue, 1) + offset, value, true)
  }

  /** Address of a unit, in the ring that is in force. */
  place(unit: number): number {
    const { ring, depth } = this.zones.zone2(this.queue)
    return ring + (unit & (depth - 1)) * UNIT_BYTES
  }

  get pointer(): number {
    return this.port.memory.loadWord(this.zones.at(this.queue, 3) + info.Z3_POINTER) >>> 0
  }

  /** Takes up to so many elements: each whole, stamped, and not yet taken. */
  take(most: number = Number.POSITIVE_INFINITY): void {
    const { view } = this.port.memory
    if (this.zones.lock(this.queue) !== 0) return
    for (let i = 0; i < most; i++) {
      const unit = this.zones.pointer(this.queue)
      if (unit === this.pointer) return
      const at = this.place(unit)
      const stamp = (unit + 1) >>> 0
      const first = view.getUint32(at + el.WQE_STAMP, true)
      const second = view.getUint32(at + el.WQE_STAMP_AGAIN, true)
      if (first !== stamp || second !== stamp) throw new Error(`unit ${unit} is not whole`)
      const units = view.getUint8(at + el.WQE_UNITS)
      const tag = view.getUint32(at + el.WQE_IMMEDIATE, true)
      for (let j = 1; j < units; j++) {
        const behind = view.getUint8(this.place((unit + j) >>> 0))
        if (behind !== (tag & 0xff)) throw new Error(`unit ${j} of element ${tag} is not its own`)
      }
      this.taken.push(tag)
      this.setZone1(this.queue, info.Z1_POINTER, unit + units)
    }
  }
}

/** An element of so many units that carries a number, in its immediate data and behind. */
export function tagged(tag: number, units = 1): Encoded {
  const bytes = new Uint8Array(units * UNIT_BYTES)
  bytes.fill(tag & 0xff, UNIT_BYTES)
  bytes[el.WQE_OPCODE] = el.WQE_NOP
  bytes[el.WQE_UNITS] = units
  new DataView(bytes.buffer).setUint32(el.WQE_IMMEDIATE, tag, true)
  return { units: bytes, element: { kind: 'nop' }, signaled: true, release: null }
}

export function refused(fault: string): RefusedError {
  return new RefusedError(fault, 0, 'the card')
}
