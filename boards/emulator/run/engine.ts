/**
 * The firmware as a board drives it, in whatever engine it runs: guest.ts or direct.ts.
 *
 * Invariant: an engine is driven by one machine, and after it stopped, every call throws
 * the same FirmwareStopped.
 */

export type StopReason =
  | 'threw' // an exception left the firmware: a bug of ours
  | 'hung' // a call did not come back
  | 'memory' // the guest ran out of memory
  | 'stack' // the guest ran out of stack
  | 'bundle' // what was loaded is not the firmware

/** The firmware met a bug of its own, or a limit of its machine, and stopped. */
export class FirmwareStopped extends Error {
  override readonly name = 'FirmwareStopped'
  readonly code = 'FIRMWARE_STOPPED'
  readonly reason: StopReason
  /** The stack inside the engine, or an empty string. */
  readonly guestStack: string

  constructor(reason: StopReason, message: string, guestStack = '', cause?: unknown) {
    super(`the firmware stopped (${reason}): ${message}`, { cause })
    this.reason = reason
    this.guestStack = guestStack
  }
}

export interface FirmwareEngine {
  /** Serves the frames in the first `count` receive places; see `Firmware.serve`. */
  serve(count: number, nowUs: number): number
  /** Gives it time for work of its own; 1 if it wants more soon. */
  idle(nowUs: number): number
  /** Bytes that the firmware's heap holds, for a check that it stays level. */
  memoryUsed(): number
  /** Ends it; no call may follow. */
  dispose(): void
}
