/**
 * Files of private keys: one line with the key as text; blank lines and those that begin with `#`
 * are passed over.
 *
 * Invariant: only a file that neither group nor others may read is read; whoever could have the
 * key would be its owner to every card.
 */

import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { makeFolder } from '../folder.ts'
import { configurationPath, writePrivateFile } from '../private-file.ts'
import { bytesOfKeyText, KeyError, keyText } from './keys.ts'

/** What group and others need to read. */
const OTHERS_READ = 0o044

/** Longest such file, bytes; a longer one is something else. */
const FILE_BYTES_MAX = 4096

/** Where a client's private key lies that was not told: `$PERDURE_KEY`, or a default. */
export function clientKeyPath(): string {
  return process.env.PERDURE_KEY || configurationPath('key')
}

/**
 * The private key of a file, 32 bytes. Throws KeyError, KEY_FILE_MODE or KEY_FILE, or the error of
 * the system where it cannot be read.
 */
export function readKeyFile(path: string): Uint8Array {
  const file = openSync(path, 'r')
  try {
    const found = fstatSync(file)
    const isOther = found.isDirectory() || found.size > FILE_BYTES_MAX
    if (!isOther && (found.mode & OTHERS_READ) !== 0) {
      const wrong = `${path}: others may read this private key. Forbid it: chmod 600 ${path}`
      throw new KeyError('KEY_FILE_MODE', wrong)
    }
    const key = isOther ? null : keyIn(readFileSync(file, 'utf8'))
    if (key !== null) return key
  } finally {
    closeSync(file)
  }
  const give = "Name one that 'perdure key new' has made."
  throw new KeyError('KEY_FILE', `${path}: it holds no private key. ${give}`)
}

function keyIn(text: string): Uint8Array | null {
  const lines = text.split('\n').map((line) => line.trim())
  const told = lines.filter((line) => line !== '' && !line.startsWith('#'))
  return told.length === 1 ? bytesOfKeyText(told[0]!) : null
}

/**
 * Writes a private key into a new file for its owner alone, and makes its folder where there is
 * none, for the owner alone, too. Throws KeyError, KEY_FILE_EXISTS, or the error of the system.
 */
export function writeKeyFile(path: string, secret: Uint8Array): void {
  makeFolder(dirname(path), 0o700)
  try {
    writePrivateFile(path, `${keyText(secret)}\n`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    const wrong = `${path} is there already, and a key is never overwritten`
    const next = "See its public half by 'perdure key show', or name another file."
    throw new KeyError('KEY_FILE_EXISTS', `${wrong}. ${next}`, { cause: error })
  }
}
