/**
 * Files that hold something private, a key, and where those of a user lie.
 *
 * Invariant: such a file is for its owner alone from its first moment on, is written over nothing
 * that is there, and is there whole or not at all once the call has ended.
 */

import { closeSync, fsyncSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

const OWNER_ONLY = 0o600

/**
 * Writes the text into a new file of mode 0600. Throws the error of the system, EEXIST where
 * something is there, be it a symbolic link to nothing.
 */
export function writePrivateFile(path: string, text: string): void {
  const file = openSync(path, 'wx', OWNER_ONLY)
  try {
    writeFileSync(file, text)
    fsyncSync(file)
  } catch (cause) {
    rmSync(path)
    throw new Error(`${path} cannot be written: ${(cause as Error).message}`, { cause })
  } finally {
    closeSync(file)
  }
}

/** The path of that name in this user's folder for Perdure, which need not be there. */
export function configurationPath(name: string): string {
  const { XDG_CONFIG_HOME } = process.env
  return join(XDG_CONFIG_HOME || join(homedir(), '.config'), 'perdure', name)
}
