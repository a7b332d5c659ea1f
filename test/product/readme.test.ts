/**
 * The pages against the sources: byte maps, tables, examples and commands are what they say.
 *
 * A fenced block that shows a layout names its source behind the fence: "```text firmware/…". It
 * must stand in a comment of that file, word for word, except for the comment's prefix.
 */

import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FAULTS } from '../../firmware/board/fault.ts'
import { adviceFor } from '../../host-driver/base/advice.ts'
import * as exitCodes from '../../host-driver/command/base/exit-codes.ts'
import { CONDITIONS } from '../../host-driver/way/batch-verdict.ts'
import { commentsOf, rowsOf, withBlocks, withRows } from '../pages/markdown.ts'
import { numbersOf, PAGES, pageOf, read, TABLES, withBurst } from '../pages/tables.ts'
import { ROOT } from '../support/source/sources.ts'

interface Block {
  /** What stands behind the opening fence. */
  readonly info: string
  readonly text: string
}

function blocksOf(markdown: string): Block[] {
  const fenced = /^```([^\n]*)\n([\s\S]*?)^```$/gm
  return [...markdown.matchAll(fenced)].map(([, info, text]) => ({ info: info!, text: text! }))
}

/** The rows of every table whose head begins with that cell, as cells. */
function rowsUnder(markdown: string, head: string): string[][] {
  const lines = markdown.split('\n')
  const rows: string[][] = []
  for (let at = 0; at < lines.length; at++) {
    if (!lines[at]!.startsWith(head)) continue
    for (at += 2; lines[at]?.startsWith('|'); at++) {
      const cells = lines[at]!.split('|').slice(1, -1)
      rows.push(cells.map((cell) => cell.trim().replaceAll('`', '')))
    }
  }
  return rows
}

/** What is said where a page is not as its sources want it. */
const HINT = 'node build.mjs doc writes it'

const MAPPED = [
  'boards/qemu-virt/part-file.ts',
  'firmware/medium/slot.ts',
  'firmware/medium/lane.ts',
  'firmware/medium/operation-line.ts',
  'firmware/medium/superblock.ts',
  'firmware/wire/persist.ts',
  'firmware/wire/persist-ack.ts',
  'firmware/wire/persist-query.ts',
  'firmware/wire/memory-status.ts',
  'firmware/wire/block-size.ts',
  'firmware/wire/prefetch.ts',
  'firmware/wire/capability.ts',
  'firmware/wire/announcement.ts',
  'firmware/wire/cm.ts',
  'firmware/wire/management.ts',
  'firmware/wire/tag.ts',
  'firmware/burst/view.ts',
  'firmware/board/hal.ts',
  'host-driver/command/file/header.ts',
]

describe('byte maps', () => {
  const blocks = PAGES.flatMap((path) => blocksOf(read(path)).map((block) => ({ path, ...block })))

  test('each stands word for word in the comment of the file that it names', () => {
    const named = blocks.filter(({ info }) => /^text \S+\.ts$/.test(info))
    const wrong = named.filter(({ info, text }) => {
      return !commentsOf(read(info.slice('text '.length))).includes(`\n${text}`)
    })
    expect(wrong, HINT).toEqual([])
  })

  test('none comes without the file that it is from, and no layout is left out', () => {
    const drawn = blocks.filter(({ text }) => text.includes('+--'))
    expect(drawn.filter(({ info }) => !/^text \S+\.ts$/.test(info))).toEqual([])
    const files = new Set(drawn.map(({ info }) => info.slice('text '.length)))
    expect([...files].sort()).toEqual([...MAPPED].sort())
  })
})

