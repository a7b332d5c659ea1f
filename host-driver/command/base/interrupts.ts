/** What is to be done before a command ends by a signal of its user. */

const INTERRUPTS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

type Duty = () => void | Promise<void>

/** In the order in which they were taken up; the last one is done first. */
const duties: Duty[] = []

/** Does what is to be done; the command then ends as it would have ended. */
function interrupted(signal: NodeJS.Signals): void {
  listen('off')
  const end = (): boolean => process.kill(process.pid, signal)
  const done = duties
    .splice(0)
    .reverse()
    .map((duty) => duty())
  // What is said is said at once.
  if (done.some((one) => one instanceof Promise)) void Promise.allSettled(done).then(end)
  else end()
}

function listen(how: 'on' | 'off'): void {
  for (const signal of INTERRUPTS) process[how](signal, interrupted)
}

/**
 * Does that first when a signal comes, and whatever else is to be done then. A second signal does
 * not wait for it. Returns what ends the waiting.
 */
export function whenInterrupted(first: Duty): () => void {
  if (duties.length === 0) listen('on')
  duties.push(first)
  return () => {
    const at = duties.indexOf(first)
    if (at < 0) return
    duties.splice(at, 1)
    if (duties.length === 0) listen('off')
  }
}
