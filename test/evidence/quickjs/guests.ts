/**
 * The guests of a shard: as many as the world has cards, used again for every power-on.
 *
 * Invariant: two cards never share a guest. A guest that stopped is not used again. When a
 * card goes off, what its guest holds is compared with what it held when it had started: a firmware
 * that keeps what it should let go grows.
 */

import type { FirmwareEngine } from '../../../boards/emulator/run/engine.ts'
import type { GuestMachine } from '../../../boards/emulator/run/guest.ts'
import { QUEUE_PAIRS } from '../../../firmware/board/limits.ts'
import { ColdGuest, type ColdOptions } from '../../support/cards/cold-guest.ts'

/**
 * Bytes that a guest may hold more, or fewer, than when it started. There is one thing that the
 * firmware makes later and keeps: the asking side of a queue pair, of some 5,000 bytes.
 */
const GROWTH_MAX = QUEUE_PAIRS * 5_200

/** To ask costs as much as a power-on: one in so many is asked. */
const ASKED_EVERY = 8

export class Guests {
  /** Power-ons, and the garbage collections that were forced. */
  powerOns = 0
  /** The most bytes by which a guest had changed when its card went off. */
  growth = 0
  /** Guests that changed by more than they may. */
  grown = 0
  private readonly options: ColdOptions
  private readonly free: ColdGuest[] = []
  private readonly all: ColdGuest[] = []

  private readonly askedEvery: number

  constructor(options: ColdOptions = {}, askedEvery: number = ASKED_EVERY) {
    this.options = options
    this.askedEvery = askedEvery
  }

  /** Guests evaluated. */
  get count(): number {
    return this.all.length
  }

  get collections(): number {
    return this.all.reduce((sum, guest) => sum + guest.collections, 0)
  }

  /** Boots at once where a guest is free, and evaluates one where none is. */
  readonly boot = (
    machineFor: (packets: Uint8Array) => GuestMachine,
  ): FirmwareEngine | Promise<FirmwareEngine> => {
    const guest = this.free.pop()
    if (guest !== undefined) return this.start(guest, machineFor)
    return ColdGuest.evaluate(this.options).then((evaluated) => {
      this.all.push(evaluated)
      return this.start(evaluated, machineFor)
    })
  }

  private start(
    guest: ColdGuest,
    machineFor: (packets: Uint8Array) => GuestMachine,
  ): FirmwareEngine {
    const isAsked = this.powerOns++ % this.askedEvery === 0
    const engine = guest.start(machineFor)
    const before = isAsked ? engine.memoryUsed() : 0
    let isOn = true
    return {
      serve: (count, nowUs) => engine.serve(count, nowUs),
      idle: (nowUs) => engine.idle(nowUs),
      memoryUsed: () => engine.memoryUsed(),
      dispose: () => {
        if (!isOn) return
        isOn = false
        if (guest.isSpent) return
        if (isAsked) this.compare(before, engine.memoryUsed())
        this.free.push(guest)
      },
    }
  }

  private compare(before: number, after: number): void {
    const growth = Math.abs(after - before)
    this.growth = Math.max(this.growth, growth)
    if (growth > GROWTH_MAX) this.grown++
  }

  dispose(): void {
    for (const guest of this.all) if (!guest.isSpent) guest.dispose()
  }
}
