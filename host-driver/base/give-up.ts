/** Giving up: when the time of a call is over, or the signal of its caller fires. */

import type { Clock } from './clock.ts'
import { PerdureError } from './errors.ts'
import { DURATION, type Kinds, SIGNAL } from './kinds.ts'
import { onAbort } from './signals.ts'

/** How long to wait for a call. */
export interface WaitOptions {
  /** Gives up waiting when it fires. */
  readonly signal?: AbortSignal
  /** Gives up waiting after this time, ms. */
  readonly deadlineMs?: number
}

export const WAIT_KINDS: Kinds<WaitOptions> = { signal: SIGNAL, deadlineMs: DURATION }

/** What may be given up: `nothingSent` is its end where that is so. */
export interface MayGiveUp {
  readonly what: string
  giveUp(why: string, nothingSent: PerdureError): void
}

/** Calls `giveUp` after so long, or when the signal fires; returns what ends the watch. */
export function giveUpWhen(
  clock: Clock,
  call: MayGiveUp,
  deadlineMs: number | undefined,
  signal: AbortSignal | undefined,
): () => void {
  const abort = (): void => {
    const message = `${call.what}: aborted before it was sent`
    const nothingSent = new PerdureError('PERDURE_ABORTED', message, { cause: signal?.reason })
    call.giveUp('the signal fired', nothingSent)
  }
  if (signal?.aborted === true) {
    abort()
    return () => {}
  }
  let cancel = (): void => {}
  if (deadlineMs !== undefined && deadlineMs !== Infinity) {
    cancel = clock.setTimer(clock.now() + deadlineMs * 1000, () => {
      const message = `${call.what}: not sent within ${deadlineMs} ms`
      const nothingSent = new PerdureError('PERDURE_DEADLINE', message)
      call.giveUp(`no answer within ${deadlineMs} ms`, nothingSent)
    })
  }
  const forget = signal === undefined ? (): void => {} : onAbort(signal, abort)
  return () => {
    cancel()
    forget()
  }
}

/**
 * What is asked for, unless the signal fires, or its time is over: for what changes nothing, so
 * that nobody minds when it ends. Rejects then with PERDURE_ABORTED or PERDURE_DEADLINE.
 */
export function within<T>(
  clock: Clock,
  what: string,
  { deadlineMs, signal }: WaitOptions,
  ask: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isGivenUp = false
    const giveUp = (why: string, { code, cause }: PerdureError): void => {
      isGivenUp = true
      reject(new PerdureError(code, `${what}: ${why}`, { cause }))
    }
    const release = giveUpWhen(clock, { what, giveUp }, deadlineMs, signal)
    if (!isGivenUp) void ask().then(resolve, reject).finally(release)
  })
}
