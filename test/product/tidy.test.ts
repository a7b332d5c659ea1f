/**
 * The style of this repository, as far as a program can hold it.
 *
 * These tests read the sources as text. They know formatted code, and the first of them makes sure
 * that the code is formatted.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { circlesOf, importsBetween } from '../structure/text.ts'
import { THOROUGH } from '../support/run/thorough.ts'
import { unusedExports } from '../support/source/exports.ts'
import {
  filesBelow,
  functionsOf,
  importsOf,
  ROOT,
  type Source,
  sourcesBelow,
} from '../support/source/sources.ts'
import { inTypes, slicesBelow } from '../support/source/types.ts'

const SOURCES = sourcesBelow('.')
const FIRMWARE = SOURCES.filter((source) => source.path.startsWith('firmware/'))
const PRODUCT = SOURCES.filter(({ path }) => /^(firmware|boards|host-driver)\//.test(path))

const COLUMNS_MAX = 100
const FUNCTION_LINES_MAX = 70
const FOLDER_FILES_MAX = 20

interface Manifest {
  name: string
  dependencies: Record<string, string>
  optionalDependencies: Record<string, string>
  devDependencies: Record<string, string>
}

const readJson = (path: string): unknown => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
const MANIFEST = readJson('package.json') as Manifest

function node(...args: string[]): { status: number | null; output: string } {
  const done = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8' })
  return { status: done.status, output: done.stdout + done.stderr }
}

/** `path:line: text` of every line of code that matches. */
function uses(sources: readonly Source[], what: RegExp): string[] {
  return sources.flatMap(({ path, text, code }) => {
    const lines = text.split('\n')
    return code
      .split('\n')
      .flatMap((line, at) => (what.test(line) ? [`${path}:${at + 1}: ${lines[at]!.trim()}`] : []))
  })
}

