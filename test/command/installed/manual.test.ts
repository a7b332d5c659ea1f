/**
 * The manual: what each command takes stands on its page, each example is one that the command
 * takes, and what prints pages has nothing to say of them. A program that this machine does not
 * have is skipped by name.
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { afterAll, describe, expect, test } from 'vitest'
import { isThere } from '../../../boards/tools/debian/programs.ts'
import { manualPage } from '../../../boards/tools/manual/roff.ts'
import { ENVIRONMENT, EXAMPLES, FILES, SEE } from '../../../host-driver/command/manual/facts.ts'
import { manualOf } from '../../../host-driver/command/manual/pages.ts'
import { createProgram } from '../../../host-driver/command/program.ts'
import { READERS, saidBy, shown } from '../../support/command/manual.ts'
import { ROOT, sourcesBelow } from '../../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-manual-'))
afterAll(() => rmSync(folder, { recursive: true }))

const VERSION = '1.2.3'
const program = (): Command => createProgram(VERSION)
const PAGES = new Map(manualOf(program(), VERSION).map(({ name, text }) => [name, text]))

/** Of what runs as the command: what builds boards reads more. */
const OF_COMMAND = /^(host-driver\/|boards\/([\w-]+\.ts$|software\/|emulator\/|flash\/|port\/))/
const SOURCES = ['host-driver', 'boards']
  .flatMap(sourcesBelow)
  .filter(({ path }) => OF_COMMAND.test(path))

/** Every command that is run, by its path. */
function leaves(command: Command, above = ''): [path: string, command: Command][] {
  const path = `${above} ${command.name()}`.trim()
  if (command.commands.length === 0) return [[path, command]]
  return command.commands.flatMap((one) => leaves(one, path))
}

describe('the pages', () => {
  test('there is one for the whole, and one for each command', () => {
    const names = program().commands.map((one) => `perdure-${one.name()}.1`)
    expect([...PAGES.keys()].sort()).toEqual(['perdure.1', ...names].sort())
    const whole = shown(PAGES.get('perdure.1')!)
    for (const one of program().commands) expect(whole).toContain(`perdure-${one.name()}(1)`)
  })

  test('each has everything that the help of its commands has', () => {
    const all = leaves(program())
    expect(all.length).toBeGreaterThan(35)
    for (const [path, command] of all) {
      const page = shown(PAGES.get(`perdure-${path.split(' ')[1]}.1`)!)
      const help = command.helpInformation()
      const options = [...help.matchAll(/^ {2}((?:-\w, )?--[a-z-]+)/gm)].map(([, flags]) => flags!)
      expect(options, path).toContain('-h, --help')
      for (const option of options) expect(page, path).toContain(`.TP ${option} `)
      for (const argument of command.registeredArguments) {
        const words = argument.description.replaceAll('`', '')
        expect(page, path).toContain(`.TP ${argument.name()} ${words}`)
      }
    }
  })

  test('a page that lacks an option is found', () => {
    const page = PAGES.get('perdure-persist.1')!
    expect(shown(page)).toContain('--batch condition')
    expect(shown(page.replace('\\-\\-batch', '\\-\\-other'))).not.toContain('--batch condition')
  })

  test('their bytes are of the sources alone', () => {
    const again = manualOf(program(), VERSION)
    expect(again.map(({ text }) => text)).toEqual([...PAGES.values()])
    const today = new Date().toISOString().slice(0, 10)
    for (const text of PAGES.values()) {
      expect(text).toMatch(/^\.TH \S+ 1 2026-01-01 "perdure 1\.2\.3" "Perdure"\n/)
      if (today !== '2026-01-01') expect(text).not.toContain(today)
    }
  })

  test('what they say to see is there', () => {
    const mine = [...PAGES.keys()].map((name) => name.replace(/\.1$/, '(1)'))
    const runtime = ['perdured(8)', 'perdure-boot(8)', 'perdured.conf(5)', 'perdure-boot.conf(5)']
    const named = Object.values(SEE).flat()
    expect(named.filter((name) => !mine.includes(name) && !runtime.includes(name))).toEqual([])
  })
})

