/** The free text of a command's help as pieces of a page of the manual. */

import type { Command } from 'commander'
import type { Block } from '../../../boards/tools/manual/roff.ts'

/** What `--help` says after the options. */
export function textAfter(command: Command): string {
  let said = ''
  command.configureOutput({
    writeOut: (text) => {
      said += text
    },
  })
  command.outputHelp()
  const { length } = command.helpInformation()
  return said.slice(length)
}

/** In a text of help: a term, and after two blanks or more what it means. */
const ROW = /^ {2,}(\S(?:.*?\S)?) {2,}(\S.*)$/

type Kind = 'blank' | 'row' | 'example' | 'paragraph'

function kindOf(line: string): Kind {
  if (line.trim() === '') return 'blank'
  if (ROW.test(line)) return 'row'
  return line.startsWith('  ') ? 'example' : 'paragraph'
}

/** Lines of a kind that stand together, as one piece. */
function blockOf(kind: Kind, lines: readonly string[]): Block[] {
  if (kind === 'blank') return []
  if (kind === 'paragraph') return [{ paragraph: lines.join(' ') }]
  if (kind === 'row') {
    return [{ rows: lines.map((line) => ROW.exec(line)!.slice(1, 3) as [string, string]) }]
  }
  const margin = Math.min(...lines.map((line) => line.search(/\S/)))
  return [{ example: lines.map((line) => line.slice(margin)) }]
}

/** Paragraphs, columns of terms and their meanings, and lines that are indented. */
export function blocksOf(text: string): Block[] {
  const blocks: Block[] = []
  let [kind, lines]: [Kind, string[]] = ['blank', []]
  for (const line of [...text.split('\n'), '']) {
    const next = kindOf(line)
    if (next !== kind) {
      blocks.push(...blockOf(kind, lines))
      ;[kind, lines] = [next, []]
    }
    lines.push(line)
  }
  return blocks
}
