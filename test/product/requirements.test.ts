/**
 * Ids: each that the repository names has its line in firmware/doc, once, and each line is named.
 *
 * An id is a short name of what is to hold, such as X-1 or H7. Those of one letter and a number
 * are looked for in TypeScript, scripts and pages alone: compilers and assemblers have such words.
 */

import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { filesBelow, ROOT } from '../support/source/sources.ts'

const FOLDER = 'firmware/doc'
const PAGES = [
  ...['requirements', 'requirements-sources', 'requirements-review', 'requirements-shown'],
  ...['crash-model', 'wire-format', 'glossary'],
].map((name) => `${FOLDER}/${name}.md`)

/** Recorded frames and keys, in which anything may look like an id; and this file. */
const NOT_READ = /^(?:test\/vectors\/|test\/product\/requirements\.test\.ts$)/
const TEXT = /\.(?:ts|mjs|mts|md|c|h|sh|py)$/
const PROSE = /\.(?:ts|mjs|mts|md)$/

const LONG = String.raw`(?:P[1-5]|G2|D|X|R31)-\d+|R1-[A-Z]\d+|S1-M\d+`
const SHORT = String.raw`[BFHILN]\d{1,2}|O[0-7]|C\d+[bc]?|S9\d\d|S10\d\d`
const BESIDE = [String.raw`(?<![\w.#-])`, String.raw`(?![\w-])`] as const

/** Words that look like ids and are none: a language, and a stage that a test makes up. */
const NO_IDS = new Set(['C0'])

/** Every id in `text`, with all that a range such as `N6 to N9` stands for. */
function idsOf(text: string, pattern: string): string[] {
  const id = new RegExp(`${BESIDE[0]}(?:${pattern})${BESIDE[1]}`, 'g')
  const range = new RegExp(
    `${BESIDE[0]}(${pattern})\`? ?(?:to|…|–)[ \`]*(${pattern})${BESIDE[1]}`,
    'g',
  )
  const within = [...text.matchAll(range)].flatMap(([, first, last]) => between(first!, last!))
  return [...within, ...(text.match(id) ?? [])].filter((one) => !NO_IDS.has(one))
}

/** `first` to `last`, where both count the same things. */
function between(first: string, last: string): string[] {
  const [, name, from] = /^(.*?)(\d+)$/.exec(first) ?? []
  const [, other, to] = /^(.*?)(\d+)$/.exec(last) ?? []
  if (name === undefined || name !== other) return []
  return Array.from({ length: Math.max(0, Number(to) - Number(from) + 1) }, (_, i) => {
    return `${name}${Number(from) + i}`
  })
}

interface Line {
  readonly id: string
  readonly open: boolean
}

/** The lines of a page: `- **X-1** …`, or `- **S901 to S903** …` for several. */
function linesOf(page: string): Line[] {
  return [...page.matchAll(/^- \*\*([^*]+)\*\* (\*Open\.\*)?/gm)].flatMap(([, ids, open]) => {
    const found = new Set(idsOf(ids!, `${LONG}|${SHORT}`))
    return [...found].map((id) => ({ id, open: open !== undefined }))
  })
}

interface Text {
  readonly path: string
  readonly text: string
}

/** What is wrong with the lines of `pages`, as names of `texts` go. */
function complaints(pages: readonly string[], texts: readonly Text[]): string[] {
  const lines = pages.flatMap(linesOf)
  const known = new Set(lines.map(({ id }) => id))
  const named = new Map<string, string>()
  for (const { path, text } of texts) {
    const ids = idsOf(text, PROSE.test(path) ? `${LONG}|${SHORT}` : LONG)
    for (const id of ids) if (!named.has(id)) named.set(id, path)
  }
  const wrong = [...named].filter(([id]) => !known.has(id))
  const double = lines.filter(({ id }, at) => lines.findIndex((line) => line.id === id) !== at)
  const unnamed = lines.filter(({ id, open }) => !open && !named.has(id))
  const done = lines.filter(({ id, open }) => open && named.has(id))
  return [
    ...wrong.map(([id, path]) => `${id}, of ${path}, has no line`),
    ...double.map(({ id }) => `${id} has two lines`),
    ...unnamed.map(({ id }) => `${id} is named nowhere`),
    ...done.map(({ id }) => `${id} is named by ${named.get(id)}, and still marked as open`),
  ]
}

