/** Folders that a command or a board makes. */

import { existsSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Makes a folder unless it is there, and those above it that are not. Throws the error of the
 * system, which names the folder that could not be made.
 *
 * Node's own way, `recursive`, does not end where a file system says ENOENT of what is to be made
 * in a folder that is there, as /proc does (seen with Node 20).
 */
export function makeFolder(path: string, mode = 0o777): void {
  const above = dirname(path)
  if (!existsSync(above)) makeFolder(above, mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw error
  }
}
