/** `perdure emulate --key`, as a user closes an emulated card, and comes to it (R1-S13). */

import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'

const COMMAND = join(dirname(fileURLToPath(import.meta.url)), '../../../dist/perdure.js')
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

  test('R1-S13: is come to at an IPv6 address alike, and named by it', async () => {
    const target = await emulate('operator', '--udp', '[::1]:0', '--key', 'sixth.key')
    expect(target).toMatch(/^perdure:\/\/[0-9a-f]{64}@\[::1\]:\d+$/)
    writeFileSync(join(folder, 'sixth'), 'what goes over IPv6')
    expect(perdure('operator', 'persist', target, 'records', 'sixth').code).toBe(0)
    expect(perdure('operator', 'read', target, 'records', '--out', 'sixth.back').code).toBe(0)
    expect(readFileSync(join(folder, 'sixth.back'), 'utf8')).toBe('what goes over IPv6')
    const inTheClear = perdure('operator', 'inspect', target.replace(/[0-9a-f]{64}@/, ''))
    expect(inTheClear.text).toContain('NO_SESSION')
    const other = perdure('operator', 'inspect', target.replace(/[0-9a-f]{64}/, '5'.repeat(64)))
    expect(other.text).toContain('HANDSHAKE')
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

  test('R1-S16: lets an admin say who comes while it serves, and keeps that', async () => {
    const publicKeyOf = (client: string): string => {
      return perdure(client, 'key', 'new').text.split('\n')[0]!
    }
    const [ann, ben] = [publicKeyOf('ann'), publicKeyOf('ben')]
    writeFileSync(join(folder, 'list'), `# who may come\n${ann} ann admin`)
    const target = await emulate('operator', '--key', 'third.key', '--peers', 'list')
    const peers = (client: string, ...args: string[]): ReturnType<typeof perdure> => {
      return perdure(client, 'peers', args[0]!, target, ...args.slice(1))
    }
    expect(peers('ben', 'list').text).toContain('PEER_UNKNOWN')
    const rights = ['write:records', 'read:price%20lists']
    const added = peers('ann', 'add', ben, 'ben', ...rights)
    expect(added).toEqual({
      code: 0,
      text: 'ben may come: read:price%20lists write:records\n',
    })
    writeFileSync(join(folder, 'of-ben'), 'what a writer may store')
    expect(perdure('ben', 'persist', target, 'records', 'of-ben').code).toBe(0)
    expect(peers('ben', 'list').text).toContain('FORBIDDEN')
    const list = peers('ann', 'list').text
    expect(list).toMatch(new RegExp(`^${ann}  ann +admin$`, 'm'))
    expect(list).toMatch(new RegExp(`^${ben}  ben +read:price%20lists write:records$`, 'm'))
    const told = JSON.parse(peers('ann', 'list', '--json').text) as { peers: unknown[] }
    expect(told.peers).toContainEqual({
      ...{ publicKey: ben, name: 'ben', admin: false },
      ...{ read: ['price lists'], write: ['records'] },
    })
    expect(peers('ann', 'add', ben, 'other', 'admin')).toMatchObject({
      code: 69,
      text: expect.stringContaining('PEER_TAKEN'),
    })
    expect(peers('ann', 'remove', ann)).toMatchObject({
      code: 69,
      text: expect.stringContaining('PEERS_FIXED'),
    })
    expect(readFileSync(join(folder, 'list'), 'utf8')).toBe(
      `# who may come\n${ann} ann admin\n ${ben} ben read:price%20lists write:records\n`,
    )
    expect(peers('ann', 'remove', 'ben')).toEqual({ code: 0, text: 'ben comes no more\n' })
    expect(perdure('ben', 'inspect', target).text).toContain('PEER_UNKNOWN')
    expect(peers('ann', 'remove', 'ben')).toMatchObject({
      code: 64,
      text: expect.stringContaining('nobody of that name or key may come there'),
    })
    expect(readFileSync(join(folder, 'list'), 'utf8')).toContain(`\n#${ben} ben `)
  })

  test('R1-S16: refuses words that are no peer, and says what to write', () => {
    const key = 'a'.repeat(62)
    const target = 'perdure://127.0.0.1:9'
    for (const [words, told] of [
      [[`${key}09`, 'ann', 'root'], "'root' is no right"],
      [[`${key}0`, 'ann', 'admin'], '64 hexadecimal digits'],
      [['#', 'ann', 'admin'], 'a peer begins with its public key'],
      [[`${key}09`, 'ann lee', 'admin'], 'no blanks: write %20'],
      [[`${key}09`, 'ann', 'read:%'], 'names no region'],
    ] as const) {
      const { code, text } = perdure('operator', 'peers', 'add', target, ...words)
      expect(text).toContain(told)
      expect([64, 65]).toContain(code)
    }
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
