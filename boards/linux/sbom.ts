/** What a package of the runtime is made of. */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { billText, type Component } from '../tools/debian/bill.ts'
import type { Card } from '../tools/debian/card-package.ts'
import { DIST } from './compile.ts'
import { type Architecture, type Library, librariesFor, QUICKJS, quickJs } from './toolchain.ts'

/** Its name as a package URL has it: `+` and `:` of a version of Debian are escaped. */
function purlOf(name: string, version: string, architecture: string): string {
  return `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`
}

function sha256(path: string): Component['hashes'] {
  return [
    { alg: 'SHA-256', content: createHash('sha256').update(readFileSync(path)).digest('hex') },
  ]
}

function libraryOf({ name, version, architecture }: Library): Component {
  const description = 'linked into the programs'
  return { type: 'library', name, version, purl: purlOf(name, version, architecture), description }
}

/** The programs of a package, as paths. */
export interface Programs {
  readonly supervisor: string
  readonly perdured: string
}

/** The bill of the package of that card; throws a Trouble where a part's version is not known. */
export function billOf(
  card: Card,
  version: string,
  programs: Programs,
  architecture: Architecture,
): string {
  const folder = join(DIST, 'linux')
  const engine: Component = {
    ...{ type: 'library', name: 'quickjs', version: QUICKJS.version },
    purl: purlOf('quickjs', QUICKJS.version, 'source'),
    description: `linked into both programs; its sources: ${quickJs(folder, () => {}).hash}`,
  }
  const own: readonly Component[] = [
    { type: 'application', name: 'perdured', version, hashes: sha256(programs.perdured) },
    { type: 'application', name: 'perdure-boot', version, hashes: sha256(programs.supervisor) },
    { type: 'firmware', name: 'firmware.js', version, hashes: sha256(join(DIST, 'firmware.js')) },
  ]
  const libraries = librariesFor(architecture, folder).map(libraryOf)
  return billText(`perdured-${card.name}`, version, [...own, engine, ...libraries])
}
