/**
 * Doorbells and interrupts may get lost (fault H1): whoever waits for the card is looked at again.
 *
 * Invariant: the timer runs only while somebody is watched, and whoever waits for nothing
 * is watched no more: a process without work ends.
 */

import type { Clock } from '../base/clock.ts'

/** Whoever waits for the card. */
interface Watched {
  /** Looks, and rings again where nothing has moved. Whether it still waits. */
  pushOn(): boolean
}

export class Watchdog {
  private readonly clock: Clock
  private readonly periodUs: number
  private readonly look: () => void
  private readonly watched: Set<Watched> = new Set()
  private cancel: (() => void) | null = null

  /** Looks every `periodUs`, and calls `look` each time. */
  constructor(clock: Clock, periodUs: number, look: () => void) {
    this.clock = clock
    this.periodUs = periodUs
    this.look = look
  }

  watch(one: Watched): void {
    this.watched.add(one)
    this.start()
  }

  private start(): void {
    this.cancel ??= this.clock.setTimer(this.clock.now() + this.periodUs, () => {
      this.cancel = null
      for (const one of [...this.watched]) if (!one.pushOn()) this.watched.delete(one)
      this.look()
      if (this.watched.size > 0) this.start()
    })
  }

  /** Watches nobody any more. */
  stop(): void {
    this.cancel?.()
    this.cancel = null
    this.watched.clear()
  }
}
