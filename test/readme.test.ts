/**
 * The READMEs against the sources: byte maps, tables, examples and commands are what they say.
 *
 * A fenced block that shows a layout names its source behind the fence: "```text firmware/…". It
 * must stand in a comment of that file, word for word, but for the comment's prefix.
 */

import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import * as hostMemory from '../boards/emulator/host-memory.ts'
import { OP_NAMES } from '../boards/emulator/machine.ts'
import { CASES } from '../firmware/commit/cases.ts'
import { PHASE_A, PHASE_B, PHASE_NONE } from '../firmware/commit/lane.ts'
import { FAULTS } from '../firmware/fault.ts'
import * as hal from '../firmware/hal.ts'
import * as headerPage from '../firmware/host/header-page.ts'
import * as limits from '../firmware/limits.ts'
import * as map from '../firmware/memory-map.ts'
import * as management from '../firmware/wire/management.ts'
import * as memoryStatus from '../firmware/wire/memory-status.ts'
import { OPCODES } from '../firmware/wire/opcode.ts'
import * as persist from '../firmware/wire/persist.ts'
import { adviceFor } from '../host-driver/advice.ts'
import { CONDITIONS } from '../host-driver/batch-verdict.ts'
import * as exitCodes from '../host-driver/commands/exit-codes.ts'
import { Card, dataOf, persistFrames } from './support/card.ts'
import { filesBelow, ROOT } from './support/sources.ts'
import { THOROUGH } from './support/thorough.ts'

const READMES = filesBelow('.').filter((path) => path.endsWith('README.md'))
const FIRMWARE = 'firmware/README.md'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

interface Block {
  /** What stands behind the opening fence. */
  readonly info: string
  readonly text: string
}

function blocksOf(markdown: string): Block[] {
  const fenced = /^```([^\n]*)\n([\s\S]*?)^```$/gm
  return [...markdown.matchAll(fenced)].map(([, info, text]) => ({ info: info!, text: text! }))
}

