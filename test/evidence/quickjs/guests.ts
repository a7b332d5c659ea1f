/**
 * The guests of a shard: as many as the world has cards, used again for every power-on.
 *
 * What always holds: two cards never share a guest. A guest that stopped is not used again. When a
 * card goes off, what its guest holds is compared with what it held when it had started: a firmware
 * that keeps what it should let go grows.
 */

import type { FirmwareEngine } from '../../../boards/emulator/engine.ts'
import type { GuestMachine } from '../../../boards/emulator/guest.ts'
import { ColdGuest, type ColdOptions } from '../../support/cold-guest.ts'

/**
 * What a guest may hold more than when it started, as a share of it: there is one thing that the
 * firmware makes later, its side of a queue pair that asks others, and of these it has few.
 */
const GROWTH_MAX = 0.05

/** To ask costs as much as a power-on: one in so many is asked. */
const ASKED_EVERY = 8

export class Guests {
  /** Power-ons, and the garbage collections that were forced. */
  powerOns = 0
  /** The largest share by which a guest had grown when its card went off. */
  growth = 0
  /** Guests that grew by more than they may. */
  grown = 0
  private readonly options: ColdOptions
  private readonly free: ColdGuest[] = []
  private readonly all: ColdGuest[] = []

  constructor(options: ColdOptions = {}) {
    this.options = options
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
    const isAsked = this.powerOns++ % ASKED_EVERY === 0
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
    const growth = after / before - 1
    this.growth = Math.max(this.growth, growth)
    if (growth > GROWTH_MAX) this.grown++
  }

  dispose(): void {
    for (const guest of this.all) if (!guest.isSpent) guest.dispose()
  }
}
