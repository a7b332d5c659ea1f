/**
 * What the driver asks of a network: Ethernet frames out and in, and a clock.
 *
 * What always holds:
 * - A frame given to `send` belongs to the wire from then on; a frame given to the callback belongs
 *   to the driver until the callback returns.
 * - `send` returns before the answer comes: frames are never delivered from inside it.
 * - Time is microseconds on any scale that only moves forward, real or virtual.
 */

export interface Wire {
  send(frame: Uint8Array): void
  onFrame(callback: (frame: Uint8Array) => void): void
  /** Now, µs. */
  now(): number
  /** Calls `callback` at `atUs` or soon after; returns what cancels it. */
  setTimer(atUs: number, callback: () => void): () => void
  close(): void
}

/** One end of the wire. */
export interface Endpoint {
  /** Ethernet address, six bytes. */
  readonly mac: readonly number[]
  /** IPv4 address, four bytes. */
  readonly ipv4: readonly number[]
}

/** Waits for so long on the wire's clock. */
export function sleep(wire: Wire, us: number): Promise<void> {
  return new Promise((resolve) => wire.setTimer(wire.now() + us, resolve))
}

/** Waits until the promise is settled, however, but no longer than so long. */
export function waitAtMost(wire: Wire, us: number, promise: Promise<unknown>): Promise<void> {
  return new Promise((resolve) => {
    const cancel = wire.setTimer(wire.now() + us, resolve)
    const settled = (): void => {
      cancel()
      resolve()
    }
    promise.then(settled, settled)
  })
}
