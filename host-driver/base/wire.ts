/**
 * What the driver asks of a network: Ethernet frames out and in, and a clock.
 *
 * Invariants:
 * - A frame given to `send` belongs to the wire from then on; a frame given to the callback belongs
 *   to the driver until the callback returns.
 * - `send` returns before the answer comes: frames are never delivered from inside it.
 * - Time is microseconds on any scale that only moves forward, real or virtual.
 */

import type { Clock } from './clock.ts'
import { having, type Kind } from './kinds.ts'

export interface Wire extends Clock {
  send(frame: Uint8Array): void
  onFrame(callback: (frame: Uint8Array) => void): void
  /** Where the other end was looked for, and what came of it: for whoever hears nothing of it. */
  tried?(): string
  /**
   * The connection broke: looks for the other end again, wherever it may be reached. Whether that
   * may be over another path.
   */
  seek?(): boolean
  close(): void
}

/** A wire of one's own. */
export const WIRE: Kind = having(['send', 'onFrame', 'now', 'setTimer', 'close'], 'a wire')

/** One end of the wire. */
export interface Endpoint {
  /** Ethernet address, six bytes. */
  readonly mac: readonly number[]
  /** IPv4 address, four bytes. */
  readonly ipv4: readonly number[]
}
