/**
 * An archive as the kernel takes it for its first root: cpio, "newc".
 *
 * Invariant: the same entries give the same bytes, because owner, time and inode are made
 * up; no privilege is needed.
 */

const REGULAR = 0o100000
const FOLDER = 0o040000
const LINK = 0o120000

/** A file, a symbolic link, or with neither a folder. */
export interface Entry {
  /** From the root, without a slash in front. */
  readonly path: string
  readonly content?: Uint8Array
  readonly link?: string
  readonly executable?: boolean
}

function header(number: number, mode: number, bytes: number, path: string): Buffer {
  const fields = [number, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, path.length + 1, 0]
  const text = fields.map((field) => field.toString(16).padStart(8, '0')).join('')
  return aligned(Buffer.from(`070701${text}${path}\0`, 'latin1'))
}

function aligned(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)])
}

/** The folders above the entries, each before what it holds. */
function foldersOf(entries: readonly Entry[]): Entry[] {
  const paths = new Set<string>()
  for (const { path } of entries) {
    const parts = path.split('/')
    for (let i = 1; i < parts.length; i++) paths.add(parts.slice(0, i).join('/'))
  }
  return [...paths].sort().map((path) => ({ path }))
}

/** The archive of these entries; the folders that they need are added. */
export function archive(entries: readonly Entry[]): Buffer {
  const pieces: Buffer[] = []
  let number = 1
  for (const { path, content, link, executable } of [...foldersOf(entries), ...entries]) {
    const body = link === undefined ? content : Buffer.from(link, 'utf8')
    const kind = link !== undefined ? LINK : content === undefined ? FOLDER : REGULAR
    const rights = kind === REGULAR && executable !== true ? 0o644 : 0o755
    const bytes = body ?? new Uint8Array(0)
    pieces.push(header(number++, kind | rights, bytes.length, path), aligned(bytes))
  }
  pieces.push(header(0, 0, 0, 'TRAILER!!!'))
  return Buffer.concat(pieces)
}
