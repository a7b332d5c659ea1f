/** The programs of the examples, as a user runs them: each prints what its page shows. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { read } from '../../pages/tables.ts'
import { emulateIn, PLAIN } from '../../support/command/command.ts'
import { ROOT } from '../../support/source/sources.ts'

const EXAMPLES = 'host-driver/examples'
const folder = mkdtempSync(join(tmpdir(), 'perdure-programs-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const cards: ChildProcess[] = []
afterEach(async () => {
  for (const card of cards.splice(0)) {
    card.kill('SIGKILL')
    await once(card, 'exit')
  }
})

/** The folders of the examples. */
const NAMES = readdirSync(join(ROOT, EXAMPLES), { withFileTypes: true })
  .filter((one) => one.isDirectory())
  .map(({ name }) => name)

/** What the page of an example has its reader type, and what it says comes then. */
function shownOf(name: string): { command: string; prints: string } {
  const page = read(`${EXAMPLES}/${name}/README.md`)
  const [, command, prints] = /```sh\nnode (.*)\n```\n\n```text\n([\s\S]*?)```/.exec(page)!
  return { command: command!, prints: prints! }
}

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs a program to its end. */
async function run(cwd: string, program: string, ...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [program, ...args], { cwd, env: PLAIN })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (piece: string) => {
      said[name] += piece
    })
  }
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...said }
}

/** An emulated card of its own, with room for the examples; how it is reached. */
async function startCard(name: string): Promise<string> {
  const words = ['--create', '--region', 'notes:16:64', '--udp', '127.0.0.1:0']
  const [card, told] = await emulateIn(folder, 1, [name, ...words])
  cards.push(card)
  return told[0]!
}

/** What a program says where nobody cuts the power: the lines of its page but for those on that. */
const withoutCut = (prints: string): string => prints.replaceAll(/^.*\bpower\b.*\n/gm, '')

describe('the examples', () => {
  test('are those of their page', () => {
    const page = read(`${EXAMPLES}/README.md`)
    expect(
      [...page.matchAll(/^\| \[([\w-]+)\]\(\1\/README\.md\)/gm)].map(([, name]) => name).sort(),
    ).toEqual([...NAMES].sort())
  })

  test.each(NAMES)(
    '%s prints what its page shows, from the folder of the repository',
    async (name) => {
      const { command, prints } = shownOf(name)
      expect(command).toBe(`${EXAMPLES}/${name}/${name}.mjs`)
      const { code, stdout, stderr } = await run(ROOT, command)
      expect(stdout, stderr).toBe(prints)
      expect(code).toBe(0)
      // It says on every connection that this memory does not outlive the power, and nothing else.
      expect(stderr.replaceAll(/^\(.*(PERDURE_VOLATILE|--trace-warnings).*\n/gm, '')).toBe('')
    },
  )

  test.each(NAMES.filter((name) => name !== 'two-cards'))(
    '%s runs on a card that is named',
    async (name) => {
      const { command, prints } = shownOf(name)
      const target = await startCard(`${name}.nvdimm`)
      const more = name === 'block-cache' ? [join(folder, 'blocks')] : []
      const { code, stdout, stderr } = await run(ROOT, command, target, ...more)
      const wanted = withoutCut(prints).replace('is notified', 'is not notified, and looks again')
      expect(stdout, stderr).toBe(wanted)
      expect(code).toBe(0)
      // Once more, on what the first run has left there.
      expect(await run(ROOT, command, target, ...more)).toMatchObject({ code: 0 })
    },
  )

  test('two-cards runs on two cards that are named', async () => {
    const { command } = shownOf('two-cards')
    const targets = [await startCard('first.nvdimm'), await startCard('second.nvdimm')]
    const { code, stdout, stderr } = await run(ROOT, command, ...targets)
    expect(code, stderr).toBe(0)
    expect(stdout.trim().split('\n').slice(3)).toEqual([
      ...['record 2 is durable on both cards', 'record 0 is north', 'record 1 is east'],
      ...['record 2 is west', 'record 2 is up'],
    ])
  })

  test('one that is copied runs with the package beside it', async () => {
    const own = join(folder, 'own')
    mkdirSync(join(own, 'node_modules'), { recursive: true })
    symlinkSync(ROOT, join(own, 'node_modules/perdure'))
    for (const file of ['store', 'card.mjs', 'replace.mjs']) {
      cpSync(join(ROOT, EXAMPLES, file), join(own, file), { recursive: true })
    }
    const { code, stdout, stderr } = await run(own, 'store/store.mjs')
    expect(stdout, stderr).toBe(shownOf('store').prints)
    expect(code).toBe(0)
  })

  test('a target that is none is refused by its name', async () => {
    const { code, stderr } = await run(ROOT, `${EXAMPLES}/log/log.mjs`, 'nowhere')
    expect(code).not.toBe(0)
    expect(stderr).toContain('PERDURE_TARGET')
  })
})
