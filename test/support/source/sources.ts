/**
 * The repository's own text, for tests that hold its style.
 *
 * Formatted code is what makes this simple: a block ends where a brace stands at the indentation
 * of the line that opened it. `code` is the text with comments and the contents of strings blanked
 * out, line for line, so that a word in a sentence is not taken for a use.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The folder of the repository, from its sources and from a bundle of them alike. */
export const ROOT: string = above(dirname(fileURLToPath(import.meta.url)))

function above(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : above(dirname(folder))
}

/** Folders that are made, not written: git's own, and those that it is to ignore. */
const MADE = new Set(['.git/', ...readFileSync(join(ROOT, '.gitignore'), 'utf8').split('\n')])

export interface Source {
  /** Path from the root, with slashes. */
  readonly path: string
  readonly text: string
  readonly code: string
}

/** Paths of all files below `folder`, relative to the root, in order. */
export function filesBelow(folder: string): string[] {
  const found: string[] = []
  for (const entry of readdirSync(join(ROOT, folder), { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (MADE.has(`${entry.name}/`) || MADE.has(`/${path}/`)) continue
    if (entry.isDirectory()) found.push(...filesBelow(path))
    else if (entry.isFile()) found.push(path.replaceAll('\\', '/'))
  }
  return found.sort()
}

/** The TypeScript and JavaScript that people wrote, below `folder`. */
export function sourcesBelow(folder: string): Source[] {
  return filesBelow(folder)
    .filter((path) => /\.(ts|mjs)$/.test(path))
    .map((path) => {
      const text = readFileSync(join(ROOT, path), 'utf8')
      return { path, text, code: codeOf(text) }
    })
}

/** What is not code; a template inside another is not told apart. */
const PIECES = new RegExp(
  [
    String.raw`\/\*[\s\S]*?\*\/`,
    String.raw`\/\/[^\n]*`,
    String.raw`'(?:\\.|[^'\\\n])*'`,
    String.raw`"(?:\\.|[^"\\\n])*"`,
    '`(?:\\\\[\\s\\S]|[^`\\\\])*`',
    // A regular expression, told from a division by what stands before it.
    String.raw`(?<=(?:^|[(,=:[!&|?{};]|return|=>)\s*)` +
      String.raw`\/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+\/[a-z]*`,
  ].join('|'),
  'gm',
)

/** `text` with comments and the insides of quotes made blank; lines keep their place. */
function codeOf(text: string): string {
  return text.replace(PIECES, (piece) => {
    const inner = piece.replace(/[^\n]/g, ' ')
    if (piece[0] === '/') return inner
    return piece[0] + inner.slice(1, -1) + piece[0]
  })
}

interface Span {
  /** Index of the first line and of the last. */
  readonly first: number
  readonly last: number
  readonly name: string
}

const FUNCTION = /^\s*(?:export )?(?:default )?(?:async )?function\b\*?\s*([\w$]*)/
const METHOD = new RegExp(
  String.raw`^\s+(?:(?:static|async|get|set|override|private|protected|public) )*` +
    String.raw`(?:\*\s*)?([\w$#]+|\[[^\]]+\])(?:<.*>)?\(`,
)
const NOT_METHODS = new Set(['if', 'for', 'while', 'switch', 'catch', 'with', 'return', 'await'])
const ARROW = /=>\s*\{$/

/** Every function, method and multi-line arrow function of formatted code. */
export function functionsOf(code: string): Span[] {
  const lines = code.split('\n')
  const spans: Span[] = []
  for (let first = 0; first < lines.length; first++) {
    const line = lines[first]!
    const name = nameOf(line)
    if (name === null) continue
    const indent = line.length - line.trimStart().length
    const last = closing(lines, first, indent, ARROW.test(line))
    if (last > first) spans.push({ first, last, name })
  }
  return spans
}

function nameOf(line: string): string | null {
  if (ARROW.test(line)) return line.trim()
  const named = FUNCTION.exec(line)
  if (named !== null) return named[1]!
  const method = METHOD.exec(line)?.[1]
  return method === undefined || NOT_METHODS.has(method) ? null : method
}

/** The line that closes what `first` opens; -1 when it has no body (a call, a signature). */
function closing(lines: string[], first: number, indent: number, arrow: boolean): number {
  let open = lines[first]!.endsWith('{')
  for (let at = first + 1; at < lines.length; at++) {
    const line = lines[at]!
    if (line.trim() === '' || line.length - line.trimStart().length > indent) continue
    if (line.length - line.trimStart().length < indent) return -1
    if (open && line.trim().startsWith('}') && !line.endsWith('{')) return at
    // The end of parameters that take several lines: `): Fault {`.
    if (!open && /^[)}].*\{$/.test(line.trim())) open = true
    else if (!arrow) return -1
  }
  return -1
}

interface Import {
  /** What stands between the quotes. */
  readonly from: string
  /** True when only types are taken. */
  readonly types: boolean
  /** True where it is imported as it is needed, by a call. */
  readonly isLate: boolean
  /** The file from the root, for a relative import; null for a package. */
  readonly file: string | null
}

const IMPORT = /^(?:import|export)\s+(type\s)?(?:([\w*{][^'"]*?)\s+from\s+)?['"]([^'"]+)['"]/gm
const LATE_IMPORT = /\bimport\(\s*['"]([^'"]+)['"]\s*\)/g

/** Everything that `source` imports or exports again, late imports included. */
export function importsOf(source: Source): Import[] {
  const text = source.text.replace(/\/\*[\s\S]*?\*\//g, '')
  const found: Import[] = []
  const add = (from: string, types: boolean, isLate: boolean): void => {
    const file = from.startsWith('.')
      ? relative(ROOT, join(ROOT, dirname(source.path), from)).replaceAll('\\', '/')
      : null
    found.push({ from, types, isLate, file })
  }
  for (const [, type, names, from] of text.matchAll(IMPORT)) {
    add(from!, type !== undefined || onlyTypes(names ?? ''), false)
  }
  for (const [, from] of text.matchAll(LATE_IMPORT)) add(from!, false, true)
  return found
}

function onlyTypes(names: string): boolean {
  const list = /^\{([\s\S]*)\}$/.exec(names.trim())?.[1]
  if (list === undefined) return false
  const words = list.split(',').map((name) => name.trim())
  return words.every((name) => name === '' || name.startsWith('type '))
}
