/**
 * What the virtual machine boots: a kernel, and a first root with everything that it runs.
 *
 * Invariants:
 * - The root is the kernel's modules, our init, the supervisor, perdured, the signed bundle, keys
 *   and configurations of this start, and nothing else; the same of these give the same bytes.
 * - What is fetched or compiled is kept by the hash of what it is made of: a second start makes
 *   nothing again.
 */

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { missing, type Needs, need } from '../tools/debian/apt.ts'
import { archive, type Entry } from '../tools/debian/cpio.ts'
import { isThere, run } from '../tools/debian/programs.ts'
import { INSIDE } from './configuration.ts'
import { fetchKernel, hasKernel, type Kernel, type PageKib } from './kernel.ts'
import { CACHE, HERE, ROOT } from './places.ts'

/** What the card runs, as paths of this machine. */
interface Runtime {
  /** perdure-boot and perdured for arm64, static. */
  readonly supervisor: string
  readonly perdured: string
  /** The bundle, its signature, and the public key that it is held against. */
  readonly firmware: string
  readonly signature: string
  readonly trust: string
}

/** What a machine is started from. */
export interface Image {
  readonly kernel: Kernel
  readonly init: string
  readonly runtime: Runtime
  /** Another archive behind the first root, which may have files in place of ours. */
  readonly more?: string
}

export interface ImageOptions {
  /** Installs what is missing. */
  readonly install?: boolean
  readonly runtime?: Runtime
  /** Pages of the kernel, KiB; 4 unless given. */
  readonly pageKib?: PageKib
}

/** Where the build leaves them (`node build.mjs --board linux --arch arm64`). */
export const RUNTIME: Runtime = {
  supervisor: join(ROOT, 'dist/linux/arm64/perdure-boot'),
  perdured: join(ROOT, 'dist/linux/arm64/perdured'),
  firmware: join(ROOT, 'dist/firmware.js'),
  signature: join(ROOT, 'dist/firmware.js.sig'),
  trust: join(ROOT, 'dist/linux/trust.pem'),
}

const COMPILER = 'aarch64-linux-gnu-gcc'
const FLAGS = [
  ...['-std=gnu11', '-Os', '-static', '-s', '-Wall', '-Wextra', '-Wconversion', '-Wshadow'],
  '-Werror',
]
const SOURCE = join(HERE, 'init.c')

/** Programs that run the machine, that compile for it, and that fetch its kernel. */
const RUN = { 'qemu-system-aarch64': 'qemu-system-arm', fdtput: 'device-tree-compiler' }
const COMPILE = { [COMPILER]: 'gcc-aarch64-linux-gnu' }
const COMPILE_FILES = { '/usr/aarch64-linux-gnu/include/stdio.h': 'libc6-dev-arm64-cross' }
const FETCH = { xz: 'xz-utils', 'dpkg-deb': 'dpkg' }

const ELSEWHERE =
  'QEMU 7.2 or later with qemu-system-aarch64, fdtput, and a compiler for arm64; the kernel is a ' +
  'package of Debian, so a first run needs apt (a Debian container will do).'

function needs(pageKib: PageKib): Needs {
  const compiles = !existsSync(initPath())
  return {
    programs: { ...RUN, ...(compiles ? COMPILE : {}), ...(hasKernel(CACHE, pageKib) ? {} : FETCH) },
    files: compiles ? COMPILE_FILES : {},
    elsewhere: ELSEWHERE,
  }
}

/** Why there can be no machine here, in words that say what helps; null where there can. */
export function whyNot(runtime: Runtime = RUNTIME, pageKib: PageKib = 4): string | null {
  const lack = missing(needs(pageKib))
  if (lack !== null) return `${lack.what}: missing. This installs it: ${lack.command}`
  if (!hasKernel(CACHE, pageKib) && !isThere('apt-get')) return 'its kernel takes apt-get'
  const absent = Object.values(runtime).find((path) => !existsSync(path))
  if (absent === undefined) return null
  return `${absent} is missing: node build.mjs --board linux --arch arm64`
}

/** Everything that a machine is started from. Throws a Trouble for what cannot be had. */
export function prepareImage(
  say: (line: string) => void,
  { install = false, runtime = RUNTIME, pageKib = 4 }: ImageOptions = {},
): Image {
  need(needs(pageKib), { install, say })
  return { kernel: fetchKernel(CACHE, say, pageKib), init: compileInit(), runtime }
}

function initPath(): string {
  const hash = createHash('sha256').update(FLAGS.join(' ')).update(readFileSync(SOURCE))
  return join(CACHE, `init-${hash.digest('hex').slice(0, 12)}`)
}

/** The init for arm64: compiled once for each text of `init.c`. */
function compileInit(): string {
  const path = initPath()
  if (existsSync(path)) return path
  mkdirSync(CACHE, { recursive: true })
  const aside = mkdtempSync(join(CACHE, 'making-'))
  try {
    run(COMPILER, [...FLAGS, '-o', join(aside, 'init'), SOURCE])
    renameSync(join(aside, 'init'), path)
  } finally {
    rmSync(aside, { recursive: true, force: true })
  }
  return path
}

/** What the machine is told. */
interface Told {
  /** Texts of perdured.conf and of boot.conf. */
  readonly configuration: string
  readonly boot: string
  /** PEM file of another key that may sign images. */
  readonly trust?: string
}

/** The first root of a machine that is told that. */
export function firstRoot(image: Image, { configuration, boot, trust }: Told): Buffer {
  const { kernel, init, runtime, more } = image
  const file = (path: string, from: string): Entry => {
    return { path: path.slice(1), content: readFileSync(from) }
  }
  const program = (path: string, from: string): Entry => ({ ...file(path, from), executable: true })
  const text = (path: string, content: string): Entry => {
    return { path: path.slice(1), content: Buffer.from(content) }
  }
  const own = archive([
    program('/init', init),
    program('/perdure/perdure-boot', runtime.supervisor),
    program(INSIDE.perdured, runtime.perdured),
    file(INSIDE.firmware, runtime.firmware),
    file(INSIDE.signature, runtime.signature),
    file(INSIDE.trust, runtime.trust),
    ...(trust === undefined ? [] : [file(INSIDE.otherTrust, trust)]),
    text(INSIDE.configuration, configuration),
    text('/perdure/boot.conf', boot),
    ...['dev', 'proc', 'run', 'sys', 'tmp'].map((path) => ({ path })),
  ])
  // The kernel takes one archive behind another.
  const behind = more === undefined ? [] : [readFileSync(more)]
  return Buffer.concat([readFileSync(kernel.modules), own, ...behind])
}
