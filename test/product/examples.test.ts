/**
 * The examples of the pages, as a user types them: each program prints what its page shows, and the
 * commands of the first page go through in their order.
 *
 * Only what a machine decides is exchanged: the port of a card, and where the package lies.
 */

import { type ChildProcess, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { read } from '../pages/tables.ts'
import { emulateIn, PLAIN } from '../support/command/command.ts'
import { PATIENCE_MS } from '../support/run/patience.ts'
import { ROOT } from '../support/source/sources.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-examples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let folders = 0
function fresh(): string {
  const path = join(folder, String(folders++))
  mkdirSync(path)
  return path
}

const cards: ChildProcess[] = []
afterEach(async () => {
  for (const card of cards.splice(0)) {
    if (card.exitCode !== null || card.signalCode !== null) continue
    card.kill('SIGKILL')
    await once(card, 'exit')
  }
})

/** The fenced blocks of a page, with the prose before each. */
function blocksOf(page: string): { info: string; text: string; before: string }[] {
  const fenced = /([\s\S]*?)^```([^\n]*)\n([\s\S]*?)^```$/gm
  return [...read(page).matchAll(fenced)].map(([, before, info, text]) => ({
    ...{ info: info!, text: text!, before: before! },
  }))
}

/** The program of that name on a page, and what the page says that it prints. */
function programOf(page: string, name: string): { program: string; prints: string } {
  const blocks = blocksOf(page)
  const at = blocks.findIndex(({ info, before }) => info === 'js' && before.includes(`\`${name}\``))
  expect(at, `${page} has ${name}`).toBeGreaterThanOrEqual(0)
  return { program: blocks[at]!.text, prints: blocks[at + 1]!.text }
}

/** What a page says after `perdure emulate`, on a line that has those words. */
function cardOf(page: string, words: string): string[] {
  const lines = blocksOf(page)
    .filter(({ info }) => info === 'sh')
    .flatMap(({ text }) => text.replaceAll(/\\\n\s*/g, '').split('\n'))
  const line = lines.find((one) => one.includes('perdure emulate') && one.includes(words))
  return line!.split('perdure emulate ')[1]!.split(' ')
}

/** Starts that card in `at`, on a free port; the target that reaches it. */
async function start(at: string, args: readonly string[]): Promise<string> {
  const port = args.includes('--host') ? [] : ['--udp', '127.0.0.1:0']
  const kept = args.filter((_, i) => args[i] !== '--udp' && args[i - 1] !== '--udp')
  const given = kept.map((word) => (word.startsWith('unix:') ? `unix:${at}/plug` : word))
  const [card, told] = await emulateIn(at, 1, [...given, ...port])
  cards.push(card)
  return told[0]!
}

/** What a page's program prints, run in `at` against that target. */
function printed(at: string, program: string, target: string): string {
  const packageAt = (name: string): string => pathToFileURL(join(ROOT, 'dist', name)).href
  const text = program
    .replaceAll("'perdure/emulator'", `'${packageAt('emulator.js')}'`)
    .replaceAll("'perdure'", `'${packageAt('index.js')}'`)
    .replaceAll(/'perdure:\/\/127\.0\.0\.1(?::\d+)?'/g, `'${target}'`)
  writeFileSync(join(at, 'example.mjs'), text)
  const options = { cwd: at, encoding: 'utf8', env: PLAIN, timeout: PATIENCE_MS } as const
  const done = spawnSync(process.execPath, ['example.mjs'], options)
  expect(done.status, done.stderr).toBe(0)
  return done.stdout
}

const NOTES = { page: 'README.md', words: '--region notes' }
const PORTS = { page: 'host-driver/doc/bytes.md', words: '--publish' }
const HEAP = { page: 'host-driver/doc/status.md', words: '--memory' }
const HOST = { page: 'host-driver/doc/local-card.md', words: '--host' }

const PROGRAMS = [
  ['README.md', 'first.mjs', NOTES],
  ['host-driver/doc/batches.md', 'batch.mjs', NOTES],
  ['host-driver/doc/bytes.md', 'port.mjs', PORTS],
  ['host-driver/doc/bytes.md', 'bytes.mjs', PORTS],
  ['host-driver/doc/bytes.md', 'dual.mjs', PORTS],
  ['host-driver/doc/status.md', 'memory.mjs', HEAP],
  ['host-driver/doc/verbs.md', 'queues.mjs', HOST],
  ['host-driver/doc/local-card.md', 'hosts.mjs', null],
] as const

describe('programs', () => {
  test.each(PROGRAMS)('%s: %s prints what the page shows', async (page, name, card) => {
    const at = fresh()
    const { program, prints } = programOf(page, name)
    const target = card === null ? '' : await start(at, cardOf(card.page, card.words))
    expect(printed(at, program, target)).toBe(prints)
  })

  test('a batch by the verbs, in the place of the two requests', async () => {
    const at = fresh()
    const page = 'host-driver/doc/verbs.md'
    const { program } = programOf(page, 'queues.mjs')
    const batch = blocksOf(page).find(({ text }) => text.startsWith('const record ='))!.text
    const posts = /qp\.postSend\(\[[\s\S]*?\]\) \/\/ two elements, one doorbell\n/
    expect(program).toMatch(posts)
    const three = program.replace(posts, batch).replaceAll('done.length < 2', 'done.length < 3')
    const target = await start(at, cardOf(HOST.page, HOST.words))
    const lines = printed(at, three, target).split('\n').slice(0, 3)
    expect(lines).toEqual(['0n', '1n', '2n'].map((id) => `${id} PERSIST SUCCESS 2`))
  })
})

/** Runs a line of a page in `at` against that target; what it says. */
function typed(at: string, line: string, target: string): string {
  const command = `"${process.execPath}" "${join(ROOT, 'dist/perdure.js')}"`
  const text = line.replace('npx perdure', command).replace('perdure://127.0.0.1', target)
  const done = spawnSync('sh', ['-c', text], { cwd: at, encoding: 'utf8', env: PLAIN })
  expect(done.status, `${line}: ${done.stderr}`).toBe(0)
  return done.stdout + done.stderr
}

const linesOf = (text: string): string[] => text.trim().split('\n')

describe('commands', () => {
  test('a record is persisted by hand, and is there after kill -9', async () => {
    const at = fresh()
    const blocks = blocksOf('README.md')
    const shown = blocks.findIndex(({ text }) => text.includes('echo '))
    const target = await start(at, cardOf(NOTES.page, NOTES.words))
    const said = linesOf(blocks[shown]!.text).map((line) => typed(at, line, target))
    const measured = /^(latency|requests)/
    const kept = linesOf(blocks[shown + 1]!.text).filter((line) => !measured.test(line))
    for (const line of kept) expect(said.join('')).toContain(line)
    // A busy machine answers late, and is asked again.
    const requests = (text: string): number => {
      const [, sent, repeated] = /^requests +(\d+), of them (\d+) repeated$/m.exec(text)!
      return Number(sent) - Number(repeated)
    }
    expect(requests(said.join(''))).toBe(requests(blocks[shown + 1]!.text))

    cards[0]!.kill('SIGKILL')
    await once(cards[0]!, 'exit')
    const looks = blocks.find(({ text }) => text.includes('perdure recover part.nvdimm'))!
    const found = linesOf(looks.text).map((line) => typed(at, line, target))
    expect(found.join('')).toContain('Two copies, or none.')
  })

  test('a record goes through one card into another, and outlives its end by kill -9', async () => {
    const at = fresh()
    const page = 'host-driver/doc/records.md'
    const target = await start(at, cardOf(page, '--netdev'))
    const far = cardOf(page, '--join')
    await start(at, far)
    const block = blocksOf(page).find(({ text }) => text.includes(' --attach '))
    const lines = linesOf(block!.text)
    const said = lines.map((line) => typed(at, line, target))
    expect(said.join('')).toMatch(/^durable +1 records, .* of 10\.0\.0\.3$/m)
    cards[1]!.kill('SIGKILL')
    await once(cards[1]!, 'exit')
    await start(at, far)
    expect(typed(at, lines.at(-1)!, target)).toContain('Kept over there.')
  })

  test.each([
    ['host-driver/doc/batches.md', 'persist', NOTES],
    ['host-driver/doc/local-card.md', 'persist', HOST],
    ['host-driver/doc/status.md', 'inspect', HEAP],
  ] as const)('those of %s with %s go through', async (page, word, card) => {
    const at = fresh()
    writeFileSync(join(at, 'note.txt'), 'Two copies, or none.\n')
    const target = await start(at, cardOf(card.page, card.words))
    const block = blocksOf(page).find(({ info, text }) => {
      return info === 'sh' && text.startsWith(`npx perdure ${word}`)
    })
    for (const line of linesOf(block!.text)) typed(at, line, target)
  })
})
