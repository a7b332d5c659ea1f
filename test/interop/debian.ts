/**
 * What the test needs of Debian: programs of this machine, and the files of the guest.
 *
 * Invariants:
 * - The guest's files come from a Debian mirror, checked against Debian's keys, without a trace in
 *   the machine's own package lists (boards/tools/debian/apt.ts).
 * - Only what is missing is installed. Where something cannot be had, the message says what it is
 *   and which command brings it.
 */

import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { type Apt, attempt, need, privateApt } from '../../boards/tools/debian/apt.ts'
import { kernelPackage } from '../../boards/tools/debian/kernel.ts'
import { isThere, Missing, run } from '../../boards/tools/debian/programs.ts'

/** The release that the guest is made of. */
const RELEASE = 'trixie'

/** Packages of the guest besides the kernel; their files are unpacked, nothing is installed. */
const PACKAGES = [
  'busybox-static',
  'e2fsprogs',
  'ibverbs-providers',
  'iproute2',
  'libblkid1',
  'libbpf1',
  'libc6',
  'libcap2',
  'libcom-err2',
  'libelf1t64',
  'libext2fs2t64',
  'libgcc-s1',
  'libibverbs-dev',
  'libibverbs1',
  'libmnl0',
  'libnl-3-200',
  'libnl-route-3-200',
  'libpcre2-8-0',
  'librdmacm-dev',
  'librdmacm1t64',
  'librpma-dev',
  'librpma0',
  'libselinux1',
  'libuuid1',
  'libzstd1',
  'zlib1g',
]

/** A kernel of today and tomorrow: the package that depends on the current one. */
const KERNEL = 'linux-image-amd64'

/** Programs to run the guest, and to make it: each with the package that has it. */
const RUN_PROGRAMS = { 'qemu-system-x86_64': 'qemu-system-x86', timeout: 'coreutils' }
const MAKE_PROGRAMS = {
  gcc: 'gcc',
  xz: 'xz-utils',
  zstd: 'zstd',
  'dpkg-deb': 'dpkg',
  tar: 'tar',
}

/** The C library's headers have no program: gcc alone would find none. */
const MAKE_FILES = { '/usr/include/stdio.h': 'libc6-dev' }

const ELSEWHERE =
  'QEMU 7.2 or later, with qemu-system-x86_64; the guest itself is made of Debian packages, so a ' +
  'first run needs apt (a Debian container will do).'

/** The guest as it came from Debian. */
export interface GuestFiles {
  /** Folder with everything unpacked. */
  readonly root: string
  /** Package and version, in order. */
  readonly versions: readonly string[]
  /** Folder of librpma's source, or why there is none. */
  readonly librpma: { readonly source: string } | { readonly why: string }
}

/** Installs the programs that are missing. Throws a Trouble that says how to get them. */
export function needPrograms(making: boolean, say: (line: string) => void): void {
  const programs = { ...RUN_PROGRAMS, ...(making ? MAKE_PROGRAMS : {}) }
  const files = making ? MAKE_FILES : {}
  need({ programs, files, elsewhere: ELSEWHERE }, { install: true, say })
}

/** Fetches and unpacks the guest's packages below `folder`. */
export function fetchGuest(folder: string, say: (line: string) => void): GuestFiles {
  if (!isThere('apt-get')) {
    throw new Missing('the guest is made of Debian packages, and this machine has no apt-get')
  }
  const apt = privateApt(folder, { release: RELEASE, architecture: 'amd64' })
  say(`reading the package lists of ${RELEASE}`)
  apt('apt-get', ['update', '-qq'])
  const packages = [...PACKAGES, kernelPackage(apt, KERNEL)]
  const debs = join(folder, 'debs')
  const root = join(folder, 'root')
  mkdirSync(debs)
  mkdirSync(root)
  say(`fetching ${packages.length} packages`)
  apt('apt-get', ['download', '-qq', ...packages], debs)
  const files = readdirSync(debs).sort()
  for (const file of files) run('dpkg-deb', ['-x', join(debs, file), root])
  const versions = files.map((file) => {
    const [name, version] = file.split('_')
    return `${name} ${decodeURIComponent(version ?? '')}`
  })
  return { root, versions, librpma: fetchLibrpma(apt, folder) }
}

/**
 * librpma's source, for its examples: from the folder that `LIBRPMA_SOURCE` names, or the Debian
 * source package. Some mirrors have no source packages; that is said, and is no trouble.
 */
function fetchLibrpma(apt: Apt, folder: string): GuestFiles['librpma'] {
  const named = process.env.LIBRPMA_SOURCE
  if (named !== undefined && named !== '') return { source: named }
  const packed = join(folder, 'librpma')
  const source = join(folder, 'librpma/source')
  mkdirSync(source, { recursive: true })
  const failed = attempt(() => apt('apt-get', ['source', '-qq', '--download-only', 'rpma'], packed))
  // apt checks file by file, and leaves those that it could get.
  const archived = readdirSync(packed).find((file) => /\.orig\.tar\.\w+$/.test(file))
  if (archived === undefined) {
    const said = failed?.split('\n').find((line) => line.startsWith('E:')) ?? 'no upstream archive'
    const short = said.replace(/^E: /, '').replaceAll(/\S+:\/\/\S*\/| +\[IP: .*\]/g, '')
    return { why: `the Debian mirror does not have the source package rpma: ${short}` }
  }
  run('tar', ['-xf', join(packed, archived), '-C', source, '--strip-components=1'])
  return { source }
}
