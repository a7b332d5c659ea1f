/**
 * All C of the repository as compilers and cppcheck see it: no warning, on either processor, in any
 * build. What it takes is named where it is missing, and that part is skipped.
 */

import { spawnSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { OURS } from '../../../boards/linux/compile.ts'
import { halHeader } from '../../../boards/linux/hal-header.ts'
import { isThere } from '../../../boards/tools/debian/programs.ts'
import { THOROUGH } from '../../support/run/thorough.ts'
import { filesBelow, ROOT } from '../../support/source/sources.ts'

const SOURCES = join(ROOT, 'boards/linux/src')
const AOT = join(ROOT, 'boards/linux/aot')
const TRANSLATOR = join(AOT, 'translate')
const FILES = filesBelow('.').filter((path) => path.endsWith('.c'))
/** What is shipped: the runtime, and the first process of the virtual machine. */
const RUNTIME = FILES.filter((path) => /^boards\/(linux\/src|qemu-virt)\//.test(path))
const FUNCTION_LINES_MAX = 70

/** Where the engine's header is, if the board has been built or the source is at hand. */
function quickJs(): string | null {
  const named = process.env.QUICKJS_SOURCE
  if (named !== undefined && named !== '') return named
  const dist = join(ROOT, 'dist/linux')
  const found = existsSync(dist) ? readdirSync(dist) : []
  const name = found.find((one) => existsSync(join(dist, one, 'quickjs.h')))
  return name === undefined ? null : join(dist, name)
}

const QUICKJS = quickJs()
const usesEngine = (path: string): boolean =>
  readFileSync(join(ROOT, path), 'utf8').includes('#include "quickjs.h"') ||
  readFileSync(join(ROOT, path), 'utf8').includes('#include <quickjs.h>')

const folder = mkdtempSync(join(tmpdir(), 'perdure-static-'))
beforeAll(() => {
  writeFileSync(join(folder, 'hal.h'), halHeader())
  // Headers of libsodium are the same for every processor: the cross compiler may have them.
  mkdirSync(join(folder, 'sodium'))
  if (!existsSync('/usr/include/sodium.h')) return
  symlinkSync('/usr/include/sodium.h', join(folder, 'sodium/sodium.h'))
  symlinkSync('/usr/include/sodium', join(folder, 'sodium/sodium'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** `program (Debian: package)` for the first that is missing; nothing if all are there. */
function missing(...needs: readonly (readonly [program: string, debian: string])[]): string | null {
  for (const [program, debian] of needs) {
    const there = program.startsWith('/') ? existsSync(program) : isThere(program)
    if (!there) return `${program} is missing (Debian: ${debian})`
  }
  return null
}

const SODIUM = ['/usr/include/sodium.h', 'libsodium-dev'] as const
const COMPILERS = [
  { name: 'x86-64', compiler: 'gcc', lacks: missing(['gcc', 'gcc'], SODIUM) },
  {
    ...{ name: 'arm64', compiler: 'aarch64-linux-gnu-gcc' },
    lacks: missing(['aarch64-linux-gnu-gcc', 'gcc-aarch64-linux-gnu'], SODIUM),
  },
]

describe.each(COMPILERS)('the compiler', ({ name, compiler, lacks }) => {
  const because = lacks === null ? '' : `: ${lacks}`

  test.skipIf(lacks !== null)(
    `has no warning about the runtime for ${name}${because}`,
    THOROUGH,
    () => {
      const output = join(folder, `${name}.o`)
      const includes = [
        `-I${folder}`,
        '-isystem',
        join(folder, 'sodium'),
        `-I${SOURCES}`,
        `-I${AOT}`,
      ]
      const engine = QUICKJS === null ? [] : ['-isystem', QUICKJS]
      const files = RUNTIME.filter((path) => QUICKJS !== null || !usesEngine(path))
      expect(files.length).toBeGreaterThan(20)
      const builds = [['-DDROP_FLUSH=1'], []]
      for (const path of files) {
        const text = readFileSync(join(ROOT, path), 'utf8')
        for (const define of builds.slice(text.includes('DROP_FLUSH') ? 0 : 1)) {
          const flags = ['-O2', '-D_GNU_SOURCE', ...OURS, ...define, ...includes, ...engine]
          const done = spawnSync(compiler, [...flags, '-c', join(ROOT, path), '-o', output])
          expect(`${path}: ${done.status} ${done.stderr}`).toBe(`${path}: 0 `)
        }
      }
    },
  )
})

/** The engine itself is a system's header to it: of that warnings are not asked. */
test.skipIf(QUICKJS === null || missing(['gcc', 'gcc']) !== null)(
  'the translator of the firmware has no warning',
  THOROUGH,
  () => {
    const dialect = ['-std=gnu11', '-funsigned-char', '-fwrapv', '-D_GNU_SOURCE']
    const strict = OURS.filter((flag) => flag.startsWith('-W'))
    const includes = [`-I${TRANSLATOR}`, '-isystem', QUICKJS!]
    const flags = [...dialect, ...strict, '-DCONFIG_VERSION="of the test"', ...includes]
    const files = FILES.filter((path) => join(ROOT, path).startsWith(`${TRANSLATOR}/`))
    expect(files.length).toBeGreaterThan(20)
    for (const path of files) {
      const args = ['-O1', '-c', join(ROOT, path), '-o', join(folder, 'translate.o')]
      const done = spawnSync('gcc', [...flags, ...args])
      expect(`${path}: ${done.status} ${done.stderr}`).toBe(`${path}: 0 `)
    }
  },
)

const noCppcheck = missing(['cppcheck', 'cppcheck'])
const NO_CPPCHECK = noCppcheck === null ? '' : `: ${noCppcheck}`

describe('cppcheck', () => {
  /** Matters of taste, and one that it does not see: vsnprintf fills what it is given. */
  const SUPPRESSED = [
    ...['missingIncludeSystem', 'missingInclude', 'variableScope', 'redundantContinue'],
    ...['unusedFunction', 'unmatchedSuppression', `ctuuninitvar:*fault.c`],
  ]

  test.skipIf(noCppcheck !== null).each([
    ['x86-64', ['-D__x86_64__=1']],
    ['arm64, with cleans left out', ['-D__aarch64__=1', '-DDROP_FLUSH=1']],
  ] as const)(`finds nothing: %s${NO_CPPCHECK}`, (_, defines) => {
    const flags = [
      ...['--enable=warning,style,performance,portability', '--std=c11', '--quiet'],
      ...['--error-exitcode=1', '--inline-suppr', '--template=gcc'],
      ...SUPPRESSED.map((id) => `--suppress=${id}`),
    ]
    const includes = [`-I${folder}`, `-I${SOURCES}`, ...folders().map((path) => `-I${path}`)]
    const args = [...flags, ...defines, '-D_GNU_SOURCE', ...includes, ...FILES]
    const done = spawnSync('cppcheck', args, { cwd: ROOT, encoding: 'utf8' })
    expect(done.stderr + done.stdout).toBe('')
    expect(done.status).toBe(0)
  })

  function folders(): string[] {
    return [...new Set(FILES.map((path) => dirname(path)))]
  }
})

describe('the text', () => {
  test('no function is longer than a screen or two', () => {
    const long = FILES.flatMap((path) => {
      const lines = readFileSync(join(ROOT, path), 'utf8').split('\n')
      return lines.flatMap((line, at) => {
        if (!/^[a-z].*[){]$/.test(line) || !line.endsWith(') {')) return []
        const length = lines.indexOf('}', at) - at + 1
        return length > FUNCTION_LINES_MAX ? [`${path}:${at + 1}: ${length} lines`] : []
      })
    })
    expect(long).toEqual([])
  })

  test('no line is wider than the page', () => {
    const wide = filesBelow('.')
      .filter((path) => /\.[ch]$/.test(path))
      .flatMap((path) => {
        const lines = readFileSync(join(ROOT, path), 'utf8').split('\n')
        return lines.flatMap((line, at) => (line.length > 100 ? [`${path}:${at + 1}`] : []))
      })
    expect(wide).toEqual([])
  })
})
