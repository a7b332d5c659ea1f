/**
 * What the test needs of Debian: programs of this machine, and the files of the guest.
 *
 * What always holds:
 * - The guest's files come from the Debian mirror that this machine uses already, or from the one
 *   that `DEBIAN_MIRROR` names, and are checked against Debian's keys. Nothing of that enters the
 *   machine's own package lists: apt gets a configuration of its own.
 * - Only what is missing is installed. Where something cannot be had, the message says what it is
 *   and which command brings it.
 */

import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isThere, run, Trouble } from './programs.ts'

/** The release that the guest is made of. */
const RELEASE = 'trixie'

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'

/** Packages of the guest besides the kernel; their files are unpacked, nothing is installed. */
const PACKAGES = [
  'busybox-static',
  'ibverbs-providers',
  'iproute2',
  'libc6',
  'libcap2',
  'libgcc-s1',
  'libibverbs-dev',
  'libibverbs1',
  'libmnl0',
  'libnl-3-200',
  'libnl-route-3-200',
  'librdmacm-dev',
  'librdmacm1t64',
  'librpma-dev',
  'librpma0',
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
  const missing = Object.entries(programs).filter(([program]) => !isThere(program))
  const files = Object.entries(making ? MAKE_FILES : {}).filter(([path]) => !existsSync(path))
  if (missing.length + files.length === 0) return
  const packages = [...new Set([...missing, ...files].map(([, name]) => name))]
  const what = [...missing, ...files].map(([name]) => name).join(', ')
  const command = `apt-get install --no-install-recommends ${packages.join(' ')}`
  if (!isThere('apt-get')) {
    throw new Trouble(
      `${what}: not on this machine, and there is no apt to install it with.\n` +
        `On Debian or Ubuntu: ${command}\n` +
        'Elsewhere: QEMU 7.2 or later, with qemu-system-x86_64; the guest itself is made of ' +
        'Debian packages, so a first run needs apt (a Debian container will do).',
    )
  }
  const asRoot = rootPrefix()
  if (asRoot === null) throw new Trouble(`${what}: missing, and only root may do: ${command}`)
  say(`installing ${packages.join(', ')}`)
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args: string[]): void => {
    const [program, ...rest] = [...asRoot, 'apt-get', ...args]
    run(program!, rest, { env })
  }
  // A source that cannot be reached need not be the one that matters: installing will tell.
  attempt(() => apt('update', '-qq'))
  apt('install', '-y', '-qq', '--no-install-recommends', ...packages)
}

/** Does what may fail, and returns what it said then. */
function attempt(work: () => void): string | null {
  try {
    work()
    return null
  } catch (error) {
    if (!(error instanceof Trouble)) throw error
    return error.message
  }
}

/** What stands before a command that only root may run, or null where that cannot be. */
function rootPrefix(): string[] | null {
  if (process.getuid?.() === 0) return []
  return isThere('sudo') ? ['sudo', '-n', '-E'] : null
}

/** Fetches and unpacks the guest's packages below `folder`. */
export function fetchGuest(folder: string, say: (line: string) => void): GuestFiles {
  if (!isThere('apt-get')) {
    throw new Trouble('the guest is made of Debian packages, and this machine has no apt-get')
  }
  const apt = privateApt(folder)
  say(`reading the package lists of ${RELEASE}`)
  apt('apt-get', ['update', '-qq'])
  const packages = [...PACKAGES, kernelPackage(apt)]
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

type Apt = (program: string, args: readonly string[], cwd?: string) => string

/** apt with lists, cache and sources of its own; how it reaches the mirror stays the machine's. */
function privateApt(folder: string): Apt {
  const at = (name: string): string => join(folder, name)
  mkdirSync(at('lists/partial'), { recursive: true })
  mkdirSync(at('archives/partial'), { recursive: true })
  const signed = existsSync(KEYRING) ? `[signed-by=${KEYRING}] ` : ''
  const place = `${signed}${mirror()} ${RELEASE} main`
  writeFileSync(at('sources.list'), `deb ${place}\ndeb-src ${place}\n`)
  writeFileSync(at('status'), '')
  const options = [
    `Dir::Etc::sourcelist=${at('sources.list')}`,
    'Dir::Etc::sourceparts=/dev/null',
    'Dir::Etc::preferences=/dev/null',
    'Dir::Etc::preferencesparts=/dev/null',
    `Dir::State::lists=${at('lists')}`,
    `Dir::State::status=${at('status')}`,
    `Dir::Cache=${folder}`,
    'APT::Architecture=amd64',
    'APT::Architectures=amd64',
    'APT::Sandbox::User=',
    'Acquire::Languages=none',
  ].flatMap((option) => ['-o', option])
  return (program, args, cwd = folder) => run(program, [...options, ...args], { cwd }).toString()
}

/** The mirror of Debian's main archive that this machine's own sources name. */
function mirror(): string {
  const named = process.env.DEBIAN_MIRROR
  if (named !== undefined && named !== '') return named
  const format = '$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(CREATED_BY)|$(REPO_URI)'
  for (const again of [false, true]) {
    const asRoot = rootPrefix()
    if (again && asRoot !== null) {
      const [program, ...rest] = [...asRoot, 'apt-get', 'update', '-qq']
      attempt(() => void run(program!, rest))
    }
    const lines = run('apt-get', ['indextargets', '--format', format]).toString().split('\n')
    const fields = lines.map((line) => line.split('|'))
    const found = fields.find(
      ([origin, label, component, kind]) =>
        origin === 'Debian' && label === 'Debian' && component === 'main' && kind === 'Packages',
    )
    if (found?.[4] !== undefined) return found[4]
  }
  throw new Trouble(
    'no Debian mirror is among the sources of apt. Name one: DEBIAN_MIRROR=http://… ' +
      'npm run test:interop',
  )
}

/** The package of the kernel itself. */
function kernelPackage(apt: Apt): string {
  const depends = apt('apt-cache', ['depends', '--important', KERNEL])
  const name = /Depends: (linux-image-\S+)/.exec(depends)?.[1]
  if (name === undefined) throw new Trouble(`${KERNEL} of ${RELEASE} names no kernel`)
  return name
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
