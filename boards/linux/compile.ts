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
export const OURS: readonly string[] = [
  ...['-std=c11', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wstrict-prototypes'],
  ...['-Wmissing-prototypes', '-Wvla', '-Werror'],
  ...['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2'],
]
/**
 * As its own Makefile has them, without hardening: the interpreter is the hot path. Its jumps from
 * one instruction to the next are computed; merged into one, as these two would, none is foreseen.
 */
const ENGINE = ['-fno-gcse', '-fno-crossjumping', '-fwrapv', '-funsigned-char', '-w']
const SANITIZERS = ['-fsanitize=address,undefined,float-cast-overflow', '-fno-omit-frame-pointer']

export interface RuntimeOptions {
  readonly architecture: Architecture
  readonly sanitize: boolean
  readonly dropFlush: boolean
  readonly install: boolean
  readonly say: (line: string) => void
}

/** What programs are linked of. */
export interface RuntimeParts {
  /** Objects of QuickJS. */
  readonly engine: readonly string[]
  /** Our own objects, by the names of their files without the ending. */
  readonly own: ReadonlyMap<string, string>
  /** Compiles another file as one of ours. */
  compile(file: string): string
  /** Links a program; it is there whole or not at all. */
  link(program: string, objects: readonly string[], flags?: readonly string[]): void
}

/** Compiles what is not compiled yet. Throws a Trouble. */
export function runtimeParts(options: RuntimeOptions): RuntimeParts {
  const { sanitize, say } = options
  mkdirSync(FOLDER, { recursive: true })
  const tools = toolchain({ ...options, folder: FOLDER })
  const engine = quickJs(FOLDER, say)
  const compile = ownCompiler(new Objects(tools, say), engine, generatedHeaders(), options)
  const files = readdirSync(SOURCES).filter((name) => name.endsWith('.c'))
  return {
    engine: engineObjects(new Objects(tools, say), engine),
    own: new Map(files.sort().map((name) => [basename(name, '.c'), compile(join(SOURCES, name))])),
    compile,
    link: (program, objects, flags = []) => {
      mkdirSync(dirname(program), { recursive: true })
      const aside = `${program}.${process.pid}`
      // A sanitizer's runtime wants the dynamic C library.
      const how = sanitize ? SANITIZERS : ['-static', '-s']
      const all = [...how, ...flags, '-Wl,--gc-sections', '-Wl,-z,relro,-z,now', '-o', aside]
      run(tools.compiler, [...all, ...objects, ...tools.linkFlags, '-lm', '-lpthread'])
      renameSync(aside, program)
    },
  }
}

/** Builds the program and returns where it lies. Throws a Trouble. */
export function compileRuntime(options: RuntimeOptions): string {
  const { architecture, sanitize, dropFlush } = options
  const parts = runtimeParts(options)
  const flavour = `${architecture}${sanitize ? '-sanitize' : ''}${dropFlush ? '-drop-flush' : ''}`
  const program = join(FOLDER, flavour, 'perdured')
  parts.link(program, [...parts.engine, ...parts.own.values()])
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

/** How our files are compiled: anew where any header has changed. */
function ownCompiler(
  objects: Objects,
  engine: QuickJs,
  generated: string,
  options: RuntimeOptions,
): (file: string) => string {
  const hash = createHash('sha256').update(engine.hash)
  const headers = readdirSync(SOURCES).filter((name) => name.endsWith('.h'))
  for (const name of headers.sort()) {
    hash.update(`${name}\0`).update(readFileSync(join(SOURCES, name)))
  }
  const made = hash.update(readFileSync(join(generated, 'hal.h'))).digest('hex')
  const flags = [
    ...[...COMMON, ...OURS],
    ...[`-isystem${engine.folder}`, `-I${generated}`, `-I${SOURCES}`],
    ...(options.sanitize ? SANITIZERS : []),
    ...(options.dropFlush ? ['-DDROP_FLUSH=1'] : []),
  ]
  return (file) => objects.of(file, flags, made)
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
