/**
 * Names that a terminal would obey, in a part that has them already: what every look at it says, on
 * standard output and on standard error, with and without --json; a card that names its image, its
 * board and its refusals so.
 *
 * Invariant: of what comes out nothing but the end of a line is a control, and each line is
 * one that the command made; JSON reads back as the name that it is.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { printable } from '../../host-driver/base/printable.ts'
import { Output } from '../../host-driver/command/base/output.ts'
import { table } from '../../host-driver/command/base/table.ts'
import { connect } from '../../host-driver/connect.ts'
import { openLocal } from '../../host-driver/local.ts'
import { HOSTILE_NAMES, obeyedIn, renamed } from '../support/cards/hostile-names.ts'
import { emulateIn, endAt, type Run, runIn, stop } from '../support/command/command.ts'
import { writtenBy } from '../support/command/screen.ts'

const folder = mkdtempSync(join(tmpdir(), 'perdure-hostile-'))
const at = (name: string): string => join(folder, name)

/** Those that are text, as a command line has them. */
const OF_TEXT = HOSTILE_NAMES.map(([, name]) => name)
  .filter((name) => Buffer.from(Buffer.from(name).toString('utf8')).equals(name))
  .map((name) => Buffer.from(name).toString('utf8'))

/** A name with an escape sequence, a bell, the end of a line and a direction. */
const WORST = '\u001b[31m\u0007\r\na\u202e\u009b'
const SHOWN = '\\x1b[31m\\x07\\x0d\\x0aa\\u202e\\x9b'

beforeAll(async () => {
  const part = { path: at('part'), bytes: 1 << 21, engine: 'node', seed: 1 } as const
  const local = await openLocal(part)
  const dpu = await connect(local.wire, { seed: 1, warn: () => {} })
  await dpu.format()
  for (const i of HOSTILE_NAMES.keys()) {
    const region = await dpu.provision({ name: `orders ${i} .`, slots: 2, capacity: 64 })
    await region.persist(0, Buffer.from(`record of ${i} .`)).persisted
  }
  await dpu.provisionBytes({ name: 'worst', length: 4096 })
  await dpu.close()
  local.close()
  let image = renamed(readFileSync(at('part')), 'worst', Buffer.from(WORST))
  for (const [i, [, name]] of HOSTILE_NAMES.entries()) image = renamed(image, `orders ${i} .`, name)
  for (const name of ['part', 'served', 'scanned']) writeFileSync(at(name), image)
  // Neither copy of a record is whole.
  const lost = Buffer.from(image)
  for (let from = 0; ; from++) {
    from = lost.indexOf('record of 0 .', from)
    if (from < 0) break
    lost.fill(0x2a, from, from + 4)
  }
  writeFileSync(at('lost'), lost)
})

afterAll(() => rmSync(folder, { recursive: true }))

/** What a run said has nothing in it to obey. */
function expectHarmless({ stdout, stderr }: Run): void {
  expect(obeyedIn(stdout)).toEqual([])
  expect(obeyedIn(stderr)).toEqual([])
}

describe('a look at the part', () => {
  test.each(['inspect part', 'inspect --status part', 'verify part'])(
    '%s shows every name, escaped, at the beginning of a line',
    async (line) => {
      const ended = await runIn(folder, line.split(' '))
      expectHarmless(ended)
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      const lines = ended.stdout.split('\n')
      for (const name of OF_TEXT) {
        const shown = lines.filter((one) => one.startsWith(`${printable(name)} `))
        expect([name, shown.length]).toEqual([name, 1])
      }
    },
  )

  test.each([
    ['inspect part', HOSTILE_NAMES.length + 1, 'name'],
    ['inspect --status part', HOSTILE_NAMES.length + 1, 'name'],
    ['verify part', HOSTILE_NAMES.length, 'region'],
  ] as const)(
    '%s --json is one object, with the names that there are',
    async (line, count, key) => {
      const ended = await runIn(folder, [...line.split(' '), '--json'])
      expectHarmless(ended)
      expect(ended).toMatchObject({ code: 0, stderr: '' })
      const { regions } = JSON.parse(ended.stdout) as { regions: Record<typeof key, string>[] }
      const names = regions.map((one) => one[key])
      expect(names).toHaveLength(count)
      expect(names.filter((name) => OF_TEXT.includes(name))).toEqual(OF_TEXT)
    },
  )

  test('a report of what is lost names the region so', async () => {
    const shown = printable(OF_TEXT[0]!)
    const scanned = await runIn(folder, ['recover', 'scanned', '--scan'])
    expectHarmless(scanned)
    expect(scanned.code).toBe(0)
    for (const args of [
      ['verify', 'lost'],
      ['recover', 'lost', '--scan'],
      ['inspect', 'lost'],
    ]) {
      const ended = await runIn(folder, args)
      expectHarmless(ended)
      expect([args, ended.code]).toEqual([args, 1])
      expect(ended.stdout).toContain(shown)
    }
    const ended = await runIn(folder, ['read', 'lost', OF_TEXT[0]!])
    expectHarmless(ended)
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain(`record 0 of '${shown}' is lost`)
  })

  test('a card that serves it announces them so, and so does a look over the wire', async () => {
    const server = ['served', '--udp', '127.0.0.1:0']
    const announced = await endAt(folder, ['emulate', ...server], 'perdure://', 'SIGTERM')
    expectHarmless(announced)
    for (const name of OF_TEXT) expect(announced.stderr).toContain(`region '${printable(name)}'`)
    const json = await endAt(folder, ['emulate', ...server, '--json'], '"report"', 'SIGTERM')
    expectHarmless(json)
    const { regions } = JSON.parse(json.stdout.split('\n')[0]!) as { regions: string[] }
    expect(regions).toContain(WORST)
    const [child, told] = await emulateIn(folder, 1, server)
    const ended = await runIn(folder, ['inspect', told[0]!])
    expect(await stop(child)).toBe(0)
    expectHarmless(ended)
    expect(ended.stdout).toContain(SHOWN)
  })
})

