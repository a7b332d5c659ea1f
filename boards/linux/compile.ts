/**
 * Compiles and links `perdured`.
 *
 * Invariant: a warning is an error in our files.
 */

import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from '../tools/debian/programs.ts'
import {
  AOT,
  engineObjects,
  firmwareProgram,
  plainEngineObjects,
  ROOT,
  SAME_ANYWHERE,
} from './engine.ts'
import { halHeader } from './hal-header.ts'
import { Objects } from './objects.ts'
import {
  type Architecture,
  hostArchitecture,
  type QuickJs,
  quickJs,
  type Toolchain,
  toolchain,
} from './toolchain.ts'

/** Where builds are left. */
export const DIST: string = join(ROOT, 'dist')
export const SOURCES: string = join(ROOT, 'boards/linux/src')
const FOLDER = join(DIST, 'linux')

const COMMON = [
  ...['-O2', '-g', '-fno-plt', '-ffunction-sections', '-fdata-sections', '-D_GNU_SOURCE'],
  SAME_ANYWHERE,
]
export const OURS: readonly string[] = [
  ...['-std=c11', '-Wall', '-Wextra', '-Wconversion', '-Wshadow', '-Wstrict-prototypes'],
  ...['-Wmissing-prototypes', '-Wvla', '-Werror'],
  ...['-fstack-protector-strong', '-D_FORTIFY_SOURCE=2'],
]
const SANITIZERS = ['-fsanitize=address,undefined,float-cast-overflow', '-fno-omit-frame-pointer']
/** Of QuickJS and the translated firmware: neither was written for the checks of "undefined". */
const ENGINE_SANITIZERS = ['-fsanitize=address', '-g1', '-fno-omit-frame-pointer']

export interface RuntimeOptions {
  readonly architecture: Architecture
  readonly sanitize: boolean
  /** With `sanitize`, whether the engine is the shipped one, which is there much sooner. */
  readonly engineAsShipped?: boolean
  readonly dropFlush: boolean
  readonly install: boolean
  /** Whether it notes what it sees, for `firmware.profile`. */
  readonly learns?: boolean
  readonly say: (line: string) => void
}

/** Makes objects of ours, and programs of objects, for one processor. */
interface Workshop {
  readonly tools: Toolchain
  /** The source of QuickJS. */
  readonly quickJs: QuickJs
  /** Compiles a file as one of ours. */
  compile(file: string, flags?: readonly string[]): string
  /** A compiler for files that include the headers of another folder, too. */
  compilerWith(folder: string): (file: string, flags?: readonly string[], made?: string) => string
  /** Objects of QuickJS as it comes. */
  plainEngine(): readonly string[]
  /** Links a program; it is there whole or not at all. */
  link(program: string, objects: readonly string[], flags?: readonly string[]): void
}

/** What programs are linked of. */
interface RuntimeParts extends Workshop {
  /** Objects of QuickJS with the firmware translated. */
  readonly engine: readonly string[]
  /** Our own objects, by the paths of their files in `src` without the ending. */
  readonly own: ReadonlyMap<string, string>
}

/** Compiles what is not compiled yet. Throws a Trouble. */
export function runtimeParts(options: RuntimeOptions): RuntimeParts {
  const { sanitize, engineAsShipped = false, learns = false, say } = options
  const shop = workshop(options)
  const { tools, quickJs: engine } = shop
  const host = tools.native
    ? tools
    : toolchain({ ...options, folder: FOLDER, architecture: hostArchitecture() })
  const names = filesOf(SOURCES, '.c')
  const object = (name: string): string => {
    return shop.compile(join(SOURCES, name), name === 'main.c' ? [versionFlag()] : [])
  }
  return {
    ...shop,
    engine: engineObjects(firmwareProgram(DIST), {
      ...{ engine, target: tools, host, folder: FOLDER, learns, say },
      flags: sanitize && !engineAsShipped ? ENGINE_SANITIZERS : [],
    }),
    own: new Map(names.map((name) => [name.slice(0, -'.c'.length), object(name)])),
  }
}

