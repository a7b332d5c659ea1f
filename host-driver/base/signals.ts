/**
 * AbortSignals of the caller.
 *
 * Invariant: a signal has one listener of ours, however many calls and connections wait for
 * it, and none when nobody does. Node warns of a leak where there are more than ten.
 */

/** Who waits for each signal, and the listener that tells them. */
const waiting: WeakMap<AbortSignal, Watched> = new WeakMap()

interface Watched {
  readonly callbacks: Set<() => void>
  readonly listener: () => void
}

/** Calls back when the signal fires, which it has not yet; returns what ends that. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  const { callbacks, listener } = waiting.get(signal) ?? watch(signal)
  callbacks.add(callback)
  return () => {
    if (!callbacks.delete(callback) || callbacks.size > 0) return
    signal.removeEventListener('abort', listener)
    waiting.delete(signal)
  }
}

function watch(signal: AbortSignal): Watched {
  const callbacks = new Set<() => void>()
  const listener = (): void => {
    waiting.delete(signal)
    for (const callback of [...callbacks]) if (callbacks.delete(callback)) callback()
  }
  const watched = { callbacks, listener }
  waiting.set(signal, watched)
  signal.addEventListener('abort', listener, { once: true })
  return watched
}
