/**
 * Compiles and links `perdured`.
 *
 * What always holds: an object is named by the hash of everything that makes it, so that none is
 * stale and none is made twice; a warning is an error in our files.
 */

import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../debian/programs.ts'
import { halHeader } from './hal-header.ts'
import { type Architecture, type QuickJs, quickJs, type Toolchain, toolchain } from './toolchain.ts'

/** The bundle of this file is in dist. */
export const DIST: string = dirname(fileURLToPath(import.meta.url))
const SOURCES = join(DIST, '../boards/linux/src')
const FOLDER = join(DIST, 'linux')

const COMMON = ['-O2', '-g', '-fno-plt', '-ffunction-sections', '-fdata-sections', '-D_GNU_SOURCE']
const OURS = [
  ...['-std=c11', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wstrict-prototypes'],
  ...['-Wmissing-prototypes', '-Wvla', '-Werror'],
  ...['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2'],
]
/** As its own Makefile has them; -O3 and no hardening, because the interpreter is the hot path. */
const ENGINE = ['-O3', '-fwrapv', '-funsigned-char', '-w']
const SANITIZERS = ['-fsanitize=address,undefined', '-fno-omit-frame-pointer']

export interface RuntimeOptions {
  readonly architecture: Architecture
  readonly sanitize: boolean
  readonly dropFlush: boolean
  readonly install: boolean
  readonly say: (line: string) => void
}

/** Builds the program and returns where it lies. Throws a Trouble. */
export function compileRuntime(options: RuntimeOptions): string {
  const { architecture, sanitize, dropFlush, say } = options
  mkdirSync(FOLDER, { recursive: true })
  const tools = toolchain({ ...options, folder: FOLDER })
  const engine = quickJs(FOLDER, say)
  const header = generatedHeaders()
  const objects = new Objects(tools, say)
  const parts = [
    ...engineObjects(objects, engine),
    ...ownObjects(objects, engine, header, sanitize, dropFlush),
  ]
  const flavour = `${architecture}${sanitize ? '-sanitize' : ''}${dropFlush ? '-drop-flush' : ''}`
  const program = join(FOLDER, flavour, 'perdured')
  mkdirSync(dirname(program), { recursive: true })
  const aside = `${program}.${process.pid}`
  // A sanitizer's runtime wants the dynamic C library.
  const how = sanitize ? SANITIZERS : ['-static', '-s']
  const flags = [...how, '-Wl,--gc-sections', '-Wl,-z,relro,-z,now']
  run(tools.compiler, [...flags, '-o', aside, ...parts, ...tools.linkFlags, '-lm', '-lpthread'])
  renameSync(aside, program)
  return program
}

/** The folder with what the build makes of the firmware's numbers. */
function generatedHeaders(): string {
  const folder = join(FOLDER, 'gen')
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'hal.h')
  const text = halHeader()
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) {
    writeFileSync(`${path}.${process.pid}`, text)
    renameSync(`${path}.${process.pid}`, path)
  }
  return folder
}

function engineObjects(objects: Objects, engine: QuickJs): string[] {
  const version = `-DCONFIG_VERSION="${engine.version}"`
  return engine.files.map((file) => objects.of(file, [...COMMON, ...ENGINE, version], engine.hash))
}

function ownObjects(
  objects: Objects,
  engine: QuickJs,
  generated: string,
  sanitize: boolean,
  dropFlush: boolean,
): string[] {
  const names = readdirSync(SOURCES).sort()
  const hash = createHash('sha256').update(engine.hash)
  for (const name of names.filter((one) => one.endsWith('.h'))) {
    hash.update(`${name}\0`).update(readFileSync(join(SOURCES, name)))
  }
  const headers = hash.update(readFileSync(join(generated, 'hal.h'))).digest('hex')
  const flags = [
    ...[...COMMON, ...OURS],
    ...[`-isystem${engine.folder}`, `-I${generated}`],
    ...(sanitize ? SANITIZERS : []),
    ...(dropFlush ? ['-DDROP_FLUSH=1'] : []),
  ]
  return names
    .filter((name) => name.endsWith('.c'))
    .map((name) => objects.of(join(SOURCES, name), flags, headers))
}

/** Compiled files, kept by the hash of what makes them. */
class Objects {
  private readonly tools: Toolchain
  private readonly say: (line: string) => void
  private readonly folder = join(FOLDER, 'objects')
  private readonly compiler: string

  constructor(tools: Toolchain, say: (line: string) => void) {
    this.tools = tools
    this.say = say
    this.compiler = run(tools.compiler, ['--version']).toString()
    mkdirSync(this.folder, { recursive: true })
  }

  /** The object of a file; `headers` is the hash of everything that it includes. */
  of(file: string, flags: readonly string[], headers: string): string {
    const all = [...this.tools.compileFlags, ...flags]
    const text = readFileSync(file)
    const made = createHash('sha256').update(`${this.compiler}\0${all.join('\0')}\0${headers}\0`)
    const name = basename(file, '.c')
    const object = join(this.folder, `${name}-${made.update(text).digest('hex').slice(0, 24)}.o`)
    if (existsSync(object)) return object
    this.say(`compiling ${name}`)
    const aside = `${object}.${process.pid}`
    try {
      run(this.tools.compiler, [...all, '-c', file, '-o', aside])
      renameSync(aside, object)
    } finally {
      rmSync(aside, { force: true })
    }
    return object
  }
}
