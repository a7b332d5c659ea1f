/**
 * The manual of the runtime: options, keys, exit codes and environment are those that the sources
 * of perdured and perdure-boot have, and the programs say of which release they are.
 */

import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { KEYS } from '../../../../boards/linux/boot/script/settings.ts'
import { runtimeManual } from '../../../../boards/linux/manual.ts'
import { isThere } from '../../../../boards/tools/debian/programs.ts'
import { below, blocksOfPage } from '../../../../boards/tools/manual/markdown.ts'
import { OWN_ARCHITECTURE, perduredMissing, perduredPath } from '../../../support/board/perdured.ts'
import { READERS, saidBy, shown } from '../../../support/command/manual.ts'
import { filesBelow, ROOT } from '../../../support/source/sources.ts'

const VERSION = '1.2.3'
const PAGES = new Map(runtimeManual(VERSION).map(({ name, text }) => [name, text]))
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** The terms of a section of a page, in order. */
function terms(page: string, title: string): string[] {
  const text = PAGES.get(page)!
  const [, section = ''] = text.split(`\n.SH ${title}\n`)
  const rows = section.split('\n.SH ')[0]!.split('.TP\n').slice(1)
  return rows.map((row) => shown(row.split('\n')[0]!).trim())
}

/** The first word of each. */
const names = (words: readonly string[]): string[] =>
  words.map((word) => word.split(' ')[0]!).sort()

describe('the pages', () => {
  test('perdured(8) has every option that perdured takes, and no other', () => {
    const [, table] = /OPTIONS\[\] = \{(.*?)\n {2}\};/s.exec(read('boards/linux/src/main.c'))!
    const taken = [...table!.matchAll(/\{"([a-z]+)"/g)].map(([, name]) => `--${name}`)
    expect(taken.length).toBeGreaterThan(6)
    expect(names(terms('perdured.8', 'OPTIONS'))).toEqual(taken.sort())
    const [, usage] = /USAGE\[\] =(.*?);\n\n/s.exec(read('boards/linux/src/main.c'))!
    for (const option of taken) if (option !== '--help') expect(usage).toContain(`"  ${option} `)
  })

  test('perdure-boot(8) has every option that perdure-boot takes, and no other', () => {
    const script = read('boards/linux/boot/script/main.ts')
    const taken = [...script.matchAll(/^ {2}(--[a-z]+) /gm)].map(([, name]) => name!)
    expect(taken).toEqual(['--config', '--notify', '--version'])
    expect(script).toContain("['--config', '--notify'].includes(name)")
    expect(read('boards/linux/boot/main.c')).toContain('"--version"')
    expect(names(terms('perdure-boot.8', 'OPTIONS'))).toEqual(taken)
  })

  test('the pages of the configurations have every key', () => {
    const source = read('boards/linux/src/service/config.c')
    const keys = [...source.matchAll(/^ {2}\{"([a-z0-9-]+)", [A-Z0-9]+, FIELD/gm)]
    expect(keys.length).toBeGreaterThan(25)
    expect(terms('perdured.conf.5', 'KEYS')).toEqual(keys.map(([, name]) => name!))
    expect(terms('perdure-boot.conf.5', 'KEYS')).toEqual(Object.keys(KEYS))
    expect(shown(PAGES.get('perdured.conf.5')!)).toContain('OTHER:PORT; a line for each')
  })

  test('exit codes and environment are all there', () => {
    const codes = [...read('boards/linux/src/exit-codes.h').matchAll(/EXIT_\w+ = (\d+)/g)]
    expect(terms('perdured.8', 'EXIT STATUS')).toEqual(codes.map(([, code]) => code!))
    const sources = filesBelow('boards/linux/src').filter((path) => path.endsWith('.c'))
    const asked = sources.flatMap((path) =>
      [...read(path).matchAll(/getenv\("(\w+)"\)/g)].map(([, name]) => name!),
    )
    expect(
      terms('perdured.8', 'ENVIRONMENT')
        .flatMap((term) => term.split(', '))
        .sort(),
    ).toEqual([...new Set(asked)].sort())
  })

  test('no link, bar or mark of a page of the documentation is left in them', () => {
    for (const text of PAGES.values())
      expect(shown(text)).not.toMatch(/\]\(|\*\*|^\|| \(how\)|npx /m)
  })
})

test('a page of the documentation becomes terms, items, examples and paragraphs', () => {
  const page = [
    '# Title\n\n[Up](../a.md)\n\nWords of a [link](b.md),\nand more ([why](c.md)).',
    '## Part',
    '| key | takes | default |\n|---|---|---|\n| `a` | x\\|y | `x` |\n| `b` | z | said |',
    '- `a`, `b`: **both**\n  of them\n- when it ends,\n\n```sh\nnpx perdure x\n```\n\n    indented',
    '## Next\n\nOther.',
  ].join('\n\n')
  expect(blocksOfPage(below(page, 'Part'))).toEqual([
    {
      rows: [
        ['a', 'x|y; `x` by default'],
        ['b', 'z; said'],
      ],
    },
    { rows: [['a, b', 'both of them']] },
    { item: 'when it ends,' },
    { example: ['perdure x'] },
    { example: ['indented'] },
  ])
  expect(blocksOfPage(page)[0]).toEqual({ paragraph: 'Words of a link, and more.' })
  expect(() => below(page, 'Absent')).toThrow('Absent')
})

describe.each(READERS)('%s', (reader, debian, args) => {
  const why = isThere(reader) ? '' : ` (it is not here: Debian's ${debian})`
  test.skipIf(why !== '')(`has nothing to say of any page${why}`, () => {
    for (const [name, text] of PAGES) expect(saidBy(reader, args, text), name).toBe('')
  })
})

const missing = perduredMissing(OWN_ARCHITECTURE, '')
const whyNot = missing === null ? '' : ` (${missing})`

test.skipIf(missing !== null)(
  `perdured and perdure-boot say of which release they are${whyNot}`,
  () => {
    const { version } = JSON.parse(read('package.json')) as { version: string }
    for (const name of ['perdured', 'perdure-boot']) {
      const program = join(perduredPath(OWN_ARCHITECTURE, ''), '..', name)
      const { status, stdout, stderr } = spawnSync(program, ['--version'], { encoding: 'utf8' })
      expect([status, stdout, stderr]).toEqual([0, `${name} ${version}\n`, ''])
    }
    const help = spawnSync(perduredPath(OWN_ARCHITECTURE, ''), ['--help'], { encoding: 'utf8' })
    for (const key of terms('perdured.conf.5', 'KEYS')) expect(help.stdout).toContain(`  ${key}`)
  },
)
