/**
 * The clock of a way, and waiting by it.
 *
 * Invariant: time is microseconds on any scale that only moves forward, real or virtual.
 */

/** A clock, and what it wakes. */
export interface Clock {
  /** Now, µs. */
  now(): number
  /** Calls `callback` at `atUs` or soon after; returns what cancels it. */
  setTimer(atUs: number, callback: () => void): () => void
}

/** Waits for so long on that clock. */
export function sleep(clock: Clock, us: number): Promise<void> {
  return new Promise((resolve) => clock.setTimer(clock.now() + us, resolve))
}

/** Waits until the promise is settled, however, but no longer than so long. */
export function waitAtMost(clock: Clock, us: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.setTimer(clock.now() + us, resolve)
    const settled = (): void => {
      cancel()
      resolve()
    }
    promise.then(settled, settled)
  })
}
