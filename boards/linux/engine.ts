/**
 * QuickJS with the functions of the firmware translated to C (`aot/`), as objects to link.
 *
 * Invariants:
 * - The engine is Debian's source with two additions to `quickjs.c`: a function knows what it was
 *   translated to, and a call of it goes there. If the source no longer has the places where they
 *   stand, the build says so; nothing is guessed.
 * - Translated are the functions of the files that are marked `// hot path`, and what they call.
 *   The rest, and any other bundle, is interpreted by the same engine.
 * - The translation carries the SHA-256 of its bundle: see `aot_bind`.
 */

import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { placeFolderOnce } from '../tools/debian/once.ts'
import { run, Trouble } from '../tools/debian/programs.ts'
import { Objects } from './objects.ts'
import { lostFunctions } from './profile.ts'
import type { QuickJs, Toolchain } from './toolchain.ts'

/** Of the repository: this file is run from its place, or from a bundle in dist. */
export const ROOT: string = rootAbove(dirname(fileURLToPath(import.meta.url)))
/** The sources of the translation; `bind.h` is for whoever runs a program. */
export const AOT: string = join(ROOT, 'boards/linux/aot')
/** The sources of the translator, which is a program of the build. */
const TRANSLATOR: string = join(AOT, 'translate')
/** What was seen of the firmware: `npm run bench:native -- --learn` writes it again. */
export const PROFILE: string = join(ROOT, 'boards/linux/firmware.profile')
const HOT = '// hot path'
/** Names of files in programs begin at the repository: the same ones, wherever it lies. */
export const SAME_ANYWHERE: string = `-ffile-prefix-map=${ROOT}=.`

/**
 * As its own Makefile has them, and with a guard behind what lies on the stack, as our own files
 * are compiled. The interpreter's jumps from one instruction to the next are computed; merged into
 * one, as these two would, none is foreseen.
 */
const FLAGS = [
  '-fstack-protector-strong',
  ...['-fno-plt', '-ffunction-sections', '-fdata-sections', '-D_GNU_SOURCE'],
  ...['-fno-gcse', '-fno-crossjumping', '-fwrapv', '-funsigned-char', '-w', SAME_ANYWHERE],
]
/** More takes twice as long over what was translated, and gains next to nothing there. */
const LEVEL_OF_TRANSLATED = '-O1'
/** Without it GCC (12) makes `0.0 - (double)x` of a whole number x its negative: -0 of 0. */
const EXACT = '-frounding-math'
/** What only watches is to be made soon. */
const LEVEL_OF_LEARNING = '-O0'

/** A program to translate. */
export interface Program {
  /** Its bytes; a line `  // FILE` stands before what the bundler took of each file. */
  readonly source: Uint8Array
  /** The files whose functions are translated; all must be in it. */
  readonly files: readonly string[]
  /** What was seen of it (`aot/translate/program/profile.h`), or of an older one. */
  readonly profile: string
}

interface EngineOptions {
  readonly engine: QuickJs
  /** For which the engine is compiled. */
  readonly target: Toolchain
  /** With which the translator is: its programs run on this machine. */
  readonly host: Toolchain
  /** Folder for what is made. */
  readonly folder: string
  readonly flags?: readonly string[]
  /** Whether the program notes what it sees, for a profile, and goes by none. */
  readonly learns?: boolean
  readonly say: (line: string) => void
}

function rootAbove(folder: string): string {
  return existsSync(join(folder, 'build.mjs')) ? folder : rootAbove(dirname(folder))
}

/** The bundle in `dist`, and the files of the firmware that are marked as its hot path. */
export function firmwareProgram(dist: string): Program {
  const source = readFileSync(join(dist, 'firmware.js'))
  const files = readdirSync(join(ROOT, 'firmware'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => `firmware/${name}`)
    .filter((name) => readFileSync(join(ROOT, name), 'utf8').split('\n', 1)[0] === HOT)
    .filter((name) => source.includes(`  // ${name}\n`))
  const profile = existsSync(PROFILE) ? readFileSync(PROFILE, 'utf8') : ''
  return { source, files: files.sort(), profile }
}

/** The objects of the engine that has translated the program. Throws a Trouble. */
export function engineObjects(program: Program, options: EngineOptions): string[] {
  const { engine, target, folder, learns, say } = options
  const made = translation(program, options)
  if (!learns) tellLost(program, made, say)
  const objects = new Objects(join(folder, 'objects'), target, say)
  const flags = [...FLAGS, ...(options.flags ?? []), ...about(engine)]
  const others = engine.files.filter((file) => !file.endsWith('/quickjs.c'))
  const includes = [`-I${made}`, `-I${AOT}`, `-I${engine.folder}`]
  const level = learns ? LEVEL_OF_LEARNING : LEVEL_OF_TRANSLATED
  return [
    ...others.map((file) => objects.of(file, ['-O2', ...flags], engine.hash)),
    objects.of(join(AOT, 'bind.c'), [level, EXACT, ...flags, ...includes], made),
  ]
}

/** The folder with the translation, `firmware.h`: whole, or not there. Throws a Trouble. */
export function translation(program: Program, options: EngineOptions): string {
  const made = join(options.folder, 'gen', translationName(program, options))
  if (!existsSync(join(made, 'firmware.h'))) {
    const aside = `${made}.${process.pid}`
    try {
      translate(program, aside, options)
      placeFolderOnce(aside, made)
    } finally {
      rmSync(aside, { recursive: true, force: true })
    }
  }
  return made
}

/** An old profile is no error, but costs speed. */
function tellLost(program: Program, made: string, say: (line: string) => void): void {
  const text = readFileSync(join(made, 'firmware.h'), 'utf8')
  const { lost, count } = lostFunctions(program.profile, text)
  if (lost.length === 0) return
  const name = basename(PROFILE)
  const what = `${lost.length} of its ${count} functions are in the bundle no more`
  say(`${name}: ${what}, which only costs speed; npm run bench:native -- --learn makes it again`)
}

/** The objects of the engine as it comes, which translates nothing. */
export function plainEngineObjects(engine: QuickJs, objects: Objects): string[] {
  const flags = ['-O2', ...FLAGS, ...about(engine)]
  return engine.files.map((file) => objects.of(file, flags, engine.hash))
}

/** What its sources are told of themselves: their release, and a name wherever they lie. */
function about({ version, folder }: QuickJs): string[] {
  return [`-DCONFIG_VERSION="${version}"`, `-ffile-prefix-map=${folder}=quickjs`]
}

/** Named by everything that makes it. */
function translationName(program: Program, { engine, learns }: EngineOptions): string {
  const hash = createHash('sha256')
    .update(sourcesHash(engine, /\.[ch]$/))
    .update(program.source)
  hash.update(program.files.join('\0')).update(JSON.stringify(ADDITIONS))
  const name = hash
    .update(learns ? '' : program.profile)
    .digest('hex')
    .slice(0, 24)
  return learns ? `aot-${name}-learn` : `aot-${name}`
}

/** Files of that kind below a folder, in order. */
function sourcesIn(folder: string, kind: RegExp): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  const wanted = names.filter((name) => kind.test(name)).sort()
  return wanted.map((name) => join(folder, name))
}

