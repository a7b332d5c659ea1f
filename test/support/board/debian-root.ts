/**
 * A small Debian for the virtual machine: systemd, dpkg and what they need, unpacked into an
 * archive behind the machine's first root. Its one service of its own installs a package, gives it
 * a configuration, starts it, and then does what the serial line says.
 *
 * Invariant: the packages are Debian's, unpacked and never configured; they are fetched
 * once and kept in `dist/`.
 */

import { createHash } from 'node:crypto'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { CACHE } from '../../../boards/qemu-virt/places.ts'
import { privateApt } from '../../../boards/tools/debian/apt.ts'
import { archive, type Entry } from '../../../boards/tools/debian/cpio.ts'
import { run } from '../../../boards/tools/debian/programs.ts'

const RELEASE = 'trixie'

/** What is asked for; what these depend on comes along. */
const PACKAGES = [
  ...['systemd', 'systemd-sysv', 'dpkg', 'dash', 'coreutils', 'diffutils', 'libc-bin'],
  ...['base-passwd', 'grep', 'sed'],
]

/**
 * Left out: what a machine without people, disks and udev does not read, and what its systemd would
 * start besides. The journal stays.
 */
const UNREAD = new RegExp(
  [
    '^usr/share/(?!base-passwd)|/gconv/|/hwdb\\.d/|/system-generators/|/system-environment-',
    '\\.target\\.wants/(?!systemd-journald)',
  ].join('|'),
)

const FOLDERS = ['bin', 'sbin', 'lib'].map((name) => ({ path: name, link: `usr/${name}` }))

/** Everything below a folder, as entries. */
function entriesBelow(root: string, folder = ''): Entry[] {
  return readdirSync(join(root, folder)).flatMap((name): Entry[] => {
    const path = folder === '' ? name : `${folder}/${name}`
    const at = join(root, path)
    const about = lstatSync(at)
    if (UNREAD.test(path)) return []
    if (about.isSymbolicLink()) return [{ path, link: readlinkSync(at) }]
    if (about.isDirectory()) return entriesBelow(root, path)
    return [{ path, content: readFileSync(at), executable: (about.mode & 0o111) !== 0 }]
  })
}

/** Fetches and unpacks the packages; the entries of the root. */
function debianEntries(work: string): Entry[] {
  const apt = privateApt(work, { release: RELEASE, architecture: 'arm64' })
  apt('apt-get', ['update', '-qq'])
  const fetch = ['install', '-y', '-qq', '--no-install-recommends', '--download-only']
  apt('apt-get', [...fetch, ...PACKAGES])
  const root = join(work, 'root')
  mkdirSync(root)
  const packed = readdirSync(join(work, 'archives')).filter((name) => name.endsWith('.deb'))
  for (const name of packed) run('dpkg-deb', ['-x', join(work, 'archives', name), root])
  const master = (name: string): Uint8Array => {
    return readFileSync(join(root, 'usr/share/base-passwd', `${name}.master`))
  }
  return [
    ...FOLDERS,
    ...entriesBelow(root),
    { path: 'etc/passwd', content: master('passwd') },
    { path: 'etc/group', content: master('group') },
    { path: 'etc/machine-id', content: Buffer.from('') },
    ...['info', 'updates', 'triggers'].map((name) => ({ path: `var/lib/dpkg/${name}` })),
    { path: 'var/lib/dpkg/status', content: Buffer.from('') },
  ]
}

/** The archive of that Debian: made where it is not there yet. */
function debianArchive(): string {
  const recipe = createHash('sha256').update(JSON.stringify([RELEASE, PACKAGES, String(UNREAD)]))
  const path = join(CACHE, `debian-${recipe.digest('hex').slice(0, 12)}.cpio`)
  if (existsSync(path)) return path
  mkdirSync(CACHE, { recursive: true })
  const work = mkdtempSync(join(CACHE, 'making-'))
  try {
    writeFileSync(join(work, 'root.cpio'), archive(debianEntries(work)))
    renameSync(join(work, 'root.cpio'), path)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
  return path
}

const SERVICE = `[Unit]
Description=installs the package and does what the serial line says
[Service]
ExecStart=/bin/sh /board/run
`

const RUN = `exec > /dev/console 2>&1
echo
say() { read -r up rest < /proc/uptime; echo "board: $up $1"; }
say systemd
dpkg -i /board/package.deb || exit 1
cp /board/perdured.conf /etc/perdure/perdured.conf
systemctl enable --now perdured.service || { journalctl -u perdured -n 20; exit 1; }
exec 3< /dev/ttyAMA0
say serving
while read -r line <&3; do
  sh -c "$line" > /run/said 2>&1
  code=$?
  cat /run/said
  echo "{\\"exit\\":$code}" > /dev/ttyAMA0
  [ ! -e /run/then ] || { mv /run/then /run/now; . /run/now; }
done
`

export interface DebianOptions {
  /** The package that is installed, as a path. */
  readonly packed: string
  /** Text of perdured.conf. */
  readonly configuration: string
  /** More files: by their names in the folder /board, what is in them. */
  readonly files?: Readonly<Record<string, Uint8Array>>
}

/**
 * The archive for a machine that installs this package and gives it this configuration, written to
 * `folder`. The machine's console then takes commands of a shell, and answers with their exit code.
 * What a command leaves in `/run/then` is done behind its answer, before the next one is read.
 */
export function debianRoot(folder: string, options: DebianOptions): string {
  const { packed, configuration, files = {} } = options
  const units = 'etc/systemd/system'
  const board = {
    ...{ 'package.deb': readFileSync(packed), 'perdured.conf': Buffer.from(configuration) },
    ...{ run: Buffer.from(RUN), ...files },
  }
  const more = archive([
    { path: 'var/log' },
    ...Object.entries(board).map(([name, content]) => ({ path: `board/${name}`, content })),
    { path: `${units}/board.service`, content: Buffer.from(SERVICE) },
    { path: `${units}/default.target`, link: '/usr/lib/systemd/system/multi-user.target' },
    { path: `${units}/multi-user.target.wants/board.service`, link: '../board.service' },
  ])
  const path = join(folder, 'more.cpio')
  writeFileSync(path, Buffer.concat([readFileSync(debianArchive()), more]))
  return path
}
