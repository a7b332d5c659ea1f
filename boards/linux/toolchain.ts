/**
 * The compilers and libraries of each processor: which programs, from which packages.
 *
 * Invariant: for the machine's own processor everything is installed by Debian's packages;
 * for another one the compiler is, and the libraries are unpacked beside the objects.
 */

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Needs, need, privateApt } from '../tools/debian/apt.ts'
import { placeFolderOnce } from '../tools/debian/once.ts'
import { Missing, run, Trouble } from '../tools/debian/programs.ts'

export const ARCHITECTURES = ['x86-64', 'arm64'] as const
export type Architecture = (typeof ARCHITECTURES)[number]

export function isArchitecture(name: string): name is Architecture {
  return (ARCHITECTURES as readonly string[]).includes(name)
}

/** That of this machine. Throws a Trouble where it is none of them. */
export function hostArchitecture(): Architecture {
  const own = process.arch === 'x64' ? 'x86-64' : process.arch
  if (isArchitecture(own)) return own
  throw new Trouble(`perdured is for ${ARCHITECTURES.join(' and ')}, and this is ${own}`)
}

interface Processor {
  /** As Node calls it. */
  readonly node: string
  /** As Debian calls it. */
  readonly debian: string
  /** The compilers' prefix. */
  readonly triplet: string
  /** Packages of the cross compiler. */
  readonly cross: Readonly<Record<string, string>>
  /** Its C library's headers. */
  readonly crossHeaders: Readonly<Record<string, string>>
  /** The processors that it is compiled for. */
  readonly flags: readonly string[]
}

const PROCESSORS: Readonly<Record<Architecture, Processor>> = {
  'x86-64': {
    node: 'x64',
    debian: 'amd64',
    triplet: 'x86_64-linux-gnu',
    cross: { 'x86_64-linux-gnu-gcc': 'gcc-x86-64-linux-gnu' },
    crossHeaders: { '/usr/x86_64-linux-gnu/include/stdio.h': 'libc6-dev-amd64-cross' },
    flags: [],
  },
  arm64: {
    node: 'arm64',
    debian: 'arm64',
    triplet: 'aarch64-linux-gnu',
    cross: { 'aarch64-linux-gnu-gcc': 'gcc-aarch64-linux-gnu' },
    crossHeaders: { '/usr/aarch64-linux-gnu/include/stdio.h': 'libc6-dev-arm64-cross' },
    flags: [],
  },
}

/** Of perdure-boot; the first needs the second. */
const BROTLI = ['libbrotlidec.a', 'libbrotlicommon.a'] as const
const LIBRARIES = ['libsodium.a', ...BROTLI] as const
/** That bring the libraries. */
const PACKAGES = ['libsodium-dev', 'libbrotli-dev'] as const

/** What everything is unpacked with. */
const UNPACKING = { tar: 'tar', xz: 'xz-utils', 'dpkg-deb': 'dpkg' }

const ELSEWHERE =
  'a C compiler, the static libraries of libc, libsodium and brotli, and apt for the source of ' +
  'QuickJS (a Debian container will do).'

export interface Toolchain {
  readonly compiler: string
  /** Flags of compiling and of linking that find the libraries, and choose the processor. */
  readonly compileFlags: readonly string[]
  readonly linkFlags: readonly string[]
  /** Whether the programs run on this machine. */
  readonly native: boolean
}

interface Preparation {
  readonly architecture: Architecture
  /** Folder for what is unpacked. */
  readonly folder: string
  readonly install: boolean
  readonly say: (line: string) => void
}

/** The compiler for a processor, and what it links with. Throws a Missing with what is missing. */
export function toolchain(preparation: Preparation): Toolchain {
  const { architecture, folder, say } = preparation
  const processor = PROCESSORS[architecture]
  const { triplet, flags } = processor
  const native = processor.node === process.arch
  need(native ? nativeNeeds(triplet) : crossNeeds(processor), preparation)
  if (native) {
    const linkFlags = ['-lsodium', ...BROTLI.map((name) => `-l:${name}`)]
    return { compiler: 'gcc', compileFlags: flags, linkFlags, native }
  }
  const root = foreignLibraries(folder, processor, say)
  return {
    compiler: `${triplet}-gcc`,
    compileFlags: [...flags, `-isystem${join(root, 'usr/include')}`],
    linkFlags: LIBRARIES.map((name) => join(root, 'usr/lib', triplet, name)),
    native,
  }
}

function nativeNeeds(triplet: string): Needs {
  return {
    programs: { gcc: 'gcc', ...UNPACKING },
    files: {
      '/usr/include/stdio.h': 'libc6-dev',
      [`/usr/lib/${triplet}/libsodium.a`]: 'libsodium-dev',
      '/usr/include/brotli/decode.h': 'libbrotli-dev',
    },
    elsewhere: ELSEWHERE,
  }
}

function crossNeeds({ cross, crossHeaders }: Processor): Needs {
  return { programs: { ...cross, ...UNPACKING }, files: crossHeaders, elsewhere: ELSEWHERE }
}

/** A package of Debian with a library that programs are linked with. */
export interface Library {
  readonly name: string
  readonly version: string
  readonly architecture: string
  /** The file with what its authors allow. */
  readonly copyright: string
}

/**
 * The libraries of a processor, once `toolchain` has found them below `folder`. Throws a Trouble
 * where nobody knows their versions: off Debian.
 */
