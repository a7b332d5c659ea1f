/**
 * Finds the shipped firmware: `dist/firmware.js`, the very file that a card is given.
 *
 * Invariant: it is looked for beside this module and then in the `dist` of every folder
 * above, so it is found from the sources, from the tests and from the package alike.
 */

import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TEXT } from '../../kinds.ts'
import { check } from '../base/arguments.ts'

export interface Bundle {
  readonly path: string
  readonly source: string
}

export class BundleMissing extends Error {
  override readonly name = 'BundleMissing'
  readonly code = 'BUNDLE_MISSING'

  constructor(from: string) {
    super(`no dist/firmware.js above ${from}: build it with "npm run build"`)
  }
}

/** Reads the bundle. Throws BundleMissing. */
export function findBundle(from: string = dirname(fileURLToPath(import.meta.url))): Bundle {
  check('look from', from, TEXT)
  const beside = join(from, 'firmware.js')
  if (existsSync(beside)) return { path: beside, source: readFileSync(beside, 'utf8') }
  for (let folder = from; ; folder = dirname(folder)) {
    const path = join(folder, 'dist', 'firmware.js')
    if (existsSync(path)) return { path, source: readFileSync(path, 'utf8') }
    if (dirname(folder) === folder) throw new BundleMissing(from)
  }
}
