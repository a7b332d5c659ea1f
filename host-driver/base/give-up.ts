/** Giving up: when the time of a call is over, or the signal of its caller fires. */

import type { Clock } from './clock.ts'
import { EffectUnknown, PerdureError } from './errors.ts'
import { DURATION, type Kinds, SIGNAL } from './kinds.ts'
import { onAbort } from './signals.ts'

/**
 * How long to wait for a call. It rejects with PERDURE_ABORTED or PERDURE_DEADLINE where nothing of
 * it was sent, or it changes nothing; else with PERDURE_OUTCOME_UNKNOWN.
 */
export interface WaitOptions {
  /** Gives up waiting when it fires. */
  readonly signal?: AbortSignal
  /** Gives up waiting after this time, ms, more than 0; as long as it takes by default. */
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
 * What a caller waits for, as those see it who work for him: whether he still waits, and what they
 * have sent for him that may have its effect whatever he decides.
 *
 * Invariant: once he has given up, nothing more is sent for him.
 */
export class Caller {
  private over: PerdureError | null = null
  private readonly effects: (() => boolean)[] = []
  private readonly ends: ((error: Error) => void)[] = []

  get hasGivenUp(): boolean {
    return this.over !== null
  }

  /** Throws the reason once the caller has given up. */
  check(): void {
    if (this.over !== null) throw this.over
  }

  /** From now on `mayHaveEffect` says whether what was sent may change something. */
  watchEffect(mayHaveEffect: () => boolean): void {
    this.effects.push(mayHaveEffect)
  }

  /** Calls back when the caller gives up; returns what ends that. */
  onGivenUp(callback: (error: Error) => void): () => void {
    this.ends.push(callback)
    return () => {
      const at = this.ends.indexOf(callback)
      if (at >= 0) this.ends.splice(at, 1)
    }
  }

  /** The caller gives up: returns the error that tells him what that leaves. */
  giveUp(what: string, why: string, { code, cause }: PerdureError): PerdureError {
    const harmless = new PerdureError(code, `${what}: ${why}`, { cause })
    this.over = harmless
    const mayHaveEffect = this.effects.some((has) => has())
    for (const end of this.ends.splice(0)) end(harmless)
    if (!mayHaveEffect) return harmless
    return new EffectUnknown('WR_FLUSH_ERR', what, new PerdureError(code, why, { cause }))
  }
}

/**
 * What is asked for, unless the signal fires, or its time is over. Rejects then with
 * PERDURE_ABORTED or PERDURE_DEADLINE where nothing was changed, and with EffectUnknown where that
 * is not known. `ask` is called at once, unless the signal has fired before.
 */
export function within<T>(
  clock: Clock,
  what: () => string,
  { deadlineMs, signal }: WaitOptions,
  ask: (caller: Caller) => Promise<T>,
): Promise<T> {
  const caller = new Caller()
  if (deadlineMs === undefined && signal === undefined) return ask(caller)
  return new Promise((resolve, reject) => {
    let release = (): void => {}
    const giveUp = (why: string, nothingSent: PerdureError): void => {
      release()
      reject(caller.giveUp(what(), why, nothingSent))
    }
    release = giveUpWhen(clock, { what: what(), giveUp }, deadlineMs, signal)
    if (caller.hasGivenUp) return
    const asked = (async () => await ask(caller))()
    void asked.then(resolve, reject).finally(() => release())
  })
}
