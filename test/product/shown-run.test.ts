/**
 * The run that the first page shows is the run that comes: with the seed that stands there, the
 * demonstration says line by line what the pages say. And who starts something slow knows how slow
 * it is (R1-U10).
 */

import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PAGES, read } from '../pages/tables.ts'
import { PLAIN } from '../support/command/command.ts'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-shown-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The text in one line, as pages break lines elsewhere. */
const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').trim()

let said = ''
beforeAll(() => {
  const command = [join(ROOT, 'dist/perdure.js'), 'demo']
  const run = spawnSync(process.execPath, command, { cwd: folder, encoding: 'utf8', env: PLAIN })
  said = plain(`${run.stderr}\n${run.stdout}`)
})

/** The lines that are shown of it, but for what a clock has measured; one may be cut short. */
function shownBy(page: string): string[] {
  const block = /^```text\n(seed \d+: the power will go[\s\S]*?)^```$/m.exec(read(page))![1]!
  const lines = block.split('\n').filter((line) => !/^ +time /.test(line))
  return lines.map((line) => plain(line.replace(/…$/, ''))).filter((line) => line !== '')
}

test.each(['README.md', 'boards/doc/demonstration.md'])(
  'R1-U10: the run that %s shows is what npm start says',
  (page) => {
    const lines = shownBy(page)
    expect(lines.join('\n')).toMatch(/^SHA-256 written [0-9a-f]{64}$/m)
    for (const line of lines) expect(said).toContain(line)
  },
)

/** What takes more than half a minute, and how pages name times. */
const SLOW = [
  'npm test',
  'npm run test:thorough',
  'npm run evidence',
  'npm run test:interop',
  'npm run board:qemu',
  'node build.mjs --board linux',
]
const TIME = /second|minute|quarter of an hour|an hour| \d+ s\b/

/** The sections of a page, each with its heading. */
const sectionsOf = (page: string): string[] => read(page).split(/^(?=#+ )/m)

test.each(SLOW)('R1-U10: where %s is explained, it says how long it takes', (command) => {
  const names = new RegExp(`${command}(?=[\\s\`])`)
  const sections = PAGES.flatMap(sectionsOf).filter((text) => names.test(text))
  expect(sections.length).toBeGreaterThan(0)
  expect(sections.filter((text) => TIME.test(text))).not.toEqual([])
})
