/**
 * What npm has started ends with it: a `kill -9` of `npx perdure emulate` reaches npm alone, and
 * the card would go on without anybody who knows of it (R1-U6).
 */

import { PARENT, statOf } from '../../../boards/proc-stat.ts'

/** How often it is looked, ms. */
const LOOK_MS = 250

/** Ends this process as a `kill -9` does, once the npm is gone that has started it. */
export function endWithNpm(): void {
  // npm tells what it starts which of its commands that is.
  if (process.env.npm_command === undefined) return
  const parent = process.ppid
  const shell = statOf(parent)[PARENT]
  setInterval(() => {
    // npm has a shell start it, which may stay between the two.
    if (process.ppid === parent && statOf(parent)[PARENT] === shell) return
    process.kill(process.pid, 'SIGKILL')
  }, LOOK_MS).unref()
}