/** The numbers by which `kind` is named: `wire-format 3.3, 3.5 to 3.6` has 3.3, 3.5 and 3.6. */
function numbersOf(text: string, kind: string): string[] {
  const more = String.raw`(?:(?:,| to| and)[\s*/]+\d+\.\d+)*`
  const list = new RegExp(
    String.raw`\b${kind}(?: section)?(?:[\s*/]+| ?\()(\d+(?:\.\d+)?${more})`,
    'g',
  )
  return [...text.matchAll(list)].flatMap(([, numbers]) => numbers!.match(/\d+(?:\.\d+)?/g) ?? [])
}

/** Has `page` a heading or an entry of that number? */
function hasNumber(page: string, number: string): boolean {
  const digits = number.replace('.', String.raw`\.`)
  return new RegExp(String.raw`^(?:## |- \*\*)${digits}(?:[ :*]|$)`, 'm').test(page)
}

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

const TEXTS: readonly Text[] = filesBelow('.')
  .filter((path) => TEXT.test(path) && !NOT_READ.test(path) && !PAGES.includes(path))
  .map((path) => ({ path, text: read(path) }))

test('every id has its line, once, and every line is named or open', () => {
  expect(complaints(PAGES.map(read), TEXTS)).toEqual([])
})

test.each(['wire-format', 'crash-model'])('every number of %s that is named is there', (kind) => {
  const page = read(`${FOLDER}/${kind}.md`)
  const wrong = TEXTS.flatMap(({ path, text }) => {
    const numbers = numbersOf(text, kind)
    return numbers.filter((number) => !hasNumber(page, number)).map((one) => `${path}: ${one}`)
  })
  expect(wrong).toEqual([])
})

test.each(PAGES)('%s has at most 300 lines, and its links lead to files', (path) => {
  const page = read(path)
  expect(page.split('\n').length).toBeLessThanOrEqual(301)
  const links = [...page.matchAll(/\]\(([^)#:\s]+)(?:#[^)]*)?\)/g)].map(([, to]) => to!)
  expect(links.filter((to) => !existsSync(join(ROOT, dirname(path), to)))).toEqual([])
})

describe('it notices', () => {
  const page = '- **X-1** One.\n- **H1** Two.\n- **S901 to S902** Both.\n- **X-9** *Open.* Later.\n'
  const text = 'X-1, H1 to H1 (S901 to S902)'
  const told = (more: string, pages = [page], path = 'a.ts'): string[] => {
    return complaints(pages, [{ path, text: `${text}\n${more}` }])
  }

  test.each([
    ['nothing, where all is there', '', []],
    ['an id without a line', 'P3-99', ['P3-99, of a.ts, has no line']],
    ['an id of one letter', "test('N7: …')", ['N7, of a.ts, has no line']],
    [
      'what lies within a range',
      'H1 to H3',
      ['H2, of a.ts, has no line', 'H3, of a.ts, has no line'],
    ],
    ['an open one that is named', 'X-9', ['X-9 is named by a.ts, and still marked as open']],
    ['no options, hashes or names in other words', '-O1 #C7 H2O C9-88 A-X-7b', []],
  ])('%s', (_, more, expected) => {
    expect(told(more)).toEqual(expected)
  })

  test('short words of other languages are no ids, and long ones are', () => {
    expect(told('C7, C12: D-99', [page], 'a.c')).toContain('D-99, of a.c, has no line')
    expect(told('C7, C12', [page], 'a.c').join()).not.toContain('C12')
  })

  test('a line twice, and a line of what nobody names', () => {
    expect(told('', [page, '- **X-1** Again.\n'])).toEqual(['X-1 has two lines'])
    expect(told('', [page, '- **X-3** More.\n'])).toEqual(['X-3 is named nowhere'])
  })

  test('numbers in lists, ranges and over the end of a line', () => {
    const sentence =
      'wire-format 3.3, 3.10, 4.1 to 6.2; (wire-format\n * 9.4), wire-format section 7'
    expect(numbersOf(sentence, 'wire-format')).toEqual(['3.3', '3.10', '4.1', '6.2', '9.4', '7'])
    expect(hasNumber('- **3.10 Rest** x', '3.1')).toBe(false)
    expect(hasNumber('- **3.10 Rest** x\n## 4 More', '4')).toBe(true)
  })
})
