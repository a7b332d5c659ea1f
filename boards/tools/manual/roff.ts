/**
 * Pages of a manual, as man(7) has them: what man, groff and mandoc print.
 *
 * Invariants:
 * - Whatever a text has in it comes out as it is: nothing in it is taken for a request or an
 *   escape, and a dash is the one that a shell takes, so a line can be copied from the page.
 * - A page has nothing of today and of this machine: the same sections give the same bytes. Its
 *   date is that of every file of every package (boards/tools/debian/package.ts).
 */

import { EPOCH_S } from '../debian/package.ts'

/** A file of the manual. */
export interface ManualFile {
  /** As 'perdure-persist.1'. */
  readonly name: string
  readonly text: string
}

/** A page's heading and what `apropos` finds. */
interface Head {
  /** As 'perdure-persist'. */
  readonly name: string
  readonly section: 1 | 5 | 8
  /** In a line, without a full stop. */
  readonly about: string
  readonly version: string
}

/** A piece of a page; texts may have `code`, which is printed bold, between backticks. */
export type Block =
  | { readonly paragraph: string }
  /** One of a list. */
  | { readonly item: string }
  /** Lines that stay as they are. */
  | { readonly example: readonly string[] }
  /** Terms, printed as they are typed, each with what it means; '' is none. */
  | { readonly rows: readonly (readonly [term: string, words: string])[] }
  | { readonly heading: string }
  /** Lines of a synopsis: what is typed, and what stands behind it, with `<places>`. */
  | { readonly usage: readonly (readonly [typed: string, rest: string])[] }

export interface Section {
  /** As 'EXIT STATUS'. */
  readonly title: string
  readonly blocks: readonly Block[]
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '\\': '\\e', '-': '\\-', "'": '\\(aq', '"': '\\(dq' },
  ...{ '`': '\\(ga', '^': '\\(ha', '~': '\\(ti' },
}

/** A text of one line as roff has it. */
function escaped(text: string): string {
  const pieces = [...text].map((letter) => {
    if (letter in ESCAPES) return ESCAPES[letter]!
    if (letter >= ' ' && letter <= '~') return letter
    return `\\[u${letter.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}]`
  })
  return pieces.join('')
}

const bold = (text: string): string => `\\fB${escaped(text)}\\fR`

/** A line that roff cannot take for a request. */
const line = (text: string): string => (/^[.']/.test(text) ? `\\&${text}` : text)

/** What is wider than this, people who read the source of a page have to shift. */
const COLUMNS_MAX = 78

/** A text as lines of the source; what is shown is filled again. */
function folded(text: string): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + word.length >= COLUMNS_MAX) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines.map(line)
}

/** A text with `code` in it. */
function inline(text: string): string[] {
  const pieces = text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .split(/`([^`]+)`/)
  const drawn = pieces.map((piece, i) => (i % 2 === 1 ? bold(piece) : escaped(piece)))
  return folded(drawn.join(''))
}

/** `<places>` of other words are italic; `draw` draws what stands between them. */
function placed(text: string, draw: (text: string) => string): string {
  const pieces = text.split(/(<[^>]+>)/).filter((piece) => piece !== '')
  const drawn = pieces.map((piece) => {
    return piece.startsWith('<') ? `\\fI${escaped(piece.slice(1, -1))}\\fR` : draw(piece)
  })
  return drawn.join('')
}

/** A term: words that are typed, bold, and places. */
const termOf = (text: string): string => line(placed(text, bold))

function linesOf(block: Block): string[] {
  if ('paragraph' in block) return ['.PP', ...inline(block.paragraph)]
  if ('item' in block) return ['.IP \\(bu 2', ...inline(block.item)]
  if ('heading' in block) return [`.SS ${escaped(block.heading)}`]
  if ('example' in block) {
    const lines = block.example.map((text) => line(escaped(text)) || '\\&')
    return ['.PP', '.RS 4', '.nf', ...lines, '.fi', '.RE']
  }
  if ('usage' in block) {
    const lines = block.usage.map(([typed, rest]) => {
      return folded(`${bold(typed)} ${placed(rest, escaped)}`.trimEnd())
    })
    return ['.PP', ...lines.flatMap((texts, i) => (i === 0 ? texts : ['.br', ...texts]))]
  }
  return block.rows.flatMap(([term, words]) => {
    return ['.TP', termOf(term), ...(words === '' ? ['\\&'] : inline(words))]
  })
}

/** Of a section: the space in front of its first paragraph is that of its title. */
function sectionLines({ title, blocks }: Section): string[] {
  const lines: string[] = []
  for (const block of blocks) {
    const isFirst = lines.length === 0 || lines.at(-1)!.startsWith('.SS')
    const own = linesOf(block)
    lines.push(...(isFirst && own[0] === '.PP' ? own.slice(1) : own))
  }
  return [`.SH ${escaped(title)}`, ...lines]
}

/** The page, whole. A section without blocks is left out. */
export function manualPage(head: Head, sections: readonly Section[]): string {
  const { name, section, about, version } = head
  const date = new Date(EPOCH_S * 1000).toISOString().slice(0, 10)
  const title = [escaped(name.toUpperCase()), section, date]
  const named: Section = { title: 'NAME', blocks: [] }
  const all = sections.filter(({ blocks }) => blocks.length > 0)
  const lines = [
    `.TH ${title.join(' ')} "perdure ${escaped(version)}" "Perdure"`,
    // Words stay whole, and the right margin ragged: most of them are to be typed.
    '.nh',
    '.ad l',
    ...sectionLines(named),
    ...folded(`${escaped(name)} \\- ${escaped(about)}`),
    ...all.flatMap(sectionLines),
  ]
  return `${lines.join('\n')}\n`
}
