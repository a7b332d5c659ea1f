/** `perdure emulate --key`, as a user closes an emulated card, and comes to it (R1-S13). */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../dist/perdure.js')
const folder = mkdtempSync(join(tmpdir(), 'perdure-peers-'))
const started: ChildProcess[] = []

afterAll(() => {
  for (const child of started) child.kill('SIGKILL')
  rmSync(folder, { recursive: true })
})

/** What a command of that client says; its home is a folder of its own. */
function perdure(client: string, ...args: string[]): { code: number | null; text: string } {
  const { PERDURE_KEY: _, ...env } = process.env
  const home = { XDG_CONFIG_HOME: join(folder, client) }
  const done = spawnSync(process.execPath, [COMMAND, ...args], {
    ...{ cwd: folder, encoding: 'utf8', env: { ...env, ...home } },
  })
  return { code: done.status, text: `${done.stdout}${done.stderr}` }
}

/** Starts a card; the address that it prints. */
async function emulate(client: string, ...args: string[]): Promise<string> {
  const { PERDURE_KEY: _, ...env } = process.env
  const options = ['--size', '1M', '--udp', '127.0.0.1:0', '--region', 'records:8:64', ...args]
  const child = spawn(process.execPath, [COMMAND, 'emulate', ...options], {
    ...{ cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] },
    env: { ...env, XDG_CONFIG_HOME: join(folder, client) },
  })
  started.push(child)
  for await (const line of createInterface({ input: child.stdout! })) return line
  throw new Error('the card did not start')
}

const mode = (path: string): number => statSync(join(folder, path)).mode & 0o777

describe('an emulated card with a key', () => {
  test('R1-S13: makes its key and its operator’s, and takes his calls alone', async () => {
    const target = await emulate('operator', '--key', 'card.key')
    expect(target).toMatch(/^perdure:\/\/[0-9a-f]{64}@127\.0\.0\.1:\d+$/)
    expect([mode('card.key'), mode('operator/perdure/key')]).toEqual([0o600, 0o600])
    writeFileSync(join(folder, 'file'), 'sixty-four bytes at the most, in one record')
    expect(perdure('operator', 'persist', target, 'records', 'file').code).toBe(0)
    const status = perdure('operator', 'inspect', target)
    expect(status.text).toContain('its peers, in sessions')
    const stranger = perdure('stranger', 'inspect', target)
    expect(stranger.code).not.toBe(0)
    expect(stranger.text).toContain("'perdure key new' makes one")
    expect(perdure('stranger', 'key', 'new').code).toBe(0)
    expect(perdure('stranger', 'inspect', target).text).toContain('PEER_UNKNOWN')
    const inTheClear = perdure('stranger', 'inspect', target.replace(/[0-9a-f]{64}@/, ''))
    expect(inTheClear.text).toContain('NO_SESSION')
  })

  test('R1-S14: gives each peer of the file what its line says', async () => {
    const key = perdure('reader', 'key', 'new', '--json').text
    const { publicKey } = JSON.parse(key) as { publicKey: string }
    writeFileSync(join(folder, 'peers'), `# who may come\n${publicKey} reader read:records\n`)
    const target = await emulate('operator', '--key', 'other.key', '--peers', 'peers')
    expect(perdure('reader', 'inspect', target).text).toMatch(/^records +records/m)
    writeFileSync(join(folder, 'more'), 'what a reader may not store')
    const refused = perdure('reader', 'persist', target, 'records', 'more')
    expect(refused.code).not.toBe(0)
    expect(refused.text).toContain('REM_ACCESS_ERR')
    expect(perdure('operator', 'inspect', target).text).toContain('PEER_UNKNOWN')
  })

  test('keeps its key over restarts, and says what is wrong with files', () => {
    const before = readFileSync(join(folder, 'card.key'), 'utf8')
    writeFileSync(join(folder, 'wrong'), 'zz somebody admin\n')
    const wrong = perdure('operator', 'emulate', '--key', 'card.key', '--peers', 'wrong')
    expect(wrong.code).toBe(65)
    expect(wrong.text).toContain('wrong, line 1')
    const alone = perdure('operator', 'emulate', '--peers', 'peers')
    expect(alone.text).toContain('--peers is of --key')
    expect(readFileSync(join(folder, 'card.key'), 'utf8')).toBe(before)
  })
})
