/**
 * One card for one image: a second one would write what the first does not know of (fault H12).
 *
 * What always holds: the lock is a file beside the image that names its process; it is made by one
 * call that fails where the file exists, with its content in place. A lock of a process that is
 * gone, killed with its lock in place, is taken over.
 */

import { linkSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'

/** Ends the name of the lock beside the image, unless there are several for one file. */
const LOCK_SUFFIX = '.lock'

/** The locks that this process has: its number in another one is that of a process that is gone. */
const held = new Set<string>()

/** Takes the lock. Returns what gives it back, or the process that has it. */
export function lockImage(path: string, suffix: string = LOCK_SUFFIX): (() => void) | number {
  const lock = realpathSync(path) + suffix
  for (let attempt = 0; attempt < 2; attempt++) {
    const ours = `${lock}.${process.pid}`
    try {
      writeFileSync(ours, `${process.pid}\n`)
      linkSync(ours, lock)
      held.add(lock)
      return () => {
        if (held.delete(lock)) rmSync(lock, { force: true })
      }
    } catch (error) {
      if (!isThere(error)) throw error
      const owner = ownerOf(lock)
      if (owner !== null) return owner
      rmSync(lock, { force: true })
    } finally {
      rmSync(ours, { force: true })
    }
  }
  throw new Error(`${lock} comes and goes`)
}

function isThere(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST'
}

/** The process that the lock names, or null if there is none of that number. */
function ownerOf(lock: string): number | null {
  let owner = Number.NaN
  try {
    owner = Number(readFileSync(lock, 'utf8'))
  } catch {
    return null
  }
  if (!Number.isInteger(owner) || owner <= 0) return null
  if (owner === process.pid) return held.has(lock) ? owner : null
  try {
    process.kill(owner, 0)
    return owner
  } catch (error) {
    // A process that we may not signal is there.
    return error instanceof Error && 'code' in error && error.code === 'EPERM' ? owner : null
  }
}
