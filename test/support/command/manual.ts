/** What looks pages of a manual over, and what a reader sees of them. */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A program, the package of Debian that brings it, and how it is asked. */
type Reader = readonly [program: string, debian: string, args: readonly string[]]

/** What they say of a page without fault is nothing. */
export const READERS: readonly Reader[] = [
  ['groff', 'groff-base', ['-man', '-ww', '-z']],
  ['man', 'man-db', ['--warnings', '-E', 'UTF-8', '-l']],
  ['mandoc', 'mandoc', ['-Tlint']],
]

/** What a reader says of that page. */
export function saidBy(reader: string, args: readonly string[], page: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'perdure-page-'))
  try {
    const section = /^\.TH \S+ (\d) /.exec(page)![1]!
    const path = join(folder, `page.${section}`)
    writeFileSync(path, page)
    const env = { ...process.env, LC_ALL: 'C.UTF-8', MANWIDTH: '80', MANROFFOPT: '' }
    const { stdout, stderr } = spawnSync(reader, [...args, path], { encoding: 'utf8', env })
    return reader === 'mandoc' ? stdout + stderr : stderr
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const LETTERS: Readonly<Record<string, string>> = { aq: "'", dq: '"', ga: '`', ha: '^', ti: '~' }

/** What a reader sees, without line breaks: enough to look words up. */
export function shown(page: string): string {
  const plain = page
    .replaceAll(/\\f[BIR]/g, '')
    .replaceAll('\\-', '-')
    .replaceAll(/\\\((aq|dq|ga|ha|ti)/g, (_, name: string) => LETTERS[name]!)
    .replaceAll(/\\\[u([0-9A-F]+)\]/g, (_, code: string) =>
      String.fromCodePoint(parseInt(code, 16)),
    )
  return plain.replaceAll(/\n(?!\.)/g, ' ')
}