describe('what people add', () => {
  const names = program()
    .commands.map((one) => one.name())
    .sort()

  test('every command has an example, and no other name has one', () => {
    expect(Object.keys(EXAMPLES).sort()).toEqual(names)
  })

  test('each example is a line that the command takes', async () => {
    const lines = Object.entries(EXAMPLES).flatMap(([name, rows]) => {
      return rows.map(([typed]) => ({ name, typed }))
    })
    for (const { name, typed } of lines) {
      const tree = program()
      let ran = ''
      for (const [path, command] of leaves(tree)) {
        command.configureOutput({ writeErr: () => {} })
        command.action(() => {
          ran = path
        })
      }
      await tree.parseAsync(typed.split(' ').slice(1), { from: 'user' })
      expect(ran.split(' ')[1], typed).toBe(name)
    }
    const wrong = program()
    for (const [, command] of leaves(wrong)) command.configureOutput({ writeErr: () => {} })
    await expect(wrong.parseAsync(['read', '--sideways'], { from: 'user' })).rejects.toThrow()
  })

  test('the environment that sources read is there, but for what tells of npm and Windows', () => {
    const read = SOURCES.flatMap(({ text }) => [
      ...[...text.matchAll(/process\.env\.(\w+)/g)].map(([, name]) => name!),
      ...[...text.matchAll(/\{ ([\w, ]+) \} = process\.env/g)].flatMap(([, all]) =>
        all!.split(', '),
      ),
      ...[...text.matchAll(/\.env\('(\w+)'\)/g)].map(([, name]) => name!),
    ])
    const told = ENVIRONMENT.map(({ term }) => term)
    expect([...new Set(read)].sort()).toEqual([...told, 'APPDATA', 'npm_command'].sort())
  })

  test('facts are of commands that there are', () => {
    const of = [...ENVIRONMENT, ...FILES].flatMap((fact) => fact.of ?? [])
    expect(of.filter((name) => !names.includes(name))).toEqual([])
  })
})

describe.each(READERS)('%s', (reader, debian, args) => {
  const why = isThere(reader) ? '' : ` (it is not here: Debian's ${debian})`
  test.skipIf(why !== '')(`has nothing to say of any page${why}`, () => {
    for (const [name, text] of PAGES) expect(saidBy(reader, args, text), name).toBe('')
    const wrong = PAGES.get('perdure.1')!.replace('.SH NAME', '.XY\n.SH NAME\n\\f')
    expect(saidBy(reader, args, wrong)).not.toBe('')
  })
})

const noMan = isThere('man') && isThere('lexgrog') ? '' : " (it is not here: Debian's man-db)"

describe.skipIf(noMan !== '')(`man${noMan}`, () => {
  const read = (page: string): string => {
    const path = join(folder, 'read.1')
    writeFileSync(path, page)
    const env = { ...process.env, LC_ALL: 'C.UTF-8', MANWIDTH: '80', MAN_KEEP_FORMATTING: '' }
    const { stdout } = spawnSync('man', ['-P', 'cat', '-l', path], { encoding: 'utf8', env })
    return stdout
  }

  test('prints whatever a text has in it as it is', () => {
    const words = `.PP 'a' "b" \\fB \\\\n -- --x ^ ~ é … %s`
    const head = { name: 'x-y', section: 1, about: words, version: VERSION } as const
    const blocks = [
      { paragraph: `. ${words}` },
      { example: [words, `'${words}`, '', '.br'] },
      {
        rows: [
          [words, words],
          ['.x', ''],
        ] as const,
      },
    ]
    const text = read(manualPage(head, [{ title: 'HERE', blocks }])).replaceAll(/\s+/g, ' ')
    for (const piece of [
      `x-y - ${words}`,
      `. ${words}`,
      `${words} '${words} .br`,
      `${words} ${words}`,
    ]) {
      expect(text).toContain(piece)
    }
  })

  test('finds by its name what each page is about', () => {
    for (const [name, text] of PAGES) {
      const path = join(folder, name)
      writeFileSync(path, text)
      const { stdout } = spawnSync('lexgrog', [path], { encoding: 'utf8' })
      const title = name.replace(/\.1$/, '')
      expect(stdout).toContain(`"${title} - `)
    }
  })
})

test('npm installs the pages that the build leaves', () => {
  const about = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    directories: { man: string }
  }
  expect(about.directories.man).toBe('dist/manual')
  expect(readFileSync(join(ROOT, 'build.mjs'), 'utf8')).toContain("join(DIST, 'manual')")
})
