/** What is to be done before a command ends by a signal of its user. */

const INTERRUPTS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Does that first when a signal comes; the command then ends as it would have ended. Returns what
 * ends the waiting.
 */
export function whenInterrupted(first: () => void): () => void {
  const interrupted = (signal: NodeJS.Signals): void => {
    first()
    process.kill(process.pid, signal)
  }
  for (const signal of INTERRUPTS) process.once(signal, interrupted)
  return () => {
    for (const signal of INTERRUPTS) process.off(signal, interrupted)
  }
}
