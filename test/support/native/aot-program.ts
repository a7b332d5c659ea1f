/**
 * A program for `aot-harness.c`: translated by the build of the native runtime, linked with the
 * engine, and run beside its interpretation.
 *
 * What always holds: the whole of it is compiled with the address sanitizer, which also tells what
 * was never freed.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../boards/debian/programs.ts'
import {
  AOT,
  engineObjects,
  firmwareProgram,
  ROOT,
  translation,
} from '../../../boards/linux/engine.ts'
import { quickJs, type Toolchain } from '../../../boards/linux/toolchain.ts'
import { noCompiler } from './harness.ts'

const FOLDER = join(ROOT, 'dist/linux')
const SANITIZE = ['-fsanitize=address', '-g1', '-fno-omit-frame-pointer']
/** A program that does not come back is no answer. */
const PLAY_MS_MAX = 600_000
// No library but the C library: nothing has to be installed for the board.
const TOOLS: Toolchain = { compiler: 'gcc', compileFlags: [], linkFlags: [], native: true }
const OURS = ['-std=c11', '-D_GNU_SOURCE', '-O1', '-Wall', '-Wextra', '-Werror']

/** Why no program can be translated here; null where it can. */
export function whyNot(): string | null {
  if (noCompiler !== null) return noCompiler
  const named = process.env.QUICKJS_SOURCE
  if (named !== undefined && named !== '') return null
  const found = existsSync(FOLDER) ? readdirSync(FOLDER) : []
  return found.some((name) => existsSync(join(FOLDER, name, 'quickjs.c')))
    ? null
    : 'the source of QuickJS is not there: node build.mjs --board linux --install'
}

/** The firmware as the build translates it, as C, and the profile that it goes by. */
export function translatedFirmware(): { readonly text: string; readonly profile: string } {
  const say = (): void => {}
  const program = firmwareProgram(join(ROOT, 'dist'))
  const tools = { engine: quickJs(FOLDER, say), target: TOOLS, host: TOOLS }
  const made = translation(program, { ...tools, folder: FOLDER, say })
  return { text: readFileSync(join(made, 'firmware.h'), 'utf8'), profile: program.profile }
}

/** How many functions are written in a part: declared ones, and arrows. */
export function functionsOf(text: string): number {
  return (text.match(/^ {2}function \w+\(|=>/gm) ?? []).length
}

/** What the harness found. Pairs are of the interpreted run, then of the translated one. */
export interface Findings {
  /** How many functions ran as what they were translated to. */
  readonly functions: readonly [number, number]
  readonly cases: number
  /** Of all texts of the interpreted run. */
  readonly bytes: number
  /** How many cases did not say the same twice. */
  readonly differences: number
  /** On the heap at the end. */
  readonly allocations: readonly [number, number]
  readonly objects: readonly [number, number]
  /** What differs, for people. */
  readonly text: string
}

/** A part of a program, as if it were the file of that name. */
export interface Part {
  readonly file: string
  readonly text: string
  readonly isTranslated: boolean
}

/**
 * Translates, compiles and plays a program; its parts stand in one function, one after the other.
 * `level` is how hard the compiler tries: the board is built with -O1, and -O0 is made sooner.
 * Objects stay in `kept`, that of the board unless told otherwise. Throws what the sanitizers or
 * the engine's own assertions said.
 */
export function playProgram(
  parts: readonly Part[],
  level: string,
  kept: string = FOLDER,
): Findings {
  const source = [
    '(() => {',
    ...parts.map(({ file, text }) => `  // ${file}\n${text}`),
    '})()\n',
  ].join('\n')
  const folder = mkdtempSync(join(tmpdir(), 'perdure-aot-'))
  try {
    const text = join(folder, 'program.js')
    writeFileSync(text, source)
    const program = build(folder, source, parts, [level, ...SANITIZE], kept)
    const sha256 = createHash('sha256').update(source).digest('hex')
    const done = spawnSync(program, [text, sha256], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
      timeout: PLAY_MS_MAX,
    })
    if (done.status !== 0) throw new Error(`the harness ended with ${done.status}: ${done.stderr}`)
    const end = done.stdout.indexOf('\n')
    const found = JSON.parse(done.stdout.slice(0, end)) as Omit<Findings, 'text'>
    return { ...found, text: done.stdout.slice(end + 1) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function build(
  folder: string,
  source: string,
  parts: readonly Part[],
  flags: readonly string[],
  kept: string,
): string {
  const say = (): void => {}
  const engine = quickJs(FOLDER, say)
  const objects = engineObjects(
    {
      source: Buffer.from(source),
      files: parts.filter((part) => part.isTranslated).map((part) => part.file),
      profile: '',
    },
    { engine, target: TOOLS, host: TOOLS, folder: kept, flags, say },
  )
  const program = join(folder, 'aot-harness')
  const harness = join(ROOT, 'test/support/native/aot-harness.c')
  const includes = [`-I${AOT}`, `-isystem${engine.folder}`]
  run('gcc', [
    ...[...OURS, ...SANITIZE, ...includes, '-o', program, harness, ...objects],
    ...['-lm', '-lpthread'],
  ])
  return program
}