/** Files below a folder with that ending, by their paths from there, in order. */
export function filesOf(folder: string, ending: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return names.filter((name) => name.endsWith(ending)).sort()
}

/** Finds the compiler, libraries and QuickJS; compiles nothing yet. Throws a Trouble. */
export function workshop(options: RuntimeOptions): Workshop {
  const { sanitize, say } = options
  mkdirSync(FOLDER, { recursive: true })
  const tools = toolchain({ ...options, folder: FOLDER })
  const engine = quickJs(FOLDER, say)
  const objects = new Objects(join(FOLDER, 'objects'), tools, say)
  const generated = generatedHeaders()
  const compilerFor = (folders: readonly string[]) =>
    ownCompiler(objects, engine, generated, folders, options)
  return {
    tools,
    quickJs: engine,
    compile: compilerFor([SOURCES]),
    compilerWith: (folder) => compilerFor([SOURCES, folder]),
    plainEngine: () => plainEngineObjects(engine, objects),
    link: (program, objects, flags = []) => {
      mkdirSync(dirname(program), { recursive: true })
      const aside = `${program}.${process.pid}`
      // A sanitizer's runtime wants the dynamic C library.
      const how = sanitize ? SANITIZERS : ['-static-pie', '-s']
      const all = [...how, ...flags, '-Wl,--gc-sections', '-Wl,-z,relro,-z,now', '-o', aside]
      run(tools.compiler, [...all, ...objects, ...tools.linkFlags, '-lm', '-lpthread'])
      renameSync(aside, program)
    },
  }
}

/** What tells a file with `main` which release it is of. */
export function versionFlag(): string {
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    version: string
  }
  return `-DPERDURE_VERSION="${version}"`
}

/** Builds the program and returns where it lies. Throws a Trouble. */
export function compileRuntime(options: RuntimeOptions): string {
  const parts = runtimeParts(options)
  const program = join(flavourFolder(options), 'perdured')
  parts.link(program, [...parts.engine, ...parts.own.values()])
  return program
}

/** Where the programs of that kind are left. */
export function flavourFolder(options: RuntimeOptions): string {
  const { architecture, sanitize, engineAsShipped = false, dropFlush, learns = false } = options
  const shipped = sanitize && engineAsShipped
  const flags = { sanitize, 'engine-as-shipped': shipped, 'drop-flush': dropFlush, learn: learns }
  const names = Object.entries(flags).flatMap(([name, is]) => (is ? [name] : []))
  return join(FOLDER, [architecture, ...names].join('-'))
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

/**
 * How our files are compiled: again where any header of those folders has changed, or `made`, which
 * stands for whatever else the file takes in.
 */
function ownCompiler(
  objects: Objects,
  engine: QuickJs,
  generated: string,
  folders: readonly string[],
  options: RuntimeOptions,
): (file: string, flags?: readonly string[], made?: string) => string {
  const hash = createHash('sha256').update(engine.hash)
  for (const folder of folders) {
    for (const name of filesOf(folder, '.h')) {
      hash.update(`${name}\0`).update(readFileSync(join(folder, name)))
    }
  }
  for (const path of [join(AOT, 'bind.h'), join(generated, 'hal.h')])
    hash.update(readFileSync(path))
  const headers = hash.digest('hex')
  const own = [
    ...[...COMMON, ...OURS],
    ...[`-isystem${engine.folder}`, `-I${generated}`],
    ...[...folders, AOT].map((folder) => `-I${folder}`),
    ...(options.sanitize ? SANITIZERS : []),
    ...(options.dropFlush ? ['-DDROP_FLUSH=1'] : []),
  ]
  return (file, flags = [], made = '') => objects.of(file, [...own, ...flags], headers + made)
}