describe('tables that sources decide', () => {
  test.each(PAGES)('generating changes nothing on %s', (path) => {
    expect(pageOf(path), HINT).toBe(read(path))
  })

  test('the list of commands of a burst of one record is on one page', () => {
    const having = PAGES.filter((path) => read(path).includes('```text burst of one record'))
    expect(having).toHaveLength(1)
  })

  test('every command of that list says what it is; one of another length keeps its words', () => {
    const page = read('firmware/doc/persist.md')
    const [list] = blocksOf(page).filter(({ info }) => info === 'text burst of one record')
    const silent = list!.text.split('\n').filter((line) => /^ *\d+ {2}\w+ *\d*$/.test(line))
    expect(silent).toEqual([])
    const spoilt = page.replace(/(transmit +)\d+(?= .*PERSIST_ACK)/, (_, before) => `${before}90`)
    expect(spoilt).not.toBe(page)
    expect(withBurst(spoilt)).toBe(page)
  })

  test('a row that is wrong, left out or of nothing is written again; words stay', () => {
    const table = TABLES.find(({ title }) => title.startsWith('the limits are all there'))!
    const page = read(table.page)
    const spoilt = page
      .replace('| `BURST_FRAMES` | 32 |', '| `BURST_FRAMES` | 33 |')
      .replace(/^\| `COPIES_MIN` .*\n/m, '| `COPIES_OF_OLD` | 7 | what there was |\n')
    const rows = rowsOf(withRows(spoilt, table.head, table.rows), table.head)
    const wanted = rowsOf(page, table.head)
    const isLeftOut = ([name]: readonly string[]): boolean => name === '`COPIES_MIN`'
    expect(rows.filter((row) => !isLeftOut(row))).toEqual(wanted.filter((row) => !isLeftOut(row)))
    expect(rows.at(-1)?.slice(0, 2)).toEqual(['`COPIES_MIN`', '2'])
    expect(rows.at(-1)?.[2]).not.toBe('')
  })

  test('a byte map that has changed in its source is found again in its page', () => {
    const page = 'before\n```text firmware/board/hal.ts\n+--+\n| old |\n+--+\n```\nbehind\n'
    const source = '/**\n * Words.\n *\n * +--+\n * | new |\n * +--+\n *\n * More.\n */\n'
    expect(withBlocks(page, () => source)).toBe(page.replace('old', 'new'))
  })
})

describe('tables that people keep', () => {
  const page = read('host-driver/doc/batches.md')

  test('every fault that ends a record of a batch is there', () => {
    const heads = ['| `code` | what to do |', '| `code` in the end | what to do |']
    const codes = heads.flatMap((head) => rowsUnder(page, head).map(([code]) => code!))
    const ofBatches = FAULTS.filter(({ name }) => /^(BATCH_|CONDITION$)/.test(name))
    expect(codes).toEqual(expect.arrayContaining(ofBatches.map(({ name }) => name)))
  })

  test('there is something to do about every refusal by a status', () => {
    const refusals = FAULTS.filter(({ answer }) => answer === 'status').map(({ name }) => name)
    const silent = refusals.filter((name) => adviceFor(name) === adviceFor(''))
    expect(silent, `${silent.join(', ')}: no line in host-driver/base/advice.ts`).toEqual([])
  })

  test('the conditions of a batch are all there', () => {
    const shown = rowsUnder(page, '| condition | a record is accepted |').map(([name]) => {
      return name!.split(',')[0]
    })
    expect(shown).toEqual(Object.keys(CONDITIONS))
  })

  test('the exit codes are all there, here and in the help', () => {
    const operating = read('boards/doc/operating.md')
    const shown = rowsUnder(operating, '| code | meaning |').map(([code]) => Number(code))
    const overview = helpOf('').split('Exit codes:')[1]!
    const codes = Object.values(numbersOf(exitCodes)).sort((a, b) => a - b)
    expect(shown).toEqual(expect.arrayContaining(codes))
    expect([...overview.matchAll(/\b(\d+) [a-z]/gi)].map(([, code]) => Number(code))).toEqual(codes)
  })
})