export function librariesFor(architecture: Architecture, folder: string): readonly Library[] {
  const { node, debian, crossHeaders } = PROCESSORS[architecture]
  // As dpkg-query prints them: a name, its processor where there may be several, and a version.
  const of = (rows: string, root: string): Library[] =>
    [...rows.matchAll(/^([^:\t]+)\S*\t(\S+)$/gm)].map(([, name, version]) => {
      const copyright = join(root, 'usr/share/doc', name!, 'copyright')
      return { name: name!, version: version!, architecture: debian, copyright }
    })
  const installed = (names: readonly string[]): Library[] =>
    of(run('dpkg-query', ['-W', ...names]).toString(), '/')
  if (node === process.arch) return installed([...PACKAGES, 'libc6-dev'])
  const root = join(folder, `libraries-${debian}`)
  const unpacked = readFileSync(versionsIn(root), 'utf8')
  return [...of(unpacked, root), ...installed(Object.values(crossHeaders))]
}

/** The file with the versions of what was unpacked there. */
function versionsIn(root: string): string {
  return join(root, 'versions')
}

/** The release of this machine: the cross C library is of it, and libraries have to fit that. */
function ownRelease(): string {
  const about = existsSync('/etc/os-release') ? readFileSync('/etc/os-release', 'utf8') : ''
  return /^VERSION_CODENAME=(\w+)$/m.exec(about)?.[1] ?? 'bookworm'
}

/** The libraries of another processor, unpacked once; returns the root that they lie in. */
function foreignLibraries(
  folder: string,
  processor: Processor,
  say: (line: string) => void,
): string {
  const { debian, triplet } = processor
  const root = join(folder, `libraries-${debian}`)
  const files = LIBRARIES.map((name) => join(root, 'usr/lib', triplet, name))
  files.push(versionsIn(root))
  if (files.every((path) => existsSync(path))) return root
  const apart = join(folder, `apt-${debian}-${process.pid}`)
  const apt = privateApt(apart, { release: ownRelease(), architecture: debian })
  say(`fetching ${PACKAGES.join(' and ')} for ${debian}`)
  apt('apt-get', ['update', '-qq'])
  apt('apt-get', ['download', '-qq', ...PACKAGES])
  const aside = join(apart, 'root')
  let versions = ''
  for (const name of PACKAGES) {
    const deb = readdirSync(apart).find((file) => new RegExp(`^${name}_.*\\.deb$`).test(file))
    if (deb === undefined) throw new Missing(`no ${name} for ${debian} came from the mirror`)
    run('dpkg-deb', ['-x', join(apart, deb), aside])
    versions += run('dpkg-deb', ['-W', join(apart, deb)]).toString()
  }
  writeFileSync(versionsIn(aside), versions)
  placeFolderOnce(aside, root)
  rmSync(apart, { recursive: true, force: true })
  return root
}

/** The release that QuickJS is taken from: no earlier one has it. */
export const QUICKJS = {
  release: 'trixie',
  version: '2025.04.26-1',
  upstream: '2025-04-26',
} as const

/** The files that make the engine, without its own library for programs. */
const QUICKJS_FILES = ['quickjs', 'dtoa', 'libregexp', 'libunicode', 'cutils'] as const

export interface QuickJs {
  readonly folder: string
  readonly files: readonly string[]
  /** What stands in the file VERSION: the engine wants to be told. */
  readonly version: string
  /** SHA-256 of all sources. */
  readonly hash: string
}

/**
 * The source of QuickJS: Debian's source package, fetched and unpacked once below `folder`, or the
 * folder that `QUICKJS_SOURCE` names.
 */
export function quickJs(folder: string, say: (line: string) => void): QuickJs {
  const named = process.env.QUICKJS_SOURCE
  const source =
    named !== undefined && named !== '' ? named : join(folder, `quickjs-${QUICKJS.version}`)
  if (!existsSync(join(source, 'quickjs.c'))) fetchQuickJs(folder, source, say)
  const hash = createHash('sha256')
  for (const name of readdirSync(source).sort()) {
    if (/\.[ch]$/.test(name)) hash.update(`${name}\0`).update(readFileSync(join(source, name)))
  }
  const version = readFileSync(join(source, 'VERSION'), 'utf8').trim()
  if (version !== QUICKJS.upstream) {
    throw new Trouble(`${source} is QuickJS ${version}; this is written for ${QUICKJS.upstream}`)
  }
  const files = QUICKJS_FILES.map((name) => join(source, `${name}.c`))
  return { folder: source, files, version, hash: hash.digest('hex') }
}

function fetchQuickJs(folder: string, source: string, say: (line: string) => void): void {
  const apart = join(folder, `apt-source-${process.pid}`)
  const { release, version } = QUICKJS
  const apt = privateApt(apart, { release, architecture: PROCESSORS['x86-64'].debian })
  say(`fetching the source of QuickJS ${version}`)
  apt('apt-get', ['update', '-qq'])
  apt('apt-get', ['source', '-qq', '--download-only', `quickjs=${version}`])
  const archive = readdirSync(apart).find((name) => /\.orig\.tar\.\w+$/.test(name))
  if (archive === undefined) {
    throw new Missing(
      `the Debian mirror has no source package quickjs ${version}; QUICKJS_SOURCE names a ` +
        'folder with it',
    )
  }
  const aside = join(apart, 'source')
  mkdirSync(aside)
  run('tar', ['-xf', join(apart, archive), '-C', aside, '--strip-components=1'])
  placeFolderOnce(aside, source)
  rmSync(apart, { recursive: true, force: true })
}
