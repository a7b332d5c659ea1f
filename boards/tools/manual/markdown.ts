/**
 * A page of the documentation as pieces of a page of the manual, so that what is said twice is
 * written once.
 *
 * It knows what our pages use: paragraphs, lists, tables, fenced and indented blocks. Of a link its
 * text stays; a table and a list of terms become terms with their meanings.
 */

import type { Block } from './roff.ts'

/** The lines below the heading with that text, up to the next of its rank. Throws without one. */
export function below(page: string, heading: string): string {
  const lines = page.split('\n')
  const at = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading)
  if (at < 0) throw new Error(`no heading is called ${heading}`)
  const rank = lines[at]!.indexOf(' ')
  const rest = lines.slice(at + 1)
  const end = rest.findIndex((line) => /^#+ /.test(line) && line.indexOf(' ') <= rank)
  return (end < 0 ? rest : rest.slice(0, end)).join('\n')
}

/** A text without what leads elsewhere; what is installed is called without npx. */
function told(text: string): string {
  return text
    .replaceAll(/ \(\[[^\]]*\]\([^)]*\)\)/g, '')
    .replaceAll('npx perdure', 'perdure')
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/\*\*([^*]+)\*\*/g, '$1')
    .replaceAll('\\|', '|')
}

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/)
    .map((cell) => told(cell.trim()))
}

/** A table: the first cell is the term; a cell under `default` is called so. */
function tableBlock(lines: readonly string[]): Block {
  const [, ...heads] = cellsOf(lines[0]!)
  const rows = lines.slice(2).map((line) => {
    const [term, ...cells] = cellsOf(line)
    const words = cells.flatMap((cell, i) => {
      if (cell === '') return []
      return [heads[i] === 'default' && cell.startsWith('`') ? `${cell} by default` : cell]
    })
    return [term!.replaceAll('`', ''), words.join('; ')] as const
  })
  return { rows }
}

/** Entries that begin with code and a colon are terms. */
function listBlocks(lines: readonly string[]): Block[] {
  const entries = lines.join('\n').split(/^- /m).slice(1)
  return entries.map((entry) => {
    const text = told(entry.replaceAll(/\s+/g, ' ').trim())
    const [, term, words] = /^((?:`[^`]+`(?:, )?)+): (.*)$/.exec(text) ?? []
    return term === undefined
      ? { item: text }
      : { rows: [[term.replaceAll('`', ''), words!] as const] }
  })
}

function exampleOf(lines: readonly string[]): Block[] {
  return [{ example: lines.map((line) => line.replaceAll('npx perdure', 'perdure')) }]
}

function blocksOf(lines: readonly string[]): Block[] {
  const [first] = lines
  if (first === undefined || first.startsWith('[') || first.startsWith('# ')) return []
  if (first.startsWith('#')) return [{ heading: first.replace(/^#+ /, '') }]
  if (first.startsWith('|')) return [tableBlock(lines)]
  if (first.startsWith('- ')) return listBlocks(lines)
  if (first.startsWith('```')) return exampleOf(lines.slice(1, -1))
  if (first.startsWith('    ')) return exampleOf(lines.map((line) => line.slice(4)))
  return [{ paragraph: told(lines.join(' ')) }]
}

/** What a page, or a part of one, says. A line of links alone, and its title, are left out. */
export function blocksOfPage(text: string): Block[] {
  return text.split(/\n{2,}/).flatMap((piece) => {
    return blocksOf(piece.split('\n').filter((line) => line !== ''))
  })
}
