/** What is to be done before a command ends by a signal of its user. */

const INTERRUPTS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Does that first when a signal comes; the command then ends as it would have ended. A second one
 * of the same kind does not wait for it. Returns what ends the waiting.
 */
export function whenInterrupted(first: () => void | Promise<void>): () => void {
  const interrupted = (signal: NodeJS.Signals): void => {
    const end = (): boolean => process.kill(process.pid, signal)
    const done = first()
    if (done instanceof Promise) done.then(end, end)
    else end()
  }
  for (const signal of INTERRUPTS) process.once(signal, interrupted)
  return () => {
    for (const signal of INTERRUPTS) process.off(signal, interrupted)
  }
}
