/**
 * Tables and fenced blocks of a page, read and written.
 *
 * Invariant: what is not written again stays as it was, to the byte. A cell is the text
 * between two bars; a bar in it is written `\\|`.
 */

/** A row of a page, as cells. */
export type Row = readonly string[]

/** Where a table stands: lines of the page, from its head to behind its last row. */
interface Place {
  readonly from: number
  readonly end: number
}

/** The table whose head begins with that text. Throws where the page has none. */
function placeOf(lines: readonly string[], head: string): Place {
  const from = lines.findIndex((line) => line.startsWith(head))
  if (from < 0) throw new Error(`no table has the head ${head}`)
  const rest = lines.slice(from).findIndex((line) => !line.startsWith('|'))
  return { from, end: rest < 0 ? lines.length : from + rest }
}

/** The cells of a line of a table. */
function cellsOf(line: string): string[] {
  const cells = line.slice(1, -1).split(/(?<!\\)\|/)
  return cells.map((cell) => cell.trim().replaceAll('\\|', '|'))
}

/** A line of a table. */
function lineOf(cells: Row): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

/** The rows of the table with that head. */
export function rowsOf(page: string, head: string): string[][] {
  const lines = page.split('\n')
  const { from, end } = placeOf(lines, head)
  return lines.slice(from + 2, end).map(cellsOf)
}

/** The page with other rows below that head. */
export function withRows(page: string, head: string, rowsOf: (old: Row[]) => Row[]): string {
  const lines = page.split('\n')
  const { from, end } = placeOf(lines, head)
  const rows = rowsOf(lines.slice(from + 2, end).map(cellsOf))
  return [...lines.slice(0, from + 2), ...rows.map(lineOf), ...lines.slice(end)].join('\n')
}

/** The comments of a source, without their prefix. */
export function commentsOf(source: string): string {
  const lines = source.split('\n').filter((line) => line.startsWith(' *'))
  return `\n${lines.map((line) => line.slice(3)).join('\n')}\n`
}

/** The share of lines that two texts have in common, of all that they have. */
function likeness(one: readonly string[], other: readonly string[]): number {
  const shared = one.filter((line) => other.includes(line)).length
  return shared / (one.length + other.length - shared)
}

/** Of a comment, the paragraphs that are most like `block`: what it has become. */
function mostLike(comments: string, block: string): string {
  const paragraphs = comments.split(/\n(?=\n)/).map((text) => text.replace(/^\n/, ''))
  const wanted = block.trimEnd().split('\n')
  let best = { text: block, share: 0 }
  for (let from = 0; from < paragraphs.length; from++) {
    for (let end = from + 1; end <= paragraphs.length; end++) {
      const text = paragraphs.slice(from, end).join('\n\n').trimEnd()
      const share = likeness(text.split('\n'), wanted)
      if (share > best.share) best = { text: `${text}\n`, share }
    }
  }
  return best.text
}

/** The page with every block ```` ```text FILE.ts ```` as the comments of that file have it. */
export function withBlocks(page: string, read: (path: string) => string): string {
  return page.replace(/^(```text (\S+\.ts)\n)([\s\S]*?)^```$/gm, (whole, fence, path, block) => {
    const comments = commentsOf(read(path))
    return comments.includes(`\n${block}`) ? whole : `${fence}${mostLike(comments, block)}\`\`\``
  })
}
