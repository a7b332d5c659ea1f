/**
 * Files and folders that several builds at a time make once.
 *
 * Invariant: what is in its place is whole, and the first that was put there stays; who
 * comes second drops his own and takes that one.
 */

import { linkSync, renameSync, rmSync } from 'node:fs'

const TAKEN: ReadonlySet<unknown> = new Set(['EEXIST', 'ENOTEMPTY'])

function unlessTaken(put: () => void): void {
  try {
    put()
  } catch (error) {
    if (!TAKEN.has((error as NodeJS.ErrnoException).code)) throw error
  }
}

/** Moves a folder that was made aside to its place, on the same file system. */
export function placeFolderOnce(aside: string, place: string): void {
  unlessTaken(() => renameSync(aside, place))
  rmSync(aside, { recursive: true, force: true })
}

/** Moves a file that was made aside to its place, on the same file system. */
export function placeFileOnce(aside: string, place: string): void {
  unlessTaken(() => linkSync(aside, place))
  rmSync(aside, { force: true })
}
