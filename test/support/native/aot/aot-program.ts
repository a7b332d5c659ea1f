/**
 * A program for `aot-harness.c`: translated by the build of the native runtime, linked with the
 * engine, and run beside its interpretation.
 *
 * Invariant: the whole of it is compiled with the address sanitizer, which also tells what
 * was never freed.
 */

import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  AOT,
  engineObjects,
  firmwareProgram,
  type Program,
  ROOT,
  translation,
} from '../../../../boards/linux/engine.ts'
import { quickJs, type Toolchain } from '../../../../boards/linux/toolchain.ts'
import { run } from '../../../../boards/tools/debian/programs.ts'
import { PATIENCE_MS } from '../../run/patience.ts'
import { noCompiler } from '../harness.ts'

const FOLDER = join(ROOT, 'dist/linux')
const SANITIZE = ['-fsanitize=address', '-g1', '-fno-omit-frame-pointer']
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
  /** How often a translated function went on in the interpreter. */
  readonly resumes: number
  /** How many calls met a function that rests from its translation. */
  readonly rests: number
  /** What differs, for people. */
  readonly text: string
  /** What was seen, if it learns (`boards/linux/aot/translate/program/profile.h`). */
  readonly profile: string
}

/** A part of a program, as if it were the file of that name. */
export interface Part {
  readonly file: string
  readonly text: string
  readonly isTranslated: boolean
}

/** How a program is made and played. */
export interface Playing {
  /** How hard the compiler tries: the board is built with -O1, and -O0 is made sooner. */
  readonly level: string
  /** More for the compiler. */
  readonly flags?: readonly string[]
  /** Folder of what is compiled, that of the board unless told otherwise. */
  readonly kept?: string
  /** Whether it notes what it sees: `Findings.profile`. */
  readonly learns?: boolean
  /** What was seen of it; nothing unless told otherwise. */
  readonly profile?: string
  /** What its `share()` gives, 0 unless told otherwise. */
  readonly share?: number
}

/** Its parts stand in one function, one after the other. */
function sourceOf(parts: readonly Part[]): string {
  const texts = parts.map(({ file, text }) => `  // ${file}\n${text}`)
  return ['(() => {', ...texts, '})()\n'].join('\n')
}

function programOf(parts: readonly Part[], profile: string): Program {
  const files = parts.filter((part) => part.isTranslated).map((part) => part.file)
  return { source: Buffer.from(sourceOf(parts)), files, profile }
}

/** The program as C. Throws what the translator said. */
export function translated(parts: readonly Part[], profile: string): string {
  const say = (): void => {}
  const tools = { engine: quickJs(FOLDER, say), target: TOOLS, host: TOOLS }
  const made = translation(programOf(parts, profile), { ...tools, folder: FOLDER, say })
  return readFileSync(join(made, 'firmware.h'), 'utf8')
}

/**
 * Translates, compiles and plays a program. Throws what the sanitizers or the engine's own
 * assertions said, or the translator.
 */
export function playProgram(parts: readonly Part[], playing: Playing): Findings {
  const source = sourceOf(parts)
  const folder = mkdtempSync(join(tmpdir(), 'perdure-aot-'))
  try {
    const text = join(folder, 'program.js')
    const noted = join(folder, 'noted')
    writeFileSync(text, source)
    writeFileSync(noted, '')
    const program = build(folder, parts, playing)
    const sha256 = createHash('sha256').update(source).digest('hex')
    const done = spawnSync(program, [text, sha256, String(playing.share ?? 0)], {
      encoding: 'utf8',
      env: { ...process.env, AOT_PROFILE: noted, ASAN_OPTIONS: 'malloc_context_size=4' },
      maxBuffer: 1 << 28,
      timeout: PATIENCE_MS,
    })
    if (done.status !== 0) throw new Error(`the harness ended with ${done.status}: ${done.stderr}`)
    const end = done.stdout.indexOf('\n')
    const found = JSON.parse(done.stdout.slice(0, end)) as Omit<Findings, 'text' | 'profile'>
    return { ...found, text: done.stdout.slice(end + 1), profile: readFileSync(noted, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function build(
  folder: string,
  parts: readonly Part[],
  { level, flags = [], kept = FOLDER, learns = false, profile = '' }: Playing,
): string {
  const say = (): void => {}
  const engine = quickJs(FOLDER, say)
  const objects = engineObjects(programOf(parts, profile), {
    ...{ engine, target: TOOLS, host: TOOLS, folder: kept, learns, say },
    flags: [level, ...SANITIZE, ...flags],
  })
  const program = join(folder, 'aot-harness')
  const harness = join(ROOT, 'test/support/native/aot/aot-harness.c')
  const includes = [`-I${AOT}`, `-isystem${engine.folder}`]
  run('gcc', [
    ...[...OURS, ...SANITIZE, ...includes, '-o', program, harness, ...objects],
    ...['-lm', '-lpthread'],
  ])
  return program
}