/** Every command line of the pages that a user could type: fenced, indented, or in backticks. */
function commandLines(markdown: string): string[] {
  const start = /^(?:[A-Z_]+=\S+ )?(?:npm|npx perdure|perdure|node) .*$/
  const shell = blocksOf(markdown)
    .filter(({ info }) => info === 'sh')
    .flatMap(({ text }) => text.split('\n'))
  const indented = markdown.split('\n').filter((line) => line.startsWith('    '))
  const prose = markdown.replaceAll(/^```[\s\S]*?^```$/gm, '')
  const inline = [...prose.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!)
  return [...shell, ...indented, ...inline]
    .map((line) => line.trim().replace(/\s+#.*$/, ''))
    .filter((line) => start.test(line) && !line.includes('…'))
}

const helps = new Map<string, string>()

/** What `perdure COMMAND --help` prints. */
function helpOf(command: string): string {
  let text = helps.get(command)
  if (text === undefined) {
    const args = [join(ROOT, 'dist/perdure.js'), ...command.split(' '), '--help']
    const done = spawnSync(process.execPath, args, { encoding: 'utf8' })
    text = done.status === 0 ? done.stdout : ''
    helps.set(command, text)
  }
  return text
}

/** What is wrong with `perdure WORDS`, or null. */
function perdureComplaint(words: readonly string[]): string | null {
  const [first, second] = words
  if (first === '--version' || first === '--help') return null
  const [, more = ''] = helpOf(first!).split('\nCommands:\n')
  const commands = [...more.matchAll(/^ {2}(\w+) ([\s\S]*?)(?=^ {2}\w|$(?![\s\S]))/gm)]
  const one = commands.find(([, name]) => name === second)
  const byDefault = commands.find(([, , does]) => /this\s+is\s+the\s+default/.test(does!))
  const chosen = second === undefined || more === '' ? null : (one?.[1] ?? byDefault?.[1] ?? second)
  const command = chosen === null ? first! : `${first} ${chosen}`
  const rest = words.slice(one === undefined ? 1 : 2)
  const help = helpOf(command)
  if (!help.startsWith(`Usage: perdure ${command} `)) return `no command ${command}`
  const options = rest.map((word) => word.split('=')[0]!).filter((word) => word.startsWith('-'))
  const unknown = options.filter(
    (one) => one !== '-' && !new RegExp(`^ .*${one}\\b`, 'm').test(help),
  )
  return unknown.length === 0 ? null : `no option ${unknown.join(', ')}`
}

/** The anchor of a heading, as the usual viewers make it. */
function slugOf(heading: string): string {
  const text = heading.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, '')
  return text.replaceAll(' ', '-')
}

const SCRIPTS = (JSON.parse(read('package.json')) as { scripts: Record<string, string> }).scripts

/** What is wrong with that command of npm, which tells what the package is made of, or null. */
function billComplaint(words: readonly string[]): string | null {
  const { status, stdout, stderr } = spawnSync('npm', words, { cwd: ROOT, encoding: 'utf8' })
  if (status !== 0) return stderr
  const bill = JSON.parse(stdout) as { bomFormat: string; components: { name: string }[] }
  if (bill.bomFormat !== 'CycloneDX') return `it is ${bill.bomFormat}`
  const names = bill.components.map(({ name }) => name)
  if (!names.includes('quickjs-emscripten')) return 'a dependency is not there'
  return names.includes('vitest') ? 'what only tests need is there' : null
}

/** What is wrong with `npm WORDS`, or null. */
function npmComplaint(words: readonly string[]): string | null {
  const [verb, ...rest] = words
  if (verb === 'sbom') return billComplaint(words)
  const script = verb === 'run' ? rest[0]! : verb!
  if (!(script in SCRIPTS)) return `no script ${script}`
  const dashes = words.indexOf('--')
  const passed = dashes < 0 ? [] : words.slice(dashes + 1)
  if (script === 'start') return perdureComplaint(['demo', ...passed])
  const [which] = passed.filter((word) => !word.startsWith('--'))
  const bench = existsSync(join(ROOT, `test/bench/bench-${which}.ts`)) ? `bench-${which}` : 'bench'
  const known = script === 'bench' ? read(`test/bench/${bench}.ts`) : passed.join(' ')
  const unknown = passed.filter((word) => word.startsWith('--') && !known.includes(word))
  return unknown.length === 0 ? null : `no option ${unknown.join(', ')}`
}

function complaint(line: string): string | null {
  const words = line
    .replace(/^[A-Z_]+=\S+ /, '')
    .split(/\s+/)
    .filter((word) => word !== '')
  const end = words.findIndex((word) => /^[|>&]/.test(word))
  const [program, ...args] = end < 0 ? words : words.slice(0, end)
  if (program === 'npm') return npmComplaint(args)
  if (program === 'npx') return perdureComplaint(args.slice(1))
  if (program === 'perdure') return perdureComplaint(args)
  return null
}

describe('commands', () => {
  test.each(PAGES)('every command line in %s names a script, command and options', (path) => {
    const wrong = commandLines(read(path)).flatMap((line) => {
      const what = complaint(line)
      return what === null ? [] : [`${line}: ${what}`]
    })
    expect(wrong).toEqual([])
  })

  test('the table of the host driver names commands and options that are there', () => {
    const rows = rowsUnder(read('host-driver/doc/commands.md'), '| `perdure …` |')
    expect(rows.length).toBeGreaterThan(5)
    const wrong = rows.flatMap(([line]) => {
      const what = perdureComplaint(line!.replaceAll(/[[\]]/g, '').split(' '))
      return what === null ? [] : [`${line}: ${what}`]
    })
    expect(wrong).toEqual([])
  })

  test('the first page says how to start, how to test, and shows every command', () => {
    const lines = commandLines(read('README.md'))
    expect(lines).toContain('npm start')
    expect(lines).toContain('npm test')
    const overview = spawnSync(process.execPath, [join(ROOT, 'dist/perdure.js'), '--help'], {
      encoding: 'utf8',
    }).stdout
    const commands = [...overview.matchAll(/^ {2}([a-z]+) \[/gm)].map(([, name]) => name!)
    const page = read('README.md')
    const left = commands.filter((name) => name !== 'help' && !page.includes(name))
    expect(left).toEqual([])
  })
})

/** What the headings of a page are called in links. */
function anchorsOf(path: string): string[] {
  const page = read(path).replaceAll(/^```[\s\S]*?^```$/gm, '')
  return [...page.matchAll(/^#+ (.*)$/gm)].map(([, text]) => slugOf(text!))
}

/** Links of a page that stay in the repository: a file, an anchor, or both. */
function linksOf(path: string): { file: string; anchor: string }[] {
  const page = read(path).replaceAll(/^```[\s\S]*?^```$/gm, '')
  const links = [...page.matchAll(/\]\(([^)#:\s]*)(?:#([^)\s]*))?\)/g)]
  return links.map(([, to, anchor]) => ({
    file: to === '' ? path : join(dirname(path), to!),
    anchor: anchor ?? '',
  }))
}

/** The most lines of a page: of the first one, of those that generating writes, of any other. */
function linesMax(path: string): number {
  if (path === 'README.md') return 200
  return TABLES.some(({ page }) => page === path) ? Number.POSITIVE_INFINITY : 300
}

describe('links and lines', () => {
  test('every link leads to a file, and to a heading of it', () => {
    const broken = PAGES.flatMap((path) =>
      linksOf(path)
        .filter(({ file, anchor }) => {
          if (!existsSync(join(ROOT, file))) return true
          return anchor !== '' && !anchorsOf(file).includes(anchor)
        })
        .map(({ file, anchor }) => `${path}: ${file}#${anchor}`),
    )
    expect(broken).toEqual([])
  })

  test('a name that a page finds in a file stands in that file', () => {
    const gone = PAGES.flatMap((path) => {
      const named = read(path).matchAll(/`(\w+)`\s+in\s+\[[^\]]*\]\(([^)#:\s]*)\)/g)
      return [...named]
        .map(([, name, to]) => ({ name: name!, file: join(dirname(path), to!) }))
        .filter(({ name, file }) => !new RegExp(`\\b${name}\\b`).test(read(file)))
        .map(({ name, file }) => `${path}: ${name} in ${file}`)
    })
    expect(gone).toEqual([])
  })

  test('every page is linked from another', () => {
    const linked = new Set(
      PAGES.flatMap((path) => linksOf(path).flatMap(({ file }) => (file === path ? [] : [file]))),
    )
    expect(PAGES.filter((path) => path !== 'README.md' && !linked.has(path))).toEqual([])
  })

  test('no page is too long to be read', () => {
    const lines = (path: string): number => read(path).split('\n').length - 1
    expect(PAGES.filter((path) => lines(path) > linesMax(path))).toEqual([])
  })

  test('no line of a page is longer than 100 columns, except rows of tables', () => {
    const long = PAGES.flatMap((path) =>
      read(path)
        .split('\n')
        .flatMap((line, at) => {
          return [...line].length > 100 && !line.startsWith('| ') ? [`${path}:${at + 1}`] : []
        }),
    )
    expect(long).toEqual([])
  })
})