/** The comments of a source, without their prefix. */
function commentsOf(source: string): string {
  const lines = source.split('\n').filter((line) => line.startsWith(' *'))
  return `\n${lines.map((line) => line.slice(3)).join('\n')}\n`
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

/** Numbers among the exports of a module. */
function numbersOf(module: object): Record<string, number> {
  return Object.fromEntries(
    Object.entries(module).filter(([, value]) => typeof value === 'number'),
  ) as Record<string, number>
}

const MAPPED = [
  'boards/qemu-virt/part-file.ts',
  'firmware/commit/slot.ts',
  'firmware/commit/lane.ts',
  'firmware/commit/operation-line.ts',
  'firmware/memory/superblock.ts',
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
  'firmware/serve/view.ts',
  'firmware/hal.ts',
]

describe('byte maps', () => {
  const blocks = READMES.flatMap((path) =>
    blocksOf(read(path)).map((block) => ({ path, ...block })),
  )

  test('each stands word for word in the comment of the file that it names', () => {
    const named = blocks.filter(({ info }) => /^text \S+\.ts$/.test(info))
    const wrong = named.filter(({ info, text }) => {
      return !commentsOf(read(info.slice('text '.length))).includes(`\n${text}`)
    })
    expect(wrong).toEqual([])
  })

  test('none comes without the file that it is from, and no layout is left out', () => {
    const drawn = blocks.filter(({ text }) => text.includes('+--'))
    expect(drawn.filter(({ info }) => !/^text \S+\.ts$/.test(info))).toEqual([])
    const files = new Set(drawn.map(({ info }) => info.slice('text '.length)))
    expect([...files].sort()).toEqual([...MAPPED].sort())
  })
})

describe('tables of the firmware', () => {
  const page = read(FIRMWARE)

  test('the faults are all there, with answer, code and meaning', () => {
    const want = FAULTS.map(({ name, answer, code, meaning }, number) => {
      const shown = code === 0 ? '' : `0x${code.toString(16)}`
      return [String(number), name, answer, shown, meaning]
    })
    expect(rowsUnder(page, '| | name | answer |')).toEqual(want)
  })

  test('the recovery cases are all there, unchanged', () => {
    const phases = new Map([
      [PHASE_A, 'A'],
      [PHASE_B, 'B'],
      [PHASE_NONE, '-'],
    ])
    const answer = (want: number): string => (want === -1 ? 'any' : want === 1 ? 'yes' : 'no')
    const want = CASES.map(({ name, phase, when, then, sourceCase }, row) => {
      const source = sourceCase === 0 ? 'media' : String(sourceCase)
      return [String(row), name, phases.get(phase), ...when.map(answer), then, source]
    })
    expect(rowsUnder(page, '| | found | phase |')).toEqual(want)
  })

  test('the limits are all there, with their values', () => {
    const shown = rowsUnder(page, '| limit | value |').map(([name, value]) => [name, value])
    const want = Object.entries(numbersOf(limits)).map(([name, value]) => [name, String(value)])
    expect(shown.sort()).toEqual(want.sort())
  })

  test('the attributes of the control call are all there', () => {
    const rows = rowsUnder(page, '| attribute | method | does |').map(([first]) =>
      first!.split(' '),
    )
    const shown = rows.map(([code, name]) => [`ATTRIBUTE_${name}`, Number(code)])
    const attributes = Object.entries(numbersOf(management)).filter(([name]) => {
      return name.startsWith('ATTRIBUTE_')
    })
    expect(shown.sort()).toEqual(attributes.sort())
  })

  test('our own opcodes are all there, under their names', () => {
    const shown = rowsUnder(page, '| opcode | name | headers behind BTH |').map(([code, name]) => {
      return [Number(code), `Perdure ${name}`]
    })
    const own = OPCODES.flatMap((row) => {
      return row?.name.startsWith('Perdure ') === true ? [[row.opcode, row.name]] : []
    })
    expect(shown).toEqual(own)
  })

  test.each([
    ['EVENT', '| event | type |', headerPage, /^EVENT_(?!BYTES|TYPE|QUEUE$|FAULT|STAMP)/],
    ['STATUS', '| kind | | says |', memoryStatus, /^STATUS_/],
    ['CONDITION', '| condition | | a record', persist, /^CONDITION_/],
  ] as const)('the constants %s_… are all there, with their values', (_, head, source, those) => {
    const shown = rowsUnder(page, head).map((row) => [row[0], row[1]])
    const want = Object.entries(numbersOf(source)).filter(([name]) => those.test(name))
    expect(want.length).toBeGreaterThan(2)
    expect(shown).toEqual(want.map(([name, value]) => [name, String(value)]))
  })

  test('packet memory is laid out as the table says', () => {
    const places = { ...numbersOf(hal), ...numbersOf(map) }
    const shown = rowsUnder(page, '| name | at |').map(([name, at]) => [name, at])
    const names = Object.keys(places).filter((name) => /^(\w+_AT|MEMORY_BYTES)$/.test(name))
    const want = names.map((name) => [name, String(places[name])])
    expect(shown.sort()).toEqual(want.sort())
  })
})

describe('tables of the first page', () => {
  const page = read('README.md')

  test('what to do about a record of a batch is what its error says', () => {
    const rows = [...rowsUnder(page, '| `code` | what to do |')]
    const codes = rows.map(([code]) => code!)
    const ofBatches = FAULTS.filter(({ name }) => /^(BATCH_|CONDITION$)/.test(name))
    expect(codes).toEqual(expect.arrayContaining(ofBatches.map(({ name }) => name)))
    const wrong = rows.filter(([code, what]) => !adviceFor(code!).startsWith(what!.slice(0, -1)))
    expect(wrong).toEqual([])
  })

  test('the conditions of a batch are all there', () => {
    const shown = rowsUnder(page, '| condition | a record is accepted |').map(([name]) => {
      return name!.split(',')[0]
    })
    expect(shown).toEqual(Object.keys(CONDITIONS))
  })

  test('the exit codes are all there, here and in the help', () => {
    const shown = rowsUnder(page, '| code | meaning |').map(([code]) => Number(code))
    expect(shown).toEqual(Object.values(numbersOf(exitCodes)).sort((a, b) => a - b))
    const overview = helpOf('').split('Exit codes:')[1]!
    expect([...overview.matchAll(/\b(\d+) [a-z]/gi)].map(([, code]) => Number(code))).toEqual(shown)
  })
})

describe('the page about the tests', () => {
  /** The names in the first column of a table, where a star stands for any letters. */
  const namedUnder = (head: string): RegExp[] => {
    const names = rowsUnder(read('test/README.md'), head).flatMap(([first]) => first!.split(', '))
    return names.map((name) => new RegExp(`^${name.replaceAll('.', '\\.').replaceAll('*', '.*')}$`))
  }
  const leftOut = (names: readonly string[], named: readonly RegExp[]): string[] => {
    return names.filter((name) => !named.some((pattern) => pattern.test(name)))
  }

  test('names every file of tests', () => {
    const files = filesBelow('test').map((path) => /^test\/([^/]+)\.test\.ts$/.exec(path)?.[1])
    const names = files.filter((name) => name !== undefined)
    expect(leftOut(names, namedUnder('| files | subject |'))).toEqual([])
  })

  test('names every helper', () => {
    const files = filesBelow('test/support').map((path) => path.slice('test/support/'.length))
    const names = files.filter((name) => name.endsWith('.ts'))
    expect(leftOut(names, namedUnder('| helper in'))).toEqual([])
  })
})

test('the times of the host model are those of the emulator', () => {
  const page = read('boards/emulator/README.md')
  const shown = rowsUnder(page, '| what | ns |').map(([name, ns]) => [name, Number(ns)])
  const want = Object.entries(numbersOf(hostMemory)).filter(([name]) => name.endsWith('_NS'))
  expect(shown.sort()).toEqual(want.sort())
})

interface Run {
  readonly commands: readonly (readonly [string, number])[]
  readonly calls: number
}

/** What the card does with one burst of so many records. */
function burstOf(records: number, copies: number): Run {
  const card = new Card(1 << 20)
  card.format()
  const region = card.provision({ slots: 64, capacity: 64, copies })
  const qp = card.connect()
  const frames = Array.from({ length: records }, (_, slot) => {
    return persistFrames(qp, region, slot, dataOf(64, slot))
  }).flat()
  const commands: [string, number][] = []
  const { runs } = card.machine.statistics
  card.machine.observe({
    onCommand: (_number, op, words, at) => commands.push([OP_NAMES[op]!, words[at + hal.LENGTH]!]),
  })
  card.serve(...frames)
  return { commands, calls: card.machine.statistics.runs - runs }
}

describe('what a burst costs', () => {
  const page = read(FIRMWARE)

  test('a burst of one record is the list that the page shows', () => {
    const block = blocksOf(page).find(({ info }) => info === 'text burst of one record')!
    const shown = [...block.text.matchAll(/^ *\d+ {2}(\w+) +(\d*) /gm)].map(([, op, length]) => {
      return [op, Number(length)]
    })
    expect(shown).toEqual(burstOf(1, 2).commands)
  })

  test('the table of costs is right', () => {
    const rows = rowsUnder(page, '| records | copies | board calls |').map((row) => row.map(Number))
    expect(rows.length).toBeGreaterThan(3)
    for (const [records, copies, ...shown] of rows) {
      const { commands, calls } = burstOf(records!, copies!)
      const count = (name: string): number => commands.filter(([op]) => op === name).length
      const kinds = ['fence', 'copyClean', 'check', 'transmit'].map(count)
      expect([records, copies, ...shown]).toEqual([records, copies, calls, ...kinds])
    }
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
    const args = [join(ROOT, 'dist/perdure.js'), command, '--help']
    const done = spawnSync(process.execPath, args, { encoding: 'utf8' })
    text = done.status === 0 ? done.stdout : ''
    helps.set(command, text)
  }
  return text
}

/** What is wrong with `perdure WORDS`, or null. */
function perdureComplaint(words: readonly string[]): string | null {
  const [command, ...rest] = words
  if (command === '--version' || command === '--help') return null
  const help = helpOf(command!)
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

/** What is wrong with `npm WORDS`, or null. */
function npmComplaint(words: readonly string[]): string | null {
  const [verb, ...rest] = words
  const script = verb === 'run' ? rest[0]! : verb!
  if (!(script in SCRIPTS)) return `no script ${script}`
  const dashes = words.indexOf('--')
  const passed = dashes < 0 ? [] : words.slice(dashes + 1)
  if (script === 'start') return perdureComplaint(['demo', ...passed])
  const [which] = passed.filter((word) => !word.startsWith('--'))
  const bench = existsSync(join(ROOT, `test/bench-${which}.ts`)) ? `bench-${which}` : 'bench'
  const known = script === 'bench' ? read(`test/${bench}.ts`) : passed.join(' ')
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
  test.each(READMES)('every command line in %s names a script, command and options', (path) => {
    const wrong = commandLines(read(path)).flatMap((line) => {
      const what = complaint(line)
      return what === null ? [] : [`${line}: ${what}`]
    })
    expect(wrong).toEqual([])
  })

  test('the table of the host driver names commands and options that are there', () => {
    const rows = rowsUnder(read('host-driver/README.md'), '| `perdure …` |')
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

describe('links and lines', () => {
  test('every link to a heading leads to one', () => {
    const broken = READMES.flatMap((path) => {
      const page = read(path).replaceAll(/^```[\s\S]*?^```$/gm, '')
      const headings = [...page.matchAll(/^#+ (.*)$/gm)].map(([, text]) => slugOf(text!))
      const links = [...page.matchAll(/\]\(#([^)]*)\)/g)].map(([, to]) => to!)
      return links.filter((to) => !headings.includes(to)).map((to) => `${path}: #${to}`)
    })
    expect(broken).toEqual([])
  })

  test('every link to a file leads to one', () => {
    const broken = READMES.flatMap((path) => {
      const links = [...read(path).matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)].map(([, to]) => to!)
      return links
        .filter((to) => !existsSync(join(ROOT, dirname(path), to)))
        .map((to) => `${path}: ${to}`)
    })
    expect(broken).toEqual([])
  })

  test(
    'no line of a page is longer than 100 columns, but for rows taken from a source',
    THOROUGH,
    () => {
      const pages = ['', 'firmware/', 'boards/', 'host-driver/', 'test/'].map((folder) => {
        return `${folder}README.md`
      })
      const long = pages.flatMap((path) =>
        read(path)
          .split('\n')
          .flatMap((line, at) => {
            return [...line].length > 100 && !/^\| \d+ \|/.test(line) ? [`${path}:${at + 1}`] : []
          }),
      )
      expect(long).toEqual([])
    },
  )
})
