/** Giving up: when the time of a call is over, or the signal of its caller fires. */

import type { Clock } from './clock.ts'
import { PerdureError } from './errors.ts'
import { onAbort } from './signals.ts'

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
