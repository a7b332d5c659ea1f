/**
 * Time for everything outside the firmware, in microseconds: what a clock is, and the real one.
 *
 * Invariant: an event runs once, never before its time, and never inside the call that scheduled
 * it.
 */

/** An event that was scheduled, so that it can be cancelled. */
export interface Timer {
  readonly atUs: number
  /** Undefined once it ran or was cancelled. */
  action: (() => void) | undefined
}

export interface Clock {
  /** Microseconds since the clock was made. */
  readonly nowUs: number
  /** Runs `action` at `atUs`, or as soon as may be if that is past. */
  schedule(atUs: number, action: () => void): Timer
  /** Makes sure that the event does not run; it may have run already. */
  cancel(timer: Timer): void
}

/** The time of the machine we run on. */
export class RealClock implements Clock {
  private readonly startedMs: number = performance.now()
  private readonly timers = new Map<Timer, NodeJS.Timeout | NodeJS.Immediate>()

  get nowUs(): number {
    return Math.floor((performance.now() - this.startedMs) * 1000)
  }

  schedule(atUs: number, action: () => void): Timer {
    const timer: Timer = { atUs, action }
    const waitMs = (atUs - this.nowUs) / 1000
    const run = (): void => {
      this.timers.delete(timer)
      const { action: due } = timer
      timer.action = undefined
      due?.()
    }
    // A timer of Node waits a millisecond at least; what is due within that runs in the next turn.
    this.timers.set(timer, waitMs < 1 ? setImmediate(run) : setTimeout(run, waitMs))
    return timer
  }

  cancel(timer: Timer): void {
    timer.action = undefined
    const handle = this.timers.get(timer)
    if (handle === undefined) return
    this.timers.delete(timer)
    // Node takes either kind in both calls, and miscounts its immediates if it is the wrong one.
    if ('refresh' in handle) clearTimeout(handle)
    else clearImmediate(handle)
  }

  /** Cancels everything, so that the process can end. */
  close(): void {
    for (const timer of [...this.timers.keys()]) this.cancel(timer)
  }
}
