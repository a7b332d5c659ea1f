/** The firmware bundle that every board runs, and what its hash must be. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../sources.ts'

export const BUNDLE_PATH: string = join(ROOT, 'dist/firmware.js')

/** SHA-256 of the bundle as it lies in `dist`, in hexadecimal. */
export function bundleHash(): string {
  return createHash('sha256').update(readFileSync(BUNDLE_PATH)).digest('hex')
}
