/**
 * What the authors of the libraries ask of who passes on a program that is linked with them: the
 * texts of their licences go with it, in a file beside the copyright of the package.
 *
 * Invariant: every library of the bill (sbom.ts) has its text there; where one has none, nothing is
 * packed.
 */

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Trouble } from '../tools/debian/programs.ts'
import { DIST } from './compile.ts'
import { type Architecture, librariesFor, QUICKJS, quickJs } from './toolchain.ts'

/** A library, and the file with its licence. */
interface Notice {
  readonly name: string
  readonly version: string
  readonly path: string
}

function textOf({ name, version, path }: Notice): string {
  if (!existsSync(path)) throw new Trouble(`${path} is missing: the licence of ${name}`)
  const heading = `${name} ${version}`
  return `${heading}\n${'='.repeat(heading.length)}\n\n${readFileSync(path, 'utf8').trim()}\n`
}

/** The texts, each below the name and version of its library. Throws a Trouble. */
export function noticesFor(architecture: Architecture): string {
  const folder = join(DIST, 'linux')
  const engine = join(quickJs(folder, () => {}).folder, 'LICENSE')
  const notices: Notice[] = [
    { name: 'quickjs', version: QUICKJS.version, path: engine },
    ...librariesFor(architecture, folder).map(({ name, version, copyright }) => {
      return { name, version, path: copyright }
    }),
  ]
  return notices.map(textOf).join('\n\n')
}
