/** A `kill -9` of the npm that has started an emulated card ends the card, too (R1-U6). */

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { afterAll, expect, test } from 'vitest'
import { runIn } from '../../support/command/command.ts'
import { ROOT } from '../../support/source/sources.ts'

const COMMAND = join(ROOT, 'dist/perdure.js')
const CARD = ['emulate', 'part.img', '--create', '--size', '1M', '--udp', '127.0.0.1:0']
const folder = mkdtempSync(join(tmpdir(), 'perdure-with-npm-'))
afterAll(() => rmSync(folder, { recursive: true }))

type Starter = ChildProcessByStdio<null, Readable, null>

/** Runs its arguments as its child, whose number it leaves in a file. */
const STARTER =
  "const { pid } = require('node:child_process').spawn(process.argv[1], process.argv.slice(2), " +
  "{ stdio: 'inherit' }); require('node:fs').writeFileSync('pid', String(pid))"

/** Starts what starts a card, and waits for the address of the card. */
async function start(
  between: readonly string[],
  more: NodeJS.ProcessEnv,
): Promise<{ starter: Starter; address: string }> {
  const { npm_command: _, ...env } = process.env
  const card = [...between, process.execPath, COMMAND, ...CARD]
  const starter = spawn(process.execPath, ['-e', STARTER, '--', ...card], {
    ...{ cwd: folder, env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'ignore'] },
  })
  const [address] = await once(createInterface({ input: starter.stdout }), 'line')
  return { starter, address: String(address) }
}

const ENGINE = ['--engine', 'node']

test.each([
  ['npm', []],
  ['npm, with a shell between them', ['sh', '-c', '"$0" "$@"; exit $?']],
])('R1-U6: the card ends with %s, and its image may be used at once', async (_, between) => {
  const { starter } = await start(between, { npm_command: 'exec' })
  // The card holds the output, too.
  const ended = once(starter, 'close')
  starter.kill('SIGKILL')
  await ended
  expect((await runIn(folder, ['status', 'part.img', ...ENGINE])).code).toBe(0)
})

test('R1-U6: a card that something else has started goes on without that', async () => {
  const { starter, address } = await start([], {})
  const [ended, closed] = [once(starter, 'exit'), once(starter, 'close')]
  starter.kill('SIGKILL')
  await ended
  for (let i = 0; i < 3; i++) expect((await runIn(folder, ['status', address])).code).toBe(0)
  process.kill(Number(readFileSync(join(folder, 'pid'), 'utf8')))
  await closed
})
