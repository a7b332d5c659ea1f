/**
 * Writes a Debian package: a control file, files, scripts of the maintainer (deb(5)).
 *
 * Invariant: everything belongs to root, and the same contents give the same bytes: times
 * are of no moment in particular, and neither umask nor processors of this machine matter.
 */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { run } from './programs.ts'

export interface PackageFile {
  /** Where it is installed, from the root, without a slash in front. */
  readonly path: string
  readonly content: Uint8Array | string
  /** It is a symbolic link, and its content where that leads. */
  readonly isLink?: boolean
  readonly executable?: boolean
  /** The operator's to change: an upgrade asks before it is replaced. */
  readonly isConfiguration?: boolean
}

export interface PackageContents {
  /**
   * Fields of the control file, in order; the installed size is added. The lines behind the first
   * one of a description are its paragraphs.
   */
  readonly control: Readonly<Record<string, string>>
  readonly files: readonly PackageFile[]
  /** 'postinst' and the like, as shell scripts. */
  readonly scripts: Readonly<Record<string, string>>
}

/** The second of every file of every package, and of every page of the manual: 2026's first. */
export const EPOCH_S = 1_767_225_600

function putLink(path: string, to: string): void {
  mkdirSync(dirname(path), { recursive: true })
  symlinkSync(to, path)
}

function put(path: string, content: Uint8Array | string, executable = false): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
  chmodSync(path, executable ? 0o755 : 0o644)
}

function controlText({ control, files }: PackageContents): string {
  const bytes = files.reduce((sum, { content }) => sum + Buffer.byteLength(content), 0)
  const fields = { ...control, 'Installed-Size': String(Math.ceil(bytes / 1024)) }
  // The description is last, as everywhere.
  const { Description: description, ...others } = fields as Record<string, string>
  const folded = (description ?? '').split('\n').map((line) => line || '.')
  const lines = [...Object.entries(others), ['Description', folded.join('\n ')]]
  return lines.map(([name, value]) => `${name}: ${value}\n`).join('')
}

/** Writes the package to `out`. Throws a Trouble where dpkg-deb is missing or refuses. */
export function writePackage(out: string, contents: PackageContents): void {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-package-'))
  try {
    for (const { path, content, executable, isLink } of contents.files) {
      if (isLink === true) putLink(join(folder, path), content.toString())
      else put(join(folder, path), content, executable)
    }
    put(join(folder, 'DEBIAN/control'), controlText(contents))
    const kept = contents.files.filter(({ isConfiguration }) => isConfiguration === true)
    const list = kept.map(({ path }) => `/${path}\n`).join('')
    if (list !== '') put(join(folder, 'DEBIAN/conffiles'), list)
    for (const [name, text] of Object.entries(contents.scripts)) {
      put(join(folder, 'DEBIAN', name), text, true)
    }
    mkdirSync(dirname(out), { recursive: true })
    const options = ['--build', '--root-owner-group', '-Zxz', folder, out]
    run('chmod', ['-R', 'u=rwX,go=rX', folder])
    // xz divides among threads what it packs, so one thread makes it other bytes than many.
    const env = { SOURCE_DATE_EPOCH: String(EPOCH_S), DPKG_DEB_THREADS_MAX: '1' }
    run('dpkg-deb', options, { env })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