describe('with the name on the command line', () => {
  test.each(OF_TEXT.slice(0, 3).map((name) => [printable(name), name]))(
    '%s is read, persisted and mapped',
    async (shown, name) => {
      const read = await runIn(folder, ['read', 'part', name, '--raw', '--json'])
      expectHarmless(read)
      const number = HOSTILE_NAMES.findIndex(([, one]) => Buffer.from(name).equals(one))
      expect(read.stdout).toContain(
        `"data":"${Buffer.from(`record of ${number} .`).toString('base64')}"`,
      )
      writeFileSync(at('file'), 'two')
      const persisted = await runIn(folder, [
        'persist',
        'part',
        name,
        'file',
        '--raw',
        '--slot',
        '1',
      ])
      expectHarmless(persisted)
      expect(persisted.stdout).toContain(`in '${shown}'`)
      const mapped = await runIn(folder, ['inspect', '--status', 'part', '--region', name])
      expectHarmless(mapped)
      expect(mapped.stdout).toContain(shown)
    },
  )

  test.each([
    ['read of what holds no records', ['read', 'part', WORST], SHOWN],
    ['persist into it', ['persist', 'part', WORST, 'part'], SHOWN],
    [
      'a slot that is not there',
      ['read', 'part', OF_TEXT[0]!, '--slots', '7'],
      printable(OF_TEXT[0]!),
    ],
    [
      'a record that is not lost',
      ['recover', 'part', '--discard', `${OF_TEXT[0]}:0`],
      printable(OF_TEXT[0]!),
    ],
    ['a region that is not there', ['read', 'part', `${WORST}b`], `${SHOWN}b`],
    [
      'a name that no card gives',
      ['emulate', 'new', '--create', '--udp', '127.0.0.1:0', '--region', `${WORST}:4:64`],
      SHOWN,
    ],
  ] as const)('%s: the error names it in one line', async (_, args, shown) => {
    for (const json of [[], ['--json']]) {
      const ended = await runIn(folder, [...args, ...json])
      expectHarmless(ended)
      expect(ended.code).not.toBe(0)
      expect(ended.stderr).toMatch(/^[^\n]+\n$/)
      const { stderr } = ended
      const said =
        json.length === 0
          ? stderr
          : (JSON.parse(stderr) as { error: { message: string } }).error.message
      expect(said).toContain(shown)
    }
  })
})

describe('a card that says such things', () => {
  test('its console, and a text on its line, come out escaped', async () => {
    const server = createServer((socket) => {
      socket.on('error', () => {})
      const answer = JSON.stringify({ [WORST]: WORST, inside: { [WORST]: 1 } })
      socket.on('data', () => void socket.end(`${answer}\n`))
    })
    await new Promise<void>((resolve) => void server.listen(at('console'), resolve))
    for (const json of [[], ['--json']]) {
      const ended = await runIn(folder, ['console', 'unix:console', 'status', ...json])
      expectHarmless(ended)
      expect(ended.code).toBe(0)
      if (json.length === 0) expect(ended.stdout).toContain(`${SHOWN}  `)
      else expect(JSON.parse(ended.stdout)).toEqual({ [WORST]: WORST, inside: { [WORST]: 1 } })
    }
    await new Promise((resolve) => void server.close(resolve))
  })
})

/** What the output writes while `work` runs, to a terminal with colours. */
function onTerminal(work: (output: Output) => void): string {
  return writtenBy(true, () => work(new Output(false)))
}

describe('on a terminal', () => {
  test('a line has colours of ours alone', () => {
    const said = onTerminal((output) => {
      output.print(WORST, 'bold')
      output.say(WORST, 'red')
      output.fail(new Error(WORST))
    })
    // An error of another program may have several lines, each of them is one.
    const [head, rest] = ['\\x1b[31m\\x07\\x0d', 'a\\u202e\\x9b']
    expect(said).toBe(
      `\u001b[1m${SHOWN}\u001b[22m\n\u001b[31m${SHOWN}\u001b[39m\n` +
        `\u001b[31mperdure:\u001b[39m ${head}\n${rest}\n`,
    )
  })

  test('progress names a region without what would move it', () => {
    const said = onTerminal((output) => output.progress(WORST, 1)(1))
    expect(said).toBe(`\r${SHOWN}  1 of 1 records`)
  })

  test('a table is as wide as what it shows', () => {
    const lines = table(
      ['region', 'n'],
      [
        [WORST, 1],
        ['a', 2],
      ],
    )
    const shown = onTerminal((output) => lines.forEach((line) => void output.print(line)))
    const [, , first, second] = shown.split('\n')
    expect(first!.indexOf('1', SHOWN.length)).toBe(second!.indexOf('2'))
  })
})
