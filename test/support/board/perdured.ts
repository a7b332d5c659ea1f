/** The programs that `node build.mjs --board linux` leaves: are they of these sources? */

import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { filesBelow, ROOT } from '../source/sources.ts'

/** How it was told to build one. */
export type Flavour = '' | 'drop-flush' | 'sanitize'

/** The architecture of this machine, as the build calls it. */
export const OWN_ARCHITECTURE: string = process.arch === 'x64' ? 'x86-64' : process.arch

/** Of the firmware it knows numbers (boards/linux/hal-header.ts) and the hot path, translated. */
const SOURCES = ['boards/linux/src', 'boards/linux/aot', 'firmware']

/** Where such a program lies. */
export function perduredPath(architecture: string, flavour: Flavour): string {
  const folder = flavour === '' ? architecture : `${architecture}-${flavour}`
  return join(ROOT, 'dist/linux', folder, 'perdured')
}

/** Why there is no such program of these sources, and what makes it; null if there is one. */
export function perduredMissing(architecture: string, flavour: Flavour): string | null {
  const program = perduredPath(architecture, flavour)
  const arch = architecture === OWN_ARCHITECTURE ? '' : ` --arch ${architecture}`
  const built = flavour === '' ? '' : ` --${flavour}`
  const how = `node build.mjs --board linux --install${arch}${built}`
  if (process.platform !== 'linux') return 'this is not Linux'
  if (!existsSync(program)) return `perdured is not built: ${how}`
  const builtMs = statSync(program).mtimeMs
  const sources = SOURCES.flatMap(filesBelow).filter((path) => /\.(ts|c|h)$/.test(path))
  const newer = sources.find((path) => statSync(join(ROOT, path)).mtimeMs > builtMs)
  return newer === undefined ? null : `perdured is older than ${newer}: ${how}`
}
