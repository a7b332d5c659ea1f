/**
 * The tables of the pages that sources decide, and how their rows come about.
 *
 * Invariant: what a source says is taken from it; what only people can say (a column of
 * words) stays as the page has it. A row that is new has there what the source says of it in a
 * comment. `node build.mjs doc` writes all of them, and a test holds the pages to it.
 */

import { readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import * as hostMemory from '../../boards/emulator/host/host-memory.ts'
import { OP_NAMES } from '../../boards/emulator/run/machine.ts'
import { KEYS } from '../../boards/linux/boot/script/settings.ts'
import { FAULTS } from '../../firmware/board/fault.ts'
import * as hal from '../../firmware/board/hal.ts'
import * as limits from '../../firmware/board/limits.ts'
import * as map from '../../firmware/board/memory-map.ts'
import { CASES } from '../../firmware/commit/cases.ts'
import * as headerPage from '../../firmware/host/header-page.ts'
import { PHASE_A, PHASE_B, PHASE_NONE } from '../../firmware/medium/lane.ts'
import * as management from '../../firmware/wire/management.ts'
import * as memoryStatus from '../../firmware/wire/memory-status.ts'
import { OPCODES } from '../../firmware/wire/opcode.ts'
import * as persist from '../../firmware/wire/persist.ts'
import { adviceFor } from '../../host-driver/base/advice.ts'
import * as exitCodes from '../../host-driver/command/base/exit-codes.ts'
import { ROWS } from '../evidence/sources/list.ts'
import { IDS } from '../evidence/sources/stage.ts'
import { dataOf, persistFrames, TestCard } from '../support/cards/test-card.ts'
import { filesBelow, ROOT } from '../support/source/sources.ts'
import { TEST_FILES, testFile, testName } from '../support/source/test-files.ts'
import { type Row, withBlocks, withRows } from './markdown.ts'

/** Every page, whoever writes it. */
export const PAGES: readonly string[] = filesBelow('.').filter((path) => path.endsWith('.md'))

const TESTS_PAGE = 'test/README.md'
const LINUX_PAGE = 'boards/linux/README.md'

interface PageTable {
  /** What a test of it is called. */
  readonly title: string
  readonly page: string
  /** How the line of its head begins. */
  readonly head: string
  /** Its rows, from those that the page has. */
  rows(old: readonly Row[]): Row[]
}

export const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

const code = (text: string): string => `\`${text}\``

/** A sentence as the words of a cell: without its full stop, and without a capital. */
function wordsOf(comment: string): string {
  const [sentence] = comment
    .replaceAll(/\s+/g, ' ')
    .trim()
    .split(/\.(?: |$)/)
  return sentence!.charAt(0).toLowerCase() + sentence!.slice(1)
}

/** What the comment in front of a constant says, or nothing. */
function said(path: string, name: string): string {
  const comment = new RegExp(String.raw`\/\*\* ([^*]*) ?\*\/\nexport const ${name}\b`)
  return wordsOf(comment.exec(read(path))?.[1] ?? '')
}

/** Rows with a key in front; a cell that is null is the page's, or else what `note` has for it. */
function keyed(
  rows: readonly (readonly (string | null)[])[],
  note: (key: string) => string = () => '',
): (old: readonly Row[]) => Row[] {
  return (old) => {
    const known = new Map(old.map((row) => [row[0]!, row]))
    return rows.map((row) => {
      const key = row[0]!
      return row.map((cell, i) => cell ?? known.get(key)?.[i] ?? note(key))
    })
  }
}

/** The same, in the order of the page; what is new stands behind it. */
function inOrder(
  rows: readonly (readonly (string | null)[])[],
  note: (key: string) => string,
): (old: readonly Row[]) => Row[] {
  return (old) => {
    const places = new Map(old.map(([key], i) => [key!, i]))
    const place = ([key]: readonly (string | null)[]): number => places.get(key!) ?? old.length
    return keyed(
      [...rows].sort((a, b) => place(a) - place(b)),
      note,
    )(old)
  }
}

/** Numbers among the exports of a module. */
export function numbersOf(module: object): Record<string, number> {
  return Object.fromEntries(
    Object.entries(module).filter(([, value]) => typeof value === 'number'),
  ) as Record<string, number>
}

/** A row for each number whose name fits: name, value, words. */
function constantsOf(path: string, module: object, those: RegExp): PageTable['rows'] {
  const found = Object.entries(numbersOf(module)).filter(([name]) => those.test(name))
  const rows = found.map(([name, value]) => [code(name), String(value), null])
  return inOrder(rows, (key) => said(path, key.slice(1, -1)))
}

/** Rows that name files by patterns: what is gone leaves them, what is new gets one of its own. */
function naming(names: readonly string[], note: (name: string) => string): PageTable['rows'] {
  const fits = (pattern: string, name: string): boolean => {
    const text = pattern.replaceAll('.', '\\.').replaceAll('*', '.*')
    return new RegExp(`^${text}$`).test(name)
  }
  return (old) => {
    const kept = old.flatMap(([cell, ...rest]) => {
      const patterns = cell!.replaceAll('`', '').split(', ')
      const alive = patterns.filter((pattern) => names.some((name) => fits(pattern, name)))
      return alive.length === 0 ? [] : [{ alive, row: [alive.map(code).join(', '), ...rest] }]
    })
    const named = kept.flatMap(({ alive }) => alive)
    const fresh = names.filter((name) => !named.some((pattern) => fits(pattern, name)))
    return [...kept.map(({ row }) => row), ...fresh.map((name) => [code(name), note(name)])]
  }
}

/** The row of a folder, between those of files. */
const FOLDER = /^\*\*`(.*)\/`\*\*$/

/** Rows that name files by patterns, the files of each folder after a row of its own. */
function namingIn(
  folders: ReadonlyMap<string, readonly string[]>,
  note: (name: string, folder: string) => string,
): PageTable['rows'] {
  return (old) => {
    const known = new Map<string, { words: string; rows: Row[] }>()
    for (const row of old) {
      const folder = FOLDER.exec(row[0]!)?.[1]
      if (folder !== undefined) known.set(folder, { words: row[1]!, rows: [] })
      else [...known.values()].at(-1)?.rows.push(row)
    }
    return [...folders].flatMap(([folder, names]) => {
      const { words, rows } = known.get(folder) ?? { words: '', rows: [] }
      const named = naming(names, (name) => note(name, folder))(rows)
      return [[`**${code(`${folder}/`)}**`, words], ...named]
    })
  }
}

/** Files by folder, both in order: the name of each as its page has it. */
function byFolder(
  paths: readonly string[],
  nameOf: (path: string) => string,
): Map<string, string[]> {
  const folders = new Map<string, string[]>()
  for (const path of [...paths].sort()) {
    const folder = dirname(path)
    folders.set(folder, [...(folders.get(folder) ?? []), nameOf(path)])
  }
  return new Map([...folders].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** How the first comment of a file begins. */
function about(path: string): string {
  return wordsOf((/\/\*\*?([\s\S]*?)\*\//.exec(read(path))?.[1] ?? '').replaceAll(/^ \*/gm, ''))
}

const PHASES = new Map<number, string>([
  [PHASE_A, 'A'],
  [PHASE_B, 'B'],
  [PHASE_NONE, '-'],
])

const FIRMWARE: readonly PageTable[] = [
  {
    title: 'the faults are all there, with answer, code and meaning',
    page: 'firmware/doc/faults.md',
    head: '| | name | answer |',
    rows: keyed(
      FAULTS.map((fault, number) => {
        const shown = fault.code === 0 ? '' : `0x${fault.code.toString(16)}`
        return [String(number), code(fault.name), fault.answer, shown, fault.meaning]
      }),
    ),
  },
  {
    title: 'the recovery cases are all there, unchanged',
    page: 'firmware/doc/recovery.md',
    head: '| | found | phase |',
    rows: keyed(
      CASES.map(({ name, phase, when, then, sourceCase }, row) => {
        const answers = when.map((want) => (want === -1 ? 'any' : want === 1 ? 'yes' : 'no'))
        const source = sourceCase === 0 ? 'media' : String(sourceCase)
        return [String(row), name, PHASES.get(phase)!, ...answers, then, source]
      }),
    ),
  },
  {
    title: 'the limits are all there, with their values',
    page: 'firmware/doc/limits.md',
    head: '| limit | value |',
    rows: constantsOf('firmware/board/limits.ts', limits, /./),
  },
  {
    title: 'the attributes of the control call are all there',
    page: 'firmware/doc/control.md',
    head: '| attribute | method | does |',
    rows: inOrder(
      Object.entries(numbersOf(management))
        .filter(([name]) => name.startsWith('ATTRIBUTE_'))
        .map(([name, value]) => {
          const shown = `${code(`0x${value.toString(16)}`)} ${name.slice('ATTRIBUTE_'.length)}`
          return [shown, null, null]
        }),
      () => '',
    ),
  },
  {
    title: 'our own opcodes are all there, under their names',
    page: 'firmware/doc/wire.md',
    head: '| opcode | name | headers after BTH |',
    rows: keyed(
      OPCODES.flatMap((row) => {
        if (row?.name.startsWith('Perdure ') !== true) return []
        return [[code(`0x${row.opcode.toString(16)}`), row.name.slice('Perdure '.length), null]]
      }),
    ),
  },
  {
    title: 'the constants EVENT_… are all there, with their values',
    page: 'firmware/doc/elements.md',
    head: '| event | type |',
    rows: constantsOf(
      'firmware/host/header-page.ts',
      headerPage,
      /^EVENT_(?!BYTES|TYPE|QUEUE$|FAULT|STAMP)/,
    ),
  },
  {
    title: 'the constants STATUS_… are all there, with their values',
    page: 'firmware/doc/residency.md',
    head: '| kind | | says |',
    rows: constantsOf('firmware/wire/memory-status.ts', memoryStatus, /^STATUS_/),
  },
  {
    title: 'the constants CONDITION_… are all there, with their values',
    page: 'firmware/doc/batches.md',
    head: '| condition | | a record',
    rows: constantsOf('firmware/wire/persist.ts', persist, /^CONDITION_/),
  },
  {
    title: 'packet memory is laid out as the table says',
    page: 'firmware/doc/engine.md',
    head: '| name | at |',
    rows: constantsOf(
      'firmware/board/memory-map.ts',
      { ...hal, ...map },
      /^(\w+_AT|MEMORY_BYTES)$/,
    ),
  },
  {
    title: 'the table of costs is right',
    page: 'firmware/doc/persist.md',
    head: '| records | copies | board calls |',
    rows: (old) =>
      old.map(([records, copies]) => {
        const { commands, calls } = burstOf(Number(records), Number(copies))
        const count = (name: string): number => commands.filter(([op]) => op === name).length
        const counts = [calls, ...['fence', 'copyClean', 'check', 'transmit'].map(count)]
        return [records!, copies!, ...counts.map(String)]
      }),
  },
]

interface Run {
  readonly commands: readonly (readonly [string, number])[]
  readonly calls: number
}

/** What the card does with one burst of so many records. */
function burstOf(records: number, copies: number): Run {
  const card = new TestCard(1 << 20)
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

const BURST = /^(```text burst of one record\n)([\s\S]*?)^```$/m
const COMMAND = /^ *\d+ {2}(\w+) +(\d*) +(.*)$/

/** Takes the first line out of the list that is as `like` says. */
function takeFirst<T extends object>(lines: T[], like: Partial<T>): T | undefined {
  const wanted = Object.entries(like)
  const at = lines.findIndex((line) =>
    wanted.every(([key, value]) => line[key as keyof T] === value),
  )
  return at < 0 ? undefined : lines.splice(at, 1)[0]
}

/** The page with the list of commands that one burst of one record comes to. */
export function withBurst(page: string): string {
  return page.replace(BURST, (_, fence: string, block: string) => {
    const old = block.split('\n').flatMap((line) => {
      const [, op, length, words] = COMMAND.exec(line) ?? []
      return op === undefined ? [] : [{ op, length: Number(length), words: words! }]
    })
    const { commands } = burstOf(1, 2)
    // A command that has another length now keeps its words: it is the next one of its kind.
    const known = commands.map(([op, length]) => takeFirst(old, { op, length }))
    const lines = commands.map(([op, length], i) => {
      const words = (known[i] ?? takeFirst(old, { op }))?.words ?? ''
      const bytes = length === 0 ? '' : String(length)
      const number = String(i + 1).padStart(2)
      return `${number}  ${op.padEnd(9)}${bytes.padStart(6)}   ${words}`.trimEnd()
    })
    return `${fence}${lines.join('\n')}\n\`\`\``
  })
}

/** A code of the native runtime, and what it says of it. */
const EXIT_CODE = /EXIT_\w+ = (\d+),\s*\/\* (.*) \*\//g

const EXIT_CODES: readonly PageTable[] = [
  {
    title: 'the exit codes are all there',
    page: 'boards/doc/operating.md',
    head: '| code | meaning |',
    rows: (old) => {
      const ofCommand = Object.values(numbersOf(exitCodes))
      const ofRuntime = [...read('boards/linux/src/exit-codes.h').matchAll(EXIT_CODE)]
      const alone = new Map(ofRuntime.map(([, value, text]) => [Number(value), text!]))
      const codes = [...new Set([...ofCommand, ...alone.keys()])].sort((a, b) => a - b)
      const rows = codes.map((value) => [String(value), exitCodes.MEANINGS.get(value) ?? null])
      return keyed(rows, (key) => alone.get(Number(key))!)(old)
    },
  },
]

/** What to do about a reason, where something is known of it. */
const adviceOf = (reason: string): string[] => {
  const advice = adviceFor(reason)
  return advice === adviceFor('') ? [] : [advice]
}

const DRIVER: readonly PageTable[] = [
  ...['| `code` | what to do |', '| `code` in the end | what to do |'].map((head) => ({
    title: `what to do about a record of a batch is what its error says: ${head}`,
    page: 'host-driver/doc/batches.md',
    head,
    rows: (old: readonly Row[]) =>
      old.map(([name]) => [name!, adviceFor(name!.replaceAll('`', ''))]),
  })),
  {
    title: 'what to do about a refusal is what its error says',
    page: 'host-driver/doc/errors.md',
    head: '| `fault` | what to do |',
    rows: () => FAULTS.flatMap(({ name }) => adviceOf(name).map((advice) => [code(name), advice])),
  },
]

const EMULATOR: readonly PageTable[] = [
  {
    title: 'the times of the host model are those of the emulator',
    page: 'boards/emulator/README.md',
    head: '| what | ns |',
    rows: inOrder(
      Object.entries(numbersOf(hostMemory))
        .filter(([name]) => name.endsWith('_NS'))
        .map(([name, ns]) => [code(name), String(ns)]),
      () => '',
    ),
  },
]

const TESTS: readonly PageTable[] = [
  {
    title: 'the page about the tests names every file of tests',
    page: TESTS_PAGE,
    head: '| files | subject |',
    rows: namingIn(byFolder(TEST_FILES, testName), (name) => about(testFile(name))),
  },
  {
    title: 'the page about the helpers of tests names every one',
    page: 'test/support/README.md',
    head: '| helper | gives |',
    rows: namingIn(
      byFolder(
        filesBelow('test/support').filter((path) => path.endsWith('.ts')),
        (path) => basename(path),
      ),
      (name, folder) => about(`${folder}/${name}`),
    ),
  },
]

/** What `config.c` says of a key: its default and what it takes. */
const KEY =
  /\{"([a-z0-9-]+)", [A-Z0-9]+, FIELD\(\w+\), (?:"([^"]*)"|NULL),\s*"([^"]*(?:"\s*"[^"]*)*)"/g

const LINUX: readonly PageTable[] = [
  {
    title: 'the page of the native runtime has every key, with what it takes and its default',
    page: 'boards/linux/doc/configuration.md',
    head: '| key | takes | default |',
    rows: keyed(
      [...read('boards/linux/src/service/config.c').matchAll(KEY)].map(
        ([, name, fallback, takes]) => {
          const unless = fallback === undefined ? 'must be said' : fallback && code(fallback)
          return [code(name!), takes!.replaceAll(/"\s*"/g, ''), unless]
        },
      ),
    ),
  },
  {
    title: 'the page of the native runtime has every key of the supervisor',
    page: 'boards/linux/doc/perdure-boot.md',
    head: '| key of `boot.conf` | takes | default |',
    rows: keyed(
      Object.entries(KEYS).map(([name, { takes, fallback, most }]) => {
        const often = most === 1 ? '' : `; up to ${most} lines`
        const unless = fallback === null ? 'must be said' : fallback && code(fallback)
        return [code(name), takes + often, unless]
      }),
    ),
  },
  {
    title: 'the page of the native runtime has every exit code',
    page: LINUX_PAGE,
    head: '| code | meaning |',
    rows: keyed(
      [...read('boards/linux/src/exit-codes.h').matchAll(EXIT_CODE)].map(([, number, words]) => [
        number!,
        words!,
      ]),
    ),
  },
  {
    title: 'the page of the native runtime has every command of its console',
    page: LINUX_PAGE,
    head: '| command | answers with |',
    rows: keyed(
      [
        ...read('boards/linux/src/service/commands.c')
          .split('COMMANDS[] = {')[1]!
          .split('};')[0]!
          .matchAll(/\{"(\w+)", "([^"]*)"/g),
      ].map(([, name]) => [code(name!), null]),
    ),
  },
  {
    title: 'the page of the native runtime has every file',
    page: LINUX_PAGE,
    head: '| file in `src/` | duty |',
    rows: naming(
      filesBelow('boards/linux/src')
        .map((path) => path.slice('boards/linux/src/'.length))
        .filter((name) => name.endsWith('.c') && name !== 'service/fault.c'),
      (name) => about(`boards/linux/src/${name}`),
    ),
  },
]

const SHOWN: readonly PageTable[] = [
  {
    title: 'the page of the requirements says of each id what breaks it and who notices',
    page: 'firmware/doc/requirements-shown.md',
    head: '| id | in the source |',
    rows: keyed(
      IDS.map((id) => {
        const { file, broken, test } = ROWS.find((row) => row.id === id) ?? {}
        const names = [file, test].map((path) => (path === undefined ? '' : code(path)))
        return [id, null, names[0]!, broken ?? '', names[1]!]
      }),
    ),
  },
]

/** Every table that `node build.mjs doc` writes. */
export const TABLES: readonly PageTable[] = [
  ...FIRMWARE,
  ...EXIT_CODES,
  ...DRIVER,
  ...EMULATOR,
  ...TESTS,
  ...LINUX,
  ...SHOWN,
]

/** A page as the sources want it. */
export function pageOf(path: string): string {
  let page = withBurst(withBlocks(read(path), read))
  for (const { head, rows } of TABLES.filter((table) => table.page === path)) {
    page = withRows(page, head, rows)
  }
  return page
}
