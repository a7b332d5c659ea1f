/**
 * Exports that no other file imports.
 *
 * Invariants:
 * - A name counts as imported where an import or another export lists it, where a file that has the
 *   whole module under a name reads it from there, and where the module is handed on as a whole.
 * - The text decides, as in sources.ts: a module that is imported late counts as a whole.
 */

import { dirname, join } from 'node:path'
import { importsOf, type Source } from './sources.ts'

/** All that a module has. */
const ALL = '*'

const LISTED = /^(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s+from\s+'(\.[^']+)'/gm
const WHOLE = /^(?:import|export)\s+(?:type\s+)?\*(?:\s+as\s+(\w+))?\s+from\s+'(\.[^']+)'/gm
const DECLARED = new RegExp(
  String.raw`^export\s+(?:(?:abstract|async|declare)\s+)*` +
    String.raw`(?:const|let|function\*?|class|interface|type)\s+(\w+)`,
  'gm',
)
const PASSED_ON = /^export\s+(?:type\s+)?\{([^}]*)\}/gm

/** `path name` of every export of `sources` that none of them imports. */
export function unusedExports(sources: readonly Source[]): string[] {
  const used = new Set(sources.flatMap(usesOf))
  return sources.flatMap(({ path, code }) => {
    if (used.has(`${path} ${ALL}`)) return []
    return exportsOf(code)
      .map((name) => `${path} ${name}`)
      .filter((one) => !used.has(one))
  })
}

function exportsOf(code: string): string[] {
  const declared = [...code.matchAll(DECLARED)].map(([, name]) => name!)
  const passedOn = [...code.matchAll(PASSED_ON)].flatMap(([, list]) => namesIn(list!, 'last'))
  return [...declared, ...passedOn]
}

/** What a source has of others, as `path name`. */
function usesOf(source: Source): string[] {
  const text = plain(source.text)
  const place = (from: string): string => join(dirname(source.path), from).replaceAll('\\', '/')
  const uses: string[] = []
  for (const [, list, from] of text.matchAll(LISTED)) {
    for (const name of namesIn(list!, 'first')) uses.push(`${place(from!)} ${name}`)
  }
  for (const [, as, from] of text.matchAll(WHOLE)) {
    const names = as === undefined ? [ALL] : readFrom(source.code, as)
    for (const name of names) uses.push(`${place(from!)} ${name}`)
  }
  for (const { file, isLate } of importsOf(source)) if (isLate) uses.push(`${file} ${ALL}`)
  return uses
}

/** The names that code reads from a module that it has under the name `as`. */
function readFrom(code: string, as: string): string[] {
  const read = [...code.matchAll(new RegExp(`\\b${as}\\.(\\w+)`, 'g'))].map(([, name]) => name!)
  const isHandedOn = new RegExp(`(?<!\\bas |[.\\w])${as}\\b(?!\\s*[.:\\w])`).test(code)
  return isHandedOn ? [...read, ALL] : read
}

/** The names of a list, before their `as` or behind it. */
function namesIn(list: string, which: 'first' | 'last'): string[] {
  return list.split(',').flatMap((one) => {
    const names = one
      .trim()
      .replace(/^type\s+/, '')
      .split(/\s+as\s+/)
    const name = which === 'first' ? names[0]! : names.at(-1)!
    return name === '' ? [] : [name]
  })
}

function plain(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
}
