/**
 * What every package of Debian has of papers: pages of the manual, and its changelog in the form
 * that dpkg knows.
 *
 * Invariant: gzip packs them with no name and no time in it, so the same text gives the same bytes.
 */

import { EPOCH_S, type PackageFile } from '../debian/package.ts'
import { run } from '../debian/programs.ts'
import type { ManualFile } from './roff.ts'

/** Who the packages are from. There is no address that is read, and so none is named. */
export const MAINTAINER = 'Perdure'

/** As `gzip -9n` has it: what Node packs with depends on the processor. */
function packed(text: string): Uint8Array {
  return run('gzip', ['-9n'], { input: Buffer.from(text) })
}

/** The files below /usr/share/man. Throws a Trouble where gzip is missing. */
export function manualFiles(pages: readonly ManualFile[]): PackageFile[] {
  return pages.map(({ name, text }) => {
    const section = /\.(\d)$/.exec(name)![1]!
    return { path: `usr/share/man/man${section}/${name}.gz`, content: packed(text) }
  })
}

/** The changelog of a package of that name, which leads to the one for people. */
export function changelogFile(name: string, version: string, people: string): PackageFile {
  const when = new Date(EPOCH_S * 1000).toUTCString().replace('GMT', '+0000')
  const lines = [
    `${name} (${version}) unstable; urgency=medium`,
    '',
    `  * What somebody notices who uses it is in ${people}.`,
    '',
    ` -- ${MAINTAINER} <>  ${when}`,
  ]
  return { path: `usr/share/doc/${name}/changelog.gz`, content: packed(`${lines.join('\n')}\n`) }
}