describe('what tools say', () => {
  test('the sources compile in every project and the linter finds nothing', THOROUGH, () => {
    const { status, output } = node('build.mjs', 'check', 'sources')
    expect(status, output).toBe(0)
  })

  test('firmware that uses Node or a browser does not compile', () => {
    const folder = mkdtempSync(join(tmpdir(), 'perdure-tidy-'))
    const forbidden: Record<string, string> = {
      console: 'console.log(1)',
      process: 'process.exit(1)',
      setTimeout: 'setTimeout(String, 1)',
      TextEncoder: 'new TextEncoder()',
      'node-fs': "export { readFileSync } from 'node:fs'",
    }
    try {
      const extend = JSON.stringify(join(ROOT, 'firmware/tsconfig.json'))
      writeFileSync(join(folder, 'tsconfig.json'), `{ "extends": ${extend}, "include": ["."] }`)
      writeFileSync(join(folder, 'allowed.ts'), 'export const view: Uint8Array = new Uint8Array(8)')
      for (const [name, text] of Object.entries(forbidden)) {
        writeFileSync(join(folder, `${name}.ts`), `export {}\n${text}\n`)
      }
      const { status, output } = node('node_modules/typescript/bin/tsc', '-p', folder)
      expect(status).not.toBe(0)
      for (const name of Object.keys(forbidden)) expect(output).toContain(`${name}.ts(2,`)
      expect(output).not.toContain('allowed.ts')
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

/**
 * Who stands before whom: a file imports its own place and those before it, types included. The
 * place of a file is the longest of these that its path begins with; `a/*` are the files of a
 * folder, without its folders.
 */
const ORDER = [
  ...['firmware/board/', 'firmware/wire/', 'firmware/medium/', 'firmware/commit/'],
  ...['firmware/transport/', 'firmware/session/', 'firmware/batch/', 'firmware/residency/'],
  'firmware/host/',
  ...['firmware/burst/', 'firmware/engine/', 'firmware/placement/', 'firmware/status/'],
  ...['firmware/respond/', 'firmware/connect/', 'firmware/queues/', 'firmware/manage/'],
  ...['firmware/core.ts', 'firmware/main.ts'],

  ...['boards/*', 'boards/software/', 'boards/flash/', 'boards/port/', 'boards/emulator/base/'],
  ...['boards/emulator/medium/', 'boards/emulator/host/', 'boards/emulator/network/'],
  ...['boards/emulator/trace/', 'boards/emulator/run/', 'boards/emulator/*'],
  ...['boards/tools/bundle/', 'boards/tools/debian/', 'boards/tools/manual/', 'boards/linux/'],
  'boards/tools/bluefield/',
  ...['boards/bluefield2/', 'boards/bluefield3/', 'boards/qemu-virt/'],

  ...['host-driver/base/', 'host-driver/control/', 'host-driver/flash/', 'host-driver/way/'],
  ...['host-driver/verbs/', 'host-driver/status/', 'host-driver/link/', 'host-driver/bytes/'],
  ...['host-driver/frames/', 'host-driver/target/', 'host-driver/card/', 'host-driver/records/'],
  ...['host-driver/local.ts', 'host-driver/dpu.ts', 'host-driver/connect.ts'],
  ...['host-driver/index.ts', 'host-driver/command/', 'host-driver/examples/'],
]

/**
 * Those who judge a medium or a frame. They read both by code of their own: a mistake that the
 * product makes when it writes and when it reads would cancel itself out in them (E7).
 */
const JUDGES = [
  'test/evidence/host/judge.ts',
  'test/evidence/simulate/frames.ts',
  'test/evidence/simulate/judge.ts',
  'test/evidence/simulate/medium.ts',
  'test/evidence/simulate/operation.ts',
  'test/evidence/simulate/register.ts',
  'test/evidence/simulate/relays/links.ts',
  'test/evidence/simulate/relays/names.ts',
  'test/kill/judge.ts',
  'test/kill/ledger.ts',
  'test/support/judges/acknowledgement.ts',
  'test/support/judges/case-table.ts',
  'test/support/crash/classes.ts',
  'test/support/crash/judge.ts',
  'test/support/judges/kept-copy.ts',
  'test/support/judges/known.ts',
  'test/support/judges/oracle.ts',
  'test/support/judges/psn-ends.ts',
  'test/support/judges/crc32c.ts',
  'test/support/judges/sip-hash.ts',
]

/** The place of a file in the order, or -1. */
function placeOf(path: string): number {
  const beside = `${dirname(path)}/*`
  const fits = ORDER.filter((one) => one === beside || path.startsWith(one))
  return ORDER.indexOf(fits.sort((a, b) => a.length - b.length).at(-1) ?? '')
}

/** Every import of something that stands later in the order, or nowhere in it. */
function againstOrder(sources: readonly Source[]): string[] {
  return sources.flatMap((source) => {
    const place = placeOf(source.path)
    return importsOf(source)
      .filter(({ file }) => file !== null)
      .filter(({ file }) => place < 0 || placeOf(file!) < 0 || placeOf(file!) > place)
      .map(({ from }) => `${source.path} imports ${from}`)
  })
}

/** A source that imports the type of another one. */
function importer(path: string, from: string): Source {
  const text = `import type { T } from '${from}'\n`
  return { path, text, code: text }
}

describe('who may import whom', () => {
  test('each place imports only itself and what stands before it', () => {
    expect(againstOrder(PRODUCT)).toEqual([])
    const places = new Set(PRODUCT.map(({ path }) => ORDER[placeOf(path)]))
    expect(ORDER.filter((place) => !places.has(place))).toEqual([])
    const wrong = [
      importer('firmware/respond/a.ts', '../connect/b.ts'),
      importer('firmware/board/limits.ts', '../wire/bytes.ts'),
      importer('firmware/manage/a.ts', '../core.ts'),
      importer('firmware/core.ts', './elsewhere/a.ts'),
      importer('boards/flash/a.ts', '../../host-driver/index.ts'),
      importer('host-driver/link/a.ts', '../frames/b.ts'),
      importer('host-driver/elsewhere/a.ts', '../base/b.ts'),
    ]
    expect(againstOrder(wrong)).toHaveLength(wrong.length)
    expect(againstOrder([importer('firmware/connect/b.ts', '../respond/a.ts')])).toEqual([])
  })

  test('firmware imports no package', () => {
    const packages = FIRMWARE.flatMap(importsOf).filter(({ file }) => file === null)
    expect(packages).toEqual([])
  })

  test('R1-E7: judges have nothing of the product, nor has what they are made of', () => {
    const wrong = JUDGES.flatMap((path) => {
      const judge = SOURCES.find((source) => source.path === path)
      if (judge === undefined) return [`${path} is not there`]
      // Over the driver a judge asks a card: there it is a client like any other.
      return importsOf(judge)
        .filter(({ file, types }) => !types && file !== null && !JUDGES.includes(file))
        .filter(({ file }) => !file!.startsWith('host-driver/'))
        .map(({ from }) => `${path} imports ${from}`)
    })
    expect(wrong).toEqual([])
  })

  test('the whole state is seen by core.ts and main.ts alone', () => {
    const seen = FIRMWARE.filter(({ code }) => /\bState\b/.test(code)).map(({ path }) => path)
    expect(seen).toEqual(['firmware/core.ts', 'firmware/main.ts'])
  })
})

describe('who needs whom, types included', () => {
  test('no file needs itself in a circle, of the product or of its tests', () => {
    expect(circlesOf(importsBetween(SOURCES))).toEqual([])
    const circle = [importer('firmware/a.ts', './b.ts'), importer('firmware/b.ts', './a.ts')]
    expect(circlesOf(importsBetween(circle))).toHaveLength(1)
  })
})

/**
 * What the library of the host driver may import of the boards, and where: what both ends of a
 * port, a frame or a medium agree on, anywhere; the formats of flashing where a card is flashed;
 * the emulator where a card is started in this process.
 */
const OF_BOARDS: readonly (readonly [what: RegExp, where: RegExp])[] = [
  [/^boards\/(clock|host-port|kinds)\.ts$|^boards\/(port|software)\//, /^host-driver\//],
  [/^boards\/flash\//, /^host-driver\/flash\//],
  [/^boards\/emulator\//, /^host-driver\/local\.ts$/],
]

/**
 * What is used from outside of the sources: packages, bundles, what a bundler puts in them, and
 * what programs that tests write import.
 */
const ENTRIES = [
  'host-driver/index.ts',
  'boards/emulator/index.ts',
  'firmware/main.ts',
  'boards/linux/boot/script/main.ts',
  'boards/linux/boot/script/globals.ts',
  'boards/linux/boot/script/node-crypto.ts',
  'boards/linux/boot/script/node-zlib.ts',
  'test/evidence/coverage/guest/guest-shim.ts',
  'test/evidence/mutants/drawn/plays.ts',
  'test/evidence/mutants/killer.ts',
]

/** One of these is imported by each program that plays a mutant. */
const KILLERS = 'test/evidence/mutants/killers/'

describe('what nobody uses', () => {
  test('everything that a file exports is imported somewhere', () => {
    const unused = unusedExports(SOURCES).filter((one) => {
      return !one.startsWith(KILLERS) && !ENTRIES.includes(one.split(' ')[0]!)
    })
    expect(unused).toEqual([])
  })

  test('a name counts as imported however it is', () => {
    const source = (path: string, text: string): Source => ({ path, text, code: text })
    const names = ['listed', 'renamed', 'read', 'unused', 'Alone']
    const sources = [
      source('a.ts', names.map((name) => `export const ${name}: number = 1`).join('\n')),
      source('b.ts', 'export function late(): void {}'),
      source('c.ts', "export class Whole {}\nexport type { Alone } from './a.ts'"),
      source('d.ts', "import { listed, renamed as other } from './a.ts'\nimport './c.ts'"),
      source('e.ts', "import * as a from './a.ts'\na.read\nawait import('./b.ts')"),
      source('f.ts', "import * as c from './c.ts'\nlook(c)"),
    ]
    expect(unusedExports(sources)).toEqual(['a.ts unused'])
  })
})

describe('the command stands apart from the library', () => {
  const library = SOURCES.filter(({ path }) => /^host-driver\/(?!command\/)/.test(path))
  const importsWhere = (isWrong: (file: string, path: string) => boolean): string[] =>
    library.flatMap((source) =>
      importsOf(source)
        .filter(({ file }) => file !== null && isWrong(file, source.path))
        .map(({ from }) => `${source.path} imports ${from}`),
    )

  test('of the boards it has what is shared, and the emulator in one file', () => {
    const isMeant = (file: string, path: string): boolean =>
      OF_BOARDS.some(([what, where]) => what.test(file) && where.test(path))
    const wrong = importsWhere((file, path) => file.startsWith('boards/') && !isMeant(file, path))
    expect(wrong).toEqual([])
  })
})

/** What a user of the package copies, and begins with. */
const EXAMPLES = 'host-driver/examples/'

describe('the examples stand outside of the package', () => {
  test('they import it by its name, and each other, and nothing else of the sources', () => {
    const examples = SOURCES.filter(({ path }) => path.startsWith(EXAMPLES))
    expect(examples.length).toBeGreaterThan(5)
    const isMeant = ({ from, file }: { from: string; file: string | null }): boolean =>
      file?.startsWith(EXAMPLES) ?? /^(perdure(\/emulator)?$|node:)/.test(from)
    const wrong = (source: Source): boolean => !importsOf(source).every(isMeant)
    expect(examples.filter(wrong).map(({ path }) => path)).toEqual([])
    expect(wrong(importer(`${EXAMPLES}a/b.mjs`, '../../index.ts'))).toBe(true)
    expect(wrong(importer(`${EXAMPLES}a/b.mjs`, 'vitest'))).toBe(true)
    expect(wrong(importer(`${EXAMPLES}a/b.mjs`, '../replace.mjs'))).toBe(false)
  })
})

/** Folders with more files of code beside each other than anybody overlooks. */
function fullFolders(paths: readonly string[]): string[] {
  const counts = new Map<string, number>()
  for (const path of paths) {
    if (!/\.(ts|mts|mjs|cjs|c|h)$/.test(path)) continue
    const folder = dirname(path)
    counts.set(folder, (counts.get(folder) ?? 0) + 1)
  }
  return [...counts].filter(([, count]) => count > FOLDER_FILES_MAX).map(([folder]) => folder)
}

describe('where the code lies', () => {
  test(`no folder has more than ${FOLDER_FILES_MAX} files of code, except the headers`, () => {
    expect(fullFolders(filesBelow('.'))).toEqual(['firmware/wire'])
    const many = Array.from({ length: FOLDER_FILES_MAX + 1 }, (_, i) => `a/${i}.c`)
    expect(fullFolders([...many, 'a/b/1.ts', 'b/1.md'])).toEqual(['a'])
    expect(fullFolders(many.slice(1))).toEqual([])
  })
})

describe('how the code looks', () => {
  test(`no line is longer than ${COLUMNS_MAX} columns`, () => {
    const long = SOURCES.flatMap(({ path, text }) =>
      text
        .split('\n')
        .flatMap((line, at) => ([...line].length > COLUMNS_MAX ? [`${path}:${at + 1}`] : [])),
    )
    expect(long).toEqual([])
  })

  test(`no function is longer than ${FUNCTION_LINES_MAX} lines`, () => {
    const long = SOURCES.flatMap(({ path, code }) =>
      functionsOf(code)
        .filter(({ name }) => !name.startsWith('describe'))
        .filter(({ first, last }) => last - first + 1 > FUNCTION_LINES_MAX)
        .map(({ first, last, name }) => `${path}:${first + 1} ${name}: ${last - first + 1} lines`),
    )
    expect(long).toEqual([])
  })

  test('the measure of a function is right', () => {
    const spans = functionsOf(
      [
        'export function one(a: number): void {',
        '  if (a) {',
        '    b()',
        '  }',
        '}',
        'function two(',
        '  a: number,',
        '): void {',
        '  call(1)',
        '}',
        'class Three {',
        '  async four(): Promise<void> {',
        '    for (;;) {',
        '    }',
        '  }',
        '}',
        "test('', () => {",
        '  five()',
        '})',
      ].join('\n'),
    )
    expect(spans.map(({ first, last }) => [first, last])).toEqual([
      [0, 4],
      [5, 9],
      [11, 14],
      [16, 18],
    ])
  })

  test('no two top-level functions of the firmware share a name', () => {
    expect(sharedNames(FIRMWARE)).toEqual([])
    const one = { path: 'a.ts', text: '', code: 'export function same(): void {}' }
    const other = { path: 'b.ts', text: '', code: 'const same = blank()\nconst SAME = 1' }
    expect(sharedNames([one, { ...other, code: other.code.toUpperCase() }])).toEqual([])
    expect(sharedNames([one, other])).toEqual(['same: a.ts, b.ts'])
  })

  test('nothing is left to be done later', () => {
    const marks = /\b(?:TO.?DO|FIX.?ME|XX.?X)\b/
    const left = SOURCES.flatMap(({ path, text }) => (marks.test(text) ? [path] : []))
    expect(left).toEqual([])
  })
})

/**
 * Names of functions and of records that stand at the top of more than one file. A bundle has them
 * side by side: it renames the second one, and what is known by name of functions is lost.
 */
function sharedNames(sources: readonly Source[]): string[] {
  const declared = /^(?:export )?(?:function\*?|const|let) ([a-z]\w*)/gm
  const paths = new Map<string, string[]>()
  for (const { path, code } of sources) {
    for (const [, name] of code.matchAll(declared)) {
      paths.set(name!, [...(paths.get(name!) ?? []), path])
    }
  }
  const shared = [...paths].filter(([, where]) => where.length > 1)
  return shared.map(([name, where]) => `${name}: ${where.join(', ')}`)
}

describe('what the host driver keeps', () => {
  test('nothing of it slices bytes: of a Buffer that is a view, and copyOf copies', () => {
    const slices = inTypes((types) => slicesBelow(types, 'host-driver/'))
    expect(slices.filter(({ isBytes }) => isBytes).map(({ place }) => place)).toEqual([])
    // Strings and arrays are told apart, or nothing would be.
    expect(slices.length).toBeGreaterThan(10)
  })
})

describe('what the firmware leaves alone', () => {
  test('the firmware has no clock, no dice, no console and no threads', () => {
    const foreign = /\b(?:Date|console|process|setTimeout|performance|TextEncoder|Atomics)\b/
    expect(uses(FIRMWARE, foreign)).toEqual([])
    expect(uses(FIRMWARE, /\bMath\.random\b/)).toEqual([])
  })

  test('no buffer is moved or resized: the board shares its memory', () => {
    expect(uses(FIRMWARE, /\.(?:transfer|transferToFixedLength|resize)\(/)).toEqual([])
  })

  test('the packet path is marked hot', () => {
    const hot = FIRMWARE.filter(isHot).map(({ path }) => path)
    expect(hot).toContain('firmware/core.ts')
    expect(hot).toContain('firmware/wire/packet.ts')
    expect(hot).toContain('firmware/transport/responder.ts')
    expect(hot).toContain('firmware/commit/commit.ts')
  })

  test('no function of a hot file allocates by the way', () => {
    const costly = new RegExp(
      [
        String.raw`\.subarray\(`,
        String.raw`\bfor \(.* of `,
        '=>',
        '`',
        String.raw`\.\.\.`,
        String.raw`\b(?:const|let) \[`,
        String.raw`\bnew DataView\b`,
        String.raw`\b\d+n\b`,
      ].join('|'),
    )
    expect(uses(FIRMWARE.filter(isHot).map(functionsOnly), costly)).toEqual([])
  })
})

/** A hot file says so on a line of its own, near its top. */
function isHot({ text }: Source): boolean {
  return text.split('\n').slice(0, 40).includes('// hot path')
}

/** The same source with everything outside of functions blanked: what runs once may allocate. */
function functionsOnly(source: Source): Source {
  const spans = functionsOf(source.code)
  const lines = source.code.split('\n')
  const inside = (at: number): boolean => spans.some(({ first, last }) => at >= first && at <= last)
  return { ...source, code: lines.map((line, at) => (inside(at) ? line : '')).join('\n') }
}

describe('what the package depends on', () => {
  test('every version is exact, and the lock names the same ones', () => {
    const lock = readJson('package-lock.json') as { packages: Record<string, Manifest> }
    for (const kind of ['dependencies', 'optionalDependencies', 'devDependencies'] as const) {
      for (const [name, version] of Object.entries(MANIFEST[kind])) {
        expect(version, name).toMatch(/^\d+\.\d+\.\d+$/)
      }
      expect(lock.packages['']![kind]).toEqual(MANIFEST[kind])
    }
  })

  test('every dependency is used, and everything used is a dependency', () => {
    const packageOf = (from: string): string =>
      from
        .split('/')
        .slice(0, from.startsWith('@') ? 2 : 1)
        .join('/')
    const used = { product: new Set<string>(), work: new Set<string>() }
    for (const source of SOURCES) {
      // The passes over bundles work where products are built, and are in none; a page for browsers
      // is bundled with what it needs.
      const isBundled = source.path.startsWith('host-driver/command/monitor/page/')
      const kind =
        /^(host-driver|boards\/(?!tools\/bundle\/))/.test(source.path) && !isBundled
          ? 'product'
          : 'work'
      for (const { from, file } of importsOf(source)) {
        if (file !== null || from.startsWith('node:')) continue
        // A program of the reader's own, as the README has one, names the package by its name, and
        // so do the examples.
        const isOfReader = !source.path.includes('/') || source.path.startsWith(EXAMPLES)
        const isOwn = packageOf(from) === MANIFEST.name && isOfReader
        if (!isOwn) used[kind].add(packageOf(from))
      }
    }
    const needed = { ...MANIFEST.dependencies, ...MANIFEST.optionalDependencies }
    expect([...used.product].sort()).toEqual(Object.keys(needed).sort())

    // One is run by build.mjs as a command, and one is named by tsconfig.json.
    const named = ['@biomejs/biome', '@types/node']
    const work = [...used.work].filter((name) => !(name in needed))
    expect([...work, ...named].sort()).toEqual(Object.keys(MANIFEST.devDependencies).sort())
  })

  test('no file names a folder of one machine or a package server', () => {
    const texts = filesBelow('.').filter((path) => !/\.(pcap|pcapng|bin|nvdimm|tgz)$/.test(path))
    const machine = /(?:^|[\s'"`(=])\/(?:home|root|Users|work)\//m
    const server = /https?:\/\/[^\s'"]*(?:registry|artifactory|nexus|verdaccio|mirror)/i
    const wrong = texts.filter((path) => {
      // A file that somebody lists may be gone when it is read.
      if (!existsSync(join(ROOT, path))) return false
      const text = readFileSync(join(ROOT, path), 'utf8')
      return machine.test(text) || server.test(text) || text.includes('"resolved":')
    })
    expect(wrong.filter((path) => path !== 'test/product/tidy.test.ts')).toEqual([])
  })
})