/** Of the engine, and of the translation's own sources of that kind. */
function sourcesHash(engine: QuickJs, kind: RegExp): string {
  const hash = createHash('sha256').update(engine.hash)
  for (const path of sourcesIn(AOT, kind)) hash.update(readFileSync(path))
  return hash.digest('hex')
}

/** The translator's own objects, for the machine that builds. */
function translatorObjects(objects: Objects, engine: QuickJs): string[] {
  const flags = ['-O1', ...FLAGS, ...about(engine), `-I${TRANSLATOR}`, `-I${engine.folder}`]
  const headers = sourcesHash(engine, /\.h$/)
  return sourcesIn(TRANSLATOR, /\.c$/).map((path) => objects.of(path, flags, headers))
}

/** Makes a folder with `firmware.h` and `quickjs-patched.c`. */
function translate(program: Program, aside: string, options: EngineOptions): void {
  const { engine, host, folder, say } = options
  const objects = new Objects(join(folder, 'objects'), host, say)
  mkdirSync(aside, { recursive: true })
  const translator = join(aside, 'translate')
  const others = engine.files.filter((file) => !file.endsWith('/quickjs.c'))
  run(host.compiler, [
    ...['-o', translator, ...translatorObjects(objects, engine)],
    ...others.map((file) => objects.of(file, ['-O2', ...FLAGS, ...about(engine)], engine.hash)),
    ...['-lm', '-lpthread'],
  ])
  writeFileSync(join(aside, 'program.js'), program.source)
  say(`translating the functions of ${program.files.length} files`)
  writeFileSync(join(aside, 'profile'), program.profile)
  const how = options.learns ? ['--learn'] : ['--profile', join(aside, 'profile')]
  const text = run(translator, [...how, join(aside, 'program.js'), ...program.files])
  const sha256 = createHash('sha256').update(program.source).digest('hex')
  writeFileSync(join(aside, 'firmware.h'), `#define AOT_SHA256 "${sha256}"\n${text}`)
  writeFileSync(join(aside, 'quickjs-patched.c'), withAdditions(engine))
}

/**
 * What is added to `quickjs.c`, behind which of its lines: where a function is translated; that a
 * call goes there; and that its frame holds an offset into its code, not an address.
 */
const ADDITIONS: readonly (readonly [behind: string, added: string])[] = [
  [
    '    int cpool_count;\n    int closure_var_count;\n',
    '    JSValue (*native)(JSContext *, JSObject *, JSValueConst, int, JSValueConst *);\n',
  ],
  [
    '        return call_func(caller_ctx, func_obj, this_obj, argc,\n' +
      '                         (JSValueConst *)argv, flags);\n    }\n' +
      '    b = p->u.func.function_bytecode;\n',
    '    if (b->native != NULL)\n' +
      '        return b->native(b->realm, p, this_obj, argc, (JSValueConst *)argv);\n',
  ],
  [
    '            b = p->u.func.function_bytecode;\n            if (b->has_debug) {\n',
    '                if ((uintptr_t)sf->cur_pc <= (uintptr_t)b->byte_code_len)\n' +
      '                    sf->cur_pc = b->byte_code_buf + (uintptr_t)sf->cur_pc;\n',
  ],
]

function withAdditions(engine: QuickJs): string {
  let text = readFileSync(join(engine.folder, 'quickjs.c'), 'utf8')
  for (const [behind, added] of ADDITIONS) {
    const parts = text.split(behind)
    if (parts.length !== 2) {
      throw new Trouble(`quickjs.c of ${engine.folder} has no one place for: ${added.trim()}`)
    }
    text = parts.join(behind + added)
  }
  return text
}
