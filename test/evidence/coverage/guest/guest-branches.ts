/**
 * The firmware with a mark at every branch, the same for Node and for QuickJS.
 *
 * Invariant: a branch has one number wherever the firmware runs. The marks are those of
 * the usual instrumenter, put into the sources before their types are taken away; only what a mark
 * does is another: `__hits[n] || __hit(n)`, so that the first time costs a call, and any other
 * little. Counts of statements and functions are left out.
 */

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, type Plugin, transform } from 'esbuild'
import { createInstrumenter } from 'istanbul-lib-instrument'
import { filesBelow, ROOT } from '../../../support/source/sources.ts'

/** An arm of a branch. */
export interface Branch {
  /** Path from the root. */
  readonly file: string
  readonly line: number
  readonly column: number
  /** 'if', 'binary-expr', 'cond-expr', 'switch', 'default-arg'. */
  readonly kind: string
  readonly arm: number
}

interface MarkedFile {
  readonly path: string
  /** JavaScript. */
  readonly code: string
}

export interface MarkedFirmware {
  readonly branches: readonly Branch[]
  /** By path from the root. */
  readonly files: ReadonlyMap<string, MarkedFile>
}

const KEPT = 'marked.json'

interface Kept {
  readonly branches: readonly Branch[]
  readonly files: readonly MarkedFile[]
}

/** The sources of the firmware in the order of their paths: it decides the numbers. */
const PATHS: () => string[] = () => filesBelow('firmware').filter((path) => path.endsWith('.ts'))

/** What `keepMarked` has put into a folder, or the same made again. */
export async function markedIn(folder: string): Promise<MarkedFirmware> {
  const path = join(folder, KEPT)
  if (!existsSync(path)) return markFirmware()
  const { branches, files } = JSON.parse(readFileSync(path, 'utf8')) as Kept
  return { branches, files: new Map(files.map((file) => [file.path, file])) }
}

/** Lets another process have it: to mark takes seconds. */
export function keepMarked(folder: string, { branches, files }: MarkedFirmware): void {
  mkdirSync(folder, { recursive: true })
  const kept: Kept = { branches, files: [...files.values()] }
  writeFileSync(join(folder, KEPT), JSON.stringify(kept))
}

/** Marks every branch of every file. */
export async function markFirmware(): Promise<MarkedFirmware> {
  const branches: Branch[] = []
  const files = new Map<string, MarkedFile>()
  for (const path of PATHS()) {
    const marked = mark(path, readFileSync(join(ROOT, path), 'utf8'), branches)
    const { code } = await transform(marked, { loader: 'ts', target: 'es2023' })
    files.set(path, { path, code })
  }
  return { branches, files }
}

/** The text of one file with its marks, types and all; adds its branches. */
function mark(path: string, text: string, branches: Branch[]): string {
  const instrumenter = createInstrumenter({
    esModules: true,
    compact: false,
    parserPlugins: ['typescript'],
  })
  const instrumented = instrumenter.instrumentSync(text, path)
  const first: number[] = []
  for (const [number, places] of Object.entries(instrumenter.lastFileCoverage().branchMap)) {
    first[Number(number)] = branches.length
    places.locations.forEach(({ start }, arm) => {
      // An `else` that is not written stands where its `if` does.
      const { line = 0, column = 0 } = start.line === undefined ? places.loc.start : start
      branches.push({ file: path, line, column, kind: places.type, arm })
    })
  }
  // In front stands the table of all places, as a function that is called once.
  const end = /^(cov_\w+)\(\);$/m.exec(instrumented)
  if (end === null) throw new Error(`${path}: the instrumenter writes another form`)
  const name = end[1]!
  const body = instrumented.slice(end.index + end[0].length)
  const flat = body
    .replaceAll(new RegExp(String.raw`${name}\(\)\.[sf]\[\d+\]\+\+(?:;|, )`, 'g'), '')
    .replaceAll(new RegExp(String.raw`${name}\(\)\.b\[(\d+)\]\[(\d+)\]\+\+`, 'g'), (_, b, arm) => {
      const branch = first[Number(b)]! + Number(arm)
      return `(__hits[${branch}] || __hit(${branch}))`
    })
  if (flat.includes(name)) throw new Error(`${path}: a mark is in another form`)
  return `declare const __hits: Uint8Array; declare function __hit(branch: number): void;${flat}`
}

/** Gives a bundle the marked sources in the place of the others. */
export function markedSources({ files }: MarkedFirmware): Plugin {
  return {
    name: 'marked',
    setup(made) {
      made.onLoad({ filter: /[\\/]firmware[\\/].*\.ts$/ }, ({ path }) => {
        const file = files.get(path.slice(ROOT.length + 1).replaceAll('\\', '/'))
        return file === undefined ? null : { contents: file.code, loader: 'js' }
      })
    },
  }
}

/** What the marks write to, for a guest. */
export function marksOf({ branches }: MarkedFirmware): string {
  return `var __hits = new Uint8Array(${branches.length})
function __hit(branch) { __hits[branch] = 1 }
`
}

interface MarkedBundle {
  /** For QuickJS: what it marks is in the global `__hits`. */
  readonly source: string
  /** Paths of the files that a card gets, from the root. */
  readonly files: ReadonlySet<string>
}

export async function bundleMarked(marked: MarkedFirmware): Promise<MarkedBundle> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: ROOT,
    entryPoints: ['firmware/main.ts'],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'neutral',
    target: 'es2023',
    format: 'iife',
    globalName: 'perdure',
    charset: 'utf8',
    legalComments: 'none',
    logLevel: 'error',
    plugins: [markedSources(marked)],
  })
  const files = new Set(Object.keys(metafile.inputs))
  return { source: marksOf(marked) + outputFiles[0]!.text, files }
}
